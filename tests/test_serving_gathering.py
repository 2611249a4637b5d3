"""Prompts that gather on their way, spread lengths on coupled ranks, and the closed form against simulations.

Lengths are all integers of a range: with a few lengths on a lattice, ends of requests keep falling on the same steps.
"""

from collections import deque

import numpy as np
import pytest

import roofline as rl
from roofline.serving import closed_forms
from roofline.serving.busiest import busiest, highest_of
from roofline.serving.gathering import gathering, met_at_rate, wait_for_step
from roofline.serving.lengths import Lengths
from roofline.serving.scenario import Scenario
from roofline.serving.steady_state import steady_state

FP4 = rl.Precision(weights="nvfp4", activations="nvfp4", kv="fp8", exceptions={"attention": "bf16"})


def deepseek(engine, ranks):
    """DeepSeek-V3 on B200: on coupled replicas of attention, or on one replica of eight devices."""
    parallel = rl.Parallel(data=ranks, expert=ranks) if ranks > 1 else rl.Parallel(tensor=8)
    return rl.Deployment("deepseek-v3", "b200-sxm", FP4, parallel=parallel, engine=engine)


def spread(prompt_tokens, output_tokens, width):
    """Lengths spread evenly over a range of +-``width``, prompts independent of outputs."""
    low, high = (round(output_tokens * (1 + sign * width)) for sign in (-1, 1))
    outputs = np.tile(np.arange(low, high + 1), max(1, 2000 // (high + 1 - low)))
    prompts = np.linspace(prompt_tokens * (1 - width), prompt_tokens * (1 + width), len(outputs))
    return rl.Traffic(np.random.default_rng(7).permutation(prompts), outputs, np.ones(len(outputs)))


def in_the_middle(run):
    """Throughput and times to first token and per token of requests that end between 30 and 85 % of a run."""
    record = run.requests
    finish, first, sent, output = (np.array(getattr(record, name)) for name in ("finish", "first", "arrival", "output"))
    begin, end = np.quantile(finish, (0.3, 0.85))
    inside = (finish > begin) & (finish <= end)
    tpot_s = (finish - first)[inside] / (output[inside] - 1)
    return inside.sum() / (end - begin), tpot_s.mean(), (first - sent)[inside].mean() + run.late_s


def drawn_passes(ends_per_step, away, lasts, steps=40_000):
    """Passes per decode step: every step ends some requests, whose successors arrive ``away`` steps later."""
    ends = np.random.default_rng(0).poisson(ends_per_step, steps)
    now, at, passes, on_their_way = 0.0, 0, 0, deque()
    while at < steps:
        waiting = False
        while on_their_way and on_their_way[0] <= now:
            on_their_way.popleft()
            waiting = True
        if waiting:
            now, passes = now + lasts, passes + 1
        else:
            now += 1.0
            if ends[at]:
                on_their_way.append(now + away)
            at += 1
    return passes / steps


@pytest.mark.parametrize("away", [0.0, 1.5, 3.5, 7.5])
@pytest.mark.parametrize("lasts", [0.7, 4.0, 9.3])
@pytest.mark.parametrize("ends_per_step", [0.05, 0.5, 2.0])
def test_passes_of_gathered_prompts_are_as_many_as_drawn(away, lasts, ends_per_step):
    batch, steps = 1000 * ends_per_step, 1000.0
    at_once = closed_forms.packing(batch, steps, 1e9)
    found = gathering(at_once, batch, steps, away_steps=away, first_steps=lasts, pass_steps=lasts)
    drawn = drawn_passes(ends_per_step, away, lasts)
    assert ends_per_step / float(found.per_pass) == pytest.approx(drawn, rel=0.08)


def test_nothing_gathers_without_handling_or_without_others():
    at_once, alone = (closed_forms.packing(batch, 99, 8) for batch in (64, 1))
    passes = {"first_steps": 5.0, "pass_steps": 5.0}
    assert gathering(at_once, 64, 99, away_steps=0.0, **passes) == at_once
    assert list(gathering(alone, 1, 99, away_steps=4.0, **passes)) == pytest.approx(list(alone), abs=1e-12)


@pytest.mark.parametrize("away", [0.0, 0.3, 2.6, 5.5])
@pytest.mark.parametrize("share", [0.1, 0.6])
def test_an_arrival_waits_for_the_step_in_progress_as_drawn(away, share):
    lasts = 4.0
    steps = np.where(np.random.default_rng(0).random(400_000) < share, lasts, 1.0)
    ends = np.concatenate([[0.0], np.cumsum(steps)])
    arrivals = ends[:-100] + away
    waits = ends[np.searchsorted(ends, arrivals)] - arrivals
    assert float(wait_for_step(away, lasts, share)) == pytest.approx(
        waits.mean(), rel=0.03 if away < lasts else 0.25, abs=1e-9
    )


@pytest.mark.parametrize(("rate", "further_s"), [(2.0, 0.0), (8.0, 0.0), (8.0, 0.03), (12.0, 0.02)])
def test_prompts_that_come_at_any_time_meet_in_passes_as_drawn(rate, further_s):
    """Passes of 0.1 s and more for further prompts, between steps of 0.02 s, until 20,000 passes have been."""
    rng = np.random.default_rng(0)
    passes, prompts, steps, last_s = 0, 0, 0, 0.02
    while passes < 20_000:
        arrived = rng.poisson(rate * last_s)
        passes, prompts, steps = passes + (arrived > 0), prompts + arrived, steps + (arrived == 0)
        last_s = 0.1 + (arrived - 1) * further_s if arrived else 0.02
    found = met_at_rate(rate, 0.02, one_s=0.1, further_s=further_s)
    assert float(found.prompts) == pytest.approx(prompts / passes, rel=0.03)
    assert float(found.begins * found.row) == pytest.approx(passes / steps, rel=0.05)


@pytest.mark.parametrize(("engine", "ranks"), [("trtllm", 1), ("trtllm", 8), ("sglang", 8)])
@pytest.mark.parametrize(("load", "within"), [(0.1, 0.05), (0.3, 0.08)])
def test_replicas_at_a_low_load_are_as_simulated(engine, ranks, load, within):
    """Prompts of 2,000 to 6,000 tokens come at any time and stall the tokens of all replicas."""
    serve, lengths = deepseek(engine, ranks), spread(4000, 300, 0.5)
    rate = load * float(rl.serve(serve, lengths, concurrency=1).capacity_requests_per_s)
    form = rl.serve(serve, lengths, requests_per_s=rate, method="closed-form")
    _, tpot_s, ttft_s = in_the_middle(rl.simulate(serve, lengths, requests_per_s=rate, requests=8000))
    assert float(form.tpot_s) == pytest.approx(tpot_s, rel=within)
    assert float(form.ttft_s) == pytest.approx(ttft_s, rel=within)


@pytest.mark.parametrize("prompts", [1, 2, 5, 20, 60])
@pytest.mark.parametrize("draw", ["uniform", "log-normal"])
def test_tokens_of_the_busiest_rank_are_as_drawn(prompts, draw):
    """Lengths of 0.1 to 1.9 mean prompts, or log-normal ones whose deviation is their mean; all or cut at 1.5."""
    rng, uniform = np.random.default_rng(0), draw == "uniform"
    variation = 0.9 / np.sqrt(3.0) if uniform else 1.0
    most = []
    for _ in range(4000):
        tokens = rng.uniform(0.1, 1.9, prompts) if uniform else rng.lognormal(-np.log(2) / 2, np.log(2) ** 0.5, prompts)
        most.append(np.bincount(rng.integers(0, 8, prompts), weights=tokens, minlength=8).max())
    assert float(busiest(prompts, 8, variation)) == pytest.approx(np.mean(most), rel=0.04)
    cut = np.minimum(most, 1.5)
    assert float(busiest(prompts, 8, variation, most=1.5)) == pytest.approx(cut.mean(), rel=0.07)


def test_contexts_in_progress_are_those_of_long_outputs():
    """By drawing tokens of requests, each as often as it generates any."""
    load = spread(1000, 600, 0.5)
    outputs = np.repeat(load.output_tokens, load.output_tokens.astype(int))
    prompts = np.repeat(load.prompt_tokens, load.output_tokens.astype(int))
    context = prompts + np.random.default_rng(0).random(len(outputs)) * outputs
    lengths = Lengths.of(load, 0.0)
    assert float(lengths.context) == pytest.approx(context.mean(), rel=0.01)
    assert float(lengths.context_deviation) == pytest.approx(context.std(), rel=0.02)
    assert highest_of(1) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(("engine", "ranks"), [("sglang", 1), ("sglang", 8), ("trtllm", 1), ("trtllm", 8), ("vllm", 8)])
@pytest.mark.parametrize("prompt_tokens", [200, 1000, 4000])
@pytest.mark.parametrize("clients", [8, 256])
def test_the_closed_form_is_within_8_percent_of_the_simulation(engine, ranks, prompt_tokens, clients):
    """SGLang runs prompts first and takes 36 ms, one to five decode steps, to hand a request to its scheduler."""
    serve, load = deepseek(engine, ranks), spread(prompt_tokens, 300, 0.5)
    form = rl.serve(serve, load, concurrency=clients)
    rate, tpot_s, ttft_s = in_the_middle(rl.simulate(serve, load, concurrency=clients, requests=20 * clients))
    assert float(form.requests_per_s) == pytest.approx(rate, rel=0.08)
    assert float(form.tpot_s) == pytest.approx(tpot_s, rel=0.08)
    assert float(form.ttft_s) == pytest.approx(ttft_s, rel=0.2)


@pytest.mark.parametrize("engine", ["sglang", "trtllm", "default"])
@pytest.mark.parametrize("width", [0.2, 0.9])
def test_ranks_wait_for_the_longest_prompts_as_simulated(engine, width):
    """Four and eight ranks at 1,024 clients, where every step has prompts, and prompts of 400 to 7,600 tokens."""
    for ranks, prompt_tokens, clients in ((8, 1000, 1024), (4, 4000, 256), (8, 4000, 64)):
        serve, load = deepseek(engine, ranks), spread(prompt_tokens, 300, width)
        form = rl.serve(serve, load, concurrency=clients)
        rate, tpot_s, _ = in_the_middle(rl.simulate(serve, load, concurrency=clients, requests=20 * clients))
        assert float(form.requests_per_s) == pytest.approx(rate, rel=0.08)
        assert float(form.tpot_s) == pytest.approx(tpot_s, rel=0.08)


def test_prompts_of_other_ranks_hold_up_tokens_and_count_as_prompts():
    """The delay of first tokens is in plain decode steps, 18 ms; steps stalled by prompts of others are none."""
    run = rl.simulate(deepseek("trtllm", 8), spread(200, 300, 0.5), concurrency=256, requests=2560)
    times = rl.serve(run.deployment, run.load, concurrency=256).origin[1]
    plain_s = float(times.decode_s(32, 350))
    assert run.late_s == pytest.approx(rl.Engine("trtllm").first_token_steps * plain_s, rel=0.1)
    assert run.prefill_share > 0.5


@pytest.mark.parametrize("ranks", [1, 8])
@pytest.mark.parametrize("clients", [8, 256])
def test_the_steady_state_of_plans_gathers_prompts_as_serve_does(ranks, clients):
    serve = deepseek("sglang", ranks)
    seen = steady_state(Scenario(serve, rl.Workload(1000, 300, clients)))
    form = rl.serve(serve, spread(1000, 300, 0.2), concurrency=clients)
    assert seen.requests_per_s == pytest.approx(float(form.requests_per_s), rel=0.05)
    floor = steady_state(seen.case, time="floor_s")
    assert floor.total_s == pytest.approx(seen.at("floor_s").total_s, rel=1e-12)
