"""Kernel profiles: Nsight Systems (``cuda_gpu_kern_sum``), Nsight Compute, the torch profiler (trace, CSV).

A profile lists kernels, not operators, and no shapes.  The kind of a kernel is derived from name patterns of cuBLAS,
CUTLASS, FlashAttention, vLLM, SGLang, TensorRT-LLM, llama.cpp and hipBLASLt kernels; unmatched kernels are reported.
Kernels on several streams overlap, so the sum of their times is not wall time.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import FrozenMapping
from ..report import Report, plain
from ..values import Value
from .measurement import NOTHING_STATED
from .record import Record, as_number, median

_KINDS = (
    (
        "collective",
        r"nccl|rccl|all_?reduce|reduce_?scatter|all_?gather|all_?to_?all|cross_device_reduce|deep_?ep|nvshmem",
    ),
    (
        "attention",
        r"flash|fmha|attention|attn|paged|splitkv|split_kv|batchdecode|batchprefill|mla_|sdpa|mha_|reshape_and_cache"
        r"|merge_state",
    ),
    ("experts", r"moe|expert|group(ed)?_?gemm"),
    ("scan", r"selective_scan|chunk_scan|chunk_state|gated_delta|delta_rule|state_passing|ssd_|mamba|causal_conv|wkv"),
    (
        "matmul",
        r"gemm|gemv|gemv|cutlass|cublas|xmma|nvjet|wgmma|matmul|mul_mat|cijk_|marlin|machete|awq|gptq|splitk|dot_kernel",
    ),
    ("lookup", r"embedding|index_select|gather|get_rows"),
    (
        "elementwise",
        r"norm|silu|gelu|swiglu|act_and_mul|activation|elementwise|rotary|rope|residual|add_kernel|softmax|quant|cast"
        r"|copy|fill|scale|concat|transpose|permute|triton_poi|triton_red|triton_per",
    ),
)
"""Kind of operator -> pattern of its kernel names; the first match counts."""


def kind_of_kernel(name: str) -> str | None:
    """Return the kind of operator of a kernel, derived from its name; None if no pattern matches.

    Examples
    --------
    >>> kind_of_kernel("void flash_fwd_splitkv_kernel<...>"), kind_of_kernel("ampere_bf16_s16816gemm_bf16_64x64")
    ('attention', 'matmul')
    """
    lowered = name.lower()
    return next((kind for kind, pattern in _KINDS if re.search(pattern, lowered)), None)


@dataclass(frozen=True, eq=False)
class ProfiledKernel(Value):
    """One kernel of a profile, with all its calls.

    Attributes
    ----------
    name : str
        Name as printed by the profiler.
    calls : int
        How often it ran.
    total_s : float
        Time of all calls together.
    median_s : float
        Median time of a call, if the file states it.
    moved_bytes : float
        Bytes through the memory interface in all calls, if measured by counters.
    memory_share, compute_share : float
        Utilization of memory and compute units relative to their peaks, if measured by counters.
    """

    name: str
    calls: int
    total_s: float
    median_s: float | None = None
    moved_bytes: float | None = None
    memory_share: float | None = None
    compute_share: float | None = None

    @property
    def kind(self) -> str | None:
        """Kind of operator by its name; None if no pattern matches."""
        return kind_of_kernel(self.name)

    @property
    def mean_s(self) -> float:
        """Mean time of a call."""
        return self.total_s / self.calls


@dataclass(frozen=True, eq=False, repr=False)
class KernelProfile(Report):
    """The kernels of a profile, the longest first.

    Attributes
    ----------
    tool, source : str
        The tool that wrote the file, and the file.
    kernels : tuple of Kernel
        The kernels.
    stated : mapping
        What the file states about the deployment (``accelerator``).
    doubts : tuple of str
        Warnings about unreliable values.
    """

    tool: str
    source: str
    kernels: tuple[ProfiledKernel, ...]
    stated: FrozenMapping[str, Any] = NOTHING_STATED
    doubts: tuple[str, ...] = ()

    columns = ("name", "kind", "calls", "total_s", "mean_s", "share")

    @property
    def name(self) -> Any:
        """Names, as an array."""
        return np.array([kernel.name for kernel in self.kernels])

    @property
    def kind(self) -> Any:
        """Kinds, as an array; ``unmatched`` where no pattern matches."""
        return np.array([kernel.kind or "unmatched" for kernel in self.kernels])

    @property
    def calls(self) -> Any:
        """Calls, as an array."""
        return np.array([kernel.calls for kernel in self.kernels])

    @property
    def total_s(self) -> Any:
        """Times of all calls, as an array."""
        return np.array([kernel.total_s for kernel in self.kernels])

    @property
    def mean_s(self) -> Any:
        """Mean times of a call, as an array."""
        return self.total_s / self.calls

    @property
    def share(self) -> Any:
        """Shares of the time of all kernels, as an array."""
        return self.total_s / self.total_s.sum()

    @property
    def unmatched(self) -> tuple[ProfiledKernel, ...]:
        """Kernels that match no pattern."""
        return tuple(kernel for kernel in self.kernels if kernel.kind is None)

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """Warnings, and kernels that could not be matched."""
        lost = self.unmatched
        share = sum(kernel.total_s for kernel in lost) / float(self.total_s.sum())
        names = ", ".join(kernel.name[:60] for kernel in lost[:3])
        words = f"{len(lost)} kernels with {share:.1%} of the time match no kind of operator: {names}"
        return (*(f"doubt: {doubt}" for doubt in self.doubts), *([words] if lost else []))

    def to_dict(self) -> dict[str, Any]:
        """Columns as plain JSON types, and notes."""
        more = {"tool": self.tool, "source": self.source, "stated": plain(self.stated)}
        return super().to_dict() | more | {"assumptions": list(self.assumptions)}


OVERLAP = "times of kernels on several streams overlap: their sum is not wall time"


def _profile(
    tool: str, source: str, kernels: Iterable[ProfiledKernel], doubts: tuple[str, ...], accelerator: str | None = None
) -> list[KernelProfile]:
    ordered = tuple(sorted(kernels, key=lambda kernel: -kernel.total_s))
    if not ordered:
        return []
    stated = FrozenMapping({"accelerator": accelerator} if accelerator else {})
    return [KernelProfile(tool, source, ordered, stated, doubts)]


# --- Nsight Systems --------------------------------------------------------------------------------------------------

_NSYS = re.compile(r"^\"?Time ?\(%\)\"?,.*Name\"?\s*$", re.MULTILINE)
_NS, _US = 1e-9, 1e-6
_SCALES = {"ns": _NS, "us": _US, "µs": _US, "ms": 1e-3, "s": 1.0, "nsecond": _NS, "usecond": _US, "msecond": 1e-3}
_SCALES |= {"second": 1.0, "sec": 1.0}


def is_nsys(text: str) -> bool:
    """Whether this is a summary of kernels by Nsight Systems."""
    return _NSYS.search(text) is not None


def read_nsys(text: str, source: str) -> list[KernelProfile]:
    """The summary; lines above the header are skipped."""
    start = _NSYS.search(text)
    if start is None:
        return []
    kernels = []
    for row in csv.DictReader(text[start.start() :].splitlines()):
        record = Record({_bare(key): value for key, value in row.items() if isinstance(key, str)}, source)
        name, calls = record.text("Name"), record.count("Instances", "Num Calls", "Count", positive=True)
        total = _timed(record, "Total Time")
        if name and calls and total:
            kernels.append(ProfiledKernel(name, calls, total, _timed(record, "Med", "Median")))
    return _profile("nsys", source, kernels, (OVERLAP,))


def _bare(key: str) -> str:
    return key.replace("%", "percent").strip()


def _timed(record: Record, *names: str) -> float | None:
    """A time with the unit of the column's name; nanoseconds in older releases, which state none."""
    for name in names:
        for key in record.data:
            match = re.match(rf"{name}(?: \((?P<unit>\w+)\))?$", key)
            if match:
                return record.number(key, unit=_SCALES.get(match["unit"] or "ns", _NS), positive=True)
    return None


# --- Nsight Compute --------------------------------------------------------------------------------------------------

_NCU = re.compile(r"^\"?ID\"?,.*\"?Kernel Name\"?", re.MULTILINE)
_BYTES_PER_S = {"byte/s": 1.0, "kbyte/s": 1e3, "mbyte/s": 1e6, "gbyte/s": 1e9, "tbyte/s": 1e12, "byte/second": 1.0}
_BYTES_PER_S |= {"kbyte/second": 1e3, "mbyte/second": 1e6, "gbyte/second": 1e9, "tbyte/second": 1e12}
_BYTES = {"byte": 1.0, "kbyte": 1e3, "mbyte": 1e6, "gbyte": 1e9}


def is_ncu(text: str) -> bool:
    """Whether this is a CSV of Nsight Compute."""
    return _NCU.search(text) is not None


def read_ncu(text: str, source: str) -> list[KernelProfile]:
    """The kernels with their counters: one row per metric, or one column per metric with a second row of units."""
    start = _NCU.search(text)
    rows = list(csv.reader(text[start.start() :].splitlines())) if start else []
    if not rows:
        return []
    head = rows[0]
    launches = _long(head, rows[1:]) if "Metric Name" in head else _wide(head, rows[1:])
    merged: dict[str, list[ProfiledKernel]] = {}
    for name, metrics in launches:
        kernel = _launch(name, metrics)
        if kernel is not None:
            merged.setdefault(name, []).append(kernel)
    doubt = "clocks are locked to the base clock unless ncu ran with --clock-control none"
    return _profile("ncu", source, map(_merged, merged.values()), (doubt,))


Metrics = Mapping[str, tuple[str, str]]
"""Name of a metric -> (value, unit)."""


def _long(head: list[str], rows: list[list[str]]) -> list[tuple[str, Metrics]]:
    launches: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {}
    for row in rows:
        cells = dict(zip(head, row, strict=False))
        if "Metric Value" in cells:
            _, metrics = launches.setdefault(cells["ID"], (cells.get("Kernel Name", ""), {}))
            metrics.setdefault(cells.get("Metric Name", ""), (cells["Metric Value"], cells.get("Metric Unit", "")))
    return [(name, metrics) for name, metrics in launches.values()]


def _wide(head: list[str], rows: list[list[str]]) -> list[tuple[str, Metrics]]:
    if not rows:
        return []
    units = dict(zip(head, rows[0], strict=False))
    launches: list[tuple[str, Metrics]] = []
    for row in rows[1:]:
        cells = dict(zip(head, row, strict=False))
        metrics = {name: (value, units.get(name, "")) for name, value in cells.items()}
        launches.append((cells.get("Kernel Name", ""), metrics))
    return launches


def _launch(name: str, metrics: Metrics) -> ProfiledKernel | None:
    seconds = _metric(metrics, _SCALES, "Duration", "gpu__time_duration.sum")
    if not seconds or not name:
        return None
    moved = _metric(metrics, _BYTES, "dram__bytes.sum")
    rate = _metric(metrics, _BYTES_PER_S, "Memory Throughput")
    if moved is None and rate is not None:
        moved = rate * seconds
    memory = _metric(metrics, {"%": 0.01}, "DRAM Throughput")
    compute = _metric(metrics, {"%": 0.01}, "Compute (SM) Throughput", "SM [%]")
    return ProfiledKernel(name, 1, seconds, seconds, moved, memory, compute)


def _metric(metrics: Metrics, units: Mapping[str, float], *names: str) -> float | None:
    for name in names:
        value, unit = metrics.get(name, ("", ""))
        number, scale = as_number(value), units.get(unit.strip().lower())
        if number is not None and number >= 0 and scale is not None:
            return number * scale
    return None


def _merged(launches: list[ProfiledKernel]) -> ProfiledKernel:
    """The launches of one kernel as one row; counters are averages over time."""
    total = sum(kernel.total_s for kernel in launches)

    def averaged(name: str) -> float | None:
        values = [(getattr(kernel, name), kernel.total_s) for kernel in launches]
        if any(value is None for value, _ in values):
            return None
        weighted: float = sum(value * seconds for value, seconds in values)
        return weighted / total

    moved = [kernel.moved_bytes for kernel in launches]
    known = [value for value in moved if value is not None]
    return ProfiledKernel(
        launches[0].name,
        len(launches),
        total,
        median([kernel.total_s for kernel in launches]),
        sum(known) if len(known) == len(moved) else None,
        averaged("memory_share"),
        averaged("compute_share"),
    )


# --- torch profiler --------------------------------------------------------------------------------------------------


def is_trace(data: Mapping[str, Any]) -> bool:
    """Whether this is a Chrome trace."""
    return isinstance(data.get("traceEvents"), list)


def read_profiler_trace(record: Record) -> list[KernelProfile]:
    """The kernels of a torch trace, with durations in microseconds; host events are skipped."""
    durations: dict[str, list[float]] = {}
    for event in record.data["traceEvents"]:
        if isinstance(event, Mapping) and str(event.get("cat", "")).lower() in ("kernel", "gpu_op"):
            micros = as_number(event.get("dur"))
            if micros is not None and micros > 0:
                durations.setdefault(str(event.get("name")), []).append(micros * _US)
    kernels = [ProfiledKernel(name, len(each), sum(each), median(each)) for name, each in durations.items()]
    return _profile("torch profiler", record.source, kernels, (OVERLAP,), record.text("deviceProperties/0/name"))


_TORCH = re.compile(
    r"^.*\b(self_cuda_time_total|self_device_time_total|Self CUDA|Self CUDA time total)\b.*$", re.MULTILINE
)
_TIMES = ("self_device_time_total", "self_cuda_time_total", "Self CUDA", "Self CUDA time total")


def is_torch_csv(text: str) -> bool:
    """Whether this is a CSV of ``key_averages()``."""
    line = _TORCH.search(text)
    return line is not None and "," in line[0]


def read_torch_csv(text: str, source: str) -> list[KernelProfile]:
    """The kernels of ``key_averages()``; times are in microseconds unless the cell names a unit."""
    start = _TORCH.search(text)
    kernels = []
    for row in csv.DictReader(text[start.start() :].splitlines()) if start else ():
        record = Record({key: value for key, value in row.items() if isinstance(key, str)}, source)
        name, calls = record.text("key", "name", "Name"), record.count("count", "# of Calls", "Calls", positive=True)
        cell = next((row[key] for key in _TIMES if row.get(key)), "")
        match = re.match(r"^(?P<number>[\d.,eE+-]+) ?(?P<unit>us|ms|s|ns)?$", cell.strip())
        micros = as_number(match["number"]) if match else None
        if match and name and calls and micros:
            kernels.append(ProfiledKernel(name, calls, micros * _SCALES[match["unit"] or "us"]))
    return _profile("torch profiler", source, kernels, (OVERLAP,))
