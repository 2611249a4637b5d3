"""The roofline: intensity, ridge, what limits, utilizations."""

from __future__ import annotations

from ...operators.products import matmul
from ...phases.bounds import bound
from ..drawing import (
    Draw,
    bandwidth,
    bf16_peak,
    bf16_sparse,
    bytes_words,
    gpu_words,
    peak,
    rate,
    template,
    time,
)
from ..napkins import napkin
from ..question import Question


@template("roofline", 1)
def ridge_point(d: Draw) -> Question:
    """Peak over bandwidth."""
    gpu = d.accelerator()
    answer = gpu.ridge_flops_per_byte("bf16")
    return d.ask(
        f"{gpu_words(gpu)}. What is its ridge point, the arithmetic intensity above which a dense bf16 product is "
        "limited by compute?",
        float(answer),
        "FLOP/byte",
        given={"peak": bf16_peak(gpu), "rate": bandwidth(gpu)},
        solution=[f"{peak(bf16_peak(gpu))} / {rate(bandwidth(gpu))}"],
        mistakes={
            "sparse peak": bf16_sparse(gpu) / bandwidth(gpu),
            "bits": float(answer) / 8,
            "MAC": float(answer) / 2,
        },
    )


@template("roofline", 2)
def intensity_of_a_product(d: Draw) -> Question:
    """FLOPs over bytes of a matrix product."""
    m, k, n = d.pick((1, 8, 64, 256, 2048)), d.whole(2048, 16384, 1024), d.whole(2048, 16384, 1024)
    work = matmul(m, k, n)
    answer = float(work.intensity_flops_per_byte)
    return d.ask(
        f"What is the arithmetic intensity of the product [{m} x {k}] @ [{k} x {n}] in bf16, if each of the three "
        "matrices moves once?",
        answer,
        "FLOP/byte",
        given={"m": m, "k": k, "n": n, "bytes": 2},
        solution=[
            f"FLOPs: 2 x {m} x {k} x {n}",
            f"bytes: 2 x ({m} x {k} + {k} x {n} + {m} x {n})",
            "FLOPs / bytes",
        ],
        mistakes={"MAC": answer / 2, "no output": float(work.flops) / (2 * k * n), "bits": answer * 2},
    )


@template("roofline", 2)
def tokens_to_the_ridge(d: Draw) -> Question:
    """Ridge times bytes over two."""
    gpu, bytes_each = d.accelerator(), d.pick((2.0, 1.0, 0.5))
    ridge = bf16_peak(gpu) / bandwidth(gpu)
    return d.ask(
        f"{gpu_words(gpu)}. A linear layer stores its weights in {8 * bytes_each:g} bits and multiplies in bf16. How "
        "many tokens does a pass need for the layer to be limited by compute? Neglect the traffic of activations.",
        ridge * bytes_each / 2,
        "tokens",
        given={"peak": bf16_peak(gpu), "rate": bandwidth(gpu), "bytes": bytes_each},
        solution=[
            "a weight is read once and multiplied with T tokens: 2 T FLOP for its bytes",
            f"2 T / {bytes_each:g} = {ridge:.4g} FLOP/byte",
        ],
        mistakes={
            "sparse peak": bf16_sparse(gpu) / bandwidth(gpu) * bytes_each / 2,
            "MAC": ridge * bytes_each,
            "ridge itself": ridge,
        },
    )


@template("roofline", 1)
def what_limits_a_product(d: Draw) -> Question:
    """Left or right of the ridge."""
    gpu, m = d.accelerator(), d.pick((1, 4, 16, 64, 1024, 2048, 4096))
    k, n = d.whole(4096, 16384, 4096), d.whole(4096, 16384, 4096)
    found = bound(matmul(m, k, n), gpu)
    limit = str(found.limit)
    intensity, ridge = float(found.intensity_flops_per_byte), bf16_peak(gpu) / bandwidth(gpu)
    return d.ask(
        f"{gpu_words(gpu)}. What limits the product [{m} x {k}] @ [{k} x {n}] in bf16?",
        limit,
        given={"peak": bf16_peak(gpu), "rate": bandwidth(gpu), "m": m, "k": k, "n": n},
        solution=[f"intensity {intensity:.4g} FLOP/byte against a ridge of {ridge:.4g}"],
        mistakes={"wrong resource": "compute" if limit == "memory" else "memory"},
        options=("memory", "compute"),
    )


@template("roofline", 2)
def time_of_a_product(d: Draw) -> Question:
    """The longer of two times."""
    gpu, m = d.accelerator(), d.pick((1, 16, 128, 2048, 8192))
    k, n = d.whole(4096, 16384, 1024), d.whole(4096, 16384, 1024)
    found = bound(matmul(m, k, n), gpu)
    compute, memory = float(found.compute_s), float(found.memory_s)
    return d.ask(
        f"{gpu_words(gpu)}. How many microseconds does the product [{m} x {k}] @ [{k} x {n}] take at least in bf16, "
        "if each of the three matrices moves once?",
        float(found.roofline_s) * 1e6,
        "us",
        given={"peak": bf16_peak(gpu), "rate": bandwidth(gpu), "m": m, "k": k, "n": n},
        solution=[str(line) for line in napkin(found).lines],
        mistakes={
            "wrong resource": min(compute, memory) * 1e6,
            "sum": (compute + memory) * 1e6,
            "sparse peak": max(compute * bf16_peak(gpu) / bf16_sparse(gpu), memory) * 1e6,
        },
    )


@template("roofline", 1)
def attained_under_the_roof(d: Draw) -> Question:
    """Intensity times bandwidth, at most the peak."""
    gpu, intensity = d.accelerator(), d.pick((0.5, 1, 2, 8, 50, 1000, 3000))
    attained = min(intensity * bandwidth(gpu), bf16_peak(gpu))
    return d.ask(
        f"{gpu_words(gpu)}. How many TFLOP/s can an operator with an intensity of {intensity:g} FLOP/byte reach in "
        "bf16?",
        attained / 1e12,
        "TFLOP/s",
        given={"peak": bf16_peak(gpu), "rate": bandwidth(gpu), "intensity": intensity},
        solution=[f"the smaller of {intensity:g} x {rate(bandwidth(gpu))} and {peak(bf16_peak(gpu))}"],
        mistakes={
            "other limit": max(intensity * bandwidth(gpu), bf16_peak(gpu)) / 1e12,
            "sparse peak": min(intensity * bandwidth(gpu), bf16_sparse(gpu)) / 1e12,
        },
    )


@template("roofline", 2)
def model_flops_utilization(d: Draw) -> Question:
    """FLOPs over what the dense peak does in the time."""
    gpu, shape, tokens = d.accelerator(), d.model(), d.whole(1000, 8000, 500)
    reached = d.share(0.2, 0.8)
    weights = round(shape.active / 1e9, 1) * 1e9
    seconds = float(f"{2 * weights * tokens / bf16_peak(gpu) / reached:.3g}")
    answer = 2 * weights * tokens / (bf16_peak(gpu) * seconds)
    return d.ask(
        f"{gpu_words(gpu)}. A model with {weights / 1e9:.1f} billion weights processed a prompt of {tokens:,} tokens "
        f"in {time(seconds)} in bf16. What is the MFU (the share of the peak that was used), without the attention "
        "scores?",
        100 * answer,
        "%",
        given={"peak": bf16_peak(gpu), "weights": weights, "tokens": tokens, "seconds": seconds},
        solution=[f"2 x {weights / 1e9:.1f}e9 x {tokens:,} / ({peak(bf16_peak(gpu))} x {time(seconds)})"],
        mistakes={"sparse peak": 100 * answer * bf16_peak(gpu) / bf16_sparse(gpu), "MAC": 50 * answer},
    )


@template("roofline", 2)
def model_bandwidth_utilization(d: Draw) -> Question:
    """Bytes over what the memory moves in the time."""
    gpu, reached = d.accelerator(), d.share(0.3, 0.9)
    gigabytes, cache = d.whole(8, 60, 4), d.whole(2, 12, 2)
    moved = (gigabytes + cache) * 1e9
    seconds = float(f"{moved / bandwidth(gpu) / reached:.3g}")
    answer = moved / (bandwidth(gpu) * seconds)
    return d.ask(
        f"A decode step on an accelerator with {rate(bandwidth(gpu))} reads {gigabytes} GB of weights and {cache} GB "
        f"of KV cache, and takes {time(seconds)}. What is the MBU (the share of the bandwidth that was used)?",
        100 * answer,
        "%",
        given={"rate": bandwidth(gpu), "weights": gigabytes * 1e9, "cache": cache * 1e9, "seconds": seconds},
        solution=[f"{bytes_words(moved)} / ({rate(bandwidth(gpu))} x {time(seconds)})"],
        mistakes={
            "no cache": 100 * gigabytes * 1e9 / (bandwidth(gpu) * seconds),
            "GiB": 100 * answer * 2**30 / 1e9,
        },
        tolerance=0.03,
    )


@template("roofline", 1)
def bandwidth_of_a_bus(d: Draw) -> Question:
    """Width times rate of a pin, over 8."""
    bits, gigabits = d.pick((128, 192, 256, 384, 512, 5120, 6144, 8192)), d.pick((3.2, 5.2, 6.4, 8.0, 16.0, 21.0, 28.0))
    answer = bits * gigabits / 8
    return d.ask(
        f"A memory bus is {bits} bits wide, and each pin transfers {gigabits:g} Gbit/s. What is the bandwidth, in "
        "GB/s?",
        answer,
        "GB/s",
        given={"bits": bits, "bits_per_s": gigabits * 1e9},
        solution=[f"{bits} x {gigabits:g} / 8"],
        mistakes={"bits": answer * 8, "both edges": answer * 2},
    )


@template("roofline", 1)
def gain_of_a_part(d: Draw) -> Question:
    """Amdahl's law."""
    part, times = d.share(0.2, 0.9), d.pick((1.5, 2, 3, 4, 8))
    answer = 1 / (1 - part + part / times)
    return d.ask(
        f"Operators that take {part:.0%} of a pass become {times:g} times as fast. By what factor does the whole pass "
        "get faster?",
        answer,
        "x",
        given={"share": part, "times": times},
        solution=[f"1 / (1 - {part:g} + {part:g} / {times:g}), Amdahl's law"],
        mistakes={
            "mean of speedups": 1 + part * (times - 1),
            "other share": 1 / (part + (1 - part) / times),
            "whole pass": times,
        },
        tolerance=0.03,
    )
