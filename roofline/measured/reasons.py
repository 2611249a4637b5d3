"""Why a time beats its floor, the likeliest reason first, and where a file contradicts the deployment."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from ..footprint.memory_use import memory
from ..phases.deployment import Deployment
from ..phases.workload import Workload
from ..units import humanize
from .measurement import SERVING, Measurement
from .work_bounds import WorkBounds, decode_step, of_phase, prefill_of


def reasons(serve: Deployment, run: Measurement, name: str, measured_s: float, bounds: WorkBounds) -> tuple[str, ...]:
    """What may be the matter with a time below its floor: speculation, prefix cache, wrong batch, wrong deployment.

    Each reason says what it would take to explain the time.  A figure that its reader repaired or doubts comes first: a
    reading error is likelier than any of them.
    """
    found = []
    if run.repaired or run.doubts:
        found.append("reading: see what was repaired and what is in doubt about this file")
    ratio = bounds.floor_s / measured_s
    if name in ("decode", "generation", "run"):
        found.append(_speculation(run, ratio))
    if name in ("prefill", "generation", "run"):
        found.append(_prefix_cache(serve, run, measured_s, ratio))
    found += _batch(serve, run, name, measured_s)
    found += _deployment(serve, bounds, measured_s, ratio)
    return tuple(found)


def _speculation(run: Measurement, ratio: float) -> str:
    stated = run.accepted_tokens_per_step
    if stated:
        return f"speculation: the file states {stated:g} tokens a step; {stated * ratio:.2f} would explain the time"
    return f"speculation: {ratio:.2f} tokens a step, or more, would explain the time"


def _prefix_cache(serve: Deployment, run: Measurement, measured_s: float, ratio: float) -> str:
    """What a prefix cache would have to hold; it can't spare the weights that a pass streams."""
    least = of_phase(prefill_of(serve, 1.0, 1.0, max((run.prompt_tokens or 1.0) - 1, 0.0))).floor_s
    if least > measured_s:
        return (
            f"prefix cache: a pass over one token takes {humanize('s', least)} already, so it does not explain the time"
        )
    share = 1 - (1 - (run.cached_share or 0.0)) / ratio
    return (
        f"prefix cache: about {share:.0%} of the prompt tokens found in it would explain the time; a warm-up with the "
        "same prompts does that"
    )


def _batch(serve: Deployment, run: Measurement, name: str, measured_s: float) -> Iterator[str]:
    """What the same figure would mean at batch 1."""
    prompt = run.prompt_tokens or 0.0
    if name == "decode":
        alone = of_phase(decode_step(serve, 1.0, 0.0)).floor_s
    elif name == "prefill" and run.kind != SERVING and (run.batch or 1) > 1:
        alone = of_phase(prefill_of(serve, 1.0, max(prompt, 1.0), 0.0)).floor_s
    else:
        if name != "prefill":
            yield "wrong batch: fewer sequences in flight, or shorter ones, would take less time"
        return
    words = "explains the time" if alone <= measured_s else "does not explain the time"
    yield f"wrong batch: the floor of one sequence with an empty cache is {humanize('s', alone)}, which {words}"


def _deployment(serve: Deployment, bounds: WorkBounds, measured_s: float, ratio: float) -> Iterator[str]:
    if bounds.limit == "memory":
        could = measured_s * bounds.peak_bytes_per_s
        yield (
            f"wrong deployment: in {humanize('s', measured_s)} the memory of {serve.parallel.accelerators:g} x "
            f"{serve.accelerator.name} moves {humanize('bytes', could)}, so weights in narrower formats, "
            f"{ratio:.2g} times the accelerators, or a faster one"
        )
        return
    yield (
        f"wrong deployment: math in narrower formats, {ratio:.2g} times the accelerators, or a faster one than "
        f"{serve.accelerator.name}"
    )


WEIGHTS_AGREE = 0.05
"""Weights in a file and of the deployment that differ by more are not the same checkpoint."""


def doubts_about(serve: Deployment, run: Measurement) -> Iterator[str]:
    """Where what the file says of the deployment differs from the deployment that the caller names."""
    stated = run.stated
    degrees = {"tensor": serve.parallel.tensor, "pipeline": serve.parallel.pipeline}
    degrees |= {"accelerators": serve.parallel.accelerators}
    for name, given in degrees.items():
        if stated.get(name) is not None and stated[name] != given:
            yield f"the file states {name} {stated[name]}, the deployment has {float(given):g}"
    accelerator = stated.get("accelerator")
    if isinstance(accelerator, str) and not _same_part(serve.accelerator.name, accelerator):
        yield f"the file states {accelerator!r}, the deployment has {serve.accelerator.name!r}"
    if stated.get("weights_bytes"):
        yield from _weights(serve, float(stated["weights_bytes"]))
    if stated.get("speculation") and not run.accepted_tokens_per_step:
        yield f"the run speculated ({stated['speculation']}) and the file does not say how many tokens a step yields"


def _same_part(name: str, stated: str) -> bool:
    """Whether the part number of an accelerator's name (``h100``, ``4090``, ``mi300x``) is in what the file says."""
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if any(letter.isdigit() for letter in word)]
    plain = re.sub(r"[^a-z0-9]+", "", stated.lower())
    return not words or any(word in plain for word in words if not re.fullmatch(r"\d+gb", word))


def _weights(serve: Deployment, stated_bytes: float) -> Iterator[str]:
    resident = float(np.max(memory(serve, Workload()).weights_bytes))
    if abs(resident / stated_bytes - 1) > WEIGHTS_AGREE:
        held, given = humanize("bytes", stated_bytes), humanize("bytes", resident)
        yield f"the file states {held} of weights, the deployment holds {given}: its precision may be another"
