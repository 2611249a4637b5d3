"""Layouts that engines refuse, against what their issue trackers and recipes say of real models."""

import numpy as np
import pytest

import roofline as rl
from roofline.model.layout_rules import refusal

H100 = rl.get_accelerator("h100-sxm")
REFUSED = [
    ("qwen2.5-7b", "bf16", {"tensor": 8}, "28 query heads do not divide over TP 8"),
    # vllm-project/vllm: phi-4 has 40 query and 10 KV heads.
    ("phi-4", "bf16", {"tensor": 4}, "10 KV heads and TP 4: neither is a multiple of the other"),
    ("deepseek-v3", "fp8_block", {"tensor": 1, "expert": 3, "data": 3}, "256 experts do not divide over EP 3"),
    ("deepseek-v3", "fp8_block", {"tensor": 12}, "128 query heads do not divide over TP 12"),
    # Qwen2 and 2.5 of 72B in GPTQ and AWQ: 29,568 = 231 x 128, which Qwen padded for larger degrees.
    ("qwen2.5-72b", "int4_g128", {"tensor": 2}, "not a multiple of the 128 values that share a scale in int4_g128"),
    # vLLM's recipe for MiniMax-M2 on eight GPUs asks for expert parallelism: 1,536 / 8 is not a multiple of 128.
    ("minimax-m2.5", "fp8_block", {"tensor": 8}, "experts_gate of 1,536 over TP 8 is 192 each"),
    ("qwen3-235b-a22b", "fp8_block", {"tensor": 8}, "experts_gate of 1,536 over TP 8 is 192 each"),
]
STARTED = [
    ("qwen2.5-7b", "bf16", {"tensor": 4}),
    ("phi-4", "bf16", {"tensor": 2}),
    ("llama-3.1-70b", "bf16", {"tensor": 16}),  # 8 KV heads, each on two
    ("deepseek-v3", "fp8_block", {"tensor": 16}),
    ("deepseek-v3", "fp8_block", {"tensor": 1, "expert": 32, "data": 32}),
    ("minimax-m2.5", "fp8_block", {"tensor": 8, "expert": 8}),
    ("gpt-oss-120b", "mxfp4", {"tensor": 8}),  # 2,880 / 8 is padded to whole groups of 32
    ("qwen3-next-80b-a3b", "bf16", {"tensor": 4}),
]


@pytest.mark.parametrize(("name", "weights", "degrees", "reason"), REFUSED, ids=lambda value: str(value)[:20])
def test_what_engines_refuse(name, weights, degrees, reason):
    assert reason in refusal(rl.get_model(name), rl.Precision(weights=weights), rl.Parallel(**degrees))


@pytest.mark.parametrize(("name", "weights", "degrees"), STARTED, ids=lambda value: str(value)[:20])
def test_what_engines_start(name, weights, degrees):
    assert refusal(rl.get_model(name), rl.Precision(weights=weights), rl.Parallel(**degrees)) == ""


def test_a_vocabulary_is_padded_to_64_and_then_divides_or_not():
    shape = {"model_type": "llama", "hidden_size": 1536, "num_hidden_layers": 2, "intermediate_size": 3072}
    heads = {"num_attention_heads": 24, "num_key_value_heads": 24}
    by_size = {vocab: rl.get_model(shape | heads | {"vocab_size": vocab}) for vocab in (128_256, 122_753)}
    assert refusal(by_size[122_753], rl.Precision(), rl.Parallel(tensor=2)) == ""
    assert refusal(by_size[128_256], rl.Precision(), rl.Parallel(tensor=3)) == ""
    found = refusal(by_size[122_753], rl.Precision(), rl.Parallel(tensor=3))
    assert found == "a vocabulary of 122,753, padded to 122,816, does not divide over TP 3"


def test_a_plan_has_no_layout_that_no_engine_starts():
    found = rl.plan("qwen2.5-7b", H100, rl.Workload(500, 100), accelerators=[8], batches=[1, 16])
    assert len(found.layout)
    assert not any("TP 8" in str(layout) for layout in found.layout)
    assert any("28 query heads do not divide over TP 8" in note for note in found.assumptions)


def test_a_fleet_has_none_either():
    found = rl.plan("deepseek-v3", "h200", rl.Workload(500, 100), accelerators=[24], batches=[64])
    degrees = {(int(tensor), int(expert)) for tensor, expert in zip(found.tensor, found.expert, strict=True)}
    assert degrees
    assert all(128 % tensor == 0 and 256 % expert == 0 for tensor, expert in degrees)


def test_elsewhere_it_is_noted():
    serve = rl.Deployment("qwen2.5-7b", H100, parallel=rl.Parallel(tensor=8))
    words = "no engine starts this layout: 28 query heads do not divide over TP 8"
    for found in (rl.decode(serve, rl.Workload()), rl.prefill(serve, rl.Workload()), rl.memory(serve, rl.Workload())):
        assert words in found.assumptions
    many = serve.replace(parallel=rl.Parallel(tensor=np.array([1, 2, 4, 8, 8])))
    assert list(rl.memory(many, rl.Workload()).assumptions).count(words) == 1
    alone = rl.memory(serve.replace(parallel=rl.Parallel()), rl.Workload())
    assert not any("engine starts" in note for note in alone.assumptions)


def test_a_layout_that_fits_and_that_no_engine_starts_is_said_in_the_answer():
    found = rl.memory(rl.Deployment("qwen2.5-7b", H100, parallel=rl.Parallel(tensor=8)), rl.Workload())
    assert found.fit().startswith("Yes")
    assert "but no engine starts this layout: 28 query heads do not divide over TP 8" in found.fit()


def test_no_change_that_no_engine_starts_is_advised():
    """Qwen2.5-72B in groups of 128 on TP 2: 29,568 / 2 is no multiple of 128."""
    serve = rl.Deployment("qwen2.5-72b", "l40s", parallel=rl.Parallel(tensor=2))
    said = rl.memory(serve, rl.Workload(1000, 24)).fit()
    assert said.startswith("No")
    assert "int4_g128" not in said


def test_tensor_parallelism_past_nvlink_is_noted():
    serve = rl.Deployment("llama-3.1-70b", H100, parallel=rl.Parallel(tensor=16))
    found = rl.decode(serve, rl.Workload()).assumptions
    assert any("TP 16 spans more than the 8 accelerators" in note for note in found)
    inside = rl.decode(serve.replace(parallel=rl.Parallel(tensor=8)), rl.Workload())
    assert not any("spans more" in note for note in inside.assumptions)
    rack = rl.Deployment("llama-3.1-70b", "gb200-nvl72", parallel=rl.Parallel(tensor=16))
    assert not any("spans more" in note for note in rl.decode(rack, rl.Workload()).assumptions)


def test_a_chip_without_units_is_left_out_of_a_plan():
    """Rubin CPX prints an FP4 peak alone."""
    found = rl.plan("llama-3.1-8b", ["rubin-cpx", H100], rl.Workload(500, 100), batches=[1, 16], accelerators=[1])
    assert set(found.accelerator) == {"h100-sxm"}
    assert any(
        note.startswith("rubin-cpx is not considered: rubin-cpx has no units for bf16") for note in found.assumptions
    )
    with pytest.raises(rl.InvalidInput, match="rubin-cpx has no units for bf16"):
        rl.plan("llama-3.1-8b", "rubin-cpx", rl.Workload(500, 100), batches=[1], accelerators=[1])
