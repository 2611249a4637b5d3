"""Collectives: messages on links.

The least time of a collective is the bytes that one accelerator has to send one way over the rate of its links, one
way. Latency is not in a floor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import anywhere, everywhere, larger, smaller, where
from ..errors import InvalidInput, Number
from ..hardware import Accelerator
from ..values import Value

NODE = 8
"""Accelerators of a server where the specification names no larger domain."""


@dataclass(frozen=True, eq=False, slots=True)
class Message(Value):
    """What ``accelerators`` exchange once.

    Attributes
    ----------
    collective : str
        ``all_reduce``, ``all_gather``, ``reduce_scatter``, ``all_to_all`` or ``send``.
    message_bytes : float or array
        All_reduce, send: what one accelerator has; all_gather, reduce_scatter: the whole buffer; all_to_all: what one
        accelerator has for all, itself included.
    accelerators : int or array
        How many take part.
    least_bytes : float or array
        What has to be exchanged in the luckiest case.
    """

    collective: str
    message_bytes: Number
    accelerators: Number
    least_bytes: Number

    def least_s(self, accelerator: Accelerator) -> Number:
        """Least time in the luckiest case."""
        return exchange_s(self.collective, self.least_bytes, self.accelerators, accelerator)

    def network_s(self, accelerator: Accelerator) -> Number:
        """Least time of what is exchanged as a rule."""
        return exchange_s(self.collective, self.message_bytes, self.accelerators, accelerator)


def wire_bytes(collective: str, message_bytes: Number, accelerators: Number, *, reduces: bool = False) -> Number:
    """Bytes that each of ``accelerators`` sends one way in a collective; it receives as many.

    all_reduce
        Every one ends with the sum of ``n`` messages of ``S``.  Where only accelerators add, the average one receives
        at least ``2 (n - 1) / n S`` (Patarasuk and Yuan, J. Parallel Distrib. Comput. 69(2), 2009, theorem 1), which a
        ring reaches. A switch that adds sends the sum once to each: ``S`` in and out, since each has to be told the
        sum of what it does not hold. For two both are ``S``.
    all_gather, reduce_scatter, all_to_all
        Of a buffer of ``S`` each holds ``S / n`` already: ``(n - 1) / n S``.
    send
        ``S`` to the next one.
    """
    if collective == "send":
        return message_bytes
    others = (accelerators - 1) / accelerators
    if collective == "all_reduce":
        return message_bytes * (accelerators > 1) if reduces else 2 * others * message_bytes
    return others * message_bytes


def link_bytes_per_s(accelerator: Accelerator, accelerators: Number) -> Number:
    """Rate of one accelerator's links inside a domain, one direction, for a group of ``accelerators``.

    On a mesh every pair has a link of its own, so a group of ``n`` out of a domain of ``d`` reaches
    ``(n - 1) / (d - 1)`` of the sum.  Without a link, or past a bridge, the host's bus carries everything; alone
    there is nothing to carry.

    Raises
    ------
    InvalidInput
        The accelerator states neither a link nor a host bus.
    """
    link, host = accelerator.scale_up, accelerator.host_bytes_per_s
    if everywhere(accelerators <= 1):
        return np.inf
    if link is None or link.kind == "bridge":
        if host is None and (link is None or anywhere(accelerators > link.domain)):
            raise InvalidInput(
                f"{accelerator.name} has no link between accelerators: give scale_up or host_bytes_per_s"
            )
        bus = 0.0 if host is None else host
        inside = link.bytes_per_s if link else bus
        rate: Number = where(accelerators <= (link.domain if link else 1), inside, bus)
        return rate
    if link.kind == "mesh":
        return link.bytes_per_s * smaller(larger(accelerators - 1, 1) / (link.domain - 1), 1.0)
    return link.bytes_per_s


def exchange_s(collective: str, message_bytes: Number, accelerators: Number, accelerator: Accelerator) -> Number:
    """Least time of a collective: inside the scale-up domain on its links, and what leaves it on the network cards.

    Over several domains of ``d`` the exchange is hierarchical: each domain is one party with ``d`` network cards, which
    carry ``1 / d`` of the message each (all-to-all and send: all of it), while the links do the exchange inside (of an
    all-to-all: what is for accelerators of the same domain).

    Raises
    ------
    InvalidInput
        A group larger than the domain of an accelerator that states no network card.
    """
    link = accelerator.scale_up
    domain = link.domain if link and link.kind != "bridge" else NODE
    inside = smaller(accelerators, domain)
    reduces = link is not None and link.kind == "switch_reduce"
    stays = message_bytes * inside / accelerators if collective == "all_to_all" else message_bytes
    within_s = wire_bytes(collective, stays, inside, reduces=reduces) / link_bytes_per_s(accelerator, inside)
    if not anywhere(accelerators > domain):
        return within_s
    if accelerator.nic_bytes_per_s is None:
        raise InvalidInput(
            f"{accelerator.name} connects {domain:g} accelerators and has no nic_bytes_per_s to reach more"
        )
    domains = larger(accelerators / domain, 1.0)
    each = message_bytes if collective in ("all_to_all", "send") else message_bytes / domain
    return larger(within_s, wire_bytes(collective, each, domains) / accelerator.nic_bytes_per_s * (domains > 1))
