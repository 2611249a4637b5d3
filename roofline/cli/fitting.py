"""Fit parameters to a user's timings and say how well they do."""

from pathlib import Path

from ..efficiency.calibration import calibrate, write
from ..errors import InvalidInput


def fitted(path: Path, folder: Path, source: str) -> str:
    """Write a parameter file for each accelerator of the timings at ``path``; a line for each group of kernels.

    Raises
    ------
    InvalidInput
        A file of that name is there already, or the folder can't be made.
    """
    found = calibrate(path)
    targets = {folder / f"{accelerator}.yaml" for accelerator, _, _ in found.kernels}
    there = sorted(str(target) for target in targets if target.exists())
    if there:
        raise InvalidInput(f"{', '.join(there)} is there already: move it, or name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write(found, folder, source=source)
    except OSError as error:
        raise InvalidInput(f"{folder} can't be written: {error.strerror or error}") from None
    lines = [
        f"{accelerator}  {engine}  {kind}: {values.rows} rows, median error {values.residual:.1%} on shapes left out"
        for (accelerator, engine, kind), values in sorted(found.kernels.items())
    ]
    refused = [f"refused: {entry}" for entry in found.refused]
    return "\n".join([*lines, *refused, *(f"wrote {target}" for target in sorted(targets))])
