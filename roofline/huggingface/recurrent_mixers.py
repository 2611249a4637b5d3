"""Read recurrent mixers from their fields."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import SpecError
from ..model.blocks import (
    RGLRU,
    RWKV,
    Block,
    GatedDeltaNet,
    KimiDeltaAttention,
    LightningAttention,
    Mamba,
    Mamba2,
    MatrixLSTM,
    ShortConvolution,
)
from .family import Family
from .fields import Fields


def even_width(fields: Fields, family: Family, queries: int) -> int:
    """Width of a head if the heads divide the hidden size.

    Raises
    ------
    SpecError
        The heads do not divide the hidden size.
    """
    hidden = fields.size("hidden_size")
    if hidden % queries and not family.uneven_heads:
        name = fields.name_of("num_attention_heads")
        raise SpecError(f"{name} {queries} does not divide hidden_size {hidden}, and head_dim is missing")
    return hidden // queries


def recurrent(fields: Fields, family: Family) -> Block:
    """The recurrent mixer of a layer.

    Raises
    ------
    SpecError
        The kind of the mixer is not stated, or a field is missing.
    """
    try:
        return RECURRENT[family.linear](fields, family)
    except KeyError:
        raise SpecError("layer_types has recurrent layers, but no field states their kind") from None


def _gated_delta_net(fields: Fields, family: Family) -> GatedDeltaNet:
    keys, values = fields.size("linear_num_key_heads"), fields.size("linear_num_value_heads")
    if values % keys:
        raise SpecError(f"linear_num_value_heads {values} is not a multiple of linear_num_key_heads {keys}")
    return GatedDeltaNet(
        hidden=fields.size("hidden_size"),
        key_heads=keys,
        key_dim=fields.size("linear_key_head_dim"),
        value_heads=values,
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
        conv=fields.optional("linear_conv_kernel_dim") or fields.optional("short_conv_kernel_size") or 4,
        full_rank_gate=fields.flag("use_full_rank_gate"),
    )


def _either(fields: Fields, first: str, second: str) -> int:
    return fields.optional(first) or fields.size(second)


def _lightning(fields: Fields, family: Family) -> LightningAttention:
    heads = fields.size("num_attention_heads")
    width = fields.optional("head_dim") or even_width(fields, family, heads)
    qk_norm = fields.flag("use_qk_norm") if family.linear == "simple_gla" else False
    return LightningAttention(hidden=fields.size("hidden_size"), heads=heads, dim=width, qk_norm=qk_norm)


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


def _rwkv(fields: Fields, family: Family) -> RWKV:
    hidden = fields.size("hidden_size")
    width = fields.optional("attention_hidden_size") or hidden
    return RWKV(hidden=hidden, width=width, intermediate=fields.optional("intermediate_size") or 4 * hidden)


def _matrix_lstm(fields: Fields, family: Family) -> MatrixLSTM:
    hidden, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
    widths = []
    for name in ("qk_dim_factor", "v_dim_factor"):
        factor = fields.get(name)
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < 1000:
            raise SpecError(f"{name} must be a number above 0: {factor!r:.80}")
        widths.append(int(factor * hidden) // heads)
    return MatrixLSTM(hidden=hidden, heads=heads, key_dim=widths[0], value_dim=widths[1])


RECURRENT: dict[str, Callable[[Fields, Family], Block]] = {
    "gated_delta_net": _gated_delta_net,
    "kda": _kda,
    "lightning": _lightning,
    "simple_gla": _lightning,
    "mamba": _mamba,
    "mamba2": _mamba2,
    "short_convolution": _short_convolution,
    "rg_lru": _rg_lru,
    "rwkv": _rwkv,
    "matrix_lstm": _matrix_lstm,
}
