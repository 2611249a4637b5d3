"""Deployment: a model on accelerators, in a precision and a layout."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..arrays import last_axis, same
from ..efficiency.joining import ROUTING_SKEW
from ..efficiency.lookup import profiles
from ..errors import MOST, InvalidInput, Number, UnknownName, is_within, number, of_kind, unknown
from ..hardware import Accelerator
from ..model import Model
from ..operators.operator import Pass, Segment
from ..operators.parallel import ONE, Parallel
from ..operators.precision import AS_PUBLISHED, Precision
from ..specs.engines import GENERIC, Engine
from ..specs.library import get_hardware, get_model
from ..units import humanize
from ..values import Value

ATTENTION_ALGORITHMS = ("fused", "unfused")
BESIDE = ("towers", "prediction")
"""Parts that a checkpoint may have in addition to its language model."""

USUAL_FRACTION = 0.9


EXAMPLE = "Deployment('llama-3.1-8b', 'h100-sxm')"
"""Singular names of these parts, for messages."""


KINDS = (
    ("precision", Precision, "Precision(weights='fp8', activations='fp8')"),
    ("parallel", Parallel, "Parallel(tensor=2)"),
)
"""Fields of a deployment that are values of another class, with an example of each."""


@dataclass(frozen=True, eq=False, repr=False)
class Deployment(Value):
    """A model on accelerators, in a precision and a layout.

    Attributes
    ----------
    model : Model or str
        The model that is served. A name or path is looked up by `get_model`.
    accelerator : Accelerator or str
        The accelerator that it runs on. A name or path is looked up by `get_hardware`; the count of ``8xh100`` is the
        degree of tensor parallelism unless ``parallel`` is given.
    precision : Precision
        Formats of weights, activations and KV cache; by default the checkpoint's own, or bf16 if it states none.
    parallel : Parallel
        How the model is divided over several accelerators.
    attention : str
        ``fused`` (FlashAttention: scores stay on the chip) or ``unfused`` (scores are written and read back).
    memory_fraction : float, optional
        Share of the device's memory that the engine uses (vLLM's ``gpu_memory_utilization``); if not given, the
        engine's default, or 0.9 without an engine.
    engine : Engine, str or None
        Inference engine (``vllm``, ``sglang``, ``trtllm`` ...) whose kernels the estimate uses and whose scheduler
        admits requests; by default a generic engine with the median of all kernels.
    routing_skew : float
        Exponent of the power law by which tokens choose experts, for estimates; 0 is uniform, as in the roofline.
    leave_out : tuple of str
        Parts of the checkpoint that are not loaded: ``towers`` (encoders of images and sound), ``prediction`` (layers
        for multi-token prediction). By default, everything is resident.
    power_limit_watts : float, array or None
        Power limit of each accelerator in watts, which may slow it down; by default the device's own.

    Raises
    ------
    InvalidInput
        ``memory_fraction`` is outside (0, 1], a precision or layout has the wrong type, or ``model`` or ``accelerator``
        is a list (make one deployment for each).
    UnknownName
        There is no such attention algorithm or engine.
    """

    model: Model
    accelerator: Accelerator
    precision: Precision = AS_PUBLISHED
    parallel: Parallel = ONE
    attention: str = "fused"
    memory_fraction: float | None = None
    engine: Engine | str | None = None
    routing_skew: float = ROUTING_SKEW
    leave_out: tuple[str, ...] = ()
    power_limit_watts: Number | None = None

    if TYPE_CHECKING:  # the constructor accepts more types than the fields have afterwards

        def __init__(  # noqa: PLR0917 (the fields, in their order)
            self,
            model: Model | str | Path | Mapping[str, Any],
            accelerator: Accelerator | str | Path,
            precision: Precision = AS_PUBLISHED,
            parallel: Parallel = ONE,
            attention: str = "fused",
            memory_fraction: float | None = None,
            engine: Engine | str | None = None,
            routing_skew: float = ROUTING_SKEW,
            leave_out: str | Iterable[str] = (),
            power_limit_watts: Number | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", get_model(self.model))
        found = get_hardware(self.accelerator)
        object.__setattr__(self, "accelerator", found.accelerator)
        if found.count > 1 and self.parallel is ONE:
            object.__setattr__(self, "parallel", Parallel(tensor=found.count))
        for name, kind, example in KINDS:
            if not isinstance(getattr(self, name), kind):
                raise InvalidInput(f"{name} must be a {kind.__name__}, such as {example}: {getattr(self, name)!r}")
        if self.precision is AS_PUBLISHED and self.model.precision is not None:
            object.__setattr__(self, "precision", self.model.precision)
        if self.attention not in ATTENTION_ALGORITHMS:
            raise unknown("attention algorithm", self.attention, ATTENTION_ALGORITHMS)
        if self.memory_fraction is not None and not (is_within(self.memory_fraction, 0, 1) and self.memory_fraction):
            raise InvalidInput(f"memory_fraction must be above 0 and at most 1: {self.memory_fraction!r}")
        given: Any = self.leave_out
        parts = (given,) if isinstance(given, str) else tuple(given)
        for part in parts:
            if part not in BESIDE:
                raise unknown("part beside the language model", part, BESIDE)
        object.__setattr__(self, "leave_out", tuple(part for part in BESIDE if part in parts))
        if not is_within(self.routing_skew, 0, MOST):
            raise InvalidInput(f"routing_skew must be a number >= 0: {self.routing_skew!r}")
        if self.power_limit_watts is not None:
            object.__setattr__(self, "power_limit_watts", self._checked_limit(self.power_limit_watts))
        if self.engine is not None and not isinstance(self.engine, Engine):
            object.__setattr__(self, "engine", self._named(self.engine))
        self.check_shape(())

    @cached_property
    def arrays(self) -> Mapping[str, npt.NDArray[Any]]:
        """Values of the accelerator, the layout and the power limit that are arrays, by name."""
        limit = self.power_limit_watts
        limits = {"power_limit_watts": limit} if isinstance(limit, np.ndarray) and limit.ndim else {}
        return {**self.accelerator.arrays, **self.parallel.arrays, **limits}

    @property
    def is_sweep(self) -> bool:
        """Whether the accelerator, the layout or the power limit contains an array."""
        return bool(self.arrays)

    def with_new_axis(self) -> Deployment:
        """Return a copy whose arrays have a trailing axis of length 1, for an additional axis of the requests."""
        if not self.is_sweep:
            return self
        limit = None if self.power_limit_watts is None else last_axis(self.power_limit_watts)
        gpu, parallel = self.accelerator.with_new_axis(), self.parallel.with_new_axis()
        return self.replace(accelerator=gpu, parallel=parallel, power_limit_watts=limit)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Check that arrays of requests of ``shape`` broadcast with those of the deployment.

        Raises
        ------
        InvalidInput
            The shapes do not broadcast, or the deployment's own arrays do not.
        """
        if not self.arrays:
            return
        try:
            np.broadcast_shapes(shape, *(value.shape for value in self.arrays.values()))
        except ValueError:
            requests = f"batch and tokens {shape} and " if shape else ""
            own = ", ".join(f"{name} {value.shape}" for name, value in self.arrays.items())
            raise InvalidInput(
                f"{requests}arrays of the deployment must broadcast: {own}; give each its own axis, as in "
                "np.array([1, 2, 4])[:, None]"
            ) from None

    def _checked_limit(self, watts: Number) -> Number:
        """Return the power limit after checking that it is positive and that the accelerator states a TDP."""
        if self.accelerator.tdp_watts is None:
            raise InvalidInput(f"{self.accelerator.name} states no TDP, which a power limit needs")
        limit = number("power_limit_watts", watts)
        if np.any(np.asarray(limit) <= 0):
            raise InvalidInput(f"power_limit_watts must be above 0: {float(np.min(limit)):g}")
        return limit

    def _named(self, name: str) -> Engine:
        """Return the engine of that name, or a generic one with the kernel profile of that name."""
        try:
            return Engine(name)
        except UnknownName:
            if not isinstance(name, str) or name not in profiles(self.accelerator):
                raise
        return Engine(GENERIC, kernels=name)

    @cached_property
    def server(self) -> Engine:
        """Engine with all settings resolved for this accelerator; a generic one if none is named."""
        engine = self.engine if isinstance(self.engine, Engine) else Engine(GENERIC)
        return engine.on(self.accelerator)

    @property
    def names_engine(self) -> bool:
        """Whether an engine is named, so that its rules apply. A kernel profile alone does not count."""
        return isinstance(self.engine, Engine) and self.engine.name != GENERIC

    @property
    def engine_fraction(self) -> float:
        """Share of memory that the engine uses: as given, or the engine's default."""
        if self.memory_fraction is not None:
            return self.memory_fraction
        return float(self.server.memory_fraction or USUAL_FRACTION)

    @cached_property
    def kernels(self) -> str | None:
        """Kernel profile for estimates; None (the median of all) if there is no engine or it has no profile."""
        profile = self.engine.kernels if isinstance(self.engine, Engine) else None
        return profile if profile in profiles(self.accelerator) else None

    @property
    def inputs(self) -> dict[str, Any]:
        """Inputs by name: text, or numbers where degrees or hardware values are arrays."""
        gpu, parallel = self.accelerator, self.parallel
        formats = {name: getattr(self.precision, name) for name in ("weights", "activations", "kv")}
        words = {"model": self.model.name, "accelerator": gpu.name} | formats
        degrees = dict(zip(("tensor", "pipeline", "expert", "data", "context_parallel"), parallel.degrees, strict=True))
        rates = {f"dense_flops_per_s_{math}": peak for math, peak in gpu.dense_flops_per_s.items()}
        rates |= {"memory_bytes_per_s": gpu.memory_bytes_per_s, "memory_bytes": gpu.memory_bytes}
        swept = {name: value for name, value in (degrees | rates).items() if np.ndim(value)}
        layout = {} if any(map(np.ndim, parallel.degrees)) else {"layout": str(parallel)}
        return words | layout | swept

    def run(self, *segments: Segment) -> Pass:
        """Return one forward pass of these segments on this deployment."""
        return Pass(segments, self.precision, self.attention, self.parallel)

    def replace(self, **changes: Any) -> Deployment:
        """Return a copy with other fields; what-ifs are made this way."""
        return dataclasses.replace(self, **changes)

    def __str__(self) -> str:
        """Return text such as ``llama-3.1-70b on 8 x h100-sxm``."""
        count = "" if self.parallel.single else f"{humanize('accelerators', self.parallel.accelerators)} x "
        return f"{self.model.name} on {count}{self.accelerator.name}"

    def __repr__(self) -> str:
        layout = "" if self.parallel.single else f", {self.parallel}"
        options = {"attention": "fused", "memory_fraction": None, "engine": None, "leave_out": ()}
        options |= {"power_limit_watts": None}
        shown = [name for name, usual in options.items() if not same(getattr(self, name), usual)]
        changed = [f", {name} {getattr(self, name)}" for name in shown]
        return f"Deployment({self}{layout}, {self.precision}{''.join(changed)})"


def check_deployment(serve: object, name: str = "serve") -> None:
    """Refuse what is no `Deployment`, such as the name of a model.

    Raises
    ------
    InvalidInput
        It is something else.
    """
    of_kind(name, serve, Deployment, EXAMPLE)
