"""DCGM: device counters from ``dcgmi dmon`` or the Prometheus exporter.

``DRAM_ACTIVE`` is the share of cycles in which the memory interface moves data at its present clock, which is close to
MBU. ``PIPE_TENSOR_ACTIVE`` is the share of cycles in which the tensor pipe is active, an upper bound of MFU rather than
MFU. ``GPU_UTIL``, the share of time in which any kernel ran, says nothing about either and is not read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..report import Report
from .record import as_number, mean


@dataclass(frozen=True, eq=False, repr=False)
class DeviceCounters(Report):
    """Mean counters of one device.

    Attributes
    ----------
    tool, source : str
        The tool that wrote the file, and the file.
    device : str
        The device's number.
    accelerator : str
        Its name, if the file states it.
    memory_active, tensor_active, sm_active, graphics_active : float
        Shares of cycles, 0 to 1.
    power_watts : float
        Mean power draw.
    samples : int
        Number of samples.
    """

    tool: str
    source: str
    device: str
    accelerator: str | None = None
    memory_active: float | None = None
    tensor_active: float | None = None
    sm_active: float | None = None
    graphics_active: float | None = None
    power_watts: float | None = None
    samples: int = 1
    assumptions: tuple[str, ...] = (
        "memory_active is close to MBU; tensor_active is an upper bound of MFU, since an active pipe need not be full",
    )

    columns = (
        "tool",
        "source",
        "device",
        "accelerator",
        "memory_active",
        "tensor_active",
        "sm_active",
        "graphics_active",
        "power_watts",
        "samples",
    )


_FIELDS = {
    "DCGM_FI_PROF_DRAM_ACTIVE": "memory_active",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "tensor_active",
    "DCGM_FI_PROF_SM_ACTIVE": "sm_active",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "graphics_active",
    "DCGM_FI_DEV_POWER_USAGE": "power_watts",
}
_COLUMNS = {
    "DRAMA": "memory_active",
    "TENSO": "tensor_active",
    "SMACT": "sm_active",
    "GRACT": "graphics_active",
    "POWER": "power_watts",
}
_SAMPLE = re.compile(r"^(?P<field>DCGM_FI_\w+)\{(?P<labels>[^}]*)\} +(?P<value>\S+)", re.MULTILINE)
_LABEL = re.compile(r"(\w+)=\"([^\"]*)\"")


def read_exporter(text: str, source: str) -> list[DeviceCounters]:
    """The devices in a scrape of the Prometheus exporter."""
    values: dict[str, dict[str, list[float]]] = {}
    names: dict[str, str] = {}
    for sample in _SAMPLE.finditer(text):
        labels = dict(_LABEL.findall(sample["labels"]))
        device, value = labels.get("gpu", "?"), as_number(sample["value"])
        names.setdefault(device, labels.get("modelName", ""))
        if sample["field"] in _FIELDS and value is not None:
            values.setdefault(device, {}).setdefault(_FIELDS[sample["field"]], []).append(value)
    return [_device("DCGM exporter", source, device, names[device], found) for device, found in values.items()]


_ROW = re.compile(r"^GPU[ -]*(?P<device>\d+) +(?P<cells>.+)$")


def read_dmon(text: str, source: str) -> list[DeviceCounters]:
    """The devices in the table of ``dcgmi dmon``; N/A cells are skipped."""
    columns: list[str] = []
    values: dict[str, dict[str, list[float]]] = {}
    for line in text.splitlines():
        if line.startswith("#Entity"):
            columns = line.split()[1:]
        row = _ROW.match(line.strip())
        for column, cell in zip(columns, row["cells"].split(), strict=False) if row else ():
            value = as_number(cell)
            if row and column in _COLUMNS and value is not None:
                values.setdefault(row["device"], {}).setdefault(_COLUMNS[column], []).append(value)
    return [_device("dcgmi dmon", source, device, "", found) for device, found in values.items()]


def _device(tool: str, source: str, device: str, name: str, found: dict[str, list[float]]) -> DeviceCounters:
    samples = max(len(each) for each in found.values())
    means = {field: mean(each) for field, each in found.items()}
    return DeviceCounters(tool, source, device, name or None, **means, samples=samples)  # type: ignore[arg-type]
