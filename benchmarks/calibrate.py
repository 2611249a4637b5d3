"""Fit the parameter files in ``efficiency_specs`` to the timings that the tests hold them against.

    python benchmarks/calibrate.py [FOLDER] [-o FOLDER] [--report-only]

Half an hour on two cores.  With ``--report-only`` nothing is fitted; either way ``efficiency.md`` says how far the
estimates are from the timings.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import floors
import numpy as np

from roofline.efficiency import calibration, store, timings
from roofline.efficiency.calibration import Group
from roofline.specs.library import get_accelerator

HERE = Path(__file__).parent
SOURCE = (
    "kernel timings sampled from the measured tables of aiconfigurator-core 0.12.0 (NVIDIA, Apache-2.0), "
    "tests/data/measurements"
)

ABOUT = """\
Each engine with its own profile.  Collectives also count under the default: those of an engine's library count twice.
Rows in quarantine (see floors.md: 250 of decode attention and 294 of products, with all of their label) and groups of
fewer than 20 rows (130 of prefill attention) are not in it.  "Left out" is a row predicted by parameters fitted to the
other half of its group, halved at random; its column is the mean of the groups' medians, weighted by rows.
"""


def trusted(table: str, batch: timings.Batch) -> bool:
    return not floors.quarantined(table, batch)


def groups(folder: Path) -> Iterator[tuple[str, Group]]:
    """Table and group of every engine's timings."""
    for table, batches in timings.tables(folder):
        for group in calibration.groups(batch for batch in batches if trusted(table, batch)):
            if len(group.measured_s) >= calibration.LEAST_ROWS and (
                group.profile != "default" or table == "collectives"
            ):
                yield table, group


def report(folder: Path) -> str:
    """Markdown: rows of each table, the median error of estimates, its bias, the error on rows left out of a fit."""
    found: dict[str, list[tuple[np.ndarray, float, float, float]]] = {}
    for table, group in groups(folder):
        filed = store.find(get_accelerator(group.accelerator), group.kind, group.profile)
        errors = np.expm1(calibration.error(group, filed.parameters))
        ratio = 1 / (1 + errors)
        inside = float(np.mean((ratio >= filed.low) & (ratio <= filed.high)))
        found.setdefault(table, []).append((errors, filed.residual, inside, len(errors)))
    out = [
        "| kernels | rows | median error | bias | median error on rows left out | inside the 80 % interval |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for table, parts in found.items():
        errors = np.concatenate([part[0] for part in parts])
        weights = [part[3] for part in parts]
        left, inside = (np.average([part[at] for part in parts], weights=weights) for at in (1, 2))
        out.append(
            f"| {table} | {len(errors):,} | {np.median(np.abs(errors)):.1%} | {np.median(errors):+.1%} | {left:.1%} |"
            f" {inside:.0%} |"
        )
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=floors.DATA)
    parser.add_argument("-o", "--output", type=Path, default=HERE.parent / "efficiency_specs")
    parser.add_argument("--report-only", action="store_true")
    args = parser.parse_args()
    if not args.report_only:
        calibration.write(calibration.calibrate(args.folder, trusted=trusted), args.output, source=SOURCE)
        store.load.cache_clear()
    text = f"# Estimates against kernel timings\n\n{ABOUT}\n{report(args.folder)}\n"
    (HERE / "efficiency.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
