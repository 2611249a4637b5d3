"""Read the MLP, or the mixture of experts, of one layer from its fields."""

from __future__ import annotations

from ..errors import SpecError
from ..model.blocks import MLP, Block, MoE
from .family import Family
from .fields import Fields
from .mixers import truth


def feed_forward(fields: Fields, family: Family, kind: str, at: int, layers: int) -> tuple[Block, ...]:
    """MLP blocks of layer ``at``; empty for a layer without an MLP.

    Raises
    ------
    SpecError
        A field is missing or invalid.
    """
    if kind == "none":
        return ()
    return (_mixture(fields, family, at) if kind == "moe" else _dense(fields, family, at, layers),)


def _dense(fields: Fields, family: Family, at: int, layers: int) -> MLP:
    inner = _inner_width(fields, family, at)
    if fields.flag("use_double_wide_mlp") and at >= layers - (fields.optional("num_kv_shared_layers", least=0) or 0):
        inner *= 2
    return MLP(
        hidden=fields.size("hidden_size"),
        intermediate=inner,
        gated=family.gated,
        bias=truth(fields, family.mlp_bias),
    )


def _inner_width(fields: Fields, family: Family, at: int) -> int:
    """Inner width of a dense MLP, under any name that families use."""
    hidden = fields.size("hidden_size")
    if fields.get("dense_intermediate_size") is not None:
        return fields.size("dense_intermediate_size")
    if fields.get("intermediate_size") is None and fields.optional("num_experts", least=0) == 0:
        return fields.size("shared_expert_intermediate_size")
    if fields.optional("num_experts", least=0) == 0 and fields.optional("shared_intermediate_size"):
        return fields.size("shared_intermediate_size")
    inner = fields.at("intermediate_size", at)
    if inner is None and fields.get("expansion_ratio") is not None:
        return fields.size("expansion_ratio") * hidden
    if inner is None and fields.get("intermediate_multiple_size") is not None:
        return fields.size("intermediate_multiple_size") * hidden
    if inner is None and fields.get("ffn_proj_factor") is not None:
        return _factored(fields, hidden)
    if inner is None and family.four_h:
        return 4 * hidden
    inner = inner if inner is not None else fields.size("intermediate_size")
    if family.halved:
        return inner // 2
    if fields.flag("block_auto_adjust_ff_dim"):
        return _rounded(fields, inner)
    return inner


def _factored(fields: Fields, hidden: int) -> int:
    """xLSTM: a factor of the hidden size, up to the next multiple."""
    factor, multiple = fields.get("ffn_proj_factor"), fields.optional("ffn_round_up_to_multiple_of") or 64
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < 1000:
        raise SpecError(f"ffn_proj_factor must be a number above 0: {factor!r:.80}")
    return multiple * -(-int(factor * hidden) // multiple)


def _rounded(fields: Fields, inner: int) -> int:
    """LFM2 takes two thirds of the stated width, times a factor, up to the next multiple."""
    inner = int(2 * inner / 3)
    factor = fields.get("block_ffn_dim_multiplier")
    multiple = fields.optional("block_multiple_of") or 256
    if factor is not None:
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < 1000:
            raise SpecError(f"block_ffn_dim_multiplier must be a number above 0: {factor!r:.80}")
        inner = multiple * -(-int(factor * inner) // multiple)
    return max(inner, 1)


def _mixture(fields: Fields, family: Family, at: int) -> MoE:
    hidden, experts = fields.size("hidden_size"), fields.first("num_experts")
    inner = _expert_width(fields, at)
    shared = _shared_width(fields, family, inner, at)
    beside = fields.flag("enable_moe_block")
    return MoE(
        hidden=hidden,
        experts=experts,
        top_k=_top_k(fields, experts),
        intermediate=inner,
        gated=family.gated,
        shared_bias=truth(fields, family.mlp_bias),
        router_bias=truth(fields, family.router_bias),
        shared_intermediate=shared,
        shared_gate=family.shared_gate and shared is not None,
        dense_intermediate=fields.size("intermediate_size") if beside else None,
        latent=fields.optional("moe_latent_size"),
        router_hidden=fields.optional("router_hidden_size"),
        zero_experts=fields.optional("zero_expert_num", least=0) or 0,
        vectors=_expert_vectors(fields, experts),
    )


def _expert_vectors(fields: Fields, experts: int) -> int:
    """Parameters of a mixture outside its matrices: a scale of Gemma 4's router, the norm of Kimi K3's latent."""
    scales = fields.size("hidden_size") + experts if fields.flag("enable_moe_block") else 0
    return scales + (fields.size("moe_latent_size") if fields.flag("latent_moe_use_norm") else 0)


def _expert_width(fields: Fields, at: int) -> int:
    """Inner width of a routed expert: its own field, or the general one if there is none."""
    value = fields.get("moe_intermediate_size")
    if isinstance(value, list):
        return Fields({"moe_intermediate_size": value[0] if value else None}, {}).size("moe_intermediate_size")
    own = fields.optional("moe_intermediate_size") or fields.at("intermediate_size", at)
    return own or fields.size("intermediate_size")


def _top_k(fields: Fields, experts: int) -> int:
    value = fields.get("num_experts_per_tok")
    if value is None and fields.given("num_experts_per_tok"):
        return experts
    if isinstance(value, list):
        value = value[0] if value else None
    top_k = Fields({"num_experts_per_tok": value}, {}).size("num_experts_per_tok")
    if top_k > experts:
        name = fields.name_of("num_experts_per_tok")
        raise SpecError(f"{name} is {top_k}, but there are {experts} experts ({fields.name_of('num_experts')})")
    return top_k


def _shared_width(fields: Fields, family: Family, inner: int, at: int) -> int | None:
    """Total inner width of the shared experts: stated, or their number (a list in Hunyuan) times the expert width."""
    if family.shared_expert:
        shared = fields.at("n_shared_experts", at, least=0)
        return inner if shared is None else shared * inner or None
    stated = fields.optional("shared_expert_intermediate_size", least=0)
    count = fields.optional("n_shared_experts", least=0)
    if stated is not None:
        return stated or None
    if count is not None:
        return count * inner or None
    return None
