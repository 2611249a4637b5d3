"""Bounds of the operators of one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from ..efficiency.store import specs
from ..operators.alternatives import cheapest
from ..operators.operator import Operator, Segment
from .bounds import Bound, Kernels
from .deployment import Deployment
from .schedule import Schedule, schedule_pass
from .totals import ScheduledPass, running

DRAFT, CAPTURED_DRAFT = "draft", "captured draft"
LAUNCHES = {"decode": "graph", CAPTURED_DRAFT: "captured", DRAFT: "within"}
"""Name of a pass -> how its kernels are launched (`ScheduledPass`); other passes launch them one by one."""
EAGER_LAUNCHES = {CAPTURED_DRAFT: "within", DRAFT: "within"}
"""The same for an engine without graphs."""


def schedule_of(serve: Deployment, name: str, segments: tuple[Segment, ...]) -> Schedule:
    """Return the schedule of a pass called ``name``, whose chunks the engine's budget limits."""
    return schedule_pass(name, serve.parallel, segments, serve.server.step_tokens or np.inf)


def pass_of(serve: Deployment, name: str, segments: tuple[Segment, ...]) -> ScheduledPass:
    """Return one pass of a microbatch called ``name``; those without arrays are cached."""
    schedule = schedule_of(serve, name, segments)
    launch = (EAGER_LAUNCHES if serve.server.eager else LAUNCHES).get(name, "eager")
    if serve.is_sweep or any(each.is_sweep for each in segments):
        return scheduled_pass(serve, schedule, launch=launch)
    return scheduled_once(serve, schedule, launch, specs())


def scheduled_pass(
    serve: Deployment,
    schedule: Schedule,
    segments: tuple[Segment, ...] | None = None,
    *,
    change: Callable[[Operator], Operator] | None = None,
    launch: str = "",
) -> ScheduledPass:
    """Return one pass of a microbatch through the model of ``serve``.

    Parameters
    ----------
    serve : Deployment
        Model, accelerators, precision and layout.
    schedule : Schedule
        How the pass runs on a pipeline and over replicas.
    segments : tuple of Segment, optional
        Sequences of the pass; those of the schedule if not given.
    change : callable, optional
        Function that replaces each operator by another.
    launch : {"", "graph", "captured", "eager", "within"}
        How the kernels are launched (see `ScheduledPass`).
    """
    run = serve.run(*(schedule.segments if segments is None else segments))
    operators = serve.model.operators(run)
    if change is not None:
        operators = tuple(map(change, operators))
    ways = bound_together(serve, operators)
    if not any(operator.choice for operator in operators):
        return ScheduledPass(serve, schedule, ways, launch=launch)
    chosen = cheapest(operators, lambda at: ways[at].roofline_s)
    return ScheduledPass(serve, schedule, running(ways, chosen), ways, launch)


@lru_cache(maxsize=256)
def scheduled_once(serve: Deployment, schedule: Schedule, launch: str, folders: str) -> ScheduledPass:
    """Return a pass without arrays, cached since what-ifs and plans need the same passes repeatedly.

    ``folders`` are the user's directories of specifications, which estimates depend on.
    """
    return scheduled_pass(serve, schedule, launch=launch)


def bound_together(serve: Deployment, operators: Sequence[Operator]) -> tuple[Bound, ...]:
    """Return bounds of the operators of one pass; operators that engines run as one kernel share its estimate.

    See `roofline.efficiency.joining`.
    """
    gpu, engine = serve.accelerator, serve.kernels
    kernels = Kernels(tuple(operators), gpu, engine, serve.routing_skew)
    return tuple(
        Bound(operator, gpu, engine=engine, kernels=kernels, place=place) for place, operator in enumerate(operators)
    )
