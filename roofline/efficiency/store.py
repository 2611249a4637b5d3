"""Calibrated kernel parameters as they are stored: one YAML file per accelerator."""

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
"""Kind of kernel -> the form that predicts its time."""

PROFILES = ("default", "vllm", "sglang", "trtllm")
FIGURES = ("rows", "residual", "bias", "low", "high")
TEXTS = ("kernel",)

STAND_IN = 1.5
"""Exponent by which an interval widens if a kernel of another format or engine is used in place of the right one."""


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Fitted parameters of one kind of kernel, and how well they fit.

    Attributes
    ----------
    parameters : mapping of str to float
        Parameters of the form, by name.
    rows : int
        Number of timings in the fit; 0 for typical values.
    residual, bias : float
        Median absolute and median signed relative error on shapes left out of the fit.
    low, high : float
        Measured over estimated at the 10th and the 90th percentile.
    kind : str
        Kind of kernel, which decides the form.
    processors : float
        Number of multiprocessors, for chips whose data sheet does not state it.
    kernel : str
        Name of the kernel in the engine.
    graphs : bool
        Whether CUDA graphs shorten the fixed part.
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
        """The formula that takes these parameters."""
        return form_of(self.kind)


@dataclass(frozen=True, eq=False)
class Found:
    """Kernels used for an estimate: the named engine's, or one per engine, in which case their median is used.

    Attributes
    ----------
    members : mapping of str to Calibrated
        Engine -> its kernel's parameters.
    low, high : float
        Measured over estimated at the 10th and the 90th percentile.
    basis : str
        One sentence on what the parameters are based on.
    kind : str
        Kind that was found. It differs from the requested kind if that has no timings.
    """

    members: Mapping[str, Calibrated]
    low: float
    high: float
    basis: str
    kind: str


@lru_cache(maxsize=1)
def folder() -> Path:
    """Directory of the parameter files: inside an installed package, or beside it in a checkout."""
    here = Path(__file__).parent.parent
    return next(path for path in (here / "efficiency_specs", here.parent / "efficiency_specs") if path.is_dir())


Filed = Mapping[str, Mapping[str, Any]]
"""Kind -> parameters and fit statistics."""

Profiles = Mapping[str, Filed]
"""Profile -> kind -> parameters and fit statistics; ``default`` holds statistics only."""


LONGEST_NAME = 255
"""Bytes of a file's name that file systems take; an accelerator of a longer one has no file."""


@lru_cache(maxsize=64)
def profiles_of(name: str, folders: str = "") -> Profiles:
    """Profiles of the named accelerator; empty if it has no file.

    ``folders`` lists the user's own directories (``ROOFLINE_SPECS``), which take precedence.

    Raises
    ------
    SpecError
        The file is not a valid parameter file.
    """
    own = [Path(entry) for entry in folders.split(os.pathsep) if entry]
    for place in (*(path for entry in own for path in (entry / "efficiency_specs", entry)), folder()):
        path = place / f"{name}.yaml"
        if len(path.name) <= LONGEST_NAME and path.is_file() and "profiles" in (data := read_yaml(path)):
            return _checked(data["profiles"], path)
    return {}


def _checked(profiles: Any, path: Path) -> Profiles:
    """The profiles of a file, after checking that every kind has all its parameters and that all are numbers."""
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
        raise SpecError(f"{path}: profiles must contain kinds, and kinds must contain numbers") from None
    return dict(profiles)


def form_of(kind: str) -> Form:
    """Form of a kind of kernel; the part of the name before the first dot decides."""
    head = str(kind).partition(".")[0]
    if head not in FORMS:
        raise unknown("kind of kernel", head, FORMS)
    return FORMS[head]


@lru_cache(maxsize=1)
def specs() -> str:
    """The user's spec directories from ``ROOFLINE_SPECS``, read once."""
    return os.environ.get("ROOFLINE_SPECS", "")


def chosen(
    profiles: Profiles, name: str, kind: str, profile: str | None = None, cases: tuple[str, ...] = ()
) -> Found | None:
    """Kernels of one accelerator for a kind, or the nearest kind that has timings; None if there is none.

    Formats are tried from the nearest to the furthest.  Within each, the requested engine's own kernel comes first,
    then the median of the other engines.
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
    """`found`, with a wider interval and a note if it is of another format, group size or engine than requested."""
    missing_engine = "; none of " in found.basis
    if found.kind == kind and not missing_engine:
        return found
    basis = found.basis
    if found.kind != kind:
        of = basis.partition(", median error")[0]
        basis = f"stand-in for {kind}, of which there are no timings: {of}; interval widened"
    return replace(found, low=found.low**STAND_IN, high=found.high**STAND_IN, basis=basis)


def _as_stream(found: Found) -> Found:
    """Matrix products as a stand-in for operators without a shape."""
    members = {engine: replace(member, kind="stream") for engine, member in found.members.items()}
    return replace(found, members=members)


def _entry(filed: Filed, kind: str, cases: tuple[str, ...]) -> Mapping[str, Any] | None:
    """The first special case that has its own kernel, else the general kernel."""
    special = next((filed[f"{kind}.{case}"] for case in cases if f"{kind}.{case}" in filed), None)
    return special or filed.get(kind)


def nearest(kind: str, filed: Iterable[str] = ()) -> list[str]:
    """A kind and its substitutes, nearest first: the same kernel in other formats or group sizes."""
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
