"""Totals: what the operators of a pass come to together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import NamedTuple, TypeVar

import numpy as np

from ..errors import Number
from ..operators.alternatives import Chosen, cheapest, picked
from ..operators.operator import Operator, Segment
from ..operators.roofline import least_compute_s, memory_s, units_of
from ..values import Value
from .bounds import Bound
from .deployment import Deployment
from .schedule import Schedule


class Sums(NamedTuple):
    """Sums over the operators of one pass of one accelerator; ``floor_s`` is the whole schedule's."""

    flops: Number
    moved_bytes: Number
    least_bytes: Number
    floor_s: Number
    roofline_s: Number
    compute_limited_s: Number
    network_limited_s: Number


class Estimates(NamedTuple):
    """Expected time of one pass with its interval."""

    time_s: Number
    low_s: Number
    high_s: Number


Totals = TypeVar("Totals", Sums, Estimates)


@dataclass(frozen=True)
class ScheduledPass(Value):
    """One forward pass with everything that decides its times.

    Attributes
    ----------
    deployment : what runs where
    schedule : how the pass runs on a pipeline and over replicas
    operators : bounds of every operator of one microbatch on the most loaded accelerator; where a part can be computed
        in several ways, of the one with the least roofline
    ways : bounds of the operators of all ways; empty if there is only one
    """

    deployment: Deployment
    schedule: Schedule
    operators: tuple[Bound, ...]
    ways: tuple[Bound, ...] = ()

    @cached_property
    def least(self) -> ScheduledPass:
        """The pass computed in the ways that have the lowest floor together."""
        return _least(self) if self.ways else self

    @cached_property
    def sums(self) -> Sums:
        """Sums over the operators."""
        return sums(self)

    @cached_property
    def estimates(self) -> Estimates:
        """Sums of the operators' estimates."""
        return estimates(self)

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
    change: Callable[[Operator], Operator] | None = None,
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
    """
    found = serve.model.operators(serve.run(*(schedule.segments if segments is None else segments)))
    if change is not None:
        found = tuple(change(operator) for operator in found)
    bounds = tuple(Bound(operator, serve.accelerator, engine=serve.kernels) for operator in found)
    if not any(operator.choice for operator in found):
        return ScheduledPass(serve, schedule, bounds)
    chosen = cheapest(found, lambda at: bounds[at].roofline_s)
    return ScheduledPass(serve, schedule, _chosen(bounds, chosen), bounds)


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


def _floor_s(one: ScheduledPass) -> Number:
    return reduce(np.maximum, resources_s(one).values())


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
    )


def overlapped_s(one: ScheduledPass, local_s: Number, network_s: Number) -> Number:
    """Time of work on the chip and of the network where a share ``overlap`` of the latter may run beside the former.

    What is hidden runs beside work on the chip, so it can't be longer than that: the network alone is a lower bound,
    ``max(local + (1 - overlap) * network, network)``.
    """
    if one.deployment.parallel.single:
        return local_s
    return np.maximum(local_s + (1.0 - one.deployment.parallel.overlap) * network_s, network_s)


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
    weights = total(item.operator.count * item.operator.least.weight_bytes for item in one.operators)
    return weights * plan.once + (total(item.times.least_bytes for item in one.operators) - weights) * plan.busy


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


def estimates(one: ScheduledPass) -> Estimates:
    """Sums of the operators' estimates and of the ends of their intervals; overlap hides network here too."""
    local = [item.estimate for item in one.operators if item.operator.message is None]
    remote = [item.estimate for item in one.operators if item.operator.message is not None]
    return Estimates(
        overlapped_s(one, total(item.time_s for item in local), total(item.time_s for item in remote)),
        overlapped_s(one, total(item.low_s for item in local), total(item.low_s for item in remote)),
        overlapped_s(one, total(item.high_s for item in local), total(item.high_s for item in remote)),
    )


def is_hardware_sweep(serve: Deployment) -> bool:
    """Whether rates or degrees of parallelism are arrays."""
    gpu = serve.accelerator
    rates = (gpu.memory_bytes_per_s, *gpu.dense_flops_per_s.values(), *serve.parallel.degrees)
    return any(isinstance(rate, np.ndarray) for rate in rates)
