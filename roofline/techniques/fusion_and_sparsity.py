"""Weights and kernels: fusion, sparsity and experts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import ClassVar

import numpy as np

from ..arrays import scalar
from ..errors import InvalidInput, Number, number
from ..model.blocks import MLP, Attention, Block, MoE
from ..model.rewriting import Rewrite, is_linear, merged, rewritten, scaled
from ..operators.operator import Operator, Pass
from ..operators.work import Work
from ..phases.passes import decode, prefill
from ..report import Step
from ..serving.pass_times import launches
from ..serving.scenario import Scenario, checked_share
from ..values import Value
from .attention import attentions, blocks_of, with_blocks
from .technique import KERNEL, MODEL, Technique

TOGETHER = (frozenset({"q_proj", "k_proj", "v_proj"}), frozenset({"gate_proj", "up_proj"}))
"""Products of the same input that fused kernels run as one."""


@dataclass(frozen=True)
class Fused(Rewrite):
    """Fuse norms and residuals with their neighbors, and products of the same input into one."""

    def operators(self, found: tuple[Operator, ...], run: Pass) -> tuple[Operator, ...]:
        """Fuse operators; elementwise ones move only their parameters and need no launch."""
        kept = [scaled(item, activations=0.0) if item.kind == "elementwise" else item for item in found]
        return tuple(merged(list(group)) for _, group in groupby(kept, key=_together))


def _together(operator: Operator) -> frozenset[str] | int:
    """Properties that consecutive operators share if they run as one."""
    return next((names for names in TOGETHER if operator.name in names), id(operator))


@dataclass(frozen=True, eq=False, kw_only=True)
class KernelFusion(Technique):
    """Fuse norms, residuals and products of the same input, which saves launches and activation traffic.

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
        """Decides which operators run as one kernel."""
        return ("what runs as one kernel",)

    def given(self, case: Scenario) -> Scenario:
        """Run every operator separately, and state the launch time."""
        return case.replace(launch_s=case.launch_s + self.launch_s)

    def after(self, case: Scenario) -> Scenario:
        """Fuse the operators."""
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
    """Set two of every four weights to zero: half the multiply-adds, and a 2-bit position per kept weight."""

    reached: float = 1.0

    def operators(self, found: tuple[Operator, ...], run: Pass) -> tuple[Operator, ...]:
        """Linear layers with half the FLOPs and the bytes of the kept weights, at the rate that kernels reach."""
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

    The sparse peak of a data sheet is twice the dense peak, since half the multiply-adds are skipped.  Two kept values
    of ``b`` bits and their 2-bit positions take ``(2 b + 4) / (4 b)`` of the bytes.  Kernels reach a speedup of
    ``compute_gain`` instead of 2: large products of cuSPARSELt and CUTLASS run 1.3 times as fast as dense ones.  The
    gain therefore falls with the batch, from 1.7 (bytes) to 1.3 (compute).

    Attributes
    ----------
    compute_gain : float
        Speedup of a sparse kernel over a dense one if compute is the limit.
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
        """Decides which weights are left out."""
        return ("which weights are left out",)

    def refusal(self, case: Scenario) -> str:
        """Reject chips without a sparse peak in the format of the linear layers."""
        gpu = case.serve.accelerator
        math = gpu.math_on_chip(case.serve.precision.part("mlp").math)
        return "" if math in gpu.sparse_flops_per_s else f"{gpu.name} states no sparse peak for {math}"

    def after(self, case: Scenario) -> Scenario:
        """Leave out two of every four weights."""
        return case.with_model(rewritten(case.model, HalfOfFour(self.compute_gain / 2)))


@dataclass(frozen=True)
class Skipped(Rewrite):
    """Skip inner neurons of MLPs that no token of the pass needs: they are neither read nor multiplied."""

    share: float

    def operators(self, found: tuple[Operator, ...], run: Pass) -> tuple[Operator, ...]:
        """MLPs without the weights that all tokens skip: ``share ^ tokens`` of them if tokens are independent."""
        idle = np.power(self.share, run.tokens)
        return tuple(scaled(item, flops=1 - idle, weights=1 - idle) if _is_mlp(item) else item for item in found)


def _is_mlp(operator: Operator) -> bool:
    return operator.kind == "matmul" and {*operator.name.split("+")} <= {"gate_proj", "up_proj", "down_proj"}


@dataclass(frozen=True, eq=False, kw_only=True)
class ActivationSparsity(Technique):
    """Skip neurons whose activation is zero (Deja Vu, arXiv:2310.17157); they differ by token.

    A pass reads every neuron that any of its ``T`` tokens needs, a share of ``1 - s^T`` if tokens are independent, and
    multiplies all that it reads. A single sequence gains, but a prompt or a batch does not.

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
        """Decides which activations are left out."""
        return ("which activations are left out",)

    def refusal(self, case: Scenario) -> str:
        """Reject models without dense MLPs."""
        has = any(isinstance(block, MLP) for block in blocks_of(case.model))
        return "" if has else f"{case.model.name} has no dense MLP"

    def after(self, case: Scenario) -> Scenario:
        """Skip the neurons."""
        return case.with_model(rewritten(case.model, Skipped(self.skipped)))


@dataclass(frozen=True)
class Masked(Rewrite):
    """Compute softmax and values for a share of the pairs; all scores are computed and the whole cache is read."""

    kept: float

    def operators(self, found: tuple[Operator, ...], run: Pass) -> tuple[Operator, ...]:
        """Attention with all of its scores and the given share of the rest."""
        return tuple(self._masked(item) if item.kind == "attention" else item for item in found)

    def _masked(self, item: Operator) -> Operator:
        scores, values = item.inputs["key_dim"], item.inputs["value_dim"]
        fewer = scaled(item, flops=(scores + self.kept * values) / (scores + values))
        return replace(fewer, work=replace(fewer.work, exponentials=item.work.exponentials * self.kept))


@dataclass(frozen=True, eq=False)
class Indexed(Rewrite, Value):
    """Compute attention over the share of pairs in an index, which is searched for each head beforehand.

    Sequences of up to ``dense_tokens`` are computed whole.
    """

    of_steps: ClassVar[bool] = True

    kept: float | None
    dense_tokens: Number = 0.0

    def operators(self, found: tuple[Operator, ...], run: Pass) -> tuple[Operator, ...]:
        """Attention of prompts with the given share of its FLOPs, plus the search for the pairs."""
        return tuple(part for item in found for part in self._parts(item))

    def _parts(self, item: Operator) -> tuple[Operator, ...]:
        if item.kind != "attention" or np.all(item.inputs["decodes"]):
            return (item,)
        shape = item.inputs
        keys = shape["past_tokens"] + shape["new_tokens"]
        long = np.where(keys > self.dense_tokens, 1.0, 0.0)[()]
        scores = long * shape["sequences"] * shape["query_heads"] * INDEX_QUERIES * keys
        value_bytes = shape["activation_bits"] / 8
        moved = scores * value_bytes * INDEX_PASSES
        work = Work(2.0 * scores * shape["key_dim"], 0.0, moved, 0.0, item.work.math, scores)
        # The host's time for each head contains the launches.
        search = Operator("sparse_index", "elementwise", work, Work(math=item.work.math), count=item.count)
        kept = self.kept
        if kept is None:
            seen = shape["pairs"] / (shape["sequences"] * shape["new_tokens"])
            kept = np.minimum((INDEXED_KEYS / np.maximum(seen, 1.0)) ** INDEXED_POWER, 1.0)
        return (search, scaled(item, flops=1.0 - long * (1.0 - kept)))


@dataclass(frozen=True, eq=False, kw_only=True)
class SparseAttentionMask(Technique):
    """Skip tiles of the attention matrix that do not matter once their scores are known (skip-softmax).

    A tile whose largest score is far below the running maximum of its rows adds nothing, so its exponentials and its
    product with the values are left out.  All scores are still computed, since they decide which tiles to skip: of the
    ``2 (d_k + d_v)`` FLOPs per pair, ``2 d_k`` remain (TensorRT-LLM technical blog 16).  This saves FLOPs, which matter
    in prefill; the whole cache is still read.

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
        """Decides which query-key pairs are computed."""
        return ("which pairs attention computes",)

    def after(self, case: Scenario) -> Scenario:
        """Skip the given share of the pairs."""
        return case.with_model(rewritten(case.model, Masked(1 - self.skipped)))


INDEX_QUERIES, INDEX_PASSES = 64, 6
"""Number of last queries of a prompt whose scores select the keys, and number of times that these scores are read or
written: written, read and written by the softmax, summed along columns and along diagonals, and searched for the best
(arXiv:2407.02490, appendix C)."""

INDEXED_KEYS, INDEXED_POWER = 5300.0, 0.62
"""Constants of the share of attention that remains with an index, ``(5300 / keys of a query)^0.62``. Source: the times
that microsoft/MInference publishes for 50,000 to 1,000,000 tokens. After subtracting linear layers and the search, the
ratio to dense attention is 0.33, 0.25, 0.15, 0.11, 0.06 and 0.06."""


@dataclass(frozen=True, eq=False, kw_only=True)
class IndexedSparseAttention(Technique):
    """Compute only the pairs that an index selects (MInference, arXiv:2407.02490).

    An index of vertical and slash lines is estimated from the scores of the last 64 queries of each head. The published
    implementation processes the heads one by one, which takes the host about 2.3 ms per head and layer at any length. A
    prompt of 1,000 tokens of Llama 3 8B (1,024 heads in all) takes 0.55 s without and 2.96 s with it on an A100, and
    0.08 and 3.02 s in vLLM (experiments/README.md of microsoft/MInference). For short prompts this is longer than the
    attention that it saves, so engines compute them whole: vLLM and SGLang up to 32,768 tokens
    (``sparse_attention_threshold``), the published implementation never.

    Attributes
    ----------
    skipped : float, optional
        Share of the query-key pairs that are skipped; by default the share that the published implementation saves,
        which grows with the prompt: 0.75 at 100,000 tokens.
    head_s : float or array
        Host time of the search per head and layer, seconds.
    dense_tokens : int or array
        Longest sequence that is computed whole, without an index.
    """

    slug: ClassVar[str] = "indexed-sparse-attention"
    name: ClassVar[str] = "sparse attention with an index"
    helps: ClassVar[str] = "prefill"
    why: ClassVar[str] = "query-key pairs that an index leaves out are skipped"
    costs: ClassVar[str] = "the search for the index of each head; accuracy"
    effort: ClassVar[str] = KERNEL

    skipped: float | None = None
    head_s: Number = 2.3e-3
    dense_tokens: Number = 32_768

    def __post_init__(self) -> None:
        if self.skipped is not None:
            checked_share("skipped", self.skipped)
        number("head_s", self.head_s)
        number("dense_tokens", self.dense_tokens, whole=True)

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides which query-key pairs are computed."""
        return ("which pairs attention computes",)

    def refusal(self, case: Scenario) -> str:
        """Reject models without softmax attention."""
        return "" if attentions(case.model) else f"{case.model.name} has no softmax attention with heads of its own"

    def after(self, case: Scenario) -> Scenario:
        """Compute only the selected pairs, and add the search for them to every long prompt."""
        heads = sum(
            layer.count * block.query_heads
            for layer in case.model.layers
            for block in layer.blocks
            if isinstance(block, Attention)
        )
        long = np.where(np.asarray(case.load.prompt_tokens) > self.dense_tokens, 1.0, 0.0)
        searching_s = scalar(long * heads / case.serve.parallel.tensor * self.head_s)
        kept = None if self.skipped is None else 1 - self.skipped
        model = rewritten(case.model, Indexed(kept, self.dense_tokens))
        return case.with_model(model).replace(prompt_host_s=case.prompt_host_s + searching_s)


@dataclass(frozen=True, eq=False, kw_only=True)
class MixtureOfExperts(Technique):
    """Compare a mixture of experts (MoE, arXiv:1701.06538) with a dense model of equal total or active size.

    A model with experts is compared with a dense one. The MLPs of a dense model are split into ``experts``, of which
    each token uses ``top_k``.

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
        """Decides the kind of MLP."""
        return ("what the MLPs are",)

    def had(self, case: Scenario) -> bool:
        """Whether the model has experts."""
        return any(isinstance(block, MoE) for block in blocks_of(case.model))

    def without(self, case: Scenario) -> Scenario:
        """Baseline: a dense MLP instead of experts."""
        return case.with_model(with_blocks(case.model, self._dense))

    def after(self, case: Scenario) -> Scenario:
        """Use experts: the model's own if it has any."""
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
