"""Curves over one input of a sweep: time or throughput of a pass, or metrics of a server under load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from ..errors import InvalidInput, unknown
from ..measured import Measurement
from ..measured.operating_points import operating_point
from ..phases.passes import TIMES, Phase
from ..serving.methods import method_words
from ..serving.metrics import METRICS
from ..serving.under_load import Served
from ..units import quantity_of
from .fit_stamp import DOES_NOT_FIT, memory_of
from .frame import axes_or_new, head, label_axes, legend_below
from .style import Style, style_of
from .ticks import log_axis, log_limits
from .tracks import deployment_facets, deployment_words, tell_apart

Array = npt.NDArray[np.float64]
Given = Mapping[float, float] | Sequence[Measurement]
"""Measured values by the swept input, or benchmark runs."""

INPUTS = {
    "sequences": "batch, sequences",
    "new_tokens": "new tokens per sequence",
    "past_tokens": "context, tokens in the cache",
}
"""Inputs that a sweep of a pass may vary (fields of its segment), and their axis labels."""

LOADS = {"asked_concurrency": "requests in the system", "asked_requests_per_s": "requests/s"}
"""Inputs that a sweep of a server may vary, and their axis labels."""

DASHES = {"floor_s": ":", "roofline_s": "--", "estimate_s": "-"}

WORDS = {
    **{name: METRICS[name].words for name in ("ttft_s", "tpot_s", "total_s", "gap_s")},
    "queue_s": "time in the queue",
    "tokens_per_s": "output tokens/s",
    "requests_per_s": "finished requests/s",
    "running_batch": "running requests",
    "utilization": "utilization",
    "prefill_share": "share of the time in prefill",
}
"""Metrics of a server that a curve may show."""

ALIKE = 1.1
"""A measured point belongs to the sweep if its other inputs are within this factor of the sweep's."""


class Curve(NamedTuple):
    """A line: its time, its values, the ends of its interval if it has one, and the deployment if there are several."""

    time: str
    values: Array
    low: Array | None = None
    high: Array | None = None
    name: str = ""


def curves(
    *found: Phase | Served, column: str | None = None, measured: Given | None = None, ax: Axes | None = None
) -> Axes:
    """Plot a metric over the swept input, for each of the three times, with measured points on top.

    For a pass, the curves are floor, roofline and estimate over batch, context or new tokens. For a server
    (`roofline.serve`), they are metrics over concurrency or request rate, one line per result. A hatched area marks
    points that do not fit in memory and rates above capacity.

    Parameters
    ----------
    *found : Phase or Served
        One pass with a sweep over one input, or one or several results of `roofline.serve` for the same loads, such as
        one for each of the three times or each of several deployments.
    column : str, optional
        For a pass, ``time`` (if None) or ``tokens_per_s``. For a server, a column such as ``tpot_s`` (if None),
        ``ttft_s``, ``total_s``, ``queue_s`` or ``tokens_per_s``.
    measured : mapping of float to float, or sequence of Measurement, optional
        Measured values in base units by the swept input, such as seconds by batch; or runs that
        `roofline.measured.read` returns, which are drawn at their own batch, lengths or load. Runs whose other inputs
        differ from those of the sweep have open markers.
    ax : Axes, optional
        Where to draw; a new 6 x 4 inch figure if None.

    Returns
    -------
    Axes
        The axes, both logarithmic; times are in milliseconds.

    Raises
    ------
    InvalidInput
        There is nothing to draw, a single point, or a sweep over several inputs.
    UnknownName
        There is no such column.

    Examples
    --------
    >>> import numpy as np, roofline as rl
    >>> serve = rl.Deployment("llama-3.1-8b", "h100-sxm")
    >>> step = rl.decode(serve, rl.Workload(batch=np.arange(1, 129)), context_tokens=2048)
    >>> ax = rl.plot.curves(step, measured={1: 6.9e-3, 64: 9.8e-3})
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('batch, sequences', 'time per step, ms')
    >>> users = rl.serve(serve, rl.Workload(1500, 300), concurrency=[1, 8, 64])
    >>> rl.plot.curves(users, column="ttft_s").get_ylabel()
    'time to first token, ms'
    >>> import matplotlib.pyplot as plt
    >>> plt.close("all")
    """
    if not found:
        raise InvalidInput("curves needs a pass or a result of rl.serve")
    first, *others = found
    if isinstance(first, Phase):
        if others:
            raise InvalidInput(f"curves shows a single pass, but {len(found)} were given")
        return _curves_of_pass(first, column or "time", measured, ax)
    servers = [each for each in found if isinstance(each, Served)]
    if len(servers) < len(found):
        raise InvalidInput("curves shows either one pass or results of rl.serve, not both")
    return _curves_of_servers(servers, column or "tpot_s", measured, ax)


def _curves_of_pass(phase: Phase, column: str, measured: Given | None, ax: Axes | None) -> Axes:
    """The three times of a pass, or its throughput at each of them."""
    if column not in ("time", "tokens_per_s"):
        raise unknown("column of a pass", column, ("time", "tokens_per_s"))
    field, inputs = swept_input(phase)
    tokens = np.asarray(phase.tokens, float) if column == "tokens_per_s" else None
    ends = (_figure(phase.estimate_low_s, tokens), _figure(phase.estimate_high_s, tokens))
    lines = [Curve(time, _figure(getattr(phase, time), tokens)) for time in TIMES]
    lines[-1] = Curve("estimate_s", lines[-1].values, *ends)
    points = _points_of_pass(phase, field, tokens is not None, measured)
    ax = axes_or_new(ax)
    ylabel = "tokens/s of the deployment"
    if tokens is None:
        ylabel = "time per step, ms" if phase.name == "decode" else f"{phase.name} time, ms"
    fits = np.broadcast_to(np.asarray(memory_of(phase).fits), inputs.shape)
    _draw(ax, inputs, lines, points, labels=(INPUTS[field], ylabel), off=(~fits, DOES_NOT_FIT))
    subject = "time" if tokens is None else "throughput"
    head(ax, f"{phase.name.capitalize()} {subject}", deployment_words(phase.deployment))
    return ax


def _figure(seconds: Any, tokens: Array | None) -> Array:
    """Milliseconds, or tokens per second."""
    if tokens is None:
        return 1e3 * np.asarray(seconds, float)
    rate: Array = tokens / np.asarray(seconds, float)
    return rate


def _points_of_pass(phase: Phase, field: str, rate: bool, measured: Given | None) -> list[tuple[float, float, bool]]:
    """Position and value of every measured point, and whether its other inputs match the sweep."""
    if measured is None:
        return []
    if isinstance(measured, Mapping):
        return [(float(place), value if rate else 1e3 * value, True) for place, value in measured.items()]
    (segment,) = phase.segments
    points = []
    for run in measured:
        at = operating_point(run, phase.name) if isinstance(run, Measurement) else None
        if at is None:
            continue
        others = [name for name in INPUTS if name != field]
        alike = all(_alike(getattr(at, name), getattr(segment, name)) for name in others)
        value = at.sequences * at.new_tokens / at.seconds if rate else 1e3 * at.seconds
        points.append((getattr(at, field), value, alike))
    return points


def _alike(one: float, other: Any) -> bool:
    low, high = sorted((max(one, 1.0), max(float(np.mean(other)), 1.0)))
    return high <= ALIKE * low


def _curves_of_servers(found: Sequence[Served], column: str, measured: Given | None, ax: Axes | None) -> Axes:
    """A metric of each result over the loads."""
    if column not in WORDS:
        raise unknown("column of a server", column, WORDS)
    field, loads = swept_load(found[0])
    if any(not np.array_equal(loads, swept_load(each)[1]) for each in found[1:]):
        raise InvalidInput("curves needs results for the same loads")
    scale = 1e3 if quantity_of(column) == "s" else 1.0
    shared, names = _names_of_servers(found)
    lines = []
    for each, name in zip(found, names, strict=True):
        band = each.time == "estimate_s" and not each.simulations
        ends = [scale * np.asarray(getattr(end, column), float) for end in (each.low, each.high)] if band else []
        low, high = ends or (None, None)
        lines.append(Curve(each.time, scale * np.asarray(getattr(each, column), float), low, high, name))
    stable = np.any([np.broadcast_to(np.asarray(each.stable), loads.shape) for each in found], axis=0)
    points = _points_of_server(field, column, scale, measured)
    ax = axes_or_new(ax)
    ylabel = f"{WORDS[column]}, ms" if scale > 1 else WORDS[column]
    off = (~stable, "above capacity" if len(found) == 1 or not any(names) else "all above capacity")
    _draw(ax, loads, lines, points, labels=(LOADS[field], ylabel), off=off)
    methods = " and ".join(dict.fromkeys(method_words(each.method) for each in found))
    head(ax, f"{WORDS[column][0].upper()}{WORDS[column][1:]}", ", ".join(filter(None, (shared, methods))))
    return ax


def _names_of_servers(found: Sequence[Served]) -> tuple[str, list[str]]:
    """What all servers have in common, and a name for each; empty names if they differ only in the time."""
    serve = found[0].deployment
    if all(each.deployment == serve for each in found) and len({each.time for each in found}) == len(found):
        where = deployment_words(serve)
        return where, [""] * len(found)
    shared, words = tell_apart(
        [deployment_facets(each.deployment) | {"time": each.time.removesuffix("_s")} for each in found]
    )
    return shared, [", ".join(each) for each in words]


def _points_of_server(field: str, column: str, scale: float, measured: Given | None) -> list[tuple[float, float, bool]]:
    """Position and value of every measured point."""
    if measured is None:
        return []
    if isinstance(measured, Mapping):
        return [(float(place), scale * value, True) for place, value in measured.items()]
    load = "concurrency" if field == "asked_concurrency" else "request_rate"
    pairs = [(getattr(run, load, None), getattr(run, column, None)) for run in measured]
    return [(float(place), scale * float(value), True) for place, value in pairs if place and value is not None]


def swept_input(phase: Phase) -> tuple[str, Array]:
    """Field and values of the one input that a pass varies.

    Raises
    ------
    InvalidInput
        The pass varies no input, several inputs, or hardware.
    """
    (segment, *others) = phase.segments
    varied = {field: values for field in INPUTS if np.size(values := getattr(segment, field)) > 1}
    if others or len(varied) != 1:
        found = " and ".join(INPUTS[field] for field in varied) or "none"
        raise InvalidInput(
            f"curves needs a sweep over one input of a single group of sequences; this phase varies {found}"
        )
    ((field, values),) = varied.items()
    if np.ndim(phase.roofline_s) != 1:
        raise InvalidInput(f"curves needs a one-dimensional sweep; this one has {np.ndim(phase.roofline_s)} dimensions")
    return field, np.asarray(values, float).ravel()


def swept_load(found: Served) -> tuple[str, Array]:
    """Column and values of the loads.

    Raises
    ------
    InvalidInput
        There is only one load.
    """
    for field in LOADS:
        values = getattr(found, field)
        if values is not None and np.ndim(values) == 1 and np.size(values) > 1:
            return field, np.asarray(values, float)
    raise InvalidInput("curves needs several loads in one dimension, as in rl.serve(..., concurrency=[1, 8, 64])")


def time_look(style: Style, time: str) -> tuple[str, str]:
    """Color and dashes of one of the three times."""
    colors = {"floor_s": style.quiet, "roofline_s": style.line(0)[0], "estimate_s": style.line(1)[0]}
    return colors[time], DASHES[time]


def _draw(
    ax: Axes,
    inputs: Array,
    lines: Sequence[Curve],
    points: Sequence[tuple[float, float, bool]],
    *,
    labels: tuple[str, str],
    off: tuple[npt.NDArray[np.bool_], str],
) -> None:
    """Draw lines with their intervals, measured points, the hatched area, and a legend."""
    style = style_of(ax)
    handles: list[Artist] = []
    for place, line in enumerate(lines):
        shown = np.where(np.isfinite(line.values), line.values, np.nan)
        how: dict[str, Any] = {"linewidth": 1.6, "zorder": 3 + place / 10}
        if line.name:
            color, marker = style.line(place)
            how |= {"marker": marker, "ms": 4, "linestyle": "-", "label": line.name}
        else:
            color, dashes = time_look(style, line.time)
            name = line.time.removesuffix("_s")
            how |= {"linestyle": dashes, "label": name if line.low is None else f"{name} with 80 % interval"}
        handles += ax.plot(inputs, shown, color=color, **how)
        if line.low is not None and line.high is not None:
            low, high = (np.where(np.isfinite(end), end, np.nan) for end in (line.low, line.high))
            ax.fill_between(inputs, low, high, color=color, alpha=0.18, linewidth=0)
    for alike, name, face in ((True, "measured", style.ink), (False, "measured, other lengths or batch", style.paper)):
        own = [(x, y) for x, y, is_alike in points if is_alike is alike]
        if own:
            how = {"markerfacecolor": face, "markeredgecolor": style.ink, "linestyle": ""}
            handles += ax.plot(*zip(*own, strict=True), marker="o", ms=4.5, label=name, zorder=5, **how)
    every = [value for line in lines for value in (line.values, line.low, line.high) if value is not None]
    x, y = [point[0] for point in points], [point[1] for point in points]
    ax.set(xscale="log", yscale="log", xlim=log_limits(inputs, x, room=0.02), ylim=log_limits(*every, y))
    label_axes(ax, *labels)
    log_axis(ax.xaxis)
    log_axis(ax.yaxis)
    handles += _shade(ax, inputs, *off)
    legend_below(ax, handles, short=[str(each.get_label()) for each in handles])


def _shade(ax: Axes, inputs: Array, off: npt.NDArray[np.bool_], words: str) -> list[Patch]:
    """Hatch the area beyond the last feasible point; return its handle for the legend."""
    if not off.any():
        return []
    style, (left, right) = style_of(ax), ax.get_xlim()
    order = np.argsort(inputs)
    places, misses = inputs[order], off[order]
    start = int(np.argmax(misses))
    edge = left if start == 0 else float(np.sqrt(places[start - 1] * places[start]))
    how: dict[str, Any] = {
        "facecolor": "none",
        "edgecolor": style.warning,
        "hatch": "///",
        "linewidth": 0,
        "alpha": 0.35,
    }
    ax.axvspan(edge, right, zorder=1, **how)
    return [Patch(label=words, **how | {"linewidth": 0.8, "alpha": 0.6})]
