"""Sequences of a workload as segments of a pass: prompts that are computed, and sequences that decode."""

from __future__ import annotations

from ..arrays import anywhere, smaller
from ..errors import Number
from ..model import Model
from ..operators.operator import Segment
from .deployment import Deployment
from .encoder_rules import check_encoding
from .media import check_media
from .workload import Workload, check_load


def prompts_of(serve: Deployment, load: Workload) -> Segment:
    """The prompts of a workload.

    Of an encoder-decoder the source is encoded and the decoder computes its first tokens: the one that starts it where
    the prompt is the source (T5), the prompt's where the source is sound (Whisper).

    Raises
    ------
    InvalidInput
        They have images or sound that the deployment has no encoder for, or more of them than tokens; or the model has
        an encoder of text or sound that can't take them.
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
    if load.has_media:
        check_media(serve, found)
    return found


def steps_of(
    model: Model, batch: Number, context_tokens: Number, *, shared: Number = 0.0, prompt_tokens: Number = 0.0
) -> Segment:
    """Sequences that decode; what is cached of their prompts may be a prefix that they share.

    Of an encoder-decoder the cache holds the source and what the decoder has computed, the token that starts it
    included.
    """
    if model.encoder is not None:
        positions = model.encoder.positions
        if positions is not None:
            return Segment(batch, 1.0, context_tokens, source_tokens=float(positions))
        source = smaller(prompt_tokens, context_tokens)
        return Segment(batch, 1.0, context_tokens - source + 1.0, source_tokens=source)
    if anywhere(shared > 0):
        shared = smaller(shared, context_tokens)
    return Segment(batch, 1.0, context_tokens, shared_tokens=shared)
