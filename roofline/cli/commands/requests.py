"""Commands about servers under load: ``serve`` and ``simulate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from ...errors import InvalidInput
from ...report import plain
from ...report.progress import reporter
from ...serving.methods import CLOSED_FORM, METHODS, SIMULATION, method_named
from ...serving.outcome import Simulation
from ...serving.simulation import simulate as run_simulation
from ...serving.slo import SLO
from ...serving.under_load import Served
from ...serving.under_load import serve as serve_requests
from ...units import OVERLOAD, brief_time, humanize
from .. import options as opt
from ..answers import deployment_dict
from ..output import print_json, print_text
from ..quantities import quantities, quantity
from ..request_load import load_dict, load_words, read_recorded, read_requests
from ..target import Placement, read_model, read_slo
from ..text import KEPT_BLANK, block, bullets, table, value
from .deployments import lead, title_of
from .priorities import TrafficFile

Concurrency = Annotated[
    Any,
    opt.option(
        "--concurrency", "N", "Requests in the system at any time (closed loop).", parse=quantities, group=opt.WORKLOAD
    ),
]
Rate = Annotated[
    Any,
    opt.option(
        "--rate",
        "N",
        "Requests per second that arrive (open loop), or another unit such as 600/min.",
        parse=opt.rates,
        group=opt.WORKLOAD,
    ),
]
HitRate = Annotated[
    Any,
    opt.option(
        "--hit-rate",
        "SHARE",
        "Share of each prompt that is found in the prefix cache.",
        parse=quantity,
        group=opt.WORKLOAD,
    ),
]
Method = Annotated[
    str | None,
    opt.option(
        "--method",
        "NAME",
        "How queues are computed: closed-form or simulation.",
        parse=method_named,
        group=opt.OTHER,
        show_default="closed-form for --concurrency, simulation for --rate",
        completer=opt.completed_by(lambda: METHODS),
    ),
]
Requests = Annotated[
    Any,
    opt.option(
        "--requests",
        "N",
        "Number of requests to simulate.",
        parse=quantity,
        group=opt.OTHER,
        show_default="5,000 for --rate, 10 for each of --concurrency",
    ),
]
Seed = Annotated[
    Any, opt.option("--seed", "N", "Seed; the same seed repeats a simulation exactly.", parse=quantity, group=opt.OTHER)
]
Spread = Annotated[
    Any,
    opt.option(
        "--spread",
        "SHARE",
        "Lengths of requests are drawn uniformly from this share below --prompt and --output to this share above;"
        " with 0, requests of a closed loop stay in step and wait for each other's prompts.",
        parse=quantity,
        group=opt.WORKLOAD,
    ),
]
TraceFile = Annotated[
    Path | None,
    opt.option(
        "--trace",
        "FILE",
        "Recorded requests with their arrival times, as CSV or JSON lines.",
        parse=Path,
        group=opt.WORKLOAD,
    ),
]

LATENCIES = {
    "ttft_s": "TTFT",
    "tpot_s": "TPOT",
    "total_s": "end to end",
    "gap_s": "longest gap",
    "queue_s": "in the queue",
}
"""Heads of the latencies of a request."""

FIGURES = {
    "tokens_per_s": "output tokens/s",
    "requests_per_s": "requests/s",
    "running_batch": "requests running",
    "prefill_share": "time for prompts",
    "limit": "limit",
    "utilization": "scheduler busy",
}
"""Heads of the numbers of the deployment."""

QUANTILES = (0.5, 0.9, 0.95, 0.99)

BRACKETS = "in brackets: the means at both ends of the 80% interval of every step"


ENDLESS = "∞"
"""The end of an interval in a row of a table, where words for a queue that grows without bound have no room."""


def serve(
    model: opt.ModelName,
    /,
    placement: Placement,
    load: opt.RequestFields | None = None,
    slo: opt.SLOFields | None = None,
    *,
    concurrency: Concurrency = None,
    rate: Rate = None,
    burstiness: opt.Burstiness = 1,
    hit_rate: HitRate = 0,
    traffic: TrafficFile = None,
    spread: Spread = 0,
    method: Method = None,
    requests: Requests = None,
    seed: Seed = 0,
    time: opt.Time = opt.DEFAULT_TIME,
    as_json: opt.Json = False,
) -> None:
    """Show what users see under load."""
    deployment = placement.single().deployment(read_model(model))
    lengths = read_requests(load or {}, traffic, spread=spread)
    if concurrency is None and rate is None:
        raise InvalidInput("serve needs a load: --concurrency N (closed loop) or --rate N (requests per second)")
    if concurrency is not None and rate is not None:
        raise InvalidInput("give either --concurrency (closed loop) or --rate (open loop), not both")
    targets = read_slo(slo or {})
    by_default = CLOSED_FORM if rate is None else SIMULATION
    if targets.latencies and (by_default if method is None else method_named(method)) == CLOSED_FORM:
        raise InvalidInput("targets such as --ttft need every request, not means: add --method simulation")
    found = serve_requests(
        deployment,
        lengths,
        concurrency=_array(concurrency),
        requests_per_s=_array(rate),
        burstiness=burstiness,
        method=method,
        hit_rate=hit_rate,
        requests=requests,
        seed=seed,
        time=time,
    )
    if as_json:
        return print_json(deployment_dict(deployment) | {"load": load_dict(lengths)} | _served_dict(found, targets))
    several = np.ndim(found.tokens_per_s) > 0
    sentences = (
        (_met_up_to(found, targets), found.summary()) if several else (found.summary(), _goodput(found, targets))
    )
    answer = " ".join(filter(None, sentences))
    said = lead(deployment.model, answer), f"\n{title_of(deployment, load_words(lengths), time=time)}"
    rows = _loads(found, targets) if several else _one_load(found)
    brackets = []
    if time == opt.DEFAULT_TIME and np.any(found.stable):
        word = ENDLESS if several else OVERLOAD
        overloaded = np.any(np.isfinite(found.ttft_s) & ~np.isfinite(found.high.ttft_s))
        brackets = [f"{BRACKETS}; {word}: the queue grows without bound" if overloaded else BRACKETS]
    return print_text(*said, rows, block("Notes", bullets([*brackets, *found.assumptions])))


def _array(asked: Any) -> Any:
    """A list of values as an array; a single value unchanged."""
    if not isinstance(asked, tuple):
        return asked
    wrong = next((item for item in asked if isinstance(item, str)), None)
    return asked if wrong is not None else np.array(asked, dtype=float)


def _met_up_to(found: Served, slo: SLO) -> str:
    """The largest load at which enough requests meet the latency targets, in words; empty without such targets."""
    if not slo.latencies:
        return ""
    closed = found.asked_concurrency is not None
    asked = np.ravel(found.asked_concurrency if closed else found.asked_requests_per_s)
    order = np.argsort(asked, kind="stable")
    missed = np.ravel(found.share_within(slo))[order] < slo.share
    enough = asked[order][: int(np.argmax(missed)) if missed.any() else len(asked)]
    targets = f"the SLO ({_latency_targets(slo)})"
    if not len(enough):
        return f"Less than {slo.share:.0%} of the requests meet {targets} even at the lowest load."
    most = f"{enough[-1]:,.0f} requests in the system" if closed else f"{enough[-1]:.4g} requests/s"
    where = "with up to" if closed else "at up to"
    return f"At least {slo.share:.0%} of the requests meet {targets} {where} {most}."


def _latency_targets(slo: SLO) -> str:
    return ", ".join(f"{LATENCIES[name]} {humanize(name, level)}" for name, level in slo.latencies)


def _served_dict(found: Served, slo: SLO) -> dict[str, Any]:
    return found.to_dict() | _interval_dict(found) | _met_dict(found, slo) | {"assumptions": list(found.assumptions)}


def _interval_dict(found: Served | Simulation) -> dict[str, Any]:
    """Lower and upper end of the mean of each latency, each a list for several loads; for other times nothing."""
    if found.time != opt.DEFAULT_TIME or not np.any(getattr(found, "stable", True)):
        return {}
    ends = (found.low, found.high)
    return {"interval": {name: [plain(getattr(end, name)) for end in ends] for name in LATENCIES}}


def _met_dict(found: Served | Simulation, slo: SLO) -> dict[str, Any]:
    """The targets and the share of the requests that meet those for latency; nothing without targets."""
    share = {"share_within_slo": plain(found.share_within(slo))} if slo.latencies else {}
    return {"slo": dict(slo.targets()), **share} if slo.targets() else {}


def _loads(found: Served, slo: SLO) -> str:
    """One row for each concurrency or rate, intervals below their times if they do not fit beside them."""
    closed = found.asked_concurrency is not None
    asked = np.ravel(found.asked_concurrency if closed else found.asked_requests_per_s)
    head = ["concurrency" if closed else "requests/s", "TTFT", "TPOT", "end to end", "tokens/s"]
    columns = [[f"{each:g}" for each in asked]]
    columns += [_times(found, name, asked.size) for name in ("ttft_s", "tpot_s", "total_s")]
    columns.append([f"{each:,.0f}" for each in np.ravel(found.tokens_per_s)])
    shares = found.share_within(slo) if slo.latencies else found.utilization
    columns.append([f"{share:.0%}" for share in np.ravel(shares)])
    columns.append([str(limit) for limit in np.ravel(found.limit)])
    full = (*head, "in SLO" if slo.latencies else "load", "limit")
    last = len(full) - 1
    rows = table(zip(*columns, strict=True), head=full, right=range(last), folding={*range(1, 4), last})
    return rows.replace(KEPT_BLANK, " ")


def _times(found: Served, name: str, count: int) -> list[str]:
    """A latency at each load, with its interval; the unit stays with the number."""
    bounded = (found, found.low, found.high) if found.time == opt.DEFAULT_TIME else (found,)
    columns = [np.broadcast_to(np.ravel(getattr(each, name)), count) for each in bounded]
    cells = []
    for mean, *ends in zip(*columns, strict=True):
        shown = brief_time(mean, *ends) if np.isfinite(mean) else OVERLOAD
        cells.append(shown.replace(" ", KEPT_BLANK, 1).replace(f"-{OVERLOAD}]", f"-{ENDLESS}]"))
    return cells


def _one_load(found: Served) -> str:
    """Latencies of a request, with quantiles where available, then the numbers of the deployment."""
    # If the queue grows without bound, its times depend on how long the simulation runs.
    shares = QUANTILES if found.simulations and found.stable else ()
    rows = {"utilization": "load of the capacity", "capacity_requests_per_s": "capacity, requests/s"}
    return "\n\n".join((_latencies(found, shares), _deployment_rows(found, FIGURES | rows)))


def _latencies(found: Served | Simulation, shares: Sequence[float]) -> str:
    """Mean of each latency with its interval, and its quantiles."""
    bounded = found.time == opt.DEFAULT_TIME and bool(getattr(found, "stable", True))
    rows = []
    for name, words in LATENCIES.items():
        mean = getattr(found, name)
        if name in ("tpot_s", "gap_s") and not mean:
            continue  # requests of one output token have neither
        ends = (getattr(found.low, name), getattr(found.high, name)) if bounded else ()
        shown = brief_time(mean, *ends) if np.isfinite(mean) else OVERLOAD
        rows.append((words, shown, *(brief_time(found.quantile(name, share)) for share in shares)))
    head = ("", "mean", *(f"p{100 * share:.0f}" for share in shares))
    return table(rows, head=head, right=len(head) - 1)


def _deployment_rows(found: Served | Simulation, words: Mapping[str, str] = FIGURES) -> str:
    return table([(text, _figure(name, getattr(found, name))) for name, text in words.items()])


def _figure(name: str, number: Any) -> str:
    if name in ("utilization", "prefill_share"):
        return f"{number:.0%}"
    return f"{number:,.3g}" if name.endswith("requests_per_s") else value(name, number).removesuffix(" tokens/s")


def simulate(
    model: opt.ModelName,
    /,
    placement: Placement,
    load: opt.RequestFields | None = None,
    slo: opt.SLOFields | None = None,
    *,
    concurrency: Concurrency = None,
    rate: Rate = None,
    burstiness: opt.Burstiness = 1,
    hit_rate: HitRate = 0,
    traffic: TrafficFile = None,
    spread: Spread = 0,
    trace: TraceFile = None,
    requests: Requests = None,
    seed: Seed = 0,
    time: opt.Time = opt.DEFAULT_TIME,
    as_json: opt.Json = False,
) -> None:
    """Simulate a server step by step."""
    deployment = placement.single().deployment(read_model(model))
    if trace is None and concurrency is None and rate is None:
        recorded = f"--trace {traffic}, if the file has arrival times" if traffic else "--trace FILE"
        raise InvalidInput(f"simulate needs a load: --concurrency N, --rate N (requests per second) or {recorded}")
    if trace is not None and traffic is not None:
        raise InvalidInput("give either --trace, which has arrival times, or --traffic, not both")
    given = load or {}
    if trace is not None and spread:
        raise InvalidInput("--trace already says what requests consist of; drop --spread")
    asked = read_requests(given, traffic, spread=spread) if trace is None else read_recorded(given, trace)
    if concurrency is not None and rate is not None:
        raise InvalidInput("give either --concurrency (closed loop) or --rate (open loop), not both")
    targets = read_slo(slo or {})
    found = run_simulation(
        deployment,
        asked,
        concurrency=_one(concurrency, "--concurrency"),
        requests_per_s=_one(rate, "--rate"),
        burstiness=burstiness,
        hit_rate=hit_rate,
        requests=requests,
        seed=seed,
        time=time,
        progress=reporter(),
    )
    if as_json:
        return print_json(deployment_dict(deployment) | {"load": load_dict(asked)} | _simulated_dict(found, targets))
    answer = " ".join(filter(None, (found.summary(), _goodput(found, targets))))
    return print_text(
        lead(deployment.model, answer),
        f"\n{title_of(deployment, load_words(asked), time=time)}",
        _latencies(found, QUANTILES),
        f"\n{_deployment_rows(found)}",
        block("Notes", bullets([*([BRACKETS] if time == opt.DEFAULT_TIME else []), *found.assumptions])),
    )


def _one(asked: Any, name: str) -> Any:
    if isinstance(asked, tuple):
        raise InvalidInput(f"simulate takes one {name} at a time; `roofline serve` takes a list")
    return asked


def _simulated_dict(found: Simulation, slo: SLO) -> dict[str, Any]:
    shares = {}
    for share in QUANTILES:
        shares[f"{share:g}"] = {name: plain(found.quantile(name, share)) for name in LATENCIES}
    met = _met_dict(found, slo)
    return (
        found.to_dict() | _interval_dict(found) | {"quantiles": shares} | met | {"assumptions": list(found.assumptions)}
    )


def _goodput(found: Served | Simulation, slo: SLO) -> str:
    """The share of requests that meet the latency targets, and whether the throughput meets its own, in words."""
    sentences = []
    if slo.latencies:
        share = float(found.share_within(slo))
        met = f"{share:.1%} of the requests meet the SLO ({_latency_targets(slo)})"
        sentences.append(f"{met}: {share * found.requests_per_s:.3g} requests/s.")
    if slo.tokens_per_s is not None:
        meets = "meets" if found.tokens_per_s >= slo.tokens_per_s else "misses"
        sentences.append(f"The throughput {meets} its target of {humanize('tokens_per_s', slo.tokens_per_s)}.")
    return " ".join(sentences)
