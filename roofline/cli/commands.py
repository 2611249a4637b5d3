"""The commands: each reads its options, asks the library, and prints."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .. import __version__
from ..errors import RooflineError, number
from ..phases.workload import Workload
from ..units import to_base
from . import options as opt
from .case import Case, Count, read_case, takes_case, takes_case_or_count
from .planned import takes_plan
from .techniques import applied, takes_techniques


class Commands(TyperGroup):
    """Commands that answer bad input with one line on stderr and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command and flush, so that a closed pipe is noticed here, where it is dealt with quietly."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except RooflineError as error:
            typer.echo(f"roofline: {error}", err=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        return result


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
listing = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
app.add_typer(listing, name="list", help="Show the models or the hardware known by name.")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"roofline {__version__}")
        raise typer.Exit


def _print_json(data: Any) -> None:
    print(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))


@app.callback()
def program(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """LLM inference from first principles: how fast, limited by what, on how many accelerators, and why."""


@app.command()
@takes_case
def analyze(case: Case, as_json: opt.Json = False) -> None:
    """Show how fast a model runs on an accelerator, and why.

    Memory, prefill, one decode step and a whole generation: the floor that no measurement breaks, the roofline, the
    estimate, and what limits each.
    """
    if as_json:
        return _print_json(case.to_dict())
    from . import views

    return views.show(*views.analysis(case))


@app.command("what-if")
@takes_case
@takes_techniques
def what_if(
    case: Case,
    *,
    chosen: Any,
    to_weights: opt.ToWeights = None,
    to_activations: opt.ToActivations = None,
    to_kv: opt.ToKV = None,
    to_hardware: opt.ToHardware = None,
    to_batch: opt.ToBatch = None,
    as_json: opt.Json = False,
) -> None:
    """Compare a deployment before and after a change.

    Other formats, other hardware, another batch, or several at once: prefill, decode and memory side by side.  Or
    techniques, with their parameters: what they do to each phase, to memory and to throughput.
    """
    if chosen:
        effect = applied(
            case, chosen, other=bool(to_hardware or to_batch), weights=to_weights, activations=to_activations, kv=to_kv
        )
        if as_json:
            return _print_json(case.asked() | effect.to_dict())
        from . import advice

        return advice.show(*advice.effect(case, effect))
    change = case.changed(
        weights=to_weights, activations=to_activations, kv=to_kv, hardware=to_hardware, batch=to_batch
    )
    if as_json:
        return _print_json(change.to_dict())
    from . import views

    return views.show(*views.change(change))


@app.command()
def advise(
    *,
    model: opt.ModelName,
    hardware: opt.Hardware,
    traffic: opt.TrafficFile = None,
    prompt: opt.Prompt = Workload.prompt_tokens,
    output: opt.Output = Workload.output_tokens,
    loads: opt.Loads = "1,8,64",
    ttft: opt.Ttft = None,
    tpot: opt.Tpot = None,
    metric: opt.Metric = None,
    usd_per_hour: opt.UsdPerHour = None,
    weights: opt.Weights = None,
    activations: opt.Activations = None,
    kv: opt.KV = None,
    file: opt.MapFile = None,
    as_json: opt.Json = False,
) -> None:
    """Say which phase to work on first, and with what.

    For a mix of requests at low, medium and high load: the share of prefill and decode, the promise that breaks first,
    every technique ranked by its gain, and where the answer flips.
    """
    from . import advice

    case = read_case(
        model=model, hardware=hardware, prompt=prompt, output=output, weights=weights, activations=activations, kv=kv
    )
    found = advice.advised(
        case, traffic, loads, {"ttft_s": ttft, "tpot_s": tpot}, metric=metric, usd_per_hour=usd_per_hour
    )
    if file is not None:
        from .picture import checked, save_phase_map

        save_phase_map(checked(file), found.phase_map)
    if as_json:
        return _print_json(case.asked() | found.to_dict())
    return advice.show(*advice.advice(found))


@app.command()
@takes_case_or_count
def explain(
    case: Case | Count, phase: opt.PhaseName = None, operator: opt.OperatorName = None, as_json: opt.Json = False
) -> None:
    """Derive the numbers so that you can follow by hand.

    For each number its formula, the numbers put in, the value and the source: the totals first; every operator with
    --phase or --operator.  Without --hardware, the parameters of the model.
    """
    steps = case.steps(phase=phase, operator=operator)
    if as_json:
        return _print_json({name: [step.to_dict() for step in found] for name, found in steps.items()})
    from . import views

    return views.show(*views.derivation(case, steps))


@app.command()
@takes_case
def plot(case: Case, file: opt.PlotFile) -> None:
    """Draw prefill and decode under the roofline."""
    from .picture import checked, save_roofline

    save_roofline(checked(file), case.serve.accelerator, case.prefill, case.decode)
    typer.echo(f"wrote {file}")


@app.command()
@takes_plan
def plan(found: Any, file: opt.ParetoFile = None, *, as_csv: opt.Csv = False, as_json: opt.Json = False) -> None:
    """Search accelerators, their number, layouts, formats and batches for the cheapest that holds what was promised.

    Every candidate with TTFT, TPOT, tokens/s and cost, or with the reason why it won't do.
    """
    from . import planning

    if file is not None:
        planning.draw(found, file)
    if as_json:
        return _print_json(planning.plan_dict(found))
    if as_csv:
        return planning.print_csv(found)
    from . import screen

    return screen.show(*planning.plan_view(found))


@app.command()
@takes_plan
def fleet(
    found: Any, *, rate: opt.Rate, utilization: opt.Utilization = 1, as_csv: opt.Csv = False, as_json: opt.Json = False
) -> None:
    """Say how many deployments and accelerators a rate of requests takes, and what they cost an hour.

    At the estimate, and at the floor: the fewest that any software could do with.
    """
    from ..capacity import fleet as size
    from . import planning, screen

    need = size(found, requests_per_s=rate, utilization=utilization)
    if as_json:
        return _print_json(planning.fleet_dict(need))
    if as_csv:
        return planning.print_csv(need)
    return screen.show(*planning.fleet_view(need))


@listing.command("models")
def list_models(as_json: opt.Json = False) -> None:
    """Show every model: parameters, KV bytes a token, context, layers."""
    from . import catalog

    rows = catalog.models()
    if as_json:
        return _print_json(rows)
    from . import views

    return views.show(*views.models(rows))


@listing.command("hardware")
def list_hardware(
    *,
    vendor: opt.Vendor = None,
    minimum_memory_gb: opt.MinimumMemory = 0,
    has_format: opt.HasFormat = None,
    sort: opt.SortBy = "name",
    descending: opt.Descending = False,
    as_json: opt.Json = False,
) -> None:
    """Show every accelerator: memory, bandwidth, peaks, ridge points."""
    from . import catalog

    least = to_base(float(number("--minimum-memory-gb", minimum_memory_gb)), "GB", "bytes", field="--minimum-memory-gb")
    rows = catalog.hardware(
        vendor=vendor, minimum_memory_bytes=least, has_format=has_format, sort_by=sort, descending=descending
    )
    if as_json:
        return _print_json(rows)
    from . import views

    return views.show(*views.hardware(rows))


@app.command()
def check(path: opt.SpecPath, as_json: opt.Json = False) -> None:
    """Look for faults in a spec file, or in a folder of them.

    One line a fault; exit 0 if there is none, else 2.
    """
    from ..specs.validation import check_specs

    faults = check_specs(path)
    if as_json:
        _print_json(faults)
    else:
        typer.echo("\n".join(faults) or f"{path}: no fault")
    if faults:
        raise typer.Exit(2)


@app.command()
def calibrate(
    path: opt.Timings,
    folder: opt.Parameters = Path("efficiency_specs"),
    source: opt.TimingsSource = "timings of my own",
) -> None:
    """Fit what kernels reach of an accelerator's peaks to timings of your own.

    The files are found where ROOFLINE_SPECS names the folder above them.
    """
    from .fitting import fitted

    typer.echo(fitted(path, folder, source))
