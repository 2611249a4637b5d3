"""Shared experts on a stream of their own, beside the routed ones.

Every token of a mixture goes through its shared experts as well as through the routed ones, and neither waits for the
other.  In a captured decode step of few tokens, engines run the two side by side on two CUDA streams
(``shared_stream_tokens``), or shared experts as one more expert of the routed kernel.  Kernels that run side by side
still share the chip: each takes at least its roofline time of it, while the rest of its time (launching, filling and
draining the chip, waiting for memory) passes beside the other's.  With the times of the two in turns, ``shared_s`` and
``routed_s``, the two together take

    max(shared_s + routed_roofline_s, routed_s + shared_roofline_s),

so that a step is shorter by

    hidden_s = min(shared_s - shared_roofline_s, routed_s - routed_roofline_s).

Measured: 1.26 ms a step of DeepSeek-R1 in FP8 on eight B200 with 32 sequences (vLLM, pull request 26440), 1.48 ms of
GLM-4.6 in FP8 with one (SGLang, pull request 13786), 0.30 ms of Kimi Linear on two accelerators (SGLang, pull request
12660).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from ..arrays import larger, smaller, where
from .bounds import Bound
from .host import HostTimes


class Branch(NamedTuple):
    """Kernels of one of the two streams: time one after another, fixed part of it, and time at the roofline."""

    time_s: Any
    fixed_s: Any
    roofline_s: Any

    def idle_s(self, host: HostTimes) -> Any:
        """Return the time in a graph that the branch leaves the chip to others."""
        return self.time_s - (1.0 - host.launch_share) * self.fixed_s - self.roofline_s


class Branches(NamedTuple):
    """The two streams of the mixtures of a pass, and the tokens that they work on."""

    shared: Branch
    routed: Branch
    tokens: Any

    @property
    def flat(self) -> tuple[Any, ...]:
        """Return all numbers, as a table holds them."""
        return (*self.shared, *self.routed, self.tokens)

    @classmethod
    def of(cls, flat: Any) -> Branches:
        """Return the streams of `flat` numbers, the last axis of an array."""
        *numbers, tokens = np.moveaxis(np.asarray(flat), -1, 0)
        return cls(Branch(*numbers[:3]), Branch(*numbers[3:]), tokens)

    def hidden_s(self, host: HostTimes) -> Any:
        """Return by how much a step in a graph is shorter than with one branch after the other."""
        together = smaller(self.shared.idle_s(host), self.routed.idle_s(host))
        return where(self.tokens <= host.shared_stream_tokens, larger(together, 0.0), 0.0)


def branches(bounds: Sequence[Bound]) -> Branches | None:
    """Return the streams of shared and of routed experts; None if there are no shared experts beside routed ones."""
    shared = [item for item in bounds if item.operator.name.startswith("shared_")]
    routed = [item for item in bounds if item.operator.kind == "experts" or item.operator.name.startswith("router")]
    if not shared or not routed:
        return None
    return Branches(_branch(shared), _branch(routed), shared[0].operator.inputs["m"])


def _branch(items: Sequence[Bound]) -> Branch:
    found = [(item.estimate.time_s, item.estimate.fixed_s, item.roofline_s) for item in items]
    return Branch(*(reduce(add, column) for column in zip(*found, strict=True)))
