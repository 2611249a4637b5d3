"""Schemes that store integers: GPTQ, AWQ, AutoRound, bitsandbytes, HQQ, quanto, torchao, ExLlama, BitNet, HIGGS."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import SpecError
from .module_names import Matcher, matcher
from .quantization_schemes import WIDE, Scheme, affine, integer, uniform


def integer_groups(config: Mapping[str, Any]) -> Scheme:
    """GPTQ and AWQ in their layouts: scales and zero points, even if they are symmetric.

    GPTQ's ``dynamic`` sets other bits or groups for modules by pattern; ``-:`` keeps them in 16 bits.
    """
    plain = integer(*_bits_and_group(config))
    scheme = uniform(plain, config, kept=("modules_to_not_convert", "modules_in_block_to_not_quantize"))
    if config.get("lm_head") is True:
        scheme = _with_rules(scheme, [(matcher(["lm_head"]), plain)])
    dynamic = config.get("dynamic")
    if not isinstance(dynamic, Mapping):
        return scheme
    rules = []
    for pattern, entry in dynamic.items():
        own = entry if isinstance(entry, Mapping) else {}
        name = WIDE if pattern.startswith("-:") else integer(*_bits_and_group({**config, **own}))
        rules.append((matcher([f"re:{pattern.removeprefix('-:').removeprefix('+:')}"]), name))
    return _with_rules(scheme, rules)


def marlin(config: Mapping[str, Any]) -> Scheme:
    """Marlin (arXiv:2408.11743): 4 bits in symmetric groups, scales without zero points."""
    return uniform(integer(4, config.get("group_size", 128), symmetric=True), config, kept=("modules_to_not_convert",))


def _bits_and_group(config: Mapping[str, Any]) -> tuple[Any, Any]:
    return config.get("bits", config.get("w_bit")), config.get("group_size", config.get("q_group_size"))


def _with_rules(scheme: Scheme, rules: list[tuple[Matcher, str]]) -> Scheme:
    """The scheme with other formats for some modules; the first matching rule counts."""

    def format_of(module: str) -> str:
        return next((name for wanted, name in rules if wanted(module)), None) or scheme.format_of(module)

    return replace(scheme, format_of=format_of)


def auto_round(config: Mapping[str, Any]) -> Scheme:
    """AutoRound (arXiv:2309.05516): integers as GPTQ stores them or block floats, ``extra_config`` module by module."""
    plain = _auto_round_format(config)
    fed = plain if plain in ("mxfp4", "mxfp8", "nvfp4", "fp8") and config.get("act_bits") in (4, 8) else WIDE
    scheme = uniform(plain, config, kept=("modules_to_not_convert",), activations=fed)
    extra = config.get("extra_config")
    own: dict[str, list[str]] = {}
    for module, entry in extra.items() if isinstance(extra, Mapping) else ():
        if isinstance(entry, Mapping):
            own.setdefault(_auto_round_format({**config, **entry}), []).append(module)
    return _with_rules(scheme, [(matcher(modules), name) for name, modules in own.items()])


def _auto_round_format(config: Mapping[str, Any]) -> str:
    bits, kind = config.get("bits"), str(config.get("data_type") or "int")
    if isinstance(bits, int) and bits >= 16:
        return WIDE
    if kind.startswith("mx_fp"):
        return "mxfp8" if bits == 8 else "mxfp4"
    if kind.startswith("nv_fp"):
        return "nvfp4"
    if kind.startswith("fp") and bits == 8:
        return "fp8"
    if not kind.startswith("int"):
        raise SpecError(f"data_type {kind!r}")
    return integer(bits, config.get("group_size"))


def bitnet(config: Mapping[str, Any]) -> Scheme:
    """BitNet b1.58 (arXiv:2504.12285): ternary weights in 2 bits, a scale per matrix; activations in 8 bits."""
    return uniform(integer(2, None), config, kept=("modules_to_not_convert",), activations="int8")


def higgs(config: Mapping[str, Any]) -> Scheme:
    """HIGGS (arXiv:2411.17525): points of a grid, a 16-bit scale per group."""
    name = integer(config.get("bits"), config.get("group_size", 256), symmetric=True)
    return uniform(name, config, kept=("modules_to_not_convert",))


def bitsandbytes(config: Mapping[str, Any]) -> Scheme | None:
    """8 bits with a scale per row, or 4 bits in blocks of 64 with a 32-bit scale, optionally quantized (QLoRA)."""
    kept = ("llm_int8_skip_modules",)
    if config.get("load_in_8bit") or config.get("_load_in_8bit"):
        return uniform("int8", config, kept=kept)
    four = [config[key] for key in ("load_in_4bit", "_load_in_4bit") if key in config]
    if four and not any(four):
        return None
    return uniform("nf4" if config.get("bnb_4bit_use_double_quant") else "nf4_single", config, kept=kept)


def quanto(config: Mapping[str, Any]) -> Scheme:
    """optimum-quanto: 8 bits with a scale per row; 4 and 2 bits in groups of 128 with 16-bit scale and shift."""
    wanted = str(config.get("weights") or "int8").lower()
    names = {"int8": "int8", "float8": "fp8", "int4": "affine4_g128", "int2": "affine2_g128"}
    if wanted not in names:
        raise SpecError(f"quanto weights {wanted!r}")
    fed = {"int8": "int8", "float8": "fp8"}.get(str(config.get("activations")).lower(), WIDE)
    return uniform(names[wanted], config, kept=("modules_to_not_convert",), activations=fed)


def hqq(config: Mapping[str, Any]) -> Scheme:
    """HQQ: groups with a scale and a zero point of 16 bits each, in all linear layers except those skipped."""
    inner = config.get("quant_config")
    weights = inner.get("weight_quant_params") if isinstance(inner, Mapping) else None
    if not isinstance(weights, Mapping):
        raise SpecError("hqq without weight_quant_params")
    return uniform(affine(weights.get("nbits"), weights.get("group_size")), config, kept=("skip_modules",))


TORCHAO: dict[str, tuple[str, str]] = {
    "int8weightonly": ("int8", WIDE),
    "int8dynamicactivationint8weight": ("int8", "int8"),
    "int8dynamicactivationint4weight": ("affine4_g32", "int8"),
    "int4weightonly": ("affine4_g128", WIDE),
    "float8weightonly": ("fp8", WIDE),
    "float8dynamicactivationfloat8weight": ("fp8", "fp8"),
    "float8staticactivationfloat8weight": ("fp8", "fp8"),
    "float8dynamicactivationint4weight": ("affine4_g128", "fp8"),
    "mxdynamicactivationmxweight": ("mxfp8", "mxfp8"),
    "nvfp4dynamicactivationnvfp4weight": ("nvfp4", "nvfp4"),
    "nvfp4weightonly": ("nvfp4", WIDE),
    "nvfp4inference": ("nvfp4", "nvfp4"),
    "mxfpinference": ("mxfp8", "mxfp8"),
    "intxweightonly": ("int8", WIDE),
    "uintxweightonly": ("affine4_g64", WIDE),
}
"""torchao configuration, in lower case without ``Config`` and underscores -> formats of weights and activations."""


def torchao(config: Mapping[str, Any]) -> Scheme:
    """torchao: the type by name, or as a serialized configuration; groups have a scale and a zero point of 16 bits."""
    given, options = config.get("quant_type"), config.get("quant_type_kwargs")
    given = given.get("default", given) if isinstance(given, Mapping) else given
    own = _by_name(given)
    if own is not None:
        return _torchao_by_name(own, config)
    name, fed = _torchao_formats(given, options)
    scheme = uniform(name, config, kept=("modules_to_not_convert",), activations=fed)
    if not config.get("include_input_output_embeddings"):
        return scheme
    return Scheme(lambda module: name if module.startswith("embed") else scheme.format_of(module), fed, scheme.kv)


def _torchao_formats(given: Any, options: Any) -> tuple[str, str]:
    """Formats of weights and activations of one serialized configuration, or of a type by name with its options."""
    kind = str(given)
    if isinstance(given, Mapping):
        kind, options = str(given.get("_type")), given.get("_data")
    options = options if isinstance(options, Mapping) else {}
    plain = kind.lower().replace("_", "").removesuffix("config")
    name, fed = TORCHAO.get(plain, ("", ""))
    if not name:
        raise SpecError(f"torchao type {plain!r}")
    dtype = options.get("weight_dtype") or options.get("dtype")
    bits = re.search(r"int([1-8])$", str(dtype.get("_data") if isinstance(dtype, Mapping) else dtype))
    if plain == "intxweightonly" and bits:
        name = integer(int(bits[1]), options.get("group_size"), symmetric=True)
    elif name.startswith("affine") and (bits or options.get("group_size") is not None):
        name = affine(int(bits[1]) if bits else 4, options.get("group_size", 64))
    return name, fed


def _by_name(given: Any) -> Mapping[str, Any] | None:
    """Configurations by module (``FqnToConfig``); None if one holds for all."""
    if not isinstance(given, Mapping) or not isinstance(given.get("_data"), Mapping):
        return None
    for field in ("fqn_to_config", "module_fqn_to_config"):
        own = given["_data"].get(field)
        if isinstance(own, Mapping):
            return own
    return None


def _torchao_by_name(own: Mapping[str, Any], config: Mapping[str, Any]) -> Scheme:
    """Each module by its name or pattern; ``_default`` is all other linear layers, None keeps 16 bits."""
    fallback = own.get("_default")
    name, fed = _torchao_formats(fallback, None) if isinstance(fallback, Mapping) else (WIDE, WIDE)
    scheme = uniform(name, config, kept=("modules_to_not_convert",), activations=fed)
    rules = []
    for pattern, entry in own.items():
        if pattern != "_default" and isinstance(pattern, str):
            its = _torchao_formats(entry, None)[0] if isinstance(entry, Mapping) else WIDE
            rules.append((matcher([pattern]), its))
    return _with_rules(scheme, rules)


def exllama(config: Mapping[str, Any]) -> Scheme:
    """ExLlamaV2 and V3: average bits per weight of the linear layers, and of lm_head separately."""
    bits, head = config.get("bits"), config.get("head_bits", 6)
    if not (_is_width(bits) and _is_width(head)):
        raise SpecError(f"bits {bits!r}, head_bits {head!r}")
    linear, output = f"exl3_{bits:.4g}", f"exl3_{head:.4g}"

    def format_of(module: str) -> str:
        if module.startswith("embed") or module.endswith((".gate", ".router")):
            return WIDE
        return output if module.startswith("lm_head") else linear

    notes = ("bits per weight of an ExLlama checkpoint are an average over its layers",)
    return Scheme(format_of, WIDE, WIDE, notes)


def _is_width(bits: Any) -> bool:
    return isinstance(bits, int | float) and not isinstance(bits, bool) and 1 <= bits <= 9


def eetq(config: Mapping[str, Any]) -> Scheme:
    """EETQ: 8 bits with a scale per row."""
    return uniform("int8", config, kept=("modules_to_not_convert",))
