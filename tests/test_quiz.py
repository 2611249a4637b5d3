"""The quiz: every template solved by other code over 1,000 seeds, mistakes recognized, answers marked, cards."""

import csv
import io
import json
import re

import pytest
from quiz_solutions import SOLUTIONS

import roofline as rl
from roofline.teaching import ask, cards, list_templates, questions
from roofline.teaching.drawing import TOPICS
from roofline.teaching.question import MISTAKES, number_in

SEEDS = 1000
TEMPLATES = list_templates()
NAMES = [each.name for each in TEMPLATES]


@pytest.mark.parametrize("template", TEMPLATES, ids=NAMES)
def test_every_question_is_solved_by_other_code(template):
    """Over 1,000 seeds; an answer of the library's own may carry norms and a token more, within half the tolerance."""
    solve = SOLUTIONS[template.name]
    texts = set()
    for seed in range(SEEDS):
        question = template.question(seed)
        mine = solve(**question.given)
        if isinstance(question.answer, str):
            assert mine == question.answer, question
        else:
            assert mine == pytest.approx(question.answer, rel=max(question.tolerance / 2, 5e-4), abs=1e-9), question
        for mistake in question.mistakes:
            marked = question.mark(mistake.value)
            assert not marked.right, (question, mistake)
            assert marked.mistake is not None, (question, mistake)
        texts.add(question.text)
    assert len(texts) >= min(20, SEEDS), "fresh numbers"


def test_there_are_enough_of_them():
    assert len(TEMPLATES) >= 80
    assert set(SOLUTIONS) == set(NAMES)
    by_topic = {topic: sum(each.topic == topic for each in TEMPLATES) for topic in TOPICS}
    assert by_topic.pop("interview") == 4
    assert min(by_topic.values()) >= 8
    assert {each.difficulty for each in TEMPLATES} == {1, 2, 3}


@pytest.mark.parametrize("template", TEMPLATES, ids=NAMES)
def test_a_question_is_whole(template):
    seen = {mistake.name for seed in range(40) for mistake in template.question(seed).mistakes}
    assert seen
    assert seen <= MISTAKES.keys()
    for seed in range(10):
        question = template.question(seed)
        assert question == template.question(seed), "the same seed asks the same"
        assert question.solution
        assert "?" in str(question) or question.text.endswith(".")
        assert question.mark(question.answer if isinstance(question.answer, str) else repr(question.answer)).right
        assert question.shown in question.explain()
        json.dumps(question.to_dict(), allow_nan=False)
        assert "<details>" in question._repr_html_()


@pytest.mark.parametrize("template", TEMPLATES, ids=NAMES)
def test_the_numbers_that_it_takes_are_in_its_text(template):
    """Each given number is written out, in its own unit or a thousand times another, or follows from two that are."""
    for seed in range(15):
        question = template.question(seed)
        written = [float(match.replace(",", "")) for match in re.findall(r"\d[\d,]*\.?\d*", question.text)]
        for name, value in question.given.items():
            values = value if isinstance(value, tuple) else (value,)
            for each in values:
                assert appears(float(each), written), (template.name, name, each, question.text)


def appears(value, written):
    scales = [1.0, 8.0, 1 / 8, 100.0, 1e-2, 1e3, 1e6, 1e9, 1e12, 1e15, 1e-3, 1e-6]
    singles = [number * scale for number in written for scale in scales]
    implied = [0.0, 1.0, 2.0, 16.0, 0.01, *(number + 1 for number in written)]
    products = [a * b * c for a in written for b in written for c in [1.0, *written[:12]]]
    return any(abs(value - each) <= 2e-3 * abs(value) for each in [*singles, *implied, *products])


def test_seeds_and_filters():
    assert rl.quiz(seed=5) == rl.quiz(seed=5)
    assert rl.quiz("moe", difficulty=2, seed=1).topic == "moe"
    assert all(each.difficulty == 3 for each in questions(10, difficulty=3, seed=2))
    several = questions(20, "kv", seed=1)
    assert len({each.name for each in several[:10]}) == 10, "no kind twice while others are left"
    assert rl.quiz().text != rl.quiz().text or rl.quiz().text != rl.quiz().text


def test_bad_requests():
    with pytest.raises(rl.UnknownName, match="no topic named 'kvs'; did you mean 'kv'"):
        rl.quiz("kvs")
    with pytest.raises(rl.InvalidInput, match="difficulty must be 1, 2 or 3: 4"):
        rl.quiz(difficulty=4)
    with pytest.raises(rl.InvalidInput, match="roofline has no question of difficulty 3"):
        rl.quiz("roofline", difficulty=3)
    with pytest.raises(rl.InvalidInput, match="seed must be an integer"):
        rl.quiz(seed=-1)
    with pytest.raises(rl.UnknownName, match="no question named 'ridge'"):
        ask("ridge", 1)


# --- marking ---------------------------------------------------------------------------------------------------------


def test_an_answer_may_name_its_unit():
    question = ask("floor_of_a_step", 3)
    seconds = question.answer / 1e3
    for typed in (
        question.answer,
        f"{question.answer}",
        f"{question.answer * 1.04} ms",
        f"{seconds} s",
        f"{seconds * 1e6} us",
    ):
        assert question.mark(typed).right, typed
    assert not question.mark(question.answer * 1.2).right
    assert "by a factor of 1.2" in question.mark(question.answer * 1.2).words


@pytest.mark.parametrize("typed", ["", "many", "12 GB", "nan", "1..2", float("nan"), float("inf"), "12 ms and more"])
def test_nonsense_is_refused_in_a_line(typed):
    with pytest.raises(rl.InvalidInput) as error:
        ask("floor_of_a_step", 3).mark(typed)
    assert "\n" not in str(error.value)


def test_words_are_marked():
    question = ask("what_limits_a_product", 1)
    other = "compute" if question.answer == "memory" else "memory"
    assert question.mark(f" {question.answer.upper()} ").right
    assert question.mark(other).mistake.name == "wrong resource"
    with pytest.raises(rl.InvalidInput, match="answer memory or compute: 'both'"):
        question.mark("both")


@pytest.mark.parametrize(
    ("typed", "unit", "value"),
    [
        ("1,024 GB", "GB", 1024),
        ("1 GiB", "GB", 1.073741824),
        ("0.5 TB/s", "GB/s", 500),
        ("400 Gbit/s", "GB/s", 50),
        ("50%", "%", 50),
        ("2e3", "ms", 2000),
        ("3x", "x", 3),
        ("1.5 PFLOP/s", "TFLOP/s", 1500),
    ],
)
def test_units_convert(typed, unit, value):
    assert number_in(typed, unit) == pytest.approx(value)


def test_a_known_mistake_is_named():
    question = ask("ridge_point", 1)
    sparse = next(each for each in question.mistakes if each.name == "sparse peak")
    marked = question.mark(f"{sparse.value:.4g}")
    assert (marked.right, marked.mistake.name) == (False, "sparse peak")
    assert "2:4 sparsity" in marked.words


def test_units_are_words_that_a_candidate_reads():
    one = next(q for seed in range(400) if (q := ask("accelerators_for_the_weights", seed)).answer == 1)
    assert one.shown == "1 accelerator"
    factor = ask("gain_of_a_part", 1)
    assert str(factor).endswith("[a factor, such as 1.5]")
    with pytest.raises(rl.InvalidInput, match=r"a number \(a factor, such as 1\.5\): 'twice'"):
        factor.mark("twice")


def test_every_known_mistake_is_one_of_a_question():
    seen = {mistake.name for each in TEMPLATES for seed in range(60) for mistake in each.question(seed).mistakes}
    assert seen == set(MISTAKES)


# --- the interview, live ---------------------------------------------------------------------------------------------


def test_the_floor_of_the_interview_is_that_of_the_text():
    """140 GB / 3.35 TB/s = 42 ms; the text rounds to 3 TB/s and 47 ms, and FP8 halves what is quantized."""
    serve = rl.Deployment(rl.get_model("llama-3.1-70b"), rl.get_accelerator("h100-sxm"))
    found = [ask("floor_on_decode", seed) for seed in range(400)]
    on_h100 = [q for q in found if "Llama 3.1 70B in bf16" in q.text and "H100 SXM5" in q.text]
    assert on_h100
    assert on_h100[0].answer == pytest.approx(41.5, abs=0.05)
    quantized = [q for q in found if "Llama 3.1 70B with its layers in FP8" in q.text and "H100 SXM5" in q.text]
    assert quantized[0].answer == pytest.approx(41.5 * (0.5 + 0.5 * 1.05 / 69.5), abs=0.1)
    assert rl.napkin(rl.decode(serve, rl.Workload(), context_tokens=0)).lines[0].words == "70 G weights x 2 B"
    # INT4 in groups of 128, 16-bit scale, 4-bit zero point: 4.15625 bits; the output layer is 1.05 of 69.5 G weights.
    four_bits = [q for q in found if "Llama 3.1 70B with its layers in INT4" in q.text and "H100 SXM5" in q.text]
    assert four_bits[0].answer == pytest.approx((68.45 * 4.15625 / 8 + 2 * 1.0507) / 3.35, abs=0.02)


def test_the_trap_is_not_a_factor_of_two():
    gains = [ask("why_weights_alone_help", seed) for seed in range(200)]
    assert all(1 < question.answer < 2 for question in gains)
    assert min(question.answer for question in gains) < 1.5


def test_disaggregation_agrees_with_the_technique():
    from roofline.techniques import handover

    serve = rl.Deployment(rl.get_model("llama-3.1-70b"), rl.get_accelerator("h100-sxm"))
    found = handover(serve, rl.Workload(8000, 256, 8), link_bytes_per_s=50e9)
    mine = SOLUTIONS["when_disaggregation_pays"](
        tokens=8000, bytes=327_680, link=50e9, prefill=found.prefill_s, steps=1, step=found.decode_s
    )
    assert mine == pytest.approx(found.pays_above_hz, rel=1e-3)


# --- cards -----------------------------------------------------------------------------------------------------------


def test_cards_for_anki():
    text = cards(30, seed=4)
    head, body = text.splitlines()[:3], text.split("\n", 3)[3]
    assert head == ["#separator:Comma", "#html:true", "#tags column:3"]
    rows = list(csv.reader(io.StringIO(body)))
    assert len(rows) == 30
    assert all(len(row) == 3 for row in rows)
    for front, back, tags in rows:
        assert front
        assert "answer: " in back
        assert "\n" not in front + back
        assert tags.split()[0] == "roofline"
    assert text == cards(30, seed=4)
