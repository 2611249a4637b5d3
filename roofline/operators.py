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

from .collectives import Message
from .errors import Number, number
from .formats import get_format, math_format
from .parallel import ONE, Parallel
from .precision import Precision
from .weights import Linear
from .work import Work


@dataclass(frozen=True, eq=False, slots=True)
class Operator:
    """One operator of a layer, run ``count`` times a pass.

    Attributes
    ----------
    name : as the field calls it (``q_proj``, ``attention``, ``experts`` ...)
    kind : what sort of kernel it is: ``matmul``, ``experts``, ``attention``, ``scan``, ``elementwise``, ``lookup``
        or ``collective``
    work : FLOPs and all bytes in and out, once
    least : the work that no implementation can avoid: the floor counts this
    inputs : the numbers that ``formulas`` are over
    formulas : field of `Work` -> its formula as a Python expression over ``inputs``
    source : where the formulas are from
    message : what is exchanged with other accelerators; None for work on the chip
    """

    name: str
    kind: str
    work: Work
    least: Work
    count: Number = 1.0
    inputs: Mapping[str, Any] = field(default_factory=dict)
    formulas: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    message: Message | None = None

    def times(self, count: Number) -> Operator:
        """The same operator run ``count`` times as often."""
        total = self.count * count
        return Operator(
            self.name, self.kind, self.work, self.least, total, self.inputs, self.formulas, self.source, self.message
        )


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
    parallel : over how many accelerators; operators then are those of the fullest one
    """

    segments: tuple[Segment, ...]
    precision: Precision
    attention: str = "fused"
    parallel: Parallel = ONE

    @cached_property
    def tokens(self) -> Number:
        """New tokens that one accelerator computes: context parallelism divides those of a sequence, down to one."""
        if self.parallel.single:
            return sum(segment.tokens for segment in self.segments)
        context = self.parallel.context
        return sum(each.sequences * np.maximum(each.new_tokens / context, 1.0) for each in self.segments)

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
        shape={"m": m, "k": k, "n": n, "weight_bits": stored.bits, "activation_bits": fed.bits, "bias_bytes": 0.0},
    )


def linear(weight: Linear, tokens: Number, run: Pass) -> Operator:
    """``[tokens, d_in] @ [d_in, d_out]`` in the formats of the weight's part, bias read along (see `matmul`).

    Under tensor parallelism it is the part on the fullest accelerator (`Linear.shape_on`).
    """
    precision = run.precision
    formats = precision.part(weight.part)
    k, n = (weight.d_in, weight.d_out) if run.parallel.single else weight.shape_on(run.parallel.tensor)
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
    >>> float(visible_pairs(4, 0, window=2))
    7.0
    """
    if window is None:
        return new_tokens * past_tokens + new_tokens * (new_tokens + 1) / 2
    return _capped_sum(past_tokens + new_tokens, window) - _capped_sum(past_tokens, window)


def _capped_sum(count: Number, window: Number) -> Number:
    capped: Number = np.minimum(count, window)
    return capped * (capped + 1) / 2 + (count - capped) * window


EXPERTS = MappingProxyType(
    {
        "flops": "2 * m * top_k / ways * k * n",
        "weight_bytes": "max(experts / ways * (1 - (1 - top_k / experts) ** m), top_k / ways, 1)"
        " * (k * n * weight_bits / 8 + bias_bytes)",
        "activation_bytes": "m * top_k / ways * (k + n) * activation_bits / 8",
    }
)
EXPERTS_SOURCE = (
    "grouped product: every token is multiplied with top_k of the experts; under uniform routing T tokens touch"
    " E * (1 - (1 - top_k / E) ** T) distinct ones, and at least top_k if all agree; an even share on each of the ways"
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

    ``weight.copies`` is the number of experts and ``weight.used`` how many a token goes to.  Under expert parallelism
    each of the ways holds an even share of the experts and sees the tokens of all replicas that share them, so a given
    expert is hit with the global chance ``top_k / experts``; the fullest one reads at least one expert.
    """
    parallel, precision = run.parallel, run.precision
    formats = precision.part(weight.part)
    top_k, ways, rows = weight.used, parallel.expert, tokens * parallel.expert_replicas
    k, n = weight.shape_on(parallel.expert_tensor)
    least = np.maximum(top_k / ways, 1.0)
    distinct = np.maximum(distinct_experts(weight.copies, top_k, rows) / ways, least)
    bias_bytes = n * (precision.part("bias").weight_bits / 8) if weight.bias else 0.0
    matrix_bytes = k * n * (formats.weight_bits / 8) + bias_bytes
    routed = rows * top_k / ways
    flops = 2.0 * routed * k * n
    activation_bytes = routed * (k + n) * (formats.activation_bits / 8)
    return Operator(
        weight.name,
        "experts",
        Work(flops, distinct * matrix_bytes, activation_bytes, 0.0, formats.math),
        Work(flops, least * matrix_bytes, 0.0, 0.0, formats.math),
        inputs={
            "m": rows,
            "k": k,
            "n": n,
            "experts": weight.copies,
            "top_k": top_k,
            "ways": ways,
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


COLLECTIVE = MappingProxyType({"activation_bytes": "2 * message_bytes * (gpus > 1)"})
COLLECTIVE_SOURCE = "collective: the message is read from memory and its result written; on the links see network_s"


def collective(name: str, message: Message, run: Pass) -> Operator:
    """A message to other accelerators; nothing moves if there are none.

    Its bytes cross the memory interface twice; what crosses the links, and for how long, depends on the accelerator
    (`roofline.collectives.exchange_s`).
    """
    math = run.precision.part("norm").math
    moved = 2 * message.message_bytes * (message.accelerators > 1)
    inputs = {"message_bytes": message.message_bytes, "gpus": message.accelerators}
    work, least = Work(0.0, 0.0, moved, 0.0, math), Work(math=math)
    return Operator(name, "collective", work, least, 1.0, inputs, COLLECTIVE, COLLECTIVE_SOURCE, message)
