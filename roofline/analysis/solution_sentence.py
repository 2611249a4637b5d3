"""The answer of a solver in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..serving.metrics import METRICS
from ..units import humanize

if TYPE_CHECKING:
    from .solutions import Solution

GOALS = {"fits": "it to fit", "ridge": "the projections to reach the ridge point"}
"""What is asked for where there is no target."""

SIDES = {"the largest": "at most ", "the smallest": "at least "}
"""How a reason starts -> on which side of the value the goal is reached."""


def solution_sentence(found: Solution) -> str:
    """What the input must be for the target, or why no value of it is enough.

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
