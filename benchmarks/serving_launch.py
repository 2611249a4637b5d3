"""How the servers of the measured runs were launched: layouts, formats, and options of their engines.

The options are those of the public launch scripts (github.com/SemiAnalysisAI/InferenceX, ``benchmarks``) on the day of
a run, and of those that the vendor's tool writes (`VENDOR_SPARE_TOKENS`).  What neither states is the engine's default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import roofline as rl

Row = Mapping[str, str]

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

MODELOPT_CACHE = {"fp8": "fp8", "nvfp4": "fp8"}
"""Format of products -> cache format of NVIDIA's ModelOpt checkpoints, which the vendor's own runs took.

Their ``hf_quant_config.json`` states ``kv_cache_quant_algo: FP8``, which TensorRT-LLM and vLLM follow.  The runs agree:
128 sequences of Qwen3-32B with 1,024 + 512 tokens start at once on one H100 (first token after 0.75 s), where a 16-bit
cache holds 100 of them.
"""

VENDOR_SPARE_TOKENS = 1_500
"""Tokens of a step beyond the running sequences and a prompt, in the launch scripts that the vendor's tool writes.

``max_num_tokens`` in github.com/ai-dynamo/aiconfigurator, src/aiconfigurator/generator/rule_plugin/trtllm.rule and
vllm.rule: prompts of 1,024 tokens run two at a time and longer ones one by one.
"""

ONE_WAITS = ("llama-3.1-8b",)
"""Models whose vendor's runs had a slot fewer than clients, by all signs.

Their times to first token grow with the length of the answers and shrink with the number of clients: what they exceed
those of free slots by is the time between two completions (slope 1.01, correlation 0.92 over 108 runs with up to 32
clients), so one client always waits for the next slot.  No run of another model or engine shows that.
"""

WIDE_GRAPHS = 2048
"""``--max-cudagraph-capture-size`` of the scripts that capture passes with whole prompts of 1,024 tokens."""

WARM_FROM = "2026-01-21"
"""First day on which the public runs send requests before those that count (``--num-warmups``)."""


def is_public(row: Row) -> bool:
    """Whether a run is one of InferenceX."""
    return row["source_kind"] == "inferencex"


def prompt_tokens(row: Row) -> int:
    """Tokens of the longest prompt."""
    return int(float(row["input_tokens_max"]))


def output_tokens(row: Row) -> int:
    """Tokens of the longest answer."""
    return int(float(row["output_tokens_max"]))


def clients(row: Row) -> int:
    """Requests in the system."""
    return int(float(row["concurrency_in_flight"]))


def degrees(row: Row) -> tuple[int, int, int]:
    """Tensor, data and expert parallelism of a run.

    The table calls vLLM's public runs of two days in March 2026 data-parallel, and the FP8 runs of MiniMax M2.5 of
    April. None of their scripts asks for replicas (``--data-parallel-size``), and on four H100 the first token of
    MiniMax M2.5 comes as early as four accelerators together can compute a prompt of 8,192 tokens (0.27 s), which takes
    one of them 0.65 s.  On Blackwell the script of MiniMax M2.5 of March asks for expert parallelism where its degree
    is at least 1, which it always is; that of Kimi K2.5 never does.
    """
    tensor, data, expert = (int(float(row[name])) for name in ("tensor", "data", "expert"))
    model, on_vllm = row["library_model"], row["engine"] == "vllm"
    of_tensor = row["measured"] in ("2026-03-27", "2026-03-28") or (model, row["precision"]) == ("minimax-m2.5", "fp8")
    if on_vllm and of_tensor:
        tensor, data = tensor * data, 1
    if model == "minimax-m2.5" and row["accelerator"] in BLACKWELL and row["measured"].startswith("2026-03"):
        expert = tensor
    if on_vllm and model == "kimi-k2.5":
        expert = 1
    return tensor, data, expert


def precision(row: Row) -> rl.Precision:
    """Formats of weights, activations and cache, as the checkpoints and the launch options have them."""
    model, accelerator, label = row["library_model"], row["accelerator"], row["precision"] or "bf16"
    own = rl.get_model(model).precision
    kv = cache_format(row)
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


def cache_format(row: Row) -> str:
    """``--kv-cache-dtype`` of the launch scripts."""
    if not is_public(row):
        return MODELOPT_CACHE.get(row["gemm_quant_mode"], "bf16")
    if row["engine"] == "trtllm":
        return "fp8"
    if (row["precision"] or "bf16") in ("bf16", "int4"):
        return "bf16"
    model = row["library_model"]
    if model == "minimax-m2.5" and row["measured"].startswith("2026-03"):
        return "bf16"
    if model == "gpt-oss-120b" and row["measured"].startswith("2025"):
        return "bf16"
    return "fp8" if row["accelerator"] in BLACKWELL or model.startswith("qwen3.5") else "bf16"


def launched(row: Row) -> rl.Engine:
    """The engine with the options of its launch script."""
    engine, version = row["engine"], row["engine_version"]
    if is_public(row):
        options = PUBLIC[engine](row) if row["mode"] == "agg" else of_workers(row)
        return rl.Engine(engine, version=version, **options)
    if engine == "sglang":
        return rl.Engine(engine, version=version, step_tokens=8192)
    slots = {"max_sequences": clients(row) - 1} if row["library_model"] in ONE_WAITS else {}
    budget = clients(row) + prompt_tokens(row) + VENDOR_SPARE_TOKENS
    return rl.Engine(engine, version=version, step_tokens=budget, **slots)


def of_workers(row: Row) -> dict[str, Any]:
    """Options of workers of two pools, as far as they are alike."""
    model, engine, busy = row["library_model"], row["engine"], clients(row)
    if engine == "trtllm":
        return {"step_tokens": 20_000 if model == "gpt-oss-120b" else max(8192, busy + prompt_tokens(row) + 128)}
    if engine == "vllm":
        return {"step_tokens": 8192} | ({"max_sequences": busy} if model == "kimi-k2.5" else {})
    small = model.startswith("qwen3.5") or row["precision"] == "fp4"
    interval = 1
    if row["accelerator"] in BLACKWELL and (model, row["precision"]) != ("glm-5", "fp8"):
        interval = 30 if busy >= 16 else 10
    return {"step_tokens": 16_384 if small else 32_768, "receive_interval": interval}


def of_vllm(row: Row) -> dict[str, Any]:
    """Options of vLLM."""
    model, on_hopper = row["library_model"], row["accelerator"] == "h100-sxm"
    if model == "minimax-m2.5" and not on_hopper:
        if version_of_a_night(row):
            return {"step_tokens": 8192}
        if row["measured"].startswith("2026-03"):
            return {"step_tokens": 8192, "memory_fraction": 0.95}
        return {"step_tokens": 2 * prompt_tokens(row), "graph_tokens": WIDE_GRAPHS}
    options: dict[str, Any] = {"step_tokens": 8192}
    if model == "minimax-m2.5":
        options["max_sequences"] = 256
    elif on_hopper or model == "kimi-k2.5":
        options["max_sequences"] = clients(row)
    else:
        options["max_sequences"] = 512
    if model == "gpt-oss-120b":
        options["graph_tokens"] = WIDE_GRAPHS
    if model == "kimi-k2.5" and row["precision"] == "int4":
        options["memory_fraction"] = 0.95
    if (model, row["accelerator"]) == ("kimi-k2.5", "b200-sxm") and row["measured"] >= "2026-04-20":
        options |= {"step_tokens": 2 * prompt_tokens(row), "graph_tokens": WIDE_GRAPHS}
    if model == "llama-3.1-70b" and not on_hopper:
        options["graph_tokens"] = 0
    return options


def version_of_a_night(row: Row) -> bool:
    """Whether vLLM was a build between releases, tried before there was a script for it."""
    return row["engine_version"].startswith("nightly")


def of_sglang(row: Row) -> dict[str, Any]:
    """Options of SGLang."""
    model, label, eight = row["library_model"], row["precision"], int(float(row["tensor"])) == 8
    rarely = row["accelerator"] in BLACKWELL and (model, label) != ("glm-5", "fp8")
    options: dict[str, Any] = {"receive_interval": (30 if clients(row) >= 16 else 10) if rarely else 1}
    options |= {"step_tokens": 32_768, "prefix_caching": False}  # --disable-radix-cache
    if row["accelerator"] == "h200-sxm" and model.startswith("qwen3.5"):
        return options | {"step_tokens": 16_384, "max_sequences": 128, "memory_fraction": 0.8}
    if model.startswith("qwen3.5"):
        return options | {"max_sequences": 128, "memory_fraction": 0.85 if label == "fp4" else 0.82}
    if model == "glm-5":
        fraction = 0.85 if label == "fp8" else 0.8
        return options | {"max_sequences": clients(row), "memory_fraction": fraction}
    if label == "fp4":
        return options | {"step_tokens": 16_384, "max_sequences": 256, "memory_fraction": 0.85}
    if row["accelerator"] == "h200-sxm":
        return options | {"memory_fraction": 0.82}
    if eight:
        return options | {"max_sequences": 128, "memory_fraction": 0.82}
    return options | {"step_tokens": 8192, "max_sequences": 32, "memory_fraction": 0.95, "receive_interval": 10}


def of_trtllm(row: Row) -> dict[str, Any]:
    """Options of TensorRT-LLM."""
    model, prompt, answer = row["library_model"], prompt_tokens(row), output_tokens(row)
    replicas = int(float(row["data"])) > 1
    if model == "gpt-oss-120b":
        options: dict[str, Any] = {"step_tokens": 20_000, "max_sequences": 512, "memory_fraction": 0.85}
        return options | ({"balance_wait_steps": 50, "balance_batching_steps": 10} if replicas else {})
    if model.startswith("llama"):
        waits = (prompt, answer) == (1024, 1024) and float(row["tensor"]) < 8
        return {"step_tokens": 16_384} | ({"batch_wait_steps": 20, "batch_wait_share": 0.9} if waits else {})
    budget = max(8192, (clients(row) + prompt + 127) // 64 * 64)
    options = {"step_tokens": budget, "memory_fraction": 0.8} | ({"balance_wait_steps": 60} if replicas else {})
    short, eight = (prompt, answer) == (1024, 1024), int(float(row["tensor"])) * int(float(row["data"])) == 8
    if row["precision"] == "fp4":
        if short and eight and int(float(row["expert"])) == 8:
            options["graph_tokens"] = budget
        return options
    if short and clients(row) >= 64:
        options |= {"graph_tokens": budget, "batch_wait_steps": 40, "batch_wait_share": 0.8}
    elif (prompt, answer) == (1024, 8192) and clients(row) >= 256:
        options["memory_fraction"] = 0.7
    elif (prompt == 1024 and clients(row) >= 128) or (prompt == 8192 and clients(row) >= 64):
        options["graph_tokens"] = budget
    if prompt == 8192 and not eight:
        options["memory_fraction"] = 0.75
    return options


PUBLIC = {"vllm": of_vllm, "sglang": of_sglang, "trtllm": of_trtllm}
"""Engine -> its options in the public launch scripts."""
