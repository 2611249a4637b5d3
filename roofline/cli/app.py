"""The program: its commands, their help and examples, and what becomes of errors.

A command's module is imported when the command runs, so that ``roofline --help`` answers without NumPy.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence

from cyclopts import App
from cyclopts.exceptions import (
    CycloptsError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from .. import __version__
from .help_pages import GROUPS, PlainHelp
from .plot_kinds import OF_SERVERS, PLOT_HELP, PLOTS, with_kind

COMMANDS = {
    "analyze": (
        "deployments:analyze",
        "Show how fast a model runs on an accelerator, and what limits it.",
        """
Whether it fits, prefill, one decode step and a whole batch: the floor that no measurement beats, the roofline, the
estimate with its interval, and what limits each. A list such as --batch 1,8,64 gives one row for each value.
""",
        (
            "llama-3.1-70b --hardware 2xh100-sxm --batch 16 --prompt 4k",
            "llama-3.1-8b --hardware h100-sxm,mi300x --batch 1,8,64",
            "deepseek-v3 --hardware 8xh200-sxm --time floor --json",
        ),
    ),
    "fit": (
        "memory_fit:fit",
        "Check whether a model fits, and how many tokens the KV cache holds.",
        """
Prints yes or no, the number of tokens and sequences that the KV cache holds and, if the model does not fit, the
smallest change that makes it fit. With --engine, memory is divided as that engine divides it.
""",
        (
            "qwen3.6-27b --hardware h100-sxm --engine vllm --length 32k",
            "llama-3.1-70b --hardware 2xh100-sxm --batch 64",
        ),
    ),
    "what-if": (
        "deployment_changes:what_if",
        "Compare a deployment before and after a change.",
        """
Changes formats, hardware, layout, engine or batch, or several at once, and shows prefill, decode and memory side by
side. With --technique, shows the effect of a technique on each phase, memory and throughput.
""",
        (
            "llama-3.1-70b --hardware 2xh100-sxm --to-weights fp8 --to-kv fp8",
            "llama-3.1-70b --hardware h100-sxm --to-tp 2,4,8",
            "llama-3.1-8b --hardware l40s --technique mtp --acceptance 70%",
        ),
    ),
    "explain": (
        "deployments:explain",
        "Derive the numbers step by step.",
        """
For each number, its formula, the numbers put in, the value and the source: the totals by default, every operator with
--phase or --operator, and what leads to one time with --time. Without --hardware, the parameters of the model.
""",
        (
            "llama-3.1-70b --hardware h100-sxm --phase decode",
            "llama-3.1-70b --hardware h100-sxm --phase decode --time floor",
            "llama-3.1-70b --hardware h100-sxm --operator q_proj",
            "mixtral-8x7b",
        ),
    ),
    "plan": (
        "capacity_plans:plan",
        "Find the cheapest deployment that meets an SLO.",
        """
Searches over accelerators, how many of them, layouts, formats and batches. Every candidate is listed with TTFT, TPOT,
tokens/s and cost, or with the reason for its rejection.
""",
        (
            "llama-3.1-8b --hardware h100-sxm,l4 --tpot 50ms --prices h100-sxm=2.5,l4",
            "llama-3.1-8b --hardware 2xl4 --precisions bf16,fp8 --tpot 30ms",
        ),
    ),
    "fleet": (
        "capacity_plans:fleet",
        "Size a fleet for a request rate.",
        """
Shows how many deployments and accelerators a request rate needs, and what they cost per hour. The floor is the smallest
number that perfect software could manage with.
""",
        ("llama-3.1-70b --hardware h100-sxm --rate 20 --tpot 50ms --utilization 70%",),
    ),
    "serve": (
        "requests:serve",
        "Show what users see under load: TTFT, TPOT, throughput.",
        """
Requests in steady state, with queueing, chunked prefill and preemption, at a fixed concurrency (--concurrency) or an
arrival rate (--rate). A list such as --concurrency 1,8,64 gives one row for each value. With targets such as --ttft
500ms, the share of the simulated requests that meet all of them is shown.
""",
        (
            "llama-3.1-8b --hardware h100-sxm --engine vllm --concurrency 1,8,64",
            "llama-3.1-70b --hardware 4xh100-sxm --rate 1,2,4 --prompt 4k --ttft 500ms",
        ),
    ),
    "simulate": (
        "requests:simulate",
        "Simulate a server step by step: percentiles, goodput.",
        """
Runs every scheduler step of a deployment and its queue, and prints percentiles of TTFT, TPOT and end-to-end latency,
and the share of requests that meet an SLO. Arrivals come at a rate (--rate), from clients that wait for each answer
(--concurrency), or from a recorded trace (--trace).
""",
        (
            "llama-3.1-8b --hardware h100-sxm --engine vllm --rate 8 --ttft 500ms --tpot 30ms",
            "llama-3.1-70b --hardware 4xh100-sxm --trace trace.csv --seed 1",
        ),
    ),
    "advise": (
        "priorities:advise",
        "Advise which phase to optimize first, and with which technique.",
        """
For a mix of requests at low, medium and high load, shows how the time divides between prefill and decode, which SLO
target is missed first, every technique ranked by its gain, and where the advice changes.
""",
        (
            "llama-3.1-8b --hardware h100-sxm --prompt 4k --ttft 500ms --tpot 30ms",
            "llama-3.1-70b --hardware 2xh100-sxm --traffic log.csv --metric ttft",
        ),
    ),
    "solve": (
        "questions:solve",
        "Solve for the bandwidth, batch or context that reaches a target.",
        "",
        (
            "llama-3.1-70b --hardware 2xh100-sxm --find batch --metric tpot --target 60ms",
            "llama-3.1-70b --hardware 2xh100-sxm --find batch --metric tpot --target 60ms --technique speculative",
            "llama-3.1-70b --hardware h100-sxm --find weight_bits --metric fits",
        ),
    ),
    "sensitivity": (
        "questions:sensitivity",
        "Show what the time of a pass or a metric of requests depends on, strongest first.",
        "For each input, the percent change in the result for a 1 % increase.",
        (
            "llama-3.1-70b --hardware 2xh100-sxm --phase decode",
            "llama-3.1-70b --hardware 2xh100-sxm --batch 32 --metric tpot --technique speculative",
        ),
    ),
    "techniques": (
        "questions:techniques",
        "Show the effect of every technique on a deployment.",
        "Speedup of prefill and decode, and gain in throughput and batch size, for each technique alone.",
        ("llama-3.1-70b --hardware 4xh100-sxm --batch 32",),
    ),
    "mode-switch": (
        "questions:mode_switch",
        "Find the output length beyond which a faster prefill with slower decode loses time.",
        "",
        ("llama-3.1-8b --hardware h100-sxm --prefill-gain 20% --decode-cost 5%",),
    ),
    "visible": (
        "questions:visible",
        "Show the delay a reader sees if tokens are displayed several at a time.",
        "",
        ("llama-3.1-8b --hardware h100-sxm --buffer 8",),
    ),
    "headroom": (
        "measurements:headroom",
        "Compare a measured run with its floor, roofline and estimate.",
        """
Reads the result file of a benchmark (vLLM, SGLang, TensorRT-LLM, AIPerf, GuideLLM, llama-bench ...) or a kernel profile
(nsys, ncu, torch), and shows MFU, MBU, what limits each phase, and how much faster it could be.
""",
        (
            "result.json --model llama-3.1-8b --hardware h100-sxm --engine vllm",
            "kernels.csv --model llama-3.1-8b --hardware h100-sxm --batch 8 --phase decode",
        ),
    ),
    "quiz": (
        "quizzes:quiz",
        "Ask questions with new numbers each time, mark the answers and explain them.",
        """
Every question has a worked solution, and explains the mistake behind each common wrong answer. --cards writes an Anki
deck instead.
""",
        ("", "kv --difficulty 2 --count 10", "interview --seed 7", "moe --cards deck.csv --count 50"),
    ),
    "explore": (
        "roofline.app.command:explore",
        "Explore a deployment interactively in the browser.",
        """
Opens a page with controls for model, accelerator, formats, layout, engine and load. The summary, roofline, time by
operator, memory, latency over batch, queue and cost update as they change. The page is served from this machine and
loads nothing from the network.
""",
        ("", "llama-3.1-70b --hardware 4xh100-sxm --kv fp8", "--port 9000 --no-browser"),
    ),
    "check": (
        "spec_files:check",
        "Validate a spec file, or a directory of them.",
        "Prints one line per error. The exit code is 0 if there are none, and 2 otherwise.",
        ("my-accelerator.yaml",),
    ),
    "calibrate": (
        "spec_files:calibrate",
        "Fit kernel efficiencies to your own timings.",
        """
Writes one parameter file for each accelerator in the timings. To use the files in every estimate, set ROOFLINE_SPECS to
their parent directory.
""",
        ("timings.csv -o my-specs/efficiency_specs --source 'own L40S'",),
    ),
}
"""Command -> its location (in ``commands/`` or another package), a one-line summary, further help, and example
arguments."""

LISTS = {
    "models": ("List models: parameters, KV cache per token, longest context.", ("qwen3", "llama --full")),
    "hardware": (
        "List accelerators: memory, bandwidth, peaks, ridge points.",
        ("h100", "--vendor amd --minimum-memory 100GB", "--has-format fp4 --sort bandwidth --descending"),
    ),
    "formats": ("List number formats: bits per value, and the units that multiply them.", ("int4",)),
    "techniques": (
        "List serving techniques, their options, and the phase each helps.",
        ("--helps decode", "caching"),
    ),
    "engines": ("List inference engines.", ("",)),
    "prices": (
        "List known prices per accelerator-hour, the lowest first.",
        ("h100", "--hardware h100,h200 --term on-demand", "--hardware h100 --provider aws"),
    ),
}
"""What ``roofline list`` lists, each by a function of that name in ``commands/``, with example arguments."""

LIST_EXAMPLES = ("models qwen3", "hardware --vendor amd", "prices --hardware h100")

ABOUT = (
    "LLM inference from first principles: how fast it runs, what limits it, how many accelerators it needs, and why."
)

EXAMPLES = (
    "analyze llama-3.1-8b --hardware h100",
    "what-if llama-3.1-70b --hardware 2xh100 --to-weights fp8 --to-activations fp8",
    "plan llama-3.1-70b --hardware h100,h200 --rate 10 --tpot 50ms",
)

LISTED_FOR = {
    "model": "models",
    "gpu": "hardware",
    "gpus": "hardware",
    "accelerator": "hardware",
    "accelerators": "hardware",
    "format": "formats",
    "technique": "techniques",
    "engine": "engines",
    "price": "prices",
}
"""Other names for a list -> the list."""


def build() -> App:
    """Build the program with all its commands, without importing any of them."""
    named = _help("list", "List models, hardware, formats, techniques, engines or prices.", "", LIST_EXAMPLES)
    listing = App(name="list", help=named, version_flags=[])
    program = App(
        name="roofline",
        help=_help("", ABOUT, "", EXAMPLES),
        version=f"roofline {__version__}",
        help_flags=["--help", "-h"],
        help_format="plaintext",
        help_formatter=PlainHelp(),
        group_arguments=GROUPS["Arguments"],
        group_parameters=GROUPS["Options"],
        suppress_keyboard_interrupt=False,
        result_action="return_value",
    )
    for name, (place, summary, more, examples) in COMMANDS.items():
        home = place if place.startswith("roofline.") else f"{__package__}.commands.{place}"
        program.command(home, name=name, help=_help(name, summary, more, examples), version_flags=[])
    for name, (summary, examples) in LISTS.items():
        module = "price_lists" if name == "prices" else "libraries"
        place = f"{__package__}.commands.{module}:{name}"
        listing.command(place, name=name, help=_help(f"list {name}", summary, "", examples), version_flags=[])
    program.command(listing)
    plotting = App(name="plot", help=_help("plot", *PLOT_HELP), version_flags=[])
    for name, (summary, examples) in PLOTS.items():
        module = "server_pictures" if name in OF_SERVERS else "pictures"
        place = f"{__package__}.commands.{module}:{name.replace('-', '_')}"
        plotting.command(place, name=name, help=_help(f"plot {name}", summary, "", examples), version_flags=[])
    program.command(plotting)
    completion = f"{__package__}.commands.completion:install"
    program.command(completion, name="--install-completion", help="Install completion for the shell in use.")
    return program


def _help(name: str, summary: str, more: str, examples: Sequence[str]) -> str:
    shown = "\n".join("  " + " ".join(filter(None, ("roofline", name, arguments))) for arguments in examples)
    return "\n\n".join(part for part in (summary, " ".join(more.split()), f"For example:\n{shown}") if part)


def run(arguments: Sequence[str]) -> int:
    """Run the command that ``arguments`` name and return the exit code.

    0 for an answer, 1 if it cannot be written, 2 for bad input, 130 if it is interrupted.
    """
    try:
        code = build()(_meant(with_kind(arguments)) or ["--help"], exit_on_error=False, print_error=False)
        if sys.stdout is None:
            return _complain("standard output is closed", 1)
        sys.stdout.flush()
    except CycloptsError as error:
        return _complain(_usage_error(error), 2)
    except BrokenPipeError:
        return _abandon_output()
    except OSError as error:
        if error.filename is not None:
            return _complain(f"{error.filename}: {error.strerror}", 2)
        _abandon_output()
        return _complain(f"cannot write the answer: {error.strerror or error}", 1)
    except OverflowError:
        return _complain("one of the numbers is too large to compute with", 2)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        # Imported here, since it loads NumPy, which help and usage errors do without.
        from ..errors import RooflineError

        if not isinstance(error, RooflineError):
            raise
        return _complain(_with_list(_with_option(str(error), arguments)), 2)
    if isinstance(code, int):
        return code
    return 0 if arguments else 2


def _meant(arguments: Sequence[str]) -> list[str]:
    """The arguments, with other spellings of commands resolved: ``mode_switch``, ``help plan``, ``version``."""
    if not arguments:
        return []
    first, *others = arguments
    if first == "help":
        return [*others, "--help"]
    if first == "version":
        return ["--version", *others]
    if first == "list" and others and others[0] in LISTED_FOR:
        return [first, LISTED_FOR[others[0]], *others[1:]]
    hyphened = first.replace("_", "-")
    return [hyphened if hyphened in COMMANDS else first, *others]


LISTED_AS = {
    "model": "models",
    "accelerator": "hardware",
    "number format": "formats",
    "math format": "formats",
    "technique": "techniques",
    "engine": "engines",
}
"""Kind of an unknown name -> the list of known ones."""


def _with_option(message: str, arguments: Sequence[str]) -> str:
    """A message about a field with the option that was typed in its place: ``--tp`` instead of ``tensor``."""
    field, must, rest = message.partition(" must be ")
    if not must or not field.isidentifier():
        return message
    from .options import flags_of

    typed = {argument.partition("=")[0] for argument in arguments}
    option = next((flag for flag in flags_of(field) if flag in typed), field)
    return f"{option}{must}{rest}"


def _with_list(message: str) -> str:
    """A message about an unknown name, and the command that lists the known ones."""
    named = re.match(r"no ([a-z ]+) named ", message)
    listed = LISTED_AS.get(named[1], "") if named else ""
    if listed and "roofline list" not in message:
        return f"{message} (`roofline list {listed}` shows all)"
    return message


def _options(chain: Sequence[str]) -> set[str]:
    """All options of a command."""
    command = build()
    for name in chain:
        command = command[name]
    return {name for argument in command.assemble_argument_collection() for name in argument.names}


def _usage_error(error: CycloptsError) -> str:
    """One line about what is wrong with the arguments, with the command that shows their help."""
    chain = error.command_chain or ()
    text = re.sub(r"\. Did you mean ([^?]*)\?", r"; did you mean \1?", " ".join(str(error).split())).rstrip(".")
    text = text.replace("unknown option: ", "unknown option ").replace("Unknown option: ", "unknown option ")
    if isinstance(error, UnknownOptionError):
        typed = str(error.token.keyword or error.token.value).partition("=")[0]
        from .meant_options import ELSEWHERE, MEANT_BY

        meant = [option for option in MEANT_BY.get(typed, ()) if option in _options(chain)]
        text = f"unknown option {typed}; did you mean {meant[0]}?" if meant else text
        if not meant and (instead := ELSEWHERE.get("--technique" if typed == "--techniques" else typed)):
            text = f"unknown option {typed}: {instead}"
    if isinstance(error, UnknownCommandError) and error.unused_tokens:
        from ..errors import unknown

        below: dict[str, Iterable[str]] = {"list": LISTS, "plot": PLOTS}
        known = below[chain[0]] if chain else (*COMMANDS, *below)
        wrong = error.unused_tokens[0]
        text = str(unknown(chain[0] if chain == ("plot",) else "command", wrong, known))
        if wrong.startswith("-"):
            text = f"unknown option {wrong}"
    elif isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        text = f"unexpected argument {error.unused_tokens[0]!r}"
        if not error.unused_tokens[0].startswith("-"):
            text += "; separate several values with commas and no blanks, as in --batch 1,8,64"
    elif isinstance(error, RepeatArgumentError):
        option = error.token.keyword
        text = f"{option} is given twice; write several values as one list, as in {option} a,b"
    elif isinstance(error, MissingArgumentError) and error.argument is not None:
        wanted = error.argument.name
        text = f"{wanted} needs a value" if error.keyword else f"{' '.join(chain)} needs {wanted}"
    return f"{text[0].lower()}{text[1:]}; see `{' '.join(('roofline', *chain))} --help`"


def _complain(text: str, code: int) -> int:
    if sys.stderr is not None:
        print(f"roofline: {text}", file=sys.stderr)
    return code


def _abandon_output() -> int:
    """Redirect standard output to the null device, so that flushing at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 1
