"""Mixtures of experts: what is stored, what is read, what is computed."""

from __future__ import annotations

import math

from ...units import plural
from ..drawing import MIXTURES, Draw, UniformModel, as_said, bandwidth, billions, bytes_words, rate, template
from ..question import Question


def _expert(shape: UniformModel) -> int:
    """Parameters of one expert of one layer."""
    return 3 * shape.hidden * shape.intermediate


def distinct(experts: int, top_k: int, tokens: float) -> float:
    """Experts that a batch reads, uniform routing taken: E (1 - (1 - k / E)^T)."""
    missed: float = (1 - top_k / experts) ** tokens
    return experts * (1 - missed)


@template("moe", 2)
def parameters_of_a_token(d: Draw) -> Question:
    """All less the experts that are not taken."""
    shape, top_k = d.model(MIXTURES), d.pick((1, 2, 3, 4, 6))
    unused = shape.layers * (shape.experts - top_k) * _expert(shape)
    answer = shape.total - unused
    return d.ask(
        f"{shape.title} has {billions(shape.total)} parameters, in {shape.layers} layers of {shape.experts} experts "
        f"with {_expert(shape) / 1e6:.4g} million parameters each. If each token is routed to {top_k} of them, how "
        "many billion parameters does a token use, embedding included?",
        answer / 1e9,
        "billion",
        given={
            "total": shape.total,
            "layers": shape.layers,
            "experts": shape.experts,
            "top_k": top_k,
            "expert": _expert(shape),
        },
        solution=[
            f"{shape.experts} - {top_k} experts of each layer are not used",
            f"{billions(shape.total)} - {shape.layers} x {shape.experts - top_k} x {_expert(shape) / 1e6:.4g}e6",
        ],
        mistakes={
            "total parameters": shape.total / 1e9,
            "no shared part": shape.layers * top_k * _expert(shape) / 1e9,
        },
    )


@template("moe", 2)
def experts_of_a_batch(d: Draw) -> Question:
    """Expected distinct experts."""
    experts, top_k = d.pick(((8, 2), (64, 6), (128, 8), (256, 8), (160, 6)))
    tokens = d.pick((2, 4, 8, 16, 32, 64))
    answer = distinct(experts, top_k, tokens)
    return d.ask(
        f"A layer has {experts} experts and routes each token to {top_k} of them, all equally likely. How many "
        f"different experts do {tokens} tokens need on average?",
        answer,
        "experts",
        given={"experts": experts, "top_k": top_k, "tokens": tokens},
        solution=[
            f"an expert gets no token with probability p = (1 - {top_k} / {experts})^{tokens}",
            f"{experts} x (1 - p)",
        ],
        mistakes={"repeats": float(top_k * tokens), "all experts": float(experts), "one token": float(top_k)},
        tolerance=0.03,
    )


@template("moe", 2)
def bytes_of_experts_in_a_step(d: Draw) -> Question:
    """Distinct experts times their bytes."""
    shape, batch, bits = d.model(MIXTURES), d.pick((1, 4, 16, 64)), d.pick((16, 8))
    each = _expert(shape) * bits / 8
    read = shape.layers * distinct(shape.experts, shape.top_k, batch) * each
    return d.ask(
        f"{shape.title} has {shape.layers} layers of {shape.experts} experts with {_expert(shape) / 1e6:.4g} million "
        f"parameters each, in {bits} bits, and routes each token to {shape.top_k} of them, all equally likely. How "
        f"many GB of experts does a decode step of {plural(batch, 'sequence')} read on average?",
        read / 1e9,
        "GB",
        given={
            "layers": shape.layers,
            "experts": shape.experts,
            "top_k": shape.top_k,
            "expert": _expert(shape),
            "batch": batch,
            "bits": bits,
        },
        solution=[
            f"{shape.experts} x (1 - (1 - {shape.top_k} / {shape.experts})^{batch}) = "
            f"{distinct(shape.experts, shape.top_k, batch):.4g} distinct experts per layer",
            f"times {shape.layers} layers and {bytes_words(each)} per expert",
        ],
        mistakes={
            "all experts": shape.layers * shape.experts * each / 1e9,
            "repeats": shape.layers * shape.top_k * batch * each / 1e9,
            "one expert": shape.layers * each / 1e9,
        },
    )


@template("moe", 1)
def floor_of_a_mixture(d: Draw) -> Question:
    """Active weights over bandwidth at batch 1."""
    gpu, shape, bits = d.accelerator(), d.model(MIXTURES), d.pick((16, 8))
    total, active = as_said(shape.total), as_said(shape.active)
    answer = active * bits / 8 / bandwidth(gpu) * 1e3
    return d.ask(
        f"{shape.title} has {billions(total)} parameters and multiplies a token with {billions(active)} of them, in "
        f"{bits} bits. The memory bandwidth is {rate(bandwidth(gpu))}. How many ms does a decode step of one sequence "
        "take at least? Ignore the KV cache.",
        answer,
        "ms",
        given={"total": total, "active": active, "bits": bits, "rate": bandwidth(gpu)},
        solution=[f"{bytes_words(active * bits / 8)} / {rate(bandwidth(gpu))}"],
        mistakes={"total parameters": total * bits / 8 / bandwidth(gpu) * 1e3, "bits": answer * 8},
        tolerance=0.03,
    )


@template("moe", 1)
def memory_of_a_mixture(d: Draw) -> Question:
    """All experts are resident."""
    shape, bits = d.model(MIXTURES), d.pick((16, 8, 6, 5, 4, 3))
    total, active = as_said(shape.total), as_said(shape.active)
    answer = total * bits / 8e9
    return d.ask(
        f"{shape.title} has {billions(total)} parameters, of which a token uses {billions(active)}. How many GB of "
        f"memory do its weights take in {bits} bits?",
        answer,
        "GB",
        given={"total": total, "active": active, "bits": bits},
        solution=[
            "any token may be routed to any expert, so all of them are in memory",
            f"{billions(total)} x {bits / 8:g} B",
        ],
        mistakes={"active parameters": active * bits / 8e9, "GiB": answer * 1e9 / 2**30},
        tolerance=0.03,
    )


@template("moe", 1)
def flops_of_a_mixture(d: Draw) -> Question:
    """Twice the active weights."""
    shape, tokens = d.model(MIXTURES), d.whole(500, 8000, 500)
    total, active = as_said(shape.total), as_said(shape.active)
    answer = 2 * active * tokens / 1e12
    return d.ask(
        f"{shape.title} has {billions(total)} parameters and multiplies a token with {billions(active)} of them. How "
        f"many TFLOP do {tokens:,} tokens take?",
        answer,
        "TFLOP",
        given={"total": total, "active": active, "tokens": tokens},
        solution=[f"2 x {billions(active)} x {tokens:,}"],
        mistakes={"total parameters": 2 * total * tokens / 1e12, "MAC": answer / 2},
    )


@template("moe", 2)
def experts_on_each(d: Draw) -> Question:
    """Experts divide over expert parallelism."""
    shape, ways, bits = d.model(("qwen3-30b-a3b", "qwen3-235b-a22b")), d.pick((2, 4, 8, 16, 32)), d.pick((16, 8, 4))
    answer = shape.layers * shape.experts / ways * _expert(shape) * bits / 8
    return d.ask(
        f"{shape.title} has {shape.layers} layers of {shape.experts} experts with {_expert(shape) / 1e6:.4g} million "
        f"parameters each, in {bits} bits. How many GB of experts does each of {ways} accelerators hold under expert "
        "parallelism?",
        answer / 1e9,
        "GB",
        given={
            "layers": shape.layers,
            "experts": shape.experts,
            "expert": _expert(shape),
            "ways": ways,
            "bits": bits,
        },
        solution=[
            f"{shape.experts} / {ways} experts x {shape.layers} layers x {bytes_words(_expert(shape) * bits / 8)}"
        ],
        mistakes={
            "active parameters": answer / 1e9 * shape.top_k / shape.experts,
            "one layer": answer / shape.layers / 1e9,
            "per device": answer * ways / 1e9,
        },
        tolerance=0.03,
    )


@template("moe", 3)
def bytes_dispatched(d: Draw) -> Question:
    """Each token goes to k experts and comes back."""
    hidden, top_k, tokens = d.pick((2048, 4096, 7168)), d.pick((2, 4, 6, 8)), d.pick((64, 256, 1024, 4096))
    there, back = d.pick((1, 2)), 2
    answer = tokens * top_k * hidden * (there + back)
    return d.ask(
        f"Under expert parallelism a layer sends each of {tokens:,} tokens of width {hidden} to {top_k} experts in "
        f"{8 * there} bits (dispatch) and receives their results in 16 bits (combine). How many MB are sent in total, "
        "if every expert is on another accelerator?",
        answer / 1e6,
        "MB",
        given={"tokens": tokens, "top_k": top_k, "hidden": hidden, "there": there, "back": back},
        solution=[f"{tokens:,} x {top_k} x {hidden} x ({there} + {back}) B"],
        mistakes={
            "one message": tokens * top_k * hidden * there / 1e6,
            "one expert": answer / top_k / 1e6,
        },
        tolerance=0.03,
    )


@template("moe", 3)
def batch_that_reads_most_experts(d: Draw) -> Question:
    """(1 - k / E)^B = the rest."""
    experts, top_k = d.pick(((8, 2), (64, 6), (128, 8), (256, 8), (128, 4)))
    part = d.pick((0.5, 0.8, 0.9, 0.95))
    answer = math.log(1 - part) / math.log(1 - top_k / experts)
    return d.ask(
        f"A layer has {experts} experts and routes each token to {top_k} of them, all equally likely. At what batch "
        f"does a decode step read {part:.0%} of the experts on average? (A fraction of a sequence is fine.)",
        answer,
        "sequences",
        given={"experts": experts, "top_k": top_k, "share": part},
        solution=[
            f"(1 - {top_k} / {experts})^B = {1 - part:.2g}: B = ln {1 - part:.2g} / ln {1 - top_k / experts:.4g}"
        ],
        mistakes={"repeats": part * experts / top_k, "wrong end": math.log(part) / math.log(1 - top_k / experts)},
        tolerance=0.03,
    )


@template("moe", 1)
def tokens_of_an_expert(d: Draw) -> Question:
    """Tokens times k over experts."""
    experts, top_k = d.pick(((8, 2), (64, 6), (128, 8), (256, 8)))
    tokens = d.pick((128, 256, 512, 1024, 2048, 4096, 8192))
    answer = tokens * top_k / experts
    return d.ask(
        f"A layer routes each of {tokens:,} tokens to {top_k} of its {experts} experts. How many tokens does an "
        "expert get on average?",
        answer,
        "tokens",
        given={"tokens": tokens, "experts": experts, "top_k": top_k},
        solution=[f"{tokens:,} x {top_k} / {experts}"],
        mistakes={"one expert": tokens / experts, "repeats": float(tokens * top_k)},
        tolerance=0.02,
    )
