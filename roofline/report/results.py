"""The views of a result: text, HTML, dict, frame, dataset and derivation."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..arrays import plain
from ..units import humanize
from ..values import Sealed, Value
from .dimensions import UNNAMED, Dimensions
from .steps import Derivation, Step, branch_of
from .tables import Line, html_table, text_table

__all__ = ["Report", "Rows", "Step", "plain"]

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


class Report(Sealed, Value):
    """Mixin of all results: views of the attributes listed in ``columns``, in that order.

    A result prints as text and as HTML (``repr``, notebooks). It converts to plain JSON types (`to_dict`), to a
    `pandas.DataFrame` (`to_frame`) and to an `xarray.Dataset` (`to_xarray`), and `explain` derives it.

    Attributes
    ----------
    columns : tuple of str
        Names of the columns; each name ends in its unit.
    assumptions : tuple of str
        Assumptions behind the values, one sentence each.
    """

    columns: ClassVar[tuple[str, ...]] = ()
    assumptions: tuple[str, ...] = ()

    @property
    def dimensions(self) -> Dimensions:
        """Names of the axes of a sweep; empty if no input had names."""
        return UNNAMED

    @property
    def heading(self) -> str:
        """One-line title: the first line of the text and the caption of the HTML table."""
        return type(self).__name__

    def to_dict(self) -> dict[str, Any]:
        """Return the columns as plain JSON types; the keys carry the units.

        Returns
        -------
        dict
            Column -> number, string, bool, None for values that are not finite, or a list of these for a sweep.

        Examples
        --------
        >>> import roofline as rl
        >>> rl.generate(rl.Deployment("gpt-2", "l4"), rl.Workload(output_tokens=1)).to_dict()["tpot_s"]
        0
        """
        return {name: plain(getattr(self, name)) for name in self.columns}

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Inputs by name: numbers or arrays, and the deployment as strings."""
        return {}

    def to_frame(self) -> pd.DataFrame:
        """Return inputs and columns as a table with one row per point; needs ``roofline[frame]``.

        Returns
        -------
        pandas.DataFrame
            One column for each of ``inputs`` and ``columns``; a result without arrays has one row.  Coordinates of
            `xarray.DataArray` inputs become columns, and the index is that of `pandas.Series` inputs.

        Examples
        --------
        >>> import roofline as rl
        >>> step = rl.decode(rl.Deployment("gpt-2", "l4"), rl.Workload(batch=[1, 2, 4]))
        >>> step.to_frame().set_index("batch")["limit"].to_dict()
        {1: 'memory', 2: 'memory', 4: 'memory'}
        """
        from .frames import frame_of

        return frame_of(self)

    def to_xarray(self) -> xr.Dataset:
        """Return inputs and columns as a dataset with named dimensions; needs ``roofline[sweep]``.

        Returns
        -------
        xarray.Dataset
            One variable for each of ``columns``, with its unit in ``units``, and ``inputs`` as coordinates.  Dimensions
            are those of the inputs; an unnamed axis is named after the input that varies along it.

        Examples
        --------
        >>> import numpy as np
        >>> import roofline as rl
        >>> load = rl.Workload(batch=np.array([1, 8])[:, None], prompt_tokens=[1000, 2000, 4000])
        >>> found = rl.prefill(rl.Deployment("gpt-2", "l4"), load).to_xarray()
        >>> dict(found.sizes), found.floor_s.sel(batch=8).units
        ({'batch': 2, 'prompt_tokens': 3}, 's')
        """
        from .frames import dataset_of

        return dataset_of(self)

    def summary(self) -> str:
        """The answer in one or two sentences; empty if the columns are enough."""
        return ""

    def explain(self, name: str | None = None) -> Derivation:
        """Return the derivation: how every value is computed, in order.

        Parameters
        ----------
        name : str, optional
            Name of a value, such as ``floor_s`` or ``q_proj.memory_s``, to get only the steps that lead to it.

        Returns
        -------
        Derivation
            A tuple of steps, one per value, each with the source of its formula; it prints one step per line.  Empty if
            there is nothing to derive.

        Raises
        ------
        UnknownName
            No step has this name.

        Examples
        --------
        >>> import roofline as rl
        >>> print(rl.bound(rl.matmul(1, 8192, 8192), "h100-sxm", name="q").explain()[0])
        q.flops = count * flops_once = 134.2 MFLOP   [count=1, flops_once=1.34218e+08]   (all layers)
        """
        steps = self._derivation()
        return Derivation(steps if name is None else branch_of(steps, name))

    def _derivation(self) -> tuple[Step, ...]:
        """All steps, in order."""
        return ()

    def __dir__(self) -> list[str]:
        """Attributes, including columns that are computed."""
        return sorted({*super().__dir__(), *self.columns})

    def __repr__(self) -> str:
        heading = [self.heading] if self.heading else []
        indent = 2 if heading else 0
        notes = (" " * indent + note for note in self._notes())
        return "\n".join((*heading, *text_table(self._lines(), head=self._head(), indent=indent), *notes))

    def _repr_html_(self) -> str:
        answer = f"<p>{html.escape(text)}</p>" if (text := self.summary()) else ""
        return answer + html_table(self._lines(), head=self._head(), caption=self.heading, notes=self._notes())

    def _head(self) -> Line:
        """Column headings of the printed table; empty if each line has its own heading."""
        return ()

    def _lines(self) -> Iterable[Line]:
        """Lines of the printed table, formatted for people."""
        return [(name, humanize(name, getattr(self, name))) for name in self.columns]

    def _notes(self) -> list[str]:
        """Notes printed below the table."""
        return [f"note: {note}" for note in self.assumptions]


class Rows(Report):
    """A result whose columns are arrays of equal length, printed as a table.

    Attributes
    ----------
    printed : mapping of str to str
        Column -> heading, for the printed columns.
    shown : int or None
        Number of rows that are printed; None prints all.
    """

    printed: ClassVar[Mapping[str, str]] = {}
    shown: ClassVar[int | None] = 12

    @property
    def heading(self) -> str:
        """Empty, as the column headings come first."""
        return ""

    def __len__(self) -> int:
        return len(getattr(self, self.columns[0]))

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per row with plain JSON types; None for unknown values.

        Returns
        -------
        list of dict
            The keys are the columns.
        """
        columns = {name: plain(getattr(self, name)) for name in self.columns}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def cells(self, most: int | None = None, printed: Mapping[str, str] | None = None) -> Iterator[list[str]]:
        """Yield the rows formatted for people, headings first.

        Parameters
        ----------
        most : int, optional
            Maximum number of rows; None gives all.
        printed : mapping of str to str, optional
            Column -> heading; None uses the columns that are usually printed.

        Yields
        ------
        list of str
            Cells of a row.
        """
        shown = self.printed if printed is None else printed
        yield list(shown.values())
        columns = [getattr(self, name)[:most] for name in shown]
        for row in zip(*columns, strict=True):
            yield [self.cell(name, value) for name, value in zip(shown, row, strict=True)]

    def cell(self, name: str, value: Any) -> str:
        """Return a value of the column ``name`` formatted for people; a dash if it is unknown."""
        if value is None or (isinstance(value, float) and np.isnan(value)):
            return "–"
        if isinstance(value, bool | np.bool_):
            return "yes" if value else ""
        if "usd" in name:
            if value >= 1 or value == 0:
                return f"{value:,.2f}"
            return f"{value:.3g}"
        if name in ("headroom", "utilization", "load"):
            return f"{value:.0%}"
        return humanize(name, value)

    def _head(self) -> Line:
        return list(self.printed.values())

    def _lines(self) -> Iterable[Line]:
        return [*self.cells(self.shown)][1:]

    def _notes(self) -> list[str]:
        hidden = 0 if self.shown is None else len(self) - self.shown
        more = [f"... and {hidden:,} more rows"] if hidden > 0 else []
        return [*more, *super()._notes()]
