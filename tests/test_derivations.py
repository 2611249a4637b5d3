"""Every result has a derivation whose formulas give its figures, and the branch of one figure can be asked for."""

import pickle

import numpy as np
import pytest

import roofline as rl

SERVE = rl.Deployment("llama-3.1-8b", "h100-sxm")
LOAD = rl.Workload(1000, 100, batch=8)


def plan(**options):
    return rl.plan("llama-3.1-8b", ["h100-sxm", "l4"], rl.Workload(500, 50), slo=rl.SLO(tpot_s=0.05), **options)


PRICES = {"h100-sxm": 2.5, "l4": 0.8}
FASTER = rl.quantize(SERVE, weights="fp8")
RESULTS = {
    "generation": (lambda: rl.generate(SERVE, LOAD), ("ttft_s", "tpot_s", "total_s", "tokens_per_s", "prefill_share")),
    "generations": (lambda: rl.generate(SERVE, rl.Workload(batch=np.array([1, 8]))), ("ttft_s", "total_s")),
    "plan": (plan, ("requests_per_s", "tokens_per_s_per_gpu", "tokens_per_joule")),
    "priced plan": (lambda: plan(prices=PRICES), ("usd_per_request", "usd_per_million_output_tokens")),
    "fleet": (lambda: rl.fleet(plan(prices=PRICES), requests_per_s=99, utilization=0.7), ("replicas", "gpus_at_floor")),
    "ridges": (lambda: rl.ridge_table(vendor="NVIDIA"), ()),
    "search": (lambda: rl.solve(SERVE, LOAD, find="batch", metric="tpot_s", target=0.02), ()),
    "closed form": (lambda: rl.solve(SERVE, LOAD, find="batch", metric="fits"), ()),
    "sensitivity": (lambda: rl.sensitivity(rl.decode(SERVE, LOAD), time="estimate_s"), ()),
    "comparison": (lambda: rl.compare(rl.decode(SERVE, LOAD), rl.decode(FASTER, LOAD)), ()),
    "memories": (lambda: rl.compare(rl.memory(SERVE, LOAD), rl.memory(FASTER, LOAD)), ()),
    "steady": (lambda: rl.apply(SERVE, LOAD, "gqa").after, ("total_s", "tokens_per_s")),
    "effect": (lambda: rl.apply(SERVE, LOAD, "quantization"), ("decode_speedup", "ttft_speedup", "throughput_gain")),
    "techniques": (lambda: rl.technique_table(SERVE, LOAD, techniques=[rl.techniques.PrefixCaching()]), ()),
    "advice": (lambda: rl.advise(SERVE, [(1500, 300)], batches=(1, 8)), ("prefill_share",)),
}


def same(one, other):
    return np.allclose(np.asarray(one, float), np.asarray(other, float), rtol=1e-9)


@pytest.mark.parametrize("name", RESULTS)
def test_formulas_give_the_figures(name):
    make, figures = RESULTS[name]
    result = make()
    steps = result.explain()
    assert steps
    for step in steps:
        scope = {"max": np.maximum, "min": np.minimum, "inf": np.inf, **step.inputs}
        scope |= {"max": lambda *values: np.max(np.stack(np.broadcast_arrays(*values)), axis=0)}
        scope |= {"min": lambda *values: np.min(np.stack(np.broadcast_arrays(*values)), axis=0)}
        assert same(eval(step.formula, {"__builtins__": {}}, scope), step.value), str(step)
        assert step.source
    for figure in figures:
        assert same(result.explain(figure)[-1].value, getattr(result, figure))


def test_a_branch_holds_what_leads_to_a_number_and_nothing_else():
    step = rl.decode(SERVE, LOAD)
    branch = step.explain("floor_s")
    names = [each.name for each in branch]
    assert names[-1] == "decode.floor_s"
    assert branch[-1].value == step.floor_s
    assert {"decode.memory_s", "decode.matrix_s", "q_proj.least_bytes", "decode.least_bytes_of_a_pass"} <= set(names)
    assert not any("estimate" in name or "roofline" in name for name in names)
    assert len(branch) < len(step.explain()) / 2


def test_a_branch_of_an_operator():
    names = [each.name for each in rl.decode(SERVE, LOAD).explain("attention.memory_s")]
    assert names == [
        "attention.activation_bytes",
        "attention.cache_bytes",
        "attention.moved_bytes",
        "attention.memory_s",
    ]


def test_the_branch_of_an_estimate_reaches_the_kernels():
    branch = rl.decode(SERVE, LOAD).explain("estimate_s")
    assert any(each.name.startswith("attention.estimate_") for each in branch)
    assert branch[-1].name == "decode.estimate_s"


def test_a_name_that_no_step_has_is_refused():
    with pytest.raises(rl.UnknownName, match="no step named 'flor_s'; did you mean 'floor_s'"):
        rl.decode(SERVE, LOAD).explain("flor_s")


def test_the_ridge_point_is_peak_over_bandwidth():
    """H100 SXM: 989.4 TFLOP/s over 3.35 TB/s."""
    (step,) = rl.ridge_table(vendor="NVIDIA").explain("h100-sxm.bf16_ridge_flops_per_byte")
    assert step.value == pytest.approx(989.4e12 / 3.35e12, rel=1e-3)


def test_a_derivation_prints_one_step_per_line():
    """In a notebook, the last expression of a cell shows as text and as a table; long ones show their end."""
    step = rl.decode(rl.Deployment("llama-3.1-8b", "h100"), rl.Workload(batch=[1, 8]))
    found = step.explain("q_proj.memory_s")
    assert repr(found).splitlines() == [str(each) for each in found]
    assert repr(found[-1]) == str(found[-1])
    assert found._repr_html_().count("<tr>") == len(found) + 1
    everything = step.explain()
    lines = repr(everything).splitlines()
    assert lines[0] == f"... {len(everything) - 30:,} earlier steps; explain(name) has those of one value"
    assert lines[-1] == str(everything[-1])
    assert isinstance(everything, tuple)
    assert pickle.loads(pickle.dumps(found)) == found


def test_the_load_of_a_simulated_server_is_derived_from_its_capacity():
    """The scheduler of a server is busy as long as any request runs, which is not its load."""
    found = rl.serve(rl.Deployment("llama-3.1-8b", "h100"), rl.Workload(), requests_per_s=5, requests=100)
    step = found.explain("utilization")[-1]
    assert step.value == found.utilization == 5 / found.capacity_requests_per_s
