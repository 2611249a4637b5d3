"""GGUF files: counts and bytes are exact, since the header states the architecture and every tensor's type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ..errors import SpecError
from ..formats import FORMATS, mixture
from ..model import Model
from ..operators.precision import Precision
from .gguf_fields import Shapes, config_of
from .reader import from_config

PARTS = (
    ("token_embd", "embedding"),
    ("_exps", "experts"),
    ("_shexp", "shared_experts"),
    ("indexer", "indexer"),
    ("attn_", "attention"),
    ("ffn_gate_inp", "router"),
    ("ffn_", "mlp"),
    ("ssm_", "mixer"),
    ("shortconv", "mixer"),
)
"""Substring of a tensor name -> its part; the first match counts."""

TYPES = {"F32": "fp32", "F16": "fp16", "BF16": "bf16", "MXFP4": "mxfp4"}


def read_gguf(path: Path) -> Model:
    """Read the model in a GGUF file: shapes from its keys, formats and bytes from its tensors.

    Raises
    ------
    SpecError
        The ``gguf`` package is not installed, the file is not GGUF, or its architecture is unknown.
    """
    try:
        import gguf
    except ImportError:
        raise SpecError(f"{path} is a GGUF file; to read it, pip install 'roofline[gguf]'") from None
    if not path.is_file():
        raise SpecError(f"{path} can't be read: no such file")
    try:
        reader = gguf.GGUFReader(str(path))
        keys = {key: _plain(item) for key, item in reader.fields.items() if not key.startswith(UNUSED)}
        tensors = [(t.name, t.tensor_type.name, int(t.n_elements), int(t.n_bytes)) for t in reader.tensors]
        shapes = {t.name: tuple(int(size) for size in t.shape) for t in reader.tensors}
    except Exception as error:
        raise SpecError(f"{path} is not a readable GGUF file: {type(error).__name__}: {str(error)[:160]}") from None
    return _model(path, keys, tensors, shapes)


UNUSED = ("tokenizer.ggml.merges", "tokenizer.ggml.scores", "tokenizer.ggml.token_type", "tokenizer.chat_template")
"""Keys that are skipped, since they may be long and do not affect shapes."""


def _plain(item: Any) -> Any:
    """Value of a key; for a list of strings (the vocabulary) only its length."""
    if item.types and item.types[0].name == "ARRAY" and item.types[-1].name == "STRING":
        return len(item.data)
    return item.contents()


def _model(path: Path, keys: dict[str, Any], tensors: list[tuple[str, str, int, int]], shapes: Shapes) -> Model:
    try:
        config = config_of(str(keys.get("general.architecture")), keys, shapes)
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None
    except (TypeError, ValueError, LookupError, ArithmeticError) as error:
        # The keys of a file may be of any type.
        raise SpecError(f"{path}: a key has an unexpected value: {error}") from None
    model = from_config(config, name=path.stem, source=str(path))
    total = sum(elements for name, _, elements, _ in tensors if not _is_constant(name))
    precision, not_understood = _precision(tensors)
    doubts = [*not_understood, *model.doubts]
    if total not in (model.parameters.total, model.parameters.total + model.prediction_parameters):
        doubts.append(f"its tensors have {total:,} values, but its shapes give {model.parameters.total:,} parameters")
    return model.replace(
        title=str(keys.get("general.name") or path.stem),
        precision=precision,
        checkpoint_bytes=sum(size for *_, size in tensors),
        doubts=tuple(doubts),
        assumptions=tuple(dict.fromkeys((*doubts, *model.assumptions))),
    )


def _is_constant(name: str) -> bool:
    """Whether a tensor is not a parameter: tables of rotary frequencies, and the corrections of balanced routers."""
    return name.startswith(("rope_freqs", "rope_factors")) or "exp_probs_b" in name or "attn_rot_embd" in name


def _part_of(name: str, recurrent: Collection[str]) -> str | None:
    """Part of the model that a tensor belongs to; tensors beside a state space belong to the mixer."""
    if name.startswith("output."):
        return "lm_head"
    part = next((part for mark, part in PARTS if mark in name), None)
    beside_state = part == "attention" and name.partition(".attn_")[0] in recurrent
    return "mixer" if beside_state else part


def _precision(tensors: list[tuple[str, str, int, int]]) -> tuple[Precision | None, tuple[str, ...]]:
    """Format, or mixture of formats, of each part by its tensors, and notes on unknown types."""
    stored: dict[str, Counter[str]] = {}
    unknown_types: set[str] = set()
    recurrent = {name.rpartition(".ssm_")[0] for name, *_ in tensors if ".ssm_" in name}
    for name, kind, elements, _ in tensors:
        part = _part_of(name, recurrent)
        if part is None or name.endswith(("norm.weight", ".bias")):
            continue
        stored_as = TYPES.get(kind, kind.lower())
        if stored_as not in FORMATS:
            unknown_types.add(kind)
        stored.setdefault(part, Counter())[stored_as] += elements
    if unknown_types:
        return None, (f"tensor types {', '.join(sorted(unknown_types))} are unknown; assuming bf16",)
    if not stored:
        return None, ()
    chosen = {part: mixture(values) for part, values in stored.items()}
    weights = chosen.get("experts") or chosen.get("mlp") or next(iter(chosen.values()))
    plain = Precision(weights=weights)
    exceptions = {part: name for part, name in chosen.items() if plain.weight_format(part) != name}
    return Precision(weights=weights, exceptions=exceptions), ()
