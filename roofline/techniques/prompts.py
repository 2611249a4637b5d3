"""Prompts: reuse of prefixes computed before, and compression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..errors import InvalidInput, Number, number
from ..report import Step
from ..serving.scenario import Scenario, checked_share
from .technique import MODEL, Technique


@dataclass(frozen=True, eq=False, kw_only=True)
class PrefixCaching(Technique):
    """Reuse the cached beginning of a prompt: a system prompt, a document, or earlier turns.

    Prefill skips the cached tokens; decode still reads them. At a hit rate of 1 a single prompt token remains, and
    prefill costs as much as a decode step.

    Attributes
    ----------
    hit_rate : float or array
        Share of the prompt tokens that are found in the cache.
    shared : bool
        Whether all sequences share one prefix, which is then stored once.
    """

    slug: ClassVar[str] = "prefix-caching"
    name: ClassVar[str] = "prefix caching"
    helps: ClassVar[str] = "prefill"
    why: ClassVar[str] = "prefixes computed for earlier requests are reused"
    costs: ClassVar[str] = "memory for prefixes that may never be reused"

    hit_rate: Number = 0.5
    shared: bool = True

    def __post_init__(self) -> None:
        checked_share("hit_rate", self.hit_rate)

    def after(self, case: Scenario) -> Scenario:
        """Find the given share of the prompt in the cache."""
        return case.replace(hit_rate=self.hit_rate, shared_prefix=self.shared)

    def steps(self, case: Scenario) -> tuple[Step, ...]:
        """Prompt tokens left to compute."""
        left = self.after(case).running
        inputs = {"prompt": case.running.prompt_tokens, "found": left.cached_tokens - case.running.cached_tokens}
        return (Step("computed_tokens", "prompt - found", inputs, left.prompt_tokens, "one is always computed"),)


@dataclass(frozen=True, eq=False, kw_only=True)
class PromptCompression(Technique):
    """Shorten prompts without losing their content (LLMLingua, arXiv:2310.05736).

    Attributes
    ----------
    times : float or array
        Prompt tokens per remaining token (4 turns 4K into 1K).
    """

    slug: ClassVar[str] = "prompt-compression"
    name: ClassVar[str] = "prompt compression"
    helps: ClassVar[str] = "prefill"
    why: ClassVar[str] = "fewer prompt tokens to compute, and fewer cached ones to read"
    costs: ClassVar[str] = "information that is left out; a small model to choose it"
    effort: ClassVar[str] = MODEL

    times: Number = 4.0

    def __post_init__(self) -> None:
        number("times", self.times, least=1.0)

    def after(self, case: Scenario) -> Scenario:
        """Shorten the prompt."""
        return case.replace(compression=case.compression * self.times)


def with_hit_rate(techniques: tuple[Technique, ...], hit_rate: float) -> tuple[Technique, ...]:
    """Return the techniques, plus a prefix cache with this hit rate if it is above 0.

    Cached prefixes differ from request to request, so none is shared.

    Raises
    ------
    InvalidInput
        ``hit_rate`` is not between 0 and 1, or the techniques already contain a prefix cache.
    """
    if not checked_share("hit_rate", hit_rate):
        return techniques
    if any(isinstance(item, PrefixCaching) for item in techniques):
        raise InvalidInput("hit_rate and prefix caching both set the hit rate of the prefix cache; choose one")
    return (*techniques, PrefixCaching(hit_rate=hit_rate, shared=False))
