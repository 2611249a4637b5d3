"""Low-rank adapters: many fine-tuned models on one copy of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..errors import number
from ..model import Model
from ..model.rewriting import ADAPTERS, Rewrite, further_kernels, is_linear, rewritten
from ..operators.operator import Operator, Pass
from ..operators.precision import QUANTIZED_PARTS
from ..operators.weights import Linear
from ..operators.work import Work
from ..report import Step
from ..serving.scenario import Scenario
from .technique import MODEL, Technique

ADAPTER_BYTES, SUM_BYTES = 2.0, 4.0
"""Bytes of an adapter parameter (16 bits), and of a value between the two products (fp32)."""


@dataclass(frozen=True)
class Adapted(Rewrite):
    """Add low-rank adapters to every linear layer: ``y = x W + (x A) B``.

    The first product reads ``x`` and writes ``m r`` sums.  The second reads those sums and adds to ``y``, which it
    reads and writes.  Experts have no adapters.
    """

    rank: int
    adapters: int

    def operators(self, found: tuple[Operator, ...], run: Pass) -> tuple[Operator, ...]:
        """Add two products for each linear layer."""
        sequences = sum(segment.sequences for segment in run.segments)
        distinct = self.adapters * (1 - (1 - 1 / self.adapters) ** np.maximum(sequences, 1.0))
        return tuple(part for item in found for part in (item, *self._detour(item, distinct)))

    def further_weights(self, model: Model) -> tuple[tuple[int, Linear], ...]:
        """Both matrices of every adapter, sharded like the matrix they belong to."""
        return tuple((count, part) for count, weight in _adapted(model) for part in self._matrices(weight))

    def further_kernels(self, model: Model) -> int:
        """Number of extra kernels: two per matrix."""
        return sum(len(ADAPTERS) * count * weight.copies for count, weight in _adapted(model))

    def _matrices(self, weight: Linear) -> tuple[Linear, Linear]:
        """``A`` and ``B`` of one matrix.  If its inputs are split, so are those of ``A``; else the outputs of ``B``."""
        copies, used = self.adapters * weight.copies, weight.copies
        name_down, name_up = (f"{weight.name}{end}" for end in ADAPTERS)
        down = Linear(name_down, weight.d_in, self.rank, "other", copies=copies, used=used)
        up = Linear(name_up, self.rank, weight.d_out, "other", copies=copies, used=used)
        if weight.split == "rows":
            return replace(down, split="rows", pieces=weight.pieces), up
        if weight.split == "columns":
            return down, replace(up, split="columns", pieces=weight.pieces)
        return down, up

    def _detour(self, item: Operator, distinct: Any) -> tuple[Operator, ...]:
        if not is_linear(item) or item.kind != "matmul":
            return ()
        shape, rank = item.inputs, float(self.rank)
        wide_bytes = shape["activation_bits"] / 8
        down, up = ADAPTERS
        shrunk = rank * SUM_BYTES
        return (
            self._product(item, down, distinct, k=shape["k"], n=rank, row_bytes=shape["k"] * wide_bytes + shrunk),
            self._product(item, up, distinct, k=rank, n=shape["n"], row_bytes=shrunk + 2 * shape["n"] * ADAPTER_BYTES),
        )

    def _product(self, item: Operator, name: str, distinct: Any, *, k: Any, n: Any, row_bytes: Any) -> Operator:
        """One of the two products; each of its rows moves ``row_bytes``."""
        rows = item.inputs["m"]
        work = Work(2.0 * rows * k * n, distinct * k * n * ADAPTER_BYTES, rows * row_bytes, 0.0, "bf16")
        least = Work(work.flops, k * n * ADAPTER_BYTES, 0.0, 0.0, "bf16")
        inputs = {"m": rows, "k": k, "n": n, "weight_bits": 16.0, "activation_bits": 16.0, "bias_bytes": 0.0}
        joins = f"{item.joins}{name}" if item.joins else ""
        return Operator(f"{item.name}{name}", "matmul", work, least, item.count, inputs, joins=joins)


def _adapted(model: Model) -> Iterator[tuple[int, Linear]]:
    """Matrices that have adapters: those of all linear layers except experts."""
    for count, weight in model.counted_weights():
        if isinstance(weight, Linear) and weight.part in QUANTIZED_PARTS and weight.part != "experts":
            yield count, weight


@dataclass(frozen=True, eq=False, kw_only=True)
class MultiLoRA(Technique):
    """Sequences of one batch use different low-rank adapters (Punica, arXiv:2310.18547; S-LoRA, arXiv:2311.03285).

    Every linear layer gets two extra thin products, ``[m, k] [k, r]`` and ``[m, r] [r, n]``, with the matrices of every
    adapter in the batch.  They add few bytes and FLOPs.  The cost is in the two extra kernels per layer: their fixed
    times inside a captured step, and the host time of launching them in a pass without a graph (``adapter_kernel_s``
    of the engine).  vLLM before 0.8 ran every prefill without a graph, at 0.18 ms per kernel, which made a prompt take
    four times as long (25 ms to 105 ms for Llama 2 7B).

    Attributes
    ----------
    rank : int
        Rank of the adapters.
    adapters : int
        Number of adapters, all used equally often.
    """

    slug: ClassVar[str] = "multi-lora"
    name: ClassVar[str] = "multi-LoRA serving"
    helps: ClassVar[str] = "both"
    why: ClassVar[str] = "one copy of the weights serves many fine-tuned models"
    costs: ClassVar[str] = "two more kernels for each product; the adapters' weights"
    effort: ClassVar[str] = MODEL

    rank: int = 16
    adapters: int = 8

    def __post_init__(self) -> None:
        for name in ("rank", "adapters"):
            number(name, getattr(self, name), least=1, whole=True)

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides which adapters are served."""
        return ("which adapters are served",)

    def after(self, case: Scenario) -> Scenario:
        """Add the low-rank products to the model."""
        return case.with_model(rewritten(case.model, Adapted(self.rank, self.adapters)))

    def steps(self, case: Scenario) -> tuple[Step, ...]:
        """Host time of launching the adapter kernels in passes without a captured graph."""
        kernels = further_kernels(self.after(case).model)
        known = {"kernels": kernels, "adapter_kernel_s": case.serve.server.adapter_kernel_s or 0.0}
        value = known["kernels"] * known["adapter_kernel_s"]
        source = "beside the device, in a pass without a graph"
        return (Step("adapters_launched_s", "kernels * adapter_kernel_s", known, value, source),)
