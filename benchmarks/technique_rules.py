"""Rows of measured gains as pairs of scenarios: how each technique of ``technique_gains.csv`` is put to the library.

A row that says enough becomes two scenarios, of which the time or rate that it measured is compared (`RULES`); the
others are listed with what they lack (`REASONS`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from measured_servers import NEWEST_FROM, SHAREGPT, as_trtllm_bench, release_of, run_tokens_per_s

import roofline as rl
from roofline import techniques as t
from roofline.serving.scenario import Scenario
from roofline.serving.steady_state import Steady, steady_state

Row = Mapping[str, str]

MODELS = {
    "Llama-3.1-8B": "llama-3.1-8b",
    "Llama-3.1-70B": "llama-3.1-70b",
    "Llama-3-70B": "llama-3-70b",
    "Llama-3.3-70B": "llama-3.3-70b",
    "Llama-2-7B": "llama-2-7b",
    "Llama-2-13B": "llama-2-13b",
    "Llama-2-70B": "llama-2-70b",
    "Llama-4-Scout": "llama-4-scout",
    "CodeLlama-13B": "llama-2-13b",
    "GPT-J-6B": "gpt-j-6b",
    "Mistral-7B": "mistral-7b",
    "Mixtral-8x7B": "mixtral-8x7b",
    "DeepSeek-R1": "deepseek-r1",
    "DeepSeek-V3": "deepseek-v3",
    "DeepSeek-V3.2": "deepseek-v3.2",
    "DeepSeek-V4-Flash": "deepseek-v4-flash",
    "DeepSeek-Lite": "deepseek-v2-lite",
    "Kimi-K2": "kimi-k2",
    "Kimi-K2.5": "kimi-k2.5",
    "Kimi-K2.6": "kimi-k2.6",
    "MiniMax-M2.5": "minimax-m2.5",
    "MiniMax-M3": "minimax-m3",
    "Qwen3-8B": "qwen3-8b",
    "Qwen3-14B": "qwen3-14b",
    "Qwen3-32B": "qwen3-32b",
    "Qwen3-30B-A3B": "qwen3-30b-a3b",
    "Qwen3-235B-A22B": "qwen3-235b-a22b",
    "Qwen2.5-Omni-7B": "qwen2.5-7b",
    "Qwen3-Coder-480B": "qwen3-coder-480b-a35b",
    "QwQ-32B": "qwq-32b",
    "GLM-4.5-Air": "glm-4.5-air",
    "GLM-5.2": "glm-5.2",
    "gpt-oss-20b": "gpt-oss-20b",
    "gpt-oss-120b": "gpt-oss-120b",
}
"""As a source names a model -> a model of the library of the same shape."""

HARDWARE = {
    "H100-SXM": "h100-sxm",
    "H200": "h200-sxm",
    "H20": "h20-96gb",
    "H800": "h800-sxm",
    "A100-SXM-80GB": "a100-sxm-80gb",
    "A100-80GB (330 W)": "a100-sxm-80gb",
    "A100-40GB": "a100-sxm-40gb",
    "A100": "a100-sxm-80gb",
    "A800": "a800-sxm-80gb",
    "A6000": "rtx-a6000",
    "B200": "b200-sxm",
    "GB200": "gb200",
    "GB300": "gb300",
    "L20": "l20",
    "L40S": "l40s",
    "RTX-4090": "rtx-4090",
    "RTX-PRO-6000": "rtx-pro-6000-ws",
    "MI250X GCD": "mi250x-gcd",
    "MI355X": "mi355x",
}

ENGINES = {"vLLM": "vllm", "SGLang": "sglang", "TensorRT-LLM": "trtllm", "LoRAX": "tgi"}
"""The first word of the engine of a row -> an engine of the library; of two, that of the last: what it was moved to."""

BY_DEFAULT = rl.Precision()
FORMATS = {
    "": None,
    "bf16": BY_DEFAULT,
    "fp16": BY_DEFAULT,
    "fp8": rl.Precision(weights="fp8", activations="fp8"),
    "fp8_block": rl.Precision(weights="fp8_block", activations="fp8"),
    "fp8+kv8": rl.Precision(weights="fp8", activations="fp8", kv="fp8"),
    "int8sq": rl.Precision(weights="int8", activations="int8"),
    "w8a16": rl.Precision(weights="int8"),
    "int4": rl.Precision(weights="int4_g32"),
    "nvfp4": rl.Precision(weights="nvfp4", activations="nvfp4", exceptions={"attention": "bf16"}),
    "mxfp4": None,
}
"""As a row names its formats; None is as published."""

MOST_REQUESTS = 1000
"""Requests in flight of the benchmarks that saturate an engine, where the row does not say."""


Figure = Callable[[Steady, Any], Any]
"""What a row measured, of a steady state and of the seconds for which a request waits before it runs."""


@dataclass(frozen=True)
class Pair:
    """Two scenarios, and what of them a row measured; passes and kernels by themselves are not limited by memory.

    ``requests`` is the number of requests of a run that all come at the start, 0 for a steady state.  ``assumed`` says
    what the row does not print and a usual value stands for.
    """

    before: Scenario
    after: Scenario
    figure: Figure
    saturated: bool = False
    caps: tuple[float, float] = (MOST_REQUESTS, MOST_REQUESTS)
    kernel: bool = False
    requests: float = 0.0
    assumed: str = ""

    def gain(self) -> float:
        """How many times better the second is; above 1 is better."""
        cases = zip((self.before, self.after), self.caps, strict=True)
        sides = [self._figure(case, cap) for case, cap in cases]
        return float(np.exp(np.mean(np.log(sides[1] / sides[0]))))

    def _figure(self, case: Scenario, cap: float) -> Any:
        """The figure with as many requests as fit in memory; the others wait, by Little's law, for their turn."""
        if self.kernel:
            return self.figure(steady_state(case), 0.0)
        if self.requests:
            return run_tokens_per_s(case, self.requests, cap)
        asked = np.asarray(cap if self.saturated else case.load.batch, dtype=float)
        running = np.maximum(np.minimum(steady_state(case).max_batch, asked), 1.0)
        seen = steady_state(case.replace(load=replace(case.load, batch=running[()])))
        waiting = 0.0 if self.saturated else asked - running
        return self.figure(seen, waiting * case.load.output_tokens / seen.tokens_per_s)


def _decoding(seen: Steady, wait_s: Any) -> Any:
    return 1 / seen.tpot_s


def _starting(seen: Steady, wait_s: Any) -> Any:
    return 1 / (seen.ttft_s + wait_s)


def _finishing(seen: Steady, wait_s: Any) -> Any:
    return 1 / (seen.total_s + wait_s)


def _throughput(seen: Steady, wait_s: Any) -> Any:
    return seen.tokens_per_s


def _capacity(seen: Steady, wait_s: Any) -> Any:
    return seen.max_batch


FIGURES: Mapping[str, Figure] = {
    "tpot_ms": _decoding,
    "itl_ms": _decoding,
    "tok_s_user": _decoding,
    "tok_s_decode": _decoding,
    "ttft_ms": _starting,
    "ttft_s": _starting,
    "ttft_ratio": _starting,
    "latency_ratio": _finishing,
    "e2e_ratio": _finishing,
    "e2e_s": _finishing,
}
"""Metric -> the figure of a request that grows when it gets better; throughput for all others."""


def figure_of(metric: str) -> Figure:
    """The figure that a metric measures."""
    return FIGURES.get(metric, _throughput)


class Unmapped(Exception):
    """A row that lacks what a prediction needs; its text says what."""


def numbers(text: str) -> list[float]:
    """All numbers in a text."""
    return [float(found) for found in re.findall(r"\d+\.?\d*", text)]


def number_after(name: str, text: str) -> float | None:
    """The number behind ``name`` in a text such as ``K=2 AL=2.1``."""
    found = re.search(rf"{name}\s?=?\s?(\d+\.?\d*)", text)
    return float(found[1]) if found else None


def formats(text: str) -> rl.Precision | None:
    """Formats as a row names them."""
    if text not in FORMATS:
        raise Unmapped(f"formats {text!r}")
    return FORMATS[text]


@cache
def deployment(
    model: str, hardware: str, engine: str, precision: str, *, tensor: int = 1, date: str = NEWEST_FROM
) -> rl.Deployment:
    """What runs where, on the release of its engine that was out on the day."""
    if model not in MODELS:
        raise Unmapped("model not printed" if not model else f"no model {model!r} in the library")
    if hardware not in HARDWARE:
        raise Unmapped("hardware not printed")
    given = formats(precision)
    name = ENGINES.get(re.split(r"[ /+]", engine.rsplit("/", maxsplit=1)[-1])[0])
    options = {} if given is None else {"precision": given}
    parallel = rl.Parallel(tensor=tensor)
    server = name and rl.Engine(name, version=release_of(name, engine, date))
    return rl.Deployment(rl.get_model(MODELS[model]), HARDWARE[hardware], engine=server, parallel=parallel, **options)


def serve_of(row: Row, *, side: int = 0, tensor: int | None = None) -> rl.Deployment:
    """The deployment of a row before (0) or after (1) its change of formats."""
    stored = [part.strip() for part in row["precision"].split(">")]
    count = int(float(row["count"])) if re.fullmatch(r"\d+(\.0)?", row["count"]) else 1
    date = NEWEST_FROM if row["technique"] == "async-scheduling" else row["date"]  # the change itself
    of_side = stored[min(side, len(stored) - 1)]
    return deployment(row["model"], row["hardware"], row["engine"], of_side, tensor=tensor or count, date=date)


def load_of(row: Row) -> rl.Workload:
    """Requests of a row; lengths that it does not print are 1,024 and 128, which its class says."""
    if row["batch_or_concurrency"] == "sweep":
        return rl.Workload(int(numbers(row["prompt"])[0]), int(numbers(row["output"])[0]), np.array([1.0, 4, 16, 64]))
    if whole_run(row):
        return rl.Workload(*SHAREGPT, 1)
    prompt = numbers(row["prompt"]) or [128.0 if row["prompt"] == "MT-Bench" else 1024.0]
    output = numbers(row["output"]) or [128.0]
    batch = numbers(row["batch_or_concurrency"]) if "QPS" not in row["batch_or_concurrency"] else []
    return rl.Workload(int(prompt[0]), int(output[0]), int(batch[0]) if batch else 1)


def saturated(row: Row) -> bool:
    """Whether the engine has as many requests as it takes."""
    return row["batch_or_concurrency"].startswith(("saturated", "max"))


WHOLE_RUNS = ("gpustack/gpustack docs/performance-lab", "vllm-project/vllm PR 11267")
"""Sources whose saturated rows are runs of 1,000 conversations of ShareGPT, all sent at the start."""


def whole_run(row: Row) -> bool:
    """Whether the row is the throughput of a run from its first request to its last."""
    return saturated(row) and row["source"] in WHOLE_RUNS and row["metric"].startswith("tok_s")


def case_of(row: Row, serve: rl.Deployment) -> Scenario:
    """The requests of a row on a deployment; a saturated engine cuts prompts into chunks that ride on its steps."""
    load = load_of(row)
    if row["engine"] == "TensorRT-LLM 0.17":
        serve = as_trtllm_bench(serve, load)
    case = Scenario(serve, load)
    if saturated(row) and serve.engine is not None and mixes(serve):
        return case.replace(chunk_tokens=serve.server.step_tokens)
    return case


def mixes(serve: rl.Deployment) -> bool:
    """Whether prompts ride on decode steps: not in vLLM before 0.8, unless it was told to cut them into chunks."""
    first = serve.server.name == "vllm" and serve.server.version.startswith("0.6.")
    return serve.server.scheduler == "mixed" and not first


def pair(row: Row, before: Scenario, after: Scenario) -> Pair:
    """Two scenarios as the row measured them."""
    requests = MOST_REQUESTS if whole_run(row) else 0
    caps = (most_sequences(row, before), most_sequences(row, after))
    return Pair(before, after, figure_of(row["metric"]), saturated(row), caps, requests=requests)


def most_sequences(row: Row, case: Scenario) -> float:
    """Sequences that run at most: what the row prints, the engine's own limit, or the requests there are."""
    printed = numbers(row["batch_or_concurrency"])
    if saturated(row) and printed:
        return printed[0]
    if row["engine"] == "TensorRT-LLM 0.17":
        return float(case.serve.server.max_sequences or 2 * MOST_REQUESTS)
    return min(float(case.serve.server.max_sequences or MOST_REQUESTS), MOST_REQUESTS)


def with_technique(row: Row, *chosen: t.Technique, tensor: int | None = None) -> Pair:
    """A technique on the deployment of a row."""
    case = case_of(row, serve_of(row, tensor=tensor))
    for item in chosen:
        if reason := item.refusal(case):
            raise Unmapped(f"refused: {reason}")
    before = after = case
    for item in chosen:
        before, after = item.given(before), item.after(item.given(after))
    return pair(row, before, after)


def over_baseline(row: Row, technique: t.Technique) -> Pair:
    """A technique that every engine has against the same without it."""
    case = technique.given(case_of(row, serve_of(row)))
    return pair(row, technique.without(case), technique.after(case))


def speculation(row: Row) -> Pair:
    """Drafts of a number K and an acceptance length AL; usual ones where a row does not print them."""
    if "QPS" in row["batch_or_concurrency"]:
        raise Unmapped("lengths not printed for a request rate")
    drafts, length = number_after("K", row["params"]), number_after("AL", row["params"])
    if row["technique"] == "speculation-eagle3-moe" and length and not drafts:
        drafts = USUAL_DRAFTS
    if not drafts or not length:
        found = with_technique(row, usual_drafting(row))
        return replace(found, assumed="acceptance", caps=(found.caps[0], request_limit(row, found.caps[1])))
    kind = t.MultiTokenPrediction if row["technique"] == "speculation-mtp" else t.Speculation
    return with_technique(row, kind(drafts=int(drafts), acceptance_length=length, captured=captures_drafts(row)))


def usual_drafting(row: Row) -> t.Speculation:
    """What drafts where a row prints no acceptance length, at the usual acceptance."""
    if row["technique"] == "speculation-mtp":
        printed = number_after("K", row["params"]) or number_after("MTP", row["params"])
        return t.MultiTokenPrediction(drafts=int(printed or USUAL_DRAFTS))
    captured = captures_drafts(row)
    if steps := re.search(r"(\d) steps? topk (\d)(?: verify (\d+))?", row["params"]):
        if steps[2] == "1":
            return t.Speculation(drafts=int(steps[1]), captured=captured)
        return t.TreeDrafting(drafts=int(steps[1]), verify_width=int(steps[3]), captured=captured)
    if "1 draft" in row["params"]:
        return t.Speculation(drafts=1, captured=captured)
    if row["technique"] != "speculation-eagle":
        return t.Speculation(drafts=USUAL_DRAFTS, captured=captured)
    if row["engine"] == "SGLang":
        return t.TreeDrafting(drafts=SGLANG_STEPS, verify_width=SGLANG_TOKENS, captured=captured)
    return t.TreeDrafting(captured=captured)


SGLANG_STEPS, SGLANG_TOKENS = 5, 8
"""Steps and tokens to verify that SGLang of 2025 chose for itself (``auto_choose_speculative_params``)."""


def request_limit(row: Row, cap: float) -> float:
    """Sequences that run at most with drafts: SGLang of 2025 lowers its limit to 48, which its rows name."""
    return SGLANG_SEQUENCES if "request limit" in row["params"] else cap


SGLANG_SEQUENCES = 48


def captures_drafts(row: Row) -> bool:
    """Whether the engine of a row captures draft passes: vLLM did not in the middle of 2025, and does in 2026."""
    return row["date"] >= "2026"


USUAL_DRAFTS = 3
"""Drafts where a row prints none."""


def ngram(row: Row) -> Pair:
    """Drafts looked up in the text."""
    if "QPS" in row["batch_or_concurrency"]:
        raise Unmapped("lengths not printed for a request rate")
    drafts, length = number_after("k", row["params"]), number_after("AL", row["params"])
    if not drafts:
        raise Unmapped("drafts not printed")
    if length:
        return with_technique(row, t.NgramDrafting(drafts=int(drafts), acceptance_length=length))
    return replace(with_technique(row, t.NgramDrafting(drafts=int(drafts))), assumed="acceptance")


def draft_model(row: Row) -> Pair:
    """A smaller model that drafts; gpt-fast's is the 7B of the same family, both in 4 bits."""
    if row["engine"] != "gpt-fast":
        raise Unmapped("lengths not printed for a request rate")
    serve = serve_of(row).replace(precision=rl.Precision(weights="int4_g32"))
    case = case_of(row, serve)
    return replace(pair(row, case, t.Speculation(draft="llama-2-7b").after(case)), assumed="acceptance")


def parallel_drafts(row: Row) -> Pair:
    """Drafts of one pass against drafts one after another, each with the number that serves it better."""
    case = case_of(row, serve_of(row))
    figure = figure_of(row["metric"])
    sides = []
    for kind, lengths in ((t.Speculation, {3: 2.70, 7: 3.27}), (t.ParallelDrafting, {3: 2.87, 7: 3.70})):
        captured = captures_drafts(row)
        ways = [
            kind(drafts=count, acceptance_length=length, captured=captured).after(case)
            for count, length in lengths.items()
        ]
        sides.append(max(ways, key=lambda way: float(figure(steady_state(way), 0.0))))
    return pair(row, *sides)


def weights(row: Row) -> Pair:
    """Narrower weights, and activations where the format says so."""
    wanted = {
        "weights-fp8": ("fp8", "fp8"),
        "weights-w8a16": ("int8", None),
        "weights-w4a16": ("int4_g128", None),
        "weights-bnb4": ("nf4", None),
        "weights-w8a8": ("int8", "int8"),
    }
    if ">" in row["precision"]:
        cases = [case_of(row, serve_of(row, side=side)) for side in (0, 1)]
        return pair(row, cases[0], cases[1])
    if "int8 to int4" in row["params"]:
        serve = serve_of(row).replace(precision=rl.Precision(weights="int8"))
        return pair(row, case_of(row, serve), case_of(row, rl.quantize(serve, weights="int4_g32")))
    stored, fed = wanted[row["technique"]]
    if "g32" in row["params"] or (row["engine"] == "gpt-fast" and stored == "int4_g128"):
        stored = "int4_g32"
    return with_technique(row, t.Quantization(weights=stored, activations=fed))


def with_kv(row: Row) -> Pair:
    """A cache of 8 bits."""
    if row["batch_or_concurrency"] == "burst":
        raise Unmapped("neither lengths nor the number of requests printed")
    found = with_technique(row, t.KVQuantization(kv="fp8"))
    over_tokens = row["id"].startswith(LATENCY_OVER_TOKENS) and row["metric"] == "tpot_ms"
    return replace(found, figure=_finishing) if over_tokens else found


LATENCY_OVER_TOKENS = "gps-glm52"
"""Rows of a tool whose time per output token is the whole latency, queue included, over the tokens (guidellm)."""


def tensor_parallel(row: Row) -> Pair:
    """From one degree of tensor parallelism to another."""
    found = re.search(r"(?:TP)?(\d+) ?to ?(?:TP)?(\d+)", row["params"])
    degrees = (int(found[1]), int(found[2])) if found else (1, int(float(row["count"])))
    cases = [case_of(row, serve_of(row, tensor=degree)) for degree in degrees]
    return pair(row, cases[0], cases[1])


def layout(row: Row, before: rl.Parallel, after: rl.Parallel) -> Pair:
    """From one layout to another."""
    sides = [serve_of(row, side=side).replace(parallel=each) for side, each in enumerate((before, after))]
    return pair(row, *(case_of(row, serve) for serve in sides))


def pipeline_parallel(row: Row) -> Pair:
    """Stages instead of one accelerator or of tensor parallelism."""
    ways = int(float(row["count"]))
    tensor = ways if row["params"].startswith("TP") else 1
    found = layout(row, rl.Parallel(tensor=tensor), rl.Parallel(pipeline=ways))
    if row["engine"] != "SGLang":
        return found
    # its scheduler does not overlap where there are pipeline stages (--disable-overlap-schedule is implied)
    return replace(found, after=t.AsyncScheduling().without(found.after))


def expert_parallel(row: Row) -> Pair:
    """Experts whole on each accelerator instead of cut."""
    ways = int(float(row["count"]))
    return layout(row, rl.Parallel(tensor=ways), rl.Parallel(tensor=ways, expert=ways))


def attention_data_parallel(row: Row) -> Pair:
    """Replicas of attention instead of tensor parallelism."""
    ways = int(float(row["count"]))
    if row["metric"] == "kv_capacity":
        found = layout(row, rl.Parallel(tensor=ways), rl.Parallel(data=ways, expert=ways))
        return replace(found, figure=_capacity)
    if row["metric"] == "ttft_ratio":
        raise Unmapped("eight requests of a million tokens, of which one layout holds two at a time")
    return layout(row, rl.Parallel(tensor=ways), rl.Parallel(data=ways, expert=ways))


def skip_softmax(row: Row) -> Pair:
    """Tiles of the scores that softmax would round to nothing."""
    skipped = number_after("sparsity", row["params"]) or 0.0
    return with_technique(row, t.SparseAttentionMask(skipped=skipped))


def graphs(row: Row) -> Pair:
    """Captured steps against eager ones."""
    return over_baseline(row, t.CudaGraphs())


def asynchronous(row: Row) -> Pair:
    """The host beside the device instead of after it."""
    return over_baseline(row, t.AsyncScheduling())


def wide(row: Row, *, prompts: bool) -> Scenario:
    """The layout of a large deployment: attention replicated, experts over all; a pass over prompts, or steps."""
    count = int(float(row["count"]))
    ways = 32 if prompts else 72
    serve = serve_of(row, tensor=1).replace(parallel=rl.Parallel(data=min(ways, count), expert=min(ways, count)))
    each = numbers(row["batch_or_concurrency"]) or [256.0]
    load = rl.Workload(int((numbers(row["prompt"]) or [4096])[0]), 100, int(each[0]) * min(ways, count))
    return Scenario(serve, load)


def of_phase(case_before: Scenario, case_after: Scenario, *, prompts: bool) -> Pair:
    """Two scenarios, of which the passes over prompts or the steps are compared."""

    def prompt(seen: Steady, wait_s: Any) -> Any:
        return 1 / np.asarray(seen.passes.packed_s(PROMPTS_OF_A_PASS, seen.time))

    def step(seen: Steady, wait_s: Any) -> Any:
        return 1 / seen.step_s

    return Pair(case_before, case_after, prompt if prompts else step, kernel=True)


def of_phase_tokens(case_before: Scenario, case_after: Scenario) -> Pair:
    """Two scenarios, of which the tokens that steps yield are compared."""

    def tokens(seen: Steady, wait_s: Any) -> Any:
        return np.asarray(seen.tokens_per_step) * seen.load.batch / seen.step_s

    return Pair(case_before, case_after, tokens, kernel=True)


PROMPTS_OF_A_PASS = 4.0
"""Prompts that share a pass on a wide layout, where the row does not say."""


def two_batches(row: Row) -> Pair:
    """Halves of a batch that overlap."""
    if not row["model"] or row["model"] not in MODELS:
        raise Unmapped("model not printed")
    prompts = "prefill" in row["params"]
    case = wide(row, prompts=prompts)
    if "MTP" in row["params"]:
        drafted = t.MultiTokenPrediction().after(case)
        return replace(of_phase(drafted, t.TwoBatchOverlap().after(drafted), prompts=False), assumed="acceptance")
    return of_phase(case, t.TwoBatchOverlap().after(case), prompts=prompts)


def balancing(row: Row) -> Pair:
    """Experts placed by their load."""
    if "prefill" in row["params"]:
        raise Unmapped("says how uneven the loads are")
    case, technique = wide(row, prompts=False), t.ExpertBalancing()
    return of_phase(technique.without(case), technique.after(case), prompts=False)


def prefix_kernel(row: Row) -> Pair:
    """Attention of one layer with a shared prefix, read once or by every sequence.

    The model is not printed.  The kernel that TensorRT-LLM's is compared with has a block for each query head and beam
    (pull request 14396), which share nothing that they read; ours reads the cache once for each KV head, so that gains
    over long prefixes come out smaller.
    """
    if row["metric"] != "kernel_ratio":
        return with_technique(row, t.SharedPrefixAttention(prefix_tokens=load_of(row).prompt_tokens))
    prefix = int(float(row["prompt"]))
    serve = rl.Deployment("llama-3.1-8b", HARDWARE[row["hardware"]])
    case = Scenario(serve, rl.Workload(prefix + 16, 2, int(float(row["batch_or_concurrency"]))))
    return Pair(case, t.SharedPrefixAttention(prefix_tokens=prefix).after(case), attention_rate, kernel=True)


def attention_rate(seen: Steady, wait_s: Any) -> Any:
    """Attention of a step and what it consists of, by itself."""
    names = ("attention", "prefix_attention", "merge")
    found = [item.estimate_s for item in seen.passes.step.phase.operators if item.operator.name in names]
    return 1 / sum(found)


def adapters(row: Row) -> Pair:
    """Adapters beside every linear layer."""
    if not row["model"]:
        raise Unmapped("model not printed")
    case = case_of(row, serve_of(row))
    step = rl.decode(case.serve, case.load, context_tokens=1)
    if not saturated(row) and float(row["before"] or 0) * step.floor_s > case.load.batch:
        raise Unmapped("format not printed: faster than 16-bit weights can be read")
    adapters = number_after("max-loras", row["params"]) or 8
    return with_technique(row, t.MultiLoRA(adapters=int(adapters), rank=int(number_after("rank", row["params"]) or 16)))


def narrow_messages(row: Row) -> Pair:
    """Messages of 8 bits."""
    ways = int(float(row["count"] or 1))
    if not row["hardware"]:
        raise Unmapped("hardware not printed")
    return with_technique(row, t.QuantizedCollectives(), tensor=ways)


def context_parallel(row: Row) -> Pair:
    """The cache of a sequence over the ranks that would hold copies."""
    lengths = numbers(row["prompt"])
    if not lengths:
        raise Unmapped("lengths not printed")
    return with_technique(row, t.DecodeContextParallelism())


def prefix_cache(row: Row) -> Pair:
    """A prefix that is found."""
    found = number_after("hit", row["params"])
    if found is None or not row["model"]:
        raise Unmapped("hit rate or model not printed")
    return with_technique(row, t.PrefixCaching(hit_rate=found, shared=False))


def tiers(row: Row) -> Pair:
    """A tier of memory, from one hit rate to another."""
    rates = re.search(r"hit(?: rate)? (0\.\d+) to (0\.\d+)", row["params"])
    if rates is None:
        raise Unmapped("hit rates not printed")
    if not row["model"]:
        raise Unmapped("model not printed")
    if not row["hardware"]:
        usual = {"hardware": "H200", "count": "8", "precision": "fp8_block", "prompt": "25000", "output": "500"}
        row = {**row, **usual, "batch_or_concurrency": "64"}
    case = case_of(row, serve_of(row))
    before, after = (float(rate) for rate in rates.groups())
    found = pair(row, case.replace(hit_rate=before), t.KVTiers(hit_rate=after).after(case))
    return replace(found, kernel=True, assumed="accelerators, lengths and requests")


def parts(row: Row) -> Pair:
    """Other formats of attention and experts on a wide layout.

    Attention in 16 bits is that of the kernel and its cache; its projections are FP8 like every other product.
    """
    prompts = "prefill" in row["params"]
    ways = 4 if prompts else 48
    formats = (
        rl.Precision(weights="fp8_block", activations="fp8"),
        rl.Precision(weights="nvfp4", activations="nvfp4", kv="fp8", exceptions={"attention": "fp8"}),
    )
    load = rl.Workload(2000, 100, ways * PARTS_BATCH)
    layout = rl.Parallel(data=ways, expert=ways)
    serves = [
        rl.Deployment("deepseek-v3", "gb200", engine="sglang", precision=each, parallel=layout) for each in formats
    ]
    found = of_phase(*(Scenario(serve, load) for serve in serves), prompts=prompts)
    return replace(found, assumed="layout and batch")


PARTS_BATCH = 256
"""Sequences of an accelerator on a wide layout, where a row does not print them."""


def wide_layout(row: Row) -> Pair:
    """Decode of a wide deployment against tensor parallelism over two nodes, tokens of a node."""
    if "bound" in row["params"]:
        raise Unmapped("two deployments of different sizes")
    serve = serve_of(row, tensor=1)
    layouts = rl.Parallel(tensor=16), rl.Parallel(data=72, expert=72)
    cases = [Scenario(serve.replace(parallel=each), rl.Workload(2000, 100, each.data * 256)) for each in layouts]

    def of_node(seen: Steady, wait_s: Any) -> Any:
        return np.asarray(seen.load.batch) / seen.step_s / seen.case.serve.parallel.accelerators

    return Pair(*cases, of_node, assumed="batch")


ABLATION = "TensorRT-LLM tech blog 3, max-throughput DeepSeek-R1 on B200"
"""A source whose gains hold one on top of the other: attention data parallelism, expert parallelism, an 8-bit cache,
and then graphs, messages of 4 bits and the overlap of the host."""

ABLATION_REQUESTS = 3072
"""Requests in flight of its runs, 384 for each of eight accelerators."""


def ablation(row: Row) -> Pair:
    """A row of `ABLATION` on what the rows before it have made of the deployment."""
    serve = serve_of(row).replace(parallel=rl.Parallel(tensor=8))
    replicas = serve.replace(parallel=rl.Parallel(data=8, moe_tensor=8))
    spread = serve.replace(parallel=rl.Parallel(data=8, expert=8))
    narrow = case_of(row, rl.quantize(spread, kv="fp8"))
    sides = {
        "dp-attention": (case_of(row, serve), case_of(row, replicas)),
        "expert-parallel": (case_of(row, replicas), case_of(row, spread)),
        "kv-fp8": (case_of(row, spread), narrow),
        "cuda-graph": (t.CudaGraphs().without(narrow), narrow),
        "quantized-collective": (narrow, t.QuantizedCollectives().after(narrow)),
    }
    host = t.AsyncScheduling()
    sides["async-scheduling"] = (host.without(narrow), host.after(host.given(narrow)))
    if row["technique"] not in sides:
        raise Unmapped(REASONS[row["technique"]])
    found = pair(row, *sides[row["technique"]])
    return replace(found, caps=(ABLATION_REQUESTS, ABLATION_REQUESTS))


RULES: Mapping[str, Callable[[Row], Pair]] = {
    "speculation-eagle": speculation,
    "speculation-eagle3": speculation,
    "speculation-mtp": speculation,
    "speculation-eagle3-moe": speculation,
    "speculation-ngram": ngram,
    "speculation-parallel-draft": parallel_drafts,
    "weights-fp8": weights,
    "weights-w8a16": weights,
    "weights-w4a16": weights,
    "weights-bnb4": weights,
    "weights-w8a8": weights,
    "weights-fp8+expert-parallel": expert_parallel,
    "weights-w8a16+expert-parallel": expert_parallel,
    "kv-fp8": with_kv,
    "tensor-parallel": tensor_parallel,
    "pipeline-parallel": pipeline_parallel,
    "expert-parallel": expert_parallel,
    "dp-attention": attention_data_parallel,
    "skip-softmax": skip_softmax,
    "cuda-graph": graphs,
    "async-scheduling": asynchronous,
    "two-batch-overlap": two_batches,
    "eplb": balancing,
    "shared-prefix-attention": prefix_kernel,
    "multi-lora": adapters,
    "quantized-collective": narrow_messages,
    "decode-context-parallel": context_parallel,
    "prefix-caching": prefix_cache,
    "kv-tier-host": tiers,
    "kv-tier-shared-store": tiers,
    "speculation-draft-model": draft_model,
    "weights-nvfp4-moe": parts,
    "expert-parallel-wide": wide_layout,
}
"""Technique of a row -> how it becomes two scenarios."""


def rule_of(row: Row) -> Callable[[Row], Pair] | None:
    """How a row becomes two scenarios; None where it has no counterpart."""
    return ablation if row["source"] == ABLATION else RULES.get(row["technique"])


REASONS = {
    "fusion-allreduce-rmsnorm": "a single kernel",
    "programmatic-dependent-launch": "a launch attribute of one chip",
    "multi-stream-overlap": "overlap of single kernels",
    "kernel-fusion-moe": "one kernel against another",
    "kernel-fusion": "one kernel against another",
    "attention-kernel": "one kernel against another",
    "gemm-backend": "one kernel against another",
    "shared-expert-overlap": "overlap of single kernels",
    "latent-heads": "two different models",
    "expert-offload": "neither the host's memory nor the accelerator is printed",
    "kv-eviction": "length and budget not printed",
    "kv-2bit": "a batch limit of a framework without pages",
    "chunked-prefill": "against an engine of another year, lengths or SLO not printed",
    "continuous-batching": "lengths not printed",
    "flash-attention": "one kernel against another",
    "speculation-mtp-relaxed": "acceptance not printed",
    "disaggregation": "goodput under an SLO that is not printed",
    "encoder-disaggregation": "goodput under an SLO that is not printed",
    "kv-sub4bit": "a kernel that expands the cache slowly; its cost is not printed",
}
"""Techniques whose rows have no counterpart, and why."""
