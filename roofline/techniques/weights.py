"""What a pass computes of the weights, and how: fused kernels, sparsity, experts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

import numpy as np

from ..errors import InvalidInput, Number, number
from ..model.blocks import MLP, Block, MoE
from ..model.rewriting import Rewrite, is_linear, merged, rewritten, scaled
from ..operators.operator import Operator, Pass
from ..phases.passes import decode, prefill
from ..report import Step
from ..serving.pass_times import launches
from ..serving.scenario import Scenario, share
from .attention import blocks_of, with_blocks
from .technique import KERNEL, MODEL, Technique

TOGETHER = (frozenset({"q_proj", "k_proj", "v_proj"}), frozenset({"gate_proj", "up_proj"}))
"""Products of one input that fused kernels run as one."""


@dataclass(frozen=True)
class Fused(Rewrite):
    """Norms and residuals ride on their neighbors, products of one input run as one."""

    def operators(self, found: tuple[Operator, ...], run: Pass) -> tuple[Operator, ...]:
        """Fewer operators; elementwise ones move only their parameters and add no launch."""
        kept = [scaled(item, activations=0.0) if item.kind == "elementwise" else item for item in found]
        return tuple(merged(list(group)) for _, group in groupby(kept, key=_together))


def _together(operator: Operator) -> frozenset[str] | int:
    """What consecutive operators that run as one have in common."""
    return next((names for names in TOGETHER if operator.name in names), id(operator))


@dataclass(frozen=True, kw_only=True)
class KernelFusion(Technique):
    """Norms, residuals and products of one input fused: fewer launches, fewer activations through memory.

    Attributes
    ----------
    launch_s : float or array
        Fixed time that the deployment spends on each launch, seconds: a few microseconds, less inside a captured graph.
    """

    slug: ClassVar[str] = "fusion"
    name: ClassVar[str] = "kernel fusion"
    helps: ClassVar[str] = "both"
    why: ClassVar[str] = "fewer launches, and activations stay on the chip"
    costs: ClassVar[str] = "a kernel for each phase and each shape"
    effort: ClassVar[str] = KERNEL
    in_place: ClassVar[bool] = True

    launch_s: Number = 2e-6

    def __post_init__(self) -> None:
        number("launch_s", self.launch_s)

    @property
    def decides(self) -> tuple[str, ...]:
        """What runs as one kernel."""
        return ("what runs as one kernel",)

    def given(self, case: Scenario) -> Scenario:
        """Every operator by itself, and the time of a launch stated."""
        return case.replace(launch_s=case.launch_s + self.launch_s)

    def after(self, case: Scenario) -> Scenario:
        """Fused operators."""
        return case.with_model(rewritten(case.model, Fused()))

    def steps(self, case: Scenario) -> tuple[Step, ...]:
        """Activation bytes and launches of each phase, before and after."""
        found = []
        for run in (prefill, decode):
            before = run(case.serve, case.running)
            after = run(self.after(case).serve, case.running)
            saved = before.moved_bytes - after.moved_bytes
            known = {"before_bytes": before.moved_bytes, "after_bytes": after.moved_bytes}
            found.append(Step(f"{before.name}.saved_bytes", "before_bytes - after_bytes", known, saved, "activations"))
        kernels = {"before": launches(before), "after": launches(after)}
        saved_launches = kernels["before"] - kernels["after"]
        return (*found, Step("launches_saved", "before - after", kernels, saved_launches, "each pass"))


@dataclass(frozen=True)
class HalfOfFour(Rewrite):
    """Of every four weights two are zero: half the multiply-adds, and a 2-bit position for each that is kept."""

    def operators(self, found: tuple[Operator, ...], run: Pass) -> tuple[Operator, ...]:
        """Linear layers with half the FLOPs and the bytes of what is kept."""
        return tuple(
            scaled(item, flops=0.5, weights=self.weight_share(item.inputs["weight_bits"])) if is_linear(item) else item
            for item in found
        )

    def weight_share(self, bits: float) -> float:
        """``(2 bits + 2 * 2) / (4 bits)``: two values of four and their positions."""
        return (2 * bits + 4) / (4 * bits)


@dataclass(frozen=True, kw_only=True)
class StructuredSparsity(Technique):
    """2:4 sparsity (arXiv:2104.08378): two of every four weights are zero, and the chip skips them.

    Half the multiply-adds at the dense rate is what a data sheet prints as the sparse peak; two kept values and their
    2-bit positions are ``(2 b + 4) / (4 b)`` of the bytes.
    """

    slug: ClassVar[str] = "sparsity"
    name: ClassVar[str] = "2:4 sparsity"
    helps: ClassVar[str] = "both"
    why: ClassVar[str] = "half the multiply-adds, and little more than half the weight bytes"
    costs: ClassVar[str] = "accuracy; a model pruned and trained on"
    effort: ClassVar[str] = MODEL

    @property
    def decides(self) -> tuple[str, ...]:
        """Which weights are left out."""
        return ("which weights are left out",)

    def refusal(self, case: Scenario) -> str:
        """The chip has to skip zeros in the format of the linear layers."""
        gpu = case.serve.accelerator
        math = gpu.math_on_chip(case.serve.precision.part("mlp").math)
        return "" if math in gpu.sparse_flops_per_s else f"{gpu.name} states no sparse peak for {math}"

    def after(self, case: Scenario) -> Scenario:
        """Half of every four."""
        return case.with_model(rewritten(case.model, HalfOfFour()))


@dataclass(frozen=True)
class Skipped(Rewrite):
    """Inner neurons of MLPs that no token of the pass needs are neither read nor multiplied."""

    share: float

    def operators(self, found: tuple[Operator, ...], run: Pass) -> tuple[Operator, ...]:
        """Weights that all tokens skip: ``share ^ tokens`` of them, independent tokens taken."""
        idle = np.power(self.share, run.tokens)
        return tuple(scaled(item, flops=1 - idle, weights=1 - idle) if _is_mlp(item) else item for item in found)


def _is_mlp(operator: Operator) -> bool:
    return operator.kind == "matmul" and {*operator.name.split("+")} <= {"gate_proj", "up_proj", "down_proj"}


@dataclass(frozen=True, kw_only=True)
class ActivationSparsity(Technique):
    """Neurons that a token leaves at zero are skipped (Deja Vu, arXiv:2310.17157): each token has its own.

    A pass reads what any of its tokens needs, ``1 - s^T`` of the neurons for ``T`` tokens whose choices are
    independent, and dense units multiply all that is read: a gain for one sequence, none for a prompt or a batch.

    Attributes
    ----------
    skipped : float
        Share that is left out: of the neurons that one token leaves at zero.
    """

    slug: ClassVar[str] = "activation-sparsity"
    name: ClassVar[str] = "activation sparsity"
    helps: ClassVar[str] = "decode"
    why: ClassVar[str] = "neurons that no token needs are not read"
    costs: ClassVar[str] = "a predictor; accuracy; gone with a batch"
    effort: ClassVar[str] = KERNEL

    skipped: float = 0.5

    def __post_init__(self) -> None:
        share("skipped", self.skipped)

    @property
    def decides(self) -> tuple[str, ...]:
        """Which activations are left out."""
        return ("which activations are left out",)

    def refusal(self, case: Scenario) -> str:
        """There have to be MLPs."""
        has = any(isinstance(block, MLP) for block in blocks_of(case.model))
        return "" if has else f"{case.model.name} has no dense MLP"

    def after(self, case: Scenario) -> Scenario:
        """Neurons skipped."""
        return case.with_model(rewritten(case.model, Skipped(self.skipped)))


@dataclass(frozen=True)
class Masked(Rewrite):
    """Attention computes a share of its pairs; the cache is read all the same."""

    kept: float

    def operators(self, found: tuple[Operator, ...], run: Pass) -> tuple[Operator, ...]:
        """Attention with that share of its FLOPs."""
        return tuple(scaled(item, flops=self.kept) if item.kind == "attention" else item for item in found)


@dataclass(frozen=True, kw_only=True)
class SparseAttentionMask(Technique):
    """Tiles of the attention square that do not matter are skipped (MInference, arXiv:2407.02490).

    FLOPs are saved where there are many, in prefill; the cache is read all the same.

    Attributes
    ----------
    skipped : float
        Share that is left out: of the pairs of query and key.
    """

    slug: ClassVar[str] = "sparse-attention"
    name: ClassVar[str] = "sparse attention mask"
    helps: ClassVar[str] = "prefill"
    why: ClassVar[str] = "pairs that do not matter are not computed"
    costs: ClassVar[str] = "accuracy; a kernel for each pattern"
    effort: ClassVar[str] = KERNEL

    skipped: float = 0.5

    def __post_init__(self) -> None:
        share("skipped", self.skipped)

    @property
    def decides(self) -> tuple[str, ...]:
        """Which pairs are computed."""
        return ("which pairs attention computes",)

    def after(self, case: Scenario) -> Scenario:
        """The rest of the pairs."""
        return case.with_model(rewritten(case.model, Masked(1 - self.skipped)))


@dataclass(frozen=True, kw_only=True)
class MixtureOfExperts(Technique):
    """Mixture of experts (MoE, arXiv:1701.06538) against a dense model of equal total or equal active size.

    A model with experts is compared with its dense twin; a dense one gets its MLPs split in ``experts``, of which a
    token takes ``top_k``.

    Attributes
    ----------
    against : str
        ``total``: the dense MLP is as wide as all experts together; ``active``: as those that a token takes.
    experts : int
        Experts of each layer, for a dense model.
    top_k : int
        Experts that a token takes, for a dense model.
    """

    slug: ClassVar[str] = "moe"
    name: ClassVar[str] = "MoE"
    helps: ClassVar[str] = "both"
    why: ClassVar[str] = "fewer parameters active a token"
    costs: ClassVar[str] = "memory for all experts; a batch reads most of them"
    effort: ClassVar[str] = MODEL
    baseline: ClassVar[str] = "a dense model"

    against: str = "total"
    experts: int = 8
    top_k: int = 2

    def __post_init__(self) -> None:
        if self.against not in ("total", "active"):
            raise InvalidInput(f"against must be 'total' or 'active': {self.against!r}")
        for name in ("experts", "top_k"):
            number(name, getattr(self, name), least=1, whole=True)
        if self.top_k > self.experts:
            raise InvalidInput(f"top_k must be at most the number of experts: {self.top_k} of {self.experts}")

    @property
    def decides(self) -> tuple[str, ...]:
        """What the MLPs are."""
        return ("what the MLPs are",)

    def had(self, case: Scenario) -> bool:
        """Whether the model has experts."""
        return any(isinstance(block, MoE) for block in blocks_of(case.model))

    def without(self, case: Scenario) -> Scenario:
        """A dense MLP in the place of experts."""
        return case.with_model(with_blocks(case.model, self._dense))

    def after(self, case: Scenario) -> Scenario:
        """Experts, the model's own if it has any."""
        return case if self.had(case) else case.with_model(with_blocks(case.model, self._split))

    def _dense(self, block: Block) -> Block:
        if not isinstance(block, MoE):
            return block
        count = block.experts if self.against == "total" else block.top_k
        width = count * block.intermediate + (block.shared_intermediate or 0)
        return MLP(hidden=block.hidden, intermediate=width, gated=block.gated, bias=block.bias)

    def _split(self, block: Block) -> Block:
        if not isinstance(block, MLP):
            return block
        parts = self.experts if self.against == "total" else self.top_k
        return MoE(
            hidden=block.hidden,
            experts=self.experts,
            top_k=self.top_k,
            intermediate=max(1, round(block.intermediate / parts)),
            gated=block.gated,
            bias=block.bias,
        )
