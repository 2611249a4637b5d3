"""Technique: one scenario in, another out; and its effect, before and after, by phase."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from ..errors import InvalidInput, Number
from ..phases.deployment import Deployment
from ..phases.workload import Workload
from ..report import Report, Step
from ..serving.batch import Performance
from ..serving.scenario import Scenario, plain_number
from ..units import brief_speed, brief_time, humanize
from ..values import Value

FLAG, KERNEL, MODEL = "a config flag", "a new kernel", "a new model"
HARDWARE = "more accelerators"
"""What it takes to have a technique."""


@dataclass(frozen=True, kw_only=True)
class Technique(Value):
    """A way to serve a model faster.

    A technique that every engine has by now is measured by taking it away: its ``before`` is the scenario without it,
    and ``in_place`` says that nothing is left to be gained.

    Attributes
    ----------
    name : as the field calls it
    helps : the phase that the field says it helps: ``prefill``, ``decode`` or ``both``
    why : in one line
    effort : `FLAG`, `KERNEL`, `MODEL` or `HARDWARE`
    costs : what it costs elsewhere
    decides : what it settles; two techniques that settle the same thing exclude each other
    """

    name: ClassVar[str]
    helps: ClassVar[str]
    why: ClassVar[str]
    effort: ClassVar[str] = FLAG
    costs: ClassVar[str] = ""
    in_place: ClassVar[bool] = False

    @property
    def decides(self) -> tuple[str, ...]:
        """What it settles."""
        return (self.name,)

    def had(self, case: Scenario) -> bool:
        """Whether the deployment has it already, as every engine does."""
        return self.in_place

    def refusal(self, case: Scenario) -> str:
        """Why it can't be had here; empty if it can."""
        return ""

    def before(self, case: Scenario) -> Scenario:
        """The scenario without it."""
        return case

    def after(self, case: Scenario) -> Scenario:
        """The scenario with it."""
        return case

    def steps(self, case: Scenario) -> tuple[Step, ...]:
        """Its own derivation, before that of the passes."""
        return ()


@dataclass(frozen=True, repr=False)
class Effect(Report):
    """What one or several techniques do: everything before and after.

    Attributes
    ----------
    techniques : what was applied
    before, after : what the scenario gives without and with them
    """

    techniques: tuple[Technique, ...]
    before: Performance
    after: Performance

    columns = (
        "technique",
        "prefill_before_s",
        "prefill_after_s",
        "prefill_speedup",
        "decode_before_s",
        "decode_after_s",
        "decode_speedup",
        "total_speedup",
        "gap_before_s",
        "gap_after_s",
        "throughput_gain",
        "weights_saved_bytes",
        "kv_saved_bytes_per_sequence",
        "max_batch_before",
        "max_batch_after",
        "capacity_gain",
    )

    @property
    def technique(self) -> str:
        """Names of what was applied."""
        return " + ".join(item.name for item in self.techniques) or "nothing"

    @property
    def prefill_before_s(self) -> Number:
        """Time to first token without."""
        return self.before.ttft_s

    @property
    def prefill_after_s(self) -> Number:
        """Time to first token with."""
        return self.after.ttft_s

    @property
    def prefill_speedup(self) -> Number:
        """Time to first token, before / after."""
        return ratio(self.before.ttft_s, self.after.ttft_s)

    @property
    def decode_before_s(self) -> Number:
        """Time per output token without."""
        return self.before.tpot_s

    @property
    def decode_after_s(self) -> Number:
        """Time per output token with."""
        return self.after.tpot_s

    @property
    def decode_speedup(self) -> Number:
        """Time per output token, before / after."""
        return ratio(self.before.tpot_s, self.after.tpot_s)

    @property
    def total_speedup(self) -> Number:
        """End to end, before / after."""
        return ratio(self.before.total_s, self.after.total_s)

    @property
    def gap_before_s(self) -> Number:
        """Longest gap between two tokens without."""
        return self.before.gap_s

    @property
    def gap_after_s(self) -> Number:
        """Longest gap between two tokens with."""
        return self.after.gap_s

    @property
    def throughput_gain(self) -> Number:
        """Tokens a second at the same batch, after / before."""
        return ratio(self.after.tokens_per_s, self.before.tokens_per_s)

    @property
    def weights_saved_bytes(self) -> Number:
        """Memory freed by smaller weights; negative if they grew."""
        return plain_number(np.subtract(self.before.weights_bytes, self.after.weights_bytes))

    @property
    def kv_saved_bytes_per_sequence(self) -> Number:
        """Memory of a sequence's cache freed; negative if it grew."""
        return plain_number(np.subtract(self.before.kv_bytes_per_sequence, self.after.kv_bytes_per_sequence))

    @property
    def max_batch_before(self) -> Number:
        """Sequences that fit without."""
        return self.before.max_batch

    @property
    def max_batch_after(self) -> Number:
        """Sequences that fit with."""
        return self.after.max_batch

    @cached_property
    def capacity_gain(self) -> Number:
        """Tokens a second with as many sequences as fit, after / before; NaN where nothing fitted before."""
        return ratio(self.after.capacity_tokens_per_s, self.before.capacity_tokens_per_s)

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """What the figures rest on."""
        case = self.before.case
        apart = [item.name for item in self.techniques if item.before(case) is not case]
        notes = (f"before: the same without {' and '.join(apart)}",) if apart else ()
        return tuple(dict.fromkeys((*notes, *self.before.assumptions, *self.after.assumptions)))

    def summary(self) -> str:
        """What the techniques do to a token, a prompt, throughput and memory, in a sentence.

        Examples
        --------
        >>> import roofline as rl
        >>> from roofline.techniques import Quantization
        >>> serve = rl.Deployment("llama-3.1-70b", "h100-sxm")
        >>> print(rl.apply(serve, rl.Workload(), Quantization(weights="fp8"), time="roofline_s").summary())
        Weight quantization: per token 41.7 ms -> 21.3 ms (1.96x faster), prefill 291 ms (unchanged), throughput 1.91x;
        68.45 GB freed.
        """
        changes = []
        for name, phase in (("per token", "decode"), ("prefill", "prefill")):
            before, after = (getattr(self, f"{phase}_{side}_s") for side in ("before", "after"))
            times = " -> ".join(dict.fromkeys(brief_time(side) for side in (before, after)))
            changes.append(f"{name} {times} ({brief_speed(ratio(after, before))})")
        gains = " to ".join(dict.fromkeys(f"{found(self.throughput_gain):.3g}x" for found in (np.min, np.max)))
        freed = float(np.max(self.weights_saved_bytes))
        memory = f"; {humanize('bytes', freed)} freed" if freed > 0 else ""
        title = f"{self.technique[:1].upper()}{self.technique[1:]}"
        return f"{title}: {', '.join(changes)}, throughput {gains}{memory}."

    def to_dict(self) -> dict[str, Any]:
        """Columns, what stands before and after them, and the notes."""
        sides = {"before": self.before.to_dict(), "after": self.after.to_dict()}
        return super().to_dict() | sides | {"assumptions": list(self.assumptions)}

    def explain(self) -> tuple[Step, ...]:
        """The techniques' own derivations, what users see with them, and how the gains follow."""
        own = tuple(step for item in self.techniques for step in item.steps(self.before.case))
        gains = (
            ("prefill_speedup", "prefill_before_s / prefill_after_s"),
            ("decode_speedup", "decode_before_s / decode_after_s"),
        )
        return (
            own
            + self.after.explain()
            + tuple(
                Step(
                    name,
                    formula,
                    {word: getattr(self, word) for word in formula.split(" / ")},
                    getattr(self, name),
                    self.before.time,
                )
                for name, formula in gains
                if np.all(np.asarray(getattr(self, formula.split(" / ")[1])) > 0)
            )
        )


def ratio(above: Number, below: Number) -> Number:
    """``above / below``; 1 where both are 0, NaN where only ``below`` is: nothing to compare with."""
    above, below = np.asarray(above, dtype=float), np.asarray(below, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(below == 0, np.nan, np.divide(above, below))
    return plain_number(np.where((above == 0) & (below == 0), 1.0, found))


def apply(
    serve: Deployment, load: Workload, techniques: Iterable[Technique] | Technique, *, time: str = "roofline_s"
) -> Effect:
    """What ``techniques`` together do to ``load`` on ``serve``, phase by phase.

    Parameters
    ----------
    techniques : one, or several; their order does not matter unless both change the shape of the model
    time : ``floor_s``, ``roofline_s`` or ``estimate_s``

    Raises
    ------
    InvalidInput
        Two techniques decide the same thing, or one can't be had here.
    UnknownName
        ``time`` is none of the three.

    Examples
    --------
    >>> import roofline as rl
    >>> from roofline.techniques import Quantization, Speculation
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-70b"), rl.get_accelerator("h100-sxm"))
    >>> effect = rl.apply(serve, rl.Workload(), [Quantization(weights="fp8"), Speculation(acceptance=0.7)])
    >>> round(effect.decode_speedup, 1)
    4.5
    """
    chosen = (techniques,) if isinstance(techniques, Technique) else tuple(techniques)
    start = Scenario(serve, load)
    refuse(chosen, start)
    before = after = start
    for item in chosen:
        before, after = item.before(before), item.after(after)
    return Effect(chosen, Performance(before, time), Performance(after, time))


def refuse(techniques: tuple[Technique, ...], case: Scenario) -> None:
    """Raise for the first thing that makes no sense together, or can't be had here."""
    for item in techniques:
        if not isinstance(item, Technique):
            raise InvalidInput(f"techniques must be values of roofline.techniques, such as PagedAttention(): {item!r}")
        if reason := item.refusal(case):
            raise InvalidInput(f"{item.name}: {reason}")
    for one, other in combinations(techniques, 2):
        if both := sorted({*one.decides} & {*other.decides}):
            raise InvalidInput(f"{one.name} and {other.name} both decide {both[0]}: choose one")
