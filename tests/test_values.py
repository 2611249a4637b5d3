"""Values behave as values: they compare by content, hash, copy, pickle, and travel to other processes."""

import copy
import dataclasses
import functools
import importlib
import inspect
import multiprocessing
import pickle
import pkgutil
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import roofline as rl
from roofline import layers, techniques
from roofline.arrays import FrozenMapping, same
from roofline.hardware import Provenance
from roofline.operators.links import Message, Relay
from roofline.operators.operator import Operator, Pass, Segment
from roofline.operators.precision import AS_PUBLISHED
from roofline.operators.softmax_attention import Reads
from roofline.report import Step
from roofline.serving.scenario import Drafts, Scenario
from roofline.values import Value


@functools.cache
def serve(model="llama-3.1-8b", hardware="h100-sxm"):
    return rl.Deployment(rl.get_model(model), rl.get_accelerator(hardware))


LOAD = rl.Workload(1000, 100, 4)


def trace(gap_s):
    return rl.Trace(np.array([0.0, gap_s]), np.array([100.0, 200.0]), np.array([10.0, 20.0]), np.zeros(2))


SWEEP = rl.Workload(batch=np.arange(1.0, 9.0))
LINK = rl.Link("NVLink 4", "switch", 450e9, 8)
SEGMENT = Segment(2.0, 1.0, 100.0)
TRAFFIC = rl.Traffic.of([(200, 400, 3), (4000, 200, 1)])


def attention(**changes):
    return layers.Attention(hidden=64, query_heads=8, kv_heads=2, head_dim=8, **changes)


@functools.cache
def plan():
    return rl.plan("llama-3.1-8b", ["h100-sxm"], rl.Workload(500, 50), slo=rl.SLO(tpot_s=0.05), batches=[1, 8])


def gpu(**changes):
    return rl.get_accelerator("h100-sxm").replace(**changes)


@functools.cache
def simulated(seed):
    return rl.simulate(serve(), LOAD, requests_per_s=5.0, requests=40, seed=seed)


RESULTS = Path(__file__).parent / "data" / "results"
RUN, OTHER_RUN = RESULTS / "vllm_serve" / "v0.11_closed_loop.json", RESULTS / "vllm_serve" / "v0.11_open_loop.json"

# name -> (how a value is made, how one is made that differs in one field)
VALUES = {
    "Provenance": (lambda: Provenance("80 GB", "page"), lambda: Provenance("96 GB", "page")),
    "Link": (lambda: LINK, lambda: dataclasses.replace(LINK, domain=4)),
    "Accelerator": (lambda: rl.get_accelerator("h100-sxm"), lambda: gpu(dense_flops_per_s={"bf16": 1e15})),
    "Precision": (rl.Precision, lambda: rl.Precision(kv="fp8")),
    "Precision with exceptions": (
        lambda: rl.Precision(exceptions={"lm_head": "fp8"}),
        lambda: rl.Precision(exceptions={"router": "fp8"}),
    ),
    "Parallel": (rl.Parallel, lambda: rl.Parallel(tensor=2)),
    "Workload": (rl.Workload, lambda: rl.Workload(batch=2)),
    "SLO": (rl.SLO, lambda: rl.SLO(ttft_s=0.2)),
    "Price": (lambda: rl.Price(2.5), lambda: rl.Price(2.5, date="2026-01-01")),
    "Power": (lambda: rl.Power(pue=1.2), lambda: rl.Power(pue=1.3)),
    "Paging": (rl.Paging, lambda: rl.Paging(page_tokens=32)),
    "Attention": (attention, lambda: attention(window=16)),
    "Layer": (lambda: rl.Layer(2, (attention(),)), lambda: rl.Layer(2, (attention(window=16),))),
    "Model": (lambda: rl.get_model("deepseek-v3"), lambda: rl.get_model("deepseek-v3").replace(apart={"tower": 1})),
    "Parameters": (
        lambda: rl.get_model("gpt-2").parameters,
        lambda: dataclasses.replace(rl.get_model("gpt-2").parameters, active=1),
    ),
    "Deployment": (serve, lambda: serve().replace(engine="vllm")),
    "Message": (lambda: Message("send", 1e6, 2, 1e6), lambda: Message("send", 2e6, 2, 1e6)),
    "Relay": (lambda: Relay(1e6, 8, 4), lambda: Relay(1e6, 8, 2)),
    "Reads": (
        lambda: Reads(past=1.0, least_past=1.0, new=0.0, written=1.0),
        lambda: Reads(past=2.0, least_past=1.0, new=0.0, written=1.0),
    ),
    "Segment": (lambda: SEGMENT, lambda: dataclasses.replace(SEGMENT, past_tokens=101.0)),
    "Pass": (lambda: serve().run(SEGMENT), lambda: Pass((SEGMENT,), rl.Precision(kv="fp8"))),
    "Work": (lambda: rl.matmul(8, 16, 32), lambda: rl.matmul(8, 16, 33)),
    "Operator": (
        lambda: rl.decode(serve(), LOAD).operators[1].operator,
        lambda: rl.decode(serve(), rl.Workload()).operators[1].operator,
    ),
    "Bound": (lambda: rl.bound(rl.matmul(8, 16, 32), gpu()), lambda: rl.bound(rl.matmul(8, 16, 32), gpu(), name="q")),
    "Phase": (lambda: rl.decode(serve(), LOAD), lambda: rl.decode(serve(), LOAD, context_tokens=7)),
    "Generation": (lambda: rl.generate(serve(), LOAD), lambda: rl.generate(serve(), rl.Workload())),
    "Memory": (lambda: rl.memory(serve(), LOAD), lambda: rl.memory(serve(), rl.Workload())),
    "Step": (
        lambda: Step("x_s", "a / b", {"a": 1.0, "b": 2.0}, 0.5, "page"),
        lambda: Step("x_s", "a / b", {"a": 1.0, "b": 2.0}, 0.5, "other page"),
    ),
    "Comparison": (
        lambda: rl.compare(rl.decode(serve(), LOAD), rl.decode(serve(), rl.Workload())),
        lambda: rl.compare(rl.decode(serve(), LOAD), rl.decode(serve(), LOAD)),
    ),
    "Crossovers": (lambda: rl.crossovers(serve()), lambda: rl.crossovers(serve(), LOAD)),
    "RidgeTable": (lambda: rl.ridge_table(vendor="Google"), lambda: rl.ridge_table(vendor="Intel")),
    "Tiling": (rl.Tiling, lambda: rl.Tiling(64, 64, 32, 32)),
    "MemoryHierarchy": (
        lambda: rl.memory_hierarchy(1, 64, 64, "a100-sxm-80gb"),
        lambda: rl.memory_hierarchy(2, 64, 64, "a100-sxm-80gb"),
    ),
    "Solution": (
        lambda: rl.solve(serve(), find="memory_bytes_per_s", target=0.004, time="floor_s"),
        lambda: rl.solve(serve(), find="memory_bytes_per_s", target=0.005, time="floor_s"),
    ),
    "Sensitivity": (
        lambda: rl.sensitivity(rl.decode(serve(), LOAD)),
        lambda: rl.sensitivity(rl.decode(serve(), LOAD), time="floor_s"),
    ),
    "Drafts": (lambda: Drafts(0.7, 4), lambda: Drafts(0.7, 5)),
    "Scenario": (lambda: Scenario(serve(), LOAD), lambda: Scenario(serve(), LOAD, hit_rate=0.5)),
    "Speculation": (techniques.Speculation, lambda: techniques.Speculation(acceptance=0.5)),
    "Quantization": (
        lambda: techniques.Quantization(weights="fp8"),
        lambda: techniques.Quantization(weights="int4_g128"),
    ),
    "Effect": (
        lambda: rl.apply(serve(), LOAD, techniques.KVQuantization(kv="fp8")),
        lambda: rl.apply(serve(), LOAD, techniques.KVQuantization(kv="int4")),
    ),
    "Steady": (
        lambda: rl.apply(serve(), LOAD, []).before,
        lambda: rl.apply(serve(), LOAD, [], time="floor_s").before,
    ),
    "TechniqueTable": (
        lambda: rl.technique_table(serve(), LOAD, techniques=[techniques.KVQuantization()]),
        lambda: rl.technique_table(serve(), LOAD, techniques=[techniques.PagedAttention()]),
    ),
    "Simulation": (lambda: simulated(seed=0), lambda: simulated(seed=1)),
    "Pools": (
        lambda: rl.serve_pools(LOAD, prefill=serve(), decode=serve(), concurrency=2, requests=4),
        lambda: rl.serve_pools(LOAD, prefill=serve(), decode=serve(), concurrency=2, requests=4, decode_workers=2),
    ),
    "Engine": (lambda: rl.Engine("vllm"), lambda: rl.Engine("vllm", step_tokens=512)),
    "Hardware": (lambda: rl.get_hardware("8xh100"), lambda: rl.get_hardware("4xh100")),
    "Purchase": (
        lambda: rl.list_purchases("h100-sxm")[0],
        lambda: dataclasses.replace(rl.list_purchases("h100-sxm")[0], usd=1.0),
    ),
    "Served": (
        lambda: rl.serve(serve(), LOAD, concurrency=8),
        lambda: rl.serve(serve(), LOAD, concurrency=9),
    ),
    "Napkin": (
        lambda: rl.napkin(rl.decode(serve(), LOAD)),
        lambda: rl.napkin(rl.decode(serve(), LOAD, context_tokens=4000)),
    ),
    "Measurement": (lambda: rl.measured.read(RUN)[0], lambda: rl.measured.read(OTHER_RUN)[0]),
    "Headroom": (
        lambda: rl.headroom(serve(), rl.measured.read(RUN)[0]),
        lambda: rl.headroom(serve("gpt-2"), rl.measured.read(RUN)[0]),
    ),
}

# The same for values that hold arrays, which compare by content and say that they can't be hashed.
WITH_ARRAYS = {
    "Workload": (lambda: rl.Workload(batch=[1, 2]), lambda: rl.Workload(batch=[1, 3])),
    "Parallel": (lambda: rl.Parallel(tensor=[1, 2]), lambda: rl.Parallel(tensor=[1, 4])),
    "Accelerator": (
        lambda: gpu(memory_bytes_per_s=np.array([1e12, 2e12])),
        lambda: gpu(memory_bytes_per_s=np.array([1e12, 3e12])),
    ),
    "Accelerator with arrays by format": (
        lambda: gpu(dense_flops_per_s={"bf16": np.array([1e15, 2e15])}),
        lambda: gpu(dense_flops_per_s={"bf16": np.array([1e15, 3e15])}),
    ),
    "ServerCalibration": (
        lambda: rl.ServerCalibration((rl.Engine("vllm"),), np.ones(1), np.ones(1), np.ones(1)),
        lambda: rl.ServerCalibration((rl.Engine("sglang"),), np.ones(1), np.ones(1), np.ones(1)),
    ),
    "Trace": (lambda: trace(1.0), lambda: trace(2.0)),
    "Traffic": (lambda: TRAFFIC, lambda: rl.Traffic.of([(200, 400, 3), (4000, 300, 1)])),
    "Work": (lambda: rl.matmul(np.arange(1, 4), 16, 32), lambda: rl.matmul(np.arange(2, 5), 16, 32)),
    "Phase": (lambda: rl.decode(serve(), SWEEP), lambda: rl.decode(serve(), SWEEP, context_tokens=5)),
    "Generation": (lambda: rl.generate(serve(), SWEEP), lambda: rl.generate(serve(), SWEEP, time="floor_s")),
    "Memory": (lambda: rl.memory(serve(), SWEEP), lambda: rl.memory(serve("gpt-2"), SWEEP)),
    "Speculation": (
        lambda: techniques.Speculation(acceptance=np.array([0.5, 0.7])),
        lambda: techniques.Speculation(acceptance=np.array([0.5, 0.8])),
    ),
    "Served": (
        lambda: rl.serve(serve(), LOAD, concurrency=[1, 8]),
        lambda: rl.serve(serve(), LOAD, concurrency=[1, 9]),
    ),
    "Plan": (plan, lambda: plan().take([0])),
    "Fleet": (lambda: rl.fleet(plan(), requests_per_s=9), lambda: rl.fleet(plan(), requests_per_s=90)),
    "PoolPlan": (lambda: rl.disaggregate(plan()), lambda: rl.disaggregate(plan(), link_bytes_per_s=1e9)),
    "Advice": (
        lambda: rl.advise(serve(), TRAFFIC, batches=(1, 8), techniques=[techniques.KVQuantization()]),
        lambda: rl.advise(serve(), TRAFFIC, batches=(1, 9), techniques=[techniques.KVQuantization()]),
    ),
}


def each(table):
    return [pytest.param(*makers, id=name) for name, makers in table.items()]


@pytest.mark.parametrize(("make", "make_other"), each(VALUES) + each(WITH_ARRAYS))
def test_values_compare_by_content_and_survive_copies_and_pickles(make, make_other):
    value = make()
    for again in (make(), copy.copy(value), copy.deepcopy(value), *pickles_of(value)):
        assert type(again) is type(value)
        assert (again == value) is True
        assert (again != value) is False
    assert (make_other() == value) is False
    assert (make_other() != value) is True
    assert (value == "something else") is False


def pickles_of(value):
    return [pickle.loads(pickle.dumps(value, protocol)) for protocol in (2, pickle.HIGHEST_PROTOCOL)]


@pytest.mark.parametrize(("make", "make_other"), each(VALUES))
def test_equal_values_hash_alike(make, make_other):
    value, other = make(), make_other()
    assert {value, make(), copy.deepcopy(value), *pickles_of(value)} == {value}
    assert hash(make()) == hash(value)
    assert len({value, other}) == 2


@pytest.mark.parametrize(("make", "make_other"), each(WITH_ARRAYS))
def test_a_value_with_an_array_cannot_be_hashed_and_says_why(make, make_other):
    message = r"^unhashable: [\w'\[\]]+ is an array of shape \(.*\); only values without arrays can be hashed$"
    for value in (make(), make_other()):
        with pytest.raises(TypeError, match=message):
            hash(value)


def test_the_message_names_the_field():
    with pytest.raises(TypeError, match="unhashable: batch is an array of shape"):
        hash(SWEEP)
    with pytest.raises(TypeError, match=r"unhashable: dense_flops_per_s\['bf16'\] is an array of shape"):
        hash(gpu(dense_flops_per_s={"bf16": np.array([1e15, 2e15])}))


def test_every_class_that_is_exported_is_covered_here():
    covered = {type(make()) for make, _ in [*VALUES.values(), *WITH_ARRAYS.values()]}
    exported = [getattr(rl, name) for name in rl.__all__]
    values = [item for item in exported if inspect.isclass(item) and not issubclass(item, Exception)]
    assert not [item.__name__ for item in values if item not in covered]
    assert not [item.__name__ for item in {*values, *layers.KINDS.values()} if not issubclass(item, Value)]


def package_modules():
    for found in pkgutil.walk_packages(rl.__path__, "roofline."):
        if not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


def test_every_dataclass_of_the_package_that_may_hold_arrays_is_a_value():
    """A generated ``==`` raises on arrays: annotations that name numbers or arrays call for the base class."""
    plain = set()
    for module in package_modules():
        for item in vars(module).values():
            if inspect.isclass(item) and dataclasses.is_dataclass(item) and not issubclass(item, Value):
                kinds = {str(field.type) for field in dataclasses.fields(item)}
                if any("Number" in kind or "NDArray" in kind for kind in kinds):
                    plain.add(item.__name__)
    assert plain <= {"Answers", "Batch", "Calibrated", "Case", "NapkinLine"}


@pytest.mark.parametrize("technique", techniques.usual_techniques(), ids=lambda item: type(item).__name__)
def test_techniques_are_values(technique):
    assert pickle.loads(pickle.dumps(technique)) == technique == copy.deepcopy(technique)
    assert hash(technique) == hash(copy.deepcopy(technique))


@pytest.mark.parametrize("name", rl.list_models())
def test_every_model_is_a_value(name):
    model = rl.get_model(name)
    again = pickle.loads(pickle.dumps(model))
    assert again == model == rl.get_model(name)
    assert hash(again) == hash(model)


@pytest.mark.parametrize("name", rl.list_accelerators())
def test_every_accelerator_is_a_value(name):
    accelerator = rl.get_accelerator(name)
    again = pickle.loads(pickle.dumps(accelerator))
    assert again == accelerator
    assert hash(again) == hash(accelerator)


def test_a_copy_carries_fields_and_computes_the_rest_again():
    phase = rl.decode(serve(), LOAD)
    expected = phase.to_dict()
    before = len(pickle.dumps(rl.decode(serve(), LOAD)))
    assert len(pickle.dumps(phase)) == before
    assert "sums" not in vars(copy.deepcopy(phase))
    assert pickle.loads(pickle.dumps(phase)).to_dict() == expected


def test_two_nans_are_the_same_content():
    nan = dataclasses.replace(rl.crossovers(serve(), LOAD), kv_tokens=float("nan"))
    again = dataclasses.replace(nan, kv_tokens=np.float64("nan"))
    assert nan == again
    assert hash(nan) == hash(again)
    assert same(np.array([1.0, np.nan]), np.array([1.0, np.nan]))
    assert not same(np.array([1.0, np.nan]), np.array([np.nan, 1.0]))
    assert not same(np.ones(3), np.ones((1, 3)))
    assert same(np.array(["memory", "compute"]), np.array(["memory", "compute"]))


def test_numbers_that_are_equal_are_one_content_whatever_their_type():
    assert rl.Workload(batch=2) == rl.Workload(batch=2.0) == rl.Workload(batch=np.int64(2))
    assert hash(rl.Workload(batch=2)) == hash(rl.Workload(batch=np.float64(2)))


def test_formats_as_published_still_follow_the_model_after_a_pickle():
    unstated = dataclasses.replace(rl.get_model("llama-3.1-8b"), precision=None)
    before = rl.Deployment(unstated, rl.get_accelerator("h200-sxm"))
    assert before.precision is AS_PUBLISHED
    for again in (copy.deepcopy(before), *pickles_of(before)):
        assert again.precision is AS_PUBLISHED
        deepseek = rl.get_model("deepseek-v3")
        assert again.replace(model=deepseek).precision == deepseek.precision
    assert pickle.loads(pickle.dumps(rl.Precision())) is not AS_PUBLISHED
    assert rl.Precision() == AS_PUBLISHED


def floor_s(deployment):
    return deployment, rl.decode(deployment, LOAD).floor_s


def test_a_process_pool_works_through_deployments():
    asked = [serve("llama-3.1-8b", gpu) for gpu in ("h100-sxm", "l4")] + [serve("deepseek-v3", "h200-sxm")]
    with ProcessPoolExecutor(max_workers=2, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = dict(pool.map(floor_s, asked))
    assert found == dict(map(floor_s, asked))


def test_a_function_of_deployment_and_workload_can_be_memoized():
    calls = []

    @functools.lru_cache
    def step_s(deployment, load):
        calls.append(load.batch)
        return rl.decode(deployment, load).roofline_s

    for batch in (1, 2, 1):
        fresh = rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm"))
        assert step_s(fresh, rl.Workload(batch=batch)) == rl.decode(fresh, rl.Workload(batch=batch)).roofline_s
    assert calls == [1, 2]
    with pytest.raises(TypeError, match="unhashable: batch is an array"):
        step_s(serve(), SWEEP)


def test_arrays_of_a_value_are_copies_that_cannot_be_written_to():
    batch = np.array([1.0, 2.0])
    load = rl.Workload(batch=batch)
    batch[0] = 99
    assert load.batch.tolist() == [1, 2]
    for again in (load, copy.deepcopy(load), pickle.loads(pickle.dumps(load))):
        with pytest.raises(ValueError, match="read-only"):
            again.batch[0] = 5


def test_results_that_are_kept_cannot_be_written_to():
    phase, generation = rl.decode(serve(), SWEEP), rl.generate(serve(), SWEEP)
    kept = (phase.floor_s, phase.operators[1].flops, generation.tpot_s)
    for figures in kept:
        with pytest.raises(ValueError, match="read-only"):
            figures[0] = 0.0


def test_mappings_of_a_value_cannot_be_changed():
    for value, name in ((gpu(), "dense_flops_per_s"), (rl.Precision(), "exceptions"), (rl.get_model("gpt-2"), "apart")):
        mapping = getattr(value, name)
        assert isinstance(mapping, FrozenMapping)
        with pytest.raises(TypeError, match="does not support item assignment"):
            mapping["bf16"] = 1.0


def test_a_subclass_may_compare_in_its_own_way():
    class Loose(Value):
        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

    @dataclasses.dataclass(frozen=True)
    class Looser(Loose):
        field: int

    assert Looser(1) == Looser(2)
    assert hash(Looser(1)) == 1


def test_dir_of_a_result_lists_its_columns():
    results = [make() for make, _ in [*VALUES.values(), *WITH_ARRAYS.values()] if hasattr(make(), "columns")]
    assert len(results) > 15
    for result in results:
        assert set(result.columns) <= set(dir(result)), type(result).__name__
        assert {"to_dict", "to_frame", "explain", "columns"} <= set(dir(result))


def test_a_served_result_can_be_asked_for_its_interval_after_a_pickle():
    served = rl.serve(serve(), LOAD, concurrency=8)
    again = pickle.loads(pickle.dumps(served))
    assert again.low == served.low
    assert again.low.total_s < again.total_s < again.high.total_s


def test_an_operator_keeps_its_formulas_and_inputs():
    operator = rl.decode(serve(), LOAD).operators[1].operator
    again = pickle.loads(pickle.dumps(operator))
    assert isinstance(again, Operator)
    assert again.formulas == operator.formulas
    assert again.inputs == operator.inputs
