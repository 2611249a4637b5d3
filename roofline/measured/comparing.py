"""`headroom`: a measured run compared with what its deployment can do, phase by phase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import numpy as np

from ..errors import InvalidInput
from ..phases.deployment import Deployment, check_deployment
from ..phases.workload import Workload
from .counters import DeviceCounters
from .kernel_headroom import KernelHeadroom, kernel_headroom
from .kernels import KernelProfile
from .measurement import BATCH, DECODE, PREFILL, SERVING, Measurement
from .operating_points import mean_context, prompt_lengths, prompts_together, running_requests
from .reading import Result, read
from .reasons import doubts_about, reasons
from .shares import Headroom, PhaseHeadroom
from .work_bounds import bounds_of_generation, bounds_of_phase, bounds_of_request, decode_step, prefill_of


@overload
def headroom(
    serve: Deployment,
    measured: Measurement,
    *,
    load: Workload | None = ...,
    phase: str = ...,
    steps: float | None = ...,
) -> Headroom: ...
@overload
def headroom(
    serve: Deployment,
    measured: KernelProfile,
    *,
    load: Workload | None = ...,
    phase: str = ...,
    steps: float | None = ...,
) -> KernelHeadroom: ...
@overload
def headroom(
    serve: Deployment,
    measured: Sequence[Result],
    *,
    load: Workload | None = ...,
    phase: str = ...,
    steps: float | None = ...,
) -> list[Headroom | KernelHeadroom]: ...
def headroom(
    serve: Deployment,
    measured: Result | Sequence[Result],
    *,
    load: Workload | None = None,
    phase: str = "decode",
    steps: float | None = None,
) -> Headroom | KernelHeadroom | list[Headroom | KernelHeadroom]:
    """Compare a measurement with the floor, the roofline and the estimate of a deployment.

    Parameters
    ----------
    serve : Deployment
        What ran where. Result files rarely state it; what they do state is only checked against it.
    measured : Measurement, KernelProfile, or a list of them
        What `roofline.measured.read` returns.
    load : Workload, optional
        Batch and lengths that the file does not contain; for a kernel profile, the work of a step.
    phase : str
        For a kernel profile: ``decode`` or ``prefill``.
    steps : float, optional
        For a kernel profile: the number of passes that it covers; if None, derived from the calls of attention kernels.

    Returns
    -------
    Headroom or KernelHeadroom, or a list of them
        MFU, MBU, shares of the three times, the limit, and the possible gain; if a time beats its floor, the likely
        reasons, most likely first.

    Raises
    ------
    InvalidInput
        The file has no time that can be compared, or lacks lengths that ``load`` does not provide either.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm"))
    >>> run = Measurement("by hand", "notes", kind="decode", batch=1, context_tokens=2000, tpot_median_s=0.0065)
    >>> found = rl.headroom(serve, run)
    >>> round(found.phase("decode").mbu, 2), found.phase("decode").limit
    (0.7, 'memory')
    """
    check_deployment(serve)
    if isinstance(measured, list | tuple):
        return [_one(serve, item, load=load, phase=phase, steps=steps) for item in measured]
    return _one(serve, measured, load=load, phase=phase, steps=steps)


def _one(
    serve: Deployment, measured: object, *, load: Workload | None, phase: str, steps: float | None
) -> Headroom | KernelHeadroom:
    if isinstance(measured, Measurement):
        return _headroom_of_run(serve, measured, load)
    if isinstance(measured, KernelProfile):
        return kernel_headroom(serve, measured, load=load, phase=phase, steps=steps)
    if isinstance(measured, DeviceCounters):
        raise InvalidInput(
            f"{measured.source} contains device counters, which are shares of the peaks already; headroom needs a "
            "benchmark result or a kernel profile"
        )
    raise InvalidInput(f"measured must be what rl.measured.read returns: {measured!r}")


def headroom_of_file(
    path: str | Path,
    serve: Deployment,
    *,
    load: Workload | None = None,
    phase: str = "decode",
    steps: float | None = None,
) -> list[Headroom | KernelHeadroom]:
    """Read a result file and compare each of its runs with ``serve``.

    Runs without a comparable time, for example because all requests failed, are left out.

    Parameters
    ----------
    path : str or Path
        The file (see `roofline.measured.read`).
    serve : Deployment
        What ran where.
    load, phase, steps
        As for `roofline.headroom`.

    Returns
    -------
    list of Headroom or KernelHeadroom
        One for each run that can be compared.

    Raises
    ------
    SpecError
        The file can't be read, or its format is unknown.
    InvalidInput
        No run of the file can be compared.
    """
    found: list[Headroom | KernelHeadroom] = []
    refused: InvalidInput | None = None
    for result in read(path):
        try:
            found += headroom(serve, [result], load=load, phase=phase, steps=steps)
        except InvalidInput as error:
            refused = error
    if not found and refused is not None:
        raise refused
    return found


MOST = 1e9
"""Contexts, batches and rates above this come from damaged files."""

SHORTEST_S = 1e-9
"""Times below a clock cycle come from damaged files."""


def _headroom_of_run(serve: Deployment, measured: Measurement, load: Workload | None) -> Headroom:
    run = _filled(measured, load)
    for name in ("prompt_tokens", "output_tokens", "context_tokens", "batch", "concurrency", "requests_per_s"):
        if (getattr(run, name) or 0.0) > MOST:
            raise InvalidInput(f"{run.source}: {name} of {getattr(run, name):g} is implausible")
    notes = list(doubts_about(serve, run))
    found = (_prefill(serve, run), _decode(serve, run, notes), _whole(serve, run, notes))
    rows = [row for row in found if row is not None and row.measured_s > SHORTEST_S]
    if not rows:
        raise InvalidInput(
            f"{run.source} has no time that can be compared: it needs TTFT, TPOT, a total or a rate, and lengths "
            "(give the load: prompt tokens, output tokens and batch)"
        )
    return Headroom(run, serve, tuple(_explained(serve, run, row) for row in rows), tuple(notes))


def _filled(run: Measurement, load: Workload | None) -> Measurement:
    """``run`` with lengths and batch of ``load`` where the file lacks them."""
    if load is None:
        return run
    known: dict[str, Any] = {}
    for name in ("prompt_tokens", "output_tokens"):
        if getattr(run, name) is None:
            known[name] = float(np.max(getattr(load, name)))
    batch = int(np.max(load.batch))
    if run.batch is None and run.kind != SERVING:
        known["batch"] = batch
    silent = run.kind == SERVING and run.concurrency is None and run.in_flight is None and run.total_s is None
    if silent and run.request_rate is None and batch > 1:
        known["in_flight"] = float(batch)
    return run.replace(**known) if known else run


def _explained(serve: Deployment, run: Measurement, row: PhaseHeadroom) -> PhaseHeadroom:
    """``row``, with the likely reasons if it beats its floor."""
    if not row.beats_floor:
        return row
    return replace(row, reasons=reasons(serve, run, row.name, row.measured_s, row.bounds))


def _prefill(serve: Deployment, run: Measurement) -> PhaseHeadroom | None:
    """TTFT compared with the prefill of one prompt, or of a static batch of prompts."""
    if run.ttft_s is None or run.prompt_tokens is None or run.kind == DECODE:
        return None
    batch = prompts_together(run)
    fresh, cached = prompt_lengths(run)
    bounds = bounds_of_phase(prefill_of(serve, batch, fresh, cached))
    statistic = "" if run.statistic is None else f"{run.statistic} "
    basis = (
        f"{statistic}TTFT, compared with the prefill of {batch:g} x {fresh:,.0f} tokens after {cached:,.0f} cached "
        "tokens"
    )
    if run.kind == SERVING:
        basis += "; TTFT also includes waiting in the queue and for the step in progress"
    return PhaseHeadroom("prefill", run.ttft_s, bounds, basis)


def _decode(serve: Deployment, run: Measurement, notes: list[str]) -> PhaseHeadroom | None:
    """The time of a step compared with a decode step at the run's mean batch and context."""
    step = run.step
    if step is None or run.kind == PREFILL:
        return None
    accepted = run.accepted_tokens_per_step or 1.0
    batch = running_requests(run, step.seconds)
    if batch is None:
        batch = 1.0
        notes.append("decode: the file does not state the batch; compared with a batch of one")
    context = mean_context(run)
    if context is None:
        context = 0.0
        notes.append("decode: the file does not state the lengths; compared with an empty cache")
    bounds = bounds_of_phase(decode_step(serve, max(batch, 1.0), context))
    basis = (
        f"{step.basis}, compared with a step of {max(batch, 1.0):.3g} sequences at a context of {context:,.0f} tokens"
    )
    if accepted != 1.0:
        basis += f", times {accepted:g} tokens per step; the cost of drafting and verification is not part of the floor"
    return PhaseHeadroom("decode", step.seconds * accepted, bounds, basis)


def _whole(serve: Deployment, run: Measurement, notes: list[str]) -> PhaseHeadroom | None:
    """A static batch end to end, or a request's share of a run."""
    if run.prompt_tokens is None or run.output_tokens is None or run.kind not in (SERVING, BATCH):
        return None
    steps = max(run.output_tokens - 1, 0.0)
    context = mean_context(run) or 0.0
    if run.kind == BATCH:
        if run.total_s is None or run.batch is None:
            return None
        first = prefill_of(serve, float(run.batch), max(run.prompt_tokens, 1.0), run.context_tokens or 0.0)
        bounds = bounds_of_generation(first, decode_step(serve, float(run.batch), context), steps)
        basis = (
            f"{run.statistic} total, compared with {run.batch} x {run.prompt_tokens:,.0f} + {run.output_tokens:,.0f} "
            "tokens"
        )
        return PhaseHeadroom("generation", run.total_s, bounds, basis)
    if not run.requests_per_s:
        return None
    batch = _in_system(run)
    if batch is None:
        notes.append("run: the file does not state how many requests were in flight; the request rate is not compared")
        return None
    found = (run.cached_share or 0.0) * run.prompt_tokens
    first = prefill_of(serve, float(serve.parallel.data), max(run.prompt_tokens - found, 1.0), found)
    bounds = bounds_of_request(first, decode_step(serve, batch, context), steps, batch)
    if run.request_rate:
        notes.append(
            "run: the request rate was set by the client, so its share of the floor is a load, not an efficiency"
        )
    basis = (
        f"1 / (requests per second), compared with the share of one request of a deployment with {batch:.3g} in flight"
    )
    return PhaseHeadroom("run", 1.0 / run.requests_per_s, bounds, basis)


def _in_system(run: Measurement) -> float | None:
    """Sequences that may have shared a step: the concurrency limit, or else the mean, measured or by Little's law."""
    if run.concurrency:
        return max(run.concurrency, 1.0)
    little = run.requests_per_s * run.total_mean_s if run.requests_per_s and run.total_mean_s else None
    mean = run.in_flight or little
    return None if mean is None else max(mean, 1.0)
