"""Quantization: other number formats for weights, activations and the KV cache."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import Number, number
from ..phases.deployment import Deployment
from ..serving.scenario import Scenario
from .technique import Technique


def quantize(
    serve: Deployment, *, weights: str | None = None, activations: str | None = None, kv: str | None = None
) -> Deployment:
    """The same deployment in other formats; what is None stays as it is.

    Weights alone (``weights="int4_g128"``) is weight-only: fewer bytes, the math where it was.  Weights and activations
    both in 8 bits use the 8-bit units, if the chip has them; else the result of a phase names what stands in.

    Raises
    ------
    UnknownName
        A format that does not exist.
    InvalidInput
        Activations in a storage-only format.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-70b"), rl.get_accelerator("h100-sxm"))
    >>> before, after = (rl.decode(each, rl.Workload()) for each in (serve, rl.quantize(serve, weights="fp8")))
    >>> f"{after.floor_s / before.floor_s:.2f}"
    '0.51'
    """
    wanted = {"weights": weights, "activations": activations, "kv": kv}
    changes: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
    return serve.replace(precision=dataclasses.replace(serve.precision, **changes))


@dataclass(frozen=True, kw_only=True)
class Quantization(Technique):
    """Weights, and activations if asked, in a narrower format (see `quantize`).

    Decode streams fewer weight bytes; prefill gains only if the activations go along and the chip has units for them;
    memory freed becomes batch.

    Attributes
    ----------
    weights, activations : formats; None leaves them as they are
    dequantization : time of expanding the weights as a share of a pass; fused kernels hide most of it
    """

    name: ClassVar[str] = "weight quantization"
    helps: ClassVar[str] = "decode"
    why: ClassVar[str] = "fewer weight bytes to stream each step"
    costs: ClassVar[str] = "accuracy; calibration data"

    weights: str | None = "fp8"
    activations: str | None = None
    dequantization: Number = 0.0

    def __post_init__(self) -> None:
        number("dequantization", self.dequantization)

    @property
    def decides(self) -> tuple[str, ...]:
        """The formats it sets."""
        named = {"the format of the weights": self.weights, "the format of the activations": self.activations}
        return tuple(what for what, value in named.items() if value is not None)

    def after(self, case: Scenario) -> Scenario:
        """The other formats, and the time to expand them."""
        serve = quantize(case.serve, weights=self.weights, activations=self.activations)
        return case.replace(serve=serve).slower(prefill=self.dequantization, decode=self.dequantization)


@dataclass(frozen=True, kw_only=True)
class KVQuantization(Technique):
    """The KV cache in a narrower format: decode at long contexts, and more sequences.

    Attributes
    ----------
    kv : format of the cache
    dequantization : extra time of a decode step as a share of it
    """

    name: ClassVar[str] = "KV-cache quantization"
    helps: ClassVar[str] = "decode"
    why: ClassVar[str] = "fewer cache bytes to read each step, and to keep"
    costs: ClassVar[str] = "accuracy at long contexts; expanding the cache in every step"

    kv: str = "fp8"
    dequantization: Number = 0.0

    def __post_init__(self) -> None:
        number("dequantization", self.dequantization)

    @property
    def decides(self) -> tuple[str, ...]:
        """The cache's format."""
        return ("the format of the KV cache",)

    def after(self, case: Scenario) -> Scenario:
        """The cache in the other format, and the time to expand it."""
        return case.replace(serve=quantize(case.serve, kv=self.kv)).slower(decode=self.dequantization)
