"""Memory tiers: caches and weights that are not stored on the accelerator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..arrays import scalar
from ..errors import InvalidInput, Number, number
from ..model.blocks import MoE
from ..report import Step
from ..serving.scenario import Scenario, checked_share
from .attention import blocks_of
from .technique import FLAG, Technique

LAYER_BY_LAYER = ("sglang",)
"""Engines that fetch the cache of a layer while the layers before it are computed (HiCache)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class KVTiers(Technique):
    """Keep the caches of earlier requests in host memory, on disk or in a shared store, and fetch them on a hit.

    LMCache, HiCache and Mooncake keep what the device evicts. A hit is fetched over a link. If layers are fetched
    ahead, the fetch overlaps with computing the rest of the prompt:

        TTFT = max(hit bytes / link, overlap * rest) + (1 - overlap) * rest

    SGLang's HiCache fetches layer by layer during the pass.  vLLM's connector, and LMCache by default, load the cache
    of a prompt before the pass.  Copies reach 0.8 of the rate of a host link (`roofline.serving.pass_times`).

    A tier of ``C`` bytes stores ``C / (working set)`` of the reusable tokens, so only that share of ``hit_rate`` is
    found.

    Attributes
    ----------
    hit_rate : float or array
        Share of the prompt tokens that occurred before, whether or not they are still in the tier.
    tier_bytes : float or array, optional
        Capacity of the tier in bytes; unlimited if not given.
    working_set_tokens : float or array, optional
        Reusable tokens of all users together.
    tier_bytes_per_s : float or array, optional
        Rate at which an accelerator reads from the tier, bytes/s; by default the rate of copies over its host link.
    fetch_overlap : float or array, optional
        Share of the remaining prefill that can overlap with the fetch: 1 if layers are fetched ahead, 0 if a prompt is
        loaded first; by default 1 on SGLang and 0 elsewhere.
    """

    slug: ClassVar[str] = "kv-tiers"
    name: ClassVar[str] = "KV-cache tiers"
    helps: ClassVar[str] = "prefill"
    why: ClassVar[str] = "prefixes of any earlier request are fetched instead of recomputed"
    costs: ClassVar[str] = "host memory or a store; the first token waits for a link; no gain without reuse"
    effort: ClassVar[str] = FLAG

    hit_rate: Number = 0.6
    tier_bytes: Number | None = None
    working_set_tokens: Number | None = None
    tier_bytes_per_s: Number | None = None
    fetch_overlap: Number | None = None

    def __post_init__(self) -> None:
        checked_share("hit_rate", self.hit_rate)
        if self.fetch_overlap is not None:
            checked_share("fetch_overlap", self.fetch_overlap)
        for name in ("tier_bytes", "working_set_tokens", "tier_bytes_per_s"):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), least=1.0)
        if (self.tier_bytes is None) != (self.working_set_tokens is None):
            raise InvalidInput("give both tier_bytes and working_set_tokens, or neither")

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides how much of a prompt is found in a cache."""
        return ("how much of a prompt is found in a cache",)

    def refusal(self, case: Scenario) -> str:
        """Reject deployments without a link to the tier."""
        gpu = case.serve.accelerator
        if self._rate(case) is not None:
            return ""
        return f"{gpu.name} has no host_bytes_per_s: give tier_bytes_per_s"

    def _rate(self, case: Scenario) -> Number | None:
        if self.tier_bytes_per_s is None:
            return case.serve.accelerator.host_bytes_per_s
        return self.tier_bytes_per_s

    def _overlap(self, case: Scenario) -> Number:
        if self.fetch_overlap is not None:
            return self.fetch_overlap
        return 1.0 if case.serve.server.name in LAYER_BY_LAYER else 0.0

    def found_share(self, case: Scenario) -> Number:
        """Share of the prompt tokens found in the tier."""
        if self.tier_bytes is None or self.working_set_tokens is None:
            return self.hit_rate
        token_bytes = case.model.cache_bytes(1, case.serve.precision.kv)
        held = np.minimum(self.tier_bytes / (np.asarray(self.working_set_tokens, dtype=float) * token_bytes), 1.0)
        return scalar(self.hit_rate * held)

    def after(self, case: Scenario) -> Scenario:
        """Fetch the found tokens over the link."""
        return case.replace(
            hit_rate=self.found_share(case),
            shared_prefix=False,
            fetch_bytes_per_s=self._rate(case),
            fetch_overlap=self._overlap(case),
        )

    def steps(self, case: Scenario) -> tuple[Step, ...]:
        """Time to fetch the found tokens over the link."""
        after = self.after(case)
        found = case.model.cache_bytes(after.found_tokens, case.serve.precision.kv)
        rate = np.asarray(self._rate(case), dtype=float)
        known = {"found_bytes": found, "tier_bytes_per_s": rate}
        value = scalar(found / rate)
        return (
            Step("fetch_s", "found_bytes / tier_bytes_per_s", known, value, "one accelerator's link at its full rate"),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class WeightOffload(Technique):
    """Keep a share of the weights in host memory: larger models run, limited by the rate of that memory or link.

    The weights either cross the host link in each pass, or the host's processor multiplies them in place (llama.cpp's
    ``--override-tensor``, KTransformers), at the bandwidth of its memory.  Routed experts are the usual choice: they
    have most of the bytes, and a token needs few of them.

    Attributes
    ----------
    weights_host : float or array
        Share of the weights in host memory.
    experts_alone : bool
        Whether only routed experts move to the host. The share then refers to the experts alone, and everything else
        stays on the accelerator.
    weights_host_bytes_per_s : float or array, optional
        Rate at which the weights in host memory are read, bytes/s: that of host memory if the host multiplies them, or
        that of the host link if they are streamed to the accelerator (the default).
    """

    slug: ClassVar[str] = "weight-offload"
    name: ClassVar[str] = "weights on the host"
    helps: ClassVar[str] = "decode"
    why: ClassVar[str] = "host memory holds part of the weights: a larger model, or room for more cache"
    costs: ClassVar[str] = "the host's memory or link is used in every pass"
    effort: ClassVar[str] = FLAG

    weights_host: Number = 0.5
    experts_alone: bool = True
    weights_host_bytes_per_s: Number | None = None

    def __post_init__(self) -> None:
        checked_share("weights_host", self.weights_host)
        if self.weights_host_bytes_per_s is not None:
            number("weights_host_bytes_per_s", self.weights_host_bytes_per_s, least=1.0)

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides where the weights are stored."""
        return ("where the weights live",)

    def refusal(self, case: Scenario) -> str:
        """Reject models without experts if only experts move, and deployments without a known rate."""
        if self.experts_alone and not any(isinstance(block, MoE) for block in blocks_of(case.model)):
            return f"{case.model.name} has no routed experts: give experts_alone=False"
        gpu = case.serve.accelerator
        known = self._rate(case) is not None
        if known:
            return ""
        return f"{gpu.name} has no host_bytes_per_s: give weights_host_bytes_per_s"

    def _rate(self, case: Scenario) -> Number | None:
        given = self.weights_host_bytes_per_s
        return case.serve.accelerator.host_bytes_per_s if given is None else given

    def after(self, case: Scenario) -> Scenario:
        """Keep the given share of the weights in host memory."""
        return case.replace(
            weights_host_share=self.weights_host,
            experts_alone=self.experts_alone,
            weights_host_bytes_per_s=self._rate(case),
        )
