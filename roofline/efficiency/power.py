"""Power: what an accelerator draws under load, fitted to measured boards, and its speed under a power limit.

The model is linear in activity, so energy adds up over operators:

    P / TDP = min(limit / TDP, idle + busy * duty + memory * u_memory + compute * u_compute)

where ``duty`` is the share of time in which kernels run, ``u_memory`` the achieved share of memory bandwidth, and
``u_compute`` the achieved share of the dense peak.  ``idle`` is the power of an idle board, ``busy`` what clocks and
schedulers add while kernels run.  The shares are fitted for families with measured power
(``efficiency_specs/power.yaml``, written by ``benchmarks/energy.py``).  For all others the result is the TDP, labeled
as an upper bound.

A power limit lowers the clock of the compute units and leaves that of the memory unchanged.  Clocked power is
proportional to ``f V^2``.  The voltage ``V`` has a minimum ``v`` up to a knee ``k`` and rises from there to 1 at full
clock.  With a share ``s`` of the demand that does not depend on the clock (idle board and memory),

    limit / demand = s + (1 - s) f V^2,      V = v + (1 - v) max(f - k, 0) / (1 - k)

and a pass of which a share ``m`` waits for the memory or the network runs at ``1 / (m + (1 - m) / f)`` of its speed.
Where a family was fitted, ``s`` is what its own shares make it in the pass, ``(idle + memory u_memory) / share``, and
the demand may exceed the TDP, at which the board slows down already: times are relative to those at the TDP.  Elsewhere
``s`` is that of an RTX 3090, and the demand at most the TDP.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import larger, scalar, smaller
from ..errors import Number
from ..files import read_yaml
from ..hardware import Accelerator
from ..values import Value
from .lookup import matches
from .store import folder


@dataclass(frozen=True, eq=False)
class PowerModel(Value):
    """Shares of the TDP that a device draws by activity.

    Attributes
    ----------
    idle : float
        Share drawn when idle.
    busy : float
        Additional share while kernels run.
    memory : float
        Additional share at full memory bandwidth.
    compute : float
        Additional share at the full dense peak.
    low, high : float
        Measured over predicted power at the 10th and the 90th percentile, of models left out of the fit.
    basis : str
        One sentence on the source of the parameters.
    fitted : bool
        Whether the parameters were fitted to measurements; if not, the result is the TDP as an upper bound.
    """

    idle: float
    busy: float
    memory: float
    compute: float
    low: float
    high: float
    basis: str
    fitted: bool = True

    def share(self, duty: Number, memory: Number, compute: Number) -> Number:
        """The linear form, without a limit.

        Parameters
        ----------
        duty : float or array
            Share of the time in which kernels run.
        memory : float or array
            Bytes moved over what the bandwidth could have moved in that time.
        compute : float or array
            FLOPs over what the dense peak could have done in that time.

        Returns
        -------
        float or array
            Power over TDP.
        """
        return self.idle + self.busy * duty + self.memory * memory + self.compute * compute

    def still(self, duty: Number, memory: Number, compute: Number) -> Number:
        """Share of that power that does not depend on the clock: the idle board and the memory.

        Parameters
        ----------
        duty, memory, compute : float or array
            As of `share`.

        Returns
        -------
        float or array
            Share of the power without a limit.
        """
        return scalar((self.idle + self.memory * np.asarray(memory)) / self.share(duty, memory, compute))


def power_model(accelerator: Accelerator) -> PowerModel:
    """Power model of an accelerator: its family's, or the TDP as an upper bound.

    Parameters
    ----------
    accelerator : Accelerator
        Any accelerator, with or without a TDP.

    Returns
    -------
    PowerModel
        Shares of the TDP.
    """
    about = (accelerator.vendor, accelerator.architecture, accelerator.memory_type)
    beyond = accelerator.tdp_scope in ("module", "machine")  # the shares are of boards
    return _power_model(accelerator.name, *(("", "", "") if beyond else about))


@lru_cache(maxsize=512)
def _power_model(name: str, vendor: str, architecture: str, memory_type: str) -> PowerModel:
    said = {"vendor": vendor, "architecture": architecture, "memory_type": memory_type}
    for family in _filed()["families"]:
        if matches(family, said):
            measured = f"{family['rows']:,} steady states of {family['boards']}"
            basis = f"power: fitted to {measured}, median error {family['error']:.0%} on held-out models"
            idle, busy, memory, compute = (float(family[name]) for name in ("idle", "busy", "memory", "compute"))
            return PowerModel(idle, busy, memory, compute, float(family["low"]), float(family["high"]), basis)
    others = _filed()["others"]
    idle, low = float(others["idle"]), float(others["low"])
    basis = f"power: TDP as an upper bound; no measurements of {name} or its family"
    return PowerModel(idle, 1.0 - idle, 0.0, 0.0, low, 1.0, basis, fitted=False)


@lru_cache(maxsize=1)
def _filed() -> Mapping[str, Any]:
    found: Mapping[str, Any] = read_yaml(folder() / "power.yaml")
    return found


LEAST_CLOCK = 0.1
"""Lowest clock of any device as a share of its full clock; limits that would need a lower clock are exceeded.

The lowest clocks that boards can be locked at are 0.06 to 0.15 of their highest (180 of 3,090 MHz on an RTX 5090)."""


def clock_under(limit: Number, demand: Number, static: str | Number = "static") -> Number:
    """Clock of a device under a power limit, as a share of its full clock.

    Parameters
    ----------
    limit : float or array
        Power limit, W.
    demand : float or array
        Power without a limit, W.
    static : str, float or array
        Share of demand that is independent of the clock: ``static``, as filed; ``static_low``, the lowest of any board;
        or a number.

    Returns
    -------
    float or array
        The ``f`` whose ``s + (1 - s) f V^2`` is ``limit / demand``, with ``s``, ``k`` and ``v`` of
        ``efficiency_specs/power.yaml``; 1 where the limit is above the demand, and no less than `LEAST_CLOCK`.

    Examples
    --------
    >>> clock_under(300, 250), round(clock_under(300, 400), 3), round(clock_under(200, 400), 3)
    (1.0, 0.805, 0.289)
    """
    caps = _filed()["caps"]
    still = float(caps[static]) if isinstance(static, str) else static
    knee, voltage = float(caps["knee"]), float(caps["voltage"])
    share = smaller(scalar(np.divide(limit, demand)), 1.0)
    return clock_of((share - still) / (1 - still), knee, voltage)


def clock_of(drawn: Number, knee: float, voltage: float) -> Number:
    """The ``f`` whose ``f V^2`` is ``drawn``, with a least voltage up to a knee; no less than `LEAST_CLOCK`."""
    clocks, power = _clocks(knee, voltage)
    return scalar(larger(np.interp(drawn, power, clocks), LEAST_CLOCK))


@lru_cache(maxsize=64)
def _clocks(knee: float, voltage: float) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Shares of the full clock, and ``f V^2`` at each."""
    clocks = np.linspace(0.0, 1.0, 1001)  # to a thousandth of the clock, between which power is interpolated
    volts = voltage + (1 - voltage) * np.maximum(clocks - knee, 0.0) / (1 - knee)
    return clocks, clocks * volts**2


def speed_under(clock: Number, memory_share: Number) -> Number:
    """The speed of a pass at a share of the full clock: ``1 / (m + (1 - m) / f)``.

    Parameters
    ----------
    clock : float or array
        Share of the full clock, as of `clock_under`.
    memory_share : float or array
        Share of the pass that waits for the memory or the network, whose clocks stay.

    Returns
    -------
    float or array
        Speed over that without a limit.

    Examples
    --------
    >>> speed_under(0.5, 0.0), speed_under(0.5, 1.0)
    (0.5, 1.0)
    """
    return scalar(1.0 / (memory_share + (1.0 - memory_share) / np.asarray(clock)))
