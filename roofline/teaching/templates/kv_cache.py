"""KV cache: what a token takes, what fits, what attention kinds change."""

from __future__ import annotations

import math

from ...units import plural
from ..drawing import Draw, bandwidth, billions, bytes_words, rate, template
from ..question import Question


@template("kv", 1)
def cache_of_a_token(d: Draw) -> Question:
    """Keys and values of every KV head in every layer."""
    shape, bits = d.model(), d.pick((16, 8))
    answer = float(shape.model.cache_bytes(1, kv="bf16" if bits == 16 else "fp8"))
    return d.ask(
        f"{shape.title} has {shape.layers} layers with {shape.heads} query heads and {shape.kv_heads} KV heads of "
        f"{shape.head_dim}. How many kB of KV cache does a token take in {bits} bits?",
        answer / 1e3,
        "kB",
        given={"layers": shape.layers, "kv_heads": shape.kv_heads, "head_dim": shape.head_dim, "bits": bits},
        solution=[f"2 x {shape.layers} x {shape.kv_heads} x {shape.head_dim} x {bits / 8:g} B"],
        mistakes={
            "query heads": answer / 1e3 * shape.heads / shape.kv_heads,
            "keys alone": answer / 2e3,
            "bits": answer / 1e3 * 8,
        },
    )


@template("kv", 1)
def cache_of_a_sequence(d: Draw) -> Question:
    """Bytes a token times tokens."""
    shape, tokens = d.model(), d.whole(2000, 128_000, 2000)
    each = float(shape.model.cache_bytes(1, kv="bf16"))
    answer = float(shape.model.cache_bytes(tokens, kv="bf16"))
    return d.ask(
        f"{shape.title} keeps {each:,.0f} bytes of KV cache per token. How many GB does a sequence of {tokens:,} "
        "tokens take?",
        answer / 1e9,
        "GB",
        given={"bytes": each, "tokens": tokens},
        solution=[f"{each:,.0f} x {tokens:,} B"],
        mistakes={"GiB": answer / 2**30, "query heads": answer / 1e9 * shape.heads / shape.kv_heads},
        tolerance=0.03,
    )


@template("kv", 2)
def sequences_that_fit(d: Draw) -> Question:
    """Usable memory less weights, over what a sequence takes."""
    memory, weights = d.pick((80, 141, 180, 192, 288)), d.whole(15, 60, 5)
    tokens, kilobytes = d.whole(1000, 16_000, 1000), d.pick((57.344, 131.072, 163.84, 262.144, 327.68))
    fraction = d.pick((0.8, 0.85, 0.9))
    each = tokens * kilobytes * 1e3
    answer = math.floor((fraction * memory * 1e9 - weights * 1e9) / each)
    return d.ask(
        f"An accelerator has {memory} GB, of which the engine may use {fraction:.0%}. The weights take {weights} GB, "
        f"and each token {kilobytes:g} kB of KV cache. How many sequences of {tokens:,} tokens fit at once?",
        answer,
        "sequences",
        given={
            "memory": memory * 1e9,
            "fraction": fraction,
            "weights": weights * 1e9,
            "tokens": tokens,
            "bytes": kilobytes * 1e3,
        },
        solution=[
            f"{fraction:g} x {memory} - {weights} = {fraction * memory - weights:.4g} GB for the cache",
            f"divided by {bytes_words(each)} per sequence, rounded down",
        ],
        mistakes={
            "no reserve": math.floor((memory - weights) * 1e9 / each),
            "no weights": math.floor(fraction * memory * 1e9 / each),
        },
        tolerance=0.03,
    )


@template("kv", 2)
def cache_as_large_as_the_weights(d: Draw) -> Question:
    """Weights over bytes a token."""
    shape = d.model()
    each = float(shape.model.cache_bytes(1, kv="bf16"))
    answer = 2 * shape.active / each
    return d.ask(
        f"A decode step of {shape.title} reads {billions(shape.active)} weights in bf16, and {each:,.0f} bytes of KV "
        "cache for each token in the cache. At how many cached tokens, over all sequences, does it read as much cache "
        "as weights?",
        answer,
        "tokens",
        given={"weights": shape.active, "weight_bytes": 2, "bytes": each},
        solution=[f"{bytes_words(2 * shape.active)} / {each:,.0f} B"],
        mistakes={
            "query heads": answer * shape.kv_heads / shape.heads,
            "keys alone": answer * 2,
        },
    )


@template("kv", 1)
def grouped_query_saving(d: Draw) -> Question:
    """KV heads over query heads."""
    kv, times = d.pick((1, 2, 4, 8)), d.pick((2, 4, 5, 7, 8, 16))
    answer = 100 * (1 - 1 / times)
    return d.ask(
        f"A model has {kv * times} query heads and {plural(kv, 'KV head')}. By what percentage is its KV "
        "cache smaller than with one KV head for each query head?",
        answer,
        "%",
        given={"heads": kv * times, "kv_heads": kv},
        solution=[f"1 - {kv} / {kv * times}"],
        mistakes={"complement": 100 / times},
        tolerance=0.02,
    )


@template("kv", 2)
def time_to_read_the_cache(d: Draw) -> Question:
    """All sequences' cache over the bandwidth."""
    gpu, shape = d.accelerator(), d.model()
    batch, tokens = d.pick((4, 16, 64)), d.whole(2000, 32_000, 2000)
    each = float(shape.model.cache_bytes(1, kv="bf16"))
    read = batch * tokens * each
    return d.ask(
        f"A decode step runs {batch} sequences of {tokens:,} tokens, with {each:,.0f} bytes of KV cache per token. "
        f"The memory bandwidth is {rate(bandwidth(gpu))}. How many ms does it take to read the cache?",
        read / bandwidth(gpu) * 1e3,
        "ms",
        given={"batch": batch, "tokens": tokens, "bytes": each, "rate": bandwidth(gpu)},
        solution=[
            f"{batch} x {tokens:,} x {each:,.0f} B = {bytes_words(read)}",
            f"divided by {rate(bandwidth(gpu))}",
        ],
        mistakes={
            "no batch": read / batch / bandwidth(gpu) * 1e3,
            "query heads": read / bandwidth(gpu) * 1e3 * shape.heads / shape.kv_heads,
        },
    )


@template("kv", 2)
def cache_of_a_latent(d: Draw) -> Question:
    """MLA: rank and rope once a layer, whatever the heads."""
    layers, rank, rope, heads = (
        d.whole(24, 64, 4),
        d.pick((256, 384, 512, 768)),
        d.pick((32, 64)),
        d.pick((32, 64, 128)),
    )
    answer = layers * (rank + rope) * 2
    return d.ask(
        f"Latent attention (MLA) with {heads} heads caches a latent of {rank} values and a shared rotary key of "
        f"{rope} values in each of {layers} layers, in bf16. How many kB does a token take?",
        answer / 1e3,
        "kB",
        given={"layers": layers, "rank": rank, "rope": rope, "bytes": 2},
        solution=[f"({rank} + {rope}) x {layers} x 2 B"],
        mistakes={"heads": answer * heads / 1e3, "twice": 2 * answer / 1e3, "no rope": layers * rank * 2 / 1e3},
        tolerance=0.03,
    )


@template("kv", 3)
def cache_with_windows(d: Draw) -> Question:
    """Layers with a window keep their window."""
    layers, every = d.pick((24, 30, 36, 48, 60)), d.pick((2, 3, 6))
    window, tokens = d.pick((512, 1024, 4096)), d.whole(8000, 128_000, 8000)
    each = d.pick((2048, 4096, 8192))
    full = layers // every
    answer = each * (full * tokens + (layers - full) * min(window, tokens))
    return d.ask(
        f"A model has {layers} layers. One layer in {every} attends to the whole context, the others to the last "
        f"{window:,} tokens. A cached token takes {each:,} bytes in each layer. How many MB of KV cache does a "
        f"sequence of {tokens:,} tokens take?",
        answer / 1e6,
        "MB",
        given={"layers": layers, "every": every, "window": window, "tokens": tokens, "bytes": each},
        solution=[
            f"{full} full layers x {tokens:,} tokens, {layers - full} x {min(window, tokens):,} tokens",
            f"times {each:,} B",
        ],
        mistakes={
            "every layer": each * layers * tokens / 1e6,
            "swapped layers": each * (layers - full) * tokens / 1e6,
        },
        tolerance=0.03,
    )


@template("kv", 3)
def gain_of_a_narrow_cache(d: Draw) -> Question:
    """The cache halves, the weights do not."""
    weights, cache = d.whole(10, 150, 5), d.whole(2, 200, 2)
    answer = (weights + cache) / (weights + cache / 2)
    return d.ask(
        f"A decode step reads {weights} GB of weights and {cache} GB of KV cache in bf16, and memory limits it. By "
        "what factor can it get faster with the cache in FP8?",
        answer,
        "x",
        given={"weights": weights * 1e9, "cache": cache * 1e9},
        solution=[f"({weights} + {cache}) / ({weights} + {cache} / 2)"],
        mistakes={"bits ratio": 2.0, "wrong part": (weights + cache) / (weights / 2 + cache)},
        tolerance=0.02,
    )


@template("kv", 2)
def waste_of_pages(d: Draw) -> Question:
    """The last page is partly empty."""
    page, tokens = d.pick((16, 32, 64, 128, 256)), d.whole(50, 900, 7)
    pages = math.ceil(tokens / page)
    answer = 100 * (pages * page - tokens) / (pages * page)
    return d.ask(
        f"A KV cache is allocated in pages of {page} tokens. What percentage of the space in its pages does a "
        f"sequence of {tokens} tokens leave unused?",
        answer,
        "%",
        given={"page": page, "tokens": tokens},
        solution=[f"{pages} pages hold {pages * page} tokens: ({pages * page} - {tokens}) / {pages * page}"],
        mistakes={
            "inverse": 100 * (pages * page - tokens) / tokens,
            "complement": 100 - answer,
        },
        tolerance=0.02,
    )
