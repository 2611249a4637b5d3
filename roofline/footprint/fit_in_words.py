"""Sentences on whether a deployment fits in memory, and the smallest changes that make it fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..formats import get_format
from ..model.layout_rules import refusal
from ..operators.parallel import Parallel
from ..phases.deployment import Deployment
from ..phases.layout_notes import notes_of_layout
from ..phases.workload import Workload
from ..units import NO_POINTS, humanize, plural
from .per_device import checkpoint_factor

if TYPE_CHECKING:
    from .memory_use import Memory

NARROWER = ("fp8", "int4_g128")
"""Weight formats to try, wider first."""

WIDER_LAYOUTS = (2, 4, 8, 16, 32, 64)
"""Degrees of tensor parallelism to try."""

FEWER_SEQUENCES = (256, 64, 16)
"""Limits on running sequences to try, as sampling takes memory per sequence."""

LARGEST_FRACTION = 0.95
"""Largest memory fraction to try; more would leave too little for uncounted memory."""

HOST_PERCENTS = (10, 25, 50, 75, 90, 95, 98, 99, 100)
"""Shares of weights in host memory to try."""

SHORTEST_SHARE = 0.5
"""A shorter length is suggested if it is at least this share of the requested one."""


SHARE_OF = {
    "device": "{}, for weights, activations and cache",
    "free_before_loading": "what is free of {} before loading, for weights and cache",
    "free_after_loading": "what is free of {} after loading, for the cache",
}
"""Definition of an engine's memory fraction -> its description."""


@dataclass(frozen=True)
class FittingChange:
    """A change after which the deployment fits.

    Attributes
    ----------
    words : str
        Description of the change, to follow "fits".
    found : Memory
        Memory after the change.
    """

    words: str
    found: Memory


def fit_sentence(found: Memory) -> str:
    """Sentence on whether it fits, memory needed and available, and what would fit otherwise."""
    points = np.size(found.fits)
    if not points:
        return NO_POINTS
    if points > 1:
        return f"Fits at {int(np.sum(found.fits)):,} of {points:,} points."
    where, sizes = accelerators_in_words(found), _sizes(found)
    if found.fits:
        return f"Fits on {where}: {sizes}; room for {float(found.max_batch):,.0f} sequences of this length."
    if float(found.max_batch) >= 1:
        running, asked = float(found.running_batch), float(np.max(found.load.batch))
        return f"Only {running:,.0f} of {asked:,.0f} sequences fit at once on {where}; the rest queue ({sizes})."
    ways = [change.words for change in (*_first(_narrower(found)), *_first(_wider(found)))]
    instead = f"fits {', or '.join(ways)}" if ways else f"at least {int(found.accelerators_needed)} are needed"
    return f"Does not fit on {where}: {sizes}; {instead}."


def fit_line(found: Memory) -> str:
    """One line: yes or no, with the cache's tokens and sequences, or the smallest change that makes it fit.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment("llama-3.1-70b", "h100-sxm", engine="vllm")
    >>> fit_line(rl.memory(serve, rl.Workload(8000, 192))).startswith("No: llama-3.1-70b with vllm does not fit on one")
    True
    """
    model, engine = found.deployment.model.name, found.deployment.engine
    subject = f"{model} with {engine}" if engine is not None else model
    if found.fits:
        refused = _refused(found.deployment)
        instead = f", but no engine starts this layout: {refused}" if refused else ""
        return f"Yes: {subject} fits on {accelerators_in_words(found)} with {_room(found)}; {_sizes(found)}{instead}."
    nearest = nearest_change(found)
    if nearest is None:
        instead = f"at least {int(found.accelerators_needed)} are needed"
    else:
        instead = f"it fits {nearest.words} ({_room(nearest.found)})"
    for change in _first(_on_the_host(found)):
        instead += f", or {change.words}"
    if float(found.max_batch) >= 1:
        return f"No: {subject} holds only {_room(found)} on {accelerators_in_words(found)}; {_sizes(found)}; {instead}."
    return f"No: {subject} does not fit on {accelerators_in_words(found)}: {_sizes(found)}; {instead}."


def _room(found: Memory) -> str:
    """Tokens and sequences of the given length that the cache holds."""
    length, sequences = float(np.max(found.load.sequence_tokens)), float(found.max_batch)
    if found.deployment.model.encodes:
        prompt = float(np.max(found.load.prompt_tokens))
        return f"room for {plural(sequences, 'sequence')} of {prompt:,.0f} tokens in a pass"
    return f"{float(found.cache_tokens):,.0f} tokens of cache, {plural(sequences, 'sequence')} of {length:,.0f}"


def _sizes(found: Memory) -> str:
    needed, available = (humanize("bytes", getattr(found, name)) for name in ("needed_bytes", "available_bytes"))
    return f"{needed} needed, {available} available"


def accelerators_in_words(found: Memory) -> str:
    """The accelerators of a deployment: ``one h100-sxm`` or ``8 h100-sxm``."""
    count = float(np.max(found.deployment.parallel.accelerators))
    return f"{'one' if count == 1 else f'{count:g}'} {found.deployment.accelerator.name}"


def nearest_change(found: Memory) -> FittingChange | None:
    """The smallest change that makes the deployment fit; None if none of the changes does.

    Changes are tried in this order: engine settings, parts that need not be loaded, a shorter context, the cache
    format, the weight format, more accelerators.
    """
    for kind in (_settings, _fewer_parts, _shorter, _narrower_cache, _narrower, _wider):
        for change in kind(found):
            return change
    return None


def _first(changes: Iterator[FittingChange]) -> Iterator[FittingChange]:
    for change in changes:
        yield change
        return


def _tried(found: Memory, words: str, serve: Deployment, load: Workload | None = None) -> Iterator[FittingChange]:
    """The change, if the deployment fits with it and engines start it wherever they do without it."""
    changed = replace(found, deployment=serve, load=load or found.load)
    if changed.fits and (not _refused(serve) or _refused(found.deployment)):
        yield FittingChange(words, changed)


def _refused(serve: Deployment) -> str:
    """The reason why no engine starts the layout; empty if they do."""
    return refusal(serve.model, serve.precision, serve.parallel)


def _settings(found: Memory) -> Iterator[FittingChange]:
    """Fewer sequences, no CUDA graphs, or a larger memory fraction."""
    serve = found.deployment
    if found.engine_pool is not None:
        engine = serve.server
        for most in FEWER_SEQUENCES:
            if most < float(engine.max_sequences or 0) and most >= float(np.max(found.sequences_on_one)):
                fewer = serve.replace(engine=engine.replace(max_sequences=most))
                yield from _tried(found, f"with at most {most} sequences at once", fewer)
        if engine.graphs_in_fraction and not engine.eager:
            yield from _tried(found, "without CUDA graphs", serve.replace(engine=engine.replace(eager=True)))
    if serve.engine_fraction < LARGEST_FRACTION:
        larger = serve.replace(memory_fraction=LARGEST_FRACTION)
        yield from _tried(found, f"with {LARGEST_FRACTION:.0%} of the memory", larger)


def _fewer_parts(found: Memory) -> Iterator[FittingChange]:
    for part, words in (("prediction", "multi-token prediction"), ("towers", "towers for images and sound")):
        if np.any(getattr(found, f"{part.removesuffix('s')}_bytes")):
            serve = found.deployment.replace(leave_out=(*found.deployment.leave_out, part))
            yield from _tried(found, f"without {words}", serve)


def _shorter(found: Memory) -> Iterator[FittingChange]:
    longest, asked = float(found.max_context), float(np.max(found.load.sequence_tokens))
    if SHORTEST_SHARE * asked <= longest < asked and longest > 1:
        shorter = Workload(int(longest) - 1, 1, found.load.batch)
        yield from _tried(found, f"up to {longest:,.0f} tokens", found.deployment, shorter)


def _narrower_cache(found: Memory) -> Iterator[FittingChange]:
    precision = found.deployment.precision
    if get_format(precision.kv).bits > get_format("fp8").bits:
        serve = found.deployment.replace(precision=replace(precision, kv="fp8"))
        yield from _tried(found, "with an fp8 KV cache", serve)


def _narrower(found: Memory) -> Iterator[FittingChange]:
    """Narrower weights, wider formats first."""
    precision = found.deployment.precision
    for name in NARROWER:
        if get_format(name).bits < get_format(precision.weights).bits:
            serve = found.deployment.replace(precision=replace(precision, weights=name))
            yield from _tried(found, f"with {name} weights", serve)


def _wider(found: Memory) -> Iterator[FittingChange]:
    """Tensor parallelism over more accelerators, fewest first."""
    serve = found.deployment
    if serve.parallel.accelerators != serve.parallel.tensor:
        return
    for degree in WIDER_LAYOUTS:
        parallel = Parallel(tensor=degree)
        if degree > serve.parallel.tensor and not refusal(serve.model, serve.precision, parallel):
            yield from _tried(found, f"on {degree}", serve.replace(parallel=parallel))


def _on_the_host(found: Memory) -> Iterator[FittingChange]:
    """The smallest share, in whole percent, of routed experts (or of all layers, without experts) in host memory."""
    serve = found.deployment
    if not serve.accelerator.host_bytes_per_s or np.any(found.paging.weights_host_share):
        return
    experts = serve.model.has_experts
    words = "its experts" if experts else "its layers"
    for percent in HOST_PERCENTS:
        paging = replace(found.paging, weights_host_share=percent / 100, experts_alone=experts)
        changed = replace(found, paging=paging)
        if changed.fits:
            yield FittingChange(f"with {percent}% of {words} in host memory", changed)
            return


def host_sentence(found: Memory) -> str:
    """Sentence on weights in host memory and the link over which they are read; empty if there are none."""
    if not np.any(found.host_weights_bytes):
        return ""
    part = "the experts" if found.paging.experts_alone else "the layers"
    share, size = float(np.max(found.paging.weights_host_share)), humanize("bytes", found.host_weights_bytes)
    rate = found.deployment.accelerator.host_bytes_per_s
    link = f" and are read over a host link of {humanize('bytes_per_s', rate)}" if rate else ""
    return f"{share:.4g} of {part} ({size}) are in host memory{link}."


def memory_notes(found: Memory) -> Iterator[str]:
    """Notes: assumptions, and what to do if the deployment does not fit."""
    serve = found.deployment
    yield from serve.model.doubts
    size_doubt = serve.model.size_doubt()
    if size_doubt and checkpoint_factor(serve) != 1:
        yield size_doubt
    yield _share_of_device(found)
    yield from notes_of_layout(serve)
    if not np.all(found.fits):
        needed = int(np.max(found.accelerators_needed))
        yield f"does not fit on {accelerators_in_words(found)}; at least {needed} are needed"
    if np.any((np.asarray(found.max_batch) > 0) & (found.load.batch > np.asarray(found.max_batch))):
        running, asked = np.max(found.running_batch), np.max(found.load.batch)
        yield f"only {running:g} of {asked:g} sequences fit at once; the rest queue"


def _share_of_device(found: Memory) -> str:
    serve = found.deployment
    device = f"the {float(np.max(serve.accelerator.memory_bytes)) / 1e9:.4g} GB that the device reports"
    if found.engine_pool is None:
        return f"the engine uses {serve.engine_fraction:.0%} of {device}"
    engine = found.engine_pool.engine
    return f"{engine} uses {serve.engine_fraction:.0%} of {SHARE_OF[str(engine.memory_fraction_of)].format(device)}"
