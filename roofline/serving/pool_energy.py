"""Power of separate pools: a worker draws the power of its passes while it is busy, and idle power otherwise.

    watts = sum over both pools of workers * (duty * busy_watts + (1 - duty) * idle_watts)

While a worker is busy it draws idle power and what its passes take above it (`roofline.phases.energy`):

    busy_watts = idle * TDP * accelerators + spent_j / pass_s,   at most the power limits

Prompts run on prefill workers alone and steps on decode workers alone, so the energy of a request is that of its own
passes, as on one deployment, plus the idle time of two pools.  The energy of network cards and links is that of the
host, which `Power` states.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..arrays import scalar, smaller
from ..efficiency.power import power_model
from ..errors import Number
from ..phases.deployment import Deployment
from ..phases.energy import limit_watts, tdp_watts
from ..specs.electricity import BOARDS_ALONE, Power, idle_watts
from .pass_times import PassTime
from .scenario import Scenario
from .steady_state import steady_state

ESTIMATE = "estimate_s"
"""Time that power refers to; there is none at the floor."""


class PoolWatts(NamedTuple):
    """Mean power of the workers of two pools, W.

    Attributes
    ----------
    prefill, decode : float
        All workers of a pool, over busy and idle time.
    """

    prefill: float
    decode: float

    @property
    def total(self) -> float:
        """Both pools."""
        return self.prefill + self.decode


class Busy(NamedTuple):
    """Workers of a pool: what one draws while it is busy, in W for all its accelerators, and how much of the time."""

    worker: Deployment
    workers: int
    busy_watts: float
    duty: float

    def watts(self, power: Power = BOARDS_ALONE) -> float:
        """Mean power of all workers, with host and losses as far as ``power`` states them.

        NaN if workers are idle part of the time and the power of an idle accelerator is unknown.
        """
        boards = float(self.worker.parallel.accelerators)
        mean = self.duty * self.busy_watts / boards
        if self.duty < 1.0:
            mean += (1.0 - self.duty) * idle_watts(power, self.worker.accelerator, idle_share(self.worker))
        return float(self.workers * boards * power.at_the_meter(mean))


def idle_share(serve: Deployment) -> float:
    """Return the share of its TDP that an idle accelerator draws; NaN if its family was not measured."""
    model = power_model(serve.accelerator)
    return model.idle if model.fitted else np.nan


def busy_prefill(case: Scenario, workers: int, duty: float) -> Busy:
    """Return prefill workers that compute prompts for a share of the time; each stage of a pipeline has its own.

    Parameters
    ----------
    case : Scenario
        One worker and its requests.
    workers : int
        Number of workers.
    duty : float
        Share of the time in which a worker computes.
    """
    parallel = case.serve.parallel
    alone = steady_state(case.replace(load=replace(case.load, batch=parallel.data)), time=ESTIMATE)
    return Busy(case.serve, workers, _busy_watts(alone.passes.prompt, float(parallel.pipeline)), min(duty, 1.0))


def busy_decode(case: Scenario, workers: int, duty: float, running: float) -> Busy:
    """Return decode workers that run steps for a share of the time.

    Parameters
    ----------
    case : Scenario
        One worker and its requests.
    workers : int
        Number of workers.
    duty : float
        Share of the time in which a worker runs steps.
    running : float
        Sequences of a worker, averaged over busy and idle time.
    """
    duty = min(duty, 1.0)
    batch = max(running / duty, 1.0) if duty > 0 else 1.0
    stepping = case.replace(load=replace(case.load, batch=round(batch)))
    return Busy(case.serve, workers, _busy_watts(steady_state(stepping, time=ESTIMATE).passes.step), duty)


def _busy_watts(one: PassTime, at_once: float = 1.0) -> float:
    """Return the power of all accelerators of a worker while it runs so many passes of one kind at once."""
    serve = one.phase.deployment
    count, gpu = serve.parallel.accelerators, serve.accelerator
    standing: Number = power_model(gpu).idle * tdp_watts(gpu) * count
    wanted = standing + at_once * one.spent_j / one.seconds(ESTIMATE)
    return float(scalar(smaller(wanted, limit_watts(serve) * count)))
