"""The roofline formula: how long operators take each resource of an accelerator.  It stands here and nowhere else.

    compute_s  = flops / peak of the math format, or exponentials / their peak if that is longer
    memory_s   = moved bytes / memory bandwidth
    network_s  = bytes of a message on the links / their rate, one way
    roofline_s = max(compute_s, memory_s, network_s)

The floor counts with the highest rates instead: the highest clock, sums in 16 bits where those are faster
(`Accelerator.fastest_flops_per_s`).

An operator left of the ridge point ``peak / bandwidth`` is limited by memory, right of it by compute (Williams,
Waterman, Patterson: Roofline, CACM 52(4), 2009).
"""

from __future__ import annotations

from typing import NamedTuple

from ..arrays import everywhere, larger, smaller
from ..errors import Number
from ..hardware import Accelerator
from .operator import Operator

NOTHING_RESIDENT = 0.0
"""The default of ``resident_bytes``; passed as it is, subtracting is skipped."""


class Times(NamedTuple):
    """What an operator does to each resource of an accelerator, all its runs together.

    Attributes
    ----------
    flops, moved_bytes : float or array
        FLOPs, and bytes that cross the memory interface.
    least_bytes : float or array
        Bytes that no implementation can avoid moving.
    compute_s, memory_s, network_s, roofline_s : float or array
        Times at the data sheet's peaks, and the longest of them.
    least_busy_s : float or array
        Least time of the units that compute it, or of the links that carry its message.
    """

    flops: Number
    moved_bytes: Number
    least_bytes: Number
    compute_s: Number
    memory_s: Number
    network_s: Number
    roofline_s: Number
    least_busy_s: Number


def compute_s(flops: Number, accelerator: Accelerator, math: str) -> Number:
    """Time of ``flops`` at the dense peak of the units for ``math``, which the chip has to have."""
    return flops / accelerator.dense_flops_per_s[math]


def exponentials_s(exponentials: Number, accelerator: Accelerator) -> Number:
    """Time of exponentials on the special-function units; nothing where the chip does not state their rate.

    Hopper and earlier, and Blackwell, compute 16 a clock and multiprocessor (CUDA C++ Programming Guide, table of the
    throughput of native arithmetic instructions), so that softmax takes as long as the products of heads of 64 on an
    H100 (FlashAttention-3, arXiv:2407.08608, section 3.1).  Kernels may compute some of them with multiply-adds instead
    (FlashAttention-4), so they are in the roofline and not in the floor.
    """
    rate = accelerator.exponentials_per_s
    return 0.0 if rate is None else exponentials / rate


def memory_s(moved_bytes: Number, accelerator: Accelerator) -> Number:
    """Time of bytes that cross the memory interface at its bandwidth."""
    return moved_bytes / accelerator.memory_bytes_per_s


def least_math(operator: Operator, accelerator: Accelerator) -> str:
    """Format of the fastest units that a kernel for ``operator`` may use on this chip.

    A kernel may convert its operands to the narrower format of a cache (``operator.least.math``), whatever it was asked
    for; on a chip whose narrower units are slower it does not.
    """
    own = accelerator.math_on_chip(operator.work.math)
    if operator.least.math == operator.work.math:
        return own
    other = accelerator.math_on_chip(operator.least.math)
    faster = accelerator.fastest_flops_per_s(other) > accelerator.fastest_flops_per_s(own)
    return other if everywhere(faster) else own


def least_compute_s(operator: Operator, accelerator: Accelerator) -> Number:
    """Least time of the FLOPs of all runs of ``operator``, on the fastest units that its kernel may use."""
    rate = accelerator.fastest_flops_per_s(least_math(operator, accelerator))
    return operator.count * operator.least.flops / rate


VECTOR = "fp32"
"""The format that the vector units compute; every other one takes the matrix units."""


def units_of(math: str) -> str:
    """The units that compute a format of the chip: ``matrix`` or ``vector``.

    All formats of the matrix units share one set of them: a product in 8 bits keeps one in 16 bits waiting, so their
    times add up.  Plain fp32 runs on the vector units beside them.
    """
    return "vector" if math == VECTOR else "matrix"


def times(operator: Operator, accelerator: Accelerator, math: str, resident_bytes: Number = NOTHING_RESIDENT) -> Times:
    """The roofline of all runs of ``operator`` on the units for ``math``.

    ``least_bytes`` leaves out what may stay on the chip; ``resident_bytes`` are there already and do not move.
    """
    count, work = operator.count, operator.work
    flops, moved, least = count * work.flops, count * work.moved_bytes, count * operator.least.moved_bytes
    if resident_bytes is not NOTHING_RESIDENT:
        moved, least = larger(moved - resident_bytes, 0.0), larger(least - resident_bytes, 0.0)
    computing_s, moving_s = compute_s(flops, accelerator, math), memory_s(moved, accelerator)
    if operator.kind == "attention":
        computing_s = larger(computing_s, exponentials_s(count * work.exponentials, accelerator))
    roofline_s = larger(computing_s, moving_s)
    if operator.message is None:
        busy_s = least_compute_s(operator, accelerator)
        return Times(flops, moved, least, computing_s, moving_s, 0.0, roofline_s, busy_s)
    network_s = count * operator.message.network_s(accelerator)
    busy_s = count * operator.message.least_s(accelerator)
    return Times(flops, moved, least, computing_s, moving_s, network_s, larger(roofline_s, network_s), busy_s)


def operator_floor_s(
    operator: Operator,
    accelerator: Accelerator,
    *,
    compute_s: Number,
    memory_s: Number,
    resident_bytes: Number = NOTHING_RESIDENT,
) -> Number:
    """Least time of an operator run by itself, its messages left out.

    Its inputs and outputs are moved and its FLOPs computed at the highest rates of the chip.  Where the work depends on
    the data or on the kernel (experts read, cache entries selected, a narrower format inside), the least is counted.

    Parameters
    ----------
    operator : Operator
        All its runs.
    accelerator : Accelerator
        Where it runs.
    compute_s, memory_s : float or array
        Its times at the data sheet's peaks, which the floor's are never above.
    resident_bytes : float or array
        Bytes of the operands of all runs that are on the chip already and need not move.
    """
    work, least = operator.work, operator.least
    once = larger(work.activation_bytes, least.activation_bytes) + least.weight_bytes + least.cache_bytes
    moved = larger(operator.count * once - resident_bytes, 0.0)
    computing_s = smaller(least_compute_s(operator, accelerator), compute_s)
    return larger(computing_s, smaller(moved / accelerator.memory_bytes_per_s, memory_s))


def kernel_floor_s(
    operator: Operator, accelerator: Accelerator, *, resident_bytes: Number = NOTHING_RESIDENT
) -> Number:
    """Least time of a kernel by itself: what it can't avoid computing, moving or exchanging, at the highest rates.

    Parameters
    ----------
    operator : Operator
        Whose ``least`` counts.
    accelerator : Accelerator
        Where it runs.
    resident_bytes : float or array
        Bytes of the operands of all runs that are on the chip already and need not move.
    """
    if operator.message is not None:
        return operator.count * operator.message.least_s(accelerator)
    computing_s = least_compute_s(operator, accelerator)
    moved = larger(operator.count * operator.least.moved_bytes - resident_bytes, 0.0)
    return larger(computing_s, memory_s(moved, accelerator))
