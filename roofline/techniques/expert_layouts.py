"""Layouts of large mixtures: experts, attention and messages over many accelerators."""

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
from .technique import FLAG, HARDWARE, KERNEL, Technique


def has_experts(case: Scenario) -> bool:
    """Whether the model has routed experts."""
    return any(isinstance(block, MoE) for block in blocks_of(case.model))


def spread(case: Scenario, **degrees: Any) -> Scenario:
    """The same with other degrees of parallelism."""
    parallel = dataclasses.replace(case.serve.parallel, **degrees)
    return case.replace(serve=case.serve.replace(parallel=parallel))


@dataclass(frozen=True)
class Unbalanced(Rewrite):
    """The most loaded accelerator gets ``load`` times the mean tokens: its experts and messages take so much longer."""

    load: float

    def operators(self, found: tuple[Operator, ...], run: Pass) -> tuple[Operator, ...]:
        """Experts and exchanges of tokens at the load of the fullest accelerator; the floor may be balanced."""
        return tuple(self._loaded(item) for item in found)

    def _loaded(self, item: Operator) -> Operator:
        if item.kind == "experts":
            more = scaled(item, flops=self.load, activations=self.load)
            rows = {name: item.inputs[name] * self.load for name in ("routed_rows",) if name in item.inputs}
            return dataclasses.replace(more, least=item.least, inputs={**item.inputs, **rows})
        if item.name in ("dispatch", "combine") and item.message is not None:
            message = dataclasses.replace(item.message, message_bytes=item.message.message_bytes * self.load)
            return dataclasses.replace(scaled(item, activations=self.load), least=item.least, message=message)
        return item


def loaded(case: Scenario, load: float) -> Scenario:
    """The same with a stated load of the fullest accelerator, in the place of what a skewed routing makes of it."""
    even = case.replace(serve=case.serve.replace(routing_skew=0.0))
    return even.with_model(rewritten(even.model, Unbalanced(load)))


@dataclass(frozen=True, eq=False, kw_only=True)
class ExpertParallelism(Technique):
    """Accelerators hold whole experts, not a part of every expert (DeepSeek-V3, arXiv:2412.19437, section 3.4).

    Each accelerator reads only its own experts and computes fewer but larger products; tokens are sent to their experts
    and back. The most loaded accelerator, which sets the pace, gets ``load`` times the mean number of tokens.

    Attributes
    ----------
    expert : int, optional
        Number of accelerators that the experts are divided over; by default all that share a layer.
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
        """How experts are spread."""
        return ("how experts are spread",)

    def refusal(self, case: Scenario) -> str:
        """There have to be experts, and accelerators to spread them over."""
        if not has_experts(case):
            return f"{case.model.name} has no routed experts"
        ranks = np.max(case.serve.parallel.tensor * case.serve.parallel.data)
        wanted = self.expert or 2
        return "" if ranks >= wanted else f"experts over {wanted} accelerators need a layout of as many: {ranks:g}"

    def in_layout(self, case: Scenario) -> bool:
        """Experts are spread over as many."""
        spread_over = np.asarray(case.serve.parallel.expert)
        return not self.refusal(case) and bool(np.all(spread_over == self._ways(case)))

    def had(self, case: Scenario) -> bool:
        """Whether experts are spread already."""
        spread_over = np.asarray(case.serve.parallel.expert)
        return has_experts(case) and bool(np.all((spread_over > 1) & (spread_over >= self._ways(case))))

    def _ways(self, case: Scenario) -> Number:
        return self.expert or case.serve.parallel.tensor * case.serve.parallel.data

    def after(self, case: Scenario) -> Scenario:
        """Experts whole, the most loaded accelerator's share of the tokens."""
        placed = spread(case, expert=self._ways(case))
        return placed if self.load is None else loaded(placed, self.load)


@dataclass(frozen=True, eq=False, kw_only=True)
class ExpertBalancing(Technique):
    """The most used experts are replicated, and experts are placed by their load (EPLB, github.com/deepseek-ai/EPLB).

    All accelerators wait for the most loaded one. With balancing it gets 1.2 times the mean number of tokens (a perfect
    balance is 1.18 times faster in prefill, lmsys.org blog of 2025-05-05). Without balancing, 2.5 times is assumed, not
    measured: give the ``load`` of your traffic. That blog's gain of 2.54 in decode over 72 accelerators needs a load
    beyond 2.5 even if a step were nothing but experts.

    Attributes
    ----------
    load : float
        Tokens of the most loaded accelerator divided by the mean, without balancing.
    balanced_load : float
        Tokens of the most loaded accelerator divided by the mean, with balancing.
    """

    slug: ClassVar[str] = "eplb"
    name: ClassVar[str] = "expert load balancing"
    helps: ClassVar[str] = "both"
    why: ClassVar[str] = "the most loaded accelerator, which sets the pace, has fewer tokens"
    costs: ClassVar[str] = "memory for duplicated experts; weights move when the traffic changes"
    effort: ClassVar[str] = FLAG
    baseline: ClassVar[str] = "experts placed in order"

    load: float = 2.5
    balanced_load: float = 1.2

    def __post_init__(self) -> None:
        for name in ("load", "balanced_load"):
            number(name, getattr(self, name), least=1.0)
        if self.balanced_load > self.load:
            raise InvalidInput(f"balanced_load must be at most load: {self.balanced_load:g} > {self.load:g}")

    @property
    def decides(self) -> tuple[str, ...]:
        """Where experts are placed."""
        return ("where experts are placed",)

    def refusal(self, case: Scenario) -> str:
        """Experts have to be spread."""
        if not has_experts(case):
            return f"{case.model.name} has no routed experts"
        return "" if np.any(np.asarray(case.serve.parallel.expert) > 1) else "experts are not divided: expert is 1"

    def without(self, case: Scenario) -> Scenario:
        """The load as it comes."""
        return loaded(case, self.load)

    def had(self, case: Scenario) -> bool:
        """Estimates without a stated load are those of balanced experts."""
        return not self.refusal(case)

    def after(self, case: Scenario) -> Scenario:
        """Experts by their load."""
        return loaded(case, self.balanced_load)


@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionDataParallelism(Technique):
    """Attention is replicated, with different sequences on each replica, and experts are spread over all replicas.

    Under tensor parallelism the latent of MLA, and KV heads beyond their number, are stored on every rank. Replicas
    hold the caches of different sequences instead, so more sequences fit. Attention of a sequence then runs on one
    accelerator, and experts that span replicas need an all-to-all.

    Attributes
    ----------
    replicas : int, optional
        Replicas of attention; by default as many as accelerators share a layer.
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
        """How many share a layer."""
        return ("how many accelerators share a layer",)

    def refusal(self, case: Scenario) -> str:
        """There have to be several accelerators that a layer is divided over, each with a whole cache."""
        parallel = case.serve.parallel
        if np.any(np.asarray(parallel.decode_context) > 1):
            return "the ranks of a layer divide the cache that replicas would hold whole"
        if self.had(case):
            return ""
        tensor = np.max(parallel.tensor)
        wanted = self.replicas or tensor
        if tensor < 2:
            return "tensor is 1: there is nothing to replicate"
        return f"replicas must divide the {tensor:g} accelerators of a layer: {wanted:g}" if tensor % wanted else ""

    def had(self, case: Scenario) -> bool:
        """Whether there are replicas already."""
        return bool(np.all(self._replicated(case)))

    def in_layout(self, case: Scenario) -> bool:
        """There are replicas."""
        return not self.refusal(case) and self.had(case)

    def _replicated(self, case: Scenario) -> Any:
        return np.asarray(case.serve.parallel.data) >= (self.replicas or 2)

    def after(self, case: Scenario) -> Scenario:
        """Replicas in the place of ranks, where there are none yet."""
        parallel = case.serve.parallel
        replicas = np.where(self._replicated(case), 1.0, self.replicas or parallel.tensor)[()]
        experts = parallel.tensor * parallel.data if has_experts(case) else parallel.expert
        return spread(case, tensor=parallel.tensor / replicas, data=parallel.data * replicas, expert=experts)


@dataclass(frozen=True, eq=False, kw_only=True)
class TwoBatchOverlap(Technique):
    """A pass runs as two halves of its batch, of which one exchanges messages while the other computes.

    A pass takes twice the longer of computing and exchanging a half, instead of both for the whole:

        2 max(compute(B / 2), exchange(B / 2))   against   compute(B) + exchange(B)

    Each half reads the weights by itself, so that small batches, bound by them, lose.
    """

    slug: ClassVar[str] = "two-batch-overlap"
    name: ClassVar[str] = "two-batch overlap"
    helps: ClassVar[str] = "both"
    why: ClassVar[str] = "one half of the batch communicates while the other computes"
    costs: ClassVar[str] = "weights are read twice per pass; slower at small batches"
    effort: ClassVar[str] = FLAG

    @property
    def decides(self) -> tuple[str, ...]:
        """When messages cross."""
        return ("when messages cross",)

    def refusal(self, case: Scenario) -> str:
        """There have to be messages."""
        return "a single accelerator exchanges nothing" if case.serve.parallel.single else ""

    def after(self, case: Scenario) -> Scenario:
        """Halves."""
        return case.replace(two_batches=True)


@dataclass(frozen=True)
class NarrowMessages(Rewrite):
    """Messages are quantized before they cross and expanded behind."""

    bits: float

    def operators(self, found: tuple[Operator, ...], run: Pass) -> tuple[Operator, ...]:
        """Messages of so many bits, and the kernels around them."""
        return tuple(part for item in found for part in self._parts(item, run))

    def _parts(self, item: Operator, run: Pass) -> tuple[Operator, ...]:
        message = item.message
        if message is None or item.name == "handover":
            return (item,)
        kept = np.minimum(self.bits / run.precision.wide_bits, 1.0)
        narrow = dataclasses.replace(
            message, message_bytes=message.message_bytes * kept, least_bytes=message.least_bytes * kept
        )
        moved = item.work.activation_bytes * (1 + kept)  # read wide and written narrow, and back
        work = Work(0.0, 0.0, moved, 0.0, item.work.math)
        around = Operator(f"{item.name}_quantize", "elementwise", work, Work(math=item.work.math), count=item.count)
        return (dataclasses.replace(scaled(item, activations=kept), message=narrow), around)


@dataclass(frozen=True, eq=False, kw_only=True)
class QuantizedCollectives(Technique):
    """All-reduces and all-to-alls carry 8 bits instead of 16 (Flash Communication, arXiv:2412.04964).

    Half the bytes cross the links; each message is narrowed before and widened after. Prompts gain, since their
    messages are large; small messages of decode steps take only latency.

    Attributes
    ----------
    wire : str
        Format on the wire.
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
        """The format on the wire."""
        return ("the format of messages",)

    def refusal(self, case: Scenario) -> str:
        """There have to be messages."""
        return "a single accelerator exchanges nothing" if case.serve.parallel.single else ""

    def after(self, case: Scenario) -> Scenario:
        """Narrow messages."""
        return case.with_model(rewritten(case.model, NarrowMessages(get_format(self.wire).bits)))


@dataclass(frozen=True)
class Pooled(Rewrite):
    """Weights of experts and MLPs are read once for every microbatch of a step."""

    microbatches: float

    def operators(self, found: tuple[Operator, ...], run: Pass) -> tuple[Operator, ...]:
        """Experts and MLPs whose weights are read for every microbatch; the floor reads them once."""
        return tuple(self._read_again(item) if is_feed_forward(item) else item for item in found)

    def _read_again(self, item: Operator) -> Operator:
        return dataclasses.replace(scaled(item, weights=self.microbatches), least=item.least)


@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionFFNDisaggregation(Technique):
    """Attention and experts run on separate pools (MegaScale-Infer, arXiv:2504.02263; Step-3, arXiv:2507.19427).

    Microbatches alternate between the pools, so both are busy. Of ``n`` accelerators ``a n`` hold attention and the
    others experts, and a step takes

        max(attention / a, experts / (1 - a)) + exchange,

    the parts being what they take on all accelerators, with the experts' weights read for every microbatch. With the
    same accelerator in both pools that is never shorter than running both parts on all accelerators in turn, and at
    best as long. Gains in memory, and from different accelerators in the pools, are not included.

    Attributes
    ----------
    microbatches : int
        Microbatches in flight; two keep both pools busy, a third hides the messages.
    attention_share : float
        Share of the accelerators that hold attention; the one that keeps both pools busy if not given.
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
        """Where attention and experts run."""
        return ("where experts are placed", "when messages cross")

    def refusal(self, case: Scenario) -> str:
        """There have to be experts, and at least two accelerators."""
        if not has_experts(case):
            return f"{case.model.name} has no routed experts"
        return "" if np.all(case.serve.parallel.accelerators >= 2) else "two pools take at least two accelerators"

    def after(self, case: Scenario) -> Scenario:
        """Microbatches that overlap, and experts that are read for each of them."""
        model = rewritten(case.model, Pooled(float(self.microbatches)))
        return case.with_model(model).replace(pool_share=self.attention_share or BALANCED)
