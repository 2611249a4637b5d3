"""One scheduler in steady state: the closed forms on tabulated step times.

`roofline.serving.closed_forms` derives the time of a request from the times of passes.  Here the passes are those of an
engine (`roofline.serving.step_times`) with a token budget, slots and memory.

Schedulers that share a set of experts step together (`roofline.serving.ranks`): the closed forms treat them as one lane
with the requests and the budget of all, in which the most loaded rank sets the pace.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import Number
from ..values import Value
from . import closed_forms
from .busiest import busiest, busiest_in_turn, highest_of
from .cache_pool import CachePool
from .closed_forms import RequestTimes
from .gathering import gathering, wait_for_step
from .lane_gates import LaneGate
from .lengths import Lengths
from .pipeline_rounds import Rounds, request_times, rounds
from .step_times import StepTimes

GATHERING_ROUNDS = 2
"""Iterations for the time of a pass and its number of prompts, which depend on each other weakly."""


@dataclass(frozen=True, eq=False)
class Lane(Value):
    """The closed form of one scheduler with ``clients`` requests in the system.

    Attributes
    ----------
    times : StepTimes
        Step times.
    pool : CachePool
        Cache memory of the scheduler.
    lengths : Lengths
        Lengths of the requests.
    clients : float or array
        Requests in the system, including those waiting for a slot or for memory.
    varies : bool
        Whether ``clients`` is the mean of a varying number, as in an open loop.
    """

    times: StepTimes
    pool: CachePool
    lengths: Lengths
    clients: Number
    varies: bool = False

    @cached_property
    def fits(self) -> Number:
        """Number of sequences that fit in memory: at full length if reserved, else with half of their output."""
        lengths = self.lengths
        reserved = self.times.engine.admission == "reserve"
        held = lengths.full if reserved else lengths.full - lengths.output / 2.0
        return np.maximum(self.pool.sequences_of(held), 1.0)

    @cached_property
    def running(self) -> Number:
        """Requests that hold a slot."""
        most = float(self.times.engine.max_sequences or np.inf)
        return np.maximum(np.minimum(np.minimum(self.clients, self.fits), most), 1.0)

    @cached_property
    def computed_tokens(self) -> Number:
        """Prompt tokens computed per request, including those recomputed after preemption.

        If pages are allocated as sequences grow and memory is full, a request that ends releases its ``P + O`` tokens,
        which waiting prompts fill again at once. The running sequences grow by ``O`` tokens until the next one ends, so
        as many tokens have to be given up again. All of them were computed in vain if the prompts came first, none if
        the growth did. Growth is even in time and a prompt starts whenever all of it fits, so on average half of ``O``
        is lost. Simulations of 250 to 1,500 prompt and 100 to 2,000 output tokens have a throughput within 8 % of this
        (tests/test_serving_under_load.py).
        """
        engine, lengths = self.times.engine, self.lengths
        most = np.minimum(self.clients, float(engine.max_sequences or np.inf))
        preempts = (engine.admission == "grow") & (most > self.fits)
        return lengths.prompt + np.where(preempts, lengths.output / 2.0, 0.0)

    @cached_property
    def together(self) -> Number:
        """Requests that hold a slot, over all schedulers that step together."""
        found: Number = np.maximum(np.minimum(self.running, self.clients) * self.times.sharing, 1.0)
        return found

    @cached_property
    def step_s(self) -> Number:
        """Time of a decode step of all running sequences, seconds."""
        if self._pipelined and self.varies:  # the fullest microbatch sets the pace
            stages = self.times.stages
            most = np.maximum(busiest_in_turn(self.running * stages, stages), 1.0)
            return self.times.decode_s(most, self.lengths.context)
        sharing = self.times.sharing
        if sharing == 1:
            return self.times.decode_s(self.running, self.lengths.context)
        on_average = np.minimum(self.running, self.clients)  # below 1 where some ranks have none
        most = self.running
        if self.varies:
            most = np.maximum(busiest_in_turn(on_average * sharing, sharing), 1.0)
        whole_s = self.times.decode_s(most, self._longest_context(on_average, most))
        fewer_s = self.times.experts_s(most) - self.times.experts_s(on_average)
        found: Number = whole_s - self.times.host.decode_factor * fewer_s
        return found

    @property
    def _fit(self) -> Number:
        """Mean number of prompts that fit in a step of a scheduler; at least one, as a longer prompt runs alone.

        The last prompt is cut if the engine allows chunks.  Else a step takes whole prompts: room for ``x`` mean
        prompts takes about ``x - 1/2`` of different lengths (renewals before ``x``, Cox 1962, section 4.1).
        """
        fit = np.divide(self._room, self._budget_tokens)
        if not self.times.engine.chunked:
            fit = fit - 0.5 if self._spread else np.floor(fit)
        return np.maximum(fit, 1.0)

    def _longest_context(self, on_average: Number, most: Number) -> Number:
        """Return the mean context of the rank with the most cached tokens, if its sequences are ``most``.

        The tokens of ``b`` sequences are a sum of ``b`` independent contexts, nearly normal: the largest of ``R`` such
        sums exceeds the mean by `highest_of` standard deviations, ``sqrt(b)`` of those of a context.  Ranks that have
        more sequences than others are counted with the mean context.
        """
        lengths, sharing = self.lengths, self.times.sharing
        beyond = highest_of(sharing) * lengths.context_deviation / np.sqrt(np.maximum(on_average, 1.0))
        alike = np.equal(most, on_average)
        found: Number = np.minimum(lengths.context + np.where(alike, beyond, 0.0), lengths.full)
        return found

    @cached_property
    def _budget(self) -> float:
        return float(self.times.engine.step_tokens or np.inf)

    @property
    def _budget_tokens(self) -> Number:
        """Tokens that a prompt takes from the budget of a step, with those that its encoder computes beside it."""
        return self.computed_tokens + self.times.encoded_tokens

    @cached_property
    def chunks(self) -> closed_forms.Chunks:
        """How prompts share steps with running sequences in an engine with mixed steps.

        Prompts use the part of the budget left by one token per running sequence. If the budget ``b`` is short,
        sequences that wait for their prompt generate nothing, and the budget is shared in proportion to need: ``b P /
        (P + n)`` of a step goes to prompts.
        """
        room, steps = self._room, self.lengths.steps
        if not self.times.engine.chunked:
            room = np.where(np.isfinite(room), self._fit * self.computed_tokens, room)
        made = closed_forms.chunks(self.running, steps, self.computed_tokens, room)
        fit = self._fit * self.times.sharing
        met = closed_forms.met_prompts(self.together, steps, made.passes)
        gathered = np.maximum(self.gate.gathered_prompts, met)
        return closed_forms.chunks_together(made, self.together, steps, gathered=gathered, most=fit)

    @property
    def _room(self) -> Number:
        """Prompt tokens that fit in a mixed step of a scheduler; in a pass over prompts alone, the whole budget."""
        if self.times.engine.scheduler != "mixed":
            return self._budget
        share = self.computed_tokens / (self.computed_tokens + self.lengths.steps)
        found: Number = np.maximum(self._budget - self.running, self._budget * share)
        return found

    @cached_property
    def chunk_s(self) -> Number:
        """Time of a step with a chunk from the middle of a prompt, seconds."""
        return self._chunk_s(self.chunks.prompts)

    def _chunk_s(self, prompts: Number) -> Number:
        """Return the time of a step with chunks of ``prompts`` prompts."""
        made, lengths = self.chunks, self.lengths
        tokens = self.computed_tokens / made.passes
        past = lengths.cached + (self.computed_tokens - tokens) / 2.0
        return self._pass_s(made.riders, tokens, past, prompts)

    def _pass_s(self, riders: Number, tokens: Number, past: Number, prompts: Number) -> Number:
        """Return the time of a joint pass over ``prompts`` prompts in which ``riders`` sequences also generate."""
        times, sharing = self.times, self.times.sharing
        if sharing == 1:
            return self._mean_pass_s(riders, tokens, past, prompts)
        most, longest = np.maximum(self._most_loaded(prompts), 1.0), tokens
        if self._spread:
            longest = tokens * np.maximum(self._most_loaded(prompts, self._spread) / most, 1.0)
        each, factor = riders / sharing, times.host.prefill_factor
        busiest_s = self._mean_pass_s(each, longest, past, most) - factor * times.experts_s(each + most * longest)
        one_s = self._mean_pass_s(each, tokens, past, 1.0) - factor * times.experts_s(each + tokens)
        shared_s = factor * times.experts_s((riders + prompts * tokens) / sharing)
        found: Number = np.maximum(busiest_s, one_s) + shared_s  # alike where the host sets the pace
        return found

    def _mean_pass_s(self, riders: Number, tokens: Number, past: Number, prompts: Number) -> Number:
        """Return the mean time of a pass of one scheduler over ``prompts`` prompts of ``tokens`` tokens on average.

        The time of attention grows with the square of a prompt's length.  Its mean is that of two equally frequent
        lengths with the mean and the variance of all.
        """
        times, context = self.times, self.lengths.context
        begun = np.minimum(tokens / self.computed_tokens, 1.0)
        if not self._spread:
            return times.mixed_s(riders, context, tokens, past, prompts, begun=begun)
        apart = np.minimum(self._spread * self.computed_tokens, tokens - 1.0)
        both = [
            times.mixed_s(riders, context, tokens + sign * apart, past, prompts, begun=begun) for sign in (-1.0, 1.0)
        ]
        found: Number = (both[0] + both[1]) / 2.0
        return found

    @cached_property
    def _spread(self) -> float:
        """Coefficient of variation of the tokens of a prompt in a pass; chunks of long prompts are all of one size."""
        whole = np.all(self.computed_tokens <= self._budget) or not self.times.engine.chunked
        return float(self.lengths.prompt_spread) if whole else 0.0

    def _most_loaded(self, prompts: Number, spread: float = 0.0) -> Number:
        """Return the prompts of the busiest scheduler; a gate for ranks opens when each of them has one.

        If the lengths ``spread``, these are the tokens of the scheduler with the most tokens, in mean prompts.
        """
        sharing = self.times.sharing
        if self.varies and not self.gate.balanced and not spread:
            return prompts / sharing  # arrivals go to the schedulers in turn
        others = busiest(prompts, sharing, spread, self._fit)
        if not self.gate.balanced:
            return others  # type: ignore[no-any-return]
        ready = 1.0 + busiest(np.maximum(prompts - sharing, 0.0), sharing)
        if spread:
            ready = ready + highest_of(sharing) * spread * np.sqrt(np.maximum(prompts / sharing, 1.0))
        found: Number = self.gate.all_ready * ready + (1.0 - self.gate.all_ready) * others
        return found

    @cached_property
    def gate(self) -> LaneGate:
        """The gate that holds prompts back, if the engine has one."""
        times, lengths = self.times, self.lengths
        return LaneGate(
            times.engine,
            times.sharing,
            self.running,
            lengths.steps,
            self.computed_tokens,
            opens_early=self.varies,
            closes=times.engine.scheduler == "mixed" and times.time == "estimate_s",
        )

    @cached_property
    def packing(self) -> closed_forms.Packing:
        """How many prompts share a prompt-only pass, over all schedulers that step together."""
        most = self.times.sharing * np.maximum(np.floor(self._budget / self._budget_tokens), 1.0)
        if self.times.engine.scheduler == "static":
            return closed_forms.Packing(self.together, self.together, most)
        steps, away = self.lengths.steps, self._away_steps
        at_once = closed_forms.packing(self.together, steps, most)
        if self._pipelined or not np.any(away):
            return at_once
        found, first = at_once, self.pass_s(np.minimum(at_once.per_pass, most)) / self.step_s
        for _ in range(GATHERING_ROUNDS):
            lasts = self.pass_s(np.minimum(found.per_pass, most)) / self.step_s
            found = gathering(at_once, self.together, steps, away_steps=away, first_steps=first, pass_steps=lasts)
        return found

    @property
    def _away_steps(self) -> Number:
        """Decode steps from the end of a request to the arrival of the next; 0 in an open loop and without a slot."""
        if self.varies:
            return 0.0
        away_s = self.times.handling_s(self.lengths.prompt + self.lengths.cached)
        return np.where(self.clients > self.running, 0.0, away_s / self.step_s)

    @property
    def _with_others_s(self) -> Number:
        """Time by which a prompt's own mixed steps are longer than average, seconds.

        Averaged over prompts, a step has one prompt more than arrive meanwhile: long steps have many of them.
        """
        made = self.chunks
        arriving = np.maximum(self.together - 1.0, 0.0) / np.maximum(self.lengths.steps, 1.0) * made.passes
        seen = np.clip(1.0 + arriving, made.prompts, np.maximum(self._fit * self.times.sharing, made.prompts))
        found: Number = made.passes * np.maximum(self._chunk_s(seen) - self.chunk_s, 0.0)
        return found

    @property
    def _wait_for_step_s(self) -> Number:
        """Wait of an arrival in a closed loop for a mixed step in progress, seconds; none if all others are away."""
        made, away = self.chunks, self._away_steps
        if not np.any(away):
            return 0.0
        passes = self.together / made.prompts * made.passes
        share = passes / (passes + np.maximum(self.lengths.steps - passes + made.passes, 0.0))
        wait = wait_for_step(away, self.chunk_s / self.step_s, share)
        return wait * self.step_s * np.clip(self.together - 1.0, 0.0, 1.0)

    def pass_s(self, prompts: Number) -> Number:
        """Return the time to compute ``prompts`` prompts together, in several passes if a prompt exceeds the budget."""
        lengths = self.lengths
        passes = np.maximum(np.ceil(self.computed_tokens / self._budget), 1.0) if self.times.engine.chunked else 1.0
        tokens = self.computed_tokens / passes
        past = lengths.cached + (self.computed_tokens - tokens) / 2.0
        return passes * self._pass_s(0.0, tokens, past, prompts)

    @cached_property
    def request(self) -> RequestTimes:
        """Latency of a request once it has a slot."""
        running, steps, step_s = self.together, self.lengths.steps, self.step_s
        if self._pipelined:
            return self._in_pipeline
        if self.times.engine.scheduler == "mixed":
            seen = closed_forms.chunked(running, steps, step_s, made=self.chunks, mixed_s=self.chunk_s)
            waits_s = self.gate.held_steps * self.step_s + self._wait_for_step_s + self._with_others_s
            return RequestTimes(seen.ttft_s + waits_s, seen.total_s + waits_s)
        pack = self.packing
        pass_s = self.pass_s(np.minimum(pack.per_pass, pack.most))
        if self.times.engine.scheduler == "static":
            return closed_forms.starting_together(running, steps, step_s, pack=pack, pass_s=pass_s, slots_used=1.0)
        seen_s = self.pass_s(np.minimum(pack.seen, pack.most))
        return closed_forms.prompts_first(running, steps, step_s, pack=pack, pass_s=pass_s, seen_pass_s=seen_s)

    @property
    def _pipelined(self) -> bool:
        """Whether the scheduler is one of several microbatches that do not overtake each other."""
        return self.times.stages > 1

    @property
    def other_microbatches(self) -> tuple[Number, Number]:
        """Requests of the average microbatch as a share of this one's, and rounds that the next request misses."""
        mean = self.clients - (1.0 - 1.0 / self.times.stages) if self.varies else self.clients
        none = (self.clients > self.running) | self.varies  # a waiting request starts at once
        away_s = self.times.handling_s(self.lengths.prompt + self.lengths.cached)
        return np.minimum(mean / self.running, 1.0), np.where(none, 0.0, np.ceil(away_s / self.step_s))

    @property
    def _in_pipeline(self) -> RequestTimes:
        """Latency of a request in a microbatch that waits for others (`roofline.serving.pipeline_rounds`)."""
        steps, running, stages = self.lengths.steps, self.running, self.times.stages
        busy, missed = self.other_microbatches
        others: dict[str, Number] = {"busy": busy, "missed": missed}
        away_s = self.times.handling_s(self.lengths.prompt + self.lengths.cached)

        def wait(made: Rounds, stall_s: Number) -> Number:
            """Rest of the rounds that a request has missed, if others run."""
            rest_s = missed * made.mean_s(self.step_s, stall_s) - away_s
            return np.minimum(running - 1.0, 1.0) * np.maximum(rest_s, 0.0) * (missed > 0)

        if self.times.engine.scheduler == "mixed":
            chunks, made = self.chunks, self.chunk_s
            passes = running / chunks.prompts * chunks.passes
            count = np.maximum(steps + chunks.passes, passes)
            found = rounds(count - passes, passes, stages, chunks=chunks.passes, **others)
            stall_s = np.maximum(made, self.step_s)
            own_s = np.maximum(count - steps, 1.0) * stall_s * found.stretch + self.gate.held_steps * self.step_s
            return request_times(steps, self.step_s, found, stall_s=stall_s, ttft_s=own_s + wait(found, stall_s))
        pack = self.packing
        packed, seen = (np.minimum(prompts, pack.most) for prompts in (pack.per_pass, pack.seen))
        found = rounds(steps, running / packed, stages, chunks=1.0, **others)
        stall_s = np.maximum(self.pass_s(packed), self.step_s)
        ttft_s = self.pass_s(seen) * (np.maximum(pack.seen / pack.most, 1.0) + 1.0) / 2.0
        return request_times(steps, self.step_s, found, stall_s=stall_s, ttft_s=ttft_s + wait(found, stall_s))

    @cached_property
    def queue_s(self) -> Number:
        """Wait for a slot or for memory, seconds: by Little's law, waiting requests divided by throughput."""
        return np.maximum(self.clients - self.running, 0.0) * self.request.total_s / self.running

    def wait_for_step_s(self, rate: Number, others: Number) -> Number:
        """Return the wait for the step in progress, in an open loop at ``rate`` with ``others`` in the system.

        The mean rest of the step in progress, if there is one, is ``E[T^2] / 2 E[T]``, as an arrival meets long steps
        more often. Prompts that arrive in the same step share the next pass and lengthen it.
        """
        mixes = self.times.engine.scheduler == "mixed"
        with_prompts_s = self.chunk_s if mixes else self.pass_s(1.0)
        passes = self.chunks.passes * self.times.sharing / self.chunks.prompts if mixes else self.times.sharing
        share = np.minimum(rate * passes * with_prompts_s, 1.0)
        busy = -np.expm1(-np.asarray(others, dtype=float))
        step_s = share * with_prompts_s + (1.0 - share) * self.step_s
        further_s = self.pass_s(2.0) - self.pass_s(1.0)
        wait_s: Number = busy * (step_s / 2.0 + rate * step_s * further_s)
        return wait_s

    @property
    def handling_s(self) -> Number:
        """Time of a request outside queue and steps, including arrival checks, seconds; part of the estimate only."""
        handling_s = self.times.handling_s(self.lengths.prompt + self.lengths.cached)
        if self.times.time != "estimate_s":
            return handling_s
        engine = self.times.engine
        every = max(engine.receive_interval or 1.0, engine.schedule_interval or 1.0)
        looks = (engine.receive_share or 0.0) * (every - 1.0)
        # Without further tokens there are no steps to wait for.
        steps = ((engine.first_token_steps or 0.0) + looks) * (self.lengths.steps > 0)
        return handling_s + steps * self.step_s

    @property
    def requests_per_s(self) -> Number:
        """Throughput of the scheduler, requests per second."""
        return self.running / self.request.total_s

    @property
    def decode_share(self) -> Number:
        """Share of the time that decode steps would take without prompts."""
        return np.clip(self.lengths.steps * self.step_s / self.request.total_s, 0.0, 1.0)

    @property
    def longest_pass_s(self) -> Number:
        """Time of the longest gap between two tokens, seconds: a step with the last chunk, or prompts and a step."""
        others = self.running > 1
        if self.times.engine.scheduler == "mixed":
            return np.where(others, self.chunk_s, self.step_s)
        if self.times.engine.scheduler == "static":
            return self.step_s
        pack = self.packing
        prompts_s = self.pass_s(np.minimum(pack.seen, pack.most)) * np.maximum(pack.seen / pack.most, 1.0)
        gap_s: Number = self.step_s + np.where(others, prompts_s, 0.0)
        return gap_s

    @property
    def limit(self) -> Any:
        """What limits the number of running requests, or their speed."""
        most = float(self.times.engine.max_sequences or np.inf)
        waits = self.clients > self.running
        memory = waits & (self.fits <= most)
        steps = np.where(self.decode_share < 0.5, "prefill", "steps")
        found = np.where(memory, "memory", np.where(waits, "slots", steps))
        return found if found.ndim else str(found)
