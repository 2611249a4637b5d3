"""Advice: the answer to "prefill or decode first?" for a deployment and its traffic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput, number, unknown
from ..phases.deployment import Deployment
from ..phases.passes import TIMES
from ..phases.workload import Workload
from ..report import Report, Step, plain
from ..serving.request import Service
from ..serving.slo import SLO
from ..serving.traffic import Traffic
from ..techniques.table import TECHNIQUES
from ..techniques.technique import Technique
from .options import LEAST_GAIN, Option, mean_of, options_of
from .targets import METRICS, Line, governed, held, service
from .verdict import Flip, PhaseMap, flips, phase_map, verdict_of

LOADS = (1, 8, 64)
"""Batches that stand for low, medium and high load."""


@dataclass(frozen=True, eq=False, repr=False)
class Advice(Report):
    """What to do first, and why.

    Attributes
    ----------
    serve, traffic, batches : what was asked
    metric : what gains are measured on
    time : which of the three times the figures are
    seen : what requests see, loads down, buckets across
    lines : the promises, the one that breaks first before the others
    options : techniques ranked by gain on the metric, those that take more accelerators last
    had : techniques that are there already
    refused : technique -> why it can't be had
    flips : where the verdict changes, for the mean request at the middle load
    usd_per_hour : price of one accelerator, if given
    """

    serve: Deployment
    traffic: Traffic
    batches: tuple[int, ...]
    metric: str
    time: str
    seen: Service
    lines: tuple[Line, ...]
    options: tuple[Option, ...]
    had: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]
    flips: tuple[Flip, ...]
    usd_per_hour: float | None = None

    columns = ("verdict", "prefill_share", "first", "metric", "gain", "breaks_first")

    @property
    def _shape(self) -> tuple[int, int]:
        return len(self.batches), len(self.traffic.share)

    @property
    def bucket_shares(self) -> npt.NDArray[np.float64]:
        """Share of prefill in the accelerator's time, ``[loads, buckets]``."""
        return np.broadcast_to(np.asarray(self.seen.prefill_share), self._shape)

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
        weights = self.traffic.share
        return (
            np.broadcast_to(np.asarray(self.seen.prompt_s), self._shape) * weights,
            np.broadcast_to(np.asarray(self.seen.busy_s), self._shape) * weights,
        )

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
        """The promise that breaks first, or that none does."""
        if not self.lines:
            return "no promise given"
        first = self.lines[0]
        return first.metric if np.isfinite(first.breaks_at_batch) else "none"

    @property
    def reason(self) -> str:
        """The library's own reasoning, beside the rule of thumb."""
        return " ".join(reasons(self))

    @cached_property
    def governs(self) -> dict[str, npt.NDArray[np.float64]]:
        """Share of prefill in every user metric, mean over the traffic, at each load."""
        parts = governed(self.seen)
        return {
            name: np.sum(np.broadcast_to(part, self._shape) * self.traffic.share, axis=-1)
            for name, part in parts.items()
        }

    @cached_property
    def phase_map(self) -> PhaseMap:
        """Which phase takes the time over prompt and output lengths, at the middle load."""
        return phase_map(self.serve, batch=middle(self.batches), traffic=self.traffic, time=self.time)

    def mean(self, metric: str) -> npt.NDArray[np.float64]:
        """A metric as it is, mean over the traffic, at each load."""
        return mean_of(metric, self.seen, self.traffic)

    @property
    def usd_per_million_tokens(self) -> npt.NDArray[np.float64] | None:
        """Cost of a million generated tokens at each load; None without a price."""
        if self.usd_per_hour is None:
            return None
        usd_per_s = self.usd_per_hour * np.asarray(self.serve.parallel.accelerators, dtype=float) / 3600
        return np.asarray(1e6 * usd_per_s / self.mean("tokens_per_s"))

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """What the figures rest on."""
        fits = float(np.min(np.asarray(self.seen.performance.max_batch)))
        notes = ["a request joins a running batch at once: no queue"]
        notes += [f"{self.time}; batches of {', '.join(map(str, self.batches))} stand for low to high load"]
        if fits < max(self.batches):
            notes.append(f"memory holds {fits:,.0f} of the longest sequences, not a batch of {max(self.batches)}")
        return (*notes, *self.traffic.assumptions, *self.seen.performance.assumptions)

    def explain(self) -> tuple[Step, ...]:
        """The share of prefill at each load, and over all."""
        prompts, busy = self._times()
        steps = [
            Step(
                f"batch_{batch}.prefill_share",
                "prompts_s / busy_s",
                {"prompts_s": float(prompts[at].sum()), "busy_s": float(busy[at].sum())},
                float(self.load_shares[at]),
                "time that a mean request takes of the accelerators",
            )
            for at, batch in enumerate(self.batches)
        ]
        both = {"prompts_s": float(prompts.sum()), "busy_s": float(busy.sum())}
        return (*steps, Step("prefill_share", "prompts_s / busy_s", both, self.prefill_share, "all loads"))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON types."""
        found = super().to_dict() | {
            "reason": self.reason,
            "batches": list(self.batches),
            "load_shares": self.load_shares,
            "load_verdicts": self.load_verdicts,
            "buckets": [
                {"prompt_tokens": p, "output_tokens": o, "share": s, "prefill_shares": self.bucket_shares[:, at]}
                for at, (p, o, s) in enumerate(self._buckets())
            ],
            "governs": self.governs,
            "means": {name: self.mean(name) for name in METRICS},
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
        import pandas as pd

        return pd.DataFrame(self.rows)

    @property
    def text(self) -> str:
        """All of it as a manager reads it."""
        from .words import text_of

        return text_of(self)

    def summary(self) -> str:
        """The verdict, and the technique that gains the most, in a sentence or two."""
        from .words import summary_of

        return summary_of(self)

    def __repr__(self) -> str:
        return self.text


def middle(batches: tuple[int, ...]) -> int:
    """The medium load."""
    return sorted(batches)[len(batches) // 2]


def reasons(advice: Advice) -> tuple[str, ...]:
    """Why, in sentences; see `roofline.advisor.words`."""
    from .words import reasons_of

    return reasons_of(advice)


def advise(
    serve: Deployment,
    traffic: Traffic | Iterable[tuple[float, ...]],
    slo: SLO | None = None,
    *,
    batches: tuple[int, ...] = LOADS,
    metric: str | None = None,
    techniques: Iterable[Technique] = TECHNIQUES,
    usd_per_hour: float | None = None,
    time: str = "roofline_s",
) -> Advice:
    """Which phase to work on first, and with what.

    Requests come and go one by one (`roofline.serving.request`).  The rule of thumb looks at the accelerator's time:
    prefill first from 60 % on, decode first from 70 % on, else both are profiled.  Beside it stands what the promises
    say: the first one to break names the metric, and techniques are ranked by their gain on it.

    Parameters
    ----------
    traffic : requests by length; a list of ``(prompt tokens, output tokens, share)`` will do
    slo : promises; none if None
    batches : low, medium and high load
    metric : ``ttft_s``, ``tpot_s``, ``total_s``, ``gap_s`` or ``tokens_per_s``; if None, that of the promise that
        breaks first, and ``total_s`` without promises
    techniques : which are considered
    usd_per_hour : price of one accelerator, for the cost of a token
    time : ``floor_s``, ``roofline_s`` or ``estimate_s``

    Raises
    ------
    InvalidInput
        No batch, or one that is not a whole number >= 1.
    UnknownName
        No such metric or time.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm"))
    >>> rl.advise(serve, rl.Traffic.of([(150, 400)])).verdict
    'decode'
    """
    if not tuple(batches):
        raise InvalidInput("batches must hold at least one load: it is empty")
    loads = tuple(int(np.asarray(number("batches", batch, least=1, whole=True))) for batch in batches)
    if metric is not None and metric not in METRICS:
        raise unknown("metric", metric, METRICS)
    if time not in TIMES:
        raise unknown("time", time, TIMES)
    if usd_per_hour is not None:
        number("usd_per_hour", usd_per_hour)
    mix = traffic if isinstance(traffic, Traffic) else Traffic.of(traffic)
    lines = held(serve, mix, slo or SLO(), loads, time)
    chosen = metric or (lines[0].metric if lines else "total_s")
    seen = service(serve, mix, loads, time)
    load = seen.performance.case.load
    options, had, refused = options_of(serve, load, mix, techniques, metric=chosen, time=time)
    mean = Workload(round(mix.mean_prompt_tokens), round(mix.mean_output_tokens), middle(loads))
    turns = flips(serve, mean, time)
    return Advice(serve, mix, loads, chosen, time, seen, lines, options, had, refused, turns, usd_per_hour)
