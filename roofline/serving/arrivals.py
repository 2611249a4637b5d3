"""Requests of a simulation: their lengths and arrival times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput, Number, number, one_number
from ..phases.workload import Workload
from .request_records import Requests
from .trace import Trace
from .traffic import Traffic

ROUNDS = 10
"""Default number of requests per client in a closed loop."""

OPEN_REQUESTS = 5_000
"""Default number of requests in an open loop."""

LOWEST_RATE, HIGHEST_RATE = 1e-9, 1e9
"""Requests per second: one in 30 years, and more than the world's accelerators could serve."""

MOST_CLIENTS = 1e9
"""Largest number of requests in the system."""

MOST_REQUESTS = 5_000_000
"""A simulation keeps a record of every request."""


def draw_requests(
    load: Workload | Traffic | Trace, count: int, rng: np.random.Generator, *, hit_rate: float = 0.0
) -> Requests:
    """Return ``count`` requests: all alike for a workload, drawn at random from the buckets of a traffic.

    Parameters
    ----------
    load : Workload, Traffic or Trace
        Request lengths. The batch of a workload is ignored. A trace gives its first ``count`` requests and repeats if
        it has fewer.
    count : int
        How many.
    rng : numpy.random.Generator
        Random number generator.
    hit_rate : float
        Share of every prompt that is already cached; the last token is always computed.

    Returns
    -------
    Requests
        The requests, all arriving at time 0.

    Raises
    ------
    InvalidInput
        The workload has arrays, or ``hit_rate`` is outside [0, 1].
    """
    check_hit_rate(hit_rate)
    if isinstance(load, Traffic):
        chosen = rng.choice(len(load.share), size=count, p=load.share)
        prompt, output = load.prompt_tokens[chosen], load.output_tokens[chosen]
        cached = np.full(count, load.cached_tokens)
    elif isinstance(load, Trace):
        order = np.arange(count) % len(load)
        prompt, output, cached = load.prompt_tokens[order], load.output_tokens[order], load.cached_tokens[order]
    else:
        lengths = (load.prompt_tokens, load.output_tokens, load.cached_tokens)
        if any(np.ndim(length) for length in lengths):
            raise InvalidInput("a simulation takes a single workload or a Traffic, but a length is an array")
        prompt, output, cached = (np.full(count, float(length)) for length in lengths)
    found = np.minimum(np.floor(hit_rate * prompt), prompt - 1)
    return Requests(_whole(prompt - found), _whole(cached + found), _whole(output), [0.0] * count)


def arrival_times(rate: float, count: int, burstiness: float, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return the times of ``count`` arrivals at a mean ``rate``.

    Gaps are gamma distributed with a squared coefficient of variation of ``burstiness``: 1 is a Poisson process, 0
    gives equal gaps, and above 1 arrivals cluster.

    Parameters
    ----------
    rate : float
        Requests per second.
    count : int
        How many.
    burstiness : float
        Squared coefficient of variation of the gaps.
    rng : numpy.random.Generator
        Random number generator.

    Returns
    -------
    array
        Arrival times in seconds, ascending, starting at 0.

    Examples
    --------
    >>> arrival_times(4.0, 3, 0.0, np.random.default_rng(0))
    array([0.  , 0.25, 0.5 ])
    """
    if burstiness == 0:
        return np.arange(count) / rate
    gaps = rng.gamma(1.0 / burstiness, burstiness / rate, size=count)
    times: npt.NDArray[np.float64] = np.cumsum(gaps) - gaps[0]
    return times


def _whole(values: npt.NDArray[Any]) -> list[int]:
    return [int(value) for value in np.round(values).tolist()]


@dataclass(frozen=True)
class Demand:
    """How requests arrive: from ``concurrency`` clients, at ``requests_per_s`` with a burstiness, or as recorded."""

    concurrency: int | None
    requests_per_s: float | None
    burstiness: float
    requests: int
    seed: int
    hit_rate: float
    recorded: bool = False

    @property
    def open_loop(self) -> bool:
        """Whether requests arrive at a given rate."""
        return self.requests_per_s is not None

    def __str__(self) -> str:
        if self.concurrency is not None:
            return f"closed loop, {self.concurrency:,} in the system"
        if self.recorded:
            return f"arrivals of a trace, {self.requests_per_s:.3g} requests/s, burstiness {self.burstiness:.3g}"
        return f"open loop, {self.requests_per_s:g} requests/s, burstiness {self.burstiness:g}"


def check_hit_rate(value: object) -> None:
    """Check a share of prompt tokens that is found in the prefix cache.

    Raises
    ------
    InvalidInput
        The value is not a number from 0 to 1.
    """
    if not 0 <= one_number("hit_rate", value) <= 1:
        raise InvalidInput(f"hit_rate must be a share from 0 to 1: {value!r}")


def checked_rate(value: object) -> Number:
    """Return requests per second, or an array of them.

    Raises
    ------
    InvalidInput
        A rate is not a number, or out of range.
    """
    return number("requests_per_s", value, least=LOWEST_RATE, most=HIGHEST_RATE, empty=True)


def checked_concurrency(value: object) -> Number:
    """Return a number of requests in the system, or an array of them.

    Raises
    ------
    InvalidInput
        A number is not an integer, or out of range.
    """
    return number("concurrency", value, least=1, most=MOST_CLIENTS, whole=True, empty=True)


def demand(
    concurrency: object,
    requests_per_s: object,
    *,
    burstiness: float,
    requests: int | None,
    seed: int,
    hit_rate: float = 0.0,
) -> Demand:
    """Return the demand after checking its arguments.

    Raises
    ------
    InvalidInput
        Both or neither of ``concurrency`` and ``requests_per_s`` are given, or a number is out of range.
    """
    if (concurrency is None) == (requests_per_s is None):
        raise InvalidInput("give either concurrency (closed loop) or requests_per_s (open loop)")
    if concurrency is not None:
        clients = int(one_number("concurrency", checked_concurrency(concurrency), least=1, whole=True))
        count = ROUNDS * clients if requests is None else requests
        rate = None
    else:
        clients = None
        rate = one_number("requests_per_s", checked_rate(requests_per_s))
        count = OPEN_REQUESTS if requests is None else requests
    one_number("burstiness", burstiness)
    one_number("seed", seed, whole=True)
    one_number("requests", count, least=1, most=MOST_REQUESTS, whole=True)
    return Demand(clients, rate, float(burstiness), int(count), int(seed), float(hit_rate))
