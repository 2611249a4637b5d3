"""Notebooks are short, hold no logic and no outputs; that they run is checked by executing them."""

import ast
import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def cells(request):
    return json.loads(request.param.read_text(encoding="utf-8"))["cells"]


def code_of(cells):
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_there_are_notebooks():
    assert NOTEBOOKS


def test_outputs_are_stripped(cells):
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells if "outputs" in cell)


def test_it_can_be_read_in_one_sitting(cells):
    assert len(cells) <= 15
    assert max(len(code.splitlines()) for code in code_of(cells)) <= 6


def test_it_opens_with_a_question_and_asserts_numbers(cells):
    assert cells[0]["cell_type"] == "markdown"
    assert "?" in "".join(cells[0]["source"])
    assert any("assert" in code for code in code_of(cells))


def test_no_logic(cells):
    trees = [ast.parse(code.replace("%", "#")) for code in code_of(cells)]
    kinds = (ast.ClassDef, ast.While, ast.Try)
    assert not [node for tree in trees for node in ast.walk(tree) if isinstance(node, kinds)]
