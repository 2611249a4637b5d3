"""`rl.sweep`: models, accelerators, precisions, layouts and numbers as one labeled dataset, at once or lazily."""

import gc
import subprocess
import sys
import tracemalloc
import weakref

import cloudpickle
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import roofline as rl
from roofline.analysis import sweeps
from roofline.operators.roofline import name_limits
from roofline.report import progress

BATCHES, CONTEXTS = [1, 8], [1000, 4000, 16000]


def small(**options):
    asked = {"batch": BATCHES, "context_tokens": CONTEXTS, "precisions": ["bf16", "fp8"], "what": ["floor_s", "limit"]}
    return rl.sweep("gpt-2", ["h100-sxm", "l40s"], **(asked | options))


def test_every_point_is_the_step_asked_for_by_itself():
    asked = {"batch": BATCHES, "context_tokens": CONTEXTS, "precisions": ["bf16", "fp8"], "parallels": [1, 2]}
    what = ["floor_s", "estimate_s", "limit"]
    found = rl.sweep(["llama-3.1-8b", "gpt-2"], ["l40s", "l4"], what=what, **asked)
    assert [*found.sizes] == ["model", "accelerator", "precision", "layout", "batch", "context_tokens"]
    assert found["layout"].values.tolist() == ["one accelerator", "TP 2"]
    for precision, formats in (("bf16", rl.Precision()), ("fp8", rl.Precision(weights="fp8", activations="fp8"))):
        for layout, tensor in (("one accelerator", 1), ("TP 2", 2)):
            serve = rl.Deployment("llama-3.1-8b", "l40s", formats, rl.Parallel(tensor=tensor))
            step = rl.decode(serve, rl.Workload(batch=8), context_tokens=4000)
            place = {"model": "llama-3.1-8b", "accelerator": "l40s", "precision": precision, "layout": layout}
            point = found.sel(place | {"batch": 8, "context_tokens": 4000})
            assert float(point.floor_s) == pytest.approx(step.floor_s)
            assert float(point.estimate_s) == pytest.approx(step.estimate_s)
            assert str(point.limit.values) == step.limit


def test_single_values_are_coordinates_without_a_dimension():
    found = rl.sweep("gpt-2", "l4", batch=BATCHES, prompt_tokens=100, what="memory.fits")
    assert dict(found.sizes) == {"batch": 2}
    assert str(found["model"].values) == "gpt-2"
    assert found["memory.fits"].dtype == bool


def test_what_names_results_columns_or_both():
    whole = rl.sweep("gpt-2", "l4", batch=BATCHES, what="prefill")
    assert set(whole.data_vars) == set(rl.Phase.columns)
    mixed = rl.sweep("gpt-2", "l4", batch=BATCHES, what=["ttft_s", "memory", "prefill.floor_s"], time="floor_s")
    assert {"ttft_s", "memory.fits", "prefill.floor_s"} <= set(mixed.data_vars)
    assert np.allclose(mixed["ttft_s"], mixed["prefill.floor_s"])
    assert mixed["memory.weights_bytes"].units == "B"
    with pytest.raises(rl.UnknownName, match=r"no result or column named 'decode\.speed'"):
        rl.sweep("gpt-2", "l4", what="decode.speed")
    with pytest.raises(rl.InvalidInput, match="at least one quantity to compute"):
        rl.sweep("gpt-2", "l4", what=[])


def test_labels_of_ones_own_and_labeled_numbers():
    batch = xr.DataArray([1, 2, 4], dims="users", coords={"users": ["few", "some", "many"]})
    table = pd.DataFrame({"isl": [100, 200]}, index=pd.Index(["chat", "code"], name="task"))
    parallels = {"alone": 1, "pair": rl.Parallel(pipeline=2)}
    found = rl.sweep("gpt-2", "h100-sxm", parallels=parallels, batch=batch, prompt_tokens=table["isl"], what="prefill")
    assert dict(found.sizes) == {"layout": 2, "users": 3, "task": 2}
    serve = rl.Deployment("gpt-2", "h100-sxm", parallel=rl.Parallel(pipeline=2))
    expected = rl.prefill(serve, rl.Workload(batch=4, prompt_tokens=200)).floor_s
    assert float(found.floor_s.sel(layout="pair", users="many", task="code")) == pytest.approx(expected)


def test_what_cannot_run_is_blank_and_says_why():
    """A chip without links has no layout over two."""
    found = rl.sweep("gpt-2", ["l4", "apple-m2"], parallels=[1, 2], batch=BATCHES, what=["floor_s", "limit", "fits"])
    (reason,) = found.attrs["refused"]
    assert reason.startswith("gpt-2, apple-m2, TP 2: apple-m2 has no link")
    blank = found.sel(accelerator="apple-m2", layout="TP 2")
    assert blank.floor_s.isnull().all()
    assert blank.limit.values.tolist() == ["", ""]
    assert int(found.floor_s.isnull().sum()) == len(BATCHES)
    with pytest.raises(rl.InvalidInput, match="no point of this sweep can be computed: gpt-2, apple-m2, TP 2: "):
        rl.sweep("gpt-2", "apple-m2", parallels=2)
    with pytest.raises(rl.InvalidInput, match="batch must be an integer >= 1"):
        rl.sweep("gpt-2", "h100-sxm", batch=[0, -1])
    with pytest.raises(rl.UnknownName, match="h100-sxn"):
        rl.sweep("gpt-2", "h100-sxn")
    with pytest.raises(rl.InvalidInput, match="2 unnamed axes"):
        rl.sweep("gpt-2", "h100-sxm", batch=np.ones((2, 2)))
    with pytest.raises(rl.InvalidInput, match="at least one Accelerator"):
        rl.sweep("gpt-2", [])


@pytest.mark.parametrize("chunks", [2, "auto", {"batch": 1, "context_tokens": 2}])
def test_a_lazy_sweep_holds_the_same_values(chunks):
    lazy = small(chunks=chunks)
    assert lazy.floor_s.chunks is not None
    xr.testing.assert_allclose(lazy.compute(scheduler="synchronous"), small())


def test_tasks_can_travel_to_other_machines():
    graph = cloudpickle.loads(cloudpickle.dumps(small(chunks=2).floor_s))
    xr.testing.assert_allclose(graph.compute(scheduler="synchronous"), small().floor_s)


def test_chunks_are_as_large_as_asked():
    lazy = rl.sweep("gpt-2", "l4", batch=np.arange(1, 101), context_tokens=np.arange(1000), what="floor_s", chunks=5000)
    largest = [max(sizes) for sizes in lazy.floor_s.chunks]
    assert largest == [5, 1000]
    assert sweeps.CHUNK_POINTS == 50_000


def test_lazy_inputs_stay_lazy():
    batch = xr.DataArray(np.arange(1, 9), dims="batch").chunk({"batch": 2})
    lazy = rl.sweep("gpt-2", "l4", batch=batch, what="floor_s")
    assert lazy.floor_s.chunks == ((2, 2, 2, 2),)
    assert np.allclose(lazy.floor_s.values, rl.decode(rl.Deployment("gpt-2", "l4"), rl.Workload(batch=batch)).floor_s)


@pytest.mark.parametrize("chunks", [None, "auto"])
def test_an_empty_sweep_is_empty(chunks):
    assert rl.sweep("gpt-2", ["l4", "t4"], batch=[], chunks=chunks).compute().sizes == {"accelerator": 2, "batch": 0}


def test_a_sweep_runs_on_a_cluster_as_it_is():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        xr.testing.assert_allclose(small(chunks=2).compute(), small())


def test_large_sweeps_are_computed_in_blocks(monkeypatch):
    expected = small(what=["floor_s", "memory.fits"])
    monkeypatch.setattr(sweeps, "BLOCK_POINTS", 2)
    xr.testing.assert_equal(small(what=["floor_s", "memory.fits"]), expected)


def test_progress_is_shown_after_a_second(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    rl.sweep("gpt-2", ["l4", "t4", "h100-sxm"], batch=BATCHES, what="floor_s", progress=True)
    assert "] 2 of 3" in capsys.readouterr().err
    rl.sweep("gpt-2", ["l4", "t4"], batch=BATCHES, what="floor_s")
    assert capsys.readouterr().err == ""


def test_a_notebook_is_watched(monkeypatch):
    stream = type("OutStream", (), {"isatty": lambda self: False, "__module__": "ipykernel.iostream"})()
    monkeypatch.setattr("sys.stderr", stream)
    assert progress.watched()
    monkeypatch.setattr("sys.stderr", None)
    assert not progress.watched()


# Memory of large sweeps

MEASURED = """
import numpy as np
import roofline as rl

serve = rl.Deployment("llama-3.1-8b", "h100-sxm")
prompts = np.linspace(100, 100_000, {points}).astype(np.int64)
found = rl.{name}(serve, rl.Workload(prompts, 256, batch=8))
for column in found.columns:
    getattr(found, column)
found.assumptions, repr(found), found.summary()
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(status["VmHWM"].split()[0]) / 2**10)  # ru_maxrss would include what the parent process held
"""


@pytest.mark.parametrize(
    ("name", "points", "most_mib"),
    [("prefill", 10**6, 400), ("decode", 10**6, 400), ("memory", 10**6, 400), ("generate", 2 * 10**4, 300)],
)
def test_a_large_sweep_stays_small(name, points, most_mib):
    """A generation is up to 256 steps: 20,000 of them are five million points."""
    script = MEASURED.format(name=name, points=points)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(done.stdout) < most_mib


def test_a_pass_does_not_outlive_what_it_is_asked_for():
    """A pass that held itself would stay until the garbage is collected, with the operators of its block."""
    for model in ("llama-3.1-8b", "deepseek-v2-lite"):
        serve = rl.Deployment(model, "h100-sxm")
        gc.disable()
        try:
            one = rl.prefill(serve, rl.Workload(np.array([100, 200]))).scheduled
            assert one.sums.floor_s is not None
            assert one.estimates.time_s is not None
            assert one.least is not None
            left = weakref.ref(one)
            del one
            assert left() is None
        finally:
            gc.enable()


def test_parts_of_a_large_generation_are_the_whole(monkeypatch):
    from roofline.phases import generation

    serve = rl.Deployment("llama-3.1-8b", "h100-sxm")
    load = rl.Workload(np.arange(100, 160)[:, None], np.array([1, 2, 300]), batch=4)
    whole = rl.generate(serve, load).total_s
    monkeypatch.setattr(generation, "_MOST_POINTS", 5000)
    parts = rl.generate(serve, load)
    assert parts.total_s == pytest.approx(whole, rel=1e-12)
    assert not parts.step_s.flags.writeable


def test_naming_limits_takes_little_more_memory_than_the_names():
    """A million names of 7 letters in 4 bytes each are 28 MB; one comparison and one running maximum are 9 MB more."""
    memory_s, compute_s, network_s = np.random.default_rng(0).random((3, 1_000_000))
    tracemalloc.start()
    try:
        found = name_limits({"memory": memory_s, "compute": compute_s, "network": network_s})
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < 40e6
    assert np.all(memory_s[found == "memory"] >= np.maximum(compute_s, network_s)[found == "memory"])
    assert {"memory", "compute", "network"} == set(found[:100])
