"""Ways in which a family of models may differ from the convention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..model import Layer, Model
from .fields import Fields


@dataclass(frozen=True)
class Place:
    """Position of a layer: its number, the number of layers, and the kind of its mixer."""

    at: int
    layers: int
    kind: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """Differences of a family from the convention; a string in place of a bool names the field that decides.

    Attributes
    ----------
    attention : str
        Kind of attention: ``gqa``, ``mla``, ``compressed`` or ``mixture``.
    linear : str
        Kind of the layers called linear, mamba, conv or recurrent in ``layer_types``.
    hybrid : str
        Kind of a ``hybrid`` layer: ``parallel`` (attention and mixer side by side), ``shared`` (one transformer block
        reused before the mixer).
    qkv_bias, output_bias, mlp_bias, lm_head_bias : bool or str
        Whether the matrices of each part have biases.
    qk_norm, qk_norm_flag : str
        How queries and keys are normalized (see `Attention`), and the field that turns it on.
    sinks : str
        Which layers have learned sinks: ``all`` or ``sliding``.
    gate, gate_flag : str
        Width of the gate on attention's output, and the field that turns it on.
    gate_bias : bool
        Whether the gate is part of the query projection and shares its bias.
    norm : str
        ``rms``, ``layer`` (weight and bias), ``layer_weight`` or ``none`` (no parameters).
    extra_norms_flag : str
        Field that adds a norm after attention and one after the MLP.
    norms : int
        Number of norms per layer.
    parallel : bool or str
        Whether attention and MLP read the same input and their outputs are added together.
    embedding_norm : bool
        Whether there is a norm after the embedding.
    gated : bool
        Whether MLPs have a gate.
    halved : bool
        Whether the stated inner width is twice the real one.
    four_h : bool
        Whether the inner width defaults to four times the hidden width.
    shared_gate, router_bias, shared_expert : bool or str
        Whether a mixture has a gate on its shared expert, a router bias, or a shared expert (as wide as a routed one)
        that no field mentions.
    dense_layers : int
        Default number of dense layers at the start.
    period, first_full : int, bool
        One of every ``period`` layers has full attention: the first of them if ``first_full``, else the last.
    all_sliding, window_flag : bool or str
        Whether every layer has the window, and the field that turns it on.
    positions : int, optional
        Rows of the position table beyond the longest context; None if there is no table.
    uneven_heads : bool
        Whether the head width is rounded down if the heads do not divide the hidden size.
    tied : bool
        Whether embedding and lm_head are one tensor if neither the file nor the class states it.
    unknown : str
        Shapes that a configuration does not give, which makes the family unsupported; empty if none are missing.
    change_layer, change_model : callable, optional
        Functions that apply changes of this family alone to a layer, or to the model.
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
