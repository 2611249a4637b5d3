"""Trade-offs between phases: when a gain in one is offset by a cost in the other or on a link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import scalar
from ..errors import InvalidInput, Number, number
from ..phases.deployment import Deployment
from ..phases.encoder_rules import refuse_encoders
from ..phases.passes import prefill
from ..phases.workload import Workload
from ..report import Report, Step
from ..serving.pass_times import links
from ..serving.scenario import Scenario, checked_share
from ..serving.steady_state import steady_state
from ..units import brief_time, plural
from .batching import Disaggregation


@dataclass(frozen=True, eq=False, repr=False)
class ModeSwitch(Report):
    """A faster prefill that makes every decode step slower.

    Attributes
    ----------
    break_even_steps : float or array
        Number of decode steps after which the gain is used up.
    prefill_steps : float or array
        Number of decode steps that take as long as a prefill.
    """

    prefill_s: Number
    step_s: Number
    prefill_gain: Number
    decode_cost: Number

    columns = ("prefill_s", "step_s", "prefill_gain", "decode_cost", "prefill_steps", "break_even_steps")

    @property
    def prefill_steps(self) -> Number:
        """Number of decode steps that take as long as the prefill."""
        return scalar(np.divide(self.prefill_s, self.step_s))

    @property
    def break_even_steps(self) -> Number:
        """Number of decode steps after which the gain is used up."""
        return scalar(np.divide(np.multiply(self.prefill_gain, self.prefill_s), self.decode_cost * self.step_s))

    def summary(self) -> str:
        """One sentence on when the gain is used up."""
        steps, length = (np.max(np.asarray(each)) for each in (self.break_even_steps, self.prefill_steps))
        until = f"The faster prefill is a net loss beyond {steps:,.3g} output tokens"
        return f"{until}; a prefill takes as long as {length:,.3g} decode steps."

    def _derivation(self) -> tuple[Step, ...]:
        """Time gained once divided by time lost per step."""
        known = {name: getattr(self, name) for name in ("prefill_gain", "prefill_s", "decode_cost", "step_s")}
        formula = "prefill_gain * prefill_s / (decode_cost * step_s)"
        return (Step("break_even_steps", formula, known, self.break_even_steps, "gained once / lost each step"),)


def mode_switch(
    serve: Deployment,
    load: Workload,
    *,
    prefill_gain: Number = 0.2,
    decode_cost: Number = 0.05,
    time: str = "estimate_s",
) -> ModeSwitch:
    """Compute after how many decode steps a prefill shorter by ``prefill_gain`` has cost more than it gained.

    ``g T_prefill`` seconds are gained once and ``c T_step`` are lost in every step, so the gain is used up after
    ``(g / c) T_prefill / T_step`` steps.  For one sequence ``T_prefill / T_step`` is about the prompt length divided by
    the ridge point, for any model: ``(2 N S / peak) / (2 N / bandwidth)``.

    Examples
    --------
    >>> import roofline as rl
    >>> from roofline.techniques import mode_switch
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-70b"), rl.get_accelerator("h100-sxm"))
    >>> round(mode_switch(serve, rl.Workload(prompt_tokens=1100), time="roofline_s").break_even_steps)
    15
    """
    found = steady_state(Scenario(serve, load), time=time)
    gain, cost = checked_share("prefill_gain", prefill_gain), number("decode_cost", decode_cost)
    if not np.all(np.asarray(cost) > 0):
        raise InvalidInput(f"decode_cost must be above 0: {float(np.min(cost)):g}")
    return ModeSwitch(getattr(prefill(serve, load), time), found.step_s, gain, cost)


@dataclass(frozen=True, eq=False, repr=False)
class Visible(Report):
    """What a reader sees of a stream whose tokens are shown in groups of ``buffer``.

    Attributes
    ----------
    first_visible_s : float or array
        Time until the first burst.
    cadence_s : float or array
        Time between bursts.
    bursts : float or array
        Number of bursts in a response.
    """

    ttft_s: Number
    tpot_s: Number
    buffer: Number
    output_tokens: Number

    columns = ("first_visible_s", "cadence_s", "bursts")

    @property
    def first_visible_s(self) -> Number:
        """Time until the first ``buffer`` tokens are visible, s."""
        return scalar(self.ttft_s + (np.minimum(self.buffer, self.output_tokens) - 1) * self.tpot_s)

    @property
    def cadence_s(self) -> Number:
        """Time between bursts, s."""
        return scalar(np.multiply(self.buffer, self.tpot_s))

    @property
    def bursts(self) -> Number:
        """Number of bursts in a response; the last may be shorter."""
        return scalar(np.ceil(np.divide(self.output_tokens, self.buffer)))

    def summary(self) -> str:
        """One sentence on what a reader sees."""
        first, each = brief_time(self.first_visible_s), brief_time(self.cadence_s)
        shown = plural(float(np.max(self.buffer)), "token")
        return f"The first {shown} become visible after {first}, then {shown} every {each}."

    def _derivation(self) -> tuple[Step, ...]:
        """Derivation of the first burst and of the cadence."""
        shown = np.minimum(self.buffer, self.output_tokens)
        first = {"ttft_s": self.ttft_s, "tokens": shown, "tpot_s": self.tpot_s}
        rhythm = {"buffer": self.buffer, "tpot_s": self.tpot_s}
        return (
            Step("first_visible_s", "ttft_s + (tokens - 1) * tpot_s", first, self.first_visible_s, "a full buffer"),
            Step("cadence_s", "buffer * tpot_s", rhythm, self.cadence_s, "a full buffer each time"),
        )


def visible(serve: Deployment, load: Workload, *, buffer: Number = 4, time: str = "estimate_s") -> Visible:
    """Compute when a reader sees tokens of a stream that is shown ``buffer`` tokens at a time.

    Examples
    --------
    >>> import roofline as rl
    >>> from roofline.techniques import visible
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm"))
    >>> round(visible(serve, rl.Workload(), buffer=4).cadence_s / visible(serve, rl.Workload(), buffer=1).cadence_s)
    4
    """
    found = steady_state(Scenario(serve, load), time=time)
    return Visible(found.ttft_s, found.tpot_s, number("buffer", buffer, least=1, whole=True), load.output_tokens)


@dataclass(frozen=True, eq=False, repr=False)
class SwapIn(Report):
    """Times to fetch the cache of a sequence from the host and to recompute it.

    Attributes
    ----------
    kv_bytes : float or array
        Cache of the sequence.
    swap_s, recompute_s : float or array
        Time to fetch the cache, and time to recompute it.
    pays_from_tokens : int or array
        Shortest of the searched contexts at which swapping is faster; infinite if there is none.
    """

    context_tokens: Number
    kv_bytes: Number
    host_bytes_per_s: Number
    swap_s: Number
    recompute_s: Number
    pays_from_tokens: Number

    columns = ("context_tokens", "kv_bytes", "swap_s", "recompute_s", "pays_from_tokens")

    def _derivation(self) -> tuple[Step, ...]:
        """Derivation of the transfer time."""
        known = {"kv_bytes": self.kv_bytes, "host_bytes_per_s": self.host_bytes_per_s}
        return (Step("swap_s", "kv_bytes / host_bytes_per_s", known, self.swap_s, "one direction of the host link"),)


def swap_or_recompute(serve: Deployment, *, context_tokens: Number, time: str = "estimate_s") -> SwapIn:
    """Compute the time to fetch a cache of ``context_tokens`` from host memory, and to recompute it.

    The fetch runs at the host link's rate and is linear in the context.  Recomputing is a prefill: at least one read of
    the weights, then linear, then quadratic in the context.

    Raises
    ------
    InvalidInput
        The accelerator has no ``host_bytes_per_s``.
    """
    gpu = serve.accelerator
    if gpu.host_bytes_per_s is None:
        raise InvalidInput(f"{gpu.name} has no host_bytes_per_s: swapping needs a host link")
    context = number("context_tokens", context_tokens, least=1, whole=True)
    rate, searched = gpu.host_bytes_per_s * links(serve), 2.0 ** np.arange(21)  # contexts up to a million tokens

    def both(tokens: Number) -> tuple[Number, Number, Number]:
        cache = serve.model.cache_bytes(tokens, serve.precision.kv)
        again = getattr(prefill(serve, Workload(prompt_tokens=tokens)), time)
        return cache, np.divide(cache, rate), again

    _, swap_s, again_s = both(searched)
    faster = searched[np.asarray(swap_s < again_s)]
    kv_bytes, swap_s, again_s = both(context)
    first = float(faster.min()) if faster.size else float("inf")
    return SwapIn(context, kv_bytes, rate, scalar(swap_s), again_s, first)


@dataclass(frozen=True, eq=False, repr=False)
class Handover(Report):
    """Prefill and decode on separate pools, compared with one pool for both.

    Attributes
    ----------
    kv_bytes : float or array
        Cache of a request, which is transferred.
    transfer_s : float or array
        Time to transfer the cache.
    prefill_s, step_s : float or array
        Time of one prompt, and of one decode step of the batch.
    stall_s : float or array
        Time for which a prompt stops the running sequences in a shared pool.
    prefill_per_decode : float or array
        Prefill accelerators per decode accelerator if both pools are fully used.
    pays_above_hz : float or array
        Requests per second and accelerator above which a request loses more time to stalls than to its transfer.
    """

    kv_bytes: Number
    link_bytes_per_s: Number
    prefill_s: Number
    step_s: Number
    decode_s: Number
    batch: Number

    columns = ("kv_bytes", "transfer_s", "prefill_s", "step_s", "stall_s", "prefill_per_decode", "pays_above_hz")

    @property
    def transfer_s(self) -> Number:
        """Time to transfer the cache, s."""
        return scalar(np.divide(self.kv_bytes, self.link_bytes_per_s))

    @property
    def stall_s(self) -> Number:
        """Time that a running sequence waits for a whole prefill in a shared pool, s."""
        return self.prefill_s

    @property
    def prefill_per_decode(self) -> Number:
        """Prefill accelerator time of a request, divided by its share of the batch's decode time."""
        return scalar(np.divide(self.prefill_s, np.divide(self.decode_s, self.batch)))

    @property
    def pays_above_hz(self) -> Number:
        """Request rate at which stalls and transfer are equal (see `handover`)."""
        return scalar(self.transfer_s / (self.prefill_s * (self.decode_s + self.transfer_s)))

    def pools(self, accelerators: int) -> tuple[int, int]:
        """Split ``accelerators`` into prefill and decode (xPyD), at least one of each.

        Raises
        ------
        InvalidInput
            ``accelerators`` is less than two, or the result is a sweep.
        """
        if number("accelerators", accelerators, least=2, whole=True) and np.ndim(self.prefill_per_decode):
            raise InvalidInput("pools takes a single case, not a sweep")
        share_ = self.prefill_per_decode / (1 + self.prefill_per_decode)
        prefills = int(np.clip(round(float(accelerators * share_)), 1, accelerators - 1))
        return prefills, accelerators - prefills

    def _derivation(self) -> tuple[Step, ...]:
        """Derivation of the transfer, the pools and the rate."""
        known = {"kv_bytes": self.kv_bytes, "link_bytes_per_s": self.link_bytes_per_s}
        pools = {"prefill_s": self.prefill_s, "decode_s": self.decode_s, "batch": self.batch}
        rate = {"transfer_s": self.transfer_s, "prefill_s": self.prefill_s, "decode_s": self.decode_s}
        return (
            Step("transfer_s", "kv_bytes / link_bytes_per_s", known, self.transfer_s, "one direction of the link"),
            Step("prefill_per_decode", "prefill_s / (decode_s / batch)", pools, self.prefill_per_decode, "both busy"),
            Step(
                "pays_above_hz",
                "transfer_s / (prefill_s * (decode_s + transfer_s))",
                rate,
                self.pays_above_hz,
                "stalls of a decode = its transfer",
            ),
        )


def handover(
    serve: Deployment, load: Workload, *, link_bytes_per_s: Number | None = None, time: str = "estimate_s"
) -> Handover:
    """Compute what disaggregation costs a request, and the request rate above which it pays.

    In a shared pool, each of the requests that arrive at a rate ``r`` stops the running sequences for a prefill
    ``T_p``. A decode that takes ``D`` undisturbed is stretched to ``D / (1 - r T_p)``, of which ``D r T_p / (1 - r
    T_p)`` are stalls.  With separate pools a request waits once for its transfer ``X``.  The two are equal at ``r = X /
    (T_p (D + X))``.

    Parameters
    ----------
    link_bytes_per_s : float or array, optional
        Bandwidth of an accelerator's link to the other pool, one direction, bytes/s; by default its network.
    time : str
        ``floor_s``, ``roofline_s`` or ``estimate_s``.

    Raises
    ------
    InvalidInput
        No link bandwidth is given, and the accelerator has none.
    """
    technique = Disaggregation(link_bytes_per_s=link_bytes_per_s)
    case = Scenario(serve, load)
    refuse_encoders(serve.model, "a what-if")
    if reason := technique.refusal(case):
        raise InvalidInput(f"{technique.name}: {reason}")
    found = steady_state(case, time=time)
    return Handover(
        kv_bytes=serve.model.cache_bytes(load.context_tokens, serve.precision.kv),
        link_bytes_per_s=(technique.rate(case) or np.nan) * links(serve),
        prefill_s=found.prompt_s,
        step_s=found.step_s,
        decode_s=scalar((np.asarray(load.output_tokens) - 1) * found.decode_s),
        batch=load.batch,
    )
