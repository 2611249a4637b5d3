"""`Operator`: one kernel of a pass, with the work that it does; and the `Pass` that operators belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..arrays import FrozenMapping, anywhere, has_array, larger, smaller
from ..errors import Number
from ..values import Value
from .links import Message
from .parallel import ONE, Parallel
from .precision import Precision
from .work import Work

NOTHING: Mapping[str, Any] = FrozenMapping()
"""No inputs, no formulas."""


@dataclass(frozen=True, eq=False, init=False)
class Operator(Value):
    """One operator of a layer, run ``count`` times per pass.

    Attributes
    ----------
    name : str
        Its usual name (``q_proj``, ``attention``, ``experts`` ...).
    kind : str
        What sort of kernel it is: ``matmul``, ``experts``, ``attention``, ``scan``, ``elementwise``, ``lookup``,
        ``collective``, or ``work`` for FLOPs and bytes without a shape.
    work : Work
        FLOPs and all bytes in and out, of one run.
    least : Work
        The work that no implementation can avoid, which the floor counts.
    inputs : mapping of str to object
        The variables of ``formulas``.
    formulas : mapping of str to str
        Field of `Work` -> its formula as a Python expression over ``inputs``.
    source : str
        Where the formulas come from.
    message : Message, optional
        What is exchanged with other accelerators; None for work on the chip.
    latent : bool
        Whether it is attention on latents: one cache entry is both key and value of all query heads (MLA).
    joins : str
        Name of the product whose kernel also computes this one, as additional columns: engines run the q, k and v
        projections as one product. Empty if the operator has its own kernel.
    choice, option : str
        A part of the pass that can be computed in several ways, and the way that this operator belongs to
        (`roofline.operators.alternatives`); empty if it runs in any case.
    """

    name: str
    kind: str
    work: Work
    least: Work
    count: Number = 1.0
    inputs: Mapping[str, Any] = NOTHING
    formulas: Mapping[str, str] = NOTHING
    source: str = ""
    message: Message | None = None
    latent: bool = False
    joins: str = ""
    choice: str = ""
    option: str = ""

    def __init__(  # noqa: PLR0917 (the fields, in their order)
        self,
        name: str,
        kind: str,
        work: Work,
        least: Work,
        count: Number = 1.0,
        inputs: Mapping[str, Any] = NOTHING,
        formulas: Mapping[str, str] = NOTHING,
        source: str = "",
        message: Message | None = None,
        latent: bool = False,
        joins: str = "",
        choice: str = "",
        option: str = "",
    ) -> None:
        # Written out since a pass makes dozens: the constructor of a frozen dataclass takes three times as long.
        own = self.__dict__
        own["name"] = name
        own["kind"] = kind
        own["work"] = work
        own["least"] = least
        own["count"] = count
        own["inputs"] = inputs
        own["formulas"] = formulas
        own["source"] = source
        own["message"] = message
        own["latent"] = latent
        own["joins"] = joins
        own["choice"] = choice
        own["option"] = option

    @property
    def launches(self) -> Number:
        """How often it is launched; an exchange of one accelerator with itself, as in arrays of layouts, never is."""
        if self.message is None:
            return self.count
        return self.count * (self.message.accelerators > 1)

    def times(self, count: Number) -> Operator:
        """The same operator run ``count`` times as often."""
        return self.copy_with(count=self.count * count)

    def copy_with(self, **changes: Any) -> Operator:
        """The same with other fields, in a fifth of the time that `dataclasses.replace` takes."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, **changes)
        twin.__dict__.pop("_hash", None)  # what `Value` keeps of this one
        return twin


@dataclass(frozen=True, eq=False, slots=True)
class Segment(Value):
    """Sequences with the same lengths in one forward pass.

    Attributes
    ----------
    sequences : int or array
        How many.
    new_tokens : int or array
        Tokens of each that are computed in this pass.
    past_tokens : int or array
        Tokens of each that are in the cache already.
    emitted_tokens : int or array
        Positions of each whose logits are needed (1 for prefill and decode).
    shared_tokens : int or array
        Cached tokens that belong to a prefix which all sequences share.
    images, image_tokens : float or array
        Images among the new tokens of each sequence, and tokens of each; 0 tokens stand for the tower's usual number.
    audio_s : float or array
        Seconds of sound among the new tokens of each sequence.
    source_tokens, encoded_tokens : float or array
        Tokens of the encoder of an encoder-decoder that each sequence attends to, and those of them that are encoded in
        this pass.
    sharing : float or array, optional
        Sequences that share the past; those of the segment if None.
    """

    sequences: Number
    new_tokens: Number
    past_tokens: Number
    emitted_tokens: Number = 1.0
    shared_tokens: Number = 0.0
    images: Number = 0.0
    image_tokens: Number = 0.0
    audio_s: Number = 0.0
    source_tokens: Number = 0.0
    encoded_tokens: Number = 0.0
    sharing: Number | None = None

    @property
    def is_sweep(self) -> bool:
        """Whether any number of it is an array."""
        lengths = (self.new_tokens, self.past_tokens, self.emitted_tokens, self.shared_tokens)
        encoded = (self.images, self.image_tokens, self.audio_s, self.source_tokens, self.encoded_tokens)
        return has_array((self.sequences, self.sharing, *lengths, *encoded))

    @property
    def has_media(self) -> bool:
        """Whether any of the new tokens may come from images or sound."""
        return anywhere(self.images) or anywhere(self.audio_s)

    @property
    def shares_prefix(self) -> bool:
        """Whether any of the past may be shared."""
        return anywhere(self.shared_tokens > 0)

    @property
    def with_short_past(self) -> Segment:
        """The same sequences with at most one cached token and none that they share."""
        return Segment(
            self.sequences,
            self.new_tokens,
            smaller(self.past_tokens, 1.0),
            self.emitted_tokens,
            0.0,
            self.images,
            self.image_tokens,
            self.audio_s,
            self.source_tokens,
            self.encoded_tokens,
            self.sharing,
        )

    def least_read(self, past: Number, shared: Number | None = None) -> Number:
        """Entries of the past that all sequences together can't avoid reading, where a kernel reads ``past`` of each.

        A prefix that all ``n`` share is read once for all of them at best (cascade attention, arXiv:2402.05099): each
        spares ``(n - 1) / n`` of what it reads of the prefix.  That is ``shared``; if None, the entries are the last of
        the past, as of a window, which leaves the beginning of the prefix unread.
        """
        if not self.shares_prefix:
            return self.sequences * past
        if shared is None:
            shared = larger(self.shared_tokens - (self.past_tokens - past), 0.0)
        sharing = self.sequences if self.sharing is None else self.sharing
        return self.sequences * (past - shared * (1.0 - 1.0 / larger(sharing, 1.0)))

    @property
    def tokens(self) -> Number:
        """New tokens of all sequences together."""
        return self.sequences * self.new_tokens


@dataclass(frozen=True, eq=False)
class Pass(Value):
    """One forward pass: what runs in it and how.

    A prefill is one segment with many new tokens, a decode step one segment with one, a mixed step has both: the linear
    layers then see all tokens together and stream their weights once, while attention runs a segment at a time.

    Attributes
    ----------
    segments : tuple of Segment
        What runs.
    precision : Precision
        In which formats.
    attention : str
        ``fused`` (scores never leave the chip) or ``unfused`` (scores written and read).
    parallel : Parallel
        Over how many accelerators; operators then are those of the most loaded one.
    """

    segments: tuple[Segment, ...]
    precision: Precision
    attention: str = "fused"
    parallel: Parallel = ONE

    @property
    def is_sweep(self) -> bool:
        """Whether any number of it is an array."""
        return self.parallel.is_sweep or any(each.is_sweep for each in self.segments)

    @property
    def with_short_past(self) -> Pass:
        """The same pass with at most one cached token and none that sequences share."""
        segments = tuple(segment.with_short_past for segment in self.segments)
        return Pass(segments, self.precision, self.attention, self.parallel)

    @cached_property
    def tokens(self) -> Number:
        """New tokens that one accelerator computes: context parallelism divides those of a sequence, down to one."""
        if self.parallel.single:
            return sum(segment.tokens for segment in self.segments)
        context = self.parallel.context
        return sum(each.sequences * larger(each.new_tokens / context, 1.0) for each in self.segments)

    @property
    def emitted_tokens(self) -> Number:
        """Positions whose logits are needed."""
        return sum(segment.sequences * segment.emitted_tokens for segment in self.segments)
