"""Techniques: every way the field knows to serve a model faster, as a value with an effect on each phase.

A `Technique` turns one `Scenario` (what runs where, what is asked, how it is served) into another; `apply` gives the
`Effect` of one or several of them, everything before and after; `technique_table` that of all.

    what is stored and read     Quantization, KVQuantization, KVCache, SharedHeads, LatentHeads, KeepLast, HostOffload
    what is computed, and how   FlashAttention, KernelFusion, StructuredSparsity, ActivationSparsity,
                                SparseAttentionMask, Experts
    who shares a pass           ContinuousBatching, PromptBatching, PagedAttention, ChunkedPrefill, Disaggregation,
                                TensorParallelism
    what need not be computed   PrefixCaching, PromptCompression, Speculation, MultiTokenPrediction

Where a gain ends is answered by functions of their own: `speculation_limits`, `tensor_limits`, `handover`,
`mode_switch`, `swap_or_recompute`; and `visible` says what a reader of a stream sees.
"""

from ..analysis.comparison import Comparison, compare
from ..serving.batch import Performance
from ..serving.scenario import Scenario, expected_tokens
from .attention import FlashAttention, HostOffload, KeepLast, KVCache, LatentHeads, SharedHeads
from .batching import (
    ChunkedPrefill,
    ContinuousBatching,
    Disaggregation,
    PagedAttention,
    PromptBatching,
    padding,
    static_slots_used,
)
from .named import NAMES, named
from .prompts import PrefixCaching, PromptCompression
from .quantization import KVQuantization, Quantization, quantize
from .sharding import TensorLimits, TensorParallelism, tensor_limits
from .speculation import MultiTokenPrediction, Speculation, SpeculationLimits, speculation_limits
from .table import TECHNIQUES, TechniqueTable, technique_table
from .technique import Effect, Technique, apply
from .tradeoffs import Handover, ModeSwitch, SwapIn, Visible, handover, mode_switch, swap_or_recompute, visible
from .weights import ActivationSparsity, Experts, KernelFusion, SparseAttentionMask, StructuredSparsity

__all__ = [
    "NAMES",
    "TECHNIQUES",
    "ActivationSparsity",
    "ChunkedPrefill",
    "Comparison",
    "ContinuousBatching",
    "Disaggregation",
    "Effect",
    "Experts",
    "FlashAttention",
    "Handover",
    "HostOffload",
    "KVCache",
    "KVQuantization",
    "KeepLast",
    "KernelFusion",
    "LatentHeads",
    "ModeSwitch",
    "MultiTokenPrediction",
    "PagedAttention",
    "Performance",
    "PrefixCaching",
    "PromptBatching",
    "PromptCompression",
    "Quantization",
    "Scenario",
    "SharedHeads",
    "SparseAttentionMask",
    "Speculation",
    "SpeculationLimits",
    "StructuredSparsity",
    "SwapIn",
    "Technique",
    "TensorLimits",
    "TensorParallelism",
    "TechniqueTable",
    "Visible",
    "apply",
    "compare",
    "expected_tokens",
    "handover",
    "mode_switch",
    "named",
    "padding",
    "quantize",
    "speculation_limits",
    "static_slots_used",
    "swap_or_recompute",
    "technique_table",
    "tensor_limits",
    "visible",
]
