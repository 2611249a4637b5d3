"""Collectives as operators: messages to other accelerators, which also cross the memory interface."""

from __future__ import annotations

from ..arrays import FrozenMapping
from .links import Message
from .operator import Operator, Pass
from .work import Work

COLLECTIVE = FrozenMapping({"activation_bytes": "2 * message_bytes * (gpus > 1)"})
COLLECTIVE_SOURCE = "collective: the message is read from memory and its result written; on the links see network_s"


def collective(name: str, message: Message, run: Pass) -> Operator:
    """Return a message to other accelerators; it moves nothing if there are none.

    Its bytes cross the memory interface twice.  Bytes and time on the links depend on the accelerator
    (`roofline.operators.links.exchange_s`).
    """
    math = run.precision.part("norm").math
    moved = 2 * message.message_bytes * (message.accelerators > 1)
    inputs = {"message_bytes": message.message_bytes, "gpus": message.accelerators}
    work, least = Work(0.0, 0.0, moved, 0.0, math), Work(math=math)
    return Operator(name, "collective", work, least, 1.0, inputs, COLLECTIVE, COLLECTIVE_SOURCE, message)
