"""Plots of accelerators: the artists hold the data sheets' numbers."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.text import Text

import roofline as rl


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def chips(*names):
    return [rl.get_accelerator(name) for name in names]


def test_rooflines_are_the_data_sheets():
    ax = rl.plot.rooflines(*chips("h100-sxm", "mi300x"))
    lines = {line.get_label(): line for line in ax.lines}
    x, y = lines["h100-sxm"].get_data()
    assert x[1] == pytest.approx(989.4 / 3.35)
    assert list(y[1:]) == pytest.approx([989.4, 989.4])
    assert y[0] / x[0] == pytest.approx(3.35)
    assert lines["ridge mi300x"].get_xydata()[0] == pytest.approx([1307.4 / 5.325, 1307.4])


def test_each_line_has_its_name_in_its_color_beside_it():
    ax = rl.plot.rooflines(*chips("h100-sxm", "h200-sxm", "b200-sxm", "t4"))
    texts = {text.get_text().split()[0]: text for text in ax.texts}
    for line in ax.lines:
        if not line.get_label().startswith("ridge"):
            assert texts[line.get_label()].get_color() == line.get_color()
    assert "t4 (fp16)  203" in [text.get_text() for text in ax.texts]


def test_names_do_not_cover_each_other():
    """H100 and H200 have one peak, so their names must step aside."""
    ax = rl.plot.rooflines(*chips("h100-sxm", "h200-sxm", "gh200-96gb", "h800-sxm", "a100-sxm-80gb", "a800-sxm-80gb"))
    ax.figure.canvas.draw()
    names = [text for text in ax.texts if text.get_text()[0] in "ahg"]
    boxes = sorted(tuple(Text.get_window_extent(text).intervaly) for text in names)  # without the line to it
    assert len(boxes) == 6
    assert all(below[1] <= above[0] + 2 for below, above in itertools.pairwise(boxes))


def test_axes_in_axes_out():
    figure, ax = plt.subplots()
    assert rl.plot.rooflines(*chips("l4"), ax=ax) is ax
    figure, ax = plt.subplots()
    assert rl.plot.by_year(rl.ridge_table(vendor="Google"), ax=ax) is ax
    assert plt.get_fignums() == [1, figure.number]


def test_by_year_holds_the_table():
    table = rl.ridge_table(vendor="Google")
    ax = rl.plot.by_year(table, "bf16_ridge_flops_per_byte")
    (points,) = ax.collections
    x, y = points.get_offsets().T
    assert sorted(y) == pytest.approx(sorted([275 / 1.2, 197 / 0.819, 459 / 2.765, 918 / 1.638, 2307 / 7.38]))
    assert np.round(np.sort(x)).tolist() == [2021, 2023, 2023, 2024, 2025]
    assert {text.get_text() for text in ax.texts} >= {"tpu-v4", "tpu-v6e"}


def test_a_vendor_is_a_color_and_a_marker():
    ax = rl.plot.by_year(rl.ridge_table(minimum_memory_bytes=100e9))
    looks = {
        item.get_label(): (tuple(item.get_facecolor()[0]), item.get_paths()[0].vertices.shape)
        for item in ax.collections
    }
    assert set(looks) >= {"NVIDIA", "AMD", "Google"}
    assert len({color for color, _ in looks.values()}) == len(looks)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(looks)


def test_chips_without_the_format_are_left_out():
    table = rl.ridge_table()
    ax = rl.plot.by_year(table, "fp4_ridge_flops_per_byte")
    drawn = sum(len(item.get_offsets()) for item in ax.collections)
    assert drawn == len(rl.ridge_table(has_format="fp4").name)


def test_wrong_input():
    with pytest.raises(rl.InvalidInput, match="rooflines takes 1 to 8 accelerators, not 0"):
        rl.plot.rooflines()
    with pytest.raises(rl.InvalidInput, match="rooflines takes 1 to 8 accelerators, not 9"):
        rl.plot.rooflines(*chips(*["l4"] * 9))
    sweep = rl.get_accelerator("l4").replace(memory_bytes_per_s=np.array([3e11, 6e11]))
    with pytest.raises(rl.InvalidInput, match="the rates of 'l4' are arrays"):
        rl.plot.rooflines(sweep)
    with pytest.raises(rl.UnknownName, match="no math format named 'bf61'"):
        rl.plot.rooflines(*chips("l4"), math="bf61")
    with pytest.raises(rl.UnknownName, match="no column named 'vendor'"):
        rl.plot.by_year(rl.ridge_table(vendor="Groq"), "vendor")
    with pytest.raises(rl.InvalidInput, match="no accelerator of the table has a year and fp8"):
        rl.plot.by_year(rl.ridge_table(vendor="Groq"), "fp8_ridge_flops_per_byte")
