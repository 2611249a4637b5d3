"""Generation: a batch from its prompts to its last tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from ..arrays import anywhere, last_axis, read_only, scalar
from ..errors import InvalidInput, Number, unknown
from ..report import Report, Step
from ..units import humanize
from .deployment import Deployment
from .encoder_rules import encoder_refusal
from .pass_sentences import generation_sentence
from .passes import TIMES, Phase, prefill, run_pass
from .sequences import steps_of
from .workload import OfWorkload, Workload


@dataclass(frozen=True, eq=False, repr=False)
class Generation(OfWorkload, Report):
    """A batch from its prompts to its last output tokens.

    Attributes
    ----------
    deployment : Deployment
        What runs where.
    load : Workload
        The batch.
    time : str
        Which of the three times the results are based on.
    prefill : Phase
        The pass over the prompts.

    Columns
    -------
    ttft_s
        Time to first token: the prefill.
    tpot_s
        Time per output token after the first: (total - TTFT) / (output - 1); 0 for one token.
    total_s
        End to end.
    prefill_share
        Share of the prefill in the total.
    tokens_per_s
        Generated tokens of the batch per second.
    """

    deployment: Deployment
    load: Workload
    time: str
    prefill: Phase = field(compare=False)

    columns = ("ttft_s", "tpot_s", "total_s", "prefill_share", "tokens_per_s", "time")

    @property
    def heading(self) -> str:
        """Title: deployment and number of sequences."""
        return f"Generation: {self.deployment}, batch {humanize('batch', self.load.batch)}"

    @cached_property
    def _figures(self) -> dict[str, Number]:
        """Numeric columns, read-only."""
        ttft_s, load = getattr(self.prefill, self.time), self.load
        steps = np.asarray(load.output_tokens, dtype=float) - 1
        decode_s = steps * self.step_s
        total_s = ttft_s + decode_s
        figures = {
            "ttft_s": ttft_s,
            "tpot_s": scalar(np.where(steps > 0, decode_s / np.maximum(steps, 1), 0.0)),
            "total_s": scalar(total_s),
            "prefill_share": scalar(ttft_s / total_s),
            "tokens_per_s": scalar(load.batch * load.output_tokens / total_s),
        }
        read_only(figures.values())
        return figures

    @cached_property
    def steps(self) -> Phase:
        """One decode step at the mean context of each block; blocks are the last axis."""
        return _steps(self.deployment, self.load, _blocks(self.load))

    @cached_property
    def step_s(self) -> Number:
        """Mean time of a decode step."""
        shape, blocks = np.broadcast_shapes(*map(np.shape, self.load.counts.values())), _blocks(self.load)
        if self.deployment.is_sweep or prod(shape) * blocks <= _MOST_POINTS:
            return scalar(np.mean(getattr(self.steps, self.time), axis=-1))
        return self._step_s_of_parts(shape, blocks)

    def _step_s_of_parts(self, shape: tuple[int, ...], blocks: int) -> Number:
        """`step_s` of a large sweep, computed in parts since there are up to 256 steps per point."""
        counts: dict[str, Any] = {
            name: np.broadcast_to(value, shape).ravel() for name, value in self.load.counts.items()
        }
        found = np.empty(prod(shape))
        rows = max(_MOST_POINTS // blocks, 1)
        for start in range(0, found.size, rows):
            part: dict[str, Any] = {name: values[start : start + rows] for name, values in counts.items()}
            steps = _steps(self.deployment, Workload(**part), blocks)
            found[start : start + rows] = np.mean(getattr(steps, self.time), axis=-1)
        found.flags.writeable = False
        return found.reshape(shape)

    @property
    def ttft_s(self) -> Number:
        """Time to first token."""
        return self._figures["ttft_s"]

    @property
    def tpot_s(self) -> Number:
        """Time per output token after the first; 0 for one token."""
        return self._figures["tpot_s"]

    @property
    def total_s(self) -> Number:
        """Time from the first prompt token to the last output token."""
        return self._figures["total_s"]

    @property
    def prefill_share(self) -> Number:
        """Share of the prefill in the total time."""
        return self._figures["prefill_share"]

    @property
    def tokens_per_s(self) -> Number:
        """Generated tokens of the batch per second."""
        return self._figures["tokens_per_s"]

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """Assumptions behind the results; the last one says where a server would cut the prompts into chunks."""
        budget = self.deployment.server.step_tokens
        if not budget or not anywhere(self.load.prompt_tokens > budget):
            return self.prefill.assumptions
        note = (
            f"prompts run in one pass; a server computes those above {budget:,.0f} tokens in chunks, which read the "
            "weights again: `serve` has the TTFT of such a request"
        )
        return (*self.prefill.assumptions, note)

    def summary(self) -> str:
        """Describe the times of the batch in a sentence."""
        return generation_sentence(self)

    def _derivation(self) -> tuple[Step, ...]:
        """Return the steps of the prefill, of the decode steps, and from them to the times of the batch."""
        blocks = np.asarray(getattr(self.steps, self.time))
        load, counted = self.load, {"output_tokens": self.load.output_tokens}
        of_blocks = {"sum_of_blocks_s": scalar(blocks.sum(axis=-1)), "blocks": blocks.shape[-1]}
        whole = {"ttft_s": self.ttft_s, "step_s": self.step_s} | counted
        ends = {"total_s": self.total_s, "ttft_s": self.ttft_s}
        first = {f"prefill_{self.time}": getattr(self.prefill, self.time)}
        later = {"step_s": self.step_s} | counted
        produced = {"batch": load.batch, "total_s": self.total_s} | counted
        defined = "by definition"
        where = "decode steps in blocks of one length, each at its mean context"
        return (
            *self.prefill.explain(),
            *self.steps.explain(),
            Step("ttft_s", f"prefill_{self.time}", first, self.ttft_s, "the prefill emits the first token"),
            Step("step_s", "sum_of_blocks_s / blocks", of_blocks, self.step_s, where),
            Step("total_s", "ttft_s + (output_tokens - 1) * step_s", whole, self.total_s, "prefill, then the steps"),
            Step("tpot_s", "step_s * min(output_tokens - 1, 1)", later, self.tpot_s, "(total - TTFT) / (output - 1)"),
            Step("prefill_share", "ttft_s / total_s", ends, self.prefill_share, defined),
            Step("tokens_per_s", "batch * output_tokens / total_s", produced, self.tokens_per_s, defined),
        )


_STEPS = 256
"""Largest number of blocks into which the decode steps of a generation are grouped."""

_MOST_POINTS = 2**21
"""Steps computed at once; their times and contexts take a few hundred megabytes."""


def generate(serve: Deployment, load: Workload, *, time: str = "estimate_s") -> Generation:
    """Compute a batch end to end: the prefill, which yields the first token, and ``output - 1`` decode steps.

    With a prompt of ``P`` tokens and ``O`` tokens of output, the contexts of the steps are ``P`` to ``P + O - 2``.

    The steps are grouped into at most 256 equal blocks.  The time of a block is its number of steps times the step at
    its mean context.  This is exact for up to 256 steps, and beyond that wherever the time of a step is linear in the
    context.  It is approximate in a block where an operator changes its limit or a window fills up.

    The prefill is one pass, however long the prompts are.  `roofline.serve` at a concurrency of 1 describes the same
    request in a server: a prompt longer than the engine's budget of tokens is computed in chunks, each of which reads
    the weights again, and the first token also waits for the handling of the request and a step scheduled ahead.

    Parameters
    ----------
    serve : Deployment
        What runs where.
    load : Workload
        The batch; its fields may be arrays.
    time : str
        Time of a pass that is used: ``floor_s``, ``roofline_s`` or ``estimate_s``.

    Returns
    -------
    Generation
        Times and throughput of the batch.

    Raises
    ------
    UnknownName
        ``time`` is not one of the three.
    """
    if time not in TIMES:
        raise unknown("time", time, TIMES)
    first = prefill(serve, load)
    if serve.model.encodes:
        raise InvalidInput(encoder_refusal(serve.model, "decode"))
    return Generation(serve, load, time, first)


def _blocks(load: Workload) -> int:
    """Return the number of blocks for the steps of a load."""
    return int(np.clip(np.max(np.asarray(load.output_tokens, dtype=float) - 1, initial=1.0), 1, _STEPS))


def _steps(serve: Deployment, load: Workload, blocks: int) -> Phase:
    """Return decode steps at the mean context of each block, along a new last axis."""
    steps = np.asarray(load.output_tokens, dtype=float) - 1
    middles = (np.arange(blocks) + 0.5) / blocks
    context = np.asarray(load.context_tokens)[..., None] + np.maximum(steps[..., None] * middles - 0.5, 0.0)
    cached, prompt = last_axis(load.cached_tokens), last_axis(load.prompt_tokens)
    beside = serve.model.looked_at(last_axis(load.images), last_axis(load.image_tokens))
    segment = steps_of(
        serve.model, last_axis(load.batch), context, shared=cached, prompt_tokens=prompt, looked_at=beside
    )
    return run_pass(serve.with_new_axis(), "decode", segment)
