"""Mistakes that public tools of this field make, each with the value that the configuration itself gives."""

from dataclasses import replace

import numpy as np
import pytest

import roofline as rl
from roofline.formats import get_format
from roofline.model.blocks import Attention
from roofline.operators import distinct_experts, visible_pairs


def test_untied_embedding_and_lm_head_are_two_tensors():
    counts = rl.get_model("llama-3.1-70b").parameters
    assert counts.total == 70_553_706_496
    assert counts.total - counts.active == counts.embedding == 128_256 * 8_192


def test_the_input_embedding_is_a_row_lookup():
    serve = rl.Deployment(rl.get_model("llama-3.1-70b"), rl.get_accelerator("h100-sxm"))
    streamed = rl.decode(serve, rl.Workload(), context_tokens=0).weight_bytes
    assert streamed == pytest.approx(139.006e9, rel=1e-5)


def test_a_tied_table_counts_once_and_is_streamed_as_lm_head():
    model = rl.get_model("gemma-2-9b")
    assert model.parameters.total == 9_241_705_984
    serve = rl.Deployment(model, rl.get_accelerator("h100-sxm"))
    streamed = rl.decode(serve, rl.Workload(), context_tokens=0).weight_bytes
    assert streamed == pytest.approx(2 * 9_241_705_984 + 2 * 3_584, rel=1e-12)


def test_mixtral_has_46_7_billion_of_which_12_9_are_used():
    counts = rl.get_model("mixtral-8x7b").parameters
    assert counts.total == 46_702_792_704
    assert round((counts.active + counts.embedding) / 1e9, 1) == 12.9


def test_head_dim_is_what_the_config_says():
    qwen3_4b = Attention(hidden=2560, query_heads=32, kv_heads=8, head_dim=128)
    assert qwen3_4b.weights()[0].d_out == 4096


@pytest.mark.parametrize(
    ("name", "bits"),
    [("nvfp4", 4.5), ("mxfp4", 4.25), ("int4_g128", 4.156), ("int4_g32", 4.625), ("fp8_block", 8.002), ("mxfp8", 8.25)],
)
def test_formats_count_their_scales(name, bits):
    assert round(get_format(name).bits, 3) == bits


def test_quantization_leaves_embedding_norms_router_and_lm_head_in_16_bits():
    precision = rl.Precision(weights="nvfp4", activations="nvfp4")
    kept = {part: precision.part(part).weight_bits for part in ("embedding", "lm_head", "norm", "router")}
    assert set(kept.values()) == {16}
    assert precision.part("mlp").weight_bits == 4.5


def test_kv_cache_counts_kv_heads_not_query_heads():
    ten_gib = rl.get_model("llama-3.1-70b").cache_bytes(32_768, kv="fp16")
    assert ten_gib == 10 * 2**30


def test_causal_attention_is_not_the_full_square():
    assert visible_pairs(512, 0) == 512 * 513 / 2
    assert visible_pairs(512, 1000) == 512 * 1000 + 512 * 513 / 2


@pytest.mark.parametrize(("new", "past", "window"), [(7, 0, 3), (5, 10, 4), (6, 2, 4), (1, 100, 8), (4, 3, 100)])
def test_pairs_of_a_window_equal_the_count_token_by_token(new, past, window):
    by_hand = sum(min(past + token, window) for token in range(1, new + 1))
    assert visible_pairs(new, past, window) == by_hand


def test_an_operator_without_flops_takes_the_time_of_its_bytes():
    gpu = rl.get_accelerator("h100-sxm")
    copy = rl.bound(rl.Work(activation_bytes=3.35e9), gpu)
    assert copy.roofline_s == pytest.approx(1e-3)
    assert copy.limit == "memory"
    assert copy.intensity_flops_per_byte == 0


def test_nothing_at_all_takes_no_time():
    assert rl.bound(rl.Work(), rl.get_accelerator("h100-sxm")).roofline_s == 0


def test_int4_weights_with_16_bit_activations_compute_at_16_bits():
    work = rl.matmul(2000, 8192, 8192, weights="int4_g128", activations="bf16")
    assert work.math == "bf16"
    assert rl.bound(work, rl.get_accelerator("h100-sxm")).compute_s == pytest.approx(work.flops / 989.4e12)


def test_fp8_without_units_is_stored_as_fp8_and_computed_at_16_bits():
    work = rl.matmul(2000, 8192, 8192, weights="fp8", activations="fp8")
    found = rl.bound(work, rl.get_accelerator("a100-sxm-80gb"))
    assert found.math == "bf16"
    assert found.moved_bytes == 8192 * 8192 + 2000 * 16384
    assert "no fp8 units" in found.assumptions[0]


def test_prefill_of_experts_counts_active_parameters():
    model = rl.get_model("mixtral-8x7b")
    serve = rl.Deployment(model, rl.get_accelerator("h100-sxm"))
    linear = 2 * (model.parameters.by_part["experts"] / 4 + model.parameters.by_part["attention"]) * 1000
    assert rl.prefill(serve, rl.Workload(prompt_tokens=1000)).flops == pytest.approx(linear, rel=0.05)


def test_decode_of_experts_reads_between_top_k_and_the_expected_distinct_ones():
    assert distinct_experts(8, 2, 3) == pytest.approx(4.6, abs=0.05)
    serve = rl.Deployment(rl.get_model("mixtral-8x7b"), rl.get_accelerator("h100-sxm"))
    step = rl.decode(serve, rl.Workload(batch=np.array([1, 3, 10_000])), context_tokens=0)
    expert = next(item.operator for item in step.operators if item.name == "experts_up")
    one = 4096 * 14336 * 2
    assert expert.least.weight_bytes / one == pytest.approx(2)
    assert expert.work.weight_bytes / one == pytest.approx([2, 4.625, 8], rel=1e-9)


def test_distinct_experts_by_simulation():
    rng = np.random.default_rng(0)
    hits = [len({e for _ in range(5) for e in rng.choice(16, 4, replace=False)}) for _ in range(4000)]
    assert distinct_experts(16, 4, 5) == pytest.approx(np.mean(hits), abs=0.1)


def test_the_peak_of_the_h100_is_the_dense_one():
    assert rl.get_accelerator("h100-sxm").peak_flops_per_s("bf16") == 989.4e12


def test_a_gigabyte_per_second_is_1e9():
    assert rl.get_accelerator("h100-sxm").memory_bytes_per_s == 3.35e12


def test_lm_head_runs_on_the_last_position_of_each_sequence():
    serve = rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm"))
    head = rl.prefill(serve, rl.Workload(prompt_tokens=2000, batch=3)).operators[-1]
    assert (head.name, head.flops) == ("lm_head", 2 * 3 * 4096 * 128256)


def test_tpot_is_the_rest_over_the_tokens_after_the_first():
    serve = rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm"))
    found = rl.generate(serve, rl.Workload(prompt_tokens=100, output_tokens=11), time="roofline_s")
    assert found.tpot_s == pytest.approx((found.total_s - found.ttft_s) / 10)


def test_a_window_caps_cache_and_reads():
    mistral = rl.get_model("mistral-7b")
    assert mistral.cache_bytes(100_000) == mistral.cache_bytes(4096) == 4096 * 131_072
    serve = rl.Deployment(mistral, rl.get_accelerator("h100-sxm"))
    full = replace(mistral.layers[0].blocks[0], window=None)
    without = serve.replace(model=mistral.replace(layers=(rl.Layer(32, (full, mistral.layers[0].blocks[1])),)))
    at = {"context_tokens": 20_000}
    assert (
        rl.decode(serve, rl.Workload(), **at).cache_bytes < 0.25 * rl.decode(without, rl.Workload(), **at).cache_bytes
    )


def test_attention_on_an_8_bit_cache_may_compute_in_8_bits():
    serve = rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm"))
    long = rl.Workload(prompt_tokens=100_000)
    wide, narrow = rl.prefill(serve, long), rl.prefill(rl.quantize(serve, kv="fp8"), long)
    pairs, fastest = 100_000 * 100_001 / 2, 132 * 4096 * 1.98e9  # SMs, FLOP a clock, highest clock
    attention = 4 * 128 * 32 * 32 * pairs / fastest
    assert wide.floor_s == pytest.approx(attention + 2 * 6_979_321_856 * 100_000 / fastest, rel=1e-3)
    assert narrow.floor_s == pytest.approx(wide.floor_s - attention / 2, rel=1e-3)


def test_formats_of_the_matrix_units_take_turns():
    """bf16 products beside fp8 attention at 131,072 tokens: the same tensor cores compute both, one after the other."""
    serve = rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm"))
    narrow = serve.replace(precision=rl.Precision(kv="fp8", attention="fp8"))
    phase = rl.prefill(narrow, rl.Workload(prompt_tokens=131_072))
    fastest = 132 * 4096 * 1.98e9
    attention = sum(item.flops for item in phase.operators if item.operator.kind == "attention")
    assert phase.floor_s == pytest.approx((phase.flops - attention) / fastest + attention / (2 * fastest), rel=1e-3)


@pytest.mark.parametrize("accelerator", ["b300-sxm", "gb300", "rubin-r200"])
@pytest.mark.parametrize("kv", ["int8", "int4_g128"])
def test_a_cache_in_a_format_that_the_chip_is_slow_in_makes_no_floor_above_the_roofline(accelerator, kv):
    """Blackwell Ultra and Rubin have a thirtieth of the int8 rate of their forerunner; no kernel need compute in it."""
    serve = rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator(accelerator))
    slow = serve.replace(precision=rl.Precision(kv=kv))
    phases = (rl.prefill(slow, rl.Workload(prompt_tokens=32_768)), rl.decode(slow, rl.Workload(batch=64)))
    for phase in phases:
        assert phase.floor_s <= phase.roofline_s
    same = rl.prefill(serve, rl.Workload(prompt_tokens=32_768))
    assert phases[0].floor_s == pytest.approx(same.floor_s, rel=1e-9)


def test_the_floor_of_experts_reads_top_k():
    serve = rl.Deployment(rl.get_model("mixtral-8x7b"), rl.get_accelerator("h100-sxm"))
    experts = next(i for i in rl.decode(serve, rl.Workload(batch=64)).operators if i.name == "experts_up")
    one = 4096 * 14336 * 2
    moved = 32 * (2 * one + 64 * 2 * (4096 + 14336) * 2)
    assert experts.floor_s == pytest.approx(moved / 3.35e12, rel=1e-12)
    assert experts.roofline_s > 3.9 * experts.floor_s


def test_an_engine_has_estimates_of_its_own():
    serve = rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm"))
    step, other = (rl.decode(serve.replace(engine=name), rl.Workload(batch=8)) for name in ("vllm", "trtllm"))
    assert step.floor_s == other.floor_s
    assert step.estimate_s != other.estimate_s
    assert "(vllm)" in " ".join(step.assumptions)
    with pytest.raises(rl.UnknownName, match="did you mean 'vllm'"):
        _ = rl.decode(serve.replace(engine="vlm"), rl.Workload()).estimate_s


def test_a_prefix_that_a_batch_shares_is_read_once_in_the_floor_and_for_each_sequence_in_the_roofline():
    """Cascade attention (arXiv:2402.05099) reads the shared part once for all queries; plain kernels do not."""
    serve = rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm"))
    kv_bytes = 131_072  # 32 layers x 2 x 8 heads x 128 x 2 bytes a token
    apart = rl.decode(serve, rl.Workload(batch=64), context_tokens=10_000)
    shared = rl.decode(serve, rl.Workload(batch=64, cached_tokens=8000), context_tokens=10_000)
    assert apart.least_bytes - shared.least_bytes == pytest.approx(63 * 8000 * kv_bytes)
    assert shared.roofline_s == apart.roofline_s
    alone = rl.decode(serve, rl.Workload(cached_tokens=8000), context_tokens=10_000)
    assert alone.floor_s == rl.decode(serve, rl.Workload(), context_tokens=10_000).floor_s
    assert rl.prefill(serve, rl.Workload(batch=8, cached_tokens=8000)).least_bytes == pytest.approx(
        rl.prefill(serve, rl.Workload(batch=8)).least_bytes + 8000 * kv_bytes
    )


def test_sweeps_of_shared_prefixes_are_each_point():
    serve = rl.Deployment(rl.get_model("mistral-7b"), rl.get_accelerator("h100-sxm"))
    cached, batch = np.array([0, 100, 6000]), np.array([1, 8, 64])
    sweep = rl.Workload(batch=batch, cached_tokens=cached)
    for function in (rl.prefill, rl.decode, rl.generate):
        found = function(serve, sweep)
        name = "total_s" if function is rl.generate else "floor_s"
        each = [
            getattr(function(serve, rl.Workload(batch=int(b), cached_tokens=int(c))), name)
            for b, c in zip(batch, cached, strict=True)
        ]
        assert getattr(found, name) == pytest.approx(each)


def test_exponentials_of_a_softmax_are_in_the_roofline_and_not_in_the_floor():
    """FlashAttention-3 (arXiv:2407.08608, section 3.1): 989 TFLOP/s of products and 3.9 T exponentials a second."""
    gpu = rl.get_accelerator("h100-sxm")
    assert gpu.exponentials_per_s == pytest.approx(3.9e12, rel=0.01)
    serve = rl.Deployment(rl.get_model("gpt-2"), gpu)  # heads of 64
    slow = serve.replace(accelerator=gpu.replace(exponentials_per_clock_per_unit=4))
    phases = [rl.prefill(each, rl.Workload(prompt_tokens=20_000)) for each in (serve, slow)]
    attention = [next(item for item in phase.operators if item.name == "attention") for phase in phases]
    pairs = 12 * 12 * 20_000 * 20_001 / 2  # layers, heads
    assert attention[0].roofline_s == pytest.approx(pairs / gpu.exponentials_per_s, rel=1e-3)
    assert attention[1].roofline_s == pytest.approx(4 * pairs / gpu.exponentials_per_s)
    assert rl.sensitivity(phases[1], time="roofline_s").peak_exponentials < -0.5
    assert phases[0].floor_s == phases[1].floor_s
    for phase in phases:
        assert phase.floor_s <= phase.roofline_s <= phase.estimate_s


def test_a_model_that_fits_in_the_cache_says_so():
    """GPT-2 has 248 MB in bf16, 62 in 4 bits: the 126 MiB L2 of a B200 holds the latter, an H100's 50 MiB neither."""
    said = "fit in the"
    for accelerator, weights, fits in (
        ("b200-sxm", "bf16", False),
        ("b200-sxm", "q4_0", True),
        ("h100-sxm", "q4_0", False),
    ):
        serve = rl.Deployment(rl.get_model("gpt-2"), accelerator, precision=rl.Precision(weights=weights))
        step = rl.decode(serve, rl.Workload(), context_tokens=100)
        assert any(said in note for note in step.assumptions) == fits
