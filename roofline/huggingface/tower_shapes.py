"""Shapes of towers that decide their work, by the wrapper's ``model_type``; `towers` counts their parameters.

A tower that is counted and not here is resident and can't be run: prompts with images for it are refused.  Layers that
a wrapper does not run are left out: LLaVA takes the output of the layer before the last (``vision_feature_layer``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from math import isqrt
from typing import Any

from ..errors import SpecError
from ..model.tower import IMAGE_PIXELS, Product, Tower
from .audio_encoders import width_of
from .fields import Fields, MissingField
from .towers import DEFAULTS, Wrapper
from .vision_encoders import grid, side

AUDIO_WINDOW_S = 30.0
"""Seconds of sound that Whisper's encoder takes at once (arXiv:2212.04356, section 2.2)."""

Shape = Callable[[Wrapper], Tower]
Chain = tuple[Product, ...]


def tower_shape(data: Mapping[str, Any], inner: Mapping[str, Any], hidden: int) -> Tower | None:
    """The shapes of a tower.

    Parameters
    ----------
    data : mapping of str to object
        The whole ``config.json``.
    inner : mapping of str to object
        The tower's own part of it.
    hidden : int
        Width of the language model.

    Returns
    -------
    Tower, optional
        None if they are not known here, or not all in the configuration.

    Raises
    ------
    SpecError
        A field of a known tower makes no sense.
    """
    wrapper = str(data.get("model_type"))
    shape = SHAPES.get(wrapper)
    if wrapper in TAKE_ANY:
        shape = TAKEN.get(str(inner.get("model_type")), shape)
    if shape is None:
        return None
    try:
        fields = Fields(inner, DEFAULTS.get(wrapper, {}), partial=True)
        return shape(Wrapper(fields, Fields(data, {}), hidden))
    except MissingField:
        return None


def _first(fields: Fields, *names: str) -> int:
    """The field that the configuration has of several names for one thing."""
    for name in names[:-1]:
        value = fields.optional(name)
        if value is not None:
            return value
    return fields.size(names[-1])


def _chain(*widths: int) -> Chain:
    """Matrices one behind another."""
    return tuple(Product(d_in, d_out) for d_in, d_out in pairwise(widths))


def _merge(at: Wrapper) -> int:
    patches_on_a_side = at.encoder.optional("spatial_merge_size") or at.outer.optional("spatial_merge_size") or 2
    return int(patches_on_a_side**2)


def _usual_tokens(at: Wrapper, merge: int) -> int:
    """Tokens of an image of `IMAGE_PIXELS` on each side, resized to whole tokens as processors do."""
    pixels = side(at.encoder, "patch_size") * isqrt(merge)
    return max(round(IMAGE_PIXELS / pixels), 1) ** 2


def _run_layers(at: Wrapper, layers: int) -> int:
    """Layers up to the one whose output the wrapper takes: -1 is the last, 0 the first one's input."""
    taken = at.outer.get("vision_feature_layer")
    if not isinstance(taken, int) or isinstance(taken, bool):
        return layers
    run = layers + 1 + taken if taken < 0 else taken
    if not 1 <= run <= layers:
        raise SpecError(f"vision_feature_layer must be one of the {layers} layers: {taken}")
    return run


def _vit(at: Wrapper, *, frames: int = 1, merge: int = 1, **more: Any) -> Tower:
    """A vision transformer by its usual fields; of any size of image unless ``positions`` says otherwise."""
    fields = at.encoder
    width = more.pop("width", None) or _first(fields, "vt_hidden_size", "hidden_size")
    inner = more.pop("inner", None) or _first(fields, "vt_intermediate_size", "intermediate_size")
    patch = 3 * frames * side(fields, "patch_size") ** 2
    usual = 0 if more.get("positions") else more.pop("usual_tokens", None) or _usual_tokens(at, merge)
    depth = _first(fields, "depth", "vt_num_hidden_layers", "num_hidden_layers")
    return Tower(
        hidden=width,
        intermediate=inner,
        layers=_run_layers(at, depth),
        heads=_first(fields, "num_heads", "vt_num_attention_heads", "num_attention_heads"),
        stem=(Product(patch, width),),
        merge=merge,
        usual_tokens=usual,
        **more,
    )


def _frames(at: Wrapper) -> int:
    return at.encoder.optional("temporal_patch_size") or 2


# Encoders of one family


def _qwen2_vl(at: Wrapper) -> Tower:
    width, merge = at.encoder.size("embed_dim"), _merge(at)
    return _vit(
        at,
        width=width,
        inner=width * (at.encoder.optional("mlp_ratio") or 4),
        frames=_frames(at),
        merge=merge,
        projector=_chain(width * merge, width * merge, at.encoder.size("hidden_size")),
    )


def _qwen2_5_vl(at: Wrapper) -> Tower:
    """Windows of ``window_size`` pixels in all layers but a few; EXAONE 4.5's has fewer KV heads."""
    fields, merge = at.encoder, _merge(at)
    wide = fields.size("hidden_size") * merge
    full = len(fields.entries("fullatt_block_indexes") or ())
    return _vit(
        at,
        frames=_frames(at),
        merge=merge,
        gated=True,
        kv_heads=fields.optional("num_key_value_heads"),
        window=((fields.optional("window_size") or 112) // side(fields, "patch_size")) ** 2,
        windowed_layers=max(fields.size("depth") - full, 0),
        projector=_chain(wide, wide, fields.size("out_hidden_size")),
    )


def _qwen3_vl(at: Wrapper) -> Tower:
    """The merger runs once more for each of the deeper layers whose states are added to the language model's."""
    fields, merge = at.encoder, _merge(at)
    wide = fields.size("hidden_size") * merge
    mergers = 1 + len(fields.entries("deepstack_visual_indexes") or ())
    chain = _chain(wide, wide, fields.size("out_hidden_size"))
    return _vit(at, frames=_frames(at), merge=merge, projector=chain * mergers)


def _glm4v(at: Wrapper) -> Tower:
    fields, merge = at.encoder, _merge(at)
    width, out, inner = (fields.size(name) for name in ("hidden_size", "out_hidden_size", "intermediate_size"))
    behind = (*_chain(width * merge, out, out), Product(out, 2 * inner), Product(inner, out))
    return _vit(at, frames=_frames(at), merge=merge, inner=out, gated=True, projector=behind)


def _glm5(at: Wrapper) -> Tower:
    fields, merge = at.encoder, _merge(at)
    width, out, inner = (
        fields.size(name) for name in ("hidden_size", "out_hidden_size", "projection_intermediate_size")
    )
    behind = (*_chain(width * merge, out, out), Product(out, 2 * inner), Product(inner, out))
    return _vit(at, frames=_frames(at), merge=merge, gated=True, projector=behind)


def _gemma3(at: Wrapper) -> Tower:
    """Patches are averaged to ``mm_tokens_per_image`` tokens."""
    positions, tokens = grid(at.encoder), at.outer.optional("mm_tokens_per_image") or 256
    chain = _chain(at.encoder.size("hidden_size"), at.hidden)
    return _vit(at, positions=positions, merge=max(positions // tokens, 1), projector=chain)


def _paligemma(at: Wrapper) -> Tower:
    return _vit(at, positions=grid(at.encoder), projector=_chain(at.encoder.size("hidden_size"), at.hidden))


def _gemma4(at: Wrapper) -> Tower:
    """Patches are averaged over squares of ``pooling_kernel_size``; an image is as many tokens as it may be at most."""
    fields = at.encoder
    return _vit(
        at,
        merge=(fields.optional("pooling_kernel_size") or 3) ** 2,
        gated=True,
        head_dim=fields.size("head_dim"),
        kv_heads=fields.optional("num_key_value_heads"),
        usual_tokens=at.outer.optional("vision_soft_tokens_per_image") or fields.optional("default_output_length"),
        projector=_chain(fields.size("hidden_size"), at.hidden),
    )


def _kimi(at: Wrapper) -> Tower:
    wide = 4 * _first(at.encoder, "vt_hidden_size", "hidden_size")
    return _vit(at, merge=4, projector=_chain(wide, wide, at.hidden))


def _kimi_k3(at: Wrapper) -> Tower:
    heads = at.encoder.size("vt_num_attention_heads")
    wide = 4 * at.encoder.size("vt_hidden_size")
    head_dim = at.encoder.size("qkv_hidden_size") // heads
    return _vit(at, merge=4, head_dim=head_dim, projector=_chain(wide, wide, at.hidden))


def _lfm2(at: Wrapper) -> Tower:
    chain = _chain(4 * at.encoder.size("hidden_size"), at.outer.size("projector_hidden_size"), at.hidden)
    return _vit(at, merge=4, projector=chain)


def _minimax(at: Wrapper) -> Tower:
    """Two matrices for each patch, then two for four patches."""
    width, merge = at.encoder.size("hidden_size"), 4
    each = (Product(width, at.hidden, merge), Product(at.hidden, at.hidden, merge))
    behind = (*each, *_chain(merge * at.hidden, at.hidden, at.hidden))
    return _vit(at, frames=_frames(at), merge=merge, projector=behind)


def _internvl(at: Wrapper) -> Tower:
    ratio = at.outer.get("downsample_ratio")
    merge = (round(1 / ratio) if isinstance(ratio, float) and 0 < ratio <= 1 else 2) ** 2
    chain = _chain(at.encoder.size("hidden_size") * merge, at.hidden, at.hidden)
    return _vit(at, positions=grid(at.encoder), class_tokens=1, merge=merge, projector=chain)


def _llama4(at: Wrapper) -> Tower:
    """Four patches side by side pass two matrices of an adapter, then one into the language model."""
    fields = at.encoder
    names = ("intermediate_size", "projector_input_dim", "projector_output_dim")
    chain = (*_chain(*(fields.size(name) for name in names)), Product(fields.size("vision_output_dim"), at.hidden))
    return _vit(at, positions=grid(fields), class_tokens=1, merge=4, projector=chain)


# Encoders that several wrappers take


def _two_layers(at: Wrapper) -> tuple[int, Chain]:
    return 1, _chain(at.encoder.size("hidden_size"), at.hidden, at.hidden)


def _mistral3(at: Wrapper) -> tuple[int, Chain]:
    width, merge = at.encoder.size("hidden_size"), (at.outer.optional("spatial_merge_size") or 2) ** 2
    return merge, _chain(width * merge, width, at.hidden, at.hidden)


def _idefics3(at: Wrapper) -> tuple[int, Chain]:
    merge = (at.outer.optional("scale_factor") or 2) ** 2
    return merge, _chain(at.encoder.size("hidden_size") * merge, at.hidden)


def _cohere2(at: Wrapper) -> tuple[int, Chain]:
    inner = at.outer.optional("alignment_intermediate_size") or 36864
    merge = (at.outer.optional("downsample_factor") or 2) ** 2
    return merge, (Product(at.encoder.size("hidden_size") * merge, inner), Product(inner // 2, at.hidden))


def _shieldgemma2(at: Wrapper) -> tuple[int, Chain]:
    merge = max(grid(at.encoder) // (at.outer.optional("mm_tokens_per_image") or 256), 1)
    return merge, _chain(at.encoder.size("hidden_size"), at.hidden)


def _clip(at: Wrapper) -> Tower:
    merge, projector = TAKE_ANY[str(at.outer.get("model_type"))](at)
    return _vit(at, positions=grid(at.encoder), class_tokens=1, merge=merge, projector=projector)


def _siglip(at: Wrapper) -> Tower:
    merge, projector = TAKE_ANY[str(at.outer.get("model_type"))](at)
    return _vit(at, positions=grid(at.encoder), merge=merge, projector=projector)


def _pixtral(at: Wrapper) -> Tower:
    merge, projector = TAKE_ANY[str(at.outer.get("model_type"))](at)
    return _vit(at, gated=True, merge=merge, projector=projector)


# Sound


def _whisper(at: Wrapper, merge: int, projector: Chain) -> Tower:
    """Two convolutions of width 3: over two frames for each position, then over the positions."""
    fields, width = at.encoder, width_of(at.encoder)
    return Tower(
        hidden=width,
        intermediate=_first(fields, "encoder_ffn_dim", "intermediate_size"),
        layers=_first(fields, "encoder_layers", "num_hidden_layers"),
        heads=_first(fields, "encoder_attention_heads", "num_attention_heads"),
        stem=(Product(3 * fields.size("num_mel_bins"), width, 2), Product(3 * width, width)),
        projector=projector,
        merge=merge,
        positions=fields.size("max_source_positions"),
        window_s=AUDIO_WINDOW_S,
    )


def _qwen2_audio(at: Wrapper) -> Tower:
    """Pairs of positions are averaged."""
    return _whisper(at, 2, _chain(width_of(at.encoder), at.hidden))


def _voxtral(at: Wrapper) -> Tower:
    return _whisper(at, 4, _chain(4 * width_of(at.encoder), at.hidden, at.hidden))


def _moss(at: Wrapper) -> Tower:
    merge = at.outer.optional("audio_merge_size") or 4
    return _whisper(at, merge, _chain(width_of(at.encoder) * merge, at.hidden, at.hidden))


TAKEN: Mapping[str, Shape] = {
    "clip_vision_model": _clip,
    "siglip_vision_model": _siglip,
    "idefics3_vision": _siglip,
    "pixtral": _pixtral,
}
"""``model_type`` of a tower that several wrappers take -> its shape."""

TAKE_ANY: Mapping[str, Callable[[Wrapper], tuple[int, Chain]]] = {
    "llava": _two_layers,
    "llava_next": _two_layers,
    "llava_next_video": _two_layers,
    "llava_onevision": _two_layers,
    "mistral3": _mistral3,
    "mistral_large4": _mistral3,
    "lighton_ocr": _mistral3,
    "idefics3": _idefics3,
    "cohere2_vision": _cohere2,
    "shieldgemma2": _shieldgemma2,
}
"""Wrapper that takes any of `TAKEN` -> positions of a token, and its projector."""

SHAPES: Mapping[str, Shape] = {
    "qwen2_vl": _qwen2_vl,
    "qwen2_5_vl": _qwen2_5_vl,
    "exaone4_5": _qwen2_5_vl,
    "qwen3_vl": _qwen3_vl,
    "qwen3_vl_moe": _qwen3_vl,
    "qwen3_5": _qwen3_vl,
    "qwen3_5_moe": _qwen3_vl,
    "glm4v": _glm4v,
    "glm4v_moe": _glm4v,
    "glm46v": _glm4v,
    "glmga": _glm4v,
    "glm5_next": _glm5,
    "gemma3": _gemma3,
    "paligemma": _paligemma,
    "gemma4": _gemma4,
    "kimi_k25": _kimi,
    "kimi_k3": _kimi_k3,
    "lfm2_vl": _lfm2,
    "minimax_m3_vl": _minimax,
    "internvl": _internvl,
    "llama4": _llama4,
    "llava": _clip,
    "qwen2_audio": _qwen2_audio,
    "voxtral": _voxtral,
    "moss_transcribe_diarize": _moss,
}
"""Wrapper -> shape of its tower."""
