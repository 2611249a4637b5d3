"""Number formats: bits per stored value, including scales, and the units that multiply them.

A block format stores a scale (and sometimes a zero point) for every block of values, which counts as well:

    bits per value = bits of the value + (bits of scale + bits of zero point) / block length

============  =====================================================  ==============================================
format        bits per value                                         source
============  =====================================================  ==============================================
fp8_block     8 + 32 / (128 * 128) = 8.002                           DeepSeek-V3 report, section 3.3.2: fp32 per tile
fp8_g128 ..   8 + 16 / group                                         compressed-tensors: a scale a group
mxfp8         8 + 8 / 32 = 8.25                                      OCP Microscaling Formats v1.0, table 1
mxfp6         6 + 8 / 32 = 6.25                                      same
mxfp4         4 + 8 / 32 = 4.25                                      same
nvfp4         4 + 8 / 16 = 4.5                                       NVIDIA: e4m3 scale for 16 values
int4_g128     4 + (16 + 4) / 128 = 4.156                             GPTQ, AWQ: fp16 scale, 4-bit zero point
int4_g32      4 + (16 + 4) / 32 = 4.625                              same with groups of 32
..._sym       4 + 16 / 128 = 4.125, 4 + 16 / 32 = 4.5                compressed-tensors: a scale and no zero point
nf4           4 + 8 / 64 + 32 / (64 * 256) = 4.127                   QLoRA, section 3: double quantization
nf4_single    4 + 32 / 64 = 4.5                                      bitsandbytes without double quantization
int3_g64 ..   bits + (16 + bits) / group, ..._sym bits + 16 / group  GPTQ, AWQ; compressed-tensors without a zero point
affine4_g64   bits + (16 + 16) / group                               MLX, HQQ, torchao: scale and offset of 16 bits each
exl3_3.5      bits, with 16 bits a row and column                    ExLlamaV3: trellis-coded tiles
q4_0 ...      (bytes of the block) * 8 / values of the block         ggml block layouts
q4_k_m ...    measured size of Llama-3.1-8B / its weights            llama.cpp, tools/quantize/README.md
q3_k_m        4.02 GB of the same model / its weights = 4.0          bartowski/Meta-Llama-3.1-8B-Instruct-GGUF
q2_k_mix ...  a file called Q2_K, with wider tensors in it           llama.cpp, tools/quantize/README.md
============  =====================================================  ==============================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import gcd

from .errors import InvalidInput, UnknownName, unknown


@dataclass(frozen=True)
class Format:
    """A number format.

    Attributes
    ----------
    name : str
        Usual spelling of the name.
    bits : float
        Stored bits per value, scales and zero points included.
    math : str, optional
        Format of the units that multiply it; None for storage formats, which are expanded before multiplying.
    whole_model : bool
        Whether ``bits`` is the average over all tensors of a file, including embedding and lm_head.
    written_wide : bool
        Whether a kernel of its own writes the weights in 16 bits before each product of several rows.
    """

    name: str
    bits: float
    math: str | None
    whole_model: bool = False
    written_wide: bool = False


def _block(name: str, bits: float, math: str | None, *, scale_bits: float = 0, values: int = 1) -> Format:
    return Format(name, bits + scale_bits / values, math)


def _bitsandbytes(name: str, bits: float, *, scale_bits: float, values: int) -> Format:
    return Format(name, bits + scale_bits / values, None, written_wide=True)


def _ggml(name: str, block_bytes: int, values: int) -> Format:
    return Format(name, block_bytes * 8 / values, None, whole_model=True)


_PLAIN = (
    Format("fp32", 32, "fp32"),
    Format("tf32", 32, "tf32"),
    Format("bf16", 16, "bf16"),
    Format("fp16", 16, "fp16"),
    Format("fp8", 8, "fp8"),
    Format("int8", 8, "int8"),
    Format("fp6", 6, "fp6"),
    Format("int4", 4, "int4"),
    Format("fp4", 4, "fp4"),
)
_BLOCKS = (
    _block("fp8_block", 8, "fp8", scale_bits=32, values=128 * 128),
    _block("mxfp8", 8, "fp8", scale_bits=8, values=32),
    _block("mxfp6", 6, "fp6", scale_bits=8, values=32),
    _block("mxfp4", 4, "fp4", scale_bits=8, values=32),
    _block("nvfp4", 4, "fp4", scale_bits=8, values=16),
    _block("int8_g128", 8, "int8", scale_bits=16 + 8, values=128),
    _block("int4_g128", 4, "int4", scale_bits=16 + 4, values=128),
    _block("int4_g64", 4, "int4", scale_bits=16 + 4, values=64),
    _block("int4_g32", 4, "int4", scale_bits=16 + 4, values=32),
    _block("int4_g128_sym", 4, "int4", scale_bits=16, values=128),
    _block("int4_g32_sym", 4, "int4", scale_bits=16, values=32),
    _block("int3_g128", 3, None, scale_bits=16 + 3, values=128),
    _bitsandbytes("nf4", 4 + 8 / 64, scale_bits=32, values=64 * 256),
    _bitsandbytes("nf4_single", 4, scale_bits=32, values=64),
)
_GGML = (
    _ggml("q4_0", 18, 32),
    _ggml("q4_1", 20, 32),
    _ggml("q5_0", 22, 32),
    _ggml("q5_1", 24, 32),
    _ggml("q8_0", 34, 32),
    _ggml("q2_k", 84, 256),
    _ggml("q3_k", 110, 256),
    _ggml("q4_k", 144, 256),
    _ggml("q5_k", 176, 256),
    _ggml("q6_k", 210, 256),
    _ggml("q8_1", 40, 32),
    _ggml("q8_k", 292, 256),
    _ggml("iq1_s", 50, 256),
    _ggml("iq1_m", 56, 256),
    _ggml("iq2_xxs", 66, 256),
    _ggml("iq2_xs", 74, 256),
    _ggml("iq2_s", 82, 256),
    _ggml("iq3_xxs", 98, 256),
    _ggml("iq3_s", 110, 256),
    _ggml("iq4_nl", 18, 32),
    _ggml("iq4_xs", 136, 256),
    _ggml("tq1_0", 54, 256),
    _ggml("tq2_0", 66, 256),
)
_MIXES = tuple(
    Format(name, bits, None, whole_model=True)
    for name, bits in {
        "iq1_s_mix": 2.0042,
        "iq1_m_mix": 2.1460,
        "iq2_xxs_mix": 2.3824,
        "iq2_xs_mix": 2.5882,
        "iq2_s_mix": 2.7403,
        "iq2_m": 2.9294,
        "iq3_xxs_mix": 3.2548,
        "iq3_xs": 3.4977,
        "iq3_s_mix": 3.6606,
        "iq3_m": 3.7628,
        "q2_k_s": 2.9697,
        "q2_k_mix": 3.1593,
        "q3_k_s": 3.6429,
        "q3_k_m": 4.0,
        "q3_k_l": 4.2979,
        "q4_k_s": 4.6672,
        "q4_k_m": 4.8944,
        "q5_k_s": 5.5704,
        "q5_k_m": 5.7036,
    }.items()
)

FORMATS: dict[str, Format] = {item.name: item for item in (*_PLAIN, *_BLOCKS, *_GGML, *_MIXES)}
"""Every known format by name."""

SCHEMES: dict[str, str] = {
    "awq": "int4_g128",
    "gptq": "int4_g128",
    "w4a16": "int4_g128_sym",
    "w8a16": "int8",
    "w8a8": "int8",
    "w8a8_fp8": "fp8",
    "bnb": "nf4_single",
    "float32": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float8": "fp8",
    "float8_e4m3fn": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
}
"""Quantization scheme or framework -> format of the stored weights in its usual configuration."""

WIDER: dict[str, tuple[str, ...]] = {
    "int4": ("int8", "bf16", "fp16", "tf32", "fp32"),
    "fp4": ("fp6", "fp8", "bf16", "fp16", "tf32", "fp32"),
    "fp6": ("fp8", "bf16", "fp16", "tf32", "fp32"),
    "fp8": ("bf16", "fp16", "tf32", "fp32"),
    "int8": ("bf16", "fp16", "tf32", "fp32"),
    "bf16": ("fp16", "tf32", "fp32"),
    "fp16": ("bf16", "tf32", "fp32"),
    "tf32": ("fp32",),
    "fp32": (),
}
"""Math format -> wider formats that can replace it if a chip has no units for it, nearest first."""

MATH_FORMATS = tuple(WIDER)


def list_formats() -> list[str]:
    """List the names of all number formats: plain ones, those with scales per block, then GGUF types and mixtures.

    `get_format` also knows other group sizes and bit widths, and schemes such as ``awq``.

    Examples
    --------
    >>> [name for name in list_formats() if name.startswith("mxfp")]
    ['mxfp8', 'mxfp6', 'mxfp4']
    """
    return list(FORMATS)


def get_format(name: object) -> Format:
    """Return the format with the given name.

    Besides the names in `FORMATS`, these families are accepted with any numbers:

    ====================  =========================================================================================
    ``int3_g64``          integers in groups that share a 16-bit scale and a zero point of as many bits (GPTQ, AWQ)
    ``int4_g64_sym``      the same without a zero point
    ``affine4_g64``       integers in groups that share a scale and an offset of 16 bits each (MLX, HQQ, torchao)
    ``fp8_block64x128``   8-bit floats in tiles that share a 32-bit scale
    ``fp8_g128``          8-bit floats in groups that share a 16-bit scale (compressed-tensors)
    ``exl3_3.5``          ExLlamaV3 with that many bits a weight on average
    ``nvfp4*3+bf16*1``    a mixture: of every 4 values 3 are stored in the first format, 1 in the second
    ``awq``, ``w4a16``    the format that a quantization scheme stores (see `SCHEMES`)
    ====================  =========================================================================================

    Parameters
    ----------
    name : str
        Name in any case; ``-`` and ``_`` are equivalent.

    Raises
    ------
    UnknownName
        The name is unknown; the message suggests the nearest.

    Examples
    --------
    >>> get_format("affine4_g64").bits, get_format("nvfp4*3+bf16*1").bits
    (4.5, 7.375)
    """
    if isinstance(name, str):
        found = FORMATS.get(name) or _derived(name.lower().replace("-", "_"))
        if found:
            return found
    raise unknown("number format", name, FORMATS)


CACHED = {"int4": "affine4_g128"}
"""Format of a KV cache -> format that is stored.

A cache of 4-bit integers keeps a scale and an offset of 16 bits for each head of 128 values of each token (LMDeploy's
``quant_policy=4``; KIVI, arXiv:2402.02750, section 3; QServe, arXiv:2405.04532, section 5)."""


def cache_format(name: object) -> Format:
    """Return the storage format of a KV cache, including scales.

    Raises
    ------
    UnknownName
        The format is unknown.

    Examples
    --------
    >>> cache_format("int4").bits, cache_format("fp8").bits
    (4.25, 8)
    """
    found = get_format(name)
    return get_format(CACHED.get(found.name, found.name))


_INTEGER = re.compile(r"int([1-8])_g(\d{1,5})(_sym)?")
_AFFINE = re.compile(r"affine([1-8])_g(\d{1,5})")
_TILES = re.compile(r"fp8_block(\d{1,5})x(\d{1,5})")
_GROUPED = re.compile(r"fp8_g(\d{1,5})")
_EXL3 = re.compile(r"exl3_(\d(?:\.\d{1,4})?)")
_INTEGER_MATH = {4: "int4", 8: "int8"}
"""Integer widths that some chips multiply directly; others are expanded first."""


@lru_cache(maxsize=1024)
def _derived(name: str) -> Format | None:
    """The format that a name describes by its numbers; None if it does not match any family."""
    name = SCHEMES.get(name, name)
    if name in FORMATS:
        return FORMATS[name]
    if "+" in name:
        return _mixture(name)
    if found := _INTEGER.fullmatch(name):
        bits, group = int(found[1]), int(found[2])
        shared_bits = 16 if found[3] else 16 + bits
        if group:
            return _block(name, bits, _INTEGER_MATH.get(bits), scale_bits=shared_bits, values=group)
        return None
    if found := _AFFINE.fullmatch(name):
        bits, group = int(found[1]), int(found[2])
        if group:
            return _block(name, bits, _INTEGER_MATH.get(bits), scale_bits=16 + 16, values=group)
        return None
    if found := _TILES.fullmatch(name):
        values = int(found[1]) * int(found[2])
        if values:
            return _block(name, 8, "fp8", scale_bits=32, values=values)
        return None
    if found := _GROUPED.fullmatch(name):
        if int(found[1]):
            return _block(name, 8, "fp8", scale_bits=16, values=int(found[1]))
        return None
    if found := _EXL3.fullmatch(name):
        return Format(name, float(found[1]), None) if float(found[1]) > 0 else None
    return None


def scale_tile(name: str) -> tuple[int, int]:
    """Size of the blocks of a weight matrix that share a scale and cannot be divided between devices.

    Parameters
    ----------
    name : str
        Name of the format.

    Returns
    -------
    tuple of int
        Block size along the inputs and along the outputs; 1 if any division is possible. Kernels pad MXFP4 weights, and
        GGUF types and mixtures are not divided this way.

    Examples
    --------
    >>> scale_tile("int4_g128"), scale_tile("fp8_block"), scale_tile("fp8")
    ((128, 1), (128, 128), (1, 1))
    """
    if found := _TILES.fullmatch(name):
        return int(found[1]), int(found[2])
    if found := re.fullmatch(r"(?:(?:int|affine)[1-8]|fp8)_g(\d{1,5})(?:_sym)?", name):
        return int(found[1]), 1
    return {"fp8_block": (128, 128), "nvfp4": (16, 1), "mxfp8": (32, 1), "mxfp6": (32, 1)}.get(name, (1, 1))


def mixture(values_by_format: Mapping[str, int]) -> str:
    """Return the name of a mixture of several formats.

    Parameters
    ----------
    values_by_format : mapping of str to int
        Number of values stored in each format.

    Returns
    -------
    str
        Name accepted by `get_format`, with the largest share first. A single format keeps its own name.

    Examples
    --------
    >>> mixture({"bf16": 100, "nvfp4": 300}), mixture({"fp8": 5})
    ('nvfp4*3+bf16*1', 'fp8')
    """
    parts = {name: count for name, count in values_by_format.items() if count}
    if not parts:
        raise InvalidInput("a mixture of formats needs at least one value")
    if len(parts) == 1:
        return next(iter(parts))
    divisor = gcd(*parts.values())
    ordered = sorted(parts, key=lambda name: (-parts[name], name))
    return "+".join(f"{name}*{parts[name] // divisor}" for name in ordered)


def _mixture(name: str) -> Format | None:
    """Format of a mixture: mean bits of the parts, and the math of the largest part."""
    parts: dict[str, int] = {}
    for term in name.split("+"):
        part, _, count = term.partition("*")
        if not count.isdigit() or len(count) > 18 or "+" in part:
            return None
        parts[part] = int(count)
    if not sum(parts.values()):
        return None
    try:
        formats = {part: get_format(part) for part in parts}
    except UnknownName:
        return None
    bits = sum(parts[part] * formats[part].bits for part in parts) / sum(parts.values())
    largest = max(parts, key=lambda part: parts[part])
    return Format(name, bits, formats[largest].math, any(item.whole_model for item in formats.values()))


def math_format(weights: Format, activations: Format) -> str:
    """Return the math format of ``weights`` times ``activations``, on chips that have units for it.

    Weights narrower than the activations are expanded to the activations' format first, so weight-only quantization
    does not change the math.  If the weights are wider, their format is used.

    Raises
    ------
    InvalidInput
        The activations are in a storage-only format.
    """
    if activations.math is None:
        raise InvalidInput(f"activations can't be {activations.name!r}: it is a storage-only format for weights")
    if weights.math is not None and weights.bits >= 16 and weights.bits > activations.bits:
        return weights.math
    return activations.math
