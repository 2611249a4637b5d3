"""What files of kernel efficiency have to look like.

Which parameters a kind of kernel takes is checked where they are used.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Annotated, Any

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
"""Parameters that are a share of something: above 0 and at most 1."""

PowerShare = Annotated[FiniteFloat, Field(ge=0, le=3)]
"""A share of the TDP; what it would take to use one part in full may be more than the whole board may draw."""

MOST_OFF = 2.0
"""A median relative error beyond says that the parameters describe nothing."""


class KernelSpec(Strict):
    """Parameters of one kind of kernel, and how well they fit its timings."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    rows: Annotated[int, Field(ge=1)]
    """Timings that the parameters were fitted to."""
    residual: Annotated[FiniteFloat, Field(ge=0, le=MOST_OFF)]
    """Median of the absolute relative error that they leave."""
    bias: Annotated[FiniteFloat, Field(ge=-1, le=MOST_OFF)]
    """Median of the signed relative error."""
    low: Annotated[FiniteFloat, Field(gt=0, le=1.5)]
    """Measured over estimated at the 10th percentile."""
    high: Annotated[FiniteFloat, Field(gt=0)]
    """Measured over estimated at the 90th percentile."""

    __pydantic_extra__: dict[str, FiniteFloat | str]

    def doubts(self) -> Iterator[str]:
        """Yield a line for every parameter that can't be."""
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
    """Timings that cannot be of the kernel that they are called."""

    profile: str
    """Engine."""
    kind: str
    """Kind of kernel."""
    kernel: str = ""
    """What the timings call it."""
    rows: Annotated[int, Field(ge=1)]
    """How many there are."""
    reason: Annotated[str, Field(min_length=1)]
    """Why they cannot be."""


class EfficiencySpec(SpecFile):
    """One file of ``efficiency_specs/``: what kernels reach on one accelerator."""

    source: Annotated[str, Field(min_length=1)]
    """Where the timings are from."""
    kind: str = "measured"
    """``measured`` where the parameters are fitted to timings."""
    notes: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Doubts, and what was left out."""
    refused: Annotated[tuple[RefusedSpec, ...], Field(strict=False)] = ()
    """Groups of timings that cannot be what they are called, with the reason."""
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
        """The file itself: it needs no conversion."""
        return self


class FamilySpec(Strict):
    """Whose parameters accelerators of a kind take that have no file of their own."""

    vendor: str
    """Part of the vendor's name."""
    architecture: str = ""
    """Part of the name of the architecture."""
    memory_type: str = ""
    """Part of the type of memory."""
    like: str = ""
    """The calibrated accelerator that they are like."""
    widen: Annotated[FiniteFloat, Field(ge=1)] = 1.5
    """How much wider the interval is than that of the one they are like."""
    sustained_flops_per_joule: Annotated[FiniteFloat, Field(gt=0)] | None = None
    """Share of the peak that large products reach, cubed, times peak over TDP, in FLOP/J."""
    shares: Annotated[
        dict[str, Annotated[FiniteFloat, Field(gt=0, le=1)] | dict[str, FiniteFloat]], Field(default_factory=dict)
    ]
    """Published shares of peak, where nothing alike is calibrated."""
    spread: Annotated[FiniteFloat, Field(ge=1)] = 1.5
    """Interval of an estimate from shares: divided by and multiplied with this."""
    source: str = ""
    """Where the shares are published."""


class FamiliesSpec(Strict):
    """``efficiency_specs/families.yaml``."""

    families: Annotated[tuple[FamilySpec, ...], Field(strict=False, min_length=1)]
    """The first entry counts whose every word is part of what an accelerator says of itself."""

    kernels: Any = None
    """Kernels whose parameters hold for every accelerator of an architecture."""

    @property
    def name(self) -> str:
        """The name of the file."""
        return "families"

    def build(self) -> FamiliesSpec:
        """The file itself: it needs no conversion."""
        return self


class EngineKernelsSpec(Strict):
    """What whole steps say of the kernels of an engine, on accelerators of one vendor or of all."""

    engine: str
    """The engine."""
    vendor: str = ""
    """Part of the vendor's name."""
    memory_type: str = ""
    """Part of the type of memory."""
    like: str = ""
    """``accelerator`` where the other parameters are the chip's own, or the engine whose they are."""
    parameters: dict[str, dict[str, FiniteFloat]]
    """Kind of kernel, or ``every`` -> parameters."""
    spread: Annotated[FiniteFloat, Field(ge=1)]
    """Bounds of the 80% interval: divided by and multiplied with this."""
    source: Annotated[str, Field(min_length=1)]
    """Where the steps are published."""


class EnginesSpec(Strict):
    """``efficiency_specs/engines.yaml``."""

    engines: Annotated[tuple[EngineKernelsSpec, ...], Field(strict=False, min_length=1)]
    """The first entry whose words fit is taken."""

    @property
    def name(self) -> str:
        """The name of the file."""
        return "engines"

    def build(self) -> EnginesSpec:
        """The file itself: it needs no conversion."""
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
        """The file itself: it needs no conversion."""
        return self


class PowerFamilySpec(Strict):
    """What accelerators of a kind draw, as shares of their TDP."""

    vendor: str
    """Part of the vendor's name."""
    architecture: str = ""
    """Part of the name of the architecture."""
    memory_type: str = ""
    """Part of the type of memory."""
    boards: str
    """The accelerator that was measured."""
    idle: PowerShare
    """With nothing to do."""
    busy: PowerShare
    """On top, while kernels run."""
    memory: PowerShare
    """On top, at the full memory bandwidth."""
    compute: PowerShare
    """On top, at the full dense peak."""
    low: Annotated[FiniteFloat, Field(gt=0, le=1)]
    """Measured over predicted power at the 10th percentile."""
    high: Annotated[FiniteFloat, Field(ge=1)]
    """Measured over predicted power at the 90th percentile."""
    rows: Annotated[int, Field(ge=1)]
    """Steady states that the shares were fitted to."""
    error: Annotated[FiniteFloat, Field(ge=0, le=1)]
    """Median relative error on held-out models."""
    source: Annotated[str, Field(min_length=1)]
    """Where the power was measured."""


class OtherPowerSpec(Strict):
    """Accelerators whose power was not fitted."""

    idle: PowerShare
    """Share of the TDP with nothing to do."""
    low: Annotated[FiniteFloat, Field(gt=0, le=1)]
    """Least share of the TDP that was measured of any."""


class PowerCapSpec(Strict):
    """How the clock follows a power limit."""

    static: Annotated[FiniteFloat, Field(ge=0, lt=1)]
    """Share of the demand that does not depend on the clock."""
    static_low: Annotated[FiniteFloat, Field(ge=0, lt=1)]
    """The least such share that was measured of any board."""
    knee: Annotated[FiniteFloat, Field(gt=0, lt=1)]
    """Share of the full clock below which the voltage stays at its least."""
    voltage: Annotated[FiniteFloat, Field(gt=0, le=1)]
    """That least voltage over the one at the full clock."""
    source: Annotated[str, Field(min_length=1)]
    """Where limits were measured."""


class PowerSpec(Strict):
    """``efficiency_specs/power.yaml``: what accelerators draw."""

    families: Annotated[tuple[PowerFamilySpec, ...], Field(strict=False, min_length=1)]
    """The first entry counts whose every word is part of what an accelerator says of itself."""
    others: OtherPowerSpec
    """All others."""
    caps: PowerCapSpec
    """How the clock follows a power limit."""

    @property
    def name(self) -> str:
        """The name of the file."""
        return "power"

    def build(self) -> PowerSpec:
        """The file itself: it needs no conversion."""
        return self


def efficiency_doubts(spec: EfficiencySpec, known: Collection[str]) -> Iterator[str]:
    """Yield a line for every parameter that can't be, and for an accelerator that nothing is called."""
    if spec.name not in known:
        yield f"there is no accelerator {spec.name!r}, so this file is unused"
    for profile, kinds in spec.profiles.items():
        for kind, figures in kinds.items():
            yield from (f"profiles.{profile}.{kind}: {line}" for line in figures.doubts())
            if kind.startswith("collective.") and not re.fullmatch(r"collective\.\w+\.[1-9]\d*", kind):
                yield f"profiles.{profile}.{kind}: a collective is named with the number that takes part"


def family_doubts(spec: FamiliesSpec, calibrated: Collection[str]) -> Iterator[str]:
    """Yield a line for every family that is like nothing calibrated, or says nothing."""
    for at, family in enumerate(spec.families):
        if family.like and family.like not in calibrated:
            yield f"families.{at}: no file is named {family.like!r}"
        if not family.like and not family.shares:
            yield f"families.{at}: give like or shares"
