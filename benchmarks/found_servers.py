"""Servers that were found after the simulation stood: their first predictions are kept beside today's.

    python benchmarks/found_servers.py [-o PAGE]

The rows of ``tests/data/measurements/found_servers.csv`` come from sources of which nothing was fitted.  The columns
``first_predicted_*`` hold what the library said before anyone had compared it with a row.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import roofline as rl
from roofline.phases.totals import COMMON_MODE
from roofline.serving.outcome import SERVERS_MODE, interval

HERE = Path(__file__).parent
sys.path.append(str(HERE))  # where this file is loaded by its path

from measured_servers import as_trtllm_bench  # noqa: E402
from serving_open import spread  # noqa: E402

DATA = HERE.parent / "tests" / "data" / "measurements" / "found_servers.csv"

Row = Mapping[str, str]

NOT_ATTENTION = {"attention": "bf16"}
"""NVIDIA's NVFP4 checkpoints of mixtures of experts, and Meta's FP8 ones, keep attention in 16 bits."""

FORMATS: Mapping[str, rl.Precision | None] = {
    "checkpoint": None,
    "bf16": rl.Precision(),
    "fp8": rl.Precision(weights="fp8", activations="fp8"),
    "fp8+kv8": rl.Precision(weights="fp8", activations="fp8", kv="fp8"),
    "fp8_block": rl.Precision(weights="fp8_block", activations="fp8"),
    "fp8-experts+kv8": rl.Precision(weights="fp8", activations="fp8", kv="fp8", exceptions=NOT_ATTENTION),
    "nvfp4": rl.Precision(weights="nvfp4", activations="nvfp4", kv="fp8"),
    "nvfp4-experts+kv8": rl.Precision(weights="nvfp4", activations="nvfp4", kv="fp8", exceptions=NOT_ATTENTION),
    "awq": rl.Precision(weights="int4_g128"),
    "awq+kv8": rl.Precision(weights="int4_g128", kv="fp8"),
    "w8a8": rl.Precision(weights="int8", activations="int8"),
    "w8a16": rl.Precision(weights="int8"),
    "w4a16": rl.Precision(weights="int4_g128_sym"),
}
"""As the table names formats -> formats of weights, activations and cache."""


def formats(row: Row, model: rl.Model) -> rl.Precision | None:
    """Formats of a row; those of the checkpoint with a narrower cache, or fed in 8 bits, as the row says."""
    name = row["precision"]
    if name in FORMATS:
        return FORMATS[name]
    own = model.precision
    assert own is not None, f"{row['id']}: {row['library_model']} has no formats of its own"
    fed = "mxfp8" if "mxfp8" in name else own.activations
    return rl.Precision(weights=own.weights, activations=fed, kv="fp8", exceptions=dict(own.exceptions))


LONG_CONTEXT = 32_768
"""Longest context (``--max-model-len``) up to which vLLM's first engine does not split prompts by default.

vllm/engine/arg_utils.py of 0.7, ``create_engine_config``: "Enable chunked prefill by default for long context (> 32K)
models".  The budget of a step is then ``max(max_model_len, 2048)``, and prompts run before tokens are generated.
"""


def options(row: Row) -> dict[str, Any]:
    """Launch options that the source states, and what follows from a stated length of the context."""
    stated = dict(word.split("=") for word in row["options"].split() if "=" in word)
    context = float(stated.pop("context", 0))
    given: dict[str, Any] = {name: value if name == "scheduler" else float(value) for name, value in stated.items()}
    if 0 < context <= LONG_CONTEXT and row["engine_version"].startswith("0.7"):
        given |= {"scheduler": "prefill_first", "chunked": False, "step_tokens": max(context, 2048.0)}
    return given


@cache
def _deployment(model: str, accelerator: str, precision: rl.Precision | None, engine: rl.Engine, layout: Any) -> Any:
    tensor, pipeline, data, expert = layout
    given = {} if precision is None else {"precision": precision}
    return rl.Deployment(
        rl.get_model(model),
        rl.get_accelerator(accelerator),
        parallel=rl.Parallel(tensor=tensor, pipeline=pipeline, data=data, expert=expert),
        engine=engine,
        **given,
    )


def deployment(row: Row) -> rl.Deployment:
    """One of the servers of a row: defaults of its engine's release, and what the source states."""
    engine = rl.Engine(row["engine"], version=row["engine_version"], **options(row))
    layout = tuple(int(row[name]) for name in ("tensor", "pipeline", "data", "expert"))
    model = row["library_model"]
    found = _deployment(model, row["accelerator"], formats(row, rl.get_model(model)), engine, layout)
    if "trtllm-bench" in row["options"]:
        found = as_trtllm_bench(found, rl.Workload(int(row["prompt_tokens"]), int(row["output_tokens"])))
    return found


DRAWS = 500
"""Lengths that stand for a distribution."""

SPREADS = {
    "sharegpt": (1.13, 0.88, math.inf),
    "accelmark": (1.1, 0.5, 512),
    "upto128": (0.0, 0.4, 128),
    "upto600": (0.0, 0.4, 600),
}
"""Spread -> coefficients of variation of prompts and outputs, and the longest output.

Prompts of AccelMark have quartiles of 120 and 580 tokens (``suites/suite_A/suite.json``), and outputs end at 512.
"""


@cache
def lengths(prompt: int, output: int, how: str) -> rl.Workload | rl.Traffic:
    """Lengths of the requests: fixed, drawn evenly from 1 to twice the mean, or spread as conversations are."""
    if how == "fixed":
        return rl.Workload(prompt, output)
    rng = np.random.default_rng(0)
    if how == "even":
        share = (np.arange(DRAWS) + 0.5) / DRAWS * 2
        prompts, outputs = share * prompt, rng.permutation(share) * output
    else:
        of_prompts, of_outputs, longest = SPREADS[how]
        prompts = spread(prompt, of_prompts, rng)[:DRAWS] if of_prompts else np.full(DRAWS, float(prompt))
        outputs = spread(output, of_outputs, rng, (1.0, longest))[:DRAWS]
    return rl.Traffic(np.maximum(prompts, 1.0), np.maximum(outputs, 1.0), np.ones(DRAWS))


def per_server(row: Row, name: str) -> int:
    """Requests of one of several servers behind a balancer."""
    return max(1, round(int(row[name]) / int(row["instances"])))


FIGURES = ("tpot_s", "ttft_s", "output_tokens_per_s")
"""What is measured."""


@dataclass(frozen=True)
class Found:
    """A measured server and its prediction, or the reason why it has none."""

    row: Row
    predicted: Mapping[str, float]
    covered: bool | None = None
    covered_widely: bool | None = None
    reason: str = ""

    def measured(self, name: str) -> float:
        """A figure as measured; NaN if the source has none."""
        return float(self.row[name] or "nan")

    def first(self, name: str) -> float:
        """A figure as first predicted."""
        return float(self.row[f"first_predicted_{name}"] or "nan")

    def miss(self, name: str, *, first: bool = False) -> float:
        """Relative error of a figure today, or at first."""
        said = self.first(name) if first else self.predicted.get(name, math.nan)
        return said / self.measured(name) - 1


def statistic(row: Row, name: str) -> str:
    """Whether a source prints the mean or the median of a time."""
    return "p50" if row["statistic"] == "p50" or row["statistic"] == f"p50 {name[:4]}" else "mean"


def predict(row: Row) -> Found:
    """Simulate as many requests as the source sent."""
    try:
        serve, load = deployment(row), lengths(int(row["prompt_tokens"]), int(row["output_tokens"]), row["spread"])
        clients, requests = per_server(row, "concurrency"), per_server(row, "requests")
        run = rl.simulate(serve, load, concurrency=clients, requests=max(requests, clients))
    except rl.RooflineError as error:
        return Found(row, {}, reason=str(error))
    said = {
        name: float(run.quantile(name, 0.5) if statistic(row, name) == "p50" else getattr(run, name))
        for name in ("tpot_s", "ttft_s")
    }
    said["output_tokens_per_s"] = float(run.tokens_per_s) * min(int(row["instances"]), int(row["concurrency"]))
    low, high = interval(run.times, run.running_batch, run.load)
    wide = math.exp(-_widened(-math.log(low))), math.exp(_widened(math.log(high)))
    return Found(row, said, _covered(row, said, (low, high)), _covered(row, said, wide))


def _widened(end: float) -> float:
    """The end of an interval with the error common to all kernels, as for engines whose servers were not fitted."""
    return math.sqrt(max(end**2 - SERVERS_MODE**2, 0.0) + COMMON_MODE**2)


def _covered(row: Row, said: Mapping[str, float], ends: tuple[float, ...]) -> bool:
    """Whether the 80 % interval of a step, around the prediction, holds the time per token, else the rate."""
    low, high = ends
    if row["tpot_s"]:
        return low * said["tpot_s"] <= float(row["tpot_s"]) <= high * said["tpot_s"]
    measured = float(row["output_tokens_per_s"])
    return said["output_tokens_per_s"] / high <= measured <= said["output_tokens_per_s"] / low


def rows(path: Path = DATA) -> list[dict[str, str]]:
    """The table."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# Floors ---------------------------------------------------------------------------------------------------------------


def least_s(row: Row) -> dict[str, float]:
    """Least times of a row's figures: a step with one sequence, a prompt by itself, and a token of a full batch.

    However many requests ran, a token cannot take less than a step that computes nothing else; and no batch is done
    before the busiest resource has done all its work, prompts and steps together.
    """
    serve = deployment(row)
    prompt, output = int(row["prompt_tokens"]), int(row["output_tokens"])
    batch = per_server(row, "concurrency")
    alone = rl.decode(serve, rl.Workload(batch=1), context_tokens=prompt).floor_s
    first = rl.prefill(serve, rl.Workload(prompt_tokens=prompt, batch=1)).floor_s
    prompts = rl.prefill(serve, rl.Workload(prompt_tokens=prompt, batch=batch)).resources_s
    steps = rl.decode(serve, rl.Workload(batch=batch), context_tokens=round(prompt + (output - 1) / 2)).resources_s
    both = [output * steps.get(name, 0.0) + prompts.get(name, 0.0) for name in prompts | steps]
    return {"tpot_s": float(alone), "ttft_s": float(first), "of_a_token_s": float(max(both)) / (batch * output)}


def floor_share(row: Row) -> float:
    """The largest share that a floor has of what was measured: above 1, the row beats its floor."""
    least = least_s(row)
    shares = [least[name] / float(row[name]) for name in ("tpot_s", "ttft_s") if row[name]]
    if row["output_tokens_per_s"]:
        busy = min(int(row["instances"]), int(row["concurrency"]))
        shares.append(float(row["output_tokens_per_s"]) / busy * least["of_a_token_s"])
    return max(shares)


# Page -----------------------------------------------------------------------------------------------------------------

HEAD = """\
# Servers that were found later

Written by `benchmarks/found_servers.py` from `tests/data/measurements/found_servers.csv`: {count} measured servers
from {sources} public sources of which nothing was fitted. Each is simulated with the defaults of its engine's release
and the launch options that its source states, for as many requests as the source sent. The first line holds the
predictions made before any row had been compared with one, the second those of today; both are without {doubted}
doubted rows. Errors are relative, bias is the median of the signed error. The last column is the share of rows whose
time per token, or whose rate where no such time is printed, lies in the 80 % interval of a step around the prediction.

The error that all kernels of a server have in common is taken as that of servers whose launch options are known
({servers_mode:g} in the logarithm). With that of whole models ({common_mode:g}) the interval would hold {widely:.0%} of
the rows.

Rows that are faster than their floors allow: {beaten}. The closest one reaches {closest:.0%} of its floor.
"""

COLUMNS = "| rows | TPOT median | mean | bias | TTFT median | bias | tokens/s median | mean | bias | in the interval |"
RULE = "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"

CAUSES = """\
## What the rows changed

- SGLang gives recurrent states a pool of their own, and each running request of a model with a delta rule five of them.
  Twice as many requests of Qwen3.6 were predicted to run as did.
- The host takes 2.7 ms to launch the prompt of a layer with a delta rule in SGLang, by the same fit as before, and 36
  instead of 72 ms to handle a request.
- TensorRT-LLM keeps the cache of windowed layers in full unless it is given windows, which halves the running requests
  of gpt-oss and Llama 4 with long outputs.
- SGLang keeps the whole cache of windowed layers except in Llama 4, gpt-oss, Gemma 4 and a few others, where they have
  room for 0.8 times the tokens of the other layers. Layers that use the cache of others have room all the same. Up to
  three times as many requests of Gemma 4 were predicted to run as did.
- vLLM's first engine did not split prompts with contexts of up to 32,768 tokens.

## Causes of the largest errors

- No source names its host. Llama 3 8B with one client takes 7.7 ms a token on both an H100 and an H200 of AccelMark,
  although the memory of the second is 43 % faster.
- vLLM's first engine captured graphs up to contexts of 8,192 tokens (`max_seq_len_to_capture`). Beyond that it launched
  kernels one by one: with 28,650 tokens of context, the A100, A800, H200 and H20 of AccelMark take 16 to 35 ms a token.
- No kernels of MI300X were timed. The rate of Llama 3.1 405B is predicted within 8 % there with vLLM 0.6 and 8 to 47 %
  off with 0.9. Models with FP8 weights take up to twice as long in SGLang 0.5.7, and small dense ones 1.5 times.
- TensorRT-LLM's table of gpt-oss was measured with the CUTLASS backend for experts on Blackwell, whose kernels were not
  timed. Its rates are predicted 12 % too low to 46 % too high, those of Llama 3.3 70B within 18 %.
- GeForce cards have no access to each other's memory, so messages pass through the host: tensor parallelism over eight
  RTX 4090 or four RTX 5090 is predicted up to 2.7 times as fast as it is.
- With one client, an H20 reads BF16 weights at 1.4 TB/s of its 4 TB/s and FP8 weights at 1.5 TB/s, in SGLang.
"""


def figures(found: Sequence[Found], *, first: bool = False) -> str:
    """The cells of a line of a table."""
    cells = [str(len(found))]
    for name, with_mean in (("tpot_s", True), ("ttft_s", False), ("output_tokens_per_s", True)):
        misses = np.array([each.miss(name, first=first) for each in found])
        known = misses[np.isfinite(misses)]
        if not known.size:
            cells += ["–"] * (3 if with_mean else 2)
            continue
        off = np.abs(known)
        cells.append(f"{np.median(off):.0%}")
        cells += [f"{off.mean():.0%}"] if with_mean else []
        cells.append(f"{np.median(known):+.0%}")
    covered = [each.covered for each in found if each.covered is not None]
    cells.append("–" if first or not covered else f"{np.mean(covered):.0%}")
    return "| ".join(["", *(f"{cell} " for cell in cells)]) + "|"


def table(title: str, found: Iterable[Found], key: Callable[[Row], str]) -> list[str]:
    """Errors of today by a word of the rows."""
    groups: dict[str, list[Found]] = {}
    for each in found:
        groups.setdefault(key(each.row), []).append(each)
    lines = ["", f"## By {title}", "", f"| {title} {COLUMNS}", f"|---{RULE}"]
    return lines + [f"| {name} {figures(group)}" for name, group in sorted(groups.items())]


def page(found: Sequence[Found]) -> str:
    """The whole report."""
    trusted = [each for each in found if not each.row["doubt"] and not each.reason]
    shares = [floor_share(each.row) for each in found if not each.reason]
    head = HEAD.format(
        count=len(found),
        sources=len({each.row["source"] for each in found}),
        doubted=sum(bool(each.row["doubt"]) for each in found),
        beaten=sum(share > 1 for share in shares) or "none",
        closest=max(shares),
        servers_mode=SERVERS_MODE,
        common_mode=COMMON_MODE,
        widely=np.mean([each.covered_widely for each in trusted]),
    )
    lines = [head, f"| {COLUMNS}", f"|---{RULE}"]
    lines += [f"| as first predicted {figures(trusted, first=True)}", f"| today {figures(trusted)}"]
    for title, key in (
        ("source", lambda row: row["source"]),
        ("engine", lambda row: row["engine"]),
        ("accelerator", lambda row: row["accelerator"]),
        ("format", lambda row: row["precision"]),
        ("model, accelerator, engine", lambda row: f"{row['library_model']}, {row['accelerator']}, {row['engine']}"),
    ):
        lines += table(title, trusted, key)
    lines += ["", CAUSES, "## Doubted rows", "", "| rows | reason |", "|---|---|", *doubts(found)]
    refused = [f"- {each.row['id']}: {each.reason}" for each in found if each.reason]
    return "\n".join([*lines, *(["", "## Refused", "", *refused] if refused else [])]) + "\n"


def doubts(found: Iterable[Found]) -> list[str]:
    """Lines of the reasons for doubts."""
    by_reason: dict[str, list[str]] = {}
    for each in found:
        if each.row["doubt"]:
            by_reason.setdefault(each.row["doubt"], []).append(each.row["id"])
    return [f"| {', '.join(names)} | {reason} |" for reason, names in by_reason.items()]


def main() -> None:
    """Predict every row and print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    text = page([predict(row) for row in rows()])
    if given.output:
        given.output.write_text(text, encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
