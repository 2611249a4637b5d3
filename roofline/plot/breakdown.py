"""Where the time of a pass goes."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from ..errors import InvalidInput
from ..phases.passes import Phase
from .style import INK, LIMITS, axes_or_new, head
from .tracks import captions, operator_name, shares_of_time, swept


def time_breakdown(*phases: Phase, ax: Axes | None = None) -> Axes:
    """Shares of `roofline_s` by operator, one bar a phase, the color saying what limits the operator.

    Operators with the same name are one piece.  The order is the same in every bar, the longest over all phases
    first; a piece too narrow for its name has none.

    Parameters
    ----------
    phases : Phase
        Single passes, drawn from the top.
    ax : Axes, optional
        Where to draw; a new figure 6 inches wide if None.

    Raises
    ------
    InvalidInput
        No phase, or a sweep (array results).
    """
    if not phases:
        raise InvalidInput("time_breakdown needs a phase: none was given")
    for phase in phases:
        if swept(phase):
            raise InvalidInput(
                f"time_breakdown shows single passes, and {phase.name} is a sweep: draw one of its points"
            )
    ax = axes_or_new(ax, height=1.0 + 0.6 * len(phases))
    ax.set(xlim=(0, 1), ylim=(len(phases) - 0.4, -0.6), xlabel="share of the time")
    ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_yticks(range(len(phases)), [texts[0] for texts in captions(phases)])
    ax.tick_params(labelsize=7, length=0)
    ax.xaxis.label.set_fontsize(8)
    ax.spines[:].set_visible(False)
    head(ax, "Where the time goes", " and ".join(dict.fromkeys(p.deployment.model.title for p in phases)))
    ax.figure.canvas.figure.draw_without_rendering()
    pieces = [_pieces(phase) for phase in phases]
    keys = dict.fromkeys(key for piece in pieces for key in piece)
    order = sorted(keys, key=lambda key: -sum(piece.get(key, 0.0) for piece in pieces))
    for row, piece in enumerate(pieces):
        _draw_bar(ax, row, {key: piece[key] for key in order if key in piece})
    patches = [Patch(color=LIMITS[limit], label=f"{limit}-bound") for limit in sorted({limit for _, limit in keys})]
    ax.legend(handles=patches, loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False, fontsize=7)
    return ax


def _pieces(phase: Phase) -> dict[tuple[str, str], float]:
    """``(operator, what limits it)`` -> share of the phase's time."""
    shares: dict[tuple[str, str], float] = {}
    for item, share in zip(phase.operators, shares_of_time(phase), strict=True):
        key = (operator_name(item), str(item.limit))
        shares[key] = shares.get(key, 0.0) + share
    return shares


def _draw_bar(ax: Axes, row: int, pieces: Mapping[tuple[str, str], float]) -> None:
    left = 0.0
    for (name, limit), share in pieces.items():
        ax.barh(row, share, left=left, height=0.7, color=LIMITS[limit], edgecolor="white", linewidth=0.8, label=name)
        text = ax.text(left + share / 2, row, f"{name}\n{share:.0%}", ha="center", va="center", fontsize=7, color=INK)
        if text.get_window_extent().width > share * ax.bbox.width - 2:
            text.remove()
        left += share
