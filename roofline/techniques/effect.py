"""Effect: what techniques change for the requests of a deployment, by phase."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import scalar
from ..errors import Number
from ..phases.deployment import Deployment
from ..phases.workload import Workload
from ..report import Report, Step
from ..report.dimensions import Dimensions
from ..serving.scenario import Scenario
from ..serving.steady_state import Steady, steady_state
from .effect_sentence import effect_sentence
from .technique import Chosen, Technique, as_techniques, refuse

AS_GIVEN = "as given"
"""Label of the comparison for techniques without a baseline of their own."""


@dataclass(frozen=True, eq=False, repr=False)
class Effect(Report):
    """The effect of one or several techniques on the requests of a deployment in steady state.

    Speedups and gains compare with the deployment as given. Columns that start with ``baseline_`` compare with the same
    deployment without the technique: for GQA a model with multi-head attention, for the KV cache an engine without
    one. Values above 1 are improvements.

    Attributes
    ----------
    techniques : tuple of Technique
        The techniques that were applied.
    before, after : Steady
        The deployment as given, and with the techniques.
    baseline : Steady
        The deployment without the techniques.

    Columns
    -------
    prefill_speedup, decode_speedup
        Speedups of a prompt that runs alone, and of a token of a decode step without prompts.
    ttft_speedup, tpot_speedup, total_speedup
        Speedups of the latencies of a request, including waiting and stalls.
    throughput_gain, capacity_gain
        Gains in throughput, with as many requests as given and with as many as fit in memory.
    """

    techniques: tuple[Technique, ...]
    before: Steady
    after: Steady
    baseline: Steady

    columns = (
        "technique",
        "prefill_before_s",
        "prefill_after_s",
        "prefill_speedup",
        "decode_before_s",
        "decode_after_s",
        "decode_speedup",
        "ttft_speedup",
        "tpot_speedup",
        "total_speedup",
        "gap_before_s",
        "gap_after_s",
        "throughput_gain",
        "weights_saved_bytes",
        "kv_saved_bytes_per_sequence",
        "max_batch_before",
        "max_batch_after",
        "capacity_gain",
        "compared_with",
        "baseline_prefill_speedup",
        "baseline_decode_speedup",
        "baseline_total_speedup",
        "baseline_throughput_gain",
    )

    @property
    def heading(self) -> str:
        """Title: techniques, deployment and number of requests."""
        return f"Effect: {self.technique} for {self.before.heading.removeprefix('Steady: ')}"

    @property
    def dimensions(self) -> Dimensions:
        """Names of the sweep axes."""
        return self.before.dimensions

    @property
    def inputs(self) -> dict[str, Any]:
        """Model, hardware and requests before the techniques, by name."""
        return self.before.inputs

    @property
    def technique(self) -> str:
        """Names of the techniques applied."""
        return " + ".join(item.name for item in self.techniques) or "nothing"

    @property
    def prefill_before_s(self) -> Number:
        """Prefill time of a prompt that runs alone, as given."""
        return self.before.prompt_s

    @property
    def prefill_after_s(self) -> Number:
        """Prefill time of a prompt that runs alone, with the techniques."""
        return self.after.prompt_s

    @property
    def prefill_speedup(self) -> Number:
        """Prefill time of a prompt that runs alone, before / after."""
        return ratio(self.before.prompt_s, self.after.prompt_s)

    @property
    def decode_before_s(self) -> Number:
        """Time per token of a decode step without prompts, as given."""
        return self.before.decode_s

    @property
    def decode_after_s(self) -> Number:
        """Time per token of a decode step without prompts, with the techniques."""
        return self.after.decode_s

    @property
    def decode_speedup(self) -> Number:
        """Time per token of a decode step without prompts, before / after."""
        return ratio(self.before.decode_s, self.after.decode_s)

    @property
    def ttft_speedup(self) -> Number:
        """Time to first token of a request, before / after."""
        return ratio(self.before.ttft_s, self.after.ttft_s)

    @property
    def tpot_speedup(self) -> Number:
        """Time per output token of a request, before / after."""
        return ratio(self.before.tpot_s, self.after.tpot_s)

    @property
    def total_speedup(self) -> Number:
        """End-to-end latency of a request, before / after."""
        return ratio(self.before.total_s, self.after.total_s)

    @property
    def gap_before_s(self) -> Number:
        """Longest gap between two tokens, as given."""
        return self.before.gap_s

    @property
    def gap_after_s(self) -> Number:
        """Longest gap between two tokens, with the techniques."""
        return self.after.gap_s

    @property
    def throughput_gain(self) -> Number:
        """Throughput with the same number of requests in the system, after / before."""
        return ratio(self.after.tokens_per_s, self.before.tokens_per_s)

    @property
    def weights_saved_bytes(self) -> Number:
        """Memory freed by smaller weights; negative if they grew."""
        return scalar(np.subtract(self.before.weights_bytes, self.after.weights_bytes))

    @property
    def kv_saved_bytes_per_sequence(self) -> Number:
        """Cache memory freed per sequence; negative if the cache grew."""
        return scalar(np.subtract(self.before.kv_bytes_per_sequence, self.after.kv_bytes_per_sequence))

    @property
    def max_batch_before(self) -> Number:
        """Sequences that fit in memory, as given."""
        return self.before.max_batch

    @property
    def max_batch_after(self) -> Number:
        """Sequences that fit in memory with the techniques."""
        return self.after.max_batch

    @cached_property
    def capacity_gain(self) -> Number:
        """Throughput with as many requests as fit, after / before; NaN if none fit before."""
        return ratio(self.after.capacity_tokens_per_s, self.before.capacity_tokens_per_s)

    @property
    def batch_gain(self) -> Number:
        """Sequences that fit in the same free memory (fractions included), after / before."""
        return cache_gain(self.before, self.after)

    @property
    def compared_with(self) -> str:
        """Baseline of the columns that start with ``baseline_``."""
        return " and ".join(item.baseline for item in self.techniques if item.baseline) or AS_GIVEN

    @property
    def baseline_prefill_speedup(self) -> Number:
        """Prefill time of a prompt that runs alone, baseline / after."""
        return ratio(self.baseline.prompt_s, self.after.prompt_s)

    @property
    def baseline_decode_speedup(self) -> Number:
        """Time per token of a decode step, baseline / after."""
        return ratio(self.baseline.decode_s, self.after.decode_s)

    @property
    def baseline_total_speedup(self) -> Number:
        """End-to-end latency of a request, baseline / after."""
        return ratio(self.baseline.total_s, self.after.total_s)

    @property
    def baseline_throughput_gain(self) -> Number:
        """Throughput with the same number of requests in the system, after / baseline."""
        return ratio(self.after.tokens_per_s, self.baseline.tokens_per_s)

    @property
    def baseline_batch_gain(self) -> Number:
        """Sequences that fit in the same free memory (fractions included), after / baseline."""
        return cache_gain(self.baseline, self.after)

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """Assumptions behind the values."""
        notes = [f"baseline: {item.baseline}" for item in self.techniques if item.baseline]
        return tuple(dict.fromkeys((*notes, *self.before.assumptions, *self.after.assumptions)))

    def summary(self) -> str:
        """One sentence on the latency of a request, throughput and memory."""
        return effect_sentence(self)

    def to_dict(self) -> dict[str, Any]:
        """Columns, the before, after and baseline results, and the notes, as a dict."""
        sides = {name: getattr(self, name).to_dict() for name in ("before", "after", "baseline")}
        return super().to_dict() | sides | {"assumptions": list(self.assumptions)}

    def _derivation(self) -> tuple[Step, ...]:
        """The techniques' own derivations, the resulting request times, and the speedups."""
        own = tuple(step for item in self.techniques for step in item.steps(self.before.case))
        return (*own, *self.after.explain(), *self._speedup_steps())

    def _speedup_steps(self) -> tuple[Step, ...]:
        """Every speedup and gain over the deployment as given, where both sides exist."""
        times = {f"{name}_speedup": f"{name}_s" for name in ("ttft", "tpot", "total")}
        pairs = {
            "prefill_speedup": ("prefill_before_s", self.prefill_before_s, "prefill_after_s", self.prefill_after_s),
            "decode_speedup": ("decode_before_s", self.decode_before_s, "decode_after_s", self.decode_after_s),
        }
        for name, column in times.items():
            sides = (getattr(self.before, column), getattr(self.after, column))
            pairs[name] = (f"before_{column}", sides[0], f"after_{column}", sides[1])
        rates = (self.after.tokens_per_s, self.before.tokens_per_s)
        pairs["throughput_gain"] = ("after_tokens_per_s", rates[0], "before_tokens_per_s", rates[1])
        steps = []
        for name, (above, value, below, other) in pairs.items():
            if np.all(np.asarray(other) > 0):
                inputs = {above: value, below: other}
                steps.append(Step(name, f"{above} / {below}", inputs, getattr(self, name), self.before.time))
        return tuple(steps)


def ratio(above: Number, below: Number) -> Number:
    """``above / below``; 1 if both are 0, NaN if only ``below`` is 0."""
    above, below = np.asarray(above, dtype=float), np.asarray(below, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(below == 0, np.nan, np.divide(above, below))
    return scalar(np.where((above == 0) & (below == 0), 1.0, found))


def cache_gain(before: Steady, after: Steady) -> Number:
    """Cache bytes per sequence before / after: how many times as many sequences fit in the same free memory."""
    return scalar(np.divide(before.kv_bytes_per_sequence, np.maximum(after.kv_bytes_per_sequence, 1.0)))


def apply(serve: Deployment, load: Workload, techniques: Chosen, *, time: str = "estimate_s") -> Effect:
    """Compute the effect of techniques on the requests of a deployment, phase by phase.

    Parameters
    ----------
    serve : Deployment
        What runs where, as given.
    load : Workload
        The requests; ``batch`` of them are in the system at any time.
    techniques : Technique or str, or several of them
        Techniques as values, or by slug with their usual parameters. Their order matters only if several of them change
        the shape of the model.
    time : str
        ``floor_s``, ``roofline_s`` or ``estimate_s``.

    Returns
    -------
    Effect
        The deployment as given, with the techniques, and without them.

    Raises
    ------
    InvalidInput
        Two techniques decide the same thing, or one does not apply to the deployment.
    UnknownName
        No technique has this slug, or ``time`` is not one of the three times.

    Examples
    --------
    >>> import roofline as rl
    >>> from roofline.techniques import Quantization, Speculation
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-70b"), rl.get_accelerator("h100-sxm"))
    >>> chosen = [Quantization(weights="fp8"), Speculation(acceptance=0.7)]
    >>> effect = rl.apply(serve, rl.Workload(), chosen, time="roofline_s")
    >>> round(effect.decode_speedup, 1)
    4.5
    """
    chosen = as_techniques(techniques)
    case = Scenario(serve, load)
    refuse(chosen, case)
    for item in chosen:
        case = item.given(case)
    after = baseline = case
    for item in chosen:
        after, baseline = item.after(after), item.without(baseline)
    return Effect(chosen, *(steady_state(each, time=time) for each in (case, after, baseline)))
