"""The operator that every kind of softmax attention runs: scores, softmax, weighted values, cache in and out.

`roofline.operators.attention` is plain causal attention; here are its relatives, in which the pairs, the widths and
what is read of the cache are chosen by the kind: chunked, shared, sparse, compressed and latent attention.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import Number
from ..operators import Operator, Pass, Segment
from ..work import Work

FORMULAS = {
    "flops": "2 * sequences * query_heads * pairs * (key_dim + value_dim)",
    "activation_bytes": "sequences * new_tokens * query_heads * (key_dim + value_dim) * activation_bits / 8"
    " + score_bytes",
    "cache_bytes": "sequences * (past_read + new_read + new_written) * kv_values * kv_bits / 8",
}
SOURCE = (
    "attention: a dot product of key_dim and a weighted sum of value_dim for each pair and query head; entries of the"
    " cache read once a sequence, new ones written and read back"
)


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class Reads:
    """What one sequence moves between the chip and its cache, in entries.

    Attributes
    ----------
    past : entries of the past read by a kernel
    least_past : those that no implementation can avoid reading
    new : new entries read back by a kernel
    written : new entries written
    """

    past: Number
    least_past: Number
    new: Number
    written: Number


def attend(
    segment: Segment,
    run: Pass,
    *,
    query_heads: int,
    key_dim: Number,
    value_dim: Number,
    pairs: Number,
    kv_values: float,
    reads: Reads,
    name: str = "attention",
) -> Operator:
    """Softmax attention of one segment over ``pairs`` query-key pairs of each sequence and query head.

    FLOPs: ``2 (key_dim + value_dim)`` a pair and query head.  Cache: the entries that `Reads` says, ``kv_values``
    values each.  Unfused, the scores are written and read before and after the softmax: 4 passes over the pairs.
    """
    precision = run.precision
    sequences, new = segment.sequences, segment.new_tokens
    entry_bytes = kv_values * (precision.kv_bits / 8)
    flops = 2.0 * sequences * query_heads * pairs * (key_dim + value_dim)
    value_bytes = precision.wide_bits / 8
    score_bytes: Number = 4 * sequences * query_heads * pairs * value_bytes if run.attention == "unfused" else 0.0
    io_bytes = sequences * new * query_heads * (key_dim + value_dim) * value_bytes + score_bytes
    moved = sequences * (reads.past + reads.new + reads.written) * entry_bytes
    least = sequences * (reads.least_past + reads.written) * entry_bytes
    math = precision.attention
    return Operator(
        name,
        "attention",
        Work(flops, 0.0, io_bytes, moved, math),
        Work(flops, 0.0, 0.0, least, math),
        inputs={
            "sequences": sequences,
            "new_tokens": new,
            "past_tokens": segment.past_tokens,
            "past_read": reads.past,
            "new_read": reads.new,
            "new_written": reads.written,
            "pairs": pairs,
            "query_heads": query_heads,
            "key_dim": key_dim,
            "value_dim": value_dim,
            "kv_values": kv_values,
            "kv_bits": precision.kv_bits,
            "activation_bits": precision.wide_bits,
            "score_bytes": score_bytes,
        },
        formulas=FORMULAS,
        source=SOURCE,
    )


def chunked_pairs(new_tokens: Number, past_tokens: Number, chunk: int) -> Number:
    """Query-key pairs when a token sees only the tokens of its own chunk before it, and itself.

    Token ``x`` (from 1) sees ``(x - 1) mod c + 1`` keys; summed to ``x`` that is ``q c (c + 1) / 2 + r (r + 1) / 2``
    with ``q = floor(x / c)`` and ``r = x mod c``.

    Examples
    --------
    >>> chunked_pairs(4, 0, 2)
    6.0
    """
    return _chunked_sum(past_tokens + new_tokens, chunk) - _chunked_sum(past_tokens, chunk)


def _chunked_sum(count: Number, chunk: int) -> Number:
    full = np.floor_divide(count, chunk)
    rest = count - full * chunk
    total: Number = full * (chunk * (chunk + 1) / 2) + rest * (rest + 1) / 2
    return total


def strided_pairs(new_tokens: Number, past_tokens: Number, stride: int, most: int | None = None) -> Number:
    """Pairs of each new token with the entries that stand for ``stride`` whole tokens before it, ``most`` at most.

    Token ``x`` sees ``floor(x / m)`` entries.  Summed to ``x`` that is ``m q (q - 1) / 2 + q (r + 1)`` with
    ``q = floor(x / m)`` and ``r = x - q m``; a cap of ``k`` entries is reached at ``x = k m`` and stays.
    """
    total = _strided_sum(past_tokens + new_tokens, stride) - _strided_sum(past_tokens, stride)
    if most is None:
        return total
    full_at = most * stride
    below = _strided_sum(np.minimum(past_tokens + new_tokens, full_at), stride)
    below = below - _strided_sum(np.minimum(past_tokens, full_at), stride)
    beyond = np.maximum(past_tokens + new_tokens, full_at) - np.maximum(past_tokens, full_at)
    capped: Number = below + most * beyond
    return capped


def _strided_sum(count: Number, stride: int) -> Number:
    entries = np.floor_divide(count, stride)
    rest = count - entries * stride
    total: Number = stride * entries * (entries - 1) / 2 + entries * (rest + 1)
    return total
