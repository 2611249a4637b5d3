"""Parameters of towers for sound that differ from Whisper's, with their projectors.

Counts are checked against transformers 5.24.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..errors import SpecError
from .audio_encoders import whisper, width_of
from .fields import Fields
from .image_towers import query_former
from .vision_encoders import layer, matrix
from .wrapper import Wrapper


def glm_asr(at: Wrapper) -> int:
    """GLM-ASR: Whisper's encoder with rotary positions; four frames side by side are as wide as its MLP."""
    fields = at.encoder
    width, inner = fields.size("hidden_size"), fields.size("intermediate_size")
    heads = fields.size("num_attention_heads")
    kv = (fields.optional("num_key_value_heads") or heads) * (width // heads)
    block = layer(width, inner) - 2 * matrix(width, width) + width * kv + matrix(width, kv)
    encoder = _convolutions(fields, width) + fields.size("num_hidden_layers") * block
    return encoder + 2 * width + matrix(inner, 2 * at.hidden) + matrix(2 * at.hidden, at.hidden)


def audio_flamingo(at: Wrapper) -> int:
    """Audio Flamingo 3 (arXiv:2507.08128): Whisper's encoder and two linear layers."""
    bias = at.outer.flag("projector_bias", True)
    behind = matrix(width_of(at.encoder), at.hidden, bias=bias) + matrix(at.hidden, at.hidden, bias=bias)
    return whisper(at.encoder) + behind


def voxtral_realtime(at: Wrapper) -> int:
    """Voxtral Realtime: a causal encoder with windows, RMS norms, gated MLPs, and heads wider than the stream."""
    fields = at.encoder
    width, inner = fields.size("hidden_size"), fields.size("intermediate_size")
    heads, head_dim = fields.size("num_attention_heads"), fields.size("head_dim")
    kv = (fields.optional("num_key_value_heads") or heads) * head_dim
    attention = matrix(width, heads * head_dim) + width * kv + matrix(width, kv) + matrix(heads * head_dim, width)
    block = attention + 3 * width * inner + width + 2 * width
    wide = width * (at.outer.optional("downsample_factor") or 4)
    encoder = _convolutions(fields, width) + fields.size("num_hidden_layers") * block + width
    return encoder + wide * at.hidden + at.hidden**2


def granite_speech(at: Wrapper) -> int:
    """Granite Speech (arXiv:2505.08699): conformer layers with attention in blocks, and a query former.

    Attention has a table of distances.  The characters that the encoder predicts at its middle are fed back.
    """
    fields, former = at.encoder, at.part("projector_config")
    width, heads = fields.size("hidden_dim"), fields.size("num_heads") * fields.size("dim_head")
    inner = width * (fields.optional("feedforward_mult") or 4)
    wide, kernel = width * (fields.optional("conv_expansion_factor") or 2), fields.size("conv_kernel_size")
    characters = fields.size("output_dim")
    mlp = 2 * width + matrix(width, inner) + matrix(inner, width)
    distances = (2 * fields.size("max_pos_emb") + 1) * fields.size("dim_head")
    attention = 2 * width + 3 * width * heads + matrix(heads, width) + distances
    convolution = 2 * width + matrix(width, 2 * wide) + kernel * wide + 2 * wide + matrix(wide, width)
    blocks = fields.size("num_layers") * (2 * mlp + attention + convolution + 2 * width)
    encoder = matrix(fields.size("input_dim"), width) + blocks + matrix(width, characters) + matrix(characters, width)
    window, rate = at.outer.optional("window_size") or 15, at.outer.optional("downsample_rate") or 5
    queries = window // rate * former.size("hidden_size")
    return encoder + queries + query_former(former) + matrix(former.size("hidden_size"), at.hidden)


def omni_asr(at: Wrapper) -> int:
    """Omnilingual ASR: wav2vec 2.0 (arXiv:2006.11477) and a linear layer."""
    return wav2vec2(at.encoder, positions_bias=at.encoder.size("hidden_size")) + matrix(
        at.encoder.size("hidden_size"), at.hidden
    )


def wav2vec2(fields: Fields, *, positions_bias: int) -> int:
    """Convolutions over the waveform with a norm each, a grouped one for positions, and layers with norms before."""
    width, inner = fields.size("hidden_size"), fields.size("intermediate_size")
    widths, kernels = _listed(fields, "conv_dim"), _listed(fields, "conv_kernel")
    bias, before, stem = fields.flag("conv_bias"), 1, 0
    for channels, kernel in zip(widths, kernels, strict=False):
        stem += matrix(before * kernel, channels, bias=bias) + 2 * channels
        before = channels
    groups = fields.size("num_conv_pos_embedding_groups")
    positions = width * (width // groups) * fields.size("num_conv_pos_embeddings") + positions_bias
    blocks = fields.size("num_hidden_layers") * layer(width, inner)
    return stem + 2 * before + matrix(before, width) + positions + blocks + 2 * width


def muse_spark(at: Wrapper) -> int:
    """Muse Spark: four stages that shorten the sound, each with convolutions by channel and MLPs."""
    fields = at.encoder
    widths, lengths, depths = (_listed(fields, name) for name in ("hidden_sizes", "patch_sizes", "depths"))
    kernel, ratio, before, total = fields.size("conv_kernel_size"), fields.get("mlp_ratio") or 4, 1, 0
    for width, length, depth in zip(widths, lengths, depths, strict=False):
        inner = int(width * float(ratio))
        block = kernel * width + width + width + matrix(width, inner) + matrix(inner, width)
        total += matrix(before * length, width) + width + depth * block
        before = width
    out = fields.optional("out_hidden_size") or at.hidden
    return total + before + matrix(before, out) + out


def dots3_note(at: Wrapper) -> int:
    """dots.note: three convolutions over both axes, RMS norms, gated MLPs, keys without biases."""
    fields = at.encoder
    width, inner, between = (fields.size(n) for n in ("hidden_size", "intermediate_size", "downsample_hidden_size"))
    heads, head_dim = fields.size("num_attention_heads"), fields.size("head_dim")
    kv = (fields.optional("num_key_value_heads") or heads) * head_dim
    bias = fields.flag("attention_bias", True)
    attention = matrix(width, heads * head_dim, bias=bias) + width * kv + matrix(width, kv, bias=bias)
    attention += matrix(heads * head_dim, width, bias=bias)
    block = attention + 2 * width + matrix(width, 2 * inner) + matrix(inner, width)
    stem = matrix(9, between) + 2 * matrix(9 * between, between) + fields.size("conv_output_size") * width
    out = fields.size("adapter_out_dim")
    adapter = 2 * width + matrix(width, out) + matrix(out, out)
    return stem + fields.size("num_hidden_layers") * block + width + adapter


def _convolutions(fields: Fields, width: int) -> int:
    """Whisper's two convolutions of width 3."""
    return matrix(3 * fields.size("num_mel_bins"), width) + matrix(3 * width, width)


def _listed(fields: Fields, name: str) -> list[int]:
    """A list of sizes.

    Raises
    ------
    SpecError
        The field is missing, or not a list of integers above 0.
    """
    listed = fields.entries(name)
    if not listed or not all(type(each) is int and 0 < each < 1_000_000 for each in listed):
        raise SpecError(f"{name} must be a list of integers above 0: {listed!r:.80}")
    return listed


SPEECH_TOWERS: Mapping[str, Callable[[Wrapper], int]] = {
    "audioflamingo3": audio_flamingo,
    "dots3_note": dots3_note,
    "glmasr": glm_asr,
    "granite_speech": granite_speech,
    "granite_speech_plus": granite_speech,
    "muse_spark": muse_spark,
    "musicflamingo": audio_flamingo,
    "omniasr": omni_asr,
    "voxtral_realtime": voxtral_realtime,
}
"""Wrapper -> parameters of its tower for sound and its projector."""
