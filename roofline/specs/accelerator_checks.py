"""Consistency checks of an accelerator's values: arithmetic, not syntax.

Each check yields one line per problem. They look for common mistakes with data sheets: sparse instead of dense peaks,
both directions of a link instead of one, bits instead of bytes, GB instead of GiB, a wrong digit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

import numpy as np

from ..hardware import Accelerator
from .accelerator_physics import physics_doubts
from .names import spoken
from .schema import AcceleratorSpec, Quantity

TOLERANCE = 0.02
"""Tolerance: data sheets round to three digits, clocks and pin rates to two or three."""

ARCHITECTURES = {
    "NVIDIA": "Pascal Volta Turing Ampere Ada Hopper Blackwell Rubin LPU",
    "AMD": "CDNA CDNA2 CDNA3 CDNA4 CDNA5 RDNA2 RDNA3 RDNA3.5 RDNA4 Zen",
    "Intel": "Gaudi Xe Xe2 Xe3 Xe-HPC Sapphire Emerald Granite",
    "Google": "TPU",
    "AWS": "NeuronCore-v1 NeuronCore-v2 NeuronCore-v3 NeuronCore-v4",
    "Apple": "M1 M2 M3 M4 M5",
    "Huawei": "Da Ascend",
}
"""Vendor -> known beginnings of its architecture names; other vendors are not checked."""

NVLINK_BYTES_PER_S = {"1": 80e9, "2": 150e9, "3": 300e9, "4": 450e9, "5": 900e9, "6": 1800e9}
"""NVLink generation -> total rate of all links of one accelerator, per direction."""

NVLINK_DOMAIN = 576
"""Accelerators that the NVLink Switch System connects at most (NVIDIA GB200 NVL72 page)."""

PCIE_LANE_BYTES_PER_S = {"3": 1e9, "4": 2e9, "5": 4e9, "6": 8e9}
"""PCI Express generation -> rate of one lane per direction, before encoding."""

RANGES = {
    "memory_bytes": (1e8, 4e12, "B"),
    "l2_bytes": (5e5, 5e9, "B"),
    "tdp_watts": (10, 3000, "W"),
    "boost_clock_hz": (2e8, 5e9, "Hz"),
    "max_clock_hz": (2e8, 5e9, "Hz"),
    "nic_bytes_per_s": (1e9, 2.5e11, "B/s"),
    "host_bytes_per_s": (4e9, 1e12, "B/s"),
    "scale_up.bytes_per_s": (1e10, 4e12, "B/s"),
}
"""Field -> range of all accelerators since 2016; catches lost unit prefixes."""

PEAK_RANGE = (1e12, 1e17)
RIDGE_RANGE = (2, 4000)
YEARS = range(2015, 2036)
READ_S = (0.004, 15.0)
"""Time to read all memory once, except SRAM: 5 ms (16 GB of HBM) to seconds (unified memory)."""

SPARSE_OVER_DENSE = (1.2, 4.1)
"""Ratio of sparse to dense peaks: usually 2; 1.33 for FP4 of the B300, 3.8 for 16:4 sparsity of Trainium."""

NARROWER = (("fp32", "tf32"), ("tf32", "bf16"), ("tf32", "fp16"), ("bf16", "fp8"), ("fp16", "fp8"), ("fp8", "fp4"))
"""Pairs of formats in which the second is never slower than the first."""

STEEPEST = 8.5
"""Largest speedup over the next wider format: 3.1 for FP4 of the B300; BF16 over FP32 vectors, up to 16, is exempt."""


def accelerator_doubts(spec: AcceleratorSpec) -> Iterator[str]:
    """Yield a line for every value of a spec that contradicts another or is out of range."""
    chip = spec.build()
    figures = {path: item for path, _, item in spec.quantities()}
    yield from _names(spec)
    yield from _ranges(chip)
    yield from _parts(chip)
    yield from _formats(chip, figures)
    yield from _memory(spec, chip)
    yield from _links(chip, figures)
    yield from physics_doubts(chip)
    yield from _quotes(figures)
    yield from _unused_sources(spec, figures)
    if (spec.tdp_watts is None) != (spec.tdp_scope is None):
        yield "tdp_watts and tdp_scope (board, module or machine) go together"


def _names(spec: AcceleratorSpec) -> Iterator[str]:
    seen: set[str] = set()
    for alias in spec.aliases:
        key = spoken(alias)
        if key in seen:
            yield f"alias {alias!r} is listed twice"
        seen.add(key)
    known = ARCHITECTURES.get(spec.vendor, "").split()
    first = spec.architecture.split()[0] if spec.architecture.strip() else ""
    if known and first and first not in known:
        yield f"architecture {spec.architecture!r} is not one of {spec.vendor}'s: {', '.join(known)}"
    if spec.year is not None and spec.year not in YEARS:
        yield f"year {spec.year} is not between {YEARS[0]} and {YEARS[-1]}"


def _ranges(chip: Accelerator) -> Iterator[str]:
    for path, (low, high, unit) in RANGES.items():
        link = chip.scale_up.bytes_per_s if chip.scale_up else None
        value = link if path.startswith("scale_up.") else getattr(chip, path)
        if value is not None and not low <= value <= high:
            yield f"{path} is {value:g} {unit}, which no accelerator has ({low:g} to {high:g})"
    low, high = PEAK_RANGE
    for math, peak in chip.dense_flops_per_s.items():
        if not low <= peak <= high:
            yield f"dense_flops_per_s.{math} is {peak:g} FLOP/s, which no accelerator has ({low:g} to {high:g})"
    if chip.scale_up and chip.scale_up.kind == "bridge" and chip.scale_up.domain > 4:
        yield f"scale_up.domain is {chip.scale_up.domain}: a bridge joins 2 to 4 boards"


def _parts(chip: Accelerator) -> Iterator[str]:
    units, clock = chip.compute_units, chip.boost_clock_hz
    for math, rate in chip.flops_per_clock_per_unit.items():
        peak = chip.dense_flops_per_s.get(math)
        if units is not None and clock is not None and peak is not None and _apart(units * clock * rate, peak):
            product = f"{units:g} units x {clock / 1e6:g} MHz x {rate:g} = {units * clock * rate / 1e12:.4g} TFLOP/s"
            yield f"dense_flops_per_s.{math} is {peak / 1e12:.4g} TFLOP/s, but {product}"
        if np.log2(float(rate)) % 1:
            yield f"flops_per_clock_per_unit.{math} is {rate:g}: matrix units compute a power of two per clock"
    bus, pin, rate_of_all = chip.memory_bus_bits, chip.memory_pin_bytes_per_s, chip.memory_bytes_per_s
    if bus is not None and pin is not None and _apart(bus * pin, rate_of_all):
        product = f"{bus:g} bits x {pin * 8 / 1e9:g} Gbit/s = {bus * pin / 1e9:.4g} GB/s"
        yield f"memory_bytes_per_s is {rate_of_all / 1e9:.4g} GB/s, but {product}"
    if chip.max_clock_hz is not None and clock is not None and chip.max_clock_hz < clock:
        yield f"max_clock_hz is {chip.max_clock_hz / 1e6:g} MHz, below boost_clock_hz {clock / 1e6:g} MHz"


def _formats(chip: Accelerator, figures: dict[str, Quantity]) -> Iterator[str]:
    peaks = chip.dense_flops_per_s
    for wide, narrow in NARROWER:
        if wide in peaks and narrow in peaks and peaks[narrow] < peaks[wide] * (1 - TOLERANCE):
            yield f"dense_flops_per_s.{narrow} ({peaks[narrow]:g}) is below {wide} ({peaks[wide]:g})"
        if wide != "fp32" and wide in peaks and narrow in peaks and peaks[narrow] > peaks[wide] * STEEPEST:
            yield f"dense_flops_per_s.{narrow} ({peaks[narrow]:g}) is far above {wide} ({peaks[wide]:g})"
    low, high = SPARSE_OVER_DENSE
    for math, sparse in chip.sparse_flops_per_s.items():
        dense = peaks.get(math)
        if dense is not None and not low <= sparse / dense <= high:
            yield f"sparse_flops_per_s.{math} is {sparse / dense:.3g} x the dense peak; 2 x is usual"
    for path, item in figures.items():
        printed = item.printed.lower()
        sparse_only = "spars" in printed and "dense" not in printed
        if path.startswith("dense_flops_per_s.") and item.kind == "quoted" and sparse_only:
            yield f"{path} is quoted with sparsity ({item.printed!r}); write the dense value, with kind: derived"
    if chip.vendor == "NVIDIA" and {"fp16", "bf16"} <= set(peaks) and _apart(peaks["fp16"], peaks["bf16"]):
        yield f"dense_flops_per_s.bf16 ({peaks['bf16']:g}) is not fp16's ({peaks['fp16']:g}), as on every NVIDIA chip"


def _memory(spec: AcceleratorSpec, chip: Accelerator) -> Iterator[str]:
    item = spec.memory_bytes
    if item.unit == "GB" and not item.note and spec.vendor in ("NVIDIA", "AMD") and "SRAM" not in spec.memory_type:
        yield f"memory_bytes is {item.value:g} GB: {spec.vendor}'s GB are GiB; say in a note why these are not"
    sold = re.search(r"\b(\d+(?:\.\d+)?) ?GB\b", spec.title)
    share = float(chip.memory_bytes) / (float(sold[1]) * 2**30) if sold else 1.0
    # GB in a title are GiB, or 0.93 of one; ECC and firmware take a few percent, the host a part of unified memory.
    least = 0.6 if "unified" in spec.memory_type else 0.9
    if not least <= share <= 1.08:
        yield f"memory_bytes is {share:.2f} of the {sold and sold[1]} GB in the title"
    if "SRAM" in spec.memory_type or "wafer" in spec.memory_type:
        return
    read_s = float(chip.memory_bytes / chip.memory_bytes_per_s)
    if not READ_S[0] <= read_s <= READ_S[1]:
        usual = f"{READ_S[0]:g} to {READ_S[1]:g} s is usual"
        yield f"reading memory_bytes at memory_bytes_per_s takes {read_s:.3g} s; {usual}"
    math = next((math for math in ("bf16", "fp16", "fp8") if math in chip.dense_flops_per_s), None)
    if math is not None and not RIDGE_RANGE[0] <= chip.ridge_flops_per_byte(math) <= RIDGE_RANGE[1]:
        yield f"the ridge point of {math} is {chip.ridge_flops_per_byte(math):.3g} FLOP/byte, which no accelerator has"


def _links(chip: Accelerator, figures: dict[str, Quantity]) -> Iterator[str]:
    link = chip.scale_up
    generation = re.search(r"NVLink (\d)", link.name) if link else None
    if link and generation and generation[1] in NVLINK_BYTES_PER_S:
        most = NVLINK_BYTES_PER_S[generation[1]]
        if link.bytes_per_s > most * (1 + TOLERANCE):
            yield (
                f"scale_up.bytes_per_s is {link.bytes_per_s / 1e9:g} GB/s: NVLink {generation[1]} has {most / 1e9:g}"
                " one way; data sheets print both directions"
            )
    if link and generation and link.domain > NVLINK_DOMAIN:
        yield f"scale_up.domain is {link.domain}: NVLink connects {NVLINK_DOMAIN} at most"
    for path in ("host_bytes_per_s", "scale_up.bytes_per_s"):
        printed = figures[path].printed if path in figures else ""
        slot = re.search(r"PCIe (?:Gen)?(\d)(?:\.0)? x(\d+)", printed)
        value = float(link.bytes_per_s) if link and path.startswith("scale") else cast(float, chip.host_bytes_per_s)
        if slot and slot[1] in PCIE_LANE_BYTES_PER_S:
            one_way = PCIE_LANE_BYTES_PER_S[slot[1]] * int(slot[2])
            if _apart(value, one_way):
                yield f"{path} is {value / 1e9:g} GB/s: {slot[0]} has {one_way / 1e9:g} one way"


def _quotes(figures: dict[str, Quantity]) -> Iterator[str]:
    """Check that a quoted value appears in the quoted text, with any unit prefix."""
    for path, item in figures.items():
        numbers = [float(text.replace(",", "")) for text in re.findall(r"\d[\d,]*(?:\.\d+)?", item.printed)]
        if item.kind == "quoted" and numbers and not any(_alike(item.value, number) for number in numbers):
            yield f"{path} is {item.value:g} {item.unit}, but its source is quoted with {item.printed!r}"
        yield from _both_directions(path, item)
        if item.kind == "derived" and not item.printed:
            yield f"{path} is derived; printed must contain what it is derived from"


def _both_directions(path: str, item: Quantity) -> Iterator[str]:
    """Check that a rate is half of what its source prints for both directions."""
    said = re.fullmatch(r"(?:NVLink-C2C )?([\d.,]+) (GB|TB)(/s|ps)(?: a superchip)?, both directions", item.printed)
    if said is None or item.unit not in PREFIXES:
        return
    one_way = float(said[1].replace(",", "")) / 2 * PREFIXES[f"{said[2]}/s"]
    value = item.value * PREFIXES[item.unit]
    if _apart(value, one_way):
        yield f"{path} is {value / 1e9:g} GB/s, but {item.printed!r} is {one_way / 1e9:g} one way"


PREFIXES = {"GB/s": 1e9, "TB/s": 1e12}


def _alike(value: float, printed: float) -> bool:
    """Whether two numbers agree within rounding, up to powers of 1,000."""
    if not value or not printed:
        return False
    thousands = np.log10(value / printed) / 3
    return bool(abs(thousands - round(thousands)) * 3 * np.log(10) < TOLERANCE)


def _unused_sources(spec: AcceleratorSpec, figures: dict[str, Quantity]) -> Iterator[str]:
    used = {item.source for item in figures.values()}
    for name, source in spec.sources.items():
        if name not in used:
            yield f"source {name!r} is not used by any value"
        if source.url and not re.match(r"https?://\S+\.\S+", source.url):
            yield f"source {name!r} has an invalid url: {source.url!r}"


def _apart(one: object, other: object) -> bool:
    """Whether two values differ by more than rounding."""
    return not np.isclose(float(cast(float, one)), float(cast(float, other)), rtol=TOLERANCE, atol=0)
