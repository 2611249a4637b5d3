"""Quantization: other number formats for weights, activations and the KV cache."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import Number, number
from ..phases.deployment import Deployment, check_deployment
from ..serving.scenario import Scenario
from .technique import Technique


def quantize(
    serve: Deployment, *, weights: str | None = None, activations: str | None = None, kv: str | None = None
) -> Deployment:
    """Return the deployment in other number formats; None keeps the current format.

    Quantizing only the weights (``weights="int4_g128"``) reduces bytes but leaves the math as it was. With weights and
    activations in 8 bits the chip's 8-bit units are used. If it has none, the result of each phase names the format
    used instead.

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
    check_deployment(serve)
    wanted = {"weights": weights, "activations": activations, "kv": kv}
    changes: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
    return serve.replace(precision=dataclasses.replace(serve.precision, **changes))


@dataclass(frozen=True, eq=False, kw_only=True)
class Quantization(Technique):
    """Store weights, and optionally activations, in a narrower format (see `quantize`).

    Decode reads fewer weight bytes. Prefill gains only if activations are quantized as well and the chip has units for
    the format. The memory saved makes room for a larger batch.

    Attributes
    ----------
    weights : str, optional
        Format of the linear layers' weights.
    activations : str, optional
        Format of the inputs of the linear layers; unchanged if not given.
    dequantization : float or array
        Time to dequantize the stored values, as a share of a pass; fused kernels hide most of it.
    """

    slug: ClassVar[str] = "quantization"
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
        """Decides the formats that are set."""
        named = {"the format of the weights": self.weights, "the format of the activations": self.activations}
        return tuple(what for what, value in named.items() if value is not None)

    @classmethod
    def usual(cls) -> tuple[Technique, ...]:
        """8-bit weights, 8-bit weights and activations (integer or float), and 4-bit weights."""
        both = cls(weights="fp8", activations="fp8"), cls(weights="int8", activations="int8")
        return cls(weights="fp8"), *both, cls(weights="int4_g128")

    def refusal(self, case: Scenario) -> str:
        """Reject integer activations on chips without integer units."""
        gpu, fed = case.serve.accelerator, self.activations
        missing = fed == "int8" and gpu.math_on_chip("int8") != "int8"
        return f"{gpu.name} has no int8 units" if missing else ""

    def had(self, case: Scenario) -> bool:
        """Whether the deployment already has these formats."""
        now = case.serve.precision
        return self.weights in (None, now.weights) and self.activations in (None, now.activations)

    def after(self, case: Scenario) -> Scenario:
        """Change the formats and add the time to dequantize."""
        serve = quantize(case.serve, weights=self.weights, activations=self.activations)
        return case.replace(serve=serve).slower(prefill=self.dequantization, decode=self.dequantization)


@dataclass(frozen=True, eq=False, kw_only=True)
class KVQuantization(Technique):
    """Store the KV cache in a narrower format: faster decode at long contexts and room for more sequences.

    Attributes
    ----------
    kv : str
        Format of the cache.
    dequantization : float or array
        Extra time of a decode step, as a share of the step.
    """

    slug: ClassVar[str] = "kv-quantization"
    name: ClassVar[str] = "KV-cache quantization"
    helps: ClassVar[str] = "decode"
    why: ClassVar[str] = "less cache to read in each step and to store"
    costs: ClassVar[str] = "accuracy at long contexts; expanding the cache in every step"

    kv: str = "fp8"
    dequantization: Number = 0.0

    def __post_init__(self) -> None:
        number("dequantization", self.dequantization)

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides the format of the KV cache."""
        return ("the format of the KV cache",)

    @classmethod
    def usual(cls) -> tuple[Technique, ...]:
        """A cache in 8 and in 4 bits."""
        return cls(kv="fp8"), cls(kv="int4")

    def had(self, case: Scenario) -> bool:
        """Whether the cache already has this format."""
        return case.serve.precision.kv == self.kv

    def after(self, case: Scenario) -> Scenario:
        """Change the format of the cache and add the time to dequantize it."""
        return case.replace(serve=quantize(case.serve, kv=self.kv)).slower(decode=self.dequantization)
