"""Settings of engines: their types, and the defaults in the files of ``engine_specs``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..errors import InvalidInput, unknown
from ..hardware import Accelerator

Setting = bool | int | float | str


class Rule(NamedTuple):
    """A default and the conditions under which it applies."""

    value: Setting
    source: str
    kind: str
    before: str
    from_memory_bytes: float
    not_on: tuple[str, ...]

    def holds(self, version: str) -> bool:
        """Whether the rule applies to a version; None means the newest."""
        return not self.before or (bool(version) and release(version) < release(self.before))

    def fits(self, accelerator: Accelerator) -> bool:
        """Whether the rule applies to a device."""
        large = float(np.min(accelerator.memory_bytes)) >= self.from_memory_bytes
        return large and not any(word in accelerator.name for word in self.not_on)

    @property
    def by_device(self) -> bool:
        """Whether the rule depends on the device."""
        return bool(self.from_memory_bytes or self.not_on)


@dataclass(frozen=True)
class EngineFacts:
    """Content of a file of ``engine_specs``.

    Attributes
    ----------
    name, title : str
        Name of the file, and name of the engine.
    kernels : str
        Profile in ``efficiency_specs`` for its kernels; empty for the median of all.
    like : str
        Engine whose settings are used where this one has none.
    rules : mapping of str to tuple of Rule
        Field of `Engine` -> its defaults, in order.
    aliases : tuple of str
        Other names, besides the title.
    """

    name: str
    title: str
    kernels: str
    like: str
    rules: Mapping[str, tuple[Rule, ...]]
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kind:
    """Type of a field of `Engine`: any text, a choice of strings, a bool, or numbers of at least ``least``."""

    words: tuple[str, ...] = ()
    text: bool = False
    switch: bool = False
    least: float = 0.0
    whole: bool = False
    most: float = float("inf")

    def check(self, name: str, value: object) -> None:
        """Raise an error for a value that is not of this type.

        Raises
        ------
        InvalidInput
            The value is a number out of range, or not of the type.
        UnknownName
            The value is not among the choices.
        """
        if self.words:
            if value not in self.words:
                raise unknown(name, value, self.words)
            return
        if self.text or self.switch:
            if not isinstance(value, str if self.text else bool):
                raise InvalidInput(f"{name} must be {'text' if self.text else 'true or false'}: {value!r}")
            return
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.least <= value <= self.most:
            most = "" if self.most == float("inf") else f" and <= {self.most:g}"
            raise InvalidInput(f"{name} must be a number >= {self.least:g}{most}: {value!r}")
        if self.whole and value != float("inf") and value != int(value):
            raise InvalidInput(f"{name} must be an integer: {value!r}")


COUNT = Kind(least=1, whole=True)
SHARE = Kind(most=1.0)
FACTOR = Kind(least=0.01, most=100.0)

FIELDS: Mapping[str, Kind] = {
    "scheduler": Kind(words=("mixed", "prefill_first", "static")),
    "chunked": Kind(switch=True),
    "step_tokens": COUNT,
    "max_sequences": COUNT,
    "admission": Kind(words=("grow", "reserve")),
    "page_tokens": Kind(least=1, most=8192, whole=True),
    "receive_interval": COUNT,
    "schedule_interval": COUNT,
    "batch_wait_steps": Kind(whole=True),
    "batch_wait_share": SHARE,
    "balance_wait_steps": Kind(whole=True),
    "balance_batching_steps": Kind(whole=True),
    "ranks_wait": Kind(switch=True),
    "prefix_caching": Kind(switch=True),
    "memory_fraction": SHARE,
    "memory_fraction_of": Kind(words=("device", "free_before_loading", "free_after_loading")),
    "sampler_bytes": Kind(),
    "non_torch_bytes": Kind(),
    "non_torch_parallel_bytes": Kind(),
    "graph_bytes": Kind(),
    "graph_layer_bytes": Kind(),
    "graphs_in_fraction": Kind(switch=True),
    "eager": Kind(switch=True),
    "frees_windows": Kind(switch=True),
    "windows_of": Kind(text=True),
    "stores_shared": Kind(switch=True),
    "window_share": SHARE,
    "state_bits": Kind(least=1),
    "state_share": SHARE,
    "state_slots": Kind(least=1),
    "index_bits": Kind(least=1),
    "groups_layers": Kind(switch=True),
    "sampler_rows": Kind(words=("sequences", "tokens")),
    "loads_prediction": Kind(switch=True),
    "step_s": Kind(),
    "layer_s": Kind(),
    "rank_s": Kind(),
    "sparse_layer_s": Kind(),
    "latent_layer_s": Kind(),
    "delta_layer_s": Kind(),
    "launch_share": SHARE,
    "eager_layer_s": Kind(),
    "quantization_kernels": Kind(whole=True),
    "adapter_kernel_s": Kind(),
    "drafting_step_s": Kind(),
    "graph_tokens": Kind(whole=True),
    "graph_tokens_of_sequence": Kind(whole=True),
    "shared_stream_tokens": Kind(whole=True),
    "decode_factor": FACTOR,
    "prefill_factor": FACTOR,
    "first_token_steps": Kind(),
    "request_s": Kind(),
    "request_token_s": Kind(),
    "receive_share": SHARE,
}
"""Field of `Engine` -> type of its values."""


def release(version: str) -> tuple[int, ...]:
    """The numbers of a version, for comparisons; pre-releases count as their release.

    Examples
    --------
    >>> release("1.2.0rc6.post3") > release("1.1.0-dev.2"), release("nightly-dev") > release("99")
    (True, True)
    """
    found = re.match(r"v?(\d+(?:\.\d+)*)", version)
    if found is None:
        return (10**6,)  # a nightly build is newer than every release
    return tuple(int(part) for part in found[1].split("."))
