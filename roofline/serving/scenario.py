"""Scenario: a deployment and a workload, and everything about how they are served that neither of them says.

A technique turns one scenario into another.  It writes down what it intends (a hit rate, a number of drafts); what that
means in tokens, bytes and seconds is worked out once, in `roofline.serving.pass_times` and
`roofline.serving.steady_state`, so that techniques which do not touch the same thing commute.
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


@dataclass(frozen=True, eq=False)
class Drafts(Value):
    """Speculative decoding: a step drafts some tokens cheaply and verifies all of them in one pass.

    A step yields ``AL`` tokens and takes ``T(w) + p t``: a pass of the model over ``w`` tokens of each sequence, and
    ``p`` passes of what drafts, one after another, each over ``(w - 1) / p`` tokens of each sequence.  A chain of ``K``
    drafts has ``w = K + 1`` and ``p = K``, a tree more tokens than passes, drafts made side by side one pass, and
    drafts looked up in the text none.

    Attributes
    ----------
    acceptance : float or array
        Probability that a draft token is accepted, given that those before it were.
    tokens : int or array
        Draft tokens in a row, of which the last accepted one ends a step.
    model : Model, optional
        The model that drafts.
    head : str
        Draft head of the served model, in the place of ``model`` (`roofline.model.draft_heads`).
    share : float or array
        Time of one draft pass as a share of a plain decode step, and what drafts as a share of the model's weights,
        where neither a model nor a head is given.
    accepted : float or array, optional
        Tokens that a step yields as measured; expected from ``acceptance`` if not given.
    passes : int or array, optional
        Draft passes one after another; ``tokens`` if not given.
    verified : int or array, optional
        Tokens of each sequence that a step verifies; ``tokens + 1`` if not given.
    extends : bool
        Whether one more pass of what drafts fills its own cache with the tokens that were accepted.
    captured : bool
        Whether draft passes are captured in the graph of the verification, so that the host does not launch them.
    later : float or array, optional
        Probability that a draft token after the first is accepted, given that those before it were; as that of the
        first if not given.
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
        """Expected tokens a step, the one that verification itself yields included (see `expected_tokens`)."""
        if self.accepted is not None:
            return self.accepted
        return expected_tokens(self.acceptance, self.tokens, self.later)

    @property
    def verify_width(self) -> Number:
        """Tokens of each sequence that a step verifies."""
        return self.tokens + 1.0 if self.verified is None else self.verified

    @property
    def draft_passes(self) -> Number:
        """Draft passes one after another, one that extends the cache left out."""
        return self.tokens if self.passes is None else self.passes

    @property
    def drafted_by_pass(self) -> Number:
        """Tokens of each sequence that a draft pass computes."""
        return np.maximum((self.verify_width - 1.0) / np.maximum(self.draft_passes, 1.0), 1.0)


def expected_tokens(acceptance: Number, drafts: Number, later: Number | None = None) -> Number:
    """Expected tokens that a verification of ``k`` drafts yields: ``(1 - a^(k+1)) / (1 - a)``, and ``k + 1`` at 1.

    A step keeps the accepted drafts before the first refusal and one token of the target model; acceptances are taken
    as independent (Leviathan, Kalman and Matias, arXiv:2211.17192, equation 1). Where drafts after the first are
    accepted with another probability ``b``, it is ``1 + a (1 - b^k) / (1 - b)``.

    Parameters
    ----------
    acceptance : float or array
        Probability that the first draft is accepted, and each later one given that those before it were.
    drafts : int or array
        Drafts in a row.
    later : float or array, optional
        That of drafts after the first, where it differs.

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
    """How requests are served; as it stands, by an engine with continuous batching and nothing else.

    Attributes
    ----------
    serve : Deployment
        What runs where.
    load : Workload
        The requests; ``batch`` of them are in the system at any time.
    cache : bool
        Whether there is a KV cache; without, every step computes its whole context again.
    drafts : Drafts, optional
        Speculative decoding.
    hit_rate : float or array
        Share of the prompt's tokens that are found in the cache (vLLM's prefix cache hit rate).
    shared_prefix : bool
        Whether what is found is stored once for all sequences.
    compression : float or array
        Prompt tokens that one token stands for after compression.
    host_share : float or array
        Share of the cache that lives in host memory and crosses the host link in each step.
    prefill_overhead, decode_overhead : float or array
        Extra time as a share of a prefill and of a step (dequantization, padding).
    launch_s : float or array
        Fixed time of every kernel launched, seconds, on top of what the chosen time counts.
    prompt_host_s : float or array
        Time that the host adds to every pass over prompts, seconds, on top of what the engine's own takes.
    layer_launch_s : float or array
        Host time of launching the kernels of a layer in a decode step that no graph has captured, seconds; 0 for
        captured steps.
    sequence_s : float or array
        Host time for each sequence of a decode step, seconds: scheduling, sampling, detokenization.
    asynchronous : bool
        Whether the host prepares the next step while the device works on this one.
    two_batches : bool
        Whether a step runs as two halves of its batch, of which one exchanges messages while the other computes.
    fetch_bytes_per_s : float or array, optional
        Rate at which what is found of a prompt comes from another tier of memory, one accelerator, bytes/s; None where
        it is on the device.
    fetch_overlap : float or array
        Share of computing the rest of a prompt that may hide the fetch.
    kept_tokens : int or array, optional
        Tokens of a sequence that stay in the cache once its prompt is computed; None for all.
    weights_host_share : float or array
        Share of the weights that lives in host memory and is worked on at ``weights_host_bytes_per_s`` in each pass.
    weights_host_bytes_per_s : float or array, optional
        That rate: of the link where weights are streamed, of the host's memory where its processor computes.
    experts_alone : bool
        Whether ``weights_host_share`` is one of the routed experts.
    pool_share : float, optional
        Share of the accelerators that attention has to itself, experts and MLPs having the others; None for all
        accelerators taking turns.
    encode_s : float or array
        Time that encoders of images and sound take of every prompt on the same accelerators, seconds.
    encoded_elsewhere_s : float or array
        Time of a prompt's encoders on accelerators of their own, and of the transfer, seconds; only latency.
    slots_used : float or array, optional
        Share of the slots of a static batch that hold a sequence that still generates; None for continuous batching,
        where a sequence that ends is replaced at once.
    reserved_tokens : int or array, optional
        Cache that the engine reserves for a sequence, tokens; None takes pages as the sequence grows.
    page_tokens : int or array, optional
        Tokens of a page; the engine's if not given.
    step_tokens : int or array, optional
        Most prompt tokens of one pass, which whole prompts are packed up to (vLLM's ``max_num_batched_tokens``); the
        engine's if not given.
    chunk_tokens : int or array, optional
        Prompt tokens that join each decode step; None runs prompts by themselves.
    handover_bytes_per_s : float or array, optional
        One direction of the link from a prefill pool to a decode pool, bytes/s; None if one pool does both.
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
            prompts_of(self.serve, self.load)  # refuses what it has no encoder for
        refuse_encoders(self.model, "requests under load or what-ifs")

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

        At least one prompt token is always computed: its logits are the first token.  Images and sound go with the
        tokens: see `media`.
        """
        load = self.load
        prompt, cached = (np.ceil(np.divide(n, self.compression)) for n in (load.prompt_tokens, load.cached_tokens))
        found = self.found_tokens
        return Workload(prompt - found, load.output_tokens, load.batch, cached + found)

    def media(self, prompt_tokens: Number) -> dict[str, Number]:
        """Images and sound among some tokens of a prompt, spread evenly over it, as a segment has them."""
        load = self.load
        if not load.has_media:
            return {}
        part = np.divide(prompt_tokens, np.ceil(np.divide(load.prompt_tokens, self.compression)))
        return {"images": load.images * part, "image_tokens": load.image_tokens, "audio_s": load.audio_s * part}

    @property
    def without_media(self) -> Scenario:
        """The same with text in the place of images and sound."""
        return self.replace(load=dataclasses.replace(self.load, images=0, image_tokens=0, audio_s=0.0))

    @property
    def token_budget(self) -> Number:
        """Most prompt tokens of one pass; infinite for an engine without a limit."""
        if self.step_tokens is not None:
            return self.step_tokens
        return self.serve.server.step_tokens or np.inf

    @property
    def memory(self) -> Memory:
        """What is resident: weights, what drafts, and the cache as the engine allocates it."""
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
        """The sequences whose cache memory holds at their full length, less what is evicted."""
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
            return Drafter(drafting.replace(model=drafting.model.replace(vocab=1)))
        return Drafter(drafting)

    @property
    def drafting(self) -> Deployment | None:
        """What drafts where it runs; None where nothing of its own does.

        A draft head keeps its weights in 16 bits, as heads are published, but for a model's own extra layer.
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
        """Tokens of the compressed prompt that are found in the cache, all but one at most."""
        prompt = np.ceil(np.divide(self.load.prompt_tokens, self.compression))
        # 1e-9 makes up for rounding: 0.29 of 100 tokens is 28.999999999999996 in floats.
        return scalar(np.minimum(np.floor(self.hit_rate * prompt + 1e-9), prompt - 1))


def checked_share(what: str, value: object) -> Number:
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
