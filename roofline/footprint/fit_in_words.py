"""Whether a deployment fits in memory, in words, and the nearest changes that make it fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..formats import get_format
from ..operators.parallel import Parallel
from ..units import humanize
from .memory_use import Memory, memory

NARROWER = ("fp8", "int4_g128")
"""Weight formats that are tried, the wider first."""

WIDER_LAYOUTS = (2, 4, 8, 16, 32, 64)
"""Degrees of tensor parallelism that are tried."""


def fit_sentence(found: Memory) -> str:
    """Whether it fits, what is needed and available, and if it does not, what would."""
    points = np.size(found.fits)
    if points > 1:
        return f"Fits at {int(np.sum(found.fits)):,} of {points:,} points."
    needed, available = (humanize("bytes", getattr(found, name)) for name in ("needed_bytes", "available_bytes"))
    where, sizes = place(found), f"{needed} needed, {available} available"
    if found.fits:
        return f"Fits on {where}: {sizes}; room for {float(found.max_batch):,.0f} sequences of this length."
    if float(found.max_batch) >= 1:
        running, asked = float(found.running_batch), float(np.max(found.load.batch))
        return f"Only {running:,.0f} of {asked:,.0f} sequences fit at once on {where}; the rest queue ({sizes})."
    ways = list(_ways_to_fit(found))
    instead = f"fits {', or '.join(ways)}" if ways else f"at least {int(found.accelerators_needed)} are needed"
    return f"Does not fit on {where}: {sizes}; {instead}."


def place(found: Memory) -> str:
    """The accelerators of a deployment: ``one h100-sxm`` or ``8 h100-sxm``."""
    count = float(np.max(found.deployment.parallel.accelerators))
    return f"{'one' if count == 1 else f'{count:g}'} {found.deployment.accelerator.name}"


def _ways_to_fit(found: Memory) -> Iterator[str]:
    """The first narrower format, and the first wider layout, with which it fits."""
    serve = found.deployment
    bits = get_format(serve.precision.weights).bits
    for name in NARROWER:
        quantized = serve.replace(precision=replace(serve.precision, weights=name))
        if get_format(name).bits < bits and memory(quantized, found.load, paging=found.paging).fits:
            yield f"with {name} weights"
            break
    others = serve.parallel.accelerators / serve.parallel.tensor
    if others == 1:
        for degree in WIDER_LAYOUTS:
            spread = serve.replace(parallel=Parallel(tensor=degree))
            if degree > serve.parallel.tensor and memory(spread, found.load, paging=found.paging).fits:
                yield f"on {degree}"
                break
