"""Measured servers with a pool for prompts and one that generates."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def benchmark():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        return importlib.import_module("serving_pools")
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


def test_rows_that_state_workers_and_clients_are_mapped(benchmark):
    rows = benchmark.rows()
    kept = [row for row in rows if not benchmark.doubt(row)]
    assert len(rows) == 842
    assert len(kept) == 69  # 77 state their workers; of those 7 do not state their clients, and one was still starting
    for row in kept:
        assert benchmark.worker(row, "decode").parallel.accelerators >= 4


def test_clients_are_those_that_the_decode_workers_hold(benchmark):
    """Two columns say the same: the id's clients, and the batch of each decode worker and replica."""
    for row in benchmark.rows():
        if benchmark.doubt(row):
            continue
        replicas = benchmark.count(row, "decode_num_workers") * benchmark.count(row, "decode_attention_dp_size")
        assert benchmark.clients(row) // replicas == benchmark.count(row, "decode_batch_size")


def test_throughput_of_two_pools_is_near_what_was_measured(benchmark):
    small = [row for row in benchmark.rows() if not benchmark.doubt(row) and benchmark.clients(row) <= 64][::4]
    found = [benchmark.simulated(row) for row in small]
    assert len(found) >= 8
    misses = np.abs([run.throughput_miss for run in found])
    assert np.median(misses) <= 0.2
    assert np.max(misses) <= 0.5


def test_requests_beyond_the_slots_wait_for_a_decode_worker(benchmark):
    """55 clients of five workers with 8 slots each: 15 wait, about 15 / 40 of the 8.8 ms x 921 steps of the others."""
    few = [row for row in benchmark.rows() if not benchmark.doubt(row) and benchmark.clients(row) in (55, 105)]
    assert len(few) == 2
    for row in few:
        found = benchmark.simulated(row)
        assert found.found.limit == "slots"
        assert abs(found.ttft_miss) < 0.25
        assert abs(found.throughput_miss) < 0.12


def test_names_of_runs_are_read_as_their_recipes_launch(benchmark):
    """InferenceX, pull request 919: prompts of 1,024 tokens on H200 by attention in replicas, those of 8,192 not."""
    layouts = {
        benchmark.degrees(row, "prefill")[:2]
        for row in benchmark.rows()
        if not benchmark.doubt(row)
        and row["accelerator"] == "h200-sxm"
        and row["engine"] == "trtllm"
        and row["input_tokens_max"] == "8192"
    }
    assert layouts == {(8, 1)}
