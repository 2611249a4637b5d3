"""Lengths of requests as the closed forms know them: means, and coefficients of variation for a traffic.

Tokens are generated more often by long requests than by short ones, so the mean context of a decode step weights the
requests by their outputs.  With a mean ``O`` and a coefficient of variation ``v``, a request in progress has ``O (1 +
v^2)`` output tokens on average (the inspection paradox) and has generated half of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import Number
from ..phases.workload import Workload
from ..values import Value
from .traffic import Traffic


@dataclass(frozen=True, eq=False)
class Lengths(Value):
    """Request lengths in tokens; means for a traffic.

    Attributes
    ----------
    prompt, cached, output : float or array
        Prompt tokens to compute, cached tokens before them, tokens to generate.
    prompt_spread, output_spread : float or array
        Standard deviation divided by the mean; 0 if all requests are alike.
    """

    prompt: Number
    cached: Number
    output: Number
    prompt_spread: Number = 0.0
    output_spread: Number = 0.0

    @classmethod
    def of(cls, load: Workload | Traffic, hit_rate: Number) -> Lengths:
        """Return the lengths of a workload or a traffic, with a share of each prompt cached."""
        if isinstance(load, Traffic):
            given: tuple[Number, ...] = (load.mean_prompt_tokens, load.cached_tokens, load.mean_output_tokens)
            spread = (_variation(load.prompt_tokens, load.share), _variation(load.output_tokens, load.share))
        else:
            given, spread = (load.prompt_tokens, load.cached_tokens, load.output_tokens), (0.0, 0.0)
        prompt, cached, output = (np.asarray(tokens, dtype=float) for tokens in given)
        found = np.minimum(np.floor(hit_rate * prompt), prompt - 1.0)
        return cls(prompt - found, cached + found, output, *spread)

    @property
    def steps(self) -> Number:
        """Decode steps of a request."""
        return self.output - 1.0

    @property
    def context(self) -> Number:
        """Mean number of cached tokens of a generating sequence."""
        generated = self.output * (1.0 + self.output_spread**2)
        return self.prompt + self.cached + np.maximum(generated - 2.0, 0.0) / 2.0

    @property
    def context_deviation(self) -> Number:
        """Standard deviation of the cached tokens of a generating sequence.

        A request in progress has generated ``u O`` tokens, with ``u`` uniform: ``O^2 (1 + 3 v^2) / 3`` is the mean
        square of requests weighted by their outputs (a symmetric spread), from which the square of the mean goes off.
        """
        spread = self.output_spread**2
        generated = (1.0 + 3.0 * spread) / 3.0 - ((1.0 + spread) / 2.0) ** 2
        found: Number = np.sqrt((self.prompt_spread * self.prompt) ** 2 + generated * self.output**2)
        return found

    @property
    def full(self) -> Number:
        """Tokens of a whole sequence."""
        return self.prompt + self.cached + self.output


def _variation(tokens: Number, share: Number) -> float:
    """Return the standard deviation of some lengths, divided by their mean."""
    mean = np.sum(share * tokens)
    return float(np.sqrt(np.sum(share * (tokens - mean) ** 2)) / mean)
