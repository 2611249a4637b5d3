"""Tiles of a matrix product, and the bytes that cross each level of the memory hierarchy.

A multiprocessor computes the output in blocks, a warp computes a tile of a block, and each tile takes instructions of
fixed shape (NVIDIA, CUTLASS: *Efficient GEMM in CUDA*).  Every level keeps a tile of the output while the operands
stream along ``k``, so each value of the left operand is read once per tile in its row:

    bytes(level) = k m ceil(n / tile_n) bits_a / 8 + k n ceil(m / tile_m) bits_w / 8

For whole tiles the intensity is ``2 tile_m tile_n / (tile_m + tile_n)`` FLOPs per value, so larger tiles move fewer
bytes. The intensity of a level that holds ``M`` values is at most of the order ``sqrt(M)`` (Hong and Kung, *I/O
complexity: the red-blue pebble game*, STOC 1981).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..errors import InvalidInput, Number, number
from ..formats import get_format
from ..values import Value

ACCUMULATOR_BYTES = 4.0
"""Accumulators have 32 bits."""


@dataclass(frozen=True, eq=False)
class Tiling(Value):
    """Tiles of a matrix product, outermost first; by default those of CUTLASS's largest 16-bit kernels on an A100.

    Attributes
    ----------
    block_m, block_n : int
        Output tile of a thread block; its operands pass through shared memory.
    warp_m, warp_n : int
        Tile of a block that a warp computes; its operands pass through registers.
    instruction_m, instruction_n, instruction_k : int
        Shape of one instruction of the matrix units (PTX ``mma.m16n8k16``).

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1, or a tile does not divide the enclosing one.
    """

    block_m: int = 128
    block_n: int = 256
    warp_m: int = 64
    warp_n: int = 64
    instruction_m: int = 16
    instruction_n: int = 8
    instruction_k: int = 16

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            object.__setattr__(self, name, int(number(name, getattr(self, name), least=1, whole=True)))
        for side in "mn":
            block, warp, instruction = (getattr(self, f"{part}_{side}") for part in ("block", "warp", "instruction"))
            if block % warp or warp % instruction:
                raise InvalidInput(
                    f"tiles must divide the ones around them: {instruction}, {warp}, {block} along {side}"
                )


def level_bytes(
    m: Number, k: Number, n: Number, *, tiling: Tiling, weights: str = "bf16", activations: str = "bf16"
) -> Mapping[str, Number]:
    """Return the bytes that ``[m, k] @ [k, n]`` reads through the L2 cache, shared memory and registers.

    Registers hold the operands and the accumulators of each instruction, which are read again at every step along
    ``k``.

    Parameters
    ----------
    m, k, n : int or array
        Shape of the product.
    tiling : Tiling
        Tiles of the product.
    weights, activations : str
        Formats of the ``[k, n]`` and the ``[m, k]`` operand.

    Returns
    -------
    dict
        Bytes for each of ``l2``, ``shared`` and ``registers``.

    Examples
    --------
    One tile of 128 x 256, 64 deep, in 16 bits: ``64 * (128 + 256) * 2`` bytes from L2.

    >>> float(level_bytes(128, 64, 256, tiling=Tiling())["l2"])
    49152.0
    """
    a, w = (get_format(name).bits / 8 for name in (activations, weights))

    def operands(tile_m: int, tile_n: int) -> Number:
        return k * (m * np.ceil(n / tile_n) * a + n * np.ceil(m / tile_m) * w)

    sums = m * n * np.ceil(k / tiling.instruction_k) * ACCUMULATOR_BYTES
    return {
        "l2": operands(tiling.block_m, tiling.block_n),
        "shared": operands(tiling.warp_m, tiling.warp_n),
        "registers": operands(tiling.instruction_m, tiling.instruction_n) + sums,
    }
