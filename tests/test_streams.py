"""Shared experts beside the routed ones, against what engines gained when they put them on a stream of their own."""

import numpy as np
import pytest

import roofline as rl
from roofline.phases.host import HostTimes
from roofline.phases.streams import Branch, Branches
from roofline.serving.step_times import step_times

BLOCKS = rl.Precision(weights="fp8_block", activations="fp8")
NVFP4 = rl.Precision(weights="nvfp4", activations="nvfp4", exceptions={"attention": "bf16"})
BRANCHES = Branches(shared=Branch(10.0, 4.0, 1.0), routed=Branch(50.0, 10.0, 20.0), tokens=np.array([8.0, 4096.0]))


def deployment(model, accelerator, engine, tensor, precision=BLOCKS):
    return rl.Deployment(
        model,
        accelerator,
        precision,
        parallel=rl.Parallel(tensor=tensor),
        engine=rl.Engine(engine) if isinstance(engine, str) else engine,
    )


def saved_s(serve, batch):
    """What a step is shorter by than with one after the other."""
    apart = serve.replace(engine=serve.engine.replace(shared_stream_tokens=0))
    load = rl.Workload(1000, 1000, batch)
    return float(rl.decode(apart, load).estimate_s - rl.decode(serve, load).estimate_s)


def test_two_branches_by_hand():
    """Half of the fixed times is left in a graph: the shared branch takes 10 - 2 and leaves the chip idle for 7."""
    host = HostTimes(launch_share=0.5, shared_stream_tokens=1024)
    assert BRANCHES.hidden_s(host).tolist() == [7.0, 0.0]
    swapped = Branches(BRANCHES.routed, BRANCHES.shared, 8.0)
    assert float(swapped.hidden_s(host)) == 7.0
    full = Branches(Branch(5.0, 0.0, 5.0), BRANCHES.routed, 8.0)  # at the roofline nothing is left to hide
    assert float(full.hidden_s(host)) == 0.0


# Milliseconds a step, measured: vLLM PR 26440 (23.35 to 22.09), SGLang PR 13786 (60.40 to 66.31 tokens/s), SGLang PR
# 12660 (193.98 to 205.84), vLLM PR 38990 (36.8 to 41.8), TensorRT-LLM tech blog 1 (67 to 73).  The last three and the
# second do not name the accelerator, or had slower kernels than today's.
MEASURED = [
    ("deepseek-r1", "b200-sxm", "vllm", 8, BLOCKS, 32, 23.35 - 22.09),
    ("glm-4.6", "h200-sxm", "sglang", 8, rl.Precision("fp8", "fp8"), 1, 1e3 / 60.40 - 1e3 / 66.31),
    ("kimi-linear-48b-a3b", "h200-sxm", "sglang", 2, rl.Precision(), 1, 1e3 / 193.98 - 1e3 / 205.84),
    ("glm-5", "rtx-pro-6000-server", "vllm", 8, BLOCKS, 1, 1e3 / 36.8 - 1e3 / 41.8),
    ("deepseek-r1", "b200-sxm", "trtllm", 8, NVFP4, 1, 1e3 / 67 - 1e3 / 73),
]


@pytest.mark.parametrize("case", MEASURED, ids=lambda case: f"{case[0]} in {case[2]}")
def test_a_step_is_shorter_by_a_part_of_what_was_measured(case):
    """Products alone are counted: activations and quantizations between them are hidden too, but have no timings."""
    *where, batch, measured_ms = case
    assert 0.4 * measured_ms < 1e3 * saved_s(deployment(*where), batch) < 1.1 * measured_ms


def test_only_captured_steps_of_few_tokens_have_two_streams():
    serve = deployment("deepseek-r1", "b200-sxm", rl.Engine("sglang"), 8)
    few, many = (step_times(serve).hidden_s(tokens) for tokens in (1024.0, 1025.0))
    assert few > 0 == many
    eager = rl.Engine("sglang", eager=True)
    assert step_times(serve.replace(engine=eager)).hidden_s(8.0) == 0
    assert step_times(serve, time="roofline_s").hidden_s(8.0) == 0
    old, new = (rl.Engine("vllm", version=release).shared_stream_tokens for release in ("0.11.0", "0.12.0"))
    assert (old, new) == (0, 256)


def test_models_without_shared_experts_have_one_stream():
    assert step_times(deployment("gpt-oss-120b", "b200-sxm", "vllm", 1)).hidden_s(8.0) == 0


def test_a_step_of_one_sequence_on_an_rtx_5090():
    """The fastest tenth of Qwen3.6-35B-A3B's requests in NVFP4 by Marlin kernels in vLLM 0.24: 4.25 to 4.28 ms a token.

    github.com/anud18/qwen36-vllm-aiperf-benchmark, results/nvfp4/5090/chatbot/r0.8, where requests are mostly alone.
    """
    precision = rl.Precision(weights="nvfp4", activations="bf16", exceptions={"attention": "bf16"})
    serve = rl.Deployment("qwen3.6-35b-a3b", "rtx-5090", precision, engine=rl.Engine("vllm", max_sequences=32))
    assert rl.decode(serve, rl.Workload(600, 200)).estimate_s == pytest.approx(4.27e-3, rel=0.05)


def test_a_step_of_one_sequence_on_eight_b200():
    """TensorRT-LLM's tech blogs 1 and 2: 368 tokens/s of DeepSeek-R1 with drafts, 2.33 times those without."""
    serve = deployment("deepseek-r1", "b200-sxm", "trtllm", 8, NVFP4)
    step_s = rl.decode(serve, rl.Workload(1000, 2000), context_tokens=2000).estimate_s
    assert step_s == pytest.approx(2.33 / 368, rel=0.05)
