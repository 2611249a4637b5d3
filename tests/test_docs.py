"""The pages of the documentation: their examples run, and the reference lists every public name."""

import doctest
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import roofline as rl

DOCS = Path(__file__).parents[1] / "docs"
GENERATED = {"course", "library", "accuracy"}
PAGES = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if page.parent.name not in GENERATED and ">>>" in page.read_text(encoding="utf-8")
]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROOMS = {
    "plot": [name for name in rl.plot.__all__ if not name.isupper()],
    "techniques": [name for name in rl.techniques.__all__ if name not in rl.__all__ and name != "REGISTRY"],
    "layers": [name for name in rl.layers.__all__ if name != "KINDS"],
    "measured": rl.measured.__all__,
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_examples_of_a_page_print_what_it_says(page):
    code = "\n".join(BLOCK.findall(page.read_text(encoding="utf-8")))
    example = doctest.DocTestParser().get_doctest(code, {}, page.name, str(page), 0)
    said = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    results = runner.run(example, out=said.append)
    plt.close("all")
    assert results.attempted > 0
    assert results.failed == 0, "".join(said)


def listed_names():
    pages = (DOCS / "reference").glob("*.rst")
    return [name for page in pages for name in re.findall(r"^   ([\w.]+)$", page.read_text("utf-8"), re.MULTILINE)]


def test_the_reference_lists_every_public_name():
    inside = {f"{room}.{name}" for room, names in ROOMS.items() for name in names if getattr(rl, name, None) is None}
    assert {*rl._HOME} <= {*listed_names()}
    assert inside <= {*listed_names()}
