"""Memory by part, and the derivation of its values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import bisect, scalar
from ..errors import Number
from ..report import Step
from .per_device import cache_on_one

if TYPE_CHECKING:
    from .memory_use import Memory

Row = tuple[str, str, dict[str, Number], str]
"""A value with its formula, inputs and source."""


def memory_parts(found: Memory) -> dict[str, Number]:
    """Memory of the most loaded accelerator by part, adding up to its full size (see `Memory.parts`).

    An engine may store less than the architecture needs: recurrent state in fewer bits, a shared prefix once.
    """
    count, device = found.accelerators, found.deployment.accelerator.memory_bytes
    weights = {f"{name} weights": value / count for name, value in found.weights_bytes_by_part.items()}
    held = found.paged_on_one * found.sequences_on_one + found.shared_on_one
    engine_state = found.allocated_bytes(0.0) * found.sequences_on_one
    state = np.minimum(found.state_bytes / count, engine_state)
    growing = np.minimum((found.kv_bytes - found.state_bytes) / count, held - state)
    cache = {"KV cache": growing, "state": state, "pages": held - state - growing}
    workspace = {"workspace": found.workspace_on_one}
    if found.engine_pool is not None:
        workspace |= {"non-torch": found.non_torch_bytes / count, "graphs": found.graph_bytes / count}
    rest = np.maximum(found.reserved_bytes / count - sum(workspace.values()), 0.0)
    used = weights | cache | workspace | {"reservation": rest}
    return used | {"free": np.maximum(device - sum(used.values()), 0.0)}


LONGEST = 2**40
"""Largest context in the search."""


def longest_context(found: Memory) -> Number:
    """Largest context of each sequence of the batch (see `Memory.max_context`)."""
    room = (found.pool_on_one - found.shared_on_one) / found.sequences_on_one

    def fits(tokens: Number) -> Any:
        return found.allocated_bytes(tokens) <= room

    shape = np.shape(room)
    last, _ = bisect(fits, np.zeros(shape), np.full(shape, float(LONGEST)), whole=True)
    return scalar(np.where(fits(LONGEST), np.inf, np.where(fits(0.0), last, 0.0)))


def reserved_for_longest(found: Memory) -> Number:
    """Cache of the batch if the model's longest context were reserved for every sequence, as before paging.

    Kwon et al., PagedAttention (arXiv:2309.06180, section 3.1): such caches were 20 to 38 % full.
    """
    longest = found.deployment.model.max_context_tokens or found.load.sequence_tokens
    tokens = np.maximum(found.load.sequence_tokens, longest)
    return cache_on_one(found.deployment, tokens) * found.sequences_on_one * found.accelerators


def memory_steps(found: Memory) -> tuple[Step, ...]:
    """Derivation of all memory values of a deployment."""
    count = {"accelerators": found.accelerators}
    sequences = {"sequences_on_one": found.sequences_on_one} | count
    of_one = {"kv_bytes_on_one": found.kv_bytes_on_one} | sequences
    pages = {"page_bytes": found.paged_on_one, "shared_bytes": found.shared_on_one} | sequences
    batch_formula, batch_inputs, batch_source = _largest_batch(found)
    rows = (
        *_room(found),
        (
            "kv_bytes",
            "kv_bytes_on_one * sequences_on_one * accelerators",
            of_one,
            "cache of a sequence at its full length",
        ),
        (
            "paged_kv_bytes",
            "(page_bytes * sequences_on_one + shared_bytes) * accelerators",
            pages,
            f"whole pages of {found.page_tokens:g} tokens",
        ),
        *_need(found),
        ("max_batch", batch_formula, batch_inputs, batch_source),
    )
    before = () if found.engine_pool is None else found.engine_pool.explain()
    return (
        *(replace(step, name=f"memory.{step.name}_on_one") for step in before),
        *(
            Step(f"memory.{name}", formula, inputs, getattr(found, name), source)
            for name, formula, inputs, source in rows
        ),
    )


def _room(found: Memory) -> tuple[Row, ...]:
    """Derivation of the memory available for weights and cache."""
    count, gpu = {"accelerators": found.accelerators}, found.deployment.accelerator
    if found.engine_pool is not None:
        inputs = {"pool_bytes": found.pool_on_one, "weights_bytes": found.weights_bytes_on_one} | count
        title = found.engine_pool.engine.title
        return (("available_bytes", "(pool_bytes + weights_bytes) * accelerators", inputs, title),)
    usable = {"memory_bytes": gpu.memory_bytes, "memory_fraction": found.deployment.engine_fraction} | count
    source = gpu.source_of("memory_bytes")
    return (("available_bytes", "memory_bytes * memory_fraction * accelerators", usable, source),)


def _need(found: Memory) -> tuple[Row, ...]:
    """Derivation of the memory that the batch needs."""
    names = ("weights_bytes", "paged_kv_bytes", "workspace_bytes", "reserved_bytes")
    sizes = {name: getattr(found, name) for name in names}
    if found.engine_pool is not None:
        whole = {name: sizes[name] for name in names[:2]}
        return (("needed_bytes", "weights_bytes + paged_kv_bytes", whole, "weights, and pages of the batch"),)
    sequences = {"sequences_on_one": found.sequences_on_one, "accelerators": found.accelerators}
    workspace = {"chunk_bytes": found.chunk_bytes_on_one, "bytes_of_a_sequence": found.sequence_workspace_bytes}
    return (
        (
            "workspace_bytes",
            "(chunk_bytes + sequences_on_one * bytes_of_a_sequence) * accelerators",
            workspace | sequences,
            "activations of the widest block, and logits",
        ),
        (
            "needed_bytes",
            "weights_bytes + paged_kv_bytes + max(workspace_bytes - reserved_bytes, 0)",
            sizes,
            "weights, pages of the batch, workspace beyond the reservation",
        ),
    )


def _largest_batch(found: Memory) -> tuple[str, dict[str, Number], str]:
    """Formula, inputs and source of `max_batch`."""
    each = {"page_bytes": found.paged_on_one, "data": found.deployment.parallel.data}
    if found.engine_pool is not None:
        room = {"pool_bytes": found.pool_on_one, "shared_bytes": found.shared_on_one}
        formula = "max((pool_bytes - shared_bytes) / max(page_bytes, 1), 0) // 1 * data"
        return formula, room | each, "pages in the engine's pool"
    room = {
        "usable_bytes": found.usable_bytes_on_one,
        "weights_bytes": found.weights_bytes_on_one,
        "shared_bytes": found.shared_on_one,
        "memory_bytes": found.deployment.accelerator.memory_bytes,
        "chunk_bytes": found.chunk_bytes_on_one,
        "bytes_of_a_sequence": found.sequence_workspace_bytes,
    }
    formula = (
        "max(min((usable_bytes - weights_bytes - shared_bytes) / max(page_bytes, 1), (memory_bytes"
        " - weights_bytes - shared_bytes - chunk_bytes) / (max(page_bytes, 1) + bytes_of_a_sequence)), 0) // 1"
        " * data"
    )
    return formula, room | each, "pages in the engine's fraction, and everything in the device"
