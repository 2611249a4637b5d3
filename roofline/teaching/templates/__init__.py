"""Templates of questions, one file a topic; importing this fills the register."""

from . import (
    cost,
    counting,
    interview,
    kv_cache,
    mixtures,
    parallelism,
    phases,
    quantization,
    queueing,
    roofline_model,
    serving,
)

__all__ = [
    "cost",
    "counting",
    "interview",
    "kv_cache",
    "mixtures",
    "parallelism",
    "phases",
    "quantization",
    "queueing",
    "roofline_model",
    "serving",
]
