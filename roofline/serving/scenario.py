"""Scenario: a deployment and a workload, and everything about how they are served that neither of them says.

A technique turns one scenario into another.  It writes down what it intends (a hit rate, a number of drafts); what that
means in tokens, bytes and seconds is worked out once, in `roofline.serving.batch`, so that techniques which do
not touch the same thing commute.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidInput, Number, number
from ..model import Model
from ..phases.deployment import Deployment
from ..phases.workload import Workload
from ..values import Value


@dataclass(frozen=True)
class Drafts(Value):
    """Speculative decoding: a step drafts some tokens cheaply and verifies all of them in one pass.

    Attributes
    ----------
    acceptance : probability that a draft token is accepted, given that those before it were
    tokens : draft tokens a step
    model : the model that drafts; None if its cost is given as ``share``
    share : time of one draft token as a share of a plain decode step, and its weights as a share of the model's
    """

    acceptance: Number
    tokens: Number
    model: Model | None = None
    share: Number = 0.0

    @property
    def tokens_per_step(self) -> Number:
        """Expected tokens a step, the one that verification itself yields included (see `expected_tokens`)."""
        return expected_tokens(self.acceptance, self.tokens)


def expected_tokens(acceptance: Number, drafts: Number) -> Number:
    """Expected tokens a verification yields: ``1 + a + ... + a^k = (1 - a^(k+1)) / (1 - a)``, and ``k + 1`` at 1.

    A step keeps the accepted drafts before the first refusal and one token of the target model; acceptances are taken
    as independent (Leviathan, Kalman and Matias, arXiv:2211.17192, equation 1).

    Examples
    --------
    >>> round(expected_tokens(0.7, 4), 3)
    2.773
    """
    a, k = np.asarray(acceptance, dtype=float), np.asarray(drafts, dtype=float)
    refused = np.where(a < 1, 1 - a, 1.0)
    return plain_number(np.where(a < 1, (1 - a ** (k + 1)) / refused, k + 1))


@dataclass(frozen=True)
class Scenario(Value):
    """How a workload is served; as it stands, the way `roofline.phases.passes.generate` takes it.

    Attributes
    ----------
    serve, load : what runs where, and what is asked of it
    cache : whether there is a KV cache; without, every step computes its whole context again
    drafts : speculative decoding, or None
    hit_rate : share of the prompt's tokens that are found in the cache (vLLM's prefix cache hit rate)
    shared_prefix : whether what is found is stored once for all sequences
    compression : prompt tokens that one token stands for after compression
    host_share : share of the cache that lives in host memory and crosses the host link each step
    prefill_overhead, decode_overhead : extra time as a share of a prefill and of a step (dequantization, padding)
    launch_s : fixed time of every operator launched, on top of what the chosen time counts
    slots_used : share of the batch's slots that hold a sequence still generating
    reserved_tokens : cache that the engine reserves for a sequence; its own length if None
    page_tokens : granularity of that reservation
    chunk_tokens : prompt tokens that join each decode step; None runs prompts by themselves
    handover_bytes_per_s : the link from a prefill pool to a decode pool; None if one pool does both
    """

    serve: Deployment
    load: Workload
    cache: bool = True
    drafts: Drafts | None = None
    hit_rate: Number = 0.0
    shared_prefix: bool = False
    compression: Number = 1.0
    host_share: Number = 0.0
    prefill_overhead: Number = 0.0
    decode_overhead: Number = 0.0
    launch_s: Number = 0.0
    slots_used: Number = 1.0
    reserved_tokens: Number | None = None
    page_tokens: Number = 1
    chunk_tokens: Number | None = None
    handover_bytes_per_s: Number | None = None

    def replace(self, **changes: Any) -> Scenario:
        """A copy with other fields."""
        return dataclasses.replace(self, **changes)

    @property
    def model(self) -> Model:
        """The model that is served."""
        return self.serve.model

    def with_model(self, model: Model) -> Scenario:
        """The same with another model."""
        return self.replace(serve=self.serve.replace(model=model))

    def slower(self, *, prefill: Number = 0.0, decode: Number = 0.0) -> Scenario:
        """The same with more extra time: shares multiply, ``(1 + a) (1 + b) - 1``."""
        return self.replace(
            prefill_overhead=(1 + self.prefill_overhead) * (1 + prefill) - 1,
            decode_overhead=(1 + self.decode_overhead) * (1 + decode) - 1,
        )

    @property
    def running(self) -> Workload:
        """The workload that is left to compute: the prompt compressed, and less what is found in the cache.

        At least one prompt token is always computed: its logits are the first token.
        """
        load = self.load
        prompt, cached = (np.ceil(np.divide(n, self.compression)) for n in (load.prompt_tokens, load.cached_tokens))
        found = self.found_tokens
        return Workload(prompt - found, load.output_tokens, load.batch, cached + found)

    @property
    def found_tokens(self) -> Number:
        """Tokens of the compressed prompt that are found in the cache, all but one at most."""
        prompt = np.ceil(np.divide(self.load.prompt_tokens, self.compression))
        return plain_number(np.minimum(np.floor(self.hit_rate * prompt + 1e-9), prompt - 1))


def plain_number(value: Any) -> Number:
    """A float for what has no shape, else the array."""
    array = np.asarray(value, dtype=float)
    return array if array.ndim else float(array)


def share(what: str, value: object) -> Number:
    """``value`` as a share between 0 and 1.

    Raises
    ------
    InvalidInput
        Not a finite number from 0 to 1.
    """
    checked = number(what, value)
    if np.any(np.asarray(checked) > 1):
        raise InvalidInput(f"{what} must be a share from 0 to 1: {float(np.max(checked)):g}")
    return checked
