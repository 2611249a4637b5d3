"""What each command shows to people: blocks of aligned columns."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from ..model import Model
from ..report import Step
from ..units import humanize
from .case import EXPLAINED, Case, Change, Count, about, layer_kinds
from .screen import derived, facts, grid, heading, label, notes, show, side_by_side, size

__all__ = ["analysis", "change", "derivation", "hardware", "models", "show"]


def analysis(case: Case) -> list[RenderableType]:
    """Every answer about one case."""
    model, gpu = case.serve.model, case.serve.accelerator
    return [
        *title(case),
        heading("Model", model.title or model.name),
        grid(_model_rows(model)),
        heading("Hardware", gpu.title or gpu.name),
        grid(_hardware_rows(case)),
        heading("Memory"),
        facts(case.memory),
        heading("Phases", "throughput at the roofline"),
        side_by_side({"prefill": case.prefill, "decode step": case.decode}),
        heading("Generation"),
        side_by_side({time.removesuffix("_s"): result for time, result in case.generate.items()}, leave_out="time"),
        heading("Crossovers of decode"),
        facts(case.crossovers),
        heading("Notes"),
        notes(case.assumptions),
    ]


def change(both: Change) -> list[RenderableType]:
    """Before, after and the ratio of every answer."""
    head = ("", "before", "after", "after / before")
    parts = [*title(both.before), heading("Change"), grid(_changed_rows(both))]
    for name, comparison in both.comparisons.items():
        rows = [(label(column), *cells) for column, *cells in comparison.rows()]
        parts += [heading(name.capitalize()), grid(rows, right=3, head=head)]
    return [*parts, heading("Notes"), notes(both.assumptions)]


def derivation(case: Case | Count, steps: Mapping[str, Sequence[Step]]) -> list[RenderableType]:
    """A case, or a model alone, and the steps that derive its numbers."""
    if isinstance(case, Count):
        return [Text(case.model.name, style="bold"), grid(_model_rows(case.model)), *derived(steps)]
    parts = [*title(case), *derived(steps)]
    if all(about(step) in EXPLAINED for found in steps.values() for step in found):
        parts += [heading("More"), notes(["--phase NAME derives all of one of these, --operator NAME one operator"])]
    return parts


def models(rows: Iterable[Mapping[str, Any]]) -> list[RenderableType]:
    """A line a model."""
    head = ("model", "total", "active", "KV a token", "context", "layers")
    cells = (
        (
            row["name"],
            size(row["total"]),
            size(row["active"]),
            humanize("bytes", row["kv_bytes_per_token"]),
            humanize("", row["max_context_tokens"]),
            "; ".join(row["layers"]),
        )
        for row in rows
    )
    return [grid(cells, head=head)]


def hardware(rows: Iterable[Mapping[str, Any]]) -> list[RenderableType]:
    """A line an accelerator."""
    head = ("hardware", "GB", "TB/s", "16 bits", "8 bits", "4 bits")
    families = (("bf16", "fp16"), ("fp8", "int8"), ("fp4", "int4"))
    cells = (
        (
            row["name"],
            _short(row["memory_bytes"] / 1e9),
            _short(row["memory_bytes_per_s"] / 1e12),
            *(_peak(row, family) for family in families),
        )
        for row in rows
    )
    lines = (
        "memory and its bandwidth; dense peaks in TFLOP/s, in brackets the ridge points in FLOP/byte",
        "16 bits: bf16, else fp16; 8 bits: fp8, else int8; 4 bits: fp4, else int4",
    )
    return [grid(cells, right=5, head=head), heading("Notes"), notes(lines)]


def _short(number: float) -> str:
    """Three digits, or all of a larger number before the point."""
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def _peak(row: Mapping[str, Any], family: tuple[str, ...]) -> str:
    """Peak of the first format of ``family`` that the chip has, with its ridge point."""
    math = next((name for name in family if name in row["dense_flops_per_s"]), None)
    if math is None:
        return ""
    return f"{_short(row['dense_flops_per_s'][math] / 1e12)} ({row[f'{math}_ridge_flops_per_byte']:.0f})"


def title(case: Case) -> list[RenderableType]:
    """What was asked, defaults included."""
    asked, load = case.asked(), case.load
    rows = (
        ("workload", f"batch {load.batch:,}, prompt {load.prompt_tokens:,}, output {load.output_tokens:,} tokens"),
        ("decode at", f"a context of {asked['workload']['context_tokens']:,} tokens"),
        ("formats", str(case.serve.precision)),
        ("layout", str(case.serve.parallel)),
    )
    return [Text(f"{asked['model']} on {asked['hardware']}", style="bold"), grid(rows)]


def _model_rows(model: Model) -> list[tuple[str, str]]:
    counts = model.parameters
    return [
        ("parameters", f"{counts.total:,}"),
        ("active a token", f"{counts.active:,}"),
        ("embedding", f"{counts.embedding:,}"),
        *(("layers", kind) for kind in layer_kinds(model)),
        ("KV cache", f"{humanize('bytes', model.kv_bytes_per_token)} a token in bf16"),
        ("longest context", humanize("tokens", model.max_context_tokens)),
    ]


def _hardware_rows(case: Case) -> list[tuple[str, str]]:
    gpu = case.serve.accelerator
    peaks = [
        (
            f"{math} peak",
            f"{humanize('flops_per_s', gpu.dense_flops_per_s[math])} dense, "
            f"ridge point {humanize('flops_per_byte', gpu.ridge_flops_per_byte(math))}",
        )
        for math in case.maths
    ]
    bandwidth = humanize("bytes_per_s", gpu.memory_bytes_per_s)
    return [*peaks, ("memory", f"{humanize('bytes', gpu.memory_bytes)} at {bandwidth}")]


def _changed_rows(both: Change) -> list[tuple[str, str]]:
    """What differs between the two cases."""
    before, after = (_flat(case.asked()) for case in (both.before, both.after))
    return [
        (label(name), f"{humanize(name, before[name])} -> {humanize(name, after[name])}")
        for name in before
        if before[name] != after[name]
    ]


def _flat(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {"model": asked["model"], "hardware": asked["hardware"], **asked["workload"], **asked["precision"]}
