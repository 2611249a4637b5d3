"""One scheduler in steady state: the closed forms on tabulated step times.

`roofline.serving.closed_forms` says how the time of a request follows from the times of passes; here the passes are
those of an engine (`roofline.serving.step_times`), with its budget, its slots and its memory.

Schedulers that share a set of experts step together (`roofline.serving.ranks`): to the closed forms they are one lane
with the requests and the budget of all, in whose passes the rank with the most to do sets the pace.
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
from .cache_pool import CachePool
from .closed_forms import RequestTimes
from .step_times import StepTimes
from .traffic import Traffic


@dataclass(frozen=True, eq=False)
class Lengths(Value):
    """Lengths of the requests, tokens; of a traffic, their means.

    Attributes
    ----------
    prompt, cached, output : float or array
        Tokens to compute, tokens before them whose cache is there, tokens to generate.
    """

    prompt: Number
    cached: Number
    output: Number

    @classmethod
    def of(cls, load: Workload | Traffic, hit_rate: Number) -> Lengths:
        """Those of a workload or a traffic, a share of whose prompts is found in the cache."""
        if isinstance(load, Traffic):
            given: tuple[Number, ...] = (load.mean_prompt_tokens, 0.0, load.mean_output_tokens)
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
        """Mean tokens in the cache of a sequence that generates."""
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
        Times of steps.
    pool : CachePool
        Memory of the scheduler.
    lengths : Lengths
        Lengths of the requests.
    clients : float or array
        Requests in the system, those that wait for a slot or for memory included.
    varies : bool
        Whether that is a mean around which their number varies, as in an open loop.
    """

    times: StepTimes
    pool: CachePool
    lengths: Lengths
    clients: Number
    varies: bool = False

    @cached_property
    def fits(self) -> Number:
        """Sequences that memory holds: of their full length where it is reserved, of half their output where not."""
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
        """Prompt tokens that a request has computed, those that preemption makes it compute again included.

        Where pages are taken as sequences grow and memory is full, a request that ends releases its ``P + O`` tokens,
        which prompts that wait fill up again at once. The running sequences grow by ``O`` tokens until the next one
        ends, so that as much has to be given up again: all of it was computed in vain if the prompts came first, none
        if the growth did. Growth is even in time and a prompt comes whenever there is room for the whole of it, so
        half of ``O`` it is, on average. Simulations of 250 to 1,500 prompt and 100 to 2,000 output tokens have a
        throughput within 8 % of this (tests/test_serving_under_load.py).
        """
        engine, lengths = self.times.engine, self.lengths
        most = np.minimum(self.clients, float(engine.max_sequences or np.inf))
        preempts = (engine.admission == "grow") & (most > self.fits)
        return lengths.prompt + np.where(preempts, lengths.output / 2.0, 0.0)

    @cached_property
    def together(self) -> Number:
        """Requests that hold a slot of the schedulers that step together."""
        found: Number = np.maximum(np.minimum(self.running, self.clients) * self.times.sharing, 1.0)
        return found

    @cached_property
    def step_s(self) -> Number:
        """A decode step of all that run."""
        whole_s = self.times.decode_s(self.running, self.lengths.context)
        if self.times.sharing == 1:
            return whole_s
        on_average = np.minimum(self.running, self.clients)  # below 1 where some ranks have none
        fewer_s = self.times.experts_s(self.running) - self.times.experts_s(on_average)
        found: Number = whole_s - self.times.host.decode_factor * fewer_s
        return found

    @cached_property
    def _budget(self) -> float:
        return float(self.times.engine.step_tokens or np.inf)

    @cached_property
    def chunks(self) -> closed_forms.Chunks:
        """How prompts ride on the steps of an engine that mixes.

        A step has room for prompts beside a token of each running sequence. Where the budget ``b`` is short, sequences
        that wait for their prompt generate nothing, and the budget is shared as a request needs it: ``b P / (P + n)``
        of a step goes to prompts.
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
        prompts = np.clip(self.gathered_prompts, made.prompts, np.maximum(np.minimum(self.together, fit), 1.0))
        riders = np.minimum(self.together - prompts, self.lengths.steps * prompts / made.passes)
        return made._replace(prompts=prompts, riders=np.maximum(riders, 0.0))

    @cached_property
    def chunk_s(self) -> Number:
        """A step with a chunk from the middle of a prompt."""
        made, lengths = self.chunks, self.lengths
        tokens = self.computed_tokens / made.passes
        past = lengths.cached + (self.computed_tokens - tokens) / 2.0
        return self._pass_s(made.riders, tokens, past, made.prompts)

    def _pass_s(self, riders: Number, tokens: Number, past: Number, prompts: Number) -> Number:
        """A pass of schedulers that step together over ``prompts`` prompts, on which ``riders`` sequences ride."""
        times, context, sharing = self.times, self.lengths.context, self.times.sharing
        begun = np.minimum(tokens / self.computed_tokens, 1.0)
        if sharing == 1:
            return times.mixed_s(riders, context, tokens, past, prompts, begun=begun)
        most = np.maximum(prompts / sharing, 1.0)
        whole_s = times.mixed_s(riders / sharing, context, tokens, past, most, begun=begun)
        surplus_s = times.experts_s(riders / sharing + most * tokens) - times.experts_s(
            (riders + prompts * tokens) / sharing
        )
        found: Number = whole_s - times.host.prefill_factor * surplus_s
        return found

    # Gates ----------------------------------------------------------------------------------------------------------

    @cached_property
    def _arriving(self) -> Number:
        """Prompts that come to a scheduler in a step."""
        return self.running / np.maximum(self.lengths.steps, 1.0)

    @cached_property
    def gate_steps(self) -> Number:
        """Steps from the first prompt that is held back until the gate opens (`roofline.serving.gates`); 0 without.

        A step that is filled opens it before its time: ``k`` prompts of which ``a`` come in a step take ``(k - 1) / a``
        steps.  All of ``R`` ranks have one after ``(1 + 1/2 + ... + 1/R) / a``, the mean of the latest of ``R``.
        """
        engine, coming = self.times.engine, self._arriving
        if engine.scheduler != "mixed" or self.times.time != "estimate_s":
            return 0.0
        if self.times.sharing > 1 and engine.balance_wait_steps:
            latest = sum(1.0 / rank for rank in range(1, self.times.sharing + 1)) / coming
            opens = np.minimum(engine.balance_wait_steps, latest) + (engine.balance_batching_steps or 0.0)
        elif engine.batch_wait_steps:
            enough = (engine.batch_wait_share or 0.0) * self._budget - self.running
            filled = np.maximum(np.ceil(enough / self.computed_tokens) - 1.0, 0.0) / coming
            opens = np.minimum(engine.batch_wait_steps, filled)
        else:
            return 0.0
        if self.varies and self.times.sharing > 1:  # it is open while a rank has nothing to do
            opens = opens * (-np.expm1(-self.running)) ** self.times.sharing
        return np.where(self.running > 1.0, opens, 0.0)

    @property
    def gathered_prompts(self) -> Number:
        """Prompts that are held back until they share a pass, of all schedulers that step together."""
        return np.maximum(1.0, np.where(self.gate_steps > 0, self.times.sharing, 1.0)) + (
            self._arriving * self.times.sharing * self.gate_steps
        )

    @property
    def held_s(self) -> Number:
        """Time for which a prompt is held back on average.

        One that comes while the gate is closed waits for half of its steps; the first waits for all of them where it is
        what closed it, and for half where they are counted all the time, as those of ranks are.
        """
        steps = self.gate_steps
        if self.times.sharing > 1 and self.times.engine.balance_wait_steps:
            batching = np.minimum(self.times.engine.balance_batching_steps or 0.0, steps)
            return self.step_s * ((steps - batching) / 2.0 + batching)
        more = self._arriving * steps
        return self.step_s * steps * (1.0 + more / 2.0) / (1.0 + more)

    @cached_property
    def packing(self) -> closed_forms.Packing:
        """How many prompts share a pass of their own, of all schedulers that step together."""
        most = self.times.sharing * np.maximum(np.floor(self._budget / self.computed_tokens), 1.0)
        if self.times.engine.scheduler == "static":
            return closed_forms.Packing(self.together, self.together, most)
        return closed_forms.packing(self.together, self.lengths.steps, most)

    def pass_s(self, prompts: Number) -> Number:
        """The passes that compute ``prompts`` prompts together: one, or several where a prompt exceeds the budget."""
        lengths = self.lengths
        passes = np.maximum(np.ceil(self.computed_tokens / self._budget), 1.0) if self.times.engine.chunked else 1.0
        tokens = self.computed_tokens / passes
        past = lengths.cached + (self.computed_tokens - tokens) / 2.0
        return passes * self._pass_s(0.0, tokens, past, prompts)

    @cached_property
    def request(self) -> RequestTimes:
        """What a request sees once it has a slot."""
        running, steps, step_s = self.together, self.lengths.steps, self.step_s
        if self.times.engine.scheduler == "mixed":
            seen = closed_forms.chunked(running, steps, step_s, made=self.chunks, mixed_s=self.chunk_s)
            return RequestTimes(seen.ttft_s + self.held_s, seen.total_s + self.held_s)
        pack = self.packing
        pass_s = self.pass_s(np.minimum(pack.per_pass, pack.most))
        if self.times.engine.scheduler == "static":
            return closed_forms.starting_together(running, steps, step_s, pack=pack, pass_s=pass_s, slots_used=1.0)
        seen_s = self.pass_s(np.minimum(pack.seen, pack.most))
        return closed_forms.prompts_first(running, steps, step_s, pack=pack, pass_s=pass_s, seen_pass_s=seen_s)

    @cached_property
    def queue_s(self) -> Number:
        """Wait for a slot or for memory: by Little's law, those that wait over the throughput."""
        return np.maximum(self.clients - self.running, 0.0) * self.request.total_s / self.running

    def wait_for_step_s(self, rate: Number, others: Number) -> Number:
        """What a request that arrives at any time waits for, in an open loop at ``rate`` with ``others`` in the system.

        The step in progress, if there is one: half of it, where a long step is met more often, ``E[T^2] / 2 E[T]``.
        Prompts that arrive in the same step share the next pass and lengthen it.
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
        """Time of a request outside queue and steps, looks for arrivals included; of the estimate alone."""
        handling_s = self.times.handling_s(self.lengths.prompt + self.lengths.cached)
        if self.times.time != "estimate_s":
            return handling_s
        engine = self.times.engine
        every = max(engine.receive_interval or 1.0, engine.schedule_interval or 1.0)
        looks = (engine.receive_share or 0.0) * (every - 1.0)
        return handling_s + ((engine.first_token_steps or 0.0) + looks) * self.step_s

    @property
    def requests_per_s(self) -> Number:
        """Throughput of the scheduler, with as many clients as it has at least."""
        return self.running / self.request.total_s

    @property
    def decode_share(self) -> Number:
        """Share of the time that decode steps would take without prompts."""
        return np.clip(self.lengths.steps * self.step_s / self.request.total_s, 0.0, 1.0)

    @property
    def longest_pass_s(self) -> Number:
        """What the longest gap between two tokens holds: a step with the last chunk, or prompts and a step."""
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
        """What keeps more from running or them from being faster."""
        most = float(self.times.engine.max_sequences or np.inf)
        waits = self.clients > self.running
        memory = waits & (self.fits <= most)
        steps = np.where(self.decode_share < 0.5, "prefill", "steps")
        found = np.where(memory, "memory", np.where(waits, "slots", steps))
        return found if found.ndim else str(found)
