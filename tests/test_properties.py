"""What holds for any input, whatever the numbers are."""

import dataclasses
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl
from roofline.formats import FORMATS, get_format

MODELS = {name: rl.get_model(name) for name in ("llama-3.1-8b", "mixtral-8x7b", "gemma-2-9b", "gpt-2", "mistral-7b")}
GPU = rl.get_accelerator("h100-sxm")
WEIGHTS = sorted(FORMATS)
FED = sorted(name for name, item in FORMATS.items() if item.math)

models = st.sampled_from(sorted(MODELS)).map(MODELS.get)
precisions = st.builds(
    rl.Precision, weights=st.sampled_from(WEIGHTS), activations=st.sampled_from(FED), kv=st.sampled_from(FED)
)
deployments = st.builds(
    rl.Deployment,
    models,
    st.just(GPU),
    precision=precisions,
    attention=st.sampled_from(["fused", "unfused"]),
)
tokens = st.integers(1, 20_000)
batches = st.integers(1, 4096)
loads = st.builds(
    rl.Workload, prompt_tokens=tokens, output_tokens=tokens, batch=batches, cached_tokens=st.integers(0, 20_000)
)


def phases(serve, load):
    return rl.prefill(serve, load), rl.decode(serve, load)


@given(deployments, loads)
def test_floor_is_at_most_roofline_is_at_most_estimate(serve, load):
    for phase in phases(serve, load):
        assert 0 < phase.floor_s <= phase.roofline_s * (1 + 1e-12)
        assert phase.roofline_s <= phase.estimate_s
        assert phase.floor_s <= phase.estimate_low_s <= phase.estimate_s <= phase.estimate_high_s


@given(deployments, loads)
def test_roofline_lies_between_the_larger_sum_and_both(serve, load):
    for phase in phases(serve, load):
        compute = sum(item.compute_s for item in phase.operators)
        memory = sum(item.memory_s for item in phase.operators)
        assert max(compute, memory) * (1 - 1e-12) <= phase.roofline_s <= (compute + memory) * (1 + 1e-12)


@given(deployments, loads)
def test_nothing_is_negative_or_nan(serve, load):
    for phase in phases(serve, load):
        for name in phase.columns:
            value = getattr(phase, name)
            assert isinstance(value, str) or (np.isfinite(value) and value >= 0), name
    found = rl.generate(serve, load, time="roofline_s")
    assert found.total_s >= found.ttft_s > 0
    assert 0 < found.prefill_share <= 1


@given(deployments, loads, st.floats(1.0, 100.0))
def test_more_bandwidth_is_never_slower(serve, load, factor):
    faster = serve.replace(accelerator=GPU.replace(memory_bytes_per_s=GPU.memory_bytes_per_s * factor))
    for slow, fast in zip(phases(serve, load), phases(faster, load), strict=True):
        assert fast.floor_s <= slow.floor_s
        assert fast.roofline_s <= slow.roofline_s * (1 + 1e-12)


@given(deployments, loads, st.floats(1.0, 100.0))
def test_more_flops_a_second_are_never_slower(serve, load, factor):
    peaks = {name: peak * factor for name, peak in GPU.dense_flops_per_s.items()}
    faster = serve.replace(accelerator=GPU.replace(dense_flops_per_s=peaks))
    for slow, fast in zip(phases(serve, load), phases(faster, load), strict=True):
        assert fast.floor_s <= slow.floor_s
        assert fast.roofline_s <= slow.roofline_s * (1 + 1e-12)


@given(deployments, loads, st.floats(0.1, 10.0))
def test_all_rates_times_k_is_all_times_over_k(serve, load, factor):
    peaks = {name: peak * factor for name, peak in GPU.dense_flops_per_s.items()}
    exponentials = GPU.exponentials_per_clock_per_unit * factor
    scaled = GPU.replace(
        dense_flops_per_s=peaks,
        memory_bytes_per_s=GPU.memory_bytes_per_s * factor,
        exponentials_per_clock_per_unit=exponentials,
    )
    for one, other in zip(phases(serve, load), phases(serve.replace(accelerator=scaled), load), strict=True):
        assert other.floor_s * factor == pytest.approx(one.floor_s)
        assert other.roofline_s * factor == pytest.approx(one.roofline_s)


@given(models, loads, st.sampled_from(WEIGHTS), st.sampled_from(WEIGHTS))
def test_fewer_bits_are_never_more_bytes(model, load, one, other):
    fewer, more = sorted((get_format(one), get_format(other)), key=lambda item: item.bits)
    if fewer.whole_model != more.whole_model:
        return
    serve = rl.Deployment(model, GPU)
    narrow, wide = (rl.quantize(serve, weights=item.name) for item in (fewer, more))
    for phase, reference in zip(phases(narrow, load), phases(wide, load), strict=True):
        assert phase.weight_bytes <= reference.weight_bytes * (1 + 1e-12)
    assert rl.memory(narrow, load).weights_bytes <= rl.memory(wide, load).weights_bytes * (1 + 1e-12)


@given(deployments, st.lists(st.tuples(tokens, batches, st.integers(0, 5000)), min_size=1, max_size=6))
def test_scalar_equals_vector_element_by_element(serve, points):
    prompt, batch, cached = (np.array(column) for column in zip(*points, strict=True))
    many = rl.Workload(prompt_tokens=prompt, batch=batch, cached_tokens=cached, output_tokens=10)
    vectors = (*phases(serve, many), rl.memory(serve, many))
    for at, (p, b, c) in enumerate(points):
        one = rl.Workload(prompt_tokens=p, batch=b, cached_tokens=c, output_tokens=10)
        for vector, scalar in zip(vectors, (*phases(serve, one), rl.memory(serve, one)), strict=True):
            for name in scalar.columns:
                found = np.broadcast_to(getattr(vector, name), (len(points),))[at]
                expected = getattr(scalar, name)
                assert found == expected if isinstance(expected, str) else found == pytest.approx(expected, rel=1e-12)


def flops_in_layers(phase):
    return sum(item.flops for item in phase.operators if item.name != "lm_head")


@given(models, st.integers(1, 300))
def test_prefill_is_the_sum_over_its_tokens(model, prompt):
    serve = rl.Deployment(model, GPU)
    whole = rl.prefill(serve, rl.Workload(prompt_tokens=prompt))
    by_token = rl.decode(serve, rl.Workload(), context_tokens=np.arange(prompt))
    assert flops_in_layers(whole) == pytest.approx(np.sum(flops_in_layers(by_token) * np.ones(prompt)), rel=1e-12)


@given(models, tokens, tokens)
def test_chunks_are_the_whole(model, first, second):
    serve = rl.Deployment(model, GPU)
    whole = rl.prefill(serve, rl.Workload(prompt_tokens=first + second))
    chunks = [
        rl.prefill(serve, rl.Workload(prompt_tokens=first)),
        rl.prefill(serve, rl.Workload(prompt_tokens=second, cached_tokens=first)),
    ]
    assert sum(map(flops_in_layers, chunks)) == pytest.approx(flops_in_layers(whole), rel=1e-12)


@given(deployments, loads)
def test_a_batch_costs_at_most_its_sequences_one_by_one(serve, load):
    single = dataclasses.replace(load, batch=1)
    for many, one in zip(phases(serve, load), phases(serve, single), strict=True):
        assert many.roofline_s <= load.batch * one.roofline_s * (1 + 1e-9)
        assert many.floor_s <= load.batch * one.floor_s * (1 + 1e-9)


@given(models, precisions, loads)
def test_fused_is_at_most_unfused(model, precision, load):
    fused, unfused = (rl.Deployment(model, GPU, precision=precision, attention=name) for name in ("fused", "unfused"))
    for lean, fat in zip(phases(fused, load), phases(unfused, load), strict=True):
        assert lean.moved_bytes <= fat.moved_bytes
        assert lean.roofline_s <= fat.roofline_s
        assert lean.flops == fat.flops


@given(deployments, loads)
def test_a_mixed_step_costs_less_than_its_parts(serve, load):
    prompt = rl.Workload(load.prompt_tokens, batch=1, cached_tokens=load.cached_tokens)
    mixed = rl.mixed(serve, decode=load, prefill=prompt)
    apart = rl.prefill(serve, prompt), rl.decode(serve, load)
    assert mixed.flops == pytest.approx(sum(phase.flops for phase in apart), rel=1e-9)
    assert mixed.weight_bytes <= sum(phase.weight_bytes for phase in apart) * (1 + 1e-9)
    assert mixed.roofline_s <= sum(phase.roofline_s for phase in apart) * (1 + 1e-9)


@given(deployments, loads)
def test_quantizing_to_what_is_there_changes_nothing(serve, load):
    same = rl.quantize(serve, weights=serve.precision.weights, kv=serve.precision.kv)
    for one, other in zip(phases(serve, load), phases(same, load), strict=True):
        assert set(rl.compare(one, other).ratio.values()) == {1.0}
        assert rl.compare(one, other).limit_changes is False


@settings(max_examples=30)
@given(deployments, st.integers(1, 2000), st.integers(1, 200))
def test_generation_is_the_sum_of_its_steps(serve, prompt, output):
    found = rl.generate(serve, rl.Workload(prompt_tokens=prompt, output_tokens=output), time="roofline_s")
    steps = (
        rl.decode(serve, rl.Workload(), context_tokens=prompt + np.arange(output - 1)).roofline_s if output > 1 else 0
    )
    total = rl.prefill(serve, rl.Workload(prompt_tokens=prompt)).roofline_s + np.sum(steps)
    assert found.total_s == pytest.approx(total, rel=1e-12)


@settings(max_examples=20)
@given(deployments, st.integers(300, 20_000))
def test_long_generations_are_gathered_in_blocks_without_harm(serve, output):
    found = rl.generate(serve, rl.Workload(prompt_tokens=100, output_tokens=output), time="roofline_s")
    steps = rl.decode(serve, rl.Workload(), context_tokens=100 + np.arange(output - 1)).roofline_s
    total = rl.prefill(serve, rl.Workload(prompt_tokens=100)).roofline_s + np.sum(steps)
    assert found.total_s == pytest.approx(total, rel=1e-4)


@settings(max_examples=10, deadline=None)
@given(deployments)
def test_a_large_sweep_equals_its_points(serve):
    rng = np.random.default_rng(0)
    batch, context = rng.integers(1, 512, (500, 1)), rng.integers(0, 9000, (1, 300))
    step = rl.decode(serve, rl.Workload(batch=batch), context_tokens=context)
    at = (417, 233)
    one = rl.decode(serve, rl.Workload(batch=int(batch[417, 0])), context_tokens=int(context[0, 233]))
    for name in ("flops", "moved_bytes", "floor_s", "roofline_s", "estimate_s", "tokens_per_s"):
        assert getattr(step, name).shape == (500, 300)
        assert getattr(step, name)[at] == pytest.approx(getattr(one, name), rel=1e-12)
    assert step.limit[at] == one.limit


@given(deployments, loads)
def test_explain_evaluates_to_what_it_explains(serve, load):
    results = (*phases(serve, load), rl.memory(serve, load), rl.crossovers(serve, load))
    for step in (step for result in results for step in result.explain()):
        scope = {"max": max, "min": min, "inf": float("inf"), **step.inputs}
        value = eval(step.formula, {"__builtins__": {}}, scope)
        assert value == pytest.approx(step.value, rel=1e-12), str(step)
        assert step.source


OF_EVERY_KIND = ["deepseek-v3", "deepseek-v3.2", "deepseek-v4-flash", "gpt-oss-20b", "qwen3-next-80b-a3b", "jamba-v0.1"]
OF_EVERY_KIND += ["gemma-4-e2b", "falcon-mamba-7b", "lfm2.5-vl-1.6b", "llama-4-scout", "nemotron-3-nano-30b-a3b"]


@pytest.mark.parametrize("name", OF_EVERY_KIND)
@pytest.mark.parametrize("degrees", [{}, {"tensor": 8}, {"tensor": 2, "expert": 8, "data": 4}, {"pipeline": 4}])
def test_explain_and_order_of_times_hold_for_every_kind_and_layout(name, degrees):
    serve = rl.Deployment(rl.get_model(name), GPU, parallel=rl.Parallel(**degrees))
    load = rl.Workload(prompt_tokens=700, cached_tokens=300, batch=12, output_tokens=20)
    for result in (*phases(serve, load), rl.memory(serve, load)):
        for step in result.explain():
            scope = {"max": max, "min": min, "inf": float("inf"), **step.inputs}
            value = eval(step.formula, {"__builtins__": {}}, scope)
            assert value == pytest.approx(step.value, rel=1e-12), str(step)
    for phase in phases(serve, load):
        assert 0 < phase.floor_s <= phase.roofline_s * (1 + 1e-12)
        assert phase.roofline_s <= phase.estimate_s * (1 + 1e-12)


def test_a_large_sweep_keeps_totals_only():
    """A block's operators go when it is done: 8 bytes for each of some 20 totals a point, and a few blocks at once."""
    serve = rl.Deployment("smollm2-135m", "h100-sxm")
    batches = np.arange(1, 200_001)
    tracemalloc.start()
    try:
        found = rl.decode(serve, rl.Workload(batch=batches), context_tokens=1000)
        times_s = found.floor_s, found.roofline_s, found.estimate_s
        assert found.assumptions
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert all(np.shape(time_s) == batches.shape for time_s in times_s)
    assert peak_bytes < 1500 * len(batches)


def test_a_large_sweep_is_each_of_its_points():
    serve = rl.Deployment("gpt-oss-20b", "l40s")
    batches = np.arange(1, 40_001)
    found = rl.decode(serve, rl.Workload(batch=batches), context_tokens=1000)
    for at in (0, 16_383, 16_384, 39_999):
        alone = rl.decode(serve, rl.Workload(batch=int(batches[at])), context_tokens=1000)
        for name in ("floor_s", "roofline_s", "estimate_s", "flops"):
            assert getattr(found, name)[at] == pytest.approx(getattr(alone, name), rel=1e-12)
        assert set(alone.assumptions) <= set(found.assumptions)
