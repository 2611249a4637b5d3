"""The answer of the solver in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..serving.metrics import METRICS
from ..units import humanize

if TYPE_CHECKING:
    from .solutions import Solution

GOALS = {"fits": "it to fit", "ridge": "the projections to reach the ridge point"}
"""Questions without a target -> their description."""

SIDES = {"the largest": "at most ", "the smallest": "at least "}
"""Start of a reason -> side of the value on which the target is met."""


def solution_sentence(found: Solution) -> str:
    """The required value of the input, or why no value is enough.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment("llama-3.1-70b", "h100-sxm")
    >>> print(rl.solve(serve, find="memory_bytes_per_s", target=0.020, time="floor_s").summary())
    memory_bytes_per_s must be 6.983 TB/s for a decode step of 20 ms.
    """
    goal = GOALS.get(found.metric) or f"a {METRICS[found.metric].words} of {humanize(found.metric, found.target)}"
    if not found.possible:
        return f"No {found.find} is enough for {goal}: {found.reason.removeprefix('never: ')}."
    if np.isinf(found.value):
        return f"Any {found.find} is enough for {goal}."
    side = next((words for start, words in SIDES.items() if found.reason.startswith(start)), "")
    return f"{found.find} must be {side}{humanize(found.find, found.value)} for {goal}."
