"""The load of commands about requests: what each request consists of, from options or a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import InvalidInput
from ..phases.workload import MEDIA_COUNTS, Workload
from ..report import plain
from ..serving.trace import Trace, read_arrivals, read_trace
from ..serving.traffic import Traffic, read_traffic
from ..units import plural
from . import options as opt


def read_request(given: opt.Given) -> Workload:
    """Return a request as typed.

    Raises
    ------
    InvalidInput
        An option lists several values, which only commands without a queue take.
    """
    several = next((name for name, value in given.items() if isinstance(value, tuple)), None)
    if several is not None:
        raise InvalidInput(
            f"{_option(several)} takes one value here, and lists {len(given[several])}; --traffic FILE takes a mix of"
            " lengths"
        )
    return Workload(**given)


def read_requests(given: opt.Given, traffic: Path | None, *, spread: float = 0.0) -> Workload | Traffic:
    """Return requests of given lengths, or of those in a file.

    Parameters
    ----------
    given : mapping of str to value
        Fields of a request as typed. Images and sound may go with a file, which has lengths alone.
    traffic : Path, optional
        The file.
    spread : float
        Share by which the lengths vary around those given; 0 makes requests alike.

    Raises
    ------
    InvalidInput
        Lengths are given by the file and by options.
    """
    if traffic is None:
        alike = read_request(given)
        return Traffic.around(alike, spread) if spread else alike
    if spread:
        raise InvalidInput("--traffic already says what requests consist of; drop --spread")
    _only(given, MEDIA_COUNTS, "--traffic")
    return _with_media(read_traffic(traffic), given)


def read_timed_requests(given: opt.Given, traffic: Path | None) -> Workload | Traffic | Trace:
    """Return requests as `read_requests` does, with the arrival times of the file if it has some.

    Raises
    ------
    InvalidInput
        Lengths are given by the file and by options, or there are images in requests with arrival times.
    """
    if traffic is None:
        return read_request(given)
    _only(given, MEDIA_COUNTS, "--traffic")
    found = read_arrivals(traffic)
    if isinstance(found, Traffic):
        return _with_media(found, given)
    _only(given, (), f"{traffic} with arrival times")
    return found


def _with_media(found: Traffic, given: opt.Given) -> Traffic:
    """Return the traffic of a file, with the images and sound given by options."""
    media: dict[str, Any] = {name: float(getattr(read_request(given), name)) for name in MEDIA_COUNTS if name in given}
    return dataclasses.replace(found, **media)


def read_recorded(given: opt.Given, trace: Path) -> Trace:
    """Return the requests of a trace, which are text.

    Raises
    ------
    InvalidInput
        Options say what requests consist of as well.
    """
    _only(given, (), "--trace")
    return read_trace(trace)


def _only(given: Iterable[str], allowed: Iterable[str], source: str) -> None:
    """Check that options give only what a file lacks."""
    twice = [_option(name) for name in given if name not in allowed]
    if twice:
        raise InvalidInput(f"{source} already says what requests consist of; drop {' and '.join(twice)}")


def _option(field: str) -> str:
    return opt.REQUEST_FLAGS[field].name


def load_dict(load: Workload | Traffic | Trace) -> dict[str, Any]:
    """Requests as plain JSON types: what each consists of, or those of a file."""
    if not isinstance(load, Workload):
        media = {name: getattr(load, name) for name in MEDIA_COUNTS if getattr(load, name, 0)}
        return load.to_dict() | media | {"source": load.source}
    counts = {name: plain(value) for name, value in load.counts.items() if name != "batch"}
    return {name: value for name, value in counts.items() if value or name not in ("cached_tokens", *MEDIA_COUNTS)}


def load_words(load: Workload | Traffic | Trace) -> str:
    """Requests in words."""
    if isinstance(load, Workload):
        return f"{prompt_words(load)}, output {load.output_tokens:,} tokens"
    return f"requests of {load.source}{'' if isinstance(load, Trace) else media_words(load)}"


def prompt_words(load: Workload) -> str:
    """A prompt, with what precedes it and what is in it, in words."""
    cached = f" after {load.cached_tokens:,} cached" if load.cached_tokens else ""
    return f"prompt {load.prompt_tokens:,}{cached}{media_words(load)}"


def media_words(load: Workload | Traffic) -> str:
    """Images and sound of a prompt, in words."""
    found = []
    if load.images:
        size = f" of {load.image_tokens:,} tokens" if load.image_tokens else ""
        found.append(f"{plural(float(load.images), 'image')}{size}")
    if load.audio_s:
        found.append(f"{load.audio_s:g} s of sound")
    return f" with {' and '.join(found)}" if found else ""
