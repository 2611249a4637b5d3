"""Cloud instances and counts: the accelerators of ``p5.48xlarge``, ``a3-highgpu-8g`` or ``8xh100``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import cast

from ..files import read_yaml
from .folders import spec_folders
from .names import spoken

MOST_ACCELERATORS = 10**6
"""Larger counts are treated as typing errors, as no machine has so many accelerators."""


@dataclass(frozen=True)
class Instance:
    """A kind of cloud instance.

    Attributes
    ----------
    name : str
        Name used by the provider.
    provider : str
        Cloud provider.
    accelerator : str
        Name of its accelerators in the library.
    accelerators : int
        Number of accelerators.
    verified : bool
        Whether a source was read for this entry.
    """

    name: str
    provider: str
    accelerator: str
    accelerators: int
    verified: bool = True


def list_instances() -> list[Instance]:
    """List all cloud instances in the library, sorted by provider and name.

    Examples
    --------
    >>> [row.accelerators for row in list_instances() if row.name == "p5.48xlarge"]
    [8]
    """
    found = [instance for path in _files() for instance in _read(path, path.stat().st_mtime_ns)[0]]
    return sorted(found, key=lambda instance: (instance.provider, instance.name))


def find_instance(name: str) -> Instance | None:
    """Find an instance by name, or by a series whose instances all have the same accelerator (``p5``, ``a3-highgpu``).

    For a series, the smallest instance is returned.

    Examples
    --------
    >>> find_instance("ND H100 v5").accelerator, find_instance("g6e").accelerator
    ('h100-sxm', 'l40s')
    """
    wanted = spoken(name)
    series: dict[str, Instance] = {}
    for path in _files():
        instances, aliases = _read(path, path.stat().st_mtime_ns)
        for instance in instances:
            names = (instance.name, instance.name.removeprefix("Standard_"), *aliases.get(instance.name, ()))
            if wanted in map(spoken, names):
                return instance
            if wanted == spoken(_series(instance.name)):
                smallest = series.setdefault(instance.accelerator, instance)
                if instance.accelerators < smallest.accelerators:
                    series[instance.accelerator] = instance
    return next(iter(series.values())) if len(series) == 1 else None


def counted(name: str) -> tuple[str, int] | None:
    """Split ``8xh100``, ``8 x H100``, ``8 h100``, ``h100:8`` or a slice of TPUs into name and number of accelerators.

    Slices of v4 and v5p are named for their TensorCores, of which a chip has two.

    Examples
    --------
    >>> counted("8xh100"), counted("h100:8"), counted("h100")
    (('h100', 8), ('h100', 8), None)
    >>> counted("v6e-8"), counted("v5p-8")
    (('tpu-v6e', 8), ('tpu-v5p', 4))
    """
    piece = re.fullmatch(r"\s*(?:tpu[- ]?)?(v4|v5p|v5e|v5litepod|v6e)-(\d{1,5})\s*", name, re.IGNORECASE)
    if piece:
        kind, size = piece[1].lower().replace("litepod", "e"), int(piece[2])
        chips = size // 2 if kind in ("v4", "v5p") else size
        return (f"tpu-{kind}", chips) if chips else None
    before = re.fullmatch(r"\s*(\d{1,7})(?:\s*[x×*]\s*|\s+)(\S.*?)\s*", name, re.IGNORECASE)
    after = re.fullmatch(r"\s*(\S.*?)\s*(?::\s*|[\sx×*]+x?\s*)(\d{1,7})\s*", name, re.IGNORECASE)
    if before:
        number, bare = before[1], before[2]
    elif after and (":" in name or re.search(r"[x×*]\s*\d+\s*$", name, re.IGNORECASE)):
        bare, number = after[1], after[2]
    else:
        return None
    count = int(number)
    return (bare, count) if 1 <= count <= MOST_ACCELERATORS else None


def _series(instance: str) -> str:
    """Series of an instance: ``p5`` for ``p5.48xlarge``, ``a3-highgpu`` for ``a3-highgpu-8g``."""
    head = instance.partition(".")[0]
    return head if "." in instance else instance.rpartition("-")[0]


def _files() -> list[Path]:
    return [path for folder in spec_folders("hardware_specs") for path in sorted((folder / "instances").glob("*.y*ml"))]


@lru_cache(maxsize=64)
def _read(path: Path, changed_ns: int) -> tuple[tuple[Instance, ...], dict[str, tuple[str, ...]]]:
    """Instances of a file and their other names, cached until the file changes."""
    from .price_schema import InstanceListSpec
    from .schema import value_of

    listed = cast(InstanceListSpec, value_of(read_yaml(path), InstanceListSpec, path))
    instances = tuple(
        Instance(name, row.provider, row.accelerator, row.accelerators, row.verified)
        for name, row in listed.instances.items()
    )
    return instances, {name: row.aliases for name, row in listed.instances.items()}
