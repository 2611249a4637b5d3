"""Kinds of blocks. A layer is a sequence of blocks; a new kind needs a new class here and nothing else.

`KINDS` maps the names used in spec files to classes.  The module of a kind is imported on first use, since most models
need only two kinds.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .block import Block, Cache

if TYPE_CHECKING:
    from .compressed_attention import CompressedAttention
    from .cross_attention import CrossAttentionLayer, SourceAttention
    from .disentangled_attention import RelativeScores
    from .grouped_query_attention import Attention
    from .indexer import Indexer
    from .latent_attention import MLA
    from .linear_attention import GatedDeltaNet, KimiDeltaAttention, LightningAttention
    from .mixture_of_attention import MixtureOfAttention
    from .mlp import MLP, MoE
    from .residual_streams import (
        AltUp,
        BlockResidual,
        CausalConvolution,
        ConvolvedHeads,
        HyperConnections,
        PerLayerInput,
        Projection,
    )
    from .rwkv_xlstm import RWKV, MatrixLSTM
    from .state_space import RGLRU, Mamba, Mamba2, ShortConvolution

_WORDS = {
    "attention": ("grouped_query_attention", "Attention"),
    "mla": ("latent_attention", "MLA"),
    "mixture_of_attention": ("mixture_of_attention", "MixtureOfAttention"),
    "compressed_attention": ("compressed_attention", "CompressedAttention"),
    "cross_attention": ("cross_attention", "CrossAttentionLayer"),
    "relative_scores": ("disentangled_attention", "RelativeScores"),
    "source_attention": ("cross_attention", "SourceAttention"),
    "gated_delta_net": ("linear_attention", "GatedDeltaNet"),
    "kimi_delta_attention": ("linear_attention", "KimiDeltaAttention"),
    "lightning_attention": ("linear_attention", "LightningAttention"),
    "mamba": ("state_space", "Mamba"),
    "mamba2": ("state_space", "Mamba2"),
    "short_convolution": ("state_space", "ShortConvolution"),
    "rg_lru": ("state_space", "RGLRU"),
    "rwkv": ("rwkv_xlstm", "RWKV"),
    "matrix_lstm": ("rwkv_xlstm", "MatrixLSTM"),
    "mlp": ("mlp", "MLP"),
    "moe": ("mlp", "MoE"),
    "hyper_connections": ("residual_streams", "HyperConnections"),
    "per_layer_input": ("residual_streams", "PerLayerInput"),
    "altup": ("residual_streams", "AltUp"),
    "causal_convolution": ("residual_streams", "CausalConvolution"),
    "convolved_heads": ("residual_streams", "ConvolvedHeads"),
    "block_residual": ("residual_streams", "BlockResidual"),
    "projection": ("residual_streams", "Projection"),
}
"""Name in a spec file -> module and class."""

_HOME = {name: module for module, name in _WORDS.values()} | {"Indexer": "indexer"}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Kinds(Mapping[str, type[Block]]):
    """Lazy mapping of names to classes."""

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
    "BlockResidual",
    "Cache",
    "CausalConvolution",
    "CompressedAttention",
    "ConvolvedHeads",
    "CrossAttentionLayer",
    "GatedDeltaNet",
    "HyperConnections",
    "Indexer",
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
    "RelativeScores",
    "ShortConvolution",
    "SourceAttention",
]
