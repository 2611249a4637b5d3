"""Families that a configuration tells in an unusual way, or that have a part of their own."""

import pytest
from oracle_data import BESIDE_SPECS

import roofline as rl
from roofline import SpecError
from roofline.huggingface import from_config
from roofline.model.blocks import MoE


def changed(name, **fields):
    return from_config({**BESIDE_SPECS[name], **fields})


def test_grok_2_is_known_by_its_class():
    """Its model_type is ``git``, a captioner of pictures; 269,515,497,472 parameters by the hub's metadata."""
    config = BESIDE_SPECS["grok-2"]
    assert config["model_type"] == "git"
    assert from_config(config).parameters.total == 269_515_497_472
    assert from_config(config).assumptions == ()


def test_the_dense_mlp_beside_the_experts_of_grok_is_a_field():
    """64 layers of three matrices 8192 x 32768."""
    difference = changed("grok-2").parameters.total - changed("grok-2", residual_moe=False).parameters.total
    assert difference == 64 * 3 * 8192 * 32768


@pytest.mark.parametrize("field", ["sliding_window", "sliding_window_size"])
def test_a_window_of_minus_one_is_none(field):
    model = changed("grok-2", **{field: -1})
    assert model.cache_bytes(131072, kv="bf16") == 64 * 131072 * 2 * 8 * 128 * 2


def test_hunyuan_is_read_where_layers_do_not_share_their_cache():
    """Hunyuan A13B: model_type ``hunyuan`` as Hunyuan Large, whose layers share keys and values in pairs."""
    assert BESIDE_SPECS["hunyuan-a13b"]["model_type"] == "hunyuan"
    assert changed("hunyuan-a13b").parameters.total == 80_393_183_232
    shared = changed("hunyuan-a13b", use_cla=True)
    assert shared.cache_bytes(1000) == changed("hunyuan-a13b").cache_bytes(1000) / 2


HUNYUAN_LARGE = {
    **{"model_type": "hunyuan", "architectures": ["HunYuanForCausalLM"], "hidden_size": 6400, "vocab_size": 129024},
    **{"num_attention_heads": 80, "num_key_value_heads": 8, "num_hidden_layers": 64, "intermediate_size": 18304},
    **{"num_experts": 16, "moe_topk": 1, "num_shared_expert": 1, "use_qk_norm": True, "tie_word_embeddings": True},
    **{"use_cla": True, "cla_share_factor": 2},
}
STEP3 = {
    **{"model_type": "step3_text", "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61},
    **{"num_attention_heads": 64, "num_attention_groups": 1, "head_dim": 256, "share_q_dim": 2048},
    **{"vocab_size": 128815, "moe_num_experts": 48, "moe_top_k": 3, "moe_intermediate_size": 5120},
    **{"share_expert_dim": 5120, "moe_layers_enum": ",".join(map(str, range(4, 60)))},
}
DEEPSEEK_VL2_TINY = {
    "model_type": "deepseek_vl_v2",
    "language_config": {
        **{"model_type": "deepseek_v2", "use_mla": False, "hidden_size": 1280, "intermediate_size": 6848},
        **{"kv_lora_rank": None, "q_lora_rank": None, "qk_nope_head_dim": 0, "qk_rope_head_dim": 0, "v_head_dim": 0},
        **{"moe_intermediate_size": 896, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6},
        **{"num_attention_heads": 10, "num_key_value_heads": 10, "num_hidden_layers": 12, "first_k_dense_replace": 1},
        **{"vocab_size": 129280},
    },
    "vision_config": {"model_type": "vision", "layers": 27, "mlp_ratio": 3.7362, "patch_size": 14, "width": 1152},
    "projector_config": {"model_type": "mlp_projector", "n_embed": 1280},
}
INTERNVL3_8B = {
    "model_type": "internvl_chat",
    "downsample_ratio": 0.5,
    "llm_config": {
        **{"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28},
        **{"num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 151674, "tie_word_embeddings": False},
    },
    "vision_config": {
        **{"model_type": "intern_vit_6b", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24},
        **{"num_attention_heads": 16, "patch_size": 14, "image_size": 448, "qkv_bias": True, "norm_type": "layer_norm"},
    },
}
MINICPM_V_2_6 = {
    **{"model_type": "minicpmv", "architectures": ["MiniCPMV"], "version": 2.6, "hidden_size": 3584, "query_num": 64},
    **{"intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4},
    **{"vocab_size": 151666, "tie_word_embeddings": False},
    "vision_config": {
        **{"model_type": "siglip", "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27},
        **{"num_attention_heads": 16, "patch_size": 14, "image_size": 980},
    },
}
KIMI_VL = {
    "model_type": "kimi_vl",
    "text_config": {
        **{"model_type": "deepseek_v3", "vocab_size": 163840, "hidden_size": 2048, "intermediate_size": 11264},
        **{"moe_intermediate_size": 1408, "num_hidden_layers": 27, "num_attention_heads": 16, "n_shared_experts": 2},
        **{"n_routed_experts": 64, "kv_lora_rank": 512, "q_lora_rank": None, "qk_rope_head_dim": 64},
        **{"v_head_dim": 128, "qk_nope_head_dim": 128, "num_experts_per_tok": 6, "first_k_dense_replace": 1},
        **{"num_nextn_predict_layers": 0, "tie_word_embeddings": False},
    },
    "vision_config": {
        **{"model_type": "moonvit", "patch_size": 14, "num_attention_heads": 16, "num_hidden_layers": 27},
        **{"hidden_size": 1152, "intermediate_size": 4304, "init_pos_emb_height": 64, "init_pos_emb_width": 64},
    },
}


@pytest.mark.parametrize(
    ("config", "billions", "active_billions"),
    [
        # arXiv:2411.02265, section 1: 389 B of which 52 B are active.
        (HUNYUAN_LARGE, 388.7, 51.3),
        # arXiv:2507.19427, table 1: 316 B of which 38 B are active, without the tower.
        (STEP3, 316.3, 37.9),
        # Model pages of the hub: 3.37 B, 7.94 B, 8.1 B and 16.4 B, towers included.
        (DEEPSEEK_VL2_TINY, 3.37, None),
        (INTERNVL3_8B, 7.944, None),
        (MINICPM_V_2_6, 8.099, None),
        (KIMI_VL, 16.41, None),
    ],
    ids=["Hunyuan Large", "Step3", "DeepSeek-VL2 tiny", "InternVL3 8B", "MiniCPM-V 2.6", "Kimi-VL"],
)
def test_models_whose_classes_stand_beside_their_checkpoints(config, billions, active_billions):
    model = from_config(config)
    digits = 0.5 if billions > 100 else 0.005
    assert not model.doubts
    assert (model.parameters.total + sum(model.apart.values())) / 1e9 == pytest.approx(billions, abs=digits)
    if active_billions:
        assert model.parameters.active / 1e9 == pytest.approx(active_billions, rel=0.02)
    if model.apart:
        assert set(model.towers) == set(model.apart)


def test_queries_of_step3_come_from_a_normalized_latent():
    """7168 x 2048, a norm of 2048, 2048 x 64 x 256 instead of 7168 x 64 x 256, in 61 layers; one KV head of 256."""
    plain = from_config({name: value for name, value in STEP3.items() if name != "share_q_dim"})
    saved = 7168 * 64 * 256 - (7168 * 2048 + 2048 + 2048 * 64 * 256)
    assert plain.parameters.total - from_config(STEP3).parameters.total == 61 * saved
    assert from_config(STEP3).cache_bytes(1) == 61 * 2 * 256 * 2


def test_every_second_layer_of_hunyuan_large_reads_the_cache_of_the_one_before():
    assert from_config(HUNYUAN_LARGE).cache_bytes(1) == 32 * 2 * 8 * 80 * 2


def test_shared_experts_of_hunyuan_are_counted_layer_by_layer():
    """One expert more in a single layer: three matrices 4096 x 3072."""
    more = changed("hunyuan-a13b", num_shared_expert=[2] + [1] * 31)
    assert more.parameters.total - changed("hunyuan-a13b").parameters.total == 3 * 4096 * 3072


def test_a_shortcut_layer_is_two_layers_with_the_experts_beside_the_second_mlp():
    """LongCat-Flash: 560 B, of which 18.6 to 31.3 B work on a token, 27 B on average (model card)."""
    plain, with_experts = rl.get_model("longcat-flash").layers
    assert (plain.count, with_experts.count) == (28, 28)
    assert [isinstance(block, MoE) for block in with_experts.blocks] == [False, False, True]
    assert with_experts.together == (1, 2)


def test_sliding_layers_of_step_have_more_query_heads():
    """Megatron Bridge builds 199,997,706,240 parameters; a gate there is as wide as a head, 128 times ours.

    12 full layers have 64 query heads, 33 sliding ones and three prediction layers have 96.
    """
    model = rl.get_model("step-3.5-flash")
    built = model.parameters.total + model.apart["multi_token_prediction"]
    wider_gates = 4096 * 127 * (12 * 64 + (33 + 3) * 96)
    assert built + wider_gates == 199_997_706_240


def test_towers_of_gemma_3n():
    """Counted by transformers 5.24.0 and timm 1.0.31: encoders and what embeds their output."""
    for name in ("gemma-3n-e2b", "gemma-3n-e4b"):
        assert rl.get_model(name).apart == {"vision": 294_126_912 + 4_460_544, "audio": 681_348_640 + 3_345_408}


def test_an_image_encoder_that_is_only_named_is_left_out_with_a_note():
    config = BESIDE_SPECS["gemma-3n-e2b"]
    odd = {**config, "vision_config": {**config["vision_config"], "architecture": "mobilenetv6"}}
    assert from_config(odd).doubts == ("vision_config: the tower is not counted, since its shapes are unknown",)


@pytest.mark.parametrize("ratio", [None, True, "wide", 0, -1.0])
def test_a_perception_encoder_without_a_ratio_is_one_line(ratio):
    config = BESIDE_SPECS["step-3.7-flash"]
    with pytest.raises(SpecError, match="mlp_ratio must be a number above 0"):
        from_config({**config, "vision_config": {**config["vision_config"], "mlp_ratio": ratio}})


def test_a_bottleneck_before_the_gates_of_ling_3_is_a_field():
    """35 layers of Kimi delta attention, decay and gate each 2560 x 4096, or through a bottleneck of 128 values."""
    direct = 2560 * 4096
    narrow = 2560 * 128 + 128 * 4096
    difference = (
        changed("ling-3.0-flash").parameters.total - changed("ling-3.0-flash", no_kda_lora=False).parameters.total
    )
    assert difference == 35 * 2 * (direct - narrow)


@pytest.mark.parametrize(
    ("name", "fields", "stored"),
    [
        ("ling-2.6-flash", {}, 107),
        ("ling-3.0-flash", {}, 127),
        ("ling-flash-2.0", {"num_nextn_predict_layers": 1}, 106),
        ("ling-mini-2.0", {"num_nextn_predict_layers": 1}, 17),
        ("ling-flash-2.0", {}, 103),
        ("ling-mini-2.0", {}, 16),
    ],
)
def test_prediction_layers_of_ling_are_like_its_last(name, fields, stored):
    """The hub's sizes of Ling flash 2.6 and 3.0, and of the 2.0 base models with their layer and chat ones without."""
    model = changed(name, **fields)
    assert (model.parameters.total + sum(model.apart.values())) / 1e9 == pytest.approx(stored, abs=0.5)
    assert not model.doubts


@pytest.mark.parametrize(
    ("name", "stored"),
    [("nemotron-3-super-120b-a12b", 124), ("nemotron-3-ultra-550b-a55b", 561), ("mimo-7b", 7.83)],
)
def test_prediction_layers_fill_the_gap_to_what_the_hub_stores(name, stored):
    """The hub's sizes of both Nemotrons; MiMo's four files of 4.99, 4.97, 4.47 and 1.24 GB in bf16."""
    model = changed(name)
    assert (model.parameters.total + sum(model.apart.values())) / 1e9 == pytest.approx(stored, rel=0.004)
    assert not model.doubts


def test_the_prediction_layer_of_ernie_is_dense():
    """2560 wide, 20 query heads and 4 of keys and values of 128, an MLP of 12288, two norms of its own."""
    attention = 2 * 2560 * 20 * 128 + 2 * 2560 * 4 * 128
    layer = attention + 3 * 2560 * 12288 + 2 * 2560
    assert changed("ernie-4.5-21b-a3b").apart == {"multi_token_prediction": layer + 2 * 2560**2 + 2 * 2560}


def test_the_prediction_layer_of_exaone_is_one_more_layer():
    """5120 wide, 40 query heads and 8 of keys and values of 128, each normalized, an MLP of 27392."""
    attention = 2 * 5120 * 40 * 128 + 2 * 5120 * 8 * 128 + 2 * 128
    layer = attention + 3 * 5120 * 27392 + 2 * 5120
    assert changed("exaone-4.5-33b").apart["multi_token_prediction"] == layer + 2 * 5120**2 + 3 * 5120


def test_the_prediction_layer_of_k_exaone_is_dense():
    """6144 wide, 64 query heads and 8 of keys and values of 128, each normalized, an MLP of 18432."""
    attention = 2 * 6144 * 64 * 128 + 2 * 6144 * 8 * 128 + 2 * 128
    layer = attention + 3 * 6144 * 18432 + 2 * 6144
    assert changed("k-exaone-236b-a23b").apart == {"multi_token_prediction": layer + 2 * 6144**2 + 3 * 6144}


def test_files_may_leave_the_encoder_of_qwen2_5_vl_to_its_class():
    """The 72B's names two widths of its encoder; the hub's metadata states 73,410,777,344 parameters."""
    assert "depth" not in BESIDE_SPECS["qwen2.5-vl-72b"]["vision_config"]
    large = changed("qwen2.5-vl-72b")
    assert large.parameters.total + large.apart["vision"] == 73_410_777_344
    short = {"hidden_size": 1280, "in_chans": 3, "model_type": "qwen2_5_vl", "spatial_patch_size": 14}
    assert changed("qwen2.5-vl-7b", vision_config=short).apart == changed("qwen2.5-vl-7b").apart
    assert changed("qwen2.5-vl-7b", vision_config=short).towers == changed("qwen2.5-vl-7b").towers


@pytest.mark.parametrize(("name", "layers"), [("mimo-v2-flash", 48), ("mimo-v2.5-pro-1t", 70)])
def test_mimo_keeps_the_output_of_attention_in_16_bits(name, layers):
    """Its FP8 checkpoints ignore every ``o_proj``; a share of a model's attention is then stored twice as large."""
    config = BESIDE_SPECS[name]
    assert len(config["quantization_config"]["ignored_layers"]) == layers
    less = changed(name, quantization_config={**config["quantization_config"], "ignored_layers": []})
    whole = changed(name)
    wider = whole.weight_bytes(whole.precision) - less.weight_bytes(less.precision)
    scales = 4 / 128**2
    each = config["num_attention_heads"] * 128 * config["hidden_size"]
    assert wider == pytest.approx(layers * each * (2 - 1 - scales), rel=1e-6)


def test_a_pattern_of_prediction_layers_with_an_unknown_letter_is_one_line():
    with pytest.raises(SpecError, match=r"mtp_hybrid_override_pattern\[1\] is 'Q'"):
        changed("nemotron-3-super-120b-a12b", mtp_hybrid_override_pattern="*Q")
    without = changed("nemotron-3-super-120b-a12b", mtp_hybrid_override_pattern=None)
    assert without.doubts == ("one layer of multi-token prediction not counted, since their shapes are unknown",)


@pytest.mark.parametrize(("name", "built"), [("gemma-4-e2b", 5_104_297_504), ("gemma-4-e4b", 7_941_100_832)])
def test_gemma_4_hears_with_the_encoder_of_gemma_3n(name, built):
    """Model cards: 5.1 B and 8 B with embeddings; transformers 5.24.0 builds all three parts on the meta device."""
    gemma = changed(name)
    assert gemma.parameters.total + gemma.apart["vision"] + gemma.apart["audio"] == built


@pytest.mark.parametrize("channels", [[128], [128, "32"], [128, 0], [128, 32, 8], [True, 32]])
def test_the_convolutions_of_an_audio_encoder_are_two_numbers(channels):
    audio = BESIDE_SPECS["gemma-4-e2b"]["audio_config"]
    with pytest.raises(SpecError, match="subsampling_conv_channels must be two integers above 0"):
        changed("gemma-4-e2b", audio_config={**audio, "subsampling_conv_channels": channels})


def test_arctic_is_the_sum_that_its_makers_give():
    """10 B of a dense model, and 128 experts of 3.66 B of which two are used: 480 B, and 17 B active."""
    arctic = changed("snowflake-arctic").parameters
    assert arctic.total / 1e9 == pytest.approx(10 + 128 * 3.66, rel=0.001)
    assert arctic.active / 1e9 == pytest.approx(10 + 2 * 3.66, abs=0.5)


def test_minimax_counts_neither_embedding_nor_lm_head_as_active():
    """45.9 B of 456 B are active, as its model card says; the table of 200064 words is 6144 wide."""
    minimax = changed("minimax-text-01").parameters
    assert (minimax.active - 200064 * 6144) / 1e9 == pytest.approx(45.9, abs=0.05)


def test_lfm2_takes_two_thirds_of_block_ff_dim():
    """Model card: 1.17 B parameters; transformers builds 1,170,340,608."""
    assert "intermediate_size" not in BESIDE_SPECS["lfm2-1.2b"]
    assert changed("lfm2-1.2b").parameters.total == 1_170_340_608


def test_glm_5_3_flash_predicts_with_a_layer_of_sparse_attention():
    """321.3 B with tower and prediction layer (github.com/unslothai/llama.cpp/pull/116), which is a DSA layer."""
    model = changed("glm-5.3-flash")
    assert model.doubts == ()
    assert (model.parameters.total + sum(model.apart.values())) / 1e9 == pytest.approx(321.3, abs=0.05)


@pytest.mark.parametrize("name", ["minimax-m2.5", "minimax-m2.7"])
def test_prediction_layers_that_nobody_published_are_not_resident(name):
    """Files name three modules, checkpoints have no such tensors (github.com/MiniMax-AI/MiniMax-M2.7/issues/16)."""
    model = changed(name, use_mtp=True, num_mtp_modules=3)
    assert model.doubts == ()
    assert dict(model.apart) == {}


def test_the_tables_of_n_grams_of_longcat_are_looked_up():
    """12 tables (four for 2-, 3- and 4-grams) of 78 x 131,072 rows and 1, 3, 5 ... more, 256 wide, and 12 matrices."""
    model = rl.get_model("longcat-flash-lite")
    rows = 12 * 78 * 131072 + sum(range(1, 24, 2))
    tables = [table for table in model.tables if table.name.startswith("ngram")]
    assert sum(table.rows * table.width for table in tables) == rows * 256
    step = rl.decode(rl.Deployment(model, "h100-sxm"), rl.Workload(100))
    projections = [each.operator for each in step.operators if each.name == "ngram_projection"]
    assert sum(float(each.count * each.work.flops) for each in projections) == 2 * 12 * 256 * 3072
    assert model.parameters.active < model.parameters.total - rows * 256


def test_a_pattern_of_layers_may_be_a_list_of_letters():
    config = BESIDE_SPECS["nemotron-h-56b"]
    listed = {**config, "hybrid_override_pattern": list(config["hybrid_override_pattern"])}
    assert from_config(listed).parameters.total == from_config(config).parameters.total
