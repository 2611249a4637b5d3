"""The floor of a fleet: no estimate, no simulation and no count by hand carries a load with fewer accelerators."""

from itertools import pairwise

import numpy as np
import pytest

import roofline as rl
from roofline.capacity.floors import least_busy_s, most_sequences
from roofline.capacity.layouts import layouts
from roofline.serving.scenario import Scenario

H100, L40S, B200 = (rl.get_accelerator(name) for name in ("h100-sxm", "l40s", "b200-sxm"))
NO_SLO = rl.SLO()


def test_short_prompts_are_packed():
    """llama-3.1-8b, 64/16 tokens: a floor of 209 requests/s stood below the estimate of 535 with packed prompts."""
    found = rl.plan("llama-3.1-8b", H100, rl.Workload(64, 16), batches=[256], accelerators=[1])
    assert found.requests_per_s[0] == pytest.approx(535, rel=0.25)
    assert 1 / found.busy_at_floor_s[0] > found.requests_per_s[0]
    # All of a request's FLOPs at the highest clock, 989 TFLOP/s x 1980 / 1830 MHz, without embedding and attention.
    flops = 2 * (64 + 15) * 6.98e9
    assert 1 / found.busy_at_floor_s[0] <= 1.09 * 989e12 / flops


CASES = [
    ("llama-3.1-8b", "h100-sxm", rl.Workload(64, 16), {}),
    ("llama-3.1-8b", "l40s", rl.Workload(4000, 20), {"kv": "fp8"}),
    ("llama-3.1-70b", "h100-sxm", rl.Workload(1500, 300), {"precisions": ["fp8"], "engine": "vllm"}),
    ("llama-3.1-70b", "h200-sxm", rl.Workload(100, 2000), {"precisions": ["bf16", "fp8"]}),
    ("mixtral-8x7b", "h200-sxm", rl.Workload(2000, 500), {"hit_rate": 0.5}),
    ("deepseek-v3", "b200-sxm", rl.Workload(4000, 1000), {"engine": "sglang"}),
    ("gemma-3-27b", "a100-sxm-80gb", rl.Workload(800, 800), {"techniques": "chunked-prefill"}),
    ("qwen3-0.6b", "l4", rl.Workload(300, 100), {"techniques": "speculative"}),
    ("gpt-oss-120b", "b200-sxm", rl.Workload(8000, 100), {"techniques": "disaggregation"}),
]


@pytest.mark.parametrize(("model", "chip", "load", "how"), CASES, ids=lambda value: str(value)[:24])
def test_no_estimate_and_no_roofline_beats_the_floor(model, chip, load, how):
    for time in ("estimate_s", "roofline_s"):
        found = rl.plan(model, chip, load, time=time, **how)
        rows = found.take(found.feasible)
        assert len(rows) > 10
        assert np.all(rows.busy_at_floor_s <= rows.busy_s * (1 + 1e-9))
        assert np.all(rows.busy_at_floor_s <= rows.busy_low_s * (1 + 1e-9))


@pytest.mark.parametrize(
    ("slo", "time"),
    [(rl.SLO(ttft_s=0.5, tpot_s=0.03), "estimate_s"), (rl.SLO(tpot_s=0.02, statistic="mean"), "roofline_s")],
    ids=["p95", "mean"],
)
def test_no_fleet_that_meets_an_slo_is_smaller_than_its_floor(slo, time):
    found = rl.plan("llama-3.1-70b", [H100, B200], rl.Workload(1500, 300), slo=slo, precisions=["fp8"], time=time)
    held = found.take(found.feasible)
    assert np.all(held.busy_at_floor_s <= held.busy_s)
    for rate in (0.5, 40.0):
        fleet = rl.fleet(found, requests_per_s=rate)
        assert np.all(fleet.gpus_at_floor <= fleet.gpus)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("load", [rl.Workload(64, 16), rl.Workload(2000, 200)], ids=["short", "long"])
def test_a_saturated_simulation_at_roofline_speed_stays_below_the_floor(engine, load):
    """Software that runs every kernel at its roofline and fills memory page by page, as fast as requests come."""
    serve = rl.Deployment("llama-3.1-8b", H100, engine=rl.Engine(engine, max_sequences=1024, step_tokens=65_536))
    run = rl.simulate(serve, load, concurrency=2000, requests=4000, time="roofline_s")
    case = Scenario(serve.replace(parallel=layouts("llama-3.1-8b", (1,))), load)
    [least] = least_busy_s(case, NO_SLO)
    assert run.requests_per_s < 1 / least
    assert run.requests_per_s > 0.4 / least  # so near that the floor says something


def test_sequences_of_a_step_by_hand():
    """All memory of an H100 less 16.06 GB of weights over 131,072 bytes a token, half of the output held on average."""
    case = Scenario(rl.Deployment("llama-3.1-8b", H100, parallel=layouts("llama-3.1-8b", (1,))), rl.Workload(1500, 301))
    [[most]] = most_sequences(case)
    room = float(H100.memory_bytes) - 16.06e9
    assert room / (131_072 * 1650) - 1 <= most <= room / (131_072 * (1650 - 16))


def test_a_looser_share_of_the_requests_never_raises_the_floor():
    case = Scenario(
        rl.Deployment("llama-3.1-70b", H100, parallel=layouts("llama-3.1-70b", (8,))), rl.Workload(1500, 300)
    )
    floors = [least_busy_s(case, rl.SLO(tpot_s=0.01, statistic=name)) for name in ("mean", "p99", "p95", "p50")]
    for tighter, looser in pairwise(floors):
        assert np.all(looser <= tighter)
    assert np.all(least_busy_s(case, NO_SLO) <= floors[-1])
    assert np.all(np.isinf(least_busy_s(case, rl.SLO(tpot_s=1e-5))))
