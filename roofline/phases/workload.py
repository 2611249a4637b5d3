"""Workload: what is asked of a deployment."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InvalidInput, Number, number
from ..values import Value, brief


@dataclass(frozen=True, repr=False)
class Workload(Value):
    """Requests that run together; any field may be an array, all broadcast against each other.

    Attributes
    ----------
    prompt_tokens : int or array
        Tokens of each prompt that have to be computed.
    output_tokens : int or array
        Tokens generated for each prompt; the prefill emits the first one.
    batch : int or array
        Sequences that run together.
    cached_tokens : int or array
        Tokens of each prompt that are in the KV cache already, before those that have to be computed.

    Raises
    ------
    InvalidInput
        A field that is not a whole number >= 1 (``cached_tokens``: >= 0), or shapes that do not broadcast.
    """

    prompt_tokens: Number = 2000
    output_tokens: Number = 256
    batch: Number = 1
    cached_tokens: Number = 0

    def __post_init__(self) -> None:
        for name in ("prompt_tokens", "output_tokens", "batch"):
            object.__setattr__(self, name, number(name, getattr(self, name), least=1, whole=True))
        object.__setattr__(self, "cached_tokens", number("cached_tokens", self.cached_tokens, whole=True))
        try:
            _ = self.prompt_tokens + self.output_tokens + self.batch + self.cached_tokens
        except ValueError as error:
            raise InvalidInput(f"the fields of a workload must broadcast: {error}") from None

    @property
    def context_tokens(self) -> Number:
        """Tokens of a sequence in the cache once its prompt is processed."""
        return self.prompt_tokens + self.cached_tokens

    @property
    def sequence_tokens(self) -> Number:
        """Tokens of a whole sequence, prompt and output."""
        return self.context_tokens + self.output_tokens

    def __repr__(self) -> str:
        return brief(self, "prompt_tokens", "output_tokens", "batch")
