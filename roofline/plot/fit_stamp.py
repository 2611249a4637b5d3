"""Whether the results of a plot fit in memory, and the stamp if they do not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Text

from ..footprint.memory_use import Memory, memory
from ..phases.passes import Phase
from ..phases.workload import Workload
from ..units import humanize
from .frame import stamp, text_inches
from .style import style_of

DOES_NOT_FIT = "does not fit"

ROOM_FOR_REASON = 1.3
"""Smallest height of axes, in inches, at which a stamp gives the reason."""


def memory_of(phase: Phase) -> Memory:
    """Memory use at the end of a pass: weights, and the cache of its sequences at their mean length."""
    sequences = np.ceil(sum(segment.sequences for segment in phase.segments))
    new = np.ceil(sum(segment.sequences * segment.new_tokens for segment in phase.segments) / sequences)
    past = np.ceil(sum(segment.sequences * segment.past_tokens for segment in phase.segments) / sequences)
    # The last token of the pass is the first output token.
    load = Workload(np.maximum(new, 1), 1, sequences, np.maximum(past - 1, 0))
    return memory(phase.deployment, load)


def stamp_misfits(ax: Axes, phases: Sequence[Phase], *, above: Sequence[Text] = ()) -> list[Text]:
    """Stamp the plot if a pass of ``phases``, or a point of a sweep, does not fit; in the lower right, above other
    notes.
    """
    needs = [memory_of(phase) for phase in phases]
    misfits = [(phase, need) for phase, need in zip(phases, needs, strict=True) if not np.all(need.fits)]
    if not misfits:
        return []
    lift = sum((text_inches(ax, text.get_text(), style_of(ax).note_size)[1] for text in above), 0.0)
    roomy = ax.bbox.height / ax.figure.dpi > ROOM_FOR_REASON
    return [stamp(ax, DOES_NOT_FIT, below=_reason(misfits, phases) if roomy else "", at=(1.0, 0.0), lift=lift)]


def _reason(misfits: Sequence[tuple[Phase, Memory]], phases: Sequence[Phase]) -> str:
    """Needed and available memory of the largest pass, and which or how many passes do not fit."""
    phase, need = max(misfits, key=lambda each: float(np.max(each[1].needed_bytes)))
    needed, available = (
        humanize("bytes", float(np.max(getattr(need, f"{name}_bytes")))) for name in ("needed", "available")
    )
    sizes = f"{needed} needed, {available} available"
    alone = [each.name for each in phases].count(phase.name) == 1
    if np.size(need.fits) > 1:
        name = phase.name if alone else f"{phase.name}, {phase.deployment.model.name}"
        return f"{name}: {int(np.sum(~np.asarray(need.fits)))} of {np.size(need.fits)} points; up to {sizes}"
    if len(misfits) == len(phases) and all(each.deployment == phases[0].deployment for each in phases):
        return sizes
    if alone:
        return f"{phase.name}: {sizes}"
    return f"{len(misfits)} of {len(phases)} passes; up to {sizes}"
