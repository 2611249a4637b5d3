"""Softmax attention: scores, softmax, weighted values, cache reads and writes.

`attention` is plain causal attention.  Chunked, shared, sparse, compressed and latent attention call `attend` with
their own pairs, widths and cache reads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..arrays import FrozenMapping, larger, smaller, where
from ..errors import Number
from ..formats import get_format
from ..values import Value
from .operator import Operator, Pass, Segment
from .parallel import share
from .work import Work

FORMULAS = FrozenMapping(
    {
        "flops": "2 * sequences * query_heads * pairs * (key_dim + value_dim)",
        "exponentials": "softmax * sequences * query_heads * pairs",
        "activation_bytes": "sequences * new_tokens * query_heads * (key_dim + value_dim) * activation_bits / 8"
        " + score_bytes",
        "cache_bytes": "sequences * (past_read + new_read + new_written) * kv_values * kv_bits / 8",
    }
)
EXPANDED = FORMULAS | {
    "activation_bytes": FORMULAS["activation_bytes"]
    + " + sequences * (past_read + new_tokens) * query_heads * expanded_width * activation_bits / 8"
}
SOURCE = (
    "attention: a dot product of key_dim and a weighted sum of value_dim for each pair and query head; entries of the"
    " cache read once for each KV head, new ones written and read back; FlashAttention (arXiv:2205.14135) keeps scores"
    " on the chip"
)


def visible_pairs(new_tokens: Number, past_tokens: Number, window: Number | None = None) -> Number:
    """Return the query-key pairs of causal attention for ``S`` new and ``P`` cached tokens.

    New token ``i`` (from 1) sees ``P + i`` keys, including its own, so the pairs are

        sum over i = 1..S of (P + i) = S P + S (S + 1) / 2.

    With a window ``w`` a token sees at most ``w``.  The first ``u = min(max(w - P, 0), S)`` tokens see less, so the
    pairs are ``u P + u (u + 1) / 2 + (S - u) w``.  A difference of two sums from the first token on would be the same,
    but lose all digits for very long pasts.

    Examples
    --------
    >>> visible_pairs(2000, 0)
    2001000.0
    >>> visible_pairs(1, 2048)
    2049.0
    >>> float(visible_pairs(4, 0, window=2))
    7.0
    """
    within = new_tokens if window is None else smaller(larger(window - past_tokens, 0), new_tokens)
    pairs: Number = within * past_tokens + within * (within + 1) / 2
    return pairs if window is None else pairs + (new_tokens - within) * window


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class Reads(Value):
    """Cache entries that one sequence moves to and from the chip.

    Attributes
    ----------
    past : float or array
        Entries of the past read by a kernel.
    least_past : float or array
        Past entries that no implementation can avoid reading; a shared prefix is read once for all sequences.
    new : float or array
        New entries read back by a kernel.
    written : float or array
        New entries written.
    shared : float or array, optional
        Entries of ``least_past`` that may belong to a shared prefix; None if ``least_past`` are the last entries.
    """

    past: Number
    least_past: Number
    new: Number
    written: Number
    shared: Number | None = None

    def divided(self, ways: Number) -> Reads:
        """Return an even share of the entries."""
        return replace(self, past=self.past / ways, new=self.new / ways, written=self.written / ways)


def attend(
    segment: Segment,
    run: Pass,
    *,
    query_heads: Number,
    key_dim: Number,
    value_dim: Number,
    pairs: Number,
    kv_values: Number,
    kv_heads: Number = 1,
    latent: bool = False,
    expanded_width: Number = 0,
    reads: Reads,
    scores: Number | None = None,
    mutual: bool = False,
    softmax: bool = True,
    name: str = "attention",
) -> Operator:
    """Return softmax attention of one segment over ``pairs`` query-key pairs per sequence and query head.

    FLOPs are ``2 (key_dim + value_dim)`` per pair and query head.  The cache moves the entries of `Reads`,
    ``kv_values`` values each.  Unfused attention writes and reads the ``scores`` (the pairs if None) before and after
    the softmax: 4 passes.  ``mutual`` means no causal mask, so each new token may see every other one.

    Each pair and head costs one exponential; ``softmax=False`` computes scores only (an indexer).

    A kernel may compute in the narrower format of the cache, whatever was requested, so the least time uses that rate.

    Tensor parallelism divides the query heads, and the cache by ``kv_heads`` (1: whole on every accelerator); context
    parallelism divides pairs and entries.  ``latent`` means that an entry is a latent shared by all query heads as key
    and value, which special kernels compute.  If a product has expanded keys and values from the entries,
    ``expanded_width`` values per entry and head are also read as activations.

    A segment that emits logits for every new token is a step of generation, with one token or with drafts to verify,
    and runs a decode kernel.  A prompt emits logits for its last token only (`decodes`).
    """
    precision = run.precision
    sequences, new = segment.sequences, segment.new_tokens
    least_past = segment.least_read(reads.least_past, reads.shared)
    if not run.parallel.single:
        tensor, context = run.parallel.tensor, run.parallel.context
        split = where(decodes(segment), run.parallel.decode_context, 1.0)
        tensor, context = tensor / split, context * split
        kv_share = share(kv_heads, tensor)
        query_heads = query_heads * share(query_heads, tensor)
        kv_heads, kv_values = kv_heads * kv_share, kv_values * kv_share
        pairs = pairs / context
        reads, least_past = reads.divided(context), least_past / context
    entry_bytes = kv_values * (precision.kv_bits / 8)
    flops = 2.0 * sequences * query_heads * pairs * (key_dim + value_dim)
    value_bytes = precision.wide_bits / 8
    written = pairs if scores is None else scores
    score_bytes: Number = 4 * sequences * query_heads * written * value_bytes if run.attention == "unfused" else 0.0
    io_bytes = sequences * new * query_heads * (key_dim + value_dim) * value_bytes + score_bytes
    formulas = FORMULAS
    if expanded_width:
        io_bytes = io_bytes + sequences * (reads.past + new) * query_heads * expanded_width * value_bytes
        formulas = EXPANDED
    moved = sequences * (reads.past + reads.new + reads.written) * entry_bytes
    least = (least_past + sequences * reads.written) * entry_bytes
    math, exponentials = precision.attention, sequences * query_heads * pairs if softmax else 0.0
    cached = get_format(precision.kv)
    least_math = cached.math if cached.math and cached.bits < get_format(math).bits else math
    return Operator(
        name,
        "attention",
        Work(flops, 0.0, io_bytes, moved, math, exponentials),
        Work(flops, 0.0, 0.0, least, least_math),
        inputs={
            "sequences": sequences,
            "new_tokens": new,
            "past_tokens": segment.past_tokens,
            "decodes": 0.0 if mutual else decodes(segment, expanded=bool(expanded_width)),
            "past_read": reads.past,
            "new_read": reads.new,
            "new_written": reads.written,
            "pairs": pairs,
            "mutual": float(mutual),
            "query_heads": query_heads,
            "key_dim": key_dim,
            "value_dim": value_dim,
            "kv_heads": kv_heads,
            "kv_values": kv_values,
            "kv_bits": precision.kv_bits,
            "activation_bits": precision.wide_bits,
            "score_bytes": score_bytes,
            "expanded_width": expanded_width,
            "softmax": int(softmax),
        },
        formulas=formulas,
        source=SOURCE,
        latent=latent,
    )


def decodes(segment: Segment, *, expanded: bool = False) -> Number:
    """Return 1 if attention runs as a step of generation, 0 for a prompt; an array for a sweep.

    Attention on expanded keys and values counts as a prompt, except with a single new token.
    """
    emitting = 1.0 if expanded else segment.emitted_tokens
    return (emitting >= segment.new_tokens) * 1.0


def attention(
    segment: Segment,
    run: Pass,
    *,
    query_heads: Number,
    key_dim: Number,
    value_dim: Number,
    kv_values: Number,
    kv_heads: Number = 1,
    window: Number | None,
) -> Operator:
    """Return plain causal attention of one segment, within a window if there is one.

    Pairs are those of `visible_pairs`.  The visible past is read once per KV head, since query heads of a group share
    it.  The ``S`` new keys and values are written, and read back by the kernel.  Only reading the past and writing new
    entries is unavoidable.  Unfused attention stores all ``S (P + S)`` scores per head, masked ones included.
    """
    new, past = segment.new_tokens, segment.past_tokens
    seen = past if window is None else smaller(past, window - 1)
    return attend(
        segment,
        run,
        query_heads=query_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        pairs=visible_pairs(new, past, window),
        kv_values=kv_values,
        kv_heads=kv_heads,
        reads=Reads(past=seen, least_past=seen, new=new, written=new),
        scores=new * (past + new),
    )


def chunked_pairs(new_tokens: Number, past_tokens: Number, chunk: int) -> Number:
    """Return the query-key pairs if a token sees only itself and earlier tokens of its chunk.

    Token ``x`` (from 1) sees ``(x - 1) mod c + 1`` keys; summed to ``x`` that is ``q c (c + 1) / 2 + r (r + 1) / 2``
    with ``q = floor(x / c)`` and ``r = x mod c``.

    Examples
    --------
    >>> float(chunked_pairs(4, 0, 2))
    6.0
    """
    return _chunked_sum(past_tokens + new_tokens, chunk) - _chunked_sum(past_tokens, chunk)


def _chunked_sum(count: Number, chunk: int) -> Number:
    full = count // chunk
    rest = count - full * chunk
    total: Number = full * (chunk * (chunk + 1) / 2) + rest * (rest + 1) / 2
    return total


def strided_pairs(new_tokens: Number, past_tokens: Number, stride: int, most: int | None = None) -> Number:
    """Return the pairs of new tokens with earlier entries, one per ``stride`` tokens, at most ``most`` per token.

    Token ``x`` sees ``floor(x / m)`` entries.  Summed to ``x`` that is ``m q (q - 1) / 2 + q (r + 1)`` with
    ``q = floor(x / m)`` and ``r = x - q m``; a cap of ``k`` entries is reached at ``x = k m`` and stays.
    """
    total = _strided_sum(past_tokens + new_tokens, stride) - _strided_sum(past_tokens, stride)
    if most is None:
        return total
    full_at = most * stride
    below = _strided_sum(smaller(past_tokens + new_tokens, full_at), stride)
    below = below - _strided_sum(smaller(past_tokens, full_at), stride)
    beyond = larger(past_tokens + new_tokens, full_at) - larger(past_tokens, full_at)
    capped: Number = below + most * beyond
    return capped


def _strided_sum(count: Number, stride: int) -> Number:
    entries = count // stride
    rest = count - entries * stride
    total: Number = stride * entries * (entries - 1) / 2 + entries * (rest + 1)
    return total


def mutual_pairs(tokens: Number, window: int | None = None, *, chunked: bool = False) -> Number:
    """Return the query-key pairs of ``S`` tokens that all see each other: ``S^2``.

    With a window of ``w = 2 r + 1`` tokens each sees itself and at most ``r`` on either side, so the ends of the
    sequence miss ``r (r + 1) / 2`` each: ``S (2 r + 1) - r (r + 1)`` where ``r < S``.  In chunks of ``c`` only the
    tokens of one chunk see each other: ``q c^2 + r^2`` with ``q = floor(S / c)`` and ``r = S mod c``.

    Examples
    --------
    >>> mutual_pairs(512.0)
    262144.0
    >>> float(mutual_pairs(5.0, 3)), float(mutual_pairs(5.0, 2, chunked=True))
    (13.0, 9.0)
    """
    if window is None:
        return tokens * tokens
    if chunked:
        full = tokens // window
        rest = tokens - full * window
        in_chunks: Number = full * window**2 + rest * rest
        return in_chunks
    reach: Number = smaller((window - 1) // 2, larger(tokens - 1, 0))
    pairs: Number = tokens * (2 * reach + 1) - reach * (reach + 1)
    return pairs


def mutual_attention(
    segment: Segment,
    run: Pass,
    *,
    query_heads: Number,
    key_dim: Number,
    value_dim: Number,
    kv_heads: Number,
    pairs: Number,
) -> Operator:
    """Return attention without a causal mask (encoders): new tokens see each other, and nothing is cached.

    Keys and values are activations, read once per KV head.
    """
    new = segment.new_tokens
    return attend(
        segment,
        run,
        query_heads=query_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        pairs=pairs,
        kv_values=0.0,
        kv_heads=kv_heads,
        expanded_width=(key_dim + value_dim) * kv_heads / query_heads,
        reads=Reads(past=0.0, least_past=0.0, new=0.0, written=0.0),
        scores=new * new,
        mutual=True,
    )
