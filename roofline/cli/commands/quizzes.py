"""The command ``quiz``."""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ...errors import InvalidInput
from ...teaching import Question, cards, questions
from ...teaching.drawing import TOPICS
from .. import options as opt
from ..output import print_json, print_text
from ..quantities import quantity
from ..text import paragraph

QUESTIONS, CARDS = 5, 100
"""Default number of questions and of cards."""

Topic = Annotated[
    str | None,
    Parameter(
        name="TOPIC",
        help=f"{', '.join(TOPICS[:-1])} or {TOPICS[-1]}.",
        show_default="any",
        completer=opt.completed_by(lambda: TOPICS),
    ),
]
Difficulty = Annotated[
    Any, opt.option("--difficulty", "N", "Difficulty, 1 to 3.", parse=quantity, group=opt.OTHER, show_default="any")
]
Count = Annotated[
    Any,
    opt.option(
        "--count",
        "N",
        "Number of questions, or of cards.",
        parse=quantity,
        group=opt.OTHER,
        show_default=f"{QUESTIONS} questions, {CARDS} cards",
    ),
]
Seed = Annotated[
    Any,
    opt.option(
        "--seed",
        "N",
        "Seed; the same seed asks the same questions again.",
        parse=quantity,
        group=opt.OTHER,
        show_default="drawn",
    ),
]
Cards = Annotated[
    Path | None,
    opt.option(
        "--cards",
        "FILE",
        "Write Anki cards as CSV instead of asking; - is standard output.",
        parse=Path,
        group=opt.OUTPUT,
        allow_leading_hyphen=True,
    ),
]


def quiz(
    topic: Topic = None,
    /,
    *,
    difficulty: Difficulty = None,
    count: Count = None,
    seed: Seed = None,
    cards_file: Cards = None,
    as_json: opt.Json = False,
) -> None:
    """Ask questions with new numbers, mark the answers and explain them."""
    if cards_file is not None:
        return _write_cards(cards_file, CARDS if count is None else count, topic, difficulty, seed, as_json=as_json)
    asked = questions(QUESTIONS if count is None else count, topic, difficulty=difficulty, seed=seed)
    if as_json:
        return print_json([question.to_dict() for question in asked])
    return _ask(asked)


def _write_cards(file: Path, count: Any, topic: str | None, difficulty: Any, seed: Any, *, as_json: bool) -> None:
    text = cards(count, topic, difficulty=difficulty, seed=seed)
    if str(file) == "-":
        if as_json:
            print_json([dict(zip(FIELDS, row, strict=True)) for row in _rows(text)])
        else:
            print(text, end="")
        return
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot write {file}: {error.strerror or error}") from None
    if as_json:
        print_json({"cards": count, "file": str(file)})
    else:
        print_text(f"wrote {count:,} cards to {file}")


FIELDS = ("front", "back", "tags")
"""Columns of a card."""


def _rows(text: str) -> Iterator[list[str]]:
    """The rows of a deck, without the header lines that Anki reads."""
    return csv.reader(line for line in io.StringIO(text, newline="") if not line.startswith("#"))


HOW = "Type a number, with a unit if you like; ? shows the solution, q quits."


def _ask(asked: Sequence[Question]) -> None:
    """Ask, mark and explain one question after another, and keep score."""
    right, wrong = 0, Counter[str]()
    print_text(paragraph(HOW))
    for at, question in enumerate(asked, 1):
        print_text(f"\n{at} of {len(asked)}  {question.topic}, difficulty {question.difficulty}")
        print_text(paragraph(str(question)))
        marked = _answer(question)
        if marked is None:
            break
        right += marked
        if not marked:
            wrong[question.topic] += 1
    answered = right + wrong.total()
    if answered:
        again = ", ".join(topic for topic, _ in wrong.most_common())
        score = f"{right} of {answered} correct ({right / answered:.0%})."
        print_text(f"\n{score}" + (f" Review: {again}." if again else ""))


def _answer(question: Question) -> bool | None:
    """Whether the typed answer is correct, after explaining it; None at the end of input."""
    for typed in _typed():
        if typed.lower() in ("q", "quit", "exit"):
            return None
        if typed == "?":
            print_text(_explained(question, mistakes=True))
            return False
        try:
            marked = question.mark(typed)
        except InvalidInput as error:
            print_text(paragraph(str(error)))
            continue
        words = paragraph(f"{marked.words[0].upper()}{marked.words[1:]}.")
        print_text(words, _explained(question, mistakes=not marked.right))
        return marked.right
    return None


def _typed() -> Iterator[str]:
    """Lines of input without blank ones; echoed if the input is not a terminal."""
    typed_by_hand = sys.stdin is not None and sys.stdin.isatty()
    while True:
        print("> ", end="", flush=True)
        line = sys.stdin.readline() if sys.stdin is not None else ""
        if not line or not typed_by_hand:
            print(line.strip())
        if not line:
            return
        if line.strip():
            yield line.strip()


def _explained(question: Question, *, mistakes: bool) -> str:
    """The worked solution and the common wrong answers."""
    lines = question.explain().splitlines() if mistakes else question.solution
    return "\n".join(paragraph(line, indent="  ", hang="    ") for line in lines)
