"""The commands ``list models``, ``list hardware``, ``list formats`` and so on."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter

from ...analysis.ridges import ridge_table
from ...errors import either, number, unknown
from ...formats import FORMATS, SCHEMES, list_formats
from ...report import plain
from ...specs.engines import facts, list_engines
from ...specs.library import accelerators_like, get_model, list_accelerators, list_models, models_like
from .. import options as opt
from ..answers import layer_words
from ..output import print_json, print_text
from ..quantities import quantity
from ..text import block, bullets, size, table

FAMILIES = (("bf16", "fp16"), ("fp8", "int8"), ("fp4", "int4"))
"""Math formats of 16, 8 and 4 bits, the preferred one first."""


Name = Annotated[
    str,
    Parameter(
        name="--name",
        help="Show only names, aliases and titles that contain this text.",
        show_default=False,
        negative=(),
    ),
]


def models(name: Name = "", *, full: opt.Full = False, as_json: opt.Json = False) -> None:
    """List models by name."""
    rows = [_model_row(each) for each in models_like(name)]
    if as_json:
        return print_json(rows)
    head = ("model", "total", "active", "KV per token", "max tokens", *(["layers"] if full else []))
    cells = [
        (
            row["name"],
            size(row["total"]),
            size(row["active"]),
            _kilobytes(row["kv_bytes_per_token"]),
            _thousands(row["max_context_tokens"]),
            *(["; ".join(row["layers"])] if full else []),
        )
        for row in rows
    ]
    return _listed("models", cells, head, right=range(1, 5), asked=name, known=list_models())


def _named(names: Iterable[str], text: str, others: Callable[[str], Iterable[str]] = lambda _: ()) -> list[str]:
    """Names that contain a text, or that have another name which does; case and separators do not matter."""
    wanted = _without_separators(text)
    return [name for name in names if any(wanted in _without_separators(each) for each in (name, *others(name)))]


def _without_separators(text: str) -> str:
    return re.sub(r"[\s_.-]", "", text.lower())


def _listed(
    what: str,
    cells: Sequence[Sequence[str]],
    head: Sequence[str],
    *,
    right: Any = (),
    notes: str = "",
    asked: str = "",
    known: Iterable[str] = (),
) -> None:
    """Print a table, or a line that says that nothing matches, with the nearest names."""
    if cells:
        return print_text(table(cells, head=head, right=right), notes)
    near = difflib.get_close_matches(asked.lower(), list(known), n=3, cutoff=0.5) if asked else []
    matching = f"No {what} match {asked!r}" if asked else f"No {what} match"
    return print_text(f"{matching}; did you mean {either(near)}?" if near else f"{matching}.")


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
        "layers": layer_words(model),
    }


Vendor = Annotated[
    str | None, opt.option("--vendor", "NAME", "Show only accelerators of this vendor.", group=opt.OTHER)
]
MinimumMemory = Annotated[
    Any,
    opt.option(
        ("--minimum-memory", "--minimum-memory-gb"),
        "SIZE",
        "Show only accelerators with at least this much memory, as in 80GB; a bare number is in GB (1e9 bytes).",
        parse=lambda text: quantity(text if text.strip()[-1:].isalpha() else f"{text}GB", "bytes"),
        group=opt.OTHER,
    ),
]
HasFormat = Annotated[
    str | None,
    opt.option(
        "--has-format",
        "FORMAT",
        "Show only accelerators with compute units for this format, such as fp8 or int4.",
        group=opt.OTHER,
    ),
]
SORTED_BY = {
    "memory": "memory_bytes",
    "bandwidth": "memory_bytes_per_s",
    **{f"{math}_ridge": f"{math}_ridge_flops_per_byte" for math in ("bf16", "fp16", "fp8", "int8", "fp4", "int4")},
}
"""Names of columns as typed -> the column."""

SortBy = Annotated[
    str,
    opt.option(
        "--sort",
        "COLUMN",
        "Sort by name, vendor, year, memory, bandwidth, or the ridge point of a format, as in fp8_ridge.",
        parse=lambda text: SORTED_BY.get(text.lower().replace("-", "_"), text),
        group=opt.OTHER,
    ),
]
Descending = Annotated[bool, opt.switch("--descending", "Sort in descending order.")]


def hardware(
    name: Name = "",
    *,
    vendor: Vendor = None,
    minimum_memory: MinimumMemory = 0,
    has_format: HasFormat = None,
    sort: SortBy = "name",
    descending: Descending = False,
    as_json: opt.Json = False,
) -> None:
    """List accelerators, filtered and sorted."""
    least = float(np.max(number("--minimum-memory", minimum_memory)))
    found = ridge_table(
        vendor=vendor, minimum_memory_bytes=least, has_format=has_format, sort_by=sort, descending=descending
    )
    wanted = accelerators_like(name)
    rows = [
        row | {"title": gpu.title, "dense_flops_per_s": plain(gpu.dense_flops_per_s)}
        for row, gpu in zip(found.rows(), found.accelerators, strict=True)
        if gpu.name in wanted
    ]
    if as_json:
        return print_json(rows)
    notes = (
        "memory and its bandwidth; dense peaks in TFLOP/s, ridge points in FLOP/byte in parentheses",
        "16 bits: bf16, else fp16; 8 bits: fp8, else int8; 4 bits: fp4, else int4",
    )
    head = ("hardware", "GB", "TB/s", "16 bits", "8 bits", "4 bits")
    cells = [_hardware_cells(row) for row in rows]
    return _listed(
        "accelerators",
        cells,
        head,
        right=5,
        notes=block("Notes", bullets(notes)),
        asked=name,
        known=list_accelerators(),
    )


def _hardware_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    memory, bandwidth = row["memory_bytes"] / 1e9, row["memory_bytes_per_s"] / 1e12
    return (row["name"], _short(memory), _short(bandwidth), *(_peak(row, family) for family in FAMILIES))


def _short(figure: float) -> str:
    """Three significant digits, or all integer digits of a larger number."""
    return f"{figure:.0f}" if figure >= 100 else f"{figure:.3g}"


def _peak(row: Mapping[str, Any], family: tuple[str, ...]) -> str:
    """Peak of the first format of ``family`` that the chip supports, with its ridge point."""
    math = next((name for name in family if name in row["dense_flops_per_s"]), None)
    if math is None:
        return ""
    return f"{_short(row['dense_flops_per_s'][math] / 1e12)} ({row[f'{math}_ridge_flops_per_byte']:.0f})"


def formats(name: Name = "", *, as_json: opt.Json = False) -> None:
    """List number formats: bits per value including scales, and the units that multiply them."""
    rows: list[dict[str, Any]] = [
        {"name": each, "bits": FORMATS[each].bits, "math": FORMATS[each].math, "schemes": _schemes(each)}
        for each in _named(list_formats(), name, _schemes)
    ]
    if as_json:
        return print_json(rows)
    head = ("format", "bits per value", "math", "also called")
    cells = [
        (row["name"], f"{row['bits']:.4g}", row["math"] or "storage only", ", ".join(row["schemes"])) for row in rows
    ]
    notes = ("other bit widths, group and block sizes work as well: int3_g64, int4_g64_sym, affine4_g64, exl3_3.5",)
    return _listed(
        "formats", cells, head, right=(1,), notes=block("Notes", bullets(notes)), asked=name, known=list_formats()
    )


def _schemes(name: str) -> list[str]:
    return [scheme for scheme, stored in SCHEMES.items() if stored == name]


Helps = Annotated[
    str | None,
    opt.option(
        "--helps",
        "PHASE",
        "Show only techniques that help prefill, decode, both or neither.",
        parse=opt.lower,
        group=opt.OTHER,
    ),
]
PHASES = ("prefill", "decode", "both", "neither")


def techniques(name: Name = "", *, helps: Helps = None, full: opt.Full = False, as_json: opt.Json = False) -> None:
    """List serving techniques for ``what-if --technique``: the phase that each helps, its parameters, and why."""
    from ...techniques import REGISTRY, list_techniques
    from ...techniques.technique import OTHER_NAMES
    from ..technique_options import option_of

    if helps not in (None, *PHASES):
        raise unknown("phase", helps, PHASES)
    rows: list[dict[str, Any]] = []
    others = {slug: [each for each, known in OTHER_NAMES.items() if known == slug] for slug in REGISTRY}
    for slug in _named(list_techniques(), name, lambda each: (REGISTRY[each].name, *others[each])):
        kind = REGISTRY[slug]
        if helps in (None, kind.helps):
            parameters = [item.name for item in dataclasses.fields(kind)]
            words = {"name": slug, "title": kind.name, "helps": kind.helps, "parameters": parameters, "why": kind.why}
            rows.append(words)
    if as_json:
        return print_json(rows)
    options = [" ".join(map(option_of, row["parameters"])) for row in rows]
    head = ("technique", "helps", *(["options"] if full else []), "why")
    cells = [
        (row["name"], row["helps"], *([taken] if full else []), row["why"])
        for row, taken in zip(rows, options, strict=True)
    ]
    return _listed("techniques", cells, head, asked=name, known=list_techniques())


def engines(name: Name = "", *, as_json: opt.Json = False) -> None:
    """List inference engines whose scheduling and kernels are modeled."""
    found = [facts(each) for each in _named(list_engines(), name, lambda each: (facts(each).title,))]
    if as_json:
        return print_json([{"name": each.name, "title": each.title, "kernels": each.kernels} for each in found])
    cells = [(each.name, each.title, each.kernels or "the median of all") for each in found]
    return _listed("engines", cells, ("engine", "title", "kernels of"), asked=name, known=list_engines())
