"""Summaries of plans and fleets in one or two sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..serving.methods import method_words
from ..serving.slo import HIGH_END
from ..units import brief_time, humanize, plural
from .basis import BORROWED, CALIBRATED

if TYPE_CHECKING:
    from .fleets import Fleet
    from .plans import Plan
    from .pool_plans import PoolPlan

HOURS_PER_MONTH = 730
"""Mean hours per month, as clouds bill: 365 x 24 / 12."""


def plan_sentence(found: Plan) -> str:
    """The cheapest deployment that meets the SLO, or why none does."""
    asked, within = ("meets the SLO", " within the SLO") if found.slo.targets() else ("fits", "")
    best = found.best
    if not len(best):
        return f"No candidate {asked}; the closest ({deployment_words(found)}) is rejected: {found.reason[0]}."
    if found.stream is not None:
        return _sized_sentence(best) + tie_words(found.by_accelerator)
    priced = np.isfinite(best.usd_per_hour[0])
    rank = f"Cheapest that {asked}" if priced else f"Fewest accelerator-seconds per request{within}"
    if found.rank == "energy":
        rank = f"Least energy per request{within}"
    rate = f"{best.tokens_per_s_per_gpu[0]:,.0f} tokens/s per accelerator"
    parts = [f"{rank}: {deployment_words(best)}, batch {best.batch[0]:,.0f}: {_times(best)}, {rate}"]
    if priced:
        hourly = float(best.usd_per_hour[0] * best.gpus[0])
        into, out = best.usd_per_million_input_tokens[0], best.usd_per_million_output_tokens[0]
        if np.isfinite(out):
            parts.append(f"{dollars(into)} per million input tokens and {dollars(out)} per million output tokens")
        parts.append(price_words(hourly))
    if found.rank == "energy" and np.isfinite(best.joules_per_request[0]):
        parts.append(f"{humanize('j', best.joules_per_request[0])} per request")
    return (
        ", ".join(parts) + f" (by the {latency_words(found.time)}).{basis_words(best)}{tie_words(found.by_accelerator)}"
    )


def _sized_sentence(best: Plan) -> str:
    """How many deployments of the best candidate a rate needs."""
    assert best.stream is not None
    replicas, gpus = float(best.replicas[0]), float(best.replicas[0] * best.gpus[0])
    each = f"{plural(replicas, 'deployment')} of {deployment_words(best)}"
    hourly = float(best.fleet_cost[0])
    cost = f", {price_words(hourly)}" if np.isfinite(best.usd_per_hour[0]) else ""
    return (
        f"{best.stream.requests_per_s:.4g} requests/s need {plural(gpus, 'accelerator')}: {each}, "
        f"at most {best.batch[0]:,.0f} sequences at once in each, {best.utilization[0]:.0%} loaded{cost}. "
        f"At {statistic_words(best.slo.statistic)}: {_times(best)} "
        f"(by the {latency_words(best.time)} and a {method_words(best.queue[0])} of the queue)."
        f"{basis_words(best)}"
    )


def _times(best: Plan | PoolPlan) -> str:
    """TTFT and TPOT of the first row with their intervals."""
    if not best.ttft_low_s[0] < best.ttft_high_s[0]:
        return f"TTFT {brief_time(best.ttft_s[0])}, TPOT {brief_time(best.tpot_s[0])}"
    ttft = interval_words(best.ttft_s[0], best.ttft_low_s[0], best.ttft_high_s[0])
    return f"TTFT {ttft}, TPOT {interval_words(best.tpot_s[0], best.tpot_low_s[0], best.tpot_high_s[0])}"


OVERLOADED = 10.0
"""If the upper end of a wait is this many times the estimate, the queue grows without limit there."""


def interval_words(middle: float, low: float, high: float) -> str:
    """Format a time with its interval, whose upper end may be an overloaded queue.

    Examples
    --------
    >>> interval_words(0.318, 0.216, 0.402), interval_words(0.318, 0.216, 86.3)
    ('318 ms [216-402]', '318 ms [216-overload]')
    """
    if high <= OVERLOADED * middle:
        return brief_time(middle, low, high)
    return brief_time(middle, low, float("inf"))


def statistic_words(statistic: str) -> str:
    """A statistic after "at": ``p95``, ``the mean``."""
    return "the mean" if statistic == "mean" else statistic


def latency_words(time: str) -> str:
    """Name of a time for sentences: ``estimate``, ``estimate's upper end``."""
    return "estimate's upper end" if time == HIGH_END else time.removesuffix("_s")


def basis_words(rows: Plan | Fleet) -> str:
    """Warning if the first row has no timings of its own accelerator; otherwise empty."""
    word = rows.basis[0]
    if word == CALIBRATED:
        return ""
    source = "borrowed from similar kernels" if word == BORROWED else "typical shares of the peaks"
    return f" {rows.accelerator[0]} has no timings of some kernels: their estimates are {source}, with wide intervals."


def tie_words(rows: Plan | Fleet) -> str:
    """Accelerators and precisions whose intervals overlap with the first row, one row each."""
    tied = [f"{rows.accelerator[at]} ({rows.precision[at]})" for at in np.flatnonzero(rows.tie)]
    if not tied:
        return ""
    return f" Tied within the intervals: {', '.join(tied)}."


def fleet_sentence(found: Fleet) -> str:
    """The cheapest fleet, and the fewest accelerators that any software would need."""
    replicas, gpus, floor = (float(column[0]) for column in (found.replicas, found.gpus, found.gpus_at_floor))
    layout = "" if found.layout[0] == "one" else f", {found.layout[0]}"
    what = f"{found.accelerator[0]} ({found.precision[0]}{layout})"
    hourly = float(found.usd_per_hour[0])
    cost = f", {price_words(hourly)}" if np.isfinite(hourly) else ""
    least = f"; perfect software would need {floor:,.0f}" if np.isfinite(floor) else ""
    each = f"at most {found.batch[0]:,.0f} sequences at once{' in each' if replicas > 1 else ''}"
    deployments = f"{plural(replicas, 'deployment')} ({each})"
    rate = f"{found.requests_per_s:.4g} requests/s"
    watts = float(found.watts[0])
    power = f", {humanize('watts', watts)}" if np.isfinite(watts) else ""
    used = f", {found.load[0]:.0%} loaded"
    seen = f" At {statistic_words(found.plan.slo.statistic)}: {_times(found.plan)} (by {method_words(found.queue[0])})."
    answer = f"{rate} need {gpus:,.0f} x {what} in {deployments}{used}{cost}{power}{least}."
    return f"{answer}{seen}{basis_words(found)}{tie_words(found)}"


def pools_sentence(found: PoolPlan) -> str:
    """The cheapest pools of prefill and decode workers, compared with aggregated deployments."""
    best, plan = found.best, found.plan
    asked = "meet the SLO" if plan.slo.targets() else "fit"
    if not len(best):
        where = f" (on {found.accelerator[0]}: {found.reason[0]})" if len(found) else ""
        return f"No separate pools for prefill and decode {asked}{where}."
    group = best.groups[0]
    assert group is not None
    workers = (
        _workers(group.prefill_workers, "prefill", str(best.prefill_layout[0])),
        _workers(group.decode_workers, "decode", f"{best.decode_layout[0]}, batch {group.batch:,.0f}"),
    )
    several = f"{group.replicas:,.0f} groups of " if group.replicas > 1 else ""
    need = "need" if plan.stream else "take groups of"
    what = f"{best.accelerator[0]}, {best.precision[0]}: {several}{' and '.join(workers)}"
    seen = f"{f'At {statistic_words(plan.slo.statistic)}' if plan.stream else 'On average'}: {_times(best)}"
    by = f" and a {method_words(best.queue[0])} of the queues" if plan.stream else ""
    return (
        f"Separate pools for prefill and decode {need} {best.gpus[0]:,.0f} accelerators, {_saving(best)} ({what}). "
        f"{seen} (by the {latency_words(plan.time)}{by})."
    )


def _workers(count: int, pool: str, layout: str) -> str:
    each = layout.replace("one", "1 accelerator" if count == 1 else "1 accelerator each", 1)
    return f"{plural(count, f'{pool} worker')} ({each})"


ABOUT_EQUAL = 0.02
"""Costs that differ by less than this share are reported as equal."""


def _saving(best: PoolPlan) -> str:
    """Cost of the pools compared with aggregated deployments."""
    ratio = float(best.cost_ratio[0])
    if np.isnan(ratio):
        return "where no aggregated deployment meets the SLO"
    if abs(ratio - 1.0) < ABOUT_EQUAL:
        return "at the same cost per request as aggregated deployments"
    word = "less" if ratio < 1.0 else "more"
    return f"at {abs(1.0 - ratio):.0%} {word} cost per request than aggregated deployments"


def deployment_words(found: Plan) -> str:
    """The first row of a plan: ``2 x h100-sxm, bf16, TP 2``."""
    layout = f", {found.layout[0]}" if found.gpus[0] > 1 else ""
    return f"{found.gpus[0]:,.0f} x {found.accelerator[0]}, {found.precision[0]}{layout}"


def price_words(usd_per_hour: float) -> str:
    """Price per hour and per month: ``$5.00 per hour ($3,650 per month)``."""
    return f"{dollars(usd_per_hour)} per hour ({dollars(usd_per_hour * HOURS_PER_MONTH)} per month)"


def dollars(amount: float) -> str:
    """Format an amount in dollars, with cents below a hundred dollars.

    Examples
    --------
    >>> dollars(2.5), dollars(0.0123), dollars(3650)
    ('$2.50', '$0.0123', '$3,650')
    """
    if amount >= 100:
        return f"${amount:,.0f}"
    return f"${amount:.2f}" if amount >= 0.1 else f"${amount:.3g}"


def why_it_does_not_fit(weights_bytes: float, available_bytes: float, max_batch: float) -> str:
    """Why a candidate does not fit: weights or batch."""
    if weights_bytes > available_bytes:
        sizes = f"{weights_bytes / 1e9:.3g} GB of weights per accelerator, {available_bytes / 1e9:.3g} GB available"
        return f"does not fit: {sizes}"
    if max_batch < 1:
        return "does not fit: the weights leave no room for a sequence"
    return f"does not fit: only {max_batch:.0f} sequences fit at once"
