"""Matrix products: from shapes to `Work`, independent of an accelerator.

Symbols: ``T`` tokens in the pass (all sequences together), ``S`` new and ``P`` cached tokens per sequence, ``H`` query
heads, ``K`` KV heads, ``d`` width of a head, ``D`` width of the model.

A multiply-add counts as 2 FLOPs. Every function takes floats or arrays and broadcasts.
"""

from __future__ import annotations

import numpy as np

from ..arrays import FrozenMapping, larger
from ..errors import InvalidInput, Number, number
from ..formats import get_format, math_format
from .operator import Operator, Pass
from .weights import Linear
from .work import Work

MATMUL = FrozenMapping(
    {
        "flops": "2 * m * k * n",
        "weight_bytes": "k * n * weight_bits / 8 + bias_bytes",
        "activation_bytes": "m * (k + n) * activation_bits / 8",
    }
)
WRITTEN_WIDE = {"written_wide": 1.0}
"""Marks products before which a kernel of its own writes the weights in 16 bits."""

MATMUL_SOURCE = "dense product [m,k] @ [k,n]: a multiply and an add for each of m*k*n, every operand moved once"


def matmul(m: Number, k: Number, n: Number, *, weights: str = "bf16", activations: str = "bf16") -> Work:
    """Return the work of ``[m, k] @ [k, n]``, where ``[k, n]`` are weights that are read once.

    Each of the ``m * n`` results is a dot product of length ``k``: ``k`` multiplies and ``k`` adds, so ``2 m k n``
    FLOPs.  The weights are ``k n`` values, input and output ``m k`` and ``m n``.

    Parameters
    ----------
    m, k, n : float or array
        Sizes of the product.
    weights, activations : str
        Formats, which determine the bytes and the units that compute the product.

    Raises
    ------
    InvalidInput
        A size is not a finite number >= 0, or arrays of sizes do not broadcast.
    UnknownName
        A format does not exist.

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
    try:
        np.broadcast_shapes(np.shape(m), np.shape(k), np.shape(n))
    except ValueError as error:
        raise InvalidInput(f"m, k and n must broadcast: {error}") from None
    stored, fed = get_format(weights), get_format(activations)
    shape = {"m": m, "k": k, "n": n, "weight_bits": stored.bits, "activation_bits": fed.bits, "bias_bytes": 0.0}
    return Work(
        flops=2.0 * m * k * n,
        weight_bytes=k * n * (stored.bits / 8),
        activation_bytes=m * (k + n) * (fed.bits / 8),
        math=math_format(stored, fed),
        shape=shape | WRITTEN_WIDE if stored.written_wide else shape,
    )


def linear(weight: Linear, tokens: Number, run: Pass) -> Operator:
    """Return ``[tokens, d_in] @ [d_in, d_out]`` in the formats of the weight's part, with its bias (see `matmul`).

    Under tensor parallelism it is the part on the most loaded accelerator (`Linear.shape_on`).  Engines replicate some
    matrices (latents, routers).  Their columns could be divided and gathered instead, so the least work is an even
    share.
    """
    precision = run.precision
    formats = precision.part(weight.part)
    k, n = (weight.d_in, weight.d_out) if run.parallel.single else weight.shape_on(run.parallel.tensor)
    bias_bytes = n * (precision.part("bias").weight_bits / 8) if weight.bias else 0.0
    weight_bytes = k * n * (formats.weight_bits / 8) + bias_bytes
    # The sizes of the matrix come first, so that a sweep over tokens takes one array product per value.
    flops = tokens * (2.0 * k * n)
    activation_bytes = tokens * ((k + n) * (formats.activation_bits / 8))
    least_flops, least_weight_bytes = flops, weight_bytes
    if weight.split == "whole":
        least_flops, least_weight_bytes = flops / run.parallel.tensor, weight_bytes / run.parallel.tensor
    inputs = {
        "m": tokens,
        "k": k,
        "n": n,
        "weight_bits": formats.weight_bits,
        "activation_bits": formats.activation_bits,
        "bias_bytes": bias_bytes,
    }
    return Operator(
        weight.name,
        "matmul",
        Work(flops, weight_bytes, activation_bytes, 0.0, formats.math),
        Work(least_flops, least_weight_bytes, 0.0, 0.0, formats.math),
        inputs=inputs | WRITTEN_WIDE if formats.written_wide else inputs,
        formulas=MATMUL,
        source=MATMUL_SOURCE,
        joins=weight.joins,
    )


EXPERTS = FrozenMapping(
    {
        "flops": "2 * m * top_k / ways * k * n",
        "weight_bytes": "max(experts / ways * (1 - (1 - top_k / experts) ** m), least_experts / ways, 1)"
        " * (k * n * weight_bits / 8 + bias_bytes)",
        "activation_bytes": "m * top_k / ways * (k + n) * activation_bits / 8",
    }
)
EXPERTS_SOURCE = (
    "grouped product: every token is multiplied with top_k of the experts; under uniform routing T tokens touch"
    " E * (1 - (1 - top_k / E) ** T) distinct ones, and at least top_k if all agree; an even share on each of the ways"
)


def distinct_experts(experts: Number, top_k: Number, tokens: Number) -> Number:
    """Return the expected number of distinct experts that ``tokens`` tokens touch under uniform routing.

    A token misses a given expert with probability ``1 - k / E``, and ``T`` independent tokens all miss it with ``(1 - k
    / E) ** T``, so ``E (1 - (1 - k / E) ** T)`` experts are expected to be touched.

    Examples
    --------
    >>> round(distinct_experts(8, 2, 3), 3)
    4.625
    """
    return experts * (1.0 - (1.0 - top_k / experts) ** tokens)


def experts(weight: Linear, tokens: Number, run: Pass, *, least_experts: Number | None = None) -> Operator:
    """Return one matrix of every routed expert, applied to its tokens (see `distinct_experts`).

    ``weight.copies`` is the number of experts and ``weight.used`` the number per token.  Under expert parallelism each
    accelerator holds an even share of the experts and receives the tokens of all replicas that share them.  So a token
    selects a given expert with the global probability ``top_k / experts``.  The most loaded accelerator reads at least
    one expert.

    All tokens may choose the same experts, so at least ``top_k`` are read.  ``least_experts``, over all accelerators,
    sets a higher minimum if more are certain (tokens distributed evenly touch ``min(E, T top_k)``).

    For estimates, the inputs also contain ``routed_rows`` (tokens times experts per token) and ``local_experts`` of
    this accelerator, the number of ``matrices`` per expert that the operator represents, and the ``skew`` of the
    routing (0: uniform).
    """
    parallel, precision = run.parallel, run.precision
    formats = precision.part(weight.part)
    top_k, ways, rows = weight.used, parallel.expert, tokens * parallel.expert_replicas
    k, n = weight.shape_on(parallel.expert_tensor)
    certain = top_k if least_experts is None else least_experts
    least = larger(certain / ways, 1.0)
    distinct = larger(distinct_experts(weight.copies, top_k, rows) / ways, least)
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
            "least_experts": certain,
            "routed_rows": routed,
            "local_experts": weight.copies / ways,
            "matrices": 1.0,
            "skew": 0.0,
            "weight_bits": formats.weight_bits,
            "activation_bits": formats.activation_bits,
            "bias_bytes": bias_bytes,
        },
        formulas=EXPERTS,
        source=EXPERTS_SOURCE,
    )
