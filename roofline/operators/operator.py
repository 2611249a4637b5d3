"""`Operator`, one kernel of a pass with its work, and `Pass`, which operators belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..arrays import FrozenMapping, anywhere, has_array, larger
from ..errors import Number
from ..values import Value
from .links import Message
from .parallel import ONE, Parallel
from .precision import Precision
from .work import Work

NOTHING: Mapping[str, Any] = FrozenMapping()
"""Empty mapping for operators without inputs or formulas."""


@dataclass(frozen=True, eq=False, init=False)
class Operator(Value):
    """One operator of a layer, run ``count`` times per pass.

    Attributes
    ----------
    name : str
        Name of the operator (``q_proj``, ``attention``, ``experts`` ...).
    kind : str
        Kind of kernel: ``matmul``, ``experts``, ``attention``, ``scan``, ``elementwise``, ``lookup``,
        ``collective``, or ``work`` for FLOPs and bytes without a shape.
    work : Work
        FLOPs and all bytes in and out, for one run.
    least : Work
        Work that no implementation can avoid, used for the floor.
    inputs : mapping of str to object
        Variables of ``formulas``.
    formulas : mapping of str to str
        Field of `Work` -> its formula, a Python expression of ``inputs``.
    source : str
        Source of the formulas.
    message : Message, optional
        Exchange with other accelerators; None for work on the chip.
    latent : bool
        Whether it is attention on latents, where one cache entry is key and value of all query heads (MLA).
    joins : str
        Name of the product whose kernel also computes this one, as additional columns: engines run the q, k and v
        projections as one product. Empty if the operator has its own kernel.
    choice, option : str
        Part of the pass that can be computed in several ways, and the way that this operator belongs to
        (`roofline.operators.alternatives`); empty if it always runs.
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
        """Number of launches; 0 for an exchange of one accelerator with itself, as in arrays of layouts."""
        if self.message is None:
            return self.count
        return self.count * (self.message.accelerators > 1)

    def times(self, count: Number) -> Operator:
        """Return the same operator, run ``count`` times as often."""
        return self.copy_with(count=self.count * count)

    def copy_with(self, **changes: Any) -> Operator:
        """Return a copy with other fields, five times as fast as `dataclasses.replace`."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, **changes)
        twin.__dict__.pop("_hash", None)  # values that `Value` caches for this instance
        return twin


@dataclass(frozen=True, eq=False, slots=True)
class Segment(Value):
    """Sequences with the same lengths in one forward pass.

    Attributes
    ----------
    sequences : int or array
        Number of sequences.
    new_tokens : int or array
        Tokens of each sequence that are computed in this pass.
    past_tokens : int or array
        Tokens of each sequence that are in the cache already.
    emitted_tokens : int or array
        Positions of each sequence whose logits are needed (1 for prefill and decode).
    shared_tokens : int or array
        Cached tokens that belong to a prefix shared by all sequences.
    images, image_tokens : float or array
        Images among the new tokens of each sequence, and tokens per image; 0 for the tower's usual number.
    audio_s : float or array
        Seconds of sound among the new tokens of each sequence.
    source_tokens, encoded_tokens : float or array
        Encoder tokens that each sequence of an encoder-decoder attends to, and how many of them are encoded in this
        pass.
    sharing : float or array, optional
        Number of sequences that share the past; those of the segment if None.
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
        """Whether new tokens may come from images or sound."""
        return anywhere(self.images) or anywhere(self.audio_s)

    @property
    def shares_prefix(self) -> bool:
        """Whether any of the past may be shared."""
        return anywhere(self.shared_tokens > 0)

    def least_read(self, past: Number, shared: Number | None = None) -> Number:
        """Return the past entries that all sequences together have to read, if a kernel reads ``past`` of each.

        At best, a prefix shared by ``n`` sequences is read once for all of them (cascade attention, arXiv:2402.05099),
        so each saves ``(n - 1) / n`` of the prefix entries it reads.  These are ``shared`` entries.  If None, the
        entries read are the last ones of the past, as with a window, which leaves out the beginning of the prefix.
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
    """One forward pass: its sequences, formats and layout.

    A prefill is one segment with many new tokens, a decode step one segment with one new token each, and a mixed step
    has both.  Linear layers process the tokens of all segments together and stream their weights once.  Attention runs
    one segment at a time.

    Attributes
    ----------
    segments : tuple of Segment
        Sequences of the pass.
    precision : Precision
        Formats of weights, activations and KV cache.
    attention : str
        ``fused`` (scores never leave the chip) or ``unfused`` (scores written and read).
    parallel : Parallel
        Division over accelerators; operators are those of the most loaded one.
    """

    segments: tuple[Segment, ...]
    precision: Precision
    attention: str = "fused"
    parallel: Parallel = ONE

    @property
    def is_sweep(self) -> bool:
        """Whether any number of it is an array."""
        return self.parallel.is_sweep or any(each.is_sweep for each in self.segments)

    @cached_property
    def tokens(self) -> Number:
        """New tokens on one accelerator; context parallelism divides the tokens of a sequence, down to one."""
        if self.parallel.single:
            return sum(segment.tokens for segment in self.segments)
        context = self.parallel.context
        return sum(each.sequences * larger(each.new_tokens / context, 1.0) for each in self.segments)

    @property
    def emitted_tokens(self) -> Number:
        """Positions whose logits are needed."""
        return sum(segment.sequences * segment.emitted_tokens for segment in self.segments)
