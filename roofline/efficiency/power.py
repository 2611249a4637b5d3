"""Power: what an accelerator draws under load, fitted to measured boards, and its speed under a power limit.

The model is linear in activity, so energy adds up over operators:

    P / TDP = min(limit / TDP, idle + busy * duty + memory * u_memory + compute * u_compute)

where ``duty`` is the share of time in which kernels run, ``u_memory`` the achieved share of memory bandwidth, and
``u_compute`` the achieved share of the dense peak.  ``idle`` is the power of an idle board, ``busy`` what clocks and
schedulers add while kernels run.  The shares are fitted for families with measured power
(``efficiency_specs/power.yaml``, written by ``benchmarks/energy.py``).  For all others the result is the TDP, labeled
as an upper bound.

A power limit lowers the clock of the compute units and leaves that of the memory unchanged.  A cycle in which kernels
run, and a FLOP, take energy in proportion to ``V^2``; bytes take theirs at any clock.  The voltage ``V`` has a minimum
``v`` up to a knee ``k`` and rises from there to 1 at full clock.  A pass of ``T0`` seconds, in ``K`` of which kernels
run and ``A`` of which follow the clock, then takes at a share ``f`` of the full clock

    T(f) = T0 + A (f1 / f - 1),
    E(f) = idle T(f) + memory_j + V^2 (busy (A f1 + (K - A) f) + compute_j),
    V    = v + (1 - v) max(f - k, 0) / (1 - k)

and runs at the highest clock at which ``E(f) <= limit T(f)``.  ``f1`` is the clock at the TDP, for which times are
stated: boards slow down already where the demand would exceed it.  More work takes more energy at every clock, so it
never takes less time under a limit.  Where no family was fitted, a share ``static`` of the demand stands for the idle
board and memory, as on an RTX 3090, the rest for running kernels, and the demand is at most the TDP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

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
"""Lowest clock of any device as a share of its clock at the TDP; limits that would need a lower one are exceeded.

The lowest clocks that boards can be locked at are 0.06 to 0.15 of their highest (180 of 3,090 MHz on an RTX 5090)."""


class PowerDraw(NamedTuple):
    """Time and energy of a pass on one accelerator, by what they follow.

    Attributes
    ----------
    time_s : float or array
        Time of the pass without a power limit.
    kernels_s : float or array
        Part of it in which kernels run.
    clocked_s : float or array
        Part of that which follows the clock: all but waiting for the memory or the network.
    standing_watts : float or array
        Power that is independent of what runs and of the clock, W.
    memory_j : float or array
        Energy that is independent of the clock, J.
    busy_watts : float or array
        Additional power while kernels run at the full clock, W.
    compute_j : float or array
        Energy of the FLOPs at the full voltage, J.
    """

    time_s: Number
    kernels_s: Number
    clocked_s: Number
    standing_watts: Number
    memory_j: Number
    busy_watts: Number
    compute_j: Number

    @classmethod
    def steady(cls, watts: Number, *, static: str = "static") -> PowerDraw:
        """Return the draw of a second that is all kernels.

        Parameters
        ----------
        watts : float or array
            Power at the full clock, W.
        static : str
            Share of it that is independent of the clock: ``static``, as filed; or ``static_low``, the lowest of any
            board.
        """
        standing_watts = float(_filed()["caps"][static]) * watts
        return cls(1.0, 1.0, 1.0, standing_watts, 0.0, watts - standing_watts, 0.0)

    def time_at(self, clock: Number, full: Number = 1.0) -> Number:
        """Return the time of the pass at a clock.

        Parameters
        ----------
        clock : float or array
            Share of the full clock.
        full : float or array
            The clock for which ``time_s`` holds.
        """
        return self.time_s + self.clocked_s * (full / clock - 1.0)

    def energy_at(self, clock: Number, full: Number = 1.0) -> Number:
        """Return the energy of the pass at a clock, J.

        Parameters
        ----------
        clock : float or array
            Share of the full clock.
        full : float or array
            The clock for which ``time_s`` holds.
        """
        cycles = self.clocked_s * full + (self.kernels_s - self.clocked_s) * clock
        switched_j = voltage_at(clock) ** 2 * (self.busy_watts * cycles + self.compute_j)
        return self.standing_watts * self.time_at(clock, full) + self.memory_j + switched_j

    def clock_at(self, watts: Number) -> Number:
        """Return the clock at which the pass draws ``watts`` if it takes ``time_s`` at that clock."""
        return _highest(lambda clock: self.energy_at(clock, clock) <= watts * self.time_s, LEAST_CLOCK)

    def clock_under(self, limit: Number, full: Number = 1.0) -> Number:
        """Return the clock under a power limit.

        Parameters
        ----------
        limit : float or array
            Power limit, W.
        full : float or array
            The clock for which ``time_s`` holds, and the result at most.

        Returns
        -------
        float or array
            Share of the full clock; no less than `LEAST_CLOCK` of ``full``.

        Examples
        --------
        >>> [round(float(PowerDraw.steady(watts).clock_under(300)), 3) for watts in (250, 400, 600)]
        [1.0, 0.805, 0.289]
        """
        least = LEAST_CLOCK * full
        found = _highest(lambda clock: self.energy_at(clock, full) <= limit * self.time_at(clock, full), least)
        return scalar(smaller(found, full))


def voltage_at(clock: Number) -> Number:
    """Return the share of the full voltage at a share of the full clock."""
    caps = _filed()["caps"]
    knee, least = float(caps["knee"]), float(caps["voltage"])
    return least + (1.0 - least) * larger(clock - knee, 0.0) / (1.0 - knee)


HALVINGS = 30
"""Halvings of the range of clocks: to a billionth of the full clock."""


def _highest(holds: Callable[[Number], Any], least: Number) -> Number:
    """Return the highest clock from ``least`` to 1 at which a condition that holds up to some clock holds."""
    low, step = least, 1.0 - least
    always = holds(1.0)
    for _ in range(HALVINGS):
        step = step / 2
        low = low + step * holds(low + step)
    return scalar(np.where(always, 1.0, low))
