"""Registry of techniques by slug, with their parameters for the command line.

Techniques register themselves when their module is loaded, and `load_all` loads every module of this package.  A new
technique therefore needs only its own file.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from ..arrays import FrozenMapping
from ..errors import InvalidInput
from ..report.docstrings import field_descriptions
from ..values import Value
from .technique import REGISTRY, Technique, technique_named


def load_all(package: str, path: Iterable[str]) -> None:
    """Load every module of a package, so that its techniques register themselves."""
    for module in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{module.name}")


def list_techniques() -> list[str]:
    """List the slugs of all techniques, by which `apply`, `plan` and the command line accept them.

    Examples
    --------
    >>> "chunked-prefill" in list_techniques()
    True
    """
    return list(REGISTRY)


def usual_techniques() -> tuple[Technique, ...]:
    """Every technique with its usual parameters."""
    return tuple(item for kind in REGISTRY.values() for item in kind.usual())


@dataclass(frozen=True, eq=False)
class TechniqueParameter(Value):
    """A parameter that one or several techniques accept.

    Attributes
    ----------
    name : str
        Name of the field.
    slugs : tuple of str
        Techniques that accept it.
    help : str
        Help text: the techniques that accept it and what it means to them.
    defaults : mapping of str to object
        Slug -> default value.
    """

    name: str
    slugs: tuple[str, ...]
    help: str
    defaults: Mapping[str, Any]


def parameters() -> tuple[TechniqueParameter, ...]:
    """Every parameter of every technique, by name, in the order of the registry.

    Examples
    --------
    >>> from roofline.techniques import parameters
    >>> next(item for item in parameters() if item.name == "chunk_tokens").slugs
    ('chunked-prefill',)
    """
    found: dict[str, dict[str, type[Technique]]] = {}
    for slug, kind in REGISTRY.items():
        for item in fields(kind):
            found.setdefault(item.name, {})[slug] = kind
    return tuple(_parameter(name, kinds) for name, kinds in found.items())


def _parameter(name: str, kinds: Mapping[str, type[Technique]]) -> TechniqueParameter:
    meanings: dict[str, list[str]] = {}
    for slug, kind in kinds.items():
        meanings.setdefault(field_descriptions(kind).get(name, ""), []).append(slug)
    help_text = " ".join(f"{', '.join(slugs)}: {text}" for text, slugs in meanings.items())
    defaults = {slug: _default(kind, name) for slug, kind in kinds.items()}
    return TechniqueParameter(name, tuple(kinds), help_text, FrozenMapping(defaults))


def _default(kind: type[Technique], name: str) -> Any:
    item = next(item for item in fields(kind) if item.name == name)
    return None if item.default is MISSING else item.default


def _listed(slugs: Sequence[str]) -> str:
    """Slugs as an enumeration: ``a, b or c``."""
    *others, last = slugs or ["no technique"]
    return f"{', '.join(others)} or {last}" if others else last


def named(names: Iterable[str], values: Mapping[str, Any]) -> tuple[Technique, ...]:
    """Return the techniques with these slugs, each with the ``values`` that it accepts.

    Parameters
    ----------
    names : iterable of str
        Slugs.
    values : mapping of str to object
        Parameter -> value; None leaves the default.

    Raises
    ------
    UnknownName
        No technique has one of the slugs.
    InvalidInput
        None of the techniques accepts a parameter, or a value is invalid.

    Examples
    --------
    >>> from roofline.techniques import named
    >>> named(["speculative"], {"acceptance": 0.6, "hit_rate": None})[0].acceptance
    0.6
    """
    chosen = [technique_named(name) for name in names]
    given = {name: value for name, value in values.items() if value is not None}
    for name in given:
        if not any(name in _names(kind) for kind in chosen):
            takers = [slug for slug, kind in REGISTRY.items() if name in _names(kind)]
            raise InvalidInput(f"{name} is a parameter of {_listed(takers)}: name one of them")
    return tuple(_made(kind, given) for kind in chosen)


def _made(kind: type[Technique], given: Mapping[str, Any]) -> Technique:
    return kind(**{name: given[name] for name in _names(kind) if name in given})


def _names(kind: type[Technique]) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))
