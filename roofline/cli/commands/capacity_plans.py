"""Commands about many deployments: ``plan`` and ``fleet``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ...capacity import Fleet, Plan, PoolPlan, disaggregate
from ...capacity import fleet as size_fleet
from ...capacity import plan as make_plan
from ...errors import InvalidInput
from ...report import plain
from ...report.progress import patient
from ...serving.methods import METHODS, method_named
from ...serving.steady_state import PLANNED_TIMES
from ...specs.electricity import Power
from ...specs.library import Hardware, get_accelerator, get_hardware
from ...specs.prices import Price, get_price, list_prices
from .. import options as opt
from ..output import check_picture, print_csv, print_json, print_text, save_picture
from ..quantities import quantities, quantity
from ..request_load import load_dict, read_timed_requests
from ..target import read_model, read_slo
from ..technique_options import Chosen
from .capacity_text import fleet_text, plan_text

Machines = Annotated[
    tuple[str, ...],
    opt.option(
        "--hardware",
        "HW,HW,...",
        "Accelerators: names or paths of specs; may be repeated. 8xh100 tries only 8 of them.",
        parse=opt.words,
        group=opt.LAYOUT,
    ),
]
Precisions = Annotated[
    tuple[str, ...],
    opt.option(
        "--precisions",
        "FORMAT,...",
        "Formats of the weights, and of the activations where the hardware computes in them.",
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
        parse=opt.lower,
        group=opt.OTHER,
    ),
]

Rate = Annotated[
    Any,
    opt.option(
        "--rate",
        "N",
        "Requests per second that arrive (open loop), or another unit such as 600/min.",
        parse=opt.rate,
        group=opt.WORKLOAD,
        show_default="the traffic file's, if it has times",
    ),
]
Utilization = Annotated[
    Any,
    opt.option(
        "--utilization",
        "SHARE",
        "Target utilization (0-1]; below 1 leaves headroom for bursts.",
        parse=quantity,
        group=opt.TARGETS,
        show_default="0.7 without an SLO, else what the queue allows",
    ),
]
Uncalibrated = Annotated[
    bool,
    Parameter(
        name="--allow-uncalibrated",
        help="Rank accelerators whose estimates are not calibrated together with the others.",
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
        help="Request log to plan for, as CSV or JSON: lengths, and arrival times if --rate is not given.",
        converter=opt.parsed_by(Path),
        group=opt.GROUPS[opt.WORKLOAD],
    ),
]
Method = Annotated[
    str | None,
    opt.option(
        "--method",
        "NAME",
        "How queues are computed: closed-form or simulation (of the leading candidates).",
        parse=method_named,
        group=opt.OTHER,
        show_default="simulation",
        completer=opt.completed_by(lambda: METHODS),
    ),
]
NoPools = Annotated[bool, opt.switch("--no-pools", "Do not consider separate pools for prefill and decode.")]
PoolLink = Annotated[
    Any,
    opt.option(
        "--pool-link",
        "RATE",
        "One-way bandwidth per accelerator between the two pools, as in 50GB/s.",
        parse=lambda text: quantity(text, "bytes_per_s"),
        group=opt.OTHER,
        show_default="its network card",
    ),
]
PlannedTime = Annotated[
    str,
    opt.option(
        "--time",
        "NAME",
        "Which time has to meet the targets: floor, roofline, estimate or estimate_high (upper end of its interval).",
        parse=opt.planned_time_name,
        group=opt.OUTPUT,
        completer=opt.completed_by(lambda: [time.removesuffix("_s") for time in PLANNED_TIMES]),
    ),
]


@Parameter(name="*")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Search:
    """The search space, as typed."""

    hardware: Machines
    load: opt.RequestFields = dataclasses.field(default_factory=dict)
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
    burstiness: opt.Burstiness = 1
    utilization: Utilization = None
    method: Method = None
    time: PlannedTime = opt.DEFAULT_TIME

    def plan(self, model: str, chosen: Chosen | None, rate: Any = None) -> Plan:
        """The plan of the library, every candidate with these techniques."""
        techniques, hit_rate = (chosen or Chosen()).with_hit_rate()
        machines = [get_hardware(name) for name in self.hardware]
        counts = sorted({machine.count for machine in machines if machine.count > 1})
        gpus = self.gpus if self.gpus is not None else counts or (1, 2, 4, 8)
        found = make_plan(
            read_model(model),
            [machine.accelerator for machine in machines],
            read_timed_requests(self.load, self.traffic),
            requests_per_s=rate,
            slo=read_slo(self.slo),
            precisions=self.precisions,
            techniques=techniques,
            hit_rate=hit_rate,
            **self.formats,
            **self.kernels,
            accelerators=gpus if isinstance(gpus, Sequence) and not isinstance(gpus, str) else [gpus],
            prices=_prices(self.prices, machines),
            power=Power(**self.power),
            rank=self.rank,
            allow_uncalibrated=self.allow_uncalibrated,
            utilization=self.utilization,
            burstiness=self.burstiness,
            method=self.method,
            time=self.time,
            progress=patient,
        )
        if self.gpus is not None or not counts:
            return found
        only = " or ".join(f"{count:,}" for count in counts)
        note = f"only deployments of {only} accelerators are tried, as typed; --gpus 1,2,4,8 tries smaller ones"
        return dataclasses.replace(found, assumptions=(*found.assumptions, note))


def _prices(entries: Sequence[str], machines: Sequence[Hardware]) -> dict[str, float | Price | None]:
    """Prices by accelerator; None where the bundled lists have none, if there is a price of another.

    Raises
    ------
    UnknownName
        There is no price of any accelerator that was asked for.
    """
    found = dict(_price(entry, machines) for entry in entries)
    if found and all(price is None for price in found.values()):
        get_price(next(iter(found)))  # says how to give one
    return found


def _price(entry: str, machines: Sequence[Hardware]) -> tuple[str, float | Price | None]:
    """``h100-sxm=2.5``, a bare name for the bundled price, or a bare price where there is one accelerator."""
    name, given, usd = entry.partition("=")
    bare = quantity(entry, "usd_per_hour")
    names = dict.fromkeys(machine.accelerator.name for machine in machines)
    if not isinstance(bare, str):
        if len(names) > 1:
            raise InvalidInput(f"--prices takes HW=USD, such as {next(iter(names))}=2.5: {entry!r}")
        return next(iter(names)), bare
    gpu = get_accelerator(name).name
    if not given:
        return gpu, get_price(gpu) if list_prices(gpu) else None
    price = quantity(usd, "usd_per_hour")
    if isinstance(price, str):
        raise InvalidInput(f"--prices takes USD per accelerator-hour, such as {gpu}=2.5: {entry!r}")
    return gpu, price


def plan(
    model: opt.ModelName,
    /,
    search: Search,
    chosen: Chosen | None = None,
    *,
    rate: Rate = None,
    no_pools: NoPools = False,
    pool_link: PoolLink = None,
    file: Annotated[Path | None, opt.PICTURE] = None,
    full: opt.Full = False,
    as_csv: opt.Csv = False,
    as_json: opt.Json = False,
) -> None:
    """Find the cheapest deployments that meet an SLO, at a request rate if one is given."""
    if file is not None:
        check_picture(file)
    found = search.plan(model, chosen, rate)
    if file is not None:
        from ...plot import pareto

        save_picture(file, lambda ax: pareto(found, ax=ax))
    if as_csv:
        return print_csv(found.columns, found.rows())
    pools = None if no_pools else _pools(found, search.method, pool_link)
    if as_json:
        return print_json(plan_dict(found, pools))
    return print_text(*plan_text(found, pools, full=full))


def _pools(found: Plan, method: str | None, link: Any) -> PoolPlan | str:
    """Pools of prefill and decode workers for the same plan, or the reason why there are none."""
    try:
        return disaggregate(found, method=method, link_bytes_per_s=link, progress=patient)
    except InvalidInput as error:
        return str(error)


Api = Annotated[
    str,
    opt.option(
        "--api",
        "IN,CACHED,OUT",
        "API prices in USD per million tokens, for the break-even rate.",
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
    """Size the fleets that serve a request rate."""
    if file is not None:
        check_picture(file)
    asked = _api_prices(api)
    if rate is None and search.traffic is None:
        raise InvalidInput("fleet needs a request rate: --rate N, or --traffic FILE with arrival times")
    found = size_fleet(search.plan(model, chosen, rate))
    rates = found.break_even(*asked) if asked else None
    if file is not None:
        from ...plot import cost

        save_picture(file, lambda ax: cost(found, ax=ax))
    if as_json:
        return print_json(fleet_dict(found, rates))
    if as_csv:
        return print_csv(found.columns, found.rows())
    return print_text(*fleet_text(found, rates, full=full))


def _api_prices(text: str) -> tuple[float, ...]:
    """Prices of an API as typed: input, cached and output tokens, USD per million; empty if none are given."""
    if not text:
        return ()
    prices = quantities(text, "usd_per_hour")
    if not isinstance(prices, tuple) or len(prices) != API_PRICES or any(isinstance(each, str) for each in prices):
        raise InvalidInput(f"--api takes the prices of input, cached and output tokens, such as 0.3,0.03,1.2: {text!r}")
    return prices


API_PRICES = 3


def plan_dict(found: Plan, pools: PoolPlan | str | None = None) -> dict[str, Any]:
    """The question, the best candidate overall and per accelerator, the frontier and the pools, as plain JSON types."""
    best = found.best.rows()
    apart: dict[str, Any] = {}
    if isinstance(pools, str):
        apart = {"disaggregated": pools}
    elif pools is not None:
        apart = {"disaggregated": _pools_dict(pools)}
    return _asked(found) | {
        "candidates": len(found),
        "feasible": int(found.feasible.sum()),
        "best": best[0] if best else None,
        "by_accelerator": found.by_accelerator.rows(),
        "frontier": found.frontier.rows(),
        **apart,
        "assumptions": list(found.assumptions),
    }


def _pools_dict(found: PoolPlan) -> dict[str, Any]:
    best = found.best.rows()
    return {
        "best": best[0] if best else None,
        "by_accelerator": found.rows(),
        "assumptions": list(found.assumptions),
    }


def fleet_dict(found: Fleet, rates: Any = None) -> dict[str, Any]:
    """The question and one row per fleet in order of rank, with the rates at which an API costs as much."""
    asked = {"utilization": found.utilization}
    even = {} if rates is None else {"break_even_requests_per_s": plain(rates)}
    return _asked(found.plan) | asked | {"fleets": found.rows(), **even, "assumptions": list(found.assumptions)}


def _asked(found: Plan) -> dict[str, Any]:
    return {
        "model": found.model.name,
        "workload": load_dict(found.load),
        "slo": dict(found.slo.targets()),
        "statistic": found.slo.statistic,
        **({"requests_per_s": found.stream.requests_per_s, "most_load": found.most_load} if found.stream else {}),
        "time": found.time,
    }
