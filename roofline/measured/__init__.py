"""Measured results: what benchmark tools and profilers wrote, read back and held against the roof.

`read` takes a file of any tool and returns its runs; `headroom` holds a run against a deployment's floor, roofline and
estimate.
"""

from .comparing import headroom, headroom_of_file
from .counters import DeviceCounters
from .kernel_headroom import KernelHeadroom
from .kernels import KernelProfile, ProfiledKernel
from .measurement import Measurement
from .reading import read
from .shares import Headroom, PhaseHeadroom

__all__ = [
    "DeviceCounters",
    "Headroom",
    "ProfiledKernel",
    "KernelHeadroom",
    "KernelProfile",
    "Measurement",
    "PhaseHeadroom",
    "headroom",
    "headroom_of_file",
    "read",
]
