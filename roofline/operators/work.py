"""Work: FLOPs, and the bytes of weights, activations and cache that they move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..errors import InvalidInput, Number
from ..values import Value


@dataclass(frozen=True, eq=False, init=False)
class Work(Value):
    """FLOPs and bytes of an operation.

    Attributes
    ----------
    flops : float or array
        FLOPs, 2 per multiply-add; softmax, norms and other elementwise arithmetic are not counted.
    weight_bytes : float or array
        Parameters read.
    activation_bytes : float or array
        Activations read and written.
    cache_bytes : float or array
        KV cache and recurrent state read and written.
    math : str
        Format of the units that compute the FLOPs.
    exponentials : float or array
        Exponentials of a softmax, which use other units than the FLOPs.
    shape : mapping of str to float or array, optional
        Sizes of a single operation; None for sums and multiples.
    """

    flops: Number = 0.0
    weight_bytes: Number = 0.0
    activation_bytes: Number = 0.0
    cache_bytes: Number = 0.0
    math: str = "bf16"
    exponentials: Number = 0.0
    shape: Mapping[str, Number] | None = field(default=None, repr=False)

    def __init__(  # noqa: PLR0917 (the fields, in their order)
        self,
        flops: Number = 0.0,
        weight_bytes: Number = 0.0,
        activation_bytes: Number = 0.0,
        cache_bytes: Number = 0.0,
        math: str = "bf16",
        exponentials: Number = 0.0,
        shape: Mapping[str, Number] | None = None,
    ) -> None:
        # Written out since a pass makes dozens: the constructor of a frozen dataclass takes three times as long.
        own = self.__dict__
        own["flops"] = flops
        own["weight_bytes"] = weight_bytes
        own["activation_bytes"] = activation_bytes
        own["cache_bytes"] = cache_bytes
        own["math"] = math
        own["exponentials"] = exponentials
        own["shape"] = shape

    @property
    def moved_bytes(self) -> Number:
        """All bytes that cross the memory interface."""
        if isinstance(self.cache_bytes, float) and self.cache_bytes == 0.0:
            return self.weight_bytes + self.activation_bytes  # saves an array sum, as most operators have no cache
        return self.weight_bytes + self.activation_bytes + self.cache_bytes

    @property
    def intensity_flops_per_byte(self) -> Number:
        """Arithmetic intensity: FLOPs per byte moved."""
        return self.flops / self.moved_bytes

    def compulsory(self) -> Work:
        """Return the work that no implementation can avoid; only activations may stay on the chip."""
        return replace(self, activation_bytes=0.0)

    def __add__(self, other: Work) -> Work:
        if self.math != other.math:
            raise InvalidInput(
                f"work in {self.math} and work in {other.math} run on different units; call bound for each"
            )
        return Work(
            self.flops + other.flops,
            self.weight_bytes + other.weight_bytes,
            self.activation_bytes + other.activation_bytes,
            self.cache_bytes + other.cache_bytes,
            self.math,
            self.exponentials + other.exponentials,
        )

    def __mul__(self, times: Number) -> Work:
        return Work(
            self.flops * times,
            self.weight_bytes * times,
            self.activation_bytes * times,
            self.cache_bytes * times,
            self.math,
            self.exponentials * times,
        )

    __rmul__ = __mul__
