"""Configurations as people have them: nested, partial, wrong, quantized, on a hub, in a GGUF file."""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import random
import re
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from command_line import text
from oracle_data import CONFIGS, RECORDS, model

import roofline as rl
from roofline import RooflineError, SpecError
from roofline.huggingface import checkpoint, from_config, is_hub_id
from roofline.operators.alternatives import resolve
from roofline.operators.operator import Pass, Segment
from roofline.operators.precision import Precision

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}
LLAMA_TOTAL = 8_030_261_248  # Llama 3.1 8B, model card: 8.03B


def write(folder: Path, config: dict[str, Any], **beside: Any) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    for name, data in beside.items():
        (folder / f"{name.replace('__', '.')}.json").write_text(json.dumps(data))
    return folder


# Where a configuration can be


def test_a_dict_a_file_a_path_and_a_folder_are_one_model(tmp_path: Path) -> None:
    folder = write(tmp_path, LLAMA)
    given = (LLAMA, str(folder / "config.json"), folder / "config.json", folder, str(folder) + "/")
    assert {rl.get_model(name).parameters.total for name in given} == {LLAMA_TOTAL}


def test_the_index_beside_a_config_gives_the_exact_size(tmp_path: Path) -> None:
    index = {"metadata": {"total_size": 16_060_522_496}, "weight_map": {}}
    built = rl.get_model(write(tmp_path, LLAMA, model__safetensors__index=index))
    assert built.checkpoint_bytes == 16_060_522_496 == 2 * built.parameters.total


def test_an_index_without_a_size_gives_none(tmp_path: Path) -> None:
    index = {"metadata": {"total_size": 0}, "weight_map": {}}
    assert rl.get_model(write(tmp_path, LLAMA, model__safetensors__index=index)).checkpoint_bytes is None


def test_memory_has_the_size_that_the_index_states(tmp_path: Path) -> None:
    """A checkpoint 5 % larger than its configuration says is in memory as it is; the answer opens with the doubt."""
    stated = 16_863_548_620
    index = {"metadata": {"total_size": stated}, "weight_map": {}}
    built = rl.get_model(write(tmp_path, LLAMA, model__safetensors__index=index))
    serve = rl.Deployment(built, "h100-sxm")
    need = rl.memory(serve, rl.Workload())
    assert need.weights_bytes == pytest.approx(stated, rel=1e-12)
    assert need.assumptions[0].startswith(
        "the checkpoint states 16.86 GB of tensors, but its configuration gives 16.06 GB"
    )
    assert rl.memory(rl.quantize(serve, weights="fp8"), rl.Workload()).weights_bytes < 0.6 * stated
    shown = text("analyze", str(tmp_path), "--hardware", "h100-sxm")
    assert "Warning: the checkpoint states 16.86 GB" in "\n".join(shown.splitlines()[:4])


def test_a_size_within_two_percent_is_no_doubt(tmp_path: Path) -> None:
    index = {"metadata": {"total_size": 16_300_000_000}, "weight_map": {}}
    built = rl.get_model(write(tmp_path, LLAMA, model__safetensors__index=index))
    need = rl.memory(rl.Deployment(built, "h100-sxm"), rl.Workload())
    assert need.weights_bytes == pytest.approx(16_300_000_000)
    assert not built.size_doubt()
    changed = built.replace(layers=(dataclasses.replace(built.layers[0], count=1),))
    assert changed.checkpoint_bytes is None


@pytest.mark.parametrize("name", [name for name, record in RECORDS.items() if record["checkpoint_total_size_bytes"]])
def test_resident_bytes_are_those_of_the_published_checkpoint(name: str) -> None:
    built, want = model(name), RECORDS[name]["checkpoint_total_size_bytes"]
    dtype = {"float32": "fp32"}.get(str(CONFIGS[name].get("torch_dtype")), "bf16")
    resident = built.weight_bytes(Precision(weights=dtype, activations=dtype))
    towers = RECORDS[name]["parameters"]["total"] - RECORDS[name]["parameters"]["language"]
    extra_head = 65024 * 14848 * 2 if "falcon-180B" in name else 0  # the file stores the tied lm_head again
    assert resident + towers * 2 + extra_head == pytest.approx(want, rel=0.01)


# Bad input: one line with the field and the value


def changed(config: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**config, **changes}.items() if value != "absent"}


DEEPSEEK = CONFIGS["deepseek-ai--DeepSeek-V3"]
QWEN_NEXT = CONFIGS["class-default--qwen3_next"]
WRONG = [
    (changed(LLAMA, num_hidden_layers="absent"), "num_hidden_layers is missing"),
    (changed(LLAMA, hidden_size="absent"), "hidden_size is missing"),
    (changed(LLAMA, intermediate_size="absent"), "intermediate_size is missing"),
    (changed(LLAMA, vocab_size="absent"), "vocab_size is missing"),
    (changed(LLAMA, num_attention_heads=33), "num_attention_heads 33 does not divide hidden_size 4096"),
    (changed(LLAMA, num_key_value_heads=5), "num_attention_heads 32 is not a multiple of num_key_value_heads 5"),
    (changed(LLAMA, hidden_size=-1), "hidden_size must be an integer from 1 .*: -1"),
    (changed(LLAMA, hidden_size="4096"), "hidden_size must be an integer .*: '4096'"),
    (changed(LLAMA, hidden_size=4096.5), "hidden_size must be an integer .*: 4096.5"),
    (changed(LLAMA, num_hidden_layers=10**8), "num_hidden_layers must be from 1 to 10,000 layers: 100000000"),
    (changed(LLAMA, tie_word_embeddings="no"), "tie_word_embeddings must be true or false: 'no'"),
    (changed(LLAMA, layer_types=["full_attention"] * 31), "layer_types has 31 entries for 32 layers"),
    (changed(LLAMA, layer_types=["odd"] * 32), "layer_types.0. is 'odd'"),
    (changed(DEEPSEEK, num_experts_per_tok=300), "num_experts_per_tok is 300, but there are 256 experts"),
    (changed(DEEPSEEK, num_experts_per_tok="absent", n_routed_experts=4), "num_experts_per_tok is 8, but there are 4"),
    (changed(DEEPSEEK, kv_lora_rank="much"), "kv_lora_rank must be an integer"),
    (
        changed(QWEN_NEXT, linear_num_value_heads=33),
        "linear_num_value_heads 33 is not a multiple of linear_num_key_heads 16",
    ),
    ({"model_type": "bert", "hidden_size": 768, "num_hidden_layers": 12}, "max_position_embeddings is missing"),
    ({"model_type": "longformer", "hidden_size": 768}, "'longformer' is not a decoder language model"),
    ({"model_type": "t5", "is_encoder_decoder": True, "d_model": 512}, "num_heads is missing"),
    ({"model_type": "led", "is_encoder_decoder": True, "d_model": 512}, "encoder-decoder"),
    ({"model_type": "clip_vision_model", "hidden_size": 768}, "not a decoder language model"),
    ({"_class_name": "UNet2DConditionModel", "_diffusers_version": "0.30"}, "diffusion model"),
    ({"model_type": "quantum"}, "'quantum' is not known, and its file has no hidden_size"),
    ({}, "is not known"),
    (changed(CONFIGS["class-default--llama"], model_type="blt"), "'blt' can't be read: .*byte patches"),
    (changed(LLAMA, model_type="dory"), "'dory' can't be read: .*recurrent loops of layers"),
    ({"model_type": "nemotron_h", "hybrid_override_pattern": "M*E", "hidden_size": 64}, "missing"),
    (
        changed(CONFIGS["nvidia--Nemotron-H-56B-Base-8K"], num_hidden_layers=7),
        "hybrid_override_pattern has 118 letters",
    ),
]


@pytest.mark.parametrize(("config", "message"), WRONG)
def test_a_wrong_config_is_refused_in_one_line_that_names_the_field(config: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        from_config(config)
    assert re.search(message, str(caught.value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("model_type", [["llama"] * 100_000, 7, {"a": 1}, True])
def test_a_model_type_that_is_no_word_is_refused(model_type: Any) -> None:
    with pytest.raises(SpecError, match="model_type must be text") as caught:
        from_config({**LLAMA, "model_type": model_type})
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "field",
    [
        {"model_type": "9" * 5000},
        {"quantization_config": {"quant_method": "gptq", "bits": [1] * 100_000, "group_size": 128}},
        {"quantization_config": {"quant_method": "x\n" * 5000}},
        {"num_key_value_heads": 3, "architectures": ["A" * 5000 + "ForCausalLM"]},
    ],
)
def test_sentences_about_a_file_stay_short_whatever_it_holds(field: dict[str, Any]) -> None:
    try:
        model = from_config({**LLAMA, **field})
        said = (*model.doubts, *model.assumptions)
    except SpecError as error:
        said = (str(error),)
    assert said
    assert all(len(sentence) < 600 and "\n" not in sentence for sentence in said)


@pytest.mark.parametrize("text", ["", "[]", "{", "nul\0l", '{"a": ' * 5000, "1"])
def test_a_file_that_is_no_json_object_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(SpecError, match=re.escape(str(tmp_path))):
        rl.get_model(tmp_path)


VALUES: list[Any] = [None, 0, 1, -1, 2, 1.5, float("nan"), float("inf"), True, False, "", "x", "8", [], [1], [None], {}]
VALUES += [{"a": 1}, 10**6, 10**9, 10**12, 2**70, -5, "full_attention", ["full_attention"], 0.1]


def mutated(config: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    """One to three fields dropped, shortened, multiplied, or replaced by nonsense; nested ones too."""
    config = copy.copy(config)
    for _ in range(dice.randint(1, 3)):
        if not config:
            break
        key = dice.choice(sorted(config))
        value, way = config[key], dice.random()
        if isinstance(value, dict) and way < 0.6:
            config[key] = mutated(value, dice)
        elif isinstance(value, list) and value and way < 0.4:
            config[key] = [*value[: dice.randrange(len(value))], dice.choice(VALUES)]
        elif way < 0.25:
            del config[key]
        elif isinstance(value, int) and way < 0.5:
            config[key] = value * dice.choice((0, 2, 3, -1, 1000)) + dice.choice((0, 1, -1))
        else:
            config[key] = dice.choice(VALUES)
    return config


@pytest.mark.parametrize("seed", range(12))
def test_mutated_configs_are_read_or_refused_and_nothing_else(seed: int) -> None:
    dice, read, refused = random.Random(seed), 0, []
    for _ in range(100):
        config = mutated(CONFIGS[dice.choice(sorted(CONFIGS))], dice)
        try:
            built = from_config(config)
        except RooflineError as error:
            refused.append(str(error))
            continue
        read += 1
        assert built.parameters.total > 0
        assert float(built.cache_bytes(1000)) >= 0
    assert 20 < read < 100
    assert not [message for message in refused if "\n" in message]


# Families by convention


def test_an_unknown_family_is_read_by_convention_and_says_so() -> None:
    built = from_config({**LLAMA, "model_type": "llama_of_tomorrow"})
    assert built.parameters.total == LLAMA_TOTAL
    assert any("llama_of_tomorrow" in note for note in built.assumptions)


def test_an_unknown_type_of_a_known_class_is_read_as_that_class() -> None:
    config = {**CONFIGS["deepseek-ai--DeepSeek-V3"], "model_type": "kimi_of_tomorrow"}
    built = from_config(config)
    assert built.parameters.total == RECORDS["deepseek-ai--DeepSeek-V3"]["parameters"]["language"]
    assert any("assuming deepseek_v3" in note for note in built.assumptions)


def test_what_a_class_supplies_is_said() -> None:
    built = from_config(changed(LLAMA, model_type="mistral", num_key_value_heads="absent"))
    assert any("num_key_value_heads=8" in note for note in built.assumptions)


@pytest.mark.parametrize(
    ("aliases", "total"),
    [
        # GPT-2's own names; 124,439,808 parameters (Radford et al. 2019, as every later count has it)
        (
            {
                "model_type": "gpt2",
                "n_embd": 768,
                "n_layer": 12,
                "n_head": 12,
                "vocab_size": 50257,
                "n_positions": 1024,
            },
            124_439_808,
        ),
        # OPT-125m: 125,239,296 (facebook/opt-125m)
        (
            {
                "model_type": "opt",
                "hidden_size": 768,
                "num_hidden_layers": 12,
                "num_attention_heads": 12,
                "ffn_dim": 3072,
                "vocab_size": 50272,
                "max_position_embeddings": 2048,
                "word_embed_proj_dim": 768,
            },
            125_239_296,
        ),
    ],
)
def test_other_names_of_the_same_quantities(aliases: dict[str, Any], total: int) -> None:
    assert from_config(aliases).parameters.total == total


# The mistakes of this field


def test_p1_embedding_and_head_are_two_tensors_unless_tied() -> None:
    assert model("meta-llama--Meta-Llama-3.1-70B").parameters.total == 70_553_706_496


def test_p2_a_decode_step_streams_the_head_and_not_the_embedding() -> None:
    built = model("meta-llama--Meta-Llama-3.1-70B")
    run = Pass((Segment(1, 1, 0, 1),), Precision())
    streamed = sum(op.count * op.work.weight_bytes for op in built.operators(run) if op.kind != "lookup")
    assert streamed == pytest.approx(139.006e9, rel=1e-4)


def test_p3_p4_deepseek_v3() -> None:
    built = model("deepseek-ai--DeepSeek-V3")
    assert built.parameters.total == pytest.approx(671.0e9, rel=1e-3)
    assert built.parameters.active == pytest.approx(37e9, rel=0.02)
    # README of the weights: 11.5B unique parameters in the prediction module
    assert built.apart["multi_token_prediction"] == pytest.approx(11.5e9, rel=0.015)


def test_p5_mixtral() -> None:
    parameters = model("mistralai--Mixtral-8x7B-v0.1").parameters
    assert parameters.total == pytest.approx(46.7e9, rel=1e-3)
    assert parameters.active + parameters.embedding == pytest.approx(12.9e9, rel=2e-3)


NESTED = [name for name, config in CONFIGS.items() if "text_config" in config]


@pytest.mark.parametrize("name", NESTED)
def test_p6_a_nested_text_config_is_read(name: str) -> None:
    built = model(name)
    assert built.parameters.total > 10**8
    assert float(built.cache_bytes(1000)) > 0
    towers = [key for key in CONFIGS[name] if key in ("vision_config", "audio_config")]
    said = " ".join((*built.apart, *built.assumptions))
    assert all(key.removesuffix("_config") in said for key in towers if CONFIGS[name][key])


TOWERS_LEFT_OUT = {"mllama", "llama4", "muse_glimmer"}


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, record in RECORDS.items()
        if record["parameters"]["total"] != record["parameters"]["language"]
        and record["model_type"] not in TOWERS_LEFT_OUT
    ],
)
def test_towers_are_counted_apart(name: str) -> None:
    counts = RECORDS[name]["parameters"]
    assert model(name).apart["vision"] == counts["total"] - counts["language"]


def test_p7_per_layer_embeddings_are_looked_up() -> None:
    built = model("google--gemma-4-E2B")
    assert built.parameters.active == pytest.approx(2.3e9, rel=0.02)
    run = Pass((Segment(1, 1, 0, 1),), Precision())
    table = next(op for op in built.operators(run) if op.name == "per_layer_embedding")
    assert table.work.weight_bytes == 35 * 256 * 2


def test_p8_resident_streamed_and_active_are_three_numbers() -> None:
    built = rl.get_model("deepseek-v3")
    precision = Precision()
    run = Pass((Segment(64, 1, 1000, 1),), precision)
    streamed = sum(float(op.count * op.work.weight_bytes) for op in built.operators(run))
    resident = built.weight_bytes(precision)
    assert 2 * built.parameters.active < streamed < resident


def test_p9_head_dim_is_the_configs() -> None:
    assert model("Qwen--Qwen3-4B").layers[0].blocks[0].head_dim == 128  # type: ignore[attr-defined]


def test_k1_k2_bytes_a_token() -> None:
    assert model("meta-llama--Meta-Llama-3.1-70B").cache_bytes(32768) == 10 * 2**30
    assert model("deepseek-ai--DeepSeek-V3").cache_bytes(1) == 70_272


def test_k5_k6_windows_and_what_an_engine_reserves() -> None:
    built = rl.get_model("gpt-oss-120b")
    full = 18 * 131072 * 2 * 8 * 64 * 2
    assert full == pytest.approx(4.83e9, rel=1e-3)
    assert built.cache_bytes(131072) == full + 18 * 128 * 2 * 8 * 64 * 2
    assert built.engine_cache_bytes(131072) == 73_728 * 131072
    hybrid = built.engine_cache_bytes(131072, hybrid=True)
    assert built.cache_bytes(131072) <= hybrid <= 1.001 * built.cache_bytes(131072)


def test_pages_round_up() -> None:
    built = rl.get_model("llama-3.1-8b")
    np.testing.assert_array_equal(built.engine_cache_bytes(np.array([1, 16, 17])) / 131072, [16, 16, 32])


@pytest.mark.parametrize("name", ["Qwen--Qwen3.5-27B", "class-default--qwen3_next"])
def test_k7_linear_layers_hold_a_constant_state(name: str) -> None:
    built = model(name)
    grown = float(built.cache_bytes(2000)) - float(built.cache_bytes(1000))
    attending = [layer for layer in built.layers if layer.blocks[0].kind.startswith("GQA")]
    assert sum(layer.count for layer in attending) == built.layer_count // 4
    assert grown == 1000 * 2 * sum(layer.count * layer.blocks[0].kv_values for layer in attending)  # type: ignore[attr-defined]
    assert float(built.cache_bytes(0)) > 0


@pytest.mark.parametrize("name", ["nvidia--Nemotron-H-56B-Base-8K", "class-default--jamba", "class-default--zamba"])
def test_k8_mamba_layers_hold_conv_and_state(name: str) -> None:
    states = [cache.state_bytes for _, cache in model(name).counted_caches() if cache.state_bytes]
    assert states
    assert float(model(name).cache_bytes(0)) > 0


def test_k9_sparse_attention_stores_everything_and_an_indexer() -> None:
    built = model("deepseek-ai--DeepSeek-V3.2")
    assert built.cache_bytes(100_000) == 85_888 * 100_000  # 61 x (512 + 64 + 128) x 2
    run = Pass((Segment(1, 1, 100_000, 1),), Precision())
    reads = {op.name: float(op.work.cache_bytes) for op in built.operators(run) if op.kind == "attention"}
    assert reads["attention"] == pytest.approx(2048 * 576 * 2, rel=0.01)
    assert reads["indexer"] == pytest.approx(100_000 * 128 * 2, rel=0.01)


def test_k10_compressed_attention_is_an_order_less() -> None:
    built = model("deepseek-ai--DeepSeek-V4-Flash")
    per_layer = float(built.cache_bytes(100_000)) / 100_000 / built.layer_count
    assert per_layer < 2048 / 10


def test_k11_layers_that_share_a_cache_own_none() -> None:
    built = model("google--gemma-4-E2B")
    owners = sum(layer.count for layer in built.layers if layer.caches and list(layer.caches()))
    assert owners == 15  # 35 layers, the last 20 share


# Latent attention: two ways, the cheaper one


def flops_of_ways(segment: Segment) -> dict[str, Any]:
    """FLOPs of DeepSeek-V3's attention by way, ``kv_b_proj`` of the new tokens left out, which both ways have."""
    block: Any = model("deepseek-ai--DeepSeek-V3").layers[0].blocks[0]
    found: dict[str, Any] = {}
    for op in block.operators(Pass((segment,), Precision())):
        if op.option:
            found[op.option] = found.get(op.option, 0.0) + op.count * op.work.flops
    return found


def test_latent_attention_is_absorbed_in_decode_and_expanded_in_prefill() -> None:
    decode, prefill = Segment(1.0, 1.0, 4096.0), Segment(1.0, 4096.0, 0.0)
    found = flops_of_ways(decode)
    assert found["absorbed"] == 128 * 2 * ((512 + 64) + 512) * 4097
    assert found["expanded"] == 128 * 2 * (192 + 128) * 4097 + 2 * 512 * 128 * 256 * 4096
    block: Any = model("deepseek-ai--DeepSeek-V3").layers[0].blocks[0]
    run = Pass((decode, prefill), Precision())
    chosen = resolve(tuple(block.operators(run)), lambda op: op.count * op.work.flops)
    first, second = (op for op in chosen if op.kind == "attention")
    assert (first.inputs["key_dim"], second.inputs["key_dim"]) == (576, 192)


def test_latent_attention_broadcasts_over_the_crossover() -> None:
    segment = Segment(1.0, np.array([1.0, 64.0, 4096.0]), np.array([4096.0, 4096.0, 0.0]))
    found = flops_of_ways(segment)
    np.testing.assert_array_equal(found["absorbed"] < found["expanded"], [True, True, False])


# Quantized checkpoints


def precision_of(quantization: dict[str, Any]) -> Precision:
    config = {**CONFIGS["mistralai--Mixtral-8x7B-v0.1"], "quantization_config": quantization}
    built = from_config(config)
    assert built.precision is not None
    return built.precision


INT4 = {"num_bits": 4, "type": "int", "group_size": 128, "symmetric": True, "strategy": "group"}
FLOAT4 = {"num_bits": 4, "type": "float", "group_size": 16}


@pytest.mark.parametrize(
    ("quantization", "weights", "activations", "kv"),
    [
        (
            {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"},
            "fp8_block",
            "fp8",
            "bf16",
        ),
        ({"quant_method": "fp8", "activation_scheme": "static"}, "fp8", "fp8", "bf16"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "int4_g128", "bf16", "bf16"),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "int8_g128", "bf16", "bf16"),
        ({"quant_method": "awq", "bits": 4, "group_size": 64}, "int4_g64", "bf16", "bf16"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4_single", "bf16", "bf16"),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True},
            "nf4",
            "bf16",
            "bf16",
        ),
        ({"quant_method": "gptq", "bits": 2, "group_size": 16}, "int2_g16", "bf16", "bf16"),
        ({"quant_method": "gptq", "bits": 3, "group_size": 1024}, "int3_g1024", "bf16", "bf16"),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "int8", "bf16", "bf16"),
        ({"quant_method": "fp8", "weight_block_size": [64, 128]}, "fp8_block64x128", "fp8", "bf16"),
        ({"quant_method": "mxfp8", "weight_block_size": [1, 32]}, "mxfp8", "mxfp8", "bf16"),
        ({"quant_method": "fp_quant", "forward_dtype": "nvfp4"}, "nvfp4", "nvfp4", "bf16"),
        ({"quant_method": "quanto", "weights": "int2"}, "affine2_g128", "bf16", "bf16"),
        (
            {"quant_method": "torchao", "quant_type": "int4_weight_only", "quant_type_kwargs": {"group_size": 64}},
            "affine4_g64",
            "bf16",
            "bf16",
        ),
        ({"quant_method": "torchao", "quant_type": "int8_dynamic_activation_int8_weight"}, "int8", "int8", "bf16"),
        ({"quant_method": "exl3", "bits": 3.5, "head_bits": 6}, "exl3_3.5", "bf16", "bf16"),
        (
            {"quant_method": "modelopt", "quant_algo": "W4A16_AWQ", "kv_cache_quant_algo": "NVFP4"},
            "int4_g128_sym",
            "bf16",
            "nvfp4",
        ),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8", "bf16", "bf16"),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": INT4, "targets": ["Linear"]}}},
            "int4_g128_sym",
            "bf16",
            "bf16",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": FLOAT4, "input_activations": FLOAT4, "targets": ["Linear"]}},
                "kv_cache_scheme": {"num_bits": 8, "type": "float"},
            },
            "nvfp4",
            "nvfp4",
            "fp8",
        ),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}, "nvfp4", "nvfp4", "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8", "fp8", "bf16"),
        (
            {
                "quant_method": "quark",
                "global_quant_config": {
                    "weight": {"dtype": "fp4", "group_size": 32},
                    "input_tensors": {"dtype": "fp4"},
                },
                "exclude": ["lm_head"],
            },
            "mxfp4",
            "mxfp4",
            "bf16",
        ),
    ],
)
def test_schemes(quantization: dict[str, Any], weights: str, activations: str, kv: str) -> None:
    found = precision_of(quantization)
    assert (found.weights, found.activations, found.kv) == (weights, activations, kv)
    assert found.weight_format("router") == "bf16"


@pytest.mark.parametrize(
    ("quantization", "bits"),
    [
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 4.5),
        ({"quant_method": "mxfp4"}, 4.25),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 4 + 20 / 128),
    ],
)
def test_p10_four_bits_come_with_their_scales(quantization: dict[str, Any], bits: float) -> None:
    found = precision_of(quantization)
    assert found.part("experts").weight_bits == bits
    assert found.part("router").weight_bits == 16


def test_ignore_lists_keep_parts_in_16_bits() -> None:
    quantization = {
        "quant_method": "compressed-tensors",
        "config_groups": {"g": {"weights": INT4, "targets": ["Linear"]}},
        "ignore": ["lm_head", "re:.*self_attn.*"],
    }
    found = precision_of(quantization)
    assert found.weight_format("attention") == "bf16"
    assert found.weight_format("experts") == "int4_g128_sym"


def test_hf_quant_config_beside_the_config_is_read(tmp_path: Path) -> None:
    beside = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    built = rl.get_model(write(tmp_path, LLAMA, hf_quant_config=beside))
    assert built.precision == Precision(weights="nvfp4", activations="nvfp4", kv="fp8")


def test_a_scheme_that_is_not_known_is_said_and_bf16_taken() -> None:
    built = from_config({**LLAMA, "quantization_config": {"quant_method": "magic"}})
    assert built.precision is None
    assert any("magic" in note for note in built.assumptions)


def test_both_flags_of_bitsandbytes_off_quantize_nothing() -> None:
    built = from_config(
        {**LLAMA, "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": False, "load_in_8bit": False}}
    )
    assert built.precision is None


def test_a_list_of_kept_modules_that_is_none_is_said() -> None:
    built = from_config({**LLAMA, "quantization_config": {"quant_method": "fp8", "modules_to_not_convert": "lm_head"}})
    assert built.assumptions[0].startswith("modules_to_not_convert of the quantization must be a list")


def test_layers_that_keep_16_bits_make_a_mixture_with_exact_bytes() -> None:
    kept = [f"model.layers.{at}.mlp.down_proj" for at in (0, 31)]
    config = {
        **CONFIGS["mistralai--Mixtral-8x7B-v0.1"],
        "model_type": "mistral",
        "architectures": ["MistralForCausalLM"],
    }
    config = {key: value for key, value in config.items() if "expert" not in key}
    built = from_config({**config, "quantization_config": {"quant_method": "fp8", "modules_to_not_convert": kept}})
    layers, hidden, inner = config["num_hidden_layers"], config["hidden_size"], config["intermediate_size"]
    matrices = 3 * layers
    assert built.precision.weight_format("mlp") == f"fp8*{(matrices - 2) // 2}+bf16*1"
    plain = from_config({**config, "quantization_config": {"quant_method": "fp8"}})
    more = built.weight_bytes(built.precision) - plain.weight_bytes(plain.precision)
    assert more == pytest.approx(2 * hidden * inner, rel=1e-9)
    assert built.assumptions[0].startswith("mlp weights are stored in several formats: 98% fp8, 2% bf16")


def test_a_quantization_that_is_no_mapping_is_said() -> None:
    built = from_config({**LLAMA, "quantization_config": "fp8"})
    assert built.precision is None
    doubt = "unknown quantization ('fp8'); sizes assume bf16 weights and are too large"
    assert built.assumptions == (doubt,)


def test_a_pattern_that_would_hang_a_regular_expression_does_not() -> None:
    evil = "re:" + "(a+)+" * 30 + "$"
    found = from_config(
        {**LLAMA, "quantization_config": {"quant_method": "fp8", "modules_to_not_convert": [evil] * 50}}
    )
    assert found.precision is not None


@pytest.mark.parametrize(
    ("name", "published_bytes"),
    [
        ("openai--gpt-oss-20b", 13.761e9),  # sum of its safetensors files, arXiv:2508.10925 table 1: 12.8 GiB
        ("gpt-oss-120b", 65.25e9),  # same table: 60.8 GiB
        ("moonshotai--Kimi-K2.5", 594e9),  # model card: 594 GB
    ],
)
def test_resident_bytes_of_quantized_checkpoints(name: str, published_bytes: float) -> None:
    built = from_config(CONFIGS[name])
    assert built.precision is not None
    assert built.weight_bytes(built.precision) == pytest.approx(published_bytes, rel=0.01)


# The hub


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("meta-llama/Llama-3.1-8B", True),
        ("gpt2", False),
        ("./a/b", False),
        ("a/b/c", False),
        ("../x", False),
        ("/a", False),
    ],
)
def test_what_looks_like_a_hub_id(name: str, expected: bool) -> None:
    assert is_hub_id(name) is expected


class FakeHub:
    """Serves two files and remembers what was asked."""

    class EntryNotFoundError(Exception):
        pass

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked = folder, []  # type: ignore[var-annotated]

    def hf_hub_download(self, name: str, file: str, **options: bool) -> str:
        self.asked.append((name, file))
        if not (self.folder / file).exists():
            raise self.EntryNotFoundError(file)
        return str(self.folder / file)


def test_a_hub_id_fetches_configuration_and_index_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = FakeHub(write(tmp_path, LLAMA, model__safetensors__index={"metadata": {"total_size": 16_060_522_496}}))
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", hub)
    built = rl.get_model("acme/tiny-language-model")
    assert (built.parameters.total, built.checkpoint_bytes) == (LLAMA_TOTAL, 16_060_522_496)
    assert {file for _, file in hub.asked} == {checkpoint.CONFIG, checkpoint.INDEX, checkpoint.QUANTIZATION}


def test_without_the_extra_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(SpecError, match=r"pip install 'roofline\[hub\]'"):
        rl.get_model("acme/tiny-language-model")


def test_without_the_network_one_line_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Offline:
        def hf_hub_download(self, name: str, file: str, **options: bool) -> str:
            logging.getLogger("huggingface_hub.utils").warning("Retrying in 1s [Retry 1/5].")
            raise OSError("no route to host\nsecond line")

    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", Offline())
    monkeypatch.setattr(checkpoint, "is_reachable", lambda: True)
    with pytest.raises(SpecError, match="no route to host") as caught:
        rl.get_model("acme/tiny-language-model")
    assert "\n" not in str(caught.value)
    assert caplog.records == []


def test_a_hub_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the local cache is asked, and the names nearest to the one typed are offered."""
    asked = []

    class Cache:
        def hf_hub_download(self, name: str, file: str, **options: bool) -> str:
            asked.append(options)
            raise FileNotFoundError("not in the cache")

    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", Cache())
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # the discard port: nothing listens
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with pytest.raises(SpecError, match=r"no connection: the hub does not answer.*; did you mean 'qwen3-8b'"):
        rl.get_model("acme/qwen3-8c")
    assert asked == [{"local_files_only": True}]


# GGUF


def small_gguf(path: Path) -> Path:
    """A Llama of two layers whose matrices are Q8_0 and whose norms are 32-bit."""
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("tiny")
    writer.add_block_count(2)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(128)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_context_length(256)
    shapes = {"token_embd.weight": (96, 64), "output.weight": (96, 64), "output_norm.weight": (64,)}
    for at in range(2):
        block = {"attn_q": (64, 64), "attn_k": (32, 64), "attn_v": (32, 64), "attn_output": (64, 64)}
        block |= {"ffn_gate": (128, 64), "ffn_up": (128, 64), "ffn_down": (64, 128)}
        block |= {"attn_norm": (64,), "ffn_norm": (64,)}  # type: ignore[dict-item]
        shapes |= {f"blk.{at}.{name}.weight": shape for name, shape in block.items()}  # type: ignore[misc]
    for name, shape in shapes.items():
        values = np.zeros(shape, dtype=np.float32)
        if len(shape) == 1:
            writer.add_tensor(name, values)
        else:
            quantized = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0)
            writer.add_tensor(name, quantized, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_gguf_header_gives_shapes_formats_and_exact_bytes(tmp_path: Path) -> None:
    built = rl.get_model(small_gguf(tmp_path / "tiny.gguf"))
    matrices = 2 * (64 * 64 * 2 + 32 * 64 * 2 + 3 * 64 * 128) + 2 * 96 * 64
    norms = 5 * 64
    assert built.parameters.total == matrices + norms
    assert built.checkpoint_bytes == matrices * 34 // 32 + norms * 4
    assert built.precision is not None
    assert built.precision.weight_format("mlp") == "q8_0"
    assert built.layer_count == 2


def test_what_is_no_gguf_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"GGUF" + b"\xff" * 64)
    with pytest.raises(SpecError, match="not a readable GGUF file"):
        rl.get_model(tmp_path / "x.gguf")


# How a model shows itself


@pytest.mark.parametrize(
    "name", ["deepseek-v3", "gemma-4-e2b", "gpt-2", "nemotron-h-56b", "deepseek-v4-flash", "falcon-180b"]
)
def test_the_count_is_derived_in_steps_that_evaluate(name: str) -> None:
    built = rl.get_model(name)
    steps = built.explain()
    for step in steps:
        assert eval(step.formula, {}, dict(step.inputs)) == step.value
    assert steps[-1].value == built.parameters.total
    assert [step.value for step in steps if step.name == "parameters.active"] == [built.parameters.active]


def test_a_model_prints_its_layers_and_escapes_html() -> None:
    built = rl.get_model("deepseek-v3").replace(title="<b>x</b>")
    assert "58 x MLA 128 x latent 512+64 + MoE 8 of 256" in repr(built)
    assert "multi_token_prediction" in repr(built)
    assert "<b>x</b>" not in built._repr_html_()
    frame = built.to_frame()
    assert list(frame["layers"]) == [3, 58]
    assert frame["cache_values_a_token"].tolist() == [576, 576]
