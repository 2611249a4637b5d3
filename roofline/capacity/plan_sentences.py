"""Plans and fleets in a sentence or two."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..units import brief_time, humanize

if TYPE_CHECKING:
    from .fleets import Fleet
    from .plans import Plan

HOURS_PER_MONTH = 730
"""Mean hours of a month, as clouds bill: 365 x 24 / 12."""


def plan_sentence(found: Plan) -> str:
    """The cheapest deployment that meets the SLO, or why none does."""
    asked = "meets the SLO" if found.slo.targets() else "fits"
    best = found.best
    if not len(best):
        return f"No candidate {asked}; the closest ({deployment_words(found)}) is rejected: {found.reason[0]}."
    priced = np.isfinite(best.usd_per_hour[0])
    rank = "Cheapest" if priced else "Fewest accelerator-seconds per request"
    if found.rank == "energy":
        rank = "Least energy per request"
    times = f"TTFT {brief_time(best.ttft_s[0])}, TPOT {brief_time(best.tpot_s[0])}"
    rate = f"{best.tokens_per_s_per_gpu[0]:,.0f} tokens/s per accelerator"
    parts = [f"{rank} that {asked}: {deployment_words(best)}, batch {best.batch[0]:,.0f}: {times}, {rate}"]
    if priced:
        hourly = float(best.usd_per_hour[0] * best.gpus[0])
        tokens = best.usd_per_million_output_tokens[0]
        each = f"{dollars(tokens)} per million output tokens, " if np.isfinite(tokens) else ""
        parts.append(f"{each}{price_words(hourly)}")
    if found.rank == "energy" and np.isfinite(best.joules_per_request[0]):
        parts.append(f"{humanize('j', best.joules_per_request[0])} per request")
    return ", ".join(parts) + f" (by the {found.time.removesuffix('_s')})."


def fleet_sentence(found: Fleet) -> str:
    """The cheapest fleet, and the fewest accelerators that any software could do with."""
    replicas, gpus, floor = (float(column[0]) for column in (found.replicas, found.gpus, found.gpus_at_floor))
    what = f"{found.accelerator[0]} ({found.precision[0]}, {found.layout[0]}, batch {found.batch[0]:,.0f})"
    hourly = float(found.usd_per_hour[0])
    cost = f", {price_words(hourly)}" if np.isfinite(hourly) else ""
    least = f"; perfect software would need {floor:,.0f}" if np.isfinite(floor) else ""
    deployments = f"{replicas:,.0f} deployment{'s' if replicas > 1 else ''}"
    rate = f"{found.requests_per_s:g} requests/s"
    watts = float(found.watts[0])
    power = f", {humanize('watts', watts)}" if np.isfinite(watts) else ""
    return f"{rate} need {gpus:,.0f} x {what} in {deployments}{cost}{power}{least}."


def deployment_words(found: Plan) -> str:
    """The first row of a plan: ``2 x h100-sxm, bf16, TP 2``."""
    layout = f", {found.layout[0]}" if found.gpus[0] > 1 else ""
    return f"{found.gpus[0]:,.0f} x {found.accelerator[0]}, {found.precision[0]}{layout}"


def price_words(usd_per_hour: float) -> str:
    """What something costs an hour and a month: ``$5.00 per hour ($3,650 per month)``."""
    return f"{dollars(usd_per_hour)} per hour ({dollars(usd_per_hour * HOURS_PER_MONTH)} per month)"


def dollars(amount: float) -> str:
    """An amount of money; cents below a hundred dollars.

    Examples
    --------
    >>> dollars(2.5), dollars(0.0123), dollars(3650)
    ('$2.50', '$0.0123', '$3,650')
    """
    if amount >= 100:
        return f"${amount:,.0f}"
    return f"${amount:.2f}" if amount >= 0.1 else f"${amount:.3g}"
