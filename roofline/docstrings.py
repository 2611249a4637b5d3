"""Docstrings: what the documentation of a class says of its fields, for help texts that are written once."""

from __future__ import annotations

import inspect
import re

_SECTION = re.compile(r"^Attributes\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^(\w[\w, ]*?) : [^\n]*\n((?:    [^\n]*\n?)+)", re.MULTILINE)


def field_descriptions(kind: type) -> dict[str, str]:
    """What the sections ``Attributes`` of a class and of its bases say of their fields.

    Parameters
    ----------
    kind : type
        A class documented in numpydoc form.

    Returns
    -------
    dict
        Field -> its description in one line, as it is written.

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
