"""Deployments and workloads that few would write by hand: arrays everywhere, huge counts, prefixes behind windows."""

import json

import numpy as np
import pytest

import roofline as rl
from roofline.model.tower import Tower
from roofline.operators.operator import Segment

GPU = rl.get_accelerator("h100-sxm")
SMALL = "llama-3.2-1b"
THREE = rl.Workload(batch=[1, 2, 3])


def arrays_of_two():
    """A deployment for each figure that may be an array, with two values of it, and the two deployments."""
    for name, values in {
        "memory_bytes_per_s": (1e12, 2e12),
        "memory_bytes": (40e9, 80e9),
        "tdp_watts": (300.0, 700.0),
        "l2_bytes": (20e6, 50e6),
    }.items():
        ones = [rl.Deployment(SMALL, GPU.replace(**{name: value})) for value in values]
        yield pytest.param(rl.Deployment(SMALL, GPU.replace(**{name: list(values)})), ones, id=name)
    for degree, values in {
        "tensor": (1, 2),
        "pipeline": (1, 2),
        "decode_context": (1, 2),
        "overlap": (0.0, 1.0),
    }.items():
        tensor = {} if degree == "tensor" else {"tensor": 16}
        ones = [rl.Deployment(SMALL, GPU, parallel=rl.Parallel(**tensor, **{degree: value})) for value in values]
        many = rl.Deployment(SMALL, GPU, parallel=rl.Parallel(**tensor, **{degree: list(values)}))
        yield pytest.param(many, ones, id=degree)
    ones = [rl.Deployment(SMALL, GPU, power_limit_watts=value) for value in (250, 350)]
    yield pytest.param(rl.Deployment(SMALL, GPU, power_limit_watts=[250, 350]), ones, id="power_limit_watts")


PASSES = {
    "prefill": rl.prefill,
    "decode": rl.decode,
    "memory": rl.memory,
    "generate": rl.generate,
    "mixed": lambda serve, load: rl.mixed(serve, decode=load, prefill=load),
}


@pytest.mark.parametrize(("many", "ones"), list(arrays_of_two()))
@pytest.mark.parametrize("name", PASSES)
def test_arrays_of_a_deployment_that_do_not_broadcast_are_one_line(name, many, ones):
    with pytest.raises(
        rl.InvalidInput, match=r"batch and tokens \(.*3.*\) and arrays of the deployment must broadcast"
    ):
        PASSES[name](many, THREE)


@pytest.mark.parametrize(("many", "ones"), list(arrays_of_two()))
@pytest.mark.parametrize("name", PASSES)
def test_an_array_of_a_deployment_is_each_of_its_values(name, many, ones):
    load = rl.Workload(prompt_tokens=700, output_tokens=300, batch=8)
    found, expected = PASSES[name](many, load), [PASSES[name](one, load) for one in ones]
    json.dumps(found.to_dict(), allow_nan=False)
    for column in expected[0].columns:
        values = [getattr(one, column) for one in expected]
        if not isinstance(values[0], str):
            assert np.broadcast_to(getattr(found, column), (2,)) == pytest.approx(values, rel=1e-9), column


def test_arrays_of_a_deployment_have_to_broadcast_among_themselves():
    with pytest.raises(rl.InvalidInput, match=r"arrays of the deployment must broadcast: .*\(3,\), tensor \(2,\)"):
        rl.Deployment(SMALL, GPU.replace(memory_bytes_per_s=[1e12, 2e12, 3e12]), parallel=rl.Parallel(tensor=[1, 2]))


@pytest.mark.parametrize(("many", "ones"), list(arrays_of_two()))
def test_requests_under_load_take_one_deployment(many, ones):
    with pytest.raises(rl.InvalidInput, match=r"one deployment at a time: .* is an array"):
        rl.serve(many, rl.Workload(), concurrency=2)


# Counts that leave 64 bits


@pytest.mark.parametrize("engine", [None, "vllm", "ollama"])
@pytest.mark.parametrize("counts", [{"batch": 10**24}, {"prompt_tokens": 10**24}, {"output_tokens": 10**24}])
def test_whole_numbers_beyond_64_bits_are_counted(engine, counts):
    serve, load = rl.Deployment("qwen2-vl-2b", GPU, engine=engine), rl.Workload(**counts)
    for found in (rl.prefill(serve, load), rl.decode(serve, load), rl.memory(serve, load), rl.generate(serve, load)):
        json.dumps(found.to_dict(), allow_nan=False)
        assert repr(found)
        assert isinstance(found.summary(), str)


def test_products_of_whole_numbers_do_not_wrap_around():
    """Layers with windows of 512: ``S`` tokens see 512 each but the first, far beyond what 64 bits hold."""
    prompt = 84_682_194_474_768_112
    one = rl.prefill(rl.Deployment("step-3.5-flash", GPU), rl.Workload(prompt))
    other = rl.prefill(rl.Deployment("step-3.5-flash", GPU), rl.Workload(float(prompt)))
    assert one.flops == other.flops > 2 * 1e9 * prompt


def test_a_model_of_more_parameters_than_64_bits_is_printed(tmp_path):
    config = {"model_type": "llama", "hidden_size": 10**9, "intermediate_size": 10**9, "num_hidden_layers": 100}
    config |= {"num_attention_heads": 1000, "num_key_value_heads": 1000, "vocab_size": 1000}
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = rl.get_model(tmp_path)
    assert model.parameters.total > 2**63
    assert "parameters" in repr(model)


# Prefixes that sequences share


def test_a_window_behind_the_prefix_spares_nothing():
    """Of 5,000 cached tokens the first 4,000 are shared; a window of 1,023 holds 23 of them, one of 1,000 none."""
    step = Segment(4, 1.0, 5000, shared_tokens=4000)
    assert step.least_read(1000) == 4 * 1000
    assert step.least_read(1023) == 4 * 1000 + 23
    assert step.least_read(5000) == 4 * 1000 + 4000


def test_selected_entries_are_read_at_least_once():
    """DeepSeek-V3.2 reads 2,048 selected entries of 576 values: all of a prefix of 10,000, so once for any batch."""
    serve = rl.Deployment("deepseek-v3.2", "b200-sxm")
    for batch in (1, 2, 64):
        step = rl.decode(serve, rl.Workload(1, batch=batch, cached_tokens=10_000))
        for item in step.operators:
            if item.operator.name == "attention":
                assert item.operator.least.cache_bytes == pytest.approx(2 * 576 * (2048 + batch))


@pytest.mark.parametrize("name", ["gemma-3-12b", "deepseek-v3.2", "deepseek-v4-flash", "gpt-oss-20b", "llama-3.1-8b"])
@pytest.mark.parametrize("degrees", [{}, {"context": 4}, {"tensor": 2, "data": 2}])
def test_more_sequences_on_a_prefix_are_never_faster(name, degrees):
    serve = rl.Deployment(name, "b200-sxm", parallel=rl.Parallel(**degrees))
    batch, cached = np.arange(1, 40)[:, None], np.array([1, 100, 3000, 20_000])
    load = rl.Workload(1, batch=batch, cached_tokens=cached)
    for found in (rl.prefill(serve, load), rl.decode(serve, load)):
        assert np.all(np.diff(found.floor_s, axis=0) >= 0)
        assert np.all(np.diff(found.roofline_s, axis=0) >= 0)


# What an engine holds, images in some prompts, and derivations under a power limit


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llamacpp", "trtllm", None])
@pytest.mark.parametrize("name", ["qwen3.5-4b", "lfm2-2.6b", "falcon-h1-0.5b", "kimi-linear-48b-a3b"])
def test_no_part_of_memory_is_negative(engine, name):
    """Engines keep recurrent state in fewer bits, or one column of a convolution less, than the architecture has."""
    need = rl.memory(rl.Deployment(name, "h200-sxm", engine=engine), rl.Workload(100, 673, batch=5))
    parts = need.parts
    assert min(parts.values()) >= 0
    held = parts["KV cache"] + parts["state"] + parts["pages"]
    assert held == pytest.approx(need.paged_kv_bytes)
    assert parts["KV cache"] == pytest.approx(need.kv_bytes - need.state_bytes)


def test_prompts_without_images_cost_nothing_in_an_array_with_them():
    serve = rl.Deployment("qwen2.5-vl-7b", GPU, parallel=rl.Parallel(tensor=2))
    both = rl.prefill(serve, rl.Workload(4000, images=[0, 1]))
    without = rl.prefill(serve, rl.Workload(4000))
    assert both.estimate_s[0] == pytest.approx(without.estimate_s, rel=1e-12)


@pytest.mark.parametrize("watts", [30, 150, 400, 2000])
@pytest.mark.parametrize("name", ["prefill", "decode"])
def test_derivations_hold_under_a_power_limit(watts, name):
    found = PASSES[name](rl.Deployment("llama-3.1-8b", GPU, power_limit_watts=watts), rl.Workload(3000, batch=16))
    for step in found.explain():
        value = eval(step.formula, {"__builtins__": {}}, {"max": max, "min": min, **step.inputs})
        assert value == pytest.approx(step.value, rel=1e-12), str(step)


def test_tpot_is_derived_beside_a_prefill_that_swallows_it():
    """(total - TTFT) / (output - 1) in floats is 0 where the prefill takes 1e16 times as long as the steps."""
    found = rl.generate(rl.Deployment(SMALL, GPU), rl.Workload(10**13, 228))
    step = next(step for step in found.explain() if step.name == "tpot_s")
    value = eval(step.formula, {"__builtins__": {}}, {"min": min, **step.inputs})
    assert value == step.value == pytest.approx(found.tpot_s)
    assert found.tpot_s > 0


def test_advice_beside_a_prompt_beyond_all_measure():
    advice = rl.advise(rl.Deployment("falcon-h1-7b", "mi300x", engine="sglang"), rl.Workload(10**26, 128, batch=52))
    json.dumps(advice.to_dict(), allow_nan=False)


def test_attention_over_nothing_takes_no_time_where_scores_go_through_memory():
    """Kernels without FlashAttention move their scores; prompts without images have none in the encoder."""
    serve = rl.Deployment("qwen3.5-0.8b", "a100-sxm-80gb", engine="llamacpp-2024")
    both = rl.prefill(serve, rl.Workload(16_383, images=[0, 5]))
    assert np.all(np.isfinite(both.estimate_s))
    assert both.estimate_s[0] == pytest.approx(rl.prefill(serve, rl.Workload(16_383)).estimate_s, rel=1e-12)


# More work is never faster


CACHED = rl.Workload(np.arange(16, 2000, 16), batch=1, cached_tokens=20_000)


@pytest.mark.parametrize("name", ["l4", "h200-sxm", "mi300x"])
def test_ways_of_latent_attention_are_chosen_by_the_time_asked_for(name):
    """The FLOPs of absorbed attention are fewer below some 100 new tokens; what kernels reach moves that point.

    A tile of 128 queries beside a full one is computed as a full one.
    """
    found = rl.prefill(rl.Deployment("deepseek-v2-lite", name), CACHED)
    for time, falls in (("floor_s", 0), ("roofline_s", 0), ("estimate_s", 0.005)):
        values = getattr(found, time)
        assert np.all(np.diff(values) >= -falls * values[:-1]), time
    assert np.all(found.floor_s <= found.roofline_s)
    assert np.all(found.roofline_s <= found.estimate_s)


def test_an_estimate_that_takes_another_way_than_the_roofline_is_derived():
    serve = rl.Deployment("deepseek-v2-lite", "l4")
    turned = 0
    for tokens in (64, 96, 128, 160, 192, 224, 256):
        found = rl.prefill(serve, rl.Workload(tokens, batch=8, cached_tokens=2000))
        turned += found.scheduled.expected is not found.scheduled
        for step in found.explain():
            value = eval(step.formula, {"__builtins__": {}}, {"max": max, "min": min, **step.inputs})
            assert value == pytest.approx(step.value, rel=1e-12), str(step)
    assert turned


@pytest.mark.parametrize("name", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v2-lite"])
@pytest.mark.parametrize("stages", [2, 3, 8])
def test_more_sequences_of_a_pipeline_are_never_faster(name, stages):
    """A microbatch reads the prefix once for its own sequences; those of another come later and read it again."""
    serve = rl.Deployment(name, GPU, parallel=rl.Parallel(pipeline=stages))
    load = rl.Workload(5, batch=np.arange(1, 60)[:, None], cached_tokens=np.array([0, 100, 6500]))
    for found in (rl.prefill(serve, load), rl.decode(serve, load)):
        for time in ("floor_s", "roofline_s"):
            values = getattr(found, time)
            assert np.all(np.diff(values, axis=0) >= -1e-12 * values[1:]), (found.name, time)


def test_a_microbatch_reads_a_shared_prefix_once():
    """Two sequences on two stages are two microbatches of one, each of which reads all 8,000 tokens of the prefix."""
    layout = rl.Parallel(pipeline=2)
    one, two, four = (
        rl.decode(rl.Deployment(SMALL, GPU, parallel=layout), rl.Workload(1, batch=batch, cached_tokens=8000))
        for batch in (1, 2, 4)
    )
    assert one.floor_s == two.floor_s
    cache = rl.get_model(SMALL).cache_bytes(2) - rl.get_model(SMALL).cache_bytes(1)
    assert four.sums.least_bytes - two.sums.least_bytes == pytest.approx(2 * cache)


@pytest.mark.parametrize("batch", [1, 4, 7, 40])
def test_longer_prompts_of_a_pipeline_are_never_faster(batch):
    """Beyond the engine's 8,192 tokens a pass, prompts are cut into passes; the last one is as long as what is left."""
    serve = rl.Deployment("llama-3.1-8b", GPU, parallel=rl.Parallel(pipeline=4))
    found = rl.prefill(serve, rl.Workload(np.arange(100, 40_000, 37), batch=batch))
    for time in ("floor_s", "roofline_s"):
        values = getattr(found, time)
        assert np.all(np.diff(values) >= -1e-12 * values[1:]), time


def test_a_pipeline_prefills_in_passes_of_the_budget():
    """GPipe: 20 sequences of 4,096 tokens are 10 passes of 8,192, which take (10 + 4 - 1) / 4 passes through it all."""
    serve = rl.Deployment("llama-3.1-8b", GPU, parallel=rl.Parallel(pipeline=4))
    plan = rl.prefill(serve, rl.Workload(4096, batch=20)).schedule
    assert (plan.microbatches, plan.rounds) == (10, 13 / 4)
    assert plan.segments[0].sequences == 2
    half = rl.prefill(serve, rl.Workload(4096, batch=21)).schedule
    assert (half.microbatches, half.rounds) == (10.5, 13.5 / 4)


def test_derivations_of_times_beyond_all_measure():
    """Times of 1e100 s, whose powers leave what a float can hold."""
    found = rl.prefill(rl.Deployment("mpt-7b", "l4"), rl.Workload(1e30, batch=1e30))
    for step in found.explain():
        value = eval(step.formula, {"__builtins__": {}}, {"max": max, "min": min, **step.inputs})
        assert value == pytest.approx(step.value, rel=1e-9), str(step)


# An array is each of its values, the interval included


@pytest.mark.parametrize("name", ["whisper-large-v3-turbo", "flan-t5-xl", "deepseek-v2-lite"])
def test_kernels_that_rest_on_one_basis_at_some_points_only_go_together_there(name):
    """A prompt of one token runs the kernel for decoding: it rests on other timings than the others of an array."""
    serve = rl.Deployment(name, GPU)
    prompts, batches = (1, 129, 400), (27, 4, 64)
    found = rl.prefill(serve, rl.Workload(prompts, batch=batches))
    for at, (prompt, batch) in enumerate(zip(prompts, batches, strict=True)):
        one = rl.prefill(serve, rl.Workload(prompt, batch=batch))
        for column in ("estimate_s", "estimate_low_s", "estimate_high_s"):
            assert getattr(found, column)[at] == pytest.approx(getattr(one, column), rel=1e-12), column


def test_an_encoder_has_no_kernel_for_decoding():
    """A text of one token is a prompt like any other: 1,024 of them take no longer than texts of four tokens."""
    serve = rl.Deployment("modernbert-large", GPU)
    found = rl.encode(serve, rl.Workload(np.array([1, 2, 4, 16]), 1, batch=1024))
    assert np.all(np.diff(found.estimate_s) >= 0)


def test_counts_beyond_64_bits_are_told_shortly():
    pytest.importorskip("pandas")
    found = rl.prefill(rl.Deployment("gpt-2", GPU), rl.Workload(10, batch=np.array([1e24, 2e24])))
    assert "batch 1e+24 … 2e+24" in found.heading
    assert list(found.to_frame()["batch"]) == [1e24, 2e24]


def test_an_encoder_of_more_heads_than_width_is_refused_when_it_is_read():
    with pytest.raises(rl.InvalidInput, match="heads must be at most hidden, 768: 1000"):
        Tower(hidden=768, intermediate=3072, layers=2, heads=1000, positions=256)


def test_rounding_does_not_decide_which_kernel_a_graph_hides():
    """The cap by kernels of a wider format is the median engine's own time where that engine sets the ratio."""
    serve = rl.Deployment("gemma-3-1b", "b200-sxm", rl.Precision(weights="fp8", activations="fp8"))
    batches = np.arange(39, 46)
    found = rl.decode(serve, rl.Workload(500, 64, batch=batches)).estimate_s
    assert np.all(np.diff(found) > 0)
    for batch, estimate_s in zip(batches, found, strict=True):
        one = rl.decode(serve, rl.Workload(500, 64, batch=int(batch)))
        assert one.estimate_s == pytest.approx(estimate_s, rel=1e-9)


@pytest.mark.parametrize(
    ("model", "layout"),
    [
        ("whisper-large-v3", {"pipeline": 4}),
        ("whisper-large-v3-turbo", {"tensor": 2, "data": 8, "pipeline": 4}),
        ("flan-t5-xl", {"pipeline": 3}),
    ],
)
@pytest.mark.parametrize("batch", [1, 40, 260])
def test_an_encoder_on_a_pipeline_keeps_sequences_whole(model, layout, batch):
    """Longer texts to continue do not cut the sound: bidirectional attention needs all of it in one pass."""
    serve = rl.Deployment(model, "h100-sxm", parallel=rl.Parallel(**layout), engine="sglang")
    found = rl.prefill(serve, rl.Workload(np.array([2, 10, 100, 200, 440]), 1, batch=batch))
    for time in ("floor_s", "roofline_s", "estimate_s"):
        values = np.broadcast_to(getattr(found, time), (5,))
        assert np.all(np.diff(values) >= -1e-12 * values[1:]), time
    assert np.all(found.schedule.microbatches <= np.ceil(batch / layout.get("data", 1)))


@pytest.mark.parametrize("skew", [0.0, 0.6, 1.2, 50.0])
@pytest.mark.parametrize(("name", "engine"), [("h100-sxm", "trtllm"), ("h100-sxm", None), ("arc-b580", "vllm")])
def test_few_tokens_on_many_accelerators_read_whole_experts(name, engine, skew):
    """One token of one expert on five accelerators: the busiest reads all of that expert, however tokens are routed."""
    serve = rl.Deployment("hunyuan-large", name, parallel=rl.Parallel(tensor=5, expert=5), engine=engine)
    load = rl.Workload(43, 1, batch=np.arange(1, 40))
    even = rl.decode(serve.replace(routing_skew=0.0), load).estimate_s
    found = rl.decode(serve.replace(routing_skew=skew), load).estimate_s
    assert np.all(np.diff(found) >= -0.01 * found[1:])
    assert found[0] == pytest.approx(even[0], rel=0.01)
    assert np.all(found <= 5 * even)


def test_prompts_that_come_once_in_a_very_long_time_come_alone():
    """At a rate of 1e-24 a step, 1 - (1 - rate) ** batch is batch x rate; at a rate of 1 all come together."""
    from roofline.serving.closed_forms import packing

    assert packing(44, 1e24, 8).per_pass == pytest.approx(1.0)
    assert packing(44, 1e9, 8).per_pass == pytest.approx(1.0, rel=1e-6)
    assert packing(44, 1, 8).per_pass == pytest.approx(44.0)
    advice = rl.advise(rl.Deployment("llama-3.1-8b", GPU), rl.Workload(34_522, 1.0e24, batch=44))
    json.dumps(advice.to_dict(), allow_nan=False)


@pytest.mark.parametrize("cached", [1000, 1_056_200])
def test_images_behind_a_shared_prefix_are_read_by_each_sequence(cached):
    """Llama 3.2 Vision looks at 6,404 positions of four images, of which no prefix of text spares any."""
    serve = rl.Deployment("llama-3.2-11b-vision", GPU)
    found = rl.decode(serve, rl.Workload(100_000, 29, batch=np.array([1, 2, 8]), cached_tokens=cached, images=4))
    look = next(item for item in found.operators if item.operator.name == "cross_attention")
    each = look.operator.least.cache_bytes / np.array([1, 2, 8])
    assert np.all(each > 0)
    assert each == pytest.approx(each[0])
    assert np.all(np.diff(found.floor_s) > 0)


def test_requests_of_a_model_whose_cache_never_grows():
    for engine in ("ollama", "llamacpp", "vllm", None):
        serve = rl.Deployment("codestral-mamba-7b", "apple-m3-max-40c", engine=engine)
        found = rl.serve(serve, rl.Workload(65, 33), concurrency=2)
        json.dumps(found.to_dict(), allow_nan=False)
        assert found.tpot_s > 0
