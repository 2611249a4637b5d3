"""Scores between contents and relative positions, in addition to those between contents (DeBERTa)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ... import operators
from ...operators.operator import Operator, Pass
from ...operators.weights import Linear, Vector, Weight
from .block import Block, whole


@dataclass(frozen=True, eq=False, kw_only=True)
class RelativeScores(Block):
    """Scores of contents against relative positions (disentangled attention, arXiv:2006.03654, section 3.1).

    A table of ``rows`` relative positions is projected once per pass, ``2 rows hidden^2`` FLOPs, and each token is
    scored against every row, ``2 rows hidden`` FLOPs over all heads: once for each of the ``terms`` (content to
    position, position to content).

    Attributes
    ----------
    rows : int
        Number of distinct relative positions.
    terms : int
        Number of terms, 1 or 2.
    own : int
        Terms with a projection separate from that of the contents.
    biases : int
        Parameters of the biases of these projections.

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1.
    """

    rows: int
    terms: int = 2
    own: int = 0
    biases: int = 0

    def __post_init__(self) -> None:
        whole(self, "hidden", "rows", "terms")
        whole(self, "own", "biases", least=0)

    @property
    def kind(self) -> str:
        """Positions and terms."""
        return f"scores of {self.rows:,} relative positions x {self.terms}"

    def weights(self) -> tuple[Weight, ...]:
        """Projections of the positions that are separate from those of the contents."""
        projections = (Linear("position_proj", self.hidden, self.hidden, "attention", split="columns"),) * self.own
        return (*projections, *((Vector("position_biases", self.biases, "attention"),) if self.biases else ()))

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Yield, for each term, the projection of the table and the product of every token with the result."""
        projection = Linear("position_proj", self.hidden, self.hidden, "attention", split="columns")
        scores = Linear("position_scores", self.hidden, self.rows, "attention", split="columns")
        for _ in range(self.terms):
            yield operators.linear(projection, float(self.rows), run)
            yield operators.linear(scores, run.tokens, run)
