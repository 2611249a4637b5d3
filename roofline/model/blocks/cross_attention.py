"""Cross-attention layers: text attends to the tokens of an image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...operators.operator import Operator, Pass
from ...operators.weights import Vector, Weight
from .block import Block, whole
from .grouped_query_attention import Attention
from .mlp import MLP


@dataclass(frozen=True, kw_only=True)
class CrossAttentionLayer(Block):
    """A whole layer that attends to image tokens (Llama 3.2 Vision, arXiv:2407.21783, section 7.3).

    Its keys and values come from the image, so its cache depends on image tokens and not on the context, and a pass
    without an image skips it, MLP and all: it is resident and does no work in text.

    Attributes
    ----------
    query_heads, kv_heads, head_dim : int
        Shape of the heads.
    intermediate : int
        Inner width of its MLP.

    Raises
    ------
    InvalidInput
        A size that is not a whole number >= 1, or query heads that the KV heads do not divide.
    """

    query_heads: int
    kv_heads: int
    head_dim: int
    intermediate: int

    def __post_init__(self) -> None:
        whole(self, "hidden", "query_heads", "kv_heads", "head_dim", "intermediate")

    @property
    def kind(self) -> str:
        """Heads."""
        return f"cross-attention {self.query_heads}/{self.kv_heads} x {self.head_dim} to an image"

    def weights(self) -> tuple[Weight, ...]:
        """Attention, MLP, a gate for each."""
        attention = Attention(
            hidden=self.hidden,
            query_heads=self.query_heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            qk_norm=True,
        )
        mlp = MLP(hidden=self.hidden, intermediate=self.intermediate)
        return (*attention.weights(), *mlp.weights(), Vector("gates", 2, "other"))

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Nothing without an image."""
        yield from ()
