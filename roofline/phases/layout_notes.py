"""Notes on a layout: engines that reject it, and tensor parallelism beyond the fast links."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..hardware import Accelerator
from ..model.layout_rules import layout_notes
from ..operators.links import NODE
from .deployment import Deployment


def notes_of_layout(serve: Deployment) -> Iterator[str]:
    """Yield a note if engines reject the layout (with the rule) or if TP extends beyond the fast links."""
    yield from layout_notes(serve.model, serve.precision, serve.parallel)
    widest, domain = float(np.max(serve.parallel.tensor)), fast_domain(serve.accelerator)
    if widest > domain:
        link = serve.accelerator.scale_up
        joined = f"that {link.name} joins" if link is not None else "of one server"
        beyond = "the host's bus" if widest <= NODE else "the network"
        yield f"TP {widest:g} spans more than the {domain:g} accelerators {joined}: its all-reduces cross {beyond}"


def fast_domain(accelerator: Accelerator) -> int:
    """Return the number of accelerators joined by the fastest links; those of a server if it is not stated."""
    link = accelerator.scale_up
    return NODE if link is None else link.domain
