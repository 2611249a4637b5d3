"""Encoding: the single pass of an encoder."""

from __future__ import annotations

from ..errors import InvalidInput
from .deployment import Deployment
from .passes import Phase, prefill
from .workload import Workload


def encode(serve: Deployment, load: Workload) -> Phase:
    """Run an encoder over a batch, for embeddings or for a reranker's scores.

    All tokens of a sequence attend to each other, ``S^2`` pairs for ``S`` tokens, or fewer in layers with windows.
    Nothing is cached. A pooler or a classifier runs on one position of each sequence; a head that predicts masked
    tokens does not run.

    Parameters
    ----------
    serve : Deployment
        Deployment of an encoder.
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
        The model is a decoder (use `prefill`), tokens are cached, or sequences are divided over accelerators.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment("bge-m3", "l4")
    >>> found = rl.encode(serve, rl.Workload(prompt_tokens=512, batch=32))
    >>> f"{found.flops:.3e} {found.cache_bytes} {found.limit}"
    '1.073e+13 0.0 compute'
    """
    found = prefill(serve, load)
    if found.name != "encode":
        raise InvalidInput(f"{serve.model.name} is a decoder; use prefill for its pass over prompts")
    return found
