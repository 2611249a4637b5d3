"""Plot of the cost of tokens over the utilization of a fleet."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from ..capacity import Fleet
from ..errors import InvalidInput, number
from .arguments import check_kind
from .frame import axes_or_new, head, label_axes, legend_below
from .style import style_of
from .ticks import log_axis, log_limits

LEAST_UTILIZATION = 0.05
"""Lower end of the utilization axis; cost grows without bound towards 0."""


def cost(fleet: Fleet, *, api: float | None = None, ax: Axes | None = None) -> Axes:
    """Plot USD per million output tokens, prompts included, over the utilization of each fleet.

    The cost of a fleet does not depend on its load, so tokens cost ``1 / utilization`` times as much as at full load.
    The large marker on a line is the load that the fleet was sized for.

    Parameters
    ----------
    fleet : Fleet
        Fleets with prices; one line per fleet.
    api : float, optional
        Price of an API in USD per million output tokens, prompts included; drawn as a horizontal line.
    ax : Axes, optional
        Where to draw; a new figure 6 inches wide if None.

    Returns
    -------
    Axes
        The axes.

    Raises
    ------
    InvalidInput
        No fleet has a price, or ``api`` is not a finite number >= 0.

    Examples
    --------
    >>> import roofline as rl
    >>> found = rl.plan("llama-3.1-8b", "h100-sxm", rl.Workload(1500, 300), prices={"h100-sxm": 2.5})
    >>> ax = rl.plot.cost(rl.fleet(found, requests_per_s=100))
    >>> ax.get_xlabel()
    'utilization'
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    check_kind("cost", "rl.fleet", Fleet, fleet)
    priced = np.flatnonzero(np.isfinite(fleet.usd_per_hour))
    if not len(priced):
        raise InvalidInput("cost needs prices; pass them to plan, such as prices={'h100-sxm': 2.5}")
    ax = axes_or_new(ax)
    style = style_of(ax)
    shares = np.linspace(LEAST_UTILIZATION, 1.0, 96)
    costs = fleet.usd_per_million_tokens_at(shares[:, None])
    for place, row in enumerate(priced):
        color, marker = style.line(place)
        label = f"{fleet.gpus[row]:,.0f} x {fleet.accelerator[row]}, {fleet.precision[row]}"
        ax.plot(shares, costs[:, row], color=color, marker=marker, markevery=[len(shares) - 1], label=label)
        sized = fleet.load[row], fleet.usd_per_million_tokens[row]
        ax.plot(*sized, marker, color=color, mec=style.paper, ms=9, zorder=3)
    levels = [costs[:, priced]]
    if api is not None:
        asked = float(np.max(number("api", api)))
        ax.axhline(asked, color=style.ink, linestyle="--", linewidth=0.8, label="API price")
        levels.append(np.array(asked))
    ax.set_xlim(0, 1.02)
    ax.set_yscale("log")
    ax.set_ylim(log_limits(*levels))
    label_axes(ax, "utilization", "USD per million output tokens")
    ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    log_axis(ax.yaxis)
    legend_below(ax)
    name = fleet.plan.model.title or fleet.plan.model.name
    head(
        ax,
        "Cost per token",
        f"{name}; prompts included; large markers: fleet sized for {fleet.requests_per_s:.4g} requests/s",
    )
    return ax
