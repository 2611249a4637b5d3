"""The pass of a measured run: its sequences, tokens and duration."""

from __future__ import annotations

from typing import NamedTuple

from .measurement import DECODE, PREFILL, SERVING, Measurement


class OperatingPoint(NamedTuple):
    """One pass of a run, on average.

    Attributes
    ----------
    sequences : float
        Sequences in the pass.
    new_tokens, past_tokens : float
        New tokens per sequence, and cached tokens before them.
    seconds : float
        How long it took.
    """

    sequences: float
    new_tokens: float
    past_tokens: float
    seconds: float


def operating_point(run: Measurement, name: str) -> OperatingPoint | None:
    """Return the prefill or the decode step of a run; None if the file does not state enough.

    Parameters
    ----------
    run : Measurement
        What `roofline.measured.read` returns.
    name : str
        ``prefill`` or ``decode``.

    Returns
    -------
    OperatingPoint or None
        For a server, TTFT is that of one prompt including queueing; a step has the mean batch, by Little's law if the
        file states the request rate.

    Examples
    --------
    >>> run = Measurement("by hand", "notes", kind="decode", batch=8, context_tokens=2000, tpot_median_s=0.0065)
    >>> operating_point(run, "decode")
    OperatingPoint(sequences=8.0, new_tokens=1.0, past_tokens=2000.0, seconds=0.0065)
    """
    if name == "prefill":
        return _prompt_point(run)
    return _step_point(run) if name == "decode" else None


def _prompt_point(run: Measurement) -> OperatingPoint | None:
    if run.ttft_s is None or run.prompt_tokens is None or run.kind == DECODE:
        return None
    fresh, cached = prompt_lengths(run)
    return OperatingPoint(prompts_together(run), fresh, cached, run.ttft_s)


def _step_point(run: Measurement) -> OperatingPoint | None:
    step = run.step
    if step is None or run.kind == PREFILL:
        return None
    batch, context = running_requests(run, step.seconds), mean_context(run)
    if batch is None or context is None:
        return None
    return OperatingPoint(max(batch, 1.0), 1.0, context, step.seconds * (run.accepted_tokens_per_step or 1.0))


def prompts_together(run: Measurement) -> float:
    """Prompts per prefill: those of a static batch, or one for a server."""
    return float(run.batch or 1) if run.kind != SERVING else 1.0


def prompt_lengths(run: Measurement) -> tuple[float, float]:
    """New tokens of a prompt, and cached tokens before them."""
    prompt = run.prompt_tokens or 0.0
    found = (run.cached_share or 0.0) * prompt
    return max(prompt - found, 1.0), found + (run.context_tokens or 0.0 if run.kind == PREFILL else 0.0)


def running_requests(run: Measurement, step_s: float) -> float | None:
    """Sequences that decode at the same time: those of a static batch, or the mean by Little's law."""
    if run.kind != SERVING:
        return float(run.batch or 1)
    if run.requests_per_s and run.output_tokens:
        return run.requests_per_s * max(run.output_tokens - 1, 0.0) * step_s
    if run.tokens_per_s:
        share = 1.0 if run.output_tokens is None else (run.output_tokens - 1) / run.output_tokens
        return run.tokens_per_s * share * step_s
    return run.in_flight or run.concurrency


def mean_context(run: Measurement) -> float | None:
    """Mean number of cached tokens before a step."""
    if run.kind == DECODE:
        return (run.context_tokens or 0.0) + max((run.output_tokens or 1.0) - 1, 0.0) / 2
    if run.prompt_tokens is None:
        return None
    return (run.context_tokens or 0.0) + run.prompt_tokens + max((run.output_tokens or 2.0) - 2, 0.0) / 2
