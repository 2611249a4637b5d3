"""What a family of models may differ in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..model import Layer, Model
from .fields import Fields


@dataclass(frozen=True)
class Place:
    """One layer: its number, of how many, and the kind of its mixer."""

    at: int
    layers: int
    kind: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """Differences of a family from the convention; a string for a truth value names the field that decides.

    Attributes
    ----------
    attention : kind of its attention: ``gqa``, ``mla``, ``compressed`` or ``mixture``
    linear : kind of the layers that ``layer_types`` calls linear, mamba, conv or recurrent
    hybrid : what a ``hybrid`` layer is: ``parallel`` (attention and mixer side by side), ``shared`` (one transformer
        block reused before the mixer)
    qkv_bias, output_bias, mlp_bias, lm_head_bias : biases
    qk_norm, qk_norm_flag : how queries and keys are normalized (see `Attention`), and what turns it on
    sinks : which layers have learned sinks: ``all`` or ``sliding``
    gate, gate_flag : width of the gate of attention's output, and what turns it on
    gate_bias : whether the gate is part of the query projection and shares its bias
    norm : ``rms``, ``layer`` (weight and bias), ``layer_weight`` or ``none`` (no parameters)
    extra_norms_flag : what adds a norm behind each of attention and MLP
    norms : norms of a layer
    parallel : whether attention and MLP read the same input and their outputs are added together
    embedding_norm : whether there is a norm after the embedding
    gated : whether MLPs have a gate
    halved : whether the stated inner width is twice the real one
    four_h : whether an absent inner width means four times the hidden one
    shared_gate, router_bias, shared_expert : learned parameters beside a mixture's matrices; a shared expert as wide as
        a routed one that no field mentions
    dense_layers : how many first layers are dense when nothing says otherwise
    period, first_full : every so many layers one has full attention, the last or the first of them
    all_sliding, window_flag : whether the window holds in every layer, what turns it on
    positions : rows of the position table beyond the longest context; None if there is no table
    uneven_heads : whether a hidden size that the heads do not divide is rounded down
    tied : whether embedding and lm_head are one tensor when neither file nor class says so
    unknown : what of its shapes a configuration does not give; such a family can't be read
    change_layer, change_model : what this family alone does to a layer, or to the model, read by all the rest
    """

    attention: str = "gqa"
    linear: str = ""
    hybrid: str = ""
    qkv_bias: bool | str = "attention_bias"
    output_bias: bool | str = "attention_bias"
    mlp_bias: bool | str = "mlp_bias"
    lm_head_bias: bool | str = "lm_head_bias"
    qk_norm: str = ""
    qk_norm_flag: str = ""
    sinks: str = ""
    gate: str = ""
    gate_flag: str = ""
    gate_bias: bool = False
    norm: str = "rms"
    norms: int = 2
    extra_norms_flag: str = ""
    parallel: bool | str = False
    embedding_norm: bool = False
    gated: bool = True
    halved: bool = False
    four_h: bool = False
    shared_gate: bool = False
    router_bias: bool | str = False
    shared_expert: bool = False
    dense_layers: int = 0
    period: int = 0
    first_full: bool = False
    all_sliding: bool = False
    window_flag: str = ""
    positions: int | None = None
    uneven_heads: bool = False
    tied: bool = False
    unknown: str = ""
    change_layer: Callable[[Fields, Place, Layer], Layer] | None = None
    change_model: Callable[[Fields, Model], Model] | None = None
