"""Derivation of a parameter count: rows and steps for each group of layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..operators.weights import Linear, Weight
from ..report import Step
from ..units import humanize
from .layer import Layer

if TYPE_CHECKING:
    from .decoder import Model


def layer_row(layer: Layer) -> dict[str, Any]:
    """Return a row for one group: kind, parameters, and cache per sequence."""
    weights = tuple(layer.weights())
    caches = tuple(layer.caches())
    return {
        "layers": layer.count,
        "kind": layer.kind,
        "parameters_a_layer": 0 if layer.reused else sum(weight.parameters for weight in weights),
        "active_a_layer": sum(weight.active for weight in weights),
        "cache_values_a_token": sum(cache.values_per_token / cache.stride for cache in caches),
        "window_tokens": min((cache.window for cache in caches if cache.window), default=None),
        "state_bytes": sum(cache.state_bytes for cache in caches),
    }


def model_lines(model: Model) -> list[str]:
    """Return a description of a model in lines: size, layers, widths, other parts, notes."""
    counts, encoder = model.parameters, model.encoder
    return [
        f"{model.title or model.name}: {humanize('total', counts.total)} parameters, "
        f"{humanize('active', counts.active)} active per token",
        *(f"  encoder: {layer.count} x {layer.kind}" for layer in (encoder.layers if encoder else ())),
        *(f"  {layer.count} x {layer.kind}" for layer in model.layers),
        f"  hidden {model.hidden:,}, vocabulary {model.vocab:,}{' (tied)' if model.tied_embeddings else ''}, "
        f"{model.kv_bytes_per_token:,.0f} cache bytes per token in bf16",
        *(f"  apart: {name} {size:,}" for name, size in model.apart.items()),
        *(f"  note: {note}" for note in model.assumptions),
    ]


def explain_count(model: Model) -> tuple[Step, ...]:
    """Return the steps of the count: every weight, groups, tables, active parameters, total."""
    steps: list[Step] = []
    parts: dict[str, float] = {}
    groups, source = model.weight_groups(), model.source
    for name, count, weights in groups:
        steps.extend(count_steps(name, count, weights, source))
        parts[name] = steps[-1].value
    for table in (model.embedding, *model.lookups):
        inputs = {"rows": table.rows, "width": table.width}
        steps.append(Step(table.name, "rows * width", inputs, table.parameters, source))
        parts[table.name] = table.parameters
    if model.has_lm_head and (model.lm_head_bias or not model.tied_embeddings):
        head = model.parameters.by_part["lm_head"]
        inputs = {"tied": int(model.tied_embeddings), "bias": int(model.lm_head_bias)}
        inputs |= {"width": model.width, "vocab": model.vocab}
        steps.append(Step("lm_head", "(1 - tied) * width * vocab + bias * vocab", inputs, head, source))
        parts["lm_head"] = head
    steps.extend(active_steps(groups, model.lm_head.parameters, source))
    steps.append(Step("parameters.total", " + ".join(parts), parts, model.parameters.total, "sum of the parts"))
    return tuple(steps)


def active_steps(groups: Sequence[tuple[str, int, tuple[Weight, ...]]], head: int, source: str) -> list[Step]:
    """Return the steps to active parameters: all groups without unselected experts, and lm_head."""
    steps: list[Step] = []
    for name, count, weights in groups:
        held = sum(weight.parameters for weight in weights)
        idle = held - sum(weight.active for weight in weights)
        inputs = {"layers": count, "held": held, "idle_experts": idle}
        formula = "layers * (held - idle_experts)"
        steps.append(Step(f"{name}.active", formula, inputs, count * (held - idle), source))
    parts = {step.name.removesuffix(".active"): step.value for step in steps} | {"lm_head": head}
    note = "active parameters of the parts; tables are looked up"
    return [*steps, Step("parameters.active", " + ".join(parts), parts, sum(parts.values()), note)]


def count_steps(name: str, count: int, weights: tuple[Weight, ...], source: str) -> list[Step]:
    """Return a step for each weight of a group, then their sum times the number of layers."""
    steps: list[Step] = []
    parts: dict[str, int] = {}
    for weight in weights:
        key = weight.name if weight.name not in parts else f"{weight.name}_{len(parts)}"
        parts[key] = weight.parameters
        if isinstance(weight, Linear):
            inputs = {"copies": weight.copies, "d_in": weight.d_in, "d_out": weight.d_out, "bias": int(weight.bias)}
            formula = "copies * (d_in * d_out + bias * d_out)"
        else:
            inputs, formula = {"size": weight.parameters}, "size"
        steps.append(Step(f"{name}.{key}", formula, inputs, weight.parameters, source))
    formula = f"layers * ({' + '.join(parts)})"
    steps.append(Step(name, formula, {"layers": count, **parts}, count * sum(parts.values()), source))
    return steps
