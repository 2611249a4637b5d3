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
    attention : str
        Kind of its attention: ``gqa``, ``mla``, ``compressed`` or ``mixture``.
    linear : str
        Kind of the layers that ``layer_types`` calls linear, mamba, conv or recurrent.
    hybrid : str
        What a ``hybrid`` layer is: ``parallel`` (attention and mixer side by side), ``shared`` (one transformer block
        reused before the mixer).
    qkv_bias, output_bias, mlp_bias, lm_head_bias : bool or str
        Biases.
    qk_norm, qk_norm_flag : str
        How queries and keys are normalized (see `Attention`), and what turns it on.
    sinks : str
        Which layers have learned sinks: ``all`` or ``sliding``.
    gate, gate_flag : str
        Width of the gate of attention's output, and what turns it on.
    gate_bias : bool
        Whether the gate is part of the query projection and shares its bias.
    norm : str
        ``rms``, ``layer`` (weight and bias), ``layer_weight`` or ``none`` (no parameters).
    extra_norms_flag : str
        What adds a norm behind each of attention and MLP.
    norms : int
        Norms of a layer.
    parallel : bool or str
        Whether attention and MLP read the same input and their outputs are added together.
    embedding_norm : bool
        Whether there is a norm after the embedding.
    gated : bool
        Whether MLPs have a gate.
    halved : bool
        Whether the stated inner width is twice the real one.
    four_h : bool
        Whether an absent inner width means four times the hidden one.
    shared_gate, router_bias, shared_expert : bool or str
        Learned parameters beside a mixture's matrices; a shared expert as wide as a routed one that no field mentions.
    dense_layers : int
        How many first layers are dense when nothing says otherwise.
    period, first_full : int, bool
        Every so many layers one has full attention, the last or the first of them.
    all_sliding, window_flag : bool or str
        Whether the window holds in every layer, what turns it on.
    positions : int, optional
        Rows of the position table beyond the longest context; None if there is no table.
    uneven_heads : bool
        Whether a hidden size that the heads do not divide is rounded down.
    tied : bool
        Whether embedding and lm_head are one tensor when neither file nor class says so.
    unknown : str
        What of its shapes a configuration does not give; such a family can't be read.
    change_layer, change_model : callable, optional
        What this family alone does to a layer, or to the model, read by all the rest.
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
