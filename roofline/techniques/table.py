"""The table of techniques: which phase each one helps, by how much, and why, for any deployment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidInput
from ..phases.deployment import Deployment
from ..phases.workload import Workload
from ..report import Report, plain
from ..serving.scenario import Scenario
from ..tables import Line
from .attention import FlashAttention, HostOffload, KeepLast, KVCache, LatentHeads, SharedHeads
from .batching import ChunkedPrefill, ContinuousBatching, Disaggregation, PagedAttention, PromptBatching
from .prompts import PrefixCaching, PromptCompression
from .quantization import KVQuantization, Quantization
from .sharding import TensorParallelism
from .speculation import MultiTokenPrediction, Speculation
from .technique import Effect, Technique, apply
from .weights import ActivationSparsity, Experts, KernelFusion, SparseAttentionMask, StructuredSparsity

TECHNIQUES: tuple[Technique, ...] = (
    KVCache(),
    SharedHeads(),
    LatentHeads(),
    FlashAttention(),
    PagedAttention(),
    KernelFusion(),
    Quantization(weights="fp8"),
    Quantization(weights="fp8", activations="fp8"),
    Quantization(weights="int4_g128"),
    KVQuantization(kv="fp8"),
    KVQuantization(kv="int4"),
    KeepLast(),
    HostOffload(),
    ContinuousBatching(),
    PromptBatching(),
    ChunkedPrefill(),
    PrefixCaching(),
    PromptCompression(),
    Speculation(),
    MultiTokenPrediction(),
    StructuredSparsity(),
    ActivationSparsity(),
    SparseAttentionMask(),
    Experts(),
    Disaggregation(),
    TensorParallelism(),
)
"""Every technique with the parameters that the field reports."""

NOTICEABLE = 1.02
"""A speedup from which on a phase counts as helped."""


@dataclass(frozen=True, eq=False, repr=False)
class TechniqueTable(Report):
    """Techniques and their effects on one deployment.

    Attributes
    ----------
    effects : one a technique that can be had
    refused : name of a technique -> why it can't be had here
    """

    effects: tuple[Effect, ...]
    refused: tuple[tuple[str, str], ...]

    columns = (
        "technique",
        "claimed_phase",
        "phase",
        "prefill_speedup",
        "decode_speedup",
        "throughput_gain",
        "batch_gain",
        "why",
    )

    @property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """One mapping a technique, with the columns as keys."""
        return tuple(row_of(effect) for effect in self.effects)

    def to_dict(self) -> dict[str, Any]:
        """Rows, and what was refused."""
        return {"rows": plain(self.rows), "refused": dict(self.refused), "assumptions": list(self.assumptions)}

    def to_frame(self) -> Any:
        """One row a technique."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=list(self.columns))

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """What the figures rest on."""
        return tuple(dict.fromkeys(note for effect in self.effects for note in effect.before.assumptions))

    def cells(self) -> tuple[tuple[str, ...], ...]:
        """The rows as people read them."""
        return tuple(
            tuple(value if isinstance(value, str) else f"{value:.3g}x" for value in row.values()) for row in self.rows
        )

    def _head(self) -> Line:
        return self.columns

    def _lines(self) -> Iterable[Line]:
        return self.cells()

    def _notes(self) -> list[str]:
        return [f"{name}: {reason}" for name, reason in self.refused]


def row_of(effect: Effect) -> dict[str, Any]:
    """What the table says of one effect."""
    technique = effect.techniques[0]
    return {
        "technique": label(technique),
        "claimed_phase": technique.helps,
        "phase": phase_of(effect),
        "prefill_speedup": effect.prefill_speedup,
        "decode_speedup": effect.decode_speedup,
        "throughput_gain": effect.throughput_gain,
        "batch_gain": _batch_gain(effect),
        "why": technique.why,
    }


def label(technique: Technique) -> str:
    """Its name, with the formats that it sets."""
    formats = [getattr(technique, name, None) for name in ("weights", "activations", "kv")]
    named = [text for text in formats if isinstance(text, str)]
    return f"{technique.name} ({' + '.join(named)})" if named else technique.name


def phase_of(effect: Effect) -> str:
    """The phase that gains by at least `NOTICEABLE`; both, if both do; else ``throughput`` or ``capacity``."""
    gained = {"prefill": effect.prefill_speedup, "decode": effect.decode_speedup}
    helped = [name for name, gain in gained.items() if float(np.min(gain)) >= NOTICEABLE]
    if len(helped) == 2:
        return "both"
    if helped:
        return helped[0]
    more = {"throughput": effect.throughput_gain, "capacity": _batch_gain(effect)}
    return next((name for name, gain in more.items() if gain >= NOTICEABLE), "neither")


def _batch_gain(effect: Effect) -> float:
    """Cache that fits, after / before: sequences in the same free memory, whole or not."""
    before, after = effect.before, effect.after
    return float(np.divide(before.kv_bytes_per_sequence, np.maximum(after.kv_bytes_per_sequence, 1.0)))


def technique_table(
    serve: Deployment, load: Workload, *, techniques: Iterable[Technique] = TECHNIQUES, time: str = "roofline_s"
) -> TechniqueTable:
    """Technique, phase and reason, as the field's tables have them, with the numbers of this deployment.

    ``claimed_phase`` is what the field says, ``phase`` what the numbers say: a phase counts as helped from 2 % on.
    Techniques that every engine has are held against the deployment without them.

    Parameters
    ----------
    techniques : which ones; all with usual parameters unless given
    time : ``floor_s``, ``roofline_s`` or ``estimate_s``

    Raises
    ------
    InvalidInput
        ``load`` is a sweep.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-70b"), rl.get_accelerator("h200-sxm"))
    >>> table = rl.technique_table(serve, rl.Workload())
    >>> [row["phase"] for row in table.rows if row["technique"] == "weight quantization (fp8)"]
    ['decode']
    """
    if any(np.ndim(value) for value in (load.prompt_tokens, load.output_tokens, load.batch, load.cached_tokens)):
        raise InvalidInput("a table of techniques is for one workload, not a sweep: give whole numbers")
    case = Scenario(serve, load)
    chosen = tuple(techniques)
    refused = tuple((label(item), reason) for item in chosen if (reason := item.refusal(case)))
    possible = [item for item in chosen if not item.refusal(case)]
    return TechniqueTable(tuple(apply(serve, load, item, time=time) for item in possible), refused)
