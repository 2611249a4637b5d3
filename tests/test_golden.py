"""Numbers printed elsewhere, or worked out by hand, against the library.  A row is never refitted to pass."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import roofline as rl

GOLDEN = Path(__file__).parent / "golden"


def rows(name):
    return [pytest.param(row, id=row["claim"]) for row in yaml.safe_load((GOLDEN / name).read_text(encoding="utf-8"))]


@pytest.fixture
def round_h100(h100):
    return h100.replace(memory_bytes_per_s=3e12, dense_flops_per_s={"bf16": 1000e12, "fp8": 2000e12})


def seed_claims(gpu):
    d = 8192
    fat, thin = rl.matmul(2000, d, d), rl.matmul(1, d, d)

    def floor_s(weights):
        """Decode of 70e9 parameters as the seed counts it: one token against every weight, activations left out."""
        return rl.bound(replace(rl.matmul(1, 70e9, 1, weights=weights), activation_bytes=0.0), gpu).floor_s

    return {
        "ridge_round": gpu.ridge_flops_per_byte("bf16"),
        "ridge_round_exact": gpu.ridge_flops_per_byte("bf16"),
        "prefill_weight_intensity": fat.flops / fat.weight_bytes,
        "decode_weight_intensity": thin.flops / thin.weight_bytes,
        "floor_140gb_s": floor_s("bf16"),
        "floor_140gb_fp8_s": floor_s("fp8"),
        "floor_140gb_int4_s": floor_s("int4"),
    }


@pytest.mark.parametrize("row", rows("seed_prefill_vs_decode.yaml"))
def test_seed(row, round_h100):
    assert seed_claims(round_h100)[row["claim"]] == pytest.approx(row["value"], abs=row["tolerance"])


def llama_claims(serve):
    model, gpu = serve.model, serve.accelerator
    prompt = rl.Workload(prompt_tokens=2000)
    step, empty = (rl.decode(serve, rl.Workload(), context_tokens=tokens) for tokens in (2048, 0))
    prefill = rl.prefill(serve, prompt)
    (attention, mlp), found = model.layers[0].blocks, rl.crossovers(serve)
    all_heads = replace(attention, kv_heads=attention.query_heads)
    fp8 = rl.decode(rl.quantize(serve, weights="fp8"), rl.Workload(), context_tokens=0)
    return {
        "ridge": gpu.ridge_flops_per_byte("bf16"),
        "parameters_total": model.parameters.total,
        "decode_weight_bytes": empty.weight_bytes,
        "decode_floor_weights_s": empty.floor_s,
        "decode_floor_2048_s": step.floor_s,
        "decode_tokens_per_s": step.tokens_per_s,
        "kv_bytes_per_token": model.cache_bytes(1),
        "kv_bytes_per_token_mha": model.replace(layers=(rl.Layer(80, (all_heads, mlp)),)).cache_bytes(1),
        "prefill_flops": prefill.flops,
        "prefill_floor_s": prefill.floor_s,
        "prefill_tokens_per_s_at_floor": 2000 / prefill.floor_s,
        "projection_intensity": rl.matmul(2000, 8192, 8192).intensity_flops_per_byte,
        "ridge_batch": found.ridge_batch,
        "kv_equals_weights_tokens": found.kv_tokens,
        "gpus_needed": rl.memory(serve, rl.Workload()).accelerators_needed,
        "fp8_decode_ratio": fp8.weight_bytes / empty.weight_bytes,
    }


@pytest.mark.parametrize("row", rows("llama_3_1_70b_h100.yaml"))
def test_llama_70b_on_h100(row, serve):
    assert llama_claims(serve)[row["claim"]] == pytest.approx(row["value"], abs=row["tolerance"])


def test_limits_of_the_two_phases(serve):
    assert rl.prefill(serve, rl.Workload(prompt_tokens=2000)).limit == "compute"
    assert rl.decode(serve, rl.Workload(batch=1)).limit == "memory"


def test_70b_does_not_fit_one_h100_and_is_computed_all_the_same(serve):
    need = rl.memory(serve, rl.Workload())
    assert need.fits is False
    assert "at least 2 are needed" in " ".join(need.assumptions)
    assert rl.decode(serve, rl.Workload()).floor_s > 0


def test_weight_only_int4_leaves_prefill_where_it_was(serve):
    before, after = (rl.prefill(each, rl.Workload()) for each in (serve, rl.quantize(serve, weights="int4")))
    assert rl.compare(before, after).ratio["floor_s"] == 1.0


def test_fp8_on_a100_gains_memory_and_no_rate(llama_70b):
    serve = rl.Deployment(llama_70b, rl.get_accelerator("a100-sxm-80gb"))
    fp8 = rl.quantize(serve, weights="fp8", activations="fp8")
    before, after = rl.prefill(serve, rl.Workload()), rl.prefill(fp8, rl.Workload())
    assert after.floor_s == before.floor_s
    assert "no fp8 units: computed at the bf16 rate" in " ".join(after.assumptions)
    assert rl.decode(fp8, rl.Workload()).floor_s < 0.52 * rl.decode(serve, rl.Workload()).floor_s
