"""The options that commands share, as annotated types: what each means, its unit and its default."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..operators.precision import Precision


def numeral(text: Any) -> Any:
    """The number that ``text`` writes, or the text itself, which the library then refuses by the field's name."""
    try:
        value = float(text)
    except ValueError:
        return text
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _count(flag: str, text: str, **more: Any) -> Any:
    return typer.Option(flag, parser=numeral, metavar="N", help=text, **more)


def _format(flag: str, text: str, **more: Any) -> Any:
    return typer.Option(flag, metavar="FORMAT", help=text, **more)


ModelName = Annotated[
    str, typer.Argument(metavar="MODEL", help="Name of a model, or path of a spec, a config.json or its folder.")
]
Hardware = Annotated[str, typer.Option("--hardware", metavar="HW", help="Accelerator: a name, or path of a spec.")]
HardwareIfAny = Annotated[
    str | None,
    typer.Option(
        "--hardware", metavar="HW", help="Accelerator: a name, or path of a spec.", show_default="none: the count alone"
    ),
]
Batch = Annotated[Any, _count("--batch", "Sequences that run together.")]
Prompt = Annotated[Any, _count("--prompt", "Length of each prompt, tokens.")]
Output = Annotated[Any, _count("--output", "Tokens generated for each prompt.")]
Context = Annotated[
    Any,
    _count("--context", "Tokens of each sequence in the cache before the decode step.", show_default="the prompt"),
]
Weights = Annotated[
    str | None, _format("--weights", "Stored format of the linear layers.", show_default=Precision.weights)
]
Activations = Annotated[
    str | None, _format("--activations", "Format fed to the linear layers.", show_default=Precision.activations)
]
KV = Annotated[str | None, _format("--kv", "Stored format of the KV cache.", show_default=Precision.kv)]
Tensor = Annotated[Any, _count("--tp", "Accelerators that every matrix divides over (tensor parallel).")]
Pipeline = Annotated[Any, _count("--pp", "Stages that the layers divide into (pipeline parallel).")]
Expert = Annotated[Any, _count("--ep", "Accelerators that the routed experts divide over (expert parallel).")]
Data = Annotated[Any, _count("--dp", "Replicas of attention and dense layers (data parallel).")]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine", metavar="NAME", help="Engine whose kernels are estimated: vllm, sglang, trtllm.", show_default="any"
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON in base units (bytes, s, FLOPs) instead of text.")]

ToHardware = Annotated[str | None, typer.Option("--to-hardware", metavar="HW", help="Accelerator after the change.")]
ToBatch = Annotated[Any, _count("--to-batch", "Sequences that run together after the change.")]
ToWeights = Annotated[str | None, _format("--to-weights", "Format of the linear layers after the change.")]
ToActivations = Annotated[str | None, _format("--to-activations", "Format fed to them after the change.")]
ToKV = Annotated[str | None, _format("--to-kv", "Format of the KV cache after the change.")]
PhaseName = Annotated[
    str | None,
    typer.Option(
        "--phase",
        metavar="NAME",
        help="Derive all of prefill, decode, memory, parameters or crossovers.",
        show_default="the totals",
    ),
]
OperatorName = Annotated[
    str | None,
    typer.Option("--operator", metavar="NAME", help="Derive this operator alone, as in q_proj or attention."),
]
PlotFile = Annotated[
    Path, typer.Option("-o", "--file", metavar="FILE", help="Where to draw: a name that ends in .png, .svg or .pdf.")
]

TrafficFile = Annotated[
    Path | None,
    typer.Option(
        "--traffic",
        metavar="FILE",
        help="Requests by length: a CSV, JSON or JSON-lines log with prompt and output tokens.",
        show_default="all of --prompt and --output",
    ),
]
Loads = Annotated[str, typer.Option("--loads", metavar="N,N,...", help="Batches for low, medium and high load.")]
Ttft = Annotated[Any, _count("--ttft", "Promised time to first token, seconds.")]
Tpot = Annotated[Any, _count("--tpot", "Promised time per output token, seconds.")]
Metric = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="What techniques are ranked by: ttft_s, tpot_s, total_s, gap_s or tokens_per_s.",
        show_default="the promise that breaks first, or total_s",
    ),
]
UsdPerHour = Annotated[Any, _count("--usd-per-hour", "Price of one accelerator, for the cost of a token.")]
MapFile = Annotated[
    Path | None,
    typer.Option("-o", "--file", metavar="FILE", help="Draw the verdict over prompt and output lengths there, too."),
]

Vendor = Annotated[str | None, typer.Option("--vendor", metavar="NAME", help="Only this vendor's.")]
MinimumMemory = Annotated[
    Any, _count("--minimum-memory-gb", "Only those with at least so much memory, GB (1e9 bytes).")
]
HasFormat = Annotated[
    str | None, typer.Option("--has-format", metavar="FORMAT", help="Only those with units for it, as in fp8 or int4.")
]
SortBy = Annotated[
    str,
    typer.Option(
        "--sort",
        metavar="COLUMN",
        help="Order by name, vendor, year, memory_bytes, memory_bytes_per_s, or a ridge point as in"
        " fp8_ridge_flops_per_byte.",
    ),
]
Descending = Annotated[bool, typer.Option("--descending", help="The largest first.")]
SpecPath = Annotated[Path, typer.Argument(metavar="PATH", help="A spec file, or a folder of them.")]

Timings = Annotated[Path, typer.Argument(metavar="PATH", help="Table of timings, or a folder of them (CSV, CSV.gz).")]
Parameters = Annotated[
    Path, typer.Option("-o", "--folder", metavar="FOLDER", help="Where to write a file for each accelerator.")
]
TimingsSource = Annotated[
    str, typer.Option("--source", metavar="TEXT", help="What was timed where and when, for the files to say.")
]

Machines = Annotated[
    list[str],
    typer.Option("--hardware", metavar="HW,HW,...", help="Accelerators: names, or paths of specs; may be repeated."),
]
Precisions = Annotated[
    str | None,
    typer.Option(
        "--precisions",
        metavar="FORMAT,...",
        help="Formats of weights and, where they can be, activations.",
        show_default="the checkpoint's",
    ),
]
Gpus = Annotated[str, typer.Option("--gpus", metavar="N,N,...", help="Accelerators of one deployment.")]
Prices = Annotated[
    str | None,
    typer.Option("--prices", metavar="HW=USD,...", help="Price of one accelerator an hour; HW alone: as listed."),
]
Time = Annotated[
    str, typer.Option("--time", metavar="NAME", help="What is promised: floor_s, roofline_s or estimate_s.")
]
Csv = Annotated[bool, typer.Option("--csv", help="Print every row as CSV in base units instead of text.")]
ParetoFile = Annotated[
    Path | None,
    typer.Option("-o", "--file", metavar="FILE", help="Draw tokens/s a user against tokens/s a GPU there, too."),
]
Rate = Annotated[Any, _count("--rate", "Requests that come in, a second.")]
Utilization = Annotated[Any, _count("--utilization", "Load of a deployment, of what it can do; below 1 for bursts.")]
