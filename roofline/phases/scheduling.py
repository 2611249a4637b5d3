"""Bounds of the operators of one pass; those shared by other passes are cached."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np

from ..efficiency.store import specs
from ..model.layer import OnCache
from ..operators.alternatives import cheapest
from ..operators.operator import Operator, Pass, Segment
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
    if change is not None:
        ways = bound_together(serve, [change(operator) for operator in serve.model.operators(run)])
    elif run.is_sweep or serve.is_sweep:
        ways = bound_together(serve, serve.model.operators(run))
    else:
        ways = tuple(_bounds(serve, run))
    operators = [item.operator for item in ways]
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


def _bounds(serve: Deployment, run: Pass) -> Iterator[Bound]:
    """Yield the bounds of all operators of a pass without arrays; those that do not depend on the past are cached."""
    for part in _frame_bounds(serve, serve.model.frame_pass(run), specs()):
        if isinstance(part, OnCache):
            yield from bound_together(serve, tuple(part.operators(run)))
        else:
            yield part


@lru_cache(maxsize=256)
def _frame_bounds(serve: Deployment, run: Pass, folders: str) -> tuple[Bound | OnCache, ...]:
    """Return bounds of the operators that do not depend on the past (`Model.frame`).

    Passes with pasts of other lengths share these bounds and their estimates.  ``folders`` are the user's directories
    of specifications, which estimates depend on.
    """
    frame = serve.model.frame(run)
    bounds = iter(bound_together(serve, [part for part in frame if not isinstance(part, OnCache)]))
    return tuple(part if isinstance(part, OnCache) else next(bounds) for part in frame)


def bound_together(serve: Deployment, operators: Sequence[Operator]) -> tuple[Bound, ...]:
    """Return bounds of the operators of one pass; operators that engines run as one kernel share its estimate.

    See `roofline.efficiency.joining`.
    """
    gpu, engine = serve.accelerator, serve.kernels
    kernels = Kernels(tuple(operators), gpu, engine, serve.routing_skew)
    return tuple(
        Bound(operator, gpu, engine=engine, kernels=kernels, place=place) for place, operator in enumerate(operators)
    )
