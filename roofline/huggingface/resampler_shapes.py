"""Shapes of encoders of images whose patches are resampled, mostly by queries that attend to them."""

from __future__ import annotations

from dataclasses import replace

from ..model.tower import Product, Tower
from .fields import Fields
from .tower_parts import Chain, products, vit
from .vision_encoders import grid, side
from .wrapper import Wrapper


def idefics2(at: Wrapper) -> Tower:
    """Idefics 2: a gated MLP for each patch, then a few layers of learned queries that attend to all patches.

    In each layer a patch is turned into keys and values, and a query passes attention and a gated MLP.
    """
    perceiver, text = at.part("perceiver_config"), at.part("text_config")
    inner, depth = text.optional("intermediate_size") or 14336, perceiver.optional("resampler_depth") or 3
    head_dim = perceiver.optional("resampler_head_dim") or 96
    heads = (perceiver.optional("resampler_n_heads") or 16) * head_dim
    kv = 2 * (perceiver.optional("num_key_value_heads") or 4) * head_dim
    wide, width = perceiver.optional("hidden_size") or at.hidden, at.encoder.size("hidden_size")
    positions = grid(at.encoder)
    merge = max(positions // (perceiver.optional("resampler_n_latents") or 64), 1)
    patch = (Product(width, 2 * inner, merge), Product(inner, at.hidden, merge))
    block = (
        Product(wide, kv, merge),
        *(Product(wide, heads), Product(heads, wide), Product(wide, 8 * wide), Product(4 * wide, wide)),
    )
    return vit(at, positions=positions, merge=merge, projector=(*patch, *block * depth))


def minicpm4_6(at: Wrapper) -> Tower:
    """MiniCPM-V 4.6: in the middle four patches become one, by attention in a window and two linear layers.

    The layers behind run on a quarter of the positions, which counts as a quarter of their number.  Mergers of four
    positions follow.  With ``downsample_mode: 4x`` the window is skipped.
    """
    fields = at.encoder
    width, inner, layers = (fields.size(n) for n in ("hidden_size", "intermediate_size", "num_hidden_layers"))
    times = at.outer.optional("merger_times") or 1
    merged, merge = 4 * width, 4**times
    mergers: list[Product] = []
    for left in range(times - 1, -1, -1):
        out = at.hidden if left == 0 else width
        mergers += [Product(merged, merged, 4**left), Product(merged, out, 4**left)]
    if at.outer.text("downsample_mode") == "4x":
        return vit(at, merge=merge, projector=tuple(mergers))
    before = min(fields.optional("insert_layer_id", least=0) or layers // 2, layers)
    attention = (Product(width, width, 4 * merge),) * 4
    window = (*attention, Product(merged, 4 * inner, merge), Product(4 * inner, width, merge))
    run = before + max(round((layers - before) / 4), 1)
    return replace(vit(at, merge=4 * merge, projector=(*window, *mergers)), layers=run)


def blip2(at: Wrapper) -> Tower:
    """BLIP-2: a class token, and a query former whose queries are the tokens."""
    former = at.part("qformer_config")
    positions = grid(at.encoder)
    merge = max(positions // (at.outer.optional("num_query_tokens") or 32), 1)
    chain = (*query_former(former, merge), Product(former.size("hidden_size"), at.hidden))
    return vit(at, positions=positions, class_tokens=1, merge=merge, projector=chain)


def query_former(fields: Fields, merge: int) -> Chain:
    """Matrices of a query former for each query, with the keys and values of ``merge`` positions."""
    width, inner, layers = (fields.size(n) for n in ("hidden_size", "intermediate_size", "num_hidden_layers"))
    crossing = -(-layers // (fields.optional("cross_attention_frequency") or 2))
    own = (*products(width, width, width, width, width), *products(width, inner, width)) * layers
    across = (Product(fields.size("encoder_hidden_size"), 2 * width, merge), *products(width, width, width)) * crossing
    return own + across


def minicpm_v(at: Wrapper) -> Tower:
    """MiniCPM-V: slices of 448 pixels, 64 learned queries that attend to their patches."""
    slice_pixels = at.outer.optional("image_size") or 448
    positions = (slice_pixels // side(at.encoder, "patch_size")) ** 2
    merge = max(positions // (at.outer.optional("query_num") or 64), 1)
    width, out = at.encoder.size("hidden_size"), at.hidden
    patch = (Product(width, out, merge), Product(out, 2 * out, merge))
    return vit(at, positions=positions, merge=merge, projector=(*patch, *products(out, out, out, out)))


def aria(at: Wrapper) -> tuple[int, Chain]:
    """Aria: learned queries attend to all patches: keys and values twice for each patch, then four matrices a token."""
    queries, width = at.outer.optional("max_value_projector_patch_to_query_dict") or 256, at.encoder.size("hidden_size")
    merge = max(grid(at.encoder) // queries, 1)
    patch = (Product(width, 2 * width, merge), Product(width, 2 * width, merge))
    return merge, (*patch, *products(width, width, width, width, width, at.hidden, at.hidden))
