"""Attention over a prefix that all sequences of a batch share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..errors import Number, number
from ..model.rewriting import Rewrite, rewritten
from ..operators.operator import Operator, Pass
from ..operators.work import Work
from ..serving.scenario import Scenario
from ..values import Value
from .attention import attentions
from .technique import KERNEL, Technique


@dataclass(frozen=True, eq=False)
class Cascade(Value, Rewrite):
    """Split attention in two: the prefix for all sequences at once, and the rest of each sequence."""

    of_steps: ClassVar[bool] = True

    prefix_tokens: Number

    def operators(self, found: tuple[Operator, ...], run: Pass) -> tuple[Operator, ...]:
        """Replace each attention of a decode step by three operators: prefix, rest, and merge."""
        return tuple(part for item in found for part in self._parts(item))

    def _parts(self, item: Operator) -> tuple[Operator, ...]:
        if item.kind != "attention" or not np.all(item.inputs["decodes"]):
            return (item,)
        shape = item.inputs
        prefix = np.minimum(self.prefix_tokens, shape["past_read"])
        part = prefix / (shape["past_read"] + (shape["new_tokens"] + 1) / 2)
        entry_bytes = shape["kv_values"] * shape["kv_bits"] / 8
        shared = prefix * entry_bytes
        once = _part_of(item, flops=part, cache_bytes=shared)
        rest = _part_of(item, flops=1 - part, cache_bytes=item.work.cache_bytes - shape["sequences"] * shared)
        rows = shape["sequences"] * shape["new_tokens"]
        stacked = {"sequences": 1.0, "new_tokens": rows, "past_tokens": prefix, "past_read": prefix}
        stacked |= {"new_read": 0.0, "new_written": 0.0, "pairs": rows * prefix}
        left = {name: shape[name] - prefix for name in ("past_tokens", "past_read")}
        left["pairs"] = shape["pairs"] - shape["new_tokens"] * prefix
        outputs = rows * shape["query_heads"] * shape["value_dim"] * shape["activation_bits"] / 8
        merge = Operator("merge", "work", Work(0.0, 0.0, 3 * outputs, 0.0, item.work.math), Work(math=item.work.math))
        return (
            replace(once, name="prefix_attention", inputs={**shape, **stacked}),
            replace(rest, inputs={**shape, **left}),
            merge.times(item.count),
        )


def _part_of(item: Operator, *, flops: Any, cache_bytes: Any) -> Operator:
    """Part of an attention operator, with a share of its FLOPs and the given cache bytes."""
    work = replace(item.work, flops=item.work.flops * flops, cache_bytes=cache_bytes)
    work = replace(work, exponentials=item.work.exponentials * flops)
    least_bytes = np.minimum(item.least.cache_bytes * flops, cache_bytes)
    least = replace(item.least, flops=item.least.flops * flops, cache_bytes=least_bytes)
    return replace(item, work=work, least=least, formulas={})


@dataclass(frozen=True, eq=False, kw_only=True)
class SharedPrefixAttention(Technique):
    """Read the cache of a prefix shared by all sequences once per step (Hydragen, arXiv:2402.05099).

    The queries of the whole batch are multiplied with the keys of the prefix in one product.  The rest of each sequence
    is read as before, and the two results are merged by their softmax sums (cascade attention of FlashInfer and SGLang,
    ``--enable-cascade-attention`` of vLLM).  With short prefixes this is slower, since two kernels and a merge replace
    one kernel.

    Attributes
    ----------
    prefix_tokens : int or array
        Tokens at the start of the context that all sequences share.
    """

    slug: ClassVar[str] = "shared-prefix-attention"
    name: ClassVar[str] = "shared-prefix attention"
    helps: ClassVar[str] = "decode"
    why: ClassVar[str] = "the shared part of the cache is read once per step, not once per sequence"
    costs: ClassVar[str] = "two kernels and a merge instead of one; no gain without a shared prefix"
    effort: ClassVar[str] = KERNEL

    prefix_tokens: Number = 1024

    def __post_init__(self) -> None:
        number("prefix_tokens", self.prefix_tokens, least=1, whole=True)

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides how a shared prefix is read."""
        return ("how a shared prefix is read",)

    def refusal(self, case: Scenario) -> str:
        """Reject models without attention, and prefixes longer than the context."""
        if not attentions(case.model):
            return f"{case.model.name} has no softmax attention with heads of its own"
        context, prefix = np.min(case.load.context_tokens), np.max(self.prefix_tokens)
        if prefix > context:
            return f"prefix_tokens is beyond the context of {context:,.0f}: {prefix:,.0f}"
        return ""

    def after(self, case: Scenario) -> Scenario:
        """Read the prefix separately."""
        return case.with_model(rewritten(case.model, Cascade(self.prefix_tokens)))
