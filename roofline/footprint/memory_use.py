"""Footprint: what fits in memory.

Without an engine, a fraction of device memory is for weights and cache, and the rest for the driver context, CUDA
graphs and the activations of a step.  The cache gets what weights leave of the fraction, in whole pages.  If the
activations need more than the rest, they reduce the cache.  For named engines see `EnginePool`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import Truth, scalar
from ..errors import Number, number
from ..phases.deployment import Deployment, check_deployment
from ..phases.workload import OfWorkload, Workload, check_load
from ..report import Report, Step
from ..units import humanize
from .allocation import NO_DRAFTER, Drafter, Paging
from .engine_pool import EnginePool, sequence_bytes
from .fit_in_words import fit_line, fit_sentence, memory_notes
from .memory_steps import longest_context, memory_parts, memory_steps, reserved_for_longest
from .per_device import (
    cache_on_one,
    paged_cache_on_one,
    resident_by_part,
    weights_on_one,
    workspace_of_chunk,
    workspace_of_sequence,
)

__all__ = ["NO_DRAFTER", "Drafter", "Memory", "Paging", "cache_on_one", "memory", "weights_on_one"]

PAGE_TOKENS = 16
"""Tokens per page without an engine."""

STEP_TOKENS = 8192
"""Largest number of prompt tokens per step without an engine."""


@dataclass(frozen=True, eq=False, repr=False)
class Memory(OfWorkload, Report):
    """Memory that a deployment needs and has, for all accelerators together.

    `per_accelerator` describes the most loaded device, which decides whether the deployment fits.

    Attributes
    ----------
    deployment, load : Deployment, Workload
        The deployment, and the sequences, whose caches count at full length.
    paging : Paging
        How the engine allocates the cache.
    drafter : Drafter
        Drafter that is resident as well.
    """

    deployment: Deployment
    load: Workload
    paging: Paging
    drafter: Drafter = NO_DRAFTER

    columns = (
        "weights_bytes",
        "tower_bytes",
        "prediction_bytes",
        "kv_bytes_per_sequence",
        "kv_bytes",
        "state_bytes",
        "paged_kv_bytes",
        "workspace_bytes",
        "non_torch_bytes",
        "graph_bytes",
        "needed_bytes",
        "reserved_bytes",
        "available_bytes",
        "pool_bytes",
        "cache_tokens",
        "fits",
        "max_batch",
        "max_context",
        "running_batch",
        "accelerators_needed",
    )

    @property
    def heading(self) -> str:
        """Title: deployment and number of sequences."""
        return f"Memory: {self.deployment}, batch {humanize('batch', self.load.batch)}"

    @cached_property
    def engine_pool(self) -> EnginePool | None:
        """Allocation of the named engine on the most loaded accelerator; None without an engine or cache."""
        if not self.deployment.names_engine or self.deployment.model.encodes:
            return None
        serve, draft_bytes = self.deployment, self._draft_bytes
        engine, host_bytes = self.paging.of_engine(serve.server), self.paging.moved_to_host(serve, draft_bytes)
        return EnginePool(serve, engine, draft_bytes, host_bytes)

    @property
    def page_tokens(self) -> Number:
        """Tokens per page."""
        if self.engine_pool is not None:
            return float(self.engine_pool.engine.page_tokens or 1)
        if self.paging.page_tokens is None:
            return PAGE_TOKENS
        return self.paging.page_tokens

    @cached_property
    def weights_bytes_on_one(self) -> Number:
        """Weights on the most loaded accelerator."""
        return sum(self._weights_by_part.values())

    @cached_property
    def _weights_by_part(self) -> dict[str, Number]:
        """Weights on the most loaded accelerator by part, including towers, prediction layers and a draft model."""
        return self.paging.left_on_device(resident_by_part(self.deployment, draft_bytes=self._draft_bytes))

    @property
    def host_weights_bytes(self) -> Number:
        """Weights of all accelerators that are in host memory."""
        return self.paging.moved_to_host(self.deployment, self._draft_bytes) * self.accelerators

    @cached_property
    def _draft_bytes(self) -> Number:
        return self.drafter.bytes_beside(self.deployment)

    @cached_property
    def kv_bytes_on_one(self) -> Number:
        """Cache and state of one sequence on the most loaded accelerator."""
        return cache_on_one(self.deployment, self.load.sequence_tokens)

    @cached_property
    def paged_on_one(self) -> Number:
        """Memory that the engine allocates to one sequence on the most loaded accelerator.

        It consists of whole pages or a reserved length, without a shared prefix and without parts in host memory.
        """
        reserved = self.paging.reserved_tokens
        return self.allocated_bytes(self.load.sequence_tokens if reserved is None else reserved)

    @cached_property
    def shared_on_one(self) -> Number:
        """Memory of the shared prefix on the most loaded accelerator."""
        if not np.any(self.paging.shared_tokens):
            return 0.0
        return self._paged(self.deployment, self.paging.shared_tokens)

    def allocated_bytes(self, tokens: Number) -> Number:
        """Memory that the engine allocates to one sequence of ``tokens`` on the most loaded accelerator."""
        own_tokens = np.maximum(tokens - self.paging.shared_tokens, 0.0)
        own = self._paged(self.deployment, own_tokens) * (1.0 - self.paging.host_share)
        if self.drafter.deployment is not None:
            return own + self._paged(self.drafter.deployment, tokens)
        return own * (1.0 + self.drafter.share)

    def _paged(self, serve: Deployment, tokens: Number) -> Number:
        if self.engine_pool is not None:
            return sequence_bytes(serve, self.engine_pool.engine, tokens, hybrid=self.paging.hybrid)
        return paged_cache_on_one(serve, tokens, page_tokens=self.page_tokens, hybrid=self.paging.hybrid)

    @property
    def sequences_on_one(self) -> Number:
        """Number of sequences whose cache is on the most loaded accelerator."""
        return np.ceil(self.load.batch / self.deployment.parallel.data)

    @cached_property
    def chunk_bytes_on_one(self) -> Number:
        """Activations of a step's prompt tokens, or of encoding its images, whichever is larger."""
        step = STEP_TOKENS if self.paging.step_tokens is None else self.paging.step_tokens
        return workspace_of_chunk(self.deployment, self.load, step)

    @cached_property
    def sequence_workspace_bytes(self) -> Number:
        """Activations and logits of one decoding sequence in a step; all activations for an encoder."""
        return workspace_of_sequence(self.deployment, self.load)

    @property
    def workspace_on_one(self) -> Number:
        """Activations of the largest step: a prompt chunk, and one token with logits per sequence.

        Named engines reserve the activations of the largest step that they may ever run.
        """
        if self.engine_pool is not None:
            return self.engine_pool.activation_bytes
        return self.chunk_bytes_on_one + self.sequences_on_one * self.sequence_workspace_bytes

    @cached_property
    def usable_bytes_on_one(self) -> Number:
        """Memory for weights and cache on one accelerator."""
        if self.engine_pool is not None:
            return self.engine_pool.pool_bytes + self.weights_bytes_on_one
        return self.deployment.accelerator.memory_bytes * self.deployment.engine_fraction

    @property
    def pool_on_one(self) -> Number:
        """Memory left for the cache on the most loaded accelerator after weights and workspace."""
        pool = self.usable_bytes_on_one - self.weights_bytes_on_one
        if self.engine_pool is not None:
            return pool
        rest = self.deployment.accelerator.memory_bytes - self.weights_bytes_on_one - self.workspace_on_one
        return scalar(np.minimum(pool, rest))

    @property
    def accelerators(self) -> Number:
        """Number of accelerators of the deployment."""
        return self.deployment.parallel.accelerators

    @property
    def weights_bytes(self) -> Number:
        """Weights on all accelerators, including copies, towers and drafting layers."""
        return self.weights_bytes_on_one * self.accelerators

    @property
    def tower_bytes(self) -> Number:
        """Weights of image and audio encoders, which every accelerator stores completely."""
        return self._weights_by_part.get("towers", 0.0) * self.accelerators

    @property
    def prediction_bytes(self) -> Number:
        """Weights of multi-token prediction layers."""
        return self._weights_by_part.get("prediction", 0.0) * self.accelerators

    @property
    def weights_bytes_by_part(self) -> dict[str, Number]:
        """Weights by part of the model."""
        return {name: value * self.accelerators for name, value in self._weights_by_part.items()}

    @property
    def kv_bytes_per_sequence(self) -> Number:
        """Cache and state of one sequence at full length, prompt and output, including copies."""
        return self.kv_bytes_on_one * (self.accelerators / self.deployment.parallel.data)

    @property
    def kv_bytes(self) -> Number:
        """Cache and state of the batch according to the architecture."""
        return self.kv_bytes_on_one * self.sequences_on_one * self.accelerators

    @property
    def state_bytes(self) -> Number:
        """Recurrent state of the batch, which does not grow with the context."""
        return cache_on_one(self.deployment, 0.0) * self.sequences_on_one * self.accelerators

    @property
    def paged_kv_bytes(self) -> Number:
        """Cache and state of the batch as allocated by the engine, with a shared prefix stored once."""
        return (self.paged_on_one * self.sequences_on_one + self.shared_on_one) * self.accelerators

    @property
    def paged_kv_bytes_per_sequence(self) -> Number:
        """Cache and state of one sequence as allocated by the engine, including copies."""
        return self.paged_on_one * (self.accelerators / self.deployment.parallel.data)

    @property
    def contiguous_kv_bytes(self) -> Number:
        """Cache of the batch if the model's longest context were reserved for every sequence, as before paging."""
        return reserved_for_longest(self)

    @property
    def workspace_bytes(self) -> Number:
        """Activations of the largest step on all accelerators."""
        return self.workspace_on_one * self.accelerators

    @property
    def non_torch_bytes(self) -> Number:
        """Driver context and communication buffers of the named engine; 0 without one."""
        if self.engine_pool is None:
            return 0.0
        return self.engine_pool.non_torch_bytes * self.accelerators

    @property
    def graph_bytes(self) -> Number:
        """CUDA graphs of the named engine; 0 without one."""
        if self.engine_pool is None:
            return 0.0
        return self.engine_pool.graph_bytes * self.accelerators

    @property
    def pool_bytes(self) -> Number:
        """Memory left for the cache on all accelerators; negative if the weights do not fit."""
        return self.pool_on_one * self.accelerators

    @property
    def cache_tokens(self) -> Number:
        """Tokens that the pool holds in sequences of the load's length, in whole pages; 0 for an encoder."""
        if self.deployment.model.encodes:
            return 0.0
        page = self.page_tokens
        tokens = np.ceil(np.divide(self.load.sequence_tokens, page)) * page
        return scalar(np.floor(self.concurrency(tokens) * tokens))

    def concurrency(self, length_tokens: Number) -> Number:
        """Number of sequences of ``length_tokens`` that fit beside the weights, not rounded, as engines print it.

        Parameters
        ----------
        length_tokens : int or array
            Tokens per sequence, prompt and output. Engines print the value for their ``max_model_len``.

        Returns
        -------
        float or array
            Sequences of the whole deployment; 0 if the weights do not fit.
        """
        tokens = number("length_tokens", length_tokens, least=1, whole=True)
        return self._sequences_of(self.allocated_bytes(tokens)) * self.deployment.parallel.data

    def _sequences_of(self, bytes_each: Number) -> Number:
        """Sequences on one accelerator that need so many bytes each.

        ``n pages <= usable - weights``, and without an engine also ``n (pages + tokens) <= memory - weights - chunk``.
        A shared prefix counts with the weights.
        """
        fixed, pages = self.weights_bytes_on_one + self.shared_on_one, np.maximum(bytes_each, 1.0)
        sequences = np.divide(self.usable_bytes_on_one - fixed, pages)
        if self.engine_pool is None:
            rest = self.deployment.accelerator.memory_bytes - fixed - self.chunk_bytes_on_one
            sequences = np.minimum(sequences, rest / (pages + self.sequence_workspace_bytes))
        return scalar(np.maximum(sequences, 0.0))

    @property
    def reserved_bytes(self) -> Number:
        """Memory reserved for context, graphs and workspace."""
        return self.deployment.accelerator.memory_bytes * self.accelerators - self.available_bytes

    @property
    def available_bytes(self) -> Number:
        """Memory for weights and cache: the engine's fraction, without the workspace for a named engine."""
        return self.usable_bytes_on_one * self.accelerators

    @property
    def needed_bytes(self) -> Number:
        """Memory for weights and all pages of the batch, and for the workspace beyond what is reserved."""
        needed: Number = self.weights_bytes + self.paged_kv_bytes
        if self.engine_pool is not None:
            return needed
        return needed + np.maximum(self.workspace_bytes - self.reserved_bytes, 0.0)

    @property
    def per_accelerator(self) -> dict[str, Number]:
        """Weights, cache and available memory on the most loaded accelerator."""
        names = ("weights_bytes", "kv_bytes", "paged_kv_bytes", "workspace_bytes", "needed_bytes", "available_bytes")
        return {name: getattr(self, name) / self.accelerators for name in names}

    @property
    def parts(self) -> dict[str, Number]:
        """Memory of the most loaded accelerator by part (`roofline.footprint.memory_steps`)."""
        return memory_parts(self)

    @property
    def fits(self) -> Truth:
        """Whether the deployment fits."""
        fits = np.asarray(self.needed_bytes <= self.available_bytes)
        return fits if fits.ndim else bool(fits)

    @property
    def max_batch(self) -> Number:
        """Largest number of sequences of the load's length that fit; 0 if the weights do not fit."""
        batch = np.floor(self._sequences_of(self.paged_on_one)) * self.deployment.parallel.data
        return batch if np.ndim(batch) else int(batch)

    @property
    def max_context(self) -> Number:
        """Largest context of each sequence of the batch, prompt and output; infinite if its cache does not grow.

        It is found by bisection, as windows limit the growth of the cache; 0 if not even one token fits.
        """
        return longest_context(self)

    @property
    def running_batch(self) -> Number:
        """Sequences that run: the requested batch as far as it fits. The others wait in the queue."""
        batch = np.minimum(self.load.batch, self.max_batch)
        return batch if np.ndim(batch) else int(batch)

    @property
    def accelerators_needed(self) -> Number:
        """Number of accelerators whose combined memory is enough for weights and cache."""
        count = np.ceil(np.divide(self.weights_bytes + self.paged_kv_bytes, self.usable_bytes_on_one))
        return count if np.ndim(count) else int(count)

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """What the figures rest on, and what to do where it does not fit."""
        return tuple(memory_notes(self))

    def summary(self) -> str:
        """Sentence on whether it fits, and what would make it fit.

        Examples
        --------
        >>> import roofline as rl
        >>> print(rl.memory(rl.Deployment("llama-3.1-70b", "h100-sxm"), rl.Workload()).summary())
        Does not fit on one h100-sxm: 141.8 GB needed, 76.97 GB available; fits with fp8 weights, or on 2.
        """
        return fit_sentence(self)

    def fit(self) -> str:
        """One line: yes or no, with tokens and sequences that fit, or the smallest change that makes it fit."""
        return fit_line(self)

    def to_dict(self) -> dict[str, Any]:
        """Columns and notes as plain JSON types."""
        return super().to_dict() | {"assumptions": list(self.assumptions)}

    def _derivation(self) -> tuple[Step, ...]:
        """Derivation of all values."""
        return memory_steps(self)


def memory(serve: Deployment, load: Workload, *, paging: Paging | None = None, drafter: Drafter = NO_DRAFTER) -> Memory:
    """Compute the memory that ``serve`` needs for ``load``. A deployment that does not fit is a result, not an error.

    Parameters
    ----------
    serve : Deployment
        The deployment.
    load : Workload
        The sequences, whose caches count at full length. Arrays broadcast with those of ``serve``.
    paging : Paging, optional
        How the cache is allocated. None uses the settings of the engine of ``serve``. Without an engine: pages of 16
        tokens, windowed layers that only keep their window, and 8,192 tokens per step.
    drafter : Drafter
        Drafter that is resident as well; none by default.

    Returns
    -------
    Memory
        Weights, cache, workspace, and the batch and context that fit.

    Examples
    --------
    >>> import roofline as rl
    >>> need = rl.memory(rl.Deployment("llama-3.1-70b", "h100-sxm"), rl.Workload())
    >>> need.fits, need.accelerators_needed
    (False, 2)
    """
    check_deployment(serve)
    check_load(load)
    serve.check_shape(np.broadcast_shapes(*map(np.shape, load.counts.values())))
    return Memory(serve, load, paging or Paging(), drafter)
