"""Techniques: ways to serve a model faster, and their effect on each phase.

A `Technique` turns one `Scenario` (model, hardware, engine and requests) into another. `apply` returns the `Effect` of
one or several techniques on requests in steady state. `technique_table` compares all of them. Each technique has a slug
that names it in Python, on the command line and in the table (`REGISTRY`).

    attention and KV cache      KVCache, GroupedQueryAttention, MultiQueryAttention, MultiHeadLatentAttention,
                                FlashAttention, SlidingWindow, AttentionSinks, ScoreEviction, SharedPrefixAttention
    tiers of memory             HostOffload, KVTiers, WeightOffload
    number formats              Quantization, KVQuantization
    scheduling                  ContinuousBatching, PromptBatching, PagedAttention, ChunkedPrefill, Disaggregation,
                                EncoderDisaggregation, CudaGraphs, AsyncScheduling
    layouts                     TensorParallelism, ExpertParallelism, ExpertBalancing, AttentionDataParallelism,
                                DecodeContextParallelism, TwoBatchOverlap, QuantizedCollectives,
                                AttentionFFNDisaggregation
    weights and kernels         KernelFusion, StructuredSparsity, ActivationSparsity, SparseAttentionMask,
                                IndexedSparseAttention, MixtureOfExperts, MultiLoRA
    prompts and drafts          PrefixCaching, PromptCompression, Speculation, MultiTokenPrediction, TreeDrafting,
                                NgramDrafting, ParallelDrafting

Further functions compute where a gain ends: `speculation_limits`, `tensor_limits`, `handover`, `mode_switch` and
`swap_or_recompute`. `visible` computes when the reader of a stream sees tokens.
"""

from typing import TYPE_CHECKING, Any

from ..analysis.comparison import Comparison, compare
from ..serving.scenario import Scenario, expected_tokens
from ..serving.steady_state import Steady
from .batching import padding, static_slots_used
from .effect import Effect, apply
from .measured_gains import MEASURED, MeasuredGains
from .quantization import quantize
from .registry import TechniqueParameter, list_techniques, load_all, named, parameters, usual_techniques
from .sharding import TensorLimits, tensor_limits
from .speculation import SpeculationLimits, speculation_limits
from .table import TechniqueTable, technique_table
from .technique import REGISTRY, Technique, scenario_with
from .tradeoffs import Handover, ModeSwitch, SwapIn, Visible, handover, mode_switch, swap_or_recompute, visible

if TYPE_CHECKING:
    from .adapters import *  # noqa: F403
    from .attention import *  # noqa: F403
    from .batching import *  # noqa: F403
    from .context_parallelism import *  # noqa: F403
    from .encoder_placement import *  # noqa: F403
    from .expert_layouts import *  # noqa: F403
    from .fusion_and_sparsity import *  # noqa: F403
    from .host_scheduling import *  # noqa: F403
    from .prompts import *  # noqa: F403
    from .quantization import *  # noqa: F403
    from .sharding import *  # noqa: F403
    from .shared_prefix import *  # noqa: F403
    from .speculation import *  # noqa: F403
    from .tiers import *  # noqa: F403

load_all(__name__, __path__)  # noqa: F405

_CLASSES = {kind.__name__: kind for kind in REGISTRY.values()}

__all__ = [  # noqa: PLE0604
    *_CLASSES,
    "Comparison",
    "Effect",
    "Handover",
    "MEASURED",
    "MeasuredGains",
    "ModeSwitch",
    "REGISTRY",
    "Scenario",
    "SpeculationLimits",
    "Steady",
    "SwapIn",
    "Technique",
    "TechniqueParameter",
    "TechniqueTable",
    "TensorLimits",
    "Visible",
    "apply",
    "compare",
    "expected_tokens",
    "handover",
    "list_techniques",
    "mode_switch",
    "named",
    "padding",
    "parameters",
    "quantize",
    "scenario_with",
    "speculation_limits",
    "static_slots_used",
    "swap_or_recompute",
    "technique_table",
    "tensor_limits",
    "usual_techniques",
    "visible",
]


def __getattr__(name: str) -> Any:
    if name in _CLASSES:
        return _CLASSES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
