"""Gates that hold prompts back (`roofline.serving.gates`) in closed form: for how long, and how many prompts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..errors import Number
from ..specs.engines import Engine
from ..values import Value


@dataclass(frozen=True, eq=False)
class LaneGate(Value):
    """The gate of a scheduler, or of several that step together.

    Attributes
    ----------
    engine : Engine
        Settings of the engine.
    ranks : int
        Schedulers that step together.
    running : float or array
        Requests that hold a slot of a scheduler.
    steps : float or array
        Decode steps of a request.
    prompt_tokens : float or array
        Tokens to compute of a prompt.
    opens_early : bool
        Whether the gate is open while a rank is idle, because the number of requests varies.
    closes : bool
        Whether the gate is in use.
    """

    engine: Engine
    ranks: int
    running: Number
    steps: Number
    prompt_tokens: Number
    opens_early: bool = False
    closes: bool = True

    @property
    def balanced(self) -> bool:
        """Whether the scheduler is one of several ranks that wait until all have a prompt."""
        return self.ranks > 1 and bool(self.engine.balance_wait_steps)

    @cached_property
    def _arriving(self) -> Number:
        """Prompts that arrive at a scheduler per step."""
        return self.running / np.maximum(self.steps, 1.0)

    @cached_property
    def gate_steps(self) -> Number:
        """Steps from the first held prompt until the gate opens (`roofline.serving.gates`); 0 without a gate.

        A full step opens the gate early: with ``a`` arrivals per step, ``k`` prompts take ``(k - 1) / a`` steps.  All
        of ``R`` ranks have a prompt after ``(1 + 1/2 + ... + 1/R) / a`` steps, the mean of the latest of ``R``
        arrivals, and then wait for more; if the time runs out before, they do not.
        """
        engine, coming = self.engine, self._arriving
        if not self.closes:
            return 0.0
        if self.balanced:
            latest = sum(1.0 / rank for rank in range(1, self.ranks + 1)) / coming
            opens = np.minimum(float(engine.balance_wait_steps or 0.0), latest) + self._batching_steps
        elif engine.batch_wait_steps:
            enough = (engine.batch_wait_share or 0.0) * float(engine.step_tokens or np.inf) - self.running
            filled = np.maximum(np.ceil(enough / self.prompt_tokens) - 1.0, 0.0) / coming
            opens = np.minimum(engine.batch_wait_steps, filled)
        else:
            return 0.0
        if self.opens_early and self.balanced:  # the gate is open while a rank is idle
            opens = opens * (-np.expm1(-self.running)) ** self.ranks
        return np.where(self.running > 1.0, opens, 0.0)

    @property
    def all_ready(self) -> Number:
        """Share of the gate's openings at which all ranks have a prompt before the time runs out."""
        most = float(self.engine.balance_wait_steps or 0.0)
        return (-np.expm1(-self._arriving * most)) ** self.ranks

    @property
    def _batching_steps(self) -> Number:
        """Mean number of further steps for which ranks wait once all have a prompt."""
        return self.all_ready * (self.engine.balance_batching_steps or 0.0)

    @property
    def gathered_prompts(self) -> Number:
        """Prompts held back to share a pass, over all schedulers that step together."""
        if not self.balanced:
            return 1.0 + self._arriving * self.gate_steps
        ranks, held = self.ranks, self.gate_steps > 0
        arrived = self._arriving * ranks * self.gate_steps
        gathered = self.all_ready * np.maximum(ranks, arrived) + (1.0 - self.all_ready) * (1.0 + arrived)
        return np.where(held, gathered, 1.0)

    @property
    def held_steps(self) -> Number:
        """Mean number of steps for which a prompt is held back.

        A prompt that arrives while the gate is closed waits for half of its steps.  The first prompt waits for all of
        them if its arrival closed the gate, and for half if steps are counted all the time, as for ranks.
        """
        steps = self.gate_steps
        if self.balanced:
            batching = np.minimum(self._batching_steps, steps)
            return (steps - batching) / 2.0 + batching
        more = self._arriving * steps
        return steps * (1.0 + more / 2.0) / (1.0 + more)
