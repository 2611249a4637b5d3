"""Collectives that a layout adds to a model, as operators.

If the last matrix of a block is divided by rows, every accelerator has a partial sum.  So tensor parallelism adds an
all-reduce of the residual stream after each block: two per layer, for attention and MLP.  If attention and MLP run in
parallel there is one per layer, for the sum of both (as in GPT-J, github.com/kingoflolz/mesh-transformer-jax).  Experts
that span several replicas of attention receive their tokens by an all-to-all (dispatch) and return them by another
(combine).
"""

from __future__ import annotations

from collections.abc import Iterator

from ..arrays import anywhere, where
from ..errors import Number
from ..operators.collectives import collective
from ..operators.links import Message, Relay
from ..operators.operator import Operator, Pass
from ..operators.parallel import share
from ..operators.softmax_attention import decodes
from ..operators.weights import Linear
from .blocks import Attention, Block
from .blocks.latent_attention import MLA


def behind_blocks(blocks: tuple[Block, ...], run: Pass) -> Iterator[Operator]:
    """Yield collectives after blocks whose outputs are added: one all-reduce, and those of experts and caches."""
    parallel = run.parallel
    reduced, reduced_apart = False, False
    after: list[Operator] = []
    for block in blocks:
        matrices = [weight for weight in block.weights() if isinstance(weight, Linear)]
        if not any(weight.split == "rows" for weight in matrices):
            continue
        routed = next((weight for weight in matrices if weight.part == "experts" and weight.copies > 1), None)
        if routed is not None:
            reduced_apart = True
            spans = parallel.expert_replicas > 1
            if anywhere(spans):
                after.extend(_to_experts(block.hidden, routed.used, spans, run))
        else:
            reduced = True
        if block.caches() and anywhere(parallel.context > 1):
            after.append(_over_context(block, run))
        if block.caches() and anywhere(parallel.decode_context > 1):
            after.extend(_over_decode_context(block, run))
    if not (reduced or reduced_apart):
        return
    stream_bytes = run.tokens * blocks[0].hidden * (run.precision.wide_bits / 8)
    # Experts that span replicas return tokens by the combine, so nothing is left to reduce after them alone.
    group = parallel.tensor if reduced else where(parallel.expert_replicas > 1, 1, parallel.tensor)
    yield collective("all_reduce", Message("all_reduce", stream_bytes, group, stream_bytes), run)
    yield from after


def _to_experts(hidden: int, top_k: int, spans: Number, run: Pass) -> Iterator[Operator]:
    """Yield dispatch and combine: a token goes once to each accelerator with one of its experts, or a part.

    With ``k`` of the experts chosen uniformly over ``n`` groups of accelerators, ``n (1 - (1 - 1 / n) ** k)`` of them
    are expected to hold at least one.  A group is the accelerators that divide an expert: one, unless ``moe_tensor`` is
    set.  With one group this is an all-gather and a reduce-scatter.  The accelerators of a tensor-parallel group share
    the tokens.  In the best case every chosen expert is local, so the least is 0.  With ``expert_nodes`` a token
    crosses the network once per node.
    """
    parallel, precision = run.parallel, run.precision
    groups = where(spans, parallel.expert, 1)
    ranks = where(spans, parallel.expert * parallel.expert_tensor, 1)
    visited = ranks * (1 - (1 - 1 / groups) ** top_k)
    tokens = run.tokens / parallel.tensor
    fed_bits = min(precision.activation_bits, precision.wide_bits)
    for name, bits in (("dispatch", fed_bits), ("combine", precision.wide_bits)):
        once = tokens * hidden * (bits / 8)
        relay = None if parallel.expert_nodes is None else Relay(once, top_k, parallel.expert_nodes)
        yield collective(name, Message("all_to_all", once * visited, ranks, 0.0, relay), run)
    whole = run.tokens * hidden * (precision.wide_bits / 8)
    yield collective("gather", Message("all_gather", whole, where(spans, parallel.tensor, 1), 0.0), run)


def _over_context(block: Block, run: Pass) -> Operator:
    """Return context parallelism's ring: new keys and values visit all accelerators that share a sequence."""
    values = sum(cache.values_per_token for cache in block.caches())
    tokens = sum(segment.tokens for segment in run.segments)
    kv_bytes = tokens * values * (run.precision.kv_bits / 8)
    return collective("kv_gather", Message("all_gather", kv_bytes, run.parallel.context, 0.0), run)


def _over_decode_context(block: Block, run: Pass) -> Iterator[Operator]:
    """Yield decode context parallelism: queries of all heads go to every part of the cache, results return.

    A rank computes the heads of its whole group on its part of the tokens.  So queries are gathered before attention,
    and results, weighted by their softmax sums, are reduced and scattered after it (Helix, arXiv:2507.07120, section
    2).
    """
    if not isinstance(block, Attention | MLA):
        return
    ways = run.parallel.decode_context
    decoding = sum(where(decodes(each), each.tokens, 0.0) for each in run.segments)
    if isinstance(block, MLA):
        heads, key_dim, value_dim = block.heads, block.latent, block.kv_rank
    else:
        heads, key_dim, value_dim = block.query_heads, block.head_dim, block.value_width
    values = decoding * heads * share(heads, run.parallel.tensor / ways) * (run.precision.wide_bits / 8)
    for name, kind, width in (("gather_queries", "all_gather", key_dim), ("merge_parts", "reduce_scatter", value_dim)):
        yield collective(name, Message(kind, values * width, ways, 0.0), run)


def around_layers(hidden: int, vocab: int, run: Pass) -> Iterator[Operator]:
    """Yield the gather of logits from a divided lm_head, and sends of the residual stream between stages."""
    parallel, wide = run.parallel, run.precision.wide_bits / 8
    if vocab:
        logits = Message("all_gather", run.emitted_tokens * vocab * wide, parallel.tensor, 0.0)
        yield collective("logits_gather", logits, run)
    stream_bytes = run.tokens * hidden * wide / parallel.tensor
    stages = where(parallel.pipeline > 1, parallel.tensor * parallel.pipeline, 1)
    handover = collective("handover", Message("send", stream_bytes, stages, stream_bytes), run)
    yield handover.times(parallel.pipeline - 1)
