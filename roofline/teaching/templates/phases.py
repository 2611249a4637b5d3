"""Phases: prefill, decode and what a request sees of them."""

from __future__ import annotations

from ...phases.deployment import Deployment
from ...phases.passes import decode, prefill
from ...phases.workload import Workload
from ...units import plural
from ..drawing import (
    LARGE,
    Draw,
    as_said,
    bandwidth,
    bf16_peak,
    bf16_sparse,
    billions,
    bytes_words,
    gpu_words,
    peak,
    rate,
    template,
    time,
)
from ..napkins import napkin
from ..question import Question


@template("phases", 1)
def floor_of_a_step(d: Draw) -> Question:
    """Weights over bandwidth."""
    gpu, shape, bits = d.accelerator(), d.model(), d.pick((16, 8, 4))
    weights = as_said(shape.active)
    read = weights * bits / 8
    return d.ask(
        f"A decode step multiplies with {billions(weights)} weights of {bits} bits each; the memory bandwidth is "
        f"{rate(bandwidth(gpu))}. How many ms does the step take at least? Ignore the KV cache.",
        read / bandwidth(gpu) * 1e3,
        "ms",
        given={"weights": weights, "bits": bits, "rate": bandwidth(gpu)},
        solution=[
            f"{billions(weights)} x {bits / 8:g} B = {bytes_words(read)}",
            f"{bytes_words(read)} / {rate(bandwidth(gpu))}",
        ],
        mistakes={"bits": read * 8 / bandwidth(gpu) * 1e3, "16 bits": weights * 2 / bandwidth(gpu) * 1e3},
    )


@template("phases", 2)
def floor_of_a_step_with_cache(d: Draw) -> Question:
    """Weights and cache over bandwidth, from the library."""
    gpu, shape = d.accelerator(LARGE), d.model()
    batch, context = d.pick((1, 8, 32, 64)), d.whole(1000, 16_000, 1000)
    serve = Deployment(shape.model, gpu)
    step = decode(serve, Workload(batch=batch), context_tokens=context)
    each = 2 * 2 * shape.layers * shape.kv_heads * shape.head_dim
    weights, cache = 2 * shape.active, batch * context * each
    return d.ask(
        f"{shape.title} in bf16 on {gpu_words(gpu)}. A decode step multiplies with {billions(shape.active)} weights "
        f"and reads the KV cache of {plural(batch, 'sequence')} of {context:,} tokens, {each:,} bytes "
        "per token. How many ms does the step take at least? Ignore whether all of it fits in memory.",
        float(step.floor_s) * 1e3,
        "ms",
        given={
            "weights": shape.active,
            "bytes": 2,
            "rate": bandwidth(gpu),
            "peak": bf16_peak(gpu),
            "batch": batch,
            "tokens": context,
            "cache_bytes": each,
        },
        solution=[str(line) for line in napkin(step).lines],
        mistakes={
            "no cache": weights / bandwidth(gpu) * 1e3,
            "no batch": (weights + cache / batch) / bandwidth(gpu) * 1e3,
            "query heads": (weights + cache * shape.heads / shape.kv_heads) / bandwidth(gpu) * 1e3,
        },
    )


@template("phases", 1)
def tokens_of_a_batch(d: Draw) -> Question:
    """Batch over step time."""
    batch, milliseconds = d.pick((4, 16, 32, 64, 128)), d.whole(8, 60)
    answer = batch / (milliseconds / 1e3)
    return d.ask(
        f"A decode step of {batch} sequences takes {milliseconds} ms. How many tokens per second does the whole batch "
        "generate?",
        answer,
        "tokens/s",
        given={"batch": batch, "seconds": milliseconds / 1e3},
        solution=[f"{batch} tokens per step / {milliseconds} ms"],
        mistakes={"no batch": answer / batch},
    )


@template("phases", 2)
def time_of_a_prompt(d: Draw) -> Question:
    """2 N T over the dense peak."""
    gpu, shape, tokens = d.accelerator(LARGE), d.model(), d.whole(1000, 8000, 500)
    serve = Deployment(shape.model, gpu)
    phase = prefill(serve, Workload(prompt_tokens=tokens))
    weights = shape.active - shape.vocab * shape.hidden
    seconds = 2 * weights * tokens / bf16_peak(gpu)
    return d.ask(
        f"{gpu_words(gpu)}. A prompt of {tokens:,} tokens is multiplied with {billions(weights)} weights in bf16. How "
        "many ms do these products take at least?",
        seconds * 1e3,
        "ms",
        given={"weights": weights, "tokens": tokens, "peak": bf16_peak(gpu), "rate": bandwidth(gpu)},
        solution=[
            f"2 x {billions(weights)} x {tokens:,} FLOP / {peak(bf16_peak(gpu))} = {time(seconds)}",
            "the whole prefill, with attention, for comparison:",
            *map(str, napkin(phase).lines),
        ],
        mistakes={
            "sparse peak": 2 * weights * tokens / bf16_sparse(gpu) * 1e3,
            "MAC": seconds / 2 * 1e3,
            "wrong resource": 2 * weights / bandwidth(gpu) * 1e3,
        },
    )


@template("phases", 2)
def share_of_prefill(d: Draw) -> Question:
    """Prefill over prefill and output - 1 steps."""
    first, step, output = d.whole(50, 900, 10), d.whole(5, 60), d.whole(4, 400)
    answer = first / (first + (output - 1) * step)
    return d.ask(
        f"The prefill of a request takes {first} ms and yields the first token, each decode step takes {step} ms, and "
        f"the answer has {output} tokens. What percentage of the total time is prefill?",
        100 * answer,
        "%",
        given={"prefill": first / 1e3, "step": step / 1e3, "output": output},
        solution=[f"{first} / ({first} + ({output} - 1) x {step})"],
        mistakes={
            "off by one": 100 * first / (first + output * step),
            "complement": 100 * (1 - answer),
        },
        tolerance=0.02,
    )


@template("phases", 1)
def tpot_of_a_request(d: Draw) -> Question:
    """(total - TTFT) / (output - 1)."""
    ttft, tpot, output = d.whole(50, 900, 10), d.whole(8, 60), d.whole(5, 60)
    total = ttft + (output - 1) * tpot
    return d.ask(
        f"A request took {total} ms. Its first token came after {ttft} ms, and the answer has {output} tokens. What "
        "is its time per output token (TPOT), in ms?",
        tpot,
        "ms",
        given={"total": total / 1e3, "ttft": ttft / 1e3, "output": output},
        solution=[f"({total} - {ttft}) / ({output} - 1)"],
        mistakes={"off by one": (total - ttft) / output, "first token": total / output},
        tolerance=0.01,
    )


@template("phases", 1)
def total_of_a_request(d: Draw) -> Question:
    """TTFT and output - 1 steps."""
    ttft, tpot, output = d.whole(50, 900, 10), d.whole(8, 60), d.whole(5, 60)
    total = ttft + (output - 1) * tpot
    return d.ask(
        f"TTFT is {ttft} ms and TPOT is {tpot} ms. After how many ms is an answer of {output} tokens complete?",
        total,
        "ms",
        given={"ttft": ttft / 1e3, "tpot": tpot / 1e3, "output": output},
        solution=[f"{ttft} + ({output} - 1) x {tpot}"],
        mistakes={"off by one": ttft + output * tpot, "no prefill": output * tpot},
        tolerance=0.01,
    )


@template("phases", 3)
def steps_of_a_prefill(d: Draw) -> Question:
    """Prefill time over step time of the same model: ridge arithmetic."""
    gpu, tokens = d.accelerator(LARGE), d.whole(1000, 8000, 500)
    ridge = bf16_peak(gpu) / bandwidth(gpu)
    answer = tokens / ridge
    return d.ask(
        f"{gpu_words(gpu)}. The prefill of {tokens:,} tokens in bf16 takes as long as how many decode steps of one "
        "sequence? Count only the products with the weights.",
        answer,
        "steps",
        given={"peak": bf16_peak(gpu), "rate": bandwidth(gpu), "tokens": tokens},
        solution=[
            "prefill: 2 N T / peak; step: 2 N / bandwidth",
            f"T x bandwidth / peak = {tokens:,} / {ridge:.4g}",
        ],
        mistakes={
            "sparse peak": tokens * bandwidth(gpu) / bf16_sparse(gpu),
            "MAC": answer / 2,
            "token by token": float(tokens),
        },
    )


@template("phases", 1)
def what_limits_a_phase(d: Draw) -> Question:
    """Prefill computes, decode reads."""
    gpu, shape = d.accelerator(LARGE), d.model()
    serve = Deployment(shape.model, gpu)
    if d.pick((True, False)):
        tokens = d.whole(2000, 8000, 1000)
        phase, words = prefill(serve, Workload(prompt_tokens=tokens)), f"the prefill of one prompt of {tokens:,} tokens"
    else:
        tokens = d.pick((1, 2, 4, 8))
        phase = decode(serve, Workload(batch=tokens), context_tokens=1000)
        words = f"a decode step of {plural(tokens, 'sequence')} of 1,000 tokens"
    limit = str(phase.limit)
    return d.ask(
        f"{shape.title} in bf16 on {gpu_words(gpu)}. What limits {words}?",
        limit,
        given={"peak": bf16_peak(gpu), "rate": bandwidth(gpu), "tokens": tokens},
        solution=[str(line) for line in napkin(phase).lines],
        mistakes={"wrong resource": "compute" if limit == "memory" else "memory"},
        options=("memory", "compute"),
    )


@template("phases", 2)
def batch_where_a_step_computes(d: Draw) -> Question:
    """Batch at which both times of a step are equal."""
    gpu, bits = d.accelerator(LARGE), d.pick((16, 8))
    answer = bf16_peak(gpu) / bandwidth(gpu) * bits / 16
    return d.ask(
        f"{gpu_words(gpu)}. Weights of {bits} bits are multiplied in bf16. At what batch does a decode step compute "
        "for as long as it reads weights? Ignore the KV cache.",
        answer,
        "sequences",
        given={"peak": bf16_peak(gpu), "rate": bandwidth(gpu), "bits": bits},
        solution=["reads: N x bits / 8 / bandwidth; computes: 2 N B / peak", "B = peak x bits / 16 / bandwidth"],
        mistakes={
            "sparse peak": answer * bf16_sparse(gpu) / bf16_peak(gpu),
            "MAC": 2 * answer,
            "16 bits": answer * 16 / bits,
        },
    )


@template("phases", 2)
def speed_of_a_stream(d: Draw) -> Question:
    """1 / TPOT."""
    gpu, shape = d.accelerator(LARGE), d.model()
    weights = as_said(shape.active)
    step = weights * 2 / bandwidth(gpu)
    return d.ask(
        f"A model multiplies with {billions(weights)} weights in bf16, and the memory bandwidth is "
        f"{rate(bandwidth(gpu))}. How many tokens per second can a single sequence get at most? Ignore the KV cache.",
        1 / step,
        "tokens/s",
        given={"weights": weights, "rate": bandwidth(gpu)},
        solution=[
            f"a step: {bytes_words(weights * 2)} / {rate(bandwidth(gpu))} = {time(step)}",
            "one token per step",
        ],
        mistakes={"inverse": step, "bits": 1 / step / 8},
    )
