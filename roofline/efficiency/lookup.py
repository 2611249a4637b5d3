"""Lookup: whose kernels an estimate rests on.

An accelerator has its own, from timings; else those of its family, with what public figures say of its large products;
else what any chip's kernels have in common.  An engine whose kernels nobody has timed has what whole steps say of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from ..errors import unknown
from ..files import read_yaml
from ..hardware import Accelerator
from .large_products import MOST_OF_PEAK, flops_per_joule, math_of, power_share, public_share
from .store import PROFILES, Calibrated, Found, chosen, folder, form_of, profiles_of, specs


def kernels_for(accelerator: Accelerator, kind: str, profile: str | None = None, cases: tuple[str, ...] = ()) -> Found:
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
    return _find(_about(accelerator), kind, profile, cases, specs())


class About(NamedTuple):
    """What decides whose kernels an accelerator takes."""

    vendor: str
    architecture: str
    memory_type: str
    name: str
    flops_per_joule: float

    @property
    def words(self) -> tuple[str, str, str, str]:
        """What families are recognized by."""
        return self[:4]


def _about(accelerator: Accelerator) -> About:
    words = (accelerator.vendor, accelerator.architecture, accelerator.memory_type, accelerator.name)
    return About(*words, flops_per_joule(accelerator))


def profiles(accelerator: Accelerator) -> frozenset[str]:
    """Names of the profiles that there are parameters of, the user's own included."""
    return _profiles(accelerator.name, specs())


@lru_cache(maxsize=1024)
def _profiles(accelerator: str, folders: str) -> frozenset[str]:
    engines = (entry["engine"] for entry in _engines())
    return frozenset((*PROFILES, *engines, *profiles_of(accelerator, folders)))


@lru_cache(maxsize=4096)
def _find(
    about: About,
    kind: str,
    profile: str | None,
    cases: tuple[str, ...],
    folders: str,
) -> Found:
    name = about.name
    filed = profiles_of(name, folders)
    known = _profiles(name, folders)
    if profile is not None and profile not in known:
        raise unknown("engine profile", profile, known)
    entry = _engine_of(profile, about) if profile not in filed else {}
    if entry:
        lender = None if entry.get("like") == "accelerator" else entry.get("like")
        base = _find(about, kind, lender, cases, folders) if "like" in entry else None
        return _of_engine(entry, name, kind, base or typical_kernels(name, kind, family_of(*about.words)))
    own = chosen(filed, name, kind, profile, cases)
    if own:
        return own
    family = family_of(*about.words)
    lender = family.get("like", "")
    shared = chosen(profiles_of(lender, folders), lender, kind, profile, cases) if lender else None
    if shared:
        return _borrowed(about, shared, family)
    return typical_kernels(name, kind, family)


def _borrowed(about: About, shared: Found, family: Mapping[str, Any]) -> Found:
    """Kernels of another chip of the family, with the shares of peak that are known of this one."""
    wider = float(family.get("widen", 1.5))
    said = f"; {family['source']}" if "source" in family else ""
    basis = f"{about.name} not calibrated: {shared.basis}, which is of its family; interval widened{said}"
    changes = family.get("shares", {}).get(shared.kind.partition(".")[0], {}) | public_share(about.name, shared.kind)
    powered = shared.kind.startswith("gemm") and "compute" not in changes and "sustained_flops_per_joule" in family
    if powered:
        basis += "; large products reach the share of peak that its power allows"
    members = {}
    for engine, member in shared.members.items():
        known = power_share(member.parameters, about.flops_per_joule, family) if powered else {}
        members[engine] = replace(member, parameters={**member.parameters, **changes, **known})
    return replace(shared, members=members, low=shared.low**wider, high=shared.high**wider, basis=basis)


@lru_cache(maxsize=1)
def _families() -> list[dict[str, Any]]:
    return list(read_yaml(folder() / "families.yaml")["families"])


def family_of(vendor: str, architecture: str, memory_type: str, name: str = "") -> dict[str, Any]:
    """The first family whose every word is part of what the accelerator says of itself."""
    said = {"vendor": vendor, "architecture": architecture, "memory_type": memory_type}
    for family in _families():
        listed = name in family.get("names", (name,))
        if listed and matches(family, said):
            return family
    return {}


def matches(entry: Mapping[str, Any], said: Mapping[str, str]) -> bool:
    """Whether every word of an entry about vendor, architecture and memory is part of what an accelerator says."""
    return all(str(entry[key]).lower() in said[key].lower() for key in said if key in entry)


@lru_cache(maxsize=1)
def _engines() -> list[dict[str, Any]]:
    return list(read_yaml(folder() / "engines.yaml")["engines"])


def _engine_of(engine: str | None, about: About) -> dict[str, Any]:
    """What is known of an engine without timings of its kernels: the first entry whose words all fit."""
    said = dict(zip(("vendor", "architecture", "memory_type", "name"), about.words, strict=True))
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
    return min(share * float(gpu.peak_flops_per_s("int8") / gpu.peak_flops_per_s(math_of(kind))), MOST_OF_PEAK)


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
        if same and matches(entry, said):
            return str(entry["profile"])
    return engine


def typical_kernels(name: str, kind: str, family: Mapping[str, Any]) -> Found:
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
