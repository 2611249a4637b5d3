"""The command line says what the library says, in JSON and in text, and answers bad input in one line."""

import dataclasses
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from command_line import answer, run, text

import roofline as rl
from roofline import techniques as t
from roofline.phases.passes import TIMES

LLAMA = ("llama-3.1-70b", "--hardware", "h100-sxm")


def program(*args, **options):
    """A process of its own, with the environment of this one."""
    command = [sys.executable, "-m", "roofline", *args]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_analyze_has_the_keys_that_others_read():
    found = answer("analyze", *LLAMA)
    assert (
        found["parameters"]["total"] == 70_553_706_496
    )  # safetensors index of the checkpoint: 141,107,412,992 bytes / 2
    assert found["ridge_flops_per_byte"] == pytest.approx(989.4 / 3.35, rel=1e-12)
    assert {"total", "active", "embedding"} <= set(found["parameters"])
    assert {"weights_bytes", "kv_bytes_per_sequence", "fits", "max_batch"} <= set(found["memory"])
    times = {"flops", "moved_bytes", "intensity_flops_per_byte", *TIMES, "limit"}
    assert times <= set(found["prefill"])
    assert times | {"tokens_per_s"} <= set(found["decode"])


def test_analyze_without_options_is_the_library_without_options(serve):
    load = rl.Workload()
    found = answer("analyze", *LLAMA)
    assert found["parameters"] == serve.model.parameters.to_dict()
    assert found["memory"] == rl.memory(serve, load).to_dict()
    assert found["prefill"] == rl.prefill(serve, load).to_dict()
    assert found["decode"] == rl.decode(serve, load).to_dict()
    assert found["generate"] == {time: rl.generate(serve, load, time=time).to_dict() for time in TIMES}
    assert found["crossovers"] == rl.crossovers(serve, load).to_dict()


def test_every_option_of_analyze_reaches_the_library(serve):
    sizes = ("--batch", 16, "--prompt", 300, "--output", 40, "--context", 777)
    found = answer("analyze", *LLAMA, *sizes, "--weights", "fp8", "--activations", "fp8", "--kv", "int8")
    fp8 = rl.quantize(serve, weights="fp8", activations="fp8", kv="int8")
    load = rl.Workload(prompt_tokens=300, output_tokens=40, batch=16)
    assert found["prefill"] == rl.prefill(fp8, load).to_dict()
    assert found["decode"] == rl.decode(fp8, load, context_tokens=777).to_dict()
    held = rl.Workload(prompt_tokens=300, output_tokens=40, batch=16, cached_tokens=777 + 1 - 340)
    assert found["memory"] == rl.memory(fp8, held).to_dict()
    assert found["ridge_flops_per_byte"] == fp8.accelerator.ridge_flops_per_byte("fp8")
    assert found["precision"] == {"weights": "fp8", "activations": "fp8", "kv": "int8", "attention": "bf16"}
    asked = {"prompt_tokens": 300, "output_tokens": 40, "batch": 16, "cached_tokens": 0, "context_tokens": 777}
    assert found["workload"] == asked


def test_analyze_answers_first():
    answer, table, *_ = (" ".join(part.split()) for part in text("analyze", *LLAMA).split("\n\n"))
    assert table.startswith(
        "Llama 3.1 70B on NVIDIA H100 SXM5 80GB: batch 1, prompt 2,000, output 256 tokens;"
        " weights bf16, activations bf16, KV cache bf16; time: estimate"
    )
    assert answer.startswith(
        # 70,553,706,496 parameters x 2 B, one sequence of 2,256 tokens x 327,680 B; 0.9 x 81,559 MiB
        "Does not fit on one h100-sxm: 141.8 GB needed, 76.97 GB available; fits with fp8 weights, or on 2."
    )
    assert "A decode step would take" in answer
    assert answer.endswith("be compute-bound.")


def test_the_answer_is_in_the_time_that_is_asked_for(serve):
    for time in ("floor", "roofline"):
        shown = " ".join(text("analyze", *LLAMA, "--time", time).split())
        said = rl.decode(serve, rl.Workload()).summary(f"{time}_s")
        assert said.replace("takes", "would take").replace(" is ", " be ") in shown  # it does not fit
        assert f"time: {time} " in shown


def test_full_names_what_it_assumed():
    shown = text("analyze", *LLAMA, "--full")
    for words in (
        "70,553,706,496",
        "80 x GQA 64/8 x 128",
        "327.7 kB per token",
        "989.4 TFLOP/s dense, ridge point 295 FLOP/byte",
        "3.35 TB/s",
        "does not fit on one h100-sxm; at least 2 are needed",
        "41.69 ms",
    ):
        assert words in shown


def test_lists_give_one_row_for_each_value(serve):
    lists = ("--batch", "1,8", "--context", "1k,32Ki")
    found = answer("analyze", *LLAMA, *lists)
    points = [(batch, context) for batch in (1, 8) for context in (1000, 32768)]
    assert [(one["workload"]["batch"], one["workload"]["context_tokens"]) for one in found] == points
    for one, (batch, context) in zip(found, points, strict=True):
        assert one["decode"] == rl.decode(serve, rl.Workload(batch=batch), context_tokens=context).to_dict()
    shown = text("analyze", *LLAMA, *lists)
    rows = [line.split()[:2] for line in shown.splitlines() if line.startswith("  ")][1:]
    assert rows == [[str(batch), f"{context:,}"] for batch, context in points]
    assert "0 of 4 points fit." in shown


def test_several_accelerators_give_one_row_each():
    found = answer("analyze", "llama-3.1-8b", "--hardware", "h100-sxm,2xl4", "--weights", "bf16,fp8")
    asked = [(one["hardware"], one["parallel"]["tensor"], one["precision"]["weights"]) for one in found]
    assert asked == [("h100-sxm", 1, "bf16"), ("h100-sxm", 1, "fp8"), ("l4", 2, "bf16"), ("l4", 2, "fp8")]


def test_a_format_without_units_is_a_note():
    a100 = ("llama-3.1-8b", "--hardware", "a100-sxm-80gb", "--weights", "fp8", "--activations", "fp8")
    assert "has no fp8 units: computed at the bf16 rate" in " ".join(text("analyze", *a100).split())
    assert answer("analyze", *a100)["ridge_flops_per_byte"] == pytest.approx(312 / 2.039, rel=1e-3)


def test_a_context_beyond_the_model_is_a_note_and_no_error():
    shown = " ".join(text("analyze", *LLAMA, "--context", 1_000_000).split())
    assert "context of 1,000,001 tokens is beyond the 131,072 that llama-3.1-70b states" in shown
    assert any("beyond the 131,072" in note for note in answer("analyze", *LLAMA, "--context", "1e6")["assumptions"])


def test_what_if_is_compare(serve):
    found = answer("what-if", *LLAMA, "--to-weights", "fp8", "--to-kv", "fp8", "--to-batch", 8)
    after = rl.quantize(serve, weights="fp8", kv="fp8")
    one, eight = rl.Workload(), rl.Workload(batch=8)
    assert found["decode"] == rl.compare(rl.decode(serve, one), rl.decode(after, eight)).to_dict()
    assert found["prefill"] == rl.compare(rl.prefill(serve, one), rl.prefill(after, eight)).to_dict()
    assert found["memory"] == rl.compare(rl.memory(serve, one), rl.memory(after, eight)).to_dict()
    assert found["before"]["precision"]["weights"] == "bf16"
    assert found["after"]["workload"]["batch"] == 8


def test_what_if_on_other_hardware_takes_all_of_it(serve):
    found = answer("what-if", *LLAMA, "--to-hardware", "h200-sxm")
    h200 = serve.replace(accelerator=rl.get_accelerator("h200-sxm"))
    assert found["decode"]["after"] == rl.decode(h200, rl.Workload()).to_dict()
    assert found["decode"]["ratio"]["floor_s"] == pytest.approx(
        3.35 / 4.8, rel=1e-9
    )  # bandwidths of the two data sheets


def test_what_if_shows_where_the_limit_changes():
    shown = text("what-if", *LLAMA, "--to-batch", 4096, "--context", 1, "--full")
    assert [line.split() for line in shown.splitlines() if "limit" in line] == [
        ["limit", "compute", "compute", "same"],
        ["limit", "memory", "compute", "changes"],
    ]
    assert ["batch", "1", "4,096"] in [line.split() for line in shown.splitlines()]
    assert "memory-bound -> compute-bound" in " ".join(shown.split())


def test_what_if_with_a_technique_says_what_does_not_fit():
    """2 x 76.97 GB hold 70.55 G weights of 2 B and 17 caches of 2,256 tokens x 327,680 B."""
    asked = ("what-if", "llama-3.1-70b", "--hardware", "2xh100-sxm", "--technique", "chunked-prefill")
    assert "Only 17 of 32 sequences fit at once on 2 h100-sxm" in " ".join(text(*asked, "--batch", 32).split())
    assert "fit at once" not in text(*asked, "--batch", 16)


def test_what_if_says_what_a_ratio_can_not():
    shown = text("what-if", *LLAMA, "--to-weights", "fp8")
    assert "largest batch 0 5 from 0" in " ".join(shown.split())  # (76.97 GB - 72.66 GB) / 0.739 GB a sequence
    assert "(68.45 GB freed); does not fit -> fits." in " ".join(shown.split())  # half of 68.5e9 bf16 linear weights


def test_what_if_takes_lists():
    found = answer("what-if", *LLAMA, "--to-tp", "2,4", "--to-engine", "vLLM,sglang")
    asked = [(one["after"]["parallel"]["tensor"], one["after"]["engine"]) for one in found]
    assert asked == [(2, "vllm"), (2, "sglang"), (4, "vllm"), (4, "sglang")]
    shown = text("what-if", *LLAMA, "--to-tp", "2,4")
    assert [line.split()[:2] for line in shown.splitlines() if line.endswith(" GB")] == [
        ["before", "no"],
        ["2", "yes"],
        ["4", "yes"],
    ]


def test_a_part_has_a_format_of_its_own(serve):
    found = answer("analyze", *LLAMA, "--part", "lm_head=mxfp4", "--part", "embedding=fp8")
    mixed = serve.replace(precision=rl.Precision(exceptions={"lm_head": "mxfp4", "embedding": "fp8"}))
    assert found["memory"] == rl.memory(mixed, rl.Workload()).to_dict()
    assert found["precision"]["exceptions"] == {"lm_head": "mxfp4", "embedding": "fp8"}


@pytest.mark.parametrize(
    ("typed", "plain"),
    [
        (("--context", "32k"), ("--context", "32000")),
        (("--context", "128Ki"), ("--context", "131072")),
        (("--prompt", "1M"), ("--prompt", "1000000")),
        (("--memory-fraction", "85%"), ("--memory-fraction", "0.85")),
        (("--engine", "vLLM"), ("--engine", "vllm")),
        (("--hardware", "8xh100-sxm"), ("--hardware", "h100-sxm", "--tp", "8")),
        (("--hardware", "h100-sxm:8", "--tp", "8"), ("--hardware", "h100-sxm", "--tp", "8")),
        (("--hardware", "8xh100-sxm", "--tp", "4", "--dp", "2"), ("--hardware", "h100-sxm", "--tp", "4", "--dp", "2")),
    ],
    ids=" ".join,
)
def test_what_people_type(typed, plain):
    def given(options):
        return ("llama-3.1-8b", *options) if "--hardware" in options else (*LLAMA, *options)

    assert answer("analyze", *given(typed)) == answer("analyze", *given(plain))


CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 2048,
}


def test_a_directory_is_a_model(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text(json.dumps(CONFIG))
    monkeypatch.chdir(tmp_path)
    bare = answer("analyze", "mine", "--hardware", "h100-sxm")
    monkeypatch.chdir(tmp_path / "mine")
    assert answer("analyze", ".", "--hardware", "h100-sxm")["parameters"] == bare["parameters"]


def test_explain_gives_the_steps_of_the_library(serve):
    steps = answer("explain", *LLAMA, "--phase", "decode")
    assert steps == {"decode": [step.to_dict() for step in rl.decode(serve, rl.Workload()).explain()]}
    only = answer("explain", *LLAMA, "--operator", "attention")
    assert set(only) == {"prefill", "decode"}
    assert {step["name"].split(".")[0] for steps in only.values() for step in steps} == {"attention"}


def test_explain_begins_with_the_totals():
    found = answer("explain", *LLAMA)
    assert {step["name"].split(".")[0] for steps in found.values() for step in steps} == set(found)
    assert set(found) == {"prefill", "decode", "memory", "parameters"}
    assert "decode.floor_s" in [step["name"] for step in found["decode"]]


def test_explain_derives_one_time_alone(serve):
    step = rl.decode(serve, rl.Workload())
    for time in ("floor", "roofline", "estimate"):
        found = answer("explain", *LLAMA, "--phase", "decode", "--time", time)["decode"]
        assert found[-1]["name"] == f"decode.{time}_s"
        assert found[-1]["value"] == getattr(step, f"{time}_s")
        assert f"time: {time}" in " ".join(text("explain", *LLAMA, "--time", time).split())
    assert [each["name"] for each in answer("explain", *LLAMA, "--operator", "q_proj", "--time", "roofline")["decode"]][
        -1
    ] == "q_proj.roofline_s"
    assert "time: floor, roofline and estimate" in " ".join(text("explain", *LLAMA).split())


def test_explain_of_a_model_alone_derives_its_count():
    found = answer("explain", "mixtral-8x7b")
    values = {step["name"]: step["value"] for step in found["parameters"]}
    index_of_the_checkpoint_bytes = 93_405_585_408
    assert values["parameters.total"] == index_of_the_checkpoint_bytes / 2
    assert round((values["parameters.active"] + 32_000 * 4_096) / 1e9, 1) == 12.9  # arXiv:2401.04088, with the lookup
    shown = " ".join(text("explain", "mixtral-8x7b").split())
    assert "= 8 * (4096 * 14336 + 0 * 14336)" in shown
    assert "= 46,702,792,704" in shown
    only = answer("explain", "mixtral-8x7b", "--operator", "layers_0")
    assert {step["name"].split(".")[0] for step in only["parameters"]} == {"layers_0"}


def test_explain_reads_like_a_derivation_by_hand():
    shown = text("explain", *LLAMA, "--phase", "prefill", "--operator", "q_proj")
    lines = [" ".join(line.split("  [")[0].split()) for line in shown.splitlines()]
    at = lines.index("flops = 2 * m * k * n")
    assert lines[at + 1 : at + 3] == ["= 2 * 2000 * 8192 * 8192", "= 268.4 GFLOP"]
    assert "Sources" in lines
    assert "NVIDIA H100 product page" in shown


def test_lists_have_everything():
    assert [row["name"] for row in answer("list", "models")] == rl.list_models()
    assert [row["name"] for row in answer("list", "hardware")] == rl.list_accelerators()
    llama = next(row for row in answer("list", "models") if row["name"] == "llama-3.1-70b")
    assert llama["kv_bytes_per_token"] == 2 * 80 * 8 * 128 * 2  # K and V, layers, KV heads, width, bytes
    h100 = next(row for row in answer("list", "hardware") if row["name"] == "h100-sxm")
    assert h100["bf16_ridge_flops_per_byte"] == pytest.approx(295.3, abs=0.05)
    for kind, names in (
        ("models", rl.list_models()),
        ("hardware", rl.list_accelerators()),
        ("formats", rl.list_formats()),
        ("techniques", rl.list_techniques()),
        ("engines", rl.list_engines()),
    ):
        shown = text("list", kind)
        assert all(f"  {name} " in shown for name in names)


def test_lists_can_be_filtered_by_name():
    names = [row["name"] for row in answer("list", "models", "--name", "Qwen3")]
    assert names == [name for name in rl.list_models() if "qwen3" in name]
    names = [row["name"] for row in answer("list", "hardware", "--name", "MI3")]
    assert names == [name for name in rl.list_accelerators() if "mi3" in name]
    assert {row["name"] for row in answer("list", "formats", "--name", "mxfp")} == {"mxfp8", "mxfp6", "mxfp4"}


def test_prices_are_those_of_the_library():
    found = answer("list", "prices", "--hardware", "l4,h100-sxm", "--term", "spot")
    expected = [
        {"hardware": name} | dataclasses.asdict(price)
        for name in ("l4", "h100-sxm")
        for price in rl.list_prices(name, term="spot")
    ]
    assert found == expected


@pytest.mark.parametrize(
    ("args", "listed"),
    [
        (("analyze", "llama-9-70b", "--hardware", "h100-sxm"), "models"),
        (("analyze", *LLAMA, "--weights", "fp7"), "formats"),
        (("analyze", *LLAMA, "--engine", "vlm"), "engines"),
        (("what-if", *LLAMA, "--technique", "speculativ"), "techniques"),
        (("plan", "gpt-2", "--hardware", "h100-smx"), "hardware"),
    ],
)
def test_unknown_names_point_to_their_list(args, listed):
    assert refused(*args).endswith(f"(`roofline list {listed}` shows all)\n")


def test_solve_is_the_library(serve):
    found = answer(
        "solve", *LLAMA, "--find", "memory-bytes-per-s", "--metric", "tpot", "--target", "20ms", "--time", "floor"
    )
    expected = rl.solve(serve, rl.Workload(), find="memory_bytes_per_s", metric="tpot_s", target=0.02, time="floor_s")
    assert {name: found[name] for name in expected.columns} == expected.to_dict()
    shown = text(
        "solve", *LLAMA, "--find", "memory_bytes_per_s", "--metric", "tpot", "--target", "20ms", "--time", "floor"
    )
    assert expected.summary() in " ".join(shown.split())
    fits = answer("solve", *LLAMA, "--find", "weight_bits", "--metric", "fits")
    assert fits["value"] == rl.solve(serve, find="weight_bits", metric="fits").value


def test_sensitivity_is_the_library(serve):
    found = answer("sensitivity", *LLAMA, "--phase", "prefill", "--time", "roofline")
    expected = rl.sensitivity(rl.prefill(serve, rl.Workload()), time="roofline_s")
    assert found["elasticity"] == expected.to_dict()
    assert expected.summary() in " ".join(
        text("sensitivity", *LLAMA, "--phase", "prefill", "--time", "roofline").split()
    )


def test_techniques_is_the_technique_table():
    small = ("llama-3.1-8b", "--hardware", "h100-sxm")
    found = answer("techniques", *small)
    expected = rl.technique_table(rl.Deployment("llama-3.1-8b", "h100-sxm"), rl.Workload(), time="estimate_s")
    assert found["rows"] == expected.to_dict()["rows"]
    shown = text("techniques", *small)
    words = shown.split()
    assert all(word in words for row in found["rows"] for word in row["technique"].split())
    assert max(map(len, shown.splitlines())) <= 80
    assert " ".join(shown.split()).startswith(expected.summary())


def test_techniques_shows_what_was_measured_and_what_is_assumed():
    """The range beside each prediction, its number of gains, the parameters; the sources behind ``--full``."""
    small = ("llama-3.1-8b", "--hardware", "h100-sxm")
    shown = " ".join(text("techniques", *small).split())
    assert "speculative decoding 0.71x to 2.15x (32) acceptance 0.7, drafts 4" in shown
    assert "vllm-project/vllm issue 20780" not in shown
    full = " ".join(text("techniques", *small, "--full").split())
    assert all(source in full for source in t.MEASURED["speculative"].sources)
    assert "Gains over the baseline that is named, where the deployment is not the baseline" in full


def test_mode_switch_and_visible_are_the_library():
    small, serve = ("llama-3.1-8b", "--hardware", "h100-sxm"), rl.Deployment("llama-3.1-8b", "h100-sxm")
    switch = t.mode_switch(serve, rl.Workload(), prefill_gain=0.3, decode_cost=0.1, time="estimate_s")
    found = answer("mode-switch", *small, "--prefill-gain", "30%", "--decode-cost", "10%")
    assert {name: found[name] for name in switch.columns} == switch.to_dict()
    seen = t.visible(serve, rl.Workload(), buffer=8, time="estimate_s")
    found = answer("visible", *small, "--buffer", 8)
    assert {name: found[name] for name in seen.columns} == seen.to_dict()
    assert seen.summary() in " ".join(text("visible", *small, "--buffer", 8).split())


def test_hardware_can_be_filtered_and_sorted():
    options = ("--vendor", "nvidia", "--minimum-memory-gb", 90, "--has-format", "fp8", "--sort", "memory_bytes_per_s")
    rows = answer("list", "hardware", *options, "--descending")
    names = [row["name"] for row in rows]
    assert {"h200-sxm", "b200-sxm"} <= set(names)
    assert not {"h100-sxm", "mi300x", "a100-sxm-80gb"} & set(names)  # 80 GB, AMD, without fp8 units
    rates = [row["memory_bytes_per_s"] for row in rows]
    assert rates == sorted(rates, reverse=True)
    same = rl.ridge_table(
        vendor="NVIDIA", minimum_memory_bytes=90e9, has_format="fp8", sort_by="memory_bytes_per_s", descending=True
    )
    assert names == same.name.tolist()


def test_check_says_every_fault(tmp_path):
    spec = tmp_path / "acme.yaml"
    spec.write_text("name: acme\nmemory_byte: 1\ndense_flops_per_s: {}\n")
    done = run("check", spec)
    assert done.exit_code == 2
    assert done.stdout.splitlines() == rl.check_specs(spec)
    assert "memory_byte is not a known key" in done.stdout
    assert "vendor is missing" in done.stdout
    faults = run("check", spec, "--json")
    assert (faults.exit_code, json.loads(faults.stdout)) == (2, rl.check_specs(spec))


def test_check_of_a_sound_spec(tmp_path):
    spec = tmp_path / "h100-sxm.yaml"
    spec.write_bytes((Path(__file__).parents[1] / "hardware_specs" / "h100-sxm.yaml").read_bytes())
    assert text("check", spec) == f"{spec}: no errors\n"
    assert answer("check", spec) == []


def test_control_c_is_quiet(monkeypatch):
    def interrupted(name):
        raise KeyboardInterrupt

    monkeypatch.setattr("roofline.cli.target.get_model", interrupted)
    done = run("analyze", *LLAMA)
    assert (done.exit_code, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("ending", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF"), ("PNG", b"\x89PNG")]
)
def test_plots_are_written_by_their_ending(tmp_path, ending, magic):
    file = tmp_path / f"roofline.{ending}"
    assert text("plot", *LLAMA, "-o", file).split() == ["wrote", str(file)]
    assert file.read_bytes().startswith(magic)


BAD = [
    (
        ("analyze", "llama-9-70b", "--hardware", "h100-sxm"),
        "no model named 'llama-9-70b'; did you mean 'llama-3-70b'",
    ),
    (
        ("analyze", "llama-3.1-70b", "--hardware", "h100-smx"),
        "no accelerator named 'h100-smx'; did you mean 'h100-sxm'",
    ),
    (("analyze", *LLAMA, "--batch", "0"), "batch must be an integer >= 1: 0"),
    (("analyze", *LLAMA, "--batch", "-3"), "batch must be an integer >= 1: -3"),
    (("analyze", *LLAMA, "--batch", "1.5"), "batch must be an integer >= 1: 1.5"),
    (("analyze", *LLAMA, "--batch", "nan"), "batch must be an integer >= 1: nan"),
    (("analyze", *LLAMA, "--batch", "inf"), "batch must be an integer >= 1: inf"),
    (("analyze", *LLAMA, "--batch", "many"), "batch must be an integer >= 1: 'many'"),
    (("analyze", *LLAMA, "--prompt", "0"), "--prompt must be an integer >= 1: 0"),
    (("analyze", *LLAMA, "--output", "-1"), "--output must be an integer >= 1: -1"),
    (("analyze", *LLAMA, "--context", "-1"), "--context must be an integer >= 0: -1"),
    (("analyze", *LLAMA, "--context", "nan"), "--context must be an integer >= 0: nan"),
    (("analyze", *LLAMA, "--context", "inf"), "--context must be an integer >= 0: inf"),
    (("analyze", *LLAMA, "--context", "many"), "--context must be an integer >= 0: 'many'"),
    (("explain", *LLAMA, "--context", "nan"), "--context must be an integer >= 0: nan"),
    (("analyze", *LLAMA, "--weights", "fp7"), "no number format named 'fp7'; did you mean 'fp8'"),
    (("analyze", *LLAMA, "--activations", "q4_k_m"), "activations can't be 'q4_k_m'"),
    (("what-if", *LLAMA), "what-if needs a change: --to-weights"),
    (("what-if", *LLAMA, "--to-kv", "fp7"), "no number format named 'fp7'"),
    (("what-if", *LLAMA, "--to-batch", "0"), "batch must be an integer >= 1: 0"),
    (("explain", *LLAMA, "--phase", "prefil"), "no phase named 'prefil'; did you mean 'prefill'"),
    (("explain", "gpt-2", "--phase", "decode"), "--phase decode needs --hardware"),
    (("explain", "gpt-2", "--time", "floor"), "--time needs --hardware"),
    (("explain", *LLAMA, "--phase", "memory", "--time", "floor"), "--phase memory has no times"),
    (("explain", *LLAMA, "--operator", "q_proj", "--time", "floor"), "single operators have no floor"),
    (("explain", "gpt-2", "--phase", "parameter"), "no phase named 'parameter'; did you mean 'parameters'"),
    (("explain", "gpt-2", "--operator", "layer_0"), "no operator named 'layer_0'; did you mean 'layers_0'"),
    (("explain", *LLAMA, "--operator", "atention"), "no operator named 'atention'; did you mean 'attention'"),
    (("list", "hardware", "--vendor", "acme"), "no vendor named 'acme'"),
    (("list", "hardware", "--minimum-memory-gb", "x"), "--minimum-memory must be a finite number >= 0: 'x'"),
    (("list", "hardware", "--has-format", "fp5"), "no math format named 'fp5'; did you mean"),
    (("list", "hardware", "--sort", "memry"), "no column named 'memry'; did you mean 'memory_bytes'"),
    (
        ("solve", *LLAMA, "--find", "batc", "--target", "1"),
        "no quantity to solve for named 'batc'; did you mean 'batch'",
    ),
    (("solve", *LLAMA, "--find", "batch", "--metric", "tpott"), "no metric named 'tpott'; did you mean 'tpot'"),
    (("solve", *LLAMA, "--find", "batch"), "solve needs a target for the metric, as in --metric tpot --target 30ms"),
    (("solve", *LLAMA, "--find", "batch", "--target", "soon"), "target must be a finite number"),
    (("sensitivity", *LLAMA, "--phase", "mixed"), "no pass named 'mixed'"),
    (("visible", *LLAMA, "--buffer", "x"), "buffer must be an integer >= 1: 'x'"),
    (("mode-switch", *LLAMA, "--decode-cost", "0"), "--decode-cost must be above 0: 0"),
    (("list", "prices", "--hardware", "h101"), "no accelerator named 'h101'"),
    (("plot", *LLAMA, "-o", "roofline.bmp"), "the file name of a plot must end in .png, .svg or .pdf: 'roofline.bmp'"),
    (("analyze", *LLAMA, "--part", "lm_head"), "--part takes PART=FORMAT, such as lm_head=fp8: 'lm_head'"),
    (("analyze", *LLAMA, "--part", "head=fp8"), "no part of a model named 'head'"),
    (("analyze", *LLAMA, "--time", "best"), "no time named 'best'"),
    (
        ("analyze", "gpt-2", "--hardware", "8xh100-sxm", "--tp", "4"),
        "--hardware asks for 8 accelerators, but the layout",
    ),
    (("explain", *LLAMA, "--batch", "1,8"), "this command takes one value per option: --batch lists several"),
    (("plot", *LLAMA, "-o", "roofline"), "the file name of a plot must end in .png, .svg or .pdf: 'roofline'"),
]


def refused(*args):
    """The one line on stderr of a command that prints nothing else and ends with 2."""
    done = run(*args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("roofline: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize(("args", "message"), BAD, ids=[" ".join(args) for args, _ in BAD])
def test_bad_input_is_one_line(args, message):
    assert message in refused(*args)
    if args[0] != "plot":
        assert message in refused(*args, "--json")


HUGE = [
    ("analyze", "gpt-2", "--hardware", "h100-sxm", "--batch", "1e150"),
    ("analyze", "a" * 300, "--hardware", "h100-sxm"),
    ("analyze", "/dev/zero", "--hardware", "h100-sxm"),
    ("plan", "gpt-2", "--hardware", "h100-sxm", "--gpus", "1e9"),
    ("plan", "gpt-2", "--hardware", "h100-sxm", "--gpus", "1e15"),
]


@pytest.mark.parametrize("args", HUGE, ids=lambda args: " ".join(args)[:40])
def test_huge_values_and_names_are_one_line(args):
    assert refused(*args)


@pytest.mark.parametrize("batch", ["9223372036854775808", "1e18", "1e30"])
def test_large_counts_have_an_answer(batch):
    assert "sequences fit at once" in " ".join(
        text("analyze", "gpt-2", "--hardware", "h100-sxm", "--batch", batch).split()
    )


def test_bad_paths_are_one_line(tmp_path):
    binary, folder = tmp_path / "binary.yaml", tmp_path / "folder.yaml"
    binary.write_bytes(bytes(range(256)))
    folder.mkdir()
    assert "is not a text file" in refused("analyze", binary, "--hardware", "h100-sxm")
    assert "folder.yaml" in refused("analyze", folder, "--hardware", "h100-sxm")
    assert "missing.yaml can't be read" in refused("analyze", tmp_path / "missing.yaml", "--hardware", "h100-sxm")
    assert "is not a text file" in refused("analyze", "gpt-2", "--hardware", binary)
    assert "cannot write" in refused("plot", *LLAMA, "-o", tmp_path / "nowhere" / "roofline.svg")


USAGE = [
    (("analyze",), "analyze needs MODEL; see `roofline analyze --help`"),
    (("analyze", "gpt-2"), "analyze needs --hardware; see"),
    (("analyze", "gpt-2", "--hardware"), "--hardware needs a value; see"),
    (("analyse",), "no command named 'analyse'; did you mean 'analyze'?; see `roofline --help`"),
    (("list", "modells"), "no command named 'modells'; did you mean 'models'?; see `roofline list --help`"),
    (("analyze", *LLAMA, "--bach", "3"), "unknown option --bach; did you mean --batch?; see"),
    (("analyze", *LLAMA, "--batch", "1", "--batch", "2"), "--batch is given twice; write several values as one list"),
    (("analyze", *LLAMA, "more"), "unexpected argument 'more'; separate several values with commas"),
]


@pytest.mark.parametrize(("args", "message"), USAGE, ids=[" ".join(args) for args, _ in USAGE])
def test_wrong_usage_is_one_line(args, message):
    assert message in refused(*args)


def test_no_arguments_show_the_help():
    done = run()
    assert (done.exit_code, done.stderr) == (2, "")
    assert done.stdout == text("--help")


COMMANDS = [
    ("--help",),
    ("analyze", "--help"),
    ("what-if", "--help"),
    ("explain", "--help"),
    ("plot", "--help"),
    ("list", "models", "--help"),
    ("analyze", *LLAMA),
    ("analyze", *LLAMA, "--batch", "100000000", "--context", "10000000"),
    ("analyze", "mixtral-8x7b", "--hardware", "mi300x", "--weights", "int4_g128"),
    (
        "what-if",
        *LLAMA,
        "--to-weights",
        "fp8_block",
        "--to-activations",
        "fp8",
        "--to-hardware",
        "b200-sxm",
        "--to-batch",
        "1024",
    ),
    ("explain", *LLAMA),
    ("explain", *LLAMA, "--phase", "prefill"),
    ("list", "models"),
    ("list", "models", "--full"),
    ("list", "hardware"),
    ("list", "formats"),
    ("list", "techniques"),
    ("list", "prices", "--hardware", "l4"),
    ("analyze", *LLAMA, "--full"),
    ("analyze", *LLAMA, "--batch", "1,8,64", "--context", "1k,32k,128k"),
    ("what-if", *LLAMA, "--to-tp", "2,4,8", "--to-engine", "vllm,sglang"),
    ("solve", *LLAMA, "--find", "batch", "--metric", "tpot", "--target", "60ms"),
    ("sensitivity", *LLAMA),
    ("techniques", "llama-3.1-8b", "--hardware", "h100-sxm"),
]


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_text_keeps_to_80_columns_and_cuts_nothing(args):
    shown = text(*args)
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    assert "\x1b" not in shown
    assert not any(line.endswith(" ") for line in shown.splitlines())


def test_narrow_terminals_get_every_number_whole():
    wide, narrow = (text("analyze", *LLAMA, "--full", columns=columns) for columns in (120, 60))
    numbers = [word for line in wide.splitlines() for word in line.split() if word[0].isdigit()]
    assert len(numbers) > 60
    assert all(number in narrow.split() for number in numbers)


def test_json_is_all_of_stdout():
    done = run("analyze", *LLAMA, "--batch", "7", "--json")
    assert done.stdout.startswith("{\n")
    assert done.stdout.endswith("}\n")
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("flag", "default"),
    [
        ("--batch N", f"{rl.Workload.batch:,}"),
        ("--prompt N", f"{rl.Workload.prompt_tokens:,}"),
        ("--output N", f"{rl.Workload.output_tokens:,}"),
        ("--weights FORMAT", f"the checkpoint's, else {rl.Precision.weights}"),
        ("--activations FORMAT", f"the checkpoint's, else {rl.Precision.activations}"),
        ("--kv FORMAT", f"the checkpoint's, else {rl.Precision.kv}"),
        ("--tp N", f"{rl.Parallel.tensor}"),
    ],
)
def test_help_names_the_defaults_of_the_library(flag, default):
    words = " ".join(text("analyze", "--help").split())
    after = words.split(f" {flag} ")[1]
    assert after.split("[default: ")[1].split("]")[0] == default


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("analyze", "lla"), "llama-3.1-8b"),
        (("analyze", "gpt-2", "--hardware", "h"), "h100-sxm"),
        (("what-if", "gpt-2", "--to-weights", "f"), "fp8"),
        (("what-if", "gpt-2", "--technique", "s"), "prefix-caching"),
        (("plan", "gpt-2", "--time", "f"), "floor"),
    ],
    ids=" ".join,
)
def test_the_shell_completes_names(words, offered):
    assert offered in text("__complete", *words).splitlines()


def test_version():
    assert text("--version") == f"roofline {rl.__version__}\n"


def test_python_m_roofline_is_the_same_program():
    environment = os.environ | {"COLUMNS": "80"}
    done = program("analyze", *LLAMA, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == text("analyze", *LLAMA)
    refused_too = program("analyze", *LLAMA, "--batch", "0", env=environment)
    assert (refused_too.returncode, refused_too.stdout) == (2, "")
    assert refused_too.stderr == "roofline: --batch must be an integer >= 1: 0\n"


@pytest.mark.parametrize("args", [("analyze", *LLAMA), ("explain", *LLAMA, "--phase", "prefill")], ids=" ".join)
def test_a_reader_that_goes_away_is_no_error_to_speak_of(args):
    command = [sys.executable, "-m", "roofline", *args]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=buffered) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode != 0


def test_output_that_can_not_be_written_is_one_line():
    command = [sys.executable, "-m", "roofline", "analyze", *LLAMA]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "roofline: cannot write the answer: No space left on device\n")


def test_closed_output_is_one_line():
    command = f"'{sys.executable}' -m roofline analyze {' '.join(LLAMA)} >&-"
    done = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "roofline: standard output is closed\n")


def test_ascii_terminals_get_lookalikes():
    rows = program("list", "models", env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert (rows.returncode, rows.stderr) == (0, "")
    what_if = program("what-if", *LLAMA, "--power-limit", "450", env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert (what_if.returncode, what_if.stderr) == (0, "")
    assert ["power", "limit", "-", "450", "W"] in [line.split() for line in what_if.stdout.splitlines()]


@pytest.mark.parametrize("columns", [0, 1, 40, "wide"])
@pytest.mark.parametrize("args", [("what-if", "--help"), ("analyze", *LLAMA), ("list", "hardware")])
def test_odd_widths_lose_no_digit(args, columns):
    odd, usual = (Counter(filter(str.isdigit, shown)) for shown in (text(*args, columns=columns), text(*args)))
    assert usual
    assert not usual - odd


def test_analyze_loads_neither_matplotlib_nor_pandas():
    code = (
        "import sys; from roofline.cli import main\n"
        "sys.argv = ['roofline', 'analyze', 'gpt-2', '--hardware', 'h100-sxm']\n"
        "try: main()\n"
        "finally: print(sorted({'matplotlib', 'pandas'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "[]\n")


def test_a_layout_and_an_engine_reach_the_library(serve):
    found = answer("analyze", *LLAMA, "--tp", 4, "--dp", 2, "--engine", "vllm")
    spread = serve.replace(parallel=rl.Parallel(tensor=4, data=2), engine="vllm")
    assert found["decode"] == rl.decode(spread, rl.Workload()).to_dict()
    assert found["memory"] == rl.memory(spread, rl.Workload()).to_dict()
    assert (found["parallel"]["tensor"], found["engine"]) == (4, "vllm")


def test_fit_says_yes_or_no_in_one_sentence():
    asked = ("fit", "llama-3.1-8b", "--hardware", "h100-sxm", "--engine", "vllm", "--length", "8192")
    assert max(map(len, text(*asked).splitlines())) <= 80
    yes = " ".join(text(*asked).split())
    need = rl.memory(rl.Deployment("llama-3.1-8b", "h100-sxm", engine="vllm"), rl.Workload(8191, 1))
    assert yes == need.fit()
    assert yes.startswith("Yes: ")
    assert f"{need.cache_tokens:,.0f} tokens of cache, {need.max_batch} sequences of 8,192" in yes
    no = " ".join(text("fit", "llama-3.1-70b", "--hardware", "h100-sxm").split())
    assert no.startswith("No: llama-3.1-70b does not fit on one h100-sxm")
    assert "it fits with fp8 weights" in no


def test_fit_leaves_out_what_it_is_told_to():
    whole, bare = (
        answer("fit", "qwen3.6-27b", "--hardware", "h100-sxm", *more)
        for more in ((), ("--leave-out", "towers,prediction"))
    )
    assert whole["weights_bytes"] - bare["weights_bytes"] == pytest.approx(1.77e9, abs=1e7)
    assert len(answer("fit", "llama-3.1-8b", "--hardware", "l4,h100-sxm", "--length", "4k,8k")) == 4


def test_another_layout_of_counted_hardware_is_over_another_number_of_accelerators():
    found = answer("what-if", "llama-3.1-70b", "--hardware", "2xh100-sxm", "--to-tp", "4")
    assert (found["before"]["parallel"]["tensor"], found["after"]["parallel"]["tensor"]) == (2, 4)
    table = text("what-if", "llama-3.1-70b", "--hardware", "2xh100-sxm", "--to-tp", "2,4,8")
    assert [line.split()[0] for line in table.splitlines() if line.startswith("  ")][1:] == ["before", "2", "4", "8"]


@pytest.mark.parametrize(
    "lists",
    [
        ("--batch", "1,8,64"),
        ("--context", "1k,32k,128k"),
        ("--hardware", "h100-sxm,l40s,mi300x", "--batch", "1,8"),
        ("--hardware", "h100-sxm,l40s", "--batch", "1,8", "--prompt", "1k,128k"),
    ],
    ids=" ".join,
)
def test_lists_give_a_table_of_80_columns(lists):
    """One line a point, below the heads: nothing is stacked, and nothing wraps."""
    hardware = () if "--hardware" in lists else ("--hardware", "h100-sxm")
    shown = text("analyze", "llama-3.1-8b", *hardware, *lists).splitlines()
    points = 1
    for values in lists[1::2]:
        points *= len(values.split(","))
    rows = [line for line in shown if line.startswith("  ")]
    assert len(rows) == 1 + points
    assert max(map(len, shown)) <= 80


def test_settings_of_the_engine_are_typed_by_name():
    asked = ("fit", "llama-3.1-8b", "--hardware", "h100-sxm", "--engine", "vllm")
    usual = answer(*asked, "--engine-setting", "version=0.20.0")
    changed = answer(*asked, "--engine-setting", "version=0.20.0,eager=true", "--engine-setting", "max_sequences=64")
    engine = rl.Engine("vllm", version="0.20.0", eager=True, max_sequences=64)
    need = rl.memory(rl.Deployment("llama-3.1-8b", "h100-sxm", engine=engine), rl.Workload(8191, 1))
    assert changed["pool_bytes"] == need.pool_bytes > usual["pool_bytes"]
    for wrong, words in (
        (("--engine-setting", "eager"), "--engine-setting takes NAME=VALUE"),
        (("--engine-setting", "eagre=true"), "did you mean 'eager'"),
        (("--engine-setting", "eager=7"), "eager must be true or false: 7"),
    ):
        done = run(*asked, *wrong)
        assert done.exit_code == 2
        assert words in done.stderr
    assert "--engine-setting needs --engine" in run(*asked[:4], "--engine-setting", "eager=true").stderr
