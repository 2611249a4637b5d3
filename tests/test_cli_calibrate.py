"""Timings in, a parameter file out, and estimates that use it."""

import csv
import gzip
from pathlib import Path

import pytest
import yaml
from command_line import run as command

GEMM = Path(__file__).parent / "data" / "measurements" / "gemm.csv.gz"


def run(*args):
    return command("calibrate", *args)


@pytest.fixture
def timings(tmp_path):
    with gzip.open(GEMM, "rt") as file:
        rows = [row for row in csv.DictReader(file) if (row["accelerator"], row["dtype"]) == ("l40s", "bfloat16")]
    path = tmp_path / "gemm.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows[:150])
    return path


def test_timings_become_a_file_of_parameters(timings, tmp_path):
    done = run(timings, "-o", tmp_path / "found", "--source", "our own server")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "gemm.bf16: 150 rows, median error" in done.stdout
    written = yaml.safe_load((tmp_path / "found" / "l40s.yaml").read_text())
    assert (written["name"], written["source"], written["kind"]) == ("l40s", "our own server", "measured")
    (kinds,) = written["profiles"].values() if len(written["profiles"]) == 1 else [written["profiles"]["default"]]
    assert 0 < kinds["gemm.bf16"]["residual"] < 0.3


def test_a_file_that_is_there_is_not_lost(timings, tmp_path):
    (tmp_path / "l40s.yaml").write_text("mine")
    done = run(timings, "-o", tmp_path)
    assert done.exit_code == 2
    assert "l40s.yaml already exists" in done.stderr
    assert (tmp_path / "l40s.yaml").read_text() == "mine"


@pytest.mark.parametrize(
    "content", ["", "a,b\n1,2\n", "accelerator,engine,dtype,m,n,k,latency_s\nl40s,x,bfloat16,1,1,1,1\n"]
)
def test_what_is_no_table_of_timings_is_refused(tmp_path, content):
    path = tmp_path / "x.csv"
    path.write_text(content)
    done = run(path)
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1
