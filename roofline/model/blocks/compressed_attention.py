"""Compressed attention (DeepSeek-V4): full keys in a short window, and one entry for many older tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ... import operators
from ...arrays import smaller
from ...errors import InvalidInput, Number
from ...operators.operator import Operator, Pass, Segment
from ...operators.softmax_attention import Reads, attend, strided_pairs, visible_pairs
from ...operators.weights import Linear, Vector, Weight
from .block import Block, Cache, whole
from .indexer import Indexer


@dataclass(frozen=True, eq=False, kw_only=True)
class CompressedAttention(Block):
    """Attention over a window of tokens and over compressed entries (DeepSeek-V4 report, sections 2.3.1 and 2.3.2).

    One key of ``head_dim`` is shared by all heads and is its own value, so a token in the window costs ``head_dim``
    values of cache.  Beyond, ``ratio`` tokens are pooled into one such entry by learned gates:

    *heavily compressed* (no ``indexer``)
        every entry is attended to: ``floor(x / ratio)`` pairs for token ``x``, plus those in the window.
    *compressed sparse*
        entries overlap (two series of gates, so projections are twice as wide), and an indexer with its own entries
        selects some of them.

    A pair costs ``2 (head_dim + head_dim)`` FLOPs per head.  Queries come through a latent of ``q_rank``; the output
    goes through one of ``output_rank`` for each of ``output_groups`` groups of heads, a block-diagonal product.

    Attributes
    ----------
    heads, head_dim, q_rank, output_rank, output_groups : int
        Shape of the projections.
    window : int
        Tokens whose full keys are kept.
    ratio : int
        Tokens per entry; 0 for a layer with the window only.
    indexer : Indexer, optional
        The indexer of compressed sparse attention, of scheme ``compressed``.

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1, the heads are not a multiple of the groups, or an indexer has no entries or
        another scheme.
    """

    heads: int
    head_dim: int
    q_rank: int
    output_rank: int
    output_groups: int
    window: int
    ratio: int = 0
    indexer: Indexer | None = None

    def __post_init__(self) -> None:
        whole(self, "hidden", "heads", "head_dim", "q_rank", "output_rank", "output_groups", "window")
        whole(self, "ratio", least=0)
        if self.indexer is not None:
            whole(self, "ratio")
            if self.indexer.scheme != "compressed":
                raise InvalidInput(f"the indexer of compressed attention has scheme compressed: {self.indexer.scheme}")
        if self.heads % self.output_groups:
            raise InvalidInput(f"heads must be a multiple of output_groups: {self.heads} / {self.output_groups}")

    @property
    def kind(self) -> str:
        """Heads, window, and compression."""
        rest = f", 1 entry of {self.ratio} tokens" if self.ratio else ""
        top = f", top {self.indexer.topk:,}" if self.indexer else ""
        return f"compressed MQA {self.heads} x {self.head_dim}, window {self.window:,}{rest}{top}"

    @property
    def series(self) -> int:
        """Series of entries: two where they overlap."""
        return 2 if self.indexer else 1

    def _before(self) -> tuple[Linear, ...]:
        return (
            Linear("q_a_proj", self.hidden, self.q_rank, "attention"),
            Linear(
                "q_b_proj", self.q_rank, self.heads * self.head_dim, "attention", split="columns", pieces=self.heads
            ),
            Linear("kv_proj", self.hidden, self.head_dim, "attention", joins="q_a_proj"),
        )

    def _compressor(self) -> tuple[Linear, ...]:
        if not self.ratio:
            return ()
        width = self.series * self.head_dim
        return (
            Linear("compressor_kv_proj", self.hidden, width, "attention"),
            Linear("compressor_gate_proj", self.hidden, width, "attention", joins="compressor_kv_proj"),
        )

    def _indexer(self) -> tuple[Linear, ...]:
        if self.indexer:
            return self.indexer.matrices(self.hidden, self.q_rank)
        return ()

    def _after(self) -> tuple[Linear, ...]:
        group = self.heads // self.output_groups * self.head_dim
        groups = self.output_groups
        return (
            Linear("o_a_proj", group, groups * self.output_rank, "attention", split="columns", pieces=groups),
            Linear("o_b_proj", groups * self.output_rank, self.hidden, "attention", split="rows", pieces=groups),
        )

    def weights(self) -> tuple[Weight, ...]:
        """Projections, compressor, indexer; norms of the latents, sinks, position tables."""
        vectors = [Vector("latent_norm", self.q_rank + self.head_dim), Vector("sinks", self.heads)]
        if self.ratio:
            vectors.append(Vector("compressor_table", (self.ratio * self.series + 1) * self.head_dim))
        if self.indexer:
            vectors.append(Vector("indexer_table", (self.ratio * 2 + 1) * self.indexer.dim))
        return (*self._before(), *self._compressor(), *self._indexer(), *self._after(), *vectors)

    def caches(self) -> tuple[Cache, ...]:
        """Keys of the window, entries, and tokens of entries not yet full, with their gates, in 16 bits.

        If entries overlap, the last full group of tokens is kept too, with gates in 32 bits.
        """
        found = [Cache(values_per_token=self.head_dim, window=self.window)]
        if self.ratio:
            found.append(self._entry_cache(self.head_dim))
        if self.indexer:
            found.append(self._entry_cache(self.indexer.dim))
        return tuple(found)

    def _entry_cache(self, width: int) -> Cache:
        kept_bytes, gate_bytes = 2, 4
        overlap = self.ratio * width * (kept_bytes + gate_bytes) if self.series == 2 else 0
        waiting = 2 * self.series * width * kept_bytes
        return Cache(width, None, overlap, self.ratio, waiting)

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Yield the projections of inputs, entries and the indexer, scores and attention per segment, and the output.

        Attention runs over the window and over the entries.
        """
        for weight in (*self._before(), *self._compressor(), *self._indexer()):
            yield operators.linear(weight, run.tokens, run)
        for segment in run.segments:
            if self.indexer:
                yield self._scores(self.indexer, segment, run)
            yield self._window(segment, run)
            if self.ratio:
                yield self._entries(segment, run)
        for weight in self._after():
            yield operators.linear(weight, run.tokens, run)

    def _scores(self, indexer: Indexer, segment: Segment, run: Pass) -> Operator:
        past, new = self._kept(segment)
        return attend(
            segment,
            run,
            query_heads=indexer.heads,
            key_dim=indexer.dim,
            value_dim=0,
            pairs=strided_pairs(segment.new_tokens, segment.past_tokens, self.ratio),
            kv_values=indexer.dim,
            reads=Reads(past=past, least_past=past, new=new, written=new, shared=self._shared(segment, past)),
            softmax=False,
            name="indexer",
        )

    def _window(self, segment: Segment, run: Pass) -> Operator:
        past = smaller(segment.past_tokens, self.window - 1)
        kept = smaller(segment.new_tokens, self.window)
        return attend(
            segment,
            run,
            query_heads=self.heads,
            key_dim=self.head_dim,
            value_dim=self.head_dim,
            pairs=visible_pairs(segment.new_tokens, segment.past_tokens, self.window),
            kv_values=self.head_dim,
            latent=True,
            reads=Reads(past=past, least_past=past, new=segment.new_tokens, written=kept),
            name="window_attention",
        )

    def _entries(self, segment: Segment, run: Pass) -> Operator:
        past, new = self._kept(segment)
        most = self.indexer.topk if self.indexer else None
        read, least = past, past
        if most is not None:
            read, least = smaller(past, segment.new_tokens * most), smaller(past, most)
        return attend(
            segment,
            run,
            query_heads=self.heads,
            key_dim=self.head_dim,
            value_dim=self.head_dim,
            pairs=strided_pairs(segment.new_tokens, segment.past_tokens, self.ratio, most),
            kv_values=self.head_dim,
            latent=True,
            reads=Reads(past=read, least_past=least, new=new, written=new, shared=self._shared(segment, least)),
            name="compressed_attention",
        )

    def _shared(self, segment: Segment, entries: Number) -> Number:
        """Return how many of ``entries`` may belong to a shared prefix."""
        return smaller(segment.shared_tokens / self.ratio, entries)

    def _kept(self, segment: Segment) -> tuple[Number, Number]:
        """Return the numbers of past and of new entries."""
        past = segment.past_tokens // self.ratio
        return past, (segment.past_tokens + segment.new_tokens) // self.ratio - past
