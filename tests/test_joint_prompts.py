"""Prefill workers of a plan whose ranks share experts: joint passes against hand calculations and simulations."""

from math import exp

import numpy as np
import pytest

import roofline as rl
from roofline.capacity.joint_prompts import JointPasses
from roofline.capacity.pool_queues import prompt_pool
from roofline.capacity.queues import Stream
from roofline.techniques.batching import Disaggregation
from roofline.techniques.technique import scenario_with

ONE = np.array([1])
FP8 = rl.Precision("fp8", "fp8", "bf16")


def joint(whole_s, experts_s=(0.0, 0.0, 0.0), loads=(0.5, 1.0, 64.0), most=64, **options):
    return JointPasses(2, most, np.array(loads), np.array(whole_s), np.array(experts_s), **options)


def seen_s(passes, rate, statistic):
    return float(sum(passes.times_s(np.array(rate), rl.SLO(statistic=statistic))))


def test_prompts_wait_for_the_pass_in_progress():
    # Passes of 100 ms however many prompts they have, at 10/s: a = 1, and P(busy) = 1 / (1 + 1/e) = 0.731.
    passes = joint((0.1, 0.1, 0.1))
    busy = 1.0 / (1.0 + exp(-1.0))
    assert seen_s(passes, 10.0, "mean") == pytest.approx(0.1 + busy * 0.05, rel=0.01)
    # The wait is even from 0 to 100 ms: 5 % of all wait longer than 1 - 0.05 / 0.731 of a pass.
    assert seen_s(passes, 10.0, "p95") == pytest.approx(0.1 + 0.1 * (1.0 - 0.05 / busy), rel=0.03)
    assert seen_s(passes, 0.01, "mean") == pytest.approx(0.1, rel=0.01)


def test_experts_have_the_tokens_of_all_ranks_and_the_rest_those_of_the_busiest():
    # 60 ms per prompt of a rank, 40 of them in experts: one prompt on two ranks takes 20 + 40 / 2 ms, two take 60.
    passes = joint((0.03, 0.06, 0.12), (0.02, 0.04, 0.08), (0.5, 1.0, 2.0), most=2)
    assert passes.least_s == pytest.approx(0.04)
    assert float(passes.pass_s(np.array(2.0), np.array(1.0))) == pytest.approx(0.06)
    assert float(passes.pass_s(np.array(2.0), np.array(2.0))) == pytest.approx(0.08)
    assert passes.capacity == pytest.approx(1 / 0.06)  # all ranks full, whose prompts line up


def worker(engine):
    return rl.Deployment("deepseek-r1", "h200-sxm", FP8, parallel=rl.Parallel(data=8, expert=8), engine=engine)


def planned(engine, prompt_tokens):
    load = rl.Workload(prompt_tokens, 200, batch=np.array([[64.0]]))
    case = scenario_with(worker(engine), load, (Disaggregation(),))
    return prompt_pool(case, Stream(1.0, rl.Workload(prompt_tokens, 2)), "estimate_s")


def simulated(engine, prompt_tokens, rate, requests=2500):
    """Time until the cache of each prompt is transferred, and the rate at which prompts ended."""
    one = worker(engine)
    load = rl.Workload(prompt_tokens, 2)
    found = rl.serve_pools(load, prefill=one, decode=one, requests_per_s=rate, requests=requests, seed=1)
    first, arrival = np.asarray(found.requests.first), np.asarray(found.requests.arrival)
    return first - arrival - found.decode_queue_s, requests / (max(found.requests.finish) - arrival[0])


@pytest.mark.parametrize("engine", ["sglang", "trtllm"])
@pytest.mark.parametrize(
    ("prompt_tokens", "ttft_s", "statistic"),
    [(1000, 0.4, "mean"), (1000, 0.75, "p95"), (4000, 1.25, "mean"), (4000, 2.4, "p95")],
)
def test_a_planned_prefill_worker_carries_what_a_simulated_one_does(engine, prompt_tokens, ttft_s, statistic):
    """DeepSeek-R1 on eight H200, whose ranks share experts: the rate at a TTFT target is right within 10 %."""
    slo = rl.SLO(ttft_s=ttft_s / 0.95, statistic=statistic)  # 5 % of the target is kept for decode workers
    rate = float(planned(engine, prompt_tokens).carried(ONE, slo, 0.95)[0, 0])

    def seen(times):
        found, _ = simulated(engine, prompt_tokens, times * rate)
        return found.mean() if statistic == "mean" else np.quantile(found, 0.95)

    assert seen(0.9) < ttft_s < seen(1.1)


@pytest.mark.parametrize("engine", ["sglang", "trtllm"])
@pytest.mark.parametrize("prompt_tokens", [1000, 4000])
def test_the_capacity_of_a_prefill_worker_is_that_of_a_simulated_one(engine, prompt_tokens):
    capacity = 8 * float(planned(engine, prompt_tokens).capacity[0])
    assert simulated(engine, prompt_tokens, 2 * capacity)[1] == pytest.approx(capacity, rel=0.05)


def test_bounds_do_not_wait():
    load = rl.Workload(1000, 200, batch=np.array([[64.0]]))
    case = scenario_with(worker("sglang"), load, (Disaggregation(),))
    assert prompt_pool(case, None, "floor_s").joint == ()
