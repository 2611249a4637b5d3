"""Servers and boards at less power against the same at their TDP: a section of the page on energy.

Every case is a published pair of rates: whole servers of MLPerf Inference 4.1, the same chip with less power, and small
boards that are held below their limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import roofline as rl


@dataclass(frozen=True)
class Limited:
    """A published pair.

    Attributes
    ----------
    what, source : str
        What ran, and who measured it.
    model, accelerator : str
        Names of the library.
    formats : Precision
        Of weights, activations and cache.
    watts : float
        The limit.
    measured : float
        Rate under the limit over that at the TDP.
    requests : tuple of int, optional
        Prompt, output, running sequences, and sequences of a request; a long prompt alone if None.
    """

    what: str
    source: str
    model: str
    accelerator: str
    formats: rl.Precision
    watts: float
    measured: float
    requests: tuple[int, int, int, int] | None = None

    def predicted(self) -> tuple[float, float, float]:
        """The same of the estimate, and of the lower and upper end of its interval."""
        serve = rl.Deployment(self.model, self.accelerator, precision=self.formats)
        full, limited = (self._seconds(each) for each in (serve, serve.replace(power_limit_watts=self.watts)))
        middle, low, high = (before / after for before, after in zip(full, limited, strict=True))
        return middle, low, high

    def _seconds(self, serve: rl.Deployment) -> tuple[float, ...]:
        """Time of a request, with the steps that it takes its part of; as expected, and at both ends."""
        if self.requests is None:
            prompt = rl.prefill(serve, rl.Workload(prompt_tokens=8000))
            return tuple(float(value) for value in (prompt.estimate_s, prompt.estimate_low_s, prompt.estimate_high_s))
        tokens, output, batch, beams = self.requests
        step = rl.decode(serve, rl.Workload(batch=batch * beams), context_tokens=tokens + output // 2)
        prompts = rl.prefill(serve, rl.Workload(prompt_tokens=tokens, batch=8))
        ends = ("estimate_s", "estimate_low_s", "estimate_high_s")
        return tuple(float(getattr(step, end)) * output / batch + float(getattr(prompts, end)) / 8 for end in ends)


FP8 = rl.Precision(weights="fp8", activations="fp8", kv="fp8")
MLPERF = "MLPerf Inference 4.1, NVIDIA, 8 x H200, closed and power"
PRODUCTS = "fastest large BF16 products, public_gemm.csv.gz"

CASES = (
    Limited("Llama 2 70B, offline", MLPERF, "llama-2-70b", "h200-sxm", FP8, 500, 25262.1 / 31302.7, (300, 291, 512, 1)),
    Limited("Llama 2 70B, server", MLPERF, "llama-2-70b", "h200-sxm", FP8, 500, 23113.1 / 29228.2, (300, 291, 512, 1)),
    Limited("Mixtral, offline", MLPERF, "mixtral-8x7b", "h200-sxm", FP8, 500, 48987.9 / 59022.3, (300, 146, 512, 1)),
    Limited("Mixtral, server", MLPERF, "mixtral-8x7b", "h200-sxm", FP8, 500, 45497.0 / 57177.2, (300, 146, 512, 1)),
    Limited("A100 PCIe 40GB over SXM", PRODUCTS, "llama-3.1-8b", "a100-sxm-80gb", rl.Precision(), 250, 234 / 299),
    Limited("A100 PCIe 80GB over SXM", PRODUCTS, "llama-3.1-8b", "a100-sxm-80gb", rl.Precision(), 300, 256 / 299),
    Limited(
        "H800 PCIe over H100 SXM, a multiprocessor",
        PRODUCTS,
        "llama-3.1-8b",
        "h100-sxm",
        rl.Precision(),
        350,
        504 / 114 / (760 / 132),
    ),
    Limited(
        "Qwen2.5 Coder 7B, a single stream",
        "inventivehq.com, power limits of an RTX 5060 Ti",
        "qwen2.5-7b",
        "rtx-5060-ti-16gb",
        rl.Precision(weights="q4_k_m"),
        150,
        80.4 / 81.2,
        (128, 256, 1, 1),
    ),
)

HEAD = """
## Less power

Speed under a limit relative to the speed at the TDP, with its interval. For fitted families, the power that does not
depend on the clock (idle board and memory) and the demand, which may exceed the TDP, come from the fit. Steps that wait
for the memory are assumed not to slow down, which is slightly optimistic at half the power. The speed of a Hopper chip
at half its power is too low: no public source states how far its voltage falls.

| case | limit | measured | estimate | interval | source |
| --- | ---: | ---: | ---: | ---: | --- |"""


def lines() -> Iterator[str]:
    """The section of the page."""
    yield HEAD
    for case in CASES:
        middle, best, worst = case.predicted()
        figures = f"{case.measured:.2f} | {middle:.2f} | {worst:.2f} to {best:.2f}"
        yield f"| {case.what} | {case.watts:.0f} W | {figures} | {case.source} |"
