"""State-space and other recurrent mixers: Mamba 1 and 2, short convolutions, RG-LRU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ... import operators
from ...errors import InvalidInput
from ...operators.operator import Operator, Pass
from ...operators.recurrence import scan
from ...operators.weights import Linear, Vector, Weight
from .block import Block, Cache, whole


@dataclass(frozen=True, eq=False, kw_only=True)
class Mamba(Block):
    """Mamba 1 (arXiv:2312.00752, section 3): a selective scan over ``inner`` channels with ``state`` values each.

    A token updates every state value, ``h = exp(dt A) h + dt B x``, and reads it, ``y = C h``: a multiply-add each, ``4
    inner state`` FLOPs per token.  A causal convolution of ``conv`` taps comes before (``2 conv inner``).  The state is
    kept in 32 bits, the last ``conv`` inputs of the convolution in 16.

    Attributes
    ----------
    inner, state, conv : int
        Number of channels, state values per channel, and taps of the convolution.
    step_rank : int
        Rank of the projection of the step size.
    bias, conv_bias : bool
        Whether projections and convolution have biases.
    norms : bool
        Whether step, B and C are normalized (Jamba).

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1.
    """

    inner: int
    state: int = 16
    conv: int = 4
    step_rank: int
    bias: bool = False
    conv_bias: bool = True
    norms: bool = False

    def __post_init__(self) -> None:
        whole(self, "hidden", "inner", "state", "conv", "step_rank")

    @property
    def kind(self) -> str:
        """Channels and state."""
        return f"Mamba {self.inner:,} x {self.state}"

    def _inward(self) -> tuple[Linear, ...]:
        return (
            Linear("in_proj", self.hidden, 2 * self.inner, "mixer", self.bias, split="columns", pieces=self.inner),
            Linear("x_proj", self.inner, self.step_rank + 2 * self.state, "mixer", split="rows"),
            Linear("dt_proj", self.step_rank, self.inner, "mixer", True, split="columns"),
        )

    def _outward(self) -> Linear:
        return Linear("out_proj", self.inner, self.hidden, "mixer", self.bias, split="rows")

    @property
    def _small(self) -> Vector:
        size = self.inner * (self.state + 1 + self.conv + (1 if self.conv_bias else 0))
        return Vector("conv_and_decay", size + (self.step_rank + 2 * self.state if self.norms else 0), "mixer")

    def weights(self) -> tuple[Weight, ...]:
        """Projections; convolution, decays, skip."""
        return (*self._inward(), self._outward(), self._small)

    def caches(self) -> tuple[Cache, ...]:
        """State in 32 bits and convolution inputs in 16."""
        values, column_bytes = self.inner * self.state, 2.0 * self.inner
        state_bytes = 4.0 * values + column_bytes * self.conv
        cache = Cache(state_bytes=state_bytes, pieces=self.inner, state_values=values, column_bytes=column_bytes)
        return (cache,)

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Yield input projections, selective scan and output projection."""
        for weight in self._inward():
            yield operators.linear(weight, run.tokens, run)
        yield from scan(
            "selective_scan",
            run,
            heads=self.inner,
            flops_per_token=4 * self.inner * self.state + 2 * self.conv * self.inner,
            values_per_token=4 * self.inner + 2 * self.state,
            state_bytes=self.caches()[0].state_bytes,
            parameters=self._small.size,
        )
        yield operators.linear(self._outward(), run.tokens, run)


@dataclass(frozen=True, eq=False, kw_only=True)
class Mamba2(Block):
    """Mamba 2 (arXiv:2405.21060, sections 6 and 7): ``heads`` heads of ``head_dim``, each with ``head_dim x state``.

    Decay is one number per head, B and C are shared by the heads of a group.  Update and read of the state are a
    multiply-add each: ``4 heads head_dim state`` FLOPs per token.  The convolution runs over the channels and B and C.

    Attributes
    ----------
    heads, head_dim, state, groups, conv : int
        Heads, channels per head, state values per channel, groups of heads that share B and C, taps of the convolution.
    bias, conv_bias : bool
        Whether projections and convolution have biases.
    output_bias : bool, optional
        Whether the output projection has a bias; the same as ``bias`` if None.
    output_norm : bool
        Whether the output is normalized.

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1, or the heads are not a multiple of the groups.
    """

    heads: int
    head_dim: int
    state: int = 128
    groups: int = 1
    conv: int = 4
    bias: bool = False
    conv_bias: bool = True
    output_bias: bool | None = None
    output_norm: bool = True

    def __post_init__(self) -> None:
        whole(self, "hidden", "heads", "head_dim", "state", "groups", "conv")
        if self.heads % self.groups:
            raise InvalidInput(f"heads must be a multiple of groups: {self.heads} / {self.groups}")

    @property
    def kind(self) -> str:
        """Heads and state."""
        return f"Mamba 2 {self.heads} x {self.head_dim}x{self.state}"

    @property
    def inner(self) -> int:
        """Channels of all heads."""
        return self.heads * self.head_dim

    @property
    def channels(self) -> int:
        """Channels of the convolution."""
        return self.inner + 2 * self.groups * self.state

    def _inward(self) -> Linear:
        width = self.inner + self.channels + self.heads
        return Linear("in_proj", self.hidden, width, "mixer", self.bias, split="columns", pieces=self.heads)

    def _outward(self) -> Linear:
        bias = self.bias if self.output_bias is None else self.output_bias
        return Linear("out_proj", self.inner, self.hidden, "mixer", bias, split="rows", pieces=self.heads)

    @property
    def _small(self) -> Vector:
        taps = self.conv + (1 if self.conv_bias else 0)
        norm = self.inner if self.output_norm else 0
        return Vector("conv_and_decay", self.channels * taps + 3 * self.heads + norm, "mixer")

    def weights(self) -> tuple[Weight, ...]:
        """Projections; convolution, decays, step, skip, norm."""
        return (self._inward(), self._outward(), self._small)

    def caches(self) -> tuple[Cache, ...]:
        """State in 32 bits and convolution inputs in 16."""
        values, column_bytes = self.inner * self.state, 2.0 * self.channels
        state_bytes = 4.0 * values + column_bytes * self.conv
        cache = Cache(state_bytes=state_bytes, pieces=self.heads, state_values=values, column_bytes=column_bytes)
        return (cache,)

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Yield input projection, scan and output projection."""
        yield operators.linear(self._inward(), run.tokens, run)
        yield from scan(
            "state_space_scan",
            run,
            heads=self.heads,
            flops_per_token=4 * self.inner * self.state + 2 * self.conv * self.channels,
            values_per_token=2 * self.inner + self.channels,
            state_bytes=self.caches()[0].state_bytes,
            parameters=self._small.size,
        )
        yield operators.linear(self._outward(), run.tokens, run)


@dataclass(frozen=True, eq=False, kw_only=True)
class ShortConvolution(Block):
    """Gated short convolution (LFM2, arXiv:2511.23404): ``out(C * conv(B * x))`` with B, C and x projected together.

    A causal convolution of ``conv`` taps over ``hidden`` channels, ``2 conv hidden`` FLOPs per token; only its last
    ``conv`` inputs are kept.

    Attributes
    ----------
    conv : int
        Taps.
    bias : bool
        Whether projections and convolution have biases.

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1.
    """

    conv: int = 3
    bias: bool = False

    def __post_init__(self) -> None:
        whole(self, "hidden", "conv")

    @property
    def kind(self) -> str:
        """Taps."""
        return f"short convolution of {self.conv}"

    def weights(self) -> tuple[Weight, ...]:
        """Projections and taps."""
        return (self._inward(), self._outward(), self._small)

    def _inward(self) -> Linear:
        return Linear("in_proj", self.hidden, 3 * self.hidden, "mixer", self.bias, split="columns", pieces=self.hidden)

    def _outward(self) -> Linear:
        return Linear("out_proj", self.hidden, self.hidden, "mixer", self.bias, split="rows")

    @property
    def _small(self) -> Vector:
        return Vector("conv", self.hidden * (self.conv + (1 if self.bias else 0)), "mixer")

    def caches(self) -> tuple[Cache, ...]:
        """Inputs of the convolution in 16 bits."""
        column_bytes = 2.0 * self.hidden
        return (Cache(state_bytes=column_bytes * self.conv, pieces=self.hidden, column_bytes=column_bytes),)

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Yield input projection, convolution and output projection."""
        yield operators.linear(self._inward(), run.tokens, run)
        yield from scan(
            "short_convolution",
            run,
            heads=self.hidden,
            flops_per_token=2 * self.conv * self.hidden,
            values_per_token=4 * self.hidden,
            state_bytes=self.caches()[0].state_bytes,
            parameters=self._small.size,
        )
        yield operators.linear(self._outward(), run.tokens, run)


@dataclass(frozen=True, eq=False, kw_only=True)
class RGLRU(Block):
    """Recurrent block of Griffin and RecurrentGemma (arXiv:2402.19427, section 2.4).

    Two branches of ``width``: one is gated, the other passes a convolution of ``conv`` taps and a real-gated linear
    recurrent unit, whose two gates are block-diagonal in ``heads`` blocks: each of ``width`` outputs sums over
    ``width / heads`` inputs.  Its state is one value per channel.

    Attributes
    ----------
    width, heads, conv : int
        Number of channels, blocks of the gates, and taps of the convolution.

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1, or the width is not a multiple of the heads.
    """

    width: int
    heads: int
    conv: int = 4

    def __post_init__(self) -> None:
        whole(self, "hidden", "width", "heads", "conv")
        if self.width % self.heads:
            raise InvalidInput(f"width must be a multiple of heads: {self.width} / {self.heads}")

    @property
    def kind(self) -> str:
        """Channels."""
        return f"RG-LRU {self.width:,}"

    def _matrices(self) -> tuple[Linear, ...]:
        block = self.width // self.heads
        return (
            Linear("linear_y", self.hidden, self.width, "mixer", True, split="columns", pieces=self.heads),
            Linear("linear_x", self.hidden, self.width, "mixer", True, split="columns", pieces=self.heads),
            Linear("input_gate", block, self.width, "mixer", True, split="columns", pieces=self.heads),
            Linear("recurrent_gate", block, self.width, "mixer", True, split="columns", pieces=self.heads),
            Linear("linear_out", self.width, self.hidden, "mixer", True, split="rows", pieces=self.heads),
        )

    def weights(self) -> tuple[Weight, ...]:
        """Projections, gates, convolution, decay."""
        return (*self._matrices(), Vector("conv_and_decay", self.width * (self.conv + 2), "mixer"))

    def caches(self) -> tuple[Cache, ...]:
        """State in 32 bits and convolution inputs in 16."""
        state_bytes = 4.0 * self.width + 2.0 * self.width * (self.conv - 1)
        return (Cache(state_bytes=state_bytes, pieces=self.heads),)

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Yield projections and gates, recurrence and output projection."""
        for weight in self._matrices():
            yield operators.linear(weight, run.tokens, run)
        yield from scan(
            "rg_lru",
            run,
            heads=self.heads,
            flops_per_token=2 * self.width * (self.conv + 2),
            values_per_token=5 * self.width,
            state_bytes=self.caches()[0].state_bytes,
            parameters=self.width * (self.conv + 2),
        )
