"""Weights: the matrices and vectors that a model is made of.

A block declares them once; parameter counts, bytes and FLOPs follow from that declaration.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import Number
from .parallel import share


@dataclass(frozen=True, slots=True)
class Linear:
    """``copies`` equal matrices ``[d_in, d_out]``; each token is multiplied with ``used`` of them.

    Attributes
    ----------
    name : str
        Name of the matrix in checkpoints.
    part : str
        Part of the model that it belongs to (`roofline.operators.precision.PARTS`).
    bias : bool
        Whether each matrix has a bias of ``d_out``.
    split : str
        Side that tensor parallelism divides: ``columns`` (outputs), ``rows`` (inputs; results are summed) or ``whole``
        (replicated on every accelerator).
    pieces : int, optional
        Number of indivisible pieces (heads) of the divided side; its size if None.
    joins : str
        Name of the product that engines extend by this one's columns; empty if it runs alone.
    """

    name: str
    d_in: int
    d_out: int
    part: str
    bias: bool = False
    copies: int = 1
    used: int = 1
    split: str = "whole"
    pieces: int | None = None
    joins: str = ""

    def shape_on(self, ways: Number) -> tuple[Number, Number]:
        """Return ``d_in`` and ``d_out`` on the most loaded of ``ways`` accelerators (see `share`)."""
        if self.split == "columns":
            return self.d_in, self.d_out * share(self.pieces or self.d_out, ways)
        if self.split == "rows":
            return self.d_in * share(self.pieces or self.d_in, ways), self.d_out
        return self.d_in, self.d_out

    @property
    def matrix(self) -> int:
        """Parameters of one matrix, including its bias."""
        return self.d_in * self.d_out + (self.d_out if self.bias else 0)

    @property
    def parameters(self) -> int:
        """Parameters of all copies."""
        return self.copies * self.matrix

    @property
    def active(self) -> int:
        """Parameters that one token is multiplied with."""
        return self.used * self.matrix


@dataclass(frozen=True, slots=True)
class Vector:
    """Parameters that are not matrices: norms, attention sinks, convolution kernels, decays."""

    name: str
    size: int
    part: str = "norm"

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return self.size

    @property
    def active(self) -> int:
        """Parameters per token; every token uses all of them."""
        return self.size


Weight = Linear | Vector
