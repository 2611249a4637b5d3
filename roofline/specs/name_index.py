"""Index of the names of specs: names, aliases, titles, hub ids and variants."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import either
from ..files import read_text
from .names import plain_name, spoken, without_owner

LONGEST_NAME = 255
"""Longest name of a file in any file system, and of a repository on the hub."""


@dataclass(frozen=True)
class NameIndex:
    """Names of the specs of a kind.

    Attributes
    ----------
    called : mapping of str to list of str
        Normalized name, alias, title or hub id -> specs; names take precedence over equal aliases.
    loosely : mapping of str to list of str
        The same without parts of names that do not change a model's shapes.
    """

    called: Mapping[str, list[str]]
    loosely: Mapping[str, list[str]]


def names_of(kind: str, index: Mapping[str, Path]) -> NameIndex:
    """Return all names of the specs of a kind.

    Parameters
    ----------
    kind : str
        ``hardware_specs`` or ``model_specs``.
    index : mapping of str to Path
        Name of each spec -> its file.
    """
    called: dict[str, list[str]] = {}
    loosely: dict[str, list[str]] = {}
    for stem, path in index.items():
        others = list(_other_names(path))
        for key in dict.fromkeys(spoken(each) for each in others):
            called.setdefault(key, []).append(stem)
        if kind == "model_specs":
            for key in dict.fromkeys(plain_name(each) for each in (stem, *others)):
                loosely.setdefault(key, []).append(stem)
    return NameIndex(called | {spoken(stem): [stem] for stem in index}, loosely)


def _other_names(path: Path) -> Iterator[str]:
    """Aliases, variants, title and hub ids of a spec, read without parsing the whole file."""
    text = read_text(path)
    listed = re.search(r"^aliases: *(?:\[([^\]]*)\]|((?:\n *- .*)+))", text, re.MULTILINE)
    for word in re.split(r",|\n *- ", (listed[1] or listed[2] or "") if listed else ""):
        if word.strip():
            yield word.strip().strip("'\"")
    variants = re.search(r"^variants:\n((?: .*\n?)+)", text, re.MULTILINE)
    yield from re.findall(r"^  ([\w.-]+):", variants[1], re.MULTILINE) if variants else ()
    title = re.search(r"^title: *(.+?) *$", text, re.MULTILINE)
    if title is not None:
        yield title[1].strip("'\"")
    for hub_id in re.findall(r'https://huggingface\.co/([\w.-]+/[\w.-]+)"', text):
        yield hub_id
        yield without_owner(hub_id)


def nearest(wanted: str, names: NameIndex, otherwise: str) -> str:
    """Suggest the nearest names, those with the same beginning first.

    Parameters
    ----------
    wanted : str
        Normalized name that no spec has.
    names : NameIndex
        Names of all specs.
    otherwise : str
        What to say if none is near.
    """
    begin = [key for key in names.called if wanted and key.startswith(wanted)]
    near = begin + difflib.get_close_matches(wanted[:LONGEST_NAME], names.called, n=4, cutoff=0.6)
    offers = list(dict.fromkeys(stem for key in near for stem in names.called[key]))[:6]
    if offers:
        return f"did you mean {either(offers)}?"
    return otherwise
