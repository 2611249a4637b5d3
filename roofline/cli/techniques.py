"""What the options about techniques say."""

import dataclasses
import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InvalidInput
from .case import Case
from .options import numeral

if TYPE_CHECKING:
    from ..techniques import Effect, Technique


def _parameter(flag: str, text: str) -> Any:
    return typer.Option(flag, parser=numeral, metavar="X", help=text, show_default=False)


def read_techniques(
    *,
    technique: Annotated[
        list[str] | None,
        typer.Option(
            "--technique", metavar="NAME", help="Apply it, as in speculative or prefix-caching; may be repeated."
        ),
    ] = None,
    acceptance: Annotated[Any, _parameter("--acceptance", "speculative, mtp: share of drafts accepted.")] = None,
    drafts: Annotated[Any, _parameter("--drafts", "speculative, mtp: draft tokens a step.")] = None,
    draft_share: Annotated[Any, _parameter("--draft-share", "speculative, mtp: time of a draft over a step's.")] = None,
    hit_rate: Annotated[Any, _parameter("--hit-rate", "prefix-caching: share of prompt tokens found.")] = None,
    times: Annotated[Any, _parameter("--times", "prompt-compression: prompt tokens for each one left.")] = None,
    chunk_tokens: Annotated[Any, _parameter("--chunk-tokens", "chunked-prefill: prompt tokens of a pass.")] = None,
    tokens: Annotated[
        Any, _parameter("--tokens", "sliding-window, attention-sinks: tokens that stay in the cache.")
    ] = None,
    host: Annotated[Any, _parameter("--host", "offload: share of the cache in host memory.")] = None,
    skipped: Annotated[Any, _parameter("--skipped", "activation-sparsity, sparse-attention: share left out.")] = None,
    dequantization: Annotated[
        Any, _parameter("--dequantization", "quantization, kv-quantization: extra time as a share.")
    ] = None,
    kv_heads: Annotated[Any, _parameter("--kv-heads", "gqa, mqa: KV heads of every layer.")] = None,
    page_tokens: Annotated[Any, _parameter("--page-tokens", "paged-attention: tokens of a page.")] = None,
    reserved_tokens: Annotated[
        Any, _parameter("--reserved-tokens", "paged-attention: length reserved without pages.")
    ] = None,
    tensor: Annotated[Any, _parameter("--tensor", "tensor-parallelism: accelerators that share a layer.")] = None,
    link_bytes_per_s: Annotated[
        Any, _parameter("--link-bytes-per-s", "disaggregation: link between the pools, B/s.")
    ] = None,
) -> "tuple[Technique, ...]":
    """The techniques that the options name; none if none is named."""
    parameters = {name: value for name, value in locals().items() if name != "technique"}
    if all(value is None for value in (technique, *parameters.values())):
        return ()
    from ..techniques import named

    return named(technique or (), parameters)


def takes_techniques(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with the options of `read_techniques` in the place of its argument ``chosen``."""
    shared = inspect.signature(read_techniques).parameters
    own = [item for item in inspect.signature(command).parameters.values() if item.name != "chosen"]

    @wraps(command)
    def run(*positional: Any, **given: Any) -> None:
        chosen = read_techniques(**{name: given.pop(name) for name in shared})
        command(*positional, chosen=chosen, **given)

    parameters = [*own, *shared.values()]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in parameters}
    return run


def applied(case: Case, chosen: "tuple[Technique, ...]", *, other: bool, **formats: str | None) -> "Effect":
    """The effect of the techniques, and of the formats asked for beside them.

    Raises
    ------
    InvalidInput
        Another change is asked for beside them, or they make no sense together.
    """
    if other:
        raise InvalidInput("--technique goes with --to-weights, --to-activations and --to-kv, with no other change")
    if case.context_tokens is not None:
        raise InvalidInput("--technique is about whole generations: leave --context out, or use --prompt")
    from ..techniques import KVQuantization, Quantization, apply

    weights, activations, kv = (formats[name] for name in ("weights", "activations", "kv"))
    with_formats = _with_formats(chosen, Quantization, weights=weights, activations=activations)
    return apply(case.serve, case.load, _with_formats(with_formats, KVQuantization, kv=kv))


def _with_formats(
    chosen: "tuple[Technique, ...]", kind: "type[Technique]", **formats: str | None
) -> "tuple[Technique, ...]":
    """The techniques with these formats on the one of ``kind``, which is added if there is none."""
    if all(value is None for value in formats.values()):
        return chosen
    mine = [item for item in chosen if isinstance(item, kind)] or [kind()]
    others = [item for item in chosen if not isinstance(item, kind)]
    return (*others, *(dataclasses.replace(item, **formats) for item in mine))
