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
from ..phases.workload import Workload
from ..values import Value
from . import closed_forms
from .busiest import busiest, busiest_in_turn
from .cache_pool import CachePool
from .closed_forms import RequestTimes
from .gathering import gathering
from .pipeline_rounds import Rounds, request_times, rounds
from .step_times import StepTimes
from .traffic import Traffic

GATHERING_ROUNDS = 2
"""Iterations for the time of a pass and its number of prompts, which depend on each other weakly."""


@dataclass(frozen=True, eq=False)
class Lengths(Value):
    """Request lengths in tokens; means for a traffic.

    Attributes
    ----------
    prompt, cached, output : float or array
        Prompt tokens to compute, cached tokens before them, tokens to generate.
    """

    prompt: Number
    cached: Number
    output: Number

    @classmethod
    def of(cls, load: Workload | Traffic, hit_rate: Number) -> Lengths:
        """Return the lengths of a workload or a traffic, with a share of each prompt cached."""
        if isinstance(load, Traffic):
            given: tuple[Number, ...] = (load.mean_prompt_tokens, load.cached_tokens, load.mean_output_tokens)
        else:
            given = (load.prompt_tokens, load.cached_tokens, load.output_tokens)
        prompt, cached, output = (np.asarray(tokens, dtype=float) for tokens in given)
        found = np.minimum(np.floor(hit_rate * prompt), prompt - 1.0)
        return cls(prompt - found, cached + found, output)

    @property
    def steps(self) -> Number:
        """Decode steps of a request."""
        return self.output - 1.0

    @property
    def context(self) -> Number:
        """Mean number of cached tokens of a generating sequence."""
        return self.prompt + self.cached + np.maximum(self.output - 2.0, 0.0) / 2.0

    @property
    def full(self) -> Number:
        """Tokens of a whole sequence."""
        return self.prompt + self.cached + self.output


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
        whole_s = self.times.decode_s(self.running, self.lengths.context)
        if self._pipelined and self.varies:  # the fullest microbatch sets the pace
            stages = self.times.stages
            most = np.maximum(busiest_in_turn(self.running * stages, stages), 1.0)
            return self.times.decode_s(most, self.lengths.context)
        if self.times.sharing == 1:
            return whole_s
        on_average = np.minimum(self.running, self.clients)  # below 1 where some ranks have none
        most = self.running
        if self.varies:
            most = np.maximum(busiest_in_turn(on_average * self.times.sharing, self.times.sharing), 1.0)
            whole_s = self.times.decode_s(most, self.lengths.context)
        fewer_s = self.times.experts_s(most) - self.times.experts_s(on_average)
        found: Number = whole_s - self.times.host.decode_factor * fewer_s
        return found

    @cached_property
    def _budget(self) -> float:
        return float(self.times.engine.step_tokens or np.inf)

    @cached_property
    def chunks(self) -> closed_forms.Chunks:
        """How prompts share steps with running sequences in an engine with mixed steps.

        Prompts use the part of the budget left by one token per running sequence. If the budget ``b`` is short,
        sequences that wait for their prompt generate nothing, and the budget is shared in proportion to need: ``b P /
        (P + n)`` of a step goes to prompts.
        """
        share = self.computed_tokens / (self.computed_tokens + self.lengths.steps)
        room = np.maximum(self._budget - self.running, self._budget * share)
        if not self.times.engine.chunked:
            whole = np.maximum(np.floor(room / self.computed_tokens), 1.0)  # a longer prompt runs alone
            room = np.where(np.isfinite(room), whole * self.computed_tokens, room)
        made = closed_forms.chunks(self.running, self.lengths.steps, self.computed_tokens, room)
        if self.times.sharing == 1 and not np.any(self.gate_steps):
            return made
        fit = np.maximum(np.divide(room, self.computed_tokens), 1.0) * self.times.sharing
        gathered = np.maximum(self.gathered_prompts, self._met_prompts(made.passes))
        return closed_forms.chunks_together(made, self.together, self.lengths.steps, gathered=gathered, most=fit)

    def _met_prompts(self, passes: Number) -> Number:
        """Return the mean number of prompts in a step with prompts, over all schedulers that step together."""
        if self.times.sharing == 1:
            return 1.0
        return closed_forms.met_prompts(self.together, self.lengths.steps, passes)

    @cached_property
    def chunk_s(self) -> Number:
        """Time of a step with a chunk from the middle of a prompt, seconds."""
        made, lengths = self.chunks, self.lengths
        tokens = self.computed_tokens / made.passes
        past = lengths.cached + (self.computed_tokens - tokens) / 2.0
        return self._pass_s(made.riders, tokens, past, made.prompts)

    def _pass_s(self, riders: Number, tokens: Number, past: Number, prompts: Number) -> Number:
        """Return the time of a joint pass over ``prompts`` prompts in which ``riders`` sequences also generate."""
        times, context, sharing = self.times, self.lengths.context, self.times.sharing
        begun = np.minimum(tokens / self.computed_tokens, 1.0)
        if sharing == 1:
            return times.mixed_s(riders, context, tokens, past, prompts, begun=begun)
        most = np.maximum(self._most_loaded(prompts), 1.0)
        whole_s = times.mixed_s(riders / sharing, context, tokens, past, most, begun=begun)
        surplus_s = times.experts_s(riders / sharing + most * tokens) - times.experts_s(
            (riders + prompts * tokens) / sharing
        )
        found: Number = whole_s - times.host.prefill_factor * surplus_s
        return found

    def _most_loaded(self, prompts: Number) -> Number:
        """Return the prompts of the busiest scheduler; a gate for ranks opens when each of them has one."""
        sharing = self.times.sharing
        if self.varies and not self._balanced:
            return prompts / sharing  # arrivals go to the schedulers in turn
        if not self._balanced:
            most: Number = busiest(prompts, sharing)
            return most
        beyond = np.maximum(prompts - sharing, 0.0)
        ready, others = 1.0 + busiest(beyond, sharing), busiest(prompts, sharing)
        found: Number = self._all_ready * ready + (1.0 - self._all_ready) * others
        return found

    @property
    def _balanced(self) -> bool:
        """Whether the scheduler is one of several ranks that wait until all have a prompt."""
        return self.times.sharing > 1 and bool(self.times.engine.balance_wait_steps)

    # Gates ----------------------------------------------------------------------------------------------------------

    @cached_property
    def _arriving(self) -> Number:
        """Prompts that arrive at a scheduler per step."""
        return self.running / np.maximum(self.lengths.steps, 1.0)

    @cached_property
    def gate_steps(self) -> Number:
        """Steps from the first held prompt until the gate opens (`roofline.serving.gates`); 0 without a gate.

        A full step opens the gate early: with ``a`` arrivals per step, ``k`` prompts take ``(k - 1) / a`` steps.  All
        of ``R`` ranks have a prompt after ``(1 + 1/2 + ... + 1/R) / a`` steps, the mean of the latest of ``R``
        arrivals, and then wait for more; if the time runs out before, they do not.
        """
        engine, coming = self.times.engine, self._arriving
        if engine.scheduler != "mixed" or self.times.time != "estimate_s":
            return 0.0
        if self._balanced:
            latest = sum(1.0 / rank for rank in range(1, self.times.sharing + 1)) / coming
            opens = np.minimum(float(engine.balance_wait_steps or 0.0), latest) + self._batching_steps
        elif engine.batch_wait_steps:
            enough = (engine.batch_wait_share or 0.0) * self._budget - self.running
            filled = np.maximum(np.ceil(enough / self.computed_tokens) - 1.0, 0.0) / coming
            opens = np.minimum(engine.batch_wait_steps, filled)
        else:
            return 0.0
        if self.varies and self._balanced:  # the gate is open while a rank is idle
            opens = opens * (-np.expm1(-self.running)) ** self.times.sharing
        return np.where(self.running > 1.0, opens, 0.0)

    @property
    def _all_ready(self) -> Number:
        """Share of the gate's openings at which all ranks have a prompt before the time runs out."""
        most = float(self.times.engine.balance_wait_steps or 0.0)
        return (-np.expm1(-self._arriving * most)) ** self.times.sharing

    @property
    def _batching_steps(self) -> Number:
        """Mean number of further steps for which ranks wait once all have a prompt."""
        return self._all_ready * (self.times.engine.balance_batching_steps or 0.0)

    @property
    def gathered_prompts(self) -> Number:
        """Prompts held back to share a pass, over all schedulers that step together."""
        if not self._balanced:
            return 1.0 + self._arriving * self.gate_steps
        ranks, held = self.times.sharing, self.gate_steps > 0
        arrived = self._arriving * ranks * self.gate_steps
        gathered = self._all_ready * np.maximum(ranks, arrived) + (1.0 - self._all_ready) * (1.0 + arrived)
        return np.where(held, gathered, 1.0)

    @property
    def held_s(self) -> Number:
        """Mean time for which a prompt is held back, seconds.

        A prompt that arrives while the gate is closed waits for half of its steps.  The first prompt waits for all of
        them if its arrival closed the gate, and for half if steps are counted all the time, as for ranks.
        """
        steps = self.gate_steps
        if self._balanced:
            batching = np.minimum(self._batching_steps, steps)
            return self.step_s * ((steps - batching) / 2.0 + batching)
        more = self._arriving * steps
        return self.step_s * steps * (1.0 + more / 2.0) / (1.0 + more)

    @cached_property
    def packing(self) -> closed_forms.Packing:
        """How many prompts share a prompt-only pass, over all schedulers that step together."""
        most = self.times.sharing * np.maximum(np.floor(self._budget / self.computed_tokens), 1.0)
        if self.times.engine.scheduler == "static":
            return closed_forms.Packing(self.together, self.together, most)
        at_once = closed_forms.packing(self.together, self.lengths.steps, most)
        away_s = self.times.handling_s(self.lengths.prompt + self.lengths.cached)
        if self.varies or self._pipelined or not np.any(away_s):
            return at_once
        found = at_once
        for _ in range(GATHERING_ROUNDS):
            pass_s = self.pass_s(np.minimum(found.per_pass, most))
            away, lasts = away_s / self.step_s, pass_s / self.step_s
            found = gathering(at_once, self.together, self.lengths.steps, away_steps=away, pass_steps=lasts)
        return found

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
            return RequestTimes(seen.ttft_s + self.held_s, seen.total_s + self.held_s)
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
    def _in_pipeline(self) -> RequestTimes:
        """Latency of a request in a microbatch that waits for others (`roofline.serving.pipeline_rounds`)."""
        steps, running, stages = self.lengths.steps, self.running, self.times.stages
        mean = self.clients - (1.0 - 1.0 / stages) if self.varies else self.clients
        none = (self.clients > running) | self.varies  # a waiting request starts at once
        away_s = self.times.handling_s(self.lengths.prompt + self.lengths.cached)
        missed = np.where(none, 0.0, np.ceil(away_s / self.step_s))
        others: dict[str, Number] = {"busy": np.minimum(mean / running, 1.0), "missed": missed}

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
            own_s = np.maximum(count - steps, 1.0) * stall_s * found.stretch + self.held_s
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
