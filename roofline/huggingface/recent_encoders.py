"""Parameters of the towers of wrappers since 2025, and of wrappers whose classes come with their checkpoints.

Counts are checked against transformers 5.24.0 if it has the class, else against the published number of parameters.
"""

from __future__ import annotations

from math import isqrt

from ..errors import SpecError
from .audio_encoders import width_of
from .fields import Fields
from .vision_encoders import grid, layer, matrix, patches, siglip


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
