"""Bytes of quantized checkpoints against published sizes, and against each scheme's own layout."""

import csv
from pathlib import Path

import pytest

import roofline as rl

FOLDER = Path(__file__).parent / "data" / "oracle"
with (FOLDER / "checkpoints.csv").open(newline="") as file:
    ROWS = list(csv.DictReader(file))


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_weights_have_the_size_of_the_checkpoint(row):
    model = rl.get_model(FOLDER / "checkpoints" / row["config"])
    language_bytes = float(row["bytes"]) - float(row["bytes_beside_language"] or 0)
    precision = model.precision or rl.Precision()
    assert model.weight_bytes(precision) == pytest.approx(language_bytes, rel=float(row["tolerance_percent"]) / 100)


MLX_EXACT = ("llama-3.1-nemotron-70b--mlx-4bit", "llama-3.1-nemotron-70b--mlx-8bit", "nemotron-nano-4b--mlx-4bit")


@pytest.mark.parametrize("name", MLX_EXACT)
def test_mlx_folders_are_exact_to_the_byte(name):
    row = next(row for row in ROWS if row["name"] == name)
    model = rl.get_model(FOLDER / "checkpoints" / row["config"])
    assert model.weight_bytes(model.precision) == int(row["bytes"])
