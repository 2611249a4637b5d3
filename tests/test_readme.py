"""The README's examples run."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"))
def test_python_examples_run(code, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {}
    exec(compile(code, "README.md", "exec"), scope)
    plt.close("all")
    assert scope["step"].limit == "memory"
    assert f"{1e3 * scope['step'].floor_s:.1f} ms at best, about {1e3 * scope['step'].estimate_s:.0f} ms" in code
    assert f"# {scope['rl'].memory(scope['serve'], scope['load']).max_batch:.0f} sequences of this length fit" in code
    assert (tmp_path / "roofline.png").stat().st_size > 10_000
    assert "floor_s = max(" in capsys.readouterr().out


def test_the_two_commands_come_first():
    first, second = blocks("bash")[:2]
    assert first.rstrip().endswith("roofline analyze llama-3.1-70b --hardware 2xh100-sxm")
    assert second.rstrip().endswith("pytest")
    assert "sudo" not in first + second


def test_counts_are_true():
    """The kernel timings are those of the first table; later ones also have rows of a count and a zero."""
    page = (Path(__file__).parents[1] / "benchmarks/floors.md").read_text("utf-8")
    table = page.split("| kernels | rows |")[1].split("\n\n")[0]
    floors = re.findall(r"^\| \w+ \| ([\d,]+) \| 0 \|", table, re.MULTILINE)
    assert len(floors) == 7
    assert f"{sum(int(rows.replace(',', '')) for rows in floors):,} kernel timings" in README


def test_linked_files_exist():
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(links) > 5
    assert [link for link in links if not (Path(__file__).parents[1] / link).exists()] == []
