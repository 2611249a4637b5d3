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


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Parameters of one kind of kernel and what is known of them.

    Attributes
    ----------
    parameters : of the form
    rows : timings that they were fitted to; 0 for a typical value
    residual, bias : median of the absolute and of the signed relative error that they leave
    low, high : measured over estimated at the 10th and the 90th percentile
    kind : the kind that the form is of
    processors : multiprocessors, for chips that do not state them
    basis : all this in a sentence
    """

    parameters: Mapping[str, float]
    rows: int
    residual: float
    bias: float
    low: float
    high: float
    kind: str = "stream"
    processors: float = 100.0
    basis: str = ""

    @cached_property
    def form(self) -> Form:
        """The formula that the parameters are of."""
        return _form(self.kind)


@lru_cache(maxsize=1)
def folder() -> Path:
    """Where the parameter files are: inside an installed package, or beside it in a checkout."""
    here = Path(__file__).parent.parent
    return next(path for path in (here / "efficiency_specs", here.parent / "efficiency_specs") if path.is_dir())


Profiles = Mapping[str, Mapping[str, Mapping[str, float]]]
"""Profile -> kind -> parameters and figures."""


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
                wanted = {*FIGURES, *_form(kind).priors}
                if missing := sorted(wanted - set(values)):
                    raise SpecError(f"{path}: {profile}.{kind} lacks {', '.join(missing)}")
                if odd := next((key for key, value in values.items() if not isinstance(value, float | int)), None):
                    raise SpecError(f"{path}: {profile}.{kind}.{odd} must be a number: {values[odd]!r}")
    except (AttributeError, TypeError):
        raise SpecError(f"{path}: profiles must hold kinds, and kinds numbers") from None
    return dict(profiles)


def _form(kind: str) -> Form:
    head = str(kind).partition(".")[0]
    if head not in FORMS:
        raise unknown("kind of kernel", head, FORMS)
    return FORMS[head]


def find(accelerator: Accelerator, kind: str, profile: str | None = None) -> Calibrated:
    """Parameters for a kind of kernel on an accelerator.

    Its own if it has some, of the nearest format if not in this one; else those of its family.

    Raises
    ------
    UnknownName
        ``profile`` is none that there are parameters of.
    """
    about = (accelerator.vendor, accelerator.architecture, accelerator.memory_type)
    return _find(accelerator.name, about, kind, profile, specs())


def profiles(accelerator: Accelerator) -> frozenset[str]:
    """Names of the profiles that there are parameters of, the user's own included."""
    return frozenset((*PROFILES, *load(accelerator.name, specs())))


@lru_cache(maxsize=1)
def specs() -> str:
    """The user's folders of specs: ``ROOFLINE_SPECS``, read once."""
    return os.environ.get("ROOFLINE_SPECS", "")


@lru_cache(maxsize=4096)
def _find(name: str, about: tuple[str, str, str], kind: str, profile: str | None, folders: str) -> Calibrated:
    known = {*PROFILES, *load(name, folders)}
    if profile is not None and profile not in known:
        raise unknown("engine profile", profile, known)
    own = _of(name, kind, profile, folders)
    if own:
        return own
    family = family_of(*about)
    shared = _of(family.get("like", ""), kind, profile, folders)
    if shared:
        wider = float(family.get("widen", 1.5))
        basis = f"{name} not calibrated: {shared.basis}, which is of its family; interval widened"
        return replace(shared, low=shared.low**wider, high=shared.high**wider, basis=basis)
    return typical(name, kind, family)


def _of(name: str, kind: str, profile: str | None, folders: str) -> Calibrated | None:
    """Parameters filed under a name: of this profile or the default, in this format or the nearest."""
    profiles = load(name, folders)
    for wanted in dict.fromkeys((profile or "default", "default")):
        filed = profiles.get(wanted, {})
        for near in nearest(kind, filed):
            if near in filed:
                found = _calibrated(name, near, wanted, filed[near])
                return replace(found, kind="stream") if kind == "stream" else found
    return None


def nearest(kind: str, filed: Iterable[str] = ()) -> list[str]:
    """A kind and its stand-ins, nearest first: the same kernel in other formats, or in groups of other sizes."""
    head, _, label = kind.partition(".")
    if head == "stream":
        return ["gemm.bf16"]
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


def _calibrated(name: str, kind: str, profile: str, values: Mapping[str, float]) -> Calibrated:
    rows = int(values["rows"])
    return Calibrated(
        parameters={key: value for key, value in values.items() if key not in FIGURES},
        rows=rows,
        residual=values["residual"],
        bias=values["bias"],
        low=values["low"],
        high=values["high"],
        kind=kind,
        basis=f"{kind}: {rows:,} timings on {name} ({profile}), median error {values['residual']:.0%}",
    )


@lru_cache(maxsize=1)
def _families() -> list[dict[str, Any]]:
    return list(read_yaml(folder() / "families.yaml")["families"])


def family_of(vendor: str, architecture: str, memory_type: str) -> dict[str, Any]:
    """The first family whose every word is part of what the accelerator says of itself."""
    said = {"vendor": vendor, "architecture": architecture, "memory_type": memory_type}
    for family in _families():
        if all(family[key].lower() in said[key].lower() for key in said if key in family):
            return family
    return {}


def typical(name: str, kind: str, family: Mapping[str, Any]) -> Calibrated:
    """What kernels of any chip have in common, with the shares of peak published for the family."""
    head = kind.partition(".")[0]
    parameters = {key: prior.typical for key, prior in FORMS[head].priors.items()}
    parameters |= {"tile_m": 128.0, "tile_n": 128.0} if head == "gemm" else {}
    parameters |= {key: value for key, value in family.get("shares", {}).items() if key in parameters}
    spread = float(family.get("spread", 1.5))
    said = family.get("source", "shares of peak typical of any chip")
    return Calibrated(parameters, 0, 0.0, 0.0, 1 / spread, spread, kind, basis=f"{name} not calibrated: {said}")
