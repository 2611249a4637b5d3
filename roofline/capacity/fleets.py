"""Fleets: how many deployments of a plan a rate of requests takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import InvalidInput, number
from ..report import Rows
from .candidates import Array
from .plans import Plan


@dataclass(frozen=True, repr=False)
class Fleet(Rows):
    """For every accelerator of a plan, its cheapest fleet that serves a rate of requests; the cheapest one first.

    Attributes
    ----------
    plan : Plan
        One row a fleet: the candidate that it is made of.
    floor : Plan
        One row a fleet: the candidate that would take the fewest accelerators if all software were perfect.
    requests_per_s : float
        Arrivals.
    utilization : float
        Share of its throughput that a deployment is loaded with.
    assumptions : tuple of str
        What the figures rest on.

    Columns
    -------
    replicas, gpus
        Deployments, and accelerators of all of them.
    usd_per_hour
        Price of all accelerators; not known without a price.
    replicas_at_floor, gpus_at_floor, usd_per_hour_at_floor
        The least that any software could do with.
    """

    plan: Plan
    floor: Plan
    requests_per_s: float
    utilization: float
    assumptions: tuple[str, ...] = ()

    columns = (
        "accelerator",
        "precision",
        "layout",
        "batch",
        "replicas",
        "gpus",
        "usd_per_hour",
        "usd_per_million_output_tokens",
        "ttft_s",
        "tpot_s",
        "replicas_at_floor",
        "gpus_at_floor",
        "usd_per_hour_at_floor",
    )
    printed = {  # noqa: RUF012
        "accelerator": "accelerator",
        "precision": "precision",
        "layout": "layout",
        "batch": "batch",
        "replicas": "replicas",
        "gpus": "GPUs",
        "usd_per_hour": "USD/h",
        "ttft_s": "TTFT",
        "tpot_s": "TPOT",
        "gpus_at_floor": "GPUs at floor",
        "usd_per_hour_at_floor": "USD/h at floor",
    }

    def __getattr__(self, name: str) -> Array:
        if name in ("accelerator", "precision", "layout", "batch", "ttft_s", "tpot_s"):
            column: Array = getattr(self.plan, name)
            return column
        raise AttributeError(f"a fleet has no {name!r}")

    @property
    def replicas(self) -> Array:
        """Deployments."""
        return _replicas(self.plan.busy_s, self.requests_per_s / self.utilization)

    @property
    def gpus(self) -> Array:
        """Accelerators of all deployments."""
        return np.asarray(self.replicas * self.plan.gpus)

    @property
    def usd_per_hour(self) -> Array:
        """Price of all of them."""
        return np.asarray(self.gpus * self.plan.usd_per_hour)

    @property
    def usd_per_million_output_tokens(self) -> Array:
        """All that the fleet costs over the tokens that it generates, input included."""
        tokens_per_hour = 3600 * self.requests_per_s * self.plan.load.output_tokens
        return 1e6 * self.usd_per_hour / tokens_per_hour

    @property
    def replicas_at_floor(self) -> Array:
        """The same at the floor, fully loaded."""
        return _replicas(self.floor.busy_at_floor_s, self.requests_per_s)

    @property
    def gpus_at_floor(self) -> Array:
        """Accelerators at the floor."""
        return np.asarray(self.replicas_at_floor * self.floor.gpus)

    @property
    def usd_per_hour_at_floor(self) -> Array:
        """Price at the floor."""
        return np.asarray(self.gpus_at_floor * self.floor.usd_per_hour)


ROUNDING = 1e-12
"""A load that rounding puts a hair above a whole number of deployments takes no further one."""


def _replicas(busy_s: Array, requests_per_s: float) -> Array:
    """Deployments, each of which finishes ``1 / busy_s`` requests a second."""
    return np.ceil(busy_s * requests_per_s * (1 - ROUNDING))


def fleet(plan: Plan, *, requests_per_s: float, utilization: float = 1.0) -> Fleet:
    """The fleet of every accelerator and precision of ``plan`` that serves ``requests_per_s``.

    A deployment that is kept at its batch finishes ``1 / busy`` requests a second, so it takes
    ``ceil(rate * busy / utilization)`` of them.  Among all candidates that meet the SLO the one with the lowest price
    is taken, or the fewest accelerators where no price is given.  Techniques, formats and engine are the plan's.

    Parameters
    ----------
    plan : Plan
        The candidates.
    requests_per_s : float
        Mean rate of arrivals.
    utilization : float
        Target utilization (0-1]; below 1 leaves headroom for bursts.

    Returns
    -------
    Fleet
        One row for each accelerator and precision, the cheapest first.

    Raises
    ------
    InvalidInput
        A rate that is not above 0, a utilization outside (0, 1], or a plan in which no candidate meets the SLO.

    Examples
    --------
    >>> import roofline as rl
    >>> found = rl.plan("llama-3.1-8b", ["h100-sxm"], rl.Workload(1500, 300), slo=rl.SLO(tpot_s=0.03))
    >>> need = rl.fleet(found, requests_per_s=100)
    >>> bool(need.gpus[0] >= need.gpus_at_floor[0] > 0)
    True
    """
    rate = float(np.max(number("requests_per_s", requests_per_s, least=1e-12)))
    if not 0 < utilization <= 1:
        raise InvalidInput(f"utilization must be above 0 and at most 1: {utilization!r}")
    if not plan.feasible.any():
        raise InvalidInput(f"no candidate meets the SLO; the closest: {plan.reason[0]}")
    chosen = _cheapest(plan, plan.feasible, plan.busy_s, rate / utilization)
    ideal = _cheapest(plan, plan.feasible_at_floor | plan.feasible, plan.busy_at_floor_s, rate)
    rows, floors = _paired(plan, chosen, ideal)
    found = Fleet(plan.take(rows), plan.take(floors), rate, utilization, plan.assumptions)
    order = np.lexsort((found.gpus, np.where(np.isfinite(found.usd_per_hour), found.usd_per_hour, np.inf)))
    return Fleet(plan.take(rows[order]), plan.take(floors[order]), rate, utilization, plan.assumptions)


def _cheapest(plan: Plan, allowed: Array, busy_s: Array, rate: float) -> Array:
    """Places of the row with the fewest accelerators for every accelerator and precision, first by name."""
    places = np.flatnonzero(allowed)
    gpus = (_replicas(busy_s, rate) * plan.gpus)[places]
    order = places[np.lexsort((-np.nan_to_num(plan.headroom[places]), plan.gpus[places], gpus))]
    _, first = np.unique(_keys(plan)[order], return_index=True)
    return np.asarray(order[first])


def _keys(plan: Plan) -> Array:
    return np.char.add(np.char.add(plan.accelerator, "/"), plan.precision)


def _paired(plan: Plan, chosen: Array, ideal: Array) -> tuple[Array, Array]:
    """Both for the accelerators that have a fleet."""
    keys = _keys(plan)
    return chosen, ideal[np.searchsorted(keys[ideal], keys[chosen])]
