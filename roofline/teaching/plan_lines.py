"""Napkins of plans, fleets, advice and what-if tables: the first rows by mental arithmetic."""

from __future__ import annotations

import re
from itertools import islice

import numpy as np

from ..advisor import Advice
from ..analysis.crossover_points import Crossovers
from ..analysis.ridges import RidgeTable
from ..analysis.sensitivities import Sensitivity
from ..analysis.solutions import Solution
from ..capacity import Plan, PoolPlan
from ..errors import InvalidInput
from ..measured.shares import Headroom
from ..techniques.table import TechniqueTable
from ..units import humanize, plural
from .lines import SHEET_DIGITS, Napkin, NapkinLine, divided, given, line, multiplied, rounded, said
from .request_lines import little, request_lines

MOST_LINES = 5
"""Lines of a napkin of a table."""


def of_plan(found: Plan) -> Napkin:
    """The best candidate: its requests in steady state or, at a rate, its load; then throughput and cost.

    Raises
    ------
    InvalidInput
        No candidate meets the SLO.
    """
    best = found.best
    if not len(best):
        raise InvalidInput("napkin needs a candidate that meets the SLO; this plan has none")
    layout = "" if best.layout[0] == "one" else f"{best.layout[0]}, "
    where = f"{best.gpus[0]:g} x {best.accelerator[0]}, {layout}batch {best.batch[0]:,.0f}"
    title = f"{found.model.title or found.model.name} on {where}"
    return Napkin(title, _steady_lines(best) if found.stream is None else _rate_lines(best))


def _steady_lines(best: Plan) -> tuple[NapkinLine, ...]:
    """Requests with the batch always full."""
    output, gpus = float(best.load.output_tokens), float(best.gpus[0])
    total_s = float(best.ttft_s[0]) + (output - 1) * float(best.tpot_s[0])
    _, rest, total = request_lines(best.ttft_s[0], best.tpot_s[0], total_s, output - 1)
    rate = float(best.requests_per_s[0])
    lines = (
        rest,
        total,
        little(float(best.batch[0]), total_s, rate),
        line(
            f"{said(rounded(rate))} requests/s x {said(rounded(output))} tokens / {plural(gpus, 'accelerator')}",
            "tokens_per_s_per_gpu",
            "one * other / third",
            best.tokens_per_s_per_gpu[0],
            one=rounded(rate),
            other=rounded(output),
            third=gpus,
        ),
    )
    return (*lines, _cost_of_request(best, gpus, rate))


def _cost_of_request(best: Plan, gpus: float, rate: float) -> NapkinLine:
    """Price of a request, or the accelerator-seconds that candidates without a price are ranked by."""
    price = float(best.usd_per_hour[0])
    if not np.isfinite(price):
        words = f"{plural(gpus, 'accelerator')} / {{other}} requests/s: seconds of an accelerator per request"
        return divided(words, "accelerator_s", gpus / rate, gpus, rate)
    hourly = rounded(price * gpus)
    hundred = 1e5
    return line(
        f"${hourly:g} per hour / 3,600 / {said(rounded(rate))} requests/s, for 100,000 requests",
        "usd_per_100000_requests",
        "one * other / third",
        best.usd_per_request[0] * hundred,
        one=hourly,
        other=rounded(hundred / 3600),
        third=rounded(rate),
    )


def _rate_lines(best: Plan) -> tuple[NapkinLine, ...]:
    """Deployments for a rate: capacity of one, how many are busy, their load, accelerators, and cost or throughput."""
    assert best.stream is not None
    rate, one, gpus = float(best.stream.requests_per_s), float(best.requests_per_s[0]), float(best.gpus[0])
    replicas = float(best.replicas[0])
    total, price = replicas * gpus, float(best.usd_per_hour[0])
    lines = (
        given("capacity of one deployment", "requests_per_s", one),
        divided("{one} requests/s / {other}: deployments at full load", "deployments", rate / one, rate, one),
        divided("{one} of {other} deployments busy", "load", rate / one / replicas, rate / one, replicas),
        multiplied(f"{{one}} deployments x {plural(gpus, 'accelerator')}", "gpus", total, replicas, gpus),
    )
    if np.isfinite(price):
        return (*lines, multiplied("{one} accelerators x ${other}", "usd_per_hour", total * price, total, price))
    output = float(best.load.output_tokens)
    tokens = line(
        f"{said(rounded(rate))} requests/s x {said(rounded(output))} tokens / {said(rounded(total))} accelerators",
        "tokens_per_s_per_gpu",
        "one * other / third",
        rate * output / total,
        one=rounded(rate),
        other=rounded(output),
        third=rounded(total),
    )
    return (*lines, tokens)


def of_pools(found: PoolPlan) -> Napkin:
    """Accelerators of both pools of the best row, and what they deliver.

    Raises
    ------
    InvalidInput
        No pools meet the SLO.
    """
    best = found.best
    group = best.groups[0] if len(best) else None
    if group is None:
        raise InvalidInput("napkin needs pools that meet the SLO; this plan has none")
    each = [float(serve.parallel.accelerators) for serve in (group.prefill, group.decode)]
    workers = [float(group.replicas * count) for count in (group.prefill_workers, group.decode_workers)]
    gpus, per_gpu = float(best.gpus[0]), float(best.tokens_per_s_per_gpu[0])
    pools = [
        multiplied(f"{{one}} {pool} workers x {plural(size, 'accelerator')}", "gpus", count * size, count, size)
        for pool, count, size in zip(("prefill", "decode"), workers, each, strict=True)
    ]
    lines = [
        *pools,
        line(
            f"{said(pools[0].value)} + {said(pools[1].value)}",
            "gpus",
            "one + other",
            gpus,
            one=pools[0].value,
            other=pools[1].value,
        ),
        multiplied("{one} accelerators x {other} tokens/s each", "tokens_per_s", gpus * per_gpu, gpus, per_gpu),
    ]
    return Napkin(f"separate pools on {best.accelerator[0]}", tuple(lines))


def of_solution(found: Solution) -> Napkin:
    """The value, the request that it leads to, and how near the target it is.

    Raises
    ------
    InvalidInput
        The target cannot be reached.
    """
    if not found.possible:
        raise InvalidInput(f"napkin needs a solution; there is none: {found.reason}")
    lines = [given(_in_words(found.find), found.find, found.value)]
    if found.found is not None and found.metric != "step_s":
        steady = found.found
        output = float(np.asarray(steady.case.load.output_tokens))
        _, rest, total = request_lines(steady.ttft_s, steady.tpot_s, steady.total_s, output - 1)
        lines += [rest, total, little(float(np.asarray(steady.case.load.batch)), steady.total_s, steady.requests_per_s)]
    if found.metric == "fits":
        lines.append(given("memory available for it", "memory_bytes", found.target))
    elif np.isfinite(found.target) and found.target:
        reached = divided(
            f"{_in_words(found.metric)}: {humanize(found.metric, found.reached)} of "
            f"{humanize(found.metric, found.target)}",
            "share",
            found.reached / found.target,
            found.reached,
            found.target,
        )
        lines.append(reached)
    return Napkin(f"{_in_words(found.find)} for {_in_words(found.metric)}", tuple(lines))


def _in_words(name: str) -> str:
    """A column without its unit: ``TPOT``, ``memory``."""
    known = {"ttft_s": "TTFT", "tpot_s": "TPOT", "total_s": "end-to-end latency", "step_s": "a decode step"}
    return known.get(name) or re.sub(r"_(bytes_per_s|flops_per_s|bytes|s)$", "", name).replace("_", " ")


def of_sensitivity(found: Sensitivity) -> Napkin:
    """10 % more of the five strongest inputs: the slope, compared with the exact result."""
    now = float(np.asarray(found.value))
    name = found.metric or found.time
    lines = []
    for each in [item for item in found.ranked if item != "latency"][:MOST_LINES]:
        share = rounded(0.1 * float(np.asarray(found.elasticity[each])))
        exact = now * float(np.asarray(found.ratio(each, 1.1)))
        words = f"10% more {each.replace('_', ' ')}: {humanize(name, rounded(now))} x (1 {share:+g})"
        lines.append(line(words, name, "one * (1 + share)", exact, one=rounded(now), share=share))
    return Napkin(f"sensitivity of the {_in_words(name)}", tuple(lines))


def of_ridges(found: RidgeTable) -> Napkin:
    """Peak / bandwidth of the first accelerators, in their preferred 16-bit format."""
    lines: list[NapkinLine] = []
    for gpu in found.accelerators:
        math = next((name for name in ("bf16", "fp16") if name in gpu.dense_flops_per_s), None)
        if math is not None and len(lines) < MOST_LINES:
            peak = rounded(float(np.asarray(gpu.dense_flops_per_s[math])), SHEET_DIGITS)
            rate = rounded(float(np.asarray(gpu.memory_bytes_per_s)), SHEET_DIGITS)
            words = f"{gpu.name}, {math}: {humanize('flops_per_s', peak)} / {humanize('bytes_per_s', rate)}"
            exact = gpu.ridge_flops_per_byte(math)
            lines.append(line(words, "ridge_flops_per_byte", "one / rate", exact, one=peak, rate=rate))
    return Napkin("ridge points: peak / bandwidth", tuple(lines))


def of_techniques(found: TechniqueTable) -> Napkin:
    """Tokens per second with and without each of the five techniques with the largest gains."""
    ranked = sorted(found.effects, key=lambda effect: -float(np.asarray(effect.throughput_gain)))
    lines = tuple(
        divided(
            f"{effect.technique}: {{one}} tokens/s / {{other}}",
            "throughput_gain",
            effect.throughput_gain,
            effect.after.tokens_per_s,
            effect.before.tokens_per_s,
        )
        for effect in ranked[:MOST_LINES]
    )
    return Napkin("gain in throughput", lines)


def of_advice(found: Advice) -> Napkin:
    """Share of prefill at each load and over all of them."""
    lines = []
    for step in islice((each for each in found.explain() if each.name.endswith("prefill_share")), MOST_LINES):
        prompts, busy = (rounded(float(np.asarray(step.inputs[name]))) for name in ("prompts_s", "busy_s"))
        about = step.name.rpartition(".")[0].replace("_", " ") or "all loads"
        words = f"{about}: {humanize('s', prompts)} of prompts / {humanize('s', busy)}"
        lines.append(line(words, "prefill_share", "one / other", step.value, one=prompts, other=busy))
    return Napkin("share of prefill in the time of a request", tuple(lines))


def of_crossovers(found: Crossovers) -> Napkin:
    """Sequences at which reading the weights takes as long as multiplying with them.

    Raises
    ------
    InvalidInput
        Decode never becomes compute-bound, so there is nothing to derive.
    """
    step = next((each for each in found.steps if each.name == "ridge_batch"), None)
    if step is None or not np.isfinite(found.ridge_batch):
        raise InvalidInput("napkin needs a finite ridge batch; these weights never become compute-bound")
    ridge, held, flops = (float(step.inputs[name]) for name in ("ridge_flops_per_byte", "weight_bytes", "flops"))
    lines = (
        given("ridge point of the accelerator", "ridge_flops_per_byte", ridge),
        given("weights read per step", "weight_bytes", held),
        given("FLOPs per token with them", "weight_flops", flops),
        line(
            f"{said(rounded(ridge))} x {humanize('bytes', rounded(held))} / {humanize('flops', rounded(flops))}",
            "ridge_batch",
            "one * other / third",
            found.ridge_batch,
            one=rounded(ridge),
            other=rounded(held),
            third=rounded(flops),
        ),
    )
    return Napkin("batch at which the weights are compute-bound", lines)


def of_headroom(found: Headroom) -> Napkin:
    """Floor / measured time of each phase."""
    lines = []
    for phase in found.phases[:MOST_LINES]:
        least, took = rounded(float(phase.floor_s)), rounded(float(phase.measured_s))
        words = f"{phase.name}: floor {humanize('s', least)} / measured {humanize('s', took)}"
        lines.append(line(words, "share_of_floor", "one / other", phase.share_of_floor, one=least, other=took))
    return Napkin("measured times compared with their floors", tuple(lines))
