"""`Question`: a task with fresh numbers, its worked solution, common wrong answers, and marking of a typed answer."""

from __future__ import annotations

import html
import math
import re
from dataclasses import dataclass
from typing import Any

from ..arrays import FrozenMapping
from ..errors import InvalidInput
from ..report import plain
from ..units import UNITS

MISTAKES: FrozenMapping[str, str] = FrozenMapping(
    {
        "sparse peak": "that takes the peak with 2:4 sparsity; dense math reaches half of it",
        "GiB": "that takes GiB (2**30) for GB (1e9), or the other way round: data sheets and bandwidths are decimal",
        "query heads": "that counts query heads; the cache has one entry for each KV head",
        "MAC": "that counts a multiply-add as one operation; it is 2 FLOPs",
        "total parameters": "that takes all parameters; only those of the experts that are used count here",
        "active parameters": "that takes the active parameters; all of them have to be in memory",
        "both ways": "that takes the link's rates of both directions together; data goes one way",
        "mean": "that is the mean; the 99th percentile is asked for",
        "bits": "that takes bits for bytes, or the other way round: a byte has 8 bits",
        "keys alone": "that counts keys and forgets values, or the other way round",
        "off by one": "the first token comes from the prefill: output - 1 steps follow it",
        "wrong resource": "that is the time of the other resource; the longer one decides",
        "sum": "that adds times which overlap: the longer one decides",
        "full square": "that counts all pairs; a token attends to those before it, half of the square",
        "no weights": "that forgets the weights, which take their memory first",
        "no reserve": "that gives the engine all memory; it takes a fraction of it",
        "no cache": "that forgets the KV cache, which is read as well",
        "no scales": "that forgets the scales that a block format stores with its values",
        "everything quantized": "that quantizes the embedding and the output layer too; they stay in 16 bits",
        "bits ratio": "that is the ratio of bits; what is not quantized is still read and bounds the gain",
        "divides everything": "that divides what does not divide",
        "backward pass": "that counts a training step, whose backward pass takes twice the forward pass",
        "two matrices": "a gated MLP has three matrices: gate, up and down",
        "tied": "that takes embedding and output layer as one table, or as two where they are one",
        "no batch": "that is for one sequence; the others run in the same step",
        "repeats": "that counts an expert once for each token; tokens share experts",
        "one message": "that counts one of two messages",
        "one stage": "a token passes all stages, one after another",
        "no output": "that forgets the outputs, or the inputs, which move as well",
        "total tokens": "that counts prompt tokens as output",
        "per device": "that is the figure of one accelerator, not of all",
        "hour": "that mixes up seconds and hours",
        "includes service": "that is waiting and service together; waiting alone is asked for",
        "waiting alone": "that leaves the request's own service out",
        "no variability": "that takes every service as equally long; varied ones wait longer",
        "independent": "that adds acceptances; a draft counts only if all before it were accepted",
        "free drafts": "that takes drafts to cost nothing",
        "rounded down": "that many do not suffer the load: round up",
        "inverse": "that is the ratio upside down",
        "complement": "that is the rest, 1 less the share asked for",
        "one server": "that takes the servers as one, or one as all of them",
        "every layer": "that takes every layer for a full one; most have a window",
        "heads": "that multiplies by heads; a latent is shared by all of them",
        "linear": "that takes the effect as proportional; only a share of the time is affected",
        "forgets thinking": "that forgets the time between requests",
        "one layer": "that is one layer; the model has many",
        "first token": "that takes the first token's time in, which is the prefill's",
        "no prefill": "that forgets the prefill, which gives the first token",
        "no rope": "that forgets the rotary key, which is cached beside the latent",
        "KV heads": "that counts KV heads; every query head computes scores of its own",
        "all of it": "each keeps its own part and sends (n - 1) / n of the message",
        "no latency": "that forgets the waits for the network",
        "no overhead": "that forgets what the data center adds",
        "one step": "that takes one step for the whole decode",
        "16 bits": "that takes 16 bits for each weight",
        "token by token": "a prefill is not one step a token: it reads the weights once for all of them",
        "whole pass": "that speeds everything up; only a share of it is faster",
        "ridge itself": "that is the ridge in FLOP/byte; tokens are asked for",
        "wrong part": "that changes the other part",
        "twice": "that counts keys and values apart; one latent gives both",
        "inputs": "that forgets a dimension of the product",
        "one expert": "that counts one expert of the several that a token takes",
        "all experts": "that reads every expert; few tokens need but some of them",
        "no shared part": "that forgets attention and all else beside the experts",
        "one phase": "that counts one phase; a request takes both",
    }
)
"""Common mistakes: name -> what was done wrong."""


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that people give.

    Attributes
    ----------
    name : str
        One of `MISTAKES`.
    value : float or str
        The answer that it leads to, in the unit of the question.
    """

    name: str
    value: float | str

    @property
    def why(self) -> str:
        """What was done wrong."""
        return MISTAKES[self.name]


@dataclass(frozen=True)
class Marking:
    """What became of an answer.

    Attributes
    ----------
    right : bool
        Whether it is within the tolerance.
    words : str
        What to tell: the right value, and the mistake if the answer is a known one.
    mistake : Mistake, optional
        The known wrong answer that was given.
    """

    right: bool
    words: str
    mistake: Mistake | None = None


@dataclass(frozen=True)
class Question:
    """A task with its numbers put in.

    Attributes
    ----------
    name : str
        The template.
    topic : str
        ``counting``, ``roofline``, ``phases``, ``kv``, ``quantization``, ``parallelism``, ``moe``, ``serving``,
        ``queueing``, ``cost`` or ``interview``.
    difficulty : int
        1 to 3.
    seed : int
        Draws the same numbers again.
    text : str
        The task; all numbers that it takes are in it.
    answer : float or str
        The right answer in ``unit``, or a word.
    unit : str
        The unit that a bare number is taken in.
    given : mapping
        The numbers of the text in base units.
    solution : tuple of str
        The worked solution, line by line.
    mistakes : tuple of Mistake
        Common wrong answers.
    options : tuple of str
        The words to choose from, for an answer in words.
    tolerance : float
        Relative deviation up to which a number is right.
    """

    name: str
    topic: str
    difficulty: int
    seed: int
    text: str
    answer: float | str
    unit: str
    given: FrozenMapping[str, Any]
    solution: tuple[str, ...]
    mistakes: tuple[Mistake, ...] = ()
    options: tuple[str, ...] = ()
    tolerance: float = 0.05

    @property
    def shown(self) -> str:
        """The right answer as one would write it."""
        return self.answer if isinstance(self.answer, str) else f"{_digits(self.answer)} {self.unit}".strip()

    def mark(self, typed: str | float) -> Marking:
        """Mark an answer.

        Parameters
        ----------
        typed : str or float
            A number, in the unit of the question unless it names one (``42 ms``, ``0.042 s``), or a word.

        Returns
        -------
        Marking
            Whether it is right, and what to tell.

        Raises
        ------
        InvalidInput
            Neither a number with a unit that fits nor one of the options.
        """
        if isinstance(self.answer, str):
            return self._mark_word(str(typed).strip().lower())
        value = number_in(typed, self.unit)
        if close(value, self.answer, self.tolerance):
            return Marking(True, f"right: {self.shown}")
        for mistake in self.mistakes:
            if isinstance(mistake.value, float) and close(value, mistake.value, self.tolerance / 2):
                return Marking(False, f"not quite: {mistake.why}; it is {self.shown}", mistake)
        ratio = value / self.answer if self.answer else math.inf
        return Marking(False, f"wrong, by a factor of {ratio:.3g}: it is {self.shown}")

    def _mark_word(self, word: str) -> Marking:
        if word not in self.options:
            raise InvalidInput(f"answer {' or '.join(self.options)}: {word!r}")
        if word == self.answer:
            return Marking(True, f"right: {self.answer}")
        known = next((mistake for mistake in self.mistakes if mistake.value == word), None)
        why = f": {known.why}" if known else ""
        return Marking(False, f"wrong{why}; it is {self.answer}", known)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "name": self.name,
            "topic": self.topic,
            "difficulty": self.difficulty,
            "seed": self.seed,
            "text": self.text,
            "answer": plain(self.answer),
            "unit": self.unit,
            "options": list(self.options),
            "solution": list(self.solution),
            "mistakes": [{"name": each.name, "value": plain(each.value), "why": each.why} for each in self.mistakes],
        }

    def __str__(self) -> str:
        if self.options:
            return f"{self.text} ({' or '.join(self.options)})"
        return f"{self.text} [{self.unit}]" if self.unit else self.text

    def explain(self) -> str:
        """The worked solution and the common wrong answers, as text."""
        wrong = [f"  {_digits(each.value)} {self.unit}: {each.why}" for each in self.mistakes]
        lines = [*self.solution, f"answer: {self.shown}"]
        return "\n".join([*lines, *(["common wrong answers:", *wrong] if wrong else [])])

    def _repr_html_(self) -> str:
        steps = "".join(f"<li>{html.escape(line)}</li>" for line in self.solution)
        return (
            f"<p>{html.escape(str(self))}</p><details><summary>answer</summary><ol>{steps}</ol>"
            f"<p>{html.escape(self.shown)}</p></details>"
        )


def close(value: float, wanted: float, tolerance: float) -> bool:
    """Whether ``value`` is within a relative tolerance of ``wanted``."""
    return abs(value - wanted) <= tolerance * abs(wanted) + 1e-12


def _digits(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


_TYPED = re.compile(r"^(?P<number>[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(?P<unit>[^\d\s].*)?$")


def number_in(typed: str | float, unit: str) -> float:
    """The number that was typed, in ``unit``.

    Examples
    --------
    >>> number_in("0.042 s", "ms"), number_in("1,024", "GB"), number_in("12%", "%")
    (42.0, 1024.0, 12.0)
    """
    if isinstance(typed, int | float) and not isinstance(typed, bool):
        if math.isfinite(typed):
            return float(typed)
        raise InvalidInput(f"an answer is a finite number: {typed!r}")
    match = _TYPED.match(str(typed).strip())
    if match is None:
        raise InvalidInput(f"an answer is a number, with a unit if you like (in {unit or 'no unit'}): {typed!r}")
    value = float(match["number"].replace(",", ""))
    given = (match["unit"] or "").strip()
    if not given or given.lower() == unit.lower():
        return value
    scale = _scale(given, unit)
    if scale is None:
        raise InvalidInput(f"the answer is in {unit or 'no unit'}, and {given!r} does not convert to it")
    return value * scale


def _scale(given: str, wanted: str) -> float | None:
    """How many ``wanted`` one ``given`` is; None if they measure different things."""
    for table in UNITS.values():
        if given in table and wanted in table:
            return table[given] / table[wanted]
    plain_words = {"x": 1.0, "times": 1.0, "%": 0.01}
    if given in plain_words and wanted in ("x", "%", ""):
        return plain_words[given] / plain_words.get(wanted, 1.0)
    return None
