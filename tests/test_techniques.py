"""Techniques against numbers from papers, data sheets and arithmetic by hand."""

from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar

import numpy as np
import pytest

import roofline as rl
from roofline import techniques as t
from roofline.operators.operator import Segment
from roofline.phases.passes import run_pass
from roofline.serving.pass_times import launches
from roofline.serving.scenario import Scenario
from roofline.techniques.technique import _techniques as registered

TECHNIQUES = t.usual_techniques()
LABELS = [item.label for item in TECHNIQUES]


@pytest.fixture
def small(h100):
    return rl.Deployment(rl.get_model("llama-3.1-8b"), h100)


def after(technique, serve, load):
    return technique.after(Scenario(serve, load))


def test_quantize_is_weight_quantization(small):
    effect = rl.apply(small, rl.Workload(), t.Quantization(weights="fp8", activations="fp8"), time="roofline_s")
    assert effect.after.case.serve == rl.quantize(small, weights="fp8", activations="fp8")


def test_weight_only_int4_gains_decode_alone_and_frees_memory(small):
    effect = rl.apply(small, rl.Workload(), t.Quantization(weights="int4_g128"), time="roofline_s")
    linear = 32 * (2 * 4096 * (4096 + 1024) + 3 * 4096 * 14336)
    assert effect.prefill_speedup == 1
    assert effect.weights_saved_bytes == linear * (16 - 4 - 20 / 128) / 8
    assert effect.max_batch_after > effect.max_batch_before


@pytest.mark.parametrize(
    ("weights", "activations", "bits", "rate"),
    [("fp8", "fp8", 8, 2), ("fp8", None, 8, 1), ("int4_g128", None, 4.15625, 1), ("nvfp4", "nvfp4", 4.5, 4)],
)
def test_formats_by_hand(weights, activations, bits, rate):
    """A B200: 8-bit units at twice, 4-bit units at four times the 16-bit rate (its data sheet, dense)."""
    serve = rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator("b200-sxm"))
    load = rl.Workload(prompt_tokens=2000, output_tokens=2)
    effect = rl.apply(serve, load, t.Quantization(weights=weights, activations=activations), time="floor_s")
    linear = 32 * (2 * 4096 * (4096 + 1024) + 3 * 4096 * 14336)
    kept = 2 * 4096 * 128_256 + 2001 * 131_072
    assert effect.decode_speedup == pytest.approx((2 * linear + kept) / (linear * bits / 8 + kept), rel=1e-3)
    attention, head = 32 * 32 * 2001 * 1000 * 2 * 256, 2 * 4096 * 128_256
    whole = 2 * linear * 2000 + attention + head
    spared = 2 * linear * 2000
    after = spared / rate + (whole - spared)  # formats take turns on the same tensor cores
    assert effect.prefill_speedup == pytest.approx(whole / after, rel=1e-3)


def test_offload_over_a_chip_to_chip_link_costs_less(small):
    """GH200: 450 GB/s to the host, one way, where PCIe 5 has 64."""
    load, technique = rl.Workload(prompt_tokens=8000, output_tokens=2), t.HostOffload(host=0.5)
    linked = small.replace(accelerator=rl.get_accelerator("gh200-96gb"))
    lost = [rl.apply(serve, load, technique, time="roofline_s") for serve in (small, linked)]
    extra = [found.decode_after_s - found.decode_before_s for found in lost]
    assert extra[0] / extra[1] == pytest.approx(450 / 64)


def test_dequantization_costs_what_it_says(small):
    free, paid = (
        rl.apply(small, rl.Workload(), t.KVQuantization(kv="int4", dequantization=cost), time="roofline_s")
        for cost in (0.0, 0.15)
    )
    assert paid.decode_after_s == pytest.approx(1.15 * free.decode_after_s)
    assert paid.prefill_after_s == free.prefill_after_s
    assert (
        rl.apply(
            small, rl.Workload(), t.KVQuantization(kv="int4", dequantization=0.15), time="roofline_s"
        ).decode_speedup
        < 1
    )


def test_kv_cache_saves_quadratic_work(small):
    load = rl.Workload(prompt_tokens=1000, output_tokens=101)
    without, with_ = t.KVCache().steps(Scenario(small, load))
    assert without.value == sum(range(1000, 1101))
    assert with_.value == 1100
    effect = rl.apply(small, load, t.KVCache(), time="roofline_s")
    by_hand = np.mean([rl.prefill(small, rl.Workload(prompt_tokens=n)).roofline_s for n in range(1001, 1101)])
    assert effect.baseline.decode_s == pytest.approx(by_hand, rel=1e-3)
    assert effect.decode_speedup == 1


@pytest.mark.parametrize(("kv_heads", "share"), [(1, 1 / 32), (4, 4 / 32), (None, 8 / 32)])
def test_cache_shrinks_with_kv_heads(small, kv_heads, share):
    effect = rl.apply(small, rl.Workload(), t.GroupedQueryAttention(kv_heads=kv_heads), time="roofline_s")
    assert effect.after.kv_bytes_per_sequence == pytest.approx(share * effect.baseline.kv_bytes_per_sequence)
    assert effect.baseline_decode_speedup > 1


def test_mla_caches_576_values_a_token(small):
    effect = rl.apply(small, rl.Workload(), t.MultiHeadLatentAttention(), time="roofline_s")
    assert effect.after.kv_bytes_per_sequence == 2256 * 32 * 576 * 2


def test_flash_attention_leaves_out_four_passes_over_the_scores(small):
    load = rl.Workload(prompt_tokens=2000)
    (step,) = t.FlashAttention().steps(Scenario(small, load))
    assert step.value == 4 * 32 * 2000 * 2000 * 2
    unfused = rl.prefill(small.replace(attention="unfused"), load)
    assert unfused.moved_bytes - rl.prefill(small, load).moved_bytes == pytest.approx(32 * step.value)


def test_flash_attention_gains_more_the_longer_the_prompt(small):
    gains = rl.apply(
        small, rl.Workload(prompt_tokens=np.array([500, 2000, 8000, 32_000])), t.FlashAttention(), time="roofline_s"
    )
    assert np.all(np.diff(gains.baseline_prefill_speedup) > 0)
    assert np.all(gains.baseline_prefill_speedup > 1)
    assert np.all(gains.baseline_decode_speedup < 1.05)
    assert np.all(gains.prefill_speedup == 1)


def test_pages_of_the_paper_use_what_contiguous_reservation_wastes(small):
    """vLLM's paper (figure 2) has 20.4 to 38.2 % of a reservation used; 2,048 tokens and 600 used are 29 %."""
    effect = rl.apply(small, rl.Workload(400, 200), t.PagedAttention(reserved_tokens=2048), time="roofline_s")
    assert effect.baseline.kv_bytes_per_sequence == 2048 * 131_072
    assert effect.after.kv_bytes_per_sequence == 608 * 131_072
    assert effect.max_batch_after / effect.baseline.max_batch == pytest.approx(2048 / 608, rel=0.02)
    assert effect.decode_speedup == effect.capacity_gain == 1
    assert effect.after.capacity_tokens_per_s > effect.baseline.capacity_tokens_per_s


def test_fusion_saves_launches_and_activations_but_no_weights(small):
    load = rl.Workload()
    fused = after(t.KernelFusion(), small, load).serve
    before, now = rl.decode(small, load), rl.decode(fused, load)
    assert launches(before) == 32 * 12 + 3
    assert launches(now) == 32 * 5 + 2
    assert now.weight_bytes == before.weight_bytes
    assert now.floor_s == before.floor_s
    elementwise = 32 * 2 * (2 * 4096 + 3 * 4096) + 2 * 4096
    read_once = 32 * (2 * 4096 + 4096)
    assert before.moved_bytes - now.moved_bytes == pytest.approx((elementwise + read_once) * 2)


def test_two_of_four_is_nine_bits_of_sixteen(small):
    load = rl.Workload()
    effect = rl.apply(small, load, t.StructuredSparsity(), time="roofline_s")
    linear = 32 * (2 * 4096 * (4096 + 1024) + 3 * 4096 * 14336)
    assert effect.weights_saved_bytes == pytest.approx(linear * 7 / 8)
    flops = rl.prefill(small, load).flops - rl.prefill(effect.after.case.serve, load).flops
    assert flops == pytest.approx(linear * 2000)


def test_sparsity_needs_a_chip_that_skips(small):
    v100 = small.replace(accelerator=rl.get_accelerator("v100-sxm2-32gb"))
    with pytest.raises(rl.InvalidInput, match=r"2:4 sparsity: v100-sxm2-32gb states no sparse peak for fp16"):
        rl.apply(v100, rl.Workload(), t.StructuredSparsity(), time="roofline_s")


def test_activation_sparsity_is_gone_with_a_batch(small):
    gains = rl.apply(
        small, rl.Workload(batch=np.array([1, 2, 8, 64])), t.ActivationSparsity(), time="roofline_s"
    ).decode_speedup
    assert np.all(np.diff(gains) <= 0)
    assert gains[0] > 1.4
    assert gains[-1] == pytest.approx(1.0)


def test_window_caps_cache_and_read(small):
    effect = rl.apply(small, rl.Workload(32_000, 256), t.SlidingWindow(tokens=1024), time="roofline_s")
    assert effect.after.kv_bytes_per_sequence == (1024 + 16) * 131_072
    assert effect.prefill_speedup > 1


def test_offload_takes_the_host_links_time(small):
    load = rl.Workload(prompt_tokens=10_000, output_tokens=2, batch=4)
    effect = rl.apply(small, load, t.HostOffload(host=0.25), time="roofline_s")
    extra = 0.25 * 4 * 10_000 * 131_072 / 64e9
    assert effect.decode_after_s - effect.decode_before_s == pytest.approx(extra)
    assert effect.after.kv_bytes_per_sequence == 0.75 * effect.before.kv_bytes_per_sequence


def test_static_slots_by_hand():
    assert t.static_slots_used(8) == pytest.approx(1 / sum(1 / n for n in range(1, 9)))
    assert t.static_slots_used(2, (100, 300)) == pytest.approx(200 / (0.25 * 100 + 0.75 * 300))


def test_static_slots_of_exponential_lengths_are_the_harmonic_number():
    lengths = tuple(np.ceil(np.random.default_rng(0).exponential(10_000, 20_000)).astype(int))
    assert t.static_slots_used(16, lengths) == pytest.approx(t.static_slots_used(16), rel=0.02)


def test_padding_of_one_group_is_to_its_longest():
    assert t.padding((100, 110, 115), 0.2) == pytest.approx((3 * 115 - 325) / 325)
    assert t.padding((100, 110, 115), 0) == 0


def test_chunks_stream_the_weights_once_for_both(small):
    load = rl.Workload(prompt_tokens=4096, output_tokens=64, batch=16)
    chunked = rl.apply(small, load, t.ChunkedPrefill(chunk_tokens=np.array([256, 512, 1024, 2048])), time="roofline_s")
    assert np.all(np.diff(chunked.gap_after_s) > 0)
    assert np.all(np.diff(chunked.prefill_after_s) < 0)
    assert np.all(chunked.gap_after_s < chunked.gap_before_s)
    assert np.all(chunked.throughput_gain[1:] > 1)


def test_chunks_by_hand(small):
    """2,000 tokens in chunks of at most 1,500 are two passes of 1,000, with a token for each of seven others."""
    load = rl.Workload(prompt_tokens=2000, output_tokens=101, batch=8)
    effect = rl.apply(small, load, t.ChunkedPrefill(chunk_tokens=1500), time="roofline_s")
    riders = Segment(7.0, 1.0, 2050.0)
    passes = [run_pass(small, "mixed", Segment(1.0, 1000.0, past), riders).roofline_s for past in (0.0, 1000.0)]
    assert effect.gap_after_s == pytest.approx(passes[1])
    assert effect.prefill_after_s == pytest.approx(sum(passes))
    step_s, riding = effect.after.step_s, 2 * 7
    assert effect.after.tpot_s == pytest.approx((riding * np.mean(passes) + (100 - riding) * step_s) / 100)
    assert effect.decode_speedup == pytest.approx(1.0)  # steps without chunks are what they were


def test_a_narrower_window_stays():
    gemma = rl.Deployment(rl.get_model("gemma-2-9b"), rl.get_accelerator("h100-sxm"))
    windows = {block.window for layer in gemma.model.layers for block in layer.blocks if hasattr(block, "window")}
    assert windows == {4096, None}
    model = after(t.SlidingWindow(tokens=6000), gemma, rl.Workload()).model
    kept = {block.window for layer in model.layers for block in layer.blocks if hasattr(block, "window")}
    assert kept == {4096, 6000}


def test_drafts_of_given_cost_take_their_share_of_memory(small):
    effect = rl.apply(small, rl.Workload(), t.Speculation(draft_share=0.05), time="roofline_s")
    assert effect.weights_saved_bytes == pytest.approx(-0.05 * effect.before.weights_bytes)
    assert effect.kv_saved_bytes_per_sequence == pytest.approx(-0.05 * effect.before.kv_bytes_per_sequence)


@pytest.mark.parametrize(
    ("engine", "tokens"),
    [
        (None, 8192),
        ("vllm", 8192),  # max_num_batched_tokens of a server on an H100
        (rl.Engine("vllm", version="0.7.0"), 512),  # V0 with chunked prefill
        ("llamacpp", 512),  # --ubatch-size
        (rl.Engine("vllm", step_tokens=4096), 4096),
        ("transformers", 2048),  # no budget
    ],
    ids=str,
)
def test_chunks_fill_the_token_budget_of_the_engine(small, engine, tokens):
    case = Scenario(small.replace(engine=engine), rl.Workload(batch=8))
    assert t.ChunkedPrefill().after(case).chunk_tokens == tokens
    assert t.ChunkedPrefill(chunk_tokens=256).after(case).chunk_tokens == 256


def test_a_chunk_that_holds_the_prompt_of_a_lone_sequence_changes_nothing(small):
    effect = rl.apply(small, rl.Workload(), t.ChunkedPrefill(chunk_tokens=2000), time="roofline_s")
    assert effect.prefill_speedup == pytest.approx(1)
    assert effect.decode_speedup == 1


def test_prefix_hits_are_cached_tokens(small):
    effect = rl.apply(small, rl.Workload(prompt_tokens=2000), t.PrefixCaching(hit_rate=0.75), time="roofline_s")
    expected = rl.prefill(small, rl.Workload(prompt_tokens=500, cached_tokens=1500))
    assert effect.prefill_after_s == expected.roofline_s
    assert effect.decode_speedup == 1
    assert effect.kv_saved_bytes_per_sequence == 1500 // 16 * 16 * 131_072


def test_compression_of_4k_to_1k(small):
    effect = rl.apply(small, rl.Workload(prompt_tokens=4096), t.PromptCompression(times=4), time="roofline_s")
    assert effect.prefill_after_s == rl.prefill(small, rl.Workload(prompt_tokens=1024)).roofline_s


@pytest.mark.parametrize(
    ("acceptance", "drafts", "operations", "speed"),
    [
        (0.6, 2, 1.53, 1.96),
        (0.7, 3, 1.58, 2.53),
        (0.8, 2, 1.23, 2.44),
        (0.8, 5, 1.63, 3.69),
        (0.9, 2, 1.11, 2.71),
        (0.9, 10, 1.60, 6.86),
    ],
)
def test_tokens_and_compute_of_the_paper(small, acceptance, drafts, operations, speed):
    """Leviathan et al. (arXiv:2211.17192), table 1: operations and speed when the draft costs nothing."""
    technique = t.Speculation(acceptance=acceptance, drafts=drafts, draft_share=0.0)
    found = t.speculation_limits(small, rl.Workload(), technique, time="roofline_s")
    assert found.tokens_per_step == pytest.approx(speed, abs=0.005)
    assert found.verify_compute == pytest.approx(operations, abs=0.01)


def test_draft_model_pays_weights_cache_prefill_and_steps(llama_70b, h100):
    draft = rl.get_model("llama-3.1-8b")
    serve, load = rl.Deployment(llama_70b, h100), rl.Workload(output_tokens=2)
    effect = rl.apply(serve, load, t.Speculation(acceptance=0.7, drafts=4, draft=draft), time="roofline_s")
    drafting = rl.Deployment(draft, h100)
    verify = rl.decode(serve, load).roofline_s
    assert effect.prefill_after_s == rl.prefill(serve, load).roofline_s + rl.prefill(drafting, load).roofline_s
    assert effect.after.step_s == pytest.approx(verify + 4 * rl.decode(drafting, load).roofline_s, rel=0.01)
    assert effect.weights_saved_bytes == -rl.memory(drafting, load).weights_bytes
    assert effect.decode_after_s == pytest.approx(effect.after.step_s / 2.7731)


def test_speculation_breaks_even_at_its_own_acceptance(small):
    found = t.speculation_limits(small, rl.Workload(512, 256, 64), time="roofline_s")
    again = rl.apply(
        small, rl.Workload(512, 256, 64), t.Speculation(acceptance=found.break_even_acceptance), time="roofline_s"
    )
    assert again.decode_speedup == pytest.approx(1, rel=1e-6)


def test_speculation_stops_where_verifying_becomes_compute(small):
    found = t.speculation_limits(small, rl.Workload(128, 64), time="roofline_s")
    edges = rl.apply(
        small,
        rl.Workload(128, 64, np.array([found.stops_at_batch - 25, found.stops_at_batch])),
        [t.Speculation()],
        time="roofline_s",
    )
    assert edges.decode_speedup[0] > 1 > edges.decode_speedup[1]


def test_deepseek_mtp_yields_1_85_tokens():
    """DeepSeek-V3 report, section 5.4.3: 85-90 % of second tokens accepted, up to 1.8 times the tokens a second."""
    serve = rl.Deployment("deepseek-v3", "h200-sxm", parallel=rl.Parallel(tensor=8))
    effect = rl.apply(serve, rl.Workload(), t.MultiTokenPrediction(acceptance=0.85), time="roofline_s")
    assert effect.after.tokens_per_step == pytest.approx(1.85)
    assert 1 < effect.decode_speedup < 1.8


def test_mixtral_against_dense_models(h100):
    mixtral = rl.Deployment(rl.get_model("mixtral-8x7b"), h100)
    total, active = t.MixtureOfExperts(against="total"), t.MixtureOfExperts(against="active")
    dense = {kind: kind.without(Scenario(mixtral, rl.Workload())).model.parameters for kind in (total, active)}
    routers = 32 * 8 * 4096
    assert dense[total].total == mixtral.model.parameters.total - routers
    assert dense[active].total == mixtral.model.parameters.active + dense[active].embedding - routers
    by_batch = rl.apply(mixtral, rl.Workload(batch=np.array([1, 4, 16, 64])), total, time="roofline_s")
    assert np.all(np.diff(by_batch.baseline_decode_speedup[:3]) < 0)
    assert by_batch.baseline_decode_speedup[-1] == pytest.approx(1.0, abs=0.02)
    assert rl.apply(mixtral, rl.Workload(), active, time="roofline_s").baseline_prefill_speedup == pytest.approx(
        1, abs=0.01
    )


def test_handover_crosses_the_network_once(small):
    effect = rl.apply(small, rl.Workload(batch=2), t.Disaggregation(link_bytes_per_s=50e9), time="roofline_s")
    assert effect.after.ttft_s - effect.after.prompt_s == pytest.approx(2000 * 131_072 / 50e9)
    assert effect.gap_after_s == effect.after.step_s == pytest.approx(effect.after.tpot_s)


def test_handover_pays_where_stalls_equal_the_transfer(small):
    found = t.handover(small, rl.Workload(4000, 256, 16), link_bytes_per_s=5e9, time="roofline_s")
    rate = found.pays_above_hz
    stalls_s = found.decode_s * rate * found.prefill_s / (1 - rate * found.prefill_s)
    assert stalls_s == pytest.approx(found.transfer_s)
    prefills, decodes = found.pools(16)
    assert prefills + decodes == 16
    assert prefills / decodes == pytest.approx(found.prefill_per_decode, rel=0.2)


def test_links_are_every_accelerators_own(small):
    """The cache divides over tensor ranks, each of which has a link to the host and to the network."""
    four = small.replace(parallel=rl.Parallel(tensor=4))
    load = rl.Workload(prompt_tokens=8000, output_tokens=2)
    one, many = (t.handover(serve, load, link_bytes_per_s=50e9, time="roofline_s") for serve in (small, four))
    assert many.transfer_s == pytest.approx(one.transfer_s / 4)
    one, many = (t.swap_or_recompute(serve, context_tokens=8000, time="roofline_s") for serve in (small, four))
    assert many.swap_s == pytest.approx(one.swap_s / 4)


def test_tensor_parallelism_is_parallel(small):
    effect = rl.apply(small, rl.Workload(), t.TensorParallelism(tensor=4), time="roofline_s")
    four = small.replace(parallel=rl.Parallel(tensor=4))
    assert effect.prefill_after_s == rl.prefill(four, rl.Workload()).roofline_s
    assert 3.9 < effect.decode_speedup < 4
    assert effect.max_batch_after > 4 * effect.max_batch_before


def test_exchanges_eat_prefill_sooner_on_pcie_than_on_a_switch(small):
    pcie = small.replace(accelerator=rl.get_accelerator("l40s"))
    fast, slow = (t.tensor_limits(serve, rl.Workload(), time="roofline_s") for serve in (small, pcie))
    assert np.all(fast.prefill_exchange_share[1:] < slow.prefill_exchange_share[1:])
    assert fast.half_eaten_at["decode"] == slow.half_eaten_at["decode"] == np.inf
    assert slow.half_eaten_at["prefill"] == 4
    assert fast.best_for_decode == 8


def test_all_reduce_by_hand(small):
    """Two a layer of 2,000 x 4,096 values in 16 bits, once over a switch that adds, at NVLink's 450 GB/s one way."""
    found = t.tensor_limits(small, rl.Workload(), degrees=(8,), time="roofline_s")
    assert found.prefill_s[0] * found.prefill_exchange_share[0] == pytest.approx(
        32 * 2 * 2000 * 4096 * 2 / 450e9, rel=0.01
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"degrees": ()}, "degrees is empty"),
        ({"degrees": (0,)}, "degrees must be"),
        ({"time": "floor_s"}, "no time named"),
    ],
)
def test_tensor_limits_refuse_nonsense(small, given, words):
    with pytest.raises(rl.RooflineError, match=words):
        t.tensor_limits(small, rl.Workload(), **given)


def test_chunks_of_a_drafted_model_cost_the_drafts_prefill(small):
    load = rl.Workload(prompt_tokens=2048, output_tokens=2)
    plain = rl.apply(small, load, t.ChunkedPrefill(chunk_tokens=512), time="roofline_s").after
    drafted = rl.apply(
        small, load, [t.ChunkedPrefill(chunk_tokens=512), t.Speculation(draft_share=0.1)], time="roofline_s"
    ).after
    assert drafted.ttft_s == pytest.approx(1.1 * plain.ttft_s)


def test_mode_switch_is_gain_over_cost(small):
    found = t.mode_switch(small, rl.Workload(prompt_tokens=4000), prefill_gain=0.3, decode_cost=0.1, time="roofline_s")
    assert found.break_even_steps == pytest.approx(3 * found.prefill_s / found.step_s)


def test_streaming_in_bursts(small):
    found = t.visible(small, rl.Workload(output_tokens=10), buffer=4, time="roofline_s")
    assert found.first_visible_s == pytest.approx(found.ttft_s + 3 * found.tpot_s)
    assert found.cadence_s == 4 * found.tpot_s
    assert found.bursts == 3


def test_swapping_over_pcie_beats_computing_again(small):
    found = t.swap_or_recompute(small, context_tokens=8000, time="roofline_s")
    assert found.swap_s == pytest.approx(8000 * 131_072 / 64e9)
    assert found.recompute_s == rl.prefill(small, rl.Workload(prompt_tokens=8000)).roofline_s
    assert found.pays_from_tokens == 1
    slow = small.replace(accelerator=small.accelerator.replace(host_bytes_per_s=5e9))
    over_slow_link = t.swap_or_recompute(slow, context_tokens=8000, time="roofline_s")
    assert over_slow_link.swap_s > over_slow_link.recompute_s


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        ((t.Speculation(), t.MultiTokenPrediction()), "speculative decoding and MTP both decide how many tokens"),
        ((t.Quantization(), t.Quantization(weights="int4")), "both decide the format of the weights"),
        ((t.ChunkedPrefill(), t.Disaggregation()), "both decide how prompts meet running sequences"),
        ((t.GroupedQueryAttention(), t.MultiHeadLatentAttention()), "GQA and MLA both decide the heads of attention"),
    ],
)
def test_nonsense_together_is_refused_in_one_line(small, pair, words):
    with pytest.raises(rl.InvalidInput, match=words) as error:
        rl.apply(small, rl.Workload(), pair, time="roofline_s")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: t.Speculation(acceptance=1.2), "acceptance must be a share from 0 to 1: 1.2"),
        (lambda: t.PrefixCaching(hit_rate=-1), "hit_rate must be a finite number >= 0: -1"),
        (lambda: t.PromptCompression(times=0.5), "times must be a finite number >= 1: 0.5"),
        (lambda: t.MixtureOfExperts(against="size"), "against must be 'total' or 'active'"),
        (lambda: t.MixtureOfExperts(experts=2, top_k=3), "top_k must be at most the number of experts: 3 of 2"),
        (lambda: t.PromptBatching(lengths=()), "lengths is empty"),
        (lambda: t.ChunkedPrefill(chunk_tokens=0), "chunk_tokens must be an integer >= 1: 0"),
        (lambda: t.SlidingWindow(tokens=2.5), "tokens must be an integer >= 1: 2.5"),
    ],
)
def test_nonsense_parameters_are_refused(make, words):
    with pytest.raises(rl.InvalidInput, match=words.replace("(", r"\(")):
        make()


def test_what_is_no_technique_is_refused(small):
    with pytest.raises(rl.InvalidInput, match="techniques must be values of"):
        rl.apply(small, rl.Workload(), [8], time="roofline_s")
    with pytest.raises(rl.UnknownName, match="no technique named 'specculative'; did you mean 'speculative'"):
        rl.apply(small, rl.Workload(), "specculative", time="roofline_s")


def test_table_has_a_row_for_every_technique(llama_70b):
    serve = rl.Deployment(llama_70b, rl.get_accelerator("h200-sxm"))
    table = rl.technique_table(serve, rl.Workload(batch=8), time="roofline_s")
    rows, refused = [row["technique"] for row in table.rows], dict(table.refused)
    assert [label for label in LABELS if label not in refused] == rows
    assert set(refused) == set(NEEDS_MORE)
    shown = [item for item in TECHNIQUES if item.label not in refused]
    assert list(table.to_frame()["why"]) == [item.why for item in shown]
    assert "speculative decoding" in repr(table)
    assert table._repr_html_().count("<tr>") == 1 + len(rows)


NEEDS_MORE = {
    "encoder disaggregation": "no encoder",
    "expert parallelism": "no routed experts",
    "expert load balancing": "no routed experts",
    "attention data parallelism": "nothing to replicate",
    "two-batch overlap": "exchanges nothing",
    "quantized collectives": "exchanges nothing",
    "attention-FFN disaggregation": "no routed experts",
    "decode context parallelism": "no rank holds a copy",
    "weights on the host": "no routed experts",
}
"""Techniques that a dense model on one accelerator cannot have, and why."""


def test_what_one_accelerator_cannot_have_is_refused_with_the_reason(llama_70b):
    serve = rl.Deployment(llama_70b, rl.get_accelerator("h200-sxm"))
    refused = dict(rl.technique_table(serve, rl.Workload(batch=8), time="roofline_s").refused)
    assert all(NEEDS_MORE[label] in reason for label, reason in refused.items())


def able(technique):
    """A deployment that can have the technique."""
    mixture = rl.Deployment("deepseek-v2-lite", "h100-sxm", parallel=rl.Parallel(tensor=4))
    spread = mixture.replace(parallel=rl.Parallel(tensor=4, expert=4))
    names = ("llama-3.1-8b", "qwen2.5-vl-3b", "qwen3-30b-a3b")
    serves = (*(rl.Deployment(name, "h100-sxm") for name in names), mixture, spread)
    return next(serve for serve in serves if not technique.refusal(Scenario(serve, rl.Workload(batch=4))))


SEED_TABLE = {
    "KV cache": "decode",
    "GQA": "decode",
    "MLA": "decode",
    "FlashAttention": "both",
    "weight quantization (fp8)": "decode",
    "weight quantization (int4_g128)": "decode",
    "continuous batching": "decode",
    "speculative decoding": "decode",
    "prefix caching": "prefill",
    "MoE": "both",
    "MTP": "decode",
}
"""Technique and the phase it helps: the table in section 5 of "Prefill vs Decode: Two Workloads on One GPU"."""


def test_table_has_what_the_field_says_beside_what_the_numbers_say(llama_70b):
    serve = rl.Deployment(llama_70b, rl.get_accelerator("h200-sxm"))
    rows = {row["technique"]: row for row in rl.technique_table(serve, rl.Workload(batch=8), time="roofline_s").rows}
    assert {name: rows[name]["claimed_phase"] for name in SEED_TABLE} == SEED_TABLE
    differ = {name: rows[name]["phase"] for name, phase in SEED_TABLE.items() if rows[name]["phase"] != phase}
    # Narrow KV projections are fewer FLOPs in prefill too; fused attention gains below 2 % of a decode step at 2,000
    # tokens; batching adds throughput and no speed.
    assert differ == {"GQA": "both", "MLA": "both", "FlashAttention": "prefill", "continuous batching": "throughput"}
    had = ("KV cache", "GQA", "FlashAttention", "continuous batching")
    assert all(rows[name]["throughput_gain"] == 1 < rows[name]["baseline_throughput_gain"] for name in had)


def test_table_says_what_cannot_be_had():
    serve = rl.Deployment(rl.get_model("gpt-2"), rl.get_accelerator("v100-sxm2-16gb"))
    refused = dict(
        rl.technique_table(serve, rl.Workload(prompt_tokens=200, output_tokens=50), time="roofline_s").refused
    )
    assert "no sparse peak" in refused["2:4 sparsity"]
    assert "share KV heads" in refused["GQA"]


def test_table_is_for_one_workload(small):
    with pytest.raises(rl.InvalidInput, match="takes a single workload, not a sweep"):
        rl.technique_table(small, rl.Workload(batch=np.arange(1, 4)), time="roofline_s")


def joined_by(function):
    """``max`` or ``min`` of any number of values that broadcast."""
    return lambda *values: reduce(function, values)


@pytest.mark.parametrize("technique", TECHNIQUES, ids=LABELS)
def test_every_step_of_a_derivation_gives_its_value(technique):
    effect = rl.apply(able(technique), rl.Workload(batch=4), technique, time="roofline_s")
    for step in effect.explain():
        scope = {"__builtins__": {}, "max": joined_by(np.maximum), "min": joined_by(np.minimum)}
        found = eval(step.formula, scope, dict(step.inputs))
        assert found == pytest.approx(step.value), step.name


@pytest.mark.parametrize("technique", TECHNIQUES, ids=LABELS)
def test_every_technique_names_its_phase_reason_and_price(technique):
    assert technique.helps in ("prefill", "decode", "both")
    assert technique.why
    assert technique.costs
    assert technique.effort in ("a config flag", "a new kernel", "a new model", "more accelerators")
    assert technique.decides


def test_a_technique_registers_itself_in_its_own_file(small, monkeypatch):
    """One class is all that a new technique takes: a name, a row, parameters with their help."""
    monkeypatch.setitem(registered, "layer-skipping", None)  # which the end of the test takes out again

    @dataclass(frozen=True, kw_only=True)
    class LayerSkipping(t.Technique):
        """Some layers are skipped.

        Attributes
        ----------
        share_of_layers : float
            Share of the layers that a token skips.
        """

        slug: ClassVar[str] = "layer-skipping"
        name: ClassVar[str] = "layer skipping"
        helps: ClassVar[str] = "both"
        why: ClassVar[str] = "fewer layers to read and to compute"
        costs: ClassVar[str] = "accuracy"

        share_of_layers: float = 0.25

        def after(self, case):
            layers = tuple(
                replace(layer, count=round(layer.count * (1 - self.share_of_layers))) for layer in case.model.layers
            )
            return case.with_model(case.model.replace(layers=layers))

    (made,) = t.named(["layer-skipping"], {"share_of_layers": 0.5})
    assert made == LayerSkipping(share_of_layers=0.5)
    gains = rl.apply(small, rl.Workload(), "layer-skipping", time="roofline_s")
    assert gains.decode_speedup > 1.2
    parameter = next(item for item in t.parameters() if item.name == "share_of_layers")
    assert parameter.slugs == ("layer-skipping",)
    assert parameter.help == "layer-skipping: Share of the layers that a token skips."
    assert parameter.defaults == {"layer-skipping": 0.25}
    assert "layer skipping" in [
        row["technique"] for row in rl.technique_table(small, rl.Workload(), time="roofline_s").rows
    ]


def test_every_parameter_has_help_and_every_technique_one_slug():
    assert all(item.help for item in t.parameters())
    assert len({kind.name for kind in t.REGISTRY.values()}) == len(t.REGISTRY)
    assert set(t.MEASURED) <= set(t.REGISTRY)
    assert all(getattr(t, kind.__name__) is kind and kind.slug == slug for slug, kind in t.REGISTRY.items())
    with pytest.raises(rl.InvalidInput, match="technique slug 'mla' is taken by MultiHeadLatentAttention"):
        type("Another", (t.Technique,), {"slug": "mla"})


def test_mla_in_the_place_of_gqa_is_slower_and_in_the_place_of_mha_faster(llama_70b, h100):
    """64 requests on eight H100: by the bytes of a token, 8 KV heads a GPU apart are fewer than a latent on each."""
    serve = rl.Deployment(llama_70b, h100, parallel=rl.Parallel(tensor=8))
    effect = rl.apply(serve, rl.Workload(batch=64), t.MultiHeadLatentAttention(), time="roofline_s")
    assert effect.before.case.serve == serve
    assert effect.decode_speedup == pytest.approx(1 / 1.32, abs=0.005)
    assert effect.baseline_decode_speedup == pytest.approx(1.97, abs=0.005)
    assert effect.compared_with == "multi-head attention"
