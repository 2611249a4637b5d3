"""Shapes of encoders of images that decide their work; `image_towers` and `vision_encoders` count their parameters."""

from __future__ import annotations

from dataclasses import replace

from ..model.tower import Product, Tower
from .image_towers import CLIP_L_336
from .tower_parts import Chain, first, frames_of, merged_patches, products, qwen2_5_vl, replace_fields, vit
from .vision_encoders import grid, inner_width, merged_on_a_side
from .wrapper import Wrapper


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


def vipllava(at: Wrapper) -> tuple[int, Chain]:
    """ViP-LLaVA: features of several layers side by side."""
    chosen = at.outer.get("vision_feature_layer")
    wide = at.encoder.size("hidden_size") * (len(chosen) if isinstance(chosen, list) else 1)
    return 1, products(wide, at.hidden, at.hidden)


def deepseek_vl2(at: Wrapper) -> Tower:
    """DeepSeek-VL2: tiles of 384 pixels, whose odd side of 27 patches is padded before they are merged."""
    chain = products(4 * at.encoder.size("hidden_size"), at.hidden, at.hidden)
    return vit(at, positions=grid(at.encoder), merge=4, projector=chain)


def ernie_vl(at: Wrapper) -> Tower:
    """ERNIE 4.5 VL: of an image both frames of a video are the same."""
    merge, width = merged_patches(at), at.encoder.size("hidden_size")
    inner = at.encoder.optional("intermediate_size") or width * (at.encoder.optional("mlp_ratio") or 4)
    wide, frames = width * merge, at.encoder.optional("temporal_merge_size") or 2
    chain = (*products(wide, wide, wide), *products(frames * wide, wide, wide, at.hidden))
    return vit(at, inner=inner, merge=merge, projector=chain)


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


def intern_vit(at: Wrapper) -> Tower:
    """InternVL: tiles of fixed size with a class token, patches merged by the inverse of ``downsample_ratio``."""
    merge = merged_on_a_side(at.outer) ** 2
    chain = products(at.encoder.size("hidden_size") * merge, at.hidden, at.hidden)
    return vit(at, positions=grid(at.encoder), class_tokens=1, merge=merge, projector=chain)
