"""Encoders: models of one pass, without a cache and without tokens that come out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InvalidInput
from ..model import Model

if TYPE_CHECKING:
    from .deployment import Deployment
    from .passes import Phase
    from .workload import Workload


def encode(serve: Deployment, load: Workload) -> Phase:
    """The pass of an encoder over a batch: embeddings of its sequences, or scores of a reranker.

    All tokens of a sequence attend to each other, ``S^2`` pairs for ``S`` tokens, or fewer in layers with windows.
    Nothing is cached. A pooler or a classifier runs on one position of each sequence; a head that predicts masked
    tokens does not run.

    Parameters
    ----------
    serve : Deployment
        An encoder, and what it runs on.
    load : Workload
        ``batch`` sequences of ``prompt_tokens``; for a reranker, query and passage together. Output lengths are
        ignored.

    Returns
    -------
    Phase
        The pass, called ``encode``.

    Raises
    ------
    InvalidInput
        The model is a decoder, whose pass over prompts is `prefill`; tokens are cached; or sequences are divided over
        accelerators.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment("bge-m3", "l4")
    >>> found = rl.encode(serve, rl.Workload(prompt_tokens=512, batch=32))
    >>> f"{found.flops:.3e} {found.cache_bytes} {found.limit}"
    '1.073e+13 0.0 compute'
    """
    from .passes import prefill

    found = prefill(serve, load)
    if found.name != "encode":
        raise InvalidInput(f"{serve.model.name} is a decoder: its pass over prompts is prefill")
    return found


def encoder_refusal(model: Model, name: str) -> str:
    """Why a pass of that name can't be of this model."""
    if model.encodes:
        return f"{model.name} is an encoder, which runs in one pass (encode) and generates no tokens: no {name} for it"
    return f"{model.name} is a decoder: its pass over prompts is prefill"


def refuse_encoders(model: Model, what: str) -> None:
    """Refuse what only decoders have.

    Raises
    ------
    InvalidInput
        The model is an encoder, or has one.
    """
    if model.encodes:
        raise InvalidInput(encoder_refusal(model, what))
    if model.encoder is not None:
        raise InvalidInput(
            f"{model.name} is an encoder-decoder: prefill, decode, generate and memory know it, not yet {what}"
        )


def check_encoding(serve: Deployment, load: Workload) -> None:
    """Refuse prompts that an encoder of text or sound can't take.

    Raises
    ------
    InvalidInput
        Tokens are cached, sequences are divided over accelerators, or they have images or other sound than one window.
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
    """What an encoder does not run, and what it runs in any case."""
    if model.encoder is not None and model.encoder.window_s:
        yield f"every sequence is a window of {model.encoder.window_s:g} s of sound, silence at the end included"
    if model.encodes and model.has_lm_head:
        yield f"the head of {model.name} that predicts masked tokens is resident and does not run"
