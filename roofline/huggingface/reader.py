"""From a ``config.json`` to a `Model`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import InvalidInput, SpecError
from ..model import LookupTable, Model
from ..model.blocks import Block, HyperConnections, Projection
from .checkpoint_modules import StoredModule, encoder_modules, stored_modules
from .decoder_heads import with_own_head
from .encoder_decoders import encoder_decoder, is_encoder_decoder
from .encoders import encoder, is_encoder
from .extra_modules import beside_the_text
from .family import Family
from .fields import Fields, class_defaults, own_name
from .layer_groups import block_residual, grouped_layers, norm_size
from .mixers import truth
from .stored_formats import checkpoint_precision
from .text_config import Text, text_model
from .unread_fields import unread_structure


def from_config(
    data: Mapping[str, Any],
    *,
    name: str = "",
    source: str = "",
    quantization: Mapping[str, Any] | None = None,
    checkpoint_bytes: int | None = None,
) -> Model:
    """Read the language model that a ``config.json`` describes: a decoder, or an encoder of a supported family.

    Parameters
    ----------
    data : mapping of str to object
        Content of the file.
    name : str
        Name of the model; empty uses the file's.
    source : str
        Origin of the file.
    quantization : mapping of str to object, optional
        A ``hf_quant_config.json`` beside the file.
    checkpoint_bytes : int, optional
        Size of the checkpoint's tensors, if its index is available.

    Raises
    ------
    SpecError
        The file describes another kind of model, a field is missing or contradictory, or the family has parts whose
        shapes a configuration does not give.  The message names the field and the value.
    """
    try:
        _check_type(data)
        with_encoder = is_encoder(data) or is_encoder_decoder(data)
        read = (_encoder if with_encoder else _decoder)(data, name, source)
        precision, notes = checkpoint_precision(data, quantization, read.modules)
    except InvalidInput as error:
        raise SpecError(f"{source or name or 'config'}: {_brief(str(error))}") from None
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        # Files are untrusted data: a value of any wrong type gives a one-line message, not a traceback.
        said = _brief(str(error))
        raise SpecError(f"{source or name or 'config'}: a field has an unexpected type: {said}") from None
    understood = precision is not None or not notes
    doubts = (
        *(() if understood else notes),
        *read.doubts,
    )
    return read.model.replace(
        precision=precision,
        checkpoint_bytes=checkpoint_bytes if read.stored_as_run else None,
        doubts=tuple(map(_brief, doubts)),
        assumptions=tuple(dict.fromkeys(map(_brief, (*doubts, *notes, *read.model.assumptions)))),
    )


MOST_CHARACTERS = 500
"""Maximum length of a message about a file; a field may contain a list of a hundred thousand entries."""


def _brief(sentence: str) -> str:
    """Shorten a sentence to one line of at most `MOST_CHARACTERS`."""
    line = " ".join(sentence.split())
    return line if len(line) <= MOST_CHARACTERS else f"{line[:MOST_CHARACTERS]} …"


def _check_type(data: Mapping[str, Any]) -> None:
    """Raise if ``model_type`` is not a string."""
    model_type = data.get("model_type")
    if model_type is not None and not isinstance(model_type, str):
        raise SpecError(f"model_type must be text: {model_type!r:.80}")


class _Read(NamedTuple):
    """A model before its formats are known, its linear modules, and reasons why its counts may be wrong.

    ``stored_as_run`` states whether engines run the checkpoint in its stored formats.
    """

    model: Model
    modules: Iterable[StoredModule]
    doubts: tuple[str, ...]
    stored_as_run: bool = True


def _decoder(data: Mapping[str, Any], name: str, source: str) -> _Read:
    text = text_model(data)
    model = with_own_head(data, Fields(data, {}), _model(data, text, name, source))
    beside = beside_the_text(data, text, model)
    doubts = (*text.assumptions, *_unread(text.fields, text.family), *beside.left_out)
    complete = model.replace(apart=beside.parameters, towers=beside.towers)
    return _Read(complete, stored_modules(text, model), doubts)


def _encoder(data: Mapping[str, Any], name: str, source: str) -> _Read:
    """Read an encoder, or a model with one; engines run checkpoints stored in fp32 in 16 bits."""
    fields = Fields(data, {})
    model = (encoder if is_encoder(data) else encoder_decoder)(data, fields, name, source)
    half = str(data.get("torch_dtype") or data.get("dtype")) != "float32"
    return _Read(model, encoder_modules(model), tuple(_unread(fields, Family())), half)


def _unread(fields: Fields, family: Family) -> Iterator[str]:
    unread = tuple(unread_structure(fields, family))
    if unread:
        yield f"unsupported fields may add parameters: {', '.join(unread)}"


def _model(data: Mapping[str, Any], text: Text, name: str, source: str) -> Model:
    fields, family = text.fields, text.family
    hidden = fields.size("hidden_size")
    layers = grouped_layers(text)
    count = sum(layer.count for layer in layers)
    rows = fields.size("vocab_size") + (fields.optional("additional_vocab_size", least=0) or 0)
    model = Model(
        name=own_name(name, data, text.model_type),
        hidden=hidden,
        vocab=fields.size("vocab_size"),
        layers=layers,
        tied_embeddings=_tied(data, text),
        lm_head_bias=truth(fields, family.lm_head_bias),
        final_norm=norm_size(fields, family) if _has_final_norm(fields) else 0,
        position_rows=_position_rows(fields, family),
        embedding_norm=norm_size(fields, family) if family.embedding_norm else 0,
        embedding_rows=rows if rows != fields.size("vocab_size") else None,
        embedding_width=_embedding_width(fields, hidden),
        tables=_tables(fields, count),
        around=_around(fields, count),
        max_context_tokens=_longest(fields),
        source=source,
        assumptions=(*text.assumptions, *_defaulted(fields)),
    )
    return family.change_model(fields, model) if family.change_model else model


# Around the layers


def _has_final_norm(fields: Fields) -> bool:
    return fields.flag("do_layer_norm_before", True) and not fields.flag("_remove_final_layer_norm")


def _tied(data: Mapping[str, Any], text: Text) -> bool:
    """Whether embeddings are tied: the first stated by wrapper, text model, wrapper class, text class or family."""
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
    if family.positions is None:
        return 0
    return fields.size("max_position_embeddings") + family.positions


def _embedding_width(fields: Fields, hidden: int) -> int | None:
    width = fields.optional("word_embed_proj_dim")
    return None if width == hidden else width


def _tables(fields: Fields, layers: int) -> tuple[LookupTable, ...]:
    width = fields.optional("hidden_size_per_layer_input", least=0)
    if not width:
        return ()
    rows = fields.optional("vocab_size_per_layer_input") or fields.size("vocab_size")
    return (LookupTable("per_layer_embedding", rows, width * layers),)


def _around(fields: Fields, layers: int) -> tuple[Block, ...]:
    hidden = fields.size("hidden_size")
    blocks: list[Block] = list(block_residual(fields))
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
    if fields.optional("hc_mult"):
        streams = fields.size("hc_mult")
        blocks.append(HyperConnections(hidden=hidden, streams=streams, outputs=streams, scales=1, maps=1))
    return tuple(blocks)


def _longest(fields: Fields) -> int | None:
    value = fields.get("max_position_embeddings") if fields.given("max_position_embeddings") else None
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 10**12:
        return value
    return None


def _defaulted(fields: Fields) -> Sequence[str]:
    """Fields absent from the file and supplied by its class, if they decide shapes."""
    taken = {key: value for key, value in fields.defaulted.items() if value not in (False, 0, None, [])}
    if not taken:
        return ()
    return (f"from the defaults of the class: {', '.join(f'{key}={value}' for key, value in sorted(taken.items()))}",)
