"""Plans and fleets at a rate: queues held against a queue known by hand, simulations and what an SLO means."""

import numpy as np
import pytest

import roofline as rl
from roofline.capacity.queues import can_be_simulated

H100 = rl.get_accelerator("h100-sxm")
CHAT = rl.Workload(1500, 300)
PROMISE = rl.SLO(ttft_s=1.0, statistic="p99")


@pytest.fixture(scope="module")
def seventy():
    """Llama 3.1 70B in fp8 on two H100 that share every layer, as many sequences as fit."""
    asked = {"precisions": ["fp8"], "accelerators": [2], "engine": "vllm"}
    found = rl.plan("llama-3.1-70b", H100, CHAT, batches=[128], **asked)
    return found.take([found.layout.tolist().index("TP 2")])


def test_waits_grow_with_the_load_as_was_found_by_hand(seventy):
    """TTFT of a prototype: mean and p99 0.18 and 0.67 s at a load of 0.70, 0.42 and 3.9 at 0.85, 17.8 and 32.7 at 1.

    It counted neither the handling of requests nor the steps that a first token takes to appear, some 0.15 s, and it
    had fewer slots, so that the slowest requests waited at 0.85 already; waits at 1 depend on the length of the run.
    A promise of 1 s holds at 0.70 for 99 of 100 requests, and at 1 not at all.
    """
    case = seventy.scenario()
    capacity = 1 / float(seventy.busy_s[0])
    serve = case.serve.replace(engine=rl.Engine("vllm", max_sequences=128))
    found = {}
    for load in (0.70, 0.85, 1.0):
        run = rl.simulate(serve, CHAT, requests_per_s=load * capacity, requests=4000)
        found[load] = run.ttft_s, run.quantile("ttft_s", 0.99)
    assert found[0.70] == pytest.approx((0.18 + 0.15, 0.67 + 0.15), rel=0.3)
    assert found[0.85][0] == pytest.approx(0.42, rel=0.3)
    assert found[0.70][1] < found[0.85][1]
    assert found[1.0][0] > 10.0


def test_a_fleet_keeps_the_promise_that_full_deployments_break(seventy):
    """At full load the rate takes fewer deployments, and a simulation of them breaks the promise."""
    plan = rl.plan("llama-3.1-70b", H100, CHAT, slo=PROMISE, precisions=["fp8"], accelerators=[2], batches=[128])
    need = rl.fleet(plan, requests_per_s=40)
    assert need.queue[0] == "simulation"
    at_full_load = np.ceil(40 * need.plan.busy_s[0])
    assert need.replicas[0] > at_full_load
    serve = need.plan.deployment()
    engine = serve.server.replace(max_sequences=128)
    for replicas, kept in ((need.replicas[0], True), (at_full_load, False)):
        run = rl.simulate(serve.replace(engine=engine), CHAT, requests_per_s=40 / replicas, requests=2000)
        assert (run.quantile("ttft_s", 0.99) <= 1.0) == kept
        if kept:
            assert need.ttft_s[0] == pytest.approx(run.quantile("ttft_s", 0.99))
    assert need.ttft_low_s[0] < need.ttft_s[0] < need.ttft_high_s[0]


def test_the_statistic_of_the_slo_decides_how_much_is_needed():
    sizes = []
    for statistic in ("mean", "p50", "p95", "p99"):
        slo = rl.SLO(ttft_s=0.4, tpot_s=0.05, statistic=statistic)
        plan = rl.plan("llama-3.1-70b", H100, CHAT, slo=slo, precisions=["fp8"], accelerators=[2])
        sizes.append(rl.fleet(plan, requests_per_s=60, method="closed-form").replicas[0])
    assert sizes[1] <= sizes[0] <= sizes[2] <= sizes[3]
    assert sizes[1] < sizes[3]
    assert rl.SLO().statistic == "p95"


def test_without_an_slo_a_deployment_is_loaded_with_70_percent():
    plan = rl.plan("llama-3.1-8b", H100, CHAT, accelerators=[1], batches=[64])
    need = rl.fleet(plan, requests_per_s=100)
    assert need.utilization == 0.7
    assert need.replicas[0] == pytest.approx(np.ceil(100 * plan.busy_s[0] / 0.7), abs=1)
    assert need.load[0] <= 0.7


def test_bursts_take_more_and_the_closed_form_is_near_the_simulation():
    slo = rl.SLO(ttft_s=0.5, tpot_s=0.04)
    plan = rl.plan("llama-3.1-8b", H100, CHAT, slo=slo, accelerators=[1])
    even, bursts = (
        rl.fleet(plan, requests_per_s=200, burstiness=burstiness, method="closed-form") for burstiness in (1.0, 16.0)
    )
    assert bursts.gpus[0] > even.gpus[0]
    confirmed = rl.fleet(plan, requests_per_s=200)
    assert confirmed.gpus[0] == pytest.approx(even.gpus[0], rel=0.25)
    assert confirmed.ttft_s[0] <= 0.5
    assert confirmed.tpot_s[0] <= 0.04


def test_a_plan_at_a_rate_is_ranked_by_the_fleet_and_gives_the_same_one():
    slo = rl.SLO(tpot_s=0.03)
    asked = ("llama-3.1-8b", [H100, "l40s"], CHAT)
    prices = {"h100-sxm": 2.5, "l40s": 0.9}
    how = {"slo": slo, "accelerators": [1], "prices": prices}
    sized = rl.plan(*asked, requests_per_s=40, method="closed-form", **how)
    need = rl.fleet(sized)
    same = rl.fleet(rl.plan(*asked, **how), requests_per_s=40, method="closed-form")
    assert need.rows() == same.rows()
    assert sized.replicas[0] == need.replicas[0]
    assert sized.utilization[0] == pytest.approx(40 / need.replicas[0] * sized.busy_s[0])
    assert np.all(np.diff(sized.fleet_cost[sized.feasible]) >= 0)
    assert "40 requests/s need" in sized.summary()
    with pytest.raises(rl.InvalidInput, match="the plan is for 40 requests/s: 50"):
        rl.fleet(sized, requests_per_s=50)


def test_lengths_may_be_a_mix_or_a_trace(tmp_path):
    mix = rl.Traffic.of([(200, 100, 1), (2800, 500, 1)])
    slo = rl.SLO(ttft_s=0.5)
    how = {"slo": slo, "accelerators": [1], "batches": [64], "requests_per_s": 30}
    mixed = rl.plan("llama-3.1-8b", H100, mix, **how)
    assert (mixed.load.prompt_tokens, mixed.load.output_tokens) == (1500, 300)
    assert mixed.queue[0] == "simulation"
    path = tmp_path / "trace.csv"
    rows = [f"{second * 0.1:.1f},1500,300" for second in range(300)]
    path.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *rows]))
    trace = rl.read_trace(path)
    even = rl.plan("llama-3.1-8b", H100, trace, slo=slo, accelerators=[1], batches=[64])
    assert even.stream.requests_per_s == pytest.approx(10)
    assert even.stream.gaps_cv2 == pytest.approx(0, abs=1e-6)
    assert even.replicas[0] >= 1


def test_what_cannot_be_simulated_is_answered_by_the_closed_form():
    plan = rl.plan("llama-3.1-8b", H100, CHAT, techniques="speculative", accelerators=[1], batches=[16])
    assert not can_be_simulated(plan.scenario())
    assert rl.fleet(plan, requests_per_s=20).queue[0] == "closed-form"
    cached = rl.plan("llama-3.1-8b", H100, CHAT, hit_rate=0.5, accelerators=[1], batches=[16])
    assert can_be_simulated(cached.scenario())


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"requests_per_s": 0}, "requests_per_s must be a finite number"),
        ({"requests_per_s": 1, "utilization": 1.5}, "utilization must be from 0.001 to 1: 1.5"),
        ({"requests_per_s": 1, "method": "guess"}, "no method named 'guess'"),
        ({"requests_per_s": 1, "burstiness": -1}, "burstiness must be a finite number >= 0"),
        ({"slo": "p95"}, "no statistic named 'p90'"),
    ],
)
def test_rates_that_make_no_sense(how, says):
    if "slo" in how:
        with pytest.raises(rl.UnknownName, match=says):
            rl.SLO(statistic="p90")
        return
    with pytest.raises(rl.RooflineError, match=says):
        rl.plan("llama-3.1-8b", H100, CHAT, accelerators=[1], batches=[16], **how)
    with pytest.raises(rl.InvalidInput, match="a fleet needs requests_per_s: the plan has no rate"):
        rl.fleet(rl.plan("llama-3.1-8b", H100, CHAT, accelerators=[1], batches=[16]))


def test_equal_fleets_are_ranked_by_latency():
    """At a sixth of its capacity one H100 serves every request at once. With a target for TPOT alone, a request must
    not wait for a place in a small batch, although that leaves headroom in TPOT.

    By hand: a prompt of 2,000 tokens takes 2 x 7e9 x 2,000 / 989e12 = 28 ms at the peak, some 50 ms in practice; waits
    for a step and another prompt at a load of 0.2 are of the same size.
    """
    load = rl.Workload(2000, 256)
    best = rl.plan("llama-3.1-8b", H100, load, requests_per_s=2.0, slo=rl.SLO(tpot_s=0.05)).best
    assert float(best.replicas[0] * best.gpus[0]) == 1.0
    assert float(best.ttft_s[0]) < 0.2
    seconds = float(best.ttft_s[0]) + 255 * float(best.tpot_s[0])
    assert float(best.batch[0]) > 2 * 2.0 * seconds, "twice the mean number of requests (Little's law)"


def test_the_smaller_fleet_wins_over_the_shorter_latency():
    """Small batches, which queue but keep TPOT, are still tried: more batches to choose from never need more fleets."""
    asked = {"requests_per_s": 10.0, "slo": rl.SLO(tpot_s=0.05), "accelerators": [2]}
    every = rl.plan("llama-3.1-70b", "h200-sxm", rl.Workload(2000, 256), **asked)
    small = rl.plan("llama-3.1-70b", "h200-sxm", rl.Workload(2000, 256), batches=np.arange(1, 27), **asked)
    assert float(every.best.replicas[0]) <= float(small.best.replicas[0])
