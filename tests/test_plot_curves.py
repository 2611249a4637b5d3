"""Curves, throughput, cache and heat map: lines hold the API's values, texts stay inside, bad input is refused."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

import roofline as rl

SERVE = rl.Deployment("llama-3.1-8b", "h100-sxm")
BATCH = np.array([1.0, 8.0, 64.0])


@pytest.fixture(autouse=True)
def _agg_and_no_figure_left():
    mpl.use("Agg")
    yield
    plt.close("all")


def step(serve=SERVE, **fields):
    return rl.decode(serve, rl.Workload(**({"batch": BATCH} | fields)), context_tokens=2048)


def line(ax, label):
    return next(item for item in ax.lines if item.get_label().startswith(label)).get_xydata()


def check_texts(ax):
    ax.figure.draw_without_rendering()
    inside = ax.figure.bbox
    legend = ax.get_legend().get_texts()
    for text in [*legend, *ax.texts, ax.title, ax._left_title, ax.xaxis.label, ax.yaxis.label]:
        if text.get_text():
            box = text.get_window_extent()
            assert box.x0 >= inside.x0 - 1, text.get_text()
            assert box.x1 <= inside.x1 + 1, text.get_text()


def test_curves_draw_the_three_times_and_the_measured_points():
    phase = step()
    ax = rl.plot.curves(phase, measured={8: 0.007})
    for time, label in (("floor_s", "floor"), ("roofline_s", "roofline"), ("estimate_s", "estimate")):
        assert line(ax, label) == pytest.approx(np.column_stack([BATCH, 1e3 * getattr(phase, time)]))
    assert line(ax, "measured").tolist() == [[8, 7.0]]
    check_texts(ax)


@pytest.mark.parametrize(
    ("context", "label"), [(np.array([1000, 4000]), "context, tokens in the cache"), (2048, "batch, sequences")]
)
def test_curves_name_the_input_that_varies(context, label):
    load = rl.Workload(batch=BATCH if np.ndim(context) == 0 else 4)
    assert rl.plot.curves(rl.decode(SERVE, load, context_tokens=context)).get_xlabel() == label


def test_curves_need_a_sweep_over_one_input():
    with pytest.raises(rl.InvalidInput, match="varies none"):
        rl.plot.curves(step(batch=1))
    with pytest.raises(rl.InvalidInput, match="one input"):
        rl.plot.curves(rl.decode(SERVE, rl.Workload(batch=BATCH), context_tokens=np.array([1, 2, 3])))


def test_throughput_is_speed_of_a_user_and_of_a_gpu_and_its_frontier_is_beaten_by_no_point():
    two = SERVE.replace(parallel=rl.Parallel(tensor=2))
    phases = (step(), step(two))
    ax = rl.plot.throughput(*phases, names=("one", "two"), time="floor_s")
    for name, phase, gpus in zip(("one", "two"), phases, (1, 2), strict=True):
        assert line(ax, name) == pytest.approx(np.column_stack([1 / phase.floor_s, BATCH / phase.floor_s / gpus]))
    front = line(ax, "frontier")
    every = np.concatenate([line(ax, "one"), line(ax, "two")])
    assert not any((other > point).all() for point in front for other in every)
    assert all(any((point >= other).all() for point in front) for other in every)
    check_texts(ax)


def test_throughput_refuses_what_is_not_decode_over_the_batch():
    with pytest.raises(rl.InvalidInput, match="needs at least one"):
        rl.plot.throughput()
    with pytest.raises(rl.InvalidInput, match="prefill"):
        rl.plot.throughput(rl.prefill(SERVE, rl.Workload(batch=BATCH)))
    with pytest.raises(rl.InvalidInput, match="2 given"):
        rl.plot.throughput(step(), names=("a", "b"))
    with pytest.raises(rl.InvalidInput, match="'tpot'"):
        rl.plot.throughput(step(), time="tpot")


def test_cache_of_llama_is_131072_bytes_a_token():
    # 2 (keys and values) x 32 layers x 8 heads x 128 x 2 bytes, from the model card's config.json.
    ax = rl.plot.kv("llama-3.1-8b", context_tokens=[1000, 10_000], batch=3)
    assert line(ax, "Llama 3.1 8B") == pytest.approx(np.array([[1e3, 3 * 131072e-6], [1e4, 3 * 131072e-5]]))
    check_texts(ax)


def test_cache_refuses_no_model_and_no_length():
    with pytest.raises(rl.InvalidInput, match="needs at least one model"):
        rl.plot.kv()
    with pytest.raises(rl.InvalidInput, match="at least 1"):
        rl.plot.kv("llama-3.1-8b", context_tokens=[0])


def test_heat_map_holds_the_times_where_memory_suffices():
    batches, contexts = [1, 16, 4096], [1024, 8192]
    ax = rl.plot.heatmap(SERVE, batch=batches, context_tokens=contexts, tpot_s=0.01, time="floor_s")
    drawn = ax.collections[0].get_array()
    assert np.ma.getmaskarray(drawn).tolist() == [[False, False, True], [False, False, True]]
    step_s = rl.decode(SERVE, rl.Workload(batch=16), context_tokens=8192).floor_s
    assert drawn[1, 1] == pytest.approx(1e3 * step_s)
    check_texts(ax)


@pytest.mark.parametrize(
    "bad", [{"batch": [1]}, {"context_tokens": [5, 4]}, {"time": "fast"}, {"tpot_s": 0}, {"batch": [1e6, 1e7]}]
)
def test_heat_map_refuses(bad):
    with pytest.raises(rl.InvalidInput):
        rl.plot.heatmap(SERVE, **bad)
