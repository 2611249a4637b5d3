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
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput, Number, unknown
from ..model.rewriting import steps_apart
from ..phases.deployment import Deployment, check_deployment
from ..phases.host import NO_HOST, HostedModel, HostTimes
from ..phases.media import media_notes
from ..phases.passes import TIMES
from ..phases.sequences import prompts_of
from ..phases.streams import Branches
from ..phases.workload import MEDIA_COUNTS, Workload
from ..specs.engines import Engine
from ..values import Value
from .busiest import waiting_ranks
from .sources import SOURCE_TOKENS, check_served, decoder_tokens, encoded_beside
from .step_tables import Tables, encoding_of, tables_of, without_engine
from .trace import Trace
from .traffic import Traffic

Array = npt.NDArray[np.float64]


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
        """Return the step times if every prompt has the images and sound of ``load``, or is a source of its length.

        Raises
        ------
        InvalidInput
            The deployment cannot encode them, or their number is an array.
        """
        if self.serve.model.encoder is not None:
            return self._of_sources(load)
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
        return dataclasses.replace(self, encoding=encoding_of(self.serve, prompt, self.time))

    def _of_sources(self, load: Workload | Traffic | Trace) -> StepTimes:
        """Return the step times of an encoder-decoder whose sources have the mean length of a load."""
        shortest = shortest_of(load)
        prompts_of(self.serve, shortest)  # raises if its encoder cannot process the prompts
        lengths = load.traffic if isinstance(load, Trace) else load
        mean = lengths.mean_prompt_tokens if isinstance(lengths, Traffic) else float(np.mean(lengths.prompt_tokens))
        return dataclasses.replace(self, tables=tables_of(without_engine(self.serve), self.time, mean))

    def decoder_tokens(self, new_tokens: Number) -> Number:
        """Tokens of a prompt that pass through the decoder; the others are encoded (`roofline.serving.sources`)."""
        return decoder_tokens(self.serve.model, new_tokens)

    @cached_property
    def encoded_tokens(self) -> float:
        """Tokens of the encoder that a prompt takes from the budget of a step beside its own (Whisper's window)."""
        return encoded_beside(self.serve.model)

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
        tokens = np.asarray(prompt_tokens, dtype=float)
        return self.engine.handling_s(tokens) if self.time == "estimate_s" else 0.0 * tokens

    def combined(self, channels: Array) -> Array:
        """Combine channels into one time: the busiest resource for the floor, else the sum."""
        found: Array = channels.max(axis=-1) if self.time == "floor_s" else channels.sum(axis=-1)
        return found

    def decode_kernels_s(self, batch: Number, context_tokens: Number) -> Array:
        """Return the kernel time of a decode step."""
        tables = self.tables
        channels = tables.linear.at(batch) + tables.head.at(batch) + tables.decode.at(batch, context_tokens)
        return self.combined(channels) - self.hidden_s(batch)

    def hidden_s(self, batch: Number) -> Number:
        """Return the time that shared experts spend beside the routed ones in a decode step."""
        streams = self.tables.streams
        return 0.0 if streams is None else Branches.of(streams.at(batch)).hidden_s(self.host)

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
            tables.linear.at(batch + every * self.decoder_tokens(new_tokens))
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
        tokens = batch + prompts * self.decoder_tokens(new_tokens)
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
    check_served(serve)
    if serve.is_sweep:
        raise InvalidInput(f"steps are simulated for one deployment at a time: {next(iter(serve.arrays))} is an array")
    engine = engine or serve.server
    if serve.model.encoder is not None:
        engine = engine.replace(chunked=False)  # a source is encoded in one pass
    return StepTimes(serve, time, engine, tables_of(without_engine(serve), time, SOURCE_TOKENS))
