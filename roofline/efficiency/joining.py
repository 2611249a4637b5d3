"""Joining: operators that engines run as one kernel are estimated as one operator, the way they were timed.

Products with the same input run as one product with more columns (q, k and v; gate and up; the two down projections of
MLA), and the matrices of a mixture of experts run as one grouped kernel.  Parameter counts keep them separate, as
checkpoints do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..arrays import everywhere
from ..errors import Number
from ..operators.operator import Operator
from ..operators.work import Work

ROUTING_SKEW = 0.6
"""Exponent of the power law by which tokens choose experts.  Real routing lies between uniform (0)
and the 1.2 of stress tests; kernels were timed at 0, 1.01 and 1.2."""


class Share(NamedTuple):
    """The kernel that contains an operator, and the operator's share of its time."""

    kernel: Operator
    share: Number


def shares(operators: Sequence[Operator], skew: float = ROUTING_SKEW) -> list[Share | None]:
    """The joint kernel of each operator; None for operators that run as kernels of their own.

    Parameters
    ----------
    operators : sequence of Operator
        Operators of one pass, in the model's order.
    skew : float
        Exponent of the power law of expert routing; 0 is uniform.

    Returns
    -------
    list of Share or None
        One entry per operator.
    """
    found: list[Share | None] = [None] * len(operators)
    for places in (*_joined(operators), *_grouped(operators)):
        parts = [operators[at] for at in places]
        kernel = _experts(parts, skew) if parts[0].kind == "experts" else _product(parts)
        sizes = [part.inputs["k"] * part.inputs["n"] for part in parts]
        for at, size in zip(places, sizes, strict=True):
            found[at] = Share(kernel, size / sum(sizes))
    return found


def _joined(operators: Sequence[Operator]) -> list[list[int]]:
    """Indices of products that run as one: each with its nearest partners of equal count and format."""
    groups: dict[int, list[int]] = {}
    named: dict[str, list[int]] = {}
    for place, operator in enumerate(operators):
        if not operator.joins:
            named.setdefault(operator.name, []).append(place)
    for at, operator in enumerate(operators):
        if not operator.joins:
            continue
        hosts = [place for place in named.get(operator.joins, ()) if _alike(operator, operators[place])]
        if hosts:
            host = min(hosts, key=lambda place: abs(place - at))
            groups.setdefault(host, [host]).append(at)
    return list(groups.values())


def _alike(one: Operator, other: Operator) -> bool:
    same_formats = all(one.inputs[name] == other.inputs[name] for name in ("weight_bits", "activation_bits"))
    same_input = everywhere(one.inputs["k"] == other.inputs["k"])
    return same_formats and same_input and one.work.math == other.work.math and everywhere(one.count == other.count)


def _grouped(operators: Sequence[Operator]) -> list[list[int]]:
    """Indices of the matrices of each mixture of experts: neighbors of equal count and format."""
    groups: list[list[int]] = []
    for at, operator in enumerate(operators):
        if operator.kind != "experts":
            continue
        last = operators[groups[-1][-1]] if groups and groups[-1][-1] == at - 1 else None
        names = {operators[place].name for place in groups[-1]} if groups else set()
        if last is not None and operator.name not in names and _same_mixture(operator, last):
            groups[-1].append(at)
        else:
            groups.append([at])
    return groups


def _same_mixture(one: Operator, other: Operator) -> bool:
    same = all(one.inputs[name] == other.inputs[name] for name in ("experts", "weight_bits", "activation_bits"))
    return same and everywhere(one.count == other.count)


def _product(parts: list[Operator]) -> Operator:
    """Products with the same input as one product, which has all their columns and reads the input once."""
    first = parts[0]
    shape = dict(first.inputs)
    n = sum(part.inputs["n"] for part in parts)
    values: Any = shape["m"] * (shape["k"] + n) * (shape["activation_bits"] / 8)
    work, least = _total([part.work for part in parts]), _total([part.least for part in parts])
    work = Work(work.flops, work.weight_bytes, values, work.cache_bytes, work.math, work.exponentials)
    inputs = shape | {"n": n, "bias_bytes": sum(part.inputs["bias_bytes"] for part in parts)}
    name = "+".join(part.name for part in parts)
    return Operator(name, first.kind, work, least, first.count, inputs, first.formulas, first.source)


def _experts(parts: list[Operator], skew: float) -> Operator:
    """The matrices of a mixture as one grouped kernel over their joint ``[hidden, n]``."""
    wide = min(parts, key=lambda part: part.name.endswith("down"))
    k = wide.inputs["k"]
    values = sum(part.inputs["k"] * part.inputs["n"] for part in parts)
    inputs = {**wide.inputs, "n": values / k, "matrices": float(len(parts)), "skew": skew}
    work, least = _total([part.work for part in parts]), _total([part.least for part in parts])
    name = "+".join(part.name for part in sorted(parts, key=lambda part: part is not wide))
    return replace(wide, name=name, work=work, least=least, inputs=inputs)


def _total(works: list[Work]) -> Work:
    return sum(works[1:], works[0])
