"""Find the text model in a configuration, and its family."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import SpecError
from .encoder_families import OTHER_ENCODERS
from .families import ALIASES, FAMILIES
from .family import Family
from .fields import Fields, class_defaults

TEXT_KEYS = ("text_config", "language_config", "llm_config", "thinker_config", "text_model_config")
OF_SOUND = frozenset(
    {
        *("wav2vec2", "hubert", "wavlm", "data2vec-audio", "parakeet_ctc", "parakeet_encoder", "wav2vec2-bert", "clap"),
        *("wav2vec2-conformer", "unispeech", "unispeech-sat", "sew", "sew-d", "granite_speech5_ctc", "lasr_ctc"),
        *("omniasr_ctc", "parakeet_tdt", "parakeet_rnnt", "audio-spectrogram-transformer", "mctct"),
    }
)
"""``model_type`` of encoders of sound that generate nothing."""
OF_IMAGES = frozenset(
    {
        *("vit", "clip", "siglip", "siglip2", "siglip_vision_model", "clip_vision_model", "dinov2", "swin", "convnext"),
        *("resnet", "blip", "sam", "detr", "segformer", "chinese_clip", "align", "altclip", "dinov3_vit", "radio"),
    }
)
"""``model_type`` of encoders of images, alone or beside one of text."""


@dataclass(frozen=True)
class Text:
    """The text model's part of a configuration.

    Attributes
    ----------
    fields : Fields
        Fields of the text model.
    family : Family
        Family that decides how the fields are read.
    model_type : str
        ``model_type`` stated in the configuration.
    assumptions : tuple of str
        Assumptions made by convention.
    """

    fields: Fields
    family: Family
    model_type: str
    assumptions: tuple[str, ...] = ()


def text_model(data: Mapping[str, Any]) -> Text:
    """Find the text model of a ``config.json``, nested or not.

    Raises
    ------
    SpecError
        The model is not a decoder, or its family is not supported.
    """
    outer = str(data.get("model_type") or "")
    wrapper = class_defaults()["wrappers"].get(outer)
    if outer in FAMILIES and FAMILIES[outer].unknown:
        raise SpecError(
            f"model_type {outer!r} can't be read: its configuration does not give {FAMILIES[outer].unknown}"
        )
    _refuse_encoders(outer)
    for key in TEXT_KEYS:
        inner = data.get(key)
        if isinstance(inner, Mapping):
            if not inner and wrapper is None:
                raise SpecError(f"{key} is empty; it must contain the fields of the language model")
            if isinstance(inner.get("text_config"), Mapping):
                return text_model({**inner, "model_type": inner.get("model_type")})
            model_type = str(inner.get("model_type") or (wrapper[1] if wrapper else "") or "llama")
            return _text(inner, model_type, partial=True)
    return _text(data, outer, partial=False)


def _text(data: Mapping[str, Any], model_type: str, *, partial: bool) -> Text:
    _refuse_others(data, model_type)
    name = _told_by_class(data) or ALIASES.get(model_type, model_type)
    family, notes = FAMILIES.get(name), NO_NOTES
    if data.get("block_configs") is not None:
        name, family = "nemotron-nas", FAMILIES["nemotron-nas"]
    if family is None:
        name = _by_architecture(data) or name
        family, notes = _unknown(data, model_type, name)
    if family.unknown:
        raise SpecError(f"model_type {model_type!r} can't be read: its configuration does not give {family.unknown}")
    defaults = class_defaults()["types"].get(name, {})
    kinds = data.get("layer_types")
    if isinstance(kinds, list) and "reference_sliding_attention" in kinds:
        notes = (*notes, "reference_sliding_attention counts as full attention: caches of long outputs are too large")
    return Text(Fields(data, defaults, partial=partial), family, model_type, notes)


def _refuse_others(data: Mapping[str, Any], model_type: str) -> None:
    if "_class_name" in data or "_diffusers_version" in data:
        raise SpecError(f"a diffusion model ({data.get('_class_name')!r}), not a decoder language model")
    if data.get("is_encoder_decoder") is True:
        raise SpecError(f"model_type {model_type!r} is an encoder-decoder, not a decoder language model")
    _refuse_encoders(model_type)


def _refuse_encoders(model_type: str) -> None:
    for kind, named in (
        ("sound", OF_SOUND),
        ("images", OF_IMAGES),
        ("text of a kind that is not supported", OTHER_ENCODERS),
    ):
        if model_type in named:
            raise SpecError(f"model_type {model_type!r} is not a decoder language model but an encoder of {kind}")


NO_NOTES: tuple[str, ...] = ()
SHAPES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")


CLASSES = {
    "BailingMoeV2_5": "bailing_moe_v2_5",
    "Grok1": "grok-1",
    "HunYuanMoEV1": "hunyuan_v1_moe",
    "HunYuanDenseV1": "hunyuan_v1_dense",
}
"""Prefix of a class -> its family, if the ``model_type`` is another family's.

Ling 2.5 and Ling 3 have the same ``model_type``, so only their classes tell simple gated linear attention from KDA.
Grok 2 states ``git``, which is an image encoder. Hunyuan's first releases all state ``hunyuan``.
"""


VERSIONS = {"2.5": "llama", "2.6": "qwen2", "4.0": "llama", "4.5": "qwen3"}
"""``version`` of MiniCPM-V and MiniCPM-o -> family of their language model."""


def _told_by_class(data: Mapping[str, Any]) -> str | None:
    """Family stated by ``architectures`` or ``version`` but not by ``model_type``."""
    if data.get("model_type") in ("minicpmv", "minicpmo"):
        return VERSIONS.get(str(data.get("version")))
    named = data.get("architectures")
    classes = [str(name) for name in named] if isinstance(named, list) else []
    family = next((known for begin, known in CLASSES.items() if any(one.startswith(begin) for one in classes)), None)
    shares_across_layers = str(family).startswith("hunyuan") and data.get("use_cla")
    return None if shares_across_layers else family


def _by_architecture(data: Mapping[str, Any]) -> str | None:
    """Family of the class in ``architectures``: ``DeepseekV3ForCausalLM`` is deepseek_v3."""
    named = data.get("architectures")
    if not isinstance(named, list) or not named:
        return None
    wanted = re.sub(r"(ForCausalLM|ForConditionalGeneration|LMHeadModel)$", "", str(named[0])).lower()
    return next((name for name in FAMILIES if name.replace("_", "") == wanted), None)


def _unknown(data: Mapping[str, Any], model_type: str, name: str) -> tuple[Family, tuple[str, ...]]:
    if name in FAMILIES:
        return FAMILIES[name], (f"unknown model_type {model_type!r}; assuming {name}, the family of its class",)
    return _by_convention(data, model_type)


CAUSAL = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")
"""Suffixes of decoder classes; those of encoders end in Model, ForMaskedLM and similar."""


def _by_convention(data: Mapping[str, Any], model_type: str) -> tuple[Family, tuple[str, ...]]:
    """Read an unlisted family by convention if it is a causal language model with all shapes stated."""
    classes = data.get("architectures")
    named = [str(name) for name in classes] if isinstance(classes, list) else []
    if named and not any(name.endswith(CAUSAL) for name in named):
        raise SpecError(
            f"model_type {model_type!r} is not known, and its class {named[0]!r} is not a causal language model;"
            f" expected one that ends in {' or '.join(CAUSAL)}"
        )
    fields = Fields(data, {})
    missing = [name for name in SHAPES if fields.get(name) is None]
    if missing:
        raise SpecError(f"model_type {model_type!r} is not known, and its file has no {', '.join(missing)}")
    if fields.get("kv_lora_rank") is not None:
        family = Family(attention="mla")
    else:
        family = Family(qk_norm="head" if fields.get("use_qk_norm") is True else "")
    return family, (f"unknown model_type {model_type!r}; assuming Llama conventions",)
