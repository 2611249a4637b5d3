"""What spec files have to look like: pydantic models that are strict and turn into the package's own frozen values.

Imported only when a file is read; everything else in the package does without pydantic.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from .errors import InvalidInput, SpecError
from .hardware import Accelerator, Link, Provenance
from .layers import KINDS
from .model import Layer, Model
from .units import to_base


class Strict(BaseModel):
    """No coercion, no unknown keys, no changes."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Source(Strict):
    """A document that figures are quoted from."""

    title: str
    url: str = ""
    accessed: str = ""


class Quantity(Strict):
    """A figure as printed: value, unit, and where."""

    value: float = Field(gt=0, allow_inf_nan=False)
    unit: str
    source: str
    kind: Literal["quoted", "derived", "measured"] = "quoted"
    printed: str = ""
    verified: bool = True
    note: str = ""


FIGURES = {
    "memory_bytes": "bytes",
    "memory_bytes_per_s": "bytes_per_s",
    "l2_bytes": "bytes",
    "l2_bytes_per_s": "bytes_per_s",
    "host_bytes_per_s": "bytes_per_s",
    "nic_bytes_per_s": "bytes_per_s",
    "tdp_watts": "watts",
    "compute_units": "count",
    "boost_clock_hz": "hz",
    "memory_bus_bits": "bits",
    "memory_pin_bytes_per_s": "bytes_per_s",
}
"""Field of an accelerator -> the kind of quantity that it holds (see `roofline.units.UNITS`)."""

FIGURES_BY_FORMAT = {
    "dense_flops_per_s": "flops_per_s",
    "sparse_flops_per_s": "flops_per_s",
    "flops_per_clock_per_unit": "flops",
}
"""Field with one figure a math format -> the kind of quantity that it holds."""


class LinkSpec(Strict):
    """A connection between accelerators; the rate is one direction, all links of one accelerator together."""

    name: str
    kind: Literal["switch_reduce", "switch", "mesh", "ring", "torus", "bridge"]
    domain: int = Field(ge=2)
    bytes_per_s: Quantity


class AcceleratorSpec(Strict):
    """One file of ``hardware_specs/``."""

    name: str
    title: str
    vendor: str
    architecture: str = ""
    year: int | None = Field(default=None, ge=1990, le=2100)
    aliases: tuple[str, ...] = Field(default=(), strict=False)
    confidence: Literal["vendor-doc-read", "second-source", "remembered", "user"] = "user"
    sources: dict[str, Source] = Field(min_length=1)
    memory_type: str = ""
    memory_bytes: Quantity
    memory_bytes_per_s: Quantity
    dense_flops_per_s: dict[str, Quantity] = Field(min_length=1)
    l2_bytes: Quantity | None = None
    l2_bytes_per_s: Quantity | None = None
    scale_up: LinkSpec | None = None
    host_bytes_per_s: Quantity | None = None
    nic_bytes_per_s: Quantity | None = None
    tdp_watts: Quantity | None = None
    sparse_flops_per_s: dict[str, Quantity] = {}
    compute_units: Quantity | None = None
    boost_clock_hz: Quantity | None = None
    flops_per_clock_per_unit: dict[str, Quantity] = {}
    memory_bus_bits: Quantity | None = None
    memory_pin_bytes_per_s: Quantity | None = None
    notes: tuple[str, ...] = Field(default=(), strict=False)

    def build(self) -> Accelerator:
        """The accelerator in base units with the provenance of every figure.

        Raises
        ------
        InvalidInput
            A unit that does not fit its field, or a source that the file does not list.
        """
        values, wrong = self._in_base_units()
        if wrong:
            raise InvalidInput("; ".join(wrong))
        link = self.scale_up
        by_format = {
            field: {name: values[f"{field}.{name}"] for name in getattr(self, field)} for field in FIGURES_BY_FORMAT
        }
        return Accelerator(
            name=self.name,
            title=self.title,
            vendor=self.vendor,
            architecture=self.architecture,
            year=self.year,
            aliases=self.aliases,
            memory_type=self.memory_type,
            confidence=self.confidence,
            scale_up=Link(link.name, link.kind, values["scale_up.bytes_per_s"], link.domain) if link else None,
            notes=self.notes,
            provenance={path: self._provenance(quantity) for path, _, quantity in self.quantities()},
            **{field: values.get(field) for field in FIGURES},  # type: ignore[arg-type]
            **by_format,  # type: ignore[arg-type]
        )

    def quantities(self) -> list[tuple[str, str, Quantity]]:
        """Every figure of the file: its path, the kind of quantity its field holds, and the figure."""
        found = [(field, quantity, getattr(self, field)) for field, quantity in FIGURES.items()]
        for field, quantity in FIGURES_BY_FORMAT.items():
            found += [(f"{field}.{name}", quantity, item) for name, item in getattr(self, field).items()]
        if self.scale_up:
            found.append(("scale_up.bytes_per_s", "bytes_per_s", self.scale_up.bytes_per_s))
        return [row for row in found if row[2] is not None]

    def _in_base_units(self) -> tuple[dict[str, float], list[str]]:
        """Every figure in base units by path, and a line for each that is wrong."""
        values: dict[str, float] = {}
        wrong = []
        for path, quantity_name, quantity in self.quantities():
            try:
                values[path] = to_base(quantity.value, quantity.unit, quantity_name, field=path)
            except InvalidInput as error:
                wrong.append(str(error))
            if quantity.source not in self.sources:
                wrong.append(f"{path}: source {quantity.source!r} is not among {', '.join(self.sources)}")
        return values, wrong

    def _provenance(self, quantity: Quantity) -> Provenance:
        source = self.sources[quantity.source]
        return Provenance(
            printed=quantity.printed or f"{quantity.value:g} {quantity.unit}",
            source=source.title,
            url=source.url,
            kind=quantity.kind,
            verified=quantity.verified,
            note=quantity.note,
        )


class LayerSpec(Strict):
    """A group of equal layers: ``count``, then one key a block in the order of the blocks (see ``roofline.layers``)."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    count: int = Field(ge=1)
    norms: int = Field(default=2, ge=0)


class ModelSpec(Strict):
    """One file of ``model_specs/``."""

    name: str
    title: str = ""
    sources: dict[str, Source] = Field(min_length=1)
    hidden: int = Field(ge=1)
    vocab: int = Field(ge=1)
    layers: tuple[LayerSpec, ...] = Field(min_length=1, strict=False)
    tied_embeddings: bool = False
    lm_head_bias: bool = False
    norm: Literal["rms", "layer", "none"] = "rms"
    position_rows: int = Field(default=0, ge=0)
    embedding_norm: bool = False
    max_context_tokens: int | None = Field(default=None, ge=1)

    def build(self) -> Model:
        """The model.

        Raises
        ------
        InvalidInput
            A block that is no known kind, or whose sizes contradict each other.
        """
        norm = {"rms": 1, "layer": 2, "none": 0}[self.norm] * self.hidden
        first = next(iter(self.sources.values()))
        return Model(
            name=self.name,
            title=self.title,
            hidden=self.hidden,
            vocab=self.vocab,
            layers=tuple(self._layer(f"layers.{at}", spec, norm) for at, spec in enumerate(self.layers)),
            tied_embeddings=self.tied_embeddings,
            lm_head_bias=self.lm_head_bias,
            final_norm=norm,
            position_rows=self.position_rows,
            embedding_norm=norm if self.embedding_norm else 0,
            max_context_tokens=self.max_context_tokens,
            source=f"{first.title} {first.url}".strip(),
        )

    def _layer(self, where: str, spec: LayerSpec, norm: int) -> Layer:
        blocks = []
        for kind, fields in (spec.model_extra or {}).items():
            if kind not in KINDS:
                raise InvalidInput(f"{where}: no kind of block named {kind!r}; known: {', '.join(KINDS)}")
            if not isinstance(fields, dict):
                raise InvalidInput(f"{where}.{kind} must be a mapping of sizes, not {fields!r}")
            with _located(f"{where}.{kind}"):
                checked = block_spec(kind).model_validate({"hidden": self.hidden, **fields})
                blocks.append(KINDS[kind](**dict(checked)))
        return Layer(spec.count, tuple(blocks), (norm,) * spec.norms)


def block_spec(kind: str) -> type[BaseModel]:
    """The pydantic model of a kind of block, made from the fields of its class, so that both say the same."""
    block = KINDS[kind]
    hints = get_type_hints(block)
    fields: dict[str, Any] = {
        item.name: (hints[item.name], ... if item.default is dataclasses.MISSING else item.default)
        for item in dataclasses.fields(block)
    }
    return create_model(block.__name__, __base__=Strict, **fields)


class _located:
    """Put the place into an error on its way out."""

    def __init__(self, where: str) -> None:
        self.where = where

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ValidationError):
            raise InvalidInput("; ".join(faults(error, self.where))) from None
        if isinstance(error, InvalidInput):
            raise InvalidInput(f"{self.where}: {error}") from None


def faults(error: ValidationError, where: str = "") -> list[str]:
    """Every fault that pydantic found, one line each: what, the value, what would do."""
    lines = []
    for item in error.errors(include_url=False, include_context=False):
        place = ".".join(str(part) for part in ([where] if where else []) + list(item["loc"]))
        given = item.get("input")
        value = "" if item["type"] == "missing" or isinstance(given, dict | list) else f": {given!r:.80}"
        message = {"missing": "is missing", "extra_forbidden": "is not a known key"}.get(
            item["type"], item["msg"][0].lower() + item["msg"][1:]
        )
        lines.append(f"{place} {message}{value}")
    return lines


def build(data: dict[str, Any], spec: type[AcceleratorSpec] | type[ModelSpec], path: Path) -> Accelerator | Model:
    """Check plain ``data`` of the file at ``path`` against ``spec`` and turn it into a value.

    Raises
    ------
    SpecError
        Every fault of the file in one line.
    """
    try:
        checked = spec.model_validate(data)
        if checked.name != path.stem:
            raise InvalidInput(f"name {checked.name!r} must be the file's: {path.stem!r}")
        return checked.build()
    except ValidationError as error:
        raise SpecError(f"{path}: {'; '.join(faults(error))}") from None
    except (InvalidInput, LookupError) as error:
        raise SpecError(f"{path}: {error}") from None
