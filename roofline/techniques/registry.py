"""Registry: techniques by their slugs, and their parameters as a command line can offer them.

A technique registers itself when its module is loaded, and every module of this package is (`load_all`); so adding one
touches its own file only.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from ..arrays import FrozenMapping
from ..docstrings import field_descriptions
from ..errors import InvalidInput
from ..values import Value
from .technique import REGISTRY, Technique, technique_named


def load_all(package: str, path: Iterable[str]) -> None:
    """Load every module of a package, so that the techniques in them register themselves."""
    for module in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{module.name}")


def usual_techniques() -> tuple[Technique, ...]:
    """Every technique with the parameters that the field reports."""
    return tuple(item for kind in REGISTRY.values() for item in kind.usual())


@dataclass(frozen=True, eq=False)
class TechniqueParameter(Value):
    """A parameter that one or several techniques take.

    Attributes
    ----------
    name : str
        Name of the field.
    slugs : tuple of str
        Techniques that take it.
    help : str
        What it means, after the techniques that take it; once for each meaning.
    defaults : mapping of str to object
        Slug -> value if it is not given.
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
    """Slugs in a sentence."""
    *others, last = slugs or ["no technique"]
    return f"{', '.join(others)} or {last}" if others else last


def named(names: Iterable[str], values: Mapping[str, Any]) -> tuple[Technique, ...]:
    """The techniques with these slugs, each with those of ``values`` that it takes.

    Parameters
    ----------
    names : iterable of str
        Slugs.
    values : mapping of str to object
        Parameter -> value; what is None is left out.

    Raises
    ------
    UnknownName
        No technique has one of the slugs.
    InvalidInput
        A parameter that none of them takes, or a value is invalid.

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
