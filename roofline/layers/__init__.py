"""Kinds of blocks.  A layer is a sequence of blocks; a new kind is a new class here and nothing else.

`KINDS` maps the word that a spec file uses to the class.
"""

from __future__ import annotations

from .attention import Attention
from .block import Block, Cache
from .mlp import MLP, MoE

KINDS: dict[str, type[Block]] = {"attention": Attention, "mlp": MLP, "moe": MoE}

__all__ = ["KINDS", "MLP", "Attention", "Block", "Cache", "MoE"]
