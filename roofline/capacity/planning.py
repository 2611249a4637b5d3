"""Plans: a search through accelerators, their number, layouts, precisions and batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import FrozenMapping
from ..errors import InvalidInput, Number, number, unknown
from ..formats import get_format
from ..hardware import Accelerator
from ..model import Model
from ..operators.parallel import Parallel
from ..operators.precision import AS_PUBLISHED, Precision
from ..phases.deployment import Deployment
from ..phases.passes import TIMES
from ..phases.workload import Workload
from ..report import Rows
from ..serving.slo import SLO
from ..specs.library import get_accelerator, get_model
from ..specs.prices import Price
from ..units import humanize
from .candidates import REASONS, WORDS, Array, Candidates, evaluate, joined, short_name
from .layouts import layouts, reach, within_reach
from .plan_sentences import plan_sentence

BATCHES: npt.NDArray[np.float64] = np.unique(np.round(np.geomspace(1, 1024, 56)))
"""Sequences that run together on one deployment, in steps of about an eighth."""


Case = tuple[Deployment, float]
"""A deployment whose layouts are an array, and the price of one of its accelerators."""


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Rows):
    """Candidates, the best first: those that hold the service levels by cost, then the others with the reason.

    Cost is that of a request: in USD where a price is given, else in seconds of an accelerator. Candidates without a
    price come behind those with one.

    Attributes
    ----------
    model, load, slo : what is served, to which requests, and what they were promised
    time : which of the three times TTFT, TPOT and throughput are
    table : the candidates
    cases : accelerator and precision -> the deployment, its layouts an array
    assumptions : what the figures rest on

    Columns
    -------
    gpus, layout, batch : accelerators of one deployment, how it is spread, and sequences that run together
    ttft_s, tpot_s : as `Steady` has them
    tokens_per_s_per_user, tokens_per_s_per_gpu : 1 / TPOT; generated tokens of all sequences over the accelerators
    usd_per_million_input_tokens, usd_per_million_output_tokens : the prompts' time and the steps', each for its tokens
    tokens_per_joule : generated tokens, every accelerator at its board power
    headroom : share of the tightest level that is left
    limit : what limits the decode step
    bound_by : what the next larger batch would break
    reason : why a candidate won't do; empty if it does
    """

    model: Model
    load: Workload
    slo: SLO
    time: str
    table: Candidates
    cases: Mapping[tuple[str, str], Deployment]
    assumptions: tuple[str, ...] = ()

    columns = (
        "accelerator",
        "precision",
        "gpus",
        "layout",
        "batch",
        "ttft_s",
        "tpot_s",
        "tokens_per_s_per_user",
        "tokens_per_s_per_gpu",
        "requests_per_s",
        "usd_per_million_input_tokens",
        "usd_per_million_output_tokens",
        "usd_per_request",
        "tokens_per_joule",
        "headroom",
        "limit",
        "bound_by",
        "feasible",
        "reason",
    )
    printed = {  # noqa: RUF012
        "accelerator": "accelerator",
        "precision": "precision",
        "gpus": "GPUs",
        "layout": "layout",
        "batch": "batch",
        "ttft_s": "TTFT",
        "tpot_s": "TPOT",
        "tokens_per_s_per_gpu": "a GPU",
        "usd_per_million_output_tokens": "USD/M out",
        "headroom": "headroom",
        "limit": "limit",
        "bound_by": "bound by",
        "reason": "reason",
    }

    def __getattr__(self, name: str) -> Array:
        if name in Candidates.__dataclass_fields__:
            column: Array = getattr(self.table, name)
            return column
        raise AttributeError(f"a plan has no {name!r}")

    @property
    def feasible(self) -> Array:
        """Whether a candidate fits and holds every service level."""
        return np.equal(self.table.code, 0)

    @property
    def feasible_at_floor(self) -> Array:
        """The same at the floor: False where no software can do it on this layout at this batch."""
        return np.equal(self.table.code_at_floor, 0)

    @property
    def requests_per_s(self) -> Array:
        """Requests that one deployment finishes a second."""
        return 1 / self.table.busy_s

    @property
    def tokens_per_s_per_user(self) -> Array:
        """Tokens that a sequence gets a second."""
        return 1 / np.where(self.table.tpot_s > 0, self.table.tpot_s, np.nan)

    @property
    def tokens_per_s_per_gpu(self) -> Array:
        """Generated tokens a second of one accelerator."""
        return np.asarray(self.load.output_tokens / self.table.busy_s / self.table.gpus)

    @property
    def usd_per_request(self) -> Array:
        """Cost of a request: its time on all accelerators of the deployment."""
        return self._usd_per_s * self.table.busy_s

    @property
    def usd_per_million_input_tokens(self) -> Array:
        """Cost of the prompts' part of the time, a token of them."""
        share = np.minimum(self.table.slot_s / self.table.busy_s, 1.0)
        return np.asarray(1e6 * share * self.usd_per_request / self.load.prompt_tokens)

    @property
    def usd_per_million_output_tokens(self) -> Array:
        """Cost of the steps' part of the time, a token generated."""
        share = 1 - np.minimum(self.table.slot_s / self.table.busy_s, 1.0)
        return np.asarray(1e6 * share * self.usd_per_request / self.load.output_tokens)

    @property
    def _usd_per_s(self) -> Array:
        return self.table.usd_per_hour * self.table.gpus / 3600

    @property
    def tokens_per_joule(self) -> Array:
        """Generated tokens a joule, every accelerator at its board power."""
        return self.tokens_per_s_per_gpu / self.table.watts

    @property
    def bound_by(self) -> Array:
        """What keeps the batch from growing."""
        words = np.array([WORDS.get(name, name) for name in REASONS])
        return np.asarray(words[self.table.next_code])

    @cached_property
    def reason(self) -> Array:
        """Why a candidate won't do, in a sentence."""
        table, levels = self.table, dict(self.slo.lines())
        values = zip(table.code, table.weights_bytes, table.available_bytes, table.max_batch, strict=True)
        says = [_says(REASONS[code], *rest) for code, *rest in values]
        names = [REASONS[code] for code in table.code]
        given = {name: np.where(table.code == REASONS.index(name), self._metric(name), 0.0) for name in levels}
        for row in np.flatnonzero(table.code > 2):
            name = names[row]
            says[row] = f"{WORDS[name]} {humanize(name, given[name][row])}, promised {humanize(name, levels[name])}"
        return np.array(says, dtype=object)

    def _metric(self, name: str) -> Array:
        table = self.table
        steps = np.maximum(np.asarray(self.load.output_tokens, dtype=float) - 1, 0.0)
        metrics: dict[str, Array] = {
            "ttft_s": table.ttft_s,
            "tpot_s": table.tpot_s,
            "total_s": table.ttft_s + steps * table.tpot_s,
            "gap_s": table.gap_s,
            "tokens_per_s": np.asarray(self.load.output_tokens / table.busy_s),
        }
        return metrics[name]

    @property
    def cost(self) -> Array:
        """What candidates are ranked by: USD a request, or seconds of an accelerator where no price is given."""
        priced = np.isfinite(self.table.usd_per_hour)
        return np.where(priced, self.usd_per_request, self.table.gpus * self.table.busy_s)

    def take(self, rows: Any) -> Plan:
        """The same with these rows only: a mask, or places in this order."""
        places = np.asarray(rows)
        return replace(self, table=self.table.take(np.flatnonzero(places) if places.dtype == bool else places))

    @property
    def best(self) -> Plan:
        """The first row, if it will do; else none."""
        return self.take(np.flatnonzero(self.feasible)[:1])

    @property
    def by_accelerator(self) -> Plan:
        """The best row of every accelerator and precision."""
        keys = np.char.add(np.char.add(self.table.accelerator, "/"), self.table.precision)
        _, first = np.unique(keys, return_index=True)
        return self.take(np.sort(first))

    @property
    def frontier(self) -> Plan:
        """Pareto frontier of those that fit: none gives a user and an accelerator more tokens a second.

        By falling tokens/s a user; service levels are not asked.
        """
        fits = np.flatnonzero((self.table.code == 0) | (self.table.code > 2))
        order = fits[np.lexsort((-self.tokens_per_s_per_gpu[fits], -self.tokens_per_s_per_user[fits]))]
        gained = np.maximum.accumulate(np.concatenate([[0.0], self.tokens_per_s_per_gpu[order]]))
        return self.take(order[gained[1:] > gained[:-1]])

    def summary(self) -> str:
        """The cheapest deployment that meets the SLO, in a sentence, or why none does."""
        return plan_sentence(self)

    def deployment(self, row: int = 0) -> Deployment:
        """The deployment of a row, ready for `prefill`, `decode` and `memory`."""
        table = self.table
        degrees = (int(column[row]) for column in (table.tensor, table.pipeline, table.expert, table.data))
        case = self.cases[str(table.accelerator[row]), str(table.precision[row])]
        return case.replace(parallel=Parallel(*degrees))

    def workload(self, row: int = 0) -> Workload:
        """The workload of a row, with its batch."""
        return replace(self.load, batch=int(self.table.batch[row]))


def _says(name: str, weights_bytes: float, available_bytes: float, max_batch: float) -> str:
    if name == "weights" and weights_bytes > available_bytes:
        return f"weights: {weights_bytes / 1e9:.3g} GB on one, which has {available_bytes / 1e9:.3g} GB for them"
    return {
        "weights": "memory: not one sequence fits beside the weights",
        "memory": f"memory: {max_batch:.0f} sequences fit",
    }.get(name, "")


def plan(
    model: Model | str | Path,
    hardware: Accelerator | str | Path | Sequence[Accelerator | str | Path],
    load: Workload,
    *,
    slo: SLO | None = None,
    precisions: Sequence[Precision | str] = (),
    accelerators: Iterable[int] = (1, 2, 4, 8),
    batches: Number = BATCHES,
    prices: Mapping[str, float | Price] | None = None,
    time: str = "estimate_s",
    progress: Callable[[list[Case]], Iterable[Case]] = iter,
) -> Plan:
    """Every way to serve ``load``, ranked.

    For each accelerator and precision all layouts and batches are one array expression; what does not fit or breaks a
    service level is kept, with the reason.

    Parameters
    ----------
    model : a model, or its name
    hardware : accelerators, or their names; one of them need not be in a list
    load : the lengths of a request; its batch is not asked, ``batches`` are tried
    slo : what users were promised; nothing if None
    precisions : as `Precision`, or the name of a format of weights and, if it can be computed with, activations; as the
        checkpoint comes if none is given
    accelerators : numbers of accelerators of one deployment
    batches : sequences that run together on one deployment
    prices : name of an accelerator -> USD an hour of one; see `roofline.get_price`
    time : which time is promised: ``floor_s``, ``roofline_s`` or ``estimate_s``
    progress : wraps the list of accelerators and precisions while it is worked through (as ``tqdm`` does)

    Raises
    ------
    InvalidInput
        No hardware, lengths that are arrays, or a price that is not a finite number >= 0.
    UnknownName
        A name of a model, an accelerator, a format or a time that does not exist, or a price of what is not planned.

    Examples
    --------
    >>> import roofline as rl
    >>> found = rl.plan("llama-3.1-8b", ["l4", "h100-sxm"], rl.Workload(1500, 300), slo=rl.SLO(tpot_s=0.03))
    >>> print(found.best.accelerator[0])
    h100-sxm
    """
    model = get_model(model)
    named = [hardware] if isinstance(hardware, Accelerator | str | Path) else hardware
    chips = [get_accelerator(chip) for chip in named]
    _check(chips, load, time)
    usd = _usd_per_hour(prices or {}, chips)
    promised = slo or SLO()
    spread = layouts(model, accelerators)
    tried = replace(load, batch=np.unique(np.atleast_1d(np.asarray(number("batches", batches, least=1, whole=True)))))
    asked = [
        (Deployment(model, chip, _precision(precision), parallel), usd[chip.name])
        for chip in chips
        if (parallel := within_reach(spread, chip)) is not None
        for precision in precisions or (AS_PUBLISHED,)
    ]
    if not asked:
        raise InvalidInput("none of the accelerators has the links for any of the layouts: allow one accelerator")
    parts = [evaluate(serve, tried, promised, price, time) for serve, price in progress(asked)]
    cases = FrozenMapping({(serve.accelerator.name, short_name(serve)): serve for serve, _ in asked})
    whole = Plan(model, load, promised, time, joined(parts), cases, _notes(cases, spread, prices))
    return whole.take(_ranking(whole))


def _ranking(whole: Plan) -> Array:
    """What will do by cost, priced before others; then what breaks a level, by how little; then what does not fit."""
    table = whole.table
    headroom = np.nan_to_num(table.headroom)
    worse = np.select([whole.feasible, table.code > 2, table.code == 2], [0, 1, 2], 3)
    unpriced = ~np.isfinite(table.usd_per_hour) & np.isfinite(table.usd_per_hour).any()
    cost = np.where(whole.feasible, whole.cost, -headroom)
    return np.lexsort((-headroom, table.gpus, cost, unpriced & whole.feasible, worse))


def _check(chips: Sequence[Accelerator], load: Workload, time: str) -> None:
    if not chips:
        raise InvalidInput("a plan needs hardware: none was given")
    if time not in TIMES:
        raise unknown("time", time, TIMES)
    for name in ("prompt_tokens", "output_tokens", "cached_tokens"):
        if np.ndim(getattr(load, name)):
            raise InvalidInput(f"a plan is for requests of one length: {name} is an array")


def _usd_per_hour(prices: Mapping[str, float | Price], chips: Sequence[Accelerator]) -> dict[str, float]:
    """Price of every accelerator; NaN where none is given."""
    names = [chip.name for chip in chips]
    given = dict.fromkeys(names, np.nan)
    for name, price in prices.items():
        known = name if name in names else next((chip.name for chip in chips if name in chip.aliases), None)
        if known is None:
            raise unknown("accelerator of this plan", name, names)
        usd = price.usd_per_hour if isinstance(price, Price) else price
        given[known] = float(np.max(number("a price", usd)))
    return given


def _precision(wanted: Precision | str) -> Precision:
    """A precision, or the one that the name of a weight format stands for: activations alike if they can be."""
    if isinstance(wanted, Precision):
        return wanted
    computed = get_format(wanted).math is not None
    return Precision(weights=wanted, activations=wanted if computed else "bf16")


def _notes(
    cases: Mapping[tuple[str, str], Deployment], spread: Parallel, prices: Mapping[str, float | Price] | None
) -> tuple[str, ...]:
    """What the plan rests on: prices, links that set an end to layouts."""
    chips = {serve.accelerator.name: serve.accelerator for serve in cases.values()}
    most = float(np.max(spread.accelerators))
    ends = [
        f"{name}: no layouts beyond {reach(chip):g}, which is what it states links for"
        for name, chip in chips.items()
        if reach(chip) < most
    ]
    asked = [f"{name}: {price}" for name, price in (prices or {}).items() if isinstance(price, Price)]
    return (*ends, *asked)
