"""Linear modules of a checkpoint: name, part and size of each, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..model import Layer, Model
from ..operators.weights import Linear
from .layer_groups import numbered_layers
from .text_config import Text


class StoredModule(NamedTuple):
    """One linear module as stored in a checkpoint; the experts of a layer count as one.

    Attributes
    ----------
    name : str
        Usual name without the prefix of the wrapper: ``layers.3.mlp.down_proj``. For other spellings see
        `roofline.huggingface.module_names`.
    part : str
        Part of the model that the module belongs to (`roofline.operators.precision.PARTS`).
    values : int
        Number of values in its matrices, without biases.
    """

    name: str
    part: str
    values: int


def stored_modules(text: Text, model: Model) -> Iterator[StoredModule]:
    """All linear modules of the language model, the embedding and lm_head."""
    for at, layer in numbered_layers(text):
        for module in () if layer.reused else _in_layer(at, layer):
            renamed = module.name
            if text.fields.given("routed_expert_hidden_size"):
                renamed = renamed.replace("mlp.latent_", "mlp.routed_expert_")
            yield module._replace(name=renamed)
    yield StoredModule("embed_tokens", "embedding", model.embedding.parameters)
    if not model.tied_embeddings:
        yield StoredModule("lm_head", "lm_head", model.lm_head.d_in * model.lm_head.d_out)


def encoder_modules(model: Model) -> Iterator[StoredModule]:
    """All linear modules of the layers of an encoder (and of a decoder after it), and the embedding."""
    at = 0
    for layer in (*(model.encoder.layers if model.encoder else ()), *model.layers):
        for _ in range(layer.count):
            yield from _in_layer(at, layer)
            at += 1
    yield StoredModule("embed_tokens", "embedding", model.embedding.parameters)


def _in_layer(at: int, layer: Layer) -> Iterator[StoredModule]:
    for weight in layer.weights():
        if isinstance(weight, Linear):
            values = weight.copies * weight.d_in * weight.d_out
            yield StoredModule(f"layers.{at}.{_name_in_layer(weight)}", weight.part, values)


_SPECIAL = {
    "kv_a_proj": "self_attn.kv_a_proj_with_mqa",
    "router": "mlp.gate",
    "attention_router": "self_attn.gate",
    "shared_gate": "mlp.shared_expert_gate",
    "indexer_q_proj": "self_attn.indexer.wq_b",
    "indexer_k_proj": "self_attn.indexer.wk",
}
"""Matrices whose module name is not that of their part plus their own."""

_HOLDERS = {
    "attention": "self_attn",
    "mixer": "linear_attn",
    "mlp": "mlp",
    "router": "mlp",
    "experts": "mlp.experts.0",
    "shared_experts": "mlp.shared_experts",
    "indexer": "self_attn.indexer",
}
"""Part of a model -> the module that contains its matrices."""


def _name_in_layer(weight: Linear) -> str:
    """Module name of a matrix, relative to its layer."""
    if weight.name in _SPECIAL:
        return _SPECIAL[weight.name]
    holder = _HOLDERS.get(weight.part)
    if holder is None:
        return weight.name
    own = weight.name.removeprefix("shared_").removeprefix("indexer_")
    if own.startswith("experts_"):
        own = f"{own.removeprefix('experts_')}_proj"
    return f"{holder}.{own}"
