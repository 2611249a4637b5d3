"""Commands about spec files and timings: ``check`` and ``calibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ...errors import InvalidInput
from .. import options as opt
from ..output import print_json, print_text


def check(
    path: Annotated[Path, Parameter(help="A spec file, or a directory of them.")], /, *, as_json: opt.Json = False
) -> int:
    """Validate a spec file."""
    from ...specs.validation import check_specs

    faults = check_specs(path)
    if as_json:
        print_json(faults)
    else:
        print_text("\n".join(faults) or f"{path}: no errors")
    return 2 if faults else 0


Timings = Annotated[Path, Parameter(help="Table of timings, or a directory of them (CSV, CSV.gz).")]
Folder = Annotated[
    Path,
    Parameter(
        name=("--folder", "-o"),
        metavar="DIRECTORY",
        help="Directory to write one file per accelerator to.",
        converter=opt.parsed_by(Path),
    ),
]
Source = Annotated[
    str,
    opt.option(
        "--source",
        "TEXT",
        "Description of the timings (what, where, when), which is recorded in the files.",
        group=opt.OTHER,
    ),
]


def calibrate(path: Timings, /, *, folder: Folder = Path("efficiency_specs"), source: Source = "own timings") -> None:
    """Write parameter files fitted to a user's timings."""
    from ...efficiency.calibration import calibrate as fit
    from ...efficiency.calibration import write

    found = fit(path)
    targets = {folder / f"{accelerator}.yaml" for accelerator, _, _ in found.kernels}
    present = sorted(str(target) for target in targets if target.exists())
    if present:
        raise InvalidInput(f"{', '.join(present)} already exists; move it, or choose another directory with --folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write(found, folder, source=source)
    except OSError as error:
        raise InvalidInput(f"cannot write to {folder}: {error.strerror or error}") from None
    for (accelerator, engine, kind), values in sorted(found.kernels.items()):
        error_text = f"{values.rows} rows, median error {values.residual:.1%} on held-out shapes"
        print_text(f"{accelerator}  {engine}  {kind}: {error_text}")
    print_text(*(f"refused: {entry}" for entry in found.refused))
    print_text(*(f"wrote {target}" for target in sorted(targets)))
