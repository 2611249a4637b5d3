"""Parameters of audio encoders, counted from their configurations."""

from __future__ import annotations

from .fields import Fields
from .vision_encoders import layer, matrix


def whisper(fields: Fields) -> int:
    """Whisper's encoder (arXiv:2212.04356): two convolutions of width 3, a table of positions, keys without biases."""
    width = fields.optional("d_model") or fields.size("hidden_size")
    inner = fields.optional("encoder_ffn_dim") or fields.size("intermediate_size")
    layers = fields.optional("encoder_layers") or fields.size("num_hidden_layers")
    convolutions = matrix(3 * fields.size("num_mel_bins"), width) + matrix(3 * width, width)
    block = layer(width, inner) - width
    return convolutions + fields.size("max_source_positions") * width + layers * block + 2 * width


def usm(fields: Fields) -> int:
    """Universal speech encoder of Gemma 3n (arXiv:2303.01037): two strided convolutions, then conformer layers.

    A layer has two MLPs of four times the width, attention with a projection of relative positions and a scale for each
    value of a head, a gated convolution of width 5, and nine norms.
    """
    width, layers = fields.size("hidden_size"), fields.size("conf_num_hidden_layers")
    kernel = fields.optional("conf_conv_kernel_size") or 5
    first, second = fields.entries("sscp_conv_channel_size") or (128, 32)
    convolutions = 9 * first + first + 9 * first * second + second
    flattened = second * (fields.size("input_feat_size") // 4)
    attention = 5 * width**2 + width // fields.size("conf_num_attention_heads")
    block = attention + 16 * width**2 + 3 * width**2 + kernel * width + 9 * width
    return convolutions + flattened * width + layers * block


def width_of(fields: Fields) -> int:
    """Width of the encoder's output."""
    return fields.optional("d_model") or fields.size("hidden_size")
