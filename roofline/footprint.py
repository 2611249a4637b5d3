"""Footprint: what fits in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .deployment import Deployment
from .errors import Number
from .formats import get_format
from .parallel import share
from .report import Report, Step
from .weights import Linear, Weight
from .workload import Workload


@dataclass(frozen=True, eq=False, repr=False)
class Memory(Report):
    """What a deployment needs of its memory, and what it has, all accelerators together.

    `per_accelerator` is the fullest one's part; whether it fits is decided there.

    Attributes
    ----------
    weights_bytes : all weights resident in memory, copies included
    kv_bytes_per_sequence : KV cache and state of one sequence at its full length, prompt and output, copies included
    kv_bytes : the same for the batch
    available_bytes : what the engine may use: the devices' memory times the engine's fraction
    weights_bytes_on_one, kv_bytes_on_one : weights and one sequence's cache on the fullest accelerator that has them
    sequences_on_one : sequences whose cache it holds
    """

    deployment: Deployment
    weights_bytes_on_one: Number
    kv_bytes_on_one: Number
    sequences_on_one: Number

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
    def _usable_bytes(self) -> Number:
        return self.deployment.accelerator.memory_bytes * self.deployment.memory_fraction

    @property
    def weights_bytes(self) -> Number:
        """Weights on all accelerators."""
        return self.weights_bytes_on_one * self.deployment.parallel.accelerators

    @property
    def kv_bytes_per_sequence(self) -> Number:
        """Cache of one sequence on all accelerators that hold a part of it."""
        parallel = self.deployment.parallel
        return self.kv_bytes_on_one * (parallel.accelerators / parallel.data)

    @property
    def kv_bytes(self) -> Number:
        """Cache of the batch on all accelerators."""
        return self.kv_bytes_on_one * self.sequences_on_one * self.deployment.parallel.accelerators

    @property
    def available_bytes(self) -> Number:
        """Memory that the engine may use on all accelerators."""
        return self._usable_bytes * self.deployment.parallel.accelerators

    @property
    def needed_bytes(self) -> Number:
        """Weights and the cache of the whole batch."""
        return self.weights_bytes + self.kv_bytes

    @property
    def per_accelerator(self) -> dict[str, Number]:
        """The same on the fullest accelerator."""
        kv_bytes = self.kv_bytes_on_one * self.sequences_on_one
        return {
            "weights_bytes": self.weights_bytes_on_one,
            "kv_bytes": kv_bytes,
            "needed_bytes": self.weights_bytes_on_one + kv_bytes,
            "available_bytes": self._usable_bytes,
        }

    @property
    def fits(self) -> Any:
        """Whether it fits; an array for arrays."""
        mine = self.per_accelerator
        return _plain_bool(mine["needed_bytes"] <= mine["available_bytes"])

    @property
    def max_batch(self) -> Any:
        """Sequences of that length that fit beside the weights; 0 if not even the weights fit."""
        free = np.maximum(self._usable_bytes - self.weights_bytes_on_one, 0.0)
        batch = np.floor(np.divide(free, np.maximum(self.kv_bytes_on_one, 1.0))) * self.deployment.parallel.data
        return batch if np.ndim(batch) else int(batch)

    @property
    def accelerators_needed(self) -> Any:
        """Accelerators of this kind whose memory together holds weights and cache."""
        count = np.ceil(np.divide(self.needed_bytes, self._usable_bytes))
        return count if np.ndim(count) else int(count)

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """What the figures rest on, and what to do where it does not fit."""
        gpu, fraction = self.deployment.accelerator, self.deployment.memory_fraction
        notes = [f"an engine takes {fraction:.0%} of the {gpu.memory_bytes / 1e9:.4g} GB that the device reports"]
        if not np.all(self.fits):
            have = self.deployment.parallel.accelerators
            place = f"one {gpu.name}" if np.all(np.asarray(have) == 1) else f"{np.max(have):g} {gpu.name}"
            notes.append(f"does not fit {place}: it takes {int(np.max(self.accelerators_needed))} of them")
        return tuple(notes)

    def to_dict(self) -> dict[str, Any]:
        """Columns, and the notes."""
        return super().to_dict() | {"assumptions": list(self.assumptions)}

    def explain(self) -> tuple[Step, ...]:
        """How the figures come about."""
        gpu, count = self.deployment.accelerator, self.deployment.parallel.accelerators
        usable = {
            "memory_bytes": gpu.memory_bytes,
            "memory_fraction": self.deployment.memory_fraction,
            "accelerators": count,
        }
        cache = {"kv_bytes_on_one": self.kv_bytes_on_one, "sequences_on_one": self.sequences_on_one}
        needed = {"weights_bytes": self.weights_bytes, "kv_bytes": self.kv_bytes}
        return (
            Step(
                "memory.available_bytes",
                "memory_bytes * memory_fraction * accelerators",
                usable,
                self.available_bytes,
                gpu.source_of("memory_bytes"),
            ),
            Step(
                "memory.kv_bytes",
                "kv_bytes_on_one * sequences_on_one * accelerators",
                cache | {"accelerators": count},
                self.kv_bytes,
                "cache of a sequence at its full length",
            ),
            Step(
                "memory.needed_bytes",
                "weights_bytes + kv_bytes",
                needed,
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
    return Memory(
        deployment=serve,
        weights_bytes_on_one=weights_on_one(serve),
        kv_bytes_on_one=cache_on_one(serve, load.sequence_tokens),
        sequences_on_one=np.ceil(load.batch / serve.parallel.data),
    )


def weights_on_one(serve: Deployment) -> Number:
    """Bytes of weights on the fullest accelerator.

    Layers divide over the stages of a pipeline, ``ceil(layers / stages)`` to the fullest, of which the first also holds
    the embedding and the last lm_head; a tied table is on both.  Within a layer every matrix divides as it declares.
    """
    model, parallel = serve.model, serve.parallel
    layers = sum(_resident_bytes(count, weight, serve) for count, weight in model.counted_weights())
    head = _resident_bytes(1, model.lm_head, serve)
    bits = serve.precision.part("embedding").weight_bits
    tables = sum(table.parameters for table in (model.embedding, *model.lookups))
    embedding = tables * bits / 8 * share(model.vocab, parallel.tensor)
    staged = np.asarray(parallel.pipeline) > 1
    tied_bytes = (
        head
        if not model.tied_embeddings
        else head - model.embedding.parameters * bits / 8 * share(model.vocab, parallel.tensor)
    )
    ends = np.where(staged, np.maximum(embedding, head), embedding + np.maximum(tied_bytes, 0.0))
    total = layers * share(model.layer_count, parallel.pipeline) + ends
    return total if np.ndim(total) else float(total)


def _resident_bytes(count: int, weight: Weight, serve: Deployment) -> Number:
    """Bytes of ``count`` weights on the fullest accelerator of a tensor- and expert-parallel group."""
    precision, parallel = serve.precision, serve.parallel
    bits, bias_bits = precision.part(weight.part).weight_bits, precision.part("bias").weight_bits
    if not isinstance(weight, Linear):
        return count * weight.size * bits / 8
    routed = weight.part == "experts"
    copies = weight.copies * share(weight.copies, parallel.expert) if routed else weight.copies
    k, n = weight.shape_on(parallel.expert_tensor if routed else parallel.tensor)
    return count * copies * (k * n * bits + (n * bias_bits if weight.bias else 0.0)) / 8


def cache_on_one(serve: Deployment, tokens: Number) -> Number:
    """Bytes of one sequence's cache on the fullest accelerator that holds a part of it.

    KV heads divide under tensor parallelism, down to one an accelerator; a latent does not divide.
    """
    parallel, bits = serve.parallel, get_format(serve.precision.kv).bits
    whole = sum(
        count * cache.bytes(tokens, bits) * share(cache.pieces, parallel.tensor)
        for count, cache in serve.model.counted_caches()
    )
    return whole * share(serve.model.layer_count, parallel.pipeline) / parallel.context


def _plain_bool(value: Any) -> Any:
    return value if np.ndim(value) else bool(value)
