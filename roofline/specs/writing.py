"""A model's spec written from its ``config.json``: the start of a new file in ``model_specs/``.

    python -m roofline.specs.writing config.json acme-7b "Acme 7B" acme/Acme-7B

copies the configuration to ``acme-7b.config.json`` and writes ``acme-7b.yaml`` beside it, in the current folder.
"""

from __future__ import annotations

import dataclasses
import shutil
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..errors import InvalidInput
from ..model import Layer, Model
from ..model.blocks import KINDS, Block
from ..operators.precision import Precision
from .configuration import CONFIG_SUFFIX, read_config

_ALWAYS = {"Attention": ("query_heads", "kv_heads", "head_dim"), "MLP": ("intermediate",)}
"""Fields that a reader looks for, written even where they are the default."""


def spec_text(model: Model, *, name: str, title: str, hub_id: str, accessed: str, aliases: tuple[str, ...] = ()) -> str:
    """The text of a spec that describes ``model``.

    Parameters
    ----------
    model : Model
        As its configuration says.
    name, title : str
        Of the new spec.
    hub_id : str
        The repository that the configuration is from.
    accessed : str
        When it was read: YYYY-MM-DD.
    aliases : tuple of str
        Other names.

    Returns
    -------
    str
        YAML.

    Raises
    ------
    InvalidInput
        The model has something that a spec can't say.
    """
    norm, per_layer = _norms(model)
    lines = [
        "# yaml-language-server: $schema=schema.json",
        f"name: {name}",
        f"title: {_text(title)}",
        *([f"aliases: [{', '.join(aliases)}]"] if aliases else []),
        "sources:",
        f'  config: {{title: "{hub_id} config.json", url: "https://huggingface.co/{hub_id}", accessed: "{accessed}"}}',
        f"hidden: {model.hidden}",
        f"vocab: {model.vocab}",
        *_plain_fields(model, norm),
        *_precision(model.precision),
        *_encoder(model, per_layer),
        "layers:",
    ]
    lines += [f"  {line}" for layer in model.layers for line in _layer(layer, model.hidden, per_layer)]
    return "\n".join(lines) + "\n"


def _layer(layer: Layer, hidden: int, per_layer: int) -> Iterator[str]:
    """One group of equal layers."""
    yield f"- count: {layer.count}"
    if len(layer.norms) != 2:
        yield f"  norms: {len(layer.norms)}"
    if any(each != per_layer for each in layer.norms):
        raise InvalidInput(f"a spec can't express norms of different widths: {layer.norms}")
    if layer.reused:
        yield "  reused: true"
    if layer.together:
        yield f"  together: {_flow(layer.together)}"
    yield from (f"  {line}" for block in layer.blocks for line in _block(block, hidden))


def _encoder(model: Model, per_layer: int) -> Iterator[str]:
    """The encoder of an encoder-decoder."""
    stack = model.encoder
    if stack is None:
        return
    yield "encoder:"
    if stack.positions:
        yield f"  positions: {stack.positions}"
    if stack.window_s:
        yield f"  window_s: {stack.window_s}"
    if stack.stem:
        yield f"  stem: {_flow([_fields(each, 0) for each in stack.stem])}"
    if stack.tables:
        yield "  tables:"
        yield from (f"    {table.name}: {{rows: {table.rows}, width: {table.width}}}" for table in stack.tables)
    yield "  layers:"
    yield from (f"    {line}" for layer in stack.layers for line in _layer(layer, model.hidden, per_layer))


def _norms(model: Model) -> tuple[str, int]:
    """The word for the kind of norm, and its parameters."""
    each = {norm for layer in model.layers for norm in layer.norms} | ({model.final_norm} - {0})
    if len(each) > 1:
        raise InvalidInput(f"a spec can't express norms of different widths: {sorted(each)}")
    width = each.pop() if each else 0
    words = {model.hidden: "rms", 2 * model.hidden: "layer", 0: "none"}
    if width not in words:
        raise InvalidInput(f"a norm of {width} parameters does not match a hidden width of {model.hidden}")
    return words[width], width


def _plain_fields(model: Model, norm: str) -> Iterator[str]:
    if norm != "rms":
        yield f"norm: {norm}"
    if model.tied_embeddings:
        yield "tied_embeddings: true"
    if model.lm_head_bias:
        yield "lm_head_bias: true"
    if not model.has_lm_head:
        yield "has_lm_head: false"
    if not model.final_norm and norm != "none":
        yield "final_norm: false"
    if model.embedding_norm:
        yield "embedding_norm: true"
    for field in ("position_rows", "embedding_rows", "embedding_width", "max_context_tokens"):
        if getattr(model, field):
            yield f"{field}: {getattr(model, field)}"
    if model.tables:
        yield "tables:"
        yield from (f"  {table.name}: {{rows: {table.rows}, width: {table.width}}}" for table in model.tables)
    for where, blocks in (("around", model.around), ("pooled", model.pooled)):
        if blocks:
            yield f"{where}:"
            yield from (f"  - {line}" for block in blocks for line in _block(block, model.hidden))
    if model.apart:
        yield f"apart: {_flow(dict(model.apart))}"
    yield from tower_lines(model)


def tower_lines(model: Model) -> Iterator[str]:
    """The shapes of a model's towers, one line per field."""
    if model.towers:
        yield "towers:"
    for name, tower in model.towers.items():
        yield f"  {name}:"
        for field, value in _fields(tower, 0).items():
            said = [_fields(each, 0) for each in value] if isinstance(value, tuple) else value
            yield f"    {field}: {_flow(said)}"


def _precision(precision: Precision | None) -> Iterator[str]:
    plain = Precision()
    if precision is None or precision == plain:
        return
    said: dict[str, Any] = {
        field: getattr(precision, field)
        for field in ("weights", "activations", "kv")
        if getattr(precision, field) != getattr(plain, field)
    }
    said = {"weights": precision.weights} | said
    if precision.exceptions:
        said["exceptions"] = dict(precision.exceptions)
    yield f"precision: {_flow(said)}"


def _block(block: Block, hidden: int) -> Iterator[str]:
    word = next(word for word, kind in KINDS.items() if kind is type(block))
    yield f"{word}: {_flow(_fields(block, hidden))}"


def _fields(value: Any, hidden: int) -> dict[str, Any]:
    """The fields of a block that are not their default; the hidden width is the model's."""
    always = _ALWAYS.get(type(value).__name__, ())
    found: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        given = getattr(value, field.name)
        if field.name == "hidden" and given == hidden:
            continue
        if given != field.default or field.name in always:
            found[field.name] = _fields(given, hidden) if dataclasses.is_dataclass(given) else given
    return found


def _flow(value: Any) -> str:
    """``value`` in YAML's flow style."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(each) for each in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)


def _text(text: str) -> str:
    return f'"{text}"' if ":" in text or "#" in text else text


def main(config: str, name: str, title: str, hub_id: str) -> None:
    """Write ``name.yaml`` and ``name.config.json`` into the current folder."""
    copy = Path(name + CONFIG_SUFFIX)
    if Path(config).resolve() != copy.resolve():
        shutil.copyfile(config, copy)
    today = datetime.now(UTC).date().isoformat()
    text = spec_text(read_config(copy, name), name=name, title=title, hub_id=hub_id, accessed=today)
    Path(name + ".yaml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:5])
