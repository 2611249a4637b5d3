"""Operators: from shapes to work, independent of the speed of an accelerator."""

from .alternatives import resolve
from .collectives import collective
from .elementwise import elementwise, lookup
from .operator import Operator, Pass, Segment
from .products import distinct_experts, experts, linear, matmul
from .recurrence import scan
from .softmax_attention import Reads, attend, attention, chunked_pairs, strided_pairs, visible_pairs

__all__ = [
    "Operator",
    "Pass",
    "Reads",
    "Segment",
    "attend",
    "attention",
    "chunked_pairs",
    "collective",
    "distinct_experts",
    "elementwise",
    "experts",
    "linear",
    "lookup",
    "matmul",
    "resolve",
    "scan",
    "strided_pairs",
    "visible_pairs",
]
