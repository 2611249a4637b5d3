"""Traffic: a mix of request lengths, from numbers, a CSV file or a log."""

from __future__ import annotations

import csv
import io
import json
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput, Number, SpecError, number
from ..files import as_path, read_text
from ..phases.workload import MEDIA_COUNTS, TEXT_COUNTS, Workload
from ..report import Report

MAX_BYTES = 64 * 2**20
"""Largest accepted size of a log, bytes."""

LEVELS = 16
"""Lengths that stand for a range, each in the middle of an equal part; their variance is 1 - 1/16^2 of the range's."""

CHARACTERS_PER_TOKEN = 4.0
"""Used for logs with text but no token counts: English has about four characters per token."""

TEXT_NOTE = f"the log contains text but no token counts; assuming {CHARACTERS_PER_TOKEN:g} characters per token"

PROMPT_NAMES = ("prompt_tokens", "input_tokens", "input_len", "prompt_len", "num_prompt_tokens", "prompt")
OUTPUT_NAMES = ("output_tokens", "completion_tokens", "output_len", "num_generation_tokens", "output")
SHARE_NAMES = ("share", "count", "weight")

Lengths = tuple[float, float, float]


@dataclass(frozen=True, eq=False, repr=False)
class Traffic(Report):
    """A mix of request lengths in buckets, whose shares add up to 1.

    Attributes
    ----------
    prompt_tokens, output_tokens : array
        Lengths of each bucket's requests, rounded to whole tokens.
    share : array
        Share of the requests in each bucket.
    source : str
        Source of the traffic.
    images, image_tokens, audio_s : float
        Images and seconds of sound in every prompt, and tokens per image, as in a `Workload`.
    cached_tokens : float
        Tokens before every prompt that are already in the KV cache, as in a `Workload`.
    longest_tokens : float, optional
        Tokens of the longest request with its cached tokens, if buckets have mean lengths; by default that of the
        longest bucket.

    Raises
    ------
    InvalidInput
        There is no bucket, a length is below one token, or the shares add up to 0.
    """

    prompt_tokens: npt.NDArray[np.float64]
    output_tokens: npt.NDArray[np.float64]
    share: npt.NDArray[np.float64]
    source: str = "given"
    assumptions: tuple[str, ...] = ()
    images: float = 0.0
    image_tokens: float = 0.0
    audio_s: float = 0.0
    cached_tokens: float = 0.0
    longest_tokens: float | None = None

    columns = ("prompt_tokens", "output_tokens", "share")

    def __post_init__(self) -> None:
        if not np.size(self.prompt_tokens):
            raise InvalidInput("traffic needs at least one bucket of requests: none was given")
        for name in ("prompt_tokens", "output_tokens"):
            values = np.maximum(np.round(np.asarray(number(name, getattr(self, name), least=1.0), dtype=float)), 1.0)
            object.__setattr__(self, name, np.atleast_1d(values))
        shares = np.atleast_1d(np.asarray(number("share", self.share), dtype=float))
        if not shares.sum() > 0:
            raise InvalidInput("shares of the traffic must add up to more than 0")
        object.__setattr__(self, "share", shares / shares.sum())
        if self.longest_tokens is None:
            longest = float(np.max(self.prompt_tokens + self.output_tokens)) + self.cached_tokens
            object.__setattr__(self, "longest_tokens", longest)

    @classmethod
    def of(cls, buckets: Iterable[Any], source: str = "given") -> Traffic:
        """Return a traffic from ``(prompt tokens, output tokens)`` or ``(prompt tokens, output tokens, share)``.

        Examples
        --------
        >>> Traffic.of([(200, 400, 3), (4000, 200, 1)]).share
        array([0.75, 0.25])
        """
        try:
            rows = [tuple(bucket) for bucket in buckets]
        except TypeError:
            what = "buckets of (prompt tokens, output tokens, share)"
            raise InvalidInput(f"traffic must be {what}: {reprlib.repr(buckets)}") from None
        wrong = next((row for row in rows if len(row) not in (2, 3)), None)
        if wrong is not None:
            raise InvalidInput(f"a bucket is (prompt tokens, output tokens, share): {wrong!r}")
        prompts = [row[0] for row in rows]
        outputs = [row[1] for row in rows]
        shares = [row[2] if len(row) == 3 else 1.0 for row in rows]
        return cls(prompts, outputs, shares, source)  # type: ignore[arg-type]

    @classmethod
    def between(cls, prompt_tokens: tuple[float, float], output_tokens: tuple[float, float]) -> Traffic:
        """Return a traffic whose lengths are drawn uniformly and independently from two ranges.

        Load generators draw lengths this way, InferenceX from 80 % to 100 % of the longest. Requests that are all of
        one length stay in step with each other in a closed loop, and wait for each other's prompts.

        Parameters
        ----------
        prompt_tokens, output_tokens : tuple of float
            Shortest and longest, tokens.

        Raises
        ------
        InvalidInput
            A range is not a pair, its ends are in the wrong order, or one is below one token.

        Examples
        --------
        >>> chat = Traffic.between((800, 1000), (400, 500))
        >>> round(chat.mean_prompt_tokens), round(chat.mean_output_tokens), chat.longest_tokens
        (900, 450, 1500.0)
        """
        ends = [_ends("prompt_tokens", prompt_tokens), _ends("output_tokens", output_tokens)]
        prompts, outputs = np.meshgrid(*(_levels(*pair) for pair in ends))
        same = np.ones(prompts.size)
        return cls(prompts.ravel(), outputs.ravel(), same, longest_tokens=sum(pair[1] for pair in ends))

    @classmethod
    def around(cls, load: Workload, spread: float) -> Traffic:
        """Return a traffic whose lengths are drawn uniformly around those of a load.

        ``vllm bench serve --random-range-ratio 0.2`` draws lengths with a spread of 0.2.

        Parameters
        ----------
        load : Workload
            Mean lengths; cached tokens, images and sound stay as they are.
        spread : float
            Lengths are from ``1 - spread`` to ``1 + spread`` times those of the load; 0 to below 1.

        Raises
        ------
        InvalidInput
            ``spread`` is outside its range, or a field of the load other than the batch is an array.

        Examples
        --------
        >>> Traffic.around(Workload(1000, 200), 0.2).longest_tokens
        1440.0
        """
        alike = cls.of_workload(load)
        if not 0 <= spread < 1:
            raise InvalidInput(f"spread must be from 0 to below 1: {spread!r}")
        if not spread:
            return alike
        shares = np.array([1 - spread, 1 + spread])
        prompts = np.maximum(shares * load.prompt_tokens, 1.0)
        outputs = np.maximum(shares * load.output_tokens, 1.0)
        drawn = cls.between((prompts[0], prompts[1]), (outputs[0], outputs[1]))
        lengths = {name: getattr(drawn, name) for name in ("prompt_tokens", "output_tokens", "share")}
        source = f"{load.prompt_tokens:,} + {load.output_tokens:,} tokens, each within {spread:.0%}"
        longest = float(prompts[1] + outputs[1]) + alike.cached_tokens
        return replace(alike, **lengths, source=source, longest_tokens=longest)

    @classmethod
    def of_workload(cls, load: Workload) -> Traffic:
        """Return a traffic of identical requests.

        Raises
        ------
        InvalidInput
            A field other than the batch is an array.
        """
        for name in (*TEXT_COUNTS, *MEDIA_COUNTS):
            if name != "batch" and np.ndim(getattr(load, name)):
                raise InvalidInput(
                    f"{name} is an array: traffic of several lengths needs shares; pass Traffic.of([(prompt, output,"
                    " share)])"
                )
        same: dict[str, Any] = {name: float(getattr(load, name)) for name in ("cached_tokens", *MEDIA_COUNTS)}
        return replace(cls.of([(load.prompt_tokens, load.output_tokens)]), **same, longest_tokens=None)

    def workload(self, prompt_tokens: Number, output_tokens: Number, batch: Number = 1) -> Workload:
        """Return a workload of given lengths, with the cached tokens, images and sound of the traffic."""
        media = {name: getattr(self, name) for name in MEDIA_COUNTS}
        return Workload(prompt_tokens, output_tokens, batch, self.cached_tokens, **media)

    @property
    def mean_prompt_tokens(self) -> float:
        """Mean prompt length, tokens."""
        return float(np.sum(self.share * self.prompt_tokens))

    @property
    def mean_output_tokens(self) -> float:
        """Mean output length, tokens."""
        return float(np.sum(self.share * self.output_tokens))

    def bucketed(self) -> Traffic:
        """Return the traffic in buckets a factor of two wide in prompt and output, each at its mean lengths."""
        keys = np.stack([np.floor(np.log2(self.prompt_tokens)), np.floor(np.log2(self.output_tokens))])
        _, inverse = np.unique(keys, axis=1, return_inverse=True)
        inverse = np.ravel(inverse)
        shares = np.bincount(inverse, weights=self.share).astype(float)
        prompts = np.bincount(inverse, weights=self.share * self.prompt_tokens) / shares
        outputs = np.bincount(inverse, weights=self.share * self.output_tokens) / shares
        return replace(self, prompt_tokens=prompts, output_tokens=outputs, share=shares)


def _ends(name: str, ends: tuple[float, float]) -> tuple[float, float]:
    """Return the ends of a range, checked."""
    if np.shape(ends) != (2,):
        raise InvalidInput(f"{name} must be a pair (shortest, longest): {ends!r}")
    shortest, longest = (float(number(name, end, least=1.0)) for end in ends)
    if shortest > longest:
        raise InvalidInput(f"{name} must be (shortest, longest): {ends!r}")
    return shortest, longest


def _levels(shortest: float, longest: float) -> npt.NDArray[np.float64]:
    """Return the lengths that stand for a range: the middles of equal parts."""
    return shortest + (longest - shortest) * (np.arange(LEVELS) + 0.5) / LEVELS


def read_traffic(path: str | Path, *, max_bytes: int = MAX_BYTES) -> Traffic:
    """Read the traffic in a file, grouped into buckets a factor of two wide.

    ==========  =====================================================================================================
    CSV         a header, then one request or bucket per line: ``prompt_tokens``, ``output_tokens`` and, if it is a
                bucket, ``share``; names of other tools (``input_len``, ``completion_tokens`` ...) are known
    JSON        a list of objects with those names; or an object of two lists, ``input_lens`` and ``output_lens``, as
                vLLM's benchmark writes; or ShareGPT's list of ``conversations``, whose text is taken as four characters
                per token; the prompt of every answer is all turns before it
    JSON lines  one object per line with those names, also inside an OpenAI ``usage`` object
    ==========  =====================================================================================================

    Parameters
    ----------
    path : str or path
        The file; the format is detected from its content.
    max_bytes : int
        Largest accepted file size, bytes.

    Raises
    ------
    SpecError
        The file cannot be read, is too large, or contains no requests.
    """
    path = as_path(path)
    text = read_text(path, max_bytes=max_bytes).strip()
    if not text:
        raise SpecError(f"{path} is empty")
    reader = _json_rows if text[0] in "[{" else _csv_rows
    rows = list(reader(text, path))
    if not rows:
        raise SpecError(f"{path} contains no requests with prompt and output tokens")
    notes = (TEXT_NOTE,) if '"conversations"' in text else ()
    try:
        prompts, outputs, shares = (np.asarray(column, dtype=float) for column in zip(*rows, strict=True))
        return Traffic(prompts, outputs, shares, path.name, notes).bucketed()
    except InvalidInput as error:
        raise SpecError(f"{path}: {error}") from None


def _csv_rows(text: str, path: Path) -> Iterator[Lengths]:
    try:
        for at, row in enumerate(csv.DictReader(io.StringIO(text), strict=True), start=1):
            named = {key.strip().lower(): value for key, value in row.items() if isinstance(key, str)}
            yield _lengths(named, f"{path}, row {at}")
    except csv.Error as error:
        raise SpecError(f"{path} is not CSV: {error}") from None


def _json_rows(text: str, path: Path) -> Iterator[Lengths]:
    for row, item in enumerate(_documents(text, path), start=1):
        if not isinstance(item, Mapping):
            raise SpecError(f"{path}: a request must be an object, not {type(item).__name__}")
        if "conversations" in item:
            yield from _turns(item["conversations"], path)
        elif isinstance(item.get("input_lens"), list) and isinstance(item.get("output_lens"), list):
            pairs = zip(item["input_lens"], item["output_lens"], strict=False)
            for at, (one, other) in enumerate(pairs, start=1):
                yield _lengths({"prompt_tokens": one, "output_tokens": other}, f"{path}, request {at}")
        else:
            usage = item.get("usage")
            yield _lengths(usage if isinstance(usage, Mapping) else item, f"{path}, row {row}")


def _documents(text: str, path: Path) -> list[Any]:
    """Return the objects of a JSON document or of a JSON Lines file."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2:
            raise SpecError(f"{path} is not JSON: {error}") from None
        try:
            return [json.loads(line) for line in lines]
        except (json.JSONDecodeError, RecursionError) as second:
            raise SpecError(f"{path} is neither JSON nor JSON lines: {second}") from None
    except RecursionError:
        raise SpecError(f"{path} is nested too deeply") from None
    return found if isinstance(found, list) else [found]


def _lengths(row: Mapping[str, Any], where: str) -> Lengths:
    """Return the prompt length, output length and share of one row."""
    prompt, output = (_named(row, names, where) for names in (PROMPT_NAMES, OUTPUT_NAMES))
    share = _named(row, SHARE_NAMES, where) if any(name in row for name in SHARE_NAMES) else 1.0
    for names, tokens in ((PROMPT_NAMES, prompt), (OUTPUT_NAMES, output)):
        if tokens < 1:
            raise SpecError(f"{where}: {names[0]} is {tokens:g}, but every request has at least one of each")
    return prompt, output, share


def _named(row: Mapping[str, Any], names: tuple[str, ...], where: str) -> float:
    name = next((name for name in names if name in row), None)
    if name is None:
        raise SpecError(f"{where} has no column {names[0]}; it has {', '.join(map(str, row)) or 'none'}")
    value = row[name]
    if value is None or value == "":
        raise SpecError(f"{where}: {name} is missing")
    try:
        found = float(value) if not isinstance(value, bool) else float("nan")
    except (TypeError, ValueError):
        found = float("nan")
    if not 0 <= found < float("inf"):
        raise SpecError(f"{where}: {name} must be a number >= 0: {value!r}")
    return found


def _turns(turns: Any, path: Path) -> Iterator[Lengths]:
    """Return the lengths of every answer of a conversation; its prompt is all turns before it."""
    before = 0.0
    for turn in turns if isinstance(turns, list) else ():
        if not isinstance(turn, Mapping) or not isinstance(turn.get("value"), str):
            raise SpecError(f"{path}: a turn of a conversation must have a text 'value': {str(turn)[:60]}")
        size = len(turn["value"]) / CHARACTERS_PER_TOKEN
        if turn.get("from") in ("gpt", "assistant", "chatgpt", "bing", "bard") and before > 0:
            yield max(before, 1.0), max(size, 1.0), 1.0
        before += size
