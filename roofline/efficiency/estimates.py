"""Estimates: expected times of kernels, fitted to measured times (see `roofline.efficiency.forms`).

Data-sheet peaks are not changed.  The shares that kernels reach are in ``efficiency_specs``, one file per accelerator,
with the number of timings and the remaining error of each set of parameters.  Without an engine, the estimate is the
median over the kernels of all engines, element by element.  An accelerator without timings uses the values of its
family, which the result notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np

from ..arrays import anywhere, ascending, distinct, everywhere, larger, middle, smaller
from ..errors import Number
from ..hardware import Accelerator
from ..operators.operator import Operator
from ..operators.roofline import busiest_s, operator_floor_s
from .forms import Kernel, Parts, join
from .kinds import collective_kind, kind_of, variants
from .lookup import kernels_for
from .stand_ins import kernels_of
from .store import Calibrated, Found, specs
from .widening import widened, wider_kind

__all__ = ["Calibrated", "Estimate", "collective_kind", "estimate", "kind_of"]


class Estimate(NamedTuple):
    """Expected time, the interval that contains four of five measurements, and their basis.

    Attributes
    ----------
    time_s : float or array
        Expected time of all runs.
    low_s, high_s : float or array
        Ends of the 80% interval of this kernel alone.
    basis : str
        What the numbers are based on.
    fixed_s : float or array
        Part of ``time_s`` that launches cost, whatever the shape; graphs leave only a share of it.
    where : tuple
        Pairs of a basis and where in a sweep it applies, if it differs between points.
    """

    time_s: Number
    low_s: Number
    high_s: Number
    basis: str
    fixed_s: Number = 0.0
    where: tuple[tuple[str, Any], ...] = ()

    @property
    def bases(self) -> tuple[tuple[str, Any], ...]:
        """Each basis and where it applies: a bool or an array of bools."""
        return self.where or ((self.basis, True),)


def estimate(
    operator: Operator, accelerator: Accelerator, *, compute_s: Number, memory_s: Number, profile: str | None = None
) -> Estimate:
    """Return the expected time of all runs of ``operator``.

    Parameters
    ----------
    operator : Operator
        Operator to run.
    accelerator : Accelerator
        Accelerator that runs it.
    compute_s, memory_s : float or array
        Times of all its runs at the data sheet's peaks; no estimate is below either.
    profile : str, optional
        Engine whose kernels run (``vllm``, ``trtllm``, ``sglang``); the median of all engines if None.

    Returns
    -------
    Estimate
        Time, interval, basis, and the cost of launches.

    Raises
    ------
    UnknownName
        ``profile`` is not a known engine profile.
    """
    if operator.message is not None:
        return _exchange(operator, accelerator, memory_s, profile)
    if operator.kind == "elementwise" or operator.joins:
        return _fused(operator, accelerator, compute_s, memory_s, profile)
    if operator.kind == "attention" and takes_either_kernel(operator):
        return _either(operator, accelerator, compute_s, memory_s, profile)
    return _kernel(operator, accelerator, compute_s, memory_s, profile)


def kernel_of(operator: Operator, accelerator: Accelerator, compute_s: Number, memory_s: Number) -> Kernel:
    """Return one run of ``operator``; all its runs take ``compute_s`` and ``memory_s`` at the peaks."""
    runs = operator.count + (operator.count == 0)
    compute_s = compute_s / operator.inputs.get("compute_reached", 1.0)
    cached_s = larger(operator.work.moved_bytes / accelerator.memory_bytes_per_s - memory_s / runs, 0.0)
    processors = accelerator.compute_units or 100.0
    clocked_s = 0.0 * memory_s
    if accelerator.compute_units and accelerator.boost_clock_hz:
        clocked_s = operator.work.moved_bytes / (processors * accelerator.boost_clock_hz)
    return Kernel(compute_s / runs, memory_s / runs, cached_s, processors, operator.inputs, clocked_s)


def _kernel(
    operator: Operator, accelerator: Accelerator, compute_s: Number, memory_s: Number, profile: str | None
) -> Estimate:
    """Return the estimate of a separate kernel, with special cases where the shape is one."""
    math, count = accelerator.math_on_chip(operator.work.math), operator.count
    kind = kind_of(operator, math)
    run = kernel_of(operator, accelerator, compute_s, memory_s)
    least_s = operator_floor_s(operator, accelerator, compute_s=compute_s, memory_s=memory_s)
    result: Estimate | None = None
    peaks_s = busiest_s(compute_s, memory_s)
    for holds, cases in cases_of(operator.inputs, kind):
        found, wide = kernels_and_wider(accelerator, Wanted(kind, profile, cases, math))
        parts = predicted(found, wide, run, math, accelerator)
        time_s = larger(count * (parts.fixed_s + parts.running_s), peaks_s)
        fixed_s = smaller(count * parts.fixed_s, time_s - peaks_s)
        part = _interval(found, time_s, least_s, fixed_s)
        result = part if result is None else _chosen(holds, part, result)
    assert result is not None
    return result


class Wanted(NamedTuple):
    """A request for kernels: kind, engine profile, special cases, and format of the math."""

    kind: str
    profile: str | None
    cases: tuple[str, ...]
    math: str


def kernels_and_wider(accelerator: Accelerator, wanted: Wanted) -> tuple[Found, Found | None]:
    """Return the wanted kernels, and those of the next wider format (see `kernels_of` and `wider`)."""
    if accelerator.is_sweep:
        return _kernels_and_wider(accelerator, wanted)
    return _kernels_and_wider_once(accelerator, wanted, specs())


def _kernels_and_wider(accelerator: Accelerator, wanted: Wanted) -> tuple[Found, Found | None]:
    found = kernels_of(accelerator, *wanted)
    return found, wider(accelerator, found.kind, wanted.cases, wanted.profile)


@lru_cache(maxsize=1024)
def _kernels_and_wider_once(accelerator: Accelerator, wanted: Wanted, folders: str) -> tuple[Found, Found | None]:
    """Return the same for a single chip; ``folders`` are the user's directories, which may have kernels."""
    return _kernels_and_wider(accelerator, wanted)


def cases_of(inputs: Mapping[str, Any], kind: str) -> list[tuple[Any, tuple[str, ...]]]:
    """Return sets of special cases and where each applies; a single shape has one set."""
    every = variants(inputs, kind)
    masks = [mask for _, mask in every]
    if not any(isinstance(mask, np.ndarray) and mask.ndim and not mask.all() and mask.any() for mask in masks):
        return [(True, tuple(name for name, mask in every if everywhere(mask)))]
    stacked = np.stack(np.broadcast_arrays(*masks)).astype(int)
    found = []
    for combination in np.unique(stacked.reshape(len(masks), -1), axis=1).T:
        shape = (-1, *[1] * (stacked.ndim - 1))
        holds = np.all(stacked == combination.reshape(shape), axis=0)
        names = tuple(name for (name, _), one in zip(every, combination, strict=True) if one)
        found.append((holds, names))
    return found


def wider(accelerator: Accelerator, kind: str, cases: tuple[str, ...], profile: str | None) -> Found | None:
    """Return the kernels of the next wider format, if timed; None for a named engine, which runs its own."""
    wide_kind = wider_kind(kind) if profile in (None, "default") else ""
    found = kernels_for(accelerator, wide_kind, None, cases) if wide_kind else None
    return found if found is not None and found.kind == wide_kind else None


def predicted(found: Found, wide: Found | None, run: Kernel, math: str, accelerator: Accelerator) -> Parts:
    """Return both parts of the time of one run: of one engine's kernel, or the median over engines.

    Parameters
    ----------
    found : Found
        The kernels.
    wide : Found or None
        Kernels of the next wider format, which a server would run if they were faster (see `limit_s`).
    run : Kernel
        One run in the format of ``found``.
    math : str
        Format of the units that compute it.
    accelerator : Accelerator
        Accelerator that runs it.

    Returns
    -------
    Parts
        Fixed and running time.
    """
    each = {engine: _one(member, run) for engine, member in found.members.items()}
    parts = _median(list(each.values()))
    if wide is None:
        return parts
    wide_run = widened(run, found.kind, math, accelerator)
    wide_each = {engine: _one(member, wide_run) for engine, member in wide.members.items()}
    most = _median(list(wide_each.values()))
    narrow_s = [_sum(each[engine]) for engine in each if engine in wide_each]
    return _limited(parts, most.fixed_s, limit_s(_sum(most), narrow_s))


def limit_s(wide_s: Any, narrow_s: list[Any]) -> Any:
    """Return the longest time of a narrower kernel: the wider one's, unless two engines agree on being slower.

    Parameters
    ----------
    wide_s : float or array
        Median time of the engines' wider kernels.
    narrow_s : list of float or array
        Times of the narrower kernel, of the engines that have both. The second longest of them counts, as a single slow
        kernel may be an accident of one engine.

    Returns
    -------
    float or array
        The longer of both. It grows with each of its arguments, so that more work never shortens it, as a ratio of
        narrower to wider times might.

    Examples
    --------
    >>> limit_s(3.0, [9.0]), limit_s(3.0, [9.0, 4.0])
    (3.0, 4.0)
    """
    return larger(wide_s, ascending(narrow_s)[-2]) if len(narrow_s) > 1 else wide_s


def _sum(parts: Parts) -> Any:
    return parts.fixed_s + parts.running_s


def _one(member: Calibrated, run: Kernel) -> Parts:
    """Return both parts of one engine's kernel; their sum is at least the time at the peaks.

    Kernels launched one by one take at least ``launch_s`` of the host's time.  Graphs shorten neither that nor times
    fitted to whole steps.
    """
    parts = member.form.parts(member.parameters, run)
    least_s = larger(run.peaks_s, member.parameters.get("launch_s", 0.0))
    running_s = larger(parts.running_s, least_s - parts.fixed_s)
    return Parts(parts.fixed_s, running_s) if member.graphs else Parts(0.0 * running_s, parts.fixed_s + running_s)


def _median(each: list[Parts]) -> Parts:
    """Return the median of the sums, and that of the fixed parts, which is at most the whole."""
    if len(each) == 1:
        return each[0]
    total_s = middle([_sum(parts) for parts in each])
    fixed_s = smaller(middle([parts.fixed_s for parts in each]), total_s)
    return Parts(fixed_s, total_s - fixed_s)


def _limited(parts: Parts, fixed_s: Any, most_s: Any) -> Parts:
    """Return the parts, shortened to ``most_s`` in all, the time of a kernel whose launch costs ``fixed_s``."""
    alone_s = _sum(parts)
    total_s = smaller(alone_s, most_s)
    fixed_s = fixed_of_faster(total_s, (alone_s, parts.fixed_s), (most_s, fixed_s))
    return Parts(fixed_s, total_s - fixed_s)


def fixed_of_faster(time_s: Any, *kernels: tuple[Any, Any]) -> Any:
    """Return the launch cost of the fastest of several kernels, which an engine runs.

    A graph leaves only a share of the launches, so that a kernel with longer ones may be the fastest there.  What it
    takes longer without a graph counts against its launches.  So they do not jump where another kernel becomes the
    fastest, and less work never takes longer in a graph.

    Parameters
    ----------
    time_s : float or array
        Time of the fastest kernel.
    *kernels : tuple of (time_s, fixed_s)
        Time of each kernel, and the part of it that its launches cost.

    Returns
    -------
    float or array
        At most ``time_s``.

    Examples
    --------
    >>> fixed_of_faster(5.0, (5.0, 1.0), (6.0, 3.0)), fixed_of_faster(5.0, (5.0, 1.0), (9.0, 3.0))
    (2.0, 1.0)
    """
    return reduce(larger, (fixed_s - (each_s - time_s) for each_s, fixed_s in kernels))


def _interval(found: Found, time_s: Number, least_s: Number, fixed_s: Number = 0.0) -> Estimate:
    """Return the interval around a time; it does not go below ``least_s``, the operator's floor."""
    return Estimate(
        time_s, larger(smaller(time_s * found.low, time_s), least_s), time_s * found.high, found.basis, fixed_s
    )


def _fused(
    operator: Operator, accelerator: Accelerator, compute_s: Number, memory_s: Number, profile: str | None
) -> Estimate:
    """Return the estimate of work fused into another kernel: it computes and moves bytes without a launch."""
    found = kernels_for(accelerator, kind_of(operator, accelerator.math_on_chip(operator.work.math)), profile)
    times = []
    for member in found.members.values():
        share = member.parameters
        moving_s = memory_s / share["memory"]
        if operator.kind == "elementwise":
            times.append(moving_s)
        else:
            times.append(join(share["overlap"], compute_s / share["compute"], moving_s))
    time_s = larger(middle(times), busiest_s(compute_s, memory_s))
    return _interval(found, time_s, operator_floor_s(operator, accelerator, compute_s=compute_s, memory_s=memory_s))


MOST_ROWS = 128
"""Most rows of queries sharing keys for which engines verify drafts with the decode kernel.  It equals the tile of a
prompt kernel (FlashAttention: 128 queries), which is full beyond."""


def takes_either_kernel(operator: Operator) -> bool:
    """Return whether attention mixes steps and prompts in a sweep, or verifies more than a tile of rows."""
    decodes = operator.inputs["decodes"]
    return anywhere(decodes) and not (everywhere(decodes) and everywhere(_within_a_tile(operator)))


def _within_a_tile(operator: Operator) -> Any:
    """Return where rows of queries sharing keys are at most `MOST_ROWS`; latent kernels have no such limit."""
    shape = operator.inputs
    rows = shape["new_tokens"] * shape["query_heads"] / shape["kv_heads"]
    return (rows <= MOST_ROWS) | (shape["new_tokens"] == 1) | operator.latent


def _either(
    operator: Operator, accelerator: Accelerator, compute_s: Number, memory_s: Number, profile: str | None
) -> Estimate:
    """Return steps with the decode kernel, prompts with theirs, and wide verifications with the faster one."""
    step, prompt = (
        _kernel(
            replace(operator, inputs={**operator.inputs, "decodes": decodes}),
            accelerator,
            compute_s,
            memory_s,
            profile,
        )
        for decodes in (1.0, 0.0)
    )
    faster = _within_a_tile(operator) | (np.asarray(step.time_s) <= prompt.time_s)
    return _chosen(np.asarray(operator.inputs["decodes"], dtype=bool) & faster, step, prompt)


def _chosen(first: Any, one: Estimate, other: Estimate) -> Estimate:
    """Return one estimate where ``first`` is true, the other elsewhere."""
    where = [(basis, first & np.asarray(holds)) for basis, holds in one.bases]
    where += [(basis, ~np.asarray(first) & np.asarray(holds)) for basis, holds in other.bases]
    return Estimate(
        np.where(first, one.time_s, other.time_s)[()],
        np.where(first, one.low_s, other.low_s)[()],
        np.where(first, one.high_s, other.high_s)[()],
        "; ".join(filter(None, dict.fromkeys((one.basis, other.basis)))),
        np.where(first, one.fixed_s, other.fixed_s)[()],
        tuple(where),
    )


def faster(one: Estimate, other: Estimate) -> Estimate:
    """Return the shorter of two estimates, element by element."""
    first: Any = one.time_s <= other.time_s
    kernels = ((each.time_s, each.fixed_s) for each in (one, other))
    fixed_s = fixed_of_faster(smaller(one.time_s, other.time_s), *kernels)
    if everywhere(first):
        return one._replace(fixed_s=fixed_s)
    found = _chosen(first, one, other) if anywhere(first) else other
    return found._replace(fixed_s=fixed_s)


def _exchange(operator: Operator, accelerator: Accelerator, memory_s: Number, profile: str | None) -> Estimate:
    """Return the estimate of a message, with the parameters for its group size; 0 for a single accelerator."""
    message = operator.message
    assert message is not None
    wire_s = message.network_s(accelerator)
    sizes = distinct(message.accelerators)
    result = Estimate(0.0 * wire_s, 0.0 * wire_s, 0.0 * wire_s, "")
    for size in sizes:
        if size <= 1:
            continue
        found = kernels_for(accelerator, collective_kind(message.collective, size), profile)
        run = Kernel(0.0, wire_s, 0.0, 1.0, operator.inputs)
        least_s = larger(operator.count * wire_s, memory_s)
        time_s = _sum(_median([_one(member, run) for member in found.members.values()]))
        part = _interval(found, larger(operator.count * time_s, least_s), least_s)
        result = part if len(sizes) == 1 else _chosen(np.equal(message.accelerators, size), part, result)
    return result
