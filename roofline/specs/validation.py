"""Spec files checked before anything uses them, and the JSON schema with which editors complete and check them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import SpecError
from ..files import read_yaml
from ..formats import MATH_FORMATS
from ..units import UNITS
from .price_schema import InstanceListSpec, PriceListSpec
from .schema import FIGURES, FIGURES_BY_FORMAT, AcceleratorSpec, ModelSpec, Spec, problems


def check_specs(path: str | Path) -> list[str]:
    """Every fault of a spec file, or of all spec files under a folder; each line starts with the file's path.

    What a file should be is told from its keys: an accelerator, a model or a price list.  No fault: an empty list.

    Examples
    --------
    >>> import roofline as rl
    >>> rl.check_specs("no/such/file.yaml")
    ["no/such/file.yaml can't be read: No such file or directory"]
    """
    path = Path(path)
    if not path.is_dir():
        return list(_faults(path))
    files = sorted(file for file in path.rglob("*") if file.suffix in {".yaml", ".yml"})
    if not files:
        return [f"{path} holds no .yaml file"]
    return [fault for file in files for fault in _faults(file)] + list(_twice(files))


def schema_text() -> str:
    """The JSON schema of an accelerator's file, as ``hardware_specs/schema.json`` keeps it."""
    schema = AcceleratorSpec.model_json_schema()
    figure = {"$ref": "#/$defs/Quantity"}
    for field, quantity in FIGURES.items():
        schema["properties"][field] = figure | _takes(quantity)
    for field, quantity in FIGURES_BY_FORMAT.items():
        by_format = {math: figure | _takes(quantity) for math in MATH_FORMATS}
        schema["properties"][field] = {"type": "object", "additionalProperties": False, "properties": by_format}
    schema["$defs"]["LinkSpec"]["properties"]["bytes_per_s"] |= _takes("bytes_per_s")
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _takes(quantity: str) -> dict[str, Any]:
    """The part of a schema that lists the units of a quantity."""
    return {"properties": {"unit": {"enum": list(UNITS[quantity])}}}


def _faults(path: Path) -> Iterator[str]:
    try:
        data = read_yaml(path)
    except SpecError as error:
        yield str(error)
        return
    spec = _kind(data)
    if spec is None:
        yield f"{path} is no spec: it has no key of an accelerator, a model or a price list"
        return
    yield from (f"{path}: {line}" for line in problems(data, spec, path.stem))


def _kind(data: dict[str, Any]) -> Spec | None:
    """The kind of spec with which ``data`` shares most keys, ``name`` and the like left out."""
    kinds: tuple[Spec, ...] = (AcceleratorSpec, ModelSpec, PriceListSpec, InstanceListSpec)
    common = {"name", "title", "sources"}
    shared = {spec: len(set(data) & set(spec.model_fields) - common) for spec in kinds}
    best = max(kinds, key=shared.__getitem__)
    return best if shared[best] else None


def _twice(files: list[Path]) -> Iterator[str]:
    """A line for every name that two files of a kind have."""
    seen: dict[str, Path] = {}
    for file in files:
        first = seen.setdefault(file.stem, file)
        if first is not file and first.parent.name == file.parent.name:
            yield f"{file} has the name of {first}; rename one"
