"""The numbers of the page as plain JSON types, together with their formatted text."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..capacity.plan_sentences import dollars, price_words
from ..cli.answers import Answers
from ..cli.commands.requests import LATENCIES
from ..errors import InvalidInput, RooflineError, UnknownName
from ..phases.passes import TIMES, Phase, decode
from ..phases.workload import Workload
from ..report import plain
from ..serving.under_load import Served, serve
from ..specs.prices import Price, get_price, usd_per_million_tokens
from ..teaching import napkin
from ..units import OVERLOAD, bound_by, brief_time, humanize
from .snippets import command_lines, python_code
from .state import State

SIMULATED = 1_000
"""Requests that are simulated for a rate: enough for a 95th percentile, and fast."""

POINTS = 48
"""Batches of the curve."""

LEAST_RANGE, MOST_RANGE = 64, 4096
"""The curve ends between these batches."""

QUANTILES = (0.5, 0.95)
NO_PRICE = {"usd_per_hour": None, "price": "", "usd_per_million_tokens": None}

Array = npt.NDArray[np.float64]


def numbers(state: State) -> dict[str, Any]:
    """Return everything that the page shows for a state.

    Parameters
    ----------
    state : State
        The state of the controls.

    Returns
    -------
    dict
        Plain JSON types; times in seconds, sizes in bytes.
    """
    served = _served(state)
    found = Answers(state.serve, _load(state, served))
    able = not isinstance(served, str)
    return {
        "title": _title(found),
        "fits": bool(found.memory.fits),
        "headline": _headline(found, served, state),
        "sentences": list(_sentences(found, served)),
        "batch": plain(found.load.batch),
        "phases": [_phase(name, phase) for name, phase in (("prefill", found.prefill), ("decode step", found.decode))],
        "operators": {"decode step": _operators(found.decode), "prefill": _operators(found.prefill)},
        "memory": _memory(found),
        "curve": _curve(found),
        "queue": _queue(served, state),
        "cost": _cost(state, served),
        "napkin": {"decode step": _napkin(found.decode), "prefill": _napkin(found.prefill)},
        "notes": list(found.notes_of("parameters", "memory", "prefill", "decode")),
        "python": python_code(state, found.load, served=able),
        "cli": command_lines(state, found.load, served=able),
    }


def load_of(state: State) -> Workload:
    """The load with the batch that runs: the one of the controls, or the mean at the request rate."""
    if state.requests_per_s is not None:
        return _load(state, _served(state))
    return state.load


def _served(state: State) -> Served | str:
    """What users see, or the reason why nothing is served."""
    try:
        if state.requests_per_s is None:
            return serve(state.serve, state.load, concurrency=state.load.batch)
        return serve(state.serve, state.load, requests_per_s=state.requests_per_s, requests=SIMULATED)
    except InvalidInput as error:
        return str(error)


def _load(state: State, served: Served | str) -> Workload:
    if state.requests_per_s is None or isinstance(served, str):
        return state.load
    return dataclasses.replace(state.load, batch=max(round(float(served.running_batch)), 1))


def _title(found: Answers) -> str:
    model, gpu, layout = found.serve.model, found.serve.accelerator, found.serve.parallel
    spread = "" if layout.single else f", {layout}"
    return f"{model.title or model.name} on {gpu.title or gpu.name}{spread}"


def _headline(found: Answers, served: Served | str, state: State) -> str:
    """The answer in one sentence: what users see and what it costs, or why nothing is served."""
    if not found.memory.fits or isinstance(served, str):
        return found.memory.summary()
    if not served.stable:
        return served.summary()
    parts = [f"TTFT {brief_time(served.ttft_s)}", f"TPOT {brief_time(served.tpot_s)}"]
    parts.append(f"{served.tokens_per_s:,.0f} output tokens/s")
    each = _cost(state, served)["usd_per_million_tokens"]
    if each is not None:
        parts.append(f"{dollars(each)} per million")
    return f"{', '.join(parts)}; decode is {bound_by(found.decode.limit)}."


def _sentences(found: Answers, served: Served | str) -> Iterator[str]:
    yield found.memory.summary()
    yield served if isinstance(served, str) else served.summary()
    yield found.decode.summary()
    yield found.prefill.summary()


def _phase(name: str, phase: Phase) -> dict[str, Any]:
    times = {time: plain(getattr(phase, time)) for time in TIMES}
    shown = {time: brief_time(getattr(phase, time)) for time in TIMES}
    shown["estimate_s"] = brief_time(phase.estimate_s, phase.estimate_low_s, phase.estimate_high_s)
    intensity = plain(phase.intensity_flops_per_byte)
    return {
        "name": name,
        **times,
        "shown": shown,
        "limit": str(phase.limit),
        "intensity_flops_per_byte": intensity,
        "intensity": humanize("intensity_flops_per_byte", phase.intensity_flops_per_byte),
    }


def _operators(phase: Phase) -> list[dict[str, Any]]:
    """Operators grouped by name and limit, longest first, by the estimate."""
    sums: dict[tuple[str, str], float] = {}
    for item in phase.operators:
        key = (item.name, str(item.limit))
        sums[key] = sums.get(key, 0.0) + float(item.estimate_s)
    whole = sum(sums.values())
    rows = sorted(sums.items(), key=lambda row: -row[1])
    return [
        {"name": name, "limit": limit, "estimate_s": time, "shown": brief_time(time), "share": time / whole}
        for (name, limit), time in rows
        if time > 0
    ]


MEMORY_PARTS = ("weights", "KV cache", "state", "pages", "workspace", "reservation")


def _memory(found: Answers) -> dict[str, Any]:
    """Memory use of the most loaded accelerator."""
    memory = found.memory
    weights = sum(float(size) for name, size in memory.parts.items() if name.endswith("weights"))
    sizes = {"weights": weights} | {name: float(memory.parts[name]) for name in MEMORY_PARTS[1:]}
    device = float(found.serve.accelerator.memory_bytes)
    parts = [
        {
            "name": name,
            "bytes": size,
            "shown": humanize("bytes", size),
            "share": size / max(device, sum(sizes.values())),
        }
        for name, size in sizes.items()
        if size > 0
    ]
    return {
        "parts": parts,
        "device_bytes": device,
        "device": humanize("bytes", device),
        "device_share": device / max(device, sum(sizes.values())),
        "fits": bool(memory.fits),
        "max_batch": plain(memory.max_batch),
        "sentence": memory.summary(),
    }


def _curve(found: Answers) -> dict[str, Any]:
    """The three times of a decode step over the batch, with the interval of the estimate."""
    most = float(np.clip(2 * max(found.load.batch, float(found.memory.max_batch)), LEAST_RANGE, MOST_RANGE))
    batches = np.unique(np.round(np.geomspace(1, most, POINTS)))
    step = decode(found.serve, dataclasses.replace(found.load, batch=batches))
    names = (*TIMES, "estimate_low_s", "estimate_high_s")
    lines = {name: plain(np.broadcast_to(getattr(step, name), batches.shape)) for name in names}
    rate = np.broadcast_to(step.tokens_per_s_by("estimate_s"), batches.shape)
    return {
        "batch": plain(batches),
        **lines,
        "tokens_per_s": plain(rate),
        "max_batch": plain(found.memory.max_batch),
        "at": {"batch": plain(found.load.batch), "estimate_s": plain(found.decode.estimate_s)},
        "rows": [_curve_row(step, batches, at) for at in _shown(batches)],
    }


def _shown(batches: Array) -> list[int]:
    """Places of about eight batches for a table: the powers of two nearest to them."""
    powers = 2.0 ** np.arange(0, np.log2(batches[-1]) + 0.5, max(np.log2(batches[-1]) / 7, 1))
    return sorted({int(np.abs(np.log(batches / power)).argmin()) for power in powers})


def _curve_row(step: Phase, batches: Array, at: int) -> list[str]:
    times = [np.broadcast_to(getattr(step, name), batches.shape)[at] for name in TIMES]
    rate = np.broadcast_to(step.tokens_per_s_by("estimate_s"), batches.shape)[at]
    return [f"{batches[at]:,.0f}", *(brief_time(float(time)) for time in times), f"{rate:,.0f}"]


def _queue(served: Served | str, state: State) -> dict[str, Any]:
    """What users see under this load."""
    if isinstance(served, str):
        return {"sentence": served, "rows": [], "head": [], "utilization": None}
    shares = QUANTILES if served.simulations and served.stable else ()
    rows = []
    for name, words in LATENCIES.items():
        mean = float(getattr(served, name))
        if name in ("tpot_s", "gap_s") and not mean:
            continue  # requests of one output token have neither
        shown = brief_time(mean) if np.isfinite(mean) else OVERLOAD
        rows.append([words, shown, *(brief_time(served.quantile(name, share)) for share in shares)])
    return {
        "sentence": served.summary(),
        "head": ["time", "mean", *(f"p{100 * share:.0f}" for share in shares)],
        "rows": rows,
        "utilization": plain(served.utilization),
        "stable": bool(served.stable),
        "tokens_per_s": plain(served.tokens_per_s),
        "requests_per_s": plain(served.requests_per_s),
        "method": served.method,
        "notes": list(served.assumptions),
    }


def _cost(state: State, served: Served | str) -> dict[str, Any]:
    """Cost of the deployment per hour and per million output tokens."""
    try:
        price = get_price(state.serve.accelerator) if state.usd_per_hour is None else Price(state.usd_per_hour)
    except UnknownName:
        return {"sentence": f"No price for {state.serve.accelerator.name} is known; enter one."} | NO_PRICE
    count = float(state.serve.parallel.accelerators)
    hourly = price.usd_per_hour * count
    found: dict[str, Any] = {"usd_per_hour": hourly, "price": str(price), "usd_per_million_tokens": None}
    words = price_words(hourly)
    if isinstance(served, str) or not served.tokens_per_s > 0:
        return found | {"sentence": f"{words[0].upper()}{words[1:]}."}
    each = float(usd_per_million_tokens(hourly, served.tokens_per_s))
    sentence = f"{dollars(each)} per million output tokens, prompts included; {words}."
    return found | {"usd_per_million_tokens": each, "sentence": sentence}


def _napkin(phase: Phase) -> list[str]:
    """The derivation by mental arithmetic."""
    try:
        return [str(line) for line in napkin(phase).lines]
    except RooflineError as error:
        return [str(error)]
