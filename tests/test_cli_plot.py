"""``roofline plot KIND``: every kind writes a picture, and what it cannot draw is said in one line."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from command_line import run, text

from roofline.cli.plot_kinds import PLOTS


def refused(*args):
    """The one line of a refusal."""
    done = run(*args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("roofline: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


H100 = ("llama-3.1-8b", "--hardware", "h100-sxm")
RUN = (*H100, "--engine", "vllm", "--rate", "9", "--requests", "60")

ARGUMENTS = {
    "roofline": H100,
    "rooflines": ("h100-sxm,l4", "mi300x"),
    "time-breakdown": (*H100, "--batch", "1,64"),
    "memory-stack": (*H100, "--tp", "1,2"),
    "curves": (*H100, "--phase", "prefill", "--prompt", "500,1k,4k"),
    "throughput": ("llama-3.1-8b", "--hardware", "h100-sxm,l40s", "--weights", "bf16,fp8"),
    "kv": ("llama-3.1-8b", "deepseek-v3", "--context", "1k,32k"),
    "heatmap": (*H100, "--tpot", "20ms", "--batch", "1,8", "--context", "1k,8k"),
    "waterfall": (*H100, "--to-weights", "fp8"),
    "techniques": H100,
    "tornado": H100,
    "timeline": RUN,
    "queue": RUN,
    "pareto": ("llama-3.1-8b", "--hardware", "l4", "--gpus", "1"),
    "cost": (*H100, "--gpus", "1", "--prices", "h100-sxm=$2.5", "--rate", "20", "--api", "$0.5"),
    "hierarchy": ("4096", "4k", "4096", "--hardware", "a100-sxm-80gb"),
    "phase-map": H100,
    "by-year": ("--vendor", "AMD"),
}


@pytest.mark.parametrize("kind", PLOTS)
def test_every_kind_writes_a_picture(kind, tmp_path):
    file = tmp_path / f"{kind}.png"
    assert text("plot", kind, *ARGUMENTS[kind], "-o", file).split() == ["wrote", str(file)]
    assert plt.imread(file).shape[1] == 1200  # 6 inches at 200 dots
    assert plt.get_fignums() == []


def test_an_svg_is_dark_where_that_is_asked(tmp_path):
    file = tmp_path / "dark.svg"
    text("plot", "roofline", *H100, "--dark", "--width", "8", "-o", file)
    drawn = file.read_text()
    assert "#14161a" in drawn
    assert 'width="576pt"' in drawn
    text("plot", "roofline", *H100, "-o", file)
    assert "#14161a" not in file.read_text()


def test_without_a_kind_the_roofline_is_drawn(tmp_path):
    both = [tmp_path / "one.png", tmp_path / "two.png"]
    text("plot", *H100, "-o", both[0])
    text("plot", "roofline", *H100, "-o", both[1])
    assert np.array_equal(*map(plt.imread, both))


def test_other_forms_of_curves_and_waterfalls(tmp_path):
    file = tmp_path / "x.svg"
    for arguments in (
        ("curves", *H100),
        ("curves", *H100, "--column", "tokens-per-s"),
        ("curves", *H100, "--rate", "1,2,4", "--column", "ttft"),
        ("waterfall", *H100, "--to-kv", "fp8", "--phase", "memory"),
        ("waterfall", *H100, "--technique", "quantization,speculative"),
    ):
        assert "wrote" in text("plot", *arguments, "-o", file)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rofline", *H100), "no plot named 'rofline'; did you mean 'roofline'"),
        (("nonsense", *H100[1:]), "no model named 'nonsense'"),
        (("curves", *H100, "--batch", "1,2", "--context", "1k,2k"), "not --batch and --context"),
        (("curves", *H100, "--column", "speed"), "no column of a pass named 'speed'"),
        (("curves", *H100, "--phase", "both"), "no pass named 'both'"),
        (("queue", *H100), "needs a load: --rate or --concurrency"),
        (("roofline", "llama-3.1-8b", "--hardware", "h100-sxm,l4"), "takes one accelerator, not h100-sxm, l4"),
        (("waterfall", *H100), "plot waterfall needs a change"),
        (("waterfall", *H100, "--to-weights", "fp8", "--phase", "all"), "no answer named 'all'"),
        (("rooflines",), "rooflines takes 1 to 8 accelerators, not 0"),
        (("kv",), "kv needs at least one model"),
        (("cost", *H100, "--rate", "20"), "cost needs prices"),
        (("tornado", *H100, "--width", "0.5"), "--width must be 2 to 30 inches: 0.5"),
        (("heatmap", "llama-3.1-70b", "--hardware", "l4"), "no batch and context of the heatmap fit"),
    ],
)
def test_what_cannot_be_drawn_is_said_in_one_line(arguments, message, tmp_path):
    file = tmp_path / "x.png"
    assert message in refused("plot", *arguments, "-o", file)
    assert not file.exists()


def test_a_file_is_checked_before_anything_is_computed():
    assert "must end in .png, .svg or .pdf: 'x.bmp'" in refused("plot", "techniques", *H100, "-o", "x.bmp")
    assert "plot queue needs --file" in refused("plot", "queue", *RUN)
