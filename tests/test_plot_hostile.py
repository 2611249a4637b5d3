"""Plots of what is hard to draw: long names with dollars, eight of everything, many decades, small figures."""

import re

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from plot_examples import BATCHES, LLAMA8, LLAMA70, LOAD, RANKING, boxes_of, outside, overlaps, techniques, texts_of

import roofline as rl
from roofline.plot.frame import text_inches
from roofline.plot.ticks import log_axis

CHIPS = ("h100-sxm", "h200-sxm", "mi300x", "l4", "b200-sxm", "mi355x", "a100-sxm-80gb", "tpu-v5e")
LONG = "$mall $model_1$ with a name that goes on and on <b>&"
NAMED = LLAMA8.replace(model=LLAMA8.model.replace(title=LONG))
SWEEP = rl.Workload(batch=BATCHES)
MODELS = [rl.Deployment(name, "h100-sxm") for name in RANKING]
PLACES = [LLAMA8.replace(accelerator=rl.get_accelerator(name)) for name in CHIPS]
FP8 = rl.quantize(NAMED, weights="fp8")

HOSTILE = {
    "curves, six decades": lambda ax: rl.plot.curves(
        rl.prefill(NAMED, rl.Workload(prompt_tokens=10.0 ** np.arange(7))), ax=ax
    ),
    "curves, narrow": lambda ax: rl.plot.curves(rl.decode(LLAMA8, rl.Workload(batch=np.array([8, 9, 10]))), ax=ax),
    "curves, nothing fits": lambda ax: rl.plot.curves(rl.decode(LLAMA70, SWEEP), ax=ax),
    "heatmap, six decades": lambda ax: rl.plot.heatmap(NAMED, batch=(1, 1e5), context_tokens=(1, 1e6), ax=ax),
    "hierarchy": lambda ax: rl.plot.hierarchy(rl.memory_hierarchy(1, 4096, 4096, "a100-sxm-80gb"), ax=ax),
    "kv, one point": lambda ax: rl.plot.kv(NAMED.model, context_tokens=[4096], ax=ax),
    "kv, eight": lambda ax: rl.plot.kv(*RANKING, ax=ax),
    "memory_stack, models": lambda ax: rl.plot.memory_stack(*[rl.memory(each, LOAD) for each in MODELS], ax=ax),
    "memory_stack, chips": lambda ax: rl.plot.memory_stack(*[rl.memory(each, LOAD) for each in PLACES], ax=ax),
    "memory_stack, long": lambda ax: rl.plot.memory_stack(rl.memory(NAMED, LOAD), ax=ax),
    "roofline, long": lambda ax: rl.plot.roofline("h100-sxm", *passes(NAMED), ax=ax),
    "roofline, misfit": lambda ax: rl.plot.roofline("h100-sxm", *passes(LLAMA70), ax=ax),
    "rooflines, eight": lambda ax: rl.plot.rooflines(*CHIPS, ax=ax),
    "throughput, models": lambda ax: rl.plot.throughput(*[rl.decode(each, SWEEP) for each in MODELS], ax=ax),
    "throughput, chips": lambda ax: rl.plot.throughput(*[rl.decode(each, SWEEP) for each in PLACES], ax=ax),
    "time_breakdown, eight": lambda ax: rl.plot.time_breakdown(*[rl.decode(each, LOAD) for each in MODELS], ax=ax),
    "techniques": lambda ax: rl.plot.techniques(techniques(), ax=ax),
    "tornado": lambda ax: rl.plot.tornado(rl.sensitivity(rl.prefill(NAMED, LOAD)), ax=ax),
    "waterfall": lambda ax: rl.plot.waterfall(rl.compare(rl.memory(NAMED, LOAD), rl.memory(FP8, LOAD)), ax=ax),
}


def passes(serve):
    return rl.prefill(serve, LOAD), rl.decode(serve, LOAD)


@pytest.fixture(autouse=True)
def _agg_and_no_figure_left():
    mpl.use("Agg")
    yield
    plt.close("all")


def small():
    """Axes as people make them for a slide: 4 by 3 inches, laid out by matplotlib."""
    return plt.subplots(figsize=(4, 3), layout="constrained")[1]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_new_figure_holds_all_texts_apart(name):
    boxes = boxes_of(HOSTILE[name](None))
    assert outside(boxes) == []
    assert overlaps(boxes) == []


@pytest.mark.parametrize("name", HOSTILE)
def test_a_small_figure_holds_all_texts_apart(name):
    ax = HOSTILE[name](small())
    boxes = boxes_of(ax)
    assert outside(boxes) == []
    assert overlaps(boxes) == []
    assert min(ax.bbox.size / ax.figure.dpi) > 0.9


@pytest.mark.parametrize("name", HOSTILE)
def test_a_dark_style_leaves_every_text_readable(name):
    with plt.style.context("dark_background"):
        ax = HOSTILE[name](None)
    plain = [text for text in texts_of(ax) if text.get_bbox_patch() is None and text not in ax.texts]
    assert plain
    assert all(rl.plot.style.contrast(text.get_color(), "#000000") >= 4.5 for text in plain)


@pytest.mark.parametrize("dpi", [72, 100, 200])
def test_the_width_of_a_text_is_that_of_the_drawn_one(dpi):
    """Widths that are too large by dpi/72 wrapped titles at two thirds of the figure."""
    figure = plt.figure(figsize=(6, 4), dpi=dpi)
    ax = figure.add_subplot()
    text = ax.text(0, 0, "KV-cache quantization (int4)", fontsize=7)
    figure.draw_without_rendering()
    drawn = text.get_window_extent()
    assert text_inches(ax, text.get_text(), 7) == pytest.approx((drawn.width / dpi, drawn.height / dpi), rel=0.02)


def test_a_title_is_wrapped_only_where_the_figure_ends():
    ax = rl.plot.tornado(rl.sensitivity(rl.decode(LLAMA8, LOAD)))
    (subtitle,) = [text for text in ax.texts if "Llama" in text.get_text()]
    assert "\n" not in subtitle.get_text()


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (1, 1e6, ["1", "10", "100", "1,000", "10,000", "100,000", "1,000,000"]),
        (15, 190, ["20", "50", "100"]),
        (30, 250, ["50", "100", "200"]),
        (0.2, 60, ["0.2", "0.5", "1", "2", "5", "10", "20", "50"]),
    ],
)
def test_ticks_are_plain_numbers_and_never_only_one(low, high, shown):
    ax = plt.subplots(figsize=(6, 4))[1]
    ax.set(xscale="log", xlim=(low, high))
    log_axis(ax.xaxis)
    ax.figure.draw_without_rendering()
    found = [
        t.label1.get_text() for t in ax.xaxis.get_major_ticks() if low * (1 - 1e-9) <= t.get_loc() <= high * (1 + 1e-9)
    ]
    assert found == shown


def test_an_axis_of_less_than_a_decade_has_ticks():
    ax = plt.subplots(figsize=(4, 3))[1]
    ax.set(xscale="log", xlim=(4000, 4200))
    log_axis(ax.xaxis)
    ax.figure.draw_without_rendering()
    found = [tick.get_loc() for tick in ax.xaxis.get_major_ticks() if 4000 <= tick.get_loc() <= 4200]
    assert len(found) >= 3
    assert len(set(np.round(np.diff(found), 6))) == 1


def test_operators_below_a_hundredth_of_the_time_have_no_label():
    ax = rl.plot.roofline("h100-sxm", *passes(LLAMA8))
    assert not any("lm_head  <1%" in text.get_text() for text in ax.texts)
    assert any("lm_head" in text.get_text() for text in ax.texts)  # of decode, with the other matrices


def test_plots_name_the_time_that_they_show():
    assert "roofline times" in rl.plot.roofline("h100-sxm", *passes(LLAMA8)).texts[0].get_text()
    assert rl.plot.time_breakdown(*passes(LLAMA8)).get_xlabel() == "share of the roofline time"


def test_the_stamp_counts_what_does_not_fit():
    """Weights alone: Mixtral 93 GB, Llama 70B 141 GB and DeepSeek-V3 687 GB; an H100 has 80 GiB, 86 GB."""
    ax = rl.plot.roofline("h100-sxm", *[rl.decode(each, LOAD) for each in MODELS])
    (stamp,) = [text.get_text() for text in ax.texts if "DOES NOT FIT" in text.get_text()]
    assert "3 of 8 passes" in stamp.replace("\n", " ")
    box = next(text for text in ax.texts if "DOES NOT FIT" in text.get_text()).get_window_extent()
    assert ax.bbox.x0 <= box.x0 < box.x1 <= ax.bbox.x1


def test_techniques_without_a_row_are_counted():
    table = techniques()
    ax = rl.plot.techniques(table, ax=small())
    shown = [text.get_text() for text in ax.get_yticklabels()]
    words = " ".join(ax.texts[0].get_text().split())
    assert f"{len(table.rows) - len(shown)} with the smallest effects not shown" in words
    gains = {row["technique"]: row for row in table.rows}
    assert "KV cache" in shown
    assert "sliding window" not in shown
    assert gains["sliding window"]["decode_speedup"] == pytest.approx(1, abs=0.01)
    assert len(rl.plot.techniques(table).get_yticklabels()) == len(table.rows)


def test_a_target_of_a_plan_is_named():
    plan = rl.plan("llama-3.1-8b", ["l4"], LOAD, slo=rl.SLO(tpot_s=0.03), accelerators=(1, 2))
    named = [text.get_text() for text in rl.plot.pareto(plan).get_legend().get_texts()]
    assert named == ["l4", "TPOT 30 ms"]


def test_a_waterfall_of_seconds_has_no_powers_of_ten():
    load = rl.Workload(prompt_tokens=2000, output_tokens=256, batch=8)
    ax = rl.plot.waterfall(rl.apply(LLAMA8, load, rl.techniques.Quantization(weights="fp8")), column="total_s")
    written = [text.get_text() for text in ax.texts]
    assert not any("e+" in words for words in written)
    assert any(re.search(r"\d,\d{3} ms$", words) for words in written)
