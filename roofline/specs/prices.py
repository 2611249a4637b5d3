"""What accelerators cost by the hour, as seen in public price lists.

Prices move by half within months, so a price is never without its date and source, and nothing in this package uses
one that the caller did not ask for.  Prices are for one accelerator, on demand.  A list of one's own in a folder
``hardware_specs/prices`` under ``ROOFLINE_SPECS`` takes the place of the package's for the accelerators that it names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ..errors import UnknownName, number
from ..files import read_yaml
from ..hardware import Accelerator
from .library import get_accelerator, spec_folders


@dataclass(frozen=True)
class Price:
    """What one accelerator costs by the hour.

    Attributes
    ----------
    usd_per_hour : for one accelerator
    date : when it was seen, ``YYYY-MM-DD`` or ``YYYY-MM``
    source : where
    provider : who asks it, and for what
    """

    usd_per_hour: float
    date: str = "no date"
    source: str = "set by the user"
    provider: str = "own price"

    def __post_init__(self) -> None:
        number("usd_per_hour", self.usd_per_hour)

    def __str__(self) -> str:
        return f"{self.usd_per_hour:.2f} USD/h ({self.provider}, {self.date}; {self.source})"


def list_prices(accelerator: Accelerator | str | Path) -> tuple[Price, ...]:
    """Every known price of an accelerator, the lowest first; one's own list goes before the package's.

    Raises
    ------
    UnknownName
        No accelerator has that name.
    SpecError
        A price list can't be read.
    """
    name = get_accelerator(accelerator).name
    for folder in reversed(list(spec_folders("hardware_specs"))):
        found = [price for path in sorted((folder / "prices").glob("*.y*ml")) for price in _read(path, name)]
        if found:
            return tuple(sorted(found, key=lambda price: price.usd_per_hour))
    return ()


def get_price(accelerator: Accelerator | str | Path, *, provider: str | None = None) -> Price:
    """The median of the known prices of an accelerator (of two in the middle, the lower).

    Market places and the large clouds differ fourfold for one chip; see `list_prices` for all of them.

    Parameters
    ----------
    accelerator : an accelerator, a name, or the path of a spec
    provider : only from whoever has this in the name, in any case

    Raises
    ------
    UnknownName
        No accelerator has that name, or no price of it (from that provider) is known.

    Examples
    --------
    >>> import roofline as rl
    >>> print(rl.get_price("h100-sxm", provider="Vast.ai"))
    2.47 USD/h (Vast.ai, median, 2026-10-03; Survey of cloud GPU prices of 2026-10-03)
    """
    chip = get_accelerator(accelerator)
    known = list_prices(chip)
    prices = [price for price in known if provider is None or provider.lower() in price.provider.lower()]
    if not prices:
        others = f"; known: {'; '.join(price.provider for price in known)}" if known else "; give one: Price(2.5)"
        raise UnknownName(f"no price of {chip.name} {f'from {provider!r} ' if provider else ''}is known{others}")
    return prices[(len(prices) - 1) // 2]


def _read(path: Path, name: str) -> Iterator[Price]:
    """The prices of an accelerator in one list."""
    from .schema import PriceListSpec, build

    listed = cast(PriceListSpec, build(read_yaml(path), PriceListSpec, path))
    for row in listed.prices:
        if row.accelerator == name:
            one = row.usd_per_hour.value / row.accelerators
            yield Price(one, row.date, listed.sources[row.usd_per_hour.source].title, row.provider)
