"""The indexer of sparse attention: it scores all tokens cheaply, and attention runs over the best of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ... import operators
from ...arrays import smaller
from ...errors import InvalidInput, Number
from ...operators.operator import Operator, Pass, Segment
from ...operators.softmax_attention import Reads, attend, visible_pairs
from ...operators.weights import Linear, Vector, Weight
from ...values import Value
from .block import Cache, whole

SCHEMES = ("dsa", "pooled", "plain", "compressed")


@dataclass(frozen=True, eq=False, kw_only=True)
class Indexer(Value):
    """The lightning indexer of DeepSeek sparse attention (DSA; arXiv:2512.02556, section 2.1) and its variants.

    Each token has one index key of ``dim``; ``heads`` index queries of ``dim`` are compared with all of them, the
    scores are summed over heads with learned weights, and the ``topk`` best tokens are attended to.  A visible pair
    costs ``2 heads (dim + 1)`` FLOPs here (``2 heads dim`` without weights), a selected one attention's
    ``2 H (d_qk + d_v)``.  The keys of *all* tokens are stored and read, so the cache grows by ``dim`` values per token
    and only the reads of attention shrink.

    It is part of an attention block, which defines the width of its input (``hidden``) and of the input of its queries
    (``query_width``; DSA: the query latent).

    Attributes
    ----------
    heads, dim, topk : int
        Number of index heads, their width, and number of selected tokens.
    scheme : str
        ``dsa`` (queries from the latent, head weights, key norm with a bias), ``pooled`` (DSA whose keys are gathered
        ``pool`` at a time with a learned gate and position table, GLM-5.3-Flash), ``plain`` (queries and one key from
        the hidden state, both normalized, no head weights, MiniMax-M3), ``compressed`` (keys are entries of compressed
        attention, gathered with overlap; that block says how many there are, DeepSeek-V4).
    pool : int
        Tokens per pooled key.
    shared : bool
        Whether the selection of an earlier layer is used instead: no weights, no keys, no scores (GLM-5.2).

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1, or the scheme does not exist.
    """

    heads: int
    dim: int = 128
    topk: int = 2048
    scheme: str = "dsa"
    pool: int = 1
    shared: bool = False

    def __post_init__(self) -> None:
        whole(self, "heads", "dim", "topk", "pool")
        if self.scheme not in SCHEMES:
            raise InvalidInput(f"scheme must be one of {', '.join(SCHEMES)}: {self.scheme!r}")

    @property
    def kind(self) -> str:
        """Scheme and number of selected tokens."""
        return f"top {self.topk:,} of {'a shared' if self.shared else 'an'} indexer"

    def matrices(self, hidden: int, query_width: int) -> tuple[Linear, ...]:
        """Projections of keys, queries and head weights."""
        if self.shared:
            return ()
        queries = Linear("indexer_q_proj", query_width, self.heads * self.dim, "indexer")
        keys = Linear("indexer_k_proj", hidden, self.dim, "indexer")
        if self.scheme == "plain":
            return (queries, keys)
        if self.scheme == "compressed":
            entries = Linear("indexer_kv_proj", hidden, 2 * self.dim, "indexer")
            gates = Linear("indexer_gate_proj", hidden, 2 * self.dim, "indexer", joins=entries.name)
            return (entries, gates, queries, Linear("indexer_weights_proj", hidden, self.heads, "indexer"))
        heads = Linear("indexer_weights_proj", hidden, self.heads, "indexer", joins=keys.name)
        if self.scheme == "pooled":
            return (queries, keys, heads, Linear("indexer_pool_gate", hidden, self.dim, "indexer"))
        return (queries, keys, heads)

    def weights(self, hidden: int, query_width: int) -> tuple[Weight, ...]:
        """Projections, the norm of the keys (and of queries, or a bias), the position table of a pool."""
        if self.shared:
            return ()
        table = self.pool * self.dim if self.scheme == "pooled" else 0
        return (*self.matrices(hidden, query_width), Vector("indexer_norm", 2 * self.dim + table))

    def caches(self) -> tuple[Cache, ...]:
        """One key per token; a pooled one also keeps its gate and one flag until the pool is full."""
        if self.shared:
            return ()
        values = 2 * self.dim + 1 if self.scheme == "pooled" else self.dim
        return (Cache(values_per_token=values, index=self.scheme == "dsa"),)

    def projections(self, run: Pass, hidden: int, query_width: int) -> Iterator[Operator]:
        """Yield one product per matrix."""
        for weight in self.matrices(hidden, query_width):
            yield operators.linear(weight, run.tokens, run)

    def scores(self, run: Pass) -> Iterator[Operator]:
        """Yield the scores of each segment: every visible pair, with every key read."""
        for segment in () if self.shared else run.segments:
            new, past = segment.new_tokens, segment.past_tokens
            keys, shared = past / self.pool, segment.shared_tokens / self.pool
            yield attend(
                segment,
                run,
                query_heads=self.heads,
                key_dim=self.dim,
                value_dim=0 if self.scheme == "plain" else 1,
                pairs=visible_pairs(new, past) / self.pool,
                kv_values=self.dim,
                reads=Reads(past=keys, least_past=keys, new=new, written=new, shared=shared),
                softmax=False,
                name="indexer",
            )

    def selected(self, segment: Segment) -> tuple[Number, Reads]:
        """Return the pairs that attention computes after selection, and the entries that it reads.

        A token attends to ``min(visible, topk)`` tokens.  The union of their selections is read from the past: at least
        ``topk`` entries, if all new tokens agree, and at most ``topk`` for each.  All of them may belong to a shared
        prefix.
        """
        new, past = segment.new_tokens, segment.past_tokens
        least = smaller(past, self.topk)
        shared = smaller(segment.shared_tokens, least)
        reads = Reads(past=smaller(past, new * self.topk), least_past=least, new=new, written=new, shared=shared)
        return visible_pairs(new, past, self.topk), reads
