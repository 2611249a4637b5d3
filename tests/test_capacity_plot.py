"""Plots of memory, plans and sensitivities: what is drawn is what the results hold."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import roofline as rl

SERVE = rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm"))
LOAD = rl.Workload(1500, 300, batch=16)


@pytest.fixture(scope="module")
def plan():
    return rl.plan(SERVE.model, ["h100-sxm", "l4"], LOAD, slo=rl.SLO(tpot_s=0.03))


@pytest.fixture
def ax():
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


def test_a_stack_is_as_high_as_what_is_used(ax):
    fp8 = rl.quantize(SERVE, weights="fp8")
    needs = [rl.memory(serve, LOAD) for serve in (SERVE, fp8)]
    assert rl.plot.memory_stack(*needs, names=("bf16", "fp8"), ax=ax) is ax
    for place, need in enumerate(needs):
        bars = [bar for bar in ax.patches if bar.get_x() + 0.3 == pytest.approx(place)]
        used = sum(value for name, value in need.parts.items() if name != "free")
        assert sum(bar.get_height() for bar in bars) * 1e9 == pytest.approx(used)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["bf16", "fp8"]


def test_the_frontier_is_drawn_and_the_best_has_a_star(ax, plan):
    rl.plot.pareto(plan, ax=ax)
    lines = {line.get_label(): line for line in ax.lines}
    front = plan.take(plan.accelerator == "h100-sxm").frontier
    assert np.array_equal(lines["h100-sxm"].get_xdata(), front.tokens_per_s_per_user)
    stars = [line for line in ax.lines if line.get_marker() == "*" and len(line.get_xdata())]
    assert plan.best.tokens_per_s_per_gpu[0] in [star.get_ydata()[0] for star in stars]


def test_a_tornado_shows_what_doubling_gives(ax):
    found = rl.sensitivity(rl.decode(SERVE, LOAD), time="roofline_s")
    rl.plot.tornado(found, ax=ax)
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names[-1] == "bandwidth"
    widths = {bar.get_width() for bar in ax.patches}
    assert any(width == pytest.approx(found.ratio("bandwidth", 2) - 1) for width in widths)


def test_what_can_not_be_drawn_says_so(plan):
    sweep = rl.Workload(batch=np.array([1, 2]))
    with pytest.raises(rl.InvalidInput, match="needs at least one"):
        rl.plot.memory_stack()
    with pytest.raises(rl.InvalidInput, match="single cases"):
        rl.plot.memory_stack(rl.memory(SERVE, sweep))
    with pytest.raises(rl.InvalidInput, match="a name for each of 1 cases: 2 given"):
        rl.plot.memory_stack(rl.memory(SERVE, LOAD), names=("a", "b"))
    with pytest.raises(rl.InvalidInput, match="a single pass"):
        rl.plot.tornado(rl.sensitivity(rl.decode(SERVE, sweep), time="roofline_s"))
    with pytest.raises(rl.InvalidInput, match="factor must be above 1"):
        rl.plot.tornado(rl.sensitivity(rl.decode(SERVE, LOAD), time="roofline_s"), factor=1)
    with pytest.raises(rl.InvalidInput, match="no candidate of the plan fits: does not fit"):
        rl.plot.pareto(rl.plan("llama-3.1-70b", ["l4"], LOAD, accelerators=(1,)))
