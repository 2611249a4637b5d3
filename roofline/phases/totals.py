"""Totals: what the operators of a pass come to together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from math import exp, log
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..arrays import anywhere, larger, scalar
from ..efficiency.estimates import Estimate
from ..efficiency.forms import TINY_S
from ..errors import Number
from ..operators.alternatives import Chosen, cheapest, picked
from ..operators.operator import Operator, Segment
from ..operators.roofline import compute_s, least_compute_s, memory_s, units_of
from ..values import Value
from .bounds import Bound, Kernels
from .deployment import Deployment
from .energy import Use, under_a_limit, use_of
from .host import LAYER_OPERATORS, HostedModel, HostTimes
from .schedule import Schedule


class Sums(NamedTuple):
    """Sums over the operators of one pass of one accelerator; ``floor_s`` is the whole schedule's.

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
    """Expected time of one pass with its interval.

    Attributes
    ----------
    time_s : float or array
        Expected time.
    low_s, high_s : float or array
        Ends of its 80 % interval.
    fixed_s : float or array
        The part that launching kernels one by one costs.
    kernels_s : float or array
        The part in which kernels run: all of it but the host's.
    unlimited_s : float or array
        The time without a power limit.
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
    """One forward pass with everything that decides its times.

    Attributes
    ----------
    deployment : Deployment
        What runs where.
    schedule : Schedule
        How the pass runs on a pipeline and over replicas.
    operators : tuple of Bound
        Bounds of every operator of one microbatch on the most loaded accelerator; where a part can be computed in
        several ways, of the one with the least roofline.  The floor and the estimate take the way that is the fastest
        by themselves (``least``, ``expected``).
    ways : tuple of Bound
        Bounds of the operators of all ways; empty if there is only one.
    launch : str
        How its kernels are launched: ``graph``, as one captured graph, as servers run decode steps;
        ``captured``, as a part of the graph of another pass; ``within``, one by one inside a step; ``eager``, one by
        one; empty where only kernels count.
    """

    deployment: Deployment
    schedule: Schedule
    operators: tuple[Bound, ...]
    ways: tuple[Bound, ...] = ()
    launch: str = ""

    @property
    def least(self) -> ScheduledPass:
        """The pass computed in the ways that have the lowest floor together."""
        return self._other_least or self

    @property
    def expected(self) -> ScheduledPass:
        """The pass computed in the ways that the estimate expects to be faster."""
        return self._other_expected or self

    # None is this pass itself: one that held itself would live on, with its operators, until garbage is collected.
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
        """Sums of the operators' estimates, with the host's part, under the power limit if one is set."""
        limit = self.deployment.power_limit_watts
        if limit is None:
            return self.unlimited
        return Estimates(*(scalar(value) for value in under_a_limit(self, self.unlimited, limit)))

    @cached_property
    def unlimited(self) -> Estimates:
        """The same at the power that the accelerators were timed with."""
        found = self.kernels
        if self.launch == "graph":
            found = in_a_graph(found, self.deployment)
        elif self.launch == "captured":
            found = captured(found, self.deployment)
        elif self.launch == "eager":
            found = one_by_one(found, self.deployment, self.tokens)
        elif self.launch == "within":
            found = within_a_step(found, self)
        return Estimates(*(scalar(value) for value in found))

    @property
    def use(self) -> Use:
        """What one pass of one accelerator uses of its parts."""
        return use_of(self.sums, self.unlimited, self.deployment.accelerator)

    @cached_property
    def kernels(self) -> Estimates:
        """Sums of the operators' estimates by themselves, without the host's part."""
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
        """Operators one after another."""
        return self.sums.roofline_s * self.schedule.rounds

    @property
    def estimate_s(self) -> Number:
        """Expected time."""
        return self.estimates.time_s * self.schedule.rounds


def scheduled_pass(
    serve: Deployment,
    schedule: Schedule,
    segments: tuple[Segment, ...] | None = None,
    *,
    change: Callable[[Operator], Operator] | None = None,
    launch: str = "",
) -> ScheduledPass:
    """One pass of a microbatch through the model of ``serve``.

    Parameters
    ----------
    serve : Deployment
        What runs where.
    schedule : Schedule
        How the pass runs on a pipeline and over replicas.
    segments : tuple of Segment, optional
        The sequences, if other than the schedule's.
    change : callable, optional
        Makes another operator of each.
    launch : {"", "graph", "captured", "eager", "within"}
        How its kernels are launched.
    """
    found = serve.model.operators(serve.run(*(schedule.segments if segments is None else segments)))
    if change is not None:
        found = tuple(change(operator) for operator in found)
    if not any(operator.choice for operator in found):
        return ScheduledPass(serve, schedule, bound_together(serve, found), launch=launch)
    ways = tuple(Bound(operator, serve.accelerator, engine=serve.kernels) for operator in found)
    chosen = cheapest(found, lambda at: ways[at].roofline_s)
    running = tuple(operator for operator in (picked(item, chosen) for item in found) if operator is not None)
    return ScheduledPass(serve, schedule, bound_together(serve, running), ways, launch)


@lru_cache(maxsize=256)
def scheduled_once(serve: Deployment, schedule: Schedule, launch: str, folders: str) -> ScheduledPass:
    """A pass without arrays; those of the last questions are kept, which what-ifs and plans ask again and again.

    ``folders`` are the user's own of specifications, which estimates depend on.
    """
    return scheduled_pass(serve, schedule, launch=launch)


def bound_together(serve: Deployment, operators: Sequence[Operator]) -> tuple[Bound, ...]:
    """Bounds of the operators of one pass; those that engines run as one kernel share its estimate.

    See `roofline.efficiency.joining`.
    """
    gpu, engine = serve.accelerator, serve.kernels
    kernels = Kernels(tuple(operators), gpu, engine, serve.routing_skew)
    return tuple(
        Bound(operator, gpu, engine=engine, kernels=kernels, place=place) for place, operator in enumerate(operators)
    )


def _chosen(ways: tuple[Bound, ...], chosen: Chosen) -> tuple[Bound, ...]:
    """Bounds of the operators that run."""
    found = []
    for item in ways:
        operator = picked(item.operator, chosen)
        if operator is item.operator:
            found.append(item)
        elif operator is not None:
            found.append(replace(item, operator=operator))
    return tuple(found)


def _least(one: ScheduledPass) -> ScheduledPass:
    """Of each choice the way with the least time on its units; all ways move the same compulsory bytes."""
    operators = [item.operator for item in one.ways]
    gpu = one.deployment.accelerator
    chosen = cheapest(operators, lambda at: least_compute_s(operators[at], gpu))
    return replace(one, operators=_chosen(one.ways, chosen), ways=())


def _expected(one: ScheduledPass) -> ScheduledPass | None:
    """Of each choice the way with the least estimate; None if these are the ways with the least roofline."""
    operators = [item.operator for item in one.ways]
    chosen = cheapest(operators, lambda at: one.ways[at].estimate.time_s)
    by_roofline = cheapest(operators, lambda at: one.ways[at].roofline_s)
    if all(np.array_equal(runs, by_roofline[option]) for option, runs in chosen.items()):
        return None
    found = (picked(operator, chosen) for operator in operators)
    running = tuple(operator for operator in found if operator is not None)
    return replace(one, operators=bound_together(one.deployment, running), ways=())


def _floor_s(one: ScheduledPass) -> Number:
    return reduce(larger, resources_s(one).values())


def total(parts: Iterable[Number]) -> Number:
    """Sum that broadcasts."""
    return sum(parts, 0.0)


def sums(one: ScheduledPass) -> Sums:
    """Sums over the operators of a pass; the limited ones are the roofline time of those that a resource limits."""
    local = [item.times for item in one.operators if item.operator.message is None]
    remote = [item.times for item in one.operators if item.operator.message is not None]
    each = local + remote
    local_s = total(item.roofline_s for item in local)
    roofline_s = overlapped_s(one, local_s, total(item.roofline_s for item in remote))
    return Sums(
        flops=total(item.flops for item in local),
        moved_bytes=total(item.moved_bytes for item in each),
        least_bytes=total(item.times.least_bytes for item in one.least.operators),
        floor_s=_floor_s(one),
        roofline_s=roofline_s,
        compute_limited_s=total((item.compute_s > item.memory_s) * item.roofline_s for item in local),
        network_limited_s=roofline_s - local_s if remote else 0.0,
        peak_s=peak_s(one),
    )


def peak_s(one: ScheduledPass) -> Number:
    """What the FLOPs of work on the chip take at the dense peaks of their formats."""
    flops: dict[str, Number] = {}
    for item in one.operators:
        if item.operator.message is None and anywhere(item.flops > 0):
            flops[item.math] = flops.get(item.math, 0.0) + item.flops
    return total(compute_s(each, one.deployment.accelerator, math) for math, each in flops.items())


def overlapped_s(one: ScheduledPass, local_s: Number, network_s: Number) -> Number:
    """Time of work on the chip and of the network where a share ``overlap`` of the latter may run beside the former.

    What is hidden runs beside work on the chip, so it can't be longer than that: the network alone is a lower bound,
    ``max(local + (1 - overlap) * network, network)``.
    """
    if one.deployment.parallel.single:
        return local_s
    return larger(local_s + (1.0 - one.deployment.parallel.overlap) * network_s, network_s)


def computing(one: ScheduledPass) -> dict[str, list[Operator]]:
    """Operators that occupy each kind of units, ``matrix`` and ``vector``."""
    found: dict[str, list[Operator]] = {}
    for item in one.operators:
        operator = item.operator
        no_math = isinstance(operator.least.flops, float) and operator.least.flops == 0.0
        if operator.message is None and not no_math:
            found.setdefault(units_of(operator, item.accelerator), []).append(operator)
    return found


def least_bytes(one: ScheduledPass) -> Number:
    """Bytes that the busiest accelerator can't avoid moving: weights at least once, caches for every sequence.

    A pipeline prefills its sequences one by one: its weights may stay on the chip meanwhile, every cache is another.
    """
    plan = one.schedule
    if one.deployment.parallel.single:
        return total(item.times.least_bytes for item in one.operators)
    weights = weight_bytes(one.operators)
    return weights * plan.once + (total(item.times.least_bytes for item in one.operators) - weights) * plan.busy


def weight_bytes(operators: Iterable[Bound]) -> Number:
    """Bytes of the weights of a pass, read once, that it can't avoid moving."""
    return total(item.operator.count * item.operator.least.weight_bytes for item in operators)


def weights_s(one: ScheduledPass) -> Number:
    """Least time in which the weights of a pass are read; part of the busy time of the memory."""
    return memory_s(weight_bytes(one.operators) * one.schedule.once, one.deployment.accelerator)


def resources_s(one: ScheduledPass) -> dict[str, Number]:
    """Least busy time of each resource: ``memory``, the ``matrix`` and the ``vector`` units, and the ``network``."""
    gpu, plan, one = one.deployment.accelerator, one.schedule, one.least
    found = {"memory": memory_s(least_bytes(one), gpu)}
    for units, operators in computing(one).items():
        found[units] = plan.busy * total(least_compute_s(operator, gpu) for operator in operators)
    if not one.deployment.parallel.single:
        found["network"] = plan.busy * network_s(one)
    return found


def network_s(one: ScheduledPass) -> Number:
    """Least time of the messages of one pass."""
    gpu = one.deployment.accelerator
    messages = [item.operator for item in one.operators if item.operator.message is not None]
    return total(item.count * item.message.least_s(gpu) for item in messages if item.message is not None)


COMMON_MODE = 0.2
"""Natural logarithm of the factor by which all kernels of a model are off together, at the ends of an 80 % interval.

Releases of one engine differ by 15 to 35 %, hosts, clocks and cooling by some percent; no timing of a kernel by itself
shows that.  Found from whole models left out (benchmarks/accuracy.py)."""


def estimates(one: ScheduledPass) -> Estimates:
    """Sums of the operators' estimates, with an interval; overlap hides network here too.

    Errors of kernels that rest on the same timings go together, those of others are independent, and a common mode is
    on top: with shares ``w`` of the time and ``l`` the logarithm from the estimate to the end of a kernel's interval,

        L^2 = common^2 + sum over bases of (sum of w l)^2,    low = time / exp(L).
    """
    operators = one.expected.operators
    local = [item.estimate for item in operators if item.operator.message is None]
    remote = [item.estimate for item in operators if item.operator.message is not None]
    each = local + remote
    time_s = overlapped_s(one, total(item.time_s for item in local), total(item.time_s for item in remote))
    below, above = _spread(each, [item.low_s for item in each]), _spread(each, [item.high_s for item in each])
    fixed_s = total(item.fixed_s for item in local)
    return Estimates(time_s, time_s / _exp(below), time_s * _exp(above), fixed_s, time_s, time_s)


def _spread(each: list[Estimate], ends: list[Number]) -> Number:
    """Logarithm from the sum of estimates to an end of its interval; ``ends`` are theirs."""
    whole_s = total(item.time_s for item in each)
    groups: dict[str, Number] = {}
    for item, end_s in zip(each, ends, strict=True):
        off: Any = abs(_log(larger(end_s, TINY_S) / larger(item.time_s, TINY_S)))
        for basis, holds in item.bases:
            groups[basis] = groups.get(basis, 0.0) + item.time_s * off * holds
    squares = total((value / larger(whole_s, TINY_S)) ** 2 for value in groups.values())
    return (COMMON_MODE**2 + squares) ** 0.5


def _log(value: Number) -> Number:
    """Natural logarithm, of a float without the price of an array."""
    return np.log(value) if isinstance(value, np.ndarray) else log(value)


def _exp(value: Number) -> Number:
    """Exponential, of a float without the price of an array."""
    return np.exp(value) if isinstance(value, np.ndarray) else exp(value)


def in_a_graph(found: Estimates, serve: Deployment) -> Estimates:
    """A step whose kernels are launched as one captured graph, and the host's part of it, as servers decode."""
    host, shape = HostTimes.of(serve.server), HostedModel.of(serve, found.fixed_s)
    kernels_s = host.captured_s(found.time_s, shape)
    return _scaled(found, host.decode_s(found.time_s, shape), host.launch_share * found.fixed_s, kernels_s)


def captured(found: Estimates, serve: Deployment) -> Estimates:
    """A pass whose kernels are a part of the graph of another pass, which the host's part is counted with."""
    host = HostTimes.of(serve.server)
    time_s = host.captured_s(found.time_s, HostedModel.of(serve, found.fixed_s))
    return _scaled(found, time_s, host.launch_share * found.fixed_s, found.kernels_s)


def one_by_one(found: Estimates, serve: Deployment, tokens: Number) -> Estimates:
    """A pass whose kernels the host launches while the device works on earlier ones: the longer of the two."""
    host = HostTimes.of(serve.server)
    time_s = host.prompts_s(found.time_s, HostedModel.of(serve, found.fixed_s), tokens)
    return _scaled(found, time_s, found.fixed_s, found.time_s * host.prefill_factor)


def within_a_step(found: Estimates, one: ScheduledPass) -> Estimates:
    """A short eager pass inside a step, as of a draft head, which adds nothing to what the scheduler takes.

    Such a pass is one layer and what surrounds it, so the host's time goes by the operators that it launches rather
    than by layers: ``eager_layer_s * operators / 12``.
    """
    host = HostTimes.of(one.deployment.server)._replace(step_s=0.0)
    operators = total(item.operator.launches for item in one.operators)
    shape = HostedModel.of(one.deployment, found.fixed_s)._replace(layers=operators / LAYER_OPERATORS, quantizes=False)
    time_s = host.prompts_s(found.time_s, shape, np.inf)  # never captured
    return _scaled(found, time_s, found.fixed_s, found.kernels_s)


def _scaled(found: Estimates, time_s: Number, fixed_s: Number, kernels_s: Number) -> Estimates:
    """Another time with the interval in proportion."""
    scale = time_s / larger(found.time_s, TINY_S)
    return Estimates(time_s, found.low_s * scale, found.high_s * scale, fixed_s, kernels_s, time_s)
