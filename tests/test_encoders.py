"""Embedders and rerankers: exact counts, one pass without a cache, and what there is none of."""

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import answer, run, text
from oracle_data import MODEL_SPECS

import roofline as rl
from roofline.huggingface import from_config

BERT = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
}
XLMR = BERT | {
    "model_type": "xlm-roberta",
    "architectures": ["XLMRobertaModel"],
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "vocab_size": 250002,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "pad_token_id": 1,
}
MPNET = BERT | {
    "model_type": "mpnet",
    "architectures": ["MPNetModel"],
    "vocab_size": 30527,
    "max_position_embeddings": 514,
    "relative_attention_num_buckets": 32,
}
DISTIL = {
    "model_type": "distilbert",
    "architectures": ["DistilBertModel"],
    "dim": 768,
    "n_layers": 6,
    "n_heads": 12,
    "hidden_dim": 3072,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
}
GTE_BASE = XLMR | {
    "model_type": "new",
    "architectures": ["NewModel"],
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "vocab_size": 250048,
    "max_position_embeddings": 8192,
    "position_embedding_type": "rope",
}
NOMIC = {
    "model_type": "nomic_bert",
    "architectures": ["NomicBertModel"],
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_inner": 3072,
    "n_positions": 8192,
    "vocab_size": 30528,
    "type_vocab_size": 2,
    "activation_function": "swiglu",
    "qkv_proj_bias": False,
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
}
NOMIC_EXPERTS = NOMIC | {
    "vocab_size": 250048,
    "type_vocab_size": 1,
    "activation_function": "gelu",
    "qkv_proj_bias": True,
    "mlp_fc1_bias": True,
    "mlp_fc2_bias": True,
    "num_experts": 8,
    "moe_top_k": 2,
    "moe_every_n_layers": 2,
}
JINA_2 = BERT | {
    "architectures": ["JinaBertModel"],
    "vocab_size": 30528,
    "max_position_embeddings": 8192,
    "position_embedding_type": "alibi",
    "feed_forward_type": "geglu",
}
JINA_3 = XLMR | {
    "max_position_embeddings": 8194,
    "position_embedding_type": "rotary",
    "lora_adaptations": ["retrieval.query", "retrieval.passage", "separation", "classification", "text-matching"],
    "lora_rank": 4,
    "lora_alpha": 1,
}
DEBERTA_3 = BERT | {
    "model_type": "deberta-v2",
    "architectures": ["DebertaV2Model"],
    "vocab_size": 128100,
    "type_vocab_size": 0,
    "relative_attention": True,
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": "p2c|c2p",
    "position_biased_input": False,
    "max_relative_positions": -1,
    "pooler_hidden_size": 768,
}
ALBERT = BERT | {
    "model_type": "albert",
    "architectures": ["AlbertModel"],
    "embedding_size": 128,
    "vocab_size": 30000,
    "num_hidden_groups": 1,
    "inner_group_num": 1,
}
ELECTRA = BERT | {"model_type": "electra", "architectures": ["ElectraModel"], "embedding_size": 768}
E5_MISTRAL = {
    "model_type": "mistral",
    "architectures": ["MistralModel"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 32,
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
    "sliding_window": None,
    "tie_word_embeddings": False,
}


def counted(config, **changes):
    return from_config({**config, **changes}).parameters.total


@pytest.mark.parametrize(
    ("count", "total"),
    [
        # BertModel and its kin built by transformers, as their model pages print them.
        (lambda: counted(BERT), 109_482_240),
        (lambda: counted(XLMR), 559_890_432),
        (lambda: counted(MPNET), 109_486_464),
        (lambda: counted(DISTIL), 66_362_880),
        # The head of BertForMaskedLM in the place of the pooler: 768 x 768 + 768 + 2 x 768, and 30,522 biases.
        (lambda: counted(BERT, architectures=["BertForMaskedLM"]), 109_482_240 + 1_536 + 30_522),
        # Counts of the safetensors by the hub's model pages.
        (lambda: counted(NOMIC), 136_731_648),
        (lambda: counted(NOMIC_EXPERTS), 475_292_928),
        (lambda: counted(JINA_2), 137_368_320),
        (lambda: sum(from_config(JINA_3).apart.values()) + counted(JINA_3), 572_310_396),
        (lambda: counted(E5_MISTRAL), 7_241_732_096 - 32_000 * 4096),
        # Built by transformers 5.24.0 on the meta device.
        (lambda: counted(DEBERTA_3), 183_831_552),
        (lambda: counted(ALBERT), 11_683_584),
        (lambda: counted(ELECTRA), 108_891_648),
        # ColBERT v2: BertModel and 768 x 128.
        (lambda: counted(BERT, architectures=["HF_ColBERT"], dim=128), 109_482_240 + 768 * 128),
        # 305 M by the model card of gte-multilingual-base: 250,048 x 768 + 3 x 768, 12 layers of 9,444,096.
        (lambda: counted(GTE_BASE), 192_036_864 + 3 * 768 + 12 * 9_444_096),
        # bge-reranker-v2-m3: XLM-R with 7,680 more positions, and 1,024 weights and a bias for the score.
        (lambda: rl.get_model("bge-reranker-v2-m3").parameters.total, 567_755_777),
        (lambda: rl.get_model("bge-m3").parameters.total, 559_890_432 + 7_680 * 1024),
        (lambda: rl.get_model("multilingual-e5-large").parameters.total, 559_890_432),
        (lambda: rl.get_model("bge-large-en-v1.5").parameters.total, 335_141_888),
        (lambda: rl.get_model("e5-large-v2").parameters.total, 335_141_888),
        (lambda: rl.get_model("all-minilm-l6-v2").parameters.total, 22_713_216),
        (lambda: rl.get_model("gte-large-en-v1.5").parameters.total, 434_139_136),
        (lambda: rl.get_model("modernbert-large").parameters.total, 395_881_664),
        # ModernBertModel is 149,014,272; the head adds 768 x 768, a norm of 768 and 50,368 biases.
        (lambda: rl.get_model("modernbert-base").parameters.total, 149_014_272 + 768 * 769 + 50_368),
    ],
)
def test_counts_are_exact(count, total):
    assert count() == total


def test_active_parameters_leave_out_what_is_looked_up():
    """Counts of transformers 5.24.0 built on the meta device."""
    assert rl.get_model("e5-large-v2").parameters.active == 303_361_024
    assert rl.get_model("modernbert-large").parameters.active == 395_881_664


def test_one_pass_of_bge_m3_by_hand():
    """32 x 512 tokens: 24 layers of 4 x 1024^2 and 2 x 1024 x 4096 weights, 512^2 pairs, a pooler for each sequence."""
    phase = rl.encode(rl.Deployment("bge-m3", "l4"), rl.Workload(512, batch=32))
    tokens, width = 32 * 512, 1024
    products = 2 * tokens * 24 * (4 * width**2 + 2 * width * 4096)
    assert phase.flops == products + 24 * 32 * 4 * width * 512**2 + 2 * 32 * width**2
    assert phase.cache_bytes == 0
    assert phase.floor_s <= phase.roofline_s <= phase.estimate_s
    # The floor: FLOPs at 121 TFLOP/s, the weights of the layers once, nothing of the embedding but its rows.
    weights = 2 * (24 * (12 * width**2 + 13 * width) + width**2)
    assert phase.least_bytes == pytest.approx(weights, rel=1e-3)


PUBLISHED = {"TEI": 0.54, "Infinity": 0.51, "TensorRT": 0.43, "ONNX": 0.41, "Sentence Transformers": 0.17}
"""Requests per second of BGE large en v1.5 on an L4: 256 sentences of 115,000 tokens together, servers included
(github.com/michaelfeil/infinity, docs/benchmarks/benchmarking.md, version 0.0.25)."""


def test_servers_of_embeddings_stay_above_the_floor_and_the_best_are_in_the_interval():
    phase = rl.encode(rl.Deployment("bge-large-en-v1.5", "l4"), rl.Workload(round(115_000 / 256), batch=256))
    times_s = {server: 1 / rate for server, rate in PUBLISHED.items()}
    assert min(times_s.values()) > phase.roofline_s > phase.floor_s
    for server in ("TEI", "Infinity"):
        assert phase.estimate_low_s < times_s[server] < phase.estimate_high_s


def test_a_decoder_without_its_mask_is_an_embedder():
    """EmbeddingGemma 300M: Gemma 3's layers, 256 tokens on either side in 20 of 24, no lm_head; 303 M by its page."""
    model = rl.get_model("embeddinggemma-300m")
    layer = 2 * 768 * 768 + 2 * 768 * 256 + 2 * 256 + 3 * 768 * 1152 + 4 * 768
    assert model.parameters.total == 262_144 * 768 + 24 * layer + 768 == 302_863_104
    assert model.parameters.active == 24 * layer + 768
    assert model.encodes
    assert {block.window for each in model.layers for block in each.blocks[:1]} == {None, 513}
    config = json.loads((MODEL_SPECS / "embeddinggemma-300m.config.json").read_text(encoding="utf-8"))
    assert not from_config({**config, "architectures": ["Gemma3ForCausalLM"]}).encodes
    masked = from_config({**config, "use_bidirectional_attention": False})
    assert all(block.causal for each in masked.layers for block in each.blocks[:1])
    assert masked.parameters.total == model.parameters.total


def test_shared_layers_of_albert_run_each_time():
    """12 layers of 4 x 768^2 and 2 x 768 x 3072 weights that are stored once, and a projection from width 128."""
    model = from_config(ALBERT)
    phase = rl.encode(rl.Deployment(model, "l4"), rl.Workload(512, batch=4))
    tokens, width = 4 * 512, 768
    products = 2 * tokens * (12 * (4 * width**2 + 2 * width * 3072) + 128 * width)
    assert phase.flops == products + 12 * 4 * 4 * width * 512**2 + 2 * 4 * width**2


def test_relative_positions_of_deberta_are_scored():
    """Both terms project 512 relative positions and score each token against them, in 12 layers (arXiv:2006.03654)."""
    plain = from_config({**DEBERTA_3, "relative_attention": False})
    with_positions = from_config(DEBERTA_3)
    load, tokens = rl.Workload(256, batch=8), 8 * 256
    more = (
        rl.encode(rl.Deployment(with_positions, "l4"), load).flops - rl.encode(rl.Deployment(plain, "l4"), load).flops
    )
    assert more == 12 * 2 * (2 * 512 * 768**2 + 2 * tokens * 768 * 512)


def test_an_embedder_with_a_causal_mask_generates_nothing():
    model = from_config(E5_MISTRAL)
    assert model.encodes
    serve = rl.Deployment(model, "l4")
    with pytest.raises(rl.InvalidInput, match="generates no tokens"):
        rl.decode(serve, rl.Workload(512))
    # Half the pairs of a model without a mask, and 2 FLOPs a parameter of the layers.
    layers = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    assert rl.encode(serve, rl.Workload(512)).flops == 2 * 512 * layers + 32 * 4 * 4096 * 512 * 513 / 2


@pytest.mark.parametrize(
    ("head", "more"),
    [
        ("MistralForSequenceClassification", 4096),
        ("MistralForTokenClassification", 4096 + 1),
        ("Qwen2ForRewardModel", 4096 * 4096 + 4096 + 4096 + 1),
        ("Qwen2ForProcessRewardModel", 4096 * 4096 + 4096 + 2 * 4096 + 2),
    ],
)
def test_scores_stand_in_the_place_of_lm_head(head, more):
    changes = {"architectures": [head], "id2label": {"0": "LABEL_0"}}
    assert counted(E5_MISTRAL, **changes) == counted(E5_MISTRAL) + more


def test_windows_of_modernbert_by_hand():
    """Of 28 layers the first and every third see all; the others 64 tokens on either side."""
    phase = rl.encode(rl.Deployment("modernbert-large", "l4"), rl.Workload(8192))
    (whole, other, local) = [item for item in phase.operators if item.operator.kind == "attention"]
    assert (whole.operator.count, other.operator.count, local.operator.count) == (1, 9, 18)
    assert whole.operator.work.flops == 4 * 1024 * 8192**2
    pairs = sum(min(8191, at + 64) - max(0, at - 64) + 1 for at in range(8192))
    assert local.operator.work.flops == 4 * 1024 * pairs


def test_keys_and_values_of_an_encoder_are_activations():
    """Of 16 heads of 64: queries and outputs, keys and values of 512 tokens once each, in 16 bits."""
    phase = rl.encode(rl.Deployment("bge-m3", "l4"), rl.Workload(512))
    attention = next(item.operator for item in phase.operators if item.operator.kind == "attention")
    assert attention.work.activation_bytes == 4 * 512 * 1024 * 2
    assert attention.work.cache_bytes == attention.least.cache_bytes == 0


def test_a_head_for_masked_tokens_does_not_run():
    plain, head = (
        rl.Deployment(from_config({**BERT, "architectures": [name]}), "l4") for name in ("BertModel", "BertForMaskedLM")
    )
    load = rl.Workload(512, batch=4)
    ran = [[item.name for item in rl.encode(each, load).operators] for each in (plain, head)]
    assert [name for name in ran[0] if name not in ran[1]] == ["pooler"]
    assert any("predicts masked tokens" in note for note in rl.encode(head, load).assumptions)


def test_a_reranker_scores_one_position_of_each_pair():
    phase = rl.encode(rl.Deployment("bge-reranker-v2-m3", "l4"), rl.Workload(512, batch=10))
    (scores,) = [item.operator for item in phase.operators if item.name == "classifier"]
    assert scores.work.flops == 2 * 10 * 1024


def test_sweeps_and_layouts():
    batch = np.array([1, 8, 64])
    serve = rl.Deployment("bge-m3", "h100-sxm")
    swept = rl.encode(serve, rl.Workload(512, batch=batch))
    single = [rl.encode(serve, rl.Workload(512, batch=int(each))).estimate_s for each in batch]
    assert np.allclose(swept.estimate_s, single)
    one = rl.encode(serve, rl.Workload(512, batch=64))
    for layout in ({"tensor": 2}, {"pipeline": 2}, {"data": 2}):
        spread = rl.encode(serve.replace(parallel=rl.Parallel(**layout)), rl.Workload(512, batch=64))
        assert spread.flops == pytest.approx(one.flops, rel=1e-3)
        assert spread.floor_s == pytest.approx(one.floor_s / 2, rel=0.01)


def test_a_pipeline_never_cuts_a_sequence():
    serve = rl.Deployment("bge-m3", "h100-sxm", engine="vllm", parallel=rl.Parallel(pipeline=4))
    phase = rl.encode(serve, rl.Workload(8192, batch=1))
    (attention,) = [item.operator for item in phase.operators if item.operator.kind == "attention"]
    assert attention.inputs["new_tokens"] == 8192


@pytest.mark.parametrize("engine", [None, "vllm"])
def test_memory_has_no_cache(engine):
    serve = rl.Deployment("bge-m3", "l4", engine=engine)
    need = rl.memory(serve, rl.Workload(512, batch=32))
    assert (need.kv_bytes, need.paged_kv_bytes, need.cache_tokens) == (0, 0, 0)
    assert need.weights_bytes == 567_754_752 * 2
    # A token in the widest block, the MLP: 2 x 1,024 + 4,096 + 4,096 values in 16 bits.
    assert need.workspace_bytes == 32 * 512 * (2 * 1024 + 2 * 4096) * 2
    room = serve.accelerator.memory_bytes - need.weights_bytes
    assert need.max_batch == room // (512 * (2 * 1024 + 2 * 4096) * 2)
    assert "in a pass" in need.fit()


@pytest.mark.parametrize(
    "ask",
    [
        rl.decode,
        lambda serve, load: rl.mixed(serve, decode=load, prefill=load),
        rl.generate,
        lambda serve, load: rl.serve(serve, load, concurrency=4),
        lambda serve, load: rl.simulate(serve, load, concurrency=4, requests=4),
        lambda serve, load: rl.apply(serve, load, "chunked-prefill"),
        lambda serve, load: rl.plan(serve.model, serve.accelerator, load),
        rl.advise,
        lambda serve, load: rl.solve(serve, load, find="batch", target=0.05),
        rl.crossovers,
    ],
    ids=["decode", "mixed", "generate", "serve", "simulate", "apply", "plan", "advise", "solve", "crossovers"],
)
def test_what_needs_generation_is_refused_in_one_line(ask):
    with pytest.raises(rl.RooflineError, match=r"^bge-m3 is an encoder, which runs in one pass [^\n]*$"):
        ask(rl.Deployment("bge-m3", "l4"), rl.Workload(512, 16))


def test_a_decoder_is_not_encoded():
    with pytest.raises(rl.RooflineError, match=r"llama-3\.1-8b is a decoder"):
        rl.encode(rl.Deployment("llama-3.1-8b", "l4"), rl.Workload())


@pytest.mark.parametrize(
    ("load", "layout", "said"),
    [
        (rl.Workload(512, cached_tokens=16), {}, "cached_tokens must be 0: bge-m3 encodes whole sequences"),
        (rl.Workload(512), {"context": 2}, "context must be 1"),
        (rl.Workload(512, images=1), {}, "images must be 0"),
    ],
)
def test_what_an_encoder_does_not_take(load, layout, said):
    serve = rl.Deployment("bge-m3", "l4", parallel=rl.Parallel(**layout))
    with pytest.raises(rl.RooflineError, match=said):
        rl.encode(serve, load)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"architectures": ["BertForNextSentencePrediction"]},
            "the head of class 'BertForNextSentencePrediction' is not",
        ),
        ({"num_attention_heads": 7}, "hidden_size 768 is not a multiple of num_attention_heads 7"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type must be one of absolute, rope"),
        ({"hidden_size": "wide"}, "hidden_size must be an integer"),
        ({"model_type": "longformer"}, "'longformer' is not a decoder language model"),
        ({"model_type": "wav2vec2"}, "'wav2vec2' is not a decoder language model but an encoder of sound"),
        ({"model_type": "parakeet_ctc"}, "not a decoder language model but an encoder of sound"),
        ({"model_type": "clip"}, "not a decoder language model but an encoder of images"),
    ],
)
def test_other_encoders_are_refused_in_one_line(changes, said):
    with pytest.raises(rl.SpecError, match=said) as caught:
        from_config({**BERT, **changes})
    assert "\n" not in str(caught.value)


def test_a_quantized_encoder_and_an_index_are_read(tmp_path):
    quantization = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    model = from_config({**BERT, "quantization_config": quantization})
    assert model.precision is not None
    assert model.precision.weights == "int8"


def test_a_checkpoint_in_fp32_runs_in_16_bits():
    model = from_config({**BERT, "torch_dtype": "float32"}, checkpoint_bytes=4 * 109_482_240)
    assert rl.memory(rl.Deployment(model, "l4"), rl.Workload(512)).weights_bytes == 2 * 109_482_240


def test_the_command_line_answers_with_one_pass():
    asked = ("analyze", "bge-m3", "--hardware", "l4", "--batch", "32", "--prompt", "512")
    found = answer(*asked)
    phase = rl.encode(rl.Deployment("bge-m3", "l4"), rl.Workload(512, batch=32))
    assert found["encode"]["estimate_s"] == phase.estimate_s
    assert found["encode"]["sequences_per_s"] == 32 / phase.roofline_s
    assert found["memory"]["kv_bytes_per_sequence"] == 0
    assert not {"prefill", "decode", "generate"} & found.keys()
    said = text(*asked)
    assert f"{32 / phase.estimate_s:,.0f}" in next(line for line in said.splitlines() if "sequences/s" in line)
    assert "KV cache" not in said
    assert "One pass" in text(*asked, "--full")
    assert len(text(*asked[:5], "1,8", "--prompt", "512").splitlines()) == 6
    derived = answer("explain", *asked[1:], "--phase", "encode")["encode"]
    assert next(step["value"] for step in derived if step["name"] == "encode.floor_s") == phase.floor_s
    for command in (("serve", "bge-m3", "--concurrency", "4"), ("plan", "bge-m3"), ("advise", "bge-m3")):
        refused = run(*command, "--hardware", "l4")
        assert refused.exit_code == 2
        assert "bge-m3 is an encoder" in refused.stderr


def test_specs_of_encoders_say_where_they_stop(tmp_path):
    """XLM-R's table of positions starts behind the padding token's."""
    assert rl.get_model("bge-m3").max_context_tokens == 8192
    assert rl.get_model("multilingual-e5-large").max_context_tokens == 512
    long = rl.encode(rl.Deployment("bge-large-en-v1.5", "l4"), rl.Workload(2000))
    assert any("beyond the 512" in note for note in long.assumptions)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(BERT), encoding="utf-8")
    assert rl.get_model(Path(tmp_path)).encodes


def test_the_encoder_of_text_of_clip():
    """openai/clip-vit-large-patch14: 123,060,480 parameters, and a projection of 768 x 768 (arXiv:2103.00020)."""
    config = {
        **{"model_type": "clip_text_model", "architectures": ["CLIPTextModel"], "vocab_size": 49408},
        **{"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12},
        **{"max_position_embeddings": 77, "projection_dim": 768},
    }
    assert from_config(config).parameters.total == 123_060_480
    projected = from_config(config | {"architectures": ["CLIPTextModelWithProjection"]})
    assert projected.parameters.total == 123_060_480 + 768**2
    one = rl.encode(rl.Deployment(projected, "h100-sxm"), rl.Workload(77))
    matrices = 12 * (4 * 768**2 + 2 * 768 * 3072)
    assert one.flops == 2 * 77 * matrices + 12 * 4 * 768 * 77**2 + 2 * 768**2
