"""Softmax attention with a KV cache: MHA, MQA, GQA, with or without a sliding window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .. import operators
from ..errors import InvalidInput
from ..operators import Operator, Pass
from ..weights import Linear, Vector, Weight
from .block import Block, Cache, whole


@dataclass(frozen=True, kw_only=True)
class Attention(Block):
    """Causal attention whose query heads share KV heads.

    ``kv_heads == query_heads`` is MHA (arXiv:1706.03762), ``kv_heads == 1`` MQA (arXiv:1911.02150), in between GQA
    (arXiv:2305.13245).  A token is projected to ``query_heads`` queries of ``head_dim`` and to ``kv_heads`` keys of
    ``head_dim`` and values of ``value_dim``; the heads' outputs are projected back.  Keys and values are what the cache
    holds: ``kv_heads * (head_dim + value_dim)`` values a token, for the last ``window`` tokens if there is a window.

    Attributes
    ----------
    query_heads, kv_heads, head_dim : shape of the heads
    value_dim : width of a value, ``head_dim`` if None
    window : tokens that a query sees at most, itself included; None for all
    qkv_bias, output_bias : whether the projections have biases
    qk_norm : whether queries and keys are normalized by head
    sinks : whether each query head has a learned sink (gpt-oss)

    Raises
    ------
    InvalidInput
        A size that is not a whole number >= 1, or query heads that the KV heads do not divide.
    """

    query_heads: int
    kv_heads: int
    head_dim: int
    value_dim: int | None = None
    window: int | None = None
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: bool = False
    sinks: bool = False

    def __post_init__(self) -> None:
        whole(self, "hidden", "query_heads", "kv_heads", "head_dim")
        if self.query_heads % self.kv_heads:
            raise InvalidInput(f"query_heads must be a multiple of kv_heads: {self.query_heads} / {self.kv_heads}")

    @property
    def kind(self) -> str:
        """MHA, MQA or GQA with its heads, and the window."""
        family = {self.query_heads: "MHA", 1: "MQA"}.get(self.kv_heads, "GQA")
        heads = f"{self.query_heads}" if family == "MHA" else f"{self.query_heads}/{self.kv_heads}"
        return f"{family} {heads} x {self.head_dim}" + (f", window {self.window:,}" if self.window else "")

    @property
    def value_width(self) -> int:
        """Width of one value."""
        return self.value_dim or self.head_dim

    @property
    def kv_values(self) -> int:
        """Values that the cache holds for a token."""
        return self.kv_heads * (self.head_dim + self.value_width)

    def weights(self) -> tuple[Weight, ...]:
        """Projections, then the small vectors."""
        vectors: list[Weight] = []
        if self.qk_norm:
            vectors.append(Vector("qk_norm", 2 * self.head_dim))
        if self.sinks:
            vectors.append(Vector("sinks", self.query_heads))
        return (*self._inward(), self._outward(), *vectors)

    def _inward(self) -> tuple[Linear, ...]:
        queries, keys, values = (
            self.query_heads * self.head_dim,
            self.kv_heads * self.head_dim,
            self.kv_heads * self.value_width,
        )
        return (
            Linear("q_proj", self.hidden, queries, "attention", self.qkv_bias),
            Linear("k_proj", self.hidden, keys, "attention", self.qkv_bias),
            Linear("v_proj", self.hidden, values, "attention", self.qkv_bias),
        )

    def _outward(self) -> Linear:
        return Linear("o_proj", self.query_heads * self.value_width, self.hidden, "attention", self.output_bias)

    def caches(self) -> tuple[Cache, ...]:
        """Keys and values, capped by the window."""
        return (Cache(values_per_token=self.kv_values, window=self.window),)

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Projections in, attention of each segment, projection out."""
        for weight in self._inward():
            yield operators.linear(weight, run.tokens, run)
        if self.qk_norm:
            normed = (self.query_heads + self.kv_heads) * self.head_dim
            yield operators.elementwise(
                "qk_norm", run.tokens, 2 * normed, run, parameters=2 * self.head_dim
            )
        for segment in run.segments:
            yield operators.attention(
                segment,
                query_heads=self.query_heads,
                key_dim=self.head_dim,
                value_dim=self.value_width,
                kv_values=self.kv_values,
                window=self.window,
                run=run,
            )
        yield operators.linear(self._outward(), run.tokens, run)
