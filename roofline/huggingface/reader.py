"""From a ``config.json`` to a `Model`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidInput, SpecError
from ..layers import AltUp, Block, HyperConnections, PerLayerInput, Projection
from ..model import Layer, Model, Table
from .families import ALIASES, FAMILIES, Family
from .feed_forward import feed_forward
from .fields import Fields, class_defaults
from .mixers import Place, mixer, shared_transformer, truth
from .plan import feed_forwards, layer_count, mixers

TEXT_KEYS = ("text_config", "language_config", "llm_config", "language_model_config", "thinker_config", "text_model_config")
NOT_DECODERS = (
    "bert roberta xlm-roberta albert electra deberta deberta-v2 distilbert modernbert t5 mt5 umt5 bart mbart pegasus "
    "marian m2m_100 whisper wav2vec2 hubert vit clip siglip siglip_vision_model clip_vision_model dinov2 swin convnext "
    "resnet blip sam detr segformer longformer big_bird nomic_bert esm xlnet"
).split()


@dataclass(frozen=True)
class Text:
    """The text model's part of a configuration.

    Attributes
    ----------
    fields : its fields
    family : how they are read
    model_type : as it names itself
    assumptions : what was taken by convention
    """

    fields: Fields
    family: Family
    model_type: str
    assumptions: tuple[str, ...] = ()


def from_config(data: Mapping[str, Any], *, name: str = "", source: str = "") -> Model:
    """The decoder that a ``config.json`` describes.

    Parameters
    ----------
    data : the object in the file
    name : name of the model; the file's own if empty
    source : where the file is from

    Raises
    ------
    SpecError
        It is no decoder language model, a field is missing or contradictory, or its family has parts whose shapes a
        configuration does not give.  The message names the field and the value.
    """
    try:
        return _model(data, name, source)
    except SpecError as error:
        raise SpecError(f"{source or name or 'config'}: {error}") from None
    except InvalidInput as error:
        raise SpecError(f"{source or name or 'config'}: {error}") from None


def _model(data: Mapping[str, Any], name: str, source: str) -> Model:
    text = _text_model(data)
    fields, family = text.fields, text.family
    hidden = fields.size("hidden_size")
    layers = _layers(text)
    rows = fields.size("vocab_size") + (fields.optional("additional_vocab_size", least=0) or 0)
    model = Model(
        name=name or str(data.get("_name_or_path") or text.model_type),
        hidden=hidden,
        vocab=fields.size("vocab_size"),
        layers=layers,
        tied_embeddings=_tied(data, text),
        lm_head_bias=truth(fields, family.lm_head_bias),
        final_norm=norm_size(fields, family) if _has_final_norm(fields, family) else 0,
        position_rows=_position_rows(fields, family),
        embedding_norm=norm_size(fields, family) if family.embedding_norm else 0,
        embedding_rows=rows + family.extra_rows if rows + family.extra_rows != fields.size("vocab_size") else None,
        embedding_width=_embedding_width(fields, hidden),
        tables=_tables(fields, sum(layer.count for layer in layers)),
        around=_around(fields, family, sum(layer.count for layer in layers)),
        max_context_tokens=_longest(fields),
        source=source,
        assumptions=(*text.assumptions, *_defaulted(fields)),
    )
    return model


# Which part of the file is the text model, and of which family


def _text_model(data: Mapping[str, Any]) -> Text:
    outer = str(data.get("model_type") or "")
    wrapper = class_defaults()["wrappers"].get(outer)
    for key in TEXT_KEYS:
        inner = data.get(key)
        if isinstance(inner, Mapping):
            if isinstance(inner.get("text_config"), Mapping):
                return _text_model({**inner, "model_type": inner.get("model_type")})
            model_type = str(inner.get("model_type") or (wrapper[1] if wrapper else "") or "llama")
            return _text(inner, model_type, partial=True)
    return _text(data, outer, partial=False)


def _text(data: Mapping[str, Any], model_type: str, *, partial: bool) -> Text:
    _refuse_others(data, model_type)
    name = ALIASES.get(model_type, model_type)
    family, notes = FAMILIES.get(name), ()
    if data.get("block_configs") is not None:
        name, family = "nemotron-nas", FAMILIES["nemotron-nas"]
    if family is None:
        family, notes = _by_convention(data, model_type)
    if family.unknown:
        raise SpecError(f"model_type {model_type!r} can't be read: its configuration does not give {family.unknown}")
    defaults = class_defaults()["types"].get(name, {})
    return Text(Fields(data, defaults, partial=partial), family, model_type, notes)


def _refuse_others(data: Mapping[str, Any], model_type: str) -> None:
    if "_class_name" in data or "_diffusers_version" in data:
        raise SpecError(f"a diffusion model ({data.get('_class_name')!r}), not a decoder language model")
    if data.get("is_encoder_decoder") is True:
        raise SpecError(f"model_type {model_type!r} is an encoder-decoder, not a decoder language model")
    if model_type in NOT_DECODERS:
        raise SpecError(f"model_type {model_type!r} is not a decoder language model")


SHAPES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")


def _by_convention(data: Mapping[str, Any], model_type: str) -> tuple[Family, tuple[str, ...]]:
    """A family that is not in the table: by convention if its shapes are all there, and it says nothing unheard of."""
    fields = Fields(data, {})
    missing = [name for name in SHAPES if fields.get(name) is None]
    if missing:
        raise SpecError(f"model_type {model_type!r} is not known, and its file has no {', '.join(missing)}")
    if fields.get("kv_lora_rank") is not None:
        family = Family(attention="mla")
    else:
        family = Family(qk_norm="head" if fields.get("use_qk_norm") is True else "")
    return family, (f"model_type {model_type!r} is not known here: read by Llama's conventions",)


# Layers


def _layers(text: Text) -> tuple[Layer, ...]:
    """Groups of equal layers, in the order in which each first appears."""
    fields, family = text.fields, text.family
    if fields.get("block_configs") is not None:
        from .nas import nas_layers

        return nas_layers(fields, family)
    count = layer_count(fields)
    kinds = mixers(fields, family, count)
    inner = feed_forwards(fields, family, kinds)
    built: dict[tuple[str, str, Any], Layer] = {}
    groups: dict[Layer, int] = {}
    for at, (kind, mlp) in enumerate(zip(kinds, inner, strict=True)):
        for layer in _layer(text, Place(at, count, kind), mlp, first=kinds.index(kind) == at):
            groups[layer] = groups.get(layer, 0) + 1
    del built
    return tuple(Layer(number, layer.blocks, layer.norms, layer.reused) for layer, number in groups.items())


def _layer(text: Text, place: Place, mlp: str, *, first: bool) -> tuple[Layer, ...]:
    """What layer ``place.at`` is made of; a Zamba hybrid is the shared block, its projection and a mixer."""
    fields, family = text.fields, text.family
    norm = norm_size(fields, family)
    if place.kind == "hybrid" and family.hybrid == "shared":
        return _shared_hybrid(text, place, first=first)
    blocks = mixer(fields, family, place)
    if place.kind != "cross" and not (family.norms == 1 and not _parallel(fields, family) and _mixer_only(family)):
        blocks = (*blocks, *feed_forward(fields, family, mlp, place.at, place.layers))
    return (Layer(1, (*blocks, *_residual(fields)), (norm,) * _norm_count(fields, family, place)),)


def _mixer_only(family: Family) -> bool:
    """Whether a layer is a mixer with one norm, and no MLP follows (Mamba, Zamba)."""
    return family.linear in ("mamba", "mamba2") and family.gated


def _parallel(fields: Fields, family: Family) -> bool:
    return bool(family.parallel_flag) and fields.flag(family.parallel_flag)


def _norm_count(fields: Fields, family: Family, place: Place) -> int:
    if _parallel(fields, family):
        return _falcon_norms(fields) if family.parallel_flag == "parallel_attn" else family.parallel_norms
    return family.norms + _extra_norms(fields)


def _falcon_norms(fields: Fields) -> int:
    """The new decoder architecture has a norm for each of its two parallel branches."""
    if not fields.flag("new_decoder_architecture"):
        return 1
    return fields.optional("num_ln_in_parallel_attn") or 2


def _extra_norms(fields: Fields) -> int:
    """Norms that come with parts: per-layer inputs, AltUp and LAuReL, experts beside a dense MLP."""
    extra = 1 if fields.optional("hidden_size_per_layer_input", least=0) else 0
    extra += 2 if fields.optional("laurel_rank") else 0
    return extra + (3 if fields.flag("enable_moe_block") else 0)


def _residual(fields: Fields) -> tuple[Block, ...]:
    """Blocks beside attention and MLP."""
    hidden = fields.size("hidden_size")
    blocks: list[Block] = []
    if fields.optional("hc_mult"):
        streams, simple = fields.size("hc_mult"), fields.given("hc_magnitude")
        outputs = 2 * streams if simple else streams * (streams + 2)
        blocks.append(HyperConnections(hidden=hidden, streams=streams, outputs=outputs, scales=2 if simple else 3))
    if fields.optional("laurel_rank"):
        streams = fields.size("altup_num_inputs")
        blocks.append(AltUp(hidden=hidden, streams=streams, rank=fields.size("laurel_rank")))
    if fields.optional("hidden_size_per_layer_input", least=0):
        blocks.append(PerLayerInput(hidden=hidden, width=fields.size("hidden_size_per_layer_input")))
    return tuple(blocks)


def _shared_hybrid(text: Text, place: Place, *, first: bool) -> tuple[Layer, ...]:
    fields, family = text.fields, text.family
    hidden, norm = fields.size("hidden_size"), norm_size(fields, family)
    shared = Layer(1, shared_transformer(fields, family), (2 * norm, norm), reused=not first)
    linear = Place(place.at, place.layers, "linear")
    own = (Projection(hidden=hidden, output=hidden, name="hybrid_projection"), *mixer(fields, family, linear))
    return (shared, Layer(1, own, (norm,)))


def norm_size(fields: Fields, family: Family) -> int:
    """Parameters of one norm."""
    affine = fields.flag("layer_norm_elementwise_affine", True)
    return {"rms": 1, "layer": 2, "layer_weight": 1, "none": 0}[family.norm] * fields.size("hidden_size") * affine


# Around the layers


def _has_final_norm(fields: Fields, family: Family) -> bool:
    removed = fields.flag("_remove_final_layer_norm") or not fields.flag("do_layer_norm_before", True)
    return family.final_norm and not removed


def _tied(data: Mapping[str, Any], text: Text) -> bool:
    """The wrapper's word, the text model's word, the wrapper class's, the text class's, the family's."""
    outer = Fields(data, {}).get("tie_word_embeddings")
    inner = Fields(text.fields.data, {}).get("tie_word_embeddings")
    wrapper = class_defaults()["wrappers"].get(str(data.get("model_type"))) if data is not text.fields.data else None
    by_class = text.fields.defaults.get("tie_word_embeddings")
    for answer in (outer, inner, wrapper[2] if wrapper else None, by_class):
        if answer is not None:
            if not isinstance(answer, bool) and answer not in (0, 1):
                raise SpecError(f"tie_word_embeddings must be true or false: {answer!r:.80}")
            return bool(answer)
    return text.family.tied


def _position_rows(fields: Fields, family: Family) -> int:
    return 0 if family.positions is None else fields.size("max_position_embeddings") + family.positions


def _embedding_width(fields: Fields, hidden: int) -> int | None:
    width = fields.optional("word_embed_proj_dim")
    return None if width == hidden else width


def _tables(fields: Fields, layers: int) -> tuple[Table, ...]:
    width = fields.optional("hidden_size_per_layer_input", least=0)
    if not width:
        return ()
    rows = fields.optional("vocab_size_per_layer_input") or fields.size("vocab_size")
    return (Table("per_layer_embedding", rows, width * layers),)


def _around(fields: Fields, family: Family, layers: int) -> tuple[Block, ...]:
    hidden = fields.size("hidden_size")
    blocks: list[Block] = []
    width = _embedding_width(fields, hidden)
    if width:
        blocks.append(Projection(hidden=width, output=hidden, name="project_in"))
        blocks.append(Projection(hidden=hidden, output=width, name="project_out"))
    inputs = fields.optional("hidden_size_per_layer_input", least=0)
    if inputs:
        blocks.append(Projection(hidden=hidden, output=inputs * layers, name="per_layer_model_projection", norm=inputs))
    if fields.optional("laurel_rank"):
        copies = 2 * (fields.size("altup_num_inputs") - 1)
        blocks.append(Projection(hidden=hidden, output=hidden, name="altup_projection", copies=copies))
    if fields.optional("hc_mult") and family.hyper_head:
        streams = fields.size("hc_mult")
        blocks.append(HyperConnections(hidden=hidden, streams=streams, outputs=streams, scales=1, maps=1))
    return tuple(blocks)


def _longest(fields: Fields) -> int | None:
    value = fields.get("max_position_embeddings")
    return value if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 10**12 else None


def _defaulted(fields: Fields) -> Sequence[str]:
    """What the file does not say and its class supplied, as far as it decides shapes."""
    taken = {key: value for key, value in fields.defaulted.items() if value not in (False, 0, None, [])}
    if not taken:
        return ()
    return (f"from the class's defaults: {', '.join(f'{key}={value}' for key, value in sorted(taken.items()))}",)
