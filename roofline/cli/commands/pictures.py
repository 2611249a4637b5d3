"""The commands ``roofline plot KIND``, one function for each kind of plot."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter

from ...advisor import phase_map as map_of
from ...analysis.comparison import compare
from ...analysis.memory_hierarchy import memory_hierarchy
from ...analysis.ridges import ridge_table
from ...analysis.sensitivities import sensitivity as sensitivity_of
from ...capacity import fleet as size_fleet
from ...errors import InvalidInput, unknown
from ...measured import Measurement, headroom_of_file, read
from ...phases.passes import decode, prefill
from ...phases.workload import Workload
from ...serving.methods import CLOSED_FORM
from ...serving.under_load import serve as serve_requests
from ...specs.library import list_accelerators
from ...techniques import apply, technique_table
from .. import options as opt
from ..metric_names import metric_name
from ..picture_options import MeasuredFiles, Picture
from ..quantities import as_tuple, quantities, quantity
from ..target import Target, read_model
from ..technique_options import Chosen
from .capacity_plans import Rate as FleetRate
from .capacity_plans import Search
from .deployment_changes import Change
from .questions import PassName
from .requests import Concurrency, Rate

BATCHES = 2.0 ** np.arange(9)
"""Default batches of a curve."""

CONTEXTS = 2.0 ** np.arange(7, 18)


def roofline(model: opt.ModelName, /, target: Target, picture: Picture, *, measured: MeasuredFiles = ()) -> None:
    """Draw prefill and decode under the roofs of an accelerator."""
    from ...plot import roofline as draw

    picture.check()
    loaded = read_model(model)
    points = [point.answers(loaded) for _, point in target.points()]
    names = {found.serve.accelerator.name for found in points}
    if len(names) > 1:
        given = ", ".join(sorted(names))
        raise InvalidInput(f"plot roofline takes one accelerator, not {given}; `plot rooflines` compares several")
    runs = [run for path in measured for run in headroom_of_file(path, points[0].serve, load=points[0].load)]
    passes = [found for point in points for found in (point.prefill, point.decode)]
    picture.draw(draw, points[0].serve.accelerator, *passes, *runs)


AcceleratorNames = Annotated[
    tuple[str, ...],
    Parameter(name="HW", help="Accelerators: names or paths of specs.", completer=opt.completed_by(list_accelerators)),
]
MathFormat = Annotated[str, opt.option("--math", "FORMAT", "Format of the math.", group=opt.OTHER)]


def rooflines(*accelerators: AcceleratorNames, picture: Picture, math: MathFormat = "bf16") -> None:
    """Draw the roofs of several accelerators."""
    from ...plot import rooflines as draw

    picture.check()
    picture.draw(draw, *(name for given in accelerators for name in _words(given)), math=math)


def _words(given: Any) -> tuple[str, ...]:
    """Names separated by commas or given one by one."""
    return tuple(word for part in as_tuple(given) for word in str(part).split(",") if word)


def time_breakdown(model: opt.ModelName, /, target: Target, picture: Picture) -> None:
    """Draw where the time of prefill and decode goes."""
    from ...plot import time_breakdown as draw

    picture.check()
    loaded = read_model(model)
    points = [point.answers(loaded) for _, point in target.points()]
    picture.draw(draw, *(found for point in points for found in (point.prefill, point.decode)))


def memory_stack(model: opt.ModelName, /, target: Target, picture: Picture) -> None:
    """Draw memory use, one bar for each value of the lists."""
    from ...plot import memory_stack as draw

    picture.check()
    loaded = read_model(model)
    picture.draw(draw, *(point.answers(loaded).memory for _, point in target.points()))


CurveColumn = Annotated[
    str,
    opt.option(
        "--column",
        "NAME",
        "For a pass, time or tokens-per-s; with --rate or --concurrency, ttft, tpot, total, queue, tokens-per-s ...",
        parse=lambda text: metric_name(text.replace("-", "_")),
        group=opt.OTHER,
        show_default="time, tpot",
    ),
]


def curves(
    model: opt.ModelName,
    /,
    target: Target,
    picture: Picture,
    *,
    phase: PassName = "decode",
    column: CurveColumn | None = None,
    concurrency: Concurrency = None,
    rate: Rate = None,
    measured: MeasuredFiles = (),
) -> None:
    """Draw time or throughput over the option that lists several numbers; over batch if none does."""
    from ...plot import curves as draw

    picture.check()
    swept = _with_arrays(target)
    runs = [run for path in measured for run in read(path) if isinstance(run, Measurement)] or None
    if concurrency is not None or rate is not None:
        deployment = swept.deployment(read_model(model))
        asked = {"concurrency": _array(concurrency), "requests_per_s": _array(rate)}
        given = {name: value for name, value in asked.items() if value is not None}
        found = serve_requests(deployment, Workload(**swept.load), method=CLOSED_FORM, **given)
        return picture.draw(draw, found, column=None if column is None else f"{column}", measured=runs)
    if phase not in ("prefill", "decode"):
        raise unknown("pass", phase, ("prefill", "decode"))
    several = [name for name, value in (*swept.load.items(), ("context", swept.context)) if np.ndim(value)]
    if len(several) > 1:
        listed = " and ".join(f"--{opt.flag_name(name)}" for name in several)
        raise InvalidInput(f"plot curves takes one option with several numbers, not {listed}")
    if not several:
        swept = dataclasses.replace(swept, load={**swept.load, "batch": BATCHES})
    deployment, load = swept.deployment(read_model(model)), Workload(**swept.load)
    one = prefill(deployment, load) if phase == "prefill" else decode(deployment, load, context_tokens=swept.context)
    return picture.draw(draw, one, column=column, measured=runs)


def _array(value: Any) -> Any:
    """Several numbers as an array."""
    return np.asarray(value, float) if isinstance(value, tuple) else value


def _with_arrays(target: Target) -> Target:
    """The target, with lists of workload values as arrays and single values elsewhere."""
    load = {name: _array(value) for name, value in target.load.items()}
    single = dataclasses.replace(target, load={}, context=None).single()
    return dataclasses.replace(single, load=load, context=_array(target.context))


def throughput(model: opt.ModelName, /, target: Target, picture: Picture, *, time: opt.Time = opt.DEFAULT_TIME) -> None:
    """Draw throughput against speed as the batch grows, one line per deployment."""
    from ...plot import throughput as draw

    picture.check()
    loaded = read_model(model)
    batch = _array(target.load.get("batch", tuple(BATCHES)))
    others = dataclasses.replace(target, load={**target.load, "batch": 1})
    steps = []
    for _, point in others.points():
        load = Workload(**{**point.load, "batch": batch})
        steps.append(decode(point.deployment(loaded), load, context_tokens=point.context))
    picture.draw(draw, *steps, time=time)


Models = Annotated[str, Parameter(name="MODEL", help="Models: names or paths of specs, directories or GGUF files.")]
Lengths = Annotated[
    Any,
    opt.option(
        "--context",
        "N,N,...",
        "Context lengths, in tokens.",
        parse=lambda text: quantities(text, "tokens"),
        group=opt.WORKLOAD,
        show_default="128 to 1M in powers of two",
    ),
]
BatchSize = Annotated[
    Any, opt.option("--batch", "N", "Sequences that run together.", parse=quantity, group=opt.WORKLOAD)
]
CacheFormat = Annotated[str, opt.option("--kv", "FORMAT", "Format that the KV cache is stored in.", group=opt.LAYOUT)]


def kv(
    *models: Models,
    picture: Picture,
    context: Lengths = None,
    batch: BatchSize = 1,
    cache_format: CacheFormat = "bf16",
) -> None:
    """Draw the KV cache of models over the context."""
    from ...plot import kv as draw

    picture.check()
    lengths = None if context is None else np.ravel(np.asarray(context, float))
    loaded = [read_model(name) for given in models for name in _words(given)]
    picture.draw(draw, *loaded, context_tokens=lengths, batch=batch, cache_format=cache_format)


Tpot = Annotated[
    Any,
    opt.option(
        "--tpot", "TIME", "Target for the time per output token, drawn as a line.", parse=opt.seconds, group=opt.TARGETS
    ),
]


def heatmap(
    model: opt.ModelName,
    /,
    target: Target,
    picture: Picture,
    *,
    tpot: Tpot = None,
    time: opt.Time = opt.DEFAULT_TIME,
) -> None:
    """Draw the time of a decode step over batch and context."""
    from ...plot import heatmap as draw

    picture.check()
    swept = _with_arrays(target)
    batch, context = swept.load.get("batch", 2.0 ** np.arange(11)), CONTEXTS if swept.context is None else swept.context
    picture.draw(draw, swept.deployment(read_model(model)), batch=batch, context_tokens=context, tpot_s=tpot, time=time)


def waterfall(
    model: opt.ModelName,
    /,
    target: Target,
    picture: Picture,
    change: Change | None = None,
    chosen: Chosen | None = None,
    *,
    phase: Annotated[
        str, opt.option("--phase", "NAME", "What changes: prefill, decode or memory.", group=opt.OTHER)
    ] = "decode",
    time: opt.Time = opt.DEFAULT_TIME,
) -> None:
    """Draw how a change leads from one time to another, part by part."""
    from ...plot import waterfall as draw

    picture.check()
    before = target.single().answers(read_model(model))
    techniques = (chosen or Chosen()).techniques()
    if techniques:
        return picture.draw(draw, apply(before.serve, before.load, techniques, time=time))
    if change is None or not change.given:
        raise InvalidInput("plot waterfall needs a change: --to-weights, --to-hardware, --to-batch ... or --technique")
    if phase not in ("prefill", "decode", "memory"):
        raise unknown("answer", phase, ("prefill", "decode", "memory"))
    after = change.of(target).single().answers(before.serve.model)
    found = compare(getattr(before, phase), getattr(after, phase))
    return picture.draw(draw, found, column=None if phase == "memory" else time)


def techniques(model: opt.ModelName, /, target: Target, picture: Picture, *, time: opt.Time = opt.DEFAULT_TIME) -> None:
    """Draw the effect of every technique on a deployment."""
    from ...plot import techniques as draw

    picture.check()
    asked = target.single().answers(read_model(model))
    picture.draw(draw, technique_table(asked.serve, asked.load, time=time))


def tornado(
    model: opt.ModelName,
    /,
    target: Target,
    picture: Picture,
    *,
    phase: PassName = "decode",
    time: opt.Time = opt.DEFAULT_TIME,
) -> None:
    """Draw what the time of a pass depends on."""
    from ...plot import tornado as draw

    picture.check()
    asked = target.single().answers(read_model(model))
    picture.draw(draw, sensitivity_of(asked.pass_named(phase), time=time))


def pareto(model: opt.ModelName, /, search: Search, picture: Picture, chosen: Chosen | None = None) -> None:
    """Draw throughput against speed for every candidate of a plan."""
    from ...plot import pareto as draw

    picture.check()
    picture.draw(draw, search.plan(model, chosen))


def phase_map(model: opt.ModelName, /, target: Target, picture: Picture, *, time: opt.Time = opt.DEFAULT_TIME) -> None:
    """Draw whether prefill or decode takes most of the time, over prompt and output lengths."""
    from ...plot import phase_map as draw

    picture.check()
    asked = target.single().answers(read_model(model))
    picture.draw(draw, map_of(asked.serve, batch=int(asked.load.batch), time=time))


Api = Annotated[
    Any,
    opt.option(
        "--api",
        "USD",
        "Price of an API in USD per million output tokens, prompts included, drawn as a line.",
        parse=opt.usd,
        group=opt.OTHER,
        show_default=False,
    ),
]


def cost(
    model: opt.ModelName,
    /,
    search: Search,
    picture: Picture,
    chosen: Chosen | None = None,
    *,
    rate: FleetRate = None,
    api: Api = None,
) -> None:
    """Draw the cost of tokens over the utilization of a fleet."""
    from ...plot import cost as draw

    picture.check()
    if rate is None and search.traffic is None:
        raise InvalidInput("plot cost needs a request rate: --rate N, or --traffic FILE with arrival times")
    picture.draw(draw, size_fleet(search.plan(model, chosen, rate)), api=api)


Rows = Annotated[Any, Parameter(name="M", help="Rows of the product (tokens).", converter=opt.parsed_by(quantity))]
Inner = Annotated[Any, Parameter(name="K", help="Inner dimension.", converter=opt.parsed_by(quantity))]
Columns = Annotated[Any, Parameter(name="N", help="Columns.", converter=opt.parsed_by(quantity))]


def hierarchy(rows: Rows, inner: Inner, columns: Columns, /, *, hardware: opt.Hardware, picture: Picture) -> None:
    """Draw a matrix product at every level of the memory hierarchy."""
    from ...plot import hierarchy as draw

    picture.check()
    picture.draw(draw, memory_hierarchy(rows, inner, columns, hardware))


YearColumn = Annotated[
    str,
    opt.option("--column", "NAME", "memory_bytes, memory_bytes_per_s or bf16_ridge_flops_per_byte.", group=opt.OTHER),
]
Vendor = Annotated[
    str | None, opt.option("--vendor", "NAME", "Show only accelerators of this vendor.", group=opt.OTHER)
]


def by_year(*, picture: Picture, column: YearColumn = "memory_bytes_per_s", vendor: Vendor = None) -> None:
    """Draw a property of all accelerators by year."""
    from ...plot import by_year as draw

    picture.check()
    picture.draw(draw, ridge_table(vendor=vendor), column)
