"""Pools of prefill and decode workers beside the deployments of a plan: queues, sizes, costs."""

import numpy as np
import pytest

import roofline as rl
from roofline.capacity.pool_queues import PromptPool

LOAD = rl.Workload(4000, 300)
SLO = rl.SLO(ttft_s=2.0, tpot_s=0.05)


def prompts(pass_s, counts=(1.0,), *, lanes=1.0, work_cv2=0.0):
    one = np.array([1.0])
    return PromptPool(
        gpus=one,
        lanes=lanes * one,
        fits=np.array([True]),
        counts=np.array(counts),
        pass_s=np.array([pass_s]),
        low=one,
        high=one,
        handover_s=0.0 * one,
        gaps_cv2=1.0,
        work_cv2=work_cv2,
    )


def ttft(pool, rate, workers, statistic):
    return float(pool.ttft_s(np.array([[rate]]), np.array([workers]), rl.SLO(statistic=statistic))[0, 0])


def test_one_prefill_worker_is_an_m_d_1_queue():
    # Pollaczek and Khinchine: a wait of rho s / (2 (1 - rho)) = 0.5 * 0.1 / (2 * 0.5) = 50 ms before a pass of 100 ms.
    assert ttft(prompts([0.1]), 5.0, 1, "mean") == pytest.approx(0.15)


def test_two_prefill_workers_are_close_to_erlang():
    # M/M/2 at rho = 0.8: C = 2 rho^2 / (1 + rho) = 0.711, and a mean wait of C / (2 mu - r) = 0.711 / (20 - 16) s.
    wait_s = ttft(prompts([0.1], work_cv2=1.0), 16.0, 2, "mean") - 0.1
    assert wait_s == pytest.approx(2 * 0.64 / 1.8 / 4.0, rel=0.03)
    # P(T > t) = C exp(-(2 mu - r) t), so a share of 5 % waits longer than ln(C / 0.05) / 4.
    assert ttft(prompts([0.1], work_cv2=1.0), 16.0, 2, "p95") - 0.1 == pytest.approx(
        np.log(0.711 / 0.05) / 4.0, rel=0.03
    )


def test_prompts_that_come_faster_than_one_at_a_time_share_passes():
    # Passes of 100 ms for one prompt and 160 ms for two: 12/s are more than 10 by themselves and fewer than 12.5.
    pool = prompts([0.1, 0.16], (1.0, 2.0))
    assert ttft(pool, 12.0, 1, "mean") > 0.15
    assert float(pool.carried(np.array([1]), rl.SLO(), 0.95)[0, 0]) == pytest.approx(0.95 * 2 / 0.16)


@pytest.fixture(scope="module")
def at_rate():
    return rl.plan("llama-3.1-70b", "h100-sxm", LOAD, slo=SLO, requests_per_s=10, prices={"h100-sxm": 2.5})


@pytest.fixture(scope="module")
def pools(at_rate):
    return rl.disaggregate(at_rate)


def test_pools_meet_the_slo_in_a_simulation_of_their_own(pools):
    group = pools.groups[0]
    found = rl.serve_pools(
        LOAD,
        prefill=group.prefill,
        decode=group.decode,
        prefill_workers=group.prefill_workers,
        decode_workers=group.decode_workers,
        requests_per_s=10 / group.replicas,
        requests=2000,
        seed=5,
    )
    assert pools.queue[0] == "simulation"
    # TTFT takes few values, those of a prompt behind none, one or two others, and the share within 2 s varies by seed.
    assert found.quantile("ttft_s", 0.9) < SLO.ttft_s
    assert found.quantile("tpot_s", 0.95) < SLO.tpot_s
    assert found.quantile("tpot_s", 0.95) == pytest.approx(pools.tpot_s[0], rel=0.1)


def test_both_ways_are_counted_in_the_same_accelerators_and_dollars(at_rate, pools):
    group = pools.groups[0]
    prefill = group.prefill_workers * group.prefill.parallel.accelerators
    decode = group.decode_workers * group.decode.parallel.accelerators
    assert pools.gpus[0] == group.replicas * (prefill + decode)
    assert pools.usd_per_hour[0] == 2.5 * pools.gpus[0]
    assert pools.aggregated_gpus[0] == at_rate.gpus[0] * at_rate.replicas[0]
    assert pools.cost_ratio[0] == pytest.approx(pools.gpus[0] / pools.aggregated_gpus[0])
    assert pools.usd_per_request[0] == pytest.approx(pools.usd_per_hour[0] / 36000)
    assert f"need {pools.gpus[0]:.0f} accelerators" in pools.summary()


def test_a_tight_tpot_favors_pools_and_a_loose_one_does_not():
    """DistServe, arXiv:2401.09670: pools gain where prompts would stall tokens, and little elsewhere."""
    ratios = []
    for tpot_s in (0.03, 0.3):
        slo = rl.SLO(ttft_s=2.0, tpot_s=tpot_s)
        plan = rl.plan("llama-3.1-70b", "h100-sxm", LOAD, slo=slo, requests_per_s=10, method="closed-form")
        ratios.append(float(rl.disaggregate(plan, method="closed-form").cost_ratio[0]))
    assert ratios[0] < 0.8 < ratios[1]


def test_without_a_rate_the_decode_pool_is_full_and_paces_the_prefill_pool():
    plan = rl.plan("llama-3.1-8b", "h100-sxm", rl.Workload(2000, 256), slo=rl.SLO(ttft_s=0.5, tpot_s=0.03))
    found = rl.disaggregate(plan)
    group = found.groups[0]
    # A decode worker at its batch B ends B requests in 255 steps, at a mean context of 2000 + 127 tokens.
    step = rl.decode(group.decode, rl.Workload(batch=group.batch), context_tokens=2127).estimate_s
    most = group.decode_workers * group.batch / (255 * step)
    assert group.requests_per_s <= most * 1.001
    assert found.tpot_s[0] <= 0.03
    assert found.ttft_s[0] <= 0.5
    assert np.isnan(found.replicas[0])
    assert found.tokens_per_s_per_gpu[0] == pytest.approx(256 * group.requests_per_s / group.accelerators)


def test_an_end_to_end_target_is_met_by_both_pools_together():
    slo = rl.SLO(total_s=6.0)
    plan = rl.plan("llama-3.1-8b", "h100-sxm", rl.Workload(2000, 256), slo=slo, requests_per_s=20)
    assert rl.disaggregate(plan).total_s[0] <= 6.0


def test_what_has_no_pools_says_why():
    slow = rl.plan("llama-3.1-70b", ["h100-sxm", "l40s"], LOAD, slo=rl.SLO(ttft_s=0.5, tpot_s=0.05))
    found = rl.disaggregate(slow)
    assert found.feasible.tolist() == [True, False]
    assert "TTFT at least" in found.reason[1]
    alone = rl.plan("llama-3.1-8b", "apple-m4", rl.Workload(500, 50), accelerators=[1])
    assert "has no nic_bytes_per_s" in rl.disaggregate(alone).reason[0]
    assert rl.disaggregate(alone, link_bytes_per_s=1e9).feasible[0]


def test_questions_that_make_no_sense_are_refused(at_rate):
    with pytest.raises(rl.UnknownName, match="no method named 'guess'"):
        rl.disaggregate(at_rate, method="guess")
    with pytest.raises(rl.InvalidInput, match="nothing to decode"):
        rl.disaggregate(rl.plan("llama-3.1-8b", "h100-sxm", rl.Workload(500, 1)))
    with pytest.raises(rl.InvalidInput, match="both decide how prompts meet running sequences"):
        rl.disaggregate(rl.plan("llama-3.1-8b", "h100-sxm", LOAD, techniques="chunked-prefill"))


def test_a_pipeline_is_not_recommended_for_how_whole_workers_fill_a_group():
    """Stages of a small model compute prompts at the pace of as many accelerators by themselves."""
    plan = rl.plan("llama-3.1-8b", "h100-sxm", rl.Workload(2000, 200), slo=rl.SLO(ttft_s=0.5, tpot_s=0.02))
    found = rl.disaggregate(plan)
    group = found.groups[0]
    assert group.prefill.parallel.pipeline == 1
    assert found.gpus[0] <= 16


def test_pools_of_a_plan_have_a_power_and_an_energy(at_rate):
    """Busy workers stay below their boards' limits, idle ones draw a tenth, and hosts come on top as given."""
    found = rl.disaggregate(at_rate)
    gpus, watts = float(found.gpus[0]), float(found.watts[0])
    assert 0.1 * 700 * gpus < watts < 700 * gpus
    assert found.joules_per_request[0] == pytest.approx(watts / 10)
    aggregated = float(rl.fleet(at_rate, requests_per_s=10).joules_per_request[0])
    assert found.aggregated_joules_per_request[0] == pytest.approx(aggregated, rel=1e-6)
    assert found.energy_ratio[0] == pytest.approx(watts / 10 / aggregated)
    with_hosts = rl.plan(
        "llama-3.1-70b",
        "h100-sxm",
        LOAD,
        slo=SLO,
        requests_per_s=10,
        prices={"h100-sxm": 2.5},
        power=rl.Power(host_w=200),
    )
    assert rl.disaggregate(with_hosts).watts[0] == pytest.approx(watts + 200 * gpus, rel=0.01)


def test_pools_are_ranked_by_energy_where_the_plan_is():
    """A B200 takes less for a request than two H100, and costs more here."""
    prices = {"h100-sxm": 1.0, "b200-sxm": 4.0}
    options = {"slo": SLO, "requests_per_s": 10, "prices": prices}
    found = {
        rank: rl.disaggregate(rl.plan("llama-3.1-70b", list(prices), LOAD, rank=rank, **options))
        for rank in ("cost", "energy")
    }
    assert np.all(np.diff(found["energy"].joules_per_request) >= 0)
    assert found["cost"].accelerator[0] == "h100-sxm"
    assert found["energy"].accelerator[0] == "b200-sxm"
