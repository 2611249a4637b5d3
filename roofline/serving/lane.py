"""One scheduler in steady state: the closed forms on tabulated step times.

`roofline.serving.closed_forms` derives the time of a request from the times of passes.  Here the passes are those of an
engine (`roofline.serving.step_times`) with a token budget, slots and memory.

Schedulers that share a set of experts step together (`roofline.serving.ranks`): the closed forms treat them as one lane
with the requests and the budget of all, in which the most loaded rank sets the pace.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..errors import Number
from . import closed_forms
from .closed_forms import RequestTimes
from .gathering import Meeting, following_passes, gathering, met_at_rate, wait_for_step
from .lane_passes import LanePasses
from .pipeline_rounds import Rounds, request_times, rounds

GATHERING_ROUNDS = 2
"""Iterations for the time of a pass and its number of prompts, which depend on each other weakly."""


@dataclass(frozen=True, eq=False)
class Lane(LanePasses):
    """The closed form of one scheduler with ``clients`` requests in the system (`LanePasses` has its fields)."""

    @cached_property
    def chunks(self) -> closed_forms.Chunks:
        """How prompts share steps with running sequences in an engine with mixed steps."""
        return self._chunks(self._meeting.prompts if self._open else 1.0)

    def _chunks(self, at_rate: Number) -> closed_forms.Chunks:
        """Return the chunks of passes with ``at_rate`` prompts in an open loop.

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
        gathered = np.maximum(self.gate.gathered_prompts, at_rate if self._open else met)
        return closed_forms.chunks_together(made, self.together, steps, gathered=gathered, most=fit)

    @property
    def _open(self) -> bool:
        """Whether prompts come at any time; those of a pipeline are counted as if they came in place of others."""
        return self.rate is not None and not self._pipelined

    @property
    def _arrivals(self) -> Number:
        """Arrivals per second over all schedulers that step together."""
        assert self.rate is not None
        return self.rate * self.times.sharing

    @cached_property
    def _meeting(self) -> Meeting:
        """How prompts that come at any time share passes; those that wait for a slot come when others end.

        A step and the passes after it have the arrivals of this time, of which a pass has its part.
        """
        steps = self.lengths.steps
        if self.times.engine.scheduler == "mixed":
            made = self._chunks(1.0)
            met = closed_forms.met_prompts(self.together, steps, made.passes)

            def pass_s(lane: Lane, prompts: Number) -> Number:
                return made.passes * lane._chunk_s(prompts, made)
        else:
            most = self._most_packed
            met = closed_forms.packing(self.together, steps, most).per_pass

            def pass_s(lane: Lane, prompts: Number) -> Number:
                return lane.pass_s(np.minimum(prompts, most))

        one_s, two_s = pass_s(self, 1.0), pass_s(self, 2.0)
        spread_s = np.maximum(pass_s(self._of_long_prompts, 1.0) - one_s, 0.0) if self._spread else 0.0
        found = met_at_rate(self._arrivals, self.step_s, one_s=one_s, further_s=two_s - one_s, spread_s=spread_s)
        lasts_s = self._averaged_s(found.prompts, lambda prompts: pass_s(self, prompts))
        prompts = self._arrivals * (self.step_s / (found.begins * found.row) + lasts_s)
        return found._replace(prompts=np.where(self.clients > self.running, met, np.maximum(prompts, 1.0)))

    @cached_property
    def _of_long_prompts(self) -> Lane:
        """The scheduler with prompts that are all longer than the mean, by a standard deviation."""
        prompt = self.lengths.prompt * (1.0 + self._spread)
        return replace(self, lengths=replace(self.lengths, prompt=prompt, prompt_spread=0.0))

    @property
    def _in_progress_s(self) -> Number:
        """Mean time of the step or pass that an arrival at any time finds in progress, seconds."""
        if self.times.engine.scheduler == "mixed":
            pass_s, each_s = self.chunk_s, self.chunks.passes * self.chunk_s / self.chunks.prompts
        else:
            packed = np.minimum(self.packing.per_pass, self.packing.most)
            pass_s = self.pass_s(packed)
            each_s = pass_s / packed
        share = np.minimum(self._arrivals * each_s, 1.0)
        found: Number = share * pass_s + (1.0 - share) * self.step_s
        return found

    @cached_property
    def chunk_s(self) -> Number:
        """Time of a step with a chunk from the middle of a prompt, seconds."""
        return self._averaged_s(self.chunks.prompts, lambda prompts: self._chunk_s(prompts, self.chunks))

    @cached_property
    def packing(self) -> closed_forms.Packing:
        """How many prompts share a prompt-only pass, over all schedulers that step together."""
        most = self._most_packed
        if self.times.engine.scheduler == "static":
            return closed_forms.Packing(self.together, self.together, most)
        steps, away = self.lengths.steps, self._away_steps
        at_once = closed_forms.packing(self.together, steps, most)
        if self._open:
            return at_once._replace(per_pass=self._meeting.prompts)
        if self._pipelined or not np.any(away):
            return at_once
        found, first = at_once, self.pass_s(np.minimum(at_once.per_pass, most)) / self.step_s
        for _ in range(GATHERING_ROUNDS):
            lasts = self.pass_s(np.minimum(found.per_pass, most)) / self.step_s
            found = gathering(at_once, self.together, steps, away_steps=away, first_steps=first, pass_steps=lasts)
        return found

    @property
    def _most_packed(self) -> Number:
        """Prompts that fit in a prompt-only pass of all schedulers that step together."""
        found: Number = self.times.sharing * np.maximum(np.floor(self._budget / self._budget_tokens), 1.0)
        return found

    @property
    def _on_the_way_s(self) -> Number:
        """Time from sending a request until its scheduler sees it, seconds."""
        return self.times.handling_s(self.lengths.prompt + self.lengths.cached)

    @property
    def _away_steps(self) -> Number:
        """Decode steps from the end of a request to the arrival of the next; 0 in an open loop and without a slot."""
        if self.varies:
            return 0.0
        return np.where(self.clients > self.running, 0.0, self._on_the_way_s / self.step_s)

    @property
    def _with_others_s(self) -> Number:
        """Time by which a prompt's own mixed steps are longer than average, seconds.

        Averaged over prompts, a step has one prompt more than arrive meanwhile: long steps have many of them.
        """
        made = self.chunks
        if self._open:
            arriving = self._arrivals * self._in_progress_s
        else:
            arriving = np.maximum(self.together - 1.0, 0.0) / np.maximum(self.lengths.steps, 1.0) * made.passes
        seen = np.clip(1.0 + arriving, made.prompts, np.maximum(self._fit * self.times.sharing, made.prompts))
        found: Number = made.passes * np.maximum(self._chunk_s(seen, made) - self.chunk_s, 0.0)
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

    @cached_property
    def request(self) -> RequestTimes:
        """Latency of a request once it has a slot."""
        running, steps, step_s = self.together, self.lengths.steps, self.step_s
        if self._pipelined:
            return self._in_pipeline
        if self.times.engine.scheduler == "mixed":
            seen = closed_forms.chunked(running, steps, step_s, made=self.chunks, mixed_s=self.chunk_s)
            waits_s = self.gate.held_steps * self.step_s + self._wait_for_step_s + self._with_others_s
            return RequestTimes(seen.ttft_s + waits_s, seen.total_s + waits_s + self._followed_s)
        pack = self.packing
        pass_s = self._averaged_s(np.minimum(pack.per_pass, pack.most), self.pass_s)
        if self.times.engine.scheduler == "static":
            return closed_forms.starting_together(running, steps, step_s, pack=pack, pass_s=pass_s, slots_used=1.0)
        seen_s = self.pass_s(np.minimum(pack.seen, pack.most))
        seen = closed_forms.prompts_first(running, steps, step_s, pack=pack, pass_s=pass_s, seen_pass_s=seen_s)
        return RequestTimes(seen.ttft_s, seen.total_s + self._followed_s)

    @property
    def _followed_s(self) -> Number:
        """Time by which passes after a request's own prompt delay it more than average ones, in an open loop."""
        if not self._open:
            return 0.0
        mixes = self.times.engine.scheduler == "mixed"
        if mixes:
            pass_s = self.chunks.passes * self.chunk_s
            lost_s = pass_s - self.chunks.passes * self.step_s
            longer_s: Number = 0.0
        else:
            pack = self.packing
            lost_s = pass_s = self._averaged_s(np.minimum(pack.per_pass, pack.most), self.pass_s)
            longer_s = self.pass_s(np.minimum(pack.seen, pack.most)) - pass_s
        found = following_passes(self._meeting, self.lengths.steps, self._arrivals * pass_s, mixed=mixes)
        return np.where(self.clients > self.running, 0.0, found * lost_s + longer_s)

    @property
    def other_microbatches(self) -> tuple[Number, Number]:
        """Requests of the average microbatch as a share of this one's, and rounds that the next request misses."""
        mean = self.clients - (1.0 - 1.0 / self.times.stages) if self.varies else self.clients
        none = (self.clients > self.running) | self.varies  # a waiting request starts at once
        missed = np.ceil(self._on_the_way_s / self.step_s)
        return np.minimum(mean / self.running, 1.0), np.where(none, 0.0, missed)

    @property
    def _in_pipeline(self) -> RequestTimes:
        """Latency of a request in a microbatch that waits for others (`roofline.serving.pipeline_rounds`)."""
        steps, running, stages = self.lengths.steps, self.running, self.times.stages
        busy, missed = self.other_microbatches
        others: dict[str, Number] = {"busy": busy, "missed": missed}

        def wait(made: Rounds, stall_s: Number) -> Number:
            """Rest of the rounds that a request has missed, if others run."""
            rest_s = missed * made.mean_s(self.step_s, stall_s) - self._on_the_way_s
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

    @property
    def residual_s(self) -> Number:
        """Wait of an arrival at any time for the step in progress, if there is one, seconds.

        The mean rest of a step is ``E[T^2] / 2 E[T]``, half of the mean step that an arrival meets.
        """
        if self.rate is None:
            return 0.0
        others = self.clients * self.times.sharing - 1.0
        return -np.expm1(-others) * self._in_progress_s / 2.0

    @property
    def handling_s(self) -> Number:
        """Time of a request outside queue and steps, including arrival checks, seconds; part of the estimate only."""
        if self.times.time != "estimate_s":
            return self._on_the_way_s
        engine = self.times.engine
        every = max(engine.receive_interval or 1.0, engine.schedule_interval or 1.0)
        looks = (engine.receive_share or 0.0) * (every - 1.0)
        # Without further tokens there are no steps to wait for.
        steps = ((engine.first_token_steps or 0.0) + looks) * (self.lengths.steps > 0)
        return self._on_the_way_s + steps * self.step_s

    @property
    def requests_per_s(self) -> Number:
        """Throughput of the scheduler, requests per second."""
        return self.running / self.request.total_s

    @property
    def decode_share(self) -> Number:
        """Share of the time that decode steps would take without prompts."""
        return np.clip(self.lengths.steps * self.step_s / self.request.total_s, 0.0, 1.0)
