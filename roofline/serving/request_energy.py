"""Energy of a request in steady state above idle power: its prompt and its share of the decode steps.

Energy is additive (`roofline.phases.energy`), so the energy of a request is its share of the passes that it is part of:
its part of the pass that computes its prompt, and ``1 / B`` of a step for each of its tokens.  Boards always draw their
idle power.  With ``busy_s``, the deployment time per request,

    watts = accelerators * idle_watts + (prompt_j + steps_j) / busy_s,

limited to the power limits of the boards.
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
    """Board power of a deployment in steady state, and the split of a request's energy.

    Attributes
    ----------
    watts : float or array
        Mean power of all accelerators while the deployment is at its batch, W.
    prompt_share : float or array
        Share of a request's energy spent on its prompt; idle power is split by time.
    """

    watts: Number
    prompt_share: Number


def request_energy(steady: Steady) -> RequestEnergy:
    """Compute the board power of a deployment in steady state, and the share of prompts in the energy.

    Parameters
    ----------
    steady : Steady
        Requests in steady state, at the estimate.

    Returns
    -------
    RequestEnergy
        Power and share; NaN for accelerators without a TDP.
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
    """Return the energy of one prompt: its part of the pass that computes it, or what its chunks add to steps."""
    passes = steady.passes.waiting(False)  # waiting takes power, counted as idle, and no further work
    if steady.case.chunk_tokens is not None:
        made = passes.chunks
        added = larger(scalar(passes.mixed_j - passes.step.spent_j), 0.0)
        return made.passes * added / np.maximum(made.prompts, 1.0) / passes.lanes
    if steady.case.handover_bytes_per_s is not None:
        return passes.prompt.spent_j / steady.case.serve.parallel.data
    return passes.prompt_j
