"""Floors and estimates against figures that public tables print for whole models.

    python benchmarks/published.py [FILE] [-o FILE]

FILE is ``published_runs.csv``; the tests' own by default.  A row takes part if its model is in the library and it says
enough: accelerator, formats, and lengths.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import roofline as rl
from roofline.phases.passes import Phase

HERE = Path(__file__).parent
DATA = HERE.parent / "tests" / "data" / "measurements" / "published_runs.csv.gz"

MODELS = {
    "meta-llama/Meta-Llama-3-8B": "llama-3.1-8b",
    "meta-llama/Llama-3.1-8B": "llama-3.1-8b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "meta-llama/Meta-Llama-3-70B": "llama-3.1-70b",
    "meta-llama/Llama-3.1-70B": "llama-3.1-70b",
    "meta-llama/Llama-3.1-70B-Instruct": "llama-3.1-70b",
    "meta-llama/Llama-3.3-70B-Instruct": "llama-3.1-70b",
    "meta-llama/Llama-3.1-405B": "llama-3.1-405b",
    "meta-llama/Llama-3.1-405B-Instruct": "llama-3.1-405b",
    "meta-llama/Llama-2-7b-hf": "llama-2-7b",
    "meta-llama/Llama-2-7b-chat-hf": "llama-2-7b",
    "lmsys/vicuna-7b-v1.5": "llama-2-7b",
    "huggyllama/llama-7b": "llama-2-7b",
    "meta-llama/Llama-2-13b-hf": "llama-2-13b",
    "huggyllama/llama-13b": "llama-2-13b",
    "codellama/CodeLlama-13b-hf": "llama-2-13b",
    "meta-llama/Llama-2-70b-hf": "llama-2-70b",
    "meta-llama/Llama-2-70b-chat-hf": "llama-2-70b",
    "mistralai/Mistral-7B-v0.1": "mistral-7b",
    "mistralai/Mistral-7B-Instruct-v0.1": "mistral-7b",
    "mistralai/Mistral-7B-Instruct-v0.2": "mistral-7b",
    "mistralai/Mixtral-8x7B-v0.1": "mixtral-8x7b",
    "mistralai/Mixtral-8x7B-Instruct-v0.1": "mixtral-8x7b",
    "meta-llama/Llama-3.2-1B": "llama-3.2-1b",
    "meta-llama/Llama-3.2-3B-Instruct": "llama-3.2-3b",
    "meta-llama/Llama-4-Maverick-17B-128E-Instruct": "llama-4-maverick",
    "codellama/CodeLlama-34b-hf": "codellama-34b",
    "mistralai/Mixtral-8x22B-v0.1": "mixtral-8x22b",
    "EleutherAI/gpt-j-6b": "gpt-j-6b",
    "tiiuae/falcon-7b": "falcon-7b",
    "tiiuae/falcon-180B": "falcon-180b",
    "mosaicml/mpt-7b": "mpt-7b",
    "internlm/internlm-20b": "internlm-20b",
    "openai/gpt-oss-20b": "gpt-oss-20b",
    "openai/gpt-oss-120b": "gpt-oss-120b",
    "google/gemma-3-4b-it": "gemma-3-4b",
    "MiniMaxAI/MiniMax-M2.5": "minimax-m2.5",
    "deepseek-ai/DeepSeek-R1": "deepseek-r1",
    "deepseek-ai/DeepSeek-R1-0528": "deepseek-r1",
    "deepseek-ai/DeepSeek-V3": "deepseek-v3",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B": "qwen2.5-14b",
    "Qwen/Qwen2.5-Coder-7B-Instruct": "qwen2.5-7b",
    "Qwen/Qwen3-30B-A3B": "qwen3-30b-a3b",
    "Qwen/Qwen3-Coder-30B-A3B-Instruct": "qwen3-30b-a3b",
    "Qwen/Qwen3-235B-A22B": "qwen3-235b-a22b",
    "Qwen/Qwen3.5-397B-A17B": "qwen3.5-397b-a17b",
    "Qwen/Qwen3.5-397B-A17B-FP8": "qwen3.5-397b-a17b",
    "Qwen/Qwen3-8B": "qwen3-8b",
    "Qwen/Qwen3-32B": "qwen3-32b",
}
"""As a table names a model -> a model of the library of the same shape."""

WEIGHTS = {
    "fp8": "fp8",
    "fp16": "fp16",
    "bf16": "bf16",
    "fp32": "fp32",
    "nvfp4": "nvfp4",
    "fp4": "nvfp4",
    "mxfp4": "mxfp4",
    "int8": "int8",
    "int4": "int4",
    "int4-g32": "int4_g32",
    "awq-int4-g128": "int4_g128",
    "gptq-int4-g128": "int4_g128",
    "gptq-int4-g128-actorder": "int4_g128",
    "gptq-int4-g32-actorder": "int4_g32",
    "gptq-int4": "int4_g128",
    "awq-int4-g128-g64": "int4_g128",
    "int4-g128": "int4_g128",
    "gguf-q4_0": "q4_0",
    "gguf-q4_k_m": "q4_k_m",
    "gguf-q8_0": "q8_0",
    "gguf mxfp4 experts + q8_0 rest": "q8_0",
    "nvfp4 (MoE/FFN), bf16 attention": "nvfp4",
    "nvfp4 MoE/GEMM": "nvfp4",
    "fp8 MoE/GEMM": "fp8",
    "UINT4": "int4",
}

EXCEPTIONS = {
    "gguf mxfp4 experts + q8_0 rest": {"experts": "mxfp4"},
    "nvfp4 (MoE/FFN), bf16 attention": {"attention": "bf16"},
}
"""Weight formats of a table that differ by part."""


@dataclass(frozen=True)
class Quarantine:
    """Rows to hold back: the first part of their ids, words that their columns hold, and why."""

    table: str
    words: Mapping[str, str]
    reason: str

    def holds(self, row: Mapping[str, str]) -> bool:
        """Whether a row is one of them."""
        return row["id"].startswith(self.table) and all(word in row[name] for name, word in self.words.items())


QUARANTINE = (
    Quarantine(
        "premai",
        {"engine_and_version": "TensorRT-LLM"},
        "not a rate of generated tokens at batch 1: sequences stopped early",
    ),
    Quarantine("premai", {"weight_dtype": "fp32"}, "as fast as the fp16 rows beside it: these were not fp32"),
)
"""Rows that may beat their floor."""


def quarantined(row: Mapping[str, str]) -> str:
    """The reason why a row may beat its floor, or nothing."""
    return next((entry.reason for entry in QUARANTINE if entry.holds(row)), "")


@dataclass(frozen=True)
class Run:
    """One published figure that a floor can be computed for.

    Attributes
    ----------
    row : as published
    serve : model and formats on one accelerator
    accelerators : that share the work, or 1 where they work one after another
    """

    row: Mapping[str, str]
    serve: rl.Deployment
    accelerators: float

    def number(self, name: str) -> float:
        """A column as a number; NaN if blank."""
        return float(self.row[name] or "nan")

    @property
    def cached_tokens(self) -> int:
        """Tokens in the cache before the prompt (llama-bench's depth)."""
        found = re.search(r"@ depth (\d+)", self.row["notes"])
        return int(found[1]) if found else 0

    @property
    def table(self) -> str:
        """The table that it is from: its id without the number."""
        return self.row["id"].rpartition("-")[0]


def read(path: Path = DATA) -> Iterator[Run]:
    """The rows that say enough."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        for row in csv.DictReader(file):
            known = row["model"] in MODELS and row["weight_dtype"] in WEIGHTS
            if known and row["speculative_decoding"] == "no" and row["accelerator"] in names():
                split = "layer split" in row["notes"] and row["phase"] == "decode"
                yield Run(row, deployment(row), 1.0 if split else float(row["n_gpus"] or 1))


@cache
def names() -> frozenset[str]:
    """Accelerators of the library."""
    return frozenset(rl.list_accelerators())


def deployment(row: Mapping[str, str]) -> rl.Deployment:
    """Model and formats; what a row leaves open is taken the way that makes the floor lower."""
    weights, fed = WEIGHTS[row["weight_dtype"]], row["activation_dtype"]
    if "int8" in fed and weights != "int8":
        activations = "int8"
    elif weights == "nvfp4" or fed in ("nvfp4", "fp4"):
        activations = "nvfp4"
    else:
        activations = next((name for name in ("fp8", "fp32", "bf16", "fp16") if name in fed), "bf16")
    wide = "fp16" if activations == "fp16" else "bf16"
    kv = "fp8" if "fp8" in (row["kv_dtype"] or "fp8") else wide
    return _deployment(MODELS[row["model"]], row["accelerator"], row["weight_dtype"], activations, kv)


@cache
def _deployment(model: str, accelerator: str, stored: str, activations: str, kv: str) -> rl.Deployment:
    precision = rl.Precision(
        weights=WEIGHTS[stored],
        activations=activations,
        kv=kv,
        attention=kv,
        exceptions=EXCEPTIONS.get(stored, {}),
    )
    return rl.Deployment(rl.get_model(model), rl.get_accelerator(accelerator), precision=precision)


MANY = 1e5
"""Sequences at once where a table does not say how many: the weights then cost next to nothing."""


THROUGHPUT = ("decode_tokens_per_s_total", "total_throughput_tokens_per_s")
"""Figures of a whole server, which say something even if the batch is unknown."""


def least_s(run: Run) -> float:
    """Least time of what the figure counts, one accelerator doing all; NaN where the row does not say enough."""
    batch = run.number("batch_or_concurrency")
    prompt, output, context = (run.number(n) for n in ("input_len", "output_len", "context_at_measure"))
    metric = run.row["metric"]
    if not batch > 0 and metric not in THROUGHPUT:
        return math.nan
    if metric in ("decode_tokens_per_s_per_user", "itl_ms"):
        return float(step(run, batch, prompt if prompt > 0 else context).floor_s)
    if metric == "prefill_tokens_per_s":
        return float(prompts(run, batch, prompt).floor_s) if prompt > 0 else math.nan
    if metric == "ttft_ms":
        return float(prompts(run, 1.0, prompt).floor_s)
    if metric in THROUGHPUT and output > 0:
        return request_s(run, batch if batch > 0 else MANY, prompt, output)
    return math.nan


def step(run: Run, batch: float, context: float) -> Phase:
    """A decode step."""
    return rl.decode(run.serve, rl.Workload(batch=batch), context_tokens=round(context) if context > 0 else 0)


def prompts(run: Run, batch: float, prompt: float) -> Phase:
    """A prefill."""
    return rl.prefill(run.serve, rl.Workload(batch=batch, prompt_tokens=prompt, cached_tokens=run.cached_tokens))


def request_s(run: Run, batch: float, prompt: float, output: float) -> float:
    """Least time of a whole batch, prompts and all steps, every resource busy all the time."""
    prompt = prompt if prompt > 0 else 0.0
    first = prompts(run, batch, prompt).resources_s if prompt and run.row["phase"] == "mixed" else {}
    each = step(run, batch, prompt + (output - 1) / 2).resources_s
    sums = {name: output * each.get(name, 0.0) + first.get(name, 0.0) for name in each | first}
    return float(max(sums.values()))


def measured_s(run: Run) -> float:
    """The figure as the time that `least_s` is the least of."""
    value, batch = run.number("value"), run.number("batch_or_concurrency")
    metric, batch = run.row["metric"], batch if batch > 0 else MANY
    prompt, output = run.number("input_len"), run.number("output_len")
    return {
        "decode_tokens_per_s_per_user": lambda: 1 / value,
        "itl_ms": lambda: value / 1e3,
        "prefill_tokens_per_s": lambda: (batch if run.number("batch_or_concurrency") > 0 else 1) * prompt / value,
        "ttft_ms": lambda: value / 1e3,
        "decode_tokens_per_s_total": lambda: batch * output / value,
        "total_throughput_tokens_per_s": lambda: batch * ((prompt if prompt > 0 else 0) + output) / value,
    }.get(metric, lambda: math.nan)()


def share(run: Run) -> float:
    """Floor over measured."""
    return least_s(run) / run.accelerators / measured_s(run)


def compare(path: Path = DATA) -> list[tuple[Run, float]]:
    """Every row that a floor can be computed for, with floor / measured."""
    rows = [(run, share(run)) for run in read(path)]
    return [(run, value) for run, value in rows if np.isfinite(value)]


def table(compared: list[tuple[Run, float]]) -> str:
    """Markdown: by table of origin the rows, how many beat their floor, the closest, the median; the quarantine."""
    out = ["| figures | rows | beat their floor | closest | median |", "| --- | ---: | ---: | ---: | ---: |"]
    trusted = [(run, value) for run, value in compared if not quarantined(run.row)]
    for name in sorted({run.table for run, _ in trusted}):
        values = np.array([value for run, value in trusted if run.table == name])
        out.append(f"| {name} | {len(values)} | {np.sum(values > 1)} | {values.max():.2f} | {np.median(values):.2f} |")
    held = [f"- {run.row['id']}: {value:.2f}, {why}" for run, value in compared if (why := quarantined(run.row))]
    return "\n".join([*out, "", f"{len(held)} rows excluded:", "", *held])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, default=DATA)
    parser.add_argument("-o", "--output", type=Path, default=HERE / "published.md")
    args = parser.parse_args()
    text = "\n\n".join(
        [
            "# Floors against published figures of whole models",
            "Floor / measured. Several accelerators count as a single one that is faster by their number. A throughput "
            "at an unknown batch is compared with the floor of an infinite batch.",
            table(compare(args.file)),
        ]
    )
    args.output.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
