"""Encoder-decoders: exact counts, a pass that encodes, and steps that read keys and values of the source."""

import numpy as np
import pytest
from command_line import answer, text

import roofline as rl
from roofline.huggingface import from_config

T5 = {
    "model_type": "t5",
    "architectures": ["T5ForConditionalGeneration"],
    "d_model": 768,
    "d_ff": 3072,
    "d_kv": 64,
    "num_heads": 12,
    "num_layers": 12,
    "vocab_size": 32128,
    "n_positions": 512,
    "is_encoder_decoder": True,
}
FLAN_BASE = T5 | {"d_ff": 2048, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
UMT5_SMALL = {
    **FLAN_BASE,
    "model_type": "umt5",
    "architectures": ["UMT5ForConditionalGeneration"],
    "d_model": 512,
    "d_ff": 1024,
    "num_heads": 6,
    "num_layers": 8,
    "vocab_size": 256384,
}
BART_LARGE = {
    "model_type": "bart",
    "architectures": ["BartForConditionalGeneration"],
    "d_model": 1024,
    "encoder_layers": 12,
    "decoder_layers": 12,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
    "encoder_ffn_dim": 4096,
    "decoder_ffn_dim": 4096,
    "vocab_size": 50265,
    "max_position_embeddings": 1024,
    "is_encoder_decoder": True,
}
NLLB_600M = BART_LARGE | {
    "model_type": "m2m_100",
    "architectures": ["M2M100ForConditionalGeneration"],
    "vocab_size": 256206,
}
MATRICES_OF_T5 = 4 * 2048 * 2048, 3 * 2048 * 5120
"""Of an attention and of an MLP of Flan-T5 XL."""


@pytest.mark.parametrize(
    ("config", "total"),
    [
        # Safetensors of the published checkpoints, as their model pages count them.
        (T5, 222_903_552),
        (FLAN_BASE, 247_577_856),
        (BART_LARGE, 406_291_456),
        (NLLB_600M, 615_073_792),
        # Two tables; eight layers of each kind with norms; distances to all of them; two norms behind.
        (
            UMT5_SMALL,
            2 * 256384 * 512
            + 8 * (4 * 512 * 384 + 3 * 512 * 1024 + 2 * 512)
            + 8 * (8 * 512 * 384 + 3 * 512 * 1024 + 3 * 512)
            + 2 * 8 * 32 * 6
            + 2 * 512,
        ),
    ],
)
def test_counts_are_exact(config, total):
    assert from_config(config).parameters.total == total


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        # Counted by transformers 5.24.0 on the meta device; lookups are the tables of positions.
        ("whisper-large-v3", 1_543_490_560, 1_540_997_120),
        # 28 of 32 decoder layers less, 26,236,160 parameters each.
        ("whisper-large-v3-turbo", 808_878_080, 808_878_080 - 1948 * 1280),
        ("flan-t5-xl", 2_849_757_184, 2_849_757_184 - 32128 * 2048 - 2 * 32 * 32),
    ],
)
def test_counts_of_the_library(name, total, active):
    counts = rl.get_model(name).parameters
    assert (counts.total, counts.active) == (total, active)


def test_prefill_of_flan_t5_by_hand():
    """500 tokens are encoded and projected to keys and values; the decoder computes the token that starts it."""
    batch, source, width = 8, 500, 2048
    attention, mlp = MATRICES_OF_T5
    encoder = 24 * (2 * batch * source * (attention + mlp) + batch * 4 * width * source**2)
    keys_and_values = 24 * 2 * batch * source * 2 * width**2
    step = 24 * (2 * batch * (attention + 2 * width**2 + mlp) + batch * 4 * width * (1 + source))
    head = 2 * batch * width * 32128
    phase = rl.prefill(rl.Deployment("flan-t5-xl", "l4"), rl.Workload(source, batch=batch))
    assert phase.flops == encoder + keys_and_values + step + head
    assert phase.tokens == batch * (source + 1)


def test_a_step_of_flan_t5_reads_the_source_and_computes_nothing_of_it():
    batch, source, made = 8, 500, 40
    attention, mlp = MATRICES_OF_T5
    serve, load = rl.Deployment("flan-t5-xl", "l4"), rl.Workload(500, 100, batch=8)
    step = rl.decode(serve, load, context_tokens=source + made)
    # In the cache are the source, the token that starts, and those that were made before.
    pairs = made + 2 + source
    products = 24 * 2 * batch * (attention + 2 * 2048**2 + mlp) + 2 * batch * 2048 * 32128
    assert step.flops == products + 24 * batch * 4 * 2048 * pairs
    weights = 24 * (attention + 2 * 2048**2 + mlp + 3 * 2048) + 2048 * 32129
    entries = 24 * batch * 2 * 2048 * (source + made + 1 + 1)
    assert step.least_bytes == pytest.approx(2 * (weights + entries), rel=1e-4)
    assert not any(item.name.startswith("encoder.") for item in step.operators)


def test_whisper_encodes_a_window_whatever_is_said():
    """1,500 positions of 128 bins; 32 layers of each; four tokens of the prompt."""
    source, width, prompt = 1500, 1280, 4
    attention, mlp = 4 * width**2, 2 * width * 5120
    stem = 2 * 2 * source * 3 * 128 * width + 2 * source * 3 * width * width
    encoder = 32 * (2 * source * (attention + mlp) + 4 * width * source**2)
    decoder = 32 * (2 * prompt * (attention + 2 * width**2 + mlp) + 2 * source * 2 * width**2)
    pairs = 32 * 4 * width * (prompt * source + prompt * (prompt + 1) / 2)
    serve = rl.Deployment("whisper-large-v3", "l4")
    phase = rl.prefill(serve, rl.Workload(prompt))
    assert phase.flops == stem + encoder + decoder + pairs + 2 * width * 51866
    assert rl.prefill(serve, rl.Workload(prompt, audio_s=12.5)).flops == phase.flops
    assert any("a window of 30 s" in note for note in phase.assumptions)


def test_memory_holds_the_source():
    """Whisper: 32 layers x 1,500 positions x 2 x 1,280 values; T5: source and output alike, 2 x 2,048 a layer."""
    whisper = rl.memory(rl.Deployment("whisper-large-v3", "l4"), rl.Workload(4, 200, batch=8))
    assert whisper.kv_bytes_per_sequence == 2 * 32 * 2 * 1280 * (1500 + 204)
    assert whisper.weights_bytes == 2 * 1_543_490_560
    t5 = rl.memory(rl.Deployment("flan-t5-xl", "l4"), rl.Workload(500, 100, batch=8))
    assert t5.kv_bytes_per_sequence == 2 * 24 * 2 * 2048 * 600


@pytest.mark.parametrize("name", ["whisper-large-v3", "flan-t5-xl"])
def test_the_three_times_stand_in_order(name):
    serve, load = rl.Deployment(name, "l4"), rl.Workload(100, 50, batch=np.array([1, 8, 64]))
    for phase in (rl.prefill(serve, load), rl.decode(serve, load), rl.mixed(serve, decode=load, prefill=load)):
        assert np.all(phase.floor_s <= phase.roofline_s)
        assert np.all(phase.roofline_s <= phase.estimate_s * (1 + 1e-9))
    found = rl.generate(serve, load)
    assert np.all(found.total_s > found.ttft_s)
    one = rl.Workload(100, 50, batch=8)
    for step in (*rl.prefill(serve, one).explain(), *rl.decode(serve, one).explain(), *serve.model.explain()):
        assert np.allclose(eval(step.formula, {"max": max, "min": min}, step.inputs), step.value)


@pytest.mark.parametrize("tensor", [2, 4])
def test_tensor_parallelism_divides_work_and_cache(tensor):
    load = rl.Workload(400, 50, batch=16)
    one, spread = (rl.Deployment("flan-t5-xl", "h100-sxm", parallel=rl.Parallel(tensor=ways)) for ways in (1, tensor))
    assert rl.prefill(spread, load).flops == pytest.approx(rl.prefill(one, load).flops)
    assert rl.memory(spread, load).kv_bytes == rl.memory(one, load).kv_bytes
    assert any(item.name == "encoder.all_reduce" for item in rl.prefill(spread, load).operators)


@pytest.mark.parametrize(
    ("name", "load", "said"),
    [
        ("whisper-large-v3", rl.Workload(4, audio_s=31.0), "audio_s must be at most 30"),
        ("whisper-large-v3", rl.Workload(4, images=1), "images must be 0"),
        ("flan-t5-xl", rl.Workload(4, audio_s=1.0), "audio_s must be 0: flan-t5-xl has no encoder of sound"),
        ("flan-t5-xl", rl.Workload(4, cached_tokens=3), "cached_tokens must be 0"),
    ],
)
def test_what_is_not_taken_is_refused_in_one_line(name, load, said):
    with pytest.raises(rl.RooflineError, match=said):
        rl.prefill(rl.Deployment(name, "l4"), load)


@pytest.mark.parametrize(
    "ask",
    [lambda serve, load: rl.apply(serve, load, "prefix-caching"), rl.advise],
    ids=["apply", "advise"],
)
def test_what_ifs_and_advice_are_refused_in_one_line(ask):
    with pytest.raises(rl.RooflineError, match="whisper-large-v3 is an encoder-decoder"):
        ask(rl.Deployment("whisper-large-v3", "l4"), rl.Workload(4, 200))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"architectures": ["T5EncoderModel"]}, "expected T5ForConditionalGeneration"),
        ({"d_kv": None}, "d_kv is missing"),
        ({"model_type": "pegasus_x"}, "'pegasus_x' is an encoder-decoder, not a decoder language model"),
    ],
)
def test_others_are_refused(changes, said):
    with pytest.raises(rl.SpecError, match=said):
        from_config({**T5, **changes})


def test_the_command_line_answers():
    asked = ("analyze", "whisper-large-v3", "--hardware", "l4", "--prompt", "4", "--output", "200", "--batch", "8")
    found = answer(*asked)
    assert found["parameters"]["total"] == 1_543_490_560
    assert found["decode"]["limit"] == "memory"
    assert "window of 30 s of sound" in " ".join(text(*asked).split())
