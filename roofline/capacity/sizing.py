"""Sizing: how many deployments of each candidate a request rate needs, and the resulting latencies.

The closed form of the queue (`roofline.capacity.queues`) sizes every candidate.  The cheapest few of each accelerator
and precision are then simulated.  If a simulation misses the SLO, a deployment is added; if it meets the SLO, one is
removed, as long as the result is cheaper than the best known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..serving.methods import CLOSED_FORM, SIMULATION
from ..serving.metrics import METRICS
from ..serving.slo import HIGH_END
from .candidates import LATENCIES, MEMORY, WEIGHTS, Array, Candidates, cost_of_one
from .queues import (
    LOWEST_LOAD,
    ClosedQueue,
    Stream,
    can_be_simulated,
    capacity_requests_per_s,
    of_statistic,
    simulated,
)

if TYPE_CHECKING:
    from .plans import Plan

ROUNDING = 1e-12
"""Tolerance for rounding when the number of deployments is rounded up."""

LAYOUTS_TRIED = 2
"""Number of layouts per accelerator and precision to simulate, cheapest first."""

SIZES_TRIED = 5
"""Maximum number of fleet sizes to simulate per candidate; they differ by 5 %, and by at least one."""

STEP_SHARE = 0.05

LOW_END = "estimate_low_s"


def whole_deployments(count: Array | float) -> Array:
    """Round up to a whole number of deployments."""
    return np.asarray(np.ceil(count * (1 - ROUNDING)))


def at_rate(plan: Plan, stream: Stream, *, most_load: float, method: str) -> Candidates:
    """Add queues to the candidates of a plan: ``replicas``, and latencies by the SLO's statistic.

    Parameters
    ----------
    plan : Plan
        Candidates in steady state.
    stream : Stream
        Arriving requests.
    most_load : float
        Maximum load of a deployment.
    method : str
        ``closed-form``, or ``simulation`` of the best candidates.

    Returns
    -------
    Candidates
        Candidates in the order of the plan.
    """
    queue = ClosedQueue(plan.table, stream, plan.slo, float(plan.load.output_tokens))
    carried = queue.carried(most_load)
    fits = (plan.table.failure != WEIGHTS) & (plan.table.failure != MEMORY)
    with np.errstate(divide="ignore"):
        replicas = whole_deployments(stream.requests_per_s / carried)
    replicas = np.where(fits & (carried > 0), np.maximum(replicas, 1.0), np.nan)
    rate = np.where(np.isnan(replicas), LOWEST_LOAD / plan.table.busy_s, stream.requests_per_s / replicas)
    sized = _with_queue(plan, queue, rate, replicas)
    if method == CLOSED_FORM:
        return sized
    rows = {name: np.array(getattr(sized, name)) for name in CHANGED}
    for found in _confirmed(plan, sized, stream, most_load):
        for name, value in found.columns.items():
            rows[name][found.row] = value
    return replace(sized, **rows)


CHANGED = (
    "replicas",
    "queue",
    *LATENCIES,
    "gap_s",
    "total_s",
    "headroom",
    "failure",
)
"""Columns that queueing changes."""


def _with_queue(plan: Plan, queue: ClosedQueue, rate: Array, replicas: Array) -> Candidates:
    """The table at a rate per deployment, by the closed form."""
    table, figures = plan.table, queue.figures(rate)
    strain, worst = queue.strain(figures), np.full(len(rate), "", dtype="<U16")
    if plan.slo.latencies:
        names = np.array([name for name, _ in plan.slo.latencies], dtype="<U16")
        worst = names[np.argmax([figures[name] / target for name, target in plan.slo.latencies], axis=0)]
    kept = np.isin(table.failure, (WEIGHTS, MEMORY, "tokens_per_s"))
    failure = np.where(kept, table.failure, np.where(np.isnan(replicas), worst, ""))
    columns: dict[str, Array] = {
        "replicas": np.where(failure == "", replicas, np.nan),
        "queue": np.full(len(rate), CLOSED_FORM),
        "headroom": 1.0 - strain if plan.slo.latencies else np.full(len(rate), np.nan),
        "failure": failure,
        "total_s": figures["total_s"],
        "gap_s": figures["gap_s"],
    }
    for name in ("ttft", "tpot"):
        middle = getattr(table, f"{name}_s")
        columns[f"{name}_s"] = figures[f"{name}_s"]
        for end in ("low", "high"):
            with np.errstate(invalid="ignore"):
                factor = getattr(table, f"{name}_{end}_s") / middle
            columns[f"{name}_{end}_s"] = figures[f"{name}_s"] * np.where(middle > 0, factor, 1.0)
    return replace(table, **columns)


@dataclass(frozen=True)
class _Answer:
    """Simulated candidate in a fleet of ``replicas``: its row, and the changed columns."""

    row: int
    replicas: float
    columns: dict[str, object]

    @property
    def holds(self) -> bool:
        return self.columns["failure"] == ""


def _confirmed(plan: Plan, sized: Candidates, stream: Stream, most_load: float) -> Iterator[_Answer]:
    """Simulate the best rows of each accelerator and precision."""
    keys = np.char.add(np.char.add(sized.accelerator, "/"), sized.precision)
    for key in np.unique(keys):
        rows = np.flatnonzero((keys == key) & np.isfinite(sized.replicas))
        yield from _of_one(plan, sized, _two_a_layout(sized, rows), stream, most_load)


def _two_a_layout(sized: Candidates, rows: Array) -> list[tuple[int, int]]:
    """The cheapest rows of every layout, cheapest first: the one with the shortest end-to-end latency, and the one with
    the most headroom, which may be the same.
    """
    costs = (sized.replicas * cost_of_one(sized))[rows]
    names = np.char.add(sized.layout, sized.gpus.astype(str))
    fastest = rows[np.lexsort((sized.total_s[rows], costs))]
    safest = rows[np.lexsort((-np.nan_to_num(sized.headroom[rows]), costs))]
    second = {names[row]: int(row) for row in safest[::-1]}
    first = {names[row]: int(row) for row in fastest[::-1]}
    _, places = np.unique(names[fastest], return_index=True)
    return [(first[name], second[name]) for name in names[fastest[np.sort(places)]]]


def _of_one(
    plan: Plan, sized: Candidates, layouts: list[tuple[int, int]], stream: Stream, most_load: float
) -> Iterator[_Answer]:
    """Simulated layouts of one accelerator and precision: those that meet the SLO, or all if none does."""
    each, cheapest = cost_of_one(sized), np.inf
    held: list[_Answer] = []
    missed: list[_Answer] = []
    for tried, (fastest, safest) in enumerate(layouts):
        if not can_be_simulated(plan.scenario(fastest)) or (np.isfinite(cheapest) and tried >= LAYOUTS_TRIED):
            continue
        for row in dict.fromkeys((fastest, safest)):
            most = float(np.ceil(cheapest / each[row])) - 1.0 if np.isfinite(cheapest) else np.inf
            answer = _sized_by_simulation(plan, sized, row, stream, most_load=most_load, most=most)
            if answer is not None and answer.holds:
                cheapest = answer.replicas * float(each[row])
                held.append(answer)
            elif answer is not None:
                missed.append(answer)
            if answer is None or (answer.holds and answer.replicas <= sized.replicas[row]):
                break  # as few deployments as the closed form expects: more headroom would save none
    yield from held[:-1] or missed * (not held)
    if held:
        yield _with_ends(plan, held[-1], stream)


def _sized_by_simulation(
    plan: Plan, sized: Candidates, row: int, stream: Stream, *, most_load: float, most: float
) -> _Answer | None:
    """The smallest fleet of a row with at most ``most`` deployments (more would cost more than another candidate); None
    if the rate needs more.
    """
    capacity = capacity_requests_per_s(plan.scenario(row), stream, time=plan.time)
    capacity = min(1.0 / float(plan.table.busy_s[row]), capacity)
    if capacity <= 0:
        return None
    least = max(float(whole_deployments(stream.requests_per_s / (most_load * capacity))), 1.0)
    if most < least:
        return None
    start = min(max(float(sized.replicas[row]), least), most)
    return _smallest(plan, row, stream, start=start, least=least, most=most)


def _smallest(plan: Plan, row: int, stream: Stream, *, start: float, least: float, most: float) -> _Answer:
    """The smallest fleet that meets the SLO; one that misses it if none within the bounds does."""
    step = max(1.0, np.floor(STEP_SHARE * start))
    answer, misses, tries = _answer(plan, row, start, stream), least - 1.0, 1
    grown = step
    while not answer.holds and answer.replicas < most and tries < SIZES_TRIED:
        misses = answer.replicas
        answer = _answer(plan, row, min(answer.replicas + grown, most), stream)
        grown, tries = 2.0 * grown, tries + 1
    while answer.holds and tries < SIZES_TRIED:
        halfway = np.floor((misses + answer.replicas) / 2.0)
        count = halfway if misses >= start else max(answer.replicas - step, halfway)
        if count <= misses:
            break
        fewer = _answer(plan, row, float(count), stream)
        tries += 1
        if fewer.holds:
            answer = fewer
        else:
            misses = fewer.replicas
    return answer


def _answer(plan: Plan, row: int, replicas: float, stream: Stream) -> _Answer:
    """Simulate one deployment with its share of the arrivals."""
    rate = stream.requests_per_s / replicas
    found = simulated(plan.scenario(row), stream, rate=rate, time=plan.time)
    if found is None:  # a request exceeds the cache
        return _Answer(row, replicas, {"failure": MEMORY, "queue": SIMULATION, "replicas": np.nan})
    figures = {name: of_statistic(found, name, plan.slo) for name in ("ttft_s", "tpot_s", "gap_s", "total_s")}
    strains = {name: METRICS[name].strain(figures[name], target) for name, target in plan.slo.latencies}
    worst = max(strains, key=lambda name: float(np.max(strains[name])), default="")
    missed = bool(worst) and float(np.max(strains[worst])) > 1.0
    columns: dict[str, object] = {
        "replicas": np.nan if missed else replicas,
        "queue": SIMULATION,
        "headroom": 1.0 - float(np.max(strains[worst])) if worst else np.nan,
        "failure": worst if missed else "",
    }
    ends = {f"{name}_{end}_s": figures[f"{name}_s"] for name in ("ttft", "tpot") for end in ("low", "high")}
    return _Answer(row, replicas, columns | figures | ends)


def _with_ends(plan: Plan, answer: _Answer, stream: Stream) -> _Answer:
    """Add TTFT and TPOT at both ends of the estimate's interval, each simulated."""
    if not plan.time.startswith("estimate"):
        return answer
    columns = dict(answer.columns)
    for end, time in (("low", LOW_END), ("high", HIGH_END)):
        rate = stream.requests_per_s / answer.replicas
        found = simulated(plan.scenario(answer.row), stream, rate=rate, time=time)
        for name in ("ttft", "tpot"):
            if found is not None:
                columns[f"{name}_{end}_s"] = of_statistic(found, f"{name}_s", plan.slo)
    return replace(answer, columns=columns)
