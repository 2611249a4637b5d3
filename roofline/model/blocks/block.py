"""What every kind of block has to say: its weights, its cache, its operators."""

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
    """What one layer keeps of one sequence between steps.

    Attributes
    ----------
    values_per_token : float
        Values, in the format of the KV cache, that every token adds.
    window : int, optional
        Tokens kept at most; None for all.
    state_bytes : float
        Constant recurrent state, whatever the length.
    stride : int
        Tokens that one kept entry stands for (1: every token is kept; compressed attention keeps one of many).
    pending_bytes : float
        Bytes of each token that waits for its entry to be full.
    pieces : int
        Heads that tensor parallelism may divide it by (1: whole on every accelerator).
    state_values : float
        Values of the recurrent state, which ``state_bytes`` holds in 32 bits.
    column_bytes : float
        Bytes of one column of a convolution's inputs; ``state_bytes`` holds as many columns as the kernel has taps.
    index : bool
        Whether it holds keys of an indexer, which engines keep in a format of their own.
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
        """Constant state as engines hold it: in a format of their choice, and ``taps - 1`` columns of a convolution.

        The newest input of a convolution arrives with the token, so one column less has to be kept.
        """
        return self.state_bytes - self.column_bytes + self.state_values * (state_bits / 8 - 4)

    def bytes(self, tokens: Number, kv_bits: float) -> Number:
        """Bytes for a sequence of ``tokens``.

        ``min(floor(tokens / stride), window) * values * bits / 8 + (tokens mod stride) * pending + state``.
        """
        kept: Number = tokens if self.stride == 1 else np.floor_divide(tokens, self.stride)
        pending = 0.0 if self.stride == 1 else (tokens - kept * self.stride) * self.pending_bytes
        if self.window is not None:
            kept = np.minimum(kept, self.window)
        return kept * (self.values_per_token * (kv_bits / 8)) + pending + self.state_bytes

    def engine_bytes(self, tokens: Number, kv_bits: float, *, page_tokens: Number, hybrid: bool) -> Number:
        """Bytes that a paged engine reserves: whole pages of ``page_tokens``, and the window only if it is ``hybrid``.

        An engine with one kind of page for every layer keeps all tokens of windowed layers too; a hybrid allocator
        keeps the pages that the window touches, which are one more than fit in it where it straddles page borders.
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
        Width of the residual stream that it reads and writes.
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
        """The operators of one forward pass, in order.

        Unless the block caches values of each token, they may depend on whether there is a past, but not on its length:
        passes that differ in that alone share them.
        """


class CacheReader(Block):
    """A block that attends to cached tokens, with the operators that depend on their number apart from the others.

    Passes that differ in the length of the past alone share the operators before and behind the cache.
    """

    @abstractmethod
    def before_cache(self, run: Pass) -> Iterator[Operator]:
        """Operators that run before those on the cache; they depend on the new tokens alone."""

    @abstractmethod
    def on_cache(self, run: Pass) -> Iterator[Operator]:
        """Operators that read the cache.  None is part of one kernel with an operator before or behind."""

    @abstractmethod
    def behind_cache(self, run: Pass) -> Iterator[Operator]:
        """Operators that run behind those on the cache; they depend on the new tokens alone."""

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Those before, on and behind the cache."""
        yield from self.before_cache(run)
        yield from self.on_cache(run)
        yield from self.behind_cache(run)


LARGEST = 10**9
"""No size of a model is beyond this: a larger one is a slip, and products of sizes stay far below 2**63."""


def whole(block: Any, *names: str, least: int = 1) -> None:
    """Check that the named sizes of ``block`` are whole numbers from ``least`` to `LARGEST`."""
    for name in names:
        value = getattr(block, name)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
            raise InvalidInput(f"{name} must be a whole number from {least} to {LARGEST:,}: {value!r}")
