"""Mixed steps: some sequences decode while the prompts of others are computed."""

import numpy as np
import pytest

import roofline as rl

SERVE = rl.Deployment("llama-3.1-8b", "h100-sxm")
RUNNING = rl.Workload(prompt_tokens=2000, batch=32)
CHUNK = rl.Workload(prompt_tokens=512, cached_tokens=4096)

# Llama 3.1 8B as its config.json has it: 32 layers, width 4096, 32 query and 8 KV heads of 128, MLP 14336.
LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INTERMEDIATE, VOCAB = 32, 4096, 32, 8, 128, 14336, 128256
MATRICES = HIDDEN * HEAD_DIM * (2 * HEADS + 2 * KV_HEADS) + 3 * HIDDEN * INTERMEDIATE


def pairs(new, past):
    """Query-key pairs, counted token by token."""
    return sum(past + token for token in range(1, new + 1))


def test_flops_are_those_of_a_hand_count():
    linear = 2 * (512 + 32) * LAYERS * MATRICES
    head = 2 * (1 + 32) * HIDDEN * VOCAB
    attention = LAYERS * HEADS * 4 * HEAD_DIM * (pairs(512, 4096) + 32 * pairs(1, 2000))
    mixed = rl.mixed(SERVE, decode=RUNNING, prefill=CHUNK)
    assert mixed.flops == pytest.approx(linear + head + attention, rel=1e-12)
    assert mixed.tokens == 544


def test_weights_are_streamed_once_and_caches_are_read_by_each():
    mixed = rl.mixed(SERVE, decode=RUNNING, prefill=CHUNK)
    apart = rl.prefill(SERVE, CHUNK), rl.decode(SERVE, RUNNING)
    matrices = 2 * (LAYERS * MATRICES + HIDDEN * VOCAB)
    rows = 2 * HIDDEN * (512 + 32)
    norms = 2 * (2 * LAYERS + 1) * HIDDEN
    assert mixed.weight_bytes == pytest.approx(matrices + rows + norms, rel=1e-12)
    assert mixed.cache_bytes == pytest.approx(sum(phase.cache_bytes for phase in apart), rel=1e-12)
    assert mixed.roofline_s < sum(phase.roofline_s for phase in apart)
    assert max(phase.floor_s for phase in apart) <= mixed.floor_s <= sum(phase.floor_s for phase in apart)


def test_lengths_may_differ_from_group_to_group():
    prompts = [rl.Workload(300), rl.Workload(700, cached_tokens=50, batch=2)]
    running = [rl.Workload(1000, batch=3), rl.Workload(9000, batch=5)]
    mixed = rl.mixed(SERVE, decode=running, prefill=prompts)
    attention = pairs(300, 0) + 2 * pairs(700, 50) + 3 * pairs(1, 1000) + 5 * pairs(1, 9000)
    linear = 2 * (300 + 1400 + 8) * LAYERS * MATRICES + 2 * (1 + 2 + 8) * HIDDEN * VOCAB
    assert mixed.flops == pytest.approx(linear + LAYERS * HEADS * 4 * HEAD_DIM * attention, rel=1e-12)
    assert len(mixed.segments) == 4


def test_equal_groups_are_one_group():
    together = rl.mixed(SERVE, decode=rl.Workload(500, batch=6), prefill=CHUNK)
    apart = rl.mixed(SERVE, decode=[rl.Workload(500, batch=2), rl.Workload(500, batch=4)], prefill=CHUNK)
    for name in ("flops", "moved_bytes", "roofline_s", "floor_s"):
        assert getattr(together, name) == pytest.approx(getattr(apart, name), rel=1e-12)


def test_a_sweep_is_its_points():
    batches = np.arange(1.0, 6.0)
    sweep = rl.mixed(SERVE, decode=rl.Workload(batch=batches), prefill=CHUNK)
    for at, batch in enumerate(batches):
        point = rl.mixed(SERVE, decode=rl.Workload(batch=batch), prefill=CHUNK)
        assert sweep.roofline_s[at] == pytest.approx(point.roofline_s, rel=1e-12)
        assert sweep.limit[at] == point.limit


def test_a_mixed_step_runs_on_a_parallel_layout_and_explains_itself():
    serve = rl.Deployment("llama-3.1-70b", "h100-sxm", parallel=rl.Parallel(tensor=4, pipeline=2))
    mixed = rl.mixed(serve, decode=RUNNING, prefill=CHUNK)
    assert 0 < mixed.floor_s <= mixed.roofline_s
    assert mixed.explain()[-1].name.startswith("mixed.")


@pytest.mark.parametrize("nothing", [[], None, [3], "decode"])
def test_what_is_no_workload_is_refused(nothing):
    with pytest.raises(rl.InvalidInput, match="decode must be a Workload or several of them"):
        rl.mixed(SERVE, decode=nothing, prefill=CHUNK)
    with pytest.raises(rl.InvalidInput, match="prefill must be a Workload or several of them"):
        rl.mixed(SERVE, decode=RUNNING, prefill=nothing)


def test_shapes_that_do_not_broadcast_are_refused():
    with pytest.raises(rl.InvalidInput, match="must broadcast"):
        rl.mixed(SERVE, decode=rl.Workload(batch=[1, 2]), prefill=rl.Workload([1, 2, 3]))
