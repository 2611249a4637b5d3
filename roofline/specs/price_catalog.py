"""Current prices from a live catalog; the only module that requests prices from the network.

It needs ``gpuhunt`` (``pip install 'roofline[prices]'``), which downloads its maintainers' catalog, and only runs when
called.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ..errors import InvalidInput
from .instances import find_instance
from .library import called_accelerators, get_accelerator
from .prices import MARKETS, Price

HYPERSCALERS = {"aws": "AWS", "azure": "Azure", "gcp": "Google Cloud", "oci": "Oracle Cloud"}
MARKETPLACES = {"vastai": "Vast.ai"}


def live_prices(accelerator: str, *, provider: str | None = None, spot: bool | None = None) -> tuple[Price, ...]:
    """Fetch current prices of an accelerator from the catalog of ``gpuhunt``, the lowest first.

    The catalog does not always distinguish the variants of a chip. An offer counts if its instance is known to have
    this accelerator or, for unknown instances, if name and memory in the catalog match one of its names.

    Parameters
    ----------
    accelerator : str
        Name of an accelerator in the library.
    provider : str, optional
        Only offers of this provider, by its name in the catalog (``aws``, ``gcp``, ``runpod`` ...).
    spot : bool, optional
        Only offers that may be interrupted (True), or only those that may not (False).

    Returns
    -------
    tuple of Price

    Raises
    ------
    InvalidInput
        ``gpuhunt`` is not installed, or the catalog cannot be read.
    UnknownName
        There is no such accelerator.
    """
    name = get_accelerator(accelerator).name
    try:
        import gpuhunt
    except ImportError:
        raise InvalidInput("live prices need gpuhunt: pip install 'roofline[prices]'") from None
    try:
        offers = gpuhunt.query(provider=provider, spot=spot, min_gpu_count=1)
    except Exception as error:  # any failure of the download becomes a one-line error
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
        raise InvalidInput(f"the catalog of live prices can't be read ({type(error).__name__}: {reason})") from None
    today = datetime.now(UTC).date().isoformat()
    prices = [_price(offer, today) for offer in offers if _is_of(offer, name)]
    return tuple(sorted(prices, key=lambda price: price.usd_per_hour))


def _is_of(offer: Any, name: str) -> bool:
    instance = find_instance(offer.instance_name)
    if instance is not None:
        return instance.accelerator == name
    if not offer.gpu_name or not offer.gpu_count:
        return False
    with_memory = called_accelerators(f"{offer.gpu_name} {offer.gpu_memory:g}gb") if offer.gpu_memory else []
    return name in (with_memory or called_accelerators(offer.gpu_name))


def _price(offer: Any, date: str) -> Price:
    hyperscaler = HYPERSCALERS.get(offer.provider)
    marketplace = MARKETPLACES.get(offer.provider)
    return Price(
        usd_per_hour=offer.price / offer.gpu_count,
        date=date,
        source="live catalog of gpuhunt",
        provider=hyperscaler or marketplace or offer.provider,
        term="spot" if offer.spot else "on_demand",
        region=offer.location,
        instance=offer.instance_name,
        accelerators=offer.gpu_count,
        market=_market(hyperscaler, marketplace),
    )


def _market(hyperscaler: str | None, marketplace: str | None) -> str:
    """Kind of market of a provider."""
    _, large, cloud, market = MARKETS
    if hyperscaler:
        return large
    return market if marketplace else cloud
