"""The KV cache and attention: what a step reads, and what it keeps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from ..errors import Number, number
from ..model import Model
from ..model.blocks import Attention, Block
from ..model.blocks.latent_attention import MLA
from ..report import Step
from ..serving.scenario import Scenario, checked_share
from .technique import FLAG, KERNEL, MODEL, Technique


@dataclass(frozen=True, eq=False, kw_only=True)
class KVCache(Technique):
    """Keep keys and values, instead of recomputing the whole context in every step.

    For ``O`` output tokens after ``P`` prompt tokens, the linear layers process ``P + O`` tokens instead of ``sum over
    t of (P + t)``: quadratic work becomes linear.
    """

    slug: ClassVar[str] = "kv-cache"
    name: ClassVar[str] = "KV cache"
    helps: ClassVar[str] = "decode"
    why: ClassVar[str] = "a step computes one token instead of the whole context again"
    costs: ClassVar[str] = "memory for every token of every sequence"
    baseline: ClassVar[str] = "no KV cache"
    in_place: ClassVar[bool] = True

    def without(self, case: Scenario) -> Scenario:
        """Baseline: every step recomputes its whole context."""
        return case.replace(cache=False)

    def steps(self, case: Scenario) -> tuple[Step, ...]:
        """Tokens computed for one generation, with and without the cache."""
        load = case.running
        known = {"prompt": load.context_tokens, "output": load.output_tokens}
        formula = "output * prompt + output * (output - 1) / 2"
        value = load.output_tokens * load.context_tokens + load.output_tokens * (load.output_tokens - 1) / 2
        source = "every step computes its context: prompt, prompt + 1, ..."
        return (
            Step("without_cache_tokens", formula, known, value, source),
            Step("with_cache_tokens", "prompt + output - 1", known, known["prompt"] + known["output"] - 1, "each once"),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupedQueryAttention(Technique):
    """Groups of query heads share a KV head (GQA, arXiv:2305.13245), compared with one for each query head (MHA).

    Attributes
    ----------
    kv_heads : int, optional
        KV heads of every attention layer; the model's own if not given.
    """

    slug: ClassVar[str] = "gqa"
    name: ClassVar[str] = "GQA"
    helps: ClassVar[str] = "decode"
    why: ClassVar[str] = "fewer KV heads: less cache to read and to store"
    costs: ClassVar[str] = "a model trained for it"
    effort: ClassVar[str] = MODEL
    baseline: ClassVar[str] = "multi-head attention"

    kv_heads: int | None = None

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides the attention heads."""
        return ("the heads of attention",)

    def had(self, case: Scenario) -> bool:
        """Whether the model already has this number of KV heads, or none was given."""
        return all(block.kv_heads == (self.kv_heads or block.kv_heads) for block in attentions(case.model))

    def refusal(self, case: Scenario) -> str:
        """Reject models whose query heads do not share KV heads, unless ``kv_heads`` is given."""
        shares = self.kv_heads or any(block.kv_heads < block.query_heads for block in attentions(case.model))
        if shares:
            return ""
        return f"no query heads of {case.model.name} share KV heads: give kv_heads"

    def without(self, case: Scenario) -> Scenario:
        """Baseline: one KV head for each query head."""
        return case.with_model(with_blocks(case.model, _multi_head))

    def after(self, case: Scenario) -> Scenario:
        """Use the requested number of KV heads; by default the model's own."""
        wanted = self.kv_heads
        if wanted is None:
            return case
        return case.with_model(with_attention(case.model, lambda block: dataclasses.replace(block, kv_heads=wanted)))


@dataclass(frozen=True, eq=False, kw_only=True)
class MultiQueryAttention(GroupedQueryAttention):
    """All query heads share one KV head (MQA, arXiv:1911.02150), compared with one for each query head (MHA).

    Attributes
    ----------
    kv_heads : int
        KV heads of every attention layer.
    """

    slug: ClassVar[str] = "mqa"
    name: ClassVar[str] = "MQA"
    why: ClassVar[str] = "one KV head: the least cache to read and to store"
    costs: ClassVar[str] = "a model trained for it; accuracy"

    kv_heads: int | None = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class MultiHeadLatentAttention(Technique):
    """Cache one latent from which all heads are expanded (MLA, arXiv:2405.04434), instead of full heads (MHA).

    Models with MLA stay as they are. In other models a latent of width ``kv_rank + rope_dim`` replaces the KV heads.

    Attributes
    ----------
    kv_rank : int
        Width of the latent of keys and values; the default is DeepSeek-V2's.
    rope_dim : int
        Width of the rotary key, which carries positions.
    """

    slug: ClassVar[str] = "mla"
    name: ClassVar[str] = "MLA"
    helps: ClassVar[str] = "decode"
    why: ClassVar[str] = "one latent instead of keys and values of every head"
    costs: ClassVar[str] = "a model trained for it; more FLOPs per cached token"
    effort: ClassVar[str] = MODEL
    baseline: ClassVar[str] = "multi-head attention"

    kv_rank: int = 512
    rope_dim: int = 64

    def __post_init__(self) -> None:
        for name in ("kv_rank", "rope_dim"):
            number(name, getattr(self, name), least=1, whole=True)

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides the attention heads."""
        return ("the heads of attention",)

    def had(self, case: Scenario) -> bool:
        """Whether all attention layers of the model already cache a latent."""
        return not attentions(case.model)

    def refusal(self, case: Scenario) -> str:
        """Reject models that have no attention with a cache."""
        latent = any(isinstance(block, MLA) for block in blocks_of(case.model))
        if latent or attentions(case.model):
            return ""
        return f"{case.model.name} has no attention with a cache"

    def without(self, case: Scenario) -> Scenario:
        """Baseline: multi-head attention with full heads."""
        return case.with_model(with_blocks(case.model, _multi_head))

    def after(self, case: Scenario) -> Scenario:
        """Cache a latent in every attention layer."""
        return case.with_model(with_attention(case.model, self._latent))

    def _latent(self, block: Attention) -> Block:
        return MLA(
            hidden=block.hidden,
            heads=block.query_heads,
            kv_rank=self.kv_rank,
            rope_dim=self.rope_dim,
            nope_dim=block.head_dim,
            value_dim=block.value_width,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class FlashAttention(Technique):
    """Compute attention tile by tile, so that scores never go through memory (arXiv:2205.14135)."""

    slug: ClassVar[str] = "flash-attention"
    name: ClassVar[str] = "FlashAttention"
    helps: ClassVar[str] = "both"
    why: ClassVar[str] = "the N x N scores never leave the chip"
    costs: ClassVar[str] = "kernels for each generation of chips"
    effort: ClassVar[str] = KERNEL
    baseline: ClassVar[str] = "unfused attention"

    def had(self, case: Scenario) -> bool:
        """Whether the deployment already uses FlashAttention."""
        return case.serve.attention == "fused"

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides how attention runs."""
        return ("how attention runs",)

    def without(self, case: Scenario) -> Scenario:
        """Baseline: scores are written to memory and read back."""
        return case.replace(serve=case.serve.replace(attention="unfused"))

    def after(self, case: Scenario) -> Scenario:
        """Keep the scores on the chip."""
        return case.replace(serve=case.serve.replace(attention="fused"))

    def steps(self, case: Scenario) -> tuple[Step, ...]:
        """Bytes of the scores of one layer in prefill."""
        block = next(iter(attentions(case.model)), None)
        if block is None:
            return ()
        load = case.running
        known = {
            "batch": load.batch,
            "heads": block.query_heads,
            "prompt": load.prompt_tokens,
            "context": load.context_tokens,
            "value_bytes": case.serve.precision.wide_bits / 8,
        }
        formula = "4 * batch * heads * prompt * context * value_bytes"
        value = 4 * load.batch * block.query_heads * load.prompt_tokens * load.context_tokens * known["value_bytes"]
        return (
            Step("scores_bytes", formula, known, value, "written and read before and after the softmax, per layer"),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class SlidingWindow(Technique):
    """Attend only to the last tokens and evict older ones from the cache (arXiv:2004.05150).

    Attributes
    ----------
    tokens : int
        Maximum number of tokens that a query attends to, including itself.
    """

    slug: ClassVar[str] = "sliding-window"
    name: ClassVar[str] = "sliding window"
    helps: ClassVar[str] = "decode"
    why: ClassVar[str] = "evicted tokens are neither read nor stored"
    costs: ClassVar[str] = "evicted tokens are lost; a model trained for it"
    effort: ClassVar[str] = MODEL

    tokens: int = 4096

    def __post_init__(self) -> None:
        number("tokens", self.tokens, least=1, whole=True)

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides which tokens stay in the cache."""
        return ("which tokens stay in the cache",)

    @property
    def _kept(self) -> int:
        """Number of tokens kept in the cache."""
        return self.tokens

    def had(self, case: Scenario) -> bool:
        """Whether no layer has a wider window already."""
        blocks = attentions(case.model)
        return bool(blocks) and all(block.window is not None and block.window <= self._kept for block in blocks)

    def refusal(self, case: Scenario) -> str:
        """Reject models that have no attention layer to evict from."""
        if attentions(case.model):
            return ""
        return f"{case.model.name} has no attention layer to evict from"

    def after(self, case: Scenario) -> Scenario:
        """Give every attention layer a window, unless it already has a narrower one."""

        def windowed(block: Attention) -> Block:
            return dataclasses.replace(block, window=min(self._kept, block.window or self._kept))

        return case.with_model(with_attention(case.model, windowed))


@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionSinks(SlidingWindow):
    """Keep only the first and the last tokens in the cache (StreamingLLM, arXiv:2309.17453); needs no training.

    Attributes
    ----------
    tokens : int
        Number of most recent tokens that are kept, including the newest.
    sinks : int
        Number of first tokens that are kept; 4 are enough according to table 2 of the paper.
    """

    slug: ClassVar[str] = "attention-sinks"
    name: ClassVar[str] = "attention sinks"
    costs: ClassVar[str] = "evicted tokens are lost"
    effort: ClassVar[str] = FLAG

    sinks: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        number("sinks", self.sinks, whole=True)

    @property
    def _kept(self) -> int:
        return self.tokens + self.sinks


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoreEviction(Technique):
    """Evict tokens with low attention scores after prefill (H2O, SnapKV, RocketKV).

    Prefill is unchanged, and the last queries of the prompt decide which tokens stay. Decode keeps and reads only those
    (arXiv:2306.14048, arXiv:2404.14469, arXiv:2502.14051).

    Attributes
    ----------
    kept_tokens : int or array
        Tokens kept per sequence.
    """

    slug: ClassVar[str] = "kv-eviction"
    name: ClassVar[str] = "score-based eviction"
    helps: ClassVar[str] = "decode"
    why: ClassVar[str] = "tokens that get little attention are neither read nor stored"
    costs: ClassVar[str] = "evicted tokens are lost; scores that decide which stay"
    effort: ClassVar[str] = KERNEL

    kept_tokens: Number = 1024

    def __post_init__(self) -> None:
        number("kept_tokens", self.kept_tokens, least=1, whole=True)

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides which tokens stay in the cache."""
        return ("which tokens stay in the cache",)

    def refusal(self, case: Scenario) -> str:
        """Reject models that have no cache of tokens to evict from."""
        has = any(cache.values_per_token for _, cache in case.model.counted_caches())
        if has:
            return ""
        return f"{case.model.name} has no cache of tokens to evict from"

    def after(self, case: Scenario) -> Scenario:
        """Limit the cache of each sequence to ``kept_tokens``."""
        return case.replace(kept_tokens=self.kept_tokens)


@dataclass(frozen=True, eq=False, kw_only=True)
class HostOffload(Technique):
    """Keep a share of the cache in host memory; it crosses the host link in every step, which trades time for memory.

    Attributes
    ----------
    host : float or array
        Share of the cache in host memory.
    """

    slug: ClassVar[str] = "offload"
    name: ClassVar[str] = "KV offload to host"
    helps: ClassVar[str] = "decode"
    why: ClassVar[str] = "host memory holds what does not fit on the device"
    costs: ClassVar[str] = "traffic on the host link in every step"

    host: Number = 0.5

    def __post_init__(self) -> None:
        checked_share("host", self.host)

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides where the cache is stored."""
        return ("where the cache lives",)

    def refusal(self, case: Scenario) -> str:
        """Reject accelerators without a host link."""
        gpu = case.serve.accelerator
        if gpu.host_bytes_per_s is None:
            return f"{gpu.name} has no host_bytes_per_s"
        return ""

    def after(self, case: Scenario) -> Scenario:
        """Keep the given share of the cache in host memory."""
        return case.replace(host_share=self.host)


def blocks_of(model: Model) -> tuple[Block, ...]:
    """Blocks of one layer of each group of layers."""
    return tuple(block for layer in model.layers for block in layer.blocks)


def attentions(model: Model) -> tuple[Attention, ...]:
    """Softmax attention of one layer of each group of layers."""
    return tuple(block for block in blocks_of(model) if isinstance(block, Attention))


def with_blocks(model: Model, change: Callable[[Block], Block]) -> Model:
    """Copy of the model with ``change`` applied to every block."""
    layers = []
    for layer in model.layers:
        blocks = tuple(change(block) for block in layer.blocks)
        layers.append(dataclasses.replace(layer, blocks=blocks))
    return model.replace(layers=tuple(layers))


def with_attention(model: Model, change: Callable[[Attention], Block]) -> Model:
    """Copy of the model with ``change`` applied to every softmax attention block."""
    return with_blocks(model, lambda block: change(block) if isinstance(block, Attention) else block)


def _multi_head(block: Block) -> Block:
    """Copy of the block in which every query head has its own key and value."""
    if isinstance(block, Attention):
        return dataclasses.replace(block, kv_heads=block.query_heads)
    if isinstance(block, MLA):
        return Attention(
            hidden=block.hidden,
            query_heads=block.heads,
            kv_heads=block.heads,
            head_dim=block.nope_dim + block.rope_dim,
            value_dim=block.value_dim,
        )
    return block
