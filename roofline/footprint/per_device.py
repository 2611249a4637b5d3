"""Weights, caches and workspace on the most loaded accelerator of a deployment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..arrays import scalar
from ..errors import Number
from ..formats import cache_format
from ..model.blocks import Block, Cache
from ..model.rewriting import Rewritten
from ..operators.parallel import share
from ..operators.precision import AS_PUBLISHED
from ..operators.weights import Linear, Weight
from ..phases.deployment import Deployment
from ..phases.sequences import prompts_of
from ..phases.workload import Workload

SAMPLING_BYTES = 4
"""Logits are converted to fp32 before sampling."""


def weights_on_one(serve: Deployment) -> Number:
    """Bytes of weights on the most loaded accelerator.

    Pipeline stages have up to ``ceil(layers / stages)`` layers.  The first stage also has the embedding and the last
    one lm_head; a tied table is on both.  Within a layer, every matrix declares how it is divided.
    """
    return scalar(sum(weights_by_part(serve).values()))


def weights_by_part(serve: Deployment) -> dict[str, Number]:
    """Weights by part of the model; they add up to `weights_on_one`."""
    model, parallel = serve.model, serve.parallel
    parts: dict[str, Number] = {}
    stage = share(model.layer_count, parallel.pipeline)
    for count, weight in model.counted_weights():
        parts[weight.part] = parts.get(weight.part, 0.0) + _weight_bytes(count, weight, serve) * stage
    embedding, head = _ends(serve)
    first = embedding >= head
    staged = np.asarray(parallel.pipeline) > 1
    tied = model.embedding.parameters * serve.precision.part("embedding").weight_bits / 8
    own = np.maximum(head - tied * share(model.vocab, parallel.tensor), 0.0) if model.tied_embeddings else head
    parts["embedding"] = embedding * np.where(staged, first, 1.0)
    parts["lm_head"] = np.where(staged, head * ~np.asarray(first), own)
    factor = checkpoint_factor(serve)
    return {name: scalar(value * factor) for name, value in parts.items()}


def _ends(serve: Deployment) -> tuple[Number, Number]:
    """Lookup tables and lm_head."""
    model, bits = serve.model, serve.precision.part("embedding").weight_bits
    tables = sum(table.parameters for table in (model.embedding, *model.lookups))
    return tables * bits / 8 * share(model.vocab, serve.parallel.tensor), _weight_bytes(1, model.lm_head, serve)


def _weight_bytes(count: int, weight: Weight, serve: Deployment) -> Number:
    """Bytes of ``count`` weights on the most loaded accelerator of a tensor- and expert-parallel group."""
    precision, parallel = serve.precision, serve.parallel
    bits, bias_bits = precision.part(weight.part).weight_bits, precision.part("bias").weight_bits
    if not isinstance(weight, Linear):
        return count * weight.size * bits / 8
    routed = weight.part == "experts"
    copies = weight.copies * share(weight.copies, parallel.expert) if routed else weight.copies
    k, n = weight.shape_on(parallel.expert_tensor if routed else parallel.tensor)
    if isinstance(serve.model, Rewritten):
        bits = bits * serve.model.stored_share(weight, bits)
    return count * copies * (k * n * bits + (n * bias_bits if weight.bias else 0.0)) / 8


def cache_on_one(serve: Deployment, tokens: Number) -> Number:
    """Bytes of one sequence's cache on the most loaded accelerator.

    Tensor parallelism divides KV heads down to one per accelerator; a latent is not divided.
    """
    bits = cache_format(serve.precision.kv).bits
    return _on_one(serve, lambda cache: cache.bytes(tokens, bits))


def paged_cache_on_one(serve: Deployment, tokens: Number, *, page_tokens: Number, hybrid: bool) -> Number:
    """Bytes of one sequence's cache as allocated by an engine, in whole pages (`Cache.engine_bytes`)."""
    bits = cache_format(serve.precision.kv).bits
    return _on_one(serve, lambda cache: cache.engine_bytes(tokens, bits, page_tokens=page_tokens, hybrid=hybrid))


def _on_one(serve: Deployment, bytes_of: Callable[[Cache], Number]) -> Number:
    parallel = serve.parallel
    holders = parallel.tensor / parallel.decode_context
    whole = sum(count * bytes_of(cache) * share(cache.pieces, holders) for count, cache in serve.model.counted_caches())
    return whole * share(serve.model.layer_count, parallel.pipeline) / (parallel.context * parallel.decode_context)


def workspace_of_token(serve: Deployment) -> Number:
    """Bytes of activations per token of a step while its widest block runs.

    Layers run in sequence and reuse memory.  Live at the same time are the residual stream, its normalized copy, the
    outputs of the block's first matrices and the input of its last (for a gated MLP: 2 hidden + 3 intermediate).
    """
    model = serve.model
    alive: list[Number] = []
    for layer in model.layers:
        alive.extend(_alive(block, serve) for block in layer.blocks)
    widest: Number = np.max(np.stack(np.broadcast_arrays(*alive)), axis=0)
    return widest * serve.precision.wide_bits / 8


def _alive(block: Block, serve: Deployment) -> Number:
    """Number of live values per token in a block."""
    values: Number = 2.0 * block.hidden
    for weight in block.weights():
        if isinstance(weight, Linear):
            routed = weight.part == "experts"
            k, n = weight.shape_on(serve.parallel.expert_tensor if routed else serve.parallel.tensor)
            spread = serve.parallel.expert_replicas / serve.parallel.expert if routed else 1.0
            values = values + weight.used * spread * (k if weight.split == "rows" else n)
    return values


def workspace_of_chunk(serve: Deployment, load: Workload, step_tokens: Number) -> Number:
    """Bytes of activations of a step's prompt tokens, or of encoding its images; 0 for encoders."""
    if serve.model.encodes:
        return 0.0
    encoder = serve.model.encoder
    positions = encoder.positions if encoder and encoder.positions else 0
    tokens = np.maximum(np.minimum(load.prompt_tokens, step_tokens), positions) / serve.parallel.context
    return np.maximum(tokens * workspace_of_token(serve), media_workspace(serve, load))


def workspace_of_sequence(serve: Deployment, load: Workload) -> Number:
    """Bytes of activations and logits of one decoding sequence; for an encoder, of all its tokens."""
    tokens = load.prompt_tokens if serve.model.encodes else 1
    return workspace_of_token(serve) * tokens + logits_of_sequence(serve)


def media_workspace(serve: Deployment, load: Workload) -> Number:
    """Bytes of 16-bit activations for encoding the images and audio of one prompt."""
    if not load.has_media:
        return 0.0
    segment = prompts_of(serve, load)  # raises if the model cannot encode them
    found: Number = 0.0
    for tower in serve.model.towers.values():
        images, positions = tower.encoded(segment)
        wide = max(4 * tower.hidden, (3 if tower.gated else 2) * tower.intermediate)
        found = np.maximum(found, images * positions * (2 * tower.hidden + wide) * 16 / 8)
    return scalar(found)


def logits_of_sequence(serve: Deployment) -> Number:
    """Bytes of one sequence's logits, gathered and in the sampling format; 0 for an encoder."""
    logits = 0 if serve.model.encodes else serve.model.vocab
    return logits * (serve.precision.wide_bits / 8 + SAMPLING_BYTES)


def tower_bytes(serve: Deployment) -> Number:
    """Bytes of image and audio encoders in 16 bits, complete on every accelerator, unless left out."""
    if "towers" in serve.leave_out:
        return 0.0
    return serve.model.tower_parameters * 16 / 8 * checkpoint_factor(serve)


def prediction_bytes(serve: Deployment) -> Number:
    """Bytes of multi-token prediction layers, unless left out or not loaded by the engine.

    They are stored and divided like the model's layers, and are complete on the last pipeline stage.  Their bytes per
    parameter are therefore those of the language model without a pipeline.
    """
    parameters = serve.model.prediction_parameters
    if not parameters or "prediction" in serve.leave_out or not serve.server.loads_prediction:
        return 0.0
    in_one_stage = serve.replace(parallel=replace(serve.parallel, pipeline=1))
    return parameters * weights_on_one(in_one_stage) / serve.model.parameters.total


def checkpoint_factor(serve: Deployment) -> float:
    """Size stated by the checkpoint's index or header, divided by the size from shapes and formats.

    1 if the checkpoint states no size, or if the weights have other formats than the checkpoint.
    """
    stated = serve.model.checkpoint_bytes
    published = serve.model.precision or AS_PUBLISHED
    if stated is None or serve.precision != published or isinstance(serve.model, Rewritten):
        return 1.0
    return stated / serve.model.stored_bytes(published)


def resident_by_part(serve: Deployment, *, draft_bytes: Number = 0.0) -> dict[str, Number]:
    """Bytes of all weights on the most loaded accelerator by part, including towers and drafters.

    ``draft_bytes`` are those of a drafter in addition to the model's own multi-token prediction layers.
    """
    beside = {"towers": tower_bytes(serve), "draft": draft_bytes, "prediction": prediction_bytes(serve)}
    return weights_by_part(serve) | {name: value for name, value in beside.items() if np.any(value)}
