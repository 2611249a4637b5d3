"""The configurations and counts of ``tests/data/oracle`` (see its README), and the configurations beside the specs."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import roofline as rl
from roofline import Model
from roofline.huggingface import from_config
from roofline.specs.configuration import CONFIG_SUFFIX

FOLDER = Path(__file__).parent / "data" / "oracle"
MODEL_SPECS = Path(rl.__file__).parent.parent / "model_specs"


def _lines(name: str) -> list[dict[str, Any]]:
    with gzip.open(FOLDER / name, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


RECORDS: dict[str, dict[str, Any]] = {record["name"]: record for record in _lines("counts.jsonl.gz")}
BESIDE_SPECS: dict[str, dict[str, Any]] = {
    path.name.removesuffix(CONFIG_SUFFIX): json.loads(path.read_text(encoding="utf-8"))
    for path in sorted(MODEL_SPECS.glob(f"*{CONFIG_SUFFIX}"))
}
CONFIGS: dict[str, dict[str, Any]] = BESIDE_SPECS | {
    entry["name"]: entry["config"] for entry in _lines("configs.jsonl.gz")
}
FAMILIES: dict[str, dict[str, Any]] = {record["name"]: record for record in _lines("families.jsonl.gz")}


@cache
def model(name: str) -> Model:
    return from_config(CONFIGS[name], name=name)
