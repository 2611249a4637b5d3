"""Memory that an engine allocates on each accelerator at start-up: weights, workspace, graphs and the cache pool.

Engines use a fraction of memory, but define it differently:

=============================  ============================================================================
``device`` (vLLM)              of the device, for weights, the warm-up's activations, memory outside the
                               framework's allocator, and the pool; from 0.20 on for CUDA graphs too
``free_before_loading``        of what is free before the weights are loaded, for weights and the pool (SGLang)
``free_after_loading``         of what is free after loading and warming up, for the pool alone (TensorRT-LLM)
=============================  ============================================================================

The warm-up runs one step with the engine's full token budget and samples a token for the maximum number of sequences.
The larger of the two is the activation peak:

    activation = max(step_tokens * workspace, 4 * step_tokens * hidden + c * max_sequences * vocab) + experts
    experts    = 2 * step_tokens * top_k * (max(2 * intermediate / tp, hidden) + hidden)

The sampler's sort needs ``c`` bytes per logit.  Expert outputs are stored twice in 16 bits, before and after the
activation function (kernels for MXFP4 experts store nothing).  Both were derived from the start-up logs of 77 vLLM
servers (tests/data/engine_memory.csv).  Pools of models that were left out are predicted within 1 % (median).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..arrays import scalar
from ..errors import Number, number
from ..formats import cache_format
from ..model import Layer, Model
from ..model.blocks import Attention, Cache, MoE
from ..operators.parallel import share
from ..phases.deployment import USUAL_FRACTION, Deployment
from ..phases.host import delta_layers
from ..report import Report, Step
from ..specs.engines import Engine
from .per_device import prediction_bytes, tower_bytes, weights_on_one, workspace_of_token

GIB = 2.0**30

HIDDEN_BYTES = 0.46 * GIB
"""Memory that NVIDIA drivers report to nvidia-smi but not to the framework: an H100 has 79.65 and 79.19 GiB, a 3090 24
and 23.58, an L4 22.49 and 22.07 (tests/data/engine_memory.csv)."""

STATE_BITS = 32
"""Bits of recurrent state if the engine has no setting."""

PAGE_STEP = 16
"""Pages of models with recurrent layers are multiples of this many tokens."""

GROUP_SLACK = 1.25
"""vLLM pads small groups of layers to the size of the largest one if that is at most 25 % more."""


LARGEST_STEP = 65_536
"""Tokens per step, and sequences, for which an engine without limits reserves activations at most."""

ACTIVATION = (
    "max(step_tokens * token_bytes, step_tokens * sampled_token_bytes + logits * logit_bytes)"
    " + step_tokens * expert_bytes"
)
POOL = {
    "device": "device_bytes * fraction - resident_bytes - {}",
    "free_before_loading": "(device_bytes - {}) * fraction - resident_bytes",
    "free_after_loading": "(device_bytes - resident_bytes - {}) * fraction",
}
"""Definition of the memory fraction -> formula for the pool of one accelerator."""


@dataclass(frozen=True, eq=False, repr=False)
class EnginePool(Report):
    """Memory of the most loaded accelerator after the engine has started, by part.

    Attributes
    ----------
    deployment : Deployment
        The deployment.
    engine : Engine
        The engine with all its settings on this accelerator.
    draft_bytes : float or array
        Weights of a drafter on the same accelerator, without ``prediction_bytes``.
    host_bytes : float or array
        Weights of the language model that are in host memory instead of this accelerator's.
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
        """Memory fraction of the deployment, or else of the engine."""
        return float(self.deployment.memory_fraction or self.engine.memory_fraction or USUAL_FRACTION)

    @property
    def usable_bytes(self) -> Number:
        """Memory that the engine uses for weights, workspace and pool together."""
        if self.engine.memory_fraction_of == "free_after_loading":
            return self.device_bytes
        free = self.device_bytes
        if self.engine.memory_fraction_of == "free_before_loading":
            free = free - self.non_torch_bytes
        return free * self._fraction

    @cached_property
    def weights_bytes(self) -> Number:
        """Weights of the language model on the accelerator."""
        return weights_on_one(self.deployment) - self.host_bytes

    @cached_property
    def tower_bytes(self) -> Number:
        """Encoders of images and sound, whole on every accelerator."""
        return tower_bytes(self.deployment)

    @cached_property
    def prediction_bytes(self) -> Number:
        """Multi-token prediction layers, if the engine loads them without drafting with them."""
        return prediction_bytes(self.deployment)

    @property
    def resident_bytes(self) -> Number:
        """All weights: language model, towers, prediction layers and draft model."""
        return self.weights_bytes + self.tower_bytes + self.prediction_bytes + self.draft_bytes

    @cached_property
    def activation_bytes(self) -> Number:
        """Activation peak of the warm-up: a full step, or sampling for the maximum number of sequences."""
        inputs = self.activation_inputs
        of_step = inputs["step_tokens"] * inputs["token_bytes"]
        of_sampling = inputs["step_tokens"] * inputs["sampled_token_bytes"] + inputs["logits"] * inputs["logit_bytes"]
        return scalar(np.maximum(of_step, of_sampling) + inputs["step_tokens"] * inputs["expert_bytes"])

    @cached_property
    def activation_inputs(self) -> dict[str, Number]:
        """Inputs of `ACTIVATION`."""
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
        """Bytes of a token's expert outputs in the widest mixture."""
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
        """Driver context, communication buffers and other memory outside the framework's allocator."""
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
        """Memory left for the KV cache; negative if the engine would fail to start."""
        weights = self.resident_bytes
        workspace = self.activation_bytes + self.non_torch_bytes
        if self.engine.memory_fraction_of == "free_before_loading":
            return self.usable_bytes - weights
        if self.engine.memory_fraction_of == "free_after_loading":
            return (self.device_bytes - weights - workspace - self.graph_bytes) * self._fraction
        graphs = self.graph_bytes if self.engine.graphs_in_fraction else 0.0
        return self.usable_bytes - weights - workspace - graphs

    def _derivation(self) -> tuple[Step, ...]:
        """Derivation of the activations and pool of one accelerator."""
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
        """Tokens that the pool holds in sequences of a given length: `concurrency` times that length."""
        longest = self.deployment.model.max_context_tokens or 131_072
        return self.concurrency(longest) * longest

    def concurrency(self, length_tokens: Number) -> Number:
        """Number of sequences of ``length_tokens`` that the pool holds, not rounded, as the engine prints it.

        Parameters
        ----------
        length_tokens : int or array
            Tokens per sequence, prompt and output. The engine prints the value for its ``max_model_len``.

        Returns
        -------
        float or array
            Pool divided by the pages of one such sequence; 0 if there is no pool.
        """
        tokens = number("length_tokens", length_tokens, least=1, whole=True)
        each = sequence_bytes(self.deployment, self.engine, tokens)
        return scalar(np.maximum(self.pool_bytes, 0.0) / np.maximum(each, 1.0) * self.deployment.parallel.data)


class _Kind(NamedTuple):
    """Layers with equal caches on one accelerator."""

    layers: float
    token_bytes: Number
    state_bytes: Number
    window: int | None

    @property
    def grows(self) -> bool:
        """Whether the cache grows with tokens."""
        return bool(np.any(np.asarray(self.token_bytes) > 0))


def sequence_bytes(serve: Deployment, engine: Engine, tokens: Number, *, hybrid: bool = True) -> Number:
    """Bytes of the pool for one sequence of ``tokens`` on the most loaded accelerator.

    A windowed layer holds ``min(tokens, window - 1 + step_tokens)`` tokens, since a step's prompt is written
    before the window moves on, or all tokens if the engine does not free those that the window has left.

    SGLang frees them in some models (``windows_of``), whose windowed layers have room for a share ``r`` of the tokens
    of the other layers.  A sequence occupies the same part of both pools as of the one that it fills more: room for
    ``max(tokens, min(tokens, window) / r)``, in windowed layers ``r`` times that.  Layers that use the keys and values
    of another one have room all the same (``stores_shared``).

    Decode context parallelism divides the tokens of a sequence within a group of accelerators.  Each of them holds as
    many KV heads as with fewer accelerators.

    In vLLM (``groups_layers``), layers with equal caches form groups with blocks of equal size.  In models with
    recurrent layers, an attention page is as large as a layer's state, and each recurrent layer takes one page.

    SGLang divides the pool into one for states, a share ``s``, and one for tokens.  In models with a delta rule a
    running sequence takes several states, the further ones for the prefixes that it leaves behind.  A sequence occupies
    the same part of the whole as of the pool that it fills more:

        bytes = max(tokens' / (1 - s), slots * state / s)

    Parameters
    ----------
    serve : Deployment
        The deployment.
    engine : Engine
        Engine with all its settings on the accelerator.
    tokens : int or array
        Length of the sequence.
    hybrid : bool
        Whether windowed layers only keep their window.
    """
    kinds = list(_kinds(serve, engine))
    if not kinds:
        return 0.0 * np.asarray(tokens)[()]
    parallel = serve.parallel
    of_one = share(serve.model.layer_count, parallel.pipeline) / parallel.context
    total: Number = 0.0
    states: Number = 0.0
    for kind, layers, page in _pages_of(kinds, engine):
        if not kind.grows:
            states = states + layers * page
            continue
        held = _held(kind, kinds, engine, tokens) if hybrid and _frees_windows(serve.model, engine) else tokens
        held = np.ceil(held / parallel.decode_context)
        total = total + layers * (np.ceil(held / page) * page * kind.token_bytes + kind.state_bytes)
    part = float(engine.state_share or 0.0)
    if not part or not _mixed(kinds):
        return (total + states) * of_one
    keeps_states = bool(engine.prefix_caching) and delta_layers(serve.model) > 0
    slots = float(engine.state_slots or 1.0) if keeps_states else 1.0
    return np.maximum(total / (1.0 - part), slots * states / part) * of_one


def _frees_windows(model: Model, engine: Engine) -> bool:
    """Whether windowed layers of a model keep only their window."""
    names = str(engine.windows_of or "").split()
    return bool(engine.frees_windows) and (not names or model.name.lower().split("/")[-1].startswith(tuple(names)))


def _held(kind: _Kind, kinds: list[_Kind], engine: Engine, tokens: Number) -> Number:
    """Tokens of a sequence that a layer has to have room for."""
    windows = [each.window for each in kinds if each.grows and each.window is not None]
    divided = bool(engine.window_share) and any(each.grows and each.window is None for each in kinds)
    if not windows:
        return tokens
    if not divided:
        return tokens if kind.window is None else np.minimum(tokens, kind.window - 1 + float(engine.step_tokens or 0))
    part = float(engine.window_share or 1.0)
    whole = np.maximum(tokens, np.minimum(tokens, max(windows)) / part)
    return whole if kind.window is None else part * whole


def _mixed(kinds: list[_Kind]) -> bool:
    """Whether some layers keep tokens and others a state."""
    return any(kind.grows for kind in kinds) and not all(kind.grows for kind in kinds)


def _pages_of(kinds: list[_Kind], engine: Engine) -> Iterator[tuple[_Kind, float, Number]]:
    """Each kind with its layers, including padding, and its page size: tokens if it grows, otherwise bytes."""
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
    """Layers per group: the number of the smallest kind, or of the largest if all are nearly equal."""
    smallest, largest = min(counts), max(counts)
    return largest if largest <= GROUP_SLACK * smallest else smallest


def _kinds(serve: Deployment, engine: Engine) -> Iterator[_Kind]:
    """Kinds of caches with their number of layers and the bytes per layer on the most loaded accelerator."""
    kv_bits, parallel = cache_format(serve.precision.kv).bits, serve.parallel
    index_bits, state_bits = float(engine.index_bits or kv_bits), float(engine.state_bits or STATE_BITS)
    found: dict[tuple[float, float, int | None, int], float] = {}
    for layer in serve.model.layers:
        caches = tuple(_caches(layer, engine))
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


def _caches(layer: Layer, engine: Engine) -> Iterator[Cache]:
    """Caches of a layer that have room in the pool."""
    for block in layer.blocks:
        if engine.stores_shared and isinstance(block, Attention) and block.shares_kv:
            yield from dataclasses.replace(block, shares_kv=False).caches()
        else:
            yield from block.caches()


def _window(caches: tuple[Cache, ...]) -> int | None:
    """Window of a layer; None if one of its caches keeps all tokens."""
    windows = [cache.window for cache in caches if cache.values_per_token]
    return max(windows) if windows and all(windows) else None  # type: ignore[type-var]
