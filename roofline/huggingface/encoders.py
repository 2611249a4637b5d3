"""Encoders of text: embedders and rerankers of the BERT family and ModernBERT, read from a ``config.json``.

A model's class decides what follows the layers: ``BertModel`` has a pooler, ``...ForSequenceClassification`` a
dense layer and the scores, ``...ForMaskedLM`` a dense layer with a norm and an lm_head that is the embedding.
BERT (arXiv:1810.04805), RoBERTa (arXiv:1907.11692), XLM-R (arXiv:1911.02116), MPNet (arXiv:2004.09297), DistilBERT
(arXiv:1910.01108), ALBERT (arXiv:1909.11942), ELECTRA (arXiv:2003.10555), DeBERTa (arXiv:2006.03654), Nomic
(arXiv:2402.01613), Jina (arXiv:2310.19923), GTE (``model_type`` new, arXiv:2407.19669), ModernBERT (arXiv:2412.13663).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import SpecError
from ..model import Model
from ..model.blocks import Block, Projection
from .encoder_families import BERT, EncoderFamily, encoder_family
from .encoder_stacks import classic, modern, table_width
from .fields import Fields, own_name

HEADS = (
    *("Model", "ForMaskedLM", "ForPreTraining", "ForSequenceClassification", "ForTokenClassification"),
    *("ForQuestionAnswering", "ForMultipleChoice"),
)
"""Suffixes of classes with supported heads."""

NO_STRUCTURE = (
    *("pooler_num_attention_heads", "pooler_size_per_head", "norm_eps", "reference_compile", "pack_qkv", "head_dim"),
    *("pooler_hidden_size", "num_key_value_heads", "add_pooling_layer", "sinusoidal_pos_embds", "lora_alpha"),
    *("pooler_num_fc_layers", "pooler_type", "summary_last_dropout", "lora_dropout_p", "lora_main_params_trainable"),
    *("use_rms_norm", "prenorm", "moe_normalize_expert_weights", "num_shared_experts", "moe_resid_pdrop"),
)
"""Fields that sound like parameters but add none to these models."""

MASKED = ("ForMaskedLM", "ForPreTraining")


def is_encoder(data: Mapping[str, Any]) -> bool:
    """Whether a ``config.json`` describes a supported encoder."""
    return encoder_family(data) is not None


def encoder(data: Mapping[str, Any], fields: Fields, name: str, source: str) -> Model:
    """Read the encoder that a ``config.json`` describes.

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
        A field is missing or invalid, or the head is not supported.
    """
    family = encoder_family(data) or BERT
    for unused in NO_STRUCTURE:
        fields.get(unused)
    head = _head(data, family)
    modern_layers = family.prefix == "ModernBert"
    made = modern(fields) if modern_layers else classic(fields, family)
    # ELECTRA's pretraining detects replaced tokens instead of predicting them.
    masked = head in MASKED and (family.prefix, head) != ("Electra", "ForPreTraining")
    return made.replace(
        name=own_name(name, data),
        vocab=fields.size("vocab_size"),
        around=(*made.around, *_on_every_token(fields, head)),
        pooled=tuple(_pooled(fields, family, head, masked=masked)),
        has_lm_head=masked,
        tied_embeddings=masked and fields.flag("tie_word_embeddings", True),
        lm_head_bias=masked and fields.flag("decoder_bias", True),
        apart=_adapters(fields, made),
        source=source,
    )


def _head(data: Mapping[str, Any], family: EncoderFamily) -> str:
    """Suffix of the model's class, which names its head; the plain model if the class is not stated."""
    classes = data.get("architectures")
    if not isinstance(classes, list) or not classes:
        return "Model"
    named = str(classes[0])
    if named == COLBERT:
        return COLBERT
    if named == f"{family.prefix}{PROJECTED}":
        return PROJECTED
    for head in HEADS:
        if named == f"{family.prefix}{head}":
            return head
    wanted = ", ".join(family.prefix + head for head in HEADS)
    raise SpecError(f"the head of class {named!r:.80} is not supported; expected {wanted}")


PROJECTED = "ModelWithProjection"
"""Class suffix of CLIP's encoders of text with the matrix into the space shared with images (arXiv:2103.00020)."""

COLBERT = "HF_ColBERT"
"""Class of late-interaction embedders, with a vector of ``dim`` values per token (arXiv:2112.01488)."""


def _on_every_token(fields: Fields, head: str) -> Iterator[Block]:
    """Heads that run on every token: labels, answer spans, small vectors."""
    hidden = fields.size("hidden_size")
    if head in ("ForTokenClassification", "ForQuestionAnswering"):
        yield Projection(hidden=hidden, output=labels(fields), name="classifier", bias=True)
    if head == COLBERT:
        yield Projection(hidden=hidden, output=fields.optional("dim") or 128, name="linear")


def _pooled(fields: Fields, family: EncoderFamily, head: str, *, masked: bool) -> Iterator[Block]:
    """Head after the layers: a dense layer with or without a norm, and the scores of a classifier."""
    hidden, width = fields.size("hidden_size"), table_width(fields, family)
    is_modern = family.prefix == "ModernBert"
    bias, norm = not is_modern, 0
    if is_modern:
        bias, norm = fields.flag("classifier_bias"), 2 * hidden if fields.flag("norm_bias") else hidden
    if head == PROJECTED:
        yield Projection(hidden=hidden, output=fields.optional("projection_dim") or hidden, name="projection")
        return
    if family.prefix == "SiglipText":
        yield Projection(hidden=hidden, output=fields.optional("projection_size") or hidden, name="head", bias=True)
        return
    if masked:
        yield Projection(hidden=hidden, output=width, name="masked_lm_dense", bias=bias, norm=norm or 2 * width)
    if head in ("ForTokenClassification", "ForQuestionAnswering"):
        if is_modern:
            yield Projection(hidden=hidden, output=hidden, name="classifier_dense", bias=bias, norm=norm)
        return
    if head in ("ForSequenceClassification", "ForMultipleChoice", "ForPreTraining"):
        yield Projection(hidden=hidden, output=hidden, name="classifier_dense", bias=bias, norm=norm)
        yield Projection(hidden=hidden, output=_scores(fields, head, masked=masked), name="classifier", bias=True)
    elif family.pooler and not masked and fields.flag("add_pooling_layer", True):
        yield Projection(hidden=hidden, output=hidden, name="pooler", bias=True)


def _scores(fields: Fields, head: str, *, masked: bool) -> int:
    """Number of scores per sequence: labels, choices, next-sentence or replaced-token prediction."""
    if head == "ForPreTraining":
        return 2 if masked else 1
    return 1 if head == "ForMultipleChoice" else labels(fields)


def labels(fields: Fields) -> int:
    """Number of labels of a classifier, stated as names or as a number; 2 if the file has neither."""
    names = fields.get("id2label")
    if isinstance(names, Mapping) and names:
        return len(names)
    return fields.optional("num_labels") or 2


def _adapters(fields: Fields, made: Model) -> dict[str, int]:
    """Low-rank adapters for each of several tasks, on every matrix and table (jina-embeddings-v3, arXiv:2409.10173).

    Queries, keys and values are one matrix in this model.
    """
    tasks, rank = fields.entries("lora_adaptations"), fields.optional("lora_rank", least=0)
    if not tasks or not rank:
        return {}
    hidden, inner = fields.size("hidden_size"), fields.size("intermediate_size")
    widths = (hidden + 3 * hidden) + (hidden + hidden) + 2 * (hidden + inner)
    tables = fields.size("vocab_size") + hidden + sum(table.rows + table.width for table in made.lookups)
    return {"task_adapters": len(tasks) * rank * (made.layer_count * widths + tables + 2 * hidden)}
