"""Options that several commands share, most of them generated from the fields of dataclasses.

A name, a default and a help text are written once: as a field of a dataclass and in the ``Attributes`` section of its
docstring.  `fields_of` turns chosen fields into options of `cyclopts`; a command receives those that were given as a
mapping and hands it to the dataclass, which knows the defaults and checks the values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypedDict, get_origin

from cyclopts import Parameter

from ..errors import UnknownName, unknown
from ..formats import FORMATS
from ..operators.parallel import Parallel
from ..operators.precision import Precision
from ..phases.deployment import Deployment
from ..phases.passes import TIMES
from ..phases.workload import Workload
from ..report.docstrings import field_descriptions
from ..serving.slo import HIGH_END, SLO
from ..specs.electricity import Power
from ..specs.engines import engine_named, list_engines
from ..specs.library import list_accelerators, list_models
from .help_pages import GROUPS
from .metric_names import slo_targets
from .quantities import as_tuple, listed, quantities, quantity

DEFAULT_TIME = "estimate_s"
"""The time that every command shows, unless ``--time`` names another."""


@dataclass(frozen=True)
class Flag:
    """The option of a field.

    Attributes
    ----------
    name : str
        The option, with its dashes.
    metavar : str
        Placeholder of the value in the help.
    parse : callable
        Converts the typed text to the field's value.
    default : str or None
        Default that the help shows instead of the field's own; None shows no default.
    """

    name: str
    metavar: str
    parse: Callable[[str], Any]
    default: str | None = ""


def fields_of(
    kind: type, flags: Mapping[str, Flag], *, group: str, others: Mapping[str, tuple[Flag, str]] | None = None
) -> Any:
    """Return the fields of a dataclass as options, to annotate a parameter that takes a mapping.

    Parameters
    ----------
    kind : type
        The dataclass.
    flags : mapping of str to Flag
        Fields that become options.
    group : str
        Heading in the help.
    others : mapping of str to tuple, optional
        Further options that no field has, with their help.
    """
    texts = field_descriptions(kind)
    defaults = {item.name: item.default for item in dataclasses.fields(kind)}
    hints = {
        name: Annotated[
            Any, _parameter(flag, texts[name], _shown(defaults[name]) if flag.default == "" else flag.default)
        ]
        for name, flag in flags.items()
    }
    for name, (flag, text) in (others or {}).items():
        hints[name] = Annotated[Any, _parameter(flag, text, None)]
    return Annotated[TypedDict(kind.__name__, hints, total=False), Parameter(name="*", group=GROUPS[group])]  # type: ignore[operator]


def completed_by(known: Callable[[], Iterable[str]]) -> Callable[[Any], list[str]]:
    """A shell completer that offers the known names."""
    return lambda _: sorted(known())


COMPLETED = {"FORMAT": completed_by(lambda: FORMATS), "ENGINE": completed_by(list_engines)}
"""Placeholder in the help -> names that the shell completes."""


def _parameter(flag: Flag, text: str, default: Any) -> Parameter:
    shown = _shown(default) if flag.default == "" else flag.default
    return Parameter(
        name=flag.name,
        negative=(),
        metavar=flag.metavar,
        help=plain_text(text),
        converter=parsed_by(flag.parse),
        completer=COMPLETED.get(flag.metavar),
        show_default=shown or False,
    )


def plain_text(description: str) -> str:
    """A description without the backquotes of reStructuredText."""
    return description.replace("`", "")


def _shown(default: Any) -> str:
    if default is None or default is dataclasses.MISSING:
        return ""
    if isinstance(default, float):
        return f"{default:g}"
    return f"{default:,}" if isinstance(default, int) else str(default)


def parsed_by(parse: Callable[[str], Any]) -> Callable[[Any, Any], Any]:
    """``parse`` as a `cyclopts` converter; an option that may be repeated gives one tuple of all its values."""

    def convert(kind: Any, tokens: Any) -> Any:
        values = [parse(token.value) for token in tokens]
        if get_origin(kind) is not tuple:
            return values[0]
        return tuple(item for value in values for item in as_tuple(value))

    return convert


def words(text: str) -> Any:
    """A word, or a tuple of several words separated by commas."""
    parts = listed(text)
    return tuple(parts) if len(parts) > 1 else text


def engines(text: str) -> Any:
    """One or several engines by canonical name; unknown names are kept, so that the library refuses them."""
    found = words(text)
    if isinstance(found, tuple):
        return tuple(map(_engine, found))
    return _engine(found)


def _engine(name: str) -> str:
    try:
        return engine_named(name)
    except UnknownName:
        return name


def parts(text: str) -> Any:
    """Parts separated by commas, as one value: a tuple would be a list of points."""
    return frozenset(listed(text))


def seconds(text: str) -> Any:
    """A time in seconds, or several."""
    return quantities(text, "s")


def watts(text: str) -> Any:
    """A power in watts."""
    return quantity(text, "watts")


def usd(text: str) -> Any:
    """A price in USD."""
    return quantity(text, "usd_per_hour")


def rates(text: str) -> Any:
    """Requests per second, typed in other units or a list of them."""
    return quantities(text, "requests_per_s")


def rate(text: str) -> Any:
    """Requests per second, typed in other units."""
    return quantity(text, "requests_per_s")


def lower(text: str) -> str:
    """A word in lower case."""
    return text.strip().lower()


def time_name(text: str) -> str:
    """One of the three times with its unit: ``floor`` is ``floor_s``.

    Raises
    ------
    UnknownName
        There is no such time.
    """
    name = _with_seconds(text)
    if name not in TIMES:
        raise unknown("time", text, [time.removesuffix("_s") for time in TIMES])
    return name


def _with_seconds(text: str) -> str:
    name = text.strip().lower().replace("-", "_").replace(" ", "_")
    return name if name.endswith("_s") else f"{name}_s"


def planned_time_name(text: str) -> str:
    """The same, or the upper end of the estimate's interval: ``estimate_high``.

    Raises
    ------
    UnknownName
        There is no such time.
    """
    name = _with_seconds(text)
    return name if name == HIGH_END else time_name(text)


def option(
    name: str | tuple[str, ...], metavar: str, text: str, *, parse: Callable[[str], Any] = str, group: str, **more: Any
) -> Parameter:
    """An option that is not generated from a field."""
    return Parameter(
        name=name,
        negative=(),
        metavar=metavar,
        help=text,
        converter=parsed_by(parse),
        group=GROUPS[group],
        **more,
    )


def switch(name: str, text: str) -> Parameter:
    """An option without a value."""
    return Parameter(name=name, help=text, negative=(), show_default=False, group=GROUPS["Output"])


WORKLOAD, LAYOUT, TARGETS, CHANGE = "Workload", "Formats and layout", "SLO targets", "Change"
TECHNIQUES, POWER, OTHER, OUTPUT = "Techniques", "Power", "Options", "Output"

LENGTH_FLAGS = {
    "prompt_tokens": Flag("--prompt", "N", lambda text: quantities(text, "tokens")),
    "output_tokens": Flag("--output", "N", lambda text: quantities(text, "tokens")),
}
REQUEST_FLAGS = {
    **LENGTH_FLAGS,
    "cached_tokens": Flag("--cached", "N", lambda text: quantities(text, "tokens")),
    "images": Flag("--images", "N", quantities),
    "image_tokens": Flag("--image-tokens", "N", lambda text: quantities(text, "tokens"), "the encoder's usual number"),
    "audio_s": Flag("--audio", "TIME", seconds),
}
"""Options for the contents of one request; commands set the number of requests by other options."""

WORKLOAD_FLAGS = {"batch": Flag("--batch", "N", quantities), **REQUEST_FLAGS}
PRECISION_FLAGS = {
    name: Flag(f"--{name}", "FORMAT", words, f"the checkpoint's, else {getattr(Precision, name)}")
    for name in ("weights", "activations", "kv")
}
PARALLEL_FLAGS = {
    "tensor": Flag("--tp", "N", quantities),
    "pipeline": Flag("--pp", "N", quantities),
    "expert": Flag("--ep", "N", quantities),
    "data": Flag("--dp", "N", quantities),
    "context": Flag("--cp", "N", quantities),
    "decode_context": Flag("--dcp", "N", quantities),
    "moe_tensor": Flag("--moe-tp", "N", quantities, "the tensor-parallel group over --ep"),
    "expert_nodes": Flag("--expert-nodes", "N", quantities, "every copy of a token crosses the network"),
}
KV_FLAGS = {"kv": PRECISION_FLAGS["kv"]}
ENGINE_FLAGS = {
    "engine": Flag("--engine", "ENGINE", engines, "the median of all"),
    "attention": Flag("--attention", "NAME", words),
    "memory_fraction": Flag("--memory-fraction", "SHARE", quantities, "the engine's, else 0.9"),
    "leave_out": Flag("--leave-out", "PART", parts, None),
}
POWER_FLAGS = {"power_limit_watts": Flag("--power-limit", "W", lambda text: quantities(text, "watts"), None)}
METER_FLAGS = {
    "limit_w": Flag("--power-limit", "W", watts),
    "idle_w": Flag("--idle-watts", "W", watts),
    "host_w": Flag("--host-watts", "W", watts),
    "wall": Flag("--wall", "FACTOR", quantity),
    "pue": Flag("--pue", "FACTOR", quantity),
    "usd_per_kwh": Flag("--usd-per-kwh", "USD", usd),
    "gco2_per_kwh": Flag("--gco2-per-kwh", "G", quantity),
}
SLO_FLAGS = {
    "ttft_s": Flag("--ttft", "TIME", seconds),
    "tpot_s": Flag("--tpot", "TIME", seconds),
    "total_s": Flag("--total", "TIME", seconds),
    "gap_s": Flag("--gap", "TIME", seconds),
    "tokens_per_s": Flag("--tokens-per-s", "N", quantities),
}
ALL_TARGETS = {
    "slo": (
        Flag("--slo", "METRIC=TARGET,...", slo_targets, None),
        "All targets in one list, as in ttft=500ms,tpot=20ms.",
    )
}
PLANNED_SLO_FLAGS = SLO_FLAGS | {"statistic": Flag("--statistic", "NAME", lower)}


def to_flags(flags: Mapping[str, Flag]) -> dict[str, Flag]:
    """The same options for the state after a change: ``--batch`` becomes ``--to-batch``, without a default."""
    return {
        name: dataclasses.replace(flag, name=flag.name.replace("--", "--to-"), default=None)
        for name, flag in flags.items()
    }


def without_defaults(flags: Mapping[str, Flag]) -> dict[str, Flag]:
    """The same options, for a command that does without them."""
    return {name: dataclasses.replace(flag, default=None) for name, flag in flags.items()}


def flag_name(field: str) -> str:
    """The option of a field, without dashes."""
    every = WORKLOAD_FLAGS | PRECISION_FLAGS | PARALLEL_FLAGS | ENGINE_FLAGS | POWER_FLAGS
    # ``context`` is also a degree of parallelism, whose option is ``--cp``; the tokens of a decode step have no field.
    if field not in every or field == "context":
        return field
    return every[field].name.removeprefix("--")


OTHER_FLAGS = {
    "context_tokens": "--context",
    "requests_per_s": "--rate",
    "accelerators": "--gpus",
    "batches": "--loads",
    "limit_w": "--power-limit",
    "weights_host_share": "--weights-host",
}
"""Fields whose options are not generated from a dataclass."""


def flags_of(field: str) -> list[str]:
    """Options that may have set a field, before or after a change."""
    every = WORKLOAD_FLAGS | PRECISION_FLAGS | PARALLEL_FLAGS | ENGINE_FLAGS | PLANNED_SLO_FLAGS | POWER_FLAGS
    named = [every[field].name] if field in every else []
    other = [OTHER_FLAGS[field]] if field in OTHER_FLAGS else []
    flags = [*named, *other, f"--{field.replace('_', '-')}"]
    return [*flags, *(f"--to-{flag.removeprefix('--')}" for flag in flags)]


def shown_value(value: Any) -> str:
    """A value of an option as people read it."""
    return f"{value:,}" if isinstance(value, int | float) else str(value)


Given = Mapping[str, Any]
"""Fields that were given on the command line."""

if TYPE_CHECKING:
    WorkloadFields: TypeAlias = Given
    RequestFields: TypeAlias = Given
    PartsOfRequests: TypeAlias = Given
    PrecisionFields: TypeAlias = Given
    ParallelFields: TypeAlias = Given
    EngineFields: TypeAlias = Given
    SLOFields: TypeAlias = Given
    PlannedSLOFields: TypeAlias = Given
    KVFields: TypeAlias = Given
    KernelFields: TypeAlias = Given
    WorkloadChanges: TypeAlias = Given
    PrecisionChanges: TypeAlias = Given
    ParallelChanges: TypeAlias = Given
    EngineChanges: TypeAlias = Given
    PowerChanges: TypeAlias = Given
    MeterFields: TypeAlias = Given
else:
    WorkloadFields = fields_of(Workload, WORKLOAD_FLAGS, group=WORKLOAD)
    RequestFields = fields_of(Workload, REQUEST_FLAGS, group=WORKLOAD)
    PartsOfRequests = fields_of(Workload, REQUEST_FLAGS | without_defaults(LENGTH_FLAGS), group=WORKLOAD)
    PrecisionFields = fields_of(Precision, PRECISION_FLAGS, group=LAYOUT)
    ParallelFields = fields_of(Parallel, PARALLEL_FLAGS, group=LAYOUT)
    EngineFields = fields_of(Deployment, ENGINE_FLAGS, group=LAYOUT)
    KVFields = fields_of(Precision, KV_FLAGS, group=LAYOUT)
    KernelFields = fields_of(Deployment, {"engine": ENGINE_FLAGS["engine"]}, group=LAYOUT)
    SLOFields = fields_of(SLO, SLO_FLAGS, group=TARGETS, others=ALL_TARGETS)
    PlannedSLOFields = fields_of(SLO, PLANNED_SLO_FLAGS, group=TARGETS, others=ALL_TARGETS)
    WorkloadChanges = fields_of(Workload, to_flags(WORKLOAD_FLAGS), group=CHANGE)
    PrecisionChanges = fields_of(Precision, to_flags(PRECISION_FLAGS), group=CHANGE)
    ParallelChanges = fields_of(Parallel, to_flags(PARALLEL_FLAGS), group=CHANGE)
    EngineChanges = fields_of(Deployment, to_flags(ENGINE_FLAGS), group=CHANGE)
    PowerChanges = fields_of(Deployment, POWER_FLAGS, group=CHANGE)
    MeterFields = fields_of(Power, METER_FLAGS, group=POWER)

ModelName = Annotated[
    str,
    Parameter(
        name="MODEL",
        help="Name of a model, or path of a spec, a config.json, its directory, or a GGUF file.",
        completer=completed_by(list_models),
    ),
]


def hardware(flag: str = "--hardware", *, tp: str = "--tp", group: str = LAYOUT, required: bool = True) -> Parameter:
    """The option that names an accelerator, before or after a change."""
    text = f"Accelerator: a name or the path of a spec; 8xh100 or h100:8 also sets {tp}."
    shown = None if required or group == CHANGE else "none; only the parameters are shown"
    completer = completed_by(list_accelerators)
    return option(flag, "HW", text, parse=words, group=group, show_default=shown or False, completer=completer)


def time_option(text: str, **more: Any) -> Parameter:
    """The option that names one of the three times."""
    names = completed_by(lambda: [time.removesuffix("_s") for time in TIMES])
    return option("--time", "NAME", text, parse=time_name, group=OUTPUT, completer=names, **more)


Hardware = Annotated[Any, hardware()]
Time = Annotated[str, time_option("Which time is shown: floor, roofline or estimate.")]
Burstiness = Annotated[
    Any,
    option(
        ("--burstiness", "--burst"),
        "X",
        "Squared coefficient of variation of the gaps between arrivals; 1 is Poisson, 0 evenly spaced.",
        parse=quantity,
        group=WORKLOAD,
    ),
]
Json = Annotated[bool, switch("--json", "Print JSON in base units (bytes, s, FLOPs).")]
Full = Annotated[bool, switch("--full", "Print every number and note.")]
Csv = Annotated[bool, switch("--csv", "Print every row as CSV in base units.")]
PICTURE = Parameter(
    name=("--file", "-o"),
    metavar="FILE",
    help="File to write the plot to: .png, .svg or .pdf.",
    converter=parsed_by(Path),
    group=GROUPS[OUTPUT],
)
