"""Latent attention is computed in the way that takes less time on the chip, pass by pass."""

import numpy as np
import pytest

import roofline as rl
from roofline.operators.alternatives import cheapest, picked

V3 = rl.get_model("deepseek-v3")
WAYS = ("absorbed", "expanded")


def forced(phase, option):
    """The pass with one way of attention, whatever the other takes: rooflines of its operators added up."""
    return sum(item.roofline_s for item in phase.scheduled.ways if item.operator.option in ("", option))


@pytest.mark.parametrize("accelerator", ["h100-sxm", "h20-96gb", "rtx-pro-6000-server", "mi300x"])
@pytest.mark.parametrize("prompt", [1, 2, 16, 64, 170, 512, 4096])
@pytest.mark.parametrize("cached", [0, 1000, 100_000])
def test_the_faster_way_runs(accelerator, prompt, cached):
    serve = rl.Deployment(V3, accelerator)
    phase = rl.prefill(serve, rl.Workload(prompt_tokens=prompt, cached_tokens=cached, batch=16))
    assert phase.roofline_s == pytest.approx(min(forced(phase, option) for option in WAYS))
    assert len({item.operator.option for item in phase.operators} - {""}) == 1


def test_chips_may_differ_in_the_way_they_take():
    """An H20 has a seventh of an H100's FLOP/s at more bandwidth: what costs FLOPs loses earlier."""
    load = rl.Workload(prompt_tokens=150, cached_tokens=100_000, batch=16)
    ways = {}
    for accelerator in ("h100-sxm", "h20-96gb"):
        phase = rl.prefill(rl.Deployment(V3, accelerator), load)
        ways[accelerator] = {item.operator.option for item in phase.operators} - {""}
        assert phase.roofline_s == pytest.approx(min(forced(phase, option) for option in WAYS))
    assert ways["h20-96gb"] <= set(WAYS)


@pytest.mark.parametrize("sharing", [1, 16])
def test_no_time_falls_as_the_prompt_grows(sharing):
    serve = rl.Deployment(V3, "h100-sxm", parallel=rl.Parallel(tensor=8))
    load = rl.Workload(prompt_tokens=np.arange(1, 400), batch=sharing, cached_tokens=100_000)
    phase = rl.prefill(serve, load)
    for time in ("floor_s", "roofline_s"):
        assert np.all(np.diff(getattr(phase, time)) >= 0)
    assert np.all(phase.floor_s <= phase.roofline_s)
    assert np.all(phase.roofline_s <= phase.estimate_s)


def test_the_floor_takes_less_time_not_fewer_flops():
    """DeepSeek-V3 on 8 H100, one sequence, 100,000 cached, 170 new, by hand.

    Absorbed is 0.2 % fewer FLOPs, all in 16 bits; of the expanded ones 70 % are products in 8 bits, twice as fast.
    """
    serve = rl.Deployment(V3, "h100-sxm", parallel=rl.Parallel(tensor=8))
    phase = rl.prefill(serve, rl.Workload(prompt_tokens=170, cached_tokens=100_000))
    pairs = 170 * 100_000 + 170 * 171 / 2
    absorbed = 61 * 16 * pairs * 2 * (576 + 512)
    expanded = 61 * 16 * (pairs * 2 * (192 + 128) + 2 * 512 * 256 * 100_000)
    ways = dict.fromkeys(WAYS, 0.0)
    for item in phase.scheduled.ways:
        if item.operator.option:
            ways[item.operator.option] += item.operator.count * item.operator.least.flops
    assert ways == pytest.approx({"absorbed": absorbed, "expanded": expanded})
    assert absorbed < expanded
    assert {item.operator.option for item in phase.scheduled.least.operators} - {""} == {"expanded"}
    wide = serve.replace(precision=rl.Precision())
    same = rl.prefill(wide, rl.Workload(prompt_tokens=170, cached_tokens=100_000))
    assert {item.operator.option for item in same.scheduled.least.operators} - {""} == {"absorbed"}


def test_a_sweep_takes_its_way_at_each_point():
    serve = rl.Deployment(V3, "h100-sxm")
    prompts = np.array([1, 20, 100, 150, 2000])
    sweep = rl.prefill(serve, rl.Workload(prompt_tokens=prompts, cached_tokens=100_000, batch=16))
    each = [rl.prefill(serve, rl.Workload(prompt_tokens=int(n), cached_tokens=100_000, batch=16)) for n in prompts]
    for time in ("floor_s", "roofline_s", "estimate_s", "flops", "moved_bytes", "least_bytes"):
        assert getattr(sweep, time) == pytest.approx([getattr(phase, time) for phase in each])


def test_a_mixed_step_decides_for_each_group_of_sequences():
    serve = rl.Deployment(V3, "h100-sxm")
    both = rl.mixed(serve, decode=rl.Workload(2000, batch=8), prefill=rl.Workload(prompt_tokens=8192))
    ways = [item.operator.option for item in both.operators if item.name == "attention"]
    assert set(ways) == set(WAYS)


def test_a_tie_takes_the_first_way():
    (first, *_), costs = [item for item in V3.operators(_run()) if item.choice], (1.0, 1.0)
    chosen = cheapest((first,), lambda at: costs[at])
    assert picked(first, chosen) is first


def _run():
    serve = rl.Deployment(V3, "h100-sxm")
    return serve.run(*rl.decode(serve, rl.Workload()).segments)
