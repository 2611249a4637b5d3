"""Schemas of kernel efficiency files.

The parameters of each kind of kernel are checked where they are used.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Annotated

from pydantic import ConfigDict, Field, FiniteFloat, field_validator

from ..errors import InvalidInput
from .schema import SpecFile, Strict

KINDS = (
    "gemm",
    "experts",
    "attention_prefill",
    "attention_decode",
    "mla_prefill",
    "mla_decode",
    "collective",
    "stream",
)
SHARES = ("compute", "memory", "link", "split", "window_leak")
"""Parameters that are shares: above 0 and at most 1."""

PowerShare = Annotated[FiniteFloat, Field(ge=0, le=3)]
"""A share of the TDP; it may exceed 1, as one component at full use could draw more than the board's limit."""

MOST_OFF = 2.0
"""Largest plausible median relative error of a fit."""


class KernelSpec(Strict):
    """Parameters of one kind of kernel, and how well they fit its timings."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    rows: Annotated[int, Field(ge=1)]
    """Number of timings in the fit."""
    residual: Annotated[FiniteFloat, Field(ge=0, le=MOST_OFF)]
    """Median absolute relative error of the fit."""
    bias: Annotated[FiniteFloat, Field(ge=-1, le=MOST_OFF)]
    """Median signed relative error of the fit."""
    low: Annotated[FiniteFloat, Field(gt=0, le=1.5)]
    """Measured over estimated at the 10th percentile."""
    high: Annotated[FiniteFloat, Field(gt=0)]
    """Measured over estimated at the 90th percentile."""

    __pydantic_extra__: dict[str, FiniteFloat | str]

    def doubts(self) -> Iterator[str]:
        """Yield a line for every impossible parameter."""
        if self.low > self.high:
            yield f"low {self.low:g} is above high {self.high:g}"
        for name, value in (self.__pydantic_extra__ or {}).items():
            if isinstance(value, str):
                continue
            if value < 0:
                yield f"{name} is negative: {value:g}"
            if name in SHARES and not 0 < value <= 1:
                yield f"{name} is a share, above 0 and at most 1: {value:g}"
            if name.endswith("_s") and value > 1:
                yield f"{name} is in seconds, and {value:g} s is no time of a kernel"


class RefusedSpec(Strict):
    """Rejected timings, which cannot be of the kernel that they are labeled with."""

    profile: str
    """Engine."""
    kind: str
    """Kind of kernel."""
    kernel: str = ""
    """Label of the timings."""
    rows: Annotated[int, Field(ge=1)]
    """Number of timings."""
    reason: Annotated[str, Field(min_length=1)]
    """Reason for the rejection."""


class EfficiencySpec(SpecFile):
    """One file of ``efficiency_specs/``: kernel parameters of one accelerator."""

    source: Annotated[str, Field(min_length=1)]
    """Source of the timings."""
    kind: str = "measured"
    """``measured`` if the parameters were fitted to timings."""
    notes: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Remarks on uncertainties and omissions."""
    refused: Annotated[tuple[RefusedSpec, ...], Field(strict=False)] = ()
    """Rejected groups of timings, with reasons."""
    profiles: Annotated[dict[str, dict[str, KernelSpec]], Field(min_length=1)]
    """Profile of an engine -> kind of kernel -> parameters."""

    @field_validator("profiles")
    @classmethod
    def _known_kinds(cls, profiles: dict[str, dict[str, KernelSpec]]) -> dict[str, dict[str, KernelSpec]]:
        for profile, kinds in profiles.items():
            for kind in kinds:
                if kind.partition(".")[0] not in KINDS:
                    raise InvalidInput(f"profiles.{profile}.{kind}: no kind of kernel; known: {', '.join(KINDS)}")
        return profiles

    def build(self) -> EfficiencySpec:
        """Return the file itself, which needs no conversion."""
        return self


class FamilySpec(Strict):
    """Parameters for accelerators of a family without files of their own."""

    vendor: str
    """Part of the vendor's name."""
    architecture: str = ""
    """Part of the name of the architecture."""
    memory_type: str = ""
    """Part of the type of memory."""
    like: str = ""
    """Name of the calibrated accelerator to borrow from."""
    widen: Annotated[FiniteFloat, Field(ge=1)] = 1.5
    """Exponent by which the borrowed interval is widened."""
    sustained_flops_per_joule: Annotated[FiniteFloat, Field(gt=0)] | None = None
    """Share of the peak that large products reach, cubed, times peak over TDP, in FLOP/J."""
    shares: Annotated[
        dict[str, Annotated[FiniteFloat, Field(gt=0, le=1)] | dict[str, FiniteFloat]], Field(default_factory=dict)
    ]
    """Published shares of peak, if no similar accelerator is calibrated."""
    spread: Annotated[FiniteFloat, Field(ge=1)] = 1.5
    """Factor for the interval of estimates from shares: from time / factor to time x factor."""
    source: str = ""
    """Source of the shares."""


class EngineKernelSpec(Strict):
    """Kernels that an engine has for a kind of operator, if they are not those that its own table timed."""

    engine: str | None = None
    """Name of the engine; every engine if there is none."""
    kind: str
    """Kind of kernel, without its format."""
    formats: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Formats of the kind; all if there are none."""
    dispatched: bool = False
    """Whether the entry holds only where an all-to-all brings the tokens."""
    vendor: str = ""
    """Part of the vendor's name."""
    architecture: str = ""
    """Part of the name of the architecture."""
    memory_type: str = ""
    """Part of the type of memory."""
    profiles: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    """Profiles with the kernels, the fastest of which runs; ``own`` is the engine's own."""
    source: Annotated[str, Field(min_length=1)]
    """Source that says which kernels run."""


class FamiliesSpec(Strict):
    """``efficiency_specs/families.yaml``."""

    families: Annotated[tuple[FamilySpec, ...], Field(strict=False, min_length=1)]
    """Families in order; the first that matches an accelerator is used."""

    kernels: Annotated[tuple[EngineKernelSpec, ...], Field(strict=False)] = ()
    """Kernels of engines that their own tables did not time; the first entry that matches is used."""

    @property
    def name(self) -> str:
        """The name of the file."""
        return "families"

    def build(self) -> FamiliesSpec:
        """Return the file itself, which needs no conversion."""
        return self


class EngineKernelsSpec(Strict):
    """Kernel parameters of an engine derived from whole steps, for one vendor or all."""

    engine: str
    """Name of the engine."""
    vendor: str = ""
    """Part of the vendor's name."""
    memory_type: str = ""
    """Part of the type of memory."""
    like: str = ""
    """Source of all other parameters: ``accelerator`` for the chip's own, or the name of an engine."""
    parameters: dict[str, dict[str, FiniteFloat]]
    """Kind of kernel, or ``every`` -> parameters."""
    spread: Annotated[FiniteFloat, Field(ge=1)]
    """Factor for the 80 % interval: from time / factor to time x factor."""
    source: Annotated[str, Field(min_length=1)]
    """Source of the measured steps."""


class EnginesSpec(Strict):
    """``efficiency_specs/engines.yaml``."""

    engines: Annotated[tuple[EngineKernelsSpec, ...], Field(strict=False, min_length=1)]
    """Entries in order; the first match is used."""

    @property
    def name(self) -> str:
        """The name of the file."""
        return "engines"

    def build(self) -> EnginesSpec:
        """Return the file itself, which needs no conversion."""
        return self


class PublicProductsSpec(Strict):
    """``efficiency_specs/public_products.yaml``: large matrix products measured in public."""

    sources: dict[str, dict[str, str]]
    """Name -> title and URL."""
    products: dict[str, dict[str, FiniteFloat | Annotated[tuple[str, ...], Field(strict=False)]]]
    """Accelerator -> TFLOP/s by format, and the sources."""

    @property
    def name(self) -> str:
        """The name of the file."""
        return "public_products"

    def build(self) -> PublicProductsSpec:
        """Return the file itself, which needs no conversion."""
        return self


class PowerFamilySpec(Strict):
    """Power of a family of accelerators as shares of their TDP."""

    vendor: str
    """Part of the vendor's name."""
    architecture: str = ""
    """Part of the name of the architecture."""
    memory_type: str = ""
    """Part of the type of memory."""
    boards: str
    """The accelerator that was measured."""
    idle: PowerShare
    """Share drawn when idle."""
    busy: PowerShare
    """Additional share while kernels run."""
    memory: PowerShare
    """Additional share at full memory bandwidth."""
    compute: PowerShare
    """Additional share at the full dense peak."""
    low: Annotated[FiniteFloat, Field(gt=0, le=1)]
    """Measured over predicted power at the 10th percentile."""
    high: Annotated[FiniteFloat, Field(ge=1)]
    """Measured over predicted power at the 90th percentile."""
    rows: Annotated[int, Field(ge=1)]
    """Number of steady states in the fit."""
    error: Annotated[FiniteFloat, Field(ge=0, le=1)]
    """Median relative error on held-out models."""
    source: Annotated[str, Field(min_length=1)]
    """Source of the power measurements."""


class OtherPowerSpec(Strict):
    """Power of accelerators without a fitted family."""

    idle: PowerShare
    """Share of the TDP drawn when idle."""
    low: Annotated[FiniteFloat, Field(gt=0, le=1)]
    """Lowest measured share of the TDP of any accelerator."""


class PowerCapSpec(Strict):
    """How the clock follows a power limit."""

    static: Annotated[FiniteFloat, Field(ge=0, lt=1)]
    """Share of the demand that does not depend on the clock."""
    static_low: Annotated[FiniteFloat, Field(ge=0, lt=1)]
    """Lowest measured value of that share."""
    knee: Annotated[FiniteFloat, Field(gt=0, lt=1)]
    """Share of the full clock below which the voltage stays at its minimum."""
    voltage: Annotated[FiniteFloat, Field(gt=0, le=1)]
    """Minimum voltage divided by the voltage at full clock."""
    source: Annotated[str, Field(min_length=1)]
    """Source of the measurements under power limits."""


class PowerSpec(Strict):
    """``efficiency_specs/power.yaml``: power models of accelerators."""

    families: Annotated[tuple[PowerFamilySpec, ...], Field(strict=False, min_length=1)]
    """Families in order; the first that matches an accelerator is used."""
    others: OtherPowerSpec
    """Accelerators without a matching family."""
    caps: PowerCapSpec
    """How the clock follows a power limit."""

    @property
    def name(self) -> str:
        """The name of the file."""
        return "power"

    def build(self) -> PowerSpec:
        """Return the file itself, which needs no conversion."""
        return self


def efficiency_doubts(spec: EfficiencySpec, known: Collection[str]) -> Iterator[str]:
    """Yield a line for every impossible parameter, and for an unknown accelerator."""
    if spec.name not in known:
        yield f"there is no accelerator {spec.name!r}, so this file is unused"
    for profile, kinds in spec.profiles.items():
        for kind, figures in kinds.items():
            yield from (f"profiles.{profile}.{kind}: {line}" for line in figures.doubts())
            if kind.startswith("collective.") and not re.fullmatch(r"collective\.\w+\.[1-9]\d*", kind):
                yield f"profiles.{profile}.{kind}: a collective is named with the number that takes part"


def family_doubts(spec: FamiliesSpec, calibrated: Collection[str]) -> Iterator[str]:
    """Yield a line for every family without parameters, or that borrows from an uncalibrated accelerator."""
    for at, family in enumerate(spec.families):
        if family.like and family.like not in calibrated:
            yield f"families.{at}: no file is named {family.like!r}"
        if not family.like and not family.shares:
            yield f"families.{at}: give like or shares"
