"""Links: bytes and least times of collectives.

The least time of a collective is the bytes that one accelerator has to send, divided by the one-way bandwidth of its
links.  A floor does not include latency.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import anywhere, everywhere, larger, smaller, where
from ..errors import InvalidInput, Number
from ..hardware import Accelerator
from ..values import Value

NODE = 8
"""Accelerators per server if the specification states no larger domain."""


@dataclass(frozen=True, eq=False, slots=True)
class Relay(Value):
    """How tokens go to experts once per node, where they are forwarded over the links of the node.

    Attributes
    ----------
    token_bytes : float or array
        Bytes that one accelerator sends to a node, if all its tokens go there.
    choices : int
        Experts of a token.
    most_nodes : int
        Nodes that they are on at most.
    """

    token_bytes: Number
    choices: int
    most_nodes: int

    def sent_bytes(self, nodes: Number) -> Number:
        """Return the bytes that cross an accelerator's network card to the other of ``nodes`` nodes.

        ``k`` choices fall on ``n (1 - (1 - 1 / n) ** k)`` of ``n`` nodes on average. One of all nodes is the token's
        own.
        """
        allowed = smaller(nodes, self.most_nodes)
        visited = allowed * (1 - (1 - 1 / allowed) ** self.choices)
        return self.token_bytes * visited * (1 - 1 / nodes)


@dataclass(frozen=True, eq=False, slots=True)
class Message(Value):
    """One exchange among ``accelerators``.

    Attributes
    ----------
    collective : str
        ``all_reduce``, ``all_gather``, ``reduce_scatter``, ``all_to_all`` or ``send``.
    message_bytes : float or array
        Bytes per accelerator for all_reduce and send, of the whole buffer for all_gather and reduce_scatter, and from
        one accelerator to all (itself included) for all_to_all.
    accelerators : int or array
        Number of participants.
    least_bytes : float or array
        Bytes that have to be exchanged in the best case.
    relay : Relay, optional
        How an all_to_all crosses the network once per node; None if every copy crosses it.
    """

    collective: str
    message_bytes: Number
    accelerators: Number
    least_bytes: Number
    relay: Relay | None = None

    def least_s(self, accelerator: Accelerator) -> Number:
        """Least time in the best case."""
        return exchange_s(self.collective, self.least_bytes, self.accelerators, accelerator)

    def network_s(self, accelerator: Accelerator) -> Number:
        """Least time of the usual exchange."""
        return exchange_s(self.collective, self.message_bytes, self.accelerators, accelerator, self.relay)


def wire_bytes(collective: str, message_bytes: Number, accelerators: Number, *, reduces: bool = False) -> Number:
    """Return the bytes that each accelerator sends in a collective; it receives as many.

    all_reduce
        Each ends with the sum of ``n`` messages of ``S`` bytes. If only accelerators add, each receives at least ``2 (n
        - 1) / n S`` on average (Patarasuk and Yuan, J. Parallel Distrib. Comput. 69(2), 2009, theorem 1), which a ring
        reaches. If the switch adds, each sends its ``S`` and receives the sum, ``S``. For two accelerators both are
        ``S``.
    all_gather, reduce_scatter, all_to_all
        Each holds ``S / n`` of a buffer of ``S`` already: ``(n - 1) / n S``.
    send
        ``S`` to the next one.
    """
    if collective == "send":
        return message_bytes
    others = (accelerators - 1) / accelerators
    if collective == "all_reduce":
        if reduces:
            return message_bytes * (accelerators > 1)
        return 2 * others * message_bytes
    return others * message_bytes


def link_bytes_per_s(accelerator: Accelerator, accelerators: Number) -> Number:
    """Return the one-way bandwidth of one accelerator's links in a domain, for a group of ``accelerators``.

    On a mesh every pair has its own link, so a group of ``n`` out of a domain of ``d`` reaches ``(n - 1) / (d - 1)`` of
    the total.  Without a link, or beyond a bridge, everything crosses the host's bus.  A single accelerator sends
    nothing.

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


def exchange_s(
    collective: str,
    message_bytes: Number,
    accelerators: Number,
    accelerator: Accelerator,
    relay: Relay | None = None,
) -> Number:
    """Return the least time of a collective, on the links inside scale-up domains and network cards between.

    Over several domains of ``d`` accelerators the exchange is hierarchical.  Each domain is one party with ``d``
    network cards, each of which carries ``1 / d`` of the message (all of it for all-to-all and send).  The links carry
    the exchange inside the domain (for all-to-all: the part for accelerators of the same domain).  With a relay, every
    token crosses the network once per domain and the links carry all its copies.

    Raises
    ------
    InvalidInput
        The group is larger than the domain, and the accelerator's specification states no network card.
    """
    link = accelerator.scale_up
    domain = link.domain if link and link.kind != "bridge" else NODE
    inside = smaller(accelerators, domain)
    reduces = link is not None and link.kind == "switch_reduce"
    direct = collective == "all_to_all" and relay is None
    stays = message_bytes * inside / accelerators if direct else message_bytes
    within_s = wire_bytes(collective, stays, inside, reduces=reduces) / link_bytes_per_s(accelerator, inside)
    if not anywhere(accelerators > domain):
        return within_s
    if accelerator.nic_bytes_per_s is None:
        raise InvalidInput(
            f"{accelerator.name} connects {domain:g} accelerators and has no nic_bytes_per_s to reach more"
        )
    domains = larger(accelerators / domain, 1.0)
    each = message_bytes if collective in ("all_to_all", "send") else message_bytes / domain
    sent = wire_bytes(collective, each, domains) if relay is None else relay.sent_bytes(domains)
    return larger(within_s, sent / accelerator.nic_bytes_per_s * (domains > 1))
