"""`roofline quiz` asks, marks, explains and keeps score; it also writes cards."""

import csv
import io
import json

import pytest
from command_line import answer, run, text

from roofline.teaching import cards, questions


def typed(monkeypatch, *lines, by_hand=False):
    keyboard = io.StringIO("".join(f"{line}\n" for line in lines))
    keyboard.isatty = lambda: by_hand
    monkeypatch.setattr("sys.stdin", keyboard)


def test_it_asks_marks_explains_and_keeps_score(monkeypatch):
    first, second, third = questions(3, seed=11)
    wrong = 1.7 * third.answer if isinstance(third.answer, float) else "?"
    typed(monkeypatch, first.answer, "?", wrong)
    shown = text("quiz", "--seed", 11, "--count", 3)
    flat = " ".join(shown.split())
    for question in (first, second, third):
        assert " ".join(question.text.split()) in flat
        assert " ".join(question.solution[0].split()) in flat
    assert f"Right: {first.shown}." in flat
    assert f"answer: {second.shown}" in flat
    assert flat.endswith(f"1 of 3 correct (33%). Review: {second.topic}, {third.topic}.")


def test_a_known_mistake_is_named(monkeypatch):
    [question] = questions(1, "roofline", difficulty=1, seed=2)
    mistake = question.mistakes[0]
    typed(monkeypatch, mistake.value)
    flat = " ".join(text("quiz", "roofline", "--difficulty", 1, "--seed", 2, "--count", 1).split())
    assert mistake.why in flat
    assert "0 of 1 correct (0%). Review: roofline." in flat


def test_nonsense_is_asked_again(monkeypatch):
    [question] = questions(1, "kv", seed=4)
    typed(monkeypatch, "", "a lot", question.answer)
    shown = text("quiz", "kv", "--seed", 4, "--count", 1)
    assert "'a lot'" in shown
    assert shown.endswith("1 of 1 correct (100%).\n")


@pytest.mark.parametrize("lines", [("q",), ()], ids=["quit", "end of input"])
def test_it_may_be_left_at_any_time(monkeypatch, lines):
    typed(monkeypatch, *lines)
    shown = text("quiz", "--seed", 1)
    assert "1 of 5" in shown
    assert "2 of 5" not in shown
    assert "right (" not in shown


def test_what_is_piped_in_is_shown_and_what_is_typed_is_not(monkeypatch):
    [question] = questions(1, "kv", seed=4)
    typed(monkeypatch, question.answer)
    assert f"> {question.answer}\n" in text("quiz", "kv", "--seed", 4, "--count", 1)
    typed(monkeypatch, question.answer, by_hand=True)
    assert f"> {question.answer}\n" not in text("quiz", "kv", "--seed", 4, "--count", 1)


def test_json_has_the_questions_and_their_solutions():
    assert answer("quiz", "moe", "--seed", 3, "--count", 4) == [each.to_dict() for each in questions(4, "moe", seed=3)]


def test_cards_for_anki(tmp_path):
    file = tmp_path / "deck.csv"
    options = ("--count", 12, "--seed", 5)
    assert text("quiz", "cost", "--cards", file, *options) == f"wrote 12 cards to {file}\n"
    assert file.read_text("utf-8") == cards(12, "cost", seed=5)
    assert text("quiz", "cost", "--cards", "-", *options) == cards(12, "cost", seed=5)


def test_cards_are_json_if_asked(tmp_path):
    file = tmp_path / "deck.csv"
    options = ("--count", "12", "--seed", "5", "--json")
    written = json.loads(text("quiz", "cost", "--cards", file, *options))
    assert written == {"cards": 12, "file": str(file)}
    deck = json.loads(text("quiz", "cost", "--cards", "-", *options))
    rows = list(csv.reader(file.read_text("utf-8").splitlines()[3:]))
    assert [list(card.values()) for card in deck] == rows
    assert list(deck[0]) == ["front", "back", "tags"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("kvs",), "no topic named 'kvs'; did you mean 'kv'?"),
        (("--difficulty", "4"), "difficulty must be 1, 2 or 3: 4"),
        (("--difficulty", "hard"), "difficulty must be 1, 2 or 3: 'hard'"),
        (("--count", "0"), "count must be an integer >= 1: 0"),
        (("--count", "some"), "count must be an integer"),
        (("--seed", "-1"), "seed must be an integer"),
        (("--cards", "/nowhere/deck.csv"), "cannot write /nowhere/deck.csv"),
        (("--cards", "-", "--count", "x"), "count must be an integer"),
    ],
    ids=str,
)
def test_bad_input_is_one_line(args, says):
    done = run("quiz", *args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_text_keeps_to_80_columns(monkeypatch):
    assert max(map(len, text("quiz", "--help").splitlines())) <= 80
    typed(monkeypatch, *["?"] * 12)
    assert max(map(len, text("quiz", "interview", "--count", 12, "--seed", 1).splitlines())) <= 80
