"""Images and sound in prompts: the work of encoders, against published counts and by hand."""

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import answer, text
from oracle_data import BESIDE_SPECS

import roofline as rl
from roofline.huggingface import from_config
from roofline.model import Product, Tower
from roofline.operators.operator import Pass, Segment
from roofline.operators.softmax_attention import mutual_pairs

FURTHER = Path(__file__).parent / "data" / "oracle" / "further"
CONFIGS = BESIDE_SPECS | {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(FURTHER.glob("*.json"))}
WITH_TOWERS = [name for name, config in CONFIGS.items() if {"vision_config", "audio_config"} & config.keys()]

SHAPES_NOT_KNOWN = {"apertus1p5", "locateanything"}
"""Wrappers whose towers are counted at most; prompts with images are refused."""

RUN_IN_PART = {"granite_docling": 0.89, "minicpmv4_6": 0.5, "minicpmv4_7": 0.8}
"""Share that runs: one of two paths of mergers; a layer on a quarter of the positions counts as a quarter."""


def flops(found):
    return sum(float(item.count * item.work.flops) for item in found)


def encoding(name, **media):
    """Operators of the tower in the prefill of one prompt of 8,000 tokens."""
    found = rl.prefill(rl.Deployment(name, "h100-sxm"), rl.Workload(8000, **media)).operators
    return [item.operator for item in found if item.name.startswith(("vision.", "audio."))]


def vit(side, patch, width, layers):
    """A vision transformer of torchvision: heads of 64 or 80, MLPs of four times the width, a class token."""
    stem = (Product(3 * patch**2, width),)
    sizes = {"hidden": width, "intermediate": 4 * width, "layers": layers, "heads": 12 if width == 768 else 16}
    return Tower(**sizes, stem=stem, positions=(side // patch) ** 2, class_tokens=1)


@pytest.mark.parametrize(
    ("tower", "published_gmacs"),
    [
        # torchvision's documentation of pretrained weights prints multiply-adds as GFLOPS, without softmax and norms.
        (vit(224, 16, 768, 12), 17.56),
        (vit(224, 32, 768, 12), 4.41),
        (vit(224, 16, 1024, 24), 61.55),
        (vit(512, 16, 1024, 24), 361.99),
        (vit(518, 14, 1280, 32), 1016.72),
    ],
    ids=["ViT_B_16", "ViT_B_32", "ViT_L_16", "ViT_L_16 at 512", "ViT_H_14 at 518"],
)
def test_vision_transformers_do_the_published_work(tower, published_gmacs):
    found = tower.operators("vision", Pass((Segment(1.0, 2000.0, 0.0, images=1.0),), rl.Precision()))
    assert flops(found) / 2e9 == pytest.approx(published_gmacs, abs=0.006)


def test_qwen2_5_vl_by_hand():
    """1,024 tokens: 4,096 patches of 1,176 values, 28 of 32 layers in windows of 8 x 8 patches, a merger of four."""
    patches, width, inner = 4096, 1280, 3420
    layer = 2 * patches * (4 * width**2 + 3 * width * inner)
    attention = 4 * width * (4 * patches**2 + 28 * patches * 64)
    merger = 2 * 1024 * (5120 * 5120 + 5120 * 2048)
    want = 2 * patches * 1176 * width + 32 * layer + attention + merger
    assert flops(encoding("qwen2.5-vl-3b", images=1, image_tokens=1024)) == want


def test_llava_runs_23_of_24_layers_of_clip():
    """vision_feature_layer -2; 576 patches and a class token, of which the projector sees the former."""
    layer = 2 * 577 * (4 * 1024**2 + 2 * 1024 * 4096) + 4 * 1024 * 577**2
    want = 2 * 576 * 588 * 1024 + 23 * layer + 2 * 576 * (1024 * 4096 + 4096 * 4096)
    assert flops(encoding("llava-1.5-7b", images=1)) == want


def test_whisper_encodes_whole_windows():
    """30 s are 3,000 frames of 128 bins, 1,500 positions and 375 tokens of Voxtral; 45 s are two windows."""
    layer = 2 * 1500 * (4 * 1280**2 + 2 * 1280 * 5120) + 4 * 1280 * 1500**2
    convolutions = 2 * 3000 * 3 * 128 * 1280 + 2 * 1500 * 3 * 1280 * 1280
    projector = 2 * 375 * (5120 * 3072 + 3072 * 3072)
    one = convolutions + 32 * layer + projector
    assert flops(encoding("voxtral-mini-3b", audio_s=30)) == one
    assert flops(encoding("voxtral-mini-3b", audio_s=45.5)) == 2 * one


@pytest.mark.parametrize("name", WITH_TOWERS)
def test_matrices_of_a_tower_are_most_of_its_exact_count(name):
    """The rest of the independently checked counts are tables, norms, biases, and layers that do not run."""
    model = from_config(CONFIGS[name], name=name)
    assert set(model.towers) <= set(model.apart)
    if CONFIGS[name]["model_type"] in SHAPES_NOT_KNOWN:
        assert not model.towers
        return
    for key, tower in model.towers.items():
        layers = sum(layer.count * weight.parameters for layer in tower.groups() for weight in layer.weights())
        matrices = sum(product.d_in * product.d_out for product in (*tower.stem, *tower.projector))
        least = RUN_IN_PART.get(CONFIGS[name]["model_type"], 0.9)
        assert least * model.apart[key] < layers + matrices <= model.apart[key]


def test_every_time_of_prefill_follows_and_decode_does_not():
    serve = rl.Deployment("qwen2.5-vl-3b", "h100-sxm")
    load = rl.Workload(4000, images=np.array([0, 1, 2]), image_tokens=1024)
    phase, plain = rl.prefill(serve, load), rl.prefill(serve, rl.Workload(4000))
    for time in ("floor_s", "roofline_s", "estimate_s"):
        found = getattr(phase, time)
        assert found[0] == getattr(plain, time)
        assert np.all(np.diff(found) > 0)
    assert np.all(phase.floor_s < phase.roofline_s)
    assert np.all(phase.cache_bytes == plain.cache_bytes)
    assert np.all(rl.decode(serve, load).roofline_s == rl.decode(serve, rl.Workload(4000)).roofline_s)
    assert phase.to_frame()["images"].tolist() == [0, 1, 2]


def test_images_are_shared_by_the_accelerators_of_a_group():
    """Three images on two accelerators: two on the most loaded one; the floor takes half of the three."""
    load = rl.Workload(4000, images=3, image_tokens=1024)
    one, two = (
        rl.prefill(rl.Deployment("qwen2.5-vl-3b", "h100-sxm", parallel=rl.Parallel(tensor=tensor)), load)
        for tensor in (1, 2)
    )
    part = [item.operator for item in two.operators if item.name.startswith("vision.")]
    whole = [item.operator for item in one.operators if item.name.startswith("vision.")]
    assert flops(part) == pytest.approx(flops(whole) * 2 / 3)
    least = [sum(float(item.count * item.least.flops) for item in each) for each in (part, whole)]
    assert least[0] == pytest.approx(least[1] / 2)
    assert any(item.name == "vision.gather" for item in part)


@pytest.mark.parametrize("layout", [{"pipeline": 4}, {"data": 2}, {"context": 2}, {"tensor": 2, "pipeline": 2}])
def test_other_layouts_do_the_same_work(layout):
    load = rl.Workload(4000, images=2, batch=4, image_tokens=1024)
    plain = rl.prefill(rl.Deployment("qwen2.5-vl-3b", "h100-sxm"), load)
    spread = rl.prefill(rl.Deployment("qwen2.5-vl-3b", "h100-sxm", parallel=rl.Parallel(**layout)), load)
    assert spread.flops == pytest.approx(plain.flops, rel=0.01)
    assert spread.floor_s < plain.floor_s


def test_derivations_of_a_prompt_with_an_image_hold():
    steps = rl.prefill(rl.Deployment("gemma-3-4b", "l4"), rl.Workload(1000, images=1)).explain()
    (step,) = [step for step in steps if step.name == "vision.attention.flops" and step.formula.startswith("2 *")]
    assert step.value == 2 * 16 * 4096**2 * (72 + 72)
    assert all(np.allclose(eval(step.formula, {"max": max, "min": min}, step.inputs), step.value) for step in steps)


def test_a_large_encoder_needs_room():
    """Pixtral: 4,096 patches of width 1,024 with gated MLPs of 4,096 take 4,096 x (2 x 1,024 + 3 x 4,096) x 2 bytes."""
    serve = rl.Deployment("pixtral-12b", "h100-sxm")
    images = 8
    need = rl.memory(serve, rl.Workload(40_000, images=images))
    assert need.chunk_bytes_on_one == max(
        images * 4096 * (2 * 1024 + 3 * 4096) * 2, rl.memory(serve, rl.Workload(40_000)).chunk_bytes_on_one
    )


@pytest.mark.parametrize(
    ("name", "media", "said"),
    [
        ("llama-3.1-8b", {"images": 1}, "images must be 0: llama-3.1-8b has no encoder of images"),
        ("gemma-3-4b", {"audio_s": 3.0}, "audio_s must be 0: gemma-3-4b has no encoder of sound"),
        ("gemma-3n-e4b", {"images": 1}, "the shapes of an encoder of images of gemma-3n-e4b"),
        ("gemma-3-4b", {"images": 8}, "can't hold the 2,048 tokens of the images in a prompt of gemma-3-4b"),
        ("gemma-3-4b", {"images": -1}, "images must be an integer >= 0: -1"),
        ("gemma-3-4b", {"images": 0.5}, "images must be an integer"),
    ],
)
def test_what_cannot_be_encoded_is_refused_in_one_line(name, media, said):
    with pytest.raises(rl.RooflineError, match=said):
        rl.prefill(rl.Deployment(name, "h100-sxm"), rl.Workload(2000, **media))


def test_towers_that_are_left_out_encode_nothing():
    serve = rl.Deployment("gemma-3-4b", "h100-sxm", leave_out="towers")
    with pytest.raises(rl.RooflineError, match="does not load the towers of gemma-3-4b"):
        rl.prefill(serve, rl.Workload(images=1))


SEEN = rl.Workload(1500, 100, images=2)
GEMMA = rl.Deployment("gemma-3-4b", "h100-sxm", engine="vllm")


def encoder_s(time):
    """What encoding two images adds to the prefill of one prompt, by its operators."""
    found = rl.prefill(GEMMA, SEEN).operators
    return sum(float(getattr(item, time)) for item in found if item.name.startswith("vision."))


@pytest.mark.parametrize("time", ["roofline_s", "estimate_s"])
def test_a_request_alone_waits_for_its_images(time):
    text = rl.Workload(1500, 100)
    for ask in (rl.serve, rl.simulate):
        with_images, without = (ask(GEMMA, load, concurrency=1, time=time) for load in (SEEN, text))
        waits_s = float(with_images.ttft_s - without.ttft_s)
        if time == "roofline_s":
            assert waits_s == pytest.approx(encoder_s(time), rel=0.01)
        else:  # the host launches the kernels of the language model meanwhile
            assert 0.0 < waits_s < 1.3 * encoder_s(time)
        assert float(with_images.tpot_s) == pytest.approx(float(without.tpot_s), rel=1e-3)


def test_images_cost_throughput_in_every_answer_about_load():
    """No answer overlooks them."""
    text, one = rl.Workload(1500, 100), {"accelerators": (1,)}
    for ask in (
        lambda load: rl.serve(GEMMA, load, concurrency=64).requests_per_s,
        lambda load: rl.simulate(GEMMA, load, concurrency=64).requests_per_s,
        lambda load: rl.apply(GEMMA, load, "chunked-prefill").after.requests_per_s,
        lambda load: max(rl.plan("gemma-3-4b", "h100-sxm", load, **one).requests_per_s),
        lambda load: rl.advise(GEMMA, load, batches=(64,)).seen.requests_per_s[0, 0],
        lambda load: rl.serve_pools(load, prefill=GEMMA, decode=GEMMA, concurrency=256).requests_per_s,
        lambda load: 1.0 / rl.fleet(rl.plan("gemma-3-4b", "h100-sxm", load, **one), requests_per_s=900.0).replicas[0],
    ):
        assert float(ask(SEEN)) < 0.97 * float(ask(text))


def test_images_that_are_found_or_encoded_elsewhere_are_not_encoded_again():
    cached = rl.apply(GEMMA, SEEN, rl.techniques.PrefixCaching(hit_rate=0.9))
    text = rl.apply(GEMMA, rl.Workload(1500, 100), rl.techniques.PrefixCaching(hit_rate=0.9))
    assert cached.before.ttft_s - text.before.ttft_s > 3 * (cached.after.ttft_s - text.after.ttft_s)
    apart = rl.apply(GEMMA, SEEN, "encoder-disaggregation")
    assert apart.before.ttft_s == cached.before.ttft_s
    assert apart.after.requests_per_s == pytest.approx(text.before.requests_per_s, rel=0.05)  # embeddings cross a link


def test_under_load_images_need_an_encoder_and_tokens():
    with pytest.raises(rl.RooflineError, match=r"llama-3\.1-8b has no encoder of images"):
        rl.serve(rl.Deployment("llama-3.1-8b", "h100-sxm"), SEEN, concurrency=4)
    with pytest.raises(rl.RooflineError, match="prompt_tokens of 300 can't hold the 512 tokens of the images"):
        rl.simulate(GEMMA, rl.Workload(300, 100, images=2), concurrency=4)
    with pytest.raises(rl.RooflineError, match="a count of them is an array"):
        rl.simulate(GEMMA, rl.Workload(1500, 100, images=[0, 2]), concurrency=4)


def test_pairs_of_windows_by_enumeration():
    for tokens in (1, 2, 7, 64, 65):
        for window in (1, 3, 9, 129):
            reach = (window - 1) // 2
            pairs = sum(abs(i - j) <= reach for i in range(tokens) for j in range(tokens))
            assert mutual_pairs(float(tokens), window) == pairs
            chunked = sum(i // window == j // window for i in range(tokens) for j in range(tokens))
            assert mutual_pairs(float(tokens), window, chunked=True) == chunked


def test_the_command_line_takes_images_and_sound():
    asked = ("analyze", "gemma-3-4b", "--hardware", "l4", "--images", "2")
    found = answer(*asked)
    assert found["workload"]["images"] == 2
    assert found["prefill"]["flops"] == rl.prefill(rl.Deployment("gemma-3-4b", "l4"), rl.Workload(images=2)).flops
    said = " ".join(text(*asked).split())
    assert "prompt 2,000 with 2 images, output 256 tokens" in said
    assert "an image is 256 tokens of the language model, each of 16 positions of the encoder" in said
    said = " ".join(text("analyze", "voxtral-mini-3b", "--hardware", "l4", "--audio", "45s").split())
    assert "prompt 2,000 with 45 s of sound" in said
    assert "vision.q_proj" in text("explain", "gemma-3-4b", "--hardware", "l4", "--images", "2", "--phase", "prefill")


QWEN2_5_OMNI = {
    "model_type": "qwen2_5_omni",
    "architectures": ["Qwen2_5OmniForConditionalGeneration"],
    "thinker_config": {
        "text_config": {
            **{
                "model_type": "qwen2_5_omni_text",
                "hidden_size": 3584,
                "intermediate_size": 18944,
                "vocab_size": 152064,
            },
            **{"num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4},
        },
        "audio_config": {
            **{"model_type": "qwen2_5_omni_audio_encoder", "d_model": 1280, "encoder_layers": 32, "num_mel_bins": 128},
            **{"encoder_attention_heads": 20, "encoder_ffn_dim": 5120, "n_window": 100, "output_dim": 3584},
        },
        "vision_config": {
            **{"model_type": "qwen2_5_omni_vision_encoder", "depth": 32, "hidden_size": 1280, "num_heads": 16},
            **{"intermediate_size": 3420, "out_hidden_size": 3584, "patch_size": 14, "window_size": 112},
            **{"fullatt_block_indexes": [7, 15, 23, 31]},
        },
    },
    "talker_config": {"model_type": "qwen2_5_omni_talker", "hidden_size": 896, "num_hidden_layers": 24},
}


def test_sound_of_qwen_omni_is_encoded_in_chunks_of_two_seconds():
    """30 s are 15 chunks of 100 positions, averaged in pairs to 750 tokens (arXiv:2503.20215, section 2.2)."""
    model = from_config(QWEN2_5_OMNI)
    serve = rl.Deployment(model, "h100-sxm")
    found = rl.prefill(serve, rl.Workload(1000, audio_s=30)).operators
    work = flops([item.operator for item in found if item.name.startswith("audio.")])
    width, positions = 1280, 15 * 100
    layers = 32 * (2 * positions * (4 * width**2 + 2 * width * 5120) + 15 * 4 * 100**2 * width)
    convolutions = 2 * positions * (2 * 3 * 128 * width + 3 * width * width)
    assert work == layers + convolutions + 2 * 750 * width * 3584


def test_parts_of_a_wrapper_that_are_not_read_are_doubts():
    (doubt,) = from_config(QWEN2_5_OMNI).doubts
    assert doubt.startswith("talker_config: ")
    counted = {name: size for name, size in QWEN2_5_OMNI.items() if name != "talker_config"}
    assert from_config(counted).doubts == ()


def test_llama_vision_looks_at_images_beside_the_sequence():
    """One tile of 560 pixels (arXiv:2407.21783, section 7.1): 40 layers, and 8 of 40 that text skips."""
    serve, tokens, positions, width = rl.Deployment("llama-3.2-11b-vision", "h100-sxm"), 2000, 1601, 4096
    tower = 2 * positions * (588 * 1280 + 7680 * width)
    tower += 40 * (2 * positions * (4 * 1280**2 + 2 * 1280 * 5120) + 4 * 1280 * positions**2)

    def looking(queries, encoded):
        heads = 4 * width * queries * positions + 2 * encoded * width * 2 * 1024
        return 8 * (heads + 2 * queries * (2 * width**2 + 3 * width * 14336))

    load = rl.Workload(tokens, images=np.array([0, 1]))
    first, step = rl.prefill(serve, load), rl.decode(serve, load)
    assert first.flops[1] - first.flops[0] == pytest.approx(tower + looking(tokens, positions), rel=1e-9)
    assert step.flops[1] - step.flops[0] == pytest.approx(looking(1, 0), rel=1e-9)
    matrices_bytes = 8 * (2 * width**2 + 3 * width * 14336) * 2
    assert step.moved_bytes[1] - step.moved_bytes[0] == pytest.approx(
        matrices_bytes + 8 * positions * 2048 * 2, rel=2e-3
    )
    four = rl.prefill(serve, rl.Workload(tokens, images=1, image_tokens=4 * positions))
    assert flops([item.operator for item in four.operators if item.name.startswith("vision.")]) == 4 * tower


def test_images_beside_the_sequence_are_refused_under_load():
    serve = rl.Deployment("llama-3.2-11b-vision", "h100-sxm")
    with pytest.raises(rl.InvalidInput, match="images must be 0 under load"):
        rl.serve(serve, rl.Workload(2000, 100, images=1), concurrency=2)


PHI_3_5_VISION = {
    "model_type": "phi3_v",
    "architectures": ["Phi3VForCausalLM"],
    "img_processor": {
        **{"image_dim_out": 1024, "model_name": "openai/clip-vit-large-patch14-336", "name": "clip_vision_model"},
        "num_img_tokens": 144,
    },
    **{"hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32, "num_attention_heads": 32},
    **{"num_key_value_heads": 32, "vocab_size": 32064, "max_position_embeddings": 131072},
}


def test_a_tower_that_a_file_names_is_counted():
    """microsoft/Phi-3.5-vision-instruct has 4,146,621,440 parameters on its model page."""
    model = from_config(PHI_3_5_VISION)
    assert model.parameters.total + model.apart["vision"] == 4_146_621_440
    (doubt,) = from_config(PHI_3_5_VISION | {"img_processor": {"model_name": "acme/vit"}}).doubts
    assert doubt.startswith("img_processor: the tower is not counted")


def test_sound_of_granite_speech_passes_a_query_former():
    """Four seconds are 200 positions and 40 queries (ibm-granite/granite-speech-3.3-8b: 16 conformer layers)."""
    config = {
        "model_type": "granite_speech",
        "architectures": ["GraniteSpeechForConditionalGeneration"],
        **{"downsample_rate": 5, "window_size": 15},
        "text_config": {
            **{"model_type": "granite", "hidden_size": 4096, "intermediate_size": 12800, "num_hidden_layers": 40},
            **{"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 49160},
        },
        "encoder_config": {
            **{"model_type": "granite_speech_encoder", "context_size": 200, "conv_expansion_factor": 2},
            **{"conv_kernel_size": 15, "dim_head": 128, "feedforward_mult": 4, "hidden_dim": 1024, "input_dim": 160},
            **{"max_pos_emb": 512, "num_heads": 8, "num_layers": 16, "output_dim": 256},
        },
        "projector_config": {
            **{"model_type": "blip_2_qformer", "hidden_size": 1024, "encoder_hidden_size": 1024},
            **{"intermediate_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 16},
            **{"cross_attention_frequency": 1},
        },
    }
    tower = from_config(config).towers["audio"]
    found = flops(tower.operators("audio", Pass((Segment(1.0, 100.0, 0.0, audio_s=4.0),), rl.Precision())))
    positions, queries, width = 200, 40, 1024
    layer = 2 * positions * (4 * width**2 + 2 * 2 * 4 * width**2 + 3 * 2 * width**2) + 4 * width * positions**2
    former = 2 * queries * (4 * width**2 + 2 * 4 * width**2 + 2 * width**2) + 2 * positions * 2 * width**2
    assert found == 2 * positions * 160 * width + 16 * layer + 2 * former + 2 * queries * width * 4096


DEEPSEEK_OCR = {
    **{"model_type": "deepseek_vl_v2", "architectures": ["DeepseekOCRForCausalLM"]},
    "language_config": {
        **{
            "architectures": ["DeepseekV2ForCausalLM"],
            "hidden_size": 1280,
            "intermediate_size": 6848,
            "use_mla": False,
        },
        **{"num_hidden_layers": 12, "num_attention_heads": 10, "num_key_value_heads": 10, "vocab_size": 129280},
        **{"n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6, "moe_intermediate_size": 896},
        **{"first_k_dense_replace": 1, "moe_layer_freq": 1, "model_type": "deepseek_v2", "kv_lora_rank": None},
        **{"q_lora_rank": None, "qk_nope_head_dim": 0, "qk_rope_head_dim": 0, "v_head_dim": 0},
    },
    "projector_config": {"input_dim": 2048, "model_type": "mlp_projector", "n_embed": 1280, "projector_type": "linear"},
    "vision_config": {
        **{"image_size": 1024, "mlp_ratio": 3.7362, "model_name": "deeplip_b_l", "model_type": "vision"},
        "width": {
            "clip-l-14-224": {"heads": 16, "image_size": 224, "layers": 24, "patch_size": 14, "width": 1024},
            "sam_vit_b": {"downsample_channels": [512, 1024], "heads": 12, "layers": 12, "width": 768},
        },
    },
}


def test_deepseek_ocr_has_the_size_of_its_checkpoint():
    """deepseek-ai/DeepSeek-OCR: 3,336,106,240 parameters in 6.67 GB (arXiv:2510.18234, section 3.2)."""
    model = from_config(DEEPSEEK_OCR)
    assert model.doubts == ()
    assert model.parameters.total == 2_934_734_080
    assert model.parameters.total + model.apart["vision"] == 3_336_106_240
    first = rl.prefill(rl.Deployment(model, "h100-sxm"), rl.Workload(300, images=1))
    (note,) = [line for line in first.assumptions if line.startswith("an image is")]
    assert note == "an image is 256 tokens of the language model, each of 16 positions of the encoder"
