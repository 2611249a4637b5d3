"""More work never takes less time in an estimate, and a faster part never more: kernels, graphs, and sums of them."""

import numpy as np
import pytest

import roofline as rl
from roofline.efficiency.estimates import fixed_of_faster, limit_s
from roofline.operators.operator import Segment
from roofline.operators.softmax_attention import visible_pairs
from roofline.phases.schedule import schedule_pass

BATCHES = np.arange(1, 513)


def rises(values, falls=1e-9):
    values = np.asarray(values, dtype=float)
    return bool(np.all(np.diff(values) >= -falls * values[:-1]))


@pytest.mark.parametrize(
    ("model", "chip", "engine", "formats", "layout", "context"),
    [
        # Caches in pieces, whose results a further kernel combines for some batches only.
        ("gpt-2-medium", "arc-pro-b60", "vllm", "nvfp4 bf16 fp8", {"tensor": 8}, 500),
        ("phi-3-mini", "gb200", "sglang", "bf16 fp8 bf16", {"tensor": 8}, 16),
        ("qwen3-8b", "mi300x", "sglang", "bf16 fp8 bf16", {"data": 2}, 16),
        # As many blocks as fill the chip, up to rounding.
        ("grok-1", "rtx-pro-6000-server", "vllm", "fp8_block bf16 bf16", {"tensor": 4, "expert": 4}, 32_768),
        # An 8-bit cache whose kernels are slower than those of 16 bits, with longer launches.
        ("qwen3.5-35b-a3b", "gb200", None, "nvfp4 bf16 fp8", {"tensor": 4}, 16),
        ("starcoder2-3b", "b200-sxm", None, "nvfp4 fp8 fp8", {"tensor": 2}, 16),
        # Two engines whose narrow kernels are slower than their wide ones by ratios that change with the shape.
        ("redpajama-7b", "rtx-4090", None, "int4_g128 fp8 bf16", {}, 500),
        # An engine with two kernels of experts, one of which has longer launches.
        ("qwen1.5-moe-a2.7b", "gb200", "trtllm", "fp8_block fp8 fp8", {}, 16),
    ],
)
def test_more_sequences_never_take_a_shorter_step(model, chip, *, engine, formats, layout, context):
    weights, activations, kv = formats.split()
    precision = rl.Precision(weights=weights, activations=activations, kv=kv)
    serve = rl.Deployment(model, chip, precision=precision, engine=engine, parallel=rl.Parallel(**layout))
    assert rises(rl.decode(serve, rl.Workload(batch=BATCHES), context_tokens=context).estimate_s)


@pytest.mark.parametrize(
    ("model", "chip", "weights", "activations", "layout"),
    [
        ("mistral-large-2", "l4", "int4_g128", "fp8", {}),
        ("nemotron-nano-4b", "gb200", "nvfp4", "fp8", {"tensor": 2}),
    ],
)
def test_longer_prompts_never_take_less_time(model, chip, weights, activations, layout):
    precision = rl.Precision(weights=weights, activations=activations)
    serve = rl.Deployment(model, chip, precision=precision, parallel=rl.Parallel(**layout))
    assert rises(rl.prefill(serve, rl.Workload(np.arange(100, 4000, 7))).estimate_s)


@pytest.mark.parametrize(
    ("model", "chip", "weights", "layout"),
    [
        ("exaone-4.0-1.2b", "h200-sxm", "int4_g128", {"tensor": 2}),
        ("command-r-plus-104b", "a100-sxm-80gb", "nvfp4", {"tensor": 4}),
    ],
)
def test_longer_caches_and_less_bandwidth_never_take_less_time(model, chip, weights, layout):
    chip = rl.get_accelerator(chip)
    precision = rl.Precision(weights=weights, activations="bf16", kv="fp8")
    serve = rl.Deployment(model, chip, precision=precision, parallel=rl.Parallel(**layout))
    contexts = np.geomspace(1, 200_000, 500).round()
    assert rises(rl.decode(serve, rl.Workload(batch=7), context_tokens=contexts).estimate_s)
    slower = chip.replace(memory_bytes_per_s=chip.memory_bytes_per_s / np.geomspace(0.5, 2, 200))
    assert rises(rl.decode(serve.replace(accelerator=slower), rl.Workload(batch=7), context_tokens=500).estimate_s)


def test_a_slow_kernel_of_one_engine_is_no_reason_to_be_slower_than_the_wider_format():
    """By hand: 9 s against 3 s in the wider format; a second engine at 4 s; a third at 5 s, which 9 s do not change."""
    assert limit_s(3.0, [9.0]) == 3.0
    assert limit_s(3.0, [2.0, 9.0]) == 3.0
    assert limit_s(3.0, [9.0, 4.0]) == 4.0
    assert limit_s(3.0, [9.0, 4.0, 5.0]) == 5.0


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_graph_may_run_another_kernel_than_the_one_that_is_fastest_without_it(share):
    """Kernels of 2 + w and 4 + w/2 seconds for the work w, of which launches take 2 and 4; a graph leaves a share.

    By hand they meet at w = 4 (6 s).  The second wins from there on, and in a graph that leaves nothing at any work.
    """
    work_s = np.linspace(0.0, 10.0, 101)
    kernels = (2.0 + work_s, 2.0), (4.0 + 0.5 * work_s, 4.0)
    time_s = np.minimum(kernels[0][0], kernels[1][0])
    in_a_graph_s = time_s - (1 - share) * fixed_of_faster(time_s, *kernels)
    assert rises(in_a_graph_s)
    assert in_a_graph_s[0] == pytest.approx(2 * share)
    assert in_a_graph_s[-1] == pytest.approx(9 - (1 - share) * 4)
    if share == 0:
        assert in_a_graph_s == pytest.approx(0.5 * work_s)


def test_chunks_of_a_pipeline_hold_the_budget_whatever_the_rounding():
    """A last bit above 8,192 tokens would be another tile of attention."""
    prompts = np.geomspace(8193.0, 200_000.0, 500)
    found = schedule_pass("prefill", rl.Parallel(pipeline=61), (Segment(7.0, prompts, 0.0),), 8192.0)
    assert np.all(found.segments[0].new_tokens <= 8192.0)
    assert np.all(found.segments[0].new_tokens * found.microbatches >= 7 * prompts * (1 - 1e-12))


def test_one_token_waits_for_no_steps_that_are_scheduled_ahead():
    """A request of one token alone runs its prompt and nothing else, in the closed form as in the simulation."""
    serve, load = rl.Deployment("llama-3.1-8b", "h100-sxm", engine="trtllm"), rl.Workload(300, 1)
    simulated = rl.simulate(serve, load, concurrency=1, requests=10)
    assert rl.serve(serve, load, concurrency=1).ttft_s == pytest.approx(simulated.ttft_s, rel=1e-6)


@pytest.mark.parametrize("past", [4096.0, 1e6, 2.0**60, 1e30])
def test_a_window_is_full_behind_any_past(past):
    """Three tokens see 4,096 keys each; sums from the first token on round to multiples of 2**20 behind 2**60."""
    assert visible_pairs(3.0, past, window=4096.0) == 3 * 4096.0
