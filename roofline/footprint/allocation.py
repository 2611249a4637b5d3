"""Allocation: how an engine allocates the cache, and drafters that are resident beside the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..arrays import larger
from ..errors import InvalidInput, Number, number
from ..operators.precision import QUANTIZED_PARTS
from ..phases.deployment import Deployment
from ..specs.engines import Engine
from ..values import Value
from .per_device import prediction_bytes, resident_by_part, weights_on_one


@dataclass(frozen=True, eq=False)
class Paging(Value):
    """How an engine allocates the KV cache.

    Attributes
    ----------
    page_tokens : int or array, optional
        Tokens per page (vLLM's ``block_size``). None uses the engine's, or 16 without an engine.
    hybrid : bool
        Whether windowed layers only keep their window (see `Model.engine_cache_bytes`).
    step_tokens : int or array, optional
        Largest number of prompt tokens in a step (vLLM's ``max_num_batched_tokens``); longer prompts are split into
        chunks. None uses the engine's, or 8,192 without an engine.
    reserved_tokens : int or array, optional
        Tokens reserved for each sequence, as in engines without pages. None allocates pages as a sequence grows.
    shared_tokens : int or array
        Length of a prefix shared by all sequences and stored once.
    host_share : float or array
        Share of each sequence's cache in host memory.
    weights_host_share : float or array
        Share of the layers' weights in host memory.
    experts_alone : bool
        Whether ``weights_host_share`` applies to routed experts only, with all other weights on the accelerator.
    """

    page_tokens: Number | None = None
    hybrid: bool = True
    step_tokens: Number | None = None
    reserved_tokens: Number | None = None
    shared_tokens: Number = 0
    host_share: Number = 0.0
    weights_host_share: Number = 0.0
    experts_alone: bool = True

    def __post_init__(self) -> None:
        for name in ("page_tokens", "step_tokens"):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), least=1, whole=True)
        if self.reserved_tokens is not None:
            number("reserved_tokens", self.reserved_tokens, least=1, whole=True)
        number("shared_tokens", self.shared_tokens, whole=True)
        for name in ("host_share", "weights_host_share"):
            given = getattr(self, name)
            if np.any(np.asarray(number(name, given)) > 1):
                raise InvalidInput(f"{name} must be a share from 0 to 1: {float(np.max(given)):g}")

    def of_engine(self, engine: Engine) -> Engine:
        """``engine`` with the settings given here."""
        given = {"page_tokens": self.page_tokens, "step_tokens": self.step_tokens}
        settings = {name: float(np.max(value)) for name, value in given.items() if value is not None}
        return engine.replace(**settings) if settings else engine

    def moved_to_host(self, serve: Deployment, draft_bytes: Number = 0.0) -> Number:
        """Weights of the most loaded accelerator that are in host memory instead, in bytes."""
        if not np.any(self.weights_host_share):
            return 0.0
        parts = resident_by_part(serve, draft_bytes=draft_bytes)
        return sum(parts.values()) - sum(self.left_on_device(parts).values())

    def left_on_device(self, weights_by_part: Mapping[str, Number]) -> dict[str, Number]:
        """Weights by part, without those in host memory."""
        moved = ("experts",) if self.experts_alone else QUANTIZED_PARTS
        left = 1.0 - self.weights_host_share
        return {name: size * left if name in moved else size for name, size in weights_by_part.items()}


@dataclass(frozen=True, eq=False)
class Drafter(Value):
    """A drafter that is resident beside the model.

    Attributes
    ----------
    deployment : Deployment, optional
        Deployment of a draft model with its own weights and cache.
    share : float or array
        Weights and cache of drafting layers as a share of the model's, if no draft model is given.
    own_layers : bool
        Whether the draft model is made of the model's own multi-token prediction layers.
    """

    deployment: Deployment | None = None
    share: Number = 0.0
    own_layers: bool = False

    def bytes_beside(self, serve: Deployment) -> Number:
        """Bytes of the drafter on the most loaded accelerator, without layers that are loaded anyway."""
        if self.deployment is not None:
            loaded_bytes = prediction_bytes(serve) if self.own_layers else 0.0
            return larger(weights_on_one(self.deployment) - loaded_bytes, 0.0)
        return self.share * weights_on_one(serve) if np.any(self.share) else 0.0


NO_DRAFTER = Drafter()
