"""Bytes of a checkpoint by scheme, against the layout that each tool stores, written out by hand.

The model is Llama 3.1 8B: matrices of 4096 x 4096 (two), 4096 x 1024 (two) and 4096 x 14336 (three) in 32 layers, an
embedding and an lm_head of 128,256 x 4096, 65 norms of 4096.
"""

import pytest

from roofline.huggingface import from_config

HIDDEN, INNER, LAYERS, VOCABULARY, KV = 4096, 14336, 32, 128256, 1024
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": VOCABULARY,
    "tie_word_embeddings": False,
}
MATRICES = (
    ("q_proj", HIDDEN, HIDDEN),
    ("k_proj", HIDDEN, KV),
    ("v_proj", HIDDEN, KV),
    ("o_proj", HIDDEN, HIDDEN),
    ("gate_proj", HIDDEN, INNER),
    ("up_proj", HIDDEN, INNER),
    ("down_proj", INNER, HIDDEN),
)
TABLE = VOCABULARY * HIDDEN


def grouped(bits, group, scale_bits, zero_bits=0):
    """``bits`` a value, a scale and a zero point for each ``group`` inputs of an output; -1 is one for all inputs."""

    def size(name, inputs, outputs):
        groups = inputs / group if group > 0 else 1
        return inputs * outputs * bits / 8 + groups * outputs * (scale_bits + zero_bits) / 8

    return size


def wide(name, inputs, outputs):
    return 2 * inputs * outputs


def by_name(rest, **own):
    return lambda name, inputs, outputs: own.get(name, rest)(name, inputs, outputs)


def checkpoint(matrix, *, embedding=2 * TABLE, head=2 * TABLE):
    layer = sum(matrix(*each) for each in MATRICES)
    return LAYERS * layer + embedding + head + (2 * LAYERS + 1) * HIDDEN * 2


def compressed(bits, kind, strategy, group=None, *, symmetric=True, **more):
    weights = {"num_bits": bits, "type": kind, "strategy": strategy, "group_size": group, "symmetric": symmetric}
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    return {"quant_method": "compressed-tensors", "config_groups": groups, "ignore": ["lm_head"], **more}


def gptq(bits, group, **more):
    return {"quant_method": "gptq", "bits": bits, "group_size": group, **more}


def auto_round(**more):
    return {"quant_method": "auto-round", "bits": 4, "group_size": 128, **more}


def modelopt(algorithm, **more):
    return {"quant_method": "modelopt", "quant_algo": algorithm, "exclude_modules": ["lm_head"], **more}


def every(part, entry):
    return {f"model.layers.{layer}.{part}": entry for layer in range(LAYERS)}


def quark(weight, **more):
    return {"quant_method": "quark", "global_quant_config": {"weight": weight}, "exclude": ["lm_head"], **more}


def torchao(kind, **options):
    return {"quant_method": "torchao", "quant_type": {"default": {"_type": kind, "_version": 1, "_data": options}}}


INT4, INT8 = grouped(4, 128, 16, 4), grouped(8, 128, 16, 8)
FP8, NVFP4, MXFP4 = grouped(8, -1, 16), grouped(4, 16, 8), grouped(4, 32, 8)
HQQ = {"weight_quant_params": {"nbits": 3, "group_size": 64, "axis": 1}}
INT4_TORCHAO = {"default": {"_type": "Int4WeightOnlyConfig", "_data": {"group_size": 64}}}
NF4 = {"quant_method": "bitsandbytes", "load_in_4bit": True}
SCHEMES = [
    *(
        (gptq(bits, group), grouped(bits, group, 16, bits))
        for bits in (2, 3, 4, 8)
        for group in (-1, 16, 32, 128, 1024)
    ),
    (
        gptq(4, 128, dynamic={"-:.*o_proj.*": {}, "+:.*down_proj.*": {"bits": 8}}),
        by_name(INT4, o_proj=wide, down_proj=INT8),
    ),
    ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, INT4),
    (auto_round(packing_format="auto_round:auto_gptq"), INT4),
    (auto_round(extra_config=every("mlp.down_proj", {"bits": 8})), by_name(INT4, down_proj=INT8)),
    (auto_round(extra_config=every("self_attn.o_proj", {"bits": 16})), by_name(INT4, o_proj=wide)),
    (auto_round(data_type="mx_fp", group_size=32), MXFP4),
    (auto_round(data_type="nv_fp", group_size=16), NVFP4),
    (compressed(4, "int", "group", 128), grouped(4, 128, 16)),
    (compressed(4, "int", "group", 64, symmetric=False), grouped(4, 64, 16, 4)),
    (compressed(8, "int", "group", 32), grouped(8, 32, 16)),
    (compressed(8, "int", "channel"), grouped(8, -1, 16)),
    (compressed(8, "float", "channel"), FP8),
    (compressed(8, "float", "group", 128), grouped(8, 128, 16)),
    (compressed(4, "float", "tensor_group", 16), NVFP4),
    (compressed(4, "float", "group", 32), MXFP4),
    (modelopt("FP8"), FP8),
    (modelopt("NVFP4"), NVFP4),
    (modelopt("MXFP8"), grouped(8, 32, 8)),
    (modelopt("W4A16_AWQ"), grouped(4, 128, 16)),
    (modelopt("W4A8_AWQ", group_size=64), grouped(4, 64, 16)),
    (NF4, lambda name, inputs, outputs: inputs * outputs * (1 / 2 + 4 / 64)),
    ({**NF4, "bnb_4bit_use_double_quant": True}, lambda name, n, m: n * m * (1 / 2 + 1 / 64 + 4 / 64 / 256)),
    ({"quant_method": "bitsandbytes", "load_in_8bit": True}, grouped(8, -1, 32)),
    ({"quant_method": "quanto", "weights": "int2"}, grouped(2, 128, 32)),
    ({"quant_method": "hqq", "quant_config": HQQ, "skip_modules": ["lm_head"]}, grouped(3, 64, 32)),
    ({"quant_method": "torchao", "quant_type": INT4_TORCHAO}, grouped(4, 64, 32)),
    (torchao("IntxWeightOnlyConfig", weight_dtype={"_data": "int4", "_type": "torch.dtype"}), grouped(4, -1, 16)),
    (torchao("NVFP4InferenceConfig"), NVFP4),
    (
        torchao(
            "FqnToConfig",
            fqn_to_config={
                "_default": {"_type": "Int4WeightOnlyConfig", "_data": {"group_size": 128}},
                "re:.*down_proj": {"_type": "Int8WeightOnlyConfig", "_data": {}},
                "re:.*o_proj": None,
            },
        ),
        by_name(grouped(4, 128, 32), down_proj=FP8, o_proj=wide),
    ),
    ({"quant_method": "gptq_v2", "bits": 4, "group_size": 128, "sym": True}, INT4),
    ({"quant_method": "moe_wna16", "bits": 4, "group_size": 128, "zero_point": True}, INT4),
    ({"quant_method": "cpu_awq", "w_bit": 4, "q_group_size": 128, "zero_point": True}, INT4),
    ({"quant_method": "marlin", "group_size": 128}, grouped(4, 128, 16)),
    ({"quant_method": "nvfp4"}, NVFP4),
    ({"quant_method": "ptpc_fp8"}, FP8),
    ({"quant_method": "fp_quant", "forward_dtype": "nvfp4"}, NVFP4),
    ({"quant_method": "higgs", "bits": 4, "p": 2, "group_size": 256}, grouped(4, 256, 16)),
    ({"quant_method": "bitnet", "linear_class": "autobitlinear"}, grouped(2, -1, 16)),
    ({"quant_method": "eetq", "weights": "int8"}, grouped(8, -1, 16)),
    (quark({"dtype": "fp8_e4m3"}), FP8),
    (
        quark(
            {"dtype": "fp4", "group_size": 32}, layer_quant_config={"*self_attn*": {"weight": {"dtype": "fp8_e4m3"}}}
        ),
        by_name(MXFP4, q_proj=FP8, k_proj=FP8, v_proj=FP8, o_proj=FP8),
    ),
]


@pytest.mark.parametrize(("scheme", "matrix"), SCHEMES, ids=[str(scheme)[:70] for scheme, _ in SCHEMES])
def test_a_scheme_stores_what_its_tool_does(scheme, matrix):
    """Within 0.3 %: scales of whole rows, and GPTQ's order of inputs, are left out."""
    model = from_config({**LLAMA, "quantization_config": scheme})
    assert model.doubts == ()
    assert model.precision is not None
    assert model.weight_bytes(model.precision) == pytest.approx(checkpoint(matrix), rel=0.003)


@pytest.mark.parametrize(
    ("scheme", "said"),
    [
        ({"quant_method": "aqlm", "nbits_per_codebook": 16, "num_codebooks": 1}, "quant_method 'aqlm'"),
        ({"quant_method": "vptq", "config_for_layers": {}}, "quant_method 'vptq'"),
        ({"quant_method": "spqr", "bits": 3, "beta1": 16, "beta2": 16}, "quant_method 'spqr'"),
        (compressed(8, "float", "channel", sparsity_config={"format": "sparse-24-bitmask"}), "sparsity_config.format"),
        (auto_round(data_type="log"), "data_type 'log'"),
        (modelopt("MIXED_PRECISION"), "quant_algo 'MIXED_PRECISION'"),
    ],
)
def test_what_is_not_understood_is_a_doubt(scheme, said):
    (doubt,) = from_config({**LLAMA, "quantization_config": scheme}).doubts
    assert said in doubt


def test_gptq_may_store_lm_head_in_groups_too():
    model = from_config({**LLAMA, "quantization_config": gptq(4, 128, lm_head=True)})
    want = checkpoint(INT4, head=INT4("lm_head", HIDDEN, VOCABULARY))
    assert model.weight_bytes(model.precision) == pytest.approx(want, rel=0.003)


def test_experts_alone_in_8_bits():
    """vLLM's experts_int8 leaves attention, the router and all tables as they are."""
    mixture = {
        **{"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "hidden_size": 64, "vocab_size": 128},
        **{"intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_local_experts": 4},
        **{"num_experts_per_tok": 2, "num_key_value_heads": 2, "quantization_config": {"quant_method": "experts_int8"}},
    }
    model = from_config(mixture)
    experts = 2 * 4 * 3 * 64 * 96
    assert model.weight_bytes(model.precision) == 2 * (model.parameters.total - experts) + experts
