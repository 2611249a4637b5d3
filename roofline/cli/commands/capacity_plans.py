"""Commands about many deployments: ``plan`` and ``fleet``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter

from ...capacity import Fleet, Plan
from ...capacity import fleet as size_fleet
from ...capacity import plan as make_plan
from ...capacity.arrivals import METHODS
from ...capacity.launch import engines_on, launch_command
from ...capacity.plan_sentences import interval_words, time_words
from ...errors import InvalidInput
from ...phases.workload import Workload
from ...progress import patient
from ...report import Rows, plain
from ...serving.steady_state import PLANNED_TIMES
from ...serving.trace import read_arrivals
from ...specs.electricity import Power
from ...specs.library import get_accelerator, get_hardware
from ...specs.prices import Price, get_price
from ...units import brief_time, humanize
from .. import options as opt
from ..output import check_picture, print_csv, print_json, print_text, save_picture
from ..quantities import quantities, quantity
from ..target import read_model, read_slo
from ..technique_options import Chosen
from ..text import block, bullets, paragraph, shell_line, table

DEPLOYMENTS = ("accelerator", "precision", "gpus", "layout", "batch", "headroom", "basis", "tie")
SIZED = ("accelerator", "precision", "layout", "gpus", "replicas", "utilization", "basis", "tie")
DETAILS = ("accelerator", "precision", "engine", "batch", "headroom", "limit", "bound_by")
YIELDS = (
    "accelerator",
    "precision",
    "tokens_per_s_per_gpu",
    "usd_per_million_input_tokens",
    "usd_per_million_cached_tokens",
    "usd_per_million_output_tokens",
)
ENERGY = (
    "accelerator",
    "precision",
    "watts",
    "joules_per_million_input_tokens",
    "joules_per_output_token",
    "tokens_per_joule",
    "gco2_per_request",
    "electricity_usd_per_request",
)
FLEETS = ("accelerator", "precision", "layout", "replicas", "load", "gpus", "usd_per_hour", "gpus_at_floor")
SURE = ("accelerator", "precision", "engine", "batch", "gpus_low", "gpus_high", "basis", "tie")
COSTS = (
    "accelerator",
    "precision",
    "usd_per_month",
    "usd_per_million_tokens",
    "watts",
    "joules_per_request",
    "gco2_per_request",
    "electricity_usd_per_month",
)
HEADS = {
    "precision": "formats",
    "gpus": "GPUs",
    "ttft_s": "TTFT",
    "tpot_s": "TPOT",
    "tokens_per_s_per_gpu": "tok/s/GPU",
    "usd_per_million_input_tokens": "$/M in",
    "usd_per_million_cached_tokens": "$/M cached",
    "usd_per_million_output_tokens": "$/M out",
    "usd_per_million_tokens": "$/M, all in",
    "usd_per_month": "$/month",
    "watts": "power",
    "joules_per_million_input_tokens": "J/M in",
    "joules_per_output_token": "J/tok out",
    "joules_per_request": "J/request",
    "tokens_per_joule": "tok/J",
    "gco2_per_request": "gCO2/request",
    "electricity_usd_per_request": "electricity $/request",
    "electricity_usd_per_month": "electricity $/month",
    "bound_by": "bound by",
    "total_s": "end to end",
    "gap_s": "longest gap",
    "tokens_per_s": "throughput",
    "usd_per_hour": "$/h",
    "gpus_at_floor": "GPUs, floor",
    "gpus_low": "GPUs, low",
    "gpus_high": "GPUs, high",
    "replicas": "replicas",
    "utilization": "load",
}

Hardware = Annotated[
    tuple[str, ...],
    opt.option(
        "--hardware",
        "HW,HW,...",
        "Accelerators: names, or paths of specs; may be repeated. 8xh100 tries that number alone.",
        parse=opt.words,
        group=opt.LAYOUT,
    ),
]
Precisions = Annotated[
    tuple[str, ...],
    opt.option(
        "--precisions",
        "FORMAT,...",
        "Formats of the weights and, where they can be computed with, the activations.",
        parse=opt.words,
        group=opt.LAYOUT,
        show_default="the checkpoint's",
    ),
]
Gpus = Annotated[
    Any,
    opt.option(
        "--gpus",
        "N,N,...",
        "Numbers of accelerators of one deployment.",
        parse=quantities,
        group=opt.LAYOUT,
        show_default="1,2,4,8",
    ),
]
Prices = Annotated[
    tuple[str, ...],
    opt.option(
        "--prices",
        "HW=USD,...",
        "USD per accelerator-hour; a bare name uses the bundled price.",
        parse=opt.words,
        group=opt.OTHER,
        show_default=False,
    ),
]
Rank = Annotated[
    str,
    opt.option(
        "--rank",
        "WHAT",
        "What candidates that meet the SLO are ranked by: cost or energy.",
        parse=opt.words,
        group=opt.OTHER,
    ),
]

Rate = Annotated[
    Any,
    opt.option(
        "--rate",
        "N",
        "Requests that arrive per second.",
        parse=quantity,
        group=opt.WORKLOAD,
        show_default="the traffic file's, if it has times",
    ),
]
Utilization = Annotated[
    Any,
    opt.option(
        "--utilization",
        "SHARE",
        "Share of its throughput that a deployment may be loaded with (0-1].",
        parse=quantity,
        group=opt.TARGETS,
        show_default="0.7 without an SLO, else what the queue allows",
    ),
]
Uncalibrated = Annotated[
    bool,
    Parameter(
        name="--allow-uncalibrated",
        help="Rank accelerators without timings of their own among the others.",
        negative=(),
        show_default=False,
        group=opt.GROUPS[opt.OTHER],
    ),
]
TrafficFile = Annotated[
    Path | None,
    Parameter(
        name="--traffic",
        metavar="FILE",
        help="Requests to plan for, as CSV or JSON: lengths, and times of arrival if there is no --rate.",
        converter=opt.parsed_by(Path),
        group=opt.GROUPS[opt.WORKLOAD],
    ),
]
Burstiness = Annotated[
    Any,
    opt.option(
        "--burst",
        "CV2",
        "Squared coefficient of variation of the gaps between arrivals; 1 is Poisson.",
        parse=quantity,
        group=opt.WORKLOAD,
    ),
]
Method = Annotated[
    str | None,
    opt.option(
        "--method",
        "NAME",
        "How queues are computed: 'closed form', or 'simulation' of those that may win.",
        group=opt.OTHER,
        show_default="simulation",
        completer=opt.completed_by(lambda: METHODS),
    ),
]
PlannedTime = Annotated[
    str,
    opt.option(
        "--time",
        "NAME",
        "Which time targets are for: floor, roofline, estimate, or estimate_high, the upper end of its interval.",
        parse=opt.planned_time_name,
        group=opt.OUTPUT,
        completer=opt.completed_by(lambda: [time.removesuffix("_s") for time in PLANNED_TIMES]),
    ),
]


@Parameter(name="*")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Search:
    """What is searched, as typed."""

    hardware: Hardware
    load: opt.LengthFields = dataclasses.field(default_factory=dict)
    slo: opt.PlannedSLOFields = dataclasses.field(default_factory=dict)
    precisions: Precisions = ()
    formats: opt.KVFields = dataclasses.field(default_factory=dict)
    kernels: opt.KernelFields = dataclasses.field(default_factory=dict)
    gpus: Gpus = None
    prices: Prices = ()
    power: opt.MeterFields = dataclasses.field(default_factory=dict)
    rank: Rank = "cost"
    allow_uncalibrated: Uncalibrated = False
    traffic: TrafficFile = None
    burstiness: Burstiness = 1
    utilization: Utilization = None
    method: Method = None
    time: PlannedTime = opt.DEFAULT_TIME

    def plan(self, model: str, chosen: Chosen | None, rate: Any = None) -> Plan:
        """The plan of the library, every candidate with these techniques."""
        if self.traffic is not None and self.load:
            raise InvalidInput("--traffic has the lengths of its own requests: leave --prompt and --output out")
        techniques, hit_rate = (chosen or Chosen()).with_hit_rate()
        machines = [get_hardware(name) for name in self.hardware]
        counts = sorted({machine.count for machine in machines if machine.count > 1})
        gpus = self.gpus if self.gpus is not None else counts or (1, 2, 4, 8)
        return make_plan(
            read_model(model),
            [machine.accelerator for machine in machines],
            Workload(**self.load) if self.traffic is None else read_arrivals(self.traffic),
            requests_per_s=rate,
            slo=read_slo(self.slo),
            precisions=self.precisions,
            techniques=techniques,
            hit_rate=hit_rate,
            **self.formats,
            **self.kernels,
            accelerators=gpus if isinstance(gpus, Sequence) and not isinstance(gpus, str) else [gpus],
            prices=dict(_price(entry) for entry in self.prices),
            power=Power(**self.power),
            rank=self.rank,
            allow_uncalibrated=self.allow_uncalibrated,
            utilization=self.utilization,
            burstiness=self.burstiness,
            method=self.method,
            time=self.time,
            progress=patient,
        )


def _price(entry: str) -> tuple[str, float | Price]:
    """``h100-sxm=2.5``, or a bare name for the bundled price."""
    name, given, usd = entry.partition("=")
    gpu = get_accelerator(name).name
    if not given:
        return gpu, get_price(gpu)
    price = quantity(usd, "usd_per_hour")
    if isinstance(price, str):
        raise InvalidInput(f"a price is a number of USD per hour: {entry!r}")
    return gpu, price


def plan(
    model: opt.ModelName,
    /,
    search: Search,
    chosen: Chosen | None = None,
    *,
    rate: Rate = None,
    file: Annotated[Path | None, opt.PICTURE] = None,
    full: opt.Full = False,
    as_csv: opt.Csv = False,
    as_json: opt.Json = False,
) -> None:
    """The cheapest deployments that meet an SLO, at a rate of requests if one is given."""
    if file is not None:
        check_picture(file)
    found = search.plan(model, chosen, rate)
    if file is not None:
        from ...plot import pareto

        save_picture(file, lambda ax: pareto(found, ax=ax))
    if as_json:
        return print_json(plan_dict(found))
    if as_csv:
        return print_csv(found.columns, found.rows())
    return print_text(*_plan_text(found, full=full))


Api = Annotated[
    str,
    opt.option(
        "--api",
        "IN,CACHED,OUT",
        "Prices of an API, USD per million tokens, to break even with.",
        group=opt.OTHER,
        show_default=False,
    ),
]


def fleet(
    model: opt.ModelName,
    /,
    search: Search,
    chosen: Chosen | None = None,
    *,
    rate: Rate = None,
    api: Api = "",
    file: Annotated[Path | None, opt.PICTURE] = None,
    full: opt.Full = False,
    as_csv: opt.Csv = False,
    as_json: opt.Json = False,
) -> None:
    """The fleets that serve a rate of requests."""
    if file is not None:
        check_picture(file)
    asked = _api_prices(api)
    if rate is None and search.traffic is None:
        raise InvalidInput("fleet needs arrivals: --rate N (requests per second), or --traffic FILE with times")
    found = size_fleet(search.plan(model, chosen, rate))
    rates = found.break_even(*asked) if asked else None
    if file is not None:
        from ...plot import cost

        save_picture(file, lambda ax: cost(found, ax=ax))
    if as_json:
        return print_json(fleet_dict(found, rates))
    if as_csv:
        return print_csv(found.columns, found.rows())
    return print_text(*_fleet_text(found, rates, full=full))


def _api_prices(text: str) -> tuple[float, ...]:
    """Prices of an API as typed: input, cached and output tokens, USD per million; empty if none are given."""
    if not text:
        return ()
    prices = quantities(text, "usd_per_hour")
    if not isinstance(prices, tuple) or len(prices) != API_PRICES or any(isinstance(each, str) for each in prices):
        raise InvalidInput(f"--api takes the prices of input, cached and output tokens, such as 0.3,0.03,1.2: {text!r}")
    return prices


API_PRICES = 3


def plan_dict(found: Plan) -> dict[str, Any]:
    """What was asked, the best of all, of every accelerator, and the frontier, as plain JSON types."""
    best = found.best.rows()
    return _asked(found) | {
        "candidates": len(found),
        "feasible": int(found.feasible.sum()),
        "best": best[0] if best else None,
        "by_accelerator": found.by_accelerator.rows(),
        "frontier": found.frontier.rows(),
        "assumptions": list(found.assumptions),
    }


def fleet_dict(found: Fleet, rates: Any = None) -> dict[str, Any]:
    """What was asked, and a row a fleet, the first by rank; with the rates at which an API costs as much."""
    asked = {"utilization": found.utilization}
    even = {} if rates is None else {"break_even_requests_per_s": plain(rates)}
    return _asked(found.plan) | asked | {"fleets": found.rows(), **even, "assumptions": list(found.assumptions)}


def _asked(found: Plan) -> dict[str, Any]:
    return {
        "model": found.model.name,
        "workload": {"prompt_tokens": found.load.prompt_tokens, "output_tokens": found.load.output_tokens},
        "slo": dict(found.slo.targets()),
        "statistic": found.slo.statistic,
        **({"requests_per_s": found.stream.requests_per_s, "most_load": found.most_load} if found.stream else {}),
        "time": found.time,
    }


def _plan_text(found: Plan, *, full: bool) -> list[str]:
    """The best of every accelerator and precision, why others are rejected, and how to start the best."""
    rows = found.by_accelerator
    met, rejected = rows.take(rows.feasible), rows.take(~rows.feasible)
    count = (
        f"{len(found):,} candidates, {int(found.feasible.sum()):,} of which {'meet the SLO' if _slo(found) else 'fit'}"
    )
    parts = [_title(found), f"\n{paragraph(found.summary())}", _launch(found)]
    if len(met):
        parts.append(
            block(
                f"Best of each accelerator and format, {_first(found)} first ({count})",
                _table(met, SIZED if found.stream else DEPLOYMENTS),
            )
        )
        parts.append(_requests(met))
        if full:
            parts.append(block("What limits them", _table(met, DETAILS)))
            parts.append(block("Throughput and cost", _table(met, YIELDS)))
            parts.append(block("Power and energy", _table(met, _known(met, ENERGY))))
    if len(rejected):
        words = zip(rejected.accelerator, rejected.precision, rejected.reason, strict=True)
        parts.append(block("Rejected (closest candidate of each kind)", table(words)))
    return [*parts, block("Notes", bullets(found.assumptions)), "" if full else MORE]


MORE = "\n--full shows throughput, cost and energy of each, --csv every candidate."


def _first(found: Plan) -> str:
    """What comes first in a list."""
    return "the least energy" if found.rank == "energy" else "the cheapest"


def _known(found: Rows, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of which something is known."""
    return tuple(name for name in columns if not _unknown(getattr(found, name)))


def _unknown(column: Any) -> bool:
    return column.dtype.kind == "f" and bool(np.isnan(column).all())


def _launch(found: Plan) -> str:
    """How to start the best candidate."""
    best = found.best
    if not len(best):
        return ""
    serve, load = best.deployment(), best.workload()
    engines = engines_on(serve.accelerator) if serve.engine is None else (str(serve.engine),)
    lines = [shell_line(launch_command(serve, load, engine=engine)) for engine in engines]
    return block("Launch", "\n".join(lines))


def _fleet_text(found: Fleet, rates: Any, *, full: bool) -> list[str]:
    """A line a fleet."""
    head = f"Fleets, {_first(found.plan)} first; the floor is perfect software at full load"
    parts = [
        _title(found.plan),
        f"\n{paragraph(found.summary())}",
        block(head, _table(found, _known(found, FLEETS))),
        _requests(found),
        block("How sure: accelerators at both ends of the interval, and what it rests on", _table(found, SURE)),
        _launch(found.plan),
    ]
    if full:
        parts.append(block("Cost and energy", _table(found, _known(found, COSTS))))
    if rates is not None:
        words = [_break_even(each) for each in rates]
        rows = zip(found.accelerator, found.precision, words, strict=True)
        parts.append(block("As cheap as the API from", table(rows)))
    more = "" if full else "\n--full shows cost and energy of each, --csv every column."
    return [*parts, block("Notes", bullets(found.assumptions)), more]


def _break_even(rate: float) -> str:
    """The rate from which a fleet costs no more than an API, in words."""
    if np.isnan(rate):
        return "no price is given: use --prices"
    return humanize("requests_per_s", rate) if np.isfinite(rate) else "more requests than it can serve"


def _slo(found: Plan) -> str:
    """The targets, as people write them."""
    return ", ".join(f"{HEADS.get(name, name)} {humanize(name, level)}" for name, level in found.slo.targets())


def _title(found: Plan) -> str:
    lengths = f"prompt {found.load.prompt_tokens:,}, output {found.load.output_tokens:,} tokens"
    slo = f"SLO: {_slo(found)}" if _slo(found) else "no SLO"
    if found.stream is not None:
        lengths = f"{found.stream.requests_per_s:g} requests/s, {lengths}"
        slo += f" ({found.slo.statistic})" * bool(_slo(found))
    name = found.model.title or found.model.name
    return paragraph(f"{name}: {lengths}; {slo}; time: {time_words(found.time)}")


def _requests(found: Plan | Fleet) -> str:
    """Times of requests with their intervals, a line for each row."""
    plan = found.plan if isinstance(found, Fleet) else found
    rows = []
    for at in range(len(found)):
        times = []
        for name in ("ttft", "tpot"):
            middle, low, high = (float(getattr(found, f"{name}{end}_s")[at]) for end in ("", "_low", "_high"))
            times.append(interval_words(middle, low, high) if low < high else brief_time(middle))
        rows.append(
            (
                str(found.accelerator[at]),
                str(found.precision[at]),
                *times,
                *([str(found.queue[at])] if plan.stream else []),
            )
        )
    by = f"{plan.slo.statistic} over requests that queue" if plan.stream else "Mean of requests, the batch always full"
    heads = ("accelerator", "formats", "TTFT", "TPOT", *(["by"] if plan.stream else []))
    return block(f"{by}, with 80 % intervals", table(rows, head=heads))


def _table(found: Rows, columns: Sequence[str]) -> str:
    head, *cells = found.cells(len(found), {name: HEADS.get(name, name) for name in columns})
    return table(cells, head=head, right=[at for at, name in enumerate(columns) if name not in WORDS])


WORDS = ("accelerator", "precision", "layout", "basis", "engine", "limit", "bound_by", "tie")
"""Columns that hold words, which stand on the left."""
