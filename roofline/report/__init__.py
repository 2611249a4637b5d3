"""Results and how they are read: text, HTML, frames, derivations, and the names of a sweep's axes."""

from .results import Report, Rows, Step, plain

__all__ = ["Report", "Rows", "Step", "plain"]
