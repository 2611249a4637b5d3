"""No measurement beats its floor, and the best ones come close to it."""

import csv
import gzip
import sys
from pathlib import Path

import numpy as np
import pytest

import roofline as rl
from roofline.efficiency import timings

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
import floors  # noqa: E402
import published  # noqa: E402

TABLES = ("attention_decode", "attention_prefill", "collectives", "gemm", "mla_decode", "mla_prefill", "moe")


@pytest.fixture(scope="module")
def shares():
    """Table, batch, floor / measured of every row."""
    return list(floors.compare())


@pytest.fixture(scope="module")
def found(shares):
    return floors.lines(shares)


@pytest.mark.parametrize("table", TABLES)
def test_no_kernel_beats_its_floor(shares, table):
    some = [(batch, share) for name, batch, share in shares if name == table and not floors.quarantined(name, batch)]
    assert sum(len(share) for _, share in some) > 1000
    beaten = [(batch.words, batch.rows[share > 1]) for batch, share in some if np.any(share > 1)]
    assert not beaten


def test_every_quarantine_holds_rows_that_cannot_be_so_and_all_together_are_few(shares):
    beaten = {entry.reason: 0 for entry in floors.QUARANTINE}
    for name, batch, share in shares:
        reason = floors.quarantined(name, batch)
        if reason:
            beaten[reason] += int(np.sum(share > 1))
    assert all(count > 0 for count in beaten.values())
    assert sum(beaten.values()) < 0.0005 * sum(len(share) for *_, share in shares)


POWER = "products this large keep the board at its power limit, below the highest clock that the floor counts with"
ROOM = {
    ("peaks", "b200-sxm"): POWER,  # 0.76 of 2,382 TFLOP/s (1,965 MHz); public products reach 0.88
    ("peaks", "b300-sxm"): POWER,  # 0.78 of 2,463 TFLOP/s (2,032 MHz); public products reach 0.90
    ("peaks", "gb200"): POWER,  # 0.79 of 2,567 TFLOP/s (2,062 MHz); public products reach 0.85
    ("peaks", "h100-sxm"): POWER,  # 0.85 of 1,070 TFLOP/s (1,980 MHz); public products reach 0.89
    ("peaks", "h200-sxm"): POWER,  # 0.86 of 1,070 TFLOP/s; public products reach 0.88
    ("peaks", "l40s"): POWER,  # 0.77 of 362 TFLOP/s at 350 W; public products reach 0.82
    ("8-bit and narrower peaks", "b200-sxm"): POWER,  # 0.71
    ("8-bit and narrower peaks", "b300-sxm"): POWER,  # 0.70
    ("8-bit and narrower peaks", "gb200"): POWER,  # 0.71
    ("8-bit and narrower peaks", "gb300"): POWER,  # 0.75
    ("8-bit and narrower peaks", "h100-sxm"): POWER,  # 0.74
    ("8-bit and narrower peaks", "h200-sxm"): POWER,  # 0.78
    ("8-bit and narrower peaks", "l40s"): POWER,  # 0.56
    ("8-bit and narrower peaks", "a100-sxm-80gb"): "no units for it",
    ("8-bit and narrower peaks", "arc-pro-b60"): "no units for it",
}
"""Rate and accelerator -> why no kernel comes so close to the floor that cutting the rate would show."""


@pytest.mark.parametrize("rate", floors.CUTS)
def test_a_rate_that_is_too_low_is_seen(rate):
    """15 % off a bandwidth, 10 % off a peak, 20 % off one of 8 bits: kernels beat it, or `ROOM` says why not."""
    found = floors.breaks_if_cut(rate)
    assert len(found) == 10
    assert {name for name, rows in found.items() if not rows} == {name for of, name in ROOM if of == rate}


HBM = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm", "b300-sxm", "gb200", "gb300")


@pytest.mark.parametrize("accelerator", HBM)
@pytest.mark.parametrize(
    ("table", "least"), [("gemm", 0.87), ("attention_decode", 0.80), ("collectives", 0.63), ("attention_prefill", 0.55)]
)
def test_a_floor_is_not_merely_loose(found, accelerator, table, least):
    assert max(line.best for line in found if (line.table, line.accelerator) == (table, accelerator)) > least


def test_two_gpus_need_as_long_with_a_switch_that_reduces_as_without():
    gpu = rl.get_accelerator("h100-sxm")
    expected = 2**20 / 450e9  # NVLink 4: 450 GB/s one way; both GPUs have to hear the other's whole message
    table = {
        "accelerator": ["h100-sxm"] * 2,
        "library": ["nccl"] * 2,
        "collective": ["all_reduce"] * 2,
        "num_gpus": ["2", "8"],
        "message_bytes": [str(2**20)] * 2,
        "latency_s": ["1"] * 2,
    }
    (batch,) = timings.batches({name: np.array(values) for name, values in table.items()})
    assert timings.floors(batch) == pytest.approx([expected, expected])
    assert gpu.scale_up.kind == "switch_reduce"


def test_resident_operands_do_not_move_but_the_products_remain():
    gpu = rl.get_accelerator("h100-sxm")
    work = rl.matmul(1, 1024, 1024)
    assert rl.bound(work, gpu, resident_bytes=50e6).memory_s == 0
    assert rl.bound(work, gpu, resident_bytes=50e6).floor_s == pytest.approx(
        2 * 1024 * 1024 / (132 * 4096 * 1.98e9), rel=1e-3
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "match no kind of timing"),
        ("m,n,k,dtype,accelerator,engine,latency_s\nx,2,2,fp8,l4,vllm,1\n", "m must be a number"),
        ("m,n,k\n", "contains no timings"),
    ],
)
def test_a_table_that_is_none_is_refused_in_one_line(tmp_path, text, said):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(rl.SpecError, match=said) as caught:
        timings.read_timings(path)
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def figures():
    return published.compare()


def test_no_published_figure_beats_its_floor(figures):
    trusted = [(run.row["id"], value) for run, value in figures if not published.quarantined(run.row)]
    assert len(trusted) > 1500
    assert [item for item in trusted if item[1] > 1] == []


def test_published_quarantine_is_small_and_every_entry_of_it_is_needed(figures):
    held = [(run, value) for run, value in figures if published.quarantined(run.row)]
    assert {published.quarantined(run.row) for run, value in held if value > 1} == {
        entry.reason for entry in published.QUARANTINE
    }
    assert sum(value > 1 for _, value in held) <= 10


@pytest.mark.parametrize(("table", "least"), [("xiongjie-llamacpp", 0.85), ("autoawq", 0.85), ("gpt-fast", 0.7)])
def test_single_streams_come_close_to_the_floor(figures, table, least):
    assert max(value for run, value in figures if run.table == table) > least


def products():
    with gzip.open(ROOT / "tests" / "data" / "measurements" / "public_gemm.csv.gz", "rt") as file:
        return list(csv.DictReader(file))


MATH = {"fp8_block": "fp8", "mxfp8": "fp8", "nvfp4": "fp4", "w8a16": "bf16", "w4a16": "bf16", "fp8_emulated": "bf16"}
"""Format of a table -> the units that it runs on."""


def test_no_public_product_beats_the_fastest_rate():
    """282 products on 58 boards: 42 beat the peak at the rated clock, none the rate that the floor counts with."""
    rated, beaten, three_digits = [], [], 1 + 5e-4
    for row in products():
        gpu, math = rl.get_accelerator(row["accelerator"]), MATH.get(row["format"], row["format"])
        if math in gpu.dense_flops_per_s:
            reached = float(row["tflops"]) * 1e12
            rated.append(reached > gpu.dense_flops_per_s[math])
            if reached > gpu.fastest_flops_per_s(math) * three_digits:
                beaten.append((row["accelerator"], row["format"], row["tflops"]))
    assert sum(rated) > 30
    assert beaten == []


@pytest.mark.parametrize(
    ("accelerator", "math", "measured"),
    [
        ("rtx-5090", "bf16", 254.0),
        ("rtx-5090", "fp8", 773.5),
        ("rtx-5090", "int8", 906.1),
        ("rtx-5090", "tf32", 125.8),
        ("rtx-4090", "bf16", 179.2),
        ("rtx-4090", "fp8", 354.2),
        ("rtx-3090", "bf16", 78.0),
        ("rtx-3080-ti", "bf16", 78.0),
        ("rtx-3070", "fp16", 43.0),
    ],
)
def test_boards_that_run_above_their_rated_clock(accelerator, math, measured):
    """cuBLASLt and PyTorch, TFLOP/s (gpu-flops-bench, torch-performance-test-data, ml-engineering)."""
    gpu = rl.get_accelerator(accelerator)
    assert measured * 1e12 <= gpu.fastest_flops_per_s(math)
    product = rl.matmul(8192, 8192, 8192, weights=math, activations=math)
    assert rl.bound(product, gpu).floor_s <= product.flops / (measured * 1e12)


def test_sums_in_16_bits_are_the_floor_of_fp16_on_geforce_alone():
    """The RTX 4090 has 330 TFLOP/s of FP16 with FP16 sums (Ada white paper), 3,165 MHz where 2,520 are rated."""
    assert rl.get_accelerator("rtx-4090").fastest_flops_per_s("fp16") == pytest.approx(330.3e12 * 3165 / 2520)
    assert rl.get_accelerator("rtx-4090").fastest_flops_per_s("bf16") == pytest.approx(165.2e12 * 3165 / 2520)
    assert rl.get_accelerator("rtx-6000-ada").narrow_accumulate_flops_per_s == {}


def test_a_faster_chip_that_a_user_makes_up_has_faster_sums_too():
    gpu = rl.get_accelerator("rtx-4090")
    twice = gpu.replace(dense_flops_per_s={math: 2 * peak for math, peak in gpu.dense_flops_per_s.items()})
    for math in gpu.dense_flops_per_s:
        assert twice.fastest_flops_per_s(math) == pytest.approx(2 * gpu.fastest_flops_per_s(math))
