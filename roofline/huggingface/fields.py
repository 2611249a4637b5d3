"""Fields of a ``config.json`` under one name per quantity, with the defaults of the model's class."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import SpecError
from ..model.blocks.block import LARGEST

ALIASES: dict[str, tuple[str, ...]] = {
    "hidden_size": ("n_embd", "d_model", "n_embed", "model_dim", "embedding_dim", "dim"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers", "num_blocks", "num_transformer_layers"),
    "num_attention_heads": ("n_head", "n_heads", "num_heads", "attention_heads", "num_query_heads"),
    "num_key_value_heads": ("num_kv_heads", "n_head_kv", "n_kv_heads", "kv_n_heads", "num_attention_groups"),
    "head_dim": ("kv_channels", "attention_head_dim", "head_size", "d_head"),
    "v_head_dim": ("value_head_dim",),
    "intermediate_size": (
        "n_inner",
        "ffn_dim",
        "ffn_hidden_size",
        "d_ff",
        "inner_hidden_size",
        "intermediate_dim",
        "block_ff_dim",
    ),
    "vocab_size": ("padded_vocab_size", "n_vocab"),
    "max_position_embeddings": (
        "n_positions",
        "max_seq_len",
        "seq_length",
        "n_ctx",
        "max_sequence_length",
        "model_max_length",
        "context_length",
    ),
    "num_experts": ("num_local_experts", "n_routed_experts", "moe_num_experts", "num_routed_experts"),
    "num_experts_per_tok": (
        "num_experts_per_token",
        "moe_k",
        "moe_topk",
        "moe_top_k",
        "top_k_experts",
        "num_experts_per_topk",
        "num_selected_experts",
    ),
    "moe_intermediate_size": ("expert_ffn_hidden_size", "moe_ffn_hidden_size", "expert_intermediate_size"),
    "n_shared_experts": ("num_shared_experts", "moe_num_shared_experts", "num_shared_expert"),
    "shared_expert_intermediate_size": (
        "moe_shared_expert_intermediate_size",
        "share_expert_dim",
        "shared_intermediate_size",
        "shared_experts_intermediate_size",
    ),
    "dense_intermediate_size": ("intermediate_size_mlp", "prefix_dense_intermediate_size"),
    "sliding_window": ("window_size", "attention_window_size", "sliding_window_size", "attention_chunk_size"),
    "tie_word_embeddings": ("tie_embedding", "tie_embeddings", "tie_lm_head"),
    "first_k_dense_replace": ("num_dense_layers", "n_dense_layers", "moe_num_dense_layers", "first_k_dense"),
    "mtp_layers": ("num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers", "num_mtp_layers"),
    "moe_latent_size": ("routed_expert_hidden_size", "moe_hidden_size"),
}
"""Name of a quantity here -> its other names in configurations."""

CORE = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")
"""Fields that a configuration has to state, since a class's default would be that of another model."""

NESTED = ("attn_config", "ffn_config", "linear_attn_config", "ssm_cfg", "sparse_attention_config")
"""Sub-mappings with fields of the text model."""


@cache
def class_defaults() -> Mapping[str, Any]:
    """``types``: model_type -> field -> default; ``wrappers``: model_type -> where its text model is."""
    path = Path(__file__).with_name("class_defaults.json")
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


def own_name(name: str, data: Mapping[str, Any], model_type: str = "") -> str:
    """The given name of a model, else the one in its file, else its ``model_type``."""
    return name or str(data.get("_name_or_path") or model_type or data.get("model_type"))


class MissingField(SpecError):
    """A required field is absent."""


class Fields:
    """A configuration with one name per quantity, which records the values that are a class's defaults.

    Parameters
    ----------
    data : mapping of str to object
        The text model's part of a ``config.json``.
    defaults : mapping of str to object
        Defaults of its class for absent fields.
    partial : bool
        Whether the file lists only differences from the class, as nested text configurations do.  Even the `CORE`
        fields may then come from ``defaults``.
    """

    def __init__(
        self,
        data: Mapping[str, Any],
        defaults: Mapping[str, Any],
        *,
        partial: bool = False,
        read: set[str] | None = None,
    ) -> None:
        self.data = dict(data)
        self.read: set[str] = set() if read is None else read
        for key in NESTED:
            inner = data.get(key)
            if isinstance(inner, Mapping):
                self.data = {**inner, **self.data}
        self.defaults = defaults
        self.partial = partial
        self.defaulted: dict[str, Any] = {}

    def at_layer(self, layer: int) -> Fields:
        """Fields of one layer, with its overrides from ``per_layer_config``."""
        listed = self.data.get("per_layer_config")
        own = None
        if isinstance(listed, Mapping):
            own = next((listed[key] for key in (str(layer), f"{layer:02d}", layer) if key in listed), None)
        if not isinstance(own, Mapping):
            return self
        wide = {"global_head_dim": own["head_dim"]} if own.get("head_dim") else {}
        return Fields({**self.data, **wide, **own}, self.defaults, partial=self.partial, read=self.read)

    def given(self, name: str) -> bool:
        """Whether the file itself has the field, even if it is null."""
        names = (name, *ALIASES.get(name, ()))
        self.read.update(names)
        return any(key in self.data for key in names)

    def get(self, name: str, otherwise: Any = None) -> Any:
        """Value under any of its names, else the class's default, else ``otherwise``.  A null in the file is None."""
        names = (name, *ALIASES.get(name, ()))
        self.read.update(names)
        for key in names:
            if self.data.get(key) is not None:
                return self.data[key]
        if self.given(name):
            return otherwise
        for key in names:
            if self.defaults.get(key) is not None and (name not in CORE or self.partial):
                self.defaulted[key] = self.defaults[key]
                return self.defaults[key]
        return otherwise

    def name_of(self, name: str) -> str:
        """Name of the field in the file."""
        return next((key for key in (name, *ALIASES.get(name, ())) if key in self.data), name)

    def size(self, name: str, *, least: int = 1) -> int:
        """Required integer.

        Raises
        ------
        SpecError
            The field is missing, or is not an integer from ``least`` to a billion.
        """
        value = self.get(name)
        if value is None:
            others = ALIASES.get(name, ())
            raise MissingField(f"{name} is missing" + (f" (also looked for: {', '.join(others)})" if others else ""))
        return self._whole(self.name_of(name), value, least)

    def optional(self, name: str, *, least: int = 1) -> int | None:
        """Integer, or None if the field is absent or null.

        Raises
        ------
        SpecError
            The field is present, but is not an integer from ``least`` to a billion.
        """
        value = self.get(name)
        if value is None:
            return None
        return self._whole(self.name_of(name), value, least)

    def at(self, name: str, layer: int, *, least: int = 1) -> int | None:
        """`optional`, for a field that may be a list with one entry per layer.

        Raises
        ------
        SpecError
            The list is too short, or the entry is not an integer.
        """
        value = self.get(name)
        if not isinstance(value, list):
            return self.optional(name, least=least)
        if layer >= len(value):
            raise SpecError(f"{self.name_of(name)} has {len(value)} entries, but there is a layer {layer}")
        return self._whole(f"{self.name_of(name)}[{layer}]", value[layer], least)

    def first(self, name: str) -> int:
        """`size`, for a field that may be a list with one entry per modality, text first.

        Raises
        ------
        SpecError
            The field is missing or an empty list, or the entry is not an integer.
        """
        value = self.get(name)
        if not isinstance(value, list):
            return self.size(name)
        return self._whole(f"{self.name_of(name)}[0]", value[0] if value else None, 1)

    def flag(self, name: str, otherwise: bool = False) -> bool:
        """Bool; 0 and 1 are accepted.

        Raises
        ------
        SpecError
            The field is neither a bool nor 0 or 1.
        """
        value = self.get(name)
        if value is None:
            return otherwise
        if isinstance(value, bool) or value in (0, 1):
            return bool(value)
        raise SpecError(f"{self.name_of(name)} must be true or false: {value!r:.80}")

    def text(self, name: str) -> str | None:
        """String, or None if absent."""
        value = self.get(name)
        if value is not None and not isinstance(value, str):
            raise SpecError(f"{self.name_of(name)} must be text: {value!r:.80}")
        return value

    def entries(self, name: str, count: int | None = None) -> list[Any] | None:
        """List, or None if absent; with ``count`` it must have one entry per layer.

        Raises
        ------
        SpecError
            The field is not a list, or has a different length.
        """
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise SpecError(f"{self.name_of(name)} must be a list: {value!r:.80}")
        if count is not None and len(value) < count:
            raise SpecError(f"{self.name_of(name)} has {len(value)} entries for {count} layers")
        return value[:count]

    @staticmethod
    def _whole(name: str, value: Any, least: int) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
            raise SpecError(f"{name} must be an integer from {least} to {LARGEST:,}: {value!r:.80}")
        return value
