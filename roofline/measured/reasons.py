"""Reasons why a time may beat its floor, and contradictions between a file and the deployment."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from ..footprint.memory_use import memory
from ..phases.deployment import Deployment
from ..phases.workload import Workload
from ..units import humanize
from .measurement import SERVING, Measurement
from .work_bounds import WorkBounds, bounds_of_phase, decode_step, prefill_of


def reasons(serve: Deployment, run: Measurement, name: str, measured_s: float, bounds: WorkBounds) -> tuple[str, ...]:
    """Possible reasons for a time below its floor: speculation, prefix cache, wrong batch, wrong deployment.

    Each reason says what it would take to explain the time.  Corrections and warnings about the file come first, since
    a reading error is more likely than any of them.
    """
    found = []
    if run.repaired or run.doubts:
        found.append("reading: see the corrections and warnings about this file")
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
        return f"speculation: the file states {stated:g} tokens per step; {stated * ratio:.2f} would explain the time"
    return f"speculation: {ratio:.2f} or more tokens per step would explain the time"


def _prefix_cache(serve: Deployment, run: Measurement, measured_s: float, ratio: float) -> str:
    """The share of the prompt that a prefix cache would have to hold; the weights are still streamed once per pass."""
    least = bounds_of_phase(prefill_of(serve, 1.0, 1.0, max((run.prompt_tokens or 1.0) - 1, 0.0))).floor_s
    if least > measured_s:
        return f"prefix cache: not an explanation, since a pass over one token already takes {humanize('s', least)}"
    share = 1 - (1 - (run.cached_share or 0.0)) / ratio
    return (
        f"prefix cache: about {share:.0%} of the prompt tokens as cache hits would explain the time; a warm-up with "
        "the same prompts has that effect"
    )


def _batch(serve: Deployment, run: Measurement, name: str, measured_s: float) -> Iterator[str]:
    """Whether batch 1 would explain the time."""
    prompt = run.prompt_tokens or 0.0
    if name == "decode":
        alone = bounds_of_phase(decode_step(serve, 1.0, 0.0)).floor_s
    elif name == "prefill" and run.kind != SERVING and (run.batch or 1) > 1:
        alone = bounds_of_phase(prefill_of(serve, 1.0, max(prompt, 1.0), 0.0)).floor_s
    else:
        if name != "prefill":
            yield "wrong batch: fewer or shorter sequences in flight would take less time"
        return
    words = "explains the time" if alone <= measured_s else "does not explain the time"
    yield f"wrong batch: the floor of one sequence with an empty cache is {humanize('s', alone)}, which {words}"


def _deployment(serve: Deployment, bounds: WorkBounds, measured_s: float, ratio: float) -> Iterator[str]:
    if bounds.limit == "memory":
        could = measured_s * bounds.peak_bytes_per_s
        yield (
            f"wrong deployment: in {humanize('s', measured_s)} the memory of {serve.parallel.accelerators:g} x "
            f"{serve.accelerator.name} moves {humanize('bytes', could)}, so the weights may be in a narrower format, "
            f"the accelerator faster, or there are {ratio:.2g} times as many"
        )
        return
    yield (
        "wrong deployment: the math may be in a narrower format, the accelerator faster than "
        f"{serve.accelerator.name}, or there are {ratio:.2g} times as many"
    )


WEIGHTS_AGREE = 0.05
"""Weights that differ by more than this factor are not of the same checkpoint."""


def doubts_about(serve: Deployment, run: Measurement) -> Iterator[str]:
    """Differences between what the file states and the deployment given by the caller."""
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
        yield (
            f"the run used speculative decoding ({stated['speculation']}), and the file does not state the tokens per "
            "step"
        )


def _same_part(name: str, stated: str) -> bool:
    """Whether the product number of an accelerator (``h100``, ``4090``, ``mi300x``) appears in the name that the file
    states.
    """
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if any(letter.isdigit() for letter in word)]
    plain = re.sub(r"[^a-z0-9]+", "", stated.lower())
    return not words or any(word in plain for word in words if not re.fullmatch(r"\d+gb", word))


def _weights(serve: Deployment, stated_bytes: float) -> Iterator[str]:
    resident = float(np.max(memory(serve, Workload()).weights_bytes))
    if abs(resident / stated_bytes - 1) > WEIGHTS_AGREE:
        held, given = humanize("bytes", stated_bytes), humanize("bytes", resident)
        yield f"the file states {held} of weights, the deployment has {given}; its precision may differ"
