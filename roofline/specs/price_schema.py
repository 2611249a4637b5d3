"""What price lists and lists of cloud instances have to look like."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from ..errors import InvalidInput
from .schema import Date, Quantity, Source, SpecFile, Strict, wrong_with

Term = Literal["on_demand", "spot", "reserved_1y", "reserved_3y", "capacity_block"]
Market = Literal["hyperscaler", "cloud", "marketplace", "own"]


class PriceSpec(Strict):
    """What somebody asks for an hour of an instance with ``accelerators`` of one kind."""

    accelerator: str
    """Name of the accelerator in the library."""
    provider: str
    """Who asks the price."""
    usd_per_hour: Quantity
    """Price of the whole instance, all its accelerators and its host together."""
    accelerators: Annotated[int, Field(ge=1)] = 1
    """Accelerators in the instance."""
    instance: str = ""
    """Name of the instance, as the provider writes it."""
    term: Term = "on_demand"
    """Whether it is paid by the hour, may be interrupted, or is booked for one year, three years or a block of days."""
    region: str = ""
    """Where the price holds; empty if it holds everywhere or is not stated."""
    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")] = "USD"
    """Currency that is billed; ``usd_per_hour`` is converted and ``printed`` holds the original."""
    date: Date
    """When the price was seen: YYYY-MM-DD, YYYY-MM or YYYY."""


class PurchaseSpec(Strict):
    """What one accelerator costs to buy."""

    accelerator: str
    """Name of the accelerator in the library."""
    usd: Quantity
    """Price of one."""
    kind: Literal["list", "msrp", "street", "used", "machine"]
    """List price, suggested retail price, street price, used, or the price of a whole machine with it."""
    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")] = "USD"
    """Currency of the offer; ``usd`` is converted and ``printed`` holds the original."""
    date: Date
    """When the price was seen: YYYY-MM-DD, YYYY-MM or YYYY."""


class PriceListSpec(SpecFile):
    """One file of ``hardware_specs/prices/``: prices by the hour, and prices to buy."""

    market: Market = "own"
    """Who the providers are; ``cloud`` is one that specializes in accelerators, ``own`` a contract of yours."""
    sources: Annotated[dict[str, Source], Field(min_length=1)]
    """Documents that the prices are quoted from, by a short name."""
    prices: Annotated[tuple[PriceSpec, ...], Field(strict=False)] = ()
    """Prices by the hour."""
    purchases: Annotated[tuple[PurchaseSpec, ...], Field(strict=False)] = ()
    """Prices to buy."""

    @field_validator("prices")
    @classmethod
    def _hourly(cls, prices: tuple[PriceSpec, ...], info: ValidationInfo) -> tuple[PriceSpec, ...]:
        figures = [(f"prices.{at}.usd_per_hour", price.usd_per_hour) for at, price in enumerate(prices)]
        _refuse_wrong(figures, "usd_per_hour", info)
        return prices

    @field_validator("purchases")
    @classmethod
    def _purchases(cls, prices: tuple[PurchaseSpec, ...], info: ValidationInfo) -> tuple[PurchaseSpec, ...]:
        _refuse_wrong([(f"purchases.{at}.usd", price.usd) for at, price in enumerate(prices)], "usd", info)
        return prices

    @model_validator(mode="after")
    def _not_empty(self) -> PriceListSpec:
        if not self.prices and not self.purchases:
            raise InvalidInput("a price list needs prices or purchases")
        return self

    def build(self) -> PriceListSpec:
        """The list itself: it needs no conversion."""
        return self


class InstanceSpec(Strict):
    """What one kind of cloud instance has."""

    provider: str
    """Who rents it out."""
    accelerator: str
    """Name of the accelerator in the library."""
    accelerators: Annotated[int, Field(ge=1)]
    """How many of them."""
    aliases: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Other names of the instance or of its series."""
    source: str
    """The source that says so, one of ``sources``."""
    verified: bool = True
    """Whether the source was read for this instance."""


class InstanceListSpec(SpecFile):
    """One file of ``hardware_specs/instances/``: the accelerators of cloud instances."""

    sources: Annotated[dict[str, Source], Field(min_length=1)]
    """Documents that say which accelerators an instance has, by a short name."""
    instances: Annotated[dict[str, InstanceSpec], Field(min_length=1)]
    """Name of the instance, as the provider writes it -> what it has."""

    @field_validator("instances")
    @classmethod
    def _sources_exist(cls, instances: dict[str, InstanceSpec], info: ValidationInfo) -> dict[str, InstanceSpec]:
        known = info.data.get("sources", {})
        for name, instance in instances.items():
            if known and instance.source not in known:
                raise InvalidInput(f"instances.{name}: source {instance.source!r} is not among {', '.join(known)}")
        return instances

    def build(self) -> InstanceListSpec:
        """The list itself: it needs no conversion."""
        return self


def _refuse_wrong(figures: list[tuple[str, Quantity]], quantity: str, info: ValidationInfo) -> None:
    wrong = [line for path, item in figures for line in wrong_with(path, quantity, item, info.data.get("sources"))]
    if wrong:
        raise InvalidInput("; ".join(wrong))
