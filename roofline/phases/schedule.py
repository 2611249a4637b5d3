"""Schedule: how a pass of the whole deployment becomes microbatches of one accelerator."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from ..errors import Number
from ..operators.operator import Segment
from ..operators.parallel import Parallel


class Schedule(NamedTuple):
    """How a pass runs on a pipeline and over replicas.

    ``segments`` is what one accelerator sees in one microbatch, ``microbatches`` how many of those there are,
    ``rounds`` the time of all in passes through all layers, ``busy`` the share of a pass's work that the busiest
    accelerator has to do in the least time, and ``once`` the same for what it has to read at least once.
    """

    segments: tuple[Segment, ...]
    microbatches: Number
    rounds: Number
    busy: Number
    once: Number


def schedule_pass(name: str, parallel: Parallel, segments: tuple[Segment, ...]) -> Schedule:
    """The schedule of a pass called ``name``.

    Replicas share the sequences, the most loaded one ``ceil(B / data)``.  A pipeline of ``p`` stages decodes in ``p``
    microbatches, fewer if there are fewer sequences, one in each stage, and each token passes all stages: a step takes
    one pass of a microbatch.  It prefills its ``b`` sequences one by one and takes ``(b + p - 1) / p`` passes, bubble
    included (GPipe, arXiv:1811.06965, section 2.3); finer chunks would close the bubble, so the least is ``b / p``.
    """
    if parallel.single:
        return Schedule(segments, 1.0, 1.0, 1.0, 1.0)
    stages = np.asarray(parallel.pipeline, dtype=float)
    shares = tuple(np.ceil(each.sequences / parallel.data) for each in segments)
    if name == "prefill":
        (share,) = shares
        staged = stages > 1
        sequences = np.where(staged, 1.0, share)[()]
        cut = tuple(replace(each, sequences=sequences, sharing=share) for each in segments)
        passes = np.where(staged, share, 1.0)[()]
        rounds = np.where(staged, (share + stages - 1) / stages, 1.0)[()]
        return Schedule(cut, passes, rounds, (passes / stages)[()], (1.0 / stages)[()])
    parts = tuple(np.ceil(share / stages) for share in shares)
    cut = tuple(
        replace(each, sequences=part[()], sharing=share)
        for each, part, share in zip(segments, parts, shares, strict=True)
    )
    microbatches = reduce(
        np.maximum, (np.ceil(share / np.maximum(part, 1.0)) for share, part in zip(shares, parts, strict=True))
    )
    return Schedule(cut, microbatches, 1.0, 1.0, 1.0)
