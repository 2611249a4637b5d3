"""Findings: where the time of a deployment goes, and what each technique would change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import require
from ..phases.deployment import Deployment
from ..report import Report, Step, plain
from ..serving.metrics import SLO_METRICS
from ..serving.steady_state import Steady
from ..serving.traffic import Traffic
from ..specs.prices import usd_per_million_tokens
from ..techniques.technique import Technique
from .ranked_techniques import LEAST_GAIN, Option, mean_of
from .targets import TargetLine, governed, loads_and_buckets
from .verdict import Flip, PhaseMap, phase_map, verdict_of


@dataclass(frozen=True, eq=False, repr=False)
class Findings(Report):
    """Where the time of a deployment goes for a given traffic, and what would change it.

    Attributes
    ----------
    serve : Deployment
        The deployment.
    traffic : Traffic
        Requests by length.
    batches : tuple of int
        Requests in the system at low, medium and high load.
    metric : str
        Metric by which gains are measured.
    time : str
        Which of the three times is used.
    seen : Steady
        Steady state of requests, ``[loads, buckets]``.
    lines : tuple of Line
        SLO targets, the first to be missed at the top.
    options : tuple of Option
        Techniques by decreasing gain on the metric; those that need more accelerators come last.
    had : tuple of str
        Techniques already in use.
    refused : tuple of (str, str)
        Techniques that the deployment cannot use, and why.
    flips : tuple of Flip
        Where the verdict changes, for the mean request at the middle load.
    usd_per_hour : float, optional
        Price of one accelerator per hour.
    techniques : tuple of Technique
        Techniques in use.
    start : str
        Why another deployment than the requested one is used; empty if it is the same.
    """

    serve: Deployment
    traffic: Traffic
    batches: tuple[int, ...]
    metric: str
    time: str
    seen: Steady
    lines: tuple[TargetLine, ...]
    options: tuple[Option, ...]
    had: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]
    flips: tuple[Flip, ...]
    usd_per_hour: float | None = None
    techniques: tuple[Technique, ...] = ()
    start: str = ""

    columns = ("verdict", "prefill_share", "first", "metric", "gain", "breaks_first")

    @property
    def bucket_shares(self) -> npt.NDArray[np.float64]:
        """Share of prefill in accelerator time, ``[loads, buckets]``."""
        return np.broadcast_to(np.asarray(self.seen.prefill_share), loads_and_buckets(self.seen))

    @property
    def load_shares(self) -> npt.NDArray[np.float64]:
        """Share of prefill over all buckets, weighted by time, ``[loads]``."""
        prompts, busy = self._times()
        return np.asarray(prompts.sum(axis=-1) / busy.sum(axis=-1))

    @property
    def prefill_share(self) -> float:
        """Share of prefill over all loads, with the same number of requests at each."""
        prompts, busy = self._times()
        return float(prompts.sum() / busy.sum())

    def _times(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Accelerator time of a mean request, for its prompt and in total, ``[loads, buckets]``."""
        busy_s = np.broadcast_to(np.asarray(self.seen.busy_s), loads_and_buckets(self.seen)) * self.traffic.share
        return busy_s * self.bucket_shares, busy_s

    @property
    def verdict(self) -> str:
        """Verdict of the rule of thumb: ``prefill``, ``decode`` or ``both``."""
        return str(verdict_of(self.prefill_share))

    @property
    def load_verdicts(self) -> tuple[str, ...]:
        """Verdict at each load."""
        return tuple(str(word) for word in verdict_of(self.load_shares))

    @property
    def first(self) -> str:
        """The technique with the largest gain."""
        best = self._gaining()
        return best[0].name if best else "nothing"

    @property
    def gain(self) -> float:
        """Gain of the first technique."""
        return max(self.options[0].gain, 1.0) if self.options else 1.0

    def _gaining(self) -> tuple[Option, ...]:
        return tuple(option for option in self.options if option.gain >= LEAST_GAIN)

    @property
    def breaks_first(self) -> str:
        """The SLO target that is missed first, or a statement that all are met."""
        if not self.lines:
            return "no SLO target given"
        first = self.lines[0]
        return first.metric if np.isfinite(first.breaks_at_batch) else "none"

    @cached_property
    def governs(self) -> dict[str, npt.NDArray[np.float64]]:
        """Share of prefill in every metric, averaged over the traffic, at each load."""
        parts = governed(self.seen)
        return {
            name: np.sum(np.broadcast_to(part, loads_and_buckets(self.seen)) * self.traffic.share, axis=-1)
            for name, part in parts.items()
        }

    @cached_property
    def phase_map(self) -> PhaseMap:
        """Share of prefill over prompt and output lengths, at medium load."""
        batch = middle(self.batches)
        return phase_map(self.serve, batch=batch, traffic=self.traffic, techniques=self.techniques, time=self.time)

    def mean(self, metric: str) -> npt.NDArray[np.float64]:
        """Current value of a metric, averaged over the traffic, at each load."""
        return mean_of(metric, self.seen, self.traffic)

    @property
    def usd_per_million_tokens(self) -> npt.NDArray[np.float64] | None:
        """Cost per million generated tokens at each load; None without a price."""
        if self.usd_per_hour is None:
            return None
        usd_per_hour = self.usd_per_hour * np.asarray(self.serve.parallel.accelerators, dtype=float)
        return np.asarray(usd_per_million_tokens(usd_per_hour, self.mean("tokens_per_s")))

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """Assumptions behind the values."""
        fits = float(np.min(np.asarray(self.seen.max_batch)))
        loads = ", ".join(map(str, self.batches))
        notes = [
            *filter(None, [self.start.rstrip(".")]),
            f"time: {self.time.removesuffix('_s')}; batches of {loads} represent low to high load, without queueing",
        ]
        if self.techniques:
            notes.append(f"in use: {', '.join(item.label for item in self.techniques)}")
        if fits < max(self.batches):
            notes.append(f"only {fits:,.0f} of the longest sequences fit at once, not a batch of {max(self.batches)}")
        return (*notes, *self.traffic.assumptions, *self.seen.assumptions)

    def _derivation(self) -> tuple[Step, ...]:
        """Derivation of the share of prefill at each load and overall."""
        prompts, busy = self._times()
        steps = [
            Step(
                f"batch_{batch}.prefill_share",
                "prompts_s / busy_s",
                {"prompts_s": float(prompts[at].sum()), "busy_s": float(busy[at].sum())},
                float(self.load_shares[at]),
                "accelerator time of a mean request",
            )
            for at, batch in enumerate(self.batches)
        ]
        both = {"prompts_s": float(prompts.sum()), "busy_s": float(busy.sum())}
        return (*steps, Step("prefill_share", "prompts_s / busy_s", both, self.prefill_share, "all loads"))

    def to_dict(self) -> dict[str, Any]:
        """All findings as plain JSON types."""
        found = super().to_dict() | {
            "batches": list(self.batches),
            "load_shares": self.load_shares,
            "load_verdicts": self.load_verdicts,
            "buckets": [
                {"prompt_tokens": p, "output_tokens": o, "share": s, "prefill_shares": self.bucket_shares[:, at]}
                for at, (p, o, s) in enumerate(self._buckets())
            ],
            "governs": self.governs,
            "means": {name: self.mean(name) for name in SLO_METRICS},
            "usd_per_million_tokens": self.usd_per_million_tokens,
            "lines": [vars(line) for line in self.lines],
            "options": self.rows,
            "had": self.had,
            "refused": dict(self.refused),
            "flips": [vars(flip) for flip in self.flips],
            "assumptions": self.assumptions,
        }
        return {name: plain(value) for name, value in found.items()}

    def _buckets(self) -> Iterable[tuple[float, float, float]]:
        return zip(self.traffic.prompt_tokens, self.traffic.output_tokens, self.traffic.share, strict=True)

    @property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """The ranking, one dict per technique."""
        return tuple(
            {
                "technique": option.name,
                "gain": option.gain,
                "prefill_gain": option.prefill_gain,
                "decode_gain": option.decode_gain,
                "memory_freed_bytes": option.memory_freed_bytes,
                "batch_gain": option.batch_gain,
                "effort": option.technique.effort,
                "costs": option.technique.costs,
            }
            for option in self.options
        )

    def to_frame(self) -> Any:
        """The ranking as a table, one row per technique."""
        require("pandas", "frame", "a table")
        import pandas as pd

        return pd.DataFrame(self.rows)


def middle(batches: tuple[int, ...]) -> int:
    """The medium load."""
    return sorted(batches)[len(batches) // 2]
