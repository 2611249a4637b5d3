"""What the host adds to the kernels of a step.

Kernels of a decode step are launched as one CUDA graph, which hides a part of the fixed time that each would take by
itself; what the scheduler, the sampler and waiting for other ranks add does not overlap them:

    decode_s = kernels * decode_factor - (1 - launch_share) * launches + layers * (layer_s + rank_s * log2(ranks))
             + sparse_layers * sparse_layer_s + step_s

A pass with prompts has no graph of its own, but for one of few tokens where an engine captures graphs of its sizes too
(``graph_tokens``): the host launches its kernels while the device works on earlier ones, so that the pass takes the
longer of the two, rounded where they meet:

    prompts_s = ((kernels * prefill_factor)^4 + launching^4)^(1/4) + step_s,
    launching = layers * eager_layer_s * (1 + quantization kernels / 12) + adapter kernels * adapter_kernel_s

with two kernels for every matrix that has a low-rank adapter beside it, and one before every product of 8 and 4-bit
activations where an engine launches those by themselves; a layer has about 12 without them.

An engine that was told to do without graphs (``Engine(eager=True)``) runs its decode steps that way as well.

The phases (`roofline.phases.totals`) and the steps of a server (`roofline.serving.step_times`) both add it from here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..arrays import anywhere, log2, where
from ..efficiency.forms import join
from ..model import Model
from ..model.rewriting import further_kernels
from ..specs.engines import Engine
from .deployment import Deployment

EAGER_NORM = 4.0
"""Exponent that joins the device and the host of a pass with prompts: near the longer one, rounded where they meet."""


LAYER_OPERATORS = 12
"""Operators of a layer of attention and a gated MLP, which the host's time of an eager layer launches."""


class HostTimes(NamedTuple):
    """Times that the host adds; see `roofline.specs.engines.Engine`. Any may be an array, one value per run."""

    step_s: Any = 0.0
    layer_s: Any = 0.0
    rank_s: Any = 0.0
    sparse_layer_s: Any = 0.0
    launch_share: Any = 1.0
    eager_layer_s: Any = 0.0
    decode_factor: Any = 1.0
    prefill_factor: Any = 1.0
    graph_tokens: Any = 0.0
    eager: Any = 0.0
    adapter_kernel_s: Any = 0.0
    quantization_kernels: Any = 0.0

    @classmethod
    def of(cls, engine: Engine) -> HostTimes:
        """Those of an engine, all of whose settings are known."""
        found = cls(*(float(getattr(engine, name) or 0.0) for name in cls._fields))
        return found._replace(graph_tokens=0.0) if engine.eager else found

    def beside_s(self, shape: HostedModel) -> Any:
        """What the host adds to a decode step beside its kernels."""
        layers_s = shape.layers * (self.layer_s + self.rank_s * log2(shape.ranks))
        return layers_s + shape.sparse_layers * self.sparse_layer_s + self.step_s

    def eager_s(self, shape: HostedModel, tokens: Any) -> Any:
        """Launching the kernels of all layers one by one, in a pass of ``tokens`` that no graph was captured for."""
        layers = shape.layers * (1.0 + shape.quantizes * self.quantization_kernels / LAYER_OPERATORS)
        launching_s = layers * self.eager_layer_s + shape.adapter_kernels * self.adapter_kernel_s
        return launching_s * (tokens > self.graph_tokens)

    def decode_s(self, kernels_s: Any, shape: HostedModel) -> Any:
        """A decode step whose kernels take ``kernels_s``; an engine without graphs launches them one by one."""
        if anywhere(self.eager):
            in_graphs_s = self._replace(eager=0.0).decode_s(kernels_s, shape)
            return where(self.eager, self.prompts_s(kernels_s, shape, np.inf), in_graphs_s)
        return self.captured_s(kernels_s, shape) + self.beside_s(shape)

    def captured_s(self, kernels_s: Any, shape: HostedModel) -> Any:
        """The kernels of a decode step, launched as one graph."""
        return kernels_s * self.decode_factor - (1.0 - self.launch_share) * shape.launch_s

    def prompts_s(self, kernels_s: Any, shape: HostedModel, tokens: Any) -> Any:
        """A pass of ``tokens``, with prompts among them, whose kernels take ``kernels_s``."""
        return join(EAGER_NORM, kernels_s * self.prefill_factor, self.eager_s(shape, tokens)) + self.step_s


NO_HOST = HostTimes()
"""Kernels alone, as the floor and the roofline have it."""


class HostedModel(NamedTuple):
    """What of a deployment the host's times depend on.

    Attributes
    ----------
    layers, sparse_layers : int
        Layers, and those in which an indexer selects the tokens to attend to.
    ranks : int
        Accelerators that work on a layer together.
    launch_s : float
        Fixed times of all kernels of a decode step.
    adapter_kernels : int
        Kernels of low-rank adapters in a pass.
    quantizes : bool
        Whether activations are narrower than 16 bits in products.
    """

    layers: Any
    sparse_layers: Any
    ranks: Any
    launch_s: Any
    adapter_kernels: Any = 0
    quantizes: Any = False

    @classmethod
    def of(cls, serve: Deployment, launch_s: Any) -> HostedModel:
        """That of a deployment whose decode step has kernels with fixed times of ``launch_s`` together."""
        ranks = serve.parallel.tensor * serve.parallel.context
        kernels = further_kernels(serve.model)
        narrow = serve.precision.activation_bits < 16
        return cls(serve.model.layer_count, sparse_layers(serve.model), ranks, launch_s, kernels, narrow)


@lru_cache(maxsize=256)
def sparse_layers(model: Model) -> int:
    """Layers in which an indexer selects the tokens to attend to."""
    found = 0
    for layer in model.layers:
        indexers = [getattr(block, "indexer", None) for block in layer.blocks]
        if any(indexer is not None for indexer in indexers):
            found += layer.count
    return found
