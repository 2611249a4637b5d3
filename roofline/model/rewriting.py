"""Models with rewritten operators: fused, or with weights left out."""

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


class Rewrite(ABC):
    """A change to the operators of a pass.

    Attributes
    ----------
    of_steps : bool
        Whether decode steps and prompts get different operators.
    """

    of_steps: ClassVar[bool] = False

    @abstractmethod
    def operators(self, found: tuple[Operator, ...], run: Pass) -> tuple[Operator, ...]:
        """Return the operators that run instead."""

    def weight_share(self, bits: float) -> float:
        """Return the share of its bytes that a linear layer of ``bits`` per weight keeps in memory."""
        return 1.0

    def further_weights(self, model: Model) -> tuple[tuple[int, Linear], ...]:
        """Return additional stored matrices, each with the number of times it occurs."""
        return ()

    def further_kernels(self, model: Model) -> int:
        """Return the number of additional kernels that the host launches in a pass without a graph."""
        return 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Rewritten(Model):
    """A model with one or several rewrites of its operators, applied in order.

    Attributes
    ----------
    rewrites : tuple of Rewrite
        Rewrites in the order in which they were added.
    """

    rewrites: tuple[Rewrite, ...] = ()

    def operators(self, run: Pass) -> tuple[Operator, ...]:
        """Return the rewritten operators of one pass."""
        found = super().operators(run)
        for rewrite in self.rewrites:
            found = rewrite.operators(found, run)
        return found

    def counted_weights(self) -> Iterator[tuple[int, Weight]]:
        """Yield stored weights, including those that rewrites add."""
        yield from super().counted_weights()
        for rewrite in self.rewrites:
            yield from rewrite.further_weights(self.plain)

    @property
    def plain(self) -> Model:
        """The model without its rewrites."""
        return Model(**{item.name: getattr(self, item.name) for item in fields(Model)})

    def stored_share(self, weight: Linear, bits: float) -> float:
        """Return the share of its bytes that a weight of ``bits`` keeps in memory after all rewrites."""
        if weight.part not in QUANTIZED_PARTS:
            return 1.0
        return prod(rewrite.weight_share(bits) for rewrite in self.rewrites)


def further_kernels(model: Model) -> int:
    """Return the number of kernels that rewrites add to a pass of ``model``; 0 without rewrites."""
    if not isinstance(model, Rewritten):
        return 0
    return sum(rewrite.further_kernels(model.plain) for rewrite in model.rewrites)


def steps_apart(model: Model) -> bool:
    """Return whether decode steps and prompts of ``model`` run different operators."""
    return isinstance(model, Rewritten) and any(rewrite.of_steps for rewrite in model.rewrites)


def rewritten(model: Model, rewrite: Rewrite) -> Rewritten:
    """Return ``model`` with one more rewrite."""
    known = {item.name: getattr(model, item.name) for item in fields(Model)}
    before = model.rewrites if isinstance(model, Rewritten) else ()
    return Rewritten(**known, rewrites=(*before, rewrite))


def scaled(operator: Operator, *, flops: Number = 1.0, weights: Number = 1.0, activations: Number = 1.0) -> Operator:
    """Return the operator with its work and its least work multiplied."""

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
    """Return whether the operator is the product of a quantizable linear layer."""
    apart = operator.name in ("lm_head", "router") or operator.name.endswith(ADAPTERS)
    return operator.kind in ("matmul", "experts") and not apart


ADAPTERS = ("_lora_a", "_lora_b")
"""Suffixes of the names of adapter products, which rewrites of the weights leave unchanged."""


def merged(products: list[Operator]) -> Operator:
    """Merge products of one input into one operator, which reads the input once. A single one is unchanged."""
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
