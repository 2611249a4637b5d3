"""Execute the notebooks in place, so that readers see outputs and figures: ``python notebooks/run.py [notebook ...]``.

Two runs of the same code write the same bytes: no times are recorded, the kernel and its language keep their plain
names, and outputs that differ from run to run (addresses of objects) are not allowed.  ``tests/test_notebooks.py`` runs
them in memory and compares.  Needs ``roofline[notebook]``.
"""

import os
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
INLINE = "module://matplotlib_inline.backend_inline"
"""Figures belong into the notebook, whatever the caller draws with."""

ADDRESS = re.compile(r" at 0x[0-9a-f]+")
LONG_DECIMAL = re.compile(r"\d+\.\d{12,}")
"""A float printed with all its digits."""


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook with fresh outputs.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        A cell fails, an assertion about a number of the prose for instance.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute(env=os.environ | {"MPLBACKEND": INLINE})
    notebook.metadata = nbformat.from_dict(METADATA)
    return notebook


def texts(cell: nbformat.NotebookNode) -> list[str]:
    """What a code cell printed and showed, as text; pictures are left out.

    Long decimals keep ten digits: from version 3.12 on Python adds up floats more exactly, so the last ones differ.
    """
    found = []
    for output in cell.get("outputs", []):
        shown = output.get("text") or output.get("data", {}).get("text/plain", "")
        text = ADDRESS.sub("", "".join(shown))
        found.append(LONG_DECIMAL.sub(lambda decimal: f"{float(decimal[0]):.10g}", text))
    return found


def main() -> None:
    """Execute the notebooks that are named, or all."""
    chosen = [Path(name) for name in sys.argv[1:]] or sorted(HERE.glob("*.ipynb"))
    for path in chosen:
        nbformat.write(executed(path), path)
        print(path.name)


if __name__ == "__main__":
    main()
