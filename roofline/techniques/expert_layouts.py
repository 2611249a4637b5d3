"""Layouts of large mixtures of experts over many accelerators: experts, attention and messages."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import InvalidInput, Number, number
from ..formats import get_format
from ..model.blocks import MoE
from ..model.rewriting import Rewrite, rewritten, scaled
from ..operators.operator import Operator, Pass
from ..operators.work import Work
from ..serving.pass_times import BALANCED, is_feed_forward
from ..serving.scenario import Scenario
from .attention import blocks_of
from .expert_loads import BALANCED_SPREAD, POPULARITY_SPREAD, loaded
from .technique import FLAG, HARDWARE, KERNEL, Technique


def has_experts(case: Scenario) -> bool:
    """Whether the model has routed experts."""
    return any(isinstance(block, MoE) for block in blocks_of(case.model))


def spread(case: Scenario, **degrees: Any) -> Scenario:
    """Copy of the deployment with other degrees of parallelism."""
    parallel = dataclasses.replace(case.serve.parallel, **degrees)
    return case.replace(serve=case.serve.replace(parallel=parallel))


@dataclass(frozen=True, eq=False, kw_only=True)
class ExpertParallelism(Technique):
    """Store whole experts on each accelerator, not a part of every expert (DeepSeek-V3, arXiv:2412.19437, section 3.4).

    Each accelerator reads only its own experts and computes fewer but larger products. Tokens are sent to their experts
    and back. The most loaded accelerator, which sets the pace, gets ``load`` times the mean number of tokens.

    Attributes
    ----------
    expert : int, optional
        Number of accelerators among which the experts are divided; by default all that share a layer.
    load : float, optional
        Tokens of the most loaded accelerator divided by the mean; by default derived from the deployment's
        ``routing_skew``.
    """

    slug: ClassVar[str] = "expert-parallelism"
    name: ClassVar[str] = "expert parallelism"
    helps: ClassVar[str] = "both"
    why: ClassVar[str] = "each accelerator reads its own experts only, and multiplies more rows with each"
    costs: ClassVar[str] = "two all-to-alls per layer if experts span replicas; the most loaded one sets the pace"
    effort: ClassVar[str] = FLAG

    expert: int | None = None
    load: float | None = None

    def __post_init__(self) -> None:
        if self.load is not None:
            number("load", self.load, least=1.0)
        if self.expert is not None:
            number("expert", self.expert, least=1, whole=True)

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides how experts are divided."""
        return ("how experts are spread",)

    def refusal(self, case: Scenario) -> str:
        """Reject models without experts, and layouts without enough accelerators to divide them."""
        if not has_experts(case):
            return f"{case.model.name} has no routed experts"
        ranks = np.max(case.serve.parallel.tensor * case.serve.parallel.data)
        wanted = self.expert or 2
        if ranks >= wanted:
            return ""
        return f"experts over {wanted} accelerators need a layout with that many: {ranks:g}"

    def in_layout(self, case: Scenario) -> bool:
        """Whether the layout divides the experts over the requested number of accelerators."""
        spread_over = np.asarray(case.serve.parallel.expert)
        return not self.refusal(case) and bool(np.all(spread_over == self._ways(case)))

    def had(self, case: Scenario) -> bool:
        """Whether the experts are already divided."""
        spread_over = np.asarray(case.serve.parallel.expert)
        return has_experts(case) and bool(np.all((spread_over > 1) & (spread_over >= self._ways(case))))

    def _ways(self, case: Scenario) -> Number:
        return self.expert or case.serve.parallel.tensor * case.serve.parallel.data

    def after(self, case: Scenario) -> Scenario:
        """Store whole experts on each accelerator, and use the most loaded one's share of the tokens."""
        placed = spread(case, expert=self._ways(case))
        return placed if self.load is None else loaded(placed, self.load)


@dataclass(frozen=True, eq=False, kw_only=True)
class ExpertBalancing(Technique):
    """Replicate the most used experts and place experts by load (EPLB, github.com/deepseek-ai/EPLB).

    All accelerators wait for the most loaded one. Unless it is given, its load follows from how unevenly tokens choose
    experts (`roofline.techniques.expert_loads`), which is known from one deployment only: pass the loads of your
    traffic.

    Attributes
    ----------
    load : float, optional
        Tokens of the most loaded accelerator divided by the mean, without balancing; by default it grows
        with the number of accelerators.
    balanced_load : float, optional
        Tokens of the most loaded accelerator divided by the mean, with balancing; by default it grows with
        the number of accelerators, up to ``load``.
    """

    slug: ClassVar[str] = "eplb"
    name: ClassVar[str] = "expert load balancing"
    helps: ClassVar[str] = "both"
    why: ClassVar[str] = "the most loaded accelerator, which sets the pace, has fewer tokens"
    costs: ClassVar[str] = "memory for duplicated experts; weights move when the traffic changes"
    effort: ClassVar[str] = FLAG
    baseline: ClassVar[str] = "experts placed in order"

    load: float | None = None
    balanced_load: float | None = None

    def __post_init__(self) -> None:
        given = {"load": self.load, "balanced_load": self.balanced_load}
        for name, value in given.items():
            if value is not None:
                number(name, value, least=1.0)
        if self.load is not None and self.balanced_load is not None and self.balanced_load > self.load:
            raise InvalidInput(f"balanced_load must be at most load: {self.balanced_load:g} > {self.load:g}")

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides where experts are placed."""
        return ("where experts are placed",)

    def refusal(self, case: Scenario) -> str:
        """Reject deployments whose experts are not divided."""
        if not has_experts(case):
            return f"{case.model.name} has no routed experts"
        if np.any(np.asarray(case.serve.parallel.expert) > 1):
            return ""
        return "experts are not divided: expert is 1"

    def without(self, case: Scenario) -> Scenario:
        """Baseline: experts in order, with the load that results."""
        return loaded(case, self.load, POPULARITY_SPREAD if self.load is None else None)

    def had(self, case: Scenario) -> bool:
        """Whether experts are divided; estimates without a stated load already assume balanced experts."""
        return not self.refusal(case)

    def after(self, case: Scenario) -> Scenario:
        """Place experts by their load."""
        if self.balanced_load is not None:
            return loaded(case, self.balanced_load)
        return loaded(case, self.load, BALANCED_SPREAD)


@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionDataParallelism(Technique):
    """Replicate attention, give each replica its own sequences, and divide the experts among all replicas.

    Tensor parallelism copies the cache if there are more ranks than KV heads, and always copies the latent of MLA.
    Replicas store the caches of different sequences instead, so more sequences fit. Attention of a sequence then runs
    on one accelerator, and experts that span replicas need an all-to-all.

    Attributes
    ----------
    replicas : int, optional
        Number of attention replicas; by default one per accelerator of a layer.
    """

    slug: ClassVar[str] = "attention-dp"
    name: ClassVar[str] = "attention data parallelism"
    helps: ClassVar[str] = "both"
    why: ClassVar[str] = "no cache is duplicated: a larger batch, and no all-reduce after attention"
    costs: ClassVar[str] = "attention weights on every accelerator; slower for a single sequence; replicas to balance"
    effort: ClassVar[str] = FLAG

    replicas: int | None = None

    def __post_init__(self) -> None:
        if self.replicas is not None:
            number("replicas", self.replicas, least=1, whole=True)

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides how many accelerators share a layer."""
        return ("how many accelerators share a layer",)

    def refusal(self, case: Scenario) -> str:
        """Reject layouts without several accelerators per layer, or with a divided cache."""
        parallel = case.serve.parallel
        if np.any(np.asarray(parallel.decode_context) > 1):
            return "decode context parallelism divides the cache, but replicas need it whole"
        if self.had(case):
            return ""
        tensor = np.max(parallel.tensor)
        wanted = self.replicas or tensor
        if tensor < 2:
            return "tensor is 1: there is nothing to replicate"
        if tensor % wanted:
            return f"replicas must divide the {tensor:g} accelerators of a layer: {wanted:g}"
        return ""

    def had(self, case: Scenario) -> bool:
        """Whether attention already has replicas."""
        return bool(np.all(self._replicated(case)))

    def in_layout(self, case: Scenario) -> bool:
        """Whether the layout has replicas."""
        return not self.refusal(case) and self.had(case)

    def _replicated(self, case: Scenario) -> Any:
        return np.asarray(case.serve.parallel.data) >= (self.replicas or 2)

    def after(self, case: Scenario) -> Scenario:
        """Replace tensor-parallel ranks by replicas, unless there are replicas already."""
        parallel = case.serve.parallel
        replicas = np.where(self._replicated(case), 1.0, self.replicas or parallel.tensor)[()]
        experts = parallel.tensor * parallel.data if has_experts(case) else parallel.expert
        return spread(case, tensor=parallel.tensor / replicas, data=parallel.data * replicas, expert=experts)


@dataclass(frozen=True, eq=False, kw_only=True)
class TwoBatchOverlap(Technique):
    """Run a pass as two halves of its batch; one half exchanges messages while the other computes.

    A pass takes twice the longer of computing and exchanging for a half, instead of the sum of both for the whole:

        2 max(compute(B / 2), exchange(B / 2))   against   compute(B) + exchange(B)

    Each half reads the weights separately, so small batches, which are bound by weight reads, become slower.
    """

    slug: ClassVar[str] = "two-batch-overlap"
    name: ClassVar[str] = "two-batch overlap"
    helps: ClassVar[str] = "both"
    why: ClassVar[str] = "one half of the batch communicates while the other computes"
    costs: ClassVar[str] = "weights are read twice per pass; slower at small batches"
    effort: ClassVar[str] = FLAG

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides when messages are sent."""
        return ("when messages cross",)

    def refusal(self, case: Scenario) -> str:
        """Reject deployments that exchange no messages."""
        if case.serve.parallel.single:
            return "a single accelerator exchanges nothing"
        return ""

    def after(self, case: Scenario) -> Scenario:
        """Run each pass as two halves of its batch."""
        return case.replace(two_batches=True)


@dataclass(frozen=True)
class NarrowMessages(Rewrite):
    """Quantize messages before they are sent and expand them on arrival."""

    bits: float

    def operators(self, found: tuple[Operator, ...], run: Pass) -> tuple[Operator, ...]:
        """Messages with the given number of bits, and the kernels that quantize and expand them."""
        return tuple(part for item in found for part in self._parts(item, run))

    def _parts(self, item: Operator, run: Pass) -> tuple[Operator, ...]:
        message = item.message
        if message is None or item.name == "handover":
            return (item,)
        kept = np.minimum(self.bits / run.precision.wide_bits, 1.0)
        narrow = dataclasses.replace(
            message, message_bytes=message.message_bytes * kept, least_bytes=message.least_bytes * kept
        )
        moved = item.work.activation_bytes * (1 + kept)  # quantize: read 16 bits, write narrow; expand: the reverse
        work = Work(0.0, 0.0, moved, 0.0, item.work.math)
        around = Operator(f"{item.name}_quantize", "elementwise", work, Work(math=item.work.math), count=item.count)
        return (dataclasses.replace(scaled(item, activations=kept), message=narrow), around)


@dataclass(frozen=True, eq=False, kw_only=True)
class QuantizedCollectives(Technique):
    """Run all-reduces and all-to-alls in 8 bits instead of 16 (Flash Communication, arXiv:2412.04964).

    Half the bytes cross the links, and each message is quantized before and expanded after. Prompts gain, since their
    messages are large. The small messages of decode steps do not: their time is latency.

    Attributes
    ----------
    wire : str
        Format of the messages.
    """

    slug: ClassVar[str] = "quantized-collectives"
    name: ClassVar[str] = "quantized collectives"
    helps: ClassVar[str] = "prefill"
    why: ClassVar[str] = "fewer bytes cross the links"
    costs: ClassVar[str] = "accuracy; a quantization kernel around every message"
    effort: ClassVar[str] = KERNEL

    wire: str = "fp8"

    def __post_init__(self) -> None:
        get_format(self.wire)

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides the format of messages."""
        return ("the format of messages",)

    def refusal(self, case: Scenario) -> str:
        """Reject deployments that exchange no messages."""
        if case.serve.parallel.single:
            return "a single accelerator exchanges nothing"
        return ""

    def after(self, case: Scenario) -> Scenario:
        """Quantize the messages."""
        return case.with_model(rewritten(case.model, NarrowMessages(get_format(self.wire).bits)))


@dataclass(frozen=True)
class Pooled(Rewrite):
    """Read the weights of experts and MLPs once per microbatch of a step."""

    microbatches: float

    def operators(self, found: tuple[Operator, ...], run: Pass) -> tuple[Operator, ...]:
        """Experts and MLPs with a read of their weights per microbatch; the floor reads them once."""
        return tuple(self._read_again(item) if is_feed_forward(item) else item for item in found)

    def _read_again(self, item: Operator) -> Operator:
        return dataclasses.replace(scaled(item, weights=self.microbatches), least=item.least)


@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionFFNDisaggregation(Technique):
    """Run attention and experts on separate pools (MegaScale-Infer, arXiv:2504.02263; Step-3, arXiv:2507.19427).

    Microbatches alternate between the pools, so both are busy. Of ``n`` accelerators ``a n`` hold attention and the
    others experts, and a step takes

        max(attention / a, experts / (1 - a)) + exchange,

    where each part is the time it takes on all accelerators, with the experts' weights read for every microbatch. If
    both pools use the same accelerator, this is at best as fast as running both parts on all accelerators in turn.
    Gains in memory, and from different accelerators in the pools, are not included.

    Attributes
    ----------
    microbatches : int
        Microbatches in flight. Two keep both pools busy; a third hides the messages.
    attention_share : float
        Share of the accelerators that run attention; by default the share that keeps both pools busy.
    """

    slug: ClassVar[str] = "attention-ffn-disaggregation"
    name: ClassVar[str] = "attention-FFN disaggregation"
    helps: ClassVar[str] = "decode"
    why: ClassVar[str] = "attention and experts work at the same time, each on accelerators of its own"
    costs: ClassVar[str] = "two messages per layer between pools; experts read for every microbatch; pools to balance"
    effort: ClassVar[str] = HARDWARE

    microbatches: int = 2
    attention_share: float | None = None

    def __post_init__(self) -> None:
        number("microbatches", self.microbatches, least=1, whole=True)
        if self.attention_share is not None and not 0 < self.attention_share < 1:
            raise InvalidInput(f"attention_share must lie between 0 and 1: {self.attention_share!r}")

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides where attention and experts run."""
        return ("where experts are placed", "when messages cross")

    def refusal(self, case: Scenario) -> str:
        """Reject models without experts, and deployments with a single accelerator."""
        if not has_experts(case):
            return f"{case.model.name} has no routed experts"
        if np.all(case.serve.parallel.accelerators >= 2):
            return ""
        return "two pools take at least two accelerators"

    def after(self, case: Scenario) -> Scenario:
        """Overlap microbatches, each of which reads the experts."""
        model = rewritten(case.model, Pooled(float(self.microbatches)))
        return case.with_model(model).replace(pool_share=self.attention_share or BALANCED)
