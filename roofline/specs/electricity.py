"""Electricity: what is around the accelerators and what a kilowatt-hour costs, as far as the caller knows it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import InvalidInput, Number, number
from ..hardware import Accelerator
from ..values import Value

JOULES_OF_A_KWH = 3.6e6
WATTS_OF_A_KILOWATT = 1000


@dataclass(frozen=True, eq=False)
class Power(Value):
    """Power limit, host, losses and price of electricity. Nothing is assumed for what is not given, and results say so.

    Attributes
    ----------
    limit_w : float, optional
        Power limit of each accelerator in watts, which may slow it down; the device's own if not given.
    idle_w : float, optional
        Power of an idle accelerator, in watts; measured values of its family if not given.
    host_w : float, optional
        Share of the host's power (CPUs, memory, NICs, fans) per accelerator, in watts.
    wall : float, optional
        Power at the wall divided by power of accelerators and host, at least 1; accounts for losses in power supplies.
    pue : float, optional
        Power usage effectiveness (PUE): power of the data center divided by power of its machines, at least 1.
    usd_per_kwh : float, optional
        Price of electricity in USD per kWh.
    gco2_per_kwh : float, optional
        Carbon intensity of electricity in grams of CO2 per kWh.

    Raises
    ------
    InvalidInput
        A value that is not a finite number >= 0, a limit of 0, or a factor below 1.

    Examples
    --------
    >>> Power(host_w=100, wall=1.05, pue=1.2).at_the_meter(500)
    756.0
    """

    limit_w: float | None = None
    idle_w: float | None = None
    host_w: float | None = None
    wall: float | None = None
    pue: float | None = None
    usd_per_kwh: float | None = None
    gco2_per_kwh: float | None = None

    def __post_init__(self) -> None:
        for name in ("limit_w", "idle_w", "host_w", "usd_per_kwh", "gco2_per_kwh"):
            _checked(name, getattr(self, name), least=0)
        for name in ("wall", "pue"):
            _checked(name, getattr(self, name), least=1)
        if self.limit_w is not None and not self.limit_w > 0:
            raise InvalidInput(f"limit_w must be above 0: {self.limit_w!r}")

    def at_the_meter(self, watts: Number) -> Number:
        """What the data center draws for an accelerator: ``(watts + host_w) * wall * pue``, each as far as it is given.

        Parameters
        ----------
        watts : float or array
            What the accelerator draws, W.

        Returns
        -------
        float or array
            W.
        """
        return (watts + (self.host_w or 0.0)) * (self.wall or 1.0) * (self.pue or 1.0)

    @property
    def scope(self) -> str:
        """What the figures are of, in words: ``accelerators, host, power supplies``."""
        parts = {"host": self.host_w, "power supplies": self.wall, "data center (PUE)": self.pue}
        counted = ["accelerators", *(name for name, value in parts.items() if value is not None)]
        missing = [name for name, value in parts.items() if value is None]
        return ", ".join(counted) + (f"; without {', '.join(missing)}" if missing else "")


def _checked(name: str, value: float | None, *, least: float) -> None:
    if value is not None and np.ndim(number(name, value, least=least)):
        raise InvalidInput(f"{name} must be one number: {value!r}")


BOARDS_ALONE = Power()
"""Nothing but the accelerators."""


def idle_watts(power: Power, accelerator: Accelerator, fitted: float) -> float:
    """What an idle accelerator draws: as given, else the share of its TDP that was measured of its family.

    Parameters
    ----------
    power : Power
        What the caller knows.
    accelerator : Accelerator
        Which one.
    fitted : float
        Share of the TDP; NaN where nothing was measured.

    Returns
    -------
    float
        W; NaN if it is not known.
    """
    if power.idle_w is not None:
        return power.idle_w
    return np.nan if accelerator.tdp_watts is None else fitted * float(np.max(accelerator.tdp_watts))
