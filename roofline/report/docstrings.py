"""Docstrings: descriptions of a class's fields, reused for help texts."""

from __future__ import annotations

import inspect
import re

_SECTION = re.compile(r"^Attributes\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^(\w[\w, ]*?) : [^\n]*\n((?:    [^\n]*\n?)+)", re.MULTILINE)


def field_descriptions(kind: type) -> dict[str, str]:
    """Field descriptions in the ``Attributes`` sections of a class and its bases.

    Parameters
    ----------
    kind : type
        A class documented in numpydoc form.

    Returns
    -------
    dict
        Field -> its description in one line.

    Examples
    --------
    >>> import roofline as rl
    >>> field_descriptions(rl.Workload)["batch"]
    'Sequences that run together.'
    """
    found: dict[str, str] = {}
    for base in kind.__mro__:
        section = _SECTION.search(inspect.cleandoc(base.__dict__.get("__doc__") or ""))
        for entry in _ENTRY.finditer(section[1] if section else ""):
            for name in entry[1].split(","):
                found.setdefault(name.strip(), " ".join(entry[2].split()))
    return found
