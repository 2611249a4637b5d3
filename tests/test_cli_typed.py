"""What people type: units, counts, names and lists in the spellings that come to mind; and what is said first."""

import pytest
from command_line import answer, run, text

import roofline as rl
from roofline.cli.app import COMMANDS, LISTS
from roofline.cli.plot_kinds import PLOTS
from roofline.cli.quantities import quantities, quantity

SMALL = ("llama-3.1-8b", "--hardware", "h100")


@pytest.mark.parametrize(
    ("typed", "unit", "number"),
    [
        ("32k", "tokens", 32_000),
        ("128K", "tokens", 128_000),
        ("1M", "tokens", 1_000_000),
        ("1m", "tokens", 1_000_000),
        ("32ki", "tokens", 32_768),
        ("500ms", "s", 0.5),
        ("1s", "s", 1),
        ("2 min", "s", 120),
        ("70%", "count", 0.7),
        ("$2.5", "usd_per_hour", 2.5),
        ("600/min", "requests_per_s", 10),
        ("36k/day", "requests_per_s", 36_000 / 86_400),
        ("10 rps", "requests_per_s", 10),
        ("3 req/s", "requests_per_s", 3),
    ],
)
def test_numbers_take_their_units(typed, unit, number):
    assert quantity(typed, unit) == pytest.approx(number, rel=1e-12)


@pytest.mark.parametrize("typed", ["8xh100", "h100:8", "8 h100", "8 x H100", "h100x8"])
def test_a_number_of_accelerators_is_typed_in_many_ways(typed):
    assert answer("analyze", "llama-3.1-70b", "--hardware", typed)["parallel"]["tensor"] == 8


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("131,072", "131,072 is read as a list: write 131072 for one number"),
        ("1-64", "'1-64' looks like a range; list the values instead, as in 1,64"),
        ("1..64", "looks like a range"),
    ],
)
def test_what_is_read_otherwise_than_meant_is_pointed_out(typed, said):
    with pytest.raises(rl.InvalidInput, match=said.replace(".", r"\.")):
        quantities(typed)
    assert said in run("analyze", *SMALL, "--context", typed).stderr
    assert quantities("8,192") == (8, 192)  # a list that nothing tells from a number


@pytest.mark.parametrize(
    ("typed", "engine"),
    [
        ("vLLM", "vllm"),
        ("TensorRT-LLM", "trtllm"),
        ("trt-llm", "trtllm"),
        ("llama.cpp", "llamacpp"),
        ("hf", "transformers"),
    ],
)
def test_an_engine_is_found_by_what_people_call_it(typed, engine):
    assert rl.Engine(typed).name == engine
    assert answer("analyze", *SMALL, "--engine", typed)["engine"] == engine


def test_case_and_separators_of_choices_do_not_matter():
    assert answer("analyze", *SMALL, "--time", "Floor")["decode"]
    assert answer("advise", *SMALL, "--metric", "TTFT")["metric"] == "ttft_s"
    assert answer("advise", *SMALL, "--metric", "latency")["metric"] == "total_s"
    asked = (
        "plan",
        *SMALL,
        "--gpus",
        1,
        "--rate",
        "120/min",
        "--tpot",
        "50ms",
        "--no-pools",
        "--method",
        "closed-form",
    )
    found = answer(*asked, "--rank", "Cost", "--statistic", "P99")
    assert (found["requests_per_s"], found["statistic"]) == (2, "p99")
    assert "known: gap, throughput, total, tpot, ttft" in run("advise", *SMALL, "--metric", "p99").stderr


def test_a_bare_price_is_that_of_the_only_accelerator():
    asked = ("plan", *SMALL, "--gpus", 1, "--no-pools")
    found = answer(*asked, "--prices", "$2.5")["best"]
    assert found == answer(*asked, "--prices", "h100=2.5")["best"]
    assert (
        "--prices takes HW=USD, such as h100-sxm=2.5: '2.5'"
        in run("plan", "llama-3.1-8b", "--hardware", "h100,l4", "--prices", "2.5").stderr
    )


@pytest.mark.parametrize(
    ("typed", "same"),
    [
        (("mode_switch", *SMALL), ("mode-switch", *SMALL)),
        (("what_if", *SMALL, "--to-batch", 8), ("what-if", *SMALL, "--to-batch", 8)),
        (("help", "fit"), ("fit", "--help")),
        (("version",), ("--version",)),
        (("list", "gpus", "h200"), ("list", "hardware", "--name", "h200")),
        (("list", "model", "qwen3"), ("list", "models", "--name", "qwen3")),
        (("list", "hardware", "--sort", "bandwidth"), ("list", "hardware", "--sort", "memory_bytes_per_s")),
        (("list", "hardware", "--minimum-memory", "100GB"), ("list", "hardware", "--minimum-memory-gb", "100")),
        (
            ("list", "prices", "--hardware", "h100", "--term", "on-demand"),
            ("list", "prices", "--hardware", "h100", "--term", "on_demand"),
        ),
    ],
)
def test_commands_and_filters_have_the_names_that_come_to_mind(typed, same):
    assert text(*typed) == text(*same)


def test_lists_are_filtered_and_say_so_when_nothing_matches():
    helped = answer("list", "techniques", "--helps", "prefill")
    assert {row["helps"] for row in helped} == {"prefill"}
    assert text("list", "models", "zzz").strip() == "No models match 'zzz'."
    assert "no provider named 'nosuch'" in run("list", "prices", "--provider", "nosuch").stderr
    assert "no phase named 'x'" in run("list", "techniques", "--helps", "x").stderr


@pytest.mark.parametrize("more", [(), ("--full",), ("--hardware", "h100")])
def test_prices_repeat_no_row(more):
    rows = [line for line in text("list", "prices", *more).splitlines() if line[2:3].isalnum()]
    assert len(rows) == len(set(rows)) > 20


def test_the_header_names_the_format_of_a_part():
    assert "lm_head mxfp4" in " ".join(text("analyze", *SMALL, "--part", "lm_head=mxfp4").split())


def test_weights_alone_in_8_bits_get_a_note():
    note = "fp8 weights with bf16 activations are multiplied in bf16; --activations fp8 would use the fp8 units"
    assert note in " ".join(text("analyze", *SMALL, "--weights", "fp8").split())
    assert "are multiplied in" not in text("analyze", *SMALL, "--weights", "fp8", "--activations", "fp8")
    assert "are multiplied in" not in text("analyze", "llama-3.1-8b", "--hardware", "a100-sxm-80gb", "--weights", "fp8")
    assert "--to-activations fp8 would use" in " ".join(text("what-if", *SMALL, "--to-weights", "fp8").split())


def test_points_that_the_intervals_cannot_tell_apart_are_called_ties():
    shown = " ".join(text("analyze", "llama-3.1-8b", "--hardware", "h100", "--engine", "vllm,trtllm").split())
    vllm, trtllm = (
        rl.decode(rl.Deployment("llama-3.1-8b", "h100", engine=engine), rl.Workload()) for engine in ("vllm", "trtllm")
    )
    assert vllm.estimate_low_s < trtllm.estimate_s < vllm.estimate_s < trtllm.estimate_high_s
    assert "Tied within the intervals: engine vllm." in shown
    assert "tie" not in text("analyze", "llama-3.1-8b", "--hardware", "h100", "--batch", "8,9")
    assert "tie" not in text("analyze", "llama-3.1-8b", "--hardware", "h100,l4")


ANSWERS = {
    ("analyze", *SMALL): "Fits on one h100-sxm",
    ("analyze", *SMALL, "--batch", "1,8"): "2 of 2 points fit.",
    ("what-if", *SMALL, "--to-batch", "8"): "Decode ",
    ("what-if", *SMALL, "--to-tp", "2,4"): "Fastest decode at tp 4",
    ("what-if", *SMALL, "--technique", "mtp"): "MTP: ",
    ("plan", *SMALL, "--gpus", "1", "--no-pools"): "Fewest accelerator-seconds",
    ("fleet", *SMALL, "--gpus", "1", "--rate", "5", "--method", "closed-form"): "5 requests/s need",
    ("serve", *SMALL, "--concurrency", "8"): "With 8 requests in the system",
    ("simulate", *SMALL, "--rate", "4", "--requests", "200"): "Median TTFT",
    ("advise", *SMALL): "Decode first",
    ("fit", *SMALL): "Yes: ",
    ("explain", *SMALL, "--time", "estimate"): "Fits on one h100-sxm",
    ("solve", *SMALL, "--find", "batch", "--metric", "tpot", "--target", "20ms"): "batch must be at most",
    ("sensitivity", *SMALL): "The time of a decode step",
    ("techniques", *SMALL): "Largest gains: ",
    ("mode-switch", *SMALL): "The faster prefill is a net loss",
    ("visible", *SMALL): "The first 4 tokens",
}


@pytest.mark.parametrize("args", ANSWERS, ids=" ".join)
def test_the_first_line_answers_and_the_time_is_named(args):
    shown = text(*args)
    assert shown.startswith(ANSWERS[args])
    assert max(map(len, shown.splitlines())) <= 80
    assert args[0] == "fit" or "time: estimate" in " ".join(shown.split())


HELPED = [(name,) for name in COMMANDS] + [("list", name) for name in LISTS] + [("plot", name) for name in PLOTS]


@pytest.mark.parametrize("command", [(), ("list",), ("plot",), *HELPED], ids=" ".join)
def test_every_help_has_examples_of_its_own_command(command):
    shown = text(*command, "--help")
    start = " ".join(("  roofline", *command))
    examples = [line for line in shown.partition("For example:")[2].splitlines() if line.startswith(start)]
    assert examples


@pytest.mark.parametrize("columns", [0, 40, 80])
@pytest.mark.parametrize(
    "args",
    [
        ("analyze", *SMALL, "--full"),
        ("explain", *SMALL),
        ("plan", *SMALL, "--gpus", "1,2", "--full"),
        ("advise", *SMALL, "--full"),
        ("list", "techniques", "--full"),
        ("list", "engines"),
        ("plan", "--help"),
    ],
    ids=" ".join,
)
def test_no_word_is_broken_in_a_narrow_terminal(args, columns):
    wide, narrow = (_words(text(*args, columns=width)) for width in (300, columns))
    assert not narrow - wide


def _words(shown):
    """Words without what a narrow terminal puts around them: colons behind heads, backslashes of continued commands."""
    return {word.strip(":") for word in shown.split() if word not in ("\\", "=")}


def test_one_option_has_one_meaning_in_all_commands():
    """The same option has the same placeholder, help and default wherever it sets the same thing."""
    found: dict[str, dict[str, set[str]]] = {}
    for command in HELPED:
        for option, words in _options(text(*command, "--help", columns=300)):
            found.setdefault(option, {}).setdefault(words.replace(" [required]", ""), set()).add(" ".join(command))
    assert len(found) > 100
    several = {option for option, meanings in found.items() if len(meanings) > 1}
    assert several == OF_THEIR_OWN


OF_THEIR_OWN = {
    *("--context", "--column", "--method", "--metric", "--phase", "--rate", "--seed", "--time", "--tpot"),
    *("--api", "--hardware", "--hit-rate", "--kv", "--output", "--prompt", "--traffic", "--weights-host"),
}
"""Options whose meaning depends on the command: a plan ranks, a plot draws, a quiz asks."""


def _options(shown):
    """Options of a help page in one column, with placeholder and description."""
    for line in shown.splitlines():
        if line.startswith("  --"):
            names, _, words = line.strip().partition("   ")
            option, _, placeholder = names.replace(", ", ",").partition(" ")
            yield option, f"{placeholder} {words.strip()}"


@pytest.mark.parametrize("target", ["--ttft", "--tpot", "--total", "--gap", "--tokens-per-s"])
@pytest.mark.parametrize(
    "command",
    [("plan",), ("fleet", "--rate", 1), ("simulate", "--rate", 1, "--requests", 10)],
    ids=lambda words: words[0],
)
def test_a_target_is_one_number(command, target):
    """Lists are for what is swept; a list of targets was a traceback."""
    name, *others = command
    done = run(name, *SMALL, *others, target, "1,8")
    assert done.exit_code == 2
    assert "must be a single number" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("width", ["50ms", "a\nb", "nan", "1", "31", ""])
def test_the_width_of_a_plot_is_a_number_of_inches(tmp_path, width):
    done = run("plot", "rooflines", "h100", "-o", tmp_path / "p.png", f"--width={width}")
    assert done.exit_code == 2
    assert "--width" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("columns", [40, 60])
def test_the_quiz_keeps_to_the_width(columns, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    shown = text("quiz", "interview", "--seed", 7, columns=columns)
    assert "Type a number" in shown
    assert max(map(len, shown.splitlines())) <= columns


def test_a_binary_file_is_no_table_of_timings(tmp_path):
    (tmp_path / "bin").write_bytes(bytes(range(256)) * 4)
    done = run("calibrate", tmp_path / "bin")
    assert done.exit_code == 2
    assert "is not a CSV table" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        (("serve", *SMALL, "--requests-per-s", "5"), "--rate"),
        (("serve", *SMALL, "--batch", "8"), "--concurrency"),
        (("plan", *SMALL, "--weights", "fp8"), "--precisions"),
        (("plan", *SMALL, "--price", "2.5"), "--prices"),
        (("analyze", *SMALL, "--tensor-parallel-size", "2"), "--tp"),
        (("analyze", *SMALL, "--isl", "2k"), "--prompt"),
        (("fit", *SMALL, "--max-model-len", "32k"), "--length"),
    ],
)
def test_options_of_other_tools_are_understood(command, meant):
    assert f"did you mean {meant}?" in run(*command).stderr


@pytest.mark.parametrize(
    ("options", "tensor", "other"),
    [
        (("--ep", "8"), 8, ("expert", 8)),
        (("--pp", "2"), 4, ("pipeline", 2)),
        (("--dp", "8", "--ep", "8"), 1, ("data", 8)),
        (("--tp", "2", "--dp", "4"), 2, ("data", 4)),
    ],
)
def test_accelerators_left_over_share_each_matrix(options, tensor, other):
    found = answer("analyze", "deepseek-v3", "--hardware", "8xh200", *options)["parallel"]
    assert (found["tensor"], found[other[0]]) == (tensor, other[1])


def test_another_degree_keeps_the_accelerators():
    found = answer("what-if", "deepseek-v3", "--hardware", "8xh200", "--to-ep", "8")
    assert found["before"]["parallel"]["tensor"] == found["after"]["parallel"]["tensor"] == 8
    found = answer("what-if", "llama-3.1-70b", "--hardware", "8xh100", "--to-pp", "2")
    assert (found["after"]["parallel"]["tensor"], found["after"]["parallel"]["pipeline"]) == (4, 2)
    found = answer("what-if", "llama-3.1-70b", "--hardware", "2xh100", "--to-pp", "4")
    assert found["after"]["parallel"]["pipeline"] == 4, "more stages than accelerators are more accelerators"


def test_targets_in_one_list():
    options = (*SMALL, "--rate", "4", "--requests", "100")
    apart = answer("simulate", *options, "--ttft", "100ms", "--tpot", "8ms")
    assert answer("simulate", *options, "--slo", "ttft=100ms,tpot=8ms") == apart
    assert "expected METRIC=TARGET, such as ttft=500ms" in run("simulate", *options, "--slo", "ttft").stderr
    assert "no metric named 'speed'" in run("simulate", *options, "--slo", "speed=3").stderr
    assert (
        "--slo already has a target for --tpot" in run("simulate", *options, "--slo", "tpot=8ms", "--tpot", "1s").stderr
    )


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        (("formats", "awq"), "int4_g128"),
        (("models", "meta-llama/Llama-3.1-8B"), "llama-3.1-8b"),
        (("hardware", "H100 SXM"), "h100-sxm"),
        (("engines", "tensorrt"), "trtllm"),
        (("techniques", "eagle"), "speculative"),
        (("techniques", "prefix_caching"), "prefix-caching"),
        (("techniques", "EAGLE-3"), "speculative"),
        (("engines", "llama.cpp"), "llamacpp"),
        (("prices", "h100"), "h100-sxm"),
    ],
)
def test_lists_are_filtered_by_every_name(listed, found):
    rows = answer("list", *listed)
    assert found in [row.get("name", row.get("hardware")) for row in rows]


def test_a_list_without_a_match_names_the_nearest():
    assert "No formats match 'fp9'; did you mean 'fp8', 'fp6' or 'fp4'?" in text("list", "formats", "fp9")
    assert text("list", "models", "nosuch") == "No models match 'nosuch'.\n"


@pytest.mark.parametrize("typed", ["EAGLE-3", "speculative decoding", "Speculative", "speculative_decoding"])
def test_techniques_are_called_as_engines_call_them(typed):
    assert text("what-if", *SMALL, "--technique", typed).startswith("Speculative decoding:")


def test_fit_takes_prompt_and_output():
    by_parts = answer("fit", *SMALL, "--prompt", "8k", "--output", "200")
    assert by_parts == answer("fit", *SMALL, "--length", "8200") == answer("fit", *SMALL, "--context", "8200")
    assert "--length already contains prompt" in run("fit", *SMALL, "--prompt", "8k", "--length", "9k").stderr


def test_what_does_not_fit_is_answered_with_what_would():
    said = run("serve", "llama-3.1-70b", "--hardware", "h100-sxm", "--concurrency", "8").stderr
    assert "llama-3.1-70b does not fit on one h100-sxm: 141.8 GB needed" in said
    assert "fits with fp8 weights, or on 2" in said
