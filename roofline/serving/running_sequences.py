"""Running sequences of a scheduler, from their first token until their last."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from .request_records import Requests
from .timeline import Timeline


class RunningSequences:
    """Sequences that get a token in every decode step.

    Parameters
    ----------
    requests : Requests
        All requests; some of them run here.
    generates : bool
        Whether sequences continue after the first token.
    """

    def __init__(self, requests: Requests, *, generates: bool) -> None:
        self.requests, self.generates = requests, generates
        self.timeline = Timeline()
        self.running = 0
        self.context_offset = 0  # tokens in their cache, without one for each sequence and step of the timeline
        self.ends: list[tuple[int, int]] = []  # heap of (step at which it ends, request)
        self.end_of: dict[int, int] = {}
        self.resumed: dict[int, int] = {}  # step at which a preempted request has resumed
        self.on_first: Callable[[int, float], None] | None = None
        self.on_finish: Callable[[int, float], None] | None = None

    @property
    def contexts(self) -> int:
        """Tokens in the cache of the running sequences; each grows by one in every decode step."""
        return self.context_offset + self.running * self.timeline.step

    def _next_end(self) -> int:
        """Return the step at which the next sequence ends."""
        ends, end_of = self.ends, self.end_of
        while ends[0][0] != end_of.get(ends[0][1]):
            heappop(ends)
        return ends[0][0]

    def _start(self, request: int, made: int) -> None:
        """Start a sequence whose prompt is computed; its next token is emitted if this pool sends tokens."""
        requests, timeline = self.requests, self.timeline
        now, step, last_of = timeline.now, timeline.step, timeline.last_of
        if self.generates and requests.first[request] < 0:
            requests.first[request] = now
            if self.on_first is not None:
                self.on_first(request, now)
        if request in last_of:
            requests.gap[request] = max(requests.gap[request], now - last_of[request])
            self.resumed[request] = step
        left = requests.output[request] - made if self.generates else 0
        if left <= 0:
            self._leave(request)
            return
        timeline.fresh.append(request)
        last_of[request] = now
        self.running += 1
        self.context_offset += requests.prompt[request] + requests.cached[request] + made - 1 - step
        self.end_of[request] = step + left
        heappush(self.ends, (step + left, request))

    def _end(self) -> None:
        """Remove the sequences whose last token is out."""
        ends, end_of, requests, step = self.ends, self.end_of, self.requests, self.timeline.step
        while ends and ends[0][0] <= step:
            end, request = heappop(ends)
            if end_of.get(request) != end:
                continue
            del end_of[request]
            self.running -= 1
            full = requests.prompt[request] + requests.cached[request] + requests.output[request]
            self.context_offset -= full - 1 - step
            self._widen_gap(request, end)
            self._leave(request)

    def _leave(self, request: int) -> None:
        """Take leave of a request that has its last token."""
        requests, now = self.requests, self.timeline.now
        self.timeline.last_of.pop(request, None)
        self.resumed.pop(request, None)
        if self.generates:
            requests.finish[request] = now
        if self.on_finish is not None:
            self.on_finish(request, now)

    def _interrupt(self, request: int) -> int:
        """Remove a sequence before its end; return how many tokens it has."""
        requests, timeline = self.requests, self.timeline
        end = self.end_of.pop(request)
        made = requests.output[request] - (end - timeline.step)
        self.running -= 1
        self.context_offset -= requests.prompt[request] + requests.cached[request] + made - 1 - timeline.step
        if request in timeline.fresh:
            timeline.fresh.remove(request)
        else:
            self._widen_gap(request, end)
            timeline.last_of[request] = timeline.last_token
        return made

    def _widen_gap(self, request: int, end: int) -> None:
        """Include the gaps of a sequence since it started or resumed; ``end`` is the step at which it ends."""
        requests = self.requests
        started = self.resumed.get(request, end - (requests.output[request] - 1))
        requests.gap[request] = max(requests.gap[request], self.timeline.gaps.widest_after(started + 1))
