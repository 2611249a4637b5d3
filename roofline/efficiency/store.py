"""The store of calibrated parameters: a YAML file an accelerator, and the families of those that have none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import log2
from pathlib import Path
from typing import Any

from ..errors import SpecError, unknown
from ..files import read_yaml
from ..hardware import Accelerator
from .forms import FORMS, Form
from .kinds import NEAREST

PROFILES = ("default", "vllm", "sglang", "trtllm")
FIGURES = ("rows", "residual", "bias", "low", "high")
TEXTS = ("kernel",)

STAND_IN = 1.5
"""Exponent that widens the interval of a kernel that stands in for another format, or of another engine."""


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Parameters of one kind of kernel and what is known of them.

    Attributes
    ----------
    parameters : mapping of str to float
        Of the form.
    rows : int
        Timings that they were fitted to; 0 for a typical value.
    residual, bias : float
        Median of the absolute and of the signed relative error that they leave on shapes left out of the fit.
    low, high : float
        Measured over estimated at the 10th and the 90th percentile.
    kind : str
        The kind that the form is of.
    processors : float
        Multiprocessors, for chips that do not state them.
    kernel : str
        What the engine calls the kernel.
    graphs : bool
        Whether the fixed part shrinks in a captured graph.
    """

    parameters: Mapping[str, float]
    rows: int
    residual: float
    bias: float
    low: float
    high: float
    kind: str = "stream"
    processors: float = 100.0
    kernel: str = ""
    graphs: bool = True

    @cached_property
    def form(self) -> Form:
        """The formula that the parameters are of."""
        return form_of(self.kind)


@dataclass(frozen=True, eq=False)
class Found:
    """The kernels that an estimate rests on: one of a named engine, or one of each engine, whose median counts.

    Attributes
    ----------
    members : mapping of str to Calibrated
        Engine -> its kernel.
    low, high : float
        Measured over estimated at the 10th and the 90th percentile.
    basis : str
        What all this rests on, in a sentence.
    kind : str
        The kind that was found; another than the one asked for if there are no timings of that.
    """

    members: Mapping[str, Calibrated]
    low: float
    high: float
    basis: str
    kind: str


@lru_cache(maxsize=1)
def folder() -> Path:
    """Where the parameter files are: inside an installed package, or beside it in a checkout."""
    here = Path(__file__).parent.parent
    return next(path for path in (here / "efficiency_specs", here.parent / "efficiency_specs") if path.is_dir())


Filed = Mapping[str, Mapping[str, Any]]
"""Kind -> parameters and figures."""

Profiles = Mapping[str, Filed]
"""Profile -> kind -> parameters and figures; ``default`` holds figures only."""


@lru_cache(maxsize=64)
def load(name: str, folders: str = "") -> Profiles:
    """Profiles of the accelerator of that name; empty if it has no file.

    ``folders`` lists the user's own (``ROOFLINE_SPECS``); a file there comes first.

    Raises
    ------
    SpecError
        The file is not one of parameters.
    """
    own = [Path(entry) for entry in folders.split(os.pathsep) if entry]
    for place in (*(path for entry in own for path in (entry / "efficiency_specs", entry)), folder()):
        path = place / f"{name}.yaml"
        if path.is_file() and "profiles" in (data := read_yaml(path)):
            return _checked(data["profiles"], path)
    return {}


def _checked(profiles: Any, path: Path) -> Profiles:
    """The profiles of a file, if every kind has its parameters and every one is a number."""
    try:
        for profile, kinds in profiles.items():
            for kind, values in kinds.items():
                names = form_of(kind).names
                parameters = frozenset() if profile == "default" else names
                if missing := sorted({*FIGURES, *parameters} - set(values)):
                    raise SpecError(f"{path}: {profile}.{kind} lacks {', '.join(missing)}")
                for key, value in values.items():
                    if key not in TEXTS and not isinstance(value, float | int):
                        raise SpecError(f"{path}: {profile}.{kind}.{key} must be a number: {value!r}")
    except (AttributeError, TypeError):
        raise SpecError(f"{path}: profiles must hold kinds, and kinds numbers") from None
    return dict(profiles)


def form_of(kind: str) -> Form:
    """The form of a kind, which is the part of its name before the first dot."""
    head = str(kind).partition(".")[0]
    if head not in FORMS:
        raise unknown("kind of kernel", head, FORMS)
    return FORMS[head]


def find(accelerator: Accelerator, kind: str, profile: str | None = None, cases: tuple[str, ...] = ()) -> Found:
    """The kernels of a kind on an accelerator.

    Parameters
    ----------
    accelerator : Accelerator
        Whose kernels: its own if there are timings of some, else those of its family.
    kind : str
        As `roofline.efficiency.kinds.kind_of` says it; in the nearest format if there are no timings of this one.
    profile : str, optional
        An engine.  Without one, the kernels of all engines.  An engine without timings of a kind has those of the
        others.
    cases : tuple of str
        Special cases that the shape is one of (`roofline.efficiency.kinds.variants`).

    Returns
    -------
    Found
        Kernels, interval and basis.

    Raises
    ------
    UnknownName
        ``profile`` is none that there are parameters of.
    """
    about = (accelerator.vendor, accelerator.architecture, accelerator.memory_type, accelerator.name)
    return _find(about, kind, profile, cases, specs())


@lru_cache(maxsize=1)
def _public_products() -> dict[str, dict[str, Any]]:
    return dict(read_yaml(folder() / "public_products.yaml")["products"])


PUBLIC_FORMATS = {"bf16": ("bf16", "fp16"), "fp8": ("fp8",), "int8": ("int8",), "fp4": ("fp4",)}
"""Math of a product -> the formats of public figures that tell of it, the best one first."""


def public_share(name: str, kind: str) -> dict[str, float]:
    """What public figures of large products say of a kernel: the share of the peak that it reaches at most.

    Large products ran until the clock was steady, so that nothing droops beyond it.  Chips whose peak is small for
    their power (GeForce cards, L20, H20) reach all of it, large ones about three quarters.

    Parameters
    ----------
    name : str
        An accelerator of the library.
    kind : str
        ``gemm`` or ``experts`` with a format.

    Returns
    -------
    dict
        ``compute`` and ``droop``; empty where there is no figure.
    """
    from ..specs.library import get_accelerator

    head = kind.partition(".")[0]
    figures = _public_products().get(name, {})
    if head != "gemm" or not figures:
        return {}
    peaks = get_accelerator(name).dense_flops_per_s
    math = _math_of(kind)
    wanted = (*PUBLIC_FORMATS.get(math, ()), "bf16", "fp16")
    found = next((form for form in wanted if form in figures and form in peaks), None)
    if found is None:
        return {}
    return {"compute": min(figures[found] * 1e12 / float(peaks[found]), MOST_OF_PEAK), "droop": 0.0}


MOST_OF_PEAK = 0.99


def profiles(accelerator: Accelerator) -> frozenset[str]:
    """Names of the profiles that there are parameters of, the user's own included."""
    engines = (entry["engine"] for entry in _engines())
    return frozenset((*PROFILES, *engines, *load(accelerator.name, specs())))


@lru_cache(maxsize=1)
def specs() -> str:
    """The user's folders of specs: ``ROOFLINE_SPECS``, read once."""
    return os.environ.get("ROOFLINE_SPECS", "")


@lru_cache(maxsize=4096)
def _find(
    about: tuple[str, str, str, str],
    kind: str,
    profile: str | None,
    cases: tuple[str, ...],
    folders: str,
) -> Found:
    name = about[-1]
    filed = load(name, folders)
    known = {*PROFILES, *(entry["engine"] for entry in _engines()), *filed}
    if profile is not None and profile not in known:
        raise unknown("engine profile", profile, known)
    entry = _engine_of(profile, about) if profile not in filed else {}
    if entry:
        base = _find(about, kind, None, cases, folders) if "like" in entry else None
        return _of_engine(entry, name, kind, base or typical(name, kind, family_of(*about)))
    own = chosen(filed, name, kind, profile, cases)
    if own:
        return own
    family = family_of(*about)
    lender = family.get("like", "")
    shared = chosen(load(lender, folders), lender, kind, profile, cases) if lender else None
    if shared:
        return _borrowed(name, shared, family)
    return typical(name, kind, family)


def _borrowed(name: str, shared: Found, family: Mapping[str, Any]) -> Found:
    """Kernels of another chip of the family, with the shares of peak that are published for this one."""
    wider = float(family.get("widen", 1.5))
    said = f"; {family['source']}" if "source" in family else ""
    basis = f"{name} not calibrated: {shared.basis}, which is of its family; interval widened{said}"
    changes = family.get("shares", {}).get(shared.kind.partition(".")[0], {}) | public_share(name, shared.kind)
    members = {
        engine: replace(member, parameters={**member.parameters, **changes})
        for engine, member in shared.members.items()
    }
    return replace(shared, members=members, low=shared.low**wider, high=shared.high**wider, basis=basis)


def chosen(
    profiles: Profiles, name: str, kind: str, profile: str | None = None, cases: tuple[str, ...] = ()
) -> Found | None:
    """The kernels of a kind among those of one accelerator; None if there are none, nor any that is near.

    For each format, nearest first: the engine's own, else the median of the others'.
    """
    engines = [engine for engine in profiles if engine != "default" and not engine.endswith("-eager")]
    if kind == "stream":
        found = chosen(profiles, name, "gemm.bf16", profile)
        return found and _as_stream(found)
    kinds = dict.fromkeys(near for filed in profiles.values() for near in nearest(kind, filed))
    for near in sorted(kinds, key=list(kinds).index):
        if profile not in (None, "default") and (entry := _entry(profiles.get(profile or "", {}), near, cases)):
            member = _calibrated(entry, near)
            basis = f"{near}: {member.rows:,} timings on {name} ({profile}), median error {member.residual:.0%}"
            return _flagged(Found({str(profile): member}, member.low, member.high, basis, near), kind)
        members = {
            engine: _calibrated(entry, near)
            for engine in engines
            if (entry := _entry(profiles[engine], near, cases)) is not None
        }
        if members:
            return _flagged(_middle(profiles, name, near, members, profile), kind)
    return None


def _middle(profiles: Profiles, name: str, kind: str, members: dict[str, Calibrated], profile: str | None) -> Found:
    rows = sum(member.rows for member in members.values())
    figures = profiles.get("default", {}).get(kind) or {
        "low": min(member.low for member in members.values()),
        "high": max(member.high for member in members.values()),
        "residual": max(member.residual for member in members.values()),
    }
    whose = f"median of {', '.join(sorted(members))}" if len(members) > 1 else next(iter(members))
    missing = f"; none of {profile}" if profile not in (None, "default", *members) else ""
    basis = f"{kind}: {rows:,} timings on {name} ({whose}), median error {figures['residual']:.0%}{missing}"
    return Found(members, figures["low"], figures["high"], basis, kind)


def _flagged(found: Found, kind: str) -> Found:
    """What was found, widened and said to stand in if it is of another format, size of group or engine."""
    missing_engine = "; none of " in found.basis
    if found.kind == kind and not missing_engine:
        return found
    basis = found.basis
    if found.kind != kind:
        of = basis.partition(", median error")[0]
        basis = f"stand-in for {kind}, of which there are no timings: {of}; interval widened"
    return replace(found, low=found.low**STAND_IN, high=found.high**STAND_IN, basis=basis)


def _as_stream(found: Found) -> Found:
    """Products of matrices as what is known of work without a shape."""
    members = {engine: replace(member, kind="stream") for engine, member in found.members.items()}
    return replace(found, members=members)


def _entry(filed: Filed, kind: str, cases: tuple[str, ...]) -> Mapping[str, Any] | None:
    """The kernel of the first special case that has one, else the plain one."""
    special = next((filed[f"{kind}.{case}"] for case in cases if f"{kind}.{case}" in filed), None)
    return special or filed.get(kind)


def nearest(kind: str, filed: Iterable[str] = ()) -> list[str]:
    """A kind and its stand-ins, nearest first: the same kernel in other formats, or in groups of other sizes."""
    head, _, label = kind.partition(".")
    if head == "collective":
        return _other_sizes(kind, filed)
    found = [kind]
    while label in NEAREST:
        label = NEAREST[label]
        found.append(f"{head}.{label}")
    return found


def _other_sizes(kind: str, filed: Iterable[str]) -> list[str]:
    name, _, size = kind.rpartition(".")
    sizes = [int(other.rpartition(".")[2]) for other in filed if other.rpartition(".")[0] == name]
    return [f"{name}.{other}" for other in sorted(sizes, key=lambda n: abs(log2(n / float(size))))]


def _calibrated(values: Mapping[str, Any], kind: str) -> Calibrated:
    return Calibrated(
        parameters={key: value for key, value in values.items() if key not in (*FIGURES, *TEXTS)},
        rows=int(values["rows"]),
        residual=values["residual"],
        bias=values["bias"],
        low=values["low"],
        high=values["high"],
        kind=kind,
        kernel=str(values.get("kernel", "")),
    )


@lru_cache(maxsize=1)
def _families() -> list[dict[str, Any]]:
    return list(read_yaml(folder() / "families.yaml")["families"])


def family_of(vendor: str, architecture: str, memory_type: str, name: str = "") -> dict[str, Any]:
    """The first family whose every word is part of what the accelerator says of itself."""
    said = {"vendor": vendor, "architecture": architecture, "memory_type": memory_type}
    for family in _families():
        listed = name in family.get("names", (name,))
        if listed and all(family[key].lower() in said[key].lower() for key in said if key in family):
            return family
    return {}


@lru_cache(maxsize=1)
def _engines() -> list[dict[str, Any]]:
    return list(read_yaml(folder() / "engines.yaml")["engines"])


def captures_graphs(engine: str | None) -> bool:
    """Whether an engine launches a decode step as one captured graph, as servers do."""
    return engine not in {entry["engine"] for entry in _engines()}


def _engine_of(engine: str | None, about: tuple[str, str, str, str]) -> dict[str, Any]:
    """What is known of an engine without timings of its kernels: the first entry whose words all fit."""
    said = dict(zip(("vendor", "architecture", "memory_type", "name"), about, strict=True))
    for entry in _engines():
        words = {key: str(entry[key]).lower() for key in said if key in entry}
        if entry["engine"] == engine and all(word in said[key].lower() for key, word in words.items()):
            return entry
    return {}


def _of_engine(entry: Mapping[str, Any], name: str, kind: str, base: Found) -> Found:
    """Kernels with what whole steps of an engine say of them, by kind of kernel and format."""
    head = kind.partition(".")[0]
    known = entry.get("parameters", {})
    changes = {**known.get("every", {}), **known.get(head, {}), **known.get(kind, {})}
    if "int8_share" in changes:
        changes["compute"] = _of_int8_peak(name, kind, changes.pop("int8_share"))
    spread = float(entry.get("spread", 1.3))
    members = {
        str(entry["engine"]): replace(member, parameters={**member.parameters, **changes}, graphs=False)
        for member in list(base.members.values())[:1]
    }
    if "like" in entry:
        members = {
            engine: replace(member, parameters={**member.parameters, **changes}, graphs=False)
            for engine, member in base.members.items()
        }
    basis = f"{name}: no timings of {entry['engine']}'s kernels; {entry['source']}"
    return Found(members, 1 / spread, spread, basis, kind)


def _of_int8_peak(name: str, kind: str, share: float) -> float:
    """A share of the 8-bit peak as one of the peak that a kind computes at, both of the library's data sheet."""
    from ..specs.library import get_accelerator

    gpu = get_accelerator(name)
    return min(share * float(gpu.peak_flops_per_s("int8") / gpu.peak_flops_per_s(_math_of(kind))), MOST_OF_PEAK)


def _math_of(kind: str) -> str:
    """The math of a product's kind."""
    label = kind.partition(".")[2]
    if label.endswith("a16"):
        return "bf16"
    return "fp8" if label in ("fp8_block", "w4a8", "mx4a8") else label


@lru_cache(maxsize=1)
def _renamed() -> list[dict[str, Any]]:
    return list(read_yaml(folder() / "families.yaml").get("kernels", []))


def runs_kernels_of(accelerator: Accelerator, kind: str, engine: str | None) -> str | None:
    """The profile whose table holds the kernels that ``engine`` runs for operators of a kind.

    Its own, but where ``families.yaml`` says that servers run other kernels than the engine's table timed.
    """
    said = {
        "vendor": accelerator.vendor,
        "architecture": accelerator.architecture,
        "memory_type": accelerator.memory_type,
    }
    for entry in _renamed():
        same = (entry["engine"], entry["kind"]) == (engine, kind)
        if same and all(entry[key].lower() in said[key].lower() for key in said if key in entry):
            return str(entry["profile"])
    return engine


def typical(name: str, kind: str, family: Mapping[str, Any]) -> Found:
    """What kernels of any chip have in common, with the shares of peak published for the family."""
    form = form_of(kind)
    parameters = {key: prior.typical for key, prior in form.priors.items()} | dict(form.choices[0])
    shares = family.get("shares", {})
    parameters |= {key: value for key, value in shares.items() if key in parameters}
    parameters |= shares.get(kind.partition(".")[0], {}) | public_share(name, kind)
    spread = float(family.get("spread", 1.5))
    said = family.get("source", "shares of peak typical of any chip")
    member = Calibrated(parameters, 0, 0.0, 0.0, 1 / spread, spread, kind)
    return Found({"typical": member}, 1 / spread, spread, f"{name} not calibrated: {said}", kind)
