"""Footprint: what fits in memory.

An engine takes a fraction of the device's memory for weights and cache and leaves the rest to everything else: the
driver's context, captured graphs, and the activations of a step.  Weights come first, the cache gets what is left of
the fraction, in whole pages.  A step whose activations need more than the rest takes it from the cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import Truth, bisect, scalar
from ..errors import Number
from ..phases.deployment import Deployment
from ..phases.workload import Workload
from ..report import Report, Step
from ..units import humanize
from .allocation import NO_DRAFTER, Drafter, Paging
from .per_device import (
    cache_on_one,
    logits_of_sequence,
    paged_cache_on_one,
    weights_by_part,
    weights_on_one,
    workspace_of_token,
)

__all__ = ["NO_DRAFTER", "Drafter", "Memory", "Paging", "cache_on_one", "memory", "weights_on_one"]

LONGEST = 2**40
"""Contexts are searched up to here."""


@dataclass(frozen=True, repr=False)
class Memory(Report):
    """What a deployment needs of its memory, and what it has, all accelerators together.

    `per_accelerator` is the fullest one's part; whether it fits is decided there.

    Attributes
    ----------
    deployment, load : Deployment, Workload
        What runs where, and the sequences whose cache is held at their full length.
    paging : Paging
        How the engine allocates.
    drafter : Drafter
        What drafts tokens and is resident as well.
    """

    deployment: Deployment
    load: Workload
    paging: Paging
    drafter: Drafter = NO_DRAFTER

    columns = (
        "weights_bytes",
        "kv_bytes_per_sequence",
        "kv_bytes",
        "state_bytes",
        "paged_kv_bytes",
        "workspace_bytes",
        "needed_bytes",
        "reserved_bytes",
        "available_bytes",
        "fits",
        "max_batch",
        "max_context",
        "running_batch",
        "accelerators_needed",
    )

    @property
    def heading(self) -> str:
        """What runs where, and how many sequences."""
        return f"Memory: {self.deployment}, batch {humanize('batch', self.load.batch)}"

    @cached_property
    def weights_bytes_on_one(self) -> Number:
        """Weights on the fullest accelerator."""
        return sum(self._weights_by_part.values())

    @cached_property
    def _weights_by_part(self) -> dict[str, Number]:
        """Weights on the fullest accelerator by part of the model; what drafts is a part of its own."""
        parts = weights_by_part(self.deployment)
        drafter = self.drafter
        if drafter.deployment is not None:
            return parts | {"draft": weights_on_one(drafter.deployment)}
        if np.any(drafter.share):
            return parts | {"draft": drafter.share * sum(parts.values())}
        return parts

    @cached_property
    def kv_bytes_on_one(self) -> Number:
        """Cache and state of one sequence on the fullest accelerator that has a part of it."""
        return cache_on_one(self.deployment, self.load.sequence_tokens)

    @cached_property
    def paged_on_one(self) -> Number:
        """Memory of the fullest accelerator that the engine allocates to one sequence.

        Whole pages, or the length reserved; without the prefix that is stored once and what lives in host memory.
        """
        reserved = self.paging.reserved_tokens
        return self._allocated(self.load.sequence_tokens if reserved is None else reserved)

    @cached_property
    def shared_on_one(self) -> Number:
        """Memory of the fullest accelerator that the prefix of all sequences takes."""
        if not np.any(self.paging.shared_tokens):
            return 0.0
        return self._paged(self.deployment, self.paging.shared_tokens)

    def _allocated(self, tokens: Number) -> Number:
        own_tokens = np.maximum(tokens - self.paging.shared_tokens, 0.0)
        own = self._paged(self.deployment, own_tokens) * (1.0 - self.paging.host_share)
        if self.drafter.deployment is not None:
            return own + self._paged(self.drafter.deployment, tokens)
        return own * (1.0 + self.drafter.share)

    def _paged(self, serve: Deployment, tokens: Number) -> Number:
        return paged_cache_on_one(serve, tokens, page_tokens=self.paging.page_tokens, hybrid=self.paging.hybrid)

    @property
    def sequences_on_one(self) -> Number:
        """Sequences whose cache the fullest accelerator holds."""
        return np.ceil(self.load.batch / self.deployment.parallel.data)

    @cached_property
    def _chunk_bytes(self) -> Number:
        """Activations of the prompt tokens of a step."""
        tokens = np.minimum(self.load.prompt_tokens, self.paging.step_tokens) / self.deployment.parallel.context
        return tokens * self._token_bytes

    @cached_property
    def _token_bytes(self) -> Number:
        return workspace_of_token(self.deployment)

    @property
    def _sequence_bytes(self) -> Number:
        """Activations and logits of one sequence that decodes in a step."""
        return self._token_bytes + logits_of_sequence(self.deployment)

    @property
    def workspace_on_one(self) -> Number:
        """Activations of the largest step: a chunk of a prompt, and a token with its logits of every sequence."""
        return self._chunk_bytes + self.sequences_on_one * self._sequence_bytes

    @property
    def _usable_bytes(self) -> Number:
        return self.deployment.accelerator.memory_bytes * self.deployment.memory_fraction

    @property
    def _count(self) -> Number:
        return self.deployment.parallel.accelerators

    @property
    def weights_bytes(self) -> Number:
        """Weights on all accelerators, copies included."""
        return self.weights_bytes_on_one * self._count

    @property
    def weights_bytes_by_part(self) -> dict[str, Number]:
        """The same by part of the model."""
        return {name: value * self._count for name, value in self._weights_by_part.items()}

    @property
    def kv_bytes_per_sequence(self) -> Number:
        """Cache and state of one sequence at its full length, prompt and output, copies included."""
        return self.kv_bytes_on_one * (self._count / self.deployment.parallel.data)

    @property
    def kv_bytes(self) -> Number:
        """Cache and state of the batch as the architecture has it."""
        return self.kv_bytes_on_one * self.sequences_on_one * self._count

    @property
    def state_bytes(self) -> Number:
        """The part of it that does not grow with the context: recurrent state."""
        return cache_on_one(self.deployment, 0.0) * self.sequences_on_one * self._count

    @property
    def paged_kv_bytes(self) -> Number:
        """Cache and state of the batch as the engine allocates it, a shared prefix once."""
        return (self.paged_on_one * self.sequences_on_one + self.shared_on_one) * self._count

    @property
    def paged_kv_bytes_per_sequence(self) -> Number:
        """Cache and state of one sequence as the engine allocates it, copies included."""
        return self.paged_on_one * (self._count / self.deployment.parallel.data)

    @property
    def contiguous_kv_bytes(self) -> Number:
        """The same if every sequence had room for the model's longest context reserved, as before pages.

        Kwon et al., PagedAttention (arXiv:2309.06180, section 3.1): such caches were 20 to 38 % full.
        """
        longest = self.deployment.model.max_context_tokens or self.load.sequence_tokens
        tokens = np.maximum(self.load.sequence_tokens, longest)
        return cache_on_one(self.deployment, tokens) * self.sequences_on_one * self._count

    @property
    def workspace_bytes(self) -> Number:
        """Activations of the largest step on all accelerators."""
        return self.workspace_on_one * self._count

    @property
    def reserved_bytes(self) -> Number:
        """Memory outside the engine's fraction: context, graphs and workspace."""
        return self.deployment.accelerator.memory_bytes * self._count - self.available_bytes

    @property
    def available_bytes(self) -> Number:
        """What the engine may use for weights and cache: the devices' memory times the engine's fraction."""
        return self._usable_bytes * self._count

    @property
    def needed_bytes(self) -> Number:
        """Weights and the pages of the whole batch, and of the workspace what the reservation can't hold."""
        spill = np.maximum(self.workspace_bytes - self.reserved_bytes, 0.0)
        needed: Number = self.weights_bytes + self.paged_kv_bytes + spill
        return needed

    @property
    def per_accelerator(self) -> dict[str, Number]:
        """The same on the fullest accelerator."""
        names = ("weights_bytes", "kv_bytes", "paged_kv_bytes", "workspace_bytes", "needed_bytes", "available_bytes")
        return {name: getattr(self, name) / self._count for name in names}

    @property
    def parts(self) -> dict[str, Number]:
        """The memory of the fullest accelerator from the bottom up, to its full size; nothing is free if it is over.

        ``pages`` is what the architecture does not need of the pages allocated, ``reservation`` the rest of what the
        engine's fraction leaves out.
        """
        count, device = self._count, self.deployment.accelerator.memory_bytes
        weights = {f"{name} weights": value / count for name, value in self.weights_bytes_by_part.items()}
        cache = {
            "KV cache": (self.kv_bytes - self.state_bytes) / count,
            "state": self.state_bytes / count,
            "pages": (self.paged_kv_bytes - self.kv_bytes) / count,
        }
        rest = np.maximum(self.reserved_bytes / count - self.workspace_on_one, 0.0)
        used = weights | cache | {"workspace": self.workspace_on_one, "reservation": rest}
        return used | {"free": np.maximum(device - sum(used.values()), 0.0)}

    @property
    def fits(self) -> Truth:
        """Whether it fits; an array for arrays."""
        return _plain_bool(self.needed_bytes <= self.available_bytes)

    @property
    def max_batch(self) -> Number:
        """Sequences of that length that fit beside the weights; 0 if not even the weights fit.

        Pages fit in the engine's fraction, ``n pages <= usable - weights``, and everything in the device,
        ``n (pages + tokens) <= memory - weights - chunk``.  A prefix that is stored once is counted with the weights.
        """
        fixed, pages = self.weights_bytes_on_one + self.shared_on_one, np.maximum(self.paged_on_one, 1.0)
        in_fraction = np.divide(self._usable_bytes - fixed, pages)
        rest = self.deployment.accelerator.memory_bytes - fixed - self._chunk_bytes
        sequences = np.minimum(in_fraction, rest / (pages + self._sequence_bytes))
        batch = np.floor(np.maximum(sequences, 0.0)) * self.deployment.parallel.data
        return batch if np.ndim(batch) else int(batch)

    @property
    def max_context(self) -> Number:
        """Tokens that each sequence of the batch may reach, prompt and output; infinite if its cache does not grow.

        By bisection, since windows bend the cache's growth; 0 if not even one token fits.
        """
        fixed, sequences = self.weights_bytes_on_one + self.shared_on_one, self.sequences_on_one
        rest = self.deployment.accelerator.memory_bytes - fixed - self.workspace_on_one
        room = np.minimum(self._usable_bytes - fixed, rest) / sequences

        def fits(tokens: Number) -> Any:
            return self._allocated(tokens) <= room

        shape = np.shape(room)
        last, _ = bisect(fits, np.zeros(shape), np.full(shape, float(LONGEST)), whole=True)
        return scalar(np.where(fits(LONGEST), np.inf, np.where(fits(0.0), last, 0.0)))

    @property
    def running_batch(self) -> Number:
        """Sequences that run: those asked for, as far as they fit.  The others wait in the queue."""
        batch = np.minimum(self.load.batch, self.max_batch)
        return batch if np.ndim(batch) else int(batch)

    @property
    def accelerators_needed(self) -> Number:
        """Accelerators of this kind whose memory together holds weights and cache."""
        count = np.ceil(np.divide(self.weights_bytes + self.paged_kv_bytes, self._usable_bytes))
        return count if np.ndim(count) else int(count)

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """What the figures rest on, and what to do where it does not fit."""
        gpu, fraction = self.deployment.accelerator, self.deployment.memory_fraction
        notes = [f"an engine takes {fraction:.0%} of the {gpu.memory_bytes / 1e9:.4g} GB that the device reports"]
        if not np.all(self.fits):
            have = self.deployment.parallel.accelerators
            place = f"one {gpu.name}" if np.all(np.asarray(have) == 1) else f"{np.max(have):g} {gpu.name}"
            notes.append(f"does not fit on {place}; at least {int(np.max(self.accelerators_needed))} are needed")
        if np.any((np.asarray(self.max_batch) > 0) & (self.load.batch > np.asarray(self.max_batch))):
            running, asked = np.max(self.running_batch), np.max(self.load.batch)
            notes.append(f"only {running:g} of {asked:g} sequences fit at once; the rest queue")
        return tuple(notes)

    def summary(self) -> str:
        """Whether it fits, in a sentence, and what would make it fit.

        Examples
        --------
        >>> import roofline as rl
        >>> load = rl.Workload()
        >>> print(rl.memory(rl.Deployment("llama-3.1-70b", "h100-sxm"), load).summary())
        Does not fit on one h100-sxm: 141.8 GB needed, 76.97 GB available; fits with fp8 weights, or on 2.
        """
        from .fit_in_words import fit_sentence

        return fit_sentence(self)

    def to_dict(self) -> dict[str, Any]:
        """Columns, and the notes."""
        return super().to_dict() | {"assumptions": list(self.assumptions)}

    def explain(self) -> tuple[Step, ...]:
        """How the figures come about."""
        gpu, count = self.deployment.accelerator, {"accelerators": self._count}
        usable = {"memory_bytes": gpu.memory_bytes, "memory_fraction": self.deployment.memory_fraction} | count
        sequences = {"sequences_on_one": self.sequences_on_one} | count
        workspace = {"chunk_bytes": self._chunk_bytes, "bytes_of_a_sequence": self._sequence_bytes} | sequences
        names = ("weights_bytes", "paged_kv_bytes", "workspace_bytes", "reserved_bytes")
        fixed = {"weights_bytes": self.weights_bytes_on_one, "shared_bytes": self.shared_on_one}
        room = {"usable_bytes": self._usable_bytes} | fixed
        whole = {"memory_bytes": gpu.memory_bytes, "chunk_bytes": self._chunk_bytes}
        each = {"page_bytes": self.paged_on_one, "bytes_of_a_sequence": self._sequence_bytes}
        rows = (
            ("available_bytes", "memory_bytes * memory_fraction * accelerators", usable, gpu.source_of("memory_bytes")),
            (
                "kv_bytes",
                "kv_bytes_on_one * sequences_on_one * accelerators",
                {"kv_bytes_on_one": self.kv_bytes_on_one} | sequences,
                "cache of a sequence at its full length",
            ),
            (
                "paged_kv_bytes",
                "(page_bytes * sequences_on_one + shared_bytes) * accelerators",
                {"page_bytes": self.paged_on_one, "shared_bytes": self.shared_on_one} | sequences,
                f"whole pages of {self.paging.page_tokens:g} tokens",
            ),
            (
                "workspace_bytes",
                "(chunk_bytes + sequences_on_one * bytes_of_a_sequence) * accelerators",
                workspace,
                "activations of the widest block, and logits",
            ),
            (
                "needed_bytes",
                "weights_bytes + paged_kv_bytes + max(workspace_bytes - reserved_bytes, 0)",
                {name: getattr(self, name) for name in names},
                "weights, pages of the batch, workspace beyond the reservation",
            ),
            (
                "max_batch",
                "max(min((usable_bytes - weights_bytes - shared_bytes) / max(page_bytes, 1), (memory_bytes"
                " - weights_bytes - shared_bytes - chunk_bytes) / (max(page_bytes, 1) + bytes_of_a_sequence)), 0) // 1"
                " * data",
                room | whole | each | {"data": self.deployment.parallel.data},
                "pages in the engine's fraction, and everything in the device",
            ),
        )
        return tuple(
            Step(f"memory.{name}", formula, inputs, getattr(self, name), source)
            for name, formula, inputs, source in rows
        )


def memory(serve: Deployment, load: Workload, *, paging: Paging | None = None, drafter: Drafter = NO_DRAFTER) -> Memory:
    """What ``serve`` needs in memory for ``load``.  Not fitting is a value, not an error.

    Parameters
    ----------
    serve : Deployment
        What runs where.
    load : Workload
        The sequences whose cache is held at their full length.
    paging : Paging, optional
        How the engine allocates; pages of 16 tokens, windows kept as such and 8,192 tokens a step if None.
    drafter : Drafter
        What drafts tokens and is resident as well; nothing unless given.

    Returns
    -------
    Memory
        Weights, cache, workspace, and the batch and context that fit.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-70b"), rl.get_accelerator("h100-sxm"))
    >>> need = rl.memory(serve, rl.Workload())
    >>> need.fits, need.accelerators_needed
    (False, 2)
    """
    return Memory(serve, load, paging or Paging(), drafter)


def _plain_bool(value: Any) -> Truth:
    return value if np.ndim(value) else bool(value)
