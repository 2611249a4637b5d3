"""Wrong figures of data sheets that only the physics of memory, links, boards and matrix units gives away."""

from pathlib import Path

import pytest

import roofline as rl
from roofline.files import read_yaml
from roofline.specs.accelerator_checks import accelerator_doubts
from roofline.specs.schema import AcceleratorSpec

ROOT = Path(rl.__file__).parent.parent
HARDWARE = ROOT / "hardware_specs"

EDITS = {
    "bandwidth twice": ("h200-sxm", "value: 4.8, unit: TB/s", "value: 9.6, unit: TB/s", "GB/s per GiB; HBM3e has"),
    "bandwidth halved": (
        "mi325x",
        "memory_bytes_per_s: {value: 6000,",
        "memory_bytes_per_s: {value: 3000,",
        "GB/s per GiB; HBM3e has",
    ),
    "bandwidth in Tbit/s": (
        "gb300",
        "memory_bytes_per_s: {value: 8000,",
        "memory_bytes_per_s: {value: 64000,",
        "GB/s per GiB; HBM3e has",
    ),
    "bandwidth of a stack": (
        "h100-nvl",
        "memory_bytes_per_s: {value: 3900,",
        "memory_bytes_per_s: {value: 780,",
        "GB/s per GiB; HBM3 has",
    ),
    "bandwidth of the node": (
        "gaudi3",
        "memory_bytes_per_s: {value: 3700,",
        "memory_bytes_per_s: {value: 29600,",
        "GB/s per GiB; HBM2e has",
    ),
    "memory of two boards": ("mi355x", "value: 288, unit: GiB", "value: 576, unit: GiB", "of the 288 GB in the title"),
    "TDP of a node": ("b200-sxm", "{value: 1000, unit: W", "{value: 8000, unit: W", "W, which no accelerator has"),
    "TDP twice": (
        "b200-sxm",
        "{value: 1000, unit: W",
        "{value: 2000, unit: W",
        "W per compute unit; boards of Blackwell",
    ),
    "TDP halved": (
        "b200-sxm",
        "{value: 1000, unit: W",
        "{value: 500, unit: W",
        "W per compute unit; boards of Blackwell",
    ),
    "TDP without a zero": (
        "h100-sxm",
        "{value: 700, unit: W",
        "{value: 70, unit: W",
        "W per compute unit; boards of Hopper",
    ),
    "TDP of another board": ("l4", "{value: 72, unit: W", "{value: 720, unit: W", "W per compute unit; boards of Ada"),
    "both directions of a mesh": (
        "mi300x",
        "{value: 448, unit: GB/s",
        "{value: 896, unit: GB/s",
        "Infinity Fabric 4, full mesh has 7 x 64",
    ),
    "one link of a mesh": ("mi300x", "{value: 448, unit: GB/s", "{value: 64, unit: GB/s", "Infinity Fabric 4"),
    "half of NVLink": (
        "h100-sxm",
        "{value: 450, unit: GB/s",
        "{value: 225, unit: GB/s",
        "has 8 x 25, 12 x 25, 18 x 25",
    ),
    "bits of NVLink": (
        "b200-sxm",
        "{value: 900, unit: GB/s",
        "{value: 900, unit: Gbit/s",
        "scale_up.bytes_per_s is 112.5",
    ),
    "all ports of Gaudi": (
        "gaudi3",
        "{value: 525, unit: GB/s",
        "{value: 600, unit: GB/s",
        "21 x 200GbE are 525 one way",
    ),
    "both directions of a torus": ("tpu-v4", "{value: 270, unit: GB/s", "{value: 540, unit: GB/s", "are 270 one way"),
    "both directions of C2C": ("gh200-96gb", "{value: 450, unit: GB/s", "{value: 900, unit: GB/s", "is 450 one way"),
    "another generation's link": ("b200-sxm", "NVLink 5,", "NVLink 6,", "NVLink 6, NVSwitch has 36 x 50"),
    "GB for MB of L2": (
        "a100-sxm-80gb",
        "l2_bytes: {value: 40,",
        "l2_bytes: {value: 80,",
        "MiB per compute unit; boards of Ampere",
    ),
    "L2 of a half": (
        "h100-sxm",
        "l2_bytes: {value: 50,",
        "l2_bytes: {value: 25,",
        "MiB per compute unit; boards of Hopper",
    ),
    "L2 of another chip": (
        "l4",
        "l2_bytes: {value: 48,",
        "l2_bytes: {value: 4,",
        "MiB per compute unit; boards of Ada",
    ),
    "FP4 with sparsity": ("b200-sxm", "fp4: {value: 9000,", "fp4: {value: 18000,", "fp4 is 4 x fp8"),
    "TF32 with sparsity": ("h100-sxm", "tf32: {value: 494.7,", "tf32: {value: 989,", "TFLOP/s, but"),
    "FP6 like FP4": ("b200-sxm", "fp6: {value: 4500,", "fp6: {value: 9000,", "fp6 is 2 x fp8"),
    "INT8 with sparsity": ("b200-sxm", "int8: {value: 4500,", "int8: {value: 9000,", "int8 is 4 x bf16"),
    "INT4 with sparsity": ("t4", "int4: {value: 260,", "int4: {value: 520,", "int4 is 4 x int8"),
    "FP32 of two chips": ("mi250x-gcd", "fp32: {value: 23.95,", "fp32: {value: 47.9,", "TFLOP/s, but"),
    "FP32 of matrix units": (
        "b200-sxm",
        "fp32: {value: 75,",
        "fp32: {value: 1125,",
        "FLOP a clock and unit; Blackwell has 256",
    ),
    "half the rate of sums": (
        "rtx-4090",
        "fp16: {value: 330.3,",
        "fp16: {value: 660.6,",
        "boards with half the rate have 2 x",
    ),
    "sparse peak twice": ("h100-sxm", "fp8: {value: 3958,", "fp8: {value: 7916,", "4 x the dense peak; 2 x is usual"),
    "exponentials of a quarter": (
        "h100-sxm",
        "exponentials_per_clock_per_unit: {value: 16,",
        "exponentials_per_clock_per_unit: {value: 4,",
        "a multiprocessor has 16 or 32",
    ),
    "L2 as fast as memory": (
        "mi300x",
        "l2_bytes_per_s: {value: 34.4, unit: TB/s",
        "l2_bytes_per_s: {value: 3.44, unit: TB/s",
        "x the memory's",
    ),
    "a clock of two": (
        "h100-sxm",
        "max_clock_hz: {value: 1980,",
        "max_clock_hz: {value: 3960,",
        "at most 1.6 x is usual",
    ),
    "swapped figures": ("h100-nvl", "value: 132, unit: SM", "value: 94, unit: SM", "but 94 units"),
    "the year of a copy": ("l4", "year: 2023", "year: 2203", "year must be less than or equal to 2100: 2203"),
}


def faults_of(name, old, new, tmp_path):
    text = (HARDWARE / f"{name}.yaml").read_text(encoding="utf-8")
    assert old in text, old
    path = tmp_path / f"{name}.yaml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return rl.check_specs(path)


@pytest.mark.parametrize("what", EDITS)
def test_a_wrong_figure_is_caught(tmp_path, what):
    name, old, new, said = EDITS[what]
    faults = faults_of(name, old, new, tmp_path)
    assert any(said in fault for fault in faults), faults
    assert not any("\n" in fault for fault in faults)


def values_of(data, path=()):
    """Every number of a spec with its path."""
    for key, item in data.items():
        if isinstance(item, dict):
            if isinstance(item.get("value"), int | float):
                yield (*path, key), item
            else:
                yield from values_of(item, (*path, key))


def plain(data):
    if hasattr(data, "items"):
        return {key: plain(item) for key, item in data.items()}
    return [plain(item) for item in data] if isinstance(data, list | tuple) else data


FACTORS = (2.0, 0.5, 10.0, 0.125)
CHIPS = (
    "h100-sxm",
    "h200-sxm",
    "b200-sxm",
    "a100-sxm-80gb",
    "l40s",
    "l4",
    "rtx-4090",
    "mi300x",
    "mi355x",
    "v100-sxm2-32gb",
)
NOT_OF_THE_CHIP = ("nic_bytes_per_s",)
"""A network of any speed may be beside an accelerator."""


def test_most_single_slips_are_found():
    """Each figure of ten accelerators twice, half, ten times and an eighth: nine of ten are found."""
    found = []
    for name in CHIPS:
        data = plain(read_yaml(HARDWARE / f"{name}.yaml"))
        for path, item in values_of(data):
            if path[0] in NOT_OF_THE_CHIP:
                continue
            right = item["value"]
            for factor in FACTORS:
                item["value"] = right * factor
                found.append(bool(list(accelerator_doubts(AcceleratorSpec.model_validate(data)))))
            item["value"] = right
    assert len(found) > 800
    assert sum(found) / len(found) > 0.9


def test_no_figure_of_the_library_is_doubted():
    for path in sorted(HARDWARE.glob("*.yaml")):
        assert not list(accelerator_doubts(AcceleratorSpec.model_validate(plain(read_yaml(path))))), path.name
