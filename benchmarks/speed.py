"""How long the library takes: import, one scalar point, a million points, a server under load, the command line.

Run ``python benchmarks/speed.py``; figures are medians of wall times, or processor times where the name says so.
"""

from __future__ import annotations

import itertools
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

import roofline as rl

Array = npt.NDArray[np.float64]


def median_s(action: Callable[[], object], repeats: int) -> float:
    """Median wall time of ``action``."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def processor_s(action: Callable[[], object]) -> float:
    """Processor time of ``action``, which other programs of the machine hardly change."""
    start = time.process_time()
    action()
    return time.process_time() - start


def process(*arguments: str) -> Callable[[], object]:
    """A whole interpreter that runs ``arguments``."""
    return lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True)


def read(phase: rl.Phase) -> None:
    """Ask a phase for everything that it offers by default."""
    for name in phase.columns:
        getattr(phase, name)


FLOOR = ("floor_s", "roofline_s")
TIMES = (*FLOOR, "estimate_s")


def points(serve: rl.Deployment, varied: str, times: tuple[str, ...]) -> Callable[[], object]:
    """Scalar points that were never asked for before: another context, another batch, or another prompt each time."""
    sizes = itertools.count(1000)

    def ask() -> None:
        size = next(sizes)
        if varied == "prompt":
            phase = rl.prefill(serve, rl.Workload(prompt_tokens=size))
        elif varied == "batch":
            phase = rl.decode(serve, rl.Workload(batch=size), context_tokens=2048)
        else:
            phase = rl.decode(serve, rl.Workload(batch=8), context_tokens=size)
        for name in times:
            getattr(phase, name)

    return ask


def first_points() -> Callable[[], object]:
    """The first scalar point of a deployment each time, with all three times."""
    model, gpu = rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm")
    skews = itertools.count(1)

    def ask() -> None:
        serve = rl.Deployment(model, gpu, routing_skew=next(skews) / 1000)
        phase = rl.decode(serve, rl.Workload(batch=8), context_tokens=2048)
        for name in TIMES:
            getattr(phase, name)

    return ask


def new_points() -> dict[str, float]:
    """Seconds of a new scalar point after many others, dense on one accelerator and a mixture of experts on eight."""
    dense = rl.Deployment("llama-3.1-8b", "h100-sxm")
    mixture = rl.Deployment("deepseek-v3", "h200-sxm", parallel=rl.Parallel(tensor=8))
    rows = {}
    for serve in (dense, mixture):
        for varied in ("context", "batch", "prompt"):
            for name, times in (("floor and roofline", FLOOR), ("all three times", TIMES)):
                row = f"{serve.model.name}, a new {varied}: {name}"
                rows[row] = median_s(points(serve, varied, times), 1000)
    return rows


COLD = {
    "llama-3.1-70b, TP4": ("llama-3.1-70b", "h100-sxm", rl.Parallel(tensor=4)),
    "deepseek-v3, TP8": ("deepseek-v3", "h200-sxm", rl.Parallel(tensor=8)),
    "deepseek-v3, DEP8": ("deepseek-v3", "h200-sxm", rl.Parallel(data=8, expert=8)),
}
"""Deployments by name, whose step times are tabulated anew."""


def cold_answers() -> dict[str, float]:
    """Processor time of the first answers of a deployment after those of another have loaded the code."""
    load, other = rl.Workload(1000, 500), rl.Deployment("llama-3.1-8b", "h100-sxm")
    asked = {
        "tables and serve": lambda serve: rl.serve(serve, load, concurrency=64).tokens_per_s,
        "simulate, 200 requests": lambda serve: rl.simulate(serve, load, concurrency=64, requests=200).tpot_s,
        "serve, 1,000 concurrencies": lambda serve: rl.serve(serve, load, concurrency=np.arange(1, 1001)).tokens_per_s,
        "advise": lambda serve: rl.advise(serve, load),
    }
    for ask in asked.values():
        ask(other)
    rows = {}
    for name, (model, gpu, parallel) in COLD.items():
        serve = rl.Deployment(model, gpu, parallel=parallel)
        for what, ask in asked.items():
            rows[f"{name}: {what} (processor)"] = processor_s(lambda ask=ask, serve=serve: ask(serve))
    return rows


LAYOUTS = {
    "llama-3.1-8b": ("llama-3.1-8b", "h100-sxm", rl.Parallel(), 64, 5.0),
    "llama-3.1-70b, PP4": ("llama-3.1-70b", "h100-sxm", rl.Parallel(tensor=2, pipeline=4), 128, 5.0),
    "deepseek-r1, DEP8": ("deepseek-r1", "h200-sxm", rl.Parallel(data=8, expert=8), 64, 1.0),
}
"""One scheduler, a pipeline, and eight ranks that step together; clients of a closed loop and requests per second."""


def simulations() -> dict[str, float]:
    """Processor time in which 20,000 requests are simulated, once their step times are known."""
    spread = rl.Traffic(np.linspace(800, 1200, 9), np.linspace(400, 600, 9), np.ones(9))
    rows = {}
    for name, (model, gpu, parallel, clients, rate) in LAYOUTS.items():
        for engine in ("vllm", "sglang", "trtllm"):
            serve = rl.Deployment(model, gpu, parallel=parallel, engine=engine)
            loops = {"closed": {"concurrency": clients}, "open": {"requests_per_s": rate}}
            for loop, how in loops.items():
                rl.simulate(serve, spread, requests=50, **how)
                rows[f"{name}, {engine}: 20,000 requests, {loop} loop (processor)"] = processor_s(
                    lambda serve=serve, how=how: rl.simulate(serve, spread, requests=20_000, **how)
                )
    return rows


LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD, INNER, VOCAB = 80, 8192, 64, 8, 128, 28672, 128256
"""Llama 3.1 70B (its config.json)."""

PEAK, FASTEST, BANDWIDTH, EXPONENTIALS = 989.4e12, 989.4e12 * 1980 / 1830, 3.35e12, 132 * 16 * 1.83e9
"""H100 SXM: dense bf16 at the boost and at the highest clock, memory, and exponentials of 132 SMs."""

PRODUCTS = (
    (HIDDEN, HEADS * HEAD, 2),  # q and o
    (HIDDEN, KV_HEADS * HEAD, 2),  # k and v
    (HIDDEN, INNER, 3),  # gate, up and down
)
"""Inner and outer width of the products of a layer, and how many of them there are."""


def by_hand(batch: Array, context: Array) -> tuple[Array, Array]:
    """Floor and roofline of a decode step in bf16, written for this one model and chip with NumPy alone."""
    roofline_s = 160 * 6 * batch * HIDDEN / BANDWIDTH  # residuals: read two, write one
    roofline_s = (
        roofline_s + (161 * (2 * HIDDEN + 4 * batch * HIDDEN) + 4 * batch * HIDDEN) / BANDWIDTH
    )  # norms, lookup
    weight_bytes = 2.0 * HIDDEN * VOCAB + 2.0 * HIDDEN * 162
    flops = 2.0 * batch * HIDDEN * VOCAB
    for width, out, count in PRODUCTS:
        moved_s = 2 * (width * out + batch * (width + out)) / BANDWIDTH
        roofline_s = roofline_s + LAYERS * count * np.maximum(2 * batch * width * out / PEAK, moved_s)
        weight_bytes += LAYERS * count * 2.0 * width * out
        flops = flops + LAYERS * count * 2 * batch * width * out
    moved_s = 2 * (HIDDEN * VOCAB + batch * (HIDDEN + VOCAB)) / BANDWIDTH
    roofline_s = roofline_s + np.maximum(2 * batch * HIDDEN * VOCAB / PEAK, moved_s)
    pairs = batch * (context + 1)
    entry, queries = 4 * KV_HEADS * HEAD, 4 * HEADS * HEAD
    attention_flops = pairs * queries
    computing_s = np.maximum(attention_flops / PEAK, pairs * HEADS / EXPONENTIALS)
    moving_s = (batch * (context + 2) * entry + batch * queries) / BANDWIDTH
    roofline_s = roofline_s + LAYERS * np.maximum(computing_s, moving_s)
    matrix_s = np.maximum((flops + LAYERS * attention_flops) / FASTEST, 0.0)
    return np.maximum((weight_bytes + LAYERS * pairs * entry) / BANDWIDTH, matrix_s), roofline_s


def check(step: rl.Phase, batch: Array, context: Array) -> None:
    """The two agree, or their times say nothing about each other."""
    for found, wanted in zip((step.floor_s, step.roofline_s), by_hand(batch, context), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def ten_million() -> None:
    """Floor and roofline of 10,000 batches x 1,000 contexts, lazily in bounded memory."""
    points = {"batch": np.arange(1, 10_001), "context_tokens": np.arange(0, 100_000, 100)}
    found = rl.sweep("llama-3.1-70b", "h100-sxm", what=["floor_s", "roofline_s"], chunks="auto", **points)
    found.max().compute()


def main() -> None:
    serve = rl.Deployment(rl.get_model("llama-3.1-70b"), rl.get_accelerator("h100-sxm"))
    one = rl.Workload()
    rng = np.random.default_rng(0)
    batches = rng.integers(1, 512, 1_000_000).astype(float)
    contexts = rng.integers(0, 100_000, 1_000_000).astype(float)
    many = rl.Workload(batch=batches)
    check(rl.decode(serve, many, context_tokens=contexts), batches, contexts)
    bare = median_s(process("-c", "pass"), 15)
    rows = {
        "import roofline, over the bare interpreter": median_s(process("-c", "import roofline"), 15) - bare,
        "import numpy, for comparison": median_s(process("-c", "import numpy"), 15) - bare,
        "decode, the same scalar point: floor and roofline": median_s(
            lambda: rl.decode(serve, one, context_tokens=2048).roofline_s, 2000
        ),
        "decode, the same scalar point: every column": median_s(
            lambda: read(rl.decode(serve, one, context_tokens=2048)), 2000
        ),
        "llama-3.1-8b, the first point of a deployment": median_s(first_points(), 200),
        **new_points(),
        **cold_answers(),
        **simulations(),
        "serve, 1,000 concurrencies": median_s(
            lambda: rl.serve(serve, one, concurrency=np.arange(1, 1001)).tokens_per_s, 11
        ),
        "decode, 1,000,000 points: floor and roofline": median_s(
            lambda: rl.decode(serve, many, context_tokens=contexts).roofline_s, 5
        ),
        "the same closed form, written by hand in NumPy": median_s(lambda: by_hand(batches, contexts), 5),
        "decode, 10,000,000 points on dask: floor and roofline": median_s(ten_million, 1),
        "decode, 1,000,000 points: every column": median_s(
            lambda: read(rl.decode(serve, many, context_tokens=contexts)), 5
        ),
        "roofline analyze, a whole process": median_s(
            process("-m", "roofline", "analyze", "llama-3.1-70b", "--hardware", "h100-sxm"), 11
        ),
    }
    for name, seconds in rows.items():
        print(f"{name:68} {seconds * 1e3:10.3f} ms")
    print(f"{'peak memory of this process':68} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:10.0f} MiB")


if __name__ == "__main__":
    main()
