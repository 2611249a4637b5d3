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
    """Formats of one part's stored matrices, of their inputs, and of the multiplication."""

    weight_bits: float
    activation_bits: float
    math: str
    written_wide: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Precision(Value):
    """Formats of weights, activations and KV cache.

    Quantization applies to the linear layers. Embedding, lm_head, norms, router and biases stay in 16 bits, unless
    ``exceptions`` says otherwise; a GGUF format covers all matrices.

    Attributes
    ----------
    weights : str
        Storage format of the weights of the linear layers.
    activations : str
        Format of the inputs of the linear layers; with 16-bit activations, narrower weights mean weight-only
        quantization.
    kv : str
        Storage format of the KV cache.
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
        # The formats "as published" are compared by identity, so they are pickled and copied by name.
        if self is AS_PUBLISHED:
            return "AS_PUBLISHED"
        return super().__reduce_ex__(protocol)

    def weight_format(self, part: str) -> str:
        """Return the storage format of the weights of ``part``."""
        if part in self.exceptions:
            return self.exceptions[part]
        weights = get_format(self.weights)
        if part in QUANTIZED_PARTS or weights.bits >= 16:
            return self.weights
        if weights.whole_model and part in ("embedding", "lm_head"):
            return self.weights
        if get_format(self.activations).bits == 16:
            return self.activations
        return "bf16"

    @property
    def wide(self) -> str:
        """Format of unquantized parts: the activations' if they have 16 bits or more, else bf16."""
        if get_format(self.activations).bits >= 16:
            return self.activations
        return "bf16"

    @cached_property
    def kv_bits(self) -> float:
        """Bits per cached value, including its share of the scales."""
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
        """Return bits and math of one part; layers kept in 16 bits use 16-bit activations too."""
        return self._parts[name]

    @cached_property
    def _parts(self) -> dict[str, PartFormats]:
        return {name: self._formats_of(name) for name in PARTS}

    def _formats_of(self, name: str) -> PartFormats:
        weights = get_format(self.weight_format(name))
        kept = name in self.exceptions or (name in KEPT_PARTS and not weights.whole_model)
        activations = get_format(self.wide if kept and weights.bits >= 16 else self.activations)
        math = math_format(weights, activations)
        return PartFormats(weights.bits, activations.bits, math, weights.written_wide)

    def __repr__(self) -> str:
        return brief(self, "weights", "activations", "kv")

    def __str__(self) -> str:
        return f"weights {self.weights}, activations {self.activations}, KV cache {self.kv}"


AS_PUBLISHED = Precision()
"""Placeholder for the formats of the checkpoint, or bf16 if it states none. Compared by identity."""


def precision_of(wanted: Precision | str) -> Precision:
    """Return a precision, from a `Precision` or the name of a weight format.

    Examples -------- Activations use the same format if the hardware computes in it. Integers with a scale per group
    (GPTQ, AWQ) are expanded to 16 bits before the multiply:

    >>> precision_of("fp8").activations, precision_of("int4_g128").activations
    ('fp8', 'bf16')
    """
    if isinstance(wanted, Precision):
        return wanted
    stored = get_format(wanted)
    grouped_integers = re.match(r"int\d_g\d", stored.name) is not None
    computed = stored.math is not None and not grouped_integers
    return Precision(weights=wanted, activations=wanted if computed else "bf16")
