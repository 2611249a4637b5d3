"""The command about priorities: ``advise``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from ...advisor import Advice
from ...advisor import advise as ask
from ...advisor.words import FLIPS, flips_of, headline_of, notes_of, reasons_of, tables_of, title_of
from ...phases.workload import Workload
from ...serving.trace import Trace
from ...serving.traffic import Traffic
from .. import options as opt
from ..answers import Answers, deployment_dict
from ..metric_names import slo_metric
from ..output import check_picture, print_json, print_text, save_picture
from ..quantities import as_tuple, quantities
from ..request_load import load_dict, read_requests
from ..target import Placement, read_model, read_slo
from ..technique_options import Chosen
from ..text import block, bullets, paragraph, table, without_basis
from .deployments import lead

TrafficFile = Annotated[
    Path | None,
    opt.option(
        "--traffic",
        "FILE",
        "Request log with prompt and output lengths, as CSV, JSON or JSON lines.",
        parse=Path,
        group=opt.WORKLOAD,
        show_default="every request as in --prompt and --output",
    ),
]
Loads = Annotated[
    Any,
    opt.option(
        ("--loads", "--batch"),
        "N,N,...",
        "Batch sizes for low, medium and high load.",
        parse=quantities,
        group=opt.WORKLOAD,
        show_default="1,8,64",
    ),
]
Metric = Annotated[
    str | None,
    opt.option(
        "--metric",
        "NAME",
        "Metric that techniques are ranked by: ttft, tpot, total, gap or throughput.",
        parse=slo_metric,
        group=opt.TARGETS,
        show_default="the target that is missed first, else total",
    ),
]
UsdPerHour = Annotated[
    Any,
    opt.option(
        "--usd-per-hour", "USD", "Price per accelerator-hour, for the cost per token.", parse=opt.usd, group=opt.OTHER
    ),
]


def advise(
    model: opt.ModelName,
    /,
    placement: Placement,
    chosen: Chosen | None = None,
    *,
    load: opt.RequestFields | None = None,
    slo: opt.SLOFields | None = None,
    traffic: TrafficFile = None,
    loads: Loads = (1, 8, 64),
    metric: Metric = None,
    usd_per_hour: UsdPerHour = None,
    time: opt.Time = opt.DEFAULT_TIME,
    file: Annotated[Path | None, opt.PICTURE] = None,
    full: opt.Full = False,
    as_json: opt.Json = False,
) -> None:
    """Advise which phase to optimize first, and with which technique."""
    if file is not None:
        check_picture(file)
    serve = placement.single().deployment(read_model(model))
    requests = read_requests(load or {}, traffic)
    techniques, hit_rate = (chosen or Chosen()).with_hit_rate()
    found = ask(
        serve,
        requests,
        read_slo(slo or {}),
        techniques=techniques,
        hit_rate=hit_rate,
        batches=as_tuple(loads),
        metric=metric,
        usd_per_hour=usd_per_hour,
        time=time,
    )
    if file is not None:
        from ...plot import phase_map

        save_picture(file, lambda ax: phase_map(found.phase_map, ax=ax))
    if as_json:
        return print_json(_asked(found, requests) | found.to_dict())
    return print_text(*_text(found, full=full))


def _asked(found: Advice, requests: Workload | Traffic | Trace) -> dict[str, Any]:
    """What was asked, defaults included."""
    if isinstance(requests, Workload):
        return Answers(found.serve, requests).asked()
    return deployment_dict(found.serve) | {"workload": load_dict(requests)}


def _text(found: Advice, *, full: bool) -> list[str]:
    """Print the verdict in sentences, then the ranking; with ``full``, every table."""
    tables = list(tables_of(found))
    shown = tables if full else [each for each in tables if each[1][0][1:2] == ["gain"]]
    parts = [lead(found.serve.model, found.summary())]
    parts.append("\n" + paragraph(f"{title_of(found)}; time: {found.time.removesuffix('_s')}"))
    if full:
        parts.append(block("Verdict", bullets([headline_of(found), *reasons_of(found)])))
    for heading, (head, *rows) in shown:
        right = 0 if head[1:2] == ["effort"] else len(head) - 1
        parts.append(block(heading, table(rows, head=head, right=right, fold_first=True)))
    if full:
        parts.append(block(FLIPS, bullets(flips_of(found))))
    said = found.summary()
    notes = [note for note in notes_of(found) if note.rstrip(".") not in said]
    notes = notes if full else without_basis(notes)
    return [*parts, block("Notes", bullets(notes)), "" if full else f"\n{paragraph(MORE)}"]


MORE = "--full shows where the verdict changes, every load and metric, and what each technique requires."
