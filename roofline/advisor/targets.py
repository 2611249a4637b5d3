"""Targets: what users were promised, and which promise breaks first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..phases.deployment import Deployment
from ..phases.workload import Workload
from ..serving.batch import Performance
from ..serving.request import Service
from ..serving.scenario import Scenario
from ..serving.slo import SLO
from ..serving.traffic import Traffic

Array = npt.NDArray[np.float64]

METRICS = {
    "ttft_s": "time to first token",
    "tpot_s": "time per output token",
    "total_s": "end to end",
    "gap_s": "longest gap between tokens",
    "tokens_per_s": "throughput",
}
"""What users and operators feel; more is better for the last, less for all others."""


@dataclass(frozen=True)
class Line:
    """One promise held against the traffic.

    Attributes
    ----------
    metric, level : what was promised
    strain : by load, the worst bucket's value over the level (the level over it for throughput); above 1 it is broken
    breaks_at_batch : the smallest batch at which it breaks; infinite if it holds up to the largest load
    phase : the phase that governs the metric there
    """

    metric: str
    level: float
    strain: tuple[float, ...]
    breaks_at_batch: float
    phase: str


def service(serve: Deployment, traffic: Traffic, batches: Iterable[float], time: str) -> Service:
    """What requests see: loads down, buckets across."""
    load = Workload(traffic.prompt_tokens, traffic.output_tokens, np.asarray(list(batches), dtype=float)[:, None])
    return Service(Performance(Scenario(serve, load), time))


def held(serve: Deployment, traffic: Traffic, slo: SLO, batches: tuple[int, ...], time: str) -> tuple[Line, ...]:
    """Every promise against the traffic, the one that breaks first before the others."""
    searched = np.unique(np.concatenate([np.round(np.geomspace(1, max(batches), 48)), batches]))
    seen = service(serve, traffic, searched, time)
    asked = np.searchsorted(searched, batches)
    lines = [_line(name, level, seen, traffic, asked) for name, level in slo.lines()]
    return tuple(sorted(lines, key=lambda line: (line.breaks_at_batch, -max(line.strain))))


def _line(name: str, level: float, seen: Service, traffic: Traffic, asked: Any) -> Line:
    """One promise over all loads searched, of which ``asked`` are the ones to report."""
    searched = np.ravel(np.asarray(seen.performance.case.load.batch))
    strain = np.max(_strain(name, np.broadcast_to(getattr(seen, name), _shape(seen)), level), axis=-1)
    broken = strain > 1
    at = int(np.argmax(broken)) if broken.any() else len(searched) - 1
    breaks = float(searched[at]) if broken.any() else float("inf")
    return Line(name, level, tuple(map(float, strain[asked])), breaks, _phase(name, seen, at, traffic))


def _shape(seen: Service) -> tuple[int, ...]:
    load = seen.performance.case.load
    return np.broadcast_shapes(np.shape(load.batch), np.shape(load.prompt_tokens))


def _strain(name: str, value: Array, level: float) -> Array:
    return level / value if name == "tokens_per_s" else value / level


def _phase(name: str, seen: Service, at: int, traffic: Traffic) -> str:
    part = governed(seen)[name]
    mean = float(np.sum(np.broadcast_to(part, _shape(seen))[at] * traffic.share))
    return "prefill" if mean >= 0.5 else "decode"


def governed(seen: Service) -> dict[str, Array]:
    """Share of prefill in every metric: the seconds of it that prompts take, its own or others'.

    The first token waits for the prompt, and for a step in progress; the others for their steps, and for the prompts of
    other sequences; throughput, and with it the cost of a token, for all work of the accelerator.
    """
    whole = seen.performance
    steps = np.maximum(np.asarray(whole.load.output_tokens, dtype=float) - 1, 0)
    decode_s = steps * np.divide(whole.step_s, whole.tokens_per_step)
    total_s = np.asarray(seen.total_s)
    waits_s = np.where(np.asarray(whole.load.batch) > 1, whole.step_s, 0.0)
    stalls = np.where(steps > 0, 1 - decode_s / np.maximum(steps * seen.tpot_s, 1e-30), 0.0)
    return {
        "ttft_s": seen.prompt_s / np.asarray(seen.ttft_s),
        "tpot_s": np.clip(stalls, 0.0, 1.0),
        "total_s": np.clip(1 - (decode_s + waits_s) / total_s, 0.0, 1.0),
        "gap_s": np.clip(seen.prompt_s / np.asarray(seen.gap_s), 0.0, 1.0),
        "tokens_per_s": np.asarray(seen.prefill_share),
    }
