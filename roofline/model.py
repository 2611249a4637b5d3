"""Models: groups of equal layers, each a sequence of blocks, with exact counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from . import operators
from .errors import InvalidInput, Number, number
from .formats import get_format
from .layers import Block, Cache
from .operators import Operator, Pass
from .precision import Precision
from .report import Report
from .weights import Linear, Vector, Weight


@dataclass(frozen=True)
class Layer:
    """``count`` equal layers.

    Attributes
    ----------
    count : how many
    blocks : what each is made of, in order: as a rule an attention kind and an MLP kind
    norms : parameters of each norm (a norm without parameters is 0)
    """

    count: int
    blocks: tuple[Block, ...]
    norms: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1:
            raise InvalidInput(f"count must be a whole number >= 1: {self.count!r}")

    @property
    def kind(self) -> str:
        """The kinds of its blocks."""
        return " + ".join(block.kind for block in self.blocks)

    def weights(self) -> Iterator[Weight]:
        """Weights of one of the layers."""
        for block in self.blocks:
            yield from block.weights()
        for size in self.norms:
            yield Vector("norm", size)

    def caches(self) -> Iterator[Cache]:
        """What one of the layers keeps of a sequence."""
        for block in self.blocks:
            yield from block.caches()

    def operators(self, run: Pass, hidden: int) -> Iterator[Operator]:
        """Operators of one pass through all ``count`` layers."""
        for block in self.blocks:
            for operator in block.operators(run):
                yield dataclasses.replace(operator, count=self.count)
        if self.norms:
            size = sum(self.norms) / len(self.norms)
            norm = operators.elementwise(
                "norm", run.tokens, 2 * hidden, run, parameters=size, source=NORM_SOURCE
            )
            yield dataclasses.replace(norm, count=self.count * len(self.norms))
        residual = operators.elementwise("residual", run.tokens, 3 * hidden, run, source=RESIDUAL_SOURCE)
        yield dataclasses.replace(residual, count=self.count * len(self.blocks))


NORM_SOURCE = "norm: a token's vector read and written, its parameters read"
RESIDUAL_SOURCE = "residual: two vectors read and one written for each token"


@dataclass(frozen=True)
class Parameters(Report):
    """Exact parameter counts.

    Attributes
    ----------
    total : all parameters, a tied table once
    active : what one token is multiplied with: top-k experts, shared experts, attention, norms, lm_head (also when it
        is the embedding table); lookups are left out
    embedding : the input table
    lm_head : the output projection, also when it is the same table
    by_part : parameters of each part, all layers together
    """

    total: int
    active: int
    embedding: int
    lm_head: int
    by_part: Mapping[str, int]

    columns = ("total", "active", "embedding", "lm_head")


@dataclass(frozen=True, kw_only=True)
class Model:
    """A decoder language model.

    Attributes
    ----------
    name : short name
    hidden : width of the residual stream
    vocab : rows of the embedding table
    layers : groups of equal layers
    tied_embeddings : whether lm_head is the embedding table
    lm_head_bias : whether lm_head has a bias
    final_norm : parameters of the norm before lm_head
    position_rows : rows of a learned position table
    embedding_norm : parameters of a norm after the embedding
    max_context_tokens : what the model was made for; None if not stated
    apart : parameters of what a checkpoint has beside the language model (towers, multi-token prediction), by name
    source : where the shapes are from
    """

    name: str
    hidden: int
    vocab: int
    layers: tuple[Layer, ...]
    title: str = ""
    tied_embeddings: bool = False
    lm_head_bias: bool = False
    final_norm: int = 0
    position_rows: int = 0
    embedding_norm: int = 0
    max_context_tokens: int | None = None
    apart: Mapping[str, int] = field(default_factory=dict)
    source: str = ""

    def __post_init__(self) -> None:
        for name in ("hidden", "vocab"):
            number(name, getattr(self, name), least=1, whole=True)
        if not self.layers:
            raise InvalidInput("a model needs at least one group of layers: layers is empty")
        object.__setattr__(self, "apart", MappingProxyType(dict(self.apart)))

    @property
    def layer_count(self) -> int:
        """Layers of all groups."""
        return sum(layer.count for layer in self.layers)

    @property
    def lm_head(self) -> Linear:
        """The output projection."""
        return Linear("lm_head", self.hidden, self.vocab, "lm_head", self.lm_head_bias)

    def _outside_layers(self) -> tuple[Weight, ...]:
        """Everything beside the layers that is neither embedding nor lm_head."""
        return (Vector("final_norm", self.final_norm), Vector("embedding_norm", self.embedding_norm))

    @property
    def parameters(self) -> Parameters:
        """Exact counts: every matrix and vector that the blocks declare, times its layers."""
        by_part: dict[str, int] = {}
        active = 0
        for count, weight in self._counted_weights():
            by_part[weight.part] = by_part.get(weight.part, 0) + count * weight.parameters
            active += count * weight.active
        embedding = self.vocab * self.hidden
        by_part["embedding"] = embedding + self.position_rows * self.hidden
        head = self.lm_head.parameters
        by_part["lm_head"] = head - embedding if self.tied_embeddings else head
        return Parameters(
            total=sum(by_part.values()),
            active=active + head,
            embedding=embedding,
            lm_head=head,
            by_part=MappingProxyType(by_part),
        )

    def _counted_weights(self) -> Iterator[tuple[int, Weight]]:
        for layer in self.layers:
            for weight in layer.weights():
                yield layer.count, weight
        for weight in self._outside_layers():
            yield 1, weight

    def weight_bytes(self, precision: Precision) -> float:
        """Bytes of all weights resident in memory, each part in its own format, a tied table once."""
        total = 0.0
        bias_bits = precision.part("bias").weight_bits
        for count, weight in (*self._counted_weights(), (1, self.lm_head)):
            bits = precision.part(weight.part).weight_bits
            biases = weight.copies * weight.d_out if isinstance(weight, Linear) and weight.bias else 0
            if weight.name == "lm_head" and self.tied_embeddings:
                total += biases * bias_bits / 8
            else:
                total += count * ((weight.parameters - biases) * bits + biases * bias_bits) / 8
        rows = self.vocab + self.position_rows
        return total + rows * self.hidden * precision.part("embedding").weight_bits / 8

    def cache_bytes(self, tokens: Number, kv: str = "bf16") -> Number:
        """Bytes of KV cache and state of one sequence of ``tokens``: windows capped, constant state included.

        This is what the architecture needs; an engine may reserve more.

        Raises
        ------
        InvalidInput
            ``tokens`` is not a whole number >= 0.
        UnknownName
            ``kv`` is not a format.

        Examples
        --------
        >>> import roofline as rl
        >>> rl.get_model("llama-3.1-70b").cache_bytes(1)
        327680.0
        """
        return self._cache_bytes(number("tokens", tokens, whole=True), get_format(kv).bits)

    def _cache_bytes(self, tokens: Number, kv_bits: float) -> Number:
        return sum(
            layer.count * cache.bytes(tokens, kv_bits) for layer in self.layers for cache in layer.caches()
        )

    def operators(self, run: Pass) -> tuple[Operator, ...]:
        """Operators of one forward pass: lookup, layers, final norm, lm_head on the emitted positions."""
        found = [operators.lookup("embedding", run.tokens, self.hidden, run)]
        if self.position_rows:
            found.append(operators.lookup("positions", run.tokens, self.hidden, run))
        for layer in self.layers:
            found.extend(layer.operators(run, self.hidden))
        for weight in self._outside_layers():
            if weight.parameters:
                found.append(
                    operators.elementwise(
                        weight.name,
                        run.tokens,
                        2 * self.hidden,
                        run,
                        parameters=weight.parameters,
                        source=NORM_SOURCE,
                    )
                )
        found.append(operators.linear(self.lm_head, run.emitted_tokens, run))
        return tuple(found)

    def replace(self, **changes: Any) -> Model:
        """A copy with other fields."""
        return dataclasses.replace(self, **changes)
