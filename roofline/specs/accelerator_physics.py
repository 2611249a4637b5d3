"""Checks of an accelerator's values against what memory, links, boards and matrix units of its kind have.

Every chip of a kind is built from the same parts: stacks and packages of memory with a known number of pins, links of
one rate, matrix units whose rate doubles as formats get half as wide.  Values that no number of such parts makes are
reported, so that a figure doubled, halved or with a wrong unit is found without a second source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..hardware import Accelerator

TOLERANCE = 0.03
"""Tolerance: data sheets round to two or three digits."""

GIB = 2.0**30


class Package(NamedTuple):
    """Stack or package of memory: its pins, their lowest and highest bit/s, and its least and largest GiB."""

    pins: int
    bits_per_s: tuple[float, float]
    gib: tuple[float, float]

    @property
    def per_gib(self) -> tuple[float, float]:
        """Range of bytes per second and GiB."""
        (slow, fast), (small, large) = self.bits_per_s, self.gib
        return self.pins * slow / 8 / large, self.pins * fast / 8 / small


PACKAGES = {
    "HBM2e": Package(1024, (2.4e9, 3.7e9), (16, 16)),
    "HBM2": Package(1024, (1.4e9, 3.3e9), (4, 8)),
    "HBM3e": Package(1024, (5.2e9, 9.8e9), (24, 36)),
    "HBM3": Package(1024, (5.0e9, 6.6e9), (16, 24)),
    "HBM4": Package(2048, (6.4e9, 11e9), (36, 48)),
    "GDDR6X": Package(32, (19e9, 24e9), (1, 4)),
    "GDDR6": Package(32, (12e9, 20e9), (1, 4)),
    "GDDR7": Package(32, (26e9, 32e9), (2, 6)),
}
"""Type of memory -> its packages: JEDEC JESD235, JESD238, JESD270 and JESD250 with the rates and sizes that were sold.
Two packages of GDDR that share their pins (clamshell) count as one of twice the size.  Sold A100s and MI200s have
stacks of 16 GiB; parts with fewer GiB enabled than stacked are within `SPARE`."""

SPARE = 1.15
"""Chips may leave a fifteenth of their stacks unused (B200), and run below the rate of the memory (MI325X)."""


class Board(NamedTuple):
    """What boards with chips of one kind have per compute unit: watts, MiB of L2, and FLOPs of FP32 a clock."""

    watts: tuple[float, float]
    l2_mib: tuple[float, float]
    fp32: float


BOARDS = {
    ("Volta", True): Board((3.1, 3.8), (0.07, 0.08), 128),
    ("Turing", False): Board((1.7, 3.7), (0.08, 0.1), 128),
    ("Ampere", True): Board((2.3, 3.8), (0.37, 0.43), 128),
    ("Ampere", False): Board((2.0, 6.1), (0.07, 0.2), 256),
    ("Ada", False): Board((1.2, 4.9), (0.56, 1.05), 256),
    ("Hopper", True): Board((3.0, 5.4), (0.37, 0.46), 256),
    ("Blackwell", True): Board((4.7, 9.3), (0.8, 0.86), 256),
    ("Blackwell", False): Board((1.5, 5.3), (0.56, 1.0), 256),
    ("CDNA2", True): Board((2.3, 2.9), (0.07, 0.08), 128),
    ("CDNA3", True): Board((2.4, 3.4), (0.1, 0.11), 256),
    ("CDNA4", True): Board((3.9, 5.5), (0.12, 0.13), 256),
}
"""Architecture and whether its memory is HBM -> ranges of its boards (data sheets; efficient boards run below their
clock, H20 and A30 have units disabled)."""

ROOM = 1.25
"""Distance from a range of boards at which a value is reported."""

LINKS = (
    (r"NVLink 1\b", (20e9,), (4,)),
    (r"NVLink 2\b", (25e9,), (2, 6)),
    (r"NVLink 3\b", (25e9, 14.0625e9), (4, 8, 12)),
    (r"NVLink 4\b", (25e9,), (8, 12, 18)),
    (r"NVLink 5\b", (50e9,), (18,)),
    (r"NVLink 6\b", (50e9,), (36,)),
    (r"NVLink bridge, cut", (25e9,), (8,)),
    (r"Infinity Fabric 4, 2 links a peer", (64e9,), (6,)),
    (r"Infinity Fabric 4", (64e9, 76.8e9), (7,)),
    (r"Infinity Fabric 3", (50e9,), (6, 8)),
    (r"Infinity Fabric bridge", (50e9,), (3,)),
    (r"HCCS", (28e9,), (7,)),
)
"""Name of a link -> rates of one link, bytes per second one way, and how many links an accelerator has of them."""

COUNTED = re.compile(r"(\d+)(?: dies)? x (?:(\d+) x )?(\d+) ?(?:GbE|Gbit/s)|(\d+) links of ([\d.]+) GB/s one way")
"""Names that say how many links there are, and their rate."""

FUSED_OFF = 0.1
"""Share of the 16-bit peak below which 8-bit integers are left out of a chip on purpose (Blackwell Ultra, Rubin)."""

RATIOS: Mapping[str, Mapping[tuple[str, str], tuple[float, ...]]] = {
    "NVIDIA": {
        ("tf32", "bf16"): (0.5,),
        ("fp8", "bf16"): (2, 4, 4.375),
        ("fp6", "fp8"): (1,),
        ("fp4", "fp8"): (2, 3, 3.11),
        ("int4", "int8"): (1, 2),
    },
    "AMD": {
        ("tf32", "bf16"): (0.5,),
        ("fp8", "bf16"): (2,),
        ("fp6", "fp8"): (1, 2),
        ("fp4", "fp8"): (2,),
        ("int8", "bf16"): (1, 2),
    },
    "Apple": {("fp16", "fp32"): (1,), ("bf16", "fp16"): (1,)},
}
"""Vendor -> narrow and wide format -> ratios of their peaks (white papers of each architecture; Blackwell Ultra has
three times its FP8 rate in FP4, Rubin 4.375 times its BF16 rate in FP8)."""

EXPONENTIALS = (16, 32)
"""Exponentials per clock of a multiprocessor: 16, on Blackwell Ultra 32 (CUDA C++ Programming Guide)."""

L2_OVER_MEMORY = (1.5, 12)
"""Bandwidth of an L2 over that of the memory: 2.6 (Gaudi 2) to 6.5 (MI300X)."""


def physics_doubts(chip: Accelerator) -> Iterator[str]:
    """Yield a line for every value that memory, links, boards or matrix units of its kind do not have.

    Parameters
    ----------
    chip : Accelerator
        The accelerator.

    Yields
    ------
    str
        What the value is, and what is usual.
    """
    yield from _packages(chip)
    yield from _per_unit(chip)
    yield from _links(chip)
    yield from _ratios(chip)
    yield from _rates(chip)


def _packages(chip: Accelerator) -> Iterator[str]:
    words = chip.memory_type.replace("/", " ").split()
    package = PACKAGES.get(words[0]) if words else None
    if package is None:
        return
    low, high = package.per_gib
    rate = float(chip.memory_bytes_per_s) / (float(chip.memory_bytes) / GIB)
    if not low / SPARE <= rate <= high * SPARE:
        usual = f"{words[0]} has {low / 1e9:.3g} to {high / 1e9:.3g}"
        yield f"memory_bytes_per_s over memory_bytes is {rate / 1e9:.3g} GB/s per GiB; {usual}"


def _per_unit(chip: Accelerator) -> Iterator[str]:
    words = chip.architecture.split()
    hbm = chip.memory_type.startswith("HBM")
    board = BOARDS.get((words[0], hbm)) if words else None
    if board is None or chip.compute_units is None:
        return
    units = float(chip.compute_units)
    if chip.tdp_watts is not None and chip.tdp_scope == "board":
        yield from _outside("tdp_watts", float(chip.tdp_watts) / units, board.watts, "W", words[0])
    if chip.l2_bytes is not None:
        yield from _outside("l2_bytes", float(chip.l2_bytes) / 2**20 / units, board.l2_mib, "MiB", words[0])
    clocks = [float(clock) for clock in (chip.boost_clock_hz, chip.max_clock_hz) if clock is not None]
    peak = chip.dense_flops_per_s.get("fp32")
    if clocks and peak is not None and not any(0.8 <= peak / (units * clock * board.fp32) <= 1.25 for clock in clocks):
        found = float(peak) / (units * clocks[0])
        yield f"dense_flops_per_s.fp32 is {found:.3g} FLOP a clock and unit; {words[0]} has {board.fp32:g}"


def _outside(field: str, value: float, usual: tuple[float, float], unit: str, architecture: str) -> Iterator[str]:
    low, high = usual
    if not low / ROOM <= value <= high * ROOM:
        yield f"{field} is {value:.3g} {unit} per compute unit; boards of {architecture} have {low:g} to {high:g}"


def _links(chip: Accelerator) -> Iterator[str]:
    link = chip.scale_up
    if link is None:
        return
    one_way = float(link.bytes_per_s)
    counted = COUNTED.search(link.name)
    if counted:
        all_links = _counted_bytes_per_s(counted)
        if not _alike(one_way, all_links):
            yield f"scale_up.bytes_per_s is {one_way / 1e9:g} GB/s, but {counted[0]} are {all_links / 1e9:g} one way"
        return
    for name, rates, counts in LINKS:
        if not re.search(name, link.name):
            continue
        if not any(_alike(one_way, rate * count) for rate in rates for count in counts):
            all_of = ", ".join(f"{count} x {rate / 1e9:g}" for rate in rates for count in counts)
            yield f"scale_up.bytes_per_s is {one_way / 1e9:g} GB/s one way; {link.name} has {all_of}"
        return


def _counted_bytes_per_s(counted: re.Match[str]) -> float:
    """Return the rate of all links that a name counts, bytes per second one way."""
    dies, each, gbits, links, gigabytes = counted.groups()
    if links:
        return int(links) * float(gigabytes) * 1e9
    return int(dies) * int(each or 1) * int(gbits) * 1e9 / 8


def _ratios(chip: Accelerator) -> Iterator[str]:
    peaks = chip.dense_flops_per_s
    allowed = dict(RATIOS.get(chip.vendor, {}))
    for math, narrow in chip.narrow_accumulate_flops_per_s.items():
        if math in peaks and not _alike(float(narrow / peaks[math]), 2.0):
            found = f"{float(narrow / peaks[math]):.3g} x the dense peak; boards with half the rate have 2 x"
            yield f"narrow_accumulate_flops_per_s.{math} is {found}"
    if chip.vendor == "NVIDIA" and {"int8", "bf16"} <= peaks.keys() and peaks["int8"] > FUSED_OFF * peaks["bf16"]:
        allowed["int8", "bf16"] = (4,) if "fp16" in chip.narrow_accumulate_flops_per_s else (2,)
    for (narrow_math, wide_math), ratios in allowed.items():
        if not {narrow_math, wide_math} <= peaks.keys():
            continue
        found_ratio = float(peaks[narrow_math] / peaks[wide_math])
        if not any(_alike(found_ratio, ratio) for ratio in ratios):
            usual = " or ".join(f"{ratio:g} x" for ratio in ratios)
            yield f"dense_flops_per_s.{narrow_math} is {found_ratio:.3g} x {wide_math}; {chip.vendor} has {usual}"
    if chip.vendor in ("NVIDIA", "AMD"):
        for math, sparse in chip.sparse_flops_per_s.items():
            if math != "fp4" and math in peaks and not 1.9 <= sparse / peaks[math] <= 2.1:
                yield f"sparse_flops_per_s.{math} is {float(sparse / peaks[math]):.3g} x the dense peak; 2 x is usual"


def _rates(chip: Accelerator) -> Iterator[str]:
    exponentials = chip.exponentials_per_clock_per_unit
    if chip.vendor == "NVIDIA" and exponentials is not None and exponentials not in EXPONENTIALS:
        usual = " or ".join(f"{rate}" for rate in EXPONENTIALS)
        yield f"exponentials_per_clock_per_unit is {float(exponentials):g}; a multiprocessor has {usual}"
    if chip.l2_bytes_per_s is not None:
        ratio = float(chip.l2_bytes_per_s / chip.memory_bytes_per_s)
        low, high = L2_OVER_MEMORY
        if not low <= ratio <= high:
            yield f"l2_bytes_per_s is {ratio:.3g} x the memory's; {low:g} to {high:g} is usual"
    if chip.max_clock_hz is not None and chip.boost_clock_hz is not None:
        ratio = float(chip.max_clock_hz / chip.boost_clock_hz)
        if ratio > MOST_CLOCK:
            yield f"max_clock_hz is {ratio:.3g} x boost_clock_hz; at most {MOST_CLOCK:g} x is usual"


MOST_CLOCK = 1.6
"""Highest clock over the rated one: 1.5 on the RTX PRO 4000, whose 140 W hold the rated clock down."""


def _alike(one: float, other: float) -> bool:
    return bool(abs(one / other - 1) <= TOLERANCE)
