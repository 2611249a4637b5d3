"""Advisor: which phase to work on first, which technique gains the most, and where the answer flips."""

from ..serving.slo import SLO
from .advice import Advice, advise
from .ranked_techniques import Option
from .targets import TargetLine
from .verdict import Flip, PhaseMap, phase_map, verdict_of

__all__ = ["SLO", "Advice", "Flip", "Option", "PhaseMap", "TargetLine", "advise", "phase_map", "verdict_of"]
