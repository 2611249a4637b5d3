"""One-sentence summaries of what techniques change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import Number
from ..units import NO_POINTS, brief_speed, brief_time, humanize

if TYPE_CHECKING:
    from ..serving.steady_state import Steady
    from .effect import Effect


def effect_sentence(found: Effect) -> str:
    """One sentence on what the techniques change for a request, in throughput and in memory.

    Examples
    --------
    >>> import roofline as rl
    >>> from roofline.techniques import Quantization
    >>> serve = rl.Deployment("llama-3.1-70b", "h100-sxm")
    >>> print(rl.apply(serve, rl.Workload(), Quantization(weights="fp8"), time="roofline_s").summary())
    Weight quantization: TPOT 41.7 ms -> 21.3 ms (1.96x faster), TTFT 291 ms (unchanged), throughput 1.91x;
    68.45 GB freed.
    """
    if not np.size(found.throughput_gain):
        return NO_POINTS
    changes = []
    for name in ("tpot", "ttft"):
        before, after = (getattr(side, f"{name}_s") for side in (found.before, found.after))
        times = brief_time(before)
        if brief_time(after) != times:
            times = f"{times} -> {brief_time(after, *_ends(found.after, f'{name}_s'))}"
        changes.append(f"{name.upper()} {times} ({brief_speed(np.divide(after, before))})")
    gains = " to ".join(dict.fromkeys(f"{end(found.throughput_gain):.3g}x" for end in (np.min, np.max)))
    memory = _weights_in_words(found.weights_saved_bytes)
    title = f"{found.technique[:1].upper()}{found.technique[1:]}"
    return f"{title}: {', '.join(changes)}, throughput {gains}{memory}.{_over_the_baseline(found)}"


def _ends(steady: Steady, name: str) -> tuple[float, ...]:
    """Both ends of the estimate's interval; empty for a sweep and for other times."""
    if steady.time != "estimate_s" or np.ndim(getattr(steady, name)):
        return ()
    return float(getattr(steady.low, name)), float(getattr(steady.high, name))


def _weights_in_words(saved_bytes: Number) -> str:
    """Memory for weights that the techniques free, or take in addition."""
    least, most = float(np.min(saved_bytes)), float(np.max(saved_bytes))
    if most > 0:
        return f"; {humanize('bytes', most)} freed"
    return f"; {humanize('bytes', -least)} more for weights" if least < 0 else ""


SAME = 5e-3
"""Gains within half a percent are not mentioned."""


def _over_the_baseline(found: Effect) -> str:
    """Gains over the deployment without the techniques; empty if that is the deployment as given."""
    if not any(item.baseline for item in found.techniques):
        return ""
    gains = []
    for name, gain in (
        ("decode", found.baseline_decode_speedup),
        ("prefill", found.baseline_prefill_speedup),
        ("throughput", found.baseline_throughput_gain),
        ("batch", found.baseline_batch_gain),
    ):
        ends = [float(end(gain)) for end in (np.min, np.max)]
        if max(abs(value - 1.0) for value in ends) > SAME:
            gains.append(f"{name} {' to '.join(dict.fromkeys(f'{value:.3g}x' for value in ends))}")
    return f" Compared with {found.compared_with}: {', '.join(gains) or 'no difference'}."
