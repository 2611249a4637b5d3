"""Rules for encoders: models that run one pass, without a cache and without generated tokens."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..errors import InvalidInput
from ..model import Model
from .deployment import Deployment
from .workload import Workload


def encoder_refusal(model: Model, name: str) -> str:
    """Return why the pass called ``name`` is not available for this model."""
    if model.encodes:
        return f"{model.name} is an encoder, which runs in one pass (encode) and generates no tokens: no {name} for it"
    return f"{model.name} is a decoder; use prefill for its pass over prompts"


def refuse_encoders(model: Model, what: str) -> None:
    """Reject an encoder where only decoders are supported.

    Raises
    ------
    InvalidInput
        The model is an encoder or an encoder-decoder.
    """
    if model.encodes:
        raise InvalidInput(encoder_refusal(model, what))
    if model.encoder is not None:
        raise InvalidInput(
            f"{model.name} is an encoder-decoder, which {what} does not support; prefill, decode, generate, memory, "
            "serve, simulate, plan and fleet do"
        )


def check_encoding(serve: Deployment, load: Workload) -> None:
    """Reject prompts that an encoder of text or sound cannot process.

    Raises
    ------
    InvalidInput
        Tokens are cached, sequences are divided over accelerators, there are images, or the sound exceeds one window.
    """
    model = serve.model
    if np.any(load.cached_tokens):
        raise InvalidInput(f"cached_tokens must be 0: {model.name} encodes whole sequences and caches no part of them")
    if np.any(np.asarray(serve.parallel.context) > 1):
        raise InvalidInput(f"context must be 1: the sequences of an encoder ({model.name}) are not divided here")
    if np.any(load.images):
        raise InvalidInput(f"images must be 0: {model.name} has no encoder of images")
    window_s = model.encoder.window_s if model.encoder else 0.0
    if np.any(np.asarray(load.audio_s) > window_s):
        if not window_s:
            raise InvalidInput(f"audio_s must be 0: {model.name} has no encoder of sound")
        raise InvalidInput(
            f"audio_s must be at most {window_s:g}: a sequence of {model.name} is one window of sound, and batch counts"
            " the windows"
        )


def encoder_notes(model: Model) -> Iterator[str]:
    """Yield notes on the parts of an encoder that never run and those that always do."""
    if model.encoder is not None and model.encoder.window_s:
        yield f"every sequence is a window of {model.encoder.window_s:g} s of sound, silence at the end included"
    if model.encodes and model.has_lm_head:
        yield f"the head of {model.name} that predicts masked tokens is resident and does not run"
