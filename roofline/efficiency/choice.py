"""Choice: which of an engine's kernels its profile uses, where tables list several under one label.

Engines replace kernels between releases, and use different kernels for different shapes.  Among the kernels of the
newest release, the one with the most rows is the *current* kernel and is stored under the general kind.  Others of that
release are stored for the special cases of `roofline.efficiency.kinds.variants` in which they dominate.  A kernel with
few rows on a chip uses the parameters of the sister chip with the same processor (H100 and H200, B200 and B300).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..hardware import Accelerator
from .groups import Group
from .kinds import variants
from .store import Calibrated

ENOUGH_ROWS = 100
"""A kernel with fewer rows uses the parameters of the sister chip, if that has more."""

OWNED = 0.5
"""Share of the rows of a special case above which it gets its own kernel."""

Described = tuple[Group, Calibrated]


def todays(
    described: Iterable[Described], accelerators: Callable[[str], Accelerator]
) -> dict[tuple[str, str, str], Described]:
    """Current kernel of every accelerator, profile and kind, with its special cases.

    Parameters
    ----------
    described : iterable of (Group, Calibrated)
        Every trusted group with its parameters.
    accelerators : callable
        Name to `Accelerator`; chips of one architecture with the same number of processors are sisters.

    Returns
    -------
    dict
        (Accelerator, profile, kind) -> chosen group and its parameters; the kind ends in the name of the special case,
        if any.  An accelerator whose own kernels were all rejected uses those of its sister chip.
    """
    every = list(described)
    found: dict[tuple[str, str, str], Described] = {}
    names = dict.fromkeys(group.accelerator for group, _ in every)
    labels = dict.fromkeys((group.profile, group.kind) for group, _ in every)
    for accelerator in names:
        sisters = [
            name for name in names if name != accelerator and _sisters(accelerators(accelerator), accelerators(name))
        ]
        for profile, kind in labels:
            same = [(g, values) for g, values in every if (g.profile, g.kind) == (profile, kind)]
            own = [entry for entry in same if entry[0].accelerator == accelerator]
            others = [entry for entry in same if entry[0].accelerator in sisters]
            for name, entry in _chosen(own, others).items():
                found[accelerator, profile, f"{kind}{name}"] = entry
    return found


def _sisters(one: Accelerator, other: Accelerator) -> bool:
    return (one.architecture, one.compute_units) == (other.architecture, other.compute_units)


def _chosen(own: list[Described], others: list[Described]) -> dict[str, Described]:
    """The general kernel under an empty name, and special cases under their own (``.d192``)."""
    todays_own = _newest(own)
    main = max(todays_own or _newest(others), key=lambda entry: len(entry[0].measured_s), default=None)
    if main is None:
        return {}
    found = {"": _with_enough_rows(main, others)}
    for name, owner in _owners(todays_own).items():
        if owner[0].source != main[0].source:
            found[f".{name}"] = _with_enough_rows(owner, others)
    return found


def _newest(entries: list[Described]) -> list[Described]:
    newest = max((group.version for group, _ in entries), default=())
    return [entry for entry in entries if entry[0].version == newest]


def _with_enough_rows(entry: Described, others: list[Described]) -> Described:
    """The same kernel on the sister chip, if this chip has few rows."""
    group, _ = entry
    if len(group.measured_s) >= ENOUGH_ROWS:
        return entry
    same = [other for other in others if other[0].source == group.source]
    best = max(same, key=lambda other: len(other[0].measured_s), default=entry)
    return best if len(best[0].measured_s) >= ENOUGH_ROWS else entry


def _owners(entries: list[Described]) -> dict[str, Described]:
    """Special case -> the kernel with most of its rows."""
    counts: dict[str, list[int]] = {}
    for group, _ in entries:
        for name in _names(entries):
            counts.setdefault(name, []).append(_rows_of(group, name))
    return {
        name: entries[int(np.argmax(rows))]
        for name, rows in counts.items()
        if max(rows) > OWNED * sum(rows) and max(rows) > 0
    }


def _names(entries: list[Described]) -> list[str]:
    return list(dict.fromkeys(name for group, _ in entries for name, _ in variants(group.run.inputs, group.kind)))


def _rows_of(group: Group, name: str) -> int:
    masks: dict[str, Any] = dict(variants(group.run.inputs, group.kind))
    return int(np.sum(masks.get(name, False)))
