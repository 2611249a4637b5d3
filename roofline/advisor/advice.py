"""Advice: the answer to "prefill or decode first?" for a deployment and its traffic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..capacity.layouts import reach
from ..errors import InvalidInput, number, unknown
from ..footprint.fit_in_words import WIDER_LAYOUTS
from ..footprint.memory_use import memory
from ..operators.parallel import Parallel
from ..phases.deployment import Deployment, check_deployment
from ..phases.encoder_rules import refuse_encoders
from ..phases.passes import TIMES
from ..phases.workload import Workload
from ..serving.metrics import SLO_METRICS, metric_named
from ..serving.slo import SLO, as_slo
from ..serving.traffic import Traffic
from ..specs.prices import checked_price
from ..techniques.prompts import with_hit_rate
from ..techniques.registry import usual_techniques
from ..techniques.technique import Chosen, Technique, as_techniques, scenario_with
from .findings import Findings, middle
from .ranked_techniques import rank
from .targets import TargetLine, checked, searched_batches, seen_by_requests
from .verdict import flips
from .words import reasons_of, text_of

LOADS = (1, 8, 64)
"""Requests in the system at low, medium and high load."""


@dataclass(frozen=True, eq=False, repr=False)
class Advice(Findings):
    """Recommendation of what to improve first, with the findings behind it (see `Findings`)."""

    @property
    def reason(self) -> str:
        """Reasons for the recommendation, in sentences."""
        return " ".join(reasons_of(self))

    @property
    def text(self) -> str:
        """The full report as text."""
        return text_of(self)

    def summary(self) -> str:
        """One or two sentences: the verdict and the technique with the largest gain."""
        from .words import summary_of

        return summary_of(self)

    def __repr__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Findings and reasons as plain JSON types."""
        return super().to_dict() | {"reason": self.reason}


def advise(
    serve: Deployment,
    traffic: Traffic | Workload | Iterable[tuple[float, ...]],
    slo: SLO | None = None,
    *,
    techniques: Chosen = (),
    hit_rate: float = 0.0,
    considered: Chosen | None = None,
    batches: tuple[int, ...] = LOADS,
    metric: str | None = None,
    usd_per_hour: float | None = None,
    time: str = "estimate_s",
) -> Advice:
    """Recommend which phase to work on first, and with which technique.

    Requests are in steady state (`roofline.serving.steady_state`). The verdict is a rule of thumb on the share of time:
    prefill first if it takes at least 60 %, decode first if it takes at least 70 %, otherwise both. With an SLO, the
    result also names the target that is missed first, and techniques are ranked by their gain on that metric.

    If the model does not fit on the single accelerator of ``serve``, the advice is for the smallest layout that fits,
    and the result mentions it.

    Parameters
    ----------
    serve : Deployment
        The deployment, including its precision and engine.
    traffic : Traffic, Workload or iterable of (int, int, float)
        Requests by length: prompt tokens, output tokens, share. The batch of a workload is ignored; ``batches`` sets
        the load.
    slo : SLO, optional
        Targets.
    techniques : Technique or str, or several of them
        Techniques already in use.
    hit_rate : float
        Share of prompt tokens found in the current prefix cache.
    considered : Technique or str, or several of them, optional
        Techniques that could be added; None considers all with their default parameters.
    batches : tuple of int
        Requests in the system at low, medium and high load.
    metric : str, optional
        ``ttft_s``, ``tpot_s``, ``total_s``, ``gap_s`` or ``tokens_per_s``. None uses the metric of the target that is
        missed first, or ``total_s`` without targets.
    usd_per_hour : float, optional
        Price of one accelerator per hour, for the cost per token.
    time : str
        ``floor_s``, ``roofline_s`` or ``estimate_s``.

    Returns
    -------
    Advice

    Raises
    ------
    InvalidInput
        ``batches`` is empty or has a value that is not an integer >= 1, or techniques cannot be combined.
    UnknownName
        The metric, a technique or the time is unknown.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm"))
    >>> rl.advise(serve, rl.Traffic.of([(150, 400)])).verdict
    'decode'
    """
    check_deployment(serve)
    refuse_encoders(serve.model, "advise")
    loads = _checked_batches(batches)
    if metric is not None:
        metric_named(metric, SLO_METRICS)
    if time not in TIMES:
        raise unknown("time", time, TIMES)
    if usd_per_hour is not None:
        checked_price("usd_per_hour", usd_per_hour)
    used = with_hit_rate(as_techniques(techniques), hit_rate)
    mix = _traffic(traffic)
    serve, start = _that_fits(serve, mix, used)
    lines: tuple[TargetLine, ...] = ()
    if as_slo(slo).targets():
        searched = seen_by_requests(serve, mix, searched_batches(loads), techniques=used, time=time)
        lines = checked(as_slo(slo), searched, mix, loads)
    chosen = metric or (lines[0].metric if lines else "total_s")
    seen = seen_by_requests(serve, mix, loads, techniques=used, time=time)
    candidates = usual_techniques() if considered is None else as_techniques(considered)
    ranking = rank(seen, mix, candidates, used=used, metric=chosen)
    mean = mix.workload(round(mix.mean_prompt_tokens), round(mix.mean_output_tokens), middle(loads))
    turns = flips(scenario_with(serve, mean, used), time)
    found = (ranking.options, ranking.had, ranking.refused)
    return Advice(serve, mix, loads, chosen, time, seen, lines, *found, turns, usd_per_hour, used, start)


def _that_fits(serve: Deployment, mix: Traffic, used: tuple[Technique, ...]) -> tuple[Deployment, str]:
    """The deployment, or the smallest layout that fits one request, with a note in that case."""
    longest = mix.workload(int(np.max(mix.prompt_tokens)), int(np.max(mix.output_tokens)))

    def holds(spread: Deployment) -> bool:
        return float(np.max(memory(scenario_with(spread, longest, used).serve, longest).max_batch)) >= 1

    if not serve.parallel.single or holds(serve):
        return serve, ""
    for degree in WIDER_LAYOUTS:
        spread = serve.replace(parallel=Parallel(tensor=degree))
        if degree <= reach(serve.accelerator) and holds(spread):
            gpu = serve.accelerator.name
            return spread, f"Does not fit on one {gpu}; this starts from TP {degree}, the smallest layout that fits."
    return serve, f"Does not fit on any number of {serve.accelerator.name}; the numbers below assume that it does."


def _traffic(traffic: Traffic | Workload | Iterable[tuple[float, ...]]) -> Traffic:
    """Convert any accepted form of traffic to requests by length."""
    if isinstance(traffic, Traffic):
        return traffic
    if isinstance(traffic, Workload):
        return Traffic.of_workload(traffic)
    return Traffic.of(traffic)


def _checked_batches(batches: tuple[int, ...]) -> tuple[int, ...]:
    if not tuple(batches):
        raise InvalidInput("batches is empty; give at least one batch size")
    return tuple(int(np.asarray(number("batches", batch, least=1, whole=True))) for batch in batches)
