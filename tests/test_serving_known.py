"""Measured servers whose memory or whose lengths decide what they do: what is known of them holds."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent

FULL = [
    ("minimax-m2.5", "b200-sxm", "vllm", "fp4", "1", "512", 202.0, 70.3),
    ("minimax-m2.5", "b200-sxm", "vllm", "fp8", "2", "256", 103.3, 63.9),
    ("llama-3.1-70b", "b200-sxm", "trtllm", "fp8", "1", "128", 75.5, 136.6),
    ("llama-3.1-70b", "b200-sxm", "trtllm", "fp8", "1", "128", 73.2, 47.1),
    ("llama-3.1-70b", "b200-sxm", "trtllm", "fp4", "1", "128", 94.4, 67.2),
    ("llama-3.1-70b", "h100-sxm", "vllm", "fp8", "2", "64", 28.7, 59.2),
    ("qwen3-32b", "h100-sxm", "vllm", "", "2", "128", 65.6, 19.0),
    ("qwen3-32b", "h100-sxm", "vllm", "", "2", "128", 63.4, 33.5),
    ("qwen3-32b", "h100-sxm", "vllm", "", "2", "128", 62.7, 58.8),
]
"""Runs with more clients than memory holds: model, accelerator, engine, format, tensor degree, clients; the batch that
ran, ``clients * generating / total`` by Little's law, and the measured mean time to first token, seconds."""


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("benchmark_serving_known", ROOT / "benchmarks" / "serving.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def row_of(benchmark, *wanted, ttft_s):
    names = ("library_model", "accelerator", "engine", "precision", "tensor", "concurrency_in_flight")
    return next(
        row
        for row in benchmark.rows()
        if benchmark.undoubted(row)
        and float(row["ttft_mean_ms"]) == pytest.approx(ttft_s * 1e3, rel=0.01)
        and all(row[name].removesuffix(".0") == value for name, value in zip(names, wanted, strict=True))
    )


@pytest.mark.parametrize("case", FULL, ids=lambda case: "-".join(case[:4]))
def test_memory_holds_the_batch_that_ran_and_the_others_wait_as_long(benchmark, case):
    *wanted, running, ttft_s = case
    found = benchmark.simulated(benchmark.measured(row_of(benchmark, *wanted, ttft_s=ttft_s)))
    assert found.running == pytest.approx(running, rel=0.06)
    assert found.ttft_s == pytest.approx(ttft_s, rel=0.2)
    if case != FULL[-1]:  # 14 % short: the longest answers of Qwen3-32B, most of whose requests are put back and redone
        assert found.tpot_miss == pytest.approx(0.0, abs=0.1)


def test_requests_of_fixed_lengths_move_in_step(benchmark):
    """Qwen3-32B on H100 with SGLang, every request alike: prompts come in waves that only a simulation follows."""
    rows = [row for row in benchmark.rows() if benchmark.undoubted(row) and row["source_kind"] != "inferencex"]
    chosen = [row for row in rows if row["engine"] == "sglang" and row["lengths"] == "fixed"][::5]
    found = [benchmark.simulated(benchmark.measured(row)) for row in chosen]
    assert len(found) > 12
    assert np.median(np.abs([each.tpot_miss for each in found])) <= 0.11
    assert np.median(np.abs([each.ttft_miss for each in found])) <= 0.11


def test_requests_of_fixed_lengths_stay_in_step_where_steps_take_few_prompts(benchmark):
    """TensorRT-LLM's steps hold two prompts of 1,024 tokens in the vendor's runs, so that waves of them are short.

    Their mean time to first token does not depend on how long answers are: 165 to 147 ms at 8 clients of Qwen3-32B on
    two H100, whatever is generated, where steps of 8 prompts would make it twice as long.
    """
    rows = [row for row in benchmark.rows() if benchmark.undoubted(row) and row["engine_version"] == "1.0.0rc3"]
    chosen = [row for row in rows if row["library_model"] == "qwen3-32b"][::8]
    found = [benchmark.simulated(benchmark.measured(row)) for row in chosen]
    assert len(found) > 20
    assert np.median(np.abs([each.tpot_miss for each in found])) <= 0.075
    assert np.median(np.abs([each.ttft_miss for each in found])) <= 0.2


def test_rows_that_repeat_others_are_no_runs_of_their_own(benchmark):
    """15 rows of the vendor are InferenceX's runs of Kimi K2.5 to the last digit; they say that these are TP 4."""
    copies = [row for row in benchmark.rows() if benchmark.is_copy(row)]
    runs = [row for row in benchmark.rows() if row["library_model"] == "kimi-k2.5" and not benchmark.is_copy(row)]
    times = {(round(float(row["ttft_mean_ms"]), 1), round(float(row["tpot_mean_ms"]), 1)): row for row in runs}
    found = [times.get((round(float(row["ttft_mean_ms"]), 1), round(float(row["tpot_mean_ms"]), 1))) for row in copies]
    assert len(copies) == 15
    assert all(found)
    assert {benchmark.degrees(row)[:2] for row in found} == {(4, 1)}
    assert not any(benchmark.undoubted(row) for row in copies)
