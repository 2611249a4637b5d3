"""The roofline formula: time for which operators use each resource of an accelerator.

    compute_s  = flops / peak of the math format, or exponentials / their peak if that is longer
    memory_s   = moved bytes / memory bandwidth
    network_s  = bytes of a message on the links / their rate, one way
    roofline_s = max(compute_s, memory_s, network_s)

The floor uses the highest rates instead: the highest clock, and sums in 16 bits where those are faster
(`Accelerator.fastest_flops_per_s`).

An operator left of the ridge point ``peak / bandwidth`` is limited by memory, right of it by compute (Williams,
Waterman, Patterson: Roofline, CACM 52(4), 2009).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ..arrays import Words, everywhere, larger, smaller
from ..errors import Number
from ..hardware import Accelerator
from .operator import Operator

NOTHING_RESIDENT = 0.0
"""Default of ``resident_bytes``, recognized by identity to skip the subtraction."""


class Times(NamedTuple):
    """Load of all runs of an operator on each resource of an accelerator.

    Attributes
    ----------
    flops, moved_bytes : float or array
        FLOPs, and bytes that cross the memory interface.
    least_bytes : float or array
        Bytes that no implementation can avoid moving.
    compute_s, memory_s, network_s, roofline_s : float or array
        Times at data-sheet peaks, and the longest of them.
    least_busy_s : float or array
        Least busy time of the units that compute it, or of the links that carry its message.
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
    """Return the time of ``flops`` at the dense peak of the chip's units for ``math``."""
    return flops / accelerator.dense_flops_per_s[math]


def exponentials_s(exponentials: Number, accelerator: Accelerator) -> Number:
    """Return the time of exponentials on the special-function units; 0 if their rate is not known.

    Hopper and earlier, and Blackwell, compute 16 per clock and multiprocessor (CUDA C++ Programming Guide, table of the
    throughput of native arithmetic instructions), so that softmax takes as long as the products of heads of 64 on an
    H100 (FlashAttention-3, arXiv:2407.08608, section 3.1).  Kernels may compute some of them with multiply-adds instead
    (FlashAttention-4), so they are in the roofline and not in the floor.
    """
    rate = accelerator.exponentials_per_s
    return 0.0 if rate is None else exponentials / rate


def memory_s(moved_bytes: Number, accelerator: Accelerator) -> Number:
    """Return the time of bytes at the memory bandwidth."""
    return moved_bytes / accelerator.memory_bytes_per_s


def busiest_s(compute_s: Number, memory_s: Number) -> Number:
    """Return the time of the busier one of two resources that work at the same time: the roofline formula."""
    return larger(compute_s, memory_s)


def least_math(operator: Operator, accelerator: Accelerator) -> str:
    """Return the format of the fastest units that a kernel for ``operator`` may use on this chip.

    A kernel may convert its operands to the narrower format of a cache (``operator.least.math``), whatever format was
    requested, unless the chip's narrower units are slower.
    """
    own = accelerator.math_on_chip(operator.work.math)
    if operator.least.math == operator.work.math:
        return own
    other = accelerator.math_on_chip(operator.least.math)
    faster = accelerator.fastest_flops_per_s(other) > accelerator.fastest_flops_per_s(own)
    return other if everywhere(faster) else own


def least_compute_s(operator: Operator, accelerator: Accelerator) -> Number:
    """Return the least time of the FLOPs of all runs, on the fastest units that a kernel may use."""
    rate = accelerator.fastest_flops_per_s(least_math(operator, accelerator))
    return operator.count * operator.least.flops / rate


VECTOR = "fp32"
"""Format computed by the vector units; all others use the matrix units."""


def units_of(math: str) -> str:
    """Return the units that compute a format: ``matrix`` or ``vector``.

    All formats of the matrix units share the same units, so times of products in 8 and in 16 bits add up.  Plain fp32
    runs on the vector units in parallel.
    """
    return "vector" if math == VECTOR else "matrix"


def times(operator: Operator, accelerator: Accelerator, math: str, resident_bytes: Number = NOTHING_RESIDENT) -> Times:
    """Return the roofline times of all runs of ``operator`` on the units for ``math``.

    ``least_bytes`` leaves out values that may stay on the chip.  ``resident_bytes`` are there already and do not move.
    """
    count, work = operator.count, operator.work
    flops, moved, least = count * work.flops, count * work.moved_bytes, count * operator.least.moved_bytes
    if resident_bytes is not NOTHING_RESIDENT:
        moved, least = larger(moved - resident_bytes, 0.0), larger(least - resident_bytes, 0.0)
    computing_s, moving_s = compute_s(flops, accelerator, math), memory_s(moved, accelerator)
    if operator.kind == "attention":
        computing_s = larger(computing_s, exponentials_s(count * work.exponentials, accelerator))
    roofline_s = busiest_s(computing_s, moving_s)
    if operator.message is None:
        busy_s = least_compute_s(operator, accelerator)
        return Times(flops, moved, least, computing_s, moving_s, 0.0, roofline_s, busy_s)
    network_s = count * operator.message.network_s(accelerator)
    busy_s = count * operator.message.least_s(accelerator)
    return Times(flops, moved, least, computing_s, moving_s, network_s, busiest_s(roofline_s, network_s), busy_s)


def operator_floor_s(
    operator: Operator,
    accelerator: Accelerator,
    *,
    compute_s: Number,
    memory_s: Number,
    resident_bytes: Number = NOTHING_RESIDENT,
) -> Number:
    """Return the least time of an operator run alone, without messages.

    Inputs and outputs are moved and FLOPs computed at the highest rates of the chip.  If the work depends on the data
    or on the kernel (experts read, cache entries selected, a narrower format inside), the minimum counts.

    Parameters
    ----------
    operator : Operator
        Operator, with all its runs.
    accelerator : Accelerator
        Accelerator that runs it.
    compute_s, memory_s : float or array
        Times at data-sheet peaks; the floor's times never exceed them.
    resident_bytes : float or array
        Bytes of the operands of all runs that are on the chip already and need not move.
    """
    work, least = operator.work, operator.least
    once = larger(work.activation_bytes, least.activation_bytes) + least.weight_bytes + least.cache_bytes
    moved = larger(operator.count * once - resident_bytes, 0.0)
    computing_s = smaller(least_compute_s(operator, accelerator), compute_s)
    return busiest_s(computing_s, smaller(moved / accelerator.memory_bytes_per_s, memory_s))


def kernel_floor_s(
    operator: Operator, accelerator: Accelerator, *, resident_bytes: Number = NOTHING_RESIDENT
) -> Number:
    """Return the least time of a kernel alone: unavoidable FLOPs, bytes and messages at the highest rates.

    Parameters
    ----------
    operator : Operator
        Operator with the unavoidable work ``least``.
    accelerator : Accelerator
        Accelerator that runs it.
    resident_bytes : float or array
        Bytes of the operands of all runs that are on the chip already and need not move.
    """
    if operator.message is not None:
        return operator.count * operator.message.least_s(accelerator)
    computing_s = least_compute_s(operator, accelerator)
    moved = larger(operator.count * operator.least.moved_bytes - resident_bytes, 0.0)
    return busiest_s(computing_s, memory_s(moved, accelerator))


def name_limits(times: Mapping[str, Number]) -> Words:
    """Name of the largest of ``times``, element by element; the first one wins a tie."""
    if all(isinstance(value, float | int) for value in times.values()):
        return max(times, key=lambda name: times[name])
    (first, longest), *others = times.items()
    shape = np.broadcast_shapes(*map(np.shape, times.values()))
    found = np.full(shape, first, dtype=np.array(list(times)).dtype)
    for name, value in others:
        np.copyto(found, name, where=np.asarray(value > longest))
        if name != others[-1][0]:  # nothing is compared with the last one: a sweep need not hold another array
            longest = larger(longest, value)
    return found if shape else str(found)
