"""How long the library takes: import, one scalar step, a million points, the command line.

Run ``python benchmarks/speed.py``; figures are medians.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

import roofline as rl


def median_s(action: Callable[[], object], repeats: int) -> float:
    """Median wall time of ``action``."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def process(*arguments: str) -> Callable[[], object]:
    """A whole interpreter that runs ``arguments``."""
    return lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True)


def read(phase: rl.Phase) -> None:
    """Ask a phase for everything that it offers by default."""
    for name in phase.columns:
        getattr(phase, name)


def main() -> None:
    serve = rl.Deployment(rl.get_model("llama-3.1-70b"), rl.get_accelerator("h100-sxm"))
    one = rl.Workload()
    rng = np.random.default_rng(0)
    many = rl.Workload(batch=rng.integers(1, 512, 1_000_000))
    contexts = rng.integers(0, 100_000, 1_000_000)
    bare = median_s(process("-c", "pass"), 15)
    rows = {
        "import roofline, over the bare interpreter": median_s(process("-c", "import roofline"), 15) - bare,
        "import numpy, for comparison": median_s(process("-c", "import numpy"), 15) - bare,
        "decode, scalar: floor and roofline": median_s(
            lambda: rl.decode(serve, one, context_tokens=2048).roofline_s, 2000
        ),
        "decode, scalar: every column": median_s(lambda: read(rl.decode(serve, one, context_tokens=2048)), 2000),
        "decode, 1,000,000 points: floor and roofline": median_s(
            lambda: rl.decode(serve, many, context_tokens=contexts).roofline_s, 5
        ),
        "decode, 1,000,000 points: every column": median_s(
            lambda: read(rl.decode(serve, many, context_tokens=contexts)), 5
        ),
        "roofline analyze, a whole process": median_s(
            process("-m", "roofline", "analyze", "llama-3.1-70b", "--hardware", "h100-sxm"), 11
        ),
    }
    for name, seconds in rows.items():
        print(f"{name:48} {seconds * 1e3:10.3f} ms")
    print(f"{'peak memory of this process':48} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:10.0f} MiB")


if __name__ == "__main__":
    main()
