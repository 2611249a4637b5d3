"""Steps and passes of one scheduler, or of several that step together, for `roofline.serving.lane`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..errors import Number
from ..values import Value
from . import closed_forms
from .busiest import busiest, busiest_in_turn, highest_of
from .cache_pool import CachePool
from .lane_gates import LaneGate
from .lengths import Lengths
from .step_times import StepTimes


@dataclass(frozen=True, eq=False)
class LanePasses(Value):
    """Steps and passes of a scheduler with ``clients`` requests in the system.

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
    rate : float or array, optional
        Arrivals per second at any time, as in an open loop; by default requests arrive when others end.
    """

    times: StepTimes
    pool: CachePool
    lengths: Lengths
    clients: Number
    varies: bool = False
    rate: Number | None = None

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

    @property
    def _room(self) -> Number:
        """Prompt tokens that fit in a mixed step of a scheduler; in a pass over prompts alone, the whole budget."""
        if self.times.engine.scheduler != "mixed":
            return self._budget
        share = self.computed_tokens / (self.computed_tokens + self.lengths.steps)
        found: Number = np.maximum(self._budget - self.running, self._budget * share)
        return found

    def _averaged_s(self, prompts: Number, pass_s: Callable[[Number], Number]) -> Number:
        """Return the mean time of joint passes with ``prompts`` prompts on average.

        The most loaded scheduler has more of few prompts than of many, so a pass with the mean number takes longer than
        the average one.  If the number is that of Poisson arrivals, given that there are any, it is 1 with probability
        ``exp(-0.9 (k - 1))`` (within 0.02 for ``k`` from 1 to 5).
        """
        if self.times.sharing == 1:
            return pass_s(prompts)
        single = np.exp(-0.9 * (prompts - 1.0))
        several = np.where(prompts > 1.0, (prompts - single) / np.maximum(1.0 - single, 1e-9), 1.0)
        found: Number = single * pass_s(1.0) + (1.0 - single) * pass_s(several)
        return found

    def _chunk_s(self, prompts: Number, made: closed_forms.Chunks) -> Number:
        """Return the time of a step with chunks of ``prompts`` prompts."""
        lengths = self.lengths
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
        if self.varies and not self.gate.balanced:  # arrivals go to the schedulers in turn
            even = np.maximum(prompts / sharing, 1.0)
            in_turn: Number = even + spread * np.sqrt(even) * highest_of(np.clip(prompts, 1.0, sharing))
            return in_turn
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

    def pass_s(self, prompts: Number) -> Number:
        """Return the time to compute ``prompts`` prompts together, in several passes if a prompt exceeds the budget."""
        lengths = self.lengths
        passes = np.maximum(np.ceil(self.computed_tokens / self._budget), 1.0) if self.times.engine.chunked else 1.0
        tokens = self.computed_tokens / passes
        past = lengths.cached + (self.computed_tokens - tokens) / 2.0
        return passes * self._pass_s(0.0, tokens, past, prompts)

    @property
    def _pipelined(self) -> bool:
        """Whether the scheduler is one of several microbatches that do not overtake each other."""
        return self.times.stages > 1
