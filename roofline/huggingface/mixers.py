"""Read the attention, or the recurrent mixer, of one layer from its fields."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..errors import SpecError
from ..model.blocks import (
    MLA,
    MLP,
    Attention,
    Block,
    CausalConvolution,
    CompressedAttention,
    ConvolvedHeads,
    CrossAttentionLayer,
    Indexer,
    MixtureOfAttention,
    Projection,
)
from .family import Family, Place
from .family_changes import grouped_falcon
from .fields import Fields
from .recurrent_mixers import even_width, recurrent


def mixer(fields: Fields, family: Family, place: Place) -> tuple[Block, ...]:
    """Blocks that mix tokens in a layer; empty for a layer with only an MLP.

    Raises
    ------
    SpecError
        A field is missing or invalid.
    """
    if place.kind == "none":
        return ()
    if place.kind == "cross":
        return (_cross_attention(fields),)
    if place.kind == "linear":
        return (recurrent(fields, family),)
    if place.kind == "hybrid" and family.hybrid == "parallel":
        return (_gqa(fields, family, place), recurrent(fields, family))
    if fields.get("cca_time0") is not None:
        return _convolved(fields, family, place)
    if fields.get("d_rel") is not None:
        return (_gated_relative if family.gate else _relative)(fields, family, place)
    if family.attention == "mla" and fields.get("use_mla") is False:
        return (_gqa(fields, family, place),)
    kind = {"mla": _mla, "compressed": _compressed, "mixture": _mixture}.get(family.attention, _gqa)
    return (kind(fields, family, place),)


def truth(fields: Fields, rule: bool | str) -> bool:
    """Resolve a family's setting: a bool is returned, a string names the field that decides."""
    return fields.flag(rule) if isinstance(rule, str) else rule


# Heads of softmax attention


def _gqa(fields: Fields, family: Family, place: Place) -> Attention:
    queries, kv, width, value = _heads(fields, family, place)
    windowed = place.kind in ("sliding", "chunked")
    shares = _shares_kv(fields, place)
    qkv_bias = truth(fields, family.qkv_bias)
    return Attention(
        hidden=fields.size("hidden_size"),
        query_heads=queries,
        kv_heads=kv,
        head_dim=width,
        value_dim=value if value != width else None,
        window=fields.size("sliding_window") if windowed else None,
        chunked=place.kind == "chunked",
        qkv_bias=qkv_bias,
        output_bias=truth(fields, family.output_bias),
        qk_norm=_qk_norm(fields, family),
        query_rank=fields.optional("share_q_dim"),
        sinks=family.sinks == "all" or (family.sinks == "sliding" and windowed),
        gate=_gate(fields, family),
        gate_bias=family.gate_bias and qkv_bias,
        shares_kv=shares,
        keys_as_values=not shares and place.kind == "full" and fields.flag("attention_k_eq_v"),
        indexer=_block_indexer(fields) if place.kind == "indexed" else None,
    )


def _heads(fields: Fields, family: Family, place: Place) -> tuple[int, int, int, int]:
    """Number of query heads and KV heads, width of a key and of a value."""
    sliding = place.kind == "sliding"
    other: Any = fields.get("attention_other_setting")
    special = Fields(other, {}) if sliding and isinstance(other, dict) else Fields({}, {})
    queries = (
        special.optional("num_attention_heads")
        or (fields.optional("swa_num_attention_heads") if sliding else None)
        or fields.at("num_attention_heads_per_layer", place.at)
        or fields.at("num_attention_heads", place.at)
        or fields.size("num_attention_heads")
    )
    width = (
        special.optional("head_dim")
        or (fields.optional("swa_head_dim") if sliding else None)
        or (fields.optional("global_head_dim") if place.kind == "full" else None)
        or fields.at("head_dim", place.at)
        or even_width(fields, family, queries)
    )
    kv = special.optional("num_key_value_heads") or _kv_heads(fields, place, queries)
    if queries % kv:
        raise SpecError(f"num_attention_heads {queries} is not a multiple of num_key_value_heads {kv}")
    value = (fields.optional("swa_v_head_dim") if sliding else None) or fields.optional("v_head_dim", least=0) or width
    return queries, kv, width, value


def _kv_heads(fields: Fields, place: Place, queries: int) -> int:
    if place.kind == "sliding" and fields.optional("swa_num_key_value_heads"):
        return fields.size("swa_num_key_value_heads")
    if place.kind == "full" and fields.flag("attention_k_eq_v") and fields.optional("num_global_key_value_heads"):
        return fields.size("num_global_key_value_heads")
    if fields.flag("multi_query_attention"):
        return fields.size("multi_query_group_num")
    if fields.get("multi_query") is not None:
        if not grouped_falcon(fields):
            return 1 if fields.flag("multi_query") else queries
        return fields.optional("num_key_value_heads") or queries
    return fields.at("num_key_value_heads", place.at) or queries


def _shares_kv(fields: Fields, place: Place) -> bool:
    """Whether the layer reuses an earlier one's keys and values: the last layers (Gemma), or all but one of every
    ``n``.

    The latter is Hunyuan Large (``use_cla``, arXiv:2411.02265, section 2.1).
    """
    if fields.flag("use_cla"):
        return place.at % (fields.optional("cla_share_factor") or 1) != 0
    shared = fields.optional("num_kv_shared_layers", least=0) or 0
    return place.at >= place.layers - shared


def _qk_norm(fields: Fields, family: Family) -> str | bool:
    on = not family.qk_norm_flag or fields.flag(family.qk_norm_flag)
    return (on and family.qk_norm) or False


def _gate(fields: Fields, family: Family) -> str:
    """Width of the gate; text in its flag (``per-head``) counts as on."""
    on = not family.gate_flag or bool(fields.get(family.gate_flag))
    return family.gate if on else ""


def _block_indexer(fields: Fields) -> Indexer:
    """The indexer of sparse attention on plain heads, which selects blocks of tokens (MiniMax-M3)."""
    block = fields.optional("sparse_block_size") or fields.optional("index_block_size") or 1
    blocks = fields.optional("sparse_topk_blocks") or fields.optional("index_topk_blocks")
    return Indexer(
        heads=fields.optional("sparse_num_index_heads") or fields.size("index_n_heads"),
        dim=fields.optional("sparse_index_dim") or fields.size("index_head_dim"),
        topk=block * blocks if blocks else fields.size("index_topk"),
        scheme="plain",
    )


def _cross_attention(fields: Fields) -> CrossAttentionLayer:
    queries = fields.size("num_attention_heads")
    hidden = fields.size("hidden_size")
    return CrossAttentionLayer(
        hidden=hidden,
        query_heads=queries,
        kv_heads=fields.optional("num_key_value_heads") or queries,
        head_dim=fields.optional("head_dim") or hidden // queries,
        intermediate=fields.size("intermediate_size"),
    )


def _convolved(fields: Fields, family: Family, place: Place) -> tuple[Block, ...]:
    """ZAYA1: plain heads, with convolutions over queries and keys."""
    attention = _gqa(fields, family, place)
    taps = fields.size("cca_time0")
    if taps != fields.size("cca_time1"):
        raise SpecError(f"cca_time1 must be cca_time0: {fields.size('cca_time1')} and {taps}")
    heads = ConvolvedHeads(
        hidden=attention.hidden,
        query_heads=attention.query_heads,
        kv_heads=attention.kv_heads,
        head_dim=attention.head_dim,
        taps=taps,
    )
    return (attention, heads)


def _relative(fields: Fields, family: Family, place: Place) -> tuple[Block, ...]:
    """Inkling: learned relative positions, and convolutions after keys, values, attention and MLP."""
    attention = _gqa(fields, family, place)
    hidden, width, taps = attention.hidden, fields.size("d_rel"), fields.size("conv_kernel_size")
    extent = fields.size("rel_extent")
    if attention.window is not None:
        extent = min(extent, attention.window)
    channels = attention.kv_values + 2 * hidden
    return (
        attention,
        Projection(hidden=hidden, output=attention.query_heads * width, name="relative_proj"),
        Projection(hidden=width, output=extent, name="relative_logits"),
        CausalConvolution(hidden=hidden, channels=channels, taps=taps),
    )


def _gated_relative(fields: Fields, family: Family, place: Place) -> tuple[Block, ...]:
    """Inkling 2: relative positions and convolutions, a gate, and sinks that each token projects.

    Queries and relative states have a scale per value.  In layers with full attention, the taps of the convolutions
    over keys and values are also projected from the token, per KV head.
    """
    attention = _gqa(fields, family, place)
    hidden, heads, kv_heads = attention.hidden, attention.query_heads, attention.kv_heads
    width, taps = fields.size("d_rel"), fields.size("conv_kernel_size")
    extent = attention.window or fields.size("rel_extent")
    blocks: list[Block] = [
        replace(attention, vectors=heads * (attention.head_dim + width)),
        Projection(hidden=hidden, output=heads * width, name="relative_proj"),
        Projection(hidden=width, output=extent, name="relative_logits"),
        Projection(hidden=hidden, output=heads, name="sink_proj"),
        CausalConvolution(hidden=hidden, channels=attention.kv_values + 2 * hidden, taps=taps),
    ]
    if attention.window is None:
        blocks.append(Projection(hidden=hidden, output=kv_heads * taps, name="conv_weight_proj", copies=2))
    return tuple(blocks)


def _mixture(fields: Fields, family: Family, place: Place) -> MixtureOfAttention:
    return MixtureOfAttention(
        hidden=fields.size("hidden_size"),
        experts=fields.size("num_experts"),
        top_k=fields.size("num_experts_per_tok"),
        kv_heads=fields.size("num_key_value_heads"),
        head_dim=fields.size("head_dim"),
    )


# Latent and compressed attention


def _mla(fields: Fields, family: Family, place: Place) -> MLA:
    return MLA(
        hidden=fields.size("hidden_size"),
        heads=fields.size("num_attention_heads"),
        q_rank=fields.optional("q_lora_rank"),
        kv_rank=fields.size("kv_lora_rank"),
        rope_dim=fields.size("qk_rope_head_dim", least=0),
        nope_dim=fields.size("qk_nope_head_dim"),
        value_dim=fields.size("v_head_dim"),
        bias=truth(fields, family.qkv_bias),
        sinks=bool(family.sinks),
        gate=family.gate or ("value" if fields.flag("mla_use_output_gate") else ""),
        window=fields.size("sliding_window") if place.kind == "sliding" else None,
        indexer=_lightning_indexer(fields, place) if place.kind == "indexed" else None,
    )


def _lightning_indexer(fields: Fields, place: Place) -> Indexer:
    """The indexer of DeepSeek-V3.2 and the GLM-5 models."""
    return Indexer(
        heads=fields.size("index_n_heads"),
        dim=fields.size("index_head_dim"),
        topk=fields.size("index_topk"),
        scheme="pooled" if fields.given("index_kpool") else "dsa",
        pool=fields.optional("index_kpool") or 1,
        shared=_indexer_shared(fields, place),
    )


def _indexer_shared(fields: Fields, place: Place) -> bool:
    """Whether the layer uses the selection of an earlier one (GLM-5.2)."""
    types = fields.entries("indexer_types")
    if types is None:
        pattern = fields.text("index_topk_pattern")
        types = list(pattern) if pattern else None
    if types is not None:
        if place.at >= len(types):
            raise SpecError(f"indexer_types has {len(types)} entries, but there is a layer {place.at}")
        return str(types[place.at]).lower() in ("shared", "s")
    every = fields.optional("index_topk_freq") or 1
    offset = fields.optional("index_skip_topk_offset", least=0)
    return max(place.at - (2 if offset is None else offset) + 1, 0) % every != 0


def _compressed(fields: Fields, family: Family, place: Place) -> CompressedAttention:
    ratio = {"compressed_sparse": 4, "heavily_compressed": 128}.get(place.kind, 0)
    given = fields.entries("compress_ratios")
    if given is not None and place.at < len(given):
        ratio = Fields({"ratio": given[place.at]}, {}).size("ratio", least=0)
    return CompressedAttention(
        hidden=fields.size("hidden_size"),
        heads=fields.size("num_attention_heads"),
        head_dim=fields.size("head_dim"),
        q_rank=fields.size("q_lora_rank"),
        output_rank=fields.size("o_lora_rank"),
        output_groups=fields.size("o_groups"),
        window=fields.size("sliding_window"),
        ratio=ratio,
        indexer=_compressed_indexer(fields) if place.kind == "compressed_sparse" else None,
    )


def _compressed_indexer(fields: Fields) -> Indexer:
    return Indexer(
        heads=fields.size("index_n_heads"),
        dim=fields.size("index_head_dim"),
        topk=fields.size("index_topk"),
        scheme="compressed",
    )


def shared_transformer(fields: Fields, family: Family) -> tuple[Block, ...]:
    """The transformer block that Zamba's hybrid layers share: attention over hidden state and embedding together."""
    hidden = fields.size("hidden_size")
    heads = fields.size("num_attention_heads")
    width = fields.optional("attention_head_dim") or 2 * hidden // heads
    attention = Attention(
        hidden=hidden,
        query_heads=heads,
        kv_heads=fields.optional("num_key_value_heads") or heads,
        head_dim=width,
        input_width=2 * hidden,
    )
    mlp = MLP(hidden=hidden, intermediate=fields.size("intermediate_size"))
    return (attention, mlp)
