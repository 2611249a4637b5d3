"""Schema of a model's spec, and its conversion to a `Model`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)

from ..errors import InvalidInput
from ..model import EncoderStack, Layer, LookupTable, Model, Product, Tower
from ..model.blocks import KINDS, Block
from ..operators.precision import Precision
from .schema import Source, SpecFile, Strict, faults
from .variants import Variant


class LayerSpec(Strict):
    """A group of equal layers: ``count``, then one key per block in the order of the blocks (``model.blocks``)."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    count: int = Field(ge=1)
    """Number of layers in the group."""
    norms: int = Field(default=2, ge=0)
    """Normalizations of a layer over the hidden width."""
    reused: bool = False
    """Whether the weights are shared with an earlier group."""
    together: tuple[int, ...] = Field(default=(), strict=False)
    """Numbers of consecutive blocks whose outputs are added; ``[2]`` for attention parallel to an MLP."""


class TableSpec(Strict):
    """A table from which each token looks up one row."""

    rows: int = Field(ge=1)
    """Number of rows."""
    width: int = Field(ge=1)
    """Values per row."""


class ProductSpec(Strict):
    """A matrix of a tower outside its layers."""

    d_in: int = Field(ge=1)
    """Inputs of the matrix."""
    d_out: int = Field(ge=1)
    """Outputs of the matrix."""
    rows: int = Field(default=1, ge=1)
    """Rows per position before the layers, and per token after them."""


class TowerSpec(Strict):
    """Shapes of an image or audio encoder that determine its FLOPs; ``apart`` has its parameters."""

    hidden: int = Field(ge=1)
    """Width of the residual stream."""
    intermediate: int = Field(ge=1)
    """Inner width of the MLPs."""
    layers: int = Field(ge=1)
    """Number of layers that run."""
    heads: int = Field(ge=1)
    """Query heads."""
    head_dim: int | None = Field(default=None, ge=1)
    """Width of a head, if it is not ``hidden / heads``."""
    kv_heads: int | None = Field(default=None, ge=1)
    """KV heads, if fewer than query heads."""
    gated: bool = False
    """Whether MLPs have a gate."""
    stem: tuple[ProductSpec, ...] = Field(default=(), strict=False)
    """Matrices that map a patch, or frames of audio, to a position."""
    projector: tuple[ProductSpec, ...] = Field(default=(), strict=False)
    """Matrices that map ``merge`` positions to a token of the language model."""
    merge: int = Field(default=1, ge=1)
    """Positions per token of the language model."""
    positions: int | None = Field(default=None, ge=1)
    """Positions per image or tile of fixed size, or per window of audio; absent for images of any size."""
    class_tokens: int = Field(default=0, ge=0)
    """Additional positions besides those of the image."""
    window: int = Field(default=0, ge=0)
    """Positions per window in windowed layers."""
    windowed_layers: int = Field(default=0, ge=0)
    """Number of windowed layers."""
    usual_tokens: int = Field(default=0, ge=0)
    """Default tokens per image, for encoders that accept any size."""
    window_s: float = Field(default=0.0, ge=0, strict=False)
    """Seconds of audio per window; 0 for images."""
    outside: bool = False
    """Whether its tokens stay outside the sequence, where layers of cross-attention look at them."""

    def build(self) -> Tower:
        """Convert to a tower."""
        fields = dict(self)
        for name in ("stem", "projector"):
            fields[name] = tuple(Product(**dict(each)) for each in fields[name])
        return Tower(**fields)


class PrecisionSpec(Strict):
    """Formats of a checkpoint."""

    weights: str = "bf16"
    """Format of the linear layers."""
    activations: str = "bf16"
    """Format of their inputs."""
    kv: str = "bf16"
    """Format of the cache."""
    exceptions: dict[str, str] = Field(default_factory=dict)
    """Part of the model -> format of its weights, if it differs."""


class CountedSpec(Strict):
    """Independent parameter counts, from the checkpoint or a framework."""

    total: int = Field(ge=1)
    """All parameters of the language model; a tied table counts once."""
    active: int | None = Field(default=None, ge=1)
    """Parameters that one token is multiplied with, without lookups."""
    source: str
    """Name of the source of the counts."""


class VariantSpec(Strict):
    """A checkpoint with the shapes of the model that differs from it in a known way."""

    title: str = ""
    """Its name as people write it."""
    max_context_tokens: int | None = Field(default=None, ge=1)
    """Longest context, if it differs."""
    vocab: int | None = Field(default=None, ge=1)
    """Rows of the embedding and of lm_head, if they differ."""
    without: tuple[str, ...] = Field(default=(), strict=False)
    """Parts in ``apart`` that this checkpoint lacks."""
    note: str = ""
    """What is not known about it, or how it differs otherwise."""
    source: str = ""
    """Which of the file's ``sources`` states the difference, or names the checkpoint."""


class EncoderSpec(Strict):
    """The encoder of an encoder-decoder, with the width and normalization of the decoder."""

    layers: tuple[LayerSpec, ...] = Field(min_length=1, strict=False)
    """Groups of equal layers."""
    stem: tuple[ProductSpec, ...] = Field(default=(), strict=False)
    """Matrices that map frames of audio to a position."""
    tables: dict[str, TableSpec] = Field(default_factory=dict)
    """Tables of positions or relative distances."""
    positions: int | None = Field(default=None, ge=1)
    """Fixed number of source positions; if absent, those of the prompt."""
    window_s: float = Field(default=0.0, ge=0, strict=False)
    """Seconds of audio in a source of fixed length."""


class ModelSpec(SpecFile):
    """One file of ``model_specs/``."""

    aliases: tuple[str, ...] = Field(default=(), strict=False)
    """Other names; hub ids of the sources are added automatically."""
    variants: dict[str, VariantSpec] = Field(default_factory=dict)
    """Other checkpoints with the same layers, by name, and what differs."""
    sources: dict[str, Source] = Field(min_length=1)
    """Documents with the shapes, by short name."""
    hidden: int = Field(ge=1)
    """Width of the residual stream."""
    vocab: int = Field(ge=1)
    """Rows of the embedding."""
    layers: tuple[LayerSpec, ...] = Field(min_length=1, strict=False)
    """Groups of equal layers."""
    tied_embeddings: bool = False
    """Whether lm_head shares the embedding's weights."""
    lm_head_bias: bool = False
    """Whether lm_head has a bias."""
    has_lm_head: bool = True
    """Whether there is an lm_head; encoders have none, or one for masked tokens."""
    norm: Literal["rms", "layer", "none"] = "rms"
    """Kind of normalization: RMS (one vector), layer norm (two), or none with parameters."""
    position_rows: int = Field(default=0, ge=0)
    """Rows of the table of learned positions."""
    embedding_norm: bool = False
    """Whether the embedding is normalized."""
    final_norm: bool = True
    """Whether the last hidden state is normalized."""
    embedding_rows: int | None = Field(default=None, ge=1)
    """Rows of the embedding, if different from ``vocab``."""
    embedding_width: int | None = Field(default=None, ge=1)
    """Width of the embedding, if different from ``hidden``."""
    tables: dict[str, TableSpec] = Field(default_factory=dict)
    """Additional lookup tables."""
    around: tuple[dict[str, dict[str, Any]], ...] = Field(default=(), strict=False)
    """Blocks before or after all layers."""
    pooled: tuple[dict[str, dict[str, Any]], ...] = Field(default=(), strict=False)
    """Blocks of an encoder that run on one position of each sequence: a pooler, a classifier."""
    apart: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    """Parameters of towers beside the language model, by name."""
    encoder: EncoderSpec | None = None
    """Encoder of an encoder-decoder."""
    towers: dict[str, TowerSpec] = Field(default_factory=dict)
    """Shapes of image and audio encoders, by the names in ``apart``."""
    precision: PrecisionSpec | None = None
    """Formats of the checkpoint; bf16 if absent."""
    max_context_tokens: int | None = Field(default=None, ge=1)
    """Longest context of the model."""
    counted: CountedSpec | None = None
    """Independent parameter counts, with which ``roofline check`` compares the shapes."""

    @field_validator("counted")
    @classmethod
    def _source_exists(cls, counted: CountedSpec | None, info: ValidationInfo) -> CountedSpec | None:
        known = info.data.get("sources", {})
        if counted is not None and known and counted.source not in known:
            raise InvalidInput(f"counted: source {counted.source!r} is not among {', '.join(known)}")
        return counted

    @model_validator(mode="after")
    def _variants_differ(self) -> ModelSpec:
        for name, variant in self.variants.items():
            states = bool(variant.max_context_tokens or variant.vocab or variant.without)
            if unknown := [part for part in variant.without if part not in self.apart]:
                raise InvalidInput(f"variants.{name}: {unknown[0]!r} is not among apart ({', '.join(self.apart)})")
            if not states and not variant.note:
                raise InvalidInput(f"variants.{name}: nothing differs; list it in aliases")
            if (states or variant.source) and variant.source not in self.sources:
                raise InvalidInput(f"variants.{name}: source {variant.source!r} is not among {', '.join(self.sources)}")
        return self

    def build(self) -> Model:
        """The model.

        Raises
        ------
        InvalidInput
            A block is of an unknown kind, or its sizes contradict each other.
        """
        norm = {"rms": 1, "layer": 2, "none": 0}[self.norm] * self.hidden
        first = next(iter(self.sources.values()))
        return Model(
            name=self.name,
            title=self.title,
            hidden=self.hidden,
            vocab=self.vocab,
            layers=tuple(self._layer(f"layers.{at}", spec, norm) for at, spec in enumerate(self.layers)),
            tied_embeddings=self.tied_embeddings,
            lm_head_bias=self.lm_head_bias,
            has_lm_head=self.has_lm_head,
            final_norm=norm if self.final_norm else 0,
            position_rows=self.position_rows,
            embedding_norm=norm if self.embedding_norm else 0,
            embedding_rows=self.embedding_rows,
            embedding_width=self.embedding_width,
            tables=tuple(LookupTable(name, table.rows, table.width) for name, table in self.tables.items()),
            around=self._outside("around", self.around),
            pooled=self._outside("pooled", self.pooled),
            encoder=self._encoder(norm),
            apart=self.apart,
            towers={name: tower.build() for name, tower in self.towers.items()},
            precision=Precision(**self.precision.model_dump()) if self.precision else None,
            max_context_tokens=self.max_context_tokens,
            source=f"{first.title} {first.url}".strip(),
            repository=self._repository(),
        )

    def _repository(self) -> str:
        """Hub id that the source of the formats links to, else that of the shapes."""
        named = self.sources.get("formats")
        for source in (*([named] if named else []), *self.sources.values()):
            found = hub_id_of(source)
            if found:
                return found
        return ""

    def _layer(self, where: str, spec: LayerSpec, norm: int) -> Layer:
        blocks = (self._block(f"{where}.{kind}", kind, fields) for kind, fields in (spec.model_extra or {}).items())
        with _located(where):
            return Layer(spec.count, tuple(blocks), (norm,) * spec.norms, spec.reused, spec.together)

    def _encoder(self, norm: int) -> EncoderStack | None:
        if self.encoder is None:
            return None
        spec = self.encoder
        layers = enumerate(spec.layers)
        return EncoderStack(
            hidden=self.hidden,
            layers=tuple(self._layer(f"encoder.layers.{at}", layer, norm) for at, layer in layers),
            final_norm=norm,
            stem=tuple(Product(**dict(each)) for each in spec.stem),
            tables=tuple(LookupTable(name, table.rows, table.width) for name, table in spec.tables.items()),
            positions=spec.positions,
            window_s=spec.window_s,
        )

    def _outside(self, where: str, entries: tuple[dict[str, dict[str, Any]], ...]) -> tuple[Block, ...]:
        """Blocks outside the layers, which run once."""
        return tuple(
            self._block(f"{where}.{at}.{kind}", kind, fields)
            for at, entry in enumerate(entries)
            for kind, fields in entry.items()
        )

    def _block(self, where: str, kind: str, fields: Any) -> Block:
        if kind not in KINDS:
            raise InvalidInput(f"{where}: no kind of block named {kind!r}; known: {', '.join(KINDS)}")
        if not isinstance(fields, dict):
            raise InvalidInput(f"{where} must be a mapping of sizes, not {fields!r}")
        with _located(where):
            checked = block_spec(kind).model_validate({"hidden": self.hidden, **fields})
            return KINDS[kind](**_values(checked, KINDS[kind]))


def hub_id_of(source: Source) -> str:
    """The hub id that a source links to; empty if it links elsewhere."""
    found = re.fullmatch(r"https://huggingface\.co/([\w.-]+/[\w.-]+)", source.url)
    return found[1] if found else ""


def variants_of(data: Mapping[str, Any]) -> tuple[Variant, ...]:
    """Return the variants in the data of a spec.

    Parameters
    ----------
    data : mapping
        Content of the file.
    """
    sources = {name: Source.model_validate(fields) for name, fields in data.get("sources", {}).items()}
    found = []
    for name, fields in data.get("variants", {}).items():
        spec = VariantSpec.model_validate(fields)
        source = sources.get(spec.source)
        said = {"source": source.title, "repository": hub_id_of(source)} if source else {"source": ""}
        found.append(Variant(**{"name": name, **dict(spec), **said}))
    return tuple(found)


def block_spec(kind: str) -> type[BaseModel]:
    """Pydantic model of a kind of block."""
    return _spec_of(KINDS[kind])


@cache
def _spec_of(value: type) -> type[BaseModel]:
    """Pydantic model generated from the fields of a dataclass, so that both agree; nested parts are mappings."""
    hints = get_type_hints(value)
    fields: dict[str, Any] = {}
    for item in dataclasses.fields(value):
        part = _part_of(hints[item.name])
        hint = hints[item.name] if part is None else _spec_of(part) | None
        fields[item.name] = (hint, ... if item.default is dataclasses.MISSING else item.default)
    return create_model(value.__name__, __base__=Strict, **fields)


def _part_of(hint: Any) -> type | None:
    """Dataclass of an optional field, such as the indexer of an attention block."""
    for option in get_args(hint):
        if isinstance(option, type) and dataclasses.is_dataclass(option):
            return option
    return None


def _values(checked: BaseModel, value: type) -> dict[str, Any]:
    """Field values of a dataclass from its validated spec."""
    hints = get_type_hints(value)
    fields = dict(checked)
    for name, field in fields.items():
        part = _part_of(hints[name])
        if part is not None and field is not None:
            fields[name] = part(**_values(field, part))
    return fields


class _located:
    """Add the location to errors that pass through."""

    def __init__(self, where: str) -> None:
        self.where = where

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ValidationError):
            raise InvalidInput("; ".join(faults(error, self.where))) from None
        if isinstance(error, InvalidInput):
            raise InvalidInput(f"{self.where}: {error}") from None
