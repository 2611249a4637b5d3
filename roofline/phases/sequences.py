"""Segments of a pass from a workload: prompts to compute, and sequences that decode."""

from __future__ import annotations

from dataclasses import replace

from ..arrays import anywhere, smaller
from ..errors import Number
from ..model import Model
from ..operators.operator import Segment
from .deployment import Deployment
from .encoder_rules import check_encoding
from .media import check_media
from .workload import Workload, check_load


def prompts_of(serve: Deployment, load: Workload) -> Segment:
    """Return the prompts of a workload as segments.

    An encoder-decoder encodes the source, and its decoder computes its first tokens.  These are a start token if the
    prompt is the source (T5), or the prompt if the source is sound (Whisper).

    Raises
    ------
    InvalidInput
        The deployment has no encoder for the images or sound, a prompt has fewer tokens than they produce, or the
        model's encoder cannot process the prompts.
    """
    check_load(load)
    model, cached = serve.model, load.cached_tokens
    if model.encodes or model.encoder is not None:
        check_encoding(serve, load)
    if model.encoder is not None:
        if model.encoder.positions is None:
            prompt = load.prompt_tokens
            return Segment(load.batch, 1.0, 0.0, source_tokens=prompt, encoded_tokens=prompt)
        positions = float(model.encoder.positions)
        return Segment(load.batch, load.prompt_tokens, 0.0, source_tokens=positions, encoded_tokens=positions)
    found = Segment(
        load.batch,
        load.prompt_tokens,
        cached,
        shared_tokens=cached,
        images=load.images,
        image_tokens=load.image_tokens,
        audio_s=load.audio_s,
    )
    if not load.has_media:
        return found
    check_media(serve, found)
    beside = model.looked_at(load.images, load.image_tokens)
    if anywhere(beside):
        return replace(found, source_tokens=beside, encoded_tokens=beside)
    return found


def steps_of(
    model: Model,
    batch: Number,
    context_tokens: Number,
    *,
    shared: Number = 0.0,
    prompt_tokens: Number = 0.0,
    looked_at: Number = 0.0,
) -> Segment:
    """Return sequences that decode; the cached part of their prompts may be a shared prefix.

    The cache of an encoder-decoder contains the source and the decoder's tokens, including the start token.  Layers of
    cross-attention look at ``looked_at`` positions of images.
    """
    if model.encoder is not None:
        positions = model.encoder.positions
        if positions is not None:
            return Segment(batch, 1.0, context_tokens, source_tokens=float(positions))
        source = smaller(prompt_tokens, context_tokens)
        return Segment(batch, 1.0, context_tokens - source + 1.0, source_tokens=source)
    if anywhere(shared > 0):
        shared = smaller(shared, context_tokens)
    return Segment(batch, 1.0, context_tokens, shared_tokens=shared, source_tokens=looked_at)
