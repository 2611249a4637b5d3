"""Servers as the sources of measured gains ran them: their settings, and runs from the first request to the last."""

import csv
import sys
from pathlib import Path

import numpy as np
import pytest

import roofline as rl
from roofline import techniques as t
from roofline.serving.scenario import Scenario

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import technique_rules  # noqa: E402
from measured_servers import (  # noqa: E402
    SHAREGPT,
    as_trtllm_bench,
    most_sequences,
    most_tokens,
    release_of,
    run_tokens_per_s,
)

GAINS = ROOT / "tests/data/measurements/technique_gains.csv"
ROWS = {row["id"]: row for row in csv.DictReader(GAINS.read_text("utf-8").splitlines())}


@pytest.mark.parametrize(
    ("engine", "printed", "date", "version"),
    [
        ("vllm", "vLLM 0.9.2", "2025-10..2026-07", "0.9.2"),
        ("vllm", "vLLM", "2024-12", "0.6.0"),
        ("vllm", "vLLM", "2025-10..2026-07", "0.11.0"),
        ("trtllm", "TensorRT-LLM 0.17", "2025-02", "0.17"),
        ("trtllm", "TensorRT-LLM", "2025-05", "0.20.0"),
        ("vllm", "vLLM", "2026-03", ""),
        ("sglang", "SGLang", "2025-05", ""),
    ],
)
def test_the_release_of_a_row(engine, printed, date, version):
    assert release_of(engine, printed, date) == version


@pytest.mark.parametrize(("requests", "sequences"), [(10, 64), (65, 96), (300, 384), (1100, 1280)])
def test_sequences_that_an_engine_is_built_for(requests, sequences):
    """Rounded up to 32 below 256, to 128 below 1,024, to 256 beyond; 64 at least (trtllm-bench)."""
    assert most_sequences(requests) == sequences


@pytest.mark.parametrize(("tokens", "most"), [(100, 2048), (2100, 2304), (5000, 5120), (9000, 9216)])
def test_tokens_that_an_engine_is_built_for(tokens, most):
    """Rounded up to 256 below 4,096, to 512 below 8,192, to 1,024 beyond; 2,048 at least (trtllm-bench)."""
    assert most_tokens(tokens) == most


def test_fp8_weights_come_with_an_fp8_cache():
    """Llama 3.1 70B on one H100: 70.6 GB of weights leave about 26 sequences of 2,000 tokens at 164 KB a token."""
    serve = rl.Deployment("llama-3.1-70b", "h100-sxm", rl.Precision(weights="fp8", activations="fp8"), engine="trtllm")
    built = as_trtllm_bench(serve, rl.Workload(1000, 1000))
    assert built.precision.kv == "fp8"
    assert built.server.memory_fraction == 0.95
    assert built.server.max_sequences == 64
    wide = rl.Deployment("llama-3.1-70b", "a100-sxm-80gb", parallel=rl.Parallel(tensor=4), engine="trtllm")
    assert as_trtllm_bench(wide, rl.Workload(1000, 1000)).precision.kv == "bf16"


@pytest.mark.parametrize("name", [name for name in ROWS if name.startswith("trt17")])
def test_throughput_of_the_performance_overview(name):
    """Tokens per second before and after, as TensorRT-LLM 0.17 prints them, and their ratio."""
    pair = technique_rules.tensor_parallel(ROWS[name])
    before, after = (pair._figure(case, cap) for case, cap in zip((pair.before, pair.after), pair.caps, strict=True))
    assert before == pytest.approx(float(ROWS[name]["before"]), rel=0.15)
    assert after == pytest.approx(float(ROWS[name]["after"]), rel=0.15)
    assert after / before == pytest.approx(float(ROWS[name]["gain"]), rel=0.15)


@pytest.mark.parametrize(
    ("model", "accelerator", "engine", "slots"),
    [("llama-3.1-8b", "h100-sxm", "vllm", 256), ("qwen3-32b", "h100-sxm", "vllm", 1024)],
)
def test_a_whole_run_is_as_long_as_its_simulation(model, accelerator, engine, slots):
    """1,000 requests at once with exponential outputs; the closed form against every step of the scheduler."""
    serve = rl.Deployment(model, accelerator, engine=rl.Engine(engine, max_sequences=slots))
    prompt, output = SHAREGPT
    lengths = -np.log(1.0 - (np.arange(1000) + 0.5) / 1000)
    traffic = rl.Traffic.of([(prompt, max(1, round(output * length))) for length in lengths])
    simulated = rl.simulate(serve, traffic, concurrency=1000, requests=1000)
    case = Scenario(serve, rl.Workload(prompt, output), chunk_tokens=serve.server.step_tokens)
    assert run_tokens_per_s(case, 1000, slots) == pytest.approx(float(simulated.tokens_per_s), rel=0.2)


def test_a_run_that_fits_at_once_is_all_drain():
    """Exponential outputs of ``n`` steps, all started together: the longest of R takes ``n (1 + 1/2 + ... + 1/R)``."""
    serve = rl.Deployment("llama-3.1-8b", "h100-sxm")
    one = Scenario(serve, rl.Workload(1, 2000, 1))
    rate = run_tokens_per_s(one, 1, 256)
    assert rate == pytest.approx(float(rl.generate(serve, rl.Workload(1, 2000, 1)).tokens_per_s), rel=0.02)
    few, many = (run_tokens_per_s(one.replace(load=rl.Workload(200, 200)), requests, 256) for requests in (256, 25_600))
    assert few < 0.6 * many


def test_adapters_in_front_of_eager_prompts():
    """vLLM of December 2024, Llama 2 7B: a prompt takes 25 ms, and 105 ms with an adapter (issue 11436).

    From that, 1,000 conversations at once on an A100: 2,693.6 to 1,787.8 tokens/s (pull request 11267).
    """
    engine = rl.Engine("vllm", version="0.6.4")
    serve = rl.Deployment("llama-2-7b", "a100-sxm-80gb", engine=engine)
    effect = rl.apply(serve, rl.Workload(128, 10), t.MultiLoRA(rank=8, adapters=1))
    assert effect.before.prompt_s == pytest.approx(25e-3, rel=0.2)
    assert effect.after.prompt_s == pytest.approx(105e-3, rel=0.1)
    row = ROWS["v11267"]
    assert technique_rules.adapters(row).gain() == pytest.approx(float(row["gain"]), rel=0.15)
    captured = rl.apply(serve.replace(engine="vllm"), rl.Workload(128, 10), t.MultiLoRA(rank=8, adapters=1))
    assert captured.after.prompt_s < 1.4 * captured.before.prompt_s
