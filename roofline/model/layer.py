"""Groups of equal layers, each a sequence of blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .. import operators
from ..errors import InvalidInput
from ..operators.operator import Operator, Pass
from ..operators.weights import Vector, Weight
from .blocks import Block, Cache
from .layout_collectives import behind_block


@dataclass(frozen=True)
class Layer:
    """``count`` equal layers.

    Attributes
    ----------
    count : how many
    blocks : what each is made of, in order: as a rule an attention kind and an MLP kind
    norms : parameters of each norm (a norm without parameters is 0)
    reused : whether the weights are those of an earlier group: run again, not stored again (Zamba)
    """

    count: int
    blocks: tuple[Block, ...]
    norms: tuple[int, ...] = ()
    reused: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or not 1 <= self.count <= MOST_LAYERS:
            raise InvalidInput(f"count must be a whole number from 1 to {MOST_LAYERS:,}: {self.count!r}")

    @property
    def kind(self) -> str:
        """The kinds of its blocks."""
        return " + ".join(block.kind for block in self.blocks) + (
            ", weights of an earlier layer" if self.reused else ""
        )

    def weights(self) -> Iterator[Weight]:
        """Weights of one of the layers."""
        for block in self.blocks:
            yield from block.weights()
        for size in self.norms:
            yield Vector("norm", size)

    def caches(self) -> Iterator[Cache]:
        """What one of the layers keeps of a sequence."""
        for block in self.blocks:
            yield from block.caches()

    def operators(self, run: Pass, hidden: int) -> Iterator[Operator]:
        """Operators of one pass through all ``count`` layers."""
        for block in self.blocks:
            found = list(block.operators(run))
            if found and not run.parallel.single:
                found.extend(behind_block(block, run))
            yield from (operator.times(self.count) for operator in found)
        if self.norms:
            size = sum(self.norms) / len(self.norms)
            norm = operators.elementwise("norm", run.tokens, 2 * hidden, run, parameters=size, source=NORM_SOURCE)
            yield norm.times(self.count * len(self.norms))
        residual = operators.elementwise("residual", run.tokens, 3 * hidden, run, source=RESIDUAL_SOURCE)
        yield residual.times(self.count * len(self.blocks))


MOST_LAYERS = 100_000

NORM_SOURCE = "norm: a token's vector read and written, its parameters read"
RESIDUAL_SOURCE = "residual: two vectors read and one written for each token"
