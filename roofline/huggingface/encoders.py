"""Encoders of text: embedders and rerankers of the BERT family and ModernBERT, read from a ``config.json``.

A model's class decides what stands behind the layers: ``BertModel`` has a pooler, ``...ForSequenceClassification`` a
dense layer and the scores, ``...ForMaskedLM`` a dense layer with a norm and an lm_head that is the embedding.
BERT (arXiv:1810.04805), RoBERTa (arXiv:1907.11692), XLM-R (arXiv:1911.02116), MPNet (arXiv:2004.09297), DistilBERT
(arXiv:1910.01108), GTE (``model_type`` new, arXiv:2407.19669), ModernBERT (arXiv:2412.13663).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ..errors import SpecError
from ..model import Layer, LookupTable, Model
from ..model.blocks import MLP, Attention, Block, Projection
from .fields import Fields


class EncoderFamily(NamedTuple):
    """What tells encoders apart.

    Attributes
    ----------
    prefix : str
        How the names of its classes begin.
    pooler : bool
        Whether the plain model has a pooler.
    offset : bool
        Whether rows of the position table up to the padding token's are not used.
    token_types : int
        Kinds of segments where the file does not say; 0 if the family has none.
    gated : bool
        Whether MLPs have a gate, without biases on gate and up.
    tables : tuple of LookupTable
        Further tables.
    inner : str
        What the inner width of MLPs is called.
    """

    prefix: str
    pooler: bool = True
    offset: bool = False
    token_types: int = 0
    gated: bool = False
    tables: tuple[str, ...] = ()
    inner: str = "intermediate_size"


BERT = EncoderFamily("Bert", token_types=2)
ENCODERS: Mapping[str, EncoderFamily] = {
    "bert": BERT,
    "roberta": EncoderFamily("Roberta", offset=True, token_types=2),
    "xlm-roberta": EncoderFamily("XLMRoberta", offset=True, token_types=2),
    "camembert": EncoderFamily("Camembert", offset=True, token_types=2),
    "mpnet": EncoderFamily("MPNet", offset=True, tables=("relative_attention_num_buckets",)),
    "distilbert": EncoderFamily("DistilBert", pooler=False, inner="hidden_dim"),
    "new": EncoderFamily("New", pooler=False, token_types=2, gated=True),
    "modernbert": EncoderFamily("ModernBert", pooler=False, gated=True),
}
"""``model_type`` -> family."""

BUCKETS = 32
"""Distances between tokens that MPNet tells apart, where the file does not say."""

HEADS = ("Model", "ForSequenceClassification", "ForMaskedLM")
"""What classes end in whose heads are known here."""

NO_STRUCTURE = ("pooler_num_attention_heads", "pooler_size_per_head", "norm_eps", "reference_compile", "pack_qkv")
"""Fields that sound like parameters and add none to these models."""


def is_encoder(data: Mapping[str, Any]) -> bool:
    """Whether a ``config.json`` is that of an encoder that is known here."""
    return str(data.get("model_type")) in ENCODERS


def encoder(data: Mapping[str, Any], fields: Fields, name: str, source: str) -> Model:
    """The encoder that a ``config.json`` describes.

    Parameters
    ----------
    data : mapping of str to object
        The ``config.json``.
    fields : Fields
        Its fields; those that are read are marked.
    name, source : str
        Name of the model, its own if empty, and where the file is from.

    Raises
    ------
    SpecError
        A field is missing or makes no sense, or its head is not known.
    """
    model_type = str(data.get("model_type"))
    family = ENCODERS[model_type]
    for unused in NO_STRUCTURE:
        fields.get(unused)
    head = _head(data, family)
    made = _modern(fields) if model_type == "modernbert" else _classic(fields, family)
    return made.replace(
        name=name or str(data.get("_name_or_path") or model_type),
        vocab=fields.size("vocab_size"),
        pooled=tuple(_pooled(fields, family, head, modern=model_type == "modernbert")),
        has_lm_head=head == "ForMaskedLM",
        tied_embeddings=head == "ForMaskedLM" and fields.flag("tie_word_embeddings", True),
        lm_head_bias=head == "ForMaskedLM" and fields.flag("decoder_bias", True),
        source=source,
    )


def drops_the_mask(data: Mapping[str, Any]) -> bool:
    """Whether a decoder's layers are an embedder's: all tokens see each other, and its class has no head.

    Wrappers that see images both ways and generate (PaliGemma) say the same of their text model, and have a head.
    """
    classes = data.get("architectures")
    headless = isinstance(classes, list) and bool(classes) and str(classes[0]).endswith("Model")
    return headless and (data.get("use_bidirectional_attention") is True or data.get("is_causal") is False)


def without_mask(model: Model) -> Model:
    """The decoder's layers as an embedder runs them (EmbeddingGemma, arXiv:2509.20354).

    A window of ``w`` tokens before a token becomes one of ``w / 2`` on either side.
    """
    layers = tuple(replace(layer, blocks=tuple(map(_both_ways, layer.blocks))) for layer in model.layers)
    return model.replace(layers=layers, has_lm_head=False, tied_embeddings=False, lm_head_bias=False)


def _both_ways(block: Block) -> Block:
    if not isinstance(block, Attention):
        return block
    window = None if block.window is None else 2 * (block.window // 2) + 1
    return replace(block, causal=False, window=window)


def _head(data: Mapping[str, Any], family: EncoderFamily) -> str:
    """What the model's class ends in; the plain model if it is not named."""
    classes = data.get("architectures")
    if not isinstance(classes, list) or not classes:
        return "Model"
    for head in HEADS:
        if str(classes[0]) == f"{family.prefix}{head}":
            return head
    wanted = ", ".join(family.prefix + head for head in HEADS)
    raise SpecError(f"the head of class {str(classes[0])!r:.80} is not known here: expected {wanted}")


def _attention(fields: Fields, *, bias: bool, window: int | None = None) -> Attention:
    hidden, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
    if hidden % heads:
        raise SpecError(f"hidden_size {hidden} is not a multiple of num_attention_heads {heads}")
    return Attention(
        hidden=hidden,
        query_heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        qkv_bias=bias,
        output_bias=bias,
        window=window,
        causal=False,
    )


def _classic(fields: Fields, family: EncoderFamily) -> Model:
    """BERT and its kin: layer norms behind attention and MLP, a norm behind the tables that are looked up."""
    hidden = fields.size("hidden_size")
    kind = fields.text("position_embedding_type") or "absolute"
    if kind not in ("absolute", "rope"):
        raise SpecError(f"position_embedding_type must be absolute or rope: {kind!r:.80}")
    if fields.text("layer_norm_type") not in (None, "layer_norm"):
        raise SpecError(f"layer_norm_type must be layer_norm: {fields.text('layer_norm_type')!r:.80}")
    rows = fields.size("max_position_embeddings")
    unused = 1 + (fields.optional("pad_token_id", least=0) or 1) if family.offset else 0
    inner = fields.size(family.inner)
    if family.gated:  # GTE: a bias on the last matrix alone
        mlp = MLP(hidden=hidden, intermediate=inner, vectors=hidden)
    else:
        mlp = MLP(hidden=hidden, intermediate=inner, gated=False, bias=True)
    blocks = (_attention(fields, bias=True), mlp)
    return Model(
        name="encoder",
        hidden=hidden,
        vocab=1,
        layers=(Layer(fields.size("num_hidden_layers"), blocks, (2 * hidden, 2 * hidden)),),
        position_rows=rows if kind == "absolute" else 0,
        embedding_norm=2 * hidden,
        tables=tuple(_tables(fields, family)),
        max_context_tokens=max(rows - unused, 1),
    )


def _tables(fields: Fields, family: EncoderFamily) -> Iterator[LookupTable]:
    if family.token_types:
        given = fields.optional("type_vocab_size", least=0)
        kinds = family.token_types if given is None else given
        if kinds:
            yield LookupTable("token_types", kinds, fields.size("hidden_size"))
    for table in family.tables:
        rows = fields.optional(table) or BUCKETS
        yield LookupTable("relative_positions", rows, fields.size("num_attention_heads"))


def _modern(fields: Fields) -> Model:
    """ModernBERT: norms before attention and MLP, gated MLPs, windows in all layers but every third."""
    hidden, count = fields.size("hidden_size"), fields.size("num_hidden_layers")
    norm = 2 * hidden if fields.flag("norm_bias") else hidden
    mlp = MLP(hidden=hidden, intermediate=fields.size("intermediate_size"), bias=fields.flag("mlp_bias"))
    bias = fields.flag("attention_bias")
    full = (_attention(fields, bias=bias), mlp)
    # A token sees half of local_attention on either side, and itself.
    reach = (fields.optional("local_attention") or 128) // 2
    local = (_attention(fields, bias=bias, window=2 * reach + 1), mlp)
    kinds = list(_kinds(fields, count))
    whole = kinds.count("full_attention")
    first_full = kinds[0] == "full_attention"
    # The first layer has no norm before attention: the embedding's stands there.
    layers = [Layer(1, full if first_full else local, (norm,))]
    for blocks, number in ((full, whole - first_full), (local, count - whole - (not first_full))):
        if number:
            layers.append(Layer(number, blocks, (norm, norm)))
    return Model(
        name="encoder",
        hidden=hidden,
        vocab=1,
        layers=tuple(layers),
        final_norm=norm,
        embedding_norm=norm,
        max_context_tokens=fields.size("max_position_embeddings"),
    )


def _kinds(fields: Fields, count: int) -> Iterator[str]:
    """``full_attention`` or ``sliding_attention`` for every layer."""
    listed = fields.entries("layer_types", count)
    period = fields.optional("global_attn_every_n_layers") or 3
    for at in range(count):
        kind = ("sliding_attention" if at % period else "full_attention") if listed is None else str(listed[at])
        if kind not in ("full_attention", "sliding_attention"):
            raise SpecError(f"layer_types[{at}] must be full_attention or sliding_attention: {kind!r:.80}")
        yield kind


def _pooled(fields: Fields, family: EncoderFamily, head: str, *, modern: bool) -> Iterator[Block]:
    """What stands behind the layers: a dense layer with or without a norm, and the scores of a classifier."""
    hidden = fields.size("hidden_size")
    bias, norm = not modern, 0
    if modern:
        bias, norm = fields.flag("classifier_bias"), 2 * hidden if fields.flag("norm_bias") else hidden
    if head == "ForMaskedLM":
        yield Projection(hidden=hidden, output=hidden, name="masked_lm_dense", bias=bias, norm=norm or 2 * hidden)
    elif head == "ForSequenceClassification":
        yield Projection(hidden=hidden, output=hidden, name="classifier_dense", bias=bias, norm=norm)
        yield Projection(hidden=hidden, output=_labels(fields), name="classifier", bias=True)
    elif family.pooler:
        yield Projection(hidden=hidden, output=hidden, name="pooler", bias=True)


def _labels(fields: Fields) -> int:
    """Scores of a classifier: names for them, or their number; 2 if the file has neither."""
    names = fields.get("id2label")
    return len(names) if isinstance(names, Mapping) and names else fields.optional("num_labels") or 2
