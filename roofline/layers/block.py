"""What every kind of block has to say: its weights, its cache, its operators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidInput, Number
from ..operators import Operator, Pass
from ..weights import Weight


@dataclass(frozen=True, slots=True)
class Cache:
    """What one layer keeps of one sequence between steps.

    Attributes
    ----------
    values_per_token : values, in the format of the KV cache, that every token adds
    window : tokens kept at most; None for all
    state_bytes : constant recurrent state, whatever the length
    """

    values_per_token: float = 0.0
    window: int | None = None
    state_bytes: float = 0.0

    def bytes(self, tokens: Number, kv_bits: float) -> Number:
        """Bytes for a sequence of ``tokens``: ``min(tokens, window) * values * bits / 8 + state``."""
        kept = tokens if self.window is None else np.minimum(tokens, self.window)
        return kept * (self.values_per_token * (kv_bits / 8)) + self.state_bytes


@dataclass(frozen=True, kw_only=True)
class Block(ABC):
    """One residual block of a layer: a kind of attention (or another mixer), or a kind of MLP.

    Attributes
    ----------
    hidden : width of the residual stream that it reads and writes
    """

    hidden: int

    @property
    @abstractmethod
    def kind(self) -> str:
        """Short name with the sizes that matter, as people say it."""

    @abstractmethod
    def weights(self) -> tuple[Weight, ...]:
        """Every matrix and vector it has."""

    def caches(self) -> tuple[Cache, ...]:
        """What it keeps of a sequence; nothing unless the kind says otherwise."""
        return ()

    @abstractmethod
    def operators(self, run: Pass) -> Iterator[Operator]:
        """The operators of one forward pass, in order."""


def whole(block: Any, *names: str) -> None:
    """Check that the named sizes of ``block`` are whole numbers >= 1."""
    for name in names:
        value = getattr(block, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InvalidInput(f"{name} must be a whole number >= 1: {value!r}")
