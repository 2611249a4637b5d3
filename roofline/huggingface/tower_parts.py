"""Building blocks of tower shapes: layers of a vision transformer by their usual fields, and chains of matrices."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import isqrt
from typing import Any

from ..errors import SpecError
from ..model.tower import IMAGE_PIXELS, Product, Tower
from .fields import Fields
from .vision_encoders import channels, side
from .wrapper import Wrapper

Chain = tuple[Product, ...]


def first(fields: Fields, *names: str) -> int:
    """Value of the first of several field names that the configuration has."""
    for name in names[:-1]:
        value = fields.optional(name)
        if value is not None:
            return value
    return fields.size(names[-1])


def products(*widths: int) -> Chain:
    """Consecutive matrices."""
    return tuple(Product(d_in, d_out) for d_in, d_out in pairwise(widths))


def merged_patches(at: Wrapper) -> int:
    """Number of patches merged to one token."""
    patches_on_a_side = at.encoder.optional("spatial_merge_size") or at.outer.optional("spatial_merge_size") or 2
    return int(patches_on_a_side**2)


def usual_tokens(at: Wrapper, merge: int) -> int:
    """Tokens of an image of `IMAGE_PIXELS` on each side, resized to whole tokens as processors do."""
    pixels = side(at.encoder, "patch_size") * isqrt(merge)
    return max(round(IMAGE_PIXELS / pixels), 1) ** 2


def run_layers(at: Wrapper, layers: int) -> int:
    """Number of layers up to the one whose output the wrapper uses: -1 is the last, 0 the input of the first."""
    taken = at.outer.get("vision_feature_layer")
    if not isinstance(taken, int) or isinstance(taken, bool):
        return layers
    run = layers + 1 + taken if taken < 0 else taken
    if not 1 <= run <= layers:
        raise SpecError(f"vision_feature_layer must be one of the {layers} layers: {taken}")
    return run


def vit(at: Wrapper, *, frames: int = 1, merge: int = 1, **more: Any) -> Tower:
    """A vision transformer by its usual fields; of any size of image unless ``positions`` says otherwise."""
    fields = at.encoder
    width = more.pop("width", None) or first(fields, "vt_hidden_size", "hidden_size")
    inner = more.pop("inner", None) or first(fields, "vt_intermediate_size", "intermediate_size")
    patch = channels(fields) * frames * side(fields, "patch_size") ** 2
    usual = 0 if more.get("positions") else more.pop("usual_tokens", None) or usual_tokens(at, merge)
    depth = first(fields, "depth", "vt_num_hidden_layers", "num_hidden_layers")
    return Tower(
        hidden=width,
        intermediate=inner,
        layers=run_layers(at, depth),
        heads=first(fields, "num_heads", "vt_num_attention_heads", "num_attention_heads"),
        stem=(Product(patch, width),),
        merge=merge,
        usual_tokens=usual,
        **more,
    )


def frames_of(at: Wrapper) -> int:
    """Frames of a video that one patch spans."""
    return at.encoder.optional("temporal_patch_size") or 2


def qwen2_5_vl(at: Wrapper, *further: int) -> Tower:
    """Return Qwen2.5-VL's encoder: windows of ``window_size`` pixels in all layers but a few.

    EXAONE 4.5's has fewer KV heads.  ``further`` are the widths of linear layers behind its merger.
    """
    fields, merge = at.encoder, merged_patches(at)
    wide = fields.size("hidden_size") * merge
    full = len(fields.entries("fullatt_block_indexes") or ())
    return vit(
        at,
        frames=frames_of(at),
        merge=merge,
        gated=True,
        kv_heads=fields.optional("num_key_value_heads"),
        window=((fields.optional("window_size") or 112) // side(fields, "patch_size")) ** 2,
        windowed_layers=max(fields.size("depth") - full, 0),
        projector=products(wide, wide, fields.size("out_hidden_size"), *further),
    )


def replace_fields(at: Wrapper, values: Mapping[str, int]) -> Wrapper:
    """The wrapper with the shapes of an encoder that its file only names."""
    return at._replace(encoder=Fields({**at.encoder.data, **values}, {}))
