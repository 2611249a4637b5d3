"""Generations: a batch that starts together, from its first prompt token to its last output token."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import read_only, scalar
from ..errors import Number, unknown
from ..report import Report
from .deployment import Deployment
from .pass_sentences import generation_sentence
from .passes import TIMES, decode_pass, prefill
from .workload import Workload


@dataclass(frozen=True, repr=False)
class Generation(Report):
    """A batch from its prompts to its last tokens.

    Attributes
    ----------
    ttft_s, total_s : float or array
        Time to first token (the prefill), and end to end.
    tpot_s : float or array
        Time per output token after the first: (total - TTFT) / (output - 1); 0 for one token.
    prefill_share : float or array
        Share of the prefill in the total.
    tokens_per_s : float or array
        Generated tokens of the batch a second.
    time : str
        Which of the three times the figures are.
    """

    ttft_s: Number
    tpot_s: Number
    total_s: Number
    prefill_share: Number
    tokens_per_s: Number
    time: str
    assumptions: tuple[str, ...] = ()

    columns = ("ttft_s", "tpot_s", "total_s", "prefill_share", "tokens_per_s", "time")

    def summary(self) -> str:
        """The times of the batch in a sentence."""
        return generation_sentence(self)


_STEPS = 256
"""Blocks that the decode steps of a generation are gathered in."""


def generate(serve: Deployment, load: Workload, *, time: str = "roofline_s") -> Generation:
    """The prefill, which emits the first token, then ``output - 1`` decode steps at contexts ``P .. P + O - 2``.

    The steps are gathered in at most 256 equal blocks and each block costs its length times the step at its mean
    context.  That is exact for up to 256 steps, and wherever the step time is linear in the context, which it is but
    for the one block where an operator changes its limit or a window fills up.

    Parameters
    ----------
    serve : Deployment
        What runs where.
    load : Workload
        The batch; all its sequences start together.
    time : {'roofline_s', 'floor_s', 'estimate_s'}
        Which of the three times of a pass is added up.

    Returns
    -------
    Generation
        Times and throughput of the batch, in the broadcast shape of the arguments.

    Raises
    ------
    UnknownName
        ``time`` is none of the three.
    """
    if time not in TIMES:
        raise unknown("time", time, TIMES)
    first = prefill(serve, load)
    ttft_s = getattr(first, time)
    steps = np.asarray(load.output_tokens, dtype=float) - 1
    blocks = int(np.clip(np.max(steps), 1, _STEPS))
    middles = (np.arange(blocks) + 0.5) / blocks
    context = np.asarray(load.context_tokens)[..., None] + np.maximum(steps[..., None] * middles - 0.5, 0.0)
    step = decode_pass(serve, load, np.asarray(load.batch)[..., None], context)
    decode_s = steps * np.mean(getattr(step, time), axis=-1)
    total_s = ttft_s + decode_s
    figures = (
        ttft_s,
        scalar(np.where(steps > 0, decode_s / np.maximum(steps, 1), 0.0)),
        scalar(total_s),
        scalar(ttft_s / total_s),
        scalar(load.batch * load.output_tokens / total_s),
    )
    return Generation(*read_only(figures), time=time, assumptions=first.assumptions)
