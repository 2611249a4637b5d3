"""Napkins of requests: what users see under load, the effect of techniques, and comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..serving.lengths import Lengths
from ..serving.outcome import Simulation
from ..serving.trace import without_times
from ..serving.under_load import Served
from ..techniques.effect import Effect
from ..units import humanize
from .lines import Napkin, NapkinLine, divided, given, line, multiplied, rounded, said


def of_served(found: Served) -> Napkin:
    """Tokens after the first, the whole request, and Little's law; above the capacity, how far above it."""
    serve = f"{found.deployment.model.title or found.deployment.model.name}, by the {found.time.removesuffix('_s')}"
    if not found.stable:
        capacity, asked = float(found.capacity_requests_per_s), float(found.asked_requests_per_s)
        overload = (
            given("capacity of the deployment", "requests_per_s", capacity),
            divided("{one} requests/s arrive / {other}: the queue grows", "load", asked / capacity, asked, capacity),
        )
        return Napkin(f"requests of {serve}", overload)
    lengths = Lengths.of(found.load, 0.0)
    lines = request_lines(found.ttft_s, found.tpot_s, found.total_s, lengths.steps)
    if found.asked_concurrency is not None:
        lines += (little(float(found.asked_concurrency), found.total_s, found.requests_per_s),)
    else:
        lines += (_in_the_system(float(found.asked_requests_per_s), float(found.total_s)),)
    return Napkin(f"requests of {serve}", (*lines, _tokens(found.requests_per_s, lengths.output, found.tokens_per_s)))


def of_simulation(found: Simulation) -> Napkin:
    """The same for the means of a simulation, whose start and end have fewer requests."""
    lengths = Lengths.of(without_times(found.load), 0.0)
    lines = request_lines(found.ttft_s, found.tpot_s, found.total_s, lengths.steps)
    if found.demand.concurrency is not None:
        lines += (little(float(found.demand.concurrency), found.total_s, found.requests_per_s),)
    else:
        lines += (_in_the_system(float(found.requests_per_s), float(found.total_s)),)
    lines += (_tokens(found.requests_per_s, lengths.output, found.tokens_per_s),)
    return Napkin(f"mean of {len(found.requests.prompt):,} simulated requests", lines)


def request_lines(ttft_s: Any, tpot_s: Any, total_s: Any, steps: Any) -> tuple[NapkinLine, ...]:
    """The first token, the tokens after it, and the whole request."""
    first = given("queue and prompt, until the first token", "ttft_s", ttft_s)
    count, each = rounded(float(np.asarray(steps))), rounded(float(np.asarray(tpot_s)))
    rest = line(
        f"{said(count)} tokens after it x {humanize('s', each)}",
        "decode_s",
        "one * other",
        float(np.asarray(total_s)) - float(np.asarray(ttft_s)),
        one=count,
        other=each,
    )
    words = f"{humanize('s', first.value)} + {humanize('s', rest.value)}"
    return first, rest, line(words, "total_s", "one + other", total_s, one=first.value, other=rest.value)


def little(requests: float, total_s: Any, requests_per_s: Any) -> NapkinLine:
    """Little's law: requests in the system / time that each spends there."""
    seconds = rounded(float(np.asarray(total_s)))
    one = rounded(requests)
    words = f"{said(one)} in the system / {humanize('s', seconds)}"
    return line(words, "requests_per_s", "one / other", requests_per_s, one=one, other=seconds)


def _in_the_system(rate: float, total_s: float) -> NapkinLine:
    words = f"{said(rounded(rate))} requests/s x {humanize('s', rounded(total_s))} in the system"
    return line(words, "requests", "one * other", rate * total_s, one=rounded(rate), other=rounded(total_s))


def _tokens(requests_per_s: Any, output: Any, tokens_per_s: Any) -> NapkinLine:
    words = "{one} requests/s x {other} output tokens"
    return multiplied(words, "tokens_per_s", tokens_per_s, requests_per_s, output)


def of_effect(found: Effect) -> Napkin:
    """A request before and after, and the three gains."""
    steps = rounded(float(np.asarray(found.before.case.load.output_tokens)) - 1)
    totals = []
    for name, side in (("before", found.before), ("after", found.after)):
        first, each = rounded(float(np.asarray(side.ttft_s))), rounded(float(np.asarray(side.tpot_s)))
        words = f"{name}: {humanize('s', first)} + {said(steps)} x {humanize('s', each)}"
        totals.append(line(words, "total_s", "one + steps * other", side.total_s, one=first, steps=steps, other=each))
    before, after = totals
    lines = (
        before,
        after,
        _shorter("the whole request", "total_speedup", found.total_speedup, before.value, after.value),
        _shorter("a token", "tpot_speedup", found.tpot_speedup, found.before.tpot_s, found.after.tpot_s),
        divided(
            "{one} tokens/s / {other}",
            "throughput_gain",
            found.throughput_gain,
            found.after.tokens_per_s,
            found.before.tokens_per_s,
        ),
    )
    return Napkin(f"{found.technique}, by the {found.before.time.removesuffix('_s')}", lines)


def _shorter(what: str, name: str, exact: Any, before: Any, after: Any) -> NapkinLine:
    one, other = rounded(float(np.asarray(before))), rounded(float(np.asarray(after)))
    words = f"{what}: {humanize('s', one)} / {humanize('s', other)}"
    return line(words, name, "one / other", exact, one=one, other=other)


def of_comparison(before: Napkin, after: Napkin, ratios: Any) -> Napkin:
    """The last lines of both sides and their ratio; for passes, the ratio of the estimates as well."""
    first, second = before.lines[-1], after.lines[-1]
    exact = second.exact / first.exact if first.exact else np.inf
    lines = [
        line(f"before: {first.words}", first.name, "one", first.exact, one=first.value),
        line(f"after: {second.words}", second.name, "one", second.exact, one=second.value),
        line(
            f"after / before: {humanize(second.name, second.value)} / {humanize(first.name, first.value)}",
            "ratio",
            "one / other",
            exact,
            one=second.value,
            other=first.value,
        ),
    ]
    if "estimate_s" in ratios:
        lines.append(given("the same, by the estimate", "estimate_ratio", ratios["estimate_s"]))
    return Napkin(f"{before.title} -> {after.title}", tuple(lines))
