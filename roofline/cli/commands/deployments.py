"""Commands about one deployment: ``analyze``, ``explain`` and ``plot``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ...model import Model
from ...units import humanize
from .. import options as opt
from ..answers import EXPLAINED, Answers, layer_kinds, model_steps, subject
from ..output import check_picture, print_json, print_text, save_picture
from ..target import ModelOrTarget, Target, read_model
from ..text import block, bullets, derivations, facts, side_by_side, table


def analyze(
    model: opt.ModelName, /, target: Target, *, time: opt.Time = opt.DEFAULT_TIME, as_json: opt.Json = False
) -> None:
    """How fast a model runs on an accelerator."""
    found = target.single().answers(read_model(model))
    if as_json:
        print_json(found.to_dict())
    else:
        print_text(title(found), *_figures(found))


PhaseName = Annotated[
    str | None,
    opt.option(
        "--phase",
        "NAME",
        "Derive all of prefill, decode, memory, parameters or crossovers.",
        group=opt.OTHER,
        show_default="the totals",
    ),
]
OperatorName = Annotated[
    str | None,
    opt.option("--operator", "NAME", "Derive this operator alone, as in q_proj or attention.", group=opt.OTHER),
]


def explain(
    model: opt.ModelName,
    /,
    target: ModelOrTarget | None = None,
    *,
    phase: PhaseName = None,
    operator: OperatorName = None,
    as_json: opt.Json = False,
) -> None:
    """How the numbers come about."""
    asked: Model | Answers
    if target is None or target.hardware is None:
        asked = read_model(model)
        steps = model_steps(asked, phase=phase, operator=operator)
    else:
        asked = target.single().answers(read_model(model))
        steps = asked.steps(phase=phase, operator=operator)
    if as_json:
        print_json({name: [step.to_dict() for step in found] for name, found in steps.items()})
        return
    print_text(title(asked), derivations(steps))
    if all(subject(step) in EXPLAINED for found in steps.values() for step in found):
        print_text(block("More", bullets(["--phase NAME derives all of one of these, --operator NAME one operator"])))


def plot(model: opt.ModelName, /, target: Target, *, file: Annotated[Path, opt.PICTURE]) -> None:
    """Prefill and decode under the roofline, in a picture."""
    from ...plot import roofline

    check_picture(file)
    found = target.single().answers(read_model(model))
    save_picture(file, lambda ax: roofline(found.serve.accelerator, found.prefill, found.decode, ax=ax))
    print_text(f"wrote {file}")


def title(asked: Answers | Model) -> str:
    """What was asked, defaults included."""
    if isinstance(asked, Model):
        return "\n".join((asked.name, table(_model_rows(asked))))
    load = asked.load
    context = asked.asked()["workload"]["context_tokens"]
    rows = (
        ("workload", f"batch {load.batch:,}, prompt {load.prompt_tokens:,}, output {load.output_tokens:,} tokens"),
        ("decode at", f"a context of {context:,} tokens"),
        ("formats", str(asked.serve.precision)),
        ("layout", str(asked.serve.parallel)),
    )
    return "\n".join((f"{asked.serve.model.name} on {asked.serve.accelerator.name}", table(rows)))


def _figures(found: Answers) -> tuple[str, ...]:
    """Every answer about one deployment."""
    model, gpu = found.serve.model, found.serve.accelerator
    times = {time.removesuffix("_s"): result for time, result in found.generate.items()}
    return (
        block(f"Model  {model.title or model.name}", table(_model_rows(model))),
        block(f"Hardware  {gpu.title or gpu.name}", table(_hardware_rows(found))),
        block("Memory", facts(found.memory)),
        block(
            "Phases  throughput at the roofline", side_by_side({"prefill": found.prefill, "decode step": found.decode})
        ),
        block("Generation", side_by_side(times, leave_out="time")),
        block("Crossovers of decode", facts(found.crossovers)),
        block("Notes", bullets(found.assumptions)),
    )


def _model_rows(model: Model) -> list[tuple[str, str]]:
    counts = model.parameters
    return [
        ("parameters", f"{counts.total:,}"),
        ("active per token", f"{counts.active:,}"),
        ("embedding", f"{counts.embedding:,}"),
        *(("layers", kind) for kind in layer_kinds(model)),
        ("KV cache", f"{humanize('bytes', model.kv_bytes_per_token)} per token in bf16"),
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
