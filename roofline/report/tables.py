"""Tables as text and as HTML, used by all results."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import zip_longest

Line = Sequence[str]
"""Cells of one line of a table."""


def text_table(
    lines: Iterable[Line],
    *,
    head: Line = (),
    indent: int = 0,
    right: Collection[int] = (),
    folding: Collection[int] = (),
    width: int | None = None,
) -> list[str]:
    r"""Format cells as lines of text with aligned columns.

    Parameters
    ----------
    lines : iterable of sequence of str
        The cells, line by line.
    head : sequence of str
        Column headings; may be empty.
    indent : int
        Spaces before each line.
    right : collection of int
        Columns that are right-aligned, by index.
    folding : collection of int
        Columns whose text may wrap, by index.
    width : int, optional
        Largest length of a line. If folding is not enough for it, each row is a short list instead. By default lines
        are as long as their cells.

    Returns
    -------
    list of str
        One string per line, without trailing spaces.

    Examples
    --------
    >>> cells = [("l4", "24 GB", "no NVLink"), ("h100-sxm", "80 GB", "NVLink 4 at 450 GB/s")]
    >>> print(*text_table(cells, head=("name", "memory", "links"), right={1}), sep="\n")
    name      memory  links
    l4         24 GB  no NVLink
    h100-sxm   80 GB  NVLink 4 at 450 GB/s
    >>> print(*text_table(cells, right={1}, folding={2}, width=30), sep="\n")
    l4        24 GB  no NVLink
    h100-sxm  80 GB  NVLink 4 at
                     450 GB/s
    >>> print(*text_table(cells[1:], head=("name", "memory", "links"), width=30), sep="\n")
    name: h100-sxm
      memory: 80 GB
      links: NVLink 4 at 450 GB/s
    """
    cells = [list(line) for line in lines]
    table = [list(head), *cells] if head else cells
    columns = list(zip(*table, strict=True))
    wide = [max(map(len, column)) for column in columns]
    if width is not None:
        least = [_narrowest(column, bool(head), fold=at in folding) for at, column in enumerate(columns)]
        room = width - indent - len(GAP) * (len(columns) - 1)
        if sum(least) > room:
            return _lists(cells, head, indent, width)
        wide = _shrunk(wide, least, room)
    return [" " * indent + text for line in table for text in _line(line, wide, right)]


GAP = "  "
"""Blanks between two columns."""


def _narrowest(column: Sequence[str], has_head: bool, *, fold: bool) -> int:
    """Smallest width at which no word of a column breaks; headings may always wrap."""
    head, cells = column[: int(has_head)], column[int(has_head) :]
    words = [word for cell in head for word in cell.split()]
    words += [word for cell in cells for word in cell.split()] if fold else cells
    return max(map(len, words), default=1)


def _shrunk(wide: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Column widths that fit ``room``: the widest column that may shrink does, one blank at a time."""
    wide = list(wide)
    while sum(wide) > room:
        shrinkable = [at for at in range(len(wide)) if wide[at] > least[at]]
        wide[max(shrinkable, key=lambda at: wide[at])] -= 1
    return wide


def _line(cells: Line, wide: Sequence[int], right: Collection[int]) -> Iterator[str]:
    """The lines of text of one line of cells."""
    folded = [_folded(cell, width) for cell, width in zip(cells, wide, strict=True)]
    for parts in zip_longest(*folded, fillvalue=""):
        padded = [part.rjust(wide[at]) if at in right else part.ljust(wide[at]) for at, part in enumerate(parts)]
        yield GAP.join(padded).rstrip()


def _folded(cell: str, width: int) -> list[str]:
    """The lines of a cell, broken at blanks, and at hyphens only if a word is too long."""
    if len(cell) <= width:
        return [cell]
    too_long = any(len(word) > width for word in cell.split())
    return textwrap.wrap(cell, width, break_on_hyphens=too_long) or [""]


def _lists(cells: Iterable[Line], head: Line, indent: int, width: int) -> list[str]:
    """Every row as a list: its first cell, then one line for each other cell."""
    margins = [" " * (indent + more) for more in (0, 2, 4)]
    found = []
    for first, *others in cells:
        title = f"{head[0]}: {first}" if head and head[0] else first
        names = list(head[1:]) or [""] * len(others)
        items = [f"{name}: {cell}" if name else cell for name, cell in zip(names, others, strict=True) if cell]
        found += wrapped_lines(title, width, indent=margins[0], hang=margins[1])
        for item in items:
            found += wrapped_lines(item, width, indent=margins[1], hang=margins[2])
    return found


def wrapped_lines(text: str, width: int, *, indent: str = "", hang: str | None = None) -> list[str]:
    """Lines of a paragraph that break at blanks only; ``hang``, or else ``indent``, goes before all but the first."""
    behind = indent if hang is None else hang
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=behind, break_on_hyphens=False, break_long_words=False
    )


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
