"""The commands ``roofline plot timeline`` and ``roofline plot queue``."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

from cyclopts import Parameter

from ...errors import InvalidInput
from ...report.progress import reporter
from ...serving.outcome import Simulation
from ...serving.simulation import simulate
from .. import options as opt
from ..picture_options import Picture
from ..request_load import read_request
from ..target import Placement, read_model
from .requests import Concurrency, HitRate, Rate, Requests, Seed

Start = Annotated[
    Any,
    opt.option(
        "--start",
        "TIME",
        "Start time of the plot within the run.",
        parse=opt.seconds,
        group=opt.OTHER,
        show_default="mid-run",
    ),
]
Span = Annotated[
    Any, opt.option("--span", "TIME", "Length of the time that is shown.", parse=opt.seconds, group=opt.OTHER)
]


@Parameter(name="*")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """The simulation, as typed."""

    load: opt.RequestFields = dataclasses.field(default_factory=dict)
    concurrency: Concurrency = None
    rate: Rate = None
    burstiness: opt.Burstiness = 1
    hit_rate: HitRate = 0
    requests: Requests = None
    seed: Seed = 0
    time: opt.Time = opt.DEFAULT_TIME

    def simulate(self, model: str, placement: Placement) -> Simulation:
        """The simulation."""
        if self.concurrency is None and self.rate is None:
            raise InvalidInput("a simulation needs a load: --rate or --concurrency, as in --rate 5")
        return simulate(
            placement.single().deployment(read_model(model)),
            read_request(self.load),
            concurrency=self.concurrency,
            requests_per_s=self.rate,
            burstiness=self.burstiness,
            hit_rate=self.hit_rate,
            requests=self.requests,
            seed=self.seed,
            time=self.time,
            progress=reporter(),
        )


def timeline(
    model: opt.ModelName,
    /,
    placement: Placement,
    picture: Picture,
    run: Run | None = None,
    *,
    start: Start = None,
    span: Span = 1.0,
) -> None:
    """Draw a simulated second of a server, pass by pass."""
    from ...plot import timeline as draw

    picture.check()
    picture.draw(draw, (run or Run()).simulate(model, placement), start_s=start, span_s=span)


def queue(model: opt.ModelName, /, placement: Placement, picture: Picture, run: Run | None = None) -> None:
    """Draw the waiting and running requests of a simulation over time."""
    from ...plot import queue as draw

    picture.check()
    picture.draw(draw, (run or Run()).simulate(model, placement))
