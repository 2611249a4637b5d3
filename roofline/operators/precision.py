"""Precision: which format each part of a model is stored in and computed with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, SupportsIndex

from ..arrays import FrozenMapping
from ..errors import InvalidInput, unknown
from ..formats import cache_format, get_format, math_format
from ..values import Value, brief

QUANTIZED_PARTS = ("attention", "mlp", "experts", "shared_experts", "mixer", "indexer")
"""Parts that a weight format applies to: the linear layers of the blocks."""

KEPT_PARTS = ("embedding", "lm_head", "norm", "router", "bias", "other")
"""Parts that stay in 16 bits with a narrower weight format."""

PARTS = (*QUANTIZED_PARTS, *KEPT_PARTS)


@dataclass(frozen=True)
class PartFormats:
    """Formats in which the matrices of one part are stored, fed and multiplied."""

    weight_bits: float
    activation_bits: float
    math: str


@dataclass(frozen=True, eq=False, repr=False)
class Precision(Value):
    """Formats of weights, activations and KV cache.

    Quantization applies to the linear layers. Embedding, lm_head, norms, router and biases stay in 16 bits, unless
    ``exceptions`` says otherwise; a GGUF format covers all matrices.

    Attributes
    ----------
    weights : str
        Format that the weights of the linear layers are stored in.
    activations : str
        Format of the inputs of the linear layers; with 16-bit activations, narrower weights mean weight-only
        quantization.
    kv : str
        Format that the KV cache is stored in.
    attention : str
        Format of the attention math, independent of the format of the cache.
    exceptions : mapping of str to str
        Weight formats of parts that differ, such as ``{"lm_head": "fp8"}``.

    Raises
    ------
    UnknownName
        There is no such format or part.
    InvalidInput
        Activations or attention are in a storage-only format.
    """

    weights: str = "bf16"
    activations: str = "bf16"
    kv: str = "bf16"
    attention: str = "bf16"
    exceptions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("weights", "activations", "kv", "attention"):
            object.__setattr__(self, name, get_format(getattr(self, name)).name)
        for part in self.exceptions:
            if part not in PARTS:
                raise unknown("part of a model", part, PARTS)
        if get_format(self.attention).math is None:
            raise InvalidInput(f"attention can't be computed in {self.attention!r}: it is a storage format")
        kept = {part: get_format(name).name for part, name in self.exceptions.items()}
        object.__setattr__(self, "exceptions", FrozenMapping(kept))
        math_format(get_format(self.weights), get_format(self.activations))

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        # The formats "as published" are told by identity, so they are pickled and copied by name.
        return "AS_PUBLISHED" if self is AS_PUBLISHED else super().__reduce_ex__(protocol)

    def weight_format(self, part: str) -> str:
        """Name of the format in which the weights of ``part`` are stored."""
        if part in self.exceptions:
            return self.exceptions[part]
        weights = get_format(self.weights)
        if part in QUANTIZED_PARTS or weights.bits >= 16:
            return self.weights
        if weights.whole_model and part in ("embedding", "lm_head"):
            return self.weights
        return self.activations if get_format(self.activations).bits == 16 else "bf16"

    @property
    def wide(self) -> str:
        """The format of what quantization leaves alone: the activations' if they have 16 bits or more, else bf16."""
        return self.activations if get_format(self.activations).bits >= 16 else "bf16"

    @cached_property
    def kv_bits(self) -> float:
        """Bits of one cached value, with its part of the scales."""
        return cache_format(self.kv).bits

    @property
    def activation_bits(self) -> float:
        """Bits of one activation between linear layers."""
        return get_format(self.activations).bits

    @cached_property
    def wide_bits(self) -> float:
        """Bits of one value of the residual stream and of the logits."""
        return get_format(self.wide).bits

    def part(self, name: str) -> PartFormats:
        """Bits and math of one part.  Layers kept in 16 bits take 16-bit activations too."""
        return self._parts[name]

    @cached_property
    def _parts(self) -> dict[str, PartFormats]:
        return {name: self._formats_of(name) for name in PARTS}

    def _formats_of(self, name: str) -> PartFormats:
        weights = get_format(self.weight_format(name))
        kept = name in self.exceptions or (name in KEPT_PARTS and not weights.whole_model)
        activations = get_format(self.wide if kept and weights.bits >= 16 else self.activations)
        return PartFormats(weights.bits, activations.bits, math_format(weights, activations))

    def __repr__(self) -> str:
        return brief(self, "weights", "activations", "kv")

    def __str__(self) -> str:
        return f"weights {self.weights}, activations {self.activations}, KV cache {self.kv}"


AS_PUBLISHED = Precision()
"""Stands for the formats that the checkpoint comes in; bf16 where it states none.  Told by identity."""


def precision_of(wanted: Precision | str) -> Precision:
    """Return a precision, or the one that the name of a weight format stands for.

    Examples
    --------
    Activations are in the same format if it can be computed with; integers with a scale for each group (GPTQ, AWQ) are
    expanded to 16 bits before the multiply:

    >>> precision_of("fp8").activations, precision_of("int4_g128").activations
    ('fp8', 'bf16')
    """
    if isinstance(wanted, Precision):
        return wanted
    stored = get_format(wanted)
    grouped_integers = re.match(r"int\d_g\d", stored.name) is not None
    computed = stored.math is not None and not grouped_integers
    return Precision(weights=wanted, activations=wanted if computed else "bf16")
