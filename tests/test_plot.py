"""Plots: what is drawn is what the results say, under the roof, with labels that can be read."""

import itertools

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex

import roofline as rl

GPU = rl.get_accelerator("h100-sxm")
LLAMA = rl.Deployment(rl.get_model("llama-3.1-70b"), GPU)
MIXTRAL = rl.Deployment(rl.get_model("mixtral-8x7b"), GPU)
FP8 = rl.quantize(LLAMA, weights="fp8", activations="fp8", kv="fp8")
INT4 = rl.quantize(LLAMA, weights="int4_g128")
TENSOR = LLAMA.replace(parallel=rl.Parallel(tensor=8))
DEPLOYMENTS = {"bf16": LLAMA, "fp8": FP8, "int4": INT4, "mixtral": MIXTRAL, "tensor": TENSOR}

# H100 SXM, dense, in TFLOP/s and TB/s: NVIDIA's data sheet (the printed peaks with sparsity halved).
BF16, FP8_PEAK, BANDWIDTH = 989.4, 1978.9, 3.35


@pytest.fixture(autouse=True)
def _agg_and_no_figure_left():
    mpl.use("Agg")
    yield
    plt.close("all")


def both(serve, batch):
    load = rl.Workload(prompt_tokens=2000, batch=batch)
    return rl.prefill(serve, load), rl.decode(serve, load, context_tokens=2048)


def discs(ax, label):
    """Offsets of the scatters called ``label``."""
    found = [np.asarray(item.get_offsets()) for item in ax.collections if item.get_label() == label]
    return np.concatenate(found)


def line(ax, label):
    return next(item for item in ax.lines if item.get_label() == label)


def drawn_points(ax):
    """Every point of every marker and line."""
    scatters = [np.asarray(item.get_offsets()) for item in ax.collections if isinstance(item, PathCollection)]
    points = np.concatenate([*scatters, *(item.get_xydata() for item in ax.lines)])
    return points[np.isfinite(points).all(axis=1)]


def words(ax):
    """Every text that is shown: the axes', its title and its tick labels."""
    texts = [*ax.texts, ax.title, ax._left_title, ax.xaxis.label, ax.yaxis.label]
    texts += [tick.label1 for axis in (ax.xaxis, ax.yaxis) for tick in axis.get_major_ticks()]
    return [text for text in texts if text.get_visible() and text.get_text()]


def overlapping(ax, dpi=100):
    """Pairs of texts, both inside the figure, whose boxes have a point in common, and texts that leave the figure."""
    figure = ax.figure
    figure.set_dpi(dpi)
    figure.canvas.draw()
    left, right = ax.get_xlim()
    ticks = {tick.label1 for tick in ax.xaxis.get_major_ticks() if not left <= tick.get_loc() <= right}
    low, high = ax.get_ylim()
    ticks |= {tick.label1 for tick in ax.yaxis.get_major_ticks() if not low <= tick.get_loc() <= high}
    boxes = {text: text.get_window_extent() for text in words(ax) if text not in ticks}
    pairs = [(a.get_text(), b.get_text()) for a, b in itertools.combinations(boxes, 2) if boxes[a].overlaps(boxes[b])]
    page = figure.bbox
    out = [text.get_text() for text, box in boxes.items() if box.x0 < page.x0 - 1 or box.x1 > page.x1 + 1]
    return pairs + out


def roof(intensity, peak):
    return np.minimum(BANDWIDTH * np.asarray(intensity), peak)


@pytest.mark.parametrize("name", DEPLOYMENTS)
@pytest.mark.parametrize("batch", [1, 64, 2.0 ** np.arange(0, 10)], ids=["1", "64", "sweep"])
def test_nothing_is_drawn_above_the_roof(name, batch):
    ax = rl.plot.roofline(GPU, *both(DEPLOYMENTS[name], batch))
    x, y = drawn_points(ax).T
    peak = FP8_PEAK if name == "fp8" else BF16
    assert len(x) > 10
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    assert np.all((x >= left) & (x <= right) & (y >= low) & (y <= high))
    assert np.all(y <= roof(x, peak) * (1 + 1e-9))


def test_operators_lie_on_the_roof_of_their_own_format():
    phase = both(FP8, 64)[1]
    x, y = discs(rl.plot.roofline(GPU, phase), "decode operators").T
    bf16 = {item.name for item in phase.operators if item.math == "bf16" and item.flops}
    assert bf16 == {"attention", "lm_head"}
    assert np.allclose(y, roof(x, FP8_PEAK), rtol=1e-9)
    prefill = discs(rl.plot.roofline(GPU, both(FP8, 64)[0]), "prefill operators")
    assert set(np.round(prefill[prefill[:, 1] > 300, 1], 6)) == {BF16, FP8_PEAK}


def test_points_are_the_numbers_of_the_results():
    phases = both(LLAMA, 16)
    ax = rl.plot.roofline(GPU, *phases)
    for phase in phases:
        expected = [phase.flops / phase.moved_bytes, phase.flops / phase.roofline_s / 1e12]
        assert np.allclose(discs(ax, phase.name), [expected], rtol=1e-12)
        operators = [item for item in phase.operators if item.flops]
        expected = [[item.flops / item.moved_bytes, item.flops / item.roofline_s / 1e12] for item in operators]
        found = discs(ax, f"{phase.name} operators")
        assert np.allclose(sorted(found.tolist()), sorted(expected), rtol=1e-12)


def test_of_eight_accelerators_one_is_drawn():
    phase = both(TENSOR, 64)[0]
    ax = rl.plot.roofline(GPU, phase)
    assert discs(ax, "prefill")[0, 1] == pytest.approx(phase.flops / 8 / phase.roofline_s / 1e12, rel=1e-12)
    assert any("on 8 accelerators, one shown" in text.get_text() for text in ax.texts)
    bars = rl.plot.time_breakdown(phase)
    assert "network-bound" in [text.get_text() for text in bars.get_legend().get_texts()]


def test_area_of_a_disc_grows_with_the_share_of_the_time():
    phase = both(LLAMA, 256)[1]
    ax = rl.plot.roofline(GPU, phase)
    scatter = next(item for item in ax.collections if item.get_label() == "decode operators")
    shares = {item.intensity_flops_per_byte: item.roofline_s for item in phase.operators if item.flops}
    times = [shares[x] for x in np.asarray(scatter.get_offsets())[:, 0]]
    areas = scatter.get_sizes()
    assert np.all(np.diff(areas[np.argsort(times)]) >= 0)
    assert areas.max() > 2 * areas.min()


def test_axes_that_are_given_come_back_and_nothing_else_is_opened():
    _, (left, right) = plt.subplots(1, 2)
    assert rl.plot.roofline(GPU, *both(LLAMA, 1), ax=right) is right
    assert rl.plot.time_breakdown(*both(LLAMA, 1), ax=left) is left
    assert len(plt.get_fignums()) == 1


def test_without_axes_every_call_opens_a_figure_of_its_own():
    _, busy = plt.subplots()
    first, second = rl.plot.roofline(GPU), rl.plot.roofline(GPU)
    third = rl.plot.time_breakdown(both(LLAMA, 1)[0])
    assert len({busy.figure, first.figure, second.figure, third.figure}) == 4
    assert not busy.has_data()
    assert tuple(first.figure.get_size_inches()) == (6, 4)


def test_plots_change_no_setting_and_save_and_title_nothing(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a plot function must not do this")

    for owner, name in [(plt, "show"), (mpl.figure.Figure, "savefig"), (mpl.figure.Figure, "suptitle")]:
        monkeypatch.setattr(owner, name, refuse)
    before = dict(mpl.rcParams)
    ax = rl.plot.roofline(GPU, *both(LLAMA, 1))
    rl.plot.time_breakdown(*both(LLAMA, 1))
    assert dict(mpl.rcParams) == before
    assert ax.figure._suptitle is None


@pytest.mark.parametrize(
    ("results", "ceilings"),
    [
        (both(LLAMA, 1), {"bf16": BF16}),
        (both(INT4, 1), {"bf16": BF16}),
        (both(FP8, 1), {"bf16": BF16, "fp8": FP8_PEAK}),
        ([rl.bound(rl.matmul(8, 64, 64, weights="fp8", activations="fp8"), GPU)], {"fp8": FP8_PEAK}),
    ],
    ids=["bf16", "weight-only", "fp8", "one fp8 matmul"],
)
def test_a_ceiling_for_each_rate_that_is_used_and_its_ridge(results, ceilings):
    ax = rl.plot.roofline(GPU, *results)
    ridges = {item.get_label(): item.get_xydata()[0] for item in ax.lines if item.get_label().startswith("ridge")}
    assert set(ridges) == {f"ridge {name}" for name in ceilings}
    for name, peak in ceilings.items():
        assert np.allclose(ridges[f"ridge {name}"], [peak / BANDWIDTH, peak], rtol=1e-12)
        assert np.allclose(line(ax, name).get_ydata(), peak, rtol=1e-12)
        assert any(f"ridge {peak / BANDWIDTH:.0f}" in text.get_text() for text in ax.texts)


def test_formats_of_one_rate_share_a_ceiling_and_an_empty_plot_shows_all():
    ax = rl.plot.roofline(GPU)
    labels = {item.get_label() for item in ax.lines}
    assert {"fp16, bf16", "fp8, int8", "memory"} <= labels
    assert not ax.collections


def test_memory_roof_has_the_slope_of_the_bandwidth():
    x, y = line(rl.plot.roofline(GPU, *both(LLAMA, 1)), "memory").get_data()
    assert np.allclose(np.divide(y, x), BANDWIDTH, rtol=1e-12)


def test_prefill_and_decode_differ_in_color_and_in_shape():
    ax = rl.plot.roofline(GPU, *both(LLAMA, 1))
    rings = {item.get_label(): item for item in ax.collections if item.get_label() in ("prefill", "decode")}
    colors = {to_hex(item.get_edgecolor()[0]) for item in rings.values()}
    shapes = {len(item.get_paths()[0].vertices) for item in rings.values()}
    assert len(colors) == len(shapes) == 2


@pytest.mark.parametrize("batch", [1, 16, 64, 256])
@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_no_two_texts_overlap_on_screen_or_on_paper(name, batch):
    ax = rl.plot.roofline(GPU, *both(DEPLOYMENTS[name], batch))
    assert overlapping(ax, dpi=100) == []
    assert overlapping(ax, dpi=200) == []


@pytest.mark.parametrize(
    "results",
    [
        (),
        [both(LLAMA, 64)[1]],
        [rl.decode(LLAMA, rl.Workload(batch=batch), context_tokens=2048) for batch in (1, 4, 16, 64, 256)],
        [both(serve, 16)[1] for serve in DEPLOYMENTS.values()],
        both(LLAMA, 2.0 ** np.arange(0, 11)),
        [rl.bound(rl.matmul(m, 8192, 8192), GPU) for m in (1, 2, 64, 2000)],
    ],
    ids=["empty", "one phase", "batches", "deployments", "sweep", "matmuls"],
)
def test_no_two_texts_overlap_whatever_is_drawn(results):
    assert overlapping(rl.plot.roofline(GPU, *results)) == []


def test_operators_that_coincide_share_a_label_with_their_share_of_the_time():
    phase = both(LLAMA, 64)[1]
    texts = [text.get_text().replace("\n", " ") for text in rl.plot.roofline(GPU, phase).texts]
    attention = next(item for item in phase.operators if item.name == "attention")
    assert f"attention  {attention.roofline_s / phase.roofline_s:.0%}" in texts
    assert sum(text.startswith("gate, up, down, q, o") for text in texts) == 1


def test_a_sweep_is_a_line_through_its_points_with_its_ends_labelled():
    sweep = rl.decode(LLAMA, rl.Workload(batch=np.array([1, 8, 64, 256])), context_tokens=2048)
    ax = rl.plot.roofline(GPU, sweep)
    x, y = line(ax, "decode").get_data()
    assert np.allclose(x, sweep.flops / sweep.moved_bytes, rtol=1e-12)
    assert np.allclose(y, sweep.flops / sweep.roofline_s / 1e12, rtol=1e-12)
    texts = "\n".join(text.get_text() for text in ax.texts)
    assert "batch 1\n" in texts
    assert "batch 256\n" in texts
    assert "batch 8\n" not in texts


def test_a_grid_is_one_line_a_row():
    load = rl.Workload(batch=np.array([1, 16, 64]))
    grid = rl.decode(LLAMA, load, context_tokens=np.array([[1024], [8192]]))
    ax = rl.plot.roofline(GPU, grid)
    drawn = [item.get_xydata() for item in ax.lines if item.get_label() == "decode"]
    assert [len(row) for row in drawn] == [3, 3]
    assert np.allclose(drawn[1][:, 0], grid.intensity_flops_per_byte[1], rtol=1e-12)


def test_captions_say_what_tells_results_of_one_name_apart():
    texts = [text.get_text() for text in rl.plot.roofline(GPU, both(LLAMA, 16)[1], both(FP8, 16)[1]).texts]
    assert sum(text.startswith("decode, bf16, batch 16\n") for text in texts) == 1
    assert sum(text.startswith("decode, fp8, batch 16\n") for text in texts) == 1


def test_operators_without_flops_are_left_out_and_their_time_is_said():
    phase = both(LLAMA, 1)[0]
    bare = [item for item in phase.operators if item.flops == 0]
    assert {item.name for item in bare} >= {"norm", "residual"}
    ax = rl.plot.roofline(GPU, phase)
    assert len(discs(ax, "prefill operators")) == len(phase.operators) - len(bare)
    share = sum(item.roofline_s for item in bare) / phase.roofline_s
    assert any(f"no FLOPs, not shown: {share:.0%} of prefill" in text.get_text() for text in ax.texts)


def test_a_bound_without_flops_is_no_point_and_no_error():
    norm = next(item for item in both(LLAMA, 1)[0].operators if item.name == "norm")
    ax = rl.plot.roofline(GPU, norm)
    assert not np.isfinite(np.ma.filled(ax.collections[0].get_offsets(), np.nan)).all()
    assert not any("norm" in text.get_text() for text in ax.texts)


def test_what_cannot_be_drawn_is_refused_in_one_line():
    other = rl.get_accelerator("a100-sxm-80gb")
    array = GPU.replace(memory_bytes_per_s=np.array([2e12, 3e12]))
    phase = both(LLAMA, 1)[0]
    refused = [
        (other, phase, "rates that differ from those of the roof"),
        (GPU, rl.matmul(1, 8, 8), "measured runs, not Work"),
        (array, rl.bound(rl.matmul(1, 8, 8), array), "rates of 'h100-sxm' are arrays"),
    ]
    for accelerator, result, message in refused:
        with pytest.raises(rl.InvalidInput, match=message):
            rl.plot.roofline(accelerator, result)
    assert plt.get_fignums() == []


def test_breakdown_bars_are_the_shares_of_the_time():
    phases = both(LLAMA, 64)
    ax = rl.plot.time_breakdown(*phases)
    for row, phase in enumerate(phases):
        bars = [bar for bar in ax.patches if round(bar.get_y() + bar.get_height() / 2) == row]
        assert sum(bar.get_width() for bar in bars) == pytest.approx(1.0)
        attention = next(item for item in phase.operators if item.name == "attention")
        widths = {box.get_label(): box.patches[0].get_width() for box in ax.containers if box.patches[0] in bars}
        assert widths["attention"] == pytest.approx(attention.roofline_s / phase.roofline_s)


def test_breakdown_colors_say_what_limits():
    ax = rl.plot.time_breakdown(*both(LLAMA, 1))
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    colors = [to_hex(handle.get_facecolor()) for handle in ax.get_legend().legend_handles]
    legend = dict(zip(names, colors, strict=True))
    assert set(legend) == {"memory-bound", "compute-bound"}
    gates = [to_hex(box.patches[0].get_facecolor()) for box in ax.containers if box.get_label() == "gate"]
    assert gates == [legend["compute-bound"], legend["memory-bound"]]


@pytest.mark.parametrize("batch", [1, 256])
@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_no_two_texts_of_a_breakdown_overlap(name, batch):
    assert overlapping(rl.plot.time_breakdown(*both(DEPLOYMENTS[name], batch))) == []


def test_breakdown_refuses_nothing_and_sweeps():
    with pytest.raises(rl.InvalidInput, match="needs at least one phase"):
        rl.plot.time_breakdown()
    with pytest.raises(rl.InvalidInput, match="decode is a sweep"):
        rl.plot.time_breakdown(both(LLAMA, np.array([1, 2]))[1])
    assert plt.get_fignums() == []
