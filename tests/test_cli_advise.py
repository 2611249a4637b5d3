"""`roofline advise` and `roofline what-if --technique` say what the library says."""

import json

import pytest
from command_line import answer, run, text

import roofline as rl
from roofline import techniques as t

SMALL = ("llama-3.1-8b", "--hardware", "h100-sxm")


@pytest.fixture
def small(h100):
    return rl.Deployment(rl.get_model("llama-3.1-8b"), h100)


def test_advise_is_the_library(small):
    options = ("--prompt", 3000, "--output", 100, "--loads", "1,16", "--ttft", 0.2, "--tpot", 0.02)
    found = answer("advise", *SMALL, *options, "--usd-per-hour", 2.5)
    expected = rl.advise(
        small,
        rl.Traffic.of([(3000, 100)]),
        rl.SLO(ttft_s=0.2, tpot_s=0.02),
        batches=(1, 16),
        usd_per_hour=2.5,
        time="estimate_s",
    )
    for name, value in expected.to_dict().items():
        assert found[name] == value, name


def test_advise_reads_a_log(small, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("prompt_tokens,output_tokens,share\n150,400,6\n8000,100,1\n")
    found = answer("advise", *SMALL, "--traffic", log, "--metric", "ttft_s", "--weights", "fp8")
    expected = rl.advise(rl.quantize(small, weights="fp8"), rl.read_traffic(log), metric="ttft_s", time="estimate_s")
    assert found["options"] == expected.to_dict()["options"]
    assert found["precision"]["weights"] == "fp8"


def test_advise_says_the_verdict_first():
    lines = text("advise", *SMALL, "--prompt", "150", "--output", "400").splitlines()
    assert lines[0].startswith("Decode first: ")
    assert lines[lines.index("") + 1] == "Llama 3.1 8B on NVIDIA H100 SXM5 80GB; time: estimate"


def test_advise_draws_the_map(tmp_path):
    picture = tmp_path / "map.png"
    text("advise", *SMALL, "-o", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_what_if_speculative_is_apply(small):
    found = answer("what-if", *SMALL, "--technique", "speculative", "--acceptance", 0.6, "--drafts", 3, "--batch", 4)
    expected = rl.apply(
        small, rl.Workload(batch=4), t.Speculation(acceptance=0.6, drafts=3), time="estimate_s"
    ).to_dict()
    assert {name: found[name] for name in expected} == expected


def test_what_if_applies_several_and_formats(small):
    names = ("--technique", "prefix-caching", "--technique", "mtp", "--technique", "kv-quantization")
    found = answer("what-if", *SMALL, *names, "--hit-rate", 0.25, "--to-weights", "fp8", "--to-kv", "int8")
    chosen = [
        t.PrefixCaching(hit_rate=0.25),
        t.MultiTokenPrediction(),
        t.Quantization(weights="fp8"),
        t.KVQuantization(kv="int8"),
    ]
    assert found["after"] == rl.apply(small, rl.Workload(), chosen, time="estimate_s").after.to_dict()


def test_what_if_shows_both_sides_and_why():
    shown = text("what-if", *SMALL, "--technique", "speculative", "--full")
    for words in (
        "several tokens for one read of the weights",
        "time per output token",
        "a new model",
        "1 - 0.7 ** (4",
    ):
        assert words in shown
    assert "baseline: multi-head attention" in text("what-if", *SMALL, "--technique", "gqa")


@pytest.mark.parametrize("name", sorted(t.REGISTRY))
def test_every_technique_can_be_named(name):
    for asked in (SMALL, SPREAD, SEEING):
        done = run("what-if", *asked, "--technique", name, "--json")
        if done.exit_code == 0:
            assert json.loads(done.stdout)["technique"] == t.REGISTRY[name].name
            return
        assert t.REGISTRY[name].name in done.stderr  # refused in one line, with the reason
    pytest.fail(f"no deployment can have {name}")


SPREAD = ("deepseek-v2-lite", "--hardware", "h100-sxm", "--tp", "4", "--ep", "4")
SEEING = ("qwen2.5-vl-3b", "--hardware", "h100-sxm")


@pytest.mark.parametrize(
    "args",
    [
        ("advise", "--help"),
        ("advise", *SMALL, "--ttft", "0.2", "--tpot", "0.02", "--usd-per-hour", "2.5"),
        ("what-if", *SMALL, "--technique", "speculative", "--technique", "prefix-caching", "--to-weights", "fp8"),
    ],
    ids=["help", "advise", "what-if"],
)
def test_text_keeps_to_80_columns(args):
    assert max(map(len, text(*args).splitlines())) <= 80


BAD_TECHNIQUES = [
    ("speculativ", (), "no technique named 'speculativ'; did you mean 'speculative'"),
    ("mtp", ("--hit-rate", "0.5"), "hit_rate is a parameter of prefix-caching"),
    ("mtp", ("--acceptance", "2"), "--acceptance must be a share from 0 to 1: 2"),
    ("mtp", ("--acceptance", "x"), "--acceptance must be a finite number >= 0: 'x'"),
    ("mtp", ("--technique", "speculative"), "MTP and speculative decoding both decide"),
    ("mtp", ("--to-batch", "4"), "--technique can be combined with --to-weights"),
    ("mtp", ("--context", "4"), "--technique is about whole batches"),
    ("gqa", ("--kv-heads", "5"), "query_heads must be a multiple of kv_heads"),
    ("sliding-window", ("--tokens", "0.5"), "--tokens must be an integer >= 1"),
]
BAD = [
    *((("what-if", *SMALL, "--technique", name, *more), message) for name, more, message in BAD_TECHNIQUES),
    (("what-if", *SMALL, "--hit-rate", "0.5"), "hit_rate is a parameter of prefix-caching"),
    (("advise", *SMALL, "--loads", "1,two"), "--loads must be an integer >= 1: 'two'"),
    (("advise", *SMALL, "--ttft", "-1"), "--ttft must be a finite number above 0"),
    (("advise", *SMALL, "--metric", "speed"), "no metric named 'speed'"),
    (("advise", *SMALL, "--traffic", "missing.csv"), "missing.csv can't be read"),
    (("advise", *SMALL, "-o", "map.gif"), "the file name of a plot must end in"),
]


@pytest.mark.parametrize(("args", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_one_line(args, message):
    done = run(*args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"roofline: {message}")
    assert done.stderr.count("\n") == 1


def test_advise_takes_what_is_in_use_already(small):
    found = answer("advise", *SMALL, "--hit-rate", "50%", "--technique", "speculative")
    mix = rl.Traffic.of([(rl.Workload.prompt_tokens, rl.Workload.output_tokens)])
    expected = rl.advise(small, mix, techniques=t.Speculation(), hit_rate=0.5, time="estimate_s")
    assert found["options"] == expected.to_dict()["options"]


def test_advise_starts_from_the_smallest_layout_that_fits():
    """141 GB of weights take two H100; the headline says so, and every figure is of two."""
    shown = " ".join(text("advise", "llama-3.1-70b", "--hardware", "h100-sxm").split())
    assert "Does not fit on one h100-sxm; this starts from TP 2, the smallest layout that fits." in shown
    one = rl.Deployment("llama-3.1-70b", "h100-sxm")
    two = one.replace(parallel=rl.Parallel(tensor=2))
    traffic = rl.Traffic.of([(1000, 100)])
    found, asked = (
        rl.advise(one, traffic, batches=(1, 4), time="roofline_s"),
        rl.advise(two, traffic, batches=(1, 4), time="roofline_s"),
    )
    assert found.serve == two
    assert found.prefill_share == asked.prefill_share
    assert (asked.start, found.assumptions[1:]) == ("", asked.assumptions)
    answer_of_one = answer("advise", "llama-3.1-70b", "--hardware", "h100-sxm", "--loads", "1,4")
    assert answer_of_one["parallel"]["tensor"] == 2


def test_a_layout_that_is_given_stays(small):
    wide = small.replace(model=rl.get_model("llama-3.1-70b"), parallel=rl.Parallel(pipeline=2))
    assert rl.advise(wide, [(1000, 100)], batches=(1,), time="roofline_s").serve == wide


def test_parameters_that_are_taken_for_granted_stand_in_the_table():
    shown = text("advise", *SMALL, "--prompt", "4000", "--output", "50", "--metric", "ttft")
    assert "prefix caching, hit rate 50%" in shown
    assert "prompt compression, 4x" in shown
