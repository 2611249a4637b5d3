"""Shapes of encoders of models that read documents: pages are cut into tiles, or compressed by convolutions."""

from __future__ import annotations

from dataclasses import replace

from ..model.tower import Product, Tower
from .image_towers import ocr_encoders
from .tower_parts import frames_of, merged_patches, products, vit
from .vision_encoders import channels, grid, side, whole_layers
from .wrapper import Wrapper


def deepseek_ocr(at: Wrapper) -> Tower:
    """DeepSeek-OCR: SAM on 4,096 patches, then CLIP's layers on 256 positions, each of which is a token.

    CLIP's matrices are counted for each token; its attention over 257 positions, 4 % of their work, is left out.
    """
    sam, clip = ocr_encoders(at)
    before = got_ocr(at._replace(encoder=sam))
    width, inner, out = clip.size("hidden_size"), clip.size("intermediate_size"), sam.size("output_channels")
    strided = (Product(9 * out, 2 * out, 4), Product(18 * out, width))
    layers = (*products(width, width, width, width, width), *products(width, inner, width)) * clip.size(
        "num_hidden_layers"
    )
    chain = (*before.projector[:2], *strided, *layers, Product(2 * width, at.hidden))
    return replace(before, projector=chain)


def granite_docling(at: Wrapper) -> Tower:
    """Granite Docling: patches merged over squares, a matrix and a second one, and mergers for deeper layers."""
    fields = at.encoder
    width, out, scale = fields.size("hidden_size"), fields.size("out_hidden_size"), fields.size("scale_factor")
    deep = len(fields.entries("deepstack_visual_indexes") or ())
    merged = width * scale**2
    chain = (*products(merged, out), Product(out, out), *products(merged, out, out) * deep)
    return vit(at, positions=grid(fields), merge=scale**2, projector=chain)


def got_ocr(at: Wrapper) -> Tower:
    """GOT-OCR: SAM's encoder with windows in most layers, its neck, two strided convolutions and a matrix."""
    fields = at.encoder
    width, out = fields.size("hidden_size"), fields.size("output_channels")
    neck = (Product(width, out, 16), Product(9 * out, out, 16))
    behind = (Product(9 * out, 2 * out, 4), Product(18 * out, at.hidden), Product(at.hidden, at.hidden))
    layers = fields.size("num_hidden_layers")
    wide = whole_layers(fields, layers)
    return Tower(
        hidden=width,
        intermediate=fields.size("mlp_dim"),
        layers=layers,
        heads=fields.size("num_attention_heads"),
        stem=(Product(channels(fields) * side(fields, "patch_size") ** 2, width),),
        projector=(*neck, *behind),
        merge=16,
        positions=grid(fields),
        window=fields.size("window_size") ** 2,
        windowed_layers=max(layers - wide, 0),
    )


def glm_ocr(at: Wrapper) -> Tower:
    """GLM-OCR: a strided convolution, a matrix, and a gated MLP three times as wide as the output."""
    merge, width, out = merged_patches(at), at.encoder.size("hidden_size"), at.encoder.size("out_hidden_size")
    behind = (*products(width * merge, out, out), Product(out, 6 * out), Product(3 * out, out))
    return vit(at, frames=frames_of(at), merge=merge, gated=True, projector=behind)


def normed_merger(at: Wrapper) -> Tower:
    """PaddleOCR-VL: two linear layers over merged patches, of images of any size."""
    merge = merged_patches(at)
    wide = at.encoder.size("hidden_size") * merge
    return vit(at, merge=merge, projector=products(wide, wide, at.hidden))
