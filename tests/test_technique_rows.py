"""Techniques whose sources leave something out: rows held as far as they go, or against what is printed elsewhere."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

import roofline as rl
from roofline import techniques as t
from roofline.serving.scenario import Scenario
from roofline.serving.steady_state import steady_state

GAINS = Path(__file__).parent / "data/measurements/technique_gains.csv"
ROWS = {row["id"]: row for row in csv.DictReader(GAINS.read_text("utf-8").splitlines())}

FP8_BLOCK = rl.Precision(weights="fp8_block", activations="fp8")


def measured(name):
    return float(ROWS[name]["gain"])


@pytest.mark.parametrize(
    ("name", "technique", "passed_ms", "token_ms", "off"),
    [
        ("gps-q8-e3tree", t.TreeDrafting(drafts=4, verify_width=16), 11.05, 3.75, 0.3),
        ("gps-q8-e3chain", t.Speculation(drafts=2, verify_width=4), 8.78, 4.37, 0.15),
    ],
)
def test_trees_and_chains_of_an_eagle_head(name, technique, passed_ms, token_ms, off):
    """Qwen3-8B-FP8 on an H100 in SGLang, four users: a tree of 16 in four levels gains 1.51, a chain of two 1.29.

    The acceptance length is the mean time between packets (a step) over that of a token (gpustack's performance lab).
    """
    serve = rl.Deployment("qwen3-8b", "h100-sxm", precision=FP8_BLOCK, engine="sglang")
    effect = rl.apply(serve, rl.Workload(233, 221, 4), replace(technique, acceptance_length=passed_ms / token_ms))
    assert effect.tpot_speedup == pytest.approx(measured(name), rel=off)


def test_drafts_make_sglangs_scheduler_wait():
    """EAGLE of Llama 3 8B, five drafts: 2.99 tokens at 246.8 tokens/s, 3.01 at 273.4 with overlap (SGLang PR 11398)."""
    waited_s = 2.99 / 246.80 - 3.01 / 273.43
    engine = rl.Engine("sglang")
    assert engine.drafting_step_s == pytest.approx(waited_s, rel=0.01)
    drafts, load = t.Speculation(drafts=5), rl.Workload(100, 100, 1)
    serve = rl.Deployment("llama-3-8b", "h100-sxm", engine=engine)
    times = [
        rl.apply(serve.replace(engine=each), load, drafts).after.step_s
        for each in (engine, engine.replace(drafting_step_s=0))
    ]
    assert times[0] - times[1] == pytest.approx(waited_s, rel=0.01)
    plain = steady_state(Scenario(serve, load))
    assert plain.step_s == rl.apply(serve, load, t.Speculation(drafts=0)).after.step_s
    roofs = [rl.apply(serve.replace(engine=each), load, drafts, time="roofline_s") for each in (engine, None)]
    assert roofs[0].after.step_s == roofs[1].after.step_s


def test_drafts_looked_up_in_the_text():
    """Llama 4 Scout on 8 B200, four users, three drafts, 1.66 tokens a step: 1.64 (TensorRT-LLM blog 7)."""
    precision = rl.Precision(weights="fp8", activations="fp8")
    engine = rl.Engine("trtllm", version="1.0.0")
    serve = rl.Deployment("llama-4-scout", "b200-sxm", precision, rl.Parallel(tensor=8), engine=engine)
    effect = rl.apply(serve, rl.Workload(1024, 128, 4), t.NgramDrafting(drafts=3, acceptance_length=1.66))
    assert effect.throughput_gain == pytest.approx(measured("trtb7-b4"), rel=0.3)


@pytest.mark.parametrize("accelerator", ["h100-sxm", "h200-sxm", "h20-96gb"])
def test_a_tier_that_doubles_the_hits(accelerator):
    """HiCache with 3FS, sessions of 25,000 tokens, hits from 40 to 80 %: TTFT 2.27 times as short (lmsys.org).

    The model is Qwen3-Coder-480B and the accelerators are not printed; a smaller sister stands in on three of them.
    """
    serve = rl.Deployment("qwen3-235b-a22b", accelerator, FP8_BLOCK, rl.Parallel(tensor=8), engine="sglang")
    case = Scenario(serve, rl.Workload(25_000, 400, 16))
    before, after = (steady_state(each) for each in (case.replace(hit_rate=0.4), t.KVTiers(hit_rate=0.8).after(case)))
    assert before.ttft_s / after.ttft_s == pytest.approx(measured("hicache-ttft"), rel=0.15)
    assert after.tokens_per_s / before.tokens_per_s == pytest.approx(measured("hicache-tput"), rel=0.3)


def test_a_shared_store_takes_the_prompts_out_of_agents():
    """Mooncake on 12 GB200, 80,000 tokens of which 1.7 or 92.2 % are found: TTFT 46, throughput 3.8 (vLLM blog).

    The model is not printed, and most of the 46 is a queue that the misses build up: the prompts alone gain less.
    """
    serve = rl.Deployment("kimi-k2.5", "gb200", parallel=rl.Parallel(tensor=4), engine="vllm")
    case = Scenario(serve, rl.Workload(80_000, 600, 8))
    before, after = (
        steady_state(each) for each in (case.replace(hit_rate=0.017), t.KVTiers(hit_rate=0.922).after(case))
    )
    assert 3 < before.ttft_s / after.ttft_s < measured("mooncake-ttft")
    assert after.tokens_per_s / before.tokens_per_s == pytest.approx(measured("mooncake-tput"), rel=0.5)


@pytest.mark.parametrize(("tokens", "least"), [(32_768, 1.2), (131_072, 2.0)])
def test_evicted_tokens_gain_no_more_than_was_ever_measured(tokens, least):
    """RocketKV on an A100 gains up to 3.7 in decode; 17 GB of cache beside 16 GB of weights at 131,072 tokens."""
    serve = rl.Deployment("llama-3.1-8b", "a100-sxm-80gb")
    effect = rl.apply(serve, rl.Workload(tokens, 200, 1), t.ScoreEviction(kept_tokens=512))
    assert least < effect.decode_speedup < measured("rocket")


def test_a_divided_cache_holds_the_requests_that_waited():
    """DeepSeek-R1 with DCP8 for TP8 at 8k/8k, 128 requests: 1.68 (ATOM pull request 847), as 85 of them fit without."""
    serve = rl.Deployment("deepseek-r1", "mi300x", parallel=rl.Parallel(tensor=8))
    case = Scenario(serve, rl.Workload(8192, 8192, 128))
    rates = []
    for each in (case, t.DecodeContextParallelism().after(case)):
        running = min(128.0, float(steady_state(each).max_batch))
        rates.append(steady_state(each.replace(load=rl.Workload(8192, 8192, running))).tokens_per_s)
    assert rates[1] / rates[0] == pytest.approx(measured("atom847-8k8k"), rel=0.3)


def test_images_encoded_elsewhere():
    """vLLM's encoder disaggregation: 2 to 2.5 times the goodput with several images a request (blog, December 2025)."""
    serve = rl.Deployment("qwen2.5-vl-3b", "h100-sxm", engine="vllm")
    patches = 4 * (1280 // 14) * (960 // 14)
    technique = t.EncoderDisaggregation(patches=patches, link_bytes_per_s=50e9)
    effect = rl.apply(serve, rl.Workload(patches // 4 + 100, 20, 16), technique)
    assert effect.throughput_gain == pytest.approx(measured("epd"), rel=0.3)


def test_pools_of_one_kind_of_accelerator_stay_below_the_bound():
    """MegaScale-Infer gains up to 1.90 a GPU (arXiv:2504.02263): pools of two kinds, batches too small.

    A plugin for vLLM has pools of one kind, and its gains were measured.
    """
    wide = rl.Parallel(data=32, expert=32)
    serve = rl.Deployment("deepseek-v3", "h100-sxm", FP8_BLOCK, wide)
    effect = rl.apply(serve, rl.Workload(2000, 500, 32 * 64), t.AttentionFFNDisaggregation())
    found = t.MEASURED["attention-ffn-disaggregation"]
    assert found.low < effect.throughput_gain < found.high < 1.9


def test_weights_in_host_memory_are_no_faster_than_it():
    """DeepSeek-Coder-V2-Lite in Q6_K on a Ryzen 7 5800X with two sticks of DDR4-2133: 9.51 tokens/s (PR 12922).

    Two channels of 8 bytes at 2,133 MT/s are 34.1 GB/s, of which its threads reach some 60 %.
    """
    serve = rl.Deployment("deepseek-v2-lite", "rtx-3070", rl.Precision(weights="q6_k"), engine="llamacpp")
    host = t.WeightOffload(weights_host=1.0, experts_alone=False, weights_host_bytes_per_s=2 * 8 * 2.133e9)
    rate = 1 / rl.apply(serve, rl.Workload(4096, 4096, 1), host).after.tpot_s
    assert 9.51 < rate < 2 * 9.51


def test_adapters_that_nobody_asks_for():
    """Llama 2 7B on 8 A100: 3,000 tokens take 15 s, and 23 s with a module loaded (vLLM issue 10898, December 2024).

    The modules are divided over all ranks there, which adds messages that are not counted here: the sign is held.
    """
    engine = rl.Engine("vllm", version="0.6.4")
    serve = rl.Deployment("llama-2-7b", "a100-sxm-40gb", parallel=rl.Parallel(tensor=8), engine=engine)
    effect = rl.apply(serve, rl.Workload(30, 3000, 1), t.MultiLoRA(rank=16, adapters=1))
    assert effect.before.total_s == pytest.approx(15, rel=0.15)
    assert measured("v10898") < 1 / (effect.after.total_s / effect.before.total_s) < 0.95


def test_a_pipeline_for_throughput_and_tensor_parallelism_for_latency():
    """Llama 3.1 405B in FP8 on 8 H200 (NVIDIA, October 2024): 5.6 times as fast alone, 1.5 times as much at most.

    Its lengths are taken as those of the table of August 2024, 2,048 and 128, where TP8 has 463.1 tokens/s. All
    requests are of one length, so microbatches compute their prompts at the same time and do not hold each other up.
    """
    fp8 = rl.Precision(weights="fp8", activations="fp8", kv="fp8")
    tensor, pipeline = (
        rl.Deployment("llama-3.1-405b", "h200-sxm", fp8, rl.Parallel(**{way: 8}), engine="trtllm")
        for way in ("tensor", "pipeline")
    )

    def tokens_per_s(deployment, clients, requests):
        load = rl.Workload(2048, 128)
        return rl.simulate(deployment, load, concurrency=clients, requests=requests).tokens_per_s

    busy = tokens_per_s(tensor, 1024, 6000)
    assert busy == pytest.approx(463.1, rel=0.2)
    assert tokens_per_s(tensor, 1, 10) / tokens_per_s(pipeline, 1, 10) == pytest.approx(5.6, rel=0.05)
    assert tokens_per_s(pipeline, 1024, 6000) / busy == pytest.approx(1.5, rel=0.15)


def test_short_prompts_wait_for_the_launches_of_kernels_that_quantize():
    """Qwen3-8B on an H100 in SGLang: FP8 takes 39.7 ms to the first token of 233, bf16 27.7 ms (gpustack).

    By hand: 36 layers launch 11 kernels each (a norm of queries and one of keys, beside the 9 of Llama), and 4 more to
    quantize (SGLang issue 31504), 9 of them in the time that the engine states.
    """
    load, host_s = rl.Workload(233, 221), 36 * rl.Engine("sglang").eager_layer_s
    wide, narrow, fused = (
        rl.prefill(rl.Deployment("qwen3-8b", "h100-sxm", precision, engine=engine), load).estimate_s
        for precision, engine in (
            (rl.Precision(), rl.Engine("sglang")),
            (FP8_BLOCK, rl.Engine("sglang")),
            (FP8_BLOCK, rl.Engine("sglang", quantization_kernels=0)),
        )
    )
    assert narrow == pytest.approx(host_s * 15 / 9, rel=0.02)
    assert fused == pytest.approx(host_s * 11 / 9, rel=0.02)
    assert wide / narrow == pytest.approx(measured("gps-q8-fp8-ttft"), rel=0.15)


def test_the_sentence_says_what_a_technique_in_place_gains(h100):
    """Every engine pages; without, 99 of 100 lengths fit what is reserved: ``ln(100) = 4.6`` times the mean."""
    serve, load = rl.Deployment("llama-3.1-8b", h100), rl.Workload(2000, 256, 8)
    said = rl.apply(serve, load, "paged-attention", time="roofline_s").summary()
    assert said.endswith("throughput 1x. Compared with the longest context reserved for each sequence: batch 4.61x.")
    both = rl.apply(serve, load, ["gqa", "paged-attention"], time="roofline_s").summary()
    assert "Compared with multi-head attention and the longest context reserved for each sequence: decode" in both
    assert "Compared" not in rl.apply(serve, load, "quantization", time="roofline_s").summary()
