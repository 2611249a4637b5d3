"""Images and sound in prompts: checks that a deployment can encode them, and notes on assumptions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..errors import InvalidInput
from ..model.decoder import PREDICTION
from ..model.tower import Tower
from ..operators.operator import Segment
from .deployment import Deployment

KINDS = {False: ("images", "images"), True: ("audio_s", "sound")}
"""Whether a tower encodes sound -> field of a workload, and the name of the medium."""

HEARING = ("audio", "speech")
"""Name of sound encoders in `Model.apart`."""


def check_media(serve: Deployment, segment: Segment) -> None:
    """Reject images and sound that a deployment cannot encode.

    Raises
    ------
    InvalidInput
        The deployment has no encoder for them, or a prompt has fewer tokens than its images or sound produce.
    """
    for hears, (field, _) in KINDS.items():
        if np.any(getattr(segment, field)):
            _check_tokens(serve, segment, _tower(serve, hears))


def _tower(serve: Deployment, hears: bool) -> Tower:
    """Return the encoder of images or of sound."""
    field, what = KINDS[hears]
    model = serve.model
    for tower in model.towers.values():
        if tower.hears is hears:
            if "towers" in serve.leave_out:
                raise InvalidInput(f"{field} must be 0: this deployment does not load the towers of {model.name}")
            return tower
    if any(name != PREDICTION and (name in HEARING) is hears for name in model.apart):
        raise InvalidInput(f"{field} must be 0: the shapes of an encoder of {what} of {model.name} are unknown")
    raise InvalidInput(f"{field} must be 0: {model.name} has no encoder of {what}")


def _check_tokens(serve: Deployment, segment: Segment, tower: Tower) -> None:
    """Check that ``prompt_tokens`` includes the tokens of images and sound."""
    tokens = np.asarray(tower.tokens_of(segment))
    short = tokens > np.asarray(segment.new_tokens)
    if np.any(short):
        what = KINDS[tower.hears][1]
        wanted, given = float(np.max(tokens)), float(np.min(segment.new_tokens))
        raise InvalidInput(
            f"prompt_tokens of {given:,.0f} can't hold the {wanted:,.0f} tokens of the {what} in a prompt of"
            f" {serve.model.name}: prompt_tokens counts these too"
        )


def media_tokens(serve: Deployment, segment: Segment) -> float:
    """Most tokens that images and sound are of a prompt."""
    held = (tower.tokens_of(segment) for tower in serve.model.towers.values())
    return sum(float(np.max(tokens)) for tokens in held)


def media_notes(serve: Deployment, segments: tuple[Segment, ...]) -> Iterator[str]:
    """Yield notes on the tokens per image and the windows of sound."""
    with_media = [segment for segment in segments if segment.has_media]
    for tower in serve.model.towers.values():
        field, _ = KINDS[tower.hears]
        held = [segment for segment in with_media if np.any(getattr(segment, field))]
        if not held:
            continue
        if tower.hears:
            yield f"sound is encoded in windows of {tower.window_s:g} s, silence at the end included"
            continue
        sizes = {float(size) for each in held for size in np.ravel(tower.tokens_of_image(each.image_tokens))}
        tokens = " to ".join(f"{size:,.0f}" for size in sorted({min(sizes), max(sizes)}))
        if tower.outside:
            yield (
                f"an image is {tokens} positions that layers of cross-attention look at, beside the sequence; their"
                " keys and values are not in the cache's bytes"
            )
            continue
        each = f", each of {tower.merge} positions of the encoder" if tower.merge > 1 else ""
        yield f"an image is {tokens} tokens of the language model{each}"
