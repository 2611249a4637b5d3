"""One printer of text and one of HTML for every result."""

import ast
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import roofline as rl
from roofline.report import Report, Rows, plain
from roofline.report.tables import html_table, text_table

SRC = Path(rl.__file__).parent
LOAD = rl.Workload(500, 50)


def serve():
    return rl.Deployment("llama-3.1-8b", "h100-sxm")


def results():
    step = rl.decode(serve(), LOAD)
    found = rl.plan("llama-3.1-8b", ["h100-sxm", "l4"], LOAD, slo=rl.SLO(tpot_s=0.05))
    return {
        "phase": step,
        "sweep": rl.decode(serve(), rl.Workload(batch=np.arange(1, 9))),
        "bound": step.operators[0],
        "generation": rl.generate(serve(), LOAD),
        "memory": rl.memory(serve(), LOAD),
        "comparison": rl.compare(step, rl.decode(serve(), rl.Workload(batch=8))),
        "ridges": rl.ridge_table(vendor="NVIDIA"),
        "techniques": rl.technique_table(serve(), LOAD),
        "plan": found,
        "fleet": rl.fleet(found, requests_per_s=10),
        "model": rl.get_model("gpt-2"),
        "advice": rl.advise(serve(), [(1500, 300)], batches=(1, 8)),
    }


RESULTS = results()


class Cells(HTMLParser):
    """Text of the cells of a table, and whether its tags are balanced."""

    def __init__(self, page):
        super().__init__()
        self.open, self.rows = [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def test_columns_are_aligned_and_no_line_ends_in_blanks():
    lines = text_table([("a", "longer cell", ""), ("much longer", "b", "c")], head=("x", "y", "z"), indent=2)
    assert lines == [
        "  x            y            z",
        "  a            longer cell",
        "  much longer  b            c",
    ]
    assert text_table([]) == []
    assert text_table([], head=("x", "y")) == ["x  y"]


def test_html_escapes_every_cell_head_caption_and_note():
    page = html_table([["<td>&", "b"]], head=["<i>", "y"], caption="<script>", notes=["<b>bold</b>"])
    for tag in ("<i>", "<script>", "<b>"):
        assert tag not in page
    assert Cells(page).rows == [["<i>", "y"], ["<td>&", "b"]]


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_prints_and_its_html_is_well_formed(name):
    text, page = repr(RESULTS[name]), RESULTS[name]._repr_html_()
    assert text.strip()
    assert all(line == line.rstrip() for line in text.splitlines())
    Cells(page)


@pytest.mark.parametrize("name", ["comparison", "ridges", "techniques", "plan", "fleet", "phase", "memory"])
def test_text_and_html_have_the_same_cells(name):
    result = RESULTS[name]
    words = " ".join(repr(result).split())
    for row in Cells(result._repr_html_()).rows:
        line = " ".join(" ".join(row).split())
        assert line in words


def test_a_long_table_says_how_many_rows_are_left_out():
    plan = RESULTS["plan"]
    shown = Rows.shown
    assert len(plan) > shown
    assert f"... and {len(plan) - shown:,} more rows" in repr(plan)
    assert len(Cells(plan._repr_html_()).rows) == 1 + shown
    assert "more rows" not in repr(plan.take(np.arange(shown)))


def test_what_is_not_known_is_a_dash_in_text_and_none_in_rows():
    plan = RESULTS["plan"].take([0])
    assert plan.rows()[0]["usd_per_request"] is None
    assert "–" in repr(plan)


def test_rows_are_the_columns_as_plain_types():
    for name in ("ridges", "plan", "fleet"):
        result = RESULTS[name]
        assert isinstance(result, Rows)
        assert [list(row) for row in result.rows()] == [list(result.columns)] * len(result)
        assert [row[result.columns[0]] for row in result.rows()] == plain(getattr(result, result.columns[0]))


def test_nobody_else_prints_tables():
    """Alignment and table tags stand in one file; the command line fits its own to the terminal."""
    elsewhere = {
        str(path.relative_to(SRC))
        for path in SRC.rglob("*.py")
        if path.name != "tables.py" and "cli" not in path.parts and _prints_a_table(path)
    }
    assert elsewhere == set()


def _prints_a_table(path):
    tree = ast.parse(path.read_text("utf-8"))
    calls = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return bool(calls & {"ljust", "rjust"}) or any("<td>" in text or "<tr>" in text for text in texts)


def test_a_report_without_columns_prints_its_name():
    class Empty(Report):
        pass

    assert repr(Empty()) == "Empty"
