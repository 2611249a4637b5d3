"""Energy of a request in steady state: that of its prompt and of its share of the steps, beyond idle boards.

Energy is additive (`roofline.phases.energy`), so a request spends what its own passes take, whoever shares them: a
prompt its part of the pass that it is packed into, and each of its tokens ``1 / B`` of a step.  Boards draw their idle
power all the time.  With ``busy_s`` the time of the deployment that a request takes,

    watts = accelerators * idle_watts + (prompt_j + steps_j) / busy_s,

and no more than the limits of the boards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import larger, scalar, smaller
from ..efficiency.power import power_model
from ..errors import Number
from ..phases.energy import limit_watts, tdp_watts
from .steady_state import Steady


class RequestEnergy(NamedTuple):
    """Power of a deployment in steady state, boards alone, and how the energy of a request divides.

    Attributes
    ----------
    watts : float or array
        Mean power of all accelerators while the deployment is kept at its batch, W.
    prompt_share : float or array
        Share of its energy that goes into prompts; the idle power goes by time.
    """

    watts: Number
    prompt_share: Number


def request_energy(steady: Steady) -> RequestEnergy:
    """Power and its division of a deployment in steady state.

    Parameters
    ----------
    steady : Steady
        Requests in steady state, at the estimate.

    Returns
    -------
    RequestEnergy
        NaN for accelerators that state no TDP.
    """
    passes, serve = steady.passes, steady.case.serve
    count, gpu = serve.parallel.accelerators, serve.accelerator
    idle = power_model(gpu).idle * tdp_watts(gpu) * count * steady.busy_s
    prompt_j = _prompt_j(steady)
    steps_j = passes.steps * passes.step.spent_j / steady.load.batch
    spent = prompt_j + steps_j
    watts = smaller(scalar((idle + spent) / steady.busy_s), scalar(limit_watts(serve) * count))
    share = (prompt_j + steady.prefill_share * idle) / (spent + idle)
    return RequestEnergy(watts, scalar(share))


def _prompt_j(steady: Steady) -> Number:
    """Energy of one prompt: its part of the pass that it is packed into, or what its chunks add to steps."""
    passes = steady.passes
    if steady.case.chunk_tokens is not None:
        made = passes.chunks
        added = larger(scalar(passes.mixed_j - passes.step.spent_j), 0.0)
        return made.passes * added / np.maximum(made.prompts, 1.0) / passes.lanes
    if steady.case.handover_bytes_per_s is not None:
        return passes.prompt.spent_j / steady.case.serve.parallel.data
    return passes.prompt_j
