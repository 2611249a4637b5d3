"""Candidates: every layout and batch of one accelerator in one precision, evaluated at once."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import read_only
from ..operators.parallel import Parallel
from ..phases.deployment import Deployment
from ..serving.metrics import METRICS
from ..serving.pass_times import prompt_pass
from ..serving.request_energy import RequestEnergy, request_energy
from ..serving.scenario import Scenario
from ..serving.slo import SLO
from ..serving.steady_state import Steady, steady_state
from ..values import Value
from .basis import basis_of
from .floors import least_busy_s

Array = npt.NDArray[Any]

LATENCIES = ("ttft_s", "ttft_low_s", "ttft_high_s", "tpot_s", "tpot_low_s", "tpot_high_s")
"""Columns of TTFT and TPOT with the ends of their intervals."""

WEIGHTS, MEMORY, SEARCH = "weights", "memory", "search"
"""Reasons to reject a candidate, besides the name of the metric that misses its target the most.

The weights do not fit even with one sequence, the batch does not fit, or the batch is the largest that was tried."""


@dataclass(frozen=True, eq=False)
class Candidates(Value):
    """Columns of equal length, one row per layout and batch; `Plan` documents them.

    ``busy_at_floor_s`` depends on the layout only, not on the batch (`roofline.capacity.floors`).

    ``failure`` is the kind of reason why a candidate is rejected, or empty; ``next_failure`` is that of the next larger
    batch.
    """

    accelerator: Array
    precision: Array
    engine: Array
    basis: Array
    layout: Array
    tensor: Array
    pipeline: Array
    expert: Array
    data: Array
    gpus: Array
    batch: Array
    max_batch: Array
    ttft_s: Array
    ttft_low_s: Array
    ttft_high_s: Array
    tpot_s: Array
    tpot_low_s: Array
    tpot_high_s: Array
    gap_s: Array
    total_s: Array
    prefill_share: Array
    busy_s: Array
    busy_low_s: Array
    busy_high_s: Array
    busy_at_floor_s: Array
    headroom: Array
    failure: Array
    next_failure: Array
    limit: Array
    weights_bytes: Array
    available_bytes: Array
    watts: Array
    prompt_energy_share: Array
    idle_watts: Array
    cached_share: Array
    usd_per_hour: Array
    replicas: Array
    queue: Array

    def __post_init__(self) -> None:
        read_only(getattr(self, item.name) for item in fields(self))

    def take(self, rows: Array) -> Candidates:
        """The rows at these indices, in this order."""
        return Candidates(*(getattr(self, item.name)[rows] for item in fields(self)))


def all_rows(parts: list[Candidates]) -> Candidates:
    """Concatenate tables."""
    columns = {}
    for item in fields(Candidates):
        columns[item.name] = np.concatenate([getattr(part, item.name) for part in parts])
    return Candidates(**columns)


def cost_of_one(table: Candidates) -> Array:
    """Price of a deployment per hour, or its number of accelerators without a price."""
    return np.asarray(table.gpus * np.where(np.isfinite(table.usd_per_hour), table.usd_per_hour, 1.0))


def evaluate(case: Scenario, slo: SLO, usd_per_hour: float, idle: float, time: str) -> Candidates:
    """Evaluate all ``[L, B]`` candidates of a scenario with layouts ``[L, 1]`` and batches ``[B]``."""
    serve = case.serve
    steady, need = steady_state(case, time=time), case.memory
    failure, headroom = _judge(steady, slo, need.max_batch)
    low, high = steady.low, steady.high
    # Power refers to expected times, so there is none at the floor.
    drawn = RequestEnergy(np.nan, np.nan) if time == "floor_s" else request_energy(steady)
    degrees = dict(zip(("tensor", "pipeline", "expert", "data"), serve.parallel.degrees, strict=False))
    gpu = serve.accelerator
    columns = {
        "accelerator": np.array(gpu.name),
        "precision": np.array(precision_name(serve)),
        "engine": np.array(engine_name(serve)),
        "basis": np.array(basis_of(steady)),
        "layout": _layout_names(serve),
        **degrees,
        "gpus": serve.parallel.accelerators,
        "batch": case.load.batch,
        "max_batch": need.max_batch,
        "ttft_s": steady.ttft_s,
        "ttft_low_s": low.ttft_s,
        "ttft_high_s": high.ttft_s,
        "tpot_s": steady.tpot_s,
        "tpot_low_s": low.tpot_s,
        "tpot_high_s": high.tpot_s,
        "gap_s": steady.gap_s,
        "total_s": steady.total_s,
        "prefill_share": np.nan if time == "floor_s" else steady.prefill_share,
        "busy_s": steady.busy_s,
        "busy_low_s": low.busy_s,
        "busy_high_s": high.busy_s,
        "busy_at_floor_s": least_busy_s(case, slo)[:, None],
        "headroom": headroom,
        "failure": failure,
        "next_failure": _next(failure),
        "limit": steady.limit,
        "weights_bytes": need.weights_bytes_on_one,
        "available_bytes": need.available_bytes / serve.parallel.accelerators,
        "watts": drawn.watts,
        "prompt_energy_share": drawn.prompt_share,
        "idle_watts": idle,
        "cached_share": cached_share(steady),
        "usd_per_hour": usd_per_hour,
        "replicas": np.nan,
        "queue": np.array(""),
    }
    return Candidates(**{name: np.broadcast_to(value, failure.shape).ravel() for name, value in columns.items()})


def cached_share(steady: Steady) -> Any:
    """Share of prompt time that is due to attention to cached tokens.

    It compares passes of single prompts with and without the cached tokens.
    """
    load = steady.load
    if not np.any(np.asarray(load.cached_tokens) > 0):
        return np.nan
    alone = prompt_pass(steady.case, replace(load, batch=steady.case.serve.parallel.data, cached_tokens=0))
    return 1.0 - alone.seconds(steady.time) / steady.passes.prompt.seconds(steady.time)


def precision_name(serve: Deployment) -> str:
    """Short name of a precision: ``bf16``, ``fp8``, ``int4_g128+bf16``, ``fp8, kv fp8``."""
    precision = serve.precision
    same = precision.weights == precision.activations
    linear = precision.weights if same else f"{precision.weights}+{precision.activations}"
    return linear if precision.kv == "bf16" else f"{linear}, kv {precision.kv}"


def engine_name(serve: Deployment) -> str:
    """The engine that runs a deployment; ``any`` where the kernels are the median of the engines'."""
    return "any" if serve.engine is None else str(serve.engine)


def layout_name(parallel: Parallel) -> str:
    """Short name of a layout: ``TP 8``, ``TP 4 PP 2``, ``EP 8 DP 8``, ``one``."""
    return _degrees_in_words(tuple(float(degree) for degree in parallel.degrees[:4]))


def _degrees_in_words(degrees: tuple[float, ...]) -> str:
    words = [f"{word} {ways:g}" for word, ways in zip(("TP", "PP", "EP", "DP"), degrees, strict=True) if ways > 1]
    return " ".join(words) or "one"


def _layout_names(serve: Deployment) -> Array:
    """Names of all layouts."""
    every = zip(*(np.ravel(degree) for degree in serve.parallel.degrees[:4]), strict=True)
    return np.array([_degrees_in_words(degrees) for degrees in every])[:, None]


def _judge(steady: Steady, slo: SLO, max_batch: Any) -> tuple[Array, Array]:
    """Reason to reject each candidate, or empty, and the unused share of its tightest target."""
    shape = np.broadcast_shapes(np.shape(steady.busy_s), np.shape(max_batch))
    batch, most = np.broadcast_to(steady.case.load.batch, shape), np.broadcast_to(max_batch, shape)
    names = [name for name, _ in slo.targets()]
    if names:
        strains = [np.broadcast_to(_strain(steady, name, target), shape) for name, target in slo.targets()]
        strain, worst = np.max(strains, axis=0), np.array(names)[np.argmax(strains, axis=0)]
        headroom = 1 - strain
    else:
        strain, worst = np.zeros(shape), np.full(shape, "")
        headroom = np.full(shape, np.nan)
    failure = np.where(strain > 1, worst, "")
    failure = np.where(batch > most, MEMORY, failure)
    return np.where(most < 1, WEIGHTS, failure), headroom


def _strain(steady: Steady, name: str, target: float) -> Any:
    metric = METRICS[name]
    return metric.strain(metric.value(steady), target)


def _next(failure: Array) -> Array:
    """What the next larger batch would violate; for the last batch, that the search ended."""
    return np.concatenate([failure[:, 1:], np.full_like(failure[:, :1], SEARCH, dtype="<U8")], axis=1)
