"""Options: techniques that the deployment can use, ranked by their gain on a metric."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..serving.metrics import METRICS
from ..serving.scenario import Scenario
from ..serving.steady_state import Steady, steady_state
from ..serving.traffic import Traffic
from ..techniques.technique import HARDWARE, Technique
from ..values import Value
from .targets import loads_and_buckets

Array = npt.NDArray[np.float64]

LEAST_GAIN = 1.005
"""Gains below half a percent are ignored, because kernel estimates do not resolve them."""


@dataclass(frozen=True, eq=False)
class Option(Value):
    """A technique and its effect on the requests of a traffic.

    Attributes
    ----------
    technique : Technique
        The technique.
    before, after : Steady
        Steady state without and with the technique, ``[loads, buckets]``.
    traffic : Traffic
        The shares of the buckets.
    metric : str
        What gains are measured on.
    """

    technique: Technique
    before: Steady
    after: Steady
    traffic: Traffic
    metric: str

    @property
    def name(self) -> str:
        """Name of the technique, including formats that it sets."""
        return self.technique.label

    @property
    def gains(self) -> Array:
        """Gain on the metric at each load; above 1 is better. Throughput is per accelerator."""
        before, after = (mean_of(self.metric, seen, self.traffic) for seen in (self.before, self.after))
        if METRICS[self.metric].of == "deployment":
            before, after = before / _accelerators(self.before), after / _accelerators(self.after)
        return np.asarray(METRICS[self.metric].gain(before, after))

    @cached_property
    def gain(self) -> float:
        """Geometric mean of the gains over the loads."""
        return float(np.exp(np.mean(np.log(self.gains))))

    def gain_on(self, metric: str) -> float:
        """Geometric mean of the gains on another metric."""
        return Option(self.technique, self.before, self.after, self.traffic, metric).gain

    @cached_property
    def prefill_gain(self) -> float:
        """Speedup of an isolated prompt, over all loads and buckets."""
        return self._mean_ratio(self.before.prompt_s, self.after.prompt_s)

    @cached_property
    def decode_gain(self) -> float:
        """Speedup per token of a decode step, over all loads and buckets."""
        return self._mean_ratio(self.before.decode_s, self.after.decode_s)

    def _mean_ratio(self, before: object, after: object) -> float:
        sums = [np.sum(np.asarray(side) * self.traffic.share) for side in (before, after)]
        return float(sums[0] / sums[1]) if sums[1] else 1.0

    @property
    def memory_freed_bytes(self) -> float:
        """Memory freed at the largest load, weights and cache; negative if more is used."""
        return _memory(self.before) - _memory(self.after)

    @property
    def batch_gain(self) -> float:
        """Ratio of sequences that fit, after / before, for the largest bucket; NaN if none fit before."""
        before, after = (float(np.min(side.max_batch)) for side in (self.before, self.after))
        return after / before if before else float("nan")


def _accelerators(seen: Steady) -> float:
    return float(np.max(np.asarray(seen.case.serve.parallel.accelerators)))


def _memory(seen: Steady) -> float:
    batch = np.max(np.asarray(seen.case.load.batch))
    return float(np.max(np.asarray(seen.weights_bytes + batch * np.asarray(seen.kv_bytes_per_sequence))))


def mean_of(metric: str, seen: Steady, traffic: Traffic) -> Array:
    """Mean of a metric over the traffic, at each load; for a throughput, total tokens over total time."""
    found = METRICS[metric]
    values = np.broadcast_to(found.value(seen), loads_and_buckets(seen))
    if found.of != "deployment":
        return _weighted(values, traffic)
    busy_s = np.broadcast_to(seen.busy_s, loads_and_buckets(seen))
    return np.asarray(_weighted(values * busy_s, traffic) / _weighted(busy_s, traffic))


def _weighted(values: Array, traffic: Traffic) -> Array:
    return np.asarray(np.sum(values * traffic.share, axis=-1))


@dataclass(frozen=True, eq=False)
class Ranking(Value):
    """Techniques that were considered.

    Attributes
    ----------
    options : tuple of Option
        Options by decreasing gain; those that need more accelerators come last.
    had : tuple of str
        Techniques already in use.
    refused : tuple of (str, str)
        Techniques that cannot be used, and why.
    """

    options: tuple[Option, ...]
    had: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]


def rank(
    seen: Steady, traffic: Traffic, considered: Iterable[Technique], *, used: tuple[Technique, ...], metric: str
) -> Ranking:
    """Rank techniques by their gain on a metric.

    Parameters
    ----------
    seen : Steady
        Current steady state, ``[loads, buckets]``.
    traffic : Traffic
        The shares of the buckets.
    considered : iterable of Technique
        Techniques that could be added.
    used : tuple of Technique
        Techniques in use. Techniques that would conflict with them are not considered.
    metric : str
        What gains are measured on.
    """
    options: list[Option] = []
    had: list[str] = []
    refused: list[tuple[str, str]] = []
    for item in considered:
        reason = item.refusal(seen.case) or _clash(item, used)
        if item in used or item.had(seen.case):
            had.append(item.label)
        elif reason:
            refused.append((item.label, reason))
        else:
            options.append(_option(item, seen, traffic, metric))
    options.sort(key=lambda option: (option.technique.effort == HARDWARE, -option.gain))
    return Ranking(tuple(options), tuple(had), tuple(refused))


def _clash(technique: Technique, used: tuple[Technique, ...]) -> str:
    """Why a technique cannot be combined with those in use; empty if it can."""
    other = next((item for item in used if {*item.decides} & {*technique.decides}), None)
    return "" if other is None else f"{other.label} is in use"


def _option(technique: Technique, seen: Steady, traffic: Traffic, metric: str) -> Option:
    given: Scenario = technique.given(seen.case)
    before = seen if given is seen.case else steady_state(given, time=seen.time)
    return Option(technique, before, steady_state(technique.after(given), time=seen.time), traffic, metric)
