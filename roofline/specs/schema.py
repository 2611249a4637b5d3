"""What spec files have to look like: pydantic models that are strict and turn into the package's own frozen values.

Imported only when a file is read; everything else in the package does without pydantic.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterator, Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
)

from ..errors import InvalidInput, SpecError, unknown
from ..formats import MATH_FORMATS
from ..hardware import Accelerator, Link, Provenance
from ..model import Layer, Model, Table
from ..model.blocks import KINDS, Block
from ..operators.precision import Precision
from ..units import to_base


class Strict(BaseModel):
    """No coercion, no unknown keys, no changes; the docstring of a field is its description in the JSON schema."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True)


def _real_date(text: str) -> str:
    """Refuse a text that is no date of the calendar, whatever part of it is given."""
    if not re.fullmatch(r"\d{4}(-\d{2}(-\d{2})?)?", text):
        raise InvalidInput(f"a date is YYYY-MM-DD, YYYY-MM or YYYY: {text!r}")
    year, month, day = (int(part) for part in (text + "-01-01").split("-")[:3])
    try:
        date(year, month, day)
    except ValueError:
        raise InvalidInput(f"no such date: {text!r}") from None
    if not EARLIEST_YEAR <= year <= LATEST_YEAR:
        raise InvalidInput(f"a date between {EARLIEST_YEAR} and {LATEST_YEAR} is expected: {text!r}")
    return text


EARLIEST_YEAR = 1990
LATEST_YEAR = 2100
Date = Annotated[str, AfterValidator(_real_date)]


class Source(Strict):
    """A document that figures are quoted from."""

    title: str
    """What the document is called."""
    url: str = ""
    """Where it is, if it has an address."""
    accessed: Date | Literal[""] = ""
    """When it was read: YYYY-MM-DD, YYYY-MM or YYYY."""


class Quantity(Strict):
    """A figure as printed: value, unit, and where."""

    value: float = Field(gt=0, allow_inf_nan=False)
    """The number, in ``unit``."""
    unit: str
    """The unit of the source; it has to measure what the field holds."""
    source: str
    """Which of the file's ``sources`` says so."""
    kind: Literal["quoted", "derived", "measured"] = "quoted"
    """Whether the source prints the figure, it follows from what is printed, or it was measured."""
    printed: str = ""
    """The words of the source where they differ from the value."""
    verified: bool = True
    """Whether somebody read the source for this very figure."""
    note: str = ""
    """What a reader has to know about the figure."""


class SpecFile(Strict):
    """A whole file: it has the name of the file, and becomes a value of the package."""

    name: str
    """The name of the file without its suffix."""
    title: str = ""
    """What people call it."""

    def build(self) -> Any:
        """The value that the file describes."""
        raise NotImplementedError


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
    """What the vendor calls the link."""
    kind: Literal["switch_reduce", "switch", "mesh", "ring", "torus", "bridge"]
    """How it joins them: a switch that also reduces, a switch, a mesh, a ring, a torus, or a bridge."""
    domain: int = Field(ge=2)
    """How many accelerators it joins."""
    bytes_per_s: Quantity
    """One direction, all links of one accelerator together."""


class AcceleratorSpec(SpecFile):
    """One file of ``hardware_specs/``."""

    title: str
    """What people call it."""
    vendor: str
    """Who makes it."""
    architecture: str = ""
    """The vendor's name of the architecture."""
    year: int | None = Field(default=None, ge=1990, le=2100)
    """Year of introduction."""
    aliases: tuple[str, ...] = Field(default=(), strict=False)
    """Other names; case, vendor and hyphens are ignored anyway."""
    confidence: Literal["vendor-doc-read", "second-source", "remembered", "user"] = "user"
    """How capacity, bandwidth and 16-bit peak were read."""
    sources: dict[str, Source] = Field(min_length=1)
    """Documents that figures are quoted from, by a short name."""
    memory_type: str = ""
    """HBM3, GDDR7 ..."""
    memory_bytes: Quantity
    """What the device reports as its memory."""
    memory_bytes_per_s: Quantity
    """Memory bandwidth."""
    dense_flops_per_s: dict[str, Quantity] = Field(min_length=1)
    """Dense peak by math format; a format without units on the chip is left out."""
    l2_bytes: Quantity | None = None
    """Last-level cache, or on-chip memory that software manages."""
    l2_bytes_per_s: Quantity | None = None
    """Bandwidth of that cache."""
    scale_up: LinkSpec | None = None
    """The link to accelerators of the same domain."""
    host_bytes_per_s: Quantity | None = None
    """To the host, one direction."""
    nic_bytes_per_s: Quantity | None = None
    """To the network, one direction."""
    tdp_watts: Quantity | None = None
    """Power of the board."""
    sparse_flops_per_s: dict[str, Quantity] = {}
    """Peak with structured sparsity by math format; nothing computes with it."""
    compute_units: Quantity | None = None
    """SMs, CUs, matrix units ... as the vendor counts them."""
    boost_clock_hz: Quantity | None = None
    """The clock that the peaks are quoted at."""
    max_clock_hz: Quantity | None = None
    """The highest clock that the device can run at."""
    flops_per_clock_per_unit: dict[str, Quantity] = {}
    """By math format; units x clock x this is the dense peak."""
    memory_bus_bits: Quantity | None = None
    """Width of the memory bus."""
    memory_pin_bytes_per_s: Quantity | None = None
    """Rate of one pin; bus width x this is the bandwidth."""
    notes: tuple[str, ...] = Field(default=(), strict=False)
    """Doubts, documents that disagree, what was assumed."""

    @field_validator(*FIGURES, *FIGURES_BY_FORMAT, "scale_up")
    @classmethod
    def _units_and_sources(cls, value: Any, info: ValidationInfo) -> Any:
        """Every figure's unit fits its field, and its source is one that the file lists."""
        sources = info.data.get("sources")
        wrong = [
            line
            for path, quantity_name, quantity in _figures(str(info.field_name), value)
            for line in wrong_with(path, quantity_name, quantity, sources)
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


def wrong_with(path: str, quantity_name: str, quantity: Quantity, sources: Any) -> Iterator[str]:
    """Yield a line for each thing that is wrong with a figure."""
    field, _, name = path.partition(".")
    if field in FIGURES_BY_FORMAT and name not in MATH_FORMATS:
        yield f"{field}: {unknown('math format', name, MATH_FORMATS)}"
    try:
        to_base(quantity.value, quantity.unit, quantity_name, field=path)
    except InvalidInput as error:
        yield str(error)
    if sources and quantity.source not in sources:
        yield f"{path}: source {quantity.source!r} is not among {', '.join(sources)}"


class LayerSpec(Strict):
    """A group of equal layers: ``count``, then one key a block in the order of the blocks (``model.blocks``)."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    count: int = Field(ge=1)
    """How many equal layers the group has."""
    norms: int = Field(default=2, ge=0)
    """Normalizations of a layer over the hidden width."""
    reused: bool = False
    """Whether the weights are those of an earlier group."""


class TableSpec(Strict):
    """A table of which a token looks up one row."""

    rows: int = Field(ge=1)
    """Rows of the table."""
    width: int = Field(ge=1)
    """Values of a row."""


class PrecisionSpec(Strict):
    """The formats that a checkpoint comes in."""

    weights: str = "bf16"
    """Format of the linear layers."""
    activations: str = "bf16"
    """Format of their inputs."""
    kv: str = "bf16"
    """Format of the cache."""
    exceptions: dict[str, str] = {}
    """Part of the model -> the format of its weights, where it differs."""


class ModelSpec(SpecFile):
    """One file of ``model_specs/``."""

    aliases: tuple[str, ...] = Field(default=(), strict=False)
    """Other names; hub ids of the sources are known anyway."""
    sources: dict[str, Source] = Field(min_length=1)
    """Documents that the shapes are read from, by a short name."""
    hidden: int = Field(ge=1)
    """Width of the residual stream."""
    vocab: int = Field(ge=1)
    """Rows of the embedding."""
    layers: tuple[LayerSpec, ...] = Field(min_length=1, strict=False)
    """Groups of equal layers."""
    tied_embeddings: bool = False
    """Whether lm_head is the embedding."""
    lm_head_bias: bool = False
    """Whether lm_head has a bias."""
    norm: Literal["rms", "layer", "none"] = "rms"
    """Kind of normalization: RMS (one vector), layer norm (two), or none with parameters."""
    position_rows: int = Field(default=0, ge=0)
    """Rows of a table of learned positions."""
    embedding_norm: bool = False
    """Whether the embedding is normalized."""
    final_norm: bool = True
    """Whether the last hidden state is normalized."""
    embedding_rows: int | None = Field(default=None, ge=1)
    """Rows of the embedding where they differ from ``vocab``."""
    embedding_width: int | None = Field(default=None, ge=1)
    """Width of the embedding where it differs from ``hidden``."""
    tables: dict[str, TableSpec] = {}
    """Further tables that a token looks up."""
    around: tuple[dict[str, dict[str, Any]], ...] = Field(default=(), strict=False)
    """Blocks before or after all layers."""
    apart: dict[str, Annotated[int, Field(ge=1)]] = {}
    """Parameters of towers beside the language model, by name."""
    precision: PrecisionSpec | None = None
    """Formats of the checkpoint; bf16 where absent."""
    max_context_tokens: int | None = Field(default=None, ge=1)
    """Longest context that the model is made for."""

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
        near = difflib.get_close_matches(str(item["loc"][-1]), _keys(), n=1)
        return f"{place} is not a known key{value}" + (f"; did you mean {near[0]!r}?" if near else "")
    message = str(item["msg"]).replace("Input should", "must")
    message = message.replace("valid dictionary or instance of Quantity", "figure: {value, unit, source}")
    if item["type"] == "float_type" and isinstance(given, str):
        message += " (YAML reads 1e12 as text; write 1.0e+12)"
    return f"{place} {message[0].lower()}{message[1:]}{value}"


@cache
def _keys() -> list[str]:
    """Every key that a spec file may have."""
    found: set[str] = set()
    waiting: list[type[BaseModel]] = [Strict]
    while waiting:
        kind = waiting.pop()
        found |= set(kind.model_fields)
        waiting += kind.__subclasses__()
    return sorted(found)


Spec = type[SpecFile]


def problems(data: dict[str, Any], spec: Spec, stem: str) -> list[str]:
    """Every fault of a spec file's plain ``data``, one line each; ``stem`` is the file's name without its suffix."""
    return _checked(data, spec, stem)[1]


def build(data: dict[str, Any], spec: Spec, path: Path) -> Any:
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


def _checked(data: dict[str, Any], spec: Spec, stem: str) -> tuple[Any, list[str]]:
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
