"""Service-level objectives: the latency and throughput that a deployment has to meet."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ..errors import number


@dataclass(frozen=True)
class SLO:
    """Targets of a service; None is no target.

    Attributes
    ----------
    ttft_s, tpot_s, total_s, gap_s : float, optional
        The longest that each may be, seconds.
    tokens_per_s : float, optional
        The least throughput of the whole deployment, output tokens/s.

    Raises
    ------
    InvalidInput
        A target that is not a finite number above 0.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None
    total_s: float | None = None
    gap_s: float | None = None
    tokens_per_s: float | None = None

    def __post_init__(self) -> None:
        for name, target in self.targets():
            number(name, target, least=1e-12)  # a target of 0 could never be met, and would be divided by

    def targets(self) -> tuple[tuple[str, float], ...]:
        """Metric and target of every objective that is set."""
        pairs = ((item.name, getattr(self, item.name)) for item in fields(self))
        return tuple((name, target) for name, target in pairs if target is not None)
