"""The pages of the documentation: their examples run."""

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


def test_examples_of_the_gallery_draw_what_their_file_is_named_for():
    examples = sorted((DOCS / "gallery").glob("*.py"))
    assert len(examples) > 10
    for example in examples:
        name = example.stem.partition("_")[2]
        assert f"ax = rl.plot.{name}(" in example.read_text("utf-8"), example.name
        assert name in rl.plot.__all__


def test_no_line_of_a_page_is_lost_as_a_comment():
    """MyST drops lines that start with a percent sign, as a line of wrapped text may."""
    pages = [page for page in DOCS.rglob("*.md") if page.parent.name not in GENERATED and "site" not in page.parts]
    pages += [*DOCS.parent.glob("*.md"), *(DOCS.parent / "benchmarks").glob("*.md")]
    lines = [(page.name, line) for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    assert len(lines) > 3000
    assert [entry for entry in lines if entry[1].startswith("%")] == []
