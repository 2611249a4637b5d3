"""Electricity: power beyond the accelerators and the price of electricity, as given by the user."""

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
    """Power limit, host, losses and price of electricity. Values that are not given are not assumed; results say so.

    Attributes
    ----------
    limit_w : float, optional
        Power limit of each accelerator in watts, which may slow it down; by default the device's own.
    idle_w : float, optional
        Power of an idle accelerator, in watts; by default as measured for its family.
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
        A value is not a finite number >= 0, the limit is 0, or a factor is below 1.

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
        """Power at the data center's meter: ``(watts + host_w) * wall * pue``, with the terms that are given.

        Parameters
        ----------
        watts : float or array
            Power of the accelerator in watts.

        Returns
        -------
        float or array
            Power at the meter in watts.
        """
        return (watts + (self.host_w or 0.0)) * (self.wall or 1.0) * (self.pue or 1.0)

    @property
    def scope(self) -> str:
        """Scope of the power in words: ``accelerators, host, power supplies``."""
        parts = {"host": self.host_w, "power supplies": self.wall, "data center (PUE)": self.pue}
        counted = ["accelerators", *(name for name, value in parts.items() if value is not None)]
        missing = [name for name, value in parts.items() if value is None]
        return ", ".join(counted) + (f"; without {', '.join(missing)}" if missing else "")


def _checked(name: str, value: float | None, *, least: float) -> None:
    if value is not None and np.ndim(number(name, value, least=least)):
        raise InvalidInput(f"{name} must be one number: {value!r}")


BOARDS_ALONE = Power()
"""Power of the accelerators only."""


def idle_watts(power: Power, accelerator: Accelerator, fitted: float) -> float:
    """Power of an idle accelerator: as given, or the measured share of TDP of its family.

    Parameters
    ----------
    power : Power
        Power settings of the user.
    accelerator : Accelerator
        The accelerator.
    fitted : float
        Measured idle share of the TDP; NaN if not measured.

    Returns
    -------
    float
        Watts; NaN if unknown.
    """
    if power.idle_w is not None:
        return power.idle_w
    if accelerator.tdp_watts is None:
        return np.nan
    return fitted * float(np.max(accelerator.tdp_watts))
