"""Every numeric claim of the two texts that this project started from: what the library gives, and the verdict.

The table is `golden/seed_claims.yaml`.  A claim that the physics does not support is listed as such.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml

import roofline as rl
from roofline import techniques as t
from roofline.advisor import verdict_of
from roofline.advisor.verdict import prefill_share
from roofline.serving.scenario import Scenario
from roofline.serving.steady_state import steady_state
from roofline.techniques.table import phase_of

ROWS = yaml.safe_load((Path(__file__).parent / "golden" / "seed_claims.yaml").read_text(encoding="utf-8"))
VERDICTS = ("holds", "holds when", "does not hold", "not computed")
COMPUTED = [row for row in ROWS if row["verdict"] != "not computed"]
GRID = np.unique(np.round(np.geomspace(1, 200_000, 4000)))

H100 = rl.get_accelerator("h100-sxm")
LARGE, SMALL = (rl.Deployment(rl.get_model(name), H100) for name in ("llama-3.1-70b", "llama-3.1-8b"))
MIXTRAL = rl.Deployment(rl.get_model("mixtral-8x7b"), H100)


def load(prompt=2000, output=256, batch=1, cached=0):
    return rl.Workload(prompt, output, batch, cached)


def prefill_s(serve, prompt):
    return rl.prefill(serve, load(prompt)).roofline_s


def step_s(serve, batch=1, context=2000):
    return rl.decode(serve, load(batch=batch), context_tokens=context).roofline_s


def first(reached):
    """The first length of the grid at which something is reached."""
    return GRID[np.argmax(np.broadcast_to(reached, GRID.shape))]


def longest_output(serve, prompt, share, batch=1):
    outputs = np.arange(1.0, 2000)
    return outputs[prefill_share(serve, load(prompt, outputs, batch), time="roofline_s") >= share].max()


def own_share(batch):
    seen = steady_state(Scenario(LARGE, load(batch=batch)), time="roofline_s")
    return seen.prompt_s / seen.total_s


def on(name, serve=SMALL):
    half = rl.Precision("fp16", "fp16", "fp16", attention="fp16")
    return serve.replace(accelerator=rl.get_accelerator(name), precision=half)


def flash(serve, prompt):
    return rl.apply(serve, load(prompt, 2), t.FlashAttention(), time="roofline_s").baseline_prefill_speedup


def flash_attention_operator():
    both = (rl.prefill(SMALL.replace(attention=how), load()).operators for how in ("unfused", "fused"))
    times = [next(item.roofline_s for item in found if item.operator.kind == "attention") for found in both]
    return times[0] / times[1]


def flash_decode(context):
    return step_s(LARGE.replace(attention="unfused"), 8, context) / step_s(LARGE, 8, context) - 1


def fusion_launch_us():
    launches = np.arange(1, 200) / 10
    gains = [
        rl.apply(SMALL, load(), t.KernelFusion(launch_s=x * 1e-6), time="roofline_s").decode_speedup for x in launches
    ]
    return launches[np.argmax(np.array(gains) >= 1.3)]


def fusion_prompt():
    prompts = np.arange(320.0, 3000, 10)
    gain = rl.apply(SMALL, load(prompts, 2), t.KernelFusion(launch_s=7.8e-6), time="roofline_s").prefill_speedup
    return prompts[1 - 1 / gain >= 0.15].max()


def fusion_weights():
    after = t.KernelFusion().after(Scenario(SMALL, load())).serve
    return rl.decode(after, load()).weight_bytes / rl.decode(SMALL, load()).weight_bytes


def kv_break_even(slowdown):
    quantized = rl.quantize(LARGE, kv="int4")
    return first(step_s(LARGE, context=GRID) >= (1 + slowdown) * step_s(quantized, context=GRID))


def prefill_saved(technique, serve=LARGE, prompt=2000):
    return 1 - 1 / rl.apply(serve, load(prompt, 2), technique, time="roofline_s").prefill_speedup


def decode_saved(technique, serve=LARGE):
    return 1 - 1 / rl.apply(serve, load(), technique, time="roofline_s").decode_speedup


def phase(technique, serve=LARGE, **workload):
    return phase_of(rl.apply(serve, load(**workload), technique, time="roofline_s"))


def attention_projections():
    parts = LARGE.model.parameters.by_part
    return parts["attention"] / (parts["attention"] + parts["mlp"]) / 2


def limits_as_claimed():
    """Share of the accelerators, of those with units for 16 bits or wider, on which both phases are limited as said."""
    every = [rl.get_accelerator(name) for name in rl.list_accelerators()]
    wide = [each for each in every if {"bf16", "fp16", "tf32", "fp32"} & each.dense_flops_per_s.keys()]
    serves = [SMALL.replace(accelerator=each) for each in wide]
    limits = [(rl.prefill(each, load()).limit, rl.decode(each, load()).limit) for each in serves]
    return np.mean([pair == ("compute", "memory") for pair in limits])


def starved(share):
    slow = H100.replace(memory_bytes_per_s=H100.memory_bytes_per_s * share)
    return prefill_s(LARGE.replace(accelerator=slow), 2000) / prefill_s(LARGE, 2000)


def padded_drop(spread):
    """Throughput that a large batch of lengths within ``spread`` loses to padding."""
    lengths = tuple(int(n) for n in np.linspace(1000, 1000 * (1 + spread), 101))
    return 1 - t.static_slots_used(64, lengths)


def round_h100():
    return H100.replace(memory_bytes_per_s=3e12, dense_flops_per_s={"bf16": 1000e12})


def memory_share(batch):
    step = rl.decode(SMALL, load(batch=batch))
    return step.limited_s["memory"] / step.roofline_s


def first_tokens_speculated(count):
    """End-to-end gain if only the first of 256 tokens are speculated."""
    effect = rl.apply(LARGE, load(), t.Speculation(), time="roofline_s")
    plain, fast = effect.before, effect.after
    return plain.total_s / (plain.total_s - count * (plain.tpot_s - fast.tpot_s))


def longest_answer():
    answers = np.arange(1.0, 2000)
    return answers[verdict_of(10 / (10 + (answers - 1) / 50)) == "prefill"].max()


def int4_cache_share():
    """Share of the memory that a cache has if a quarter of it cuts all memory by 60 %."""
    kept = SMALL.model.cache_bytes(1, "int4") / SMALL.model.cache_bytes(1, "bf16")
    return 0.6 / (1 - kept)


def stalls_of_40_percent():
    """Share of the time in prefill that stretches steps by 40 %: at a rate r the stretch is 1 / (1 - r T)."""
    found = t.handover(LARGE, load(8000, 256, 8), time="roofline_s")
    rates = np.linspace(0, 1 / found.prefill_s, 100_001)[:-1]
    stretch = 1 / (1 - rates * found.prefill_s)
    return rates[np.argmax(stretch >= 1.4)] * found.prefill_s


def eviction_over_compression():
    """Gain of keeping the last 4,096 tokens over that of a cache in 8 bits, 32 sequences of 32,000 tokens."""
    crowd = load(32_000, 2, 32)
    kept = rl.apply(LARGE, crowd, t.SlidingWindow(tokens=4096), time="roofline_s").decode_speedup
    return kept / rl.apply(LARGE, crowd, t.KVQuantization(kv="fp8"), time="roofline_s").decode_speedup


def drafts_of_2_3x():
    """Numbers of drafts whose verification takes 2 to 3 times the compute of plain decode."""
    taken = {
        k: t.speculation_limits(
            LARGE, load(), t.Speculation(acceptance=0.7, drafts=k), time="roofline_s"
        ).verify_compute
        for k in range(1, 20)
    }
    return [k for k, times in taken.items() if 2 <= times <= 3]


def pruning_batch():
    """Smallest batch for which skipping half of each token's neurons gains less than 10 % of a step."""
    gains = {
        batch: 1 - 1 / rl.apply(LARGE, load(batch=batch), t.ActivationSparsity(), time="roofline_s").decode_speedup
        for batch in range(1, 10)
    }
    return min(batch for batch, gain in gains.items() if gain < 0.1)


def masking_batch():
    """Smallest batch whose decode step, which a new prompt waits for, is 15 % of the time to first token."""
    for batch in range(2, 200):
        seen = steady_state(Scenario(LARGE, load(batch=batch)), time="roofline_s")
        if seen.step_s / (seen.step_s + seen.prompt_s) >= 0.15:
            return batch
    raise AssertionError("no batch below 200")


GPT2_A100 = rl.Deployment(rl.get_model("gpt-2"), rl.get_accelerator("a100-sxm-40gb"))
WEIGHT_ONLY = t.Quantization(weights="int4_g128")

COMPUTE = {
    "chatbot_70_prefill": lambda: longest_output(SMALL, 4000, 0.7),
    "long_prompts_suffer_more": lambda: prefill_s(LARGE, 1000) / prefill_s(LARGE, 100),
    "short_prompt_ttft": lambda: prefill_s(LARGE, 200),
    "short_prompt_decode_dominates": lambda: 1 - prefill_share(LARGE, load(200, 400), time="roofline_s"),
    "long_prompt_wall": lambda: longest_output(LARGE, 8000, 0.6),
    "prefill_shrinks_under_load_latency": lambda: own_share(64) / own_share(1),
    "prefill_shrinks_under_load_machine": lambda: (
        prefill_share(LARGE, load(batch=64), time="roofline_s") / prefill_share(LARGE, load(batch=1), time="roofline_s")
    ),
    "api_800_of_950": lambda: 800 / 950,
    "api_output_was_long": lambda: 0.150 / step_s(SMALL),
    "api_decode_tuning_3_percent": lambda: 150 / 950,
    "api_flash_attention_halves": lambda: first(flash(SMALL, GRID) >= 2),
    "sla_480_120": lambda: 480 / 600,
    "flash_2_3x_prefill": lambda: flash(GPT2_A100, 1024),
    "flash_attention_operator": flash_attention_operator,
    "paged_decode_40": lambda: (
        1 - 1 / rl.apply(LARGE, load(), t.PagedAttention(), time="roofline_s").baseline_decode_speedup
    ),
    "gqa_fraction": lambda: 1 / np.divide(*kv_of(t.GroupedQueryAttention())),
    "fusion_30_percent_decode": fusion_launch_us,
    "fusion_15_percent_ttft": fusion_prompt,
    "fusion_avoids_weight_reloads": fusion_weights,
    "kv_compression_matters_less_in_decode": eviction_over_compression,
    "offload_kills_decode": lambda: (
        1 / rl.apply(LARGE, load(8000, 256, 8), t.HostOffload(host=0.5), time="roofline_s").decode_speedup
    ),
    "decode_below_3_ms": lambda: rl.decode(rl.quantize(SMALL, weights="fp8"), load()).floor_s,
    "prefill_500_ms_under_load": lambda: first(prefill_s(SMALL, GRID) >= 0.5),
    "whole_completions_care_about_ttft": lambda: rl.generate(LARGE, load(), time="roofline_s").prefill_share,
    "prefill_compute_decode_memory": limits_as_claimed,
    "prefill_20_gives_throughput_1_5": lambda: 1 / (1 - 0.2),
    "t4_memory_wall": lambda: rl.memory(on("t4"), load()).max_batch,
    "a100_ample_memory": lambda: rl.memory(on("a100-sxm-80gb"), load()).max_batch,
    "decode_cut_40_prefill_choked": lambda: 1 / rl.apply(LARGE, load(), WEIGHT_ONLY, time="roofline_s").prefill_speedup,
    "custom_kernel_2x": lambda: first(flash(SMALL, GRID) >= 2),
    "prefill_doubled_decode_40_slower": stalls_of_40_percent,
    "int4_cache_memory_60": int4_cache_share,
    "int4_cache_dequantization_12": lambda: kv_break_even(0.12),
    "int4_cache_dequantization_18": lambda: kv_break_even(0.18),
    "batch_128_to_64_saves_30_ms": lambda: first(step_s(LARGE, 128, GRID) - step_s(LARGE, 64, GRID) >= 0.030),
    "batch_128_to_64_throughput": lambda: 2 * step_s(LARGE, 64, 4700) / step_s(LARGE, 128, 4700),
    "decode_runs_more_steps": lambda: load().output_tokens - 1,
    "verification_2_3x": lambda: min(drafts_of_2_3x()),
    "verification_2_3x_at_most": lambda: max(drafts_of_2_3x()),
    "weak_draft_wastes": lambda: (
        rl.apply(LARGE, load(), t.Speculation(acceptance=0.0), time="roofline_s").decode_speedup
    ),
    "sparsity_prefill_30_50": lambda: prefill_saved(t.ActivationSparsity()),
    "sparsity_decode_single_digit": pruning_batch,
    "mask_decode_single_digit": lambda: decode_saved(t.SparseAttentionMask(), SMALL),
    "mask_prefill_30_50": lambda: prefill_saved(t.SparseAttentionMask(), SMALL, 131_072),
    "hybrid_4_bit_prefill": lambda: rl.apply(LARGE, load(), WEIGHT_ONLY, time="roofline_s").prefill_speedup,
    "hybrid_first_20_tokens": lambda: first_tokens_speculated(20),
    "mode_switch_15_steps": lambda: first(
        t.mode_switch(LARGE, load(GRID, 2), time="roofline_s").break_even_steps >= 15
    ),
    "int8_attention_projections_40": attention_projections,
    "int8_everywhere_40": lambda: prefill_saved(t.Quantization(weights="int8", activations="int8")),
    "int4_prefill": lambda: prefill_saved(WEIGHT_ONLY),
    "padding_32_with_4000": lambda: 1 - (32 + 4000) / (2 * 4000),
    "tolerance_10": lambda: t.padding(tuple(range(100, 4000, 37)), 0.1),
    "tolerance_20": lambda: t.padding(tuple(range(100, 4000, 37)), 0.2),
    "buffer_3_5_tokens": lambda: 1 / t.visible(LARGE, load(), buffer=5, time="roofline_s").cadence_s,
    "ttft_masked_by_decode": masking_batch,
    "prefill_3x_slower_starved": lambda: starved(1 / 3),
    "from_50_to_200_ms": lambda: 200 / 50,
    "three_seconds_first_word": lambda: first(prefill_s(LARGE, GRID) >= 3),
    "throughput_drop_25_lengths_20": lambda: padded_drop(0.2),
    "flash_decode_5_percent": lambda: first(flash_decode(GRID) >= 0.05),
    "flash_decode_8_percent": lambda: first(flash_decode(GRID) >= 0.08),
    "mi250_30_40_slower": lambda: step_s(on("mi250")) / step_s(on("h100-sxm")) - 1,
    "v100_to_a100_18": lambda: 1 - step_s(on("a100-sxm-40gb")) / step_s(on("v100-sxm2-32gb")),
    "decode_linear_in_batch": lambda: step_s(SMALL, 64) / step_s(SMALL, 1),
    "speculation_breaks_at_8": lambda: t.speculation_limits(SMALL, load(128), time="roofline_s").stops_at_batch,
    "stall_ratio_doubles": lambda: memory_share(64) / memory_share(1),
    "ten_seconds_50_tokens": longest_answer,
    "matrix_chat": lambda: 1 - prefill_share(LARGE, load(150, 300), time="roofline_s"),
    "matrix_summaries": lambda: prefill_share(LARGE, load(16_000, 200, 32), time="roofline_s"),
    "compress_4k_to_1k": lambda: (
        rl.apply(LARGE, load(4000), t.PromptCompression(times=4), time="roofline_s").prefill_speedup
    ),
    "rule_60": lambda: verdict_of(0.60),
    "rule_70": lambda: verdict_of(0.30),
    "thirty_turns": lambda: prefill_share(LARGE, load(29 * 300 + 150, 150, 8), time="roofline_s"),
    "h100_1000_tflops": lambda: H100.peak_flops_per_s("bf16"),
    "h100_3_tb": lambda: H100.memory_bytes_per_s,
    "ridge_330": lambda: H100.ridge_flops_per_byte("bf16"),
    "ridge_330_round": lambda: round_h100().ridge_flops_per_byte("bf16"),
    "prefill_intensity_2000": lambda: rl.matmul(2000, 8192, 8192).flops / rl.matmul(2000, 8192, 8192).weight_bytes,
    "decode_intensity_1": lambda: rl.matmul(1, 8192, 8192).intensity_flops_per_byte,
    "floor_47_ms": lambda: rl.decode(LARGE, load(), context_tokens=0).floor_s,
    "floor_47_ms_round": lambda: 70e9 * 2 / round_h100().memory_bytes_per_s,
    "fp8_halves": lambda: step_s(rl.quantize(LARGE, weights="fp8"), context=0) / step_s(LARGE, context=0),
    "fp8_23_ms": lambda: rl.decode(rl.quantize(LARGE, weights="fp8"), load(), context_tokens=0).floor_s,
    "int4_12_ms": lambda: rl.decode(rl.quantize(LARGE, weights="int4"), load(), context_tokens=0).floor_s,
    "int4_quarters": lambda: step_s(rl.quantize(LARGE, weights="int4"), context=0) / step_s(LARGE, context=0),
    "prefill_linear": lambda: prefill_s(LARGE, 2000) / prefill_s(LARGE, 1000),
    "prefill_linear_long": lambda: prefill_s(LARGE, 64_000) / prefill_s(LARGE, 32_000),
    "prefill_thousands": lambda: rl.prefill(LARGE, load()).tokens_per_s,
    "decode_20_25": lambda: rl.decode(LARGE, load()).tokens_per_s,
    "math_in_nanoseconds": lambda: rl.bound(rl.matmul(1, 8192, 8192), H100).compute_s,
    "waits_hundreds_of_nanoseconds": lambda: rl.bound(rl.matmul(1, 8192, 8192), H100).memory_s,
    "transfer_100s_of_mb": lambda: t.handover(LARGE, load(), time="roofline_s").kv_bytes,
    "transfer_several_gb": lambda: t.handover(LARGE, load(16_000), time="roofline_s").kv_bytes,
    "disaggregation_threshold": lambda: t.handover(LARGE, load(8000, 256, 8), time="roofline_s").pays_above_hz,
    "table_kv_cache_quadratic": lambda: prefill_s(LARGE, 2000) / prefill_s(LARGE, 1000),
    "table_kv_cache_decode": lambda: phase(t.KVCache()),
    "table_gqa_decode": lambda: (
        rl.apply(LARGE, load(batch=8), t.GroupedQueryAttention(), time="roofline_s").baseline_decode_speedup
    ),
    "table_mla_kv": lambda: 1 / np.divide(*kv_of(t.MultiHeadLatentAttention())),
    "table_flash_mostly_prefill": lambda: (
        (flash(LARGE, 8000) - 1)
        / (rl.apply(LARGE, load(8000), t.FlashAttention(), time="roofline_s").baseline_decode_speedup - 1)
    ),
    "table_fp8_decode": lambda: phase(t.Quantization(weights="fp8")),
    "table_continuous_batching": lambda: 64 * step_s(LARGE) / step_s(LARGE, 64),
    "table_speculation_k": lambda: t.expected_tokens(0.7, 4),
    "table_prefix_prefill": lambda: phase(t.PrefixCaching()),
    "table_moe_both": lambda: phase(t.MixtureOfExperts(), MIXTRAL),
    "table_moe_both_in_batches": lambda: phase(t.MixtureOfExperts(), MIXTRAL, batch=128),
    "table_mtp_k": lambda: t.expected_tokens(0.85, 1),
    "prompt_saturates": lambda: first(np.array(rl.prefill(LARGE, load(GRID)).limit) == "compute"),
    "weights_dominate": lambda: rl.crossovers(LARGE).kv_tokens,
}


def kv_of(technique):
    effect = rl.apply(LARGE, load(), technique, time="roofline_s")
    return effect.baseline.kv_bytes_per_sequence, effect.after.kv_bytes_per_sequence


@cache
def computed(name):
    value = COMPUTE[name]()
    return value if isinstance(value, str) else float(value)


def lies_in(value, claimed):
    if isinstance(value, str):
        return value in claimed
    return claimed[0] <= round(value, 12) <= claimed[-1]  # sums of floats end in other digits from Python 3.12 on


def rows(wanted):
    return [pytest.param(row, id=row["id"]) for row in wanted]


@pytest.mark.parametrize("row", rows(ROWS))
def test_row_says_where_it_stands_and_why(row):
    assert row["verdict"] in VERDICTS
    assert row["text"] in ("choice", "phases")
    assert row["where"]
    assert row["why"]
    assert (row["id"] in COMPUTE) == (row["verdict"] != "not computed")
    assert ("hand" in row) or row["verdict"] != "holds when"


@pytest.mark.parametrize("row", rows([row for row in COMPUTED if "claimed" in row]))
def test_verdict_is_what_the_numbers_say(row):
    value = computed(row["id"])
    assert lies_in(value, row["claimed"]) == (row["verdict"] == "holds"), value


@pytest.mark.parametrize("row", rows([row for row in COMPUTED if "hand" in row]))
def test_value_is_what_it_is_by_hand(row):
    assert computed(row["id"]) == pytest.approx(row["hand"]["value"], rel=row["hand"]["tolerance"])


def test_table_has_every_computation_once():
    names = [row["id"] for row in ROWS]
    assert len(names) == len(set(names))
    assert set(COMPUTE) <= set(names)
