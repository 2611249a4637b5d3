"""Parameters of audio encoders, counted from their configurations."""

from __future__ import annotations

from ..errors import SpecError
from .fields import Fields
from .vision_encoders import layer, matrix


def whisper(fields: Fields) -> int:
    """Whisper's encoder (arXiv:2212.04356): two convolutions of width 3, a position table, keys without biases."""
    width = fields.optional("d_model") or fields.size("hidden_size")
    inner = fields.optional("encoder_ffn_dim") or fields.size("intermediate_size")
    layers = fields.optional("encoder_layers") or fields.size("num_hidden_layers")
    convolutions = matrix(3 * fields.size("num_mel_bins"), width) + matrix(3 * width, width)
    block = layer(width, inner) - width
    return convolutions + fields.size("max_source_positions") * width + layers * block + 2 * width


def usm(fields: Fields) -> int:
    """Universal speech encoder of Gemma 3n (arXiv:2303.01037)."""
    return _conformer(
        width=fields.size("hidden_size"),
        layers=fields.size("conf_num_hidden_layers"),
        heads=fields.size("conf_num_attention_heads"),
        kernel=fields.optional("conf_conv_kernel_size") or 5,
        channels=_two(fields, "sscp_conv_channel_size"),
        bins=fields.size("input_feat_size"),
    )


def gemma4(fields: Fields) -> int:
    """Audio encoder of Gemma 4: Gemma 3n's with as many mel bins as first-convolution channels, and a last matrix."""
    channels = _two(fields, "subsampling_conv_channels")
    width = fields.size("hidden_size")
    encoder = _conformer(
        width=width,
        layers=fields.size("num_hidden_layers"),
        heads=fields.size("num_attention_heads"),
        kernel=fields.optional("conv_kernel_size") or 5,
        channels=channels,
        bins=channels[0],
    )
    return encoder + matrix(width, fields.size("output_proj_dims"))


def _two(fields: Fields, name: str) -> tuple[int, int]:
    """Channels of both convolutions."""
    listed = fields.entries(name) or [128, 32]
    if len(listed) != 2 or not all(type(each) is int and 0 < each < 1_000_000 for each in listed):
        raise SpecError(f"{name} must be two integers above 0: {listed!r:.80}")
    return listed[0], listed[1]


def _conformer(*, width: int, layers: int, heads: int, kernel: int, channels: tuple[int, int], bins: int) -> int:
    """Two strided convolutions, then conformer layers.

    A layer has two MLPs of four times the width, attention with a projection of relative positions and a scale for each
    value of a head, a gated convolution, and nine norms.
    """
    first, second = channels
    convolutions = 9 * first + first + 9 * first * second + second
    flattened = second * (bins // 4)
    attention = 5 * width**2 + width // heads
    block = attention + 16 * width**2 + 3 * width**2 + kernel * width + 9 * width
    return convolutions + flattened * width + layers * block


def width_of(fields: Fields) -> int:
    """Width of the encoder's output."""
    return fields.optional("d_model") or fields.size("hidden_size")


def qwen_omni_audio(fields: Fields) -> int:
    """Qwen2.5-Omni's: Whisper's encoder without its table of positions; a start, an end and a matrix behind."""
    width, out = width_of(fields), fields.size("output_dim")
    convolutions = matrix(3 * fields.size("num_mel_bins"), width) + matrix(3 * width, width)
    block = layer(width, fields.size("encoder_ffn_dim")) - width
    return convolutions + fields.size("encoder_layers") * block + 2 * width + 2 * out + matrix(width, out)


def qwen3_omni_audio(fields: Fields) -> int:
    """Qwen3-Omni's: three convolutions over both axes, keys with biases, two linear layers behind."""
    width, between = width_of(fields), fields.size("downsample_hidden_size")
    convolutions = matrix(9, between) + 2 * matrix(9 * between, between)
    flattened = between * eighth(fields.size("num_mel_bins")) * width
    blocks = fields.size("encoder_layers") * layer(width, fields.size("encoder_ffn_dim"))
    behind = 2 * width + matrix(width, width) + matrix(width, fields.size("output_dim"))
    return convolutions + flattened + blocks + behind


def eighth(size: int) -> int:
    """Size after three convolutions of stride 2."""
    for _ in range(3):
        size = (size + 1) // 2
    return size


def phi4_audio(fields: Fields) -> int:
    """Phi-4-multimodal's conformer (arXiv:2503.01743): gated MLPs at both ends of a layer, a gated convolution.

    Its frames are a fourth of the mel bins' after convolutions with one filter per channel.
    """
    width, inner, layers = fields.size("hidden_size"), fields.size("intermediate_size"), fields.size("num_blocks")
    between, kernel = fields.size("nemo_conv_channels"), fields.optional("kernel_size") or 3
    first = matrix(9, between) + 2 * (matrix(9, between) + matrix(between, between))
    stem = first + matrix(between * fields.size("nemo_final_size"), width)
    mlp = matrix(width, 2 * inner) + matrix(inner, width) + 2 * width
    attention = 4 * matrix(width, width) + 2 * width
    wide = fields.optional("ext_pw_out_channel") or width
    gate = matrix(width, 2 * wide) + 2 * wide
    convolution = 2 * width + gate + matrix(kernel, width) + matrix(width, wide) + matrix(wide, wide)
    distances = 2 * fields.size("bias_max_distance") * fields.size("num_attention_heads")
    return stem + distances + layers * (2 * mlp + attention + convolution + 2 * width)
