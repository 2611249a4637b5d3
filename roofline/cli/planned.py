"""What the options of a plan say; light, since every command line loads it."""

import inspect
from collections.abc import Callable
from typing import Any

from ..phases.workload import Workload
from ..serving.slo import SLO
from . import options as opt
from .case import taking


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
    return taking(command, read_plan, inspect.signature(read_plan).parameters)
