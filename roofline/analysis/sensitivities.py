"""Sensitivities: by how many percent a result changes per percent of an input, and the effect of larger changes.

The elasticity of a time ``t`` in an input ``x`` is ``d log t / d log x``: -1 if the time is all memory time and ``x``
is the bandwidth, 0 if ``x`` does not matter.  It is computed as a central difference over 0.1 % to either side.  Where
the limit changes between resources, that gives the mean of both sides.  Sequences and tokens are integers, and kernels
process them in tiles, so their elasticity is computed over a doubling.

If every rate grows by a factor and every fixed time shrinks by the same factor, the time shrinks by it as well.  The
elasticities in all rates and in latency (as an inverse, like a rate) therefore add up to -1 (Euler's theorem on
homogeneous functions).  This gives the share of latency in an estimate without listing its sources; floor and roofline
have none.  A throughput is the inverse of a time, so its signs are reversed.

The result is the time of a pass or a metric of requests in steady state.  For the latter, every input is varied in the
whole scenario, so prompts, steps and stalls change with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..arrays import FrozenMapping
from ..errors import InvalidInput, Number, number, of_kind, unknown
from ..hardware import Accelerator
from ..model.rewriting import Rewrite, rewritten
from ..operators.operator import Operator, Pass, Segment
from ..operators.work import Work
from ..phases.bounds import Bound
from ..phases.deployment import Deployment
from ..phases.passes import TIMES, Phase
from ..phases.scheduling import scheduled_pass
from ..phases.totals import ScheduledPass
from ..report import Report, Step
from ..serving.metrics import METRICS, metric_named
from ..serving.scenario import Scenario
from ..serving.steady_state import Steady, steady_state

STEP = 1e-3
"""Natural logarithm of the factor of the difference to either side."""


Input = Callable[[Phase, float], ScheduledPass]
"""Function that scales an input of a pass by a factor."""

Chip = Callable[[Accelerator, float], Accelerator]
"""Function that scales a rate of an accelerator by a factor."""

Change = Callable[[Operator, float], Operator]
"""Function that scales an input of an operator by a factor."""


def _bandwidth(gpu: Accelerator, by: float) -> Accelerator:
    return gpu.replace(memory_bytes_per_s=gpu.memory_bytes_per_s * by)


def _peak(math: str, gpu: Accelerator, by: float) -> Accelerator:
    peaks = dict(gpu.dense_flops_per_s)
    return gpu.replace(dense_flops_per_s=peaks | {math: peaks[math] * by})


def _exponentials(gpu: Accelerator, by: float) -> Accelerator:
    each = gpu.exponentials_per_clock_per_unit
    return gpu.replace(exponentials_per_clock_per_unit=None if each is None else each * by)


def _links(gpu: Accelerator, by: float) -> Accelerator:
    """Scale links, host bus and network cards together."""
    link = gpu.scale_up and replace(gpu.scale_up, bytes_per_s=gpu.scale_up.bytes_per_s * by)
    host, nic = (rate if rate is None else rate * by for rate in (gpu.host_bytes_per_s, gpu.nic_bytes_per_s))
    return gpu.replace(scale_up=link, host_bytes_per_s=host, nic_bytes_per_s=nic)


def _rates_of(serve: Deployment, operators: Iterable[Bound]) -> dict[str, Chip]:
    """Rates of the accelerator that these operators use, by name."""
    found: dict[str, Chip] = {"bandwidth": _bandwidth}
    operators = tuple(operators)
    for math in dict.fromkeys(item.math for item in operators if np.any(item.flops)):
        found[f"peak_{math}"] = partial(_peak, math)
    if any(item.follows_exponentials for item in operators):
        found["peak_exponentials"] = _exponentials
    if not serve.parallel.single:
        found["links"] = _links
    return found


def _on_chip(change: Chip, phase: Phase, by: float) -> ScheduledPass:
    gpu = change(phase.deployment.accelerator, by)
    serve = phase.deployment.replace(accelerator=gpu)
    return scheduled_pass(serve, phase.schedule, launch=phase.scheduled.launch)


def _again(
    phase: Phase, segments: tuple[Segment, ...], change: Callable[[Operator], Operator] | None = None
) -> ScheduledPass:
    """The same pass with other sequences or changed operators."""
    launch = phase.scheduled.launch
    return scheduled_pass(phase.deployment, phase.schedule, segments, change=change, launch=launch)


def _with_operators(change: Change, phase: Phase, by: float) -> ScheduledPass:
    return _again(phase, phase.schedule.segments, lambda operator: change(operator, by))


def _works(operator: Operator, change: Callable[[Work], Work]) -> Operator:
    return replace(operator, work=change(operator.work), least=change(operator.least))


def _weight_bits(operator: Operator, by: float) -> Operator:
    return _works(operator, lambda work: replace(work, weight_bytes=work.weight_bytes * by))


def _cache_bits(operator: Operator, by: float) -> Operator:
    return _works(operator, lambda work: replace(work, cache_bytes=work.cache_bytes * by))


def _parameters(operator: Operator, by: float) -> Operator:
    """Scale bytes and FLOPs of all operators with weights, as if there were more layers."""
    if operator.kind not in ("matmul", "experts"):
        return operator
    return _works(operator, lambda work: replace(work, weight_bytes=work.weight_bytes * by, flops=work.flops * by))


BY_OPERATOR: Mapping[str, Change] = {
    "weight_bits": _weight_bits,
    "kv_bits": _cache_bits,
    "parameters": _parameters,
}
"""Inputs that scale the work of operators."""


def _with_segments(field: str, phase: Phase, by: float) -> ScheduledPass:
    """Scale one number of all segments of a pass."""
    changed = (replace(segment, **{field: getattr(segment, field) * by}) for segment in phase.schedule.segments)
    return _again(phase, tuple(changed))


def inputs_of(phase: Phase) -> Mapping[str, Input]:
    """Inputs of a pass, by name."""
    found: dict[str, Input] = {}
    for name, chip in _rates_of(phase.deployment, phase.operators).items():
        found[name] = partial(_on_chip, chip)
    found["batch"] = partial(_with_segments, "sequences")
    if any(np.any(np.asarray(segment.past_tokens) > 0) for segment in phase.segments):
        found["context"] = partial(_with_segments, "past_tokens")
    if phase.name == "prefill":
        found["prompt"] = partial(_with_segments, "new_tokens")
    for name, change in BY_OPERATOR.items():
        found[name] = partial(_with_operators, change)
    return found


@dataclass(frozen=True)
class _Scaled(Rewrite):
    """A model with one input of its operators scaled."""

    change: Change
    by: float

    def operators(self, found: tuple[Operator, ...], run: Pass) -> tuple[Operator, ...]:
        return tuple(self.change(item, self.by) for item in found)


def _case_on_chip(change: Chip, case: Scenario, by: float) -> Scenario:
    return case.replace(serve=case.serve.replace(accelerator=change(case.serve.accelerator, by)))


def _case_with_operators(change: Change, case: Scenario, by: float) -> Scenario:
    return case.with_model(rewritten(case.model, _Scaled(change, by)))


def _case_with_load(field: str, case: Scenario, by: float) -> Scenario:
    return case.replace(load=replace(case.load, **{field: np.round(getattr(case.load, field) * by)}))


def scenarios_of(found: Steady) -> Mapping[str, Callable[[Scenario, float], Scenario]]:
    """Inputs of requests in steady state, by name."""
    operators = (*found.passes.prompt.phase.operators, *found.passes.step.phase.operators)
    varied: dict[str, Callable[[Scenario, float], Scenario]] = {}
    for name, chip in _rates_of(found.case.serve, operators).items():
        varied[name] = partial(_case_on_chip, chip)
    for name, field in (("batch", "batch"), ("prompt", "prompt_tokens"), ("output", "output_tokens")):
        varied[name] = partial(_case_with_load, field)
    for name, change in BY_OPERATOR.items():
        varied[name] = partial(_case_with_operators, change)
    return varied


WHOLE = ("batch", "context", "prompt", "output")
"""Integer inputs."""


def _time_of(one: Phase | ScheduledPass, time: str) -> Number:
    value: Number = getattr(one, time)
    return value


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(Report):
    """How a result depends on its inputs.

    Attributes
    ----------
    phase : Phase or Steady
        The pass, or the requests in steady state.
    time : str
        Which of the three times is analyzed.
    elasticity : mapping of str to float or array
        Input -> ``d log result / d log input``. Latency counts as a rate, so its elasticity is minus its share of the
        time.
    metric : str
        Metric of requests; empty for the time of a pass.
    """

    phase: Phase | Steady
    time: str
    elasticity: Mapping[str, Number]
    metric: str = ""

    @property
    def heading(self) -> str:
        """Title: the time or metric, and what it belongs to."""
        return f"Sensitivity: {self.metric or self.time} of {self.phase.heading.partition(': ')[2]}"

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the inputs."""
        return tuple(self.elasticity)

    def __getattr__(self, name: str) -> Number:
        if name != "elasticity" and name in self.elasticity:
            return self.elasticity[name]
        raise AttributeError(f"no elasticity in {name!r}")

    @property
    def deployment(self) -> Deployment:
        """The deployment."""
        if isinstance(self.phase, Steady):
            return self.phase.case.serve
        return self.phase.deployment

    @property
    def figure(self) -> str:
        """Description of the analyzed result."""
        return METRICS[self.metric].words if self.metric else _name_of(self.phase)

    @property
    def value(self) -> Number:
        """Value of the result with unchanged inputs."""
        return _figure(self.phase, self.time, self.metric)

    @property
    def ranked(self) -> tuple[str, ...]:
        """Inputs by decreasing absolute elasticity; for a sweep, by the largest of its points."""
        return tuple(sorted(self.elasticity, key=lambda name: -float(np.max(np.abs(self.elasticity[name])))))

    def ratio(self, name: str, factor: float) -> Number:
        """Ratio of the result with an input scaled by ``factor`` to the result now; computed exactly, not extrapolated.

        Parameters
        ----------
        name : str
            Name of an input.
        factor : float
            Positive factor.

        Raises
        ------
        UnknownName
            The input is unknown, or is latency, which has no single value to change.
        InvalidInput
            ``factor`` is not positive.
        """
        names = _inputs(self.phase)
        if name not in names:
            raise unknown("input", name, names)
        by = float(np.max(number("factor", factor, least=1e-12)))  # a factor of 0 would divide by 0
        return _varied_figure(self.phase, name, by, self.time, self.metric) / self.value

    def _derivation(self) -> tuple[Step, ...]:
        """Derivation of the result, and of each elasticity as a ratio of logarithmic changes."""
        subject = self.phase.explain()
        return (
            *subject,
            *(self._elasticity_step(name) for name in self.elasticity if name != "latency"),
            *self._rest(),
        )

    def _elasticity_step(self, name: str) -> Step:
        width, elasticity = _width(name), self.elasticity[name]
        inputs = {"change_of_log_figure": elasticity * width, "change_of_log_input": width}
        source = "doubled, since it is an integer" if name in WHOLE else f"{STEP:g} to either side"
        return Step(f"{name}.elasticity", "change_of_log_figure / change_of_log_input", inputs, elasticity, source)

    def _rest(self) -> Iterator[Step]:
        """Derivation of the elasticity in latency."""
        if "latency" not in self.elasticity:
            return
        rates = {name: value for name, value in self.elasticity.items() if _is_rate(name)}
        total = " + ".join(rates)
        more_is_better = bool(self.metric) and METRICS[self.metric].more_is_better
        formula = f"max(1 - ({total}), 0)" if more_is_better else f"min(-1 - ({total}), 0)"
        source = "all rates and latency together give the result"
        yield Step("latency.elasticity", formula, rates, self.elasticity["latency"], source)

    def summary(self) -> str:
        """One sentence on what the result depends on most."""
        first, *others = self.ranked
        change = float(np.max(self.elasticity[first]))
        name = self.phase.name if isinstance(self.phase, Phase) else METRICS[self.metric].words
        passes = {"decode": "time of a decode step", "prefill": "time of prefill"}
        asked = METRICS[self.metric].of if self.metric else ""
        what = passes.get(name, f"{name} of a request" if asked == "request" else name)
        next_ones = f", then on {' and '.join(each.replace('_', ' ') for each in others[:2])}" if others else ""
        time = self.time.removesuffix("_s")
        return (
            f"The {what} depends most on {first.replace('_', ' ')}{next_ones}:"
            f" 1% more {first.replace('_', ' ')} changes the {time} by {change:+.2f}%."
        )

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """What the elasticities describe."""
        return (f"d log {self.metric or self.time} of {_name_of(self.phase)} / d log input",)


def _name_of(subject: Phase | Steady) -> str:
    if isinstance(subject, Steady):
        return "a request in steady state"
    return subject.name


def _inputs(subject: Phase | Steady) -> tuple[str, ...]:
    return tuple(scenarios_of(subject) if isinstance(subject, Steady) else inputs_of(subject))


def _figure(subject: Phase | Steady, time: str, metric: str) -> Number:
    if isinstance(subject, Steady):
        return METRICS[metric].value(subject)
    return _time_of(subject, time)


def _varied_figure(subject: Phase | Steady, name: str, by: float, time: str, metric: str) -> Number:
    """The result with an input scaled by ``by``."""
    if isinstance(subject, Steady):
        varied = scenarios_of(subject)[name](subject.case, by)
        return METRICS[metric].value(steady_state(varied, time=time))
    return _time_of(inputs_of(subject)[name](subject, by), time)


def sensitivity(found: Phase | Steady | Scenario, *, time: str | None = None, metric: str = "total_s") -> Sensitivity:
    """Compute by how many percent a result changes if an input changes by one percent.

    Inputs are the bandwidth, each peak in use, the links, the batch, the context (prefill: the prompt; requests: prompt
    and output), the bits of weights and of the cache, and the parameters of the matrices; an estimate also has latency.

    Parameters
    ----------
    found : Phase, Steady or Scenario
        A prefill, a decode step, or requests in steady state, computed or as a scenario with its techniques (see
        `solve`). For a sweep each elasticity is an array.
    time : str, optional
        ``floor_s``, ``roofline_s`` or ``estimate_s``. None uses the estimate, and for requests that are already
        computed the time which they were computed from.
    metric : str
        Metric of requests (`roofline.serving.metrics`), a latency or a throughput. Not used for a pass.

    Returns
    -------
    Sensitivity

    Raises
    ------
    UnknownName
        ``time`` is not one of the three times, or ``metric`` is not a latency or throughput.
    InvalidInput
        The pass is mixed, and its segments have different batches.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-70b"), rl.get_accelerator("h100-sxm"))
    >>> step = rl.decode(serve, rl.Workload(batch=1))
    >>> found = rl.sensitivity(step, time="roofline_s")
    >>> print(f"{found.bandwidth:.2f} {found.weight_bits:.3f} {found.ratio('bandwidth', 2):.2f}")
    -1.00 0.995 0.50
    """
    if isinstance(found, Scenario):
        found = steady_state(found, time=time or "estimate_s")
    steady = isinstance(found, Steady)
    if not steady:
        of_kind("found", found, Phase, "decode(serve, load)")
    chosen = time or (found.time if isinstance(found, Steady) else "estimate_s")
    if chosen not in TIMES:
        raise unknown("time", chosen, TIMES)
    if isinstance(found, Steady):
        metric_named(metric, tuple(item.name for item in METRICS.values() if item.unit in ("s", "1/s", "tokens/s")))
        found = found.at(chosen)
    elif len(found.segments) != 1:
        raise InvalidInput(f"sensitivity takes a prefill or a decode step, not a {found.name} pass")
    named = metric if steady else ""
    elasticity = {name: _elasticity(found, name, chosen, named) for name in _inputs(found)}
    if chosen == "estimate_s":
        elasticity["latency"] = _latency(elasticity, faster=METRICS[named].more_is_better if named else False)
    return Sensitivity(found, chosen, FrozenMapping(elasticity), named)


def _latency(elasticity: Mapping[str, Number], *, faster: bool) -> Number:
    """Elasticity in latency: -1 (1 for a throughput) minus the sum over all rates."""
    rates = [value for name, value in elasticity.items() if _is_rate(name)]
    if faster:
        return np.maximum(1.0 - sum(rates), 0.0)
    return np.minimum(-1.0 - sum(rates), 0.0)


def _is_rate(name: str) -> bool:
    return name in ("bandwidth", "links") or name.startswith("peak_")


def _width(name: str) -> float:
    """Difference of an input's logarithm between the two values that are compared."""
    more, less = _ends(name)
    return more - less


def _ends(name: str) -> tuple[float, float]:
    return (float(np.log(2)), 0.0) if name in WHOLE else (STEP, -STEP)


def _elasticity(subject: Phase | Steady, name: str, time: str, metric: str) -> Number:
    ends = _ends(name)
    more, less = (_varied_figure(subject, name, float(np.exp(end)), time, metric) for end in ends)
    return np.log(more / less) / _width(name)
