"""Accelerators: data sheet values in base units, with the source of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from .arrays import FrozenMapping, larger, last_axis
from .errors import InvalidInput, Number, UnknownName, number, unknown
from .formats import MATH_FORMATS, WIDER
from .units import humanize
from .values import Value


@dataclass(frozen=True)
class Provenance:
    """Source of a value.

    Attributes
    ----------
    printed : str
        The value as printed by the source, with its unit.
    source : str
        Title of the source.
    url : str
        Address of the source, if it has one.
    kind : str
        Whether it is quoted from the source, derived from a printed value, measured, or the user's own.
    verified : bool
        Whether the source was read for this value.
    note : str
        Further remarks.
    """

    printed: str
    source: str
    url: str = ""
    kind: str = "quoted"
    verified: bool = True
    note: str = ""

    def __str__(self) -> str:
        words = [self.source, f"prints {self.printed!r}" if self.kind == "derived" else self.printed]
        words += [self.kind] if self.kind != "quoted" else []
        words += ["unverified"] if not self.verified else []
        return ", ".join(words)


LINK_KINDS = ("switch_reduce", "switch", "mesh", "ring", "torus", "bridge")


@dataclass(frozen=True, eq=False)
class Link(Value):
    """A connection between accelerators.

    Attributes
    ----------
    name : str
        The vendor's name for the link.
    kind : str
        ``switch_reduce`` (a switch that also reduces), ``switch``, ``mesh``, ``ring``, ``torus`` or ``bridge``.
    bytes_per_s : float
        Total rate of all links of one accelerator, per direction.
    domain : int
        Number of accelerators connected.
    """

    name: str
    kind: str
    bytes_per_s: float
    domain: int

    def __post_init__(self) -> None:
        if self.kind not in LINK_KINDS:
            raise unknown("kind of link", self.kind, LINK_KINDS)
        object.__setattr__(self, "bytes_per_s", number("bytes_per_s", self.bytes_per_s, least=1.0))
        if np.ndim(number("domain", self.domain, least=1, whole=True)):
            raise InvalidInput(f"domain must be one number: {self.domain!r}")


@dataclass(frozen=True, eq=False, repr=False)
class Accelerator(Value):
    """An accelerator. Peaks are dense; every rate may be an array, for a sweep over hardware.

    Attributes
    ----------
    dense_flops_per_s : mapping of str to float or array
        Dense peak by math format; formats without units on this chip are absent.
    memory_bytes : float or array
        Memory size as the device reports it.
    memory_bytes_per_s : float or array
        Memory bandwidth.
    l2_bytes : float or array, optional
        Last-level cache or software-managed on-chip memory.
    scale_up : Link, optional
        Link within a domain, or None.
    host_bytes_per_s : float or array, optional
        Rate of the link to the host, one direction.
    nic_bytes_per_s : float or array, optional
        Rate of the network card, one direction.
    tdp_watts : float or array, optional
        Thermal design power, of the scope in ``tdp_scope``.
    narrow_accumulate_flops_per_s : mapping of str to float or array
        Peak with 16-bit accumulation, for chips where that is faster (GeForce). Some kernels use it, so the floor does
        too.
    sparse_flops_per_s : mapping of str to float or array
        Peak with structured sparsity, if the vendor states one; for information only.
    compute_units : float or array, optional
        Number of SMs, CUs or matrix units, as the vendor counts them.
    boost_clock_hz : float or array, optional
        Clock at which the peaks are quoted.
    max_clock_hz : float or array, optional
        Highest clock of the device.
    flops_per_clock_per_unit : mapping of str to float or array
        FLOPs per clock and unit, by math format; the peak is units x clock x this value.
    exponentials_per_clock_per_unit : float or array, optional
        Exponentials per clock and unit, computed by special-function units while the matrix units run.
    memory_bus_bits, memory_pin_bytes_per_s : float or array, optional
        Width of the memory bus and rate per pin; their product is the bandwidth.
    tdp_scope : str
        ``board`` (the accelerator alone), ``module`` (a module or package with its CPU) or ``machine`` (the whole
        machine, at the wall); empty if not stated.
    confidence : str
        How capacity, bandwidth and 16-bit peak were obtained: ``vendor-doc-read``, ``second-source``, ``remembered`` or
        ``user``.
    provenance : mapping of str to Provenance
        Field (``dense_flops_per_s.bf16`` for a peak) -> source of its value.
    """

    name: str
    title: str
    vendor: str
    dense_flops_per_s: Mapping[str, Number]
    memory_bytes: Number
    memory_bytes_per_s: Number
    architecture: str = ""
    year: int | None = None
    memory_type: str = ""
    l2_bytes: Number | None = None
    l2_bytes_per_s: Number | None = None
    scale_up: Link | None = None
    host_bytes_per_s: Number | None = None
    nic_bytes_per_s: Number | None = None
    tdp_watts: Number | None = None
    aliases: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    provenance: Mapping[str, Provenance] = field(default_factory=dict)
    narrow_accumulate_flops_per_s: Mapping[str, Number] = field(default_factory=dict)
    sparse_flops_per_s: Mapping[str, Number] = field(default_factory=dict)
    compute_units: Number | None = None
    boost_clock_hz: Number | None = None
    max_clock_hz: Number | None = None
    flops_per_clock_per_unit: Mapping[str, Number] = field(default_factory=dict)
    exponentials_per_clock_per_unit: Number | None = None
    memory_bus_bits: Number | None = None
    memory_pin_bytes_per_s: Number | None = None
    tdp_scope: str = ""
    confidence: str = "user"

    def __post_init__(self) -> None:
        for name in FIGURES_BY_FORMAT:
            object.__setattr__(self, name, _by_format(name, getattr(self, name)))
        object.__setattr__(self, "provenance", FrozenMapping(self.provenance))
        for name in ("memory_bytes", "memory_bytes_per_s", *OPTIONAL_FIGURES):
            value = getattr(self, name)
            if value is not None or name not in OPTIONAL_FIGURES:
                least = 0.0 if name in OPTIONAL_FIGURES else 1.0
                object.__setattr__(self, name, _figure(name, value, least=least))
        if self.scale_up is not None and not isinstance(self.scale_up, Link):
            raise InvalidInput(f"scale_up must be a Link: {self.scale_up!r}")

    def math_on_chip(self, math: str) -> str:
        """The format in which this chip computes ``math``: the format itself, or the next wider one with units.

        Raises
        ------
        UnknownName
            The chip has no units for the format or any wider one, or the format is unknown.
        """
        found = self._units.get(math)
        if found is not None:
            return found
        if math not in WIDER:
            raise unknown("math format", math, MATH_FORMATS)
        raise UnknownName(
            f"{self.name} has no units for {math} or wider; it has {', '.join(self.dense_flops_per_s) or 'none'}"
        )

    @cached_property
    def arrays(self) -> Mapping[str, npt.NDArray[Any]]:
        """Values that are arrays, by name, including those of the link between accelerators."""
        figures = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        for name in FIGURES_BY_FORMAT:
            figures |= {f"{name}.{math}": value for math, value in getattr(self, name).items()}
        if self.scale_up is not None:
            figures["scale_up.bytes_per_s"] = self.scale_up.bytes_per_s
        return {name: value for name, value in figures.items() if isinstance(value, np.ndarray)}

    @property
    def is_sweep(self) -> bool:
        """Whether any value is an array."""
        return bool(self.arrays)

    def with_new_axis(self) -> Accelerator:
        """A copy whose arrays have an additional last axis of length 1."""
        changes: dict[str, Any] = {item.name: last_axis(getattr(self, item.name)) for item in dataclasses.fields(self)}
        for name in FIGURES_BY_FORMAT:
            changes[name] = {math: last_axis(value) for math, value in changes[name].items()}
        if self.scale_up is not None:
            rate = last_axis(self.scale_up.bytes_per_s)
            changes["scale_up"] = dataclasses.replace(self.scale_up, bytes_per_s=rate)
        return self.replace(**changes)

    @cached_property
    def _units(self) -> Mapping[str, str]:
        """Format -> format whose units compute it, for all formats that the chip can compute."""
        found = {}
        for math, wider in WIDER.items():
            has = [candidate for candidate in (math, *wider) if candidate in self.dense_flops_per_s]
            if has:
                found[math] = has[0]
        return found

    def peak_flops_per_s(self, math: str) -> Number:
        """Dense peak for ``math``, including fallback to a wider format (see `math_on_chip`)."""
        return self.dense_flops_per_s[self.math_on_chip(math)]

    def fastest_flops_per_s(self, math: str) -> Number:
        """Highest dense rate of any kernel for ``math``, which must have units on this chip; used for floors.

        Peaks are quoted at a rated clock and with 32-bit accumulation.  Boards with power to spare run above that
        clock, up to ``max_clock_hz``, and kernels may accumulate in 16 bits where that is faster.

        Examples
        --------
        >>> import roofline as rl
        >>> gpu = rl.get_accelerator("rtx-4090")
        >>> gpu.dense_flops_per_s["fp16"] / 1e12, round(gpu.fastest_flops_per_s("fp16") / 1e12, 1)
        (165.2, 414.8)
        """
        return self._fastest[math]

    @cached_property
    def _fastest(self) -> Mapping[str, Number]:
        """Format -> highest rate of any kernel, for formats with units on this chip."""
        known = self.max_clock_hz is not None and self.boost_clock_hz is not None
        faster = larger(self.max_clock_hz / self.boost_clock_hz, 1.0) if known else 1.0  # type: ignore[operator]
        narrow = self.narrow_accumulate_flops_per_s
        return {math: faster * larger(peak, narrow.get(math, peak)) for math, peak in self.dense_flops_per_s.items()}

    @property
    def exponentials_per_s(self) -> Number | None:
        """Exponentials per second of the special-function units at the rated clock; None if not stated."""
        units, clock, each = self.compute_units, self.boost_clock_hz, self.exponentials_per_clock_per_unit
        if units is None or clock is None or each is None:
            return None
        return units * clock * each

    def ridge_flops_per_byte(self, math: str = "bf16") -> Number:
        """Ridge point, peak / bandwidth: the arithmetic intensity at which compute and memory take equally long."""
        return self.peak_flops_per_s(math) / self.memory_bytes_per_s

    def source_of(self, field_name: str) -> str:
        """Source of a field as a readable phrase."""
        return str(self.provenance.get(field_name, "set by the user"))

    def explain(self) -> tuple[str, ...]:
        """Every value with its source and whether it was derived or not verified, followed by the notes.

        Examples
        --------
        >>> import roofline as rl
        >>> print(rl.get_accelerator("tpu-v5e").explain()[0])
        dense_flops_per_s.bf16  197 TFLOP/s  (Google Cloud, TPU v5e, 197 TFLOP/s)
        """
        lines = [
            f"{path}  {humanize(_unit_of(path), value)}  ({self.source_of(path)})" for path, value in self._figures()
        ]
        return (*lines, *(f"note: {note}" for note in self.notes))

    def _figures(self) -> Iterator[tuple[str, Number]]:
        """All known values, by path."""
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Link):
                yield f"{item.name}.bytes_per_s", value.bytes_per_s
            elif isinstance(value, Mapping) and item.name != "provenance":
                yield from ((f"{item.name}.{math}", figure) for math, figure in value.items())
            elif isinstance(value, int | float | np.ndarray) and item.name != "year":
                yield item.name, value

    def __repr__(self) -> str:
        fastest = max(
            self.dense_flops_per_s, key=lambda math: float(np.max(self.dense_flops_per_s[math])), default=None
        )
        peak = f", {fastest} {humanize('flops_per_s', self.dense_flops_per_s[fastest])}" if fastest else ""
        memory = f"{humanize('bytes', self.memory_bytes)}, {humanize('bytes_per_s', self.memory_bytes_per_s)}"
        return f"Accelerator({self.name!r}, {memory}{peak})"

    def replace(self, **changes: Any) -> Accelerator:
        """A copy with changed values ("what if" hardware), whose source is the user.

        Examples
        --------
        >>> import roofline as rl
        >>> round_figures = {"bf16": 1000e12}
        >>> gpu = rl.get_accelerator("h100-sxm").replace(memory_bytes_per_s=3e12, dense_flops_per_s=round_figures)
        >>> round(gpu.ridge_flops_per_byte("bf16"))
        333
        """
        fields = {item.name for item in dataclasses.fields(self)}
        for name in changes:
            if name not in fields:
                raise unknown("field of an accelerator", name, fields)
        changes = self._narrow_with(changes.get("dense_flops_per_s", {})) | changes
        kept = {name: source for name, source in self.provenance.items() if name.split(".")[0] not in changes}
        return dataclasses.replace(self, **{"provenance": kept} | changes)

    def _narrow_with(self, peaks: Mapping[str, Number]) -> dict[str, Any]:
        """Peaks with 16-bit accumulation, scaled as ``peaks`` scale the ordinary ones."""
        narrow = {
            math: rate * (peaks[math] / self.dense_flops_per_s[math])
            for math, rate in self.narrow_accumulate_flops_per_s.items()
            if math in peaks
        }
        if peaks and narrow:
            return {"narrow_accumulate_flops_per_s": narrow}
        return {}


OPTIONAL_FIGURES = (
    "l2_bytes",
    "l2_bytes_per_s",
    "host_bytes_per_s",
    "nic_bytes_per_s",
    "tdp_watts",
    "compute_units",
    "boost_clock_hz",
    "max_clock_hz",
    "exponentials_per_clock_per_unit",
    "memory_bus_bits",
    "memory_pin_bytes_per_s",
)
"""Optional single values."""

FIGURES_BY_FORMAT = (
    "dense_flops_per_s",
    "narrow_accumulate_flops_per_s",
    "sparse_flops_per_s",
    "flops_per_clock_per_unit",
)
"""Fields with one value per math format."""


def _unit_of(path: str) -> str:
    """The part of a path that names the unit: ``dense_flops_per_s.bf16`` is in FLOP/s."""
    field_name, _, part = path.partition(".")
    return part if field_name == "scale_up" else field_name


def _figure(name: str, value: object, *, least: float = 0.0) -> Number:
    """A positive value as a float or a read-only array of floats, as NumPy integers overflow silently."""
    checked = number(name, value, least=least)
    if np.any(np.asarray(checked) <= 0):
        raise InvalidInput(f"{name} must be a finite number > 0: {float(np.min(checked)):g}")
    return checked if np.ndim(checked) else float(checked)


def _by_format(field_name: str, values: Mapping[str, Number]) -> Mapping[str, Number]:
    """A read-only copy of values by math format, after checking each."""
    if not isinstance(values, Mapping):
        raise InvalidInput(f"{field_name} must map math formats to FLOP/s, such as {{'bf16': 1e15}}: {values!r}")
    for name in values:
        if name not in MATH_FORMATS:
            raise unknown("math format", name, MATH_FORMATS)
    return FrozenMapping({name: _figure(f"{field_name}.{name}", value) for name, value in values.items()})
