"""Service levels: what users were promised."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ..errors import number


@dataclass(frozen=True)
class SLO:
    """Service levels; None is no promise.

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
        Lowest throughput of the whole deployment, output tokens per second.

    Raises
    ------
    InvalidInput
        A level that is not a finite number above 0.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None
    total_s: float | None = None
    gap_s: float | None = None
    tokens_per_s: float | None = None

    def __post_init__(self) -> None:
        for name, level in self.lines():
            number(name, level, least=1e-12)

    def lines(self) -> tuple[tuple[str, float], ...]:
        """Metric and level of every promise made."""
        pairs = ((item.name, getattr(self, item.name)) for item in fields(self))
        return tuple((name, level) for name, level in pairs if level is not None)
