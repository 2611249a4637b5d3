"""Summaries of a server under load, in a sentence or two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..units import NO_POINTS, brief_time, humanize, plural
from .methods import CLOSED_FORM

if TYPE_CHECKING:
    from .outcome import Simulation
    from .under_load import Served

LIMITS = {
    "memory": "the KV cache is full",
    "slots": "all slots of the scheduler are taken",
    "prefill": "prompts take most of the time",
    "steps": "decode steps take most of the time",
}
"""Descriptions of what limits the number of running requests."""


def served_sentence(found: Served) -> str:
    """Return a sentence on latency, throughput and what limits them; for several loads, on the first and the last.

    Examples
    --------
    >>> import roofline as rl
    >>> server = rl.Deployment("llama-3.1-8b", "h100-sxm", engine="vllm")
    >>> said = rl.serve(server, rl.Workload(1500, 300), concurrency=8, time="roofline_s").summary()
    >>> said.startswith("With 8 requests in the system: TTFT "), said.endswith("decode steps take most of the time.")
    (True, True)
    """
    if not np.size(found.tokens_per_s):
        return NO_POINTS
    if np.ndim(found.tokens_per_s):
        return _several(found)
    where = _asked(found.asked_concurrency, found.asked_requests_per_s)
    rate, capacity = f"{found.tokens_per_s:,.0f} output tokens/s", f"{found.capacity_requests_per_s:.3g} requests/s"
    if not found.stable:
        return f"{where}: unstable, the queue grows without bound; the capacity is {capacity} ({rate})."
    ttft, tpot = (_with_ends(found, name) for name in ("ttft_s", "tpot_s"))
    times = f"TTFT {ttft}, TPOT {tpot}, end to end {brief_time(found.total_s)}"
    load = f"{found.utilization:.0%} of the capacity of {capacity}"
    return f"{where}: {times}, {rate}; {load}; {LIMITS[str(found.limit)]}."


def _with_ends(found: Served, name: str) -> str:
    """A latency with its interval, if that is known without further simulations."""
    if found.method != CLOSED_FORM or found.time != "estimate_s" or found.origin is None:
        return brief_time(getattr(found, name))
    return brief_time(*(getattr(each, name) for each in (found, found.low, found.high)))


def _asked(concurrency: Any, rate: Any) -> str:
    if concurrency is not None:
        return f"With {plural(concurrency, 'request')} in the system"
    return f"At {rate:.4g} requests/s"


def load_words(concurrency: Any, requests_per_s: Any) -> str:
    """Return the load as short text.

    Examples
    --------
    >>> load_words(None, 2.5), load_words(np.array([1, 8, 64]), None), load_words(None, np.array([1.0, 4.0]))
    ('2.5 requests/s', 'concurrency 1 … 64', '1 … 4 requests/s')
    """
    if concurrency is not None:
        return f"concurrency {humanize('concurrency', concurrency)}"
    rates = np.ravel(requests_per_s)
    if np.ndim(requests_per_s) and len(rates) > 1:
        return f"{rates[0]:.4g} … {humanize('requests_per_s', rates[-1])}"
    return humanize("requests_per_s", requests_per_s)


def _several(found: Served) -> str:
    """Return a sentence on several loads."""
    stable = np.ravel(found.stable)
    rates = np.ravel(np.broadcast_to(found.tokens_per_s, found.stable.shape))
    ttft, tpot = (np.ravel(np.broadcast_to(values, found.stable.shape)) for values in (found.ttft_s, found.tpot_s))
    capacity = f"{float(np.max(found.capacity_requests_per_s)):.3g} requests/s"
    if not stable.any():
        return f"None of the {len(stable)} loads is sustainable: the capacity is {capacity}."
    best = int(np.argmax(np.where(stable, rates, -np.inf)))
    asked = found.asked_requests_per_s if found.asked_concurrency is None else found.asked_concurrency
    one = float(np.ravel(asked)[best])
    where = _asked(None, one) if found.asked_concurrency is None else _asked(one, None)
    where = f"{where[0].lower()}{where[1:]}"
    verb = "is" if stable.sum() == 1 else "are"
    held = f"{stable.sum()} of {len(stable)} loads {verb} sustainable; the capacity is {capacity}. "
    count = "" if stable.all() else held
    return (
        f"{count}Highest throughput {where}: {rates[best]:,.0f} output tokens/s, "
        f"TTFT {brief_time(ttft[best])}, TPOT {brief_time(tpot[best])}."
    )


def simulation_sentence(found: Simulation) -> str:
    """Return a sentence on the median and the slow requests of a simulation, and its throughput."""
    ttft, slow_ttft = (brief_time(found.quantile("ttft_s", share)) for share in (0.5, 0.99))
    several = np.isfinite(found.tpot_s) and found.tpot_s > 0
    tpot = ""
    if several:
        middle, slow = (brief_time(found.quantile("tpot_s", share)) for share in (0.5, 0.99))
        tpot = f", TPOT {middle} ({slow})"
    return (
        f"Median TTFT {ttft} (99th percentile {slow_ttft}){tpot}, {found.tokens_per_s:,.0f} output tokens/s with "
        f"{found.running_batch:.3g} requests running; {LIMITS[str(found.limit)]}."
    )
