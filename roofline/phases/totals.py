"""Totals: what the operators of a pass come to together."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from ..errors import Number
from .bounds import Bound
from .deployment import Deployment
from .schedule import Schedule


class Parts(Protocol):
    """A pass: the bounds of its operators on one accelerator, and how it is scheduled."""

    @property
    def deployment(self) -> Deployment:
        """What runs where."""

    @property
    def schedule(self) -> Schedule:
        """How the pass runs on a pipeline and over replicas."""

    @property
    def operators(self) -> tuple[Bound, ...]:
        """Bounds of every operator."""


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


def total(parts: Iterable[Number]) -> Number:
    """Sum that broadcasts."""
    return sum(parts, 0.0)


def sums(phase: Parts) -> Sums:
    """Sums over the operators of ``phase``; the limited ones are the roofline time of those that a resource limits."""
    local = [item.times for item in phase.operators if item.operator.message is None]
    remote = [item.times for item in phase.operators if item.operator.message is not None]
    network_s = exposed(phase) * total(item.roofline_s for item in remote)
    each = local + remote
    return Sums(
        flops=total(item.flops for item in local),
        moved_bytes=total(item.moved_bytes for item in each),
        least_bytes=total(item.least_bytes for item in each),
        floor_s=reduce(np.maximum, resources_s(phase).values()),
        roofline_s=total(item.roofline_s for item in local) + network_s,
        compute_limited_s=total((item.compute_s > item.memory_s) * item.roofline_s for item in local),
        network_limited_s=network_s,
    )


def exposed(phase: Parts) -> Number:
    """Share of the time on the network that no other work hides."""
    return 1.0 - phase.deployment.parallel.overlap


def least_flops(phase: Parts) -> dict[str, Number]:
    """FLOPs of one pass that no implementation can avoid, by the format of the units that compute them."""
    flops: dict[str, Number] = {}
    for item in phase.operators:
        if item.operator.message is None:
            math = item.accelerator.math_on_chip(item.operator.least.math)
            flops[math] = flops.get(math, 0.0) + item.operator.count * item.operator.least.flops
    return flops


def resources_s(phase: Parts) -> dict[str, Number]:
    """Least busy time of each resource: ``memory``, ``compute`` by math format, and ``network``."""
    gpu, plan = phase.deployment.accelerator, phase.schedule
    least = total(item.times.least_bytes for item in phase.operators)
    found = {"memory": least * plan.once / gpu.memory_bytes_per_s}
    for math, flops in least_flops(phase).items():
        found[f"compute {math}"] = flops * plan.busy / gpu.dense_flops_per_s[math]
    if not phase.deployment.parallel.single:
        found["network"] = plan.busy * network_s(phase)
    return found


def network_s(phase: Parts) -> Number:
    """Least time of the messages of one pass."""
    gpu = phase.deployment.accelerator
    messages = [item.operator for item in phase.operators if item.operator.message is not None]
    return total(item.count * item.message.least_s(gpu) for item in messages if item.message is not None)


def estimates(phase: Parts) -> Estimates:
    """Sums of the operators' estimates and of the ends of their intervals; overlap hides network here too."""
    shares = [1.0 if item.operator.message is None else exposed(phase) for item in phase.operators]
    each = [(share, item.estimate) for share, item in zip(shares, phase.operators, strict=True)]
    return Estimates(
        total(share * item.time_s for share, item in each),
        total(share * item.low_s for share, item in each),
        total(share * item.high_s for share, item in each),
    )


def is_hardware_sweep(serve: Deployment) -> bool:
    """Whether rates or degrees of parallelism are arrays."""
    gpu = serve.accelerator
    rates = (gpu.memory_bytes_per_s, *gpu.dense_flops_per_s.values(), *serve.parallel.degrees)
    return any(isinstance(rate, np.ndarray) for rate in rates)
