"""Prompts that gather while the next requests are on their way, in engines that run prompts first.

A client sends its next request when the last one has ended, and the server takes a time ``h`` to hand it to the
scheduler (HTTP, tokenizer, queues between processes).  Decode steps take ``d`` meanwhile, and only they end requests.
So a cycle follows from the ends of ``a = B / n`` requests in a step, with ``G = 1 / (1 - (1 - 1 / n)^B)`` steps until
one of them ends any:

- Decode steps run until the first request has ended (``G`` of them) and its successor has arrived, ``H = h / d + 1/2``
  more steps on average, since the scheduler looks at the end of a step.  All of these steps end requests.
- Then come passes over prompts, during which nothing ends.  The first has the ``a G`` successors of one step.  During a
  pass of ``p`` the successors of ``J = min(p / d, H)`` steps arrive; if there are any, with probability ``1 - (1 - 1 /
  n)^(B J)``, they share the next pass.  This goes on until those of all ``H`` steps are computed.

A cycle thus has ``G + H`` steps with ``a (G + H)`` prompts, in

    1 + sum over windows of J steps: (1 - (1 - 1 / n)^(B J))

passes.  Passes longer than ``h`` collect everything in one window: at ``a = 1`` and ``h = 4 d``, two passes in 6.1
steps, where each step would be followed by 0.63.  Without handling, ``H = 0``, there is a pass after every step that
ends a request (`roofline.serving.closed_forms.packing`), and also if a pass is no longer than a step, ``J = 1``.

A prompt of the first pass has waited for half a step, and one of a window for the pass in progress, ``p - J d / 2`` on
average.
"""

from __future__ import annotations

import numpy as np

from ..errors import Number
from .closed_forms import EPSILON, Packing


def gathering(pack: Packing, lane_batch: Number, steps: Number, *, away_steps: Number, pass_steps: Number) -> Packing:
    """Return how many prompts share a pass if the next requests take some time to arrive.

    Parameters
    ----------
    pack : Packing
        Prompts per pass if they arrive at once.
    lane_batch, steps : float or array
        Requests of a lane, decode steps of a request.
    away_steps : float or array
        Decode steps from the end of a request to the arrival of the next.
    pass_steps : float or array
        Decode steps that fit in the time of a pass over prompts.

    Returns
    -------
    Packing
        With the mean wait for passes in progress, in decode steps.

    Examples
    --------
    >>> from roofline.serving.closed_forms import packing
    >>> at_once = packing(256, 255, 1024)
    >>> round(float(at_once.per_pass), 2)
    1.58
    >>> round(float(gathering(at_once, 256, 255, away_steps=4, pass_steps=5).per_pass), 2)
    3.06
    """
    rate = 1.0 / np.maximum(steps, 1.0)
    others = np.maximum(lane_batch - 1.0, 0.0)
    ends = others * rate  # of other requests, in a step
    behind = np.maximum(away_steps + 0.5, 1.0)
    window = np.clip(pass_steps, 1.0, behind)
    windows = np.floor(behind / window)
    rest = behind - windows * window
    none_ends = others * np.log1p(-np.minimum(rate, 1.0 - EPSILON))  # logarithm of the probability, for one step
    passes = 1.0 - windows * np.expm1(none_ends * window) - np.expm1(none_ends * rest)
    prompts = pack.per_pass + ends * behind
    seen = 1.0 + ends * (pack.per_pass + ends * (windows * window**2 + rest**2)) / prompts
    lasts = np.maximum(pass_steps, 1.0)
    first_wait = pack.per_pass * np.where(others > 0, behind - away_steps, 0.0)
    further_wait = ends * (windows * window * (lasts - window / 2.0) + rest * (lasts - rest / 2.0))
    found = Packing(prompts / passes, seen, pack.most, (first_wait + further_wait) / prompts)
    arrives_later = np.logical_and(np.asarray(steps) > 0, np.asarray(away_steps) > 0)
    return Packing(*(np.where(arrives_later, new, old)[()] for new, old in zip(found, pack, strict=True)))
