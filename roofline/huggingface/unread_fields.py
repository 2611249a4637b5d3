"""Fields of a ``config.json`` that are not read although their names suggest parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .family import Family
from .fields import Fields

STRUCTURE = re.compile(
    r"(^|_)(gate|gated|gating|rank|latent|res|head|heads|expert|experts|lora|loop|loops|adapter|hash|engram|memory)(_|$)"
    r"|norm|resid"
)
"""Pattern for names of fields that add matrices or vectors: ``use_full_rank_gate``, ``latent_moe_use_norm``."""

HARMLESS = frozenset(
    {
        *("expert_selection_fn", "gate_lower_bound", "index_share_for_mtp_iteration", "kda_safe_gate", "norm_head"),
        *("lm_head_multiplier", "mamba_norm_before_gate", "moe_renormalize", "moe_router_enable_expert_bias"),
        *("moe_shared_expert_overlap", "mtp_layers_block_type", "mtp_num_hidden_layers", "norm_before_gate"),
        *(
            "norm_topk_prob",
            "experts_per_token",
            "num_expert_group",
            "num_hash_layers",
            "num_sliding_attention_heads",
            "num_heads",
        ),
        "num_global_key_value_heads",
        *("num_attention_heads", "num_key_value_heads", "num_kv_heads", "head_dim", "qk_head_dim", "qk_rope_head_dim"),
        *("rescale_prenorm_residual", "residual_in_fp32", "residual_multiplier", "time_step_rank", "use_gemma_norm"),
        *("rms_norm", "resid_pdrop", "residual_dropout", "resid_dropout", "expert_parallel", "ep_size"),
        *(
            "use_gated_activation",
            "num_expert_groups",
            "route_norm",
            "use_head_wise_attn_gate",
            "mlp_gate_softcap",
            "moe_router_enable_routed_scaling",
            "group_norm_size",
            "norm_after_topk",
            "postnorm",
        ),
    }
)
"""Fields that match but change no shape: they were unread in configurations whose counts are exact."""

SCALAR_ENDINGS = (
    "_eps",
    "_epsilon",
    "_eps_moe_gate",
    "_dropout",
    "_factor",
    "_coef",
    "_loss_weight",
    "_limit",
    "_std",
    "_multiplier",
)
"""Suffixes of the names of constants."""


def unread_structure(fields: Fields, family: Family) -> Iterator[str]:
    """Fields that were never read, differ from the default and sound like parameters, with their values.

    A gate or a norm of queries and keys that the family has anyway is not listed.

    Parameters
    ----------
    fields : Fields
        The text model's fields, after the model was read from them.
    family : Family
        Family by which they were read.
    """
    for name, value in sorted(fields.data.items()):
        if name in fields.read or not STRUCTURE.search(name) or not _may_add(value):
            continue
        if name in HARMLESS or name.endswith(SCALAR_ENDINGS) or fields.defaults.get(name) == value:
            continue
        implied = (family.gate and "output_gate" in name) or (family.qk_norm and "qk_norm" in name)
        if not implied:
            yield f"{name}={value!r:.40}"


def _may_add(value: Any) -> bool:
    """Whether a value can indicate parameters: text, fractions and disabled options cannot."""
    if isinstance(value, bool):
        return value
    return isinstance(value, int | list | dict) and bool(value)
