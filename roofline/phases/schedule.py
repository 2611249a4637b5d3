"""Schedule: how a pass of the whole deployment becomes microbatches of one accelerator."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from ..arrays import ceil, larger, smaller, where
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


def schedule_pass(
    name: str, parallel: Parallel, segments: tuple[Segment, ...], chunk_tokens: Number = np.inf
) -> Schedule:
    """The schedule of a pass called ``name``.

    Replicas share the sequences, the most loaded one ``ceil(B / data)``.  A pipeline of ``p`` stages decodes in ``p``
    microbatches, fewer if there are fewer sequences, one in each stage, and each token passes all stages: a step takes
    one pass of a microbatch.

    It prefills in ``m = max(min(p, b), b S / chunk)`` passes: enough to fill the stages, and none beyond the engine's
    budget of tokens, for which several sequences share a pass or one is cut into chunks.  They take ``(m + p - 1) / p``
    passes through all layers, bubble included (GPipe, arXiv:1811.06965, section 2.3).  Passes are full but the last
    one, which counts as the part of a pass that it is, and sequences that do not divide are an average: more of them or
    longer ones never make the bubble shorter than they make the passes long.

    Sequences of one pass read a prefix that they share once for all of them.  Those of another microbatch come to a
    stage later and read it again, as they do the weights; prompts that start together are different in that their
    weights and their prefix may stay on the chip, of which the floor makes use.

    Parameters
    ----------
    name : str
        ``prefill`` or ``encode`` for prompts that start together; any other is a step. An encoder needs a sequence
        whole, so none is cut into chunks.
    parallel : Parallel
        How the model is spread.
    segments : tuple of Segment
        The sequences of the whole deployment.
    chunk_tokens : float
        Most tokens of a pass over prompts.
    """
    if parallel.single:
        return Schedule(segments, 1.0, 1.0, 1.0, 1.0)
    stages = parallel.pipeline
    shares = tuple(ceil(each.sequences / parallel.data) for each in segments)
    if name in ("prefill", "encode"):
        return _prompts(parallel, segments[0], shares[0], chunk_tokens if name == "prefill" else np.inf)
    parts = tuple(ceil(share / stages) for share in shares)
    cut = tuple(replace(each, sequences=part, sharing=part) for each, part in zip(segments, parts, strict=True))
    microbatches = reduce(larger, (ceil(share / larger(part, 1.0)) for share, part in zip(shares, parts, strict=True)))
    return Schedule(cut, microbatches, 1.0, 1.0, 1.0)


def _prompts(parallel: Parallel, segment: Segment, share: Number, chunk_tokens: Number) -> Schedule:
    """Prompts that start together; a chunk from the middle of a prompt has as many pairs as its chunks on average.

    ``c`` chunks of ``S / c`` tokens behind ``P + i S / c`` earlier ones have the ``S P + S (S + 1) / 2`` pairs of the
    whole prompt, which is ``c`` times the pairs of one behind ``P + (S - S / c) / 2``.
    """
    stages = parallel.pipeline
    staged = stages > 1
    new = segment.new_tokens
    wanted = larger(smaller(stages, share), share * new / chunk_tokens)
    passes = where(staged, wanted, 1.0)
    groups = smaller(passes, share)
    chunks = passes / groups
    cut = replace(
        segment,
        sequences=share / groups,
        new_tokens=new / chunks,
        past_tokens=segment.past_tokens + (new - new / chunks) / 2,
        images=segment.images / chunks,
        audio_s=segment.audio_s / chunks,
        encoded_tokens=segment.encoded_tokens / chunks,
        sharing=share,
    )
    rounds = where(staged, (passes + stages - 1) / stages, 1.0)
    return Schedule((cut,), passes, rounds, passes / stages, 1.0 / stages)
