"""Verdict: prefill first, decode first, or a closer look at both; and where it flips."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import Number
from ..phases.deployment import Deployment
from ..phases.passes import decode, prefill
from ..phases.workload import Workload
from ..report import Report
from ..serving.traffic import Traffic

PREFILL_FROM, DECODE_FROM = 0.60, 0.70
"""Shares of the time from which on a phase is the one to work on (a rule of thumb of the field)."""

LARGEST = {"batch": 4096, "prompt_tokens": 2**17, "output_tokens": 2**16}
"""How far crossovers are searched; no length beyond the context that a model states."""


def verdict_of(prefill_share: Number) -> Any:
    """``prefill`` from 60 % of the time, ``decode`` from 70 %, else ``both``: profile both; an array for arrays.

    Examples
    --------
    >>> verdict_of(800 / 950), verdict_of(0.1), verdict_of(0.45)
    ('prefill', 'decode', 'both')
    """
    share = np.asarray(prefill_share)
    chosen = np.select([share >= PREFILL_FROM, 1 - share >= DECODE_FROM], ["prefill", "decode"], "both")
    return chosen if chosen.ndim else str(chosen)


def prefill_share(serve: Deployment, load: Workload, time: str = "roofline_s") -> Number:
    """Share of the prompts in the accelerator's time: each prompt alone in its pass, steps of the whole batch.

    The steps are taken at their mean context, which is exact wherever a step's time is linear in the context.
    """
    alone = Workload(load.prompt_tokens, load.output_tokens, 1, load.cached_tokens)
    steps = np.asarray(load.output_tokens, dtype=float) - 1
    middle = np.floor(load.context_tokens + np.maximum(steps - 1, 0) / 2)
    prompt_s = getattr(prefill(serve, alone), time)
    step_s = getattr(decode(serve, load, context_tokens=middle), time)
    share: Number = prompt_s / (prompt_s + steps * step_s / load.batch)
    return share


@dataclass(frozen=True)
class Flip:
    """Where the verdict changes as one length grows, all else as it is."""

    variable: str
    at: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.variable} from {self.at:,} on: {self.after} instead of {self.before}"


def flips(serve: Deployment, load: Workload, time: str = "roofline_s") -> tuple[Flip, ...]:
    """The batch, the prompt and the output at which the verdict changes, for one kind of request.

    A grid is searched, then the place between two of its points by bisection.
    """
    return tuple(flip for variable in LARGEST for flip in _flips_of(serve, load, variable, time))


def _flips_of(serve: Deployment, load: Workload, variable: str, time: str) -> Iterator[Flip]:
    def verdict(value: Any) -> Any:
        return verdict_of(prefill_share(serve, replace(load, **{variable: value}), time))

    largest = LARGEST[variable] if variable == "batch" else _longest(serve, LARGEST[variable])
    grid = np.unique(np.round(np.geomspace(1, largest, 60)))
    names = verdict(grid)
    for at in np.flatnonzero(names[1:] != names[:-1]):
        place = _bisect(verdict, int(grid[at]), int(grid[at + 1]))
        yield Flip(variable, place, str(names[at]), str(names[at + 1]))


def _longest(serve: Deployment, tokens: int) -> int:
    """``tokens``, or what the model's context holds of them."""
    return min(tokens, serve.model.max_context_tokens or tokens)


def _bisect(verdict: Callable[[int], Any], low: int, high: int) -> int:
    """Smallest value whose verdict is not that at ``low``, taking it to change once in between."""
    first = verdict(low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if verdict(middle) == first else (low, middle)
    return high


@dataclass(frozen=True, eq=False, repr=False)
class PhaseMap(Report):
    """Share of prefill over prompt and output lengths, at one batch.

    Attributes
    ----------
    prompt_tokens, output_tokens : axes, ``[m]`` and ``[n]``
    prefill_share : ``[m, n]``
    batch : sequences that run together
    name : the model and where it runs
    traffic : the requests to be shown on it, if any
    """

    prompt_tokens: npt.NDArray[np.float64]
    output_tokens: npt.NDArray[np.float64]
    prefill_share: Any
    batch: float
    name: str
    traffic: Traffic | None = None

    columns = ("prompt_tokens", "output_tokens", "prefill_share", "verdict")

    @property
    def verdict(self) -> Any:
        """The rule's verdict at every point."""
        return verdict_of(self.prefill_share)

    def to_frame(self) -> Any:
        """One row a point."""
        import pandas as pd

        prompts, outputs = np.meshgrid(self.prompt_tokens, self.output_tokens, indexing="ij")
        columns = (prompts, outputs, self.prefill_share, self.verdict)
        return pd.DataFrame({name: np.ravel(value) for name, value in zip(self.columns, columns, strict=True)})


def phase_map(
    serve: Deployment, *, batch: int = 1, traffic: Traffic | None = None, time: str = "roofline_s"
) -> PhaseMap:
    """Which phase takes the time, for prompts of 16 to 131,072 and outputs of 1 to 8,192 tokens.

    Either ends at the context that the model states.
    """
    prompts = np.unique(np.geomspace(16, max(_longest(serve, 2**17), 32), 53).round())
    outputs = np.unique(np.geomspace(1, _longest(serve, 2**13), 53).round())
    load = Workload(prompts[:, None], outputs[None, :], batch)
    name = f"{serve.model.title or serve.model.name} on {serve.accelerator.title or serve.accelerator.name}"
    return PhaseMap(prompts, outputs, prefill_share(serve, load, time), batch, name, traffic)
