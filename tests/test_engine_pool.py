"""What engines set aside when they start, against what their start-up logs print."""

import csv
from pathlib import Path

import numpy as np
import pytest

import roofline as rl
from roofline.footprint.engine_pool import EnginePool, sequence_bytes
from roofline.specs.engines import Engine

GIB = 2.0**30
with (Path(__file__).parent / "data" / "engine_memory.csv").open(newline="") as file:
    ROWS = list(csv.DictReader(file))
VERSIONS = {"0.12 to 0.16": "0.12.0", "0.1x": "", "0.2x": "", "0.5 branch": "", "0.7.1 V1": "0.7.1"}
WEIGHTS = {"int8": "int8", "fp8": "fp8", "fp8_block": "fp8_block", "fp32": "fp32", "int4_g128": "int4_g128"}
SETTINGS = {"memory_fraction": "memory_fraction", "step_tokens": "step_tokens", "max_num_seqs": "max_sequences"}

DOUBTED = {
    "0.6.6": "9.4 GiB of activations on an A100 with neither step tokens nor sequences stated",
    "0.1x": "a unified memory whose fraction holds less than weights and pool together",
    "0.9.2": "a start with a KV connector (vllm-project/vllm issue 21348), whose buffers no line prints",
}
"""Versions whose rows contradict themselves, or leave out a setting that decides."""


def start(row):
    """The deployment, the engine and the pool of one server's start."""
    model, gpu = rl.get_model(row["library_model"]), rl.get_accelerator(row["gpu"])
    if row["device_total_gib"]:
        gpu = gpu.replace(memory_bytes=float(row["device_total_gib"]) * GIB, vendor="as the framework sees it")
    kv = row["kv_format"] if row["kv_format"] in ("fp8", "fp32") else "bf16"
    precision = rl.Precision(
        weights=WEIGHTS.get(row["weights_format"], "bf16"),
        activations="fp32" if row["weights_format"] == "fp32" else "bf16",
        kv=kv,
    )
    if row["weights_format"] == "mxfp4":
        precision = model.precision
    parallel = rl.Parallel(tensor=int(row["tp"]), pipeline=int(row["pp"]))
    given = {field: float(row[column]) for column, field in SETTINGS.items() if row[column]}
    engine = Engine(row["engine"], version=VERSIONS.get(row["version"], row["version"]), **given)
    return EnginePool(rl.Deployment(model, gpu, precision=precision, parallel=parallel), engine.on(gpu))


def of_engine(name, column):
    return [
        row
        for row in ROWS
        if row["engine"] == name and row["library_model"] and row["gpu"] and row[column] and row["memory_fraction"]
    ]


def errors(rows, computed, column):
    found = [abs(computed(row) / float(row[column]) - 1) for row in rows if row["version"] not in DOUBTED]
    return np.array(found)


def test_pools_of_vllm_are_within_one_percent():
    found = errors(of_engine("vllm", "kv_gib"), lambda row: float(start(row).pool_bytes) / GIB, "kv_gib")
    assert len(found) >= 45
    assert np.median(found) <= 0.01
    assert found.mean() <= 0.03


@pytest.mark.parametrize(
    ("model", "accelerator", "tensor", "activation_gib"),
    [("llama-3.1-8b", "l4", 1, 0.22), ("deepseek-r1-distill-qwen-14b", "rtx-4090", 2, 0.19)],
)
def test_samplers_that_do_not_sort_take_little(model, accelerator, tensor, activation_gib):
    """vLLM 0.7 with FlashInfer's sampler: starts printed 0.22 and 0.19 GiB of activations, not the 1.2 of a sort."""
    serve = rl.Deployment(model, accelerator, parallel=rl.Parallel(tensor=tensor))
    found = {}
    for version in ("0.6.6", "0.7.2"):
        engine = Engine("vllm", version=version, step_tokens=512, max_sequences=256).on(serve.accelerator)
        found[version] = EnginePool(serve, engine).activation_bytes / GIB
    assert found["0.7.2"] == pytest.approx(activation_gib, rel=0.25)
    assert found["0.6.6"] > 4 * activation_gib


def test_pools_of_the_newest_vllm_have_no_outlier():
    rows = [row for row in of_engine("vllm", "kv_gib") if row["version"] == "0.19.0" and float(row["kv_gib"]) > 10]
    found = errors(rows, lambda row: float(start(row).pool_bytes) / GIB, "kv_gib")
    assert found.max() <= 0.02


def test_concurrency_of_vllm_is_within_two_percent():
    rows = [row for row in of_engine("vllm", "concurrency") if row["max_model_len"] and row["version"] == "0.19.0"]
    found = errors(rows, lambda row: float(start(row).concurrency(int(float(row["max_model_len"])))), "concurrency")
    assert len(found) >= 40
    assert np.median(found) <= 0.02
    assert found.mean() <= 0.04


def test_pools_of_sglang_are_within_five_percent():
    found = errors(of_engine("sglang", "kv_gib"), lambda row: float(start(row).pool_bytes) / GIB, "kv_gib")
    assert found.max() <= 0.05


def test_a_start_that_failed_has_no_pool():
    failed = [row for row in of_engine("vllm", "kv_gib") if float(row["kv_gib"]) < 0]
    assert failed
    assert all(start(row).pool_bytes < 0 for row in failed)
    assert all(start(row).concurrency(1000) == 0 for row in failed)


def test_parts_of_the_fraction_add_up():
    row = next(row for row in of_engine("vllm", "kv_gib") if row["version"] == "0.19.0")
    pool = start(row)
    parts = pool.weights_bytes + pool.tower_bytes + pool.activation_bytes + pool.non_torch_bytes + pool.pool_bytes
    assert parts == pytest.approx(pool.usable_bytes)
    assert pool.usable_bytes == pytest.approx(0.95 * 79.19 * GIB)


def test_a_window_holds_its_prompt_of_one_step():
    serve = rl.Deployment(rl.get_model("gemma-3-27b"), rl.get_accelerator("h100-sxm"))
    engine = Engine("vllm", step_tokens=2048).on(serve.accelerator)
    # 10 full layers make the group; 52 windowed ones fill 6 groups of 10.
    token_bytes = 2 * 16 * 128 * 2
    held = np.ceil((1024 - 1 + 2048) / 16) * 16
    assert sequence_bytes(serve, engine, 131_072) == 10 * 131_072 * token_bytes + 60 * held * token_bytes


def test_towers_are_whole_on_every_accelerator():
    model = rl.get_model("gemma-3-27b")
    for tensor in (1, 4):
        serve = rl.Deployment(model, rl.get_accelerator("h100-sxm"), parallel=rl.Parallel(tensor=tensor))
        assert EnginePool(serve, serve.server).tower_bytes == 2 * model.apart["vision"]


def memory_of(row, **changes):
    """What `memory` says of the same start, for sequences of the longest length that the server allows."""
    pool = start(row)
    engine = pool.engine.replace(**changes)
    length = int(float(row["max_model_len"] or 8192))
    return rl.memory(pool.deployment.replace(engine=engine), rl.Workload(length - 1, 1))


def test_memory_follows_the_engine():
    rows = [row for row in of_engine("vllm", "kv_gib") if row["max_model_len"]]
    found = errors(rows, lambda row: float(memory_of(row).pool_on_one) / GIB, "kv_gib")
    assert len(found) >= 45
    assert np.median(found) <= 0.01
    assert found.mean() <= 0.03


def test_tokens_and_sequences_that_memory_finds_are_those_printed():
    rows = [row for row in of_engine("vllm", "concurrency") if row["version"] == "0.19.0"]
    longest = {row["id"]: int(float(row["max_model_len"])) for row in rows}
    sequences = errors(rows, lambda row: float(memory_of(row).concurrency(longest[row["id"]])), "concurrency")
    assert np.median(sequences) <= 0.02
    assert sequences.mean() <= 0.04
    tokens = errors(rows, lambda row: float(memory_of(row).cache_tokens), "kv_tokens")
    assert np.median(tokens) <= 0.02
    assert tokens.mean() <= 0.04


def test_no_start_that_failed_fits():
    """Pools below nothing, and pools that hold less than one sequence of the longest length."""
    failed = [
        row
        for row in ROWS
        if row["engine"] == "vllm" and row["library_model"] and row["gpu"] and row["max_model_len"]
        if row["kv_gib"].startswith("-") or (row["concurrency"] and float(row["concurrency"]) < 1)
    ]
    assert len(failed) >= 3
    for row in failed:
        assert not memory_of(row).fits, row["id"]
        assert memory_of(row).max_batch == 0, row["id"]


def test_a_start_that_stopped_for_its_context_does_not_fit():
    """vllm-project/vllm issue 13061: a 14B model of 131,072 tokens on two RTX 4090 had room for 81,536."""
    gpu = rl.get_accelerator("rtx-4090")
    engine = Engine("vllm", version="0.7.2", memory_fraction=0.98)
    serve = rl.Deployment("deepseek-r1-distill-qwen-14b", gpu, parallel=rl.Parallel(tensor=2), engine=engine)
    assert not rl.memory(serve, rl.Workload(131_071, 1)).fits
    assert rl.memory(serve, rl.Workload(8191, 1)).cache_tokens < 131_072


def test_parts_of_an_engine_fill_the_device():
    for engine in ("vllm", "sglang", "trtllm", "llamacpp"):
        serve = rl.Deployment("gemma-3-27b", "h100-sxm", engine=engine)
        need = rl.memory(serve, rl.Workload(2000, 100))
        parts = need.parts
        assert {"towers weights", "workspace", "non-torch", "graphs"} <= parts.keys()
        assert sum(parts.values()) == pytest.approx(serve.accelerator.memory_bytes)
        assert need.pool_bytes == pytest.approx(need.available_bytes - need.weights_bytes)


def test_the_largest_batch_is_what_the_pool_holds():
    serve = rl.Deployment("gemma-3-27b", "h100-sxm", engine="vllm")
    for prompt in (500, 8000, 30_000):
        need = rl.memory(serve, rl.Workload(prompt, 100))
        assert need.max_batch == int(need.concurrency(prompt + 100))
        assert rl.memory(serve, rl.Workload(prompt, 100, need.max_batch)).fits
        assert not rl.memory(serve, rl.Workload(prompt, 100, need.max_batch + 1)).fits


def test_settings_of_the_engine_count():
    gpu = rl.get_accelerator("h100-sxm")
    pools = {}
    for name, engine in {
        "usual": Engine("vllm", version="0.20.0"),
        "eager": Engine("vllm", version="0.20.0", eager=True),
        "few": Engine("vllm", version="0.20.0", max_sequences=64),
        "short": Engine("vllm", version="0.20.0", max_sequences=64, step_tokens=2048),
    }.items():
        pools[name] = rl.memory(rl.Deployment("llama-3.1-8b", gpu, engine=engine), rl.Workload()).pool_bytes
    # 0.28 GiB and 0.019 GiB a layer of graphs
    assert pools["eager"] - pools["usual"] == pytest.approx((0.28 + 32 * 0.019) * GIB)
    # sampling for 1,024 sequences takes 4 x 8192 x 4096 + 14 x 1024 x 128,256 bytes, a step of 8,192 tokens 0.77 GiB
    step = 8192 * 2 * (2 * 4096 + 3 * 14_336)
    assert pools["few"] - pools["usual"] == pytest.approx(4 * 8192 * 4096 + 14 * 1024 * 128_256 - step)
    assert pools["short"] - pools["few"] == pytest.approx(0.75 * step)


def test_a_given_fraction_goes_before_the_engines_own():
    serve = rl.Deployment("llama-3.1-8b", "h100-sxm", engine="sglang")
    assert serve.engine_fraction == 0.88
    assert serve.replace(memory_fraction=0.8).engine_fraction == 0.8
    assert rl.Deployment("llama-3.1-8b", "h100-sxm").engine_fraction == 0.9


def test_layouts_are_an_array_for_engines_too():
    degrees = np.array([1, 2, 4, 8])[:, None]
    serve = rl.Deployment("gemma-3-27b", "h100-sxm", parallel=rl.Parallel(tensor=degrees), engine="vllm")
    load = rl.Workload(np.array([100, 5000, 50_000]), 100)
    found = rl.memory(serve, load)
    for row, ways in enumerate((1, 2, 4, 8)):
        alone = rl.memory(serve.replace(parallel=rl.Parallel(tensor=ways)), rl.Workload(5000, 100))
        for name in ("pool_bytes", "cache_tokens", "fits", "max_batch", "max_context"):
            assert np.broadcast_to(getattr(found, name), (4, 3))[row, 1] == pytest.approx(getattr(alone, name)), name


def test_every_step_of_an_engines_memory_evaluates():
    for engine in ("vllm", "sglang", "trtllm"):
        need = rl.memory(rl.Deployment("qwen3.6-27b", "h100-sxm", engine=engine), rl.Workload(batch=4))
        for step in need.explain():
            value = eval(step.formula, {"min": np.minimum, "max": np.maximum}, dict(step.inputs))
            assert value == pytest.approx(step.value, rel=1e-12), step.name


def test_towers_and_drafting_layers_are_resident_unless_left_out():
    """Qwen3.6-27B: the checkpoint has 55.56 GB, the language model 53.79."""
    serve = rl.Deployment("qwen3.6-27b", "h100-sxm")
    assert rl.memory(serve, rl.Workload()).weights_bytes == pytest.approx(55.56e9, abs=5e6)
    bare = serve.replace(leave_out=("towers", "prediction"))
    assert rl.memory(bare, rl.Workload()).weights_bytes == pytest.approx(53.79e9, abs=5e6)
    assert rl.memory(bare, rl.Workload()).tower_bytes == 0
    loaded = rl.memory(serve.replace(engine="vllm"), rl.Workload())
    assert loaded.prediction_bytes == 0 < loaded.tower_bytes
    drafting = serve.replace(engine=Engine("vllm", loads_prediction=True))
    assert rl.memory(drafting, rl.Workload()).prediction_bytes > 0
    with pytest.raises(rl.UnknownName, match="no part beside the language model named 'tower'"):
        serve.replace(leave_out=("tower",))


def test_drafting_layers_divide_like_the_others():
    """DeepSeek-V3: 11.6 of 671 billion parameters, in the last of eight stages or divided over eight."""
    serve = rl.Deployment("deepseek-r1", "h200", parallel=rl.Parallel(tensor=8))
    divided = rl.memory(serve, rl.Workload())
    whole = rl.memory(serve.replace(parallel=rl.Parallel(pipeline=8)), rl.Workload())
    assert float(divided.prediction_bytes) / 8 == pytest.approx(float(whole.prediction_bytes) / 64, rel=0.1)


def test_llamacpp_keeps_logits_of_a_micro_batch():
    """mozilla-ai/llamafile issue 552: a compute buffer of 105 MiB at 512 tokens.

    The embedding of 297 MiB on the host and a hidden size of 3,072 make 50,688 logits.
    """
    shape = {"hidden_size": 3072, "vocab_size": 50_688, "intermediate_size": 9216, "num_hidden_layers": 30}
    model = rl.get_model({"model_type": "llama", "num_attention_heads": 24, "num_key_value_heads": 24} | shape)
    trilm = rl.Deployment(model, "rtx-4080", engine="llamacpp")
    assert rl.memory(trilm, rl.Workload(500, 12)).workspace_bytes / 2**20 == pytest.approx(105, rel=0.001)
    serve = rl.Deployment("llama-3.1-8b", "rtx-4090", engine="llamacpp")
    need = rl.memory(serve, rl.Workload(1000, 24))
    assert need.workspace_bytes == 512 * 4 * (128_256 + 4096)
    assert need.non_torch_bytes == 2**30


def test_a_change_that_makes_it_fit_does():
    from roofline.footprint.fit_in_words import nearest_change

    cases = (
        ("llama-3.1-70b", "h100-sxm", "vllm", 8192, 1),
        ("llama-3.1-8b", "rtx-3090", "vllm", 65_536, 1),
        ("llama-3.1-8b", "l4", None, 8192, 64),
        ("qwen3.6-27b", "l40s", "sglang", 8192, 4),
    )
    for model, gpu, engine, length, batch in cases:
        found = rl.memory(rl.Deployment(model, gpu, engine=engine), rl.Workload(length - 1, 1, batch))
        assert not found.fits
        change = nearest_change(found)
        assert change is not None
        assert change.found.fits
        assert change.words in found.fit()


def test_what_vllm_samples_for_decides_on_a_small_card():
    """14 B x 1,024 x 256,000 logits are 3.4 GiB; with 256 sequences there is room for one of 8,192 tokens more."""
    serve = rl.Deployment("gemma-2-9b", "rtx-3090", engine=Engine("vllm", version="0.19.0", max_sequences=1024))
    found = rl.memory(serve, rl.Workload(4095, 1))
    assert not found.fits
    assert found.fit().endswith("with at most 256 sequences at once (" + found.fit().rpartition("(")[2])


def test_index_keys_take_132_bytes_whatever_the_cache():
    """DeepSeek-V3.2: 128 values in FP8 and an FP32 scale for each token and layer."""
    for kv, latent_bytes in (("bf16", 2 * 576), ("fp8", 576)):
        serve = rl.Deployment("deepseek-v3.2", "h200", precision=rl.Precision(kv=kv), engine="vllm")
        assert sequence_bytes(serve, serve.server, 1600) == 61 * 1600 * (latent_bytes + 132)


def test_recurrent_state_is_in_the_engines_format():
    """Qwen3.5-35B on TP8: 32 heads of 128 x 128 in fp32 are 262,144 bytes a layer and rank (vllm-ascend issue 7393)."""
    cache = next(cache for _, cache in rl.get_model("qwen3.5-35b-a3b").counted_caches() if cache.state_values)
    assert cache.state_values / 8 * 4 == 262_144
    halves, wholes = cache.engine_state_bytes(16), cache.engine_state_bytes(32)
    assert wholes - halves == 8 * 262_144 / 2
    # queries, keys and values of 2 x 16 + 32 heads of 128, of which a convolution of 4 taps keeps 3 columns
    assert wholes - 8 * 262_144 == 3 * 2 * (2 * 16 + 32) * 128


def test_state_of_kimi_k3():
    """inference-sim issue 1635: 69 KDA layers of 96 heads, 434.11 MB of state in fp32 and 15.26 MB of convolutions."""
    from roofline.model.blocks import KimiDeltaAttention

    cache = KimiDeltaAttention(hidden=7168, heads=96, dim=128).caches()[0]
    assert 69 * 4 * cache.state_values == pytest.approx(434.11e6, rel=1e-4)
    assert 69 * (cache.engine_state_bytes(32) - 4 * cache.state_values) == pytest.approx(15.26e6, rel=1e-3)
