"""`Headroom`: a measured run compared with floor, roofline and estimate, one row per phase."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidInput
from ..phases.deployment import Deployment
from ..report import Report, Step
from ..report.tables import Line
from ..units import humanize
from .measurement import Measurement
from .work_bounds import WorkBounds


@dataclass(frozen=True, eq=False, repr=False)
class PhaseHeadroom(Report):
    """One measured time compared with the bounds of its work.

    Attributes
    ----------
    name : str
        ``prefill``, ``decode`` (a step), ``generation`` (a batch end to end) or ``run`` (the share of a run per
        request).
    measured_s : float
        The measured time.
    bounds : WorkBounds
        What the deployment can do.
    basis : str
        The values of the file that the time is from, and the work that it is compared with.
    reasons : tuple of str
        Possible reasons if the time beats its floor, most likely first.
    """

    name: str
    measured_s: float
    bounds: WorkBounds
    basis: str
    reasons: tuple[str, ...] = ()

    columns = (
        "name",
        "measured_s",
        "floor_s",
        "roofline_s",
        "estimate_s",
        "share_of_floor",
        "share_of_roofline",
        "share_of_estimate",
        "mfu",
        "mbu",
        "limit",
        "to_win_s",
        "largest_gap",
    )

    @property
    def floor_s(self) -> float:
        """Shortest possible time."""
        return self.bounds.floor_s

    @property
    def roofline_s(self) -> float:
        """Operators one after another at data-sheet peaks."""
        return self.bounds.roofline_s

    @property
    def estimate_s(self) -> float:
        """Expected time."""
        return self.bounds.estimate_s

    @property
    def share_of_floor(self) -> float:
        """Floor divided by measured time; 1 is the best possible, and above 1 something is wrong."""
        return self.floor_s / self.measured_s

    @property
    def share_of_roofline(self) -> float:
        """Roofline divided by measured time."""
        return self.roofline_s / self.measured_s

    @property
    def share_of_estimate(self) -> float:
        """Estimate divided by measured time; good kernels reach 1."""
        return self.estimate_s / self.measured_s

    @property
    def mfu(self) -> float:
        """Model FLOPs utilization: FLOPs of the work divided by the FLOPs possible at dense peaks in the measured
        time.
        """
        return self.bounds.flops / (self.bounds.peak_flops_per_s * self.measured_s)

    @property
    def mbu(self) -> float:
        """Model bandwidth utilization: bytes moved divided by the bytes possible at full bandwidth in the measured
        time.
        """
        return self.bounds.moved_bytes / (self.bounds.peak_bytes_per_s * self.measured_s)

    @property
    def intensity_flops_per_byte(self) -> float:
        """Arithmetic intensity of the work, the x coordinate on a roofline plot."""
        return self.bounds.flops / self.bounds.moved_bytes

    @property
    def attained_flops_per_s(self) -> float:
        """FLOPs of the work divided by the measured time, over all accelerators; the y coordinate on a roofline
        plot.
        """
        return self.bounds.flops / self.measured_s

    @property
    def limit(self) -> str:
        """What limits the work: ``memory``, ``compute`` or ``network``."""
        return self.bounds.limit

    @property
    def beats_floor(self) -> bool:
        """Whether the time is shorter than the floor."""
        return self.measured_s < self.floor_s

    @property
    def to_win_s(self) -> float:
        """Time above the floor; negative where the floor is beaten."""
        return self.measured_s - self.floor_s

    @property
    def gaps_s(self) -> dict[str, float]:
        """What the time above the floor consists of.

        ``overlap``: operators run one after another and write intermediate results to memory; ``kernels``: kernels stay
        below their peaks; ``engine``: scheduling, host, stalls and queueing, which are in none of the three times.
        """
        roofline_s = max(self.roofline_s, self.floor_s)
        return {
            "overlap": max(min(roofline_s, self.measured_s) - self.floor_s, 0.0),
            "kernels": max(min(self.estimate_s, self.measured_s) - roofline_s, 0.0),
            "engine": max(self.measured_s - max(self.estimate_s, roofline_s), 0.0),
        }

    @property
    def largest_gap(self) -> str:
        """The largest part of the time above the floor; ``none`` if there is none."""
        gaps = self.gaps_s
        largest = max(gaps, key=lambda name: gaps[name])
        return largest if gaps[largest] > 0 else "none"

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """What is compared, and the reasons if the floor is beaten."""
        return (self.basis, *self.reasons)

    @property
    def sentence(self) -> str:
        """The answer in a sentence, compared with the floor."""
        return self.sentence_against("floor_s")

    def share_of(self, time: str) -> float:
        """One of the three times divided by the measured time."""
        share: float = getattr(self, time) / self.measured_s
        return share

    def sentence_against(self, time: str) -> str:
        """The answer in a sentence, compared with one of the three times.

        Parameters
        ----------
        time : {"floor_s", "roofline_s", "estimate_s"}
            The time that the measured one is compared with.
        """
        measured, floor = (humanize("s", value) for value in (self.measured_s, self.floor_s))
        if self.beats_floor:
            return f"{self.name}: {measured} beats its floor of {floor} by {1 - self.measured_s / self.floor_s:.0%}"
        if time != "floor_s":
            other, name = getattr(self, time), time.removesuffix("_s")
            return f"{self.name}: {measured}, {self.measured_s / other:.2f} times the {name} of {humanize('s', other)}"
        return (
            f"{self.name}: {measured}, {self.share_of_floor:.0%} of what {self.limit} allows ({floor}); at most "
            f"{self.measured_s / self.floor_s:.2f}x faster is possible, mostly from {_GAPS[self.largest_gap]}"
        )

    def _derivation(self) -> tuple[Step, ...]:
        """Shares and utilizations from the measured time and the bounds."""
        bounds, measured = self.bounds, self.measured_s
        source = self.basis
        flops = {"flops": bounds.flops, "peak_flops_per_s": bounds.peak_flops_per_s, "measured_s": measured}
        moved = {"moved_bytes": bounds.moved_bytes, "peak_bytes_per_s": bounds.peak_bytes_per_s, "measured_s": measured}
        shares = [
            Step(
                f"{self.name}.share_of_{kind}",
                f"{kind}_s / measured_s",
                {f"{kind}_s": value, "measured_s": measured},
                value / measured,
                source,
            )
            for kind, value in (("floor", self.floor_s), ("roofline", self.roofline_s), ("estimate", self.estimate_s))
        ]
        return (
            *shares,
            Step(f"{self.name}.mfu", "flops / (peak_flops_per_s * measured_s)", flops, self.mfu, "dense peaks"),
            Step(f"{self.name}.mbu", "moved_bytes / (peak_bytes_per_s * measured_s)", moved, self.mbu, "data sheet"),
        )


_GAPS = {
    "overlap": "overlap and intermediate results that stay on the chip",
    "kernels": "kernels closer to their peaks",
    "engine": "the engine: scheduling, host, stalls or queueing",
    "none": "nothing",
}


@dataclass(frozen=True, eq=False, repr=False)
class Headroom(Report):
    """A measured run compared with its deployment, one row per phase.

    Attributes
    ----------
    measurement : Measurement
        The run.
    deployment : Deployment
        What ran where, as given by the caller.
    phases : tuple of PhaseHeadroom
        Prefill, decode, a whole generation or the share per request, as far as the file contains their times.
    notes : tuple of str
        Basis of the comparison, and contradictions between file and deployment.
    """

    measurement: Measurement
    deployment: Deployment
    phases: tuple[PhaseHeadroom, ...]
    notes: tuple[str, ...] = ()

    columns = PhaseHeadroom.columns

    def __getattr__(self, name: str) -> Any:
        """A column over the phases, as an array."""
        if name in PhaseHeadroom.columns:
            return np.array([getattr(phase, name) for phase in self.phases])
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def phase(self, name: str) -> PhaseHeadroom:
        """Return the row named ``name``.

        Raises
        ------
        InvalidInput
            The file has no time of it.
        """
        for item in self.phases:
            if item.name == name:
                return item
        known = ", ".join(item.name for item in self.phases)
        raise InvalidInput(f"{self.measurement.source} has no {name!r}; it has {known}")

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """What is compared, reasons why a floor is beaten, and corrections and warnings about the file."""
        each = [f"{item.name}: {words}" for item in self.phases for words in item.assumptions]
        return (*each, *self.notes, *self.measurement.assumptions)

    def summary(self) -> str:
        """The answer, one sentence per phase."""
        return "\n".join(item.sentence for item in self.phases)

    def to_dict(self) -> dict[str, Any]:
        """The run and its rows as plain JSON types."""
        rows = [item.to_dict() | {"basis": item.basis, "reasons": list(item.reasons)} for item in self.phases]
        return {
            "tool": self.measurement.tool,
            "source": self.measurement.source,
            "phases": rows,
            "assumptions": list(self.assumptions),
        }

    def _derivation(self) -> tuple[Step, ...]:
        """The derivation of the run's values, then that of each row."""
        return (*self.measurement.explain(), *(step for item in self.phases for step in item.explain()))

    def __repr__(self) -> str:
        return "\n  ".join((self.heading, *self.summary().splitlines(), *self._notes()))

    @property
    def heading(self) -> str:
        """The name of the run."""
        return f"Headroom of {self.measurement.source} ({self.measurement.tool})"

    def _head(self) -> Line:
        return self.columns

    def _lines(self) -> Iterable[Line]:
        return [[humanize(name, getattr(item, name)) for name in self.columns] for item in self.phases]
