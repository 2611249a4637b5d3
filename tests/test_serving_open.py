"""Measured servers with requests at a finite rate, simulated as they were run."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("benchmark_serving_open", ROOT / "benchmarks" / "serving_open.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def runs(benchmark):
    benchmark.SEEDS = range(4)
    return [benchmark.simulated(row) for row in benchmark.rows()]


def test_every_run_at_a_finite_rate_is_answered(runs):
    assert len(runs) == 48
    assert all(np.isfinite([run.ttft_s, run.tpot_s, run.requests_per_s]).all() for run in runs)


def test_time_per_token_is_met_below_saturation(runs):
    """The goal for runs that had no part in a fit: 15 %; a queue that grows differs too much from seed to seed."""
    misses = [abs(run.tpot_miss) for run in runs if run.one_by_one and not run.saturated]
    assert len(misses) > 20
    assert np.median(misses) <= 0.15


def test_first_tokens_below_saturation_are_within_a_factor_of_one_and_a_half(runs):
    """Chat prompts on an RTX 5090 run without a graph from 65 tokens on, as its server takes 32 sequences."""
    calm = [run for run in runs if not run.saturated]
    assert len(calm) == 24
    assert sum(run.ttft_is_near for run in calm) >= 23  # one of them is near the edge, and seeds differ


def test_saturation_is_named_where_the_asked_rate_exceeds_what_was_reached(runs):
    full = [run for run in runs if run.saturated]
    assert len(full) > 20
    assert all(run.named for run in full)
    needless = [run for run in runs if run.named and not run.saturated]
    assert all(run.reached < 0.8 * run.asked for run in needless)  # they fell short too, but nobody waited for a second


def test_first_tokens_of_a100_come_when_they_came(runs):
    """The same 200 prompts at 1, 4 and 16 requests/s, one after the other: most of them are cached.

    Pipelines of vLLM 0.8.3 run on its first engine, which computes even short prompts without graphs.
    """
    calm = [run for run in runs if run.row["accelerator"] == "a100-sxm-40gb"]
    assert len(calm) == 9
    assert all(run.ttft_is_near for run in calm)


def test_several_steps_of_a_schedule_delay_first_tokens_on_mi300x(runs):
    """``--num-scheduler-steps 15`` without chunked prefill: below saturation, half of 15 steps and the prompts."""
    calm = [run for run in runs if run.row["accelerator"] == "mi300x" and not run.saturated]
    assert len(calm) == 2
    assert all(run.ttft_is_near for run in calm)
    assert all(run.requests_per_s == pytest.approx(run.reached, rel=0.15) for run in calm)


def test_first_tokens_come_when_they_came_except_after_short_prompts_on_an_rtx_5090(runs):
    """Within a factor of 1.5 below saturation in the mean of eight seeds; two of them differ from it by up to a tenth.

    Prompts of 500 tokens took 97 to 104 ms on the RTX 5090, of which 60 are simulated.
    """
    calm = [run for run in runs if not run.saturated]
    late = [
        run
        for run in calm
        if run.row["accelerator"] == "rtx-5090" and run.row["input_tokens_spread"].startswith("chatbot")
    ]
    assert (len(calm), len(late)) == (24, 3)
    assert all(0.5 < run.ttft_ratio < 1 for run in late)
    assert all(1 / 1.65 < run.ttft_ratio < 1.65 for run in calm if run not in late)


def test_slots_of_the_launch_limit_a_gb10(runs):
    """``--max-num-seqs 32``: conversations of agents at 1 and 1.2 requests/s wait for a slot."""
    agents = [
        run
        for run in runs
        if run.row["accelerator"] == "gb10-dgx-spark" and run.row["input_tokens_spread"].startswith("agent")
    ]
    assert len(agents) == 3
    fullest = max(agents, key=lambda run: run.asked)
    assert fullest.measured_ttft_s == pytest.approx(7.15, rel=0.01)  # 0.4 s where 256 may run
    assert 0.5 < fullest.ttft_ratio < 2.0
    assert all(abs(run.tpot_miss) < 0.15 for run in agents)


def test_quantiles_are_kept_and_means_met(benchmark):
    rng = np.random.default_rng(0)
    values = benchmark.TRACES["toolagent", "rtx-5090"][1]
    drawn = benchmark.between_quantiles(
        values, float(np.mean(np.interp(rng.random(100_000), benchmark.SHARES, values))), rng
    )
    assert np.median(drawn) == pytest.approx(52, rel=0.15)
    assert np.quantile(drawn, 0.9) == pytest.approx(529, rel=0.1)
    assert benchmark.between_quantiles(values, 300.0, rng).mean() == pytest.approx(300.0, rel=0.01)


def test_a_run_that_is_over_before_it_is_steady(runs):
    """1,000 requests at once to 8 H100: what they reach is what was measured, within 15 %."""
    burst = [run for run in runs if run.row["accelerator"] == "h100-sxm"]
    assert len(burst) == 3
    for run in burst:
        assert run.requests_per_s == pytest.approx(run.reached, rel=0.15)
        assert run.tpot_miss == pytest.approx(0.0, abs=0.15)
