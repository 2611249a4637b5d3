"""Simulation of a server under load, every step of its scheduler (`roofline.serving.scheduler`)."""

from __future__ import annotations

from ..phases.deployment import Deployment
from ..phases.workload import Workload
from .arrivals import Demand, demand
from .outcome import Simulation
from .request_loops import Progress, play
from .step_times import StepTimes, step_times
from .trace import Trace, without_times
from .traffic import Traffic


def simulate(
    deployment: Deployment,
    load: Workload | Traffic | Trace,
    *,
    concurrency: int | None = None,
    requests_per_s: float | None = None,
    burstiness: float = 1.0,
    requests: int | None = None,
    seed: int = 0,
    hit_rate: float = 0.0,
    time: str = "estimate_s",
    progress: Progress | None = None,
) -> Simulation:
    """Simulate every scheduler step of a deployment under load.

    Parameters
    ----------
    deployment : Deployment
        Deployment to simulate; its engine sets how requests are scheduled.
    load : Workload, Traffic or Trace
        Lengths of the requests. Requests of a workload are all alike and run in lockstep. Requests of a traffic are
        drawn from its buckets. A trace is replayed as recorded if neither a concurrency nor a rate is given.
    concurrency : int
        Requests in the system at any time (closed loop).
    requests_per_s : float
        Mean rate of arrivals (open loop). Above the capacity of the deployment, waiting times grow with the length of
        the run, and the result has a note.
    burstiness : float
        Squared coefficient of variation of the gaps between arrivals: 1 is Poisson.
    requests : int
        Number of requests; by default 10 per client in a closed loop, 5,000 in an open loop.
    seed : int
        The same seed repeats a run exactly.
    hit_rate : float
        Share of every prompt that is found in the prefix cache.
    time : str
        Which of the three times a step takes.
    progress : callable
        Called with the number of finished requests and the total.

    Returns
    -------
    Simulation
        Means, quantiles and a record of every request.

    Raises
    ------
    InvalidInput
        Both ``concurrency`` and ``requests_per_s`` are given, or neither and ``load`` is not a trace; a number is out
        of range; or a request is longer than the cache (the message gives the longest that fits).

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm"), engine="vllm")
    >>> found = rl.simulate(serve, rl.Workload(1500, 300), requests_per_s=5.0, requests=500)
    >>> found.quantile("ttft_s", 0.95) > found.ttft_s > 0
    True
    """
    without_times(load)  # raises if the load has no request lengths
    if isinstance(load, Trace) and concurrency is None and requests_per_s is None:
        return run(deployment, load, _recorded(load, seed, hit_rate), step_times(deployment, time=time), progress)
    how = demand(concurrency, requests_per_s, burstiness=burstiness, requests=requests, seed=seed, hit_rate=hit_rate)
    return run(deployment, load, how, step_times(deployment, time=time), progress)


def _recorded(load: Trace, seed: int, hit_rate: float) -> Demand:
    """Return the arrivals recorded in a trace."""
    return Demand(None, load.requests_per_s, load.burstiness, len(load), seed, hit_rate, recorded=True)


def run(
    deployment: Deployment,
    load: Workload | Traffic | Trace,
    how: Demand,
    times: StepTimes,
    progress: Progress | None = None,
) -> Simulation:
    """Run a simulation with given step times."""
    return Simulation(deployment, load, how, times, *play(deployment, load, how, times, progress))
