"""Calibration: fit the parameters of `roofline.efficiency.forms` to measured times.

A group holds the timings of one kernel on one accelerator: one engine, one ``kernel_source``, one kind, one format.
Its parameters minimize

    sum over rows of rho(ln estimate / measured)  +  sum over parameters of ((z - z_typical) / z_spread)^2

``rho`` is quadratic for small errors and linear for large ones, which limits the influence of outliers.  The second sum
keeps parameters that the rows do not determine near their typical values.  A second pass uses the median and spread
over all accelerators with the same engine and kernel as typical values.  Groups that cannot be of the kernel they are
labeled with are rejected (`roofline.efficiency.trust`); `roofline.efficiency.choice` decides which kernel an engine
runs today.

Needs scipy (``pip install roofline[fit]``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InvalidInput
from ..files import as_path
from ..hardware import Accelerator
from ..specs.library import get_accelerator
from . import choice, timings, trust
from .estimates import cases_of, predicted
from .forms import Form, Kernel, Prior
from .groups import Group, groups
from .store import Calibrated, Profiles, chosen, form_of
from .timings import Batch
from .trust import Refused
from .widening import wider_kind

Array = np.ndarray[Any, Any]
KNEE = 0.1
"""Error beyond which the influence of a row no longer grows."""

PULL = 0.03
"""Weight of the priors: a parameter one spread from its typical value costs as much as a row with an error of 3 %."""

STEP = 1e-4
"""Step of the numerical derivative, in spreads of a prior."""

LEAST_ROWS = 20
FOLDS = 4
"""Number of folds of a group's shapes in cross-validation."""


@dataclass(frozen=True)
class Calibration:
    """Result of a calibration.

    Attributes
    ----------
    kernels : mapping of (accelerator, profile, kind) to Calibrated
        Parameters of the current kernels.  The profile ``default`` only holds error statistics of the median over
        engines.
    refused : tuple of Refused
        Rejected groups, with the reason.
    """

    kernels: Mapping[tuple[str, str, str], Calibrated]
    refused: tuple[Refused, ...] = ()


def error(group: Group, parameters: Mapping[str, float]) -> Array:
    """Natural logarithm of estimate over measurement, for each row."""
    return np.asarray(np.log(_time_s(form_of(group.kind), parameters, group.run) / group.measured_s))


def _time_s(form: Form, parameters: Mapping[str, Any], run: Kernel) -> Array:
    """Time predicted by the form, and at least the time at the peaks."""
    return np.asarray(np.maximum(form.time_s(parameters, run), run.peaks_s))


def fit_group(
    group: Group,
    priors: Mapping[str, Prior] | None = None,
    choices: Sequence[Mapping[str, float]] = (),
) -> dict[str, float]:
    """Fit the parameters of one group.

    Parameters
    ----------
    group : Group
        The timings.
    priors : mapping of str to Prior, optional
        Priors of the parameters; None uses those of the form.
    choices : sequence of mappings
        Sets of integer parameters to try; those of the form if empty.

    Returns
    -------
    dict
        The best parameters, by name.
    """
    form = form_of(group.kind)
    tried = [_least_squares(group, priors or form.priors, chosen) for chosen in choices or _choices(group)]
    return min(tried, key=lambda found: found[0])[1]


LEAST_TILES = {"Hopper": 64.0}
"""Architecture -> rows of its smallest tile, if it differs from the form's: the
warpgroup product of Hopper (wgmma) has 64. Timings of memory-bound products do not distinguish 16 from 64.  H20, which
has the same units at a lower rate, does: a step of a 32B model in bf16 takes 48 ms there, where tiles of 16 rows would
take 21 ms."""


def _choices(group: Group) -> Sequence[Mapping[str, float]]:
    """The form's sets of integer parameters, with the smallest tile of the architecture."""
    least = next((rows for name, rows in LEAST_TILES.items() if name in group.architecture), None)
    every = form_of(group.kind).choices
    if least is None or "tile_least" not in every[0]:
        return every
    return [{**chosen, "tile_least": least} for chosen in every]


def _least_squares(
    group: Group, priors: Mapping[str, Prior], chosen: Mapping[str, float]
) -> tuple[float, dict[str, float]]:
    from scipy.optimize import least_squares

    form, measured = form_of(group.kind), np.log(group.measured_s)
    names, count = list(priors), len(priors)

    def parameters(z: Array) -> dict[str, Any]:
        """Parameters as columns and sets of them as rows, so that one evaluation gives all derivatives."""
        return {name: priors[name].value(z[:, at : at + 1]) for at, name in enumerate(names)} | dict(chosen)

    def residuals(z: Array) -> Array:
        errors = np.clip(np.log(_time_s(form, parameters(z), group.run)) - measured, -5, 5)
        rho = 2 * KNEE**2 * (np.sqrt(1 + (errors / KNEE) ** 2) - 1)
        return np.concatenate([np.sign(errors) * np.sqrt(rho), PULL * z], axis=1)

    def derivative(z: Array) -> Array:
        steps = np.concatenate([z + STEP * np.eye(count), z[None]])
        found = residuals(steps)
        return np.asarray(((found[:count] - found[count]) / STEP).T)

    found = least_squares(lambda z: residuals(z[None])[0], np.zeros(count), derivative, bounds=(-8, 8), max_nfev=60)
    best = parameters(found.x[None])
    return float(found.cost), {name: float(np.ravel(value)[0]) for name, value in best.items()}


Fitted = list[tuple[Group, dict[str, float]]]


def priors_of_kernel(found: Fitted, like: Group) -> dict[str, Prior]:
    """Priors from all accelerators that run the same kernel of the same engine: their median and spread.

    The spread is at least a third of the form's own.  With few accelerators the result stays near the form's priors.
    """
    same = [values for group, values in found if group.kernel == like.kernel]
    shared = {}
    for name, prior in form_of(like.kind).priors.items():
        z = np.array([prior.z(values[name]) for values in same])
        shared[name] = _shared(prior, z)
    return shared


def _shared(prior: Prior, z: Array) -> Prior:
    """The prior around the median of other kernels, pulled to the old one as by three kernels more.

    Its spread is the standard deviation that their median absolute deviation estimates (1.4826 of it for a normal
    distribution), at least 0.3 of the old one, since they are few, and at most all of it.
    """
    middle = float(np.median(z)) * len(z) / (len(z) + 3)
    spread = float(np.clip(1.4826 * np.median(np.abs(z - np.median(z))), 0.3, 1.0))
    return Prior(float(prior.value(middle)), prior.spread * spread, prior.share, prior.least)


def fit_all(gathered: list[Group]) -> Fitted:
    """Fit all groups, first with the priors of the forms, then with priors from the other accelerators."""
    first = [(group, fit_group(group)) for group in gathered]
    return [(group, fit_group(group, priors_of_kernel(first, group))) for group in gathered]


def errors_left_out(fitted: Fitted) -> list[Array]:
    """`error` of every row of every group, with parameters fitted to other shapes.

    The shapes of a group (weights of a product, heads of attention, experts of a model) are divided into `FOLDS` parts.
    Each part is predicted from the others, so the parameters never saw the model of the row that they predict.

    Parameters
    ----------
    fitted : list of (Group, parameters)
        Result of `fit_all`, which provides priors and the best integer parameters.

    Returns
    -------
    list of array
        Natural logarithms of estimate over measurement.
    """
    found = []
    for group, values in fitted:
        priors = priors_of_kernel(fitted, group)
        best = {name: values[name] for name in form_of(group.kind).choices[0]}
        part = group.shapes % FOLDS
        errors = np.empty(len(group.measured_s))
        for fold in np.unique(part):
            others = fit_group(_other_shapes(group, part == fold), priors, [best])
            errors[part == fold] = error(group.take(part == fold), others)
        found.append(errors)
    return found


def _other_shapes(group: Group, held: Array) -> Group:
    """The rows outside the fold; all rows if the group has a single shape."""
    return group if np.all(held) else group.take(~held)


def calibrated(group: Group, parameters: Mapping[str, float], errors: Array) -> Calibrated:
    """Parameters with their error statistics (`errors_left_out`)."""
    figures = _figures(group.kind, errors)
    return replace(figures, parameters=parameters, processors=group.run.processors, kernel=group.source)


def _figures(kind: str, errors: Array) -> Calibrated:
    low, high = np.exp(np.quantile(-errors, [0.1, 0.9]))
    return Calibrated(
        parameters={},
        rows=len(errors),
        residual=float(np.median(np.abs(np.expm1(errors)))),
        bias=float(np.median(np.expm1(errors))),
        low=float(min(low, 1.0)),
        high=float(max(high, 1.0)),
        kind=kind,
    )


def middle_errors(
    gathered: Iterable[Group], profiles: Mapping[str, Profiles], accelerators: Callable[[str], Accelerator]
) -> dict[tuple[str, str], Array]:
    """`error` of the median over engines on the rows of all engines, by accelerator and kind."""
    found: dict[tuple[str, str], list[Array]] = {}
    for group in gathered:
        if group.profile.endswith("-eager"):
            continue
        gpu = accelerators(group.accelerator)
        off = np.empty(len(group.measured_s))
        for holds, cases in cases_of(group.run.inputs, group.kind):
            rows = np.broadcast_to(holds, off.shape)
            part = group.take(rows)
            off[rows] = np.log(_middle_s(profiles[gpu.name], part, cases, gpu) / part.measured_s)
        found.setdefault((group.accelerator, group.kind), []).append(off)
    return {key: np.concatenate(parts) for key, parts in found.items()}


def _middle_s(profiles: Profiles, group: Group, cases: tuple[str, ...], gpu: Accelerator) -> Array:
    kernels = chosen(profiles, gpu.name, group.kind, None, cases)
    assert kernels is not None
    wide = chosen(profiles, gpu.name, wider, None, cases) if (wider := wider_kind(kernels.kind)) else None
    wide = wide if wide is not None and wide.kind == wider else None
    math = gpu.math_on_chip(group.math)
    return np.asarray(sum(predicted(kernels, wide, group.run, math, gpu)))


def calibrate(
    path: str | Path,
    accelerators: Callable[[str], Accelerator] = get_accelerator,
    *,
    trusted: Callable[[str, Batch], bool | Array] = lambda table, batch: True,
) -> Calibration:
    """Fit the parameters of the current kernel of every accelerator, engine and kind in a table of timings.

    Parameters
    ----------
    path : str or Path
        A table of timings, or a directory of them (`roofline.efficiency.timings`).
    accelerators : callable
        Name to `Accelerator`.
    trusted : callable
        Function of a table's name and a batch; returns whether the batch is fitted, or a mask of the rows that are.

    Returns
    -------
    Calibration
        Parameters by accelerator, profile and kind, and the groups that were rejected.

    Raises
    ------
    InvalidInput
        No group has enough rows.
    """
    path = as_path(path)
    found = timings.tables(path) if path.is_dir() else [(path.stem, timings.read_timings(path))]
    batches: list[Batch] = []
    for table, some in found:
        for batch in some:
            batches.extend(_kept(batch, trusted(table, batch)))
    gathered = [group for group in groups(batches, accelerators) if len(group.measured_s) >= LEAST_ROWS]
    if not gathered:
        raise InvalidInput(f"{path}: no accelerator, engine and format has {LEAST_ROWS} timings or more")
    fitted = fit_all(gathered)
    refused = trust.refused([(group, values, error(group, values)) for group, values in fitted], accelerators)
    known_bad = {id(entry.group) for entry in refused}
    kept = [(group, values) for group, values in fitted if id(group) not in known_bad]
    errors = errors_left_out(kept)
    described = [(group, calibrated(group, values, off)) for (group, values), off in zip(kept, errors, strict=True)]
    filed = choice.todays(described, accelerators)
    kernels = {key: values for key, (_, values) in filed.items()}
    names = dict.fromkeys(name for name, _, _ in kernels)
    profiles = {name: _profiles(kernels, name) for name in names}
    off_middle = middle_errors([group for group, _ in kept], profiles, accelerators)
    middle = {(name, "default", kind): _figures(kind, off) for (name, kind), off in off_middle.items()}
    return Calibration(kernels | middle, tuple(refused))


def _kept(batch: Batch, trusted: bool | Array) -> list[Batch]:
    """The batch, its trusted rows, or None."""
    rows = np.broadcast_to(trusted, len(batch.latency_s))
    if np.all(rows):
        return [batch]
    return [batch.take(np.nonzero(rows)[0])] if np.any(rows) else []


def _profiles(kernels: Mapping[tuple[str, str, str], Calibrated], accelerator: str) -> Profiles:
    """The profiles of one accelerator, as they are written to its file."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for (name, profile, kind), values in sorted(kernels.items()):
        if name == accelerator:
            found.setdefault(profile, {})[kind] = _line(values)
    return found


def _line(values: Calibrated) -> dict[str, Any]:
    figures = {"rows": values.rows, **{name: getattr(values, name) for name in ("residual", "bias", "low", "high")}}
    named = {"kernel": values.kernel} if values.kernel else {}
    return named | figures | dict(values.parameters)


def write(found: Calibration, folder: str | Path, *, source: str) -> None:
    """Write parameter files for `roofline.efficiency.store`: one file per accelerator, one line per kind.

    Parameters
    ----------
    found : Calibration
        Result of `calibrate`.
    folder : str or Path
        Directory for the files.
    source : str
        Source of the timings.
    """
    for name in sorted({accelerator for accelerator, _, _ in found.kernels}):
        lines = [f"name: {name}", f"source: {json.dumps(source)}", "kind: measured", "profiles:"]
        for profile, kinds in _profiles(found.kernels, name).items():
            lines.append(f"  {profile}:")
            lines += [f"    {kind}: {_text(values)}" for kind, values in kinds.items()]
        bad = [entry for entry in found.refused if entry.group.accelerator == name]
        lines += ["refused:"] * bool(bad) + [f"  - {_text(_why(entry))}" for entry in bad]
        (Path(folder) / f"{name}.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _why(entry: Refused) -> dict[str, Any]:
    group = entry.group
    rows = len(group.measured_s)
    return {"profile": group.profile, "kind": group.kind, "kernel": group.source, "rows": rows, "reason": entry.reason}


def _text(values: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{name}: {_word(value)}" for name, value in values.items()) + "}"


def _word(value: Any) -> str:
    """A quoted string, or a number with three digits in a form that YAML reads as a float (``1.0e+3``)."""
    if isinstance(value, str):
        return json.dumps(value)
    text = f"{value:.3g}" if isinstance(value, float) else str(value)
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}{'' if '.' in mantissa or not e else '.0'}{e}{exponent}"
