"""Wherever a model or an accelerator is expected, its name will do; a list of them is refused in one line."""

import inspect
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import roofline as rl
from roofline.capacity import layouts
from roofline.techniques import Speculation

MODEL, GPU = "llama-3.1-8b", "h100-sxm"
SPECS = Path(__file__).parent.parent


def whole():
    return rl.Deployment(rl.get_model(MODEL), rl.get_accelerator(GPU))


def test_a_deployment_takes_names_aliases_and_paths():
    assert rl.Deployment(MODEL, GPU) == whole()
    assert rl.Deployment(MODEL, "NVIDIA H100 SXM") == whole()
    path = SPECS / "hardware_specs" / "h100-sxm.yaml"
    assert rl.Deployment(SPECS / "model_specs" / "llama-3.1-8b.yaml", path).accelerator.name == GPU
    assert whole().replace(accelerator="l4").accelerator == rl.get_accelerator("l4")


def test_values_are_accepted_where_names_are():
    model, gpu = rl.get_model(MODEL), rl.get_accelerator(GPU)
    assert rl.get_model(model) is model
    assert rl.get_accelerator(gpu) is gpu
    assert rl.get_price(gpu) == rl.get_price(GPU)
    assert rl.list_prices(gpu) == rl.list_prices(GPU)


def test_functions_take_names():
    work = rl.matmul(8, 4096, 4096)
    assert rl.bound(work, GPU) == rl.bound(work, rl.get_accelerator(GPU))
    assert layouts(MODEL, [1, 2]).tensor.tolist() == layouts(rl.get_model(MODEL), [1, 2]).tensor.tolist()
    load = rl.Workload(500, 50)
    alone = rl.plan(MODEL, GPU, load, batches=[1], accelerators=[1])
    assert alone == rl.plan(rl.get_model(MODEL), [rl.get_accelerator(GPU)], load, batches=[1], accelerators=[1])
    by_name, by_value = (Speculation(draft=draft) for draft in ("llama-3.2-1b", rl.get_model("llama-3.2-1b")))
    assert by_name == by_value
    assert rl.apply(whole(), load, by_name) == rl.apply(whole(), load, by_value)


def test_plots_take_names():
    phase = rl.decode(whole(), rl.Workload())
    axes = [rl.plot.roofline(GPU, phase), rl.plot.rooflines(GPU, "mi300x")]
    for ax in axes:
        assert ax.lines
        plt.close(ax.figure)


@pytest.mark.parametrize("several", [[GPU, "l4"], (GPU,), [rl.get_accelerator(GPU)]])
def test_a_list_of_accelerators_is_refused_in_one_line(several):
    for make in (lambda: rl.Deployment(MODEL, several), lambda: rl.bound(rl.matmul(1, 2, 3), several)):
        with pytest.raises(rl.InvalidInput, match="accelerator must be a name or a path, not several: ") as caught:
            make()
        assert "\n" not in str(caught.value)
        assert "use one deployment for each" in str(caught.value)


@pytest.mark.parametrize("several", [[MODEL, "gpt-2"], (MODEL,), {MODEL}])
def test_a_list_of_models_is_refused_in_one_line(several):
    with pytest.raises(rl.InvalidInput, match="model must be a name or a path, not several: ") as caught:
        rl.Deployment(several, GPU)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("nonsense", [None, 3, 1.5, b"h100-sxm"])
def test_nonsense_is_refused_with_its_value(nonsense):
    with pytest.raises(rl.InvalidInput, match="accelerator must be a name or a path: "):
        rl.Deployment(MODEL, nonsense)
    with pytest.raises(rl.InvalidInput, match="model must be a name or a path: "):
        rl.Deployment(nonsense, GPU)


def test_an_unknown_name_offers_the_nearest():
    with pytest.raises(rl.UnknownName, match="did you mean 'h100-sxm'"):
        rl.Deployment(MODEL, "h100-smx")


LOAD, RUN = rl.Workload(), Path(__file__).parent / "data" / "results" / "vllm_serve" / "v0.11_closed_loop.json"
OF_DEPLOYMENTS = {
    "prefill": lambda serve: rl.prefill(serve, LOAD),
    "decode": lambda serve: rl.decode(serve, LOAD),
    "mixed": lambda serve: rl.mixed(serve, decode=LOAD, prefill=LOAD),
    "encode": lambda serve: rl.encode(serve, LOAD),
    "generate": lambda serve: rl.generate(serve, LOAD),
    "memory": lambda serve: rl.memory(serve, LOAD),
    "quantize": lambda serve: rl.quantize(serve, weights="fp8"),
    "apply": lambda serve: rl.apply(serve, LOAD, "mla"),
    "technique_table": lambda serve: rl.technique_table(serve, LOAD),
    "simulate": lambda serve: rl.simulate(serve, LOAD, concurrency=1),
    "serve": lambda serve: rl.serve(serve, LOAD, concurrency=1),
    "serve_pools": lambda serve: rl.serve_pools(LOAD, prefill=whole(), decode=serve, concurrency=1),
    "advise": lambda serve: rl.advise(serve, LOAD),
    "crossovers": rl.crossovers,
    "solve": lambda serve: rl.solve(serve, find="batch", target=0.01),
    "headroom": lambda serve: rl.headroom(serve, rl.measured.read(RUN)[0]),
    "heatmap": rl.plot.heatmap,
    "scenario_with": lambda serve: rl.techniques.scenario_with(serve, LOAD, ()),
    "handover": lambda serve: rl.techniques.handover(serve, LOAD),
    "mode_switch": lambda serve: rl.techniques.mode_switch(serve, LOAD, prefill_gain=0.2, decode_cost=0.05),
    "speculation_limits": lambda serve: rl.techniques.speculation_limits(serve, LOAD),
    "tensor_limits": lambda serve: rl.techniques.tensor_limits(serve, LOAD),
}


@pytest.mark.parametrize("function", OF_DEPLOYMENTS.values(), ids=OF_DEPLOYMENTS)
@pytest.mark.parametrize("given", [MODEL, None, [whole()]], ids=["name", "None", "list"])
def test_what_is_no_deployment_is_refused_in_one_line(function, given):
    with pytest.raises(rl.InvalidInput, match=r"must be a Deployment, such as Deployment\('llama-3.1-8b'") as caught:
        function(given)
    assert "\n" not in str(caught.value)


OF_LOADS = {
    "prefill": lambda load: rl.prefill(whole(), load),
    "decode": lambda load: rl.decode(whole(), load),
    "generate": lambda load: rl.generate(whole(), load),
    "memory": lambda load: rl.memory(whole(), load),
    "apply": lambda load: rl.apply(whole(), load, "mla"),
    "technique_table": lambda load: rl.technique_table(whole(), load),
    "simulate": lambda load: rl.simulate(whole(), load, concurrency=1),
    "serve": lambda load: rl.serve(whole(), load, concurrency=1),
    "serve_pools": lambda load: rl.serve_pools(load, prefill=whole(), decode=whole(), concurrency=1),
    "crossovers": lambda load: rl.crossovers(whole(), load),
    "solve": lambda load: rl.solve(whole(), load, find="batch", target=0.01),
    "handover": lambda load: rl.techniques.handover(whole(), load),
    "tensor_limits": lambda load: rl.techniques.tensor_limits(whole(), load),
}


@pytest.mark.parametrize("function", OF_LOADS.values(), ids=OF_LOADS)
@pytest.mark.parametrize("given", [64, {"batch": 4}])
def test_what_is_no_load_is_refused_in_one_line(function, given):
    with pytest.raises(rl.InvalidInput, match="must be a Workload") as caught:
        function(given)
    assert "\n" not in str(caught.value)


def test_results_of_another_kind_are_refused_in_one_line():
    with pytest.raises(rl.InvalidInput, match="found must be a Phase"):
        rl.sensitivity(whole())
    with pytest.raises(rl.InvalidInput, match="plan must be a Plan"):
        rl.fleet(whole(), requests_per_s=1)


def test_every_public_function_answers_with_the_estimate_unless_asked():
    functions = [getattr(room, name) for room in (rl, rl.techniques, rl.plot) for name in room.__all__]
    signatures = {each.__name__: inspect.signature(each) for each in functions if inspect.isfunction(each)}
    times = {name: found.parameters["time"].default for name, found in signatures.items() if "time" in found.parameters}
    assert {"generate", "apply", "solve", "advise", "technique_table", "serve", "plan", "mode_switch"} <= set(times)
    # None stands for the time that the result was computed at.
    assert {name: time for name, time in times.items() if time not in ("estimate_s", None)} == {}


def test_a_count_in_the_name_of_an_accelerator_is_the_layout():
    """``8xh100`` is eight accelerators everywhere, unless a layout is given."""
    assert rl.Deployment("llama-3.1-8b", "8xh100").parallel == rl.Parallel(tensor=8)
    assert rl.Deployment("llama-3.1-8b", "p5.48xlarge").parallel == rl.Parallel(tensor=8)
    assert rl.Deployment("llama-3.1-8b", "8xh100", parallel=rl.Parallel(tensor=2)).parallel.tensor == 2
    assert rl.Deployment("llama-3.1-8b", "h100").parallel == rl.Parallel()
    with pytest.raises(rl.InvalidInput, match="precision must be a Precision, such as Precision"):
        rl.Deployment("llama-3.1-8b", "h100", "fp8")
