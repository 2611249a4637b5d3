"""Cumulative stages: what each of several techniques adds to those before it."""

from __future__ import annotations

from ..serving.steady_state import Steady, steady_state
from .effect import Effect


def stages(effect: Effect) -> tuple[Steady, ...]:
    """Return the steady states as techniques are added one by one, from none to all.

    Parameters
    ----------
    effect : Effect
        Result of `roofline.apply`.

    Returns
    -------
    tuple of Steady
        One more than there are techniques; the first is the deployment as given.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment("llama-3.1-8b", "h100-sxm")
    >>> effect = rl.apply(serve, rl.Workload(), ["quantization", "speculative"])
    >>> first, second, last = stages(effect)
    >>> first == effect.before, last == effect.after, second.step_s < first.step_s
    (True, True, True)
    """
    found, case = [effect.before], effect.before.case
    for item in effect.techniques[:-1]:
        case = item.after(case)
        found.append(steady_state(case, time=effect.before.time))
    return (*found, effect.after) if effect.techniques else (effect.before,)
