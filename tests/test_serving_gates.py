"""Prompts that are held back, and ranks of attention in data parallel that step together."""

import sys
from pathlib import Path

import numpy as np
import pytest

import roofline as rl
from roofline.phases.launches import launched_kernels
from roofline.serving import closed_forms
from roofline.serving.busiest import busiest, busiest_in_turn
from roofline.serving.cache_pool import CachePool
from roofline.serving.clock import Clock, Polyline
from roofline.serving.gates import BalanceGate, BatchGate
from roofline.serving.ranks import Ranks
from roofline.serving.request_records import Requests
from roofline.serving.scenario import Scenario
from roofline.serving.scheduler import Scheduler
from roofline.serving.steady_state import STEP_TOGETHER, steady_state
from roofline.serving.step_times import step_times

ROOT = Path(__file__).parent.parent
FP4 = rl.Precision(weights="nvfp4", activations="nvfp4", kv="fp8", exceptions={"attention": "bf16"})
ALIKE = rl.Workload(1000, 500)
SPREAD = rl.Traffic(np.linspace(800, 1000, 9), np.linspace(400, 500, 9), np.ones(9))


LONG = tuple(axis.ravel() for axis in np.meshgrid(np.linspace(2000, 6000, 9), np.linspace(30, 570, 13)))
BALANCED = rl.Engine("trtllm", balance_wait_steps=50, balance_batching_steps=10)


def deepseek(engine, **degrees):
    return rl.Deployment("deepseek-v3", "b200-sxm", FP4, parallel=rl.Parallel(**degrees), engine=engine)


# Gates ----------------------------------------------------------------------------------------------------------------


def test_a_gate_for_a_batch_opens_when_a_step_is_full_or_after_its_steps():
    gate = BatchGate(most_steps=20, enough_tokens=900.0)
    assert gate.holds(500) == 20
    gate.pass_by(15)
    assert gate.holds(700) == 5
    assert gate.holds(950) == 0
    assert gate.holds(500) == 20  # it counts anew
    gate.pass_by(20)
    assert gate.holds(500) == 0


def test_a_gate_for_ranks_waits_for_all_of_them_and_then_for_more():
    gate = BalanceGate(most_steps=50, batching_steps=10)
    both = [True, True]
    assert gate.holds([True, False], both) == 50
    gate.pass_by(30, [True, False])
    assert gate.holds(both, both) == 10
    gate.pass_by(10, both)
    assert gate.holds(both, both) == 0
    assert gate.holds([True, False], both) == 50
    gate.pass_by(50, [True, False])
    assert gate.holds([True, False], both) == 0
    assert gate.holds([True, False], [True, False]) == 0  # a rank has nothing to do


def test_steps_are_counted_while_nothing_waits():
    """As in TensorRT-LLM: a prompt that comes alone meets the count anywhere."""
    gate = BalanceGate(most_steps=50, batching_steps=0)
    gate.pass_by(120, [False, False])
    assert gate.holds([True, False], [True, True]) == 30


def test_prompts_wait_for_a_full_step_only_beside_running_sequences():
    held = rl.Engine("trtllm", batch_wait_steps=40, batch_wait_share=0.8)
    alone, waiting = (rl.simulate(deepseek(engine, tensor=8), ALIKE, concurrency=1) for engine in ("trtllm", held))
    assert waiting.ttft_s == alone.ttft_s
    free, waiting = (rl.simulate(deepseek(engine, tensor=8), SPREAD, concurrency=8) for engine in ("trtllm", held))
    added_s = waiting.quantile("ttft_s", 0.5) - free.quantile("ttft_s", 0.5)
    assert added_s == pytest.approx(40 * waiting.tpot_s, rel=0.3)
    assert waiting.tpot_s < free.tpot_s


def test_engines_hold_nothing_back_unless_told_to():
    for name in rl.list_engines():
        engine = rl.Engine(name)
        assert (engine.batch_wait_steps, engine.balance_wait_steps) == (0, 0)
    with pytest.raises(rl.RooflineError, match=r"batch_wait_share must be a number >= 0 and <= 1: 1\.5"):
        rl.Engine("trtllm", batch_wait_share=1.5)


# Ranks ----------------------------------------------------------------------------------------------------------------


def test_replicas_that_share_experts_step_together():
    """As documented; runs of vLLM are nearer to ranks that do not wait for each other's prompts."""
    assert step_times(deepseek(BALANCED, data=8, expert=8)).sharing == 8
    assert step_times(deepseek("trtllm", data=8, expert=8)).sharing == 8
    assert step_times(deepseek("sglang", data=8, expert=8)).sharing == 8
    assert step_times(deepseek("vllm", data=8, expert=8)).sharing == 1
    assert step_times(deepseek(rl.Engine("vllm", ranks_wait=True), data=8, expert=8)).sharing == 8
    assert step_times(deepseek(BALANCED, tensor=8, expert=8)).sharing == 1
    assert step_times(deepseek(BALANCED, data=8, expert=8), time="floor_s").sharing == 1
    dense = rl.Deployment("llama-3.1-8b", "h100-sxm", parallel=rl.Parallel(data=4), engine=BALANCED)
    assert step_times(dense).sharing == 1


def test_one_request_on_eight_ranks_finds_the_experts_to_itself():
    """Seven ranks are idle: the experts compute an eighth of what they would if every rank had a prompt."""
    times = step_times(deepseek(BALANCED, data=8, expert=8))
    found = rl.simulate(times.serve, ALIKE, concurrency=1, requests=3)
    first_s = found.requests.first[0] - found.requests.arrival[0] - found.requests.handling[0]
    spared_s = times.host.prefill_factor * float(times.experts_s(1000.0) - times.experts_s(125.0))
    assert first_s == pytest.approx(float(times.mixed_s(0.0, 1.0, 1000.0, 0.0)) - spared_s, rel=1e-6)


def test_ranks_wait_for_the_one_with_the_longest_context():
    """Two sequences, one a rank: both get tokens at the pace of the one with 100,000 tokens of cache."""
    times = step_times(deepseek(BALANCED, data=2, expert=2))
    pool = CachePool(1e12, Polyline([0.0, 1e9], [0.0, 1e9]), 1.0)

    def decode_s(*cached):
        requests = Requests([10] * len(cached), list(cached), [50] * len(cached), [0.0] * len(cached))
        ranks = [Scheduler(Clock(times), times.engine, pool, requests) for _ in range(2)]
        for request, rank in zip(range(len(cached)), ranks, strict=False):
            rank.receive(0.0, request)
        group = Ranks(ranks, times.engine)
        while group.advance():
            pass
        return [last - first for first, last in zip(requests.first, requests.finish, strict=True)]

    both = decode_s(100_000, 100)
    assert both[0] == both[1] >= decode_s(100_000)[0] > decode_s(100, 100)[1]


def run_ranks(times, requests, horizon=float("inf")):
    """One request a rank, run to the end."""
    pool = CachePool(1e12, Polyline([0.0, 1e9], [0.0, 1e9]), 1.0)
    ranks = [Scheduler(Clock(times), times.engine, pool, requests) for _ in requests.prompt]
    for request, rank in enumerate(ranks):
        rank.receive(requests.arrival[request], request)
    group = Ranks(ranks, times.engine)
    while group.advance(horizon):
        pass
    return group


def test_a_prompt_on_one_rank_stalls_the_tokens_of_another():
    """The first rank's longest gap is a step with the second rank's prompt of 8,000 tokens."""
    times = step_times(deepseek("trtllm", data=2, expert=2))
    requests = Requests([10, 8000], [0, 0], [100, 100], [0.0, 0.2])
    run_ranks(times, requests)
    spared_s = times.host.prefill_factor * float(times.experts_s(8000.0) - times.experts_s(4000.5))
    prompt_s = float(times.mixed_s(0.0, 1.0, 8000.0, 0.0)) - spared_s
    assert requests.gap[0] == pytest.approx(prompt_s, rel=0.02)
    alone = Requests([10, 8000], [0, 0], [100, 100], [0.0, 1e4])
    run_ranks(times, alone)
    assert alone.gap[0] < prompt_s / 5


def test_ranks_begin_no_step_after_the_horizon():
    times = step_times(deepseek("trtllm", data=2, expert=2))
    requests = Requests([10, 10], [0, 0], [500, 500], [0.0, 0.0])
    group = run_ranks(times, requests, horizon=0.3)
    step_s = float(times.decode_s(1.0, 100.0))
    assert 0.3 < group.next_time() <= 0.3 + 1.5 * step_s


@pytest.mark.parametrize(("engine", "pool_tokens"), [("vllm", 6e4), ("sglang", 1e6), ("trtllm", 6e4)])
def test_a_group_of_one_rank_is_a_scheduler(engine, pool_tokens):
    """Of one rank the experts have all tokens, so that nothing is left of the coupling. All requests wait from the
    start, because ranks count the steps until an arrival by the first of them. vLLM preempts in a cache so small.
    """
    times = step_times(deepseek(engine, data=2, expert=2))
    pool = CachePool(pool_tokens, Polyline([0.0, 1e9], [0.0, 1e9]), 1.0)
    found = []
    for grouped in (False, True):
        requests = Requests([2000, 10, 8000] * 20, [0] * 60, [100, 500, 900] * 20, [0.0] * 60)
        group = alone = Scheduler(Clock(times), times.engine, pool, requests)
        for request in range(60):
            alone.receive(0.0, request)
        if grouped:
            group = Ranks([alone], times.engine)
        while group.advance():
            pass
        found.append([requests.first, requests.finish, requests.gap, [alone.tally.steps, alone.tally.busy_s]])
    for one, other in zip(*found, strict=True):
        assert one == pytest.approx(other, rel=1e-9)


def test_the_busiest_rank_has_more_than_its_part():
    """By drawing: 8 prompts on 8 ranks, and 200 on 8, each on any rank."""
    rng = np.random.default_rng(0)
    for prompts, ranks in ((3, 4), (8, 8), (200, 8)):
        counts = rng.multinomial(prompts, [1 / ranks] * ranks, size=20_000)
        assert float(busiest(prompts, ranks)) == pytest.approx(counts.max(axis=1).mean(), rel=0.02)


def drawn_in_turn(running, ranks, lengths):
    """Mean of the busiest rank's sequences: Poisson arrivals, sent to the ranks in turn, at 2,000 random times."""
    rng = np.random.default_rng(0)
    begin = np.cumsum(rng.exponential(1 / running, 40_000))
    end = begin + lengths(rng, len(begin))
    found = []
    for moment in rng.uniform(20, begin[-1], 2000):
        (inside,) = np.nonzero((begin <= moment) & (end > moment))
        found.append(np.bincount(inside % ranks, minlength=ranks).max())
    return np.mean(found)


@pytest.mark.parametrize(("running", "ranks"), [(8, 4), (64, 8), (256, 8)])
def test_ranks_in_turn_are_between_equal_and_exponential_lengths(running, ranks):
    equal = drawn_in_turn(running, ranks, lambda _, count: np.ones(count))
    exponential = drawn_in_turn(running, ranks, lambda rng, count: rng.exponential(1.0, count))
    assert equal < float(busiest_in_turn(running, ranks)) < exponential < float(busiest(running, ranks))


@pytest.mark.parametrize("engine", ["trtllm", "default"])
@pytest.mark.parametrize("clients", [8, 64, 256])
def test_the_closed_form_knows_prompts_that_meet_in_a_step(engine, clients):
    """Forty requests of each client and lengths that differ widely: requests that start together soon part."""
    serve, load = deepseek(engine, data=8, expert=8), rl.Traffic(*LONG, np.ones(LONG[0].size))
    form = rl.serve(serve, load, concurrency=clients)
    run = rl.simulate(serve, load, concurrency=clients, requests=40 * clients)
    assert float(form.tpot_s) == pytest.approx(run.tpot_s, rel=0.05)


@pytest.mark.parametrize(("engine", "clients"), [("trtllm", 256), ("trtllm", 976), ("default", 256)])
def test_the_steady_state_knows_that_ranks_wait(engine, clients):
    """A saturated server with lengths that differ widely, so that the prompts of eight ranks do not line up."""
    serve = deepseek(engine, data=8, expert=8)
    run = rl.simulate(serve, rl.Traffic(*LONG, np.ones(LONG[0].size)), concurrency=clients, requests=20 * clients)
    seen = steady_state(Scenario(serve, rl.Workload(4000, 300, clients)))
    assert seen.requests_per_s == pytest.approx(run.requests_per_s, rel=0.1)
    assert STEP_TOGETHER in seen.assumptions


@pytest.mark.parametrize("fields", [{}, {"chunk_tokens": 4000}])
def test_every_prompt_of_eight_clients_stalls_eight_ranks(fields):
    """By hand: rare prompts meet in 1 % of their passes, so a request waits for eight of them, one after another."""
    serve, load = deepseek("trtllm", data=8, expert=8), rl.Workload(4000, 300, 8)
    times, seen = step_times(serve), steady_state(Scenario(serve, load, **fields))
    spared_s = times.host.prefill_factor * float(times.experts_s(4000.0) - times.experts_s(500.0))
    prompt_s = float(rl.prefill(serve, load).estimate_s) - spared_s
    ridden = 7 if fields else 0  # steps that carry the others' chunks
    assert seen.total_s == pytest.approx(8 * prompt_s + (299 - ridden) * seen.step_s, rel=0.02)
    independent = steady_state(Scenario(serve.replace(engine=rl.Engine("trtllm", ranks_wait=False)), load))
    assert independent.total_s == pytest.approx(independent.prompt_s + 299 * independent.step_s, rel=1e-3)


def test_only_the_estimate_waits_and_only_if_the_engine_does():
    load = rl.Workload(4000, 300, 256)
    waiting, vllm, balanced = (
        Scenario(deepseek(engine, data=8, expert=8), load) for engine in ("trtllm", "vllm", BALANCED)
    )
    for scenario, time in ((waiting, "roofline_s"), (vllm, "estimate_s"), (balanced, "estimate_s")):
        seen = steady_state(scenario, time=time)
        lined_up = closed_forms.packing(32, 299, 2).per_pass
        total_s = 32 / lined_up * seen.passes.packed_s(lined_up, time) + 299 * seen.step_s
        assert seen.total_s == pytest.approx(total_s, rel=1e-9)
        assert STEP_TOGETHER not in seen.assumptions
    estimate = steady_state(waiting)
    assert estimate.at("roofline_s").total_s == pytest.approx(steady_state(waiting, time="roofline_s").total_s)
    assert estimate.high.requests_per_s < estimate.requests_per_s < estimate.low.requests_per_s


def test_the_floor_of_a_lone_prompt_has_all_experts_to_itself():
    """Experts have the tokens of one prompt instead of eight, so that the floor is below that of eight prompts."""
    floor, estimate = (
        steady_state(Scenario(deepseek("trtllm", data=8, expert=8), rl.Workload(4000, 2, 1)), time=time)
        for time in ("floor_s", "estimate_s")
    )
    assert floor.prompt_s / 8 < floor.ttft_s < floor.prompt_s
    assert floor.ttft_s < estimate.ttft_s < estimate.prompt_s


def test_layouts_in_one_array_have_their_own_ranks():
    degrees = np.array([1.0, 2.0, 8.0])
    serve = deepseek("trtllm", data=degrees, expert=degrees)
    together = steady_state(Scenario(serve, rl.Workload(4000, 300, 64)))
    for at, ways in enumerate((1, 2, 8)):
        one = steady_state(Scenario(deepseek("trtllm", data=ways, expert=ways), rl.Workload(4000, 300, 64)))
        assert together.total_s[at] == pytest.approx(one.total_s, rel=1e-9)


def test_littles_law_holds_for_ranks_that_wait():
    found = rl.simulate(deepseek(BALANCED, data=8, expert=8), ALIKE, concurrency=64)
    arrival, finish = np.array(found.requests.arrival), np.array(found.requests.finish)
    in_system = np.sum(finish - arrival) / (finish.max() - arrival.min())
    assert in_system == pytest.approx(found.requests_per_s * found.total_s, rel=0.05)


@pytest.mark.parametrize("clients", [1, 8, 64])
def test_the_closed_form_knows_ranks_and_gates(clients):
    """Alone exactly; with prompts that wait, within a fifth of the simulation's time to first token."""
    serve = deepseek(BALANCED, data=8, expert=8)
    form, run = rl.serve(serve, SPREAD, concurrency=clients), rl.simulate(serve, SPREAD, concurrency=clients)
    assert float(form.tpot_s) == pytest.approx(run.tpot_s, rel=0.05)
    assert float(form.ttft_s) == pytest.approx(run.ttft_s, rel=0.01 if clients == 1 else 0.2)


def test_measured_ranks_that_wait_for_each_other():
    """TensorRT-LLM with ``enable_balance`` on B200: first tokens of 0.1 to 3.5 s, of which waiting is up to 80 %."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import serving
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
    rows = [row for row in serving.rows() if serving.undoubted(row) and float(row["data"]) > 1]
    found = [serving.simulated(serving.measured(row)) for row in rows if row["engine"] == "trtllm"]
    assert len(found) == 20
    assert np.median(np.abs([each.ttft_miss for each in found])) <= 0.2
    assert np.max(np.abs([each.ttft_miss for each in found])) <= 0.4


# Kernels that the host launches ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "communicates", "by_hand"),
    [
        # two norms, q k v, positions and cache, scores, o; gate and up, activation, down
        ("llama-3.1-70b", False, 9),
        # and two all-reduces
        ("llama-3.1-70b", True, 11),
        # the MLP gives way to a router and six kernels of experts
        ("gpt-oss-120b", True, 15),
        # a norm of queries and one of keys
        ("minimax-m2.5", True, 17),
        # latents down, queries up, keys and values up (also of the past), four kernels of attention, o, two norms, two
        # all-reduces, a router, six kernels of experts, three of the shared expert
        ("deepseek-v3", True, 23),
    ],
)
def test_kernels_of_a_layer_by_hand(name, communicates, by_hand):
    model = rl.get_model(name)
    assert launched_kernels(model, communicates=communicates) / model.layer_count == pytest.approx(by_hand, abs=0.9)


def test_short_prompts_of_deepseek_wait_for_the_host_unless_captured():
    """TensorRT-LLM on eight B200: 232 ms to the first token of 1,024 without piecewise graphs, 137 ms with them.

    The rest of the two runs, 64 clients of DeepSeek-R1 in FP4, is alike.
    """
    graphs = rl.Engine("trtllm", graph_tokens=8192)
    eager, captured = (deepseek(engine, tensor=8, expert=8) for engine in ("trtllm", graphs))
    prompt = rl.Workload(1000, 1)
    saved_s = rl.prefill(eager, prompt).estimate_s - rl.prefill(captured, prompt).estimate_s
    assert 0.5 * (0.232 - 0.137) < saved_s < 1.2 * (0.232 - 0.137)
