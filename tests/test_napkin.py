"""Napkins: five lines over rounded numbers, each held against the exact value."""

import json

import numpy as np
import pytest

import roofline as rl
from roofline.teaching.lines import rounded

H100 = rl.get_accelerator("h100-sxm")
LARGE = rl.Deployment(rl.get_model("llama-3.1-70b"), H100)
MODELS = ["llama-3.1-8b", "deepseek-v3", "mixtral-8x7b", "gpt-oss-120b", "qwen3-next-80b-a3b", "codestral-mamba-7b"]


def results(name):
    for parallel in (rl.Parallel(), rl.Parallel(tensor=8)):
        serve = rl.Deployment(rl.get_model(name), H100, parallel=parallel)
        load = rl.Workload(1500, 256, 4)
        yield from (
            rl.decode(serve, load),
            rl.prefill(serve, load),
            rl.memory(serve, load),
            rl.generate(serve, load, time="roofline_s"),
        )


def test_the_lines_of_a_decode_step():
    found = rl.napkin(rl.decode(LARGE, rl.Workload(), context_tokens=2000))
    assert str(found).splitlines() == [
        "decode of Llama 3.1 70B on h100-sxm",
        "  70 G weights x 2 B = 140 GB   (exact 139 GB, +1%)",
        "  1 x 2,000 tokens x 330 kB = 660 MB   (exact 656 MB, +1%)",
        "  (140 GB + 660 MB) / 3.35 TB/s = 42 ms   (exact 41.7 ms, +1%)",
        "  2 x 70 G x 1 tokens / 989 TFLOP/s = 140 us   (exact 140.5 us, 0%)",
        "  the longer of 42 ms and 140 us: memory = 42 ms   (exact 41.7 ms, +1%)",
    ]


def test_exact_values_by_hand():
    """70B in bf16: 69.5e9 weights multiplied, 327,680 bytes of cache a token; a prompt has N (N + 1) / 2 pairs."""
    step = rl.napkin(rl.decode(LARGE, rl.Workload(batch=8), context_tokens=2000))
    assert step.exact[:2] == pytest.approx([2 * 69_503_033_344, 8 * 2002 * 327_680], rel=2e-3)
    prompt = rl.napkin(rl.prefill(LARGE, rl.Workload(2000)))
    layers = 69_503_033_344 - 128_256 * 8192  # lm_head runs on one position
    assert prompt.exact[0] == pytest.approx(2 * 2000 * layers, rel=1e-4)
    assert prompt.exact[1] == pytest.approx(2000 * 2001 / 2 * 4 * 80 * 8192, rel=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_every_line_follows_from_its_rounded_numbers(name):
    for result in results(name):
        found = rl.napkin(result)
        assert len(found.lines) == 5
        for step in found.explain():
            by_hand = eval(step.formula, {"__builtins__": {}, "max": max}, dict(step.inputs))
            assert step.value == rounded(by_hand), step.name


@pytest.mark.parametrize("name", MODELS)
def test_lines_are_close_to_what_they_say(name):
    for result in results(name):
        deviations = np.abs(rl.napkin(result).deviation)
        assert (deviations[:-1] < 0.12).all()


@pytest.mark.parametrize("name", MODELS)
def test_the_last_line_is_held_against_the_result(name):
    decode, prefill, _, generation, *_ = results(name)
    assert rl.napkin(decode).lines[-1].exact == decode.roofline_s
    assert rl.napkin(prefill).lines[-1].exact == prefill.roofline_s
    assert rl.napkin(generation).lines[3].exact == generation.total_s


def test_memory_by_hand():
    serve = LARGE.replace(parallel=rl.Parallel(tensor=4))
    found = rl.napkin(rl.memory(serve, rl.Workload()))
    room = 4 * 0.9 * float(H100.memory_bytes) - 2 * 70_553_706_496
    assert found.lines[2].exact == pytest.approx(room, rel=1e-3)
    assert found.lines[4].exact == pytest.approx(room / (2256 * 327_680), rel=1e-3)
    assert found.lines[4].value == pytest.approx(float(rl.memory(serve, rl.Workload()).max_batch), rel=0.1)


def test_an_operator():
    found = rl.napkin(rl.bound(rl.matmul(128, 8192, 8192), H100))
    assert found.lines[0].words == "2 x 130 x 8,200 x 8,200"
    assert found.lines[0].exact == 2 * 128 * 8192 * 8192
    assert found.lines[-1].exact == rl.bound(rl.matmul(128, 8192, 8192), H100).roofline_s


def test_views():
    found = rl.napkin(rl.decode(LARGE, rl.Workload()))
    assert len(found.to_frame()) == 5
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["name"][0] == "weight_bytes"


def test_what_has_no_napkin():
    with pytest.raises(rl.InvalidInput, match="napkin takes a single point; this Phase is a sweep of shape"):
        rl.napkin(rl.decode(LARGE, rl.Workload(batch=np.arange(1, 5))))
    with pytest.raises(rl.InvalidInput, match="not int"):
        rl.napkin(3)


@pytest.mark.parametrize("name", ["deepseek-v3", "llama-3.1-70b", "gpt-2"])
@pytest.mark.parametrize("tensor", [1, 8])
def test_activations_count_among_the_bytes_of_long_passes(name, tensor):
    """16,000 tokens of DeepSeek-V3 on eight accelerators move 3.6 TB beside 680 GB of weights."""
    serve = rl.Deployment(name, H100, parallel=rl.Parallel(tensor=tensor if name != "gpt-2" else 1))
    load = rl.Workload(1000, 256, 16)
    for found in (rl.napkin(rl.prefill(serve, load)), rl.napkin(rl.mixed(serve, decode=load, prefill=load))):
        *lines, last = found.lines
        assert all(abs(step.deviation) < 0.08 for step in lines)
        assert -0.5 < last.deviation < 0.08  # operators one after another take up to twice the longer of the sums
        memory, compute = (next(step for step in lines if step.name == f"{kind}_s") for kind in ("memory", "compute"))
        assert last.words.endswith(": memory" if memory.value >= compute.value else ": compute")
