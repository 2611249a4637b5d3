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
    benchmark.SEEDS = range(2)
    return [benchmark.simulated(row) for row in benchmark.rows()]


def test_every_run_at_a_finite_rate_is_answered(runs):
    assert len(runs) == 48
    assert all(np.isfinite([run.ttft_s, run.tpot_s, run.requests_per_s]).all() for run in runs)


def test_time_per_token_is_met_below_saturation(runs):
    """The goal for runs that had no part in a fit: 15 %; a queue that grows differs too much from seed to seed."""
    misses = [abs(run.tpot_miss) for run in runs if run.one_by_one and not run.saturated]
    assert len(misses) > 20
    assert np.median(misses) <= 0.15


def test_saturation_is_named_where_the_asked_rate_exceeds_what_was_reached(runs):
    full = [run for run in runs if run.saturated]
    assert len(full) > 20
    assert sum(run.named for run in full) >= len(full) - 2  # both on a GB10, whose kernels were never timed
    needless = [run for run in runs if run.named and not run.saturated]
    assert all(run.reached < 0.6 * run.asked for run in needless)


def test_first_tokens_of_a100_come_when_they_came(runs):
    """The same 200 prompts at 1, 4 and 16 requests/s, one after the other: most of them are cached.

    Pipelines are early by up to a factor of 1.7: vLLM 0.8 takes 1.6 times as long for their steps as is estimated.
    """
    calm = [run for run in runs if run.row["accelerator"] == "a100-sxm-40gb"]
    assert len(calm) == 9
    assert all(run.ttft_is_near for run in calm if run.row["pp"] == "1")
    assert all(0.6 < run.ttft_s * 1e3 / float(run.row["ttft_mean_ms"]) < 1.5 for run in calm)


def test_a_run_that_is_over_before_it_is_steady(runs):
    """1,000 requests at once to 8 H100: what they reach is what was measured, within 15 %."""
    burst = [run for run in runs if run.row["accelerator"] == "h100-sxm"]
    assert len(burst) == 3
    for run in burst:
        assert run.requests_per_s == pytest.approx(run.reached, rel=0.15)
        assert run.tpot_miss == pytest.approx(0.0, abs=0.15)
