"""The checkpoint's own precision, from ``quantization_config`` or ``hf_quant_config.json``.

Every scheme says two things: a format for the linear layers, and which modules keep 16 bits.  The modules of each part
of a model are looked up under the names that checkpoints give them, layer by layer, and the format that most of a part
has becomes that of the part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import RooflineError, SpecError
from ..formats import get_format
from ..operators.precision import Precision
from .module_names import PART_MODULES, Matcher, matcher

WIDE = "bf16"


@dataclass(frozen=True)
class Scheme:
    """What a quantization does: the format of a module by its name, formats of activations and KV cache."""

    format_of: Callable[[str], str]
    activations: str = WIDE
    kv: str = WIDE


def checkpoint_precision(
    data: Mapping[str, Any], beside: Mapping[str, Any] | None, layers_of: Mapping[str, Sequence[int]]
) -> tuple[Precision | None, tuple[str, ...]]:
    """Precision of a checkpoint, and notes on what of its scheme was not understood.

    Parameters
    ----------
    data : the ``config.json``
    beside : a ``hf_quant_config.json`` beside it
    layers_of : part of the model -> the layers that have it
    """
    config = _config(data, beside)
    if config is None:
        given = data.get("quantization_config")
        return None, (f"quantization_config is not understood, bf16 is taken: {given!r:.60}",) if given else ()
    method = str(config.get("quant_method") or config.get("quant_algo") or "").lower()
    try:
        scheme = _scheme(config, method, data)
    except RooflineError as error:
        return None, (f"quantization_config is not understood, bf16 is taken: {error}",)
    return _precision(scheme, layers_of)


def _config(data: Mapping[str, Any], beside: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The quantization, wherever it stands."""
    inner: Mapping[str, Any] = next(
        (data[key] for key in ("text_config", "llm_config") if isinstance(data.get(key), Mapping)), {}
    )
    for holder in (data, inner):
        config = holder.get("quantization_config") or holder.get("compression_config")
        if isinstance(config, Mapping):
            return dict(config)
    if isinstance(beside, Mapping) and isinstance(beside.get("quantization"), Mapping):
        return {"quant_method": "modelopt", **beside["quantization"]}
    return None


def _precision(scheme: Scheme, layers_of: Mapping[str, Sequence[int]]) -> tuple[Precision, tuple[str, ...]]:
    """One format a part: the one that most of its modules have."""
    chosen: dict[str, str] = {}
    notes = []
    for module in sorted(set(layers_of) & set(PART_MODULES)):
        part = module.removesuffix(" beside")
        votes = Counter(scheme.format_of(name) for name in _names(module, layers_of[module]))
        chosen[part] = votes.most_common(1)[0][0]
        if len(votes) > 1:
            share = votes[chosen[part]] / votes.total()
            rest = _rest(votes, chosen[part])
            notes.append(f"{part}: {share:.0%} of its matrices are {chosen[part]}, the rest {rest}")
    quantized = [chosen[part] for part in ("experts", "mlp", "attention", "mixer") if chosen.get(part, WIDE) != WIDE]
    weights = quantized[0] if quantized else WIDE
    activations = scheme.activations if quantized else WIDE
    plain = Precision(weights=weights, activations=activations, kv=scheme.kv)
    exceptions = {part: name for part, name in chosen.items() if plain.weight_format(part) != name}
    return Precision(weights=weights, activations=activations, kv=scheme.kv, exceptions=exceptions), tuple(notes)


def _rest(votes: Counter[str], chosen: str) -> str:
    return ", ".join(sorted(name for name in votes if name != chosen))


def _names(part: str, layers: Sequence[int]) -> list[str]:
    """Names of the modules of a part in its layers."""
    return [
        name
        for module in PART_MODULES[part]
        for name in ([module.replace("{}", str(at)) for at in layers] if "{}" in module else [module])
    ]


# The schemes


def _scheme(config: Mapping[str, Any], method: str, data: Mapping[str, Any]) -> Scheme:
    if config.get("quantized_layers") and isinstance(config["quantized_layers"], Mapping):
        return _mixed(config)
    if method in ("fp8", "fbgemm_fp8", "finegrained_fp8"):
        return _fp8(config, data)
    if method == "mxfp4":
        return _uniform("mxfp4", config, kept=("modules_to_not_convert",))
    if method in ("gptq", "awq", "gptq_marlin", "awq_marlin", "auto-round", "intel/auto-round"):
        return _grouped(config)
    if method == "bitsandbytes":
        return _bitsandbytes(config)
    if method in ("compressed-tensors", "compressed_tensors") or config.get("config_groups"):
        return _compressed_tensors(config)
    if method == "quark":
        return _quark(config)
    if method == "modelopt" or config.get("quant_algo"):
        return _modelopt(config)
    if method in ("eetq", "fp_quant", "quanto"):
        return _uniform("int8", config, kept=("modules_to_not_convert",))
    raise SpecError(f"quant_method {method!r}")


def _uniform(name: str, config: Mapping[str, Any], *, kept: tuple[str, ...], activations: str = WIDE) -> Scheme:
    """One format for all linear layers but those kept; embedding and lm_head are no linear layers to these schemes."""
    get_format(name)
    ignored = matcher([*_listed(config, *kept), "lm_head", "embed_tokens", "head"])
    return Scheme(lambda module: WIDE if _kept(module, ignored) else name, activations, _kv(config))


def _kept(module: str, ignored: Matcher) -> bool:
    return module.endswith((".gate", ".router")) or ignored(module)


def _listed(config: Mapping[str, Any], *keys: str) -> list[str]:
    """Names in the first of several lists that is there."""
    found: list[str] = []
    for key in keys:
        value = config.get(key)
        if isinstance(value, list):
            found += [item for item in value if isinstance(item, str)]
    return found


def _kv(config: Mapping[str, Any]) -> str:
    algorithm = str(config.get("kv_cache_quant_algo") or "").lower()
    scheme = config.get("kv_cache_scheme")
    bits = scheme.get("num_bits") if isinstance(scheme, Mapping) else None
    if "fp8" in algorithm or bits == 8:
        return "fp8"
    return "nvfp4" if "nvfp4" in algorithm or bits == 4 else WIDE


def _fp8(config: Mapping[str, Any], data: Mapping[str, Any]) -> Scheme:
    blocks = config.get("weight_block_size")
    name = "fp8_block" if isinstance(blocks, list) and blocks else "fp8"
    plain = _uniform(name, config, kept=("modules_to_not_convert", "ignored_layers"), activations="fp8")
    if str(data.get("expert_dtype") or config.get("expert_dtype")).lower() != "fp4":
        return plain
    return Scheme(lambda module: "mxfp4" if ".experts." in module else plain.format_of(module), "fp8", plain.kv)


def _integer(bits: Any, group: Any) -> str:
    """Format of groups of integers with a 16-bit scale."""
    if bits == 8:
        return "int8_g128" if isinstance(group, int) and group > 0 else "int8"
    if bits == 4:
        return f"int4_g{group}" if group in (32, 64, 128) else "int4_g128"
    if bits == 3:
        return "int3_g128"
    raise SpecError(f"bits {bits!r}")


def _grouped(config: Mapping[str, Any]) -> Scheme:
    bits = config.get("bits", config.get("w_bit"))
    group = config.get("group_size", config.get("q_group_size"))
    return _uniform(_integer(bits, group), config, kept=("modules_to_not_convert", "modules_in_block_to_not_quantize"))


def _bitsandbytes(config: Mapping[str, Any]) -> Scheme:
    name = "int8" if config.get("load_in_8bit") or config.get("_load_in_8bit") else "nf4"
    return _uniform(name, config, kept=("llm_int8_skip_modules",))


def _of_weights(weights: Mapping[str, Any]) -> str:
    """Format of a ``weights`` entry: bits, type, group."""
    bits, kind, group = weights.get("num_bits"), str(weights.get("type")), weights.get("group_size")
    if kind == "float" and bits == 4:
        return "mxfp4" if group == 32 else "nvfp4"
    if kind == "float" and bits == 8:
        return "mxfp8" if group == 32 else "fp8_block" if weights.get("strategy") == "block" else "fp8"
    symmetric = bits == 4 and weights.get("symmetric") and group in (32, 128)
    return f"int4_g{group}_sym" if symmetric else _integer(bits, group)


def _compressed_tensors(config: Mapping[str, Any]) -> Scheme:
    """llm-compressor and ModelOpt's newer files: groups with targets, and an ``ignore`` list."""
    groups = config.get("config_groups")
    if not isinstance(groups, Mapping) or not groups:
        raise SpecError("config_groups is missing")
    ignored = matcher(_listed(config, "ignore"))
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
        if module.startswith("embed") or _kept(module, ignored):
            return WIDE
        return next((name for wanted, name in rules if wanted is None or wanted(module)), WIDE)

    return Scheme(format_of, activations, _kv(config))


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
    "w4a16_awq": ("int4_g128", WIDE),
    "int4_awq": ("int4_g128", WIDE),
    "w4a8_awq": ("int4_g128", "fp8"),
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


def _modelopt(config: Mapping[str, Any]) -> Scheme:
    weights, activations = _algorithm(config.get("quant_algo"))
    ignored = matcher(_listed(config, "exclude_modules", "ignore"))
    return Scheme(
        lambda module: WIDE if module.startswith("embed") or _kept(module, ignored) else weights,
        activations,
        _kv(config),
    )


def _mixed(config: Mapping[str, Any]) -> Scheme:
    """A format for each module by name; what is not named is as the rest of the file says, or kept."""
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
    return Scheme(format_of, fed, _kv(config))


def _quark(config: Mapping[str, Any]) -> Scheme:
    """AMD Quark: a global configuration of weights and inputs, and an ``exclude`` list."""
    overall = config.get("global_quant_config")
    if not isinstance(overall, Mapping) or not isinstance(overall.get("weight"), Mapping):
        raise SpecError("global_quant_config has no weight")
    name = _quark_format(overall["weight"])
    inputs = overall.get("input_tensors")
    fed = _quark_format(inputs) if isinstance(inputs, Mapping) else WIDE
    ignored = matcher(_listed(config, "exclude"))
    kv = config.get("kv_cache_quant_config") or _listed(config, "kv_cache_group")
    return Scheme(
        lambda module: WIDE if module.startswith("embed") or _kept(module, ignored) else name,
        fed,
        "fp8" if kv else WIDE,
    )


def _quark_format(entry: Mapping[str, Any]) -> str:
    kind = str(entry.get("dtype")).lower()
    if "fp4" in kind:
        return "mxfp4"
    if "fp6" in kind:
        return "mxfp6"
    if "fp8" in kind:
        return "mxfp8" if entry.get("group_size") == 32 else "fp8"
    if "int4" in kind or "uint4" in kind:
        return _integer(4, entry.get("group_size"))
    if "int8" in kind:
        return "int8"
    raise SpecError(f"dtype {entry.get('dtype')!r}")
