"""Towers: encoders of images and sound with the projector into the language model, by the wrapper's ``model_type``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import SpecError
from . import audio_encoders, vision_encoders
from .fields import Fields, MissingField
from .image_towers import IMAGE_TOWERS, deepseek_ocr
from .speech_towers import SPEECH_TOWERS
from .vision_encoders import matrix, merged_on_a_side
from .wrapper import Wrapper

Encoder = Callable[[Fields], int]
Projector = Callable[[Wrapper], int]


def tower(data: Mapping[str, Any], inner: Mapping[str, Any], key: str, hidden: int) -> int | None:
    """Count the parameters of a tower and its projector.

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
    int, optional
        Number of parameters; None if its shapes are unknown, or not all in the configuration.

    Raises
    ------
    SpecError
        A field of a known tower is invalid.
    """
    wrapper = str(data.get("model_type"))
    fields = Fields(plain_names(inner), DEFAULTS.get(wrapper, {}), partial=True)
    at = Wrapper(fields, Fields(data, {}), hidden)
    whole = (SPEECH_TOWERS if key in SPEECH_KEYS else IMAGE_TOWERS).get(wrapper)
    if of_ocr(wrapper, inner):
        whole = deepseek_ocr
    found = _known(wrapper, str(inner.get("model_type")), key)
    try:
        if whole is not None:
            return whole(at)
        return None if found is None else found[0](fields) + found[1](at)
    except MissingField:
        return None


def of_ocr(wrapper: str, inner: Mapping[str, Any]) -> bool:
    """Whether a file with DeepSeek-VL2's ``model_type`` is that of DeepSeek-OCR, which names two encoders."""
    return wrapper == "deepseek_vl_v2" and isinstance(inner.get("width"), Mapping)


def sees_images(wrapper: str) -> bool:
    """Whether models of this ``model_type`` have an encoder of images."""
    return wrapper in VISION or wrapper in GENERIC or wrapper in IMAGE_TOWERS


SPEECH_KEYS = ("audio_config", "speech_config", "encoder_config")
"""Parts of a wrapper that are encoders of sound."""


def plain_names(inner: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a tower by their usual names; Step and DeepSeek have ``width``, ``layers`` and ``mlp_ratio``."""
    if inner.get("model_type") not in ("perception_encoder", "vision") or isinstance(inner.get("width"), Mapping):
        return inner
    fields, ratio = Fields(inner, {}), inner.get("mlp_ratio")
    if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 < ratio < 1000:
        raise SpecError(f"mlp_ratio must be a number above 0: {ratio!r:.80}")
    width = fields.size("width")
    return {
        **inner,
        "hidden_size": width,
        "intermediate_size": int(ratio * width),
        "num_hidden_layers": fields.size("layers"),
    }


def _known(wrapper: str, encoder: str, key: str) -> tuple[Encoder, Projector] | None:
    """Encoder and projector; wrappers that take several encoders name theirs in the tower's own ``model_type``."""
    if key == "audio_config":
        return AUDIO.get(wrapper)
    if wrapper in GENERIC and encoder in ENCODERS:
        return ENCODERS[encoder], GENERIC[wrapper]
    return VISION.get(wrapper)


# Projectors


def _none(at: Wrapper) -> int:
    return 0


def _width(at: Wrapper) -> int:
    return at.encoder.size("hidden_size")


def _two_layers(at: Wrapper) -> int:
    """Two linear layers, with biases unless configured."""
    bias = at.outer.flag("multimodal_projector_bias", True)
    return matrix(_width(at), at.hidden, bias=bias) + matrix(at.hidden, at.hidden, bias=bias)


def _two_layers_and_newline(at: Wrapper) -> int:
    """The same, and a learned vector that ends a row of patches."""
    return _two_layers(at) + at.hidden


def _several_layers(at: Wrapper) -> int:
    """Features of several layers side by side, normalized (ViP-LLaVA)."""
    chosen = at.outer.get("vision_feature_layer")
    wide = _width(at) * (len(chosen) if isinstance(chosen, list) else 1)
    return 2 * wide + matrix(wide, at.hidden) + matrix(at.hidden, at.hidden)


def _gemma3(at: Wrapper) -> int:
    return _width(at) * at.hidden + _width(at)


def _one_layer(at: Wrapper) -> int:
    return matrix(_width(at), at.encoder.optional("projection_dim") or at.hidden)


def _one_matrix(at: Wrapper) -> int:
    return _width(at) * at.hidden


def _gemma4_audio(at: Wrapper) -> int:
    return at.encoder.size("output_proj_dims") * at.hidden


def _mistral3(at: Wrapper) -> int:
    """A norm, a merger of patches and two matrices."""
    width, merge = _width(at), at.outer.optional("spatial_merge_size") or 2
    bias = at.outer.flag("multimodal_projector_bias")
    merger = width + width * merge**2 * width
    return merger + matrix(width, at.hidden, bias=bias) + matrix(at.hidden, at.hidden, bias=bias)


def _idefics3(at: Wrapper) -> int:
    return _width(at) * (at.outer.optional("scale_factor") or 2) ** 2 * at.hidden


def _aria(at: Wrapper) -> int:
    """Learned queries that attend to the patches, then two matrices."""
    width = _width(at)
    attention = 3 * width * width + matrix(width, 3 * width) + 2 * matrix(width, width) + 4 * width
    queries = (at.outer.optional("max_value_projector_patch_to_query_dict") or 256) * width
    return queries + attention + 2 * width + width * at.hidden + at.hidden**2


def _cohere2(at: Wrapper) -> int:
    """Patches merged, then a gated layer."""
    inner, factor = (
        at.outer.optional("alignment_intermediate_size") or 36864,
        at.outer.optional("downsample_factor") or 2,
    )
    return matrix(_width(at) * factor**2, inner) + matrix(inner // 2, at.hidden)


def _internvl(at: Wrapper) -> int:
    """Patches merged by the inverse of ``downsample_ratio`` on each side, normalized, two linear layers."""
    merged = _width(at) * merged_on_a_side(at.outer) ** 2
    return 2 * merged + matrix(merged, at.hidden) + matrix(at.hidden, at.hidden)


def _kimi(at: Wrapper) -> int:
    """A patch merger of two linear layers."""
    width = at.encoder.optional("vt_hidden_size") or _width(at)
    merged = 4 * width
    return 2 * width + matrix(merged, merged) + matrix(merged, at.hidden)


def _kimi_k3(at: Wrapper) -> int:
    """A patch merger of two linear layers without biases, normalized behind."""
    merged = 4 * at.encoder.size("vt_hidden_size")
    return merged * merged + merged * at.hidden + at.hidden


def _lfm2(at: Wrapper) -> int:
    """Patches merged two by two, normalized unless configured, two linear layers."""
    merged = (at.outer.optional("downsample_factor") or 2) ** 2 * _width(at)
    inner, bias = at.outer.size("projector_hidden_size"), at.outer.flag("projector_bias", True)
    norm = 2 * merged if at.outer.flag("projector_use_layernorm", True) else 0
    return norm + matrix(merged, inner, bias=bias) + matrix(inner, at.hidden, bias=bias)


def _lfm3(at: Wrapper) -> int:
    """As LFM2's, the norm before patches are merged."""
    inner, bias = at.outer.size("projector_hidden_size"), at.outer.flag("projector_bias", True)
    merged = (at.encoder.optional("spatial_merge_size") or 2) ** 2 * _width(at)
    return 2 * _width(at) + matrix(merged, inner, bias=bias) + matrix(inner, at.hidden, bias=bias)


def _llama4(at: Wrapper) -> int:
    return at.encoder.size("vision_output_dim") * at.hidden


def _mllama(at: Wrapper) -> int:
    return matrix(at.encoder.size("vision_output_dim"), at.hidden)


def _minicpm(at: Wrapper) -> int:
    """Mergers of four patches one after another, the last into the language model."""
    merged = 4 * _width(at)
    times = at.outer.optional("merger_times") or 1
    between = 2 * merged + matrix(merged, merged) + matrix(merged, _width(at))
    return (times - 1) * between + 2 * merged + matrix(merged, merged) + matrix(merged, at.hidden)


def _minimax(at: Wrapper) -> int:
    """Two linear layers a patch, then two for four patches."""
    between = at.outer.optional("projector_hidden_size") or at.hidden
    merged = (at.encoder.optional("spatial_merge_size") or 2) ** 2 * at.hidden
    first = matrix(_width(at), between) + matrix(between, at.hidden)
    return first + matrix(merged, between) + matrix(between, at.hidden)


def _gemma3n(at: Wrapper) -> int:
    """Embeddings of the encoder's own tokens, two norms, one matrix."""
    return at.encoder.size("vocab_size") * _width(at) + 2 * _width(at) + _width(at) * at.hidden


def _ovis2(at: Wrapper) -> int:
    """A table of visual words, as wide as the wrapper says."""
    return at.encoder.size("vocab_size") * (at.outer.optional("hidden_size") or at.hidden)


def _step3(at: Wrapper) -> int:
    return matrix(4 * _width(at), at.hidden, bias=at.outer.flag("projector_bias"))


def _lfm2_vision(fields: Fields) -> int:
    return vision_encoders.siglip(fields, positions=fields.size("num_patches"))


def _kimi_vision(fields: Fields) -> int:
    return vision_encoders.moonvit(fields, "vt_" if fields.get("vt_hidden_size") is not None else "")


def _deepseek_vl2(at: Wrapper) -> int:
    """Patches merged, two linear layers, the ends of a row and of a view."""
    outer = at.outer.get("projector_config")
    projector = Fields(outer if isinstance(outer, Mapping) else {}, {})
    if projector.get("projector_type") not in (None, "downsample_mlp_gelu") or projector.get("depth") not in (None, 2):
        raise MissingField("shapes of the projector")
    merged = _width(at) * (projector.optional("downsample_ratio") or 2) ** 2
    inner = at.hidden * (projector.optional("mlp_ratio") or 1)
    return matrix(merged, inner) + matrix(inner, at.hidden) + 2 * at.hidden


def _resampler(at: Wrapper) -> int:
    """MiniCPM-V: learned queries attend once to the patches of a slice (arXiv:2408.01800, section 3.1)."""
    width, out = _width(at), at.hidden
    queries = at.outer.optional("query_num") or 64
    return queries * out + width * out + 4 * matrix(out, out) + 6 * out + out * out


def _ernie_vl(at: Wrapper) -> int:
    """Two linear layers and a norm over merged patches, the same over two frames of a video, one into the model."""
    merged = _width(at) * (at.encoder.optional("spatial_merge_size") or 2) ** 2
    frames = at.encoder.optional("temporal_merge_size") or 2
    spatial = 2 * matrix(merged, merged) + 2 * merged
    temporal = matrix(frames * merged, merged) + matrix(merged, merged) + 2 * merged
    return spatial + temporal + matrix(merged, at.hidden) + at.hidden


def _normed_merger(at: Wrapper) -> int:
    """A norm of each patch, then two linear layers over merged ones."""
    merged = _width(at) * (at.encoder.optional("spatial_merge_size") or 2) ** 2
    return 2 * _width(at) + matrix(merged, merged) + matrix(merged, at.hidden)


def _got_ocr(at: Wrapper) -> int:
    """Two strided convolutions, the second to the width of the language model, then a linear layer."""
    out = at.encoder.size("output_channels")
    return 9 * out * 2 * out + 9 * 2 * out * at.hidden + matrix(at.hidden, at.hidden)


def _phi4_audio(at: Wrapper) -> int:
    """Two linear layers for speech, and two for speech beside images."""
    return 2 * (matrix(_width(at), at.hidden) + matrix(at.hidden, at.hidden))


def _qwen2_audio(at: Wrapper) -> int:
    return matrix(audio_encoders.width_of(at.encoder), at.hidden)


def _voxtral(at: Wrapper) -> int:
    """Four frames side by side are as wide as the encoder's MLP."""
    return at.encoder.size("intermediate_size") * at.hidden + at.hidden**2


def _moss(at: Wrapper) -> int:
    """Frames merged, two linear layers, a norm."""
    merged = audio_encoders.width_of(at.encoder) * (at.outer.optional("audio_merge_size") or 4)
    bias = at.outer.flag("projector_bias", True)
    return matrix(merged, at.hidden, bias=bias) + matrix(at.hidden, at.hidden, bias=bias) + 2 * at.hidden


ENCODERS: Mapping[str, Encoder] = {
    "clip_vision_model": vision_encoders.clip,
    "siglip_vision_model": vision_encoders.siglip,
    "pixtral": vision_encoders.pixtral,
    "idefics3_vision": vision_encoders.siglip,
    "smolvlm_vision": vision_encoders.siglip,
}
"""``model_type`` of a tower used by several wrappers -> function that counts it."""

GENERIC: Mapping[str, Projector] = {
    "deepseek_vl": _two_layers,
    "smolvlm": _idefics3,
    "llava": _two_layers,
    "llava_next": _two_layers_and_newline,
    "llava_next_video": _two_layers_and_newline,
    "llava_onevision": _two_layers_and_newline,
    "vipllava": _several_layers,
    "mistral3": _mistral3,
    "mistral_large4": _mistral3,
    "lighton_ocr": _mistral3,
    "idefics3": _idefics3,
    "aria": _aria,
    "cohere2_vision": _cohere2,
    "shieldgemma2": _gemma3,
}
"""Wrapper that can use any of the `ENCODERS` -> its projector."""

VISION: Mapping[str, tuple[Encoder, Projector]] = {
    "qwen2_vl": (vision_encoders.qwen2_vl, _none),
    "qwen2_5_vl": (vision_encoders.qwen2_5_vl, _none),
    "qwen3_vl": (vision_encoders.qwen3_vl, _none),
    "qwen3_vl_moe": (vision_encoders.qwen3_vl, _none),
    "qwen3_5": (vision_encoders.qwen3_vl, _none),
    "qwen3_5_moe": (vision_encoders.qwen3_vl, _none),
    "cosmos3_omni": (vision_encoders.qwen3_vl, _none),
    "exaone4_5": (vision_encoders.exaone4_5, _none),
    "glm4v": (vision_encoders.glm4v, _none),
    "glm4v_moe": (vision_encoders.glm4v, _none),
    "glm46v": (vision_encoders.glm4v, _none),
    "glmga": (vision_encoders.glm4v, _none),
    "glm5_next": (vision_encoders.glm5, _none),
    "gemma3": (vision_encoders.siglip, _gemma3),
    "paligemma": (vision_encoders.siglip, _one_layer),
    "gemma3n": (vision_encoders.mobilenet_v5, _gemma3n),
    "gemma4": (vision_encoders.gemma4, _one_matrix),
    "llava": (vision_encoders.clip, _two_layers),
    "kimi_k3": (vision_encoders.moonvit3d, _kimi_k3),
    "inkling2": (vision_encoders.inkling2, _none),
    "inkling2_loop": (vision_encoders.inkling2, _none),
    "kimi_k25": (_kimi_vision, _kimi),
    "lfm2_vl": (_lfm2_vision, _lfm2),
    "lfm3_vl": (vision_encoders.lfm3, _lfm3),
    "minimax_m3_vl": (vision_encoders.minimax, _minimax),
    "internvl": (vision_encoders.internvl, _internvl),
    "llama4": (vision_encoders.llama4, _llama4),
    "mllama": (vision_encoders.mllama, _mllama),
    "hy_v4_vl": (vision_encoders.hy_v4, _none),
    "minicpmv4_6": (vision_encoders.minicpm, _minicpm),
    "minicpmv4_7": (vision_encoders.minicpm, _minicpm),
    "minicpm_ocr": (vision_encoders.minicpm, _minicpm),
    "ovis2": (vision_encoders.ovis2, _ovis2),
    "step3p7": (vision_encoders.step3, _step3),
    "granite_docling": (vision_encoders.granite_docling, _none),
    **dict.fromkeys(["qwen2_5_omni", "qwen2_5_omni_thinker"], (vision_encoders.qwen2_5_vl, _none)),
    **dict.fromkeys(["qwen3_omni_moe", "qwen3_omni_moe_thinker"], (vision_encoders.qwen3_vl, _none)),
    **dict.fromkeys(["ernie4_5_vl_moe", "ernie4_5_moe_vl"], (vision_encoders.ernie_vl, _ernie_vl)),
    "paddleocr_vl": (vision_encoders.siglip, _normed_merger),
    "phi4_multimodal": (vision_encoders.phi4_vision, _two_layers),
    "glm_ocr": (vision_encoders.glm_ocr, _none),
    **dict.fromkeys(["got_ocr2", "pp_chart2table"], (vision_encoders.segment_anything, _got_ocr)),
    "qianfan_ocr": (vision_encoders.internvl, _internvl),
    "video_llama_3": (vision_encoders.siglip_without_positions, _two_layers),
    **dict.fromkeys(["minicpmv", "minicpmo"], (vision_encoders.siglip, _resampler)),
    "deepseek_vl_v2": (vision_encoders.siglip_of_timm, _deepseek_vl2),
    "internvl_chat": (vision_encoders.intern_vit, _internvl),
    "kimi_vl": (vision_encoders.moonvit_beside, _kimi),
}
"""Wrapper with a vision encoder of its own -> encoder and projector."""

AUDIO: Mapping[str, tuple[Encoder, Projector]] = {
    "qwen2_audio": (audio_encoders.whisper, _qwen2_audio),
    "gemma3n": (audio_encoders.usm, _gemma3n),
    "gemma4": (audio_encoders.gemma4, _gemma4_audio),
    "voxtral": (audio_encoders.whisper, _voxtral),
    "moss_transcribe_diarize": (audio_encoders.whisper, _moss),
    **dict.fromkeys(["qwen2_5_omni", "qwen2_5_omni_thinker"], (audio_encoders.qwen_omni_audio, _none)),
    **dict.fromkeys(["qwen3_omni_moe", "qwen3_omni_moe_thinker"], (audio_encoders.qwen3_omni_audio, _none)),
    "qwen3_asr": (audio_encoders.qwen3_omni_audio, _none),
    "phi4_multimodal": (audio_encoders.phi4_audio, _phi4_audio),
}
"""Wrapper -> audio encoder and projector."""

DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "deepseek_vl_v2": {"image_size": 384, "num_attention_heads": 16},
    "qwen2_vl": {"embed_dim": 1280, "depth": 32, "num_heads": 16, "patch_size": 14},
    "qwen2_5_vl": {
        **{"depth": 32, "num_heads": 16, "patch_size": 14, "hidden_size": 3584},
        **{"intermediate_size": 3420, "out_hidden_size": 3584, "fullatt_block_indexes": [7, 15, 23, 31]},
    },
    "qwen3_omni_moe": {"deepstack_visual_indexes": [8, 16, 24]},
    "qwen3_omni_moe_thinker": {"deepstack_visual_indexes": [8, 16, 24]},
}
"""Wrapper -> fields of its tower that published files omit; values of the class in transformers 5.24.0."""
