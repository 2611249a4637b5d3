"""Derivations of the columns of plans and fleets, all rows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..report import Step

if TYPE_CHECKING:
    from .fleets import Fleet
    from .plans import Plan


def plan_steps(plan: Plan) -> tuple[Step, ...]:
    """Throughput and cost of every candidate; cost only where every one has a price."""
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
    paid = {"usd_per_hour": table.usd_per_hour, "gpus": table.gpus, "busy_s": table.busy_s}
    share = {"usd_per_request": plan.usd_per_request, "prefill_share": table.prefill_share}
    return (
        *steps,
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
    """Deployments, accelerators and price of every fleet, at the plan's time and at the floor."""
    steps = []
    for suffix, rows, busy_s, load in (
        ("", fleet.plan, fleet.plan.table.busy_s, fleet.utilization),
        ("_at_floor", fleet.floor, fleet.floor.table.busy_at_floor_s, 1.0),
    ):
        asked = {"requests_per_s": fleet.requests_per_s, "busy_s": busy_s, "utilization": load, "rounding": rounding}
        replicas, gpus = getattr(fleet, f"replicas{suffix}"), getattr(fleet, f"gpus{suffix}")
        formula = "-(-busy_s * (requests_per_s / utilization) * (1 - rounding) // 1)"
        source = "a deployment finishes 1 / busy requests per second; rounded up"
        steps.append(Step(f"fleet.replicas{suffix}", formula, asked, replicas, source))
        each = {f"replicas{suffix}": replicas, "gpus_of_one": rows.table.gpus}
        steps.append(Step(f"fleet.gpus{suffix}", f"replicas{suffix} * gpus_of_one", each, gpus, "all deployments"))
        if np.all(np.isfinite(rows.table.usd_per_hour)):
            price = {f"gpus{suffix}": gpus, "usd_per_hour_of_one": rows.table.usd_per_hour}
            value = getattr(fleet, f"usd_per_hour{suffix}")
            formula = f"gpus{suffix} * usd_per_hour_of_one"
            steps.append(Step(f"fleet.usd_per_hour{suffix}", formula, price, value, "price of one accelerator"))
    return tuple(steps)
