"""Workload: the requests that a deployment runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import anywhere, has_array
from ..errors import InvalidInput, Number, number, of_kind
from ..report.dimensions import UNNAMED, Dimensions, is_named, laid_out
from ..values import Value, brief

TEXT_COUNTS = ("prompt_tokens", "output_tokens", "batch", "cached_tokens")
MEDIA_COUNTS = ("images", "image_tokens", "audio_s")
COUNTS = (*TEXT_COUNTS, *MEDIA_COUNTS)
"""Fields of a workload that may be arrays."""

LONGEST_S = 1e9
"""Longest audio of a prompt, seconds: 30 years."""


@dataclass(frozen=True, eq=False, repr=False)
class Workload(Value):
    """Requests that run together. Any field may be an array; all fields broadcast.

    An `xarray.DataArray` or `pandas.Series` keeps its dimensions, coordinates and index. Fields with the same dimension
    share an axis, and other dimensions are crossed; tables and datasets of results carry the names. Empty arrays give
    empty results.

    Attributes
    ----------
    prompt_tokens : int or array
        New tokens per prompt (cached tokens not included), with tokens of images and audio counted as engines count
        them.
    output_tokens : int or array
        Tokens generated per prompt; the first one comes from prefill.
    batch : int or array
        Sequences that run together.
    cached_tokens : int or array
        Tokens per prompt that are already in the KV cache and precede the new ones.
    images : int or array
        Images per prompt; the tokens that an encoder makes of them are part of the prompt.
    image_tokens : int or array
        Tokens per image in the language model; 0 for the usual number, which is that of the encoder's fixed image size,
        or of 1,024 x 1,024 pixels if it accepts any size.
    audio_s : float or array
        Seconds of audio per prompt.
    dimensions : Dimensions
        Names of the axes, read from the fields.

    Raises
    ------
    InvalidInput
        A field is not an integer >= 1 (>= 0 from ``cached_tokens`` on; ``audio_s`` may be fractional), or the fields do
        not broadcast.
    """

    prompt_tokens: Number = 2000
    output_tokens: Number = 256
    batch: Number = 1
    cached_tokens: Number = 0
    images: Number = 0
    image_tokens: Number = 0
    audio_s: Number = 0.0
    dimensions: Dimensions = field(default=UNNAMED, repr=False)

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in COUNTS}
        if any(map(is_named, given.values())):
            self._set(*laid_out({name: self.dimensions.named(name, value) for name, value in given.items()}))
        elif self.dimensions.names and not self.dimensions.hold(given.values()):
            object.__setattr__(self, "dimensions", UNNAMED)
        for name in COUNTS:
            least = 1 if name in ("prompt_tokens", "output_tokens", "batch") else 0
            most = LONGEST_S if name == "audio_s" else np.inf
            value = number(name, getattr(self, name), least=least, most=most, whole=name != "audio_s", empty=True)
            object.__setattr__(self, name, value)
        self._check_shapes()

    def _check_shapes(self) -> None:
        values = [getattr(self, name) for name in COUNTS]
        if not has_array(values):
            return
        try:
            np.broadcast_shapes(*map(np.shape, values))
        except ValueError as error:
            raise InvalidInput(f"the fields of a workload must broadcast: {error}") from None

    def _set(self, fields: Mapping[str, Any], dimensions: Dimensions) -> None:
        for name in COUNTS:
            if name in fields:
                object.__setattr__(self, name, fields[name])
        object.__setattr__(self, "dimensions", dimensions)

    @property
    def counts(self) -> dict[str, Number]:
        """Fields of the workload by name; images and audio only if there are any."""
        return {name: getattr(self, name) for name in (*TEXT_COUNTS, *(MEDIA_COUNTS if self.has_media else ()))}

    @property
    def has_media(self) -> bool:
        """Whether any prompt has images or audio."""
        return anywhere(self.images) or anywhere(self.audio_s)

    @property
    def context_tokens(self) -> Number:
        """Tokens of a sequence in the cache after its prompt is processed."""
        return self.prompt_tokens + self.cached_tokens

    @property
    def sequence_tokens(self) -> Number:
        """Tokens of a whole sequence, prompt and output."""
        return self.context_tokens + self.output_tokens

    def __repr__(self) -> str:
        return brief(self, "prompt_tokens", "output_tokens", "batch")


class OfWorkload:
    """Mixin of results of a deployment and a workload: their inputs and the names of a sweep's axes."""

    if TYPE_CHECKING:
        deployment: Any
        load: Workload

    @property
    def dimensions(self) -> Dimensions:
        """Names of the axes of a sweep."""
        return self.load.dimensions

    @property
    def inputs(self) -> dict[str, Any]:
        """Inputs of the deployment and the workload, by name."""
        found: dict[str, Any] = self.deployment.inputs | self.load.counts
        return found


def together(loads: Sequence[Workload], **others: Any) -> tuple[list[Workload], dict[str, Any], Dimensions]:
    """Align workloads and further numbers to the same dimensions.

    Parameters
    ----------
    loads : sequence of Workload
        Workloads that are used together.
    **others : int or array
        Numbers to align with them; None is left unchanged.

    Returns
    -------
    tuple of (list of Workload, dict, Dimensions)
        The aligned workloads and numbers, and the names of the axes; unchanged if nothing has named axes.
    """
    for load in loads:
        check_load(load)
    if not any(load.dimensions.names for load in loads) and not any(map(is_named, others.values())):
        return [*loads], others, UNNAMED
    values: dict[str, Any] = {}
    for at, load in enumerate(loads):
        values |= {_name(at, name): load.dimensions.named(name, value) for name, value in load.counts.items()}
    values |= {name: value for name, value in others.items() if value is not None}
    found, dimensions = laid_out(values)
    made = [copy(load) for load in loads]
    for at, load in enumerate(made):
        load._set({name: found[_name(at, name)] for name in load.counts}, dimensions)
    return made, {name: found.get(name) for name in others}, dimensions


def check_load(load: object) -> None:
    """Check that ``load`` is a `Workload`.

    Raises
    ------
    InvalidInput
        It is not a `Workload`.
    """
    of_kind("load", load, Workload, "Workload(prompt_tokens=2000, batch=8)")


def _name(at: int, name: str) -> str:
    """Return the name of a field of one of several workloads, for messages."""
    return name if at == 0 else f"{name} of workload {at + 1}"
