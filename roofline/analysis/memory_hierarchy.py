"""Memory hierarchy: one roofline for each level through which operands pass.

The roofline of a level is ``min(peak, intensity of the level * bandwidth of the level)``; the lowest limits a
kernel (Yang, Kurth and Williams, *Hierarchical roofline analysis for GPUs*, Concurrency and Computation:
Practice and Experience 32(20), 2020).  A kernel with large tiles has a high intensity at every on-chip level, so
only the memory matters.  With small tiles an on-chip level may limit it.

Not modeled: latencies, bank conflicts, and operands that newer matrix units read directly from shared memory
(Hopper's ``wgmma``) instead of registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput
from ..hardware import Accelerator
from ..operators.products import matmul
from ..operators.tiling import Tiling, level_bytes
from ..report import Rows
from ..specs.library import get_accelerator
from ..values import Value

SHARED_BYTES_PER_CLOCK = 128.0
"""32 banks of 4 bytes per clock in NVIDIA multiprocessors since 2014 (CUDA C++ Programming Guide, shared memory)."""

OPERAND_BYTES = 12.0
"""Three 32-bit operands, which registers deliver at least for each multiply-add of the fp32 units."""


@dataclass(frozen=True, eq=False)
class MemoryLevel(Value):
    """Traffic of a product through one level of the hierarchy.

    Attributes
    ----------
    name : str
        ``memory``, ``l2``, ``shared`` or ``registers``.
    moved_bytes : float
        Bytes that pass through the level.
    bytes_per_s : float
        Bandwidth of the level.
    """

    name: str
    moved_bytes: float
    bytes_per_s: float

    @property
    def time_s(self) -> float:
        """Time of this level alone."""
        return self.moved_bytes / self.bytes_per_s


@dataclass(frozen=True, eq=False, repr=False)
class MemoryHierarchy(Rows):
    """A matrix product at every level of the memory hierarchy, one row per level, the memory first.

    Attributes
    ----------
    accelerator : Accelerator
        Accelerator that runs the product.
    shape : tuple of int
        ``m, k, n`` of the product ``[m, k] @ [k, n]``.
    flops, peak_flops_per_s : float
        FLOPs of the product, and the peak of the units that compute it.
    levels : tuple of MemoryLevel
        Levels, from memory inwards.
    """

    accelerator: Accelerator
    shape: tuple[int, int, int]
    flops: float
    peak_flops_per_s: float
    levels: tuple[MemoryLevel, ...]

    columns = ("level", "moved_bytes", "bytes_per_s", "intensity_flops_per_byte", "ridge_flops_per_byte", "time_s")
    printed = {  # noqa: RUF012
        "level": "level",
        "moved_bytes": "moved",
        "bytes_per_s": "bandwidth",
        "intensity_flops_per_byte": "intensity",
        "ridge_flops_per_byte": "ridge",
        "time_s": "time",
    }

    @property
    def level(self) -> npt.NDArray[Any]:
        """Names of the levels."""
        return np.array([each.name for each in self.levels])

    @property
    def moved_bytes(self) -> npt.NDArray[Any]:
        """Bytes that pass through each level."""
        return np.array([each.moved_bytes for each in self.levels])

    @property
    def bytes_per_s(self) -> npt.NDArray[Any]:
        """Bandwidth of each level."""
        return np.array([each.bytes_per_s for each in self.levels])

    @property
    def time_s(self) -> npt.NDArray[Any]:
        """Time of each level alone."""
        return np.array([each.time_s for each in self.levels])

    @property
    def intensity_flops_per_byte(self) -> npt.NDArray[Any]:
        """FLOPs per byte at each level."""
        return self.flops / self.moved_bytes

    @property
    def ridge_flops_per_byte(self) -> npt.NDArray[Any]:
        """Intensity above which a level does not limit the units."""
        return self.peak_flops_per_s / self.bytes_per_s

    @property
    def compute_s(self) -> float:
        """Time of the FLOPs at the peak."""
        return self.flops / self.peak_flops_per_s

    @property
    def roofline_s(self) -> float:
        """The longest of all times; everything else overlaps with it."""
        return max(self.compute_s, float(self.time_s.max()))

    @property
    def limit(self) -> str:
        """What takes longest: ``compute`` or the name of a level."""
        slowest = max(self.levels, key=lambda each: each.time_s)
        return "compute" if self.compute_s >= slowest.time_s else slowest.name

    @property
    def attained_flops_per_s(self) -> float:
        """FLOPs over the roofline time."""
        return self.flops / self.roofline_s


def memory_hierarchy(
    m: int,
    k: int,
    n: int,
    accelerator: Accelerator | str,
    *,
    weights: str = "bf16",
    activations: str = "bf16",
    tiling: Tiling | None = None,
) -> MemoryHierarchy:
    """Compare ``[m, k] @ [k, n]`` with the rooflines of memory, L2 cache, shared memory and registers of a GPU.

    Memory moves each operand and the result once. On-chip levels move what the tiles need
    (`roofline.operators.tiling`). The bandwidth of shared memory is 128 bytes per clock and multiprocessor; registers
    deliver at least three operands for each multiply-add of the fp32 units.

    Parameters
    ----------
    m, k, n : int
        Shape of the product; ``[k, n]`` are the weights.
    accelerator : Accelerator or str
        NVIDIA GPU whose spec states the bandwidth of the L2 cache.
    weights, activations : str
        Formats of the operands.
    tiling : Tiling, optional
        Tiles of the kernel; None uses those of a large kernel.

    Returns
    -------
    MemoryHierarchy
        One row per level, the limit of the product, and its highest possible rate.

    Raises
    ------
    InvalidInput
        The spec does not state the bandwidth of the levels.

    Examples
    --------
    >>> import roofline as rl
    >>> found = rl.memory_hierarchy(4096, 4096, 4096, "a100-sxm-80gb")
    >>> found.limit, found.ridge_flops_per_byte.round().tolist()
    ('compute', [153.0, 43.0, 16.0, 3.0])
    >>> rl.memory_hierarchy(1, 4096, 4096, "a100-sxm-80gb").limit
    'memory'
    """
    chip = get_accelerator(accelerator)
    tiles = tiling or Tiling()
    work = matmul(m, k, n, weights=weights, activations=activations)
    inside = level_bytes(m, k, n, tiling=tiles, weights=weights, activations=activations)
    moved = {"memory": work.weight_bytes + work.activation_bytes, **inside}
    rates = level_rates(chip)
    levels = tuple(MemoryLevel(name, float(moved[name]), float(rates[name])) for name in moved)
    return MemoryHierarchy(chip, (m, k, n), float(work.flops), float(chip.peak_flops_per_s(work.math)), levels)


def level_rates(chip: Accelerator) -> dict[str, float]:
    """Bandwidth of each level of a GPU's memory hierarchy, in bytes per second.

    Raises
    ------
    InvalidInput
        The spec lacks a value, or the multiprocessors of the vendor are not known.
    """
    if chip.vendor != "NVIDIA":
        raise InvalidInput(f"{chip.name}: the memory hierarchy is modeled for NVIDIA only, not for {chip.vendor}")
    l2, units, clock = chip.l2_bytes_per_s, chip.compute_units, chip.boost_clock_hz
    if l2 is None or units is None or clock is None:
        raise InvalidInput(
            f"{chip.name}: its spec must state l2_bytes_per_s, compute_units and boost_clock_hz, as a100-sxm-80gb does"
        )
    return {
        "memory": float(chip.memory_bytes_per_s),
        "l2": float(l2),
        "shared": SHARED_BYTES_PER_CLOCK * float(units) * float(clock),
        "registers": OPERAND_BYTES * float(chip.peak_flops_per_s("fp32")) / 2,
    }
