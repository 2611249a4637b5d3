"""Linear attention: the memory is a matrix of constant size, updated and read at every token."""

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
class GatedDeltaNet(Block):
    """Gated delta net (arXiv:2412.06464), as in Qwen3-Next, Qwen3.5 and OLMo hybrid.

    Each of ``value_heads`` heads keeps a state ``S`` of ``key_dim x value_dim``.  A token decays it and writes the
    error of its prediction (equation 10 there), then reads it:

        S = a S + b k (v - (a S)^T k)^T        o = S^T q

    Prediction, outer product and read are ``2 key_dim value_dim`` FLOPs each, so ``6 key_dim value_dim`` per head and
    token, whatever the length.  The state stays in 32 bits.  Queries, keys and values pass a causal convolution of
    ``conv`` taps first (``2 conv`` FLOPs per channel), which keeps ``conv`` inputs of each channel.

    Attributes
    ----------
    key_heads, key_dim, value_heads, value_dim : int
        Shape of the heads.
    conv : int
        Taps of the convolution.

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1, or the value heads are not a multiple of the key heads.
    """

    key_heads: int
    key_dim: int
    value_heads: int
    value_dim: int
    conv: int = 4

    def __post_init__(self) -> None:
        whole(self, "hidden", "key_heads", "key_dim", "value_heads", "value_dim", "conv")
        if self.value_heads % self.key_heads:
            raise InvalidInput(f"value_heads must be a multiple of key_heads: {self.value_heads} / {self.key_heads}")

    @property
    def kind(self) -> str:
        """Heads and state."""
        return f"gated delta net {self.value_heads} x {self.key_dim}x{self.value_dim}"

    @property
    def channels(self) -> int:
        """Channels of the convolution: queries, keys and values."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    def weights(self) -> tuple[Weight, ...]:
        """Projections; convolution, decay, step and norm of the output."""
        small = Vector("conv_and_decay", self.channels * self.conv + 2 * self.value_heads + self.value_dim, "mixer")
        return (*self._inward(), self._outward(), small)

    def _inward(self) -> tuple[Linear, ...]:
        values = self.value_heads * self.value_dim
        return (
            Linear("in_proj_qkv", self.hidden, self.channels, "mixer", split="columns", pieces=self.value_heads),
            Linear(
                "in_proj_z",
                self.hidden,
                values,
                "mixer",
                split="columns",
                pieces=self.value_heads,
                joins="in_proj_qkv",
            ),
            Linear("in_proj_ba", self.hidden, 2 * self.value_heads, "mixer", split="columns", pieces=self.value_heads),
        )

    def _outward(self) -> Linear:
        values = self.value_heads * self.value_dim
        return Linear("out_proj", values, self.hidden, "mixer", split="rows", pieces=self.value_heads)

    @property
    def state_values(self) -> int:
        """Values of the recurrent state."""
        return self.value_heads * self.key_dim * self.value_dim

    def caches(self) -> tuple[Cache, ...]:
        """The state in 32 bits, and the last inputs of the convolution in 16."""
        values, column_bytes = self.state_values, 2.0 * self.channels
        state_bytes, heads = 4.0 * values + column_bytes * self.conv, self.value_heads
        return (Cache(state_bytes=state_bytes, pieces=heads, state_values=values, column_bytes=column_bytes),)

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Yield input projections, recurrence and output projection."""
        for weight in self._inward():
            yield operators.linear(weight, run.tokens, run)
        yield from scan(
            "gated_delta_rule",
            run,
            heads=self.value_heads,
            flops_per_token=6 * self.state_values + 2 * self.channels * self.conv,
            values_per_token=2 * self.channels,
            state_bytes=self.caches()[0].state_bytes,
            parameters=self.channels * self.conv + 2 * self.value_heads + self.value_dim,
        )
        yield operators.linear(self._outward(), run.tokens, run)


@dataclass(frozen=True, eq=False, kw_only=True)
class KimiDeltaAttention(Block):
    """Kimi delta attention (KDA; arXiv:2510.26692, section 3): the gated delta rule with a decay for each channel.

    State and work are those of `GatedDeltaNet` with equal heads for keys and values: ``6 dim^2`` FLOPs per head and
    token.  The decay of each channel and the gate of the output are projected through a bottleneck of ``dim``, both
    directly with ``low_rank`` off (Ling 3), or only the gate directly with ``full_rank_gate`` (Kimi K3).

    Attributes
    ----------
    heads, dim : int
        Heads and their width.
    conv : int
        Taps of the convolution.
    low_rank : bool
        Whether the projections of decay and gate are of rank ``dim``.
    full_rank_gate : bool
        Whether the gate is projected directly even with ``low_rank``.

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1.
    """

    heads: int
    dim: int
    conv: int = 4
    low_rank: bool = True
    full_rank_gate: bool = False

    def __post_init__(self) -> None:
        whole(self, "hidden", "heads", "dim", "conv")

    @property
    def kind(self) -> str:
        """Heads and state."""
        return f"Kimi delta attention {self.heads} x {self.dim}x{self.dim}"

    @property
    def width(self) -> int:
        """Width of all heads together."""
        return self.heads * self.dim

    def _inward(self) -> tuple[Linear, ...]:
        def by_heads(name: str, d_in: int, d_out: int) -> Linear:
            return Linear(name, d_in, d_out, "mixer", split="columns", pieces=self.heads)

        def projection(name: str, low_rank: bool) -> tuple[Linear, ...]:
            if not low_rank:
                return (by_heads(f"{name}_proj", self.hidden, self.width),)
            return (
                Linear(f"{name}_a_proj", self.hidden, self.dim, "mixer"),
                by_heads(f"{name}_b_proj", self.dim, self.width),
            )

        return (
            by_heads("in_proj_qkv", self.hidden, 3 * self.width),
            *projection("decay", self.low_rank),
            by_heads("beta_proj", self.hidden, self.heads),
            *projection("gate", self.low_rank and not self.full_rank_gate),
        )

    def _outward(self) -> Linear:
        return Linear("o_proj", self.width, self.hidden, "mixer", split="rows", pieces=self.heads)

    @property
    def _small(self) -> Vector:
        return Vector("conv_and_decay", 3 * self.width * self.conv + self.width + self.heads + self.dim, "mixer")

    def weights(self) -> tuple[Weight, ...]:
        """Projections; convolution, decay and norm of the output."""
        return (*self._inward(), self._outward(), self._small)

    def caches(self) -> tuple[Cache, ...]:
        """The state in 32 bits, and the last inputs of the convolution in 16."""
        values, column_bytes = self.heads * self.dim**2, 2.0 * 3 * self.width
        state_bytes = 4.0 * values + column_bytes * self.conv
        cache = Cache(state_bytes=state_bytes, pieces=self.heads, state_values=values, column_bytes=column_bytes)
        return (cache,)

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Yield input projections, recurrence and output projection."""
        for weight in self._inward():
            yield operators.linear(weight, run.tokens, run)
        yield from scan(
            "kimi_delta_rule",
            run,
            heads=self.heads,
            flops_per_token=6 * self.heads * self.dim**2 + 2 * 3 * self.width * self.conv,
            values_per_token=7 * self.width,
            state_bytes=self.caches()[0].state_bytes,
            parameters=self._small.size,
        )
        yield operators.linear(self._outward(), run.tokens, run)


@dataclass(frozen=True, eq=False, kw_only=True)
class LightningAttention(Block):
    """Linear attention with a fixed decay for each head (lightning attention, arXiv:2405.17381; MiniMax-01).

    Each head keeps ``S = sum over tokens of decay * k v^T``: an outer product and a read, ``4 dim^2`` FLOPs per head
    and token.  The output is normalized and gated.  Ling 2.5's simple gated linear attention is the same.

    Attributes
    ----------
    heads, dim : int
        Heads and their width.
    qk_norm : bool
        Whether queries and keys are normalized, with a vector each for every head.

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1.
    """

    heads: int
    dim: int
    qk_norm: bool = False

    def __post_init__(self) -> None:
        whole(self, "hidden", "heads", "dim")

    @property
    def kind(self) -> str:
        """Heads and state."""
        return f"lightning attention {self.heads} x {self.dim}x{self.dim}"

    def _inward(self) -> tuple[Linear, ...]:
        width = self.heads * self.dim
        return (
            Linear("qkv_proj", self.hidden, 3 * width, "mixer", split="columns", pieces=self.heads),
            Linear("output_gate", self.hidden, width, "mixer", split="columns", pieces=self.heads),
        )

    def _outward(self) -> Linear:
        return Linear("out_proj", self.heads * self.dim, self.hidden, "mixer", split="rows", pieces=self.heads)

    def weights(self) -> tuple[Weight, ...]:
        """Projections, the norm of the output, and those of queries and keys if there are any."""
        return (*self._inward(), self._outward(), Vector("norms", self._norms, "mixer"))

    @property
    def _norms(self) -> int:
        return self.heads * self.dim + (2 * self.dim if self.qk_norm else 0)

    def caches(self) -> tuple[Cache, ...]:
        """The state in 32 bits."""
        values = self.heads * self.dim**2
        return (Cache(state_bytes=4.0 * values, pieces=self.heads, state_values=values),)

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Yield input projections, recurrence and output projection."""
        for weight in self._inward():
            yield operators.linear(weight, run.tokens, run)
        yield from scan(
            "lightning_attention",
            run,
            heads=self.heads,
            flops_per_token=4 * self.heads * self.dim**2,
            values_per_token=5 * self.heads * self.dim,
            state_bytes=self.caches()[0].state_bytes,
            parameters=self._norms,
        )
        yield operators.linear(self._outward(), run.tokens, run)
