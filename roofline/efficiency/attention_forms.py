"""Forms of attention: prefill and decode, with and without MLA's latents (see `roofline.efficiency.forms`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arrays import ceil, larger, log2, smaller, where
from .forms import (
    DROOP,
    MEMORY,
    Form,
    Kernel,
    Parameters,
    Prior,
    Terms,
    bytes_s,
    droop,
    full_waves,
    join,
)


def width_factor(p: Parameters, width: Any) -> Any:
    """Return the slowdown for head widths other than 128, a parabola in the logarithm of the width."""
    if "width" not in p:
        return 1.0
    octaves: Any = log2(width / 128)
    return p["width"] ** octaves * p["width_2"] ** (octaves * octaves)


WIDTH = {"width": Prior(1.5, 0.5), "width_2": Prior(1.0, 0.3)}
HEADS = {"window_s": Prior(1e-6, 2.0), "unequal_s": Prior(1e-6, 2.0), "window_leak": Prior(0.03, 2.0, share=True)}
"""Parameters of special heads.  With a window: further launches, and tokens read before the window.  With keys and
values of different widths: copies that pad them."""


def heads_s(p: Parameters, shape: Mapping[str, Any], windowed: Any) -> Any:
    """Return additional fixed times of heads that not every kernel supports directly."""
    if "window_s" not in p:
        return 0.0
    unequal = (shape["key_dim"] != shape["value_dim"]) * 1.0
    return windowed * p["window_s"] + unequal * p["unequal_s"]


def decode_terms(p: Parameters, run: Kernel) -> Terms:
    """Return the terms of attention in a step of generation (flash-decoding, crfm.stanford.edu/2023/10/12).

    A block serves the query heads that share a KV head of one sequence, ``query_tile`` of them at a time.  Additional
    heads read the keys again, from the cache (``reread``).  Drafts to verify are additional rows of the same tiles, so
    the keys are read once for all of them (FlashAttention's ``pack_gqa``; FlashInfer, arXiv:2501.01005, section 3.2).
    If a kernel can share keys among at most ``most_shared`` query heads, larger groups and single heads use a kernel
    with one block per query head.

    If sequences x KV heads are fewer than ``fill`` times the multiprocessors, each cache is divided into pieces of at
    least ``chunk`` tokens, whose results another kernel combines (``combine_s``), unless it is faster undivided.  A
    block starts in ``block_s`` (``single_s`` without sharing) and processes its piece at ``token_s`` per token, both
    times the factor of the head's width.  A multiprocessor runs its blocks one after another.

    So the time never falls with more sequences, as the faster of two times that grow.  Measured times do sometimes: of
    586 pairs with up to twice the sequences, 44 are shorter by more than 1 %, half of these by less than 3 %.  Engines
    choose the number of pieces by rules of thumb; which of them choose badly where is not known.
    """
    shape = run.inputs
    sequences, heads, past, seen = shape["sequences"], shape["query_heads"], shape["past_tokens"], shape["past_read"]
    new, group = shape["new_tokens"], heads / shape["kv_heads"]
    read = seen + p.get("window_leak", 0.0) * (past - seen)
    factor = width_factor(p, (shape["key_dim"] + shape["value_dim"]) / 2)
    alone = ((group > p.get("most_shared", np.inf)) | (group == 1)) * 1.0
    tiles, tiles_alone = ceil(group * new / p["query_tile"]), ceil(new / QUERY_ROWS)
    passes = tiles * (1 - alone) + group * tiles_alone * alone
    rows_alone = (new > 1) * tiles_alone * QUERY_ROWS + (new == 1) * 1.0
    computed = tiles * p["query_tile"] * (1 - alone) + group * rows_alone * alone
    leaked = (read + 1) / (seen + 1)
    compute_s = run.compute_s * leaked * computed / (group * new) * factor / p["compute"]
    blocks = sequences * shape["kv_heads"] * passes
    each = blocks / run.processors
    filled = smaller(larger(p["fill"], each), each * (1 + read / p["chunk"]))
    start_s = p["block_s"] * (1 - alone) + p.get("single_s", p["block_s"]) * alone
    read_s = bytes_s(p, run) * leaked * (1 + p["reread"] * (passes - 1))

    def walked_s(each: Any, pieces: Any) -> Any:
        """Return the time of so many blocks of a multiprocessor, with each cache in so many pieces."""
        waves = larger(full_waves(p["split"], each), 1.0)
        return (p["token_s"] * read / pieces + start_s) * waves * factor

    pieces = filled / larger(each, 1e-9)  # a sweep may contain steps without sequences
    divided_s, whole_s = walked_s(filled, larger(pieces, 1.0)), walked_s(each, 1.0)
    divided = p["combine_s"] + join(p["overlap"], compute_s, read_s, divided_s)
    divides = (filled > each) & (divided < join(p["overlap"], compute_s, read_s, whole_s))
    walk_s = where(divides, divided_s, whole_s)
    fixed_s = p["kernel_s"] + heads_s(p, shape, (seen < past) * 1.0)
    around_s = sequences * heads * new * p["head_s"] + divides * p["combine_s"]
    return Terms(fixed_s, around_s, p["overlap"], {"computing_s": compute_s, "moving_s": read_s, "walk_s": walk_s})


QUERY_ROWS = 16
"""Rows of the smallest query tile on a matrix unit (mma.sync of NVIDIA: 16 x 8 x 16); one query needs none."""

NO_LIMIT = 1e9
DECODE = Form(
    decode_terms,
    {
        "kernel_s": Prior(8e-6, 1.0),
        "block_s": Prior(1e-6, 1.5),
        "single_s": Prior(1e-6, 1.5),
        "combine_s": Prior(2e-6, 1.5),
        "head_s": Prior(3e-10, 1.5),
        "token_s": Prior(3e-9, 1.5),
        "chunk": Prior(300.0, 1.5),
        "fill": Prior(1.0, 1.0),
        "split": Prior(0.5, 1.5, share=True),
        "reread": Prior(0.2, 1.5, share=True),
        "compute": Prior(0.3, 1.5, share=True),
        **MEMORY,
        "overlap": Prior(2.5, 0.7, least=1.0),
        **HEADS,
        **WIDTH,
    },
    tuple(
        {"query_tile": tile, "most_shared": most}
        for tile, most in ((8, NO_LIMIT), (16, NO_LIMIT), (64, NO_LIMIT), (8, 32), (16, 32))
    ),
)

QUERY_TILE = 128
"""Queries per tile of FlashAttention in prefill."""


def prefill_terms(p: Parameters, run: Kernel) -> Terms:
    """Return the terms of attention with many new tokens (FlashAttention, arXiv:2205.14135: tiles of 128 queries).

    On the diagonal of a causal mask half a tile is wasted; an encoder's ``mutual`` attention has no mask.  In addition
    to the products, each pair of a head costs ``softmax`` times a product of width 512, whatever its width, since
    exponentials have separate units (16 per clock and multiprocessor).  Tiles run in waves.  A tile starts in
    ``block_s`` and processes its keys at ``token_s`` each.  The last tile of a long prompt takes as long as a full one;
    short prompts use kernels with smaller tiles.  New keys and values are written, and converted to the format of the
    cache, at ``write_s`` per value.

    Kernels that are not fused (``score_bytes`` above 0, see `scores_s`) also compute the masked pairs, and move their
    scores to memory and back between kernels.
    """
    shape = run.inputs
    new, past, sequences = shape["new_tokens"], shape["past_tokens"], shape["sequences"]
    widths = shape["key_dim"] + shape["value_dim"]
    unmasked = new * past + new * (new + 1) / 2 + shape["mutual"] * new * (new - 1) / 2
    pairs = shape["pairs"] + p.get("window_leak", 0.0) * (unmasked - shape["pairs"]) + new * (QUERY_TILE / 2)
    if "score_bytes" in p:
        pairs = new * (past + new)
    factor = width_factor(p, widths / 2)
    tiles = ceil(new / QUERY_TILE)
    pairs = pairs * (1 + (tiles > 1) * (tiles * QUERY_TILE / larger(new, 1.0) - 1))
    waves = sequences * shape["query_heads"] * tiles / run.processors
    rounded = full_waves(p["split"], waves)
    # Without sequences there are no waves; 1e-9 keeps the quotient from being 0 / 0.
    each = (1 / p["compute"] + p["softmax"] * 256 / widths) * factor * rounded / larger(waves, 1e-9)
    compute_s = run.compute_s * pairs / larger(shape["pairs"], 1.0) * each * droop(p, run.compute_s)
    walk_s = (p["token_s"] * (shape["pairs"] / new) * 2 + p["block_s"] * larger(rounded, 1.0)) * factor
    written_s = sequences * new * shape["kv_heads"] * shape["key_dim"] * p["write_s"]
    fixed_s = p["kernel_s"] + heads_s(p, shape, (shape["pairs"] < unmasked) * 1.0)
    joined = {"computing_s": compute_s, "moving_s": bytes_s(p, run), "walk_s": walk_s}
    return Terms(fixed_s, written_s + scores_s(p, run), p["overlap"], joined)


def scores_s(p: Parameters, run: Kernel) -> Any:
    """Return the time to move scores through memory between unfused kernels, ``score_bytes`` per score.

    llama.cpp without FlashAttention moves 24 bytes per score: a product in 16 bits writes it (2) and a kernel converts
    it to 32 (2 + 4), the softmax reads and writes it (4 + 4), another kernel converts it to 16 bits (4 + 2), and the
    second product reads it (2).
    """
    if "score_bytes" not in p:
        return 0.0
    shape = run.inputs
    sequences, heads, new = shape["sequences"], shape["query_heads"], shape["new_tokens"]
    entries = shape["past_read"] + shape["new_read"] + shape["new_written"]
    values = new * heads * (shape["key_dim"] + shape["value_dim"])
    moved = sequences * (entries * shape["kv_values"] * shape["kv_bits"] + values * shape["activation_bits"]) / 8
    scores = sequences * heads * new * (shape["past_tokens"] + new)
    return (run.memory_s + run.cached_s) / larger(moved, 1.0) * scores * p["score_bytes"] / p["memory"]


PREFILL = Form(
    prefill_terms,
    {
        "kernel_s": Prior(9e-6, 1.0),
        "block_s": Prior(1e-6, 1.5),
        "token_s": Prior(5e-9, 1.5),
        "write_s": Prior(1e-14, 2.0),
        "compute": Prior(0.6, 1.5, share=True),
        "softmax": Prior(0.1, 2.0),
        **DROOP,
        "split": Prior(0.5, 1.5, share=True),
        **MEMORY,
        "overlap": Prior(2.0, 0.7, least=1.0),
        **HEADS,
        "width": Prior(1.0, 0.5),
        "width_2": Prior(1.0, 0.3),
    },
)


def _latent(form: Form, *tiles: int) -> Form:
    """Return a form for MLA: one head width, one latent shared by all heads, no windows, larger query tiles."""
    unused = (*WIDTH, *HEADS, "single_s")
    priors = {name: prior for name, prior in form.priors.items() if name not in unused}
    return Form(form.terms, priors, tuple({"query_tile": tile, "most_shared": NO_LIMIT} for tile in tiles) or ({},))


MLA_DECODE, MLA_PREFILL = _latent(DECODE, 16, 64, 128), _latent(PREFILL)
