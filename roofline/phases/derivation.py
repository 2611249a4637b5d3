"""Derivation of a phase: every operator, the sums over them, and the three times, with the numbers put in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from ..errors import Number
from ..report import Step
from .bounds import Bound
from .totals import Estimates, Parts, Sums, exposed, least_flops, network_s


class Explained(Parts, Protocol):
    """A pass with its totals."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def sums(self) -> Sums:
        """Sums over the operators."""

    @property
    def estimates(self) -> Estimates:
        """Sums of the operators' estimates."""

    @property
    def floor_s(self) -> Number:
        """Least possible time."""

    @property
    def roofline_s(self) -> Number:
        """Operators one after another."""

    @property
    def estimate_s(self) -> Number:
        """Expected time."""


def explain_phase(phase: Explained) -> tuple[Step, ...]:
    """Steps that lead from the shapes of the operators to the three times of ``phase``."""
    operators = [step for item in phase.operators for step in item.explain()]
    sums = [_sum_of(phase, column) for column in ("flops", "moved_bytes", "least_bytes")]
    return (*operators, *sums, *_floor(phase), *_roofline(phase), *_estimate(phase))


def _sum_of(phase: Explained, column: str) -> Step:
    parts = _parts([(item, getattr(item, column)) for item in phase.operators])
    return _total(f"{phase.name}.{column}_of_a_pass", parts, getattr(phase.sums, column), "sum over operators")


def _parts(items: list[tuple[Bound, Number]]) -> dict[str, Number]:
    """Values by the operator's name; a name that comes again gets a number."""
    parts: dict[str, Number] = {}
    for item, value in items:
        parts[item.name if item.name not in parts else f"{item.name}_{len(parts)}"] = value
    return parts


def _total(name: str, parts: dict[str, Number], value: Number, source: str) -> Step:
    return Step(name, " + ".join(parts), parts, value, source)


def _floor(phase: Explained) -> Iterator[Step]:
    gpu, plan, name = phase.deployment.accelerator, phase.schedule, phase.name
    bandwidth = gpu.memory_bytes_per_s
    memory_s = phase.sums.least_bytes * plan.once / bandwidth
    inputs = {"least_bytes": phase.sums.least_bytes, "once": plan.once, "memory_bytes_per_s": bandwidth}
    source = gpu.source_of("memory_bytes_per_s")
    yield Step(f"{name}.memory_s", "least_bytes * once / memory_bytes_per_s", inputs, memory_s, source)
    resources = {"memory_s": memory_s}
    for math, flops in least_flops(phase).items():
        peak = gpu.dense_flops_per_s[math]
        resources[f"compute_{math}_s"] = compute_s = flops * plan.busy / peak
        inputs = {"least_flops": flops, "busy": plan.busy, "dense_flops_per_s": peak}
        source = gpu.source_of(f"dense_flops_per_s.{math}")
        yield Step(f"{name}.compute_{math}_s", "least_flops * busy / dense_flops_per_s", inputs, compute_s, source)
    if not phase.deployment.parallel.single:
        one_pass = network_s(phase)
        resources["network_s"] = plan.busy * one_pass
        inputs = {"busy": plan.busy, "messages_s": one_pass}
        yield Step(
            f"{name}.network_s", "busy * messages_s", inputs, resources["network_s"], "messages one way on links"
        )
    yield Step(f"{name}.floor_s", f"max({', '.join(resources)})", resources, phase.floor_s, "everything overlaps")


def _roofline(phase: Explained) -> Iterator[Step]:
    shares = [(item, _share(phase, item) * item.roofline_s) for item in phase.operators]
    one_pass = phase.sums.roofline_s
    source = "operators one after another; of the network what overlap leaves exposed"
    yield _total(f"{phase.name}.roofline_of_a_pass_s", _parts(shares), one_pass, source)
    yield _all_rounds(phase, "roofline_s", one_pass, phase.roofline_s)


def _estimate(phase: Explained) -> Iterator[Step]:
    shares = [(item, _share(phase, item) * item.estimate.time_s) for item in phase.operators]
    basis = "; ".join(filter(None, dict.fromkeys(item.estimate.basis for item in phase.operators)))
    one_pass = phase.estimates.time_s
    yield _total(f"{phase.name}.estimate_of_a_pass_s", _parts(shares), one_pass, basis)
    yield _all_rounds(phase, "estimate_s", one_pass, phase.estimate_s)


def _share(phase: Explained, item: Bound) -> Number:
    return 1.0 if item.operator.message is None else exposed(phase)


def _all_rounds(phase: Explained, column: str, one_pass: Number, value: Number) -> Step:
    inputs = {"one_pass_s": one_pass, "rounds": phase.schedule.rounds}
    return Step(f"{phase.name}.{column}", "one_pass_s * rounds", inputs, value, "all microbatches")
