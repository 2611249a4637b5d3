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
