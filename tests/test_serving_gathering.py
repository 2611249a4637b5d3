"""Prompts that gather while the next requests are on their way, and the closed form against simulations.

Lengths are all integers of a range: with a few lengths on a lattice, ends of requests keep falling on the same steps.
"""

from collections import deque

import numpy as np
import pytest

import roofline as rl
from roofline.serving import closed_forms
from roofline.serving.gathering import gathering
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
    found = gathering(at_once, batch, steps, away_steps=away, pass_steps=lasts)
    drawn = drawn_passes(ends_per_step, away, lasts)
    assert ends_per_step / float(found.per_pass) == pytest.approx(drawn, rel=0.08)


def test_nothing_gathers_without_handling_or_without_others():
    at_once = closed_forms.packing(64, 99, 8)
    assert gathering(at_once, 64, 99, away_steps=0.0, pass_steps=5.0) == at_once
    alone = closed_forms.packing(1, 99, 8)
    assert list(gathering(alone, 1, 99, away_steps=4.0, pass_steps=5.0)) == pytest.approx(list(alone), abs=1e-12)


@pytest.mark.parametrize("ranks", [1, 4, 8])
@pytest.mark.parametrize("prompt_tokens", [200, 1000, 4000])
@pytest.mark.parametrize("clients", [8, 64, 256])
def test_sglang_in_closed_form_is_within_8_percent_of_its_simulation(ranks, prompt_tokens, clients):
    """SGLang takes 72 ms to hand a request to its scheduler, several decode steps; successors gather meanwhile."""
    serve, load = deepseek("sglang", ranks), spread(prompt_tokens, 300, 0.2)
    form = rl.serve(serve, load, concurrency=clients)
    rate, tpot_s, ttft_s = in_the_middle(rl.simulate(serve, load, concurrency=clients, requests=20 * clients))
    assert float(form.requests_per_s) == pytest.approx(rate, rel=0.08)
    assert float(form.tpot_s) == pytest.approx(tpot_s, rel=0.08)
    assert float(form.ttft_s) == pytest.approx(ttft_s, rel=0.1)


@pytest.mark.parametrize("ranks", [1, 8])
@pytest.mark.parametrize("clients", [8, 256])
def test_the_steady_state_of_plans_gathers_prompts_as_serve_does(ranks, clients):
    serve = deepseek("sglang", ranks)
    seen = steady_state(Scenario(serve, rl.Workload(1000, 300, clients)))
    form = rl.serve(serve, spread(1000, 300, 0.2), concurrency=clients)
    assert seen.requests_per_s == pytest.approx(float(form.requests_per_s), rel=0.05)
    floor = steady_state(seen.case, time="floor_s")
    assert floor.total_s == pytest.approx(seen.at("floor_s").total_s, rel=1e-12)
