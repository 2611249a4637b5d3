"""Totals: sums over the operators of a pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import NamedTuple, TypeVar

import numpy as np

from ..arrays import everywhere, exp, larger, scalar
from ..efficiency.forms import TINY_S
from ..errors import Number
from ..operators.alternatives import Chosen, cheapest, picked
from ..operators.roofline import Times, compute_s, memory_s, units_of
from ..values import Value
from .bounds import Bound, notes_of_operators
from .deployment import Deployment
from .energy import Use, under_a_limit, use_of
from .host import HostedModel, HostTimes
from .schedule import Schedule
from .streams import branches


class Sums(NamedTuple):
    """Sums over the operators of one pass on one accelerator; ``floor_s`` covers the whole schedule.

    ``peak_s`` is what the FLOPs of work on the chip take at the dense peaks of their formats.
    """

    flops: Number
    moved_bytes: Number
    least_bytes: Number
    floor_s: Number
    roofline_s: Number
    compute_limited_s: Number
    network_limited_s: Number
    peak_s: Number


class Estimates(NamedTuple):
    """Expected time of one pass, with its interval.

    Attributes
    ----------
    time_s : float or array
        Expected time.
    low_s, high_s : float or array
        Ends of its 80 % interval.
    fixed_s : float or array
        Part of the time that kernels cost when launched one by one.
    kernels_s : float or array
        Part of the time in which kernels run, without the host's.
    unlimited_s : float or array
        Expected time without a power limit.
    """

    time_s: Number
    low_s: Number
    high_s: Number
    fixed_s: Number
    kernels_s: Number
    unlimited_s: Number


Totals = TypeVar("Totals", Sums, Estimates)


@dataclass(frozen=True, eq=False)
class ScheduledPass(Value):
    """One forward pass with everything that determines its times.

    Attributes
    ----------
    deployment : Deployment
        Model, accelerators, precision and layout.
    schedule : Schedule
        How the pass runs on a pipeline and over replicas.
    operators : tuple of Bound
        Bounds of every operator of one microbatch on the most loaded accelerator. If a part can be computed in several
        ways, these are of the way with the least roofline time. The floor and the estimate each choose their own
        fastest way (``least``, ``expected``).
    ways : tuple of Bound
        Bounds of the operators of all ways; empty if there is only one way.
    launch : str
        How its kernels are launched: ``graph``, as one captured graph (decode steps of a server); ``captured``, as part
        of another pass's graph; ``within``, one by one inside a step; ``eager``, one by one; empty to count kernels
        only.
    """

    deployment: Deployment
    schedule: Schedule
    operators: tuple[Bound, ...]
    ways: tuple[Bound, ...] = ()
    launch: str = ""

    @cached_property
    def local(self) -> tuple[Bound, ...]:
        """Operators that run on the chip (all but messages)."""
        return tuple(item for item in self.operators if item.operator.message is None)

    @cached_property
    def remote(self) -> tuple[Bound, ...]:
        """Operators that are messages to other accelerators."""
        return tuple(item for item in self.operators if item.operator.message is not None)

    @property
    def least(self) -> ScheduledPass:
        """The pass with the way of least floor in each choice."""
        return self._other_least or self

    @property
    def expected(self) -> ScheduledPass:
        """The pass with the way of least estimate in each choice."""
        return self._other_expected or self

    # None stands for this pass, since a reference to itself would keep it alive until the next garbage collection.
    @cached_property
    def _other_least(self) -> ScheduledPass | None:
        return _least(self) if self.ways else None

    @cached_property
    def _other_expected(self) -> ScheduledPass | None:
        return _expected(self) if self.ways else None

    @cached_property
    def sums(self) -> Sums:
        """Sums over the operators."""
        return sums(self)

    @cached_property
    def estimates(self) -> Estimates:
        """Sum of the operators' estimates and the host's time, under the power limit if one is set."""
        limit = self.deployment.power_limit_watts
        if limit is None:
            return self.unlimited
        return Estimates(*(scalar(value) for value in under_a_limit(self, self.unlimited, limit)))

    @cached_property
    def unlimited(self) -> Estimates:
        """The same without a power limit."""
        found = self.kernels
        if self.launch == "graph":
            found = in_a_graph(found, self)
        elif self.launch == "captured":
            found = captured(found, self)
        elif self.launch == "eager":
            found = one_by_one(found, self.deployment, self.tokens)
        elif self.launch == "within":
            found = within_a_step(found, self)
        return Estimates(*(scalar(value) for value in found))

    @property
    def bases(self) -> tuple[tuple[str, ...], ...]:
        """Assumptions of the operators (`notes_of_operators`)."""
        return notes_of_operators(self.expected.operators)

    @property
    def estimates_and_bases(self) -> tuple[Estimates, tuple[tuple[str, ...], ...]]:
        """Estimates and bases, both of which need the kernels' times."""
        return self.estimates, self.bases

    @property
    def use(self) -> Use:
        """Seconds for which one pass uses each part of an accelerator."""
        return use_of(self.sums, self.unlimited, self.deployment.accelerator)

    @cached_property
    def kernels(self) -> Estimates:
        """Sums of the operators' estimates, without the host's time."""
        return estimates(self)

    @property
    def tokens(self) -> Number:
        """Tokens of one microbatch."""
        return total(each.sequences * each.new_tokens for each in self.schedule.segments)

    @property
    def floor_s(self) -> Number:
        """Least possible time."""
        return self.sums.floor_s

    @property
    def roofline_s(self) -> Number:
        """Time of all operators one after another, at data-sheet peaks."""
        return self.sums.roofline_s * self.schedule.rounds

    @property
    def estimate_s(self) -> Number:
        """Expected time."""
        return self.estimates.time_s * self.schedule.rounds


def running(ways: tuple[Bound, ...], chosen: Chosen) -> tuple[Bound, ...]:
    """Return the bounds of the operators that run, out of those of all ways."""
    found = []
    for item in ways:
        operator = picked(item.operator, chosen)
        if operator is item.operator:
            found.append(item)
        elif operator is not None:
            found.append(replace(item, operator=operator))
    return tuple(found)


def _least(one: ScheduledPass) -> ScheduledPass:
    """Return the pass in the ways of least busy time; all ways move the same compulsory bytes."""
    chosen = cheapest([item.operator for item in one.ways], lambda at: one.ways[at].times.least_busy_s)
    return replace(one, operators=running(one.ways, chosen), ways=())


def _expected(one: ScheduledPass) -> ScheduledPass | None:
    """Return the pass in the ways of least estimate; None if they are also those of least roofline time."""
    operators = [item.operator for item in one.ways]
    chosen = cheapest(operators, lambda at: one.ways[at].estimate.time_s)
    by_roofline = cheapest(operators, lambda at: one.ways[at].roofline_s)
    if all(everywhere(runs == by_roofline[option]) for option, runs in chosen.items()):
        return None
    return replace(one, operators=running(one.ways, chosen), ways=())


def _floor_s(one: ScheduledPass) -> Number:
    return reduce(larger, resources_s(one).values())


def total(parts: Iterable[Number]) -> Number:
    """Return the broadcast sum, added from left to right.

    The built-in ``sum`` compensates rounding of floats from Python 3.12 on, so that sums of numbers, of elements of
    arrays and of compiled points would differ in their last bit.
    """
    return reduce(add, parts, 0.0)


def sums(one: ScheduledPass) -> Sums:
    """Return sums over a pass; ``*_limited_s`` is the roofline time of the operators limited by a resource."""
    local, remote = columns(one.local), columns(one.remote)
    limits = zip(local["compute_s"], local["memory_s"], local["roofline_s"], strict=True)
    local_s = total(local["roofline_s"])
    roofline_s = overlapped_s(one, local_s, total(remote["roofline_s"]))
    return Sums(
        flops=total(local["flops"]),
        moved_bytes=total((*local["moved_bytes"], *remote["moved_bytes"])),
        least_bytes=total(item.times.least_bytes for item in one.least.operators),
        floor_s=_floor_s(one),
        roofline_s=roofline_s,
        compute_limited_s=total((compute_s > memory_s) * longest_s for compute_s, memory_s, longest_s in limits),
        network_limited_s=roofline_s - local_s if one.remote else 0.0,
        peak_s=peak_s(one),
    )


def limited_s(found: Sums, schedule: Schedule, *, alone: bool) -> dict[str, Number]:
    """Return the roofline time of all rounds split by what limits each operator; a chip ``alone`` takes one round."""
    memory = found.roofline_s - found.compute_limited_s - found.network_limited_s
    times = {"memory": memory, "compute": found.compute_limited_s}
    if alone:
        return times
    times["network"] = found.network_limited_s
    return {name: time * schedule.rounds for name, time in times.items()}


def columns(bounds: Sequence[Bound]) -> dict[str, tuple[Number, ...]]:
    """Return each field of `Times` as a list over operators."""
    rows = zip(*(item.times for item in bounds), strict=True) if bounds else [()] * len(Times._fields)
    return dict(zip(Times._fields, rows, strict=True))


def peak_s(one: ScheduledPass) -> Number:
    """Return the time of all on-chip FLOPs at the dense peaks of their formats."""
    flops: dict[str, Number] = {}
    for item in one.local:
        flops[item.math] = flops.get(item.math, 0.0) + item.times.flops
    return total(compute_s(each, one.deployment.accelerator, math) for math, each in flops.items())


def overlapped_s(one: ScheduledPass, local_s: Number, network_s: Number) -> Number:
    """Return the time of on-chip work and network if a share ``overlap`` of the network time can be hidden.

    Hidden network time runs in parallel with on-chip work, so it cannot exceed that.  The network alone is a lower
    bound: ``max(local + (1 - overlap) * network, network)``.
    """
    if one.deployment.parallel.single:
        return local_s
    return larger(local_s + (1.0 - one.deployment.parallel.overlap) * network_s, network_s)


def computing(one: ScheduledPass) -> dict[str, list[Bound]]:
    """Return the operators on the ``matrix`` and on the ``vector`` units."""
    found: dict[str, list[Bound]] = {}
    for item in one.local:
        least_flops = item.operator.least.flops
        if not (isinstance(least_flops, float) and least_flops == 0.0):
            found.setdefault(units_of(item.math), []).append(item)
    return found


def least_bytes(one: ScheduledPass) -> Number:
    """Return bytes that the busiest accelerator has to move: weights at least once, caches for every sequence.

    A pipeline prefills its sequences one by one.  Its weights may stay on the chip meanwhile, but each cache is
    different.
    """
    plan = one.schedule
    if one.deployment.parallel.single:
        return total(item.times.least_bytes for item in one.operators)
    weights = weight_bytes(one.operators)
    return weights * plan.once + (total(item.times.least_bytes for item in one.operators) - weights) * plan.busy


def weight_bytes(operators: Iterable[Bound]) -> Number:
    """Return the bytes of weights that a pass cannot avoid reading, each counted once."""
    return total(item.operator.count * item.operator.least.weight_bytes for item in operators)


def weights_s(one: ScheduledPass) -> Number:
    """Return the least time to read the weights of a pass, which is part of the memory's busy time."""
    return memory_s(weight_bytes(one.operators) * one.schedule.once, one.deployment.accelerator)


def resources_s(one: ScheduledPass) -> dict[str, Number]:
    """Return the least busy time of each resource: ``memory``, ``matrix`` and ``vector`` units, ``network``."""
    gpu, plan, one = one.deployment.accelerator, one.schedule, one.least
    found = {"memory": memory_s(least_bytes(one), gpu)}
    for units, items in computing(one).items():
        found[units] = plan.busy * total(item.times.least_busy_s for item in items)
    if not one.deployment.parallel.single:
        found["network"] = plan.busy * network_s(one)
    return found


def network_s(one: ScheduledPass) -> Number:
    """Return the least time of the messages of one pass."""
    return total(item.times.least_busy_s for item in one.remote)


COMMON_MODE = 0.2
"""Natural logarithm of the common error factor of all kernels of a model, at the ends of an 80 % interval.

Releases of one engine differ by 15 to 35 %, hosts, clocks and cooling by a few percent.  Timings of single kernels do
not show that, so the value comes from whole models that were left out of the fit (benchmarks/accuracy.py)."""


def estimates(one: ScheduledPass) -> Estimates:
    """Return the sums of the operators' estimates, with an interval; overlap hides network time here too.

    Errors of kernels with the same basis (the same timings) are fully correlated, errors of different bases are
    independent, and a common error is added.  With shares ``w`` of the time and ``l`` the logarithm from the estimate
    to the end of a kernel's interval,

        L^2 = common^2 + sum over bases of (sum of w l)^2,    low = time / exp(L).
    """
    one = one.expected
    local_s = total(item.estimate.time_s for item in one.local)
    remote_s = total(item.estimate.time_s for item in one.remote)
    time_s = overlapped_s(one, local_s, remote_s)
    below, above = _spreads([*one.local, *one.remote], local_s + remote_s)
    fixed_s = total(item.estimate.fixed_s for item in one.local)
    return Estimates(time_s, time_s / exp(below), time_s * exp(above), fixed_s, time_s, time_s)


def _spreads(each: list[Bound], whole_s: Number) -> tuple[Number, Number]:
    """Return the logarithms from ``whole_s``, the sum of the operators' estimates, to the ends of its interval."""
    below: dict[str, Number] = {}
    above: dict[str, Number] = {}
    for item in each:
        low_s, high_s = item.deviations
        for basis, holds in item.estimate.bases:
            below[basis] = below.get(basis, 0.0) + low_s * holds
            above[basis] = above.get(basis, 0.0) + high_s * holds
    return _spread(below.values(), whole_s), _spread(above.values(), whole_s)


def _spread(groups: Iterable[Number], whole_s: Number) -> Number:
    """Return the root sum of squares of each basis's relative contribution and the common error."""
    squares = total((value / larger(whole_s, TINY_S)) ** 2 for value in groups)
    root: Number = (COMMON_MODE**2 + squares) ** 0.5
    return root


def hidden_s(one: ScheduledPass) -> Number:
    """Return the time that shared experts in a graph spend beside the routed ones (`roofline.phases.streams`)."""
    streams = branches(one.expected.local)
    return 0.0 if streams is None else streams.hidden_s(HostTimes.of(one.deployment.server))


def in_a_graph(found: Estimates, one: ScheduledPass) -> Estimates:
    """Return the estimate of a step launched as one captured graph, with the host's time, as servers decode."""
    serve = one.deployment
    host, shape = HostTimes.of(serve.server), HostedModel.of(serve, found.fixed_s)
    device_s = found.time_s - hidden_s(one)
    kernels_s = host.captured_s(device_s, shape)
    return _scaled(found, host.decode_s(device_s, shape), host.launch_share * found.fixed_s, kernels_s)


def captured(found: Estimates, one: ScheduledPass) -> Estimates:
    """Return the estimate of a pass inside another pass's graph; that pass includes the host's time."""
    host, shape = HostTimes.of(one.deployment.server), HostedModel.of(one.deployment, found.fixed_s)
    time_s = host.captured_s(found.time_s - hidden_s(one), shape)
    return _scaled(found, time_s, host.launch_share * found.fixed_s, found.kernels_s)


def one_by_one(found: Estimates, serve: Deployment, tokens: Number) -> Estimates:
    """Return the estimate of a pass without a graph: the longer of the host's launches and the kernels."""
    host = HostTimes.of(serve.server)
    time_s = host.prompts_s(found.time_s, HostedModel.of(serve, found.fixed_s), tokens)
    return _scaled(found, time_s, found.fixed_s, found.time_s * host.prefill_factor)


def within_a_step(found: Estimates, one: ScheduledPass) -> Estimates:
    """Return the estimate of a short eager pass inside a step, such as a draft head's, without scheduler time.

    Such a pass is one layer and what surrounds it, so the host's time goes by the operators that it launches rather
    than by its layers: ``eager_layer_s * operators / 9``.
    """
    host = HostTimes.of(one.deployment.server)._replace(step_s=0.0)
    operators = total(item.operator.launches for item in one.operators)
    shape = HostedModel.of(one.deployment, found.fixed_s)._replace(kernels=operators, quantizes=False)
    time_s = host.prompts_s(found.time_s, shape, np.inf)  # never captured
    return _scaled(found, time_s, found.fixed_s, found.kernels_s)


def _scaled(found: Estimates, time_s: Number, fixed_s: Number, kernels_s: Number) -> Estimates:
    """Return an estimate with another time and a proportional interval."""
    scale = time_s / larger(found.time_s, TINY_S)
    return Estimates(time_s, found.low_s * scale, found.high_s * scale, fixed_s, kernels_s, time_s)
