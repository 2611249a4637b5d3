"""Mixture of attention heads: query and output projections are experts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ... import operators
from ...errors import InvalidInput
from ...operators.operator import Operator, Pass
from ...operators.softmax_attention import attention
from ...operators.weights import Linear, Vector, Weight
from .block import Block, Cache, whole


@dataclass(frozen=True, eq=False, kw_only=True)
class MixtureOfAttention(Block):
    """Attention whose query and output projections are experts (JetMoE, arXiv:2404.07413, section 2.2).

    Keys and values are shared by all experts: ``kv_heads`` heads of ``head_dim``, which are cached.  A
    router sends every token to ``top_k`` of ``experts`` pairs of projections, each with ``kv_heads`` query heads, so a
    token has ``top_k kv_heads`` query heads and attention costs ``4 head_dim`` FLOPs for each of them and pair.

    Attributes
    ----------
    experts, top_k : int
        Number of pairs of projections, and of those used per token.
    kv_heads, head_dim : int
        Shape of the heads.

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1, or ``top_k`` exceeds ``experts``.
    """

    experts: int
    top_k: int
    kv_heads: int
    head_dim: int

    def __post_init__(self) -> None:
        whole(self, "hidden", "experts", "top_k", "kv_heads", "head_dim")
        if self.top_k > self.experts:
            raise InvalidInput(f"top_k must be at most the number of experts: {self.top_k} of {self.experts}")

    @property
    def kind(self) -> str:
        """Experts and heads."""
        return f"mixture of attention {self.top_k} of {self.experts} x {self.kv_heads} x {self.head_dim}"

    @property
    def width(self) -> int:
        """Width of the heads of one expert."""
        return self.kv_heads * self.head_dim

    def _dense(self) -> tuple[Linear, ...]:
        return (
            Linear("kv_proj", self.hidden, 2 * self.width, "attention", split="columns", pieces=self.kv_heads),
            Linear("attention_router", self.hidden, self.experts, "experts"),
        )

    def _experts(self) -> tuple[Linear, Linear]:
        def of_all(name: str, d_in: int, d_out: int, split: str) -> Linear:
            return Linear(name, d_in, d_out, "experts", False, self.experts, self.top_k, split, self.kv_heads)

        inward = of_all("experts_q", self.hidden, self.width, "columns")
        return inward, of_all("experts_o", self.width, self.hidden, "rows")

    def weights(self) -> tuple[Weight, ...]:
        """Keys and values, router, query and output experts, bias of the output."""
        return (*self._dense(), *self._experts(), Vector("output_bias", self.hidden, "experts"))

    def caches(self) -> tuple[Cache, ...]:
        """Keys and values."""
        return (Cache(values_per_token=2 * self.width, pieces=self.kv_heads),)

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Yield keys and values, router, query experts, attention of each segment, and output experts."""
        for weight in self._dense():
            yield operators.linear(weight, run.tokens, run)
        queries, outputs = self._experts()
        yield operators.experts(queries, run.tokens, run)
        for segment in run.segments:
            yield attention(
                segment,
                run,
                query_heads=self.top_k * self.kv_heads,
                key_dim=self.head_dim,
                value_dim=self.head_dim,
                kv_values=2 * self.width,
                kv_heads=self.kv_heads,
                window=None,
            )
        yield operators.experts(outputs, run.tokens, run)
