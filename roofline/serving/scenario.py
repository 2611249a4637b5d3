"""Scenario: a deployment, a workload, and all serving options that neither of them contains.

A technique turns one scenario into another.  It states its parameters, such as a hit rate or a number of drafts.  Their
effect on tokens, bytes and seconds is computed in one place, `roofline.serving.pass_times` and
`roofline.serving.steady_state`, so that techniques that change different things commute.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import scalar
from ..errors import InvalidInput, Number, number
from ..footprint.allocation import NO_DRAFTER, Drafter, Paging
from ..footprint.memory_use import Memory, memory
from ..model import Model
from ..model.draft_heads import draft_head, has_own_lm_head
from ..phases.deployment import Deployment, check_deployment
from ..phases.encoder_rules import refuse_encoders
from ..phases.sequences import prompts_of
from ..phases.workload import Workload, check_load
from ..values import Value
from .sources import check_served, check_whole


@dataclass(frozen=True, eq=False)
class Drafts(Value):
    """Speculative decoding: a step drafts some tokens cheaply and verifies all of them in one pass.

    A step yields ``AL`` tokens and takes ``T(w) + p t``: a pass of the model over ``w`` tokens of each sequence, and
    ``p`` consecutive passes of the drafter, each over ``(w - 1) / p`` tokens of each sequence.  A chain of ``K`` drafts
    has ``w = K + 1`` and ``p = K``.  A tree has more tokens than passes, parallel drafting takes one pass, and drafts
    looked up in the text take none.

    Attributes
    ----------
    acceptance : float or array
        Probability that a draft token is accepted, given that those before it were.
    tokens : int or array
        Draft tokens per step, made in sequence.
    model : Model, optional
        Draft model.
    head : str
        Draft head of the served model, used instead of ``model`` (`roofline.model.draft_heads`).
    share : float or array
        Time of one draft pass as a share of a plain decode step, and weights of the drafter as a share of the model's.
        Used if neither a model nor a head is given.
    accepted : float or array, optional
        Measured number of tokens per step; by default computed from ``acceptance``.
    passes : int or array, optional
        Consecutive draft passes per step; by default ``tokens``.
    verified : int or array, optional
        Tokens of each sequence that a step verifies; by default ``tokens + 1``.
    extends : bool
        Whether the drafter runs one more pass to add the accepted tokens to its own cache.
    captured : bool
        Whether the CUDA graph of the verification includes the draft passes, so that the host does not launch them.
    later : float or array, optional
        Probability that a draft token after the first is accepted, given that those before it were; by default
        ``acceptance``.
    """

    acceptance: Number
    tokens: Number
    model: Model | None = None
    head: str = ""
    share: Number = 0.0
    accepted: Number | None = None
    passes: Number | None = None
    verified: Number | None = None
    extends: bool = False
    captured: bool = False
    later: Number | None = None

    @property
    def tokens_per_step(self) -> Number:
        """Expected tokens per step, including the one from the verification itself (see `expected_tokens`)."""
        if self.accepted is not None:
            return self.accepted
        return expected_tokens(self.acceptance, self.tokens, self.later)

    @property
    def verify_width(self) -> Number:
        """Tokens of each sequence that a step verifies."""
        return self.tokens + 1.0 if self.verified is None else self.verified

    @property
    def draft_passes(self) -> Number:
        """Consecutive draft passes, excluding the one that extends the cache."""
        return self.tokens if self.passes is None else self.passes

    @property
    def drafted_by_pass(self) -> Number:
        """Tokens of each sequence that a draft pass computes."""
        return np.maximum((self.verify_width - 1.0) / np.maximum(self.draft_passes, 1.0), 1.0)


def expected_tokens(acceptance: Number, drafts: Number, later: Number | None = None) -> Number:
    """Return the expected tokens from verifying ``k`` drafts: ``(1 - a^(k+1)) / (1 - a)``, or ``k + 1`` if ``a`` is 1.

    A step keeps the drafts before the first rejected one, and one token of the target model. Acceptances are assumed
    independent (Leviathan, Kalman and Matias, arXiv:2211.17192, equation 1). If drafts after the first are accepted
    with another probability ``b``, the result is ``1 + a (1 - b^k) / (1 - b)``.

    Parameters
    ----------
    acceptance : float or array
        Probability that a draft is accepted, given that those before it were.
    drafts : int or array
        Number of drafts in sequence.
    later : float or array, optional
        Acceptance probability of drafts after the first; by default ``acceptance``.

    Examples
    --------
    >>> round(expected_tokens(0.7, 4), 3)
    2.773
    >>> round(expected_tokens(0.85, 3, 0.7), 2)
    2.86
    """
    first, k = np.asarray(acceptance, dtype=float), np.asarray(drafts, dtype=float)
    b = first if later is None else np.asarray(later, dtype=float)
    refused = np.where(b < 1, 1 - b, 1.0)
    drafted = np.where(b < 1, (1 - b**k) / refused, k)
    return scalar(1 + first * drafted)


@dataclass(frozen=True, eq=False)
class Scenario(Value):
    """How requests are served. The defaults describe an engine with continuous batching and no further technique.

    Attributes
    ----------
    serve : Deployment
        Deployment that serves the requests.
    load : Workload
        The requests; ``batch`` of them are in the system at any time.
    cache : bool
        Whether there is a KV cache; without one, every step recomputes its whole context.
    drafts : Drafts, optional
        Speculative decoding.
    hit_rate : float or array
        Share of the prompt's tokens that are found in the cache (vLLM's prefix cache hit rate).
    shared_prefix : bool
        Whether the cached prefix is stored once for all sequences.
    compression : float or array
        Compression ratio: prompt tokens before compression per token after it.
    host_share : float or array
        Share of the cache in host memory, which crosses the host link in each step.
    prefill_overhead, decode_overhead : float or array
        Extra time as a share of a prefill and of a step (dequantization, padding).
    launch_s : float or array
        Additional fixed time per kernel launch, seconds.
    prompt_host_s : float or array
        Additional host time per pass over prompts, seconds, on top of the engine's own.
    layer_launch_s : float or array
        Host time to launch the kernels of a layer in a decode step without CUDA graphs, seconds; 0 with CUDA graphs.
    sequence_s : float or array
        Host time per sequence and decode step, seconds: scheduling, sampling, detokenization.
    step_host_s : float or array
        Host time per decode step, seconds, on top of the engine's own.
    asynchronous : bool
        Whether the host prepares the next step while the device works on this one.
    two_batches : bool
        Whether a step splits its batch into two halves, one of which communicates while the other computes.
    fetch_bytes_per_s : float or array, optional
        Rate per accelerator at which the cached prefix is fetched from another memory tier, bytes/s; by default it is
        already on the device.
    fetch_overlap : float or array
        Share of the time to compute the rest of the prompt that can hide the fetch.
    kept_tokens : int or array, optional
        Tokens of a sequence that stay in the cache once its prompt is computed; by default all.
    weights_host_share : float or array
        Share of the weights in host memory, which each pass processes at ``weights_host_bytes_per_s``.
    weights_host_bytes_per_s : float or array, optional
        Rate for weights in host memory, bytes/s: that of the link if they are streamed, that of host memory if the CPU
        computes.
    experts_alone : bool
        Whether ``weights_host_share`` applies to the weights of routed experts only.
    pool_share : float, optional
        Share of the accelerators dedicated to attention, the others being dedicated to experts and MLPs; by default all
        accelerators run both.
    encode_s : float or array
        Time per prompt of image and sound encoders on the same accelerators, seconds.
    encoded_elsewhere_s : float or array
        Time per prompt of encoders on separate accelerators, including the transfer, seconds; adds latency only.
    slots_used : float or array, optional
        Share of the slots of a static batch whose sequence is still generating; by default batching is continuous, and
        a finished sequence is replaced at once.
    reserved_tokens : int or array, optional
        Cache that the engine reserves per sequence, tokens; by default it allocates pages as the sequence grows.
    page_tokens : int or array, optional
        Tokens per page; by default the engine's.
    step_tokens : int or array, optional
        Token budget of one pass, up to which whole prompts are packed (vLLM's ``max_num_batched_tokens``); by default
        the engine's.
    chunk_tokens : int or array, optional
        Prompt tokens added to each decode step; by default prompts run in passes of their own.
    handover_bytes_per_s : float or array, optional
        Rate of the link from a prefill pool to a decode pool, one way, bytes/s; by default one pool does both.
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
    prompt_host_s: Number = 0.0
    layer_launch_s: Number = 0.0
    sequence_s: Number = 0.0
    step_host_s: Number = 0.0
    asynchronous: bool = False
    two_batches: bool = False
    fetch_bytes_per_s: Number | None = None
    fetch_overlap: Number = 1.0
    kept_tokens: Number | None = None
    weights_host_share: Number = 0.0
    weights_host_bytes_per_s: Number | None = None
    experts_alone: bool = True
    pool_share: float | None = None
    encode_s: Number = 0.0
    encoded_elsewhere_s: Number = 0.0
    slots_used: Number | None = None
    reserved_tokens: Number | None = None
    page_tokens: Number | None = None
    step_tokens: Number | None = None
    chunk_tokens: Number | None = None
    handover_bytes_per_s: Number | None = None

    def __post_init__(self) -> None:
        check_deployment(self.serve)
        check_load(self.load)
        if self.load.has_media:
            prompts_of(self.serve, self.load)  # raises if the model has no encoder for the input
        check_served(self.serve)
        check_whole(self.model, self.hit_rate)
        if self.chunk_tokens is not None or self.handover_bytes_per_s is not None:
            refuse_encoders(self.model, "prefill in chunks or on a pool of its own")

    def replace(self, **changes: Any) -> Scenario:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    @property
    def model(self) -> Model:
        """Model served."""
        return self.serve.model

    def with_model(self, model: Model) -> Scenario:
        """Return the scenario with another model."""
        return self.replace(serve=self.serve.replace(model=model))

    def slower(self, *, prefill: Number = 0.0, decode: Number = 0.0) -> Scenario:
        """Return the scenario with more overhead; shares multiply, ``(1 + a) (1 + b) - 1``."""
        return self.replace(
            prefill_overhead=(1 + self.prefill_overhead) * (1 + prefill) - 1,
            decode_overhead=(1 + self.decode_overhead) * (1 + decode) - 1,
        )

    @property
    def running(self) -> Workload:
        """Workload left to compute: the compressed prompt without its cached tokens.

        At least one prompt token is always computed, because its logits give the first output token.  Images and sound
        go with the tokens (see `media`).
        """
        load = self.load
        prompt, cached = (np.ceil(np.divide(n, self.compression)) for n in (load.prompt_tokens, load.cached_tokens))
        found = self.found_tokens
        return Workload(prompt - found, load.output_tokens, load.batch, cached + found)

    def media(self, prompt_tokens: Number) -> dict[str, Number]:
        """Return the images and sound among some tokens of a prompt, assuming that they are spread evenly over it."""
        load = self.load
        if not load.has_media:
            return {}
        part = np.divide(prompt_tokens, np.ceil(np.divide(load.prompt_tokens, self.compression)))
        return {"images": load.images * part, "image_tokens": load.image_tokens, "audio_s": load.audio_s * part}

    @property
    def without_media(self) -> Scenario:
        """Return the scenario with text in place of images and sound."""
        return self.replace(load=dataclasses.replace(self.load, images=0, image_tokens=0, audio_s=0.0))

    @property
    def token_budget(self) -> Number:
        """Largest number of prompt tokens in one pass; infinite for an engine without a limit."""
        if self.step_tokens is not None:
            return self.step_tokens
        return self.serve.server.step_tokens or np.inf

    @property
    def memory(self) -> Memory:
        """Resident memory: weights, drafter, and the cache as the engine allocates it."""
        paging = Paging(
            page_tokens=self.page_tokens,
            step_tokens=self.step_tokens,
            reserved_tokens=self.reserved_tokens,
            shared_tokens=self.found_tokens if self.shared_prefix else 0,
            host_share=self.host_share,
            weights_host_share=self.weights_host_share,
            experts_alone=self.experts_alone,
        )
        return memory(self.serve, self._held, paging=paging, drafter=self._drafter)

    @property
    def _held(self) -> Workload:
        """Return the sequences that memory holds at their full length, without evicted tokens."""
        load = self.running
        if self.kept_tokens is None:
            return load
        kept = np.maximum(np.minimum(load.context_tokens, self.kept_tokens), 1.0)
        cached = np.minimum(load.cached_tokens, kept - 1.0)
        return Workload(kept - cached, load.output_tokens, load.batch, cached)

    @property
    def _drafter(self) -> Drafter:
        if self.drafts is None:
            return NO_DRAFTER
        drafting = self.drafting
        if drafting is None:
            return Drafter(share=self.drafts.share * np.minimum(self.drafts.tokens, 1))
        if self.drafts.head and not has_own_lm_head(self.drafts.head):
            drafting = drafting.replace(model=drafting.model.replace(vocab=1))
        return Drafter(drafting, own_layers=self.drafts.head == "mtp")

    @property
    def drafting(self) -> Deployment | None:
        """Deployment of the drafter; None if drafting runs no model or head.

        The weights of a draft head are in 16 bits, as published, except those of a model's own extra layer.
        """
        if self.drafts is None:
            return None
        if self.drafts.model is not None:
            return self.serve.replace(model=self.drafts.model)
        if not self.drafts.head:
            return None
        precision = self.serve.precision
        if self.drafts.head != "mtp":
            wide = precision.wide
            precision = dataclasses.replace(precision, weights=wide, activations=wide, exceptions={})
        return self.serve.replace(model=draft_head(self.model, self.drafts.head), precision=precision)

    @property
    def found_tokens(self) -> Number:
        """Return the cached tokens of the compressed prompt, at most all but one."""
        prompt = np.ceil(np.divide(self.load.prompt_tokens, self.compression))
        # 1e-9 makes up for rounding: 0.29 of 100 tokens is 28.999999999999996 in floats.
        return scalar(np.minimum(np.floor(self.hit_rate * prompt + 1e-9), prompt - 1))


def checked_share(what: str, value: object) -> Number:
    """Return ``value`` as a share between 0 and 1.

    Raises
    ------
    InvalidInput
        ``value`` is not a finite number from 0 to 1.
    """
    checked = number(what, value)
    if np.any(np.asarray(checked) > 1):
        raise InvalidInput(f"{what} must be a share from 0 to 1: {float(np.max(checked)):g}")
    return checked
