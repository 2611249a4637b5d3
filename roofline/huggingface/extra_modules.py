"""Modules of a checkpoint beyond its language model: multi-token prediction, and towers for images and sound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..model import Layer, Model, Tower
from ..model.blocks import MLP, Attention, MoE
from .family import Place
from .fields import Fields
from .image_towers import COUNTED_WITH
from .layer_groups import layer_at, layer_kinds
from .layer_kinds import prediction_blocks
from .text_config import TEXT_KEYS, Text
from .tower_shapes import tower_shape
from .towers import sees_images, tower
from .vision_encoders import patches

TOWER_KEYS = ("vision_config", "visual_config", "audio_config", "vit_config", "vision_tower_config", "speech_config")
OWN_KEYS = {
    "granite_speech": ("encoder_config",),
    "granite_speech_plus": ("encoder_config",),
    "phi3_v": ("img_processor",),
}
"""Wrapper -> other names of its towers' parts."""
TOWER_NAMES = {"encoder_config": "audio", "img_processor": "vision"}
"""Name of a part -> what its tower is called."""
PREDICTS = (
    *("deepseek_v3", "deepseek_v32", "kimi_k2", "kimi_k25", "glm4_moe", "glm_moe_dsa", "glm4_moe_lite"),
    *("bailing_moe", "bailing_moe_v2", "bailing_hybrid", "mimo", "exaone4_5", "exaone4_5_text"),
)
PREDICTS_DENSE = ("ernie4_5_moe", "exaone_moe", "step3p5", "step3p7", "step3p7_text")
PREDICTS_INDEXED = ("glm5_next", "glm5_next_text")
PREDICTS_V4 = ("deepseek_v4", "deepseek_ref")
PREDICTS_STEP = ("step3p5", "step3p7", "step3p7_text")
PREDICTS_QWEN = ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_5", "qwen3_5_moe")


NOT_PUBLISHED = ("minimax_m2", "minimax_m3")
"""Families whose files list multi-token prediction layers that no published checkpoint contains: MiniMax M2, M2.5, M2.7
(github.com/MiniMax-AI/MiniMax-M2.7/issues/16) and M3, whose tensors are those of the model without them."""


PART_KEYS = (*TOWER_KEYS, *(key for keys in OWN_KEYS.values() for key in keys))
"""All names of the parts that describe towers."""


class Beside(NamedTuple):
    """Modules beyond the language model: parameters by name, tower shapes, and notes on what could not be counted."""

    parameters: dict[str, int]
    towers: dict[str, Tower]
    left_out: tuple[str, ...]


def beside_the_text(data: Mapping[str, Any], text: Text, model: Model) -> Beside:
    """Count the modules beyond the text model, and read the shapes of towers.

    Raises
    ------
    SpecError
        A field is invalid.
    """
    apart, left_out = _prediction(text, model)
    towers: dict[str, Tower] = {}
    # Qwen's omni models put text model and towers inside the thinker.
    beside = data.get("thinker_config")
    parts = beside if isinstance(beside, Mapping) else data
    for key in (*TOWER_KEYS, *OWN_KEYS.get(str(data.get("model_type")), ())):
        inner = parts.get(key)
        if not isinstance(inner, Mapping):
            continue
        size = tower(data, inner, key, model.hidden)
        if size is None:
            left_out.append(f"{key}: the tower is not counted, since its shapes are unknown")
        else:
            name = TOWER_NAMES.get(key, key.removesuffix("_config"))
            apart[name], shape = size, tower_shape(data, inner, key, model.hidden)
            if shape is not None:
                towers[name] = shape
    apart |= _vision_experts(text, model) | _adapters(text, model)
    if text.model_type == "persimmon" and data.get("model_type") == "fuyu":
        apart["vision"] = patches(Fields(data, {}), model.hidden, bias=True)
    left_out.extend(_unknown_parts(data))
    if sees_images(str(data.get("model_type"))) and not any(key in parts for key in PART_KEYS):
        left_out.append(
            f"the encoder of images of {data.get('model_type')} is not counted: the file has none of its fields"
        )
    return Beside(apart, towers, tuple(left_out))


def _vision_experts(text: Text, model: Model) -> dict[str, int]:
    """Experts for the tokens of images beside those for text, in the same layers (ERNIE 4.5 VL).

    They occupy memory but do no work for text tokens.
    """
    widths = text.fields.get("moe_intermediate_size")
    if not (isinstance(widths, list) and len(widths) > 1 and text.family.router_bias):
        return {}
    counts = text.fields.get("num_experts")
    experts = counts[1] if isinstance(counts, list) and len(counts) > 1 else text.fields.first("num_experts")
    sizes = Fields({"experts": experts, "width": widths[1]}, {})
    each = 3 * model.hidden * sizes.size("width") + model.hidden + 1
    layers = 0
    for layer in model.layers:
        if any(isinstance(block, MoE) for block in layer.blocks):
            layers += layer.count
    return {"vision_experts": layers * sizes.size("experts") * each}


def _adapters(text: Text, model: Model) -> dict[str, int]:
    """Low-rank adapters of a checkpoint for each kind of input (Phi-4-multimodal, arXiv:2503.01743, section 2.2).

    Beside each matrix of attention and MLP are two of rank ``r``; queries, keys and values are one matrix, and so are
    gate and up: ``r (d_in + d_out)`` parameters each, 370 M for images and 460 M for speech.
    """
    found = {}
    for key in ADAPTER_KEYS:
        adapter = text.fields.get(key)
        if isinstance(adapter, Mapping):
            rank = Fields(adapter, {}).size("r")
            found[key] = rank * sum(layer.count * _spans(layer, model.hidden) for layer in model.layers)
    return found


ADAPTER_KEYS = ("vision_lora", "speech_lora")
"""Parts that describe adapters."""


def _spans(layer: Layer, hidden: int) -> int:
    """Widths of input and output of a layer's matrices, added up."""
    total = 0
    for block in layer.blocks:
        if isinstance(block, Attention):
            heads, keys = block.query_heads * block.head_dim, 2 * block.kv_heads * block.head_dim
            total += (hidden + heads + keys) + (heads + hidden)
        elif isinstance(block, MLP):
            total += (hidden + 2 * block.intermediate) + (block.intermediate + hidden)
    return total


def _unknown_parts(data: Mapping[str, Any]) -> Iterator[str]:
    """Other parts of a wrapper with layers or widths of their own: a talker, a vocoder, an audio tokenizer."""
    for key, inner in data.items():
        if not (isinstance(key, str) and key.endswith("_config") and isinstance(inner, Mapping)):
            continue
        wrapper = str(data.get("model_type"))
        counted = key in COUNTED_WITH.get(wrapper, ()) or key in OWN_KEYS.get(wrapper, ())
        if key not in (*TEXT_KEYS, *TOWER_KEYS) and not counted and WIDTHS & inner.keys():
            yield f"{key}: this part is not counted, since its shapes are unknown"


WIDTHS = frozenset(
    {
        *("hidden_size", "num_hidden_layers", "d_model", "dim", "depth", "n_embd", "encoder_layers", "text_config"),
        *("hidden_dim", "num_layers", "embed_dim", "num_blocks", "input_dim"),
    }
)
"""Fields that indicate a part with parameters."""


def _prediction(text: Text, model: Model) -> tuple[dict[str, int], list[str]]:
    """Multi-token prediction modules (DeepSeek-V3, arXiv:2412.19437, section 2.2).

    Each is one more layer, a projection of two hidden states to one, and three norms (ERNIE's has no last one);
    embedding and lm_head are the model's own.
    """
    modules = text.fields.optional("mtp_layers", least=0) or 0
    if not modules or text.model_type.startswith(NOT_PUBLISHED):
        return {}, []
    layers = _prediction_layers(text)
    if not layers:
        count = "one layer" if modules == 1 else f"{modules} layers"
        return {}, [f"{count} of multi-token prediction not counted, since their shapes are unknown"]
    size = sum(weight.parameters for layer in layers for weight in layer.weights())
    norms = 2 if text.model_type == "ernie4_5_moe" else 3
    joined = 2 * model.hidden**2 + norms * model.hidden
    return {"multi_token_prediction": modules * (size + joined)}, []


def _prediction_layers(text: Text) -> list[Layer]:
    """What one module has between projection and last norm; nothing where that is not known.

    Most have a layer like the last.  Qwen's have full attention in it, DeepSeek-V4's the window alone: the last entry
    of ``compress_ratios``, which has one more than there are layers, is 0.  Step's have a window and a dense MLP: the
    further entries of ``layer_types``, and layers that ``moe_layers_enum`` does not list.  ERNIE's has a dense MLP
    too, Nemotron's the blocks of a pattern of its own, and GLM-5.3-Flash's sparse attention as its every fourth layer.
    """
    kinds, inner = layer_kinds(text)
    if text.model_type == "nemotron_h":
        blocks = prediction_blocks(text.fields, text.family)
        places = [(Place(len(kinds) - 1, len(kinds), kind), mlp) for kind, mlp in blocks]
    elif text.model_type in (*PREDICTS_V4, *PREDICTS_STEP):
        places = [(Place(len(kinds), len(kinds) + 1, "sliding"), inner[-1])]
    elif text.model_type in (*PREDICTS, *PREDICTS_QWEN, *PREDICTS_DENSE, *PREDICTS_INDEXED):
        kind = "full" if text.model_type in PREDICTS_QWEN else kinds[-1]
        kind = "indexed" if text.model_type in PREDICTS_INDEXED else kind
        places = [(Place(len(kinds) - 1, len(kinds), kind), inner[-1])]
    else:
        return []
    dense = text.model_type in PREDICTS_DENSE
    return [layer_at(text, place, "dense" if dense else mlp, first=False)[0] for place, mlp in places]
