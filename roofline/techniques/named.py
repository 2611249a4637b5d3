"""Techniques by name: what a command line or a file says, made into values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from ..arrays import FrozenMapping
from ..errors import InvalidInput, unknown
from .attention import FlashAttention, HostOffload, KeepLast, KVCache, LatentHeads, SharedHeads
from .batching import ChunkedPrefill, ContinuousBatching, Disaggregation, PagedAttention, PromptBatching
from .prompts import PrefixCaching, PromptCompression
from .quantization import KVQuantization, Quantization
from .sharding import TensorParallelism
from .speculation import MultiTokenPrediction, Speculation
from .technique import Technique
from .weights import ActivationSparsity, Experts, KernelFusion, SparseAttentionMask, StructuredSparsity

NAMES: Mapping[str, type[Technique]] = FrozenMapping(
    {
        "activation-sparsity": ActivationSparsity,
        "chunked-prefill": ChunkedPrefill,
        "continuous-batching": ContinuousBatching,
        "disaggregation": Disaggregation,
        "experts": Experts,
        "flash-attention": FlashAttention,
        "fusion": KernelFusion,
        "gqa": SharedHeads,
        "keep-last": KeepLast,
        "kv-cache": KVCache,
        "kv-quantization": KVQuantization,
        "mla": LatentHeads,
        "mtp": MultiTokenPrediction,
        "offload": HostOffload,
        "paged-attention": PagedAttention,
        "prefix-caching": PrefixCaching,
        "prompt-batching": PromptBatching,
        "prompt-compression": PromptCompression,
        "quantization": Quantization,
        "sparse-attention": SparseAttentionMask,
        "sparsity": StructuredSparsity,
        "speculative": Speculation,
        "tensor-parallelism": TensorParallelism,
    }
)
"""Short name -> technique."""


def named(names: Iterable[str], parameters: Mapping[str, Any]) -> tuple[Technique, ...]:
    """The techniques of these short names, each with those of ``parameters`` that it has; what is None is left out.

    Raises
    ------
    UnknownName
        Nothing is called so.
    InvalidInput
        A parameter that none of them has, or a value that makes no sense.

    Examples
    --------
    >>> named(["speculative"], {"acceptance": 0.6, "hit_rate": None})[0].acceptance
    0.6
    """
    chosen = []
    for name in names:
        if name not in NAMES:
            raise unknown("technique", name, NAMES)
        chosen.append(NAMES[name])
    given = {name: value for name, value in parameters.items() if value is not None}
    for name in given:
        if not any(name in _parameters(kind) for kind in chosen):
            takers = [short for short, kind in NAMES.items() if name in _parameters(kind)]
            raise InvalidInput(f"{name} is a parameter of {' and '.join(takers) or 'no technique'}")
    return tuple(kind(**{name: given[name] for name in _parameters(kind) if name in given}) for kind in chosen)


def _parameters(kind: type[Technique]) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))
