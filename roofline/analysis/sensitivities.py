"""Sensitivities: by how many percent a time changes for one percent of an input, and what a larger change would buy.

The elasticity of a time ``t`` in an input ``x`` is ``d log t / d log x``: -1 where the time is all memory's and ``x``
is the bandwidth, 0 where ``x`` does not matter.  It is the secant over a thousandth to either side; where a time turns
from one resource to another that is the mean of both sides.  Sequences and tokens come whole, and kernels take them in
tiles, so theirs is the secant to twice as many: the power by which the time grows as they double.

If every rate grows by a factor and every fixed time shrinks by it, the time shrinks by it too: the elasticities in all
rates and in latency, taken as -1/x like a rate, add up to -1 (Euler's theorem on homogeneous functions).  That gives
the share of latency in an estimate without naming its sources; floor and roofline have none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..arrays import FrozenMapping
from ..errors import InvalidInput, Number, number, unknown
from ..hardware import Accelerator
from ..operators.operator import Operator, Segment
from ..operators.work import Work
from ..phases.passes import TIMES, Phase
from ..phases.totals import ScheduledPass, bounds_of
from ..report import Report

STEP = 1e-3
"""Natural logarithm of the factor to either side."""


Input = Callable[[Phase, float], ScheduledPass]
"""A pass with one input multiplied by a factor; its schedule is that of the pass as it is."""


def _chip(phase: Phase, gpu: Accelerator) -> ScheduledPass:
    serve = phase.deployment.replace(accelerator=gpu)
    return ScheduledPass(serve, phase.schedule, tuple(replace(item, accelerator=gpu) for item in phase.operators))


def _bandwidth(phase: Phase, by: float) -> ScheduledPass:
    gpu = phase.deployment.accelerator
    return _chip(phase, gpu.replace(memory_bytes_per_s=gpu.memory_bytes_per_s * by))


def _peak(math: str) -> Input:
    def scaled(phase: Phase, by: float) -> ScheduledPass:
        gpu = phase.deployment.accelerator
        peaks = dict(gpu.dense_flops_per_s)
        return _chip(phase, gpu.replace(dense_flops_per_s=peaks | {math: peaks[math] * by}))

    return scaled


def _link(phase: Phase, by: float) -> ScheduledPass:
    """Links, host bus and network cards in proportion."""
    gpu = phase.deployment.accelerator
    link = gpu.scale_up and replace(gpu.scale_up, bytes_per_s=gpu.scale_up.bytes_per_s * by)
    host, nic = (rate if rate is None else rate * by for rate in (gpu.host_bytes_per_s, gpu.nic_bytes_per_s))
    return _chip(phase, gpu.replace(scale_up=link, host_bytes_per_s=host, nic_bytes_per_s=nic))


def _operators(change: Callable[[Operator, float], Operator]) -> Input:
    def scaled(phase: Phase, by: float) -> ScheduledPass:
        found = tuple(replace(item, operator=change(item.operator, by)) for item in phase.operators)
        return ScheduledPass(phase.deployment, phase.schedule, found)

    return scaled


def _works(operator: Operator, change: Callable[[Work], Work]) -> Operator:
    return replace(operator, work=change(operator.work), least=change(operator.least))


def _weight_bits(operator: Operator, by: float) -> Operator:
    return _works(operator, lambda work: replace(work, weight_bytes=work.weight_bytes * by))


def _cache_bits(operator: Operator, by: float) -> Operator:
    return _works(operator, lambda work: replace(work, cache_bytes=work.cache_bytes * by))


def _parameters(operator: Operator, by: float) -> Operator:
    """More of the same layers: bytes and FLOPs of everything that has weights."""
    if operator.kind not in ("matmul", "experts"):
        return operator
    return _works(operator, lambda work: replace(work, weight_bytes=work.weight_bytes * by, flops=work.flops * by))


def _segments(change: Callable[[Segment, float], Segment]) -> Input:
    def scaled(phase: Phase, by: float) -> ScheduledPass:
        serve = phase.deployment
        changed = tuple(change(segment, by) for segment in phase.schedule.segments)
        return ScheduledPass(serve, phase.schedule, bounds_of(serve, changed))

    return scaled


def _more_sequences(segment: Segment, by: float) -> Segment:
    return replace(segment, sequences=segment.sequences * by)


def _longer_context(segment: Segment, by: float) -> Segment:
    return replace(segment, past_tokens=segment.past_tokens * by)


def _longer_prompts(segment: Segment, by: float) -> Segment:
    return replace(segment, new_tokens=segment.new_tokens * by)


def inputs_of(phase: Phase) -> Mapping[str, Input]:
    """What a pass depends on, by name."""
    maths = dict.fromkeys(item.math for item in phase.operators if np.any(item.flops))
    found: dict[str, Input] = {"bandwidth": _bandwidth}
    found |= {f"peak_{math}": _peak(math) for math in maths}
    if not phase.deployment.parallel.single:
        found["links"] = _link
    found["batch"] = _segments(_more_sequences)
    if any(np.any(np.asarray(segment.past_tokens) > 0) for segment in phase.segments):
        found["context"] = _segments(_longer_context)
    if phase.name == "prefill":
        found["prompt"] = _segments(_longer_prompts)
    by_bytes: dict[str, Input] = {
        "weight_bits": _operators(_weight_bits),
        "kv_bits": _operators(_cache_bits),
        "parameters": _operators(_parameters),
    }
    return found | by_bytes


WHOLE = ("batch", "context", "prompt")
"""Inputs that come in whole numbers."""


def _time_of(one: Phase | ScheduledPass, time: str) -> Number:
    value: Number = getattr(one, time)
    return value


@dataclass(frozen=True, repr=False)
class Sensitivity(Report):
    """How a time of a pass depends on its inputs.

    Attributes
    ----------
    phase, time : of which pass, and which of the three times
    elasticity : input -> ``d log time / d log input``; latency counts as a rate, so its elasticity is minus its share
    """

    phase: Phase
    time: str
    elasticity: Mapping[str, Number]

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The inputs."""
        return tuple(self.elasticity)

    def __getattr__(self, name: str) -> Number:
        if name != "elasticity" and name in self.elasticity:
            return self.elasticity[name]
        raise AttributeError(f"no elasticity in {name!r}")

    @property
    def ranked(self) -> tuple[str, ...]:
        """The inputs, the one that matters most first, by the largest of a sweep."""
        return tuple(sorted(self.elasticity, key=lambda name: -float(np.max(np.abs(self.elasticity[name])))))

    def ratio(self, name: str, factor: float) -> Number:
        """Time with an input ``factor`` times as large over the time as it is: computed anew, not extrapolated.

        Raises
        ------
        UnknownName
            No input is called so; latency has no value of its own to change.
        InvalidInput
            ``factor`` is not above 0.
        """
        inputs = inputs_of(self.phase)
        if name not in inputs:
            raise unknown("input", name, inputs)
        by = float(np.max(number("factor", factor, least=1e-12)))
        return _time_of(inputs[name](self.phase, by), self.time) / _time_of(self.phase, self.time)

    def summary(self) -> str:
        """What the time depends on most, in a sentence."""
        first, *others = self.ranked
        change = float(np.max(self.elasticity[first]))
        what = {"decode": "a decode step", "prefill": "prefill"}.get(self.phase.name, self.phase.name)
        next_ones = f", then on {' and '.join(each.replace('_', ' ') for each in others[:2])}" if others else ""
        time = self.time.removesuffix("_s")
        return (
            f"The time of {what} depends most on {first.replace('_', ' ')}{next_ones}:"
            f" 1 % more of the first changes the {time} by {change:+.2f} %."
        )

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """What was computed."""
        return (f"d log {self.time} of {self.phase.name} / d log input",)


def sensitivity(phase: Phase, *, time: str = "roofline_s") -> Sensitivity:
    """By how many percent a time of ``phase`` changes for one percent of each input.

    Inputs are the bandwidth, each peak in use, the links, the batch, the context (prefill: the prompt), the bits of
    weights and of the cache, and the parameters of the matrices; an estimate also has latency.

    Parameters
    ----------
    phase : a prefill or a decode step; a sweep gives an array for each input
    time : ``floor_s``, ``roofline_s`` or ``estimate_s``

    Raises
    ------
    UnknownName
        ``time`` is none of the three.
    InvalidInput
        A mixed pass, whose segments do not share a batch.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-70b"), rl.get_accelerator("h100-sxm"))
    >>> step = rl.decode(serve, rl.Workload(batch=1))
    >>> found = rl.sensitivity(step)
    >>> print(f"{found.bandwidth:.2f} {found.weight_bits:.3f} {found.ratio('bandwidth', 2):.2f}")
    -1.00 0.995 0.50
    """
    if time not in TIMES:
        raise unknown("time", time, TIMES)
    if len(phase.segments) != 1:
        raise InvalidInput(f"sensitivity is of a prefill or a decode step, not of a {phase.name} pass")
    found = {name: _elasticity(phase, name, time) for name in inputs_of(phase)}
    if time == "estimate_s":
        rates = [value for name, value in found.items() if name in ("bandwidth", "links") or name.startswith("peak_")]
        found["latency"] = np.minimum(-1.0 - sum(rates), 0.0)
    return Sensitivity(phase, time, FrozenMapping(found))


def _elasticity(phase: Phase, name: str, time: str) -> Number:
    change = inputs_of(phase)[name]
    ends = (np.log(2), 0.0) if name in WHOLE else (STEP, -STEP)
    more, less = (_time_of(change(phase, float(np.exp(end))), time) for end in ends)
    return np.log(more / less) / (ends[0] - ends[1])
