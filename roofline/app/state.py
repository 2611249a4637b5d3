"""The state of the page: a query string that the command-line parser reads.

Every control of the page is a name in the query string, and all but two are options of ``roofline analyze`` and
``roofline serve``.  Models, accelerators, formats and engines have to be names from the lists, so that no query can
read a file; any other model is given by the text of its ``config.json``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

from cyclopts import App
from cyclopts.exceptions import CycloptsError

from ..cli import options as opt
from ..cli.commands.priorities import UsdPerHour
from ..cli.commands.requests import Rate
from ..cli.target import Placement
from ..errors import InvalidInput, RooflineError, number, unknown
from ..formats import FORMATS
from ..model import Model
from ..phases.deployment import Deployment
from ..phases.encoder_rules import refuse_encoders
from ..phases.workload import Workload
from ..serving.arrivals import checked_rate
from ..specs.engines import list_engines
from ..specs.library import get_model, list_accelerators, list_models

START = {"model": "llama-3.1-8b", "hardware": "h100-sxm", "batch": "16", "prompt": "2000", "output": "256"}
"""The state of an empty query string."""

LISTED = {
    "model": list_models,
    "hardware": list_accelerators,
    "weights": lambda: FORMATS,
    "activations": lambda: FORMATS,
    "kv": lambda: FORMATS,
    "engine": list_engines,
}
"""Control -> its valid names."""

OPTIONS = {
    "hardware": "--hardware",
    "weights": "--weights",
    "activations": "--activations",
    "kv": "--kv",
    "tp": "--tp",
    "pp": "--pp",
    "ep": "--ep",
    "dp": "--dp",
    "cp": "--cp",
    "engine": "--engine",
    "batch": "--batch",
    "rate": "--rate",
    "prompt": "--prompt",
    "output": "--output",
    "price": "--usd-per-hour",
}
"""Control -> option of the command line."""

FIELDS = {
    "tensor": "tp",
    "pipeline": "pp",
    "expert": "ep",
    "data": "dp",
    "context": "cp",
    "prompt_tokens": "prompt",
    "output_tokens": "output",
    "requests_per_s": "rate",
    "usd_per_hour": "price",
}
"""Field -> control, if their names differ."""

LARGEST = 1e12
"""Largest batch, length or rate; products of much larger numbers overflow a float."""

LONGEST_QUERY = 60_000
"""Length limit in characters; the HTTP library reads lines of up to 65,536 bytes."""


class RefusedState(Exception):
    """An invalid state.

    Attributes
    ----------
    message : str
        The error, in one line.
    control : str or None
        The control that caused it, if known.
    """

    def __init__(self, message: str, control: str | None = None) -> None:
        super().__init__(message)
        self.message, self.control = message, control


@dataclass(frozen=True)
class State:
    """What the controls ask for.

    Attributes
    ----------
    given : mapping of str to str
        The controls that are set, as in the query string.
    serve : Deployment
        What runs where.
    load : Workload
        Lengths and batch; the batch is 1 if a rate is set.
    requests_per_s : float or None
        Request rate; None if a batch is set.
    usd_per_hour : float or None
        Price of one accelerator, if set.
    """

    given: Mapping[str, str]
    serve: Deployment
    load: Workload
    requests_per_s: float | None
    usd_per_hour: float | None


@lru_cache(maxsize=64)
def read_state(query: str) -> State:
    """Return the state described by a query string.

    Parameters
    ----------
    query : str
        Controls and their values; the initial state if empty.

    Returns
    -------
    State
        The deployment and its load.

    Raises
    ------
    Refused
        There is no such control, a name is not in its list, or a value is invalid.
    """
    given = _controls(query)
    model = _model(given)
    arguments = [f"{OPTIONS[name]}={value}" for name, value in given.items() if name in OPTIONS]
    try:
        placement, fields, rate, price = _parser()(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise RefusedState(" ".join(str(error).split()), _control_of(str(error))) from None
    try:
        serve = placement.single().deployment(model)
        refuse_encoders(model, "explorer")
        load = Workload(**fields)
        checked = {**fields, **({} if rate is None else {"requests_per_s": checked_rate(rate)})}
        if price is not None:
            checked["usd_per_hour"] = number("usd_per_hour", price)
        for name, value in checked.items():
            if value > LARGEST:
                raise InvalidInput(f"{name} must be at most {LARGEST:g}: {value:g}")
    except RooflineError as error:
        raise RefusedState(str(error), _control_of(str(error))) from None
    return State(given, serve, load, rate, price)


def _controls(query: str) -> dict[str, str]:
    """Controls and values of a query string, each set only once."""
    if len(query) > LONGEST_QUERY:
        raise RefusedState(f"a config.json of more than {LONGEST_QUERY:,} characters is too long; remove unused fields")
    pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=64)
    given = {name: value.strip() for name, value in pairs if value.strip()}
    known = (*LISTED, *OPTIONS, "config")
    for name, _ in pairs:
        if name not in known:
            raise RefusedState(str(unknown("control", name, known)))
    if len(pairs) > len({name for name, _ in pairs}):
        raise RefusedState("a control is set twice")
    if not given:
        return dict(START)
    for name, value in given.items():
        _check(name, value)
    if "hardware" not in given:
        raise RefusedState("choose an accelerator", "hardware")
    if "batch" in given and "rate" in given:
        raise RefusedState("give either a batch or a rate", "rate")
    return given


def _check(name: str, value: str) -> None:
    """Refuse names that are not in their list, and lists of values."""
    if name in LISTED:
        known: Iterable[str] = LISTED[name]()
        if value not in known:
            raise RefusedState(str(unknown(name, value, known)), name)
    elif name != "config" and "," in value:
        raise RefusedState(f"{name} takes one value: {value!r}", name)


def _model(given: Mapping[str, str]) -> Model:
    """The named model, or the one described by its configuration."""
    if "config" in given:
        return _model_of_config(given["config"])
    if "model" not in given:
        raise RefusedState("choose a model, or paste its config.json", "model")
    return _named(given["model"])


@lru_cache(maxsize=16)
def _named(name: str) -> Model:
    return get_model(name)


@lru_cache(maxsize=4)
def _model_of_config(text: str) -> Model:
    try:
        found = json.loads(text)
        if not isinstance(found, dict):
            raise RefusedState("config.json must contain an object, {...}", "config")
        return get_model(found)
    except json.JSONDecodeError as error:
        raise RefusedState(f"config.json, line {error.lineno}: {error.msg}", "config") from None
    except RecursionError:
        raise RefusedState("config.json is nested too deeply", "config") from None
    except RooflineError as error:
        raise RefusedState(str(error), "config") from None


@lru_cache(maxsize=1)
def _parser() -> App:
    """The options of the command line that the page has controls for."""
    program = App(name="explore", help_flags=[], version_flags=[], result_action="return_value")
    program.default(_values)
    return program


def _values(
    *,
    placement: Placement,
    load: opt.WorkloadFields | None = None,
    rate: Rate = None,
    price: UsdPerHour = None,
) -> tuple[Placement, Mapping[str, Any], Any, Any]:
    """Parsed options."""
    return placement, load or {}, rate, price


def _control_of(message: str) -> str | None:
    """The control that a message is about: the first field or option that it names."""
    for word in re.findall(r"[a-z_]+", message):
        name = str(FIELDS.get(word, word))
        if name in OPTIONS:
            return name
    return None
