"""The command about memory: ``fit``."""

from __future__ import annotations

from typing import Annotated

from ...footprint.fit_in_words import host_sentence
from ...footprint.memory_use import Memory
from ...phases.workload import Workload
from ...units import brief_time
from .. import options as opt
from ..output import print_json, print_text
from ..target import Fit, read_model
from ..text import block, bullets, column_table, paragraph
from .deployments import doubt_lines

TimeOfOffload = Annotated[
    str,
    opt.time_option("Which time of a decode step is shown with --weights-host: floor, roofline or estimate."),
]


def fit(
    model: opt.ModelName,
    /,
    target: Fit,
    *,
    time: TimeOfOffload = opt.DEFAULT_TIME,
    full: opt.Full = False,
    as_json: opt.Json = False,
) -> None:
    """Say whether a model fits, and how many tokens and sequences fit with it."""
    loaded = read_model(model)
    found = [point.memory(loaded) for _, point in target.points()]
    if as_json:
        answers = [{"answer": need.fit()} | need.to_dict() for need in found]
        print_json(answers if len(answers) > 1 else answers[0])
        return
    for need in found:
        print_text(paragraph(need.fit()), *_on_the_host(need, time))
        if full:
            print_text(block("Memory", column_table(need)), block("Notes", bullets(need.assumptions)))
    if loaded.all_doubts():
        print_text(*doubt_lines(loaded))


def _on_the_host(need: Memory, time: str) -> list[str]:
    """Which weights are kept in host memory, and how long a decode step then takes."""
    where = host_sentence(need)
    if not where:
        return []
    serve, paging = need.deployment, need.paging
    if not serve.accelerator.host_bytes_per_s:
        return [paragraph(where)]
    from ...techniques import apply  # loads every technique, which the others need not wait for
    from ...techniques.tiers import WeightOffload

    moved = WeightOffload(weights_host=paging.weights_host_share, experts_alone=paging.experts_alone)
    load = Workload(need.load.sequence_tokens - 2, 2, need.load.batch)
    step = f"A decode step takes {brief_time(apply(serve, load, moved, time=time).decode_after_s)}"
    if time == "floor_s":
        step += " at least (floor)."
    else:
        floor = apply(serve, load, moved, time="floor_s").decode_after_s
        step += f" ({time.removesuffix('_s')}), at least {brief_time(floor)} (floor)."
    return [paragraph(f"{where} {step}")]
