"""Spec files checked before anything uses them, and the JSON schemas with which editors complete and check them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import SpecError
from ..files import as_path, read_yaml
from ..formats import MATH_FORMATS
from ..model.blocks import KINDS
from ..units import UNITS
from .accelerator_checks import accelerator_doubts
from .efficiency_schema import (
    EfficiencySpec,
    EnginesSpec,
    FamiliesSpec,
    PowerSpec,
    PublicProductsSpec,
    efficiency_doubts,
    family_doubts,
)
from .engine_schema import EngineSpec
from .field_descriptions import describe_fields
from .folders import spec_folders
from .instances import Instance, list_instances
from .library import list_accelerators
from .model_checks import model_doubts
from .model_schema import ModelSpec, block_spec
from .names import spoken
from .price_checks import instance_doubts, price_doubts
from .price_schema import InstanceListSpec, PriceListSpec
from .schema import FIGURES, FIGURES_BY_FORMAT, AcceleratorSpec, Strict, problems

SCHEMAS: dict[str, type[Strict]] = {
    "hardware_specs/schema.json": AcceleratorSpec,
    "hardware_specs/prices/schema.json": PriceListSpec,
    "hardware_specs/instances/schema.json": InstanceListSpec,
    "model_specs/schema.json": ModelSpec,
    "efficiency_specs/schema.json": EfficiencySpec,
    "engine_specs/schema.json": EngineSpec,
}
"""File of a JSON schema -> the kind of spec that it describes."""

_PRICES = {"usd_per_hour": "usd_per_hour", "usd": "usd"}


def check_specs(path: str | Path) -> list[str]:
    """Validate a spec file, or all spec files under a directory.

    The keys of a file tell what it describes: an accelerator, a model, a list of prices or instances, an engine, or
    efficiencies. Keys, types, units and sources are checked first, and then whether the figures can be true: units x
    clock x rate against peaks, bus against bandwidth, sparse against dense, one direction against both, GiB against GB,
    prices against usual ones, and a model against its counts and the ``config.json`` beside it.

    Parameters
    ----------
    path : str or Path
        A file, or a directory to search.

    Returns
    -------
    list of str
        The faults, each starting with the path of its file; empty if there are none.

    Examples
    --------
    >>> import roofline as rl
    >>> rl.check_specs("no/such/file.yaml")
    ["no/such/file.yaml can't be read: No such file or directory"]
    """
    path = as_path(path)
    library = _Library()
    if not path.is_dir():
        return list(_faults(path, library))
    try:
        next(path.iterdir(), None)
    except OSError as error:
        return [f"{path} can't be read: {error.strerror or error}"]
    files = sorted(file for file in path.rglob("*") if file.suffix in {".yaml", ".yml"})
    if not files:
        return [f"{path} has no .yaml files"]
    return [fault for file in files for fault in _faults(file, library)] + list(_twice(files))


def schema_text(file: str = "hardware_specs/schema.json") -> str:
    """The JSON schema of a kind of spec, as the file of that name keeps it (see `SCHEMAS`)."""
    schema = SCHEMAS[file].model_json_schema()
    describe_fields(schema, SCHEMAS[file])
    if file == "hardware_specs/schema.json":
        _describe_accelerator(schema)
    if file == "hardware_specs/prices/schema.json":
        for holder, field in (("PriceSpec", "usd_per_hour"), ("PurchaseSpec", "usd")):
            schema["$defs"][holder]["properties"][field] |= _takes(_PRICES[field])
    if file == "model_specs/schema.json":
        _describe_blocks(schema)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"urn:roofline:{file}"}
    return json.dumps(head | schema, indent=1, ensure_ascii=False) + "\n"


def _describe_accelerator(schema: dict[str, Any]) -> None:
    """The units that each figure takes, and the formats of peaks."""
    figure = {"$ref": "#/$defs/Quantity"}
    for field, quantity in FIGURES.items():
        said = {"description": schema["properties"][field].get("description", "")}
        schema["properties"][field] = figure | _takes(quantity) | said
    for field, quantity in FIGURES_BY_FORMAT.items():
        said = {"description": schema["properties"][field].get("description", "")}
        by_format = {math: figure | _takes(quantity) for math in MATH_FORMATS}
        schema["properties"][field] = {"type": "object", "additionalProperties": False, "properties": by_format} | said
    schema["$defs"]["LinkSpec"]["properties"]["bytes_per_s"] |= _takes("bytes_per_s")


def _describe_blocks(schema: dict[str, Any]) -> None:
    """The kinds of blocks that a layer may have, with their fields."""
    layer = schema["$defs"]["LayerSpec"]
    for word in KINDS:
        block = block_spec(word).model_json_schema(ref_template="#/$defs/{model}")
        schema["$defs"].update(block.pop("$defs", {}))
        block["required"] = [field for field in block.get("required", []) if field != "hidden"]
        block["description"] = (KINDS[word].__doc__ or "").strip().split("\n")[0]
        layer["properties"][word] = block
    layer["additionalProperties"] = False


def _takes(quantity: str) -> dict[str, Any]:
    """The part of a schema that lists the units of a quantity."""
    return {"properties": {"unit": {"enum": list(UNITS[quantity])}}}


class _Library:
    """What the checks compare with, read once where a check needs it."""

    @cached_property
    def accelerators(self) -> set[str]:
        return set(list_accelerators())

    @cached_property
    def instances(self) -> dict[str, Instance]:
        return {instance.name: instance for instance in list_instances()}

    @cached_property
    def calibrated(self) -> set[str]:
        return {path.stem for folder in spec_folders("efficiency_specs") for path in folder.glob("*.y*ml")}


_Kind = type[
    AcceleratorSpec
    | ModelSpec
    | PriceListSpec
    | InstanceListSpec
    | EfficiencySpec
    | FamiliesSpec
    | EnginesSpec
    | PublicProductsSpec
    | PowerSpec
    | EngineSpec
]
_KINDS: tuple[_Kind, ...] = (
    AcceleratorSpec,
    ModelSpec,
    PriceListSpec,
    InstanceListSpec,
    EfficiencySpec,
    FamiliesSpec,
    EnginesSpec,
    PublicProductsSpec,
    PowerSpec,
    EngineSpec,
)


def _faults(path: Path, library: _Library) -> Iterator[str]:
    try:
        data = read_yaml(path)
    except SpecError as error:
        yield str(error)
        return
    spec = _kind(data)
    if spec is None:
        kinds = "an accelerator, a model, a price list, an engine or an efficiency file"
        yield f"{path} is not a spec file: it has no key of {kinds}"
        return
    wrong = problems(data, spec, path.stem)
    if not wrong:
        wrong = list(_doubts(spec.model_validate(data), path, library))
    yield from (f"{path}: {line}" for line in wrong)


def _doubts(spec: Strict, path: Path, library: _Library) -> Iterator[str]:
    """What can't be true of a file whose form is right."""
    if isinstance(spec, AcceleratorSpec):
        yield from accelerator_doubts(spec)
        named = {spoken(name): name for name in library.accelerators if name != spec.name}
        for alias in spec.aliases:
            if spoken(alias) in named:
                yield f"alias {alias!r} is the name of {named[spoken(alias)]}"
    elif isinstance(spec, ModelSpec):
        yield from model_doubts(spec, path)
    elif isinstance(spec, PriceListSpec):
        yield from price_doubts(spec, library.accelerators, library.instances)
    elif isinstance(spec, InstanceListSpec):
        yield from instance_doubts(spec, library.accelerators)
    elif isinstance(spec, EfficiencySpec):
        yield from efficiency_doubts(spec, library.accelerators)
    elif isinstance(spec, FamiliesSpec):
        yield from family_doubts(spec, library.calibrated)


def _kind(data: dict[str, Any]) -> _Kind | None:
    """The kind of spec with which ``data`` shares most keys, ``name`` and the like left out."""
    common = {"name", "title", "sources", "source", "kind", "notes"}
    shared = {spec: len(set(data) & set(spec.model_fields) - common) for spec in _KINDS}
    best = max(_KINDS, key=shared.__getitem__)
    return best if shared[best] else None


def _twice(files: list[Path]) -> Iterator[str]:
    """A line for every name that two files of a kind have."""
    seen: dict[str, Path] = {}
    for file in files:
        first = seen.setdefault(f"{file.parent.name}/{file.stem}", file)
        if first is not file:
            yield f"{file} has the name of {first}; rename one"


def write_schemas() -> None:
    """Write the JSON schemas into the folders of specs that the package uses."""
    for file in SCHEMAS:
        kind, _, rest = file.partition("/")
        folder = next(iter(spec_folders(kind)))
        (folder / rest).write_text(schema_text(file), encoding="utf-8")


if __name__ == "__main__":
    write_schemas()
