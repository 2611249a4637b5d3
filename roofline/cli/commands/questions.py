"""Commands about changes to an answer: ``solve``, ``sensitivity``, ``techniques`` and the like."""

from __future__ import annotations

from typing import Annotated, Any

from ...analysis.sensitivities import Sensitivity
from ...analysis.sensitivities import sensitivity as sensitivity_of
from ...analysis.solver import SOLVED, WITHOUT_TARGET
from ...analysis.solver import solve as solve_for
from ...errors import InvalidInput, unknown
from ...report import Report
from ...serving.metrics import METRICS
from ...serving.scenario import Scenario
from ...techniques import Technique, scenario_with, technique_table
from ...techniques import mode_switch as switch_of
from ...techniques import visible as visible_of
from ...techniques.effect import AS_GIVEN
from ...units import humanize, quantity_of
from .. import options as opt
from ..answers import Answers
from ..metric_names import METRIC_NAMES, metric_name, slo_metric
from ..output import print_json, print_text
from ..quantities import quantity
from ..target import Target, read_model
from ..technique_options import Chosen
from ..text import block, bullets, column_table, paragraph, table
from .deployments import lead, title

Find = Annotated[
    str,
    opt.option(
        "--find",
        "NAME",
        "Quantity to solve for: memory_bytes_per_s, memory_bytes, dense_flops_per_s, link_bytes_per_s, batch,"
        " prompt_tokens, output_tokens or context_tokens; with --metric fits also weight_bits or parameters.",
        parse=lambda text: text.replace("-", "_"),
        group=opt.OTHER,
    ),
]
SolvedMetric = Annotated[
    str | None,
    opt.option(
        "--metric",
        "NAME",
        "Metric that has to reach the target: ttft, tpot, total, throughput, max_batch; fits and ridge need none.",
        parse=metric_name,
        group=opt.OTHER,
        show_default="the time of a decode step",
    ),
]
TargetValue = Annotated[
    str | None, opt.option("--target", "X", "Target for the metric, as in 30ms, 80GB or 1k.", group=opt.OTHER)
]


def solve(
    model: opt.ModelName,
    /,
    target: Target,
    chosen: Chosen | None = None,
    *,
    find: Find,
    metric: SolvedMetric = None,
    level: TargetValue = None,
    time: opt.Time = opt.DEFAULT_TIME,
    as_json: opt.Json = False,
) -> None:
    """Solve for the value at which a metric reaches a target."""
    asked = target.single().answers(read_model(model))
    if metric is not None and metric not in (*SOLVED, *WITHOUT_TARGET):
        raise unknown("metric", metric, (*METRIC_NAMES, *SOLVED, *WITHOUT_TARGET))
    if level is None and metric not in WITHOUT_TARGET:
        raise InvalidInput("solve needs a target for the metric, as in --metric tpot --target 30ms")
    given: dict[str, Any] = {} if metric is None else {"metric": metric}
    if level is not None:
        given["target"] = quantity(level, quantity_of(metric or "step_s") or "count")
    techniques = (chosen or Chosen()).in_use()
    if techniques:
        found = solve_for(_scenario(asked, techniques), find=find, time=time, **given)
    else:
        found = solve_for(asked.serve, asked.load, find=find, time=time, **given)
    if as_json:
        return print_json(asked.asked() | {"time": time, **_names(techniques)} | found.to_dict())
    rows = [(found.find, humanize(found.find, found.value))] if found.possible else []
    if found.metric not in ("fits", "ridge"):
        words = METRICS[found.metric].words if found.metric in METRICS else found.metric
        rows.append((f"{words} there", humanize(found.metric, found.reached)))
    rows.append(("method", found.method))
    return print_text(*_headed(asked, techniques, found, time), table(rows))


def _headed(asked: Answers, techniques: tuple[Technique, ...], found: Report, time: str) -> tuple[str, ...]:
    """The answer in a sentence, what it is about, and the techniques in use."""
    names = ", ".join(f"{item.label} ({item.assumes})" if item.assumes else item.label for item in techniques)
    in_use = (paragraph(f"Techniques in use: {names}"),) if names else ()
    return lead(asked.serve.model, found.summary()), f"\n{title(asked, time=time)}", *in_use


def _scenario(asked: Answers, techniques: tuple[Technique, ...]) -> Scenario:
    """The deployment and its requests with techniques in use.

    Raises
    ------
    InvalidInput
        The context of a single step is given, which says nothing about whole requests.
    """
    if asked.context_tokens is not None:
        raise InvalidInput("techniques and metrics are about whole requests; use --prompt instead of --context")
    return scenario_with(asked.serve, asked.load, techniques)


def _names(techniques: tuple[Technique, ...]) -> dict[str, Any]:
    """The techniques in use, for JSON; nothing without any."""
    if techniques:
        return {"techniques": [item.label for item in techniques]}
    return {}


RequestMetric = Annotated[
    str | None,
    opt.option(
        "--metric",
        "NAME",
        "Metric of requests in steady state instead of the time of a pass: ttft, tpot, total, gap or throughput.",
        parse=slo_metric,
        group=opt.OTHER,
        show_default="the time of the pass in --phase",
    ),
]
PassName = Annotated[str, opt.option("--phase", "NAME", "Which pass: prefill or decode.", group=opt.OTHER)]


def sensitivity(
    model: opt.ModelName,
    /,
    target: Target,
    chosen: Chosen | None = None,
    *,
    phase: PassName = "decode",
    metric: RequestMetric = None,
    time: opt.Time = opt.DEFAULT_TIME,
    as_json: opt.Json = False,
) -> None:
    """Show what the time of a pass or a metric of requests depends on, strongest first."""
    asked = target.single().answers(read_model(model))
    techniques = (chosen or Chosen()).in_use()
    if techniques and metric is None:
        raise InvalidInput("sensitivity to techniques in use needs a metric of requests, such as --metric tpot")
    if metric is None:
        found, of = sensitivity_of(asked.pass_named(phase), time=time), {"phase": phase}
    else:
        found, of = sensitivity_of(_scenario(asked, techniques), metric=metric, time=time), {"metric": metric}
    if as_json:
        return print_json(asked.asked() | {**of, "time": time, **_names(techniques), "elasticity": found.to_dict()})
    return print_text(*_headed(asked, techniques, found, time), _elasticities(found))


def _elasticities(found: Sensitivity) -> str:
    rows = [(name.replace("_", " "), f"{float(getattr(found, name)):+.2f}") for name in found.ranked]
    what = METRICS[found.metric].words if found.metric else "time"
    return table(rows, head=("input", f"change in {what} for +1 %"), right=1)


def techniques(
    model: opt.ModelName,
    /,
    target: Target,
    *,
    time: opt.Time = opt.DEFAULT_TIME,
    full: opt.Full = False,
    as_json: opt.Json = False,
) -> None:
    """Show the effect of every technique on a deployment, next to gains measured by others."""
    asked = target.single().answers(read_model(model))
    found = technique_table(asked.serve, asked.load, time=time)
    if as_json:
        return print_json(asked.asked() | found.to_dict())
    rows = sorted(found.to_dict()["rows"], key=lambda row: -(row["throughput_gain"] or 0.0))
    had = [row for row in rows if row["baseline"] != AS_GIVEN]
    measured = [
        (row["technique"], row["measured"], row["assumes"]) for row in rows if row["measured"] or row["assumes"]
    ]
    sources = [f"{row['technique']}: {row['sources']}" for row in rows if row["sources"]] if full else []
    refused = [f"{name}: {reason}" for name, reason in found.refused]
    return print_text(
        lead(asked.serve.model, found.summary()),
        f"\n{title(asked, time=time)}",
        _gains(rows, "helps", "phase"),
        block(
            "Gains over the baseline that is named, where the deployment is not the baseline",
            _gains(had, "over", "baseline", of="baseline_"),
        ),
        block(MEASURED_ELSEWHERE, table(measured, head=("technique", "measured", "assumed here"))),
        block("Measured by", bullets(sources)),
        block("Not applicable here", bullets(refused)),
        "" if full else "\n" + paragraph("--full shows the sources of the measured gains."),
    )


MEASURED_ELSEWHERE = "Gains measured on any deployment (number of measurements), and what the prediction assumes"


def _gains(rows: list[dict[str, Any]], second: str, column: str, *, of: str = "") -> str:
    """Gains of the techniques by phase, and one more column."""
    gains = [f"{of}{name}" for name in ("prefill_speedup", "decode_speedup", "throughput_gain", "batch_gain")]
    cells = []
    for row in rows:
        factors = ["–" if row[name] is None else f"{row[name]:.2f}x" for name in gains]
        cells.append((row["technique"], row[column], *factors))
    return table(cells, head=("technique", second, "prefill", "decode", "tokens/s", "batch"), right=4)


Gain = Annotated[
    Any,
    opt.option("--prefill-gain", "SHARE", "Share by which prefill becomes shorter.", parse=quantity, group=opt.OTHER),
]
Cost = Annotated[
    Any,
    opt.option(
        "--decode-cost", "SHARE", "Share by which each decode step becomes longer.", parse=quantity, group=opt.OTHER
    ),
]


def mode_switch(
    model: opt.ModelName,
    /,
    target: Target,
    *,
    prefill_gain: Gain = 0.2,
    decode_cost: Cost = 0.05,
    time: opt.Time = opt.DEFAULT_TIME,
    as_json: opt.Json = False,
) -> None:
    """Find the output length beyond which a faster prefill with slower decode loses time."""
    asked = target.single().answers(read_model(model))
    found = switch_of(asked.serve, asked.load, prefill_gain=prefill_gain, decode_cost=decode_cost, time=time)
    _show(asked, found, time=time, as_json=as_json)


Buffer = Annotated[
    Any, opt.option("--buffer", "N", "Number of tokens displayed at a time.", parse=quantity, group=opt.OTHER)
]


def visible(
    model: opt.ModelName,
    /,
    target: Target,
    *,
    buffer: Buffer = 4,
    time: opt.Time = opt.DEFAULT_TIME,
    as_json: opt.Json = False,
) -> None:
    """Show the delay a reader sees if tokens are displayed several at a time."""
    asked = target.single().answers(read_model(model))
    _show(asked, visible_of(asked.serve, asked.load, buffer=buffer, time=time), time=time, as_json=as_json)


def _show(asked: Answers, found: Report, *, time: str, as_json: bool) -> None:
    """Print a small result: its summary, then its numbers."""
    if as_json:
        print_json(asked.asked() | {"time": time} | found.to_dict())
    else:
        print_text(lead(asked.serve.model, found.summary()), f"\n{title(asked, time=time)}", column_table(found))
