"""Help as plain text: options in one column and their descriptions in another, wrapped to the terminal's width."""

from __future__ import annotations

import textwrap
from typing import Any

from cyclopts import Group

from .terminal import width

HEADINGS = (
    "Arguments",
    "Workload",
    "Formats and layout",
    "SLO targets",
    "Change",
    "Techniques",
    "Power",
    "Options",
    "Output",
)
"""Groups of options, in the order in which help shows them."""

GROUPS = {name: Group(name, sort_key=at) for at, name in enumerate(HEADINGS)}

LEFT = 26
"""Width of the option column; the description of a longer option starts on the next line."""


class PlainHelp:
    """A help formatter of `cyclopts` without colors, boxes and markup."""

    def __call__(self, console: Any, options: Any, panel: Any) -> None:
        """Print one group of options or commands."""
        if not panel.entries:
            return
        lines = [f"{panel.title}:"]
        for entry in panel.entries:
            names = entry.display_labels_with_metavar if panel.format == "parameter" else entry.display_labels
            lines += _entry(", ".join(names), _text_of(entry))
        _print(console, "\n".join([*lines, ""]))

    def render_usage(self, console: Any, options: Any, usage: Any) -> None:
        """Print the usage line."""
        if usage:
            words = f"Usage: {_plain(usage).strip().removeprefix('Usage: ')}"
            lines = textwrap.wrap(words, width(), subsequent_indent=" " * len("Usage: "), break_on_hyphens=False)
            _print(console, "\n".join([*lines, ""]))

    def render_description(self, console: Any, options: Any, description: Any) -> None:
        """Print what a command does, and its examples."""
        text = _plain(description)
        if text:
            _print(console, "\n".join(_filled(line) for line in text.splitlines()) + "\n")


def _entry(names: str, text: str) -> list[str]:
    left = min(LEFT, width() // 3)
    if len(names) > left - 2:
        return [f"  {names}", *_wrapped(text, "    ")]
    first, *others = _wrapped(text, " " * (left + 2)) or [""]
    return [f"  {names:{left}}{first.strip()}".rstrip(), *others]


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, width(), initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def _filled(line: str) -> str:
    """A wrapped line of text; an indented line is a command, continued with backslashes."""
    if not line.startswith(" "):
        return textwrap.fill(line, width(), break_on_hyphens=False)
    lines = textwrap.wrap(line, width() - 2, subsequent_indent="      ", break_on_hyphens=False)
    return " \\\n".join(lines)


def _text_of(entry: Any) -> str:
    """Description of an option or a command, with its default."""
    parts = [_plain(entry.description)]
    if getattr(entry, "default", None) is not None:
        parts.append(f"[default: {entry.default}]")
    if getattr(entry, "required", False):
        parts.append("[required]")
    return " ".join(part for part in parts if part)


def _plain(text: Any) -> str:
    """The characters of a string, of a rich text, or of a cyclopts renderable; empty for anything else."""
    text = getattr(text, "primary_renderable", text)
    text = getattr(text, "plain", text)
    return text.strip("\n") if isinstance(text, str) else ""


def _print(console: Any, text: str) -> None:
    # Not through the console, which would wrap and color again, and prints nothing at a width of 0.
    print(text, file=console.file)
