"""`quiz`: questions with new numbers each time, and Anki cards."""

from __future__ import annotations

import csv
import html
import importlib
import io
import random

from ..errors import InvalidInput, number, unknown
from .drawing import TEMPLATES, TOPICS, Template
from .question import Question

LARGEST_SEED = 2**32


def list_templates(topic: str | None = None, difficulty: int | None = None) -> tuple[Template, ...]:
    """The templates of a topic and a difficulty.

    Parameters
    ----------
    topic : str, optional
        One of `TOPICS`; all if None.
    difficulty : int, optional
        1 to 3; all if None.

    Returns
    -------
    tuple of Template
        In the order of their topics.

    Raises
    ------
    UnknownName
        No such topic.
    InvalidInput
        No such difficulty, or no template of that topic and difficulty.
    """
    importlib.import_module("roofline.teaching.templates")  # fills the register
    if topic is not None and topic not in TOPICS:
        raise unknown("topic", topic, TOPICS)
    if difficulty is not None and difficulty not in (1, 2, 3):
        raise InvalidInput(f"difficulty must be 1, 2 or 3: {difficulty!r}")
    found = tuple(
        each for each in TEMPLATES.values() if topic in (None, each.topic) and difficulty in (None, each.difficulty)
    )
    if not found:
        raise InvalidInput(f"{topic} has no question of difficulty {difficulty}")
    return found


def quiz(topic: str | None = None, *, difficulty: int | None = None, seed: int | None = None) -> Question:
    """Draw a question with new numbers.

    Parameters
    ----------
    topic : str, optional
        ``counting``, ``roofline``, ``phases``, ``kv``, ``quantization``, ``parallelism``, ``moe``, ``serving``,
        ``queueing``, ``cost`` or ``interview``; any if None.
    difficulty : int, optional
        1 to 3; any if None.
    seed : int, optional
        The same seed asks the same question; None draws one.

    Returns
    -------
    Question
        Print it, check an answer with `Question.mark`, and read the solution with `Question.explain`.

    Raises
    ------
    UnknownName
        No such topic.
    InvalidInput
        No such difficulty, or a seed that is not an integer >= 0.

    Examples
    --------
    >>> import roofline as rl
    >>> question = rl.quiz("kv", difficulty=1, seed=1)
    >>> question.mark(question.answer).right
    True
    """
    [question] = questions(1, topic, difficulty=difficulty, seed=seed)
    return question


def questions(
    count: int, topic: str | None = None, *, difficulty: int | None = None, seed: int | None = None
) -> tuple[Question, ...]:
    """Draw several questions; no kind is repeated before all others have been used.

    Parameters
    ----------
    count : int
        Number of questions.
    topic, difficulty, seed
        As for `quiz`.

    Returns
    -------
    tuple of Question
        The questions.
    """
    number("count", count, least=1, whole=True)
    if seed is None:
        seed = random.randrange(LARGEST_SEED)
    number("seed", seed, whole=True)
    chosen = random.Random(int(seed))
    pool = list_templates(topic, difficulty)
    order: list[Template] = []
    while len(order) < count:
        order += chosen.sample(pool, len(pool))
    return tuple(each.question(chosen.randrange(LARGEST_SEED)) for each in order[: int(count)])


def ask(name: str, seed: int) -> Question:
    """Draw the question of one template.

    Parameters
    ----------
    name : str
        The template's name.
    seed : int
        Seed of its numbers.

    Returns
    -------
    Question
        The question.

    Raises
    ------
    UnknownName
        There is no such template.
    """
    known = {each.name: each for each in list_templates()}
    if name not in known:
        raise unknown("question", name, known)
    return known[name].question(seed)


def cards(count: int = 100, topic: str | None = None, *, difficulty: int | None = None, seed: int | None = None) -> str:
    """Return Anki cards: CSV of front, back and tags, with HTML line breaks.

    Parameters
    ----------
    count : int
        Number of cards.
    topic, difficulty, seed
        As for `quiz`.

    Returns
    -------
    str
        The CSV, with the header lines that Anki reads.

    Examples
    --------
    >>> print(cards(1, "queueing", seed=3).splitlines()[0])
    #separator:Comma
    """
    out = io.StringIO()
    out.write("#separator:Comma\n#html:true\n#tags column:3\n")
    writer = csv.writer(out, lineterminator="\n")
    for question in questions(count, topic, difficulty=difficulty, seed=seed):
        back = f"{question.shown}\n{question.explain()}"
        tags = f"roofline {question.topic} difficulty-{question.difficulty}"
        writer.writerow([_html(str(question)), _html(back), tags])
    return out.getvalue()


def _html(text: str) -> str:
    return html.escape(text).replace("\n", "<br>")
