"""Kinds of blocks.  A layer is a sequence of blocks; a new kind is a new class here and nothing else.

`KINDS` maps the word that a spec file uses to the class.  A kind's module loads when the kind is first asked for: most
models are made of two of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .block import Block, Cache

if TYPE_CHECKING:
    from .attention import Attention
    from .compressed import CompressedAttention
    from .cross import CrossAttentionLayer
    from .linear_attention import GatedDeltaNet, KimiDeltaAttention, LightningAttention
    from .mixture_of_attention import MixtureOfAttention
    from .mla import MLA
    from .mlp import MLP, MoE
    from .recurrent import RWKV, MatrixLSTM
    from .residual import AltUp, CausalConvolution, ConvolvedHeads, HyperConnections, PerLayerInput, Projection
    from .state_space import RGLRU, Mamba, Mamba2, ShortConvolution

_WORDS = {
    "attention": ("attention", "Attention"),
    "mla": ("mla", "MLA"),
    "mixture_of_attention": ("mixture_of_attention", "MixtureOfAttention"),
    "compressed_attention": ("compressed", "CompressedAttention"),
    "cross_attention": ("cross", "CrossAttentionLayer"),
    "gated_delta_net": ("linear_attention", "GatedDeltaNet"),
    "kimi_delta_attention": ("linear_attention", "KimiDeltaAttention"),
    "lightning_attention": ("linear_attention", "LightningAttention"),
    "mamba": ("state_space", "Mamba"),
    "mamba2": ("state_space", "Mamba2"),
    "short_convolution": ("state_space", "ShortConvolution"),
    "rg_lru": ("state_space", "RGLRU"),
    "rwkv": ("recurrent", "RWKV"),
    "matrix_lstm": ("recurrent", "MatrixLSTM"),
    "mlp": ("mlp", "MLP"),
    "moe": ("mlp", "MoE"),
    "hyper_connections": ("residual", "HyperConnections"),
    "per_layer_input": ("residual", "PerLayerInput"),
    "altup": ("residual", "AltUp"),
    "causal_convolution": ("residual", "CausalConvolution"),
    "convolved_heads": ("residual", "ConvolvedHeads"),
    "projection": ("residual", "Projection"),
}
"""Word of a spec file -> module and class."""

_HOME = {name: module for module, name in _WORDS.values()}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Kinds(Mapping[str, type[Block]]):
    """The classes by word."""

    def __getitem__(self, word: str) -> type[Block]:
        module, name = _WORDS[word]
        found: type[Block] = getattr(importlib.import_module(f"{__name__}.{module}"), name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_WORDS)

    def __len__(self) -> int:
        return len(_WORDS)


KINDS: Mapping[str, type[Block]] = _Kinds()

__all__ = [
    "KINDS",
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
    "MLA",
    "MLP",
    "Mamba",
    "Mamba2",
    "MatrixLSTM",
    "MixtureOfAttention",
    "MoE",
    "PerLayerInput",
    "Projection",
    "RGLRU",
    "RWKV",
    "ShortConvolution",
]
