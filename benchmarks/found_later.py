"""Gains that were found after the formulas stood: a third set, whose first predictions are kept beside today's.

    python benchmarks/found_later.py [-o PAGE]

The rows of ``tests/data/measurements/later_gains.csv`` come from sources that are not in ``technique_gains.csv``.
``first_prediction`` is what the library said before any of them had led to a change.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import technique_rules as base
from measured_servers import SHAREGPT, as_trtllm_bench, release_of
from technique_rules import Pair, Row, Unmapped, number_after, numbers, pair
from techniques import DATA, Found, by_source, conditions, read, summary, write_or_print

import roofline as rl
from roofline import techniques as t
from roofline.serving.scenario import Scenario
from roofline.serving.steady_state import Steady

LATER = DATA.parent / "later_gains.csv"

MODELS = base.MODELS | {
    "Llama-3-8B": "llama-3-8b",
    "Yi-34B": "yi-34b",
    "Llama-3.1-405B": "llama-3.1-405b",
    "Qwen2.5-7B": "qwen2.5-7b",
    "Qwen2.5-72B": "qwen2.5-72b",
    "Qwen3.5-35B-A3B": "qwen3.5-35b-a3b",
}
ENGINES = base.ENGINES | {"Transformers": "transformers"}
HARDWARE = base.HARDWARE | {"Gaudi 3": "gaudi3", "Ascend 910C": "ascend-910c", "A10": "a10", "MI300X": "mi300x"}
FORMATS = base.FORMATS | {
    "w4a16": rl.Precision(weights="int4_g128"),
    "w4a8fp8": rl.Precision(weights="int4_g128", activations="fp8"),
    "int8sq+kv8": rl.Precision(weights="int8", activations="int8", kv="int8"),
    "w4a8kv4": rl.Precision(weights="int4_g128", activations="int8", kv="int4"),
    "w4a16g128": rl.Precision(weights="int4_g128_sym"),
    "mxfp4 both": rl.Precision(weights="mxfp4", activations="mxfp4", exceptions={"attention": "bf16"}),
}


def serve_of(row: Row, *, side: int = 0, parallel: rl.Parallel | None = None) -> rl.Deployment:
    """The deployment of a row before (0) or after (1) a change of formats; tensor parallelism where nothing else is."""
    stored = row["precision"].split(">")
    name = ENGINES.get(row["engine"].split("/")[0].split()[0])
    version = release_of(name, row["engine"], row["date"]) if name else ""
    given = FORMATS[stored[min(side, len(stored) - 1)]]
    options = {} if given is None else {"precision": given}
    return rl.Deployment(
        MODELS[row["model"]],
        HARDWARE[row["hardware"]],
        engine=rl.Engine(name, version=version, eager="eager" in row["params"] or None) if name else None,
        parallel=parallel or rl.Parallel(tensor=int(row["count"])),
        **options,
    )


def case_of(row: Row, serve: rl.Deployment) -> Scenario:
    """The requests of a row on a deployment."""
    batch = int((numbers(row["batch_or_concurrency"]) or [1])[0])
    if "ShareGPT" in row["prompt"]:
        load = rl.Workload(*SHAREGPT, batch)
    else:
        load = rl.Workload(int(numbers(row["prompt"])[0]), int(row["output"]), batch)
    case = Scenario(serve, load)
    rides = base.saturated(row) and serve.engine is not None and base.mixes(serve) and "static" not in row["params"]
    return case.replace(chunk_tokens=serve.server.step_tokens) if rides and load.output_tokens > 1 else case


def formats(row: Row) -> Pair:
    """Other formats of weights, activations and cache."""
    if ">" in row["precision"]:
        sides = [serve_of(row, side=side) for side in (0, 1)]
        if "trtllm-bench" in row["params"]:
            sides = [as_trtllm_bench(serve, case_of(row, serve).load) for serve in sides]
        return pair(row, *(case_of(row, serve) for serve in sides))
    wanted = {"weights-w8a16": "int8", "weights-w4a16": "int4_g64"}[row["technique"]]
    case = case_of(row, serve_of(row))
    return pair(row, case, t.Quantization(weights=wanted).after(case))


def cache(row: Row) -> Pair:
    """A narrower cache."""
    case = case_of(row, serve_of(row))
    return pair(row, case, t.KVQuantization(kv=row["technique"].removeprefix("kv-")).after(case))


def tiers(row: Row) -> Pair:
    """From one hit rate to another; the rate of prompts where a request has one output token."""
    case = case_of(row, serve_of(row))
    before, after = numbers(row["params"].split("hit rate")[1])[:2]
    return pair(row, case.replace(hit_rate=before), t.KVTiers(hit_rate=after).after(case))


def ranks(row: Row) -> Scenario:
    """Attention replicated, experts over all: decode steps alone."""
    count = int(row["count"])
    serve = serve_of(row, parallel=rl.Parallel(data=count, expert=count))
    case = case_of(row, serve)
    return case.replace(load=replace(case.load, batch=case.load.batch * count))


def drafting(row: Row) -> Pair:
    """Multi-token prediction."""
    decode = "decode" in row["params"]
    case = ranks(row) if decode else case_of(row, serve_of(row))
    if "no overlap" in row["params"]:
        case = t.AsyncScheduling().without(case)
    drafts, length, width = (number_after(name, row["params"]) for name in ("K", "AL", "w"))
    given = {"acceptance_length": length, "verify_width": width}
    technique = t.MultiTokenPrediction(drafts=int(drafts or 1), **{k: v for k, v in given.items() if v})
    if decode:
        return base.of_phase_tokens(case, technique.after(case))
    return pair(row, case, technique.after(case))


def overlap(row: Row) -> Pair:
    """The host beside the device."""
    case, technique = ranks(row), t.AsyncScheduling()
    return base.of_phase_tokens(technique.without(case), technique.after(technique.given(case)))


def heads(row: Row) -> Pair:
    """Medusa: all drafts of one pass, verified as a tree, by eager kernels before and after."""
    case = t.CudaGraphs().without(case_of(row, serve_of(row)))
    drafts, length, width = (number_after(name, row["params"]) for name in ("K", "AL", "w"))
    technique = t.ParallelDrafting(drafts=int(drafts or 4), acceptance_length=length, verify_width=width)
    return pair(row, case, technique.after(case))


def pools(row: Row) -> Pair:
    """Attention and experts apart, at the largest batches that fit: tokens of an accelerator.

    The source's dies stand for four times as many attention dies beside 64 that hold experts.
    """
    attention = LOGICAL * numbers(row["params"].split(" to ")[1])[0]
    count = int(attention) + EXPERT_DIES
    sides = [serve_of(row, parallel=rl.Parallel(data=ways, expert=ways)) for ways in (EXPERT_DIES, count)]
    before, after = (case_of(row, serve) for serve in sides)
    after = t.AttentionFFNDisaggregation(attention_share=attention / count).after(after)

    def of_accelerator(seen: Steady, wait_s: Any) -> Any:
        return np.asarray(seen.load.batch) / seen.step_s / seen.case.serve.parallel.accelerators

    return Pair(before, after, of_accelerator, saturated=True, caps=(np.inf, np.inf))


LOGICAL, EXPERT_DIES = 4.0, 64
"""Attention dies that one of the source's stands for, and those that hold experts, before and after."""


def stages(row: Row) -> Pair | Simulated:
    """Pipeline stages in the place of tensor parallelism, or the other way round.

    Throughput is simulated: all requests are of one length, so microbatches compute their prompts at the same time,
    while closed forms let prompts come at any time and hold up the other microbatches.
    """
    ways = int(row["count"])
    layouts = (rl.Parallel(tensor=ways), rl.Parallel(pipeline=ways))
    cases = [case_of(row, serve_of(row, parallel=each)) for each in layouts]
    before, after = cases if row["technique"] == "pipeline-parallel" else cases[::-1]
    if not base.saturated(row):
        return pair(row, before, after)
    return Simulated(*(1 / _busiest(each) for each in (before, after)))


def _busiest(case: Scenario) -> float:
    """Output tokens/s of a closed loop of as many clients as a benchmark that saturates an engine usually has."""
    clients = base.MOST_REQUESTS
    load = replace(case.load, batch=1)
    return float(rl.simulate(case.serve, load, concurrency=clients, requests=6 * clients).tokens_per_s)


def indexed(row: Row) -> Pair:
    """Prompts by themselves, with an index of what matters and without."""
    case = case_of(row, serve_of(row))
    return pair(row, case, t.IndexedSparseAttention(dense_tokens=0).after(case))


def messages(row: Row) -> Pair:
    """Messages in fewer bits; of prompts that all come at once, the rate at which they are computed."""
    case, wire = case_of(row, serve_of(row)), row["params"].split("wire ")[1].split(";")[0]
    after = t.QuantizedCollectives(wire=wire).after(case)
    if "at once" in row["params"]:
        return base.of_phase(case, after, prompts=True)
    return pair(row, case, after)


def divided(row: Row) -> Pair:
    """Ranks that share the cache of a sequence instead of holding copies."""
    ranks = int(numbers(row["params"].split("DCP")[1])[0])
    case = case_of(row, serve_of(row))
    return pair(row, case, t.DecodeContextParallelism(ways=ranks).after(case))


@dataclass(frozen=True)
class Simulated:
    """A figure of two simulations, a time that shrinks when it gets better."""

    before_s: float
    after_s: float

    def gain(self) -> float:
        """How many times as short the second is."""
        return self.before_s / self.after_s


NIC_BYTES_PER_S = 25e9
"""Rate of a server's network, which the source does not print: 200 Gbit/s."""


def apart(row: Row) -> Simulated:
    """One prefill and one decode worker instead of two servers that share the requests."""
    serve = serve_of(row, parallel=rl.Parallel(tensor=int(row["count"]) // 2))
    load = replace(case_of(row, serve).load, batch=1)
    rate, requests = numbers(row["batch_or_concurrency"])[0], int(numbers(row["params"].split("; ")[1])[0])
    both = rl.simulate(serve, load, requests_per_s=rate / 2, requests=requests // 2)
    asked = {"requests_per_s": rate, "requests": requests, "link_bytes_per_s": NIC_BYTES_PER_S / serve.parallel.tensor}
    pools = rl.serve_pools(load, prefill=serve, decode=serve, **asked)
    name = {"itl_ms": "tpot_s", "ttft_ms": "ttft_s"}[row["metric"]]
    return Simulated(getattr(both, name), getattr(pools, name))


RULES: Mapping[str, Callable[[Row], Pair | Simulated]] = {
    "weights-w4a16": formats,
    "weights-w8a16": formats,
    "weights-w8a8": formats,
    "weights-w4a8": formats,
    "weights-w4a8kv4": formats,
    "weights-fp8": formats,
    "kv-int8": cache,
    "kv-int4": cache,
    "kv-fp8": cache,
    "quantized-collective": messages,
    "decode-context-parallel": divided,
    "disaggregation": apart,
    "kv-tier-host": tiers,
    "async-scheduling": overlap,
    "speculation-mtp": drafting,
    "speculation-medusa": heads,
    "attention-ffn": pools,
    "indexed-sparse": indexed,
    "pipeline-parallel": stages,
    "tensor-for-pipeline": stages,
}


@dataclass(frozen=True)
class Later(Found):
    """A row with its prediction of today, or the reason why it has none."""

    @property
    def first(self) -> Found:
        """The same row with the first prediction."""
        return Found(self.row, float(self.row["first_prediction"]))


def predict(row: Row) -> Later:
    """The prediction of a row."""
    try:
        return Later(row, RULES[row["technique"]](row).gain())
    except Unmapped as error:
        return Later(row, None, str(error))
    except rl.RooflineError as error:
        return Later(row, None, f"refused: {error}")


HEAD = """\
# Gains that were found later

Written by `benchmarks/found_later.py` from `tests/data/measurements/later_gains.csv`: gains from sources that are not
on the page [techniques.md](techniques.md), read after its formulas were chosen. The first line counts the predictions
made before any of these rows had been read, the second those of today, whose kernels and host times have been fitted
again. Two more things changed because of these rows: copies over a host link reach 0.8 of its rate, and a cache is
loaded before a prompt is computed unless the engine fetches it layer by layer. The cost of an index for sparse
attention, and the share of tokens that it keeps, were taken from the MInference rows themselves, so those rows no
longer test it. The throughput of a pipeline is simulated, since its requests have one length and its microbatches stay
in step; closed forms let prompts come at any time. Gains above 1 are improvements; the classes are explained on the
other page.

Most rows beyond 30 % come from one source that does not state the batch of its baselines: models whose FP16 weights
leave little memory (Llama 2 13B and Yi 34B on an A100, Llama 2 7B on an L40S), and 8-bit attention of Llama 3 8B and
Mistral, which gained nothing on an A100 and twice as much on an L40S. Messages of 4 bits on four MI355X save a tenth of
the time to first token, where three fifths are predicted: collectives were never timed on that chip, so both the
messages and the cost of quantizing them follow from data sheets.

| rows | judged | within 15 % | within 30 % | beyond | wrong sign | 15 % | 30 % | unmapped | bounds |
|---|---|---|---|---|---|---|---|---|---|"""


def page(found: list[Later]) -> str:
    """The whole report."""
    sources = by_source(found)
    lines = [HEAD, f"| as first predicted | {summary(each.first for each in found)} |"]
    lines += [f"| today | {summary(found)} |"]
    lines += [f"| {source} | {summary(each)} |" for source, each in sources.items()]
    for source, each in sources.items():
        lines += ["", f"## {source}", "", "| row | technique | conditions | measured | first | predicted | class |"]
        lines += ["|---|---|---|---|---|---|---|", *map(_line, each)]
    return "\n".join(lines) + "\n"


def _line(each: Later) -> str:
    row = each.row
    figures = f"{each.measured:.3g} | {float(row['first_prediction']):.3g} | {each.predicted or 0.0:.3g}"
    return f"| {row['id']} | {row['technique']} | {conditions(row)} | {figures} | {each.reason or each.verdict} |"


def main() -> None:
    """Predict every row and print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    write_or_print(page([predict(row) for row in read(LATER)]), given.output)


if __name__ == "__main__":
    main()
