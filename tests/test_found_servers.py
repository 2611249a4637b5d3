"""Measured servers that nothing was fitted to, and what the page of them says."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import found_servers  # noqa: E402

import roofline as rl  # noqa: E402
from roofline.serving.cache_pool import cache_pool  # noqa: E402

ROWS = found_servers.rows()
TRUSTED = [row for row in ROWS if not row["doubt"]]
PAGE = (ROOT / "benchmarks/found_servers.md").read_text("utf-8")

EVERY = 4
"""One row of so many is simulated here; the page has all of them."""


@pytest.fixture(scope="module")
def found():
    return [found_servers.predict(row) for row in TRUSTED[::EVERY]]


def said(line, cell):
    """A percentage of the page's first table."""
    row = next(text for text in PAGE.splitlines() if text.startswith(f"| {line} |"))
    return float(re.findall(r"-?\d+(?=%)", row)[cell]) / 100


def test_every_row_says_where_it_is_from():
    """At least eight sources and accelerators; each row has a date and something that was measured."""
    assert len({row["source"] for row in ROWS}) >= 8
    assert len({row["accelerator"] for row in ROWS}) >= 8
    assert len({row["id"] for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert row["source"], row["id"]
        assert row["place"], row["id"]
        assert re.match(r"20\d\d(-\d\d)?", row["date"]), row["id"]
        assert any(row[name] for name in found_servers.FIGURES), row["id"]
        assert all(bool(row[name]) == bool(row[f"first_predicted_{name}"]) for name in found_servers.FIGURES), row["id"]


@pytest.mark.parametrize("part", range(4))
def test_no_server_beats_its_floor(part):
    """A token takes at least a step with nothing else, a prompt its own pass, and a batch all its work."""
    faster = {row["id"]: share for row in ROWS[part::4] if (share := found_servers.floor_share(row)) > 1}
    assert not faster


def test_the_page_holds_the_first_predictions():
    """Its first line is computed from the columns that nobody changes."""
    first = [found_servers.Found(row, {}) for row in TRUSTED]
    for name, cell in (("tpot_s", 0), ("ttft_s", 3), ("output_tokens_per_s", 5)):
        off = np.abs([each.miss(name, first=True) for each in first])
        assert np.median(off[np.isfinite(off)]) == pytest.approx(said("as first predicted", cell), abs=0.006)


@pytest.mark.parametrize(("name", "cell"), [("tpot_s", 0), ("ttft_s", 3), ("output_tokens_per_s", 5)])
def test_predictions_are_as_close_as_the_page_says(found, name, cell):
    """Median errors of today's predictions, on a part of the rows."""
    off = np.abs([each.miss(name) for each in found])
    assert np.median(off[np.isfinite(off)]) < said("today", cell) + 0.06


def test_every_row_is_answered(found):
    assert not [each.reason for each in found if each.reason]


HYBRIDS = [row for row in ROWS if row["id"].startswith("sgldoc-q36")]


@pytest.mark.parametrize("row", HYBRIDS, ids=lambda row: row["id"])
def test_states_of_a_delta_rule_limit_the_running_requests(row):
    """By Little's law the rate times the time per token is the number of running requests: 28 to 208 of 1,024.

    SGLang keeps 0.9 / 1.9 of the pool for states and five states for each running request
    (``mamba_full_memory_ratio``, ``MAMBA_CACHE_SIZE_MAX_RUNNING_REQUESTS_RATIO``); with one pool twice as many run.
    """
    running = float(row["output_tokens_per_s"]) * float(row["tpot_s"])
    run = rl.simulate(
        found_servers.deployment(row),
        rl.Workload(int(row["prompt_tokens"]), int(row["output_tokens"])),
        concurrency=int(row["concurrency"]),
        requests=int(row["requests"]),
    )
    assert run.running_batch == pytest.approx(running, rel=0.12)


@pytest.mark.parametrize(("engine", "layers"), [("trtllm", 36), ("vllm", 18)])
def test_tensorrt_llm_keeps_windows_in_full(engine, layers):
    """gpt-oss-120b has 8 KV heads of 64 in 36 layers, half of them with a window of 128 tokens."""
    serve = rl.Deployment("gpt-oss-120b", "h200-sxm", engine=engine)
    of_token = layers * 2 * 8 * 64 * 2
    pool = cache_pool(serve, serve.server)
    assert pool.sequence_bytes(65_536) - pool.sequence_bytes(32_768) == pytest.approx(32_768 * of_token, rel=0.01)


def test_sglang_gives_windows_a_share_of_the_pool():
    """``swa_full_tokens_ratio`` of 0.8: a token takes room in 18 whole layers and 0.8 of it in 18 with windows."""
    serve = rl.Deployment("gpt-oss-120b", "h200-sxm", engine="sglang")
    pool = cache_pool(serve, serve.server)
    of_token = (18 + 0.8 * 18) * 2 * 8 * 64 * 2
    assert pool.sequence_bytes(65_536) - pool.sequence_bytes(32_768) == pytest.approx(32_768 * of_token, rel=0.01)
    assert pool.sequence_bytes(128) == pytest.approx((160 + 128) * 18 * 2 * 8 * 64 * 2, rel=0.01)


@pytest.mark.parametrize(
    ("model", "values"),
    [
        ("gemma-3-27b", 62 * 2 * 16 * 128),
        ("mistral-7b", 32 * 2 * 8 * 128),
        ("gemma-3n-e4b", 35 * 2 * 2 * 256),
        ("gemma-4-e4b", 7 * 2 * 2 * 512 + 0.8 * 35 * 2 * 2 * 256),
    ],
)
def test_sglang_frees_the_windows_of_some_models(model, values):
    """Of Gemma 4 and few others; in all models, layers that use the cache of another one have room of their own."""
    serve = rl.Deployment(model, "h200-sxm", engine="sglang")
    pool = cache_pool(serve, serve.server)
    assert pool.sequence_bytes(32_768) - pool.sequence_bytes(16_384) == pytest.approx(16_384 * 2 * values, rel=0.01)


@pytest.mark.parametrize("accelerator", ["b200-sxm", "gb200"])
def test_windows_in_full_limit_the_running_requests(accelerator):
    """Llama 4 Maverick with 1,024 + 32,768 tokens: 75 % too fast with chunks of 8,192 tokens alone in the cache."""
    row = next(
        row
        for row in ROWS
        if (row["library_model"], row["accelerator"], row["output_tokens"])
        == ("llama-4-maverick", accelerator, "32768")
    )
    assert abs(found_servers.predict(row).miss("output_tokens_per_s")) < 0.2


@pytest.mark.parametrize("name", ["sglcook-next2-3", "sglcook-next2-6", "sglcook-next2-9"])
def test_prompts_of_a_delta_rule_hold_up_the_tokens_of_others(name):
    """Qwen3-Next on two B200: 500 or 4,000 tokens of output after prompts whose 36 layers the host launches slowly."""
    row = next(row for row in ROWS if row["id"] == name)
    assert abs(found_servers.predict(row).miss("tpot_s")) < 0.15
