"""Quantization schemes: the format that each tool's configuration gives to a module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import SpecError
from ..formats import get_format
from .module_names import Matcher, matcher

WIDE = "bf16"


@dataclass(frozen=True)
class Scheme:
    """Formats that a quantization assigns.

    Attributes
    ----------
    format_of : callable
        Function from the name of a module to its stored format.
    activations, kv : str
        Formats of activations and of the KV cache.
    notes : tuple of str
        Parts of the scheme that were not understood.
    """

    format_of: Callable[[str], str]
    activations: str = WIDE
    kv: str = WIDE
    notes: tuple[str, ...] = ()


def uniform(name: str, config: Mapping[str, Any], *, kept: tuple[str, ...], activations: str = WIDE) -> Scheme:
    """One format for all linear layers except those kept; embedding and lm_head do not count as linear layers here."""
    get_format(name)
    ignored = matcher([*listed(config, *kept), "lm_head", "embed_tokens", "head"])

    def format_of(module: str) -> str:
        return WIDE if is_kept(module, ignored) else name

    return Scheme(format_of, activations, cached_in(config), wrong_lists(config, *kept))


def is_kept(module: str, ignored: Matcher) -> bool:
    """Whether a module keeps 16 bits, because no scheme quantizes it or a list excludes it."""
    return module.endswith(ALWAYS_KEPT) or ignored(module)


ALWAYS_KEPT = (".gate", ".router", ".routed_expert_down_proj", ".routed_expert_up_proj")
"""Modules that no scheme quantizes even if no list excludes them: routers, and the projections of Kimi K3's latent
experts, which vLLM builds without quantization and whose published tensors are bf16."""


def listed(config: Mapping[str, Any], *keys: str) -> list[str]:
    """Names in the first list that exists."""
    found: list[str] = []
    for key in keys:
        value = config.get(key)
        if isinstance(value, list):
            found += [item for item in value if isinstance(item, str)]
    return found


def wrong_lists(config: Mapping[str, Any], *keys: str) -> tuple[str, ...]:
    """A note for each field of exceptions that is not a list."""
    given = {key: config.get(key) for key in keys}
    return tuple(
        f"{key} of the quantization must be a list of module names and is ignored: {value!r:.60}"
        for key, value in given.items()
        if value is not None and not isinstance(value, list)
    )


def cached_in(config: Mapping[str, Any]) -> str:
    """Format of the KV cache."""
    algorithm = str(config.get("kv_cache_quant_algo") or "").lower()
    scheme = config.get("kv_cache_scheme")
    bits = scheme.get("num_bits") if isinstance(scheme, Mapping) else None
    if "fp8" in algorithm or bits == 8:
        return "fp8"
    if "nvfp4" in algorithm or bits == 4:
        return "nvfp4"
    return WIDE


def fp8(config: Mapping[str, Any], data: Mapping[str, Any]) -> Scheme:
    """8-bit floats with a scale for each tile, row or matrix; some mixtures keep their experts in 4 bits."""
    name = tiled(config.get("weight_block_size"))
    plain = uniform(name, config, kept=("modules_to_not_convert", "ignored_layers"), activations="fp8")
    if str(data.get("expert_dtype") or config.get("expert_dtype")).lower() != "fp4":
        return plain
    return Scheme(lambda module: "mxfp4" if ".experts." in module else plain.format_of(module), "fp8", plain.kv)


def tiled(blocks: Any) -> str:
    """8-bit floats with a scale for each tile of ``weight_block_size``, or for each row or matrix without one."""
    if not isinstance(blocks, list) or not blocks:
        return "fp8"
    if blocks == [128, 128]:
        return "fp8_block"
    if blocks == [1, 32]:
        return "mxfp8"
    if len(blocks) == 2 and all(isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in blocks):
        return f"fp8_block{blocks[0]}x{blocks[1]}"
    raise SpecError(f"weight_block_size {blocks!r:.60}")


def integer(bits: Any, group: Any, *, symmetric: bool = False) -> str:
    """Integers in groups with a 16-bit scale; without groups, one scale per row, which is negligible."""
    if isinstance(bits, bool) or bits not in range(1, 9):
        raise SpecError(f"bits {bits!r}")
    if group in (None, -1, 0):
        return {4: "int4", 8: "int8"}.get(bits) or f"int{bits}_g4096_sym"
    if isinstance(group, bool) or not isinstance(group, int) or not 1 <= group <= 65536:
        raise SpecError(f"group_size {group!r}")
    return f"int{bits}_g{group}_sym" if symmetric else f"int{bits}_g{group}"


def affine(bits: Any, group: Any) -> str:
    """Integers in groups with a scale and an offset of 16 bits each."""
    if isinstance(bits, bool) or bits not in range(1, 9):
        raise SpecError(f"bits {bits!r}")
    if isinstance(group, bool) or not isinstance(group, int) or not 1 <= group <= 65536:
        raise SpecError(f"group_size {group!r}")
    return f"affine{bits}_g{group}"


def fp_quant(config: Mapping[str, Any]) -> Scheme:
    """FP-Quant: ``forward_dtype`` names a 4-bit block format of weights and activations."""
    name = str(config.get("forward_dtype") or "mxfp4").lower()
    if name not in ("mxfp4", "nvfp4"):
        raise SpecError(f"forward_dtype {name!r}")
    return uniform(name, config, kept=("modules_to_not_convert",), activations=name)


MLX_MODES = {"mxfp4": "mxfp4", "mxfp8": "mxfp8", "nvfp4": "nvfp4"}


def mlx(config: Mapping[str, Any]) -> Scheme:
    """MLX: all linear layers, the embedding and lm_head.  Entries per module override this; ``false`` keeps 16 bits."""
    plain = _mlx_format(config, config)
    own: dict[str, list[str]] = {}
    for module, entry in config.items():
        if isinstance(entry, Mapping):
            own.setdefault(_mlx_format(entry, config), []).append(_without_switch(module))
        elif entry is False and "." in module:
            own.setdefault(WIDE, []).append(_without_switch(module))
    rules = [(matcher(modules), name) for name, modules in own.items()]

    def format_of(module: str) -> str:
        return next((name for chosen, name in rules if chosen(module)), plain)

    return Scheme(format_of)


def _without_switch(module: str) -> str:
    """MLX stores the experts of a layer together, as ``switch_mlp``."""
    return module.replace(".switch_mlp.", ".experts.0.")


def _mlx_format(entry: Mapping[str, Any], overall: Mapping[str, Any]) -> str:
    mode = str(entry.get("mode") or overall.get("mode") or "affine")
    if mode in MLX_MODES:
        return MLX_MODES[mode]
    if mode != "affine":
        raise SpecError(f"MLX mode {mode!r}")
    return affine(entry.get("bits", overall.get("bits")), entry.get("group_size", overall.get("group_size")))


def _of_weights(weights: Mapping[str, Any]) -> str:
    """Format of a ``weights`` entry: bits, type, group."""
    bits, kind, group = weights.get("num_bits"), str(weights.get("type")), weights.get("group_size")
    if kind == "float" and bits == 4:
        return "mxfp4" if group == 32 else "nvfp4"
    if kind == "float" and bits == 8:
        if weights.get("strategy") == "block":
            return tiled(weights.get("block_structure") or [128, 128])
        if group == 32:
            return "mxfp8"
        grouped = weights.get("strategy") == "group" and isinstance(group, int) and group > 0
        return f"fp8_g{group}" if grouped else "fp8"
    return integer(bits, group, symmetric=bool(weights.get("symmetric")))


def compressed_tensors(config: Mapping[str, Any]) -> Scheme:
    """llm-compressor and ModelOpt's newer files: groups with targets, and an ``ignore`` list."""
    groups, sparse = config.get("config_groups"), config.get("sparsity_config")
    if isinstance(sparse, Mapping) and sparse.get("format") not in (None, "dense"):
        raise SpecError(f"sparsity_config.format {sparse.get('format')!r}")
    if not isinstance(groups, Mapping) or not groups:
        raise SpecError("config_groups is missing")
    ignored = matcher(listed(config, "ignore"))
    rules: list[tuple[Matcher | None, str]] = []
    activations = WIDE
    for group in groups.values():
        if not isinstance(group, Mapping) or not isinstance(group.get("weights"), Mapping):
            continue
        name = _of_weights(group["weights"])
        targets = [item for item in group.get("targets") or () if isinstance(item, str)]
        rules.append((None if "Linear" in targets or not targets else matcher(targets), name))
        if isinstance(group.get("input_activations"), Mapping):
            activations = _of_activations(group["input_activations"], activations)
    if not rules:
        raise SpecError("config_groups has no group with weights")

    def format_of(module: str) -> str:
        if module.startswith("embed") or is_kept(module, ignored):
            return WIDE
        return next((name for wanted, name in rules if wanted is None or wanted(module)), WIDE)

    return Scheme(format_of, activations, cached_in(config))


def _of_activations(inputs: Mapping[str, Any], otherwise: str) -> str:
    bits, kind = inputs.get("num_bits"), str(inputs.get("type"))
    if bits == 4 and kind == "float":
        return "mxfp4" if inputs.get("group_size") == 32 else "nvfp4"
    if bits == 8:
        return "fp8" if kind == "float" else "int8"
    return otherwise


ALGORITHMS = {
    "fp8": ("fp8", "fp8"),
    "fp8_pb_wo": ("fp8_block", WIDE),
    "fp8_pb_real": ("fp8_block", "fp8"),
    "fp8_per_channel_per_token": ("fp8", "fp8"),
    "nvfp4": ("nvfp4", "nvfp4"),
    "nvfp4_awq": ("nvfp4", "nvfp4"),
    "w4a16_nvfp4": ("nvfp4", WIDE),
    "nvfp4_w4a16": ("nvfp4", WIDE),
    "mxfp4": ("mxfp4", "mxfp4"),
    "mxfp8": ("mxfp8", "mxfp8"),
    "w4a16_mxfp4": ("mxfp4", WIDE),
    "w4a8_mxfp4_fp8": ("mxfp4", "fp8"),
    "w4a8_nvfp4_fp8": ("nvfp4", "fp8"),
    "w4a16_awq": ("int4_g128_sym", WIDE),
    "int4_awq": ("int4_g128_sym", WIDE),
    "w4a8_awq": ("int4_g128_sym", "fp8"),
    "w8a16": ("int8", WIDE),
    "w8a8_sq_per_channel": ("int8", "int8"),
    "int8": ("int8", "int8"),
}
"""ModelOpt's ``quant_algo`` -> formats of weights and activations."""


def _algorithm(name: Any) -> tuple[str, str]:
    found = ALGORITHMS.get(str(name).lower())
    if found is None:
        raise SpecError(f"quant_algo {name!r}")
    return found


def modelopt(config: Mapping[str, Any]) -> Scheme:
    """ModelOpt: one algorithm for all linear layers except those excluded; AWQ's group size may differ from 128."""
    weights, activations = _algorithm(config.get("quant_algo"))
    if weights == "int4_g128_sym" and config.get("group_size"):
        weights = integer(4, config["group_size"], symmetric=True)
    ignored = matcher(listed(config, "exclude_modules", "ignore"))
    return Scheme(
        lambda module: WIDE if module.startswith("embed") or is_kept(module, ignored) else weights,
        activations,
        cached_in(config),
    )


def by_layer(config: Mapping[str, Any]) -> Scheme:
    """Format of each module by name; others follow the rest of the file, or keep 16 bits."""
    listed: Mapping[str, Any] = config["quantized_layers"]
    by_format: dict[str, list[str]] = {}
    activations: Counter[str] = Counter()
    for module, entry in listed.items():
        if isinstance(module, str) and isinstance(entry, Mapping):
            weights, fed = _algorithm(entry.get("quant_algo"))
            by_format.setdefault(weights, []).append(module)
            activations[fed] += 1
    rules = [(matcher(modules), name) for name, modules in by_format.items()]
    rest = "fp8_block" if config.get("weight_block_size") and config.get("quant_method") == "fp8" else WIDE

    def format_of(module: str) -> str:
        found = next((name for wanted, name in rules if wanted(module)), None)
        return found or (WIDE if module.startswith(("embed", "lm_head")) or module.endswith(".gate") else rest)

    fed = activations.most_common(1)[0][0] if activations else WIDE
    return Scheme(format_of, fed, cached_in(config))


def quark(config: Mapping[str, Any]) -> Scheme:
    """AMD Quark: a global configuration of weights and inputs, one per layer, and an ``exclude`` list."""
    overall = config.get("global_quant_config")
    if not isinstance(overall, Mapping) or not isinstance(overall.get("weight"), Mapping):
        raise SpecError("global_quant_config has no weight")
    name = _quark_format(overall["weight"])
    inputs = overall.get("input_tensors")
    fed = _quark_format(inputs) if isinstance(inputs, Mapping) else WIDE
    ignored = matcher(listed(config, "exclude"))
    own: dict[str, list[str]] = {}
    by_layer = config.get("layer_quant_config")
    for pattern, entry in by_layer.items() if isinstance(by_layer, Mapping) else ():
        if isinstance(entry, Mapping) and isinstance(entry.get("weight"), Mapping):
            own.setdefault(_quark_format(entry["weight"]), []).append(pattern)
    rules = [(matcher(patterns), its) for its, patterns in own.items()]

    def format_of(module: str) -> str:
        if module.startswith("embed") or is_kept(module, ignored):
            return WIDE
        return next((its for wanted, its in rules if wanted(module)), name)

    kv = config.get("kv_cache_quant_config") or listed(config, "kv_cache_group")
    return Scheme(format_of, fed, "fp8" if kv else WIDE)


def _quark_format(entry: Mapping[str, Any]) -> str:
    kind = str(entry.get("dtype")).lower()
    if "fp4" in kind:
        return "mxfp4"
    if "fp6" in kind:
        return "mxfp6"
    if "fp8" in kind:
        return "mxfp8" if entry.get("group_size") == 32 else "fp8"
    if "int4" in kind or "uint4" in kind:
        return integer(4, entry.get("group_size"))
    if "int8" in kind:
        return "int8"
    raise SpecError(f"dtype {entry.get('dtype')!r}")


def mxfp4(config: Mapping[str, Any]) -> Scheme:
    """OCP microscaling, 4 bits, as gpt-oss is published."""
    return uniform("mxfp4", config, kept=("modules_to_not_convert",))


def mxfp8(config: Mapping[str, Any]) -> Scheme:
    """OCP microscaling, 8 bits."""
    return uniform("mxfp8", config, kept=("ignored_layers", "modules_to_not_convert"), activations="mxfp8")


def nvfp4(config: Mapping[str, Any]) -> Scheme:
    """NVFP4 without the fields of ModelOpt or compressed-tensors."""
    return uniform("nvfp4", config, kept=("ignored_layers", "modules_to_not_convert", "ignore"), activations="nvfp4")


def fp8_by_row(config: Mapping[str, Any]) -> Scheme:
    """8-bit floats with a scale per row of weights and per token (vLLM's ``ptpc_fp8``)."""
    return uniform("fp8", config, kept=("ignored_layers", "modules_to_not_convert"), activations="fp8")


def experts_int8(config: Mapping[str, Any]) -> Scheme:
    """VLLM's ``experts_int8``: routed experts in 8 bits with a scale per row, everything else as it is."""
    return Scheme(lambda module: "int8" if ".experts." in module else WIDE)
