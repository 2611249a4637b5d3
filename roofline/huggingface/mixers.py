"""From fields to blocks: the attention, or the recurrent mixer, of one layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import SpecError
from ..layers import (
    MLA,
    MLP,
    RGLRU,
    Attention,
    Block,
    CompressedAttention,
    CrossAttentionLayer,
    GatedDeltaNet,
    KimiDeltaAttention,
    LightningAttention,
    Mamba,
    Mamba2,
    MixtureOfAttention,
    ShortConvolution,
)
from .families import Family
from .fields import Fields


@dataclass(frozen=True)
class Place:
    """One layer: its number, of how many, and the kind of its mixer."""

    at: int
    layers: int
    kind: str


def mixer(fields: Fields, family: Family, place: Place) -> tuple[Block, ...]:
    """The blocks that mix tokens in a layer; none in a layer that is only an MLP.

    Raises
    ------
    SpecError
        A field is missing or makes no sense.
    """
    if place.kind == "none":
        return ()
    if place.kind == "cross":
        return (_cross_attention(fields),)
    if place.kind == "linear":
        return (_recurrent(fields, family),)
    if place.kind == "hybrid" and family.hybrid == "parallel":
        return (_gqa(fields, family, place), _recurrent(fields, family))
    kind = {"mla": _mla, "compressed": _compressed, "mixture": _mixture}.get(family.attention, _gqa)
    return (kind(fields, family, place),)


def truth(fields: Fields, rule: bool | str) -> bool:
    """A truth value of a family: itself, or the field that it names."""
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
        window=_window(fields) if windowed else None,
        chunked=place.kind == "chunked",
        qkv_bias=qkv_bias,
        output_bias=truth(fields, family.output_bias),
        qk_norm=_qk_norm(fields, family),
        sinks=family.sinks == "all" or (family.sinks == "sliding" and windowed),
        gate=_gate(fields, family),
        gate_bias=family.gate_bias and qkv_bias,
        vectors=family.head_vectors * queries,
        shares_kv=shares,
        keys_as_values=not shares and place.kind == "full" and fields.flag("attention_k_eq_v"),
        value_norm=family.value_norm,
        differential=family.differential,
        **_index(fields, place),
    )


def _heads(fields: Fields, family: Family, place: Place) -> tuple[int, int, int, int]:
    """Query heads, KV heads, width of a key, width of a value."""
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
        or _even_width(fields, family, queries)
    )
    kv = special.optional("num_key_value_heads") or _kv_heads(fields, place, queries)
    value = (fields.optional("swa_v_head_dim") if sliding else None) or fields.optional("v_head_dim") or width
    return queries, kv, width, value


def _even_width(fields: Fields, family: Family, queries: int) -> int:
    hidden = fields.size("hidden_size")
    if hidden % queries and not family.uneven_heads:
        name = fields.name_of("num_attention_heads")
        raise SpecError(f"{name} {queries} does not divide hidden_size {hidden}, and no head_dim is given")
    return hidden // queries


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


def grouped_falcon(fields: Fields) -> bool:
    """Whether a Falcon has the architecture of the 40B: KV heads of its own number, a norm for each branch."""
    return fields.flag("new_decoder_architecture") or fields.data.get("n_head_kv") is not None


def _window(fields: Fields) -> int:
    """The window; where a field counts the tokens before the query only (MiMo), the query too."""
    own = fields.size("sliding_window")
    before_only = fields.given("sliding_window_size") and fields.given("swa_head_dim")
    return fields.size("sliding_window_size") + 1 if before_only else own


def _shares_kv(fields: Fields, place: Place) -> bool:
    shared = fields.optional("num_kv_shared_layers", least=0) or 0
    return place.at >= place.layers - shared


def _qk_norm(fields: Fields, family: Family) -> str | bool:
    on = not family.qk_norm_flag or fields.flag(family.qk_norm_flag)
    return (on and family.qk_norm) or False


def _gate(fields: Fields, family: Family) -> str:
    """Width of the gate; text in its flag (``per-head``) counts as on."""
    on = not family.gate_flag or bool(fields.get(family.gate_flag))
    return family.gate if on else family.gate_else


def _index(fields: Fields, place: Place) -> dict[str, Any]:
    """The indexer of sparse attention on plain heads (MiniMax-M3)."""
    if place.kind != "indexed":
        return {}
    heads = fields.optional("sparse_num_index_heads") or fields.size("index_n_heads")
    block = fields.optional("sparse_block_size") or fields.optional("index_block_size") or 1
    blocks = fields.optional("sparse_topk_blocks") or fields.optional("index_topk_blocks")
    return {
        "index_heads": heads,
        "index_dim": fields.optional("sparse_index_dim") or fields.size("index_head_dim"),
        "index_topk": block * blocks if blocks else fields.size("index_topk"),
    }


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
    indexed = place.kind == "indexed"
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
        gate=family.gate,
        window=_window(fields) if place.kind == "sliding" else None,
        index_heads=fields.size("index_n_heads") if indexed else None,
        index_dim=fields.size("index_head_dim") if indexed else 128,
        index_topk=fields.size("index_topk") if indexed else 2048,
        index_scheme="pooled" if indexed and fields.given("index_kpool") else "dsa",
        index_pool=(fields.optional("index_kpool") or 1) if indexed else 1,
        index_shared=indexed and _indexer_shared(fields, place),
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
    sparse = place.kind == "compressed_sparse"
    return CompressedAttention(
        hidden=fields.size("hidden_size"),
        heads=fields.size("num_attention_heads"),
        head_dim=fields.size("head_dim"),
        q_rank=fields.size("q_lora_rank"),
        output_rank=fields.size("o_lora_rank"),
        output_groups=fields.size("o_groups"),
        window=fields.size("sliding_window"),
        ratio=ratio,
        index_heads=fields.size("index_n_heads") if sparse else None,
        index_dim=fields.size("index_head_dim") if sparse else 128,
        index_topk=fields.size("index_topk") if sparse else 512,
    )


# Recurrent mixers


def _recurrent(fields: Fields, family: Family) -> Block:
    try:
        return RECURRENT[family.linear](fields, family)
    except KeyError:
        raise SpecError("layer_types has recurrent layers, and nothing says of which kind they are") from None


def _gated_delta_net(fields: Fields, family: Family) -> GatedDeltaNet:
    return GatedDeltaNet(
        hidden=fields.size("hidden_size"),
        key_heads=fields.size("linear_num_key_heads"),
        key_dim=fields.size("linear_key_head_dim"),
        value_heads=fields.size("linear_num_value_heads"),
        value_dim=fields.size("linear_value_head_dim"),
        conv=fields.optional("linear_conv_kernel_dim") or 4,
    )


def _kda(fields: Fields, family: Family) -> KimiDeltaAttention:
    inner = fields.data.get("linear_attn_config")
    nested = Fields(inner, {}) if isinstance(inner, dict) else Fields({}, {})
    return KimiDeltaAttention(
        hidden=fields.size("hidden_size"),
        heads=nested.optional("num_attention_heads") or _either(fields, "linear_num_heads", "num_attention_heads"),
        dim=nested.optional("head_dim") or _either(fields, "linear_head_dim", "head_dim"),
        conv=fields.optional("short_conv_kernel_size") or fields.optional("linear_conv_kernel_dim") or 4,
        low_rank=family.low_rank_gates,
    )


def _either(fields: Fields, first: str, second: str) -> int:
    return fields.optional(first) or fields.size(second)


def _lightning(fields: Fields, family: Family) -> LightningAttention:
    heads = fields.size("num_attention_heads")
    width = fields.optional("head_dim") or _even_width(fields, family, heads)
    return LightningAttention(hidden=fields.size("hidden_size"), heads=heads, dim=width)


def _mamba(fields: Fields, family: Family) -> Mamba:
    hidden = fields.size("hidden_size")
    expand = fields.optional("mamba_expand") or fields.optional("expand") or 2
    stated = fields.get("mamba_expand") is None and fields.get("intermediate_size") is not None
    inner = None if stated else expand * hidden
    rank = _first(fields, "mamba_dt_rank", "time_step_rank")
    return Mamba(
        hidden=hidden,
        inner=inner or fields.size("intermediate_size"),
        state=fields.optional("mamba_d_state") or fields.optional("state_size") or 16,
        conv=fields.optional("mamba_d_conv") or fields.optional("conv_kernel") or 4,
        step_rank=rank or -(-hidden // 16),
        bias=fields.flag("mamba_proj_bias") or fields.flag("use_bias"),
        conv_bias=fields.flag("mamba_conv_bias", True) and fields.flag("use_conv_bias", True),
        norms=family.step_norms,
    )


def _first(fields: Fields, *names: str) -> int | None:
    """The first of several fields that is a number; ``"auto"`` counts as absent."""
    for name in names:
        if fields.get(name) not in (None, "auto"):
            return fields.size(name)
    return None


def _mamba2(fields: Fields, family: Family) -> Mamba2:
    hidden = fields.size("hidden_size")
    heads = _first(fields, "mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "num_heads")
    expand = _first(fields, "mamba_expand", "expand") or 2
    inner = fields.optional("mamba_d_ssm") or expand * hidden
    width = _first(fields, "mamba_d_head", "mamba_head_dim", "mamba_headdim")
    if width is None and family.attention_free:
        width = _first(fields, "head_dim")
    if heads is None and width is None:
        raise SpecError("mamba_n_heads is missing (also looked for: mamba_num_heads, n_mamba_heads, num_heads)")
    return Mamba2(
        hidden=hidden,
        heads=heads or inner // (width or 1),
        head_dim=width or inner // (heads or 1),
        state=_first(fields, "mamba_d_state", "ssm_state_size", "state_size") or 128,
        groups=_first(fields, "mamba_n_groups", "mamba_ngroups", "n_groups") or 1,
        conv=_first(fields, "mamba_d_conv", "conv_kernel") or 4,
        bias=fields.flag("mamba_proj_bias")
        or (fields.flag("use_bias") and not family.hybrid)
        or fields.flag("add_bias_linear"),
        conv_bias=fields.flag("mamba_conv_bias", True) and fields.flag("use_conv_bias", True),
        output_bias=fields.flag("projectors_bias") if fields.get("projectors_bias") is not None else None,
        output_norm=fields.flag("mamba_rms_norm", True),
    )


def _short_convolution(fields: Fields, family: Family) -> ShortConvolution:
    return ShortConvolution(
        hidden=fields.size("hidden_size"), conv=fields.optional("conv_L_cache") or 3, bias=fields.flag("conv_bias")
    )


def _rg_lru(fields: Fields, family: Family) -> RGLRU:
    hidden = fields.size("hidden_size")
    return RGLRU(
        hidden=hidden,
        width=fields.optional("lru_width") or hidden,
        heads=fields.size("num_attention_heads"),
        conv=fields.optional("conv1d_width") or 4,
    )


RECURRENT: dict[str, Callable[[Fields, Family], Block]] = {
    "gated_delta_net": _gated_delta_net,
    "kda": _kda,
    "lightning": _lightning,
    "mamba": _mamba,
    "mamba2": _mamba2,
    "short_convolution": _short_convolution,
    "rg_lru": _rg_lru,
}


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
