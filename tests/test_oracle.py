"""Counts held against an independent counter: 212 configurations, integer for integer.

Where the counter and this library mean different things, a table here names the record and says why.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import pytest
from oracle_data import FAMILIES, RECORDS, model

import roofline as rl
from roofline.huggingface import from_config
from roofline.model import blocks as layers
from roofline.model.blocks import Block
from roofline.operators.alternatives import resolve
from roofline.operators.operator import Operator, Pass, Segment
from roofline.operators.precision import Precision

NAMES = sorted(RECORDS)

PARTS_ELSEWHERE = {
    "class-default--afmoe": {"router": "the counter does not count the correction of each expert to the router"},
    "class-default--jetmoe": {
        "router": "the counter counts the bias of the experts' output to the MLP",
        "active": "the counter takes top_k / experts of the router of the attention experts, a token uses all of it",
    },
}

CACHES_ELSEWHERE = {
    "deepseek_v4": "layers with the window alone keep keys and values there, which are one tensor: counted once here",
    "falcon": "the library keeps the 8 KV heads broadcast to 232 query heads",
    "gpt_neo": "the library keeps every token of local layers, here the window",
}

FLOPS_ELSEWHERE = {
    "gpt_neo": {"attn_core": "decode attends to every token of local layers there, to the window here"},
    "kimi_linear": {"attn_core": "its latent attention is counted to the mixer there"},
    "deepseek_v4": {
        "other": "the residual streams are mixed by a product of 4x4 there, elementwise here",
        "attn_core": "compressed entries are attended to densely there, and counted by hand in a test below",
        "attn_indexer_core": "scored once for 4 tokens; counted by hand in a test below",
    },
}


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_equal(name: str) -> None:
    want, have = RECORDS[name]["parameters"], model(name).parameters
    pairs = {
        "total": (have.total, want["language"]),
        "embedding": (have.embedding, want["embedding"]),
        "lm_head": (have.lm_head, want["lm_head"]),
        "routed": (have.routed_experts, want["routed_experts"] or 0),
        "shared": (have.shared_experts, want["shared_experts"] or 0),
        "router": (have.router, want["router"] or 0),
        "active": (have.active, want["active_language_without_embedding_lookup"]),
    }
    for part in PARTS_ELSEWHERE.get(name, {}):
        assert pairs.pop(part)[0] > 0
    if want["active_language_without_embedding_lookup"] is None:
        del pairs["active"]
    assert {part: pair[0] for part, pair in pairs.items()} == {part: pair[1] for part, pair in pairs.items()}


@pytest.mark.parametrize("name", NAMES)
def test_tying_is_equal(name: str) -> None:
    assert model(name).tied_embeddings == RECORDS[name]["parameters"]["tied"]


@pytest.mark.parametrize("name", NAMES)
def test_parameters_in_layers_are_equal(name: str) -> None:
    built = model(name)
    inside = sum(
        layer.count * weight.parameters for layer in built.layers if not layer.reused for weight in layer.weights()
    )
    assert inside == RECORDS[name]["parameters"]["in_layers"]


def as_the_library_keeps(built: rl.Model, tokens: int) -> float:
    """Cache bytes when a windowed layer keeps one token less, the query's own, as the counter's library does."""
    return sum(
        count * float(dataclasses.replace(cache, window=cache.window - 1 if cache.window else None).bytes(tokens, 16))
        for count, cache in built.counted_caches()
    )


def kept_elsewhere(built: rl.Model, kind: str, tokens: int) -> float:
    """Bytes that the library keeps beside what the architecture needs (see CACHES_ELSEWHERE)."""
    attention: Any = built.layers[0].blocks[0]
    if kind == "deepseek_v4":
        plain = sum(layer.count for layer in built.layers if layer.blocks[0].ratio == 0)  # type: ignore[attr-defined]
        return plain * min(tokens, attention.window - 1) * attention.head_dim * 2
    if kind == "falcon" and attention.kv_heads not in (1, attention.query_heads):
        more = attention.query_heads - attention.kv_heads
        return built.layer_count * tokens * more * attention.head_dim * 2 * 2
    if kind == "gpt_neo":
        local = sum(layer.count for layer in built.layers if layer.blocks[0].window)  # type: ignore[attr-defined]
        return local * max(tokens - 255, 0) * attention.kv_values * 2
    return 0.0


@pytest.mark.parametrize("name", NAMES)
def test_cache_bytes_are_equal_at_every_recorded_length(name: str) -> None:
    record, built = RECORDS[name], model(name)
    for length, want in record["cache_bytes_bf16_one_sequence"].items():
        tokens = int(length)
        have = as_the_library_keeps(built, tokens) + kept_elsewhere(built, record["model_type"], tokens)
        assert have == want
        if tokens < min((cache.window for _, cache in built.counted_caches() if cache.window), default=10**9):
            assert float(built.cache_bytes(tokens)) + kept_elsewhere(built, record["model_type"], tokens) == want


# FLOPs by part, under the counter's conventions: the full square, no window skipped, lm_head on every position

ATTENTION = (layers.Attention, layers.MLA, layers.CompressedAttention, layers.MixtureOfAttention)
BESIDE = (layers.HyperConnections, layers.AltUp, layers.PerLayerInput, layers.Projection)
MERGED = {"kimi_linear": ("attn_proj", "mixer_proj"), "deepseek_v4": ("attn_proj", "attn_indexer_proj")}
"""Parts that the counter tells apart by names which mean something else in that family."""


def part_of(block: Block, operator: Operator) -> str:
    name, scores = operator.name, operator.kind == "attention"
    if isinstance(block, ATTENTION):
        if name.startswith("indexer"):
            return "attn_indexer_core" if scores else "attn_indexer_proj"
        return "attn_core" if scores else "attn_proj"
    if isinstance(block, layers.MoE):
        kinds = {"router": "moe_router", "experts": "moe_routed", "shared": "moe_shared"}
        return kinds.get(name.split("_")[0], "mlp")
    if isinstance(block, layers.MLP):
        return "mlp"
    if isinstance(block, BESIDE):
        return "other"
    in_the_scan = name in ("dt_proj",) or (name == "x_proj" and block.hidden == 3712)  # Zamba's are bare tensors
    return "mixer_core" if operator.kind == "scan" or in_the_scan else "mixer_proj"


def square(block: Any, new: int, past: int) -> float:
    """Scores and weighted values of every new token with every key."""
    window = getattr(block, "window", None)
    keys = min(past, window - 1) + new if window and past else past + new
    if isinstance(block, layers.MLA):
        return 2 * block.heads * new * keys * (block.nope_dim + block.rope_dim + block.value_dim)
    twice = 2 if block.differential else 1
    return 2 * twice * block.query_heads * new * keys * (block.head_dim + block.value_width)


def counted(block: Block, operator: Operator, new: int, past: int) -> float:
    """FLOPs of an operator as the counter runs it."""
    part = part_of(block, operator)
    if part == "attn_core":
        return 0.0 if isinstance(block, layers.CompressedAttention) else square(block, new, past)
    if part == "attn_indexer_core":
        heads, width = operator.inputs["query_heads"], operator.inputs["key_dim"] + operator.inputs["value_dim"]
        return 2.0 * new * (past + new) * heads * width
    if operator.name == "kv_b_proj_past":
        return 0.0
    if operator.name == "kv_b_proj":
        return 2.0 * operator.inputs["k"] * operator.inputs["n"] * (past + new)
    return float(operator.work.flops)


def flops_by_part(built: rl.Model, new: int, past: int) -> Counter[str]:
    run = Pass((Segment(1, new, past, new),), Precision())
    found: Counter[str] = Counter()
    for layer in built.layers:
        for block in layer.blocks:
            for operator in resolve(tuple(block.operators(run)), lambda item: item.work.flops):
                found[part_of(block, operator)] += layer.count * counted(block, operator, new, past)
    for block in built.around:
        found["other"] += sum(float(operator.work.flops) for operator in block.operators(run))
    found["lm_head"] = 2 * new * built.lm_head.d_in * built.lm_head.d_out
    return found


@pytest.mark.parametrize("name", NAMES)
def test_flops_by_part_are_equal(name: str) -> None:
    record, built = RECORDS[name], model(name)
    left_out = {"mixer_core", *FLOPS_ELSEWHERE.get(record["model_type"], {})}
    if record["flops_of_active_experts_only"] is False:
        left_out.add("moe_routed")  # Llama 4 runs every expert there
    for phase, flops in record["flops"].items():
        kind, *_, length = phase.removesuffix("_sdpa").split("_")
        new, past = (int(length), 0) if kind == "prefill" else (1, int(length))
        have, want = flops_by_part(built, new, past), Counter[str]()
        for part, value in flops["by_part"].items():
            want[part.split(":")[0]] += value
        for counts in (have, want):
            counts["merged"] = sum(counts.pop(part, 0) for part in MERGED.get(record["model_type"], ()))
        compared = (set(have) | set(want)) - left_out
        assert {part: have[part] for part in compared} == {part: want[part] for part in compared}, phase


@pytest.mark.parametrize("name", [name for name in NAMES if RECORDS[name]["model_type"] == "deepseek_v4"])
def test_compressed_attention_counted_by_hand(name: str) -> None:
    """Every query with every key and every compressed entry, 2 (512 + 512) a pair and head; the indexer 2 x 128."""
    record, built = RECORDS[name], model(name)
    if not record["flops"]:
        pytest.fail("the record has no FLOPs")
    for phase, (new, past) in {"prefill_512": (512, 0), "decode_past_512": (1, 512)}.items():
        attention = indexer = 0
        for layer in built.layers:
            block: Any = layer.blocks[0]
            keys = new if past == 0 else min(past, block.window - 1) + 1
            entries = (past + new) // block.ratio if block.ratio else 0
            attention += layer.count * 2 * block.heads * new * (keys + entries) * 2 * block.head_dim
            if block.indexer:
                indexer += layer.count * 2 * new * entries * block.indexer.heads * block.indexer.dim
        want = record["flops"][phase]["by_part"]
        assert (attention, indexer) == (want["attn_core"], want["attn_indexer_core"])


@pytest.mark.parametrize("name", [name for name in NAMES if RECORDS[name]["mla_reexpansion_flops_in_decode"]])
def test_expanded_attention_pays_for_the_past_what_the_counter_saw(name: str) -> None:
    """Un-absorbed decode builds keys and values of the whole past again; the counter saw exactly that."""
    past, total = 512, 0.0
    for layer in model(name).layers:
        for block in layer.blocks:
            if isinstance(block, layers.MLA):
                total += layer.count * 2.0 * past * block.kv_b_proj.d_in * block.kv_b_proj.d_out
    assert total == RECORDS[name]["mla_reexpansion_flops_in_decode"]


# Further families, and small variants of all of them: what flags, biases, norms and patterns decide


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_parameters_of_families_and_their_variants_are_equal(name: str) -> None:
    assert from_config(FAMILIES[name]["config"]).parameters.total == FAMILIES[name]["parameters"]


@pytest.mark.parametrize("name", sorted(name for name, record in FAMILIES.items() if "cache_bytes" in record))
def test_caches_of_variants_are_equal(name: str) -> None:
    """Measured after real forward passes; the library has a counter of 8 bytes in every layer with a window."""
    built = from_config(FAMILIES[name]["config"])
    counters = 8 * sum(count for count, cache in built.counted_caches() if cache.window)
    for length, want in FAMILIES[name]["cache_bytes"].items():
        assert as_the_library_keeps(built, int(length)) + counters == want


# Named models


ACTIVE = {
    "deepseek-v3": 37e9,  # arXiv:2412.19437: 37B activated
    "mixtral-8x7b": 12.9e9,  # mistral.ai: 12.9B
    "qwen3-235b-a22b": 22e9,  # model card: 22B
    "gpt-oss-120b": 5.1e9,  # arXiv:2508.10925: 5.13B, table 1
    "llama-4-maverick": 17e9,  # model card: 17B
    "glm-4.5": 32e9,  # arXiv:2508.06471: 32B
    "kimi-k2": 32e9,  # arXiv:2507.20534: 32.6B with the embedding
}


@pytest.mark.parametrize("name", sorted(ACTIVE))
def test_active_parameters_are_those_that_makers_state(name: str) -> None:
    parameters = rl.get_model(name).parameters
    with_embedding = parameters.active + parameters.embedding
    assert min(abs(count - ACTIVE[name]) for count in (parameters.active, with_embedding)) <= 0.03 * ACTIVE[name]
