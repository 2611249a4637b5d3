"""Towers: encoders that turn images and sound into tokens of a language model, and their work.

An image is cut into square patches, one position each, and a matrix turns each patch into a vector.  In the layers of
attention and MLP that follow, all positions of the image see each other.  A projector turns every ``merge`` positions
into a token of the language model (ViT, arXiv:2010.11929; LLaVA, arXiv:2304.08485; Qwen2-VL, arXiv:2409.12191).
Sound is cut into windows of fixed length, each encoded whole, including silence at its end (Whisper, arXiv:2212.04356).
With ``p`` positions of width ``d`` in ``L`` layers with MLPs of width ``f``, an image takes

    L (2 p (4 d^2 + 2 d f) + 4 p^2 d)

FLOPs, plus those of the first matrix and the projector; for a gated MLP, ``2 d f`` becomes ``3 d f``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from .. import operators
from ..arrays import scalar
from ..errors import InvalidInput, Number
from ..formats import get_format
from ..operators.collectives import collective
from ..operators.links import Message
from ..operators.operator import Operator, Pass, Segment
from ..operators.precision import Precision
from ..operators.weights import Linear
from ..values import Value
from .blocks import MLP, Attention
from .blocks.block import whole
from .layer import MOST_LAYERS, Layer

IMAGE_PIXELS = 1024
"""Default height and width of an image, for encoders that accept any size."""


@dataclass(frozen=True, eq=False)
class Product(Value):
    """A matrix ``[d_in, d_out]`` outside the layers.

    Attributes
    ----------
    d_in, d_out : int
        Shape of the matrix.
    rows : int
        Rows of input per position (before the layers) or per token (after them).
    """

    d_in: int
    d_out: int
    rows: int = 1

    def __post_init__(self) -> None:
        whole(self, "d_in", "d_out", "rows")


@dataclass(frozen=True, eq=False, kw_only=True)
class Tower(Value):
    """Shapes of an encoder of images or sound that determine its work; parameters are counted separately.

    Attributes
    ----------
    hidden, intermediate : int
        Widths of the residual stream and of the MLPs.
    layers : int
        Number of layers that run.
    heads : int
        Query heads.
    head_dim, kv_heads : int, optional
        Width of a head, ``hidden / heads`` if None; KV heads, as many as query heads if None.
    gated : bool
        Whether MLPs have a gate.
    stem : tuple of Product
        Matrices that turn a patch, or frames of sound, into a position.
    projector : tuple of Product
        Matrices that turn ``merge`` positions into a token of the language model.
    merge : int
        Number of positions per token.
    positions : int, optional
        Positions per image or tile of fixed size, or per window of sound; None for images of any size.
    class_tokens : int
        Additional positions besides those of the image.
    window, windowed_layers : int
        Positions that see each other in windowed layers, and the number of such layers.
    usual_tokens : int
        Default tokens per image, for encoders that accept any size.
    window_s : float
        Seconds of sound that are encoded together; 0 for images.
    outside : bool
        Whether its tokens stay outside the sequence: layers of cross-attention look at them (Llama 3.2 Vision).

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1, or ``usual_tokens`` is missing for images of any size.
    """

    hidden: int
    intermediate: int
    layers: int
    heads: int
    head_dim: int | None = None
    kv_heads: int | None = None
    gated: bool = False
    stem: tuple[Product, ...] = ()
    projector: tuple[Product, ...] = ()
    merge: int = 1
    positions: int | None = None
    class_tokens: int = 0
    window: int = 0
    windowed_layers: int = 0
    usual_tokens: int = 0
    window_s: float = 0.0
    outside: bool = False

    def __post_init__(self) -> None:
        whole(self, "hidden", "intermediate", "layers", "heads", "merge")
        whole(self, "class_tokens", "window", "windowed_layers", "usual_tokens", least=0)
        if self.layers > MOST_LAYERS:
            raise InvalidInput(f"layers must be at most {MOST_LAYERS:,}: {self.layers:,}")
        for name in ("head_dim", "kv_heads", "positions"):
            if getattr(self, name) is not None:
                whole(self, name)
        if self.positions is None and not self.usual_tokens:
            raise InvalidInput("a tower for images of any size needs usual_tokens")
        if self.head_dim is None and self.hidden < self.heads:
            raise InvalidInput(f"heads must be at most hidden, {self.hidden:,}: {self.heads!r}")
        if not 0 <= self.window_s < np.inf or (self.window_s and self.positions is None):
            raise InvalidInput(f"window_s must be seconds of sound, with their positions: {self.window_s!r}")

    @property
    def hears(self) -> bool:
        """Whether the tower encodes sound."""
        return self.window_s > 0

    def tokens_of_image(self, image_tokens: Number) -> Number:
        """Return the tokens per image in the language model: as given, or the usual number for 0."""
        usual = self.usual_tokens if self.positions is None else self.positions // self.merge
        return scalar(np.where(np.asarray(image_tokens) > 0, image_tokens, float(usual)))

    def tokens_of(self, segment: Segment) -> Number:
        """Return the tokens of a sequence that come from this tower; none if they stay outside it."""
        if self.outside:
            return 0.0 * segment.images
        if self.positions is not None and self.hears:
            return np.ceil(segment.audio_s / self.window_s * (self.positions / self.merge))
        return segment.images * self.tokens_of_image(segment.image_tokens)

    def looked_at(self, images: Number, image_tokens: Number) -> Number:
        """Return the positions outside a sequence with ``images`` that its cross-attention looks at."""
        if self.outside:
            return images * self.tokens_of_image(image_tokens)
        return 0.0 * images

    def encoded(self, segment: Segment) -> tuple[Number, Number]:
        """Return the number of images, tiles or windows per sequence, encoded separately, and their positions."""
        if self.positions is None:
            return segment.images, self.tokens_of_image(segment.image_tokens) * self.merge
        if self.hears:
            return np.ceil(segment.audio_s / self.window_s), float(self.positions)
        tiles = np.ceil(self.tokens_of_image(segment.image_tokens) * self.merge / self.positions)
        return segment.images * tiles, float(self.positions)

    def operators(self, name: str, run: Pass) -> Iterator[Operator]:
        """Yield the operators that encode the images or sound of a pass, named ``name.q_proj`` and so on.

        Every accelerator of a tensor- or context-parallel group has the whole tower and encodes its share of the images
        (vLLM's ``--mm-encoder-tp-mode data``).  The results are gathered.  The least work is an even share.
        """
        parts: list[Segment] = []
        all_images: Number = 0.0
        ways = run.parallel.tensor * run.parallel.context
        for segment in run.segments:
            each, positions = self.encoded(segment)
            images = segment.sequences * each
            all_images = all_images + images
            parts.append(Segment(_on_one(images, ways), positions + self.class_tokens, 0.0, 0.0))
        if not np.any(all_images):
            return
        inner = Pass(tuple(parts), _sixteen_bits(run.precision), run.attention)
        runs = np.asarray(all_images) > 0
        fair = scalar(
            np.where(runs, all_images / ways / np.where(runs, sum(part.sequences for part in parts), 1.0), 1.0)
        )
        for operator in self._operators(inner):
            least = replace(
                operator.least,
                flops=operator.least.flops * fair,
                weight_bytes=operator.least.weight_bytes / ways,
                activation_bytes=operator.least.activation_bytes * fair,
            )
            yield replace(named(name, operator), least=least).times(scalar(runs * 1.0))
        if not run.parallel.single and self.projector:
            tokens = sum(segment.sequences * self.tokens_of(segment) for segment in run.segments)
            made_bytes = tokens * self.projector[-1].d_out * (inner.precision.wide_bits / 8)
            gather = collective(f"{name}.gather", Message("all_gather", made_bytes, ways, 0.0), run)
            yield gather.times(scalar(runs * 1.0))

    def _operators(self, run: Pass) -> Iterator[Operator]:
        """Yield the operators of stem, layers and projector; attention runs within each image."""
        images = sum(part.sequences for part in run.segments)
        positions = run.tokens - images * self.class_tokens
        for at, matrix in enumerate(self.stem):
            weight = Linear(f"patch_embedding_{at}" if at else "patch_embedding", matrix.d_in, matrix.d_out, "other")
            yield operators.linear(weight, positions * matrix.rows, run)
        for layer in self.groups():
            yield from layer.operators(run, self.hidden)
        for at, matrix in enumerate(self.projector):
            weight = Linear(f"projector_{at}", matrix.d_in, matrix.d_out, "other")
            yield operators.linear(weight, positions / self.merge * matrix.rows, run)

    def groups(self) -> Iterator[Layer]:
        """Yield the groups of layers: with attention over the whole image, and with windows."""
        mlp = MLP(hidden=self.hidden, intermediate=self.intermediate, gated=self.gated)
        full = Attention(
            hidden=self.hidden,
            query_heads=self.heads,
            kv_heads=self.kv_heads or self.heads,
            head_dim=self.head_dim or self.hidden // self.heads,
            causal=False,
        )
        norms = (self.hidden, self.hidden)
        if self.layers > self.windowed_layers:
            yield Layer(self.layers - self.windowed_layers, (full, mlp), norms)
        if self.windowed_layers:
            windowed = replace(full, window=self.window, chunked=True)
            yield Layer(self.windowed_layers, (windowed, mlp), norms)


def named(part: str, operator: Operator) -> Operator:
    """Return the operator renamed for its part: ``q_proj`` of ``vision`` is ``vision.q_proj``."""
    joins = f"{part}.{operator.joins}" if operator.joins else ""
    return replace(operator, name=f"{part}.{operator.name}", joins=joins)


def _on_one(images: Number, ways: Number) -> Number:
    """Return images on the most loaded of ``ways`` accelerators; passes over chunks may have fractions of images."""
    return scalar(np.where(np.asarray(ways) > 1, np.minimum(np.ceil(images / ways), images), images))


def _sixteen_bits(precision: Precision) -> Precision:
    """Return a 16-bit precision, since towers are not quantized with the language model."""
    wide = precision.wide if get_format(precision.wide).bits == 16 else "bf16"
    return Precision(weights=wide, activations=wide, attention=wide)
