"""Quantization: bits with their scales, what is read, what gets faster."""

from __future__ import annotations

import math

from ...formats import get_format
from ..drawing import (
    WITH_FP8,
    Draw,
    as_said,
    bandwidth,
    bf16_peak,
    billions,
    bytes_words,
    gpu_words,
    peak,
    rate,
    template,
    uniform_model,
)
from ..question import Question


@template("quantization", 1)
def bits_with_scales(d: Draw) -> Question:
    """A scale for each block of values."""
    bits, scale, block = d.pick((3, 4, 6, 8)), d.pick((8, 16, 32)), d.pick((16, 32, 64, 128))
    answer = bits + scale / block
    return d.ask(
        f"A format stores values in {bits} bits, and a scale of {scale} bits for each block of {block} values. How "
        "many bits does a value take in total?",
        answer,
        "bits",
        given={"bits": bits, "scale": scale, "block": block},
        solution=[f"{bits} + {scale} / {block}"],
        mistakes={"no scales": float(bits), "bits": bits + scale / block / 8},
        tolerance=0.005,
    )


@template("quantization", 2)
def bits_of_a_named_format(d: Draw) -> Question:
    """Known block formats."""
    name, bits, scale, zero, block = d.pick(
        (
            ("mxfp4", 4, 8, 0, 32),
            ("nvfp4", 4, 8, 0, 16),
            ("mxfp8", 8, 8, 0, 32),
            ("int4_g128", 4, 16, 4, 128),
            ("int4_g32", 4, 16, 4, 32),
            ("int4_g64", 4, 16, 4, 64),
        )
    )
    total = d.whole(7, 400, 1) * 1e9
    answer = total * get_format(name).bits / 8
    zero_words = f" and a zero point of {zero}" if zero else ""
    return d.ask(
        f"{billions(total)} weights are stored in {name}: {bits} bits per weight, and a scale of {scale} "
        f"bits{zero_words} for each block of {block}. How many GB do they take?",
        answer / 1e9,
        "GB",
        given={"weights": total, "bits": bits, "scale": scale, "zero": zero, "block": block},
        solution=[f"{bits} + ({scale} + {zero}) / {block} = {get_format(name).bits:g} bits per weight"],
        mistakes={"no scales": total * bits / 8e9, "GiB": answer / 2**30},
        tolerance=0.01,
    )


@template("quantization", 2)
def weights_quantized_in_part(d: Draw) -> Question:
    """Embedding and output layer stay in 16 bits."""
    shape, bits = d.model(), d.pick((4, 8))
    table = shape.vocab * shape.hidden
    layers = as_said(shape.total - 2 * table)
    answer = layers * bits / 8 + 2 * table * 2
    return d.ask(
        f"{shape.title} has {billions(layers)} parameters in its layers, and an embedding and an output layer of "
        f"{shape.vocab:,} x {shape.hidden} each. How many GB does it take with the layers in {bits} bits (ignore the "
        "scales) and the other two in 16 bits?",
        answer / 1e9,
        "GB",
        given={"layers": layers, "bits": bits, "vocab": shape.vocab, "hidden": shape.hidden},
        solution=[f"{billions(layers)} x {bits} / 8 B + 2 x {shape.vocab:,} x {shape.hidden} x 2 B"],
        mistakes={
            "everything quantized": (layers + 2 * table) * bits / 8e9,
            "16 bits": (layers + 2 * table) * 2 / 1e9,
        },
        tolerance=0.01,
    )


@template("quantization", 2)
def gain_of_narrow_weights(d: Draw) -> Question:
    """Weights shrink, the cache stays."""
    weights, cache, bits = d.whole(14, 160, 2), d.whole(4, 60, 4), d.pick((4, 8))
    after = weights * bits / 16
    answer = (weights + cache) / (after + cache)
    return d.ask(
        f"A decode step reads {weights} GB of weights in 16 bits and {cache} GB of KV cache, and memory limits it. By "
        f"what factor can it get faster with weights in {bits} bits?",
        answer,
        "x",
        given={"weights": weights * 1e9, "cache": cache * 1e9, "bits": bits},
        solution=[f"({weights} + {cache}) / ({after:g} + {cache})"],
        mistakes={"bits ratio": 16 / bits, "wrong part": (weights + cache) / (weights + cache * bits / 16)},
        tolerance=0.02,
    )


@template("quantization", 1)
def prefill_with_narrow_weights(d: Draw) -> Question:
    """Weight-only quantization computes in 16 bits."""
    bits, tokens = d.pick((4, 8)), d.whole(2000, 16_000, 1000)
    activations = d.pick((16, 8))
    times = 2.0 if activations == 8 else 1.0
    word = "FP8" if activations == 8 else "16 bits"
    bits = 8 if activations == 8 else bits
    return d.ask(
        f"A prefill of {tokens:,} tokens is limited by compute. Its weights are quantized from 16 to {bits} bits, with "
        f"activations in {word}, on a chip that multiplies twice as fast in FP8 as in bf16. By what factor do its "
        "products get faster?",
        times,
        "x",
        given={"bits": bits, "activations": activations, "tokens": tokens},
        solution=[
            "products run in the wider format of the two: if only the weights are narrow, they are widened to 16 bits"
        ],
        mistakes={"bits ratio": 16 / bits},
        tolerance=0.02,
    )


@template("quantization", 2)
def gain_of_fp8_products(d: Draw) -> Question:
    """Amdahl over the share of products."""
    gpu, part = d.accelerator(WITH_FP8), d.share(0.6, 0.95)
    faster = float(gpu.peak_flops_per_s("fp8")) / bf16_peak(gpu)
    answer = 1 / (1 - part + part / faster)
    return d.ask(
        f"{gpu.title} computes {peak(bf16_peak(gpu))} in bf16 and {peak(gpu.peak_flops_per_s('fp8'))} in FP8, both "
        f"dense. A prefill is limited by compute: {part:.0%} of it is products with weights, and the rest stays in "
        "bf16. By what factor does FP8 make the prefill faster?",
        answer,
        "x",
        given={"peak": bf16_peak(gpu), "fp8": float(gpu.peak_flops_per_s("fp8")), "share": part},
        solution=[f"1 / (1 - {part:g} + {part:g} / {faster:.3g})"],
        mistakes={"whole pass": faster, "other share": 1 / (part + (1 - part) / faster)},
        tolerance=0.02,
    )


@template("quantization", 1)
def accelerators_for_the_weights(d: Draw) -> Question:
    """Round up what is left after the reserve."""
    shape, bits = d.model(("llama-3.1-70b", "llama-3.1-405b", "qwen2.5-72b", "qwen3-32b")), d.pick((16, 8, 4))
    memory, fraction = d.pick((24, 48, 80, 141, 192)), d.pick((0.8, 0.9))
    total = as_said(shape.total)
    weights = total * bits / 8
    answer = math.ceil(weights / (fraction * memory * 1e9))
    return d.ask(
        f"A model has {billions(total)} parameters of {bits} bits. An accelerator has {memory} GB, of which the "
        f"engine may use {fraction:.0%}. How many accelerators does it take to hold the weights? Ignore the KV cache.",
        answer,
        "accelerators",
        given={"parameters": total, "bits": bits, "memory": memory * 1e9, "fraction": fraction},
        solution=[
            f"{bytes_words(weights)} / ({fraction:g} x {memory} GB) = {weights / (fraction * memory * 1e9):.3g}",
            f"rounded up to {answer}",
        ],
        mistakes={
            "no reserve": math.ceil(weights / (memory * 1e9)),
            "rounded down": max(math.floor(weights / (fraction * memory * 1e9)), 0),
            "16 bits": math.ceil(total * 2 / (fraction * memory * 1e9)),
        },
        tolerance=0.001,
    )


@template("quantization", 3)
def cache_that_pays_for_its_expansion(d: Draw) -> Question:
    """Break-even of a 4-bit cache that slows steps."""
    slower, weights = d.pick((0.05, 0.08, 0.1, 0.12, 0.15, 0.2)), d.whole(14, 150, 2)
    each = d.pick((57_344, 131_072, 196_608, 262_144, 327_680))
    cache = slower * weights * 1e9 / (1 - (1 + slower) / 4)
    answer = cache / each
    return d.ask(
        f"A decode step reads {weights} GB of weights, and {each:,} bytes of 16-bit KV cache for each cached token. A "
        f"4-bit cache is a quarter of that, but unpacking it makes every step take {slower:.0%} longer than its bytes "
        "do. From how many cached tokens on does a step get faster?",
        answer,
        "tokens",
        given={"weights": weights * 1e9, "bytes": each, "slower": slower},
        solution=[
            f"W + c = {1 + slower:g} (W + c / 4)",
            f"c = {slower:g} W / (1 - {1 + slower:g} / 4) = {bytes_words(cache)}",
        ],
        mistakes={"whole cache": slower * weights * 1e9 / each, "unslowed cache": slower * weights * 1e9 / 0.75 / each},
        tolerance=0.02,
    )


@template("quantization", 1)
def bits_of_a_file(d: Draw) -> Question:
    """Bytes of a file over its parameters."""
    shape = uniform_model(d.pick(("llama-3.1-8b", "llama-3.1-70b", "qwen2.5-7b", "qwen2.5-32b")))
    bits = d.pick((3.9, 4.5, 4.89, 5.7, 6.6, 8.5))
    total = as_said(shape.total)
    gigabytes = float(f"{total * bits / 8e9:.4g}")
    answer = gigabytes * 8e9 / total
    return d.ask(
        f"A GGUF file of {shape.title}, which has {billions(total)} parameters, takes {gigabytes:g} GB. How many "
        "bits does a parameter take on average?",
        answer,
        "bits",
        given={"bytes": gigabytes * 1e9, "parameters": total},
        solution=[f"{gigabytes:g}e9 x 8 / {billions(total)}"],
        mistakes={"GiB": answer * 2**30 / 1e9, "bits": answer / 8},
        tolerance=0.02,
    )


@template("quantization", 2)
def floor_in_a_format(d: Draw) -> Question:
    """Decode floor with scales and an output layer in 16 bits."""
    gpu, shape = d.accelerator(), d.model()
    name = d.pick(("fp8", "mxfp4", "nvfp4", "int4_g128"))
    bits = get_format(name).bits
    table = shape.vocab * shape.hidden
    layers = as_said(shape.active - table)
    read = layers * bits / 8 + 2 * table
    return d.ask(
        f"{gpu_words(gpu)}. A decode step multiplies with {billions(layers)} weights of {bits:g} bits (scales "
        f"included), and with an output layer of {shape.vocab:,} x {shape.hidden} in bf16. How many ms does it take "
        "at least? Ignore the KV cache.",
        read / bandwidth(gpu) * 1e3,
        "ms",
        given={"layers": layers, "bits": bits, "vocab": shape.vocab, "hidden": shape.hidden, "rate": bandwidth(gpu)},
        solution=[f"{bytes_words(layers * bits / 8)} + {bytes_words(2 * table)} over {rate(bandwidth(gpu))}"],
        mistakes={
            "everything quantized": (layers + table) * bits / 8 / bandwidth(gpu) * 1e3,
            "16 bits": (layers + table) * 2 / bandwidth(gpu) * 1e3,
        },
        tolerance=0.02,
    )
