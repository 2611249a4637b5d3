"""Docstrings of results describe their columns in a section of that name, which numpydoc does not know.

Columns are attributes like others, so their entries go to the end of the section ``Attributes``.
"""

from numpydoc.docscrape import NumpyDocString
from sphinx.application import Sphinx


def as_attributes(app: Sphinx, *about: object) -> None:
    """Turn the head of a section ``Columns`` into that of ``Attributes``, or drop it where there is one already."""
    lines = about[-1]
    for place in range(1, len(lines) - 1):
        rule = lines[place + 1]
        if lines[place] == "Columns" and rule and set(rule) == {"-"}:
            if "Attributes" in lines[:place]:
                del lines[place - 1 : place + 2]  # with the blank line that ended the section before
            else:
                lines[place : place + 2] = ["Attributes", "----------"]
            return


def setup(app: Sphinx) -> dict[str, bool]:
    """Run before numpydoc writes the docstring, and let it know the section where it only looks for signatures."""
    NumpyDocString.sections["Columns"] = []
    app.connect("autodoc-process-docstring", as_attributes, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
