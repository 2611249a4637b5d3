"""Templates of questions, one file per topic; importing this fills the register."""

from . import (
    cost,
    interview,
    kv_cache,
    mixtures,
    number_formats,
    parallelism,
    parameter_counts,
    phases,
    queueing,
    roofline_model,
    serving,
)

__all__ = [
    "cost",
    "interview",
    "kv_cache",
    "mixtures",
    "number_formats",
    "parallelism",
    "parameter_counts",
    "phases",
    "queueing",
    "roofline_model",
    "serving",
]
