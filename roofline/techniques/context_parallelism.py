"""Context parallelism: divide the cached tokens of a sequence among ranks, instead of storing copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import number
from ..serving.scenario import Scenario
from .expert_layouts import spread
from .technique import FLAG, Technique


@dataclass(frozen=True, eq=False, kw_only=True)
class DecodeContextParallelism(Technique):
    """Divide the cached tokens of a sequence among ranks that would otherwise store copies of the whole cache.

    Tensor parallelism copies the cache if there are more ranks than KV heads, and always copies the latent of MLA. If
    the cache is divided by tokens, each of ``d`` ranks stores and reads ``1 / d`` of it, so ``d`` times as many
    sequences fit. This takes two more messages per layer: queries are gathered before attention, and partial results
    are merged after it (Helix, arXiv:2507.07120; ``--decode-context-parallel-size``). At short contexts the messages
    cost more than they gain.

    Attributes
    ----------
    ways : int, optional
        Number of ranks that share the cache of a sequence; by default all that would otherwise store copies of it.
    """

    slug: ClassVar[str] = "dcp"
    name: ClassVar[str] = "decode context parallelism"
    helps: ClassVar[str] = "decode"
    why: ClassVar[str] = "no copies of the cache: each rank reads and stores its part of the tokens"
    costs: ClassVar[str] = "two messages per layer in every decode step"
    effort: ClassVar[str] = FLAG

    ways: int | None = None

    def __post_init__(self) -> None:
        if self.ways is not None:
            number("ways", self.ways, least=1, whole=True)

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides how the cache is divided."""
        return ("how the cache is divided",)

    def _ways(self, case: Scenario) -> Any:
        """Number of ranks that store the same part of the cache."""
        pieces = max((cache.pieces for _, cache in case.model.counted_caches()), default=1)
        copies = np.maximum(np.asarray(case.serve.parallel.tensor) // pieces, 1)
        if self.ways:
            return np.broadcast_to(self.ways, copies.shape)[()]
        return copies[()]

    def refusal(self, case: Scenario) -> str:
        """Reject layouts in which no rank stores a copy of the cache."""
        tensor, ways = int(np.max(case.serve.parallel.tensor)), int(np.max(self._ways(case)))
        if ways < 2:
            return f"tensor is {tensor}: no rank holds a copy of another one's cache"
        if tensor % ways:
            return f"ways must divide the {tensor} ranks of a layer: {ways}"
        return ""

    def had(self, case: Scenario) -> bool:
        """Whether the cache is already divided by tokens."""
        return bool(np.all(np.asarray(case.serve.parallel.decode_context) >= np.maximum(self._ways(case), 2)))

    def after(self, case: Scenario) -> Scenario:
        """Divide the cache by tokens."""
        return spread(case, decode_context=self._ways(case))
