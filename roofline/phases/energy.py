"""Energy of a pass: idle power, plus the cost of running kernels, bytes and FLOPs (`roofline.efficiency.power`).

With ``T`` the expected time of the pass, every accelerator of the deployment spends

    idle_j    = idle * TDP * T
    busy_j    = busy * TDP * (time in which its kernels run)
    memory_j  = memory * TDP * (moved bytes / memory bandwidth)
    compute_j = compute * TDP * (FLOPs / dense peak of their format)

Mean power is their sum divided by ``T``, or the power limit if that is less.  The energy of the pass is its mean power
times its time.  All terms are sums over operators, so the terms of two passes add up.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from ..arrays import larger, read_only, scalar, smaller
from ..efficiency.forms import TINY_S
from ..efficiency.kinds import kind_of
from ..efficiency.power import PowerDraw, power_model
from ..errors import Number
from ..hardware import Accelerator
from ..operators.roofline import memory_s
from ..report import Step
from ..units import humanize
from ..values import Sealed
from .bounds import Bound

if TYPE_CHECKING:
    from .deployment import Deployment
    from .passes import Phase
    from .totals import Estimates, ScheduledPass, Sums


class Use(NamedTuple):
    """Seconds for which one pass uses each part of an accelerator.

    Attributes
    ----------
    time_s : float or array
        Expected time of the pass without a power limit.
    kernels_s : float or array
        Time in which kernels run.
    memory_s : float or array
        Time of its bytes at the full memory bandwidth.
    compute_s : float or array
        Time of its FLOPs at the dense peak of their formats.
    """

    time_s: Number
    kernels_s: Number
    memory_s: Number
    compute_s: Number


class Energy(NamedTuple):
    """Energy of a pass, summed over all accelerators of the deployment.

    Attributes
    ----------
    idle_j, busy_j, memory_j, compute_j : float or array
        Energy without a power limit, by cause, J.
    unlimited_s : float or array
        Time of the pass without a power limit, seconds.
    demand_watts : float or array
        Mean power without a limit, W.
    watts, low_watts, high_watts : float or array
        Mean power under the limits, with the ends of an 80 % interval, W.
    """

    idle_j: Number
    busy_j: Number
    memory_j: Number
    compute_j: Number
    unlimited_s: Number
    demand_watts: Number
    watts: Number
    low_watts: Number
    high_watts: Number


class PassEnergy(Sealed):
    """Mixin of `roofline.phases.passes.Phase` with power and energy."""

    if TYPE_CHECKING:

        @property
        def estimate_s(self) -> Number:
            """Expected time, defined by `Phase`."""

    @cached_property
    def energy(self) -> Energy:
        """Power and energy of the pass by cause, summed over all accelerators."""
        return read_only(energy_of(cast("Phase", self)))

    @property
    def watts(self) -> Number:
        """Mean power of all accelerators in the pass, W, without their hosts."""
        return self.energy.watts

    @property
    def watts_low(self) -> Number:
        """Lower end of an 80 % interval of `watts`."""
        return self.energy.low_watts

    @property
    def watts_high(self) -> Number:
        """Upper end of an 80 % interval of `watts`."""
        return self.energy.high_watts

    @property
    def energy_j(self) -> Number:
        """Energy of all accelerators in the pass, J, at its expected time."""
        return self.watts * self.estimate_s

    @property
    def energy_low_j(self) -> Number:
        """Lower end of `energy_j`: the lower end of the power, at the expected time."""
        return self.watts_low * self.estimate_s

    @property
    def energy_high_j(self) -> Number:
        """Upper end of `energy_j`: the upper end of the power, at the expected time."""
        return self.watts_high * self.estimate_s


def use_of(sums: Sums, estimates: Estimates, accelerator: Accelerator) -> Use:
    """Return what one pass uses of one accelerator, from the sums over its operators."""
    return Use(estimates.unlimited_s, estimates.kernels_s, memory_s(sums.moved_bytes, accelerator), sums.peak_s)


def tdp_watts(accelerator: Accelerator) -> Number:
    """Return the TDP of an accelerator; NaN if it is not known."""
    return np.nan if accelerator.tdp_watts is None else accelerator.tdp_watts


def limit_watts(serve: Deployment) -> Number:
    """Return the highest power of one accelerator: its TDP, or the power limit if that is lower."""
    tdp, limit = tdp_watts(serve.accelerator), serve.power_limit_watts
    return tdp if limit is None else smaller(tdp, limit)


def energy_of(phase: Phase) -> Energy:
    """Return energy and power of a pass of the whole deployment."""
    serve, use, copies = phase.deployment, phase.use, phase.copies
    model, tdp, count = power_model(serve.accelerator), tdp_watts(serve.accelerator), serve.parallel.accelerators
    unlimited_s = use.time_s * phase.schedule.rounds
    idle_j = model.idle * tdp * count * unlimited_s
    busy_j, memory_j, compute_j = (
        share * tdp * copies * seconds
        for share, seconds in (
            (model.busy, use.kernels_s),
            (model.memory, use.memory_s),
            (model.compute, use.compute_s),
        )
    )
    demand = (idle_j + busy_j + memory_j + compute_j) / unlimited_s
    most, least = limit_watts(serve) * count, model.idle * tdp * count
    ends = [larger(smaller(demand * factor, most), least) for factor in (1.0, model.low, model.high)]
    return Energy(*(scalar(value) for value in (idle_j, busy_j, memory_j, compute_j, unlimited_s, demand, *ends)))


def power_draw(one: ScheduledPass, waits: Number, *, factor: float | None = None, static: str = "static") -> PowerDraw:
    """Return time and energy of a pass on one accelerator, at its full clock.

    Parameters
    ----------
    one : ScheduledPass
        One pass of one accelerator.
    waits : float or array
        Share of the kernels' time that waits for the memory or the network.
    factor : float, optional
        Ratio of measured to predicted power; by default the middle of the family's interval.
    static : str
        Share of the power that is independent of the clock if no family was fitted: ``static`` or ``static_low`` (see
        `roofline.efficiency.power.PowerDraw.steady`).
    """
    model, use, tdp = power_model(one.deployment.accelerator), one.use, tdp_watts(one.deployment.accelerator)
    clocked_s = use.kernels_s * (1.0 - waits)
    if model.fitted:
        scale = tdp * (np.sqrt(model.low * model.high) if factor is None else factor)
        memory_j, compute_j = scale * model.memory * use.memory_s, scale * model.compute * use.compute_s
        energies = (scale * model.idle, memory_j, scale * model.busy, compute_j)
    else:
        demand = smaller(model.share(use.kernels_s / use.time_s, 0.0, 0.0), 1.0) * tdp
        steady = PowerDraw.steady(demand, static=static)
        busy_watts = steady.busy_watts * use.time_s / larger(use.kernels_s, TINY_S)
        energies = (steady.standing_watts, 0.0, busy_watts, 0.0)
    return PowerDraw(use.time_s, use.kernels_s, clocked_s, *energies)


class Slowdown(NamedTuple):
    """A pass under a power limit.

    Attributes
    ----------
    draw : PowerDraw
        The pass at its full clock.
    full, clock : float or array
        Its clock at the TDP and under the limit, as shares of the full clock.
    """

    draw: PowerDraw
    full: Number
    clock: Number

    @property
    def added_s(self) -> Number:
        """Time that the limit adds."""
        return self.draw.clocked_s * (self.full / self.clock - 1.0)


def slowdown(one: ScheduledPass, draw: PowerDraw, limit: Number) -> Slowdown:
    """Return how a power limit in watts slows down a pass, relative to its time at the TDP."""
    tdp = tdp_watts(one.deployment.accelerator)
    full = draw.clock_at(tdp)
    return Slowdown(draw, full, draw.clock_under(smaller(limit, tdp), full))


def under_a_limit(one: ScheduledPass, found: Estimates, limit: Number) -> Estimates:
    """Return the estimate of a pass under a power limit in watts.

    Kernels that unpack weights into a wider format do so on the compute units.  On an RTX 3090, single streams of a
    3-bit model slow down as if no time were spent waiting for memory, those of a 4-bit mixture of experts as if four
    fifths were.  The estimate assumes the former for all such kernels, the lower end of its interval the latter.  The
    ends also use the ends of the power interval.  If no family was fitted, the lower end assumes the lowest
    clock-independent share of power that was measured on any board.
    """
    model = power_model(one.deployment.accelerator)
    low, high = (model.low, model.high) if model.fitted else (1.0, 1.0)
    least, most = memory_shares(one)
    added_s = slowdown(one, power_draw(one, least), limit).added_s
    slightly_s = slowdown(one, power_draw(one, most, factor=low, static="static_low"), limit).added_s
    most_s = slowdown(one, power_draw(one, least, factor=high), limit).added_s
    return found._replace(
        time_s=found.time_s + added_s,
        low_s=found.low_s + smaller(slightly_s, added_s) * found.low_s / found.time_s,
        high_s=found.high_s + larger(most_s, added_s) * found.high_s / found.time_s,
    )


def memory_shares(one: ScheduledPass) -> tuple[Number, Number]:
    """Return the share of a pass that waits for memory or network, without and with kernels that unpack weights.

    Shares are of the operators' estimates, so that the time that follows the clock is a sum over operators.
    """
    operators = one.expected.operators
    whole_s: Number = sum((item.estimate.time_s for item in operators), 0.0)
    least_s: Number = 0.0
    most_s: Number = 0.0
    for item in operators:
        waiting_s = (item.compute_s <= item.memory_s) * item.estimate.time_s
        most_s = most_s + waiting_s
        least_s = least_s + (0.0 if unpacks(item) else waiting_s)
    return scalar(least_s / larger(whole_s, TINY_S)), scalar(most_s / larger(whole_s, TINY_S))


def unpacks(item: Bound) -> bool:
    """Return whether an operator's weights are stored in a narrower format than its math."""
    if item.operator.kind not in ("matmul", "experts"):
        return False
    weights = kind_of(item.operator, item.math).partition(".")[2]
    return weights.endswith("a16") or weights in ("w4a8", "mx4a8")


BEYOND_THE_BOARD = {"module": "the module with its CPU", "machine": "the whole machine at the wall"}
"""Scope of a TDP that covers more than the accelerator -> its description."""


def power_notes(serve: Deployment) -> tuple[str, ...]:
    """Return notes on the basis of the power values and on the power limit, if one is set."""
    gpu = serve.accelerator
    if gpu.tdp_watts is None:
        return (f"power: {gpu.name} states no TDP",)
    notes = [power_model(gpu).basis]
    if gpu.tdp_scope in BEYOND_THE_BOARD:
        notes.append(f"power: the TDP of {gpu.name} covers {BEYOND_THE_BOARD[gpu.tdp_scope]}")
    if serve.power_limit_watts is not None:
        notes.append(f"power limit: {humanize('watts', serve.power_limit_watts)} per accelerator")
    return tuple(notes)


def explain_energy(phase: Phase) -> Iterator[Step]:
    """Yield the derivation of power and energy: idle, running kernels, bytes, FLOPs, limit."""
    serve, use, found, name = phase.deployment, phase.use, phase.energy, phase.name
    gpu, model = serve.accelerator, power_model(serve.accelerator)
    if gpu.tdp_watts is None:
        return
    tdp = {"tdp_watts": gpu.tdp_watts}
    count, copies = {"accelerators": serve.parallel.accelerators}, {"copies": phase.copies}
    inputs = {"idle": model.idle, **tdp, **count, "time_s": found.unlimited_s}
    yield Step(f"{name}.idle_j", "idle * tdp_watts * accelerators * time_s", inputs, found.idle_j, model.basis)
    parts = (
        ("busy", model.busy, "kernels_s", use.kernels_s, found.busy_j),
        ("memory", model.memory, "memory_s", use.memory_s, found.memory_j),
        ("compute", model.compute, "compute_s", use.compute_s, found.compute_j),
    )
    for part, share, seconds, value, joules in parts:
        inputs = {part: share, **tdp, **copies, seconds: value}
        formula = f"{part} * tdp_watts * copies * {seconds}"
        yield Step(f"{name}.{part}_j", formula, inputs, joules, SPENT_ON[part])
    inputs = {f"{part}_j": getattr(found, f"{part}_j") for part in ("idle", "busy", "memory", "compute")}
    formula = "(idle_j + busy_j + memory_j + compute_j) / time_s"
    demand = {**inputs, "time_s": found.unlimited_s}
    yield Step(f"{name}.demand_watts", formula, demand, found.demand_watts, "without a power limit")
    inputs = {"demand_watts": found.demand_watts, **count, "limit_watts": limit_watts(serve)}
    inputs |= {"idle": model.idle, **tdp}
    source = gpu.source_of("tdp_watts") if serve.power_limit_watts is None else "the power limit that is set"
    formula = "max(min(demand_watts, accelerators * limit_watts), idle * tdp_watts * accelerators)"
    yield Step(f"{name}.watts", formula, inputs, found.watts, source)
    inputs = {"watts": found.watts, "estimate_s": phase.estimate_s}
    yield Step(f"{name}.energy_j", "watts * estimate_s", inputs, phase.energy_j, "all accelerators")


SPENT_ON = {
    "busy": "while kernels run, on every accelerator",
    "memory": "moved bytes at the full bandwidth",
    "compute": "FLOPs at the dense peak",
}
"""Part of the energy -> what it is spent on."""
