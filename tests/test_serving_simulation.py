"""Simulated servers against queueing theory, against the passes underneath, and against what can't be otherwise."""

import numpy as np
import pytest

import roofline as rl
from roofline.serving.simulation import simulate

LOAD = rl.Workload(1500, 300)
MIX = rl.Traffic.of([(200, 100, 3), (1000, 300, 4), (4000, 150, 1)])


@pytest.fixture(scope="module")
def serve():
    return rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm"))


ENGINES = ["vllm", "sglang", "trtllm"]


def in_system(found):
    """Number in the system just after each event, and the time until the next."""
    arrival, finish = (np.asarray(getattr(found.requests, name)) for name in ("arrival", "finish"))
    times = np.concatenate([arrival, finish])
    change = np.concatenate([np.ones(len(arrival)), -np.ones(len(finish))])
    order = np.lexsort((-change, times))
    return np.cumsum(change[order])[:-1], np.diff(times[order])


@pytest.mark.parametrize("engine", ENGINES)
def test_littles_law_holds_exactly(serve, engine):
    found = simulate(serve.replace(engine=engine), MIX, concurrency=24, requests=600)
    number, lasting = in_system(found)
    record = found.requests
    stay = np.sum(np.asarray(record.finish) - np.asarray(record.arrival))
    assert np.sum(number * lasting) == pytest.approx(stay, rel=1e-9)
    last_sent = max(record.arrival)
    full = np.cumsum(lasting) < last_sent
    assert set(number[:-1][full[:-1]][lasting[:-1][full[:-1]] > 0]) == {24.0}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("time", ["floor_s", "roofline_s"])
def test_one_request_alone_is_its_prefill_and_its_steps(serve, engine, time):
    deployment = serve.replace(engine=engine)
    found = simulate(deployment, LOAD, concurrency=1, requests=3, time=time)
    alone = rl.generate(deployment, LOAD, time=time)
    assert found.ttft_s == pytest.approx(alone.ttft_s, rel=0.01)
    assert found.total_s == pytest.approx(alone.total_s, rel=0.003)
    assert found.queue_s == 0


@pytest.mark.parametrize("engine", ["default", "vllm", "sglang"])
@pytest.mark.parametrize("prompt", [4000, 20_000])
def test_one_request_alone_is_its_chunks_its_handling_and_its_steps(serve, engine, prompt):
    """Prompts beyond the budget of 8,192 tokens take three passes, each of which reads the weights again.

    Before its first token a request is handled in ``request_s`` and 3.4 us a token, and 1.2 steps are in front of it.
    """
    deployment = serve.replace(engine=engine)
    load, settings = rl.Workload(prompt, 100), deployment.server
    chunks = [min(8192, prompt - done) for done in range(0, prompt, 8192)]
    passes_s = [
        float(rl.prefill(deployment, rl.Workload(chunk, 1, cached_tokens=8192 * at)).estimate_s)
        for at, chunk in enumerate(chunks)
    ]
    step_s = float(rl.decode(deployment, load, context_tokens=prompt + 50).estimate_s)
    handling_s = settings.request_s + settings.request_token_s * prompt + settings.first_token_steps * step_s
    alone = rl.generate(deployment, load)
    for found in (simulate(deployment, load, concurrency=1, requests=3), rl.serve(deployment, load, concurrency=1)):
        assert float(found.ttft_s) == pytest.approx(sum(passes_s) + handling_s, rel=0.01)
        assert float(found.tpot_s) == pytest.approx(float(alone.tpot_s), rel=0.003)


def test_with_one_slot_it_is_the_queue_of_pollaczek_and_khinchine(serve):
    """Mean wait of an M/D/1 queue: rho S / (2 (1 - rho))."""
    deployment = serve.replace(engine=rl.Engine("vllm", max_sequences=1))
    alone = simulate(deployment, LOAD, concurrency=1, requests=1, time="roofline_s").total_s
    found = simulate(deployment, LOAD, requests_per_s=0.6 / alone, requests=40_000, time="roofline_s")
    assert found.queue_s == pytest.approx(0.6 * alone / (2 * 0.4), rel=0.05)
    assert found.utilization == pytest.approx(0.6, rel=0.02)


def test_bursts_lengthen_the_queue_as_kingman_says(serve):
    """Heavy traffic: waits grow with (CV^2 of gaps + CV^2 of service) / 2; service is fixed."""
    deployment = serve.replace(engine=rl.Engine("vllm", max_sequences=1))
    alone = simulate(deployment, LOAD, concurrency=1, requests=1, time="roofline_s").total_s
    waits = [
        simulate(deployment, LOAD, requests_per_s=0.8 / alone, burstiness=b, requests=40_000, time="roofline_s").queue_s
        for b in (0.0, 1.0, 4.0)
    ]
    assert waits[0] == 0
    assert waits[2] / waits[1] == pytest.approx(4, rel=0.25)


def test_an_infinite_budget_takes_prompts_whole(serve):
    load = rl.Workload(20_000, 2)
    whole = serve.replace(engine=rl.Engine("vllm", step_tokens=float("inf")))
    found = simulate(whole, load, concurrency=1, requests=1, time="roofline_s")
    assert found.tallies[0].events == 2
    assert found.ttft_s == pytest.approx(rl.prefill(whole, load).roofline_s, rel=0.01)
    cut = simulate(serve.replace(engine=rl.Engine("vllm", step_tokens=512)), load, concurrency=1, requests=1)
    assert cut.tallies[0].events == 40 + 1  # ceil(20000 / 512) chunks, one step


def test_an_engine_that_cuts_no_prompts_takes_whole_ones(serve):
    """8192 // 3000 prompts a pass without chunks; all the budget with them."""
    load = rl.Workload(3000, 1)
    for chunked, passes in ((False, 4), (True, 3)):
        engine = rl.Engine("trtllm", chunked=chunked, step_tokens=8192)
        found = simulate(serve.replace(engine=engine), load, concurrency=8, requests=8)
        assert found.tallies[0].events == passes


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("clients", [1, 16, 200])
def test_nothing_is_below_the_floor(serve, engine, clients):
    deployment = serve.replace(engine=engine)
    prefill = rl.prefill(deployment, LOAD).floor_s
    step = rl.decode(deployment, rl.Workload(batch=1), context_tokens=1500).floor_s
    times = [simulate(deployment, LOAD, concurrency=clients, requests=5 * clients, time=time) for time in rl_times()]
    for found in times:
        assert found.of_requests("ttft_s").min() >= prefill * (1 - 1e-3)
        assert found.of_requests("tpot_s").min() >= step * (1 - 1e-3)
    assert times[0].total_s <= times[1].total_s <= times[2].total_s


def rl_times():
    return ("floor_s", "roofline_s", "estimate_s")


@pytest.mark.parametrize("engine", ENGINES)
def test_more_load_never_lowers_latency(serve, engine):
    deployment = serve.replace(engine=engine)
    closed = [simulate(deployment, MIX, concurrency=c, requests=1500).total_s for c in (1, 4, 16, 64, 256)]
    assert closed == sorted(closed)
    opened = [simulate(deployment, MIX, requests_per_s=rate, requests=3000).total_s for rate in (0.1, 1, 4, 12, 30)]
    assert opened == sorted(opened)


def test_a_seed_repeats_exactly_and_another_does_not(serve):
    runs = [simulate(serve, MIX, requests_per_s=8.0, requests=800, seed=seed) for seed in (3, 3, 4)]
    assert runs[0].requests.finish == runs[1].requests.finish
    assert runs[0].requests.finish != runs[2].requests.finish


def test_work_grows_linearly_and_state_does_not(serve):
    """Counts, no clocks: events a request are constant, and what a scheduler holds does not grow with the run."""
    from roofline.serving.arrivals import arrival_times, draw_requests
    from roofline.serving.cache_pool import cache_pool
    from roofline.serving.clock import Clock
    from roofline.serving.scheduler import Scheduler
    from roofline.serving.step_times import step_times

    events, held = [], []
    times = step_times(serve)
    for count in (2_000, 8_000):
        rng = np.random.default_rng(1)
        requests = draw_requests(MIX, count, rng)
        requests.arrival = arrival_times(12.0, count, 1.0, rng).tolist()
        scheduler = Scheduler(Clock(times), times.engine, cache_pool(serve, times.engine), requests)
        for request, time in enumerate(requests.arrival):
            scheduler.receive(time, request)
        most = 0
        while scheduler.advance():
            timeline = scheduler.timeline
            most = max(most, sum(map(len, (scheduler.ends, scheduler.admitted, timeline.gaps, timeline.last_of))))
        events.append(scheduler.tally.events / count)
        held.append(most)
    assert events[1] == pytest.approx(events[0], rel=0.05)
    assert held[1] < 1.5 * held[0]


def test_memory_admits_by_pages_in_use_or_by_full_length():
    """Reserved sequences hold prompt and output; growing ones half of their output on average."""
    model, gpu = rl.get_model("llama-3.1-70b"), rl.get_accelerator("h100-sxm")
    fp8 = rl.Precision(weights="fp8", activations="fp8", kv="fp8")
    serve = rl.Deployment(model, gpu, precision=fp8, parallel=rl.Parallel(tensor=2))
    load = rl.Workload(1024, 8192)
    found = {}
    for admission in ("grow", "reserve"):
        engine = rl.Engine("vllm", admission=admission, max_sequences=1024)
        found[admission] = simulate(serve.replace(engine=engine), load, concurrency=200, requests=800)
    most = rl.memory(serve.replace(engine="vllm"), load).max_batch
    assert found["reserve"].running_batch == pytest.approx(most, rel=0.06)
    assert found["reserve"].preempted == 0
    assert found["grow"].running_batch > 1.4 * found["reserve"].running_batch
    assert {each.limit for each in found.values()} == {"memory"}


def test_the_longest_gap_is_a_step_with_the_largest_prompt(serve):
    engine = rl.Engine("vllm", step_tokens=2048)
    found = simulate(serve.replace(engine=engine), MIX, concurrency=16, requests=400)
    gaps, steps = found.of_requests("gap_s"), found.of_requests("tpot_s")
    assert np.all(gaps >= steps * (1 - 1e-9))
    longest = rl.prefill(serve, rl.Workload(2048)).estimate_s * 2
    assert gaps.max() < longest
    alone = simulate(serve, LOAD, concurrency=1, requests=1)
    assert alone.gap_s == pytest.approx(alone.tpot_s, rel=0.01)


def test_the_longest_gap_of_a_preempted_request_is_between_two_tokens_of_its_own(serve):
    """Every token of every request is followed; the scheduler keeps only the widest gaps since each step."""
    from roofline.serving.arrivals import demand
    from roofline.serving.request_loops import play
    from roofline.serving.scheduler import Scheduler
    from roofline.serving.step_times import step_times

    serve, load = serve.replace(engine="sglang"), rl.Workload(1500, 1200)
    last, widest = {}, {}

    def token(request, at, now):
        widest[request] = max(widest.get(request, 0.0), at - last.get(request, at))
        last[request] = now

    class Watched(Scheduler):
        def _start(self, request, made):
            token(request, self.timeline.now, self.timeline.now)
            super()._start(request, made)

        def _decode(self, count, first_s, all_s, last_s):
            now = self.timeline.now
            for request in self.end_of:
                token(request, now + first_s, now + all_s)
                widest[request] = max(widest[request], last_s)
            super()._decode(count, first_s, all_s, last_s)

    requests, tallies = play(
        serve, load, demand(420, None, burstiness=1.0, requests=800, seed=0), step_times(serve), scheduler=Watched
    )
    assert tallies[0].preempted > 800
    assert [widest[request] for request in range(800)] == pytest.approx(requests.gap)


def test_replicas_share_the_clients_and_do_not_wait_for_each_other(serve):
    four = serve.replace(parallel=rl.Parallel(data=4))
    one = simulate(serve, MIX, concurrency=16, requests=320)
    spread = simulate(four, MIX, concurrency=64, requests=1280)
    assert spread.tpot_s == pytest.approx(one.tpot_s, rel=0.05)
    assert spread.tokens_per_s == pytest.approx(4 * one.tokens_per_s, rel=0.1)
    uneven = simulate(four, MIX, concurrency=6, requests=61)
    assert min(uneven.requests.finish) > 0


def test_a_prefix_that_is_cached_is_not_computed(serve):
    once = {"concurrency": 1, "requests": 2, "time": "roofline_s"}
    plain = simulate(serve, rl.Workload(8000, 50), **once)
    hit = simulate(serve, rl.Workload(8000, 50), hit_rate=0.75, **once)
    cached = simulate(serve, rl.Workload(2000, 50, cached_tokens=6000), **once)
    assert hit.ttft_s == pytest.approx(cached.ttft_s, rel=1e-9)
    assert hit.ttft_s < 0.4 * plain.ttft_s


def test_looking_for_arrivals_less_often_delays_the_first_token(serve):
    step = rl.decode(serve, rl.Workload(batch=8), context_tokens=700).estimate_s
    waits = []
    for every in (1, 30):
        deployment = serve.replace(engine=rl.Engine("sglang", receive_interval=every))
        waits.append(simulate(deployment, MIX, requests_per_s=2.0, requests=2000).queue_s)
    assert 5 * step < waits[1] - waits[0] < 30 * step


def test_scheduling_several_decode_steps_at_a_time_delays_the_first_token_by_half_of_them(serve):
    """vLLM's --num-scheduler-steps 16: 7.5 steps on average, and none behind other prompts."""
    step = rl.decode(serve, rl.Workload(batch=8), context_tokens=700).estimate_s
    few = [
        simulate(serve.replace(engine=rl.Engine("vllm", **settings)), MIX, requests_per_s=2.0, requests=2000)
        for settings in ({}, {"schedule_interval": 16}, {"receive_interval": 16})
    ]
    assert 5 * step < few[1].queue_s - few[0].queue_s < 9 * step
    burst = [each.deployment for each in few]
    waits = [simulate(one, MIX, requests_per_s=2.0, burstiness=16.0, requests=2000).queue_s for one in burst]
    assert waits[0] < waits[1] < waits[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give either concurrency"),
        ({"concurrency": 2, "requests_per_s": 1.0}, "give either concurrency"),
        ({"concurrency": 0}, "concurrency must be an integer >= 1: 0"),
        ({"requests_per_s": -1.0}, "requests_per_s must be a finite number above 0: -1.0"),
        ({"requests_per_s": 1.0, "burstiness": -1}, "burstiness must be a finite number >= 0: -1"),
        ({"concurrency": 1, "requests": 10**9}, "requests must be at most 5,000,000"),
        ({"concurrency": 1, "hit_rate": 1.5}, "hit_rate must be a share"),
    ],
)
def test_arguments_that_make_no_sense_are_one_line(serve, arguments, message):
    with pytest.raises(rl.InvalidInput, match=message):
        simulate(serve, LOAD, **arguments)


def test_a_request_longer_than_the_cache_is_refused_with_the_length_that_fits(serve):
    with pytest.raises(
        rl.InvalidInput, match=r"a request of 2,000,300 tokens does not fit in the KV cache; at most [\d,]+ fit"
    ):
        simulate(serve, rl.Workload(2_000_000, 300), concurrency=1)
    huge = serve.replace(model=rl.get_model("llama-3.1-405b"))
    with pytest.raises(rl.InvalidInput, match="the weights leave no memory"):
        simulate(huge, LOAD, concurrency=1)


def test_results_have_their_views(serve):
    found = simulate(serve, MIX, requests_per_s=3.0, requests=300)
    assert set(found.to_dict()) == set(found.columns)
    frame = found.requests_frame()
    assert len(frame) == 300
    assert frame.ttft_s.mean() == pytest.approx(found.ttft_s)
    assert found.quantile("ttft_s", 0.95) == pytest.approx(frame.ttft_s.quantile(0.95))
    names = {"min": min, "max": max}
    for step in found.explain():
        assert eval(step.formula, {}, names | dict(step.inputs)) == pytest.approx(step.value)
    assert found.low.total_s < found.total_s < found.high.total_s
    with pytest.raises(rl.InvalidInput, match="a request has no 'ttft'"):
        found.quantile("ttft", 0.5)
