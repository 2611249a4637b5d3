"""Commands about what has a name: ``list models`` and ``list hardware``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from ...analysis.ridges import ridge_table
from ...errors import number
from ...report import plain
from ...specs.library import get_model, list_models
from ...units import to_base
from .. import options as opt
from ..answers import layer_kinds
from ..output import print_json, print_text
from ..quantities import quantity
from ..text import block, bullets, size, table

FAMILIES = (("bf16", "fp16"), ("fp8", "int8"), ("fp4", "int4"))
"""Math formats of 16, 8 and 4 bits, the preferred one first."""


def models(*, as_json: opt.Json = False) -> None:
    """Every model."""
    rows = [_model_row(name) for name in list_models()]
    if as_json:
        return print_json(rows)
    head = ("model", "total", "active", "KV per token", "max tokens", "layers")
    cells = [
        (
            row["name"],
            size(row["total"]),
            size(row["active"]),
            _kilobytes(row["kv_bytes_per_token"]),
            _thousands(row["max_context_tokens"]),
            "; ".join(row["layers"]),
        )
        for row in rows
    ]
    return print_text(table(cells, head=head, right=range(1, 5)))


def _kilobytes(size_bytes: float) -> str:
    return f"{_short(size_bytes / 1e3)} kB"


def _thousands(tokens: float | None) -> str:
    return "" if tokens is None else f"{tokens / 1e3:,.0f}k"


def _model_row(name: str) -> dict[str, Any]:
    model = get_model(name)
    return {
        "name": model.name,
        "title": model.title,
        **model.parameters.to_dict(),
        "kv_bytes_per_token": plain(model.kv_bytes_per_token),
        "max_context_tokens": model.max_context_tokens,
        "layers": layer_kinds(model),
    }


Vendor = Annotated[str | None, opt.option("--vendor", "NAME", "Accelerators of this vendor.", group=opt.OTHER)]
MinimumMemory = Annotated[
    Any,
    opt.option(
        "--minimum-memory-gb",
        "N",
        "Accelerators with at least this much memory, GB (1e9 bytes).",
        parse=quantity,
        group=opt.OTHER,
    ),
]
HasFormat = Annotated[
    str | None,
    opt.option("--has-format", "FORMAT", "Accelerators with units for it, as in fp8 or int4.", group=opt.OTHER),
]
SortBy = Annotated[
    str,
    opt.option(
        "--sort",
        "COLUMN",
        "Order by name, vendor, year, memory_bytes, memory_bytes_per_s, or a ridge point such as"
        " fp8_ridge_flops_per_byte.",
        group=opt.OTHER,
    ),
]
Descending = Annotated[bool, opt.switch("--descending", "The largest first.")]


def hardware(
    *,
    vendor: Vendor = None,
    minimum_memory_gb: MinimumMemory = 0,
    has_format: HasFormat = None,
    sort: SortBy = "name",
    descending: Descending = False,
    as_json: opt.Json = False,
) -> None:
    """Every accelerator, or those that pass the filters."""
    least = to_base(float(number("--minimum-memory-gb", minimum_memory_gb)), "GB", "bytes", field="--minimum-memory-gb")
    found = ridge_table(
        vendor=vendor, minimum_memory_bytes=least, has_format=has_format, sort_by=sort, descending=descending
    )
    rows = [
        row | {"title": gpu.title, "dense_flops_per_s": plain(gpu.dense_flops_per_s)}
        for row, gpu in zip(found.rows(), found.accelerators, strict=True)
    ]
    if as_json:
        return print_json(rows)
    notes = (
        "memory and its bandwidth; dense peaks in TFLOP/s, ridge points in FLOP/byte in parentheses",
        "16 bits: bf16, else fp16; 8 bits: fp8, else int8; 4 bits: fp4, else int4",
    )
    head = ("hardware", "GB", "TB/s", "16 bits", "8 bits", "4 bits")
    cells = [_hardware_cells(row) for row in rows]
    return print_text(table(cells, right=5, head=head), block("Notes", bullets(notes)))


def _hardware_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    memory, bandwidth = row["memory_bytes"] / 1e9, row["memory_bytes_per_s"] / 1e12
    return (row["name"], _short(memory), _short(bandwidth), *(_peak(row, family) for family in FAMILIES))


def _short(figure: float) -> str:
    """Three digits, or all before the point of a larger number."""
    return f"{figure:.0f}" if figure >= 100 else f"{figure:.3g}"


def _peak(row: Mapping[str, Any], family: tuple[str, ...]) -> str:
    """Peak of the first format of ``family`` that the chip has, with its ridge point."""
    math = next((name for name in family if name in row["dense_flops_per_s"]), None)
    if math is None:
        return ""
    return f"{_short(row['dense_flops_per_s'][math] / 1e12)} ({row[f'{math}_ridge_flops_per_byte']:.0f})"
