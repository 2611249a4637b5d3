"""Shapes of towers that decide their work, by the wrapper's ``model_type``; `towers` counts their parameters.

A tower that is counted but not listed here occupies memory and cannot run: prompts with images for it are rejected.
Layers that a wrapper does not run are left out.  LLaVA uses the output of the layer before the last
(``vision_feature_layer``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..model.tower import Product, Tower
from . import document_shapes, image_shapes, resampler_shapes, sound_shapes
from .audio_encoders import width_of
from .fields import Fields, MissingField
from .tower_parts import Chain, first, frames_of, merged_patches, products, qwen2_5_vl, vit
from .towers import DEFAULTS, SPEECH_KEYS, of_ocr, plain_names
from .vision_encoders import grid
from .wrapper import Wrapper

AUDIO_WINDOW_S = 30.0
"""Seconds of sound in one window of Whisper's encoder (arXiv:2212.04356, section 2.2)."""

Shape = Callable[[Wrapper], Tower]


def tower_shape(data: Mapping[str, Any], inner: Mapping[str, Any], key: str, hidden: int) -> Tower | None:
    """The shapes of a tower.

    Parameters
    ----------
    data : mapping of str to object
        The whole ``config.json``.
    inner : mapping of str to object
        Part of the file that describes the tower.
    key : str
        Name of that part: ``vision_config``, ``audio_config`` ...
    hidden : int
        Width of the language model.

    Returns
    -------
    Tower, optional
        None if the shapes are unknown, or not all in the configuration.

    Raises
    ------
    SpecError
        A field of a known tower is invalid.
    """
    wrapper = str(data.get("model_type"))
    hears = key in SPEECH_KEYS
    shape = (AUDIO_SHAPES if hears else SHAPES).get(wrapper)
    if wrapper in TAKE_ANY and not hears:
        shape = TAKEN.get(str(inner.get("model_type")), shape)
    if of_ocr(wrapper, inner):
        shape = document_shapes.deepseek_ocr
    if shape is None:
        return None
    try:
        fields = Fields(plain_names(inner), DEFAULTS.get(wrapper, {}), partial=True)
        return shape(Wrapper(fields, Fields(data, {}), hidden))
    except MissingField:
        return None


# Encoders of one family


def _qwen2_vl(at: Wrapper) -> Tower:
    width, merge = at.encoder.size("embed_dim"), merged_patches(at)
    return vit(
        at,
        width=width,
        inner=width * (at.encoder.optional("mlp_ratio") or 4),
        frames=frames_of(at),
        merge=merge,
        projector=products(width * merge, width * merge, at.encoder.size("hidden_size")),
    )


def _qwen3_vl(at: Wrapper) -> Tower:
    """The merger runs once more for each of the deeper layers whose states are added to the language model's."""
    fields, merge = at.encoder, merged_patches(at)
    wide = fields.size("hidden_size") * merge
    mergers = 1 + len(fields.entries("deepstack_visual_indexes") or ())
    chain = products(wide, wide, fields.size("out_hidden_size"))
    return vit(at, frames=frames_of(at), merge=merge, projector=chain * mergers)


def _glm4v(at: Wrapper) -> Tower:
    fields, merge = at.encoder, merged_patches(at)
    width, out, inner = (fields.size(name) for name in ("hidden_size", "out_hidden_size", "intermediate_size"))
    behind = (*products(width * merge, out, out), Product(out, 2 * inner), Product(inner, out))
    return vit(at, frames=frames_of(at), merge=merge, inner=out, gated=True, projector=behind)


def _glm5(at: Wrapper) -> Tower:
    fields, merge = at.encoder, merged_patches(at)
    width, out, inner = (
        fields.size(name) for name in ("hidden_size", "out_hidden_size", "projection_intermediate_size")
    )
    behind = (*products(width * merge, out, out), Product(out, 2 * inner), Product(inner, out))
    return vit(at, frames=frames_of(at), merge=merge, gated=True, projector=behind)


def _gemma3(at: Wrapper) -> Tower:
    """Patches are averaged to ``mm_tokens_per_image`` tokens."""
    positions, tokens = grid(at.encoder), at.outer.optional("mm_tokens_per_image") or 256
    chain = products(at.encoder.size("hidden_size"), at.hidden)
    return vit(at, positions=positions, merge=max(positions // tokens, 1), projector=chain)


def _paligemma(at: Wrapper) -> Tower:
    return vit(at, positions=grid(at.encoder), projector=products(at.encoder.size("hidden_size"), at.hidden))


def _gemma4(at: Wrapper) -> Tower:
    """Patches are averaged over squares of ``pooling_kernel_size``; an image is as many tokens as it may be at most."""
    fields = at.encoder
    return vit(
        at,
        merge=(fields.optional("pooling_kernel_size") or 3) ** 2,
        gated=True,
        head_dim=fields.size("head_dim"),
        kv_heads=fields.optional("num_key_value_heads"),
        usual_tokens=at.outer.optional("vision_soft_tokens_per_image") or fields.optional("default_output_length"),
        projector=products(fields.size("hidden_size"), at.hidden),
    )


def _kimi(at: Wrapper) -> Tower:
    wide = 4 * first(at.encoder, "vt_hidden_size", "hidden_size")
    return vit(at, merge=4, projector=products(wide, wide, at.hidden))


def _kimi_k3(at: Wrapper) -> Tower:
    heads = at.encoder.size("vt_num_attention_heads")
    wide = 4 * at.encoder.size("vt_hidden_size")
    head_dim = at.encoder.size("qkv_hidden_size") // heads
    return vit(at, merge=4, head_dim=head_dim, projector=products(wide, wide, at.hidden))


def _lfm2(at: Wrapper) -> Tower:
    chain = products(4 * at.encoder.size("hidden_size"), at.outer.size("projector_hidden_size"), at.hidden)
    return vit(at, merge=4, projector=chain)


def _minimax(at: Wrapper) -> Tower:
    """Two matrices for each patch, then two for four patches."""
    width, merge = at.encoder.size("hidden_size"), 4
    each = (Product(width, at.hidden, merge), Product(at.hidden, at.hidden, merge))
    behind = (*each, *products(merge * at.hidden, at.hidden, at.hidden))
    return vit(at, frames=frames_of(at), merge=merge, projector=behind)


def _llama4(at: Wrapper) -> Tower:
    """Four patches side by side pass two matrices of an adapter, then one into the language model."""
    fields = at.encoder
    names = ("intermediate_size", "projector_input_dim", "projector_output_dim")
    chain = (*products(*(fields.size(name) for name in names)), Product(fields.size("vision_output_dim"), at.hidden))
    return vit(at, positions=grid(fields), class_tokens=1, merge=4, projector=chain)


# Encoders that several wrappers take


def _two_layers(at: Wrapper) -> tuple[int, Chain]:
    return 1, products(at.encoder.size("hidden_size"), at.hidden, at.hidden)


def _mistral3(at: Wrapper) -> tuple[int, Chain]:
    width, merge = at.encoder.size("hidden_size"), (at.outer.optional("spatial_merge_size") or 2) ** 2
    return merge, products(width * merge, width, at.hidden, at.hidden)


def _idefics3(at: Wrapper) -> tuple[int, Chain]:
    merge = (at.outer.optional("scale_factor") or 2) ** 2
    return merge, products(at.encoder.size("hidden_size") * merge, at.hidden)


def _cohere2(at: Wrapper) -> tuple[int, Chain]:
    inner = at.outer.optional("alignment_intermediate_size") or 36864
    merge = (at.outer.optional("downsample_factor") or 2) ** 2
    return merge, (Product(at.encoder.size("hidden_size") * merge, inner), Product(inner // 2, at.hidden))


def _shieldgemma2(at: Wrapper) -> tuple[int, Chain]:
    merge = max(grid(at.encoder) // (at.outer.optional("mm_tokens_per_image") or 256), 1)
    return merge, products(at.encoder.size("hidden_size"), at.hidden)


def _clip(at: Wrapper) -> Tower:
    merge, projector = TAKE_ANY[str(at.outer.get("model_type"))](at)
    return vit(at, positions=grid(at.encoder), class_tokens=1, merge=merge, projector=projector)


def _siglip(at: Wrapper) -> Tower:
    merge, projector = TAKE_ANY[str(at.outer.get("model_type"))](at)
    return vit(at, positions=grid(at.encoder), merge=merge, projector=projector)


def _pixtral(at: Wrapper) -> Tower:
    merge, projector = TAKE_ANY[str(at.outer.get("model_type"))](at)
    return vit(at, gated=True, merge=merge, projector=projector)


# Sound


def _whisper(at: Wrapper, merge: int, projector: Chain) -> Tower:
    """Two convolutions of width 3: over two frames for each position, then over the positions."""
    fields, width = at.encoder, width_of(at.encoder)
    return Tower(
        hidden=width,
        intermediate=first(fields, "encoder_ffn_dim", "intermediate_size"),
        layers=first(fields, "encoder_layers", "num_hidden_layers"),
        heads=first(fields, "encoder_attention_heads", "num_attention_heads"),
        stem=(Product(3 * fields.size("num_mel_bins"), width, 2), Product(3 * width, width)),
        projector=projector,
        merge=merge,
        positions=fields.size("max_source_positions"),
        window_s=AUDIO_WINDOW_S,
    )


def _qwen2_audio(at: Wrapper) -> Tower:
    """Pairs of positions are averaged."""
    return _whisper(at, 2, products(width_of(at.encoder), at.hidden))


def _voxtral(at: Wrapper) -> Tower:
    return _whisper(at, 4, products(4 * width_of(at.encoder), at.hidden, at.hidden))


def _moss(at: Wrapper) -> Tower:
    merge = at.outer.optional("audio_merge_size") or 4
    return _whisper(at, merge, products(width_of(at.encoder) * merge, at.hidden, at.hidden))


TAKEN: Mapping[str, Shape] = {
    "clip_vision_model": _clip,
    "siglip_vision_model": _siglip,
    "idefics3_vision": _siglip,
    "smolvlm_vision": _siglip,
    "pixtral": _pixtral,
}
"""``model_type`` of a tower used by several wrappers -> its shape."""

TAKE_ANY: Mapping[str, Callable[[Wrapper], tuple[int, Chain]]] = {
    "aria": resampler_shapes.aria,
    "vipllava": image_shapes.vipllava,
    "deepseek_vl": _two_layers,
    "smolvlm": _idefics3,
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
"""Wrapper that can use any of `TAKEN` -> positions per token, and its projector."""

SHAPES: Mapping[str, Shape] = {
    "qwen2_vl": _qwen2_vl,
    "qwen2_5_vl": qwen2_5_vl,
    "exaone4_5": qwen2_5_vl,
    "qwen3_vl": _qwen3_vl,
    "qwen3_vl_moe": _qwen3_vl,
    "qwen3_5": _qwen3_vl,
    "qwen3_5_moe": _qwen3_vl,
    "cosmos3_omni": _qwen3_vl,
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
    **dict.fromkeys(["internvl", "internvl_chat", "qianfan_ocr"], image_shapes.intern_vit),
    **dict.fromkeys(["minicpmv", "minicpmo"], resampler_shapes.minicpm_v),
    "deepseek_vl_v2": image_shapes.deepseek_vl2,
    "hy_v4_vl": image_shapes.hy_v4,
    **dict.fromkeys(["inkling2", "inkling2_loop"], image_shapes.inkling2),
    "lfm3_vl": image_shapes.lfm3,
    "ovis2": image_shapes.ovis2,
    "step3p7": image_shapes.step3,
    **dict.fromkeys(["ernie4_5_vl_moe", "ernie4_5_moe_vl"], image_shapes.ernie_vl),
    "paddleocr_vl": document_shapes.normed_merger,
    "video_llama_3": image_shapes.two_layers,
    "phi4_multimodal": image_shapes.phi4_vision,
    "glm_ocr": document_shapes.glm_ocr,
    **dict.fromkeys(["got_ocr2", "pp_chart2table"], document_shapes.got_ocr),
    "kimi_vl": _kimi,
    "llama4": _llama4,
    "llava": _clip,
    **dict.fromkeys(["qwen2_5_omni", "qwen2_5_omni_thinker"], qwen2_5_vl),
    **dict.fromkeys(["qwen3_omni_moe", "qwen3_omni_moe_thinker"], _qwen3_vl),
    "blip-2": resampler_shapes.blip2,
    "cosmos3_edge": image_shapes.cosmos3_edge,
    "dots3_note": image_shapes.dots3_note,
    "granite_docling": document_shapes.granite_docling,
    "hyperclovax_vision_v2": image_shapes.hyperclovax,
    "idefics2": resampler_shapes.idefics2,
    "janus": image_shapes.janus,
    **dict.fromkeys(["minicpmv4_6", "minicpmv4_7", "minicpm_ocr"], resampler_shapes.minicpm4_6),
    "mllama": image_shapes.mllama,
    "molmo2": image_shapes.molmo2,
    **dict.fromkeys(["muse_glimmer", "muse_spark"], image_shapes.muse),
    "nemotron_h_omni": image_shapes.radio,
    "phi3_v": image_shapes.phi3_vision,
    "unlimited_ocr": document_shapes.deepseek_ocr,
    "video_llava": image_shapes.video_llava,
}
"""Wrapper -> shape of its tower for images."""

AUDIO_SHAPES: Mapping[str, Shape] = {
    "qwen2_audio": _qwen2_audio,
    "voxtral": _voxtral,
    "moss_transcribe_diarize": _moss,
    **dict.fromkeys(["qwen2_5_omni", "qwen2_5_omni_thinker"], sound_shapes.qwen_omni_audio),
    **dict.fromkeys(["qwen3_omni_moe", "qwen3_omni_moe_thinker", "qwen3_asr"], sound_shapes.qwen3_omni_audio),
    **sound_shapes.SOUND_SHAPES,
}
"""Wrapper -> shape of its tower for sound."""
