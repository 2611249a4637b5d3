"""Shapes of encoders of sound that decide their work; `speech_towers` and `audio_encoders` count their parameters."""

from __future__ import annotations

from dataclasses import replace

from ..model.tower import Product, Tower
from .audio_encoders import eighth, width_of
from .fields import Fields
from .resampler_shapes import query_former
from .tower_parts import Chain, first, products
from .wrapper import Wrapper

WINDOW_S = 30.0
"""Seconds of sound in a window of Whisper's encoder, which Audio Flamingo and GLM-ASR keep."""


# Sound


def like_whisper(at: Wrapper, *, merge: int, projector: Chain) -> Tower:
    """Two convolutions, the second of stride 2, in windows of 30 seconds."""
    fields, width = at.encoder, width_of(at.encoder)
    positions = fields.optional("max_source_positions") or fields.optional("max_position_embeddings") or 1500
    return Tower(
        hidden=width,
        intermediate=first(fields, "encoder_ffn_dim", "intermediate_size"),
        layers=first(fields, "encoder_layers", "num_hidden_layers"),
        heads=first(fields, "encoder_attention_heads", "num_attention_heads"),
        kv_heads=fields.optional("num_key_value_heads"),
        stem=(Product(3 * fields.size("num_mel_bins"), width, 2), Product(3 * width, width)),
        projector=projector,
        merge=merge,
        positions=positions,
        window_s=WINDOW_S,
    )


def audio_flamingo(at: Wrapper) -> Tower:
    """Audio Flamingo 3: pairs of positions are averaged."""
    return like_whisper(at, merge=2, projector=products(width_of(at.encoder), at.hidden, at.hidden))


def glm_asr(at: Wrapper) -> Tower:
    """GLM-ASR: four positions side by side."""
    return like_whisper(at, merge=4, projector=products(at.encoder.size("intermediate_size"), 2 * at.hidden, at.hidden))


def voxtral_realtime(at: Wrapper) -> Tower:
    """Voxtral Realtime: gated MLPs; windows of ``sliding_window`` positions of 20 ms."""
    merge = at.outer.optional("downsample_factor") or 4
    chain = products(width_of(at.encoder) * merge, at.hidden, at.hidden)
    whole = like_whisper(at, merge=merge, projector=chain)
    positions = at.encoder.optional("sliding_window") or 750
    return replace(
        whole,
        gated=True,
        head_dim=at.encoder.size("head_dim"),
        positions=positions,
        window_s=positions / 50,
    )


def dots3_note_audio(at: Wrapper) -> Tower:
    """dots.note: three convolutions that halve both axes, gated MLPs, and all of the sound sees itself."""
    fields, width = at.encoder, at.encoder.size("hidden_size")
    between, bins = fields.size("downsample_hidden_size"), fields.optional("feature_size") or 128
    half, quarter = (bins + 1) // 2, (bins + 3) // 4
    stem = (
        Product(9, between, 4 * half),
        Product(9 * between, between, 2 * quarter),
        Product(9 * between, between, eighth(bins)),
        Product(fields.size("conv_output_size"), width),
    )
    out = fields.size("adapter_out_dim")
    return Tower(
        hidden=width,
        intermediate=fields.size("intermediate_size"),
        layers=fields.size("num_hidden_layers"),
        heads=fields.size("num_attention_heads"),
        kv_heads=fields.optional("num_key_value_heads"),
        head_dim=fields.size("head_dim"),
        gated=True,
        stem=stem,
        projector=products(width, out, out),
        positions=375,
        window_s=WINDOW_S,
    )


def conformer(at: Wrapper) -> Tower:
    """Granite Speech: two MLPs and a gated convolution of a layer are one MLP of their total width.

    A frame of 20 ms is a position; ``context_size`` of them see each other.
    """
    fields = at.encoder
    width = fields.size("hidden_dim")
    wide = width * (fields.optional("conv_expansion_factor") or 2)
    inner = 2 * width * (fields.optional("feedforward_mult") or 4) + 3 * wide // 2
    former, merge = at.part("projector_config"), at.outer.optional("downsample_rate") or 5
    return Tower(
        hidden=width,
        intermediate=inner,
        layers=fields.size("num_layers"),
        heads=fields.size("num_heads"),
        head_dim=fields.size("dim_head"),
        stem=(Product(fields.size("input_dim"), width),),
        projector=(*query_former(former, merge), Product(former.size("hidden_size"), at.hidden)),
        merge=merge,
        positions=fields.optional("context_size") or 200,
        window_s=(fields.optional("context_size") or 200) / 50,
    )


def usm(at: Wrapper) -> Tower:
    """Gemma 3n's encoder (arXiv:2303.01037): conformer layers as in `conformer`, on positions of 40 ms.

    A token is ``conf_reduction_factor`` positions.
    """
    fields = at.encoder
    width, bins = fields.size("hidden_size"), fields.size("input_feat_size")
    reduction = fields.optional("conf_reduction_factor") or 4
    return _usm(
        at,
        layers=fields.size("conf_num_hidden_layers"),
        heads=fields.size("conf_num_attention_heads"),
        chunk=fields.optional("conf_attention_chunk_size") or 12,
        stem=_strided(fields.entries("sscp_conv_channel_size"), bins, width),
        merge=reduction,
        projector=products(width, at.hidden),
    )


def gemma4_sound(at: Wrapper) -> Tower:
    """Gemma 4's encoder: Gemma 3n's, and each of its positions is a token."""
    fields = at.encoder
    width, channels = fields.size("hidden_size"), fields.entries("subsampling_conv_channels")
    bins = Fields({"bins": (channels or [128])[0]}, {}).size("bins")
    return _usm(
        at,
        layers=fields.size("num_hidden_layers"),
        heads=fields.size("num_attention_heads"),
        chunk=fields.optional("attention_chunk_size") or 12,
        stem=_strided(channels, bins, width),
        merge=1,
        projector=products(width, fields.size("output_proj_dims"), at.hidden),
    )


def _usm(at: Wrapper, *, layers: int, heads: int, chunk: int, stem: Chain, merge: int, projector: Chain) -> Tower:
    """Layers in which a position sees its chunk and the one before, in stretches of four chunks."""
    width = at.encoder.size("hidden_size")
    return Tower(
        hidden=width,
        intermediate=8 * width + 3 * width // 2,
        layers=layers,
        heads=heads,
        stem=stem,
        projector=projector,
        merge=merge,
        positions=4 * chunk,
        window=2 * chunk,
        windowed_layers=layers,
        window_s=4 * chunk / 25,
    )


def _strided(channels: list[int] | None, bins: int, width: int) -> Chain:
    """Two convolutions of 3 x 3 that halve time and mel bins, then a matrix over what is left of the bins."""
    one, two = channels or [128, 32]
    return (Product(9, one, 2 * (bins // 2)), Product(9 * one, two, bins // 4), Product(two * (bins // 4), width))


def phi4_sound(at: Wrapper) -> Tower:
    """Phi-4-multimodal (arXiv:2503.01743): conformer layers on positions of 80 ms, in windows of 40 seconds.

    Both MLPs of a layer are gated.  Its gated convolution has four matrices as wide as the layer, which are as many as
    an MLP of four thirds of that width.
    """
    fields = at.encoder
    width, channels = fields.size("hidden_size"), fields.size("nemo_conv_channels")
    bins = fields.optional("input_size") or 80
    stem = (
        Product(9, channels, 4 * (bins // 2)),
        Product(channels, channels, 2 * (bins // 4)),
        Product(channels, channels, bins // 8),
        Product(channels * fields.size("nemo_final_size"), width),
    )
    return Tower(
        hidden=width,
        intermediate=2 * fields.size("intermediate_size") + 4 * width // 3,
        layers=fields.size("num_blocks"),
        heads=fields.size("num_attention_heads"),
        gated=True,
        stem=stem,
        projector=products(width, at.hidden, at.hidden),
        positions=500,
        window_s=40.0,
    )


# Sound


def qwen_omni_audio(at: Wrapper) -> Tower:
    """Qwen2.5-Omni: chunks of ``2 n_window`` frames of 10 ms by themselves, two positions averaged to a token."""
    fields, width = at.encoder, width_of(at.encoder)
    frames = 2 * (fields.optional("n_window") or 100)
    stem = (Product(3 * fields.size("num_mel_bins"), width, 2), Product(3 * width, width))
    return _sound(fields, stem, frames // 2, frames, merge=2, projector=products(width, fields.size("output_dim")))


def qwen3_omni_audio(at: Wrapper) -> Tower:
    """Qwen3-Omni: three convolutions that halve both axes; ``n_window_infer`` frames of 10 ms see each other."""
    fields, width = at.encoder, width_of(at.encoder)
    between, bins = fields.size("downsample_hidden_size"), fields.size("num_mel_bins")
    chunk, frames = 2 * (fields.optional("n_window") or 50), fields.optional("n_window_infer") or 800
    half, quarter = (bins + 1) // 2, (bins + 3) // 4
    stem = (
        Product(9, between, 4 * half),
        Product(9 * between, between, 2 * quarter),
        Product(9 * between, between, eighth(bins)),
        Product(between * eighth(bins), width),
    )
    positions = max(frames // chunk, 1) * eighth(chunk)
    return _sound(fields, stem, positions, frames, projector=products(width, width, fields.size("output_dim")))


def _sound(fields: Fields, stem: Chain, positions: int, frames: int, *, projector: Chain, merge: int = 1) -> Tower:
    return Tower(
        hidden=width_of(fields),
        intermediate=fields.size("encoder_ffn_dim"),
        layers=fields.size("encoder_layers"),
        heads=fields.size("encoder_attention_heads"),
        stem=stem,
        projector=projector,
        merge=merge,
        positions=positions,
        window_s=frames / 100,
    )


SOUND_SHAPES = {
    **dict.fromkeys(["audioflamingo3", "musicflamingo"], audio_flamingo),
    "dots3_note": dots3_note_audio,
    "gemma3n": usm,
    "gemma4": gemma4_sound,
    "glmasr": glm_asr,
    **dict.fromkeys(["granite_speech", "granite_speech_plus"], conformer),
    "phi4_multimodal": phi4_sound,
    "voxtral_realtime": voxtral_realtime,
}
"""Wrapper -> shape of its tower for sound."""
