"""Many accelerators: what divides, what does not, and what the links cost."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.footprint.memory_use import cache_on_one, weights_on_one
from roofline.operators.links import Relay, exchange_s, wire_bytes

H100 = rl.get_accelerator("h100-sxm")
LLAMA = rl.get_model("llama-3.1-70b")
MIXTRAL = rl.get_model("mixtral-8x7b")
DEGREES = st.sampled_from([1, 2, 4, 8])
LAYOUTS = st.builds(rl.Parallel, tensor=DEGREES, pipeline=DEGREES, data=DEGREES, context=st.sampled_from([1, 2]))


def spread(model=LLAMA, **degrees):
    return rl.Deployment(model, H100, parallel=rl.Parallel(**degrees))


@pytest.mark.parametrize(("tensor", "floor_ms"), [(2, 20.85), (4, 10.42), (8, 5.21)])
def test_decode_floor_of_70b_divides_with_tensor_parallelism(tensor, floor_ms):
    step = rl.decode(spread(tensor=tensor), rl.Workload(), context_tokens=2048)
    assert step.floor_s * 1e3 == pytest.approx(floor_ms, abs=0.01)
    assert step.roofline_s > step.floor_s


@pytest.mark.parametrize(("tensor", "compute_ms"), [(2, 130.4), (4, 65.2), (8, 32.6)])
def test_prefill_compute_of_70b_divides(tensor, compute_ms):
    """2.7905e14 FLOPs over ``tensor`` times 132 SM x 4,096 FLOP x 1,980 MHz."""
    phase = rl.prefill(spread(tensor=tensor), rl.Workload(prompt_tokens=2000))
    assert phase.floor_s * 1e3 == pytest.approx(compute_ms, rel=2e-3)


def test_nothing_is_printed_below_the_floor_at_tp_8():
    serve = spread(tensor=8)
    step = rl.decode(serve, rl.Workload(), context_tokens=2048)
    assert min(step.roofline_s, step.estimate_s, step.estimate_low_s) >= step.floor_s >= 5.2e-3


@given(st.sampled_from([LLAMA, MIXTRAL]), st.integers(1, 500), st.integers(1, 4000))
def test_one_accelerator_is_no_parallelism(model, batch, tokens):
    load = rl.Workload(batch=batch, prompt_tokens=tokens)
    plain, one = rl.Deployment(model, H100), rl.Deployment(model, H100, parallel=rl.Parallel(tensor=np.array([1])))
    for run in (rl.prefill, rl.decode):
        for name in ("flops", "moved_bytes", "floor_s", "roofline_s"):
            assert getattr(run(one, load), name)[0] == pytest.approx(getattr(run(plain, load), name), rel=1e-12)
    assert rl.memory(one, load).needed_bytes[0] == pytest.approx(rl.memory(plain, load).needed_bytes)


@given(LAYOUTS, st.integers(1, 8))
def test_flops_of_the_whole_do_not_change_with_an_even_layout(layout, times):
    load = rl.Workload(batch=64 * times, prompt_tokens=1024)
    whole = rl.prefill(rl.Deployment(LLAMA, H100), load).flops
    found = rl.prefill(rl.Deployment(LLAMA, H100, parallel=layout), load).flops
    lm_head = 2 * 8192 * 128_256 * load.batch
    assert found == pytest.approx(whole + (layout.context - 1) * lm_head, rel=1e-9)
    if layout.context == 1:
        step = rl.decode(rl.Deployment(LLAMA, H100, parallel=layout), load)
        assert step.flops == pytest.approx(rl.decode(rl.Deployment(LLAMA, H100), load).flops, rel=1e-9)


@given(LAYOUTS, st.integers(1, 300), st.integers(1, 9000), st.sampled_from([LLAMA, MIXTRAL]))
def test_no_layout_is_below_its_floor(layout, batch, tokens, model):
    serve = rl.Deployment(model, H100, parallel=layout)
    load = rl.Workload(batch=batch, prompt_tokens=tokens)
    for phase in (rl.prefill(serve, load), rl.decode(serve, load)):
        assert 0 < phase.floor_s <= phase.roofline_s * (1 + 1e-12)
        assert phase.estimate_s >= phase.floor_s


def test_weights_of_one_accelerator_are_the_models():
    for model in (LLAMA, MIXTRAL, rl.get_model("gemma-2-9b"), rl.get_model("gpt-2")):
        serve = rl.Deployment(model, H100)
        assert weights_on_one(serve) == pytest.approx(model.weight_bytes(serve.precision), rel=1e-12)


def test_kv_heads_do_not_divide_past_their_number():
    per_token = [cache_on_one(spread(tensor=ways), 1) for ways in (1, 8, 16)]
    assert per_token == [327_680, 40_960, 40_960]


def test_heads_that_do_not_divide_are_padded():
    model = rl.get_model("llama-2-13b")
    step = rl.decode(spread(model, tensor=16), rl.Workload(), context_tokens=0)
    q_proj = next(item for item in step.operators if item.name == "q_proj")
    assert q_proj.operator.inputs["n"] == 3 * 128


def test_all_reduce_on_a_switch_that_reduces_beats_the_ring():
    assert wire_bytes("all_reduce", 1e9, 8, reduces=True) == 1e9
    assert wire_bytes("all_reduce", 1e9, 8) == 1.75e9
    assert wire_bytes("all_reduce", 1e9, 2) == wire_bytes("all_reduce", 1e9, 2, reduces=True) == 1e9


def test_nvlink_is_counted_one_way():
    assert exchange_s("all_reduce", 450e9, 8, H100) == pytest.approx(1.0)


def test_a_group_past_the_domain_goes_over_the_network_cards():
    inside, across = (exchange_s("all_reduce", 1e9, count, H100) for count in (8, 16))
    assert inside == pytest.approx(1e9 / 450e9)
    assert across == pytest.approx(1e9 / 8 / 50e9)


def test_a_pair_on_a_mesh_has_one_link():
    mi300x = rl.get_accelerator("mi300x")
    assert exchange_s("all_reduce", 64e9, 2, mi300x) == pytest.approx(1.0)


def test_two_all_reduces_a_layer():
    step = rl.decode(spread(tensor=8), rl.Workload(batch=4), context_tokens=0)
    reduces = [item.operator for item in step.operators if item.name == "all_reduce"]
    assert sum(item.count for item in reduces) == 160
    assert all(item.message.message_bytes == 4 * 8192 * 2 for item in reduces)


def test_mixtral_reads_all_experts_at_batch_64():
    step = rl.decode(spread(MIXTRAL, tensor=2), rl.Workload(batch=64), context_tokens=0)
    assert step.roofline_s >= 13.9e-3


def test_experts_are_hit_with_the_global_chance_under_expert_parallelism():
    step = rl.decode(spread(MIXTRAL, expert=8, data=8), rl.Workload(batch=8), context_tokens=0)
    expert = next(item.operator for item in step.operators if item.name == "experts_up")
    one = 4096 * 14336 * 2
    assert expert.work.weight_bytes / one == pytest.approx(max(8 * (1 - 0.75**8) / 8, 1.0))
    assert expert.inputs["m"] == 8


def test_dispatch_and_combine_where_experts_span_replicas():
    names = {item.name for item in rl.decode(spread(MIXTRAL, expert=8, data=8), rl.Workload(batch=64)).operators}
    assert {"dispatch", "combine"} <= names
    names = {item.name for item in rl.decode(spread(MIXTRAL, expert=8, tensor=8), rl.Workload(batch=64)).operators}
    assert "dispatch" not in names


def test_experts_divide_over_replicas_of_attention_without_expert_parallelism():
    """gpt-oss-120b, 36 x 128 experts in MXFP4: a quarter of them on each of four accelerators, not all (65 GB)."""
    model = rl.get_model("gpt-oss-120b")
    whole = weights_on_one(spread(model, data=4))
    quarter = weights_on_one(spread(model, data=4, moe_tensor=4))
    experts = 36 * 128 * (3 * 2880 * 2880 * 4.25 + (2 * 2880 + 2880) * 16) / 8
    assert whole == pytest.approx(65.2e9, rel=0.01)
    assert whole - quarter == pytest.approx(0.75 * experts, rel=0.01)
    load = rl.Workload(batch=64)
    spans, copies = (
        rl.decode(spread(model, data=4, **ways), load, context_tokens=1000) for ways in ({"moe_tensor": 4}, {})
    )
    assert spans.flops == pytest.approx(copies.flops)
    alike = rl.decode(spread(model, tensor=4), load, context_tokens=1000)
    gate, same = (
        next(item.operator for item in step.operators if item.name == "experts_gate") for step in (spans, alike)
    )
    assert gate.inputs["routed_rows"] == same.inputs["routed_rows"] == 64 * 4
    assert gate.inputs["n"] == same.inputs["n"] == 2880 / 4


def test_every_replica_gathers_the_tokens_of_all_where_experts_divide_over_them():
    """One group of four: a token is sent to all four, 16 tokens x 4 x hidden x 2 bytes, three quarters over links."""
    step = rl.decode(spread(MIXTRAL, data=4, moe_tensor=4), rl.Workload(batch=64), context_tokens=1000)
    combine = next(item for item in step.operators if item.name == "combine")
    one = 16 * 4 * 4096 * 2 * 3 / 4 / 450e9
    assert combine.network_s == pytest.approx(32 * one)
    assert not any(item.name == "dispatch" for item in rl.decode(spread(MIXTRAL, data=4), rl.Workload()).operators)


def test_pipeline_decodes_no_faster_and_prefills_with_a_bubble():
    one, staged = rl.Deployment(LLAMA, H100), spread(pipeline=4)
    at = {"context_tokens": 2048}
    assert rl.decode(staged, rl.Workload(), **at).floor_s >= rl.decode(one, rl.Workload(), **at).floor_s
    load = rl.Workload(batch=8, prompt_tokens=2000)
    single = rl.prefill(one, rl.Workload(prompt_tokens=2000)).roofline_s
    assert rl.prefill(staged, load).roofline_s == pytest.approx(2 * single * (4 + 3) / 4, rel=0.01)


@pytest.mark.parametrize(
    ("batch", "prompt", "stages", "passes"),
    [(1, 2000, 4, 1), (8, 2000, 4, 4), (3, 500, 2, 2), (16, 8192, 4, 16), (1, 32_768, 2, 4), (2, 16_384, 8, 4)],
)
def test_a_pipeline_prefills_in_enough_passes_to_fill_its_stages(batch, prompt, stages, passes):
    """``max(min(stages, batch), ceil(batch * prompt / 8192))``, each through all stages, one stage apart."""
    load = rl.Workload(prompt_tokens=prompt, batch=batch)
    found = rl.prefill(spread(pipeline=stages), load)
    assert found.schedule.microbatches == passes
    assert found.schedule.rounds == (passes + stages - 1) / stages
    assert found.flops == pytest.approx(rl.prefill(rl.Deployment(LLAMA, H100), load).flops, rel=0.01)


@pytest.mark.parametrize(("batch", "passes"), [(1, 1), (3, 3), (4, 4), (5, 6), (8, 8)])
def test_a_pipeline_makes_no_more_microbatches_than_it_has_sequences(batch, passes):
    load = rl.Workload(batch=batch)
    found = rl.decode(spread(pipeline=4), load).flops
    assert found == pytest.approx(rl.decode(spread(), rl.Workload(batch=passes)).flops, rel=1e-9)


def test_an_all_to_all_over_two_nodes_sends_half_over_the_network_cards():
    links, cards = 16e9 * 7 / 16 / 450e9, 16e9 * 8 / 16 / 50e9
    assert exchange_s("all_to_all", 16e9, 16, H100) == pytest.approx(max(links, cards))
    fast_cards = H100.replace(nic_bytes_per_s=1e15)
    assert exchange_s("all_to_all", 16e9, 16, fast_cards) == pytest.approx(links)


def test_tokens_cross_the_network_once_per_node():
    """32 H100 in four nodes, 8 experts a token (DeepEP's normal kernels; DeepSeek-V3 technical report, section 3.2.2).

    Uniform choices fall on 4 (1 - 0.75^8) = 3.6 nodes, of which a quarter is the token's own: 2.7 crossings instead of
    three quarters of 7.2 copies. With at most two nodes a token crosses 2 (1 - 0.5^8) 3 / 4 = 1.5 times.
    """
    copies = 32 * (1 - (31 / 32) ** 8)
    for most, crossings in ((32, 4 * (1 - 0.75**8) * 0.75), (2, 2 * (1 - 0.5**8) * 0.75)):
        relay = Relay(1e9, 8, most)
        assert exchange_s("all_to_all", copies * 1e9, 32, H100, relay) == pytest.approx(crossings * 1e9 / 50e9)
    assert exchange_s("all_to_all", copies * 1e9, 32, H100) == pytest.approx(copies * 0.75e9 / 50e9)
    fast_cards = H100.replace(nic_bytes_per_s=1e15)  # all copies are forwarded over the links of a node
    assert exchange_s("all_to_all", copies * 1e9, 32, fast_cards, Relay(1e9, 8, 4)) == pytest.approx(
        copies * 1e9 * 7 / 8 / 450e9
    )


def test_deepseek_v3_routes_to_at_most_four_nodes():
    """256 H100 in 32 nodes: 7.2 of 32 nodes by chance, 3.6 of the four that its router allows."""
    layout = {"data": 256, "expert": 256}
    serve = rl.Deployment("deepseek-v3", H100, precision=rl.Precision(weights="fp8", activations="fp8"))
    times = []
    for most in (None, 32, 4):
        found = serve.replace(parallel=rl.Parallel(**layout, expert_nodes=most))
        phase = rl.prefill(found, rl.Workload(4096, 1, batch=256))
        (dispatch,) = (item.operator for item in phase.operators if item.operator.name == "dispatch")
        times.append(float(dispatch.message.network_s(H100)))
    direct, relayed, limited = times
    assert relayed / direct == pytest.approx(32 * (1 - (31 / 32) ** 8) / (256 * (1 - (255 / 256) ** 8)), rel=1e-6)
    assert limited / relayed == pytest.approx(4 * (1 - 0.75**8) / (32 * (1 - (31 / 32) ** 8)), rel=1e-6)


@pytest.mark.parametrize("nodes", [0, 1.5, -2])
def test_a_limit_of_nodes_is_a_count(nodes):
    with pytest.raises(rl.RooflineError, match="expert_nodes must be"):
        rl.Parallel(data=16, expert=16, expert_nodes=nodes)


def test_overlap_hides_the_network():
    exposed, hidden = (
        rl.decode(spread(tensor=8, overlap=share), rl.Workload(batch=64)).roofline_s for share in (0.0, 1.0)
    )
    assert hidden < exposed


def test_layouts_are_arrays_too():
    serve = spread(tensor=np.array([1, 2, 4, 8]))
    steps = rl.decode(serve, rl.Workload(batch=16), context_tokens=2048)
    for at, tensor in enumerate([1, 2, 4, 8]):
        one = rl.decode(spread(tensor=tensor), rl.Workload(batch=16), context_tokens=2048)
        for name in ("flops", "floor_s", "roofline_s"):
            assert getattr(steps, name)[at] == pytest.approx(getattr(one, name), rel=1e-12)


def test_70b_fits_two_h100():
    need = rl.memory(spread(tensor=2), rl.Workload())
    assert need.fits is True
    assert need.per_accelerator["weights_bytes"] == pytest.approx(141.1e9 / 2, rel=1e-3)
    assert need.max_batch == int((2 * 0.9 * 81_559 * 2**20 - need.weights_bytes) // need.kv_bytes_per_sequence)


@pytest.mark.parametrize(
    ("degrees", "says"),
    [
        ({"tensor": 0}, "tensor must be an integer >= 1: 0"),
        ({"pipeline": 1.5}, "pipeline must be an integer >= 1: 1.5"),
        ({"expert": 16, "tensor": 8}, "expert must be at most tensor x data: 16 > 8 x 1"),
        ({"expert": 3, "tensor": 8}, "expert and tensor must divide evenly: 3 and 8"),
        ({"overlap": 1.5}, "overlap must be at most 1: 1.5"),
        (
            {"data": 4, "moe_tensor": 8},
            "expert x moe_tensor must be a multiple of tensor, at most tensor x data: 1 x 8",
        ),
        ({"data": 4, "moe_tensor": [1, 4]}, "moe_tensor must be a single number, not an array"),
    ],
)
def test_layouts_that_make_no_sense(degrees, says):
    with pytest.raises(rl.InvalidInput, match=says):
        rl.Parallel(**degrees)


def test_an_accelerator_without_any_link_says_so():
    alone = H100.replace(scale_up=None, host_bytes_per_s=None)
    with pytest.raises(rl.InvalidInput, match="has no link between accelerators"):
        _ = rl.decode(rl.Deployment(LLAMA, alone, parallel=rl.Parallel(tensor=2)), rl.Workload()).roofline_s


@pytest.mark.parametrize("overlap", [0, 0.3, 0.9, 1])
@pytest.mark.parametrize("batch", [1, 4096])
def test_the_network_hides_behind_what_there_is_to_hide_behind(overlap, batch):
    """Under full overlap a pass takes as long as the longer of the chip and the network, by hand from its parts."""
    step = rl.decode(spread(tensor=8, overlap=overlap), rl.Workload(batch=batch), context_tokens=16)
    local = sum(item.roofline_s for item in step.operators if item.operator.message is None)
    network = sum(item.roofline_s for item in step.operators if item.operator.message is not None)
    assert step.roofline_s == pytest.approx(max(local + (1 - overlap) * network, network))
    assert step.floor_s <= step.roofline_s * (1 + 1e-12)
    assert step.roofline_s <= step.estimate_s * (1 + 1e-12)


@pytest.mark.parametrize(
    ("model", "reduced"),
    [("gpt-j-6b", 1), ("falcon-7b", 1), ("gpt-neox-20b", 1), ("command-r-35b", 1), ("redpajama-3b", 2)],
)
def test_attention_and_mlp_side_by_side_take_one_all_reduce(model, reduced):
    """GPT-J adds both outputs to the same input (mesh-transformer-jax), so the parts of their sum are reduced once."""
    serve = spread(rl.get_model(model), tensor=2)
    step = rl.decode(serve, rl.Workload())
    count = sum(item.operator.count for item in step.operators if item.name == "all_reduce")
    assert count == reduced * serve.model.layer_count


def test_blocks_that_are_added_together_must_be_all_blocks():
    layer = LLAMA.layers[0]
    with pytest.raises(rl.InvalidInput, match="together must add up to the 2 blocks"):
        dataclasses.replace(layer, together=(1,))


@pytest.mark.parametrize("stages", [2, 4])
def test_a_pipeline_prefills_every_sequences_cache(stages):
    """Weights of a stage may stay on the chip between sequences; the cache of each sequence is another one's."""
    load = rl.Workload(prompt_tokens=1, batch=16, cached_tokens=100_000)
    one = rl.prefill(spread(), rl.Workload(prompt_tokens=1, cached_tokens=100_000))
    cache = sum(item.operator.count * item.operator.least.cache_bytes for item in one.operators)
    weights = one.least_bytes - cache
    prefix, written = cache * 100_000 / 100_001, cache / 100_001
    expected = (weights + prefix + 16 * written) / stages / H100.memory_bytes_per_s
    assert rl.prefill(spread(pipeline=stages), load).resources_s["memory"] == pytest.approx(expected, rel=1e-6)


def test_matrices_that_engines_keep_whole_may_be_divided_in_the_floor():
    """Nemotron 3 projects into a latent before its experts; engines replicate that matrix, but no one has to."""
    model = rl.get_model("nemotron-3-super-120b-a12b")
    step = rl.decode(spread(model, tensor=8), rl.Workload())
    latents = [item.operator for item in step.operators if item.name.startswith("latent_")]
    assert latents
    for operator in latents:
        assert operator.least.weight_bytes == pytest.approx(operator.work.weight_bytes / 8)
