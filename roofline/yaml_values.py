"""Values of a YAML document, read from the events of the parser.

Data is built while it is parsed, without the tree of nodes that PyYAML's own loader makes first.  This takes half of
the time, and what plain data does not need is refused where it appears: aliases, tags, keys given twice, deep nesting.
"""

from __future__ import annotations

from typing import Any

import yaml
from yaml.events import AliasEvent, MappingEndEvent, MappingStartEvent, ScalarEvent, SequenceEndEvent, StreamEndEvent

from .errors import SpecError

MAX_DEPTH = 40

PREFIX = "tag:yaml.org,2002:"
STRING, FLOAT, MERGE = f"{PREFIX}str", f"{PREFIX}float", f"{PREFIX}merge"


def read_document(text: str) -> Any:
    """Return the value of the document in ``text``; None if there is none.

    Raises
    ------
    SpecError
        The document is more than plain data.
    yaml.YAMLError, ValueError, OverflowError
        The text is not YAML, or a value cannot be read.

    Examples
    --------
    >>> read_document("{name: tiny, sizes: [1, 2.5, true]}")
    {'name': 'tiny', 'sizes': [1, 2.5, True]}
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        loader.get_event()  # the start of the stream
        if loader.check_event(StreamEndEvent):
            return None
        loader.get_event()  # the start of the document
        found = _value(loader, 0)
        loader.get_event()  # its end
        if not loader.check_event(StreamEndEvent):
            raise SpecError(f"contains more than one YAML document ({_line(loader.peek_event())})")
        return found
    finally:
        loader.dispose()


def _value(loader: Any, depth: int) -> Any:
    """Read the next value, below ``depth`` others."""
    event = loader.get_event()
    if isinstance(event, AliasEvent):
        raise _alias(event)
    if event.tag is not None:  # even a standard one may promise what its value is not: !!bool maybe, !!set x
        raise SpecError(f"contains a YAML tag, {event.tag} ({_line(event)}); write the value without it")
    if isinstance(event, ScalarEvent):
        return _scalar(loader, event)
    if depth >= MAX_DEPTH:
        raise SpecError(f"is nested more than {MAX_DEPTH} levels deep")
    if isinstance(event, MappingStartEvent):
        return _mapping(loader, depth)
    return _sequence(loader, depth)


def _mapping(loader: Any, depth: int) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    while not loader.check_event(MappingEndEvent):
        event = loader.peek_event()
        key = _value(loader, depth + 1)
        if isinstance(key, dict | list):
            raise SpecError(f"is not valid YAML: a key must be a single value ({_line(event)})")
        if key in found:
            raise SpecError(f"is not valid YAML: key {key!r} is given twice ({_line(event)})")
        found[key] = _value(loader, depth + 1)
    loader.get_event()
    return found


def _sequence(loader: Any, depth: int) -> list[Any]:
    found = []
    while not loader.check_event(SequenceEndEvent):
        found.append(_value(loader, depth + 1))
    loader.get_event()
    return found


def _scalar(loader: Any, event: Any) -> Any:
    """Return a single value; its text decides whether it is a string, a number, a date, true, false or nothing."""
    tag = loader.resolve(yaml.ScalarNode, event.value, event.implicit)
    if tag == STRING:
        return event.value
    if tag == FLOAT:
        try:
            return float(event.value)
        except ValueError:  # YAML has further ways to write numbers: .inf, 190:20:30.15
            pass
    if tag == MERGE:  # the key << merges the mapping behind an alias
        raise _alias(event)
    return loader.construct_object(yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark))


def _alias(event: Any) -> SpecError:
    return SpecError(f"uses a YAML alias ({_line(event)}); write the value out")


def _line(event: Any) -> str:
    return f"line {event.start_mark.line + 1}"
