"""The command about measured runs: ``headroom``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter

from ...measured import Headroom, KernelHeadroom, headroom_of_file
from ...measured.kernel_headroom import PHASES
from ...measured.shares import PhaseHeadroom
from ...phases.workload import Workload
from ...specs.library import list_models
from ...units import brief_time
from .. import options as opt
from ..answers import deployment_dict
from ..output import check_picture, print_json, print_text, save_picture
from ..quantities import quantity
from ..target import Placement, read_model
from ..text import block, bullets, paragraph, table
from .deployments import title_of

ResultFile = Annotated[
    Path,
    Parameter(name="FILE", help="Result file of a benchmark or profiler; the format is detected from its content."),
]
Model = Annotated[
    str,
    opt.option(
        "--model",
        "MODEL",
        "Model that ran: a name, or the path of a spec, a config.json or its directory.",
        group=opt.LAYOUT,
        completer=opt.completed_by(list_models),
    ),
]
PhaseName = Annotated[
    str,
    opt.option(
        "--phase",
        "NAME",
        "For a kernel profile: whether it is of prefill or decode.",
        group=opt.OTHER,
        completer=opt.completed_by(lambda: PHASES),
    ),
]
Steps = Annotated[
    Any,
    opt.option(
        "--steps",
        "N",
        "For a kernel profile: number of passes that it covers.",
        parse=quantity,
        group=opt.OTHER,
        show_default="from the number of attention kernels",
    ),
]

HEAD = ("", "measured", "floor", "roofline", "estimate")
FIGURES = ("MFU", "MBU", "limit")

TimeCompared = Annotated[
    str,
    opt.time_option("Which time the measured one is compared with: floor, roofline or estimate."),
]


def headroom(
    file: ResultFile,
    /,
    placement: Placement,
    load: opt.WorkloadFields | None = None,
    *,
    model: Model,
    phase: PhaseName = "decode",
    steps: Steps = None,
    time: TimeCompared = "floor_s",
    picture: Annotated[Path | None, opt.PICTURE] = None,
    full: opt.Full = False,
    as_json: opt.Json = False,
) -> None:
    """Compare a measured run with the floor, the roofline and the estimate."""
    deployment = placement.single().deployment(read_model(model))
    lengths = Workload(**load) if load else None
    if picture is not None:
        check_picture(picture)
    found = headroom_of_file(file, deployment, load=lengths, phase=phase, steps=steps)
    if picture is not None:
        _draw(picture, found)
    if as_json:
        return print_json(deployment_dict(deployment) | {"results": [_as_dict(each) for each in found]})
    heading = title_of(deployment, time=time)
    if len(found) > 1 and not full:
        return print_text(heading, *_runs(found, time))
    parts = [heading, ""]
    for each in found:
        parts += _kernels(each) if isinstance(each, KernelHeadroom) else _run(each, time, full=full)
    return print_text(*parts)


def _draw(picture: Path, found: Sequence[Headroom | KernelHeadroom]) -> None:
    """Draw the measured runs under the roofline; for a profile, the pass that it is compared with."""
    from ...plot import roofline

    shown = [each.phase if isinstance(each, KernelHeadroom) else each for each in found]
    accelerator = (found[0].phase if isinstance(found[0], KernelHeadroom) else found[0]).deployment.accelerator
    save_picture(picture, lambda ax: roofline(accelerator, *shown, ax=ax))


def _as_dict(found: Headroom | KernelHeadroom) -> dict[str, Any]:
    if isinstance(found, Headroom):
        return found.to_dict()
    named = {"tool": found.profile.tool, "source": found.profile.source, "phase": found.phase.name}
    return named | {"steps": found.steps} | found.to_dict() | {"assumptions": list(found.assumptions)}


def _of(time: str) -> str:
    """Head of the column of shares of one of the three times."""
    return f"of {time.removesuffix('_s')}"


def _run(found: Headroom, time: str, *, full: bool) -> list[str]:
    """One sentence per phase, then the times; with ``full``, also what the time above the floor consists of."""
    rows, gaps = [], []
    for row in found.phases:
        times = [brief_time(each) for each in (row.measured_s, row.floor_s, row.roofline_s, row.estimate_s)]
        shares = [f"{share:.0%}" for share in (row.share_of(time), row.mfu, row.mbu)]
        rows.append((row.name, *times, *shares, row.limit))
        gaps.append((row.name, *map(brief_time, row.gaps_s.values())))
    head = ("", *found.phases[0].gaps_s)
    measurement = found.measurement
    return [
        f"\n{paragraph(f'{measurement.source} ({measurement.tool})')}",
        *(paragraph(_sentence(row, time)) for row in found.phases),
        f"\n{table(rows, head=(*HEAD, _of(time), *FIGURES), right=range(1, 8))}",
        block("Time above the floor", table(gaps, head=head, right=len(head) - 1)) if full else "",
        *_reasons(found),
        block("Notes", bullets(_notes(found))),
    ]


def _sentence(row: PhaseHeadroom, time: str) -> str:
    words = row.sentence_against(time)
    return f"{words[0].upper()}{words[1:]}."


def _reasons(found: Headroom) -> Iterator[str]:
    for row in found.phases:
        if row.reasons:
            yield block(f"Why {row.name} may beat its floor, most likely reason first", bullets(row.reasons))


def _notes(found: Headroom) -> list[str]:
    """What is compared with what, and what the reader of the file corrected or questions."""
    compared = [f"{row.name}: {row.basis}" for row in found.phases]
    return [*compared, *found.notes, *found.measurement.assumptions]


def _kernels(found: KernelHeadroom) -> list[str]:
    """The kernels of a profile by kind of operator, longest first."""
    measured, roof = np.asarray(found.measured_s), np.asarray(found.roofline_s)
    lead = f"{brief_time(float(measured.sum()))} of kernels in a pass, {brief_time(float(roof.sum()))} at the roofline"
    to_win = np.where(roof > 0, measured - roof, 0.0)
    if to_win.max() > 0:
        lead += f"; most of the possible gain is in {found.kind[to_win.argmax()]}"
    rows = [_kind_row(found, int(at)) for at in np.argsort(-measured, kind="stable")]
    head = ("kind", "calls", "measured", "roofline", "estimate", "of roof", "MFU", "MBU", "limit")
    return [
        f"\n{paragraph(f'{found.profile.source} ({found.profile.tool}), {found.phase.name}')}",
        paragraph(f"{lead}."),
        f"\n{table(rows, head=head, right=range(1, 8))}",
        block("Notes", bullets(found.assumptions)),
    ]


def _kind_row(found: KernelHeadroom, at: int) -> tuple[str, ...]:
    times = (found.measured_s, found.roofline_s, found.estimate_s)
    shares = (found.share_of_roofline, found.mfu, found.mbu)
    return (
        str(found.kind[at]),
        f"{found.calls[at]:g}",
        *(brief_time(float(column[at])) if column[at] else "-" for column in times),
        *(f"{column[at]:.0%}" if column[at] > 0 else "-" for column in shares),
        str(found.limit[at]),
    )


def _runs(found: Sequence[Headroom | KernelHeadroom], time: str) -> list[str]:
    """A row for each phase of each of several runs."""
    rows = []
    for at, run in enumerate(found, 1):
        if isinstance(run, KernelHeadroom):
            continue
        for row in run.phases:
            times = (row.measured_s, row.floor_s, row.estimate_s)
            shares = (row.share_of(time), row.mfu, row.mbu)
            cells = (*(brief_time(each) for each in times), *(f"{share:.0%}" for share in shares))
            rows.append((f"{at}", row.name, *cells, row.limit))
    runs = [run for run in found if isinstance(run, Headroom)]
    sources = [(f"{at}", _asked(run)) for at, run in enumerate(runs, 1)]
    beaten = [f"{at} ({row.name})" for at, run in enumerate(runs, 1) for row in run.phases if row.beats_floor]
    lead = f"{len(runs)} runs in {runs[0].measurement.source.split(',')[0]} ({runs[0].measurement.tool}). "
    lead += f"Faster than the floor: run {', '.join(beaten)}; --full says why." if beaten else _best(runs)
    head = ("run", "phase", "measured", "floor", "estimate", _of(time), *FIGURES)
    return [
        f"\n{paragraph(lead)}\n",
        table(rows, head=head, right={0, *range(2, 8)}),
        block("Runs", table(sources, right={0})),
        "\n--full shows each run with its notes.",
    ]


def _asked(run: Headroom) -> str:
    """The settings of a run that its file states."""
    measured = run.measurement
    named = {
        "batch": measured.batch,
        "concurrency": measured.concurrency,
        "requests/s": measured.request_rate,
        "prompt": measured.prompt_tokens,
        "output": measured.output_tokens,
        "context": measured.context_tokens,
    }
    return f"{measured.kind}: " + ", ".join(f"{name} {given:,.6g}" for name, given in named.items() if given)


def _best(runs: Sequence[Headroom]) -> str:
    """The phase that comes closest to its floor."""
    rows = [(row.share_of_floor, at, row) for at, run in enumerate(runs, 1) for row in run.phases]
    share, at, row = max(rows, key=lambda each: each[0])
    return f"Closest to its floor: run {at}, {row.name} at {share:.0%} of what {row.limit} allows."
