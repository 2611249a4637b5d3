"""A number is the same in the sentence, the table, JSON, CSV, a frame, a dataset and the library."""

import csv
import io

import pytest
from command_line import answer, text

import roofline as rl
from roofline.units import brief_time, humanize

MODEL, GPU = "llama-3.1-8b", "h100-sxm"
ASKED = (MODEL, "--hardware", GPU, "--batch", "8", "--prompt", "1000", "--output", "100")
SERVE, LOAD = rl.Deployment(MODEL, GPU), rl.Workload(1000, 100, 8)
TIMES = ("floor_s", "roofline_s", "estimate_s")


def words(*args, columns=120):
    return " ".join(text(*args, columns=columns).split())


def test_passes_and_memory_of_analyze():
    found, shown = answer("analyze", *ASKED), words("analyze", *ASKED)
    passes = {"prefill": rl.prefill(SERVE, LOAD), "decode": rl.decode(SERVE, LOAD)}
    for name, phase in passes.items():
        frame, dataset = phase.to_frame(), phase.to_xarray()
        for time in TIMES:
            value = float(getattr(phase, time))
            assert found[name][time] == phase.to_dict()[time] == frame[time][0] == float(dataset[time]) == value
            assert brief_time(value) in shown
        assert phase.summary() in shown
    need = rl.memory(SERVE, LOAD)
    assert found["memory"]["max_batch"] == need.max_batch == need.to_frame()["max_batch"][0]
    assert f"largest batch {need.max_batch:,}" in shown
    assert need.summary() in shown
    assert humanize("bytes", need.weights_bytes) in shown
    for time in TIMES:
        whole = rl.generate(SERVE, LOAD, time=time)
        assert found["generate"][time]["total_s"] == whole.total_s == whole.to_frame()["total_s"][0]
        assert brief_time(whole.total_s) in shown
        assert f"{whole.tokens_per_s:,.0f}" in shown


def test_a_list_of_points_is_the_array_of_the_library():
    swept = (*ASKED[:4], "1,8,64", *ASKED[5:])
    rows, shown = answer("analyze", *swept), words("analyze", *swept)
    step = rl.decode(SERVE, rl.Workload(1000, 100, batch=[1, 8, 64]))
    dataset = step.to_xarray()
    for at, (row, batch) in enumerate(zip(rows, (1, 8, 64), strict=True)):
        assert row["workload"]["batch"] == batch
        assert row["decode"]["estimate_s"] == pytest.approx(step.estimate_s[at], rel=1e-12)
        assert float(dataset.estimate_s.sel(batch=batch)) == step.estimate_s[at]
        assert brief_time(float(step.estimate_s[at])).split(" ")[0] in shown


def test_servers_under_load():
    asked = (MODEL, "--hardware", GPU, "--engine", "vllm", "--concurrency", "8", "--prompt", "1000", "--output", "100")
    found, shown = answer("serve", *asked), words("serve", *asked)
    users = rl.serve(SERVE.replace(engine="vllm"), rl.Workload(1000, 100), concurrency=8)
    for name in ("ttft_s", "tpot_s", "total_s", "tokens_per_s"):
        assert found[name] == users.to_dict()[name] == users.to_frame()[name][0] == float(getattr(users, name))
    assert users.summary() in shown


def test_a_plan_and_its_files():
    asked = (MODEL, "--hardware", "h100-sxm,l4", "--gpus", "1,2", "--tpot", "50ms", "--prices", "h100-sxm=2.5,l4=0.8")
    asked += ("--prompt", "1500", "--output", "300", "--no-pools")
    found, shown = answer("plan", *asked), words("plan", *asked)
    plan = rl.plan(
        MODEL,
        ["h100-sxm", "l4"],
        rl.Workload(1500, 300),
        slo=rl.SLO(tpot_s=0.05),
        accelerators=(1, 2),
        prices={"h100-sxm": 2.5, "l4": 0.8},
    )
    best, table = plan.rows()[0], list(csv.DictReader(io.StringIO(text("plan", *asked, "--csv"))))
    frame = plan.to_frame()
    for name in ("ttft_s", "tpot_s", "tokens_per_s_per_gpu", "usd_per_million_output_tokens", "batch"):
        assert found["best"][name] == pytest.approx(best[name], rel=1e-12)
        assert float(table[0][name]) == pytest.approx(best[name], rel=1e-12)
        assert frame[name].iloc[0] == pytest.approx(best[name], rel=1e-12)
    assert f"{best['tokens_per_s_per_gpu']:,.0f} tokens/s per accelerator" in shown
    assert plan.summary() in shown


def test_a_what_if():
    asked = (*ASKED, "--to-weights", "fp8", "--to-activations", "fp8")
    found, shown = answer("what-if", *asked), words("what-if", *asked)
    faster = rl.quantize(SERVE, weights="fp8", activations="fp8")
    before, after = rl.decode(SERVE, LOAD), rl.decode(faster, LOAD)
    both = found["decode"]
    assert (both["before"]["estimate_s"], both["after"]["estimate_s"]) == (before.estimate_s, after.estimate_s)
    ratio = rl.compare(before, after).ratio["estimate_s"]
    assert both["ratio"]["estimate_s"] == ratio == pytest.approx(after.estimate_s / before.estimate_s)
    assert rl.compare(before, after).summary() in shown
