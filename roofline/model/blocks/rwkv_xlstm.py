"""Other recurrent layers: RWKV-4 and the matrix LSTM of xLSTM."""

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
class RWKV(Block):
    """RWKV-4 (arXiv:2305.13048, section 3): time mixing and channel mixing, together one layer.

    Time mixing keeps a weighted sum of values and its normalizer for each of ``width`` channels, a multiply-add each:
    ``4 width`` FLOPs per token.  Channel mixing is ``sigmoid(receptance) * value(relu(key)^2)``.  Both mix a token with
    the previous one, which is kept too.

    Attributes
    ----------
    width : int
        Channels of time mixing.
    intermediate : int
        Inner width of channel mixing.

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1.
    """

    width: int
    intermediate: int

    def __post_init__(self) -> None:
        whole(self, "hidden", "width", "intermediate")

    @property
    def kind(self) -> str:
        """Channels and inner width."""
        return f"RWKV-4 {self.width:,}, channel mix {self.intermediate:,}"

    def _matrices(self) -> tuple[Linear, ...]:
        into = (Linear(name, self.hidden, self.width, "mixer") for name in ("key", "value", "receptance"))
        return (
            *into,
            Linear("output", self.width, self.hidden, "mixer"),
            Linear("channel_key", self.hidden, self.intermediate, "mlp"),
            Linear("channel_receptance", self.hidden, self.hidden, "mlp"),
            Linear("channel_value", self.intermediate, self.hidden, "mlp"),
        )

    def weights(self) -> tuple[Weight, ...]:
        """Matrices; decay, bonus, and the mixes of time and channel."""
        return (*self._matrices(), Vector("time_mix", 2 * self.width + 5 * self.hidden, "mixer"))

    def caches(self) -> tuple[Cache, ...]:
        """Numerator, denominator and exponent of each channel, and the previous token twice, in 32 bits."""
        return (Cache(state_bytes=4.0 * (3 * self.width + 2 * self.hidden)),)

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Products, and the recurrence."""
        for weight in self._matrices():
            yield operators.linear(weight, run.tokens, run)
        yield from scan(
            "time_mix",
            run,
            flops_per_token=4 * self.width,
            values_per_token=4 * self.width,
            state_bytes=self.caches()[0].state_bytes,
            heads=1,
            parameters=2 * self.width + 5 * self.hidden,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class MatrixLSTM(Block):
    """Matrix LSTM (xLSTM, arXiv:2405.04517, section 2.3): a matrix memory with an input and a forget gate per head.

    ``C = f C + i v k^T`` and ``h = o * C q / max(|n q|, 1)``: an outer product and a read, ``4 key_dim value_dim``
    FLOPs per head and token.  Memory, normalizer and stabilizer stay in 32 bits.

    Attributes
    ----------
    heads, key_dim, value_dim : int
        Shape of the heads.

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1.
    """

    heads: int
    key_dim: int
    value_dim: int

    def __post_init__(self) -> None:
        whole(self, "hidden", "heads", "key_dim", "value_dim")
        if self.key_dim > 10**6 or self.value_dim > 10**6:
            raise InvalidInput(f"a head is at most a million wide: {self.key_dim} x {self.value_dim}")

    @property
    def kind(self) -> str:
        """Heads and memory."""
        return f"matrix LSTM {self.heads} x {self.key_dim}x{self.value_dim}"

    def _inward(self) -> tuple[Linear, ...]:
        keys, values = self.heads * self.key_dim, self.heads * self.value_dim
        return (
            Linear("q", self.hidden, keys, "mixer", split="columns", pieces=self.heads),
            Linear("k", self.hidden, keys, "mixer", split="columns", pieces=self.heads),
            Linear("v", self.hidden, values, "mixer", split="columns", pieces=self.heads),
            Linear("output_gate", self.hidden, values, "mixer", split="columns", pieces=self.heads),
            Linear("input_gate", self.hidden, self.heads, "mixer", True, split="columns"),
            Linear("forget_gate", self.hidden, self.heads, "mixer", True, split="columns"),
        )

    def _outward(self) -> Linear:
        width, heads = self.heads * self.value_dim, self.heads
        return Linear("out_proj", width, self.hidden, "mixer", split="rows", pieces=heads)

    def weights(self) -> tuple[Weight, ...]:
        """Projections and gates, norm of the output."""
        return (*self._inward(), self._outward(), Vector("output_norm", self.heads * self.value_dim, "mixer"))

    def caches(self) -> tuple[Cache, ...]:
        """Memory, normalizer and stabilizer of each head in 32 bits."""
        state_bytes = 4.0 * self.heads * (self.key_dim * self.value_dim + self.key_dim + 1)
        return (Cache(state_bytes=state_bytes, pieces=self.heads),)

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Yield input projections, recurrence and output projection."""
        for weight in self._inward():
            yield operators.linear(weight, run.tokens, run)
        yield from scan(
            "matrix_lstm",
            run,
            flops_per_token=4 * self.heads * self.key_dim * self.value_dim,
            values_per_token=2 * self.heads * (self.key_dim + self.value_dim),
            state_bytes=self.caches()[0].state_bytes,
            heads=self.heads,
            parameters=self.heads * self.value_dim,
        )
        yield operators.linear(self._outward(), run.tokens, run)
