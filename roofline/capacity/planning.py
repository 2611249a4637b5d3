"""Planning: search over accelerators, their number, layouts, precisions and batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..arrays import FrozenMapping
from ..errors import InvalidInput, Number, UnknownName, number, unknown
from ..hardware import Accelerator
from ..model import Model
from ..operators.parallel import Parallel
from ..operators.precision import AS_PUBLISHED, PARTS, Precision, precision_of
from ..phases.deployment import Deployment
from ..phases.energy import power_notes
from ..phases.pass_sentences import context_notes
from ..phases.workload import Workload
from ..serving.pool_energy import idle_share
from ..serving.scenario import Scenario
from ..serving.slo import SLO, as_slo
from ..serving.steady_state import PLANNED_TIMES
from ..serving.step_times import encoding_notes
from ..serving.trace import Trace
from ..serving.traffic import Traffic
from ..specs.electricity import BOARDS_ALONE, Power, idle_watts
from ..specs.library import get_accelerator, get_model
from ..specs.prices import Price, checked_price
from ..techniques.prompts import with_hit_rate
from ..techniques.quantization import KVQuantization
from ..techniques.technique import Chosen, Technique, as_techniques, refuse_pairs, scenario_with
from .candidates import all_rows, evaluate, precision_name
from .fleet_demand import arrivals_of, mean_load, with_arrivals
from .layouts import layouts, reach, rows_kept, rows_of, startable, within_reach
from .plans import Plan

BATCHES: npt.NDArray[np.float64] = np.unique(np.round(np.geomspace(1, 1024, 56)))
"""Requests in the system of one deployment, in steps of about one eighth."""


RANKINGS = ("cost", "energy")
"""Criteria by which candidates that meet the SLO can be ranked."""

Case = tuple[Deployment, Scenario, float]
"""A deployment with an array of layouts, its scenario, and the price of one accelerator."""


def plan(
    model: Model | str | Path,
    hardware: Accelerator | str | Path | Sequence[Accelerator | str | Path],
    load: Workload | Traffic | Trace,
    *,
    requests_per_s: float | None = None,
    slo: SLO | None = None,
    precisions: Sequence[Precision | str] = (),
    kv: str | None = None,
    engine: str | None = None,
    techniques: Chosen = (),
    hit_rate: float = 0.0,
    accelerators: Iterable[int] = (1, 2, 4, 8),
    batches: Number = BATCHES,
    prices: Mapping[str, float | Price | None] | None = None,
    power: Power | None = None,
    rank: str = "cost",
    allow_uncalibrated: bool = False,
    utilization: float | None = None,
    burstiness: float = 1.0,
    method: str | None = None,
    time: str = "estimate_s",
    progress: Callable[[list[Case]], Iterable[Case]] = iter,
) -> Plan:
    """Rank every way to serve ``load``.

    All layouts and batches of an accelerator and precision are computed at once. Candidates that do not fit or miss a
    target are kept, with the reason. Without a rate, targets hold for the mean of requests in steady state, and the
    best candidate serves a request at the lowest cost. With a rate, requests queue: targets hold for the SLO's
    statistic, and the best candidate makes the cheapest fleet (`roofline.capacity.sizing`).

    Parameters
    ----------
    model : Model or str
        A model, or its name.
    hardware : Accelerator or str, or a sequence of them
        Accelerators or their names; a single one needs no list.
    load : Workload, Traffic or Trace
        The lengths of the requests. The batch of a workload is ignored; all of ``batches`` are tried. The steady state
        uses the mean lengths of a traffic or a trace, simulations use each request.
    requests_per_s : float, optional
        Rate of arrivals; None uses a trace's own.
    slo : SLO, optional
        Targets of the service.
    precisions : sequence of Precision or str
        Precisions, or names of formats, which apply to weights and, if chips can compute with them, to activations.
        Empty means the checkpoint's own.
    kv : str, optional
        Format of the KV cache; None uses that of the precision.
    engine : str, optional
        Engine whose kernels the estimates describe: ``vllm``, ``sglang`` or ``trtllm``; None uses their median.
    techniques : Technique or str, or several of them
        Techniques used by all candidates, as values or slugs.
    hit_rate : float
        Share of prompt tokens found in the prefix cache.
    accelerators : iterable of int
        Numbers of accelerators per deployment to try.
    batches : int or array
        Numbers of requests in the system of one deployment to try.
    prices : mapping of str to float, Price or None, optional
        Name of an accelerator -> USD per accelerator-hour; see `roofline.get_price`. None where no price is known.
    power : Power, optional
        Power limit of the accelerators, power of the host, losses, and price and carbon intensity of electricity. Parts
        that are not given are not counted, and the notes say so.
    rank : str
        Ranking of candidates that meet the SLO: by ``cost`` or ``energy`` per request.
    allow_uncalibrated : bool
        Whether accelerators without kernel timings of their own are ranked together with those that have some. By
        default they come last, since their estimates are less certain.
    utilization : float, optional
        Target utilization (0-1]; below 1 leaves headroom for bursts. None means 0.7 without a latency target, and as
        much as the queue allows with one.
    burstiness : float
        Squared coefficient of variation of the gaps between arrivals: 1 is Poisson. A trace has its own.
    method : str, optional
        How queues are computed: ``closed-form``, or ``simulation`` (default) of the best candidates.
    time : str
        Time that must meet the targets: ``floor_s``, ``roofline_s``, ``estimate_s``, or ``estimate_high_s``, the
        upper end of its interval.
    progress : callable
        Wraps the list of accelerators and precisions while it is worked through (as ``tqdm`` does).

    Returns
    -------
    Plan
        All candidates, best first.

    Raises
    ------
    InvalidInput
        There is no hardware, lengths are arrays, a price is not a finite number >= 0, techniques cannot be combined or
        no accelerator supports them, the rate is not positive, or the utilization is outside (0, 1].
    UnknownName
        A model, accelerator, format, technique, ranking, method or time is unknown, or a price is for an accelerator
        that is not planned.

    Examples
    --------
    >>> import roofline as rl
    >>> found = rl.plan("llama-3.1-8b", ["l4", "h100-sxm"], rl.Workload(1500, 300), slo=rl.SLO(tpot_s=0.03))
    >>> print(found.best.accelerator[0])
    h100-sxm
    """
    model, slo = get_model(model), as_slo(slo)
    stream = arrivals_of(load, requests_per_s, burstiness=burstiness)
    lengths, load = (None, load) if isinstance(load, Workload) else (load, mean_load(load))
    listed = [hardware] if isinstance(hardware, Accelerator | str | Path) else hardware
    chips = [get_accelerator(chip) for chip in listed]
    _check(chips, load, time)
    power = power or BOARDS_ALONE
    if rank not in RANKINGS:
        raise unknown("ranking", rank, RANKINGS)
    used = _techniques(techniques, hit_rate, kv)
    usd = _usd_per_hour(prices or {}, chips)
    spread = layouts(model, accelerators)
    tried = replace(load, batch=np.unique(np.atleast_1d(np.asarray(number("batches", batches, least=1, whole=True)))))
    deployments = [
        _with_kv(Deployment(model, chip, precision_of(precision), engine=engine, power_limit_watts=power.limit_w), kv)
        for chip in chips
        for precision in precisions or (AS_PUBLISHED,)
    ]
    asked, refused, no_start = _cases(deployments, spread, tried, used, usd)
    if not asked:
        links = "no accelerator has the links for any of these layouts: include layouts on one accelerator"
        raise InvalidInput(next((f"{name}: {reason}" for name, reason in refused.items()), links))
    parts = [
        evaluate(case, slo, price, idle_watts(power, serve.accelerator, idle_share(serve)), time)
        for serve, case, price in progress(asked)
    ]
    cases = FrozenMapping({(serve.accelerator.name, precision_name(case.serve)): serve for serve, case, _ in asked})
    rules = [f"layouts that no engine supports are not considered: {'; '.join(no_start)}"] if no_start else []
    longest = load.sequence_tokens if lengths is None else lengths.longest_tokens
    notes = [*context_notes(model, float(longest or 0.0)), *_notes(cases, spread, prices), *rules]
    notes += encoding_notes(deployments[0], load)
    notes += _technique_notes(used, refused)
    notes += _power_notes(cases, power, time)
    whole = Plan(
        model,
        load,
        slo,
        time,
        all_rows(parts),
        cases,
        used,
        power,
        rank,
        allow_uncalibrated,
        lengths,
        assumptions=tuple(notes),
    )
    whole = whole.ranked()
    if stream is None:
        return whole
    return with_arrivals(whole, stream, utilization=utilization, method=method)


def _cases(
    deployments: Sequence[Deployment],
    spread: Parallel,
    tried: Workload,
    used: tuple[Technique, ...],
    usd: Mapping[str, float],
) -> tuple[list[Case], dict[str, str], list[str]]:
    """Deployments to try, why others cannot be tried, and why engines reject some layouts."""
    asked: list[Case] = []
    refused: dict[str, str] = {}
    no_start: dict[str, None] = {}
    for serve in deployments:
        name = serve.accelerator.name
        joined_layouts = within_reach(spread, serve.accelerator)
        if joined_layouts is None:
            continue
        parallel, unstarted = startable(joined_layouts, serve.model, serve.precision)
        no_start.update(dict.fromkeys(unstarted))
        if parallel is None:
            refused[name] = unstarted[0]
            continue
        if reason := _missing_units(serve):
            refused[name] = reason
            continue
        cases = [Scenario(serve.replace(parallel=row), tried) for row in rows_of(parallel)]
        kept = rows_kept(parallel, [_suits(case, used) for case in cases])
        if kept is None:
            refused[name] = _refusal(cases, used)
        else:
            spread_out = serve.replace(parallel=kept)
            asked.append((spread_out, scenario_with(spread_out, tried, used), usd[name]))
    return asked, refused, list(no_start)


def _suits(case: Scenario, techniques: tuple[Technique, ...]) -> bool:
    """Whether a layout supports all of the techniques."""
    return all(item.in_layout(case) for item in techniques)


def _refusal(cases: Sequence[Scenario], techniques: tuple[Technique, ...]) -> str:
    """Why no layout supports all of the techniques; the reason of the largest layout, if it has one."""
    lacking = next((item for item in techniques if not any(item.in_layout(case) for case in cases)), None)
    if lacking is None:
        return f"no layout has {' and '.join(item.name for item in techniques)}"
    return f"{lacking.name}: {lacking.refusal(cases[-1]) or 'no layout has it'}"


def _techniques(techniques: Chosen, hit_rate: float, kv: str | None) -> tuple[Technique, ...]:
    """Techniques that all candidates use.

    Raises
    ------
    InvalidInput
        Techniques cannot be combined with each other, with ``hit_rate`` or ``kv``, or with a search over layouts.
    """
    used = with_hit_rate(as_techniques(techniques), hit_rate)
    refuse_pairs(used)
    if kv is not None and any(isinstance(item, KVQuantization) for item in used):
        raise InvalidInput("kv and KV-cache quantization both decide the format of the KV cache: choose one")
    return used


def _with_kv(serve: Deployment, kv: str | None) -> Deployment:
    if kv is None:
        return serve
    return serve.replace(precision=replace(serve.precision, kv=kv))


def _missing_units(serve: Deployment) -> str:
    """Note if the accelerator has no units for a format of the deployment; empty if it has all."""
    precision = serve.precision
    maths = dict.fromkeys([*(precision.part(part).math for part in PARTS), precision.attention])
    for math in maths:
        try:
            serve.accelerator.math_on_chip(math)
        except UnknownName as error:
            return str(error)
    return ""


def _with_parameters(technique: Technique) -> str:
    """A technique and what it assumes: ``prefix caching (hit rate 0.5)``."""
    if technique.assumes:
        return f"{technique.label} ({technique.assumes})"
    return technique.label


def _technique_notes(used: tuple[Technique, ...], refused: Mapping[str, str]) -> tuple[str, ...]:
    notes = [f"techniques: {'; '.join(map(_with_parameters, used))}"] if used else []
    notes += [f"{name} is not considered: {reason}" for name, reason in refused.items()]
    return tuple(notes)


def _check(chips: Sequence[Accelerator], load: Workload, time: str) -> None:
    if not chips:
        raise InvalidInput("a plan needs at least one accelerator")
    if time not in PLANNED_TIMES:
        raise unknown("time", time, PLANNED_TIMES)
    for name in ("prompt_tokens", "output_tokens", "cached_tokens"):
        if np.ndim(getattr(load, name)):
            raise InvalidInput(f"a plan takes a single {name}; pass a Traffic for a mix of lengths")


def _usd_per_hour(prices: Mapping[str, float | Price | None], chips: Sequence[Accelerator]) -> dict[str, float]:
    """Price per hour of each accelerator; NaN if not given or not known (None)."""
    names = [chip.name for chip in chips]
    given = dict.fromkeys(names, np.nan)
    for name, price in prices.items():
        known = name if name in names else next((chip.name for chip in chips if name in chip.aliases), None)
        if known is None:
            raise unknown("accelerator of this plan", name, names)
        if price is not None:
            usd = price.usd_per_hour if isinstance(price, Price) else price
            given[known] = float(np.max(checked_price("a price", usd)))
    return given


def _power_notes(cases: Mapping[tuple[str, str], Deployment], power: Power, time: str) -> tuple[str, ...]:
    """Notes on the scope and basis of the power."""
    if time == "floor_s":
        return ("at the floor, prefill and decode overlap, so their shares and the power are unknown",)
    serves = {serve.accelerator.name: serve for serve in cases.values()}
    bases = dict.fromkeys(note for serve in serves.values() for note in power_notes(serve))
    scope = f"power and energy cover {power.scope}"
    if power.idle_w is not None:
        return (*bases, scope)
    return (*bases, scope, *_idle_notes(serves))


def _idle_notes(serves: Mapping[str, Deployment]) -> Iterator[str]:
    """Notes on the idle power of the accelerators: one on those with a measured value, one on the others."""
    watts = {name: idle_watts(BOARDS_ALONE, serve.accelerator, idle_share(serve)) for name, serve in serves.items()}
    known = [f"{name} {each:.0f} W" for name, each in watts.items() if np.isfinite(each)]
    unknown = [name for name, each in watts.items() if not np.isfinite(each)]
    if known:
        yield f"idle power, measured on accelerators of the family: {', '.join(known)}"
    if unknown:
        yield f"idle power of {', '.join(unknown)} is unknown: give idle_w"


def _market_notes(prices: Mapping[str, float | Price | None]) -> list[str]:
    """A note if prices are compared that come from different markets or terms; of the user's own none is known."""
    listed = [price for price in prices.values() if isinstance(price, Price)]
    found = []
    markets = dict.fromkeys(price.market for price in listed)
    if len(markets) > 1:
        found.append(
            f"prices come from different markets ({', '.join(markets)}), which differ by up to four times for the same "
            "accelerator: pass prices of one market to compare accelerators"
        )
    terms = dict.fromkeys(price.term.replace("_", " ") for price in listed)
    if len(terms) > 1:
        found.append(f"prices have different terms: {', '.join(terms)}")
    return found


def _notes(
    cases: Mapping[tuple[str, str], Deployment], spread: Parallel, prices: Mapping[str, float | Price | None] | None
) -> tuple[str, ...]:
    """Notes of the plan: prices, and layouts limited by links."""
    chips = {serve.accelerator.name: serve.accelerator for serve in cases.values()}
    most = float(np.max(spread.accelerators))
    ends = [
        f"{name}: no layouts beyond {reach(chip):g} accelerators, the largest number that its links connect"
        for name, chip in chips.items()
        if reach(chip) < most
    ]
    asked = [f"{name}: {price}" for name, price in (prices or {}).items() if isinstance(price, Price)]
    asked += [
        f"no price of {name} is known: ranked behind those with one; give {name}=2.5 or the like"
        for name, price in (prices or {}).items()
        if price is None
    ]
    asked += _market_notes(prices or {})
    return (*ends, *asked)
