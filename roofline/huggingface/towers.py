"""Parameters of vision towers with their projectors into the language model, counted from their configurations.

Every tower is a vision transformer (arXiv:2010.11929): a patch embedding, positions, and layers of attention and MLP.
What differs by family is which of them have biases, how many norms there are, and the projector behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .fields import Fields


def tower(data: Mapping[str, Any], inner: Mapping[str, Any], hidden: int) -> int | None:
    """Parameters of a tower and its projector into ``hidden``; None if its shapes are not known here.

    Raises
    ------
    SpecError
        A field of a known tower makes no sense.
    """
    count = TOWERS.get(str(data.get("model_type")))
    outer = {key: data[key] for key in PROJECTOR if key in data}
    fields = Fields({**inner, **outer}, {})
    if count is None or any(fields.get(name) is None for name in NEEDED[count]):
        return None
    return count(fields, hidden)


PROJECTOR = ("projector_hidden_size", "projector_use_layernorm")
"""Fields of the wrapper that shape the projector."""


def linear(d_in: int, d_out: int, *, bias: bool = True) -> int:
    """A matrix, and its bias."""
    return d_in * d_out + (d_out if bias else 0)


def layer(width: int, inner: int, *, gated: bool = False, norms: int = 4, bias: bool = True) -> int:
    """Attention of four square matrices, an MLP, and ``norms`` vectors."""
    mlp = (2 if gated else 1) * linear(width, inner, bias=bias) + linear(inner, width, bias=bias)
    return 4 * linear(width, width, bias=bias) + mlp + norms * width


def patches(fields: Fields, width: int, *, frames: int = 1, bias: bool) -> int:
    """The convolution that makes a token of a patch."""
    side = fields.size("patch_size")
    return linear(3 * frames * side * side, width, bias=bias)


def grid(fields: Fields) -> int:
    """Patches of an image."""
    return (fields.size("image_size") // fields.size("patch_size")) ** 2


def _qwen2_vl(fields: Fields, hidden: int) -> int:
    width, layers = fields.size("embed_dim"), fields.size("depth")
    merged = width * (fields.optional("spatial_merge_size") or 2) ** 2
    merger = 2 * width + linear(merged, merged) + linear(merged, fields.size("hidden_size"))
    frames = fields.optional("temporal_patch_size") or 2
    inner = width * (fields.optional("mlp_ratio") or 4)
    return patches(fields, width, frames=frames, bias=False) + layers * layer(width, inner) + merger


def _qwen2_5_vl(fields: Fields, hidden: int) -> int:
    width, layers = fields.size("hidden_size"), fields.size("depth")
    merged = width * (fields.optional("spatial_merge_size") or 2) ** 2
    merger = width + linear(merged, merged) + linear(merged, fields.size("out_hidden_size"))
    frames = fields.optional("temporal_patch_size") or 2
    block = layer(width, fields.size("intermediate_size"), gated=True, norms=2)
    return patches(fields, width, frames=frames, bias=False) + layers * block + merger


def _qwen3_vl(fields: Fields, hidden: int) -> int:
    width, layers = fields.size("hidden_size"), fields.size("depth")
    merged = width * (fields.optional("spatial_merge_size") or 2) ** 2
    merger = linear(merged, merged) + linear(merged, fields.size("out_hidden_size"))
    deep = len(fields.entries("deepstack_visual_indexes") or ())
    frames = fields.optional("temporal_patch_size") or 2
    table = fields.size("num_position_embeddings") * width
    blocks = layers * layer(width, fields.size("intermediate_size"))
    mergers = (1 + deep) * merger + 2 * width + deep * 2 * merged
    return patches(fields, width, frames=frames, bias=True) + table + blocks + mergers


def _siglip(fields: Fields, positions: int, *, bias: bool = True) -> int:
    width, inner = fields.size("hidden_size"), fields.size("intermediate_size")
    blocks = fields.size("num_hidden_layers") * layer(width, inner)
    head = layer(width, inner, norms=3) if fields.flag("vision_use_head") else 0
    return patches(fields, width, bias=bias) + positions * width + blocks + 2 * width + head


def _gemma3(fields: Fields, hidden: int) -> int:
    width = fields.size("hidden_size")
    return _siglip(fields, grid(fields)) + width * hidden + width


def _paligemma(fields: Fields, hidden: int) -> int:
    return _siglip(fields, grid(fields)) + linear(fields.size("hidden_size"), hidden)


def _llava(fields: Fields, hidden: int) -> int:
    width = fields.size("hidden_size")
    projector = linear(width, hidden) + linear(hidden, hidden)
    return _siglip(fields, grid(fields) + 1, bias=False) + 3 * width + projector


def _gemma4(fields: Fields, hidden: int) -> int:
    """Gated MLPs and four norms without biases, q/k norms, positions for both axes, one matrix into the text model."""
    width, layers = fields.size("hidden_size"), fields.size("num_hidden_layers")
    block = layer(width, fields.size("intermediate_size"), gated=True, bias=False) + 2 * fields.size("head_dim")
    table = 2 * fields.size("position_embedding_size") * width
    return patches(fields, width, bias=False) + table + layers * block + width * hidden


def _kimi(fields: Fields, hidden: int) -> int:
    """MoonViT with a patch merger of two linear layers."""
    width, layers = fields.size("vt_hidden_size"), fields.size("vt_num_hidden_layers")
    table = fields.size("init_pos_emb_height") * fields.size("init_pos_emb_width") * width
    merged = 4 * width
    projector = 2 * width + linear(merged, merged) + linear(merged, hidden)
    blocks = layers * layer(width, fields.size("vt_intermediate_size"))
    return patches(fields, width, bias=True) + table + blocks + 2 * width + projector


def _lfm2(fields: Fields, hidden: int) -> int:
    """SigLIP 2 with a table of patches, and a projector behind a 2x2 merge."""
    merged, inner = 4 * fields.size("hidden_size"), fields.size("projector_hidden_size")
    norm = 2 * merged if fields.flag("projector_use_layernorm", True) else 0
    return _siglip(fields, fields.size("num_patches")) + norm + linear(merged, inner) + linear(inner, hidden)


def _glm5(fields: Fields, hidden: int) -> int:
    """Gated MLPs, q/k norms by head, a strided convolution and a gated MLP behind."""
    width, out, layers = fields.size("hidden_size"), fields.size("out_hidden_size"), fields.size("depth")
    block = layer(width, fields.size("intermediate_size"), gated=True, norms=2)
    block += 2 * (width // fields.size("num_heads"))
    joined = linear(width * (fields.optional("spatial_merge_size") or 2) ** 2, out)
    merger = out * out + 2 * out + 3 * out * fields.size("projection_intermediate_size")
    frames = fields.optional("temporal_patch_size") or 2
    return patches(fields, width, frames=frames, bias=True) + layers * block + width + joined + merger


def _minimax(fields: Fields, hidden: int) -> int:
    """Two linear layers a patch, then two for four patches."""
    width, layers = fields.size("hidden_size"), fields.size("num_hidden_layers")
    projector = linear(width, hidden) + 2 * linear(hidden, hidden) + linear(4 * hidden, hidden)
    blocks = layers * layer(width, fields.size("intermediate_size"))
    frames = fields.optional("temporal_patch_size") or 2
    return patches(fields, width, frames=frames, bias=False) + 2 * width + blocks + projector


Count = Callable[[Fields, int], int]

TOWERS: dict[str, Count] = {
    "qwen2_vl": _qwen2_vl,
    "qwen2_5_vl": _qwen2_5_vl,
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), _qwen3_vl),
    "gemma3": _gemma3,
    "paligemma": _paligemma,
    "gemma4": _gemma4,
    "llava": _llava,
    "kimi_k25": _kimi,
    "lfm2_vl": _lfm2,
    "glm5_next": _glm5,
    "minimax_m3_vl": _minimax,
}
"""``model_type`` of the wrapper -> how its tower is counted."""

_VIT = ("hidden_size", "num_hidden_layers", "intermediate_size", "patch_size")
NEEDED: dict[Count, tuple[str, ...]] = {
    _qwen2_vl: ("embed_dim", "depth", "hidden_size", "patch_size"),
    _qwen2_5_vl: ("hidden_size", "depth", "intermediate_size", "patch_size", "out_hidden_size"),
    _qwen3_vl: (
        "hidden_size",
        "depth",
        "intermediate_size",
        "num_position_embeddings",
        "out_hidden_size",
        "patch_size",
    ),
    _gemma3: (*_VIT, "image_size"),
    _paligemma: (*_VIT, "image_size"),
    _llava: (*_VIT, "image_size"),
    _lfm2: (*_VIT, "num_patches", "projector_hidden_size"),
    _glm5: (
        "hidden_size",
        "depth",
        "intermediate_size",
        "num_heads",
        "out_hidden_size",
        "projection_intermediate_size",
    ),
    _minimax: _VIT,
    _gemma4: (*_VIT, "head_dim", "position_embedding_size"),
    _kimi: (
        "vt_hidden_size",
        "vt_num_hidden_layers",
        "vt_intermediate_size",
        "patch_size",
        "init_pos_emb_height",
        "init_pos_emb_width",
    ),
}
"""Fields without which a tower is left out rather than guessed."""
