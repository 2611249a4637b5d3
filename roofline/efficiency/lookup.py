"""Lookup: whose kernels an estimate rests on.

An accelerator has its own, from timings; else those of its family, with what public figures say of its large products;
else what any chip's kernels have in common.  An engine whose kernels nobody has timed has what whole steps say of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ..errors import unknown
from ..files import read_yaml
from ..hardware import Accelerator
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
    about = (accelerator.vendor, accelerator.architecture, accelerator.memory_type, accelerator.name)
    return _find(about, kind, profile, cases, specs())


def profiles(accelerator: Accelerator) -> frozenset[str]:
    """Names of the profiles that there are parameters of, the user's own included."""
    return _profiles(accelerator.name, specs())


@lru_cache(maxsize=1024)
def _profiles(accelerator: str, folders: str) -> frozenset[str]:
    engines = (entry["engine"] for entry in _engines())
    return frozenset((*PROFILES, *engines, *profiles_of(accelerator, folders)))


@lru_cache(maxsize=4096)
def _find(
    about: tuple[str, str, str, str],
    kind: str,
    profile: str | None,
    cases: tuple[str, ...],
    folders: str,
) -> Found:
    name = about[-1]
    filed = profiles_of(name, folders)
    known = _profiles(name, folders)
    if profile is not None and profile not in known:
        raise unknown("engine profile", profile, known)
    entry = _engine_of(profile, about) if profile not in filed else {}
    if entry:
        lender = None if entry.get("like") == "accelerator" else entry.get("like")
        base = _find(about, kind, lender, cases, folders) if "like" in entry else None
        return _of_engine(entry, name, kind, base or typical_kernels(name, kind, family_of(*about)))
    own = chosen(filed, name, kind, profile, cases)
    if own:
        return own
    family = family_of(*about)
    lender = family.get("like", "")
    shared = chosen(profiles_of(lender, folders), lender, kind, profile, cases) if lender else None
    if shared:
        return _borrowed(name, shared, family)
    return typical_kernels(name, kind, family)


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
    if label == "w4int8":
        return "int8"
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
