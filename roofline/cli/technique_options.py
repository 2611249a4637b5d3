"""Options for techniques, one for each parameter of any technique."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypedDict

from cyclopts import Parameter

from ..techniques import REGISTRY, Technique, named
from ..techniques.prompts import with_hit_rate
from ..techniques.registry import TechniqueParameter, parameters
from ..techniques.technique import technique_named
from ..units import quantity_of
from . import options as opt
from .help_pages import GROUPS
from .quantities import as_tuple, quantities, quantity
from .target import read_model

BY_OTHER_OPTIONS = ("weights", "activations", "kv")
"""Formats, which are set by ``--to-weights`` and the like."""

OPTIONS = {"rank": "--lora-rank"}
"""Parameters whose option has another name: ``--rank`` is what a plan ranks candidates by."""

Names = Annotated[
    tuple[str, ...],
    opt.option(
        "--technique",
        "NAME",
        "Technique to apply, such as speculative; may be repeated. `roofline list techniques` shows all.",
        parse=opt.words,
        group=opt.TECHNIQUES,
        show_default=False,
        completer=opt.completed_by(lambda: REGISTRY),
    ),
]


def _fields() -> Any:
    """Every parameter of every technique as an option; its help names the techniques that take it."""
    hints = {
        item.name: Annotated[Any, _option(item)]
        for item in sorted(parameters(), key=lambda item: item.name)
        if item.name not in BY_OTHER_OPTIONS
    }
    return Annotated[TypedDict("Techniques", hints, total=False), Parameter(name="*", group=GROUPS[opt.TECHNIQUES])]  # type: ignore[operator]


def _option(item: TechniqueParameter) -> Parameter:
    field = next(each for each in dataclasses.fields(REGISTRY[item.slugs[0]]) if each.name == item.name)
    parse, metavar = _reading(item.name, str(field.type))
    return Parameter(
        name=option_of(item.name),
        negative=(),
        metavar=metavar,
        help=opt.plain_text(item.help),
        converter=opt.parsed_by(parse),
        show_default=False,
    )


def option_of(parameter: str) -> str:
    """The option that sets a parameter of a technique."""
    if parameter in BY_OTHER_OPTIONS:
        return f"--to-{parameter}"
    return OPTIONS.get(parameter) or f"--{parameter.replace('_', '-')}"


def _reading(name: str, kind: str) -> tuple[Any, str]:
    """Parser and placeholder for a parameter of that type."""
    if kind.startswith("bool"):
        return _yes_or_no, "yes|no"
    if kind.startswith("Model"):
        return read_model, "MODEL"
    if kind.startswith("str"):
        return str, "NAME"
    unit = quantity_of(name) or "count"
    if kind == "Lengths":
        return lambda text: as_tuple(quantities(text, unit)), "N,N,..."
    return lambda text: quantity(text, unit), "X"


def _yes_or_no(text: str) -> Any:
    return {"yes": True, "true": True, "no": False, "false": False}.get(text.lower(), text)


if TYPE_CHECKING:
    TechniqueFields: TypeAlias = opt.Given
else:
    TechniqueFields = _fields()


@Parameter(name="*")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Chosen:
    """Techniques and their parameters, as typed."""

    technique: Names = ()
    parameters: TechniqueFields = dataclasses.field(default_factory=dict)

    def techniques(self) -> tuple[Technique, ...]:
        """The named techniques with their parameters.

        Raises
        ------
        UnknownName
            There is no such technique.
        InvalidInput
            None of the techniques has such a parameter.
        """
        return named(self.technique, self.parameters)

    def with_hit_rate(self) -> tuple[tuple[Technique, ...], float]:
        """The techniques, and the hit rate if none of them takes it."""
        taken = any(_takes_hit_rate(technique_named(name)) for name in self.technique)
        if taken or "hit_rate" not in self.parameters:
            return self.techniques(), 0.0
        others = {name: value for name, value in self.parameters.items() if name != "hit_rate"}
        return named(self.technique, others), self.parameters["hit_rate"]

    def in_use(self) -> tuple[Technique, ...]:
        """The techniques, and prefix caching of unshared prefixes if a hit rate is given by itself."""
        return with_hit_rate(*self.with_hit_rate())


def _takes_hit_rate(technique: type[Technique]) -> bool:
    return "hit_rate" in {each.name for each in dataclasses.fields(technique)}


def with_formats(chosen: tuple[Technique, ...], formats: Mapping[str, str]) -> tuple[Technique, ...]:
    """The techniques with these formats, set on the quantization among them or on an added one."""
    for slug in ("quantization", "kv-quantization"):
        kind = REGISTRY[slug]
        mine = {item.name for item in dataclasses.fields(kind)}
        given = {name: value for name, value in formats.items() if name in mine}
        if given:
            # An added quantization sets only the given formats, not its defaults as well.
            added = kind(**{name: given.get(name) for name in mine & set(BY_OTHER_OPTIONS)})
            changed = [dataclasses.replace(item, **given) if isinstance(item, kind) else item for item in chosen]
            chosen = tuple(changed) if any(isinstance(item, kind) for item in chosen) else (*chosen, added)
    return chosen
