"""Deployments and workloads described by the options of a command, one for each point of a list."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

from cyclopts import Parameter

from ..errors import InvalidInput, UnknownName, number, unknown
from ..footprint.allocation import Paging
from ..footprint.memory_use import Memory, memory
from ..model import Model
from ..operators.parallel import ONE, Parallel
from ..phases.deployment import Deployment
from ..phases.workload import MEDIA_COUNTS, Workload
from ..serving.slo import SLO
from ..specs.engine_settings import FIELDS as SETTINGS
from ..specs.engines import Engine
from ..specs.library import get_hardware, get_model, list_models
from . import options as opt
from .answers import Answers
from .output import print_note
from .quantities import quantities


def read_model(name: str) -> Model:
    """Return the model of a name or path; a directory needs no slash unless a model has the same name."""
    is_directory = os.path.isdir(name) and name not in list_models()
    if not is_directory:
        return get_model(name)
    try:
        return get_model(f"{name}/")
    except UnknownName:
        raise InvalidInput(f"{name} is a directory without a config.json or a GGUF file") from None


def read_parts(entries: Iterable[str]) -> dict[str, str]:
    """Part of a model -> its format, of entries such as ``lm_head=mxfp4``.

    Raises
    ------
    InvalidInput
        A part without a format.
    """
    found = {}
    for entry in entries:
        part, given, name = entry.partition("=")
        if not given or not name:
            raise InvalidInput(f"--part takes PART=FORMAT, such as lm_head=fp8: {entry!r}")
        found[part.strip()] = name.strip()
    return found


REPEATED = ("part", "engine_setting")
"""Options that may be repeated and whose values form one setting, not a list of points."""

Context = Annotated[
    Any,
    opt.option(
        "--context",
        "N",
        "Tokens of each sequence in the cache before the decode step.",
        parse=lambda text: quantities(text, "tokens"),
        group=opt.WORKLOAD,
        show_default="the prompt",
    ),
]
Part = Annotated[
    tuple[str, ...],
    opt.option(
        "--part",
        "PART=FORMAT",
        "Weight format of one part, as in lm_head=mxfp4; may be repeated.",
        parse=opt.words,
        group=opt.LAYOUT,
        show_default=False,
    ),
]


EngineSetting = Annotated[
    tuple[str, ...],
    opt.option(
        "--engine-setting",
        "NAME=VALUE",
        "Setting of the engine, as in max_sequences=256, eager=true or version=0.12.0; may be repeated.",
        parse=opt.words,
        group=opt.LAYOUT,
        show_default=False,
    ),
]


def read_settings(entries: Iterable[str]) -> dict[str, Any]:
    """Settings of an engine by name, of entries such as ``eager=true``.

    Raises
    ------
    InvalidInput
        A setting without a value.
    """
    found: dict[str, Any] = {}
    for entry in entries:
        name, given, text = (part.strip() for part in entry.partition("="))
        if not given or not text:
            raise InvalidInput(f"--engine-setting takes NAME=VALUE, such as eager=true: {entry!r}")
        field = name.replace("-", "_")
        if field not in ("version", *SETTINGS):
            raise unknown("engine setting", name, ("version", *SETTINGS))
        found[field] = text if field == "version" or SETTINGS[field].words else _setting(text)
    return found


def _setting(text: str) -> Any:
    """A switch or a number; anything else unchanged, for the engine to refuse."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return quantities(text)
    except InvalidInput:
        return text


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Placement:
    """What runs where, as typed; any value may be a tuple of several."""

    hardware: opt.Hardware
    formats: opt.PrecisionFields = field(default_factory=dict)
    part: Part = ()
    parallel: opt.ParallelFields = field(default_factory=dict)
    serving: opt.EngineFields = field(default_factory=dict)
    engine_setting: EngineSetting = ()

    def points(self) -> Iterator[tuple[dict[str, Any], Self]]:
        """Yield every combination of listed values: what varies by name, and the placement with single values."""
        varied = {key: values for key, values in self._typed() if isinstance(values, tuple) and key[0] not in REPEATED}
        for combination in itertools.product(*varied.values()):
            chosen = dict(zip(varied, combination, strict=True))
            yield {name or group: value for (group, name), value in chosen.items()}, self._single(chosen)

    def _typed(self) -> Iterator[tuple[tuple[str, str], Any]]:
        """Every value that was typed, with its field and, if that is a mapping, its name in it."""
        for item in dataclasses.fields(self):
            found = getattr(self, item.name)
            if isinstance(found, Mapping):
                yield from (((item.name, name), value) for name, value in found.items())
            else:
                yield (item.name, ""), found

    def _single(self, chosen: Mapping[tuple[str, str], Any]) -> Self:
        """The same, with one value for each option that varies."""
        changes: dict[str, Any] = {}
        for (group, name), value in chosen.items():
            if name:
                changes[group] = {**changes.get(group, getattr(self, group)), name: value}
            else:
                changes[group] = value
        return dataclasses.replace(self, **changes)

    def single(self) -> Self:
        """The same, for a command that takes no lists.

        Raises
        ------
        InvalidInput
            An option has several values.
        """
        points = list(self.points())
        if len(points) > 1:
            several = " and ".join(f"--{opt.flag_name(name)}" for name in points[0][0])
            raise InvalidInput(f"this command takes one value per option: {several} lists several")
        return points[0][1]

    def deployment(self, model: Model) -> Deployment:
        """The deployment of a placement with single values.

        Raises
        ------
        InvalidInput
            A value is invalid, or two options contradict each other.
        UnknownName
            A name is unknown.
        """
        found = get_hardware(self.hardware)
        parallel = layout_of(self.parallel, found.count)
        serving = dict(self.serving)
        if self.engine_setting:
            if not serving.get("engine"):
                raise InvalidInput("--engine-setting needs --engine")
            serving["engine"] = Engine(serving["engine"], **read_settings(self.engine_setting))
        serve = Deployment(model, found.accelerator, parallel=parallel, **serving)
        changes = dict(self.formats)
        if self.part:
            changes["exceptions"] = {**serve.precision.exceptions, **read_parts(self.part)}
        if changes:
            return serve.replace(precision=dataclasses.replace(serve.precision, **changes))
        return serve


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Target(Placement):
    """A deployment under a workload, as typed; any value may be a tuple of several."""

    load: opt.WorkloadFields = field(default_factory=dict)
    context: Context = None

    def answers(self, model: Model) -> Answers:
        """The answers for a target with single values."""
        serve = self.deployment(model)
        context = None if self.context is None else number("context_tokens", self.context, whole=True)
        return Answers(serve, Workload(**self.load), context)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ModelOrTarget(Target):
    """A target whose hardware may be left out."""

    hardware: Annotated[Any, opt.hardware(required=False)] = None


USUAL_LENGTH = 8192
"""Default length of a sequence."""

Length = Annotated[
    Any,
    opt.option(
        ("--length", "--context"),
        "N",
        "Tokens of each sequence, prompt plus output.",
        parse=lambda text: quantities(text, "tokens"),
        group=opt.WORKLOAD,
        show_default="8,192, or the model's longest context",
    ),
]
Sequences = Annotated[
    Any,
    opt.option("--batch", "N", "Sequences that run together.", parse=quantities, group=opt.WORKLOAD, show_default="1"),
]


HostShare = Annotated[
    Any,
    opt.option(
        "--weights-host",
        "SHARE",
        "Share of the weights kept in host memory: of the routed experts, or of all layers if there are none.",
        parse=quantities,
        group=opt.LAYOUT,
        show_default="0",
    ),
]
HostPart = Annotated[
    str,
    opt.option(
        "--host-part",
        "PART",
        "Which weights --weights-host applies to: experts (the routed ones) or layers (all).",
        group=opt.LAYOUT,
        show_default="experts if there are any",
    ),
]
HOST_PARTS = ("experts", "layers")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Fit(Placement):
    """A deployment, and the sequences whose KV cache has to fit with its weights."""

    length: Length = None
    load: opt.PartsOfRequests = field(default_factory=dict)
    batch: Sequences = 1
    weights_host: HostShare = 0.0
    host_part: HostPart = ""

    def memory(self, model: Model) -> Memory:
        """Memory use of a placement with single values."""
        length = min(USUAL_LENGTH, model.max_context_tokens or USUAL_LENGTH) if self.length is None else self.length
        media = {name: value for name, value in self.load.items() if name in MEDIA_COUNTS}
        if len(media) < len(self.load):
            if self.length is not None:
                raise InvalidInput("--length already contains prompt and output; drop --prompt and --output")
            length = Workload(**self.load).sequence_tokens
        tokens = number("length", length, least=2, whole=True)
        part = self.host_part or ("experts" if model.has_experts else "layers")
        if part not in HOST_PARTS:
            raise unknown("part for host memory", part, HOST_PARTS)
        paging = Paging(weights_host_share=self.weights_host, experts_alone=part == "experts")
        return memory(self.deployment(model), Workload(tokens - 1, 1, self.batch, **media), paging=paging)


LONGEST_USUAL_S = {"ttft_s": 60.0, "tpot_s": 2.0, "gap_s": 60.0, "total_s": 3600.0}
"""Targets above these were probably typed in milliseconds without the unit."""


def read_slo(given: Mapping[str, Any]) -> SLO:
    """Return the targets of the options, and print a note about an implausible one."""
    given = dict(given)
    together = given.pop("slo", {})
    if twice := sorted(together.keys() & given.keys()):
        raise InvalidInput(f"--slo already has a target for {opt.PLANNED_SLO_FLAGS[twice[0]].name}")
    slo = SLO(**together, **given)
    for name, usual in LONGEST_USUAL_S.items():
        level = getattr(slo, name)
        if level is not None and level > usual:
            figure = name.removesuffix("_s").upper() if name in ("ttft_s", "tpot_s") else name.removesuffix("_s")
            print_note(f"the {figure} target of {level:,g} s is unusually long; write {level:g}ms for milliseconds")
    return slo


def tensor_share(given: Mapping[str, Any], count: int) -> int:
    """Degree of tensor parallelism that makes ``count`` accelerators of a layout; 0 if there is none.

    Examples
    --------
    >>> tensor_share({"expert": 8}, 8), tensor_share({"pipeline": 2}, 8), tensor_share({"pipeline": 3}, 8)
    (8, 4, 0)
    """
    others = 1
    for name in ("pipeline", "data", "context"):
        degree = given.get(name, 1)
        if not isinstance(degree, int) or degree < 1:
            return 0
        others *= degree
    return 0 if count % others else count // others


def layout_of(given: Mapping[str, Any], count: int) -> Parallel:
    """Return the layout of the options; without ``--tp``, tensor parallelism fills the accelerators of ``--hardware``:
    8 of them with ``--ep 8`` are TP 8 and EP 8, with ``--pp 2`` TP 4 and PP 2.

    Raises
    ------
    InvalidInput
        The number given with the hardware differs from that of the layout.
    """
    if not given:
        return Parallel(tensor=count) if count > 1 else ONE
    if "tensor" not in given and (share := tensor_share(given, count)):
        given = {"tensor": share, **given}
    layout = Parallel(**given)
    if count > 1 and layout.accelerators != count:
        raise InvalidInput(f"--hardware asks for {count} accelerators, but the layout has {layout.accelerators:g}")
    return layout
