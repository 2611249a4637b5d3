"""The views that every result has, of one list of columns: dict, frame, HTML, text, derivation."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .units import humanize
from .values import Value

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Step(Value):
    """One line of a derivation: ``name = formula = value``, with the numbers put in.

    ``formula`` is a Python expression over the names of ``inputs`` (and ``min``, ``max``, which broadcast), so that
    anyone can evaluate it; a test evaluates every one.
    """

    name: str
    formula: str
    inputs: Mapping[str, Any]
    value: Any
    source: str

    def __str__(self) -> str:
        used = ", ".join(f"{name}={_short(value)}" for name, value in self.inputs.items())
        numbers = f"   [{used}]" if used else ""
        return f"{self.name} = {self.formula} = {humanize(self.name, self.value)}{numbers}   ({self.source})"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "name": self.name,
            "formula": self.formula,
            "inputs": {name: plain(value) for name, value in self.inputs.items()},
            "value": plain(self.value),
            "source": self.source,
        }


class Report(Value):
    """Mixin of every result: four views of the attributes that ``columns`` names, in that order."""

    columns: ClassVar[tuple[str, ...]] = ()
    assumptions: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Columns as plain JSON types; the keys carry the units."""
        return {name: plain(getattr(self, name)) for name in self.columns}

    def to_frame(self) -> pd.DataFrame:
        """Columns as a `pandas.DataFrame`, one row a point of the broadcast shape."""
        import pandas as pd

        arrays = np.broadcast_arrays(*(np.asarray(getattr(self, name)) for name in self.columns))
        return pd.DataFrame({name: array.ravel() for name, array in zip(self.columns, arrays, strict=True)})

    def explain(self) -> tuple[Step, ...]:
        """The derivation, first things first, one printable step a number."""
        return ()

    def __dir__(self) -> list[str]:
        """Attributes, columns included: some results compute theirs from other values."""
        return sorted({*super().__dir__(), *self.columns})

    def __repr__(self) -> str:
        width = max(map(len, self.columns), default=0)
        rows = (f"  {name:{width}}  {humanize(name, getattr(self, name))}" for name in self.columns)
        notes = (f"  note: {note}" for note in self.assumptions)
        return "\n".join((type(self).__name__, *rows, *notes))

    def _repr_html_(self) -> str:
        cells = (
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(humanize(name, getattr(self, name)))}</td></tr>"
            for name in self.columns
        )
        notes = "".join(f"<p><small>{html.escape(note)}</small></p>" for note in self.assumptions)
        return f"<table>{''.join(cells)}</table>{notes}"


def plain(value: Any) -> Any:
    """``value`` as JSON has it: arrays become lists, infinities become None."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        if not np.isfinite(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    return value


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.ndim:
        return f"{_short(value.flat[0])}…{_short(value.flat[-1])}"
    if isinstance(value, np.generic | np.ndarray):
        value = value.item()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e7:
        return str(int(value))
    return f"{value:.6g}" if isinstance(value, int | float) else str(value)
