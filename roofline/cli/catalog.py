"""The libraries as rows of plain values: one row a model, one an accelerator."""

from typing import Any

from ..analysis.ridges import ridge_table
from ..report import plain
from ..specs.library import get_model, list_models
from .case import layer_kinds


def models() -> list[dict[str, Any]]:
    """Every model: exact counts, cache bytes a token, longest context, kinds of layers."""
    return [_model_row(name) for name in list_models()]


def hardware(**wanted: Any) -> list[dict[str, Any]]:
    """Every accelerator that passes `roofline.ridge_table`: memory, bandwidth, dense peaks and their ridge points."""
    table = ridge_table(**wanted)
    return [
        row | {"title": gpu.title, "dense_flops_per_s": plain(gpu.dense_flops_per_s)}
        for row, gpu in zip(table.rows(), table.accelerators, strict=True)
    ]


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
