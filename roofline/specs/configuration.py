"""The ``config.json`` that stands beside a model's spec, and what in the spec differs from it.

``model_specs/llama-3.1-8b.yaml`` is held against ``model_specs/llama-3.1-8b.config.json``: the plain file of the
repository that the spec names as its source, without formats if the repository is a quantized copy.
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
"""Fields of a model that a configuration decides, beside its layers and its precision."""


def config_path(spec: Path) -> Path | None:
    """The configuration beside a spec, or None if there is none."""
    path = spec.with_name(spec.stem + CONFIG_SUFFIX)
    return path if path.is_file() else None


def read_config(path: Path, name: str) -> Model:
    """The model that the configuration beside a spec describes.

    Raises
    ------
    SpecError
        The file can't be read, or is no model that can be built.
    """
    from ..files import read_json
    from ..huggingface import from_config
    from ..huggingface.checkpoint import CONFIG_MAX_BYTES

    return from_config(read_json(path, max_bytes=CONFIG_MAX_BYTES), name=name)


def differences(spec: Model, config: Model) -> Iterator[str]:
    """Yield one line for everything that a spec says otherwise than its configuration.

    Parameters
    ----------
    spec, config : Model
        The model by the spec, and by the ``config.json`` beside it. A precision is compared only where the
        configuration states one.

    Yields
    ------
    str
        What differs and both values.
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
    """What is unlike in the layers: their number, the kinds of blocks, the sizes of the blocks."""
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
    """``attention.kv_heads`` -> how many layers have which value."""
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
    """Layers by what they are made of, whatever their order."""
    found: Counter[Any] = Counter()
    for layer in model.layers:
        found[_key(layer)] += layer.count
    return found


def _key(layer: Layer) -> tuple[Any, ...]:
    return tuple(_comparable(block) for block in layer.blocks), layer.norms, layer.reused, layer.together


def _comparable(block: Block) -> Any:
    """The block with what a spec does not tell apart made alike: a norm of queries and keys a head, or over all."""
    changed: Any = block
    if getattr(block, "qk_norm", None) == "head":
        changed = dataclasses.replace(changed, qk_norm=True)
    return changed
