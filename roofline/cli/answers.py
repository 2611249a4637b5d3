"""Every answer about one deployment under one workload, computed when it is asked for."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..analysis.crossover_points import Crossovers, crossovers
from ..errors import InvalidInput, Number, unknown
from ..footprint.memory_use import Memory, memory
from ..model import Model
from ..phases.deployment import Deployment
from ..phases.generation import Generation, generate
from ..phases.passes import TIMES, Phase, decode, prefill
from ..phases.workload import Workload
from ..report import Step, plain
from ..report.steps import branch_of

OF_DECODERS = ("prefill", "decode", "memory", "parameters", "crossovers")
OF_ENCODERS = ("encode", "memory", "parameters")
EXPLAINED = tuple(dict.fromkeys((*OF_DECODERS, *OF_ENCODERS)))
"""Answers that have a derivation, by their names on the command line."""

PASSES = ("prefill", "decode", "encode")
"""Those that are passes, and so have a floor, a roofline and an estimate."""


@dataclass(frozen=True, eq=False, repr=False)
class Answers:
    """One deployment under one workload.

    Attributes
    ----------
    serve : Deployment
        What runs where.
    load : Workload
        The requests.
    context_tokens : int or None
        Tokens in the cache before the decode step; the length of the prompt if None.
    """

    serve: Deployment
    load: Workload
    context_tokens: Number | None = None

    @cached_property
    def prefill(self) -> Phase:
        """The pass over the prompts."""
        return prefill(self.serve, self.load)

    @property
    def encode(self) -> Phase:
        """The one pass of an encoder."""
        return self.prefill

    @property
    def encodes(self) -> bool:
        """Whether the model is an encoder, which runs one pass and generates nothing."""
        return self.serve.model.encodes

    @cached_property
    def decode(self) -> Phase:
        """One decode step."""
        return decode(self.serve, self.load, context_tokens=self.context_tokens)

    def pass_named(self, name: str) -> Phase:
        """Return the prefill or the decode step.

        Raises
        ------
        UnknownName
            There is no pass of that name.
        """
        if name not in ("prefill", "decode"):
            raise unknown("pass", name, ("prefill", "decode"))
        return self.prefill if name == "prefill" else self.decode

    @cached_property
    def memory(self) -> Memory:
        """What fits at the end of the output, or after the decode step if its context is longer than that."""
        if self.context_tokens is None:
            return memory(self.serve, self.load)
        beyond = np.maximum(self.context_tokens + 1 - self.load.sequence_tokens, 0)
        return memory(self.serve, dataclasses.replace(self.load, cached_tokens=self.load.cached_tokens + beyond))

    @cached_property
    def generate(self) -> dict[str, Generation]:
        """The whole generation by each of the three times."""
        return {time: generate(self.serve, self.load, time=time) for time in TIMES}

    @property
    def parameters(self) -> Model:
        """The model, which counts its parameters."""
        return self.serve.model

    @cached_property
    def crossovers(self) -> Crossovers:
        """Where decode changes its limit."""
        return crossovers(self.serve, self.load)

    @property
    def maths(self) -> tuple[str, ...]:
        """Math formats that the work is computed in, that of the linear layers first."""
        linear = self.serve.accelerator.math_on_chip(self.serve.precision.part("mlp").math)
        steps = () if self.encodes else self.decode.operators
        used = (item.math for item in (*self.prefill.operators, *steps) if item.flops)
        return tuple(dict.fromkeys((linear, *used)))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Notes of all answers, each once."""
        return self.notes_of("parameters", "memory", *(("encode",) if self.encodes else ("prefill", "decode")))

    def notes_of(self, *names: str) -> tuple[str, ...]:
        """Notes of some of the answers, each once; of contexts beyond the model's, the longest."""
        found = list(dict.fromkeys(note for name in names for note in getattr(self, name).assumptions))
        contexts = [note for note in found if note.startswith("context of ")]
        return tuple(note for note in found if note not in contexts[:-1])

    def sentences(self, time: str) -> tuple[str, ...]:
        """Whether it fits, and how long its passes take in one of the three times."""
        passes = (self.encode,) if self.encodes else (self.decode, self.prefill)
        sentences = [each.summary(time) for each in passes]
        if not self.memory.fits:
            partly = 0 < self.memory.max_batch < self.load.batch
            whole = f" of all {self.load.batch:,}" if partly else ""
            sentences = [_of_a_batch_that_does_not_fit(text, whole) for text in sentences]
        return (self.memory.summary(), *sentences)

    def steps(self, *, phase: str | None, operator: str | None, time: str | None = None) -> dict[str, tuple[Step, ...]]:
        """The derivation by answer: all of one answer, one operator wherever it runs, or the totals of every answer.

        With ``time``, only the steps that lead to that time of each pass, or of the operator in it.

        Raises
        ------
        UnknownName
            No phase or no operator has that name, or the operator has no such time.
        InvalidInput
            The phase has no times.
        """
        known = OF_ENCODERS if self.encodes else OF_DECODERS
        if phase not in (None, *known):
            raise unknown("phase", phase, known)
        if time is not None and phase not in (None, *PASSES):
            raise InvalidInput(f"--phase {phase} has no times; --time takes --phase {' or '.join(PASSES)}")
        chosen = [name for name in known if phase in (None, name) and (time is None or name in PASSES)]
        found = {name: getattr(self, name).explain() for name in chosen}
        if time is not None:
            return {name: _branch(steps, time, operator) for name, steps in found.items()}
        if phase and not operator:
            return found
        return steps_about(found, operator)

    def asked(self) -> dict[str, Any]:
        """What was asked, defaults included."""
        context = self.load.context_tokens if self.context_tokens is None else self.context_tokens
        workload = plain(self.load.counts | {"context_tokens": context})
        return deployment_dict(self.serve) | {"workload": workload}

    def to_dict(self) -> dict[str, Any]:
        """Every answer as plain JSON types."""
        gpu, model = self.serve.accelerator, self.serve.model
        return self.asked() | {
            "layers": layer_words(model),
            "parameters": model.parameters.to_dict(),
            "kv_bytes_per_token": plain(model.kv_bytes_per_token),
            "ridge_flops_per_byte": plain(gpu.ridge_flops_per_byte(self.maths[0])),
            "dense_flops_per_s": {math: plain(gpu.dense_flops_per_s[math]) for math in self.maths},
            "memory_bytes_per_s": plain(gpu.memory_bytes_per_s),
            "memory": self.memory.to_dict(),
            **(self._encoded() if self.encodes else self._generated()),
            "assumptions": list(self.assumptions),
        }

    def _generated(self) -> dict[str, Any]:
        return {
            "prefill": self.prefill.to_dict(),
            "decode": self.decode.to_dict(),
            "generate": {time: result.to_dict() for time, result in self.generate.items()},
            "crossovers": self.crossovers.to_dict(),
        }

    def _encoded(self) -> dict[str, Any]:
        return {"encode": self.encode.to_dict() | {"sequences_per_s": plain(self.sequences_per_s("roofline_s"))}}

    def sequences_per_s(self, time: str) -> Number:
        """Sequences per second of an encoder, by one of the three times."""
        rate: Number = self.load.batch / getattr(self.encode, time)
        return rate


def _branch(steps: tuple[Step, ...], time: str, operator: str | None) -> tuple[Step, ...]:
    """The steps that lead to one time of a pass, or of one operator in it."""
    if operator is None:
        return tuple(step for step in branch_of(steps, time) if subject(step) in EXPLAINED)
    about = steps_about({"": steps}, operator)[""]
    if not any(step.name.endswith(f".{time}") for step in about):
        raise InvalidInput(f"single operators have no {time.removesuffix('_s')}; it is defined for a whole pass")
    return tuple(step for step in branch_of(steps, f"{operator}.{time}") if subject(step) == operator)


def deployment_dict(serve: Deployment) -> dict[str, Any]:
    """What runs where, defaults included, as plain JSON types."""
    precision = serve.precision
    return {
        "model": serve.model.name,
        "hardware": serve.accelerator.name,
        "precision": {name: getattr(precision, name) for name in ("weights", "activations", "kv", "attention")}
        | ({"exceptions": dict(precision.exceptions)} if precision.exceptions else {}),
        "parallel": plain(dataclasses.asdict(serve.parallel)),
        "engine": None if serve.engine is None else str(serve.engine),
        "power_limit_watts": plain(serve.power_limit_watts),
    }


def model_steps(model: Model, *, phase: str | None, operator: str | None) -> dict[str, tuple[Step, ...]]:
    """The derivation of a model's parameter count, or the part of it about one group of layers; needs no accelerator.

    Raises
    ------
    InvalidInput
        The phase depends on an accelerator.
    UnknownName
        There is no phase or group of layers of that name.
    """
    if phase not in (None, *EXPLAINED):
        raise unknown("phase", phase, EXPLAINED)
    if phase not in (None, "parameters"):
        raise InvalidInput(f"--phase {phase} needs --hardware; only the parameters can be derived without it")
    found: dict[str, tuple[Step, ...]] = {"parameters": model.explain()}
    return steps_about(found, operator) if operator else found


def subject(step: Step) -> str:
    """The operator or phase that a step is about: the part of its name before the quantity."""
    return step.name.rpartition(".")[0] or step.name


def steps_about(found: Mapping[str, tuple[Step, ...]], operator: str | None) -> dict[str, tuple[Step, ...]]:
    """The steps about ``operator``, or about the totals if None."""
    names = {subject(step) for steps in found.values() for step in steps}
    if operator not in (None, *names):
        raise unknown("operator", operator, names.difference(EXPLAINED))
    wanted = {operator} if operator else {*EXPLAINED}
    chosen = {}
    for name, steps in found.items():
        about = tuple(step for step in steps if subject(step) in wanted)
        if about:
            chosen[name] = about
    return chosen


def layer_words(model: Model) -> list[str]:
    """Kinds of layers in order of appearance, each with the number of its layers."""
    kinds: Counter[str] = Counter()
    for layer in model.encoder.layers if model.encoder else ():
        kinds[f"{layer.kind} in the encoder"] += layer.count
    for layer in model.layers:
        kinds[layer.kind] += layer.count
    return [f"{count} x {kind}" for kind, count in kinds.items()]


def _of_a_batch_that_does_not_fit(sentence: str, whole: str) -> str:
    """A sentence such as "A decode step takes 50 ms and is memory-bound." about what cannot run."""
    return sentence.replace(" takes ", f"{whole} would take ", 1).replace(" and is ", " and be ", 1)


def notes_of_both(before: Answers, after: Answers, names: Iterable[str]) -> Iterator[str]:
    """Notes about two deployments; a note that holds for only one of them says which."""
    first, second = (dict.fromkeys(found.notes_of(*names)) for found in (before, after))
    for note in first:
        yield note if note in second else f"before: {note}"
    for note in second:
        if note not in first:
            yield f"after: {note}"
