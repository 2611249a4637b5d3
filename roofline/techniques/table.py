"""Table of techniques: the phase that each one helps, by how much, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidInput, require
from ..phases.deployment import Deployment
from ..phases.encoder_rules import refuse_encoders
from ..phases.workload import Workload
from ..report import Report, Step, plain
from ..report.tables import Line
from ..serving.scenario import Scenario
from .effect import Effect, apply
from .measured_gains import MEASURED
from .registry import usual_techniques
from .technique import Technique

NOTICEABLE = 1.02
"""Smallest speedup that counts: rounding of tiles and tokens changes times by a percent or two."""


@dataclass(frozen=True, eq=False, repr=False)
class TechniqueTable(Report):
    """Techniques and their effects on one deployment.

    Attributes
    ----------
    effects : tuple of Effect
        One effect per technique that the deployment can use.
    refused : tuple of (str, str)
        Label of each rejected technique and the reason.

    Columns
    -------
    claimed_phase, phase
        Phase that the literature says a technique helps, and phase that gains over the baseline here.
    prefill_speedup, decode_speedup, throughput_gain, batch_gain
        Speedups and gains over the deployment as given; 1 for techniques that it already uses.
    baseline, baseline_prefill_speedup, ...
        Baseline of techniques that are already in use, and the gains over it.
    measured, sources
        Range and number of gains measured on any deployment, and their sources.
    assumes
        Parameters that the prediction depends on.
    """

    effects: tuple[Effect, ...]
    refused: tuple[tuple[str, str], ...]

    columns = (
        "technique",
        "slug",
        "claimed_phase",
        "phase",
        "prefill_speedup",
        "decode_speedup",
        "throughput_gain",
        "batch_gain",
        "baseline",
        "baseline_prefill_speedup",
        "baseline_decode_speedup",
        "baseline_throughput_gain",
        "baseline_batch_gain",
        "measured",
        "assumes",
        "why",
        "sources",
    )

    @property
    def heading(self) -> str:
        """Title: deployment and number of requests."""
        return (
            f"Techniques: {self.effects[0].before.heading.removeprefix('Steady: ')}" if self.effects else "Techniques"
        )

    @property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """One mapping per technique, with the columns as keys."""
        return tuple(row_of(effect) for effect in self.effects)

    def to_dict(self) -> dict[str, Any]:
        """Rows and rejected techniques as a dict."""
        return {"rows": plain(self.rows), "refused": dict(self.refused), "assumptions": list(self.assumptions)}

    def to_frame(self) -> Any:
        """One row per technique."""
        require("pandas", "frame", "a table")
        import pandas as pd

        return pd.DataFrame(self.rows, columns=list(self.columns))

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """Assumptions behind the values."""
        return tuple(dict.fromkeys(note for effect in self.effects for note in effect.before.assumptions))

    def _derivation(self) -> tuple[Step, ...]:
        """Derivation of every effect, labeled with the short name of its technique."""
        return tuple(step.under(effect.techniques[0].slug) for effect in self.effects for step in effect.explain())

    def summary(self) -> str:
        """One sentence on the largest gains in throughput, prefill and decode."""
        if not self.effects:
            return "No technique is applicable here."
        rows, said = self.rows, []
        for name, words in (
            ("throughput_gain", "throughput"),
            ("prefill_speedup", "prefill"),
            ("decode_speedup", "decode"),
        ):
            best = max(rows, key=lambda row: float(np.max(row[name])))
            gain = float(np.max(best[name]))
            if gain >= NOTICEABLE:
                said.append(f"{words} {gain:.2f}x with {best['technique']}")
        if said:
            return f"Largest gains: {', '.join(said)}."
        return "No technique improves anything here."

    def cells(self) -> tuple[tuple[str, ...], ...]:
        """Rows formatted as text."""
        return tuple(tuple(_cell(value) for value in row.values()) for row in self.rows)

    def _head(self) -> Line:
        return self.columns

    def _lines(self) -> Iterable[Line]:
        return self.cells()

    def _notes(self) -> list[str]:
        return [f"{name}: {reason}" for name, reason in self.refused]


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.3g}x"


def row_of(effect: Effect) -> dict[str, Any]:
    """Table row of one effect."""
    technique = effect.techniques[0]
    found = MEASURED.get(technique.slug)
    return {
        "technique": technique.label,
        "slug": technique.slug,
        "claimed_phase": technique.helps,
        "phase": phase_of(effect),
        "prefill_speedup": effect.prefill_speedup,
        "decode_speedup": effect.decode_speedup,
        "throughput_gain": effect.throughput_gain,
        "batch_gain": effect.batch_gain,
        "baseline": effect.compared_with,
        "baseline_prefill_speedup": effect.baseline_prefill_speedup,
        "baseline_decode_speedup": effect.baseline_decode_speedup,
        "baseline_throughput_gain": effect.baseline_throughput_gain,
        "baseline_batch_gain": effect.baseline_batch_gain,
        "measured": found.words if found else "",
        "assumes": technique.assumes,
        "why": technique.why,
        "sources": "; ".join(found.sources) if found else "",
    }


def phase_of(effect: Effect) -> str:
    """Phase that gains `NOTICEABLE` over the baseline, or ``both``; otherwise ``throughput`` or ``capacity``."""
    gained = {"prefill": effect.baseline_prefill_speedup, "decode": effect.baseline_decode_speedup}
    helped = [name for name, gain in gained.items() if float(np.min(gain)) >= NOTICEABLE]
    if len(helped) == 2:
        return "both"
    if helped:
        return helped[0]
    if effect.baseline_throughput_gain >= NOTICEABLE:
        return "throughput"
    return "capacity" if effect.baseline_batch_gain >= NOTICEABLE else "neither"


def technique_table(
    serve: Deployment, load: Workload, *, techniques: Iterable[Technique] | None = None, time: str = "estimate_s"
) -> TechniqueTable:
    """Compare techniques on a deployment: the phase that each helps, why, and by how much.

    Parameters
    ----------
    serve : Deployment
        What runs where, as given.
    load : Workload
        Requests as single numbers, not a sweep; ``batch`` of them are in the system at any time.
    techniques : iterable of Technique, optional
        Techniques to compare; by default all with their usual parameters.
    time : str
        ``floor_s``, ``roofline_s`` or ``estimate_s``.

    Returns
    -------
    TechniqueTable

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
    case = Scenario(serve, load)
    refuse_encoders(serve.model, "a what-if")
    if any(np.ndim(value) for value in (load.prompt_tokens, load.output_tokens, load.batch, load.cached_tokens)):
        raise InvalidInput("technique_table takes a single workload, not a sweep")
    chosen = usual_techniques() if techniques is None else tuple(techniques)
    effects, refused = [], []
    for item in chosen:
        if reason := item.refusal(case):
            refused.append((item.label, reason))
        else:
            effects.append(apply(serve, load, item, time=time))
    return TechniqueTable(tuple(effects), tuple(refused))
