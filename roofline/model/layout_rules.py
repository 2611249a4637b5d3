"""Rules by which engines accept or reject a layout.

Engines do not split a head, an expert or a quantization group between accelerators.  The rules are those that vLLM,
SGLang and TensorRT-LLM have in common:

===================  ==============================================================================================
query heads          a multiple of the tensor-parallel degree ("total number of attention heads must be divisible by
                     tensor parallel size")
KV heads             a multiple of the degree, or a divisor of it, in which case each head is replicated
experts              a multiple of the expert-parallel degree
MLP                  inner width a multiple of the degree (for experts: of the degree that divides an expert)
vocabulary           padded to a multiple of 64, then a multiple of the degree (vLLM's ``VocabParallelEmbedding``)
quantization groups  each accelerator's part of a matrix has whole groups of values that share a scale ("the
                     input size is not aligned with the quantized weight shape ... too large tensor parallel size");
                     MXFP4 weights are padded instead
===================  ==============================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import ceil

import numpy as np

from ..formats import scale_tile
from ..operators.parallel import Parallel
from ..operators.precision import Precision
from ..operators.weights import Linear
from .decoder import Model

VOCABULARY_STEP = 64
"""Engines pad the vocabulary to a multiple of this."""

MOST_LAYOUTS = 64
"""Number of layouts of an array that are checked, from the first."""

KV_PROJECTIONS = ("k_proj", "v_proj")
"""Projections whose heads are replicated if there are fewer than accelerators."""


def refusal(model: Model, precision: Precision, parallel: Parallel) -> str:
    """Return why engines reject ``model`` in this layout; empty if they accept it.

    Parameters
    ----------
    model : Model
        The model.
    precision : Precision
        The formats that its weights are stored in.
    parallel : Parallel
        A single layout.

    Returns
    -------
    str
        The violated rule, with its numbers.

    Examples
    --------
    >>> import roofline as rl
    >>> refusal(rl.get_model("qwen2.5-7b"), rl.Precision(), rl.Parallel(tensor=8))
    '28 query heads do not divide over TP 8'
    """
    degrees = (parallel.tensor, parallel.expert, parallel.expert_tensor)
    tensor, expert, expert_tensor = (int(np.max(degree)) for degree in degrees)
    if tensor == expert == expert_tensor == 1:
        return ""
    return next(_broken(model, precision, tensor, expert, expert_tensor), "")


def layout_notes(model: Model, precision: Precision, parallel: Parallel) -> Iterator[str]:
    """Yield a note for each layout that engines reject, without duplicates.

    Parameters
    ----------
    model : Model
        The model.
    precision : Precision
        The formats that its weights are stored in.
    parallel : Parallel
        One layout, or arrays of them.
    """
    if parallel.single:
        return
    columns = np.broadcast_arrays(parallel.tensor, parallel.expert, parallel.expert_tensor)
    layouts = set(zip(*(column.ravel().tolist() for column in columns), strict=True))
    said = set()
    for tensor, expert, expert_tensor in sorted(layouts)[:MOST_LAYOUTS]:
        reason = next(_broken(model, precision, int(tensor), int(expert), int(expert_tensor)), "")
        if reason and reason not in said:
            said.add(reason)
            yield f"no engine starts this layout: {reason}"


def _broken(model: Model, precision: Precision, tensor: int, expert: int, expert_tensor: int) -> Iterator[str]:
    """Yield the rules that a layout violates."""
    padded = ceil(model.vocab / VOCABULARY_STEP) * VOCABULARY_STEP
    for weight in _divided(model):
        routed = weight.part == "experts"
        yield from _of_matrix(weight, precision, expert_tensor if routed else tensor)
        if routed and weight.copies % expert:
            yield f"{weight.copies:,} experts do not divide over EP {expert}"
    if padded % tensor:
        yield f"a vocabulary of {model.vocab:,}, padded to {padded:,}, does not divide over TP {tensor}"


@lru_cache(maxsize=64)
def _divided(model: Model) -> tuple[Linear, ...]:
    """Return every kind of matrix that layouts divide, attention first."""
    found = [weight for _, weight in model.counted_weights() if isinstance(weight, Linear) and weight.split != "whole"]
    return tuple(sorted(dict.fromkeys(found), key=lambda weight: weight.part != "attention"))


def _of_matrix(weight: Linear, precision: Precision, ways: int) -> Iterator[str]:
    """Yield violated rules of one matrix divided ``ways`` ways."""
    if ways == 1:
        return
    side = weight.d_in if weight.split == "rows" else weight.d_out
    pieces = weight.pieces or side
    if pieces % ways:
        if weight.name not in KV_PROJECTIONS:
            yield f"{_pieces_of(weight, pieces)} do not divide over TP {ways}"
        elif ways % pieces:
            yield f"{pieces:,} KV heads and TP {ways}: neither is a multiple of the other"
    rows, columns = scale_tile(precision.weight_format(weight.part))
    group = rows if weight.split == "rows" else columns
    part = side // pieces * max(pieces // ways, 1)
    if group > 1 and side % group == 0 and part % group:
        yield (
            f"{weight.name} of {side:,} over TP {ways} is {part:,} each, which is not a multiple of the"
            f" {group} values that share a scale in {precision.weight_format(weight.part)}"
        )


def _pieces_of(weight: Linear, pieces: int) -> str:
    """Return the name of the pieces that are divided."""
    if weight.pieces is None:
        return f"{pieces:,} {weight.split} of {weight.name}"
    return f"{pieces:,} {'query heads' if weight.part == 'attention' else 'heads'}"
