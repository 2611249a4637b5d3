"""The command about changes: ``what-if``."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

from cyclopts import Parameter

from ...advisor.targets import METRICS
from ...analysis.comparison import compare
from ...errors import InvalidInput
from ...techniques import Effect, apply
from ...techniques.table import label as name_of
from ...units import humanize
from .. import options as opt
from ..answers import Answers, notes_of_both
from ..output import print_json, print_text
from ..quantities import quantities
from ..target import Target, read_model
from ..technique_options import Chosen, with_formats
from ..text import block, bullets, derivations, label, table, value
from .deployments import title

COMPARED = ("prefill", "decode", "memory")

EFFECTS = METRICS | {
    "weights_bytes": "weights",
    "kv_bytes_per_sequence": "KV cache of one sequence",
    "max_batch": "largest batch",
    "capacity_tokens_per_s": "throughput with the largest batch",
}

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
    """What is other than before, as typed."""

    hardware: ToHardware = None
    load: opt.WorkloadChanges = dataclasses.field(default_factory=dict)
    context: ToContext = None
    formats: opt.PrecisionChanges = dataclasses.field(default_factory=dict)
    part: ToPart = ()
    parallel: opt.ParallelChanges = dataclasses.field(default_factory=dict)
    serving: opt.EngineChanges = dataclasses.field(default_factory=dict)

    @property
    def given(self) -> dict[str, Any]:
        """Fields that were given."""
        return {item.name: found for item in dataclasses.fields(self) if (found := getattr(self, item.name))}

    def of(self, target: Target) -> Target:
        """``target`` after the change."""
        merged: dict[str, Any] = {
            name: {**getattr(target, name), **found} if isinstance(found, dict) else found
            for name, found in self.given.items()
        }
        return dataclasses.replace(target, **merged)


def what_if(
    model: opt.ModelName,
    /,
    target: Target,
    change: Change | None = None,
    chosen: Chosen | None = None,
    *,
    time: opt.Time = opt.DEFAULT_TIME,
    as_json: opt.Json = False,
) -> None:
    """A deployment before and after a change."""
    change, chosen = change or Change(), chosen or Chosen()
    techniques = chosen.techniques()
    before = target.single().answers(read_model(model))
    if techniques:
        return _apply(before, techniques, change, time=time, as_json=as_json)
    if not change.given:
        raise InvalidInput("what-if needs a change: --to-weights, --to-hardware, --to-batch ... or --technique")
    after = change.of(target).single().answers(before.serve.model)
    comparisons = {name: compare(getattr(before, name), getattr(after, name)) for name in COMPARED}
    if as_json:
        asked = {"before": before.asked(), "after": after.asked()}
        return print_json(asked | {name: item.to_dict() for name, item in comparisons.items()})
    return print_text(title(before), *_comparison(before, after, comparisons))


def _apply(before: Answers, techniques: Any, change: Change, *, time: str, as_json: bool) -> None:
    """The effect of techniques, and of the formats asked for beside them."""
    if set(change.given) - {"formats"}:
        raise InvalidInput("--technique goes with --to-weights, --to-activations and --to-kv, with no other change")
    if before.context_tokens is not None:
        raise InvalidInput("--technique is about whole batches: leave --context out, or use --prompt")
    effect = apply(before.serve, before.load, with_formats(techniques, change.formats), time=time)
    if as_json:
        print_json(before.asked() | effect.to_dict())
    else:
        print_text(title(before), *_effect(effect))


def _comparison(before: Answers, after: Answers, comparisons: dict[str, Any]) -> list[str]:
    """What changes, and before, after and the ratio of every figure."""
    head = ("", "before", "after", "after / before")
    parts = [block("Change", table(_changed_rows(before, after)))]
    for name, comparison in comparisons.items():
        rows = [(label(column), *cells) for column, *cells in comparison.rows()]
        parts.append(block(name.capitalize(), table(rows, right=3, head=head)))
    return [*parts, block("Notes", bullets(notes_of_both(before, after)))]


def _changed_rows(before: Answers, after: Answers) -> list[tuple[str, str]]:
    """What differs between the two."""
    first, second = (_flat(found.asked()) for found in (before, after))
    return [
        (label(name), f"{humanize(name, first.get(name))} -> {humanize(name, second.get(name))}")
        for name in dict.fromkeys((*first, *second))
        if first.get(name) != second.get(name)
    ]


def _flat(asked: dict[str, Any]) -> dict[str, Any]:
    formats = dict(asked["precision"])
    parts = {f"{part} weights": name for part, name in formats.pop("exceptions", {}).items()}
    layout = {f"{name} parallelism": degree for name, degree in asked["parallel"].items()}
    own: dict[str, Any] = {name: asked[name] for name in ("model", "hardware", "engine")}
    return {**own, **asked["workload"], **formats, **parts, **layout}


def _effect(effect: Effect) -> list[str]:
    """Before and after of everything, and how the techniques come to it."""
    rows = [
        (words, *(value(name, getattr(side, name)) for side in (effect.before, effect.after)))
        for name, words in EFFECTS.items()
    ]
    return [
        block("Techniques", bullets(f"{name_of(item)}: {item.why}" for item in effect.techniques)),
        block("What they do", table(rows, right=2, head=("", "before", "after"))),
        block("What they take", table([(name_of(item), item.effort, item.costs) for item in effect.techniques])),
        derivations({"": effect.explain()}),
        block("Notes", bullets(effect.assumptions)),
    ]
