"""Parallelism: what divides, what is replicated, what crosses the links."""

from __future__ import annotations

import math

from ...operators.parallel import share as share_of_pieces
from ...units import plural
from ..drawing import LINKED, Draw, as_said, bandwidth, billions, bytes_words, rate, template
from ..question import Question


@template("parallelism", 1)
def weights_on_each(d: Draw) -> Question:
    """Matrices divide over tensor and pipeline, not over data."""
    shape, tensor, pipeline, data = d.model(), d.pick((2, 4, 8)), d.pick((1, 2, 4)), d.pick((1, 2, 4))
    total = as_said(shape.total)
    answer = total * 2 / (tensor * pipeline)
    return d.ask(
        f"A model has {billions(total)} parameters in bf16. With tensor parallelism {tensor}, pipeline parallelism "
        f"{pipeline} and {plural(data, 'replica')}, how many GB of weights does each accelerator hold, "
        "if they divide evenly?",
        answer / 1e9,
        "GB",
        given={"parameters": total, "tensor": tensor, "pipeline": pipeline, "data": data},
        solution=[f"{bytes_words(2 * total)} / ({tensor} x {pipeline}); each replica holds all weights"],
        mistakes={"divides everything": answer / data / 1e9, "no stages": answer * pipeline / 1e9},
        tolerance=0.02,
    )


@template("parallelism", 2)
def cache_beyond_the_heads(d: Draw) -> Question:
    """KV heads do not divide past their number."""
    shape, tensor = d.model(), d.pick((2, 4, 8, 16, 32))
    each = float(shape.model.cache_bytes(1, kv="bf16"))
    answer = each * float(share_of_pieces(shape.kv_heads, tensor))
    return d.ask(
        f"{shape.title} has {shape.kv_heads} KV heads and keeps {each:,.0f} bytes of KV cache per token. With tensor "
        f"parallelism {tensor}, how many kB per token does each accelerator hold?",
        answer / 1e3,
        "kB",
        given={"bytes": each, "kv_heads": shape.kv_heads, "tensor": tensor},
        solution=[
            f"each holds {math.ceil(shape.kv_heads / tensor)} of {shape.kv_heads} KV heads; a head does not divide",
        ],
        mistakes={"divides everything": each / tensor / 1e3},
        tolerance=0.02,
    )


@template("parallelism", 2)
def bytes_of_a_ring(d: Draw) -> Question:
    """2 (n - 1) / n of the message."""
    n, megabytes = d.pick((2, 4, 8, 16)), d.whole(1, 256)
    answer = 2 * (n - 1) / n * megabytes
    return d.ask(
        f"{n} accelerators add up a message of {megabytes} MB with a ring all-reduce. How many MB does each of them "
        "send?",
        answer,
        "MB",
        given={"n": n, "bytes": megabytes * 1e6},
        solution=[f"a reduce-scatter and an all-gather, each of ({n} - 1) / {n} of the message"],
        mistakes={"one message": (n - 1) / n * megabytes, "all of it": 2.0 * megabytes},
        tolerance=0.02,
    )


@template("parallelism", 2)
def time_of_a_ring(d: Draw) -> Question:
    """Ring bytes over the rate one way."""
    n, megabytes = d.pick((2, 4, 8)), d.whole(8, 512, 8)
    gpu = d.accelerator(LINKED)
    link = float(gpu.scale_up.bytes_per_s) if gpu.scale_up is not None else 1e9
    seconds = 2 * (n - 1) / n * megabytes * 1e6 / link
    return d.ask(
        f"{gpu.title}: according to the data sheet, its links have {2 * link / 1e9:,.0f} GB/s, both directions "
        f"together. How many microseconds does a ring all-reduce of {megabytes} MB over {n} such accelerators take at "
        "least?",
        seconds * 1e6,
        "us",
        given={"n": n, "bytes": megabytes * 1e6, "both_ways": 2 * link},
        solution=[f"2 x ({n} - 1) / {n} x {megabytes} MB over {link / 1e9:,.0f} GB/s one way"],
        mistakes={"both ways": seconds / 2 * 1e6, "one message": seconds / 2 * 1e6, "bits": seconds * 8e6},
        tolerance=0.03,
    )


@template("parallelism", 2)
def bytes_reduced_in_a_pass(d: Draw) -> Question:
    """Two all-reduces a layer."""
    shape, tokens = d.model(), d.pick((1, 16, 64, 512, 2048))
    answer = 2 * shape.layers * tokens * shape.hidden * 2
    return d.ask(
        f"{shape.title} has {shape.layers} layers and is {shape.hidden} wide. Under tensor parallelism each layer "
        f"all-reduces its activations twice, after attention and after the MLP. How many MB of messages does a pass of "
        f"{plural(tokens, 'token')} add up to in bf16?",
        answer / 1e6,
        "MB",
        given={"layers": shape.layers, "hidden": shape.hidden, "tokens": tokens, "bytes": 2},
        solution=[f"2 x {shape.layers} x {tokens:,} x {shape.hidden} x 2 B"],
        mistakes={"one all-reduce": answer / 2e6, "one layer": answer / shape.layers / 1e6, "bits": answer * 8 / 1e6},
        tolerance=0.03,
    )


@template("parallelism", 3)
def step_on_several(d: Draw) -> Question:
    """Weights divide, latencies add."""
    gpu, shape, n = d.accelerator(LINKED), d.model(), d.pick((2, 4, 8))
    micros = d.pick((3, 5, 8, 10, 15))
    weights = as_said(shape.active)
    read = 2 * weights / (n * bandwidth(gpu))
    waits = 2 * shape.layers * micros * 1e-6
    return d.ask(
        f"A decode step reads {billions(weights)} weights in bf16 on {n} accelerators of {rate(bandwidth(gpu))} each, "
        f"with tensor parallelism. Each of {shape.layers} layers waits for two all-reduces of {micros} us. How many "
        "ms does the step take at least?",
        (read + waits) * 1e3,
        "ms",
        given={"weights": weights, "rate": bandwidth(gpu), "n": n, "layers": shape.layers, "latency": micros * 1e-6},
        solution=[
            f"reads: {bytes_words(2 * weights)} / ({n} x {rate(bandwidth(gpu))}) = {read * 1e3:.4g} ms",
            f"waits: 2 x {shape.layers} x {micros} us = {waits * 1e3:.4g} ms",
        ],
        mistakes={
            "no latency": read * 1e3,
            "one all-reduce": (read + waits / 2) * 1e3,
            "divides everything": (2 * weights / bandwidth(gpu) + waits) / n * 1e3,
        },
        tolerance=0.02,
    )


@template("parallelism", 2)
def bubble_of_a_pipeline(d: Draw) -> Question:
    """(p - 1) / (m + p - 1)."""
    stages, batches = d.pick((2, 4, 8, 16)), d.pick((1, 2, 4, 8, 16, 32))
    answer = 100 * (stages - 1) / (batches + stages - 1)
    return d.ask(
        f"The number of microbatches that pass through a pipeline of {stages} stages is {batches}. It is empty before "
        "and after. What percentage of the time is each stage idle?",
        answer,
        "%",
        given={"stages": stages, "microbatches": batches},
        solution=[
            f"the pipeline takes {batches} + {stages} - 1 = {batches + stages - 1} slots of time",
            f"a stage works in {batches} of them and is idle in {stages - 1}: {stages - 1} / {batches + stages - 1}",
        ],
        mistakes={"inverse": 100 * (stages - 1) / batches, "complement": 100 - answer},
        tolerance=0.02,
    )


@template("parallelism", 2)
def token_through_a_pipeline(d: Draw) -> Question:
    """A token passes all stages."""
    gpu, shape, stages = d.accelerator(), d.model(), d.pick((2, 4, 8))
    weights = as_said(shape.active)
    answer = 2 * weights / bandwidth(gpu) * 1e3
    return d.ask(
        f"A model multiplies with {billions(weights)} weights in bf16. They are divided into {stages} pipeline stages "
        f"of one accelerator with {rate(bandwidth(gpu))} each. How many ms does a decode step of one sequence take at "
        "least?",
        answer,
        "ms",
        given={"weights": weights, "rate": bandwidth(gpu), "stages": stages},
        solution=["the stages run one after another, so all weights are read at the rate of one accelerator"],
        mistakes={"one stage": answer / stages},
        tolerance=0.02,
    )


@template("parallelism", 1)
def accelerators_of_a_layout(d: Draw) -> Question:
    """Degrees multiply; experts lie over tensor and data."""
    tensor, pipeline, data = d.pick((1, 2, 4, 8)), d.pick((1, 2, 4)), d.pick((1, 2, 4, 8))
    expert = tensor * data
    answer = tensor * pipeline * data
    return d.ask(
        f"How many accelerators does a layout with TP {tensor}, PP {pipeline}, DP {data} and EP {expert} take, if the "
        "experts are spread over the accelerators of TP and DP?",
        answer,
        "accelerators",
        given={"tensor": tensor, "pipeline": pipeline, "data": data, "expert": expert},
        solution=[f"{tensor} x {pipeline} x {data}; expert parallelism adds none"],
        mistakes={"same accelerators": answer * expert, "no stages": tensor * data},
        tolerance=0.001,
    )


@template("parallelism", 2)
def cache_over_the_network(d: Draw) -> Question:
    """Bytes over the rate of a NIC, which is printed in bits."""
    shape, tokens, gigabits = d.model(), d.whole(1000, 32_000, 1000), d.pick((100, 200, 400, 800))
    each = float(shape.model.cache_bytes(1, kv="bf16"))
    seconds = tokens * each / (gigabits * 1e9 / 8)
    return d.ask(
        f"A prefill pool sends the KV cache of {tokens:,} tokens, {each:,.0f} bytes per token, over a network of "
        f"{gigabits} Gbit/s. How many ms does that take at least?",
        seconds * 1e3,
        "ms",
        given={"tokens": tokens, "bytes": each, "bits_per_s": gigabits * 1e9},
        solution=[f"{bytes_words(tokens * each)} over {gigabits / 8:g} GB/s"],
        mistakes={"bits": seconds / 8 * 1e3, "both ways": seconds / 2 * 1e3},
        tolerance=0.03,
    )
