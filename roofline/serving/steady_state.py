"""Steady state: a deployment whose ``B`` sequences come and go, each finished one replaced by a new prompt at once.

A request is computed ``p`` seconds for its prompt and rides on ``n = output - 1`` steps of ``s`` seconds, which it
shares with ``B - 1`` others:

    busy  = p + n s / B            seconds of the deployment that a request takes; its inverse is the throughput
    TTFT  = p + s                  its own prompt, after a step in progress (none if it is alone)
    TPOT  = s + (B - 1) p / n      while it generates, each of the others ends and a new prompt holds up the step

so that ``TTFT + n TPOT = B busy + s``: ``B`` requests in the house, each served for ``busy`` seconds (Little's law),
and the step awaited.  Replicas of attention prefill a prompt each; a pipeline of ``k`` stages is through with a
prompt after ``p`` but takes the next one after ``p / k``.

The floor knows no order: prompts and steps overlap wherever they load different resources (as chunks of prompts that
ride on decode steps do), so ``busy`` is the largest of the resources' sums and ``B busy`` bounds a request's time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from ..errors import Number, unknown
from ..phases.deployment import Deployment
from ..phases.passes import TIMES, Phase, decode, prefill
from ..phases.workload import Workload
from ..report import Report


@dataclass(frozen=True, eq=False, repr=False)
class Steady(Report):
    """What requests see of a deployment that is kept at ``load.batch`` sequences.

    Attributes
    ----------
    deployment, load : what runs where, and which requests come
    time : which of the three times the figures are
    first, step : the prompts of one pass, one on each replica of attention, and a decode step at the mean context
    """

    deployment: Deployment
    load: Workload
    time: str
    first: Phase
    step: Phase

    columns = ("ttft_s", "tpot_s", "total_s", "gap_s", "tokens_per_s", "requests_per_s", "prefill_share", "time")

    @property
    def _steps(self) -> Number:
        steps: Number = np.maximum(np.asarray(self.load.output_tokens, dtype=float) - 1, 0.0)
        return steps

    @property
    def prompt_s(self) -> Number:
        """A prompt from its start to its first token."""
        prompt_s: Number = getattr(self.first, self.time)
        return prompt_s

    @property
    def slot_s(self) -> Number:
        """Time between two prompts that follow each other; the floor's is an even share of a stage already."""
        parallel = self.deployment.parallel
        stages = 1.0 if self.time == "floor_s" else parallel.pipeline
        return self.prompt_s / (stages * parallel.data)

    @property
    def step_s(self) -> Number:
        """A decode step."""
        step_s: Number = getattr(self.step, self.time)
        return step_s

    @property
    def busy_s(self) -> Number:
        """Time of the deployment that a request takes."""
        if self.time != "floor_s":
            return self.slot_s + self._steps * self.step_s / self.load.batch
        firsts, steps = self.first.resources_s, self.step.resources_s
        data = self.deployment.parallel.data
        each = (
            firsts.get(name, 0.0) / data + self._steps * steps.get(name, 0.0) / self.load.batch
            for name in firsts | steps
        )
        return reduce(np.maximum, each)

    @property
    def ttft_s(self) -> Number:
        """Time to first token."""
        if self.time == "floor_s":
            return self.prompt_s
        return self.prompt_s + np.where(np.asarray(self.load.batch) > 1, self.step_s, 0.0)

    @property
    def tpot_s(self) -> Number:
        """Time per output token after the first, the stalls by other prompts spread over all of them."""
        steps = np.maximum(self._steps, 1.0)
        if self.time == "floor_s":
            tpot_s: Number = np.maximum(self.step_s, (self.load.batch * self.busy_s - self.ttft_s) / steps)
        else:
            data = self.deployment.parallel.data
            others = np.maximum(self.load.batch / data - 1, 0.0)
            tpot_s = self.step_s + others * data * self.slot_s / steps
        return np.where(self._steps > 0, tpot_s, 0.0)

    @property
    def total_s(self) -> Number:
        """End to end."""
        return self.ttft_s + self._steps * self.tpot_s

    @property
    def gap_s(self) -> Number:
        """Longest gap between two tokens: a step, and another prompt before it (at the floor, no other)."""
        return self.step_s + (0.0 if self.time == "floor_s" else self.slot_s * self.deployment.parallel.data)

    @property
    def requests_per_s(self) -> Number:
        """Requests that the deployment finishes a second."""
        return 1.0 / self.busy_s

    @property
    def tokens_per_s(self) -> Number:
        """Tokens that it generates a second."""
        return self.load.output_tokens / self.busy_s

    @property
    def prefill_share(self) -> Number:
        """Share of the prompts in the time of the deployment."""
        return np.minimum(self.slot_s / self.busy_s, 1.0)

    @property
    def limit(self) -> Any:
        """What limits the decode step."""
        return self.step.limit

    def at(self, time: str) -> Steady:
        """The same in another of the three times; nothing is computed again."""
        return Steady(self.deployment, self.load, time, self.first, self.step)


def steady_state(serve: Deployment, load: Workload, *, time: str = "estimate_s") -> Steady:
    """What requests see of ``serve`` while ``load.batch`` of them are in the house.

    The steps are taken at their mean context, which is exact wherever a step's time is linear in the context.

    Raises
    ------
    UnknownName
        ``time`` is none of the three.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm"))
    >>> found = steady_state(serve, rl.Workload(1500, 300, batch=16), time="roofline_s")
    >>> bool(np.isclose(found.total_s, 16 * found.busy_s + found.step_s))
    True
    """
    if time not in TIMES:
        raise unknown("time", time, TIMES)
    middle = np.floor(load.context_tokens + np.maximum(np.asarray(load.output_tokens) - 2, 0) / 2)
    prompts = Workload(load.prompt_tokens, load.output_tokens, serve.parallel.data, load.cached_tokens)
    return Steady(serve, load, time, prefill(serve, prompts), decode(serve, load, context_tokens=middle))
