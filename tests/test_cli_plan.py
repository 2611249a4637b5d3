"""Plans and fleets on the command line are the library's, in JSON, CSV and text."""

import csv
import io
import json

import pytest
from command_line import answer, run, text

import roofline as rl
from roofline import techniques as t
from roofline.capacity.launch import launch_command
from roofline.report import progress

ASKED = ("llama-3.1-8b", "--hardware", "h100-sxm,l4", "--prompt", 1500, "--output", 300, "--ttft", 0.5, "--tpot", 0.03)
PRICED = ("--prices", "h100-sxm=2.5,l4")


@pytest.fixture(scope="module")
def plan():
    prices = {"h100-sxm": 2.5, "l4": rl.get_price("l4")}
    slo = rl.SLO(ttft_s=0.5, tpot_s=0.03)
    return rl.plan("llama-3.1-8b", ["h100-sxm", "l4"], rl.Workload(1500, 300), slo=slo, prices=prices)


def test_plan_in_json_is_the_library(plan):
    found = json.loads(text("plan", *ASKED, *PRICED, "--json"))
    assert found["best"] == plan.best.rows()[0]
    assert found["by_accelerator"] == plan.by_accelerator.rows()
    assert found["frontier"] == plan.frontier.rows()
    assert (found["candidates"], found["feasible"]) == (len(plan), int(plan.feasible.sum()))
    assert found["slo"] == {"ttft_s": 0.5, "tpot_s": 0.03}


def test_pools_stand_beside_the_plan(plan):
    pools = rl.disaggregate(plan)
    found = json.loads(text("plan", *ASKED, *PRICED, "--json"))["disaggregated"]
    assert found["best"] == pools.best.rows()[0]
    assert found["by_accelerator"] == pools.rows()
    shown = text("plan", *ASKED, *PRICED)
    assert "Aggregated and disaggregated side by side" in shown
    assert pools.summary() in " ".join(shown.split())
    assert "side by side" not in text("plan", *ASKED, *PRICED, "--no-pools")
    assert "disaggregated" not in json.loads(text("plan", *ASKED, *PRICED, "--no-pools", "--json"))


def test_workers_of_pools_have_launch_commands_of_their_own(plan):
    group = rl.disaggregate(plan).groups[0]
    decode = launch_command(group.decode, rl.Workload(1500, 300, batch=8), engine="sglang", pool="decode")
    assert decode.endswith("--disaggregation-mode decode")
    prefill = launch_command(group.prefill, rl.Workload(1500, 300), engine="vllm", pool="prefill")
    assert """--kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'""" in prefill
    shown = text("plan", *ASKED, "--full")
    assert "Launch a prefill worker" in shown
    assert "--disaggregation-mode decode" in shown


def test_where_nothing_fits_there_is_no_comparison():
    shown = text("plan", "llama-3.1-405b", "--hardware", "l4", "--gpus", 1)
    assert shown.startswith("No candidate fits")
    assert "side by side" not in shown


def test_the_link_between_pools_can_be_given():
    asked = ("plan", "llama-3.1-8b", "--hardware", "apple-m4", "--gpus", 1, "--prompt", 500, "--output", 50)
    assert "No separate pools for prefill and decode" in " ".join(text(*asked).split())
    found = json.loads(text(*asked, "--pool-link", "1GB/s", "--json"))["disaggregated"]["best"]
    # 500 tokens of 131,072 B of cache cross a link of 1e9 B/s
    assert found["handover_s"] == pytest.approx(500 * 131_072 / 1e9)


def test_pools_with_a_technique_that_meets_prompts_otherwise_are_left_out():
    words = " ".join(text("plan", *ASKED, "--technique", "chunked-prefill").split())
    assert "No separate pools for prefill and decode: chunked prefill and disaggregated prefill both decide" in words


@pytest.mark.parametrize("spelling", ["closed-form", "closed form", "Closed_Form"])
@pytest.mark.parametrize("command", ["plan", "serve"])
def test_the_method_has_one_name_in_every_command(command, spelling):
    asked = {
        "plan": (*ASKED, "--rate", 5, "--no-pools", "--json", "--method", spelling),
        "serve": ("llama-3.1-8b", "--hardware", "h100-sxm", "--rate", 5, "--json", "--method", spelling),
    }
    found = json.loads(text(command, *asked[command]))
    assert (found["method"] if command == "serve" else found["best"]["queue"]) == "closed-form"


def test_fleet_in_json_is_the_library(plan):
    found = json.loads(
        text("fleet", *ASKED, *PRICED, "--rate", 100, "--utilization", 0.8, "--method", "closed-form", "--json")
    )
    assert found["fleets"] == rl.fleet(plan, requests_per_s=100, utilization=0.8, method="closed-form").rows()
    assert found["requests_per_s"] == 100


def test_csv_has_every_row(plan):
    rows = list(csv.DictReader(io.StringIO(text("plan", *ASKED, *PRICED, "--csv"))))
    assert len(rows) == len(plan)
    assert float(rows[0]["tpot_s"]) == plan.tpot_s[0]
    assert rows[-1]["reason"] == plan.reason[-1]


def test_text_says_what_was_asked_what_is_cheapest_and_what_fails(plan):
    shown = text("plan", *ASKED, *PRICED)
    assert "prompt 1,500, output 300 tokens" in shown
    words = " ".join(shown.split())
    assert "SLO: TTFT 500 ms, TPOT 30 ms; time: estimate" in words
    assert plan.summary() in words
    assert "Throughput and cost" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    tight = text("plan", *ASKED[:-1], 0.001)
    assert "Rejected (closest candidate of each kind)" in tight
    assert "target 1 ms" in tight


def test_fleet_in_text_has_both_ends():
    shown = text("fleet", *ASKED, *PRICED, "--rate", 20, "--gpus", 1)
    assert "20 requests/s" in shown
    assert "GPUs  floor" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_a_plan_is_drawn(tmp_path):
    file = tmp_path / "plan.svg"
    text("plan", *ASKED, "-o", file)
    assert b"tokens/s" in file.read_bytes() or file.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("plan", "llama-3.1-8b", "--hardware", "h101"), "no accelerator named 'h101'"),
        (("plan", *ASKED, "--gpus", "1,x"), "--gpus must be an integer >= 1"),
        (
            ("plan", *ASKED, "--prices", "l4=cheap"),
            "--prices takes USD per accelerator-hour, such as l4=2.5: 'l4=cheap'",
        ),
        (("plan", *ASKED, "--prices", "a100-sxm-80gb=1"), "no accelerator of this plan named"),
        (("plan", *ASKED, "--precisions", "fp9"), "no number format named 'fp9'"),
        (("plan", *ASKED, "--time", "best"), "no time named 'best'"),
        (("fleet", *ASKED, "--rate", 0), "--rate must be a finite number above 0"),
        (("fleet", *ASKED, "--rate", 1, "--utilization", 2), "utilization must be from 0.001 to 1: 2"),
    ],
)
def test_bad_input_is_one_line(args, says):
    done = run(*args)
    assert done.exit_code == 2
    assert done.stderr.startswith("roofline: ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_search_that_takes_longer_shows_its_progress(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(progress, "PATIENCE_S", -1.0)
    assert list(progress.patient([1, 2])) == [1, 2]
    shown = terminal.getvalue().split("\r")
    assert shown[:2] == [f"[{'.' * 24}] 0 of 2", f"[{'#' * 12}{'.' * 12}] 1 of 2"]


def test_hardware_may_be_repeated_or_listed():
    lengths = ("--prompt", 100, "--output", 20, "--gpus", 1, "--json")
    listed = text("plan", "llama-3.1-8b", "--hardware", "h100-sxm,l4", *lengths)
    assert text("plan", "llama-3.1-8b", "--hardware", "h100-sxm", "--hardware", "l4", *lengths) == listed


def test_targets_that_can_hardly_be_meant_are_pointed_out():
    done = run("plan", "llama-3.1-8b", "--hardware", "l4", "--gpus", 1, "--ttft", 1000, "--json")
    assert done.exit_code == 0
    assert done.stderr == (
        "roofline: note: the TTFT target of 1,000 s is unusually long; write 1000ms for milliseconds\n"
    )
    assert json.loads(done.stdout)["slo"] == {"ttft_s": 1000}


@pytest.mark.parametrize(
    ("typed", "plain"),
    [
        (("--ttft", "500ms", "--tpot", "30ms"), ("--ttft", 0.5, "--tpot", 0.03)),
        (("--ttft", "1s"), ("--ttft", 1)),
        (("--prices", "l4=$0.8"), ("--prices", "l4=0.8")),
        (("--time", "floor"), ("--time", "floor_s")),
        (("--hardware", "2xl4"), ("--hardware", "l4", "--gpus", 2)),
        (("--gpus", "1,2"), ("--gpus", "1", "--gpus", "2")),
    ],
    ids=str,
)
def test_what_people_type(typed, plain):
    def found(options):
        hardware = () if "--hardware" in options else ("--hardware", "l4")
        plan = json.loads(text("plan", "llama-3.1-8b", *hardware, *options, "--json"))
        plan["assumptions"] = [note for note in plan["assumptions"] if "accelerators are tried, as typed" not in note]
        return plan

    if "--gpus" in typed:
        assert "--gpus is given twice" in run("plan", "llama-3.1-8b", "--hardware", "l4", *plain).stderr
    else:
        assert found(typed) == found(plain)


def test_the_winner_has_a_launch_command(plan):
    shown = text("plan", *ASKED, *PRICED)
    assert launch_command(plan.best.deployment(), plan.best.workload()).split(" --")[0] in shown
    assert "python -m sglang.launch_server" in shown
    assert "trtllm-serve" in shown


def test_full_adds_throughput_and_cost():
    assert "$/M out" in text("plan", *ASKED, *PRICED, "--full")


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        (("--kv", "fp8", "--engine", "vLLM"), {"kv": "fp8", "engine": "vllm"}),
        (("--hit-rate", "50%"), {"hit_rate": 0.5}),
        (("--technique", "prefix-caching", "--hit-rate", "50%"), {"techniques": t.PrefixCaching(hit_rate=0.5)}),
        (("--technique", "speculative", "--acceptance", "60%"), {"techniques": t.Speculation(acceptance=0.6)}),
    ],
    ids=str,
)
def test_formats_engine_and_techniques_reach_the_library(options, asked):
    lengths = ("--prompt", 1500, "--output", 300, "--gpus", 1)
    found = json.loads(text("plan", "llama-3.1-8b", "--hardware", "h100-sxm", *lengths, *options, "--json"))
    expected = rl.plan("llama-3.1-8b", ["h100-sxm"], rl.Workload(1500, 300), accelerators=[1], **asked)
    assert found["best"] == expected.best.rows()[0]


def test_a_plan_at_a_rate_says_what_it_takes_in_all(tmp_path):
    asked = ("llama-3.1-8b", "--hardware", "h100-sxm", "--gpus", 1, "--ttft", 0.5, "--prices", "h100-sxm=2.5")
    lengths = ("--prompt", 1500, "--output", 300)
    shown = text("plan", *asked, *lengths, "--rate", 60, "--statistic", "p99")
    words = " ".join(shown.split())
    assert "60 requests/s need" in words
    assert "At p99" in words
    assert "by the estimate and a simulation of the queue" in words
    assert "per month" in words
    assert max(map(len, shown.splitlines())) <= 80
    trace = tmp_path / "trace.csv"
    rows = [f"{at / 60},1500,300" for at in range(600)]
    trace.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *rows]))
    found = json.loads(text("plan", *asked, "--traffic", trace, "--json"))
    assert found["requests_per_s"] == pytest.approx(60)
    assert found["workload"] == {"prompt_tokens": 1500, "output_tokens": 300}
    assert found["best"]["queue"] == "simulation"
    done = run("plan", *asked, *lengths, "--traffic", trace)
    assert "--traffic already says what requests consist of; drop --prompt and --output" in done.stderr
    assert "fleet needs a request rate" in run("fleet", *asked, *lengths).stderr


def test_uncalibrated_accelerators_are_ranked_apart_unless_allowed():
    asked = ("plan", "llama-3.1-8b", "--hardware", "mi300x,h100-sxm", "--gpus", 1, "--prices", "h100-sxm=2.5,mi300x=1")
    names = [
        json.loads(text(*asked, *more, "--json"))["best"]["accelerator"] for more in ((), ("--allow-uncalibrated",))
    ]
    assert names == ["h100-sxm", "mi300x"]
    shown = " ".join(text(*asked, "--allow-uncalibrated").split())
    assert "mi300x has no timings of some kernels: their estimates are typical shares of the peaks" in shown
    assert "--time estimate_high" not in run(*asked, "--time", "estimate_high").stderr


def test_a_plan_that_nothing_meets_is_json_too():
    """No L4 computes 2,000 tokens in a millisecond: their products alone are 32 TFLOP, 0.26 s at 121 TFLOP/s."""
    found = json.loads(text("plan", "llama-3.1-8b", "--hardware", "l4", "--ttft", "1ms", "--json"))
    assert (found["feasible"], found["best"]) == (0, None)
    assert {each["accelerator"] for each in found["by_accelerator"]} == {"l4"}


def test_a_price_that_is_not_known_does_not_abort():
    """p40 is in no price list: it is ranked behind the others, and a note says how to give a price."""
    found = answer("plan", "llama-3.2-1b", "--hardware", "l4,p40", "--prices", "l4,p40", "--gpus", "1")
    assert any("no price of p40 is known" in note and "p40=2.5" in note for note in found["assumptions"])
    assert found["best"]["accelerator"] == "l4"
    done = run("plan", "llama-3.2-1b", "--hardware", "p40", "--prices", "p40", "--gpus", "1")
    assert done.exit_code == 2
    assert "no price of p40 is known; give one" in done.stderr


def test_a_number_of_accelerators_is_said_to_be_the_only_one_tried():
    asked = ("plan", "llama-3.1-8b", "--hardware", "8xh100-sxm", "--rate", 5, "--tpot", "40ms")
    note = "only deployments of 8 accelerators are tried, as typed; --gpus 1,2,4,8 tries smaller ones"
    assert note in " ".join(text(*asked).split())
    assert note in json.loads(text(*asked, "--json"))["assumptions"]
    assert "as typed" not in text(*asked, "--gpus", "1,8")
