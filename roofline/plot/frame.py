"""Axes and the elements around a plot: title, axis labels, ticks, grid, legend, and stamp."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from matplotlib import rcParams
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import ScaledTranslation

from .style import LIGHT, Style, style_of

WIDTH, HEIGHT = 6.0, 4.0
"""Size of a new figure in inches."""

MARGINS = {"left": 0.68, "right": 0.18, "bottom": 0.52, "top": 0.58}
"""Inches around new axes, for the text of `head` and `label_axes`.  A layout engine would lay out every plot twice."""

_OWN = "axes with margins of their own"
"""Label that marks axes whose margins plots may set; not drawn."""

_ANY_HEIGHT = "axes with margins and a height of their own"
"""The same, before the plot has set the height of the figure."""

LEGEND_ROW = 0.17
"""Inches of a row of a legend."""

LEGEND_SHARE = 0.28
"""Of the height of a figure of this package's own, at most, for a legend below the axes."""

STAMP_SHARE = 0.48
"""Of the width of the axes, at most, for the text of a stamp."""

LEGEND_EMS = (2.8, 1.4)
"""Widths in a matplotlib legend in units of the font size: handle with its gap, and column spacing."""

SLANT = 35.0
"""Rotation of column names that lack room, in degrees."""

SLACK = 1.06
"""Letters may be wider by up to this factor at another resolution, such as that of ``savefig``."""

LONGEST_NAME = 24
"""Largest number of characters per line of a column name."""


def axes_or_new(ax: Axes | None, height: float = HEIGHT, **margins: float) -> Axes:
    """``ax``, or the axes of a new figure of `matplotlib.pyplot`, with margins other than the usual ones in inches.

    Axes of `new_axes` without a height of their own get this one.  Axes that fill a figure alone, as those of
    ``plt.subplots(figsize=(4, 3))`` do, get margins with room for the texts as well: matplotlib's own are a share of
    the figure, and on a small one they cut titles and labels.
    """
    if ax is None:
        import matplotlib.pyplot as plt

        return _axes_on(plt.figure(figsize=(WIDTH, height)), margins)
    if ax.get_label() == _ANY_HEIGHT:
        figure: Any = ax.figure
        figure.set_size_inches(figure_inches(ax)[0], height)
        set_margins(ax, **margins)
    elif _has_plain_margins(ax):
        set_margins(ax, **margins)
    return ax


def _has_plain_margins(ax: Axes) -> bool:
    """Whether ``ax`` is the only subplot of a figure with matplotlib's margins and without a layout engine."""
    figure, spec = ax.figure, ax.get_subplotspec()
    if not isinstance(figure, Figure) or is_laid_out(ax) or ax.get_label() or figure.axes != [ax] or spec is None:
        return False
    usual: Any = rcParams
    sides = ("left", "right", "bottom", "top")
    plain = all(getattr(figure.subplotpars, side) == usual[f"figure.subplot.{side}"] for side in sides)
    return plain and spec.get_topmost_subplotspec().get_gridspec().get_geometry() == (1, 1)


def new_axes(*, style: Style = LIGHT, width: float = WIDTH, height: float | None = None) -> Axes:
    """Create axes on a figure that no window and no notebook shows, for programs and pages.

    Parameters
    ----------
    style : Style
        `LIGHT` or `DARK`; its paper is the background, from which every plot takes its colors.
    width : float
        Inches.
    height : float, optional
        Inches; if None, the height that the plot needs.

    Returns
    -------
    Axes
        Axes to pass to plot functions as ``ax``; ``axes.figure.savefig`` writes the file.

    Examples
    --------
    >>> import roofline as rl
    >>> ax = rl.plot.roofline("h100-sxm", ax=rl.plot.new_axes(style=rl.plot.DARK))
    >>> ax.get_title(loc="left")
    'NVIDIA H100 SXM5 80GB'
    """
    figure = Figure(figsize=(width, HEIGHT if height is None else height), facecolor=style.paper)
    FigureCanvasAgg(figure)
    ax = _axes_on(figure, {})
    ax.set_facecolor(style.paper)
    if height is None:
        ax.set_label(_ANY_HEIGHT)
    return ax


def _axes_on(figure: Figure, margins: dict[str, float]) -> Axes:
    ax = figure.add_subplot()
    set_margins(ax, **margins)
    return ax


def is_own(ax: Axes) -> bool:
    """Whether the margins of ``ax`` may be set: it is alone on a figure whose margins nobody else has set."""
    return ax.get_label() == _OWN


def set_margins(ax: Axes, **inches: float) -> None:
    """Set the margins around ``ax`` in inches; those not given are the defaults."""
    width, height = figure_inches(ax)
    given = MARGINS | inches
    left, bottom = given["left"] / width, given["bottom"] / height
    right, top = max(1 - given["right"] / width, left + 0.01), max(1 - given["top"] / height, bottom + 0.01)
    ax.set_label(_OWN)
    figure: Any = ax.figure
    figure.subplots_adjust(left=left, bottom=bottom, right=right, top=top)  # unlike set_position, allows tight_layout


def figure_inches(ax: Axes) -> tuple[float, float]:
    """Width and height of the figure, in inches."""
    figure: Any = ax.figure
    width, height = figure.get_size_inches()
    return float(width), float(height)


def widen(ax: Axes, **inches: float) -> None:
    """Widen the margins to at least so many inches; axes of other figures stay where they are."""
    if is_own(ax):
        (left, bottom), (right, top) = ax.get_position().get_points()
        width, height = figure_inches(ax)
        present = {"left": left * width, "bottom": bottom * height}
        present |= {"right": (1 - right) * width, "top": (1 - top) * height}
        set_margins(ax, **{side: max(have, inches.get(side, 0.0)) for side, have in present.items()})


def is_laid_out(ax: Axes) -> bool:
    """Whether the figure has a layout engine, which shrinks axes to make room for a title."""
    return ax.figure.figure.get_layout_engine() is not None


def lay_out(ax: Axes) -> None:
    """Let the layout engine of the figure, if any, place the axes, so that texts can be measured against them."""
    figure = ax.figure.figure
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)


def head(ax: Axes, title: str, subtitle: str) -> None:
    """Write a title and a subtitle, flush left, each wrapped if it is too long for the figure."""
    style = style_of(ax)
    _widen_for_numbers(ax)
    lay_out(ax)
    title, subtitle, more, title_lines = _head_lines(ax, title, subtitle)
    widen(ax, top=MARGINS["top"] + (more + title_lines) / 72)
    how: dict[str, Any] = {"color": style.ink, "fontsize": style.title_size, "fontweight": "bold", "parse_math": False}
    ax.set_title(title, loc="left", pad=17 + more, y=1.0, **how)
    ax.annotate(
        subtitle,
        (0, 1),
        (0, 5),
        "axes fraction",
        "offset points",
        fontsize=style.text_size,
        color=style.quiet,
        parse_math=False,
    )


def further_inches(ax: Axes, title: str, subtitle: str) -> float:
    """Inches that `head` will take beyond those of a title and a subtitle of one line each."""
    *_, more, title_lines = _head_lines(ax, title, subtitle)
    return (more + title_lines) / 72


def _head_lines(ax: Axes, title: str, subtitle: str) -> tuple[str, str, float, float]:
    """Both texts, wrapped, and the points that further lines of the subtitle and of the title take."""
    style, room = style_of(ax), _room_right(ax)
    tall = text_inches(ax, subtitle, style.text_size)[1]
    title = wrapped(ax, title, style.title_size, room, "bold")
    subtitle = wrapped(ax, subtitle, style.text_size, room)
    return title, subtitle, subtitle.count("\n") * 1.4 * 72 * tall, title.count("\n") * 1.4 * style.title_size


def _widen_for_numbers(ax: Axes) -> None:
    """Widen the left margin for the tick labels and the label of the vertical axis, the right one for the last tick."""
    if not is_own(ax):
        return
    style = style_of(ax)
    if ax.get_ylabel():
        widest = max((wide for _, wide in _numbers(ax, ax.yaxis)), default=0.0)
        widen(ax, left=widest + text_inches(ax, ax.get_ylabel(), style.label_size)[1] + 0.2)
    right = ax.get_position().x1 * figure_inches(ax)[0]
    beyond = max((place + wide / 2 - right for place, wide in _numbers(ax, ax.xaxis)), default=0.0)
    widen(ax, right=beyond + 0.03)


def _numbers(ax: Axes, axis: Axis) -> list[tuple[float, float]]:
    """Place on the figure and width of each tick label, in inches."""
    low, high = sorted(axis.get_view_interval())
    ticks = [tick for tick in axis.get_major_locator()() if low <= tick <= high]
    words = axis.get_major_formatter().format_ticks(ticks)
    way = 0 if axis is ax.xaxis else 1
    points = np.reshape([(tick, tick) for tick in ticks], (-1, 2))
    places = np.asarray(ax.transData.transform(points))[:, way] / ax.figure.dpi
    wide = [SLACK * text_inches(ax, word, style_of(ax).text_size)[0] for word in words]
    return list(zip(map(float, places), wide, strict=True))


def wrapped(ax: Axes, words: str, size: float, room: float, weight: str = "normal") -> str:
    """The words, wrapped to a width in inches."""
    wide = SLACK * text_inches(ax, words, size, weight)[0]
    if wide <= room:
        return words
    return textwrap.fill(words, max(int(0.95 * len(words) * room / wide), 20), break_long_words=False)


def label_axes(ax: Axes, xlabel: str, ylabel: str, *, grid: str = "both") -> None:
    """Axis labels, ticks, spines and a faint grid (``both``, ``x``, ``y`` or none at all, ``""``)."""
    style = style_of(ax)
    ax.set_xlabel(xlabel, fontsize=style.label_size, color=style.ink, parse_math=False)
    ax.set_ylabel(ylabel, fontsize=style.label_size, color=style.ink, parse_math=False)
    ax.tick_params(which="both", labelsize=style.text_size, color=style.quiet, labelcolor=style.ink, length=2.5)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(style.quiet)
    if grid:
        ax.grid(axis=grid, color=style.faint, linewidth=0.6)  # type: ignore[arg-type]
    ax.set_axisbelow(True)


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Write the names of horizontal bars, row 0 first, in the left margin."""
    style = style_of(ax)
    ax.set_yticks(range(len(names)), names, parse_math=False)
    ax.tick_params(axis="y", length=0, labelsize=style.text_size, labelcolor=style.ink)
    ax.spines["left"].set_visible(False)
    widen(ax, left=0.15 + SLACK * max(text_inches(ax, name, style.text_size)[0] for name in names))


def _in_lines(name: str) -> str:
    """A name in lines of at most `LONGEST_NAME` characters, beside those it has already."""
    return "\n".join(textwrap.fill(line, LONGEST_NAME) for line in name.split("\n"))


def name_columns(ax: Axes, names: Sequence[str], short: Sequence[str] = ()) -> float:
    """Names of upright bars, slanted where they would touch each other; the inches below the axes that they take.

    Limits must have been set. Names of ``short`` are used if the others take too much of the figure's height.
    """
    style = style_of(ax)
    lay_out(ax)
    names = [_in_lines(name) for name in names]
    sizes = [tuple(SLACK * side for side in text_inches(ax, name, style.text_size)) for name in names]
    column = ax.bbox.width / ax.figure.dpi / np.ptp(ax.get_xlim())
    widest, tallest = (max(side) for side in zip(*sizes, strict=True))
    slanted = widest > 0.94 * column
    how: dict[str, Any] = {"rotation": SLANT, "ha": "right", "rotation_mode": "anchor"} if slanted else {}
    ax.set_xticks(range(len(names)), names, parse_math=False, **how)
    ax.tick_params(axis="x", length=0, labelsize=style.text_size, labelcolor=style.ink)
    below = widest * np.sin(np.radians(SLANT)) + tallest if slanted else tallest
    if is_own(ax) and below > LEGEND_SHARE * figure_inches(ax)[1] and len(short) == len(names):
        return name_columns(ax, short)
    beside = sizes[0][0] * np.cos(np.radians(SLANT)) - column * (0.0 - ax.get_xlim()[0]) if slanted else 0.0
    widen(ax, bottom=0.2 + below, left=0.1 + beside)
    return 0.1 + float(below)


def text_inches(ax: Axes, words: str, size: float, weight: str = "normal") -> tuple[float, float]:
    """Width and height of a text, in inches."""
    text = Text(0, 0, words, fontsize=size, fontweight=weight, parse_math=False)
    text.set_figure(ax.figure)
    box = text.get_window_extent(renderer_of(ax))
    return box.width / ax.figure.dpi, box.height / ax.figure.dpi


def renderer_of(ax: Axes) -> Any:
    """The renderer that measures text on the figure."""
    return _renderer(float(ax.figure.dpi))


@cache
def _renderer(dpi: float) -> Any:
    """A small canvas, whatever the figure's own is: letters are as wide on all that have this resolution."""
    canvas: Any = FigureCanvasAgg(Figure(figsize=(1, 1), dpi=dpi))
    return canvas.get_renderer()


def legend_inside(ax: Axes, handles: Sequence[Artist] | None = None, **more: Any) -> Legend:
    """Draw a legend without a frame where it covers least."""
    return _legend(ax, handles, {"loc": "best"} | more)


def legend_below(
    ax: Axes, handles: Sequence[Artist] | None = None, *, gap: float = 0.44, short: Sequence[str] = ()
) -> Legend:
    """A legend under the axis label, ``gap`` inches below the axes, in as many columns as the figure has room for.

    On a figure of this package's own, the legend takes a limited share of the height: its labels are those of ``short``
    if the full ones need more, and the last entries are left out and counted if even those do.
    """
    lay_out(ax)
    drawn: list[Any] = list(ax.get_legend_handles_labels()[0] if handles is None else handles)
    labels, ncols, rows = _arranged(ax, [str(each.get_label()) for each in drawn])
    room = LEGEND_SHARE * figure_inches(ax)[1] if is_own(ax) else np.inf
    if rows > room and len(short) == len(drawn):
        labels, ncols, rows = _arranged(ax, short)
    kept = len(drawn)
    while rows > room and kept > 1:
        kept -= 1
        names = [*(short or labels)[:kept], f"and {len(drawn) - kept} more"]
        labels, ncols, rows = _arranged(ax, names)
    if kept < len(drawn):
        drawn = [*drawn[:kept], Line2D([], [], linestyle="")]
    below = ax.transAxes + ScaledTranslation(0, -gap, ax.figure.dpi_scale_trans)
    how = {"labels": labels, "loc": "upper left", "ncols": ncols, "borderaxespad": 0.0, "borderpad": 0.0}
    how["columnspacing"] = LEGEND_EMS[1]
    found = _legend(ax, drawn, how)
    found.set_bbox_to_anchor((0, 0, 1, 0), transform=below)
    widen(ax, bottom=gap + 0.1 + rows)
    return found


def _arranged(ax: Axes, labels: Sequence[str]) -> tuple[list[str], int, float]:
    """The labels of a legend, on several lines if they are too long; how many columns; the inches of its rows."""
    labels, ncols = list(labels), _columns_with_room(ax, labels)
    if ncols == 1:
        labels = _narrowed(ax, labels)
        ncols = _columns_with_room(ax, labels)
    columns = np.array_split([label.count("\n") for label in labels], ncols)
    return labels, ncols, max(LEGEND_ROW * len(column) + 0.11 * sum(column) for column in columns)


def _columns_with_room(ax: Axes, labels: Sequence[str]) -> int:
    """How many columns of a legend fit between the left edge of the axes and the right edge of the figure."""
    style, room = style_of(ax), _room_right(ax)
    sample, spacing = (em * style.text_size / 72 for em in LEGEND_EMS)
    widths = [sample + SLACK * text_inches(ax, label, style.text_size)[0] for label in labels]

    def fit(columns: int) -> bool:
        widest = [max(part) for part in np.array_split(widths, columns)]
        return bool(sum(widest) + spacing * (columns - 1) < room)

    most = next((columns for columns in range(len(labels), 1, -1) if fit(columns)), 1)
    rows = -(-len(labels) // most)
    even = -(-len(labels) // rows)  # no more columns than these rows need, so that none is left with fewer entries
    return even if fit(even) else most


def _narrowed(ax: Axes, labels: Sequence[str]) -> list[str]:
    """Labels on several lines, so that two columns may fit; a single one only if it is too long for the figure."""
    size = style_of(ax).text_size
    sample, spacing = (em * size / 72 for em in LEGEND_EMS)
    room = _room_right(ax) if len(labels) == 1 else (_room_right(ax) - spacing) / 2
    return [wrapped(ax, label, size, room - sample) for label in labels]


def _room_right(ax: Axes) -> float:
    """Inches from the left edge of the axes to the right edge of the figure, less a little."""
    return float(figure_inches(ax)[0] * (1 - ax.get_position().x0) - 0.05)


def _legend(ax: Axes, handles: Sequence[Artist] | None, how: dict[str, Any]) -> Legend:
    style = style_of(ax)
    given: dict[str, Any] = how if handles is None else {"handles": handles} | how
    found: Legend = ax.legend(frameon=False, fontsize=style.text_size, labelcolor=style.ink, **given)
    for text in found.get_texts():
        text.set_parse_math(False)
    return found


def stamp(ax: Axes, words: str, *, below: str = "", at: tuple[float, float] = (0.0, 1.0), lift: float = 0.0) -> Text:
    """A stamp in a corner of the axes, such as "does not fit", and a line below it that says why.

    ``lift`` is how many inches above the corner it stands.
    """
    style = style_of(ax)
    below = wrapped(ax, below, style.label_size, STAMP_SHARE * ax.bbox.width / ax.figure.dpi, "bold")
    (x, y), inset = at, 8
    how: dict[str, Any] = {
        "xytext": (inset if x < 0.5 else -inset, -inset if y > 0.5 else inset + 72 * lift),
        "xycoords": "axes fraction",
        "textcoords": "offset points",
        "ha": "left" if x < 0.5 else "right",
        "va": "top" if y > 0.5 else "bottom",
        "color": style.warning,
        "fontsize": style.label_size,
        "fontweight": "bold",
        "linespacing": 1.3,
        "parse_math": False,
        "zorder": 7,
        "bbox": {"boxstyle": "round,pad=0.35", "facecolor": style.paper, "edgecolor": style.warning, "linewidth": 1.2},
    }
    return ax.annotate("\n".join(filter(None, (words.upper(), below))), at, **how)
