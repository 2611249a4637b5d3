"""Servers with requests at a finite rate against what the simulation of them says.

    python benchmarks/serving_open.py [FILE]

FILE is ``more_serving_runs.csv``, the tests' own by default; `benchmarks/serving.py` puts the tables on its page.  Each
run is simulated as it was: so many requests at the asked rate and no more, because a benchmark of 96 requests never
reaches a steady state.  Chance differs from run to run, so the figures are means over `SEEDS` of them.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import roofline as rl

HERE = Path(__file__).parent
DATA = HERE.parent / "tests" / "data" / "measurements" / "more_serving_runs.csv.gz"

SEEDS = range(8)
"""Runs of a hundred requests differ in their mean time to first token by a third."""

MODELS = {
    "meta-llama/Llama-3.1-405B-FP8": "llama-3.1-405b",
    "amd/Llama-3.1-405B-Instruct-FP8-KV": "llama-3.1-405b",
    "meta-llama/Llama-3.3-70B-Instruct": "llama-3.3-70b",
    "nvidia/Qwen3.6-35B-A3B-NVFP4": "qwen3.6-35b-a3b",
}
"""As a run names a model -> a model of the library."""

STATED_BY_IMAGE = "0.8.3"
"""Tag of the image in the manifests of the A100 runs, 2025-04-12 (github.com/surajssd/llm-k8s)."""

META_FP8 = "meta-llama/Llama-3.1-405B-FP8"
"""Meta's own checkpoint keeps attention in 16 bits (The Llama 3 Herd of Models, arXiv:2407.21783, section 6.2: "We do
not quantize parameters in the self-attention layers")."""

RELEASES = {"not stated (image of 2025-04)": STATED_BY_IMAGE}

V0 = "0.7.3"
"""The last release with vLLM's first engine alone.

Later ones fell back to it: 0.8.3 runs pipelines with the second engine only under ``--distributed-executor-backend
ray`` (vllm/engine/arg_utils.py, ``_is_v1_supported_oracle``: "Pipeline Parallelism without Ray distributed executor"),
which the manifests of the A100 runs do not pass.
"""

QUEUE_S = 1.0
"""Mean time to first token from which on a run that falls short of its rate is taken to have queued: at the end of any
run its last answers are still being written, so that the rate of the whole run falls short without a queue as well."""

SHORT = 0.75
"""Share of the asked rate below which a run that queued is saturated."""


def rows(path: Path = DATA) -> list[dict[str, str]]:
    """Runs at a finite rate."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return [row for row in csv.DictReader(file) if row["request_rate"] not in ("", "inf")]


def number_in(pattern: str, text: str) -> float | None:
    """The first number that a pattern finds in a text."""
    found = re.search(pattern, text)
    return float(found.group(1)) if found else None


# Lengths --------------------------------------------------------------------------------------------------------------

DRAWS = 2_000
"""Lengths that stand for a distribution."""

SHAREGPT_CV = 242 / 215, 0.88
"""Coefficients of variation of ShareGPT's prompts and answers, from runs that state a deviation: 242 of a mean of 215
tokens, and 164 of 122 where 38 % of the answers are empty, which leaves 0.88 for the others."""

SHARES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
"""Shares of the requests that are at most as long as a quantile of `TRACES` says."""

Quantiles = tuple[int, ...]

TRACES: Mapping[tuple[str, str], tuple[Quantiles, Quantiles]] = {
    ("chatbot", "gb10-dgx-spark"): (
        (4, 8, 12, 16, 43, 305, 695, 1087, 1421, 1710, 1875),
        (10, 20, 32, 48, 90, 181, 324, 441, 523, 662, 740),
    ),
    ("chatbot", "rtx-5090"): (
        (8, 8, 10, 18, 112, 444, 896, 1453, 1535, 1809, 1875),
        (10, 18, 31, 53, 91, 187, 315, 428, 481, 655, 740),
    ),
    ("toolagent", "gb10-dgx-spark"): (
        (898, 898, 1063, 2025, 3372, 6523, 9800, 19835, 26205, 47984, 87169),
        (1, 3, 3, 3, 20, 43, 361, 529, 588, 852, 929),
    ),
    ("toolagent", "rtx-5090"): (
        (898, 898, 1063, 2025, 3372, 6523, 9800, 19835, 26205, 47984, 87169),
        (1, 3, 3, 3, 20, 52, 357, 529, 587, 852, 929),
    ),
    ("agent", "gb10-dgx-spark"): (
        (394, 395, 650, 673, 1031, 1427, 2711, 5561, 6002, 9530, 9540),
        (15, 27, 61, 100, 193, 294, 545, 773, 896, 1795, 2001),
    ),
    ("agent", "rtx-5090"): (
        (393, 394, 572, 735, 1039, 2330, 4999, 6022, 8051, 10005, 10967),
        (56, 60, 65, 78, 115, 272, 594, 1153, 1383, 1989, 2048),
    ),
    ("coding", "gb10-dgx-spark"): (
        (12409, 12425, 12512, 12615, 12787, 13003, 13430, 15023, 19427, 24468, 26818),
        (8, 37, 48, 59, 87, 147, 1377, 2048, 2048, 2048, 2048),
    ),
    ("coding", "rtx-5090"): (
        (12409, 12515, 12643, 12778, 12977, 16388, 27501, 35645, 45840, 56734, 70244),
        (6, 6, 36, 44, 79, 142, 441, 2048, 2048, 2048, 2048),
    ),
}
"""Trace, accelerator -> quantiles of the tokens of prompts and of answers at 1 request/s.

github.com/anud18/qwen36-vllm-aiperf-benchmark, results/nvfp4, profile_export_aiperf.csv.  The turns of a conversation
follow one another, so that fewer long prompts of later turns are reached on the slower accelerator; and a quarter of
the answers to tools has at most 20 tokens, whose mean time per token is that of the prompts in between.
"""


def between_quantiles(values: Quantiles, mean: float, rng: np.random.Generator) -> np.ndarray:
    """Lengths with some quantiles, lines in between, brought to the mean of a run."""
    drawn = np.interp(rng.random(DRAWS), SHARES, values)
    return np.maximum(drawn * mean / drawn.mean(), 1.0)


def spread(
    mean: float, variation: float, rng: np.random.Generator, ends: tuple[float, float] = (1.0, math.inf)
) -> np.ndarray:
    """Lengths with a mean and a coefficient of variation, lognormal, which is how prompts and answers are spread."""
    variance = math.log1p(variation**2)
    drawn = np.clip(rng.lognormal(math.log(mean) - variance / 2, math.sqrt(variance), DRAWS), *ends)
    return np.clip(drawn * mean / drawn.mean(), *ends)


def ends(text: str) -> tuple[float, float]:
    """The shortest and the longest length that a run states."""
    shortest = number_in(r"(\d+)-\d+$", text)
    longest = number_in(r"(?:max |cap |\d-)(\d+)$", text)
    return shortest or 1.0, longest or math.inf


def empty_share(row: Mapping[str, str]) -> float:
    """Share of the answers that were empty; they count as completed."""
    return (number_in(r"(\d+) of the 1000 'completed' answers are EMPTY", row["note"]) or 0.0) / 1000


def traffic(row: Mapping[str, str]) -> rl.Traffic:
    """Lengths of a run's requests; an answer that was empty takes one token."""
    rng = np.random.default_rng(0)
    prompt, output, empty = float(row["input_tokens_mean"]), float(row["output_tokens_mean"]), empty_share(row)
    known = TRACES.get((row["input_tokens_spread"].split()[0], row["accelerator"]))
    if known is not None:
        prompts, outputs = (between_quantiles(*each, rng) for each in zip(known, (prompt, output), strict=True))
        return rl.Traffic(prompts, outputs, np.ones(DRAWS))
    prompts = spread(prompt, SHAREGPT_CV[0], rng, ends(row["input_tokens_spread"]))
    outputs = spread(output / (1 - empty), SHAREGPT_CV[1], rng, ends(row["output_tokens_spread"]))
    outputs[rng.random(DRAWS) < empty] = 1.0
    return rl.Traffic(prompts, outputs, np.ones(DRAWS))


REPEATED = 0.95
"""Share of a prompt of 213 tokens that pages of 16 find again when the same prompts are sent a second time."""


def cached_share(row: Mapping[str, str]) -> float:
    """Share of the prompts whose cache is there already.

    The A100 runs send the same 200 prompts at 1, 4 and 16 requests/s, one after the other, to a server that was
    started with ``--enable-prefix-caching`` (github.com/surajssd/llm-k8s).
    """
    if "surajssd/llm-k8s" in row["source"]:
        return REPEATED if float(row["request_rate"]) > 1 else 0.0
    return (number_in(r"([\d.]+) % of prompt tokens hit", row["prefix_cache"]) or 0.0) / 100


# Servers --------------------------------------------------------------------------------------------------------------


CONTEXT_TOKENS = 131_072
"""``max_num_batched_tokens`` of vLLM's first engine without chunked prefill: ``max(max_model_len, 2048)``, here the
context of Llama 3.1 (vllm/config.py of 0.6, SchedulerConfig)."""

LAUNCHED: Mapping[str, Mapping[str, float]] = {
    "gb10-dgx-spark": {"step_tokens": 32_768, "max_sequences": 32, "memory_fraction": 0.5},
    "rtx-5090": {"step_tokens": 8192, "max_sequences": 32, "memory_fraction": 0.9},
}
"""Accelerator -> ``--max-num-batched-tokens``, ``--max-num-seqs`` and ``--gpu-memory-utilization`` of its runs, the
table of results/nvfp4/SUMMARY_nvfp4.md in github.com/anud18/qwen36-vllm-aiperf-benchmark."""


def engine(row: Mapping[str, str]) -> rl.Engine:
    """The engine with the options that a run states, or its repository."""
    version = RELEASES.get(row["engine_version"], row["engine_version"])
    if version == STATED_BY_IMAGE and int(row["pp"]) > 1:
        version = V0
    chosen: dict[str, Any] = dict(LAUNCHED.get(row["accelerator"], {}))
    most = number_in(r"max-num-seqs (\d+)", row["note"])
    if most is not None:
        chosen["max_sequences"] = int(most)
    steps = number_in(r"num-scheduler-steps (\d+)", row["note"])
    if steps is not None:
        chosen["schedule_interval"] = int(steps)
    if "chunked prefill FALSE" in row["note"]:
        chosen |= {"scheduler": "prefill_first", "chunked": False, "step_tokens": CONTEXT_TOKENS}
    found = rl.Engine(row["engine"], version=version)
    return found.replace(**{name: value for name, value in chosen.items() if value is not None})


def precision(row: Mapping[str, str]) -> rl.Precision:
    """Formats of weights, activations and cache."""
    kv = "fp8" if row["kv_dtype"] == "fp8" else "bf16"
    if row["precision"].startswith("fp8"):
        kept = {"attention": "bf16"} if row["model"] == META_FP8 else {}
        return rl.Precision(weights="fp8", activations="fp8", kv=kv, exceptions=kept)
    if row["precision"].startswith("nvfp4"):
        return rl.Precision(weights="nvfp4", activations="bf16", kv=kv, exceptions={"attention": "bf16"})
    return rl.Precision(kv=kv)


def deployment(row: Mapping[str, str]) -> rl.Deployment:
    """What ran where."""
    tensor, pipeline, data = (int(row[name]) for name in ("tp", "pp", "dp"))
    return rl.Deployment(
        rl.get_model(MODELS[row["model"]]),
        rl.get_accelerator(row["accelerator"]),
        precision=precision(row),
        parallel=rl.Parallel(tensor=tensor, pipeline=pipeline, data=data),
        engine=engine(row),
    )


@dataclass(frozen=True)
class OpenRun:
    """A measured run at a rate, and its simulation."""

    row: Mapping[str, str]
    ttft_s: float
    tpot_s: float
    requests_per_s: float
    capacity_requests_per_s: float

    def measured(self, name: str) -> float:
        """A number of the table."""
        return float(self.row[name])

    @property
    def measured_ttft_s(self) -> float:
        """Mean time to first token; of answers that were not empty, for which the run counts a time of 0."""
        others_ms = number_in(r"mean TTFT of the others (\d+) ms", self.row["note"])
        return (others_ms or self.measured("ttft_mean_ms")) / 1e3

    @property
    def asked(self) -> float:
        """Requests per second that arrive."""
        return self.measured("request_rate")

    @property
    def reached(self) -> float:
        """Requests per second over the whole run, its last answers included."""
        return self.measured("output_tokens_per_s") / self.measured("output_tokens_mean")

    @property
    def saturated(self) -> bool:
        """Whether the server fell behind."""
        return self.reached < SHORT * self.asked and self.measured_ttft_s > QUEUE_S

    @property
    def named(self) -> bool:
        """Whether the library says so: the asked rate exceeds the capacity."""
        return self.asked >= self.capacity_requests_per_s

    @property
    def one_by_one(self) -> bool:
        """Whether tokens come one by one: where 15 come at a time, short answers have a longer time per token."""
        return "tokens arrive 15 at a time" not in self.row["note"]

    @property
    def tpot_miss(self) -> float:
        """Relative error of the time per output token."""
        return self.tpot_s * 1e3 / self.measured("tpot_mean_ms") - 1

    @property
    def ttft_ratio(self) -> float:
        """Simulated over measured time to first token."""
        return self.ttft_s / self.measured_ttft_s

    @property
    def ttft_is_near(self) -> bool:
        """Whether the time to first token is within a factor of 1.5."""
        return 1 / 1.5 <= self.ttft_ratio <= 1.5


def simulated(row: Mapping[str, str]) -> OpenRun:
    """A run simulated as it was, the mean over several chances."""
    serve, load = deployment(row), traffic(row)
    asked = {"requests_per_s": float(row["request_rate"]), "hit_rate": cached_share(row)}
    runs = [rl.simulate(serve, load, requests=int(row["num_requests"]), seed=seed, **asked) for seed in SEEDS]
    capacity = rl.serve(serve, load, method="closed-form", **asked).capacity_requests_per_s
    ttft_s, tpot_s, rate = (
        float(np.mean([getattr(run, name) for run in runs])) for name in ("ttft_s", "tpot_s", "requests_per_s")
    )
    return OpenRun(row, ttft_s, tpot_s, rate, float(capacity))


# Page -----------------------------------------------------------------------------------------------------------------


def line(name: str, runs: Sequence[OpenRun]) -> str:
    """A row of the table: errors below saturation, and whether saturation is named."""
    tokens = [abs(run.tpot_miss) for run in runs if run.one_by_one]
    calm = [run for run in runs if not run.saturated]
    calm_tokens = [abs(run.tpot_miss) for run in calm if run.one_by_one]
    near = sum(run.ttft_is_near for run in calm)
    full = [run for run in runs if run.saturated]
    return (
        f"| {name} | {len(runs)} | {percent(tokens)} | {percent(calm_tokens)} | {near} of {len(calm)} "
        f"| {sum(run.named for run in full)} of {len(full)} | {sum(run.named for run in calm)} of {len(calm)} |"
    )


def percent(errors: Sequence[float]) -> str:
    """The median of some errors."""
    return f"{np.median(errors):.0%}" if errors else "–"


HEAD = (
    "| requests at a finite rate | runs | TPOT median | below saturation | TTFT within 1.5x | saturation named "
    "| named without need |\n|---|---:|---:|---:|---:|---:|---:|"
)


def section(runs: Sequence[OpenRun]) -> list[str]:
    """The part of the page of servers."""
    groups: dict[str, list[OpenRun]] = {}
    for run in runs:
        name = f"{MODELS[run.row['model']]}, {run.row['accelerator']}, TP {run.row['tp']}, PP {run.row['pp']}"
        groups.setdefault(name, []).append(run)
    return [
        "## Requests at a finite rate",
        "",
        f"{len(runs)} runs of more_serving_runs, simulated with the same number of requests at the same rate, as "
        f"the mean of {len(SEEDS)} seeds. None of them was used in any fit. A run counts as saturated if it fell "
        f"short of its rate and its first tokens took over {QUEUE_S:g} s; it is predicted to be if the rate exceeds "
        "the capacity. Launch options and length distributions come from the sources' repositories. vLLM 0.6 on MI300X "
        "scheduled once in 15 steps and returned 15 tokens at a time, so its times per token are not compared. "
        "Pipelines on A100 ran on vLLM's V0 engine, whose host times with pipelines are not modeled. There are no "
        "kernel timings of GB10, RTX 5090 and MI300X. Those borrowed for RTX 5090 are corrected for its matrix units, "
        "which run at half the rate in 16 bits (`roofline.efficiency.matrix_rates`). Its server takes 32 sequences, so "
        "that vLLM captures graphs of up to 64 tokens: prompts of 8 to 18 tokens take 24 to 28 ms to their first "
        "token, one of 112 already 70 ms, since the host launches its kernels one by one.",
        "",
        HEAD,
        *(line(name, group) for name, group in sorted(groups.items())),
        line("all", runs),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=DATA)
    print("\n".join(section([simulated(row) for row in rows(parser.parse_args().file)])))


if __name__ == "__main__":
    main()
