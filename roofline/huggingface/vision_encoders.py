"""Parameters of vision encoders, counted from their configurations.

Every encoder is a vision transformer (arXiv:2010.11929): a patch embedding, positions, and layers of attention and MLP.
Families differ in biases, gates, the number of norms, and the modules after the layers.  Counts are checked against
transformers 5.24.0 in the tests.
"""

from __future__ import annotations

from math import isqrt
from typing import Any

from ..errors import SpecError
from .fields import Fields, MissingField


def matrix(d_in: int, d_out: int, *, bias: bool = True) -> int:
    """A matrix, and its bias."""
    return d_in * d_out + (d_out if bias else 0)


def layer(width: int, inner: int, *, gated: bool = False, norms: int = 4, bias: bool = True) -> int:
    """Attention of four square matrices, an MLP, and ``norms`` vectors."""
    mlp = (2 if gated else 1) * matrix(width, inner, bias=bias) + matrix(inner, width, bias=bias)
    return 4 * matrix(width, width, bias=bias) + mlp + norms * width


def patches(fields: Fields, width: int, *, frames: int = 1, bias: bool) -> int:
    """Convolution that turns a patch into a token."""
    pixels = side(fields, "patch_size")
    return matrix(channels(fields) * frames * pixels * pixels, width, bias=bias)


def channels(fields: Fields) -> int:
    """Number of color channels."""
    return fields.optional("num_channels") or fields.optional("in_channels") or 3


def grid(fields: Fields) -> int:
    """Number of patches in an image."""
    return (side(fields, "image_size") // side(fields, "patch_size")) ** 2


def merged_on_a_side(outer: Fields) -> int:
    """Patches merged to a token on each side: the inverse of ``downsample_ratio``, 2 unless the file states it."""
    ratio = outer.get("downsample_ratio")
    if isinstance(ratio, float) and 0 < ratio <= 1:
        return round(1 / ratio)
    return 2


def inner_width(fields: Fields, width: int) -> int:
    """Inner width of MLPs by ``mlp_ratio``, four times the width unless the file states it."""
    ratio = fields.get("mlp_ratio")
    if isinstance(ratio, int | float) and 0 < ratio < 100:
        return int(width * ratio)
    return 4 * width


def side(fields: Fields, name: str) -> int:
    """Length of a side, which may be stated twice (height and width)."""
    value: Any = fields.get(name)
    if isinstance(value, list):
        if len(value) != 2 or value[0] != value[1]:
            raise SpecError(f"{name} must be one number, or the same one twice: {value!r:.80}")
        return Fields({name: value[0]}, {}).size(name)
    return fields.size(name)


def _vit(fields: Fields) -> tuple[int, int, int]:
    """Width, inner width and layers by their usual names."""
    return fields.size("hidden_size"), fields.size("intermediate_size"), fields.size("num_hidden_layers")


def siglip(fields: Fields, *, positions: int | None = None, bias: bool = True) -> int:
    """SigLIP and Idefics 3: LayerNorms, one more behind the last layer, attention pooling if configured."""
    width, inner, layers = _vit(fields)
    rows = grid(fields) if positions is None else positions
    pooling = layer(width, inner, norms=3) if fields.flag("vision_use_head") else 0
    return patches(fields, width, bias=bias) + rows * width + layers * layer(width, inner) + 2 * width + pooling


def clip(fields: Fields) -> int:
    """CLIP: a class token, a norm before the layers and one behind; the patch embedding has no bias."""
    width = fields.size("hidden_size")
    return siglip(fields, positions=grid(fields) + 1, bias=False) + 3 * width


def pixtral(fields: Fields) -> int:
    """Pixtral: rotary positions, gated MLPs, RMS norms, no biases."""
    width, inner, layers = _vit(fields)
    return patches(fields, width, bias=False) + width + layers * layer(width, inner, gated=True, norms=2, bias=False)


def qwen2_vl(fields: Fields) -> int:
    """Qwen2-VL with the merger of its patches."""
    width, layers = fields.size("embed_dim"), fields.size("depth")
    merged = width * (fields.optional("spatial_merge_size") or 2) ** 2
    merger = 2 * width + matrix(merged, merged) + matrix(merged, fields.size("hidden_size"))
    frames = fields.optional("temporal_patch_size") or 2
    inner = width * (fields.optional("mlp_ratio") or 4)
    return patches(fields, width, frames=frames, bias=False) + layers * layer(width, inner) + merger


def qwen2_5_vl(fields: Fields) -> int:
    """Qwen2.5-VL: gated MLPs and RMS norms."""
    width, layers = fields.size("hidden_size"), fields.size("depth")
    merged = width * (fields.optional("spatial_merge_size") or 2) ** 2
    merger = width + matrix(merged, merged) + matrix(merged, fields.size("out_hidden_size"))
    frames = fields.optional("temporal_patch_size") or 2
    block = layer(width, fields.size("intermediate_size"), gated=True, norms=2)
    return patches(fields, width, frames=frames, bias=False) + layers * block + merger


def exaone4_5(fields: Fields) -> int:
    """EXAONE 4.5: Qwen2.5-VL's encoder with grouped KV heads."""
    width, heads = fields.size("hidden_size"), fields.size("num_heads")
    saved_heads = heads - fields.size("num_key_value_heads")
    saved = 2 * matrix(width, saved_heads * (width // heads))
    return qwen2_5_vl(fields) - fields.size("depth") * saved


def qwen3_vl(fields: Fields) -> int:
    """Qwen3-VL: a learned table of positions and mergers for deeper layers too."""
    width, layers = fields.size("hidden_size"), fields.size("depth")
    merged = width * (fields.optional("spatial_merge_size") or 2) ** 2
    merger = matrix(merged, merged) + matrix(merged, fields.size("out_hidden_size"))
    deep = len(fields.entries("deepstack_visual_indexes") or ())
    frames = fields.optional("temporal_patch_size") or 2
    table = fields.size("num_position_embeddings") * width
    blocks = layers * layer(width, fields.size("intermediate_size"))
    mergers = (1 + deep) * merger + 2 * width + deep * 2 * merged
    return patches(fields, width, frames=frames, bias=True) + table + blocks + mergers


def glm4v(fields: Fields) -> int:
    """GLM-4V: MLPs as wide as the output, a strided convolution and a gated MLP behind."""
    width, out, layers = fields.size("hidden_size"), fields.size("out_hidden_size"), fields.size("depth")
    attention = matrix(width, 3 * width, bias=fields.flag("attention_bias")) + width * width
    block = attention + 3 * width * out + 2 * width
    inner, merge = fields.size("intermediate_size"), fields.optional("spatial_merge_size") or 2
    merger = matrix(width * merge**2, out) + out * out + 2 * out + 3 * out * inner
    frames = fields.optional("temporal_patch_size") or 2
    table = grid(fields) * width
    return patches(fields, width, frames=frames, bias=True) + table + layers * block + 2 * width + merger


def glm5(fields: Fields) -> int:
    """GLM-5 Flash: gated MLPs, q/k norms by head, a strided convolution and a gated MLP behind."""
    width, out, layers = fields.size("hidden_size"), fields.size("out_hidden_size"), fields.size("depth")
    block = layer(width, fields.size("intermediate_size"), gated=True, norms=2)
    block += 2 * (width // fields.size("num_heads"))
    joined = matrix(width * (fields.optional("spatial_merge_size") or 2) ** 2, out)
    merger = out * out + 2 * out + 3 * out * fields.size("projection_intermediate_size")
    frames = fields.optional("temporal_patch_size") or 2
    return patches(fields, width, frames=frames, bias=True) + layers * block + width + joined + merger


def gemma4(fields: Fields) -> int:
    """Gemma 4: gated MLPs and four norms without biases, q/k norms, positions for both axes."""
    width, inner, layers = _vit(fields)
    block = layer(width, inner, gated=True, bias=False) + 2 * fields.size("head_dim")
    return patches(fields, width, bias=False) + 2 * fields.size("position_embedding_size") * width + layers * block


def moonvit(fields: Fields, prefix: str = "") -> int:
    """MoonViT (Kimi): a table of positions for a grid, a norm behind the last layer."""
    width, inner, layers = (
        fields.size(f"{prefix}{name}") for name in ("hidden_size", "intermediate_size", "num_hidden_layers")
    )
    rows = fields.size("init_pos_emb_height" if prefix else "pos_emb_height")
    columns = fields.size("init_pos_emb_width" if prefix else "pos_emb_width")
    blocks = layers * layer(width, inner)
    return patches(fields, width, bias=True) + rows * columns * width + blocks + 2 * width


def moonvit3d(fields: Fields) -> int:
    """MoonViT-3D (Kimi K3): RMS norms, no biases, and heads wider than the residual stream."""
    width, inner, wide = (fields.size(name) for name in ("vt_hidden_size", "vt_intermediate_size", "qkv_hidden_size"))
    block = 4 * width * wide + 2 * width * inner + 2 * width
    table = fields.size("init_pos_emb_height") * fields.size("init_pos_emb_width") * width
    return patches(fields, width, bias=False) + table + fields.size("vt_num_hidden_layers") * block + width


def inkling2(fields: Fields) -> int:
    """Inkling 2: a class token with a position of its own, two learned scales a layer, norms before and behind."""
    width, layers = fields.size("hidden_size"), fields.size("num_hidden_layers")
    inner = fields.optional("intermediate_size") or width * (fields.optional("mlp_ratio") or 4)
    table = fields.size("posemb_grid_size") ** 2 * width
    merged, between = width * (fields.optional("spatial_merge_size") or 2) ** 2, fields.size("projection_hidden_dim")
    merger = merged * between + between * fields.size("text_hidden_size")
    return patches(fields, width, bias=False) + table + 4 * width + layers * layer(width, inner, norms=6) + merger


def minimax(fields: Fields) -> int:
    """MiniMax: a norm before the layers."""
    width, inner, layers = _vit(fields)
    frames = fields.optional("temporal_patch_size") or 2
    return patches(fields, width, frames=frames, bias=False) + 2 * width + layers * layer(width, inner)


def internvl(fields: Fields) -> int:
    """InternViT: a class token, two learned scales a layer, no bias on queries, keys and values unless configured."""
    width, inner, layers = _vit(fields)
    norm = 2 if fields.text("norm_type") in (None, "layer_norm") else 1
    block = layer(width, inner, norms=2 * norm + 2)
    if not fields.flag("attention_bias"):
        block -= 3 * width
    if fields.flag("use_qk_norm"):
        block += 2 * width
    outside = width
    if fields.flag("use_absolute_position_embeddings", True):
        outside += (grid(fields) + 1) * width
    if not fields.flag("use_mean_pooling", True):
        outside += 2 * width
    return patches(fields, width, bias=True) + outside + layers * block


def llama4(fields: Fields) -> int:
    """Llama 4: a class token, norms before and behind, and an adapter over shuffled pixels."""
    width, inner, layers = _vit(fields)
    adapter = inner * fields.size("projector_input_dim") + fields.size("projector_output_dim") ** 2
    table = (grid(fields) + 1) * width
    return patches(fields, width, bias=False) + width + table + layers * layer(width, inner) + 4 * width + adapter


def mllama(fields: Fields) -> int:
    """Llama 3.2 Vision: tables of positions by aspect ratio and tile, and global layers with two gates each."""
    width, inner = fields.size("hidden_size"), fields.size("intermediate_size")
    local_layers, global_layers = fields.size("num_hidden_layers"), fields.size("num_global_layers")
    ratios, tiles, rows = (
        len(fields.entries("supported_aspect_ratios") or ()),
        fields.size("max_num_tiles"),
        grid(fields) + 1,
    )
    block = layer(width, inner) - 4 * width
    positions = 1 + rows * width + (ratios + 1) * tiles * rows * width
    around_tiles = 2 * ((ratios + 1) * tiles * width + 1)
    blocks = (local_layers + global_layers) * block + 2 * global_layers
    return patches(fields, width, bias=False) + width + positions + around_tiles + 4 * width + blocks


def hy_v4(fields: Fields) -> int:
    """HunYuan V4: positions of the largest image and one more, two convolutions and a line break behind."""
    width, inner, layers = _vit(fields)
    merged, out = width * (fields.optional("spatial_merge_size") or 2) ** 2, fields.size("out_hidden_size")
    rows = (fields.size("max_image_size") // fields.size("patch_size")) ** 2 + 1
    merger = matrix(merged, merged) + matrix(merged, out) + out + width
    return patches(fields, width, bias=True) + rows * width + layers * layer(width, inner) + merger


def lfm3(fields: Fields) -> int:
    """LFM3: gated convolutions over the image between layers of attention with grouped KV heads."""
    width, inner, layers = _vit(fields)
    head_dim = width // fields.size("num_attention_heads")
    kv = fields.size("num_key_value_heads") * head_dim
    attention = 2 * width * width + 2 * width * kv + 2 * head_dim
    convolution = 4 * width * width + width * fields.size("conv_kernel_size") ** 2
    kinds = fields.entries("layer_types", layers) or []
    mixers = sum(attention if kind == "full_attention" else convolution for kind in kinds)
    frames = fields.optional("temporal_patch_size") or 2
    return patches(fields, width, frames=frames, bias=False) + width + mixers + layers * (3 * width * inner + 2 * width)


def minicpm(fields: Fields) -> int:
    """MiniCPM-V: SigLIP with a merger of windows of four patches between two of its layers."""
    width, inner, _ = _vit(fields)
    window = 4 * width
    merger = 4 * matrix(width, width) + 2 * width + 2 * window + matrix(window, 4 * inner) + matrix(4 * inner, width)
    return siglip(fields) + merger


def ovis2(fields: Fields) -> int:
    """Ovis 2: gated MLPs, RMS norms, and a head over visual words."""
    width, inner, layers = _vit(fields)
    words = fields.size("vocab_size") - fields.size("num_visual_indicator_tokens")
    head = width * (fields.optional("hidden_stride") or 1) ** 2 * words + 2 * words
    block = layer(width, inner, gated=True, norms=2, bias=False)
    return patches(fields, width, bias=True) + grid(fields) * width + 2 * width + layers * block + head


def step3(fields: Fields) -> int:
    """Step 3.7: a norm before the layers, two learned scales a layer, two strided convolutions behind."""
    width, inner, layers = _vit(fields)
    behind = matrix(9 * width, 2 * width) + matrix(18 * width, 4 * width)
    return (
        patches(fields, width, bias=False)
        + grid(fields) * width
        + 2 * width
        + layers * layer(width, inner, norms=6)
        + behind
    )


MOBILENET_V5_300M = 294_126_912
"""Parameters of ``mobilenetv5_300m_enc`` as timm 1.0.31 builds it; a configuration states only its name."""


def mobilenet_v5(fields: Fields) -> int:
    """The image encoder of Gemma 3n."""
    if (fields.text("architecture") or "mobilenetv5_300m_enc") != "mobilenetv5_300m_enc":
        raise MissingField("shapes of an image encoder that is referenced by name only")
    return MOBILENET_V5_300M


def granite_docling(fields: Fields) -> int:
    """Granite Docling: SigLIP with a coarse and a fine path of merged patches, each with mergers for deeper layers."""
    width, out, scale = fields.size("hidden_size"), fields.size("out_hidden_size"), fields.size("scale_factor")
    deep = len(fields.entries("deepstack_visual_indexes") or ())
    connector = 2 * width + 4 * out + out * out
    for factor in (scale, scale // 2) if fields.flag("use_fine_route", True) else (scale,):
        merged = width * factor**2
        connector += merged * out + deep * (2 * merged + matrix(merged, out) + matrix(out, out))
    return siglip(fields) + connector


def ernie_vl(fields: Fields) -> int:
    """ERNIE 4.5 VL: a patch embedding without a bias, a norm behind the layers."""
    width, layers = fields.size("hidden_size"), fields.size("depth")
    inner = fields.optional("intermediate_size") or width * (fields.optional("mlp_ratio") or 4)
    return patches(fields, width, bias=False) + layers * layer(width, inner) + 2 * width


def glm_ocr(fields: Fields) -> int:
    """GLM-OCR: gated MLPs, q/k norms by head, a strided convolution and a gated MLP three times as wide behind."""
    width, out = fields.size("hidden_size"), fields.size("out_hidden_size")
    block = layer(width, fields.size("intermediate_size"), gated=True, norms=2)
    block += 2 * (width // fields.size("num_heads"))
    joined = matrix(width * (fields.optional("spatial_merge_size") or 2) ** 2, out)
    merger = out * out + 2 * out + 3 * out * 3 * out
    frames = fields.optional("temporal_patch_size") or 2
    return patches(fields, width, frames=frames, bias=True) + fields.size("depth") * block + width + joined + merger


def siglip_without_positions(fields: Fields) -> int:
    """VideoLLaMA 3: SigLIP with rotary positions."""
    return siglip(fields, positions=0)


def siglip_of_timm(fields: Fields) -> int:
    """DeepSeek-VL2 (arXiv:2412.10302): SigLIP with its pooling head, which is stored and does not run."""
    pooling = layer(fields.size("hidden_size"), fields.size("intermediate_size"), norms=3)
    return siglip(fields) + pooling


def phi4_vision(fields: Fields) -> int:
    """Phi-4-multimodal: SigLIP with its pooling head, and two vectors that separate crops of an image."""
    width, inner = fields.size("hidden_size"), fields.size("intermediate_size")
    if fields.flag("vision_use_head"):  # then SigLIP's count has the head
        return siglip(fields) + 2 * width
    return siglip(fields) + layer(width, inner, norms=3) + 2 * width


def segment_anything(fields: Fields) -> int:
    """The encoder of SAM (arXiv:2304.02643) in GOT-OCR: windows but in a few layers, distances on both axes, a neck."""
    width, out, layers = fields.size("hidden_size"), fields.size("output_channels"), fields.size("num_hidden_layers")
    wide = whole_layers(fields, layers)
    side, window = _root(grid(fields)), fields.size("window_size")
    head_dim = width // fields.size("num_attention_heads")
    block = layer(width, fields.size("mlp_dim"))
    if not fields.flag("qkv_bias", True):
        block -= 3 * width
    neck = width * out + 9 * out * out + 4 * out
    positions = 0
    if fields.flag("use_abs_pos", True):
        positions += side**2 * width
    if fields.flag("use_rel_pos", True):
        positions += 2 * head_dim * (wide * (2 * side - 1) + (layers - wide) * (2 * window - 1))
    return patches(fields, width, bias=True) + positions + layers * block + neck


def whole_layers(fields: Fields, layers: int) -> int:
    """Layers in which all patches see each other."""
    return len({at for at in fields.entries("global_attn_indexes") or () if isinstance(at, int) and 0 <= at < layers})


def _root(square: int) -> int:
    root = isqrt(square)
    if root * root != square:
        raise SpecError(f"image_size must be a square of patches: {square}")
    return root


def intern_vit(fields: Fields) -> int:
    """InternViT beside InternVL's checkpoints (arXiv:2312.14238): a class token, two learned scales a layer."""
    width, inner, layers = (fields.size(n) for n in ("hidden_size", "intermediate_size", "num_hidden_layers"))
    norm = width if fields.text("norm_type") == "rms_norm" else 2 * width
    block = layer(width, inner, norms=0) + 2 * norm + 2 * width
    if not fields.flag("qkv_bias"):
        block -= 3 * width
    if fields.flag("qk_normalization"):
        block += 2 * width
    return patches(fields, width, bias=True) + (grid(fields) + 2) * width + layers * block


def moonvit_beside(fields: Fields) -> int:
    """MoonViT beside Kimi-VL's checkpoints (arXiv:2504.07491)."""
    width, inner, layers = (fields.size(n) for n in ("hidden_size", "intermediate_size", "num_hidden_layers"))
    table = fields.size("init_pos_emb_height") * fields.size("init_pos_emb_width") * width
    return patches(fields, width, bias=True) + table + layers * layer(width, inner) + 2 * width
