"""Speculative decoding and multi-token prediction: several tokens for one read of the weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..arrays import bisect, scalar
from ..errors import InvalidInput, Number, number
from ..model import Model
from ..phases.deployment import Deployment
from ..phases.workload import Workload
from ..report import Report, Step
from ..serving.scenario import Drafts, Scenario, checked_share, expected_tokens
from ..serving.steady_state import steady_state
from ..specs.engine_settings import release
from ..specs.library import get_model
from .technique import FLAG, MODEL, Technique

CAPTURING = ("sglang", "trtllm")
"""Engines that capture draft passes in graphs (SGLang: ``EAGLEDraftCudaGraphRunner``; TensorRT-LLM: one-model mode)."""

CAPTURED_SINCE = "0.14.0"
"""vLLM from which passes of draft heads are captured: those of 2025 take 0.14 of a step each (issue 20780)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Speculation(Technique):
    """A small model drafts several tokens, which the large one verifies in a single pass (arXiv:2211.17192).

    A step yields ``AL`` tokens, which is measured (``acceptance_length``) or expected of a chain of ``k`` drafts,
    ``(1 - a^(k+1)) / (1 - a)``.  It takes a pass of the large model over ``w`` tokens of each sequence and ``p`` passes
    of what drafts, one after another:

        speedup = AL T(1) / (T(w) + p t_draft)

    ``T(w)`` costs little more than ``T(1)`` as long as reading dense weights takes the time. It stops paying at large
    batches, and pays less for mixtures of experts, since ``w`` tokens of each sequence need more of them.

    Unless a model or a share is given, an EAGLE-3 head drafts (`roofline.model.draft_heads`), which runs once more a
    step to put what was accepted into its own cache.

    Attributes
    ----------
    acceptance : float or array
        Probability that a draft is accepted if those before it were.
    drafts : int or array
        Draft tokens in a row.
    draft : Model or str, optional
        The model that drafts, or its name; a draft head if not given.
    draft_share : float or array, optional
        Time of a draft pass as a share of a decode step (0.02 to 0.11 in table 2 of the paper), where neither a model
        nor a head drafts.
    acceptance_length : float or array, optional
        Measured mean number of tokens per step, including the token from verification; replaces ``acceptance``.
    passes : int or array, optional
        Number of sequential draft passes; equal to ``drafts`` if not given.
    verify_width : int or array, optional
        Tokens of each sequence that a step verifies; ``drafts + 1`` if not given.
    captured : bool, optional
        Whether draft passes run inside a captured CUDA graph; if not, the host launches each kernel. By default as
        engines do it: draft models are captured, and so are draft heads, except in vLLM before 0.14.
    later_acceptance : float or array, optional
        Acceptance of the drafts after the first, where it differs from that of the first.
    """

    slug: ClassVar[str] = "speculative"
    name: ClassVar[str] = "speculative decoding"
    helps: ClassVar[str] = "decode"
    why: ClassVar[str] = "several tokens for one read of the weights"
    costs: ClassVar[str] = "FLOPs for rejected drafts; the draft's weights and cache; prefill of the draft"
    effort: ClassVar[str] = MODEL

    acceptance: Number = 0.7
    drafts: Number = 4
    draft: Model | str | Path | None = None
    draft_share: Number | None = None
    acceptance_length: Number | None = None
    passes: Number | None = None
    verify_width: Number | None = None
    captured: bool | None = None
    later_acceptance: Number | None = None

    head: ClassVar[str] = "eagle3"
    extends: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checked_share("acceptance", self.acceptance)
        number("drafts", self.drafts, whole=True)
        for name in ("passes", "draft_share", "verify_width", "acceptance_length"):
            value = getattr(self, name)
            if value is not None:
                least = 1.0 if name in ("verify_width", "acceptance_length") else 0.0
                number(name, value, least=least, whole=name in ("passes", "verify_width"))
        if self.later_acceptance is not None:
            checked_share("later_acceptance", self.later_acceptance)
        if self.draft is not None:
            object.__setattr__(self, "draft", get_model(self.draft))
        if self.acceptance_length is not None:
            self._check_length(self.acceptance_length)

    def _check_length(self, length: Number) -> None:
        """A chain of ``k`` drafts yields ``k + 1`` tokens a step at most, and so does the deepest branch of a tree."""
        most = np.asarray(self.drafts) + 1
        if np.any(np.asarray(length) > most):
            raise InvalidInput(
                f"acceptance_length must be at most drafts + 1: {float(np.max(length)):g} > {float(np.min(most)):g}"
            )

    @property
    def decides(self) -> tuple[str, ...]:
        """How many tokens a step yields."""
        return ("how many tokens a step yields",)

    @property
    def tokens_per_step(self) -> Number:
        """Tokens that a step yields, measured or expected."""
        if self.acceptance_length is not None:
            return self.acceptance_length
        return expected_tokens(self.acceptance, self.drafts, self.later_acceptance)

    def after(self, case: Scenario) -> Scenario:
        """Drafts, unless there are none."""
        if not np.any(self.drafts):
            return case
        return case.replace(drafts=self._drafts(case))

    def _drafts(self, case: Scenario) -> Drafts:
        model = None if self.draft is None else get_model(self.draft)
        head = self.head if model is None and self.draft_share is None else ""
        return Drafts(
            self.acceptance,
            self.drafts,
            model,
            head,
            0.0 if self.draft_share is None else self.draft_share,
            accepted=self.acceptance_length,
            passes=self.passes,
            verified=self.verify_width,
            extends=self.extends and bool(head),
            captured=self._captures(case, head),
            later=self.later_acceptance,
        )

    def _captures(self, case: Scenario, head: str) -> bool:
        """Whether draft passes run inside a captured graph."""
        server = case.serve.server
        if self.captured or head == "mtp" or server.name in CAPTURING:
            return True
        if self.captured is not None:
            return False
        launched = server.name == "vllm" and server.version and release(server.version) < release(CAPTURED_SINCE)
        return not (head and launched)

    def steps(self, case: Scenario) -> tuple[Step, ...]:
        """Tokens a step."""
        value = self.tokens_per_step
        if self.acceptance_length is not None:
            return (Step("tokens_per_step", "acceptance_length", {"acceptance_length": value}, value, "as measured"),)
        known = {"acceptance": self.acceptance, "drafts": self.drafts}
        if self.later_acceptance is not None:
            known["later"] = self.later_acceptance
            if np.any(np.asarray(self.later_acceptance) == 1):
                return (Step("tokens_per_step", "1 + acceptance * drafts", known, value, "later drafts all accepted"),)
            formula = "1 + acceptance * (1 - later ** drafts) / (1 - later)"
            return (Step("tokens_per_step", formula, known, value, "later drafts have an acceptance of their own"),)
        if np.any(np.asarray(self.acceptance) == 1):
            return (Step("tokens_per_step", "drafts + 1", known, value, "every draft accepted"),)
        formula = "(1 - acceptance ** (drafts + 1)) / (1 - acceptance)"
        return (Step("tokens_per_step", formula, known, value, "arXiv:2211.17192, equation 1"),)


@dataclass(frozen=True, eq=False, kw_only=True)
class MultiTokenPrediction(Speculation):
    """Extra layers of the model draft; DeepSeek-V3 accepts 85-90 % of second tokens (arXiv:2412.19437, 5.4.3).

    A draft pass runs one more of the model's layers, ``eh_proj`` that fuses embedding and hidden state, and lm_head;
    the first one of a step also takes in what was accepted.  The layers are a part of the model, so that engines
    capture their passes in the graph of the step (TensorRT-LLM technical blogs 1 and 2).

    Drafts after the first come from the same layer, which then sees its own hidden states, for which it was not
    trained: 0.64 to 0.72 of them are accepted where those before were (1.92 and 2.58 tokens a step with one and two
    drafts on DeepSeek-R1, TensorRT-LLM technical blog 1; positions of Gemma 4 in eugr/spark-vllm-docker issue 343).

    Attributes
    ----------
    acceptance : float or array
        Probability that the first draft is accepted.
    drafts : int or array
        Draft tokens in a row.
    later_acceptance : float or array, optional
        Acceptance of drafts after the first; as that of the first if None.
    """

    slug: ClassVar[str] = "mtp"
    name: ClassVar[str] = "MTP"
    why: ClassVar[str] = "extra layers draft the next tokens for one read of the weights"
    costs: ClassVar[str] = "FLOPs for rejected drafts; the extra layers' weights"
    head: ClassVar[str] = "mtp"
    extends: ClassVar[bool] = False

    acceptance: Number = 0.85
    drafts: Number = 1
    later_acceptance: Number | None = 0.7


@dataclass(frozen=True, eq=False, kw_only=True)
class TreeDrafting(Speculation):
    """A step verifies a tree of drafts (SpecInfer, arXiv:2305.09781; EAGLE-2, arXiv:2406.16858).

    Each level of the tree takes one draft pass over the branches that are followed. A level is accepted if any of its
    branches is, so fewer steps end early than with a chain. The verification is as wide as the tree, so the additional
    tokens cost FLOPs and more experts.

    Attributes
    ----------
    acceptance : float or array
        Probability that one of the branches of a level is accepted, given that the level before it was.
    drafts : int or array
        Levels of the tree.
    verify_width : int or array
        Tokens of the tree that a step verifies, including the last accepted token.
    """

    slug: ClassVar[str] = "tree-drafting"
    name: ClassVar[str] = "tree drafting"
    why: ClassVar[str] = "several branches are verified at once: more tokens for one read of the weights"
    costs: ClassVar[str] = "FLOPs and experts for every branch; no gain in large batches"

    acceptance: Number = 0.8
    verify_width: Number | None = 16


@dataclass(frozen=True, eq=False, kw_only=True)
class NgramDrafting(Speculation):
    """Drafts are copied from the text so far (prompt lookup; n-gram speculation in vLLM and TensorRT-LLM).

    Drafting takes no time, so a step costs only its verification. The acceptance depends on how much the output repeats
    the input; it is highest in editing, extraction and code.
    """

    slug: ClassVar[str] = "ngram-drafting"
    name: ClassVar[str] = "n-gram drafting"
    why: ClassVar[str] = "repeated text is drafted for free and verified in one read of the weights"
    costs: ClassVar[str] = "FLOPs for rejected drafts; no gain where text does not repeat"
    effort: ClassVar[str] = FLAG

    acceptance: Number = 0.5
    passes: Number | None = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class ParallelDrafting(Speculation):
    """All drafts of a step come from one pass (Medusa, arXiv:2401.10774; P-EAGLE, vLLM blog of March 2026).

    The pass runs over placeholders for all tokens to draft, and processes the accepted tokens at the same time.
    """

    slug: ClassVar[str] = "parallel-drafting"
    name: ClassVar[str] = "parallel drafting"
    why: ClassVar[str] = "one draft pass for all drafts, verified in one read of the weights"
    costs: ClassVar[str] = "FLOPs for rejected drafts; a head trained for it"
    extends: ClassVar[bool] = False

    passes: Number | None = 1


@dataclass(frozen=True, eq=False, repr=False)
class SpeculationLimits(Report):
    """Limits beyond which speculative decoding does not pay.

    Attributes
    ----------
    step_cost : float or array
        Time of a step with drafts divided by that of a plain one, at the workload's batch.
    verify_compute : float or array
        FLOPs of the verifying pass per token that it yields, divided by those of plain decode.
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

    def _derivation(self) -> tuple[Step, ...]:
        """How the figures come about."""
        return self.steps


SEARCHED = 97
"""Batches that are tried, with equal ratios: 8 an octave up to 4,096."""


def speculation_limits(
    serve: Deployment,
    load: Workload,
    technique: Speculation | None = None,
    *,
    searched_batch: int = 4096,
    time: str = "estimate_s",
) -> SpeculationLimits:
    """What a step with drafts costs and yields, the acceptance that it needs, and the batch up to which it pays.

    It pays while ``tokens_per_step > step_cost``; the cost does not depend on the acceptance, so break-even is where
    ``(1 - a^(k+1)) / (1 - a)`` equals it, found by bisection. An acceptance that is stated for later drafts stays as
    it is; the break-even is then that of the first.

    Examples
    --------
    >>> import roofline as rl
    >>> from roofline.techniques import speculation_limits
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-70b"), rl.get_accelerator("h100-sxm"))
    >>> found = speculation_limits(serve, rl.Workload(), time="roofline_s")
    >>> round(found.step_cost, 1), round(found.speedup, 1)
    (1.1, 2.5)
    """
    technique = technique or Speculation()
    cost = _step_cost(serve, load, technique, time)
    yields = technique.tokens_per_step
    batches = np.unique(np.round(np.geomspace(1, searched_batch, SEARCHED)))
    swept = Workload(int(np.mean(load.prompt_tokens)), int(np.mean(load.output_tokens)), batches)
    pays = np.mean(yields) > _step_cost(serve, swept, technique, time)
    drafts = np.asarray(technique.drafts, dtype=float)
    known = {"tokens_per_step": yields, "step_cost": cost}
    return SpeculationLimits(
        tokens_per_step=yields,
        step_cost=cost,
        speedup=scalar(np.divide(yields, cost)),
        verify_compute=scalar((drafts + 1) / yields),
        break_even_acceptance=_break_even(cost, drafts, technique.later_acceptance),
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


def _break_even(cost: Number, drafts: Any, later: Number | None) -> Number:
    """Acceptance at which the expected tokens equal ``cost``; infinite if not even full acceptance does."""
    shape = np.broadcast_shapes(np.shape(cost), np.shape(drafts), () if later is None else np.shape(later))
    _, enough = bisect(lambda share: expected_tokens(share, drafts, later) < cost, np.zeros(shape), np.ones(shape))
    return scalar(np.where(np.asarray(cost) > expected_tokens(1.0, drafts, later), np.inf, enough))
