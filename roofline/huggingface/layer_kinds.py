"""Kind of mixer and MLP of each layer of a model, from its fields.

Mixers are ``full``, ``sliding``, ``chunked``, ``linear`` (whatever recurrent kind the family has), ``hybrid``,
``indexed``, ``compressed_sparse``, ``heavily_compressed``, ``none`` and ``cross``; MLPs are ``dense``, ``moe`` and
``none``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..errors import SpecError
from ..model import MOST_LAYERS
from .family import Family
from .fields import Fields

WORDS = {
    "full": "full attention full_attention global global_attention * standard reference_sliding_attention",
    "sliding": "sliding sliding_attention hybrid_sliding local local_attention sliding_window swa",
    "chunked": "chunked_attention",
    "linear": "linear_attention linear mamba mamba2 m recurrent conv kda gated_delta_net short_conv ssm",
    "hybrid": "hybrid",
    "indexed": "indexed_attention deepseek_sparse_attention minimax_m3_sparse sparse_attention sparse",
    "compressed_sparse": "compressed_sparse_attention",
    "heavily_compressed": "heavily_compressed_attention",
    "none": "mlp moe - e",
}
_MEANING: dict[str, str] = {}
for _kind, _words in WORDS.items():
    _MEANING.update(dict.fromkeys(_words.split(), _kind))
DENSE, SPARSE = ("dense", "mlp", "-"), ("sparse", "moe", "hash_moe", "e")


def layer_count(fields: Fields) -> int:
    """Number of layers: stated, or the length of the pattern if only that is given.

    Raises
    ------
    SpecError
        Neither is given, or the number is implausible.
    """
    pattern = pattern_of(fields) or fields.entries("layers_block_type")
    if pattern and fields.get("num_hidden_layers") is None:
        return _bounded(len(pattern), "hybrid_override_pattern")
    return _bounded(fields.size("num_hidden_layers"), fields.name_of("num_hidden_layers"))


def _bounded(count: int, name: str) -> int:
    if not 1 <= count <= MOST_LAYERS // 10:
        raise SpecError(f"{name} must be from 1 to {MOST_LAYERS // 10:,} layers: {count}")
    return count


def mixers(fields: Fields, family: Family, layers: int) -> list[str]:
    """The mixer of each layer.

    Raises
    ------
    SpecError
        A pattern has the wrong length or an unknown entry.
    """
    for rule in (_listed, _block_pattern, _sparse_frequency, _compressed, _by_index, _by_interval):
        found = rule(fields, family, layers)
        if found is not None:
            return _with_cross(fields, found)
    return _with_cross(fields, _by_window(fields, family, layers))


def _listed(fields: Fields, family: Family, layers: int) -> list[str] | None:
    """Kinds from ``layer_types`` or its other names; a short ``block_types`` is repeated."""
    for name in ("layer_types", "layers_block_type", "attention_layers"):
        words = fields.entries(name, layers)
        if words is not None:
            return [_meaning(word, f"{name}[{at}]", fields, family) for at, word in enumerate(words)]
    words = fields.entries("block_types")
    if words:
        found = [_meaning(word, f"block_types[{at}]", fields, family) for at, word in enumerate(words)]
        return [found[at % len(found)] for at in range(layers)]
    repeated = fields.entries("attention_types")
    if repeated:
        words = []
        for pattern, times in repeated:
            words.extend(list(pattern) * min(int(times), layers))
        return [_meaning(word, f"attention_types[{at}]", fields, family) for at, word in enumerate(words[:layers])]
    kinds = fields.entries("attn_type_list", layers)
    if kinds is not None:
        return _marked(layers, _set(kinds), "full", "linear")
    return None


def _marked(layers: int, chosen: Iterable[int], kind: str, other: str) -> list[str]:
    """``kind`` for the chosen layers, ``other`` for the rest."""
    found = [other] * layers
    for at in set(chosen).intersection(range(layers)):
        found[at] = kind
    return found


def _set(flags: Iterable[Any]) -> list[int]:
    """Numbers of the layers whose flag is set."""
    return [at for at, flag in enumerate(flags) if flag]


def _meaning(word: Any, where: str, fields: Fields, family: Family) -> str:
    kind = _MEANING.get(str(word).lower())
    if kind is None:
        raise SpecError(f"{where} is {word!r:.60}, which is not a known kind of layer")
    if kind == "sliding" and _window_off(fields, family):
        return "full"
    return kind


def _window_off(fields: Fields, family: Family) -> bool:
    switched_off = bool(family.window_flag) and not fields.flag(family.window_flag)
    return switched_off or fields.get("sliding_window") == -1 or fields.optional("sliding_window", least=0) in (None, 0)


def pattern_of(fields: Fields) -> str | None:
    """``hybrid_override_pattern``, one text or a list of letters."""
    given: Any = fields.get("hybrid_override_pattern")
    if isinstance(given, list) and given and all(isinstance(each, str) and len(each) == 1 for each in given):
        return "".join(given)
    return fields.text("hybrid_override_pattern")


def _block_pattern(fields: Fields, family: Family, layers: int) -> list[str] | None:
    """``hybrid_override_pattern``: one letter per layer, M(amba), E(xperts), * (attention), - (MLP)."""
    pattern = pattern_of(fields)
    if pattern is None:
        return None
    if len(pattern) != layers:
        raise SpecError(f"hybrid_override_pattern has {len(pattern)} letters for {layers} layers")
    return [_meaning(letter, f"hybrid_override_pattern[{at}]", fields, family) for at, letter in enumerate(pattern)]


def _sparse_frequency(fields: Fields, family: Family, layers: int) -> list[str] | None:
    """``sparse_attention_freq`` (MiniMax-M3) and ``hybrid_layer_pattern`` (MiMo): 0 for full attention."""
    for name, other in (("sparse_attention_freq", "indexed"), ("hybrid_layer_pattern", "sliding")):
        flags = fields.entries(name, layers)
        if flags is not None:
            return _marked(layers, _set(flags), other, "full")
    return None


def _compressed(fields: Fields, family: Family, layers: int) -> list[str] | None:
    """``compress_ratios`` (DeepSeek-V4): tokens per cache entry, 0 for the window alone."""
    if family.attention != "compressed":
        return None
    ratios = fields.entries("compress_ratios", layers)
    if ratios is not None:
        return [_compression(ratio) for ratio in ratios]
    alternating = ("heavily_compressed", "compressed_sparse")
    return ["heavily_compressed" if at < 2 else alternating[at % 2] for at in range(layers)]


def _compression(ratio: Any) -> str:
    """Kind of a layer by the tokens per cache entry: 4 with an indexer, 128 without one, 0 for the window."""
    if not ratio:
        return "sliding"
    if ratio <= MOST_SPARSE_RATIO:
        return "compressed_sparse"
    return "heavily_compressed"


MOST_SPARSE_RATIO = 16
"""Threshold between DeepSeek-V4's two ratios, 4 and 128. With few tokens per entry there are so many entries that an
indexer selects among them."""


def _by_index(fields: Fields, family: Family, layers: int) -> list[str] | None:
    """Lists of the layers that have full attention."""
    for name, first in (("attn_layer_indices", 0), ("full_attn_idxs", 0), ("full_attn_layers", None)):
        listed = fields.entries(name)
        if listed is None:
            continue
        start = first if first is not None else _first_of(fields, listed)
        return _marked(layers, (at - start for at in listed if isinstance(at, int)), "full", "linear")
    listed = fields.entries("hybrid_layer_ids")
    if listed is not None and family.hybrid == "shared":
        return _marked(layers, (at for at in listed if isinstance(at, int)), "hybrid", "linear")
    return None


def _first_of(fields: Fields, full: list[Any]) -> int:
    """Number of the first layer in the lists of both kinds; Kimi Linear counts from 1."""
    linear = fields.get("kda_layers") or []
    numbers = [at for at in [*full, *linear] if isinstance(at, int)]
    return min(numbers, default=0)


def _by_interval(fields: Fields, family: Family, layers: int) -> list[str] | None:
    """Full attention in one of every ``n`` layers."""
    if fields.get("attn_layer_period") is not None:
        period, offset = fields.size("attn_layer_period"), fields.optional("attn_layer_offset", least=0) or 0
        if family.hybrid == "shared":
            return _marked(layers, _zamba_hybrids(layers, period, offset), "hybrid", "linear")
        return _marked(layers, (at for at in range(layers) if at % period == offset), "full", "linear")
    if family.linear and (fields.given("full_attention_interval") or family.period or fields.given("layer_group_size")):
        period = fields.optional("full_attention_interval") or fields.optional("layer_group_size") or family.period
        full = set(range(period - 1, layers, period))
        if family.linear == "simple_gla":  # Ling 2.5 also has full attention in the layers after its last whole group
            full |= set(range(layers // period * period, layers))
        return _marked(layers, full, "full", "linear")
    if family.linear == "short_convolution":
        return ["full"] * layers
    if family.linear == "lightning":
        return _marked(layers, range(0, layers, 2), "full", "linear")
    if family.hybrid == "parallel":
        return ["hybrid"] * layers
    return ["linear"] * layers if family.linear else None


def _zamba_hybrids(layers: int, period: int, offset: int) -> set[int]:
    """Zamba's first hybrid layer is its third; the others follow the period."""
    return {2} | {at for at in range(3, layers) if at % period == (offset + 3) % period}


def _by_window(fields: Fields, family: Family, layers: int) -> list[str]:
    """Sliding windows in all layers, from one layer on, or in all but one of every ``n`` layers."""
    if fields.get("index_n_heads") is not None and family.attention == "mla":
        return ["indexed"] * layers
    if fields.get("no_rope_layers") is not None or fields.given("attention_chunk_size"):
        return _chunked(fields, layers)
    if _window_off(fields, family) and family.attention != "compressed":
        return ["full"] * layers
    if family.window_flag or fields.given("max_window_layers"):
        first = fields.optional("max_window_layers", least=0) or 0
        return _marked(layers, range(first, layers), "sliding", "full")
    if family.all_sliding:
        return ["sliding"] * layers
    found = _marked(layers, _full_layers(fields, family, layers), "full", "sliding")
    if fields.get("hidden_size_per_layer_input") is not None and not fields.given("altup_num_inputs"):
        found[-1] = "full"
    return found


def _full_layers(fields: Fields, family: Family, layers: int) -> Sequence[int]:
    """Numbers of the layers with full attention among layers with a window."""
    for name in ("sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers"):
        pattern = fields.get(name)
        if isinstance(pattern, str) and pattern and set(pattern.upper()) <= {"L", "G"}:
            letters = pattern.upper()
            return [at for at in range(layers) if letters[at % len(letters)] == "G" or at == layers - 1]
        if pattern is not None:
            period = fields.size(name)
            return range(period - 1, layers, period)
    if not family.period:
        return range(layers)
    last_of_each = range(family.period - 1, layers, family.period)
    if family.period == 6 and family.sinks == "sliding":
        return [0, *last_of_each]
    return range(0, layers, family.period) if family.first_full else last_of_each


def _chunked(fields: Fields, layers: int) -> list[str]:
    """Llama 4: chunked attention in layers with rotary positions, full attention in the others."""
    chunked = fields.optional("attention_chunk_size") is not None
    rotary = fields.entries("no_rope_layers")
    if not rotary:
        interval = fields.optional("no_rope_layer_interval") or 4
        rotary = [int((at + 1) % interval != 0) for at in range(layers)]
    if len(rotary) < layers:
        raise SpecError(f"no_rope_layers has {len(rotary)} entries for {layers} layers")
    if not chunked:
        return ["full"] * layers
    return _marked(layers, _set(rotary), "chunked", "full")


def _with_cross(fields: Fields, found: list[str]) -> list[str]:
    crossing = fields.entries("cross_attention_layers") or ()
    for at in range(len(found)):
        if at in crossing:
            found[at] = "cross"
    return found


def feed_forwards(fields: Fields, family: Family, kinds: list[str]) -> list[str]:
    """The MLP of each layer.

    Raises
    ------
    SpecError
        A pattern has the wrong length or an unknown entry.
    """
    layers = len(kinds)
    blocks = pattern_of(fields) or fields.entries("layers_block_type")
    if blocks is not None and "none" in kinds:
        return [_single(str(word)) for word in list(blocks)[:layers]]
    switched_off = fields.get("is_moe") is False or fields.get("enable_moe_block") is False
    if switched_off or not fields.optional("num_experts", least=0):
        return ["dense"] * layers
    if (fields.optional("num_experts", least=0) or 0) == 1 and fields.get("num_experts_per_tok") is None:
        return ["dense"] * layers
    return _moe_layers(fields, family, layers)


def prediction_blocks(fields: Fields, family: Family) -> list[tuple[str, str]]:
    """Mixer and MLP of each block of a prediction module that has a pattern of its own (Nemotron 3: ``*E``)."""
    name = "mtp_layers_block_type" if fields.given("mtp_layers_block_type") else "mtp_hybrid_override_pattern"
    words = fields.entries(name) if name == "mtp_layers_block_type" else list(fields.text(name) or "")
    return [
        (_meaning(word, f"{name}[{at}]", fields, family), _single(str(word))) for at, word in enumerate(words or ())
    ]


def _single(word: str) -> str:
    """Layers that are either a mixer or an MLP."""
    if word.lower() in ("moe", "e"):
        return "moe"
    return "dense" if word.lower() in ("mlp", "-") else "none"


def _moe_layers(fields: Fields, family: Family, layers: int) -> list[str]:
    words = fields.entries("mlp_layer_types", layers)
    if words is not None:
        return [_moe_word(word, at) for at, word in enumerate(words)]
    frequency = fields.get("moe_layer_freq")
    if isinstance(frequency, list):
        return _marked(layers, _set(fields.entries("moe_layer_freq", layers) or ()), "moe", "dense")
    first = fields.optional("first_k_dense_replace", least=0)
    if first is None:
        first = family.dense_layers
    mixtures = (at for at in _mixtures_of_rule(fields, layers) if at >= first)
    return _marked(layers, mixtures, "moe", "dense")


def _moe_word(word: Any, at: int) -> str:
    if word in SPARSE:
        return "moe"
    if word in DENSE:
        return "dense"
    raise SpecError(f"mlp_layer_types[{at}] is {word!r:.60}; it must be dense or sparse")


def _mixtures_of_rule(fields: Fields, layers: int) -> Sequence[int]:
    """Numbers of the layers that are mixtures by the rule of the model, without the dense layers at the start."""
    listed = fields.get("moe_layers_enum")
    if listed is not None:
        names = listed.split(",") if isinstance(listed, str) else listed
        numbers = {str(at).strip() for at in names}
        return [at for at in range(layers) if str(at) in numbers]
    if fields.entries("moe_layers"):
        chosen = set(map(str, fields.entries("moe_layers") or ()))
        return [at for at in range(layers) if str(at) in chosen]
    if fields.get("interleave_moe_layer_step") is not None:
        step = fields.size("interleave_moe_layer_step")
        return range(step - 1, layers, step)
    if fields.get("expert_layer_period") is not None:
        period, offset = fields.size("expert_layer_period"), fields.optional("expert_layer_offset", least=0) or 0
        return [at for at in range(layers) if at % period == offset]
    if fields.get("moe_layer_start_index") is not None:
        start = _of_list(fields, "moe_layer_start_index", 0)
        end = _of_list(fields, "moe_layer_end_index", -1)
        every = fields.optional("moe_layer_interval") or 1
        if end < 0:
            end = layers - 1
        return [at for at in range(every - 1, layers, every) if start <= at <= end]
    dense = set(map(str, fields.entries("mlp_only_layers") or ()))
    step = fields.optional("decoder_sparse_step") or 1
    frequency = fields.optional("moe_layer_freq") or 1
    if frequency > 1:
        return range(0, layers, frequency)
    return [at for at in range(step - 1, layers, step) if str(at) not in dense]


def _of_list(fields: Fields, name: str, otherwise: int) -> int:
    """A number, or the first entry of a list with one per modality (ERNIE 4.5 VL)."""
    value = fields.get(name, otherwise)
    if isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, int):
        raise SpecError(f"{name} must be an integer: {value!r:.80}")
    return value
