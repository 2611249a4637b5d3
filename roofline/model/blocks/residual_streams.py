"""Blocks other than attention and MLP: hyper-connections, per-layer inputs, AltUp, plain projections."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ... import operators
from ...operators.operator import Operator, Pass
from ...operators.weights import Linear, Vector, Weight
from .block import Block, Cache, whole


@dataclass(frozen=True, eq=False, kw_only=True)
class HyperConnections(Block):
    """Hyper-connections (arXiv:2409.19606; manifold-constrained: arXiv:2512.24880): several residual streams.

    ``streams`` residual vectors are read together; each of ``maps`` maps projects all of them to ``outputs`` mixing
    weights, ``2 streams hidden outputs`` FLOPs per token, and the streams are mixed with those (elementwise).

    Attributes
    ----------
    streams : int
        Residual streams.
    outputs : int
        Number of mixing weights per map.
    scales : int
        Number of learned scales per map.
    maps : int
        Number of maps per layer: usually one before attention and one before the MLP.

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1.
    """

    streams: int = 4
    outputs: int = 24
    scales: int = 3
    maps: int = 2

    def __post_init__(self) -> None:
        whole(self, "hidden", "streams", "outputs", "maps")

    @property
    def kind(self) -> str:
        """Streams."""
        return f"hyper-connections of {self.streams} streams"

    def _matrices(self) -> tuple[Linear, ...]:
        return (Linear("hyper_connection", self.streams * self.hidden, self.outputs, "other"),) * self.maps

    def weights(self) -> tuple[Weight, ...]:
        """Maps, their offsets and scales."""
        return (*self._matrices(), Vector("hyper_scale", self.maps * (self.outputs + self.scales), "other"))

    def operators(self, run: Pass) -> Iterator[Operator]:
        """The maps, and the streams read and written."""
        for weight in self._matrices():
            yield operators.linear(weight, run.tokens, run)
            yield operators.elementwise(
                "mix_streams", run.tokens, 2 * self.streams * self.hidden, run, source="streams read and written"
            )


@dataclass(frozen=True, eq=False, kw_only=True)
class PerLayerInput(Block):
    """Per-layer embeddings (Gemma 3n, Gemma 4): a looked-up vector of ``width`` is gated and added in each layer.

    ``2 (hidden width + width hidden)`` FLOPs per token.  The table itself is a lookup, see ``Model.tables``.

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1.
    """

    width: int

    def __post_init__(self) -> None:
        whole(self, "hidden", "width")

    @property
    def kind(self) -> str:
        """Its width."""
        return f"per-layer input {self.width}"

    def weights(self) -> tuple[Linear, ...]:
        """Gate and projection."""
        return (
            Linear("per_layer_gate", self.hidden, self.width, "other"),
            Linear("per_layer_projection", self.width, self.hidden, "other"),
        )

    def operators(self, run: Pass) -> Iterator[Operator]:
        """One product per matrix."""
        for weight in self.weights():
            yield operators.linear(weight, run.tokens, run)


@dataclass(frozen=True, eq=False, kw_only=True)
class AltUp(Block):
    """Alternating updates (arXiv:2301.13310) with learned augmented residuals (arXiv:2411.07501), as in Gemma 3n.

    ``streams`` copies of the residual stream are predicted and corrected with coefficients that a router of
    ``hidden x streams`` gives; a residual of rank ``rank`` runs parallel to attention.

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1.
    """

    streams: int
    rank: int

    def __post_init__(self) -> None:
        whole(self, "hidden", "streams", "rank")

    @property
    def kind(self) -> str:
        """Streams and rank."""
        return f"AltUp of {self.streams}, LAuReL rank {self.rank}"

    def _matrices(self) -> tuple[Linear, ...]:
        return (
            Linear("altup_router", self.hidden, self.streams, "other"),
            Linear("altup_prediction", self.streams, self.streams**2, "other"),
            Linear("altup_correction", self.streams, self.streams, "other"),
            Linear("laurel_left", self.hidden, self.rank, "other"),
            Linear("laurel_right", self.rank, self.hidden, "other"),
        )

    def weights(self) -> tuple[Weight, ...]:
        """Router, coefficients, low-rank residual, output scale."""
        return (*self._matrices(), Vector("altup_scale", self.hidden, "other"))

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Products, and the streams read and written."""
        for weight in self._matrices():
            yield operators.linear(weight, run.tokens, run)
        yield operators.elementwise(
            "altup_streams", run.tokens, 2 * self.streams * self.hidden, run, source="streams read and written"
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class BlockResidual(Block):
    """Residuals by attention over blocks of layers (attention residuals; Kimi K3, arXiv:2607.24653, section 2.2).

    The input of attention and of the MLP is a weighted sum of the outputs of earlier blocks of layers and the running
    sum of the layer's own block.  The weights are a softmax over the scores of a learned query.  All ``sources`` states
    are scored and summed for each of ``queries`` inputs, ``4 hidden`` FLOPs per state: elementwise work that reads
    every state.

    Attributes
    ----------
    sources : int
        Number of states read, averaged over the layers.
    queries : int
        Number of mixed inputs.
    norms : bool
        Whether each query has the weights of a norm of the states.

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1.
    """

    sources: int
    queries: int = 2
    norms: bool = False

    def __post_init__(self) -> None:
        whole(self, "hidden", "sources", "queries")

    @property
    def kind(self) -> str:
        """States that are mixed."""
        return f"residual over {self.sources} blocks"

    @property
    def _size(self) -> int:
        return self.queries * self.hidden * (2 if self.norms else 1)

    def weights(self) -> tuple[Weight, ...]:
        """The queries, and the norms if there are any."""
        return (Vector("block_residual", self._size, "other"),)

    def operators(self, run: Pass) -> Iterator[Operator]:
        """The states read for each query, and its sum written."""
        values = self.queries * (self.sources + 1) * self.hidden
        yield operators.elementwise("block_residual", run.tokens, values, run, parameters=self._size)


@dataclass(frozen=True, eq=False, kw_only=True)
class Projection(Block):
    """A plain matrix of ``hidden x output`` outside the usual blocks, ``copies`` times, with a norm of ``norm``.

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1.
    """

    output: int
    name: str = "projection"
    bias: bool = False
    copies: int = 1
    norm: int = 0

    def __post_init__(self) -> None:
        whole(self, "hidden", "output", "copies")

    @property
    def kind(self) -> str:
        """Its shape."""
        return f"{self.name} {self.hidden:,}x{self.output:,}"

    def matrices(self) -> tuple[Linear, ...]:
        """The matrices."""
        return (Linear(self.name, self.hidden, self.output, "other", self.bias),) * self.copies

    def weights(self) -> tuple[Weight, ...]:
        """The matrices, and the norm if there is one."""
        return (*self.matrices(), *((Vector("projection_norm", self.norm),) if self.norm else ()))

    def operators(self, run: Pass) -> Iterator[Operator]:
        """One product per matrix."""
        for weight in self.matrices():
            yield operators.linear(weight, run.tokens, run)


@dataclass(frozen=True, eq=False, kw_only=True)
class ConvolvedHeads(Block):
    """Convolutions over queries and keys (compressed convolutional attention, arXiv:2510.04476, section 3).

    Queries and keys of a token, ``channels`` values, pass a depthwise convolution of ``taps`` taps and one that mixes
    the ``head_dim`` values of each head over as many taps: ``2 channels (taps + taps head_dim)`` FLOPs per token.  Half
    of each value comes from the previous token.  The last inputs of both convolutions and half a value are kept.

    Attributes
    ----------
    query_heads, kv_heads, head_dim : int
        Heads that are convolved.
    taps : int
        Taps of each of the two convolutions.

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1.
    """

    query_heads: int
    kv_heads: int
    head_dim: int
    taps: int = 2

    def __post_init__(self) -> None:
        whole(self, "hidden", "query_heads", "kv_heads", "head_dim", "taps")

    @property
    def kind(self) -> str:
        """Taps."""
        return f"convolved heads, {self.taps} taps"

    @property
    def channels(self) -> int:
        """Values of queries and keys together."""
        return (self.query_heads + self.kv_heads) * self.head_dim

    def _mix(self) -> Linear:
        return Linear("conv_qk_grouped", self.taps * self.head_dim, self.channels, "attention", True)

    @property
    def _small(self) -> Vector:
        return Vector("conv_qk_depthwise", self.channels * (self.taps + 1) + self.kv_heads, "attention")

    def weights(self) -> tuple[Weight, ...]:
        """Both convolutions with their biases, a temperature for each KV head."""
        return (self._mix(), self._small)

    def caches(self) -> tuple[Cache, ...]:
        """Inputs of the convolutions and half a value, in 16 bits."""
        kept = self.channels * 2 * (self.taps - 1) + self.kv_heads * self.head_dim // 2
        return (Cache(state_bytes=2.0 * kept),)

    def operators(self, run: Pass) -> Iterator[Operator]:
        """The mixing convolution as a product, the depthwise one elementwise."""
        yield operators.linear(self._mix(), run.tokens, run)
        yield operators.elementwise(
            "conv_qk_depthwise", run.tokens, 2 * self.channels, run, parameters=self._small.size
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class CausalConvolution(Block):
    """Depthwise causal convolutions of ``taps`` taps over ``channels`` channels, anywhere in a layer.

    ``2 taps channels`` FLOPs per token, elementwise; the last inputs of each channel are kept in 32 bits.

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1.
    """

    channels: int
    taps: int = 4

    def __post_init__(self) -> None:
        whole(self, "hidden", "channels", "taps")

    @property
    def kind(self) -> str:
        """Channels and taps."""
        return f"convolution of {self.channels:,} x {self.taps}"

    def weights(self) -> tuple[Weight, ...]:
        """The taps."""
        return (Vector("conv", self.channels * self.taps, "mixer"),)

    def caches(self) -> tuple[Cache, ...]:
        """Inputs of the convolution in 32 bits."""
        return (Cache(state_bytes=4.0 * self.channels * self.taps),)

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Inputs and outputs moved."""
        yield operators.elementwise(
            "causal_convolution", run.tokens, 2 * self.channels, run, parameters=self.channels * self.taps
        )
