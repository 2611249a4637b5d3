"""What a single family does: each function revises a layer, or the whole model, that was read by the convention.

`roofline.huggingface.families` names the function in the family's row.  What several families share is a field of
`Family` instead.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..errors import SpecError
from ..model import Layer, Model
from ..model.blocks import (
    MLA,
    MLP,
    Attention,
    Block,
    HyperConnections,
    KimiDeltaAttention,
    Mamba,
    Mamba2,
    MoE,
    Projection,
)
from .family import Place
from .fields import Fields


def revised(layer: Layer, kind: type[Block], **changes: Any) -> Layer:
    """The layer with other fields in its blocks of one kind."""
    blocks = tuple(replace(block, **changes) if isinstance(block, kind) else block for block in layer.blocks)
    return replace(layer, blocks=blocks)


def attention_of(layer: Layer) -> Attention | None:
    """Its attention with plain heads, if it has one."""
    return next((block for block in layer.blocks if isinstance(block, Attention)), None)


def has_experts(layer: Layer) -> bool:
    """Whether the layer has a mixture of experts."""
    return any(isinstance(block, MoE) for block in layer.blocks)


# Layers


def apertus(fields: Fields, place: Place, layer: Layer) -> Layer:
    """The activation xIELU has two learned parameters."""
    return revised(layer, MLP, vectors=2)


def axk1(fields: Fields, place: Place, layer: Layer) -> Layer:
    """One norm more in a layer with a mixture of experts."""
    return replace(layer, norms=(*layer.norms, layer.norms[0])) if has_experts(layer) else layer


def axk2(fields: Fields, place: Place, layer: Layer) -> Layer:
    """Queries and a gate come from a latent of twice the width, and norms have a low-rank gate."""
    hidden, rank, heads = fields.size("hidden_size"), fields.size("q_lora_rank"), fields.size("num_attention_heads")
    queries = heads * (fields.size("qk_nope_head_dim") + fields.size("qk_rope_head_dim", least=0))
    gate, small = heads * fields.size("v_head_dim"), fields.size("gated_norm_rank")
    found: list[Block] = [
        Projection(hidden=rank, output=queries, name="q_b_proj"),
        Projection(hidden=2 * rank, output=gate),
    ]
    for _ in range(2 if has_experts(layer) else 1):
        found.append(Projection(hidden=hidden, output=small, name="norm_gate"))
        found.append(Projection(hidden=small, output=hidden, name="norm_gate"))
    return replace(layer, blocks=(*layer.blocks, *found))


def bailing_hybrid(fields: Fields, place: Place, layer: Layer) -> Layer:
    """Kimi delta attention projects decay and gate directly, not through a bottleneck."""
    return revised(layer, KimiDeltaAttention, low_rank=False)


def beam(fields: Fields, place: Place, layer: Layer) -> Layer:
    """One parameter for each query head."""
    attention = attention_of(layer)
    return revised(layer, Attention, vectors=attention.query_heads) if attention else layer


def bitnet(fields: Fields, place: Place, layer: Layer) -> Layer:
    """Norms before the output projection and before ``down_proj`` (arXiv:2504.12285)."""
    layer = revised(layer, Attention, value_norm=True)
    inner = next((block.intermediate for block in layer.blocks if isinstance(block, MLP)), 0)
    return revised(layer, MLP, vectors=inner)


def diffllama(fields: Fields, place: Place, layer: Layer) -> Layer:
    """Pairs of heads subtract (arXiv:2410.05258)."""
    return revised(layer, Attention, differential=True)


def doge(fields: Fields, place: Place, layer: Layer) -> Layer:
    """A dynamic mask: one parameter for each KV head, and a projection from the values to the KV heads."""
    attention = attention_of(layer)
    if attention is None:
        return layer
    heads, values = attention.kv_heads, attention.kv_heads * attention.value_width
    layer = revised(layer, Attention, vectors=heads)
    return replace(layer, blocks=(*layer.blocks, Projection(hidden=values, output=heads, name="dt_proj")))


def dots3_note(fields: Fields, place: Place, layer: Layer) -> Layer:
    """The rotary key of the latent attention is normalized with a vector of its own."""
    return revised(layer, MLA, rope_norm=True)


def falcon(fields: Fields, place: Place, layer: Layer) -> Layer:
    """Attention and MLP side by side share a norm.

    In the new decoder architecture, where they always are side by side, each has its own.
    """
    if grouped_falcon(fields):
        count = fields.optional("num_ln_in_parallel_attn") or 2
        return replace(layer, norms=layer.norms[:1] * count, together=(2,))
    return replace(layer, norms=layer.norms[:1]) if layer.together else layer


def grouped_falcon(fields: Fields) -> bool:
    """Whether a Falcon has the architecture of the 40B: KV heads of its own number, a norm for each branch."""
    return fields.flag("new_decoder_architecture") or fields.data.get("n_head_kv") is not None


def gpt_neox_japanese(fields: Fields, place: Place, layer: Layer) -> Layer:
    """The last layer has a bias behind its attention."""
    last = place.at == place.layers - 1
    return revised(layer, Attention, vectors=fields.size("hidden_size")) if last else layer


def gpt_oss(fields: Fields, place: Place, layer: Layer) -> Layer:
    """Experts have biases."""
    return revised(layer, MoE, bias=True, shared_bias=False)


def inkling(fields: Fields, place: Place, layer: Layer) -> Layer:
    """The router has a scale for all experts and scores the shared ones too."""
    scored = fields.size("hidden_size") * fields.size("n_shared_experts", least=0) if has_experts(layer) else 0
    return revised(layer, MoE, vectors=1 + scored)


def jamba(fields: Fields, place: Place, layer: Layer) -> Layer:
    """Step, B and C of the Mamba layers are normalized (arXiv:2403.19887)."""
    return revised(layer, Mamba, norms=True)


def jetmoe(fields: Fields, place: Place, layer: Layer) -> Layer:
    """The mixture has a bias of its output."""
    return revised(layer, MoE, vectors=fields.size("hidden_size"))


def laguna(fields: Fields, place: Place, layer: Layer) -> Layer:
    """Attention's output has a gate by value where the gate by head is off."""
    attention = attention_of(layer)
    return layer if attention is None or attention.gate else revised(layer, Attention, gate="value")


def mamba2(fields: Fields, place: Place, layer: Layer) -> Layer:
    """``head_dim`` is the mixer's: no layer has attention."""
    width = fields.optional("head_dim")
    return revised(layer, Mamba2, head_dim=width) if width else layer


def mimo_v2(fields: Fields, place: Place, layer: Layer) -> Layer:
    """Sliding layers: ``sliding_window_size`` leaves out the query itself, and KV heads are twice as many."""
    attention = attention_of(layer)
    if attention is None or place.kind != "sliding":
        return layer
    if fields.given("sliding_window_size"):
        layer = revised(layer, Attention, window=fields.size("sliding_window_size") + 1)
    if fields.optional("swa_num_key_value_heads"):
        return layer
    return revised(layer, Attention, kv_heads=2 * attention.kv_heads)


def muse_spark(fields: Fields, place: Place, layer: Layer) -> Layer:
    """The latent of the experts is normalized before and behind them."""
    return revised(layer, MoE, vectors=2 * fields.size("moe_latent_size")) if has_experts(layer) else layer


def stablelm(fields: Fields, place: Place, layer: Layer) -> Layer:
    """Attention and MLP side by side share a norm."""
    return replace(layer, norms=layer.norms[:1]) if layer.together else layer


def zaya(fields: Fields, place: Place, layer: Layer) -> Layer:
    """The residual stream has scales and offsets, eight vectors a layer; one expert does nothing."""
    layer = revised(layer, Attention, vectors=8 * fields.size("hidden_size"))
    if not has_experts(layer):
        return layer
    empty = fields.optional("zero_expert_num", least=0) or 1
    vectors = fields.size("router_hidden_size") * (2 if place.at else 1)
    return revised(layer, MoE, zero_experts=empty, vectors=vectors)


# Models


def openai_gpt(fields: Fields, model: Model) -> Model:
    """No norm before lm_head."""
    return model.replace(final_norm=0)


def mllama_embedding(fields: Fields, model: Model) -> Model:
    """The embedding has eight rows for image tokens beyond the vocabulary."""
    return model.replace(embedding_rows=(model.embedding_rows or model.vocab) + 8)


def glm5_next(fields: Fields, model: Model) -> Model:
    """Hyper-connections have no map of their own before lm_head."""
    around = tuple(block for block in model.around if not isinstance(block, HyperConnections))
    return model.replace(around=around)


def zaya_embedding(fields: Fields, model: Model) -> Model:
    """The embedding has a scale and an offset."""
    return model.replace(embedding_norm=2 * model.hidden)


def hrm(fields: Fields, model: Model) -> Model:
    """Two stacks of layers, stored once and run several times (hierarchical reasoning, arXiv:2506.21734).

    The embedding is followed by a learned start state.
    """
    stored = 2 * fields.size("num_layers_per_stack")
    layer, runs = model.layers[0], model.layer_count
    if runs < stored:
        raise SpecError(f"num_hidden_layers {runs} is less than the {stored} layers that are stored")
    layers = [replace(layer, count=stored)]
    if runs > stored:
        layers.append(replace(layer, count=runs - stored, reused=True))
    return model.replace(layers=tuple(layers), embedding_norm=model.hidden)
