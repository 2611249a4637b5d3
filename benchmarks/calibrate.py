"""Fit the parameter files in ``efficiency_specs`` to the timings that the tests hold them against.

    python benchmarks/calibrate.py [FOLDER] [-o FOLDER] [--report-only]

Ten minutes on two cores.  With ``--report-only`` nothing is fitted; either way ``efficiency.md`` says how far the
estimates are from the timings, and which timings are refused.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import floors
import numpy as np

from roofline.efficiency import calibration, store, timings
from roofline.efficiency.estimates import Estimate, estimate
from roofline.efficiency.groups import kernel, kinds, profile_of
from roofline.efficiency.timings import Batch
from roofline.files import read_yaml
from roofline.specs.library import get_accelerator

HERE = Path(__file__).parent
SOURCE = (
    "kernel timings sampled from the measured tables of aiconfigurator-core 0.12.0 (NVIDIA, Apache-2.0), "
    "tests/data/measurements"
)

ABOUT = """\
Each row is estimated twice: with the profile of its engine, and with the default, the median of all engines. Rejected
groups are listed at the end and count in none of the figures; nor do excluded rows (see floors.md). If an engine had
several kernels under one label (releases, special cases), the profile describes the current one: rows of older kernels
count only in the columns of all kernels. "Inside" is the share of rows within the 80% interval.
"""


def trusted(table: str, batch: Batch) -> bool:
    """Whether no rule of the floors holds a batch back."""
    return not floors.quarantined(table, batch)


@dataclass(frozen=True)
class SlowHost:
    """Collectives that timed how a host connects its accelerators, and the releases of an engine timed on another."""

    accelerator: str
    least_gpus: int
    sound: tuple[str, str]
    reason: str


SLOW_HOSTS = (
    SlowHost(
        "l40s",
        4,
        ("SGLang", "0.5.12"),
        "all-reduces move 2.5 GB/s over 4 and 1.1 GB/s over 8 accelerators, a fifth and a tenth of those timed with "
        "SGLang 0.5.12 (13.5 and 11.5, as much of PCIe as over 2); eight L40S that serve Llama-3-70B at 1,377 tokens/s "
        "(TensorRT-LLM 0.14) move at least 7 GB/s",
    ),
)
"""Timings of hosts whose accelerators do not reach each other at the rate of their links."""


def sound_rows(table: str, batch: Batch) -> np.ndarray:
    """Which rows of a batch timed what they say: neither held back by the floors nor timed on a slow host."""
    sound = np.full(len(batch.latency_s), trusted(table, batch))
    for host in SLOW_HOSTS:
        library, release = batch.words.get("library", ""), batch.words.get("engine_version", "")
        elsewhere = library.startswith(host.sound[0]) and release == host.sound[1]
        if table == "collectives" and batch.words["accelerator"] == host.accelerator and not elsewhere:
            sound &= batch.columns["num_gpus"] < host.least_gpus
    return sound


@dataclass(frozen=True, eq=False)
class Compared:
    """Rows of one batch: what was measured and what the library says.

    Attributes
    ----------
    table, kind : str
        Where the rows are from.
    batch : Batch
        The rows.
    profile : str
        Of its engine or library.
    todays : bool
        Whether the profile of their engine has their kernel.
    named, default : array
        Natural logarithm of estimate over measured, by the engine's profile and by the median of all.
    inside, inside_default : array
        Whether the measured time is in the interval of the engine's profile, and of the default.
    """

    table: str
    kind: str
    batch: Batch
    profile: str
    todays: bool
    named: np.ndarray
    default: np.ndarray
    inside: np.ndarray
    inside_default: np.ndarray


def estimated(batch: Batch, profile: str | None, *, cached: bool = True) -> Estimate:
    """Every row of a batch; if ``cached`` as a timing loop runs it, which finds in the last-level cache what fits."""
    operator, gpu = batch.operator, get_accelerator(batch.words["accelerator"])
    run = kernel(batch, gpu)
    memory_s = run.memory_s if cached else run.memory_s + run.cached_s
    return estimate(operator, gpu, compute_s=run.compute_s, memory_s=memory_s, profile=profile)


def refused(accelerator: str) -> list[dict[str, Any]]:
    """Groups of an accelerator that the calibration refused, as its parameter file lists them."""
    path = store.folder() / f"{accelerator}.yaml"
    return list(read_yaml(path).get("refused", [])) if path.is_file() else []


def compare(folder: Path, every: int = 1) -> Iterator[Compared]:
    """Every trusted batch that is not of a refused group, or of each table only every so many."""
    for table, batches in timings.tables(folder):
        for batch in batches[::every]:
            gpu = get_accelerator(batch.words["accelerator"])
            profile, source = profile_of(batch.words), batch.words.get("kernel_source", "")
            bad = {(entry["profile"], entry["kind"], entry["kernel"]) for entry in refused(gpu.name)}
            sound = sound_rows(table, batch)
            for kind, every_row in kinds(batch, gpu):
                rows = every_row[sound[every_row]]
                if len(rows) and (profile, kind, source) not in bad:
                    yield _compared(table, kind, batch.take(rows), profile)


def _compared(table: str, kind: str, batch: Batch, profile: str) -> Compared:
    measured = batch.latency_s
    named, default = estimated(batch, profile), estimated(batch, None)
    source = batch.words.get("kernel_source", "")
    filed = store.profiles_of(batch.words["accelerator"]).get(profile, {})
    kernels = {values.get("kernel", "") for name, values in filed.items() if name.startswith(kind)}
    return Compared(
        table,
        kind,
        batch,
        profile,
        source in kernels,
        np.log(named.time_s / measured),
        np.log(default.time_s / measured),
        (measured >= named.low_s) & (measured <= named.high_s),
        (measured >= default.low_s) & (measured <= default.high_s),
    )


HEAD = (
    "| {} | rows | today's kernels: median | mean | all kernels: median | mean | inside "
    "| default: median | mean | inside |\n"
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
)


def line(name: str, parts: list[Compared]) -> str:
    """One line of a table: how far the profile and the default are from the rows of ``parts``."""
    named = np.abs(np.expm1(np.concatenate([part.named for part in parts])))
    default = np.abs(np.expm1(np.concatenate([part.default for part in parts])))
    todays = np.concatenate([np.full(len(part.named), part.todays) for part in parts])
    own = named[todays] if np.any(todays) else np.array([np.nan])
    inside = np.mean(np.concatenate([part.inside for part in parts]))
    inside_default = np.mean(np.concatenate([part.inside_default for part in parts]))
    errors = [f"{np.median(each):.1%} | {np.mean(each):.1%}" for each in (own, named, default)]
    return (
        f"| {name} | {len(named):,} | {errors[0]} | {errors[1]} | {inside:.0%} | {errors[2]} | {inside_default:.0%} |"
    )


def by(title: str, key: Callable[[Compared], str], compared: list[Compared]) -> str:
    """A table with a line for each value of ``key``."""
    names = sorted({key(part) for part in compared})
    lines = [line(name, [part for part in compared if key(part) == name]) for name in names]
    return "\n".join([HEAD.format(title), *lines])


def report(folder: Path) -> str:
    """Markdown: estimates against timings by table, engine, accelerator and format, and what was refused."""
    compared = list(compare(folder))
    tables = [
        by("kernels", lambda part: part.table, compared),
        by("engine or library", lambda part: part.profile, compared),
        by("accelerator", lambda part: part.batch.words["accelerator"], compared),
        by("kind and format", lambda part: ".".join(part.kind.split(".")[:2]), compared),
    ]
    return "\n\n".join([*tables, "## Rejected", *_refusals()])


def _refusals() -> Iterator[str]:
    for path in sorted(store.folder().glob("*.yaml")):
        entries = [
            f"- {entry['profile']}, {entry['kind']}, {entry['kernel']}, {entry['rows']} rows: {entry['reason']}"
            for entry in read_yaml(path).get("refused", [])
        ]
        if entries:
            yield "\n".join([f"{path.stem}:", "", *entries])


def main() -> None:
    """Fit, write and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=floors.DATA)
    parser.add_argument("-o", "--output", type=Path, default=HERE.parent / "efficiency_specs")
    parser.add_argument("--report-only", action="store_true")
    args = parser.parse_args()
    if not args.report_only:
        calibration.write(calibration.calibrate(args.folder, trusted=sound_rows), args.output, source=SOURCE)
        store.profiles_of.cache_clear()
    text = f"# Estimates against kernel timings\n\n{ABOUT}\n{report(args.folder)}\n"
    (HERE / "efficiency.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
