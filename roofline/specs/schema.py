"""What spec files have to look like: pydantic models that are strict and turn into the package's own frozen values.

Imported only when a file is read; everything else in the package does without pydantic.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, create_model, field_validator

from ..errors import InvalidInput, SpecError, unknown
from ..formats import MATH_FORMATS
from ..hardware import Accelerator, Link, Provenance
from ..model import Layer, Model, Table
from ..model.blocks import KINDS, Block
from ..operators.precision import Precision
from ..units import to_base


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
    "max_clock_hz": "hz",
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
    max_clock_hz: Quantity | None = None
    flops_per_clock_per_unit: dict[str, Quantity] = {}
    memory_bus_bits: Quantity | None = None
    memory_pin_bytes_per_s: Quantity | None = None
    notes: tuple[str, ...] = Field(default=(), strict=False)

    @field_validator(*FIGURES, *FIGURES_BY_FORMAT, "scale_up")
    @classmethod
    def _units_and_sources(cls, value: Any, info: ValidationInfo) -> Any:
        """Every figure's unit fits its field, and its source is one that the file lists."""
        sources = info.data.get("sources")
        wrong = [
            line
            for path, quantity_name, quantity in _figures(str(info.field_name), value)
            for line in _wrong_with(path, quantity_name, quantity, sources)
        ]
        if wrong:
            raise InvalidInput("; ".join(wrong))
        return value

    def build(self) -> Accelerator:
        """The accelerator in base units with the provenance of every figure."""
        figures = self.quantities()
        values = {path: to_base(item.value, item.unit, quantity, field=path) for path, quantity, item in figures}
        by_format = {
            field: {name: values[f"{field}.{name}"] for name in getattr(self, field)} for field in FIGURES_BY_FORMAT
        }
        link = self.scale_up
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
            provenance={path: self._provenance(item) for path, _, item in figures},
            **{field: values.get(field) for field in FIGURES},  # type: ignore[arg-type]
            **by_format,  # type: ignore[arg-type]
        )

    def quantities(self) -> list[tuple[str, str, Quantity]]:
        """Every figure of the file: its path, the kind of quantity its field holds, and the figure."""
        fields = (*FIGURES, *FIGURES_BY_FORMAT, "scale_up")
        return [row for field in fields for row in _figures(field, getattr(self, field))]

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


def _figures(field: str, value: Any) -> list[tuple[str, str, Quantity]]:
    """The figures that a field of an accelerator holds: path, kind of quantity, figure."""
    if value is None:
        return []
    if field in FIGURES_BY_FORMAT:
        return [(f"{field}.{name}", FIGURES_BY_FORMAT[field], item) for name, item in value.items()]
    if field == "scale_up":
        return [("scale_up.bytes_per_s", "bytes_per_s", value.bytes_per_s)]
    return [(field, FIGURES[field], value)]


def _wrong_with(path: str, quantity_name: str, quantity: Quantity, sources: Any) -> Iterator[str]:
    """A line for each thing that is wrong with a figure."""
    field, _, name = path.partition(".")
    if field in FIGURES_BY_FORMAT and name not in MATH_FORMATS:
        yield f"{field}: {unknown('math format', name, MATH_FORMATS)}"
    try:
        to_base(quantity.value, quantity.unit, quantity_name, field=path)
    except InvalidInput as error:
        yield str(error)
    if sources and quantity.source not in sources:
        yield f"{path}: source {quantity.source!r} is not among {', '.join(sources)}"


class PriceSpec(Strict):
    """What somebody asks for an hour of ``accelerators`` of one kind together."""

    accelerator: str
    provider: str
    usd_per_hour: Quantity
    accelerators: int = Field(default=1, ge=1)
    date: str = Field(pattern=r"^\d{4}-\d{2}(-\d{2})?$")


class PriceListSpec(Strict):
    """One file of ``hardware_specs/prices/``."""

    name: str
    title: str = ""
    sources: dict[str, Source] = Field(min_length=1)
    prices: tuple[PriceSpec, ...] = Field(min_length=1, strict=False)

    @field_validator("prices")
    @classmethod
    def _units_and_sources(cls, prices: tuple[PriceSpec, ...], info: ValidationInfo) -> tuple[PriceSpec, ...]:
        rows = ((f"prices.{at}.usd_per_hour", price.usd_per_hour) for at, price in enumerate(prices))
        sources = info.data.get("sources")
        wrong = [line for path, item in rows for line in _wrong_with(path, "usd_per_hour", item, sources)]
        if wrong:
            raise InvalidInput("; ".join(wrong))
        return prices

    def build(self) -> PriceListSpec:
        """The list itself: it needs no conversion."""
        return self


class LayerSpec(Strict):
    """A group of equal layers: ``count``, then one key a block in the order of the blocks (``model.blocks``)."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    count: int = Field(ge=1)
    norms: int = Field(default=2, ge=0)
    reused: bool = False


class TableSpec(Strict):
    """A table of which a token looks up one row."""

    rows: int = Field(ge=1)
    width: int = Field(ge=1)


class PrecisionSpec(Strict):
    """The formats that a checkpoint comes in."""

    weights: str = "bf16"
    activations: str = "bf16"
    kv: str = "bf16"
    exceptions: dict[str, str] = {}


class ModelSpec(Strict):
    """One file of ``model_specs/``."""

    name: str
    title: str = ""
    aliases: tuple[str, ...] = Field(default=(), strict=False)
    sources: dict[str, Source] = Field(min_length=1)
    hidden: int = Field(ge=1)
    vocab: int = Field(ge=1)
    layers: tuple[LayerSpec, ...] = Field(min_length=1, strict=False)
    tied_embeddings: bool = False
    lm_head_bias: bool = False
    norm: Literal["rms", "layer", "none"] = "rms"
    position_rows: int = Field(default=0, ge=0)
    embedding_norm: bool = False
    final_norm: bool = True
    embedding_rows: int | None = Field(default=None, ge=1)
    embedding_width: int | None = Field(default=None, ge=1)
    tables: dict[str, TableSpec] = {}
    around: tuple[dict[str, dict[str, Any]], ...] = Field(default=(), strict=False)
    apart: dict[str, Annotated[int, Field(ge=1)]] = {}
    precision: PrecisionSpec | None = None
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
            final_norm=norm if self.final_norm else 0,
            position_rows=self.position_rows,
            embedding_norm=norm if self.embedding_norm else 0,
            embedding_rows=self.embedding_rows,
            embedding_width=self.embedding_width,
            tables=tuple(Table(name, table.rows, table.width) for name, table in self.tables.items()),
            around=self._around(),
            apart=self.apart,
            precision=Precision(**self.precision.model_dump()) if self.precision else None,
            max_context_tokens=self.max_context_tokens,
            source=f"{first.title} {first.url}".strip(),
        )

    def _layer(self, where: str, spec: LayerSpec, norm: int) -> Layer:
        blocks = (self._block(f"{where}.{kind}", kind, fields) for kind, fields in (spec.model_extra or {}).items())
        return Layer(spec.count, tuple(blocks), (norm,) * spec.norms, spec.reused)

    def _around(self) -> tuple[Block, ...]:
        return tuple(
            self._block(f"around.{at}.{kind}", kind, fields)
            for at, entry in enumerate(self.around)
            for kind, fields in entry.items()
        )

    def _block(self, where: str, kind: str, fields: Any) -> Block:
        if kind not in KINDS:
            raise InvalidInput(f"{where}: no kind of block named {kind!r}; known: {', '.join(KINDS)}")
        if not isinstance(fields, dict):
            raise InvalidInput(f"{where} must be a mapping of sizes, not {fields!r}")
        with _located(where):
            checked = block_spec(kind).model_validate({"hidden": self.hidden, **fields})
            return KINDS[kind](**_values(checked, KINDS[kind]))


def block_spec(kind: str) -> type[BaseModel]:
    """The pydantic model of a kind of block."""
    return _spec_of(KINDS[kind])


@cache
def _spec_of(value: type) -> type[BaseModel]:
    """The pydantic model of a dataclass, made from its fields, so that both say the same; parts of it are mappings."""
    hints = get_type_hints(value)
    fields: dict[str, Any] = {}
    for item in dataclasses.fields(value):
        part = _part_of(hints[item.name])
        hint = hints[item.name] if part is None else _spec_of(part) | None
        fields[item.name] = (hint, ... if item.default is dataclasses.MISSING else item.default)
    return create_model(value.__name__, __base__=Strict, **fields)


def _part_of(hint: Any) -> type | None:
    """The dataclass of a field that holds one or None (the indexer of an attention block)."""
    for option in get_args(hint):
        if isinstance(option, type) and dataclasses.is_dataclass(option):
            return option
    return None


def _values(checked: BaseModel, value: type) -> dict[str, Any]:
    """The fields of a dataclass from its checked spec."""
    hints = get_type_hints(value)
    fields = dict(checked)
    for name, field in fields.items():
        part = _part_of(hints[name])
        if part is not None and field is not None:
            fields[name] = part(**_values(field, part))
    return fields


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
    return [_fault(item, where) for item in error.errors(include_url=False, include_context=False)]


def _fault(item: Mapping[str, Any], where: str) -> str:
    if item["type"] == "value_error":  # one of ours, which names its place
        return str(item["msg"]).removeprefix("Value error, ")
    given = item.get("input")
    value = "" if isinstance(given, dict | list) else f": {given!r:.80}"
    place = ".".join(str(part) for part in ([where] if where else []) + list(item["loc"]))
    if item["type"] == "missing":
        return f"{place} is missing"
    if item["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(item["loc"][-1]), _KEYS, n=1)
        return f"{place} is not a known key{value}" + (f"; did you mean {near[0]!r}?" if near else "")
    message = str(item["msg"]).replace("Input should", "must")
    message = message.replace("valid dictionary or instance of Quantity", "figure: {value, unit, source}")
    if item["type"] == "float_type" and isinstance(given, str):
        message += " (YAML reads 1e12 as text; write 1.0e+12)"
    return f"{place} {message[0].lower()}{message[1:]}{value}"


_KEYS = sorted(
    {key for spec in (AcceleratorSpec, Quantity, LinkSpec, Source, ModelSpec, PriceSpec) for key in spec.model_fields}
)


Spec = type[AcceleratorSpec] | type[ModelSpec] | type[PriceListSpec]


def problems(data: dict[str, Any], spec: Spec, stem: str) -> list[str]:
    """Every fault of a spec file's plain ``data``, one line each; ``stem`` is the file's name without its suffix."""
    return _checked(data, spec, stem)[1]


def build(data: dict[str, Any], spec: Spec, path: Path) -> Accelerator | Model | PriceListSpec:
    """Check plain ``data`` of the file at ``path`` against ``spec`` and turn it into a value.

    Raises
    ------
    SpecError
        Every fault of the file in one line.
    """
    value, wrong = _checked(data, spec, path.stem)
    if value is None:
        raise SpecError(f"{path}: {'; '.join(wrong)}")
    return value


def _checked(
    data: dict[str, Any], spec: Spec, stem: str
) -> tuple[Accelerator | Model | PriceListSpec | None, list[str]]:
    """What the data describe, or None and every fault."""
    try:
        checked = spec.model_validate(data)
        if checked.name != stem:
            return None, [f"name {checked.name!r} must be the file's: {stem!r}"]
        return checked.build(), []
    except ValidationError as error:
        return None, faults(error)
    except (InvalidInput, LookupError) as error:
        return None, [str(error)]
