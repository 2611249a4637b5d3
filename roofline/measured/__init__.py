"""Measured results: files of benchmark tools and profilers, read and compared with their bounds.

`read` returns the runs in a file of any of these tools; `headroom` compares a run with the floor, the roofline and the
estimate of a deployment.
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
