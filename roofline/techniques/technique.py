"""Technique: one scenario in, another out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import combinations
from types import MappingProxyType
from typing import Any, ClassVar

from ..errors import InvalidInput, unknown
from ..phases.deployment import Deployment
from ..phases.workload import Workload
from ..report import Step
from ..serving.scenario import Scenario
from ..values import Value

FLAG, KERNEL, MODEL = "a config flag", "a new kernel", "a new model"
HARDWARE = "more accelerators"
"""What it takes to adopt a technique."""


ASSUMED = {
    "acceptance": "acceptance {:.0%}",
    "hit_rate": "hit rate {:.0%}",
    "times": "{:g}x",
    "host": "{:.0%} offloaded",
    "skipped": "{:.0%} skipped",
}
"""Parameter of a technique that traffic or model decide -> how tables put it."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Technique(Value):
    """A way to serve a model faster.

    A technique is one class in one file of this package.  A class that states a ``slug`` registers itself under it, and
    is found by name in Python, on the command line and in the table; its fields become options.

    Attributes
    ----------
    slug : str
        Short name, by which it is called in Python, on the command line and in tables.
    name : str
        Its usual name.
    helps : str
        Phase that it is said to help: ``prefill``, ``decode`` or ``both``.
    why : str
        How it helps, in one line.
    effort : str
        `FLAG`, `KERNEL`, `MODEL` or `HARDWARE`.
    costs : str
        What it costs elsewhere.
    baseline : str
        What the technique is compared with beside the deployment as given: the same without it, in words.  Empty
        where that is the deployment as given.
    in_place : bool
        Whether every engine has it already, so that nothing is left to gain.
    decides : tuple of str
        What it decides; two techniques that decide the same thing exclude each other.
    """

    slug: ClassVar[str]
    name: ClassVar[str]
    helps: ClassVar[str]
    why: ClassVar[str]
    effort: ClassVar[str] = FLAG
    costs: ClassVar[str] = ""
    baseline: ClassVar[str] = ""
    in_place: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "slug" in cls.__dict__:
            _register(cls)

    @classmethod
    def usual(cls) -> tuple[Technique, ...]:
        """The technique with the parameters that the field reports, for tables and advice."""
        return (cls(),)

    @property
    def decides(self) -> tuple[str, ...]:
        """What it settles."""
        return (self.name,)

    @property
    def label(self) -> str:
        """Its name, with the formats that it sets."""
        formats = [getattr(self, name, None) for name in ("weights", "activations", "kv")]
        given = [text for text in formats if isinstance(text, str)]
        return f"{self.name} ({' + '.join(given)})" if given else self.name

    @property
    def assumption(self) -> str:
        """What it takes for granted about the traffic or the model, which only a measurement tells; empty if nothing.

        Examples
        --------
        >>> from roofline.techniques import PrefixCaching
        >>> PrefixCaching(hit_rate=0.3).assumption
        'hit rate 30%'
        """
        found = [words.format(value) for name, words in ASSUMED.items() if (value := getattr(self, name, None))]
        return ", ".join(found)

    @property
    def assumes(self) -> str:
        """Its parameters in words, those that are not given left out: ``acceptance 0.7, drafts 4``."""
        return _in_words({item.name: getattr(self, item.name) for item in fields(self)})

    def had(self, case: Scenario) -> bool:
        """Whether the deployment has it already."""
        return self.in_place

    def refusal(self, case: Scenario) -> str:
        """Why the deployment cannot have it; empty if it can."""
        return ""

    def in_layout(self, case: Scenario) -> bool:
        """Whether a plan, which tries every layout by itself, keeps this one: it has the technique, or can have it."""
        return not self.refusal(case)

    def given(self, case: Scenario) -> Scenario:
        """The scenario as given, with what the technique's parameters say about it."""
        return case

    def without(self, case: Scenario) -> Scenario:
        """The scenario without it: the baseline that the field compares with."""
        return case

    def after(self, case: Scenario) -> Scenario:
        """The scenario with it."""
        return case

    def steps(self, case: Scenario) -> tuple[Step, ...]:
        """Its own derivation, before that of the passes."""
        return ()


def _in_words(parameters: Mapping[str, Any]) -> str:
    """Parameters of a technique in words, those that are not given left out: ``acceptance 0.7, drafts 4``."""
    given = {name: value for name, value in parameters.items() if value not in (None, (), False)}
    return ", ".join(f"{name.replace('_', ' ')} {_parameter_words(value)}" for name, value in given.items())


def _parameter_words(value: Any) -> str:
    """A parameter in a few characters."""
    if isinstance(value, str | bool):
        return str(value)
    if isinstance(value, int | float):
        return f"{value:.3g}" if value < MANY_DIGITS else f"{value:,.0f}"
    if isinstance(value, tuple):
        return f"{value[0]:g}-{value[-1]:g}"
    return str(getattr(value, "name", value))


MANY_DIGITS = 1000
"""Numbers from here on are written out with commas."""


_techniques: dict[str, type[Technique]] = {}

REGISTRY: Mapping[str, type[Technique]] = MappingProxyType(_techniques)
"""Slug -> technique."""


def _register(technique: type[Technique]) -> None:
    """Add a technique under its slug.

    Raises
    ------
    InvalidInput
        Another technique has this slug.
    """
    known = _techniques.get(technique.slug)
    if known is not None and known.__qualname__ != technique.__qualname__:
        raise InvalidInput(f"technique slug {technique.slug!r} is taken by {known.__name__}")
    _techniques[technique.slug] = technique


def technique_named(slug: str) -> type[Technique]:
    """The technique with this slug.

    Raises
    ------
    UnknownName
        No technique has it.
    """
    if slug not in REGISTRY:
        raise unknown("technique", slug, REGISTRY)
    return REGISTRY[slug]


Chosen = Iterable[Technique | str] | Technique | str
"""Techniques as values or by their slugs, one or several."""


def scenario_with(serve: Deployment, load: Workload, techniques: Chosen) -> Scenario:
    """The scenario of a deployment that has these techniques.

    Parameters
    ----------
    serve, load : Deployment, Workload
        What runs where, for which requests.
    techniques : Technique or str, or several of them
        Values, or slugs for their usual parameters.

    Raises
    ------
    InvalidInput
        Two techniques decide the same thing, or the deployment cannot have one.
    """
    chosen = as_techniques(techniques)
    case = Scenario(serve, load)
    refuse(chosen, case)
    for item in chosen:
        case = item.after(item.given(case))
    return case


def as_techniques(techniques: Chosen) -> tuple[Technique, ...]:
    """One or several techniques, or slugs, as a tuple of values.

    Raises
    ------
    InvalidInput
        Something that is neither.
    UnknownName
        No technique has this slug.
    """
    if isinstance(techniques, str) or not isinstance(techniques, Iterable):
        techniques = (techniques,)
    chosen = tuple(technique_named(item)() if isinstance(item, str) else item for item in techniques)
    for item in chosen:
        if not isinstance(item, Technique):
            raise InvalidInput(f"techniques must be values of roofline.techniques, such as PagedAttention(): {item!r}")
    return chosen


def refuse(techniques: tuple[Technique, ...], case: Scenario) -> None:
    """Raise for the first technique that the deployment cannot have, or that does not combine with another."""
    refuse_pairs(techniques)
    for item in techniques:
        if reason := item.refusal(case):
            raise InvalidInput(f"{item.name}: {reason}")


def refuse_pairs(techniques: tuple[Technique, ...]) -> None:
    """Raise for the first two techniques that decide the same thing."""
    for one, other in combinations(techniques, 2):
        if both := sorted({*one.decides} & {*other.decides}):
            raise InvalidInput(f"{one.name} and {other.name} both decide {both[0]}; choose one")
