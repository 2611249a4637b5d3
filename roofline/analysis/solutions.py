"""Solutions: answers to inverse questions (`roofline.analysis.solver`)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..report import Report, Step
from ..serving.steady_state import Steady
from .solution_sentence import solution_sentence


@dataclass(frozen=True, eq=False, repr=False)
class Solution(Report):
    """An answer to an inverse question.

    Attributes
    ----------
    find : str
        The input that was searched for.
    value : float
        Value of the input; NaN if no value meets the target, infinite if all do.
    metric, target : str, float
        Name of the metric and its target.
    reached : float
        Value of the metric at ``value``, computed again.
    possible : bool
        Whether there is an answer.
    method : str
        ``closed form`` or ``bisection``.
    reason : str
        Why there is no answer, or on which side of the value the target is met.
    steps : tuple of Step
        The derivation of a closed form.
    found : Steady, optional
        Steady state of requests at ``value``, if it was found by a search.
    """

    find: str
    value: float
    metric: str
    target: float
    reached: float
    possible: bool
    method: str
    reason: str
    steps: tuple[Step, ...] = ()
    found: Steady | None = field(default=None, repr=False, compare=False)

    columns = ("find", "value", "metric", "target", "reached", "possible", "method", "reason")

    @property
    def heading(self) -> str:
        """Title: the input and the metric."""
        return f"Solution: {self.find} for {self.metric}"

    def summary(self) -> str:
        """The answer in one sentence."""
        return solution_sentence(self)

    def _derivation(self) -> tuple[Step, ...]:
        """Derivation of the closed form, or of the metric at the value that a search found."""
        if self.found is None:
            return self.steps
        inputs = {"reached": self.reached, "target": self.target}
        share, source = self.reached / self.target, f"{self.method}: {self.reason}"
        return (*self.found.explain(), Step("reached_over_target", "reached / target", inputs, share, source))


def by_formula(
    find: str, metric: str, target: float, *, value: float, reached: float, why: str = "", steps: tuple[Step, ...] = ()
) -> Solution:
    """Return a solution from a closed form.

    Parameters
    ----------
    find, metric, target, value, reached, steps
        Fields of `Solution`; a ``value`` that is not finite means that there is no answer.
    why : str
        Reason if there is no answer.
    """
    possible = bool(np.isfinite(value))
    return Solution(find, value, metric, target, reached, possible, "closed form", why, steps)
