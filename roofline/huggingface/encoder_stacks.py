"""Layers of a text encoder, and the tables and norms around them, from its fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import SpecError
from ..model import Layer, LookupTable, Model
from ..model.blocks import MLP, Attention, Block, MoE, Projection, RelativeScores
from .encoder_families import EncoderFamily
from .fields import Fields

BUCKETS = 32
"""Default number of distances between tokens that MPNet distinguishes."""

KINDS_OF_POSITIONS = ("absolute", "rope", "rotary", "alibi")


def classic(fields: Fields, family: EncoderFamily) -> Model:
    """BERT and related models: layer norms after (or before) attention and MLP, and a norm after the tables.

    Raises
    ------
    SpecError
        A field is missing or invalid.
    """
    hidden, width = fields.size("hidden_size"), table_width(fields, family)
    if fields.text("layer_norm_type") not in (None, "layer_norm"):
        raise SpecError(f"layer_norm_type must be layer_norm: {fields.text('layer_norm_type')!r:.80}")
    rows = fields.size("max_position_embeddings")
    unused = 0
    if family.offset:
        unused = 1 + (fields.optional("pad_token_id", least=0) or 1)
    # DeBERTa's norm follows the projection to the layers' width; ALBERT's and ELECTRA's precedes it.
    normed = hidden if family.prefix.startswith("Deberta") else width
    return Model(
        name="encoder",
        hidden=hidden,
        vocab=1,
        layers=tuple(_layers(fields, family)),
        embedding_width=width if width != hidden else None,
        embedding_norm=2 * normed if family.embedding_norm else 0,
        final_norm=2 * hidden if family.last_norm else 0,
        position_rows=rows if width == hidden and _has_positions(fields, family) else 0,
        tables=tuple(_tables(fields, family, rows, width)),
        around=tuple(_around(fields, family, hidden, width)),
        max_context_tokens=max(rows - unused, 1),
    )


def table_width(fields: Fields, family: EncoderFamily) -> int:
    """Width of the embedding and of lm_head."""
    hidden = fields.size("hidden_size")
    if family.narrow:
        return fields.optional("embedding_size") or hidden
    return hidden


def attention_block(fields: Fields, *, bias: bool, window: int | None = None, no_key_bias: bool = False) -> Attention:
    """Attention in which all tokens see each other, or those within a window."""
    hidden, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
    if hidden % heads:
        raise SpecError(f"hidden_size {hidden} is not a multiple of num_attention_heads {heads}")
    return Attention(
        hidden=hidden,
        query_heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        qkv_bias=bias and not no_key_bias,
        query_bias=no_key_bias,
        output_bias=bias,
        vectors=hidden if no_key_bias else 0,
        window=window,
        causal=False,
    )


def _layers(fields: Fields, family: EncoderFamily) -> Iterator[Layer]:
    """All layers; ALBERT's share their weights (arXiv:1909.11942), and every second of Nomic's may have experts."""
    hidden, count = fields.size("hidden_size"), fields.size("num_hidden_layers")
    norms = (2 * hidden, 2 * hidden)
    before = (attention_block(fields, bias=_biased(fields, family), no_key_bias=family.prefix == "Deberta"),)
    behind = tuple(_relative(fields, family))
    dense = Layer(1, (*before, *behind, _mlp(fields, family)), norms)
    if family.prefix == "Albert":
        inside = fields.optional("inner_group_num") or 1
        stored, run = (fields.optional("num_hidden_groups") or 1) * inside, count * inside
        if stored > run:
            raise SpecError(f"num_hidden_groups makes {stored} layers, but num_hidden_layers {run} run")
        yield Layer(stored, dense.blocks, norms)
        if run > stored:
            yield Layer(run - stored, dense.blocks, norms, reused=True)
        return
    mixtures = _mixtures(fields, family, count)
    if count > mixtures:
        yield Layer(count - mixtures, dense.blocks, norms)
    if mixtures:
        yield Layer(mixtures, (*before, _experts(fields)), norms)


def _biased(fields: Fields, family: EncoderFamily) -> bool:
    """Whether attention has biases; Nomic's files state it."""
    return fields.flag("qkv_proj_bias", family.biased)


def _mlp(fields: Fields, family: EncoderFamily) -> MLP:
    hidden, inner = fields.size("hidden_size"), fields.size(family.inner)
    gated = family.gated and fields.text("activation_function") in (None, "swiglu", "geglu", "glu")
    if gated:  # GTE: a bias on the last matrix alone
        return MLP(hidden=hidden, intermediate=inner, vectors=hidden if family.down_bias else 0)
    return MLP(hidden=hidden, intermediate=inner, gated=False, bias=fields.flag("mlp_fc1_bias", family.biased))


def _mixtures(fields: Fields, family: EncoderFamily, count: int) -> int:
    """How many layers have experts: every ``moe_every_n_layers``-th of Nomic's (arXiv:2502.07972)."""
    every = fields.optional("moe_every_n_layers", least=0)
    if family.prefix != "NomicBert" or not every:
        return 0
    return count // every


def _experts(fields: Fields) -> MoE:
    hidden = fields.size("hidden_size")
    return MoE(
        hidden=hidden,
        experts=fields.size("num_experts"),
        top_k=fields.size("num_experts_per_tok"),
        intermediate=fields.size("intermediate_size"),
        gated=False,
        vectors=hidden,
    )


def _tables(fields: Fields, family: EncoderFamily, rows: int, width: int) -> Iterator[LookupTable]:
    if _has_positions(fields, family) and width != fields.size("hidden_size"):
        yield LookupTable("positions", rows, width)
    kinds = fields.optional("type_vocab_size", least=0)
    if kinds is None:
        kinds = family.token_types
    if kinds and (family.token_types or family.prefix.startswith("Deberta")):
        yield LookupTable("token_types", kinds, width)
    for table in family.tables:
        buckets = fields.optional(table) or BUCKETS
        yield LookupTable("relative_positions", buckets, fields.size("num_attention_heads"))
    if fields.flag("use_task_id"):
        yield LookupTable("task_types", fields.size("task_type_vocab_size"), width)
    if _span(fields, family):
        yield LookupTable("relative_positions", 2 * _span(fields, family), fields.size("hidden_size"))
        if "layer_norm" in str(fields.get("norm_rel_ebd")):  # a weight and a bias over the table
            yield LookupTable("relative_norm", 2, fields.size("hidden_size"))


def _has_positions(fields: Fields, family: EncoderFamily) -> bool:
    """Whether there is a position table."""
    usual = "absolute" if family.positions else "rope"
    kind = fields.text("position_embedding_type") or usual
    if kind not in KINDS_OF_POSITIONS:
        raise SpecError(f"position_embedding_type must be one of {', '.join(KINDS_OF_POSITIONS)}: {kind!r:.80}")
    return kind == "absolute" and fields.flag("position_biased_input", True)


def _around(fields: Fields, family: EncoderFamily, hidden: int, width: int) -> Iterator[Block]:
    """Projection from the tables' width to the layers', and DeBERTa's convolution after its first layer."""
    if width != hidden or family.prefix == "Albert":
        yield Projection(hidden=width, output=hidden, name="embed_proj", bias=not family.prefix.startswith("Deberta"))
    taps = fields.optional("conv_kernel_size", least=0)
    if taps and family.prefix == "DebertaV2":
        yield Projection(hidden=taps * hidden, output=hidden, name="conv", bias=True, norm=2 * hidden)


# DeBERTa (arXiv:2006.03654, arXiv:2111.09543)


def _span(fields: Fields, family: EncoderFamily) -> int:
    """Number of relative positions on either side of a token in DeBERTa; 0 without them."""
    if not (family.prefix.startswith("Deberta") and fields.flag("relative_attention")):
        return 0
    longest: Any = fields.get("max_relative_positions")
    span = longest if isinstance(longest, int) and longest > 0 else fields.size("max_position_embeddings")
    buckets: Any = fields.get("position_buckets") if family.prefix == "DebertaV2" else None
    if isinstance(buckets, int) and buckets > 0:
        return buckets
    return span


def _relative(fields: Fields, family: EncoderFamily) -> Iterator[Block]:
    span = _span(fields, family)
    if not span:
        return
    given: Any = fields.get("pos_att_type") or []
    listed = str(given).split("|")
    if isinstance(given, list):
        listed = given
    terms = [term for term in ("c2p", "p2c") if term in listed]
    if not terms:
        return
    hidden = fields.size("hidden_size")
    if family.prefix != "DebertaV2":  # the first version has no bias where contents look at positions
        own, biased = len(terms), int("p2c" in terms)
    elif fields.flag("share_att_key"):
        own = biased = 0
    else:
        own = biased = len(terms)
    yield RelativeScores(hidden=hidden, rows=2 * span, terms=len(terms), own=own, biases=hidden * biased)


# ModernBERT (arXiv:2412.13663)


def modern(fields: Fields) -> Model:
    """ModernBERT: norms before attention and MLP, gated MLPs, windows in all but every third layer."""
    hidden, count = fields.size("hidden_size"), fields.size("num_hidden_layers")
    norm = 2 * hidden if fields.flag("norm_bias") else hidden
    mlp = MLP(hidden=hidden, intermediate=fields.size("intermediate_size"), bias=fields.flag("mlp_bias"))
    bias = fields.flag("attention_bias")
    full = (attention_block(fields, bias=bias), mlp)
    # A token sees half of local_attention on either side, and itself.
    reach = (fields.optional("local_attention") or 128) // 2
    local = (attention_block(fields, bias=bias, window=2 * reach + 1), mlp)
    kinds = list(_kinds(fields, count))
    whole = kinds.count("full_attention")
    first_full = kinds[0] == "full_attention"
    # The first layer has no norm before attention; the embedding's norm takes its place.
    first = full if first_full else local
    layers = [Layer(1, first, (norm,))]
    for blocks, number in ((full, whole - first_full), (local, count - whole - (not first_full))):
        if number:
            layers.append(Layer(number, blocks, (norm, norm)))
    return Model(
        name="encoder",
        hidden=hidden,
        vocab=1,
        layers=tuple(layers),
        final_norm=norm,
        embedding_norm=norm,
        max_context_tokens=fields.size("max_position_embeddings"),
    )


def _kinds(fields: Fields, count: int) -> Iterator[str]:
    """``full_attention`` or ``sliding_attention`` for every layer."""
    listed = fields.entries("layer_types", count)
    period = fields.optional("global_attn_every_n_layers") or 3
    for at in range(count):
        kind = "full_attention"
        if listed is not None:
            kind = str(listed[at])
        elif at % period:
            kind = "sliding_attention"
        if kind not in ("full_attention", "sliding_attention"):
            raise SpecError(f"layer_types[{at}] must be full_attention or sliding_attention: {kind!r:.80}")
        yield kind
