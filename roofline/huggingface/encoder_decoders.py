"""Encoder-decoders from a ``config.json``: T5 (arXiv:1910.10683), BART (arXiv:1910.13461), Whisper (arXiv:2212.04356).

Pegasus, Marian, mBART, NLLB and Blenderbot are BART with different tables and norms around the layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..errors import SpecError
from ..model import EncoderStack, Layer, LookupTable, Model, Product
from ..model.blocks import MLP, Attention
from ..model.blocks.cross_attention import SourceAttention
from .fields import Fields, own_name
from .tower_shapes import AUDIO_WINDOW_S

ENCODER_DECODERS = {
    "t5": ("T5ForConditionalGeneration", True),
    "mt5": ("MT5ForConditionalGeneration", False),
    "umt5": ("UMT5ForConditionalGeneration", False),
    "whisper": ("WhisperForConditionalGeneration", True),
    "bart": ("BartForConditionalGeneration", True),
    "plbart": ("PLBartForConditionalGeneration", True),
    "mbart": ("MBartForConditionalGeneration", True),
    "pegasus": ("PegasusForConditionalGeneration", True),
    "blenderbot": ("BlenderbotForConditionalGeneration", True),
    "blenderbot-small": ("BlenderbotSmallForConditionalGeneration", True),
    "marian": ("MarianMTModel", True),
    "m2m_100": ("M2M100ForConditionalGeneration", True),
}
"""``model_type`` -> class, and whether lm_head is tied to the embedding if the file does not state it."""


class Around(NamedTuple):
    """Tables and norms around both stacks of a BART-like model.

    Attributes
    ----------
    rows : int, optional
        Rows of the stored table of positions beyond the longest context; None if positions are computed.
    embedding_norm, last_norm : bool
        Whether there is a norm after the embedding, and one after the layers.
    """

    rows: int | None
    embedding_norm: bool = False
    last_norm: bool = False


LIKE_BART: Mapping[str, Around] = {
    "bart": Around(2, embedding_norm=True),
    "plbart": Around(2, embedding_norm=True),
    "mbart": Around(2, embedding_norm=True, last_norm=True),
    "pegasus": Around(0, last_norm=True),
    "blenderbot": Around(0, last_norm=True),
    "blenderbot-small": Around(0, embedding_norm=True),
    "marian": Around(0),
    "m2m_100": Around(None, last_norm=True),
}
"""``model_type`` -> tables and norms around BART's layers."""

NO_STRUCTURE = ("static_position_embeddings", "normalize_before", "normalize_embedding", "add_final_layer_norm")
"""Fields that sound like parameters but repeat what a family has anyway."""

BUCKETS = 32
"""Default number of distances between tokens that T5 distinguishes."""


def is_encoder_decoder(data: Mapping[str, Any]) -> bool:
    """Whether a ``config.json`` describes a supported encoder-decoder."""
    return str(data.get("model_type")) in ENCODER_DECODERS


def encoder_decoder(data: Mapping[str, Any], fields: Fields, name: str, source: str) -> Model:
    """Read the encoder-decoder that a ``config.json`` describes.

    Parameters
    ----------
    data : mapping of str to object
        The ``config.json``.
    fields : Fields
        Fields of the file; those that are read are marked.
    name, source : str
        Name of the model (empty uses the file's) and origin of the file.

    Raises
    ------
    SpecError
        A field is missing or invalid, or the class has an unsupported head.
    """
    model_type = str(data.get("model_type"))
    expected, tied = ENCODER_DECODERS[model_type]
    classes = data.get("architectures")
    if isinstance(classes, list) and classes and str(classes[0]) != expected:
        raise SpecError(f"the head of class {str(classes[0])!r:.80} is not supported; expected {expected}")
    if model_type in LIKE_BART:
        made = _bart(fields, LIKE_BART[model_type])
    elif model_type == "whisper":
        made = _whisper(fields)
    else:
        made = _t5(fields, every_layer=model_type == "umt5")
    return made.replace(
        name=own_name(name, data),
        tied_embeddings=fields.flag("tie_word_embeddings", tied),
        source=source,
    )


def _t5(fields: Fields, *, every_layer: bool) -> Model:
    """T5: norms of one vector, no biases, relative positions in the first layer of each stack (umT5: in all)."""
    hidden, heads, head_dim = (fields.size(name) for name in ("d_model", "num_heads", "d_kv"))
    encoders = fields.size("num_layers")
    decoders = fields.optional("num_decoder_layers") or encoders
    activation = fields.text("feed_forward_proj") or "relu"
    gated = fields.flag("is_gated_act", activation.startswith("gated"))
    mlp = MLP(hidden=hidden, intermediate=fields.size("d_ff"), gated=gated)
    shape: dict[str, Any] = {"hidden": hidden, "query_heads": heads, "kv_heads": heads, "head_dim": head_dim}
    rows = fields.optional("relative_attention_num_buckets") or BUCKETS

    def distances(stack: str, layers: int) -> LookupTable:
        return LookupTable(f"{stack}relative_positions", rows * (layers if every_layer else 1), heads)

    stack = EncoderStack(
        hidden=hidden,
        layers=(Layer(encoders, (Attention(**shape, causal=False), mlp), (hidden, hidden)),),
        final_norm=hidden,
        tables=(distances("encoder_", encoders),),
    )
    return Model(
        name="t5",
        hidden=hidden,
        vocab=fields.size("vocab_size"),
        layers=(Layer(decoders, (Attention(**shape), SourceAttention(**shape), mlp), (hidden,) * 3),),
        final_norm=hidden,
        tables=(distances("", decoders),),
        encoder=stack,
        max_context_tokens=fields.optional("n_positions"),
    )


def _bart(fields: Fields, around: Around) -> Model:
    """BART: layer norms, biases on all matrices."""
    width, longest = fields.size("d_model"), fields.size("max_position_embeddings")
    for unused in (*NO_STRUCTURE, "num_hidden_layers"):
        fields.get(unused)
    norm = 2 * width
    norms = norm * around.embedding_norm + norm * around.last_norm
    rows = 0 if around.rows is None else longest + around.rows

    def attention(part: str) -> dict[str, Any]:
        heads = fields.size(f"{part}_attention_heads")
        if width % heads:
            raise SpecError(f"d_model {width} is not a multiple of {part}_attention_heads {heads}")
        return {"hidden": width, "query_heads": heads, "kv_heads": heads, "head_dim": width // heads}

    def mlp(part: str) -> MLP:
        return MLP(hidden=width, intermediate=fields.size(f"{part}_ffn_dim"), gated=False, bias=True)

    biases: dict[str, Any] = {"qkv_bias": True, "output_bias": True}
    own = Attention(**attention("encoder"), **biases, causal=False)
    stack = EncoderStack(
        hidden=width,
        layers=(Layer(fields.size("encoder_layers"), (own, mlp("encoder")), (norm, norm)),),
        final_norm=norms,
        tables=tuple(_source_tables(fields, rows, width)),
    )
    blocks = (
        Attention(**attention("decoder"), **biases),
        SourceAttention(**attention("decoder"), bias=True, vectors=2 * width),
        mlp("decoder"),
    )
    return Model(
        name="bart",
        hidden=width,
        vocab=fields.size("vocab_size"),
        layers=(Layer(fields.size("decoder_layers"), blocks, (norm,) * 3),),
        final_norm=norm * around.last_norm,
        embedding_norm=norm * around.embedding_norm,
        position_rows=rows,
        encoder=stack,
        max_context_tokens=longest,
    )


def _source_tables(fields: Fields, rows: int, width: int) -> Iterator[LookupTable]:
    """Position table of the source, and its embedding unless both stacks and lm_head share one."""
    if rows:
        yield LookupTable("encoder_positions", rows, width)
    if not (fields.flag("tie_word_embeddings", True) and fields.flag("share_encoder_decoder_embeddings", True)):
        yield LookupTable("encoder_embedding", fields.size("vocab_size"), width)


def _whisper(fields: Fields) -> Model:
    """Whisper: layer norms, biases except for keys, a source of fixed length."""
    width, positions = fields.size("d_model"), fields.size("max_source_positions")

    def attention(part: str) -> dict[str, Any]:
        heads = fields.size(f"{part}_attention_heads")
        if width % heads:
            raise SpecError(f"d_model {width} is not a multiple of {part}_attention_heads {heads}")
        # Keys have no bias; that of the values is counted among the vectors.
        return {"hidden": width, "query_heads": heads, "kv_heads": heads, "head_dim": width // heads, "vectors": width}

    def mlp(part: str) -> MLP:
        return MLP(hidden=width, intermediate=fields.size(f"{part}_ffn_dim"), gated=False, bias=True)

    norm = 2 * width
    biases: dict[str, Any] = {"query_bias": True, "output_bias": True}
    own = Attention(**attention("encoder"), **biases, causal=False)
    stack = EncoderStack(
        hidden=width,
        layers=(Layer(fields.size("encoder_layers"), (own, mlp("encoder")), (norm, norm)),),
        final_norm=norm,
        stem=(Product(3 * fields.size("num_mel_bins"), width, 2), Product(3 * width, width)),
        tables=(LookupTable("encoder_positions", positions, width),),
        positions=positions,
        window_s=AUDIO_WINDOW_S,
    )
    blocks = (
        Attention(**attention("decoder"), **biases),
        SourceAttention(**attention("decoder"), bias=True, positions=positions),
        mlp("decoder"),
    )
    rows = fields.size("max_target_positions")
    return Model(
        name="whisper",
        hidden=width,
        vocab=fields.size("vocab_size"),
        layers=(Layer(fields.size("decoder_layers"), blocks, (norm,) * 3),),
        final_norm=norm,
        position_rows=rows,
        encoder=stack,
        max_context_tokens=rows,
    )
