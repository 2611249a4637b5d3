"""Base classes of public values, which compare and hash by content and pickle without cached properties.

`Sealed` makes the arrays of results read-only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import cache, cached_property, wraps
from typing import Any

import numpy as np

from .arrays import content_hash, read_only, same


class Value:
    """Base of frozen dataclasses that behave as values.

    Two values are equal if they have the same class and their fields are the `same`, arrays included; ``==`` gives one
    bool.  Equal values have equal hashes.  A value that contains an array cannot be hashed, and the error names the
    field.  Copies and pickles contain the fields only; `functools.cached_property` values are computed again on use.
    They print as the call that makes them, without the arguments at their defaults (`brief`).

    Fields with ``compare=False`` are ignored in comparisons and hashes, as in any dataclass.  Classes are declared
    ``@dataclass(frozen=True, eq=False)``, because generating comparisons that are never called takes a tenth of a
    command's start-up.

    Examples
    --------
    >>> import roofline as rl
    >>> rl.Workload(batch=[1, 2]) == rl.Workload(batch=[1, 2]), rl.Workload() in {rl.Workload()}
    (True, True)
    """

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # Where eq=False is left out, a dataclass would replace these if they were inherited, but never the class's own.
        for name in ("__eq__", "__hash__", "__repr__"):
            if name not in cls.__dict__:
                setattr(cls, name, getattr(cls, name))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented
        return all(same(getattr(self, name), getattr(other, name)) for name in _compared(self))

    def __hash__(self) -> int:
        kept = getattr(self, "__dict__", {})  # a slotted class has none: its few fields are hashed each time
        if "_hash" not in kept:
            parts = [content_hash(getattr(self, name), name) for name in _compared(self)]
            kept["_hash"] = hash((type(self), *parts))
        found: int = kept["_hash"]
        return found

    def __repr__(self) -> str:
        return brief(self)

    def __getstate__(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}  # type: ignore[arg-type]

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)
        read_only(state.values())  # pickles do not carry that flag


def _seal(value: Any) -> None:
    """Make an array read-only, or all arrays in a mapping or named tuple."""
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    elif isinstance(value, dict):
        read_only(value.values())
    elif hasattr(value, "_fields"):
        read_only(value)


def _sealed(getter: Callable[..., Any]) -> Callable[..., Any]:
    """A getter that returns read-only arrays."""

    @wraps(getter)
    def get(*arguments: Any) -> Any:
        value = getter(*arguments)
        if type(value) is not float:  # most have no arrays
            _seal(value)
        return value

    return get


class Sealed:
    """Mixin of results: the arrays of fields and properties are read-only, so results cannot be changed."""

    def __post_init__(self) -> None:
        """Make the arrays among the fields read-only."""
        for value in vars(self).values():
            _seal(value)

    def __init_subclass__(cls, **options: Any) -> None:
        """Make the arrays that properties return read-only."""
        super().__init_subclass__(**options)
        for name, member in [*vars(cls).items()]:
            if isinstance(member, property) and member.fget is not None:
                setattr(cls, name, property(_sealed(member.fget), doc=member.__doc__))
            elif isinstance(member, cached_property):
                member.func = _sealed(member.func)
            elif name == "__getattr__":
                setattr(cls, name, _sealed(member))


def brief(value: Any, *always: str) -> str:
    """Return a one-line constructor call, without fields at their defaults and with shortened arrays.

    Parameters
    ----------
    value : dataclass instance
        The value to print.
    *always : str
        Fields to print even at their defaults.

    Examples
    --------
    >>> import roofline as rl
    >>> brief(rl.Parallel(tensor=8)), brief(rl.Workload(batch=[1, 2, 4]), "prompt_tokens")
    ('Parallel(tensor=8)', 'Workload(prompt_tokens=2000, batch=[1 … 4])')
    """
    shown = []
    for item in fields(value):
        if not item.repr:
            continue
        found = getattr(value, item.name)
        default = item.default_factory() if item.default_factory is not MISSING else item.default
        if item.name in always or not same(found, default):
            shown.append(f"{item.name}={_brief(found)}")
    return f"{type(value).__name__}({', '.join(shown)})"


def _brief(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.ndim:
        return f"[{_brief(value.flat[0])} … {_brief(value.flat[-1])}]"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:  # floats tell integers apart so far
        return str(int(value))
    return repr(float(value)) if isinstance(value, float) else repr(value)


def _compared(value: Any) -> tuple[str, ...]:
    return _compared_fields(type(value))  # type: ignore[arg-type]  # a class is hashable


@cache
def _compared_fields(kind: Any) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind) if item.compare)
