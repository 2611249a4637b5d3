"""Multi-head latent attention (MLA): a low-rank latent is cached instead of keys and values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from ... import operators
from ...arrays import FrozenMapping, anywhere, larger, smaller
from ...errors import InvalidInput, Number
from ...operators.operator import Operator, Pass, Segment
from ...operators.softmax_attention import Reads, attend, visible_pairs
from ...operators.weights import Linear, Vector, Weight
from ...operators.work import Work
from .block import Block, Cache, whole
from .indexer import Indexer


@dataclass(frozen=True, eq=False, kw_only=True)
class MLA(Block):
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1).

    A token is compressed to a latent of ``kv_rank`` and one rotary key of ``rope_dim`` that all heads share; both are
    cached, ``kv_rank + rope_dim`` values per token whatever the number of heads.  ``kv_b_proj`` expands the latent to
    keys of ``nope_dim`` and values of ``value_dim`` for each of ``heads`` heads.

    There are two ways to compute it, with equal results:

    *expanded*
        keys and values of all tokens are built, then attention has ``2 (nope + rope + value)`` FLOPs per pair and head.
        Past tokens are expanded again in every pass: ``2 rank H (nope + value)`` FLOPs each.
    *absorbed*
        the key half of ``kv_b_proj`` is applied to the query and the value half to the output, once per *new* token;
        attention then runs on the latent itself, as MQA with keys of ``rank + rope`` and values of ``rank``:
        ``2 (rank + rope) + 2 rank`` FLOPs per pair and head (same section, "can be absorbed").

    The block yields the operators of both ways, and the faster one on the chip is chosen for each pass: absorbed in
    decode, expanded in prefill, either one in between.  Both read the latent cache once.

    Attributes
    ----------
    heads : int
        Query heads.
    q_rank : int, optional
        Rank of the query projection; None if it is one matrix.
    kv_rank, rope_dim, nope_dim, value_dim : int
        Widths of the latent, of the rotary part of a key, of the rest of a key, and of a value.
    bias : bool
        Whether the projections from and to the residual stream have biases.
    sinks : bool
        Whether each head has a learned sink.
    gate : str
        ``"value"`` or ``"head"``: the output is multiplied by a learned gate of that width.
    window : int, optional
        Tokens that a query sees at most; None for all.
    rope_norm : bool
        Whether the rotary key is normalized with a vector of its own.
    indexer : Indexer, optional
        Indexer that selects the tokens to attend to (DSA); None for all.
    shares_latent : bool
        Whether it reads the latent of an earlier layer instead of its own.
    vectors : int
        Further parameters that are not matrices.

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1 (``rope_dim``: >= 0).
    """

    heads: int
    q_rank: int | None = None
    kv_rank: int
    rope_dim: int
    nope_dim: int
    value_dim: int
    bias: bool = False
    sinks: bool = False
    gate: str = ""
    window: int | None = None
    rope_norm: bool = False
    indexer: Indexer | None = None
    shares_latent: bool = False
    vectors: int = 0

    def __post_init__(self) -> None:
        whole(self, "hidden", "heads", "kv_rank", "nope_dim", "value_dim")
        whole(self, "rope_dim", least=0)
        for name in ("q_rank", "window"):
            if getattr(self, name) is not None:
                whole(self, name)
        if self.gate not in ("", "head", "value"):
            raise InvalidInput(f"gate must be empty, 'head' or 'value': {self.gate!r}")

    @property
    def kind(self) -> str:
        """Heads and latent."""
        span = f", window {self.window:,}" if self.window else ""
        top = f", {self.indexer.kind}" if self.indexer else ""
        shared = ", shared latent" if self.shares_latent else ""
        return f"MLA {self.heads} x latent {self.kv_rank}+{self.rope_dim}{span}{top}{shared}"

    @property
    def latent(self) -> int:
        """Cached values per token."""
        return self.kv_rank + self.rope_dim

    @property
    def query_width(self) -> int:
        """Width of the input of an indexer's queries: the query latent, if there is one."""
        return self.q_rank or self.hidden

    @cached_property
    def _inward(self) -> tuple[Linear, ...]:
        queries = self.heads * (self.nope_dim + self.rope_dim)
        if self.q_rank:
            found = [
                Linear("q_a_proj", self.hidden, self.q_rank, "attention", self.bias),
                Linear("q_b_proj", self.q_rank, queries, "attention", split="columns", pieces=self.heads),
            ]
        else:
            found = [Linear("q_proj", self.hidden, queries, "attention", split="columns", pieces=self.heads)]
        queries_name = found[0].name
        if not self.shares_latent:
            found.append(Linear("kv_a_proj", self.hidden, self.latent, "attention", self.bias, joins=queries_name))
        if self.gate:
            size = self.heads * (self.value_dim if self.gate == "value" else 1)
            gate = Linear(
                "gate_proj",
                self.hidden,
                size,
                "attention",
                split="columns",
                pieces=self.heads,
                joins=queries_name,
            )
            found.append(gate)
        return tuple(found)

    @cached_property
    def kv_b_proj(self) -> Linear:
        """The expansion of the latent."""
        width = self.heads * (self.nope_dim + self.value_dim)
        return Linear("kv_b_proj", self.kv_rank, width, "attention", split="columns", pieces=self.heads)

    @cached_property
    def _outward(self) -> Linear:
        width = self.heads * self.value_dim
        return Linear("o_proj", width, self.hidden, "attention", self.bias, split="rows", pieces=self.heads)

    def weights(self) -> tuple[Weight, ...]:
        """Projections down and up, norms of the latents, the indexer's."""
        normed = self.q_rank or 0
        if not self.shares_latent:
            normed += self.kv_rank
            if self.rope_norm:
                normed += self.rope_dim
        vectors = [
            Vector("latent_norm", normed),
            Vector("sinks", self.heads if self.sinks else 0),
            Vector("vectors", self.vectors),
        ]
        indexer = self.indexer.weights(self.hidden, self.query_width) if self.indexer else ()
        return (*self._inward, self.kv_b_proj, self._outward, *(v for v in vectors if v.size), *indexer)

    def caches(self) -> tuple[Cache, ...]:
        """The latent, and the keys of the layer's own indexer, if any."""
        own = () if self.shares_latent else (Cache(values_per_token=self.latent, window=self.window),)
        return (*own, *(self.indexer.caches() if self.indexer else ()))

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Yield the projections of inputs, the indexer and new latents, scores, both ways of attention, the output."""
        for weight in self._inward:
            yield operators.linear(weight, run.tokens, run)
        if self.indexer:
            yield from self.indexer.projections(run, self.hidden, self.query_width)
        yield operators.linear(self.kv_b_proj, run.tokens, run)
        if self.indexer:
            yield from self.indexer.scores(run)
        for at, segment in enumerate(run.segments):
            yield from self._both_ways(at, segment, run)
        yield operators.linear(self._outward, run.tokens, run)

    def _both_ways(self, at: int, segment: Segment, run: Pass) -> Iterator[Operator]:
        """Yield attention on the latent, and attention on expanded keys and values with the expansion of the past.

        ``kv_b_proj`` is applied to each new token either way: absorbed, its halves to query and output; expanded, to
        the latent.
        """
        shape = f"{self.heads} x {self.kv_rank}+{self.rope_dim}, {self.nope_dim}+{self.value_dim}"
        choice = f"MLA {shape}, window {self.window}, segment {at}"
        pairs, reads = self._pairs_and_reads(segment)
        absorbed = attend(
            segment,
            run,
            query_heads=self.heads,
            key_dim=self.latent,
            value_dim=self.kv_rank,
            pairs=pairs,
            kv_values=self.latent,
            latent=True,
            reads=reads,
        )
        yield absorbed.copy_with(choice=choice, option="absorbed")
        for past in self._expansion(segment, reads, run):
            yield past.copy_with(choice=choice, option="expanded")
        expanded = attend(
            segment,
            run,
            query_heads=self.heads,
            key_dim=self.nope_dim + self.rope_dim,
            value_dim=self.value_dim,
            pairs=pairs,
            kv_values=self.latent,
            latent=True,
            expanded_width=self.nope_dim + self.value_dim,
            reads=replace(reads, new=0.0 * reads.new),
        )
        yield expanded.copy_with(choice=choice, option="expanded")

    def _expansion(self, segment: Segment, reads: Reads, run: Pass) -> Iterator[Operator]:
        """Yield past latents times ``kv_b_proj``, whose weights are on the chip already for the new tokens."""
        context = run.parallel.context
        tokens = segment.sequences * reads.past / context
        if not anywhere(tokens):
            return
        product = operators.linear(self.kv_b_proj, larger(tokens, 1.0), run)
        least = segment.least_read(reads.least_past, reads.shared) / context / larger(tokens, 1.0)
        written = product.work.flops / (2 * product.inputs["k"]) * (product.inputs["activation_bits"] / 8)
        math = product.work.math
        expansion = product.copy_with(
            name="kv_b_proj_past",
            work=Work(product.work.flops, 0.0, written, 0.0, math),
            least=Work(product.least.flops * least, 0.0, 0.0, 0.0, math),
            formulas=EXPANSION,
            source=EXPANSION_SOURCE,
        )
        yield expansion.times(tokens > 0)

    def _past(self, segment: Segment) -> Number:
        if self.window is None:
            return segment.past_tokens
        return smaller(segment.past_tokens, self.window - 1)

    def _pairs_and_reads(self, segment: Segment) -> tuple[Number, Reads]:
        if self.indexer:
            pairs, reads = self.indexer.selected(segment)
        else:
            past = self._past(segment)
            reads = Reads(past=past, least_past=past, new=segment.new_tokens, written=segment.new_tokens)
            pairs = visible_pairs(segment.new_tokens, segment.past_tokens, self.window)
        return pairs, replace(reads, written=0.0 * reads.written) if self.shares_latent else reads


EXPANSION = FrozenMapping({"flops": "2 * m * k * n", "activation_bytes": "m * n * activation_bits / 8"})
EXPANSION_SOURCE = (
    "kv_b_proj of past tokens: latents from the cache in, keys and values out; the weights are there already"
)
