"""How long a plan of about 10,000 candidates takes: ``python benchmarks/planning.py``."""

from time import perf_counter

import numpy as np

import roofline as rl

HARDWARE = ["h100-sxm", "h200-sxm", "b200-sxm", "mi300x", "l40s"]
LOAD, SLO = rl.Workload(1500, 300), rl.SLO(ttft_s=0.5, tpot_s=0.03)


def seconds(model, accelerators, batches):
    """Candidates, and the best of three runs after one that loads the files."""
    times = []
    for _ in range(4):
        start = perf_counter()
        found = rl.plan(
            model, HARDWARE, LOAD, slo=SLO, precisions=("bf16", "fp8"), accelerators=accelerators, batches=batches
        )
        rl.fleet(found, requests_per_s=40)
        times.append(perf_counter() - start)
    return len(found), times[0], min(times[1:])


def main():
    batches = np.unique(np.round(np.geomspace(1, 2048, 95)))
    print("| model | candidates | first, s | next, s |\n|---|---|---|---|")
    for model in ("llama-3.1-70b", "gpt-oss-120b", "deepseek-v3"):
        count, first, best = seconds(model, (1, 2, 4, 8, 16), batches)
        print(f"| {model} | {count:,} | {first:.2f} | {best:.2f} |")


if __name__ == "__main__":
    main()
