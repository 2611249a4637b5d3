"""Tables as text and as HTML, used by all results."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

Line = Sequence[str]
"""Cells of one line of a table."""


def text_table(lines: Iterable[Line], *, head: Line = (), indent: int = 0) -> list[str]:
    r"""Format cells as lines of text with aligned columns.

    Parameters
    ----------
    lines : iterable of sequence of str
        The cells, line by line.
    head : sequence of str
        Column headings; may be empty.
    indent : int
        Spaces before each line.

    Returns
    -------
    list of str
        One string per line, without trailing spaces.

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
    shown = []
    for line in table:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        shown.append(" " * indent + "  ".join(cells).rstrip())
    return shown


def html_table(lines: Iterable[Line], *, head: Line = (), caption: str = "", notes: Iterable[str] = ()) -> str:
    """Format cells as an HTML table, with every cell escaped; without headings, the first cell of each line is one.

    Parameters
    ----------
    lines : iterable of sequence of str
        The cells, line by line.
    head : sequence of str
        Column headings; may be empty.
    caption : str
        Caption of the table.
    notes : iterable of str
        Notes below the table.

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
