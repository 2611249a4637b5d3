"""One-sentence summaries of passes and generations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..units import NO_POINTS, bound_by, brief_time, humanize

if TYPE_CHECKING:
    from ..model import Model
    from .bounds import Bound
    from .generation import Generation
    from .passes import Phase


def pass_sentence(phase: Phase, time: str) -> str:
    """Describe how long a pass takes and what limits it.

    Examples
    --------
    >>> import roofline as rl
    >>> step = rl.decode(rl.Deployment("llama-3.1-70b", "h100-sxm"), rl.Workload())
    >>> print(step.summary("roofline_s"))
    A decode step takes 41.7 ms at the roofline and is memory-bound.
    """
    if not np.size(phase.floor_s):
        return NO_POINTS
    subjects = {"prefill": "Prefill", "encode": "Encoding", "decode": "A decode step"}
    subject = subjects.get(phase.name, f"A {phase.name} step")
    return f"{subject} takes {time_words(phase, time)} and is {bound_by(phase.limit)}."


def operator_sentence(bound: Bound, time: str) -> str:
    """Describe how long an operator takes and what limits it.

    Examples
    --------
    >>> import roofline as rl
    >>> print(rl.bound(rl.matmul(1, 8192, 8192), "h100-sxm", name="q").summary("roofline_s"))
    q takes 40.1 us by the roofline and is memory-bound.
    """
    value = getattr(bound, time)
    if not np.size(value):
        return NO_POINTS
    return f"{bound.name} takes {brief_time(value)} by the {time.removesuffix('_s')} and is {bound_by(bound.limit)}."


def time_words(phase: Phase, time: str = "estimate_s") -> str:
    """Format one of the three times of a pass: ``51.2 ms [44.6-58.1]``, or ``41.7 ms at the roofline``."""
    value = getattr(phase, time)
    if time == "estimate_s":
        return brief_time(value, phase.estimate_low_s, phase.estimate_high_s)
    return f"{brief_time(value)} at the {time.removesuffix('_s')}"


def context_notes(model: Model, tokens: float) -> tuple[str, ...]:
    """Warn about a context beyond the longest one that a model states.

    Examples
    --------
    >>> import roofline as rl
    >>> context_notes(rl.get_model("gpt-2"), 2000.0)
    ('context of 2,000 tokens is beyond the 1,024 that gpt-2 states',)
    """
    limit = model.max_context_tokens
    if limit is None or not tokens > limit:
        return ()
    return (f"context of {tokens:,.0f} tokens is beyond the {limit:,} that {model.name} states",)


def generation_sentence(found: Generation) -> str:
    """Describe the times of a batch.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment("llama-3.1-70b", "h100-sxm")
    >>> print(rl.generate(serve, rl.Workload(), time="roofline_s").summary())
    First token after 291 ms, then one every 41.7 ms (23 tokens/s); 10.9 s in all, by the roofline.
    """
    if not np.size(found.total_s):
        return NO_POINTS
    rate = " to ".join(dict.fromkeys(f"{end(found.tokens_per_s):,.0f}" for end in (np.min, np.max)))
    first, each, whole = (brief_time(time) for time in (found.ttft_s, found.tpot_s, found.total_s))
    basis = found.time.removesuffix("_s")
    return f"First token after {first}, then one every {each} ({rate} tokens/s); {whole} in all, by the {basis}."


def cache_notes(phase: Phase) -> Iterator[str]:
    """Yield a note if all bytes of a pass fit in the last-level cache and may stay there from pass to pass."""
    gpu, least_bytes = phase.deployment.accelerator, phase.sums.least_bytes
    if gpu.l2_bytes is not None and np.any(least_bytes <= gpu.l2_bytes):
        least, cache = humanize("bytes", float(np.min(least_bytes))), humanize("bytes", float(np.max(gpu.l2_bytes)))
        yield (
            f"all {least} that a pass reads on one accelerator fit in the {cache} of on-chip memory of {gpu.name}; "
            "passes that hit there may be faster than the floor"
        )
