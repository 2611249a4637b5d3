"""Plans of two pools: one row per accelerator and precision, compared with aggregated deployments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..phases.deployment import Deployment
from ..report import Rows
from ..serving.pool_energy import Busy
from ..specs.electricity import Power
from ..values import Value
from .candidates import Array, layout_name
from .plan_sentences import pools_sentence
from .plans import Plan


@dataclass(frozen=True, eq=False)
class PoolGroup(Value):
    """Prefill and decode workers that serve requests together; fields as in `PoolPlan`."""

    prefill: Deployment
    decode: Deployment
    prefill_workers: int
    decode_workers: int
    batch: float
    replicas: float
    requests_per_s: float
    ttft_s: float
    ttft_low_s: float
    ttft_high_s: float
    tpot_s: float
    tpot_low_s: float
    tpot_high_s: float
    total_s: float
    gap_s: float
    handover_s: float
    prefill_load: float
    decode_load: float
    queue: str
    busy: tuple[Busy, ...] = ()

    @property
    def accelerators(self) -> float:
        """Accelerators of one group."""
        prompts = self.prefill_workers * self.prefill.parallel.accelerators
        return float(prompts + self.decode_workers * self.decode.parallel.accelerators)

    def watts(self, power: Power) -> float:
        """Mean power of one group, busy and idle time together; NaN where there is no power, as at the floor."""
        if self.busy:
            return sum(pool.watts(power) for pool in self.busy)
        return np.nan


@dataclass(frozen=True, eq=False, repr=False)
class PoolPlan(Rows):
    """The cheapest pools of prefill and decode workers for each accelerator and precision of a plan.

    Attributes
    ----------
    plan : Plan
        Best aggregated deployment of each row, for comparison.
    groups : tuple of (Group or None)
        Pools of each row; None if there are none.
    reasons : tuple of str
        Why a row has no pools; empty if it has some.
    assumptions : tuple of str
        Assumptions behind the values.

    Columns
    -------
    prefill_layout, prefill_workers, decode_layout, decode_workers
        Layout of a worker of each pool, and number of workers per group.
    batch
        Sequences that a decode worker runs at the same time.
    replicas
        Number of groups for the rate; unknown without a rate.
    gpus, usd_per_hour
        Accelerators of all groups (of one group without a rate), and their price.
    ttft_s, tpot_s, total_s, gap_s
        The SLO's statistic over requests (their mean without a rate), with the ends of their intervals.
    handover_s
        Time to transfer the cache of a request to the decode pool.
    prefill_load, decode_load
        Load of the workers as a share of their throughput; if simulated, the share of the time in which they are busy.
    tokens_per_s_per_gpu
        Output tokens per second and accelerator, over all accelerators.
    usd_per_request
        Price of all accelerators divided by the requests that they serve.
    watts, joules_per_request
        Mean power of all groups (of one without a rate), busy and idle time together, with host and losses as the plan
        states them, and its energy per request.
    queue
        ``simulation``, or ``closed-form``; empty without a rate.
    aggregated_layout, aggregated_gpus, aggregated_usd_per_hour, aggregated_tokens_per_s_per_gpu,
    aggregated_joules_per_request
        The plan's deployments, which run both phases on the same accelerators.
    cost_ratio, energy_ratio
        Cost and energy of the pools divided by those of these deployments for the same requests; below 1, the pools are
        better.
    feasible, reason
        Whether there are pools that meet the SLO, and why not.
    """

    plan: Plan
    groups: tuple[PoolGroup | None, ...]
    reasons: tuple[str, ...]
    assumptions: tuple[str, ...] = ()

    columns = (
        "accelerator",
        "precision",
        "engine",
        "basis",
        "prefill_layout",
        "prefill_workers",
        "decode_layout",
        "decode_workers",
        "batch",
        "replicas",
        "gpus",
        "usd_per_hour",
        "ttft_s",
        "ttft_low_s",
        "ttft_high_s",
        "tpot_s",
        "tpot_low_s",
        "tpot_high_s",
        "total_s",
        "gap_s",
        "handover_s",
        "prefill_load",
        "decode_load",
        "tokens_per_s_per_gpu",
        "usd_per_request",
        "watts",
        "joules_per_request",
        "queue",
        "aggregated_layout",
        "aggregated_gpus",
        "aggregated_usd_per_hour",
        "aggregated_tokens_per_s_per_gpu",
        "aggregated_joules_per_request",
        "cost_ratio",
        "energy_ratio",
        "feasible",
        "reason",
    )
    printed = {  # noqa: RUF012
        "accelerator": "accelerator",
        "precision": "precision",
        "prefill_workers": "prefill",
        "prefill_layout": "layout",
        "decode_workers": "decode",
        "decode_layout": "layout",
        "gpus": "GPUs",
        "aggregated_gpus": "aggregated",
        "cost_ratio": "cost ratio",
        "energy_ratio": "energy ratio",
        "ttft_s": "TTFT",
        "tpot_s": "TPOT",
        "reason": "reason",
    }

    def __getattr__(self, name: str) -> Array:
        if name in ("accelerator", "precision", "engine", "basis"):
            column: Array = getattr(self.plan, name)
            return column
        if name in PoolGroup.__dataclass_fields__:
            kind = float if name != "queue" else str
            unknown_value = "" if kind is str else np.nan
            return np.array([getattr(group, name) if group else unknown_value for group in self.groups], dtype=kind)
        raise AttributeError(f"a plan of pools has no {name!r}")

    @property
    def feasible(self) -> Array:
        """Whether there are pools that meet the SLO."""
        return np.array([group is not None for group in self.groups], dtype=bool)

    @property
    def reason(self) -> Array:
        """Why a row has no pools; empty if it has some."""
        return np.array(self.reasons, dtype=object)

    @property
    def prefill_layout(self) -> Array:
        """Layout of a prefill worker."""
        return np.array([layout_name(group.prefill.parallel) if group else "" for group in self.groups])

    @property
    def decode_layout(self) -> Array:
        """Layout of a decode worker."""
        return np.array([layout_name(group.decode.parallel) if group else "" for group in self.groups])

    @property
    def gpus(self) -> Array:
        """Accelerators of all groups; of one group without a rate."""
        each = np.array([group.accelerators if group else np.nan for group in self.groups])
        return np.asarray(each * np.where(np.isnan(self.replicas), 1.0, self.replicas))

    @property
    def usd_per_hour(self) -> Array:
        """Price of these accelerators per hour."""
        return np.asarray(self.gpus * self.plan.usd_per_hour)

    @property
    def _rate(self) -> Array:
        """Requests per second of all groups; of one group without a rate."""
        return np.asarray(self.requests_per_s * np.where(np.isnan(self.replicas), 1.0, self.replicas))

    @property
    def tokens_per_s_per_gpu(self) -> Array:
        """Output tokens per second and accelerator."""
        return np.asarray(self.plan.load.output_tokens * self._rate / self.gpus)

    @property
    def usd_per_request(self) -> Array:
        """Price per request."""
        return np.asarray(self.usd_per_hour / 3600.0 / self._rate)

    @property
    def watts(self) -> Array:
        """Mean power of all groups; of one group without a rate."""
        each = np.array([group.watts(self.plan.power) if group else np.nan for group in self.groups])
        return np.asarray(each * np.where(np.isnan(self.replicas), 1.0, self.replicas))

    @property
    def joules_per_request(self) -> Array:
        """Energy of all groups per request."""
        return np.asarray(self.watts / self._rate)

    @property
    def aggregated_joules_per_request(self) -> Array:
        """Energy per request of the aggregated deployments, at the rate or at capacity."""
        plan = self.plan
        if plan.stream is None:
            return np.where(plan.feasible, plan.joules_per_request, np.nan)
        load = plan.stream.requests_per_s / (plan.replicas * plan.requests_per_s)
        idle = np.where(load < 1, (1 - load) * plan.gpus * plan.power.at_the_meter(plan.idle_watts), 0.0)
        watts = plan.replicas * (load * plan.watts + idle)
        return np.where(plan.feasible, watts / plan.stream.requests_per_s, np.nan)

    @property
    def energy_ratio(self) -> Array:
        """Energy of the pools divided by that of the aggregated deployments, for the same requests."""
        return np.asarray(self.joules_per_request / self.aggregated_joules_per_request)

    @property
    def aggregated_layout(self) -> Array:
        """Layout of the aggregated deployments."""
        return np.asarray(self.plan.layout)

    @property
    def aggregated_gpus(self) -> Array:
        """Accelerators of the aggregated deployments (of one without a rate); NaN if none meets the SLO."""
        several = 1.0 if self.plan.stream is None else self.plan.replicas
        return np.asarray(np.where(self.plan.feasible, self.plan.gpus * several, np.nan))

    @property
    def aggregated_usd_per_hour(self) -> Array:
        """Price of the aggregated deployments per hour."""
        return np.asarray(self.aggregated_gpus * self.plan.usd_per_hour)

    @property
    def aggregated_tokens_per_s_per_gpu(self) -> Array:
        """Output tokens per second and accelerator of the aggregated deployments, at the rate or at capacity."""
        if self.plan.stream is None:
            return np.where(self.plan.feasible, self.plan.tokens_per_s_per_gpu, np.nan)
        return np.asarray(self.plan.load.output_tokens * self.plan.stream.requests_per_s / self.aggregated_gpus)

    @property
    def cost_ratio(self) -> Array:
        """Cost of the pools divided by that of the aggregated deployments, for the same requests."""
        return np.asarray(self.aggregated_tokens_per_s_per_gpu / self.tokens_per_s_per_gpu)

    @property
    def best(self) -> PoolPlan:
        """The first row with pools; empty if there is none."""
        return self.take(np.flatnonzero(self.feasible)[:1])

    def take(self, rows: Any) -> PoolPlan:
        """The rows at these indices, in this order."""
        places = [int(row) for row in np.ravel(rows)]
        groups = tuple(self.groups[at] for at in places)
        reasons = tuple(self.reasons[at] for at in places)
        return replace(self, plan=self.plan.take(np.array(places, dtype=int)), groups=groups, reasons=reasons)

    def cell(self, name: str, value: Any) -> str:
        """Return a value of the column ``name`` formatted for people."""
        if name in ("cost_ratio", "energy_ratio") and not np.isnan(value):
            return f"{value:.2f}x"
        if name in ("prefill_load", "decode_load") and not np.isnan(value):
            return f"{value:.0%}"
        return super().cell(name, value)

    def summary(self) -> str:
        """One sentence on the cheapest pools and the cheapest aggregated deployments."""
        return pools_sentence(self)
