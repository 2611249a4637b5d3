"""Operators without matrix math: norms, residuals, embedding lookups."""

from __future__ import annotations

from ..arrays import FrozenMapping, smaller
from ..errors import Number
from .operator import Operator, Pass
from .work import Work

ELEMENTWISE = FrozenMapping(
    {
        "weight_bytes": "parameters * weight_bits / 8",
        "activation_bytes": "tokens * values * activation_bits / 8",
    }
)


def elementwise(
    name: str, tokens: Number, values: float, run: Pass, *, parameters: float = 0.0, source: str = ""
) -> Operator:
    """Return an operator without matrix math; it moves ``values`` activations per token, and its parameters once."""
    precision = run.precision
    formats = precision.part("norm")
    weight_bytes = parameters * (formats.weight_bits / 8)
    moved = tokens * (values * (precision.wide_bits / 8))
    return Operator(
        name,
        "elementwise",
        Work(0.0, weight_bytes, moved, 0.0, formats.math),
        Work(0.0, weight_bytes, 0.0, 0.0, formats.math),
        inputs={
            "tokens": tokens,
            "values": values,
            "parameters": parameters,
            "weight_bits": formats.weight_bits,
            "activation_bits": precision.wide_bits,
        },
        formulas=ELEMENTWISE,
        source=source,
    )


LOOKUP = FrozenMapping(
    {
        "weight_bytes": "tokens * width * weight_bits / 8",
        "activation_bytes": "tokens * width * activation_bits / 8",
    }
)
LOOKUP_SOURCE = "embedding: a row read for each token, not a product with the table"


def lookup(name: str, tokens: Number, width: float, run: Pass) -> Operator:
    """Return an embedding lookup: it reads and writes one row of ``width`` values per token, not the whole table."""
    precision = run.precision
    formats = precision.part("embedding")
    row_bytes = width * (formats.weight_bits / 8)
    return Operator(
        name,
        "lookup",
        Work(0.0, tokens * row_bytes, tokens * (width * (precision.wide_bits / 8)), 0.0, formats.math),
        Work(0.0, smaller(tokens, 1.0) * row_bytes, 0.0, 0.0, formats.math),
        inputs={
            "tokens": tokens,
            "width": width,
            "weight_bits": formats.weight_bits,
            "activation_bits": precision.wide_bits,
        },
        formulas=LOOKUP,
        source=LOOKUP_SOURCE,
    )
