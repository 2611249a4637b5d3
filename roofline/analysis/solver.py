"""Inverse questions: which bandwidth, batch, context or weight format meets a target.

One solver handles all inputs and metrics.  If the formula of the metric can be inverted, it is; otherwise the answer is
bracketed on a grid and bisected.  If there is no answer, the result gives the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..arrays import bisect
from ..errors import InvalidInput, number, unknown
from ..phases.deployment import Deployment, check_deployment
from ..phases.passes import TIMES
from ..phases.workload import Workload, check_load
from ..report import Step
from ..serving.metrics import METRICS, Metric
from ..serving.scenario import Scenario
from ..serving.steady_state import Steady, steady_state
from ..units import humanize
from .crossover_points import crossovers
from .fitting import FITS
from .solutions import Solution, by_formula

Setter = Callable[[Scenario, float], Scenario]

POINTS = 65
"""Points of the grid on which the bracket is searched; the metric must cross the target at most once between two."""


def _with_chip(case: Scenario, **changes: Any) -> Scenario:
    """Change fields of the accelerator."""
    return case.replace(serve=case.serve.replace(accelerator=case.serve.accelerator.replace(**changes)))


def _with_peak(case: Scenario, value: float) -> Scenario:
    """Scale all peaks so that the linear layers' peak becomes ``value``."""
    gpu = case.serve.accelerator
    scale = value / float(np.max(gpu.peak_flops_per_s(_linear_math(case.serve))))
    return _with_chip(case, dense_flops_per_s={math: peak * scale for math, peak in gpu.dense_flops_per_s.items()})


def _with_link(case: Scenario, value: float) -> Scenario:
    gpu = case.serve.accelerator
    if gpu.scale_up is None:
        raise InvalidInput(f"{gpu.name} has no link between accelerators: link_bytes_per_s can't be solved for")
    return _with_chip(case, scale_up=replace(gpu.scale_up, bytes_per_s=value))


def _linear_math(serve: Deployment) -> str:
    return serve.accelerator.math_on_chip(serve.precision.part("mlp").math)


def _with_load(name: str) -> Setter:
    """Return a function that sets a field of the workload."""

    def set_field(case: Scenario, value: Any) -> Scenario:
        return case.replace(load=replace(case.load, **{name: value}))

    return set_field


def _with_rate(name: str) -> Setter:
    """Return a function that sets a value of the accelerator."""

    def set_rate(case: Scenario, value: float) -> Scenario:
        return _with_chip(case, **{name: value})

    return set_rate


def _with_context(case: Scenario, value: float) -> Scenario:
    """Put all of the context but one token in the cache."""
    return case.replace(load=replace(case.load, prompt_tokens=1, cached_tokens=value - 1))


@dataclass(frozen=True)
class Sought:
    """An input that can be searched: how to set it, its range, and whether it is an integer."""

    set: Setter
    least: float
    most: float
    whole: bool = False


FIND: Mapping[str, Sought] = {
    "memory_bytes_per_s": Sought(_with_rate("memory_bytes_per_s"), 1e9, 1e16),
    "memory_bytes": Sought(_with_rate("memory_bytes"), 1e8, 1e15),
    "dense_flops_per_s": Sought(_with_peak, 1e11, 1e19),
    "link_bytes_per_s": Sought(_with_link, 1e7, 1e15),
    "batch": Sought(_with_load("batch"), 1, 2**20, whole=True),
    "prompt_tokens": Sought(_with_load("prompt_tokens"), 1, 2**24, whole=True),
    "output_tokens": Sought(_with_load("output_tokens"), 1, 2**20, whole=True),
    "context_tokens": Sought(_with_context, 1, 2**30, whole=True),
}
"""Input -> how it is searched. The ranges exceed anything that exists, so their ends do not affect answers."""

SOLVED: tuple[str, ...] = (
    "ttft_s",
    "tpot_s",
    "total_s",
    "gap_s",
    "tokens_per_s",
    "requests_per_s",
    "step_s",
    "prompt_s",
    "intensity_flops_per_byte",
    "needed_bytes",
    "max_batch",
)
"""Metrics that can have a target (`roofline.serving.metrics`)."""


def _first_step(case: Scenario) -> Scenario:
    """The same requests with a single decode step, directly after the prompt."""
    return case.replace(load=replace(case.load, output_tokens=2))


def _at_value(metric: Metric, case: Scenario, time: str) -> Steady:
    """Steady state of requests at a value of the input."""
    return steady_state(_first_step(case) if metric.of == "step" else case, time=time)


def _value(metric: Metric, case: Scenario, time: str) -> float:
    return float(metric.value(_at_value(metric, case, time)))


def solve(
    serve: Deployment | Scenario,
    load: Workload | None = None,
    *,
    find: str,
    metric: str = "step_s",
    target: float | None = None,
    time: str = "estimate_s",
) -> Solution:
    """Find the value of ``find`` at which ``metric`` reaches ``target``; for integers, the last that meets it.

    Latency and throughput are those of requests in steady state with ``load.batch`` in the system, as in ``plan``.

    ==================  ==========================================================================================
    find                ``memory_bytes_per_s``, ``memory_bytes``, ``dense_flops_per_s`` (of the linear layers, the
                        others in proportion), ``link_bytes_per_s``, ``batch``, ``prompt_tokens``, ``output_tokens``,
                        ``context_tokens`` (in the cache before the first decode step)
    metric              of a request: ``ttft_s``, ``tpot_s``, ``total_s``, ``gap_s``, ``prompt_s`` (its prompt alone);
                        of the deployment: ``tokens_per_s``, ``requests_per_s``, ``max_batch``; of the decode step
                        behind the prompt: ``step_s``, ``intensity_flops_per_byte``; of one accelerator:
                        ``needed_bytes``
    without a target    metric ``fits``: find ``weight_bits`` of the linear layers, ``parameters``, ``memory_bytes``,
                        ``batch`` or ``context_tokens``; metric ``ridge``: find ``batch``, at which the projections of
                        a decode step reach the ridge point
    ==================  ==========================================================================================

    Parameters
    ----------
    serve : Deployment or Scenario
        The deployment, with scalar degrees of parallelism; or a scenario with techniques and its own requests, such as
        ``rl.techniques.scenario_with(serve, load, "speculative")``, which metrics without a target do not support.
    load : Workload, optional
        The requests, with scalar fields; None uses one sequence of default length, or the requests of the scenario.
    find, metric : str
        See the table. The default metric is the time of a decode step.
    target : float, optional
        Target of the metric.
    time : str
        ``floor_s``, ``roofline_s`` or ``estimate_s``.

    Returns
    -------
    Solution

    Raises
    ------
    UnknownName
        ``find``, ``metric`` or ``time`` is unknown.
    InvalidInput
        ``target`` is not a positive finite number, a field of ``load`` or of the layout is an array, or both a
        scenario and a workload are given.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-70b"), rl.get_accelerator("h100-sxm"))
    >>> found = rl.solve(serve, find="memory_bytes_per_s", target=0.020, time="floor_s")
    >>> f"{found.value / 1e12:.2f} TB/s, {found.method}"
    '6.98 TB/s, closed form'
    >>> round(rl.solve(serve, find="batch", metric="ridge").value)
    313
    >>> f"{rl.solve(serve, find='weight_bits', metric='fits').value:.2f}"
    '8.42'
    """
    if time not in TIMES:
        raise unknown("time", time, TIMES)
    if metric in WITHOUT_TARGET:
        return _without_target(serve, load, find, metric)
    case = _case(serve, load)
    _check_single(case.serve, case.load)
    if find not in FIND:
        raise unknown("quantity to solve for", find, FIND)
    if metric not in SOLVED:
        raise unknown("metric", metric, (*SOLVED, *WITHOUT_TARGET))
    level = float(np.max(number("target", target, least=1e-300)))  # above 0, whatever the unit
    plain_step = find == "memory_bytes_per_s" and metric == "step_s" and time == "floor_s"
    if plain_step and case == Scenario(case.serve, case.load):
        return _bandwidth(case, level)
    return _bisected(case, FIND[find], _Asked(find, METRICS[metric], level), time)


def _case(serve: Deployment | Scenario, load: Workload | None) -> Scenario:
    """The scenario that is asked about."""
    if not isinstance(serve, Scenario):
        return Scenario(serve, Workload() if load is None else load)
    if load is not None:
        raise InvalidInput("a scenario has its own workload: give either a scenario, or a deployment and a workload")
    return serve


def _without_target(serve: Deployment | Scenario, load: Workload | None, find: str, metric: str) -> Solution:
    """Answer a question about a deployment by itself."""
    if isinstance(serve, Scenario):
        raise InvalidInput(f"metric {metric!r} takes a deployment, not a scenario; max_batch with a target takes both")
    load = Workload() if load is None else load
    check_deployment(serve)
    check_load(load)
    _check_single(serve, load)
    formulas = WITHOUT_TARGET[metric]
    if find not in formulas:
        raise unknown(f"quantity to solve {metric} for", find, formulas)
    return formulas[find](serve, load)


def _check_single(serve: Deployment, load: Workload) -> None:
    fields = (load.batch, load.prompt_tokens, load.output_tokens, load.cached_tokens, *serve.parallel.degrees)
    if any(np.ndim(value) for value in fields):
        raise InvalidInput("solve takes a single workload and layout, not arrays")


def _bandwidth(case: Scenario, level: float) -> Solution:
    """Invert ``max(bytes / bandwidth, others)``: the bandwidth is ``bytes / target`` unless the others take longer."""
    step = steady_state(_first_step(case), time="floor_s")
    times = step.passes.step.phase.resources_s
    moved = float(times.pop("memory") * case.serve.accelerator.memory_bytes_per_s)
    worst = max(times, key=lambda name: float(times[name]))
    inputs = {"least_bytes": moved, "target_s": level}
    steps = (Step("memory_bytes_per_s", "least_bytes / target_s", inputs, moved / level, "floor of a step"),)
    asked = ("memory_bytes_per_s", "step_s", level)
    if float(times[worst]) > level:
        what = "the network alone takes" if worst == "network" else f"{worst} units alone take"
        why = f"never: {what} {float(times[worst]) * 1e3:.4g} ms"
        return by_formula(*asked, value=np.nan, reached=float(step.step_s), why=why, steps=steps)
    faster = _with_chip(case, memory_bytes_per_s=moved / level)
    reached = _value(METRICS["step_s"], faster, "floor_s")
    return by_formula(*asked, value=moved / level, reached=reached, steps=steps)


@dataclass(frozen=True)
class _Asked:
    """A question: the input, the metric and its target."""

    find: str
    metric: Metric
    target: float

    def meets(self, value: float) -> bool:
        """Whether a value of the metric meets the target."""
        if self.metric.more_is_better:
            return value >= self.target
        return value <= self.target


def _bisected(case: Scenario, sought: Sought, asked: _Asked, time: str) -> Solution:
    def figure(value: float) -> float:
        return _value(asked.metric, sought.set(case, value), time)

    def good(value: Any) -> bool:
        return asked.meets(figure(float(value)))

    grid = np.geomspace(sought.least, sought.most, POINTS)
    grid = np.unique(np.round(grid)) if sought.whole else grid
    fine = np.array([good(value) for value in grid])
    turns = np.flatnonzero(fine[1:] != fine[:-1])
    if not len(turns):
        return _never(asked, (figure(sought.least), figure(sought.most)), bool(fine[0]))
    at = int(turns[0])
    below, above = bisect(good, grid[at], grid[at + 1], whole=sought.whole)
    value, side = (float(below), "largest") if fine[at] else (float(above), "smallest")
    bound = "at least" if asked.metric.more_is_better else "at most"
    why = f"the {side} {asked.find} for which {asked.metric.name} is {bound} the target"
    reached, found = figure(value), _at_value(asked.metric, sought.set(case, value), time)
    answer = (asked.find, value, asked.metric.name, asked.target, reached, True, "bisection", why)
    return Solution(*answer, found=found)


def _never(asked: _Asked, ends: tuple[float, float], fine: bool) -> Solution:
    """Answer if no value in range crosses the target: all or none meet it, and how near the metric comes."""
    best, worst = (max, min) if asked.metric.more_is_better else (min, max)
    nearest = worst(ends) if fine else best(ends)
    verdict, extreme = ("always", "worst") if fine else ("never", "best")
    shown = humanize(asked.metric.name, nearest)
    why = f"{verdict}: the {asked.metric.words} is {shown} at {extreme}, at any {asked.find}"
    value = np.inf if fine else np.nan
    return Solution(asked.find, value, asked.metric.name, asked.target, nearest, fine, "bisection", why)


def _ridge_batch(serve: Deployment, load: Workload) -> Solution:
    """Batch at which the projections reach the ridge point (`roofline.crossovers`)."""
    found = crossovers(serve, load)
    ridge = float(np.max(serve.accelerator.ridge_flops_per_byte(serve.precision.part("mlp").math)))
    if not np.isfinite(found.ridge_batch):
        why = "never: a token's activations move more bytes than its FLOPs are worth at the ridge"
        return by_formula("batch", "ridge", ridge, value=np.nan, reached=np.nan, why=why)
    return by_formula("batch", "ridge", ridge, value=float(found.ridge_batch), reached=ridge, steps=found.steps)


WITHOUT_TARGET: Mapping[str, Mapping[str, Callable[[Deployment, Workload], Solution]]] = {
    "ridge": {"batch": _ridge_batch},
    "fits": FITS,
}
"""Metrics without a target: the ridge point or the available memory takes its place."""
