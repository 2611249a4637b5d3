"""Result of a simulation: means, quantiles and a record of every request."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from ..arrays import scalar
from ..errors import InvalidInput, Number, require
from ..phases.deployment import Deployment
from ..phases.pass_sentences import context_notes
from ..phases.passes import decode
from ..phases.totals import COMMON_MODE
from ..phases.workload import Workload
from ..report import Report, Step
from ..specs.engines import GENERIC, Engine
from ..units import humanize
from .arrivals import Demand
from .load_sentences import load_words, simulation_sentence
from .request_loops import play
from .request_records import Requests, Tally
from .slo import SLO, as_slo
from .step_times import StepTimes, encoding_notes
from .trace import Trace, without_times
from .traffic import Traffic

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Simulation(Report):
    """Result of a simulation; values are means over all requests.

    Attributes
    ----------
    deployment : Deployment
        Deployment that is simulated.
    load : Workload, Traffic or Trace
        Lengths of the requests.
    demand : Demand
        How requests arrive.
    times : StepTimes
        Step times.
    requests : Requests
        Tokens and times of all requests.
    tallies : tuple of Tally
        Totals of each scheduler.
    """

    deployment: Deployment
    load: Workload | Traffic | Trace
    demand: Demand
    times: StepTimes
    requests: Requests = field(compare=False)  # a seed repeats a run, so its arguments define it
    tallies: tuple[Tally, ...] = field(compare=False)

    columns: ClassVar[tuple[str, ...]] = (
        "ttft_s",
        "tpot_s",
        "total_s",
        "gap_s",
        "queue_s",
        "tokens_per_s",
        "requests_per_s",
        "running_batch",
        "prefill_share",
        "utilization",
        "limit",
        "time",
    )

    @property
    def heading(self) -> str:
        """Title: deployment and load."""
        return f"Simulation: {self.deployment}, {self.demand}"

    @property
    def time(self) -> str:
        """Which of the three times the steps take."""
        return self.times.time

    def of_requests(self, name: str) -> Array:
        """Return a value for every request, in the order in which they were sent.

        Parameters
        ----------
        name : str
            ``sent_s``, ``queue_s``, ``ttft_s``, ``tpot_s``, ``total_s``, ``gap_s``, ``prompt_tokens``,
            ``cached_tokens`` or ``output_tokens``.

        Returns
        -------
        array
            One value per request; NaN for the ``tpot_s`` and ``gap_s`` of a request with one token.
        """
        return self._columns[name]

    @cached_property
    def _columns(self) -> dict[str, Array]:
        record = self.requests
        arrival, admitted, first, finish = (
            np.asarray(values) for values in (record.arrival, record.admitted, record.first, record.finish)
        )
        output = np.asarray(record.output, dtype=float)
        several = output > 1
        late_s, handling = self.late_s, np.asarray(record.handling)
        later = np.where(several, output - 1, 1.0)
        return {
            "sent_s": arrival,
            "queue_s": admitted - arrival - handling,
            "ttft_s": first - arrival + late_s,
            "tpot_s": np.where(several, (finish - first) / later, np.nan),
            "total_s": finish - arrival + late_s,
            "gap_s": np.where(several, np.asarray(record.gap), np.nan),
            "prompt_tokens": np.asarray(record.prompt, dtype=float),
            "cached_tokens": np.asarray(record.cached, dtype=float),
            "output_tokens": output,
        }

    @cached_property
    def late_s(self) -> float:
        """Delay of the first token if the scheduler works ahead, seconds."""
        if self.time != "estimate_s":
            return 0.0
        steps = sum(tally.steps for tally in self.tallies)
        plain_s = sum(tally.busy_s - tally.prompts_s for tally in self.tallies)
        return float((self.times.engine.first_token_steps or 0.0) * (plain_s / steps if steps else 0.0))

    def quantile(self, name: str, share: Number) -> Number:
        """Return the value that a ``share`` of the requests does not exceed.

        Parameters
        ----------
        name : str
            Column of a request, such as ``ttft_s``.
        share : float or array
            Between 0 and 1; 0.95 is the 95th percentile.

        Returns
        -------
        float or array
            Seconds.
        """
        if name not in self._columns:
            raise InvalidInput(f"a request has no {name!r}; known: {', '.join(self._columns)}")
        if np.any((np.asarray(share) < 0) | (np.asarray(share) > 1)):
            raise InvalidInput(f"a quantile is a share from 0 to 1: {share!r}")
        found = np.nanquantile(self._columns[name], share)
        return found if np.ndim(found) else float(found)

    def share_within(self, slo: SLO) -> float:
        """Return the share of requests that meet every target of an SLO individually.

        The rate of requests times this share is the goodput.

        Parameters
        ----------
        slo : SLO
            Targets per request: TTFT, TPOT, end-to-end time, longest gap. The throughput target applies to a deployment
            and is ignored. A request with one output token has no TPOT and no gap, so it cannot miss their targets.

        Returns
        -------
        float
            From 0 to 1.
        """
        met = np.ones(len(self.requests.prompt), bool)
        for name, target in as_slo(slo).targets():
            if name in self._columns:
                met &= ~(self._columns[name] > target)
        return float(met.mean())

    def summary(self) -> str:
        """Return a sentence on the median and slow requests and the throughput."""
        return simulation_sentence(self)

    def _mean(self, name: str) -> float:
        values = self._columns[name]
        known = values[~np.isnan(values)]
        return float(known.mean()) if known.size else 0.0

    @property
    def ttft_s(self) -> float:
        """Time to first token."""
        return self._mean("ttft_s")

    @property
    def tpot_s(self) -> float:
        """Time per output token after the first, the mean over requests."""
        return self._mean("tpot_s")

    @property
    def total_s(self) -> float:
        """End-to-end time."""
        return self._mean("total_s")

    @property
    def gap_s(self) -> float:
        """Longest gap between two tokens of a request."""
        return self._mean("gap_s")

    @property
    def queue_s(self) -> float:
        """Time before any part of a request is computed."""
        return self._mean("queue_s")

    @cached_property
    def span_s(self) -> float:
        """Time from the first request to the last token."""
        return max(self.requests.finish) - min(self.requests.arrival) + self.late_s

    @property
    def requests_per_s(self) -> float:
        """Requests finished per second, over the whole run."""
        return len(self.requests.prompt) / self.span_s

    @property
    def tokens_per_s(self) -> float:
        """Output tokens per second, over the whole run."""
        return float(self._columns["output_tokens"].sum()) / self.span_s

    @property
    def running_batch(self) -> float:
        """Requests that hold a slot, averaged over the run."""
        held = np.asarray(self.requests.finish) - np.asarray(self.requests.admitted)
        return float(held.sum()) / self.span_s

    @property
    def prefill_share(self) -> float:
        """Share of the busy time spent on prompts: whole prompt passes, and what prompts add to mixed steps."""
        return sum(tally.prompts_s for tally in self.tallies) / sum(tally.busy_s for tally in self.tallies)

    @property
    def utilization(self) -> float:
        """Share of the run in which a scheduler is busy."""
        return sum(tally.busy_s for tally in self.tallies) / (len(self.tallies) * self.span_s)

    @property
    def limit(self) -> str:
        """What keeps more requests from running: ``memory``, ``slots``, or the time of ``prefill`` or of ``steps``."""
        busy = sum(tally.busy_s for tally in self.tallies)
        memory = sum(tally.memory_s for tally in self.tallies)
        slots = sum(tally.slots_s for tally in self.tallies)
        if max(memory, slots) > WAITING * busy:
            return "memory" if memory >= slots else "slots"
        return "prefill" if self.prefill_share > 0.5 else "steps"

    @cached_property
    def low(self) -> Simulation:
        """The simulation with every step at the lower end of the estimate's interval."""
        return self._scaled(0)

    @cached_property
    def high(self) -> Simulation:
        """The simulation with every step at the upper end of the estimate's interval."""
        return self._scaled(1)

    def _scaled(self, end: int) -> Simulation:
        factor = interval(self.times, self.running_batch, self.load)[end]
        times = replace(self.times, scale=factor)
        requests, tallies = play(self.deployment, self.load, self.demand, times)
        return replace(self, times=times, requests=requests, tallies=tallies)

    @property
    def preempted(self) -> int:
        """Number of times that a running request was preempted for lack of memory."""
        return sum(tally.preempted for tally in self.tallies)

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """Assumptions behind the results."""
        return notes(self)

    def requests_frame(self) -> pd.DataFrame:
        """Return a table with one row per request: tokens and times."""
        require("pandas", "frame", "a table")
        import pandas as pd

        return pd.DataFrame(self._columns)

    def _derivation(self) -> tuple[Step, ...]:
        """Return how the means are derived from the requests and from each other."""
        count, tokens = len(self.requests.prompt), float(self._columns["output_tokens"].sum())
        span = {"span_s": self.span_s}
        busy = sum(tally.busy_s for tally in self.tallies)
        prompts = sum(tally.prompts_s for tally in self.tallies)
        total = float(self._columns["total_s"].sum())
        source = f"simulation of {sum(tally.events for tally in self.tallies):,} events"
        return (
            Step("requests_per_s", "requests / span_s", {"requests": count} | span, self.requests_per_s, source),
            Step("tokens_per_s", "tokens / span_s", {"tokens": tokens} | span, self.tokens_per_s, source),
            Step("total_s", "sum_s / requests", {"sum_s": total, "requests": count}, self.total_s, source),
            Step(
                "prefill_share",
                "prompts_s / busy_s",
                {"prompts_s": prompts, "busy_s": busy},
                self.prefill_share,
                source,
            ),
            Step(
                "utilization",
                "busy_s / (schedulers * span_s)",
                {"busy_s": busy, "schedulers": len(self.tallies)} | span,
                self.utilization,
                source,
            ),
        )


WAITING = 0.1
"""Memory or slots are the limit if requests wait for them for at least this share of the busy time."""


def interval(times: StepTimes, batch: Number, load: Workload | Traffic | Trace) -> tuple[Number, Number]:
    """Return the ends of the interval of a typical decode step of each batch, as factors of its estimate."""
    if times.time != "estimate_s":
        return 1.0, 1.0
    plain = without_times(load)
    if isinstance(plain, Traffic):
        prompt: Number = plain.mean_prompt_tokens + plain.cached_tokens
    else:
        prompt = plain.context_tokens
    serve = times.serve
    step = decode(serve, Workload(batch=np.maximum(np.round(batch), 1.0)), context_tokens=np.round(prompt))
    low, high = step.estimate_low_s / step.estimate_s, step.estimate_high_s / step.estimate_s
    if serve.kernels not in FITTED_SERVERS:
        return low, high
    return 1.0 / _of_servers(1.0 / low), _of_servers(high)


FITTED_SERVERS = ("vllm", "sglang", "trtllm")
"""Engines whose host times are fitted to runs of whole servers (engine_specs)."""

SERVERS_MODE = 0.045
"""Replaces `roofline.phases.totals.COMMON_MODE` for them: the fit absorbs most of the error common to all kernels.

With it the interval contains 80 % of the runs whose model and accelerator were left out of the fit, but 64 % of those
of other sources, where hosts and launch options differ (benchmarks/found_servers.md)."""


def _of_servers(factor: Number) -> Number:
    """Return a factor from the estimate to an end of its interval, using the common mode of fitted servers."""
    kernels = np.maximum(np.log(factor) ** 2 - COMMON_MODE**2, 0.0)
    return scalar(np.exp((kernels + SERVERS_MODE**2) ** 0.5))


ADMISSIONS = {
    "grow": "cache allocated as sequences grow",
    "reserve": "cache reserved for whole sequences",
}
"""Descriptions of how an engine admits requests."""


def engine_note(engine: Engine) -> str:
    """Return how an engine schedules and admits requests, as a sentence."""
    name = "a generic engine" if engine.name == GENERIC else f"engine {engine}"
    return (
        f"{name}: {str(engine.scheduler).replace('_', ' ')} scheduling, {engine.step_tokens:,.0f} tokens per step, "
        f"{engine.max_sequences:,.0f} sequences at most, {ADMISSIONS[str(engine.admission)]}"
    )


GROWN, WAITING_SHARE = 1.5, 0.05
"""A queue grows if more wait at the last arrival than this multiple of those half-way, and than this share of all."""


def fallen_behind(found: Simulation) -> int:
    """Return how many requests still wait for a first token at the last arrival, if the queue kept growing."""
    if not found.demand.open_loop:
        return 0
    arrival, first = np.asarray(found.requests.arrival), np.asarray(found.requests.first)
    half, late = (int(np.sum((arrival < at) & (first > at))) for at in (arrival.max() / 2, arrival.max()))
    return late if late > max(GROWN * half, WAITING_SHARE * len(arrival)) else 0


def run_note(found: Simulation) -> str:
    """Return the note on the requests of a simulation and how they arrive."""
    return f"simulation of {len(found.requests.prompt):,} requests, {found.demand}, seed {found.demand.seed}"


def runs_notes(runs: tuple[Simulation, ...]) -> tuple[str, ...]:
    """Return the notes of simulations that differ in their load."""
    first = runs[0]
    if len(runs) == 1:
        return first.assumptions
    demands = [each.demand for each in runs]
    counts = sorted({len(each.requests.prompt) for each in runs})
    requests = " to ".join(f"{count:,}" for count in (counts[0], counts[-1])[: len(counts)])
    if first.demand.open_loop:
        bursts = humanize("burstiness", np.array([each.burstiness for each in demands]))
        rates = load_words(None, np.array([each.requests_per_s for each in demands]))
        load = f"open loop, {rates}, burstiness {bursts}"
    else:
        load = f"closed loop, {load_words(np.array([each.concurrency for each in demands]), None)}"
    several = f"simulations of {requests} requests each, {load}, seed {first.demand.seed}"
    return tuple(several if note == run_note(first) else note for note in first.assumptions)


def notes(found: Simulation) -> tuple[str, ...]:
    """Return the notes of a simulation: warnings and assumptions."""
    engine = found.times.engine
    lines = [run_note(found), engine_note(engine)]
    if engine.basis:
        lines.append(f"host times {engine.basis}")
    requests = found.requests
    tokens = np.add(np.add(requests.prompt, requests.cached), requests.output)
    lines += context_notes(found.deployment.model, float(np.max(tokens, initial=0.0)))
    lines += encoding_notes(found.deployment, found.load)
    behind = fallen_behind(found)
    if behind:
        lines.insert(
            0,
            f"requests arrive faster than they are finished: {behind:,} still wait for their first token when the last "
            "one arrives, and waiting times grow with the length of the run",
        )
    if isinstance(found.load, Workload) and not found.demand.open_loop and found.demand.concurrency != 1:
        lines.append("requests of equal lengths stay synchronized; those of a traffic file do not")
    if found.preempted:
        lines.append(f"{found.preempted:,} preemptions for lack of KV-cache memory, each recomputed")
    if found.demand.hit_rate and not engine.prefix_caching:
        lines.append(f"{engine.title} does not cache prefixes by default; hit_rate assumes that this is enabled")
    return tuple(lines)
