"""Four interview questions about prefill and decode, with new numbers and their pitfalls."""

from __future__ import annotations

from ...formats import get_format
from ...phases.deployment import Deployment
from ...phases.passes import decode, prefill
from ...phases.workload import Workload
from ...techniques.quantization import quantize
from ...units import plural
from ..drawing import (
    LARGE,
    Draw,
    bandwidth,
    bf16_peak,
    bf16_sparse,
    billions,
    bytes_words,
    gpu_words,
    rate,
    template,
    time,
)
from ..napkins import napkin
from ..question import Question

FAMOUS = ("llama-3.1-8b", "llama-3.1-70b", "qwen2.5-72b", "qwen3-32b", "llama-3.1-405b")


@template("interview", 2)
def why_decode_is_memory_bound(d: Draw) -> Question:
    """How much longer a step reads than it computes."""
    gpu, shape = d.accelerator(LARGE), d.model(FAMOUS)
    batch = d.pick((1, 2, 4, 8))
    serve = Deployment(shape.model, gpu)
    step, prompt = decode(serve, Workload(batch=batch), context_tokens=1), prefill(serve, Workload(2000))
    ridge = bf16_peak(gpu) / bandwidth(gpu)
    answer = ridge / batch
    return d.ask(
        f"Why is decode memory-bound and prefill compute-bound? Show it with {shape.title} in bf16 on "
        f"{gpu_words(gpu)}: in a decode step of {plural(batch, 'sequence')}, how many times longer "
        "does it take to read the weights than to compute with them?",
        answer,
        "x",
        given={"peak": bf16_peak(gpu), "rate": bandwidth(gpu), "batch": batch},
        solution=[
            f"each weight is 2 bytes and {2 * batch} FLOP: {batch} FLOP/byte, and the ridge point is {ridge:.4g}",
            f"a prompt of 2,000 tokens has 2,000 FLOP/byte: reading takes {ridge / 2000:.2g} of the time",
            *(str(line) for line in napkin(step).lines),
            f"the prefill of 2,000 tokens takes {time(float(prompt.roofline_s))}, limited by {prompt.limit}",
        ],
        mistakes={
            "sparse peak": answer * bf16_sparse(gpu) / bf16_peak(gpu),
            "MAC": 2 * answer,
            "no batch": ridge,
        },
    )


@template("interview", 1)
def floor_on_decode(d: Draw) -> Question:
    """Weights over bandwidth, in a format."""
    gpu, shape = d.accelerator(LARGE), d.model(FAMOUS)
    name, words = d.pick(
        (
            ("bf16", "in bf16"),
            ("fp8", "with its layers in FP8, the output layer in bf16"),
            ("int4_g128", "with its layers in INT4 (4.15625 bits with scales), the output layer in bf16"),
        )
    )
    serve = Deployment(shape.model, gpu)
    serve = serve if name == "bf16" else quantize(serve, weights=name)
    bits = get_format(name).bits
    step = decode(serve, Workload(batch=1), context_tokens=0)
    table = shape.vocab * shape.hidden
    layers = shape.active - table
    return d.ask(
        f"What is the theoretical floor on decode latency for {shape.title} {words}, on {gpu_words(gpu)}? A step "
        f"multiplies with {billions(layers)} weights in the layers and with an output layer of {shape.vocab:,} x "
        f"{shape.hidden}. Take one sequence with an empty cache, and answer in ms.",
        float(step.floor_s) * 1e3,
        "ms",
        given={
            "layers": layers,
            "bits": bits,
            "vocab": shape.vocab,
            "hidden": shape.hidden,
            "rate": bandwidth(gpu),
        },
        solution=[
            "a step takes at least the time of reading the weights once",
            *(str(line) for line in napkin(step).lines),
        ],
        mistakes={
            "16 bits": 2 * shape.active / bandwidth(gpu) * 1e3,
            "everything quantized": shape.active * bits / 8 / bandwidth(gpu) * 1e3,
            "bits": float(step.floor_s) * 8e3,
            "wrong resource": 2 * shape.active / bf16_peak(gpu) * 1e3,
        },
    )


@template("interview", 3)
def when_disaggregation_pays(d: Draw) -> Question:
    """Stalls of a decode equal its transfer."""
    shape = d.model(FAMOUS)
    tokens, output, gigabytes = d.whole(1000, 8000, 500), d.whole(100, 600, 50), d.pick((25, 50, 100, 200, 450))
    prefill_ms, step_ms = d.whole(80, 900, 20), d.whole(10, 50)
    each = float(shape.model.cache_bytes(1, kv="bf16"))
    transfer = tokens * each / (gigabytes * 1e9)
    decode_s = (output - 1) * step_ms / 1e3
    answer = transfer / (prefill_ms / 1e3 * (decode_s + transfer))
    return d.ask(
        f"When does prefill/decode disaggregation pay off? Take {shape.title} and prompts of {tokens:,} tokens, with "
        f"{each:,.0f} bytes of KV cache per token, which cross a link of {gigabytes} GB/s one way. In a shared pool "
        f"each prefill stops all running sequences for {prefill_ms} ms, so that a request's {output - 1} decode steps "
        f"of {step_ms} ms take longer by a factor of 1 / (1 - rate x prefill). Above how many requests per second do "
        "these stalls cost a request more than the transfer?",
        answer,
        "requests/s",
        given={
            "tokens": tokens,
            "bytes": each,
            "link": gigabytes * 1e9,
            "prefill": prefill_ms / 1e3,
            "steps": output - 1,
            "step": step_ms / 1e3,
        },
        solution=[
            f"transfer: {bytes_words(tokens * each)} / {rate(gigabytes * 1e9)} = {time(transfer)}",
            f"decode D = {output - 1} x {step_ms} ms = {time(decode_s)}",
            "D r T / (1 - r T) = transfer, so r = transfer / (T (D + transfer))",
        ],
        mistakes={
            "both ways": (transfer / 2) / (prefill_ms / 1e3 * (decode_s + transfer / 2)),
            "query heads": _rate(transfer * shape.heads / shape.kv_heads, prefill_ms / 1e3, decode_s),
            "one step": transfer / (prefill_ms / 1e3 * (step_ms / 1e3 + transfer)),
        },
    )


def _rate(transfer: float, prefill_s: float, decode_s: float) -> float:
    """Rate at which stalls and transfer are equal."""
    return transfer / (prefill_s * (decode_s + transfer))


@template("interview", 3)
def why_weights_alone_help(d: Draw) -> Question:
    """The trap: the gain depends on all bytes, the cache included, not on the bits of a weight alone."""
    gpu, shape = d.accelerator(LARGE), d.model(FAMOUS)
    batch, context = d.pick((1, 4, 16, 64)), d.whole(1000, 16_000, 1000)
    each = float(shape.model.cache_bytes(1, kv="bf16"))
    table = shape.vocab * shape.hidden
    layers = shape.active - table
    serve = Deployment(shape.model, gpu)
    load = Workload(batch=batch)
    before = decode(serve, load, context_tokens=context)
    after = decode(quantize(serve, weights="fp8"), load, context_tokens=context)
    answer = float(before.floor_s) / float(after.floor_s)
    return d.ask(
        "Trap: decode is memory-bound, so how much does it help to quantize only the weights? "
        f"{shape.title} runs {plural(batch, 'sequence')} of {context:,} tokens, with {each:,.0f} bytes "
        f"of bf16 cache per token. A step reads {billions(layers)} weights in the layers and an output layer of "
        f"{shape.vocab:,} x {shape.hidden}, all in bf16. By what factor can it get faster with the layers in FP8?",
        answer,
        "x",
        given={
            "layers": layers,
            "vocab": shape.vocab,
            "hidden": shape.hidden,
            "cache": batch * context * each,
            "batch": batch,
            "tokens": context,
            "bytes": each,
        },
        solution=[
            f"before: {bytes_words(2 * (layers + table))} of weights, {bytes_words(batch * context * each)} of cache",
            f"after: {bytes_words(layers + 2 * table)} of weights and the same cache",
            f"the step after, on {gpu.title}:",
            *(str(line) for line in napkin(after).lines),
        ],
        mistakes={
            "bits ratio": 2.0,
            "no batch": 2 * (layers + table) / (layers + 2 * table),
            "cache as well": (2 * (layers + table) + batch * context * each)
            / (layers + 2 * table + batch * context * each / 2),
        },
        tolerance=0.03,
    )
