"""Candidates: every layout and batch of one accelerator in one precision, evaluated at once."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..footprint.memory_use import memory
from ..phases.deployment import Deployment
from ..phases.workload import Workload
from ..serving.slo import SLO
from ..serving.steady_state import Steady, steady_state
from ..values import Value

Array = npt.NDArray[Any]

WORDS = {
    "ttft_s": "TTFT",
    "tpot_s": "TPOT",
    "total_s": "end to end",
    "gap_s": "longest gap",
    "tokens_per_s": "tokens/s",
}
"""Service levels as people write them."""

REASONS = ("", "weights", "memory", *WORDS, "search")
"""Why a candidate won't do: weights that don't fit, a batch that doesn't, or the level that it breaks the most.

``search`` stands for the largest batch that was tried."""


@dataclass(frozen=True)
class Candidates(Value):
    """Columns of equal length, one row a layout and batch; see `Plan` for what they mean."""

    accelerator: Array
    precision: Array
    layout: Array
    tensor: Array
    pipeline: Array
    expert: Array
    data: Array
    gpus: Array
    batch: Array
    max_batch: Array
    ttft_s: Array
    tpot_s: Array
    gap_s: Array
    slot_s: Array
    busy_s: Array
    busy_at_floor_s: Array
    headroom: Array
    code: Array
    code_at_floor: Array
    next_code: Array
    limit: Array
    weights_bytes: Array
    available_bytes: Array
    watts: Array
    usd_per_hour: Array

    def take(self, rows: Array) -> Candidates:
        """These rows, in this order."""
        return Candidates(*(getattr(self, item.name)[rows] for item in fields(self)))


def joined(parts: list[Candidates]) -> Candidates:
    """All rows under each other."""
    columns = ([getattr(part, item.name) for part in parts] for item in fields(Candidates))
    return Candidates(*(np.concatenate(column) for column in columns))


def evaluate(serve: Deployment, load: Workload, slo: SLO, usd_per_hour: float, time: str) -> Candidates:
    """All ``[L, B]`` candidates: layouts ``[L, 1]`` of the deployment, batches ``[B]`` of the load."""
    steady = steady_state(serve, load, time=time)
    need = memory(serve, replace(load, batch=1))
    floor = steady.at("floor_s")
    code, headroom = _judge(steady, slo, need.max_batch)
    at_floor, _ = _judge(floor, slo, need.max_batch)
    shape = np.broadcast_shapes(np.shape(steady.busy_s), np.shape(need.max_batch))
    degrees = dict(zip(("tensor", "pipeline", "expert", "data"), serve.parallel.degrees, strict=False))
    gpu, mine = serve.accelerator, need.per_accelerator
    columns = {
        "accelerator": np.array(gpu.name),
        "precision": np.array(short_name(serve)),
        "layout": _layout_names(serve),
        **degrees,
        "gpus": serve.parallel.accelerators,
        "batch": load.batch,
        "max_batch": need.max_batch,
        "ttft_s": steady.ttft_s,
        "tpot_s": steady.tpot_s,
        "gap_s": steady.gap_s,
        "slot_s": steady.slot_s,
        "busy_s": steady.busy_s,
        "busy_at_floor_s": floor.busy_s,
        "headroom": headroom,
        "code": code,
        "code_at_floor": at_floor,
        "next_code": _next(code),
        "limit": steady.limit,
        "weights_bytes": mine["weights_bytes"],
        "available_bytes": mine["available_bytes"],
        "watts": np.nan if gpu.tdp_watts is None else gpu.tdp_watts,
        "usd_per_hour": usd_per_hour,
    }
    return Candidates(**{name: np.broadcast_to(value, shape).ravel() for name, value in columns.items()})


def short_name(serve: Deployment) -> str:
    """A precision in a word or two: ``bf16``, ``fp8``, ``int4_g128+bf16``, ``fp8, kv fp8``."""
    precision = serve.precision
    same = precision.weights == precision.activations
    linear = precision.weights if same else f"{precision.weights}+{precision.activations}"
    return linear if precision.kv == "bf16" else f"{linear}, kv {precision.kv}"


def _layout_names(serve: Deployment) -> Array:
    """``TP 8``, ``TP 4 PP 2``, ``EP 8 DP 8`` for every layout."""
    degrees = zip(*(np.ravel(degree) for degree in serve.parallel.degrees[:4]), strict=True)
    names = [
        " ".join(f"{word} {ways:g}" for word, ways in zip(("TP", "PP", "EP", "DP"), row, strict=True) if ways > 1)
        for row in degrees
    ]
    return np.array([name or "one" for name in names])[:, None]


def _judge(steady: Steady, slo: SLO, max_batch: Any) -> tuple[Array, Array]:
    """Code of the reason why not, 0 if none; and the share of the tightest level that is left."""
    shape = np.broadcast_shapes(np.shape(steady.busy_s), np.shape(max_batch))
    batch, most = np.broadcast_to(steady.load.batch, shape), np.broadcast_to(max_batch, shape)
    lines = slo.lines()
    strains = [
        np.broadcast_to(
            level / getattr(steady, name) if name == "tokens_per_s" else getattr(steady, name) / level, shape
        )
        for name, level in lines
    ]
    strain = np.max(strains, axis=0) if lines else np.zeros(shape)
    codes = np.array([REASONS.index(name) for name, _ in lines] or [0])
    worst = codes[np.argmax(strains, axis=0)] if lines else np.zeros(shape, int)
    code = np.select([most < 1, batch > most, strain > 1], [1, 2, worst], 0)
    return code, 1 - strain if lines else np.full(shape, np.nan)


def _next(code: Array) -> Array:
    """What the next larger batch would break; the search's end for the last one."""
    return np.concatenate([code[:, 1:], np.full_like(code[:, :1], REASONS.index("search"))], axis=1)
