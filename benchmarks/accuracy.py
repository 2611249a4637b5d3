"""One page on how right the library is: kernels, whole models, intervals, and what is held back, with reasons.

    python benchmarks/accuracy.py [FOLDER] [-o FILE]

FOLDER holds tables of kernel timings, ``published_runs.csv`` and ``serving_runs.csv``, which may be compressed; the
tests' own by default.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import calibrate
import floors
import numpy as np
import published
from published import Quarantine, Run

import roofline as rl
from roofline.efficiency import store, timings
from roofline.efficiency.estimates import cases_of, predicted
from roofline.efficiency.groups import kernel, kinds
from roofline.efficiency.timings import Batch
from roofline.phases.passes import Phase
from roofline.specs.library import get_accelerator

HERE = Path(__file__).parent

ENGINES = {
    "llama.cpp/Ollama": "ollama",
    "TensorRT-LLM 0.5": "trtllm-0.7",
    "TensorRT-LLM 0.6": "trtllm-0.7",
    "TensorRT-LLM 0.": "trtllm-tensorrt",
    "TensorRT-LLM": "trtllm",
    "TensorRT": "trtllm",
    "vLLM": "vllm",
    "SGLang": "sglang",
    "llama.cpp llama-bench, May 2024": "llamacpp-2024",
    "llama.cpp": "llamacpp",
    "HF": "transformers",
}
"""How an engine's name begins in a table -> its profile; longer names first."""


COMPILED = ("LMDeploy", "Transformers NeuronX")
"""Engines without a profile that launch no layer from Python: C++ (TurboMind) or a compiled graph (Neuron)."""


NARROW_SUMS = ("ExLlama",)
"""Engines whose products of prompts add up in 16 bits (cublasHgemm), twice as fast on GeForce cards."""


def _row(reason: str, table: str = "", **words: str) -> Quarantine:
    return Quarantine(table, words, reason)


COLD = "timed once, as the first pass of a process that one square product warms up (its examples/benchmark.py)"
ONE_ROW = (
    "kernels for one row read the weights again for every row: 2,048 tokens take as long as 240 to 300 decode steps"
)
UNFUSED = (
    "prompts of 4,096 and 8,192 tokens contradict each other, as if attention was fused in some builds only: on 12 "
    "Inferentia2 4,096 tokens of Mistral-7B take longer than 8,192, and on 16 Trainium1 4,096 tokens of Llama-2-13B "
    "take 2.6 times as long as on those"
)
SLOW_START = (
    "rates rise with the length of the prompt, where those of all other chips fall: at 512 tokens an A100 SXM is 13 "
    "times as slow as an A100 PCIe, an L40S three times as slow as an RTX 6000 Ada"
)

HELD_BACK = (
    _row("accelerators that work one after another", notes="layer split"),
    _row("a server under load: prompts run between the steps", notes="prefill interference"),
    _row("a server under load: waiting is included", notes="includes queueing"),
    _row("figures and batch of one of many GPUs", notes="value and batch are per GPU"),
    _row("neither the engine nor the two machines' network are stated", table="community", n_gpus="16"),
    _row("all streams hold the same token, which goes to the same experts", notes="expert routing concentrated"),
    _row(ONE_ROW, table="autoawq", engine_and_version="GEMV", phase="prefill"),
    _row(ONE_ROW, table="autoawq", engine_and_version="GEMV", batch_or_concurrency="8.0"),
    _row(COLD, table="autoawq", phase="prefill"),
    _row(UNFUSED, table="aws-neuron", engine_and_version="2.18.0", phase="prefill", input_len="4096.0"),
    _row(UNFUSED, table="aws-neuron", engine_and_version="2.18.0", phase="prefill", input_len="8192.0"),
    _row(SLOW_START, table="xiongjie", accelerator="a100-sxm", weight_dtype="fp16", phase="prefill"),
    _row(SLOW_START, table="xiongjie", accelerator="l40s", weight_dtype="fp16", phase="prefill"),
)
"""Rows that time something else than one pass or one batch of a known kind; their floors hold all the same."""


@dataclass(frozen=True, eq=False)
class Judged:
    """A published figure at a known batch: measured, and the library's estimate with its interval.

    Attributes
    ----------
    run : Run
        The figure.
    measured_s : float
        As a time.
    named, default : tuple of float
        Estimate, low and high with the profile of the engine, and with none.
    """

    run: Run
    measured_s: float
    named: tuple[float, float, float]
    default: tuple[float, float, float]


NO_XQA = ("Mistral-7B-v0.1", "Mixtral-8x7B-v0.1", "falcon-180B")
"""Models with 4 and 29 query heads a KV head, which the XQA kernel of TensorRT-LLM 0.9 does not take: it takes 1, 8 and
16 (decoderXQARunner.h), so that each query head reads the cache again."""

LAUNCHING_LAYER_S = 7.8e-5
"""What launching a layer of llama.cpp takes beside a captured graph: 98 us before graphs, 20 us since."""


def engine_of(row: Mapping[str, str]) -> rl.Engine | str | None:
    """The profile of the engine of a row, if it has one; llama.cpp captures no graph for more than one stream."""
    name = row["engine_and_version"]
    if name.startswith("llama.cpp b6918") and row["phase"] == "decode" and row["batch_or_concurrency"] != "1.0":
        return rl.Engine("llamacpp", layer_s=LAUNCHING_LAYER_S)
    if name.startswith("TensorRT-LLM 0.9") and row["model"].endswith(NO_XQA):
        return "trtllm-0.7"
    if name.startswith(COMPILED):
        return rl.Engine("default", eager_layer_s=0.0)
    return next((profile for start, profile in ENGINES.items() if name.startswith(start)), None)


def held_back(row: Mapping[str, str]) -> str:
    """The reason why a row is no figure to judge estimates by, or nothing."""
    return next((entry.reason for entry in (*published.QUARANTINE, *HELD_BACK) if entry.holds(row)), "")


def summing(run: Run) -> rl.Accelerator:
    """The accelerator of a row, at the rate of sums in 16 bits where its engine's products add up in them."""
    gpu = run.serve.accelerator
    if not run.row["engine_and_version"].startswith(NARROW_SUMS):
        return gpu
    rate = gpu.narrow_accumulate_flops_per_s.get("fp16", gpu.peak_flops_per_s("fp16"))
    return gpu.replace(dense_flops_per_s={**gpu.dense_flops_per_s, "fp16": rate, "bf16": rate})


def deployed(run: Run, engine: rl.Engine | str | None) -> rl.Deployment:
    """The row's model on all its accelerators: tensor parallel, or attention in replicas where the row says so."""
    pipeline = int(run.number("pp")) if run.number("pp") > 0 else 1
    accelerators = int(run.number("n_gpus") or 1)
    tensor = int(run.number("tp")) if run.number("tp") > 0 else accelerators
    if "attention DP" in run.row["notes"]:
        parallel = rl.Parallel(data=accelerators, expert=accelerators)
    else:
        expert = tensor if run.number("ep") > 1 else 1
        parallel = rl.Parallel(tensor=tensor, pipeline=pipeline, expert=expert)
    return run.serve.replace(accelerator=summing(run), parallel=parallel, engine=engine, precision=stored(run))


def stored(run: Run) -> rl.Precision:
    """The row's formats as they ran: a cache and attention in 16 bits unless the row says 8."""
    kv = "fp8" if "fp8" in (run.row["kv_dtype"] or "") else "bf16"
    return replace(run.serve.precision, kv=kv, attention="bf16")


def expected(run: Run, serve: rl.Deployment) -> tuple[float, float, float] | None:
    """Estimate and interval of what the figure counts; None where that is not one pass or one batch."""
    batch, prompt, output = (run.number(name) for name in ("batch_or_concurrency", "input_len", "output_len"))
    context, metric = run.number("context_at_measure"), run.row["metric"]
    load = rl.Workload(batch=batch, prompt_tokens=prompt if prompt >= 1 else 1.0, cached_tokens=run.cached_tokens)
    if metric in ("prefill_tokens_per_s", "ttft_ms") and prompt > 0:
        return _prompts(serve, load, micro_batch(run.row))
    if run.row["phase"] == "decode":
        at = context if context > 0 else (prompt if prompt > 0 else 0.0)
        return _of_phase(rl.decode(serve, load, context_tokens=round(at)))
    if metric == "decode_tokens_per_s_total" and prompt > 0 and output > 1:
        first = _of_phase(rl.prefill(serve, load))
        step = _of_phase(rl.decode(serve, load, context_tokens=round(prompt + output / 2)))
        return tuple(a + (output - 1) * b for a, b in zip(first, step, strict=True))  # type: ignore[return-value]
    return None


MICRO_BATCHES = {"llamacpp-dgx-spark": 2048, "xiongjie-llamacpp": 512}
"""Tokens that llama-bench computes at a time (--ubatch-size: 512 unless said)."""


def micro_batch(row: Mapping[str, str]) -> int | None:
    """Tokens of a prompt that a row's engine computes at a time; None if it takes prompts whole."""
    return MICRO_BATCHES.get(row["id"].rpartition("-")[0])


def _prompts(serve: rl.Deployment, load: rl.Workload, most: int | None) -> tuple[float, float, float]:
    """Prompts in passes of at most so many tokens, each after those before it."""
    prompt = round(float(load.prompt_tokens))
    if most is None or prompt <= most:
        return _of_phase(rl.prefill(serve, load))
    starts = np.arange(0, prompt, most)
    tokens, cached = np.minimum(most, prompt - starts), load.cached_tokens + starts
    parts = rl.prefill(serve, replace(load, prompt_tokens=tokens, cached_tokens=cached))
    low_s, high_s = float(np.sum(parts.estimate_low_s)), float(np.sum(parts.estimate_high_s))
    return float(np.sum(parts.estimate_s)), low_s, high_s


def _of_phase(phase: Phase) -> tuple[float, float, float]:
    return float(phase.estimate_s), float(phase.estimate_low_s), float(phase.estimate_high_s)


def measured_s(run: Run) -> float:
    """The figure as the time of a pass or of a whole batch."""
    batch, prompt, output, value = (
        run.number(name) for name in ("batch_or_concurrency", "input_len", "output_len", "value")
    )
    metric = run.row["metric"]
    if metric in ("ttft_ms", "itl_ms"):
        return value / 1e3
    if metric == "prefill_tokens_per_s":
        return batch * prompt / value
    if metric == "decode_tokens_per_s_per_user":
        return 1 / value
    return batch / value if run.row["phase"] == "decode" else batch * output / value


def judge(path: Path) -> Iterator[Judged]:
    """Every published figure of one pass or one batch at a known batch, outside quarantine."""
    for run in published.read(path):
        if not run.number("batch_or_concurrency") > 0 or held_back(run.row):
            continue
        named = expected(run, deployed(run, engine_of(run.row)))
        default = expected(run, deployed(run, None))
        if named is not None and default is not None:
            yield Judged(run, measured_s(run), named, default)


HEAD = (
    "| {} | figures | named: median error | bias | inside | default: median error | bias | inside |\n"
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
)


def _line(name: str, found: list[Judged]) -> str:
    cells = [f"| {name} | {len(found)}"]
    for side in ("named", "default"):
        off = np.array([getattr(item, side)[0] / item.measured_s - 1 for item in found])
        inside = [getattr(item, side)[1] <= item.measured_s <= getattr(item, side)[2] for item in found]
        cells.append(f"{np.median(np.abs(off)):.0%} | {np.median(off):+.0%} | {np.mean(inside):.0%}")
    return " | ".join(cells) + " |"


def by(title: str, key: Callable[[Judged], str], judged: list[Judged]) -> str:
    """A table with a line for each value of ``key``, and one for all."""
    names = sorted({key(item) for item in judged})
    lines = [_line(name, [item for item in judged if key(item) == name]) for name in names]
    return "\n".join([HEAD.format(title), *lines, _line("all", judged)])


def whole_models(path: Path) -> str:
    """Whole models by source and by accelerator."""
    judged = list(judge(path))
    return "\n\n".join(
        [
            by("source", lambda item: f"{item.run.table}, {item.run.row['phase']}", judged),
            by("accelerator", lambda item: item.run.row["accelerator"], judged),
            by("weights", lambda item: published.WEIGHTS[item.run.row["weight_dtype"]], judged),
            _mapped(path),
        ]
    )


def _mapped(path: Path) -> str:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        rows = list(csv.DictReader(file))
    known = [
        row["model"] in published.MODELS
        and row["weight_dtype"] in published.WEIGHTS
        and row["accelerator"] in published.names()
        for row in rows
    ]
    return f"{sum(known):,} of {len(rows):,} published rows have a model, formats and an accelerator of the library."


LENDERS = (
    ("h200-sxm", "h100-sxm", 1.3),
    ("gb200", "b200-sxm", 1.3),
    ("b300-sxm", "b200-sxm", 1.3),
    ("gb300", "b200-sxm", 1.3),
    ("l40s", "rtx-pro-6000-server", 2.2),
    ("rtx-pro-6000-server", "l40s", 2.2),
    ("a100-sxm-80gb", "h100-sxm", 2.2),
)
"""An accelerator as if it had no timings, whose parameters it then takes, and the exponent that widens the interval:
inside an architecture and across (efficiency_specs/families.yaml)."""


def left_out(folder: Path) -> str:
    """Accelerators left out whole: their timings against the kernels of another one."""
    lines = [
        "| accelerator | as | kernels | rows | median error | bias | inside |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for table in ("gemm", "attention_decode", "moe"):
        batches = timings.read_timings(folder / f"{table}.csv.gz")
        for name, lender, widen in LENDERS:
            own = [batch for batch in batches if batch.words["accelerator"] == name]
            parts = [_lent(batch, lender, widen) for batch in own if calibrate.trusted(table, batch)]
            off, inside = (np.concatenate([part[at] for part in parts]) for at in (0, 1))
            lines.append(
                f"| {name} | {lender} | {table} | {len(off):,} | {np.median(np.abs(off)):.0%} |"
                f" {np.median(off):+.0%} | {np.mean(inside):.0%} |"
            )
    return "\n".join(lines)


def _lent(batch: Batch, lender: str, widen: float) -> tuple[np.ndarray, np.ndarray]:
    """Error of the lender's median, and whether the widened interval holds what was measured, row by row."""
    gpu = get_accelerator(batch.words["accelerator"])
    bad = {(entry["profile"], entry["kind"], entry["kernel"]) for entry in calibrate.refused(gpu.name)}
    ((kind, _),) = kinds(batch, gpu)
    off, inside = [np.empty(0)], [np.empty(0, bool)]
    if (batch.words["engine"], kind, batch.words["kernel_source"]) in bad:
        return off[0], inside[0]
    run = kernel(batch, gpu)
    for holds, cases in cases_of(batch.operator.inputs, kind):
        found = store.chosen(store.profiles_of(lender), lender, kind, None, cases)
        if found is not None:
            parts = predicted(found, None, run, gpu.math_on_chip(batch.operator.work.math), gpu)
            rows = np.broadcast_to(holds, len(batch.latency_s))
            time_s = np.broadcast_to(parts.fixed_s + parts.running_s, rows.shape)[rows]
            ratio = batch.latency_s[rows] / time_s
            off.append(1 / ratio - 1)
            inside.append((ratio >= found.low**widen) & (ratio <= found.high**widen))
    return np.concatenate(off), np.concatenate(inside)


def _table(folder: Path, name: str) -> Path:
    """A table of the folder, compressed or not."""
    return next(path for path in (folder / f"{name}.csv", folder / f"{name}.csv.gz") if path.is_file())


def _serving(path: Path) -> str:
    """Whether every serving run can be stated; their times under load are on the page of the serving model."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        rows = list(csv.DictReader(file))
    models, accelerators = set(rl.list_models()), published.names()
    known = sum(row["library_model"] in models and row["accelerator"] in accelerators for row in rows)
    return (
        f"{known:,} of {len(rows):,} serving rows have a model and an accelerator of the library.  Their times under "
        "load, with each pair of a model and an accelerator left out whole, are on the page of servers (serving.md)."
    )


def _held_back() -> str:
    kernels = [f"- kernels, {entry.table}, {entry.words}: {entry.reason}" for entry in floors.QUARANTINE]
    kernels += [
        f"- kernels, collectives, {host.accelerator}, {host.least_gpus} accelerators and more, all but "
        f"{' '.join(host.sound)}: {host.reason}"
        for host in calibrate.SLOW_HOSTS
    ]
    every = (*published.QUARANTINE, *HELD_BACK)
    models = [f"- whole models, {entry.table or 'any source'}, {dict(entry.words)}: {entry.reason}" for entry in every]
    return "\n".join([*kernels, *models])


def page(folder: Path) -> str:
    """The page, in Markdown."""
    return "\n\n".join(
        [
            "# Accuracy",
            "Estimates against what was measured elsewhere.  Written by benchmarks/accuracy.py.",
            "## Kernels",
            calibrate.ABOUT,
            calibrate.report(folder),
            "## Accelerators left out whole",
            "Timings of an accelerator compared with the median of the kernels of another one, with the wider "
            "interval of accelerators without timings.",
            left_out(folder),
            "## Whole models",
            "Published figures of one pass or one batch at a known batch, against the estimate with the profile of the "
            "row's engine (the default where it has none) and against the default.  Bias above 0: the estimate is too "
            'slow.  "Inside": the measured figure is in the 80% interval.',
            whole_models(_table(folder, "published_runs")),
            "## Serving runs",
            _serving(_table(folder, "serving_runs")),
            "## Held back, with reasons",
            _held_back(),
        ]
    )


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=floors.DATA)
    parser.add_argument("-o", "--output", type=Path, default=HERE / "accuracy.md")
    args = parser.parse_args()
    text = page(args.folder)
    args.output.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
