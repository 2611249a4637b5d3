"""Calibration: parameters of the forms of `roofline.efficiency.estimates` from measured times.

A group is the timings of one accelerator, one engine and one kind of kernel in one format.  Its parameters minimize

    sum over rows of rho(ln estimate / measured)  +  sum over parameters of ((z - z_typical) / z_spread)^2

``rho`` grows like a square for small errors and like a distance for large ones, so that the odd row pulls little; the
second sum holds parameters that the rows say nothing about near what is typical.  A second pass takes the median and
the spread of all accelerators under the same engine as typical.  Needs scipy (``pip install roofline[fit]``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InvalidInput
from ..hardware import Accelerator
from ..operators.roofline import compute_s, kernel_floor_s, memory_s
from ..specs.library import get_accelerator
from . import timings
from .estimates import Calibrated, collective_kind, kind_of
from .forms import FORMS, TILES, Form, Kernel, Prior
from .timings import Batch

Array = np.ndarray[Any, Any]
KNEE = 0.1
"""Error beyond which a row's pull no longer grows."""

PULL = 0.03
"""Weight of the priors: a parameter one spread off costs as much as a row that is 3 % off."""

LEAST_ROWS = 20


@dataclass(frozen=True)
class Group:
    """Timings that share one set of parameters.

    Attributes
    ----------
    accelerator, profile, kind : whose parameters; ``kind`` as `roofline.efficiency.estimates.kind_of` says it
    run : the kernels, every number an array
    measured_s : their times
    """

    accelerator: str
    profile: str
    kind: str
    run: Kernel
    measured_s: Array

    def take(self, chosen: Array) -> Group:
        """The rows that a mask or an index chooses."""
        return replace(self, run=_take(self.run, chosen), measured_s=self.measured_s[chosen])


def groups(batches: Iterable[Batch], accelerators: Callable[[str], Accelerator] = get_accelerator) -> list[Group]:
    """Batches gathered by accelerator, engine and kind; every group once more in the profile ``default``."""
    gathered: dict[tuple[str, str, str], list[tuple[Kernel, Array]]] = {}
    for batch in batches:
        gpu = accelerators(batch.words["accelerator"])
        run = _kernel(batch, gpu)
        for kind, rows in _kinds(batch):
            for profile in _profiles(batch.words):
                part = _take(run, rows), batch.latency_s[rows]
                gathered.setdefault((gpu.name, profile, kind), []).append(part)
    return [_gathered(*key, parts) for key, parts in gathered.items()]


def profile_of(words: Mapping[str, str]) -> str:
    """The profile that a row belongs to: its engine, or for collectives the engine that the library is part of."""
    if "engine" in words:
        return words["engine"]
    library = words["library"].lower()
    engine = next((name for name in ("vllm", "sglang", "trtllm") if name in library), "default")
    return f"{engine}-eager" if "eager" in library else engine


def _profiles(words: Mapping[str, str]) -> set[str]:
    """The profiles that a row counts for: its engine's and the middle of all, but for what is launched one by one."""
    own = profile_of(words)
    return {own} if own.endswith("eager") else {own, "default"}


def _kinds(batch: Batch) -> list[tuple[str, Array]]:
    """Kind of each row: collectives differ by the number of GPUs, the rest of a batch is alike."""
    if batch.kind != "collective":
        return [(kind_of(batch.operator), np.arange(len(batch.rows)))]
    gpus = batch.columns["num_gpus"]
    return [(collective_kind(batch.operator.name, n), np.nonzero(gpus == n)[0]) for n in np.unique(gpus)]


def _kernel(batch: Batch, gpu: Accelerator) -> Kernel:
    """Times of the roofline of each row; what fits in the last-level cache is found there by a timing loop."""
    operator, count = batch.operator, len(batch.rows)
    moved = np.broadcast_to(operator.work.moved_bytes, count)
    cached = np.minimum(moved, gpu.l2_bytes or 0.0)
    moving_s = memory_s(moved - cached, gpu)
    if batch.kind == "collective":
        moving_s = np.asarray(kernel_floor_s(operator, gpu))
    inputs = {name: np.broadcast_to(np.asarray(value, float), count) for name, value in operator.inputs.items()}
    computing_s = np.broadcast_to(compute_s(operator.work.flops, gpu, gpu.math_on_chip(operator.work.math)), count)
    return Kernel(computing_s, moving_s, memory_s(cached, gpu), float(gpu.compute_units or 100), inputs)


def _take(run: Kernel, rows: Array) -> Kernel:
    inputs = {name: values[rows] for name, values in run.inputs.items()}
    return Kernel(run.compute_s[rows], run.memory_s[rows], run.cached_s[rows], run.processors, inputs)


def _gathered(accelerator: str, profile: str, kind: str, parts: list[tuple[Kernel, Array]]) -> Group:
    runs = [run for run, _ in parts]

    inputs = {name: np.concatenate([run.inputs[name] for run in runs]) for name in runs[0].inputs}
    measured_s = np.concatenate([measured for _, measured in parts])
    run = Kernel(
        compute_s=np.concatenate([run.compute_s for run in runs]),
        memory_s=np.concatenate([run.memory_s for run in runs]),
        cached_s=np.concatenate([run.cached_s for run in runs]),
        processors=runs[0].processors,
        inputs=inputs,
    )
    return Group(accelerator, profile, kind, run, measured_s)


def form_of(kind: str) -> Form:
    """The form of a kind, which is the part of its name before the first dot."""
    return FORMS[kind.partition(".")[0]]


def error(group: Group, parameters: Mapping[str, float]) -> Array:
    """Natural logarithm of estimate over measured, row by row."""
    estimate_s = form_of(group.kind).time_s(parameters, group.run)
    estimate_s = np.maximum(estimate_s, np.maximum(group.run.compute_s, group.run.memory_s))
    return np.asarray(np.log(estimate_s / group.measured_s))


def fit(group: Group, priors: Mapping[str, Prior] | None = None) -> dict[str, float]:
    """Parameters of one group; of a dense product also the tile, by trying each."""
    priors = priors or form_of(group.kind).priors
    fixed: list[dict[str, float]] = [{}]
    if group.kind.startswith("gemm"):
        fixed = [{"tile_m": m, "tile_n": n} for m, n in TILES]
    return min((_least_squares(group, priors, values) for values in fixed), key=lambda found: found[0])[1]


def _least_squares(
    group: Group, priors: Mapping[str, Prior], fixed: dict[str, float]
) -> tuple[float, dict[str, float]]:
    from scipy.optimize import least_squares

    names = list(priors)

    def parameters(z: Array) -> dict[str, float]:
        return {name: priors[name].value(at) for name, at in zip(names, z, strict=True)} | fixed

    def residuals(z: Array) -> Array:
        errors = np.clip(error(group, parameters(z)), -5, 5)
        rho = 2 * KNEE**2 * (np.sqrt(1 + (errors / KNEE) ** 2) - 1)
        return np.concatenate([np.sign(errors) * np.sqrt(rho), PULL * z])

    found = least_squares(residuals, np.zeros(len(names)), bounds=(-8, 8), max_nfev=80)
    return float(found.cost), parameters(found.x)


Fitted = list[tuple[Group, dict[str, float]]]


def typical(found: Fitted, kind: str, profile: str) -> dict[str, Prior]:
    """Priors from all accelerators under one engine: the median, and a spread of at least a third of the form's own.

    The fewer they are, the nearer to the form's own priors.
    """
    same = [values for group, values in found if (group.kind, group.profile) == (kind, profile)]
    return {
        name: _shared(prior, np.array([prior.z(values[name]) for values in same]))
        for name, prior in form_of(kind).priors.items()
    }


def _shared(prior: Prior, z: Array) -> Prior:
    middle = float(np.median(z)) * len(z) / (len(z) + 3)
    spread = float(np.clip(1.4826 * np.median(np.abs(z - np.median(z))), 0.3, 1.0))
    return Prior(prior.value(middle), prior.spread * spread, prior.share, prior.least)


def fit_all(gathered: list[Group]) -> Fitted:
    """Parameters of all groups: once with the priors of the forms, then with those of the other accelerators."""
    first = [(group, fit(group)) for group in gathered]
    return [(group, fit(group, typical(first, group.kind, group.profile))) for group in gathered]


def left_out(gathered: list[Group]) -> list[Array]:
    """`error` of every row of every group under parameters fitted to the other half of its rows."""
    masks = [np.random.default_rng(len(group.measured_s)).random(len(group.measured_s)) < 0.5 for group in gathered]
    errors = [np.empty(len(group.measured_s)) for group in gathered]
    for side in (False, True):
        halves = fit_all([group.take(mask == side) for group, mask in zip(gathered, masks, strict=True)])
        for at, (group, mask) in enumerate(zip(gathered, masks, strict=True)):
            errors[at][mask != side] = error(group.take(mask != side), halves[at][1])
    return errors


def calibrated(group: Group, parameters: Mapping[str, float], errors: Array) -> Calibrated:
    """Parameters with what is known of their errors (`left_out`)."""
    low, high = np.exp(np.quantile(-errors, [0.1, 0.9]))
    return Calibrated(
        parameters=parameters,
        rows=len(errors),
        residual=float(np.median(np.abs(np.expm1(errors)))),
        bias=float(np.median(np.expm1(errors))),
        low=float(min(low, 1.0)),
        high=float(max(high, 1.0)),
        kind=group.kind,
        processors=group.run.processors,
    )


def calibrate(
    path: str | Path,
    accelerators: Callable[[str], Accelerator] = get_accelerator,
    *,
    trusted: Callable[[str, Batch], bool] = lambda table, batch: True,
) -> dict[tuple[str, str, str], Calibrated]:
    """Parameters of every group of timings in a table or in a folder of tables, by accelerator, profile and kind.

    Parameters
    ----------
    trusted : whether a batch of the table of that name takes part

    Raises
    ------
    InvalidInput
        No group has enough rows.
    """
    found = timings.tables(path) if Path(path).is_dir() else [(Path(path).stem, timings.read_timings(path))]
    batches = [batch for table, some in found for batch in some if trusted(table, batch)]
    gathered = [group for group in groups(batches, accelerators) if len(group.measured_s) >= LEAST_ROWS]
    if not gathered:
        raise InvalidInput(f"{path}: no accelerator, engine and format has {LEAST_ROWS} timings or more")
    results = zip(fit_all(gathered), left_out(gathered), strict=True)
    return {(g.accelerator, g.profile, g.kind): calibrated(g, values, errors) for (g, values), errors in results}


def write(found: Mapping[tuple[str, str, str], Calibrated], folder: str | Path, *, source: str) -> None:
    """Parameter files as `roofline.efficiency.estimates` reads them: one an accelerator, one line a kind."""
    for name in sorted({accelerator for accelerator, _, _ in found}):
        lines = [f"name: {name}", f"source: {json.dumps(source)}", "kind: measured", "profiles:"]
        for profile in sorted({profile for accelerator, profile, _ in found if accelerator == name}):
            lines.append(f"  {profile}:")
            of = {kind: values for (a, p, kind), values in sorted(found.items()) if (a, p) == (name, profile)}
            lines += [f"    {kind}: {_line(values)}" for kind, values in of.items()]
        (Path(folder) / f"{name}.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _line(values: Calibrated) -> str:
    figures = {"rows": values.rows, **{name: getattr(values, name) for name in ("residual", "bias", "low", "high")}}
    return (
        "{"
        + ", ".join(f"{name}: {_number(value)}" for name, value in (figures | dict(values.parameters)).items())
        + "}"
    )


def _number(value: float) -> str:
    """Three digits, as YAML reads a number: an exponent needs a point and a sign."""
    text = f"{value:.3g}" if isinstance(value, float) else str(value)
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}{'' if '.' in mantissa or not e else '.0'}{e}{exponent}"
