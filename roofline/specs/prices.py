"""What accelerators cost by the hour and to buy, as seen in public price lists.

Prices move by half within months, so a price is never without its date and source, and nothing in this package uses
one that the caller did not ask for. A list of one's own in a folder ``hardware_specs/prices`` under ``ROOFLINE_SPECS``
takes the place of the package's for the accelerators that it names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ..errors import InvalidInput, Number, UnknownName, number, unknown
from ..files import read_yaml
from ..hardware import Accelerator
from ..values import Value
from .electricity import WATTS_OF_A_KILOWATT, Power
from .folders import spec_folders
from .library import get_accelerator

if TYPE_CHECKING:
    from .price_schema import PriceListSpec

TERMS = ("on_demand", "capacity_block", "reserved_1y", "reserved_3y", "spot")
"""Terms of a price, in the order in which `get_price` takes one where the caller names none."""

MARKETS = ("own", "hyperscaler", "cloud", "marketplace")
"""Kinds of provider, in the order in which `get_price` looks for a price."""

LARGEST = ("AWS", "Azure", "Google Cloud", "Oracle Cloud")
"""Hyperscalers by size: `get_price` takes the first of them that offers an accelerator, so that comparisons of
accelerators stay within one provider's list where they can."""

HOURS_OF_A_YEAR = 8760
SECONDS_OF_AN_HOUR = 3600


MOST_USD_PER_HOUR = 1e6
"""Highest accepted price of an accelerator; more is a mistake."""


def checked_price(what: str, value: object) -> Number:
    """Return a price in USD per accelerator-hour, or an array of them.

    Parameters
    ----------
    what : str
        Name of the price in messages.
    value : object
        The price.

    Raises
    ------
    InvalidInput
        It is not a number >= 0, or too high.
    """
    return number(what, value, most=MOST_USD_PER_HOUR)


@dataclass(frozen=True, eq=False)
class Price(Value):
    """What one accelerator costs per hour, including its share of the host.

    Attributes
    ----------
    usd_per_hour : float
        USD per accelerator-hour.
    date : str
        When it was seen: ``YYYY-MM-DD``, ``YYYY-MM`` or ``YYYY``.
    source : str
        Where.
    provider : str
        The provider.
    term : str
        ``on_demand``, ``spot``, ``reserved_1y``, ``reserved_3y``, ``capacity_block``, or ``owned``.
    region : str
        Where the price applies; empty if everywhere or not stated.
    currency : str
        Currency that is billed; ``usd_per_hour`` is converted.
    instance : str
        The instance that the price is for.
    accelerators : int
        Accelerators in that instance.
    market : str
        ``hyperscaler``, ``cloud`` (one that specializes in accelerators), ``marketplace`` or ``own``.
    """

    usd_per_hour: float
    date: str = "no date"
    source: str = "set by the user"
    provider: str = "own price"
    term: str = "on_demand"
    region: str = ""
    currency: str = "USD"
    instance: str = ""
    accelerators: int = 1
    market: str = "own"

    def __post_init__(self) -> None:
        checked_price("usd_per_hour", self.usd_per_hour)

    def __str__(self) -> str:
        what = [self.provider, self.instance, self.region, self.term.replace("_", " ") if self.market != "own" else ""]
        words = " ".join(word for word in what if word)
        return f"{self.usd_per_hour:.2f} USD/h ({words}, {self.date}; {self.source})"

    @classmethod
    def owned(
        cls,
        usd: float,
        years: float,
        utilization: float = 1.0,
        power: Power | None = None,
        *,
        watts: float | None = None,
    ) -> Price:
        """What an hour of use of an accelerator costs that was bought.

        Straight-line depreciation over the hours in which it is used, and the electricity of those hours and of the
        idle ones between them; with ``u`` the utilization and kW at the meter (`Power.at_the_meter`), ``usd / (years *
        8760 * u) + usd_per_kwh * (kW + (1 - u) / u * idle kW)``.

        Parameters
        ----------
        usd : float
            Purchase price of one accelerator, its share of the host included.
        years : float
            Years until it is written off.
        utilization : float
            Share of the hours in which it is used, above 0 and at most 1.
        power : Power, optional
            Host, losses, idle power and price of electricity; without ``usd_per_kwh`` electricity is not counted.
        watts : float, optional
            What the accelerator draws while it is used, as `Phase.watts` or `Plan.watts` tell; its power limit if not
            given.

        Returns
        -------
        Price
            Its ``source`` says what is counted.

        Raises
        ------
        InvalidInput
            A value that makes no sense, or a price of electricity without a power.

        Examples
        --------
        >>> from roofline.specs.electricity import Power
        >>> print(Price.owned(30_000, 4, 0.8, Power(usd_per_kwh=0.12, idle_w=100, pue=1.25), watts=800))
        1.19 USD/h (own accelerator, no date; 30,000 USD over 4 years at 80% utilization, electricity at 0.12 USD/kWh)
        """
        number("usd", usd)
        if not number("years", years) > 0:
            raise InvalidInput(f"years must be > 0: {years!r}")
        if not 0 < number("utilization", utilization) <= 1:
            raise InvalidInput(f"utilization must be above 0 and at most 1: {utilization!r}")
        source = f"{usd:,.0f} USD over {years:g} years at {utilization:.0%} utilization"
        hourly = usd / (years * HOURS_OF_A_YEAR * utilization)
        if power is None or power.usd_per_kwh is None:
            return cls(hourly, source=f"{source}, without electricity", provider="own accelerator", term="owned")
        hourly += power.usd_per_kwh * _kilowatts(power, watts, utilization)
        source += f", electricity at {power.usd_per_kwh:g} USD/kWh"
        if power.idle_w is None and utilization < 1:
            source += " but for idle hours"
        return cls(hourly, source=source, provider="own accelerator", term="owned")


def _kilowatts(power: Power, watts: float | None, utilization: float) -> float:
    """Mean power at the meter in an hour of use, with the idle time that belongs to it, kW."""
    drawn = power.limit_w if watts is None else watts
    if drawn is None:
        raise InvalidInput("a price with electricity needs watts, or limit_w of the power")
    number("watts", drawn)
    idle = 0.0 if power.idle_w is None else float(power.at_the_meter(power.idle_w))
    mean = float(power.at_the_meter(drawn)) + (1 - utilization) / utilization * idle
    return mean / WATTS_OF_A_KILOWATT


@dataclass(frozen=True, eq=False)
class Purchase(Value):
    """What one accelerator costs to buy.

    Attributes
    ----------
    usd : float
        Price of one.
    kind : str
        ``list``, ``msrp``, ``street``, ``used`` or ``machine`` (a whole machine that has it).
    date : str
        When it was seen.
    source : str
        Where.
    note : str
        What else there is to know about it.
    """

    usd: float
    kind: str
    date: str
    source: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.usd:,.0f} USD ({self.kind}, {self.date}; {self.source})"


def usd_per_million_tokens(usd_per_hour: Number, tokens_per_s: Number) -> Number:
    """What a million tokens cost, all of the cost of their deployment on these tokens.

    Parameters
    ----------
    usd_per_hour : float or array
        Price of the whole deployment.
    tokens_per_s : float or array
        Tokens per second of the whole deployment.

    Returns
    -------
    float or array
        USD.

    Examples
    --------
    >>> round(usd_per_million_tokens(4 * 2.0, 1000), 4)
    2.2222
    """
    return usd_per_hour / SECONDS_OF_AN_HOUR / tokens_per_s * 1e6


def list_prices(
    accelerator: Accelerator | str | Path,
    *,
    provider: str | None = None,
    term: str | None = None,
    region: str | None = None,
    market: str | None = None,
) -> tuple[Price, ...]:
    """List all known prices of an accelerator, the lowest first; your own list takes precedence over the package's.

    Parameters
    ----------
    accelerator : Accelerator, str or Path
        An accelerator, a name, or the path of a spec.
    provider : str, optional
        Only from whoever has this in the name, in any case.
    term : str, optional
        Only on this term: one of ``on_demand``, ``spot``, ``reserved_1y``, ``reserved_3y``, ``capacity_block``.
    region : str, optional
        Only in this region, or without one.
    market : str, optional
        Only of this kind of provider: ``hyperscaler``, ``cloud``, ``marketplace`` or ``own``.

    Returns
    -------
    tuple of Price
        Empty if none is known.

    Raises
    ------
    UnknownName
        No accelerator, term or market has that name.
    SpecError
        A price list can't be read.
    """
    if term is not None and term not in TERMS:
        raise unknown("term", term, TERMS)
    if market is not None and market not in MARKETS:
        raise unknown("market", market, MARKETS)
    prices = [
        price
        for price in _known(get_accelerator(accelerator).name)
        if (provider is None or provider.lower() in price.provider.lower())
        and term in (None, price.term)
        and (region is None or price.region in ("", region))
        and market in (None, price.market)
    ]
    return tuple(sorted(prices, key=lambda price: (price.usd_per_hour, not price.instance)))


def get_price(
    accelerator: Accelerator | str | Path,
    *,
    provider: str | None = None,
    term: str | None = None,
    region: str | None = None,
    market: str | None = None,
) -> Price:
    """Choose the price of an accelerator that is used if you name none.

    Your own list comes first, then the largest hyperscaler that offers the accelerator (AWS, Azure, Google Cloud,
    Oracle Cloud), then the median over clouds that specialize in accelerators, then the median over marketplaces. Of
    each provider the lowest price counts, which is that of the smallest host. On-demand prices come before all others.
    Prices of hyperscalers and marketplaces differ by a factor of four for the same chip: the result says which it is,
    and `list_prices` shows all.

    Parameters
    ----------
    accelerator : Accelerator, str or Path
        An accelerator, a name, or the path of a spec.
    provider : str, optional
        Only from whoever has this in the name, in any case.
    term : str, optional
        Only on this term: one of ``on_demand``, ``spot``, ``reserved_1y``, ``reserved_3y``, ``capacity_block``.
    region : str, optional
        Only in this region, or without one.
    market : str, optional
        Only of this kind of provider: ``hyperscaler``, ``cloud``, ``marketplace`` or ``own``.

    Returns
    -------
    Price

    Raises
    ------
    UnknownName
        There is no such accelerator, or no price of it that meets the conditions is known.

    Examples
    --------
    >>> import roofline as rl
    >>> print(rl.get_price("l4"))
    0.80 USD/h (AWS g6.xlarge us-east-1 on demand, 2026-07-20; Karpenter, generated table of AWS prices of 2026-07-20)
    >>> rl.get_price("h100-sxm", provider="Vast.ai").usd_per_hour
    2.47
    """
    chip = get_accelerator(accelerator)
    known = list_prices(chip, provider=provider, term=term, region=region, market=market)
    if not known:
        raise UnknownName(_no_price(chip, provider, term, region, market))
    offered = next(each for each in TERMS if any(price.term == each for price in known))
    same_term = [price for price in known if price.term == offered]
    nearest = next(each for each in MARKETS if any(price.market == each for price in same_term))
    return _typical([price for price in same_term if price.market == nearest])


def _typical(prices: list[Price]) -> Price:
    """The lowest price of the largest provider; if none of them is large, the median over the providers."""
    lowest: dict[str, Price] = {}
    for price in prices:  # the lowest first
        lowest.setdefault(price.provider, price)
    large = next((lowest[name] for name in LARGEST if name in lowest), None)
    if large is not None:
        return large
    ordered = list(lowest.values())
    return ordered[(len(ordered) - 1) // 2]


def _no_price(chip: Accelerator, provider: str | None, term: str | None, region: str | None, market: str | None) -> str:
    """One line: what was asked for, what is known instead."""
    asked = [f"from {provider!r}"] if provider else []
    asked += [f"on term {term}"] if term else []
    asked += [f"in {region}"] if region else []
    asked += [f"of market {market}"] if market else []
    words = " ".join(["no price of", chip.name, *asked, "is known"])
    providers = dict.fromkeys(f"{price.provider} ({price.term})" for price in list_prices(chip))
    if providers:
        return f"{words}; known: {', '.join(providers)}"
    return f"{words}; give one: Price(2.5), or {chip.name}=2.5 on the command line"


def list_purchases(accelerator: Accelerator | str | Path) -> tuple[Purchase, ...]:
    """List what an accelerator costs to buy, the newest price first; your own list takes precedence over the package's.

    Parameters
    ----------
    accelerator : Accelerator, str or Path
        An accelerator, a name, or the path of a spec.

    Returns
    -------
    tuple of Purchase
        Empty if no price is known.

    Raises
    ------
    UnknownName
        There is no such accelerator.
    SpecError
        A price list can't be read.

    Examples
    --------
    >>> import roofline as rl
    >>> print(rl.list_purchases("rtx-4090")[0])
    1,599 USD (msrp, 2022-10; price table)
    """
    name = get_accelerator(accelerator).name
    for folder in _folders():
        found = [price for listed in _lists(folder) for price in _purchases(listed, name)]
        if found:
            return tuple(sorted(found, key=lambda price: price.date, reverse=True))
    return ()


def _known(name: str) -> list[Price]:
    for folder in _folders():
        found = [price for listed in _lists(folder) for price in _prices(listed, name)]
        if found:
            return found
    return []


def _folders() -> list[Path]:
    """Folders of price lists, the user's before the package's."""
    return [folder / "prices" for folder in reversed(list(spec_folders("hardware_specs")))]


def _lists(folder: Path) -> Iterator[PriceListSpec]:
    for path in sorted(folder.glob("*.y*ml")):
        yield _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=64)
def _read(path: Path, changed_ns: int) -> PriceListSpec:
    """The list in a file, read once until it changes."""
    from .price_schema import PriceListSpec
    from .schema import value_of

    return cast(PriceListSpec, value_of(read_yaml(path), PriceListSpec, path))


def _prices(listed: PriceListSpec, name: str) -> Iterator[Price]:
    """The prices of an accelerator in one list, for one accelerator."""
    for row in listed.prices:
        if row.accelerator == name:
            yield Price(
                usd_per_hour=row.usd_per_hour.value / row.accelerators,
                date=row.date,
                source=listed.sources[row.usd_per_hour.source].title,
                provider=row.provider,
                term=row.term,
                region=row.region,
                currency=row.currency,
                instance=row.instance,
                accelerators=row.accelerators,
                market=listed.market,
            )


def _purchases(listed: PriceListSpec, name: str) -> Iterator[Purchase]:
    for row in listed.purchases:
        if row.accelerator == name:
            yield Purchase(row.usd.value, row.kind, row.date, listed.sources[row.usd.source].title, row.usd.note)
