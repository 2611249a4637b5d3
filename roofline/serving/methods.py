"""Methods to compute queueing: in closed form, or by simulating every scheduler step."""

from __future__ import annotations

from ..errors import unknown

CLOSED_FORM, SIMULATION = "closed-form", "simulation"
METHODS = (CLOSED_FORM, SIMULATION)


def method_named(name: str) -> str:
    """Return the method of that name, ignoring case and the separator between words.

    Raises
    ------
    UnknownName
        There is no such method.

    Examples
    --------
    >>> method_named("closed form"), method_named("Simulation")
    ('closed-form', 'simulation')
    """
    found = "-".join(str(name).lower().replace("-", " ").replace("_", " ").split())
    if found not in METHODS:
        raise unknown("method", name, METHODS)
    return found


def method_words(method: str) -> str:
    """Return a method as written in a sentence, such as ``closed form``."""
    return method.replace("-", " ")
