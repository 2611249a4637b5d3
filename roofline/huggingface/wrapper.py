"""What the shape of a tower depends on: its own fields, those of the wrapper around it, and the language model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .fields import Fields


class Wrapper(NamedTuple):
    """Inputs of a projector's shape: the tower's fields, the wrapper's, and the width of the language model."""

    encoder: Fields
    outer: Fields
    hidden: int

    def part(self, name: str) -> Fields:
        """Fields of another part of the wrapper, such as ``perceiver_config``; none if the file lacks it."""
        inner = self.outer.get(name)
        return Fields(inner if isinstance(inner, Mapping) else {}, {}, partial=True)
