"""Precision of a checkpoint, from ``quantization_config``, ``quantization`` (MLX) or ``hf_quant_config.json``.

Every scheme states a format for the linear layers and the modules that keep 16 bits.  The format of every module is
looked up under its names in checkpoints, layer by layer.  If the modules of a part differ, the part is stored in a
mixture of formats, whose bytes are exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..errors import RooflineError, SpecError
from ..formats import mixture
from ..operators.precision import QUANTIZED_PARTS, Precision
from . import integer_schemes
from . import quantization_schemes as schemes
from .checkpoint_modules import StoredModule
from .quantization_schemes import WIDE

ROUTED_PARTS = (*QUANTIZED_PARTS, "router", "embedding", "lm_head")
"""Parts whose format a scheme decides; all others stay in 16 bits."""


def checkpoint_precision(
    data: Mapping[str, Any], beside: Mapping[str, Any] | None, modules: Iterable[StoredModule]
) -> tuple[Precision | None, tuple[str, ...]]:
    """Return the precision of a checkpoint, and notes on parts of its scheme that were not understood.

    Parameters
    ----------
    data : mapping of str to object
        The ``config.json``.
    beside : mapping of str to object, optional
        A ``hf_quant_config.json`` beside it.
    modules : iterable of StoredModule
        The linear modules of the model.

    Returns
    -------
    precision : Precision, optional
        None if the checkpoint is not quantized, or its scheme is not understood (a note says so).
    notes : tuple of str
        One sentence per uncertainty.
    """
    config = _config(data, beside)
    if config is None:
        given = data.get("quantization_config")
        return None, (_not_understood(f"{given!r:.60}"),) if given else ()
    method = str(config.get("quant_method") or config.get("quant_algo") or "").lower()
    try:
        scheme = scheme_of(config, method, data)
    except RooflineError as error:
        return None, (_not_understood(str(error)),)
    if scheme is None:
        return None, ()
    return _precision(scheme, modules)


def _not_understood(what: str) -> str:
    return f"unknown quantization ({what}); sizes assume bf16 weights and are too large"


def _config(data: Mapping[str, Any], beside: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Quantization configuration, from any of its places."""
    inner: Mapping[str, Any] = next(
        (data[key] for key in ("text_config", "llm_config") if isinstance(data.get(key), Mapping)), {}
    )
    for holder in (data, inner):
        for key in ("quantization_config", "compression_config", "quantization"):
            config = holder.get(key)
            if isinstance(config, Mapping) and config:
                return dict(config)
    if isinstance(beside, Mapping) and isinstance(beside.get("quantization"), Mapping):
        return {"quant_method": "modelopt", **beside["quantization"]}
    return None


def _precision(scheme: schemes.Scheme, modules: Iterable[StoredModule]) -> tuple[Precision, tuple[str, ...]]:
    """Format of each part: that of its modules, or a mixture if they differ."""
    stored: dict[str, Counter[str]] = {}
    for module in modules:
        if module.part in ROUTED_PARTS:
            stored.setdefault(module.part, Counter())[scheme.format_of(module.name)] += module.values
    chosen = {part: mixture(values) for part, values in stored.items()}
    quantized = [chosen[part] for part in ("experts", "mlp", "attention", "mixer") if chosen.get(part, WIDE) != WIDE]
    weights = quantized[0] if quantized else WIDE
    plain = Precision(weights=weights, activations=scheme.activations if quantized else WIDE, kv=scheme.kv)
    exceptions = {part: name for part, name in chosen.items() if plain.weight_format(part) != name}
    notes = [_mixture_note(part, stored[part]) for part in stored if len(stored[part]) > 1]
    precision = Precision(weights=weights, activations=plain.activations, kv=plain.kv, exceptions=exceptions)
    return precision, (*scheme.notes, *notes)


def _mixture_note(part: str, values: Counter[str]) -> str:
    shares = [f"{count / values.total():.0%} {name}" for name, count in values.most_common()]
    return f"{part} weights are stored in several formats: {', '.join(shares)}"


def scheme_of(config: Mapping[str, Any], method: str, data: Mapping[str, Any]) -> schemes.Scheme | None:
    """Read the scheme of a quantization; None if it quantizes nothing.

    Raises
    ------
    SpecError
        The scheme is unknown, or its configuration is invalid.
    """
    if not method and "bits" in config and "group_size" in config:
        return schemes.mlx(config)
    if config.get("quantized_layers") and isinstance(config["quantized_layers"], Mapping):
        return schemes.by_layer(config)
    if method in ("fp8", "fbgemm_fp8", "finegrained_fp8"):
        return schemes.fp8(config, data)
    if method in SCHEMES:
        return SCHEMES[method](config)
    if config.get("config_groups"):
        return schemes.compressed_tensors(config)
    if config.get("quant_algo"):
        return schemes.modelopt(config)
    raise SpecError(f"quant_method {method!r}")


SCHEMES: Mapping[str, Callable[[Mapping[str, Any]], schemes.Scheme | None]] = {
    "mxfp4": schemes.mxfp4,
    "mxfp8": schemes.mxfp8,
    "nvfp4": schemes.nvfp4,
    "ptpc_fp8": schemes.fp8_by_row,
    "experts_int8": schemes.experts_int8,
    **dict.fromkeys(["gptq", "gptq_marlin", "gptq_v2", "auto_gptq", "gptq_bitblas"], integer_schemes.integer_groups),
    **dict.fromkeys(["awq", "awq_marlin", "cpu_awq", "auto_awq"], integer_schemes.integer_groups),
    "marlin": integer_schemes.marlin,
    "moe_wna16": integer_schemes.integer_groups,  # vLLM's kernels for experts of GPTQ and AWQ
    **dict.fromkeys(["auto-round", "auto_round", "intel/auto-round", "inc"], integer_schemes.auto_round),
    "bitnet": integer_schemes.bitnet,
    "higgs": integer_schemes.higgs,
    "bitsandbytes": integer_schemes.bitsandbytes,
    "compressed-tensors": schemes.compressed_tensors,
    "compressed_tensors": schemes.compressed_tensors,
    "quark": schemes.quark,
    "modelopt": schemes.modelopt,
    "modelopt_fp4": schemes.modelopt,
    "eetq": integer_schemes.eetq,
    "fp_quant": schemes.fp_quant,
    "quanto": integer_schemes.quanto,
    "hqq": integer_schemes.hqq,
    "torchao": integer_schemes.torchao,
    "exl2": integer_schemes.exllama,
    "exl3": integer_schemes.exllama,
}
"""``quant_method`` -> function that reads its configuration."""
