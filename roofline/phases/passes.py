"""Phases: prefill, one decode step, a mixed step."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from ..arrays import Words, larger, read_only
from ..errors import InvalidInput, Number, number
from ..operators.operator import Segment
from ..operators.roofline import name_limits
from ..report import Report, Step
from ..report.dimensions import UNNAMED, Dimensions
from ..units import humanize
from .bounds import Bound
from .chunking import broadcast_shape, each_block, is_large, put_together, sequences_by_name, setting_aside
from .deployment import Deployment, check_deployment
from .encoder_rules import encoder_notes, encoder_refusal
from .energy import PassEnergy, Use, explain_energy, power_notes, use_of
from .layout_notes import notes_of_layout
from .media import media_notes
from .pass_sentences import cache_notes, context_notes, pass_sentence
from .pass_steps import explain_pass
from .schedule import Schedule
from .scheduling import pass_of, schedule_of
from .sequences import prompts_of, steps_of
from .single_points import estimates_at, sums_at
from .totals import (
    Estimates,
    ScheduledPass,
    Sums,
    limited_s,
    resources_s,
    total,
    weights_s,
)
from .workload import Workload, together

TIMES = ("floor_s", "roofline_s", "estimate_s")

Found = TypeVar("Found")


@dataclass(frozen=True, eq=False, repr=False)
class Phase(PassEnergy, Report):
    """One forward pass of a deployment, with its three times.

    FLOPs and bytes are those of all accelerators together; `per_accelerator` and ``operators`` describe the most loaded
    accelerator, which sets the pace.

    ``floor_s``
        maximum over resources of the sum of all compulsory work: everything overlaps, and intermediate results never
        leave the chip. If a measurement is below it, either the measurement or the data sheet is wrong.
    ``roofline_s``
        sum over operators of their roofline times: one after another, at data-sheet peaks, with inputs and outputs
        moved.
    ``estimate_s``
        sum over kernels of measured performance: the shares of the peaks that kernels reach, and their fixed times.

    Attributes
    ----------
    name : str
        ``prefill``, ``decode`` or ``mixed``.
    deployment : Deployment
        What runs where.
    segments : tuple of Segment
        Sequences in the pass, for the whole deployment.
    dimensions : Dimensions
        Names of the axes of a sweep.
    """

    name: str
    deployment: Deployment
    segments: tuple[Segment, ...]
    dimensions: Dimensions = UNNAMED

    columns = (
        "flops",
        "moved_bytes",
        "intensity_flops_per_byte",
        "floor_s",
        "roofline_s",
        "estimate_s",
        "estimate_low_s",
        "estimate_high_s",
        "limit",
        "tokens_per_s",
        "energy_j",
        "watts",
    )

    @property
    def heading(self) -> str:
        """Title: name of the pass, deployment, and number of sequences per group."""
        batch = " + ".join(humanize("batch", segment.sequences) for segment in self.segments)
        return f"Phase: {self.name} of {self.deployment}, batch {batch}"

    @property
    def inputs(self) -> dict[str, Any]:
        """Inputs of the deployment, and number and lengths of the sequences, by name."""
        return self.deployment.inputs | sequences_by_name(self.segments)

    @cached_property
    def schedule(self) -> Schedule:
        """How the pass runs on a pipeline and over replicas."""
        return schedule_of(self.deployment, self.name, self.segments)

    @cached_property
    def scheduled(self) -> ScheduledPass:
        """One pass of a microbatch through all layers, on the most loaded accelerator."""
        return pass_of(self.deployment, self.name, self.segments)

    @property
    def operators(self) -> tuple[Bound, ...]:
        """Bounds of every operator of `scheduled`, each computed in the way with the least roofline time."""
        return self.scheduled.operators

    @cached_property
    def sums(self) -> Sums:
        """Sums over the operators of one accelerator."""
        if not self._is_sweep:
            return sums_at(self.deployment, self.name, self.segments)
        if self._is_whole:
            return self.scheduled.sums
        parts = each_block(lambda segments: self._part(segments).sums, self.segments)
        return read_only(put_together(parts, self.segments))

    @cached_property
    def estimates(self) -> Estimates:
        """Expected time of one pass on one accelerator, with its interval."""
        if not self._is_sweep:
            return estimates_at(self.deployment, self.name, self.segments)
        return self.scheduled.estimates if self._is_whole else self._by_blocks[0]

    @property
    def _bases(self) -> tuple[tuple[str, ...], ...]:
        """Assumptions of the operators (`notes_of_operators`)."""
        return self.scheduled.bases if self._is_whole else self._by_blocks[1]

    @cached_property
    def _by_blocks(self) -> tuple[Estimates, tuple[tuple[str, ...], ...]]:
        """Estimates and notes of a large sweep, computed together so that each block's kernels can be discarded."""
        notes: tuple[dict[str, None], ...] = ({}, {}, {})
        parts = each_block(lambda segments: self._part(segments).estimates_and_bases, self.segments)
        return read_only(put_together(setting_aside(parts, notes), self.segments)), tuple(map(tuple, notes))

    def _part(self, segments: tuple[Segment, ...]) -> ScheduledPass:
        """Return the pass for some of the points."""
        return Phase(self.name, self.deployment, segments).scheduled

    @cached_property
    def _is_sweep(self) -> bool:
        """Whether there are several points."""
        return self.deployment.is_sweep or any(each.is_sweep for each in self.segments)

    @cached_property
    def _is_whole(self) -> bool:
        """Whether all points are computed at once, without blocks."""
        return self.deployment.is_sweep or not is_large(self.segments)

    @cached_property
    def use(self) -> Use:
        """Seconds for which one pass uses each part of an accelerator."""
        return use_of(self.sums, self.estimates, self.deployment.accelerator)

    @property
    def copies(self) -> Number:
        """Number of accelerators that work on a layer, times the number of microbatches."""
        return self.deployment.parallel.ranks * self.schedule.microbatches

    @property
    def flops(self) -> Number:
        """FLOPs of the pass, all accelerators together."""
        return self.sums.flops * self.copies

    @property
    def moved_bytes(self) -> Number:
        """Bytes moved when operators run one after another, activations included, all accelerators together."""
        return self.sums.moved_bytes * self.copies

    @property
    def least_bytes(self) -> Number:
        """Bytes that no implementation can avoid: weights, and cache read and written, all accelerators together."""
        return self.sums.least_bytes * self.copies

    @property
    def weight_bytes(self) -> Number:
        """Weights streamed in the pass (with experts: the expected distinct ones), all accelerators together."""
        return self.copies * total(i.operator.count * i.operator.work.weight_bytes for i in self.operators)

    @property
    def cache_bytes(self) -> Number:
        """KV cache and state read and written in the pass, all accelerators together."""
        return self.copies * total(i.operator.count * i.operator.work.cache_bytes for i in self.operators)

    @property
    def per_accelerator(self) -> dict[str, Number]:
        """FLOPs and bytes of one accelerator, on average."""
        names = ("flops", "moved_bytes", "least_bytes", "weight_bytes", "cache_bytes")
        return {name: getattr(self, name) / self.deployment.parallel.accelerators for name in names}

    @property
    def intensity_flops_per_byte(self) -> Number:
        """Arithmetic intensity of the whole pass."""
        return self.sums.flops / self.sums.moved_bytes

    @property
    def floor_s(self) -> Number:
        """Least possible time: the busiest resource, everything overlapped."""
        return self.sums.floor_s

    @property
    def roofline_s(self) -> Number:
        """Sum of the operators' roofline times; overlap hides network time, a pipeline adds its bubble."""
        return self.sums.roofline_s * self.schedule.rounds

    @property
    def estimate_s(self) -> Number:
        """Expected time."""
        return self.estimates.time_s * self.schedule.rounds

    @property
    def estimate_low_s(self) -> Number:
        """Lower end of the estimate's interval, never below the floor."""
        return larger(self.estimates.low_s * self.schedule.rounds, self.floor_s)

    @property
    def estimate_high_s(self) -> Number:
        """Upper end of the estimate's interval."""
        return self.estimates.high_s * self.schedule.rounds

    @property
    def resources_s(self) -> dict[str, Number]:
        """Least busy time of each resource; the floor is the longest of them (`roofline.phases.totals`)."""
        return resources_s(self.scheduled)

    @property
    def weights_s(self) -> Number:
        """Least time to read the weights, which is part of the memory's busy time."""
        return weights_s(self.scheduled)

    @property
    def limited_s(self) -> dict[str, Number]:
        """Roofline time split by what limits each operator: memory, compute or network."""
        return limited_s(self.sums, self.schedule, alone=self.deployment.parallel.single)

    @property
    def limit(self) -> Words:
        """Resource with the largest share of `roofline_s` (see `limited_s`); an array of strings for a sweep."""
        return name_limits(self.limited_s)

    @property
    def tokens(self) -> Number:
        """Tokens computed in the pass, including those of an encoder."""
        return total(each.sequences * (each.new_tokens + each.encoded_tokens) for each in self.segments)

    @property
    def tokens_per_s(self) -> Number:
        """Tokens per second at `roofline_s`: prompt tokens in prefill, generated tokens in decode."""
        return self.tokens / self.roofline_s

    def tokens_per_s_by(self, time: str) -> Number:
        """Return tokens per second at one of the three times."""
        rate: Number = self.tokens / getattr(self, time)
        return rate

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """Assumptions: substituted formats, contexts beyond the model's limit, routing, basis of the estimate."""
        fallbacks, experts, bases = self._bases
        longest = max(float(np.max(s.past_tokens + s.new_tokens, initial=0.0)) for s in self.segments)
        notes = [*fallbacks, *context_notes(self.deployment.model, longest)]
        notes.extend(notes_of_layout(self.deployment))
        notes.extend((*media_notes(self.deployment, self.segments), *encoder_notes(self.deployment.model)))
        return (*notes, *experts, *cache_notes(self), *bases, *power_notes(self.deployment))

    def summary(self, time: str = "estimate_s") -> str:
        """Describe how long the pass takes, by one of the three times, and what limits it."""
        return pass_sentence(self, time)

    def _lines(self) -> Iterable[tuple[str, str]]:
        """Lines of the printed table; the rate says which of the three times it belongs to."""
        for name, text in super()._lines():
            yield name, f"{text} at roofline_s" if name == "tokens_per_s" else text

    def to_dict(self) -> dict[str, Any]:
        """Return columns and notes."""
        return super().to_dict() | {"assumptions": list(self.assumptions)}

    def _derivation(self) -> tuple[Step, ...]:
        """Return the steps of every operator, the sums, the three times and the energy."""
        return (*explain_pass(self.name, self.scheduled), *explain_energy(self))


def run_pass(serve: Deployment, name: str, *segments: Segment, dimensions: Dimensions = UNNAMED) -> Phase:
    """Return a forward pass of any mix of segments as a `Phase` called ``name``.

    The linear layers see the tokens of all segments together and stream their weights once.

    Raises
    ------
    InvalidInput
        ``serve`` is not a `Deployment`, or the shapes of the segments do not broadcast.
    """
    if _checked(serve).model.encodes is not (name == "encode"):
        raise InvalidInput(encoder_refusal(serve.model, name))
    serve.check_shape(broadcast_shape(segments))
    return Phase(name, serve, segments, dimensions)


def _checked(serve: Deployment) -> Deployment:
    check_deployment(serve)
    return serve


def prefill(serve: Deployment, load: Workload) -> Phase:
    """Return the pass that computes all prompts of the batch and the first token of each.

    Attention is causal, over the cached prefix and the prompt itself; lm_head runs on the last position only. Images
    and sound in the prompts are encoded first. For an encoder this is its only pass (`roofline.encode`).

    Parameters
    ----------
    serve : Deployment
        What runs where.
    load : Workload
        The prompts; output lengths are ignored.

    Returns
    -------
    Phase
        The pass, called ``prefill``; of an encoder ``encode``.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-70b"), rl.get_accelerator("h100-sxm"))
    >>> phase = rl.prefill(serve, rl.Workload(prompt_tokens=2000))
    >>> f"{phase.flops:.4e} {phase.floor_s:.3f} {phase.limit}"
    '2.7905e+14 0.261 compute'
    """
    name = "encode" if _checked(serve).model.encodes else "prefill"
    return run_pass(serve, name, prompts_of(serve, load), dimensions=load.dimensions)


def decode(serve: Deployment, load: Workload, *, context_tokens: Number | None = None) -> Phase:
    """Return one decode step: one new token for each sequence of the batch.

    Parameters
    ----------
    serve : Deployment
        What runs where.
    load : Workload
        The sequences that decode.
    context_tokens : int or array, optional
        Tokens of each sequence in the cache before the step; after the prompt if None.

    Returns
    -------
    Phase
        The step, called ``decode``.

    Raises
    ------
    InvalidInput
        ``context_tokens`` is not an integer >= 0.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-70b"), rl.get_accelerator("h100-sxm"))
    >>> step = rl.decode(serve, rl.Workload(batch=1), context_tokens=2048)
    >>> f"{step.floor_s * 1e3:.2f} ms {step.limit}"
    '41.69 ms memory'
    """
    (load,), others, dimensions = together([load], context_tokens=context_tokens)
    asked = others["context_tokens"]
    context = load.context_tokens if asked is None else number("context_tokens", asked, whole=True, empty=True)
    return run_pass(serve, "decode", _steps(serve, load, context), dimensions=dimensions)


def mixed(serve: Deployment, *, decode: Workload | Iterable[Workload], prefill: Workload | Iterable[Workload]) -> Phase:
    """Return one step that decodes a token for some sequences and computes prompts, or chunks, of others.

    The linear layers process the tokens of all sequences together and read their weights once, which makes a mixed step
    shorter than two separate ones (chunked prefill: Sarathi, arXiv:2308.16369, section 4.2). Attention runs over each
    group of sequences separately, so lengths may differ between groups.

    Parameters
    ----------
    decode : Workload or iterable of Workload
        The sequences that decode: ``batch`` of them, each with ``context_tokens`` (prompt and cached) in the cache.
        Several workloads are groups of sequences with different contexts.
    prefill : Workload or iterable of Workload
        The prompts, or chunks of prompts, that join them: ``batch`` sequences with ``prompt_tokens`` new tokens each
        after ``cached_tokens`` earlier ones.  Several workloads are prompts of different lengths.

    Returns
    -------
    Phase
        The step, called ``mixed``; its ``tokens`` include both kinds.

    Raises
    ------
    InvalidInput
        There is nothing to decode or nothing to prefill (use `prefill` or `decode`), or shapes do not broadcast.

    Examples
    --------
    Thirty-two sequences decode while a chunk of 512 tokens of one long prompt is computed:

    >>> import roofline as rl
    >>> serve = rl.Deployment("llama-3.1-8b", "h100-sxm")
    >>> running = rl.Workload(prompt_tokens=2000, batch=32)
    >>> chunk = rl.Workload(prompt_tokens=512, cached_tokens=4096, batch=1)
    >>> both = rl.mixed(serve, decode=running, prefill=chunk)
    >>> int(both.tokens)
    544
    >>> bool(both.roofline_s < rl.decode(serve, running).roofline_s + rl.prefill(serve, chunk).roofline_s)
    True
    """
    check_deployment(serve)
    prompts, steps = _workloads("prefill", prefill), _workloads("decode", decode)
    loads, _, dimensions = together([*prompts, *steps])
    segments = [prompts_of(serve, load) for load in loads[: len(prompts)]]
    segments += [_steps(serve, load, load.context_tokens) for load in loads[len(prompts) :]]
    return run_pass(serve, "mixed", *segments, dimensions=dimensions)


def _steps(serve: Deployment, load: Workload, context: Number) -> Segment:
    model, prompt = _checked(serve).model, load.prompt_tokens
    beside = model.looked_at(load.images, load.image_tokens)
    return steps_of(model, load.batch, context, shared=load.cached_tokens, prompt_tokens=prompt, looked_at=beside)


def _workloads(name: str, loads: Workload | Iterable[Workload]) -> tuple[Workload, ...]:
    """Return one or several workloads as a tuple."""
    if isinstance(loads, Workload):
        return (loads,)
    found = tuple(loads) if isinstance(loads, Iterable) else ()
    if not found or not all(isinstance(load, Workload) for load in found):
        raise InvalidInput(f"{name} must be a Workload or several of them: {reprlib.repr(loads)}")
    return found
