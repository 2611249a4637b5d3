"""Step times: how long one step of an engine takes, tabulated once from the model's operators.

A step computes a token of each of ``B`` running sequences, ``new`` tokens of some prompts, or both.  There are three
kinds of operators:

===========  ==================================================================  =========================
linear       depends on the tokens of the step alone: products, norms, messages  ``L(tokens)``
head         depends on the logits that are needed: lm_head                      ``H(emitted)``
sequence     depends on what each sequence has in its cache: attention, scans    ``A_d(B, context)`` of decoding,
                                                                                 ``A_p(new, past)`` of a prompt
===========  ==================================================================  =========================

Each is computed on a grid by the library's own operators and interpolated linearly, so a step takes a few lookups.  The
sum of the three is the pass that `roofline.phases` computes; a test compares them.  The host's time
(`roofline.phases.host`) is added to the kernels' estimate.  For the floor, the table has the busy time of each
resource, and a step takes the largest of their sums.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput, Number, unknown
from ..model.rewriting import steps_apart
from ..operators.operator import Segment
from ..phases.bounds import Bound
from ..phases.deployment import Deployment, check_deployment
from ..phases.encoder_rules import refuse_encoders
from ..phases.host import NO_HOST, HostedModel, HostTimes
from ..phases.media import media_notes
from ..phases.passes import TIMES
from ..phases.schedule import Schedule
from ..phases.scheduling import scheduled_pass
from ..phases.sequences import prompts_of
from ..phases.totals import ScheduledPass, resources_s
from ..phases.workload import MEDIA_COUNTS, Workload
from ..specs.engines import GENERIC, Engine
from ..values import Value
from .busiest import spans_ranks, waiting_ranks
from .trace import Trace
from .traffic import Traffic

Array = npt.NDArray[np.float64]


class TimeGrid(NamedTuple):
    """Values on a grid of one or two axes; the last axis is that of channels, which add up."""

    axes: tuple[Array, ...]
    values: Array

    def at(self, *places: Number) -> Array:
        """Return linearly interpolated values; beyond the grid, extrapolated from the last two points."""
        shape, channels = np.broadcast_shapes(*(np.shape(place) for place in places)), self.values.shape[-1]
        corners: list[tuple[Any, Array]] = [((), np.ones(shape))]
        for axis, place in zip(self.axes, places, strict=True):
            below = np.clip(np.searchsorted(axis, place, side="right") - 1, 0, len(axis) - 2)
            part = (place - axis[below]) / (axis[below + 1] - axis[below])
            low = [((*index, below), weight * (1.0 - part)) for index, weight in corners]
            high = [((*index, below + 1), weight * part) for index, weight in corners]
            corners = low + high
        found = np.zeros((*shape, channels))
        for index, weight in corners:
            found += self.values[index] * weight[..., None]
        return found


class Tables(NamedTuple):
    """Tables of one deployment for one of the three times.

    ``prompt`` is one prompt alone.  ``further`` is what a second one like it adds to the same pass: it launches no
    kernels, and its loop over the keys runs in parallel with the first one's.  ``experts`` is the part of ``linear``
    that attention replicas with shared experts compute together.  ``launch_s`` is the fixed time of the kernels of
    ``linear``, ``head`` and ``decode``.
    """

    linear: TimeGrid
    head: TimeGrid
    decode: TimeGrid
    prompt: TimeGrid
    further: TimeGrid
    experts: TimeGrid
    launch_s: float


def shortest_of(load: Workload | Traffic | Trace) -> Workload:
    """Return the shortest prompt of a load with its images and sound; those of a trace are text."""
    if isinstance(load, Workload):
        return load
    lengths = load.traffic if isinstance(load, Trace) else load
    return lengths.workload(float(np.min(lengths.prompt_tokens)), 1)


def encoding_notes(serve: Deployment, load: Workload | Traffic | Trace) -> tuple[str, ...]:
    """Return notes on the tokens per image and the windows of sound, if prompts have any."""
    shortest = shortest_of(load)
    return (*media_notes(serve, (prompts_of(serve, shortest),)),) if shortest.has_media else ()


@dataclass(frozen=True, eq=False)
class StepTimes(Value):
    """Step times of one replica of a deployment, or of one microbatch if it is a pipeline.

    Attributes
    ----------
    serve : Deployment
        Deployment whose steps are tabulated.
    time : str
        Which of the three times.
    engine : Engine
        Engine settings, including host times.
    tables : Tables
        Times of the operators.
    scale : float or array
        Factor on every time, for the ends of the estimate's interval; an array has one for each load of a closed form.
    encoding : array, optional
        Time that image and sound encoders add to the first pass of each prompt, by channel; by default none.
    """

    serve: Deployment
    time: str
    engine: Engine
    tables: Tables = field(compare=False, repr=False)
    scale: Number = 1.0
    encoding: Array | None = field(default=None, compare=False, repr=False)

    def of_load(self, load: Workload | Traffic | Trace) -> StepTimes:
        """Return the step times if every prompt has the images and sound of ``load``.

        Raises
        ------
        InvalidInput
            The deployment cannot encode them, or their number is an array.
        """
        load = shortest_of(load)
        if not load.has_media:
            return self
        if any(np.ndim(getattr(load, name)) for name in MEDIA_COUNTS):
            raise InvalidInput("under load all prompts have the same images and sound: a count of them is an array")
        if any(tower.outside for tower in self.serve.model.towers.values()):
            raise InvalidInput(
                f"images must be 0 under load: steps of {self.serve.model.name} depend on images beside the sequence;"
                " prefill, decode and generate count them"
            )
        prompt = prompts_of(self.serve, dataclasses.replace(load, batch=1))
        return dataclasses.replace(self, encoding=_encoding(self.serve, prompt, self.time))

    @property
    def lanes(self) -> int:
        """Number of schedulers, each with its share of the requests: replicas times microbatches."""
        parallel = self.serve.parallel
        return int(parallel.data) * int(parallel.pipeline)

    @cached_property
    def sharing(self) -> int:
        """Number of schedulers that share experts and step together (`roofline.serving.ranks`); 1 if each is alone.

        The floor and the roofline include no waiting.
        """
        return int(waiting_ranks(self.serve, self.engine)) if self.time == "estimate_s" else 1

    @cached_property
    def stages(self) -> int:
        """Number of microbatches of a pipeline, which do not overtake each other (`roofline.serving.pipeline`).

        The floor and the roofline include no waiting, and a static batch computes its prompts as all others do.
        """
        waits = self.time == "estimate_s" and self.engine.scheduler != "static"
        return int(self.serve.parallel.pipeline) if waits else 1

    @property
    def coupled(self) -> int:
        """Number of schedulers that wait for each other: ranks that share experts, or microbatches of a pipeline."""
        return self.sharing * self.stages

    def experts_s(self, tokens: Number) -> Array:
        """Return the experts' kernel time in a step, if each scheduler that shares them has ``tokens`` tokens."""
        found: Array = self.scale * self.combined(self.tables.experts.at(tokens))
        return found

    @cached_property
    def host(self) -> HostTimes:
        """Host times; zero for the floor and the roofline."""
        return HostTimes.of(self.engine) if self.time == "estimate_s" else NO_HOST

    @cached_property
    def shape(self) -> HostedModel:
        """Quantities that the host times depend on."""
        return HostedModel.of(self.serve, self.tables.launch_s)

    def handling_s(self, prompt_tokens: Number) -> Number:
        """Time from sending a request until its scheduler sees it, seconds; part of the estimate only."""
        if self.time != "estimate_s":
            return 0.0 * np.asarray(prompt_tokens, dtype=float)
        engine = self.engine
        return (engine.request_s or 0.0) + (engine.request_token_s or 0.0) * np.asarray(prompt_tokens, dtype=float)

    def combined(self, channels: Array) -> Array:
        """Combine channels into one time: the busiest resource for the floor, else the sum."""
        found: Array = channels.max(axis=-1) if self.time == "floor_s" else channels.sum(axis=-1)
        return found

    def decode_kernels_s(self, batch: Number, context_tokens: Number) -> Array:
        """Return the kernel time of a decode step."""
        tables = self.tables
        channels = tables.linear.at(batch) + tables.head.at(batch) + tables.decode.at(batch, context_tokens)
        return self.combined(channels)

    def decode_s(self, batch: Number, context_tokens: Number) -> Array:
        """Return the time of a decode step of ``batch`` sequences with ``context_tokens`` in the cache on average."""
        found: Array = self.scale * self.host.decode_s(self.decode_kernels_s(batch, context_tokens), self.shape)
        return found

    def prompt_kernels_s(
        self,
        batch: Number,
        context_tokens: Number,
        new_tokens: Number,
        past_tokens: Number,
        prompts: Number = 1.0,
        *,
        begun: Number = 1.0,
    ) -> Array:
        """Return the kernel time of a step of ``batch`` sequences and ``prompts`` prompts, ``begun`` of them new."""
        tables = self.tables
        decoding = np.minimum(batch, 1.0)[..., None] if np.ndim(batch) else min(batch, 1.0)
        every = np.asarray(prompts, dtype=float)
        channels = (
            tables.linear.at(batch + every * new_tokens)
            + tables.head.at(batch + every)
            + decoding * tables.decode.at(np.maximum(batch, 1.0), context_tokens)
            + tables.prompt.at(new_tokens, past_tokens)
            + (every - 1.0)[..., None] * tables.further.at(new_tokens, past_tokens)
        )
        if self.encoding is not None:
            channels = channels + np.asarray(every * begun)[..., None] * self.encoding
        return self.combined(channels)

    def mixed_s(
        self,
        batch: Number,
        context_tokens: Number,
        new_tokens: Number,
        past_tokens: Number,
        prompts: Number = 1.0,
        *,
        begun: Number = 1.0,
    ) -> Array:
        """Return the time of a step of decoding sequences and prompts of ``new_tokens`` after ``past_tokens``.

        If ``batch`` is 0, it is a pass over the prompts alone.  A share ``begun`` of the prompts has its images encoded
        in the step.
        """
        kernels_s = self.prompt_kernels_s(batch, context_tokens, new_tokens, past_tokens, prompts, begun=begun)
        tokens = batch + prompts * new_tokens
        found: Array = self.scale * self.host.prompts_s(kernels_s, self.shape, tokens)
        return found


def step_times(serve: Deployment, *, time: str = "estimate_s", engine: Engine | None = None) -> StepTimes:
    """Tabulate the step times of ``serve``.

    Parameters
    ----------
    serve : Deployment
        Deployment, without arrays.
    time : str
        ``floor_s``, ``roofline_s`` or ``estimate_s``.
    engine : Engine
        Engine settings; by default the deployment's own.

    Returns
    -------
    StepTimes
        Step times of one replica.

    Raises
    ------
    UnknownName
        ``time`` is not one of the three.
    InvalidInput
        ``serve`` is not a `Deployment`, or a field of it is an array; a scheduler has one deployment.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm"))
    >>> times = step_times(serve, time="roofline_s")
    >>> step = rl.decode(serve, rl.Workload(batch=64), context_tokens=2000)
    >>> bool(abs(times.decode_s(64, 2000) / step.roofline_s - 1) < 1e-3)
    True
    """
    check_deployment(serve, "deployment")
    if time not in TIMES:
        raise unknown("time", time, TIMES)
    if steps_apart(serve.model):
        raise InvalidInput(
            f"{serve.model.name} can't be simulated, since its decode steps and prompts run different kernels; apply "
            "gives its steady state"
        )
    refuse_encoders(serve.model, "requests under load")
    if serve.is_sweep:
        raise InvalidInput(f"steps are simulated for one deployment at a time: {next(iter(serve.arrays))} is an array")
    return StepTimes(serve, time, engine or serve.server, _tables(_without_engine(serve), time))


_TILES = np.concatenate([np.arange(16, 257, 16), np.arange(320, 2049, 64), np.arange(2176, 4097, 128)])
TOKENS = np.concatenate([np.arange(65), _TILES, _TILES + 1, np.round(2.0 ** np.arange(12, 20.01, 1 / 8))])
TOKENS = np.unique(TOKENS.astype(float))
"""Grid of tokens per step.  Matrix products run in tiles of rows, so their time jumps after multiples of a tile."""

BATCHES = np.unique(np.round(np.concatenate([np.arange(1, 9), 2.0 ** np.arange(3, 13.01, 1 / 4)])))
CONTEXTS = np.concatenate([[0.0], np.round(2.0 ** np.arange(4, 21.01, 1 / 2))])
NEW = np.unique(np.round(np.concatenate([[1.0], 2.0 ** np.arange(3, 20.01, 1 / 4)])))
PASTS = np.concatenate([[0.0, 32.0, 64.0], np.round(2.0 ** np.arange(7, 20.01, 1 / 2))])

SEVERAL = 4.0
"""Number of prompts in the pass used to compute what one more prompt adds."""


def _without_engine(serve: Deployment) -> Deployment:
    """Return the deployment without engine settings that leave kernels unchanged, so that tables are cached once."""
    return serve.replace(engine=serve.kernels and Engine(GENERIC, kernels=serve.kernels))


@lru_cache(maxsize=256)
def _tables(serve: Deployment, time: str) -> Tables:
    sorts = _sorts(serve)
    row = TOKENS.clip(1.0)  # past tokens: 1, as latent attention has only one way to compute without any
    linear = _part(serve, Segment(row, 1.0, 1.0), sorts, "linear")
    head = _part(serve, Segment(row, 1.0, 1.0), sorts, "head")
    batch, context = np.meshgrid(BATCHES, CONTEXTS, indexing="ij")
    decoding = _part(serve, Segment(batch, 1.0, context), sorts, "sequence")
    new, past = np.meshgrid(NEW, PASTS, indexing="ij")
    one = _part(serve, Segment(1.0, np.maximum(new, 2.0), past), sorts, "sequence")
    several = _part(serve, Segment(SEVERAL, np.maximum(new, 2.0), past), sorts, "sequence")
    names = _channel_names(serve, time)
    prompt = _channels(one, time, names, new.shape)
    further = (_channels(several, time, names, new.shape) - prompt) / (SEVERAL - 1.0)
    single = scheduled_pass(serve, ALONE, (Segment(1.0, 1.0, 1000.0),)).operators
    return Tables(
        linear=TimeGrid((TOKENS,), _channels(linear, time, names, TOKENS.shape)),
        head=TimeGrid((TOKENS,), _channels(head, time, names, TOKENS.shape)),
        decode=TimeGrid((BATCHES, CONTEXTS), _channels(decoding, time, names, batch.shape)),
        prompt=TimeGrid((NEW, PASTS), prompt),
        further=TimeGrid((NEW, PASTS), further),
        experts=TimeGrid((TOKENS,), _channels(_of_all_replicas(linear), time, names, TOKENS.shape)),
        launch_s=sum(launch_s(bound) for bound in single) if time == "estimate_s" else 0.0,
    )


def _part(serve: Deployment, segment: Segment, sorts: tuple[str, ...], sort: str) -> ScheduledPass:
    """Return the operators of one kind in a pass of ``segment`` on one accelerator."""
    whole = scheduled_pass(serve, ALONE, (segment,))
    ways = tuple(zip(whole.ways or whole.operators, sorts, strict=True))
    fixed = iter([own for way, own in ways if not way.operator.choice])
    found = []
    for bound in whole.operators:
        own = "sequence" if bound.operator.choice else next(fixed)
        if own == sort:
            found.append(bound)
    choices = tuple(way for way, own in ways if own == sort) if whole.ways and sort == "sequence" else ()
    return ScheduledPass(serve, ALONE, tuple(found), choices)


def _of_all_replicas(linear: ScheduledPass) -> ScheduledPass:
    """Return the operators that work on the tokens of all attention replicas that share experts."""
    chosen = (each for each in linear.operators if spans_ranks(each.operator))
    return ScheduledPass(linear.deployment, ALONE, tuple(chosen))


def _sorts(serve: Deployment) -> tuple[str, ...]:
    """Return what each operator of a pass depends on, found by varying one input at a time."""
    tokens, past = 64.0, 1000.0
    base = _works(serve, Segment(tokens, 1.0, past, 1.0))
    other_logits = _works(serve, Segment(tokens, 1.0, past, 2.0))
    other_past = _works(serve, Segment(tokens, 1.0, 30 * past, 1.0))  # beyond the end of windows
    one_sequence = _works(serve, Segment(1.0, tokens, past, tokens))
    sorts = []
    operators = serve.model.operators(serve.run(Segment(tokens, 1.0, past, 1.0)))
    for at, (operator, work) in enumerate(zip(operators, base, strict=True)):
        if operator.choice:
            sorts.append("sequence")  # the way to compute it depends on the context
        elif work != other_logits[at]:
            sorts.append("head")
        elif work != other_past[at] or work != one_sequence[at]:
            sorts.append("sequence")
        else:
            sorts.append("linear")
    return tuple(sorts)


def _works(serve: Deployment, segment: Segment) -> list[tuple[float, ...]]:
    """Return FLOPs, bytes and message of every operator, rounded so that the order of summation has no effect."""
    found = []
    for operator in serve.model.operators(serve.run(segment)):
        message = 0.0 if operator.message is None else operator.message.message_bytes
        figures = (operator.work.flops, operator.work.moved_bytes, operator.least.moved_bytes, message)
        found.append(tuple(float(f"{float(np.max(value)):.9g}") for value in figures))
    return found


def _encoding(serve: Deployment, prompt: Segment, time: str) -> Array:
    """Return the encoders' time for the images and sound of one prompt."""
    whole = scheduled_pass(serve, ALONE, (prompt,))
    towers = tuple(f"{part}." for part in serve.model.towers)
    chosen = tuple(each for each in whole.operators if each.operator.name.startswith(towers))
    return _channels(ScheduledPass(serve, ALONE, chosen), time, _channel_names(serve, time), ())


def _channel_names(serve: Deployment, time: str) -> tuple[str, ...]:
    """Return the channel names: resources for the floor, otherwise one channel."""
    if time != "floor_s":
        return ("time",)
    return tuple(resources_s(scheduled_pass(serve, ALONE, (Segment(1.0, 2.0, 0.0),))))


ALONE = Schedule((), 1.0, 1.0, 1.0, 1.0)
"""One pass of one microbatch."""


def _channels(part: ScheduledPass, time: str, names: tuple[str, ...], shape: tuple[int, ...]) -> Array:
    """Return the times of some operators by channel; channels are the last axis."""
    if not part.operators:
        return np.zeros((*shape, len(names)))
    if time == "floor_s":
        found = resources_s(part)
        values = [found.get(name, 0.0) for name in names]
    elif time == "roofline_s":
        values = [part.sums.roofline_s]
    else:
        values = [part.estimates.time_s]
    return np.stack([np.broadcast_to(value, shape) for value in values], axis=-1)


def launch_s(bound: Bound) -> float:
    """Return the fixed part of an operator's estimate over all its launches; 0 if fused into another kernel."""
    return float(np.max(bound.estimate.fixed_s))
