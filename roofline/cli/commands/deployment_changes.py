"""The command about changes: ``what-if``."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from cyclopts import Parameter

from ...analysis.comparison import Comparison, compare
from ...errors import InvalidInput
from ...serving.metrics import METRICS, SLO_METRICS
from ...specs.library import get_hardware
from ...techniques import Effect, apply
from ...units import brief_time, humanize
from .. import options as opt
from ..answers import Answers, notes_of_both
from ..output import print_json, print_text
from ..quantities import as_tuple, quantities
from ..target import Target, read_model, tensor_share
from ..technique_options import Chosen, with_formats
from ..text import block, bullets, derivations, label, paragraph, table, value, without_basis
from .deployments import lead, tie_words, title, weight_only_notes

COMPARED = ("prefill", "decode", "memory")

EFFECTS = (*SLO_METRICS, "weights_bytes", "kv_bytes_per_sequence", "max_batch", "capacity_tokens_per_s")
"""Metrics that are shown before and after."""

ToHardware = Annotated[Any, opt.hardware("--to-hardware", tp="--to-tp", group=opt.CHANGE)]
ToContext = Annotated[
    Any,
    opt.option(
        "--to-context",
        "N",
        "Tokens of each sequence in the cache before the decode step.",
        parse=lambda text: quantities(text, "tokens"),
        group=opt.CHANGE,
        show_default=False,
    ),
]
ToPart = Annotated[
    tuple[str, ...],
    opt.option(
        "--to-part",
        "PART=FORMAT",
        "Weight format of one part; may be repeated.",
        group=opt.CHANGE,
        show_default=False,
    ),
]


@Parameter(name="*")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Change:
    """What changes, as typed."""

    hardware: ToHardware = None
    load: opt.WorkloadChanges = dataclasses.field(default_factory=dict)
    context: ToContext = None
    formats: opt.PrecisionChanges = dataclasses.field(default_factory=dict)
    part: ToPart = ()
    parallel: opt.ParallelChanges = dataclasses.field(default_factory=dict)
    serving: opt.EngineChanges = dataclasses.field(default_factory=dict)
    power: opt.PowerChanges = dataclasses.field(default_factory=dict)

    @property
    def given(self) -> dict[str, Any]:
        """The fields that were given."""
        found = {item.name: value for item in dataclasses.fields(self) if (value := getattr(self, item.name))}
        if self.power:  # a field of the deployment, as the engine is
            found["serving"] = {**self.serving, **found.pop("power")}
        return found

    def of(self, target: Target) -> Target:
        """Return ``target`` after the change."""
        merged: dict[str, Any] = {
            name: {**getattr(target, name), **found} if isinstance(found, dict) else found
            for name, found in self.given.items()
        }
        if self.parallel and self.hardware is None and not _fills(merged["parallel"], target.hardware):
            merged["hardware"] = _bare(target.hardware)  # the layout is over another number of accelerators
        return dataclasses.replace(target, **merged)


def _fills(parallel: Mapping[str, Any], hardware: Any) -> bool:
    """Whether layouts without a degree of tensor parallelism can use all accelerators that were given."""
    if "tensor" in parallel:
        return False
    listed = [as_tuple(value) for value in parallel.values()]
    layouts = [dict(zip(parallel, degrees, strict=True)) for degrees in itertools.product(*listed)]
    names = as_tuple(hardware)
    return all(tensor_share(layout, get_hardware(name).count) for layout in layouts for name in names)


def _bare(hardware: Any) -> Any:
    """Names of accelerators without their number."""
    if isinstance(hardware, tuple):
        return tuple(map(_bare, hardware))
    if get_hardware(hardware).count > 1:
        return get_hardware(hardware).accelerator.name
    return hardware


def what_if(
    model: opt.ModelName,
    /,
    target: Target,
    change: Change | None = None,
    chosen: Chosen | None = None,
    *,
    time: opt.Time = opt.DEFAULT_TIME,
    full: opt.Full = False,
    as_json: opt.Json = False,
) -> None:
    """Compare a deployment before and after a change."""
    change, chosen = change or Change(), chosen or Chosen()
    before = target.single().answers(read_model(model))
    techniques = chosen.techniques()
    if techniques:
        return _apply(before, techniques, change, time=time, full=full, as_json=as_json)
    if not change.given:
        changes = "--to-weights, --to-hardware, --to-batch, --power-limit ... or --technique"
        raise InvalidInput(f"what-if needs a change: {changes}")
    points = [(varied, point.answers(before.serve.model)) for varied, point in change.of(target).points()]
    if as_json:
        found = [_comparison_dict(before, after) for _, after in points]
        return print_json(found if len(found) > 1 else found[0])
    if len(points) > 1:
        return print_text(*_rows(before, points, time))
    return print_text(*_comparison(before, points[0][1], time, full=full))


def _apply(before: Answers, techniques: Any, change: Change, *, time: str, full: bool, as_json: bool) -> None:
    """The effect of techniques, and of changed formats with them."""
    if set(change.given) - {"formats"}:
        raise InvalidInput("--technique can be combined with --to-weights, --to-activations and --to-kv only")
    if before.context_tokens is not None:
        raise InvalidInput("--technique is about whole batches; use --prompt instead of --context")
    effect = apply(before.serve, before.load, with_formats(techniques, change.formats), time=time)
    if as_json:
        print_json(before.asked() | effect.to_dict())
    else:
        print_text(*_effect(effect, title(before, time=time), full=full))


def _compared(before: Answers, after: Answers) -> dict[str, Comparison]:
    return {name: compare(getattr(before, name), getattr(after, name)) for name in COMPARED}


def _comparison_dict(before: Answers, after: Answers) -> dict[str, Any]:
    asked = {"before": before.asked(), "after": after.asked()}
    return asked | {name: item.to_dict() for name, item in _compared(before, after).items()}


def _comparison(before: Answers, after: Answers, time: str, *, full: bool) -> list[str]:
    """The change in sentences, then times and memory; with ``full``, every number."""
    comparisons = _compared(before, after)
    names = ("decode", "prefill", "memory")
    sentences = [comparisons[name].summary(time) for name in names]
    if not after.memory.fits:
        sentences.append(after.memory.summary())
    head = ("", "before", "after", "after / before")
    parts = [
        lead(before.serve.model, *sentences),
        f"\n{title(before, time=time)}",
        table([*_changed_rows(before, after), *_figure_rows(before, after, time)], right=(3,), head=head),
    ]
    for name, comparison in comparisons.items() if full else ():
        rows = [(label(column), *cells) for column, *cells in comparison.rows()]
        parts.append(block(name.capitalize(), table(rows, right=3, head=head)))
    shown = ("parameters", "memory", "prefill", "decode") if full else ("parameters", "prefill", "decode")
    every = notes_of_both(before, after, shown)
    notes = [*weight_only_notes(after.serve, "--to-activations"), *(every if full else without_basis(every))]
    return [*parts, block("Notes", bullets(notes)), "" if full else f"\n{paragraph(MORE)}"]


MORE = "--full shows every number before and after."


def _figure_rows(before: Answers, after: Answers, time: str) -> list[tuple[str, ...]]:
    """Times, throughput and memory before and after."""
    shown = time.removesuffix("_s")
    sides = (before, after)
    return [
        _figure_row(f"prefill, {shown}", brief_time, [getattr(side.prefill, time) for side in sides]),
        _figure_row(f"decode step, {shown}", brief_time, [getattr(side.decode, time) for side in sides]),
        _figure_row("decode tokens/s", _count, [side.decode.tokens_per_s_by(time) for side in sides]),
        _figure_row("memory needed", partial(humanize, "bytes"), [side.memory.needed_bytes for side in sides]),
        _figure_row("largest batch", _count, [side.memory.max_batch for side in sides]),
    ]


def _figure_row(name: str, words: Callable[[float], str], figures: Sequence[Any]) -> tuple[str, ...]:
    """One figure before and after, and their ratio."""
    first, second = (float(figure) for figure in figures)
    return name, words(first), words(second), _times(first, second)


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _times(before: float, after: float) -> str:
    if before > 0:
        return f"{after / before:.3g}x"
    return "from 0" if after > 0 else "same"


def _rows(before: Answers, points: Sequence[tuple[dict[str, Any], Answers]], time: str) -> list[str]:
    """One row for each point of the lists; the first is the state before the change."""
    names = [opt.flag_name(name) for name in points[0][0]]
    head = (*(f"to {name}" for name in names), "fits", "prefill", "per token", "speedup", "tokens/s", "memory needed")
    rows = [_row(["before", *[""] * (len(names) - 1)], before, before, time)]
    rows += [
        _row([opt.shown_value(value) for value in varied.values()], before, after, time) for varied, after in points
    ]
    fastest = max(points, key=lambda each: (bool(each[1].memory.fits), -float(getattr(each[1].decode, time))))
    where = ", ".join(f"{opt.flag_name(name)} {opt.shown_value(value)}" for name, value in fastest[0].items())
    change = compare(before.decode, fastest[1].decode).summary(time)
    answer = f"Fastest decode at {where}: {change.partition(' ')[2]}"
    answer += tie_words(points, time)
    numbers = set(range(len(names) + 1, len(head)))
    return [lead(before.serve.model, answer), f"\n{title(before, time=time)}", table(rows, head=head, right=numbers)]


def _row(names: list[str], before: Answers, after: Answers, time: str) -> list[str]:
    decode = after.decode
    speedup = compare(before.decode, decode).speedup(time)
    return [
        *names,
        humanize("fits", after.memory.fits),
        brief_time(getattr(after.prefill, time)),
        brief_time(getattr(decode, time)),
        f"{speedup:.2f}x",
        f"{decode.tokens_per_s_by(time):,.0f}",
        humanize("bytes", after.memory.needed_bytes),
    ]


def _changed_rows(before: Answers, after: Answers) -> list[tuple[str, ...]]:
    """The inputs in which the two differ."""
    first, second = (_flat(found.asked()) for found in (before, after))
    return [
        (label(name), _shown(name, first.get(name)), _shown(name, second.get(name)), "")
        for name in dict.fromkeys((*first, *second))
        if first.get(name) != second.get(name)
    ]


def _shown(name: str, asked: Any) -> str:
    if name == "engine" and asked is None:
        return "median of all"
    return humanize(name, asked)


def _flat(asked: dict[str, Any]) -> dict[str, Any]:
    formats = dict(asked["precision"])
    parts = {f"{part} weights": name for part, name in formats.pop("exceptions", {}).items()}
    layout = {f"{name} parallelism": degree for name, degree in asked["parallel"].items()}
    own: dict[str, Any] = {name: asked[name] for name in ("model", "hardware", "engine", "power_limit_watts")}
    return {**own, **asked["workload"], **formats, **parts, **layout}


def _effect(effect: Effect, heading: str, *, full: bool) -> list[str]:
    """The effect of the techniques in a sentence, then before and after; with ``full``, how it arises."""
    rows = []
    for name in EFFECTS:
        before, after = (value(name, getattr(side, name)) for side in (effect.before, effect.after))
        rows.append((METRICS[name].words, before, after))
    takes = [(item.label, item.effort, item.costs) for item in effect.techniques]
    memory = effect.after.memory
    misfit = () if memory.fits else (memory.summary(),)
    return [
        lead(effect.before.case.serve.model, effect.summary(), *misfit),
        f"\n{heading}",
        table(rows, right=2, head=("", "before", "after")),
        block("Why", bullets(f"{item.label}: {item.why}" for item in effect.techniques)),
        block("What they take", table(takes)),
        derivations({"": effect.explain()}) if full else "",
        block("Notes", bullets(effect.assumptions if full else without_basis(effect.assumptions))),
    ]
