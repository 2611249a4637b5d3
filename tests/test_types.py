"""Types reach the user: the stub of the package names what loads lazily, and typed user code runs.

``mypy`` checks tests/typed_user_code.py with the package (see ``[tool.mypy]``), mistakes and all.
"""

import ast
import inspect
from pathlib import Path

import pytest
import typed_user_code

import roofline as rl
from roofline.hardware import Accelerator

SRC = Path(rl.__file__).parent


def stubbed():
    """Name -> module and name that the stub re-exports it from; a module may go by another name than its own."""
    found, renamed = {}, {}
    for node in ast.parse((SRC / "__init__.pyi").read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            assert node.level == 1
            found |= {alias.asname: (node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Assign):
            renamed[node.value.id] = node.targets[0].id
    return {renamed.get(name, name): home for name, home in found.items()}


def test_the_stub_equals_the_lazy_table():
    names = {name: (home, name) for name, home in rl._HOME.items()}
    modules = {name: tuple([None, *home.split(".")][-2:]) for name, home in rl._MODULES.items()}
    assert stubbed() == names | modules
    assert set(stubbed()) == set(rl.__all__)


def test_the_stub_declares_all_else_that_is_public():
    declared = {
        node.target.id
        for node in ast.parse((SRC / "__init__.pyi").read_text("utf-8")).body
        if isinstance(node, ast.AnnAssign)
    }
    assert declared == {"__all__", "__version__"}


def test_types_are_shipped():
    assert (SRC / "py.typed").exists()


def test_typed_user_code_runs():
    typed_user_code.main()


def mistaken_lines():
    """Lines of the typed user code that mypy has to refuse, without the comment that says so."""
    lines = inspect.getsource(typed_user_code.mistakes).splitlines()
    return [line.strip().partition("  #")[0] for line in lines if "type: ignore" in line]


@pytest.mark.parametrize("line", mistaken_lines())
def test_what_mypy_has_to_find_is_a_mistake_indeed(line):
    scope = {"rl": rl, "serve": rl.Deployment("gpt-2", "l4"), "load": rl.Workload()}
    with pytest.raises((TypeError, AttributeError, rl.RooflineError)):
        exec(line, scope)


def test_parameters_of_the_typed_constructor_are_the_fields():
    """`Deployment` states its constructor for type checkers by hand: it has to be the generated one."""
    source = (SRC / "phases" / "deployment.py").read_text("utf-8")
    init = next(node for node in ast.walk(ast.parse(source)) if getattr(node, "name", "") == "__init__")
    real = inspect.signature(rl.Deployment).parameters
    assert [argument.arg for argument in init.args.args[1:]] == list(real)
    optional = [name for name, parameter in real.items() if parameter.default is not parameter.empty]
    assert len(init.args.defaults) == len(optional)
    assert isinstance(rl.Deployment("gpt-2", "l4").accelerator, Accelerator)
