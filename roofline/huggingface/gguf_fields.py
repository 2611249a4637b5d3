"""Derive the fields of a ``config.json`` from the keys and tensor shapes in the header of a GGUF file.

llama.cpp's keys state less than a configuration. The tensors show the rest: which layers have attention, recurrence
or experts, and whether there are biases and norms of queries and keys.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..errors import SpecError
from .families import FAMILIES

ARCHITECTURES = {
    **dict.fromkeys(("llama", "internlm2", "baichuan", "xverse", "llama-embed", "refact"), "llama"),
    "qwen": "qwen",
    **dict.fromkeys(("qwen2", "qwen2vl"), "qwen2"),
    "qwen2moe": "qwen2_moe",
    **dict.fromkeys(("qwen3", "qwen3vl", "maincoder"), "qwen3"),
    **dict.fromkeys(("qwen3moe", "qwen3vlmoe"), "qwen3_moe"),
    "qwen3next": "qwen3_next",
    "qwen35": "qwen3_5_text",
    "qwen35moe": "qwen3_5_moe_text",
    "gemma": "gemma",
    "gemma2": "gemma2",
    **dict.fromkeys(("gemma3", "gemma-embedding"), "gemma3_text"),
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "llama4": "llama4_text",
    "deci": "nemotron-nas",
    "arctic": "arctic",
    "mistral3": "ministral3",
    "phi2": "phi",
    "phi3": "phi3",
    "phimoe": "phimoe",
    "starcoder": "gpt_bigcode",
    **dict.fromkeys(("starcoder2", "codeshell"), "starcoder2"),
    "smallthinker": "mixtral",
    **dict.fromkeys(("command-r", "plamo"), "cohere"),
    "cohere2": "cohere2",
    "cohere2moe": "cohere2_moe",
    "chatglm": "chatglm",
    "bitnet": "bitnet",
    "dbrx": "dbrx",
    "grok": "grok-1",
    "orion": "orion",
    "pangu-embedded": "PanguEmbedded",
    "eurobert": "eurobert",
    "laguna": "laguna",
    "mellum": "mellum",
    "hy_v3": "hy_v3",
    "hunyuan_vl": "hunyuan_vl_text",
    "paddleocr": "paddleocr_vl_text",
    "deepseek": "deepseek",
    "deepseek32": "deepseek_v32",
    "olmo": "olmo",
    "olmo2": "olmo2",
    "olmoe": "olmoe",
    "glm4": "glm4",
    "glm4moe": "glm4_moe",
    "glm-dsa": "glm_moe_dsa",
    "granite": "granite",
    "granitemoe": "granitemoe",
    "granitehybrid": "granitemoehybrid",
    "falcon": "falcon",
    "falcon-h1": "falcon_h1",
    "gpt2": "gpt2",
    "gptneox": "gpt_neox",
    "gptj": "gptj",
    "bloom": "bloom",
    "mpt": "mpt",
    "deepseek2": "deepseek_v3",
    "mistral4": "mistral4",
    "minicpm": "minicpm",
    "minicpm3": "minicpm3",
    "kimi-linear": "kimi_linear",
    "gpt-oss": "gpt_oss",
    "exaone": "exaone",
    "exaone4": "exaone4",
    "exaone-moe": "exaone_moe",
    "smollm3": "smollm3",
    "seed_oss": "seed_oss",
    "apertus": "apertus",
    "arcee": "arcee",
    "afmoe": "afmoe",
    "bailingmoe": "bailing_moe",
    "bailingmoe2": "bailing_moe_v2",
    "dots1": "dots1",
    "ernie4_5": "ernie4_5",
    "ernie4_5-moe": "ernie4_5_moe",
    "hunyuan-dense": "hunyuan_v1_dense",
    "hunyuan-moe": "hunyuan_v1_moe",
    "jais2": "jais2",
    "minimax-m2": "minimax_m2",
    "mimo2": "mimo_v2_flash",
    "step35": "step3p5",
    "stablelm": "stablelm",
    "nemotron": "nemotron",
    **dict.fromkeys(("nemotron_h", "nemotron_h_moe"), "nemotron_h"),
    "lfm2": "lfm2",
    "lfm2moe": "lfm2_moe",
    "jamba": "jamba",
    "mamba": "mamba",
    "mamba2": "mamba2",
    **dict.fromkeys(("bert", "jina-bert-v2"), "bert"),
    "jina-bert-v3": "jina_embeddings_v3",
    "modern-bert": "modernbert",
    "nomic-bert": "nomic_bert",
    "t5": "t5",
}
"""``general.architecture`` -> ``model_type``."""

KEYS = {
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "context_length": "max_position_embeddings",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window",
    "attention.q_lora_rank": "q_lora_rank",
    "attention.kv_lora_rank": "kv_lora_rank",
    "attention.value_length_mla": "v_head_dim",
    "attention.shared_kv_layers": "num_kv_shared_layers",
    "attention.indexer.head_count": "index_n_heads",
    "attention.indexer.key_length": "index_head_dim",
    "attention.indexer.top_k": "index_topk",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_shared_count": "n_shared_experts",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "leading_dense_block_count": "first_k_dense_replace",
    "interleave_moe_layer_step": "interleave_moe_layer_step",
    "moe_latent_size": "moe_latent_size",
    "nextn_predict_layers": "num_nextn_predict_layers",
    "embedding_length_per_layer_input": "hidden_size_per_layer_input",
    "shortconv.l_cache": "conv_L_cache",
}
"""Key after the architecture's name -> field of a ``config.json``."""

ALWAYS: Mapping[str, Mapping[str, Any]] = {
    "arctic": {"use_residual": True},
    "lfm2": {"block_auto_adjust_ff_dim": False},
    "lfm2moe": {"block_auto_adjust_ff_dim": False},
}
"""Values that llama.cpp assumes and a configuration states."""

Shapes = Mapping[str, tuple[int, ...]]
"""Name of a tensor -> its shape in GGUF order (input width first)."""


def config_of(architecture: str, keys: Mapping[str, Any], shapes: Shapes) -> dict[str, Any]:
    """Return the fields of a configuration that describes the model in a GGUF file.

    Parameters
    ----------
    architecture : str
        Value of ``general.architecture``.
    keys : mapping of str to object
        Keys of the file.
    shapes : mapping of str to tuple of int
        Shapes of the tensors by name.

    Raises
    ------
    SpecError
        The architecture is unknown.
    """
    if architecture not in ARCHITECTURES:
        raise SpecError(f"architecture {architecture!r} is unknown; known: {', '.join(sorted(ARCHITECTURES))}")
    own = {key.removeprefix(f"{architecture}."): value for key, value in keys.items() if key.startswith(architecture)}
    config = {field: _collapsed(own[key]) for key, field in KEYS.items() if key in own}
    config["model_type"] = ARCHITECTURES[architecture]
    if architecture == "llama" and config.get("num_experts"):
        config["model_type"] = "mixtral"
    config["num_hidden_layers"] = own.get("block_count", 0) - (own.get("nextn_predict_layers") or 0)
    table = shapes.get("token_embd.weight")
    config["vocab_size"] = table[-1] if table else keys.get("tokenizer.ggml.tokens")
    config["tie_word_embeddings"] = "output.weight" not in shapes
    config |= ALWAYS.get(architecture, {})
    if architecture == "llama4":
        config["intermediate_size_mlp"] = config.get("intermediate_size")
    heads = config.get("num_attention_heads")
    if isinstance(heads, int) and heads and "hidden_size" in config:
        config.setdefault("head_dim", config["hidden_size"] // heads)  # llama.cpp's default too
    _latent(config, own)
    _flags(config, shapes)
    for add in (_layer_kinds, _windows, _experts, _state_space, _searched, _gemma3n, _gemma4, _bert, _t5):
        add(config, architecture, own, shapes)
    return config


def _collapsed(value: Any) -> Any:
    """Collapse a list with one entry per layer to a single value if all nonzero entries are equal."""
    if not isinstance(value, list):
        return value
    used = {item for item in value if item}
    return used.pop() if len(used) == 1 else value


def _latent(config: dict[str, Any], own: Mapping[str, Any]) -> None:
    """Widths of latent attention, which GGUF states as one width of the whole key."""
    rotary = own.get("rope.dimension_count") or 0
    whole = own.get("attention.key_length_mla") or own.get("attention.key_length")
    if config.get("kv_lora_rank") and isinstance(whole, int):
        config |= {"qk_rope_head_dim": rotary, "qk_nope_head_dim": whole - rotary}
        config.setdefault("v_head_dim", own.get("attention.value_length"))
        config.pop("head_dim", None)
        config.setdefault("q_lora_rank", None)
    elif own.get("attention.value_length") not in (None, own.get("attention.key_length")):
        config["v_head_dim"] = own["attention.value_length"]


def _flags(config: dict[str, Any], shapes: Shapes) -> None:
    """Fields that turn on biases and norms of queries and keys in this family."""
    family = FAMILIES.get(config["model_type"])
    if family is None:
        return
    names = {name.split(".", 2)[-1] for name in shapes if name.startswith("blk.")}
    decided = {
        family.qk_norm_flag: "attn_q_norm.weight" in names,
        family.mlp_bias: "ffn_up.bias" in names,
        family.output_bias: "attn_output.bias" in names,
        family.qkv_bias: bool({"attn_q.bias", "attn_qkv.bias"} & names),
    }
    config |= {flag: value for flag, value in decided.items() if isinstance(flag, str) and flag}


def tensors_by_layer(shapes: Shapes, layers: int) -> list[set[str]]:
    """Tensor names of each layer, relative to the layer."""
    found: list[set[str]] = [set() for _ in range(layers)]
    for name in shapes:
        parts = name.split(".", 2)
        if parts[0] == "blk" and len(parts) == 3 and parts[1].isdigit() and int(parts[1]) < layers:
            found[int(parts[1])].add(parts[2].removesuffix(".weight"))
    return found


RECURRENT = ("ssm_out", "ssm_conv1d", "ssm_conv1d_q", "shortconv.conv")
"""Tensors that only recurrent layers have."""

HYBRIDS = {"qwen3next", "qwen35", "qwen35moe", "kimi-linear", "granitehybrid", "lfm2", "lfm2moe", "jamba"}
"""Architectures whose layers have attention or recurrence, each with an MLP."""


def _layer_kinds(config: dict[str, Any], architecture: str, own: Mapping[str, Any], shapes: Shapes) -> None:
    layers = tensors_by_layer(shapes, config["num_hidden_layers"])
    if architecture in HYBRIDS:
        recurrent = [any(name in names for name in RECURRENT) for names in layers]
        config["layer_types"] = ["linear_attention" if found else "full_attention" for found in recurrent]
    if architecture.startswith("nemotron_h"):
        config["hybrid_override_pattern"] = "".join(_letter(names) for names in layers)


def _letter(names: Collection[str]) -> str:
    """Letter for a layer with a single block: M(amba), * (attention), E(xperts), - (MLP)."""
    if "ssm_out" in names:
        return "M"
    if "attn_q" in names:
        return "*"
    return "E" if "ffn_gate_inp" in names else "-"


def _windows(config: dict[str, Any], architecture: str, own: Mapping[str, Any], shapes: Shapes) -> None:
    """Which layers have a window: one bool per layer, or the period of layers without one."""
    if architecture == "smallthinker" and config.get("sliding_window"):  # llama.cpp: every fourth layer sees all tokens
        layers = range(config["num_hidden_layers"])
        config["layer_types"] = ["sliding_attention" if at % 4 else "full_attention" for at in layers]
    pattern = own.get("attention.sliding_window_pattern")
    if isinstance(pattern, list) and "layer_types" not in config:
        words = ["sliding_attention" if windowed else "full_attention" for windowed in pattern]
        config["layer_types"] = words[: config["num_hidden_layers"]]
    elif isinstance(pattern, int) and not isinstance(pattern, bool):
        config["sliding_window_pattern"] = pattern


def _experts(config: dict[str, Any], architecture: str, own: Mapping[str, Any], shapes: Shapes) -> None:
    """Which layers have experts, and the width of shared experts if only their tensors show it."""
    if not config.get("num_experts"):
        return
    layers = tensors_by_layer(shapes, config["num_hidden_layers"])
    config["mlp_layer_types"] = ["sparse" if "ffn_gate_inp" in names else "dense" for names in layers]
    shared = next((shape for name, shape in shapes.items() if name.endswith(".ffn_up_shexp.weight")), None)
    if shared is not None and architecture != "llama4":
        config["shared_expert_intermediate_size"] = shared[-1]
    routed = next((shape for name, shape in shapes.items() if name.endswith(".ffn_down_exps.weight")), None)
    if routed is not None:
        config.setdefault("moe_intermediate_size", routed[0])
    config["enable_moe_block"] = any("ffn_gate_inp" in names and "pre_ffw_norm_2" in names for names in layers) or None


def _state_space(config: dict[str, Any], architecture: str, own: Mapping[str, Any], shapes: Shapes) -> None:
    """Shapes of recurrent layers; the meaning of ``ssm.*`` depends on their kind."""
    state, inner = own.get("ssm.state_size"), own.get("ssm.inner_size")
    rank, groups, taps = (own.get(f"ssm.{name}") for name in ("time_step_rank", "group_count", "conv_kernel"))
    if architecture in ("qwen3next", "qwen35", "qwen35moe") and inner and rank:
        config |= {"linear_num_key_heads": groups, "linear_key_head_dim": state, "linear_num_value_heads": rank}
        config |= {"linear_value_head_dim": inner // rank, "linear_conv_kernel_dim": taps}
    elif architecture == "kimi-linear":
        config |= {"linear_num_heads": config.get("num_attention_heads"), "linear_head_dim": own.get("kda.head_dim")}
        config["linear_conv_kernel_dim"] = taps
    elif groups:
        config |= {"mamba_n_heads": rank, "mamba_d_state": state, "mamba_n_groups": groups, "mamba_d_conv": taps}
        config |= {"mamba_d_ssm": inner, "mamba_d_head": inner // rank if inner and rank else None}
        config |= {"num_heads": rank, "head_dim": inner // rank} if architecture == "mamba2" and inner and rank else {}
        biases = {
            "mamba_conv_bias": "ssm_conv1d.bias",
            "mamba_proj_bias": "ssm_in.bias",
            "mamba_rms_norm": "ssm_norm.weight",
        }
        config |= {flag: any(name.endswith(tensor) for name in shapes) for flag, tensor in biases.items()}
    elif state:
        config |= {"state_size": state, "conv_kernel": taps, "time_step_rank": rank}
        if architecture == "jamba":
            config |= {"mamba_d_state": state, "mamba_d_conv": taps, "mamba_dt_rank": rank}
            config["mamba_expand"] = inner // config["hidden_size"] if inner else 2
        elif inner:
            config["intermediate_size"] = inner


def _of_layers(value: Any, layers: int) -> list[Any]:
    """Value per layer, also if the file has a single value for all."""
    return value if isinstance(value, list) else [value] * layers


def _searched(config: dict[str, Any], architecture: str, own: Mapping[str, Any], shapes: Shapes) -> None:
    """Deci: layers found by search, with individual heads and inner widths, or without attention or MLP."""
    if architecture != "deci":
        return
    layers = config["num_hidden_layers"]
    names = ("attention.head_count", "attention.head_count_kv", "feed_forward_length")
    heads, kv, inner = (_of_layers(own.get(name), layers) for name in names)
    config["num_attention_heads"] = max(heads)
    config["block_configs"] = [
        {
            "attention": _searched_attention(heads[at], kv[at]),
            "ffn": {"no_op": not inner[at], "intermediate_size": inner[at]},
        }
        for at in range(layers)
    ]


def _searched_attention(heads: Any, kv: Any) -> dict[str, Any]:
    if not heads:
        return {"no_op": True}
    if kv:
        return {"n_heads_in_group": heads // kv}
    return {"replace_with_linear": True}


def _gemma3n(config: dict[str, Any], architecture: str, own: Mapping[str, Any], shapes: Shapes) -> None:
    """Gemma 3n: parallel copies of the stream, a low-rank path beside attention, and embeddings per layer."""
    if architecture != "gemma3n":
        return
    config["altup_num_inputs"] = own.get("altup.num_inputs") or 4
    low = next((shape for name, shape in shapes.items() if name.endswith(".laurel_l.weight")), None)
    table = shapes.get("per_layer_token_embd.weight")
    config |= {"laurel_rank": low[-1] if low else None, "vocab_size_per_layer_input": table[-1] if table else None}


ENCODER_CLASSES = {
    "bert": "BertModel",
    "jina-bert-v2": "JinaBertModel",
    "jina-bert-v3": "JinaEmbeddingsV3Model",
    "modern-bert": "ModernBertModel",
    "nomic-bert": "NomicBertModel",
}
"""Architectures of text encoders -> class of the same layers."""


def _bert(config: dict[str, Any], architecture: str, own: Mapping[str, Any], shapes: Shapes) -> None:
    """BERT and its relatives, whose tables show how many positions and segments there are; poolers are left out."""
    if architecture not in ENCODER_CLASSES:
        return
    config |= {"architectures": [ENCODER_CLASSES[architecture]], "add_pooling_layer": False}
    if table := shapes.get("position_embd.weight"):
        config["max_position_embeddings"] = table[-1]
    if architecture == "modern-bert":
        config["local_attention"] = own.get("attention.sliding_window")
        config["global_attn_every_n_layers"] = own.get("attention.sliding_window_pattern")
    else:
        kinds = shapes.get("token_types.weight")
        config["type_vocab_size"] = kinds[-1] if kinds else 0


def _t5(config: dict[str, Any], architecture: str, own: Mapping[str, Any], shapes: Shapes) -> None:
    """T5: an encoder and a decoder, whose layers are named apart."""
    if architecture != "t5":
        return
    config |= {"architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True}
    config |= {"d_model": config.get("hidden_size"), "d_ff": config.get("intermediate_size")}
    config |= {"d_kv": own.get("attention.key_length"), "num_heads": config.get("num_attention_heads")}
    config["num_layers"] = config["num_hidden_layers"]
    config["num_decoder_layers"] = own.get("decoder_block_count") or config["num_layers"]
    config["relative_attention_num_buckets"] = own.get("attention.relative_buckets_count") or 32
    gated = any(name.endswith(".ffn_gate.weight") for name in shapes)
    config["feed_forward_proj"] = "gated-gelu" if gated else "relu"


def _gemma4(config: dict[str, Any], architecture: str, own: Mapping[str, Any], shapes: Shapes) -> None:
    """Gemma 4: two head widths, keys reused as values in full attention, wider MLPs in layers with a shared cache."""
    if architecture != "gemma4":
        return
    kinds = config.get("layer_types") or []
    if own.get("attention.key_length_swa"):
        config |= {"head_dim": own["attention.key_length_swa"], "global_head_dim": own.get("attention.key_length")}
    config.pop("v_head_dim", None)
    kv = own.get("attention.head_count_kv")
    if isinstance(kv, list) and len(kv) >= len(kinds):
        config["num_key_value_heads"] = next(
            (kv[at] for at, kind in enumerate(kinds) if kind != "full_attention"), kv[0]
        )
        config["num_global_key_value_heads"] = next(
            (kv[at] for at, kind in enumerate(kinds) if kind == "full_attention"), kv[0]
        )
    layers = tensors_by_layer(shapes, config["num_hidden_layers"])
    config["attention_k_eq_v"] = any("attn_k" in names and "attn_v" not in names for names in layers)
    wide = own.get("feed_forward_length")
    if isinstance(wide, list):
        config |= {"intermediate_size": wide[0], "use_double_wide_mlp": wide[-1] == 2 * wide[0]}
