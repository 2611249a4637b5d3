"""Service-level objectives: the latency and throughput that a deployment has to meet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..arrays import FrozenMapping
from ..errors import of_kind, one_number, unknown
from ..values import Value

STATISTICS: Mapping[str, float] = FrozenMapping({"mean": 1.0, "p50": 0.5, "p95": 0.95, "p99": 0.99})
"""Statistic over requests -> the share of requests that has to meet a target; 1 for the mean."""

HIGH_END = "estimate_high_s"
"""Upper end of the estimate's interval, which cautious plans compare with the targets."""

TARGETS = ("ttft_s", "tpot_s", "total_s", "gap_s", "tokens_per_s")


@dataclass(frozen=True, eq=False)
class SLO(Value):
    """Latency and throughput targets of a service; None means no target.

    Attributes
    ----------
    ttft_s : float
        Longest time to first token.
    tpot_s : float
        Longest time per output token after the first.
    total_s : float
        Longest time from the request to its last token.
    gap_s : float
        Longest gap between two tokens of a request.
    tokens_per_s : float
        Smallest throughput of the whole deployment, in output tokens per second.
    statistic : str
        Statistic over requests that is compared with the latency targets if requests queue: ``mean``, ``p50``, ``p95``
        or ``p99``.

    Raises
    ------
    InvalidInput
        A target is not a single finite number above 0.
    UnknownName
        There is no such statistic.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None
    total_s: float | None = None
    gap_s: float | None = None
    tokens_per_s: float | None = None
    statistic: str = "p95"

    def __post_init__(self) -> None:
        if self.statistic not in STATISTICS:
            raise unknown("statistic", self.statistic, STATISTICS)
        for name, target in self.targets():
            one_number(name, target, least=1e-12)  # a target of 0 could never be met and would lead to a division by 0

    def targets(self) -> tuple[tuple[str, float], ...]:
        """Metric and target of every objective that is set."""
        pairs = ((name, getattr(self, name)) for name in TARGETS)
        return tuple((name, target) for name, target in pairs if target is not None)

    @property
    def share(self) -> float:
        """Share of the requests that has to meet a latency target; 1 for a mean."""
        return STATISTICS[self.statistic]

    @property
    def latencies(self) -> tuple[tuple[str, float], ...]:
        """The latency targets, without throughput."""
        return tuple((name, target) for name, target in self.targets() if name != "tokens_per_s")


def as_slo(slo: SLO | None) -> SLO:
    """Return an SLO; None becomes one without targets.

    Raises
    ------
    InvalidInput
        The value is neither an SLO nor None, for example a dict.
    """
    if slo is None:
        return SLO()
    of_kind("slo", slo, SLO, "SLO(ttft_s=1.0, tpot_s=0.05)")
    return slo
