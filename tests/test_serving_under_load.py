"""The closed form against the simulation, and what `serve` answers and refuses."""

import numpy as np
import pytest

import roofline as rl
from roofline.serving.cache_pool import cache_pool
from roofline.serving.simulation import simulate
from roofline.serving.under_load import serve

LOAD = rl.Workload(1500, 300)
ENGINES = ["vllm", "sglang", "trtllm"]


@pytest.fixture(scope="module")
def server():
    return rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm"))


def spread():
    """Lengths that vary, so that requests do not move in step with each other."""
    rng = np.random.default_rng(0)
    prompts, outputs = rng.integers(1000, 2000, 300), rng.integers(200, 400, 300)
    return rl.Traffic(prompts, outputs, np.ones(300))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("time", ["roofline_s", "estimate_s"])
def test_at_concurrency_one_the_closed_form_is_the_simulation(server, engine, time):
    deployment = server.replace(engine=engine)
    found = serve(deployment, LOAD, concurrency=1, time=time)
    exact = simulate(deployment, LOAD, concurrency=1, requests=4, time=time)
    for name in ("ttft_s", "tpot_s", "total_s", "gap_s", "tokens_per_s", "requests_per_s", "running_batch"):
        assert getattr(found, name) == pytest.approx(getattr(exact, name), rel=0.05), name


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("share", [0.1, 0.3])
def test_up_to_a_load_of_three_tenths_the_closed_form_is_the_simulation(server, engine, share):
    deployment = server.replace(engine=engine)
    rate = share * serve(deployment, LOAD, concurrency=1).capacity_requests_per_s
    found = serve(deployment, LOAD, requests_per_s=rate, method="closed-form")
    exact = simulate(deployment, LOAD, requests_per_s=rate, requests=4000)
    for name in ("ttft_s", "tpot_s", "total_s"):
        assert getattr(found, name) == pytest.approx(getattr(exact, name), rel=0.05), name


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("clients", [8, 64])
def test_tokens_and_throughput_of_a_closed_loop_are_those_of_the_simulation(server, engine, clients):
    deployment, load = server.replace(engine=engine), spread()
    found = serve(deployment, load, concurrency=clients)
    exact = simulate(deployment, load, concurrency=clients, requests=60 * clients)
    for name in ("tpot_s", "tokens_per_s", "total_s"):
        assert getattr(found, name) == pytest.approx(getattr(exact, name), rel=0.05), name


def test_many_concurrencies_are_one_expression(server):
    clients = np.arange(1, 1001)
    many = serve(server, LOAD, concurrency=clients)
    assert many.ttft_s.shape == (1000,)
    for at in (0, 7, 63, 999):
        one = serve(server, LOAD, concurrency=int(clients[at]))
        assert one.total_s == pytest.approx(many.total_s[at])
        assert one.limit == many.limit[at]
    assert np.all(np.diff(many.total_s) >= -1e-12)
    lengths = serve(server, rl.Workload(np.array([[500], [1500]]), 300), concurrency=clients)
    np.testing.assert_allclose(lengths.tpot_s[1], many.tpot_s)


def test_littles_law_holds_for_those_that_wait_too(server):
    found = serve(server, LOAD, concurrency=np.array([1, 16, 256, 1000]))
    np.testing.assert_allclose(found.requests_per_s * found.total_s, [1, 16, 256, 1000], rtol=1e-9)
    assert found.limit[-1] == "memory"
    on_the_way = {"request_s": 0, "request_token_s": 0, "first_token_steps": 0}
    engine = rl.Engine("vllm", max_sequences=32, **on_the_way)  # nobody is
    slots = serve(server.replace(engine=engine), LOAD, concurrency=100)
    assert (slots.limit, slots.running_batch) == ("slots", pytest.approx(32))
    assert slots.queue_s == pytest.approx(68 / slots.requests_per_s)


def test_an_open_loop_is_simulated_unless_asked_otherwise_and_says_so(server):
    found = serve(server, LOAD, requests_per_s=2.0, requests=300)
    assert found.method == "simulation"
    assert found.quantile("ttft_s", 0.95) >= found.ttft_s
    rates = serve(server, LOAD, requests_per_s=[1.0, 4.0], requests=300)
    assert rates.ttft_s.shape == (2,)
    assert np.shape(rates.quantile("ttft_s", 0.9)) == (2,)
    closed = serve(server, LOAD, requests_per_s=2.0, method="closed-form")
    assert closed.method == "closed-form"
    with pytest.raises(rl.InvalidInput, match="a closed form has no quantiles"):
        closed.quantile("ttft_s", 0.95)
    with pytest.raises(rl.UnknownName, match="no method named 'exact'"):
        serve(server, LOAD, requests_per_s=2.0, method="exact")


@pytest.mark.parametrize("method", ["closed-form", "simulation"])
def test_a_rate_above_capacity_is_an_answer(server, method):
    found = serve(server, LOAD, requests_per_s=100.0, method=method, requests=400)
    assert not found.stable
    assert found.ttft_s == np.inf
    assert found.assumptions[0] == f"unstable: the capacity is {found.capacity_requests_per_s:.3g} requests/s"
    whole = simulate(server, LOAD, concurrency=250, requests=4000)
    assert whole.preempted == 0
    assert found.capacity_requests_per_s == pytest.approx(whole.requests_per_s, rel=0.1)


@pytest.mark.parametrize(("prompt", "output"), [(1500, 300), (1000, 1000), (500, 2000), (500, 500), (1000, 100)])
def test_where_memory_is_the_limit_preempted_requests_are_computed_again(server, prompt, output):
    clients = int(1.6 * serve(server, rl.Workload(prompt, output), concurrency=2000).running_batch)
    found = serve(server, rl.Workload(prompt, output), concurrency=clients)
    exact = simulate(server, rl.Workload(prompt, output), concurrency=clients, requests=4 * clients)
    assert (found.limit, exact.preempted > 0) == ("memory", True)
    assert any("preempted requests recompute half of their output" in line for line in found.assumptions)
    assert found.requests_per_s == pytest.approx(exact.requests_per_s, rel=0.08)
    roomy = serve(server, LOAD, concurrency=16)
    assert not any("preempted" in line for line in roomy.assumptions)


def test_the_interval_contains_the_figures(server):
    found = serve(server, LOAD, concurrency=np.array([1, 32]))
    assert np.all(found.low.total_s < found.total_s)
    assert np.all(found.total_s < found.high.total_s)


def test_a_static_batch_waits_for_its_longest(server):
    found = serve(server.replace(engine="transformers"), LOAD, concurrency=[1, 16])
    assert found.tpot_s[1] > found.tpot_s[0]
    assert found.ttft_s[1] > 4 * found.ttft_s[0]


def test_replicas_and_stages_are_lanes(server):
    one = serve(server, LOAD, concurrency=16)
    four = serve(server.replace(parallel=rl.Parallel(data=4)), LOAD, concurrency=64)
    assert four.tpot_s == pytest.approx(one.tpot_s, rel=1e-6)
    assert four.tokens_per_s == pytest.approx(4 * one.tokens_per_s, rel=1e-6)
    fewer = serve(server.replace(parallel=rl.Parallel(data=4)), LOAD, concurrency=2)
    assert fewer.tokens_per_s == pytest.approx(2 * serve(server, LOAD, concurrency=1).tokens_per_s, rel=1e-6)


def test_a_request_longer_than_the_cache_is_refused(server):
    with pytest.raises(rl.InvalidInput, match="does not fit in the KV cache; at most"):
        serve(server, rl.Workload(10**7, 10), concurrency=1)


def test_steps_of_the_derivation_evaluate(server):
    found = serve(server, LOAD, concurrency=8)
    for step in found.explain():
        assert eval(step.formula, {}, dict(step.inputs)) == pytest.approx(step.value)
    assert set(found.to_dict()) == set(found.columns)
    assert "concurrency" in repr(found)


@pytest.mark.parametrize(("prompt", "output", "budget"), [(215, 122, 512), (1000, 200, 512), (100, 400, 256)])
def test_a_short_budget_is_shared_between_prompts_and_tokens(server, prompt, output, budget):
    """As many sequences as a step has tokens: prompts still get the share of the budget that requests need."""
    engine = rl.Engine("vllm", step_tokens=budget, max_sequences=budget)
    deployment, load = server.replace(engine=engine), rl.Workload(prompt, output)
    found = serve(deployment, load, requests_per_s=1.0, method="closed-form").capacity_requests_per_s
    exact = simulate(deployment, load, concurrency=2 * budget, requests=8 * budget)
    assert found == pytest.approx(exact.requests_per_s, rel=0.12)  # 2.3 passes of a prompt count as 3
    steps = exact.requests_per_s * (prompt + output) / budget  # of a full budget each: so many a second at least
    assert steps * rl.decode(deployment, rl.Workload(batch=budget // 2), context_tokens=prompt).floor_s < 1


def test_a_prompt_of_several_chunks_starts_when_the_whole_of_it_fits(server):
    """vLLM's scheduler_reserve_full_isl: the fourth prompt waits though its first chunk would fit."""
    pool = cache_pool(server.replace(engine="vllm"), server.replace(engine="vllm").server)
    prompt = int(pool.tokens_for(1) / 3.5) - 50
    found = simulate(server.replace(engine="vllm"), rl.Workload(prompt, 50), concurrency=8, requests=16)
    assert found.preempted == 0
    assert 2 < found.running_batch <= 3


def test_burstiness_may_be_an_array_that_goes_with_the_rates(server):
    found = rl.serve(
        server, rl.Workload(1000, 100), requests_per_s=8.0, burstiness=np.array([0.0, 1.0, 8.0]), requests=500
    )
    assert found.ttft_s.shape == (3,)
    assert np.all(np.diff(found.ttft_s) > 0)
    assert found.to_frame()["burstiness"].tolist() == [0.0, 1.0, 8.0]
    pairs = rl.serve(server, rl.Workload(1000, 100), requests_per_s=[2, 8], burstiness=[8, 1], requests=200)
    assert pairs.asked_requests_per_s.tolist() == [2, 8]
    with pytest.raises(
        rl.InvalidInput, match=r"the shapes of requests_per_s and burstiness do not broadcast: \(3,\) and \(2,\)"
    ):
        rl.serve(server, rl.Workload(1000, 100), requests_per_s=[1, 2, 3], burstiness=[1, 2])
    with pytest.raises(rl.InvalidInput, match="closed form supports only Poisson arrivals"):
        rl.serve(server, rl.Workload(1000, 100), requests_per_s=2, burstiness=4, method="closed-form")


def test_the_share_of_requests_within_an_slo_falls_with_the_rate_and_is_nothing_above_capacity(server):
    load, slo = rl.Traffic.of([(200, 200), (3000, 100)]), rl.SLO(ttft_s=0.2)
    found = rl.serve(server, load, requests_per_s=[1.0, 8.0, 500.0], requests=800)
    shares = found.share_within(slo)
    assert shares[0] > shares[1] > shares[2] == 0.0
    assert found.share_within(rl.SLO(tpot_s=10.0))[2] == 1.0  # those that run have their tokens
    one = rl.serve(server, load, requests_per_s=8.0, requests=800)
    assert one.share_within(slo) == one.simulations[0].share_within(slo) == shares[1]
    with pytest.raises(rl.InvalidInput, match="use method='simulation'"):
        rl.serve(server, load, concurrency=8).share_within(slo)


def test_figures_of_rates_by_bursts_have_the_shape_of_both(server):
    found = rl.serve(
        server,
        rl.Workload(500, 50),
        requests_per_s=np.array([[1.0], [4.0]]),
        burstiness=np.array([0.0, 1.0, 4.0]),
        requests=100,
    )
    assert (
        found.ttft_s.shape
        == found.quantile("ttft_s", 0.9).shape
        == found.share_within(rl.SLO(ttft_s=1.0)).shape
        == (2, 3)
    )
    assert found.quantile("ttft_s", [0.5, 0.9]).shape == (2, 3, 2)


def test_a_name_in_the_place_of_a_deployment_is_one_line():
    with pytest.raises(rl.InvalidInput, match=r"deployment must be a Deployment, such as .*: 'llama-3\.1-8b'"):
        rl.serve("llama-3.1-8b", rl.Workload(500, 50), concurrency=2)


def test_a_plan_has_one_rate():
    with pytest.raises(rl.InvalidInput, match="requests_per_s must be a single number, not an array of 2"):
        rl.plan("llama-3.1-8b", "h100-sxm", rl.Workload(500, 50), requests_per_s=np.array([1.0, 2.0]))


def test_requests_of_one_length_stay_in_step_and_a_note_says_so(server):
    """The first prompts of a closed loop are packed into passes, and requests of one length finish together again."""
    alike = rl.serve(server, LOAD, concurrency=[1, 16])
    spread_out = rl.serve(server, rl.Traffic.between((1200, 1800), (240, 360)), concurrency=16)
    note = "requests are assumed to start at different times"
    assert any(note in line for line in alike.assumptions)
    assert not any(note in line for line in spread_out.assumptions)
    assert not any(note in line for line in rl.serve(server, LOAD, concurrency=1).assumptions)
    in_step = simulate(server, LOAD, concurrency=16, requests=320)
    drawn = simulate(server, rl.Traffic.between((1200, 1800), (240, 360)), concurrency=16, requests=320)
    assert in_step.ttft_s > 1.5 * drawn.ttft_s


def test_lengths_drawn_from_a_range_have_its_mean_and_variance():
    """A uniform distribution has the variance (b - a)^2 / 12."""
    drawn = rl.Traffic.between((1000, 3000), (64, 64))
    assert (drawn.mean_prompt_tokens, drawn.mean_output_tokens) == pytest.approx((2000, 64), rel=1e-3)
    spread_tokens2 = float(np.sum(drawn.share * (drawn.prompt_tokens - 2000) ** 2))
    assert spread_tokens2 == pytest.approx(2000**2 / 12, rel=0.01)
    around = rl.Traffic.around(rl.Workload(2000, 64, cached_tokens=100), 0.5)
    assert (around.prompt_tokens.min(), around.prompt_tokens.max()) == pytest.approx((1000, 3000), rel=0.07)
    assert (around.cached_tokens, around.longest_tokens) == (100, 3000 + 96 + 100)
    assert rl.Traffic.around(rl.Workload(2000, 64), 0).share.size == 1


@pytest.mark.parametrize(
    ("prompts", "outputs", "says"),
    [
        ((10, 5), (1, 2), "prompt_tokens must be (shortest, longest): (10, 5)"),
        (100, (1, 2), "prompt_tokens must be a pair (shortest, longest): 100"),
        ((1, 2), (0, 2), "output_tokens must be a finite number >= 1: 0"),
    ],
)
def test_a_range_that_is_none_is_one_line(prompts, outputs, says):
    with pytest.raises(rl.InvalidInput) as error:
        rl.Traffic.between(prompts, outputs)
    assert str(error.value) == says


@pytest.mark.parametrize("spread", [1, -0.1, float("nan")])
def test_a_spread_is_a_share(spread):
    with pytest.raises(rl.InvalidInput, match="spread must be from 0 to below 1"):
        rl.Traffic.around(rl.Workload(2000, 64), spread)


CHUNKED = [
    ("llama-3.1-8b", "h100-sxm", "vllm", {}, 20_000, (8192, 8192, 3616)),
    ("deepseek-v3", "h200-sxm", "sglang", {"tensor": 8}, 30_000, (8192, 8192, 8192, 5424)),
    ("gemma-3-27b", "b200-sxm", "trtllm", {}, 20_000, (8192, 8192, 3616)),
]


@pytest.mark.parametrize(("model", "chip", "engine", "layout", "prompt", "chunks"), CHUNKED)
def test_a_long_prompt_alone_takes_its_chunks_one_after_another(model, chip, *, engine, layout, prompt, chunks):
    """By hand: each chunk is a prompt whose predecessors are cached; `generate` has one pass, and refers to `serve`."""
    deployed = rl.Deployment(model, chip, engine=engine, parallel=rl.Parallel(**layout))
    assert sum(chunks) == prompt
    before = np.cumsum((0, *chunks[:-1]))
    passes = rl.prefill(deployed, rl.Workload(np.array(chunks), 1, cached_tokens=before))
    load = rl.Workload(prompt, 2)
    alone = rl.serve(deployed, load, concurrency=1, time="roofline_s")
    assert alone.ttft_s == pytest.approx(passes.roofline_s.sum(), rel=3e-3)
    whole = rl.generate(deployed, load, time="roofline_s")
    assert whole.ttft_s == pytest.approx(rl.prefill(deployed, load).roofline_s)
    assert "a server computes those above 8,192 tokens in chunks" in whole.assumptions[-1]
    assert whole.ttft_s < alone.ttft_s
    short = rl.generate(deployed, rl.Workload(8192, 2))
    assert not any("in chunks" in note for note in short.assumptions)


@pytest.mark.parametrize("engine", ENGINES)
def test_tokens_cached_before_the_prompts_of_a_traffic_count(server, engine):
    """A traffic of equal requests is the workload, whose steps read 20,000 tokens more per sequence."""
    deployment, load = server.replace(engine=engine), rl.Workload(1500, 300, cached_tokens=20_000)
    alike = rl.serve(deployment, rl.Traffic.of_workload(load), concurrency=8)
    expected = rl.serve(deployment, load, concurrency=8)
    for name in ("ttft_s", "tpot_s", "total_s", "tokens_per_s"):
        assert getattr(alike, name) == pytest.approx(getattr(expected, name), rel=1e-9), name
