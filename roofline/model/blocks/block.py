"""Base classes of blocks, which define weights, caches and operators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import InvalidInput, Number
from ...operators.operator import Operator, Pass
from ...operators.weights import Weight
from ...values import Value


@dataclass(frozen=True, slots=True)
class Cache:
    """Data that one layer keeps for one sequence between steps.

    Attributes
    ----------
    values_per_token : float
        Values that every token adds, in the format of the KV cache.
    window : int, optional
        Largest number of tokens kept; None for all.
    state_bytes : float
        Bytes of recurrent state, independent of the length.
    stride : int
        Tokens per entry (1: every token has an entry; compressed attention has one entry for many tokens).
    pending_bytes : float
        Bytes per token of an entry that is not full yet.
    pieces : int
        Heads over which tensor parallelism may divide it (1: whole on every accelerator).
    state_values : float
        Values of the recurrent state, counted in ``state_bytes`` with 32 bits each.
    column_bytes : float
        Bytes of one column of a convolution's inputs; ``state_bytes`` counts one column per tap.
    index : bool
        Whether it contains keys of an indexer, which engines store in a separate format.
    """

    values_per_token: float = 0.0
    window: int | None = None
    state_bytes: float = 0.0
    stride: int = 1
    pending_bytes: float = 0.0
    pieces: int = 1
    state_values: float = 0.0
    column_bytes: float = 0.0
    index: bool = False

    def engine_state_bytes(self, state_bits: float) -> float:
        """Return the bytes of constant state in an engine: in its own format, with ``taps - 1`` convolution columns.

        The newest input of a convolution arrives with the token, so one column less is stored.
        """
        return self.state_bytes - self.column_bytes + self.state_values * (state_bits / 8 - 4)

    def bytes(self, tokens: Number, kv_bits: float) -> Number:
        """Return the bytes for a sequence of ``tokens``.

        ``min(floor(tokens / stride), window) * values * bits / 8 + (tokens mod stride) * pending + state``.
        """
        kept: Number = tokens if self.stride == 1 else np.floor_divide(tokens, self.stride)
        pending = 0.0 if self.stride == 1 else (tokens - kept * self.stride) * self.pending_bytes
        if self.window is not None:
            kept = np.minimum(kept, self.window)
        return kept * (self.values_per_token * (kv_bits / 8)) + pending + self.state_bytes

    def engine_bytes(self, tokens: Number, kv_bits: float, *, page_tokens: Number, hybrid: bool) -> Number:
        """Return the bytes that a paged engine reserves: whole pages; limited to the window only if ``hybrid``.

        An engine with one kind of page for every layer keeps all tokens of windowed layers too.  A hybrid allocator
        keeps the pages that the window touches, which may be one more than its size because it straddles page borders.
        """
        pages = np.ceil(np.divide(tokens, page_tokens))
        if hybrid and self.window is not None:
            pages = np.minimum(pages, np.ceil(self.window / page_tokens) + 1)
        entries = np.ceil(pages * page_tokens / self.stride)
        pending = (self.stride - 1) * self.pending_bytes
        return entries * (self.values_per_token * (kv_bits / 8)) + pending + self.state_bytes


@dataclass(frozen=True, eq=False, kw_only=True)
class Block(Value, ABC):
    """One residual block of a layer: a kind of attention (or another mixer), or a kind of MLP.

    Attributes
    ----------
    hidden : int
        Width of the residual stream that the block reads and writes.
    """

    hidden: int

    @property
    @abstractmethod
    def kind(self) -> str:
        """Short name with the important sizes."""

    @abstractmethod
    def weights(self) -> tuple[Weight, ...]:
        """All matrices and vectors."""

    def caches(self) -> tuple[Cache, ...]:
        """Caches for a sequence; none by default."""
        return ()

    @abstractmethod
    def operators(self, run: Pass) -> Iterator[Operator]:
        """Yield the operators of one forward pass, in order."""


LARGEST = 10**9
"""Upper limit of any size of a model, which catches mistakes and keeps products of sizes far below 2**63."""


def whole(block: Any, *names: str, least: int = 1) -> None:
    """Check that the named sizes of ``block`` are integers from ``least`` to `LARGEST`."""
    for name in names:
        value = getattr(block, name)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
            raise InvalidInput(f"{name} must be an integer from {least} to {LARGEST:,}: {value!r}")
