"""Plans and fleets as text: the answer, the tables below it, and how to start the best candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...capacity import Fleet, Plan, PoolPlan
from ...capacity.basis import BORROWED, CALIBRATED, TYPICAL
from ...capacity.launch import OPTIONS_OF_POOLS, engines_on, launch_command, technique_notes
from ...capacity.plan_sentences import interval_words, latency_words, statistic_words
from ...report import Rows
from ...units import OVERLOAD, brief_time, humanize
from ..request_load import load_words
from ..text import KEPT_BLANK, block, bullets, paragraph, shell_line, table, without_basis
from .deployments import lead

DETAILS = ("accelerator", "precision", "engine", "basis", "batch", "headroom", "utilization", "limit", "bound_by")
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


def plan_text(found: Plan, pools: PoolPlan | str | None = None, *, full: bool) -> list[str]:
    """The answer, the best of every accelerator and precision, how to start the first, and separate pools beside it."""
    rows = found.by_accelerator
    met, rejected = rows.take(rows.feasible), rows.take(~rows.feasible)
    count = f"{len(found):,} candidates, {int(found.feasible.sum()):,} {'meet the SLO' if _slo(found) else 'fit'}"
    parts = [lead(found.model, found.summary()), f"\n{_title(found)}"]
    if len(met):
        parts.append(paragraph(f"Best of each accelerator and format, {_first(found)} first ({count})"))
        parts.append(_best_rows(met))
    parts.append(_launch(found))
    if pools is not None:
        parts.append(_side_by_side(found, pools, full=full))
    if len(met) and full:
        parts.append(_requests(met))
        parts.append(block("What limits them", _table(met, DETAILS)))
        parts.append(block("Throughput and cost", _table(met, YIELDS)))
        parts.append(block("Power and energy of one deployment at its full batch", _table(met, _known(met, ENERGY))))
    if len(rejected):
        words = zip(rejected.accelerator, rejected.precision, rejected.reason, strict=True)
        parts.append(block("Rejected (closest candidate of each kind)", table(words)))
    notes = [*_words_used(found.summary(), met), *_notes_of(found, full=full)]
    return [*parts, block("Notes", bullets(notes)), "" if full else f"\n{paragraph(MORE)}"]


def _best_rows(found: Plan, fleet: Fleet | None = None) -> str:
    """One line per row of a plan: hardware, size, price, and what users see."""
    columns: dict[str, list[str]] = {
        "accelerator": [str(name) for name in found.accelerator],
        "formats": [str(name) for name in found.precision],
    }
    gpus = np.asarray(found.gpus, dtype=float)
    if found.stream is None:
        columns["layout"] = ["1 GPU" if name == "one" else str(name) for name in found.layout]
        columns["batch"] = [f"{batch:,.0f}" for batch in found.batch]
        dollars, head = np.asarray(found.usd_per_million_output_tokens), "$/M out"
    else:
        pairs = zip(found.replicas, found.layout, strict=True)
        columns["deployments"] = [
            _times_layout(float(count), str(name)).replace(" ", KEPT_BLANK) for count, name in pairs
        ]
        gpus = gpus * found.replicas
        dollars, head = gpus * found.usd_per_hour, "$/h"
    columns["GPUs"] = [f"{count:,.0f}" for count in gpus]
    if fleet is not None:
        columns["floor"] = [f"{count:,.0f}" if np.isfinite(count) else "–" for count in fleet.gpus_at_floor]
    columns[head] = [_dollars(float(each)) for each in dollars]
    columns["TTFT"] = [brief_time(each) for each in found.ttft_s]
    columns["TPOT"] = [brief_time(each) for each in found.tpot_s]
    columns[""] = [_doubts(*pair) for pair in zip(found.basis, (fleet or found).tie, strict=True)]
    told = {name: cells for name, cells in columns.items() if any(cell not in ("", "–") for cell in cells)}
    if len(found) > 1 and len(set(columns["formats"])) == 1:
        del told["formats"]  # the answer above names it
    numbers = [at for at, name in enumerate(told) if name in ("batch", "GPUs", "floor", head, "TTFT", "TPOT")]
    return table(zip(*told.values(), strict=True), head=tuple(told), right=numbers).replace(KEPT_BLANK, " ")


def _doubts(basis: str, tie: bool) -> str:
    """The basis of an estimate that is not calibrated on its own accelerator, and ties with the first row."""
    return ", ".join(filter(None, ("" if basis == CALIBRATED else str(basis), "tie" if tie else "")))


WORDS_IN_TABLES = {
    BORROWED: "borrowed: estimates from timings of another accelerator of the family, another format or another engine",
    TYPICAL: "typical: no kernel timings; published shares of peak, or those typical of any accelerator",
}
"""What a basis in a table means."""


def _words_used(answer: str, rows: Plan | Fleet) -> list[str]:
    """What the words in an answer and its table mean."""
    used = [text for basis, text in WORDS_IN_TABLES.items() if basis in rows.basis]
    if np.any(rows.tie):
        used.append("tie: within the intervals of the estimates, as cheap as the first row")
    if OVERLOAD in answer:
        used.append(f"{OVERLOAD}: at that end of the interval, the queue grows without bound")
    return used


def _notes_of(found: Plan | Fleet, *, full: bool) -> list[str]:
    """Notes; notes about power only where power is shown."""
    if full:
        return list(found.assumptions)
    return [note for note in without_basis(found.assumptions) if not note.startswith(("power", "idle "))]


def _side_by_side(found: Plan, pools: PoolPlan | str, *, full: bool) -> str:
    """The best aggregated deployments next to the best disaggregated ones, for the same targets."""
    heading = "Aggregated and disaggregated side by side"
    if not isinstance(pools, str) and not len(found.best) and not len(pools.best) and not full:
        return ""  # neither way does it: the reasons below say why
    if isinstance(pools, str):
        return block(heading, paragraph(f"No separate pools for prefill and decode: {pools}", indent="  "))
    columns = [_aggregated_cells(found.best)] if len(found.best) else []
    columns += [_pool_cells(pools.best)] if len(pools.best) else []
    rows = [row for row in zip(COMPARED, *columns, strict=True) if any(cell not in ("", "–") for cell in row[1:])]
    heads = ("", *(["aggregated"] if len(found.best) else []), *(["disaggregated"] if len(pools.best) else []))
    parts = [paragraph(pools.summary()), f"\n{table(rows, head=heads)}" if columns else ""]
    if full:
        parts += [_pool_launch(pools.best), _every_pool(pools)]
    return block(heading, "\n".join(part for part in parts if part))


COMPARED = ("accelerator", "formats", "workers", "GPUs", "$/h", "tok/s/GPU", "TTFT", "TPOT")
"""Lines of both alternatives, side by side."""


def _aggregated_cells(best: Plan) -> tuple[str, ...]:
    several = 1.0 if best.stream is None else float(best.replicas[0])
    gpus = several * float(best.gpus[0])
    rate = float(best.tokens_per_s_per_gpu[0])
    if best.stream is not None:
        rate = float(best.load.output_tokens * best.stream.requests_per_s / gpus)
    return (
        str(best.accelerator[0]),
        str(best.precision[0]),
        _times_layout(several, str(best.layout[0])),
        f"{gpus:,.0f}",
        _dollars(gpus * float(best.usd_per_hour[0])),
        f"{rate:,.0f}",
        brief_time(best.ttft_s[0]),
        brief_time(best.tpot_s[0]),
    )


def _pool_cells(best: PoolPlan) -> tuple[str, ...]:
    return (
        str(best.accelerator[0]),
        str(best.precision[0]),
        _workers_of(best, 0),
        f"{best.gpus[0]:,.0f}",
        _dollars(float(best.usd_per_hour[0])),
        f"{best.tokens_per_s_per_gpu[0]:,.0f}",
        brief_time(best.ttft_s[0]),
        brief_time(best.tpot_s[0]),
    )


def _workers_of(pools: PoolPlan, at: int) -> str:
    """Workers of both pools: ``6 x PP 2 prefill, 1 x TP 4 decode``."""
    group = pools.groups[at]
    if group is None:
        return ""
    several = group.replicas if group.replicas > 1 else 1.0
    prefill = _times_layout(several * group.prefill_workers, str(pools.prefill_layout[at]))
    decode = _times_layout(several * group.decode_workers, str(pools.decode_layout[at]))
    return f"{prefill} prefill, {decode} decode"


def _times_layout(count: float, layout: str) -> str:
    each = "1 GPU" if layout == "one" else layout
    return each if each == "1 GPU" and count == 1 else f"{count:,.0f} x {each}"


def _pool_launch(best: PoolPlan) -> str:
    """Commands that launch a worker of each pool of the first row."""
    group = best.groups[0] if len(best) else None
    if group is None:
        return ""
    engines = [name for name in engines_on(group.decode.accelerator, group.decode.model) if name in OPTIONS_OF_POOLS]
    if group.decode.engine is not None:
        engines = [name for name in engines if name == str(group.decode.engine)]
    load = replace(best.plan.load, batch=int(group.batch))
    parts = []
    for pool, serve in (("prefill", group.prefill), ("decode", group.decode)):
        longest = best.plan.longest_tokens
        commands = [launch_command(serve, load, engine=engine, pool=pool, longest_tokens=longest) for engine in engines]
        lines = [shell_line(command) for command in commands]
        parts.append(block(f"Launch a {pool} worker", "\n".join(lines)))
    return "\n".join(parts)


def _every_pool(pools: PoolPlan) -> str:
    """The cheapest pools of every accelerator and precision, and the reasons why others have none."""
    names = list(zip(pools.accelerator, pools.precision, strict=True))
    found = [
        (*names[at], _workers_of(pools, int(at)), f"{pools.gpus[at]:,.0f}", _ratio(float(pools.cost_ratio[at])))
        for at in np.flatnonzero(pools.feasible)
    ]
    without = [(*names[at], str(pools.reason[at])) for at in np.flatnonzero(~pools.feasible)]
    every = table(found, head=("accelerator", "formats", "workers", "GPUs", "cost / aggregated"), right=2)
    return (f"\n{every}" if found else "") + block("No pools", table(without))


def _ratio(ratio: float) -> str:
    return "–" if np.isnan(ratio) else f"{ratio:.2f}"


def _dollars(usd: float) -> str:
    if not np.isfinite(usd):
        return "–"
    return f"{usd:,.2f}" if usd >= 1 else f"{usd:.3g}"


MORE = "--full shows intervals, throughput, cost and energy of each, --csv every candidate."


def _first(found: Plan) -> str:
    """What a list is sorted by, in words."""
    return "the least energy" if found.rank == "energy" else "the cheapest"


def _known(found: Rows, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that have any values."""
    return tuple(name for name in columns if not _unknown(getattr(found, name)))


def _unknown(column: Any) -> bool:
    return column.dtype.kind == "f" and bool(np.isnan(column).all())


def _launch(found: Plan) -> str:
    """The command that launches the best candidate."""
    best = found.best
    if not len(best):
        return ""
    serve, load = best.deployment(), best.workload()
    engines = engines_on(serve.accelerator, serve.model) if serve.engine is None else (str(serve.engine),)
    lines = []
    for engine in engines:
        command = launch_command(serve, load, engine=engine, longest_tokens=best.longest_tokens)
        lines.append(shell_line(command, technique_notes(found.techniques, engine)))
    return block("Launch", "\n".join(lines))


def fleet_text(found: Fleet, rates: Any, *, full: bool) -> list[str]:
    """The answer, one line per fleet, and the command that launches the first one."""
    parts = [
        lead(found.plan.model, found.summary()),
        f"\n{_title(found.plan)}",
        paragraph(f"Fleets, {_first(found.plan)} first; the floor is perfect software at full load"),
        _best_rows(found.plan, found),
        _launch(found.plan),
    ]
    if full:
        parts.append(_requests(found))
        parts.append(block("Accelerators at both ends of the interval, and its basis", _table(found, SURE)))
        parts.append(block("Cost and energy", _table(found, _known(found, COSTS))))
    if rates is not None:
        words = [_break_even(each) for each in rates]
        rows = zip(found.accelerator, found.precision, words, strict=True)
        parts.append(block("As cheap as the API from", table(rows)))
    notes = [*_words_used(found.summary(), found), *_notes_of(found, full=full)]
    return [*parts, block("Notes", bullets(notes)), "" if full else f"\n{paragraph(MORE_OF_FLEETS)}"]


MORE_OF_FLEETS = "--full shows intervals, cost and energy of each, --csv every column."


def _break_even(rate: float) -> str:
    """The request rate from which a fleet costs no more than an API, in words."""
    if np.isnan(rate):
        return "no price given; use --prices"
    return humanize("requests_per_s", rate) if np.isfinite(rate) else "more requests than the fleet can serve"


def _slo(found: Plan) -> str:
    """The targets, as people write them."""
    return ", ".join(f"{HEADS.get(name, name)} {humanize(name, level)}" for name, level in found.slo.targets())


def _title(found: Plan) -> str:
    lengths = load_words(found.load)
    slo = f"SLO: {_slo(found)}" if _slo(found) else "no SLO"
    if found.stream is not None:
        lengths = f"{found.stream.requests_per_s:.4g} requests/s, {lengths}"
        slo += f" ({found.slo.statistic})" * bool(_slo(found))
    name = found.model.title or found.model.name
    return paragraph(f"{name}: {lengths}; {slo}; time: {latency_words(found.time)}")


def _requests(found: Plan | Fleet) -> str:
    """Latencies of requests with their intervals, one line per row."""
    plan = found.plan if isinstance(found, Fleet) else found
    rows = []
    for at in range(len(found)):
        times = []
        for name in ("ttft", "tpot"):
            middle, low, high = (float(getattr(found, f"{name}{end}_s")[at]) for end in ("", "_low", "_high"))
            times.append(interval_words(middle, low, high) if low < high else brief_time(middle))
        by = [str(found.queue[at])] if plan.stream else []
        rows.append((str(found.accelerator[at]), str(found.precision[at]), *times, *by))
    whose = f"At {statistic_words(plan.slo.statistic)} of requests that queue"
    if plan.stream is None:
        whose = "Mean of requests, the batch always full"
    heads = ("accelerator", "formats", "TTFT", "TPOT", *(["by"] if plan.stream else []))
    return block(f"{whose}, with 80% intervals", table(rows, head=heads))


def _table(found: Rows, columns: Sequence[str]) -> str:
    head, *cells = found.cells(len(found), {name: HEADS.get(name, name) for name in columns})
    return table(cells, head=head, right=[at for at, name in enumerate(columns) if name not in WORDS])


WORDS = ("accelerator", "precision", "layout", "basis", "engine", "limit", "bound_by", "tie")
"""Columns of words, which are left-aligned."""
