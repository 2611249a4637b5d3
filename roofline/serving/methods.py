"""How the queue in front of a server is computed: in closed form, or by simulating every scheduler step."""

from __future__ import annotations

from ..errors import unknown

CLOSED_FORM, SIMULATION = "closed-form", "simulation"
METHODS = (CLOSED_FORM, SIMULATION)


def method_named(name: str) -> str:
    """The method of that name, however its words are joined and in any case.

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
    """A method as a sentence has it: ``closed form``."""
    return method.replace("-", " ")
