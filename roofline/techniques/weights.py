"""What a pass computes of the weights, and how: fused kernels, sparsity, experts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import ClassVar

import numpy as np

from ..errors import InvalidInput, Number, number
from ..model.blocks import MLP, Attention, Block, MoE
from ..model.rewriting import Rewrite, is_linear, merged, rewritten, scaled
from ..operators.operator import Operator, Pass
from ..operators.work import Work
from ..phases.passes import decode, prefill
from ..report import Step
from ..serving.pass_times import launches
from ..serving.scenario import Scenario, checked_share
from .attention import attentions, blocks_of, with_blocks
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


@dataclass(frozen=True, eq=False, kw_only=True)
class KernelFusion(Technique):
    """Norms, residuals and products of the same input are fused, which saves launches and traffic of activations.

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

    reached: float = 1.0

    def operators(self, found: tuple[Operator, ...], run: Pass) -> tuple[Operator, ...]:
        """Linear layers with half the FLOPs and the bytes of what is kept, at the rate that kernels reach."""
        return tuple(self._sparse(item) if is_linear(item) else item for item in found)

    def _sparse(self, item: Operator) -> Operator:
        halved = scaled(item, flops=0.5, weights=self.weight_share(item.inputs["weight_bits"]))
        return replace(halved, inputs={**item.inputs, "compute_reached": self.reached})

    def weight_share(self, bits: float) -> float:
        """``(2 bits + 2 * 2) / (4 bits)``: two values of four and their positions."""
        return (2 * bits + 4) / (4 * bits)


@dataclass(frozen=True, eq=False, kw_only=True)
class StructuredSparsity(Technique):
    """2:4 sparsity (arXiv:2104.08378): two of every four weights are zero, and the chip skips them.

    Half the multiply-adds at the dense rate is what a data sheet prints as the sparse peak; two kept values and their
    2-bit positions are ``(2 b + 4) / (4 b)`` of the bytes.  Kernels make up to ``compute_gain`` of the twofold rate:
    large products of cuSPARSELt and CUTLASS run at 1.3 times their dense twins, so that the gain falls with the batch,
    from the 1.7 of the bytes to that.

    Attributes
    ----------
    compute_gain : float
        Speedup of a sparse kernel over a dense one where compute is the limit.
    """

    slug: ClassVar[str] = "sparsity"
    name: ClassVar[str] = "2:4 sparsity"
    helps: ClassVar[str] = "both"
    why: ClassVar[str] = "half the multiply-adds, and little more than half the weight bytes"
    costs: ClassVar[str] = "accuracy; a model pruned and trained on"
    effort: ClassVar[str] = MODEL

    compute_gain: float = 1.3

    def __post_init__(self) -> None:
        number("compute_gain", self.compute_gain, least=1.0)

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
        return case.with_model(rewritten(case.model, HalfOfFour(self.compute_gain / 2)))


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


@dataclass(frozen=True, eq=False, kw_only=True)
class ActivationSparsity(Technique):
    """Neurons whose activation is zero are skipped (Deja Vu, arXiv:2310.17157); they differ by token.

    A pass reads every neuron that any of its ``T`` tokens needs, a share of ``1 - s^T`` if their choices are
    independent, and dense units multiply all that is read. So there is a gain for a single sequence, but none for a
    prompt or a batch.

    Attributes
    ----------
    skipped : float
        Share of the neurons that are zero for a token.
    """

    slug: ClassVar[str] = "activation-sparsity"
    name: ClassVar[str] = "activation sparsity"
    helps: ClassVar[str] = "decode"
    why: ClassVar[str] = "neurons that no token activates are not read"
    costs: ClassVar[str] = "a predictor; accuracy; no gain in large batches"
    effort: ClassVar[str] = KERNEL

    skipped: float = 0.5

    def __post_init__(self) -> None:
        checked_share("skipped", self.skipped)

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
    """Softmax and values of a share of the pairs; every score is computed, and the cache is read all the same."""

    kept: float

    def operators(self, found: tuple[Operator, ...], run: Pass) -> tuple[Operator, ...]:
        """Attention with all of its scores and that share of the rest."""
        return tuple(self._masked(item) if item.kind == "attention" else item for item in found)

    def _masked(self, item: Operator) -> Operator:
        scores, values = item.inputs["key_dim"], item.inputs["value_dim"]
        fewer = scaled(item, flops=(scores + self.kept * values) / (scores + values))
        return replace(fewer, work=replace(fewer.work, exponentials=item.work.exponentials * self.kept))


@dataclass(frozen=True)
class Indexed(Rewrite):
    """Attention over a share of the pairs that an index of each head names, which is found before."""

    kept: float | None

    def operators(self, found: tuple[Operator, ...], run: Pass) -> tuple[Operator, ...]:
        """Attention of prompts with that share of its FLOPs, and the search for the pairs."""
        return tuple(part for item in found for part in self._parts(item))

    def _parts(self, item: Operator) -> tuple[Operator, ...]:
        if item.kind != "attention" or np.all(item.inputs["decodes"]):
            return (item,)
        shape = item.inputs
        keys = shape["past_tokens"] + shape["new_tokens"]
        scores = shape["sequences"] * shape["query_heads"] * INDEX_QUERIES * keys
        value_bytes = shape["activation_bits"] / 8
        moved = scores * value_bytes * INDEX_PASSES
        work = Work(2.0 * scores * shape["key_dim"], 0.0, moved, 0.0, item.work.math, scores)
        search = Operator("sparse_index", "work", work, Work(math=item.work.math), count=item.count)
        kept = self.kept
        if kept is None:
            seen = shape["pairs"] / (shape["sequences"] * shape["new_tokens"])
            kept = np.minimum((INDEXED_KEYS / np.maximum(seen, 1.0)) ** INDEXED_POWER, 1.0)
        return (search, scaled(item, flops=kept))


@dataclass(frozen=True, eq=False, kw_only=True)
class SparseAttentionMask(Technique):
    """Tiles of the attention matrix that do not matter are skipped once their scores are known (skip-softmax).

    A tile whose largest score is far below the running maximum of its rows adds nothing: its exponentials and its
    product with the values are left out.  The scores themselves are what tells, so all of them are computed: of the
    ``2 (d_k + d_v)`` FLOPs a pair the ``2 d_k`` stay (TensorRT-LLM technical blog 16).  FLOPs are saved where there are
    many, in prefill; the cache is read all the same.

    Attributes
    ----------
    skipped : float
        Share of the query-key pairs that are skipped.
    """

    slug: ClassVar[str] = "sparse-attention"
    name: ClassVar[str] = "sparse attention mask"
    helps: ClassVar[str] = "prefill"
    why: ClassVar[str] = "query-key pairs that matter little are skipped"
    costs: ClassVar[str] = "accuracy; a kernel for each pattern"
    effort: ClassVar[str] = KERNEL

    skipped: float = 0.5

    def __post_init__(self) -> None:
        checked_share("skipped", self.skipped)

    @property
    def decides(self) -> tuple[str, ...]:
        """Which pairs are computed."""
        return ("which pairs attention computes",)

    def after(self, case: Scenario) -> Scenario:
        """The rest of the pairs."""
        return case.with_model(rewritten(case.model, Masked(1 - self.skipped)))


INDEX_QUERIES, INDEX_PASSES = 64, 6
"""Last queries of a prompt whose scores tell which keys matter, and how often these scores cross the memory: written,
softmax in and out, summed along columns and along diagonals, the best chosen (arXiv:2407.02490, appendix C)."""

INDEXED_KEYS, INDEXED_POWER = 5300.0, 0.62
"""Share of the attention that an index leaves, ``(5300 / keys of a query)^0.62``: what remains of the times that
microsoft/MInference publishes for 50,000 to 1,000,000 tokens, once linear layers and the search are taken off, over
that of dense attention: 0.33, 0.25, 0.15, 0.11, 0.06 and 0.06."""


@dataclass(frozen=True, eq=False, kw_only=True)
class IndexedSparseAttention(Technique):
    """An index selects the pairs that matter; the others are not computed (MInference, arXiv:2407.02490).

    An index of vertical and slash lines is estimated from the scores of the last 64 queries of each head. The published
    implementation does so for one head after another, which takes the host about 2.3 ms a head and layer whatever the
    length: a prompt of 1,000 tokens of Llama 3 8B (1,024 heads in all) takes 0.55 s without and 2.96 s with it on an
    A100, 0.08 and 3.02 s in vLLM (experiments/README.md of microsoft/MInference). At short prompts that is longer than
    the attention that it saves.

    Attributes
    ----------
    skipped : float, optional
        Share of the query-key pairs that are skipped; by default what the published implementation saves of the
        attention, which grows with the prompt: 0.75 at 100,000 tokens.
    head_s : float or array
        Time of the host for the search of a head in a layer, seconds.
    """

    slug: ClassVar[str] = "indexed-sparse-attention"
    name: ClassVar[str] = "sparse attention with an index"
    helps: ClassVar[str] = "prefill"
    why: ClassVar[str] = "query-key pairs that an index leaves out are skipped"
    costs: ClassVar[str] = "the search for the index of each head; accuracy"
    effort: ClassVar[str] = KERNEL

    skipped: float | None = None
    head_s: Number = 2.3e-3

    def __post_init__(self) -> None:
        if self.skipped is not None:
            checked_share("skipped", self.skipped)
        number("head_s", self.head_s)

    @property
    def decides(self) -> tuple[str, ...]:
        """Which pairs are computed."""
        return ("which pairs attention computes",)

    def refusal(self, case: Scenario) -> str:
        """There has to be attention."""
        return "" if attentions(case.model) else f"{case.model.name} has no softmax attention with heads of its own"

    def after(self, case: Scenario) -> Scenario:
        """The rest of the pairs, and the search for them in every prompt."""
        heads = sum(
            layer.count * block.query_heads
            for layer in case.model.layers
            for block in layer.blocks
            if isinstance(block, Attention)
        )
        searching_s = heads / case.serve.parallel.tensor * self.head_s
        model = rewritten(case.model, Indexed(None if self.skipped is None else 1 - self.skipped))
        return case.with_model(model).replace(prompt_host_s=case.prompt_host_s + searching_s)


@dataclass(frozen=True, eq=False, kw_only=True)
class MixtureOfExperts(Technique):
    """Mixture of experts (MoE, arXiv:1701.06538) against a dense model of equal total or equal active size.

    A model with experts is compared with a dense one; the MLPs of a dense model are split into ``experts``, of which a
    token uses ``top_k``.

    Attributes
    ----------
    against : str
        What the mixture is compared with: a dense MLP as wide as all experts together (``total``) or as the experts
        that a token uses (``active``).
    experts : int
        Experts per layer, if the model is dense.
    top_k : int
        Experts per token, if the model is dense.
    """

    slug: ClassVar[str] = "moe"
    name: ClassVar[str] = "MoE"
    helps: ClassVar[str] = "both"
    why: ClassVar[str] = "fewer active parameters per token"
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
