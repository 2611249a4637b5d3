"""Inverse questions: which bandwidth, batch, context or width of a weight makes an answer come out as wished.

One solver for all: what is looked for, the figure that has to reach a level, and the level.  Where the figure is a
formula that can be turned round it is; elsewhere the answer is bracketed on a grid and bisected.  No answer is an
answer too, with what stands in the way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import InvalidInput, number, unknown
from ..footprint.memory_use import memory
from ..footprint.per_device import weights_on_one
from ..formats import get_format
from ..phases.deployment import Deployment
from ..phases.passes import TIMES, decode, generate, prefill
from ..phases.workload import Workload
from ..report import Report, Step
from ..units import humanize
from .crossover_points import crossovers

Setting = tuple[Deployment, Workload]

MORE_IS_BETTER = ("tokens_per_s", "max_batch", "intensity_flops_per_byte")
"""Figures that have to be at least the target; all others, at most."""

POINTS = 65
"""Points of the grid on which the bracket is looked for; the figure is taken to cross the level once between two."""


@dataclass(frozen=True, eq=False, repr=False)
class Solution(Report):
    """An answer to an inverse question.

    Attributes
    ----------
    find : what was looked for
    value : what it has to be; NaN if nothing will do, infinite if everything will
    metric, target : the figure and its level
    reached : the figure at ``value``, computed anew
    possible : whether there is an answer
    method : ``closed form`` or ``bisection``
    reason : what stands in the way, or what the value is the limit of
    steps : the derivation of a closed form
    """

    find: str
    value: float
    metric: str
    target: float
    reached: float
    possible: bool
    method: str
    reason: str
    steps: tuple[Step, ...] = ()

    columns = ("find", "value", "metric", "target", "reached", "possible", "method", "reason")

    def summary(self) -> str:
        """The answer in a sentence.

        Examples
        --------
        >>> import roofline as rl
        >>> serve = rl.Deployment("llama-3.1-70b", "h100-sxm")
        >>> print(rl.solve(serve, find="memory_bytes_per_s", target=0.020, time="floor_s").summary())
        memory_bytes_per_s must be 6.983 TB/s for a TPOT of 20 ms.
        """
        figure = self.metric.removesuffix("_s").upper() if self.metric in ("ttft_s", "tpot_s") else self.metric
        goal = f"a {figure} of {humanize(self.metric, self.target)}"
        if self.metric in WITHOUT_TARGET:
            goal = {"fits": "it to fit", "ridge": "the projections to reach the ridge point"}[self.metric]
        if not self.possible:
            return f"No {self.find} is enough for {goal}: {self.reason.removeprefix('never: ')}."
        if np.isinf(self.value):
            return f"Any {self.find} is enough for {goal}."
        limit = next((f"{word} " for word in ("at most", "at least") if _side(self) == word), "")
        return f"{self.find} must be {limit}{humanize(self.find, self.value)} for {goal}."

    def explain(self) -> tuple[Step, ...]:
        """How a closed form comes about."""
        return self.steps


def _side(found: Solution) -> str:
    """Whether the value is the largest or the smallest that will do; empty for a closed form."""
    words = {"the largest": "at most", "the smallest": "at least"}
    return next((word for start, word in words.items() if found.reason.startswith(start)), "")


def _rates(serve: Deployment, load: Workload, value: float, name: str) -> Setting:
    return serve.replace(accelerator=serve.accelerator.replace(**{name: value})), load


def _with_peak(serve: Deployment, load: Workload, value: float) -> Setting:
    """All peaks in proportion, that of the linear layers being ``value``."""
    gpu = serve.accelerator
    scale = value / float(np.max(gpu.peak_flops_per_s(_linear_math(serve))))
    peaks = {math: peak * scale for math, peak in gpu.dense_flops_per_s.items()}
    return serve.replace(accelerator=gpu.replace(dense_flops_per_s=peaks)), load


def _with_link(serve: Deployment, load: Workload, value: float) -> Setting:
    gpu = serve.accelerator
    if gpu.scale_up is None:
        raise InvalidInput(f"{gpu.name} states no link between accelerators: link_bytes_per_s can't be solved for")
    return serve.replace(accelerator=gpu.replace(scale_up=replace(gpu.scale_up, bytes_per_s=value))), load


def _linear_math(serve: Deployment) -> str:
    return serve.accelerator.math_on_chip(serve.precision.part("mlp").math)


FIND: Mapping[str, tuple[Callable[[Deployment, Workload, float], Setting], float, float, bool]] = {
    "memory_bytes_per_s": (lambda s, w, v: _rates(s, w, v, "memory_bytes_per_s"), 1e9, 1e16, False),
    "memory_bytes": (lambda s, w, v: _rates(s, w, v, "memory_bytes"), 1e8, 1e15, False),
    "dense_flops_per_s": (_with_peak, 1e11, 1e19, False),
    "link_bytes_per_s": (_with_link, 1e7, 1e15, False),
    "batch": (lambda s, w, v: (s, replace(w, batch=v)), 1, 2**20, True),
    "prompt_tokens": (lambda s, w, v: (s, replace(w, prompt_tokens=v)), 1, 2**24, True),
    "output_tokens": (lambda s, w, v: (s, replace(w, output_tokens=v)), 1, 2**20, True),
    "context_tokens": (lambda s, w, v: (s, replace(w, prompt_tokens=1, cached_tokens=v - 1)), 1, 2**30, True),
}
"""What can be looked for: how it is set, from where to where, and whether in whole numbers.

``context_tokens`` are those in the cache before a decode step.
"""

Metric = Callable[[Deployment, Workload, str], Any]

METRICS: Mapping[str, Metric] = {
    "ttft_s": lambda s, w, time: getattr(prefill(s, w), time),
    "tpot_s": lambda s, w, time: getattr(decode(s, w), time),
    "total_s": lambda s, w, time: generate(s, w, time=time).total_s,
    "tokens_per_s": lambda s, w, time: w.batch / getattr(decode(s, w), time),
    "intensity_flops_per_byte": lambda s, w, time: decode(s, w).intensity_flops_per_byte,
    "needed_bytes": lambda s, w, time: memory(s, w).per_accelerator["needed_bytes"],
    "max_batch": lambda s, w, time: memory(s, w).max_batch,
}
"""Figures that can be asked for: the prefill of the batch, a decode step, a generation, tokens a second of the step."""


def solve(
    serve: Deployment,
    load: Workload | None = None,
    *,
    find: str,
    metric: str = "tpot_s",
    target: float | None = None,
    time: str = "roofline_s",
) -> Solution:
    """The value of ``find`` at which ``metric`` reaches ``target``; of whole numbers the last that keeps to it.

    ==================  ==========================================================================================
    find                ``memory_bytes_per_s``, ``memory_bytes``, ``dense_flops_per_s`` (of the linear layers, the
                        others in proportion), ``link_bytes_per_s``, ``batch``, ``prompt_tokens``, ``output_tokens``,
                        ``context_tokens`` (before a decode step)
    metric              ``ttft_s``, ``tpot_s`` (a decode step), ``total_s``, ``tokens_per_s``,
                        ``intensity_flops_per_byte`` of the step, ``needed_bytes`` of one accelerator, ``max_batch``
    without a target    metric ``fits``: find ``weight_bits`` of the linear layers, ``parameters``, ``memory_bytes``,
                        ``batch`` or ``context_tokens``; metric ``ridge``: find ``batch``, at which the projections of
                        a decode step reach the ridge point
    ==================  ==========================================================================================

    Parameters
    ----------
    load : the workload, one sequence of the usual length if None
    find, metric : see the table
    target : level of the metric
    time : which of the three times

    Raises
    ------
    UnknownName
        ``find``, ``metric`` or ``time`` is none of these.
    InvalidInput
        ``target`` is not a finite number above 0, or a field of ``load`` or of the layout is an array.

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
    load = load or Workload()
    if time not in TIMES:
        raise unknown("time", time, TIMES)
    _check_single(serve, load)
    if metric in WITHOUT_TARGET:
        formulas = WITHOUT_TARGET[metric]
        if find not in formulas:
            raise unknown(f"quantity to solve {metric} for", find, formulas)
        return formulas[find](serve, load)
    if find not in FIND:
        raise unknown("quantity to solve for", find, FIND)
    if metric not in METRICS:
        raise unknown("metric", metric, (*METRICS, *WITHOUT_TARGET))
    level = float(np.max(number("target", target, least=1e-300)))
    if find == "memory_bytes_per_s" and metric == "tpot_s" and time == "floor_s":
        return _bandwidth(serve, load, level)
    return _bisected(serve, load, (find, metric, level), time)


def _check_single(serve: Deployment, load: Workload) -> None:
    fields = (load.batch, load.prompt_tokens, load.output_tokens, load.cached_tokens, *serve.parallel.degrees)
    if any(np.ndim(value) for value in fields):
        raise InvalidInput("solve answers one question at a time: the workload and the layout must not be arrays")


def _bandwidth(serve: Deployment, load: Workload, level: float) -> Solution:
    """The floor is ``max(bytes / bandwidth, others)``: ``bytes / level``, if the others take no longer."""
    step = decode(serve, load)
    times = step.resources_s
    moved = float(times.pop("memory") * serve.accelerator.memory_bytes_per_s)
    worst = max(times, key=lambda name: float(times[name]))
    inputs = {"least_bytes": moved, "target_s": level}
    steps = (Step("memory_bytes_per_s", "least_bytes / target_s", inputs, moved / level, "floor of a step"),)
    asked = ("memory_bytes_per_s", "tpot_s", level)
    if float(times[worst]) > level:
        why = f"never: {worst} alone takes {float(times[worst]) * 1e3:.4g} ms"
        return _answer(*asked, value=np.nan, reached=float(step.floor_s), why=why, steps=steps)
    reached = METRICS["tpot_s"](*_rates(serve, load, moved / level, "memory_bytes_per_s"), "floor_s")
    return _answer(*asked, value=moved / level, reached=float(reached), steps=steps)


def _answer(
    find: str, metric: str, target: float, *, value: float, reached: float, why: str = "", steps: tuple[Step, ...] = ()
) -> Solution:
    """A closed form's."""
    possible = bool(np.isfinite(value))
    return Solution(find, value, metric, target, reached, possible, "closed form", why, steps)


def _bisected(serve: Deployment, load: Workload, asked: tuple[str, str, float], time: str) -> Solution:
    find, metric, level = asked
    setting, low, high, whole = FIND[find]

    def figure(value: float) -> float:
        return float(METRICS[metric](*setting(serve, load, value), time))

    def good(value: float) -> bool:
        return figure(value) >= level if metric in MORE_IS_BETTER else figure(value) <= level

    grid = np.unique(np.round(np.geomspace(low, high, POINTS))) if whole else np.geomspace(low, high, POINTS)
    fine = np.array([good(float(value)) for value in grid])
    turns = np.flatnonzero(fine[1:] != fine[:-1])
    if not len(turns):
        return _never(find, metric, level, (figure(low), figure(high)), bool(fine[0]))
    at = int(turns[0])
    below, above = _bisect(good, (float(grid[at]), float(grid[at + 1])), whole=whole)
    value, side = (below, "largest") if fine[at] else (above, "smallest")
    bound = "at least" if metric in MORE_IS_BETTER else "at most"
    why = f"the {side} {find} for which {metric} is {bound} the target"
    return Solution(find, value, metric, level, figure(value), True, "bisection", why)


def _bisect(good: Callable[[float], bool], bracket: tuple[float, float], *, whole: bool) -> tuple[float, float]:
    """The two neighbors, of whole numbers or of floats, between which ``good`` changes."""
    low, high = bracket
    first = good(low)
    for _ in range(100):
        middle = float(np.floor((low + high) / 2)) if whole else float(np.sqrt(low * high))
        if middle in (low, high):
            break
        low, high = (middle, high) if good(middle) == first else (low, middle)
    return low, high


def _never(find: str, metric: str, level: float, ends: tuple[float, float], fine: bool) -> Solution:
    """Nothing in reach crosses the level: everything will do, or nothing, and how near it comes."""
    least = fine == (metric in MORE_IS_BETTER)
    near = min(ends) if least else max(ends)
    nearest = near if fine else (max(ends) if metric in MORE_IS_BETTER else min(ends))
    verdict = "always" if fine else "never"
    why = f"{verdict}: {metric} is {nearest:.6g} at {'worst' if fine else 'best'}, whatever {find} is"
    return Solution(find, np.inf if fine else np.nan, metric, level, nearest, fine, "bisection", why)


def _ridge_batch(serve: Deployment, load: Workload) -> Solution:
    """The batch at which the projections reach the ridge point (`roofline.crossovers`)."""
    found = crossovers(serve, load)
    ridge = float(np.max(serve.accelerator.ridge_flops_per_byte(serve.precision.part("mlp").math)))
    if not np.isfinite(found.ridge_batch):
        why = "never: a token's activations move more bytes than its FLOPs are worth at the ridge"
        return _answer("batch", "ridge", ridge, value=np.nan, reached=np.nan, why=why)
    return _answer("batch", "ridge", ridge, value=float(found.ridge_batch), reached=ridge, steps=found.steps)


_TWO, _BITS = ("int4", "fp8"), (4.0, 8.0)
"""Two formats without scales: what a bit of every weight takes follows from their difference."""


def _weight_bits(serve: Deployment, load: Workload) -> Solution:
    """Bits of the linear layers' weights; everything else stays as it is."""
    need = memory(serve, load).per_accelerator
    now = memory(serve, load).weights_bytes_on_one
    narrow, wide = (
        float(weights_on_one(serve.replace(precision=replace(serve.precision, weights=name, exceptions={}))))
        for name in _TWO
    )
    a_bit = (wide - narrow) / (_BITS[1] - _BITS[0])
    room, rest = float(need["available_bytes"]), float(need["needed_bytes"] - now + narrow - a_bit * _BITS[0])
    step = Step(
        "weight_bits",
        "(available_bytes - rest_bytes) / bytes_of_a_bit",
        {"available_bytes": room, "rest_bytes": rest, "bytes_of_a_bit": a_bit},
        (room - rest) / a_bit,
        "what is left for the linear layers, over what a bit of all their weights takes",
    )
    return _fitting("weight_bits", step, "what stays in 16 bits and the cache alone do not fit")


def _parameters(serve: Deployment, load: Workload) -> Solution:
    """Parameters of a model of the same make, all in the weights' format, beside the cache of the load."""
    need = memory(serve, load).per_accelerator
    room, cache = float(need["available_bytes"]), float(need["paged_kv_bytes"])
    bits = get_format(serve.precision.weights).bits
    step = Step(
        "parameters",
        "(available_bytes - cache_bytes) * 8 / weight_bits",
        {"available_bytes": room, "cache_bytes": cache, "weight_bits": bits},
        (room - cache) * 8 / bits,
        "what the cache leaves, over the bits of a weight",
    )
    return _fitting("parameters", step, "the cache alone does not fit")


def _memory_bytes(serve: Deployment, load: Workload) -> Solution:
    """Memory of an accelerator."""
    needed = float(memory(serve, load).per_accelerator["needed_bytes"])
    step = Step(
        "memory_bytes",
        "needed_bytes / memory_fraction",
        {"needed_bytes": needed, "memory_fraction": serve.memory_fraction},
        needed / serve.memory_fraction,
        "weights and pages, over the engine's fraction",
    )
    return _fitting("memory_bytes", step, "")


def _fitting(find: str, step: Step, why_not: str) -> Solution:
    possible = step.value > 0
    value = float(step.value) if possible else np.nan
    target = float(step.inputs.get("available_bytes", step.value))
    why = "" if possible else f"never: {why_not}"
    return _answer(find, "fits", target, value=value, reached=target if possible else np.nan, why=why, steps=(step,))


def _most(serve: Deployment, load: Workload, find: str, name: str, method: str) -> Solution:
    """The largest batch or context that `Memory` finds."""
    need = memory(serve, load)
    most, available = float(getattr(need, name)), float(need.per_accelerator["available_bytes"])
    steps = tuple(step for step in need.explain() if step.name == f"memory.{name}")
    if most == 0:
        return Solution(
            find, np.nan, "fits", available, np.nan, False, method, "never: the weights leave no room", steps
        )
    if np.isinf(most):
        changed = load
    elif find == "batch":
        changed = replace(load, batch=most)
    else:
        changed = replace(load, prompt_tokens=1, cached_tokens=max(most - load.output_tokens - 1, 0))
    reached = float(memory(serve, changed).per_accelerator["needed_bytes"])
    why = "always: the cache does not grow" if np.isinf(most) else ""
    return Solution(find, most, "fits", available, reached, True, method, why, steps)


WITHOUT_TARGET: Mapping[str, Mapping[str, Callable[[Deployment, Workload], Solution]]] = {
    "ridge": {"batch": _ridge_batch},
    "fits": {
        "weight_bits": _weight_bits,
        "parameters": _parameters,
        "memory_bytes": _memory_bytes,
        "batch": lambda s, w: _most(s, w, "batch", "max_batch", "closed form"),
        "context_tokens": lambda s, w: _most(s, w, "context_tokens", "max_context", "bisection"),
    },
}
"""Questions whose level is the machine's own: its ridge point, its memory."""
