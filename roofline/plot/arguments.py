"""Checks of the arguments of plots."""

from __future__ import annotations

from ..errors import InvalidInput


def check_kind(plot: str, source: str, kind: type, *results: object) -> None:
    """Refuse results of a kind that a plot does not show.

    Parameters
    ----------
    plot : str
        Name of the plot.
    source : str
        The function that returns such results, such as ``rl.fleet``.
    kind : type
        Their class.
    *results : object
        The arguments.

    Raises
    ------
    InvalidInput
        One of the arguments is not of that class.

    Examples
    --------
    >>> check_kind("cost", "rl.fleet", float, 3.0)
    >>> check_kind("cost", "rl.fleet", float, "l4")
    Traceback (most recent call last):
    roofline.errors.InvalidInput: cost takes results of rl.fleet, not str
    """
    for found in results:
        if not isinstance(found, kind):
            raise InvalidInput(f"{plot} takes results of {source}, not {type(found).__name__}")
