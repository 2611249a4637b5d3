"""Derivation of an estimate: the terms of each engine's kernel, how they combine, and the median over engines."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np

from ..arrays import distinct
from ..errors import Number
from ..hardware import Accelerator
from ..operators.operator import Operator
from ..report import Step
from .estimates import cases_of, estimate, kernel_of, predicted, takes_either_kernel, wider
from .forms import Kernel
from .kinds import collective_kind, kind_of
from .lookup import kernels_for
from .stand_ins import kernels_of
from .store import Calibrated, Found

MEDIANS = {
    1: "{0}",
    2: "({0} + {1}) / 2",
    3: "{0} + {1} + {2} - max({0}, {1}, {2}) - min({0}, {1}, {2})",
    4: "({0} + {1} + {2} + {3} - max({0}, {1}, {2}, {3}) - min({0}, {1}, {2}, {3})) / 2",
}
"""Number of engines -> formula for the median of their times."""


def explain_estimate(
    operator: Operator, accelerator: Accelerator, *, compute_s: Number, memory_s: Number, profile: str | None = None
) -> Iterator[Step]:
    """Derive the estimate of all runs of ``operator`` from the parameters of its kernels.

    Parameters
    ----------
    operator, accelerator, compute_s, memory_s, profile
        As in `roofline.efficiency.estimates.estimate`.

    Yields
    ------
    Step
        For each engine, the terms of its kernel and their combination; then the median; then the estimate, which is at
        least the time at the peaks.  A sweep over shapes that use different kernels gives the last step only.
    """
    result = estimate(operator, accelerator, compute_s=compute_s, memory_s=memory_s, profile=profile)
    prefix = f"{operator.name}.estimate"
    found = _single(operator, accelerator, profile)
    if found is None:
        inputs = {"kernels_s": result.time_s, "compute_s": compute_s, "memory_s": memory_s}
        yield Step(
            f"{prefix}_s",
            "max(kernels_s, compute_s, memory_s)",
            inputs,
            result.time_s,
            result.basis or "no kernel runs",
        )
        return
    run = _run(operator, accelerator, compute_s, memory_s)
    times: dict[str, Any] = {}
    for engine, member in found.members.items():
        step = _of_engine(f"{prefix}_{engine}_s", member, run)
        times[f"{engine}_s".replace("-", "_")] = step.value
        yield step
    once_s = np.median(np.stack(np.broadcast_arrays(*times.values())), axis=0)
    if len(times) in MEDIANS:
        yield Step(f"{prefix}_median_s", MEDIANS[len(times)].format(*times), times, once_s, "median of the engines")
    capped = _capped(operator, accelerator, found, run, profile)
    inputs = {"count": operator.count, "median_s": once_s}
    once = "median_s"
    if np.any(np.isfinite(capped)):
        inputs["wider_s"] = capped
        once = "min(median_s, wider_s)"
    inputs |= {"compute_s": compute_s, "memory_s": memory_s}
    formula = f"max(count * {once}, compute_s, memory_s)"
    if operator.message is not None:
        inputs["network_s"] = operator.count * operator.message.network_s(accelerator)
        formula = f"max(count * {once}, memory_s, network_s)"
    yield Step(f"{prefix}_s", formula, inputs, result.time_s, result.basis)


def _single(operator: Operator, accelerator: Accelerator, profile: str | None) -> Found | None:
    """The kernels used by all shapes of a sweep; None if they differ, or if the operator runs inside another kernel."""
    if operator.message is not None:
        sizes = distinct(operator.message.accelerators)
        if len(sizes) > 1 or sizes[0] <= 1:
            return None
        return kernels_for(accelerator, collective_kind(operator.message.collective, sizes[0]), profile)
    if operator.kind == "elementwise" or operator.joins:
        return None
    if operator.kind == "attention" and takes_either_kernel(operator):
        return None
    math = accelerator.math_on_chip(operator.work.math)
    kind = kind_of(operator, math)
    cases = cases_of(operator.inputs, kind)
    return kernels_of(accelerator, kind, profile, cases[0][1], math) if len(cases) == 1 else None


def _run(operator: Operator, accelerator: Accelerator, compute_s: Number, memory_s: Number) -> Kernel:
    if operator.message is None:
        return kernel_of(operator, accelerator, compute_s, memory_s)
    return Kernel(0.0, operator.message.network_s(accelerator), 0.0, 1.0, operator.inputs)


def _of_engine(name: str, member: Calibrated, run: Kernel) -> Step:
    terms = member.form.terms(member.parameters, run)
    longest_s = reduce(np.maximum, terms.joined.values())
    with np.errstate(over="ignore"):
        overflows = not np.all(np.isfinite(len(terms.joined) * np.asarray(longest_s, dtype=float) ** terms.overlap))
    over = " / longest_s" if overflows else ""
    joined = " + ".join(f"({term}{over}) ** overlap" if over else f"{term} ** overlap" for term in terms.joined)
    inputs = {"fixed_s": terms.fixed_s, "around_s": terms.around_s, **terms.joined, "overlap": terms.overlap}
    inputs |= {"compute_s": run.compute_s, "memory_s": run.memory_s, "launch_s": member.parameters.get("launch_s", 0.0)}
    if overflows:
        inputs["longest_s"] = longest_s
    times = "longest_s * " if overflows else ""
    formula = f"max(fixed_s + around_s + {times}({joined}) ** (1 / overlap), compute_s, memory_s, launch_s)"
    least_s = np.maximum(run.peaks_s, inputs["launch_s"])
    value = np.maximum(member.form.time_s(member.parameters, run), least_s)
    source = f"{member.kind}, {member.kernel or 'no kernel named'}: one run"
    return Step(name, formula, inputs, value, source)


def _capped(operator: Operator, accelerator: Accelerator, found: Found, run: Kernel, profile: str | None) -> Any:
    """Time of one run in the next wider format if it limits this one, else infinity."""
    math = accelerator.math_on_chip(operator.work.math)
    cases = cases_of(operator.inputs, found.kind)[0][1] if operator.message is None else ()
    wide = wider(accelerator, found.kind, cases, profile) if operator.message is None else None
    if wide is None:
        return np.inf
    alone, both = (predicted(found, limit, run, math, accelerator) for limit in (None, wide))
    alone_s, both_s = (parts.fixed_s + parts.running_s for parts in (alone, both))
    return np.where(both_s < alone_s, both_s, np.inf)[()]
