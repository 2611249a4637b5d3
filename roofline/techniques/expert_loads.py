"""Loads of the accelerators among which experts are divided: the most loaded one sets the pace."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from ..arrays import scalar, smaller
from ..errors import Number
from ..model.rewriting import Rewrite, rewritten, scaled
from ..operators.operator import Operator, Pass
from ..serving.scenario import Scenario


@dataclass(frozen=True)
class Unbalanced(Rewrite):
    """Give the most loaded accelerator more than the mean tokens, which slows down its experts and messages.

    Attributes
    ----------
    load : float, optional
        Its tokens divided by the mean; with a ``spread``, the most that they may be.
    spread : float, optional
        Deviation of the experts' popularities, from which the load follows (`busiest_load`).
    """

    load: float | None = None
    spread: float | None = None

    def operators(self, found: tuple[Operator, ...], run: Pass) -> tuple[Operator, ...]:
        """Experts and token exchanges at the load of the most loaded accelerator; the floor may assume balance."""
        load = self._of(found, run)
        return tuple(_loaded(item, load) for item in found)

    def _of(self, found: tuple[Operator, ...], run: Pass) -> Number:
        if self.spread is None:
            return self.load or 1.0
        shape = next((item.inputs for item in found if item.kind == "experts"), None)
        if shape is None:
            return 1.0
        derived = busiest_load(self.spread, run.parallel.expert, experts=shape["experts"], top_k=shape["top_k"])
        return derived if self.load is None else smaller(derived, self.load)


def _loaded(item: Operator, load: Number) -> Operator:
    """Return an operator at ``load`` times the mean tokens, if it depends on how experts are chosen."""
    if item.kind == "experts":
        more = scaled(item, flops=load, activations=load)
        rows = {name: item.inputs[name] * load for name in ("routed_rows",) if name in item.inputs}
        return dataclasses.replace(more, least=item.least, inputs={**item.inputs, **rows})
    if item.name in ("dispatch", "combine") and item.message is not None:
        message = dataclasses.replace(item.message, message_bytes=item.message.message_bytes * load)
        return dataclasses.replace(scaled(item, activations=load), least=item.least, message=message)
    return item


def loaded(case: Scenario, load: float | None, spread: float | None = None) -> Scenario:
    """Copy of the deployment with a stated or derived load of the most loaded accelerator (`Unbalanced`).

    It replaces the load that follows from the deployment's routing skew.
    """
    even = case.replace(serve=case.serve.replace(routing_skew=0.0))
    return even.with_model(rewritten(even.model, Unbalanced(load, spread)))


POPULARITY_SPREAD, BALANCED_SPREAD = 2.65, 0.63
"""Standard deviation of the experts' shares of the tokens, relative to the mean: as trained, and after balancing.

Both follow from prompts of DeepSeek-V3 on 32 H100 (lmsys.org blog of 2025-05-05, large-scale EP): balancing makes them
1.49 times as fast, and perfect balance would make them another 1.18 times as fast.  Experts and messages are 0.31 of
such a pass on the busiest GPU if all are equally loaded, so the loads there are 3.5 and 1.6, and `busiest_load` gives
the spreads.  Steps of generation over 72 GPUs, which were not used, then gain 1.9; the blog measured 2.54."""


def busiest_load(spread: float, ranks: Number, *, experts: float, top_k: float) -> Number:
    """Return the tokens of the most loaded of several accelerators, divided by their mean.

    Each of ``R`` accelerators has ``E / R`` experts.  If their popularities are independent and deviate by ``spread``
    of their mean, the mean of ``E / R`` of them deviates by ``spread sqrt(R / E)``, and the largest of ``R`` such
    values is about ``sqrt(2 ln R)`` deviations above the mean (for normal deviations):

        1 + spread sqrt(2 ln(R) R / E),

    at most what all tokens choosing the experts of one accelerator would give it, ``R min(E / R, k) / k``.

    Parameters
    ----------
    spread : float
        Standard deviation of the experts' popularities, in units of their mean.
    ranks : float or array
        Accelerators among which the experts are divided.
    experts, top_k : float
        Experts of a layer, and those that a token chooses.

    Examples
    --------
    >>> round(busiest_load(POPULARITY_SPREAD, 32, experts=256, top_k=8), 1)
    3.5
    >>> busiest_load(POPULARITY_SPREAD, 1, experts=256, top_k=8), busiest_load(9.0, 8, experts=8, top_k=2)
    (1.0, 4.0)
    """
    ranks = np.asarray(ranks, dtype=float)
    most = ranks * np.minimum(experts / ranks, top_k) / top_k
    return scalar(np.minimum(1.0 + spread * np.sqrt(2.0 * np.log(ranks) * ranks / experts), np.maximum(most, 1.0)))
