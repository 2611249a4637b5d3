"""Disaggregated servers against what the simulation of two pools says.

    python benchmarks/serving_pools.py [FILE]

FILE is ``serving_runs.csv``, the tests' own by default; `benchmarks/serving.py` puts the table on its page.  The rows
that state how many workers each pool had are simulated; none has a part in any fit.  Throughput of either side is that
of a closed loop by Little's law, clients over the time of a request.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import serving

import roofline as rl
from roofline.serving import pools

LATE_S = 10.0
"""Six clients with prompts of 1,024 tokens wait for less, unless a server is still starting."""


def doubt(row: Mapping[str, str]) -> str:
    """Why a disaggregated run cannot be simulated; empty if it can."""
    if not row["decode_num_workers"]:
        return "the workers of the pools are not stated"
    inside = clients(row)
    if inside is None:
        return "the clients are not stated"
    if inside < 16 and float(row["ttft_mean_ms"]) > LATE_S * 1e3:
        return f"first tokens after over {LATE_S:g} s with {inside} clients: a server that is still starting"
    return ""


def rows(path: Path = serving.DATA) -> list[dict[str, str]]:
    """Disaggregated runs."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return [row for row in csv.DictReader(file) if row["mode"] == "disagg"]


def count(row: Mapping[str, str], name: str) -> int:
    """A whole number of the table; at least 1."""
    return max(int(float(row[name] or 0)), 1)


def clients(row: Mapping[str, str]) -> int | None:
    """Requests in the system, as the id of a public run has them."""
    stated = re.search(r"_c(\d+)_", row["id"])
    return int(stated.group(1)) if stated else None


Degrees = tuple[int, int, int, int]
"""Tensor, data, expert parallelism, and the degree to which an expert is divided over tensor parallelism."""

MENDED = "2026-03-23"
"""Since then the public runs state what their recipes launch (InferenceX, pull request 919: names of runs alone)."""


def degrees(row: Mapping[str, str], pool: str) -> Degrees:
    """Layout of a worker of the ``prefill`` or the ``decode`` pool, as its recipe has it.

    Names of runs before `MENDED` have attention of the prefill workers on H200 the wrong way round: prompts of 1,024
    tokens are computed by attention in replicas (``enable_attention_dp``), those of 8,192 by tensor parallelism; and
    experts of prefill workers on B200 are divided.  vLLM's runs call the replicas of its recipes
    (``data-parallel-size`` in github.com/NVIDIA/srt-slurm, recipes/vllm/kimi-k2.5) tensor parallelism, those of the
    decode workers only where there is one.
    """
    names = ("tp_size", "attention_dp_size", "moe_ep_size", "moe_tp_size")
    tensor, data, expert, moe_tensor = (count(row, f"{pool}_{name}") for name in names)
    size, prompt = tensor * data, int(float(row["input_tokens_max"]))
    if row["engine"] == "trtllm" and pool == "prefill" and row["measured"] < MENDED:
        if row["accelerator"] == "h200-sxm":
            return (1, size, size, 1) if prompt <= 1024 else (size, 1, size, 1)
        if row["accelerator"] == "b200-sxm" and row["precision"] == "fp8" and prompt > 1024:
            return 1, size, 1, size
    if row["engine"] == "vllm" and (pool == "prefill" or count(row, "decode_num_workers") == 1):
        return 1, size, size, 1
    return tensor, data, expert, moe_tensor


DECODE_SLOTS = {
    ("trtllm", "gb200", 1024, 5): 8,
    ("trtllm", "gb200", 1024, 4): 128,
    ("trtllm", "gb200", 8192, 5): 16,
    ("trtllm", "gb200", 8192, 4): 32,
    ("vllm", "gb200", 8192, 4): 16,
    ("sglang", "b200-sxm", 8192, 2): 16,
}
"""Engine, accelerator, longest prompt, decode workers -> sequences of one scheduler of a decode worker at most.

``max_batch_size``, which the names of TensorRT-LLM's recipes state (ctx1dep4_gen5tep4_batch8), ``max-num-seqs``, or
``max-running-requests`` shared by the replicas of attention (github.com/NVIDIA/srt-slurm, recipes).  The public runs
offer up to 1.4 times as many requests as their slots hold, so that these wait for a decode worker.
"""


def worker(row: Mapping[str, str], pool: str) -> rl.Deployment:
    """A worker of the ``prefill`` or the ``decode`` pool."""
    tensor, data, expert, moe_tensor = degrees(row, pool)
    launched = serving.launched({**row, "concurrency_in_flight": str(clients(row)), "engine_version": ""})
    key = (row["engine"], row["accelerator"], int(float(row["input_tokens_max"])), count(row, "decode_num_workers"))
    if pool == "decode" and key in DECODE_SLOTS:
        launched = launched.replace(max_sequences=DECODE_SLOTS[key])
    if data > 1 and moe_tensor > 1:  # attention in replicas, and every expert divided over all of them
        layout = rl.Parallel(tensor=tensor, data=data, expert=expert, moe_tensor=moe_tensor)
    else:
        layout = rl.Parallel(tensor=tensor, data=data, expert=expert)
    return rl.Deployment(
        rl.get_model(row["library_model"]),
        rl.get_accelerator(row["accelerator"]),
        precision=serving.precision(row),
        parallel=layout,
        engine=launched,
    )


ROUNDS = 10
"""Requests of each client, as the public runs have them."""

MOST_REQUESTS = 40_000
"""Of a simulation; beyond, clients have fewer requests each, at least 3."""


@dataclass(frozen=True)
class PoolsRun:
    """A measured run on two pools, and its simulation."""

    row: Mapping[str, str]
    found: pools.Pools

    @property
    def output_tokens(self) -> float:
        """Mean tokens of an answer."""
        load = self.found.load
        return float(load.mean_output_tokens if isinstance(load, rl.Traffic) else load.output_tokens)

    def _total_s(self, ttft_s: float, tpot_s: float) -> float:
        return ttft_s + tpot_s * (self.output_tokens - 1)

    @property
    def throughput_miss(self) -> float:
        """Relative error of the throughput, which goes as the inverse of the time of a request."""
        measured_s = self._total_s(float(self.row["ttft_mean_ms"]) / 1e3, float(self.row["tpot_mean_ms"]) / 1e3)
        return measured_s / self._total_s(self.found.ttft_s, self.found.tpot_s) - 1

    @property
    def tpot_miss(self) -> float:
        """Relative error of the time per output token."""
        return self.found.tpot_s * 1e3 / float(self.row["tpot_mean_ms"]) - 1

    @property
    def ttft_miss(self) -> float:
        """Relative error of the time to first token."""
        return self.found.ttft_s * 1e3 / float(self.row["ttft_mean_ms"]) - 1


def simulated(row: Mapping[str, str]) -> PoolsRun:
    """A run, simulated."""
    inside = clients(row)
    assert inside is not None
    requests = max(min(ROUNDS * inside, MOST_REQUESTS), 3 * inside)
    found = pools.serve_pools(
        serving.lengths(row),
        prefill=worker(row, "prefill"),
        decode=worker(row, "decode"),
        prefill_workers=count(row, "prefill_num_workers"),
        decode_workers=count(row, "decode_num_workers"),
        concurrency=inside,
        requests=requests,
    )
    return PoolsRun(row, found)


# Page -----------------------------------------------------------------------------------------------------------------

HEAD = (
    "| two pools | runs | throughput median | bias | TPOT median | bias | TTFT median | bias |"
    "\n|---|---:|---:|---:|---:|---:|---:|---:|"
)


def line(name: str, runs: Sequence[PoolsRun]) -> str:
    """A row of the table."""
    cells = [name, str(len(runs))]
    for of in ("throughput_miss", "tpot_miss", "ttft_miss"):
        misses = [getattr(run, of) for run in runs]
        cells += [f"{np.median(np.abs(misses)):.0%}", f"{np.median(misses):+.0%}"]
    return f"| {' | '.join(cells)} |"


def section(every: Sequence[Mapping[str, str]], runs: Sequence[PoolsRun]) -> list[str]:
    """The part of the page of servers."""
    groups: dict[str, list[PoolsRun]] = {}
    for run in runs:
        name = ", ".join(run.row[word] for word in ("library_model", "accelerator", "engine", "precision"))
        groups.setdefault(name, []).append(run)
    doubts = Counter(doubt(row) for row in every if doubt(row))
    return [
        "## Two pools",
        "",
        f"{len(runs)} disaggregated runs, simulated with all their requests as two pools with the workers, layouts and "
        "slots of their recipes. None of them was used in any fit. Their first tokens come later than simulated if few "
        "requests wait, by 80 to 100 ms on GB200 under TensorRT-LLM and by 400 ms on H200: routers and the "
        "registration of caches take time that is not modeled. One such server was traced, vLLM with Qwen3-32B on "
        "eight L20 (github.com/vllm-project/vllm, issue 50913): of 197 ms from the first token of the prefill worker "
        "to that of the client, 29 ms are the transfer of the cache and about 58 ms a step of the decode worker. "
        "Steps of DeepSeek on H200 under TensorRT-LLM take 3 ms more than simulated if many sequences run, "
        "in every release since 0.21, and one sequence 1 ms (11.0 ms in "
        "github.com/NVIDIA/TensorRT-LLM, issue 5929, 13.8 ms without expert parallelism; simulated 9.6 and 13.1). "
        + "; ".join(f"{number} more: {reason}" for reason, number in doubts.most_common())
        + ".",
        "",
        HEAD,
        *(line(name, group) for name, group in sorted(groups.items())),
        line("all", runs),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=serving.DATA)
    every = rows(parser.parse_args().file)
    print("\n".join(section(every, [simulated(row) for row in every if not doubt(row)])))


if __name__ == "__main__":
    main()
