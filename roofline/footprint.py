"""Footprint: what fits in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .deployment import Deployment
from .errors import Number
from .report import Report, Step
from .workload import Workload


@dataclass(frozen=True, eq=False, repr=False)
class Memory(Report):
    """What a deployment needs of its memory, and what it has.

    Attributes
    ----------
    weights_bytes : all weights resident in memory
    kv_bytes_per_sequence : KV cache and state of one sequence at its full length, prompt and output
    kv_bytes : the same for the batch
    available_bytes : what the engine may use: the device's memory times the engine's fraction
    """

    deployment: Deployment
    weights_bytes: Number
    kv_bytes_per_sequence: Number
    kv_bytes: Number
    available_bytes: Number

    columns = (
        "weights_bytes",
        "kv_bytes_per_sequence",
        "kv_bytes",
        "needed_bytes",
        "available_bytes",
        "fits",
        "max_batch",
        "accelerators_needed",
    )

    @property
    def needed_bytes(self) -> Number:
        """Weights and the cache of the whole batch."""
        return self.weights_bytes + self.kv_bytes

    @property
    def fits(self) -> Any:
        """Whether it fits; an array for arrays."""
        return _plain_bool(self.needed_bytes <= self.available_bytes)

    @property
    def max_batch(self) -> Any:
        """Sequences of that length that fit beside the weights; 0 if not even the weights fit."""
        free = np.maximum(self.available_bytes - self.weights_bytes, 0.0)
        batch = np.floor(np.divide(free, np.maximum(self.kv_bytes_per_sequence, 1.0)))
        return batch if np.ndim(batch) else int(batch)

    @property
    def accelerators_needed(self) -> Any:
        """Accelerators of this kind whose memory together holds weights and cache."""
        count = np.ceil(np.divide(self.needed_bytes, self.available_bytes))
        return count if np.ndim(count) else int(count)

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """What the figures rest on, and what to do where it does not fit."""
        gpu, fraction = self.deployment.accelerator, self.deployment.memory_fraction
        notes = [f"an engine takes {fraction:.0%} of the {gpu.memory_bytes / 1e9:.4g} GB that the device reports"]
        if not np.all(self.fits):
            notes.append(f"does not fit one {gpu.name}: it takes {int(np.max(self.accelerators_needed))} of them")
        return tuple(notes)

    def to_dict(self) -> dict[str, Any]:
        """Columns, and the notes."""
        return super().to_dict() | {"assumptions": list(self.assumptions)}

    def explain(self) -> tuple[Step, ...]:
        """How the figures come about."""
        gpu = self.deployment.accelerator
        return (
            Step(
                "memory.available_bytes",
                "memory_bytes * memory_fraction",
                {"memory_bytes": gpu.memory_bytes, "memory_fraction": self.deployment.memory_fraction},
                self.available_bytes,
                gpu.source_of("memory_bytes"),
            ),
            Step(
                "memory.needed_bytes",
                "weights_bytes + kv_bytes",
                {"weights_bytes": self.weights_bytes, "kv_bytes": self.kv_bytes},
                self.needed_bytes,
                "weights and cache of the batch",
            ),
        )


def memory(serve: Deployment, load: Workload) -> Memory:
    """What ``serve`` needs in memory for ``load``.  Not fitting is a value, not an error.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-70b"), rl.get_accelerator("h100-sxm"))
    >>> need = rl.memory(serve, rl.Workload())
    >>> need.fits, need.accelerators_needed
    (False, 2)
    """
    per_sequence = serve.model.cache_bytes(load.sequence_tokens, serve.precision.kv)
    return Memory(
        deployment=serve,
        weights_bytes=serve.model.weight_bytes(serve.precision),
        kv_bytes_per_sequence=per_sequence,
        kv_bytes=per_sequence * load.batch,
        available_bytes=serve.accelerator.memory_bytes * serve.memory_fraction,
    )


def _plain_bool(value: Any) -> Any:
    return value if np.ndim(value) else bool(value)
