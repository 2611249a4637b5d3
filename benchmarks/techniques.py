"""Measured gains of serving techniques against what the library predicts for the same change.

    python benchmarks/techniques.py [FILE] [-o PAGE]

FILE is ``technique_gains.csv``, the tests' own by default: one row a measured gain, before against after.  Every row
that says enough becomes two scenarios, of which the time or rate that the row measured is compared; the others are
listed with what they lack.  A third of the sources, drawn by a checksum of their titles, was not looked at while forms
were chosen; the page reports them apart.
"""

from __future__ import annotations

import argparse
import csv
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from technique_rules import REASONS, Row, Unmapped, rule_of

import roofline as rl

HERE = Path(__file__).parent
DATA = HERE.parent / "tests" / "data" / "measurements" / "technique_gains.csv"


@dataclass(frozen=True)
class Found:
    """A row with its prediction, or the reason why it has none."""

    row: Row
    predicted: float | None
    reason: str = ""
    assumed: str = ""

    @property
    def measured(self) -> float:
        """The printed gain."""
        return float(self.row["gain"])

    @property
    def bound(self) -> bool:
        """Whether the row is an "up to" or a lower bound, which is no figure to be met."""
        return "upper bound" in self.row["params"] or "lower bound" in self.row["params"]

    @property
    def verdict(self) -> str:
        """How far off; a wrong sign where one is above 1 and the other below, both by more than 10 %."""
        if self.predicted is None:
            return "unmapped"
        if self.bound:
            return "bound"
        signs = [np.log(each) for each in (self.predicted, self.measured)]
        if signs[0] * signs[1] < 0 and min(map(abs, signs)) > np.log(1.1):
            return "wrong sign"
        off = abs(signs[0] - signs[1])
        if off <= np.log(1.15):
            return "within 15 %"
        return "within 30 %" if off <= np.log(1.3) else "beyond"

    @property
    def unseen(self) -> bool:
        """Whether the source was kept apart while forms were chosen."""
        return zlib.crc32(self.row["source"].encode()) % 3 == 0


def predict(row: Row) -> Found:
    """The prediction of a row."""
    rule = rule_of(row)
    if rule is None:
        return Found(row, None, REASONS.get(row["technique"], "no technique of the library"))
    try:
        found = rule(row)
        return Found(row, found.gain(), assumed=found.assumed)
    except Unmapped as error:
        return Found(row, None, str(error))
    except rl.RooflineError as error:
        return Found(row, None, f"refused: {error}")


def read(path: Path = DATA) -> list[dict[str, str]]:
    """All rows."""
    with path.open() as file:
        return list(csv.DictReader(file))


VERDICTS = ("within 15 %", "within 30 %", "beyond", "wrong sign")


def summary(found: Iterable[Found]) -> str:
    """Counts and shares of the verdicts, as a row of a table."""
    counts = Counter(each.verdict for each in found)
    judged = sum(counts[name] for name in VERDICTS)
    near, far = counts["within 15 %"], counts["within 15 %"] + counts["within 30 %"]
    shares = f"{near / judged:.0%} | {far / judged:.0%}" if judged else "- | -"
    cells = [str(counts[name]) for name in VERDICTS]
    return f"{judged} | {' | '.join(cells)} | {shares} | {counts['unmapped']} | {counts['bound']}"


INTRODUCTION = """\
Written by `benchmarks/techniques.py` from `tests/data/measurements/technique_gains.csv`. Gains above 1 are
improvements. The sign is wrong if the measured and the predicted gain are on different sides of 1, each by more than
10 %. Rows that state an upper or lower bound are shown but not judged. The sources in the second line were selected by
a checksum of their titles and not read while the formulas were chosen. Rows that do not state an input, mostly the
acceptance length, are predicted with a usual value, which the class names; they are counted separately.
[found_later.md](found_later.md) has a third set of sources, read after the formulas were final.

Known errors and their causes:

- Cascade attention over a prefix of 128 tokens (the wrong sign). From 256 tokens on, the time of the baseline kernel is
  proportional to the prefix. Extrapolated to 128 tokens, cascade attention would still gain, so the baseline must use a
  faster kernel there.
- Balanced experts in decode (predicted 1.95, measured 2.54). How unevenly tokens choose experts follows from two
  figures of the same source for prompts, which are not judged; that accelerators with fewer experts differ more is
  derived.
- SGLang pipelines (predicted 0.45, measured 0.37), and layouts at the edge of memory, which gain through a larger
  batch: a few requests more or less change the baseline by half. Attention replicas of DeepSeek-V3.2 (predicted 1.0,
  measured 2.44) are the best of a range from 1.39, and the request limit of their baseline is not stated."""


def page(found: list[Found]) -> str:
    """The whole report."""
    lines = [
        "# Gains of techniques: measured and predicted",
        "",
        *INTRODUCTION.splitlines(),
        "",
        "| sources | judged | within 15 % | within 30 % | beyond | wrong sign | 15 % | 30 % | unmapped | bounds |",
        "|---|---|---|---|---|---|---|---|---|---|",
        f"| looked at | {summary(each for each in found if not each.unseen and not each.assumed)} |",
        f"| set apart | {summary(each for each in found if each.unseen and not each.assumed)} |",
        f"| both | {summary(each for each in found if not each.assumed)} |",
        f"| with usual values | {summary(each for each in found if each.assumed)} |",
        f"| all | {summary(found)} |",
    ]
    for source, each in by_source(found).items():
        lines += ["", f"## {source}", "", "| row | technique | conditions | measured | predicted | class |"]
        lines += ["|---|---|---|---|---|---|", *map(_line, each)]
    return "\n".join(lines) + "\n"


AnyFound = TypeVar("AnyFound", bound=Found)


def by_source(found: Iterable[AnyFound]) -> dict[str, list[AnyFound]]:
    """Rows by their source, in the order in which the sources come."""
    grouped: dict[str, list[AnyFound]] = defaultdict(list)
    for each in found:
        grouped[each.row["source"]].append(each)
    return grouped


def conditions(row: Row) -> str:
    """What was measured, and under which conditions, for a cell of a table."""
    parts = [row["model"], row["hardware"], row["precision"], row["batch_or_concurrency"], row["metric"], row["params"]]
    return ", ".join(part for part in parts if part)


def write_or_print(text: str, path: Path | None) -> None:
    """Write a page to a file, or print it without one."""
    if path:
        path.write_text(text)
    else:
        print(text, end="")


def _line(each: Found) -> str:
    row = each.row
    predicted = "-" if each.predicted is None else f"{each.predicted:.3g}"
    verdict = each.reason or each.verdict + (f", usual {each.assumed}" if each.assumed else "")
    return f"| {row['id']} | {row['technique']} | {conditions(row)} | {each.measured:.3g} | {predicted} | {verdict} |"


def main() -> None:
    """Predict every row and print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=DATA)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    write_or_print(page([predict(row) for row in read(given.file)]), given.output)


if __name__ == "__main__":
    main()
