"""Verdict: whether to work on prefill, decode or both first, and where the verdict changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import bisect
from ..errors import Number, require
from ..phases.deployment import Deployment
from ..phases.media import media_tokens
from ..phases.sequences import prompts_of
from ..phases.workload import Workload
from ..report import Report
from ..serving.scenario import Scenario
from ..serving.steady_state import steady_state
from ..serving.traffic import Traffic
from ..techniques.technique import Chosen, scenario_with

PREFILL_FROM, DECODE_FROM = 0.60, 0.70
"""Share of time above which a phase should be improved first (a common rule of thumb)."""

LARGEST = {"batch": 4096, "prompt_tokens": 2**17, "output_tokens": 2**16}
"""Largest values searched for crossovers; lengths are also limited by the model's context."""


def verdict_of(prefill_share: Number) -> Any:
    """``prefill`` from 60 % of the time, ``decode`` from 70 %, otherwise ``both``; an array for arrays.

    Examples
    --------
    >>> verdict_of(800 / 950), verdict_of(0.1), verdict_of(0.45)
    ('prefill', 'decode', 'both')
    """
    share = np.asarray(prefill_share)
    chosen = np.select([share >= PREFILL_FROM, 1 - share >= DECODE_FROM], ["prefill", "decode"], "both")
    return chosen if chosen.ndim else str(chosen)


def prefill_share(serve: Deployment, load: Workload, time: str = "estimate_s") -> Number:
    """Share of prompts in the time of a deployment in steady state (`Steady.prefill_share`)."""
    return steady_state(Scenario(serve, load), time=time).prefill_share


@dataclass(frozen=True)
class Flip:
    """Value at which the verdict changes as one length grows and all else stays the same."""

    variable: str
    at: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.variable} of {self.at:,} or more: {self.after} instead of {self.before}"


def flips(case: Scenario, time: str = "estimate_s") -> tuple[Flip, ...]:
    """Batch, prompt and output at which the verdict changes, for one kind of request.

    The change is located on a grid and refined by bisection.
    """
    return tuple(flip for variable in LARGEST for flip in _flips_of(case, variable, time))


def _flips_of(case: Scenario, variable: str, time: str) -> Iterator[Flip]:
    def verdict(value: Any) -> Any:
        changed = case.replace(load=replace(case.load, **{variable: value}))
        return verdict_of(steady_state(changed, time=time).prefill_share)

    largest = LARGEST[variable] if variable == "batch" else _longest(case.serve, LARGEST[variable])
    least = 1.0
    if variable == "prompt_tokens" and case.load.has_media:
        least = media_tokens(case.serve, prompts_of(case.serve, case.load))
    grid = np.unique(np.round(np.geomspace(least, max(largest, least), 60)))
    names = verdict(grid)
    for at in np.flatnonzero(names[1:] != names[:-1]):
        before, after = str(names[at]), str(names[at + 1])
        _, first = bisect(partial(_is, verdict, before), grid[at], grid[at + 1], whole=True)
        yield Flip(variable, int(first), before, after)


def _is(verdict: Callable[[Any], Any], word: str, value: Any) -> Any:
    return verdict(value) == word


def _longest(serve: Deployment, tokens: int) -> int:
    """``tokens``, limited to the model's context."""
    return min(tokens, serve.model.max_context_tokens or tokens)


@dataclass(frozen=True, eq=False, repr=False)
class PhaseMap(Report):
    """Share of prefill over prompt and output lengths, at one batch.

    Attributes
    ----------
    prompt_tokens, output_tokens : array
        Axes, ``[m]`` and ``[n]``.
    prefill_share : array
        Share of prefill in the deployment's time, ``[m, n]``.
    batch : float
        Requests in the system.
    name : str
        Model and accelerator.
    traffic : Traffic, optional
        Requests shown on the map.
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
        """Verdict at every point."""
        return verdict_of(self.prefill_share)

    def to_frame(self) -> Any:
        """The map as a table, one row per point."""
        require("pandas", "frame", "a table")
        import pandas as pd

        prompts, outputs = np.meshgrid(self.prompt_tokens, self.output_tokens, indexing="ij")
        columns = (prompts, outputs, self.prefill_share, self.verdict)
        return pd.DataFrame({name: np.ravel(value) for name, value in zip(self.columns, columns, strict=True)})


LONGEST_PROMPT, LONGEST_OUTPUT = 2**17, 2**13
"""Tokens up to which a map reaches, where the model does."""

MAP_POINTS = 53
"""Points along each axis of a map: four an octave over thirteen octaves."""


def phase_map(
    serve: Deployment,
    *,
    batch: int = 1,
    traffic: Traffic | None = None,
    techniques: Chosen = (),
    time: str = "estimate_s",
) -> PhaseMap:
    """Map of the share of prefill, for prompts of 16 to 131,072 and outputs of 1 to 8,192 tokens.

    Both axes end at the model's context.

    Parameters
    ----------
    serve : Deployment
        The deployment.
    batch : int
        Requests in the system.
    traffic : Traffic, optional
        Requests to show on the map.
    techniques : Technique or str, or several of them
        Techniques in use.
    time : str
        ``floor_s``, ``roofline_s`` or ``estimate_s``.

    Returns
    -------
    PhaseMap
    """
    prompts = np.unique(np.geomspace(16, max(_longest(serve, LONGEST_PROMPT), 32), MAP_POINTS).round())
    outputs = np.unique(np.geomspace(1, _longest(serve, LONGEST_OUTPUT), MAP_POINTS).round())
    load = Workload(prompts[:, None], outputs[None, :], batch)
    found = steady_state(scenario_with(serve, load, techniques), time=time)
    name = f"{serve.model.title or serve.model.name} on {serve.accelerator.title or serve.accelerator.name}"
    return PhaseMap(prompts, outputs, found.prefill_share, batch, name, traffic)
