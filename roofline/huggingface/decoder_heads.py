"""Decoders without an lm_head: embedders, rerankers and reward models with a decoder's layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..model import Model
from ..model.blocks import Attention, Block, Projection
from .encoders import labels
from .fields import Fields

HEADLESS = frozenset(
    f"{family}Model"
    for family in (
        *("Llama", "Mistral", "Qwen2", "Qwen2Moe", "Qwen3", "Qwen3Moe", "Gemma", "Gemma2", "Gemma3Text", "Phi3"),
        *("LlamaBidirectional", "MistralBidirectional", "NVMistralBidirectional", "EuroBert", "Granite"),
    )
)
"""Plain model classes that are embedders. In other families such a class may have an lm_head in spite of its name."""

SCORES = ("ForSequenceClassification", "ForTokenClassification", "ForRewardModel", "ForProcessRewardModel")
ALWAYS_BOTH_WAYS = frozenset({"eurobert", "llama_bidirec", "mistral_bidirec"})
"""``model_type`` of decoders in which all tokens see each other, for every class."""


def with_own_head(data: Mapping[str, Any], fields: Fields, model: Model) -> Model:
    """Return the model with the head of its class, and without a causal mask if all tokens see each other.

    PaliGemma sees images bidirectionally and generates text.  Its text model states the same, but has an lm_head.

    Parameters
    ----------
    data : mapping of str to object
        The ``config.json``.
    fields : Fields
        Fields of the text model.
    model : Model
        The model as read by convention, with an lm_head.
    """
    named = _class_of(data)
    both_ways = str(data.get("model_type")) in ALWAYS_BOTH_WAYS or "Bidirectional" in named
    if named.endswith("Model"):
        both_ways |= data.get("use_bidirectional_attention") is True or data.get("is_causal") is False
    if both_ways:
        layers = tuple(replace(layer, blocks=tuple(map(_both_ways, layer.blocks))) for layer in model.layers)
        model = model.replace(layers=layers)
    scores = named.endswith(SCORES)
    if not (scores or named in HEADLESS or (both_ways and named.endswith("Model"))):
        return model
    return model.replace(
        has_lm_head=False,
        tied_embeddings=False,
        lm_head_bias=False,
        pooled=tuple(_of_sequence(named, fields, model.hidden)),
        around=(*model.around, *_of_token(named, fields, model.hidden)),
    )


def _class_of(data: Mapping[str, Any]) -> str:
    classes = data.get("architectures")
    if isinstance(classes, list) and classes:
        return str(classes[0])
    return ""


def _both_ways(block: Block) -> Block:
    """Remove the mask from attention; a window of ``w`` tokens before a token becomes ``w / 2`` on either side.

    Used by EmbeddingGemma (arXiv:2509.20354).
    """
    if not isinstance(block, Attention):
        return block
    window = None if block.window is None else 2 * (block.window // 2) + 1
    return replace(block, causal=False, window=window)


def _of_sequence(named: str, fields: Fields, hidden: int) -> Iterator[Block]:
    """Head that scores a sequence: a matrix without a bias, or two with biases (Qwen's reward models, EuroBERT)."""
    if named.endswith("ForRewardModel") or named == "EuroBertForSequenceClassification":
        count = 1 if named.endswith("ForRewardModel") else labels(fields)
        yield Projection(hidden=hidden, output=hidden, name="score_dense", bias=True)
        yield Projection(hidden=hidden, output=count, name="score", bias=True)
    elif named.endswith("ForSequenceClassification"):
        yield Projection(hidden=hidden, output=labels(fields), name="score")


def _of_token(named: str, fields: Fields, hidden: int) -> Iterator[Block]:
    """Head that scores every token, or gives two scores per step of a solution (Qwen's process reward models)."""
    if named.endswith("ForTokenClassification"):
        yield Projection(hidden=hidden, output=labels(fields), name="score", bias=True)
    if named.endswith("ForProcessRewardModel"):
        yield Projection(hidden=hidden, output=hidden, name="score_dense", bias=True)
        yield Projection(hidden=hidden, output=2, name="score", bias=True)
