"""Lookup: which calibrated kernels an estimate uses.

An accelerator with timings uses its own kernels.  Without timings it borrows those of its family, corrected by public
measurements of large products (`roofline.efficiency.large_products`).  Without a family it uses values typical of any
chip.  Engines whose kernels were never timed use parameters derived from measured decode steps.
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
from .matrix_rates import Rates, borrowed_share, rates_of
from .store import PROFILES, Calibrated, Found, chosen, folder, form_of, profiles_of, specs


def kernels_for(accelerator: Accelerator, kind: str, profile: str | None = None, cases: tuple[str, ...] = ()) -> Found:
    """Calibrated kernels of a kind on an accelerator.

    Parameters
    ----------
    accelerator : Accelerator
        Its own kernels are used if it has timings, else those of its family.
    kind : str
        Kind of kernel, as returned by `roofline.efficiency.kinds.kind_of`.  The nearest format is used if this one has
        no timings.
    profile : str, optional
        Name of an engine.  None uses the kernels of all engines; an engine without timings of a kind uses those of
        the others.
    cases : tuple of str
        Special cases that apply to the shape (`roofline.efficiency.kinds.variants`).

    Returns
    -------
    Found
        Kernels, interval and basis.

    Raises
    ------
    UnknownName
        ``profile`` is not a known engine profile.
    """
    return _find(_about(accelerator), kind, profile, cases, specs())


SAME_FAMILY = "(same family)"
"""Marks a basis whose timings are of another accelerator of the family."""


class About(NamedTuple):
    """The properties of an accelerator that decide which kernels it uses."""

    vendor: str
    architecture: str
    memory_type: str
    name: str
    flops_per_joule: float
    rates: Rates

    @property
    def words(self) -> tuple[str, str, str, str]:
        """The properties by which families are recognized."""
        return self.vendor, self.architecture, self.memory_type, self.name


def _about(accelerator: Accelerator) -> About:
    words = (accelerator.vendor, accelerator.architecture, accelerator.memory_type, accelerator.name)
    return About(*words, flops_per_joule(accelerator), rates_of(accelerator))


def profiles(accelerator: Accelerator) -> frozenset[str]:
    """Names of all profiles with parameters, including the user's own."""
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
    return typical_kernels(name, kind, family, others_known=bool(filed))


def _borrowed(about: About, shared: Found, family: Mapping[str, Any]) -> Found:
    """Kernels of another chip of the family, corrected by what is known about this one's share of peak."""
    wider = float(family.get("widen", 1.5))
    said = f"; {family['source']}" if "source" in family else ""
    basis = f"{about.name} not calibrated: {shared.basis} {SAME_FAMILY}; interval widened{said}"
    changes = family.get("shares", {}).get(shared.kind.partition(".")[0], {}) | public_share(about.name, shared.kind)
    powered = shared.kind.startswith("gemm") and "compute" not in changes and "sustained_flops_per_joule" in family
    if powered:
        basis += "; large products reach the share of peak that its power allows"
    lent = _rates_of_lender(family)
    members = {}
    for engine, member in shared.members.items():
        known = power_share(member.parameters, about.flops_per_joule, family) if powered else {}
        known |= borrowed_share(member.parameters, shared.kind, lent, about.rates)
        members[engine] = replace(member, parameters={**member.parameters, **changes, **known})
    return replace(shared, members=members, low=shared.low**wider, high=shared.high**wider, basis=basis)


def _rates_of_lender(family: Mapping[str, Any]) -> Rates:
    """Return the peaks of a multiprocessor of the lending chip; empty if it is of another generation."""
    from ..specs.library import get_accelerator

    return () if "source" in family else rates_of(get_accelerator(family["like"]))


@lru_cache(maxsize=1)
def _families() -> list[dict[str, Any]]:
    return list(read_yaml(folder() / "families.yaml")["families"])


def family_of(vendor: str, architecture: str, memory_type: str, name: str = "") -> dict[str, Any]:
    """The first family whose vendor, architecture and memory type all match; empty if none does."""
    said = {"vendor": vendor, "architecture": architecture, "memory_type": memory_type}
    for family in _families():
        listed = name in family.get("names", (name,))
        if listed and matches(family, said):
            return family
    return {}


def matches(entry: Mapping[str, Any], said: Mapping[str, str]) -> bool:
    """Whether an entry's vendor, architecture and memory type are all contained in an accelerator's."""
    return all(str(entry[key]).lower() in said[key].lower() for key in said if key in entry)


@lru_cache(maxsize=1)
def _engines() -> list[dict[str, Any]]:
    return list(read_yaml(folder() / "engines.yaml")["engines"])


def _engine_of(engine: str | None, about: About) -> dict[str, Any]:
    """The first matching entry for an engine that has no kernel timings; empty if there is none."""
    said = dict(zip(("vendor", "architecture", "memory_type", "name"), about.words, strict=True))
    for entry in _engines():
        words = {key: str(entry[key]).lower() for key in said if key in entry}
        if entry["engine"] == engine and all(word in said[key].lower() for key, word in words.items()):
            return entry
    return {}


def _of_engine(entry: Mapping[str, Any], name: str, kind: str, base: Found) -> Found:
    """Kernels with parameters derived from whole decode steps of an engine, by kind and format."""
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
    """Convert a share of the int8 peak to a share of the peak that a kind computes at."""
    from ..specs.library import get_accelerator

    gpu = get_accelerator(name)
    return min(share * float(gpu.peak_flops_per_s("int8") / gpu.peak_flops_per_s(math_of(kind))), MOST_OF_PEAK)


@lru_cache(maxsize=1)
def _engine_kernels() -> list[dict[str, Any]]:
    return list(read_yaml(folder() / "families.yaml").get("kernels", []))


def profiles_run(
    accelerator: Accelerator, kind: str, engine: str | None, *, dispatched: bool = False
) -> tuple[str | None, ...]:
    """Profiles with the kernels that ``engine`` has for a kind of operator in a format; the fastest of them runs.

    Usually that is the engine's own profile.  ``families.yaml`` lists the exceptions, where servers run other kernels
    than those in the engine's timings.

    Parameters
    ----------
    accelerator : Accelerator
        Accelerator that runs them.
    kind : str
        Kind and format, such as ``experts.fp4``.
    engine : str or None
        Name of the engine; None stands for the median of all engines.
    dispatched : bool
        Whether an all-to-all brings the tokens.

    Returns
    -------
    tuple of str or None
        At least one profile.

    Examples
    --------
    >>> import roofline as rl
    >>> gb200 = rl.get_accelerator("gb200")
    >>> profiles_run(gb200, "experts.fp4", "trtllm"), profiles_run(gb200, "experts.fp8_block", "trtllm")
    (('sglang',), ('trtllm', 'sglang'))
    >>> profiles_run(gb200, "experts.bf16", "trtllm")
    ('trtllm',)
    """
    return _profiles_run(_about(accelerator), kind, engine, dispatched)


@lru_cache(maxsize=1024)
def _profiles_run(about: About, kind: str, engine: str | None, dispatched: bool) -> tuple[str | None, ...]:
    said = {"vendor": about.vendor, "architecture": about.architecture, "memory_type": about.memory_type}
    head, _, label = kind.partition(".")
    for entry in _engine_kernels():
        of_engine = entry.get("engine", engine) == engine and entry["kind"] == head
        of_format = label in entry.get("formats", (label,)) and (dispatched or not entry.get("dispatched", False))
        if of_engine and of_format and matches(entry, said):
            profiles = (engine if profile == "own" else str(profile) for profile in entry["profiles"])
            return tuple(dict.fromkeys(profiles))
    return (engine,)


def typical_kernels(name: str, kind: str, family: Mapping[str, Any], *, others_known: bool = False) -> Found:
    """Typical kernels of any chip, with the shares of peak published for the family.

    If other kinds of kernels are calibrated on this chip (``others_known``), the basis names the kind.
    """
    form = form_of(kind)
    parameters = {key: prior.typical for key, prior in form.priors.items()} | dict(form.choices[0])
    shares = family.get("shares", {})
    parameters |= {key: value for key, value in shares.items() if key in parameters}
    parameters |= shares.get(kind.partition(".")[0], {}) | public_share(name, kind)
    spread = float(family.get("spread", 1.5))
    said = family.get("source", "shares of peak typical of any chip")
    about = f"{kind} on {name}" if others_known else name
    member = Calibrated(parameters, 0, 0.0, 0.0, 1 / spread, spread, kind)
    return Found({"typical": member}, 1 / spread, spread, f"{about} not calibrated: {said}", kind)
