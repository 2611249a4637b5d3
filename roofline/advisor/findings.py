"""Findings: what takes the time of a deployment and its traffic, and what each technique would change."""

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
    """What is found about a deployment and its traffic: what takes the time, and what would change it.

    Attributes
    ----------
    serve : Deployment
        What runs where.
    traffic : Traffic
        Requests by length.
    batches : tuple of int
        Requests in the system at low, medium and high load.
    metric : str
        What gains are measured on.
    time : str
        Which of the three times the figures are.
    seen : Steady
        What requests see, loads down, buckets across.
    lines : tuple of Line
        The SLO targets, the first to be missed before the others.
    options : tuple of Option
        Techniques ranked by gain on the metric, those that take more accelerators last.
    had : tuple of str
        Techniques that are in use already.
    refused : tuple of (str, str)
        Techniques that the deployment cannot have, and why.
    flips : tuple of Flip
        Where the verdict changes, for the mean request at the middle load.
    usd_per_hour : float, optional
        Price of one accelerator.
    techniques : tuple of Technique
        What is in use.
    start : str
        Why the deployment is another one than asked for; empty if it is that.
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
        """Share of prefill in the accelerator's time, ``[loads, buckets]``."""
        return np.broadcast_to(np.asarray(self.seen.prefill_share), loads_and_buckets(self.seen))

    @property
    def load_shares(self) -> npt.NDArray[np.float64]:
        """The same over all buckets, each by the time that it takes, ``[loads]``."""
        prompts, busy = self._times()
        return np.asarray(prompts.sum(axis=-1) / busy.sum(axis=-1))

    @property
    def prefill_share(self) -> float:
        """The same over all loads, as many requests at each."""
        prompts, busy = self._times()
        return float(prompts.sum() / busy.sum())

    def _times(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Time that a mean request takes of the accelerators, of its prompt and in all, ``[loads, buckets]``."""
        busy_s = np.broadcast_to(np.asarray(self.seen.busy_s), loads_and_buckets(self.seen)) * self.traffic.share
        return busy_s * self.bucket_shares, busy_s

    @property
    def verdict(self) -> str:
        """The rule's word: ``prefill``, ``decode`` or ``both``."""
        return str(verdict_of(self.prefill_share))

    @property
    def load_verdicts(self) -> tuple[str, ...]:
        """The rule's word at each load."""
        return tuple(str(word) for word in verdict_of(self.load_shares))

    @property
    def first(self) -> str:
        """The technique that gains the most."""
        best = self._gaining()
        return best[0].name if best else "nothing"

    @property
    def gain(self) -> float:
        """What it gains."""
        return max(self.options[0].gain, 1.0) if self.options else 1.0

    def _gaining(self) -> tuple[Option, ...]:
        return tuple(option for option in self.options if option.gain >= LEAST_GAIN)

    @property
    def breaks_first(self) -> str:
        """The SLO target that is missed first, or that none is."""
        if not self.lines:
            return "no SLO target given"
        first = self.lines[0]
        return first.metric if np.isfinite(first.breaks_at_batch) else "none"

    @cached_property
    def governs(self) -> dict[str, npt.NDArray[np.float64]]:
        """Share of prefill in every user metric, mean over the traffic, at each load."""
        parts = governed(self.seen)
        return {
            name: np.sum(np.broadcast_to(part, loads_and_buckets(self.seen)) * self.traffic.share, axis=-1)
            for name, part in parts.items()
        }

    @cached_property
    def phase_map(self) -> PhaseMap:
        """Which phase takes the time over prompt and output lengths, at the middle load."""
        batch = middle(self.batches)
        return phase_map(self.serve, batch=batch, traffic=self.traffic, techniques=self.techniques, time=self.time)

    def mean(self, metric: str) -> npt.NDArray[np.float64]:
        """A metric as it is, mean over the traffic, at each load."""
        return mean_of(metric, self.seen, self.traffic)

    @property
    def usd_per_million_tokens(self) -> npt.NDArray[np.float64] | None:
        """Cost of a million generated tokens at each load; None without a price."""
        if self.usd_per_hour is None:
            return None
        usd_per_hour = self.usd_per_hour * np.asarray(self.serve.parallel.accelerators, dtype=float)
        return np.asarray(usd_per_million_tokens(usd_per_hour, self.mean("tokens_per_s")))

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """What the figures rest on."""
        fits = float(np.min(np.asarray(self.seen.max_batch)))
        loads = ", ".join(map(str, self.batches))
        notes = [
            *filter(None, [self.start.rstrip(".")]),
            f"{self.time}; batches of {loads} stand for low to high load; queueing is not included",
        ]
        if self.techniques:
            notes.append(f"in use: {', '.join(item.label for item in self.techniques)}")
        if fits < max(self.batches):
            notes.append(f"only {fits:,.0f} of the longest sequences fit at once, not a batch of {max(self.batches)}")
        return (*notes, *self.traffic.assumptions, *self.seen.assumptions)

    def _derivation(self) -> tuple[Step, ...]:
        """The share of prefill at each load, and over all."""
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
        """Everything as plain JSON types."""
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
        """The ranking, one mapping a technique."""
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
        """The ranking, one row a technique."""
        require("pandas", "frame", "a table")
        import pandas as pd

        return pd.DataFrame(self.rows)


def middle(batches: tuple[int, ...]) -> int:
    """The medium load."""
    return sorted(batches)[len(batches) // 2]
