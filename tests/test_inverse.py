"""Inverse questions and sensitivities, held against the formulas turned round by hand and against the phases."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl
from roofline.serving.scenario import Scenario
from roofline.serving.steady_state import steady_state

H100 = rl.get_accelerator("h100-sxm")
LLAMA, MIXTRAL = rl.get_model("llama-3.1-70b"), rl.get_model("mixtral-8x7b")
SERVE = rl.Deployment(LLAMA, H100)
STREAMED = 2 * 80 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672) + 2 * 8192 * 128_256
"""Bytes of the weights that a step reads in 16 bits: four attention and three MLP matrices of 80 layers, lm_head."""

KV_TOKEN = 2 * 80 * 8 * 128 * 2
"""Bytes of keys and values of a token: 80 layers, 8 heads of 128, 16 bits."""


def test_bandwidth_for_20_ms_a_token():
    found = rl.solve(SERVE, rl.Workload(prompt_tokens=2048), find="memory_bytes_per_s", target=0.020, time="floor_s")
    assert found.value == pytest.approx((STREAMED + 2048 * KV_TOKEN) / 0.020, rel=1e-3)
    assert found.method == "closed form"
    assert found.reached == pytest.approx(0.020)


def test_no_bandwidth_makes_a_step_faster_than_its_math():
    found = rl.solve(SERVE, rl.Workload(batch=512), find="memory_bytes_per_s", target=0.010, time="floor_s")
    assert not found.possible
    assert np.isnan(found.value)
    attention = 512 * 2001 * 80 * 64 * 128 * 4
    compute_ms = (512 * STREAMED + attention) / (132 * 4096 * 1.98e9) * 1e3
    assert found.reason.startswith("never: matrix units alone take ")
    assert float(found.reason.split()[-2]) == pytest.approx(compute_ms, rel=1e-3)


def test_batch_that_reaches_the_ridge():
    found = rl.solve(SERVE, find="batch", metric="ridge")
    in_layers = (STREAMED / 2 - 8192 * 128_256) / 80
    flops, moved = 2 * in_layers, 2 * (3 * (8192 + 28672) + 2 * (8192 + 8192) + 2 * (8192 + 1024))
    ridge = 989.4e12 / 3.35e12
    assert found.value == pytest.approx(ridge * 2 * in_layers / (flops - ridge * moved), rel=2e-3)
    assert found.possible


def test_weight_bits_that_fit_one_gpu():
    load = rl.Workload(prompt_tokens=2000, output_tokens=256)
    found = rl.solve(SERVE, load, find="weight_bits", metric="fits")
    linear = STREAMED / 2 - 8192 * 128_256
    left = 0.9 * 81_559 * 2**20 - 2 * 2 * 8192 * 128_256 - 2256 * KV_TOKEN
    assert found.value == pytest.approx(8 * left / linear, rel=1e-3)
    assert rl.memory(rl.quantize(SERVE, weights="fp8"), load).fits
    assert not rl.memory(rl.quantize(SERVE, weights="mxfp8", activations="bf16"), rl.Workload(batch=8)).fits


def test_parameters_that_fit_one_gpu():
    four_bits = rl.quantize(SERVE, weights="int4")
    found = rl.solve(four_bits, find="parameters", metric="fits")
    assert found.value == pytest.approx((0.9 * 81_559 * 2**20 - 2256 * KV_TOKEN) * 2, rel=1e-9)


def test_context_that_breaks_50_ms():
    found = rl.solve(SERVE, find="context_tokens", target=0.050, time="floor_s")
    by_hand = (0.050 * 3.35e12 - STREAMED) / KV_TOKEN
    assert found.value == pytest.approx(by_hand, rel=2e-3)
    at = [rl.decode(SERVE, rl.Workload(), context_tokens=found.value + more).floor_s for more in (0, 1)]
    assert at[0] <= 0.050 < at[1]


@given(st.floats(0.045, 0.3), st.sampled_from(["floor_s", "roofline_s", "estimate_s"]))
@settings(max_examples=12, deadline=None)
def test_the_largest_batch_within_a_tpot(target, time):
    found = rl.solve(SERVE, find="batch", target=target, time=time)
    if found.possible:
        kept, broken = (getattr(rl.decode(SERVE, rl.Workload(batch=found.value + more)), time) for more in (0, 1))
        assert kept <= target < broken
    else:
        assert getattr(rl.decode(SERVE, rl.Workload(batch=1)), time) > target


def test_the_smallest_batch_of_a_throughput():
    found = rl.solve(SERVE, find="batch", metric="tokens_per_s", target=400, time="roofline_s")
    kept, short = (
        steady_state(Scenario(SERVE, rl.Workload(batch=found.value - less)), time="roofline_s").tokens_per_s
        for less in (0, 1)
    )
    assert kept >= 400 > short
    assert "smallest" in found.reason


def test_the_largest_batch_within_a_tpot_of_requests():
    """Stalls by other prompts count: the batch is smaller than the one whose steps alone keep to it."""
    by_step, by_request = (
        rl.solve(SERVE, find="batch", metric=name, target=0.1, time="roofline_s").value for name in ("step_s", "tpot_s")
    )
    kept, broken = (
        steady_state(Scenario(SERVE, rl.Workload(batch=by_request + more)), time="roofline_s").tpot_s for more in (0, 1)
    )
    assert kept <= 0.1 < broken
    assert by_request < by_step


def test_never_and_always_say_so():
    never = rl.solve(SERVE, find="dense_flops_per_s", target=0.001, time="roofline_s")
    assert not never.possible
    assert never.reason.startswith("never: the decode step is 41.7 ms")
    always = rl.solve(SERVE, find="output_tokens", metric="ttft_s", target=10.0, time="roofline_s")
    assert always.possible
    assert always.value == np.inf
    assert always.reason.startswith("always")
    full = rl.solve(SERVE, find="batch", metric="fits")
    assert full.reason == "never: the weights leave no room"


def test_what_fits_is_what_memory_says():
    serve = SERVE.replace(parallel=rl.Parallel(tensor=4))
    load = rl.Workload(batch=3)
    need = rl.memory(serve, load)
    batch, context, size = (
        rl.solve(serve, load, find=name, metric="fits") for name in ("batch", "context_tokens", "memory_bytes")
    )
    assert batch.value == need.max_batch
    assert context.value == need.max_context
    assert size.value == pytest.approx(need.per_accelerator["needed_bytes"] / 0.9)
    assert context.reached <= context.target
    for found in (batch, context):
        assert found.reached <= found.target


@pytest.mark.parametrize("engine", [None, "vllm", "sglang", "trtllm", "llamacpp"])
def test_what_is_solved_for_fits_and_a_little_less_does_not(engine):
    """Engines set aside memory in ways that are no fraction of the device: what is found has to fit there as well."""
    serve, load = rl.Deployment("llama-3.1-70b", "h100-sxm", engine=engine), rl.Workload(4000, 500, 8)
    found = rl.solve(serve, load, find="memory_bytes", metric="fits")
    assert found.method == ("closed form" if engine is None else "bisection")

    def fits(memory_bytes):
        larger = serve.replace(accelerator=serve.accelerator.replace(memory_bytes=memory_bytes))
        return bool(rl.memory(larger, load).fits)

    assert fits(1.001 * found.value)
    assert not fits(0.999 * found.value)
    bits = rl.solve(serve, load, find="weight_bits", metric="fits").value
    below, above = (f"exl3_{np.floor(10 * bits) / 10 + step:.1f}" for step in (0.0, 0.1))
    assert rl.memory(rl.quantize(serve, weights=below), load).fits
    assert not rl.memory(rl.quantize(serve, weights=above), load).fits


def test_every_closed_form_evaluates_to_its_value():
    four = SERVE.replace(parallel=rl.Parallel(tensor=4))
    names = ("weight_bits", "parameters", "memory_bytes", "batch")
    solved = [rl.solve(four, find=name, metric="fits") for name in names]
    solved += [rl.solve(SERVE, find="batch", metric="ridge")]
    solved += [rl.solve(SERVE, find="memory_bytes_per_s", target=0.02, time="floor_s")]
    for found in solved:
        assert found.steps
        assert found.method == "closed form"
        for step in found.steps:
            scope = {"min": np.minimum, "max": np.maximum}
            assert eval(step.formula, scope, dict(step.inputs)) == pytest.approx(step.value, rel=1e-9), step.name


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"find": "speed", "target": 1.0}, "no quantity to solve for named 'speed'"),
        ({"find": "batch", "metric": "tpot", "target": 1.0}, "no metric named 'tpot'; did you mean 'tpot_s'"),
        ({"find": "batch", "target": -1.0}, "target must be a finite number"),
        ({"find": "batch"}, "target must be a finite number"),
        ({"find": "batch", "target": 1.0, "time": "best"}, "no time named 'best'"),
        ({"find": "prompt_tokens", "metric": "fits"}, "no quantity to solve fits for named 'prompt_tokens'"),
        (
            {"find": "batch", "target": 1.0, "load": rl.Workload(batch=[1, 2])},
            "solve takes a single workload and layout",
        ),
    ],
)
def test_questions_that_make_no_sense(asked, says):
    with pytest.raises(rl.RooflineError, match=says):
        rl.solve(SERVE, **asked)


# Sensitivities


def test_a_floor_that_is_all_memory_follows_the_bandwidth():
    found = rl.sensitivity(rl.decode(SERVE, rl.Workload(), context_tokens=2048), time="floor_s")
    assert found.bandwidth == pytest.approx(-1)
    assert found.peak_bf16 == 0
    share = 2048 * KV_TOKEN / (STREAMED + 2048 * KV_TOKEN)
    assert found.kv_bits == pytest.approx(share, rel=2e-3)
    assert found.weight_bits == pytest.approx(1 - share, rel=1e-3)


def test_a_prefill_follows_the_peak_and_its_own_length():
    found = rl.sensitivity(rl.prefill(SERVE, rl.Workload(prompt_tokens=2000)), time="floor_s")
    assert found.peak_bf16 == pytest.approx(-1)
    assert 1 < found.prompt < 1.05
    assert found.weight_bits == 0


@given(
    st.sampled_from([LLAMA, MIXTRAL]),
    st.sampled_from([rl.Parallel(), rl.Parallel(tensor=8), rl.Parallel(tensor=2, pipeline=2)]),
    st.integers(1, 300),
    st.sampled_from(["floor_s", "roofline_s"]),
    st.sampled_from([rl.prefill, rl.decode]),
)
@settings(max_examples=25, deadline=None)
def test_rates_account_for_all_of_the_time(model, parallel, batch, time, run):
    phase = run(rl.Deployment(model, H100, parallel=parallel), rl.Workload(500, 10, batch))
    found = rl.sensitivity(phase, time=time).elasticity
    rates = sum(value for name, value in found.items() if name in ("bandwidth", "links") or name.startswith("peak"))
    assert rates == pytest.approx(-1, abs=2e-3)


def test_an_estimate_has_latency_and_more_of_it_at_tp_8():
    shares = [
        -rl.sensitivity(
            rl.decode(rl.Deployment(LLAMA, H100, parallel=rl.Parallel(tensor=ways)), rl.Workload()), time="estimate_s"
        ).latency
        for ways in (1, 8)
    ]
    assert 0 < shares[0] < shares[1] < 1


@given(st.floats(0.3, 3.0), st.sampled_from(["bandwidth", "peak_bf16", "links"]))
@settings(max_examples=15, deadline=None)
def test_an_upgrade_buys_what_the_upgraded_chip_gives(factor, name):
    step = rl.decode(SERVE.replace(parallel=rl.Parallel(tensor=4)), rl.Workload(batch=64))
    gpu, link = H100, H100.scale_up
    faster = {
        "bandwidth": {"memory_bytes_per_s": gpu.memory_bytes_per_s * factor},
        "peak_bf16": {"dense_flops_per_s": {**gpu.dense_flops_per_s, "bf16": gpu.dense_flops_per_s["bf16"] * factor}},
        "links": {"scale_up": rl.Link(link.name, link.kind, link.bytes_per_s * factor, link.domain)},
    }[name]
    other = rl.decode(step.deployment.replace(accelerator=gpu.replace(**faster)), rl.Workload(batch=64))
    found = rl.sensitivity(step, time="roofline_s")
    assert found.ratio(name, factor) == pytest.approx(other.roofline_s / step.roofline_s, rel=1e-9)


def test_narrower_weights_are_what_quantizing_gives():
    step = rl.decode(SERVE, rl.Workload())
    fp8 = rl.decode(rl.quantize(SERVE, weights="fp8"), rl.Workload())
    lm_head = 2 * 8192 * 128_256 / 3.35e12
    found = rl.sensitivity(step, time="floor_s").ratio("weight_bits", 0.5)
    assert found * step.floor_s + lm_head / 2 == pytest.approx(fp8.floor_s, rel=1e-3)


def test_a_sweep_has_an_elasticity_a_point_and_is_ranked():
    steps = rl.decode(SERVE, rl.Workload(batch=np.array([1, 64, 1024])))
    found = rl.sensitivity(steps, time="roofline_s")
    assert found.bandwidth.shape == (3,)
    assert found.weight_bits[0] > found.weight_bits[2]
    assert found.ranked[0] == "bandwidth"
    assert len(found.to_frame()) == 3


def test_sensitivities_that_make_no_sense():
    step = rl.decode(SERVE, rl.Workload())
    with pytest.raises(rl.UnknownName, match="no input named 'latency'"):
        rl.sensitivity(step, time="estimate_s").ratio("latency", 2)
    with pytest.raises(rl.UnknownName, match="no time named 'now'"):
        rl.sensitivity(step, time="now")
    with pytest.raises(rl.InvalidInput, match="factor must be"):
        rl.sensitivity(step, time="roofline_s").ratio("batch", 0)


@pytest.mark.parametrize("time", ["floor_s", "roofline_s", "estimate_s"])
@pytest.mark.parametrize("engine", [None, "vllm", "trtllm"])
def test_an_input_left_as_it_is_changes_nothing(time, engine):
    """The varied pass is the same pass: same engine, same layout."""
    serve = SERVE.replace(engine=engine, parallel=rl.Parallel(tensor=4, overlap=0.3))
    for phase in (rl.decode(serve, rl.Workload(batch=8)), rl.prefill(serve, rl.Workload())):
        found = rl.sensitivity(phase, time=time)
        for name in found.elasticity:
            if name != "latency":
                assert found.ratio(name, 1) == 1
