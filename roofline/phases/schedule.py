"""Schedule: how a pass of the whole deployment is divided into microbatches of one accelerator."""

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

    ``segments`` are the sequences of one microbatch on one accelerator, and ``microbatches`` the number of those.
    ``rounds`` is the time of all microbatches in units of one pass through all layers.  For the floor, ``busy`` is the
    share of a pass's work done by the busiest accelerator, and ``once`` the same for what it has to read at least once.
    """

    segments: tuple[Segment, ...]
    microbatches: Number
    rounds: Number
    busy: Number
    once: Number


def schedule_pass(
    name: str, parallel: Parallel, segments: tuple[Segment, ...], chunk_tokens: Number = np.inf
) -> Schedule:
    """Return the schedule of a pass called ``name``.

    Replicas share the sequences; the most loaded one has ``ceil(B / data)``.  A pipeline of ``p`` stages decodes in
    ``p`` microbatches, one in each stage, or fewer if there are fewer sequences.  Each token passes all stages, so a
    step takes one pass of a microbatch.

    A prefill takes ``m = max(min(p, b), b S / chunk)`` microbatches: enough to fill the stages, and none with more
    tokens than the engine's budget.  Several sequences may share a microbatch, or one sequence is cut into chunks.  The
    microbatches take ``(m + p - 1) / p`` passes through all layers, bubble included (GPipe, arXiv:1811.06965, section
    2.3).  All are full but the last, which counts as a fraction, and sequences that do not divide evenly are averaged.
    So more or longer sequences never shorten a prefill, unless it mostly reads a prefix: passes of fewer sequences then
    fill the pipeline better.

    The encoder of an encoder-decoder needs whole sequences, and the engine's budget holds for its tokens as well (vLLM:
    the encoder's budget is that of the step).

    Sequences in one microbatch read a shared prefix once.  Later microbatches read it again, as they do the weights.
    For prompts that start together the floor assumes that weights and prefix stay on the chip.

    Parameters
    ----------
    name : str
        ``prefill`` or ``encode`` for prompts that start together; anything else is a step. An encoder needs whole
        sequences, so ``encode`` does not cut them into chunks.
    parallel : Parallel
        How the model is divided over accelerators.
    segments : tuple of Segment
        The sequences of the whole deployment.
    chunk_tokens : float
        Largest number of tokens in a pass over prompts.
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
    """Return prompts in chunks; the past is chosen so that a chunk has the average number of pairs.

    ``c`` chunks of ``S / c`` tokens after ``P + i S / c`` earlier ones have the ``S P + S (S + 1) / 2`` pairs of the
    whole prompt.  That is ``c`` times the pairs of one chunk after ``P + (S - S / c) / 2`` tokens.
    """
    stages = parallel.pipeline
    staged = stages > 1
    new = segment.new_tokens
    encoded = segment.encoded_tokens
    wanted = larger(smaller(stages, share), share * larger(new, encoded) / chunk_tokens)
    wanted = where(encoded > 0, smaller(wanted, share), wanted)
    passes = where(staged, wanted, 1.0)
    groups = smaller(passes, share)
    chunks = passes / groups
    # Rounding must not add a token to a chunk as long as the budget, as kernels would add a whole tile to it.
    tokens = where(staged, smaller(new / chunks, chunk_tokens), new)
    cut = replace(
        segment,
        sequences=share / groups,
        new_tokens=tokens,
        past_tokens=segment.past_tokens + (new - tokens) / 2,
        images=segment.images / chunks,
        audio_s=segment.audio_s / chunks,
        encoded_tokens=segment.encoded_tokens / chunks,
        sharing=share,
    )
    rounds = where(staged, (passes + stages - 1) / stages, 1.0)
    return Schedule((cut,), passes, rounds, passes / stages, 1.0 / stages)
