"""Totals: what the operators of a pass come to together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import NamedTuple, TypeVar

import numpy as np

from ..arrays import scalar
from ..efficiency.estimates import Estimate
from ..efficiency.joining import shares
from ..efficiency.lookup import runs_kernels_of
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
    launch : how its kernels are launched: ``graph``, as one captured graph, as servers run decode steps; ``eager``, one
        by one; empty where only kernels count
    """

    deployment: Deployment
    schedule: Schedule
    operators: tuple[Bound, ...]
    launch: str = ""

    @cached_property
    def sums(self) -> Sums:
        """Sums over the operators."""
        return sums(self)

    @cached_property
    def estimates(self) -> Estimates:
        """Sums of the operators' estimates, with the host's part."""
        found, host = estimates(self), host_of(self.deployment)
        if self.launch == "graph":
            found = in_a_graph(found, host)
        elif self.launch == "eager":
            found = one_by_one(found, host)
        return Estimates(*(scalar(value) for value in found))

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


class Host(NamedTuple):
    """What the host of an engine adds to the kernels of a pass, as `roofline.serving.host` has it for its steps.

    Attributes
    ----------
    launch_share : share of the fixed times that a graph leaves: 0.4 to 0.5 in whole servers
    step_s : scheduling, sampling and waiting for other ranks in a decode step
    pass_s : the same in a pass with prompts
    eager_s : launching the kernels of all layers one by one
    prefill_factor : how much longer kernels of prompts take than by themselves
    """

    launch_share: Number
    step_s: Number
    pass_s: Number
    eager_s: Number
    prefill_factor: Number


def host_of(serve: Deployment) -> Host:
    """The host's times of the engine of ``serve`` (engine_specs)."""
    engine, parallel = serve.server, serve.parallel
    layer_s = (engine.layer_s or 0.0) + (engine.rank_s or 0.0) * np.log2(parallel.tensor * parallel.context)
    layers, step_s = serve.model.layer_count, engine.step_s or 0.0
    return Host(
        launch_share=1.0 if engine.launch_share is None else engine.launch_share,
        step_s=step_s + layers * layer_s,
        pass_s=step_s,
        eager_s=layers * (engine.eager_layer_s or 0.0),
        prefill_factor=engine.prefill_factor or 1.0,
    )


def in_a_graph(found: Estimates, host: Host) -> Estimates:
    """A step whose kernels are launched as one captured graph, and the host's part of it, as servers decode."""
    time_s = found.time_s - (1 - host.launch_share) * found.fixed_s + host.step_s
    return _scaled(found, time_s, host.launch_share * found.fixed_s)


EAGER_NORM = 4.0
"""Exponent that joins the device and the host of an eager pass: near the longer one, rounded where they meet."""


def one_by_one(found: Estimates, host: Host) -> Estimates:
    """A pass whose kernels the host launches while the device works on earlier ones: the longer of the two."""
    device_s = found.time_s * host.prefill_factor
    time_s = (device_s**EAGER_NORM + host.eager_s**EAGER_NORM) ** (1 / EAGER_NORM) + host.pass_s
    return _scaled(found, time_s, found.fixed_s)


def _scaled(found: Estimates, time_s: Number, fixed_s: Number) -> Estimates:
    """Another time with the interval in proportion."""
    scale = time_s / np.maximum(found.time_s, TINY_S)
    return Estimates(time_s, found.low_s * scale, found.high_s * scale, fixed_s)


def is_hardware_sweep(serve: Deployment) -> bool:
    """Whether rates or degrees of parallelism are arrays."""
    gpu = serve.accelerator
    rates = (gpu.memory_bytes_per_s, *gpu.dense_flops_per_s.values(), *serve.parallel.degrees)
    return any(isinstance(rate, np.ndarray) for rate in rates)
