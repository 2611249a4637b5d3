"""Power of measured boards against the library's model, and the fit of its parameters.

    python benchmarks/energy.py [FILE] [-o PAGE] [--write]

FILE is a table as ``tests/data/measurements/energy.csv.gz``, which is the default.  ``--write`` also writes the
parameters to ``efficiency_specs/power.yaml``.  The page says how far the model is off with models, tasks and sources
left out, and how well power limits are followed.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import power_limits
from scipy.optimize import minimize_scalar, nnls

import roofline as rl
from roofline.efficiency.power import PowerDraw, power_model
from roofline.phases.energy import Use

HERE = Path(__file__).parent
DATA = HERE.parent / "tests" / "data" / "measurements" / "energy.csv.gz"
PARAMETERS = HERE.parent / "efficiency_specs" / "power.yaml"

Row = Mapping[str, str]
Array = npt.NDArray[np.float64]

PROMPT_TOKENS = {"gpqa": 250, "lm-arena-chat": 300, "sourcegraph-fim": 500}
"""Tokens of a prompt of the tasks of ML.ENERGY, whose files do not state them: questions and chats are short."""

USUAL_OUTPUT_TOKENS = 300
"""Where a source does not say; they decide the context of the cache alone."""

SLOWEST = 2.0
"""Measured steps up to this many times the estimate count as kernels running all the time: mixed steps and other
kernels than those timed take that much.  Beyond, the host sets the pace and the board waits: its power falls there."""

IDLE = {
    "a100-sxm-80gb": (0.153, "59-62 W of 400 W before the runs of chuyishang"),
    "h100-sxm": (0.10, "67-73 W of 700 W in seven nvidia-smi prints of free boards (2024 to 2026)"),
    "b200-sxm": (0.139, "136-144 W of 1,000 W in two nvidia-smi prints of eight free boards each (2025)"),
}
"""Accelerator -> share of its TDP that it draws with nothing to do, and where that was read."""

FAMILIES = {
    "a100-sxm-80gb": {"vendor": "NVIDIA", "architecture": "Ampere", "memory_type": "HBM"},
    "h100-sxm": {"vendor": "NVIDIA", "architecture": "Hopper"},
    "b200-sxm": {"vendor": "NVIDIA", "architecture": "Blackwell", "memory_type": "HBM"},
}
"""The accelerator that a family is fitted on -> what the specification of its members says."""

BOARDS = {"a100-sxm-80gb": "A100", "h100-sxm": "H100", "b200-sxm": "B200"}


@dataclass(frozen=True)
class Steady:
    """A measured steady state of a fitted accelerator.

    Attributes
    ----------
    row : mapping of str to str
        As the table has it.
    task : str
        Task of the benchmark, or the phase.
    share : float
        Mean power over TDP.
    duty, memory, compute : float
        What one accelerator does (see `roofline.efficiency.power`).
    expected : float
        The library's time over the measured one.
    """

    row: Row
    task: str
    share: float
    duty: float
    memory: float
    compute: float
    expected: float

    @property
    def accelerator(self) -> str:
        """Name of the accelerator."""
        return self.row["accelerator"]

    @property
    def idle(self) -> float:
        """Share of the TDP that it draws with nothing to do."""
        return IDLE[self.accelerator][0]


def read(path: Path = DATA) -> list[Row]:
    """The rows of a table."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return list(csv.DictReader(data.decode("utf-8").splitlines()))


def steady_states(rows: Sequence[Row]) -> Iterator[Steady]:
    """Rows of fitted accelerators with a model of the library, a batch and a rate, and without doubt."""
    for row in rows:
        known = row["accelerator"] in IDLE and row["library_model"] and row["watts_per_gpu"] and row["batch"]
        if known and not row["doubt"] and row["phase"] in ("serving", "request"):
            yield _steady(row)


def _steady(row: Row) -> Steady:
    serve = deployment(row)
    batch = max(round(float(row["batch"])), 1)
    task = next((name for name in PROMPT_TOKENS if name in row["note"]), row["phase"])
    prompt = int(float(row["input_tokens"] or PROMPT_TOKENS.get(task, USUAL_OUTPUT_TOKENS)))
    output = float(row["output_tokens"] or USUAL_OUTPUT_TOKENS)
    step = rl.decode(serve, rl.Workload(batch=batch), context_tokens=round(prompt + output / 2)).use
    if row["phase"] == "request":  # a batch that starts together
        first = rl.prefill(serve, rl.Workload(prompt_tokens=prompt, batch=batch)).use
        seconds = float(row["prefill_ms"]) / 1e3 + (output - 1) * float(row["tpot_ms"]) / 1e3
        used = _sum(first, step, output - 1)
    else:  # in the time of one step each sequence gets a token, and batch / output prompts are computed
        first = rl.prefill(serve, rl.Workload(prompt_tokens=prompt)).use
        seconds = batch / float(row["output_tokens_per_s"])
        used = _sum(step, first, batch / output)
    watts, tdp = float(row["watts_per_gpu"]), float(serve.accelerator.tdp_watts or np.nan)
    expected = float(used.time_s) / seconds
    duty = min(1.0, SLOWEST * expected)
    return Steady(
        row, task, watts / tdp, duty, float(used.memory_s) / seconds, float(used.compute_s) / seconds, expected
    )


def at_own_time(state: Steady) -> Steady:
    """The same in the time that the library expects, in which kernels run throughout: what a user is told."""
    memory, compute = state.memory / state.expected, state.compute / state.expected
    return replace(state, duty=1.0, memory=memory, compute=compute, expected=1.0)


def _sum(one: Use, other: Use, times: float) -> Use:
    return Use(*(a + times * b for a, b in zip(one, other, strict=True)))


FORMATS = {"fp16": "bf16", "gguf-q3_k_xl": "q3_k_s", "gguf-q4_k_xl": "q4_k_m"}


def deployment(row: Row) -> rl.Deployment:
    """What ran where: experts are spread where the source says so, all else is tensor parallelism."""
    weights = FORMATS.get(row["weights"], row["weights"].removeprefix("gguf-"))
    count, expert = int(row["accelerators"]), int(float(row["expert"] or 1))
    parallel = rl.Parallel(tensor=count, expert=expert)
    if weights == "mxfp4":  # the checkpoint's own
        return rl.Deployment(row["library_model"], row["accelerator"], parallel=parallel)
    precision = rl.Precision(weights=weights, activations="fp8" if weights == "fp8" else "bf16")
    return rl.Deployment(row["library_model"], row["accelerator"], precision=precision, parallel=parallel)


def fit(states: Sequence[Steady]) -> Array:
    """Shares for running kernels, bytes and FLOPs: least absolute relative errors, none negative.

    Boards at their limit say nothing of the form, so rows beyond it count only while it is below.
    """
    used = np.array([(each.duty, each.memory, each.compute) for each in states])
    idle, share = (np.array([getattr(each, name) for each in states]) for name in ("idle", "share"))
    weights = np.ones(len(states))
    shares = np.zeros(3)
    for _ in range(30):  # reweighted least squares
        scale = weights / share
        shares = nnls(used * scale[:, None], (share - idle) * scale)[0]
        demand = idle + used @ shares
        off = np.abs(demand / share - 1)
        at_limit = (demand > 1) & (share > NEAR_LIMIT)
        weights = np.where(at_limit, 0.0, 1 / np.sqrt(np.maximum(off, SMALL)))
    return shares


NEAR_LIMIT = 0.9
"""Boards that are held at their limit read 0.9 to 0.99 of it on average."""

SMALL = 0.02
"""Relative errors below weigh alike."""


def predicted(states: Sequence[Steady], shares: Array) -> Array:
    """Power over TDP."""
    used = np.array([(each.duty, each.memory, each.compute) for each in states])
    return np.minimum(np.array([each.idle for each in states]) + used @ shares, 1.0)


def ratios(states: Sequence[Steady], shares: Array) -> Array:
    """Measured over predicted power."""
    return np.array([each.share for each in states]) / predicted(states, shares)


def left_out(states: Sequence[Steady], group: Callable[[Steady], str]) -> dict[str, Array]:
    """Measured over predicted power of each group, predicted from the others of the same accelerator."""
    found = {}
    for name in sorted({group(each) for each in states}):
        held = [each for each in states if group(each) == name]
        rest = [each for each in states if group(each) != name]
        found[name] = ratios(held, fit(rest))
    return found


def of_accelerator(states: Sequence[Steady], name: str) -> list[Steady]:
    return [each for each in states if each.accelerator == name]


def model_of(state: Steady) -> str:
    return state.row["library_model"]


def error(ratio: Array) -> str:
    """Median, mean and 90th percentile of the relative error of power."""
    off = np.abs(1 / ratio - 1)
    return f"{np.median(off):.1%} | {np.mean(off):.1%} | {np.quantile(off, 0.9):.1%}"


def parameters(states: Sequence[Steady], rows: Sequence[Row]) -> str:
    """The text of ``efficiency_specs/power.yaml``."""
    lines = [HEAD, "families:"]
    for name, words in FAMILIES.items():
        mine = of_accelerator(states, name)
        busy, memory, compute = fit(mine)
        ratio = np.concatenate(list(left_out(mine, model_of).values()))
        low, high = np.quantile(ratio, (0.1, 0.9))
        about = ", ".join(f"{key}: {word}" for key, word in words.items())
        sources = ", ".join(sorted({each.row["source"] for each in mine}))
        lines += [
            f"  - {{{about}, boards: {BOARDS[name]}, idle: {IDLE[name][0]}, busy: {busy:.3f}, memory: {memory:.3f}, "
            f"compute: {compute:.3f},",
            f"     low: {low:.2f}, high: {high:.2f}, rows: {len(mine)}, error: {np.median(np.abs(1 / ratio - 1)):.3f},",
            f'     source: "{sources}; idle: {IDLE[name][1]}"}}',
        ]
    shares = [share for _, share in unfitted(rows)]
    lines += ["# The ends of boards whose power was not fitted: the least that was measured of any over its TDP."]
    lines += [f"others: {{idle: 0.1, low: {np.floor(100 * min(shares)) / 100:.2f}}}"]
    lines += [CAPS]
    return "\n".join(lines)


HEAD = """\
# Power over TDP: idle + busy * duty + memory * (share of bandwidth) + compute * (share of dense peak); written by
# benchmarks/energy.py from tests/data/measurements/energy.csv.gz.  `low` and `high` are measured over predicted power
# at the 10th and the 90th percentile of models left out, `error` its median relative error."""

CAPS = """\
# Power limits: what follows the clock draws in proportion to clock * voltage^2; the voltage is at its least up to the
# knee and rises in a line to that at the full clock.  All three are those that miss the clocks of four curves of an
# RTX 3090 by the least (benchmarks/energy.py); static_low is that of an RTX 5090 with locked clocks: boards differ.
caps:
  static: 0.36
  static_low: 0.13
  knee: 0.85
  voltage: 0.87
  source: "club-3090: llama.cpp on an RTX 3090 with limits of 190 to 370 W; an RTX 5090 with locked clocks"
"""


def unfitted(rows: Sequence[Row]) -> list[tuple[Row, float]]:
    """Mean power over TDP of boards without a fit, without a limit and without doubt."""
    found = []
    for row in rows:
        if not row["accelerator"] or row["accelerator"] in IDLE or row["doubt"] or not row["watts_per_gpu"]:
            continue
        gpu = rl.get_accelerator(row["accelerator"])
        limit = float(row["power_limit_w"] or 0)
        if gpu.tdp_watts is None or (limit and limit != NOMINAL_LIMIT) or power_model(gpu).fitted:
            continue
        found.append((row, float(row["watts_per_gpu"]) / float(np.max(gpu.tdp_watts))))
    return found


NOMINAL_LIMIT = 350
"""The limit of an RTX 3090 as its data sheet has it; the card of the curves has a default of 370 W."""

FULL_LIMIT = 370
"""The limit that rates and demand under lower ones are held against."""


@dataclass(frozen=True)
class Curve:
    """Speed of one pass under power limits."""

    name: str
    limits: Array
    demand: float
    speeds: Array
    clocks: Array

    @property
    def memory_share(self) -> float:
        """The share that waits for the memory, which fits best."""
        return float(minimize_scalar(lambda share: np.mean(self.off(share)), bounds=(0, 1), method="bounded").x)

    def off(self, share: float) -> Array:
        """Relative errors of the speed."""
        draw = PowerDraw.steady(self.demand)._replace(clocked_s=1.0 - share)
        return np.abs(1.0 / np.asarray(draw.time_at(draw.clock_under(self.limits))) / self.speeds - 1)


def curves(rows: Sequence[Row]) -> Iterator[Curve]:
    """The curves of an RTX 3090, up to the default limit."""
    kept = [row for row in rows if row["source"] == "club-3090" and float(row["power_limit_w"]) <= FULL_LIMIT]
    for model in sorted({row["model"] for row in kept}):
        for phase in ("prefill", "decode"):
            mine = [row for row in kept if row["model"] == model and row["phase"] == phase]
            rate = "prompt_tokens_per_s" if phase == "prefill" else "output_tokens_per_s"
            (full,) = (row for row in mine if float(row["power_limit_w"]) == FULL_LIMIT)
            limits = np.array([float(row["power_limit_w"]) for row in mine])
            speeds = np.array([float(row[rate]) / float(full[rate]) for row in mine])
            clocks = np.array([float(row["sm_clock_mhz"]) / float(full["sm_clock_mhz"]) for row in mine])
            yield Curve(f"{model}, {phase}", limits, float(full["watts_per_gpu"]), speeds, clocks)


def cap_error(found: Sequence[Curve], static: float, knee: float, voltage: float) -> float:
    """Mean relative error of the clocks of some curves, with these parameters of limits."""
    shares = [np.minimum(curve.limits / curve.demand, 1.0) for curve in found]
    clocks = [clock_of((share - static) / (1 - static), knee, voltage) for share in shares]
    return float(np.mean([np.abs(each / curve.clocks - 1) for each, curve in zip(clocks, found, strict=True)]))


def clock_of(drawn: Array, knee: float, voltage: float) -> Array:
    """The ``f`` whose ``f V^2`` is ``drawn``."""
    clocks = np.linspace(0.0, 1.0, 1001)
    volts = voltage + (1 - voltage) * np.maximum(clocks - knee, 0.0) / (1 - knee)
    return np.interp(drawn, clocks * volts**2, clocks)


def fit_caps(found: Sequence[Curve]) -> tuple[float, float, float]:
    """The static share, the knee and the voltage that miss the clocks of some curves by the least, on a coarse grid."""
    grid = product(np.arange(20, 50, 2) / 100, np.arange(60, 100, 5) / 100, np.arange(75, 98, 2) / 100)
    return min(grid, key=lambda caps: cap_error(found, *caps))


def page(states: Sequence[Steady], rows: Sequence[Row]) -> str:
    """The whole page."""
    fits = [*_fits(states), *_sources(states), *_batches(states), *_others(rows)]
    return "\n".join([INTRODUCTION, *fits, *_curves(rows), *power_limits.lines()])


INTRODUCTION = """\
# Power and energy against measured boards

Mean power of boards (NVML) in measured steady states, compared with the modeled power for the same bytes, FLOPs and
time (`roofline/efficiency/power.py`). The time is the measured one, so only the power is judged. Doubtful rows are left
out. The parameters are in `efficiency_specs/power.yaml`. The ML.ENERGY files do not state prompt lengths, which are
assumed to be short (250 to 500 tokens). A step that takes up to twice its estimate counts as running kernels all the
time; in a longer one the board waits. Of the six factors tried on these rows (1, 1.3, 1.5, 2, 2.5 and no limit: pooled
median errors of 12.5, 11.9, 10.2, 9.8, 10.6 and 11.7 %), 2 was chosen, so all errors on this page are somewhat
optimistic, including those of models left out.
"""

MEASURES = "median | mean | 90th percentile"
RULE = "| --- | ---: " + "| ---: " * 3 + "|"


BY_ACCELERATOR = """## By accelerator

Relative error of power. "In the library's own time" means that a step takes its estimate and not the measured time, as
in the results that users see. Servers of 2023 (A100) were slower, so their boards waited more.
"""


def _fits(states: Sequence[Steady]) -> Iterator[str]:
    yield BY_ACCELERATOR
    errors = " | ".join(f"{name}: {MEASURES}" for name in ("fitted", "models left out", "tasks left out"))
    yield f"| accelerator | rows | {errors} | in the library's own time: median | TDP: median |"
    yield "| --- | ---: " + "| ---: " * 11 + "|"
    for name in FAMILIES:
        mine = of_accelerator(states, name)
        columns = [error(ratios(mine, fit(mine)))]
        for group in (model_of, _task):
            apart = (
                left_out(mine, group) if len({each.row["source"] for each in mine}) == 1 or group is model_of else {}
            )
            columns.append(error(np.concatenate(list(apart.values()))) if apart else "– | – | –")
        own = np.median(np.abs(1 / ratios([at_own_time(each) for each in mine], fit(mine)) - 1))
        tdp = np.median([abs(1 / each.share - 1) for each in mine])
        yield f"| {name} | {len(mine)} | {' | '.join(columns)} | {own:.1%} | {tdp:.1%} |"


def _task(state: Steady) -> str:
    return state.task


SOURCES = """
## Sources left out

Each source, and each accelerator, predicted with a single set of shares fitted to all the others. This shows how good
the model is where nothing was measured.
"""


def _sources(states: Sequence[Steady]) -> Iterator[str]:
    yield SOURCES
    yield f"| source left out | rows | {MEASURES} | measured over predicted, median |\n{RULE}---: |"
    for name, ratio in left_out(states, lambda each: each.row["source"]).items():
        yield f"| {name} | {len(ratio)} | {error(ratio)} | {np.median(ratio):.2f} |"
    for name, ratio in left_out(states, lambda each: each.accelerator).items():
        yield f"| all of {name} | {len(ratio)} | {error(ratio)} | {np.median(ratio):.2f} |"


BATCHES = ((1, 12), (13, 48), (49, 199), (200, 5000))


def _batches(states: Sequence[Steady]) -> Iterator[str]:
    yield "\n## By batch\n\nMeasured power divided by TDP, and by the model fitted to the accelerator.\n"
    yield "| accelerator | batch | rows | over TDP, median | over the model, median |"
    yield "| --- | --- | ---: | ---: | ---: |"
    for name in FAMILIES:
        mine = of_accelerator(states, name)
        shares = fit(mine)
        for low, high in BATCHES:
            here = [each for each in mine if low <= float(each.row["batch"]) < high + 1]
            if here:
                share, ratio = np.median([each.share for each in here]), np.median(ratios(here, shares))
                yield f"| {name} | {low} to {high} | {len(here)} | {share:.2f} | {ratio:.2f} |"


NOT_FITTED = """
## Not fitted: the TDP is an upper bound

There are too few steady states, or they differ too much: single streams of llama.cpp unpack weights. Measured mean
power divided by TDP.
"""


def _others(rows: Sequence[Row]) -> Iterator[str]:
    yield NOT_FITTED
    yield "| accelerator | rows | least | median | most |\n| --- | ---: | ---: | ---: | ---: |"
    shares: dict[str, list[float]] = {}
    for row, share in unfitted(rows):
        shares.setdefault(row["accelerator"], []).append(share)
    for name, found in sorted(shares.items()):
        yield f"| {name} | {len(found)} | {min(found):.2f} | {np.median(found):.2f} | {max(found):.2f} |"


LIMITS = """
## Power limits

Speed and clock of an RTX 3090 under limits of 190 to 370 W, relative to 370 W. The share `m` of the pass that waits for
memory is chosen for each curve.
"""


def _curves(rows: Sequence[Row]) -> Iterator[str]:
    yield LIMITS
    yield "| curve | m | median error | mean | largest | clock: mean error |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for curve in curves(rows):
        share = curve.memory_share
        off = curve.off(share)
        clock = np.mean(np.abs(np.asarray(PowerDraw.steady(curve.demand).clock_under(curve.limits)) / curve.clocks - 1))
        errors = " | ".join(f"{value:.1%}" for value in (np.median(off), np.mean(off), np.max(off), clock))
        yield f"| {curve.name} | {share:.2f} | {errors} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, default=DATA)
    parser.add_argument("-o", "--output", type=Path, default=HERE / "energy.md")
    parser.add_argument("--write", action="store_true", help="write efficiency_specs/power.yaml too")
    asked = parser.parse_args()
    rows = read(asked.file)
    states = list(steady_states(rows))
    if asked.write:
        PARAMETERS.write_text(parameters(states, rows), encoding="utf-8")
    asked.output.write_text(page(states, rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
