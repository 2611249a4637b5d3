"""Decoders and encoders: layers, the parts around them, and exact counts."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .. import operators
from ..arrays import FrozenMapping
from ..errors import InvalidInput, Number, number, require
from ..formats import cache_format
from ..operators.operator import Operator, Pass, Segment
from ..operators.precision import AS_PUBLISHED, Precision
from ..operators.weights import Linear, Vector, Weight
from ..report import Report, Step
from ..units import humanize
from .blocks import Attention, Block, Cache
from .counting import explain_count, layer_row, model_lines
from .encoder_stack import EncoderStack
from .layer import NORM_SOURCE, Layer
from .layout_collectives import around_layers
from .parameters import LookupTable, Parameters
from .tower import Tower

if TYPE_CHECKING:
    import pandas as pd

PREDICTION = "multi_token_prediction"
"""Names in `Model.apart` of layers that draft tokens."""

SIZE_TOLERANCE = 0.02
"""Relative difference from the stated size above which shapes or formats are doubtful."""

SHAPES = frozenset(
    {
        *("hidden", "vocab", "layers", "tied_embeddings", "embedding_rows", "embedding_width"),
        *("tables", "around", "encoder", "pooled", "has_lm_head", "apart", "towers"),
    }
)
"""Fields that determine the size of a checkpoint."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Model(Report):
    """A language model: a decoder, or an encoder, whose attention has no causal mask.

    Attributes
    ----------
    name : str
        Short name.
    hidden : int
        Width of the residual stream.
    vocab : int
        Rows of lm_head.
    layers : tuple of Layer
        Groups of equal layers.
    tied_embeddings : bool
        Whether lm_head is the embedding table.
    lm_head_bias : bool
        Whether lm_head has a bias.
    has_lm_head : bool
        Whether there is an lm_head. In encoders it predicts masked tokens: resident, but not needed for embeddings.
    final_norm : int
        Parameters of the norm before lm_head.
    position_rows : int
        Rows of a learned position table.
    embedding_norm : int
        Parameters of a norm after the embedding.
    embedding_rows : int, optional
        Rows of the embedding table, ``vocab`` if None.
    embedding_width : int, optional
        Width of embedding and lm_head, ``hidden`` if None (then blocks ``around`` project).
    tables : tuple of LookupTable
        Further lookup tables.
    around : tuple of Block
        Blocks that run once, outside the layers.
    encoder : EncoderStack, optional
        For an encoder-decoder: the encoder, whose output the layers attend to.
    pooled : tuple of Block
        Blocks after an encoder's layers that run on one position of each sequence: a pooler, a classifier.
    max_context_tokens : int, optional
        Longest context that the model supports; None if not stated.
    apart : mapping of str to int
        Parameters of other parts of the checkpoint (towers, multi-token prediction), by name.
    towers : mapping of str to Tower
        Shapes of the encoders of images and sound in ``apart``, by the same names, where known.
    precision : Precision, optional
        Formats of the checkpoint; None if not stated.
    checkpoint_bytes : int, optional
        Exact size of the checkpoint's tensors, if an index next to the config states it.
    source : str
        Source of the shapes.
    repository : str
        Hub id of the checkpoint in the formats of ``precision``, or the name by which it was asked for; empty if not
        known.
    doubts : tuple of str
        Reasons why counts and sizes may be wrong: a scheme, a field or a family that is not understood. Shown at the
        top of results.
    assumptions : tuple of str
        What was assumed by convention or left out, including ``doubts``.
    """

    name: str
    hidden: int
    vocab: int
    layers: tuple[Layer, ...]
    title: str = ""
    tied_embeddings: bool = False
    lm_head_bias: bool = False
    has_lm_head: bool = True
    final_norm: int = 0
    position_rows: int = 0
    embedding_norm: int = 0
    embedding_rows: int | None = None
    embedding_width: int | None = None
    tables: tuple[LookupTable, ...] = ()
    around: tuple[Block, ...] = ()
    encoder: EncoderStack | None = None
    pooled: tuple[Block, ...] = ()
    max_context_tokens: int | None = None
    apart: Mapping[str, int] = field(default_factory=dict)
    towers: Mapping[str, Tower] = field(default_factory=dict)
    precision: Precision | None = None
    checkpoint_bytes: int | None = None
    source: str = ""
    repository: str = ""
    doubts: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    columns = (
        "name",
        "parameters_total",
        "parameters_active",
        "layer_count",
        "kv_bytes_per_token",
        "max_context_tokens",
    )

    def __post_init__(self) -> None:
        for name in ("hidden", "vocab"):
            number(name, getattr(self, name), least=1, whole=True)
        if not self.layers:
            raise InvalidInput("a model needs at least one group of layers: layers is empty")
        object.__setattr__(self, "apart", FrozenMapping(self.apart))
        object.__setattr__(self, "towers", FrozenMapping(self.towers))

    @cached_property
    def layer_count(self) -> int:
        """Number of layers in all groups."""
        return sum(layer.count for layer in self.layers)

    @cached_property
    def encodes(self) -> bool:
        """Whether it is an encoder, without generation: all tokens see each other, or there is no lm_head."""
        blocks = (block for layer in self.layers for block in layer.blocks)
        return not self.has_lm_head or any(isinstance(block, Attention) and not block.causal for block in blocks)

    @property
    def width(self) -> int:
        """Width of embedding and lm_head."""
        return self.embedding_width or self.hidden

    @property
    def embedding(self) -> LookupTable:
        """The input table."""
        return LookupTable("embedding", self.embedding_rows or self.vocab, self.width)

    @property
    def lm_head(self) -> Linear:
        """The output projection; it has no columns if the model has none."""
        columns, pieces = (self.vocab, None) if self.has_lm_head else (0, 1)
        return Linear("lm_head", self.width, columns, "lm_head", self.lm_head_bias, split="columns", pieces=pieces)

    @property
    def lookups(self) -> tuple[LookupTable, ...]:
        """Tables other than the embedding."""
        return (*self._own_lookups(), *(self.encoder.tables if self.encoder else ()))

    def _own_lookups(self) -> tuple[LookupTable, ...]:
        """Tables that a generated token looks up."""
        positions = (LookupTable("positions", self.position_rows, self.hidden),) if self.position_rows else ()
        return (*positions, *self.tables)

    def _vectors(self) -> tuple[Vector, ...]:
        """Norms outside the layers."""
        vectors = (Vector("final_norm", self.final_norm), Vector("embedding_norm", self.embedding_norm))
        return tuple(vector for vector in vectors if vector.size)

    @property
    def parameters(self) -> Parameters:
        """Exact counts of all matrices and vectors that the blocks declare, times their layers."""
        by_part: dict[str, int] = {}
        active = 0
        for count, weight in self.counted_weights():
            by_part[weight.part] = by_part.get(weight.part, 0) + count * weight.parameters
            active += count * weight.active
        embedding = self.embedding.parameters
        head, matrix = self.lm_head.parameters, self.lm_head.d_in * self.lm_head.d_out
        by_part["embedding"] = embedding + sum(table.parameters for table in self.lookups)
        by_part["lm_head"] = head - matrix if self.tied_embeddings else head
        return Parameters(
            total=sum(by_part.values()),
            active=active + head,
            embedding=embedding,
            lm_head=matrix,
            by_part=FrozenMapping(by_part),
        )

    @property
    def parameters_total(self) -> int:
        """All parameters of the language model."""
        return self.parameters.total

    @property
    def parameters_active(self) -> int:
        """Parameters that one token is multiplied with."""
        return self.parameters.active

    def counted_weights(self) -> Iterator[tuple[int, Weight]]:
        """Yield stored weights, each with the number of times it occurs."""
        for layer in self.layers:
            if not layer.reused:
                for weight in layer.weights():
                    yield layer.count, weight
        for block in (*self.around, *self.pooled):
            for weight in block.weights():
                yield 1, weight
        for vector in self._vectors():
            yield 1, vector
        for _, count, weights in self.encoder.groups() if self.encoder else ():
            for weight in weights:
                yield count, weight

    def weight_bytes(self, precision: Precision) -> float:
        """Return the bytes of all resident weights, each part in its own format, a tied table once."""
        total = 0.0
        bias_bits = precision.part("bias").weight_bits
        for count, weight in (*self.counted_weights(), (1, self.lm_head)):
            bits = precision.part(weight.part).weight_bits
            biases = weight.copies * weight.d_out if isinstance(weight, Linear) and weight.bias else 0
            if weight.name == "lm_head" and self.tied_embeddings:
                total += biases * bias_bits / 8
            else:
                total += count * ((weight.parameters - biases) * bits + biases * bias_bits) / 8
        rows = sum(table.parameters for table in (self.embedding, *self.lookups))
        return total + rows * precision.part("embedding").weight_bits / 8

    def cache_bytes(self, tokens: Number, kv: str = "bf16") -> Number:
        """Return the bytes of KV cache and state for one sequence, with windows and constant state.

        This is what the architecture needs; an engine may reserve more, see `engine_cache_bytes`.

        Raises
        ------
        InvalidInput
            ``tokens`` is not an integer >= 0.
        UnknownName
            ``kv`` is not a format.

        Examples
        --------
        >>> import roofline as rl
        >>> rl.get_model("llama-3.1-70b").cache_bytes(1)
        327680.0
        """
        return self._cache_bytes(number("tokens", tokens, whole=True), cache_format(kv).bits)

    def _cache_bytes(self, tokens: Number, kv_bits: float) -> Number:
        return sum(count * cache.bytes(tokens, kv_bits) for count, cache in self.counted_caches())

    def engine_cache_bytes(
        self, tokens: Number, kv: str = "bf16", *, page_tokens: int = 16, hybrid: bool = False
    ) -> Number:
        """Return the bytes that an engine reserves for one sequence: whole pages in every layer with a cache.

        Parameters
        ----------
        hybrid : bool
            Whether the engine has several kinds of pages, so that windowed layers keep their window only. Without, they
            store every token (vLLM's default until its hybrid KV cache manager).

        Raises
        ------
        InvalidInput
            ``tokens`` is not an integer >= 0, or ``page_tokens`` is not an integer >= 1.
        UnknownName
            ``kv`` is not a format.

        Examples
        --------
        >>> import roofline as rl
        >>> float(rl.get_model("llama-3.1-70b").engine_cache_bytes(1) / 327680)
        16.0
        """
        tokens = number("tokens", tokens, whole=True)
        number("page_tokens", page_tokens, least=1, whole=True)
        bits = cache_format(kv).bits
        return sum(
            count * cache.engine_bytes(tokens, bits, page_tokens=page_tokens, hybrid=hybrid)
            for count, cache in self.counted_caches()
        )

    @property
    def has_experts(self) -> bool:
        """Whether some layers are mixtures of experts."""
        return bool(self.parameters.by_part.get("experts"))

    @property
    def prediction_parameters(self) -> int:
        """Parameters of the layers for multi-token prediction."""
        return self.apart.get(PREDICTION, 0)

    @property
    def tower_parameters(self) -> int:
        """Parameters of encoders for images and sound."""
        return sum(self.apart.values()) - self.prediction_parameters

    def stored_bytes(self, precision: Precision) -> float:
        """Return the bytes of a checkpoint in these formats, with towers in 16 bits."""
        language = self.weight_bytes(precision)
        drafting = self.prediction_parameters * language / self.parameters.total
        return language + drafting + self.tower_parameters * 16 / 8

    def size_doubt(self) -> str:
        """Warning if the stated checkpoint size differs from that of its shapes and formats; else empty."""
        if self.checkpoint_bytes is None:
            return ""
        computed = self.stored_bytes(self.precision or AS_PUBLISHED)
        if abs(computed / self.checkpoint_bytes - 1) <= SIZE_TOLERANCE:
            return ""
        stated, given = (humanize("bytes", value) for value in (self.checkpoint_bytes, computed))
        return f"the checkpoint states {stated} of tensors, but its configuration gives {given}; memory uses the former"

    def all_doubts(self) -> tuple[str, ...]:
        """`doubts` and `size_doubt`."""
        return tuple(filter(None, (*self.doubts, self.size_doubt())))

    def counted_caches(self) -> Iterator[tuple[int, Cache]]:
        """Yield the caches of each layer, with the number of such layers."""
        for layer in self.layers:
            for cache in layer.caches():
                yield layer.count, cache

    def looked_at(self, images: Number, image_tokens: Number) -> Number:
        """Return the positions of images outside the sequence that layers of cross-attention look at."""
        return sum((tower.looked_at(images, image_tokens) for tower in self.towers.values()), 0.0 * images)

    @property
    def kv_bytes_per_token(self) -> float:
        """Bytes per token of a bf16 cache, before any window is full."""
        return float(sum(count * cache.values_per_token / cache.stride * 2 for count, cache in self.counted_caches()))

    def operators(self, run: Pass) -> tuple[Operator, ...]:
        """Return the operators of one forward pass: lookups, layers, blocks around them, lm_head.

        If the prompts have images or sound, the operators of towers come first.  lm_head runs on the emitted positions.
        """
        found: list[Operator] = []
        if any(segment.has_media for segment in run.segments):
            for name, tower in self.towers.items():
                found.extend(tower.operators(name, run))
        if self.encoder is not None:
            found.extend(self.encoder.operators(run))
        tables = (self.embedding, *self._own_lookups())
        found.extend(operators.lookup(table.name, run.tokens, table.width, run) for table in tables)
        for block in self.around:
            found.extend(block.operators(run))
        for layer in self.layers:
            found.extend(layer.operators(run, self.hidden))
        found.extend(
            operators.elementwise(
                vector.name, run.tokens, 2 * self.hidden, run, parameters=vector.size, source=NORM_SOURCE
            )
            for vector in self._vectors()
        )
        if self.encodes:
            found.extend(self._pooling(run))
        else:
            found.append(operators.linear(self.lm_head, run.emitted_tokens, run))
        if not run.parallel.single:
            found.extend(around_layers(self.hidden, 0 if self.encodes else self.vocab, run))
        return tuple(found)

    def _pooling(self, run: Pass) -> Iterator[Operator]:
        """Yield operators that run on one position of each sequence; a head for masked tokens does not run."""
        positions = tuple(Segment(part.sequences, part.emitted_tokens, 0.0) for part in run.segments)
        for block in () if self.has_lm_head else self.pooled:
            yield from block.operators(dataclasses.replace(run, segments=positions))

    def replace(self, **changes: Any) -> Model:
        """Return a copy with other fields; the size of the checkpoint is dropped if shapes change."""
        if changes.keys() & SHAPES:
            changes = {"checkpoint_bytes": None} | changes
        return dataclasses.replace(self, **changes)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per group of equal layers: kind, parameters, and cache per sequence."""
        require("pandas", "frame", "a table")
        import pandas as pd

        return pd.DataFrame([layer_row(layer) for layer in self.layers])

    def __repr__(self) -> str:
        return "\n".join(model_lines(self))

    def _repr_html_(self) -> str:
        lines = repr(self).split("\n")
        rows = "".join(f"<li>{html.escape(line.strip())}</li>" for line in lines[1:])
        return f"<p><b>{html.escape(lines[0])}</b></p><ul>{rows}</ul>"

    def weight_groups(self) -> list[tuple[str, int, tuple[Weight, ...]]]:
        """Return stored weights by group: name, number of copies, and the weights."""
        groups = [
            (f"layers_{at}", layer.count, tuple(layer.weights()))
            for at, layer in enumerate(self.layers)
            if not layer.reused
        ]
        outside: tuple[Weight, ...] = self._vectors()
        for block in reversed((*self.around, *self.pooled)):
            outside = (*block.weights(), *outside)
        if outside:
            groups.append(("outside_layers", 1, outside))
        if self.encoder is not None:
            groups.extend(self.encoder.groups())
        return groups

    def _derivation(self) -> tuple[Step, ...]:
        return explain_count(self)
