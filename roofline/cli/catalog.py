"""The libraries as rows of plain values: one row a model, one an accelerator."""

from typing import Any

from .. import library
from ..precision import Precision
from ..report import plain
from .case import kv_bytes_per_token, layer_kinds


def models() -> list[dict[str, Any]]:
    """Every model: exact counts, cache bytes a token, longest context, kinds of layers."""
    return [_model_row(name) for name in library.list_models()]


def hardware() -> list[dict[str, Any]]:
    """Every accelerator: memory, bandwidth, dense peaks and their ridge points."""
    return [_hardware_row(name) for name in library.list_accelerators()]


def _model_row(name: str) -> dict[str, Any]:
    model = library.get_model(name)
    return {
        "name": model.name,
        "title": model.title,
        **model.parameters.to_dict(),
        "kv_bytes_per_token": plain(kv_bytes_per_token(model, Precision.kv)),
        "max_context_tokens": model.max_context_tokens,
        "layers": layer_kinds(model),
    }


def _hardware_row(name: str) -> dict[str, Any]:
    gpu = library.get_accelerator(name)
    return {
        "name": gpu.name,
        "title": gpu.title,
        "vendor": gpu.vendor,
        "year": gpu.year,
        "memory_bytes": plain(gpu.memory_bytes),
        "memory_bytes_per_s": plain(gpu.memory_bytes_per_s),
        "dense_flops_per_s": plain(gpu.dense_flops_per_s),
        "ridge_flops_per_byte": {math: plain(gpu.ridge_flops_per_byte(math)) for math in gpu.dense_flops_per_s},
    }
