"""`Measurement`: one run of a benchmark in base units, with notes about corrected and unreliable values."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..arrays import FrozenMapping
from ..report import Report, Step, plain

SERVING = "serving"
BATCH = "batch"
PREFILL = "prefill"
DECODE = "decode"
KINDS = (SERVING, BATCH, PREFILL, DECODE)

NOTHING_STATED: FrozenMapping[str, Any] = FrozenMapping()
"""Default for files that state nothing about the deployment."""

NO_PERCENTILES: FrozenMapping[str, float] = FrozenMapping()
"""Default for files without percentiles."""


class StepTime(NamedTuple):
    """Time per decode step, and the values of the file that it is derived from."""

    seconds: float
    basis: str


@dataclass(frozen=True, eq=False, repr=False)
class Measurement(Report):
    """One run of a benchmark. None means that the file does not state a value; nothing is guessed.

    Attributes
    ----------
    tool : str
        The tool that wrote the file.
    source : str
        The file, and the place in it if it holds several runs.
    kind : str
        ``serving`` (requests arrive over time), ``batch`` (one static batch), ``prefill`` or ``decode`` (one phase
        only).
    stated : mapping
        What the file states about the deployment: ``model``, ``accelerator``, ``accelerators``, ``tensor``,
        ``pipeline``, ``expert``, ``weights``, ``kv``, ``engine``, ``weights_bytes`` and so on, as printed.  None of it
        replaces the `Deployment` given by the caller.
    requests, failed : int
        Requests that finished, and requests that failed.
    prompt_tokens, output_tokens : float
        Means over the requests.
    context_tokens : float
        Tokens of each sequence in the cache before the timed phase.
    batch : int
        Sequences that start together; None for serving.
    concurrency : float
        Requested limit of requests in flight; None if there was none or the file does not state it.
    request_rate : float
        Requested rate in requests per second; None if there was none or the file does not state it.
    in_flight : float
        Mean number of requests in the system, as measured by the tool.
    requests_per_s : float
        Finished requests per second.
    tokens_per_s : float
        Output tokens per second of the whole deployment.
    prompt_tokens_per_s, total_tokens_per_s : float
        Prompt tokens, and prompt and output tokens together, per second.
    ttft_mean_s, ttft_median_s : float
        Time to first token.
    tpot_mean_s, tpot_median_s : float
        Time per output token after the first, (total - TTFT) / (output - 1), over the requests.
    itl_mean_s, itl_median_s : float
        Gap between two stream events; an event may carry several tokens.
    total_mean_s, total_median_s : float
        End to end.
    accepted_tokens_per_step : float
        Mean number of tokens per step of speculative decoding.
    cached_share : float
        Share of the prompt tokens that were found in the prefix cache.
    duration_s : float
        Length of the run.
    percentiles : mapping
        ``ttft_p99_s`` and the like.
    steps : tuple of Step
        Derivations of values that the file does not contain from those that it does.
    repaired : tuple of str
        Corrections, one sentence each.
    doubts : tuple of str
        Warnings about unreliable values, one sentence each.

    Examples
    --------
    >>> run = Measurement("by hand", "notes", ttft_median_s=0.05, tpot_median_s=0.01)
    >>> run.ttft_s, run.statistic, run.requests
    (0.05, 'median', None)
    """

    tool: str
    source: str
    kind: str = SERVING
    stated: FrozenMapping[str, Any] = NOTHING_STATED
    requests: int | None = None
    failed: int | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    context_tokens: float | None = None
    batch: int | None = None
    concurrency: float | None = None
    request_rate: float | None = None
    in_flight: float | None = None
    requests_per_s: float | None = None
    tokens_per_s: float | None = None
    prompt_tokens_per_s: float | None = None
    total_tokens_per_s: float | None = None
    ttft_mean_s: float | None = None
    ttft_median_s: float | None = None
    tpot_mean_s: float | None = None
    tpot_median_s: float | None = None
    itl_mean_s: float | None = None
    itl_median_s: float | None = None
    total_mean_s: float | None = None
    total_median_s: float | None = None
    accepted_tokens_per_step: float | None = None
    cached_share: float | None = None
    duration_s: float | None = None
    percentiles: FrozenMapping[str, float] = NO_PERCENTILES
    steps: tuple[Step, ...] = ()
    repaired: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    columns = (
        "tool",
        "source",
        "kind",
        "requests",
        "failed",
        "prompt_tokens",
        "output_tokens",
        "context_tokens",
        "batch",
        "concurrency",
        "request_rate",
        "in_flight",
        "requests_per_s",
        "tokens_per_s",
        "prompt_tokens_per_s",
        "total_tokens_per_s",
        "ttft_mean_s",
        "ttft_median_s",
        "tpot_mean_s",
        "tpot_median_s",
        "itl_mean_s",
        "itl_median_s",
        "total_mean_s",
        "total_median_s",
        "accepted_tokens_per_step",
        "cached_share",
        "duration_s",
    )

    @property
    def statistic(self) -> str | None:
        """Whether `ttft_s`, `tpot_s` and `total_s` are means or medians; None if the file has no latency."""
        means = (self.ttft_mean_s, self.tpot_mean_s)
        medians = (self.ttft_median_s, self.tpot_median_s)
        if self._known(means) or self._known(medians):
            if self._known(means) >= self._known(medians):
                return "mean"
            return "median"
        if self.total_mean_s is not None:
            return "mean"
        return None if self.total_median_s is None else "median"

    @staticmethod
    def _known(values: tuple[float | None, ...]) -> int:
        return sum(value is not None for value in values)

    @property
    def ttft_s(self) -> float | None:
        """Time to first token, for `statistic`."""
        if self.statistic == "median":
            return self.ttft_median_s
        return self.ttft_mean_s

    @property
    def tpot_s(self) -> float | None:
        """Time per output token after the first, for `statistic`."""
        if self.statistic == "median":
            return self.tpot_median_s
        return self.tpot_mean_s

    @property
    def total_s(self) -> float | None:
        """End-to-end latency, for `statistic`."""
        if self.statistic == "median":
            return self.total_median_s
        return self.total_mean_s

    @property
    def output_tokens_per_s(self) -> float | None:
        """`tokens_per_s`, under the name that benchmark tools use."""
        return self.tokens_per_s

    @property
    def model(self) -> str | None:
        """The model as named in the file."""
        return self.stated.get("model")

    @property
    def accelerator(self) -> str | None:
        """The accelerator as named in the file."""
        return self.stated.get("accelerator")

    @property
    def step(self) -> StepTime | None:
        """Time per decode step, from the most suitable values of the file.

        The mean TPOT is a mean over requests, in which a short answer that was delayed by other prompts weighs as much
        as a long one. The mean over tokens, (mean total - mean TTFT) / (mean output - 1), is therefore preferred to the
        median and the mean TPOT.  A static batch has a single length, so its TPOT is used as it is.
        """
        tokens = None if self.output_tokens is None else self.output_tokens - 1
        served = self.kind == SERVING and tokens is not None and tokens > 0
        if served and tokens and self.total_mean_s is not None and self.ttft_mean_s is not None:
            over_tokens = (self.total_mean_s - self.ttft_mean_s) / tokens
            if over_tokens > 0:
                return StepTime(over_tokens, "(mean total - mean TTFT) / (mean output - 1)")
        if self.tpot_median_s:
            return StepTime(self.tpot_median_s, "median TPOT")
        if self.tpot_mean_s:
            return StepTime(self.tpot_mean_s, "mean TPOT")
        if served and tokens and self.total_mean_s is not None and self.ttft_median_s is not None:
            mixed = (self.total_mean_s - self.ttft_median_s) / tokens
            if mixed > 0:
                return StepTime(mixed, "(mean total - median TTFT) / (mean output - 1)")
        return None

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """Corrections, then warnings."""
        return (*(f"repaired: {words}" for words in self.repaired), *(f"doubt: {words}" for words in self.doubts))

    def replace(self, **changes: Any) -> Measurement:
        """Return a copy with other fields, such as values that the file lacks.

        Parameters
        ----------
        **changes
            Fields and their new values.

        Returns
        -------
        Measurement
            The copy.

        Examples
        --------
        >>> Measurement("by hand", "notes", kind="batch", total_mean_s=0.5).replace(batch=4).batch
        4
        """
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Columns as plain JSON types, what the file states about the deployment, percentiles, and notes."""
        more = {name: plain(getattr(self, name)) for name in ("stated", "percentiles", "repaired", "doubts")}
        return super().to_dict() | {"statistic": self.statistic} | more

    def _derivation(self) -> tuple[Step, ...]:
        """Derivations of values that the file does not contain from those that it does."""
        return self.steps
