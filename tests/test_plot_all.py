"""Every plot, light and dark: texts overlap nothing, stay inside the figure and can be read; nothing global changes."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from plot_examples import (
    EXAMPLES,
    LLAMA8,
    LLAMA70,
    LOAD,
    RANKING,
    RUN,
    both,
    boxes_of,
    example,
    hard_to_read,
    outside,
    overlaps,
    sizes,
)

import roofline as rl
from roofline.plot import style
from roofline.plot.style import DARK, LIGHT, contrast, luminance, style_of


@pytest.fixture(autouse=True)
def _agg_and_no_figure_left():
    mpl.use("Agg")
    yield
    plt.close("all")


def drawn(name, look=LIGHT):
    return example(name)(ax=rl.plot.new_axes(style=look))


def words(ax):
    return " ".join(" ".join(text.get_text() for text in ax.texts).split())


def test_there_is_an_example_of_every_plot():
    functions = {name for name in rl.plot.__all__ if name[0].islower()} - {"new_axes", "style_of"}
    assert {name.partition(",")[0] for name in EXAMPLES} == functions


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_texts_can_be_read(name, look):
    ax = drawn(name, look)
    boxes = boxes_of(ax)
    assert overlaps(boxes) == []
    assert outside(boxes) == []
    assert hard_to_read(ax) == []
    assert sizes(ax) <= {look.title_size, look.label_size, look.text_size, look.text_size + 0.5, look.note_size}


@pytest.mark.parametrize("name", EXAMPLES)
def test_small_figures_keep_their_plots(name):
    """At 4 x 3 inches, text does not overlap and axes keep a third of the height."""
    ax = example(name)(ax=rl.plot.new_axes(width=4, height=3))
    boxes = boxes_of(ax)
    assert overlaps(boxes) == []
    assert outside(boxes) == []
    assert ax.get_position().height > 1 / 3


def test_curves_of_several_deployments_are_named_after_them():
    ax = drawn("curves, eight")
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names[:3] == ["Llama 3.1 8B", "Qwen3 8B", "Gemma 2 9B"]
    colors = {to_hex(line.get_color()) for line in ax.lines}
    assert len(colors) == 8


def test_a_legend_without_room_counts_what_it_leaves_out():
    ax = rl.plot.kv(*RANKING, ax=rl.plot.new_axes(width=3, height=2.5))
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    assert shown[-1] == f"and {len(RANKING) - len(shown) + 1} more"


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_new_figure_has_room_for_all_texts_and_settings_stay_as_they_are(name):
    before = dict(mpl.rcParams)
    ax = example(name)()
    assert dict(mpl.rcParams) == before
    boxes = boxes_of(ax)
    assert outside(boxes) == []
    assert overlaps(boxes) == []


def test_a_plot_takes_its_colors_from_what_is_behind_it():
    assert style_of(rl.plot.new_axes(style=DARK)).ink == DARK.ink
    with plt.style.context("dark_background"):
        ax = rl.plot.roofline("h100-sxm")
    assert ax._left_title.get_color() == DARK.ink
    assert to_hex(ax.lines[0].get_color()) == DARK.ink
    _, ax = plt.subplots(facecolor="none")
    ax.set_facecolor("none")
    assert style_of(ax).ink == LIGHT.ink
    assert style_of(plt.figure(facecolor="#123456").add_subplot(facecolor=(1, 1, 1, 0.1))).ink == DARK.ink


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
def test_colors_of_text_have_contrast_and_prints_need_no_color(look):
    texts = [look.ink, look.quiet, look.warning, *(color for color, _ in look.lines)]
    assert all(contrast(color, look.paper) >= 4.5 for color in texts)
    assert len({marker for _, marker in look.lines}) == len(look.lines)
    assert len({hatch for _, hatch in look.limits.values()}) == len(look.limits)
    same_hatch = [luminance(color) for color, hatch in look.parts.values() if not hatch]
    assert abs(np.subtract(*same_hatch)) > 0.03
    assert all(contrast(style.ink_on_fill(look, color), color) >= 4.5 for color, _ in look.limits.values())


def test_contrast_is_that_of_the_standard():
    # WCAG 2.2: black on white is 21:1; #767676 on white is the grayest that passes 4.5:1.
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)


@pytest.mark.parametrize("name", EXAMPLES)
def test_on_a_small_figure_the_axes_still_have_room(name):
    ax = example(name)(ax=rl.plot.new_axes(width=5.6, height=4.1))
    ax.figure.draw_without_rendering()
    width, height = ax.bbox.size / ax.figure.dpi
    assert width > 2.2
    assert height > 1.5
    title = ax._left_title.get_window_extent()
    assert title.y1 <= ax.figure.bbox.y1


def test_eight_models_can_be_told_apart():
    ax = drawn("roofline, eight")
    named = [text.get_text().partition(",")[0] for text in ax.get_legend().get_texts()]
    assert named == list(RANKING)
    handles = ax.get_legend().legend_handles
    assert len({(to_hex(handle.get_color()), handle.get_marker()) for handle in handles}) == 8
    bars = drawn("memory_stack, eight")
    titles = [rl.get_model(name).title or name for name in RANKING]
    assert [text.get_text().partition("\n")[0] for text in bars.get_xticklabels()] == titles
    assert "Llama" not in bars.texts[-1].get_text()


def test_results_of_one_name_have_colors_of_their_own():
    ax = rl.plot.roofline("h100-sxm", *both(), *both(LLAMA70))
    rings = [item for item in ax.collections if item.get_label() in ("prefill", "decode")]
    colors = [to_hex(item.get_edgecolor()[0]) for item in rings]
    shapes = [len(item.get_paths()[0].vertices) for item in rings]
    assert colors[0] == colors[1] != colors[2] == colors[3]
    assert shapes[0] == shapes[2] != shapes[1] == shapes[3]


def test_labels_without_room_are_counted():
    results = [rl.bound(rl.matmul(2 + row / 1e3, 8192, 8192), "h100-sxm", name=f"product {row}") for row in range(4)]
    figure = plt.figure(figsize=(2.2, 1.8))
    ax = rl.plot.roofline("h100-sxm", *results, ax=figure.add_subplot())
    captions = sum("product" in text.get_text() for text in ax.texts)
    assert captions < 4
    left_out = 4 - captions
    assert f"{left_out} label{'s' if left_out > 1 else ''} left out for lack of room" in words(ax)
    assert "left out" not in words(drawn("roofline"))


def test_what_does_not_fit_is_stamped():
    # 70.6 G parameters of 2 bytes are 141 GB; an H100 has 80.
    assert "DOES NOT FIT" in words(drawn("roofline, misfit"))
    assert "DOES NOT FIT" not in words(drawn("roofline"))
    rows = [text.get_text() for text in drawn("time_breakdown").get_yticklabels()]
    assert ["does not fit" in row for row in rows] == [False, False, True, True]
    stack = drawn("memory_stack")
    assert sum("does not fit" in text.get_text() for text in stack.texts) == 1


def test_ridges_and_roofs_are_plain_numbers_inside_the_axes():
    texts = words(rl.plot.roofline("b300-sxm"))
    assert "e+" not in texts
    for name in ("groq-3-lpu", "groq-lpu-v1", "b300-sxm", "tpu-v5e"):
        ax = rl.plot.roofline(name)
        ax.figure.canvas.draw()
        boxes = [text.get_window_extent() for text in ax.texts[1:]]
        assert all(ax.bbox.x0 <= box.x0 and box.x1 <= ax.bbox.x1 for box in boxes)


def test_dollars_in_names_are_dollars():
    model = LLAMA8.model.replace(title="$mall $model_1$")
    serve = LLAMA8.replace(model=model)
    for ax in (
        rl.plot.roofline("h100-sxm", rl.decode(serve, LOAD)),
        rl.plot.time_breakdown(rl.decode(serve, LOAD)),
        rl.plot.memory_stack(rl.memory(serve, LOAD), names=("$1$",)),
        rl.plot.kv(model),
    ):
        ax.figure.canvas.draw()
        legend = ax.get_legend()
        texts = [*ax.texts, ax._left_title, *ax.get_xticklabels(), *([] if legend is None else legend.get_texts())]
        assert not any(text.get_parse_math() for text in texts if "$" in text.get_text())
        assert any("$" in text.get_text() for text in texts)


def test_a_measured_run_is_a_star_at_its_work_over_its_time():
    """By hand: a step of 16 sequences is 2 FLOPs for each of 7.5e9 active parameters, and attention on 1,649 tokens."""
    ax = drawn("roofline, measured")
    star = next(item for item in ax.collections if item.get_label() == "measured decode")
    ((x, y),) = np.asarray(star.get_offsets())
    attention = 16 * 4 * 32 * 128 * 32 * (1500 + 149 + 1)
    flops = 16 * 2 * 7.504e9 + attention
    assert y * 1e12 == pytest.approx(flops / 0.0095, rel=0.01)
    found = rl.headroom(LLAMA8, RUN).phase("decode")
    assert x == pytest.approx(found.intensity_flops_per_byte)
    assert f"{found.share_of_roofline:.0%} of the roofline" in words(ax)


def test_measured_runs_lie_on_curves_where_they_were_run():
    sweep = rl.decode(LLAMA8, rl.Workload(batch=np.array([1.0, 16.0, 64.0])), context_tokens=1649)
    far = RUN.replace(prompt_tokens=8000.0)
    ax = rl.plot.curves(sweep, measured=[RUN, far])
    points = {line.get_label(): line.get_xydata().tolist() for line in ax.lines if "measured" in line.get_label()}
    assert points == {"measured": [[16, 9.5]], "measured, other lengths or batch": [[16, 9.5]]}
    prompts = rl.prefill(LLAMA8, rl.Workload(prompt_tokens=np.array([500, 1500, 3000]), batch=16))
    ax = rl.plot.curves(prompts, measured=[RUN])
    assert ax.lines[-1].get_xydata().tolist() == [[1500, 900.0]]
    rate = rl.plot.curves(sweep, measured=[RUN], column="tokens_per_s").lines[-1].get_xydata()
    assert rate == pytest.approx(np.array([[16, 16 / 0.0095]]))


def test_curves_of_a_server_are_its_columns_and_rates_beyond_capacity_are_marked():
    found = rl.serve(LLAMA8, LOAD, requests_per_s=[1, 4, 16, 64], method="closed-form")
    ax = rl.plot.curves(found, column="ttft_s", measured={4: 0.1})
    x, y = ax.lines[0].get_data()
    stable = np.asarray(found.stable)
    assert np.array_equal(x, [1, 4, 16, 64])
    assert y[stable] == pytest.approx(1e3 * found.ttft_s[stable])
    assert np.isnan(y[~stable]).all()
    assert (~stable).any() == any(text.get_text() == "above capacity" for text in ax.get_legend().get_texts())
    assert ax.lines[1].get_xydata().tolist() == [[4, 100.0]]
    with pytest.raises(rl.UnknownName, match="no column of a server named 'speed'"):
        rl.plot.curves(found, column="speed")
    with pytest.raises(rl.InvalidInput, match="several loads"):
        rl.plot.curves(rl.serve(LLAMA8, LOAD, concurrency=4))


KINDS = ("by_year", "cost", "curves", "heatmap", "hierarchy", "kv", "memory_stack", "pareto", "phase_map", "queue")
KINDS += ("roofline", "rooflines", "techniques", "throughput", "time_breakdown", "timeline", "tornado", "waterfall")


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("found", [None, 3.0, "no such thing", [1], rl.SLO(tpot_s=0.05)], ids=str)
def test_what_a_plot_does_not_show_is_refused_in_one_line(name, found):
    with pytest.raises((rl.InvalidInput, rl.UnknownName)) as caught:
        getattr(rl.plot, name)(found)
    assert len(str(caught.value).splitlines()) == 1
