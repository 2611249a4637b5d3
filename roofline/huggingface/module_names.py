"""Spellings of module names, and the patterns by which quantization schemes select modules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

Matcher = Callable[[str], bool]

SPELLINGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (".mlp.experts.0.gate_proj", (".block_sparse_moe.experts.0.w1", ".ffn.experts.0.w1", ".experts.0.gate_proj")),
    (".mlp.experts.0.up_proj", (".block_sparse_moe.experts.0.w3", ".ffn.experts.0.w3", ".mixer.experts.0.up_proj")),
    (".mlp.experts.0.down_proj", (".block_sparse_moe.experts.0.w2", ".ffn.experts.0.w2", ".mixer.experts.0.down_proj")),
    (".mlp.experts.0.gate_proj", (".experts.0.gate_up_proj", ".mlp.experts.gate_up_proj", ".mlp.experts.gate_proj")),
    (".mlp.experts.0.up_proj", (".experts.0.gate_up_proj", ".mlp.experts.gate_up_proj", ".mlp.experts.up_proj")),
    (".mlp.experts.0.up_proj", (".experts.0.up_proj", ".mixer.experts.up_proj")),
    (".mlp.experts.0.down_proj", (".experts.0.down_proj", ".mlp.experts.down_proj", ".mixer.experts.down_proj")),
    (".mlp.shared_experts.", (".mlp.shared_expert.", ".block_sparse_moe.shared_experts.", ".ffn.shared_experts.")),
    (".mlp.shared_experts.", (".mixer.shared_experts.", ".feed_forward.shared_expert.")),
    (".linear_attn.", (".mixer.", ".mamba.", ".self_attn.")),
    (".linear_attn.in_proj_qkv", (".linear_attn.in_proj_qkvz", ".mixer.in_proj", ".mamba.in_proj")),
    (".linear_attn.in_proj_z", (".linear_attn.in_proj_qkvz",)),
    (".linear_attn.in_proj_ba", (".linear_attn.in_proj_b", ".linear_attn.in_proj_a")),
    (".self_attn.gate_proj", (".self_attn.q_proj", ".self_attn.g_proj")),
    (".self_attn.q_proj", (".self_attn.q_b_proj", ".self_attn.qkv_proj", ".attn.wq_b", ".mixer.q_proj")),
    (".self_attn.q_a_proj", (".self_attn.fused_qkv_a_proj", ".attn.wq_a")),
    (".self_attn.q_b_proj", (".attn.wq_b",)),
    (".self_attn.k_proj", (".self_attn.qkv_proj", ".attn.wkv", ".mixer.k_proj")),
    (".self_attn.kv_proj", (".attn.wkv",)),
    (".self_attn.v_proj", (".self_attn.qkv_proj", ".attn.wkv", ".mixer.v_proj")),
    (".self_attn.o_proj", (".attn.wo_b", ".mixer.o_proj", ".attention.o_proj")),
    (".self_attn.indexer.wq_b", (".attn.indexer.wq_b", ".self_attn.index_q_proj")),
    (".self_attn.indexer.wk", (".attn.indexer.wkv", ".self_attn.index_k_proj")),
    (".mlp.gate", (".block_sparse_moe.gate", ".mlp.router", ".mixer.gate", ".router")),
    (".mlp.", (".feed_forward.", ".ffn.", ".mixer.", ".block_sparse_moe.")),
    ("lm_head", ("head",)),
)
"""Part of a usual module name -> its spellings in other checkpoints."""

PREFIXES = ("model.language_model.", "language_model.model.", "model.", "language_model.", "backbone.")
MOST_PATTERNS = 100_000
MOST_ALTERNATIVES = 64
"""Limit for groups of alternatives, whose combinations multiply. Real checkpoints have a handful."""


def matcher(patterns: Iterable[str]) -> Matcher:
    """Return a function that tests whether a module's name, in any spelling, matches ``patterns``.

    A pattern is a name, a prefix or suffix of one that ends at a dot, a shell pattern with ``*``, or a regular
    expression after ``re:``. The latter is read as a shell pattern, since regular expressions from a file could hang.
    """
    plain: list[str] = []
    for pattern in list(patterns)[:MOST_PATTERNS]:
        plain.extend(_as_globs(pattern))
    names = {item.removesuffix(".*") for item in plain if not _MARKS & set(item.removesuffix(".*"))}
    starts = tuple(item[:-1] for item in plain if item.endswith("*") and not _MARKS & set(item[:-1]))
    globs = [item for item in plain if _MARKS & set(item[:-1])]
    longest = max((name.count(".") + 1 for name in names), default=0)

    def hit(name: str) -> bool:
        if name.startswith(starts) or _contains(name, names, longest):
            return True
        return any(fnmatchcase(name, glob) or fnmatchcase(name, f"{glob}.*") for glob in globs)

    return lambda module: any(hit(name) for name in _spelled(module))


_MARKS = frozenset("*?[")


def _as_globs(pattern: str) -> list[str]:
    """Shell patterns for a pattern, without a checkpoint's prefix; one for each alternative."""
    if not pattern.startswith("re:"):
        return [_bare(pattern.strip("."))]
    text = pattern[3:300].removeprefix("^").removesuffix("$")
    text = text.replace("\\.", ".").replace("\\d+", "*").replace("\\d", "*").replace(".*", "*").replace(".+", "*")
    found = [text]
    while any("(" in item for item in found) and len(found) < MOST_ALTERNATIVES:
        expanded: list[str] = []
        for item in found:
            expanded.extend(_alternatives(item))
        found = expanded
    return [_bare(re.sub(r"[\\?+^$|()]", "", item)) for item in found]


def _alternatives(text: str) -> list[str]:
    group = re.search(r"\((?:\?:)?([^()]*)\)", text)
    if group is None:
        return [text.replace("(", "")]
    return [text[: group.start()] + word + text[group.end() :] for word in group[1].split("|")]


def _bare(name: str) -> str:
    """Name relative to its layer."""
    for prefix in PREFIXES:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def _spelled(module: str) -> list[str]:
    """All spellings of a name."""
    found = [module]
    for usual, others in SPELLINGS:
        if usual in module:
            found += [module.replace(usual, other) for other in others]
    return found


def _contains(name: str, names: set[str], longest: int) -> bool:
    """Whether ``names`` contains a run of consecutive components of the name."""
    words = name.split(".")
    for start in range(len(words)):
        for end in range(start + 1, min(start + longest, len(words)) + 1):
            if ".".join(words[start:end]) in names and not words[start].isdigit():
                return True
    return False
