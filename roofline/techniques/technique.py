"""Technique: the base class, which turns one scenario into another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import combinations
from types import MappingProxyType
from typing import Any, ClassVar

from ..errors import InvalidInput, unknown
from ..phases.deployment import Deployment
from ..phases.encoder_rules import refuse_encoders
from ..phases.workload import Workload
from ..report import Step
from ..serving.scenario import Scenario
from ..values import Value

FLAG, KERNEL, MODEL = "a config flag", "a new kernel", "a new model"
HARDWARE = "more accelerators"
"""Effort of adopting a technique."""


ASSUMED = {
    "acceptance": "acceptance {:.0%}",
    "hit_rate": "hit rate {:.0%}",
    "times": "{:g}x",
    "host": "{:.0%} offloaded",
    "skipped": "{:.0%} skipped",
}
"""Parameters that depend on the traffic or the model -> how tables show them."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Technique(Value):
    """A way to serve a model faster.

    Each technique is a class in this package.  A class with a ``slug`` registers itself under it and is then available
    by name in Python, on the command line and in the table.  Its fields become command-line options.

    Attributes
    ----------
    slug : str
        Short name in Python, on the command line and in tables.
    name : str
        Usual name of the technique.
    helps : str
        Phase that the literature says it helps: ``prefill``, ``decode`` or ``both``.
    why : str
        How it helps, in one line.
    effort : str
        `FLAG`, `KERNEL`, `MODEL` or `HARDWARE`.
    costs : str
        What the technique costs elsewhere.
    baseline : str
        Description of the deployment without the technique, to which it is also compared.  Empty if that is the
        deployment as given.
    in_place : bool
        Whether every engine already uses it, so that nothing is left to gain.
    decides : tuple of str
        What the technique decides.  Two techniques that decide the same thing exclude each other.
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
        """The technique with its usual parameters, for tables and advice."""
        return (cls(),)

    @property
    def decides(self) -> tuple[str, ...]:
        """Aspects of the deployment that the technique decides."""
        return (self.name,)

    @property
    def label(self) -> str:
        """Name of the technique, with the formats that it sets."""
        formats = [getattr(self, name, None) for name in ("weights", "activations", "kv")]
        given = [text for text in formats if isinstance(text, str)]
        return f"{self.name} ({' + '.join(given)})" if given else self.name

    @property
    def assumption(self) -> str:
        """What the technique assumes about traffic or model, which only a measurement can confirm; empty if nothing.

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
        """Parameters as text, without those that are not given: ``acceptance 0.7, drafts 4``."""
        return _in_words({item.name: getattr(self, item.name) for item in fields(self)})

    def had(self, case: Scenario) -> bool:
        """Whether the deployment already uses the technique."""
        return self.in_place

    def refusal(self, case: Scenario) -> str:
        """Why the deployment cannot use the technique; empty if it can."""
        return ""

    def in_layout(self, case: Scenario) -> bool:
        """Whether a planner, which tries every layout itself, keeps this layout for the technique."""
        return not self.refusal(case)

    def given(self, case: Scenario) -> Scenario:
        """The scenario as given, plus what the technique's parameters state about it."""
        return case

    def without(self, case: Scenario) -> Scenario:
        """The scenario without the technique: the usual baseline of comparison."""
        return case

    def after(self, case: Scenario) -> Scenario:
        """The scenario with the technique."""
        return case

    def steps(self, case: Scenario) -> tuple[Step, ...]:
        """The technique's own derivation steps, shown before those of the passes."""
        return ()


def _in_words(parameters: Mapping[str, Any]) -> str:
    """Parameters of a technique as text, without those that are not given: ``acceptance 0.7, drafts 4``."""
    given = {name: value for name, value in parameters.items() if value not in (None, (), False)}
    return ", ".join(
        " ".join(filter(None, (name.replace("_", " "), "" if value is True else _parameter_words(value))))
        for name, value in given.items()
    )


def _parameter_words(value: Any) -> str:
    """A parameter value as short text."""
    if isinstance(value, str | bool):
        return str(value)
    if isinstance(value, int | float):
        return f"{value:.3g}" if value < MANY_DIGITS else f"{value:,.0f}"
    if isinstance(value, tuple):
        return f"{value[0]:g}-{value[-1]:g}"
    return str(getattr(value, "name", value))


MANY_DIGITS = 1000
"""Numbers from this size on are written out with thousands separators."""


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


OTHER_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "eagle": "speculative",
        "eagle3": "speculative",
        "medusa": "tree-drafting",
        "automatic-prefix-caching": "prefix-caching",
        "apc": "prefix-caching",
        "radixattention": "prefix-caching",
        "dp-attention": "attention-dp",
        "overlap-scheduling": "async-scheduling",
        "kv-offload": "offload",
        "tp": "tensor-parallelism",
        "ep": "expert-parallelism",
    }
)
"""Names that engines and papers use -> slug."""


def slug_of(name: str) -> str:
    """Return the slug that a name means: a slug with any separators, a title, or a name that engines use.

    Raises
    ------
    UnknownName
        No technique is called like this.

    Examples
    --------
    >>> slug_of("prefix_caching"), slug_of("Speculative decoding"), slug_of("EAGLE-3")
    ('prefix-caching', 'speculative', 'speculative')
    """
    if name in REGISTRY:
        return name
    wanted = _squeezed(name)
    for slug, kind in REGISTRY.items():
        if wanted in (_squeezed(slug), _squeezed(kind.name)):
            return slug
    for other, slug in OTHER_NAMES.items():
        if wanted == _squeezed(other):
            return slug
    raise unknown("technique", name, REGISTRY)


def _squeezed(name: str) -> str:
    """Letters and digits in lower case."""
    return re.sub(r"[^a-z0-9]", "", str(name).lower())


def technique_named(name: str) -> type[Technique]:
    """Return the technique with this slug or another of its names (see `slug_of`).

    Raises
    ------
    UnknownName
        No technique is called like this.
    """
    return REGISTRY[slug_of(name)]


Chosen = Iterable[Technique | str] | Technique | str
"""Techniques as values or by their slugs, one or several."""


def scenario_with(serve: Deployment, load: Workload, techniques: Chosen) -> Scenario:
    """Return the scenario of a deployment that uses these techniques.

    Parameters
    ----------
    serve, load : Deployment, Workload
        The deployment and its requests.
    techniques : Technique or str, or several of them
        Techniques, or slugs for techniques with default parameters.

    Raises
    ------
    InvalidInput
        Two techniques decide the same thing, or one does not apply to the deployment.
    """
    chosen = as_techniques(techniques)
    case = Scenario(serve, load)
    refuse(chosen, case)
    for item in chosen:
        case = item.after(item.given(case))
    return case


def as_techniques(techniques: Chosen) -> tuple[Technique, ...]:
    """Return techniques, or their slugs, as a tuple of `Technique` values.

    Raises
    ------
    InvalidInput
        An item is neither a technique nor a slug.
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
    """Raise if a technique does not apply to the deployment or does not combine with another."""
    refuse_pairs(techniques)
    if techniques:
        refuse_encoders(case.model, techniques[0].name)
    for item in techniques:
        if reason := item.refusal(case):
            raise InvalidInput(f"{item.name}: {reason}")


def refuse_pairs(techniques: tuple[Technique, ...]) -> None:
    """Raise if two techniques decide the same thing."""
    for one, other in combinations(techniques, 2):
        if both := sorted({*one.decides} & {*other.decides}):
            raise InvalidInput(f"{one.name} and {other.name} both decide {both[0]}; choose one")
