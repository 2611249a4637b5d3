"""Service: what one request sees while the rest of the batch runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..errors import Number
from ..report import Report
from .batch import Performance, handover_s
from .scenario import plain_number


@dataclass(frozen=True, eq=False, repr=False)
class Service(Report):
    """What one request sees in a batch whose other sequences come and go as it does (continuous batching).

    Prompts run by themselves as they come: a request waits for the step in progress and for its own prompt, and is held
    up by the prompts of the ``batch - 1`` others while it generates.  In chunks or on two pools it is not.

    Attributes
    ----------
    performance : of the whole batch
    """

    performance: Performance

    columns = ("ttft_s", "tpot_s", "total_s", "tokens_per_s", "gap_s", "prefill_share")

    @cached_property
    def prompt_s(self) -> Number:
        """The request's own prompt, alone in its pass; the pool's busy time, whatever joins it."""
        whole = self.performance
        alone = replace(whole.case.load, batch=1)
        return Performance(whole.case.replace(load=alone, chunk_tokens=None), whole.time).prefill_s

    @property
    def _step_s(self) -> Number:
        return plain_number(np.divide(self.performance.step_s, self.performance.tokens_per_step))

    @property
    def ttft_s(self) -> Number:
        """Time to first token: a step in progress and the prompt; its chunks; or the prompt and its hand-over."""
        whole = self.performance
        if whole.case.chunk_tokens is not None:
            return plain_number(np.divide(whole.ttft_s, whole.load.batch))
        if whole.case.handover_bytes_per_s is not None:
            return plain_number(self.prompt_s + handover_s(whole.case, replace(whole.load, batch=1)))
        others = np.asarray(whole.load.batch) > 1
        return plain_number(self.prompt_s + np.where(others, whole.step_s, 0.0))

    @property
    def tpot_s(self) -> Number:
        """Time per output token after the first, the stalls by other prompts spread over all of them."""
        whole = self.performance
        if whole.case.chunk_tokens is not None or whole.case.handover_bytes_per_s is not None:
            return whole.tpot_s
        steps = np.asarray(whole.load.output_tokens, dtype=float) - 1
        stalls_s = (np.asarray(whole.load.batch) - 1) * self.prompt_s
        return plain_number(np.where(steps > 0, self._step_s + stalls_s / np.maximum(steps, 1), 0.0))

    @property
    def total_s(self) -> Number:
        """End to end."""
        steps = np.asarray(self.performance.load.output_tokens, dtype=float) - 1
        return plain_number(self.ttft_s + steps * self.tpot_s)

    @property
    def busy_s(self) -> Number:
        """Time of the accelerators that a request takes: its prompt, and its part of the batch's steps."""
        whole = self.performance
        if whole.case.chunk_tokens is not None:
            return plain_number(np.divide(whole.busy_s, whole.load.batch))
        steps = np.asarray(whole.load.output_tokens, dtype=float) - 1
        return plain_number(self.prompt_s + steps * self._step_s / whole.load.batch)

    @property
    def tokens_per_s(self) -> Number:
        """Generated tokens a second of the whole batch."""
        return plain_number(self.performance.load.output_tokens * self.performance.case.slots_used / self.busy_s)

    @property
    def gap_s(self) -> Number:
        """Longest gap between two tokens."""
        return self.performance.gap_s

    @property
    def prefill_share(self) -> Number:
        """Share of prompts in the busy time: what a profiler of the accelerator sees."""
        return plain_number(np.minimum(self.prompt_s / self.busy_s, 1.0))
