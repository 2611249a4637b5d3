"""Teaching: derivations by mental arithmetic, and quiz questions with new numbers each time."""

from .asking import ask, cards, list_templates, questions, quiz
from .lines import Napkin
from .napkins import napkin
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
