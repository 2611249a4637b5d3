"""Classes of transformers, each with one field at a time changed: parameters, towers included, to the last one."""

import copy
import gzip
import json
from pathlib import Path

import pytest

from roofline.huggingface import from_config

PATH = Path(__file__).parent / "data" / "oracle" / "classes.jsonl.gz"
with gzip.open(PATH, "rt", encoding="utf-8") as file:
    CLASSES = {record["name"]: record for record in map(json.loads, file)}


def changed(config, changes):
    """A copy of a configuration with other values at paths of keys joined by points; None removes a field."""
    copied = copy.deepcopy(config)
    for path, value in changes.items():
        *outer, last = path.split(".")
        inner = copied
        for key in outer:
            inner = inner.setdefault(key, {})
        if value is None:
            inner.pop(last, None)
        else:
            inner[last] = value
    return copied


def counted(config):
    model = from_config(config)
    return model.parameters.total + sum(n for part, n in model.apart.items() if part != "multi_token_prediction")


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_a_class_and_its_variations_are_counted_exactly(name):
    record = CLASSES[name]
    cases = [({}, record["total"]), *((case["changes"], case["total"]) for case in record["variations"])]
    wrong = {
        str(changes): (counted(changed(record["config"], changes)), total)
        for changes, total in cases
        if counted(changed(record["config"], changes)) != total
    }
    assert wrong == {}


def test_the_classes_are_many():
    assert len(CLASSES) >= 260
    assert sum(1 + len(record["variations"]) for record in CLASSES.values()) >= 2600
