"""Room for the texts: on axes that callers made, at other resolutions, and between ticks."""

import itertools

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from plot_examples import EXAMPLES, LLAMA8, LOAD, boxes_of, example, outside, overlaps
from test_plot_hostile import HOSTILE, NAMED, passes

import roofline as rl
from roofline.plot.ticks import log_axis


@pytest.fixture(autouse=True)
def _agg_and_no_figure_left():
    mpl.use("Agg")
    yield
    plt.close("all")


@pytest.mark.parametrize("name", EXAMPLES)
def test_axes_of_a_small_figure_without_a_layout_engine_hold_all_texts(name):
    """Margins of matplotlib are shares of the figure: at 4 x 3 inches they cut titles and axis labels."""
    ax = example(name)(ax=plt.subplots(figsize=(4, 3))[1])
    boxes = boxes_of(ax)
    assert outside(boxes) == []
    assert overlaps(boxes) == []


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("dpi", [72, 110, 150])
def test_a_file_of_another_resolution_holds_all_texts(name, dpi):
    """Hinted letters are up to 6 % wider at 110 dots per inch than at 100."""
    ax = HOSTILE[name](None)
    ax.figure.set_dpi(dpi)
    assert outside(boxes_of(ax)) == []


def test_margins_that_the_caller_set_stay():
    figure, ax = plt.subplots(figsize=(6, 4))
    figure.subplots_adjust(left=0.3, right=0.8)
    rl.plot.roofline("h100-sxm", *passes(LLAMA8), ax=ax)
    assert (ax.get_position().x0, ax.get_position().x1) == pytest.approx((0.3, 0.8))


def test_axes_of_a_grid_stay():
    figure, (left, _) = plt.subplots(1, 2, figsize=(9, 4))
    before = left.get_position().bounds
    rl.plot.roofline("h100-sxm", *passes(LLAMA8), ax=left)
    figure.draw_without_rendering()
    assert left.get_position().bounds == before


def test_a_tight_layout_still_moves_the_axes():
    figure, ax = plt.subplots(figsize=(4, 3))
    rl.plot.curves(rl.decode(LLAMA8, rl.Workload(batch=np.array([1, 8]))), ax=ax)
    before = ax.get_position().bounds
    figure.tight_layout()
    assert ax.get_position().bounds != before


def test_tick_labels_that_are_close_to_each_other_are_left_out():
    """1, 10, ... 1,000,000 need about as many points as a 3 inch axis has, but the long ones touch each other."""
    ax = plt.subplots(figsize=(3.2, 2))[1]
    ax.set(xscale="log", xlim=(1, 1e6))
    ax.tick_params(labelsize=7)
    log_axis(ax.xaxis)
    ax.figure.draw_without_rendering()
    boxes = [tick.label1.get_window_extent() for tick in ax.xaxis.get_major_ticks()]
    assert len(boxes) >= 3
    assert all(one.x1 < other.x0 for one, other in itertools.pairwise(boxes))


def test_cells_of_a_heatmap_meet_halfway_on_logarithmic_axes():
    """Between batch 1 and 100 that is 10; no cell starts far below one sequence."""
    ax = rl.plot.heatmap(LLAMA8, batch=(1, 100), context_tokens=(100, 10_000))
    (cells,) = ax.collections
    edges = np.asarray(cells.get_coordinates())[0, :, 0]
    assert edges == pytest.approx([1 / np.sqrt(2), 10, 100 * np.sqrt(2)])


def test_numbers_beside_bars_stay_inside():
    found = rl.compare(rl.memory(NAMED, LOAD), rl.memory(rl.quantize(NAMED, weights="fp8"), LOAD))
    ax = rl.plot.waterfall(found, ax=rl.plot.new_axes(width=3, height=3))
    numbers = [text for text in ax.texts if text.get_text().endswith(" GB")]
    ax.figure.draw_without_rendering()
    assert len(numbers) == 2
    assert all(text.get_window_extent().x1 <= ax.bbox.x1 for text in numbers)


def test_rows_of_different_accelerators_are_named_after_them():
    places = [LLAMA8.replace(accelerator=rl.get_accelerator(name)) for name in ("h100-sxm", "l4")]
    ax = rl.plot.time_breakdown(*[rl.decode(each, rl.Workload(batch=1)) for each in places])
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert "h100-sxm" in names[0]
    assert "l4" in names[1]


def test_names_of_rows_break_between_their_parts():
    ax = rl.plot.time_breakdown(*passes(LLAMA8), *passes(rl.Deployment("llama-3.1-70b", "h100-sxm")))
    lines = [line for text in ax.get_yticklabels() for line in text.get_text().splitlines()]
    assert "16" not in lines
    assert any("batch 16" in line for line in lines)


def test_a_hierarchy_names_its_product():
    ax = rl.plot.hierarchy(rl.memory_hierarchy(1, 4096, 8192, "a100-sxm-80gb"))
    assert ax.get_title(loc="left") == "1 x 4,096 x 8,192 on NVIDIA A100 SXM4 80GB"


def test_the_label_of_the_memory_roof_covers_no_marker():
    ax = rl.plot.roofline("h100-sxm", *passes(LLAMA8), ax=plt.subplots(figsize=(4, 3))[1])
    (label,) = [text for text in ax.texts if text.get_text().startswith("memory ")]
    box = label.get_window_extent()
    centers = [ax.transData.transform(item.get_offsets()) for item in ax.collections]
    assert not box.count_contains(np.concatenate(centers))


def test_captions_of_a_sweep_over_layouts_count_the_accelerators():
    spread = LLAMA8.replace(parallel=rl.Parallel(tensor=[1, 2, 4]))
    ax = rl.plot.roofline("h100-sxm", rl.decode(spread, rl.Workload(batch=1)))
    captions = [text.get_text() for text in ax.texts if "decode" in text.get_text()]
    assert any("4 x h100-sxm" in words for words in captions)
