"""Options: every technique that can be had, ranked by what it gains on the metric that matters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..phases.deployment import Deployment
from ..phases.workload import Workload
from ..serving.batch import Performance
from ..serving.request import Service
from ..serving.scenario import Scenario
from ..serving.traffic import Traffic
from ..techniques.table import label
from ..techniques.technique import HARDWARE, Technique
from ..values import Value

Array = npt.NDArray[np.float64]

LEAST_GAIN = 1.005
"""A gain below half a percent is none."""


@dataclass(frozen=True)
class Option(Value):
    """A technique and what it does to the traffic, request by request.

    Attributes
    ----------
    technique : what would be done
    before, after : what requests see without and with it, loads down, buckets across
    traffic : the shares of the buckets
    metric : what gains are measured on
    """

    technique: Technique
    before: Service
    after: Service
    traffic: Traffic
    metric: str

    @property
    def name(self) -> str:
        """Name, with the formats that it sets."""
        return label(self.technique)

    @property
    def gains(self) -> Array:
        """Gain on the metric at each load: above 1 is better; throughput is that of an accelerator."""
        before, after = (mean_of(self.metric, seen, self.traffic) for seen in (self.before, self.after))
        if self.metric == "tokens_per_s":
            before, after = before / _accelerators(self.before), after / _accelerators(self.after)
        return np.asarray(after / before if self.metric == "tokens_per_s" else before / after)

    @cached_property
    def gain(self) -> float:
        """Geometric mean of the gains over the loads."""
        return float(np.exp(np.mean(np.log(self.gains))))

    def gain_on(self, metric: str) -> float:
        """The same on another metric."""
        return Option(self.technique, self.before, self.after, self.traffic, metric).gain

    @cached_property
    def prefill_gain(self) -> float:
        """Speedup of a request's prompt, over all loads and buckets."""
        return self._mean_ratio(self.before.prompt_s, self.after.prompt_s)

    @cached_property
    def decode_gain(self) -> float:
        """Speedup of a request's steps, over all loads and buckets."""
        before, after = self.before.performance, self.after.performance
        return self._mean_ratio(
            np.divide(before.step_s, before.tokens_per_step), np.divide(after.step_s, after.tokens_per_step)
        )

    def _mean_ratio(self, before: object, after: object) -> float:
        sums = [np.sum(np.asarray(side) * self.traffic.share) for side in (before, after)]
        return float(sums[0] / sums[1])

    @property
    def memory_freed_bytes(self) -> float:
        """Device memory freed at the largest load, weights and cache; negative if more is taken."""
        return float(_memory(self.before.performance) - _memory(self.after.performance))

    @property
    def batch_gain(self) -> float:
        """Sequences that fit, after / before, for the bucket that takes the most; NaN if none did."""
        before, after = (float(np.min(side.performance.max_batch)) for side in (self.before, self.after))
        return after / before if before else float("nan")


def _accelerators(seen: Service) -> float:
    return float(np.max(np.asarray(seen.performance.case.serve.parallel.accelerators)))


def _memory(found: Performance) -> float:
    batch = np.max(np.asarray(found.case.load.batch))
    return float(np.max(np.asarray(found.weights_bytes + batch * np.asarray(found.kv_bytes_per_sequence))))


def mean_of(metric: str, seen: Service, traffic: Traffic) -> Array:
    """Mean of a metric over the traffic, at each load; for throughput, tokens over the time that they take."""
    load = seen.performance.case.load
    shape = np.broadcast_shapes(np.shape(load.batch), np.shape(load.prompt_tokens))
    if metric == "tokens_per_s":
        tokens = np.broadcast_to(np.asarray(load.output_tokens) * seen.performance.case.slots_used, shape)
        return np.asarray(_weighted(tokens, traffic) / _weighted(np.broadcast_to(seen.busy_s, shape), traffic))
    return _weighted(np.broadcast_to(getattr(seen, metric), shape), traffic)


def _weighted(values: Array, traffic: Traffic) -> Array:
    return np.asarray(np.sum(values * traffic.share, axis=-1))


def options_of(
    serve: Deployment, load: Workload, traffic: Traffic, techniques: Iterable[Technique], *, metric: str, time: str
) -> tuple[tuple[Option, ...], tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Techniques ranked by their gain; those that are there already; those that can't be had, and why.

    Those that take more accelerators come last, whatever they gain: they can be bought at any time.
    """
    case = Scenario(serve, load)
    ranked, had, refused = [], [], []
    for item in techniques:
        if reason := item.refusal(case):
            refused.append((label(item), reason))
        elif item.had(case):
            had.append(label(item))
        else:
            before, after = (Service(Performance(each, time)) for each in (case, item.after(case)))
            ranked.append(Option(item, before, after, traffic, metric))
    ranked.sort(key=lambda option: (option.technique.effort == HARDWARE, -option.gain))
    return tuple(ranked), tuple(had), tuple(refused)
