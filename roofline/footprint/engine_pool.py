"""What an engine sets aside on each accelerator before it serves: weights, workspace, graphs, and the cache pool.

Engines take a fraction of memory, but of different things:

=============================  ============================================================================
``device`` (vLLM)              of the device, for weights, the warm-up's activations, memory outside the
                               framework's allocator, and the pool; from 0.20 on for CUDA graphs too
``free_before_loading``        of what is free before the weights are loaded, for weights and the pool (SGLang)
``free_after_loading``         of what is free after loading and warming up, for the pool alone (TensorRT-LLM)
=============================  ============================================================================

The warm-up runs one step of the engine's token budget and samples a token for as many sequences as may run; whichever
takes more memory is the activation peak:

    activation = max(step_tokens * workspace, 4 * step_tokens * hidden + c * max_sequences * vocab) + experts
    experts    = 2 * step_tokens * top_k * (max(2 * intermediate / tp, hidden) + hidden)

``c`` bytes a logit are what the sampler's sort needs; expert outputs are kept twice in 16 bits, before and after the
activation (kernels for MXFP4 experts keep nothing).  Both were read off the start-up logs of 77 vLLM servers
(tests/data/engine_memory.csv), whose pools of models that took no part come out within 1 % (median).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..arrays import scalar
from ..errors import Number, number
from ..formats import cache_format
from ..model.blocks import Cache, MoE
from ..operators.parallel import share
from ..phases.deployment import USUAL_FRACTION, Deployment
from ..report import Report, Step
from ..specs.engines import Engine
from .per_device import prediction_bytes, tower_bytes, weights_on_one, workspace_of_token

GIB = 2.0**30

HIDDEN_BYTES = 0.46 * GIB
"""What an NVIDIA driver reports less to the framework than to nvidia-smi: 79.19 of 79.65 GiB on an H100, 23.58 of 24 on
a 3090, 22.07 of 22.49 on an L4 (tests/data/engine_memory.csv)."""

STATE_BITS = 32
"""Bits of recurrent state where the engine does not say."""

PAGE_STEP = 16
"""Pages of models with recurrent layers are whole multiples of so many tokens."""

GROUP_SLACK = 1.25
"""vLLM pads small groups of layers to the size of the largest one if that is at most 25 % more."""


LARGEST_STEP = 65_536
"""Tokens of a step, and sequences, beyond which an engine without a limit is not taken to reserve activations."""

ACTIVATION = (
    "max(step_tokens * token_bytes, step_tokens * sampled_token_bytes + logits * logit_bytes)"
    " + step_tokens * expert_bytes"
)
POOL = {
    "device": "device_bytes * fraction - resident_bytes - {}",
    "free_before_loading": "(device_bytes - {}) * fraction - resident_bytes",
    "free_after_loading": "(device_bytes - resident_bytes - {}) * fraction",
}
"""What the fraction is a share of -> the pool of one accelerator."""


@dataclass(frozen=True, eq=False, repr=False)
class EnginePool(Report):
    """Memory of the most loaded accelerator once the engine has started, part by part.

    Attributes
    ----------
    deployment : Deployment
        What runs where.
    engine : Engine
        The engine with all its settings on this accelerator.
    draft_bytes : float or array
        Weights of a draft model on the same accelerator.
    host_bytes : float or array
        Weights of the language model that live in host memory instead of this accelerator's.
    """

    deployment: Deployment
    engine: Engine
    draft_bytes: Number = 0.0
    host_bytes: Number = 0.0

    columns = (
        "device_bytes",
        "usable_bytes",
        "weights_bytes",
        "tower_bytes",
        "prediction_bytes",
        "activation_bytes",
        "non_torch_bytes",
        "graph_bytes",
        "pool_bytes",
        "cache_tokens",
    )

    @property
    def device_bytes(self) -> Number:
        """Memory that the framework sees."""
        gpu = self.deployment.accelerator
        hidden = HIDDEN_BYTES if gpu.vendor == "NVIDIA" and gpu.memory_type.startswith(("HBM", "GDDR")) else 0.0
        return gpu.memory_bytes - hidden

    @property
    def _fraction(self) -> float:
        """The deployment's, or else the engine's."""
        return float(self.deployment.memory_fraction or self.engine.memory_fraction or USUAL_FRACTION)

    @property
    def usable_bytes(self) -> Number:
        """What the engine takes for weights, workspace and pool together."""
        if self.engine.memory_fraction_of == "free_after_loading":
            return self.device_bytes
        free = self.device_bytes
        if self.engine.memory_fraction_of == "free_before_loading":
            free = free - self.non_torch_bytes
        return free * self._fraction

    @cached_property
    def weights_bytes(self) -> Number:
        """Weights of the language model that are on the accelerator."""
        return weights_on_one(self.deployment) - self.host_bytes

    @cached_property
    def tower_bytes(self) -> Number:
        """Encoders of images and sound, whole on every accelerator."""
        return tower_bytes(self.deployment)

    @cached_property
    def prediction_bytes(self) -> Number:
        """Layers of multi-token prediction, where the engine loads them and nothing else drafts."""
        return 0.0 if np.any(self.draft_bytes) else prediction_bytes(self.deployment)

    @property
    def resident_bytes(self) -> Number:
        """All weights."""
        return self.weights_bytes + self.tower_bytes + self.prediction_bytes + self.draft_bytes

    @cached_property
    def activation_bytes(self) -> Number:
        """Peak of the warm-up: a full step, or sampling for every sequence that may run."""
        inputs = self.activation_inputs
        of_step = inputs["step_tokens"] * inputs["token_bytes"]
        of_sampling = inputs["step_tokens"] * inputs["sampled_token_bytes"] + inputs["logits"] * inputs["logit_bytes"]
        return scalar(np.maximum(of_step, of_sampling) + inputs["step_tokens"] * inputs["expert_bytes"])

    @cached_property
    def activation_inputs(self) -> dict[str, Number]:
        """What `ACTIVATION` is computed from."""
        model, engine = self.deployment.model, self.engine
        step = min(float(engine.step_tokens or 0), LARGEST_STEP)
        rows = step if engine.sampler_rows == "tokens" else min(float(engine.max_sequences or 0), LARGEST_STEP)
        return {
            "step_tokens": step,
            "token_bytes": workspace_of_token(self.deployment),
            "sampled_token_bytes": 4 * model.hidden,
            "logits": rows * model.vocab,
            "logit_bytes": float(engine.sampler_bytes or 0),
            "expert_bytes": self._expert_bytes_of_token(),
        }

    def _expert_bytes_of_token(self) -> Number:
        """Outputs of a token's experts in the widest mixture."""
        if self.deployment.precision.weight_format("experts") == "mxfp4":
            return 0.0
        found: Number = 0.0
        for layer in self.deployment.model.layers:
            for block in layer.blocks:
                if isinstance(block, MoE):
                    inner = 2 * block.intermediate / self.deployment.parallel.expert_tensor
                    of_block = 2 * block.top_k * (np.maximum(inner, block.hidden) + block.hidden)
                    found = np.maximum(found, of_block)
        return found

    @property
    def non_torch_bytes(self) -> Number:
        """Driver context, communication buffers and what else lies outside the framework's allocator."""
        engine, parallel = self.engine, self.deployment.parallel
        return scalar(
            np.where(
                np.asarray(parallel.tensor) > 1, engine.non_torch_parallel_bytes or 0.0, engine.non_torch_bytes or 0.0
            )
        )

    @property
    def graph_bytes(self) -> Number:
        """CUDA graphs of decode steps."""
        engine, parallel = self.engine, self.deployment.parallel
        if engine.eager:
            return 0.0
        layers = self.deployment.model.layer_count * share(self.deployment.model.layer_count, parallel.pipeline)
        return scalar(float(engine.graph_bytes or 0.0) + float(engine.graph_layer_bytes or 0.0) * layers)

    @property
    def pool_bytes(self) -> Number:
        """What is left for the KV cache; negative where the engine would stop."""
        weights = self.resident_bytes
        workspace = self.activation_bytes + self.non_torch_bytes
        if self.engine.memory_fraction_of == "free_before_loading":
            return self.usable_bytes - weights
        if self.engine.memory_fraction_of == "free_after_loading":
            return (self.device_bytes - weights - workspace - self.graph_bytes) * self._fraction
        graphs = self.graph_bytes if self.engine.graphs_in_fraction else 0.0
        return self.usable_bytes - weights - workspace - graphs

    def _derivation(self) -> tuple[Step, ...]:
        """Activations and pool of one accelerator, each as a formula."""
        sizes: dict[str, Number] = {
            "device_bytes": self.device_bytes,
            "fraction": self._fraction,
            "resident_bytes": self.resident_bytes,
        }
        workspace: dict[str, Number] = {
            "activation_bytes": self.activation_bytes,
            "non_torch_bytes": self.non_torch_bytes,
            "graph_bytes": self.graph_bytes,
        }
        of = str(self.engine.memory_fraction_of)
        if of == "free_before_loading":
            workspace = {"non_torch_bytes": self.non_torch_bytes}
        elif of == "device" and not self.engine.graphs_in_fraction:
            del workspace["graph_bytes"]
        formula = POOL[of].format(" - ".join(workspace))
        of_logits, of_fraction = (self.engine.source_of(name) for name in ("sampler_bytes", "memory_fraction_of"))
        return (
            Step("activation_bytes", ACTIVATION, self.activation_inputs, self.activation_bytes, of_logits),
            Step("pool_bytes", formula, sizes | workspace, self.pool_bytes, of_fraction),
        )

    @property
    def cache_tokens(self) -> Number:
        """Tokens of one sequence that the pool holds: `concurrency` at a length, times that length."""
        longest = self.deployment.model.max_context_tokens or 131_072
        return self.concurrency(longest) * longest

    def concurrency(self, length_tokens: Number) -> Number:
        """Sequences of ``length_tokens`` whose cache the pool holds, as the engine prints it; not rounded.

        Parameters
        ----------
        length_tokens : int or array
            Tokens of each sequence, prompt and output (the engine's ``max_model_len`` for the figure that it prints).

        Returns
        -------
        float or array
            Pool over the pages of one such sequence; 0 where there is no pool.
        """
        tokens = number("length_tokens", length_tokens, least=1, whole=True)
        each = sequence_bytes(self.deployment, self.engine, tokens)
        return scalar(np.maximum(self.pool_bytes, 0.0) / np.maximum(each, 1.0) * self.deployment.parallel.data)


class _Kind(NamedTuple):
    """Layers whose caches are alike on one accelerator."""

    layers: float
    token_bytes: Number
    state_bytes: Number
    window: int | None

    @property
    def grows(self) -> bool:
        """Whether tokens add to it."""
        return bool(np.any(np.asarray(self.token_bytes) > 0))


def sequence_bytes(serve: Deployment, engine: Engine, tokens: Number, *, hybrid: bool = True) -> Number:
    """Bytes of the pool that one sequence of ``tokens`` takes on the most loaded accelerator.

    A layer with a window holds ``min(tokens, window - 1 + step_tokens)`` tokens, since a step's prompt is written
    before the window moves on.

    Decode context parallelism divides the tokens of a sequence within a group of accelerators, which hold the KV heads
    that fewer of them would hold.

    In vLLM (``groups_layers``) layers with equal caches form groups, whose blocks are of one size.  Where a model has
    recurrent layers, a page of attention is as large as a layer's state, and each such layer takes one page.

    Parameters
    ----------
    serve : Deployment
        What runs where.
    engine : Engine
        With all its settings on the accelerator.
    tokens : int or array
        Length of the sequence.
    hybrid : bool
        Whether layers with a window keep their window only.
    """
    kinds = list(_kinds(serve, engine))
    if not kinds:
        return 0.0 * np.asarray(tokens)[()]
    parallel = serve.parallel
    of_one = share(serve.model.layer_count, parallel.pipeline) / parallel.context
    total: Number = 0.0
    for kind, layers, page in _pages_of(kinds, engine):
        if not kind.grows:
            total = total + layers * page
            continue
        held = tokens
        if hybrid and kind.window is not None:
            held = np.minimum(tokens, kind.window - 1 + float(engine.step_tokens or 0))
        held = np.ceil(held / parallel.decode_context)
        total = total + layers * (np.ceil(held / page) * page * kind.token_bytes + kind.state_bytes)
    return total * of_one


def _pages_of(kinds: list[_Kind], engine: Engine) -> Iterator[tuple[_Kind, float, Number]]:
    """Each kind with its layers, padding included, and its pages: tokens where it grows, bytes where it does not."""
    page: Number = float(engine.page_tokens or 1)
    growing = next((kind for kind in kinds if kind.grows), None)
    states = [kind.state_bytes for kind in kinds if not kind.grows]
    if not engine.groups_layers or growing is None:
        yield from ((kind, kind.layers, page if kind.grows else kind.state_bytes) for kind in kinds)
        return
    if states:
        largest = np.max(np.stack(np.broadcast_arrays(*states)), axis=0)
        page = np.ceil(largest / growing.token_bytes / PAGE_STEP) * PAGE_STEP
    group = _group_size([kind.layers for kind in kinds])
    for kind in kinds:
        padded = np.ceil(kind.layers / group) * group
        yield kind, padded, page if kind.grows else page * growing.token_bytes


def _group_size(counts: list[float]) -> float:
    """Layers of a group: the smallest kind's number, or the largest one's if all are nearly alike."""
    smallest, largest = min(counts), max(counts)
    return largest if largest <= GROUP_SLACK * smallest else smallest


def _kinds(serve: Deployment, engine: Engine) -> Iterator[_Kind]:
    """Kinds of caches with the number of their layers; bytes of a layer on the most loaded accelerator."""
    kv_bits, parallel = cache_format(serve.precision.kv).bits, serve.parallel
    index_bits, state_bits = float(engine.index_bits or kv_bits), float(engine.state_bits or STATE_BITS)
    found: dict[tuple[float, float, int | None, int], float] = {}
    for layer in serve.model.layers:
        caches = tuple(layer.caches())
        if caches:
            token_bits = sum(
                cache.values_per_token / cache.stride * (index_bits if cache.index else kv_bits) for cache in caches
            )
            state = sum(cache.engine_state_bytes(state_bits) for cache in caches)
            key = (token_bits, state, _window(caches), max(cache.pieces for cache in caches))
            found[key] = found.get(key, 0.0) + layer.count
    for (token_bits, state, window, pieces), count in found.items():
        heads = share(pieces, parallel.tensor / parallel.decode_context)
        yield _Kind(count, token_bits / 8 * heads, state * share(pieces, parallel.tensor), window)


def _window(caches: tuple[Cache, ...]) -> int | None:
    """Window of a layer: that of all its caches, or none if one of them keeps everything."""
    windows = [cache.window for cache in caches if cache.values_per_token]
    return max(windows) if windows and all(windows) else None  # type: ignore[type-var]
