"""`Question`: a task with its numbers, worked solution and common wrong answers, which marks a typed answer."""

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
        "GiB": "that mixes up GiB (2**30) and GB (1e9): data sheets and bandwidths are decimal",
        "query heads": "that gives keys and values as many heads as the queries have; only the KV heads count",
        "MAC": "that counts a multiply-add as one operation; it is 2 FLOPs",
        "total parameters": "that takes all parameters; a token uses only those of the experts it is routed to",
        "active parameters": "that takes the active parameters; all of them have to be in memory",
        "both ways": "that takes the rates of both directions together; the data goes one way",
        "mean": "that is the mean; the question is about the 99th percentile",
        "bits": "that mixes up bits and bytes: a byte has 8 bits",
        "keys alone": "that counts keys without values, or the other way round",
        "off by one": "the first token comes from the prefill: output - 1 steps follow it",
        "wrong resource": "that is the time of the other resource; the longer one decides",
        "sum": "that adds times that overlap: the longer one decides",
        "full square": "that counts all pairs; a token attends to itself and to those before it, half of the square",
        "no weights": "that forgets the weights, which take memory first",
        "no reserve": "that gives the engine all of the memory; it may use only a fraction",
        "no cache": "that forgets the KV cache, which is read as well",
        "no scales": "that forgets the scales that a block format stores with its values",
        "everything quantized": "that quantizes the embedding and the output layer too; they stay in 16 bits",
        "bits ratio": "that is the ratio of bits; what is not quantized still takes its time",
        "divides everything": "that divides something that does not divide",
        "backward pass": "that counts a training step, whose backward pass takes twice as much as the forward pass",
        "two matrices": "a gated MLP has three matrices: gate, up and down",
        "tied": "that counts one table where there are two, or two where they are shared",
        "no batch": "that is for one sequence; the others run in the same step",
        "repeats": "that counts an expert once for each token; tokens share experts",
        "one message": "that counts one of the two halves of an all-reduce, or one of two messages",
        "one stage": "a token passes all stages, one after another",
        "no output": "that forgets the output, or an input, which moves as well",
        "total tokens": "that counts prompt tokens as output",
        "per device": "that is the value of one accelerator, not of all",
        "hour": "that mixes up seconds and hours",
        "includes service": "that includes the service time; the question is about the wait only",
        "waiting alone": "that leaves out the service of the request itself",
        "no variability": "that assumes equal service times; variable ones make requests wait longer",
        "independent": "that adds acceptances; a draft counts only if all before it were accepted",
        "free drafts": "that assumes that drafts cost nothing",
        "rounded down": "that is too few for the load: round up",
        "inverse": "that is the ratio upside down",
        "complement": "that is the rest, 100 % minus what is asked for",
        "one server": "that treats several servers as one",
        "every layer": "that counts the whole context in every layer; most layers have a window",
        "heads": "that multiplies by the heads; all heads share one latent",
        "forgets thinking": "that forgets the time between requests",
        "one layer": "that is one layer; the model has many",
        "first token": "that includes the time to first token, which is prefill",
        "no prefill": "that forgets the prefill, which yields the first token",
        "no rope": "that forgets the rotary key, which is cached beside the latent",
        "KV heads": "that counts KV heads; every query head computes its own scores",
        "all of it": "each accelerator keeps its own part and sends (n - 1) / n of the message",
        "no latency": "that forgets the waits for the network",
        "no overhead": "that forgets what the data center adds",
        "one step": "that counts one step instead of the whole decode",
        "16 bits": "that assumes 16 bits per weight",
        "token by token": "prefill reads the weights once for all tokens, not once per token",
        "whole pass": "that speeds everything up; only a share of it is faster",
        "ridge itself": "that is the ridge point in FLOP/byte; the question is about tokens",
        "wrong part": "that changes the other part",
        "twice": "that counts keys and values separately; one latent yields both",
        "inputs": "that forgets a dimension of the product",
        "one expert": "that counts one expert of the several that a token takes",
        "all experts": "that reads every expert; few tokens need only some of them",
        "no shared part": "that forgets attention and everything else outside the experts",
        "one phase": "that counts one phase; a request needs both",
        "full use": "that plans for full load and leaves no headroom",
        "one day": "that is one day",
        "speedup itself": "that is the gain in throughput; the cost per token is divided by the speedup",
        "other limit": "that is what the other resource would allow; the lower limit counts",
        "both edges": "that doubles the rate of a pin, which counts both edges of the clock already",
        "mean of speedups": "that averages speedups; it is the times that add up",
        "other share": "that makes the other share faster, not the one in the question",
        "swapped layers": "that counts the layers with a window in full, and leaves out the others",
        "one token": "that is for a single token; other tokens are routed to other experts",
        "wrong end": "that takes the share that is read for the share that is not",
        "whole cache": "that saves the whole cache; a quarter of it is still read",
        "unslowed cache": "that slows down only the weights; reading the cache takes longer as well",
        "one all-reduce": "that counts one of the two all-reduces of a layer",
        "same accelerators": "expert parallelism needs no accelerators of its own",
        "no stages": "that forgets the pipeline stages",
        "linear wait": "that lets the wait grow in proportion to the load; it grows as load / (1 - load)",
        "even spread": "that assumes evenly spread times; an exponential distribution has a long tail",
        "saturation": "at that rate the server is always busy, and the wait grows without bound",
        "half the burst": "that is when half of the burst is done; the question is about the last request",
        "one user": "that is the rate of a single user",
        "own token": "that counts accepted drafts only; the large model adds one token",
        "whole prompt": "that computes the whole prompt; a part of it is cached",
        "cached part": "that computes the cached part, and not the rest",
        "misses": "that is the rate of requests that miss a target; the question is about those that meet both",
        "one target": "that subtracts the misses of one target only",
        "no step": "that forgets the step itself",
        "no stall": "that forgets the prompt that the sequences wait for",
        "stalls alone": "that adds up the stalls of an undisturbed step; prompts also arrive during stalls",
        "every step": "that adds a whole prompt to every step; most steps wait for none",
        "cache as well": "that quantizes the cache as well; only the weights are",
    }
)
"""Common mistakes: name -> explanation."""


@dataclass(frozen=True)
class Mistake:
    """A common wrong answer.

    Attributes
    ----------
    name : str
        One of `MISTAKES`.
    value : float or str
        The resulting answer, in the unit of the question.
    """

    name: str
    value: float | str

    @property
    def why(self) -> str:
        """Explanation of the mistake."""
        return MISTAKES[self.name]


@dataclass(frozen=True)
class Marking:
    """The result of checking an answer.

    Attributes
    ----------
    right : bool
        Whether it is within the tolerance.
    words : str
        Feedback: the correct value, and the mistake if it is a known one.
    mistake : Mistake, optional
        The known wrong answer that was given.
    """

    right: bool
    words: str
    mistake: Mistake | None = None


@dataclass(frozen=True)
class Question:
    """A task with its numbers.

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
        Seed that draws the same numbers again.
    text : str
        The task, with all numbers that it needs.
    answer : float or str
        The correct answer in ``unit``, or a word.
    unit : str
        Unit of an answer without a unit.
    given : mapping
        The numbers of the text in base units.
    solution : tuple of str
        The worked solution, line by line.
    mistakes : tuple of Mistake
        Common wrong answers.
    options : tuple of str
        The words to choose from, for an answer in words.
    tolerance : float
        Relative deviation up to which a number is accepted.
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
        """The correct answer as text."""
        if isinstance(self.answer, str):
            return self.answer
        return _with_unit(self.answer, self.unit)

    def mark(self, typed: str | float) -> Marking:
        """Mark an answer.

        Parameters
        ----------
        typed : str or float
            A number, in the unit of the question unless it names one (``42 ms``, ``0.042 s``), or a word.

        Returns
        -------
        Marking
            Whether it is correct, with feedback.

        Raises
        ------
        InvalidInput
            The answer is neither a number with a suitable unit nor one of the options.
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
        if self.unit:
            return f"{self.text} [{FACTOR if self.unit == 'x' else self.unit}]"
        return self.text

    def explain(self) -> str:
        """The worked solution and the common wrong answers, as text."""
        wrong = [f"  {_with_unit(each.value, self.unit)}: {each.why}" for each in self.mistakes]
        lines = [*self.solution, f"answer: {self.shown}"]
        return "\n".join([*lines, *(["common wrong answers:", *wrong] if wrong else [])])

    def _repr_html_(self) -> str:
        steps = "".join(f"<li>{html.escape(line)}</li>" for line in self.solution)
        return (
            f"<p>{html.escape(str(self))}</p><details><summary>answer</summary><ol>{steps}</ol>"
            f"<p>{html.escape(self.shown)}</p></details>"
        )


FACTOR = "a factor, such as 1.5"
"""What to answer to a question about a ratio."""


def close(value: float, wanted: float, tolerance: float) -> bool:
    """Whether ``value`` is within a relative tolerance of ``wanted``."""
    return abs(value - wanted) <= tolerance * abs(wanted) + 1e-12  # rounding, where the answer is 0


def _digits(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _with_unit(value: float | str, unit: str) -> str:
    """``12 tokens``, ``1 token``, ``42 ms``."""
    singular = {"passes": "pass"}.get(unit, unit.removesuffix("s"))
    counted = value == 1 and unit.isalpha() and len(unit) > 3
    return f"{_digits(value)} {singular if counted else unit}".strip()


_TYPED = re.compile(r"^(?P<number>[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(?P<unit>[^\d\s].*)?$")


def number_in(typed: str | float, unit: str) -> float:
    """The typed number in ``unit``.

    Examples
    --------
    >>> number_in("0.042 s", "ms"), number_in("1,024", "GB"), number_in("12%", "%")
    (42.0, 1024.0, 12.0)
    """
    if isinstance(typed, int | float) and not isinstance(typed, bool):
        if math.isfinite(typed):
            return float(typed)
        raise InvalidInput(f"the answer must be a finite number: {typed!r}")
    match = _TYPED.match(str(typed).strip())
    if match is None:
        wanted = f"in {unit}" if unit else "without a unit"
        if unit == "x":
            wanted = FACTOR
        raise InvalidInput(f"the answer must be a number ({wanted}): {typed!r}")
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
