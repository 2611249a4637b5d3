"""Tabulated step times against the passes that they are made of."""

import numpy as np
import pytest

import roofline as rl
from roofline.operators.operator import Segment
from roofline.phases.passes import TIMES, run_pass
from roofline.serving.clock import Clock, Polyline
from roofline.serving.step_times import step_times

CASES = [
    ("llama-3.1-8b", "h100-sxm", rl.Parallel()),
    ("llama-3.1-70b", "h100-sxm", rl.Parallel(tensor=4)),
    ("deepseek-v3", "h200-sxm", rl.Parallel(expert=8, data=8)),
    ("gpt-oss-120b", "b200-sxm", rl.Parallel(tensor=2)),
    ("qwen3.5-397b-a17b", "b200-sxm", rl.Parallel(tensor=8)),
]


def deployment(model, accelerator, parallel):
    return rl.Deployment(rl.get_model(model), rl.get_accelerator(accelerator), parallel=parallel)


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]}, {case[2]}")
def serve(request):
    return deployment(*request.param)


def points(count, seed=0):
    rng = np.random.default_rng(seed)
    batch = np.round(2 ** rng.uniform(0, 8.5, count))
    context = np.round(2 ** rng.uniform(5, 14, count))
    new = np.round(2 ** rng.uniform(5, 13, count))
    return batch, context, new


@pytest.mark.parametrize("time", TIMES)
def test_decode_steps_are_those_of_decode(serve, time):
    batch, context, _ = points(60)
    step = rl.decode(serve, rl.Workload(batch=batch * serve.parallel.data), context_tokens=context)
    error = np.abs(step_times(serve, time=time).decode_s(batch, context) / getattr(step, time) - 1)
    assert error.max() < 0.02
    assert error.mean() < 0.002


@pytest.mark.parametrize("time", TIMES)
def test_passes_over_prompts_are_those_of_prefill(serve, time):
    prompts, _, new = points(60)
    prompts = np.minimum(prompts, 4.0)
    whole = rl.prefill(serve, rl.Workload(prompt_tokens=new, batch=prompts * serve.parallel.data))
    found = step_times(serve, time=time).mixed_s(np.zeros(60), 1.0, new, 0.0, prompts)
    error = np.abs(found / getattr(whole, time) - 1)
    assert error.max() < 0.06
    assert error.mean() < 0.01


@pytest.mark.parametrize("time", TIMES)
def test_mixed_steps_are_those_of_a_mixed_pass(serve, time):
    batch, context, new = points(40)
    data = float(serve.parallel.data)
    both = run_pass(serve, "mixed", Segment(data, new, 0.0), Segment(batch * data, 1.0, context))
    error = np.abs(step_times(serve, time=time).mixed_s(batch, context, new, 0.0) / getattr(both, time) - 1)
    assert error.max() < 0.06
    assert error.mean() < 0.01


@pytest.mark.parametrize("time", TIMES)
def test_the_clock_of_a_simulation_reads_the_same_tables(time):
    times = step_times(deployment(*CASES[0]), time=time)
    clock = Clock(times)
    assert clock.line(37).at(1234) == pytest.approx(float(times.decode_s(37, 1234)), rel=1e-3)
    several = clock.prompts_s(37, 1234, [(777, 300)] * 3, 3)
    assert several == pytest.approx(float(times.mixed_s(37, 1234, 777, 300, 3)), rel=1e-12)


def test_what_the_host_adds_is_in_the_estimate_alone():
    serve = deployment("llama-3.1-70b", "h100-sxm", rl.Parallel(tensor=4))
    slow = serve.replace(engine=rl.Engine("vllm", step_s=2e-3, layer_s=1e-5, rank_s=1e-6, launch_share=1.0))
    none = {"step_s": 0.0, "layer_s": 0.0, "rank_s": 0.0, "launch_share": 1.0, "prefill_factor": 1.0}
    quick = serve.replace(engine=rl.Engine("vllm", **none, eager_layer_s=0.0))
    for time in ("floor_s", "roofline_s"):
        assert step_times(slow, time=time).decode_s(8, 1000) == step_times(quick, time=time).decode_s(8, 1000)
    added = step_times(slow).decode_s(8, 1000) - step_times(quick).decode_s(8, 1000)
    assert added == pytest.approx(2e-3 + 80 * (1e-5 + 1e-6 * 2))


def test_a_pass_with_prompts_takes_at_least_its_device_and_its_host():
    serve = deployment(*CASES[0]).replace(
        engine=rl.Engine("vllm", eager_layer_s=1e-3, prefill_factor=1.0, step_s=0.0, graph_tokens=0)
    )
    times = step_times(serve)
    assert times.mixed_s(0, 1, 16, 0) > 32 * 1e-3
    device = step_times(serve.replace(engine=rl.Engine("vllm", eager_layer_s=0.0, prefill_factor=1.0, step_s=0.0)))
    assert times.mixed_s(0, 1, 100_000, 0) == pytest.approx(float(device.mixed_s(0, 1, 100_000, 0)), rel=0.01)


def test_arrays_of_deployments_are_refused():
    serve = deployment("llama-3.1-8b", "h100-sxm", rl.Parallel(tensor=np.array([1, 2])))
    with pytest.raises(rl.InvalidInput, match="one deployment at a time"):
        step_times(serve)


def test_a_line_and_its_inverse():
    line = Polyline([0.0, 1.0, 3.0], [1.0, 2.0, 6.0])
    assert [line.at(place) for place in (0.0, 0.5, 2.0, 4.0)] == [1.0, 1.5, 4.0, 8.0]
    assert line.inverse(4.0) == 2.0


def test_short_prompts_run_in_captured_graphs_where_an_engine_has_them():
    """vLLM captures graphs of up to 512 tokens from its V1 on; else the host launches kernel after kernel."""
    model, gpu = rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm")

    def prefill_s(tokens, version=""):
        serve = rl.Deployment(model, gpu, engine=rl.Engine("vllm", version=version))
        return rl.prefill(serve, rl.Workload(tokens)).estimate_s

    launches_s = model.layer_count * rl.Engine("vllm").eager_layer_s
    assert prefill_s(512) < launches_s < prefill_s(513)
    assert prefill_s(512, "0.6.3") > launches_s
