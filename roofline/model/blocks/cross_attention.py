"""Cross-attention: generated tokens attend to an encoder's output, or text to the tokens of an image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ... import operators
from ...arrays import anywhere, scalar
from ...operators.operator import Operator, Pass, Segment
from ...operators.softmax_attention import Reads, attend
from ...operators.weights import Linear, Vector, Weight
from .block import Block, Cache, whole
from .grouped_query_attention import Attention
from .mlp import MLP


@dataclass(frozen=True, eq=False, kw_only=True)
class CrossAttentionLayer(Block):
    """A whole layer that attends to image tokens (Llama 3.2 Vision, arXiv:2407.21783, section 7.3).

    Keys and values come from the image, so the cache depends on image tokens and not on the context.  A sequence
    without an image skips the whole layer, including its MLP: it is resident, but does no work for text alone.

    Attributes
    ----------
    query_heads, kv_heads, head_dim : int
        Shape of the heads.
    intermediate : int
        Inner width of its MLP.

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1, or the query heads are not a multiple of the KV heads.
    """

    query_heads: int
    kv_heads: int
    head_dim: int
    intermediate: int

    def __post_init__(self) -> None:
        whole(self, "hidden", "query_heads", "kv_heads", "head_dim", "intermediate")

    @property
    def kind(self) -> str:
        """Heads."""
        return f"cross-attention {self.query_heads}/{self.kv_heads} x {self.head_dim} to an image"

    def _look(self) -> SourceAttention:
        """The attention to the positions of images, whose keys and values the first pass projects."""
        return SourceAttention(
            hidden=self.hidden, query_heads=self.query_heads, kv_heads=self.kv_heads, head_dim=self.head_dim
        )

    def _mlp(self) -> MLP:
        return MLP(hidden=self.hidden, intermediate=self.intermediate)

    def weights(self) -> tuple[Weight, ...]:
        """Attention, MLP, and a gate for each."""
        attention = Attention(
            hidden=self.hidden,
            query_heads=self.query_heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            qk_norm=True,
        )
        return (*attention.weights(), *self._mlp().weights(), Vector("gates", 2, "other"))

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Yield attention to the images and the MLP, for the sequences that have images."""
        looking: list[Segment] = []
        for segment in run.segments:
            looks = scalar(np.asarray(segment.source_tokens) > 0) * 1.0
            looking.append(replace(segment, sequences=segment.sequences * looks))
        if not any(anywhere(segment.source_tokens) for segment in run.segments):
            return
        inner = replace(run, segments=tuple(looking))
        runs = scalar(np.asarray(inner.tokens) > 0) * 1.0
        for block in (self._look(), self._mlp()):
            for operator in block.operators(inner):
                yield operator.times(runs)


@dataclass(frozen=True, eq=False, kw_only=True)
class SourceAttention(Block):
    """Attention of a decoder to the tokens of its encoder (arXiv:1706.03762, section 3.2.3).

    Keys and values are projected once, in the pass that encodes the source; every later step reads all of them.  A
    source token takes as much cache as a generated token takes in self-attention.  If the source always has
    ``positions`` tokens (Whisper's window of 30 s), their cache is constant.

    Attributes
    ----------
    query_heads, kv_heads, head_dim : int
        Shape of the heads.
    positions : int, optional
        Tokens of the source, if their number is fixed.
    bias : bool
        Whether queries and the output have biases.
    vectors : int
        Further parameters that are not matrices: biases of the values.

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1.
    """

    query_heads: int
    kv_heads: int
    head_dim: int
    positions: int | None = None
    bias: bool = False
    vectors: int = 0

    def __post_init__(self) -> None:
        whole(self, "hidden", "query_heads", "kv_heads", "head_dim")
        if self.positions is not None:
            whole(self, "positions")

    @property
    def kind(self) -> str:
        """Heads."""
        heads = f"{self.query_heads}" if self.kv_heads == self.query_heads else f"{self.query_heads}/{self.kv_heads}"
        return f"cross-attention {heads} x {self.head_dim}"

    def _self_attention(self) -> Attention:
        return Attention(
            hidden=self.hidden,
            query_heads=self.query_heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            query_bias=self.bias,
            output_bias=self.bias,
            vectors=self.vectors,
        )

    def weights(self) -> tuple[Weight, ...]:
        """Four projections as in self-attention; keys and values are computed from the source."""
        return tuple(
            replace(weight, joins="") if isinstance(weight, Linear) else weight
            for weight in self._self_attention().weights()
        )

    def caches(self) -> tuple[Cache, ...]:
        """Keys and values of a source of fixed length, in 16 bits; others are counted in self-attention's cache."""
        if self.positions is None:
            return ()
        values = self._self_attention().kv_values
        return (Cache(state_bytes=self.positions * values * 16 / 8, pieces=self.kv_heads),)

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Yield queries and output of new tokens, keys and values of encoded sources, and attention per segment."""
        encoded = sum(segment.sequences * segment.encoded_tokens for segment in run.segments)
        inward = {weight.name: weight for weight in self.weights() if isinstance(weight, Linear)}
        for name in ("q_proj", "k_proj", "v_proj"):
            tokens = run.tokens if name == "q_proj" else encoded
            if anywhere(tokens):
                yield operators.linear(replace(inward[name], name=f"cross_{name}"), tokens, run)
        for segment in run.segments:
            source, new = segment.source_tokens, segment.encoded_tokens
            yield attend(
                replace(segment, past_tokens=source, shared_tokens=0.0),  # a prefix is shared, its source is not
                run,
                query_heads=self.query_heads,
                key_dim=self.head_dim,
                value_dim=self.head_dim,
                pairs=segment.new_tokens * source,
                kv_values=self._self_attention().kv_values,
                kv_heads=self.kv_heads,
                reads=Reads(past=source - new, least_past=source - new, new=new, written=new),
                name="cross_attention",
            )
        yield operators.linear(replace(inward["o_proj"], name="cross_o_proj"), run.tokens, run)
