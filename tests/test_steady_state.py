"""One model of requests in steady state: laws, simulations of every step, and that all answers rest on it."""

from dataclasses import dataclass
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl
from roofline import techniques as t
from roofline.capacity import layouts
from roofline.serving import closed_forms
from roofline.serving.metrics import METRICS, SLO_METRICS, metric_named
from roofline.serving.rank_experts import experts_of_ranks_s
from roofline.serving.scenario import Drafts, Scenario
from roofline.serving.steady_state import steady_state

LLAMA_70B, LLAMA_8B = rl.get_model("llama-3.1-70b"), rl.get_model("llama-3.1-8b")
MIXTRAL, DEEPSEEK = rl.get_model("mixtral-8x7b"), rl.get_model("deepseek-v3")
H100, H200, L40S, MI300X = (rl.get_accelerator(name) for name in ("h100-sxm", "h200-sxm", "l40s", "mi300x"))
CHAT = rl.Workload(1500, 300, batch=64)
TIMES = ("floor_s", "roofline_s", "estimate_s")


def seen(serve, load=CHAT, time="roofline_s", **fields):
    return steady_state(Scenario(serve, load, **fields), time=time)


# All answers are the same

LAYOUTS = [
    pytest.param(LLAMA_70B, rl.Parallel(tensor=8), id="TP"),
    pytest.param(LLAMA_70B, rl.Parallel(tensor=2, pipeline=4), id="PP"),
    pytest.param(DEEPSEEK, rl.Parallel(expert=8, data=8), id="DP and EP"),
    pytest.param(MIXTRAL, rl.Parallel(tensor=8, expert=8), id="EP"),
]


@pytest.mark.parametrize("time", ["roofline_s", "estimate_s"])
@pytest.mark.parametrize(("model", "parallel"), LAYOUTS)
def test_every_answer_has_the_same_figures(model, parallel, time):
    serve = rl.Deployment(model, H200, parallel=parallel)
    one = seen(serve, time=time)
    degrees = tuple(float(degree) for degree in parallel.degrees[:4])
    found = rl.plan(model, [H200], CHAT, accelerators=(8,), batches=[64], time=time)
    rows = zip(found.tensor, found.pipeline, found.expert, found.data, strict=True)
    row = next(place for place, row in enumerate(rows) if row == degrees)
    assert found.ttft_s[row] == pytest.approx(one.ttft_s)
    assert found.tpot_s[row] == pytest.approx(one.tpot_s)
    assert found.requests_per_s[row] == pytest.approx(one.requests_per_s)
    assert found.tokens_per_s_per_gpu[row] * 8 == pytest.approx(one.tokens_per_s)
    assert found.prefill_share[row] == pytest.approx(one.prefill_share)
    need = rl.fleet(found.take(np.array([row])), requests_per_s=100, method="closed-form")
    assert need.replicas[0] == np.ceil(100 / 0.7 / one.requests_per_s)
    advice = rl.advise(serve, [(1500, 300)], batches=(64,), time=time)
    for name in SLO_METRICS:
        assert advice.mean(name)[0] == pytest.approx(METRICS[name].value(one)), name
    assert advice.prefill_share == pytest.approx(one.prefill_share)
    effect = rl.apply(serve, CHAT, t.KVCache(), time=time)
    for name in METRICS:
        assert METRICS[name].value(effect.before) == pytest.approx(METRICS[name].value(one)), name
    for name in ("ttft_s", "tpot_s", "total_s"):
        value = METRICS[name].value(one)
        solved = rl.solve(serve, CHAT, find="batch", metric=name, target=value * (1 + 1e-9), time=time)
        assert solved.value >= 64 or name == "ttft_s"
        assert solved.reached <= value * (1 + 1e-9)
        assert rl.sensitivity(one, metric=name).value == pytest.approx(value)


def test_deepseek_v3_on_eight_h200():
    """Eight replicas take a prompt each in 82.2 ms, a step of 64 takes 18.77 ms, by the phases; the rest by hand."""
    serve = rl.Deployment(DEEPSEEK, H200, parallel=rl.Parallel(expert=8, data=8))
    prompt_s = rl.prefill(serve, rl.Workload(1500, 300, batch=8)).roofline_s
    step_s = rl.decode(serve, CHAT, context_tokens=1649).roofline_s
    total_s = 8 * prompt_s + 299 * step_s
    found = seen(serve)
    assert found.total_s == pytest.approx(total_s, rel=1e-3)
    assert found.tokens_per_s == pytest.approx(64 * 300 / total_s, rel=1e-3)
    assert found.tokens_per_s == pytest.approx(3062, rel=1e-3)
    assert found.tpot_s == pytest.approx(0.0207, rel=2e-3)
    assert found.prefill_share == pytest.approx(0.105, abs=5e-4)


def test_an_answer_with_techniques_is_the_plan_with_them():
    load = rl.Workload(1500, 300, batch=16)
    chosen = [t.Quantization(weights="fp8", activations="fp8"), t.Speculation(acceptance=0.6), t.ChunkedPrefill()]
    serve = rl.Deployment(LLAMA_8B, H100)
    after = rl.apply(serve, load, chosen, time="estimate_s").after
    found = rl.plan(LLAMA_8B, [H100], load, techniques=chosen, accelerators=(1,), batches=[16])
    assert found.tpot_s[0] == pytest.approx(after.tpot_s)
    assert found.ttft_s[0] == pytest.approx(after.ttft_s)
    assert found.max_batch[0] == after.max_batch
    advice = rl.advise(serve, [(1500, 300)], techniques=chosen, batches=(16,), time="estimate_s")
    assert advice.mean("tpot_s")[0] == pytest.approx(after.tpot_s)
    assert found.steady_state().tpot_s == pytest.approx(after.tpot_s)
    assert "in use: weight quantization (fp8 + fp8), speculative decoding, chunked prefill" in advice.assumptions


# Laws

CASES = st.builds(
    lambda model, chip, batch, prompt, output: (model, chip, rl.Workload(prompt, output, batch)),
    st.sampled_from([LLAMA_8B, MIXTRAL]),
    st.sampled_from([H100, L40S, MI300X]),
    st.integers(1, 300),
    st.integers(1, 8000),
    st.integers(1, 600),
)
WAYS = ({}, {"chunk_tokens": 512}, {"slots_used": 0.4})


@given(CASES, st.sampled_from(TIMES), st.sampled_from(WAYS))
@settings(max_examples=40, deadline=None)
def test_littles_law_holds_exactly(case, time, ways):
    model, chip, load = case
    found = seen(rl.Deployment(model, chip, parallel=layouts(model, (1, 4, 8))), load, time, **ways)
    assert found.requests_per_s * found.total_s == pytest.approx(np.full_like(found.total_s, load.batch), rel=1e-12)


def test_littles_law_holds_for_two_pools_with_what_is_on_its_way():
    serve = rl.Deployment(LLAMA_8B, H100)
    found = seen(serve, handover_bytes_per_s=50e9)
    decoding = found.requests_per_s * 299 * found.step_s
    prefilling = found.requests_per_s * found.prompt_s
    crossing = found.requests_per_s * 1500 * 131_072 / 50e9
    assert found.requests_in_system == pytest.approx(decoding + prefilling + crossing)
    assert found.requests_per_s == pytest.approx(1 / (found.prompt_s + 299 * found.step_s / 64))


@given(CASES)
@settings(max_examples=40, deadline=None)
def test_nothing_is_faster_than_its_floor(case):
    model, chip, load = case
    serve = rl.Deployment(model, chip, parallel=layouts(model, (1, 4, 8)))
    floor, roofline, estimate = (seen(serve, load, time) for time in TIMES)
    for name in ("busy_s", "prompt_s", "step_s", "ttft_s", "tpot_s", "total_s", "gap_s"):
        assert np.all(getattr(floor, name) <= getattr(roofline, name) * (1 + 1e-9)), name
        assert np.all(getattr(floor, name) <= getattr(estimate, name) * (1 + 1e-9)), name


@given(CASES, st.sampled_from(("roofline_s", "estimate_s")))
@settings(max_examples=40, deadline=None)
def test_one_request_alone_is_its_prompt_and_its_steps(case, time):
    model, chip, load = case
    alone = rl.Workload(load.prompt_tokens, load.output_tokens)
    serve = rl.Deployment(model, chip)
    found = seen(serve, alone, time)
    assert found.ttft_s == pytest.approx(getattr(rl.prefill(serve, alone), time))
    assert found.total_s == pytest.approx(rl.generate(serve, alone, time=time).total_s, rel=3e-3)


@given(CASES, st.sampled_from([{}, {"chunk_tokens": 512}]))
@settings(max_examples=30, deadline=None)
def test_more_requests_in_the_system_never_lower_latency(case, ways):
    model, chip, load = case
    batches = np.unique(np.round(np.geomspace(1, 2000, 40)))
    found = seen(rl.Deployment(model, chip), rl.Workload(load.prompt_tokens, load.output_tokens, batches), **ways)
    assert np.all(np.diff(found.total_s) >= -1e-9 * found.total_s[1:])


def test_a_sweep_is_its_points():
    serve = rl.Deployment(MIXTRAL, H100, parallel=layouts(MIXTRAL, (8,)))
    batches = np.array([1, 7, 60, 900])
    swept = seen(serve, rl.Workload(100, 20, batches), "estimate_s")
    for row, degrees in enumerate(zip(*(np.ravel(each) for each in serve.parallel.degrees[:4]), strict=True)):
        one = serve.replace(parallel=rl.Parallel(*degrees))
        for column, batch in enumerate(batches):
            alone = seen(one, rl.Workload(100, 20, batch), "estimate_s")
            for name in ("ttft_s", "tpot_s", "gap_s", "requests_per_s"):
                assert getattr(swept, name)[row, column] == pytest.approx(getattr(alone, name), rel=1e-9), name


def test_a_sweep_with_chunks_is_its_points():
    """Alone nothing rides on a chunk, and kernels of decode attention are not launched for no sequences."""
    serve = rl.Deployment(LLAMA_8B, H100)
    batches, drafts = np.array([1, 2, 17, 300]), Drafts(0.6, 3, share=0.05)
    swept = seen(serve, rl.Workload(900, 40, batches), "estimate_s", chunk_tokens=256, drafts=drafts)
    for at, batch in enumerate(batches):
        alone = seen(serve, rl.Workload(900, 40, batch), "estimate_s", chunk_tokens=256, drafts=drafts)
        for name in ("ttft_s", "tpot_s", "gap_s", "requests_per_s"):
            assert getattr(swept, name)[at] == pytest.approx(getattr(alone, name), rel=1e-9), name


def test_a_mix_of_lengths_is_its_lengths():
    """Long prompts fill the token budget alone, short ones of the same array share a pass."""
    serve, prompts, outputs = (
        rl.Deployment(LLAMA_8B, H100),
        np.array([64, 3000, 8000, 20_000]),
        np.array([16, 50, 99, 9]),
    )
    mixed = seen(serve, rl.Workload(prompts, outputs, 64))
    for at, (prompt, output) in enumerate(zip(prompts, outputs, strict=True)):
        alone = seen(serve, rl.Workload(prompt, output, 64))
        for name in ("ttft_s", "tpot_s", "gap_s", "requests_per_s"):
            assert getattr(mixed, name)[at] == pytest.approx(getattr(alone, name), rel=1e-9), name


OTHER_LAYOUT = {"tensor-parallelism", "attention-dp"}
NO_EXPERTS_NOR_ENCODERS = {
    "encoder-disaggregation",
    "expert-parallelism",
    "eplb",
    "attention-ffn-disaggregation",
    "weight-offload",
}
NO_COPIES_OF_HEADS = {"dcp"}


@pytest.mark.parametrize("slug", sorted(set(t.REGISTRY) - OTHER_LAYOUT - NO_EXPERTS_NOR_ENCODERS - NO_COPIES_OF_HEADS))
def test_a_plan_of_several_layouts_gives_the_figures_of_each_technique_on_its_own(slug):
    load, serve = rl.Workload(1500, 300, batch=16), rl.Deployment(LLAMA_8B, H100, parallel=rl.Parallel(tensor=2))
    found = rl.plan(LLAMA_8B, [H100], load, techniques=slug, accelerators=(1, 2), batches=[16])
    after = rl.apply(serve, load, slug, time="estimate_s").after
    at = found.layout.tolist().index("TP 2")
    assert found.tpot_s[at] == pytest.approx(after.tpot_s)
    assert found.ttft_s[at] == pytest.approx(after.ttft_s)


def test_a_pipeline_takes_the_next_prompt_before_it_is_through_with_one():
    serve = rl.Deployment(LLAMA_70B, H100, parallel=rl.Parallel(pipeline=4))
    # A prompt of 8,192 tokens fills a pass in both; filling the pipeline takes 3 passes of 4,003.
    found = seen(serve, rl.Workload(8192, 1, batch=4000), step_tokens=8192)
    many = rl.prefill(serve, rl.Workload(8192, batch=4000)).roofline_s
    assert 4000 * found.busy_s == pytest.approx(many, rel=1e-3)


# Simulations: every pass of a lane, one after another


@dataclass(frozen=True)
class Lane:
    """Requests that each end a step with the same probability, so that they are at all ages at any time."""

    batch: int
    steps: float
    prompt_s: float = 0.03
    fixed_s: float = 0.01
    step_s: float = 0.02

    def pass_s(self, prompts):
        return self.fixed_s + self.prompt_s * prompts


def simulated_prompts_first(lane, most, events=200_000, seed=1):
    """Mean time to first token and time in the system of requests whose prompts run as they come."""
    rng = np.random.default_rng(seed)
    now, arrived = 0.0, np.zeros(lane.batch)
    first, total, count = 0.0, 0.0, 0
    for event in range(events):
        now += lane.step_s
        ended = np.flatnonzero(rng.random(lane.batch) < 1 / lane.steps)
        warm = event > events // 20
        if warm:
            total += np.sum(now - arrived[ended])
            count += len(ended)
        arrived[ended] = now
        waiting = len(ended)
        while waiting:
            packed = min(waiting, most)
            now += lane.pass_s(packed)
            first += packed * (now - arrived[ended[0]]) if warm else 0.0
            waiting -= packed
    return first / count, total / count


@pytest.mark.parametrize(
    ("batch", "steps", "most"), [(1, 20, 8), (8, 100, 8), (64, 100, 8), (64, 20, 8), (200, 20, 4), (256, 15, 128)]
)
def test_prompts_first_against_a_simulation(batch, steps, most):
    lane = Lane(batch, steps)
    pack = closed_forms.packing(batch, steps, most)
    found = closed_forms.prompts_first(
        batch,
        steps,
        lane.step_s,
        pack=pack,
        pass_s=lane.pass_s(min(pack.per_pass, most)),
        seen_pass_s=lane.pass_s(min(pack.seen, most)),
    )
    ttft_s, total_s = simulated_prompts_first(lane, most)
    assert found.total_s == pytest.approx(total_s, rel=0.03)
    assert found.ttft_s == pytest.approx(ttft_s, rel=0.06)


def simulated_chunks(lane, passes, mixed_s, events=200_000, seed=2):
    """Mean time in the system of requests whose prompts ride on the steps, a chunk of one prompt at a time."""
    rng = np.random.default_rng(seed)
    now, left = 0.0, np.zeros(lane.batch)
    queue, done, arrived = list(range(lane.batch)), 0, np.zeros(lane.batch)
    running = np.zeros(lane.batch, dtype=bool)
    total, count, work, riders, mixed = 0.0, 0, passes, 0, 0
    left[:] = rng.geometric(1 / lane.steps, lane.batch)
    for event in range(events):
        warm = event > events // 10
        if queue:
            now += mixed_s(running.sum())
            work -= 1
            riders, mixed = riders + running.sum(), mixed + 1
        else:
            now += lane.step_s
        left[running] -= 1
        ended = np.flatnonzero(running & (left <= 0))
        if warm:
            total, count = total + np.sum(now - arrived[ended]), count + len(ended)
        running[ended] = False
        arrived[ended] = now
        left[ended] = rng.geometric(1 / lane.steps, len(ended))
        if queue and work == 0:
            running[queue.pop(0)] = True
            work, done = passes, done + 1
        queue.extend(ended)
    return total / count, riders / mixed


@pytest.mark.parametrize(("batch", "steps", "passes"), [(1, 20, 4), (4, 60, 4), (64, 100, 16), (64, 200, 8)])
def test_chunks_against_a_simulation(batch, steps, passes):
    lane = Lane(batch, steps)

    def mixed_s(riders):
        return 0.05 + 1e-4 * riders

    made = closed_forms.chunks(batch, steps, 512 * passes, 512)
    found = closed_forms.chunked(batch, steps, lane.step_s, made=made, mixed_s=mixed_s(made.riders))
    total_s, riders = simulated_chunks(lane, passes, mixed_s)
    assert found.total_s == pytest.approx(total_s, rel=0.03)
    assert made.riders == pytest.approx(riders, rel=0.1, abs=0.2)


# Figures from outside: simulations of every step with the library's own pass times, made apart from it


@pytest.mark.parametrize(("prompt", "output", "tokens_per_s"), [(4000, 200, 1974), (8000, 256, 1132)])
def test_chunked_prefill_of_llama_8b(prompt, output, tokens_per_s):
    found = seen(rl.Deployment(LLAMA_8B, H100), rl.Workload(prompt, output, batch=64), chunk_tokens=512)
    assert found.tokens_per_s == pytest.approx(tokens_per_s, rel=1e-3)


def test_continuous_batching_saves_steps_and_no_prompts():
    """``(T_p + H_B (O - 1) s) / (T_p + (O - 1) s)``: 2.42 for 32 requests of 8,000 and 256 tokens, not H_B = 4.06."""
    serve, load = rl.Deployment(LLAMA_8B, H100), rl.Workload(8000, 256, batch=32)
    gain = rl.apply(serve, load, t.ContinuousBatching(), time="roofline_s").baseline_throughput_gain
    harmonic = sum(1 / place for place in range(1, 33))
    prompts_s = 32 * rl.prefill(serve, rl.Workload(8000)).roofline_s
    steps_s = 255 * rl.decode(serve, load, context_tokens=8127).roofline_s
    assert gain == pytest.approx((prompts_s + harmonic * steps_s) / (prompts_s + steps_s), rel=5e-3)
    assert gain == pytest.approx(2.42, abs=0.01)


def test_short_prompts_share_the_reads_of_the_weights():
    """64 prompts of 64 tokens are less than a step's budget: at the floor all of them cost what their FLOPs cost."""
    serve, load = rl.Deployment(LLAMA_8B, H100), rl.Workload(64, 16, batch=256)
    floor, roofline, estimate = (seen(serve, load, time) for time in TIMES)
    assert floor.requests_per_s >= roofline.requests_per_s >= estimate.requests_per_s
    weights = 32 * (2 * 4096 * (4096 + 1024) + 3 * 4096 * 14336)
    step_bytes = 2 * (weights + 4096 * 128_256)
    flops = 2 * weights * 64 + 15 * 2 * (weights + 4096 * 128_256)
    fastest = 989.4e12 * 1980 / 1830  # the data sheet's peak is at 1,830 MHz, the highest clock is 1,980
    compulsory = max(flops / fastest, 15 * step_bytes / 3.35e12 / 256)
    assert floor.requests_per_s == pytest.approx(1 / compulsory, rel=0.05)


# Metrics and questions that make no sense


def test_metrics_have_one_table():
    assert set(SLO_METRICS) == set(rl.SLO.__dataclass_fields__) - {"statistic"}
    found = seen(rl.Deployment(LLAMA_8B, H100))
    for metric in METRICS.values():
        assert np.ndim(metric.value(found)) == 0
        assert metric.of in ("request", "step", "deployment")
        assert metric.words
    with pytest.raises(rl.UnknownName, match="no metric named 'ttft'; did you mean 'ttft_s'"):
        metric_named("ttft")


def joined_by(function):
    """``max`` or ``min`` of any number of values that broadcast."""
    return lambda *values: reduce(function, values)


def test_derivations_give_their_values():
    serve = rl.Deployment(LLAMA_8B, H100)
    ways = ({}, {"chunk_tokens": 512}, {"slots_used": 0.4}, {"handover_bytes_per_s": 5e10})
    for time in TIMES:
        for fields in ways:
            for step in seen(serve, time=time, **fields).explain():
                scope = {"__builtins__": {}, "max": joined_by(np.maximum), "min": joined_by(np.minimum)}
                assert eval(step.formula, scope, dict(step.inputs)) == pytest.approx(step.value), step.name


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"techniques": [t.ChunkedPrefill(), t.Disaggregation()]}, "both decide how prompts meet running sequences"),
        ({"techniques": "prefix-caching", "hit_rate": 0.5}, "hit_rate and prefix caching both set"),
        ({"techniques": "kv-quantization", "kv": "fp8"}, "kv and KV-cache quantization both decide the format"),
        ({"techniques": "attention-dp"}, "attention data parallelism: no layout has it"),
        ({"techniques": "expert-parallelism"}, "expert parallelism: llama-3.1-8b has no routed experts"),
        ({"techniques": "speculating"}, "no technique named 'speculating'"),
        ({"hit_rate": 1.5}, "hit_rate must be a share from 0 to 1: 1.5"),
        ({"kv": "fp9"}, "no number format named 'fp9'"),
        ({"hardware": ["v100-sxm2-32gb"], "techniques": "sparsity"}, "v100-sxm2-32gb states no sparse peak for"),
    ],
)
def test_plans_with_techniques_that_do_not_combine(asked, says):
    asked = {"hardware": [H100]} | asked
    with pytest.raises(rl.RooflineError, match=says):
        rl.plan(LLAMA_8B, asked.pop("hardware"), rl.Workload(1500, 300), **asked)


def test_hardware_that_cannot_have_a_technique_is_left_out():
    found = rl.plan(LLAMA_8B, [H100, "v100-sxm2-32gb"], rl.Workload(1500, 300), techniques="sparsity")
    assert set(found.accelerator) == {"h100-sxm"}
    assert any(note.startswith("v100-sxm2-32gb is not considered: 2:4 sparsity") for note in found.assumptions)


def test_plans_with_a_cache_format_an_engine_and_a_hit_rate():
    load, asked = rl.Workload(4000, 300, batch=32), {"accelerators": (1,), "batches": [32]}
    plain = rl.plan(LLAMA_8B, [H100], load, **asked)
    fp8 = rl.plan(LLAMA_8B, [H100], load, kv="fp8", **asked)
    assert fp8.max_batch[0] == rl.memory(rl.quantize(rl.Deployment(LLAMA_8B, H100), kv="fp8"), load).max_batch
    assert plain.precision[0] == "bf16"
    assert fp8.precision[0] == "bf16, kv fp8"
    sglang = rl.plan(LLAMA_8B, [H100], load, engine="sglang", **asked)
    assert sglang.tpot_s[0] == seen(rl.Deployment(LLAMA_8B, H100, engine="sglang"), load, "estimate_s").tpot_s
    hits = rl.plan(LLAMA_8B, [H100], load, hit_rate=0.75, **asked)
    cached = seen(rl.Deployment(LLAMA_8B, H100), rl.Workload(1000, 300, 32, cached_tokens=3000), "estimate_s")
    assert hits.ttft_s[0] == pytest.approx(cached.ttft_s)
    assert hits.max_batch[0] == plain.max_batch[0]


# Sensitivities of requests


def test_an_engine_is_kept_when_an_input_does_not_change():
    serve = rl.Deployment(LLAMA_70B, H100, parallel=rl.Parallel(tensor=8), engine="vllm")
    for phase in (rl.decode(serve, rl.Workload(batch=8)), rl.prefill(serve, rl.Workload())):
        found = rl.sensitivity(phase, time="estimate_s")
        for name in ("bandwidth", "links", "weight_bits", "batch"):
            assert found.ratio(name, 1.0) == pytest.approx(1.0, rel=1e-12), name


@pytest.mark.parametrize("metric", ["ttft_s", "tpot_s", "total_s", "tokens_per_s"])
def test_rates_account_for_all_of_a_request(metric):
    serve = rl.Deployment(LLAMA_70B, H100, parallel=rl.Parallel(tensor=8))
    found = rl.sensitivity(seen(serve), metric=metric).elasticity
    rates = sum(value for name, value in found.items() if name in ("bandwidth", "links") or name.startswith("peak"))
    assert rates == pytest.approx(1 if metric == "tokens_per_s" else -1, abs=2e-3)


def test_twice_the_bandwidth_for_requests_is_the_faster_chip():
    serve = rl.Deployment(LLAMA_8B, H100)
    faster = serve.replace(accelerator=H100.replace(memory_bytes_per_s=2 * H100.memory_bytes_per_s))
    ratio = rl.sensitivity(seen(serve), metric="tpot_s").ratio("bandwidth", 2)
    assert ratio == pytest.approx(seen(faster).tpot_s / seen(serve).tpot_s)


def test_sensitivity_of_requests_needs_a_latency_or_a_throughput():
    with pytest.raises(rl.UnknownName, match="no metric named 'max_batch'"):
        rl.sensitivity(seen(rl.Deployment(LLAMA_8B, H100)), metric="max_batch")


def test_experts_of_prompts_divided_over_a_context_group_take_part_of_the_pass():
    """Each accelerator of a context group has a part of the prompt's tokens, in the experts as well."""
    parallel = rl.Parallel(tensor=4, data=8, expert=32, context=4)
    serve = rl.Deployment("gemma-4-26b-a4b", "b200-sxm", parallel=parallel, engine="trtllm")
    requests = steady_state(Scenario(serve, rl.Workload(100_000, 40, batch=2)), time="estimate_s")
    prompt = requests.passes.prompt
    assert 0 < experts_of_ranks_s(requests.case, 100_000) < prompt.seconds("estimate_s")
    floor = steady_state(requests.case, time="floor_s")
    assert requests.ttft_s > floor.ttft_s
