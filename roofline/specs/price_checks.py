"""Whether prices and lists of instances can be true: ranges, accelerators that exist, instances that agree."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import median

from .instances import Instance
from .price_schema import InstanceListSpec, PriceListSpec, PriceSpec

USD_PER_HOUR = (0.02, 60.0)
"""For one accelerator: the cheapest old card on a marketplace, the dearest rack-scale one of a hyperscaler."""

USD_TO_BUY = (50.0, 500_000.0)

MOST_IN_AN_INSTANCE = 144


def price_doubts(listed: PriceListSpec, known: Collection[str], instances: Mapping[str, Instance]) -> Iterator[str]:
    """Yield a line for every price that nobody asks, or that contradicts another.

    Parameters
    ----------
    listed : PriceListSpec
        The file.
    known : collection of str
        Names of accelerators.
    instances : mapping
        Name of a cloud instance -> what it has.
    """
    seen: dict[tuple[str, ...], float] = {}
    for at, row in enumerate(listed.prices):
        where = f"prices.{at} ({row.accelerator}, {row.provider})"
        yield from (f"{where}: {line}" for line in _row(row, known, instances.get(row.instance)))
        key = (row.accelerator, row.provider, row.instance, row.term, row.region, row.date, str(row.accelerators))
        if row.instance and seen.setdefault(key, row.usd_per_hour.value) != row.usd_per_hour.value:
            yield f"{where}: a second price of {row.instance} of the same day, term and region"
    yield from _outliers(listed.prices)
    for at, bought in enumerate(listed.purchases):
        low, high = USD_TO_BUY
        where = f"purchases.{at} ({bought.accelerator})"
        if not low <= bought.usd.value <= high:
            yield f"{where}: {bought.usd.value:,.0f} USD is outside {low:,.0f} to {high:,.0f}"
        if bought.accelerator not in known:
            yield f"{where}: no accelerator has that name"


FEW = 3
"""Prices from which a median means something."""

SPREADS = {"instance": 2.0, "accelerator": 5.0}
"""Largest ratio to the median of an instance over regions (1.55 in the lists of 2026), and of an accelerator over
instances, which have hosts of different sizes (4.5)."""


def _outliers(rows: Sequence[PriceSpec]) -> Iterator[str]:
    """Yield a line for every price far from others of the same instance, or of the same accelerator and term."""
    doubted: set[int] = set()
    for field, most in SPREADS.items():
        groups: dict[tuple[str, ...], dict[int, float]] = {}
        for at, row in enumerate(rows):
            if getattr(row, field):
                groups.setdefault((getattr(row, field), row.term), {})[at] = row.usd_per_hour.value / row.accelerators
        for group, prices in groups.items():
            middle = median(prices.values())
            for at, one in prices.items():
                if len(prices) >= FEW and at not in doubted and not middle / most <= one <= middle * most:
                    doubted.add(at)
                    others = f"the median of {group[0]}, {group[1]}, is {middle:.4g}"
                    yield f"prices.{at} ({rows[at].accelerator}, {rows[at].provider}): {one:.4g} USD an hour; {others}"


def _row(row: PriceSpec, known: Collection[str], instance: Instance | None) -> Iterator[str]:
    low, high = USD_PER_HOUR
    one = row.usd_per_hour.value / row.accelerators
    if not low <= one <= high:
        yield f"{one:.4g} USD an hour for one accelerator is outside {low:g} to {high:g}"
    if row.accelerator not in known:
        yield "no accelerator has that name"
    if row.accelerators > MOST_IN_AN_INSTANCE:
        yield f"{row.accelerators} accelerators in one instance"
    if row.currency != "USD" and not row.usd_per_hour.printed:
        yield f"billed in {row.currency}: printed must contain the original price"
    if instance is None:
        return
    if instance.accelerator != row.accelerator:
        yield f"{row.instance} has {instance.accelerator}"
    if instance.accelerators != row.accelerators:
        yield f"{row.instance} has {instance.accelerators} accelerators, not {row.accelerators}"


def instance_doubts(listed: InstanceListSpec, known: Collection[str]) -> Iterator[str]:
    """Yield a line for every instance of an accelerator that nothing is called, or with more than any has."""
    for name, row in listed.instances.items():
        if row.accelerator not in known:
            yield f"instances.{name}: there is no accelerator {row.accelerator!r}"
        if row.accelerators > MOST_IN_AN_INSTANCE:
            yield f"instances.{name}: {row.accelerators} accelerators in one instance"
