"""Commands and Python code that reproduce the numbers of the page."""

from __future__ import annotations

import json
import shlex

from ..phases.workload import Workload
from .state import OPTIONS, State

PLACEMENT = ("hardware", "weights", "activations", "kv", "tp", "pp", "ep", "dp", "cp", "engine")
LENGTHS = ("prompt", "output")
PARALLEL = {"tp": "tensor", "pp": "pipeline", "ep": "expert", "dp": "data", "cp": "context"}
FORMATS = ("weights", "activations", "kv")


def command_lines(state: State, load: Workload, *, served: bool = True) -> str:
    """Return the commands of a state: one for the passes, one for the requests.

    Parameters
    ----------
    state : State
        What the controls ask for.
    load : Workload
        The load with the batch that runs.
    served : bool
        Whether requests can be served.

    Returns
    -------
    str
        Shell commands; a pasted configuration is assumed to be in ``config.json``.
    """
    given = state.given
    model = "config.json" if "config" in given else given["model"]
    placed = [model, *_options(state, PLACEMENT), *_options(state, LENGTHS)]
    batch = f"{load.batch:g}" if load.batch < 1e15 else repr(load.batch)
    users = _options(state, ("rate",)) or ["--concurrency", batch]
    lines = [["roofline", "analyze", *placed, "--batch", batch]]
    if served:
        lines.append(["roofline", "serve", *placed, *users])
    return "\n".join(shlex.join(line) for line in lines)


def _options(state: State, names: tuple[str, ...]) -> list[str]:
    return [word for name in names if name in state.given for word in (OPTIONS[name], state.given[name])]


def python_code(state: State, load: Workload, *, served: bool = True) -> str:
    """Return the Python code of a state.

    Parameters
    ----------
    state : State
        What the controls ask for.
    load : Workload
        The load with the batch that runs.
    served : bool
        Whether requests can be served.

    Returns
    -------
    str
        A script that prints the summaries of the page.
    """
    lengths = f"prompt_tokens={load.prompt_tokens!r}, output_tokens={load.output_tokens!r}"
    rate = state.requests_per_s
    asked = f"concurrency={load.batch!r}" if rate is None else f"requests_per_s={rate!r}"
    accelerator = json.dumps(state.serve.accelerator.name)
    results = f"{'users, ' if served else ''}rl.decode(serve, load), rl.prefill(serve, load)"
    lines = [
        *_imports(state),
        "",
        *_model_lines(state),
        f"serve = rl.Deployment(model, {accelerator}{_layout(state)}{_engine(state)})",
        *_precision_lines(state),
        f"load = rl.Workload({lengths}, batch={load.batch!r})",
        *([f"users = rl.serve(serve, load, {asked})"] if served else []),
        "",
        f"for result in (rl.memory(serve, load), {results}):",
        "    print(result.summary())",
    ]
    return "\n".join(lines)


def _imports(state: State) -> list[str]:
    extra = ["import json"] if "config" in state.given else []
    if any(name in state.given for name in FORMATS):
        extra.insert(0, "import dataclasses")
    return [*extra, *([""] if extra else []), "import roofline as rl"]


def _model_lines(state: State) -> list[str]:
    if "config" not in state.given:
        return [f"model = rl.get_model({json.dumps(state.given['model'])})"]
    text = json.dumps(json.loads(state.given["config"]))
    return [f"model = rl.get_model(json.loads({text!r}))"]


def _layout(state: State) -> str:
    degrees = [
        f"{field}={getattr(state.serve.parallel, field)!r}" for name, field in PARALLEL.items() if name in state.given
    ]
    return f", parallel=rl.Parallel({', '.join(degrees)})" if degrees else ""


def _engine(state: State) -> str:
    if "engine" in state.given:
        return f", engine={json.dumps(state.given['engine'])}"
    return ""


def _precision_lines(state: State) -> list[str]:
    formats = [f"{name}={json.dumps(state.given[name])}" for name in FORMATS if name in state.given]
    if not formats:
        return []
    return [f"serve = serve.replace(precision=dataclasses.replace(serve.precision, {', '.join(formats)}))"]
