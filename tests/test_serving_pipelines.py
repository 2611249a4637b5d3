"""Microbatches of a pipeline under load: none overtakes another, so a prompt in one holds up all."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import roofline as rl
from roofline.serving.pipeline import Pipeline
from roofline.serving.pipeline_rounds import rounds
from roofline.serving.scenario import Scenario
from roofline.serving.steady_state import NO_OVERTAKING, steady_state

ROOT = Path(__file__).parent.parent
LLAMA_70B, H100 = rl.get_model("llama-3.1-70b"), rl.get_accelerator("h100-sxm")
FP8 = rl.Precision(weights="fp8", activations="fp8")


def pipeline(stages, engine, tensor=1):
    parallel = rl.Parallel(tensor=tensor, pipeline=stages)
    return rl.Deployment(LLAMA_70B, H100, parallel=parallel, engine=engine, precision=FP8)


def traffic(prompt, output, seed=0):
    """Prompts within a tenth of each other, and outputs of very different lengths."""
    rng = np.random.default_rng(seed)
    prompts, outputs = rng.uniform(0.9 * prompt, 1.1 * prompt, 60), rng.uniform(0.3 * output, 1.7 * output, 60)
    return rl.Traffic(np.round(prompts), np.round(outputs), np.ones(60))


def recorded(arrival, prompt, output):
    """A trace, all of whose prompts are to be computed."""
    return rl.Trace(*(np.array(column, dtype=float) for column in (arrival, prompt, output, 0 * np.array(prompt))))


def through_every_stage(ready_s, passes_s, stages):
    """End of every pass: a stage takes one at a time, in order, each for its part of the pass."""
    left = np.zeros(stages)
    ends = []
    for number, (ready, pass_s) in enumerate(zip(ready_s, passes_s, strict=True)):
        now = max(ready, ends[number - stages] if number >= stages else 0.0)
        for stage in range(stages):
            left[stage] = now = max(now, left[stage]) + pass_s / stages
        ends.append(now)
    return np.array(ends)


@pytest.mark.parametrize("stages", [2, 3, 8])
def test_the_first_and_the_last_stage_suffice(stages):
    """Against all stages one by one: passes of any length, of which each microbatch has one at a time."""
    rng = np.random.default_rng(stages)
    passes_s = rng.choice([0.02, 0.03, 0.2, 0.5], 400, p=[0.5, 0.3, 0.1, 0.1])
    ready_s = np.sort(rng.uniform(0.0, 20.0, 400))
    group, ends = Pipeline([SimpleNamespace()] * stages), []
    for number, (ready, pass_s) in enumerate(zip(ready_s, passes_s, strict=True)):
        begins = max(ready, group.enters, ends[number - stages] if number >= stages else 0.0)
        ends.append(begins + group._took(begins, pass_s))
    assert ends == pytest.approx(through_every_stage(ready_s, passes_s, stages))


@pytest.mark.parametrize("stages", [1, 2, 4, 8])
@pytest.mark.parametrize("share", [0.02, 0.08, 0.3, 0.9])
def test_rounds_against_passes_drawn_at_random(stages, share):
    """A share of the passes has prompts and takes 20 times as long as a step."""
    rng = np.random.default_rng(1)
    passes_s = np.where(rng.random(60_000) < share, 0.4, 0.02)
    drawn_s = through_every_stage(np.zeros(60_000), passes_s, stages)[-1] / 60_000 * stages
    made = rounds(1.0 - share, share, stages, chunks=1.0, busy=1.0, missed=0.0)
    assert made.stalls * 0.4 * made.stretch + made.plain * 0.02 == pytest.approx(drawn_s, rel=0.03)


def test_a_prompt_holds_up_the_other_microbatch_for_as_long_as_its_pass():
    serve, load = pipeline(2, "vllm"), rl.Workload(4000, 300)
    alone = rl.simulate(serve, load, concurrency=1, requests=1)
    step_s, prompt_s = alone.tpot_s, rl.prefill(serve, load).estimate_s
    gap = rl.simulate(serve, recorded([0.0, 3.0], [4000, 4000], [300, 300])).requests.gap
    assert gap[0] == pytest.approx(prompt_s, rel=0.03)
    assert gap[1] == pytest.approx(step_s, rel=0.05)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_one_request_alone_has_the_pipeline_to_itself(engine):
    load = rl.Workload(4000, 300)
    run = rl.simulate(pipeline(4, engine), load, concurrency=1, requests=3)
    form = rl.serve(pipeline(4, engine), load, concurrency=1)
    step_s = rl.decode(pipeline(4, engine), rl.Workload(4000, 300, batch=1), context_tokens=4150).estimate_s
    assert run.tpot_s == pytest.approx(step_s, rel=0.01)
    assert (float(form.tpot_s), float(form.ttft_s)) == pytest.approx((run.tpot_s, run.ttft_s), rel=0.01)


GRID = [
    (stages, engine, *lengths, clients)
    for stages in (2, 4, 8)
    for engine in ("vllm", "sglang", "trtllm")
    for lengths in ((4000, 300), (500, 200), (12_000, 300))
    for clients in (16, 64)
]


@pytest.mark.parametrize(("stages", "engine", "prompt", "output", "clients"), GRID)
def test_the_closed_form_of_a_pipeline_against_its_simulation(stages, engine, prompt, output, clients):
    serve, load = pipeline(stages, engine, tensor=2 if stages == 2 else 1), traffic(prompt, output)
    run = rl.simulate(serve, load, concurrency=clients, requests=30 * clients)
    form = rl.serve(serve, load, concurrency=clients)
    assert float(form.tpot_s) == pytest.approx(run.tpot_s, rel=0.13)


@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize(("prompt", "output", "clients"), [(4000, 300, 16), (4000, 300, 64), (500, 200, 128)])
@pytest.mark.parametrize("engine", ["default", "vllm"])
def test_the_steady_state_of_a_pipeline_agrees_with_its_simulation(stages, prompt, output, clients, engine):
    serve, load = pipeline(stages, engine, tensor=4 // stages), traffic(prompt, output)
    run = rl.simulate(serve, load, concurrency=clients, requests=30 * clients)
    alike = rl.Workload(round(load.mean_prompt_tokens), round(load.mean_output_tokens), clients)
    chunks = {"chunk_tokens": 8192} if engine == "vllm" else {}
    seen = steady_state(Scenario(serve, alike, **chunks))
    assert seen.requests_per_s == pytest.approx(run.requests_per_s, rel=0.14)
    assert NO_OVERTAKING in seen.assumptions
    assert seen.requests_in_system == pytest.approx(clients)


def test_only_the_estimate_of_a_pipeline_waits():
    load = rl.Workload(4000, 300, 64)
    seen = steady_state(Scenario(pipeline(2, "default"), load))
    for time in ("floor_s", "roofline_s"):
        assert NO_OVERTAKING not in seen.at(time).assumptions
    assert seen.at("roofline_s").total_s == pytest.approx(
        steady_state(Scenario(pipeline(2, "default"), load), time="roofline_s").total_s
    )
    assert seen.high.requests_per_s < seen.requests_per_s < seen.low.requests_per_s < seen.at("floor_s").requests_per_s


@pytest.mark.parametrize("fields", [{}, {"chunk_tokens": 2048}])
def test_pipelines_in_one_array_have_their_own_rounds(fields):
    load = rl.Workload(4000, 300, 64)
    together = steady_state(Scenario(pipeline(np.array([1.0, 2.0, 4.0]), "default"), load, **fields))
    for at, stages in enumerate((1, 2, 4)):
        one = steady_state(Scenario(pipeline(stages, "default"), load, **fields))
        assert together.total_s[at] == pytest.approx(one.total_s, rel=1e-9)
        assert together.ttft_s[at] == pytest.approx(one.ttft_s, rel=1e-9)


def test_long_prompts_of_a_prefill_pool_hold_up_short_ones():
    """Prompts of 5,000 and 8,000 tokens, one to a pass: as fast as they leave the last of four stages."""
    whole = rl.Engine("vllm", chunked=False)
    worker, decode = pipeline(4, whole), pipeline(1, "vllm", tensor=2)
    load = rl.Traffic.of([(5000, 2), (8000, 2)])
    asked = {"requests_per_s": 20.0, "requests": 200, "link_bytes_per_s": 1e15}
    found = rl.serve_pools(load, prefill=worker, decode=decode, **asked)
    passes_s = [rl.prefill(worker, rl.Workload(tokens, 1)).estimate_s for tokens in found.requests.prompt]
    ends = through_every_stage(found.requests.arrival, passes_s, 4)
    assert max(found.requests.first) == pytest.approx(ends[-1], rel=0.03)
    assert ends[-1] > 1.1 * np.sum(passes_s) / 4, "microbatches on their own"


def test_littles_law_holds_for_a_pipeline():
    found = rl.simulate(pipeline(4, "vllm"), traffic(2000, 200), concurrency=32, requests=640)
    arrival, finish = np.array(found.requests.arrival), np.array(found.requests.finish)
    in_system = np.sum(finish - arrival) / (finish.max() - arrival.min())
    assert in_system == pytest.approx(found.requests_per_s * found.total_s, rel=0.01)
    assert in_system == pytest.approx(32, rel=0.06)


def test_measured_pipelines_of_the_first_engine_of_vllm():
    """Llama 3.3 70B on 2 x 4 A100: too fast still, as the host times of that engine are unknown, but less so.

    Microbatches that run on their own are 32 to 36 % too fast at 4 and 16 requests/s.
    """
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import serving_open
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
    rows = [row for row in serving_open.rows() if row["pp"] == "2"]
    assert len(rows) == 6
    found = [serving_open.simulated(row) for row in rows]
    assert all(-0.33 < run.tpot_miss < -0.1 for run in found)
    assert np.median([run.tpot_miss for run in found]) > -0.29
    assert all(run.ttft_is_near for run in found)
