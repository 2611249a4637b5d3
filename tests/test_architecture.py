"""The shape of the package: one direction of imports, light imports, honest names, documented arguments."""

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np
import pytest

import roofline as rl
from roofline.values import Value

SRC = Path(rl.__file__).parent
ROOT = SRC.parent

ORDER = """
    errors tracing arrays units values report yaml_values files formats hardware
    operators
    model
    huggingface
    specs
    efficiency
    phases
    footprint
    serving
    analysis
    techniques
    capacity
    advisor
    measured
    teaching
    plot
    cli
    app
"""
LAYERS = ORDER.split()


def imported(path):
    """Modules of the package that the file at ``path`` imports when it is loaded or run, by their first name."""
    package = path.relative_to(SRC).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level > len(package):
            names = [node.module] if node.module else [alias.name for alias in node.names]
            yield from (name.split(".")[0] for name in names)


@pytest.mark.parametrize("path", sorted(SRC.rglob("*.py")), ids=lambda path: str(path.relative_to(SRC)))
def test_imports_point_down(path):
    top = path.relative_to(SRC).parts[0].removesuffix(".py")
    if top.startswith("__"):
        return
    assert top in LAYERS, f"{top} has no place in the order of layers"
    above = set(LAYERS[LAYERS.index(top) :]) - {top}
    assert not above & set(imported(path))


DESCRIBE_THEIR_CALLER = {
    "analysis/solution_sentence": "a solution in a sentence",
    "capacity/plan_sentences": "plans, fleets and pools in sentences",
    "capacity/plan_steps": "derivations of plans and fleets",
    "footprint/fit_in_words": "memory in sentences",
    "footprint/memory_steps": "derivation of a footprint",
    "model/counting": "a model in lines",
    "phases/energy": "power and energy of a pass, computed from its sums",
    "phases/pass_sentences": "passes and generations in sentences",
    "serving/load_sentences": "servers under load in sentences",
    "techniques/effect_sentence": "an effect in a sentence",
}
"""Files with functions that a result calls with itself: their annotations name its class, and nothing at run time."""


def imports_of_files(path):
    """Every import of the package in a file, inside functions too: the other file, and whether types alone need it."""
    package = path.relative_to(SRC).parts[:-1]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    guards = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    typed = {id(node) for guard in guards for node in ast.walk(guard)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and 0 < node.level <= len(package) + 1:
            parent = [*package[: len(package) + 1 - node.level], *(node.module or "").split(".")]
            base = SRC.joinpath(*filter(None, parent))
            for alias in node.names:
                for found in (base / f"{alias.name}.py", base / alias.name / "__init__.py", base.with_suffix(".py")):
                    if found.exists():
                        yield str(found.relative_to(SRC).with_suffix("")), id(node) in typed
                        break
                else:
                    yield str((base / "__init__").relative_to(SRC)), id(node) in typed


def test_no_file_imports_another_that_needs_it():
    """Imports inside functions count, and so do those for types alone, but for files which describe their caller."""
    graph, for_types = {}, set()
    for path in SRC.rglob("*.py"):
        name = str(path.relative_to(SRC).with_suffix(""))
        found = list(imports_of_files(path))
        graph[name] = {other for other, typed in found if not (typed and name in DESCRIBE_THEIR_CALLER)} - {name}
        for_types |= {name} if any(typed for _, typed in found) else set()
    TopologicalSorter(graph).prepare()  # raises CycleError, whose message lists the files
    assert set(DESCRIBE_THEIR_CALLER) <= for_types


def test_import_is_light():
    heavy = "{'numpy', 'matplotlib', 'pandas', 'pydantic', 'yaml', 'cyclopts', 'rich'}"
    code = f"import roofline, sys; print(*sorted(set(sys.modules) & {heavy}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_phase_needs_neither_matplotlib_nor_pandas():
    code = (
        "import roofline as rl, sys; s = rl.Deployment(rl.get_model('gpt-2'), rl.get_accelerator('h100-sxm'));"
        "rl.decode(s, rl.Workload()).floor_s;"
        "print(*sorted(set(sys.modules) & {'matplotlib', 'pandas', 'cyclopts', 'rich'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_command_starts_without_what_others_need():
    code = (
        "import sys; from roofline.cli.app import run;"
        "run(['analyze', 'llama-3.1-70b', '--hardware', '2xh100-sxm']);"
        "rooms = {name.split('.')[1] for name in sys.modules if name.startswith('roofline.')};"
        "others = {'matplotlib', 'pandas', 'rich', 'numpy.ma', 'cyclopts.completion'} & set(sys.modules);"
        "print('loaded', *sorted(rooms & {'plot', 'capacity', 'techniques', 'advisor', 'measured', 'app'} | others))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].strip() == "loaded"


def value_classes():
    """Every dataclass of the package that is compared by content."""
    for path in sorted(SRC.rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if path.stem not in ("__init__", "__main__"):
            for found in vars(importlib.import_module(module)).values():
                is_class = inspect.isclass(found) and dataclasses.is_dataclass(found)
                if is_class and found.__module__ == module and issubclass(found, Value):
                    yield found


def test_values_generate_no_comparison_that_is_never_called():
    classes = list(value_classes())
    assert len(classes) > 100
    assert [kind.__name__ for kind in classes if kind.__dataclass_params__.eq] == []


def test_every_public_name_loads_and_none_is_its_module():
    for name in rl.__all__:
        assert getattr(rl, name) is not None
    for name, home in rl._HOME.items():
        assert name != home, f"function {name} would be hidden by its module"
        assert getattr(importlib.import_module(f"roofline.{home}"), name) is getattr(rl, name)


def test_an_unknown_attribute_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = rl.nonsense


def public_functions():
    return [pytest.param(getattr(rl, name), id=name) for name in rl._HOME if inspect.isfunction(getattr(rl, name))]


@pytest.mark.parametrize("function", public_functions())
def test_documented_parameters_exist(function):
    doc = inspect.getdoc(function)
    section = re.search(r"Parameters\n-+\n(.*?)(\n\n|$)", doc, re.DOTALL)
    named = re.findall(r"^(\w[\w, ]*) :", section[1], re.MULTILINE) if section else []
    documented = {name.strip() for line in named for name in line.split(",")}
    assert documented <= set(inspect.signature(function).parameters)
    assert doc.splitlines()[0].endswith(".") or doc.splitlines()[0].endswith(",") or len(doc.splitlines()) > 1


def test_modules_can_be_read_in_one_sitting():
    long = {path.name: n for path in SRC.rglob("*.py") if (n := len(path.read_text("utf-8").splitlines())) > 450}
    assert not long


def test_functions_are_small():
    lengths = {}
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                start = body[0].lineno if body else node.lineno
                lengths[f"{path.name}:{node.name}"] = node.end_lineno - start + 1
    assert np.median(list(lengths.values())) <= 8
    assert {name: length for name, length in lengths.items() if length > 60} == {}


def test_nobody_has_to_decode_an_expression():
    """One conditional in another, three loops in a comprehension, and lambdas in rows get lines of their own."""
    comprehensions = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    found = []
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            parts = (node.test, node.body, node.orelse) if isinstance(node, ast.IfExp) else ()
            loops = len(node.generators) if isinstance(node, comprehensions) else 0
            cells = node.elts if isinstance(node, ast.Tuple | ast.List) else ()
            lambdas = sum(isinstance(part, ast.Lambda) for cell in cells for part in getattr(cell, "elts", [cell]))
            if loops > 2 or lambdas > 1 or any(isinstance(part, ast.IfExp) for part in parts):
                found.append(f"{path.relative_to(SRC)}:{node.lineno}")
    assert found == []


def test_layout_names_are_the_ones_that_readers_look_for():
    for name in ("README.md", "LICENSE", "NOTICE", "CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml", ".ci/run"):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("folder", ["hardware_specs", "model_specs", "notebooks", "benchmarks", "tests"])
def test_layout_has_its_folders(folder):
    assert any((ROOT / folder).iterdir())


def test_no_absolute_path_of_a_machine_is_in_the_package():
    home = os.path.expanduser("~")
    for path in [*SRC.rglob("*.py"), *(ROOT / "hardware_specs").rglob("*.*"), *(ROOT / "model_specs").rglob("*.*")]:
        assert home not in path.read_text(encoding="utf-8"), path


def listed_in_the_reference():
    pages = (ROOT / "docs" / "reference").glob("*.rst")
    return {name for page in pages for name in re.findall(r"^   ([\w.]+)$", page.read_text("utf-8"), re.MULTILINE)}


def test_the_reference_lists_every_public_name():
    """A new name is a line of a page of ``docs/reference``, under the topic where readers look for it."""
    rooms = {"plot": rl.plot, "techniques": rl.techniques, "layers": rl.layers, "measured": rl.measured}
    constants = {"techniques.REGISTRY", "techniques.MEASURED", "layers.KINDS", "plot.DARK", "plot.LIGHT"}
    inside = {
        f"{room}.{name}"
        for room, module in rooms.items()
        for name in module.__all__
        if getattr(module, name) is not getattr(rl, name, None)
    }
    missing = ({*rl._HOME} | inside) - constants - listed_in_the_reference()
    assert missing == set()


def test_methodology_shows_modules_that_exist():
    pages = (ROOT / "docs" / "methodology").glob("*.md")
    shown = [name for page in pages for name in re.findall(r"automodule:: (\S+)", page.read_text("utf-8"))]
    assert len(shown) > 20
    assert [name for name in shown if importlib.util.find_spec(name) is None] == []


def test_no_two_files_share_a_name():
    """A file is looked for by its name: one that stands in two rooms for different things misleads."""
    names = [path.stem for path in SRC.rglob("*.py") if not path.stem.startswith("__")]
    assert sorted({name for name in names if names.count(name) > 1}) == []
