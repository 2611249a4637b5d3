"""Cross-attention: generated tokens attend to what an encoder made, or text to the tokens of an image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ... import operators
from ...arrays import anywhere
from ...operators.operator import Operator, Pass
from ...operators.softmax_attention import Reads, attend
from ...operators.weights import Linear, Vector, Weight
from .block import Block, Cache, whole
from .grouped_query_attention import Attention
from .mlp import MLP


@dataclass(frozen=True, eq=False, kw_only=True)
class CrossAttentionLayer(Block):
    """A whole layer that attends to image tokens (Llama 3.2 Vision, arXiv:2407.21783, section 7.3).

    Its keys and values come from the image, so its cache depends on image tokens and not on the context, and a pass
    without an image skips it, MLP and all: it is resident and does no work in text.

    Attributes
    ----------
    query_heads, kv_heads, head_dim : int
        Shape of the heads.
    intermediate : int
        Inner width of its MLP.

    Raises
    ------
    InvalidInput
        A size that is not a whole number >= 1, or query heads that the KV heads do not divide.
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

    def weights(self) -> tuple[Weight, ...]:
        """Attention, MLP, a gate for each."""
        attention = Attention(
            hidden=self.hidden,
            query_heads=self.query_heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            qk_norm=True,
        )
        mlp = MLP(hidden=self.hidden, intermediate=self.intermediate)
        return (*attention.weights(), *mlp.weights(), Vector("gates", 2, "other"))

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Nothing without an image."""
        yield from ()


@dataclass(frozen=True, eq=False, kw_only=True)
class SourceAttention(Block):
    """Attention of a decoder to the tokens of its encoder (arXiv:1706.03762, section 3.2.3).

    Keys and values are projected once, in the pass that encodes the source; every later step reads all of them. They
    take as much of the cache for each token of the source as self-attention does for each generated one: one sequence
    of both takes what a decoder of as many tokens does. Where the source always has ``positions`` tokens (Whisper's
    window of 30 s), theirs is a constant.

    Attributes
    ----------
    query_heads, kv_heads, head_dim : int
        Shape of the heads.
    positions : int, optional
        Tokens of the source, if they are always as many.
    bias : bool
        Whether queries and the output have biases.
    vectors : int
        Further parameters that are no matrix: biases of the values.

    Raises
    ------
    InvalidInput
        A size that is not a whole number >= 1.
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
        """Four projections as in self-attention; keys and values are those of the source."""
        return tuple(
            replace(weight, joins="") if isinstance(weight, Linear) else weight
            for weight in self._self_attention().weights()
        )

    def caches(self) -> tuple[Cache, ...]:
        """Keys and values of a source of fixed length, in 16 bits; of any other they are in that of self-attention."""
        if self.positions is None:
            return ()
        values = self._self_attention().kv_values
        return (Cache(state_bytes=self.positions * values * 16 / 8, pieces=self.kv_heads),)

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Queries and output of the new tokens; keys and values where a source is encoded; attention by segment."""
        encoded = sum(segment.sequences * segment.encoded_tokens for segment in run.segments)
        inward = {weight.name: weight for weight in self.weights() if isinstance(weight, Linear)}
        for name in ("q_proj", "k_proj", "v_proj"):
            tokens = run.tokens if name == "q_proj" else encoded
            if anywhere(tokens):
                yield operators.linear(replace(inward[name], name=f"cross_{name}"), tokens, run)
        for segment in run.segments:
            source, new = segment.source_tokens, segment.encoded_tokens
            yield attend(
                replace(segment, past_tokens=source),
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
