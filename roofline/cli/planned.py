"""What the options of a plan say; light, since every command line loads it."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from ..slo import SLO
from ..workload import Workload
from . import options as opt


def read_plan(
    *,
    model: opt.ModelName,
    hardware: opt.Machines,
    prompt: opt.Prompt = Workload.prompt_tokens,
    output: opt.Output = Workload.output_tokens,
    ttft: opt.Ttft = None,
    tpot: opt.Tpot = None,
    precisions: opt.Precisions = None,
    gpus: opt.Gpus = "1,2,4,8",
    prices: opt.Prices = None,
    time: opt.Time = "estimate_s",
) -> Any:
    """The plan that the shared options describe."""
    from .planning import planned

    return planned(
        model=model,
        hardware=hardware,
        load=Workload(prompt, output),
        promises=SLO(ttft, tpot),
        precisions=precisions,
        gpus=gpus,
        prices=prices,
        time=time,
    )


def takes_plan(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with the options of `read_plan` in the place of its first argument."""
    shared = inspect.signature(read_plan).parameters
    own = list(inspect.signature(command).parameters.values())[1:]

    @wraps(command)
    def run(**given: Any) -> None:
        found = read_plan(**{name: given.pop(name) for name in shared})
        command(found, **given)

    needed = sorted((*shared.values(), *own), key=lambda item: item.default is not inspect.Parameter.empty)
    parameters = [item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in needed]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in parameters}
    return run
