"""No measurement beats its floor, and the best ones come close to it."""

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


HBM = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm", "b300-sxm", "gb200", "gb300")


@pytest.mark.parametrize("accelerator", HBM)
@pytest.mark.parametrize(
    ("table", "least"), [("gemm", 0.87), ("attention_decode", 0.80), ("collectives", 0.63), ("attention_prefill", 0.59)]
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
        ("a,b\n1,2\n", "no known kind"),
        ("m,n,k,dtype,accelerator,latency_s\nx,2,2,fp8,l4,1\n", "m: could not convert"),
        ("m,n,k\n", "holds no timings"),
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
