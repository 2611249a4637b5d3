"""Number formats: what a stored value costs in bits, scales included, and on which units it is multiplied.

A block format stores a scale (and sometimes a zero point) for every block of values, and those bits are real bytes:

    bits per value = bits of the value + (bits of scale + bits of zero point) / block length

==========  =====================================================  ==============================================
format      bits per value                                         source
==========  =====================================================  ==============================================
fp8_block   8 + 32 / (128 * 128) = 8.002                           DeepSeek-V3 report, section 3.3.2: fp32 per tile
mxfp8       8 + 8 / 32 = 8.25                                      OCP Microscaling Formats v1.0, table 1
mxfp6       6 + 8 / 32 = 6.25                                      same
mxfp4       4 + 8 / 32 = 4.25                                      same
nvfp4       4 + 8 / 16 = 4.5                                       NVIDIA: e4m3 scale for 16 values
int4_g128   4 + (16 + 4) / 128 = 4.156                             GPTQ, AWQ: fp16 scale, 4-bit zero point
int4_g32    4 + (16 + 4) / 32 = 4.625                              same with groups of 32
..._sym     4 + 16 / 128 = 4.125, 4 + 16 / 32 = 4.5                compressed-tensors: a scale and no zero point
nf4         4 + 8 / 64 + 32 / (64 * 256) = 4.127                   QLoRA, section 3: double quantization
q4_0 ...    (bytes of the block) * 8 / values of the block         ggml block layouts
q4_k_m ...  measured size of Llama-3.1-8B / its weights            llama.cpp, tools/quantize/README.md
==========  =====================================================  ==============================================
"""

from __future__ import annotations

from dataclasses import dataclass

from .errors import InvalidInput, unknown


@dataclass(frozen=True)
class Format:
    """A number format.

    Attributes
    ----------
    name : as the field writes it
    bits : stored bits a value, scales and zero points included
    math : the units that multiply it, or None when it is only ever a storage format, expanded before the multiply
    whole_model : whether its bits are the average over every tensor of a file, embedding and lm_head included
    """

    name: str
    bits: float
    math: str | None
    whole_model: bool = False


def _block(name: str, bits: float, math: str | None, *, scale_bits: float = 0, values: int = 1) -> Format:
    return Format(name, bits + scale_bits / values, math)


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
    _block("int8_g128", 8, "int8", scale_bits=16, values=128),
    _block("int4_g128", 4, "int4", scale_bits=16 + 4, values=128),
    _block("int4_g64", 4, "int4", scale_bits=16 + 4, values=64),
    _block("int4_g32", 4, "int4", scale_bits=16 + 4, values=32),
    _block("int4_g128_sym", 4, "int4", scale_bits=16, values=128),
    _block("int4_g32_sym", 4, "int4", scale_bits=16, values=32),
    _block("int3_g128", 3, None, scale_bits=16 + 3, values=128),
    _block("nf4", 4 + 8 / 64, None, scale_bits=32, values=64 * 256),
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
    _ggml("iq4_nl", 18, 32),
    _ggml("iq4_xs", 136, 256),
)
_MIXES = tuple(
    Format(name, bits, None, whole_model=True)
    for name, bits in {
        "q3_k_s": 3.6429,
        "q3_k_l": 4.2979,
        "q4_k_s": 4.6672,
        "q4_k_m": 4.8944,
        "q5_k_s": 5.5704,
        "q5_k_m": 5.7036,
    }.items()
)

FORMATS: dict[str, Format] = {item.name: item for item in (*_PLAIN, *_BLOCKS, *_GGML, *_MIXES)}
"""Every known format by name."""

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
"""Math units that can stand in for missing ones, the nearest first."""

MATH_FORMATS = tuple(WIDER)


def get_format(name: object) -> Format:
    """The format of that name.

    Raises
    ------
    UnknownName
        Nothing has that name; the message offers the nearest.
    """
    if isinstance(name, str):
        found = FORMATS.get(name) or FORMATS.get(name.lower().replace("-", "_"))
        if found:
            return found
    raise unknown("number format", name, FORMATS)


def math_format(weights: Format, activations: Format) -> str:
    """The units on which ``weights`` times ``activations`` is computed, before any chip is asked whether it has them.

    Weights narrower than the activations are expanded to the activations' format before the multiply, so weight-only
    quantization leaves the math where it was.  Weights wider than the activations decide instead.

    Raises
    ------
    InvalidInput
        The activations are in a storage-only format.
    """
    if activations.math is None:
        raise InvalidInput(f"activations can't be {activations.name!r}: it is a storage format for weights")
    if weights.math is not None and weights.bits >= 16 and weights.bits > activations.bits:
        return weights.math
    return activations.math
