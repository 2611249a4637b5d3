"""Servers as the sources of measured gains ran them: releases, settings, and runs of a fixed number of requests."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

import roofline as rl
from roofline.serving.scenario import Scenario
from roofline.serving.steady_state import steady_state

RELEASES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "vllm": (("2024-09", "0.6.0"), ("2025-03-18", "0.8.0"), ("2025-07-07", "0.9.2"), ("2025-10", "0.11.0")),
    "trtllm": (("2024", "0.9.0"), ("2025-02", "0.17.0"), ("2025-05", "0.20.0"), ("2025-09", "1.0.0")),
}
"""Engine -> when some of its releases came out; what a source of 2026 ran is taken as the newest."""

NEWEST_FROM = "2026"
"""Sources of this year on ran releases that schedule and capture as today's do."""


def release_of(engine: str, printed: str, date: str) -> str:
    """Release of an engine: as printed, else the last one that was out on the day; empty for today's.

    Examples
    --------
    >>> release_of("vllm", "vLLM 0.9.2", "2025-10"), release_of("vllm", "vLLM", "2025-07-10")
    ('0.9.2', '0.9.2')
    """
    if found := re.search(r" (\d+\.\d+(?:\.\d+)?)$", printed):
        return found[1]
    if date >= NEWEST_FROM:
        return ""
    out = [version for since, version in RELEASES.get(engine, ()) if since <= date]
    return out[-1] if out else ""


KV_SHARE = 0.95
"""Share of the free memory that the tables of TensorRT-LLM's performance overview give to the cache."""


def as_trtllm_bench(serve: rl.Deployment, load: rl.Workload) -> rl.Deployment:
    """TensorRT-LLM as ``trtllm-bench`` builds it for the tables of its performance overview.

    Weights of FP8 come with a cache of FP8 (``bench/build/build.py``), 0.95 of the free memory is the cache's, and the
    most sequences and tokens of a step follow from how many requests the cache holds (``bench/build/tuning.py``).
    """
    precision = serve.precision
    if precision.weights == "fp8":
        precision = replace(precision, kv="fp8")
    free_bytes = serve.accelerator.memory_bytes * serve.parallel.accelerators - serve.model.weight_bytes(precision)
    each_bytes = serve.model.cache_bytes(load.context_tokens + load.output_tokens, precision.kv)
    requests = min(max(KV_SHARE * free_bytes / each_bytes, 1.0), 4096.0)
    tokens = min(requests * (1 + float(load.prompt_tokens) / float(load.output_tokens)), 32_768.0)
    engine = rl.Engine(
        "trtllm",
        version=serve.server.version,
        memory_fraction=KV_SHARE,
        max_sequences=most_sequences(requests),
        step_tokens=most_tokens(tokens),
    )
    return serve.replace(precision=precision, engine=engine)


def most_sequences(requests: float) -> int:
    """Sequences that an engine is built for, rounded up as ``trtllm-bench`` does."""
    if requests < 256:
        return max(64, 32 * math.ceil(requests / 32))
    unit = 128 if requests < 1024 else 256
    return unit * math.ceil(requests / unit)


def most_tokens(tokens: float) -> int:
    """Tokens of a step that an engine is built for, rounded up as ``trtllm-bench`` does."""
    if tokens < 4096:
        return max(2048, 256 * math.ceil(tokens / 256))
    unit = 512 if tokens < 8192 else 1024
    return unit * math.ceil(tokens / unit)


SHAREGPT = (217, 201)
"""Mean tokens of prompts and outputs of the first 1,000 conversations that vLLM's benchmark draws from ShareGPT."""

DRAIN_POINTS = 24
"""Numbers of running sequences at which steps are computed while a run drains; lines in between."""


def run_tokens_per_s(case: Scenario, requests: float, slots: float) -> float:
    """Output tokens per second of a run whose ``requests`` all come at the start, as of ``vllm bench serve``.

    ``R`` sequences run at a time, as many as memory and ``slots`` hold.  Lengths of outputs are taken as exponential
    around their mean of ``n`` steps.  As long as requests wait, each takes its part of the prompts and of the steps,
    ``n step(R) / R``.  Once none is left, ``k`` sequences take ``n / k`` steps until the next one ends, so the run
    drains in

        n (step(1) + step(2) / 2 + ... + step(R) / R),

    in small batches, whatever the rate of the full ones: most of the time of a run that has few requests to a slot.
    """
    running = float(np.clip(np.asarray(steady_state(case).max_batch), 1.0, min(slots, requests)))
    full = steady_state(case.replace(load=replace(case.load, batch=running)))
    steps = float(full.passes.steps)
    prompt_s = (float(full.total_s) - steps * float(full.step_s)) / running
    waited_s = (requests - running) / running * steps * float(full.step_s)
    counts = np.unique(np.round(np.geomspace(1.0, running, DRAIN_POINTS)))
    draining = steady_state(case.replace(load=replace(case.load, batch=counts), chunk_tokens=None))
    left = np.arange(1.0, running + 1.0)
    step_s = np.interp(left, counts, np.broadcast_to(np.asarray(draining.step_s), counts.shape))
    drained_s = steps * float(np.sum(step_s / left))
    return requests * float(case.load.output_tokens) / (requests * prompt_s + waited_s + drained_s)
