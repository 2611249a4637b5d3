"""Plots into files."""

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
    """Draw `roofline.plot.roofline` into ``file``, without any window.

    Raises
    ------
    InvalidInput
        The file can't be written.
    """
    from matplotlib.figure import Figure

    from ..plot import roofline

    figure = Figure(figsize=(7.0, 5.0), layout="constrained")
    roofline(accelerator, *results, ax=figure.subplots())
    try:
        figure.savefig(file, dpi=200)
    except OSError as error:
        raise InvalidInput(f"{file} can't be written: {error.strerror or error}") from None
