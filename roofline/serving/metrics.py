"""Metrics of a deployment in steady state, used by targets, rankings and comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import FrozenMapping, scalar
from ..errors import Number, unknown
from .steady_state import Steady


@dataclass(frozen=True)
class Metric:
    """A metric of a deployment in steady state.

    Attributes
    ----------
    name : str
        Column of the metric; its suffix is the unit.
    unit : str
        Base unit.
    of : str
        What the metric describes: a ``request``, a ``step`` or the ``deployment``.
    words : str
        Description of the metric.
    short : str
        Short name for table headings.
    more_is_better : bool
        Whether a larger value is better.
    in_slo : bool
        Whether an SLO can have a target for it.
    attribute : str
        Dotted attribute path on `Steady`; ``name`` by default.
    """

    name: str
    unit: str
    of: str
    words: str
    short: str
    more_is_better: bool = False
    in_slo: bool = False
    attribute: str = ""

    def value(self, found: Steady) -> Number:
        """Return the value of the metric for a steady state."""
        value: Any = found
        for name in (self.attribute or self.name).split("."):
            value = value[name] if isinstance(value, Mapping) else getattr(value, name)
        return scalar(value)

    def strain(self, value: Number, target: Number) -> Number:
        """Return the ratio of value to target, inverted if more is better; above 1 misses the target.

        Examples
        --------
        >>> METRICS["ttft_s"].strain(0.3, 0.5), METRICS["tokens_per_s"].strain(2000, 500)
        (0.6, 0.25)
        """
        return scalar(np.divide(target, value) if self.more_is_better else np.divide(value, target))

    def gain(self, before: Number, after: Number) -> Number:
        """Return how many times better ``after`` is; below 1 it is worse.

        Examples
        --------
        >>> METRICS["ttft_s"].gain(0.4, 0.2), METRICS["tokens_per_s"].gain(1000, 1500)
        (2.0, 1.5)
        """
        return scalar(np.divide(after, before) if self.more_is_better else np.divide(before, after))


_ALL = (
    Metric("ttft_s", "s", "request", "time to first token", "TTFT", in_slo=True),
    Metric("tpot_s", "s", "request", "time per output token", "TPOT", in_slo=True),
    Metric("total_s", "s", "request", "end-to-end latency", "E2E", in_slo=True),
    Metric("gap_s", "s", "request", "longest gap between tokens", "gap", in_slo=True),
    Metric("tokens_per_s", "tokens/s", "deployment", "throughput", "tokens/s", more_is_better=True, in_slo=True),
    Metric("requests_per_s", "1/s", "deployment", "request throughput", "requests/s", more_is_better=True),
    Metric("prompt_s", "s", "request", "prefill of a prompt by itself", "prompt"),
    Metric("step_s", "s", "step", "decode step", "step"),
    Metric(
        "intensity_flops_per_byte",
        "FLOP/byte",
        "step",
        "arithmetic intensity of a decode step",
        "intensity",
        more_is_better=True,
        attribute="passes.step.phase.intensity_flops_per_byte",
    ),
    Metric("weights_bytes", "B", "deployment", "weights", "weights"),
    Metric("kv_bytes_per_sequence", "B", "request", "KV cache of a sequence", "KV a sequence"),
    Metric(
        "needed_bytes",
        "B",
        "deployment",
        "memory needed on an accelerator",
        "memory",
        attribute="memory.per_accelerator.needed_bytes",
    ),
    Metric("max_batch", "", "deployment", "largest batch", "largest batch", more_is_better=True),
    Metric(
        "capacity_tokens_per_s",
        "tokens/s",
        "deployment",
        "throughput with the largest batch",
        "capacity",
        more_is_better=True,
    ),
)

METRICS: Mapping[str, Metric] = FrozenMapping({metric.name: metric for metric in _ALL})
"""Name -> metric."""

SLO_METRICS: tuple[str, ...] = tuple(metric.name for metric in _ALL if metric.in_slo)
"""Metrics that an SLO can have a target for."""


def metric_named(name: str, among: Mapping[str, Metric] | tuple[str, ...] = METRICS) -> Metric:
    """Return the metric of this name.

    Parameters
    ----------
    name : str
        Column name of the metric.
    among : mapping or tuple of str
        Allowed names; all by default.

    Raises
    ------
    UnknownName
        ``name`` is not among the allowed names.
    """
    if name not in among:
        raise unknown("metric", name, among)
    return METRICS[name]
