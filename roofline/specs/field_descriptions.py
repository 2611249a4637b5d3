"""Descriptions of the fields of spec models in their JSON schemas, read from the docstrings below the fields.

pydantic can read them itself (``use_attribute_docstrings``), but then does so whenever the models are imported, which
takes a quarter of the time in which a command answers.  Only schemas need them.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

from .schema import Strict


def describe_fields(schema: dict[str, Any], root: type[Strict]) -> None:
    """Add to every field of a schema the docstring below it in its class.

    Parameters
    ----------
    schema : dict
        JSON schema of ``root``, with the models inside it under ``$defs``; it is changed in place.
    root : type
        The model that the schema is of.
    """
    models = {model.__name__: model for model in _models(Strict)}
    described = {root.__name__: schema, **schema.get("$defs", {})}
    for name, part in described.items():
        texts: dict[str, str] = {}
        for model in reversed(models[name].__mro__ if name in models else ()):
            texts |= field_docstrings(model) if issubclass(model, Strict) else {}
        properties = part.get("properties", {})
        for field in texts.keys() & properties.keys():
            properties[field] = dict(sorted({"description": texts[field], **properties[field]}.items()))


def field_docstrings(model: type) -> dict[str, str]:
    """The docstring below each field of a class, by field.

    Examples
    --------
    >>> from roofline.specs.schema import Quantity
    >>> sorted(field_docstrings(Quantity))[:1]
    ['kind']
    """
    try:
        source = textwrap.dedent(inspect.getsource(model))
    except (OSError, TypeError):  # made while the program runs
        return {}
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            text = getattr(below.value, "value", None)
            if isinstance(text, str):
                found[field.target.id] = inspect.cleandoc(text)
    return found


def _models(base: type[Strict]) -> Iterator[type[Strict]]:
    for model in base.__subclasses__():
        yield model
        yield from _models(model)
