"""Techniques against gains that were measured: rows of ``tests/data/measurements/technique_gains.csv``."""

import csv
from pathlib import Path

import numpy as np
import pytest

import roofline as rl
from roofline.operators.operator import Segment
from roofline.phases.passes import run_pass

GAINS = Path(__file__).parent / "data/measurements/technique_gains.csv"
ROWS = {row["id"]: row for row in csv.DictReader(GAINS.read_text("utf-8").splitlines())}


def measured(name):
    return float(ROWS[name]["gain"])


def verification(serve, sequences, new, past, kind=""):
    """A pass that verifies ``new`` tokens of each sequence, or its operators of one kind."""
    found = run_pass(serve, "decode", Segment(sequences, new, past, new))
    if not kind:
        return found.estimate_s
    return sum(item.estimate_s for item in found.operators if item.operator.kind == kind)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "llama-2-7b", "deepseek-v2-lite"])
def test_verification_reads_the_cache_once(h100, model):
    """Two to five tokens a sequence are rows of one tile: at 131,072 tokens the cache decides, not the drafts.

    A kernel for prompts, which walks the whole cache with few blocks, takes five times as long.
    """
    serve = rl.Deployment(model, h100)
    step, *wider = (verification(serve, 1.0, new, 131_072.0, "attention") for new in (1.0, 2.0, 4.0))
    assert step <= wider[0] <= wider[1] < 1.2 * step


def test_verification_of_many_rows_takes_the_faster_kernel(h100):
    """Beyond a tile of 128 rows (32 tokens of a group of four) either kernel may be the faster one."""
    serve = rl.Deployment("llama-3.1-8b", h100)
    widths = np.array([1.0, 8.0, 32.0, 33.0, 128.0, 512.0])
    times = verification(serve, 1.0, widths, 32_768.0)
    assert np.all(np.diff(times) >= -1e-9 * times[1:])
    alone = [verification(serve, 1.0, float(width), 32_768.0) for width in widths]
    np.testing.assert_allclose(times, alone)
    prompt = run_pass(serve, "decode", Segment(1.0, 512.0, 32_768.0, 1.0)).estimate_s
    assert times[-1] < 1.05 * prompt  # the logits of all its tokens on top


def test_a_tile_of_rows_is_computed_whole(h100):
    """The products of a tile of 16 rows cost what one row costs: attention is bound by memory up to the ridge."""
    serve = rl.Deployment("llama-2-7b", h100)

    step, tile = (verification(serve, 64.0, new, 8192.0, "attention") for new in (1.0, 16.0))
    assert tile < 1.2 * step
    assert step >= 64 * 8192 * 32 * 2 * 32 * 128 * 2 / h100.memory_bytes_per_s
