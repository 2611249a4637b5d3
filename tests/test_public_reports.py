"""Public reports with established values: what people measured, confirmed or computed, against the library."""

import numpy as np
import pytest
from oracle_data import CONFIGS

import roofline as rl
from roofline.footprint.allocation import Paging
from roofline.huggingface import from_config
from roofline.model.layout_rules import refusal

GIB = 2.0**30


def covers(found, measured_s):
    """Whether no measurement is below the floor, and the interval of the estimate holds it."""
    low, high = found.estimate_low_s, found.estimate_high_s
    return bool(np.all(found.floor_s <= measured_s) and np.all(low <= measured_s) and np.all(measured_s <= high))


def test_deepseek_v32_in_mlx_4_bit():
    """exo model cards: affine, group 64, embedding and lm_head alike."""
    precision = rl.Precision(weights="affine4_g64", exceptions={"embedding": "affine4_g64", "lm_head": "affine4_g64"})
    assert rl.get_model("deepseek-v3.2").weight_bytes(precision) == pytest.approx(378_086_226_621, rel=1e-5)


def test_a_checkpoint_with_tower_and_prediction_layers():
    """vLLM recipes: the shapes of Qwen3.6-27B in bf16."""
    assert rl.get_model("qwen3.6-27b").stored_bytes(rl.Precision()) == pytest.approx(55_563_006_776, rel=1e-5)


def test_checkpoints_of_qwen38_2400b():
    """vLLM recipes, prediction layers included; the FP8 checkpoint keeps a few more matrices in 16 bits."""
    model = rl.get_model("qwen3.8-2.4t-a95b")
    assert model.stored_bytes(rl.Precision()) == pytest.approx(4_892_388_705_238, rel=1e-5)
    assert model.stored_bytes(rl.Precision(weights="fp8_block")) == pytest.approx(2_496.15e9, rel=0.02)


def test_layouts_that_vllm_refused():
    """AdaptThink issue 1, vllm issue 11797: 28 heads on TP 8; 52435: 256 experts on EP 3, 64 heads on TP 3."""
    seven, large = rl.get_model("qwen2.5-7b"), rl.get_model("qwen3.5-397b-a17b")
    assert "28 query heads" in refusal(seven, rl.Precision(), rl.Parallel(tensor=8))
    assert "do not divide over EP 3" in refusal(rl.get_model("deepseek-v3"), rl.Precision(), rl.Parallel(1, 1, 3, 3))
    assert refusal(large, rl.Precision(), rl.Parallel(tensor=3))


def test_steps_of_qwen38_2400b_on_eight_gb300():
    """vLLM recipes, NVFP4 on TP 8: 9.9, 23.9, 37.2 and 54.7 ms at 1, 32, 64 and 128 requests; 7.5 ms tuned."""
    precision = rl.Precision(weights="nvfp4", activations="nvfp4")
    eight = rl.Parallel(tensor=8)
    serve = rl.Deployment("qwen3.8-2.4t-a95b", "gb300-nvl72", precision=precision, parallel=eight, engine="vllm")
    found = rl.decode(serve, rl.Workload(batch=np.array([1, 32, 64, 128])), context_tokens=2000)
    measured_s = np.array([9.9e-3, 23.9e-3, 37.2e-3, 54.7e-3])
    assert np.all(found.floor_s <= np.array([7.5e-3, 23.9e-3, 37.2e-3, 54.7e-3]))
    assert np.all(np.diff(found.estimate_s) > 0)
    assert np.all(np.abs(np.log(found.estimate_s / measured_s)) < np.log(1.45))
    assert covers(rl.decode(serve, rl.Workload(batch=32), context_tokens=2000), 23.9e-3)
    assert covers(rl.decode(serve, rl.Workload(batch=64), context_tokens=2000), 37.2e-3)


def test_the_ceiling_of_a_70b_in_nvfp4_on_gb10():
    """dgx-spark-playbooks issues 79 and 91: 40.61 GB a token, 6.72 tokens/s at best; measured 238 to 250 ms."""
    serve = rl.Deployment("llama-3.1-70b", "gb10-dgx-spark", precision=rl.Precision(weights="nvfp4"))
    found = rl.decode(serve, rl.Workload(), context_tokens=100)
    assert found.moved_bytes == pytest.approx(40.61e9, rel=0.005)
    assert 1 / found.floor_s == pytest.approx(6.72, rel=0.005)
    assert covers(found, 0.238)


def test_gpt_oss_120b_all_in_mxfp4_on_gb10():
    """spark-arena issue 17: attention and lm_head in MXFP4 too, 16.8 ms a token."""
    precision = rl.Precision(weights="mxfp4", exceptions={"lm_head": "mxfp4"})
    serve = rl.Deployment("gpt-oss-120b", "gb10-dgx-spark", precision=precision)
    assert covers(rl.decode(serve, rl.Workload(), context_tokens=100), 16.8e-3)


GGUF_OF_GPT_OSS = rl.Precision(weights="mxfp4", exceptions=dict.fromkeys(("embedding", "lm_head", "attention"), "q8_0"))


def test_the_gguf_of_gpt_oss_120b():
    """lhl strix-halo issue 33: 59.02 GiB, experts in MXFP4 and what else there is in Q8_0."""
    assert rl.get_model("gpt-oss-120b").stored_bytes(GGUF_OF_GPT_OSS) / GIB == pytest.approx(59.02, rel=2e-3)


def test_gpt_oss_120b_on_strix_halo():
    """lhl strix-halo issue 33: 21.09, 22.66 and 23.61 ms at depths of 0, 4,096 and 8,192; 2,048 tokens in 2,052 ms."""
    serve = rl.Deployment("gpt-oss-120b", "strix-halo", precision=GGUF_OF_GPT_OSS, engine="llamacpp")
    for depth, measured_s in ((1, 21.09e-3), (4096, 22.66e-3), (8192, 23.61e-3)):
        assert covers(rl.decode(serve, rl.Workload(), context_tokens=depth), measured_s)
    prompt = rl.prefill(serve, rl.Workload(2048))
    assert prompt.floor_s < 2.052
    assert any("no timings of llamacpp's kernels" in note for note in prompt.assumptions)


def test_the_latent_of_deepseek_r1_in_8_bits():
    """ik_llama issue 259: 32,768 tokens in q8_0."""
    assert rl.get_model("deepseek-r1").cache_bytes(32_768, "q8_0") / 2**20 == pytest.approx(1166.62, abs=0.01)


def test_qwen3_8b_on_an_a100():
    """vllm issue 42058: prefill of eight prompts, and the pool with either cache."""
    serve = rl.Deployment("qwen3-8b", "a100-sxm-80gb", engine="vllm")
    found = rl.prefill(serve, rl.Workload(np.array([1000, 4000, 8000, 16_000]), batch=8))
    assert covers(found, np.array([0.541, 2.28, 5.00, 11.8]))
    for kv, tokens in (("bf16", 389_872), ("fp8", 779_760)):
        need = rl.memory(serve.replace(precision=rl.Precision(kv=kv)), rl.Workload(1000, 24))
        assert need.cache_tokens == pytest.approx(tokens, rel=0.02)


def test_qwen36_27b_in_fp8_on_four_3090():
    """club-3090 issue 1028, over PCIe: 16.2 ms a token, 6.7 s for 10,000 tokens."""
    precision = rl.Precision(weights="fp8")
    four = rl.Parallel(tensor=4)
    serve = rl.Deployment("qwen3.6-27b", "rtx-3090", precision=precision, parallel=four, engine="vllm")
    assert covers(rl.decode(serve, rl.Workload(), context_tokens=1000), 16.2e-3)
    prompt = rl.prefill(serve, rl.Workload(10_000))
    assert prompt.floor_s < 6.7 < prompt.estimate_high_s
    # Passes of vLLM with prompts take longer than their kernels on other chips.
    assert prompt.estimate_low_s < 1.15 * 6.7


def test_activations_are_inside_the_fraction_of_vllm():
    """club-3090 issue 1087: the peak of activations lies inside ``gpu_memory_utilization``."""
    need = rl.memory(rl.Deployment("qwen3-8b", "rtx-3090", engine="vllm"), rl.Workload())
    pool = need.engine_pool
    inside = pool.resident_bytes + pool.activation_bytes + pool.non_torch_bytes + pool.pool_bytes
    assert inside <= pool.usable_bytes == 0.9 * pool.device_bytes
    assert pool.activation_bytes > 0


def test_kimi_k3_holds_a_latent_and_a_state():
    """inference-sim issue 1635, tt-metal issue 52979: 27.648 GB for a million tokens in bf16, half of it in fp8.

    That is 24 layers of MLA with 576 values a token; 69 layers of KDA hold 96 heads of 128 x 128 in 32 bits and three
    columns of convolution in 16.
    """
    model = rl.get_model("kimi-k3")
    assert model.cache_bytes(1_000_001) - model.cache_bytes(1) == pytest.approx(27.648e9)
    assert model.cache_bytes(1_000_001, "fp8") - model.cache_bytes(1, "fp8") == pytest.approx(13.824e9)
    caches = list(model.counted_caches())
    assert sum(count * 4 * cache.state_values for count, cache in caches) == pytest.approx(434.11e6, rel=1e-5)
    assert sum(count * 3 * cache.column_bytes for count, cache in caches) == pytest.approx(15.26e6, rel=1e-3)


def test_the_checkpoint_of_kimi_k3():
    """Its index states 1,560,860,324,864 bytes (``metadata.total_size``); 2.8 T parameters."""
    model = rl.get_model("kimi-k3")
    assert model.stored_bytes(model.precision) == pytest.approx(1_560_860_324_864, rel=5e-5)


def test_kimi_k3_fits_on_32_accelerators_of_192_gb():
    """inference-sim issue 1660: TP 16, DP 2, EP 32."""
    layout = rl.Parallel(tensor=16, data=2, expert=32)
    need = rl.memory(rl.Deployment("kimi-k3", "mi300x", parallel=layout), rl.Workload(8000, 1000))
    assert need.fits


def ling_2_5():
    """Ling-2.5-1T by its model card: 1:7 MLA and linear attention, the widths of Ling-1T, 256 experts and top 8."""
    return rl.get_model(
        {
            "model_type": "bailing_hybrid",
            "architectures": ["BailingMoeV2_5ForCausalLM"],
            **{"hidden_size": 8192, "intermediate_size": 18432, "num_hidden_layers": 80, "vocab_size": 157184},
            **{"num_attention_heads": 64, "num_key_value_heads": 64, "head_dim": 128, "use_qk_norm": True},
            **{"num_experts": 256, "num_experts_per_tok": 8, "num_shared_experts": 1, "moe_intermediate_size": 2048},
            **{"first_k_dense_replace": 4, "layer_group_size": 8, "group_norm_size": 8, "tie_word_embeddings": False},
            **{"q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128},
            "v_head_dim": 128,
        }
    )


def test_ling_2_5_is_not_ling_3():
    """sglang-jax issue 887 and the model card: 63 B active; 70 layers of simple gated linear attention, 10 of MLA."""
    model = ling_2_5()
    kinds = {}
    for layer in model.layers:
        kinds[layer.blocks[0].kind.split(" ")[0]] = kinds.get(layer.blocks[0].kind.split(" ")[0], 0) + layer.count
    assert kinds == {"lightning": 70, "MLA": 10}
    assert model.parameters.active + model.parameters.embedding == pytest.approx(63e9, rel=0.01)
    assert model.parameters.total == pytest.approx(1e12, rel=0.03)


def test_deepseek_v4_pro_on_four_mi355x():
    """InferenceX issue 2540: attention DP 4, EP 4, the layer of multi-token prediction loaded, 224.83 GiB a GPU."""
    serve = rl.Deployment("deepseek-v4-pro", "mi355x", parallel=rl.Parallel(data=4, expert=4))
    assert rl.memory(serve, rl.Workload()).weights_bytes_on_one / GIB == pytest.approx(224.83, rel=0.02)


def test_the_pool_of_qwen36_27b_in_nvfp4_on_an_rtx_5090():
    """vLLM recipes: 179,647 tokens, 1.37 sequences of 131,072; the settings of the run are not stated."""
    model = from_config(CONFIGS["nvidia--Qwen3.6-27B-NVFP4"])
    need = rl.memory(rl.Deployment(model, "rtx-5090", engine="vllm"), rl.Workload(131_071, 1))
    assert need.fits
    assert need.cache_tokens == pytest.approx(179_647, rel=0.08)
    assert need.concurrency(131_072) == pytest.approx(1.37, rel=0.08)


def test_kimi_k2_5_with_its_experts_in_host_memory():
    """ktransformers issue 1817: 32,768 tokens, one expert of each layer on the GPU, about 31 GB there."""
    serve = rl.Deployment("kimi-k2.5", "rtx-pro-6000-ws")
    need = rl.memory(serve, rl.Workload(32_767, 1), paging=Paging(weights_host_share=383 / 384))
    assert need.fits
    assert need.needed_bytes + need.workspace_bytes == pytest.approx(31e9, rel=0.08)


def test_an_eager_step_of_qwen3_8b_on_an_a100():
    """vllm issue 42058: 35 ms for 8 sequences without graphs, three times the step with graphs: the host launches."""
    serve = rl.Deployment("qwen3-8b", "a100-sxm-80gb", engine="vllm")
    graphs = rl.decode(serve, rl.Workload(batch=8), context_tokens=1000)
    assert graphs.floor_s < graphs.estimate_high_s < 35e-3
    eager = rl.decode(serve.replace(engine=rl.Engine("vllm", eager=True)), rl.Workload(batch=8), context_tokens=1000)
    assert 35e-3 / 1.5 < eager.estimate_s < 35e-3 * 1.5
    assert eager.estimate_s > 2 * graphs.estimate_s
    assert (eager.floor_s, eager.roofline_s) == (graphs.floor_s, graphs.roofline_s)
    users = rl.serve(eager.deployment, rl.Workload(992, 16), concurrency=8)
    assert users.tpot_s > eager.estimate_s * 0.95


def test_the_state_of_qwen35_35b_on_eight():
    """vllm-ascend issue 7393: 262,144 B of recurrent state for each layer and rank in fp32."""
    states = [cache.state_values for _, cache in rl.get_model("qwen3.5-35b-a3b").counted_caches() if cache.state_values]
    assert {4 * values / 8 for values in states} == {262_144}
