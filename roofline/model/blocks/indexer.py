"""The indexer of sparse attention: it scores all tokens cheaply, and attention runs over the best of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ... import operators
from ...errors import InvalidInput, Number
from ...operators.operator import Operator, Pass, Segment
from ...operators.softmax_attention import Reads, attend, visible_pairs
from ...operators.weights import Linear, Vector, Weight
from .block import Block, Cache, whole

SCHEMES = ("dsa", "pooled", "plain")


@dataclass(frozen=True, kw_only=True)
class Indexer(Block):
    """The lightning indexer of DeepSeek sparse attention (DSA; arXiv:2512.02556, section 2.1) and its kin.

    Each token has one index key of ``dim``; ``heads`` index queries of ``dim`` are compared with all of them, the
    scores are summed over heads with learned weights, and the ``topk`` best tokens are attended to.  A visible pair
    costs ``2 heads (dim + 1)`` FLOPs here (``2 heads dim`` without weights), a selected one attention's
    ``2 H (d_qk + d_v)``.  The keys of *all* tokens are stored and read, so the cache grows by ``dim`` values a token
    and only the reads of attention shrink.

    Attributes
    ----------
    heads, dim, topk : index heads, their width, tokens selected
    query_input : width that the index queries are projected from (DSA: the query latent), ``hidden`` if None
    scheme : ``dsa`` (queries from the latent, head weights, key norm with a bias), ``pooled`` (DSA whose keys are
        gathered ``pool`` at a time with a learned gate and position table, GLM-5.3-Flash), ``plain`` (queries and one
        key from the hidden state, both normalized, no head weights, MiniMax-M3)
    pool : tokens that one pooled key stands for

    Raises
    ------
    InvalidInput
        A size that is not a whole number >= 1, or a scheme that does not exist.
    """

    heads: int
    dim: int
    topk: int
    query_input: int | None = None
    scheme: str = "dsa"
    pool: int = 1

    def __post_init__(self) -> None:
        whole(self, "hidden", "heads", "dim", "topk", "pool")
        if self.scheme not in SCHEMES:
            raise InvalidInput(f"scheme must be one of {', '.join(SCHEMES)}: {self.scheme!r}")

    @property
    def kind(self) -> str:
        """Its heads and what it selects."""
        return f"indexer {self.heads} x {self.dim}, top {self.topk:,}"

    def _matrices(self) -> tuple[Linear, ...]:
        queries = Linear("indexer_q_proj", self.query_input or self.hidden, self.heads * self.dim, "indexer")
        keys = Linear("indexer_k_proj", self.hidden, self.dim, "indexer")
        if self.scheme == "plain":
            return (queries, keys)
        heads = Linear("indexer_weights_proj", self.hidden, self.heads, "indexer", joins="indexer_k_proj")
        gate = (Linear("indexer_pool_gate", self.hidden, self.dim, "indexer"),) if self.scheme == "pooled" else ()
        return (queries, keys, heads, *gate)

    def weights(self) -> tuple[Weight, ...]:
        """Projections, the norm of the keys (and of queries, or a bias), the position table of a pool."""
        table = self.pool * self.dim if self.scheme == "pooled" else 0
        return (*self._matrices(), Vector("indexer_norm", 2 * self.dim + table))

    def caches(self) -> tuple[Cache, ...]:
        """One key a token; a pooled one also keeps its gate and one flag until the pool is full."""
        values = 2 * self.dim + 1 if self.scheme == "pooled" else self.dim
        return (Cache(values_per_token=values),)

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Projections, then the scores of each segment: every visible pair, every key read."""
        for weight in self._matrices():
            yield operators.linear(weight, run.tokens, run)
        for segment in run.segments:
            new, past = segment.new_tokens, segment.past_tokens
            pairs = visible_pairs(new, past) / self.pool
            yield attend(
                segment,
                run,
                query_heads=self.heads,
                key_dim=self.dim,
                value_dim=0 if self.scheme == "plain" else 1,
                pairs=pairs,
                kv_values=self.dim,
                reads=Reads(past=past / self.pool, least_past=past / self.pool, new=new, written=new),
                name="indexer",
            )

    def selected(self, segment: Segment) -> tuple[Number, Reads]:
        """Pairs that attention still computes, and the entries that it reads.

        A token attends to ``min(visible, topk)`` tokens.  The past is read for the union of what the new tokens
        select: at least ``topk`` if they all agree, at most ``topk`` for each.
        """
        new, past = segment.new_tokens, segment.past_tokens
        reads = Reads(
            past=np.minimum(past, new * self.topk), least_past=np.minimum(past, self.topk), new=new, written=new
        )
        return visible_pairs(new, past, self.topk), reads
