"""Checks of a model's spec against the configuration beside it, its counts and its sources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ..errors import RooflineError
from ..model import Model
from .configuration import config_path, differences, read_config
from .model_schema import ModelSpec
from .names import spoken, stored_precision

QUANTIZED = re.compile(
    r"-(?:nvfp4|mxfp4|fp4|mxfp8|fp8|int8|int4|awq|gptq|w4a16|w8a8|4bit|8bit|gguf|bnb)\b|\bTheBloke/|\bmlx-community/",
    re.IGNORECASE,
)
"""Parts of the names of repositories with quantized copies."""

CONTEXT = "context"
"""Name of a source that states the longest context, if it differs from the configuration's."""

TOKENS = (128, 1e9)
"""Range of plausible contexts."""


def model_doubts(spec: ModelSpec, path: Path) -> Iterator[str]:
    """Yield a line for every contradiction between a spec and its configuration or sources.

    Parameters
    ----------
    spec : ModelSpec
        Content of the file.
    path : Path
        Path of the file; its configuration is searched beside it.
    """
    model = spec.build()
    yield from _beside(spec, model, path)
    yield from _counted(spec, model)
    yield from _named_size(spec, model)
    yield from _formats(spec)
    yield from _names(spec)
    if spec.max_context_tokens is not None and not TOKENS[0] <= spec.max_context_tokens <= TOKENS[1]:
        yield f"max_context_tokens is implausible: {spec.max_context_tokens:,}"


def _beside(spec: ModelSpec, model: Model, path: Path) -> Iterator[str]:
    beside = config_path(path)
    if beside is None:
        return
    try:
        config = read_config(beside, model.name)
    except RooflineError as error:
        yield f"the config.json next to it can't be read: {error}"
        return
    for line in differences(model, config):
        if not (CONTEXT in spec.sources and line.startswith("max_context_tokens ")):
            yield line


def _counted(spec: ModelSpec, model: Model) -> Iterator[str]:
    """Compare the counts exactly with independent ones."""
    if spec.counted is None:
        return
    have = model.parameters
    if have.total != spec.counted.total:
        yield f"parameters are {have.total:,}, but counted as {spec.counted.total:,} ({spec.counted.source})"
    if spec.counted.active is not None and have.active != spec.counted.active:
        yield f"active parameters are {have.active:,}, but counted as {spec.counted.active:,} ({spec.counted.source})"


NAMED_SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)([bm])(?![a-z0-9])")
SIZE_RANGE = 0.7, 1.5
"""Parameters over the size in a name: 0.73 (LFM2.5-VL-1.6B, whose encoder counts apart) to 1.46 (Granite 4.0 H 1B)."""


def _named_size(spec: ModelSpec, model: Model) -> Iterator[str]:
    """A name often holds the size; twice a width or the layers of another model miss it."""
    found = NAMED_SIZE.findall(re.sub(r"[-_ ]", " ", spec.name.lower()))
    if len(found) != 1:
        return
    number, unit = found[0]
    size, have = float(number) * (1e9 if unit == "b" else 1e6), model.parameters.total
    if not SIZE_RANGE[0] <= have / size <= SIZE_RANGE[1]:
        yield f"parameters are {have:,}, which {number}{unit.upper()} in the name does not say"


def _formats(spec: ModelSpec) -> Iterator[str]:
    """A quantized repository only gives shapes, so the spec must state the model's own formats."""
    if spec.precision is not None:
        return
    for name, source in spec.sources.items():
        if QUANTIZED.search(source.url) or QUANTIZED.search(source.title):
            yield f"source {name!r} is a quantized repository ({source.title}); state the original precision"


def _names(spec: ModelSpec) -> Iterator[str]:
    seen = {spoken(spec.name)}
    for alias in (*spec.aliases, *spec.variants):
        if spoken(alias) in seen:
            yield f"name {alias!r} is listed twice, or is the spec's"
        seen.add(spoken(alias))
        if stored_precision(alias) is not None:
            yield f"name {alias!r} names a format, which is resolved without an alias"
