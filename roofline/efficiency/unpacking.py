"""Unpacking: the rate of products whose kernels expand narrow weights to 16 bits while they multiply."""

from __future__ import annotations

from typing import Any

from ..arrays import scalar
from ..hardware import Accelerator

INSTRUCTIONS = {"w4a16": 1.1, "mx4a16": 1.1, "w8a16": 2.25}
"""Format -> instructions that expand a weight to bf16.

Marlin of vLLM (``csrc/quantization/gptq_marlin/dequant.h``) expands four 8-bit integers by way of FP32 in ten
instructions and four FP8 values in eight; 2.25 per weight is the mean of both.  4-bit integers take 1.1 each, and 4-bit
floats are assumed to take as many."""

TILE_ROWS, TILE_ROWS_OF_HOPPER = 64, 128
"""Rows of a tile for which a weight is expanded once: at most four times 16 in Marlin (``thread_m_blocks``), two warp
groups of 64 in Machete, which runs on Hopper alone."""

LANES = 64
"""Integer instructions of a multiprocessor of NVIDIA's per clock (CUDA C++ programming guide)."""

SHARES = {"w4a8": 0.91, "w4int8": 0.8}
"""Formats with a measured rate relative to the wider kernel: W4A8 on Hopper (Marlin, arXiv:2408.11743, section 5) and
4-bit weights with INT8 activations (QServe, arXiv:2405.04532, section 4)."""

USUAL_SHARE = 0.8
"""Rate of 4-bit weights relative to 16 bits, where clock or multiprocessors are not known."""

WIDER_MATH = dict.fromkeys((*INSTRUCTIONS, "w4a8"), "bf16") | {"w4int8": "int8"}
"""Format that kernels expand -> format of the kernel it is compared with."""


def unpacking_share(gpu: Accelerator, label: str, reached: Any = 1.0) -> Any:
    """Return the rate of a kernel that expands weights relative to the wider kernel, both bound by compute.

    A tile of ``t`` rows multiplies each weight ``t`` times, which takes a multiprocessor ``t / (r c)`` clocks at ``c``
    of its peak of ``r`` multiply-adds per clock.  Expanding the weight in ``i`` instructions takes ``i / 64`` clocks
    more, since both need the issue slots of the same warps:

        share = 1 / (1 + (i / 64) (r c / t))

    That is 0.8 for 4 bits on an A100 (r = 1,024) and on an H100, where Marlin, GPTQ and AWQ kernels were measured at
    0.75 to 0.85 for more than about 128 rows (arXiv:2408.11743, section 5), and nearly 1 on a GeForce card with a
    quarter of the rate.
    A server cannot avoid this by running the wider kernel, because that would have to expand the weights as well.

    Parameters
    ----------
    gpu : Accelerator
        The chip.
    label : str
        Format of the kernel, such as ``w4a16``.
    reached : float or array
        Share of its peak that the wider kernel reaches.

    Examples
    --------
    >>> import roofline as rl
    >>> a100, rtx_4090 = rl.get_accelerator("a100-sxm-80gb"), rl.get_accelerator("rtx-4090")
    >>> [round(unpacking_share(gpu, "w4a16", 0.85), 2) for gpu in (a100, rtx_4090)]
    [0.81, 0.94]
    >>> round(unpacking_share(a100, "w8a16", 0.85), 2)
    0.68
    """
    if label in SHARES:
        return SHARES[label]
    units, clock_hz = gpu.compute_units, gpu.boost_clock_hz
    if gpu.vendor != "NVIDIA" or units is None or clock_hz is None:
        return USUAL_SHARE
    flops_per_s = gpu.peak_flops_per_s(gpu.math_on_chip("bf16"))
    multiply_adds = flops_per_s / (2 * units * clock_hz)
    rows = TILE_ROWS_OF_HOPPER if gpu.architecture == "Hopper" else TILE_ROWS
    return scalar(1.0 / (1.0 + INSTRUCTIONS[label] / LANES * multiply_adds * reached / rows))
