"""Teaching: derivations by mental arithmetic, and quiz questions with new numbers each time."""

from .asking import ask, cards, list_templates, questions, quiz
from .derivations import napkin
from .lines import Napkin
from .question import Marking, Mistake, Question

__all__ = [
    "Marking",
    "Mistake",
    "Napkin",
    "Question",
    "ask",
    "cards",
    "list_templates",
    "napkin",
    "questions",
    "quiz",
]
