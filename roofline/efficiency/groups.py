"""Groups: the timings of one kernel on one accelerator, prepared for a fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..hardware import Accelerator
from ..operators.roofline import kernel_floor_s
from ..specs.library import get_accelerator
from .forms import Kernel
from .kinds import collective_kind, kind_of
from .timings import Batch

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Group:
    """Timings that share one set of parameters.

    Attributes
    ----------
    accelerator, profile, kind : str
        What the parameters belong to; ``kind`` is that of `roofline.efficiency.kinds.kind_of`.
    source : str
        Name of the kernel in the table; empty if not stated.
    version : tuple of int
        Newest engine release among the rows.
    math : str
        Format in which the kernel computes.
    architecture : str
        Architecture of the accelerator.
    run : Kernel
        The timed kernels; every number is an array over rows.
    measured_s : array
        Measured times in seconds, one per row.
    """

    accelerator: str
    profile: str
    kind: str
    source: str
    version: tuple[int, ...]
    math: str
    architecture: str
    run: Kernel
    measured_s: Array

    @property
    def kernel(self) -> tuple[str, str, str]:
        """Engine, kind and source, which identify the same kernel on other accelerators."""
        return self.profile, self.kind, self.source

    @property
    def shapes(self) -> Array:
        """An integer per row, equal for rows with the same shape of weights, heads or experts."""
        inputs = self.run.inputs
        named = [inputs[name] for name in _SHAPES[self.kind.partition(".")[0]] if name in inputs]
        if not named:
            return np.arange(len(self.measured_s))
        _, found = np.unique(np.stack(named), axis=1, return_inverse=True)
        return np.asarray(found).ravel()

    def take(self, chosen: Array) -> Group:
        """The rows selected by a mask or an index."""
        return replace(self, run=take(self.run, chosen), measured_s=self.measured_s[chosen])


_SHAPES = {
    "gemm": ("n", "k"),
    "experts": ("k", "experts", "top_k"),
    "attention_decode": ("query_heads", "kv_heads", "key_dim"),
    "attention_prefill": ("query_heads", "kv_heads", "key_dim"),
    "mla_decode": ("query_heads",),
    "mla_prefill": ("query_heads",),
    "collective": (),
}
"""Kind of kernel -> inputs that the model fixes; the others depend on the load."""


def groups(batches: Iterable[Batch], accelerators: Callable[[str], Accelerator] = get_accelerator) -> list[Group]:
    """Group batches by accelerator, engine, kind and kernel.

    Parameters
    ----------
    batches : iterable of Batch
        Timings; the rows of a batch share all text columns.
    accelerators : callable
        Name to `Accelerator`.

    Returns
    -------
    list of Group
        Groups, in the order of their first rows.
    """
    gathered: dict[tuple[str, str, str, str], list[tuple[tuple[int, ...], tuple[str, str], Kernel, Array]]] = {}
    for batch in batches:
        gpu = accelerators(batch.words["accelerator"])
        run, version = kernel(batch, gpu), release_numbers(batch.words.get("engine_version", ""))
        chip = gpu.math_on_chip(batch.operator.work.math), gpu.architecture
        for kind, rows in kinds(batch, gpu):
            key = gpu.name, profile_of(batch.words), kind, batch.words.get("kernel_source", "")
            gathered.setdefault(key, []).append((version, chip, take(run, rows), batch.latency_s[rows]))
    return [_gathered(key, parts) for key, parts in gathered.items()]


def profile_of(words: Mapping[str, str]) -> str:
    """Profile of a row: its engine, or for collectives the engine to which the library belongs."""
    if "engine" in words:
        return words["engine"]
    library = words["library"].lower()
    engine = next((name for name in ("vllm", "sglang", "trtllm") if name in library), library)
    return f"{engine}-eager" if "eager" in library else engine


def release_numbers(version: str) -> tuple[int, ...]:
    """The first three numbers of a version, for ordering releases: ``1.3.0rc20`` is ``(1, 3, 0)``."""
    digits = "".join(letter if letter.isdigit() else " " for letter in version)
    return tuple(int(part) for part in digits.split()[:3])


def kinds(batch: Batch, gpu: Accelerator) -> list[tuple[str, Array]]:
    """Kinds of the rows: collectives differ by the number of GPUs, all other rows of a batch are of one kind."""
    if batch.kind != "collective":
        return [(kind_of(batch.operator, gpu.math_on_chip(batch.operator.work.math)), np.arange(len(batch.rows)))]
    gpus = batch.columns["num_gpus"]
    return [(collective_kind(batch.operator.name, n), np.nonzero(gpus == n)[0]) for n in np.unique(gpus)]


def kernel(batch: Batch, gpu: Accelerator) -> Kernel:
    """Roofline times of each row; a timing loop finds operands in the last-level cache as far as they fit."""
    operator, count = batch.operator, len(batch.rows)
    moved = np.broadcast_to(operator.work.moved_bytes, count)
    cached = np.minimum(moved, gpu.l2_bytes or 0.0)
    memory_s = (moved - cached) / gpu.memory_bytes_per_s
    if batch.kind == "collective":
        memory_s = np.asarray(kernel_floor_s(operator, gpu))
    inputs = {name: np.broadcast_to(np.asarray(value, float), count) for name, value in operator.inputs.items()}
    compute_s = np.broadcast_to(operator.work.flops / gpu.peak_flops_per_s(operator.work.math), count)
    return Kernel(compute_s, memory_s, cached / gpu.memory_bytes_per_s, float(gpu.compute_units or 100), inputs)


def take(run: Kernel, rows: Array) -> Kernel:
    """The rows of a kernel selected by a mask or an index."""
    inputs = {name: values[rows] for name, values in run.inputs.items()}
    return Kernel(run.compute_s[rows], run.memory_s[rows], run.cached_s[rows], run.processors, inputs)


def _gathered(
    key: tuple[str, str, str, str], parts: list[tuple[tuple[int, ...], tuple[str, str], Kernel, Array]]
) -> Group:
    runs = [run for _, _, run, _ in parts]
    inputs = {}
    for name in runs[0].inputs:
        inputs[name] = np.concatenate([run.inputs[name] for run in runs])
    compute_s = np.concatenate([run.compute_s for run in runs])
    memory_s = np.concatenate([run.memory_s for run in runs])
    cached_s = np.concatenate([run.cached_s for run in runs])
    measured_s = np.concatenate([measured for _, _, _, measured in parts])
    run = Kernel(compute_s, memory_s, cached_s, runs[0].processors, inputs)
    return Group(*key, max(version for version, _, _, _ in parts), *parts[0][1], run, measured_s)
