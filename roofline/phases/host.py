"""Time that the host adds to the kernels of a step.

The kernels of a decode step are launched as one CUDA graph, which hides part of the fixed time of each kernel.  Time of
the scheduler, of the sampler and of waiting for other ranks does not overlap the kernels::

    decode_s = kernels * decode_factor - (1 - launch_share) * launches + layers * (layer_s + rank_s * log2(ranks))
             + sparse_layers * sparse_layer_s + latent_layers * latent_layer_s + step_s

where ``kernels`` is the time of the kernels, less what shared experts spend beside the routed ones
(`roofline.phases.streams`).

A pass with prompts runs without a graph, unless it is short and the engine also captures graphs of such sizes
(``graph_tokens``).  The host then launches kernels while the device works on earlier ones, so the pass takes the longer
of the two times, with a smooth transition::

    prompts_s = ((kernels * prefill_factor)^4 + launching^4)^(1/4) + step_s,
    launching = (kernels + layers * quantization kernels) / 9 * eager_layer_s + adapter kernels * adapter_kernel_s
              + delta_layers * delta_layer_s

where ``kernels`` in the second line is the number of kernels of the model (`roofline.phases.launches`): 9 per layer of
Llama on one accelerator, 24 of DeepSeek-V3 on several.  Every matrix with a low-rank adapter adds two kernels.  Every
product of 8- or 4-bit activations adds one, if the engine quantizes in a separate kernel.  Engines whose kernels for a
delta rule are programs of Triton look each of them up in Python, beside gathering and scattering the states, and wait
for the device to list the chunks of a pass.

An engine without graphs (``Engine(eager=True)``) runs its decode steps in the same way.

Used by the phases (`roofline.phases.totals`) and by the steps of a server (`roofline.serving.step_times`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..arrays import anywhere, log2, where
from ..efficiency.forms import join
from ..model import Model
from ..model.blocks.block import Block
from ..model.blocks.latent_attention import MLA
from ..model.blocks.linear_attention import GatedDeltaNet, KimiDeltaAttention
from ..model.rewriting import further_kernels
from ..specs.engines import Engine
from .deployment import Deployment
from .launches import launched_kernels

EAGER_NORM = 4.0
"""Exponent that joins device and host time of a pass with prompts: close to the longer one, smooth where they meet."""


LAYER_KERNELS = 9
"""Kernels in a layer of attention and a gated MLP, which the host launches in ``eager_layer_s``."""


class HostTimes(NamedTuple):
    """Times of the host (see `roofline.specs.engines.Engine`). Any may be an array with one value per run."""

    step_s: Any = 0.0
    layer_s: Any = 0.0
    rank_s: Any = 0.0
    sparse_layer_s: Any = 0.0
    latent_layer_s: Any = 0.0
    launch_share: Any = 1.0
    eager_layer_s: Any = 0.0
    decode_factor: Any = 1.0
    prefill_factor: Any = 1.0
    graph_tokens: Any = 0.0
    eager: Any = 0.0
    adapter_kernel_s: Any = 0.0
    quantization_kernels: Any = 0.0
    delta_layer_s: Any = 0.0
    shared_stream_tokens: Any = 0.0

    @classmethod
    def of(cls, engine: Engine) -> HostTimes:
        """Return the times of an engine whose settings are all resolved."""
        found = cls(*(float(getattr(engine, name) or 0.0) for name in cls._fields))
        found = found._replace(graph_tokens=engine.captured_tokens)
        return found._replace(shared_stream_tokens=0.0) if engine.eager else found

    def beside_s(self, shape: HostedModel) -> Any:
        """Return the host's time in a decode step that does not overlap its kernels."""
        layers_s = shape.layers * (self.layer_s + self.rank_s * log2(shape.ranks))
        kinds_s = shape.sparse_layers * self.sparse_layer_s + shape.latent_layers * self.latent_layer_s
        return layers_s + kinds_s + self.step_s

    def eager_s(self, shape: HostedModel, tokens: Any) -> Any:
        """Return the time to launch the kernels of all layers one by one; 0 if a graph covers a pass of ``tokens``."""
        kernels = shape.kernels + shape.layers * shape.quantizes * self.quantization_kernels
        launching_s = kernels / LAYER_KERNELS * self.eager_layer_s + shape.adapter_kernels * self.adapter_kernel_s
        launching_s = launching_s + shape.delta_layers * self.delta_layer_s
        return launching_s * (tokens > self.graph_tokens)

    def decode_s(self, kernels_s: Any, shape: HostedModel) -> Any:
        """Return the time of a decode step with kernels of ``kernels_s``, launched as a graph or one by one."""
        if anywhere(self.eager):
            in_graphs_s = self._replace(eager=0.0).decode_s(kernels_s, shape)
            return where(self.eager, self.prompts_s(kernels_s, shape, np.inf), in_graphs_s)
        return self.captured_s(kernels_s, shape) + self.beside_s(shape)

    def captured_s(self, kernels_s: Any, shape: HostedModel) -> Any:
        """Return the time of a decode step's kernels launched as one graph."""
        return kernels_s * self.decode_factor - (1.0 - self.launch_share) * shape.launch_s

    def prompts_s(self, kernels_s: Any, shape: HostedModel, tokens: Any) -> Any:
        """Return the time of a pass of ``tokens`` that contains prompts and whose kernels take ``kernels_s``."""
        return join(EAGER_NORM, kernels_s * self.prefill_factor, self.eager_s(shape, tokens)) + self.step_s


NO_HOST = HostTimes()
"""No time of the host, as in the floor and the roofline."""


class HostedModel(NamedTuple):
    """Properties of a deployment that determine the host's times.

    Attributes
    ----------
    layers, sparse_layers : int
        Number of layers, and of those in which an indexer selects the tokens to attend to.
    ranks : int
        Accelerators that work on a layer together.
    launch_s : float
        Sum of the fixed times of all kernels of a decode step.
    kernels : float
        Number of kernels in a pass over a prompt.
    adapter_kernels : int
        Kernels of low-rank adapters in a pass.
    quantizes : bool
        Whether activations are narrower than 16 bits in products.
    latent_layers : int
        Layers with latent attention.
    delta_layers : int
        Layers with a delta rule.
    """

    layers: Any
    sparse_layers: Any
    ranks: Any
    launch_s: Any
    kernels: Any
    adapter_kernels: Any = 0
    quantizes: Any = False
    latent_layers: Any = 0
    delta_layers: Any = 0

    @classmethod
    def of(cls, serve: Deployment, launch_s: Any) -> HostedModel:
        """Return the properties of a deployment; ``launch_s`` is the sum of its decode kernels' fixed times."""
        ranks = serve.parallel.tensor * serve.parallel.context
        model, narrow = serve.model, serve.precision.activation_bits < 16
        kernels, further = _kernels(serve, ranks * serve.parallel.expert), further_kernels(model)
        latent = latent_layers(model)
        delta = delta_layers(model)
        return cls(model.layer_count, sparse_layers(model), ranks, launch_s, kernels, further, narrow, latent, delta)


def _kernels(serve: Deployment, ranks: Any) -> Any:
    """Return the number of kernels in a pass over a prompt; accelerators that share layers add exchanges."""
    if not isinstance(ranks, np.ndarray):
        return launched_kernels(serve.model, communicates=ranks > 1)
    alone, many = (launched_kernels(serve.model, communicates=several) for several in (False, True))
    return np.where(ranks > 1, many, alone)


@lru_cache(maxsize=256)
def sparse_layers(model: Model) -> int:
    """Return the number of layers in which an indexer selects the tokens to attend to."""
    found = 0
    for layer in model.layers:
        indexers = [getattr(block, "indexer", None) for block in layer.blocks]
        if any(indexer is not None for indexer in indexers):
            found += layer.count
    return found


@lru_cache(maxsize=256)
def latent_layers(model: Model) -> int:
    """Return the number of layers with latent attention (MLA)."""
    return _layers_with(model, MLA)


@lru_cache(maxsize=256)
def delta_layers(model: Model) -> int:
    """Return the number of layers with a delta rule (Gated DeltaNet, Kimi Delta Attention)."""
    return _layers_with(model, GatedDeltaNet, KimiDeltaAttention)


def _layers_with(model: Model, *kinds: type[Block]) -> int:
    """Return the number of layers with a block of one of the kinds."""
    return sum(layer.count for layer in model.layers if any(isinstance(block, kinds) for block in layer.blocks))
