"""Operators: shapes in, Work out.  Nothing here knows an accelerator.

Symbols: ``T`` tokens in the pass (all sequences together), ``S`` new tokens a sequence, ``P`` tokens of it in the cache
already, ``H`` query heads, ``K`` KV heads, ``d`` width of a head, ``D`` width of the model.

FLOPs are 2 a multiply-add.  Every function takes floats or arrays and broadcasts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from .errors import Number, number
from .formats import get_format, math_format
from .precision import Precision
from .weights import Linear
from .work import Work


@dataclass(frozen=True, eq=False, slots=True)
class Operator:
    """One operator of a layer, run ``count`` times a pass.

    Attributes
    ----------
    name : as the field calls it (``q_proj``, ``attention``, ``experts`` ...)
    kind : what sort of kernel it is: ``matmul``, ``experts``, ``attention``, ``scan``, ``elementwise`` or ``lookup``
    work : FLOPs and all bytes in and out, once
    least : the work that no implementation can avoid: the floor counts this
    inputs : the numbers that ``formulas`` are over
    formulas : field of `Work` -> its formula as a Python expression over ``inputs``
    source : where the formulas are from
    """

    name: str
    kind: str
    work: Work
    least: Work
    count: float = 1.0
    inputs: Mapping[str, Any] = field(default_factory=dict)
    formulas: Mapping[str, str] = field(default_factory=dict)
    source: str = ""

    def times(self, count: float) -> Operator:
        """The same operator run ``count`` times as often."""
        total = self.count * count
        return Operator(self.name, self.kind, self.work, self.least, total, self.inputs, self.formulas, self.source)


@dataclass(frozen=True, eq=False, slots=True)
class Segment:
    """Sequences that do the same in one forward pass.

    Attributes
    ----------
    sequences : how many
    new_tokens : tokens of each that are computed in this pass
    past_tokens : tokens of each that are in the cache already
    emitted_tokens : positions of each whose logits are needed (1 for prefill and decode)
    """

    sequences: Number
    new_tokens: Number
    past_tokens: Number
    emitted_tokens: Number = 1.0

    @property
    def tokens(self) -> Number:
        """New tokens of all sequences together."""
        return self.sequences * self.new_tokens


@dataclass(frozen=True, eq=False)
class Pass:
    """One forward pass: what runs in it and how.

    A prefill is one segment with many new tokens, a decode step one segment with one, a mixed step has both: the linear
    layers then see all tokens together and stream their weights once, while attention runs a segment at a time.

    Attributes
    ----------
    segments : what runs
    precision : in which formats
    attention : ``fused`` (scores never leave the chip) or ``unfused`` (scores written and read)
    """

    segments: tuple[Segment, ...]
    precision: Precision
    attention: str = "fused"

    @cached_property
    def tokens(self) -> Number:
        """New tokens of the whole pass."""
        return sum(segment.tokens for segment in self.segments)

    @property
    def emitted_tokens(self) -> Number:
        """Positions whose logits are needed."""
        return sum(segment.sequences * segment.emitted_tokens for segment in self.segments)


MATMUL = MappingProxyType(
    {
        "flops": "2 * m * k * n",
        "weight_bytes": "k * n * weight_bits / 8 + bias_bytes",
        "activation_bytes": "m * (k + n) * activation_bits / 8",
    }
)
MATMUL_SOURCE = "dense product [m,k] @ [k,n]: a multiply and an add for each of m*k*n, every operand moved once"


def matmul(m: Number, k: Number, n: Number, *, weights: str = "bf16", activations: str = "bf16") -> Work:
    """Work of ``[m, k] @ [k, n]``, the ``[k, n]`` being weights that are read once.

    Each of the ``m * n`` results is a dot product of length ``k``: ``k`` multiplies and ``k`` adds, so ``2 m k n``
    FLOPs.  The weights are ``k n`` values, input and output ``m k`` and ``m n``.

    Parameters
    ----------
    m, k, n : sizes, floats or arrays
    weights, activations : formats; they decide the bytes and on which units the product runs

    Raises
    ------
    InvalidInput
        A size that is not a finite number >= 0.
    UnknownName
        A format that does not exist.

    Examples
    --------
    >>> import roofline as rl
    >>> work = rl.matmul(2000, 8192, 8192)
    >>> work.flops / work.weight_bytes
    2000.0
    >>> round(work.intensity_flops_per_byte, 1)
    1343.8
    """
    m, k, n = number("m", m), number("k", k), number("n", n)
    stored, fed = get_format(weights), get_format(activations)
    return Work(
        flops=2.0 * m * k * n,
        weight_bytes=k * n * (stored.bits / 8),
        activation_bytes=m * (k + n) * (fed.bits / 8),
        math=math_format(stored, fed),
    )


def linear(weight: Linear, tokens: Number, run: Pass) -> Operator:
    """``[tokens, d_in] @ [d_in, d_out]`` in the formats of the weight's part, bias read along (see `matmul`)."""
    precision = run.precision
    formats = precision.part(weight.part)
    k, n = weight.d_in, weight.d_out
    bias_bytes = n * (precision.part("bias").weight_bits / 8) if weight.bias else 0.0
    weight_bytes = k * n * (formats.weight_bits / 8) + bias_bytes
    flops = 2.0 * tokens * k * n
    activation_bytes = tokens * (k + n) * (formats.activation_bits / 8)
    return Operator(
        weight.name,
        "matmul",
        Work(flops, weight_bytes, activation_bytes, 0.0, formats.math),
        Work(flops, weight_bytes, 0.0, 0.0, formats.math),
        inputs={
            "m": tokens,
            "k": k,
            "n": n,
            "weight_bits": formats.weight_bits,
            "activation_bits": formats.activation_bits,
            "bias_bytes": bias_bytes,
        },
        formulas=MATMUL,
        source=MATMUL_SOURCE,
    )


def visible_pairs(new_tokens: Number, past_tokens: Number, window: Number | None = None) -> Number:
    """Query-key pairs of causal attention of ``S`` new tokens on ``P`` cached ones.

    Token ``i`` of the new ones (from 1) sees ``P + i`` keys, itself included, so the pairs are

        sum over i = 1..S of (P + i) = S P + S (S + 1) / 2.

    With a window ``w`` a token sees at most ``w``: with ``f(x) = sum over j = 1..x of min(j, w)``
    the pairs are ``f(P + S) - f(P)``, and ``f(x) = c (c + 1) / 2 + (x - c) w`` where ``c = min(x, w)``.

    Examples
    --------
    >>> visible_pairs(2000, 0)
    2001000.0
    >>> visible_pairs(1, 2048)
    2049.0
    >>> visible_pairs(4, 0, window=2)
    7.0
    """
    if window is None:
        return new_tokens * past_tokens + new_tokens * (new_tokens + 1) / 2
    return _capped_sum(past_tokens + new_tokens, window) - _capped_sum(past_tokens, window)


def _capped_sum(count: Number, window: Number) -> Number:
    capped: Number = np.minimum(count, window)
    return capped * (capped + 1) / 2 + (count - capped) * window


ATTENTION = MappingProxyType(
    {
        "flops": "2 * sequences * query_heads * pairs * (key_dim + value_dim)",
        "activation_bytes": "sequences * new_tokens * query_heads * (key_dim + value_dim) * activation_bits / 8"
        " + score_bytes",
        "cache_bytes": "sequences * (past_read + 2 * new_tokens) * kv_values * kv_bits / 8",
    }
)
ATTENTION_SOURCE = (
    "attention: a dot product of key_dim and a weighted sum of value_dim for each visible pair and query head; keys and"
    " values read once for each KV head, new ones written and read back; FlashAttention (arXiv:2205.14135) keeps scores"
    " on the chip"
)


def attention(
    segment: Segment,
    *,
    query_heads: int,
    key_dim: int,
    value_dim: int,
    kv_values: float,
    window: int | None,
    run: Pass,
) -> Operator:
    """Causal attention of one segment: scores, softmax, weighted values, and the cache it reads and writes.

    FLOPs: for each visible pair (`visible_pairs`) and query head a dot product of ``key_dim`` and a weighted sum of
    ``value_dim``, ``2 (key_dim + value_dim)`` in all.

    Cache: the past that a window leaves visible is read once for each KV head (query heads of a group share it), the
    ``S`` new keys and values are written, and read back by the kernel.  What no implementation can avoid is reading the
    past and writing the new.

    Unfused attention also writes and reads the square of scores, before and after the softmax: 4 passes over
    ``sequences * query_heads * S * (P + S)`` values.

    Parameters
    ----------
    segment : the sequences
    kv_values : values that the cache holds for a token (keys and values of all KV heads)
    window : tokens that a query sees at most, itself included; None for all
    run : precision and the way attention runs
    """
    precision = run.precision
    sequences, new, past = segment.sequences, segment.new_tokens, segment.past_tokens
    pairs = visible_pairs(new, past, window)
    past_read = past if window is None else np.minimum(past, window - 1)
    activation_bits = precision.wide_bits
    score_bytes: Number = 0.0
    if run.attention == "unfused":
        score_bytes = 4 * sequences * query_heads * new * (past + new) * (activation_bits / 8)
    kv_bytes = kv_values * (precision.kv_bits / 8)
    flops = 2.0 * sequences * query_heads * pairs * (key_dim + value_dim)
    io_bytes = sequences * new * query_heads * (key_dim + value_dim) * (activation_bits / 8) + score_bytes
    math = precision.attention
    return Operator(
        "attention",
        "attention",
        Work(flops, 0.0, io_bytes, sequences * (past_read + 2 * new) * kv_bytes, math),
        Work(flops, 0.0, 0.0, sequences * (past_read + new) * kv_bytes, math),
        inputs={
            "sequences": sequences,
            "new_tokens": new,
            "past_tokens": past,
            "past_read": past_read,
            "pairs": pairs,
            "query_heads": query_heads,
            "key_dim": key_dim,
            "value_dim": value_dim,
            "kv_values": kv_values,
            "kv_bits": precision.kv_bits,
            "activation_bits": activation_bits,
            "score_bytes": score_bytes,
        },
        formulas=ATTENTION,
        source=ATTENTION_SOURCE,
    )


EXPERTS = MappingProxyType(
    {
        "flops": "2 * m * top_k * k * n",
        "weight_bytes": "experts * (1 - (1 - top_k / experts) ** m) * (k * n * weight_bits / 8 + bias_bytes)",
        "activation_bytes": "m * top_k * (k + n) * activation_bits / 8",
    }
)
EXPERTS_SOURCE = (
    "grouped product: every token is multiplied with top_k of the experts; under uniform routing T tokens touch"
    " E * (1 - (1 - top_k / E) ** T) distinct ones, and at least top_k if all agree"
)


def distinct_experts(experts: int, top_k: int, tokens: Number) -> Number:
    """Expected number of distinct experts that ``tokens`` tokens touch under uniform routing.

    A token leaves a given expert out with probability ``1 - k / E``; ``T`` independent tokens all leave it out with
    ``(1 - k / E) ** T``, so ``E (1 - (1 - k / E) ** T)`` are expected to be touched.

    Examples
    --------
    >>> round(distinct_experts(8, 2, 3), 3)
    4.625
    """
    return experts * (1.0 - (1.0 - top_k / experts) ** tokens)


def experts(weight: Linear, tokens: Number, run: Pass) -> Operator:
    """One matrix of every routed expert, applied to the tokens that chose it (see `distinct_experts`).

    ``weight.copies`` is the number of experts and ``weight.used`` how many a token goes to.
    """
    precision = run.precision
    formats = precision.part(weight.part)
    k, n, top_k = weight.d_in, weight.d_out, weight.used
    distinct = distinct_experts(weight.copies, top_k, tokens)
    bias_bytes = n * (precision.part("bias").weight_bits / 8) if weight.bias else 0.0
    matrix_bytes = k * n * (formats.weight_bits / 8) + bias_bytes
    flops = 2.0 * tokens * top_k * k * n
    activation_bytes = tokens * top_k * (k + n) * (formats.activation_bits / 8)
    least_bytes = np.minimum(top_k, distinct) * matrix_bytes
    return Operator(
        weight.name,
        "experts",
        Work(flops, distinct * matrix_bytes, activation_bytes, 0.0, formats.math),
        Work(flops, least_bytes, 0.0, 0.0, formats.math),
        inputs={
            "m": tokens,
            "k": k,
            "n": n,
            "experts": weight.copies,
            "top_k": top_k,
            "weight_bits": formats.weight_bits,
            "activation_bits": formats.activation_bits,
            "bias_bytes": bias_bytes,
        },
        formulas=EXPERTS,
        source=EXPERTS_SOURCE,
    )


ELEMENTWISE = MappingProxyType(
    {
        "weight_bytes": "parameters * weight_bits / 8",
        "activation_bytes": "tokens * values * activation_bits / 8",
    }
)


def elementwise(
    name: str, tokens: Number, values: float, run: Pass, *, parameters: float = 0.0, source: str = ""
) -> Operator:
    """An operator without matrix math: ``values`` activations of every token move, and its own parameters once."""
    precision = run.precision
    formats = precision.part("norm")
    weight_bytes = parameters * (formats.weight_bits / 8)
    moved = tokens * values * (precision.wide_bits / 8)
    return Operator(
        name,
        "elementwise",
        Work(0.0, weight_bytes, moved, 0.0, formats.math),
        Work(0.0, weight_bytes, 0.0, 0.0, formats.math),
        inputs={
            "tokens": tokens,
            "values": values,
            "parameters": parameters,
            "weight_bits": formats.weight_bits,
            "activation_bits": precision.wide_bits,
        },
        formulas=ELEMENTWISE,
        source=source,
    )


LOOKUP = MappingProxyType(
    {
        "weight_bytes": "tokens * width * weight_bits / 8",
        "activation_bytes": "tokens * width * activation_bits / 8",
    }
)
LOOKUP_SOURCE = "embedding: a row read for each token, not a product with the table"


def lookup(name: str, tokens: Number, width: float, run: Pass) -> Operator:
    """Embedding lookup: one row of ``width`` values is read and written for each token; the table is not streamed."""
    precision = run.precision
    formats = precision.part("embedding")
    row_bytes = width * (formats.weight_bits / 8)
    return Operator(
        name,
        "lookup",
        Work(0.0, tokens * row_bytes, tokens * width * (precision.wide_bits / 8), 0.0, formats.math),
        Work(0.0, np.minimum(tokens, 1.0) * row_bytes, 0.0, 0.0, formats.math),
        inputs={
            "tokens": tokens,
            "width": width,
            "weight_bits": formats.weight_bits,
            "activation_bits": precision.wide_bits,
        },
        formulas=LOOKUP,
        source=LOOKUP_SOURCE,
    )
