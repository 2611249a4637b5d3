"""Tables for people: one printer of text and one of HTML, used by every result."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

Line = Sequence[str]
"""The cells of one line of a table."""


def text_table(lines: Iterable[Line], *, head: Line = (), indent: int = 0) -> list[str]:
    r"""Return lines of text with the cells in aligned columns.

    Parameters
    ----------
    lines : iterable of sequence of str
        The cells, line by line.
    head : sequence of str
        The column heads; none if empty.
    indent : int
        Spaces before each line.

    Returns
    -------
    list of str
        One string a line, without blanks at the end.

    Examples
    --------
    >>> print(*text_table([("l4", "24 GB"), ("h100-sxm", "80 GB")], head=("name", "memory")), sep="\n")
    name      memory
    l4        24 GB
    h100-sxm  80 GB
    """
    table = [list(line) for line in ([head] if head else [])]
    table += [list(line) for line in lines]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table)
    return [" " * indent + line for line in padded]


def html_table(lines: Iterable[Line], *, head: Line = (), caption: str = "", notes: Iterable[str] = ()) -> str:
    """Return an HTML table with every cell escaped; without a head, the first cell of each line is its head.

    Parameters
    ----------
    lines : iterable of sequence of str
        The cells, line by line.
    head : sequence of str
        The column heads; none if empty.
    caption : str
        The line above the table.
    notes : iterable of str
        Small print below it.

    Returns
    -------
    str
        HTML.

    Examples
    --------
    >>> html_table([("<l4>", "24 GB")])
    '<table><tbody><tr><th>&lt;l4&gt;</th><td>24 GB</td></tr></tbody></table>'
    """
    above = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    heads = f"<thead>{_row(['th'] * len(head), head)}</thead>" if head else ""
    first = "td" if head else "th"
    body = "".join(_row([first, *["td"] * (len(line) - 1)], line) for line in lines)
    small = "".join(f"<p><small>{html.escape(note)}</small></p>" for note in notes)
    return f"<table>{above}{heads}<tbody>{body}</tbody></table>{small}"


def _row(tags: Sequence[str], line: Line) -> str:
    cells = (f"<{tag}>{html.escape(cell)}</{tag}>" for tag, cell in zip(tags, line, strict=True))
    return f"<tr>{''.join(cells)}</tr>"
