"""Two results of one kind side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import Truth, scalar
from ..errors import InvalidInput, Number, require
from ..report import Report, Step, plain
from ..report.tables import Line
from ..units import bound_by, brief_speed, brief_time, humanize

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Report):
    """Two results of one kind side by side.

    Attributes
    ----------
    before, after : Report
        The results.
    """

    before: Report
    after: Report

    @property
    def heading(self) -> str:
        """Title: what is compared, before and after if that differs."""
        before, after = (item.heading.partition(": ")[2] for item in (self.before, self.after))
        both = before if before == after else f"{before} → {after}"
        return f"Comparison: {both}" if both else "Comparison"

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """Columns that are numeric in both results."""
        return tuple(name for name in self.before.columns if _is_number(getattr(self.before, name)))

    @property
    def ratio(self) -> Mapping[str, Number]:
        """After / before, by column; 1 where both are 0."""
        return {name: _ratio(getattr(self.before, name), getattr(self.after, name)) for name in self.columns}

    def speedup(self, time: str) -> Any:
        """Speedup of a pass, before / after, in one of the three times."""
        return _ratio(getattr(self.after, time), getattr(self.before, time))

    @property
    def limit_changes(self) -> Truth:
        """Whether `limit` changes; an array for sweeps, False for results without a limit."""
        before, after = getattr(self.before, "limit", ""), getattr(self.after, "limit", "")
        changed = np.asarray(before) != np.asarray(after)
        return changed if changed.ndim else bool(changed)

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """Notes of both results, without duplicates."""
        return tuple(dict.fromkeys((*self.before.assumptions, *self.after.assumptions)))

    def summary(self, time: str = "estimate_s") -> str:
        """One sentence on what changes: time and limit of a pass, or memory needed and whether it fits.

        Parameters
        ----------
        time : str
            Time of a pass: ``floor_s``, ``roofline_s`` or ``estimate_s``.

        Examples
        --------
        >>> import roofline as rl
        >>> serve, load = rl.Deployment("llama-3.1-70b", "h100-sxm"), rl.Workload()
        >>> fp8 = rl.quantize(serve, weights="fp8")
        >>> print(rl.compare(rl.decode(serve, load), rl.decode(fp8, load)).summary("floor_s"))
        Decode 41.7 ms -> 21.3 ms (1.96x faster) at the floor, memory-bound.
        >>> print(rl.compare(rl.memory(serve, load), rl.memory(fp8, load)).summary())
        Memory 141.8 GB -> 73.4 GB needed (68.45 GB freed); does not fit -> fits.
        """
        if time in self.columns:
            return self._pass_summary(time)
        return self._memory_summary() if "needed_bytes" in self.columns else ""

    def _pass_summary(self, time: str) -> str:
        """One of the times of both passes, and their limits."""
        before: Any = self.before
        after: Any = self.after
        first = brief_time(getattr(before, time))
        ends = (after.estimate_low_s, after.estimate_high_s) if time == "estimate_s" else ()
        second = brief_time(getattr(after, time), *ends)
        basis = "" if time == "estimate_s" else f" at the {time.removesuffix('_s')}"
        limits = dict.fromkeys(bound_by(side.limit) for side in (before, after))
        speed = brief_speed(self.ratio[time])
        return f"{before.name.capitalize()} {first} -> {second} ({speed}){basis}, {' -> '.join(limits)}."

    def _memory_summary(self) -> str:
        """Memory needed and whether it fits, before and after."""
        sides: tuple[Any, Any] = (self.before, self.after)
        sizes = [humanize("bytes", side.needed_bytes) for side in sides]
        freed = np.subtract(*(side.needed_bytes for side in sides))
        more = humanize("bytes", np.abs(freed)) + (" freed" if np.all(freed > 0) else " more")
        if not np.any(freed):
            more = "unchanged"
        fits = ["fits" if np.all(side.fits) else "does not fit" for side in sides]
        return f"Memory {' -> '.join(sizes)} needed ({more}); {' -> '.join(dict.fromkeys(fits))}."

    def _derivation(self) -> tuple[Step, ...]:
        """Derivations of both results, and the ratio of every column that is not 0 before."""
        steps = [step.under("before") for step in self.before.explain()]
        steps += [step.under("after") for step in self.after.explain()]
        for name, ratio in self.ratio.items():
            before, after = getattr(self.before, name), getattr(self.after, name)
            if np.all(np.asarray(before) != 0) and np.all(np.isfinite(ratio)):
                inputs = {f"before_{name}": before, f"after_{name}": after}
                formula = f"after_{name} / before_{name}"
                steps.append(Step(f"{name}_ratio", formula, inputs, ratio, "after over before"))
        return tuple(steps)

    def to_dict(self) -> dict[str, Any]:
        """Return both results, the ratios, and where the limit changes."""
        return {
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "ratio": plain(self.ratio),
            "limit_changes": plain(self.limit_changes),
        }

    def to_frame(self) -> pd.DataFrame:
        """Return before, after and ratio; one row per column for single results, one row per point for sweeps.

        Returns
        -------
        pandas.DataFrame
            Columns ``before``, ``after`` and ``ratio`` for single results.  For sweeps, the inputs of the first result
            and every column with these suffixes.
        """
        require("pandas", "frame", "a table")
        import pandas as pd

        if not any(np.ndim(value) for value in self.ratio.values()):
            rows = [(getattr(self.before, name), getattr(self.after, name), self.ratio[name]) for name in self.columns]
            return pd.DataFrame(rows, index=list(self.columns), columns=["before", "after", "ratio"])
        one, other = self.before.to_frame(), self.after.to_frame()
        found = one.drop(columns=list(self.before.columns))
        for name in self.columns:
            found[f"{name}_before"], found[f"{name}_after"] = one[name], other[name]
            found[f"{name}_ratio"] = np.broadcast_to(self.ratio[name], np.shape(self._points)).ravel()
        return found

    @property
    def _points(self) -> Any:
        """A column with the shape of the sweep."""
        return np.broadcast_arrays(*self.ratio.values())[0]

    def to_xarray(self) -> xr.Dataset:
        """Return both results along a dimension ``side``.

        Returns
        -------
        xarray.Dataset
            Datasets of ``before`` and ``after``.
        """
        require("xarray", "sweep", "a labeled dataset")
        import xarray as xr

        sides = xr.DataArray(["before", "after"], dims="side", name="side")
        both = [self.before.to_xarray(), self.after.to_xarray()]
        return xr.concat(both, sides, coords="different", compat="equals", combine_attrs="drop_conflicts")

    def rows(self) -> tuple[tuple[str, str, str, str], ...]:
        """Name, before, after and ratio of every column, formatted for people."""
        found = []
        for name in self.columns:
            before, after = (humanize(name, getattr(side, name)) for side in (self.before, self.after))
            found.append((name, before, after, _times(self.ratio[name])))
        if "limit" in self.before.columns:
            before, after = (humanize("limit", getattr(side, "limit")) for side in (self.before, self.after))  # noqa: B009
            found.append(("limit", before, after, "changes" if np.any(self.limit_changes) else "same"))
        return tuple(found)

    def _head(self) -> Line:
        return ("", "before", "after", "after / before")

    def _lines(self) -> Iterable[Line]:
        return self.rows()

    def _notes(self) -> list[str]:
        return []


def compare(before: Report, after: Report) -> Comparison:
    """Put two results side by side: the ratio of every column, and where the limit changes.

    Raises
    ------
    InvalidInput
        The two are results of different kinds.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-70b"), rl.get_accelerator("h100-sxm"))
    >>> faster = rl.quantize(serve, weights="int4")
    >>> load = rl.Workload(batch=1)
    >>> round(rl.compare(rl.decode(serve, load), rl.decode(faster, load)).ratio["floor_s"], 2)
    0.26
    """
    if getattr(before, "columns", ()) != getattr(after, "columns", None):
        kinds = f"{type(before).__name__} and {type(after).__name__}"
        raise InvalidInput(f"only results of one kind can be compared, not {kinds}")
    found = Comparison(before, after)
    for name in found.columns:
        shapes = [np.shape(getattr(side, name)) for side in (before, after)]
        try:
            np.broadcast_shapes(*shapes)
        except ValueError:
            raise InvalidInput(f"{name} has the shapes {shapes[0]} and {shapes[1]}, which do not broadcast") from None
    return found


def _is_number(value: Any) -> bool:
    return np.asarray(value).dtype.kind in "iuf"


def _ratio(before: Any, after: Any) -> Number:
    before, after = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((before == 0) & (after == 0), 1.0, after / before)
    return scalar(ratio)


def _times(ratio: Any) -> str:
    if not np.size(ratio):
        return "–"
    first, last = ("from 0" if np.isinf(end) else f"{end:.3g}x" for end in np.ravel(ratio)[[0, -1]])
    return first if np.ndim(ratio) == 0 else f"{first} … {last}"
