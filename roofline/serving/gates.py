"""Gates that hold prompts back so that more of them share a step (TensorRT-LLM).

Its PyTorch backend has two launch options for this.  Both count scheduler steps, and neither holds prompts back while
nothing generates:

- ``batch_wait_timeout_iters`` and ``batch_wait_max_tokens_ratio``: prompts that could start wait until they fill a
  share of a step's tokens, or until so many steps have passed (`BatchGate`).
- ``attention_dp_config`` with ``enable_balance``: with data-parallel attention, the most loaded rank sets the time of a
  step.  Prompts of one rank therefore wait until every rank has some, for at most ``timeout_iters`` steps, and then
  ``batching_wait_iters`` more (`BalanceGate`).

References
----------
TensorRT-LLM, llmapi/llm_args.py (TorchLlmArgs, AttentionDpConfig) and tech blog 10, "ADP Balance Strategy"
(https://github.com/NVIDIA/TensorRT-LLM/blob/main/docs/source/blogs/tech_blog/blog10_ADP_Balance_Strategy.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..specs.engines import Engine


@dataclass
class BatchGate:
    """Hold back the prompts of one scheduler until they fill a step.

    Attributes
    ----------
    most_steps : int
        Largest number of steps that the first prompt waits.
    enough_tokens : float
        Tokens of a step, including those of running sequences, that open the gate.
    waited : int
        Steps since the gate closed.
    """

    most_steps: int
    enough_tokens: float
    waited: int = 0

    @classmethod
    def of(cls, engine: Engine) -> BatchGate | None:
        """Return the gate of an engine; None if it has none."""
        steps = int(engine.batch_wait_steps or 0)
        if not steps:
            return None
        return cls(steps, (engine.batch_wait_share or 0.0) * float(engine.step_tokens or float("inf")))

    def holds(self, tokens: float) -> int:
        """Return how many more steps to hold back a step of ``tokens`` tokens; 0 if the gate is open."""
        if self.waited >= self.most_steps or tokens >= self.enough_tokens:
            self.waited = 0
            return 0
        return self.most_steps - self.waited

    def pass_by(self, steps: int) -> None:
        """Count steps that pass while the gate is closed."""
        self.waited += steps


@dataclass
class BalanceGate:
    """Hold back the prompts of all ranks of data-parallel attention until every rank has some.

    Attributes
    ----------
    most_steps : int
        Largest number of steps that ranks with prompts wait for ranks without.
    batching_steps : int
        Further steps to wait, so that each rank can collect several prompts.
    waited, batched : int
        Steps of each kind that have passed.  As in the engine, ``waited`` also counts while no prompt waits, so a
        prompt that arrives alone waits for half of ``most_steps`` on average.
    """

    most_steps: int
    batching_steps: int
    waited: int = 0
    batched: int = 0

    @classmethod
    def of(cls, engine: Engine) -> BalanceGate | None:
        """Return the gate of an engine; None if it has none."""
        steps = int(engine.balance_wait_steps or 0)
        return cls(steps, int(engine.balance_batching_steps or 0)) if steps else None

    def holds(self, ready: list[bool], generating: list[bool]) -> int:
        """Return how many more steps to hold prompts back, given which ranks have prompts and which generate."""
        if all(ready):
            self.waited = 0
            if all(generating) and self.batched < self.batching_steps:
                return self.batching_steps - self.batched
            self.batched = 0
            return 0
        if self.waited >= self.most_steps or not all(generating):
            self.waited = 0
            return 0
        return self.most_steps - self.waited

    def pass_by(self, steps: int, ready: list[bool]) -> None:
        """Count steps that pass while the gate is closed or nothing waits."""
        if all(ready):
            self.batched += steps
        elif any(ready):
            self.waited += steps
        else:
            self.waited = (self.waited + steps) % self.most_steps
