"""What holds for techniques whatever the numbers are."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl
from roofline import techniques as t
from roofline.serving.scenario import Scenario
from roofline.serving.steady_state import steady_state

H100 = rl.get_accelerator("h100-sxm")
NAMES = ("llama-3.1-8b", "mixtral-8x7b", "gemma-2-9b", "gpt-2")
SERVES = [rl.Deployment(rl.get_model(name), H100) for name in NAMES]

TECHNIQUES = t.usual_techniques()

serves = st.sampled_from(SERVES)
lengths = st.integers(1, 4000)
loads = st.builds(
    rl.Workload,
    prompt_tokens=lengths,
    output_tokens=st.integers(2, 300),
    batch=st.integers(1, 64),
    cached_tokens=st.integers(0, 1000),
)
shares = st.floats(0, 1)
few = settings(max_examples=40, deadline=None)

NEUTRAL = (
    t.Speculation(drafts=0),
    t.MultiTokenPrediction(drafts=0),
    t.PrefixCaching(hit_rate=0.0),
    t.PromptCompression(times=1),
    t.HostOffload(host=0.0),
    t.Quantization(weights="bf16", activations="bf16"),
    t.KVQuantization(kv="bf16"),
    t.SlidingWindow(tokens=10**6),
    t.ActivationSparsity(skipped=0.0),
    t.SparseAttentionMask(skipped=0.0),
    t.ScoreEviction(kept_tokens=10**7),
    t.KVTiers(hit_rate=0.0),
    t.WeightOffload(weights_host=0.0, experts_alone=False),
)
INDEPENDENT = (
    t.Quantization(weights="fp8", activations="fp8"),
    t.KVQuantization(kv="int8", dequantization=0.1),
    t.PrefixCaching(hit_rate=0.3),
    t.PromptCompression(times=3),
    t.Speculation(acceptance=0.6, drafts=3),
    t.HostOffload(host=0.2),
    t.SlidingWindow(tokens=500),
    t.FlashAttention(),
    t.KernelFusion(),
    t.PagedAttention(reserved_tokens=10_000),
    t.ContinuousBatching(),
    t.StructuredSparsity(),
    t.ActivationSparsity(skipped=0.3),
    t.SparseAttentionMask(skipped=0.4),
    t.TensorParallelism(tensor=2),
    t.ChunkedPrefill(chunk_tokens=256),
    t.CudaGraphs(),
    t.AsyncScheduling(),
)
FIGURES = ("prompt_s", "step_s", "ttft_s", "tpot_s", "total_s", "tokens_per_s", "gap_s", "weights_bytes", "max_batch")


def figures(found):
    return np.array([float(getattr(found, name)) for name in (*FIGURES, "kv_bytes_per_sequence")])


def possible(technique, serve, load):
    return not technique.refusal(Scenario(serve, load))


@few
@given(serves, loads, st.sampled_from(["floor_s", "roofline_s", "estimate_s"]))
def test_a_lone_request_is_a_generation(serve, load, time):
    """Steps at their mean context are their mean but where a window fills up."""
    lone = replace(load, batch=1)
    ours, theirs = steady_state(Scenario(serve, lone), time=time), rl.generate(serve, lone, time=time)
    for name in ("ttft_s", "tpot_s", "total_s", "tokens_per_s"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=3e-3), name


@few
@given(serves, loads, st.sampled_from([{}, {"tensor": 2}, {"data": 2}, {"pipeline": 2}]))
def test_a_plain_scenario_takes_the_memory_that_it_takes(serve, load, degrees):
    spread = serve.replace(parallel=rl.Parallel(**degrees))
    ours, theirs = steady_state(Scenario(spread, load)), rl.memory(spread, load)
    assert ours.weights_bytes == theirs.weights_bytes
    assert ours.kv_bytes_per_sequence == theirs.paged_kv_bytes_per_sequence
    assert ours.max_batch == theirs.max_batch


@few
@given(serves, loads, st.sampled_from(NEUTRAL))
def test_neutral_parameters_change_nothing(serve, load, technique):
    if possible(technique, serve, load):
        effect = rl.apply(serve, load, technique, time="roofline_s")
        np.testing.assert_allclose(figures(effect.after), figures(effect.before), rtol=1e-12)


@few
@given(serves, loads, st.permutations(INDEPENDENT), st.integers(2, 6))
def test_order_does_not_matter(serve, load, order, count):
    chosen = [item for item in order[:count] if possible(item, serve, load)]
    one, other = (
        rl.apply(serve, load, chosen, time="roofline_s"),
        rl.apply(serve, load, chosen[::-1], time="roofline_s"),
    )
    np.testing.assert_allclose(figures(one.after), figures(other.after), rtol=1e-9)
    np.testing.assert_allclose(figures(one.before), figures(other.before), rtol=1e-9)


@few
@given(serves, loads, st.sampled_from(TECHNIQUES))
def test_never_below_the_floor_of_what_was_changed(serve, load, technique):
    if not possible(technique, serve, load):
        return
    floor = rl.apply(serve, load, technique, time="floor_s").after
    for time in ("roofline_s", "estimate_s"):
        found = rl.apply(serve, load, technique, time=time).after
        for name in ("prompt_s", "step_s", "ttft_s", "tpot_s", "total_s", "gap_s"):
            assert getattr(found, name) >= getattr(floor, name) * (1 - 1e-9), (time, name)


@few
@given(serves, loads, st.permutations(INDEPENDENT), st.integers(2, 6))
def test_combinations_are_never_below_the_floor(serve, load, order, count):
    chosen = [item for item in order[:count] if possible(item, serve, load)]
    floor, found = (rl.apply(serve, load, chosen, time=time).after for time in ("floor_s", "roofline_s"))
    assert found.ttft_s >= floor.ttft_s * (1 - 1e-9)
    assert found.tpot_s >= floor.tpot_s * (1 - 1e-9)


@few
@given(serves, loads, st.integers(1, 8), st.floats(0, 0.5))
def test_acceptance_zero_never_helps(serve, load, drafts, draft_share):
    technique = t.Speculation(acceptance=0.0, drafts=drafts, draft_share=draft_share)
    assert rl.apply(serve, load, technique, time="roofline_s").decode_speedup <= 1 + 1e-12


@few
@given(serves, loads)
def test_hit_rate_one_leaves_only_a_decode_step(serve, load):
    found = rl.apply(serve, load, t.PrefixCaching(hit_rate=1.0), time="roofline_s").after
    step = rl.decode(serve, replace(load, batch=1), context_tokens=load.context_tokens - 1)
    assert found.prompt_s == pytest.approx(step.roofline_s, rel=1e-12)


@few
@given(serves, loads, shares, shares)
def test_more_hits_are_never_slower(serve, load, one, other):
    low, high = (
        rl.apply(serve, load, t.PrefixCaching(hit_rate=rate), time="roofline_s").after for rate in sorted((one, other))
    )
    assert high.prompt_s <= low.prompt_s * (1 + 1e-12)


@given(shares, st.integers(0, 20))
def test_expected_tokens_are_the_geometric_sum(acceptance, drafts):
    by_hand = sum(acceptance**power for power in range(drafts + 1))
    assert t.expected_tokens(acceptance, drafts) == pytest.approx(by_hand, rel=1e-6)


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=40), st.floats(0.01, 0.5))
def test_padding_stays_within_the_tolerance(sizes, tolerance):
    assert 0 <= t.padding(tuple(sizes), tolerance) <= tolerance + 1e-9


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=40), st.integers(1, 200))
def test_static_slots_lie_between_mean_over_longest_and_one(sizes, batch):
    used = t.static_slots_used(batch, tuple(sizes))
    assert np.mean(sizes) / np.max(sizes) - 1e-9 <= used <= 1 + 1e-9


@few
@given(serves, loads, st.sampled_from(TECHNIQUES))
def test_a_sweep_is_its_points(serve, load, technique):
    batches = np.array([1.0, 3.0, float(load.batch)])
    if not possible(technique, serve, load):
        return

    def of(batch):
        return rl.apply(
            serve,
            rl.Workload(load.prompt_tokens, load.output_tokens, batch, load.cached_tokens),
            technique,
            time="roofline_s",
        )

    swept = of(batches)
    for at, batch in enumerate(batches):
        alone = of(batch)
        for name in ("prefill_after_s", "decode_after_s", "gap_after_s", "throughput_gain"):
            points = np.broadcast_to(getattr(swept, name), batches.shape)
            assert points[at] == pytest.approx(getattr(alone, name), rel=1e-9), name


def test_at_the_floor_prompts_share_the_weights_from_the_host_with_each_other_and_with_steps():
    serve, load = rl.Deployment("mixtral-8x7b", "h100-sxm"), rl.Workload(1, 2, batch=8)
    floor, found = (rl.apply(serve, load, "weight-offload", time=time).after for time in ("floor_s", "roofline_s"))
    assert floor.total_s == pytest.approx(floor.prompt_s + floor.step_s)
    assert floor.total_s <= found.total_s
