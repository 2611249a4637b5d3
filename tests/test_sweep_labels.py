"""Sweeps keep the names of what was swept: in frames, in datasets, and from pandas and xarray inputs."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import roofline as rl

SERVE = rl.Deployment("llama-3.1-8b", "h100-sxm")
BATCHES, PROMPTS = [1, 8, 64], [1000, 2000]


def crossed():
    batch = xr.DataArray(BATCHES, dims="users", coords={"users": BATCHES})
    prompt = xr.DataArray(PROMPTS, dims="length", coords={"length": ["short", "long"]})
    return batch, prompt


def one(batch, prompt):
    """A step asked for by itself."""
    return rl.decode(SERVE, rl.Workload(batch=batch, prompt_tokens=prompt))


def test_a_frame_has_the_swept_inputs_as_columns():
    load = rl.Workload(batch=np.array(BATCHES)[:, None], prompt_tokens=PROMPTS)
    frame = rl.decode(SERVE, load, context_tokens=load.prompt_tokens).to_frame()
    table = frame.pivot_table(index="batch", columns="context_tokens", values="floor_s")
    for batch in BATCHES:
        for prompt in PROMPTS:
            assert table.loc[batch, prompt] == pytest.approx(one(batch, prompt).floor_s)


def test_frames_of_several_deployments_stack():
    load = rl.Workload(batch=BATCHES)
    frames = [rl.generate(rl.Deployment("llama-3.1-8b", name), load).to_frame() for name in ("h100-sxm", "l40s")]
    table = pd.concat(frames).pivot_table(index="batch", columns="accelerator", values="tpot_s")
    assert list(table.columns) == ["h100-sxm", "l40s"]
    assert (table["l40s"] > table["h100-sxm"]).all()
    assert list(table.index) == BATCHES


def test_a_single_result_is_one_row_that_says_what_was_asked():
    (row,) = one(8, 1000).to_frame().to_dict("records")
    asked = {"model": "llama-3.1-8b", "accelerator": "h100-sxm", "weights": "bf16", "batch": 8, "context_tokens": 1000}
    assert {name: row[name] for name in asked} == asked


def test_series_keep_their_index_and_their_names():
    table = pd.DataFrame({"isl": [100, 200, 300], "osl": [10, 20, 30]}, index=pd.Index(["a", "b", "c"], name="case"))
    frame = rl.generate(SERVE, rl.Workload(prompt_tokens=table["isl"], output_tokens=table["osl"])).to_frame()
    assert frame.index.equals(table.index)
    assert frame["prompt_tokens"].tolist() == frame["isl"].tolist() == [100, 200, 300]
    joined = table.join(frame[["ttft_s"]])
    assert joined.loc["b", "ttft_s"] == pytest.approx(rl.generate(SERVE, rl.Workload(200, 20)).ttft_s)


def test_a_series_with_several_levels_keeps_them():
    index = pd.MultiIndex.from_product([["x", "y"], [1, 2]], names=["site", "rack"])
    load = rl.Workload(batch=pd.Series([1, 2, 4, 8], index=index))
    assert (
        rl.memory(SERVE, load).to_frame().loc[("y", 1), "kv_bytes"] == rl.memory(SERVE, rl.Workload(batch=4)).kv_bytes
    )
    assert rl.memory(SERVE, load).to_xarray()["site"].values.tolist() == ["x", "x", "y", "y"]


def test_data_arrays_cross_their_dimensions_and_keep_their_labels():
    batch, prompt = crossed()
    found = rl.decode(SERVE, rl.Workload(batch=batch, prompt_tokens=prompt)).to_xarray()
    assert dict(found.sizes) == {"users": 3, "length": 2} or dict(found.sizes) == {"length": 2, "users": 3}
    for at, length in enumerate(("short", "long")):
        for users in BATCHES:
            expected = one(users, PROMPTS[at]).estimate_s
            assert float(found.estimate_s.sel(users=users, length=length)) == pytest.approx(expected)
    assert found["batch"].dims == ("users",)
    assert found["context_tokens"].dims == ("length",)
    assert found.floor_s.attrs["units"] == "s"
    assert found.moved_bytes.attrs["units"] == "B"


def test_equal_dimensions_meet_and_do_not_cross():
    prompt = xr.DataArray([1000, 2000], dims="request")
    output = xr.DataArray([10, 20], dims="request")
    found = rl.generate(SERVE, rl.Workload(prompt_tokens=prompt, output_tokens=output)).to_xarray()
    assert dict(found.sizes) == {"request": 2}


def test_the_context_of_a_step_may_be_labeled_too():
    batch, context = crossed()
    found = rl.decode(SERVE, rl.Workload(batch=batch), context_tokens=context).to_xarray()
    assert float(found.floor_s.sel(users=8, length="long")) == pytest.approx(one(8, 2000).floor_s)
    plain = rl.decode(SERVE, rl.Workload(batch=BATCHES), context_tokens=xr.DataArray([1000] * 3, dims="at"))
    assert dict(plain.to_xarray().sizes) == {"at": 3}


def test_labels_reach_every_result_of_a_workload():
    batch, prompt = crossed()
    load = rl.Workload(batch=batch, prompt_tokens=prompt)
    sizes = {"users": 3, "length": 2}
    faster = rl.quantize(SERVE, weights="fp8")
    results = [
        rl.prefill(SERVE, load),
        rl.generate(SERVE, load),
        rl.memory(SERVE, load),
        rl.apply(SERVE, load, "gqa"),
        rl.mixed(SERVE, decode=load, prefill=rl.Workload(512)),
    ]
    for result in results:
        assert dict(result.to_xarray().sizes) == sizes, type(result).__name__
        assert len(result.to_frame()) == 6
    both = rl.compare(rl.decode(SERVE, load), rl.decode(faster, load))
    assert dict(both.to_xarray().sizes) == sizes | {"side": 2}
    assert both.to_xarray()["weights"].values.tolist() == ["bf16", "fp8"]
    assert both.to_frame()["floor_s_ratio"].max() < 1
    served = rl.serve(SERVE, rl.Workload(), concurrency=batch).to_xarray()
    assert served.tokens_per_s.sel(users=64) > served.tokens_per_s.sel(users=1)


def test_a_changed_workload_keeps_the_labels_that_fit():
    from dataclasses import replace

    batch, prompt = crossed()
    load = rl.Workload(batch=batch, prompt_tokens=prompt)
    longer = replace(load, output_tokens=512)
    assert longer.dimensions == load.dimensions
    assert replace(load, batch=4, prompt_tokens=np.ones(7)).dimensions.names == ()
    again = replace(load, batch=xr.DataArray([2, 4], dims="users", coords={"users": [2, 4]}), prompt_tokens=2000)
    assert rl.decode(SERVE, again).to_xarray()["users"].values.tolist() == [2, 4]


def test_axes_without_names_are_called_by_what_varies():
    load = rl.Workload(batch=np.array(BATCHES)[:, None], prompt_tokens=PROMPTS)
    assert dict(rl.prefill(SERVE, load).to_xarray().sizes) == {"batch": 3, "prompt_tokens": 2}
    zipped = rl.Workload(batch=[1, 2], prompt_tokens=[10, 20])
    assert dict(rl.prefill(SERVE, zipped).to_xarray().sizes) == {"point": 2}
    rates = SERVE.accelerator.replace(memory_bytes_per_s=np.array([1e12, 2e12]))
    faster = rl.decode(SERVE.replace(accelerator=rates), rl.Workload()).to_xarray()
    assert faster["memory_bytes_per_s"].values.tolist() == [1e12, 2e12]
    layouts = rl.memory(SERVE.replace(parallel=rl.Parallel(tensor=[1, 2, 4])), rl.Workload()).to_frame()
    assert layouts["tensor"].tolist() == [1, 2, 4]


def test_disagreeing_labels_are_refused():
    batch = xr.DataArray([1, 2], dims="case", coords={"case": ["a", "b"]})
    with pytest.raises(rl.InvalidInput, match="different labels along 'case'"):
        rl.Workload(batch=batch, prompt_tokens=xr.DataArray([1, 2], dims="case", coords={"case": ["b", "c"]}))
    with pytest.raises(rl.InvalidInput, match="3 points along 'case'"):
        rl.Workload(batch=xr.DataArray([1, 2, 3], dims="case"), prompt_tokens=batch)
    with pytest.raises(rl.InvalidInput, match="no dimension names"):
        rl.Workload(batch=batch, prompt_tokens=np.array([1, 2, 3]))


@pytest.mark.parametrize(
    "empty", [[], np.array([]), xr.DataArray(np.array([]), dims="case"), pd.Series([], dtype=float)]
)
def test_empty_inputs_give_empty_results(empty):
    load = rl.Workload(batch=empty)
    step = rl.decode(SERVE, load)
    results = [
        step,
        rl.prefill(SERVE, load),
        rl.generate(SERVE, load),
        rl.generate(SERVE, rl.Workload(output_tokens=empty)),
        rl.memory(SERVE, load),
        rl.apply(SERVE, load, "gqa"),
        rl.compare(step, step),
        rl.serve(SERVE, rl.Workload(), concurrency=empty),
        rl.decode(SERVE, rl.Workload(), context_tokens=empty),
    ]
    for result in results:
        assert len(result.to_frame()) == 0
        assert repr(result)
        assert result._repr_html_()
        assert result.to_dict()
        assert 0 in result.to_xarray().sizes.values()
        result.explain()


RESULTS = {
    "decode": lambda load: rl.decode(SERVE, load),
    "bound": lambda load: rl.decode(SERVE, load).operators[1],
    "generate": lambda load: rl.generate(SERVE, load),
    "memory": lambda load: rl.memory(SERVE, load),
    "effect": lambda load: rl.apply(SERVE, load, "gqa"),
    "steady": lambda load: rl.apply(SERVE, load, "gqa").before,
    "comparison": lambda load: rl.compare(rl.decode(SERVE, load), rl.decode(SERVE, load)),
    "served": lambda load: rl.serve(SERVE, rl.Workload(), concurrency=load.batch),
    "crossovers": lambda load: rl.crossovers(SERVE, load),
    "ridges": lambda load: rl.ridge_table(vendor="NVIDIA"),
    "plan": lambda load: rl.plan("llama-3.1-8b", ["l4"], rl.Workload(500, 50)),
    "fleet": lambda load: rl.fleet(rl.plan("llama-3.1-8b", ["l4"], rl.Workload(500, 50)), requests_per_s=1),
}


@pytest.mark.parametrize("name", RESULTS)
def test_arrays_of_results_are_read_only(name):
    result = RESULTS[name](rl.Workload(batch=BATCHES))
    for attribute in set(dir(result)) - {"columns"}:
        value = None if attribute.startswith("_") else getattr(result, attribute, None)
        held = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else [value]
        assert not isinstance(value, list), attribute
        for array in held:
            assert not (isinstance(array, np.ndarray) and array.ndim and array.flags.writeable), attribute


def test_layouts_refuse_named_dimensions_and_shapes_that_do_not_fit():
    with pytest.raises(
        rl.InvalidInput,
        match=r"named dimensions \('ways',\), which a layout does not keep; pass an array, tensor=\[1, 2, 4\], or",
    ):
        rl.Parallel(tensor=xr.DataArray([1, 2, 4], dims="ways"))
    layouts = rl.Parallel(tensor=np.array([1, 2, 4]))
    with pytest.raises(
        rl.InvalidInput, match=r"batch and tokens \(2,\) and arrays of the deployment must broadcast: tensor \(3,\)"
    ):
        rl.decode(SERVE.replace(parallel=layouts), rl.Workload(batch=[1, 2]))
    crossed = rl.Parallel(tensor=np.array([1, 2, 4])[:, None])
    assert dict(rl.decode(SERVE.replace(parallel=crossed), rl.Workload(batch=[1, 2])).to_xarray().sizes) == {
        "tensor": 3,
        "batch": 2,
    }
