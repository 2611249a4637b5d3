"""Plans and fleets: asked of the library, and shown."""

import csv
import sys
import time as clock
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from ..capacity import Fleet, Plan, plan
from ..errors import InvalidInput
from ..phases.workload import Workload
from ..report import Rows
from ..serving.slo import SLO
from ..specs.library import get_accelerator
from ..specs.prices import Price, get_price
from . import options as opt
from .screen import grid, heading, notes

PATIENCE_S = 1.0
"""A search that takes longer shows how far it is."""

DEPLOYMENTS = ("accelerator", "precision", "gpus", "layout", "batch", "ttft_s", "tpot_s", "headroom")
GIVES = (
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
    "usd_per_hour": "$/h",
    "gpus_at_floor": "GPUs, floor",
}


def planned(
    *,
    model: str,
    hardware: list[str],
    load: Workload,
    promises: SLO,
    precisions: str | None,
    gpus: str,
    prices: str | None,
    time: str,
) -> Plan:
    """The plan that the options describe."""
    return plan(
        model,
        [get_accelerator(name) for name in _listed(",".join(hardware))],
        load,
        slo=promises,
        precisions=_listed(precisions or ""),
        accelerators=[opt.numeral(count) for count in _listed(gpus)],
        prices=dict(_price(entry) for entry in _listed(prices or "")),
        time=time,
        progress=patient,
    )


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _price(entry: str) -> tuple[str, float | Price]:
    """``h100-sxm=2.5``, or a name alone for the price that is listed."""
    name, given, usd = entry.partition("=")
    gpu = get_accelerator(name).name
    if not given:
        return gpu, get_price(gpu)
    value = opt.numeral(usd)
    if isinstance(value, str):
        raise InvalidInput(f"a price is a number of USD an hour: {entry!r}")
    return gpu, value


def patient(cases: list[Any]) -> Iterator[Any]:
    """The cases one by one; past a second a terminal sees how far it is."""
    start, console = clock.monotonic(), Console(stderr=True)
    for place, case in enumerate(cases):
        if console.is_terminal and clock.monotonic() - start > PATIENCE_S:
            done = int(24 * place / len(cases))
            console.print(f"[{'#' * done}{'.' * (24 - done)}] {place} of {len(cases)}", end="\r", markup=False)
        yield case
    if console.is_terminal:
        console.print(" " * 40, end="\r")


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


def print_csv(found: Rows) -> None:
    """Every row, the names of the columns first; nothing for what is not known."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(found.columns)
    writer.writerows(row.values() for row in found.rows())


def plan_view(found: Plan) -> list[RenderableType]:
    """The best of every accelerator and precision, and why others won't do."""
    rows = found.by_accelerator
    held, broken = rows.take(rows.feasible), rows.take(~rows.feasible)
    count = f"{len(found):,} candidates, {int(found.feasible.sum()):,} hold the service levels"
    parts: list[RenderableType] = [*_title(found), grid([("tried", count)])]
    if len(held):
        parts += [heading("Deployments", "the cheapest first"), _table(held, DEPLOYMENTS)]
        parts += [heading("What they give"), _table(held, GIVES)]
    if len(broken):
        words = zip(broken.accelerator, broken.precision, broken.reason, strict=True)
        parts += [heading("What won't do", "the nearest of each"), grid(words)]
    return [*parts, *_notes(found.assumptions)]


def fleet_view(found: Fleet) -> list[RenderableType]:
    """A line a fleet."""
    rate = f"{found.requests_per_s:g} requests/s, deployments loaded to {found.utilization:.0%}"
    return [
        *_title(found.plan),
        grid([("traffic", rate)]),
        heading("Fleets", "the cheapest first; the floor is perfect software, fully loaded"),
        _table(found, FLEETS),
        *_notes(found.assumptions),
    ]


def _title(found: Plan) -> list[RenderableType]:
    levels = ", ".join(f"{name.removesuffix('_s').upper()} {level * 1e3:g} ms" for name, level in found.slo.targets())
    rows = [
        ("requests", f"prompt {found.load.prompt_tokens:,}, output {found.load.output_tokens:,} tokens"),
        ("promised", f"{levels or 'nothing'}, by {found.time.removesuffix('_s')}"),
    ]
    return [Text(found.model.title or found.model.name, style="bold"), grid(rows)]


def _table(found: Rows, columns: Sequence[str]) -> RenderableType:
    head, *cells = found.cells(len(found), {name: HEADS.get(name, name) for name in columns})
    return grid(cells, head=head, right=len(columns) - 2)


def _notes(lines: Iterable[str]) -> list[RenderableType]:
    found = list(lines)
    return [heading("Notes"), notes(found)] if found else []


def draw(found: Plan, file: Path) -> None:
    """`roofline.plot.pareto` into ``file``."""
    from .picture import checked, save_pareto

    save_pareto(checked(file), found)
