"""Teaching: derivations that a person can do in the head, and questions with fresh numbers."""

from .derivations import napkin
from .lines import Napkin

__all__ = ["Napkin", "napkin"]
