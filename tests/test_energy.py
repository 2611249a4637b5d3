"""Power and energy, held against measured boards, against sums by hand, and against orders that must hold."""

import sys
from pathlib import Path

import numpy as np
import pytest

import roofline as rl
from roofline.efficiency.power import PowerDraw, power_model
from roofline.files import read_yaml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
pytest.importorskip("scipy")
import energy  # noqa: E402

ROWS = energy.read()
LLAMA_8B, LLAMA_70B = rl.get_model("llama-3.1-8b"), rl.get_model("llama-3.1-70b")
CHAT = rl.Workload(prompt_tokens=1500, output_tokens=300, batch=16)


def states_of(source, accelerator, every=1):
    kept = [row for row in ROWS if row["source"] == source and row["accelerator"] == accelerator]
    return list(energy.steady_states(kept[::every]))


@pytest.mark.parametrize(
    ("source", "accelerator", "every", "most"),
    [
        ("splitwise-sim", "a100-sxm-80gb", 3, 0.06),
        ("mlenergy-v3", "h100-sxm", 12, 0.15),
        ("mlenergy-v3", "b200-sxm", 12, 0.10),
    ],
)
def test_power_is_near_what_boards_drew_where_the_tdp_is_far_off(source, accelerator, every, most):
    states = states_of(source, accelerator, every)
    model = power_model(rl.get_accelerator(accelerator))
    measured = np.array([each.share for each in states])
    predicted = np.minimum([model.share(each.duty, each.memory, each.compute) for each in states], 1.0)
    off = np.abs(predicted / measured - 1)
    assert len(states) >= 14
    assert np.median(off) < most
    assert np.median(off) < 0.5 * np.median(np.abs(1 / measured - 1))
    inside = (predicted * model.low <= measured) & (measured <= predicted * model.high)
    assert np.mean(inside) >= 0.7


@pytest.mark.parametrize(
    ("model", "count", "weights", "measured"),
    [("llama-3.1-70b", 4, "bf16", 1.254), ("llama-3.1-405b", 8, "fp8", 0.210)],
)
def test_tokens_per_joule_of_whole_servers(model, count, weights, measured):
    """ML.ENERGY 3, H100, chat: the runs at a running batch of 200 and more that are nearest to the figure printed.

    The TDP gives 0.967 tokens/J for the 70B and 0.152 for the 405B.
    """
    rows = [
        row
        for row in ROWS
        if (row["library_model"], row["accelerator"], row["weights"]) == (model, "h100-sxm", weights)
        and row["source"] == "mlenergy-v3"
        and row["accelerators"] == str(count)
    ]
    row = min(rows, key=lambda row: abs(1 / float(row["joules_per_output_token"]) - measured))
    (state,) = energy.steady_states([row])
    assert 1 / float(row["joules_per_output_token"]) == pytest.approx(measured, rel=0.02)
    share = power_model(rl.get_accelerator("h100-sxm")).share(state.duty, state.memory, state.compute)
    predicted = float(row["output_tokens_per_s"]) / (min(share, 1.0) * 700 * count)
    at_tdp = float(row["output_tokens_per_s"]) / (700 * count)
    assert abs(predicted / measured - 1) < 0.25
    assert abs(predicted / measured - 1) < abs(at_tdp / measured - 1)


def test_energy_of_a_step_by_hand():
    """A batch of 16 on an H100: each part of the energy from weights, cache and FLOPs counted by hand."""
    serve = rl.Deployment(LLAMA_8B, "h100-sxm")
    step = rl.decode(serve, CHAT, context_tokens=1650)
    model = power_model(serve.accelerator)
    weights = 2 * (LLAMA_8B.parameters.total - LLAMA_8B.parameters.embedding)
    cache = 16 * 1650 * 2 * 32 * 8 * 128 * 2
    flops = 16 * (2 * (LLAMA_8B.parameters.total - LLAMA_8B.parameters.embedding) + 4 * 32 * 32 * 128 * 1650)
    found = step.energy
    assert found.memory_j == pytest.approx(model.memory * 700 * (weights + cache) / 3.35e12, rel=0.02)
    assert found.compute_j == pytest.approx(model.compute * 700 * flops / 989.4e12, rel=0.02)
    assert found.idle_j == pytest.approx(0.1 * 700 * step.estimate_s)
    assert found.busy_j <= model.busy * 700 * step.estimate_s
    parts = found.idle_j + found.busy_j + found.memory_j + found.compute_j
    assert step.energy_j == pytest.approx(parts)
    assert step.watts == pytest.approx(parts / step.estimate_s)
    assert step.watts_low <= step.watts <= step.watts_high <= 700


def test_energy_of_a_deployment_is_that_of_all_its_accelerators():
    """Tensor parallelism divides bytes and FLOPs, so their energy stays; every board idles."""
    alone = rl.decode(rl.Deployment(LLAMA_8B, "h100-sxm"), CHAT)
    four = rl.decode(rl.Deployment(LLAMA_8B, "h100-sxm", parallel=rl.Parallel(tensor=4)), CHAT)
    assert four.energy.compute_j == pytest.approx(alone.energy.compute_j, rel=0.01)
    assert four.energy.memory_j == pytest.approx(alone.energy.memory_j, rel=0.1)
    assert four.energy.idle_j == pytest.approx(4 * 70 * four.estimate_s)
    replicas = rl.decode(rl.Deployment(LLAMA_8B, "h100-sxm", parallel=rl.Parallel(data=2)), rl.Workload(1500, 300, 32))
    assert replicas.energy_j == pytest.approx(2 * alone.energy_j)


def test_power_of_a_sweep_is_that_of_its_points():
    serve = rl.Deployment(LLAMA_8B, "b200-sxm")
    batches = np.array([1, 8, 64, 256])
    swept = rl.decode(serve, rl.Workload(batch=batches))
    single = [rl.decode(serve, rl.Workload(batch=int(batch))) for batch in batches]
    assert swept.watts == pytest.approx([step.watts for step in single])
    assert swept.energy_j == pytest.approx([step.energy_j for step in single])
    assert np.all(np.diff(swept.energy_j / batches) < 0)


def test_prefill_draws_more_than_decode_and_never_more_than_the_limit():
    for name in ("a100-sxm-80gb", "h100-sxm", "b200-sxm"):
        serve = rl.Deployment(LLAMA_8B, name)
        prompts, step = rl.prefill(serve, rl.Workload(8000)), rl.decode(serve, rl.Workload(batch=1))
        assert serve.accelerator.tdp_watts >= prompts.watts > step.watts


def test_what_nobody_fitted_is_the_tdp_and_says_so():
    step = rl.decode(rl.Deployment(LLAMA_8B, "rtx-4090"), CHAT)
    assert step.watts == step.watts_high == pytest.approx(450, rel=0.1)
    assert step.watts <= 450
    assert any("TDP as an upper bound" in note for note in step.assumptions)
    fitted = rl.decode(rl.Deployment(LLAMA_8B, "h200-sxm"), CHAT)
    assert any("243 steady states of H100" in note for note in fitted.assumptions)


def test_the_tdp_says_what_it_is_of():
    """A GH200's 1,000 W are shared with its CPU, a Mac's are at the wall, so that shares of boards do not apply."""
    scopes = {"h100-sxm": "board", "gh200-96gb": "module", "jetson-thor-t5000": "module", "apple-m2-ultra": "machine"}
    for name, scope in scopes.items():
        assert rl.get_accelerator(name).tdp_scope == scope
    for name in rl.list_accelerators():
        chip = rl.get_accelerator(name)
        assert bool(chip.tdp_scope) == (chip.tdp_watts is not None)
    step = rl.decode(rl.Deployment(LLAMA_8B, "gh200-96gb"), CHAT)
    assert not power_model(step.deployment.accelerator).fitted
    assert "power: the TDP of gh200-96gb covers the module with its CPU" in step.assumptions
    watts = {"apple-m2-ultra": 295, "apple-m2-max": 145, "apple-m1-ultra": 215, "apple-m2": 50, "mi250x-gcd": 250}
    assert {name: rl.get_accelerator(name).tdp_watts for name in watts} == watts


def test_boards_that_were_not_fitted_drew_what_the_bounds_say():
    found = energy.unfitted(ROWS)
    assert len(found) > 20
    for row, share in found:
        model = power_model(rl.get_accelerator(row["accelerator"]))
        assert not model.fitted
        assert model.low <= share <= 1.02  # 354 W were read at a limit of 350


def test_without_a_tdp_there_is_no_power():
    step = rl.decode(rl.Deployment("llama-3.2-1b", "tpu-v5e"), rl.Workload())
    assert np.isnan(step.watts)
    assert np.isnan(step.energy_j)
    assert step.to_dict()["watts"] is None
    assert "power: tpu-v5e states no TDP" in step.assumptions
    with pytest.raises(rl.InvalidInput, match="tpu-v5e states no TDP"):
        rl.Deployment("llama-3.2-1b", "tpu-v5e", power_limit_watts=100)


def test_clock_and_time_by_hand():
    """200 of 400 W: (0.5 - 0.36) / 0.64 = 0.21875 = f 0.87^2, f = 0.289; half way up from the knee V = 0.935."""
    steady = PowerDraw.steady(400)
    assert steady.clock_under(200) == pytest.approx(0.21875 / 0.87**2, abs=1e-6)
    upper = 0.36 + 0.64 * 0.925 * (0.87 + 0.13 * 0.5) ** 2
    assert steady.clock_under(400 * upper) == pytest.approx(0.925, abs=1e-6)
    assert steady.clock_under(100) == pytest.approx(0.1)
    assert steady.clock_under(500) == 1.0
    # a quarter waits for the memory: 0.25 + 0.75 / 0.7328
    assert steady._replace(clocked_s=0.75).time_at(0.7328) == pytest.approx(1.27347, abs=1e-5)


def test_energy_under_a_limit_by_hand():
    """Two seconds of kernels, one of which follows the clock: half the clock takes 3 s.

    Below the knee V^2 = 0.7569: 50 W x 3 s, 60 J of bytes, 100 W over one second's cycles and half of another's, 80 J.
    """
    draw = PowerDraw(2.0, 2.0, 1.0, standing_watts=50.0, memory_j=60.0, busy_watts=100.0, compute_j=80.0)
    joules = 50 * 3 + 60 + 0.7569 * (100 * 1.5 + 80)
    assert draw.energy_at(0.5) == pytest.approx(joules)
    assert draw.clock_under(joules / 3) == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("share", [0.2, 0.35, 0.5, 0.8])
@pytest.mark.parametrize(
    ("model", "name", "weights"),
    [
        ("qwen2.5-72b", "gb200", "int4_g128"),
        ("qwen3-8b", "a30", "bf16"),
        ("llama-3.3-70b", "b300-sxm", "int4_g128"),
        ("olmo-3-32b", "a100-sxm-40gb", "bf16"),
        (LLAMA_8B, "rtx-3090", "q4_k_m"),
    ],
)
def test_more_sequences_are_never_faster_under_a_limit(model, name, weights, share):
    """More work takes more energy, and no less time at any clock, so it takes no less time within the same power."""
    serve = rl.Deployment(model, name, rl.Precision(weights=weights))
    serve = serve.replace(power_limit_watts=share * float(serve.accelerator.tdp_watts))
    load = rl.Workload(20, 64, batch=np.arange(1, 300))
    for found in (rl.decode(serve, load), rl.prefill(serve, load)):
        assert np.all(np.diff(found.estimate_s) >= -0.01 * found.estimate_s[1:])


@pytest.mark.parametrize("curve", list(energy.curves(ROWS)), ids=lambda curve: curve.name)
def test_speed_under_a_limit_follows_measured_curves(curve):
    """An RTX 3090 under 190 to 370 W (club-3090); the share that waits for the memory is each curve's own."""
    off = curve.off(curve.memory_share)
    assert len(off) == 19
    assert np.median(off) < 0.05
    assert np.mean(off) < 0.05


def test_clocks_under_a_limit_follow_measured_ones():
    """Prompts: within 2 % from 190 to 370 W; single streams draw less for the memory or more, up to a seventh off."""
    found = list(energy.curves(ROWS))
    caps = read_yaml(energy.PARAMETERS)["caps"]
    assert energy.fit_caps(found) == (caps["static"], caps["knee"], caps["voltage"])
    for curve in found:
        off = np.abs(PowerDraw.steady(curve.demand).clock_under(curve.limits) / curve.clocks - 1)
        assert np.mean(off) < (0.02 if "prefill" in curve.name else 0.15)


def test_below_the_knee_power_is_a_line_in_the_clock():
    """An RTX 5090 with locked clocks (club-3090): 180 to 1,635 of 3,090 MHz on a line within 2 %, then above it."""
    mine = [row for row in ROWS if row["source"] == "club-3090-5090" and row["sm_clock_mhz"]][-7:]
    clocks, watts = (np.array([float(row[name]) for row in mine]) for name in ("sm_clock_mhz", "watts_per_gpu"))
    line = np.polyval(np.polyfit(clocks[:4], watts[:4], 1), clocks)
    assert np.all(np.abs(watts[:4] / line[:4] - 1) < 0.02)
    assert np.all(np.diff(watts / line)[3:] > 0.03)


def test_boards_differ_in_what_they_draw_without_regard_to_the_clock():
    """The power at no clock, by extrapolation, of an RTX 5090's two lines over that at the full clock: 0.09 and 0.12.

    With knee and voltage as filed their clocks fit a share of 0.10 and 0.16; an RTX 3090's one of 0.36.
    """
    mine = [row for row in ROWS if row["source"] == "club-3090-5090" and row["sm_clock_mhz"]]
    caps = read_yaml(energy.PARAMETERS)["caps"]
    still = []
    for rows in (mine[-14:-7], mine[-7:]):
        clocks, watts = (np.array([float(row[name]) for row in rows]) for name in ("sm_clock_mhz", "watts_per_gpu"))
        line = np.polyfit(clocks[:4], watts[:4], 1)
        assert line[1] / watts[-1] == pytest.approx(0.105, abs=0.02)
        f = clocks / clocks[-1]
        drawn = (
            f * (caps["voltage"] + (1 - caps["voltage"]) * np.maximum(f - caps["knee"], 0) / (1 - caps["knee"])) ** 2
        )
        rest = 1 - drawn
        still.append(float(rest @ (watts / watts[-1] - drawn) / (rest @ rest)))
    assert np.mean(still) == pytest.approx(caps["static_low"], abs=0.005)
    full = rl.prefill(rl.Deployment(LLAMA_8B, "h100-sxm"), rl.Workload(8000))
    limited = rl.prefill(rl.Deployment(LLAMA_8B, "h100-sxm", power_limit_watts=300), rl.Workload(8000))
    ends = (
        limited.estimate_low_s / full.estimate_low_s,
        limited.estimate_s / full.estimate_s,
        limited.estimate_high_s / full.estimate_high_s,
    )
    # Hopper's own shares: kernels that run take 400 W, at 0.89 of the full clock, and FLOPs 404 W: at the least voltage
    # 0.757 x 760 W, of which 300 W leave 225 W beside an idle board of 75 W
    assert ends == pytest.approx((2.0, 0.757 * 760 / 225, 2.9), abs=0.1)


@pytest.mark.parametrize(("watts", "tflops"), [(250, (234, 241)), (300, (256, 256))])
def test_the_same_chip_at_less_power(watts, tflops):
    """Large 16-bit products of an A100 PCIe of 40 GB (250 W) and 80 GB (300 W) against one of 400 W, public figures.

    The fastest of each in ``public_gemm.csv.gz``: 234 and 256 TFLOP/s in BF16 against 299, 241 and 256 in FP16 against
    266 (an A800 of 400 W).
    """
    full, limited = (
        rl.prefill(rl.Deployment(LLAMA_8B, "a100-sxm-80gb", power_limit_watts=limit), rl.Workload(8000))
        for limit in (None, watts)
    )
    slower, faster = tflops[0] / 299, tflops[1] / 266
    assert 0.93 * slower < full.estimate_s / limited.estimate_s < 1.07 * faster


@pytest.mark.parametrize("curve", list(energy.curves(ROWS)), ids=lambda curve: curve.name)
def test_estimates_under_a_limit_are_near_measured_curves(curve):
    """With the library's own shares; limits in proportion to the demand that it takes, 5 % above the card's."""
    model, phase = curve.name.split(", ")
    serve = rl.Deployment(model.lower(), "rtx-3090", rl.Precision(weights="q3_k_s" if "27B" in model else "q4_k_m"))
    load = rl.Workload(prompt_tokens=11000) if phase == "prefill" else rl.Workload(batch=1)
    run = rl.prefill if phase == "prefill" else rl.decode
    limits = curve.limits / curve.demand * serve.accelerator.tdp_watts
    full, limited = run(serve, load), run(serve.replace(power_limit_watts=limits), load)
    off = full.estimate_s / limited.estimate_s / curve.speeds - 1
    assert np.median(np.abs(off)) < 0.11
    assert np.max(np.abs(off)) < 0.22
    if phase == "decode":  # kernels that unpack weights may wait for the memory or not: the lower end says that they do
        assert np.all(full.estimate_low_s / limited.estimate_low_s >= curve.speeds * 0.999)


@pytest.mark.parametrize(
    ("model", "watts", "rates", "traffic"),
    [
        ("llama-2-70b", 500, (31302.7, 25262.1), (300, 291, 512)),
        ("llama-2-70b", 500, (29228.2, 23113.1), (300, 291, 512)),
        ("mixtral-8x7b", 500, (59022.3, 48987.9), (300, 146, 512)),
        ("mixtral-8x7b", 500, (57177.2, 45497.0), (300, 146, 512)),
        ("gpt-j-6b", 350, (20086.1, 13096.6), (870, 69, 128)),
    ],
)
def test_whole_servers_under_a_limit(model, watts, rates, traffic):
    """MLPerf Inference 4.1, NVIDIA's 8 x H200 at 700 W and, for the power results, at less: 0.65 to 0.83 as fast.

    FP8, prompts of some 300 tokens (articles with GPT-J, which keeps four beams of each), full batches: one prompt for
    each output that a request generates.  Steps that wait for the memory are taken not to slow down at all; those of
    GPT-J, at half the power, do.
    """
    serve = rl.Deployment(model, "h200-sxm", rl.Precision(weights="fp8", activations="fp8", kv="fp8"))
    prompt, output, batch = traffic
    beams = 4 if model == "gpt-j-6b" else 1
    seconds = []
    for case in (serve, serve.replace(power_limit_watts=watts)):
        step = rl.decode(case, rl.Workload(batch=beams * batch), context_tokens=prompt + output // 2)
        prompts = rl.prefill(case, rl.Workload(prompt_tokens=prompt, batch=8))
        seconds.append(step.estimate_s * output / batch + prompts.estimate_s / 8)
    off = 0.25 if model == "gpt-j-6b" else 0.16
    assert seconds[0] / seconds[1] == pytest.approx(rates[1] / rates[0], rel=off)


def test_a_limit_leaves_what_waits_for_memory_alone_and_slows_what_computes():
    serve = rl.Deployment(LLAMA_8B, "h100-sxm")
    limited = serve.replace(power_limit_watts=400)
    before, after = rl.prefill(serve, rl.Workload(8000)), rl.prefill(limited, rl.Workload(8000))
    assert before.watts > 600
    assert after.watts == pytest.approx(400)
    # by hand: energies as Hopper was fitted; a prompt follows the clock throughout, so that from the clock f1 at 700 W
    # to f at 400 W, below the knee, it takes f1 / f times as long
    model, energy_of, seconds = power_model(serve.accelerator), before.energy, before.estimate_s
    off = np.sqrt(model.low * model.high)
    idle, busy = off * energy_of.idle_j / seconds, off * energy_of.busy_j / seconds
    memory_j, compute_j = off * energy_of.memory_j, off * energy_of.compute_j
    slower = after.estimate_s / before.estimate_s
    full = next(step for step in after.explain() if step.name == "prefill.estimate_under_limit_s").inputs[
        "clock_at_tdp"
    ]
    cycles_j = 0.87**2 * (busy * seconds * full + compute_j)
    assert slower == pytest.approx((memory_j + cycles_j) / ((400 - idle) * seconds), rel=0.05)
    volts = 0.87 + 0.13 * max(full - 0.85, 0) / 0.15
    assert idle + memory_j / seconds + volts**2 * (busy * full + compute_j / seconds) == pytest.approx(700, rel=1e-3)
    assert after.floor_s == before.floor_s
    assert after.roofline_s == before.roofline_s
    steps = rl.decode(serve, CHAT), rl.decode(limited, CHAT)
    assert steps[1].estimate_s == pytest.approx(steps[0].estimate_s, rel=0.02)


def test_a_limit_above_the_demand_changes_nothing_and_a_lower_one_is_never_faster():
    serve = rl.Deployment(LLAMA_8B, "a100-sxm-80gb")
    watts = np.array([400.0, 350.0, 300.0, 250.0, 200.0, 150.0])
    found = rl.prefill(serve.replace(power_limit_watts=watts), rl.Workload(4000))
    assert found.estimate_s[0] == pytest.approx(rl.prefill(serve, rl.Workload(4000)).estimate_s)
    assert np.all(np.diff(found.estimate_s) >= 0)
    assert np.all(found.watts <= watts)


@pytest.mark.parametrize("watts", [0, -5, np.nan, "300"])
def test_a_limit_that_can_be_none_is_refused(watts):
    with pytest.raises(rl.InvalidInput, match="power_limit_watts"):
        rl.Deployment(LLAMA_8B, "h100-sxm", power_limit_watts=watts)


def test_the_derivation_of_energy_adds_up():
    step = rl.prefill(rl.Deployment(LLAMA_8B, "h100-sxm", power_limit_watts=500), rl.Workload(4000))
    steps = {each.name: each for each in step.explain()}
    for name in ("idle_j", "busy_j", "memory_j", "compute_j", "demand_watts", "watts", "energy_j"):
        found = steps[f"prefill.{name}"]
        value = eval(found.formula, {"min": np.minimum, "max": np.maximum}, dict(found.inputs))
        assert value == pytest.approx(found.value), name
    assert steps["prefill.watts"].value == 500
    assert steps["prefill.energy_j"].value == step.energy_j


def test_the_parameters_are_those_that_the_benchmark_fits():
    """On every other row: within what the rows left out make of it."""
    states = states_of("splitwise-sim", "a100-sxm-80gb") + states_of("chuyishang", "a100-sxm-80gb")
    model = power_model(rl.get_accelerator("a100-sxm-80gb"))
    busy, memory, compute = energy.fit(states)
    assert (busy, memory, compute) == pytest.approx((model.busy, model.memory, model.compute), abs=0.02)
