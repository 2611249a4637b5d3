"""Models whose passes run other operators than the plain ones: fused, or with weights left out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from math import prod
from typing import ClassVar

from ..errors import Number
from ..operators.operator import Operator, Pass
from ..operators.precision import QUANTIZED_PARTS
from ..operators.weights import Linear, Weight
from ..operators.work import Work
from . import Model
from .layer import OnCache, filled


class Rewrite(ABC):
    """What a kernel does otherwise with the operators of a pass.

    Attributes
    ----------
    of_steps : bool
        Whether decode steps get other operators than passes over prompts.
    """

    of_steps: ClassVar[bool] = False

    @abstractmethod
    def operators(self, found: tuple[Operator, ...], run: Pass) -> tuple[Operator, ...]:
        """The operators that run instead."""

    def weight_share(self, bits: float) -> float:
        """Share of its bytes that a linear layer of ``bits`` a weight keeps in memory."""
        return 1.0

    def further_weights(self, model: Model) -> tuple[tuple[int, Linear], ...]:
        """Matrices that are stored beside those of ``model``: how often, and which."""
        return ()

    def further_kernels(self, model: Model) -> int:
        """Kernels that the host launches in a pass beside those of ``model``, where no graph was captured."""
        return 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Rewritten(Model):
    """A model whose operators are rewritten one way after another.

    Attributes
    ----------
    rewrites : tuple of Rewrite
        The ways, in the order in which they were added.
    """

    rewrites: tuple[Rewrite, ...] = ()

    def operators(self, run: Pass) -> tuple[Operator, ...]:
        """The operators of one pass, rewritten."""
        frame = self._frame(run) if run.is_sweep else super().frame(super().frame_pass(run))
        found = tuple(filled(frame, run))
        for rewrite in self.rewrites:
            found = rewrite.operators(found, run)
        return found

    def frame_pass(self, run: Pass) -> Pass:
        """The pass itself: what rewrites make of an operator may depend on the past."""
        return run

    def frame(self, run: Pass) -> tuple[Operator | OnCache, ...]:
        """All operators, rewritten: none is left open."""
        return self.operators(run)

    def counted_weights(self) -> Iterator[tuple[int, Weight]]:
        """Weights as they are stored, with those that rewrites add."""
        yield from super().counted_weights()
        for rewrite in self.rewrites:
            yield from rewrite.further_weights(self.plain)

    @property
    def plain(self) -> Model:
        """The model without its rewrites."""
        return Model(**{item.name: getattr(self, item.name) for item in fields(Model)})

    def stored_share(self, weight: Linear, bits: float) -> float:
        """Share of its bytes that a weight of ``bits`` bits keeps in memory once every rewrite left some out."""
        if weight.part not in QUANTIZED_PARTS:
            return 1.0
        return prod(rewrite.weight_share(bits) for rewrite in self.rewrites)


def further_kernels(model: Model) -> int:
    """Kernels that rewrites add to a pass of ``model``; 0 for a plain one."""
    if not isinstance(model, Rewritten):
        return 0
    return sum(rewrite.further_kernels(model.plain) for rewrite in model.rewrites)


def steps_apart(model: Model) -> bool:
    """Whether decode steps of ``model`` run other operators than passes over prompts."""
    return isinstance(model, Rewritten) and any(rewrite.of_steps for rewrite in model.rewrites)


def rewritten(model: Model, rewrite: Rewrite) -> Rewritten:
    """``model`` with one more rewrite."""
    known = {item.name: getattr(model, item.name) for item in fields(Model)}
    before = model.rewrites if isinstance(model, Rewritten) else ()
    return Rewritten(**known, rewrites=(*before, rewrite))


def scaled(operator: Operator, *, flops: Number = 1.0, weights: Number = 1.0, activations: Number = 1.0) -> Operator:
    """The operator with its work, and what no implementation avoids, multiplied."""

    def of(work: Work) -> Work:
        return Work(
            work.flops * flops,
            work.weight_bytes * weights,
            work.activation_bytes * activations,
            work.cache_bytes,
            work.math,
            work.exponentials * flops,
        )

    return replace(operator, work=of(operator.work), least=of(operator.least), formulas={})


def is_linear(operator: Operator) -> bool:
    """Whether the operator multiplies with the weights of a quantizable linear layer."""
    apart = operator.name in ("lm_head", "router") or operator.name.endswith(ADAPTERS)
    return operator.kind in ("matmul", "experts") and not apart


ADAPTERS = ("_lora_a", "_lora_b")
"""Ends of the names of products with low-rank adapters, which stay as they are whatever is done to the weights."""


def merged(products: list[Operator]) -> Operator:
    """Products of one input run as one: the input is read once, the rest adds up.  One alone stays as it is."""
    first, *others = products
    if not others:
        return first
    work, least = first.work, first.least
    for item in others:
        inputs = item.inputs["m"] * item.inputs["k"] * item.inputs["activation_bits"] / 8
        work = work + replace(item.work, activation_bytes=item.work.activation_bytes - inputs)
        least = least + item.least
    name = "+".join(item.name for item in products)
    wide = sum(item.inputs["n"] for item in products)
    inputs = {**first.inputs, "n": wide}
    return replace(first, name=name, work=work, least=least, inputs=inputs, formulas={}, joins="")
