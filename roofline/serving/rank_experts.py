"""Experts that attention replicas share, in a pass over prompts: how long they take by the tokens of a replica."""

from __future__ import annotations

import numpy as np

from ..errors import Number
from ..operators.operator import Segment
from ..phases.host import HostTimes
from ..phases.passes import Phase, run_pass
from ..phases.totals import ScheduledPass, resources_s
from .busiest import spans_ranks
from .pass_times import part_s
from .scenario import Scenario


def experts_of_ranks_s(case: Scenario, tokens: Number) -> Number:
    """Return the estimated time that replicas spend on shared experts in a pass over prompts, seconds.

    Parameters
    ----------
    case : Scenario
        How the requests are served.
    tokens : float or array
        Tokens on each replica.
    """
    both = _tokens_alike(case, tokens)
    hidden = case.two_batches  # half of a batch communicates while the other computes
    found_s = part_s(both, "estimate_s", lambda item: spans_ranks(item) and not (hidden and item.message is not None))
    return found_s * HostTimes.of(case.serve.server).prefill_factor * (1.0 + case.prefill_overhead)  # type: ignore[no-any-return]


def experts_of_ranks_busy_s(case: Scenario, tokens: Number) -> dict[str, Number]:
    """Return the least busy time of each resource of an accelerator for shared experts in a pass over prompts."""
    both = _tokens_alike(case, tokens)
    chosen = tuple(each for each in both.operators if spans_ranks(each.operator))
    return resources_s(ScheduledPass(case.serve, both.schedule, chosen))


def _tokens_alike(case: Scenario, tokens: Number) -> Phase:
    """Return a pass over ``tokens`` tokens on each replica, as experts see them."""
    row = Segment(case.serve.parallel.data, np.maximum(np.round(tokens), 1.0), 0.0)
    return run_pass(case.serve, "prompts", row)
