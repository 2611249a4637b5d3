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
"""First vLLM that captures draft heads in graphs.  In versions of 2025 a pass takes 0.14 of a step (issue 20780)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Speculation(Technique):
    """Draft several tokens with a small model and verify them with the large one in a single pass (arXiv:2211.17192).

    A step yields ``AL`` tokens: a measured number (``acceptance_length``), or the expectation for a chain of ``k``
    drafts, ``(1 - a^(k+1)) / (1 - a)``.  It takes one pass of the large model over ``w`` tokens of each sequence and
    ``p`` draft passes, one after another:

        speedup = AL T(1) / (T(w) + p t_draft)

    ``T(w)`` is little more than ``T(1)`` as long as a step is bound by reading dense weights. The gain vanishes at
    large batches. It is smaller for mixtures of experts, since ``w`` tokens of each sequence use more experts.

    Unless a model or a share is given, an EAGLE-3 head drafts (`roofline.model.draft_heads`). It runs once more per
    step to write the accepted tokens to its own cache.

    Attributes
    ----------
    acceptance : float or array
        Probability that a draft is accepted if all drafts before it were.
    drafts : int or array
        Number of draft tokens in a row.
    draft : Model or str, optional
        Draft model or its name; by default a draft head.
    draft_share : float or array, optional
        Time of a draft pass as a share of a decode step (0.02 to 0.11 in table 2 of the paper), used instead of a draft
        model or head.
    acceptance_length : float or array, optional
        Measured mean number of tokens per step, including the token from verification; replaces ``acceptance``.
    passes : int or array, optional
        Number of sequential draft passes; equal to ``drafts`` if not given.
    verify_width : int or array, optional
        Tokens of each sequence verified per step; by default ``drafts + 1``.
    captured : bool, optional
        Whether draft passes run inside a captured CUDA graph; if not, the host launches each kernel. By default as in
        the engine: draft models and draft heads are captured, except draft heads in vLLM before 0.14.
    later_acceptance : float or array, optional
        Acceptance of the drafts after the first, if it differs from that of the first.
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
        """Raise if the length exceeds ``drafts + 1``, the maximum of a chain and of the deepest branch of a tree."""
        most = np.asarray(self.drafts) + 1
        if np.any(np.asarray(length) > most):
            raise InvalidInput(
                f"acceptance_length must be at most drafts + 1: {float(np.max(length)):g} > {float(np.min(most)):g}"
            )

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides how many tokens a step yields."""
        return ("how many tokens a step yields",)

    @property
    def tokens_per_step(self) -> Number:
        """Tokens per step, measured or expected."""
        if self.acceptance_length is not None:
            return self.acceptance_length
        return expected_tokens(self.acceptance, self.drafts, self.later_acceptance)

    def after(self, case: Scenario) -> Scenario:
        """Add the drafts, unless there are none."""
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
        """Derivation of the tokens per step."""
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
    """Draft with extra layers of the model; DeepSeek-V3 accepts 85-90 % of second tokens (arXiv:2412.19437, 5.4.3).

    A draft pass runs one extra layer of the model, ``eh_proj``, which fuses embedding and hidden state, and lm_head.
    The first draft pass of a step also processes the accepted tokens.  The layers are part of the model, so engines
    capture their passes in the graph of the step (TensorRT-LLM technical blogs 1 and 2).

    Drafts after the first come from the same layer, which then sees its own hidden states, for which it was not
    trained.  If those before were accepted, 0.64 to 0.72 of them are too (1.92 and 2.58 tokens per step with one and
    two drafts on DeepSeek-R1, TensorRT-LLM technical blog 1; positions of Gemma 4 in eugr/spark-vllm-docker issue 343).

    Attributes
    ----------
    acceptance : float or array
        Probability that the first draft is accepted.
    drafts : int or array
        Number of draft tokens in a row.
    later_acceptance : float or array, optional
        Acceptance of drafts after the first; by default that of the first.
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
    """Verify a tree of drafts in each step (SpecInfer, arXiv:2305.09781; EAGLE-2, arXiv:2406.16858).

    Each level of the tree takes one draft pass over the branches that are followed. A level is accepted if any of its
    branches is, so fewer steps end early than with a chain. The whole tree is verified, so the extra tokens cost FLOPs
    and use more experts.

    Attributes
    ----------
    acceptance : float or array
        Probability that one of the branches of a level is accepted, given that the level before it was.
    drafts : int or array
        Levels of the tree.
    verify_width : int or array
        Number of tokens in the tree that a step verifies, including the last accepted token.
    """

    slug: ClassVar[str] = "tree-drafting"
    name: ClassVar[str] = "tree drafting"
    why: ClassVar[str] = "several branches are verified at once: more tokens for one read of the weights"
    costs: ClassVar[str] = "FLOPs and experts for every branch; no gain in large batches"

    acceptance: Number = 0.8
    verify_width: Number | None = 16


@dataclass(frozen=True, eq=False, kw_only=True)
class NgramDrafting(Speculation):
    """Copy drafts from the text so far (prompt lookup; n-gram speculation in vLLM and TensorRT-LLM).

    Drafting takes no weights, no cache and no time, so a step costs only its verification. The acceptance depends on
    how much the output repeats the input; it is highest in editing, extraction and code.
    """

    slug: ClassVar[str] = "ngram-drafting"
    name: ClassVar[str] = "n-gram drafting"
    why: ClassVar[str] = "repeated text is drafted for free and verified in one read of the weights"
    costs: ClassVar[str] = "FLOPs for rejected drafts; no gain where text does not repeat"
    effort: ClassVar[str] = FLAG
    head: ClassVar[str] = ""
    extends: ClassVar[bool] = False

    acceptance: Number = 0.5
    passes: Number | None = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class ParallelDrafting(Speculation):
    """Produce all drafts of a step in one pass (Medusa, arXiv:2401.10774; P-EAGLE, vLLM blog of March 2026).

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
        Time of a step with drafts divided by that of a plain step, at the workload's batch.
    verify_compute : float or array
        FLOPs per output token of the verifying pass, divided by those of plain decode.
    break_even_acceptance : float or array
        Acceptance at which a token takes as long as without drafts; above 1 if drafts never pay.
    stops_at_batch : float
        Smallest batch at which drafts do not pay; infinite if they pay up to ``searched_batch``.
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
        """Derivation of the values."""
        return self.steps


SEARCHED = 97
"""Number of batch sizes searched, in equal ratios: 8 per octave up to 4,096."""


def speculation_limits(
    serve: Deployment,
    load: Workload,
    technique: Speculation | None = None,
    *,
    searched_batch: int = 4096,
    time: str = "estimate_s",
) -> SpeculationLimits:
    """Compute cost and yield of a step with drafts, the break-even acceptance, and the batch up to which it pays.

    Speculation pays while ``tokens_per_step > step_cost``. The cost does not depend on the acceptance, so break-even is
    where ``(1 - a^(k+1)) / (1 - a)`` equals the cost, found by bisection. If ``later_acceptance`` is given, it stays
    fixed and the break-even is the acceptance of the first draft.

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
    """Acceptance at which the expected tokens equal ``cost``; infinite if full acceptance is not enough."""
    shape = np.broadcast_shapes(np.shape(cost), np.shape(drafts), () if later is None else np.shape(later))
    _, enough = bisect(lambda share: expected_tokens(share, drafts, later) < cost, np.zeros(shape), np.ones(shape))
    return scalar(np.where(np.asarray(cost) > expected_tokens(1.0, drafts, later), np.inf, enough))
