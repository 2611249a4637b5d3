"""GGUF files: the architecture and every tensor's type are in the header, so counts and bytes are exact."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from ..errors import SpecError
from ..formats import FORMATS, mixture
from ..model import Model
from ..operators.precision import Precision
from .reader import from_config

ARCHITECTURES = {
    "llama": "llama",
    "qwen2": "qwen2",
    "qwen2moe": "qwen2_moe",
    "qwen3": "qwen3",
    "qwen3moe": "qwen3_moe",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3": "gemma3_text",
    "phi2": "phi",
    "phi3": "phi3",
    "starcoder2": "starcoder2",
    "command-r": "cohere",
    "cohere2": "cohere2",
    "olmo2": "olmo2",
    "olmoe": "olmoe",
    "glm4": "glm4",
    "glm4moe": "glm4_moe",
    "granite": "granite",
    "granitemoe": "granitemoe",
    "falcon": "falcon",
    "gpt2": "gpt2",
    "gptneox": "gpt_neox",
    "deepseek2": "deepseek_v3",
    "gpt-oss": "gpt_oss",
    "exaone4": "exaone4",
    "smollm3": "smollm3",
    "mamba": "mamba",
    "seed_oss": "seed_oss",
}
"""``general.architecture`` -> ``model_type``."""

KEYS = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "context_length": "max_position_embeddings",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window",
    "attention.q_lora_rank": "q_lora_rank",
    "attention.kv_lora_rank": "kv_lora_rank",
    "attention.key_length_mla": "key_length_mla",
    "attention.value_length_mla": "v_head_dim",
    "rope.dimension_count": "qk_rope_head_dim",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_shared_count": "n_shared_experts",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "leading_dense_block_count": "first_k_dense_replace",
    "ssm.state_size": "state_size",
    "ssm.conv_kernel": "conv_kernel",
    "ssm.time_step_rank": "time_step_rank",
}
"""Key behind the architecture's name -> field of a ``config.json``."""

PARTS = (
    ("token_embd", "embedding"),
    ("output.weight", "lm_head"),
    ("_exps", "experts"),
    ("_shexp", "shared_experts"),
    ("attn_", "attention"),
    ("ffn_gate_inp", "router"),
    ("ffn_", "mlp"),
    ("ssm_", "mixer"),
)
"""What the name of a tensor has in it -> its part; the first that fits."""

TYPES = {"F32": "fp32", "F16": "fp16", "BF16": "bf16", "MXFP4": "mxfp4"}


def read_gguf(path: Path) -> Model:
    """The model in a GGUF file: shapes from its keys, formats and bytes from its tensors.

    Raises
    ------
    SpecError
        The ``gguf`` package is not installed, the file is no GGUF, or its architecture is not known here.
    """
    try:
        import gguf
    except ImportError:
        raise SpecError(f"{path} is a GGUF file; to read it, pip install 'roofline[gguf]'") from None
    if not path.is_file():
        raise SpecError(f"{path} can't be read: no such file")
    try:
        reader = gguf.GGUFReader(str(path))
        keys = {key: _plain(item) for key, item in reader.fields.items()}
        tensors = [(t.name, t.tensor_type.name, int(t.n_elements), int(t.n_bytes)) for t in reader.tensors]
        rows = {}
        for tensor in reader.tensors:
            if tensor.name == "token_embd.weight":
                rows[tensor.name] = [int(size) for size in tensor.shape]
    except Exception as error:
        raise SpecError(f"{path} is no readable GGUF file: {type(error).__name__}: {str(error)[:160]}") from None
    return _model(path, keys, tensors, rows)


def _plain(item: Any) -> Any:
    """The value of a key; of a list of texts (the vocabulary) only its length."""
    if item.types and item.types[0].name == "ARRAY" and item.types[-1].name == "STRING":
        return len(item.data)
    return item.contents()


def _model(
    path: Path, keys: dict[str, Any], tensors: list[tuple[str, str, int, int]], rows: dict[str, list[int]]
) -> Model:
    architecture = str(keys.get("general.architecture"))
    if architecture not in ARCHITECTURES:
        raise SpecError(f"{path}: architecture {architecture!r} is not known here; known: {', '.join(ARCHITECTURES)}")
    names = {name for name, *_ in tensors}
    config: dict[str, Any] = {
        field: keys[f"{architecture}.{key}"] for key, field in KEYS.items() if f"{architecture}.{key}" in keys
    }
    mixtral = architecture == "llama" and config.get("num_experts")
    config["model_type"] = "mixtral" if mixtral else ARCHITECTURES[architecture]
    config["vocab_size"] = rows.get("token_embd.weight", [0])[-1] or keys.get("tokenizer.ggml.tokens")
    config["tie_word_embeddings"] = "output.weight" not in names
    _latent(config)
    model = from_config(config, name=path.stem, source=str(path))
    total = sum(elements for _, _, elements, _ in tensors)
    precision, not_understood = _precision(tensors)
    doubts = [*not_understood, *model.doubts]
    if total != model.parameters.total:
        doubts.append(f"its tensors hold {total:,} values, its shapes {model.parameters.total:,} parameters")
    return model.replace(
        title=str(keys.get("general.name") or path.stem),
        precision=precision,
        checkpoint_bytes=sum(size for *_, size in tensors),
        doubts=tuple(doubts),
        assumptions=tuple(dict.fromkeys((*doubts, *model.assumptions))),
    )


def _latent(config: dict[str, Any]) -> None:
    """Widths of latent attention, which GGUF states as the whole key."""
    whole = config.pop("key_length_mla", None) or config.get("head_dim")
    if config.get("kv_lora_rank") and whole:
        config["qk_nope_head_dim"] = whole - config.get("qk_rope_head_dim", 0)
        config.pop("head_dim", None)
        config.setdefault("q_lora_rank", None)
    else:
        config.pop("qk_rope_head_dim", None)


def _precision(tensors: list[tuple[str, str, int, int]]) -> tuple[Precision | None, tuple[str, ...]]:
    """The formats of each part by its tensors: one, or a mixture of several; and notes on types that are not known."""
    stored: dict[str, Counter[str]] = {}
    unknown_types: set[str] = set()
    for name, kind, elements, _ in tensors:
        part = next((part for mark, part in PARTS if mark in name), None)
        if part is None or name.endswith(("norm.weight", ".bias")):
            continue
        stored_as = TYPES.get(kind, kind.lower())
        if stored_as not in FORMATS:
            unknown_types.add(kind)
        stored.setdefault(part, Counter())[stored_as] += elements
    if unknown_types:
        return None, (f"tensor types {', '.join(sorted(unknown_types))} are not known: formats are taken as bf16",)
    if not stored:
        return None, ()
    chosen = {part: mixture(values) for part, values in stored.items()}
    weights = chosen.get("experts") or chosen.get("mlp") or next(iter(chosen.values()))
    plain = Precision(weights=weights)
    exceptions = {part: name for part, name in chosen.items() if plain.weight_format(part) != name}
    return Precision(weights=weights, exceptions=exceptions), ()
