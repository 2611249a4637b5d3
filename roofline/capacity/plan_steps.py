"""Derivations of the columns of plans and fleets, for all rows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..report import Step
from ..serving.methods import method_words

if TYPE_CHECKING:
    from .fleets import Fleet
    from .plans import Plan


def plan_steps(plan: Plan) -> tuple[Step, ...]:
    """Derive throughput and cost of every candidate; cost only if all have a price."""
    table, load = plan.table, plan.load
    rate = {"requests_per_s": plan.requests_per_s, "output_tokens": load.output_tokens, "gpus": table.gpus}
    steps = [
        Step(
            "plan.requests_per_s", "1 / busy_s", {"busy_s": table.busy_s}, plan.requests_per_s, "one request at a time"
        ),
        Step(
            "plan.tokens_per_s_per_gpu",
            "output_tokens * requests_per_s / gpus",
            rate,
            plan.tokens_per_s_per_gpu,
            "output tokens of all requests",
        ),
        Step(
            "plan.tokens_per_joule",
            "output_tokens / joules_per_request",
            {"output_tokens": load.output_tokens, "joules_per_request": plan.joules_per_request},
            plan.tokens_per_joule,
            "energy of all boards while a request is served",
        ),
    ]
    if not np.all(np.isfinite(table.usd_per_hour)) or load.output_tokens == 1:
        return tuple(steps)
    return (*steps, *_price_steps(plan))


def _price_steps(plan: Plan) -> tuple[Step, ...]:
    """Derive the price of a request, and of its input and output tokens."""
    table, load = plan.table, plan.load
    paid = {"usd_per_hour": table.usd_per_hour, "gpus": table.gpus, "busy_s": table.busy_s}
    share = {"usd_per_request": plan.usd_per_request, "prefill_share": table.prefill_share}
    return (
        Step(
            "plan.usd_per_request",
            "usd_per_hour * gpus / 3600 * busy_s",
            paid,
            plan.usd_per_request,
            "the time of a request on all accelerators of the deployment",
        ),
        Step(
            "plan.usd_per_million_input_tokens",
            "1e6 * prefill_share * (1 - cached_share) * usd_per_request / prompt_tokens",
            share | {"cached_share": np.nan_to_num(table.cached_share), "prompt_tokens": plan.computed.prompt_tokens},
            plan.usd_per_million_input_tokens,
            "the prompts' part of the time, over their tokens",
        ),
        Step(
            "plan.usd_per_million_output_tokens",
            "1e6 * (1 - prefill_share) * usd_per_request / (output_tokens - 1)",
            share | {"output_tokens": load.output_tokens},
            plan.usd_per_million_output_tokens,
            "the steps' part of the time, over the tokens that they generate",
        ),
    )


def fleet_steps(fleet: Fleet, rounding: float) -> tuple[Step, ...]:
    """Derive deployments, accelerators and price of every fleet, at the plan's time and at the floor."""
    asked = {"requests_per_s": fleet.requests_per_s}
    busy_s = fleet.plan.table.busy_s
    most = {"busy_s": busy_s, "utilization": fleet.utilization, "rounding": rounding}
    least = -(-busy_s * (fleet.requests_per_s / fleet.utilization) * (1 - rounding) // 1)
    at_least = "-(-busy_s * (requests_per_s / utilization) * (1 - rounding) // 1)"
    queue = f"further deployments for the SLO with the queue, by {method_words(fleet.queue[0])}"
    used = {"replicas": fleet.replicas, "busy_s": busy_s}
    floor = {"busy_at_floor_s": fleet.floor.table.busy_at_floor_s, "rounding": rounding}
    at_floor = "-(-busy_at_floor_s * requests_per_s * (1 - rounding) // 1)"
    steps = [
        Step(
            "fleet.least_replicas", at_least, asked | most, least, "a deployment finishes 1 / busy requests per second"
        ),
        Step(
            "fleet.replicas",
            "least_replicas + for_the_queue",
            {"least_replicas": least, "for_the_queue": fleet.replicas - least},
            fleet.replicas,
            queue,
        ),
        Step("fleet.load", "requests_per_s / replicas * busy_s", asked | used, fleet.load, "share of the throughput"),
        Step("fleet.replicas_at_floor", at_floor, asked | floor, fleet.replicas_at_floor, "`roofline.capacity.floors`"),
    ]
    for suffix, rows in (("", fleet.plan), ("_at_floor", fleet.floor)):
        replicas, gpus = getattr(fleet, f"replicas{suffix}"), getattr(fleet, f"gpus{suffix}")
        each = {f"replicas{suffix}": replicas, "gpus_of_one": rows.table.gpus}
        steps.append(Step(f"fleet.gpus{suffix}", f"replicas{suffix} * gpus_of_one", each, gpus, "all deployments"))
        if np.all(np.isfinite(rows.table.usd_per_hour)):
            price = {f"gpus{suffix}": gpus, "usd_per_hour_of_one": rows.table.usd_per_hour}
            value = getattr(fleet, f"usd_per_hour{suffix}")
            formula = f"gpus{suffix} * usd_per_hour_of_one"
            steps.append(Step(f"fleet.usd_per_hour{suffix}", formula, price, value, "price of one accelerator"))
    return tuple(steps)
