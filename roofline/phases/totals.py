"""Totals: what the operators of a pass come to together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import NamedTuple, TypeVar

import numpy as np

from ..efficiency.estimates import Estimate
from ..efficiency.joining import shares
from ..efficiency.store import runs_kernels_of
from ..errors import Number
from ..operators.operator import Operator, Segment
from ..operators.roofline import compute_s, memory_s
from ..values import Value
from .bounds import Bound, Part
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
    """Expected time of one pass with its interval, and the part of it that launching kernels one by one costs."""

    time_s: Number
    low_s: Number
    high_s: Number
    fixed_s: Number


Totals = TypeVar("Totals", Sums, Estimates)


@dataclass(frozen=True)
class ScheduledPass(Value):
    """One forward pass with everything that decides its times.

    Attributes
    ----------
    deployment : what runs where
    schedule : how the pass runs on a pipeline and over replicas
    operators : bounds of every operator of one microbatch on the most loaded accelerator
    graph : whether its kernels are launched as one captured graph
    """

    deployment: Deployment
    schedule: Schedule
    operators: tuple[Bound, ...]
    graph: bool = False

    @cached_property
    def sums(self) -> Sums:
        """Sums over the operators."""
        return sums(self)

    @cached_property
    def estimates(self) -> Estimates:
        """Sums of the operators' estimates, less what a graph saves."""
        return in_a_graph(estimates(self)) if self.graph else estimates(self)

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


def bounds_of(serve: Deployment, segments: tuple[Segment, ...]) -> tuple[Bound, ...]:
    """Bounds of every operator of one pass of ``segments`` through the model of ``serve``."""
    return bound_together(serve, tuple(serve.model.operators(serve.run(*segments))))


def bound_together(serve: Deployment, operators: tuple[Operator, ...]) -> tuple[Bound, ...]:
    """Bounds of the operators of one pass; those that engines run as one kernel share its estimate.

    See `roofline.efficiency.joining`.
    """
    kernels: dict[int, Bound] = {}
    found = []
    for operator, joined in zip(operators, shares(operators, serve.routing_skew), strict=True):
        part = None
        if joined is not None:
            kernel = joined.kernel
            engine = runs_kernels_of(serve.accelerator, kernel.kind, serve.kernels)
            whole = kernels.setdefault(id(kernel), Bound(kernel, serve.accelerator, engine=engine))
            part = Part(whole, joined.share)
        found.append(Bound(operator, serve.accelerator, engine=serve.kernels, part=part))
    return tuple(found)


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
        least_bytes=total(item.least_bytes for item in each),
        floor_s=reduce(np.maximum, resources_s(one).values()),
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


def least_flops(one: ScheduledPass) -> dict[str, Number]:
    """FLOPs of one pass that no implementation can avoid, by the format of the units that compute them."""
    flops: dict[str, Number] = {}
    for item in one.operators:
        if item.operator.message is None:
            math = item.accelerator.math_on_chip(item.operator.least.math)
            flops[math] = flops.get(math, 0.0) + item.operator.count * item.operator.least.flops
    return flops


def resources_s(one: ScheduledPass) -> dict[str, Number]:
    """Least busy time of each resource: ``memory``, ``compute`` by math format, and ``network``."""
    gpu, plan = one.deployment.accelerator, one.schedule
    least = total(item.times.least_bytes for item in one.operators)
    found = {"memory": memory_s(least * plan.once, gpu)}
    for math, flops in least_flops(one).items():
        found[f"compute {math}"] = compute_s(flops * plan.busy, gpu, math)
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
shows that.  Found from whole models left out (benchmarks/accuracy.md)."""


def estimates(one: ScheduledPass) -> Estimates:
    """Sums of the operators' estimates, with an interval; overlap hides network here too.

    Errors of kernels that rest on the same timings go together, those of others are independent, and a common mode is
    on top: with shares ``w`` of the time and ``l`` the logarithm from the estimate to the end of a kernel's interval,

        L^2 = common^2 + sum over bases of (sum of w l)^2,    low = time / exp(L).
    """
    local = [item.estimate for item in one.operators if item.operator.message is None]
    remote = [item.estimate for item in one.operators if item.operator.message is not None]
    time_s = overlapped_s(one, total(item.time_s for item in local), total(item.time_s for item in remote))
    return Estimates(
        time_s,
        time_s / np.exp(_spread([*local, *remote], "low_s")),
        time_s * np.exp(_spread([*local, *remote], "high_s")),
        total(item.fixed_s for item in local),
    )


def _spread(each: list[Estimate], end: str) -> Number:
    """Logarithm from the sum of estimates to an end of its interval."""
    whole_s = total(item.time_s for item in each)
    groups: dict[str, Number] = {}
    for item in each:
        part = item.time_s / np.maximum(whole_s, TINY_S)
        off = np.abs(np.log(np.maximum(getattr(item, end), TINY_S) / np.maximum(item.time_s, TINY_S)))
        groups[item.basis] = groups.get(item.basis, 0.0) + part * off
    return np.sqrt(COMMON_MODE**2 + total(value**2 for value in groups.values()))


TINY_S = 1e-30
"""Keeps the logarithms of times that are 0 finite."""

GRAPH_SHARE = 0.45
"""Share of the fixed times that a captured graph leaves: 0.4 to 0.5 in whole servers, whose decode steps run as one."""

HOST_STEP_S = 5e-4
"""Scheduling, sampling and launching a step of a server: 0.45 to 1.3 ms measured beyond its kernels (vLLM, an 8B model
on H100 0.45 ms; gpt-fast on A100 0.6 to 0.8 ms)."""


def in_a_graph(found: Estimates) -> Estimates:
    """A step whose kernels are launched as one captured graph, and the host's part of it, as servers decode."""
    time_s = found.time_s - (1 - GRAPH_SHARE) * found.fixed_s + HOST_STEP_S
    scale = time_s / np.maximum(found.time_s, TINY_S)
    return Estimates(time_s, found.low_s * scale, found.high_s * scale, GRAPH_SHARE * found.fixed_s)


def is_hardware_sweep(serve: Deployment) -> bool:
    """Whether rates or degrees of parallelism are arrays."""
    gpu = serve.accelerator
    rates = (gpu.memory_bytes_per_s, *gpu.dense_flops_per_s.values(), *serve.parallel.degrees)
    return any(isinstance(rate, np.ndarray) for rate in rates)
