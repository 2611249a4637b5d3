"""Arrivals at a fleet, and plans whose requests queue."""

from __future__ import annotations

from dataclasses import replace

from ..errors import InvalidInput, one_number
from ..phases.workload import Workload
from ..serving.arrivals import checked_rate
from ..serving.methods import SIMULATION, method_named
from ..serving.trace import Trace, without_times
from ..serving.traffic import Traffic
from .plans import Plan
from .queues import MOST_LOAD, USUAL_LOAD, Stream
from .sizing import at_rate

LEAST_UTILIZATION = 1e-3
"""Least target utilization; below it, a fleet would be over a thousand times as large as its requests need."""


def mean_load(load: Workload | Traffic | Trace) -> Workload:
    """A request with the mean lengths of a traffic or trace, rounded to whole tokens."""
    plain = without_times(load)
    if isinstance(plain, Workload):
        return plain
    return plain.workload(round(plain.mean_prompt_tokens), max(round(plain.mean_output_tokens), 1))


def arrivals_of(
    load: Workload | Traffic | Trace, requests_per_s: float | None, *, burstiness: float = 1.0
) -> Stream | None:
    """Arriving requests, from a rate or a trace; None without either.

    Raises
    ------
    InvalidInput
        The rate is not a positive number, or the burstiness is negative.
    """
    burstiness = one_number("burstiness", burstiness)
    if requests_per_s is None:
        if not isinstance(load, Trace):
            return None
        requests_per_s = load.requests_per_s
    return Stream(one_number("requests_per_s", checked_rate(requests_per_s)), load, burstiness)


def with_arrivals(plan: Plan, stream: Stream, *, utilization: float | None, method: str | None) -> Plan:
    """Add queues to a plan in steady state, and rank its candidates by the price of the fleet.

    Raises
    ------
    InvalidInput
        The utilization is outside (0, 1].
    UnknownName
        ``method`` is unknown.
    """
    if utilization is not None and not LEAST_UTILIZATION <= utilization <= 1:
        raise InvalidInput(f"utilization must be from {LEAST_UTILIZATION:g} to 1: {utilization!r}")
    most_load = utilization or (MOST_LOAD if plan.slo.latencies else USUAL_LOAD)
    table = at_rate(plan, stream, most_load=most_load, method=SIMULATION if method is None else method_named(method))
    notes = (*plan.assumptions, *_notes(plan, stream, most_load))
    return replace(plan, table=table, stream=stream, most_load=most_load, assumptions=notes).ranked()


def _notes(plan: Plan, stream: Stream, most_load: float) -> tuple[str, ...]:
    """Notes on how queues were computed."""
    shares = "arrivals are spread evenly over the deployments"
    arrivals = f"{shares}: {stream.requests_per_s:.4g} requests/s in total, burstiness {stream.gaps_cv2:.3g}"
    limit = f"deployments are loaded to at most {most_load:.0%} of their throughput in steady state"
    return (arrivals, limit)
