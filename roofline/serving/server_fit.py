"""Fit host times to measured servers.

Kernels are estimated from their own timings.  What a whole server adds is described by a few engine parameters
(`roofline.phases.host`).  This module fits them to mean times per output token of closed-loop runs, using the closed
form of `roofline.serving.lane`.  Everything but the host is computed once per run, so a prediction is one array
expression over all runs.

The fit is a maximum a posteriori estimate: parameters start from plausible values and stay near them unless the runs
show otherwise.  Outliers have limited influence (Huber loss).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput
from ..phases.deployment import Deployment
from ..phases.host import HostedModel, HostTimes, delta_layers, latent_layers, sparse_layers
from ..phases.workload import Workload
from ..specs.engine_settings import release
from ..specs.engines import Engine
from . import closed_forms
from .cache_pool import cache_pool
from .lane import Lane
from .lengths import Lengths
from .pipeline_rounds import rounds
from .step_times import step_times
from .traffic import Traffic

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ServerRun:
    """A measured run of a server in a closed loop.

    Attributes
    ----------
    deployment : Deployment
        Deployment, including the engine settings of the run.
    load : Workload or Traffic
        Lengths of its requests.
    concurrency : float
        Requests in the system.
    tpot_s, ttft_s : float
        Mean time per output token and mean time to first token, seconds; NaN if not measured.
    group : str
        Group with which the run is left out in cross-validation, usually its model and accelerator.
    """

    deployment: Deployment
    load: Workload | Traffic
    concurrency: float
    tpot_s: float
    ttft_s: float = float("nan")
    group: str = ""

    @property
    def engine(self) -> Engine:
        """Engine of the run with all settings."""
        return self.deployment.server


class Microbatches(NamedTuple):
    """Microbatches of a pipeline that hold each other up, as `roofline.serving.pipeline_rounds.rounds` takes them."""

    stages: Any
    busy: Any
    missed: Any


class Runs(NamedTuple):
    """Everything needed to predict many runs except the host times; arrays with one value per run."""

    engine: npt.NDArray[np.str_]
    version: npt.NDArray[np.str_]
    group: npt.NDArray[np.str_]
    tpot_s: Array
    mixes: npt.NDArray[np.bool_]
    running: Array
    steps: Array
    decode_kernels_s: Array
    prompt_kernels_s: Array
    passes_of_prompt: Array
    tokens_of_pass: Array
    shape: HostedModel
    chunks: closed_forms.Chunks
    packing: closed_forms.Packing
    host: HostTimes
    microbatches: Microbatches

    def where(self, chosen: npt.NDArray[np.bool_]) -> Runs:
        """Return the selected runs."""

        def cut(value: Any) -> Any:
            return type(value)(*map(cut, value)) if isinstance(value, tuple) else value[chosen]

        return Runs(*map(cut, self))


def tabulated(runs: Sequence[ServerRun]) -> Runs:
    """Tabulate the parts of the predictions that do not depend on the host times.

    Parameters
    ----------
    runs : sequence of ServerRun
        Measured runs.

    Returns
    -------
    Runs
    """
    rows = [_row(run) for run in runs]
    columns = list(zip(*rows, strict=True))
    plain, groups = columns[:11], columns[11:]
    return Runs(*map(np.array, plain), *map(_side_by_side, groups))  # type: ignore[arg-type]


def _side_by_side(values: Sequence[Any]) -> Any:
    """Combine named tuples of numbers into one named tuple of arrays."""
    fields = [np.array(column, dtype=float) for column in zip(*values, strict=True)]
    return type(values[0])(*fields)


def _row(run: ServerRun) -> tuple[Any, ...]:
    times, engine = step_times(run.deployment).of_load(run.load), run.engine
    lengths = Lengths.of(run.load, 0.0)
    lane = Lane(times, cache_pool(run.deployment, engine), lengths, run.concurrency / times.lanes)
    mixes = engine.scheduler == "mixed"
    chunks, packing = lane.chunks, lane.packing
    passes = 1.0
    if mixes:
        tokens = lengths.prompt / chunks.passes
        riders, prompts = chunks.riders / times.sharing, np.maximum(chunks.prompts / times.sharing, 1.0)
        place = (riders, lengths.context, tokens, lengths.cached + (lengths.prompt - tokens) / 2, prompts)
    else:
        passes = max(float(np.ceil(lengths.prompt / (engine.step_tokens or np.inf))), 1.0)
        tokens = lengths.prompt / passes
        together = np.maximum(np.minimum(packing.per_pass, packing.most) / times.sharing, 1.0)
        place = (0.0, 1.0, tokens, lengths.cached + (lengths.prompt - tokens) / 2, together)
    return (
        engine.name,
        engine.version,
        run.group or f"{run.deployment.model.name} on {run.deployment.accelerator.name}",
        run.tpot_s,
        mixes,
        float(lane.together),
        float(lengths.steps),
        float(times.decode_kernels_s(lane.running, lengths.context)),
        float(times.prompt_kernels_s(*place)),
        passes,
        float(place[0] + place[4] * times.decoder_tokens(place[2])),
        times.shape,
        chunks,
        packing,
        HostTimes.of(engine),
        Microbatches(times.stages, *lane.other_microbatches),
    )


def predicted_tpot_s(runs: Runs, host: HostTimes) -> Array:
    """Return the times per output token of runs for given host times: one value for all, or one per run."""
    step_s = host.decode_s(runs.decode_kernels_s, runs.shape)
    pass_s = runs.passes_of_prompt * host.prompts_s(runs.prompt_kernels_s, runs.shape, runs.tokens_of_pass)
    running, steps = runs.running, runs.steps
    mixed = closed_forms.chunked(running, steps, step_s, made=runs.chunks, mixed_s=pass_s)
    first = closed_forms.prompts_first(running, steps, step_s, pack=runs.packing, pass_s=pass_s, seen_pass_s=pass_s)
    generating_s = np.where(runs.mixes, mixed.total_s - mixed.ttft_s, first.total_s - first.ttft_s)
    if np.any(runs.microbatches.stages > 1):
        held_up_s = _held_up_s(runs, step_s, np.maximum(pass_s, step_s))
        generating_s = np.where(runs.microbatches.stages > 1, held_up_s, generating_s)
    found: Array = generating_s / np.maximum(steps, 1.0)
    return found


def _held_up_s(runs: Runs, step_s: Array, stall_s: Array) -> Array:
    """Return the time from the first to the last token where microbatches of a pipeline hold each other up."""
    steps, mixes, pack = runs.steps, runs.mixes, runs.packing
    mixed_passes = runs.running / runs.chunks.prompts * runs.chunks.passes
    mixed_rounds = np.maximum(steps + runs.chunks.passes, mixed_passes)
    first_passes = runs.running / np.minimum(pack.per_pass, pack.most)
    passes = np.where(mixes, mixed_passes, first_passes)
    plain = np.where(mixes, mixed_rounds - mixed_passes, steps)
    chunks = np.where(mixes, runs.chunks.passes, 1.0)
    every = runs.microbatches
    made = rounds(plain, passes, every.stages, chunks=chunks, busy=every.busy, missed=every.missed)
    own_s = np.where(mixes, (mixed_rounds - steps) * made.stretch, (np.maximum(pack.seen / pack.most, 1.0) + 1.0) / 2.0)
    found: Array = made.total_s(step_s, stall_s) - own_s * stall_s
    return found


@dataclass(frozen=True)
class Parameter:
    """A host time to fit.

    Attributes
    ----------
    name : str
        Field of `HostTimes`.
    engine : str
        Engine of the parameter; empty if shared by all engines.
    typical, spread : float
        Prior mean and standard deviation of the value.
    least : float
        Smallest allowed value.
    older : tuple of (str, str)
        If the parameter applies to some releases only: pairs of an engine and the version before which it applies.
    """

    name: str
    engine: str
    typical: float
    spread: float
    least: float = 0.0
    older: tuple[tuple[str, str], ...] = ()

    def is_of(self, engine: str, version: str) -> bool:
        """Return whether the parameter applies to a release; without a version, to the newest."""
        if self.older:
            return any(
                engine == name and bool(version) and release(version) < release(first) for name, first in self.older
            )
        return self.engine in ("", engine)

    def __str__(self) -> str:
        if self.older:
            return f"{self.name} of {' and '.join(f'{engine} before {version}' for engine, version in self.older)}"
        return f"{self.name} of {self.engine}" if self.engine else self.name


SYNCHRONOUS = (("trtllm", "1.1"), ("vllm", "0.14"))
"""Releases whose scheduler waits for a step to finish before it prepares the next.

vLLM schedules ahead by default from 0.14.0 on (its release notes; vllm-project/vllm pull request 27614).  Runs of
TensorRT-LLM 1.0 are slower by the same time per step.
"""


def parameters() -> tuple[Parameter, ...]:
    """Return the parameters of whole servers; the later of two that apply to the same run takes precedence.

    Current schedulers prepare a step while the previous one runs, so a step itself has no host time left.  What remains
    in a layer is small kernels that have no timings: norms, rotation, writing to the cache, activation, quantization.
    TensorRT-LLM fuses them in dense layers; in a layer with latent attention norms of both latents, rotation,
    concatenation, selection of experts and sums are left.
    """
    return (
        Parameter("layer_s", "sglang", 1e-5, 2e-5),
        Parameter("layer_s", "vllm", 1e-5, 2e-5),
        Parameter("sparse_layer_s", "", 2e-5, 5e-5),
        Parameter("latent_layer_s", "trtllm", 1e-5, 2e-5),
        Parameter("delta_layer_s", "sglang", 1e-3, 1e-3),
        Parameter("eager_layer_s", "", 3e-4, 5e-4),
        Parameter("prefill_factor", "", 1.1, 0.2, least=0.5),
        Parameter("prefill_factor", "vllm", 1.1, 0.2, least=0.5),
        Parameter("step_s", "", 5e-4, 1e-3, older=SYNCHRONOUS),
    )


def host_of(values: Mapping[Parameter, float], runs: Runs) -> HostTimes:
    """Return the host times of each run: those of its engine, some of them replaced by ``values``."""
    fields = {name: np.array(own) for name, own in runs.host._asdict().items()}
    releases = list(zip(runs.engine.tolist(), runs.version.tolist(), strict=True))
    for parameter, value in values.items():
        its = {each for each in set(releases) if parameter.is_of(*each)}
        mine = np.array([each in its for each in releases])
        fields[parameter.name][mine] = value
    return HostTimes(**fields)


RUN_SPREAD = 0.1
"""Relative spread of measured runs around an exact model, from versions, launch options and noise."""

STEPS = 60
"""Maximum number of Gauss-Newton steps; the parameters are few and nearly linear."""


def fit(runs: Runs, fitted: Sequence[Parameter]) -> dict[Parameter, float]:
    """Return the values of ``fitted`` that best explain the measured times per output token.

    Parameters
    ----------
    runs : Runs
        Measured runs.
    fitted : sequence of Parameter
        Parameters to fit; all others keep the engines' values.

    Returns
    -------
    dict
        Parameter -> value.

    Raises
    ------
    InvalidInput
        ``runs`` is empty.
    """
    if not len(runs.tpot_s):
        raise InvalidInput("a fit needs at least one measured run")

    def log_errors(values: Mapping[Parameter, float]) -> Array:
        predicted = predicted_tpot_s(runs, host_of(values, runs))
        # One nanosecond per token at least: trial values of host times may make a prediction negative.
        return np.asarray(np.log(np.maximum(predicted, 1e-9) / runs.tpot_s))

    return least(log_errors, fitted)


LogErrors = Callable[[Mapping[Parameter, float]], Array]
"""Function from parameter values to the log of predicted over measured time of every run."""


def least(log_errors: LogErrors, fitted: Sequence[Parameter]) -> dict[Parameter, float]:
    """Return the values of ``fitted`` that minimize the errors, by damped Gauss-Newton steps.

    Parameters
    ----------
    log_errors : callable
        Function that returns the log of predicted over measured time of every run for given values.
    fitted : sequence of Parameter
        Parameters to fit, with their priors.

    Returns
    -------
    dict
        Parameter -> value.
    """
    start = np.array([parameter.typical for parameter in fitted])
    spread = np.array([parameter.spread for parameter in fitted])
    lowest = (np.array([parameter.least for parameter in fitted]) - start) / spread

    def misses(z: Array) -> Array:
        return log_errors(dict(zip(fitted, (start + spread * z).tolist(), strict=True))) / RUN_SPREAD

    z, damping = np.maximum(np.zeros(len(fitted)), lowest), 1.0
    best = _loss(misses(z), z)
    for _ in range(STEPS):
        r = misses(z)
        slopes = np.stack([(misses(z + step) - r) / DIFFERENCE for step in DIFFERENCE * np.eye(len(z))], axis=1)
        weight = HUBER / np.maximum(np.abs(r), HUBER)
        curve = slopes.T @ (weight[:, None] * slopes) + np.eye(len(z))
        downhill = slopes.T @ (weight * r) + z
        tried = np.maximum(z - np.linalg.solve(curve + damping * np.diag(np.diag(curve)), downhill), lowest)
        loss = _loss(misses(tried), tried)
        if loss < best:
            done = best - loss < 1e-6 * best  # a step that gains a millionth has converged
            z, best, damping = tried, loss, damping / 3
            if done:
                break
        else:
            damping *= 4
    return dict(zip(fitted, (start + spread * z).tolist(), strict=True))


DIFFERENCE = 1e-4
"""Finite difference step in units of the spread: far above rounding (1e-16), far below 1."""

HUBER = 1.0
"""Beyond this many spreads the loss is linear in the error instead of quadratic."""


def _loss(misses: Array, z: Array) -> float:
    size = np.abs(misses)
    huber = np.where(size <= HUBER, size**2 / 2, HUBER * (size - HUBER / 2))
    return float(huber.sum() + (z**2).sum() / 2)


def left_out(runs: Runs, fitted: Sequence[Parameter]) -> Array:
    """Return the prediction of every run by a fit to the runs of all other groups.

    Parameters
    ----------
    runs : Runs
        Measured runs from at least two groups.
    fitted : sequence of Parameter
        Parameters to fit.

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
    """Return an engine with fitted host times."""
    changes = {each.name: value for each, value in values.items() if each.is_of(engine.name, engine.version)}
    return engine.replace(**changes)


def moves(run: ServerRun, before: Mapping[Parameter, float], after: Mapping[Parameter, float]) -> bool:
    """Return whether the parameter affects a run; some belong to other engines, or to layers that the model lacks."""
    changed = {
        each.name for each in after if after[each] != before[each] and each.is_of(run.engine.name, run.engine.version)
    }
    if changed == {"sparse_layer_s"}:
        return sparse_layers(run.deployment.model) > 0
    if changed == {"latent_layer_s"}:
        return latent_layers(run.deployment.model) > 0
    if changed == {"delta_layer_s"}:
        return delta_layers(run.deployment.model) > 0
    return with_values(run.engine, before) != with_values(run.engine, after)


def fit_first_token(missing_s: Array, columns: Array, ttft_s: Array) -> Array:
    """Fit the unexplained part of the time to first token by least absolute relative errors.

    Parameters
    ----------
    missing_s : array
        Measured minus predicted time to first token of each run, seconds.
    columns : array
        Terms of the sum, ``[runs, parameters]``: 1 for a time per request, its tokens, its decode step.
    ttft_s : array
        Measured time to first token, seconds: errors are relative to it.

    Returns
    -------
    array
        Factor of each column, at least 0.
    """
    relative, wanted = columns / ttft_s[:, None], missing_s / ttft_s
    found, weight = np.zeros(columns.shape[1]), np.ones_like(ttft_s)
    for _ in range(ROUNDS):
        for at, own in enumerate(relative.T):
            left = wanted - relative @ found + own * found[at]
            size = max(float((weight * own) @ own), 1e-30)  # a column of zeros gets the factor 0
            found[at] = max(float((weight * own) @ left) / size, 0.0)
        weight = 1.0 / np.maximum(np.abs(relative @ found - wanted), 0.02)  # quadratic within 2 %, linear beyond
    return found


ROUNDS = 500
"""Rounds of coordinate descent; there are few columns."""
