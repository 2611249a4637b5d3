"""Whole servers under load against what the simulation of them says.

    python benchmarks/serving.py [FILE] [-o PAGE] [--plot PICTURE] [--every N] [--fit N]

FILE is ``serving_runs.csv``, the tests' own by default.  Every aggregated run is simulated step by step with the launch
options of its benchmark: two minutes.  ``--fit N`` fits the times of the host to one run of N first
(`roofline.serving.server_fit`; a quarter of an hour for N = 1), in the sample and with each pair of a model and an
accelerator left out, and prints the values for ``engine_specs``, from which the fit starts.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path

import numpy as np

import roofline as rl
from roofline.serving import server_fit
from roofline.serving.arrivals import ROUNDS, Demand
from roofline.serving.cache_pool import cache_pool
from roofline.serving.outcome import interval
from roofline.serving.server_fit import Parameter, ServerRun
from roofline.serving.simulation import run as simulate_with
from roofline.serving.step_times import step_times

HERE = Path(__file__).parent
sys.path.append(str(HERE))  # where this file is loaded by its path

from serving_launch import degrees, launched, precision  # noqa: E402

DATA = HERE.parent / "tests" / "data" / "measurements" / "serving_runs.csv.gz"


@dataclass(frozen=True)
class Measured:
    """A measured run and what the library makes of it."""

    row: Mapping[str, str]
    run: ServerRun

    def word(self, name: str) -> str:
        """A column of the table."""
        return self.row[name]

    @property
    def prompt_tokens(self) -> float:
        """Mean tokens of a prompt."""
        load = self.run.load
        return float(load.mean_prompt_tokens if isinstance(load, rl.Traffic) else load.prompt_tokens)

    @property
    def format(self) -> str:
        """The format that the table names."""
        return self.row["precision"] or "bf16"


def rows(path: Path = DATA) -> list[dict[str, str]]:
    """Aggregated runs."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return [row for row in csv.DictReader(file) if row["mode"] == "agg"]


def undoubted(row: Mapping[str, str]) -> bool:
    """Whether a run can be fitted: no doubt, no speculation, a known concurrency, and not listed twice."""
    known = not row["doubt"] and not row["speculative"] and bool(row["concurrency_in_flight"])
    return known and not is_copy(row)


def is_copy(row: Mapping[str, str]) -> bool:
    """Whether a row repeats another: the vendor's runs of Kimi K2.5 are those of InferenceX, to the last digit."""
    return row["source_kind"] != "inferencex" and row["library_model"] == "kimi-k2.5"


@cache
def deployment(
    model: str, accelerator: str, formats: rl.Precision, engine: rl.Engine, layout: tuple[int, int, int]
) -> rl.Deployment:
    tensor, data, expert = layout
    moe_tensor = data if data > 1 and expert == 1 else None  # replicas of attention that share one set of experts
    found = rl.Deployment(
        rl.get_model(model),
        rl.get_accelerator(accelerator),
        precision=formats,
        parallel=rl.Parallel(tensor=tensor, data=data, expert=expert, moe_tensor=moe_tensor),
        engine=engine,
    )
    if cache_pool(found, found.server).pool_bytes > 0:
        return found
    return found.replace(engine=engine.replace(memory_fraction=RAISED_FRACTION))


RAISED_FRACTION = 0.97
"""Share of memory of servers that ran although the default leaves none beside the weights; the runs do not state it."""


@cache
def between(prompt: int, output: int) -> rl.Traffic:
    """Lengths drawn evenly from 80 to 100 % of the most, as the public runs have them."""
    return rl.Traffic.between((0.8 * prompt, prompt), (0.8 * output, output))


def lengths(row: Mapping[str, str]) -> rl.Workload | rl.Traffic:
    """Lengths of the requests of a run: drawn, or fixed, so that requests that start together stay in step."""
    prompt, output = (int(float(row[name])) for name in ("input_tokens_max", "output_tokens_max"))
    if row["source_kind"] == "inferencex":
        return between(prompt, output)
    return rl.Workload(prompt, output)


def measured(row: Mapping[str, str]) -> Measured:
    """A row as a run of the library."""
    serve = deployment(row["library_model"], row["accelerator"], precision(row), launched(row), degrees(row))
    return Measured(
        row,
        ServerRun(
            serve,
            lengths(row),
            float(row["concurrency_in_flight"]),
            float(row["tpot_mean_ms"]) / 1e3,
            float(row["ttft_mean_ms"]) / 1e3,
            f"{row['library_model']} on {row['accelerator']}",
        ),
    )


@dataclass(frozen=True)
class Result:
    """What a simulation of a measured run says."""

    measured: Measured
    tpot_s: float
    ttft_s: float
    step_s: float
    running: float
    queue_s: float

    @property
    def tpot_miss(self) -> float:
        """Relative error of the time per output token."""
        return self.tpot_s / self.measured.run.tpot_s - 1

    @property
    def ttft_miss(self) -> float:
        """Relative error of the time to first token."""
        return self.ttft_s / self.measured.run.ttft_s - 1


def simulated(each: Measured, values: Mapping[Parameter, float] | None = None) -> Result:
    """A run simulated with the engine's times of the host, or with given ones."""
    run = each.run
    times = step_times(run.deployment)
    if values is not None:
        times = replace(times, engine=server_fit.with_values(times.engine, values))
    clients = int(run.concurrency)
    how = Demand(clients, None, 1.0, ROUNDS * clients, 0, 0.0)
    found = simulate_with(run.deployment, run.load, how, times)
    steps = sum(tally.steps for tally in found.tallies)
    plain_s = sum(tally.busy_s - tally.prompts_s for tally in found.tallies) / max(steps, 1)
    return Result(each, found.tpot_s, found.ttft_s, plain_s, found.running_batch, found.queue_s)


# Fit ------------------------------------------------------------------------------------------------------------------

FIRST_TOKEN = ("request_s of sglang", "request_token_s", "first_token_steps", "request_s of vllm")
"""What a first token takes beside its queue and its passes: a time of each request, one of each token of its prompt,
and decode steps, as a scheduler that works ahead has its next step filled when a request comes."""


@dataclass(frozen=True, eq=False)
class Linear:
    """Simulations of all runs around some values of the host's times, and their slopes.

    A closed form has other slopes than the simulation where requests move in step with each other, so that the fit
    follows the simulation itself, as a line around its start.

    Attributes
    ----------
    start : mapping of Parameter to float
        Values at which the runs were simulated.
    measured_tpot_s, measured_ttft_s : array
        What was measured.
    tpot_log, ttft_s, step_s : array
        Logarithm of the simulated time per output token; time to first token without what is beside queue and passes;
        a decode step.
    tpot_slopes, ttft_slopes : array
        Of the first two, ``[runs, parameters]``.
    columns : array
        What `FIRST_TOKEN` multiply, ``[runs, 4]``.
    """

    start: Mapping[Parameter, float]
    measured_tpot_s: np.ndarray
    measured_ttft_s: np.ndarray
    tpot_log: np.ndarray
    ttft_s: np.ndarray
    tpot_slopes: np.ndarray
    ttft_slopes: np.ndarray
    columns: np.ndarray

    def _moved(self, values: Mapping[Parameter, float]) -> np.ndarray:
        return np.array([values.get(each, at) - at for each, at in self.start.items()])

    def tpot_errors(self, values: Mapping[Parameter, float]) -> np.ndarray:
        """Logarithm of predicted over measured time per output token."""
        return self.tpot_log + self.tpot_slopes @ self._moved(values) - np.log(self.measured_tpot_s)

    def queue_and_passes_s(self, values: Mapping[Parameter, float]) -> np.ndarray:
        """Time to first token without what is beside queue and passes."""
        return self.ttft_s + self.ttft_slopes @ self._moved(values)

    def where(self, chosen: np.ndarray) -> Linear:
        """Some of the runs."""
        names = [field.name for field in fields(self)][1:]
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})

    def first_token(self, values: Mapping[Parameter, float]) -> np.ndarray:
        """Values of `FIRST_TOKEN`."""
        known = np.isfinite(self.measured_ttft_s)
        passes_s = self.queue_and_passes_s(values)[known]
        measured_s = self.measured_ttft_s[known]
        return server_fit.fit_first_token(measured_s - passes_s, self.columns[known], measured_s)

    def ttft_errors(self, values: Mapping[Parameter, float], first: np.ndarray) -> np.ndarray:
        """Relative error of the time to first token."""
        return (self.queue_and_passes_s(values) + self.columns @ first) / self.measured_ttft_s - 1


REACH = 0.3
"""Spreads of a parameter over which a slope is taken."""


def linear(every: Sequence[Measured], start: Mapping[Parameter, float]) -> Linear:
    """Simulate all runs at ``start`` and with one parameter after the other moved."""
    known: list[Result] = []

    def simulated_at(values: Mapping[Parameter, float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        again = [not known or server_fit.moves(each.run, start, values) for each in every]
        found = [
            simulated(each, values) if moved else known[at]
            for at, (each, moved) in enumerate(zip(every, again, strict=True))
        ]
        known[:] = known or found
        print(".", end="", flush=True)
        columns = ([each.tpot_s for each in found], [each.ttft_s for each in found], [each.step_s for each in found])
        return tuple(map(np.array, columns))  # type: ignore[return-value]

    tpot_s, ttft_s, step_s = simulated_at(start)
    tpot_slopes, ttft_slopes = [], []
    for parameter, value in start.items():
        step = REACH * parameter.spread
        moved_tpot_s, moved_ttft_s, _ = simulated_at({**start, parameter: value + step})
        tpot_slopes.append(np.log(moved_tpot_s / tpot_s) / step)
        ttft_slopes.append((moved_ttft_s - ttft_s) / step)
    lengths = np.array([each.prompt_tokens for each in every])
    engines = np.array([each.word("engine") for each in every])
    of_sglang, of_vllm = ((engines == name).astype(float) for name in ("sglang", "vllm"))
    columns = np.stack([of_sglang, lengths, step_s, of_vllm], axis=1)
    return Linear(
        start,
        np.array([each.run.tpot_s for each in every]),
        np.array([each.run.ttft_s for each in every]),
        np.log(tpot_s),
        ttft_s - columns @ beside_of_today(),
        np.stack(tpot_slopes, axis=1),
        np.stack(ttft_slopes, axis=1),
        columns,
    )


def beside_of_today() -> np.ndarray:
    """The values that ``engine_specs`` has of `FIRST_TOKEN`; an older vLLM takes one step less, then as after a fit."""
    sglang, vllm = rl.Engine("sglang"), rl.Engine("vllm")
    return np.array([sglang.request_s, sglang.request_token_s, sglang.first_token_steps, vllm.request_s], dtype=float)


@dataclass(frozen=True, eq=False)
class Fit:
    """Times of the host, and the errors of runs whose model and accelerator had no part in the fit.

    Attributes
    ----------
    values : mapping of Parameter to float
        In the sample.
    first_token : array
        Values of `FIRST_TOKEN`.
    tpot_errors, ttft_errors : array
        Relative errors of runs left out.
    public : array
        Whether a run is one of InferenceX.
    """

    values: Mapping[Parameter, float]
    first_token: np.ndarray
    tpot_errors: np.ndarray
    ttft_errors: np.ndarray
    public: np.ndarray


def fitted(table: Linear, every: Sequence[Measured], sought: Sequence[Parameter]) -> Fit:
    """The host's times from all runs, and the errors of each group by a fit without it."""
    groups = np.array([each.run.group for each in every])
    public = np.array([each.word("source_kind") == "inferencex" for each in every])
    values = server_fit.least(table.tpot_errors, sought)
    tpot, ttft = np.empty(len(groups)), np.empty(len(groups))
    for group in np.unique(groups):
        mine = groups == group
        others, own = table.where(~mine), table.where(mine)
        theirs = server_fit.least(others.tpot_errors, sought)
        tpot[mine] = np.expm1(own.tpot_errors(theirs))
        ttft[mine] = own.ttft_errors(theirs, others.first_token(theirs))
    return Fit(values, table.first_token(values), tpot, ttft, public)


def of_today(parameter: Parameter) -> float:
    """The value that ``engine_specs`` has of a parameter, 0 where its engine states none."""
    name, version = parameter.older[0] if parameter.older else (parameter.engine or "vllm", "")
    release = "0" if parameter.older else version
    if not parameter.engine and not parameter.older and parameter.name == "prefill_factor":
        name = "sglang"
    return float(getattr(rl.Engine(name, version=release), parameter.name) or 0.0)


def printed(values: Mapping[Parameter, float]) -> str:
    """Fitted values as a table."""
    lines = ["| parameter | value |", "|---|---:|"]
    for parameter, value in values.items():
        shown = f"{value * 1e6:,.1f} us" if parameter.name.endswith("_s") else f"{value:.3f}"
        lines.append(f"| {parameter} | {shown} |")
    return "\n".join(lines)


# Page -----------------------------------------------------------------------------------------------------------------


def line(name: str, misses: Sequence[float], first: Sequence[float]) -> str:
    """A row of a table: how many, mean and median error, bias, error of the first token."""
    off, late = np.abs(misses), np.abs([miss for miss in first if not math.isnan(miss)])
    ttft = f"{np.median(late):.1%}" if late.size else "–"
    return (
        f"| {name} | {len(off)} | {off.mean():.1%} | {np.median(off):.1%} | {np.median(misses):+.1%} "
        f"| {np.quantile(off, 0.9):.1%} | {ttft} |"
    )


def table(title: str, results: Iterable[Result], key: Callable[[Result], str]) -> str:
    """Errors by a word of the runs."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(key(result), []).append(result)
    head = f"| {title} | runs | TPOT mean | median | bias | p90 | TTFT median |\n|---|---:|---:|---:|---:|---:|---:|"
    body = [
        line(name, [r.tpot_miss for r in group], [r.ttft_miss for r in group]) for name, group in sorted(groups.items())
    ]
    return "\n".join([head, *body])


def concurrency_band(result: Result) -> str:
    """Clients in powers of four."""
    clients = result.measured.run.concurrency
    low = 4 ** int(math.log(clients, 4) + 1e-9)
    return f"{low:>5,} to {4 * low - 1:,}"


def bound_of_data(results: Sequence[Result]) -> float:
    """Mean error that one factor for each model, accelerator, engine and format would leave."""
    groups: dict[tuple[str, ...], list[float]] = {}
    for result in results:
        row = result.measured.row
        key = (row["library_model"], row["accelerator"], row["engine"], row["precision"])
        groups.setdefault(key, []).append(1 + result.tpot_miss)
    return float(np.mean([abs(ratio / np.median(group) - 1) for group in groups.values() for ratio in group]))


def is_inside(results: Sequence[Result], misses: Sequence[float]) -> np.ndarray:
    """Whether the 80% interval of a step, around estimates off by ``misses``, holds the measured time."""
    inside = []
    for result, miss in zip(results, misses, strict=True):
        run = result.measured.run
        low, high = interval(step_times(run.deployment), result.running, run.load)
        inside.append(low * (1 + miss) <= 1 <= high * (1 + miss))
    return np.array(inside)


def coverage(results: Sequence[Result], found: Fit | None) -> list[str]:
    """Share of the measured times in their intervals, by engine and format; with a fit also of runs left out of it."""
    kinds = {"in the sample": is_inside(results, [r.tpot_miss for r in results])}
    if found is not None and len(found.tpot_errors) == len(results):
        kinds["left out"] = is_inside(results, found.tpot_errors.tolist())
    names = np.array([f"{r.measured.word('engine')}, {r.measured.format}" for r in results])
    lines = [f"| engine, format | runs | {' | '.join(kinds)} |", "|---|---:|" + "---:|" * len(kinds)]
    for name in ("all", *np.unique(names)):
        mine = (names == name) | (name == "all")
        shares = " | ".join(f"{inside[mine].mean():.0%}" for inside in kinds.values())
        lines.append(f"| {name} | {mine.sum()} | {shares} |")
    return lines


def left_out_line(name: str, tpot: np.ndarray, ttft: np.ndarray) -> str:
    """A row of the errors of runs that had no part in the fit."""
    return line(name, tpot.tolist(), ttft.tolist())


def of_fit(found: Fit) -> list[str]:
    """Errors left out, and fitted values."""
    tpot, ttft, public = found.tpot_errors, found.ttft_errors, found.public
    first = [f"| {name} | {value:.3g} |" for name, value in zip(FIRST_TOKEN, found.first_token, strict=True)]
    return [
        left_out_line("all, model and accelerator left out", tpot, ttft),
        left_out_line("InferenceX, model and accelerator left out", tpot[public], ttft[public]),
        "",
        "## Fitted times of the host",
        "",
        "Steps and slopes come from the simulation itself. Candidates that explain the fitted runs but not the runs "
        "left out did not become parameters: step times of current releases, a share of launches other than the one "
        "of separately measured steps (0.45), a time per rank, factors by engine for TensorRT-LLM and SGLang, by "
        "format or by architecture, another skew of routing, a time per layer of TensorRT-LLM of any "
        "model, and the small kernels of a decode step that have no timings, counted by model. The time per layer with "
        "latent attention under TensorRT-LLM lowers the errors of its runs left out from 14.6 to 6.5 % for DeepSeek-R1 "
        "and from 19.6 to 7.1 % for DeepSeek-V3. With it a step of one sequence on eight B200 takes 6.2 ms; "
        "NVIDIA's blog posts on the latency of DeepSeek-R1 imply 6.3 (368 tokens/s, 2.33 times those without drafts).",
        "",
        printed(found.values),
        *first,
    ]


KNOWN_CAUSES = (
    "## Remaining errors and their causes",
    "",
    "- Public runs before 2026-01-21 had no warm-up requests, so SGLang compiled kernels while the first clients "
    "waited. One stall of 55 to 90 s explains why DeepSeek-R1 in FP4 had mean times to first token of 5 to 9 s in "
    "November 2025, and why its times per token were 10 to 30 % above those of March 2026.",
    "- Hosts differ. With the same release and options, Kimi K2.5 takes 84 ms to its first token on B300 and 177 ms "
    "on B200, although both only launch one kernel after the other; GLM-5 is similar. No run names its host.",
    "- DeepSeek in FP8 under SGLang on eight H200 takes about 40 us a layer less than simulated, with four clients as "
    "with 64. Its experts fill most of a layer (100 of 190 us with four); their kernel was timed with 256 "
    "experts, while SGLang runs 257 with the shared one, for which it ships settings of its own (pull requests 5571 "
    "and 6885).",
    "- gpt-oss on one or two B200 is simulated too slow with 16 to 128 clients, and not on eight: its experts take as "
    "long as the bytes that evenly spread tokens would read (147 of 141 us a layer with 32 sequences), so its "
    "tokens agree on experts more than assumed. No skew of routing that explains it lowers the errors of other models.",
    "- vLLM's runs of Llama-3.1-70B in FP8 on B200 take 17 us a layer less than simulated: their launch script fuses "
    "quantization into all-reduces, attention and activations (``pass_config``), while the timings of products "
    "include a kernel that quantizes.",
    "- One client of the vendor's runs of Llama-3.1-8B waited for a slot, by all signs (`ONE_WAITS` in "
    "benchmarks/serving_launch.py); with a slot for each client, the median error of their times to first token "
    "would be 36 %.",
    "- TensorRT-LLM runs DeepSeek in FP8 on eight B200 12 % slower than simulated with four clients, and as fast with "
    "eight to 32. The expert kernel in its timings (DeepGEMM, 127 us per layer) is not the one that the launch script "
    "selects, which was timed with SGLang (64 us); the runs would imply 90 us.",
    "- vLLM's documentation says that data-parallel ranks that share experts step together. 24 runs of MiniMax M2.5 "
    "are closer to ranks that do not wait for each other: their times per token are 6 % off on average, and 10 % if "
    "every prompt makes the other ranks wait (15 % with prompts of 8,192 tokens).",
    "- On H100, vLLM processes prompts of dense models in 25 % less time than simulated, which is the time of the "
    "kernels alone. Steps that mix prompts with many running sequences take as long as simulated. On B200, both do.",
    "- TensorRT-LLM 1.0.0rc3 sends at most 12,500 to 13,000 tokens/s; five runs of Llama-3.1-8B with 64 and 128 "
    "clients are simulated at up to 17,500.",
    "- On two or four B200 with data-parallel attention, the experts of gpt-oss take about two thirds of their "
    "estimate: with 64 and 128 clients, times per token are 30 % shorter than simulated.",
    "",
    "One measured queue of Llama-3.1-70B (FP8, two H100) has a mean time to first token of 0.18 s at 70 % of its "
    "capacity, 0.42 s at 85 % and 17.8 s at 100 %, with 99th percentiles of 0.67, 3.9 and 32.7 s. It behaves like an "
    "engine that reserves the full length of each sequence (TensorRT-LLM): 2,000 equal requests with prompts of 1,500 "
    "tokens and outputs of 2,000, in Poisson arrivals, are simulated with means of 0.19, 0.31 and 11 s and "
    "percentiles of 0.33, 4.4 and 35 s. If pages are allocated as sequences grow, or outputs are short, the "
    "percentile does not jump between 70 and 85 %.",
)
"""Residuals whose cause is known, or has been looked for."""


def page(
    every: Sequence[Mapping[str, str]],
    results: Sequence[Result],
    found: Fit | None,
    picture: str,
    further: Sequence[str] = (),
) -> str:
    """The page; ``further`` are the lines of other kinds of runs."""
    doubts = Counter(row["doubt"] or row["speculative"] or "no concurrency" for row in every if not undoubted(row))
    mine = np.array([r.measured.word("source_kind") == "inferencex" for r in results])
    public = [r for r, own in zip(results, mine, strict=True) if own]
    parts = [
        "# Whole servers under load",
        "",
        "Mean times of public closed-loop runs compared with a simulation of every scheduler step; `python "
        "benchmarks/serving.py --fit 1` writes this page. Kernels are estimated from their own timings; a server adds "
        "the host times in `engine_specs`. Errors are relative; bias is the median of the signed error.",
        "",
        f"{len(results):,} runs without doubts, of {len({r.measured.run.group for r in results})} pairs of a model "
        "and an accelerator; all of them are simulated. With a factor for each model, accelerator, engine and format "
        f"an error of {bound_of_data(results):.1%} would remain, the limit of this data.",
        "",
        f"![measured against simulated]({picture})" if picture else "",
        "",
        "| runs | runs | TPOT mean | median | bias | p90 | TTFT median |",
        "|---|---:|---:|---:|---:|---:|---:|",
        line("all", [r.tpot_miss for r in results], [r.ttft_miss for r in results]),
        line("InferenceX", [r.tpot_miss for r in public], [r.ttft_miss for r in public]),
    ]
    if found is not None:
        parts += of_fit(found)
    for title, key in (
        ("engine", lambda r: r.measured.word("engine")),
        ("accelerator", lambda r: r.measured.word("accelerator")),
        ("format", lambda r: r.measured.format),
        ("model", lambda r: r.measured.word("library_model")),
        ("clients", concurrency_band),
        (
            "model, accelerator, engine, format",
            lambda r: ", ".join((r.measured.run.group, r.measured.word("engine"), r.measured.format)),
        ),
    ):
        parts += ["", f"## By {title}", "", table(title, results, key)]
    parts += ["", "## Measured times in the 80 % interval of a step", "", *coverage(results, found)]
    parts += ["", *further, "", *KNOWN_CAUSES]
    parts += ["", "## Excluded runs", "", "| reason | runs |", "|---|---:|"]
    parts += [f"| {reason} | {count} |" for reason, count in doubts.most_common()]
    return "\n".join(parts) + "\n"


def draw(results: Sequence[Result], path: Path) -> None:
    """Measured against simulated, on one diagonal each."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5))
    for axes, name, get in (
        (left, "time per output token", lambda r: (r.measured.run.tpot_s, r.tpot_s)),
        (right, "time to first token", lambda r: (r.measured.run.ttft_s, r.ttft_s)),
    ):
        for engine in sorted({r.measured.word("engine") for r in results}):
            points = np.array([get(r) for r in results if r.measured.word("engine") == engine])
            axes.loglog(points[:, 0], points[:, 1], ".", ms=3, label=engine, alpha=0.6)
        ends = np.array(axes.get_xlim())
        axes.plot(ends, ends, color="0.4", lw=0.8)
        axes.set(xlabel=f"measured {name}, s", ylabel="simulated, s", title=name)
    left.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def further_runs() -> list[str]:
    """Lines of runs that are no closed loops of one pool."""
    import serving_open
    import serving_pools

    at_rates = [serving_open.simulated(row) for row in serving_open.rows()]
    apart = serving_pools.rows()
    on_pools = [serving_pools.simulated(row) for row in apart if not serving_pools.doubt(row)]
    return [*serving_open.section(at_rates), "", *serving_pools.section(apart, on_pools)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=DATA)
    parser.add_argument("-o", "--output", type=Path, default=HERE / "serving.md")
    parser.add_argument("--plot", type=Path, default=HERE / "serving.png")
    parser.add_argument("--every", type=int, default=1, help="one run of so many, for a quick look")
    parser.add_argument("--fit", type=int, default=0, metavar="N", help="fit the host's times to one run of N")
    options = parser.parse_args()
    every = rows(options.file)
    kept = [measured(row) for row in every if undoubted(row)][:: options.every]
    found = None
    if options.fit:
        sought, some = server_fit.parameters(), kept[:: options.fit]
        table_of_runs = linear(some, {each: of_today(each) for each in sought})
        found = fitted(table_of_runs, some, sought)
        print()
        print(printed(found.values), *found.first_token)
    results = [simulated(each) for each in kept]
    draw(results, options.plot)
    whole = page(every, results, found, options.plot.name, further_runs())
    options.output.write_text(whole, encoding="utf-8")
    print(options.output.read_text().split("## By")[0])


if __name__ == "__main__":
    main()
