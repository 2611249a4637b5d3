"""Host times fitted to measured servers.

Kernels are estimated from their own timings; what a whole server adds is in a few parameters of the engine
(`roofline.serving.host`).  Here they are fitted to mean times per output token of closed-loop runs, through the closed
form of `roofline.serving.lane`: for a run everything but the host is computed once, so that a prediction costs one
array expression over all runs.

The fit is a maximum a posteriori estimate: parameters start from values that are plausible by themselves and stay near
them where the runs do not say otherwise, and runs that nothing explains pull little (Huber's loss).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput
from ..phases.deployment import Deployment
from ..phases.workload import Workload
from ..specs.engines import Engine
from . import closed_forms
from .cache_pool import cache_pool
from .host import HostedModel, HostTimes
from .lane import Lane, Lengths
from .step_times import step_times
from .traffic import Traffic

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ServerRun:
    """A measured run of a server in a closed loop.

    Attributes
    ----------
    deployment : Deployment
        What ran where, its engine with the settings of the run.
    load : Workload or Traffic
        Lengths of its requests.
    concurrency : float
        Requests in the system.
    tpot_s, ttft_s : float
        Mean time per output token and to first token, seconds; NaN where not measured.
    group : str
        What it is left out with in a test, as a rule its model and accelerator.
    """

    deployment: Deployment
    load: Workload | Traffic
    concurrency: float
    tpot_s: float
    ttft_s: float = float("nan")
    group: str = ""

    @property
    def engine(self) -> Engine:
        """Its engine with all settings."""
        return self.deployment.server


class Runs(NamedTuple):
    """Everything that a prediction of many runs needs but the host's times; arrays with one value a run.

    ``correction`` is what a simulation of the run takes over the closed form.
    """

    engine: npt.NDArray[np.str_]
    group: npt.NDArray[np.str_]
    tpot_s: Array
    mixes: npt.NDArray[np.bool_]
    running: Array
    steps: Array
    decode_kernels_s: Array
    prompt_kernels_s: Array
    passes_of_prompt: Array
    shape: HostedModel
    chunks: closed_forms.Chunks
    packing: closed_forms.Packing
    host: HostTimes
    correction: Array

    def where(self, chosen: npt.NDArray[np.bool_]) -> Runs:
        """Some of the runs."""

        def cut(value: Any) -> Any:
            return type(value)(*map(cut, value)) if isinstance(value, tuple) else value[chosen]

        return Runs(*map(cut, self))


def tabulated(runs: Sequence[ServerRun]) -> Runs:
    """What predictions of runs have in common, whatever the host's times.

    Parameters
    ----------
    runs : sequence of ServerRun
        Measured runs.

    Returns
    -------
    Runs
    """
    rows = [_row(run) for run in runs]
    columns = [np.array(column) for column in zip(*(row[:9] for row in rows), strict=True)]
    shape, chunks, packing, host = (
        type(rows[0][at])(*(np.array(values, dtype=float) for values in zip(*(row[at] for row in rows), strict=True)))
        for at in range(9, 13)
    )
    return Runs(*columns, shape, chunks, packing, host, np.ones(len(rows)))  # type: ignore[arg-type, call-arg]


def _row(run: ServerRun) -> tuple[Any, ...]:
    times, engine = step_times(run.deployment), run.engine
    lengths = Lengths.of(run.load, 0.0)
    lane = Lane(times, cache_pool(run.deployment, engine), lengths, run.concurrency / times.lanes)
    mixes = engine.scheduler == "mixed"
    chunks, packing = lane.chunks, lane.packing
    passes = 1.0
    if mixes:
        tokens = lengths.prompt / chunks.passes
        place = (chunks.riders, lengths.context, tokens, lengths.cached + (lengths.prompt - tokens) / 2, chunks.prompts)
    else:
        passes = max(float(np.ceil(lengths.prompt / (engine.step_tokens or np.inf))), 1.0)
        tokens = lengths.prompt / passes
        together = np.minimum(packing.per_pass, packing.most)
        place = (0.0, 1.0, tokens, lengths.cached + (lengths.prompt - tokens) / 2, together)
    return (
        engine.name,
        run.group or f"{run.deployment.model.name} on {run.deployment.accelerator.name}",
        run.tpot_s,
        mixes,
        float(lane.running),
        float(lengths.steps),
        float(times.decode_kernels_s(lane.running, lengths.context)),
        float(times.prompt_kernels_s(*place)),
        passes,
        times.shape,
        chunks,
        packing,
        HostTimes.of(engine),
    )


def predicted_tpot_s(runs: Runs, host: HostTimes) -> Array:
    """Times per output token of runs under given times of the host, one value or one a run."""
    step_s = host.decode_s(runs.decode_kernels_s, runs.shape)
    pass_s = runs.passes_of_prompt * host.prompts_s(runs.prompt_kernels_s, runs.shape)
    running, steps = runs.running, runs.steps
    mixed = closed_forms.chunked(running, steps, step_s, made=runs.chunks, mixed_s=pass_s)
    first = closed_forms.prompts_first(running, steps, step_s, pack=runs.packing, pass_s=pass_s, seen_pass_s=pass_s)
    generating_s = np.where(runs.mixes, mixed.total_s - mixed.ttft_s, first.total_s - first.ttft_s)
    found: Array = runs.correction * generating_s / np.maximum(steps, 1.0)
    return found


@dataclass(frozen=True)
class Parameter:
    """A time of the host that is fitted.

    Attributes
    ----------
    name : str
        Field of `HostTimes`.
    engine : str
        The engine that it is of; empty for one that all share.
    typical, spread : float
        Where it starts, and how far it may well be from there.
    least : float
        Smallest value that makes sense.
    """

    name: str
    engine: str
    typical: float
    spread: float
    least: float = 0.0

    def __str__(self) -> str:
        return f"{self.name} of {self.engine}" if self.engine else self.name


def parameters(engines: Sequence[str]) -> tuple[Parameter, ...]:
    """Those of whole servers: two an engine and five that all share.

    Parameters
    ----------
    engines : sequence of str
        Names of the engines in the runs.
    """
    own = [
        parameter
        for engine in engines
        for parameter in (Parameter("step_s", engine, 5e-4, 1e-3), Parameter("layer_s", engine, 1e-5, 2e-5))
    ]
    shared = (
        Parameter("launch_share", "", 0.5, 0.2),
        Parameter("rank_s", "", 2e-6, 3e-6),
        Parameter("sparse_layer_s", "", 2e-5, 5e-5),
        Parameter("eager_layer_s", "", 3e-4, 5e-4),
        Parameter("prefill_factor", "", 1.1, 0.2, least=0.5),
    )
    return (*own, *shared)


def host_of(values: Mapping[Parameter, float], runs: Runs) -> HostTimes:
    """The host's times of each run: those of its engine, with ``values`` in the place of some."""
    fields = {name: np.array(own) for name, own in runs.host._asdict().items()}
    for parameter, value in values.items():
        fields[parameter.name][(runs.engine == parameter.engine) | (not parameter.engine)] = value
    return HostTimes(**fields)


RUN_SPREAD = 0.1
"""Relative spread of measured runs around a right model: versions, launch options, chance."""

STEPS = 60
"""Steps of Gauss and Newton at most; the parameters are few and nearly linear."""


def fit(runs: Runs, fitted: Sequence[Parameter]) -> dict[Parameter, float]:
    """Values of ``fitted`` that explain measured times per output token best.

    Parameters
    ----------
    runs : Runs
        Measured runs.
    fitted : sequence of Parameter
        What is fitted; everything else is as the engines have it.

    Returns
    -------
    dict
        Parameter -> value.

    Raises
    ------
    InvalidInput
        No runs.
    """
    if not len(runs.tpot_s):
        raise InvalidInput("a fit needs at least one measured run")
    start = np.array([parameter.typical for parameter in fitted])
    spread = np.array([parameter.spread for parameter in fitted])
    least = (np.array([parameter.least for parameter in fitted]) - start) / spread

    def misses(z: Array) -> Array:
        values = dict(zip(fitted, start + spread * z, strict=True))
        predicted = predicted_tpot_s(runs, host_of(values, runs))
        return np.asarray(np.log(np.maximum(predicted, 1e-9) / runs.tpot_s) / RUN_SPREAD)

    z, damping = np.maximum(np.zeros(len(fitted)), least), 1.0
    best = _loss(misses(z), z)
    for _ in range(STEPS):
        r = misses(z)
        slopes = np.stack([(misses(z + step) - r) / 1e-4 for step in 1e-4 * np.eye(len(z))], axis=1)
        weight = np.where(np.abs(r) <= HUBER, 1.0, HUBER / np.maximum(np.abs(r), 1e-9))
        curve = slopes.T @ (weight[:, None] * slopes) + np.eye(len(z))
        downhill = slopes.T @ (weight * r) + z
        tried = np.maximum(z - np.linalg.solve(curve + damping * np.diag(np.diag(curve)), downhill), least)
        loss = _loss(misses(tried), tried)
        if loss < best:
            done = best - loss < 1e-6 * best
            z, best, damping = tried, loss, damping / 3
            if done:
                break
        else:
            damping *= 4
    return dict(zip(fitted, (start + spread * z).tolist(), strict=True))


HUBER = 1.0
"""Runs further off than this many spreads pull in proportion to their miss, not to its square."""


def _loss(misses: Array, z: Array) -> float:
    size = np.abs(misses)
    huber = np.where(size <= HUBER, size**2 / 2, HUBER * (size - HUBER / 2))
    return float(huber.sum() + (z**2).sum() / 2)


def left_out(runs: Runs, fitted: Sequence[Parameter]) -> Array:
    """Predictions of every run by a fit to the runs of all other groups.

    Parameters
    ----------
    runs : Runs
        Measured runs, of two groups at least.
    fitted : sequence of Parameter
        What is fitted.

    Returns
    -------
    array
        Times per output token, seconds.
    """
    found = np.empty(len(runs.tpot_s))
    for group in np.unique(runs.group):
        mine = runs.group == group
        values = fit(runs.where(~mine), fitted)
        own = runs.where(mine)
        found[mine] = predicted_tpot_s(own, host_of(values, own))
    return found


def with_values(engine: Engine, values: Mapping[Parameter, float]) -> Engine:
    """An engine with fitted times of the host."""
    changes = {each.name: value for each, value in values.items() if each.engine in ("", engine.name)}
    return engine.replace(**changes)


def corrected(runs: Runs, simulated_tpot_s: Array, host: HostTimes) -> Runs:
    """The runs with what their simulation takes over the closed form under the same times of the host."""
    return runs._replace(correction=runs.correction * simulated_tpot_s / predicted_tpot_s(runs, host))


class FirstToken(NamedTuple):
    """What a first token takes beside its queue and its passes: seconds, and decode steps."""

    request_s: float
    steps: float


def fit_first_token(missing_s: Array, step_s: Array, ttft_s: Array) -> FirstToken:
    """Seconds and steps that explain what predictions of the first token lack, by weighted least squares.

    Parameters
    ----------
    missing_s : array
        Measured less predicted time to first token, seconds.
    step_s : array
        A decode step of each run, seconds.
    ttft_s : array
        Measured time to first token, seconds: errors are relative to it.

    Returns
    -------
    FirstToken
        Neither below 0.
    """
    columns = np.stack([np.ones_like(step_s), step_s], axis=1) / ttft_s[:, None]
    wanted, weight = missing_s / ttft_s, np.ones_like(ttft_s)
    found = np.zeros(2)
    for _ in range(STEPS):
        square = columns.T @ (weight[:, None] * columns) + 1e-12 * np.eye(2)
        found = np.maximum(np.linalg.solve(square, columns.T @ (weight * wanted)), 0.0)
        for at in (0, 1):  # where one is at its end, the other by itself
            if found[at] == 0.0:
                own = columns[:, 1 - at]
                found[1 - at] = max(float((weight * own) @ wanted / ((weight * own) @ own)), 0.0)
        off = np.abs(columns @ found - wanted)
        weight = 1.0 / np.maximum(off, 0.02)  # absolute errors, but for what is within 2 %
    return FirstToken(float(found[0]), float(found[1]))
