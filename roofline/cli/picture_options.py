"""Options that all plot commands share: output file, style and measured runs."""

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
    """Output file and style of a plot, as typed."""

    file: Annotated[Path, opt.PICTURE]
    dark: Annotated[bool, opt.switch("--dark", "Draw for a dark background.")] = False
    width: Annotated[Any, opt.option("--width", "INCHES", "Width of the plot.", parse=quantity, group=opt.OUTPUT)] = 6.0

    def draw(self, function: Callable[..., Any], *results: Any, **how: Any) -> None:
        """Draw with a function of `roofline.plot` and print the path of the file."""
        save_picture(self.file, lambda ax: function(*results, ax=ax, **how), dark=self.dark, width=self.width)
        print_text(f"wrote {self.file}")

    def check(self) -> None:
        """Refuse a file that cannot be written, before anything is computed."""
        check_picture(self.file)
        if isinstance(self.width, str) or not 2 <= self.width <= 30:
            raise InvalidInput(f"--width must be 2 to 30 inches: {self.width!r}")


MeasuredFiles = Annotated[
    tuple[Path, ...],
    opt.option(
        "--measured",
        "FILE",
        "Result file of a benchmark whose runs are drawn; may be repeated.",
        parse=Path,
        group=opt.OTHER,
        show_default=False,
    ),
]
