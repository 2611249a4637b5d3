"""Targets: which SLO target is missed first, and which phase dominates it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..phases.deployment import Deployment
from ..serving.metrics import METRICS
from ..serving.slo import SLO
from ..serving.steady_state import Steady, steady_state
from ..serving.traffic import Traffic
from ..techniques.technique import Technique, scenario_with

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TargetLine:
    """One SLO target compared with the traffic.

    Attributes
    ----------
    metric : str
        Name of the metric (`roofline.serving.metrics`).
    target : float
        Target of the metric.
    strain : tuple of float
        Share of the target that the most demanding kind of request uses, by load; above 1 the target is missed. Every
        kind is compared as if all requests in the system were like it.
    breaks_at_batch : float
        Smallest batch at which the target is missed; infinite if it is met up to the largest load.
    phase : str
        Phase that dominates the metric at that batch.
    bucket : int
        Position in the traffic of the kind of request that uses the largest share of the target at that batch.
    """

    metric: str
    target: float
    strain: tuple[float, ...]
    breaks_at_batch: float
    phase: str
    bucket: int


def seen_by_requests(
    serve: Deployment, traffic: Traffic, batches: Iterable[float], *, techniques: tuple[Technique, ...], time: str
) -> Steady:
    """Steady state of requests, ``[loads, buckets]``."""
    loads = np.asarray(list(batches), dtype=float)[:, None]
    load = traffic.workload(traffic.prompt_tokens, traffic.output_tokens, loads)
    return steady_state(scenario_with(serve, load, techniques), time=time)


def checked(slo: SLO, seen: Steady, traffic: Traffic, batches: tuple[int, ...]) -> tuple[TargetLine, ...]:
    """Compare every target with the traffic; the one that is missed first comes first.

    Parameters
    ----------
    slo : SLO
        The targets.
    seen : Steady
        Steady state at all searched loads, ``[loads, buckets]``.
    traffic : Traffic
        The shares of the buckets.
    batches : tuple of int
        Loads to report; ``seen`` must include each of them.
    """
    reported = np.searchsorted(np.ravel(seen.case.load.batch), batches)
    lines = [_line(name, target, seen, traffic, reported) for name, target in slo.targets()]
    return tuple(sorted(lines, key=lambda line: (line.breaks_at_batch, -max(line.strain))))


def searched_batches(batches: tuple[int, ...]) -> Array:
    """Loads at which targets are checked: the reported loads and 48 values up to the largest."""
    return np.unique(np.concatenate([np.round(np.geomspace(1, max(batches), 48)), batches]))


def _line(name: str, target: float, seen: Steady, traffic: Traffic, reported: Any) -> TargetLine:
    """One target over all searched loads; ``reported`` are the indices of the loads to report."""
    metric, searched = METRICS[name], np.ravel(np.asarray(seen.case.load.batch))
    values = np.broadcast_to(metric.value(seen), loads_and_buckets(seen))
    strains = np.asarray(metric.strain(values, target))
    strain = np.max(strains, axis=-1)
    missed = strain > 1
    at = int(np.argmax(missed)) if missed.any() else len(searched) - 1
    breaks = float(searched[at]) if missed.any() else float("inf")
    phase, bucket = _phase(name, seen, at, traffic), int(np.argmax(strains[at]))
    return TargetLine(name, target, tuple(map(float, strain[reported])), breaks, phase, bucket)


def loads_and_buckets(seen: Steady) -> tuple[int, ...]:
    """Number of loads and buckets."""
    load = seen.case.load
    return np.broadcast_shapes(np.shape(load.batch), np.shape(load.prompt_tokens))


def _phase(name: str, seen: Steady, at: int, traffic: Traffic) -> str:
    part = governed(seen)[name]
    mean = float(np.sum(np.broadcast_to(part, loads_and_buckets(seen))[at] * traffic.share))
    return "prefill" if mean >= 0.5 else "decode"


def governed(seen: Steady) -> dict[str, Array]:
    """Share of prefill in every metric that an SLO can have: time that is not spent in the request's own decode steps.

    The first token only waits for prompts, its own and others'. Later tokens wait for decode steps and for the prompts
    of other requests. Throughput, and with it cost per token, depends on all work of the deployment.
    """
    token_s = np.asarray(np.divide(seen.step_s, seen.tokens_per_step))
    tokens = np.asarray(seen.passes.tokens_after_first)
    # With extremely long prompts, the time after the first token is lost to rounding.
    apart = (tokens > 0) & (np.asarray(seen.tpot_s) > 0)
    stalled = 1 - token_s / np.where(apart, seen.tpot_s, token_s)
    return {
        "ttft_s": np.ones(loads_and_buckets(seen)),
        "tpot_s": np.clip(np.where(tokens > 0, stalled, 0.0), 0.0, 1.0),
        "total_s": np.clip(1 - tokens * token_s / np.asarray(seen.total_s), 0.0, 1.0),
        "gap_s": np.clip(1 - seen.step_s / np.asarray(seen.gap_s), 0.0, 1.0),
        "tokens_per_s": np.asarray(seen.prefill_share),
    }
