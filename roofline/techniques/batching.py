"""Scheduling: which requests share a pass, and how much cache the engine reserves for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..arrays import scalar
from ..errors import InvalidInput, Number, number
from ..report import Step
from ..serving.pass_times import links
from ..serving.scenario import Scenario
from .technique import HARDWARE, KERNEL, Technique

Lengths = tuple[int, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class ContinuousBatching(Technique):
    """Start a new sequence as soon as one ends, instead of running a batch until its longest sequence ends.

    In a static batch of ``B`` the slots do useful work for ``mean / E[longest of B]`` of the time (Orca, OSDI 2022).
    Lengths are drawn from ``lengths``. Without them they are assumed to be exponential, and the longest of ``B`` is on
    average ``H_B = 1 + 1/2 + ... + 1/B`` times the mean. Only decode steps are wasted on empty slots, so the gain in
    throughput is ``(T_p + H_B (O - 1) s) / (T_p + (O - 1) s)`` for prompts that take ``T_p`` and steps that take ``s``.

    Attributes
    ----------
    lengths : tuple of int
        Observed output lengths.
    """

    slug: ClassVar[str] = "continuous-batching"
    name: ClassVar[str] = "continuous batching"
    helps: ClassVar[str] = "decode"
    why: ClassVar[str] = "no slot waits for the longest sequence, so more sequences share each read of the weights"
    costs: ClassVar[str] = "incoming prompts stall the running sequences"
    baseline: ClassVar[str] = "a static batch"
    in_place: ClassVar[bool] = True

    lengths: Lengths = ()

    def __post_init__(self) -> None:
        _checked(self.lengths)

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides when a slot is refilled."""
        return ("when a slot is filled again",)

    def without(self, case: Scenario) -> Scenario:
        """Baseline: a static batch."""
        return case.replace(slots_used=static_slots_used(case.load.batch, self.lengths))

    def steps(self, case: Scenario) -> tuple[Step, ...]:
        """Share of slots that a static batch uses."""
        used = static_slots_used(case.load.batch, self.lengths)
        inputs = {"longest_over_mean": 1 / np.asarray(used)}
        return (
            Step("slots_used", "1 / longest_over_mean", inputs, used, "expected longest of the batch over the mean"),
        )


def static_slots_used(batch: Number, lengths: Lengths = ()) -> Number:
    """Share of busy slots in a static batch: mean length divided by the expected longest of ``batch``.

    Empirical: with ``n`` sorted lengths the longest of ``B`` draws is at most ``x_i`` with probability ``(i / n)^B``.
    Exponential: the longest of ``B`` is ``mean * (1 + 1/2 + ... + 1/B)`` on average.

    Examples
    --------
    >>> round(static_slots_used(8), 3)
    0.368
    >>> static_slots_used(1, (100, 300))
    1.0
    """
    size = np.asarray(batch, dtype=float)[..., None]
    if lengths:
        ordered = np.sort(np.asarray(lengths, dtype=float))
        ranks = np.arange(len(ordered) + 1) / len(ordered)
        longest = np.sum(ordered * np.diff(ranks**size, axis=-1), axis=-1)
        return scalar(ordered.mean() / longest)
    places = np.arange(1, int(np.max(size)) + 1)
    return scalar(1 / np.sum(np.where(places <= size, 1 / places, 0.0), axis=-1))


@dataclass(frozen=True, eq=False, kw_only=True)
class PromptBatching(Technique):
    """Pack prompts or group them by length, instead of padding them to the longest.

    Attributes
    ----------
    lengths : tuple of int
        Observed prompt lengths.
    tolerance : float
        Relative length by which a prompt may exceed the shortest in its group; 0 packs prompts without padding.
    """

    slug: ClassVar[str] = "prompt-batching"
    name: ClassVar[str] = "prompt batching by length"
    helps: ClassVar[str] = "prefill"
    why: ClassVar[str] = "no FLOPs on padding"
    costs: ClassVar[str] = "prompts wait for others of their length"
    baseline: ClassVar[str] = "prompts padded to the longest"
    in_place: ClassVar[bool] = True

    lengths: Lengths = (128, 256, 512, 1024, 2048, 4096)
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        if not self.lengths:
            raise InvalidInput("lengths is empty; give the prompt lengths of the traffic")
        _checked(self.lengths)
        number("tolerance", self.tolerance)

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides which prompts share a pass."""
        return ("which prompts share a pass",)

    def without(self, case: Scenario) -> Scenario:
        """Baseline: prompts batched as they arrive and padded to the longest."""
        return case.slower(prefill=1 / static_slots_used(case.load.batch, self.lengths) - 1)

    def after(self, case: Scenario) -> Scenario:
        """Group prompts of similar length, which pads less.  A prompt that runs alone is not padded."""
        alone = static_slots_used(case.load.batch, self.lengths)
        return case.slower(prefill=np.minimum(padding(self.lengths, self.tolerance), 1 / np.asarray(alone) - 1))

    def steps(self, case: Scenario) -> tuple[Step, ...]:
        """Tokens computed per prompt token."""
        used = static_slots_used(case.load.batch, self.lengths)
        return (
            Step("padded_over_prompt", "1 / used", {"used": used}, 1 / np.asarray(used), "expected longest over mean"),
        )


def padding(lengths: Lengths, tolerance: float) -> float:
    """Padding tokens per prompt token if prompts are grouped by length.

    Group ``i`` starts at ``shortest * (1 + tolerance)^i``.  A prompt is padded to the longest of its group, so the
    result is below ``tolerance``.  A tolerance of 0 packs prompts end to end (variable-length kernels) without padding.

    Examples
    --------
    >>> padding((100, 110, 1000), 0.2)
    0.0083
    """
    sizes = np.asarray(lengths, dtype=float)
    if tolerance == 0:
        return 0.0
    # 1e-9 absorbs rounding, so that the longest length of a group does not fall into the next group.
    group = np.floor(np.log(sizes / sizes.min()) / np.log1p(tolerance) + 1e-9).astype(int)
    longest: npt.NDArray[Any] = np.zeros(group.max() + 1)
    np.maximum.at(longest, group, sizes)
    return float(longest[group].sum() / sizes.sum() - 1)


def _checked(lengths: Lengths) -> None:
    for length in lengths:
        number("lengths", length, least=1, whole=True)


LONGEST_OVER_MEAN = float(np.log(100))
"""99 % of exponentially distributed lengths are below this multiple of their mean."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PagedAttention(Technique):
    """Allocate the cache in pages as a sequence grows, instead of one block for the longest possible sequence.

    The memory saved is used for a larger batch. Engines that reserved blocks used 20-38 % of their cache (vLLM,
    arXiv:2309.06180).

    Engines without pages reserve the longest sequence that they expect, which depends on the traffic, not on the model.
    If lengths are exponential, 99 % are below ``ln(100) = 4.6`` times the mean, and a sequence uses 22 % of its
    reservation.

    Attributes
    ----------
    page_tokens : int
        Tokens per page.
    reserved_tokens : int, optional
        Tokens reserved per sequence without paging; 4.6 times the mean sequence length if not given.
    lengths : tuple of int
        Observed sequence lengths, prompt plus output. Without paging, the longest is reserved for each sequence.
    """

    slug: ClassVar[str] = "paged-attention"
    name: ClassVar[str] = "PagedAttention"
    helps: ClassVar[str] = "decode"
    why: ClassVar[str] = "memory only for tokens that exist, not for the longest possible sequence: a larger batch"
    costs: ClassVar[str] = "kernels that follow page tables"
    effort: ClassVar[str] = KERNEL
    baseline: ClassVar[str] = "the longest context reserved for each sequence"
    in_place: ClassVar[bool] = True

    page_tokens: int = 16
    reserved_tokens: int | None = None
    lengths: Lengths = ()

    def __post_init__(self) -> None:
        _checked(self.lengths)
        number("page_tokens", self.page_tokens, least=1, whole=True)
        if self.reserved_tokens is not None:
            number("reserved_tokens", self.reserved_tokens, least=1, whole=True)

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides how much memory is reserved for a sequence."""
        return ("what is reserved for a sequence",)

    def refusal(self, case: Scenario) -> str:
        """Reject a reservation that is shorter than the sequences of the workload."""
        given = self.reserved_tokens or max(self.lengths, default=None)
        asked = float(np.max(case.load.sequence_tokens))
        short = given is not None and asked > given
        if short:
            return f"reserved_tokens must be at least the {asked:,.0f} tokens of a sequence: {given:,}"
        return ""

    def _longest(self, case: Scenario) -> Number:
        """Tokens reserved per sequence: at most the model's longest context, and at least the workload's sequences."""
        if given := self.reserved_tokens or max(self.lengths, default=0):
            return given
        mean = np.asarray(case.load.sequence_tokens, dtype=float)
        longest = np.minimum(np.ceil(LONGEST_OVER_MEAN * mean), case.model.max_context_tokens or np.inf)
        return scalar(np.maximum(longest, mean))

    def without(self, case: Scenario) -> Scenario:
        """Baseline: the longest possible sequence is reserved for each."""
        return case.replace(reserved_tokens=self._longest(case))

    def after(self, case: Scenario) -> Scenario:
        """Allocate whole pages."""
        return case.replace(page_tokens=self.page_tokens)


USUAL_CHUNK_TOKENS = 2048
"""Chunk length for engines without a token budget: vLLM's default budget on most accelerators."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ChunkedPrefill(Technique):
    """Compute prompts in chunks that join decode steps (Sarathi, arXiv:2308.16369), so that no step waits for long.

    One read of the weights serves a chunk and the tokens of all running sequences. Longer chunks shorten the time to
    first token and lengthen the gaps between the other tokens. The paper used 256 and 512 tokens; engines fill the
    token budget of a step, which is 2,048 to 16,384 by default (``Engine.step_tokens``).

    Attributes
    ----------
    chunk_tokens : int or array, optional
        Prompt tokens per pass; by default the engine's token budget of a step, or 2,048 if it has no limit.
    """

    slug: ClassVar[str] = "chunked-prefill"
    name: ClassVar[str] = "chunked prefill"
    helps: ClassVar[str] = "both"
    why: ClassVar[str] = "prompt and generated tokens share the weight read; no long stall"
    costs: ClassVar[str] = "a later first token when chunks are short"

    chunk_tokens: Number | None = None

    def __post_init__(self) -> None:
        if self.chunk_tokens is not None:
            number("chunk_tokens", self.chunk_tokens, least=1, whole=True)

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides how prefill shares passes with running sequences."""
        return ("how prompts meet running sequences",)

    def after(self, case: Scenario) -> Scenario:
        """Set the chunk length."""
        return case.replace(chunk_tokens=self._tokens(case))

    def _tokens(self, case: Scenario) -> Number:
        if self.chunk_tokens is not None:
            return self.chunk_tokens
        return scalar(np.where(np.isfinite(case.token_budget), case.token_budget, USUAL_CHUNK_TOKENS))


@dataclass(frozen=True, eq=False, kw_only=True)
class Disaggregation(Technique):
    """Run prefill and decode on separate pools and transfer the cache between them (DistServe, arXiv:2401.09670).

    No prompt stalls a decode step, but the first token waits for the transfer.

    Attributes
    ----------
    link_bytes_per_s : float or array, optional
        Bandwidth of an accelerator's link to the other pool, one direction, bytes/s; by default its network.
    """

    slug: ClassVar[str] = "disaggregation"
    name: ClassVar[str] = "disaggregated prefill"
    helps: ClassVar[str] = "both"
    why: ClassVar[str] = "no decode step waits for a prompt; each pool is sized for its own bottleneck"
    costs: ClassVar[str] = "the cache of every prompt crosses a link; two pools to balance"
    effort: ClassVar[str] = HARDWARE

    link_bytes_per_s: Number | None = None

    def __post_init__(self) -> None:
        if self.link_bytes_per_s is not None:
            number("link_bytes_per_s", self.link_bytes_per_s, least=1.0)

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides how prefill shares passes with running sequences."""
        return ("how prompts meet running sequences",)

    def rate(self, case: Scenario) -> Number | None:
        """Rate of the link between the pools, bytes/s."""
        if self.link_bytes_per_s is not None:
            return self.link_bytes_per_s
        return case.serve.accelerator.nic_bytes_per_s

    def refusal(self, case: Scenario) -> str:
        """Reject deployments without a link between the pools."""
        name = case.serve.accelerator.name
        if self.rate(case) is not None:
            return ""
        return f"{name} has no nic_bytes_per_s: give link_bytes_per_s"

    def after(self, case: Scenario) -> Scenario:
        """Run prefill and decode on separate pools."""
        return case.replace(handover_bytes_per_s=self.rate(case))

    def steps(self, case: Scenario) -> tuple[Step, ...]:
        """Time to transfer the cache of a prompt."""
        cache = case.model.cache_bytes(case.running.context_tokens, case.serve.precision.kv)
        rate = np.asarray(self.rate(case), dtype=float) * links(case.serve)
        inputs = {"kv_bytes": cache, "link_bytes_per_s": rate}
        value = scalar(np.asarray(cache) / rate)
        return (Step("handover_s", "kv_bytes / link_bytes_per_s", inputs, value, "one direction of the links"),)
