"""Derivation of a phase: every operator, the sums over operators, and the three times, with numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..errors import Number
from ..hardware import Accelerator
from ..operators.operator import Operator
from ..operators.roofline import least_math
from ..report import Step
from ..report.steps import identifier
from .bounds import Bound
from .energy import memory_shares, power_draw, slowdown
from .host import EAGER_NORM, HostedModel, HostTimes
from .totals import ScheduledPass, computing, hidden_s, network_s, resources_s, total


def explain_pass(name: str, one: ScheduledPass) -> tuple[Step, ...]:
    """Return the steps from the operators' shapes to the three times of a pass called ``name``."""
    expected = () if one.expected is one else one.expected.operators
    further = (item for item in expected if item.operator.choice)
    operators = [step for item in (*one.operators, *further) for step in item.explain()]
    sums = [_sum_of(name, one, one, column) for column in ("flops", "moved_bytes")]
    sums.append(_sum_of(name, one, one.least, "least_bytes"))
    compulsory = [_least_bytes(item) for item in one.least.operators]
    return (*operators, *compulsory, *sums, *_floor(name, one), *_roofline(name, one), *_estimate(name, one))


def _least_bytes(item: Bound) -> Step:
    """Return the bytes of an operator that no implementation can avoid."""
    operator, least = item.operator, item.operator.least
    parts = {"weight_bytes": least.weight_bytes, "activation_bytes": least.activation_bytes}
    inputs = {"count": operator.count} | {f"least_{name}": value for name, value in parts.items()}
    inputs["least_cache_bytes"] = least.cache_bytes
    formula = "count * (least_weight_bytes + least_activation_bytes + least_cache_bytes)"
    source = "intermediate results stay on the chip; experts and entries that all tokens may share are read once"
    return Step(f"{item.name}.least_bytes", formula, inputs, item.times.least_bytes, source)


def _sum_of(name: str, one: ScheduledPass, of: ScheduledPass, column: str) -> Step:
    parts = _by_name([(item, getattr(item, column)) for item in of.operators])
    return _sum(f"{name}.{column}_of_a_pass", parts, "sum over operators", getattr(one.sums, column))


def _by_name(items: list[tuple[Bound, Number]]) -> dict[str, Number]:
    """Return values by operator name, as valid variable names; repeated names are numbered."""
    parts: dict[str, Number] = {}
    for item, value in items:
        name = identifier(item.name)
        parts[name if name not in parts else f"{name}_{len(parts)}"] = value
    return parts


def _sum(name: str, parts: dict[str, Number], source: str, value: Number | None = None) -> Step:
    """Return a step that adds up ``parts``; its value is ``value`` if given."""
    result = total(parts.values()) if value is None else value
    return Step(name, " + ".join(parts) or "0", parts, result, source)


def _floor(name: str, one: ScheduledPass) -> Iterator[Step]:
    gpu, plan, busy_s, one = one.deployment.accelerator, one.schedule, resources_s(one), one.least
    weights = total(item.operator.count * item.operator.least.weight_bytes for item in one.operators)
    inputs = {
        "least_weight_bytes": weights,
        "least_bytes": one.sums.least_bytes,
        "once": plan.once,
        "busy": plan.busy,
        "memory_bytes_per_s": gpu.memory_bytes_per_s,
    }
    formula = "(least_weight_bytes * once + (least_bytes - least_weight_bytes) * busy) / memory_bytes_per_s"
    yield Step(f"{name}.memory_s", formula, inputs, busy_s["memory"], gpu.source_of("memory_bytes_per_s"))
    resources = {"memory_s": busy_s["memory"]}
    for units, items in computing(one).items():
        yield from _units(name, units, [item.operator for item in items], one)
        resources[f"{units}_s"] = busy_s[units]
    if "network" in busy_s:
        resources["network_s"] = busy_s["network"]
        inputs = {"busy": plan.busy, "messages_s": network_s(one)}
        source = "messages one way on links"
        yield Step(f"{name}.network_s", "busy * messages_s", inputs, busy_s["network"], source)
    yield Step(f"{name}.floor_s", f"max({', '.join(resources)})", resources, one.floor_s, "everything overlaps")


def _units(name: str, units: str, operators: list[Operator], one: ScheduledPass) -> Iterator[Step]:
    """Yield the least time of the matrix or vector units: FLOPs of each format at its highest rate, added up."""
    gpu = one.deployment.accelerator
    flops: dict[str, Number] = {}
    for operator in operators:
        math = least_math(operator, gpu)
        flops[math] = flops.get(math, 0.0) + operator.count * operator.least.flops
    parts: dict[str, Number] = {}
    for math, least_flops in flops.items():
        fastest = gpu.fastest_flops_per_s(math)
        yield _fastest(name, math, gpu, fastest)
        parts[f"{math}_s"] = least_flops / fastest
        inputs = {"least_flops": least_flops, "fastest_flops_per_s": fastest}
        formula = "least_flops / fastest_flops_per_s"
        yield Step(f"{name}.{math}_of_a_pass_s", formula, inputs, parts[f"{math}_s"], "the least FLOPs of one pass")
    formula = f"busy * ({' + '.join(parts)})"
    inputs = {"busy": one.schedule.busy, **parts}
    yield Step(
        f"{name}.{units}_s", formula, inputs, resources_s(one)[units], "formats use the same units one after another"
    )


def _fastest(name: str, math: str, gpu: Accelerator, value: Number) -> Step:
    peak = gpu.dense_flops_per_s[math]
    inputs = {
        "dense_flops_per_s": peak,
        "narrow_accumulate_flops_per_s": gpu.narrow_accumulate_flops_per_s.get(math, peak),
        "max_clock_hz": gpu.max_clock_hz or 1.0,
        "boost_clock_hz": gpu.boost_clock_hz or gpu.max_clock_hz or 1.0,
    }
    formula = "max(dense_flops_per_s, narrow_accumulate_flops_per_s) * max(max_clock_hz / boost_clock_hz, 1)"
    source = f"highest clock, fastest sums; {gpu.source_of(f'dense_flops_per_s.{math}')}"
    return Step(f"{name}.fastest_{math}_flops_per_s", formula, inputs, value, source)


def _roofline(name: str, one: ScheduledPass) -> Iterator[Step]:
    times = [(item, item.roofline_s) for item in one.operators]
    source = "operators one after another"
    yield from _of_a_pass(f"{name}.roofline", one, times, one.sums.roofline_s, source)
    yield _all_rounds(f"{name}.roofline_s", one, one.sums.roofline_s, one.roofline_s)


def _estimate(name: str, one: ScheduledPass) -> Iterator[Step]:
    each = [(item, item.estimate) for item in one.expected.operators]
    basis = "; ".join(filter(None, dict.fromkeys(found.basis for _, found in each)))
    times = [(item, found.time_s) for item, found in each]
    kernels = one.kernels
    yield from _of_a_pass(f"{name}.estimate", one, times, kernels.time_s, basis)
    end_s = one.unlimited.time_s
    host, shape = HostTimes.of(one.deployment.server), HostedModel.of(one.deployment, kernels.fixed_s)
    if one.launch == "graph":
        inputs = {"kernels_s": kernels.time_s, "hidden_s": hidden_s(one), "decode_factor": host.decode_factor}
        inputs |= {"launch_share": host.launch_share, "launch_s": shape.launch_s, "host_s": host.beside_s(shape)}
        formula = "(kernels_s - hidden_s) * decode_factor - (1 - launch_share) * launch_s + host_s"
        source = "a captured graph leaves a share of the fixed times of its kernels; the host schedules and samples"
        yield Step(f"{name}.estimate_with_host_s", formula, inputs, end_s, source)
    elif one.launch == "eager":
        device = {"kernels_s": kernels.time_s, "prefill_factor": host.prefill_factor}
        launching = {"eager_s": host.eager_s(shape, one.tokens)}
        longer_s = np.maximum(kernels.time_s * host.prefill_factor, launching["eager_s"])[()]
        formula = "max(kernels_s * prefill_factor, eager_s)"
        source = "the device, or the host that launches its kernels"
        yield Step(f"{name}.longer_s", formula, device | launching, longer_s, source)
        inputs = device | launching | {"longer_s": longer_s, "norm": EAGER_NORM, "host_s": host.step_s}
        formula = (
            "longer_s * ((kernels_s * prefill_factor / longer_s) ** norm + (eager_s / longer_s) ** norm) ** (1 / norm)"
            " + host_s"
        )
        source = "the host launches kernels while the device works on earlier ones, and schedules"
        yield Step(f"{name}.estimate_with_host_s", formula, inputs, end_s, source)
    yield from _under_a_limit(name, one)
    yield _all_rounds(f"{name}.estimate_s", one, one.estimates.time_s, one.estimate_s)


def _under_a_limit(name: str, one: ScheduledPass) -> Iterator[Step]:
    """Yield the effect of a power limit: kernels slow down with the clock where they do not wait for memory."""
    limit = one.deployment.power_limit_watts
    if limit is None:
        return
    found = slowdown(one, power_draw(one, memory_shares(one)[0]), limit)
    inputs = {"unlimited_s": found.draw.time_s, "clocked_s": found.draw.clocked_s}
    inputs |= {"clock_at_tdp": found.full, "clock": found.clock}
    formula = "unlimited_s + clocked_s * (clock_at_tdp / clock - 1)"
    source = (
        "highest clock at which the energy is within the limit (roofline.efficiency.power); memory speed is unchanged"
    )
    yield Step(f"{name}.estimate_under_limit_s", formula, inputs, one.estimates.time_s, source)


def _of_a_pass(
    name: str, one: ScheduledPass, times: list[tuple[Bound, Number]], value: Number, source: str
) -> Iterator[Step]:
    """Yield the sum over operators; with a network also the on-chip and network parts and their overlap."""
    if one.deployment.parallel.single:
        yield _sum(f"{name}_of_a_pass_s", _by_name(times), source, value)
        return
    local = _sum(f"{name}_local_s", _by_name([pair for pair in times if pair[0].operator.message is None]), source)
    remote = [pair for pair in times if pair[0].operator.message is not None]
    network = _sum(f"{name}_network_s", _by_name(remote), "messages one after another")
    inputs = {"local_s": local.value, "network_s": network.value, "overlap": one.deployment.parallel.overlap}
    formula = "max(local_s + (1 - overlap) * network_s, network_s)"
    note = "a share ``overlap`` of the network time runs in parallel with work on the chip"
    yield from (local, network, Step(f"{name}_of_a_pass_s", formula, inputs, value, note))


def _all_rounds(name: str, one: ScheduledPass, one_pass: Number, value: Number) -> Step:
    inputs = {"one_pass_s": one_pass, "rounds": one.schedule.rounds}
    return Step(name, "one_pass_s * rounds", inputs, value, "all microbatches")
