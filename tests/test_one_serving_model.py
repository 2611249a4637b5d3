"""One model of serving: every answer about one scenario has the same figures, in Python and on the command line.

Scenarios are four layouts of eight H200, as they are or with techniques, another format of the cache, an engine, and a
prefix cache.  `tests/test_steady_state.py` compares the figures with laws, hand calculations and simulations.
"""

import csv
import io

import numpy as np
import pytest
from command_line import answer, run, text

import roofline as rl
from roofline import techniques as t
from roofline.serving.metrics import METRICS, SLO_METRICS

HARDWARE, BATCH = "h200-sxm", 64
LOAD = rl.Workload(1500, 300, batch=BATCH)
LAYOUTS = {
    "TP": ("llama-3.1-70b", {"tensor": 8}),
    "PP": ("llama-3.1-70b", {"tensor": 2, "pipeline": 4}),
    "EP": ("mixtral-8x7b", {"tensor": 8, "expert": 8}),
    "DP": ("deepseek-v3", {"expert": 8, "data": 8}),
}
WAYS = {
    "as given": {},
    "techniques": {"techniques": ("speculative", "chunked-prefill")},
    "cache format": {"kv": "fp8"},
    "engine": {"engine": "vllm"},
    "hit rate": {"hit_rate": 0.5},
    "all of them": {"techniques": "chunked-prefill", "kv": "fp8", "engine": "sglang", "hit_rate": 0.5},
}
OPTIONS = {
    "as given": (),
    "techniques": ("--technique", "speculative", "--technique", "chunked-prefill"),
    "cache format": ("--kv", "fp8"),
    "engine": ("--engine", "vllm"),
    "hit rate": ("--hit-rate", "50%"),
    "all of them": ("--technique", "chunked-prefill", "--kv", "fp8", "--engine", "sglang", "--hit-rate", "50%"),
}


def deployment(layout, way):
    model, degrees = LAYOUTS[layout]
    serve = rl.Deployment(model, HARDWARE, parallel=rl.Parallel(**degrees), engine=way.get("engine"))
    return rl.quantize(serve, kv=way["kv"]) if "kv" in way else serve


def techniques(way):
    """The techniques of a way to serve; prefixes of a plain hit rate differ from request to request."""
    chosen = way.get("techniques", ())
    chosen = [chosen] if isinstance(chosen, str) else list(chosen)
    return [*chosen, t.PrefixCaching(hit_rate=way["hit_rate"], shared=False)] if "hit_rate" in way else chosen


def row_of(table, layout):
    """The row of a plan that has a layout and the batch."""
    degrees = tuple(float(LAYOUTS[layout][1].get(name, 1)) for name in ("tensor", "pipeline", "expert", "data"))
    rows = zip(table.tensor, table.pipeline, table.expert, table.data, table.batch, strict=True)
    return list(rows).index((*degrees, float(BATCH)))


CASES = [("TP", way) for way in WAYS] + [
    ("PP", "as given"),
    *((layout, "all of them") for layout in ("PP", "EP", "DP")),
]


@pytest.mark.parametrize(("layout", "way"), CASES)
def test_every_function_has_the_same_figures(layout, way):
    given = WAYS[way]
    serve, chosen = deployment(layout, given), techniques(given)
    one = rl.apply(serve, LOAD, chosen).after
    figures = {name: metric.value(one) for name, metric in METRICS.items()}

    found = rl.plan(LAYOUTS[layout][0], HARDWARE, LOAD, accelerators=(8,), batches=[BATCH], **given)
    row = row_of(found, layout)
    for name in ("ttft_s", "tpot_s", "requests_per_s", "max_batch"):
        assert getattr(found, name)[row] == pytest.approx(figures[name], rel=1e-9), name
    assert found.tokens_per_s_per_gpu[row] * 8 == pytest.approx(figures["tokens_per_s"], rel=1e-9)
    assert found.prefill_share[row] == pytest.approx(one.prefill_share, rel=1e-9)
    assert {name: metric.value(found.steady_state(row)) for name, metric in METRICS.items()} == pytest.approx(figures)

    need = rl.fleet(found.take(np.array([row])), requests_per_s=100, method="closed-form")
    assert need.replicas[0] == np.ceil(100 / 0.7 / one.requests_per_s)

    own = {name: given[name] for name in ("techniques", "hit_rate") if name in given}
    advice = rl.advise(serve, [(1500, 300)], batches=(BATCH,), **own)
    for name in SLO_METRICS:
        assert advice.mean(name)[0] == pytest.approx(figures[name], rel=1e-9), name
    assert advice.prefill_share == pytest.approx(one.prefill_share, rel=1e-9)

    case = t.scenario_with(serve, LOAD, chosen)
    solved = rl.solve(case, find="memory_bytes_per_s", metric="tpot_s", target=figures["tpot_s"])
    assert solved.value == pytest.approx(serve.accelerator.memory_bytes_per_s, rel=1e-6)
    assert rl.sensitivity(case, metric="total_s").value == pytest.approx(figures["total_s"], rel=1e-9)


@pytest.mark.parametrize(("layout", "way"), [("TP", "all of them"), ("EP", "as given")])
def test_every_command_has_the_same_figures(layout, way):
    model, degrees = LAYOUTS[layout]
    serve, chosen = deployment(layout, WAYS[way]), techniques(WAYS[way])
    one = rl.apply(serve, LOAD, chosen).after
    short = {"tensor": "--tp", "pipeline": "--pp", "expert": "--ep", "data": "--dp"}
    placed = (model, "--hardware", HARDWARE, *(word for name, ways in degrees.items() for word in (short[name], ways)))
    lengths = ("--prompt", 1500, "--output", 300)
    options = OPTIONS[way]

    changed = ("--technique", "prefix-caching", "--shared", "no") if "hit_rate" in WAYS[way] else ()
    if chosen:
        after = answer("what-if", *placed, *lengths, "--batch", BATCH, *options, *changed)["after"]
        for name in ("ttft_s", "tpot_s", "total_s", "tokens_per_s", "max_batch"):
            assert after[name] == pytest.approx(getattr(one, name), rel=1e-9), name

    planned = (model, "--hardware", HARDWARE, "--gpus", 8, *lengths, *options)
    rows = list(csv.DictReader(io.StringIO(text("plan", *planned, "--no-pools", "--csv"))))
    (row,) = (row for row in rows if (row["layout"], row["batch"]) == (layout_words(degrees), str(BATCH)))
    for name in ("ttft_s", "tpot_s", "requests_per_s"):
        assert float(row[name]) == pytest.approx(getattr(one, name), rel=1e-9), name

    best = answer("fleet", *planned, "--rate", 100, "--method", "closed-form")["fleets"][0]
    asked = rl.Workload(1500, 300, batch=best["batch"])
    at_best = rl.apply(serve.replace(parallel=parallel_named(best["layout"])), asked, chosen).after
    assert best["replicas"] == np.ceil(100 / 0.7 / at_best.requests_per_s)

    advised = answer("advise", *placed, *lengths, "--loads", BATCH, *options)
    assert advised["prefill_share"] == pytest.approx(one.prefill_share, rel=1e-9)

    asked = (*placed, *lengths, "--batch", BATCH, *options)
    solved = answer("solve", *asked, "--find", "memory_bytes_per_s", "--metric", "tpot", "--target", repr(one.tpot_s))
    assert solved["value"] == pytest.approx(serve.accelerator.memory_bytes_per_s, rel=1e-6)
    found = answer("sensitivity", *asked, "--metric", "tpot")
    assert found["elasticity"] == pytest.approx(rl.sensitivity(one, metric="tpot_s").to_dict(), rel=1e-6)


def layout_words(degrees):
    short = {"tensor": "TP", "pipeline": "PP", "expert": "EP", "data": "DP"}
    return " ".join(f"{short[name]} {ways}" for name, ways in degrees.items())


def parallel_named(words):
    names = {"TP": "tensor", "PP": "pipeline", "EP": "expert", "DP": "data"}
    each = words.split()
    return rl.Parallel(**{names[name]: int(ways) for name, ways in zip(each[::2], each[1::2], strict=True)})


def test_questions_about_techniques_in_use_say_so():
    asked = ("llama-3.1-8b", "--hardware", "h100-sxm", "--technique", "speculative")
    shown = " ".join(text("solve", *asked, "--find", "batch", "--metric", "tpot", "--target", "20ms").split())
    assert "Techniques in use: speculative decoding (acceptance 0.7, drafts 4)" in shown
    shown = " ".join(text("sensitivity", *asked, "--metric", "tpot").split())
    assert shown.startswith("The time per output token of a request depends most on")
    assert "change in time per output token for +1 %" in shown


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("sensitivity", "--technique", "speculative"), "sensitivity to techniques in use needs a metric of requests"),
        (("sensitivity", "--metric", "tpot", "--context", "9"), "techniques and metrics are about whole requests"),
        (("sensitivity", "--metric", "speed"), "no metric named 'speed'"),
        (("solve", "--find", "batch", "--metric", "fits", "--hit-rate", "50%"), "metric 'fits' takes a deployment"),
    ],
)
def test_questions_that_make_no_sense_are_one_line(args, message):
    command, *options = args
    done = run(command, "llama-3.1-8b", "--hardware", "h100-sxm", *options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"roofline: {message}")
    assert done.stderr.count("\n") == 1


def test_a_scenario_has_its_own_workload():
    case = t.scenario_with(rl.Deployment("llama-3.1-8b", "h100-sxm"), LOAD, "speculative")
    with pytest.raises(rl.InvalidInput, match="a scenario has its own workload"):
        rl.solve(case, LOAD, find="batch", metric="tpot_s", target=0.02)
