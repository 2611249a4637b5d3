"""What is to be said of a layout: that no engine starts it, or that it leaves the links that are fast."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..hardware import Accelerator
from ..model.layout_rules import layout_notes
from ..operators.links import NODE
from .deployment import Deployment


def notes_of_layout(serve: Deployment) -> Iterator[str]:
    """Layouts that engines refuse, with the rule, and tensor parallelism past the fast links."""
    yield from layout_notes(serve.model, serve.precision, serve.parallel)
    widest, domain = float(np.max(serve.parallel.tensor)), fast_domain(serve.accelerator)
    if widest > domain:
        link = serve.accelerator.scale_up
        joined = f"that {link.name} joins" if link is not None else "of one server"
        beyond = "the host's bus" if widest <= NODE else "the network"
        yield f"TP {widest:g} spans more than the {domain:g} accelerators {joined}: its all-reduces cross {beyond}"


def fast_domain(accelerator: Accelerator) -> int:
    """Accelerators that its fastest links join; those of a server where it states none."""
    link = accelerator.scale_up
    return NODE if link is None else link.domain
