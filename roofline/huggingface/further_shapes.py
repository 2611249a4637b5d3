"""Shapes that decide the work of the towers in `further_towers` and `speech_towers`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..model.tower import Product, Tower
from .audio_encoders import width_of
from .fields import Fields
from .further_towers import CLIP_L_336, ocr_encoders
from .recent_encoders import eighth
from .recent_shapes import got_ocr
from .tower_parts import Chain, first, merged_patches, products, qwen2_5_vl, vit
from .vision_encoders import grid, inner_width, merged_on_a_side
from .wrapper import Wrapper

WINDOW_S = 30.0
"""Seconds of sound in a window of Whisper's encoder, which Audio Flamingo and GLM-ASR keep."""


def cosmos3_edge(at: Wrapper) -> Tower:
    """Cosmos 3 Edge: images of any size, two linear layers over merged patches."""
    merge = merged_patches(at)
    inner = at.outer.size("projector_hidden_size")
    return vit(at, merge=merge, projector=products(at.encoder.size("hidden_size") * merge, inner, at.hidden))


def dots3_note(at: Wrapper) -> Tower:
    """dots.note: experts of the later layers work as dense MLPs of the width that a patch uses."""
    merge, out = merged_patches(at), at.encoder.size("adapter_out_dim")
    wide = at.encoder.size("hidden_size") * merge
    return vit(at, merge=merge, gated=True, projector=products(wide, wide, out))


def molmo2(at: Wrapper) -> Tower:
    """Molmo 2: attention pools four patches of two layers, then a gated MLP for each token."""
    adapter = at.part("adapter_config")
    taken, out = adapter.entries("vision_feature_layer") or [24, 18], adapter.size("hidden_size")
    heads = adapter.size("num_attention_heads") * adapter.size("head_dim")
    wide, inner = out * len(taken), adapter.size("intermediate_size")
    text = adapter.optional("text_hidden_size") or at.hidden
    pool = (Product(wide, 2 * heads, 4), Product(wide, heads), Product(heads, out))
    return vit(
        at, positions=grid(at.encoder), merge=4, projector=(*pool, Product(out, 2 * inner), Product(inner, text))
    )


def muse(at: Wrapper) -> Tower:
    """Muse: images of any size, three matrices over four patches."""
    merge = (at.encoder.optional("merge_size") or 2) ** 2
    between = at.outer.size("projector_hidden_size")
    chain = products(at.outer.size("out_hidden_size"), between, between, at.hidden)
    return vit(at, frames=at.encoder.optional("patch_temporal") or 2, merge=merge, projector=chain)


def radio(at: Wrapper) -> Tower:
    """C-RADIO: class and register tokens beside the patches, two matrices over merged patches."""
    fields = at.encoder
    width, merge = fields.size("hidden_size"), merged_on_a_side(at.outer) ** 2
    extra = (fields.optional("num_cls_tokens") or 0) + (fields.optional("num_registers", least=0) or 0)
    return vit(
        at,
        inner=inner_width(fields, width),
        merge=merge,
        class_tokens=extra,
        projector=products(width * merge, at.outer.size("projector_hidden_size"), at.hidden),
    )


def hyperclovax(at: Wrapper) -> Tower:
    """HyperCLOVA X Vision: Qwen2.5-VL's encoder with its merger, then a linear layer."""
    return qwen2_5_vl(at, at.hidden)


def janus(at: Wrapper) -> Tower:
    """Janus: an image of 384 pixels is one token per patch."""
    fields, out = at.encoder, at.encoder.size("projection_dim")
    chain = products(fields.size("hidden_size"), *[out] * (fields.optional("depth") or 2))
    inner = int(fields.size("hidden_size") * float(fields.get("mlp_ratio") or 4))
    whole = vit(at, inner=inner, positions=grid(fields), projector=chain)
    return replace(whole, layers=fields.size("num_hidden_layers"))


def video_llava(at: Wrapper) -> Tower:
    """Video-LLaVA: an image passes the CLIP for images alone."""
    chain = products(at.encoder.size("hidden_size"), at.hidden, at.hidden)
    return vit(at, positions=grid(at.encoder), class_tokens=1, projector=chain)


def phi3_vision(at: Wrapper) -> Tower:
    """Phi-3-vision: crops of 336 pixels through CLIP's layers but the last, two linear layers over four patches."""
    named = replace_fields(at, CLIP_L_336)
    chain = products(4 * CLIP_L_336["hidden_size"], at.hidden, at.hidden)
    whole = vit(named, positions=grid(named.encoder), class_tokens=1, merge=4, projector=chain)
    return replace(whole, layers=whole.layers - 1)


def idefics2(at: Wrapper) -> Tower:
    """Idefics 2: a gated MLP for each patch, then a few layers of learned queries that attend to all patches.

    In each layer a patch is turned into keys and values, and a query passes attention and a gated MLP.
    """
    perceiver, text = at.part("perceiver_config"), at.part("text_config")
    inner, depth = text.optional("intermediate_size") or 14336, perceiver.optional("resampler_depth") or 3
    head_dim = perceiver.optional("resampler_head_dim") or 96
    heads = (perceiver.optional("resampler_n_heads") or 16) * head_dim
    kv = 2 * (perceiver.optional("num_key_value_heads") or 4) * head_dim
    wide, width = perceiver.optional("hidden_size") or at.hidden, at.encoder.size("hidden_size")
    positions = grid(at.encoder)
    merge = max(positions // (perceiver.optional("resampler_n_latents") or 64), 1)
    patch = (Product(width, 2 * inner, merge), Product(inner, at.hidden, merge))
    block = (
        Product(wide, kv, merge),
        *(Product(wide, heads), Product(heads, wide), Product(wide, 8 * wide), Product(4 * wide, wide)),
    )
    return vit(at, positions=positions, merge=merge, projector=(*patch, *block * depth))


def minicpm4_6(at: Wrapper) -> Tower:
    """MiniCPM-V 4.6: in the middle four patches become one, by attention in a window and two linear layers.

    The layers behind run on a quarter of the positions, which counts as a quarter of their number.  Mergers of four
    positions follow.  With ``downsample_mode: 4x`` the window is skipped.
    """
    fields = at.encoder
    width, inner, layers = (fields.size(n) for n in ("hidden_size", "intermediate_size", "num_hidden_layers"))
    times = at.outer.optional("merger_times") or 1
    merged, merge = 4 * width, 4**times
    mergers: list[Product] = []
    for left in range(times - 1, -1, -1):
        out = at.hidden if left == 0 else width
        mergers += [Product(merged, merged, 4**left), Product(merged, out, 4**left)]
    if at.outer.text("downsample_mode") == "4x":
        return vit(at, merge=merge, projector=tuple(mergers))
    before = min(fields.optional("insert_layer_id", least=0) or layers // 2, layers)
    attention = (Product(width, width, 4 * merge),) * 4
    window = (*attention, Product(merged, 4 * inner, merge), Product(4 * inner, width, merge))
    run = before + max(round((layers - before) / 4), 1)
    return replace(vit(at, merge=4 * merge, projector=(*window, *mergers)), layers=run)


def mllama(at: Wrapper) -> Tower:
    """Llama 3.2 Vision (arXiv:2407.21783, section 7.1): tiles with a class token, features of several layers.

    Its positions stay outside the sequence of the language model; ``image_tokens`` of four tiles make four.
    """
    fields = at.encoder
    layers = fields.size("num_hidden_layers") + fields.size("num_global_layers")
    positions = grid(fields) + 1
    chain = products(fields.size("vision_output_dim"), at.hidden)
    tile = vit(at, positions=positions, projector=chain)
    heads = first(fields, "attention_heads", "num_attention_heads")
    return replace(tile, layers=layers, heads=heads, outside=True)


def deepseek_ocr(at: Wrapper) -> Tower:
    """DeepSeek-OCR: SAM on 4,096 patches, then CLIP's layers on 256 positions, each of which is a token.

    CLIP's matrices are counted for each token; its attention over 257 positions, 4 % of their work, is left out.
    """
    sam, clip = ocr_encoders(at)
    before = got_ocr(at._replace(encoder=sam))
    width, inner, out = clip.size("hidden_size"), clip.size("intermediate_size"), sam.size("output_channels")
    strided = (Product(9 * out, 2 * out, 4), Product(18 * out, width))
    layers = (*products(width, width, width, width, width), *products(width, inner, width)) * clip.size(
        "num_hidden_layers"
    )
    chain = (*before.projector[:2], *strided, *layers, Product(2 * width, at.hidden))
    return replace(before, projector=chain)


def blip2(at: Wrapper) -> Tower:
    """BLIP-2: a class token, and a query former whose queries are the tokens."""
    former = at.part("qformer_config")
    positions = grid(at.encoder)
    merge = max(positions // (at.outer.optional("num_query_tokens") or 32), 1)
    chain = (*query_former(former, merge), Product(former.size("hidden_size"), at.hidden))
    return vit(at, positions=positions, class_tokens=1, merge=merge, projector=chain)


def query_former(fields: Fields, merge: int) -> Chain:
    """Matrices of a query former for each query, with the keys and values of ``merge`` positions."""
    width, inner, layers = (fields.size(n) for n in ("hidden_size", "intermediate_size", "num_hidden_layers"))
    crossing = -(-layers // (fields.optional("cross_attention_frequency") or 2))
    own = (*products(width, width, width, width, width), *products(width, inner, width)) * layers
    across = (Product(fields.size("encoder_hidden_size"), 2 * width, merge), *products(width, width, width)) * crossing
    return own + across


def granite_docling(at: Wrapper) -> Tower:
    """Granite Docling: patches merged over squares, a matrix and a second one, and mergers for deeper layers."""
    fields = at.encoder
    width, out, scale = fields.size("hidden_size"), fields.size("out_hidden_size"), fields.size("scale_factor")
    deep = len(fields.entries("deepstack_visual_indexes") or ())
    merged = width * scale**2
    chain = (*products(merged, out), Product(out, out), *products(merged, out, out) * deep)
    return vit(at, positions=grid(fields), merge=scale**2, projector=chain)


def replace_fields(at: Wrapper, values: Mapping[str, int]) -> Wrapper:
    """The wrapper with the shapes of an encoder that its file only names."""
    return at._replace(encoder=Fields({**at.encoder.data, **values}, {}))


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


IMAGE_SHAPES = {
    "blip-2": blip2,
    "cosmos3_edge": cosmos3_edge,
    "dots3_note": dots3_note,
    "granite_docling": granite_docling,
    "hyperclovax_vision_v2": hyperclovax,
    "idefics2": idefics2,
    "janus": janus,
    **dict.fromkeys(["minicpmv4_6", "minicpmv4_7", "minicpm_ocr"], minicpm4_6),
    "mllama": mllama,
    "molmo2": molmo2,
    **dict.fromkeys(["muse_glimmer", "muse_spark"], muse),
    "nemotron_h_omni": radio,
    "phi3_v": phi3_vision,
    "unlimited_ocr": deepseek_ocr,
    "video_llava": video_llava,
}
"""Wrapper -> shape of its tower for images."""


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
