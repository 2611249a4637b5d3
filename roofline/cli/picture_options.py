"""Options of every command that draws: where the picture goes, how it looks, which measured runs it shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ..errors import InvalidInput
from . import options as opt
from .output import check_picture, print_text, save_picture
from .quantities import quantity


@Parameter(name="*")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Picture:
    """Where a picture goes and how it looks, as typed."""

    file: Annotated[Path, opt.PICTURE]
    dark: Annotated[bool, opt.switch("--dark", "Draw for a dark page or slide.")] = False
    width: Annotated[
        Any, opt.option("--width", "INCHES", "Width of the picture.", parse=quantity, group=opt.OUTPUT)
    ] = 6.0

    def draw(self, function: Callable[..., Any], *results: Any, **how: Any) -> None:
        """Draw with a function of `roofline.plot` and say where the picture is."""
        save_picture(self.file, lambda ax: function(*results, ax=ax, **how), dark=self.dark, width=self.width)
        print_text(f"wrote {self.file}")

    def check(self) -> None:
        """Refuse a file that cannot be drawn, before anything is computed."""
        check_picture(self.file)
        if not 2 <= self.width <= 30:
            raise InvalidInput(f"--width takes 2 to 30 inches: {self.width:g}")


MeasuredFiles = Annotated[
    tuple[Path, ...],
    opt.option(
        "--measured",
        "FILE",
        "Result file of a benchmark, whose runs are drawn; may be repeated.",
        parse=Path,
        group=opt.OTHER,
        show_default=False,
    ),
]
