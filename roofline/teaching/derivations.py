"""Napkins of passes, operators, memory and generations, each line compared with its exact value.

Every number on a line is rounded to two digits before it is used (data-sheet values to three), and the next line
continues with the rounded result.  What the lines omit (norms, residuals, attention FLOPs in decode, the network) shows
up in the deviation from the exact value; the last line is compared with the exact result.
"""

from __future__ import annotations

import numpy as np

from ..footprint.memory_use import Memory
from ..formats import get_format
from ..phases.bounds import Bound
from ..phases.generation import Generation
from ..phases.passes import Phase
from ..phases.totals import total
from ..units import humanize
from .lines import SHEET_DIGITS, Napkin, NapkinLine, given, line, rounded, said


def napkin_of_phase(phase: Phase) -> Napkin:
    """FLOPs first for a prefill; bytes first for a decode step and any other pass."""
    return {"prefill": _prefill, "decode": _decode}.get(phase.name, _any_pass)(phase)


def _weights(phase: Phase) -> NapkinLine:
    """Weights that the pass streams, in the format of its linear layers."""
    bits = _nominal_bits(phase)
    bytes_each = rounded(bits / 8)
    count = rounded(float(phase.weight_bytes) / bytes_each)
    words = f"{said(count)} weights x {said(bytes_each)} B"
    return line(words, "weight_bytes", "weights * bytes", phase.weight_bytes, weights=count, bytes=bytes_each)


def _nominal_bits(phase: Phase) -> float:
    """Bits per weight of the most common format, without scales: 4 for mxfp4, which has 4.25."""
    by_bits: dict[float, float] = {}
    for item in phase.operators:
        bits = item.operator.inputs.get("weight_bits")
        if bits is not None and np.ndim(bits) == 0:
            held = float(item.operator.count * item.operator.work.weight_bytes)
            by_bits[float(bits)] = by_bits.get(float(bits), 0.0) + held
    if not by_bits:
        return float(get_format("bf16").bits)
    return max(by_bits, key=lambda bits: by_bits[bits])


def _memory_rate(phase: Phase) -> tuple[float, str]:
    """Bandwidth of all accelerators, as a number and in words."""
    count = float(phase.deployment.parallel.accelerators)
    rate = rounded(float(np.asarray(phase.deployment.accelerator.memory_bytes_per_s)), SHEET_DIGITS)
    times = "" if count == 1 else f"({count:g} x "
    return count * rate, f"{times}{humanize('bytes_per_s', rate)}{')' if times else ''}"


def _compute_rate(phase: Phase) -> tuple[float, str]:
    """Dense peak of all accelerators for the format of most of the pass, as a number and in words."""
    by_math: dict[str, float] = {}
    for item in phase.operators:
        by_math[item.math] = by_math.get(item.math, 0.0) + float(item.flops)
    math_format = max(by_math, key=lambda name: by_math[name])
    count = float(phase.deployment.parallel.accelerators)
    peak = float(np.asarray(phase.deployment.accelerator.dense_flops_per_s[math_format]))
    rate = rounded(peak, SHEET_DIGITS)
    times = "" if count == 1 else f"({count:g} x "
    return count * rate, f"{times}{humanize('flops_per_s', rate)}{')' if times else ''}"


def _exact_memory_s(phase: Phase) -> float:
    gpu, count = phase.deployment.accelerator, float(phase.deployment.parallel.accelerators)
    return float(phase.moved_bytes) / (float(np.asarray(gpu.memory_bytes_per_s)) * count)


LINEAR = ("matmul", "experts")
"""Kinds of operators that multiply with weights."""


def _exact_compute_s(phase: Phase, kinds: tuple[str, ...] = ()) -> float:
    """Time of the FLOPs of operators (of some kinds) at the peaks of their formats, on all accelerators."""
    local = [item for item in phase.operators if item.operator.message is None]
    wanted = [item for item in local if not kinds or item.operator.kind in kinds]
    share = float(total(item.compute_s for item in wanted)) / float(total(item.flops for item in local))
    return float(phase.flops) * share / float(phase.deployment.parallel.accelerators)


def _linear(phase: Phase) -> tuple[float, float]:
    """Multiply-adds with weights per token, rounded, and their exact FLOPs in the pass on all accelerators."""
    every = float(total(item.flops for item in phase.operators))
    linear = float(total(item.flops for item in phase.operators if item.operator.kind in LINEAR))
    flops = float(phase.flops) * linear / every
    return rounded(flops / (2 * float(phase.tokens))), flops


def _slowest(phase: Phase, memory: NapkinLine, compute: NapkinLine) -> NapkinLine:
    """The longer time, plus that of the network on several accelerators, which does not overlap."""
    longer = "memory" if memory.value >= compute.value else "compute"
    words = f"the longer of {humanize('s', memory.value)} and {humanize('s', compute.value)}"
    times = {"one": memory.value, "other": compute.value}
    network = rounded(float(phase.limited_s.get("network", 0.0)))
    if network == 0:
        return line(f"{words}: {longer}", "roofline_s", "max(one, other)", phase.roofline_s, **times)
    words += f", plus {humanize('s', network)} on the network: {longer}"
    return line(words, "roofline_s", "max(one, other) + network", phase.roofline_s, **times, network=network)


def _title(phase: Phase) -> str:
    serve = phase.deployment
    count = float(serve.parallel.accelerators)
    machine = serve.accelerator.name if count == 1 else f"{count:g} x {serve.accelerator.name}"
    return f"{phase.name} of {serve.model.title or serve.model.name} on {machine}"


def _decode(phase: Phase) -> Napkin:
    """Bytes first: what a step reads and how long that takes; then the FLOPs, which overlap with it."""
    (segment,) = phase.segments
    sequences, context = float(segment.sequences), float(segment.past_tokens)
    weights = _weights(phase)
    cache = _cache(phase, sequences, context)
    rate, rate_words = _memory_rate(phase)
    memory = line(
        f"({humanize('bytes', weights.value)} + {humanize('bytes', cache.value)}) / {rate_words}",
        "memory_s",
        "(one + other) / rate",
        _exact_memory_s(phase),
        one=weights.value,
        other=cache.value,
        rate=rate,
    )
    compute = _token_flops(phase, sequences)
    return Napkin(_title(phase), (weights, cache, memory, compute, _slowest(phase, memory, compute)))


def _cache(phase: Phase, sequences: float, context: float) -> NapkinLine:
    """Cache that the step reads and writes, from the bytes per token."""
    tokens = max(context, 1.0)
    each = rounded(float(phase.cache_bytes) / (sequences * tokens))
    words = f"{said(sequences)} x {said(rounded(tokens))} tokens x {humanize('bytes', each)}"
    inputs = {"sequences": sequences, "tokens": rounded(tokens), "bytes": each}
    return line(words, "cache_bytes", "sequences * tokens * bytes", phase.cache_bytes, **inputs)


def _token_flops(phase: Phase, tokens: float) -> NapkinLine:
    """Time of the multiply-adds with weights, without those of attention."""
    weights, _ = _linear(phase)
    rate, rate_words = _compute_rate(phase)
    words = f"2 x {said(weights)} x {said(rounded(tokens))} tokens / {rate_words}"
    exact = _exact_compute_s(phase, LINEAR)
    inputs = {"weights": weights, "tokens": rounded(tokens), "rate": rate}
    return line(words, "compute_s", "2 * weights * tokens / rate", exact, **inputs)


def _prefill(phase: Phase) -> Napkin:
    """FLOPs first: weights and attention, and how long they take; then the bytes, which overlap with them."""
    tokens = float(phase.tokens)
    weights, linear = _linear(phase)
    products = line(
        f"2 x {said(weights)} weights x {said(rounded(tokens))} tokens",
        "weight_flops",
        "2 * weights * tokens",
        linear,
        weights=weights,
        tokens=rounded(tokens),
    )
    attention = _attention_flops(phase, float(phase.flops) - linear)
    rate, rate_words = _compute_rate(phase)
    compute = line(
        f"({humanize('flops', products.value)} + {humanize('flops', attention.value)}) / {rate_words}",
        "compute_s",
        "(one + other) / rate",
        _exact_compute_s(phase),
        one=products.value,
        other=attention.value,
        rate=rate,
    )
    bytes_rate, bytes_words = _memory_rate(phase)
    read, rest = rounded(float(phase.weight_bytes)), rounded(float(phase.moved_bytes - phase.weight_bytes))
    memory = line(
        f"({humanize('bytes', read)} of weights + {humanize('bytes', rest)} of activations and cache) / {bytes_words}",
        "memory_s",
        "(one + other) / rate",
        _exact_memory_s(phase),
        one=read,
        other=rest,
        rate=bytes_rate,
    )
    return Napkin(_title(phase), (products, attention, compute, memory, _slowest(phase, memory, compute)))


def _attention_flops(phase: Phase, exact: float) -> NapkinLine:
    """Attention from its pairs: each token attends to itself and those before it."""
    (segment,) = phase.segments
    sequences, new, past = (float(v) for v in (segment.sequences, segment.new_tokens, segment.past_tokens))
    pairs = rounded(sequences * new * (past + new / 2))
    each = rounded(exact / pairs) if pairs else 0.0
    words = f"{said(pairs)} pairs x {said(each)} FLOP, all layers and heads"
    return line(words, "attention_flops", "pairs * flops", exact, pairs=pairs, flops=each)


def _any_pass(phase: Phase) -> Napkin:
    """A mixed step: weights stream once for all tokens, whose FLOPs add up."""
    weights = _weights(phase)
    rest = float(phase.moved_bytes - phase.weight_bytes)
    cache = given("activations and cache, read and written", "other_bytes", rest)
    rate, rate_words = _memory_rate(phase)
    memory = line(
        f"({humanize('bytes', weights.value)} + {humanize('bytes', cache.value)}) / {rate_words}",
        "memory_s",
        "(one + other) / rate",
        _exact_memory_s(phase),
        one=weights.value,
        other=cache.value,
        rate=rate,
    )
    compute = _token_flops(phase, float(phase.tokens))
    return Napkin(_title(phase), (weights, cache, memory, compute, _slowest(phase, memory, compute)))


def napkin_of_operator(bound: Bound) -> Napkin:
    """FLOPs, bytes, their times, and the longer time."""
    gpu = bound.accelerator
    flops, moved = rounded(float(bound.flops)), rounded(float(bound.moved_bytes))
    peak = rounded(float(np.asarray(gpu.dense_flops_per_s[bound.math])), SHEET_DIGITS)
    bandwidth = rounded(float(np.asarray(gpu.memory_bytes_per_s)), SHEET_DIGITS)
    first = _work(bound, flops)
    second = given("inputs and outputs, moved once", "moved_bytes", float(bound.moved_bytes))
    compute = line(
        f"{humanize('flops', first.value)} / {humanize('flops_per_s', peak)}",
        "compute_s",
        "one / rate",
        bound.compute_s,
        one=first.value,
        rate=peak,
    )
    memory = line(
        f"{humanize('bytes', moved)} / {humanize('bytes_per_s', bandwidth)}",
        "memory_s",
        "one / rate",
        bound.memory_s,
        one=moved,
        rate=bandwidth,
    )
    words = f"the longer of {humanize('s', compute.value)} and {humanize('s', memory.value)}: {bound.limit}"
    last = line(words, "roofline_s", "max(one, other)", bound.roofline_s, one=compute.value, other=memory.value)
    return Napkin(f"{bound.name} on {gpu.name}", (first, second, compute, memory, last))


def _work(bound: Bound, flops: float) -> NapkinLine:
    """FLOPs of a product from its shape; of anything else as they are."""
    shape = bound.operator.inputs
    if {"m", "k", "n"} <= shape.keys() and float(bound.operator.count) == 1:
        sides = {name: rounded(float(np.asarray(shape[name]))) for name in ("m", "k", "n")}
        words = "2 x " + " x ".join(said(side) for side in sides.values())
        return line(words, "flops", "2 * m * k * n", bound.flops, **sides)
    return given("FLOPs", "flops", float(bound.flops))


def napkin_of_memory(memory: Memory) -> Napkin:
    """Memory of the engine minus the weights, divided by the cache per sequence."""
    serve = memory.deployment
    count = float(serve.parallel.accelerators)
    device = rounded(float(np.asarray(serve.accelerator.memory_bytes)))
    share = serve.engine_fraction * count
    usable_exact = float(np.asarray(serve.accelerator.memory_bytes)) * share
    usable = line(
        f"{share:g} x {humanize('bytes', device)}",
        "usable_bytes",
        "share * bytes",
        usable_exact,
        share=share,
        bytes=device,
    )
    weights_bytes = float(memory.weights_bytes)
    weights = given("weights, copies included", "weights_bytes", weights_bytes)
    left = line(
        f"{humanize('bytes', usable.value)} - {humanize('bytes', weights.value)}",
        "cache_room_bytes",
        "one - other",
        usable_exact - weights_bytes,
        one=usable.value,
        other=weights.value,
    )
    tokens = rounded(float(memory.load.sequence_tokens))
    each = rounded(float(memory.kv_bytes_per_sequence) / float(memory.load.sequence_tokens))
    sequence = line(
        f"{said(tokens)} tokens x {humanize('bytes', each)}",
        "kv_bytes_per_sequence",
        "one * other",
        memory.kv_bytes_per_sequence,
        one=tokens,
        other=each,
    )
    room = max(left.value, 0.0)
    exact = max(usable_exact - weights_bytes, 0.0) / float(memory.kv_bytes_per_sequence)
    last = line(
        f"{humanize('bytes', room)} / {humanize('bytes', sequence.value)} sequences",
        "max_batch",
        "one / other",
        exact,
        one=room,
        other=sequence.value,
    )
    title = f"memory of {serve.model.title or serve.model.name} on {count:g} x {serve.accelerator.name}"
    return Napkin(title, (usable, weights, left, sequence, last))


def napkin_of_generation(found: Generation) -> Napkin:
    """The first token, then the steps."""
    ttft, tpot, whole = (float(value) for value in (found.ttft_s, found.tpot_s, found.total_s))
    steps = (whole - ttft) / tpot if tpot else 0.0
    first = given("the prefill", "ttft_s", ttft)
    step = given("a step", "tpot_s", tpot)
    rest = line(
        f"{said(rounded(steps))} steps x {humanize('s', step.value)}",
        "decode_s",
        "one * other",
        whole - ttft,
        one=rounded(steps),
        other=step.value,
    )
    both = line(
        f"{humanize('s', first.value)} + {humanize('s', rest.value)}",
        "total_s",
        "one + other",
        whole,
        one=first.value,
        other=rest.value,
    )
    share = line(
        f"{humanize('s', first.value)} of {humanize('s', both.value)}",
        "prefill_share",
        "one / other",
        found.prefill_share,
        one=first.value,
        other=both.value,
    )
    return Napkin(f"a generation, by {found.time}", (first, step, rest, both, share))
