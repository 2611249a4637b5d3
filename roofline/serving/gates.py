"""Gates that hold prompts back so that more of them share a step (TensorRT-LLM).

Two are launch options of its PyTorch backend, both counted in steps of the scheduler and never closed while nothing
generates:

- ``batch_wait_timeout_iters`` and ``batch_wait_max_tokens_ratio``: prompts that could start wait until they fill a
  share of a step's tokens, or until so many steps have passed (`BatchGate`).
- ``attention_dp_config`` with ``enable_balance``: with attention in data parallel a step takes as long as the rank with
  the most to do, so that prompts of one rank wait until every rank has some, for at most ``timeout_iters`` steps, and
  then ``batching_wait_iters`` more (`BalanceGate`).

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
    """Holds the prompts of one scheduler back until they fill a step.

    Attributes
    ----------
    most_steps : int
        Steps for which the first of them waits at most.
    enough_tokens : float
        Tokens of a step, running sequences included, that open it.
    waited : int
        Steps since it closed.
    """

    most_steps: int
    enough_tokens: float
    waited: int = 0

    @classmethod
    def of(cls, engine: Engine) -> BatchGate | None:
        """That of an engine; None if it has none."""
        steps = int(engine.batch_wait_steps or 0)
        if not steps:
            return None
        return cls(steps, (engine.batch_wait_share or 0.0) * float(engine.step_tokens or float("inf")))

    def holds(self, tokens: float) -> int:
        """Steps for which a step of ``tokens`` may be held back; 0 opens it."""
        if self.waited >= self.most_steps or tokens >= self.enough_tokens:
            self.waited = 0
            return 0
        return self.most_steps - self.waited

    def pass_by(self, steps: int) -> None:
        """Let steps go by while it is closed."""
        self.waited += steps


@dataclass
class BalanceGate:
    """Holds the prompts of all ranks of attention in data parallel back until every rank has some.

    Attributes
    ----------
    most_steps : int
        Steps for which ranks with prompts wait for those without.
    batching_steps : int
        Further steps, so that ranks have several.
    waited, batched : int
        Steps of either kind that have gone by.  As in the engine, the first are counted while nothing waits, too: a
        prompt that comes alone waits for half of ``most_steps`` on average.
    """

    most_steps: int
    batching_steps: int
    waited: int = 0
    batched: int = 0

    @classmethod
    def of(cls, engine: Engine) -> BalanceGate | None:
        """That of an engine; None if it has none."""
        steps = int(engine.balance_wait_steps or 0)
        return cls(steps, int(engine.balance_batching_steps or 0)) if steps else None

    def holds(self, ready: list[bool], generating: list[bool]) -> int:
        """Steps for which prompts may be held back, by rank whether it has some and whether it generates; 0 opens."""
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
        """Let steps go by while it is closed or nothing waits."""
        if all(ready):
            self.batched += steps
        elif any(ready):
            self.waited += steps
        else:
            self.waited = (self.waited + steps) % self.most_steps
