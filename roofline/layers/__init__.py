"""Kinds of blocks.  A layer is a sequence of blocks; a new kind is a new class here and nothing else.

`KINDS` maps the word that a spec file uses to the class.
"""

from __future__ import annotations

from .attention import Attention
from .block import Block, Cache
from .compressed import CompressedAttention
from .cross import CrossAttentionLayer
from .linear_attention import GatedDeltaNet, KimiDeltaAttention, LightningAttention
from .mixture_of_attention import MixtureOfAttention
from .mla import MLA
from .mlp import MLP, MoE
from .recurrent import RWKV, MatrixLSTM
from .residual import AltUp, CausalConvolution, ConvolvedHeads, HyperConnections, PerLayerInput, Projection
from .state_space import RGLRU, Mamba, Mamba2, ShortConvolution

KINDS: dict[str, type[Block]] = {
    "attention": Attention,
    "mla": MLA,
    "mixture_of_attention": MixtureOfAttention,
    "compressed_attention": CompressedAttention,
    "cross_attention": CrossAttentionLayer,
    "gated_delta_net": GatedDeltaNet,
    "kimi_delta_attention": KimiDeltaAttention,
    "lightning_attention": LightningAttention,
    "mamba": Mamba,
    "mamba2": Mamba2,
    "short_convolution": ShortConvolution,
    "rg_lru": RGLRU,
    "rwkv": RWKV,
    "matrix_lstm": MatrixLSTM,
    "mlp": MLP,
    "moe": MoE,
    "hyper_connections": HyperConnections,
    "per_layer_input": PerLayerInput,
    "altup": AltUp,
    "causal_convolution": CausalConvolution,
    "convolved_heads": ConvolvedHeads,
    "projection": Projection,
}

__all__ = [
    "KINDS",
    "MLA",
    "MLP",
    "RGLRU",
    "RWKV",
    "MatrixLSTM",
    "AltUp",
    "Attention",
    "Block",
    "Cache",
    "CausalConvolution",
    "CompressedAttention",
    "ConvolvedHeads",
    "CrossAttentionLayer",
    "GatedDeltaNet",
    "HyperConnections",
    "KimiDeltaAttention",
    "LightningAttention",
    "Mamba",
    "Mamba2",
    "MixtureOfAttention",
    "MoE",
    "PerLayerInput",
    "Projection",
    "ShortConvolution",
]
