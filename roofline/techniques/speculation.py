"""Speculative decoding and multi-token prediction: several tokens for one read of the weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..arrays import bisect, scalar
from ..errors import Number, number
from ..model import Model
from ..phases.deployment import Deployment
from ..phases.workload import Workload
from ..report import Report, Step
from ..serving.scenario import Drafts, Scenario, expected_tokens, share
from ..serving.steady_state import steady_state
from ..specs.library import get_model
from .technique import MODEL, Technique


@dataclass(frozen=True, kw_only=True)
class Speculation(Technique):
    """A small model drafts some tokens, the large one verifies them all in one pass (arXiv:2211.17192).

    A step costs one pass over ``k + 1`` tokens a sequence and ``k`` draft steps, and yields
    ``(1 - a^(k+1)) / (1 - a)`` tokens.  The pass costs little more than a decode step as long as the weights are what
    takes the time, so it stops paying at large batches.

    Attributes
    ----------
    acceptance : float or array
        Probability that a draft is accepted, given that those before it were.
    drafts : int or array
        Draft tokens of a step.
    draft : Model or str, optional
        The model that drafts, or its name; if not given, drafts cost ``draft_share``.
    draft_share : float or array
        Time of a draft token as a share of a decode step (0.02 to 0.11 in table 2 of the paper).
    """

    slug: ClassVar[str] = "speculative"
    name: ClassVar[str] = "speculative decoding"
    helps: ClassVar[str] = "decode"
    why: ClassVar[str] = "several tokens for one read of the weights"
    costs: ClassVar[str] = "FLOPs for drafts that are refused; the draft's weights and cache; prefill of the draft"
    effort: ClassVar[str] = MODEL

    acceptance: Number = 0.7
    drafts: Number = 4
    draft: Model | str | Path | None = None
    draft_share: Number = 0.05

    def __post_init__(self) -> None:
        share("acceptance", self.acceptance)
        number("drafts", self.drafts, whole=True)
        number("draft_share", self.draft_share)
        if self.draft is not None:
            object.__setattr__(self, "draft", get_model(self.draft))

    @property
    def decides(self) -> tuple[str, ...]:
        """How many tokens a step yields."""
        return ("how many tokens a step yields",)

    def after(self, case: Scenario) -> Scenario:
        """Drafts, unless there are none."""
        if not np.any(self.drafts):
            return case
        model = None if self.draft is None else get_model(self.draft)
        return case.replace(drafts=Drafts(self.acceptance, self.drafts, model, self._share(case)))

    def _share(self, case: Scenario) -> Number:
        return self.draft_share

    def steps(self, case: Scenario) -> tuple[Step, ...]:
        """Expected tokens a step."""
        value = expected_tokens(self.acceptance, self.drafts)
        known = {"acceptance": self.acceptance, "drafts": self.drafts}
        if np.any(np.asarray(self.acceptance) == 1):
            return (Step("tokens_per_step", "drafts + 1", known, value, "every draft accepted"),)
        formula = "(1 - acceptance ** (drafts + 1)) / (1 - acceptance)"
        return (Step("tokens_per_step", formula, known, value, "arXiv:2211.17192, equation 1"),)


@dataclass(frozen=True, kw_only=True)
class MultiTokenPrediction(Speculation):
    """The model's own extra layers draft: DeepSeek-V3 has 85-90 % of second tokens accepted (arXiv:2412.19437, 5.4.3).

    Attributes
    ----------
    draft_share : float or array, optional
        Time of a draft token as a share of a decode step; that of one layer of the model's if not given.
    """

    slug: ClassVar[str] = "mtp"
    name: ClassVar[str] = "MTP"
    why: ClassVar[str] = "extra layers draft the next tokens for one read of the weights"
    costs: ClassVar[str] = "FLOPs for drafts that are refused; the extra layers' weights"

    acceptance: Number = 0.85
    drafts: Number = 1
    draft_share: Number | None = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        share("acceptance", self.acceptance)
        number("drafts", self.drafts, whole=True)

    def _share(self, case: Scenario) -> Number:
        return 1 / case.model.layer_count if self.draft_share is None else self.draft_share


@dataclass(frozen=True, repr=False)
class SpeculationLimits(Report):
    """Where speculative decoding stops paying.

    Attributes
    ----------
    step_cost : float or array
        Time of a step with drafts over that of a plain one, at the workload's batch.
    verify_compute : float or array
        FLOPs of the verifying pass for each token it yields, over those of plain decode.
    break_even_acceptance : float or array
        Acceptance at which a token takes as long as without drafts; above 1: it never pays.
    stops_at_batch : float
        The smallest batch at which it does not pay; infinite if it pays up to ``searched_batch``.
    """

    tokens_per_step: Number
    step_cost: Number
    speedup: Number
    verify_compute: Number
    break_even_acceptance: Number
    stops_at_batch: float
    searched_batch: int
    steps: tuple[Step, ...]

    columns = (
        "tokens_per_step",
        "step_cost",
        "speedup",
        "verify_compute",
        "break_even_acceptance",
        "stops_at_batch",
        "searched_batch",
    )

    def explain(self) -> tuple[Step, ...]:
        """How the figures come about."""
        return self.steps


def speculation_limits(
    serve: Deployment,
    load: Workload,
    technique: Speculation | None = None,
    *,
    searched_batch: int = 4096,
    time: str = "roofline_s",
) -> SpeculationLimits:
    """What a step with drafts costs and yields, the acceptance that it needs, and the batch up to which it pays.

    It pays while ``tokens_per_step > step_cost``; the cost does not depend on the acceptance, so break-even is where
    ``(1 - a^(k+1)) / (1 - a)`` equals it, found by bisection.

    Examples
    --------
    >>> import roofline as rl
    >>> from roofline.techniques import speculation_limits
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-70b"), rl.get_accelerator("h100-sxm"))
    >>> found = speculation_limits(serve, rl.Workload())
    >>> round(found.step_cost, 1), round(found.speedup, 1)
    (1.2, 2.3)
    """
    technique = technique or Speculation()
    cost = _step_cost(serve, load, technique, time)
    yields = expected_tokens(technique.acceptance, technique.drafts)
    batches = np.unique(np.round(np.geomspace(1, searched_batch, 97)))
    swept = Workload(int(np.mean(load.prompt_tokens)), int(np.mean(load.output_tokens)), batches)
    pays = np.mean(yields) > _step_cost(serve, swept, technique, time)
    drafts = np.asarray(technique.drafts, dtype=float)
    known = {"tokens_per_step": yields, "step_cost": cost}
    return SpeculationLimits(
        tokens_per_step=yields,
        step_cost=cost,
        speedup=scalar(np.divide(yields, cost)),
        verify_compute=scalar((drafts + 1) / yields),
        break_even_acceptance=_break_even(cost, drafts),
        stops_at_batch=float("inf") if pays.all() else float(batches[~pays].min()),
        searched_batch=searched_batch,
        steps=(
            *technique.steps(Scenario(serve, load)),
            Step("speedup", "tokens_per_step / step_cost", known, scalar(np.divide(yields, cost)), time),
        ),
    )


def _step_cost(serve: Deployment, load: Workload, technique: Speculation, time: str) -> Number:
    plain = Scenario(serve, load)
    drafted = steady_state(technique.after(plain), time=time)
    return scalar(np.divide(drafted.step_s, steady_state(plain, time=time).step_s))


def _break_even(cost: Number, drafts: Any) -> Number:
    """Acceptance at which the expected tokens equal ``cost``; infinite if not even full acceptance does."""
    shape = np.broadcast_shapes(np.shape(cost), np.shape(drafts))
    _, enough = bisect(lambda share: expected_tokens(share, drafts) < cost, np.zeros(shape), np.ones(shape))
    return scalar(np.where(np.asarray(cost) > drafts + 1, np.inf, enough))
