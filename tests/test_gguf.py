"""Headers of GGUF files: the tensors that llama.cpp loads hold exactly the parameters that are counted.

The layouts are those of ``llama_model::load_tensors`` and of ``gguf.TENSOR_NAMES`` (gguf 0.19), written out by hand.
"""

from math import prod

import pytest

import roofline as rl
from roofline.huggingface import from_config
from roofline.huggingface.gguf_fields import ARCHITECTURES, config_of
from roofline.huggingface.gguf_file import _part_of, _precision

H, VOCAB = 64, 96
NORMS = {"attn_norm": (H,), "ffn_norm": (H,)}


def gqa(heads=4, kv=2, dim=16, q=1, norm=None):
    """Queries (``q`` times as wide with a gate in them), keys, values, output, and norms by head or over all."""
    found = {"attn_q": (H, q * heads * dim), "attn_k": (H, kv * dim), "attn_v": (H, kv * dim)}
    found["attn_output"] = (heads * dim, H)
    if norm == "head":
        found |= {"attn_q_norm": (dim,), "attn_k_norm": (dim,)}
    if norm == "width":
        found |= {"attn_q_norm": (heads * dim,), "attn_k_norm": (kv * dim,)}
    return found


def mlp(inner=128, name="", gated=True):
    gate = {f"ffn_gate{name}": (H, inner)} if gated else {}
    return gate | {f"ffn_up{name}": (H, inner), f"ffn_down{name}": (inner, H)}


def moe(experts=8, inner=32, gated=True, width=H):
    gate = {"ffn_gate_exps": (width, inner, experts)} if gated else {}
    found = {"ffn_gate_inp": (H, experts), "ffn_up_exps": (width, inner, experts)}
    return found | gate | {"ffn_down_exps": (inner, width, experts)}


def mla(q_rank=24, rank=32, rope=8, nope=16, value=16):
    heads = 4
    queries = {"attn_q": (H, heads * (nope + rope))}
    if q_rank:
        queries = {"attn_q_a": (H, q_rank), "attn_q_a_norm": (q_rank,), "attn_q_b": (q_rank, heads * (nope + rope))}
    latent = {"attn_kv_a_mqa": (H, rank + rope), "attn_kv_a_norm": (rank,)}
    expansion = {"attn_k_b": (nope, rank, heads), "attn_v_b": (rank, value, heads)}
    return queries | latent | expansion | {"attn_output": (heads * value, H)}


def delta_net(keys=2, key=16, values=4, value=16):
    channels = 2 * keys * key + values * value
    found = {"attn_qkv": (H, channels), "attn_gate": (H, values * value), "ssm_conv1d": (4, channels)}
    found |= {"ssm_dt.bias": (values,), "ssm_a": (values,), "ssm_norm": (value,), "ssm_out": (values * value, H)}
    return found | {"ssm_beta": (H, values), "ssm_alpha": (H, values)}


def kda(heads=4, dim=16):
    width = heads * dim
    found = {f"attn_{name}": (H, width) for name in "qkv"} | {f"ssm_conv1d_{name}": (4, 1, width) for name in "qkv"}
    for name in "fg":
        found |= {f"ssm_{name}_a": (H, dim), f"ssm_{name}_b": (dim, width)}
    found |= {"ssm_beta": (H, heads), "ssm_a": (1, heads), "ssm_dt.bias": (width,), "ssm_norm": (dim,)}
    return found | {"attn_output": (width, H)}


def mamba2(heads=8, dim=16, state=16, groups=2):
    inner, channels = heads * dim, heads * dim + 2 * groups * state
    found = {"ssm_in": (H, inner + channels + heads), "ssm_conv1d": (4, channels), "ssm_conv1d.bias": (channels,)}
    found |= {"ssm_dt.bias": (heads,), "ssm_a": (1, heads), "ssm_d": (1, heads)}
    return found | {"ssm_norm": (inner,), "ssm_out": (inner, H)}


def mamba1(inner=128, state=16, rank=4):
    found = {
        "ssm_in": (H, 2 * inner),
        "ssm_conv1d": (4, inner),
        "ssm_conv1d.bias": (inner,),
        "ssm_x": (inner, rank + 32),
    }
    found |= {"ssm_dt": (rank, inner), "ssm_dt.bias": (inner,), "ssm_a": (state, inner), "ssm_d": (inner,)}
    return found | {"ssm_out": (inner, H)}


SMALL_NORMS = {"ssm_dt_norm": (4,), "ssm_b_norm": (16,), "ssm_c_norm": (16,)}
INDEXER = {"indexer.k_norm": (16,), "indexer.k_norm.bias": (16,), "indexer.proj": (H, 4), "indexer.attn_k": (H, 16)}
POST = {"attn_norm": (H,), "post_attention_norm": (H,)}
SHARED = mlp(48, "_shexp")
BASE = {"embedding_length": H, "feed_forward_length": 128, "attention.head_count": 4, "attention.head_count_kv": 2}
HEADS = {"attention.key_length": 16, "attention.value_length": 16}
EXPERTS = {"expert_count": 8, "expert_used_count": 2, "expert_feed_forward_length": 32}
DELTA = {
    "ssm.state_size": 16,
    "ssm.group_count": 2,
    "ssm.time_step_rank": 4,
    "ssm.inner_size": 64,
    "ssm.conv_kernel": 4,
}
STATE = {
    "ssm.state_size": 16,
    "ssm.group_count": 2,
    "ssm.time_step_rank": 8,
    "ssm.inner_size": 128,
    "ssm.conv_kernel": 4,
}
LATENT = {"attention.kv_lora_rank": 32, "attention.key_length_mla": 24, "attention.value_length_mla": 16}
LATENT |= {"rope.dimension_count": 8, "attention.key_length": 40, "attention.value_length": 32}
MIXED = {"attention.head_count_kv": [0, 2]}

PER_LAYER = {"inp_gate": (H, 8), "proj": (8, H), "post_norm": (H,), "laurel_post_norm": (H,)}
PER_LAYER |= {"laurel_l": (H, 12), "laurel_r": (12, H), "altup_router": (H, 4), "altup_router_norm": (H,)}
PER_LAYER |= {"altup_predict_coef": (4, 16), "altup_correct_coef": (4, 4), "altup_correct_scale": (H,)}
OUTPUT_NORMS = {f"{name}_norm{end}": (H,) for name in ("attn_output", "layer_output") for end in ("", ".bias")}
EMBEDDING_NORM = {"token_embd_norm.weight": (H,), "token_embd_norm.bias": (H,)}

OUTSIDE = {
    "codeshell": {"output_norm.bias": (H,)},
    "nomic-bert": {"token_types.weight": (H, 2)} | EMBEDDING_NORM,
    "jina-bert-v2": {"token_types.weight": (H, 2)} | EMBEDDING_NORM,
    "jina-bert-v3": {"token_types.weight": (H, 1)} | EMBEDDING_NORM,
    "modern-bert": {"token_embd_norm.weight": (H,), "output_norm.weight": (H,)},
    "gemma3n": {
        **{"per_layer_token_embd.weight": (2 * 8, 90), "per_layer_model_proj.weight": (H, 2 * 8)},
        **{"per_layer_proj_norm.weight": (8,), "altup_proj.weight": (H, H, 3), "altup_unembd_proj.weight": (H, H, 3)},
    },
    "orion": {"output_norm.bias": (H,)},
    "bert": {
        **{"position_embd.weight": (H, 40), "token_types.weight": (H, 2)},
        **{"token_embd_norm.weight": (H,), "token_embd_norm.bias": (H,)},
    },
}
"""Architecture -> tensors outside the layers that others lack."""

LAYOUTS = {
    "llama": (BASE, [NORMS | gqa() | mlp()]),
    "mistral3": (BASE, [NORMS | gqa() | mlp()] * 2),
    "qwen2": (BASE, [NORMS | gqa() | mlp() | {"attn_q.bias": (64,), "attn_k.bias": (32,), "attn_v.bias": (32,)}]),
    "qwen3vl": (BASE | HEADS, [NORMS | gqa(norm="head") | mlp()]),
    "qwen3vlmoe": (BASE | HEADS | EXPERTS, [NORMS | gqa(norm="head") | moe()]),
    "qwen35": (BASE | HEADS | DELTA, [POST | delta_net() | mlp(), POST | gqa(q=2, norm="head") | mlp()]),
    "qwen35moe": (
        BASE | HEADS | DELTA | EXPERTS | {"expert_shared_feed_forward_length": 48},
        [
            POST | delta_net() | moe() | SHARED | {"ffn_gate_inp_shexp": (H,)},
            POST | gqa(q=2, norm="head") | moe() | SHARED | {"ffn_gate_inp_shexp": (H,)},
        ],
    ),
    "llama4": (
        BASE | EXPERTS | {"interleave_moe_layer_step": 2},
        [NORMS | gqa() | mlp(), NORMS | gqa() | moe() | mlp(32, "_shexp")],
    ),
    "minimax-m2": (BASE | HEADS | EXPERTS, [NORMS | gqa(norm="width") | moe()] * 2),
    "arctic": (BASE | EXPERTS, [NORMS | {"ffn_norm_exps": (H,)} | gqa() | mlp(H) | moe()]),
    "dots1": (
        BASE | HEADS | EXPERTS | {"leading_dense_block_count": 1, "expert_shared_count": 1},
        [NORMS | gqa(norm="head") | mlp(), NORMS | gqa(norm="head") | moe() | mlp(32, "_shexp")],
    ),
    "step35": (
        BASE | HEADS | EXPERTS | {"leading_dense_block_count": 1, "expert_shared_feed_forward_length": 48},
        [
            NORMS | gqa(norm="head") | {"attn_gate": (H, 4)} | mlp(),
            NORMS | gqa(norm="head") | {"attn_gate": (H, 4)} | moe() | SHARED,
        ],
    ),
    "deepseek2": (
        BASE
        | LATENT
        | EXPERTS
        | {"attention.q_lora_rank": 24, "leading_dense_block_count": 1, "expert_shared_count": 1},
        [NORMS | mla() | mlp(), NORMS | mla() | moe() | mlp(32, "_shexp")],
    ),
    "glm-dsa": (
        BASE
        | LATENT
        | EXPERTS
        | {"attention.q_lora_rank": 24, "leading_dense_block_count": 1, "expert_shared_count": 1}
        | {f"attention.indexer.{name}": size for name, size in (("head_count", 4), ("key_length", 16), ("top_k", 8))},
        [
            NORMS | mla() | INDEXER | {"indexer.attn_q_b": (24, 64)} | mlp(),
            NORMS | mla() | INDEXER | {"indexer.attn_q_b": (24, 64)} | moe() | mlp(32, "_shexp"),
        ],
    ),
    "kimi-linear": (
        BASE
        | LATENT
        | EXPERTS
        | {"kda.head_dim": 16, "ssm.conv_kernel": 4, "leading_dense_block_count": 1, "expert_shared_count": 1}
        | {"attention.head_count_kv": [0, 1]},
        [NORMS | kda() | mlp(), NORMS | mla(q_rank=0) | moe() | mlp(32, "_shexp")],
    ),
    "granitehybrid": (
        BASE | STATE | EXPERTS | MIXED | {"expert_shared_feed_forward_length": 48, "feed_forward_length": 32},
        [NORMS | mamba2() | moe() | SHARED, NORMS | gqa() | moe() | SHARED],
    ),
    "nemotron_h_moe": (
        BASE
        | HEADS
        | STATE
        | EXPERTS
        | {"expert_shared_feed_forward_length": 48, "moe_latent_size": 40}
        | {"attention.head_count_kv": [0, 2, 0], "feed_forward_length": [0, 0, 32]},
        [
            {"attn_norm": (H,)} | mamba2(),
            {"attn_norm": (H,)} | gqa(),
            {"attn_norm": (H,), "ffn_latent_down": (H, 40), "ffn_latent_up": (40, H)}
            | moe(gated=False, width=40)
            | mlp(48, "_shexp", gated=False),
        ],
    ),
    "falcon-h1": (BASE | HEADS | STATE, [NORMS | gqa() | mamba2() | mlp()]),
    "jamba": (
        BASE
        | MIXED
        | {"expert_count": 8, "expert_used_count": 2, "feed_forward_length": 32}
        | {"ssm.state_size": 16, "ssm.time_step_rank": 4, "ssm.inner_size": 128, "ssm.conv_kernel": 4},
        [NORMS | mamba1() | SMALL_NORMS | mlp(32), NORMS | gqa() | moe()],
    ),
    "lfm2": (
        BASE | MIXED | {"shortconv.l_cache": 3},
        [
            NORMS | {"shortconv.in_proj": (H, 3 * H), "shortconv.conv": (3, H), "shortconv.out_proj": (H, H)} | mlp(),
            NORMS | gqa(norm="head") | mlp(),
        ],
    ),
    "deci": (
        BASE
        | {
            "attention.head_count": [4, 4, 0],
            "attention.head_count_kv": [2, 0, 0],
            "feed_forward_length": [128, 64, 0],
        },
        [NORMS | gqa() | mlp(), NORMS | {"attn_output": (H, H)} | mlp(64), {}],
    ),
    "gemma4": (
        BASE
        | {"attention.key_length": 32, "attention.value_length": 32, "attention.key_length_swa": 16}
        | {"attention.head_count_kv": [2, 1], "attention.sliding_window_pattern": [True, False]}
        | {"attention.sliding_window": 32, "attention.shared_kv_layers": 0, "embedding_length_per_layer_input": 0},
        [
            NORMS | {"post_attention_norm": (H,), "post_ffw_norm": (H,)} | gqa(norm="head") | mlp(),
            NORMS
            | {"post_attention_norm": (H,), "post_ffw_norm": (H,)}
            | {name: shape for name, shape in gqa(kv=1, dim=32, norm="head").items() if name != "attn_v"}
            | mlp(),
        ],
    ),
    "qwen": (
        {key: size for key, size in BASE.items() if "kv" not in key} | {"feed_forward_length": 256},
        [NORMS | {"attn_qkv": (H, 3 * H), "attn_qkv.bias": (3 * H,), "attn_output": (H, H)} | mlp(128)],
    ),
    "dbrx": (
        BASE | EXPERTS,
        [{"attn_norm": (H,), "attn_output_norm": (H,), "attn_qkv": (H, 128), "attn_output": (H, H)} | moe()],
    ),
    "grok": (
        BASE | EXPERTS | HEADS,
        [NORMS | {"attn_output_norm": (H,), "layer_output_norm": (H,)} | gqa() | moe()],
    ),
    "chatglm": (
        BASE,
        [
            NORMS
            | {"attn_qkv": (H, 128), "attn_qkv.bias": (128,), "attn_output": (H, H)}
            | {"ffn_up": (H, 256)}
            | {"ffn_down": (128, H)}
        ],
    ),
    "bitnet": (BASE, [NORMS | gqa() | mlp() | {"attn_sub_norm": (H,), "ffn_sub_norm": (128,)}]),
    "pangu-embedded": (
        BASE,
        [
            NORMS
            | gqa()
            | mlp()
            | {"attn_q.bias": (64,), "attn_k.bias": (32,), "attn_v.bias": (32,), "attn_output.bias": (64,)}
        ],
    ),
    "maincoder": (BASE | HEADS, [NORMS | gqa(norm="head") | mlp()]),
    "hunyuan_vl": (BASE | HEADS, [NORMS | gqa(norm="head") | mlp()]),
    "paddleocr": (BASE | HEADS, [NORMS | gqa() | mlp()]),
    "gemma-embedding": (
        BASE | HEADS | {"attention.sliding_window": 32},
        [NORMS | {"post_attention_norm": (H,), "post_ffw_norm": (H,)} | gqa(norm="head") | mlp()],
    ),
    "deepseek": (
        BASE | EXPERTS | {"leading_dense_block_count": 1, "expert_shared_count": 2},
        [NORMS | gqa() | mlp(), NORMS | gqa() | moe() | mlp(64, "_shexp")],
    ),
    "deepseek32": (
        BASE
        | LATENT
        | EXPERTS
        | {"attention.q_lora_rank": 24, "leading_dense_block_count": 1, "expert_shared_count": 1}
        | {f"attention.indexer.{name}": size for name, size in (("head_count", 4), ("key_length", 16), ("top_k", 8))},
        [
            NORMS | mla() | INDEXER | {"indexer.attn_q_b": (24, 64)} | mlp(),
            NORMS | mla() | INDEXER | {"indexer.attn_q_b": (24, 64)} | moe() | mlp(32, "_shexp"),
        ],
    ),
    "hy_v3": (
        BASE | HEADS | EXPERTS | {"leading_dense_block_count": 1, "expert_shared_count": 1},
        [NORMS | gqa(norm="head") | mlp(), NORMS | gqa(norm="head") | moe() | mlp(32, "_shexp")],
    ),
    "mellum": (BASE | HEADS | EXPERTS, [NORMS | gqa(norm="head") | moe()]),
    "cohere2moe": (
        BASE | HEADS | EXPERTS,
        [{"attn_norm": (H,)} | gqa() | moe()],
    ),
    "gemma3n": (
        BASE
        | HEADS
        | {"attention.sliding_window": 32, "attention.sliding_window_pattern": [True, False]}
        | {"embedding_length_per_layer_input": 8, "altup.num_inputs": 4, "attention.shared_kv_layers": 0},
        [NORMS | {"post_attention_norm": (H,), "post_ffw_norm": (H,)} | gqa(norm="head") | mlp() | PER_LAYER] * 2,
    ),
    "bert": (
        BASE | {"attention.head_count_kv": 4},
        [
            gqa(kv=4)
            | mlp(gated=False)
            | {f"{name}.bias": (H,) for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_down")}
            | {"ffn_up.bias": (128,)}
            | {f"{name}_norm{end}": (H,) for name in ("attn_output", "layer_output") for end in ("", ".bias")}
        ],
    ),
    "plamo": (BASE, [{"attn_norm": (H,)} | gqa() | mlp()]),
    "refact": (BASE | {"attention.head_count_kv": 1}, [NORMS | gqa(kv=1) | mlp()]),
    "codeshell": (
        BASE,
        [
            NORMS
            | {"attn_norm.bias": (H,), "ffn_norm.bias": (H,), "attn_qkv": (H, 128), "attn_qkv.bias": (128,)}
            | {"attn_output": (H, H), "attn_output.bias": (H,), "ffn_up.bias": (128,), "ffn_down.bias": (H,)}
            | mlp(gated=False)
        ],
    ),
    "smallthinker": (
        BASE | HEADS | EXPERTS | {"feed_forward_length": 32, "attention.sliding_window": 32},
        [NORMS | gqa() | moe()] * 5,
    ),
    "nomic-bert": (
        BASE | {"attention.head_count_kv": 4},
        [{"attn_qkv": (H, 3 * H), "attn_output": (H, H)} | mlp() | OUTPUT_NORMS],
    ),
    "modern-bert": (
        BASE | {"attention.head_count_kv": 4, "attention.sliding_window": 32, "attention.sliding_window_pattern": 3},
        [
            {"attn_qkv": (H, 3 * H), "attn_output": (H, H), "ffn_norm": (H,), "ffn_up": (H, 256), "ffn_down": (128, H)}
            | first
            for first in ({}, {"attn_norm": (H,)}, {"attn_norm": (H,)})
        ],
    ),
    "jina-bert-v2": (
        BASE | {"attention.head_count_kv": 4},
        [
            gqa(kv=4)
            | mlp()
            | {f"{name}.bias": (H,) for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_down")}
            | OUTPUT_NORMS
        ],
    ),
    "jina-bert-v3": (
        BASE | {"attention.head_count_kv": 4},
        [
            {"attn_qkv": (H, 3 * H), "attn_qkv.bias": (3 * H,), "attn_output": (H, H), "attn_output.bias": (H,)}
            | mlp(gated=False)
            | {"ffn_up.bias": (128,), "ffn_down.bias": (H,)}
            | OUTPUT_NORMS
        ],
    ),
    "eurobert": (BASE, [NORMS | gqa() | mlp()]),
    "orion": (
        BASE,
        [NORMS | {"attn_norm.bias": (H,), "ffn_norm.bias": (H,)} | gqa() | mlp()],
    ),
}
"""Architecture -> its keys, and the tensors of its layers."""


def tensors(architecture, layers):
    norm = "token_embd_norm" if architecture.startswith("lfm2") else "output_norm"
    encoder = "bert" in architecture
    shapes = {"token_embd.weight": (H, VOCAB)} | (
        {} if encoder and architecture != "eurobert" else {f"{norm}.weight": (H,)}
    )
    shapes |= OUTSIDE.get(architecture, {})
    if architecture not in ("gemma3n", "gemma4", "lfm2", "gemma-embedding") and not encoder:
        shapes["output.weight"] = (H, VOCAB)
    for at, layer in enumerate(layers):
        for name, shape in layer.items():
            shapes[f"blk.{at}.{name}" if name.endswith(".bias") else f"blk.{at}.{name}.weight"] = shape
    return shapes


@pytest.mark.parametrize("architecture", LAYOUTS)
def test_parameters_are_those_of_the_tensors(architecture):
    own, layers = LAYOUTS[architecture]
    keys = {f"{architecture}.{name}": value for name, value in own.items()}
    keys |= {f"{architecture}.block_count": len(layers), f"{architecture}.context_length": 256}
    shapes = tensors(architecture, layers)
    model = from_config(config_of(architecture, keys, shapes))
    assert model.parameters.total == sum(prod(shape) for shape in shapes.values())
    assert model.layer_count == len(layers)
    assert model.doubts == ()
    once = rl.encode if model.encodes else rl.decode
    assert once(rl.Deployment(model, "h100-sxm"), rl.Workload(10)).floor_s > 0


def test_three_of_four_layers_of_smallthinker_have_a_window():
    own, layers = LAYOUTS["smallthinker"]
    keys = {f"smallthinker.{name}": value for name, value in own.items()}
    keys |= {"smallthinker.block_count": len(layers), "smallthinker.context_length": 256}
    model = from_config(config_of("smallthinker", keys, tensors("smallthinker", layers)))
    per_token = 2 * 2 * 16 * 2
    assert model.cache_bytes(100) == per_token * (2 * 100 + 3 * 32)


@pytest.mark.parametrize("gated", [True, False])
def test_t5_has_an_encoder_and_a_decoder(gated):
    """Tensors as `llama_model::load_tensors` names them; the first layer of each side has the table of distances."""
    attention = {"q": (H, H), "k": (H, H), "v": (H, H), "o": (H, H)}
    inside = {"attn_norm": (H,), "ffn_norm": (H,), "ffn_up": (H, 128), "ffn_down": (128, H)}
    inside |= {f"attn_{name}": shape for name, shape in attention.items()} | ({"ffn_gate": (H, 128)} if gated else {})
    cross = {"cross_attn_norm": (H,)} | {f"cross_attn_{name}": shape for name, shape in attention.items()}
    shapes = {"token_embd.weight": (H, VOCAB), "enc.output_norm.weight": (H,), "dec.output_norm.weight": (H,)}
    for side, layers, more in (("enc", 3, {}), ("dec", 2, cross)):
        shapes[f"{side}.blk.0.attn_rel_b.weight"] = (4, 32)
        for at in range(layers):
            shapes |= {f"{side}.blk.{at}.{name}.weight": shape for name, shape in (inside | more).items()}
    keys = {"embedding_length": H, "feed_forward_length": 128, "attention.head_count": 4, "attention.key_length": 16}
    keys |= {"block_count": 3, "decoder_block_count": 2, "attention.relative_buckets_count": 32, "context_length": 512}
    model = from_config(config_of("t5", {f"t5.{name}": value for name, value in keys.items()}, shapes))
    assert model.parameters.total == sum(prod(shape) for shape in shapes.values())
    assert rl.generate(rl.Deployment(model, "h100-sxm"), rl.Workload(10, 5)).total_s > 0


def test_architectures_that_people_have():
    asked = "qwen35 qwen3next gemma4 llama4 mistral3 minimax-m2 deci kimi-linear nemotron_h_moe granitehybrid glm-dsa"
    assert {*asked.split(), "step35", "lfm2"} <= set(ARCHITECTURES)
    with pytest.raises(rl.SpecError, match="architecture 'wavtokenizer-dec' is unknown; known: afmoe"):
        config_of("wavtokenizer-dec", {}, {})


def test_parts_of_tensors():
    """``attn_output`` is no lm_head, and what stands beside a state space belongs to the mixer."""
    names = {"output.weight": "lm_head", "blk.0.attn_output.weight": "attention", "blk.1.attn_qkv.weight": "mixer"}
    assert {name: _part_of(name, {"blk.1"}) for name in names} == names


BITS = {
    "IQ1_S": 1.5625,
    "IQ1_M": 1.75,
    "IQ2_XXS": 2.0625,
    "IQ2_XS": 2.3125,
    "IQ2_S": 2.5625,
    "IQ3_XXS": 3.0625,
    "IQ3_S": 3.4375,
    "IQ4_NL": 4.5,
    "IQ4_XS": 4.25,
    "TQ1_0": 1.6875,
    "TQ2_0": 2.0625,
    "Q2_K": 2.625,
    "Q3_K": 3.4375,
    "Q4_K": 4.5,
    "Q5_K": 5.5,
    "Q6_K": 6.5625,
    "Q8_0": 8.5,
    "MXFP4": 4.25,
}


@pytest.mark.parametrize(("kind", "bits"), BITS.items())
def test_every_type_of_tensor_has_the_bits_of_its_block(kind, bits):
    """Bytes of a block over its values, as ggml-common.h lays the blocks out."""
    precision, doubts = _precision([("blk.0.ffn_up.weight", kind, 256, 0)])
    assert doubts == ()
    assert precision.part("mlp").weight_bits == pytest.approx(bits)
