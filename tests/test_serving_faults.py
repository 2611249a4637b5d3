"""Figures of servers that were wrong once, each against a value by hand or by a simulation of every step."""

import pytest

import roofline as rl
from roofline import techniques as t
from roofline.model.draft_heads import draft_head

H100 = rl.get_accelerator("h100-sxm")


def test_a_draft_of_deepseek_v3_costs_its_projection_and_the_head_too():
    """A layer alone would be 1.6 % of a step; with ``eh_proj`` (2 x 7168^2) and the shared lm_head it is 7 %."""
    model = rl.get_model("deepseek-v3")
    serve = rl.Deployment(model, H100, precision=rl.Precision(weights="fp8", activations="fp8"))
    draft, step = (
        rl.decode(serve.replace(model=each), rl.Workload(), context_tokens=100).moved_bytes
        for each in (draft_head(model, "mtp"), model)
    )
    layer = 187.1e6 + 9 * 3 * 7168 * 2048  # latent attention, 8 experts of 256 and the shared one, a byte each
    by_hand = layer + 2 * 7168**2 + 2 * 129_280 * 7168  # the head has 16 bits
    assert draft == pytest.approx(by_hand, rel=0.05)
    assert draft / step > 4 / 61


def test_chunks_leave_the_capacity_as_it_was():
    """Llama 3.1 8B, 4,000 + 200 tokens: chunks of 512 keep 2,353 tokens/s of 2,365, where a fault once said 975."""
    serve = rl.Deployment("llama-3.1-8b", H100)
    effect = rl.apply(serve, rl.Workload(4000, 200, batch=256), t.ChunkedPrefill(chunk_tokens=512), time="roofline_s")
    assert effect.throughput_gain == pytest.approx(2353 / 2365, abs=0.03)


def test_weights_in_16_bits_are_fed_16_bits():
    """NVFP4 with attention kept in 16 bits: its products neither read nor write 4.5-bit activations."""
    formats = rl.Precision(weights="nvfp4", activations="nvfp4", exceptions={"attention": "bf16"})
    assert formats.part("attention").activation_bits == 16
    assert formats.part("mlp").activation_bits == 4.5
    serve = rl.Deployment("llama-3.1-8b", rl.get_accelerator("b200-sxm"), precision=formats)
    step = rl.decode(serve, rl.Workload(batch=8), context_tokens=100)
    query, up = (next(item.operator for item in step.operators if item.name == name) for name in ("q_proj", "up_proj"))
    assert query.inputs["activation_bits"] == 16
    assert up.inputs["activation_bits"] == 4.5
    assert (query.work.math, up.work.math) == ("bf16", "fp4")
