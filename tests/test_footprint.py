"""What fits: parts, pages, workspace, and the questions turned round."""

import numpy as np
import pytest
from command_line import run
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl
from roofline.footprint.allocation import Paging
from roofline.footprint.memory_use import Drafter
from roofline.footprint.per_device import weights_by_part, weights_on_one, workspace_of_token

H100, A100 = rl.get_accelerator("h100-sxm"), rl.get_accelerator("a100-sxm-80gb")
NAMES = ("llama-3.1-8b", "llama-3.1-70b", "gemma-2-9b", "gpt-oss-120b", "deepseek-v3", "mixtral-8x7b", "gpt-2")
MODELS = {name: rl.get_model(name) for name in NAMES}
LAYOUTS = (
    rl.Parallel(),
    rl.Parallel(tensor=2),
    rl.Parallel(tensor=4, pipeline=2),
    rl.Parallel(pipeline=4),
    rl.Parallel(tensor=2, expert=4, data=2),
)


def need(name="llama-3.1-70b", load=None, *, chip=H100, paging=None, **degrees):
    serve = rl.Deployment(MODELS[name], chip, parallel=rl.Parallel(**degrees))
    return rl.memory(serve, load or rl.Workload(), paging=paging)


@given(st.sampled_from(NAMES), st.sampled_from(LAYOUTS), st.integers(1, 300), st.integers(1, 30_000))
@settings(max_examples=60, deadline=None)
def test_parts_sum_to_the_whole(name, layout, batch, prompt):
    serve = rl.Deployment(MODELS[name], H100, parallel=layout)
    found = rl.memory(serve, rl.Workload(prompt, 200, batch))
    assert sum(weights_by_part(serve).values()) == pytest.approx(weights_on_one(serve), rel=1e-12)
    assert sum(found.weights_bytes_by_part.values()) == pytest.approx(found.weights_bytes, rel=1e-12)
    parts, device = found.parts, H100.memory_bytes
    assert min(parts.values()) >= -1e-3
    if found.fits:
        assert sum(parts.values()) == pytest.approx(device, rel=1e-12)
    else:
        assert parts["free"] < device * 0.1 + 1 or sum(parts.values()) == pytest.approx(device)
    without = sum(value for key, value in parts.items() if key not in ("reservation", "free", "workspace"))
    assert without == pytest.approx(found.per_accelerator["weights_bytes"] + found.per_accelerator["paged_kv_bytes"])


@given(st.sampled_from(NAMES), st.sampled_from(LAYOUTS), st.integers(1, 20_000), st.integers(1, 20_000))
@settings(max_examples=40, deadline=None)
def test_the_largest_batch_fits_and_one_more_does_not(name, layout, prompt, output):
    serve = rl.Deployment(MODELS[name], H100, parallel=layout)
    most = rl.memory(serve, rl.Workload(prompt, output)).max_batch
    if most:
        assert rl.memory(serve, rl.Workload(prompt, output, most)).fits
    assert not rl.memory(serve, rl.Workload(prompt, output, most + layout.data)).fits


@given(st.sampled_from(NAMES), st.integers(1, 64))
@settings(max_examples=30, deadline=None)
def test_the_longest_context_fits_and_a_page_more_does_not(name, batch):
    serve = rl.Deployment(MODELS[name], H100, parallel=rl.Parallel(tensor=8))
    longest = rl.memory(serve, rl.Workload(1, 1, batch)).max_context
    if longest >= 2:
        assert rl.memory(serve, rl.Workload(1, 1, batch, cached_tokens=longest - 2)).fits
    assert not rl.memory(serve, rl.Workload(1, 1, batch, cached_tokens=max(longest, 1) + 15)).fits


def test_70b_on_one_h100_takes_two():
    found = need()
    assert found.fits is False
    assert found.accelerators_needed == 2
    assert found.max_batch == 0
    assert found.weights_bytes == pytest.approx(70_553_706_496 * 2)


def test_weights_by_part_of_70b():
    parts = need().weights_bytes_by_part
    assert parts["mlp"] == 2 * 80 * 3 * 8192 * 28672
    assert parts["attention"] == 2 * 80 * (2 * 8192 * 8192 + 2 * 8192 * 1024)
    assert parts["embedding"] == parts["lm_head"] == 2 * 8192 * 128_256


def test_a_tied_table_is_held_once():
    parts = need("gemma-2-9b").weights_bytes_by_part
    assert parts["lm_head"] == 0
    assert parts["embedding"] == 2 * 256_000 * 3584


def test_pages_come_first():
    """A sequence of 17 tokens takes two pages of 16."""
    found = need(load=rl.Workload(16, 1), tensor=2)
    assert found.paged_kv_bytes == 32 * 327_680
    assert found.kv_bytes == 17 * 327_680
    assert found.needed_bytes >= found.weights_bytes + found.paged_kv_bytes


def test_pages_waste_less_than_a_page_and_contiguous_caches_most_of_themselves():
    """PagedAttention (arXiv:2309.06180): under 4 % wasted in pages, 62 to 80 % in contiguous caches."""
    found = need(load=rl.Workload(prompt_tokens=400, output_tokens=120), tensor=2)
    assert 1 - found.kv_bytes / found.paged_kv_bytes < 0.04
    assert found.contiguous_kv_bytes == 131_072 * 327_680
    assert 1 - found.kv_bytes / found.contiguous_kv_bytes > 0.62


def test_architectural_and_engine_allocated_caches_of_gpt_oss():
    """18 of 36 layers have a window of 128 tokens: 36,864 bytes a token grow, 73,728 where windows are not known."""
    load = rl.Workload(131_000, 72)
    plain, hybrid = (need("gpt-oss-120b", load, paging=rl.Paging(hybrid=known)) for known in (False, True))
    assert plain.kv_bytes == hybrid.kv_bytes == 131_072 * 36_864 + 128 * 36_864
    assert plain.paged_kv_bytes == 131_072 * 73_728
    assert hybrid.paged_kv_bytes == 131_072 * 36_864 + (128 + 16) * 36_864
    assert plain.max_batch < hybrid.max_batch


def test_a_latent_is_on_every_accelerator_and_divides_with_data_only():
    """DeepSeek-V3 (arXiv:2412.19437): 512 + 64 values a token in each of 61 layers."""
    per_token = 61 * 576 * 2
    load = rl.Workload(15, 1, batch=8)
    alone, tensor, data = (
        need("deepseek-v3", load, **degrees) for degrees in ({}, {"tensor": 8}, {"tensor": 1, "expert": 8, "data": 8})
    )
    for found in (alone, tensor):
        assert found.per_accelerator["kv_bytes"] == 8 * 16 * per_token
    assert tensor.kv_bytes == 8 * alone.kv_bytes
    assert data.per_accelerator["kv_bytes"] == 16 * per_token


def test_kv_heads_stop_dividing_at_their_number():
    per_sequence = [need(load=rl.Workload(15, 1), tensor=ways).per_accelerator["kv_bytes"] for ways in (1, 8, 16)]
    assert per_sequence == [16 * 327_680, 2 * 327_680, 2 * 327_680]


def test_recurrent_state_is_a_part_and_does_not_grow():
    serve = rl.Deployment(rl.get_model("falcon-mamba-7b"), H100)
    short, long = (rl.memory(serve, rl.Workload(prompt)) for prompt in (10, 100_000))
    assert short.state_bytes == long.state_bytes == short.kv_bytes == long.kv_bytes > 0
    assert long.max_context == np.inf


def test_what_does_not_fit_waits():
    found = need(load=rl.Workload(batch=1000), tensor=2)
    assert found.max_batch == 17
    assert found.running_batch == 17
    assert "only 17 of 1000 sequences fit at once; the rest queue" in found.assumptions
    assert need(load=rl.Workload(batch=5), tensor=2).running_batch == 5


def test_workspace_of_a_step_by_hand():
    """2 hidden + 3 intermediate values a token, and logits in 16 and 32 bits for every sequence."""
    found = need("llama-3.1-8b", rl.Workload(2000, 100, batch=4))
    token = 2 * (2 * 4096 + 3 * 14336)
    assert workspace_of_token(rl.Deployment(MODELS["llama-3.1-8b"], H100)) == token
    assert found.workspace_bytes == 2000 * token + 4 * (token + 6 * 128_256)


def test_workspace_is_near_what_an_engine_measures():
    """vLLM 0.6.4 with Llama 3 8B, 8,192 tokens and 256 sequences a step: weights 14.96 GiB, activations 1.26 GiB.

    vllm-project/vllm pull request 10511, log of 2024-12-14.  Sampling keeps more copies of the logits than are counted.
    """
    found = need("llama-3.1-8b", rl.Workload(8192, 1, batch=256))
    assert found.weights_bytes / 2**30 == pytest.approx(14.96, abs=0.005)
    assert found.workspace_bytes / 2**30 == pytest.approx(1.26, rel=0.25)


def test_long_prompts_come_in_chunks():
    chunks = [need("llama-3.1-8b", rl.Workload(prompt)).workspace_bytes for prompt in (4096, 8192, 16_384, 100_000)]
    assert chunks[0] < chunks[1] == chunks[2] == chunks[3]


def test_workspace_beyond_the_reservation_takes_from_the_cache():
    serve = rl.Deployment(MODELS["llama-3.1-8b"], H100, memory_fraction=1.0)
    found = rl.memory(serve, rl.Workload(8192, 1))
    assert found.needed_bytes == pytest.approx(found.weights_bytes + found.paged_kv_bytes + found.workspace_bytes)
    at_90 = need("llama-3.1-8b", rl.Workload(8192, 1))
    assert at_90.needed_bytes == at_90.weights_bytes + at_90.paged_kv_bytes


def test_everything_is_an_array():
    serve = rl.Deployment(MODELS["llama-3.1-70b"], H100, parallel=rl.Parallel(tensor=np.array([1, 2, 4, 8])[:, None]))
    found = rl.memory(serve, rl.Workload(np.array([100, 5000, 100_000]), 100, batch=4))
    assert found.fits.shape == found.max_batch.shape == found.max_context.shape == found.needed_bytes.shape == (4, 3)
    for row, ways in enumerate((1, 2, 4, 8)):
        one = need(load=rl.Workload(5000, 100, 4), tensor=ways)
        for name in ("fits", "max_batch", "max_context", "needed_bytes", "running_batch"):
            assert getattr(found, name)[row, 1] == pytest.approx(getattr(one, name)), name


def test_every_step_of_the_derivation_evaluates():
    for found in (need(), need(tensor=4, load=rl.Workload(batch=9)), need("deepseek-v3", tensor=8)):
        for step in found.explain():
            value = eval(step.formula, {"min": np.minimum, "max": np.maximum}, dict(step.inputs))
            assert value == pytest.approx(step.value, rel=1e-12), step.name


@pytest.mark.parametrize("wrong", [{"page_tokens": 0}, {"step_tokens": 0.5}])
def test_pages_that_make_no_sense(wrong):
    with pytest.raises(rl.InvalidInput, match=f"{next(iter(wrong))} must be an integer >= 1"):
        rl.Paging(**wrong)


def test_a_prefix_that_all_share_is_stored_once():
    """1,600 of 2,000 prompt tokens in common: each of 8 sequences keeps 656 tokens, in 41 pages of 16."""
    load = rl.Workload(400, 256, batch=8, cached_tokens=1600)
    found = need(load=load, tensor=4, paging=rl.Paging(shared_tokens=1600))
    assert found.paged_kv_bytes == (8 * 656 + 1600) * 327_680
    assert found.paged_kv_bytes_per_sequence == 656 * 327_680
    room = 4 * 0.9 * H100.memory_bytes - found.weights_bytes - 1600 * 327_680
    assert found.max_batch == room // (656 * 327_680)


def test_recurrent_state_cannot_be_shared():
    serve = rl.Deployment(rl.get_model("codestral-mamba-7b"), H100)
    load = rl.Workload(400, 256, cached_tokens=1600)
    alone, shared = (rl.memory(serve, load, paging=rl.Paging(shared_tokens=tokens)) for tokens in (0, 1600))
    assert shared.paged_kv_bytes_per_sequence == alone.paged_kv_bytes_per_sequence > 0


def test_a_length_reserved_for_each_and_a_share_on_the_host():
    load = rl.Workload(400, 200)
    reserved = need(load=load, tensor=2, paging=rl.Paging(reserved_tokens=2048))
    assert reserved.paged_kv_bytes_per_sequence == 2048 * 327_680
    offloaded = need(load=load, tensor=2, paging=rl.Paging(host_share=0.25))
    assert offloaded.paged_kv_bytes_per_sequence == 0.75 * 608 * 327_680


def test_what_drafts_is_resident_too():
    load = rl.Workload(16, 16)
    serve, small = (rl.Deployment(MODELS[name], H100) for name in ("llama-3.1-70b", "llama-3.1-8b"))
    plain, draft = rl.memory(serve, load), rl.memory(small, load)
    beside = rl.memory(serve, load, drafter=Drafter(small))
    assert beside.weights_bytes == plain.weights_bytes + draft.weights_bytes
    assert beside.paged_kv_bytes == plain.paged_kv_bytes + draft.paged_kv_bytes
    layers = rl.memory(serve, load, drafter=Drafter(share=0.05))
    assert layers.weights_bytes == pytest.approx(1.05 * plain.weights_bytes)
    assert sum(layers.weights_bytes_by_part.values()) == pytest.approx(layers.weights_bytes)


def test_a_share_on_the_host_is_at_most_all_of_it():
    with pytest.raises(rl.InvalidInput, match=r"host_share must be a share from 0 to 1: 1.5"):
        rl.Paging(host_share=1.5)


# Decode context parallelism, and weights in host memory


@pytest.mark.parametrize("engine", [None, "vllm", "sglang"])
def test_decode_context_parallelism_holds_as_many_times_the_tokens_of_a_latent(engine):
    """All eight ranks of TP 8 hold each latent; with DCP 8 each holds an eighth of the tokens, weights as before."""
    layouts = (rl.Parallel(tensor=8), rl.Parallel(tensor=8, decode_context=8))
    serves = [rl.Deployment("deepseek-v3", "h200-sxm", parallel=layout, engine=engine) for layout in layouts]
    whole, divided = (rl.memory(serve, rl.Workload(8000, 192)) for serve in serves)
    assert divided.weights_bytes == whole.weights_bytes
    assert divided.cache_tokens == pytest.approx(8 * whole.cache_tokens, rel=1e-3)


@pytest.mark.parametrize("engine", [None, "vllm"])
def test_decode_context_parallelism_undoes_copies_of_kv_heads(engine):
    """8 KV heads on TP 16 are there twice; DCP 2 makes room for twice the tokens."""
    layouts = (rl.Parallel(tensor=16), rl.Parallel(tensor=16, decode_context=2))
    serves = [rl.Deployment("llama-3.1-70b", "h100-sxm", parallel=layout, engine=engine) for layout in layouts]
    whole, divided = (rl.memory(serve, rl.Workload(8000, 192)) for serve in serves)
    assert divided.cache_tokens == pytest.approx(2 * whole.cache_tokens, rel=1e-3)


@pytest.mark.parametrize("engine", [None, "vllm", "sglang"])
def test_weights_in_host_memory_leave_the_accelerator(engine):
    """The routed experts of Kimi K2.5: 60 layers x 384 x 3 x 7168 x 2048 values in int4 with a scale for 32."""
    serve = rl.Deployment("kimi-k2.5", "rtx-pro-6000-ws", engine=engine)
    load = rl.Workload(8000, 192)
    moved = rl.memory(serve, load, paging=Paging(weights_host_share=1.0))
    experts = 60 * 384 * 3 * 7168 * 2048 * 4.5 / 8
    assert moved.host_weights_bytes == pytest.approx(experts, rel=1e-6)
    assert not rl.memory(serve, load).fits
    assert moved.fits
    assert moved.weights_bytes == pytest.approx(rl.memory(serve, load).weights_bytes - experts)


def test_a_share_in_host_memory_is_a_share():
    with pytest.raises(rl.InvalidInput, match="weights_host_share must be a share from 0 to 1"):
        Paging(weights_host_share=1.5)


def test_fit_says_what_lives_in_host_memory():
    said = run("fit", "kimi-k2.5", "--hardware", "rtx-pro-6000-ws", "--weights-host", "1").stdout
    assert said.startswith("Yes: kimi-k2.5 fits on one rtx-pro-6000-ws")
    assert "1 of the experts (570.8 GB) are in host memory" in said.replace("\n", " ")
    assert "A decode step takes " in said.replace("\n", " ")
    assert run("fit", "kimi-k2.5", "--hardware", "rtx-4090", "--host-part", "lm_head").exit_code == 2
    refused = run("fit", "llama-3.1-70b", "--hardware", "rtx-4090", "--weights", "int4_g128").stdout.replace("\n", " ")
    assert "or with 75% of its layers in host memory" in refused


def test_dcp_is_an_option():
    said = run("fit", "deepseek-v3", "--hardware", "8xh200", "--dcp", "8", "--json").stdout
    assert '"fits": true' in said
