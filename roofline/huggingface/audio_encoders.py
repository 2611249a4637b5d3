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


def width_of(fields: Fields) -> int:
    """Width of the encoder's output."""
    return fields.optional("d_model") or fields.size("hidden_size")
