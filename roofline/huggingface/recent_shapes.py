"""Shapes of towers of wrappers since 2025 that decide their work; `recent_encoders` counts their parameters."""

from __future__ import annotations

from ..model.tower import Product, Tower
from .audio_encoders import width_of
from .fields import Fields
from .recent_encoders import eighth, whole_layers
from .tower_parts import Chain, frames_of, merged_patches, products, vit
from .vision_encoders import channels, grid, merged_on_a_side, side
from .wrapper import Wrapper


def hy_v4(at: Wrapper) -> Tower:
    """HunYuan V4: a strided convolution and a second matrix."""
    merge, width = merged_patches(at), at.encoder.size("hidden_size")
    return vit(at, merge=merge, projector=products(width * merge, width * merge, at.encoder.size("out_hidden_size")))


def inkling2(at: Wrapper) -> Tower:
    """Inkling 2: a class token, two matrices over merged patches."""
    merge, width = merged_patches(at), at.encoder.size("hidden_size")
    inner = at.encoder.optional("intermediate_size") or width * (at.encoder.optional("mlp_ratio") or 4)
    chain = products(width * merge, at.encoder.size("projection_hidden_dim"), at.encoder.size("text_hidden_size"))
    return vit(at, inner=inner, merge=merge, class_tokens=1, projector=chain)


def lfm3(at: Wrapper) -> Tower:
    """LFM3: layers without attention have gated convolutions, whose matrices are taken for those of attention."""
    listed = at.encoder.entries("layer_types") or []
    local = sum(kind != "full_attention" for kind in listed)
    merge = merged_patches(at)
    inner = at.outer.size("projector_hidden_size")
    return vit(
        at,
        frames=frames_of(at),
        merge=merge,
        gated=True,
        kv_heads=at.encoder.optional("num_key_value_heads"),
        window=1,
        windowed_layers=local,
        projector=products(at.encoder.size("hidden_size") * merge, inner, at.hidden),
    )


def ovis2(at: Wrapper) -> Tower:
    """Ovis 2: merged patches are scored against a table of visual words, and a token is their mixture."""
    merge = (at.encoder.optional("hidden_stride") or 1) ** 2
    words = at.encoder.size("vocab_size") - at.encoder.size("num_visual_indicator_tokens")
    chain = products(at.encoder.size("hidden_size") * merge, words, at.outer.optional("hidden_size") or at.hidden)
    return vit(at, positions=grid(at.encoder), merge=merge, gated=True, projector=chain)


def step3(at: Wrapper) -> Tower:
    """Step 3.7: two convolutions of width and height 3 that halve both sides, then a matrix."""
    width = at.encoder.size("hidden_size")
    behind = (Product(9 * width, 2 * width, 4), Product(18 * width, 4 * width), Product(4 * width, at.hidden))
    return vit(at, positions=grid(at.encoder), merge=16, projector=behind)


def aria(at: Wrapper) -> tuple[int, Chain]:
    """Aria: learned queries attend to all patches: keys and values twice for each patch, then four matrices a token."""
    queries, width = at.outer.optional("max_value_projector_patch_to_query_dict") or 256, at.encoder.size("hidden_size")
    merge = max(grid(at.encoder) // queries, 1)
    patch = (Product(width, 2 * width, merge), Product(width, 2 * width, merge))
    return merge, (*patch, *products(width, width, width, width, width, at.hidden, at.hidden))


def vipllava(at: Wrapper) -> tuple[int, Chain]:
    """ViP-LLaVA: features of several layers side by side."""
    chosen = at.outer.get("vision_feature_layer")
    wide = at.encoder.size("hidden_size") * (len(chosen) if isinstance(chosen, list) else 1)
    return 1, products(wide, at.hidden, at.hidden)


def deepseek_vl2(at: Wrapper) -> Tower:
    """DeepSeek-VL2: tiles of 384 pixels, whose odd side of 27 patches is padded before they are merged."""
    chain = products(4 * at.encoder.size("hidden_size"), at.hidden, at.hidden)
    return vit(at, positions=grid(at.encoder), merge=4, projector=chain)


def minicpm_v(at: Wrapper) -> Tower:
    """MiniCPM-V: slices of 448 pixels, 64 learned queries that attend to their patches."""
    slice_pixels = at.outer.optional("image_size") or 448
    positions = (slice_pixels // side(at.encoder, "patch_size")) ** 2
    merge = max(positions // (at.outer.optional("query_num") or 64), 1)
    width, out = at.encoder.size("hidden_size"), at.hidden
    patch = (Product(width, out, merge), Product(out, 2 * out, merge))
    return vit(at, positions=positions, merge=merge, projector=(*patch, *products(out, out, out, out)))


def ernie_vl(at: Wrapper) -> Tower:
    """ERNIE 4.5 VL: of an image both frames of a video are the same."""
    merge, width = merged_patches(at), at.encoder.size("hidden_size")
    inner = at.encoder.optional("intermediate_size") or width * (at.encoder.optional("mlp_ratio") or 4)
    wide, frames = width * merge, at.encoder.optional("temporal_merge_size") or 2
    chain = (*products(wide, wide, wide), *products(frames * wide, wide, wide, at.hidden))
    return vit(at, inner=inner, merge=merge, projector=chain)


def normed_merger(at: Wrapper) -> Tower:
    """PaddleOCR-VL: two linear layers over merged patches, of images of any size."""
    merge = merged_patches(at)
    wide = at.encoder.size("hidden_size") * merge
    return vit(at, merge=merge, projector=products(wide, wide, at.hidden))


def two_layers(at: Wrapper) -> Tower:
    """VideoLLaMA 3: images of any size, two linear layers over merged patches."""
    merge = merged_patches(at)
    return vit(at, merge=merge, projector=products(at.encoder.size("hidden_size"), at.hidden, at.hidden))


def phi4_vision(at: Wrapper) -> Tower:
    """Phi-4-multimodal: crops of fixed size, four patches averaged, the output of the layer before the last."""
    whole = vit(at, positions=grid(at.encoder), merge=4, projector=_two(at))
    return Tower(**{**vars(whole), "layers": max(whole.layers - 1, 1)})


def _two(at: Wrapper) -> Chain:
    return products(at.encoder.size("hidden_size"), at.hidden, at.hidden)


def glm_ocr(at: Wrapper) -> Tower:
    """GLM-OCR: a strided convolution, a matrix, and a gated MLP three times as wide as the output."""
    merge, width, out = merged_patches(at), at.encoder.size("hidden_size"), at.encoder.size("out_hidden_size")
    behind = (*products(width * merge, out, out), Product(out, 6 * out), Product(3 * out, out))
    return vit(at, frames=frames_of(at), merge=merge, gated=True, projector=behind)


def got_ocr(at: Wrapper) -> Tower:
    """GOT-OCR: SAM's encoder with windows in most layers, its neck, two strided convolutions and a matrix."""
    fields = at.encoder
    width, out = fields.size("hidden_size"), fields.size("output_channels")
    neck = (Product(width, out, 16), Product(9 * out, out, 16))
    behind = (Product(9 * out, 2 * out, 4), Product(18 * out, at.hidden), Product(at.hidden, at.hidden))
    layers = fields.size("num_hidden_layers")
    wide = whole_layers(fields, layers)
    return Tower(
        hidden=width,
        intermediate=fields.size("mlp_dim"),
        layers=layers,
        heads=fields.size("num_attention_heads"),
        stem=(Product(channels(fields) * side(fields, "patch_size") ** 2, width),),
        projector=(*neck, *behind),
        merge=16,
        positions=grid(fields),
        window=fields.size("window_size") ** 2,
        windowed_layers=max(layers - wide, 0),
    )


def intern_vit(at: Wrapper) -> Tower:
    """InternVL: tiles of fixed size with a class token, patches merged by the inverse of ``downsample_ratio``."""
    merge = merged_on_a_side(at.outer) ** 2
    chain = products(at.encoder.size("hidden_size") * merge, at.hidden, at.hidden)
    return vit(at, positions=grid(at.encoder), class_tokens=1, merge=merge, projector=chain)


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
