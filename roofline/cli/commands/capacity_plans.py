"""Commands about many deployments: ``plan`` and ``fleet``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ...capacity import Fleet, Plan
from ...capacity import fleet as size_fleet
from ...capacity import plan as make_plan
from ...capacity.launch import LAUNCHERS, launch_command
from ...errors import InvalidInput
from ...phases.workload import Workload
from ...progress import patient
from ...report import Rows
from ...specs.library import get_accelerator, get_hardware
from ...specs.prices import Price, get_price
from ...units import humanize
from .. import options as opt
from ..output import check_picture, print_csv, print_json, print_text, save_picture
from ..quantities import quantities, quantity
from ..target import read_model, read_slo
from ..technique_options import Chosen
from ..text import block, bullets, paragraph, shell_line, table

DEPLOYMENTS = ("accelerator", "precision", "gpus", "layout", "batch", "ttft_s", "tpot_s", "headroom")
YIELDS = (
    "accelerator",
    "precision",
    "tokens_per_s_per_gpu",
    "usd_per_million_input_tokens",
    "usd_per_million_output_tokens",
    "tokens_per_joule",
    "limit",
    "bound_by",
)
FLEETS = ("accelerator", "precision", "layout", "batch", "replicas", "gpus", "usd_per_hour", "gpus_at_floor")
HEADS = {
    "precision": "formats",
    "gpus": "GPUs",
    "ttft_s": "TTFT",
    "tpot_s": "TPOT",
    "tokens_per_s_per_gpu": "tok/s/GPU",
    "usd_per_million_input_tokens": "$/M in",
    "usd_per_million_output_tokens": "$/M out",
    "tokens_per_joule": "tok/J",
    "bound_by": "bound by",
    "total_s": "end to end",
    "gap_s": "longest gap",
    "tokens_per_s": "throughput",
    "usd_per_hour": "$/h",
    "gpus_at_floor": "GPUs, floor",
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


@Parameter(name="*")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Search:
    """What is searched, as typed."""

    hardware: Hardware
    load: opt.LengthFields = dataclasses.field(default_factory=dict)
    slo: opt.SLOFields = dataclasses.field(default_factory=dict)
    precisions: Precisions = ()
    formats: opt.KVFields = dataclasses.field(default_factory=dict)
    kernels: opt.KernelFields = dataclasses.field(default_factory=dict)
    gpus: Gpus = None
    prices: Prices = ()
    time: opt.Time = opt.DEFAULT_TIME

    def plan(self, model: str, chosen: Chosen | None) -> Plan:
        """The plan of the library, every candidate with these techniques."""
        techniques, hit_rate = (chosen or Chosen()).with_hit_rate()
        machines = [get_hardware(name) for name in self.hardware]
        counts = sorted({machine.count for machine in machines if machine.count > 1})
        gpus = self.gpus if self.gpus is not None else counts or (1, 2, 4, 8)
        return make_plan(
            read_model(model),
            [machine.accelerator for machine in machines],
            Workload(**self.load),
            slo=read_slo(self.slo),
            precisions=self.precisions,
            techniques=techniques,
            hit_rate=hit_rate,
            **self.formats,
            **self.kernels,
            accelerators=gpus if isinstance(gpus, Sequence) and not isinstance(gpus, str) else [gpus],
            prices=dict(_price(entry) for entry in self.prices),
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
    file: Annotated[Path | None, opt.PICTURE] = None,
    full: opt.Full = False,
    as_csv: opt.Csv = False,
    as_json: opt.Json = False,
) -> None:
    """The cheapest deployments that meet an SLO."""
    if file is not None:
        check_picture(file)
    found = search.plan(model, chosen)
    if file is not None:
        from ...plot import pareto

        save_picture(file, lambda ax: pareto(found, ax=ax))
    if as_json:
        return print_json(plan_dict(found))
    if as_csv:
        return print_csv(found.columns, found.rows())
    return print_text(*_plan_text(found, full=full))


Rate = Annotated[Any, opt.option("--rate", "N", "Requests that arrive per second.", parse=quantity, group=opt.WORKLOAD)]
Utilization = Annotated[
    Any,
    opt.option(
        "--utilization",
        "SHARE",
        "Target utilization (0-1]; below 1 leaves headroom for bursts.",
        parse=quantity,
        group=opt.TARGETS,
    ),
]


def fleet(
    model: opt.ModelName,
    /,
    search: Search,
    chosen: Chosen | None = None,
    *,
    rate: Rate,
    utilization: Utilization = 1,
    as_csv: opt.Csv = False,
    as_json: opt.Json = False,
) -> None:
    """The fleets that serve a rate of requests."""
    found = size_fleet(search.plan(model, chosen), requests_per_s=rate, utilization=utilization)
    if as_json:
        return print_json(fleet_dict(found))
    if as_csv:
        return print_csv(found.columns, found.rows())
    return print_text(*_fleet_text(found))


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


def fleet_dict(found: Fleet) -> dict[str, Any]:
    """What was asked, and a row a fleet, the cheapest first."""
    asked = {"requests_per_s": found.requests_per_s, "utilization": found.utilization}
    return _asked(found.plan) | asked | {"fleets": found.rows(), "assumptions": list(found.assumptions)}


def _asked(found: Plan) -> dict[str, Any]:
    return {
        "model": found.model.name,
        "workload": {"prompt_tokens": found.load.prompt_tokens, "output_tokens": found.load.output_tokens},
        "slo": dict(found.slo.targets()),
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
            block(f"Best of each accelerator and format, the cheapest first ({count})", _table(met, DEPLOYMENTS))
        )
        if full:
            parts.append(block("Throughput and cost", _table(met, YIELDS)))
    if len(rejected):
        words = zip(rejected.accelerator, rejected.precision, rejected.reason, strict=True)
        parts.append(block("Rejected (closest candidate of each kind)", table(words)))
    return [*parts, block("Notes", bullets(found.assumptions)), "" if full else MORE]


MORE = "\n--full shows throughput and cost of each, --csv every candidate."


def _launch(found: Plan) -> str:
    """How to start the best candidate."""
    best = found.best
    if not len(best):
        return ""
    serve, load = best.deployment(), best.workload()
    engines = tuple(LAUNCHERS) if serve.engine is None else (str(serve.engine),)
    lines = [shell_line(launch_command(serve, load, engine=engine)) for engine in engines]
    return block("Launch", "\n".join(lines))


def _fleet_text(found: Fleet) -> list[str]:
    """A line a fleet."""
    rate = f"{found.requests_per_s:g} requests/s at {found.utilization:.0%} target utilization"
    return [
        f"{_title(found.plan)}\n{paragraph(rate)}",
        f"\n{paragraph(found.summary())}",
        block("Fleets, the cheapest first; the floor is perfect software at full load", _table(found, FLEETS)),
        block("Notes", bullets(found.assumptions)),
    ]


def _slo(found: Plan) -> str:
    """The targets, as people write them."""
    return ", ".join(f"{HEADS.get(name, name)} {humanize(name, level)}" for name, level in found.slo.targets())


def _title(found: Plan) -> str:
    lengths = f"prompt {found.load.prompt_tokens:,}, output {found.load.output_tokens:,} tokens"
    slo = f"SLO: {_slo(found)}" if _slo(found) else "no SLO"
    name = found.model.title or found.model.name
    return paragraph(f"{name}: {lengths}; {slo}; time: {found.time.removesuffix('_s')}")


def _table(found: Rows, columns: Sequence[str]) -> str:
    head, *cells = found.cells(len(found), {name: HEADS.get(name, name) for name in columns})
    return table(cells, head=head, right=len(columns) - 2)
