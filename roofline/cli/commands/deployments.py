"""Commands about one deployment: ``analyze`` and ``explain``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from ...errors import InvalidInput
from ...formats import get_format
from ...model import Model
from ...phases.deployment import Deployment
from ...phases.pass_sentences import time_words
from ...phases.passes import TIMES, Phase
from ...units import bound_by, brief_time, humanize
from .. import options as opt
from ..answers import EXPLAINED, Answers, layer_words, model_steps, subject
from ..output import print_json, print_text
from ..request_load import load_words
from ..target import ModelOrTarget, Target, read_model
from ..text import block, bullets, column_table, derivations, paragraph, side_by_side, table, without_basis

INTERVAL = "in brackets: the 80% interval of the estimate"


def analyze(
    model: opt.ModelName,
    /,
    target: Target,
    *,
    time: opt.Time = opt.DEFAULT_TIME,
    full: opt.Full = False,
    as_json: opt.Json = False,
) -> None:
    """Show how fast a model runs on an accelerator."""
    loaded = read_model(model)
    points = [(varied, point.answers(loaded)) for varied, point in target.points()]
    if as_json:
        found = [answers.to_dict() for _, answers in points]
        return print_json(found if len(found) > 1 else found[0])
    if loaded.encodes:
        return print_text(*encoder_text(points, time, full=full))
    if len(points) > 1:
        return print_text(*_rows(points, time))
    return print_text(*_answer(points[0][1], time), *(_figures(points[0][1]) if full else _more(points[0][1])))


PhaseName = Annotated[
    str | None,
    opt.option(
        "--phase",
        "NAME",
        "Derive every number of prefill, decode, memory, parameters or crossovers (encode for an encoder).",
        group=opt.OTHER,
        show_default="the totals",
    ),
]
OperatorName = Annotated[
    str | None,
    opt.option("--operator", "NAME", "Derive only this operator, such as q_proj or attention.", group=opt.OTHER),
]
TimeDerived = Annotated[
    str | None, opt.time_option("Derive this time alone: floor, roofline or estimate.", show_default="all three")
]
NARROWER = "--phase NAME derives every number of one phase, --operator NAME one operator, --time NAME one time"
ALL_TIMES = "floor, roofline and estimate"
"""What a header says where all three times are shown."""


def explain(
    model: opt.ModelName,
    /,
    target: ModelOrTarget | None = None,
    *,
    phase: PhaseName = None,
    operator: OperatorName = None,
    time: TimeDerived = None,
    as_json: opt.Json = False,
) -> None:
    """Derive every number."""
    asked: Model | Answers
    if target is None or target.hardware is None:
        if time is not None:
            raise InvalidInput("--time needs --hardware; only the parameters can be derived without it")
        asked = read_model(model)
        steps = model_steps(asked, phase=phase, operator=operator)
    else:
        asked = target.single().answers(read_model(model))
        steps = asked.steps(phase=phase, operator=operator, time=time)
    if as_json:
        print_json({name: [step.to_dict() for step in found] for name, found in steps.items()})
        return
    heading = title(asked, time=time or ALL_TIMES)
    if isinstance(asked, Answers) and (phase, operator) == (None, None):
        heading = f"{lead(asked.serve.model, *asked.sentences(time or opt.DEFAULT_TIME))}\n\n{heading}"
    print_text(heading, derivations(steps))
    if all(subject(step) in EXPLAINED for found in steps.values() for step in found):
        print_text(block("More", bullets([NARROWER])))


def title(asked: Answers | Model, *, time: str = "") -> str:
    """What was asked, including defaults."""
    if isinstance(asked, Model):
        return "\n".join((asked.title or asked.name, *doubt_lines(asked), table(_model_rows(asked))))
    load = asked.load
    if asked.encodes:
        return title_of(asked.serve, f"batch {load.batch:,}, {load.prompt_tokens:,} tokens each", time=time)
    context = asked.asked()["workload"]["context_tokens"]
    lengths = f"batch {load.batch:,}, {load_words(load)}"
    decoded = f"decode at a context of {context:,}" if context != load.context_tokens else ""
    return title_of(asked.serve, lengths, decoded, time=time)


def title_of(serve: Deployment, *load: str, time: str = "") -> str:
    """A deployment, its load, and the time that is shown."""
    formats = str(serve.precision)
    if serve.model.encodes:
        formats = formats.partition(", KV cache")[0]
    shown = [
        str(serve.parallel) if not serve.parallel.single else "",
        *load,
        formats,
        _parts(serve),
        f"engine {serve.engine}" if serve.engine else "",
        f"time: {time.removesuffix('_s')}" if time else "",
    ]
    model, gpu = serve.model, serve.accelerator
    return paragraph(f"{model.title or model.name} on {gpu.title or gpu.name}: {'; '.join(filter(None, shown))}")


def lead(model: Model, *sentences: str) -> str:
    """The answer, one paragraph per sentence; warnings about the model follow the first."""
    first, *others = (paragraph(sentence) for sentence in sentences if sentence)
    return "\n".join((first, *doubt_lines(model), *others))


def _parts(serve: Deployment) -> str:
    """Formats of parts that differ from the checkpoint's."""
    own = serve.model.precision.exceptions if serve.model.precision else {}
    changed = {part: name for part, name in serve.precision.exceptions.items() if own.get(part) != name}
    return ", ".join(f"{part} {name}" for part, name in changed.items())


def weight_only_notes(serve: Deployment, option: str) -> list[str]:
    """A note if 8-bit weights are combined with 16-bit activations, so that the chip's 8-bit units are unused."""
    precision = serve.precision
    weights, activations = get_format(precision.weights), get_format(precision.activations)
    is_8_bit = BITS_OF_8 <= weights.bits < BITS_OF_8 + 1  # scales included
    if not is_8_bit or activations.bits < 2 * BITS_OF_8 or weights.math not in serve.accelerator.dense_flops_per_s:
        return []
    name = precision.weights.partition("_")[0]
    return [
        f"{precision.weights} weights with {precision.activations} activations are multiplied in "
        f"{precision.activations}; {option} {name} would use the {weights.math} units"
    ]


BITS_OF_8 = 8.0


def doubt_lines(model: Model) -> list[str]:
    """One paragraph for each reason why the model's counts or sizes may be wrong."""
    return [paragraph(f"Warning: {doubt}.") for doubt in model.all_doubts()]


def _answer(found: Answers, time: str) -> tuple[str, ...]:
    """The answer in two or three sentences, then a table of the three times."""
    phases = {"prefill": found.prefill, "decode step": found.decode}
    rows = []
    for name, phase in phases.items():
        bounds = (brief_time(getattr(phase, each)) for each in TIMES[:-1])
        rows.append((name, *bounds, time_words(phase), str(phase.limit)))
    whole = [found.generate[each] for each in TIMES]
    rows.append(("whole batch", *(brief_time(each.total_s) for each in whole), ""))
    rows.append(("output tokens/s", *(f"{each.tokens_per_s:,.0f}" for each in whole), ""))
    head = ("", *(each.removesuffix("_s") for each in TIMES), "limit")
    return (
        lead(found.serve.model, *found.sentences(time)),
        f"\n{title(found, time=time)}",
        table(rows, head=head, right=(1, 2, 3)),
    )


def _more(found: Answers) -> tuple[str, ...]:
    """One line about memory, and notes that qualify the answer."""
    memory = found.memory
    parts = (
        f"weights {humanize('bytes', memory.weights_bytes)}",
        f"KV cache {humanize('bytes', memory.kv_bytes_per_sequence)} per sequence",
        f"largest batch {memory.max_batch:,}",
    )
    said = set(found.serve.model.doubts)
    notes = without_basis(note for note in found.notes_of("parameters", "prefill", "decode") if note not in said)
    return (
        "\n" + paragraph(f"Memory: {', '.join(parts)}."),
        block("Notes", bullets([*weight_only_notes(found.serve, "--activations"), *notes, INTERVAL])),
        "\n" + paragraph("--full shows every number, and `roofline explain` how each is derived."),
    )


def tie_words(points: Sequence[tuple[dict[str, Any], Answers]], time: str) -> str:
    """Points with another accelerator, engine or format that tie with the best point. Two points tie if the estimate of
    one lies within the interval of the other.
    """
    if time != opt.DEFAULT_TIME:
        return ""
    fitting = [each for each in points if bool(each[1].memory.fits)] or list(points)
    best_varied, best = max(fitting, key=lambda each: float(each[1].decode.tokens_per_s_by(time)))
    tied = []
    for varied, found in fitting:
        differing = {name for name in varied if varied[name] != best_varied[name]}
        if differing and differing <= set(UNSURE) and _within(found.decode, best.decode):
            tied.append(_where(varied))
    return f" Tied within the intervals: {'; '.join(tied)}." if tied else ""


UNSURE = ("hardware", "engine", "weights", "activations", "kv", "attention")
"""Inputs for which the errors of two estimates may differ."""


def _within(one: Phase, other: Phase) -> bool:
    """Whether the time per token of one pass lies within the interval of the other."""
    middle, other_middle = (float(phase.estimate_s / phase.tokens) for phase in (one, other))
    return _holds(one, other_middle) or _holds(other, middle)


def _holds(phase: Phase, token_s: float) -> bool:
    """Whether the interval of a pass holds a time per token."""
    return float(phase.estimate_low_s / phase.tokens) <= token_s <= float(phase.estimate_high_s / phase.tokens)


def _where(varied: dict[str, Any]) -> str:
    return ", ".join(f"{opt.flag_name(name)} {opt.shown_value(value)}" for name, value in varied.items())


def _rows(points: Sequence[tuple[dict[str, Any], Answers]], time: str) -> list[str]:
    """One row for each point of the lists."""
    first = points[0][1]
    names = [opt.flag_name(name) for name in points[0][0]]
    columns: dict[str, list[str]] = {}
    for name, field in zip(names, points[0][0], strict=True):
        columns[name] = [opt.shown_value(varied[field]) for varied, _ in points]
    answers = [found for _, found in points]
    columns |= {
        "fits": [humanize("fits", found.memory.fits) for found in answers],
        "prefill": [brief_time(getattr(found.prefill, time)) for found in answers],
        "per token": [_time_of_step(found, time) for found in answers],
        "tokens/s": [f"{found.decode.tokens_per_s_by(time):,.0f}" for found in answers],
        "limit": [str(found.decode.limit) for found in answers],
        "memory": [humanize("bytes", found.memory.needed_bytes) for found in answers],
    }
    for name in ("fits", "limit"):  # what is the same everywhere is said above the table
        if len(set(columns[name])) == 1:
            del columns[name]
    if len(names) > MOST_VARIED:
        del columns["memory"]
    shared = f"{first.serve.model.title or first.serve.model.name} by {_listed(names)}; time: {time.removesuffix('_s')}"
    numbers = {at for at, name in enumerate(columns) if name in ("prefill", "per token", "tokens/s", "memory")}
    rows = zip(*columns.values(), strict=True)
    answer = f"{_lead(points, time)}{tie_words(points, time)}"
    return [lead(first.serve.model, answer), f"\n{paragraph(shared)}", table(rows, head=tuple(columns), right=numbers)]


def encoder_text(points: Sequence[tuple[dict[str, Any], Answers]], time: str, *, full: bool) -> list[str]:
    """The answer for an encoder: one pass over the batch, or one row for each point."""
    found = points[0][1]
    if len(points) > 1:
        return _encoder_rows(points, time)
    phase, memory = found.encode, found.memory
    rows = [
        ("one pass", *(brief_time(getattr(phase, each)) for each in TIMES[:-1]), time_words(phase), str(phase.limit)),
        ("sequences/s", *(f"{found.sequences_per_s(each):,.0f}" for each in TIMES), ""),
        ("tokens/s", *(f"{phase.tokens_per_s_by(each):,.0f}" for each in TIMES), ""),
    ]
    head = ("", *(each.removesuffix("_s") for each in TIMES), "limit")
    answer = [
        lead(found.serve.model, *found.sentences(time)),
        f"\n{title(found, time=time)}",
        table(rows, head=head, right=(1, 2, 3)),
    ]
    if not full:
        weights = f"weights {humanize('bytes', memory.weights_bytes)}, no cache, largest batch {memory.max_batch:,}"
        notes = without_basis(note for note in found.notes_of("parameters", "encode"))
        answer += [f"\n{paragraph(f'Memory: {weights}.')}", block("Notes", bullets([*notes, INTERVAL]))]
        return [*answer, "\n" + paragraph("--full shows every number, and `roofline explain` how each is derived.")]
    model, gpu = found.serve.model, found.serve.accelerator
    return [
        *answer,
        block(f"Model  {model.title or model.name}", table(_model_rows(model))),
        block(f"Hardware  {gpu.title or gpu.name}", table(_hardware_rows(found))),
        block("Memory", column_table(memory)),
        block("One pass  throughput at the roofline", column_table(phase)),
        block("Notes", bullets(found.assumptions)),
    ]


def _encoder_rows(points: Sequence[tuple[dict[str, Any], Answers]], time: str) -> list[str]:
    """One row for each point of the lists."""
    first, fields = points[0][1], tuple(points[0][0])
    names = [opt.flag_name(name) for name in fields]
    rows = []
    for varied, found in points:
        given = (opt.shown_value(varied[field]) for field in fields)
        fits, limit = humanize("fits", found.memory.fits), str(found.encode.limit)
        one_pass = time_words(found.encode) if time == opt.DEFAULT_TIME else brief_time(getattr(found.encode, time))
        rates = (found.sequences_per_s(time), found.encode.tokens_per_s_by(time))
        rows.append((*given, fits, one_pass, *(f"{rate:,.0f}" for rate in rates), limit))
    head = (*names, "fits", "one pass", "sequences/s", "tokens/s", "limit")
    numbers = {*range(len(names)), *range(len(names) + 1, len(names) + 4)}
    subject_of = first.serve.model.title or first.serve.model.name
    shared = f"{subject_of} by {_listed(names)}; time: {time.removesuffix('_s')}"
    fitting = sum(bool(found.memory.fits) for _, found in points)
    varied, best = max(
        points, key=lambda each: (bool(each[1].memory.fits), float(each[1].encode.tokens_per_s_by(time)))
    )
    rate = f"{float(best.encode.tokens_per_s_by(time)):,.0f} tokens/s"
    answer = f"{fitting} of {len(points)} points fit. Highest throughput: {rate} at {_where(varied)}."
    return [lead(first.serve.model, answer), f"\n{paragraph(shared)}", table(rows, head=head, right=numbers)]


MOST_VARIED = 2
"""Number of listed options up to which every column fits a terminal of 80."""


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _time_of_step(found: Answers, time: str) -> str:
    if time == opt.DEFAULT_TIME:
        return time_words(found.decode)
    return brief_time(getattr(found.decode, time))


def _lead(points: Sequence[tuple[dict[str, Any], Answers]], time: str) -> str:
    """How many points fit, where throughput is highest, and what limits decode if that is the same everywhere."""
    fitting = sum(bool(found.memory.fits) for _, found in points)
    varied, best = max(
        points, key=lambda each: (bool(each[1].memory.fits), float(each[1].decode.tokens_per_s_by(time)))
    )
    where = _where(varied)
    rate = f"{float(best.decode.tokens_per_s_by(time)):,.0f} tokens/s"
    limits = {str(found.decode.limit) for _, found in points}
    bound = f" Decode is {bound_by(limits.pop())} at every point." if len(limits) == 1 else ""
    among = " among them" if fitting else ""
    return f"{fitting} of {len(points)} points fit. Highest decode throughput{among}: {rate} at {where}.{bound}"


def _figures(found: Answers) -> tuple[str, ...]:
    """Every number about one deployment."""
    model, gpu = found.serve.model, found.serve.accelerator
    times = {time.removesuffix("_s"): result for time, result in found.generate.items()}
    return (
        block(f"Model  {model.title or model.name}", table(_model_rows(model))),
        block(f"Hardware  {gpu.title or gpu.name}", table(_hardware_rows(found))),
        block("Memory", column_table(found.memory)),
        block(
            "Phases  throughput at the roofline", side_by_side({"prefill": found.prefill, "decode step": found.decode})
        ),
        block("Generation", side_by_side(times, leave_out="time")),
        block("Crossovers of decode", column_table(found.crossovers)),
        block("Notes", bullets(found.assumptions)),
    )


def _model_rows(model: Model) -> list[tuple[str, str]]:
    counts = model.parameters
    return [
        ("parameters", f"{counts.total:,}"),
        ("active per token", f"{counts.active:,}"),
        ("embedding", f"{counts.embedding:,}"),
        *(("layers", kind) for kind in layer_words(model)),
        (
            "KV cache",
            "none" if model.encodes else f"{humanize('bytes', model.kv_bytes_per_token)} per token in bf16",
        ),
        ("longest context", humanize("tokens", model.max_context_tokens)),
    ]


def _hardware_rows(found: Answers) -> list[tuple[str, str]]:
    gpu = found.serve.accelerator
    peaks = [
        (
            f"{math} peak",
            f"{humanize('flops_per_s', gpu.dense_flops_per_s[math])} dense, "
            f"ridge point {humanize('flops_per_byte', gpu.ridge_flops_per_byte(math))}",
        )
        for math in found.maths
    ]
    bandwidth = humanize("bytes_per_s", gpu.memory_bytes_per_s)
    return [*peaks, ("memory", f"{humanize('bytes', gpu.memory_bytes)} at {bandwidth}")]
