"""Share of accelerator values that were verified in their source, as shown in ``hardware_specs/README.md``.

``python -m roofline.specs.coverage`` writes the table into that page; a test checks that it is current.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from ..hardware import Provenance
from .folders import spec_folders
from .library import load_accelerators

_GROUPS = {
    "memory_bytes": "memory capacity",
    "memory_bytes_per_s": "memory bandwidth",
    "dense_flops_per_s": "dense peaks",
    "narrow_accumulate_flops_per_s": "peaks of sums in 16 bits",
    "sparse_flops_per_s": "sparse peaks",
    "scale_up": "links between accelerators",
    "host_bytes_per_s": "link to the host",
    "nic_bytes_per_s": "network",
    "l2_bytes": "last-level cache",
    "tdp_watts": "power",
}
_OTHER = "units, clocks, buses"


def coverage_table() -> str:
    """Return a Markdown table of values by group: how many were verified in a source, derived, or measured.

    Examples
    --------
    >>> print(coverage_table().splitlines()[0])
    | figures of | number | read in their source | share | derived from what is printed | measured |
    """
    groups: dict[str, list[Provenance]] = {name: [] for name in (*_GROUPS.values(), _OTHER)}
    for chip in load_accelerators():
        for path, figure in chip.provenance.items():
            groups[_group(path)].append(figure)
    head = [
        "| figures of | number | read in their source | share | derived from what is printed | measured |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    body = [_line(name, figures) for name, figures in groups.items()]
    every = [figure for figures in groups.values() for figure in figures]
    return "\n".join([*head, *body, _line("**all**", every)])


def _group(path: str) -> str:
    return _GROUPS.get(path.partition(".")[0], _OTHER)


def _line(group: str, figures: list[Provenance]) -> str:
    verified = sum(figure.verified for figure in figures)
    kinds = Counter(figure.kind for figure in figures)
    share = f"{verified / len(figures):.0%}" if figures else "–"
    return f"| {group} | {len(figures):,} | {verified:,} | {share} | {kinds['derived']:,} | {kinds['measured']:,} |"


_PLACE = re.compile(r"(<!-- coverage: .*? -->\n).*?(<!-- end of coverage -->)", re.DOTALL)


def page_with_table(page: str) -> str:
    """Return the text of the page with the current table between its markers."""
    table = coverage_table()
    return _PLACE.sub(lambda found: f"{found[1]}\n{table}\n\n{found[2]}", page)


def main() -> None:
    """Write the table into the README of the library in use."""
    path: Path = next(iter(spec_folders("hardware_specs"))) / "README.md"
    path.write_text(page_with_table(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
