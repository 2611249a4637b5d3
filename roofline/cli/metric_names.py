"""Metrics and SLO targets as people type them."""

from __future__ import annotations

from typing import Any

from ..errors import InvalidInput, unknown
from .quantities import listed, quantity

METRIC_NAMES = {
    "ttft": "ttft_s",
    "tpot": "tpot_s",
    "itl": "tpot_s",
    "total": "total_s",
    "e2e": "total_s",
    "end-to-end": "total_s",
    "latency": "total_s",
    "gap": "gap_s",
    "throughput": "tokens_per_s",
    "step": "step_s",
}
"""Common names of metrics -> the column."""

SLO_METRICS = ("ttft", "tpot", "total", "gap", "throughput")
"""Metrics that an SLO can have, as they are typed."""


def metric_name(text: str) -> str:
    """A column with its unit: ``ttft`` is ``ttft_s``, ``throughput`` is ``tokens_per_s``."""
    return METRIC_NAMES.get(text.strip().lower().replace(" ", "-").replace("_", "-"), text)


def slo_metric(text: str) -> str:
    """The column of a metric that an SLO can have.

    Raises
    ------
    UnknownName
        There is no such metric.
    """
    found = metric_name(text)
    if found not in [METRIC_NAMES[name] for name in SLO_METRICS]:
        raise unknown("metric", text, SLO_METRICS)
    return found


def slo_targets(text: str) -> dict[str, Any]:
    """Targets in one list, as in ``ttft=500ms,tpot=20ms``: column -> target in base units.

    Raises
    ------
    InvalidInput
        An entry has no target, or a metric is given twice.
    UnknownName
        There is no such metric.

    Examples
    --------
    >>> slo_targets("ttft=500ms,tpot=20ms")
    {'ttft_s': 0.5, 'tpot_s': 0.02}
    """
    found: dict[str, Any] = {}
    for entry in listed(text):
        name, given, target = (part.strip() for part in entry.partition("="))
        if not given or not target:
            raise InvalidInput(f"expected METRIC=TARGET, such as ttft=500ms,tpot=20ms: {text!r}")
        column = slo_metric(name)
        if column in found:
            raise InvalidInput(f"two targets for {name}: {text!r}")
        found[column] = quantity(target, "s" if column.endswith("_s") and column != "tokens_per_s" else "count")
    return found
