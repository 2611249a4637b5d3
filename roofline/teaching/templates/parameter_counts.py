"""Counting: parameters, FLOPs and bytes."""

from __future__ import annotations

from ...operators.products import matmul
from ..drawing import Draw, as_said, billions, bytes_words, template
from ..question import Question


@template("counting", 1)
def flops_per_token(d: Draw) -> Question:
    """Two FLOPs for each weight that a token is multiplied with."""
    shape = d.model()
    weights = as_said(shape.active)
    return d.ask(
        f"{shape.title} multiplies each token with {billions(weights)} weights. How many GFLOP does a token take, "
        "without the attention scores?",
        2 * weights / 1e9,
        "GFLOP",
        given={"weights": weights},
        solution=[f"a multiply-add is 2 FLOPs: 2 x {billions(weights)} = {2 * weights / 1e9:,.4g} GFLOP"],
        mistakes={"MAC": weights / 1e9, "backward pass": 6 * weights / 1e9},
    )


@template("counting", 1)
def flops_of_a_product(d: Draw) -> Question:
    """2 m k n."""
    m, k, n = d.pick((16, 128, 512, 2000)), d.whole(2048, 16384, 1024), d.whole(2048, 32768, 1024)
    work = matmul(m, k, n)
    return d.ask(
        f"How many GFLOP does the matrix product [{m} x {k}] @ [{k} x {n}] take?",
        float(work.flops) / 1e9,
        "GFLOP",
        given={"m": m, "k": k, "n": n},
        solution=[f"each of the {m} x {n} outputs is {k} multiply-adds: 2 x {m} x {k} x {n} FLOP"],
        mistakes={"MAC": m * k * n / 1e9, "inputs": 2 * k * n / 1e9},
    )


@template("counting", 1)
def bytes_of_a_product(d: Draw) -> Question:
    """Inputs, weights and outputs, each once."""
    m, k, n = d.pick((1, 16, 128, 512, 2000)), d.whole(2048, 16384, 1024), d.whole(2048, 32768, 1024)
    bytes_each = d.pick((1, 2))
    moved = float(matmul(m, k, n).moved_bytes) * bytes_each / 2
    return d.ask(
        f"The matrix product [{m} x {k}] @ [{k} x {n}] reads both inputs and writes its output once, all in "
        f"{8 * bytes_each} bits. How many MB does it move?",
        moved / 1e6,
        "MB",
        given={"m": m, "k": k, "n": n, "bytes": bytes_each},
        solution=[f"({k} x {n} + {m} x {k} + {m} x {n}) x {bytes_each} B"],
        mistakes={
            "no output": (k * n + m * k) * bytes_each / 1e6,
            "bits": moved * 8 / 1e6,
            "GiB": moved / 2**20,
        },
        tolerance=0.02,
    )


@template("counting", 1)
def weights_in_memory(d: Draw) -> Question:
    """Parameters times bytes."""
    shape, bits = d.model(), d.pick((16, 8, 4))
    total = as_said(shape.total)
    answer = total * bits / 8
    return d.ask(
        f"{shape.title} has {billions(total)} parameters. How many GB do they take at {bits} bits each?",
        answer / 1e9,
        "GB",
        given={"parameters": total, "bits": bits},
        solution=[f"{billions(total)} x {bits} / 8 B = {bytes_words(answer)}"],
        mistakes={"GiB": answer / 2**30, "bits": answer * 8 / 1e9},
        tolerance=0.03,
    )


@template("counting", 2)
def parameters_of_an_mlp(d: Draw) -> Question:
    """Three matrices of a gated MLP."""
    shape = d.model()
    one = shape.hidden * shape.intermediate
    parts = shape.model.parameters.by_part
    return d.ask(
        f"{shape.title} has {shape.layers} layers, each with a gated MLP (gate, up and down projections) from width "
        f"{shape.hidden} to {shape.intermediate} and back. How many billion parameters do the MLPs have?",
        parts["mlp"] / 1e9,
        "billion",
        given={"layers": shape.layers, "hidden": shape.hidden, "intermediate": shape.intermediate},
        solution=[f"3 x {shape.hidden} x {shape.intermediate} x {shape.layers}"],
        mistakes={"two matrices": 2 * one * shape.layers / 1e9, "one layer": 3 * one / 1e9},
    )


@template("counting", 2)
def parameters_of_attention(d: Draw) -> Question:
    """Query and output projections by query heads, keys and values by KV heads."""
    shape = d.model()
    width, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    one = 2 * shape.hidden * width + 2 * shape.hidden * kv
    return d.ask(
        f"{shape.title} is {shape.hidden} wide, and its attention has {shape.heads} query heads and {shape.kv_heads} "
        f"KV heads of {shape.head_dim}. How many million parameters do the four projections of one layer have?",
        one / 1e6,
        "million",
        given={
            "hidden": shape.hidden,
            "heads": shape.heads,
            "kv_heads": shape.kv_heads,
            "head_dim": shape.head_dim,
        },
        solution=[
            f"queries and output: 2 x {shape.hidden} x {width}",
            f"keys and values: 2 x {shape.hidden} x {kv}",
        ],
        mistakes={"query heads": 4 * shape.hidden * width / 1e6, "keys alone": (one - shape.hidden * kv) / 1e6},
    )


@template("counting", 1)
def parameters_of_embeddings(d: Draw) -> Question:
    """A table of the vocabulary, and an output layer of its own unless tied."""
    vocab, hidden, tied = d.whole(32_000, 256_000, 8_000), d.whole(2048, 16384, 1024), d.pick((True, False))
    one = vocab * hidden
    words = "share one table" if tied else "are two tables"
    return d.ask(
        f"A model has a vocabulary of {vocab:,} tokens and a width of {hidden}; its embedding and output layer "
        f"{words}. How many million parameters do they have?",
        one * (1 if tied else 2) / 1e6,
        "million",
        given={"vocab": vocab, "hidden": hidden, "tables": 1 if tied else 2},
        solution=[f"{vocab:,} x {hidden} x {1 if tied else 2}"],
        mistakes={"tied": one * (2 if tied else 1) / 1e6},
    )


@template("counting", 2)
def flops_of_a_prompt(d: Draw) -> Question:
    """2 N T."""
    shape, tokens = d.model(), d.whole(500, 16_000, 500)
    weights = as_said(shape.active)
    flops = 2 * weights * tokens
    return d.ask(
        f"A model multiplies each token with {billions(weights)} weights. How many TFLOP does a prompt of {tokens:,} "
        "tokens take, without the attention scores?",
        flops / 1e12,
        "TFLOP",
        given={"weights": weights, "tokens": tokens},
        solution=[f"2 x {billions(weights)} x {tokens:,} FLOP"],
        mistakes={"MAC": flops / 2e12, "backward pass": 3 * flops / 1e12},
    )


@template("counting", 3)
def flops_of_attention(d: Draw) -> Question:
    """Scores and weighted values over half of the square."""
    shape, tokens = d.model(), d.whole(2000, 64_000, 2000)
    width = shape.heads * shape.head_dim
    pairs = tokens * (tokens + 1) / 2
    flops = 4 * shape.layers * width * pairs
    return d.ask(
        f"{shape.title} has {shape.layers} layers with {shape.heads} query heads and {shape.kv_heads} KV heads of "
        f"{shape.head_dim}. How many TFLOP do the attention scores and the weighted sums of values take in the "
        f"prefill of {tokens:,} tokens, if each token attends to itself and to those before it?",
        flops / 1e12,
        "TFLOP",
        given={"layers": shape.layers, "heads": shape.heads, "head_dim": shape.head_dim, "tokens": tokens},
        solution=[
            f"pairs: {tokens:,} x ({tokens:,} + 1) / 2 = {pairs:.4g}",
            f"a pair and head: 2 x {shape.head_dim} for the score, as many for the value",
            f"4 x {shape.head_dim} x {shape.heads} heads x {shape.layers} layers x pairs",
        ],
        mistakes={
            "full square": 2 * flops / 1e12,
            "MAC": flops / 2e12,
            "KV heads": flops / 1e12 * shape.kv_heads / shape.heads,
        },
    )
