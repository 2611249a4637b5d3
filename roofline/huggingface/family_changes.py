"""Changes of single families: each function revises a layer, or the whole model, read by the convention.

`roofline.huggingface.families` names the function in the family's row.  Differences shared by several families are
fields of `Family` instead.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..errors import SpecError
from ..model import Layer, LookupTable, Model
from ..model.blocks import (
    MLA,
    MLP,
    Attention,
    Block,
    BlockResidual,
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
    """Copy of the layer with changed fields in its blocks of one kind."""
    blocks = tuple(replace(block, **changes) if isinstance(block, kind) else block for block in layer.blocks)
    return replace(layer, blocks=blocks)


def attention_of(layer: Layer) -> Attention | None:
    """Attention with plain heads in the layer, if there is one."""
    return next((block for block in layer.blocks if isinstance(block, Attention)), None)


def has_experts(layer: Layer) -> bool:
    """Whether the layer has a mixture of experts."""
    return any(isinstance(block, MoE) for block in layer.blocks)


# Layers


def apertus(fields: Fields, place: Place, layer: Layer) -> Layer:
    """The activation xIELU has two learned parameters."""
    return revised(layer, MLP, vectors=2)


def arctic(fields: Fields, place: Place, layer: Layer) -> Layer:
    """A dense MLP as wide as the model, with a norm of its own, runs beside the experts of a layer."""
    hidden = fields.size("hidden_size")
    if not (has_experts(layer) and fields.flag("use_residual") and fields.flag("parallel_attn_mlp_res", True)):
        return layer
    return replace(revised(layer, MoE, dense_intermediate=hidden), norms=(*layer.norms, layer.norms[0]))


def grok(fields: Fields, place: Place, layer: Layer) -> Layer:
    """Grok 2 has a dense MLP beside the experts of every layer (``residual_moe``); Grok 1 does not."""
    if not fields.flag("residual_moe"):
        return layer
    return revised(layer, MoE, dense_intermediate=fields.size("intermediate_size"))


def axk1(fields: Fields, place: Place, layer: Layer) -> Layer:
    """Layers with a mixture of experts have one more norm."""
    if has_experts(layer):
        return replace(layer, norms=(*layer.norms, layer.norms[0]))
    return layer


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
    """Kimi delta attention projects decay and gate directly, not through a bottleneck, unless ``no_kda_lora`` is false.

    ``use_qk_norm`` divides queries and keys by their length and has no parameters here.
    """
    fields.flag("use_qk_norm")
    return revised(layer, KimiDeltaAttention, low_rank=not fields.flag("no_kda_lora", True))


def beam(fields: Fields, place: Place, layer: Layer) -> Layer:
    """One parameter for each query head."""
    attention = attention_of(layer)
    if attention:
        return revised(layer, Attention, vectors=attention.query_heads)
    return layer


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
    if fields.flag("is_moe"):
        raise SpecError("is_moe is true: Doge's experts are rows of two tables, which is not supported")
    heads, values = attention.kv_heads, attention.kv_heads * attention.value_width
    layer = revised(layer, Attention, vectors=heads)
    return replace(
        layer,
        blocks=(
            *layer.blocks,
            Projection(hidden=values, output=heads, name="dt_proj", bias=fields.flag("attention_bias")),
        ),
    )


def dots3_note(fields: Fields, place: Place, layer: Layer) -> Layer:
    """The rotary key of the latent attention is normalized with a vector of its own."""
    return revised(layer, MLA, rope_norm=True)


def falcon(fields: Fields, place: Place, layer: Layer) -> Layer:
    """Parallel attention and MLP share a norm.

    In the new decoder architecture, which is always parallel, each has its own.
    """
    if grouped_falcon(fields):
        count = fields.optional("num_ln_in_parallel_attn") or 2
        return replace(layer, norms=layer.norms[:1] * count, together=(2,))
    return replace(layer, norms=layer.norms[:1]) if layer.together else layer


def grouped_falcon(fields: Fields) -> bool:
    """Whether a Falcon has the architecture of the 40B: a separate number of KV heads, and a norm per branch."""
    return fields.flag("new_decoder_architecture") or fields.data.get("n_head_kv") is not None


def gpt_neox_japanese(fields: Fields, place: Place, layer: Layer) -> Layer:
    """The last layer has a bias after its attention."""
    last = place.at == place.layers - 1
    if last:
        return revised(layer, Attention, vectors=fields.size("hidden_size"))
    return layer


def gpt_oss(fields: Fields, place: Place, layer: Layer) -> Layer:
    """Experts have biases."""
    return revised(layer, MoE, bias=True, shared_bias=False)


def inkling(fields: Fields, place: Place, layer: Layer) -> Layer:
    """The router has a scale for all experts and scores the shared ones too."""
    scored = fields.size("hidden_size") * fields.size("n_shared_experts", least=0) if has_experts(layer) else 0
    return revised(layer, MoE, vectors=1 + scored)


def inkling2_norms(fields: Fields, place: Place, layer: Layer) -> Layer:
    """Queries, keys and values of full attention have a norm each."""
    if place.kind == "sliding":
        return layer
    return replace(layer, norms=(layer.norms[0],) * 4)


def inkling2_loop(fields: Fields, place: Place, layer: Layer) -> Layer:
    """Looped layers mix a message of the previous pass into queries, keys, values and the input of the MLP.

    Each of the four mixtures has a bottleneck of ``loop_gate_rank`` over both inputs, and a gate for either.
    """
    layer = inkling2_norms(fields, place, layer)
    first, end = fields.size("loop_layer_index_start"), fields.size("loop_layer_index_end")
    if not first <= place.at < end:
        return layer
    hidden, rank = fields.size("hidden_size"), fields.size("loop_gate_rank")
    gates = (
        Projection(hidden=2 * hidden, output=rank, name="message_down_proj", copies=4),
        Projection(hidden=rank, output=hidden, name="message_gate_proj", copies=8),
    )
    return replace(layer, blocks=(*layer.blocks, *gates))


def jamba(fields: Fields, place: Place, layer: Layer) -> Layer:
    """Step, B and C of the Mamba layers are normalized (arXiv:2403.19887)."""
    return revised(layer, Mamba, norms=True)


def jetmoe(fields: Fields, place: Place, layer: Layer) -> Layer:
    """The mixture has a bias of its output."""
    return revised(layer, MoE, vectors=fields.size("hidden_size"))


def laguna(fields: Fields, place: Place, layer: Layer) -> Layer:
    """Attention's output has a gate by value where the gate by head is off."""
    attention = attention_of(layer)
    if attention is None or attention.gate:
        return layer
    return revised(layer, Attention, gate="value")


def mamba2(fields: Fields, place: Place, layer: Layer) -> Layer:
    """``head_dim`` belongs to the mixer, since no layer has attention."""
    width = fields.optional("head_dim")
    return revised(layer, Mamba2, head_dim=width) if width else layer


def mimo_v2(fields: Fields, place: Place, layer: Layer) -> Layer:
    """Sliding layers have twice the KV heads, and ``sliding_window_size`` excludes the query itself."""
    attention = attention_of(layer)
    if attention is None or place.kind != "sliding":
        return layer
    if fields.given("sliding_window_size"):
        layer = revised(layer, Attention, window=fields.size("sliding_window_size") + 1)
    if fields.optional("swa_num_key_value_heads"):
        return layer
    return revised(layer, Attention, kv_heads=2 * attention.kv_heads)


def mistral_large4(fields: Fields, place: Place, layer: Layer) -> Layer:
    """Keys of layers without rotary positions have no rotary part; some layers read the latent of an earlier layer.

    Queries are scaled by a learned function of the position, of attention and of the indexer, whose own come from the
    normalized hidden state.
    """
    rotary, source = fields.entries("no_rope_layers", place.layers), fields.entries("kv_source_layers", place.layers)
    vectors = 2 * fields.size("num_attention_heads")
    if place.kind == "indexed":
        vectors += 2 * fields.size("hidden_size") + 2 * fields.size("index_n_heads")
    changed: dict[str, Any] = {"vectors": vectors}
    if source is not None and source[place.at] != place.at:
        changed["shares_latent"] = True
    every = fields.optional("no_rope_layer_interval") or 4
    if not (rotary[place.at] if rotary else (place.at + 1) % every):
        whole = fields.size("qk_nope_head_dim") + fields.size("qk_rope_head_dim")
        changed |= {"rope_dim": 0, "nope_dim": whole}
    return revised(layer, MLA, **changed)


def muse_spark(fields: Fields, place: Place, layer: Layer) -> Layer:
    """The latent of the experts is normalized before and after them."""
    if has_experts(layer):
        return revised(layer, MoE, vectors=2 * fields.size("moe_latent_size"))
    return layer


def stablelm(fields: Fields, place: Place, layer: Layer) -> Layer:
    """Attention and MLP side by side share a norm."""
    return replace(layer, norms=layer.norms[:1]) if layer.together else layer


DELAY_RANK = 32
"""Rank of the matrices that condition a layer of Voxtral Realtime on the delay; its class has no field for it."""


def voxtral_realtime(fields: Fields, place: Place, layer: Layer) -> Layer:
    """Two matrices turn the delay into a scale for the MLP's input, once per request and not for each token."""
    return revised(layer, Attention, vectors=2 * DELAY_RANK * fields.size("hidden_size"))


def zaya(fields: Fields, place: Place, layer: Layer) -> Layer:
    """The residual stream has scales and offsets, eight vectors per layer; one expert does nothing."""
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


def ngrams(fields: Fields, model: Model) -> Model:
    """LongCat-Flash-Lite: embeddings of n-grams, ``emb_split_num`` tables for each length but one.

    Table ``i`` has ``2 i + 1`` rows more than the vocabulary times ``ngram_vocab_size_ratio``.  A matrix turns a row
    into the width of the model.
    """
    ratio: Any = fields.get("ngram_vocab_size_ratio")
    count = fields.size("emb_split_num") * (fields.size("emb_neighbor_num") - 1)
    width = model.hidden // count
    rows = int(float(ratio) * model.vocab)
    tables = tuple(LookupTable(f"ngram_embedding_{at}", rows + 2 * at + 1, width) for at in range(count))
    projection = Projection(hidden=width, output=model.hidden, name="ngram_projection", copies=count)
    return model.replace(tables=(*model.tables, *tables), around=(*model.around, projection))


def glm5_next(fields: Fields, model: Model) -> Model:
    """Hyper-connections have no map of their own before lm_head."""
    around = tuple(block for block in model.around if not isinstance(block, HyperConnections))
    return model.replace(around=around)


def zaya_embedding(fields: Fields, model: Model) -> Model:
    """The embedding has a scale and an offset."""
    return model.replace(embedding_norm=2 * model.hidden)


def lerope(fields: Fields, model: Model) -> Model:
    """Each frequency of the rotary positions has a learned exponent."""
    return model.replace(final_norm=model.final_norm + fields.size("qk_rope_head_dim") // 2)


def inkling2(fields: Fields, model: Model) -> Model:
    """lm_head has rows for real tokens only."""
    rows = fields.optional("unpadded_vocab_size") or model.vocab
    return model.replace(vocab=rows, embedding_rows=model.vocab)


def inkling2_loops(fields: Fields, model: Model) -> Model:
    """Looped layers run several times, each time with a separate cache; messages have learned queries."""
    first, end = fields.size("loop_layer_index_start"), fields.size("loop_layer_index_end")
    again = fields.size("loop_num_passes") - 1
    looped = [layer for layer in model.layers if _mixes_messages(layer)]
    if first >= end or sum(layer.count for layer in looped) != end - first:
        raise SpecError(f"the loop from layer {first} to {end} is not within the model's {model.layer_count} layers")
    repeated = tuple(replace(layer, count=again * layer.count, reused=True) for layer in looped if again)
    queries = BlockResidual(hidden=model.hidden, sources=1, queries=4 * (end - first))
    changed = model.replace(layers=(*model.layers, *repeated), around=(*model.around, queries))
    return inkling2(fields, changed)


def _mixes_messages(layer: Layer) -> bool:
    return any(isinstance(block, Projection) and block.name == "message_down_proj" for block in layer.blocks)


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
