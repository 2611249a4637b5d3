"""`roofline headroom` reads a result file and says what the library says of it."""

from pathlib import Path

import pytest
from command_line import answer, run, text

import roofline as rl

DATA = Path(__file__).parent / "data" / "results"
RUN = DATA / "vllm_serve/v0.11_closed_loop.json"
RAN = ("--model", "llama-3.1-8b", "--hardware", "h100-sxm", "--engine", "vllm")
KERNELS = DATA / "kernels/nsys_cuda_gpu_kern_sum.csv"


@pytest.fixture
def ran(h100):
    return rl.Deployment(rl.get_model("llama-3.1-8b"), h100, engine="vllm")


def words(*args):
    return " ".join(text(*args).split())


def test_headroom_is_the_library(ran):
    found = answer("headroom", RUN, *RAN)
    assert found["results"] == [each.to_dict() for each in rl.measured.headroom_of_file(RUN, ran)]
    assert (found["model"], found["engine"]) == ("llama-3.1-8b", "vllm")


def test_the_answer_of_a_run_comes_first(ran):
    [found] = rl.measured.headroom_of_file(RUN, ran)
    shown = words("headroom", RUN, *RAN)
    for row in found.phases:
        assert row.sentence[1:] in shown
        assert shown.index(row.sentence[1:]) < shown.index("MFU")
    step = found.phase("decode")
    # The file's median TPOT, 7.405 ms; the floor moves 15.0 GB of weights at 3.35 TB/s.
    assert "decode 7.4 ms 4.52 ms" in shown
    assert f"{step.share_of_floor:.0%}" in shown
    assert "Time above the floor" in words("headroom", RUN, *RAN, "--full")


def test_a_run_is_compared_with_the_time_that_is_asked_for(ran):
    [found] = rl.measured.headroom_of_file(RUN, ran)
    shown = words("headroom", RUN, *RAN, "--time", "estimate")
    step = found.phase("decode")
    assert "time: estimate" in shown
    assert f"{step.measured_s / step.estimate_s:.2f} times the estimate" in shown
    assert "of estimate" in shown
    assert f"{step.share_of_estimate:.0%}" in shown


def test_several_runs_have_a_row_each(ran):
    file = DATA / "vllm_serve/v0.11_append_result.json"
    found = rl.measured.headroom_of_file(file, ran)
    lines = [line.split() for line in text("headroom", file, *RAN).splitlines()]
    for at, each in enumerate(found, 1):
        [row] = [line for line in lines if line[:2] == [f"{at}", "decode"]]
        assert f"{each.phase('decode').mbu:.0%}" in row
    assert "3 runs in v0.11_append_result.json" in words("headroom", file, *RAN)
    assert words("headroom", file, *RAN, "--full").count("Notes") == 3


def test_a_beaten_floor_has_reasons():
    """The file is of a 4-bit checkpoint and the deployment is said to be in bf16."""
    file = DATA / "llama_bench/bench.json"
    ran = ("--model", "llama-3.1-8b", "--hardware", "rtx-4090")
    assert "Faster than the floor: run 2 (decode)" in words("headroom", file, *ran)
    full = words("headroom", file, *ran, "--full")
    assert "Why decode may beat its floor, most likely reason first" in full
    # 6.738 ms at 1.008 TB/s are 6.8 GB; the file states 4.9 GB of weights.
    assert "the memory of 1 x rtx-4090 moves 6.79" in full
    assert "the file states 4.913 GB of weights, the deployment has 16.06 GB" in full


def test_a_profile_of_kernels_is_held_against_its_operators(ran):
    options = ("--batch", 4, "--prompt", 256, "--steps", 2)
    found = answer("headroom", KERNELS, *RAN, *options)
    [profile] = rl.measured.read(KERNELS)
    expected = rl.headroom(ran, profile, load=rl.Workload(256, batch=4), steps=2)
    [result] = found["results"]
    assert {name: result[name] for name in expected.columns} == expected.to_dict()
    shown = text("headroom", KERNELS, *RAN, *options)
    kinds = [line.split()[0] for line in shown.splitlines() if line.endswith(" memory")]
    assert kinds == ["matmul", "attention", "elementwise", "lookup"]
    # 123.3 us of GEMM kernels over two passes
    assert "61.7 us" in shown


def test_a_run_is_drawn_under_the_roofline(tmp_path):
    picture = tmp_path / "run.svg"
    shown = text("headroom", RUN, *RAN, "-o", picture)
    assert shown == text("headroom", RUN, *RAN)
    assert "<svg" in picture.read_text("utf-8")[:1000]
    profiled = tmp_path / "kernels.png"
    text("headroom", KERNELS, *RAN, "--batch", "4", "--steps", "2", "-o", profiled)
    assert profiled.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((RUN, "--hardware", "h100-sxm"), "headroom needs --model"),
        ((KERNELS, *RAN), "contains no shapes; give the load (batch and prompt tokens) and the phase"),
        ((KERNELS, *RAN, "--batch", "8"), "not a multiple of 32 layers; give steps"),
        ((KERNELS, *RAN, "--batch", "8", "--phase", "both"), "no phase named 'both'"),
        ((DATA / "README.md", *RAN), "has an unknown format"),
        ((DATA / "missing.json", *RAN), "missing.json can't be read"),
        ((RUN, *RAN, "-o", "run.txt"), "the file name of a plot must end in"),
        ((DATA / "dcgm/dmon.txt", *RAN), "shares of the peaks already"),
    ],
    ids=str,
)
def test_bad_input_is_one_line(args, says):
    done = run("headroom", *args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "args",
    [
        ("--help",),
        (RUN, *RAN),
        (RUN, *RAN, "--full"),
        (DATA / "vllm_serve/v0.11_append_result.json", *RAN),
        (KERNELS, *RAN, "--batch", "4", "--steps", "2"),
    ],
    ids=str,
)
def test_text_keeps_to_80_columns(args):
    assert max(map(len, text("headroom", *args).splitlines())) <= 80
