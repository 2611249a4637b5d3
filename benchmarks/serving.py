"""Whole servers under load against what the simulation of them says.

    python benchmarks/serving.py [FILE] [-o PAGE] [--plot PICTURE] [--fit]

FILE is ``serving_runs.csv``, the tests' own by default.  Every aggregated run is simulated step by step with the launch
options of its benchmark.  ``--fit`` fits the times of the host (`roofline.serving.server_fit`) first, in the sample and
with each pair of a model and an accelerator left out, and prints the values for ``engine_specs``.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

import roofline as rl
from roofline.serving import server_fit
from roofline.serving.arrivals import ROUNDS, Demand
from roofline.serving.server_fit import Parameter, ServerRun
from roofline.serving.simulation import run as simulate_with
from roofline.serving.step_times import step_times

HERE = Path(__file__).parent
DATA = HERE.parent / "tests" / "data" / "measurements" / "serving_runs.csv.gz"

BLACKWELL = ("b200-sxm", "b300-sxm", "gb200", "gb300")
EXPERTS_ALONE = (
    "deepseek-r1",
    "deepseek-v3",
    "deepseek-v3.1",
    "glm-5",
    "kimi-k2.5",
    "minimax-m2.5",
    "qwen3.5-397b-a17b",
)
"""Models whose NVFP4 checkpoints keep attention in 16 bits (nvidia/DeepSeek-R1-NVFP4 and its kin)."""

BLOCK_SCALES = (
    "deepseek-r1",
    "deepseek-v3",
    "deepseek-v3.1",
    "glm-5",
    "minimax-m2.5",
    "qwen3-235b-a22b",
    "qwen3.5-397b-a17b",
)
"""Models whose FP8 checkpoints have scales for blocks of 128 x 128."""


@dataclass(frozen=True)
class Measured:
    """A measured run and what the library makes of it."""

    row: Mapping[str, str]
    run: ServerRun

    def word(self, name: str) -> str:
        """A column of the table."""
        return self.row[name]

    @property
    def format(self) -> str:
        """The format that the table names."""
        return self.row["precision"] or "bf16"


def rows(path: Path = DATA) -> list[dict[str, str]]:
    """Aggregated runs."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return [row for row in csv.DictReader(file) if row["mode"] == "agg"]


def undoubted(row: Mapping[str, str]) -> bool:
    """Whether a run can be fitted: no doubt, no speculation, a known concurrency."""
    return not row["doubt"] and not row["speculative"] and bool(row["concurrency_in_flight"])


@cache
def precision(model: str, accelerator: str, engine: str, label: str, public: bool) -> rl.Precision:
    """Formats of weights, activations and cache, as the checkpoints and the launch options have them."""
    own = rl.get_model(model).precision
    kv = cache_format(model, accelerator, engine, label) if public else "bf16"
    kept = dict(own.exceptions) if own else {}
    if model == "gpt-oss-120b":
        fed = "mxfp8" if accelerator in BLACKWELL else "bf16"
        return rl.Precision(weights="mxfp4", activations=fed, kv=kv, exceptions=kept)
    if label == "int4" and own:
        return rl.Precision(weights=own.weights, activations="bf16", kv=kv, exceptions=kept)
    if label == "fp8":
        return rl.Precision(weights="fp8_block" if model in BLOCK_SCALES else "fp8", activations="fp8", kv=kv)
    if label == "fp4":
        parts = {"attention": "bf16"} if model in EXPERTS_ALONE else {}
        return rl.Precision(weights="nvfp4", activations="nvfp4", kv=kv, exceptions=parts)
    return rl.Precision(kv=kv)


def cache_format(model: str, accelerator: str, engine: str, label: str) -> str:
    """``--kv-cache-dtype`` of the public launch scripts (github.com/SemiAnalysisAI/InferenceX, benchmarks)."""
    if engine == "trtllm":
        return "fp8"
    eight = label not in ("bf16", "int4") and (accelerator in BLACKWELL or model.startswith("qwen3.5"))
    return "fp8" if eight else "bf16"


def launched(row: Mapping[str, str]) -> rl.Engine:
    """The engine with the options of the public launch scripts; the defaults of the day for a vendor's own runs."""
    engine, prompt = row["engine"], int(float(row["input_tokens_max"]))
    clients = int(float(row["concurrency_in_flight"]))
    public = row["source_kind"] == "inferencex"
    version = row["engine_version"]
    if engine == "trtllm":
        most = 20_000 if row["library_model"] == "gpt-oss-120b" else max(8192, clients + prompt + 128)
        return rl.Engine(engine, version=version, step_tokens=most)
    if engine == "vllm":
        twice = public and row["library_model"] == "minimax-m2.5" and row["accelerator"] != "h100-sxm"
        return rl.Engine(engine, version=version, step_tokens=2 * prompt if twice else 8192)
    if not public:
        return rl.Engine(engine, version=version, step_tokens=8192)
    small = row["library_model"].startswith("qwen3.5") or row["precision"] == "fp4"
    rarely = row["accelerator"] in BLACKWELL and (row["library_model"], row["precision"]) != ("glm-5", "fp8")
    interval = 1
    if rarely:
        interval = 30 if clients >= 16 else 10
    return rl.Engine(engine, version=version, step_tokens=16_384 if small else 32_768, receive_interval=interval)


@cache
def deployment(
    model: str, accelerator: str, formats: rl.Precision, engine: rl.Engine, degrees: tuple[int, int, int]
) -> rl.Deployment:
    tensor, data, expert = degrees
    return rl.Deployment(
        rl.get_model(model),
        rl.get_accelerator(accelerator),
        precision=formats,
        parallel=rl.Parallel(tensor=tensor, data=data, expert=expert),
        engine=engine,
    )


@cache
def between(prompt: int, output: int) -> rl.Traffic:
    """Lengths drawn evenly from 80 to 100 % of the most, as the public runs have them."""
    share = np.linspace(0.8, 1.0, 33)
    prompts, outputs = np.meshgrid(share * prompt, share * output)
    return rl.Traffic(prompts.ravel(), outputs.ravel(), np.ones(prompts.size))


def measured(row: Mapping[str, str]) -> Measured:
    """A row as a run of the library."""
    public = row["source_kind"] == "inferencex"
    prompt, output = (int(float(row[name])) for name in ("input_tokens_max", "output_tokens_max"))
    formats = precision(row["library_model"], row["accelerator"], row["engine"], row["precision"] or "bf16", public)
    degrees = tuple(int(float(row[name])) for name in ("tensor", "data", "expert"))
    serve = deployment(row["library_model"], row["accelerator"], formats, launched(row), degrees)
    load = between(prompt, output) if public else rl.Workload(prompt, output)
    return Measured(
        row,
        ServerRun(
            serve,
            load,
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


def fitted(every: Sequence[Measured]) -> tuple[dict[Parameter, float], np.ndarray]:
    """Times of the host from all runs, and predictions of each run by a fit without its model and accelerator."""
    runs = server_fit.tabulated([each.run for each in every])
    sought = server_fit.parameters(sorted({each.run.engine.name for each in every}))
    values = server_fit.fit(runs, sought)
    host = server_fit.host_of(values, runs)
    shapes = np.array([simulated(each, values).tpot_s for each in every])
    runs = server_fit.corrected(runs, shapes, host)
    return server_fit.fit(runs, sought), server_fit.left_out(runs, sought)


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


def page(
    every: Sequence[Mapping[str, str]],
    results: Sequence[Result],
    out: np.ndarray | None,
    values: Mapping[Parameter, float] | None,
) -> str:
    """The page."""
    doubts = Counter(row["doubt"] or row["speculative"] or "no concurrency" for row in every if not undoubted(row))
    public = [r for r in results if r.measured.word("source_kind") == "inferencex"]
    parts = [
        "# Whole servers under load",
        "",
        "Mean times of public closed-loop runs against a simulation of every scheduler step; `python "
        "benchmarks/serving.py` writes this page. Kernels are estimated from their own timings; a server adds the "
        "times of the host that `engine_specs` states. Errors are relative; bias is the median of the signed error.",
        "",
        f"{len(results):,} undoubted runs of {len({r.measured.run.group for r in results})} pairs of a model and an "
        "accelerator, all answered. One factor for each model, accelerator, engine and format would leave "
        f"{bound_of_data(results):.1%}: the bound of this data.",
        "",
        "| runs | runs | TPOT mean | median | bias | p90 | TTFT median |",
        "|---|---:|---:|---:|---:|---:|---:|",
        line("all", [r.tpot_miss for r in results], [r.ttft_miss for r in results]),
        line("InferenceX", [r.tpot_miss for r in public], [r.ttft_miss for r in public]),
    ]
    if out is not None:
        misses = out / np.array([r.measured.run.tpot_s for r in results]) - 1
        mine = np.array([r.measured.word("source_kind") == "inferencex" for r in results])
        parts.append(line("all, model and accelerator left out", misses, []))
        parts.append(line("InferenceX, model and accelerator left out", misses[mine], []))
    if values is not None:
        parts += ["", "## Fitted times of the host", "", printed(values)]
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
    parts += ["", "## Left aside", "", "| reason | runs |", "|---|---:|"]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=DATA)
    parser.add_argument("-o", "--output", type=Path, default=HERE / "serving.md")
    parser.add_argument("--plot", type=Path, default=None)
    parser.add_argument("--fit", action="store_true")
    options = parser.parse_args()
    every = rows(options.file)
    kept = [measured(row) for row in every if undoubted(row)]
    values, out = fitted(kept) if options.fit else (None, None)
    results = [simulated(each, values) for each in kept]
    options.output.write_text(page(every, results, out, values), encoding="utf-8")
    if options.plot:
        draw(results, options.plot)
    print(options.output.read_text().split("## ")[0])
    if values:
        print(printed(values))


if __name__ == "__main__":
    main()
