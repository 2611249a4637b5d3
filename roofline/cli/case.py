"""What the options of a command say: a deployment, a workload and a context, and the answers that follow."""

import dataclasses
import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any

from ..analysis.crossover_points import crossovers
from ..errors import InvalidInput, Number, number, unknown
from ..footprint.memory_use import memory
from ..model import Model
from ..operators.parallel import ONE, Parallel
from ..phases.deployment import Deployment
from ..phases.passes import TIMES, Generation, Phase, decode, generate, prefill
from ..phases.workload import Workload
from ..report import Report, Step, plain
from ..specs.library import get_accelerator, get_model
from . import options as opt

COMPARED = ("prefill", "decode", "memory")
EXPLAINED = (*COMPARED, "parameters", "crossovers")


@dataclass(frozen=True, eq=False, repr=False)
class Case:
    """One deployment under one workload; ``context_tokens`` is the decode step's, after the prompt if None."""

    serve: Deployment
    load: Workload
    context_tokens: Number | None

    @cached_property
    def prefill(self) -> Phase:
        """The pass over the prompts."""
        return prefill(self.serve, self.load)

    @cached_property
    def decode(self) -> Phase:
        """One decode step."""
        return decode(self.serve, self.load, context_tokens=self.context_tokens)

    @cached_property
    def memory(self) -> Report:
        """What fits."""
        return memory(self.serve, self.load)

    @cached_property
    def generate(self) -> dict[str, Generation]:
        """The whole generation, in each of the three times."""
        return {time: generate(self.serve, self.load, time=time) for time in TIMES}

    @property
    def parameters(self) -> Model:
        """The model, which counts its parameters."""
        return self.serve.model

    @cached_property
    def crossovers(self) -> Report:
        """Where decode changes its limit."""
        return crossovers(self.serve, self.load)

    @property
    def maths(self) -> tuple[str, ...]:
        """Formats of the units that compute it, the linear layers' first."""
        linear = self.serve.accelerator.math_on_chip(self.serve.precision.part("mlp").math)
        used = (item.math for item in (*self.prefill.operators, *self.decode.operators) if item.flops)
        return tuple(dict.fromkeys((linear, *used)))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Notes of all answers, each once."""
        answers = (self.parameters, self.memory, self.prefill, self.decode)
        return tuple(dict.fromkeys(note for answer in answers for note in answer.assumptions))

    def changed(self, *, hardware: str | None, batch: Number | None, **formats: str | None) -> "Change":
        """The case as it is and after a change; what is None stays as it is.

        Raises
        ------
        InvalidInput
            Nothing changes.
        """
        if (hardware, batch, *formats.values()) == (None,) * (2 + len(formats)):
            raise InvalidInput(
                "what-if needs a change: --to-weights, --to-activations, --to-kv, --to-hardware, --to-batch"
            )
        from ..techniques import quantize

        serve = quantize(self.serve, **formats)
        serve = serve.replace(accelerator=get_accelerator(hardware)) if hardware else serve
        load = self.load if batch is None else dataclasses.replace(self.load, batch=batch)
        return Change(self, dataclasses.replace(self, serve=serve, load=load))

    def steps(self, *, phase: str | None, operator: str | None) -> dict[str, tuple[Step, ...]]:
        """The derivation by answer: all of one answer, one operator wherever it runs, or the totals of every answer.

        Raises
        ------
        UnknownName
            No phase or no operator is called so.
        """
        if phase not in (None, *EXPLAINED):
            raise unknown("phase", phase, EXPLAINED)
        found = {name: getattr(self, name).explain() for name in EXPLAINED if phase in (None, name)}
        return found if phase and not operator else _about(found, operator)

    def asked(self) -> dict[str, Any]:
        """What was asked, defaults included."""
        context = self.load.context_tokens if self.context_tokens is None else self.context_tokens
        precision = self.serve.precision
        return {
            "model": self.serve.model.name,
            "hardware": self.serve.accelerator.name,
            "workload": plain(dataclasses.asdict(self.load) | {"context_tokens": context}),
            "precision": {name: getattr(precision, name) for name in ("weights", "activations", "kv", "attention")},
            "parallel": plain(dataclasses.asdict(self.serve.parallel)),
            "engine": None if self.serve.engine is None else str(self.serve.engine),
        }

    def to_dict(self) -> dict[str, Any]:
        """Every answer as plain JSON types."""
        gpu, model = self.serve.accelerator, self.serve.model
        return self.asked() | {
            "layers": layer_kinds(model),
            "parameters": model.parameters.to_dict(),
            "kv_bytes_per_token": plain(model.kv_bytes_per_token),
            "ridge_flops_per_byte": plain(gpu.ridge_flops_per_byte(self.maths[0])),
            "dense_flops_per_s": {math: plain(gpu.dense_flops_per_s[math]) for math in self.maths},
            "memory_bytes_per_s": plain(gpu.memory_bytes_per_s),
            "memory": self.memory.to_dict(),
            "prefill": self.prefill.to_dict(),
            "decode": self.decode.to_dict(),
            "generate": {time: result.to_dict() for time, result in self.generate.items()},
            "crossovers": self.crossovers.to_dict(),
            "assumptions": list(self.assumptions),
        }


@dataclass(frozen=True, eq=False, repr=False)
class Count:
    """A model without an accelerator: its parameters are all that can be derived."""

    model: Model

    def steps(self, *, phase: str | None, operator: str | None) -> dict[str, tuple[Step, ...]]:
        """The derivation of the parameters, or its part about one group of layers.

        Raises
        ------
        InvalidInput
            The phase depends on an accelerator.
        UnknownName
            No phase or no group of layers is called so.
        """
        if phase not in (None, *EXPLAINED):
            raise unknown("phase", phase, EXPLAINED)
        if phase not in (None, "parameters"):
            raise InvalidInput(f"--phase {phase} needs --hardware; without it the parameters are derived")
        found = {"parameters": self.model.explain()}
        return _about(found, operator) if operator else found


@dataclass(frozen=True, eq=False, repr=False)
class Change:
    """Two cases side by side."""

    before: Case
    after: Case

    @cached_property
    def comparisons(self) -> dict[str, Any]:
        """Each answer before and after."""
        from ..techniques import compare

        return {name: compare(getattr(self.before, name), getattr(self.after, name)) for name in COMPARED}

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Notes of both, and of which one if they differ."""
        before, after = dict.fromkeys(self.before.assumptions), dict.fromkeys(self.after.assumptions)
        return (
            *(note if note in after else f"before: {note}" for note in before),
            *(f"after: {note}" for note in after if note not in before),
        )

    def to_dict(self) -> dict[str, Any]:
        """Both cases and their comparisons as plain JSON types."""
        asked = {"before": self.before.asked(), "after": self.after.asked()}
        return asked | {name: item.to_dict() for name, item in self.comparisons.items()}


def about(step: Step) -> str:
    """What a step is about, an operator or a phase: the part of its name before the quantity."""
    return step.name.rpartition(".")[0] or step.name


def _about(found: dict[str, tuple[Step, ...]], operator: str | None) -> dict[str, tuple[Step, ...]]:
    """The steps about ``operator``, or those of the totals if None."""
    names = {about(step) for steps in found.values() for step in steps}
    if operator not in (None, *names):
        raise unknown("operator", operator, names.difference(EXPLAINED))
    wanted = {operator} if operator else {*EXPLAINED}
    chosen = {name: tuple(step for step in steps if about(step) in wanted) for name, steps in found.items()}
    return {name: steps for name, steps in chosen.items() if steps}


def layer_kinds(model: Model) -> list[str]:
    """Kinds of layers in order of appearance, each with the number of its layers."""
    kinds: Counter[str] = Counter()
    for layer in model.layers:
        kinds[layer.kind] += layer.count
    return [f"{count} x {kind}" for kind, count in kinds.items()]


def read_case(
    *,
    model: opt.ModelName,
    hardware: opt.Hardware,
    batch: opt.Batch = Workload.batch,
    prompt: opt.Prompt = Workload.prompt_tokens,
    output: opt.Output = Workload.output_tokens,
    context: opt.Context = None,
    weights: opt.Weights = None,
    activations: opt.Activations = None,
    kv: opt.KV = None,
    tp: opt.Tensor = ONE.tensor,
    pp: opt.Pipeline = ONE.pipeline,
    ep: opt.Expert = ONE.expert,
    dp: opt.Data = ONE.data,
    engine: opt.Engine = None,
) -> Case:
    """The case that the shared options describe."""
    parallel = Parallel(tensor=tp, pipeline=pp, expert=ep, data=dp)
    serve = Deployment(get_model(model), get_accelerator(hardware), parallel=parallel, engine=engine)
    formats = {"weights": weights, "activations": activations, "kv": kv}
    asked: dict[str, Any] = {name: found for name, found in formats.items() if found is not None}
    serve = serve.replace(precision=dataclasses.replace(serve.precision, **asked))
    load = Workload(prompt_tokens=prompt, output_tokens=output, batch=batch)
    return Case(serve, load, None if context is None else number("context_tokens", context, whole=True))


def read_case_or_count(*, hardware: str | None, **given: Any) -> Case | Count:
    """The case that the shared options describe, or without hardware the model alone."""
    return Count(get_model(given["model"])) if hardware is None else read_case(hardware=hardware, **given)


def takes_case(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with the options of `read_case` in the place of its first argument."""
    return taking(command, read_case, inspect.signature(read_case).parameters)


def takes_case_or_count(command: Callable[..., None]) -> Callable[..., None]:
    """As `takes_case`, but the hardware may be left out."""
    shared = dict(inspect.signature(read_case).parameters)
    shared["hardware"] = shared["hardware"].replace(annotation=opt.HardwareIfAny, default=None)
    return taking(command, read_case_or_count, shared)


def taking(
    command: Callable[..., None], read: Callable[..., Any], shared: Mapping[str, inspect.Parameter]
) -> Callable[..., None]:
    """``command`` with the options ``shared``, of which ``read`` makes its first argument."""
    own = list(inspect.signature(command).parameters.values())[1:]

    @wraps(command)
    def run(**given: Any) -> None:
        case = read(**{name: given.pop(name) for name in shared})
        command(case, **given)

    parameters = [item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in (*shared.values(), *own)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in parameters}
    return run
