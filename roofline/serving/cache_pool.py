"""KV cache pages of one replica: how many sequences of a given length fit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..errors import InvalidInput, Number
from ..footprint.engine_pool import sequence_bytes
from ..footprint.memory_use import Paging, cache_on_one, memory
from ..phases.deployment import Deployment
from ..phases.workload import Workload
from ..specs.engines import Engine
from .clock import Polyline

LENGTHS = np.concatenate([[0.0], np.round(2.0 ** np.arange(4, 24.01, 1 / 2))])
"""Sequence lengths at which cache bytes are tabulated; windows and states make the curve nonlinear."""

LARGEST_CHUNK = 65_536
"""Cap on the prompt tokens that activation memory is reserved for, for engines without a token budget."""


@dataclass(frozen=True, eq=False)
class CachePool:
    """Cache memory shared by the sequences of one scheduler.

    Attributes
    ----------
    pool_bytes : float
        Memory left beside the weights on the most loaded accelerator, bytes.
    bytes_of : Polyline
        Cache bytes of one sequence on that accelerator, by sequence length.
    page_tokens : float
        Tokens per page; on average half of a sequence's last page is empty.
    """

    pool_bytes: float
    bytes_of: Polyline
    page_tokens: float

    @cached_property
    def _waste_tokens(self) -> float:
        return (self.page_tokens - 1) / 2

    def sequence_bytes(self, tokens: float) -> float:
        """Bytes of the pages of one sequence, averaged over how full its last page is."""
        return self.bytes_of.at(tokens + self._waste_tokens)

    @cached_property
    def _tokens_for(self) -> dict[int, float]:
        return {}

    def tokens_for(self, sequences: int) -> float:
        """Total tokens of ``sequences`` sequences of equal length that fit."""
        found = self._tokens_for.get(sequences)
        if found is None:
            each = self.bytes_of.inverse(self.pool_bytes / sequences) - self._waste_tokens
            found = sequences * each if each < LENGTHS[-1] else float("inf")
            self._tokens_for[sequences] = found
        return found

    def sequences_of(self, tokens: Number) -> Number:
        """Number of sequences of ``tokens`` tokens that fit."""
        pages = np.interp(
            np.asarray(tokens, dtype=float) + self._waste_tokens, self.bytes_of.places, self.bytes_of.values
        )
        return np.floor(self.pool_bytes / np.maximum(pages, 1e-9))  # a model without any cache has pages of 0 bytes

    @property
    def longest_tokens(self) -> float:
        """Length of the longest sequence that fits alone."""
        return max(self.tokens_for(1), 0.0) if self.pool_bytes > 0 else 0.0

    def require(self, tokens: float, serve: Deployment) -> None:
        """Raise an error if a sequence of ``tokens`` tokens cannot fit.

        Raises
        ------
        InvalidInput
            The weights alone do not fit, or a sequence of ``tokens`` does not fit beside them.
        """
        place = f"{serve.model.name} on {serve.parallel.accelerators:g} x {serve.accelerator.name}"
        if self.pool_bytes <= 0:
            reason = "the weights leave no memory for a KV cache"
            need = memory(serve, Workload(max(int(tokens) - 1, 1), 1))
            if np.all(need.fits):
                raise InvalidInput(f"{place}: {reason}")
            answer = need.summary().rstrip(".")
            raise InvalidInput(f"{serve.model.name} {answer[0].lower()}{answer[1:]} ({reason})")
        longest = self.longest_tokens
        if tokens > longest:
            raise InvalidInput(
                f"{place}: a request of {tokens:,.0f} tokens does not fit in the KV cache; at most {longest:,.0f} fit"
            )


def cache_pool(serve: Deployment, engine: Engine) -> CachePool:
    """Return the pool of one scheduler: that of a replica, divided among the microbatches of a pipeline."""
    chunk = min(engine.step_tokens or 1.0, LARGEST_CHUNK)
    paging = Paging(page_tokens=int(engine.page_tokens or 1), step_tokens=int(chunk))
    need = memory(serve, Workload(int(chunk), 1, batch=int(serve.parallel.data)), paging=paging)
    pool = float(need.pool_on_one) / float(serve.parallel.pipeline)
    values = np.broadcast_to(np.asarray(_bytes_by_length(serve, engine), dtype=float), LENGTHS.shape)  # state alone
    grows = np.maximum.accumulate(values + 1e-3 * np.arange(len(values)))
    return CachePool(pool, Polyline(LENGTHS.tolist(), grows.tolist()), float(engine.page_tokens or 1))


def _bytes_by_length(serve: Deployment, engine: Engine) -> Number:
    """Cache bytes of one sequence at `LENGTHS`. Windows exclude the chunk being computed, which is soon released."""
    if not serve.names_engine:
        return cache_on_one(serve, LENGTHS)
    return sequence_bytes(serve, engine.replace(page_tokens=1, step_tokens=1), LENGTHS)
