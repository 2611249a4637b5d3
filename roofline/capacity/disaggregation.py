"""Disaggregated plans: separate pools of prefill and decode workers, compared with the deployments of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..errors import InvalidInput
from ..serving.methods import SIMULATION, method_named
from ..serving.metrics import METRICS
from ..serving.pool_energy import Busy, busy_decode, busy_prefill
from ..techniques.batching import Disaggregation
from ..techniques.technique import refuse_pairs, scenario_with
from ..units import humanize
from .basis import CALIBRATED
from .candidates import MEMORY, WEIGHTS
from .plans import Plan
from .pool_plans import PoolGroup, PoolPlan
from .pool_sizing import (
    Figures,
    PoolQuestion,
    PoolSize,
    can_be_confirmed,
    closed_figures,
    confirmed,
    sized,
)
from .queues import MOST_LOAD


def disaggregate(
    plan: Plan,
    *,
    link_bytes_per_s: float | None = None,
    method: str | None = None,
    progress: Callable[[list[str]], Iterable[str]] = iter,
) -> PoolPlan:
    """Size pools of prefill and decode workers for every accelerator and precision of a plan, for the same SLO.

    The search covers layouts and numbers of workers of both pools and the batch of decode workers
    (`roofline.capacity.pool_sizing`). Requests, rate, targets, techniques, prices and time are those of the plan.

    Parameters
    ----------
    plan : Plan
        Plan to compare with, with or without a request rate.
    link_bytes_per_s : float, optional
        Rate of one accelerator's link between the pools, per direction; None uses its network card.
    method : str, optional
        How queues are computed if the plan has a rate: ``closed-form``, or ``simulation`` (default) of the best
        candidates.
    progress : callable
        Wraps the list of accelerators and precisions while it is worked through (as ``tqdm`` does).

    Returns
    -------
    PoolPlan
        One row per accelerator and precision, cheapest pools first.

    Raises
    ------
    InvalidInput
        Requests have a single output token, so there is nothing to decode, or a technique of the plan changes how
        prompts and running sequences are mixed.
    UnknownName
        ``method`` is unknown.

    References
    ----------
    Zhong et al., DistServe, arXiv:2401.09670: pools sized for their own targets; Sakasegawa, An approximation formula
    for the delay in a multi-server queue, Ann. Inst. Statist. Math. 29 (1977).

    Examples
    --------
    >>> import roofline as rl
    >>> slo = rl.SLO(ttft_s=2.0, tpot_s=0.03)
    >>> found = rl.plan("llama-3.1-70b", "h100-sxm", rl.Workload(4000, 300), slo=slo, requests_per_s=20)
    >>> pools = rl.disaggregate(found)
    >>> bool(pools.gpus[0] < pools.aggregated_gpus[0])
    True
    """
    simulates = method is None or method_named(method) == SIMULATION
    if plan.load.output_tokens < 2:
        raise InvalidInput("output_tokens must be at least 2: there is nothing to decode otherwise")
    pools = Disaggregation(link_bytes_per_s=link_bytes_per_s)
    refuse_pairs((*plan.techniques, pools))
    best = plan.by_accelerator
    keys = list(zip(best.accelerator.tolist(), best.precision.tolist(), strict=True))
    answers = [_answer(plan, pools, *key) for key in keys]
    found = _table(best, answers, _notes(plan, link_bytes_per_s))
    if not simulates:
        return _ranked(found)
    # Simulate the cheapest until the cheapest is one that a simulation confirmed.
    places = {key: at for at, key in enumerate(keys)}
    for _ in progress([f"{one} {two}" for one, two in keys]):
        first = _ranked(found).best
        if not len(first):
            break
        at = places[str(first.accelerator[0]), str(first.precision[0])]
        answer = answers[at]
        if isinstance(answer, str) or answer.figures.queue == SIMULATION or not can_be_confirmed(answer.ask):
            break
        answers[at] = _confirmed(answer)
        found = _table(best, answers, found.assumptions)
    return _ranked(found)


class _Answer(NamedTuple):
    """Pools for an accelerator and precision: possible groups, the chosen group, and its metrics."""

    ask: PoolQuestion
    sizes: Sequence[PoolSize]
    size: PoolSize
    figures: Figures


def _answer(plan: Plan, pools: Disaggregation, accelerator: str, precision: str) -> _Answer | str:
    """The cheapest pools for an accelerator and precision by the closed form, or why there are none."""
    serve = plan.cases[accelerator, precision]
    load = replace(plan.load, batch=np.unique(plan.table.batch))
    try:
        case = scenario_with(serve, load, (*plan.techniques, pools))
    except InvalidInput as error:
        return str(error).removeprefix(f"{pools.name}: ")
    most_load = MOST_LOAD if plan.stream is None else plan.most_load
    ask = PoolQuestion(case, plan.slo, plan.stream, most_load, plan.time)
    if not ask.decodes.rows.fits.any():
        return _why_not(plan, accelerator, precision)
    sizes = sized(ask)
    if sizes:
        return _Answer(ask, sizes, sizes[0], closed_figures(ask, sizes[0]))
    return _missed(ask)


def _confirmed(answer: _Answer) -> _Answer | str:
    """Replace results of the closed form by simulations."""
    found = confirmed(answer.ask, answer.sizes)
    if found is None:
        return "no pair of pools meets the SLO when it is simulated"
    return _Answer(answer.ask, answer.sizes, *found)


def _table(best: Plan, answers: Sequence[_Answer | str], notes: tuple[str, ...]) -> PoolPlan:
    """Table of all answers, in the order of the plan."""
    groups = tuple(None if isinstance(each, str) else _group(each) for each in answers)
    return PoolPlan(best, groups, tuple(each if isinstance(each, str) else "" for each in answers), notes)


def _why_not(plan: Plan, accelerator: str, precision: str) -> str:
    """Why no deployment of the plan fits, and so no worker either."""
    rows = plan.by_accelerator
    at = int(np.flatnonzero((rows.accelerator == accelerator) & (rows.precision == precision))[0])
    if rows.failure[at] in (WEIGHTS, MEMORY):
        return str(rows.reason[at])
    return "does not fit"


def _missed(ask: PoolQuestion) -> str:
    """The target that no pool meets, with the best value of any pool."""
    least = {
        "ttft_s": float(np.min(np.where(ask.prompts.fits, ask.prompts.least_s, np.inf))),
        "tpot_s": float(np.min(np.where(ask.decodes.rows.fits, ask.decodes.rows.tpot_s, np.inf))),
        "gap_s": float(np.min(np.where(ask.decodes.rows.fits, ask.decodes.rows.gap_s, np.inf))),
    }
    for name, target in ask.slo.latencies:
        if name in least and least[name] > target:
            return f"{METRICS[name].short} at least {humanize(name, least[name])}, target {humanize(name, target)}"
    return "no pair of pools meets the SLO"


def _group(answer: _Answer) -> PoolGroup:
    """The group of an answer, with intervals from its passes."""
    ask, size, found = answer.ask, answer.size, answer.figures
    rows = ask.decodes.rows
    ends = {
        "ttft_low_s": found.ttft_s * float(ask.prompts.low[size.prompt_row]),
        "ttft_high_s": found.ttft_s * float(ask.prompts.high[size.prompt_row]),
        "tpot_low_s": found.tpot_s * float(rows.low[size.decode_row]),
        "tpot_high_s": found.tpot_s * float(rows.high[size.decode_row]),
    }
    return PoolGroup(
        ask.worker(size.prompt_row),
        ask.worker(int(rows.place[size.decode_row])),
        size.prefill_workers,
        size.decode_workers,
        float(rows.batch[size.decode_row]),
        size.replicas,
        size.requests_per_s,
        ttft_s=found.ttft_s,
        tpot_s=found.tpot_s,
        total_s=found.total_s,
        gap_s=found.gap_s,
        handover_s=found.handover_s,
        prefill_load=found.prefill_load,
        decode_load=found.decode_load,
        queue=found.queue,
        busy=_busy(answer),
        **ends,
    )


def _busy(answer: _Answer) -> tuple[Busy, ...]:
    """Power and duty of the workers of both pools; none at the floor.

    By Little's law a decode worker runs as many sequences as start in the time of their tokens.  It runs steps as long
    as there is any: a closed form states its load as a share of its throughput, a simulation as busy time.
    """
    ask, size, found = answer.ask, answer.size, answer.figures
    if ask.time == "floor_s":
        return ()
    rows, load = ask.decodes.rows, replace(ask.case.load, batch=1)
    generating_s = found.tpot_s * max(float(np.mean(load.output_tokens)) - 1.0, 0.0)
    running = size.requests_per_s * generating_s / size.decode_workers
    duty = found.decode_load if found.queue == SIMULATION else min(running, 1.0)
    prompts = ask.case.replace(serve=ask.worker(size.prompt_row), load=load)
    steps = ask.case.replace(serve=ask.worker(int(rows.place[size.decode_row])), load=load)
    return (
        busy_prefill(prompts, size.prefill_workers, found.prefill_load),
        busy_decode(steps, size.decode_workers, duty, running),
    )


def _ranked(found: PoolPlan) -> PoolPlan:
    """Rank by cost, or by energy if the plan does; accelerators without timings of their own come last.

    A plan that allows uncalibrated accelerators ranks them like the others.
    """
    plan = found.plan
    priced = np.isfinite(plan.usd_per_hour)
    usd = np.where(priced, plan.usd_per_hour, np.where(priced.any(), np.inf, 1.0))
    cost = np.where(found.feasible, usd / found.tokens_per_s_per_gpu, np.inf)
    if plan.rank == "energy" and np.isfinite(found.joules_per_request).any():
        cost = np.where(np.isfinite(found.joules_per_request), found.joules_per_request, np.inf)
    guessed = (plan.basis != CALIBRATED) & (not plan.allow_uncalibrated)
    return found.take(np.lexsort((cost, guessed, ~found.feasible)))


def _notes(plan: Plan, link_bytes_per_s: float | None) -> tuple[str, ...]:
    """Assumptions of pools."""
    link = "the accelerator's network card" if link_bytes_per_s is None else f"{link_bytes_per_s / 1e9:g} GB/s"
    crossing = f"the KV cache of a request crosses between the pools once, over {link}"
    notes = ["without a rate, one group of workers, the decode pool always full"] if plan.stream is None else []
    if plan.time != "floor_s":
        notes.append(f"power of pools covers {plan.power.scope}, busy and idle time together")
    return (crossing, *notes)
