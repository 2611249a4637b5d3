"""Advisor: which phase to work on first, which technique gains the most, and where the answer flips."""

from ..serving.slo import SLO
from .advice import Advice, advise
from .options import Option
from .targets import Line
from .verdict import Flip, PhaseMap, phase_map, verdict_of

__all__ = ["SLO", "Advice", "Flip", "Line", "Option", "PhaseMap", "advise", "phase_map", "verdict_of"]
