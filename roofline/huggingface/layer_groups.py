"""Groups of equal layers, read from the fields of the text model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..errors import SpecError
from ..model import Layer
from ..model.blocks import MLP, AltUp, Attention, Block, BlockResidual, HyperConnections, PerLayerInput, Projection
from .family import Family, Place
from .feed_forward import feed_forward
from .fields import Fields
from .layer_kinds import feed_forwards, layer_count, mixers
from .mixers import mixer, shared_transformer, truth
from .text_config import Text


def layer_kinds(text: Text) -> tuple[list[str], list[str]]:
    """Mixer and MLP of each layer."""
    kinds = mixers(text.fields, text.family, layer_count(text.fields))
    return kinds, feed_forwards(text.fields, text.family, kinds)


def grouped_layers(text: Text) -> tuple[Layer, ...]:
    """Groups of equal layers, in order of first appearance."""
    groups: dict[Layer, int] = {}
    for _, layer in numbered_layers(text):
        groups[layer] = groups.get(layer, 0) + 1
    return tuple(replace(layer, count=number) for layer, number in groups.items())


def numbered_layers(text: Text) -> Iterator[tuple[int, Layer]]:
    """All layers with their numbers in checkpoints; reused parts of a layer are listed separately."""
    if text.fields.get("block_configs") is not None:
        yield from enumerate(_searched_layers(text.fields))
    else:
        yield from _each(text)


def _each(text: Text) -> Iterator[tuple[int, Layer]]:
    kinds, inner = layer_kinds(text)
    own_blocks = text.fields.optional("num_mem_blocks") or 1
    for at, (kind, mlp) in enumerate(zip(kinds, inner, strict=True)):
        first = kind != "hybrid" or kinds[:at].count("hybrid") < own_blocks
        for layer in layer_at(text, Place(at, len(kinds), kind), mlp, first=first):
            yield at, layer


def layer_at(text: Text, place: Place, mlp: str, *, first: bool) -> tuple[Layer, ...]:
    """Blocks of layer ``place.at``; a Zamba hybrid has the shared block, its projection and a mixer."""
    fields, change = text.fields.at_layer(place.at), text.family.change_layer
    found = _by_convention(text, fields, place, mlp, first=first)
    if change:
        return tuple(change(fields, place, layer) for layer in found)
    return found


def _by_convention(text: Text, fields: Fields, place: Place, mlp: str, *, first: bool) -> tuple[Layer, ...]:
    family = text.family
    norm = norm_size(fields, family)
    if fields.given("zero_expert_num"):
        return _shortcut_layers(fields, family, place, norm)
    if place.kind == "hybrid" and family.hybrid == "shared":
        return _shared_hybrid(text, place, first=first)
    blocks = mixer(fields, family, place)
    if place.kind != "cross" and not _mixer_only(family):
        blocks = (*blocks, *feed_forward(fields, family, mlp, place.at, place.layers))
    blocks = (*blocks, *_residual(fields, place))
    norms = (norm,) * _norm_count(fields, family)
    return (Layer(1, blocks, norms, together=_together(fields, family, place, len(blocks))),)


def _together(fields: Fields, family: Family, place: Place, blocks: int) -> tuple[int, ...]:
    """Attention and MLP in parallel, or attention and mixer in parallel before the MLP (Falcon-H1)."""
    if truth(fields, family.parallel) and blocks == 2:
        return (2,)
    if place.kind == "hybrid" and family.hybrid == "parallel":
        return (2, *(1,) * (blocks - 2))
    return ()


def _mixer_only(family: Family) -> bool:
    """Whether a layer is a mixer without an MLP (Mamba, Zamba, RWKV)."""
    return family.linear == "rwkv" or (family.norms == 1 and family.linear in ("mamba", "mamba2") and family.gated)


def _norm_count(fields: Fields, family: Family) -> int:
    count = family.norms + _extra_norms(fields)
    if family.extra_norms_flag and fields.flag(family.extra_norms_flag):
        count += 2
    return count


def _extra_norms(fields: Fields) -> int:
    """Norms that come with parts: per-layer inputs, AltUp and LAuReL, experts beside a dense MLP."""
    extra = 0
    if fields.optional("hidden_size_per_layer_input", least=0):
        extra += 1
    if fields.optional("laurel_rank"):
        extra += 2
    if fields.flag("enable_moe_block"):
        extra += 3
    return extra


def _residual(fields: Fields, place: Place) -> tuple[Block, ...]:
    """Blocks beside attention and MLP."""
    hidden = fields.size("hidden_size")
    blocks: list[Block] = list(block_residual(fields, place))
    if fields.optional("hc_mult"):
        streams, simple = fields.size("hc_mult"), fields.given("hc_magnitude")
        outputs = 2 * streams if simple else streams * (streams + 2)
        blocks.append(HyperConnections(hidden=hidden, streams=streams, outputs=outputs, scales=2 if simple else 3))
    if fields.optional("laurel_rank"):
        streams = fields.size("altup_num_inputs")
        blocks.append(AltUp(hidden=hidden, streams=streams, rank=fields.size("laurel_rank")))
    if fields.optional("hidden_size_per_layer_input", least=0):
        blocks.append(PerLayerInput(hidden=hidden, width=fields.size("hidden_size_per_layer_input")))
    return tuple(blocks)


def block_residual(fields: Fields, place: Place | None = None) -> tuple[Block, ...]:
    """Mixing of the outputs of blocks of layers into a layer's attention and MLP, or (without a place) into lm_head.

    In Inkling 2, queries, keys and values of full attention have separate inputs, and the first layer has nothing to
    mix for its attention.
    """
    hidden, layers = fields.size("hidden_size"), layer_count(fields)
    for name, norms in (("attn_res_block_size", True), ("n_layers_per_attn_res_block", False)):
        size = fields.optional(name, least=0)
        if not size:
            continue
        blocks = -(-layers // size)
        if place is None:
            return (BlockResidual(hidden=hidden, sources=blocks, queries=1, norms=norms),)
        for_attention = 1
        if not norms and place.kind != "sliding":
            for_attention = 3
        if not norms and not place.at:
            for_attention = 0
        return (BlockResidual(hidden=hidden, sources=1 + blocks // 2, queries=for_attention + 1, norms=norms),)
    return ()


def _shared_hybrid(text: Text, place: Place, *, first: bool) -> tuple[Layer, ...]:
    fields, family = text.fields, text.family
    hidden, norm = fields.size("hidden_size"), norm_size(fields, family)
    shared = Layer(1, shared_transformer(fields, family), (2 * norm, norm), reused=not first)
    linear = Place(place.at, place.layers, "linear")
    projection = Projection(hidden=hidden, output=hidden, name="hybrid_projection")
    own = (*_adapters(fields), projection, *mixer(fields, family, linear))
    return (shared, Layer(1, own, (norm,)))


def _shortcut_layers(fields: Fields, family: Family, place: Place, norm: int) -> tuple[Layer, Layer]:
    """Two attentions and two dense MLPs beside one mixture of experts (LongCat, arXiv:2509.01322, section 2.2).

    The experts read what the first dense MLP reads; their output is added to the residual stream with the second's.
    """
    attention = mixer(fields, family, place)
    dense = feed_forward(fields, family, "dense", place.at, place.layers)
    experts = feed_forward(fields, family, "moe", place.at, place.layers)
    plain = Layer(1, (*attention, *dense), (norm,) * 2)
    return plain, replace(plain, blocks=(*plain.blocks, *experts), together=(1, 2))


def _adapters(fields: Fields) -> list[Block]:
    """Low-rank adapters that each of Zamba 2's hybrid layers adds to the shared block (arXiv:2411.15242)."""
    rank = fields.optional("adapter_rank")
    if not rank:
        return []
    hidden, outer = fields.size("hidden_size"), 2 * fields.size("intermediate_size")
    pairs = [(hidden, outer)]
    if fields.flag("use_shared_attention_adapter"):
        pairs += [(2 * hidden, 2 * hidden)] * 3
    found: list[Block] = []
    for width_in, width_out in pairs:
        found.append(Projection(hidden=width_in, output=rank, name="adapter"))
        found.append(Projection(hidden=rank, output=width_out, name="adapter"))
    return found


def norm_size(fields: Fields, family: Family) -> int:
    """Parameters of one norm."""
    affine = fields.flag("layer_norm_elementwise_affine", True)
    return {"rms": 1, "layer": 2, "layer_weight": 1, "none": 0}[family.norm] * fields.size("hidden_size") * affine


# Layers that differ one by one (Nemotron-NAS)


def _searched_layers(fields: Fields) -> list[Layer]:
    """``block_configs``: attention with its own KV heads, replaced by a matrix, or left out; likewise the MLP.

    The inner width is ``2 / 3 * ffn_mult * hidden``, rounded up to a multiple of 256 (Puzzle, arXiv:2411.19146).
    """
    hidden = fields.size("hidden_size")
    found = []
    for at, entry in enumerate(fields.entries("block_configs", layer_count(fields)) or ()):
        if not isinstance(entry, dict):
            raise SpecError(f"block_configs[{at}] must be a mapping: {entry!r:.80}")
        blocks = (*_searched(entry, "attention", at, fields), *_searched(entry, "ffn", at, fields))
        found.append(Layer(1, blocks, (hidden,) * len(blocks)))
    return found


def _searched(entry: dict[str, Any], part: str, at: int, fields: Fields) -> tuple[Block, ...]:
    inner = entry.get(part)
    if not isinstance(inner, dict):
        raise SpecError(f"block_configs[{at}].{part} is missing")
    choice, hidden = Fields(inner, {}), fields.size("hidden_size")
    if choice.flag("no_op"):
        return ()
    if choice.flag("replace_with_linear"):
        return (Projection(hidden=hidden, output=hidden, name=f"{part}_linear"),)
    if part == "ffn":
        return (MLP(hidden=hidden, intermediate=_searched_width(choice, hidden, at)),)
    heads = fields.size("num_attention_heads")
    group = choice.size("n_heads_in_group")
    if heads % group:
        raise SpecError(f"block_configs[{at}].attention.n_heads_in_group {group} does not divide {heads} heads")
    width = fields.optional("head_dim") or hidden // heads
    return (Attention(hidden=hidden, query_heads=heads, kv_heads=heads // group, head_dim=width),)


def _searched_width(choice: Fields, hidden: int, at: int) -> int:
    times = choice.get("ffn_mult")
    if times is None:
        return choice.size("intermediate_size")
    if isinstance(times, bool) or not isinstance(times, int | float) or not 0 < times < 1000:
        raise SpecError(f"block_configs[{at}].ffn.ffn_mult must be a number above 0: {times!r:.80}")
    return 256 * -(-int(2 * times * hidden / 3) // 256)
