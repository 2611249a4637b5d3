"""Two pools: what is hidden from whom, what crosses the link, and when they pay."""

import numpy as np
import pytest

import roofline as rl
from roofline.serving.pools import serve_pools
from roofline.serving.simulation import simulate
from roofline.serving.step_times import step_times

LOAD = rl.Workload(2000, 200)


@pytest.fixture(scope="module")
def worker():
    return rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm"), engine="vllm")


def test_one_request_alone_is_prompt_crossing_and_steps(worker):
    found = serve_pools(LOAD, prefill=worker, decode=worker, concurrency=1, requests=2, time="roofline_s")
    alone = rl.generate(worker, LOAD, time="roofline_s")
    crossing = 2000 * 131_072 / worker.accelerator.nic_bytes_per_s  # 128 KiB of bf16 cache a token
    assert found.handover_s == pytest.approx(crossing)
    assert found.ttft_s == pytest.approx(alone.ttft_s + crossing, rel=0.01)
    assert found.decode_queue_s == pytest.approx(0.0, abs=1e-9)
    assert found.tpot_s == pytest.approx(alone.tpot_s, rel=0.01)
    assert found.total_s == pytest.approx(alone.total_s + crossing, rel=0.005)


def test_prompts_never_hold_up_the_tokens_of_others(worker):
    apart = serve_pools(LOAD, prefill=worker, decode=worker, prefill_workers=2, decode_workers=2, concurrency=64)
    together = simulate(worker, LOAD, concurrency=16)
    prompt = rl.prefill(worker, rl.Workload(2000)).estimate_s
    assert apart.gap_s < prompt < together.gap_s


def test_every_request_ends_once_and_the_system_is_full(worker):
    found = serve_pools(LOAD, prefill=worker, decode=worker, decode_workers=2, concurrency=24, requests=300)
    record = found.requests
    arrival, first, finish = (np.asarray(getattr(record, name)) for name in ("arrival", "first", "finish"))
    assert np.all(arrival <= first)
    assert np.all(first < finish)
    times = np.linspace(1e-6, arrival.max(), 200)
    inside = [np.sum((arrival <= time) & (finish > time)) for time in times]
    assert set(inside) == {24}


H100_IDLE = 0.1 * 700
"""Watts of an idle H100 SXM (efficiency_specs/power.yaml)."""


def spent_j(phase):
    """Energy of a pass above idle power."""
    return phase.energy.busy_j + phase.energy.memory_j + phase.energy.compute_j


def test_energy_of_pools_is_that_of_their_passes_and_of_idling(worker):
    """Of three boards that idle, and of each request a prompt and 199 steps of the sequences beside it."""
    found = serve_pools(LOAD, prefill=worker, decode=worker, decode_workers=2, concurrency=24)
    batch = found.requests_per_s * 199 * found.tpot_s / 2
    step = rl.decode(worker, rl.Workload(batch=round(batch)), context_tokens=2100)
    each = spent_j(rl.prefill(worker, rl.Workload(2000))) + 199 / round(batch) * spent_j(step)
    assert found.watts == pytest.approx(3 * H100_IDLE + found.requests_per_s * each, rel=0.1)
    assert found.watts == pytest.approx(found.prefill_watts + found.decode_watts)
    assert found.joules_per_output_token == pytest.approx(found.watts / found.tokens_per_s)


def test_workers_without_requests_idle(worker):
    """A second prefill worker for a stream that one hardly notices draws idle power."""
    asked = {"prefill": worker, "decode": worker, "requests_per_s": 0.5, "requests": 100}
    one, two = (serve_pools(LOAD, prefill_workers=count, **asked) for count in (1, 2))
    assert two.prefill_watts - one.prefill_watts == pytest.approx(H100_IDLE, rel=0.05)
    assert two.decode_watts == pytest.approx(one.decode_watts, rel=0.02)


def test_power_at_the_wall_adds_what_is_stated(worker):
    found = serve_pools(LOAD, prefill=worker, decode=worker, concurrency=8)
    meter = found.power(rl.Power(host_w=100, wall=1.05, pue=1.2))
    assert meter.total == pytest.approx((found.watts + 2 * 100) * 1.05 * 1.2)
    unknown = rl.Deployment("llama-3.1-8b", "mi300x", engine="vllm")
    idling = serve_pools(LOAD, prefill=unknown, decode=unknown, concurrency=8)
    assert np.isnan(idling.watts)
    assert idling.power(rl.Power(idle_w=140)).total > 2 * 140
    floor = serve_pools(LOAD, prefill=worker, decode=worker, concurrency=8, time="floor_s")
    assert np.isnan(floor.watts)


def test_sending_layer_by_layer_hides_the_crossing(worker):
    slow = {"link_bytes_per_s": 1e9, "concurrency": 1, "requests": 2}
    whole = serve_pools(LOAD, prefill=worker, decode=worker, **slow)
    layers = serve_pools(LOAD, prefill=worker, decode=worker, by_layer=True, **slow)
    prompt = rl.prefill(worker, LOAD).estimate_s
    assert layers.handover_s == pytest.approx(whole.handover_s - prompt * (1 - 1 / 32), rel=0.02)
    quick = serve_pools(LOAD, prefill=worker, decode=worker, by_layer=True, concurrency=1, requests=2)
    assert quick.handover_s == pytest.approx(whole.handover_s * 1e9 / worker.accelerator.nic_bytes_per_s / 32)


def test_the_pool_that_is_too_small_is_the_limit(worker):
    few = {"prefill": worker, "decode": worker, "concurrency": 128, "requests": 600}
    prompts = serve_pools(rl.Workload(8000, 20), prefill_workers=1, decode_workers=3, **few)
    steps = serve_pools(rl.Workload(200, 400), prefill_workers=3, decode_workers=1, **few)
    assert (prompts.limit, steps.limit) == ("prefill", "steps")
    assert prompts.prefill_utilization > 0.95 > prompts.decode_utilization
    assert steps.decode_utilization > 0.95 > steps.prefill_utilization
    assert prompts.accelerators == 4


def test_a_request_goes_to_an_idle_worker_while_there_is_one(worker):
    """Erlang's C for 4 servers that are busy 30 % of the time: 2.4 % of the requests find all of them busy."""
    prompt_s = rl.prefill(worker, LOAD).estimate_s
    found = serve_pools(
        LOAD, prefill=worker, decode=worker, prefill_workers=4, requests_per_s=4 * 0.3 / prompt_s, requests=2000
    )
    assert found.quantile("queue_s", 0.95) == pytest.approx(0.0, abs=1e-9)
    assert found.prefill_utilization == pytest.approx(0.3, rel=0.1)


def test_an_open_loop_repeats_by_its_seed(worker):
    runs = [
        serve_pools(LOAD, prefill=worker, decode=worker, requests_per_s=6.0, requests=300, seed=seed)
        for seed in (1, 1, 2)
    ]
    assert runs[0].requests.finish == runs[1].requests.finish != runs[2].requests.finish
    assert set(runs[0].to_dict()) == set(runs[0].columns)


def test_what_makes_no_sense_is_one_line(worker):
    apple = worker.replace(accelerator=rl.get_accelerator("apple-m4"), engine=None)
    with pytest.raises(rl.InvalidInput, match="apple-m4 has no nic_bytes_per_s: give link_bytes_per_s"):
        serve_pools(LOAD, prefill=apple, decode=worker, concurrency=1)
    with pytest.raises(rl.InvalidInput, match="prefill_workers must be an integer >= 1: 0"):
        serve_pools(LOAD, prefill=worker, decode=worker, prefill_workers=0, concurrency=1)
    with pytest.raises(rl.InvalidInput, match="does not fit in the KV cache"):
        serve_pools(rl.Workload(10**6, 1), prefill=worker, decode=worker, concurrency=1)


def test_first_tokens_wait_for_a_slot_of_a_decode_worker(worker):
    """12 clients and 8 slots: the 4 others are on their way or wait (Little's law)."""
    few = worker.replace(engine=rl.Engine("vllm", max_sequences=8))
    load = rl.Traffic.of([(200, 300), (200, 500)])
    found = serve_pools(load, prefill=worker, decode=few, concurrency=12, requests=600)
    assert found.limit == "slots"
    prompt_s = rl.prefill(worker, rl.Workload(200)).estimate_s
    waiting = found.decode_queue_s * found.requests_per_s
    assert waiting == pytest.approx(12 - 8 - (prompt_s + found.handover_s) * found.requests_per_s, rel=0.1)
    assert found.ttft_s > found.decode_queue_s > 10 * prompt_s


def test_two_pools_finish_what_the_slower_one_does(worker):
    """The minimum of both sides: prompts at the pace of their worker, answers at that of its slots."""
    prompt_s = rl.prefill(worker, LOAD).estimate_s
    prompts = serve_pools(rl.Workload(2000, 2), prefill=worker, decode=worker, concurrency=64, requests=640)
    assert prompts.requests_per_s == pytest.approx(1 / prompt_s, rel=0.15)
    one = worker.replace(engine=rl.Engine("vllm", max_sequences=1))
    steps = serve_pools(LOAD, prefill=worker, decode=one, concurrency=64, requests=128)
    alone = rl.generate(worker, LOAD)
    assert steps.requests_per_s == pytest.approx(1 / (199 * alone.tpot_s), rel=0.03)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"concurrency": np.array([1, 2])}, "concurrency must be a single number, not an array of 2"),
        ({"requests_per_s": [1.0, 2.0]}, "requests_per_s must be a single number, not an array of 2"),
        ({"concurrency": 8, "prefill_workers": np.array([1, 2])}, "prefill_workers must be a single number"),
        ({"concurrency": 8, "decode_workers": 0}, "decode_workers must be an integer >= 1: 0"),
        ({"concurrency": 8, "link_bytes_per_s": [1e9, 2e9]}, "link_bytes_per_s must be a single number"),
    ],
)
def test_questions_about_several_pools_at_once_are_refused_in_a_line(worker, changes, says):
    with pytest.raises(rl.InvalidInput, match=says) as error:
        serve_pools(LOAD, prefill=worker, decode=worker, **changes)
    assert "\n" not in str(error.value)


def test_a_cache_crosses_between_workers_of_one_model(worker):
    other = worker.replace(model=rl.get_model("qwen3-8b"))
    with pytest.raises(rl.InvalidInput, match=r"both pools must run the same model.*: llama-3\.1-8b and qwen3-8b"):
        serve_pools(LOAD, prefill=worker, decode=other, concurrency=8)


def test_pools_and_servers_that_fall_behind_say_so(worker):
    behind = "requests arrive faster than they are finished"
    full = serve_pools(LOAD, prefill=worker, decode=worker, requests_per_s=60.0, requests=600)
    calm = serve_pools(LOAD, prefill=worker, decode=worker, requests_per_s=6.0, requests=600)
    assert behind in full.assumptions[0]
    assert not any(behind in note for note in calm.assumptions)
    assert behind in simulate(worker, LOAD, requests_per_s=60.0, requests=600).assumptions[0]
    assert not any(behind in note for note in simulate(worker, LOAD, concurrency=256, requests=600).assumptions)


def test_a_cache_crosses_at_the_pace_of_the_slower_side(worker):
    """128 KiB a token; the cards of H100 and L40S move 50 and 25 GB/s."""
    slow = worker.replace(accelerator=rl.get_accelerator("l40s"))
    wide = worker.replace(parallel=rl.Parallel(tensor=4))
    once = {"concurrency": 1, "requests": 2}
    cache = 2000 * 131_072
    for prefill, decode, bytes_per_s in (
        (worker, slow, 25e9),
        (slow, worker, 25e9),
        (wide, worker, 50e9),
        (wide, wide, 200e9),
    ):
        found = serve_pools(LOAD, prefill=prefill, decode=decode, **once)
        assert found.handover_s == pytest.approx(cache / bytes_per_s)
    eight = serve_pools(LOAD, prefill=worker, decode=rl.quantize(worker, kv="fp8"), **once)
    assert eight.handover_s == pytest.approx(cache / 50e9)  # sent as it is stored


def test_prompts_that_are_cached_shorten_the_prefill_and_not_the_crossing(worker):
    once = {"prefill": worker, "decode": worker, "concurrency": 1, "requests": 2}
    whole, hit = serve_pools(LOAD, **once), serve_pools(LOAD, hit_rate=0.75, **once)
    assert hit.handover_s == whole.handover_s
    short = rl.prefill(worker, rl.Workload(500, cached_tokens=1500)).estimate_s
    long = rl.prefill(worker, rl.Workload(2000)).estimate_s
    assert whole.ttft_s - hit.ttft_s == pytest.approx(long - short, rel=0.05)


def test_a_prompt_alone_has_the_experts_of_all_ranks_to_itself():
    """Four ranks of DeepSeek-V3 in a prefill worker: the experts have a quarter of what four prompts would bring."""
    fp4 = rl.Precision(weights="nvfp4", activations="nvfp4", kv="fp8", exceptions={"attention": "bf16"})
    worker = rl.Deployment("deepseek-v3", "b200-sxm", fp4, parallel=rl.Parallel(data=4, expert=4), engine="trtllm")
    found = serve_pools(rl.Workload(4000, 50), prefill=worker, decode=worker, concurrency=1, requests=2)
    times = step_times(worker)
    spared_s = times.host.prefill_factor * float(times.experts_s(4000.0) - times.experts_s(1000.0))
    prompt_s = float(times.mixed_s(0.0, 1.0, 4000.0, 0.0)) - spared_s
    rest_s = float(times.handling_s(4000.0)) + found.handover_s + found.decode_queue_s
    assert found.requests.first[0] == pytest.approx(prompt_s + rest_s, rel=1e-6)
