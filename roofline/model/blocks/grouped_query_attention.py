"""Softmax attention with a KV cache: MHA, MQA, GQA; windows, chunks, sinks, gates, shared caches, an indexer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from ... import operators
from ...arrays import smaller
from ...errors import InvalidInput, Number
from ...operators.operator import Operator, Pass, Segment
from ...operators.softmax_attention import (
    Reads,
    attend,
    attention,
    chunked_pairs,
    mutual_attention,
    mutual_pairs,
    visible_pairs,
)
from ...operators.weights import Linear, Vector, Weight
from .block import Block, Cache, whole
from .indexer import Indexer


@dataclass(frozen=True, eq=False, kw_only=True)
class Attention(Block):
    """Softmax attention whose query heads share KV heads; causal, except in encoders.

    ``kv_heads == query_heads`` is MHA (arXiv:1706.03762), ``kv_heads == 1`` MQA (arXiv:1911.02150), in between GQA
    (arXiv:2305.13245).  A token is projected to ``query_heads`` queries of ``head_dim`` and to ``kv_heads`` keys of
    ``head_dim`` and values of ``value_dim``; the heads' outputs are projected back.  The cache contains keys and
    values: ``kv_heads * (head_dim + value_dim)`` values per token, for the last ``window`` tokens if there is a window
    (arXiv:2004.05150).  A token sees ``window`` tokens, itself included; in a *chunked* layer (Llama 4) only those of
    its own chunk of that length.

    Without a causal mask, as in encoders, all tokens of a sequence see each other and nothing is cached; a window then
    has the token in its middle.

    With an ``indexer`` (see `Indexer`), every token is scored and attention runs over the best only.  All tokens are
    stored, but fewer are read.

    Attributes
    ----------
    query_heads, kv_heads, head_dim : int
        Shape of the heads.
    value_dim : int, optional
        Width of a value, ``head_dim`` if None.
    window : int, optional
        Tokens that a query sees at most, itself included; None for all.
    chunked : bool
        Whether the window is a chunk with fixed borders.
    qkv_bias, output_bias : bool
        Whether the projections have biases.
    query_bias : bool
        Whether only the query projection has a bias (``qkv_bias`` is for all three).
    qk_norm : bool or str
        Whether queries and keys are normalized: ``True`` or ``"head"`` with one vector that all heads share,
        ``"width"`` with one over all heads (OLMo 2), ``"head_bias"`` and ``"width_bias"`` with an additional bias.
    sinks : bool
        Whether each query head has a learned sink (gpt-oss; arXiv:2309.17453).
    gate : str
        ``"value"`` or ``"head"``: the output is multiplied by a learned gate of that width (arXiv:2505.06708).
    shares_kv : bool
        Whether it reads the cache of an earlier layer instead of its own keys and values (arXiv:2405.12981).
    keys_as_values : bool
        Whether values are the keys, unprojected (Gemma 4).
    value_norm : bool
        Whether the heads' outputs are normalized together before the output projection (BitNet).
    query_rank : int, optional
        Width of a normalized latent from which queries are projected (Step3, arXiv:2507.19427, section 3.1).
    input_width : int, optional
        Width of the input, ``hidden`` if None (Zamba concatenates the embedding).
    gate_bias : bool
        Whether the projection of the gate has a bias.
    vectors : int
        Further parameters that are not matrices.
    differential : bool
        Whether pairs of heads subtract (arXiv:2410.05258); four vectors of ``head_dim`` more.
    indexer : Indexer, optional
        Indexer that selects the tokens to attend to; None for all.
    causal : bool
        Whether a token sees only earlier tokens, whose keys and values are cached; in an encoder it sees all.

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1, or the query heads are not a multiple of the KV heads.
    """

    query_heads: int
    kv_heads: int
    head_dim: int
    value_dim: int | None = None
    window: int | None = None
    chunked: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    query_bias: bool = False
    qk_norm: bool | str = False
    sinks: bool = False
    gate: str = ""
    shares_kv: bool = False
    keys_as_values: bool = False
    value_norm: bool = False
    query_rank: int | None = None
    input_width: int | None = None
    differential: bool = False
    gate_bias: bool = False
    vectors: int = 0
    indexer: Indexer | None = None
    causal: bool = True

    def __post_init__(self) -> None:
        whole(self, "hidden", "query_heads", "kv_heads", "head_dim")
        for name in ("value_dim", "window", "query_rank", "input_width"):
            if getattr(self, name) is not None:
                whole(self, name)
        if self.query_heads % self.kv_heads:
            raise InvalidInput(f"query_heads must be a multiple of kv_heads: {self.query_heads} / {self.kv_heads}")
        if self.qk_norm not in QK_NORMS:
            raise InvalidInput(f"qk_norm must be one of {', '.join(map(str, QK_NORMS))}: {self.qk_norm!r}")
        if self.gate not in ("", "head", "value"):
            raise InvalidInput(f"gate must be empty, 'head' or 'value': {self.gate!r}")

    @property
    def kind(self) -> str:
        """MHA, MQA or GQA, heads, and special features."""
        family, heads = "GQA", f"{self.query_heads}/{self.kv_heads}"
        if self.kv_heads == 1:
            family = "MQA"
        elif self.kv_heads == self.query_heads:
            family, heads = "MHA", f"{self.query_heads}"
        words = [f"{family} {heads} x {self.head_dim}"]
        if self.window:
            words.append(f"{'chunk' if self.chunked else 'window'} {self.window:,}")
        if self.indexer:
            words.append(self.indexer.kind)
        if self.shares_kv:
            words.append("shared KV")
        if not self.causal:
            words.append("bidirectional")
        return ", ".join(words)

    @property
    def value_width(self) -> int:
        """Width of one value."""
        return self.value_dim or self.head_dim

    @property
    def kv_values(self) -> int:
        """Cached values per token."""
        return self.kv_heads * (self.head_dim + self.value_width)

    def weights(self) -> tuple[Weight, ...]:
        """Projections, then the small vectors, then the indexer's."""
        vectors = [
            Vector("qk_norm", self._norm_size()),
            Vector("query_norm", self.query_rank or 0),
            Vector("sinks", self.query_heads if self.sinks else 0),
            Vector("value_norm", self.query_heads * self.value_width if self.value_norm else 0),
            Vector("vectors", self.vectors),
            Vector("lambdas", 4 * self.head_dim if self.differential else 0),
        ]
        small = tuple(vector for vector in vectors if vector.size)
        indexer = self.indexer.weights(self.hidden, self.hidden) if self.indexer else ()
        return (*self._inward, self._outward, *small, *indexer)

    def _norm_size(self) -> int:
        if not self.qk_norm:
            return 0
        norm = "head" if self.qk_norm is True else self.qk_norm
        per_head = norm.startswith("head")  # one vector shared by all heads, else one vector over all of them
        heads = 1 if per_head else self.query_heads
        if not self.shares_kv:
            heads += 1 if per_head else self.kv_heads
        vectors = 2 if norm.endswith("bias") else 1
        return vectors * heads * self.head_dim

    @cached_property
    def _inward(self) -> tuple[Linear, ...]:
        found = [self._by_heads("q_proj", self.query_heads, self.head_dim, self.qkv_bias or self.query_bias)]
        if self.query_rank:
            down = Linear("q_down_proj", self.input_width or self.hidden, self.query_rank, "attention")
            found = [down, replace(found[0], d_in=self.query_rank)]
        if not self.shares_kv:
            found.append(self._by_heads("k_proj", self.kv_heads, self.head_dim, self.qkv_bias))
        if not (self.shares_kv or self.keys_as_values):
            found.append(self._by_heads("v_proj", self.kv_heads, self.value_width, self.qkv_bias))
        if self.gate:
            size = self.value_width if self.gate == "value" else 1
            found.append(self._by_heads("gate_proj", self.query_heads, size, self.gate_bias))
        return tuple(found)

    def _by_heads(self, name: str, heads: int, width: int, bias: bool) -> Linear:
        """Return a projection to ``heads`` of ``width``, divided by heads; engines run all of them as one product."""
        d_in = self.input_width or self.hidden
        joins = "q_down_proj" if self.query_rank else "q_proj"
        joins = "" if name == "q_proj" else joins
        return Linear(name, d_in, heads * width, "attention", bias, split="columns", pieces=heads, joins=joins)

    @cached_property
    def _outward(self) -> Linear:
        width = self.query_heads * self.value_width
        bias, heads = self.output_bias, self.query_heads
        return Linear("o_proj", width, self.hidden, "attention", bias, split="rows", pieces=heads)

    def caches(self) -> tuple[Cache, ...]:
        """Keys and values, capped by the window, and the indexer's keys; nothing without a causal mask."""
        if self.shares_kv or not self.causal:
            return ()
        own = Cache(values_per_token=self.kv_values, window=self.window, pieces=self.kv_heads)
        return (own, *(self.indexer.caches() if self.indexer else ()))

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Yield the input projections, those and the scores of the indexer, attention per segment, the output."""
        for weight in self._inward:
            yield operators.linear(weight, run.tokens, run)
        if self.qk_norm:
            heads = self.query_heads + (0 if self.shares_kv else self.kv_heads)
            yield operators.elementwise(
                "qk_norm", run.tokens, 2 * heads * self.head_dim, run, parameters=self._norm_size()
            )
        if self.indexer:
            yield from self.indexer.projections(run, self.hidden, self.hidden)
            yield from self.indexer.scores(run)
        for segment in run.segments:
            yield self._attention(segment, run)
        yield operators.linear(self._outward, run.tokens, run)

    def _attention(self, segment: Segment, run: Pass) -> Operator:
        if not self.causal:
            return mutual_attention(
                segment,
                run,
                query_heads=self.query_heads,
                key_dim=self.head_dim,
                value_dim=self.value_width,
                kv_heads=self.kv_heads,
                pairs=mutual_pairs(segment.new_tokens, self.window, chunked=self.chunked),
            )
        if not (self.chunked or self.shares_kv or self.indexer):
            return attention(
                segment,
                run,
                query_heads=self.query_heads,
                key_dim=self.head_dim,
                value_dim=self.value_width,
                kv_values=self.kv_values,
                kv_heads=self.kv_heads,
                window=self.window,
            )
        pairs, reads = self._pairs_and_reads(segment)
        return attend(
            segment,
            run,
            query_heads=self.query_heads,
            key_dim=self.head_dim,
            value_dim=self.value_width,
            pairs=pairs,
            kv_values=self.kv_values,
            kv_heads=self.kv_heads,
            reads=reads,
        )

    def _pairs_and_reads(self, segment: Segment) -> tuple[Number, Reads]:
        new, past = segment.new_tokens, segment.past_tokens
        if self.indexer:
            return self.indexer.selected(segment)
        if self.chunked and self.window is not None:
            seen = past - past // self.window * self.window
            reads = Reads(past=seen, least_past=seen, new=new, written=new)
            return chunked_pairs(new, past, self.window), reads
        pairs = visible_pairs(new, past, self.window)
        seen = past if self.window is None else smaller(past, self.window - 1)
        # Another layer has read the same entries, and a cache that is small enough could still be on the chip.
        return pairs, Reads(past=seen, least_past=0.0, new=new, written=0.0)


QK_NORMS = (False, True, "head", "width", "head_bias", "width_bias")
