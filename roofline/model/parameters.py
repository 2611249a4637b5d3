"""Exact parameter counts, and lookup tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..report import Report
from ..values import Value


@dataclass(frozen=True, eq=False)
class Parameters(Report):
    """Exact parameter counts.

    Attributes
    ----------
    total : int
        All parameters of the language model, a tied table once.
    active : int
        Parameters that one token is multiplied with: top-k experts, shared experts, attention, norms, lm_head (also
        when it is the embedding table); lookups are left out.
    embedding : int
        The input table.
    lm_head : int
        The output projection without its bias, also if it is the input table.
    by_part : mapping of str to int
        Parameters of each part, all layers together.
    """

    total: int
    active: int
    embedding: int
    lm_head: int
    by_part: Mapping[str, int]

    columns = ("total", "active", "embedding", "lm_head", "routed_experts", "shared_experts")

    @property
    def routed_experts(self) -> int:
        """All routed experts of all layers."""
        return self.by_part.get("experts", 0)

    @property
    def shared_experts(self) -> int:
        """Shared experts, which process every token, with their gates."""
        return self.by_part.get("shared_experts", 0)

    @property
    def router(self) -> int:
        """Parameters of the router, which scores the experts."""
        return self.by_part.get("router", 0)


@dataclass(frozen=True, eq=False)
class LookupTable(Value):
    """A table in which each token looks up one row: resident, but never multiplied or streamed.

    Attributes
    ----------
    name : str
        ``positions``, ``per_layer_embedding`` ...
    rows, width : int
        Shape of the table.
    """

    name: str
    rows: int
    width: int

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return self.rows * self.width
