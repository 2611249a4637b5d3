"""How long a plan of about 10,000 candidates takes, and a fleet of it: ``python benchmarks/planning.py``."""

from time import perf_counter

import numpy as np

import roofline as rl

HARDWARE = ["h100-sxm", "h200-sxm", "b200-sxm", "mi300x", "l40s"]
LOAD, SLO = rl.Workload(1500, 300), rl.SLO(ttft_s=0.5, tpot_s=0.03)


def seconds(model, accelerators, batches):
    """Candidates; the best of three plans after one that loads the files; a fleet by closed form and by simulation."""
    times = []
    for _ in range(4):
        start = perf_counter()
        found = rl.plan(
            model, HARDWARE, LOAD, slo=SLO, precisions=("bf16", "fp8"), accelerators=accelerators, batches=batches
        )
        times.append(perf_counter() - start)
    return len(found), min(times[1:]), *(fleet_s(found, method) for method in ("closed-form", "simulation"))


def fleet_s(plan, method):
    """Seconds in which the fleet of a plan is sized."""
    start = perf_counter()
    rl.fleet(plan, requests_per_s=40, method=method)
    return perf_counter() - start


def main():
    batches = np.unique(np.round(np.geomspace(1, 2048, 95)))
    print("| model | candidates | plan, s | fleet by closed form, s | fleet by simulation, s |\n|---|---|---|---|---|")
    for model in ("llama-3.1-70b", "gpt-oss-120b", "deepseek-v3"):
        count, *times = seconds(model, (1, 2, 4, 8, 16), batches)
        print(f"| {model} | {count:,} | {' | '.join(f'{each:.2f}' for each in times)} |")


if __name__ == "__main__":
    main()
