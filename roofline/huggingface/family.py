"""What a family of models may differ in."""

from __future__ import annotations

from dataclasses import dataclass


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
    gate_else : its width where the flag is off
    gate_bias : whether the gate is part of the query projection and shares its bias
    head_vectors : parameters of each query head that are no matrix
    differential, value_norm : see `roofline.model.blocks.Attention`
    norm : ``rms``, ``layer`` (weight and bias), ``layer_weight`` or ``none`` (no parameters)
    extra_norms_flag : what adds a norm behind each of attention and MLP
    moe_norms : further norms of a layer with a mixture of experts
    norms, parallel_norms : norms of a layer, and those of one with ``parallel_flag`` on
    final_norm, embedding_norm : whether there is one before lm_head, after the embedding
    gated : whether MLPs have a gate
    halved : whether the stated inner width is twice the real one
    four_h : whether an absent inner width means four times the hidden one
    mlp_vectors : parameters of an MLP that are no matrix: a number, or ``inner`` for one value an inner channel
    shared_gate, router_bias, expert_bias, moe_bias, shared_expert : learned parameters beside a mixture's matrices;
        a shared expert as wide as a routed one that no field mentions
    dense_layers : how many first layers are dense when nothing says otherwise
    period, first_full : every so many layers one has full attention, the last or the first of them
    all_sliding, window_flag : whether the window holds in every layer, what turns it on
    positions : rows of the position table beyond the longest context; None if there is no table
    kv_vectors, last_vectors : parameters of each KV head that are no matrix; whether the last layer has ``hidden`` more
    rope_norm : whether a latent attention normalizes its rotary key with a vector of its own
    doubled_queries : whether queries and a gate come from the latent twice as wide (A.X K2)
    latent_norms : whether the latent of the experts is normalized before and behind them
    router_scale : whether the router has a scale for all experts and scores the shared ones too
    scaled_residuals : whether embedding and residual stream have scales and offsets, eight vectors a layer (ZAYA1)
    stacks : stacks of layers that are run again and again; 0 for an ordinary model
    window_before_query : whether ``sliding_window_size`` counts the tokens before the query only (MiMo)
    sliding_kv_times : KV heads of a sliding layer, as a multiple, where no field says
    uneven_heads : whether a hidden size that the heads do not divide is rounded down
    attention_free : whether ``head_dim`` is that of the mixer
    step_norms : whether a Mamba normalizes step, B and C
    hyper_head : whether hyper-connections have a map of their own before lm_head
    low_rank_gates : whether a Kimi delta attention projects its gates through a bottleneck
    extra_rows : rows of the embedding beyond the vocabulary
    tied : whether embedding and lm_head are one tensor when neither file nor class says so
    unknown : what of its shapes a configuration does not give; such a family can't be read
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
    gate_else: str = ""
    gate_bias: bool = False
    head_vectors: int = 0
    differential: bool = False
    value_norm: bool = False
    norm: str = "rms"
    norms: int = 2
    parallel_norms: int = 1
    extra_norms_flag: str = ""
    moe_norms: int = 0
    parallel_flag: str = ""
    final_norm: bool = True
    embedding_norm: bool = False
    gated: bool = True
    halved: bool = False
    four_h: bool = False
    mlp_vectors: int | str = 0
    shared_gate: bool = False
    router_bias: bool | str = False
    expert_bias: bool = False
    moe_bias: bool = False
    shared_expert: bool = False
    dense_layers: int = 0
    period: int = 0
    first_full: bool = False
    all_sliding: bool = False
    window_flag: str = ""
    positions: int | None = None
    kv_vectors: int = 0
    last_vectors: bool = False
    rope_norm: bool = False
    doubled_queries: bool = False
    latent_norms: bool = False
    router_scale: bool = False
    scaled_residuals: bool = False
    stacks: int = 0
    window_before_query: bool = False
    sliding_kv_times: int = 1
    uneven_heads: bool = False
    attention_free: bool = False
    step_norms: bool = False
    hyper_head: bool = True
    low_rank_gates: bool = True
    extra_rows: int = 0
    tied: bool = False
    unknown: str = ""
