"""The encoder of an encoder-decoder, which runs once over the source; the decoder attends to its output."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from .. import operators
from ..operators.operator import Operator, Pass, Segment
from ..operators.weights import Linear, Vector, Weight
from ..values import Value
from .layer import NORM_SOURCE, Layer
from .parameters import LookupTable
from .tower import Product, named


@dataclass(frozen=True, eq=False, kw_only=True)
class EncoderStack(Value):
    """Layers of an encoder, whose tokens all see each other, and the parts before and after them.

    Attributes
    ----------
    hidden : int
        Width of the residual stream.
    layers : tuple of Layer
        Groups of equal layers.
    final_norm : int
        Parameters of the norm after the layers.
    stem : tuple of Product
        Matrices with biases that turn frames of sound into positions; none if the source is text.
    tables : tuple of LookupTable
        Tables of positions, or of distances between them.
    positions : int, optional
        Fixed number of positions of a source (a window of sound); None if it is the length of the prompt.
    window_s : float
        Seconds of sound in a window.
    """

    hidden: int
    layers: tuple[Layer, ...]
    final_norm: int = 0
    stem: tuple[Product, ...] = ()
    tables: tuple[LookupTable, ...] = ()
    positions: int | None = None
    window_s: float = 0.0

    def matrices(self) -> tuple[Linear, ...]:
        """Matrices of the stem."""
        return tuple(Linear(f"conv{at}", each.d_in, each.d_out, "other", True) for at, each in enumerate(self.stem, 1))

    def groups(self) -> Iterator[tuple[str, int, tuple[Weight, ...]]]:
        """Yield weights by group: name, number of copies, and the weights."""
        for at, layer in enumerate(self.layers):
            yield f"encoder_layers_{at}", layer.count, tuple(layer.weights())
        outside = (*self.matrices(), *((Vector("encoder_norm", self.final_norm),) if self.final_norm else ()))
        if outside:
            yield "encoder_outside_layers", 1, outside

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Yield operators for the sources encoded in a pass, named ``encoder.q_proj`` and so on."""
        parts = tuple(Segment(each.sequences, each.encoded_tokens, 0.0, 0.0) for each in run.segments)
        if not any(np.any(part.new_tokens) for part in parts):
            return
        inner = replace(run, segments=tuple(part for part in parts if np.any(part.new_tokens)))
        for found in self._operators(inner):
            yield named("encoder", found)

    def _operators(self, run: Pass) -> Iterator[Operator]:
        if self.stem:
            for weight, product in zip(self.matrices(), self.stem, strict=True):
                yield operators.linear(weight, run.tokens * product.rows, run)
        else:
            yield operators.lookup("embedding", run.tokens, self.hidden, run)
        for layer in self.layers:
            yield from layer.operators(run, self.hidden)
        yield operators.elementwise(
            "final_norm", run.tokens, 2 * self.hidden, run, parameters=self.final_norm, source=NORM_SOURCE
        )
