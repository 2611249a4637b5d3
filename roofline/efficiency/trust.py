"""Trust: reject timings that cannot be of the kernel they are labeled with, by rules that apply to every engine.

Floors catch timings that are impossibly fast.  Impossibly slow ones pass, and would be fitted as if they were right: if
products of 64 x 32 x 1 take 160 us, the table shows how fast the host launches kernels.  Six rules find such groups,
and each reports what it found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..hardware import Accelerator
from .groups import Group
from .store import form_of
from .widening import widened, wider_kind

Array = np.ndarray[Any, Any]
Fitted = tuple[Group, Mapping[str, float], Array]
"""A group, its parameters, and the natural logarithm of estimate over measurement for each row."""

FASTEST = 0.05
"""Share of the rows that count as a group's fastest."""

SLOW_START = 4.0
"""A group is rejected if its fastest rows take more than this many times as long as another engine's."""

SLOWER = 1.25
"""A narrower format is rejected if its median time is more than this many times that of the wider format."""

WORTHWHILE_S = 2e-5
"""Roofline time in the wider format above which a narrower format should be faster.  Below it, launches dominate, and
quantizing the activations adds one.  Weight-only formats should be faster where the wider format is memory-bound."""

LEAST_COMPARED = 10

LARGE_RESIDUAL = 0.25
"""A group is rejected if the median error of its fit is larger."""

APART = 0.7
"""Natural logarithm of the smallest ratio between two populations under one label: a factor of two."""

TIGHT = 3.0
"""Two populations must be at least this many times their own spread apart."""


LARGE_PROMPT_S = 5e-5
"""Rows that would take at least this long at the peak are used to compare the rates of prefill attention."""

ON_LATENTS = 0.5
"""Attention of prompts with latents is rejected if it reaches less than this share of another engine's rate.

Servers expand the latents of prompts to keys and values (SGLang: ``MHA_ONE_SHOT`` in
models/deepseek_common/attention_backend_handler.py).  Products with the latents themselves, as in decode steps, are
(2 * 512 + 64) / (192 + 128) = 3.4 times the work in DeepSeek's sizes."""


@dataclass(frozen=True, eq=False)
class Refused:
    """A rejected group of timings and the reason.

    Attributes
    ----------
    group : Group
        The timings.
    reason : str
        What is wrong with the timings, with the number that shows it.
    """

    group: Group
    reason: str

    def __str__(self) -> str:
        group = self.group
        name = f"{group.accelerator}, {group.profile}, {group.kind}, {group.source or 'no kernel named'}"
        return f"{name}, {len(group.measured_s):,} rows: {self.reason}"


def refused(fitted: Iterable[Fitted], accelerators: Callable[[str], Accelerator]) -> list[Refused]:
    """Groups that fail one of the rules.

    Parameters
    ----------
    fitted : iterable of (Group, parameters, errors)
        All groups of the tables.  Some rules compare a group with the same kind of other engines and kernels, or with
        the wider format of the same engine.
    accelerators : callable
        Name to `Accelerator`.

    Returns
    -------
    list of Refused
        In the given order, at most one entry per group.
    """
    every = [entry for entry in fitted if not entry[0].kind.startswith("collective")]
    found = []
    for group, _, errors in every:
        reasons = [
            *_starts_slowly(group, [other for other, _, _ in every]),
            *_on_latents(group, [other for other, _, _ in every]),
            *_slower_than_wider(group, every, accelerators(group.accelerator)),
            *_large_residual(errors),
            *_two_populations(errors),
        ]
        if reasons:
            found.append(Refused(group, "; ".join(reasons)))
    return found


def _of_other_engines(group: Group, others: list[Group]) -> list[Group]:
    """Return the other engines' groups of the same kind of kernel on the same accelerator."""
    return [
        other
        for other in others
        if other.accelerator == group.accelerator and other.kind == group.kind and other.profile != group.profile
    ]


def _fastest_s(group: Group) -> float:
    return float(np.quantile(group.measured_s, FASTEST))


def _starts_slowly(group: Group, others: list[Group]) -> Iterator[str]:
    """Whether the fastest rows are several times as slow as another engine's kernel of the same kind and chip."""
    same = _of_other_engines(group, others)
    if not same:
        return
    best = min(same, key=_fastest_s)
    ratio = _fastest_s(group) / _fastest_s(best)
    if ratio > SLOW_START:
        yield (
            f"its fastest rows take {_fastest_s(group) * 1e6:.0f} us, {ratio:.0f} times those of {best.profile}: "
            "the launch, not the kernel"
        )


def _on_latents(group: Group, others: list[Group]) -> Iterator[str]:
    """Report a prefill kernel that multiplied with the latents where another engine's expanded them."""
    if not group.kind.startswith("mla_prefill"):
        return
    same = _of_other_engines(group, others)
    if not same:
        return
    best = max(same, key=_share_of_peak)
    own, highest = _share_of_peak(group), _share_of_peak(best)
    if own < ON_LATENTS * highest:
        yield (
            f"{own:.0%} of the peak where {best.profile} reaches {highest:.0%}: "
            "products with latents, which servers expand for prompts"
        )


def _share_of_peak(group: Group) -> float:
    """Median share of the peak that a group reaches in its large rows; 0 if it has none."""
    large = group.run.compute_s > LARGE_PROMPT_S
    return float(np.median(group.run.compute_s[large] / group.measured_s[large])) if np.any(large) else 0.0


def _slower_than_wider(group: Group, every: list[Fitted], gpu: Accelerator) -> Iterator[str]:
    """Whether the engine's kernel in the next wider format would be faster at the same shapes, where time matters."""
    head, _, label = group.kind.partition(".")
    if not wider_kind(group.kind) or head not in ("gemm", "experts"):
        return
    same = [
        (other, values)
        for other, values, _ in every
        if (other.accelerator, other.profile, other.kind) == (group.accelerator, group.profile, wider_kind(group.kind))
    ]
    if not same:
        return
    run = widened(group.run, group.kind, _math(gpu, label), gpu)
    times = np.min([form_of(other.kind).time_s(values, run) for other, values in same], axis=0)
    moving_s = run.memory_s + run.cached_s
    worthwhile = np.maximum(run.compute_s, moving_s) > WORTHWHILE_S
    if label.endswith("a16"):
        worthwhile &= moving_s > run.compute_s
    if np.sum(worthwhile) < LEAST_COMPARED:
        return
    ratios = group.measured_s / np.maximum(times, run.peaks_s)
    ratio = float(np.median(ratios[worthwhile]))
    if ratio > SLOWER:
        wide = wider_kind(group.kind).partition(".")[2]
        yield f"{ratio:.1f} times as long as the engine's {wide} at equal shapes"


_MATH = {"fp8_block": "fp8", "w4a8": "fp8", "mx4a8": "fp8"}
"""Label of a format -> the units that compute it, if they differ."""


def _math(gpu: Accelerator, label: str) -> str:
    return gpu.math_on_chip("bf16" if label.endswith("a16") else _MATH.get(label, label))


def _large_residual(errors: Array) -> Iterator[str]:
    """Whether no parameters fit the rows, because more than one kernel was timed."""
    residual = float(np.median(np.abs(np.expm1(errors))))
    if residual > LARGE_RESIDUAL:
        yield f"median error of the fit {residual:.0%}"


def _two_populations(errors: Array) -> Iterator[str]:
    """Whether the errors form two tight, distant clusters, each with at least a sixth of the rows.

    The sorted errors are cut where the variance within the two parts is smallest (Otsu's method).
    """
    ordered = np.sort(errors)
    count = len(ordered)
    at = np.arange(1, count)
    sums, squares = np.cumsum(ordered), np.cumsum(ordered**2)
    left = squares[:-1] - sums[:-1] ** 2 / at
    right = squares[-1] - squares[:-1] - (sums[-1] - sums[:-1]) ** 2 / (count - at)
    cut = int(np.argmin(left + right)) + 1
    low, high = ordered[:cut], ordered[cut:]
    gap = float(np.median(high) - np.median(low))
    spread = float(max(np.std(low), np.std(high)))
    if min(len(low), len(high)) > count / 6 and gap > APART and gap > TIGHT * spread:
        yield f"two populations, one {np.exp(gap):.1f} times the other"
