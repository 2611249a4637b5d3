"""Every technique by its one slug in apply, plan, fleet and advise, on the command line, and in the table."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from command_line import answer

import roofline as rl
from roofline import techniques as t
from roofline.serving.scenario import Scenario

LOAD = rl.Workload(2000, 200, 8)
PLACES = (
    ("llama-3.1-8b", rl.Parallel()),
    ("qwen2.5-vl-3b", rl.Parallel()),
    ("qwen3-30b-a3b", rl.Parallel()),
    ("deepseek-v2-lite", rl.Parallel(tensor=4)),
    ("deepseek-v2-lite", rl.Parallel(tensor=4, expert=4)),
)
"""Deployments on H100, of which every technique suits one."""


@cache
def place(slug):
    """A deployment that can have the technique with its usual parameters."""
    technique = t.REGISTRY[slug]()
    serves = (rl.Deployment(model, "h100-sxm", parallel=parallel) for model, parallel in PLACES)
    return next(serve for serve in serves if not technique.refusal(Scenario(serve, LOAD)))


@cache
def table_rows(serve):
    return rl.technique_table(serve, LOAD).rows


@cache
def planned(slug, **asked):
    return rl.plan(
        place(slug).model, "h100-sxm", LOAD, accelerators=(1, 2, 4), batches=[1, 8, 32], techniques=slug, **asked
    )


@pytest.mark.parametrize("slug", t.REGISTRY)
def test_a_technique_is_applied_by_its_slug(slug):
    serve = place(slug)
    effect = rl.apply(serve, LOAD, slug)
    assert effect.after.tokens_per_s > 0
    assert effect.techniques == (t.REGISTRY[slug](),)
    row = next(row for row in table_rows(serve) if row["slug"] == slug)
    assert row["technique"].startswith(t.REGISTRY[slug].name)


@pytest.mark.parametrize("slug", t.REGISTRY)
def test_a_technique_is_planned_with(slug):
    """What requests see of a row of the plan is what `apply` says of its deployment."""
    found = planned(slug)
    row = int(np.argmax(found.table.failure == ""))
    seen = found.steady_state(row)
    assert found.table.failure[row] == ""
    for column, value in (("ttft_s", seen.ttft_s), ("tpot_s", seen.tpot_s), ("total_s", seen.total_s)):
        assert getattr(found.table, column)[row] == pytest.approx(float(value), rel=1e-6), column
    assert any(note.startswith(f"techniques: {t.REGISTRY[slug].name}") for note in found.assumptions)


@pytest.mark.parametrize("slug", t.REGISTRY)
def test_a_fleet_has_a_technique(slug):
    slo = rl.SLO(ttft_s=10, tpot_s=1)
    found = rl.fleet(planned(slug, requests_per_s=2.0, slo=slo), requests_per_s=2.0)
    assert 1 <= found.gpus[0] < 100


@pytest.mark.parametrize("slug", t.REGISTRY)
def test_advice_takes_a_technique_and_considers_it(slug):
    serve = place(slug)
    using = rl.advise(serve, LOAD, techniques=slug, considered=())
    assert using.verdict in ("prefill", "decode", "both", "profile both")
    considering = rl.advise(serve, LOAD, considered=slug)
    assert [*considering.had, *(option.name for option in considering.options)] == [t.REGISTRY[slug]().label]
    assert not considering.refused


@pytest.mark.parametrize("slug", t.REGISTRY)
def test_a_technique_is_changed_to_on_the_command_line(slug):
    serve = place(slug)
    parallel = serve.parallel
    where = (serve.model.name, "--hardware", "h100-sxm", "--tp", parallel.tensor, "--ep", parallel.expert)
    load = ("--prompt", 2000, "--output", 200, "--batch", 8)
    found = answer("what-if", *where, *load, "--technique", slug)
    effect = rl.apply(serve, LOAD, slug)
    assert json.loads(json.dumps(found))["technique"] == effect.technique
    assert found["throughput_gain"] == pytest.approx(float(effect.throughput_gain), rel=1e-6)


def test_layouts_of_a_plan_are_those_that_a_technique_makes():
    """Two accelerators a layer leave no other layouts; spread experts leave those that are; replicas likewise."""
    halved = rl.plan("llama-3.1-8b", "h100-sxm", LOAD, accelerators=(1, 2, 4), techniques=t.TensorParallelism(tensor=2))
    assert set(halved.table.tensor) == {2.0}
    spread = planned("expert-parallelism")
    assert np.all(spread.table.expert == spread.table.tensor * spread.table.data)
    replicas = rl.plan("deepseek-v2-lite", "h100-sxm", LOAD, accelerators=(1, 2, 4), techniques="attention-dp")
    assert np.all(replicas.table.data > 1)
    divided = planned("dcp")
    assert np.all(divided.scenario(0).serve.parallel.decode_context > 1)


def test_replicas_and_ranks_do_not_both_hold_the_cache():
    serve = rl.Deployment("deepseek-v2-lite", "h100-sxm", parallel=rl.Parallel(tensor=4, decode_context=4))
    with pytest.raises(rl.InvalidInput, match="decode context parallelism divides the cache"):
        rl.apply(serve, LOAD, "attention-dp")
    with pytest.raises(rl.InvalidInput, match="tensor must be a multiple of the 4 ranks that share the cache: 2"):
        rl.apply(serve, LOAD, t.TensorParallelism(tensor=2))


def test_a_server_whose_steps_run_other_kernels_is_not_simulated():
    case = t.SharedPrefixAttention(prefix_tokens=1000).after(Scenario(rl.Deployment("llama-3.1-8b", "h100-sxm"), LOAD))
    with pytest.raises(rl.InvalidInput, match="decode steps and prompts run different kernels"):
        rl.simulate(case.serve, replace(LOAD, batch=1), concurrency=8)
