"""Weights: the matrices and vectors that a model is made of.

A block declares them once; parameter counts, bytes and FLOPs all follow from the same declaration.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import Number
from .parallel import share


@dataclass(frozen=True, slots=True)
class Linear:
    """``copies`` equal matrices ``[d_in, d_out]``, of which one token is multiplied with ``used``.

    Attributes
    ----------
    name : str
        As checkpoints call it.
    part : str
        Which part of a model it counts to (`roofline.operators.precision.PARTS`).
    bias : bool
        Whether each has a bias of ``d_out``.
    split : str
        What tensor parallelism divides: ``columns`` (outputs), ``rows`` (inputs; the results are summed) or ``whole``
        (every accelerator has all of it).
    pieces : int, optional
        Indivisible pieces of the divided side (heads); its size if None.
    joins : str
        Name of the product that engines run this one with, as further columns of it; empty if it runs by itself.
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
        """``d_in`` and ``d_out`` of the part on the most loaded of ``ways`` accelerators (see `share`)."""
        if self.split == "columns":
            return self.d_in, self.d_out * share(self.pieces or self.d_out, ways)
        if self.split == "rows":
            return self.d_in * share(self.pieces or self.d_in, ways), self.d_out
        return self.d_in, self.d_out

    @property
    def matrix(self) -> int:
        """Parameters of one matrix with its bias."""
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
    """Parameters that are no matrix: norms, attention sinks, convolution kernels, decays."""

    name: str
    size: int
    part: str = "norm"

    @property
    def parameters(self) -> int:
        """Its size."""
        return self.size

    @property
    def active(self) -> int:
        """Every token uses all of it."""
        return self.size


Weight = Linear | Vector
