"""The configurations and counts of ``tests/data/oracle`` (see its README)."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from roofline import Model
from roofline.huggingface import from_config

FOLDER = Path(__file__).parent / "data" / "oracle"


def _lines(name: str) -> list[dict[str, Any]]:
    with gzip.open(FOLDER / name, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


RECORDS: dict[str, dict[str, Any]] = {record["name"]: record for record in _lines("counts.jsonl.gz")}
CONFIGS: dict[str, dict[str, Any]] = {
    entry["name"]: entry["config"] for file in ("configs", "more_configs") for entry in _lines(f"{file}.jsonl.gz")
}
FAMILIES: dict[str, dict[str, Any]] = {record["name"]: record for record in _lines("families.jsonl.gz")}
SPECS: dict[str, str] = json.loads((FOLDER / "models.json").read_text())


@cache
def model(name: str) -> Model:
    return from_config(CONFIGS[name], name=name)
