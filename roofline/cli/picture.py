"""Plots into files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import InvalidInput

ENDINGS = (".png", ".svg", ".pdf")


def checked(file: Path) -> Path:
    """``file`` if its ending is one that can be drawn.

    Raises
    ------
    InvalidInput
        Another ending.
    """
    if file.suffix.lower() not in ENDINGS:
        raise InvalidInput(f"the name of a plot ends in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}: {str(file)!r}")
    return file


def save_roofline(file: Path, accelerator: Any, *results: Any) -> None:
    """Draw `roofline.plot.roofline` into ``file``, without any window."""
    from ..plot import roofline

    _save(file, lambda ax: roofline(accelerator, *results, ax=ax))


def save_phase_map(file: Path, found: Any) -> None:
    """Draw `roofline.plot.phase_map` into ``file``, without any window."""
    from ..plot import phase_map

    _save(file, lambda ax: phase_map(found, ax=ax))


def save_pareto(file: Path, found: Any) -> None:
    """Draw `roofline.plot.pareto` into ``file``, without any window."""
    from ..plot import pareto

    _save(file, lambda ax: pareto(found, ax=ax))


def _save(file: Path, draw: Callable[[Any], Any]) -> None:
    """Let ``draw`` draw on new axes and write them.

    Raises
    ------
    InvalidInput
        The file can't be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 5.0), layout="constrained")
    draw(figure.subplots())
    try:
        figure.savefig(file, dpi=200)
    except OSError as error:
        raise InvalidInput(f"{file} can't be written: {error.strerror or error}") from None
