"""Parameters of towers for images whose count needs more than one part of the file, with their projectors.

Counts are checked against transformers 5.24.0, that of Phi-3.5-vision and DeepSeek-OCR against their checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from . import vision_encoders
from .fields import Fields, MissingField
from .vision_encoders import grid, inner_width, layer, matrix, merged_on_a_side, patches, side
from .wrapper import Wrapper

FASTVIT_MCI3 = 122_714_208
"""Parameters of ``fastvit_mci3`` as timm 1.0.31 builds it for inference; a configuration states only its name."""

CLIP_L_336 = {
    **{"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16},
    **{"image_size": 336, "patch_size": 14},
}
"""CLIP ViT-L/14 at 336 pixels (arXiv:2103.00020), which some files only name."""


def cosmos3_edge(at: Wrapper) -> int:
    """Cosmos 3 Edge: SigLIP, then a norm of each patch and two linear layers over four."""
    width, inner = at.encoder.size("hidden_size"), at.outer.size("projector_hidden_size")
    merged = width * (at.encoder.optional("spatial_merge_size") or 2) ** 2
    encoder = vision_encoders.siglip(at.encoder, positions=at.encoder.size("num_patches"))
    return encoder + 2 * width + matrix(merged, inner) + matrix(inner, at.hidden)


def deepseek_vl_hybrid(at: Wrapper) -> int:
    """DeepSeek-VL (arXiv:2403.05525): SigLIP and SAM side by side, half of the language model's width each."""
    high = at.part("high_res_vision_config")
    out, half = high.size("output_channels"), at.hidden // 2
    neck = high.size("hidden_size") * out + 9 * out * out + 4 * out
    strided = 9 * out * 2 * out + 9 * 2 * out * 4 * out
    aligner = matrix(at.encoder.size("hidden_size"), half) + matrix(4 * out, half) + matrix(at.hidden, at.hidden)
    encoders = vision_encoders.siglip(at.encoder) + vision_encoders.segment_anything(high)
    return encoders + neck + strided + 1 + aligner


def dots3_note(at: Wrapper) -> int:
    """dots.note: gated MLPs, q/k norms by head, and mixtures of experts in the later layers."""
    fields = at.encoder
    width, layers, out = fields.size("hidden_size"), fields.size("num_hidden_layers"), fields.size("adapter_out_dim")
    kinds = fields.entries("mlp_layer_types", layers) or ["dense"] * layers
    attention = matrix(width, 4 * width, bias=fields.flag("attention_bias"))
    attention += 2 * (width // fields.size("num_attention_heads"))
    blocks = 0
    for number, kind in enumerate(kinds):
        inner = fields.size("moe_intermediate_size" if kind == "sparse" else "intermediate_size")
        copies, router = 1, 0
        if kind == "sparse":
            copies = fields.at_layer(number).size("num_local_experts")
            router = copies * width
        blocks += attention + copies * 3 * width * inner + router + 2 * width
    merged = width * (fields.optional("adapter_merge_size") or 2) ** 2
    merger = 2 * width + matrix(merged, merged) + matrix(merged, out)
    return patches(fields, width, bias=True) + width + blocks + merger + width


def molmo2(at: Wrapper) -> int:
    """Molmo 2: features of two layers side by side, pooled by attention, then a gated MLP (arXiv:2409.17146)."""
    fields, adapter = at.encoder, at.part("adapter_config")
    width, inner = fields.size("hidden_size"), fields.size("intermediate_size")
    taken = adapter.entries("vision_feature_layer") or [24, 18]
    heads = adapter.size("num_attention_heads") * adapter.size("head_dim")
    kv = (adapter.optional("num_key_value_heads") or adapter.size("num_attention_heads")) * adapter.size("head_dim")
    out = adapter.size("hidden_size")
    wide = out * len(taken)
    bias = adapter.flag("attention_bias", True)
    pooling = matrix(wide, heads, bias=bias) + 2 * matrix(wide, kv, bias=bias) + matrix(heads, out, bias=bias)
    text = adapter.optional("text_hidden_size") or at.hidden
    gated = adapter.size("intermediate_size") * (2 * out + text)
    table = fields.size("num_position_embeddings") * width
    blocks = fields.size("num_hidden_layers") * layer(width, inner)
    return patches(fields, width, bias=True) + table + blocks + pooling + gated


def muse(at: Wrapper) -> int:
    """Muse: a grid of positions, norms before and behind the layers, three matrices over four patches."""
    fields = at.encoder
    width, inner, layers = (fields.size(n) for n in ("hidden_size", "intermediate_size", "num_hidden_layers"))
    frames = fields.optional("patch_temporal") or 2
    table = fields.size("pos_emb_height") * fields.size("pos_emb_width") * width
    between = at.outer.size("projector_hidden_size")
    chain = at.outer.size("out_hidden_size") * between + between * between + between * at.hidden
    encoder = patches(fields, width, frames=frames, bias=False) + table + 4 * width + layers * layer(width, inner)
    return encoder + chain


def radio(at: Wrapper) -> int:
    """C-RADIO (arXiv:2312.06709) of Nemotron Nano VL and Omni: positions of the largest image, learned scales."""
    fields = at.encoder
    width, layers = fields.size("hidden_size"), fields.size("num_hidden_layers")
    if fields.flag("use_swiglu_ffn"):
        raise MissingField("the inner width of gated MLPs")
    table = (fields.size("max_img_size") // side(fields, "patch_size")) ** 2 * width
    extra = (fields.optional("num_cls_tokens") or 0) + (fields.optional("num_registers", least=0) or 0)
    first = (fields.size("patch_dim") + (fields.optional("video_patch_dim") or 0)) * width
    merged = width * merged_on_a_side(at.outer) ** 2
    between = at.outer.size("projector_hidden_size")
    blocks = layers * layer(width, inner_width(fields, width), norms=6)
    return first + table + extra * width + blocks + merged + merged * between + between * at.hidden


def hyperclovax(at: Wrapper) -> int:
    """HyperCLOVA X Vision: Qwen2.5-VL's encoder and a linear layer."""
    return vision_encoders.qwen2_5_vl(at.encoder) + matrix(at.encoder.size("out_hidden_size"), at.hidden)


def idefics2(at: Wrapper) -> int:
    """Idefics 2 (arXiv:2405.02246): SigLIP, a gated MLP as wide as the language model's, a perceiver resampler."""
    width, perceiver, text = at.encoder.size("hidden_size"), at.part("perceiver_config"), at.part("text_config")
    inner = text.optional("intermediate_size") or 14336
    heads = (perceiver.optional("resampler_n_heads") or 16) * (perceiver.optional("resampler_head_dim") or 96)
    kv = (perceiver.optional("num_key_value_heads") or 4) * (perceiver.optional("resampler_head_dim") or 96)
    wide = perceiver.optional("hidden_size") or at.hidden
    block = 3 * wide + 2 * wide * heads + 2 * wide * kv + 12 * wide * wide
    latents = (perceiver.optional("resampler_n_latents") or 64) * wide
    resampler = latents + (perceiver.optional("resampler_depth") or 3) * block + wide
    return vision_encoders.siglip(at.encoder) + inner * (2 * width + at.hidden) + resampler


def video_llava(at: Wrapper) -> int:
    """Video-LLaVA (arXiv:2311.10122): a CLIP for images and one for videos, two linear layers."""
    bias = at.outer.flag("multimodal_projector_bias", True)
    projector = matrix(at.encoder.size("hidden_size"), at.hidden, bias=bias) + matrix(at.hidden, at.hidden, bias=bias)
    return 2 * vision_encoders.clip(at.encoder) + projector


def fast_vlm(at: Wrapper) -> int:
    """FastVLM (arXiv:2412.13303): FastViTHD by its name in timm, two linear layers."""
    if (at.encoder.text("architecture") or "fastvit_mci3") != "fastvit_mci3":
        raise MissingField("shapes of an image encoder that is referenced by name only")
    bias = at.outer.flag("multimodal_projector_bias", True)
    width = at.encoder.optional("hidden_size") or 3072
    return FASTVIT_MCI3 + matrix(width, at.hidden, bias=bias) + matrix(at.hidden, at.hidden, bias=bias)


def phi3_vision(at: Wrapper) -> int:
    """Phi-3-vision: CLIP by its name, separators of rows and crops, two linear layers over four patches."""
    if "clip-vit-large-patch14-336" not in str(at.encoder.get("model_name")):
        raise MissingField("shapes of an image encoder that is referenced by name only")
    clip = vision_encoders.clip(Fields(CLIP_L_336, {}))
    merged = 4 * CLIP_L_336["hidden_size"]
    return clip + 2 * merged + matrix(merged, at.hidden) + matrix(at.hidden, at.hidden)


SAM_B = {
    **{"hidden_size": 768, "mlp_dim": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "patch_size": 16},
    **{"image_size": 1024, "window_size": 14, "output_channels": 256, "global_attn_indexes": [2, 5, 8, 11]},
}
"""SAM ViT-B (arXiv:2304.02643)."""


def deepseek_ocr(at: Wrapper) -> int:
    """DeepSeek-OCR (arXiv:2510.18234): SAM, two strided convolutions, CLIP on their output, a linear layer."""
    sam, clip = ocr_encoders(at)
    out, width, inner = sam.size("output_channels"), clip.size("hidden_size"), clip.size("intermediate_size")
    strided = 9 * out * 2 * out + 9 * 2 * out * width
    layers = clip.size("num_hidden_layers") * layer(width, inner)
    follows = (grid(clip) + 2) * width + 2 * width + layers
    if at.outer.get("model_type") == "deepseek_vl_v2":
        follows += patches(clip, width, bias=False)
    return vision_encoders.segment_anything(sam) + strided + follows + matrix(2 * width, at.hidden) + 2 * at.hidden


def ocr_encoders(at: Wrapper) -> tuple[Fields, Fields]:
    """SAM and CLIP of DeepSeek-OCR and Unlimited-OCR, by their fields or by their names.

    Raises
    ------
    MissingField
        The file names other encoders.
    """
    named = at.encoder.get("width")
    if not isinstance(named, Mapping):
        sam, clip = at.encoder.get("sam_config"), at.encoder.get("encoder_config")
        if not isinstance(sam, Mapping) or not isinstance(clip, Mapping):
            raise MissingField("shapes of both encoders of images")
        return Fields(sam, SAM_B, partial=True), Fields(clip, {**CLIP_L_336, "image_size": 224}, partial=True)
    if not {"sam_vit_b", "clip-l-14-224"} <= named.keys():
        raise MissingField("shapes of encoders that are referenced by name only")
    return Fields(SAM_B, {}), Fields({**CLIP_L_336, "image_size": 224}, {})


def blip2(at: Wrapper) -> int:
    """BLIP-2 (arXiv:2301.12597): a class token, learned queries that attend to the patches, one linear layer."""
    fields, former = at.encoder, at.part("qformer_config")
    width, inner, layers = (fields.size(n) for n in ("hidden_size", "intermediate_size", "num_hidden_layers"))
    table = (grid(fields) + 2) * width
    block = layer(width, inner)
    if not fields.flag("qkv_bias", True):
        block -= 3 * width
    encoder = patches(fields, width, bias=True) + table + layers * block + 2 * width
    queries = (at.outer.optional("num_query_tokens") or 32) * former.size("hidden_size")
    return encoder + queries + query_former(former) + matrix(former.size("hidden_size"), at.hidden)


def query_former(fields: Fields) -> int:
    """A BERT of learned queries that attend to an encoder's output in every few layers, without a branch for text.

    Raises
    ------
    MissingField
        The file asks for a branch for text, whose tables it does not give.
    """
    if fields.flag("use_qformer_text_input"):
        raise MissingField("tables of the branch for text")
    width, inner, layers = (fields.size(n) for n in ("hidden_size", "intermediate_size", "num_hidden_layers"))
    crossing = -(-layers // (fields.optional("cross_attention_frequency") or 2))
    outside = fields.size("encoder_hidden_size")
    across = 2 * matrix(width, width) + 2 * matrix(outside, width) + 2 * width
    return layers * layer(width, inner) + crossing * across + 2 * width


# Janus (arXiv:2410.13848) also makes images, with a vector-quantized autoencoder.


def janus(at: Wrapper) -> int:
    """Janus: SigLIP and its aligner, and the modules that make images."""
    fields, quantizer = at.encoder, at.part("vq_config")
    width, out = fields.size("hidden_size"), fields.size("projection_dim")
    inner = int(width * float(fields.get("mlp_ratio") or 4))
    block = layer(width, inner)
    if fields.flag("use_qk_norm"):
        block += 4 * (width // fields.size("num_attention_heads"))
    encoder = patches(fields, width, bias=True) + grid(fields) * width + 2 * width
    encoder += fields.size("num_hidden_layers") * block
    aligner = _chain(width, out, fields.optional("depth") or 2)
    return encoder + aligner + _autoencoder(quantizer) + _generation(quantizer)


def _chain(first: int, width: int, depth: int) -> int:
    """``depth`` linear layers of one width."""
    return matrix(first, width) + (depth - 1) * matrix(width, width)


def _generation(fields: Fields) -> int:
    """Embedding, aligner and head of the words of images."""
    words, embedded, width = fields.size("num_embeddings"), fields.size("embed_dim"), fields.size("projection_dim")
    aligner = _chain(embedded, width, fields.optional("num_hidden_layers") or 2)
    head = matrix(fields.size("image_token_embed_dim"), width) + matrix(width, words)
    return words * embedded + aligner + head


def _autoencoder(fields: Fields) -> int:
    """VQGAN (arXiv:2012.09841): residual convolutions at several resolutions, attention at the lowest."""
    base, blocks, latent = fields.size("base_channels"), fields.size("num_res_blocks"), fields.size("latent_channels")
    factors = fields.entries("channel_multiplier") or [1, 1, 2, 2, 4]
    widths = [Fields({"factor": factor}, {}).size("factor") * base for factor in factors]
    wide, embedded = widths[-1], fields.size("embed_dim")
    middle = 2 * _residual(wide, wide) + _attention(wide)
    down, up = blocks * _attention(wide), (blocks + 1) * _attention(wide)
    for before, width, above in zip([base, *widths[:-1]], widths, [*widths[1:], wide], strict=True):
        down += _residual(before, width) + (blocks - 1) * _residual(width, width)
        up += _residual(above, width) + blocks * _residual(width, width)
    down += sum(matrix(9 * width, width) for width in widths[:-1])
    up += sum(matrix(9 * width, width) for width in widths[1:])
    doubled = 2 * latent if fields.flag("double_latent") else latent
    encoder = matrix(9 * fields.size("in_channels"), base) + down + middle + 2 * wide + matrix(9 * wide, doubled)
    decoder = matrix(9 * latent, wide) + middle + up + 2 * base + matrix(9 * base, fields.size("out_channels"))
    words = fields.size("num_embeddings") * embedded
    return encoder + decoder + words + matrix(latent, embedded) + matrix(embedded, latent)


def _residual(first: int, width: int) -> int:
    """Two norms and two convolutions of 3 x 3, and a matrix past them where the width changes."""
    stored = 2 * first + matrix(9 * first, width) + 2 * width + matrix(9 * width, width)
    if first != width:
        stored += matrix(first, width)
    return stored


def _attention(width: int) -> int:
    return 2 * width + 4 * matrix(width, width)


IMAGE_TOWERS: Mapping[str, Callable[[Wrapper], int]] = {
    "blip-2": blip2,
    "cosmos3_edge": cosmos3_edge,
    "deepseek_vl_hybrid": deepseek_vl_hybrid,
    "dots3_note": dots3_note,
    "fast_vlm": fast_vlm,
    "hyperclovax_vision_v2": hyperclovax,
    "idefics2": idefics2,
    "janus": janus,
    "molmo2": molmo2,
    "muse_glimmer": muse,
    "muse_spark": muse,
    "nemotron_h_omni": radio,
    "phi3_v": phi3_vision,
    "unlimited_ocr": deepseek_ocr,
    "video_llava": video_llava,
}
"""Wrapper -> parameters of its tower and projector."""

COUNTED_WITH: Mapping[str, frozenset[str]] = {
    "blip-2": frozenset({"qformer_config"}),
    "deepseek_vl_hybrid": frozenset({"high_res_vision_config"}),
    "deepseek_vl_v2": frozenset({"projector_config"}),
    "granite_speech": frozenset({"projector_config"}),
    "granite_speech_plus": frozenset({"projector_config"}),
    "idefics2": frozenset({"perceiver_config"}),
    "janus": frozenset({"vq_config"}),
    "molmo2": frozenset({"adapter_config"}),
}
"""Wrapper -> its parts that are counted with the tower."""
