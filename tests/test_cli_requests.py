"""`roofline serve` and `roofline simulate` say what the library says, the answer first."""

import io
import re

import numpy as np
import pytest
from command_line import answer, run, text

import roofline as rl
from roofline.report import progress

SMALL = ("llama-3.1-8b", "--hardware", "h100-sxm", "--engine", "vllm")
LENGTHS = ("--prompt", "1500", "--output", "300")
LOAD = rl.Workload(1500, 300)


@pytest.fixture
def small(h100):
    return rl.Deployment(rl.get_model("llama-3.1-8b"), h100, engine="vllm")


def words(*args):
    return " ".join(text(*args).split())


def test_serve_is_the_library(small):
    found = answer("serve", *SMALL, *LENGTHS, "--concurrency", "1,8,64")
    expected = rl.serve(small, LOAD, concurrency=np.array([1, 8, 64])).to_dict()
    assert {name: found[name] for name in expected} == expected
    assert found["load"] == {"prompt_tokens": 1500, "output_tokens": 300}
    assert (found["model"], found["hardware"], found["engine"]) == ("llama-3.1-8b", "h100-sxm", "vllm")


def test_every_option_of_serve_reaches_the_library(small):
    options = ("--rate", "4", "--burstiness", "2", "--hit-rate", "50%", "--requests", "300", "--seed", "3")
    found = answer("serve", *SMALL, *LENGTHS, *options, "--time", "roofline")
    expected = rl.serve(
        small, LOAD, requests_per_s=4, burstiness=2, hit_rate=0.5, requests=300, seed=3, time="roofline_s"
    ).to_dict()
    assert {name: found[name] for name in expected} == expected
    closed = answer("serve", *SMALL, *LENGTHS, "--rate", "4", "--method", "closed-form")
    assert closed["method"] == "closed-form"


def test_serve_answers_first(small):
    found = rl.serve(small, LOAD, concurrency=8)
    shown = words("serve", *SMALL, *LENGTHS, "--concurrency", "8")
    assert shown.index(found.summary()) < shown.index("longest gap")
    ttft, low, high = (1e3 * each.ttft_s for each in (found, found.low, found.high))
    said = f"With 8 requests in the system: TTFT {ttft:.1f} ms [{low:.1f}-{high:.1f}], TPOT "
    assert found.summary().startswith(said)
    low, high = (f"{end.tpot_s * 1e3:.3g}" for end in (found.low, found.high))
    assert f"TPOT {found.tpot_s * 1e3:.3g} ms [{low}-{high}]" in shown


def test_serve_has_a_row_for_each_load(small):
    rows = [line.split() for line in text("serve", *SMALL, *LENGTHS, "--concurrency", "1,64").splitlines()]
    found = rl.serve(small, LOAD, concurrency=np.array([1, 64]))
    for at, asked in enumerate(("1", "64")):
        [row] = [row for row in rows if row[:1] == [asked]]
        assert f"{found.tokens_per_s[at]:,.0f}" in row
        assert f"{found.utilization[at]:.0%}" in row


def test_several_rates_answer_first_up_to_which_the_targets_are_met(small):
    """The shares are counted over the requests of one simulation for each rate."""
    rates, target_s = np.array([2.0, 8.0, 4.0]), 0.0085
    options = ("--rate", "2,8,4", "--requests", "300", "--tpot", "8.5ms")
    shares = []
    for rate in rates:
        run = rl.simulate(small, LOAD, requests_per_s=rate, requests=300)
        shares.append(np.mean([run.quantile("tpot_s", (at + 0.5) / 300) <= target_s for at in range(300)]))
    met = [rate for rate, share in zip(rates, shares, strict=True) if share >= 0.95]
    assert met == [2.0]
    shown = words("serve", *SMALL, *LENGTHS, *options)
    assert shown.startswith("At least 95% of the requests meet the SLO (TPOT 8.5 ms) at up to 2 requests/s. Highest")
    assert "simulations of 300 requests each, open loop, 2 … 4 requests/s, burstiness 1, seed 0" in shown
    never = words("serve", *SMALL, *LENGTHS, *options[:4], "--tpot", "1ms")
    assert never.startswith("Less than 95% of the requests meet the SLO (TPOT 1 ms) even at the lowest load.")


def test_json_has_the_interval_of_the_means(small):
    for command, function in (("serve", rl.serve), ("simulate", rl.simulate)):
        found = answer(command, *SMALL, *LENGTHS, "--rate", "4", "--requests", "100")
        expected = function(small, LOAD, requests_per_s=4, requests=100)
        assert found["interval"]["tpot_s"] == [expected.low.tpot_s, expected.high.tpot_s]
        assert found["interval"]["ttft_s"][0] < found["ttft_s"] < found["interval"]["ttft_s"][1]
    assert "interval" not in answer("serve", *SMALL, *LENGTHS, "--concurrency", "8", "--time", "floor")
    listed = answer("serve", *SMALL, *LENGTHS, "--concurrency", "8,16")["interval"]["tpot_s"]
    both = rl.serve(small, LOAD, concurrency=[8, 16])
    assert listed == [list(both.low.tpot_s), list(both.high.tpot_s)]


def test_a_rate_above_capacity_is_an_answer():
    shown = words("serve", *SMALL, *LENGTHS, "--rate", "1k", "--requests", "200")
    assert "At 1000 requests/s: unstable, the queue grows without bound" in shown
    assert "TTFT overload" in shown
    assert "p99" not in shown, "the percentiles of a queue that grows are those of the length of the run"
    listed = words("serve", *SMALL, *LENGTHS, "--rate", "1,1000", "--method", "closed-form")
    assert "1 of 2 loads is sustainable; the capacity is" in listed
    both = words("serve", *SMALL, *LENGTHS, "--rate", "1000,2000", "--method", "closed-form")
    assert "None of the 2 loads is sustainable" in both


def test_traffic_and_traces_come_from_files(small, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("prompt_tokens,output_tokens,share\n150,400,6\n8000,100,1\n")
    found = answer("serve", *SMALL, "--traffic", log, "--concurrency", "4")
    assert found["tokens_per_s"] == rl.serve(small, rl.read_traffic(log), concurrency=4).tokens_per_s
    trace = tmp_path / "trace.csv"
    trace.write_text(
        "arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{at / 2},500,{20 + at}\n" for at in range(40))
    )
    replayed = answer("simulate", *SMALL, "--trace", trace)
    expected = rl.simulate(small, rl.read_trace(trace)).to_dict()
    assert {name: replayed[name] for name in expected} == expected


def test_simulate_is_the_library(small):
    options = ("--rate", "6", "--requests", "400", "--seed", "5")
    found = answer("simulate", *SMALL, *LENGTHS, *options, "--ttft", "80ms", "--tpot", "9ms")
    expected = rl.simulate(small, LOAD, requests_per_s=6, requests=400, seed=5)
    assert {name: found[name] for name in expected.to_dict()} == expected.to_dict()
    assert found["quantiles"]["0.99"]["ttft_s"] == expected.quantile("ttft_s", 0.99)
    each = expected.requests_frame()
    met = (each["ttft_s"] <= 0.08) & (each["tpot_s"] <= 0.009)
    assert 0 < found["share_within_slo"] == met.mean() < 1
    shown = words("simulate", *SMALL, *LENGTHS, *options, "--ttft", "80ms", "--tpot", "9ms")
    assert f"{met.mean():.1%} of the requests meet the SLO (TTFT 80 ms, TPOT 9 ms)" in shown
    assert expected.summary() in shown


def test_requests_of_one_token_have_no_tpot(small):
    found = rl.simulate(small, rl.Workload(500, 1), concurrency=2)
    assert found.share_within(rl.SLO(tpot_s=1e-9)) == 1
    assert "TPOT" not in found.summary()
    shown = text("simulate", *SMALL, "--prompt", "500", "--output", "1", "--concurrency", "2")
    assert "TPOT" not in shown
    assert "longest gap" not in shown


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("serve", *SMALL), "serve needs a load: --concurrency N (closed loop) or --rate N"),
        (("serve", *SMALL, "--rate", "1", "--concurrency", "1"), "give either --concurrency"),
        (("serve", *SMALL, "--rate", "fast"), "--rate must be a finite number above 0"),
        (("serve", *SMALL, "--rate", "1,fast"), "--rate must be a finite number above 0"),
        (("serve", *SMALL, "--rate", "1", "--method", "guess"), "no method named 'guess'"),
        (
            ("serve", *SMALL, "--traffic", "x.csv", "--prompt", "1", "--rate", "1"),
            "--traffic already says what requests consist of; drop --prompt",
        ),
        (("serve", "llama-3.1-70b", "--hardware", "h100-sxm", "--rate", "1"), "the weights leave no memory"),
        (("simulate", *SMALL), "simulate needs a load: --concurrency N, --rate N"),
        (("simulate", *SMALL, "--traffic", "log.csv"), "or --trace log.csv, if the file has arrival times"),
        (("simulate", *SMALL, "--rate", "1,2"), "simulate takes one --rate at a time"),
        (
            ("simulate", *SMALL, "--trace", "x.csv", "--prompt", "1"),
            "--trace already says what requests consist of; drop --prompt",
        ),
        (("simulate", *SMALL, "--trace", "missing.csv"), "missing.csv can't be read"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_line(args, says):
    done = run(*args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "args",
    [
        ("serve", "--help"),
        ("simulate", "--help"),
        ("serve", *SMALL, "--concurrency", "1,8,64,512"),
        ("serve", *SMALL, "--rate", "4", "--requests", "200"),
        ("serve", *SMALL, "--rate", "4,400", "--requests", "200", "--ttft", "100ms"),
        ("simulate", *SMALL, "--rate", "4", "--requests", "200", "--ttft", "1s", "--tpot", "50ms"),
    ],
    ids=" ".join,
)
def test_text_keeps_to_80_columns(args):
    assert max(map(len, text(*args).splitlines())) <= 80


def test_a_long_simulation_shows_its_progress(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(progress, "PATIENCE_S", -1.0)
    tell = progress.reporter()
    tell(600, 1200)
    tell(1200, 1200)
    assert terminal.getvalue().split("\r")[:2] == [f"[{'#' * 12}{'.' * 12}] 600 of 1,200", " " * 40]


def test_serve_shows_the_share_of_requests_that_meet_an_slo(small):
    options = (*LENGTHS, "--requests", "400", "--ttft", "100ms")
    slo = rl.SLO(ttft_s=0.1)
    shares = rl.serve(small, LOAD, requests_per_s=np.array([2, 13, 200]), requests=400).share_within(slo)
    many = (*options, "--rate", "2,13,200")  # 13 is below the capacity of 13.2, and above it at the end of the interval
    assert answer("serve", *SMALL, *many)["share_within_slo"] == pytest.approx(list(shares))
    shown = text("serve", *SMALL, *many)
    rows = [line.split() for line in shown.splitlines()]
    rows = [row for row in rows if row[:1] in (["2"], ["13"], ["200"])]
    assert [row[-2] for row in rows] == [f"{share:.0%}" for share in shares]
    assert "of the requests meet the SLO (TTFT 100 ms)" in words("serve", *SMALL, *options, "--rate", "2")


@pytest.mark.parametrize(
    ("target", "verdict"), [(10, "meets its target of 10"), (10**6, "misses its target of 1,000,000")]
)
def test_a_throughput_target_is_one_of_the_deployment(target, verdict):
    """No share of the requests meets it, and the means of a closed form are enough."""
    asked = ("serve", *SMALL, *LENGTHS, "--concurrency", "8", "--tokens-per-s", target)
    assert f"The throughput {verdict} tokens/s." in words(*asked)
    assert "of the requests meet" not in words(*asked)
    assert answer(*asked)["slo"] == {"tokens_per_s": target}


def test_a_closed_form_does_not_tell_which_requests_meet_an_slo():
    done = run("serve", *SMALL, "--concurrency", "8", "--ttft", "60ms")
    assert done.exit_code == 2
    assert "add --method simulation" in done.stderr


def test_lengths_may_be_spread(small):
    found = answer("simulate", *SMALL, *LENGTHS, "--concurrency", "8", "--spread", "20%", "--requests", "80")
    drawn = rl.Traffic.around(LOAD, 0.2)
    expected = rl.simulate(small, drawn, concurrency=8, requests=80)
    assert (found["ttft_s"], found["tpot_s"]) == (expected.ttft_s, expected.tpot_s)
    shown = words("serve", *SMALL, *LENGTHS, "--concurrency", "8", "--spread", "0.2")
    assert "requests of 1,500 + 300 tokens, each within 20%" in shown
    assert "drop --spread" in run("simulate", *SMALL, "--trace", "none.csv", "--spread", "0.2").stderr


def bracketed(shown):
    """Intervals in the order in which they are printed, in ms."""
    return [tuple(map(float, ends)) for ends in re.findall(r"\[([\d.]+)-([\d.]+)\]", shown)]


@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize(
    "load", [("--concurrency", "1,8,64"), ("--rate", "2,4", "--requests", "200", "--ttft", "90ms")], ids=" ".join
)
def test_rows_of_loads_have_the_intervals_of_the_json(columns, load):
    asked = ("serve", *SMALL, *LENGTHS, *load)
    shown = text(*asked, columns=columns)
    assert max(map(len, shown.splitlines())) <= columns
    ends = answer(*asked)["interval"]
    scales = {"ttft_s": 1e3, "tpot_s": 1e3, "total_s": 1.0}
    expected = [
        tuple(float(f"{end[at] * scale:.3g}") for end in ends[name])
        for at in range(len(ends["ttft_s"][0]))
        for name, scale in scales.items()
    ]
    assert bracketed(shown.partition("Notes")[0]) == expected
    assert "in brackets: the means at both ends" in " ".join(shown.split())


def test_a_row_of_a_list_is_the_answer_about_that_load(small):
    several = rl.serve(small, LOAD, concurrency=[1, 8, 64])
    for at, clients in enumerate((1, 8, 64)):
        alone = rl.serve(small, LOAD, concurrency=clients)
        for end in ("low", "high"):
            for name in ("ttft_s", "tpot_s", "total_s", "tokens_per_s"):
                of_list, of_one = getattr(getattr(several, end), name)[at], getattr(getattr(alone, end), name)
                assert of_list == pytest.approx(of_one, rel=1e-9), (end, name, clients)


def test_the_floor_and_the_roofline_have_no_interval():
    asked = ("serve", *SMALL, *LENGTHS, "--concurrency", "1,8", "--time", "floor")
    assert "interval" not in answer(*asked)
    assert not bracketed(text(*asked))


def test_simulate_prints_the_intervals_of_its_json():
    asked = ("simulate", *SMALL, *LENGTHS, "--rate", "2", "--requests", "200")
    found = answer(*asked)["interval"]
    expected = [tuple(float(f"{1e3 * end:.3g}") for end in found[name]) for name in ("ttft_s", "tpot_s")]
    assert bracketed(text(*asked))[:2] == expected


def test_an_end_without_bound_fits_in_a_row(small):
    """Just below the capacity, the queue grows without bound at the upper end of the interval."""
    capacity = float(rl.serve(small, LOAD, concurrency=8).capacity_requests_per_s)
    shown = text("serve", *SMALL, *LENGTHS, "--rate", f"1,{0.97 * capacity:.3f}", "--requests", "200", "--ttft", "1s")
    assert "-∞]" in shown
    assert "∞: the queue grows without bound" in " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 80
