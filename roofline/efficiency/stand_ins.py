"""Stand-ins: kernels without timings of their own, made of timed ones and of what is known about the difference."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays import larger, middle
from ..hardware import Accelerator
from .kinds import SPARSE_UNPACKED, WRITTEN_WIDE
from .lookup import kernels_for
from .store import STAND_IN, Found
from .unpacking import WIDER_MATH, unpacking_share


def kernels_of(accelerator: Accelerator, kind: str, profile: str | None, cases: tuple[str, ...], math: str) -> Found:
    """Return the kernels of a kind; an untimed kernel that expands weights is limited by a wider one.

    Its share of the peak is at most `unpacking_share` times that of the engine's own wider kernel, whatever the units
    of ``math`` could do.  Kernels timed on this chip and engine are used as measured.  On Hopper, sparse attention on
    an 8-bit latent cache is a separate kernel without timings.
    """
    if kind == "mla_decode.kv8" and "sparse" in cases and accelerator.architecture == "Hopper":
        return _sparse(kernels_for(accelerator, "mla_decode.bf16", profile))
    if kind == WRITTEN_WIDE:
        return _written_wide(kernels_for(accelerator, "gemm.bf16", profile, cases))
    found = kernels_for(accelerator, kind, profile, cases)
    head, _, label = kind.partition(".")
    if head != "gemm" or label not in WIDER_MATH or _is_timed(found, kind, profile):
        return found
    wider_math = WIDER_MATH[label]
    wide = kernels_for(accelerator, f"gemm.{wider_math}", profile, cases)
    reached = middle([member.parameters["compute"] for member in wide.members.values()])
    slower = accelerator.peak_flops_per_s(accelerator.math_on_chip(wider_math)) / accelerator.peak_flops_per_s(math)
    most = unpacking_share(accelerator, label, reached) * reached * slower
    return _expanding(found, most) if isinstance(most, np.ndarray) else _expanding_once(found, float(most))


@lru_cache(maxsize=64)
def _sparse(dense: Found) -> Found:
    """Return dense 16-bit kernels in place of sparse ones on an 8-bit cache, which expand it (`SPARSE_UNPACKED`)."""
    members = {}
    for engine, member in dense.members.items():
        slower = {"compute": member.parameters["compute"] * SPARSE_UNPACKED}
        members[engine] = replace(member, parameters={**member.parameters, **slower})
    basis = f"stand-in for sparse mla_decode.kv8, of which there are no timings: {dense.basis}; interval widened"
    return replace(dense, members=members, low=dense.low**STAND_IN, high=dense.high**STAND_IN, basis=basis)


@lru_cache(maxsize=64)
def _written_wide(wide: Found) -> Found:
    """Return 16-bit kernels that run after one that writes the weights: 2 bytes each, which the product reads again.

    bitsandbytes has a kernel for a single row (``gemv_4bit``) and calls ``dequantize_4bit`` before all other products
    (bitsandbytes/autograd/_functions.py, ``matmul_4bit``).
    """
    changes = {"expanded_bytes": 2.0 + 2.0, "expanding_rows": 2.0}
    members = {
        engine: replace(member, parameters={**member.parameters, **changes}) for engine, member in wide.members.items()
    }
    basis = f"{wide.basis}; weights are written in 16 bits before products of several rows; interval widened"
    return replace(wide, members=members, low=wide.low**STAND_IN, high=wide.high**STAND_IN, basis=basis)


def _expanding(found: Found, reached: Any) -> Found:
    """Return kernels limited to a share of the peak."""
    members = {}
    for engine, member in found.members.items():
        expands: Any = larger(member.parameters["compute"] / reached, 1.0)
        members[engine] = replace(member, parameters={**member.parameters, "expands": expands})
    return replace(found, members=members)


@lru_cache(maxsize=256)
def _expanding_once(found: Found, reached: float) -> Found:
    """Return the same for a single chip, cached so that predictions from it can be cached too."""
    return _expanding(found, reached)


def _is_timed(found: Found, kind: str, profile: str | None) -> bool:
    """Return whether the kernels were timed: this kind, on this chip, with the requested engine."""
    own = profile in (None, "default") or profile in found.members
    return own and found.kind == kind and "typical" not in found.members
