"""One scheduler of an engine, from event to event.

Between two events (an arrival that can start, a prompt, a sequence that ends, a full cache) every decode step has the
same sequences.  Its time is linear in their mean context, so any number of steps is computed at once:

    n steps = n * D(B, context + (n - 1) / 2)

What happens at an event follows the engine's settings (`roofline.specs.engines.Engine`):

- ``mixed``: a step computes a token of each running sequence and fills the rest of its budget with prompts, first
  come first served.  The last prompt is cut if the engine allows chunks.  ``prefill_first``: prompts run in passes of
  their own, and the running sequences wait.  ``static``: prompts start only once every sequence has ended.
- ``reserve``: a request starts when the pages of its full length are free.  ``grow``: it starts when the pages of its
  prompt are free.  If a step then has too few pages, the request admitted last returns to the head of the queue, and
  its tokens are recomputed when it resumes (vLLM's recomputation).
- Arrivals are noticed at every ``receive_interval``-th step, or at once by an idle engine.  If several decode steps
  are scheduled at a time, they are noticed every ``schedule_interval``-th decode step, or after prompts.
- Prompts may be held back until several of them share a step (`roofline.serving.gates`).
"""

from __future__ import annotations

from collections import deque
from math import inf

from ..specs.engines import Engine
from .cache_pool import CachePool
from .clock import Clock
from .gates import BatchGate
from .request_records import Piece, Requests, Tally, in_order
from .running_sequences import RunningSequences


class Scheduler(RunningSequences):
    """One scheduler with its queue, running sequences and cache pages.

    Parameters
    ----------
    clock : Clock
        Step times.
    engine : Engine
        Engine settings, all of them set.
    pool : CachePool
        Cache memory.
    requests : Requests
        All requests; ``receive`` assigns some of them to this scheduler.
    generates : bool
        Whether sequences continue after the first token; False in a prefill pool.
    prefills : bool
        Whether prompts have to be computed; False in a decode pool, where their cache arrives with them.
    """

    def __init__(
        self,
        clock: Clock,
        engine: Engine,
        pool: CachePool,
        requests: Requests,
        *,
        generates: bool = True,
        prefills: bool = True,
    ) -> None:
        super().__init__(requests, generates=generates)
        self.clock, self.pool, self.prefills = clock, pool, prefills
        self.scheduler = engine.scheduler
        self.mixes = engine.scheduler == "mixed"
        self.chunked = bool(engine.chunked)
        self.budget = engine.step_tokens or inf
        self.encoded = clock.times.encoded_tokens  # of an encoder, beside those of each prompt
        self.most = engine.max_sequences or inf
        self.reserves = engine.admission == "reserve"
        self.interval = int(max(engine.receive_interval or 1, engine.schedule_interval or 1))
        self.looks_after_prompts = (engine.schedule_interval or 1) > 1
        self.gate = BatchGate.of(engine) if self.mixes else None
        self.held = 0  # largest number of steps for which prompts are held back
        self.incoming: deque[tuple[float, int]] = deque()
        self.waiting: deque[int] = deque()
        self.prompts: deque[list[int]] = deque()  # request, tokens left to compute, tokens before them
        self.admitted: list[int] = []  # in order of admission; finished ones are removed lazily
        self.made: dict[int, int] = {}  # tokens that a preempted request has generated
        self.prompt_tokens = 0  # tokens in the cache of prompts that are not finished
        self.reserved_bytes = 0.0
        self.next_look = 0
        self.tally = Tally()

    # Arrivals -------------------------------------------------------------------------------------------------------

    def receive(self, time: float, request: int) -> None:
        """Receive a request sent at ``time``; it arrives after its handling time."""
        handling = self.requests.handling[request] if self.prefills else 0.0
        in_order(self.incoming, (time + handling, request))

    @property
    def idle(self) -> bool:
        """Whether no request is running or waiting."""
        return not (self.running or self.prompts or self.waiting)

    def next_time(self) -> float:
        """Time of the next event; infinite if there is none."""
        if not self.idle:
            return self.timeline.now
        return max(self.timeline.now, self.incoming[0][0]) if self.incoming else inf

    def _look(self) -> bool:
        """Receive arrivals if the engine checks for them now; return False if there is nothing left to do."""
        incoming, timeline = self.incoming, self.timeline
        if not self.idle:
            if incoming and incoming[0][0] <= timeline.now and self._looks():
                self._take()
            return True
        if not incoming:
            return False
        timeline.now = max(timeline.now, incoming[0][0])
        self._take()
        return True

    def _take(self) -> None:
        """Move arrivals into the queue."""
        incoming, waiting, now = self.incoming, self.waiting, self.timeline.now
        while incoming and incoming[0][0] <= now:
            waiting.append(incoming.popleft()[1])
        self.next_look = self.timeline.passes + self.interval
        self.tally.most_waiting = max(self.tally.most_waiting, len(waiting))

    def _looks(self) -> bool:
        """Return whether arrivals are checked before the next pass, which happens every ``interval`` passes."""
        behind = self.timeline.passes - self.next_look
        return behind >= 0 and behind % self.interval == 0

    # Admission ------------------------------------------------------------------------------------------------------

    def _fits(self, request: int, tokens: int) -> bool:
        """Return whether a request with a first chunk of ``tokens`` tokens may start."""
        pool, requests = self.pool, self.requests
        if self.reserves:
            # The reserved bytes are a running sum: rounding must not keep out the last sequence that fits exactly.
            return self.reserved_bytes + self._full_bytes(request) <= pool.pool_bytes * (1 + 1e-12)
        sequences = self.running + len(self.prompts) + 1
        held = self.contexts + self.prompt_tokens + tokens + requests.cached[request]
        return held + self.running <= pool.tokens_for(sequences)

    def _full_bytes(self, request: int) -> float:
        """Return the bytes of a request's pages at the final length that it reaches in this pool."""
        requests = self.requests
        output = requests.output[request] if self.generates else 0
        return self.pool.sequence_bytes(requests.prompt[request] + requests.cached[request] + output)

    def _admit(self, request: int) -> None:
        requests = self.requests
        made = self.made.get(request, 0)
        if requests.admitted[request] < 0:
            requests.admitted[request] = self.timeline.now
        if self.reserves:
            self.reserved_bytes += self._full_bytes(request)
        self.admitted.append(request)
        if self.prefills:
            self.prompts.append([request, requests.prompt[request] + made, requests.cached[request]])
            self.prompt_tokens += requests.cached[request]
        else:
            self._start(request, made or 1)

    def _slot_free(self) -> bool:
        return bool(self.waiting) and self.running + len(self.prompts) < self.most

    @property
    def ready(self) -> bool:
        """Return whether the next step could compute a prompt."""
        if self.prompts or not self._slot_free():
            return bool(self.prompts)
        request = self.waiting[0]
        return self._fits(request, self.requests.prompt[request] + self.made.get(request, 0))

    def _close_gate(self) -> None:
        """Hold prompts back if there are too few for a step."""
        self.held = 0
        if self.gate is None or not self.running or not self.ready:
            return
        prompt, free = self.requests.prompt, int(min(self.most - self.running, len(self.waiting)))
        tokens = sum(left for _, left, _ in self.prompts) + sum(prompt[self.waiting[at]] for at in range(free))
        self.held = self.gate.holds(min(self.running + tokens, self.budget))

    def _fill(self) -> list[Piece]:
        """Return the chunks of the next step: which prompts, and how many tokens of each."""
        chunks: list[Piece] = []
        if not (self.prompts or self.waiting):
            return chunks
        left = self.budget - (self.running if self.mixes else 0)
        opens = self.scheduler != "static" or not (self.running or self.prompts)
        for prompt in self.prompts:
            take = self._cut(prompt[1], left, first=not chunks)
            if not take:
                return chunks
            chunks.append((prompt, take))
            left -= take
        while opens and self._slot_free():
            request = self.waiting[0]
            tokens = self.requests.prompt[request] + self.made.get(request, 0)
            take = self._cut(tokens, left, first=not chunks)
            if not take or not self._fits(request, tokens):
                break
            self.waiting.popleft()
            self._admit(request)
            if self.prefills:
                chunks.append((self.prompts[-1], take))
                left -= take + self.encoded
        return chunks

    def _cut(self, tokens: int, left: float, *, first: bool) -> int:
        """Return how many tokens of a prompt a step with ``left`` tokens of budget computes."""
        if not self.prefills or tokens + self.encoded <= left:
            return tokens
        if self.chunked:
            return int(max(left, 0))
        return tokens if first else 0  # longer than any budget: an engine would reject it, here it runs alone

    # Steps ----------------------------------------------------------------------------------------------------------

    def advance(self, horizon: float = inf) -> bool:
        """Handle the next event that begins by ``horizon``; return False if there is none."""
        if not self._look() or self.timeline.now > horizon:
            return False
        self.tally.events += 1
        if self.gate is not None:
            self._close_gate()
        chunks = [] if self.held else self._fill()
        if chunks:
            self._prompts_step(chunks)
        elif self.running:
            self._decode_steps(horizon)
        else:
            return not self.prefills and not self.idle
        return True

    def _prompts_step(self, chunks: list[Piece]) -> None:
        """Run one step with prompts; with mixed steps, running sequences get a token."""
        if not self.reserves:
            chunks = self._room_for(chunks)
        self._prompts_lasting(chunks, self._step_s(chunks))

    def _prompts_lasting(self, chunks: list[Piece], took: float) -> None:
        """Run one step with prompts that takes ``took``."""
        steps, timeline = int(self.mixes and self.running > 0), self.timeline
        self._prompts_pass(chunks, took)
        timeline.advance(took, 1)
        if steps:
            timeline.emit(1, timeline.now, took, self.requests.gap)
        self._compute(chunks)
        self._end()

    def _prompts_pass(self, chunks: list[Piece], took: float) -> None:
        """Add a step with prompts of duration ``took`` to the totals."""
        batch = self.running if self.mixes else 0
        decode_s = self.clock.line(batch).at(self.contexts / batch) if batch else 0.0
        self._pass(took, 1 if batch else 0, sum(take for _, take in chunks))
        self.tally.prompts_s += max(took - decode_s, 0.0)

    def _compute(self, chunks: list[Piece]) -> None:
        """Compute chunks of prompts in a step that ends now, and start the sequences whose prompts are complete."""
        if self.looks_after_prompts:
            self.next_look = self.timeline.passes
        done = [prompt for prompt, take in chunks if take == prompt[1]]
        for prompt, take in chunks:
            prompt[1] -= take
            prompt[2] += take
            self.prompt_tokens += take
        for prompt in done:
            self.prompts.remove(prompt)
            self.prompt_tokens -= prompt[2]
            self._start(prompt[0], self.made.pop(prompt[0], 0) + 1)

    def _step_s(self, chunks: list[Piece]) -> float:
        """Return the time of a step with prompts."""
        batch = self.running if self.mixes else 0
        context = self.contexts / batch if batch else 0.0
        if not chunks:
            return self.clock.line(batch).at(context) if batch else 0.0
        cached = self.requests.cached
        done = sum(take == prompt[1] for prompt, take in chunks)
        begun = sum(prompt[2] == cached[prompt[0]] for prompt, _ in chunks)
        return self.clock.prompts_s(batch, context, [(take, prompt[2]) for prompt, take in chunks], done, begun)

    def _room_for(self, chunks: list[Piece]) -> list[Piece]:
        """Preempt requests, last admitted first, until the step fits; return the remaining chunks."""
        while self.running + len(self.prompts) > 1:
            more = sum(take for _, take in chunks) + (self.running if self.mixes else 0)
            if self._held(more):
                break
            self._preempt()
            chunks = [chunk for chunk in chunks if chunk[0] in self.prompts]
        return chunks

    def _held(self, more: float) -> bool:
        """Return whether ``more`` tokens fit in the pages."""
        sequences = self.running + len(self.prompts)
        return self.contexts + self.prompt_tokens + more <= self.pool.tokens_for(sequences)

    def _decode_steps(self, horizon: float) -> None:
        """Run decode steps until the next event."""
        count = self._alike()
        batch = self.running
        line, context = self.clock.line(batch), self.contexts / batch
        first_s = line.at(context)
        if self.held:
            count = min(count, self.held)
        stop = min(self._next_start(), horizon)
        if stop < inf:
            steps = line.steps_until(stop - self.timeline.now, count, context)
            late = (self.timeline.passes + steps - self.next_look) % self.interval
            count = min(count, steps + (self.interval - late if late else 0))  # up to the check that notices it
        if self.held and self.gate is not None:
            self.gate.pass_by(count)
        self._decode(count, first_s, count * line.at(context + (count - 1) / 2), line.at(context + count - 1))

    def _alike(self) -> int:
        """Return the decode steps until a sequence ends or the cache is full, after making room for the first."""
        self._make_room()
        count = self._next_end() - self.timeline.step
        if self.reserves:
            return count
        room = self.pool.tokens_for(self.running + len(self.prompts)) - self.contexts - self.prompt_tokens
        return count if room >= count * self.running else max(int(room // self.running), 1)

    def _make_room(self) -> None:
        """Preempt requests, last admitted first, until the next decode step fits."""
        while not self._has_room():
            self._preempt()

    def _has_room(self) -> bool:
        """Return whether the next decode step fits in the cache; one of a single sequence always runs."""
        return self.reserves or self.running <= 1 or self._held(self.running)

    def _decode(self, count: int, first_s: float, all_s: float, last_s: float) -> None:
        """Run ``count`` decode steps that take ``all_s`` in total, the first ``first_s`` and the last ``last_s``."""
        timeline = self.timeline
        first_at = timeline.now + first_s
        self._pass(all_s, count)
        timeline.advance(all_s, count)
        timeline.emit(count, first_at, last_s, self.requests.gap)
        self._end()

    def _next_start(self, held: bool = False) -> float:
        """Return the time of the next arrival that could start at once; infinite if others wait or no slot is free.

        If waiting prompts are ``held`` back, one more arrival may release them.
        """
        waits = bool(self.waiting) and not (held or self.held)
        if waits or not self.incoming or self.running >= self.most or self.scheduler == "static":
            return inf
        return self.incoming[0][0]

    def _pass(self, took: float, steps: int, tokens: int = 0) -> None:
        """Add passes of ``steps`` decode steps in all and ``tokens`` prompt tokens, from now on, to the totals."""
        tally = self.tally
        if self.waiting:
            if self.running + len(self.prompts) >= self.most:
                tally.slots_s += took
            elif not self.prompts:
                tally.memory_s += took
        tally.busy_s += took
        tally.steps += steps

    # Sequences ------------------------------------------------------------------------------------------------------

    def _leave(self, request: int) -> None:
        """Free the memory of a request that has its last token."""
        if self.reserves:
            self.reserved_bytes -= self._full_bytes(request)
        if len(self.admitted) > 64 and len(self.admitted) > 4 * (self.running + len(self.prompts)):
            alive = {prompt[0] for prompt in self.prompts} | self.end_of.keys()
            self.admitted = [each for each in self.admitted if each in alive]
        super()._leave(request)

    def _preempt(self) -> None:
        """Return the request admitted last to the head of the queue and free its cache."""
        while True:
            request = self.admitted.pop()
            if request in self.end_of:
                made = self._interrupt(request)
                break
            unfinished = next((prompt for prompt in self.prompts if prompt[0] == request), None)
            if unfinished is not None:
                made = self.made.get(request, 0)
                self.prompts.remove(unfinished)
                self.prompt_tokens -= unfinished[2]
                break
        self.made[request] = made
        self.waiting.appendleft(request)
        self.tally.preempted += 1
        self.tally.most_waiting = max(self.tally.most_waiting, len(self.waiting))
