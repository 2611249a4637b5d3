"""Estimates: what kernels reach of the data sheet's peaks, fitted to measured times (see `roofline.efficiency.forms`).

Peaks stay peaks; what is reached of them is kept in ``efficiency_specs``, a file an accelerator, each set of parameters
with the number of timings behind it and the error that it leaves.  An accelerator without timings takes the values of
its family, and the result says so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..errors import Number
from ..hardware import Accelerator
from ..operators import roofline
from ..operators.operator import Operator
from .forms import Kernel, join, larger
from .kinds import collective_kind, kind_of
from .store import Calibrated, find

__all__ = ["Calibrated", "Estimate", "collective_kind", "estimate", "kind_of"]


class Estimate(NamedTuple):
    """Expected time, the interval that holds four of five measurements, and what both rest on."""

    time_s: Number
    low_s: Number
    high_s: Number
    basis: str


def estimate(
    operator: Operator, accelerator: Accelerator, *, compute_s: Number, memory_s: Number, profile: str | None = None
) -> Estimate:
    """Expected time of all runs of ``operator``.

    Parameters
    ----------
    compute_s, memory_s : times of all its runs at the data sheet's peaks; no estimate is below either
    profile : the engine whose kernels run (``vllm``, ``trtllm``, ``sglang``); the middle of them if None

    Raises
    ------
    UnknownName
        ``profile`` is none that there are parameters of.
    """
    if operator.message is not None:
        return _exchange(operator, accelerator, memory_s, profile)
    if operator.kind == "elementwise" or operator.joins:
        return _fused(operator, accelerator, compute_s, memory_s, profile)
    new = operator.inputs.get("new_tokens")
    if isinstance(new, np.ndarray) and operator.kind == "attention" and np.any(new == 1) and np.any(new != 1):
        return _mixed(operator, accelerator, compute_s, memory_s, profile)
    return _kernel(find(accelerator, kind_of(operator), profile), operator, accelerator, compute_s, memory_s)


def _kernel(
    found: Calibrated, operator: Operator, accelerator: Accelerator, compute_s: Number, memory_s: Number
) -> Estimate:
    count, processors = operator.count, accelerator.compute_units or found.processors
    runs = count + (count == 0)
    cached_s = larger(roofline.memory_s(operator.work.moved_bytes, accelerator) - memory_s / runs, 0.0)
    run = Kernel(compute_s / runs, memory_s / runs, cached_s, processors, operator.inputs)
    return _interval(found, count * found.form.time_s(found.parameters, run), larger(compute_s, memory_s))


def _interval(found: Calibrated, time_s: Number, least_s: Number) -> Estimate:
    """No time is below the operator's own floor."""
    time_s = larger(time_s, least_s)
    return Estimate(time_s, larger(time_s * found.low, least_s), time_s * found.high, found.basis)


def _fused(
    operator: Operator, accelerator: Accelerator, compute_s: Number, memory_s: Number, profile: str | None
) -> Estimate:
    """Work that joins a neighbor's kernel: it computes and moves bytes, but nothing starts."""
    found = find(accelerator, kind_of(operator), profile)
    share = found.parameters
    time_s = memory_s / share["memory"]
    if operator.kind != "elementwise":
        time_s = join(share["overlap"], compute_s / share["compute"], time_s)
    return _interval(found, time_s, larger(compute_s, memory_s))


def _mixed(
    operator: Operator, accelerator: Accelerator, compute_s: Number, memory_s: Number, profile: str | None
) -> Estimate:
    """A sweep over passes of one and of many new tokens: the kernel of each where it runs."""
    one = np.asarray(operator.inputs["new_tokens"]) == 1
    sides = []
    for new_tokens in (1, 2):
        kind = kind_of(replace(operator, inputs={**operator.inputs, "new_tokens": new_tokens}))
        sides.append(_kernel(find(accelerator, kind, profile), operator, accelerator, compute_s, memory_s))
    return _chosen(one, *sides)


def _chosen(first: Any, one: Estimate, other: Estimate) -> Estimate:
    return Estimate(
        np.where(first, one.time_s, other.time_s),
        np.where(first, one.low_s, other.low_s),
        np.where(first, one.high_s, other.high_s),
        "; ".join(dict.fromkeys((one.basis, other.basis))),
    )


def _exchange(operator: Operator, accelerator: Accelerator, memory_s: Number, profile: str | None) -> Estimate:
    """A message to other accelerators: the parameters of each size of group that there is; alone, nothing."""
    message = operator.message
    assert message is not None
    wire_s = message.network_s(accelerator)
    sizes = np.unique(message.accelerators)
    result = Estimate(0.0 * wire_s, 0.0 * wire_s, 0.0 * wire_s, "")
    for size in sizes[sizes > 1]:
        found = find(accelerator, collective_kind(message.collective, float(size)), profile)
        run = Kernel(0.0, wire_s, 0.0, 1.0, operator.inputs)
        least_s = larger(operator.count * wire_s, memory_s)
        part = _interval(found, operator.count * found.form.time_s(found.parameters, run), least_s)
        result = part if len(sizes) == 1 else _chosen(np.equal(message.accelerators, size), part, result)
    return result
