"""Draft heads: small models that propose the next tokens of a large model, which verifies them.

=========  =====================================================================================================
eagle3     one layer whose attention reads embedding and hidden state side by side, with a dense MLP; a matrix that
           fuses three hidden states of the large model, and an lm_head over the 32,000 most frequent tokens
           (EAGLE-3, arXiv:2503.01840, section 3.1; ``draft_vocab_size`` of the published heads)
mtp        the model's own extra layer: one more of its last layers, ``eh_proj`` that fuses embedding and hidden
           state, and the large model's own lm_head (DeepSeek-V3, arXiv:2412.19437, section 2.2)
=========  =====================================================================================================

All of them look tokens up in the large model's embedding.
"""

from __future__ import annotations

from dataclasses import replace

from ..errors import unknown
from .blocks import MLP, Attention, Block, MoE
from .blocks.latent_attention import MLA
from .blocks.residual_streams import Projection
from .decoder import Model
from .layer import Layer

HEADS = ("eagle3", "mtp")
"""Kinds of draft heads."""

DRAFT_VOCABULARY = 32_000
"""Vocabulary of an EAGLE-3 head."""

FUSED_STATES = 3
"""Number of hidden states that an EAGLE-3 head reads: of an early, a middle and a late layer."""

USUAL_HEAD_DIM = 128
"""Head width if the large model has no attention to take it from."""


def draft_head(model: Model, kind: str) -> Model:
    """Return the draft head of a model.

    Parameters
    ----------
    model : Model
        Model that verifies the drafts.
    kind : str
        ``eagle3`` or ``mtp``.

    Returns
    -------
    Model
        One layer, the matrix that fuses its inputs, and an lm_head. The embedding belongs to ``model`` and is not
        counted.

    Raises
    ------
    UnknownName
        ``kind`` is not one of these.

    Examples
    --------
    >>> import roofline as rl
    >>> from roofline.model.draft_heads import draft_head
    >>> head = draft_head(rl.get_model("llama-3.1-8b"), "eagle3")
    >>> round(head.parameters.active / 1e6)
    425
    """
    if kind not in HEADS:
        raise unknown("draft head", kind, HEADS)
    hidden = model.hidden
    if kind == "mtp":
        last = model.layers[-1]
        layer, fused, vocab = Layer(1, last.blocks, last.norms, together=last.together), 2, model.vocab
    else:
        layer, fused, vocab = _layer(model), FUSED_STATES, min(DRAFT_VOCABULARY, model.vocab)
    return Model(
        name=f"{model.name} {kind} head",
        hidden=hidden,
        vocab=vocab,
        layers=(layer,),
        around=(Projection(hidden=fused * hidden, output=hidden, name="fusion"),),
        embedding_rows=1,
        final_norm=hidden,
        max_context_tokens=model.max_context_tokens,
    )


def has_own_lm_head(kind: str) -> bool:
    """Return whether a head has its own lm_head rather than the large model's."""
    return kind == "eagle3"


def _layer(model: Model) -> Layer:
    """Return a layer of attention over concatenated embedding and hidden state, a dense MLP, and norms."""
    blocks = [block for layer in model.layers for block in layer.blocks]
    attention = replace(_attention(model.hidden, blocks), input_width=2 * model.hidden)
    return Layer(1, (attention, _mlp(model.hidden, blocks)), (model.hidden,) * 3)


def _attention(hidden: int, blocks: list[Block]) -> Attention:
    for block in blocks:
        if isinstance(block, Attention):
            return Attention(
                hidden=hidden,
                query_heads=block.query_heads,
                kv_heads=block.kv_heads,
                head_dim=block.head_dim,
                value_dim=block.value_dim,
            )
        if isinstance(block, MLA):
            return Attention(hidden=hidden, query_heads=block.heads, kv_heads=block.heads, head_dim=block.value_dim)
    heads = max(hidden // USUAL_HEAD_DIM, 1)
    return Attention(hidden=hidden, query_heads=heads, kv_heads=heads, head_dim=USUAL_HEAD_DIM)


def _mlp(hidden: int, blocks: list[Block]) -> MLP:
    """Return the model's first dense MLP, or one as wide as the experts of one token."""
    for block in blocks:
        if isinstance(block, MLP):
            return MLP(hidden=hidden, intermediate=block.intermediate)
    for block in blocks:
        if isinstance(block, MoE):
            return MLP(hidden=hidden, intermediate=block.top_k * block.intermediate + (block.shared_intermediate or 0))
    return MLP(hidden=hidden, intermediate=4 * hidden)
