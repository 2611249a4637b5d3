"""Napkins: five lines over rounded numbers, each held against the exact value."""

import json

import numpy as np
import pytest

import roofline as rl
from roofline.teaching.lines import rounded

H100 = rl.get_accelerator("h100-sxm")
LARGE = rl.Deployment(rl.get_model("llama-3.1-70b"), H100)
MODELS = ["llama-3.1-8b", "deepseek-v3", "mixtral-8x7b", "gpt-oss-120b", "qwen3-next-80b-a3b", "codestral-mamba-7b"]


def results(name):
    for parallel in (rl.Parallel(), rl.Parallel(tensor=8)):
        serve = rl.Deployment(rl.get_model(name), H100, parallel=parallel)
        load = rl.Workload(1500, 256, 4)
        yield from (
            rl.decode(serve, load),
            rl.prefill(serve, load),
            rl.memory(serve, load),
            rl.generate(serve, load, time="roofline_s"),
        )


def test_the_lines_of_a_decode_step():
    found = rl.napkin(rl.decode(LARGE, rl.Workload(), context_tokens=2000))
    assert str(found).splitlines() == [
        "decode of Llama 3.1 70B on h100-sxm",
        "  70 G weights x 2 B = 140 GB   (exact 139 GB, +1%)",
        "  1 x 2,000 tokens x 330 kB = 660 MB   (exact 656 MB, +1%)",
        "  (140 GB + 660 MB) / 3.35 TB/s = 42 ms   (exact 41.7 ms, +1%)",
        "  2 x 70 G x 1 tokens / 989 TFLOP/s = 140 us   (exact 140.5 us, 0%)",
        "  the longer of 42 ms and 140 us: memory = 42 ms   (exact 41.7 ms, +1%)",
    ]


def test_exact_values_by_hand():
    """70B in bf16: 69.5e9 weights multiplied, 327,680 bytes of cache a token; a prompt has N (N + 1) / 2 pairs."""
    step = rl.napkin(rl.decode(LARGE, rl.Workload(batch=8), context_tokens=2000))
    assert step.exact[:2] == pytest.approx([2 * 69_503_033_344, 8 * 2002 * 327_680], rel=2e-3)
    prompt = rl.napkin(rl.prefill(LARGE, rl.Workload(2000)))
    layers = 69_503_033_344 - 128_256 * 8192  # lm_head runs on one position
    assert prompt.exact[0] == pytest.approx(2 * 2000 * layers, rel=1e-4)
    assert prompt.exact[1] == pytest.approx(2000 * 2001 / 2 * 4 * 80 * 8192, rel=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_every_line_follows_from_its_rounded_numbers(name):
    for result in results(name):
        found = rl.napkin(result)
        assert len(found.lines) == 5
        for step in found.explain():
            by_hand = eval(step.formula, {"__builtins__": {}, "max": max}, dict(step.inputs))
            assert step.value == rounded(by_hand), step.name


@pytest.mark.parametrize("name", MODELS)
def test_lines_are_close_to_what_they_say(name):
    for result in results(name):
        deviations = np.abs(rl.napkin(result).deviation)
        assert (deviations[:-1] < 0.12).all()


@pytest.mark.parametrize("name", MODELS)
def test_the_last_line_is_held_against_the_result(name):
    decode, prefill, _, generation, *_ = results(name)
    assert rl.napkin(decode).lines[-1].exact == decode.roofline_s
    assert rl.napkin(prefill).lines[-1].exact == prefill.roofline_s
    assert rl.napkin(generation).lines[3].exact == generation.total_s


def test_memory_by_hand():
    serve = LARGE.replace(parallel=rl.Parallel(tensor=4))
    found = rl.napkin(rl.memory(serve, rl.Workload()))
    room = 4 * 0.9 * float(H100.memory_bytes) - 2 * 70_553_706_496
    assert found.lines[2].exact == pytest.approx(room, rel=1e-3)
    assert found.lines[4].exact == pytest.approx(room / (2256 * 327_680), rel=1e-3)
    assert found.lines[4].value == pytest.approx(float(rl.memory(serve, rl.Workload()).max_batch), rel=0.1)


def test_an_operator():
    found = rl.napkin(rl.bound(rl.matmul(128, 8192, 8192), H100))
    assert found.lines[0].words == "2 x 130 x 8,200 x 8,200"
    assert found.lines[0].exact == 2 * 128 * 8192 * 8192
    assert found.lines[-1].exact == rl.bound(rl.matmul(128, 8192, 8192), H100).roofline_s


def test_views():
    found = rl.napkin(rl.decode(LARGE, rl.Workload()))
    assert len(found.to_frame()) == 5
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["name"][0] == "weight_bytes"


@pytest.fixture(scope="module")
def answers():
    """One result of every kind that answers a question."""
    serve, load = rl.Deployment("llama-3.1-8b", H100), rl.Workload(2000, 256, 8)
    fp8 = rl.quantize(serve, weights="fp8", activations="fp8")
    plan = rl.plan("llama-3.1-8b", H100, load, slo=rl.SLO(tpot_s=0.03), prices={"h100-sxm": 2.5})
    at_rate = rl.plan("llama-3.1-8b", H100, load, slo=rl.SLO(tpot_s=0.03), requests_per_s=50, method="closed-form")
    return {
        "comparison": rl.compare(rl.decode(serve, load), rl.decode(fp8, load)),
        "memory": rl.compare(rl.memory(serve, load), rl.memory(fp8, load)),
        "closed loop": rl.serve(serve, load, concurrency=8),
        "open loop": rl.serve(serve, load, requests_per_s=5, method="closed-form"),
        "overload": rl.serve(serve, load, requests_per_s=500, method="closed-form"),
        "simulation": rl.simulate(serve, load, concurrency=8, requests=80),
        "effect": rl.apply(serve, load, "speculative"),
        "plan": plan,
        "plan at a rate": at_rate,
        "fleet": rl.fleet(plan, requests_per_s=50, method="closed-form"),
        "pools": rl.disaggregate(at_rate, method="closed-form"),
        "batch": rl.solve(serve, load, find="batch", metric="tpot_s", target=0.02),
        "bandwidth": rl.solve(serve, load, find="memory_bytes_per_s", target=0.004),
        "fits": rl.solve(LARGE, load, find="weight_bits", metric="fits"),
        "sensitivity": rl.sensitivity(rl.decode(serve, load)),
        "ridges": rl.ridge_table(vendor="nvidia"),
        "techniques": rl.technique_table(serve, load),
        "advice": rl.advise(serve, load),
        "crossovers": rl.crossovers(serve, load),
    }


def test_every_kind_of_answer_has_a_napkin(answers):
    for name, result in answers.items():
        found = rl.napkin(result)
        assert 2 <= len(found.lines) <= 5, name
        assert (np.abs(found.deviation) < 0.12).all(), f"{name}: {found}"
        for step in found.explain():
            by_hand = eval(step.formula, {"__builtins__": {}, "max": max}, dict(step.inputs))
            assert step.value == rounded(by_hand), f"{name}: {step.name}"


def test_requests_by_hand(answers):
    """Little's law: 8 requests in the system, each 2.1 s, are 3.8 requests/s, and 256 tokens each are 970 tokens/s."""
    served = answers["closed loop"]
    first, rest, total, little, tokens = rl.napkin(served).lines
    assert (first.exact, total.exact, little.exact, tokens.exact) == (
        served.ttft_s,
        served.total_s,
        served.requests_per_s,
        served.tokens_per_s,
    )
    assert rest.exact == pytest.approx(255 * served.tpot_s)
    assert 8 / total.exact == pytest.approx(little.exact)
    assert 256 * little.exact == pytest.approx(tokens.exact)
    capacity, load = rl.napkin(answers["overload"]).lines
    assert load.exact == pytest.approx(500 / capacity.exact)


def test_a_fleet_by_hand(answers):
    best = answers["plan at a rate"].best
    _, busy, load, gpus, tokens = rl.napkin(answers["plan at a rate"]).lines
    assert busy.exact == pytest.approx(50 / best.requests_per_s[0])
    assert load.exact == pytest.approx(best.utilization[0])
    assert gpus.exact == best.replicas[0] * best.gpus[0]
    assert tokens.exact == pytest.approx(50 * 256 / gpus.exact)
    assert rl.napkin(answers["fleet"]).lines[-1].exact == answers["fleet"].usd_per_hour[0]


def test_ridge_points_by_hand():
    """A10: 125 TFLOP/s / 600 GB/s = 208 FLOP/byte (data sheet)."""
    ridge = rl.napkin(rl.ridge_table(vendor="nvidia")).lines[0]
    assert ridge.words.startswith("a10, bf16: 125 TFLOP/s / 600 GB/s")
    assert ridge.exact == pytest.approx(125e12 / 600e9, rel=1e-3)


def test_what_has_no_napkin():
    with pytest.raises(rl.InvalidInput, match="napkin takes a single point; this Phase is a sweep of shape"):
        rl.napkin(rl.decode(LARGE, rl.Workload(batch=np.arange(1, 5))))
    with pytest.raises(rl.InvalidInput, match="not int"):
        rl.napkin(3)
    with pytest.raises(rl.InvalidInput, match="napkin takes a single point; this Served is a sweep"):
        rl.napkin(rl.serve(LARGE.replace(parallel=rl.Parallel(tensor=4)), rl.Workload(), concurrency=[1, 2]))
    nothing = rl.plan("llama-3.1-70b", "l4", rl.Workload(), slo=rl.SLO(tpot_s=1e-4))
    with pytest.raises(rl.InvalidInput, match="napkin needs a candidate that meets the SLO"):
        rl.napkin(nothing)


@pytest.mark.parametrize("name", ["deepseek-v3", "llama-3.1-70b", "gpt-2"])
@pytest.mark.parametrize("tensor", [1, 8])
def test_activations_count_among_the_bytes_of_long_passes(name, tensor):
    """16,000 tokens of DeepSeek-V3 on eight accelerators move 3.6 TB beside 680 GB of weights."""
    serve = rl.Deployment(name, H100, parallel=rl.Parallel(tensor=tensor if name != "gpt-2" else 1))
    load = rl.Workload(1000, 256, 16)
    for found in (rl.napkin(rl.prefill(serve, load)), rl.napkin(rl.mixed(serve, decode=load, prefill=load))):
        *lines, last = found.lines
        assert all(abs(step.deviation) < 0.08 for step in lines)
        assert -0.5 < last.deviation < 0.08  # operators one after another take up to twice the longer of the sums
        memory, compute = (next(step for step in lines if step.name == f"{kind}_s") for kind in ("memory", "compute"))
        assert last.words.endswith(": memory" if memory.value >= compute.value else ": compute")
