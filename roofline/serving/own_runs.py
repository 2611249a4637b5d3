"""Fit the times of engines to a user's own server runs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import RooflineError, SpecError, unknown
from ..files import as_path, read_text
from ..operators.parallel import Parallel
from ..operators.precision import AS_PUBLISHED, Precision
from ..phases.deployment import Deployment
from ..phases.workload import Workload
from ..report import Report
from ..specs.engines import Engine
from . import server_fit
from .server_fit import Parameter, ServerRun

NEEDED = ("model", "accelerator", "engine", "prompt_tokens", "output_tokens", "concurrency")
FORMATS = ("weights", "activations", "kv")
DEGREES = ("tensor", "pipeline", "data", "expert")
TIMES = ("tpot_s", "ttft_s")
OPTIONS = ("version", "step_tokens", "max_sequences", "cached_tokens")

MOST_BYTES = 16 * 2**20


@dataclass(frozen=True, eq=False, repr=False)
class ServerCalibration(Report):
    """Engines with times fitted to your own runs.

    Attributes
    ----------
    engines : tuple of Engine
        One for each engine in the file, to pass to `Deployment`; ``basis`` describes the fit.
    runs : array
        Number of runs of each engine.
    error_before, error_after : array
        Median relative error of the time per output token, before and after the fit.
    """

    engines: tuple[Engine, ...]
    runs: npt.NDArray[np.float64]
    error_before: npt.NDArray[np.float64]
    error_after: npt.NDArray[np.float64]

    columns = ("engine", "runs", "decode_factor", "prefill_factor", "step_s", "error_before", "error_after")

    @property
    def engine(self) -> npt.NDArray[np.str_]:
        """Names of the engines."""
        return np.array([engine.name for engine in self.engines])

    @property
    def decode_factor(self) -> npt.NDArray[np.float64]:
        """Ratio of the decode step time to the estimate of its kernels."""
        return np.array([engine.decode_factor for engine in self.engines], dtype=float)

    @property
    def prefill_factor(self) -> npt.NDArray[np.float64]:
        """Ratio of the time of a pass with prompts to the estimate of its kernels."""
        return np.array([engine.prefill_factor for engine in self.engines], dtype=float)

    @property
    def step_s(self) -> npt.NDArray[np.float64]:
        """Host time added to every step, seconds."""
        return np.array([engine.step_s for engine in self.engines], dtype=float)

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """Basis of each engine."""
        return tuple(f"{engine.name}: {engine.basis}" for engine in self.engines)

    def __getitem__(self, name: str) -> Engine:
        for engine in self.engines:
            if engine.name == name:
                return engine
        raise unknown("engine in this calibration", name, [engine.name for engine in self.engines])


def calibrate_serving(path: str | Path) -> ServerCalibration:
    r"""Fit the times of engines to your own runs.

    Each engine gets a factor for its decode steps, one for its passes with prompts, and a fixed time for every step.
    They stay near their present values unless the runs say otherwise. A handful of runs at different concurrencies is
    enough to separate them.

    Parameters
    ----------
    path : str or Path
        CSV file with a header and one closed-loop run per line: ``model``, ``accelerator``, ``engine``,
        ``prompt_tokens``, ``output_tokens``, ``concurrency`` and ``tpot_s`` or ``tpot_ms``; optionally ``weights``,
        ``activations``, ``kv``, ``tensor``, ``pipeline``, ``data``, ``expert``, ``version``, ``step_tokens``,
        ``max_sequences``, ``cached_tokens`` and ``ttft_s`` or ``ttft_ms``.

    Returns
    -------
    ServerCalibration
        One fitted engine per engine in the file, and its errors on the runs.

    Raises
    ------
    SpecError
        The file cannot be read, lacks a column, or has an invalid row; the message names the row.

    Examples
    --------
    >>> import tempfile, pathlib, roofline as rl
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "runs.csv"
    >>> head = "model,accelerator,engine,prompt_tokens,output_tokens,concurrency,tpot_ms"
    >>> row = "llama-3.1-8b,h100-sxm,vllm,1000,1000,{},{}"
    >>> _ = file.write_text("\n".join([head, row.format(1, 9.1), row.format(16, 11.0), row.format(64, 17.5)]))
    >>> found = calibrate_serving(file)
    >>> bool(found.error_after[0] < found.error_before[0])
    True
    >>> serve = rl.Deployment("llama-3.1-8b", "h100-sxm", engine=found["vllm"])
    """
    runs = [_run(row, where) for row, where in _rows(as_path(path))]
    if not runs:
        raise SpecError(f"{path} contains no runs")
    table = server_fit.tabulated(runs)
    names = sorted({run.engine.name for run in runs})
    values = server_fit.fit(table, [each for name in names for each in _parameters(name, runs)])
    before = _misses(table, {})
    after = _misses(table, values)
    engines, counts, old, new = [], [], [], []
    for name in names:
        mine = table.engine == name
        counts.append(float(mine.sum()))
        old.append(float(np.median(before[mine])))
        new.append(float(np.median(after[mine])))
        basis = f"fitted to {mine.sum()} runs of {Path(path).name}: median error {old[-1]:.0%}, then {new[-1]:.0%}"
        version = next(run.engine.version for run in runs if run.engine.name == name)
        engines.append(server_fit.with_values(Engine(name, version=version), values).replace(basis=basis))
    return ServerCalibration(tuple(engines), np.array(counts), np.array(old), np.array(new))


def _parameters(name: str, runs: list[ServerRun]) -> list[Parameter]:
    """Return the parameters to fit, starting from the engine's values."""
    engine = next(run.engine for run in runs if run.engine.name == name)
    return [
        Parameter("decode_factor", name, float(engine.decode_factor or 1.0), 0.3, least=0.1),
        Parameter("prefill_factor", name, float(engine.prefill_factor or 1.0), 0.3, least=0.1),
        Parameter("step_s", name, float(engine.step_s or 0.0), 2e-3),
    ]


def _misses(table: server_fit.Runs, values: Mapping[Parameter, float]) -> Any:
    return np.abs(server_fit.predicted_tpot_s(table, server_fit.host_of(values, table)) / table.tpot_s - 1)


def _rows(path: Path) -> Iterator[tuple[dict[str, str], str]]:
    """Return rows as dicts by column name, and the location of each."""
    text = read_text(path, max_bytes=MOST_BYTES).removeprefix("\ufeff")
    try:
        for number, row in enumerate(csv.DictReader(io.StringIO(text), strict=True), start=1):
            named = {str(key).strip().lower(): str(value or "").strip() for key, value in row.items() if key}
            yield named, f"{path}, row {number}"
    except csv.Error as error:
        raise SpecError(f"{path} is not CSV: {error}") from None


def _run(row: Mapping[str, str], where: str) -> ServerRun:
    missing = [name for name in NEEDED if not row.get(name)]
    if missing:
        raise SpecError(f"{where}: {missing[0]} is missing; a run has {', '.join(NEEDED)} and tpot_s or tpot_ms")
    times = {name: _time(row, name, where) for name in TIMES}
    if np.isnan(times["tpot_s"]):
        raise SpecError(f"{where}: tpot_s is missing (or tpot_ms)")
    try:
        return ServerRun(
            _deployment(row, where),
            Workload(
                _number(row, "prompt_tokens", where),
                _number(row, "output_tokens", where),
                cached_tokens=_number(row, "cached_tokens", where) if row.get("cached_tokens") else 0,
            ),
            _number(row, "concurrency", where),
            times["tpot_s"],
            times["ttft_s"],
        )
    except SpecError:
        raise
    except RooflineError as error:
        raise SpecError(f"{where}: {error}") from None


def _deployment(row: Mapping[str, str], where: str) -> Deployment:
    formats: dict[str, Any] = {name: row[name] for name in FORMATS if row.get(name)}
    degrees = {name: int(_number(row, name, where)) for name in DEGREES if row.get(name)}
    options: dict[str, Any] = {
        name: _number(row, name, where) for name in ("step_tokens", "max_sequences") if row.get(name)
    }
    engine = Engine(row["engine"], version=row.get("version", ""), **options)
    precision = Precision(**formats) if formats else AS_PUBLISHED
    return Deployment(
        row["model"], row["accelerator"], precision=precision, parallel=Parallel(**degrees), engine=engine
    )


def _time(row: Mapping[str, str], name: str, where: str) -> float:
    """Return a time in seconds from a column in seconds or milliseconds; NaN if missing."""
    if row.get(name):
        return _number(row, name, where)
    in_ms = name.replace("_s", "_ms")
    return _number(row, in_ms, where) / 1e3 if row.get(in_ms) else float("nan")


def _number(row: Mapping[str, str], name: str, where: str) -> float:
    try:
        found = float(row[name])
    except ValueError:
        found = float("nan")
    if not 0 < found < float("inf") and not (name == "cached_tokens" and found == 0):
        raise SpecError(f"{where}: {name} must be a number above 0: {row[name]!r}")
    return found
