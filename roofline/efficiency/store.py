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
from .attention_forms import DECODE, MLA_DECODE, MLA_PREFILL, PREFILL
from .forms import COLLECTIVE, EXPERTS, GEMM, STREAM, Form
from .kinds import NEAREST

FORMS: dict[str, Form] = {
    "gemm": GEMM,
    "attention_decode": DECODE,
    "attention_prefill": PREFILL,
    "mla_decode": MLA_DECODE,
    "mla_prefill": MLA_PREFILL,
    "experts": EXPERTS,
    "collective": COLLECTIVE,
    "stream": STREAM,
}
"""Kind of kernel -> its form."""

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
def profiles_of(name: str, folders: str = "") -> Profiles:
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


@lru_cache(maxsize=1)
def specs() -> str:
    """The user's folders of specs: ``ROOFLINE_SPECS``, read once."""
    return os.environ.get("ROOFLINE_SPECS", "")


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
