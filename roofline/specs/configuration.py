"""The ``config.json`` beside a model's spec, and differences between the two.

``model_specs/llama-3.1-8b.yaml`` is checked against ``model_specs/llama-3.1-8b.config.json``, the original file of the
repository that the spec names as its source, without formats if that repository is a quantized copy.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..model import Layer, Model
from ..model.blocks import KINDS, Block

CONFIG_SUFFIX = ".config.json"

_SAME = (
    *("hidden", "vocab", "tied_embeddings", "lm_head_bias", "final_norm", "position_rows", "embedding_norm"),
    *("embedding_rows", "embedding_width", "tables", "around", "encoder", "pooled", "has_lm_head", "apart", "towers"),
    "max_context_tokens",
)
"""Fields of a model that a configuration determines, besides layers and precision."""


def config_path(spec: Path) -> Path | None:
    """Path of the configuration beside a spec; None if there is none."""
    path = spec.with_name(spec.stem + CONFIG_SUFFIX)
    return path if path.is_file() else None


def read_config(path: Path, name: str) -> Model:
    """Read the model described by the configuration beside a spec.

    Raises
    ------
    SpecError
        The file cannot be read, or does not describe a supported model.
    """
    from ..files import read_json
    from ..huggingface import from_config
    from ..huggingface.checkpoint import CONFIG_MAX_BYTES

    return from_config(read_json(path, max_bytes=CONFIG_MAX_BYTES), name=name)


def differences(spec: Model, config: Model) -> Iterator[str]:
    """Yield one line for every difference between a spec and its configuration.

    Parameters
    ----------
    spec, config : Model
        Model from the spec, and from the ``config.json`` beside it. Precisions are compared only if the configuration
        states one.

    Yields
    ------
    str
        The difference with both values.
    """
    for field in _SAME:
        ours, theirs = getattr(spec, field), getattr(config, field)
        if ours != theirs:
            yield f"{field} is {_short(ours)}, but {_short(theirs)} in the config.json next to it"
    if config.precision is not None and spec.precision not in (None, config.precision):
        yield f"precision is {spec.precision}, but {config.precision} in the config.json next to it"
    if _layers(spec) != _layers(config):
        yield from _layer_differences(spec, config)


def _layer_differences(spec: Model, config: Model) -> Iterator[str]:
    """Differences in the layers: their number, kinds of blocks and sizes of blocks."""
    if spec.layer_count != config.layer_count:
        yield f"layers are {spec.layer_count}, but {config.layer_count} in the config.json next to it"
    ours, theirs = _sizes(spec), _sizes(config)
    before = 0
    for key in dict.fromkeys((*ours, *theirs)):
        if ours.get(key) != theirs.get(key):
            before += 1
            yield f"{key} is {_values(ours.get(key))}, but {_values(theirs.get(key))} in the config.json next to it"
    if not before and spec.layer_count == config.layer_count:
        yield "blocks are combined into layers in another way than in the config.json next to it"


def _sizes(model: Model) -> dict[str, Counter[Any]]:
    """Field such as ``attention.kv_heads`` -> number of layers with each value."""
    words = {kind: word for word, kind in KINDS.items()}
    found: dict[str, Counter[Any]] = {}
    for layer in model.layers:
        found.setdefault("layers.norms", Counter())[layer.norms] += layer.count
        found.setdefault("layers.together", Counter())[layer.together] += layer.count
        for block in layer.blocks:
            plain = _comparable(block)
            for field in dataclasses.fields(plain):
                key = f"{words.get(type(block), type(block).__name__)}.{field.name}"
                found.setdefault(key, Counter())[getattr(plain, field.name)] += layer.count
    return found


def _values(counts: Counter[Any] | None) -> str:
    if not counts:
        return "absent"
    if len(counts) == 1:
        return _short(next(iter(counts)))
    return ", ".join(f"{_short(value)} in {count} layers" for value, count in sorted(counts.items(), key=str))


def _short(value: Any) -> str:
    return f"{value!r:.60}"


def _layers(model: Model) -> Counter[Any]:
    """Layers by kind, regardless of order."""
    found: Counter[Any] = Counter()
    for layer in model.layers:
        found[_key(layer)] += layer.count
    return found


def _key(layer: Layer) -> tuple[Any, ...]:
    return tuple(_comparable(block) for block in layer.blocks), layer.norms, layer.reused, layer.together


def _comparable(block: Block) -> Any:
    """The block with details removed that a spec does not state, such as whether query norms are per head."""
    changed: Any = block
    if getattr(block, "qk_norm", None) == "head":
        changed = dataclasses.replace(changed, qk_norm=True)
    return changed
