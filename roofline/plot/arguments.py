"""Arguments of plots: results of the kind that a plot shows, or one line that says what would do."""

from __future__ import annotations

from ..errors import InvalidInput


def check_kind(plot: str, source: str, kind: type, *results: object) -> None:
    """Refuse results of another kind than the one that a plot shows.

    Parameters
    ----------
    plot : str
        Name of the plot.
    source : str
        Where the results come from, as in ``rl.fleet``.
    kind : type
        Their class.
    *results : object
        What was given.

    Raises
    ------
    InvalidInput
        One of them is not of that class.

    Examples
    --------
    >>> check_kind("cost", "rl.fleet", float, 3.0)
    >>> check_kind("cost", "rl.fleet", float, "l4")
    Traceback (most recent call last):
    roofline.errors.InvalidInput: cost shows what rl.fleet returns, not str
    """
    for found in results:
        if not isinstance(found, kind):
            raise InvalidInput(f"{plot} shows what {source} returns, not {type(found).__name__}")
