"""What spec files have to look like: pydantic models that are strict and turn into the package's own frozen values.

Imported only when a file is read; everything else in the package does without pydantic.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from ..errors import InvalidInput, SpecError, unknown
from ..formats import MATH_FORMATS
from ..hardware import Accelerator, Link, Provenance
from ..units import to_base


class Strict(BaseModel):
    """No coercion, no unknown keys, no changes; the docstring of a field is its description in the JSON schema.

    Validators are built when the first file of the kind is read (``defer_build``).
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


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
        raise InvalidInput(f"the year must be {EARLIEST_YEAR} to {LATEST_YEAR}: {text!r}")
    return text


EARLIEST_YEAR = 1990
LATEST_YEAR = 2035
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
    "exponentials_per_clock_per_unit": "flops",
    "memory_bus_bits": "bits",
    "memory_pin_bytes_per_s": "bytes_per_s",
}
"""Field of an accelerator -> the kind of quantity that it holds (see `roofline.units.UNITS`)."""

FIGURES_BY_FORMAT = {
    "dense_flops_per_s": "flops_per_s",
    "narrow_accumulate_flops_per_s": "flops_per_s",
    "sparse_flops_per_s": "flops_per_s",
    "flops_per_clock_per_unit": "flops",
}
"""Field with one number per math format -> the kind of quantity that it holds."""


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
    """Thermal design power, of what ``tdp_scope`` says."""
    tdp_scope: Literal["board", "module", "machine"] | None = None
    """What the power is of: the board of the accelerator, a module or package with its CPU, or the whole machine."""
    narrow_accumulate_flops_per_s: dict[str, Quantity] = {}
    """Dense peak by math format of products that are added up in 16 bits, where that is faster (GeForce)."""
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
    exponentials_per_clock_per_unit: Quantity | None = None
    """Exponentials of one unit a clock: special-function units compute them beside the matrix units."""
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
        by_format = {}
        for field in FIGURES_BY_FORMAT:
            by_format[field] = {name: values[f"{field}.{name}"] for name in getattr(self, field)}
        link = self.scale_up
        return Accelerator(
            name=self.name,
            title=self.title,
            vendor=self.vendor,
            architecture=self.architecture,
            year=self.year,
            aliases=self.aliases,
            memory_type=self.memory_type,
            tdp_scope=self.tdp_scope or "",
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


MOST_FAULTS = 50


def faults(error: ValidationError, where: str = "") -> list[str]:
    """The faults that pydantic found, one line each, as far as people read on: what, the value, what would do."""
    found = error.errors(include_url=False, include_context=False)
    lines = [_fault(item, where) for item in found[:MOST_FAULTS]]
    if len(found) > MOST_FAULTS:
        return [*lines, f"and {len(found) - MOST_FAULTS:,} more"]
    return lines


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


class Described(Protocol):
    """What `problems` and `value_of` need of a kind of spec."""

    @classmethod
    def model_validate(cls, obj: Any) -> Any:
        """The spec that plain data describe."""


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


Spec = type[Described]


def problems(data: dict[str, Any], spec: Spec, stem: str) -> list[str]:
    """Every fault of a spec file's plain ``data``, one line each; ``stem`` is the file's name without its suffix."""
    return _checked(data, spec, stem)[1]


def value_of(data: dict[str, Any], spec: Spec, path: Path) -> Any:
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
            return None, [f"name {checked.name!r} must match the file name: {stem!r}"]
        return checked.build(), []
    except ValidationError as error:
        return None, faults(error)
    except (InvalidInput, LookupError) as error:
        return None, [str(error)]
