"""Groups of equal layers, each a sequence of blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .. import operators
from ..errors import InvalidInput
from ..operators.operator import Operator, Pass
from ..operators.weights import Vector, Weight
from ..values import Value
from .blocks import Block, Cache
from .layout_collectives import behind_blocks


@dataclass(frozen=True, eq=False)
class Layer(Value):
    """A group of ``count`` equal layers.

    Attributes
    ----------
    count : int
        Number of layers.
    blocks : tuple of Block
        Blocks of each layer, in order: usually an attention kind and an MLP kind.
    norms : tuple of int
        Parameters of each norm (0 for a norm without parameters).
    reused : bool
        Whether the weights are shared with an earlier group, so they are not stored again (Zamba).
    together : tuple of int
        Numbers of successive blocks whose outputs are added before anything reads the sum: ``(2,)`` for attention and
        MLP in parallel (GPT-J, Falcon). Each block by itself if empty.
    """

    count: int
    blocks: tuple[Block, ...]
    norms: tuple[int, ...] = ()
    reused: bool = False
    together: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or not 1 <= self.count <= MOST_LAYERS:
            raise InvalidInput(f"count must be an integer from 1 to {MOST_LAYERS:,}: {self.count!r}")
        if self.together and (sum(self.together) != len(self.blocks) or min(self.together) < 1):
            raise InvalidInput(f"together must add up to the {len(self.blocks)} blocks: {list(self.together)}")

    @property
    def kind(self) -> str:
        """Kinds of the blocks."""
        return " + ".join(block.kind for block in self.blocks) + (
            ", weights of an earlier layer" if self.reused else ""
        )

    def weights(self) -> Iterator[Weight]:
        """Weights of one layer."""
        for block in self.blocks:
            yield from block.weights()
        for size in self.norms:
            yield Vector("norm", size)

    def caches(self) -> Iterator[Cache]:
        """Caches of one layer for a sequence."""
        for block in self.blocks:
            yield from block.caches()

    def added(self) -> Iterator[tuple[Block, ...]]:
        """Blocks in groups whose outputs are added together."""
        start = 0
        for size in self.together or (1,) * len(self.blocks):
            yield self.blocks[start : start + size]
            start += size

    def operators(self, run: Pass, hidden: int) -> Iterator[Operator]:
        """Yield the operators of one pass through all layers; layers that architecture search removed have none."""
        if not self.blocks:
            return
        for blocks in self.added():
            found: list[Operator] = []
            for block in blocks:
                found.extend(block.operators(run))
            if found and not run.parallel.single:
                found.extend(behind_blocks(blocks, run))
            yield from (operator.times(self.count) for operator in found)
        if self.norms:
            size = sum(self.norms) / len(self.norms)
            norm = operators.elementwise("norm", run.tokens, 2 * hidden, run, parameters=size, source=NORM_SOURCE)
            yield norm.times(self.count * len(self.norms))
        sums = len(self.together) or len(self.blocks)
        vectors = 2 + len(self.blocks) / sums
        residual = operators.elementwise("residual", run.tokens, vectors * hidden, run, source=RESIDUAL_SOURCE)
        yield residual.times(self.count * sums)


MOST_LAYERS = 100_000

NORM_SOURCE = "norm: the vector of each token read and written, the parameters read"
RESIDUAL_SOURCE = "residual: the stream and a block's output read, their sum written for each token"
