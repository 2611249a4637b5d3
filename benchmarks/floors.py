"""Floors against measured times: how many rows beat theirs, and how close the closest of the others come.

    python benchmarks/floors.py [FOLDER] [-o FILE]

FOLDER holds tables of kernel timings (see `roofline.efficiency.timings`) and
``published_runs.csv``; the tests' own by default.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from roofline.efficiency import timings
from roofline.efficiency.timings import Batch
from roofline.hardware import Accelerator
from roofline.specs.library import get_accelerator

HERE = Path(__file__).parent
DATA = HERE.parent / "tests" / "data" / "measurements"


@dataclass(frozen=True)
class Quarantine:
    """Rows that beat their floor because what the table says of them can't be so."""

    table: str
    words: dict[str, str]
    reason: str


QUARANTINE = (
    Quarantine(
        "attention_decode",
        {"accelerator": "a100-sxm-80gb", "engine": "trtllm", "kernel_source": "torch_flow", "kv_dtype": "bfloat16"},
        "two populations under one label: similar shapes have 0.8 or 1.3 to 1.6 times the speed of the floor; in the "
        "faster population the cache must have had 8 bits per value, not the recorded 16",
    ),
    Quarantine(
        "gemm",
        {"accelerator": "h100-sxm", "engine": "sglang", "dtype": "int8_wo"},
        "recorded as weight-only, which multiplies in 16 bits, but up to 1.15 times that peak: they ran on 8-bit units",
    ),
    Quarantine(
        "moe",
        {
            "accelerator": "gb200",
            "engine": "trtllm",
            "kernel_source": "moe_torch_flow_min_latency",
            "distribution": "balanced",
        },
        "16 tokens routed to all 8 experts, in a third of the time that reading 8 experts takes: only two were read",
    ),
)


def quarantined(table: str, batch: Batch) -> str:
    """The reason why rows of this batch may beat their floor, or nothing."""
    for entry in QUARANTINE:
        if entry.table == table and entry.words.items() <= batch.words.items():
            return entry.reason
    return ""


@dataclass(frozen=True)
class Line:
    """Floor / measured of the rows of one table, accelerator and format."""

    table: str
    accelerator: str
    format: str
    rows: int
    beaten: int
    best: float
    median: float


def compare(
    folder: Path = DATA, accelerators: Callable[[str], Accelerator] = get_accelerator
) -> Iterator[tuple[str, Batch, np.ndarray]]:
    """Table, batch, and floor / measured of each of its rows, quarantined ones included."""
    for table, batches in timings.tables(folder):
        for batch in batches:
            yield table, batch, timings.floors(batch, accelerators) / batch.latency_s


Compared = Sequence[tuple[str, Batch, np.ndarray]]


def lines(compared: Compared) -> list[Line]:
    """One line for each table, accelerator and format; quarantined batches are left out."""
    shares: dict[tuple[str, str, str], list[np.ndarray]] = {}
    for table, batch, share in compared:
        if not quarantined(table, batch):
            words = batch.words
            form = words.get("collective") or words.get("kv_dtype") or words["dtype"]
            shares.setdefault((table, words["accelerator"], form), []).append(share)
    found = []
    for (table, accelerator, form), parts in sorted(shares.items()):
        share = np.concatenate(parts)
        found.append(
            Line(
                table,
                accelerator,
                form,
                len(share),
                int(np.sum(share > 1)),
                float(share.max()),
                float(np.median(share)),
            )
        )
    return found


def table(found: list[Line]) -> str:
    """Markdown: by table and accelerator, the best share of each format."""
    out = [
        "| kernels | accelerator | rows | beat their floor | closest to the floor |",
        "| --- | --- | ---: | ---: | --- |",
    ]
    keys = dict.fromkeys((line.table, line.accelerator) for line in found)
    for name, accelerator in keys:
        some = [line for line in found if (line.table, line.accelerator) == (name, accelerator)]
        best = ", ".join(f"{line.format} {line.best:.2f}" for line in some)
        rows, beaten = sum(line.rows for line in some), sum(line.beaten for line in some)
        out.append(f"| {name} | {accelerator} | {rows:,} | {beaten} | {best} |")
    return "\n".join(out)


CUTS = {"bandwidth": 0.15, "peaks": 0.10, "8-bit and narrower peaks": 0.20}
"""What is taken off a rate -> by how much; a floor that is tight has rows that then beat it."""

NARROW = ("fp8", "fp6", "fp4")


def cut(accelerator: Accelerator, rate: str) -> Accelerator:
    """The accelerator with one of the rates of `CUTS` cut."""
    left = 1 - CUTS[rate]
    if rate == "bandwidth":
        return accelerator.replace(memory_bytes_per_s=accelerator.memory_bytes_per_s * left)
    wanted = {math for math in accelerator.dense_flops_per_s if (math in NARROW) == (rate != "peaks")}
    peaks = {math: peak * (left if math in wanted else 1) for math, peak in accelerator.dense_flops_per_s.items()}
    return accelerator.replace(dense_flops_per_s=peaks)


def breaks_if_cut(rate: str, folder: Path = DATA) -> dict[str, int]:
    """Accelerator -> rows that beat a floor computed with a rate cut; 0 where the floor has that much room."""
    found: dict[str, int] = {}
    for name, batch, share in compare(folder, lambda name: cut(get_accelerator(name), rate)):
        if name != "collectives" and not quarantined(name, batch):
            accelerator = batch.words["accelerator"]
            found[accelerator] = found.get(accelerator, 0) + int(np.sum(share > 1))
    return found


def cuts_table(folder: Path = DATA) -> str:
    """Markdown: rows that beat a floor with a rate cut, by accelerator."""
    found = {rate: breaks_if_cut(rate, folder) for rate in CUTS}
    names = sorted(found["bandwidth"])
    head = " | ".join(f"{rate} - {share:.0%}" for rate, share in CUTS.items())
    out = [f"| accelerator | {head} |", "| --- |" + " ---: |" * len(CUTS)]
    out += [f"| {name} | " + " | ".join(f"{found[rate][name]:,}" for rate in CUTS) + " |" for name in names]
    return "\n".join(out)


def summary(compared: Compared) -> str:
    """Markdown: rows and breaks of each table, and the quarantined ones with their reason."""
    rows: dict[str, list[int]] = {}
    caught: dict[str, int] = {}
    for name, batch, share in compared:
        reason = quarantined(name, batch)
        counts = rows.setdefault(name, [0, 0, 0])
        counts[0] += len(share)
        counts[2 if reason else 1] += int(np.sum(share > 1))
        if reason:
            caught[reason] = caught.get(reason, 0) + int(np.sum(share > 1))
    out = ["| kernels | rows | beat their floor | excluded |", "| --- | ---: | ---: | ---: |"]
    out += [f"| {name} | {n:,} | {beaten} | {held} |" for name, (n, beaten, held) in rows.items()]
    return "\n".join([*out, "", *(f"- {count} rows excluded: {reason}" for reason, count in caught.items())])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=DATA)
    parser.add_argument("-o", "--output", type=Path, default=HERE / "floors.md")
    args = parser.parse_args()
    compared = list(compare(args.folder))
    text = "\n\n".join(
        [
            "# Floors against measured times",
            "Floor / measured: at 1 a kernel reaches its floor, above 1 it beats the floor. The loops that timed these "
            "kernels may find operands in the last-level cache, so its size is subtracted from the bytes that move, "
            "unless the operands are more than three times as large.",
            summary(compared),
            "How many rows would beat their floor if a rate were lower by this much; a tight floor has some. Boards "
            "without any for a peak are limited by power: during such large products they cannot hold the highest "
            "clock, which the floor assumes.",
            cuts_table(args.folder),
            "The closest row of each format:",
            table(lines(compared)),
        ]
    )
    args.output.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
