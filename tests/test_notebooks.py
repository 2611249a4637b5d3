"""Notebooks are short and hold no logic, and a new run gives the outputs that they are committed with."""

import ast
import importlib.util
import json
import warnings
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def runner():
    """The script that executes notebooks."""
    spec = importlib.util.spec_from_file_location("run_notebooks", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request):
    return request.param


@pytest.fixture
def cells(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def code_of(cells):
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_there_are_seven():
    assert [path.name[:2] for path in NOTEBOOKS] == [f"{number:02}" for number in range(1, 8)]


def test_a_new_run_shows_the_same_text(path):
    """If numbers changed for a good reason: ``python notebooks/run.py``, and read the prose again."""
    run = runner()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the notebook machinery, not of this package
        fresh = run.executed(path)
        stored = run.nbformat.read(path, as_version=4)
    for old, new in zip(stored.cells, fresh.cells, strict=True):
        assert run.texts(new) == run.texts(old), f"cell {new['id']}"


def test_it_is_committed_with_outputs(cells):
    shown = [output for cell in cells for output in cell.get("outputs", [])]
    figures = [output for output in shown if "image/png" in output.get("data", {})]
    assert len(figures) >= 2
    assert not [output for output in shown if output["output_type"] == "error"]


def test_it_can_be_read_in_one_sitting(cells):
    assert len(cells) <= 20
    assert max(len(code.splitlines()) for code in code_of(cells)) <= 9


def test_it_opens_with_a_question_and_asserts_numbers(cells):
    assert cells[0]["cell_type"] == "markdown"
    assert "?" in "".join(cells[0]["source"])
    assert any("assert" in code for code in code_of(cells))


def test_it_ends_with_a_takeaway_and_folded_answers(cells):
    prose = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    assert "Takeaway" in prose[-1]
    assert prose[-1].count("<details><summary>") == prose[-1].count("</details>") >= 3


def test_no_logic(cells):
    trees = [ast.parse(code.replace("%", "#") if code.startswith("%") else code) for code in code_of(cells)]
    kinds = (ast.ClassDef, ast.While, ast.Try)
    nodes = [node for tree in trees for node in ast.walk(tree)]
    assert not [node for node in nodes if isinstance(node, kinds)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    assert not [node.name for node in functions if node.end_lineno - node.lineno > 5]
