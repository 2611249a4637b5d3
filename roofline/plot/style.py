"""Styles of the plots for light and dark backgrounds; no global matplotlib settings are changed.

Hues are those of Okabe and Ito (Color Universal Design, 2008), which remain distinguishable in common kinds of color
blindness, darkened or lightened until text in them is readable on the background (WCAG 2.2: a contrast of at least
4.5).  No plot relies on color alone: lines have markers, and areas have hatches or labels, so that grayscale prints
remain readable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb, to_rgba

from ..arrays import FrozenMapping
from ..values import Value

Look = tuple[str, str]
"""Color, and a marker or a hatch."""


@dataclass(frozen=True, eq=False)
class Style(Value):
    """Colors, markers and sizes of text that all plots share.

    Attributes
    ----------
    paper : str
        The background.
    ink, quiet, faint : str
        Text and axes; less important text; grids.
    warning : str
        Color of what does not fit or misses a target.
    lines : tuple of (str, str)
        Color and marker of each line, in order.
    phases : mapping
        Color and marker of ``prefill`` and ``decode``.
    limits : mapping
        Color and hatch of what limits an operator.
    parts : mapping
        Color and hatch of what memory holds, from the bottom up.
    better, worse, neutral : str
        Bars of gains, of losses, and of totals.
    title_size, label_size, text_size, note_size : float
        Of the title; axis labels; ticks, legends and labels; notes. In points.
    """

    paper: str
    ink: str
    quiet: str
    faint: str
    warning: str
    lines: tuple[Look, ...]
    phases: Mapping[str, Look]
    limits: Mapping[str, Look]
    parts: Mapping[str, Look]
    better: str
    worse: str
    neutral: str
    title_size: float = 10.0
    label_size: float = 8.0
    text_size: float = 7.0
    note_size: float = 6.0

    def looks_of(self, names: Iterable[str]) -> dict[str, Look]:
        """Color and marker of each name: the phases' own, the rest in order of appearance."""
        others = dict.fromkeys(name for name in names if name not in self.phases)
        rest = [look for look in self.lines if look not in self.phases.values()]
        return {**self.phases, **{name: rest[place % len(rest)] for place, name in enumerate(others)}}

    def line(self, place: int) -> Look:
        """Color and marker of a line by index, from 0; repeats after the last one."""
        return self.lines[place % len(self.lines)]


LIGHT = Style(
    paper="#ffffff",
    ink="#222222",
    quiet="#5f5f5f",
    faint="#e4e4e4",
    warning="#b3261e",
    lines=(
        ("#0069a8", "o"),
        ("#b84d00", "s"),
        ("#007a58", "^"),
        ("#9c4a78", "D"),
        ("#8a6100", "v"),
        ("#222222", "P"),
        ("#5f5f5f", "X"),
        ("#4b57c4", "<"),
    ),
    phases=FrozenMapping({"decode": ("#0069a8", "o"), "prefill": ("#b84d00", "s")}),
    limits=FrozenMapping(
        {"memory": ("#8ecbf0", ""), "compute": ("#f0b43c", "////"), "network": ("#dfa6c4", "\\\\\\\\")}
    ),
    parts=FrozenMapping(
        {
            "weights": ("#4a9fd0", ""),
            "KV cache": ("#57bf9d", "////"),
            "state": ("#b7dcf5", "...."),
            "pages": ("#cdebe0", "\\\\\\\\"),
            "workspace": ("#f0b43c", "xxxx"),
            "non-torch": ("#e39a6b", "||||"),
            "graphs": ("#dfa6c4", "----"),
            "reservation": ("#d6d6d6", ""),
        }
    ),
    better="#0069a8",
    worse="#b84d00",
    neutral="#8a8a8a",
)
"""On white."""

DARK = Style(
    paper="#14161a",
    ink="#ececec",
    quiet="#a9adb3",
    faint="#34373d",
    warning="#ff8a80",
    lines=(
        ("#6cc0f2", "o"),
        ("#ff9a57", "s"),
        ("#3fcf9f", "^"),
        ("#e79cc6", "D"),
        ("#f2c14e", "v"),
        ("#ececec", "P"),
        ("#a9adb3", "X"),
        ("#a6adff", "<"),
    ),
    phases=FrozenMapping({"decode": ("#6cc0f2", "o"), "prefill": ("#ff9a57", "s")}),
    limits=FrozenMapping(
        {"memory": ("#1f5f87", ""), "compute": ("#805300", "////"), "network": ("#7a3d60", "\\\\\\\\")}
    ),
    parts=FrozenMapping(
        {
            "weights": ("#1f6c9e", ""),
            "KV cache": ("#14785a", "////"),
            "state": ("#4c7590", "...."),
            "pages": ("#3f6b5d", "\\\\\\\\"),
            "workspace": ("#8a5f0a", "xxxx"),
            "non-torch": ("#9a5426", "||||"),
            "graphs": ("#7a3d60", "----"),
            "reservation": ("#4a4d53", ""),
        }
    ),
    better="#6cc0f2",
    worse="#ff9a57",
    neutral="#8b9097",
)
"""Style for dark backgrounds."""

MIDDLE = 0.18
"""Relative luminance of a background that contrasts as much with black as with white: sqrt(1.05 * 0.05) - 0.05."""


def luminance(color: str) -> float:
    """Relative luminance of a color, from 0 for black to 1 for white (WCAG 2.2).

    Examples
    --------
    >>> luminance("white"), round(luminance("#777777"), 3)
    (1.0, 0.184)
    """
    channels = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in to_rgb(color)]
    red, green, blue = channels
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Contrast of two colors, from 1 to 21 (WCAG 2.2)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def ink_on_fill(style: Style, color: str) -> str:
    """The text or background color of the style, whichever is more readable on ``color``."""
    return max((style.ink, style.paper), key=lambda ink: contrast(ink, color))


def style_of(ax: Axes) -> Style:
    """Return the style for the background of ``ax``: `LIGHT` or `DARK`, with that background as its paper."""
    paper = background(ax)
    return replace(LIGHT if luminance(paper) > MIDDLE else DARK, paper=paper)


def background(ax: Axes) -> str:
    """The background color of ``ax``: its own, else that of the figure, else white."""
    red, green, blue, alpha = to_rgba(ax.get_facecolor())
    behind = to_rgba(ax.figure.get_facecolor())
    page = behind[:3] if behind[3] > 0.5 else (1.0, 1.0, 1.0)
    mixed = [alpha * own + (1 - alpha) * below for own, below in zip((red, green, blue), page, strict=True)]
    return to_hex((mixed[0], mixed[1], mixed[2]))
