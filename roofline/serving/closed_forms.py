"""Closed forms of request latency, from pass times, for a server that keeps ``B`` requests in the system.

A request computes its prompt, which gives its first token, and then takes part in ``n`` decode steps.  Whenever one of
the ``B`` requests ends, the next takes its place at once.  Then by Little's law

    B = throughput * time in the system,

which every form below satisfies exactly: it derives the time in the system ``T``, and the throughput is ``B / T``.

Requests that move together are a *lane*: each replica of attention has sequences of its own, and a pipeline of ``k``
stages works on ``k`` groups of sequences at a time, one in each stage.  So there are ``data * pipeline`` lanes with ``B
/ lanes`` requests each, and all passes of different lanes happen at the same time: replicas are assumed to compute
their prompts together, and stages to be always busy.  A lane holds at least one request; with fewer requests than lanes
some lanes are idle.  All times here are those of one lane.

In the estimate, the lanes of a pipeline hold each other up with their prompts (`roofline.serving.pipeline_rounds`).

Replicas that share experts wait for each other's prompts, which do not line up: in the estimate they are one lane with
the requests of all of them, whose passes take the time of the most loaded replica (`roofline.serving.busiest`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import scalar
from ..errors import Number


class RequestTimes(NamedTuple):
    """Latency of a request.

    Attributes
    ----------
    ttft_s : float or array
        Time from arrival to the first token, seconds.
    total_s : float or array
        Time from arrival to the last token (the time in the system), seconds.
    """

    ttft_s: Number
    total_s: Number


class Packing(NamedTuple):
    """How many prompts share a pass.

    Attributes
    ----------
    per_pass : float or array
        Prompts per pass, averaged over passes. The cost of a prompt is the time of such a pass divided by this number.
    seen : float or array
        Prompts per pass, averaged over prompts. A prompt waits for this many, itself included.
    most : float or array
        Largest number of prompts in a pass.
    wait_steps : float or array
        Mean wait of a prompt for the step or pass in progress, in decode steps; 0 if prompts arrive between two steps.
    """

    per_pass: Number
    seen: Number
    most: Number
    wait_steps: Number = 0.0


EPSILON = 2.0**-53
"""Half the distance of 1 to the next larger float."""


def packing(lane_batch: Number, steps: Number, most: Number) -> Packing:
    """Return how many prompts arrive between two decode steps and so share a pass.

    Each of ``B`` sequences ends with probability ``1 / n`` in a step, independently of the others.  A step is therefore
    followed by ``B / n`` prompts on average, and by at least one with probability ``1 - (1 - 1 / n)^B``: averaged over
    passes, a pass has the ratio of the two.  A prompt shares its pass with those of the ``B - 1`` others that ended in
    the same step, ``1 + (B - 1) / n`` averaged over prompts.  Requests with one output token have no decode steps, so
    all of them wait together.  A pass takes at most ``most`` prompts: the token budget of a step divided by the prompt
    length.

    Parameters
    ----------
    lane_batch : float or array
        Requests of a lane.
    steps : float or array
        Decode steps of a request.
    most : float or array
        Prompts that fit in the token budget of a pass, at least 1.

    Returns
    -------
    Packing

    Examples
    --------
    >>> round(float(packing(1, 255, 8).per_pass), 9)
    1.0
    >>> round(float(packing(256, 15, 128).per_pass), 1), round(float(packing(256, 15, 128).seen), 1)
    (17.1, 18.0)
    """
    rate = 1.0 / np.maximum(steps, 1.0)
    arriving = lane_batch * rate
    # 1 - (1 - rate) ** batch, precise for the smallest rates too; at a rate of 1 it is 1
    any_arrives = -np.expm1(lane_batch * np.log1p(-np.minimum(rate, 1.0 - EPSILON)))
    per_pass = np.where(np.asarray(steps) > 0, arriving / any_arrives, lane_batch)
    seen = np.where(np.asarray(steps) > 0, 1.0 + (lane_batch - 1.0) * rate, lane_batch)
    return Packing(np.maximum(per_pass, 1.0)[()], np.maximum(seen, 1.0)[()], np.maximum(most, 1.0))


def prompts_first(
    lane_batch: Number, steps: Number, step_s: Number, *, pack: Packing, pass_s: Number, seen_pass_s: Number
) -> RequestTimes:
    """Return the request times if prompts run in passes of their own and decode steps wait for them.

    In the time ``T`` of a request its lane computes the prompts of all ``B``, ``k`` to a pass, and the request's own
    ``n`` steps, in which all others take part:

        T    = B pass(k) / k + n step
        TTFT = wait + pass(k') (w + 1) / 2

    ``k`` and ``k'`` are the prompts per pass averaged over passes and over prompts (`packing`), limited by the budget.
    If more arrive at once, they take ``w`` passes one after another, and the average prompt is in the middle one.  A
    request that arrives when another ends, between two steps, does not wait for a step in progress; those that take
    longer to arrive do (`roofline.serving.gathering`).

    Parameters
    ----------
    lane_batch, steps : float or array
        Requests of a lane, decode steps of a request.
    step_s : float or array
        A decode step of the whole batch, seconds.
    pack : Packing
        Prompts per pass.
    pass_s, seen_pass_s : float or array
        Times of passes of ``min(per_pass, most)`` and of ``min(seen, most)`` prompts, seconds.

    Returns
    -------
    RequestTimes
    """
    prompts_s = lane_batch * pass_s / np.minimum(pack.per_pass, pack.most)
    total_s = prompts_s + steps * step_s
    passes = np.maximum(pack.seen / pack.most, 1.0)
    wait_s = pack.wait_steps * step_s
    ttft_s = np.where(np.asarray(steps) > 0, wait_s + seen_pass_s * (passes + 1.0) / 2.0, total_s)
    return RequestTimes(np.minimum(ttft_s, prompts_s), total_s)  # a prompt waits at most for the prompts of its batch


class Chunks(NamedTuple):
    """How chunked prompts share passes with the running sequences of a lane.

    Attributes
    ----------
    passes : float or array
        Number of passes per prompt.
    prompts : float or array
        Prompts that share each pass; above 1 only if prompts are shorter than a chunk.
    riders : float or array
        Sequences that generate a token in each of these passes.
    """

    passes: Number
    prompts: Number
    riders: Number


def chunks(lane_batch: Number, steps: Number, prompt_tokens: Number, chunk_tokens: Number) -> Chunks:
    """Return the number of passes per chunked prompt, and how many sequences generate in each.

    A prompt of ``P`` tokens takes ``C = ceil(P / c)`` passes. If several prompts fit in a chunk, ``c / P`` of them
    share a pass, and the last may be cut. While prompts are rare, all other ``B - k`` sequences of the lane generate in
    each pass.  If the prompts of the batch take more passes than a request has steps, every pass carries a chunk and
    ``k`` prompts end every ``C`` passes.  A sequence then generates for ``n`` passes, so ``n k / C`` sequences generate
    at a time and the others wait for their prompts.

    Parameters
    ----------
    lane_batch, steps : float or array
        Requests of a lane, decode steps of a request.
    prompt_tokens, chunk_tokens : float or array
        Tokens per prompt, and prompt tokens per pass.

    Returns
    -------
    Chunks

    Examples
    --------
    >>> chunks(64, 255, 8000, 512)
    Chunks(passes=16.0, prompts=1.0, riders=15.9375)
    """
    passes = np.ceil(np.divide(prompt_tokens, chunk_tokens))
    fit = np.maximum(np.divide(chunk_tokens, prompt_tokens), 1.0)
    prompts = np.clip(np.divide(lane_batch, steps + 1.0), 1.0, fit)
    riders = np.minimum(lane_batch - prompts, steps * prompts / passes)
    return Chunks(scalar(passes), scalar(prompts), scalar(np.maximum(riders, 0.0)))


def met_prompts(together: Number, steps: Number, passes: Number) -> Number:
    """Return the mean number of prompts in a step with prompts, over all lanes that step together.

    ``a`` prompts arrive while one is computed, in ``passes`` steps: none with probability ``exp(-a)``.

    Parameters
    ----------
    together, steps, passes : float or array
        Requests of these lanes, decode steps of a request, passes of a prompt.

    Returns
    -------
    float or array
        At least 1.
    """
    arriving = together / np.maximum(steps, 1.0) * passes
    met: Number = arriving / -np.expm1(-arriving)
    return met


def chunks_together(made: Chunks, together: Number, steps: Number, *, gathered: Number, most: Number) -> Chunks:
    """Return the chunks of all lanes that step together.

    Parameters
    ----------
    made : Chunks
        Chunks of one of the lanes.
    together, steps : float or array
        Requests of all these lanes, decode steps of a request.
    gathered, most : float or array
        Prompts that share a pass, and that fit in one, over all these lanes.

    Returns
    -------
    Chunks
        With the prompts and riders of all lanes.
    """
    prompts = np.clip(gathered, made.prompts, np.maximum(np.minimum(together, most), 1.0))
    riders = np.minimum(together - prompts, steps * prompts / made.passes)
    return made._replace(prompts=prompts, riders=np.maximum(riders, 0.0))


def chunked(lane_batch: Number, steps: Number, step_s: Number, *, made: Chunks, mixed_s: Number) -> RequestTimes:
    """Return the request times if decode steps carry chunks of prompts.

    All prompts of the lane take ``B C / k`` passes. A request generates in the passes of the other prompts, ``(B / k -
    1) C`` of them, as long as it has steps left; its other steps carry no chunk:

        T    = B C / k mixed + max(n - (B / k - 1) C, 0) step
        TPOT = (min(n, (B / k - 1) C) mixed + max(n - (B / k - 1) C, 0) step) / n

    TTFT is the rest of ``T``: the request's own chunks, and those of prompts ahead of it.

    Parameters
    ----------
    lane_batch, steps : float or array
        Requests of a lane, decode steps of a request.
    step_s : float or array
        A decode step of the whole batch, seconds.
    made : Chunks
        Passes per prompt and the sequences that generate in them.
    mixed_s : float or array
        Time of a pass with a chunk, averaged over the chunks of a prompt, seconds.

    Returns
    -------
    RequestTimes
    """
    groups = np.divide(lane_batch, made.prompts)
    others = (groups - 1.0) * made.passes
    riding = np.minimum(steps, others)
    plain = np.maximum(steps - others, 0.0)
    total_s = groups * made.passes * mixed_s + plain * step_s
    return RequestTimes(total_s - riding * mixed_s - plain * step_s, total_s)


def on_two_pools(steps: Number, step_s: Number, *, prompt_s: Number, handover_s: Number) -> RequestTimes:
    """Return the request times if prompts run on a separate pool that keeps up with the decode pool.

    The decode pool holds ``B`` sequences and nothing interrupts its steps.  A request waits for its own prompt and for
    the transfer of its cache.

    Parameters
    ----------
    steps : float or array
        Decode steps of a request.
    step_s, prompt_s, handover_s : float or array
        Times of a decode step, a prompt, and the transfer of its cache, seconds.

    Returns
    -------
    RequestTimes
    """
    ttft_s = prompt_s + handover_s
    return RequestTimes(ttft_s, ttft_s + steps * step_s)


def starting_together(
    lane_batch: Number, steps: Number, step_s: Number, *, pack: Packing, pass_s: Number, slots_used: Number
) -> RequestTimes:
    """Return the request times of a static batch, in which the next batch waits for the longest sequence.

    A batch takes ``B pass(k) / k`` for its prompts and ``n / u`` steps, where ``u`` is the mean output length divided
    by the longest.  The average request spends all extra steps waiting for its prompt to start, because its slot was
    freed early.

    Parameters
    ----------
    lane_batch, steps : float or array
        Requests of a lane, decode steps of a mean request.
    step_s : float or array
        A decode step of the whole batch, seconds.
    pack : Packing
        Prompts per pass; ``per_pass`` is the whole batch.
    pass_s : float or array
        Time of a pass of ``min(per_pass, most)`` prompts, seconds.
    slots_used : float or array
        Share of the slots whose sequence is still generating.

    Returns
    -------
    RequestTimes
    """
    prompts_s = lane_batch * pass_s / np.minimum(pack.per_pass, pack.most)
    decode_s = steps * step_s
    total_s = prompts_s + decode_s / slots_used
    return RequestTimes(total_s - decode_s, total_s)


def fully_overlapped(batch: Number, steps: Number, step_s: Number, *, prompt_s: Number, busy_s: Number) -> RequestTimes:
    """Return the floor of the request times: prompts and steps overlap if they use different resources.

    A request takes at least the time of its own prompt and steps, and ``B`` requests take at least the time that the
    busiest resource needs for them:

        T = max(prompt + n step, B busy)

    The first token takes at least one prompt, and each further token at least one step.  Each value is a floor by
    itself; a schedule need not reach all of them at once.

    Parameters
    ----------
    batch, steps : float or array
        Requests in the system, decode steps of a request.
    step_s, prompt_s : float or array
        Floors of a decode step and of a prompt, seconds.
    busy_s : float or array
        Least time per request that the busiest resource of the deployment works, seconds.

    Returns
    -------
    RequestTimes
    """
    total_s = np.maximum(prompt_s + steps * step_s, batch * busy_s)
    return RequestTimes(prompt_s, total_s)
