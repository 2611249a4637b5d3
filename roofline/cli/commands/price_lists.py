"""The command ``list prices``."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from cyclopts import Parameter

from ...errors import unknown
from ...specs.library import accelerators_like, get_accelerator, list_accelerators
from ...specs.prices import MARKETS, TERMS, Price, list_prices
from .. import options as opt
from ..output import print_json, print_text
from ..text import bullets, table

PriceHardware = Annotated[
    tuple[str, ...],
    opt.option(
        "--hardware",
        "HW,...",
        "Show only prices of these accelerators.",
        parse=opt.words,
        group=opt.OTHER,
        show_default=False,
    ),
]
Provider = Annotated[
    str | None,
    opt.option("--provider", "NAME", "Show only providers whose name contains this text.", group=opt.OTHER),
]


def _underscored(text: str) -> str:
    return text.strip().lower().replace("-", "_").replace(" ", "_")


Term = Annotated[
    str | None,
    opt.option(
        "--term",
        "NAME",
        "Show only this term: on-demand, spot, reserved-1y, reserved-3y or capacity-block.",
        parse=_underscored,
        group=opt.OTHER,
        completer=opt.completed_by(lambda: TERMS),
    ),
]
Region = Annotated[
    str | None,
    opt.option("--region", "NAME", "Show only prices of this region, and prices without a region.", group=opt.OTHER),
]
Market = Annotated[
    str | None,
    opt.option(
        "--market",
        "NAME",
        "Show only this kind of provider: hyperscaler, cloud, marketplace or own.",
        parse=opt.lower,
        group=opt.OTHER,
        completer=opt.completed_by(lambda: MARKETS),
    ),
]
PriceOf = Annotated[
    str,
    Parameter(
        name="--name",
        help="Show only accelerators whose name, alias or title contains this text.",
        show_default=False,
        negative=(),
    ),
]
Found = list[tuple[str, Price]]
"""Accelerators, each with one of its prices."""


def prices(
    name: PriceOf = "",
    *,
    hardware: PriceHardware = (),
    provider: Provider = None,
    term: Term = None,
    region: Region = None,
    market: Market = None,
    full: opt.Full = False,
    as_json: opt.Json = False,
) -> None:
    """List known prices per accelerator-hour, lowest first."""
    if name and not (like := accelerators_like(name)):
        like = [get_accelerator(name).name]
    wanted = [get_accelerator(each).name for each in hardware] or (like if name else list_accelerators())
    found = [
        (each, price)
        for each in wanted
        for price in list_prices(each, provider=provider, term=term, region=region, market=market)
    ]
    if provider is not None and not found:
        _require_provider(provider)
    if as_json:
        return print_json([{"hardware": each} | dataclasses.asdict(price) for each, price in found])
    if not found:
        return print_text("No prices match.")
    notes = []
    if not (full or hardware or name or provider or term or region or market):
        found = _lowest(found)
        notes.append("only the lowest price per accelerator and term; --hardware or --provider show more, --full all")
    head = ("hardware", "USD/h", "provider", "term", "region", "date")
    return print_text(table(_rows(found), head=head, right=(1,)), bullets(notes))


def _require_provider(provider: str) -> None:
    """Refuse a provider without any price."""
    known = {price.provider for name in list_accelerators() for price in list_prices(name)}
    if not any(provider.lower() in name.lower() for name in known):
        raise unknown("provider", provider, known)


def _lowest(found: Found) -> Found:
    """The first (lowest) price of every accelerator and term."""
    first: dict[tuple[str, str], tuple[str, Price]] = {}
    for name, price in found:
        first.setdefault((name, price.term), (name, price))
    return list(first.values())


def _rows(found: Found) -> list[tuple[str, ...]]:
    """One row per price, provider, term and region, with the latest month in which it was recorded."""
    groups: dict[tuple[str, ...], str] = {}
    for name, price in found:
        key = (name, f"{price.usd_per_hour:.2f}", price.provider, price.term.replace("_", " "), price.region)
        groups[key] = max(groups.get(key, ""), price.date[:MONTH])
    return [(*key, month) for key, month in groups.items()]


MONTH = len("2026-09")
